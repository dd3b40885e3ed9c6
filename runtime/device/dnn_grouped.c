// dnn_grouped.c - convolutions in many narrow groups, depthwise ones above all, by loops of our own
// (grouped.c), where the library has none for them.
//
// The library has vector code for depthwise convolutions in two dimensions, for weight gradients of
// up to 3 x 3 only. Elsewhere its vector code fills every group up to 16 channels, or it multiplies
// matrices group by group. Measured on one core with AVX-512, f32, GFLOP/s before and after:
// depthwise weight gradients, 5x5 to 31x31, 2 to 8 to 40 to 81; depthwise in one and three
// dimensions, all directions, 1 to 6 to 23 to 62; a dilated one's gradients 4 to 18; groups of two
// channels 10 to 34; groups of four, one dimension, 41 elements, stride 4, weight gradient 2 to 34.
#include "grouped.h"

#include "integers.h"

#include <string.h>
enum {
    WINDOW_FLOATS = 1 << 16, // of a tile, where it can be cut: a quarter of a near cache
    LEAST_TILE = 4,          // positions along an axis that is cut
    LEAST_LINE = 32,         // along the last
    PARTS = 8,               // of a weight gradient's sum
    MOST_TERMS = 1 << 14,
};

static const GroupedRun *run_of(void) {
    return OF_VECTOR_LEVEL(&grouped_run_v1, &grouped_run_v3, &grouped_run_v4);
}

// --- the shape -----------------------------------------------------------------------------------

static GroupedAxis axis_of(DnnConvKind kind, const DnnAxis *a) {
    GroupedAxis g = {.read = a->x, .made = a->y, .step = a->s, .phases = 1, .lo = -a->p};
    g.reach = (a->k - 1) * a->d + 1;
    if (kind == DnnConvData) {
        int64_t far = (a->k - 1) * a->d - a->p; // pixel 0 receives from position -far/s on
        g = (GroupedAxis){.read = a->y, .made = a->x, .step = 1, .phases = a->s};
        g.lo = ceil_div(-far, a->s);
        g.reach = (a->s - 1 + a->p) / a->s - g.lo + 1;
    }
    g.positions = g.tile = ceil_div(g.made, g.phases);
    return g;
}

// Which residue of the made pixels kernel element t belongs to, and where in the reach it reads.
static int64_t phase_of(DnnConvKind kind, const DnnAxis *a, const GroupedAxis *g, int64_t t,
                        int64_t *at) {
    if (kind != DnnConvData) {
        *at = t * a->d;
        return 0;
    }
    int64_t r = (t * a->d - a->p) % a->s;
    r += r < 0 ? a->s : 0;
    *at = (r + a->p - t * a->d) / a->s - g->lo;
    return r;
}

static int64_t window_floats(const Grouped *j) {
    int64_t n = j->inputs * GROUPED_LANES;
    for (int i = 0; i < DNN_AXES; i++)
        n *= j->axis[i].window;
    return n;
}

static void cut(GroupedAxis *a, int64_t tile) {
    a->tile = tile;
    a->tiles = ceil_div(a->positions, tile);
    a->window = (tile - 1) * a->step + a->reach;
}

// Cuts the image into tiles whose windows stay in the near cache, outer axes first.
static void tiles_set(Grouped *j) {
    for (int i = 0; i < DNN_AXES; i++)
        cut(&j->axis[i], j->axis[i].positions);
    for (int i = 0; i < DNN_AXES; i++) {
        GroupedAxis *a = &j->axis[i];
        int64_t least = i == DNN_AXES - 1 ? LEAST_LINE : LEAST_TILE;
        while (window_floats(j) > WINDOW_FLOATS && a->tile >= 2 * least)
            cut(a, (a->tile + 1) / 2);
    }
}

// Lists the terms, by phase, and in it by input and kernel element.
static void terms_set(Dnn *d, Grouped *j) {
    const GroupedAxis *a = j->axis;
    const DnnAxis *of = j->of;
    int64_t phases = a[0].phases * a[1].phases * a[2].phases, n = 0, all = j->inputs * j->taps;
    int64_t *list = dnn_job(d, (size_t)(3 * all + phases + 1) * sizeof *list);
    j->tap = list;
    j->input = list + all;
    j->offset = list + 2 * all;
    j->first = list + 3 * all;
    for (int64_t phase = 0; phase < phases; phase++) {
        for (int64_t i = 0; i < all; i++) {
            int64_t t = i % j->taps, input = i / j->taps, at[DNN_AXES];
            int64_t r = phase_of(j->kind, &of[0], &a[0], t / of[2].k / of[1].k, &at[0]);
            r = r * a[1].phases + phase_of(j->kind, &of[1], &a[1], t / of[2].k % of[1].k, &at[1]);
            r = r * a[2].phases + phase_of(j->kind, &of[2], &a[2], t % of[2].k, &at[2]);
            if (r != phase)
                continue;
            j->tap[n] = t;
            j->input[n] = input;
            j->offset[n++] =
                (((input * a[0].window + at[0]) * a[1].window + at[1]) * a[2].window + at[2]) *
                GROUPED_LANES;
        }
        j->first[phase + 1] = n;
    }
}

