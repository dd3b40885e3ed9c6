// unfold.c - convolutions by kernels that differ from sample to sample, as matrix products.
//
// In: a function without Grad or Pin. Out: the same values, but for rounding, where all weights of
// convolutions are shared. A kernel w of each sample is a matrix that multiplies the unfolded input
// u (im2col), [channels of a group * taps, positions]:
//     Conv  y = w u        ConvDw  w = gy u'        ConvDx  u = w' gy, folded back to x
// Per-sample kernels come from dynamic convolutions and from per-sample weight gradients. Of the
// latter only ConvDw is left here: w is the same for all samples (FOLD shared_factor).
#include "pass.h"

typedef struct Windows { // how a convolution reads its input
    Arena *a;
    ConvGeom geom;
    Type x, w, y;
    int64_t taps, positions;
    int64_t padded[MAX_RANK]; // [1 + axes] extents of x between its borders
} Windows;

static Windows windows_of(Arena *a, Rewriter *r, uint32_t id) {
    Op op = (Op)graph_node(r->from, id)->op;
    Type own = *node_type(r->from, id), in0 = val_type(rewritten_in(r, id, 0)),
         in1 = val_type(rewritten_in(r, id, 1));
    Windows k = {.a = a,
                 .geom = conv_geom(node_attr(r->from, id)),
                 .x = op == OpConvDx ? own : in0,
                 .w = op == OpConvDw ? own : in1,
                 .y = op == OpConv     ? own
                      : op == OpConvDx ? in0
                                       : in1,
                 .taps = 1,
                 .positions = 1};
    k.padded[0] = k.x.dim[0];
    for (uint32_t i = 0; i < k.geom.n; i++) {
        k.taps *= k.w.dim[2 + i];
        k.positions *= k.y.dim[1 + i];
        k.padded[1 + i] = k.x.dim[1 + i] + k.geom.before[i] + k.geom.after[i];
    }
    return k;
}

// Where tap `tap` reads first.
static void tap_from(const Windows *k, int64_t tap, int64_t from[MAX_RANK]) {
    from[0] = 0;
    for (uint32_t i = k->geom.n; i-- > 0;) {
        from[1 + i] = tap % k->w.dim[2 + i] * k->geom.dilation[i];
        tap /= k->w.dim[2 + i];
    }
}

// The channels' step is 1.
static void steps(const Windows *k, int64_t step[MAX_RANK]) {
    step[0] = 1;
    for (uint32_t i = 0; i < k->geom.n; i++)
        step[1 + i] = k->geom.stride[i];
}

// [channels, a, extents of y]
static void with_taps(const Windows *k, int64_t channels, int64_t a, int64_t dim[MAX_RANK]) {
    dim[0] = channels;
    dim[1] = a;
    for (uint32_t i = 0; i < k->geom.n; i++)
        dim[2 + i] = k->y.dim[1 + i];
}

static void borders(const Windows *k, int64_t before[MAX_RANK]) {
    before[0] = 0;
    for (uint32_t i = 0; i < k->geom.n; i++)
        before[1 + i] = k->geom.before[i];
}

static int64_t inner(const Windows *k) { // extent of what is summed: channels of a group * taps
    return k->w.dim[1] * k->taps;
}

static Val matrix(const Windows *k, Val v, int64_t rows, int64_t columns) {
    return Reshape(v, 3, (int64_t[]){k->geom.groups, rows / k->geom.groups, columns});
}

// x [c, ...] to [groups, inner, positions].
static Val unfold(const Windows *k, Val x) {
    int64_t from[MAX_RANK], step[MAX_RANK], dim[MAX_RANK], before[MAX_RANK], count[MAX_RANK];
    Val *tap = arena_array(k->a, Val, (size_t)k->taps);
    borders(k, before);
    steps(k, step);
    with_taps(k, k->x.dim[0], 1, dim);
    count[0] = k->x.dim[0];
    for (uint32_t i = 0; i < k->geom.n; i++)
        count[1 + i] = k->y.dim[1 + i];
    Val wide = Pad(x, before, NULL, k->padded);
    for (int64_t t = 0; t < k->taps; t++) {
        tap_from(k, t, from);
        tap[t] = Reshape(Slice(wide, from, count, step), k->geom.n + 2, dim);
    }
    return matrix(k, Concat(tap, (uint32_t)k->taps, 1), k->x.dim[0] * k->taps, k->positions);
}

// Its adjoint.
static Val fold(const Windows *k, Val u) {
    int64_t from[MAX_RANK], step[MAX_RANK], dim[MAX_RANK], before[MAX_RANK], count[MAX_RANK];
    Val sum = {0};
    borders(k, before);
    steps(k, step);
    with_taps(k, k->x.dim[0], k->taps, dim);
    u = Reshape(u, k->geom.n + 2, dim);
    with_taps(k, k->x.dim[0], 1, count);
    for (uint32_t i = 0; i < k->geom.n; i++)
        dim[1 + i] = k->y.dim[1 + i];
    for (int64_t t = 0; t < k->taps; t++) {
        tap_from(k, t, from);
        Val one = Slice(u, (int64_t[MAX_RANK]){0, t}, count, NULL);
        one = Pad(Reshape(one, k->geom.n + 1, dim), from, step, k->padded);
        sum = sum.id ? Add(sum, one) : one;
    }
    return Slice(sum, before, k->x.dim, NULL);
}

static Val product(Rewriter *r, uint32_t id, Arena scratch) {
    enum { Group = 1, Row, Inner, Pixel };
    static const uint8_t w[] = {Group, Row, Inner}, u[] = {Group, Inner, Pixel},
                         y[] = {Group, Row, Pixel};
    Windows k = windows_of(&scratch, r, id);
    Val a = rewritten_in(r, id, 0), b = rewritten_in(r, id, 1), made;
    Op op = (Op)graph_node(r->from, id)->op;
    if (op == OpConv) {
        made = Dot(matrix(&k, b, k.w.dim[0], inner(&k)), w, unfold(&k, a), u, y, 3, true);
        return Reshape(made, k.y.rank, k.y.dim);
    }
    if (op == OpConvDw) {
        made = Dot(matrix(&k, b, k.y.dim[0], k.positions), y, unfold(&k, a), u, w, 3, true);
        return Reshape(made, k.w.rank, k.w.dim);
    }
    made = Dot(matrix(&k, b, k.w.dim[0], inner(&k)), w, matrix(&k, a, k.y.dim[0], k.positions), y,
               u, 3, true);
    return fold(&k, made);
}

static bool has_own_kernels(const Graph *g, uint32_t id) {
    Op op = (Op)graph_node(g, id)->op;
    if (op == OpConvDw)
        return node_type(g, id)->batched;
    return (op == OpConv || op == OpConvDx) && node_type(g, node_in(g, id, 1))->batched;
}

static uint32_t unfolded(Rewriter *r, uint32_t id) {
    const Arena *scratch = r->user;
    return has_own_kernels(r->from, id) ? product(r, id, *scratch).id : node_copy(r, id);
}

void pass_unfold(Arena *perm, const Module *m, Func *f, const PassOptions *o) {
    Arena scratch;
    uint32_t id = 1;
    (void)m, (void)o;
    while (id < f->g.node.n && !has_own_kernels(&f->g, id))
        id++;
    if (id == f->g.node.n)
        return;
    arena_need(&scratch);
    func_rewrite(perm, f, f->g.batch, unfolded, &scratch);
    arena_release(&scratch);
}
