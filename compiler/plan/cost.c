// cost.c - static estimates of what a region costs, by a roofline: arithmetic or memory traffic,
// whichever takes longer.
#include "stages.h"

#include <math.h>

static const double CardFlops = 1.5e14, CardHalfFlops = 3.5e14; // cosmogan's products on an H200
static const double CardBandwidth = 3e12;

size_t region_bytes(const Plan *p, const Region *r) {
    size_t sum = 0;
    for (uint32_t i = 0; i < r->in.n; i++)
        sum += plan_bytes(p, r->in.at[i]);
    for (uint32_t i = 0; i < r->out.n; i++)
        sum += plan_bytes(p, r->out.at[i]);
    return sum;
}

static double region_gflop(const Plan *p, const Region *r) {
    double gflop = 0;
    for (uint32_t i = 0; i < r->node.n; i++)
        gflop += node_gflop(&p->func->g, r->node.at[i]);
    return gflop;
}

double region_seconds(const Plan *p, const Region *r) {
    return fmax(gflop_seconds(region_gflop(p, r)), loop_seconds((double)region_bytes(p, r)));
}

double card_seconds(const Plan *p, const Region *r) {
    double flops = dtype_size[p->real] < 4 ? CardHalfFlops : CardFlops;
    return fmax(region_gflop(p, r) * 1e9 / flops, (double)region_bytes(p, r) / CardBandwidth);
}