static int64_t pixels_of(const DnnShape *s) {
    int64_t n = 1;
    for (int i = 2; i < s->n; i++)
        n *= s->dim[i];
    return n;
}

static Grouped grouped_of(DnnConvKind kind, const DnnConv *c, const DnnTensor t[3]) {
    const int64_t *w = c->weights.dim; // [g, o/g, i/g, k...]
    GroupedImage x = {t[0].at, c->src.type, c->src.dim[1], w[2], pixels_of(&c->src)};
    GroupedImage y = {t[2].at, c->dst.type, c->dst.dim[1], w[1], pixels_of(&c->dst)};
    bool data = kind == DnnConvData;
    Grouped j = {.kind = kind,
                 .read = data ? y : x,
                 .made = data ? x : y,
                 .weights = t[1].at,
                 .weight_type = c->weights.type,
                 .n = c->src.dim[0],
                 .share = 1,
                 .taps = 1};
    dnn_axes(c, j.of);
    for (int i = 0; i < DNN_AXES; i++) {
        j.axis[i] = axis_of(kind, &j.of[i]);
        j.taps *= j.of[i].k;
    }
    j.inputs = j.read.group;
    if (j.made.c <= GROUPED_LANES / 2)
        j.share = GROUPED_LANES / j.made.c < j.n ? GROUPED_LANES / j.made.c : j.n;
    j.blocks = ceil_div(j.made.c, GROUPED_LANES);
    j.units = ceil_div(j.n, j.share);
    return j;
}

// --- whether it pays -----------------------------------------------------------------------------

static bool is_real(Dtype t) {
    return t == DtF32 || t == DtBF16;
}

static bool suits(const DnnConv *c, const Grouped *j) {
    int64_t most = j->share * (j->read.pixels * j->read.c > j->made.pixels * j->made.c
                                   ? j->read.pixels * j->read.c
                                   : j->made.pixels * j->made.c);
    return c->src.stride[1] == 1 && c->dst.stride[1] == 1 && is_real(c->src.type) &&
           is_real(c->weights.type) && is_real(c->dst.type) && most <= INT32_MAX &&
           j->inputs * j->taps <= MOST_TERMS;
}

typedef enum Way { WayNone, WayDepthwise, WayVectors, WayProducts } Way;

// What the library would do. It names its implementations: vector code for depthwise convolutions
// ("jit_dw", "brdgmm_dw"), vector code that fills groups up to 16 channels, or a matrix product for
// each group ("gemm").
static Way way_of_library(const char *name) {
    if (!*name || strstr(name, "ref"))
        return WayNone;
    return strstr(name, "_dw") ? WayDepthwise : strstr(name, "gemm") ? WayProducts : WayVectors;
}

// The bounds are where both take equally long. Large kernels repay the copy of a window.
static bool pays(Way library, const Grouped *j) {
    bool f32 = j->read.type == DtF32, large = j->taps > 32;
    int64_t wide = j->read.group > j->made.group ? j->read.group : j->made.group;
    switch (library) {
    case WayNone: // else dnn_conv.c finds a way
        return j->kind != DnnConvForward || wide <= 16;
    case WayDepthwise:
        return j->share > 1;
    case WayVectors:
        return j->read.group * j->made.group <= (f32 && large                       ? 16
                                                 : f32 || j->kind == DnnConvWeights ? 15
                                                                                    : 4);
    case WayProducts:
        return wide <= (f32 ? 16 : 8);
    }
    return false;
}

// --- the steps -----------------------------------------------------------------------------------

static void add_steps(Dnn *d, DnnCall *call, Grouped *j) {
    const GroupedRun *run = run_of();
    bool weights = j->kind == DnnConvWeights;
    const GroupedAxis *a = j->axis;
    int64_t line = weights ? a[0].tile * a[1].tile * a[2].tile : a[2].tile;
    j->room = window_floats(j) + line * GROUPED_LANES;
    dnn_stage(d, 1, (size_t)(j->room * dnn_threads()) * sizeof(float));
    dnn_add_host(call, weights ? run->weights_gradient : run->pack_weights, j);
    dnn_add_host(call, weights ? run->add_parts : run->convolve, j);
}

dnnl_status_t dnn_grouped(Dnn *d, DnnCall *call, const DnnProblem *p, bool *done) {
    DnnConvKind kind = p->kind;
    const DnnConv *c = &p->conv;
    const DnnTensor *t = p->t;
    if (c->weights.n == c->src.n)
        return dnnl_success;
    Grouped *j = dnn_job(d, sizeof *j);
    *j = grouped_of(kind, c, t);
    if (!suits(c, j) || !pays(way_of_library(dnn_library_name(d, kind, c)), j))
        return dnnl_success;
    tiles_set(j);
    terms_set(d, j);
    int64_t all = j->units * j->axis[0].tiles * j->axis[1].tiles * j->axis[2].tiles;
    j->parts = kind != DnnConvWeights ? 1 : all < PARTS ? all : PARTS;
    size_t packed = (size_t)(j->parts * j->blocks * j->inputs * j->taps) * GROUPED_LANES;
    j->packed = dnn_own(d, packed * sizeof *j->packed);
    if (!j->packed)
        return dnnl_out_of_memory;
    add_steps(d, call, j);
    *done = true;
    return dnnl_success;
}
