// floor_report.c - what a step's launches would take on an H100 by arithmetic alone, as a table for
// docs/performance.md: bytes at the bandwidth of its memory, operations at the peak of its tensor
// cores, as data sheets give both. Nothing is measured. Each block counts once; a launch that needs
// less than SHORT is bound by how soon the next one can start.
//
//   build/tests/floor_report f32|bf16|f16 MODEL.gan[:BATCH]...
#include "stages.h"
#include "report.h"

#include <stdio.h>

static const double BANDWIDTH = 3.35e12; // bytes a second
static const double SHORT = 2e-6;        // seconds
// Operations a second: TF32 for f32.
static const double peak[DtCount] = {[DtF32] = 494.7e12, [DtBF16] = 989.4e12, [DtF16] = 989.4e12};

typedef struct Least { // of launches of one kind
    uint32_t launches, brief;
    double bytes, gflop, s, s_computing;
} Least;

static double gflop_of(const Plan *p, const Region *r) {
    double x = 0;
    for (uint32_t i = 0; i < r->node.n; i++)
        x += node_gflop(&p->func->g, r->node.at[i]);
    return x;
}

static void add_launch(const Plan *p, Launch l, Dtype real, Least *out) {
    double bytes = 0, gflop = 0;
    for (uint32_t i = 0; i < l.instances; i++) {
        const Region *r = &p->region.at[p->merge.at[l.first + i]];
        bytes += (double)region_bytes(p, r);
        gflop += r->kind == RegionCall ? gflop_of(p, r) : 0;
    }
    double moving = bytes / BANDWIDTH, computing = gflop * 1e9 / peak[real];
    double s = moving > computing ? moving : computing;
    out->launches++;
    out->bytes += bytes;
    out->gflop += gflop;
    out->s += s;
    out->s_computing += computing > moving ? s : 0;
    out->brief += s < SHORT;
}

static GanStatus report(Arena a, Str model, Dtype real) {
    CompileOptions o;
    Front f;
    Compiled made = {0};
    Least of[2] = {{0}}; // our kernels, calls of libraries
    TRY(report_model(model, real, &o));
    front_init(&f, &a);
    TRY(compile_file(&f, &o, &made));
    const Plan *p = &made.step;
    for (uint32_t i = 0; i < p->launch.n; i++)
        add_launch(p, p->launch.at[i], real,
                   &of[p->region.at[p->launch.at[i].region].kind == RegionCall]);
    const Least *ours = &of[0], *calls = &of[1];
    uint32_t launches = ours->launches + calls->launches, brief = ours->brief + calls->brief;
    double s = ours->s + calls->s;
    printf(
        "| %.*s, %lld | %u, %u | %.0f, %.0f | %.1f | %.3f | %.3f, %.3f | %.1f | %u (%.0f %%) |\n",
        SARG(made.module.name), (long long)made.module.batch, ours->launches, calls->launches,
        ours->bytes / 1e6, calls->bytes / 1e6, calls->gflop, 1e3 * ours->s,
        1e3 * (calls->s - calls->s_computing), 1e3 * calls->s_computing, 1e6 * s / launches, brief,
        100.0 * brief / launches);
    return GAN_OK;
}

int main(int argc, char **argv) {
    Arena a;
    Dtype real = report_real(argc, argv);
    if (real == DtCount || peak[real] <= 0) {
        fprintf(stderr, "usage: floor_report f32|bf16|f16 MODEL.gan[:BATCH]...\n");
        return 2;
    }
    GanStatus st = arena_init(&a, 0);
    printf(
        "| %s | launches: kernels, calls | MB they move | GFLOP of calls | kernels, ms | calls: by "
        "bytes, by operations, ms | mean of a launch, us | below %.0f us |\n"
        "| --- | --: | --: | --: | --: | --: | --: | --: |\n",
        argv[1], 1e6 * SHORT);
    for (int i = 2; st == GAN_OK && i < argc; i++)
        st = report(a, str_c(argv[i]), real);
    if (st != GAN_OK)
        fprintf(stderr, "floor_report: %s\n", gan_error());
    arena_release(&a);
    return st == GAN_OK ? 0 : 1;
}
