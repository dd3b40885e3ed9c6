// dnn_tiles.c - convolutions in bf16 on a matrix unit, by products of our own (tiles.c).
//
// A row of the image is a pixel of the result, its columns the pixels under the kernel:
//   y  = image(x) . w'                    w packed once a block
//   gx = image(y) . w of a phase          for each residue of the stride (DnnPhase), into its
//   pixels gw = y' . image(x)
#include "tiles.h"

#include "integers.h"

#include <string.h>

enum { LEAST_CHANNELS = 16 };

static int64_t least(int64_t a, int64_t b) {
    return a < b ? a : b;
}

static int64_t most(int64_t a, int64_t b) {
    return a > b ? a : b;
}

// An image with zeros around it; itself where there are to be none.
static dnnl_status_t surround(Dnn *d, DnnCall *call, const DnnTensor *t, const DnnShape *shape,
                              const int64_t before[DNN_AXES], const int64_t after[DNN_AXES],
                              TileImage *out) {
    TileCopy *copy = dnn_job(d, sizeof *copy);
    int axes = shape->n - 2;
    bool same = true;
    DnnShape made = {.n = 2 + DNN_AXES, .dim = {shape->dim[0], shape->dim[1]}, .type = DtBF16};
    *copy = (TileCopy){.from = t->at, .n = shape->dim[0], .c = shape->dim[1]};
    for (int i = 0; i < DNN_AXES; i++) {
        copy->x[i] = i < DNN_AXES - axes ? 1 : shape->dim[2 + i - (DNN_AXES - axes)];
        copy->before[i] = before[i];
        copy->made[i] = made.dim[2 + i] = before[i] + copy->x[i] + after[i];
        same = same && copy->made[i] == copy->x[i];
        out->axis[i].x = copy->made[i];
    }
    out->c = copy->c;
    out->at = copy->from;
    if (same)
        return dnnl_success;
    dnn_channels_last(&made);
    DnnLayoutRef layout = dnn_keep_layout(d, &made);
    if (!layout)
        return dnnl_out_of_memory;
    out->at = NULL;
    out->offset = copy->offset = dnn_transient(d, layout).offset;
    dnn_add_host(call, tiles_run()->copy, copy);
    return dnnl_success;
}

// The grid and the kernel over an image that has its surroundings; p: the padding it had not.
static void view(Dnn *d, TileImage *j, const DnnAxis grid[DNN_AXES], const int64_t before[DNN_AXES],
                 int64_t samples) {
    int64_t taps = grid[0].k * grid[1].k * grid[2].k;
    int64_t *tap = dnn_job(d, (size_t)taps * sizeof *tap);
    j->rows = samples;
    for (int i = 0; i < DNN_AXES; i++) {
        int64_t x = j->axis[i].x;
        j->axis[i] = grid[i];
        j->axis[i].x = x;
        j->rows *= grid[i].y;
    }
    for (int64_t i = 0; i < taps; i++) {
        const DnnAxis *g = j->axis;
        const int64_t t[] = {i / g[2].k / g[1].k, i / g[2].k % g[1].k, i % g[2].k};
        for (int k = 0; k < DNN_AXES; k++)
            tap[i] = tap[i] * g[k].x + t[k] * g[k].d - g[k].p + before[k];
        tap[i] *= j->c;
    }
    j->columns = taps * j->c;
    j->tap = tap;
}

// x under the kernel of the convolution.
static dnnl_status_t image_of_x(Dnn *d, DnnCall *call, const DnnProblem *p, TileImage *out) {
    DnnAxis a[DNN_AXES];
    int64_t before[DNN_AXES], after[DNN_AXES];
    dnn_axes(&p->conv, a);
    for (int i = 0; i < DNN_AXES; i++) {
        before[i] = most(a[i].p, 0);
        after[i] = most((a[i].y - 1) * a[i].s + (a[i].k - 1) * a[i].d - a[i].p - a[i].x + 1, 0);
    }
    dnnl_status_t s = surround(d, call, &p->t[0], &p->conv.src, before, after, out);
    view(d, out, a, before, p->conv.src.dim[0]);
    return s;
}

// Steps between the pixels of an image of `axis`, each `every` of them.
static void steps_of(const int64_t extent[DNN_AXES], const int64_t every[DNN_AXES], int64_t c,
                     int64_t step[1 + DNN_AXES]) {
    for (int i = DNN_AXES; i-- > 0; c *= extent[i])
        step[1 + i] = c * every[i];
    step[0] = c;
}

// --- products ------------------------------------------------------------------------------------

// As many rows at once as near memory has room for, fewer where threads would idle.
static void divide(TileProduct *j) {
    j->parts = ceil_div(j->made, TILE_MADE);
    int64_t share = ceil_div(j->image.rows * j->parts, dnn_threads());
    j->rows = least(TILE_ROWS, ceil_div(share, TILE_WIDE) * TILE_WIDE);
}

static dnnl_status_t add_product(Dnn *d, DnnCall *call, TileProduct *j, uint32_t weights,
                                 uint64_t form) {
    const TileRun *run = tiles_run();
    DnnShape shape = dnn_matrix(tile_blocks(j->image.columns) * TILE_WIDE,
                                tile_blocks(j->made) * TILE_WIDE, DtBF16);
    DnnLayoutRef layout = dnn_keep_layout(d, &shape);
    DnnTensor packed;
    bool fresh;
    if (!layout)
        return dnnl_out_of_memory;
    dnnl_status_t s = dnn_copy_of(d, weights, form, layout, layout, &packed, &fresh);
    if (s != dnnl_success)
        return s;
    j->packed = packed.at;
    j->offset = packed.offset;
    divide(j);
    dnn_stage(d, 1, run->room * (size_t)dnn_threads());
    if (fresh)
        dnn_add_host(call, run->pack, j);
    dnn_add_host(call, run->multiply, j);
    return s;
}

static dnnl_status_t add_forward(Dnn *d, DnnCall *call, const DnnProblem *p) {
    const DnnConv *c = &p->conv;
    TileProduct *j = dnn_job(d, sizeof *j);
    *j = (TileProduct){
        .made = c->dst.dim[1], .weights = p->t[1].at, .to = p->t[2].at, .type = c->dst.type};
    int64_t extent[DNN_AXES];
    dnnl_status_t s = image_of_x(d, call, p, &j->image);
    for (int i = 0; i < DNN_AXES; i++)
        extent[i] = j->image.axis[i].y;
    steps_of(extent, (const int64_t[]){1, 1, 1}, j->made, j->step);
    return s == dnnl_success ? add_product(d, call, j, p->weights, 1) : s;
}

// The kernel elements of a phase in the order in which they meet y.
static const int64_t *taps_of(Dnn *d, const DnnAxis a[DNN_AXES], const DnnPhase f[DNN_AXES]) {
    int64_t n = f[0].taps * f[1].taps * f[2].taps;
    int64_t *tap = dnn_job(d, (size_t)n * sizeof *tap);
    for (int64_t u = 0; u < n; u++) {
        const int64_t at[] = {u / f[2].taps / f[1].taps, u / f[2].taps % f[1].taps, u % f[2].taps};
        for (int i = 0; i < DNN_AXES; i++)
            tap[u] = tap[u] * a[i].k + f[i].first + a[i].s * (f[i].taps - 1 - at[i]);
    }
    return tap;
}

// The pixels of x at one residue of the stride.
static dnnl_status_t add_phase(Dnn *d, DnnCall *call, const DnnProblem *p, const TileImage *y,
                               const int64_t before[DNN_AXES], const int64_t residue[DNN_AXES]) {
    const DnnConv *c = &p->conv;
    DnnPhase f[DNN_AXES];
    DnnAxis a[DNN_AXES], grid[DNN_AXES];
    TileProduct *j = dnn_job(d, sizeof *j);
    dnn_axes(c, a);
    *j = (TileProduct){.image = *y,
                       .made = c->src.dim[1],
                       .weights = p->t[1].at,
                       .elements = a[0].k * a[1].k * a[2].k,
                       .type = c->src.type};
    uint64_t form = 2;
    int64_t extent[DNN_AXES], every[DNN_AXES], first = 0;
    for (int i = 0; i < DNN_AXES; i++) {
        f[i] = dnn_phase(&a[i], residue[i]);
        grid[i] = (DnnAxis){a[i].y, f[i].grid, f[i].taps, 1, 1, f[i].before};
        form = (form * 32 + (uint64_t)a[i].s) * 32 + (uint64_t)f[i].first;
        extent[i] = a[i].x;
        every[i] = a[i].s;
    }
    view(d, &j->image, grid, before, c->src.dim[0]);
    steps_of(extent, every, j->made, j->step);
    for (int i = 0; i < DNN_AXES; i++)
        first += residue[i] * j->step[1 + i] / a[i].s;
    j->to = (char *)p->t[0].at + (size_t)first * dtype_size[c->src.type];
    j->element = taps_of(d, a, f);
    return add_product(d, call, j, p->weights, form);
}

static dnnl_status_t add_phases(Dnn *d, DnnCall *call, const DnnProblem *p) {
    DnnAxis a[DNN_AXES];
    int64_t before[DNN_AXES] = {0}, after[DNN_AXES] = {0};
    TileImage y = {0};
    dnn_axes(&p->conv, a);
    for (int i = 0; i < DNN_AXES; i++)
        for (int64_t r = 0; r < a[i].s; r++) {
            DnnPhase f = dnn_phase(&a[i], r);
            before[i] = most(before[i], f.before);
            after[i] = most(after[i], f.grid + f.taps - 1 - f.before - a[i].y);
        }
    dnnl_status_t s = surround(d, call, &p->t[2], &p->conv.dst, before, after, &y);
    for (int64_t i = 0; i < a[0].s * a[1].s * a[2].s && s == dnnl_success; i++)
        s = add_phase(d, call, p, &y, before,
                      (const int64_t[]){i / a[2].s / a[1].s, i / a[2].s % a[1].s, i % a[2].s});
    return s;
}

// --- the weights' gradient -----------------------------------------------------------------------

static dnnl_status_t add_gradient(Dnn *d, DnnCall *call, const DnnProblem *p) {
    enum { NearBytes = 1 << 18 };
    const TileRun *run = tiles_run();
    TileGradient *j = dnn_job(d, sizeof *j);
    *j = (TileGradient){.y = p->t[2].at, .o = p->conv.dst.dim[1], .to = p->t[1].at};
    dnnl_status_t s = image_of_x(d, call, p, &j->image);
    int64_t o = tile_blocks(j->o) * TILE_WIDE;
    int64_t rows = NearBytes / (int64_t)sizeof(uint16_t) / o / TILE_TERMS * TILE_TERMS;
    j->at_once = least(most(rows, TILE_TERMS), tile_blocks(j->image.rows) * TILE_WIDE);
    dnn_stage(d, 0,
              (size_t)(j->at_once * o) * sizeof(uint16_t) +
                  (size_t)(j->at_once / TILE_WIDE) * sizeof(TileRows));
    dnn_stage(d, 1, run->room * (size_t)dnn_threads());
    if (j->image.rows > TILE_TERMS)
        dnn_stage(d, 2, (size_t)(j->image.columns * o) * sizeof(float));
    dnn_add_host(call, run->gradient, j);
    return s;
}

// --- whether it pays -----------------------------------------------------------------------------

static bool suits(DnnConvKind kind, const DnnConv *c) {
    const DnnShape *a = kind == DnnConvData ? &c->dst : &c->src;
    const DnnShape *b = kind == DnnConvWeights ? &c->dst : &c->weights;
    const DnnShape *to = kind == DnnConvForward ? &c->dst
                         : kind == DnnConvData  ? &c->src
                                                : &c->weights;
    bool last = c->src.stride[1] == 1 && c->dst.stride[1] == 1 && c->weights.n == c->src.n;
    bool made = to->type == DtF32 || (to->type == DtBF16 && kind != DnnConvWeights);
    return a->type == DtBF16 && b->type == DtBF16 && made && last;
}

// 3.x has products for weight gradients as well ("brgconv_bwd_w"): 480 to 1,100 GFLOP/s of a core
// over lines of 12 pixels and more, where 2.6's reach 150 to 700 and ours 330 to 850.
static bool gradient_pays(Dnn *d, const DnnConv *c, int64_t line, bool strided) {
    enum { Narrow = 16, ManyChannels = 64, MoreChannels = 128 };
    int64_t out = c->dst.dim[1];
    if (line > Narrow && (!strided || out < ManyChannels))
        return false;
    if (strstr(dnn_library_name(d, DnnConvWeights, c), "brgconv_bwd_w"))
        return line <= Narrow && out >= MoreChannels;
    return true;
}

// Where products of our own are faster than the library's convolutions. Those keep the unit busy
// over wide lines with stride 1 (1,100 to 1,500 GFLOP/s of a core) and forward; over 4 to 8 pixels
// they reach 30 to 800, input gradients with a stride 250 to 500 in 2.6. Here they reach 600 to
// 1,100, as do 3.7's strided input gradients. Of three axes the library is not asked (dnn_api.c).
static bool pays(Dnn *d, DnnConvKind kind, const DnnConv *c) {
    enum { Narrow = 8 };
    DnnAxis a[DNN_AXES];
    dnn_axes(c, a);
    int64_t line = a[DNN_AXES - 1].y, strides = a[0].s * a[1].s * a[2].s;
    int64_t in = c->src.dim[1], out = c->dst.dim[1];
    if ((kind == DnnConvData ? out : in) % TILE_WIDE ||
        (kind == DnnConvData ? in : out) < LEAST_CHANNELS)
        return false;
    if (c->src.n - 2 == DNN_AXES)
        return true;
    switch (kind) {
    case DnnConvForward:
        return line <= Narrow;
    case DnnConvData:
        return line <= Narrow || strides > 1;
    case DnnConvWeights:
        return line <= Narrow || gradient_pays(d, c, line, strides > 1);
    }
    return false;
}

// An input gradient has a phase for each residue of the stride.
static bool has_phases(const DnnConv *c) {
    DnnAxis a[DNN_AXES];
    dnn_axes(c, a);
    return dnn_phases_of(a) > 0;
}

dnnl_status_t dnn_tiles(Dnn *d, DnnCall *call, const DnnProblem *p, bool *done) {
    static dnnl_status_t (*const add[])(Dnn *, DnnCall *, const DnnProblem *) = {
        add_forward, add_phases, add_gradient};
    if (!tiles_run() || !suits(p->kind, &p->conv) || !pays(d, p->kind, &p->conv) ||
        (p->kind == DnnConvData && !has_phases(&p->conv)))
        return dnnl_success;
    dnnl_status_t s = add[p->kind](d, call, p);
    *done = s == dnnl_success;
    return s;
}
