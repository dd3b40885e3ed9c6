// fold_strides.c - convolutions of few channels with a stride become ones without it, of more
// channels and fewer taps: the pixels that a step passes over are channels (space to depth; of an
// input gradient the sub-pixel convolution of Shi et al., 2016).
//
// In: a function in its final precision, all weights of convolutions shared. Out: the same values,
// but for the order in which libraries add. Along one axis y[q] is the sum over t of w[t] x[s*q +
// t - p]. Pixel i of x is put at place (i + d)/s as channel (i + d)%s, and tap t likewise with an
// offset of its own, so that taps p - d, p - d + s, ... meet channel 0. Then
//   y[q] = sum over m and r of w'[m, r] x'[q + m - p', r],  p' = (p - d)/s, rounded up
// a convolution of stride 1. All three kinds, and so gradients of any order, have this form alike.
//
// A card's tensor cores take channels by the tile. One channel, or three, fill little of it, and
// each tap takes a tile of its own, of an input gradient each residue of the stride: fewer taps are
// less work. What is around images is smaller, too, as packs of channels need fewer zeros.
//
// Folding is moves, which fusion makes part of the kernels around them. So that a value is stored
// once, an elementwise one that such a product reads is made folded, of folded operands where they
// are, and its other readers look through the moves.
#include "pass.h"

#include "integers.h"

#include <string.h>

enum {
    AxesMost = 3,
    Tile = 32,    // channels
    FoldDepth = 8 // operations between a value and those that are folded already
};

// How the spatial axes of a value are folded into its channels: `step` elements become channels of
// one place. `before`: zeros in front of the first. `extent`: places. What is behind the last
// element is zeros, too.
typedef struct Fold {
    uint32_t n; // axes; 0: not folded
    int64_t step[AxesMost], before[AxesMost], extent[AxesMost];
} Fold;

typedef struct Parts { // of a convolution
    Fold x, w;
    ConvGeom geom; // without stride
} Parts;

typedef struct Folded { // a value's folded form
    uint32_t node;      // 0: none is known
    Fold by;
    bool clean; // are there zeros in front of the first element and behind the last?
} Folded;

typedef struct Folding {
    Arena *arena;
    bool small;         // PassOptions.small_products
    uint8_t *product;   // [old node] a convolution that is folded
    Fold *want;         // [old node] how products read it
    VEC(Folded) folded; // [new node]
} Folding;

// --- which convolutions --------------------------------------------------------------------------

typedef struct Kinds { // of a convolution's values
    Type x, w, y;
} Kinds;

static Kinds kinds_of(const Graph *g, uint32_t id) {
    Op op = (Op)graph_node(g, id)->op;
    const Type *first = node_type(g, node_in(g, id, 0)), *second = node_type(g, node_in(g, id, 1)),
               *own = node_type(g, id);
    return (Kinds){.x = op == OpConvDx ? *own : *first,
                   .w = op == OpConvDw ? *own : *second,
                   .y = op == OpConv     ? *own
                        : op == OpConvDx ? *first
                                         : *second};
}

// Along axis `i` with `d` zeros in front of x. False where the places of x would not all be read.
static bool fold_axis(const Kinds *t, const ConvGeom *c, uint32_t i, int64_t d, Parts *out) {
    int64_t s = c->stride[i], p = c->before[i] - d, k = t->w.dim[2 + i];
    int64_t before = ceil_div(p, s), taps = before + floor_div(k - 1 - p, s) + 1;
    out->x.step[i] = out->w.step[i] = s;
    out->x.before[i] = d;
    out->x.extent[i] = ceil_div(d + t->x.dim[1 + i], s);
    out->w.before[i] = s * before - p;
    out->w.extent[i] = taps;
    out->geom.stride[i] = 1;
    out->geom.before[i] = before;
    out->geom.after[i] = t->y.dim[1 + i] + taps - 1 - before - out->x.extent[i];
    return out->geom.after[i] >= 0;
}

// With the fewest taps.
static bool parts_of(const Kinds *t, const ConvGeom *c, Parts *out) {
    *out = (Parts){.x.n = c->n, .w.n = c->n, .geom = *c};
    for (uint32_t i = 0; i < c->n; i++) {
        int64_t best = 0, taps = INT64_MAX;
        for (int64_t d = 0; d < c->stride[i] && d <= c->before[i]; d++)
            if (fold_axis(t, c, i, d, out) && out->w.extent[i] < taps) {
                best = d;
                taps = out->w.extent[i];
            }
        if (c->dilation[i] > 1 || !fold_axis(t, c, i, best, out))
            return false;
    }
    return true;
}

static int64_t channels_folded(const Fold *f) { // of one
    int64_t n = 1;
    for (uint32_t i = 0; i < f->n; i++)
        n *= f->step[i];
    return n;
}

// Channels times taps, as tensor cores take them.
static double tiles(int64_t channels, uint32_t n, const int64_t taps[]) {
    double t = (double)(channels > Tile ? channels : Tile);
    for (uint32_t i = 0; i < n; i++)
        t *= (double)taps[i];
    return t;
}

// Does the work that is saved, at the rate of tensor cores in convolutions of a few microseconds
// (an H200's in TF32), take longer than the two launches that rearrange what no kernel makes, the
// weights and images?
static bool pays(const Graph *g, uint32_t id, const Kinds *t, const Parts *made) {
    static const double Tensor = 120e12, Launches = 4e-6;
    int64_t c = t->w.dim[1];
    double before = tiles(c, made->geom.n, t->w.dim + 2),
           after = tiles(c * channels_folded(&made->x), made->geom.n, made->w.extent);
    double one = (double)(type_sample(&t->w) / t->w.dim[0]);
    return 1e9 * node_gflop(g, id) * (before - after) / one > Launches * Tensor;
}

static bool parts_find(const Folding *p, const Graph *g, uint32_t id, Parts *out) {
    Op op = (Op)graph_node(g, id)->op;
    if (op != OpConv && op != OpConvDx && op != OpConvDw)
        return false;
    Kinds t = kinds_of(g, id);
    ConvGeom c = conv_geom(node_attr(g, id));
    return c.groups == 1 && !t.w.batched && t.x.dtype != DtF64 && parts_of(&t, &c, out) &&
           channels_folded(&out->x) > 1 && (p->small || pays(g, id, &t, out));
}

static bool products_find(Folding *p, const Graph *g) {
    bool any = false;
    for (uint32_t id = 1; id < g->node.n; id++) {
        Parts made;
        if (!parts_find(p, g, id, &made))
            continue;
        p->product[id] = any = true;
        if (graph_node(g, id)->op != OpConvDx)
            p->want[node_in(g, id, 0)] = made.x;
    }
    return any;
}

// --- folding, as moves ---------------------------------------------------------------------------

// Samples [channels, ...] and weights [out, channels, ...].
typedef enum Form { FormSample, FormWeight } Form;

// Permutes the axes of a value by moving axis `from` to `to`.
static Val move_axis(Val x, uint32_t from, uint32_t to) {
    uint32_t axis[MAX_RANK], n = 0, rank = val_type(x).rank;
    for (uint32_t i = 0; i < rank; i++) {
        if (n == to)
            axis[n++] = from;
        if (i != from)
            axis[n++] = i;
    }
    if (n < rank)
        axis[n] = from;
    return Permute(x, axis);
}

// [.., channels, .., a*step, ..] as [.., step*channels, .., a, ..]
static Val fold_one(Val x, uint32_t channel, uint32_t axis, int64_t step) {
    Type t = val_type(x), split = t;
    split.rank++;
    memmove(split.dim + axis + 1, split.dim + axis, (t.rank - axis) * sizeof *split.dim);
    split.dim[axis] /= step;
    split.dim[axis + 1] = step;
    t.dim[channel] *= step;
    t.dim[axis] /= step;
    return Reshape(move_axis(Reshape(x, split.rank, split.dim), axis + 1, channel), t.rank, t.dim);
}

static Val unfold_one(Val x, uint32_t channel, uint32_t axis, int64_t step) {
    Type t = val_type(x), split = t;
    split.rank++;
    memmove(split.dim + channel + 1, split.dim + channel, (t.rank - channel) * sizeof *split.dim);
    split.dim[channel] = step;
    split.dim[channel + 1] /= step;
    t.dim[channel] /= step;
    t.dim[axis] *= step;
    return Reshape(move_axis(Reshape(x, split.rank, split.dim), channel, axis + 1), t.rank, t.dim);
}

static Val fold(Val x, const Fold *f, Form form) {
    Type t = val_type(x);
    int64_t before[MAX_RANK] = {0};
    for (uint32_t i = 0; i < f->n; i++) {
        before[form + 1 + i] = f->before[i];
        t.dim[form + 1 + i] = f->extent[i] * f->step[i];
    }
    x = Pad(x, before, NULL, t.dim);
    for (uint32_t i = f->n; i-- > 0;)
        if (f->step[i] > 1)
            x = fold_one(x, form, form + 1 + i, f->step[i]);
    return x;
}

// The value of this type that was folded.
static Val unfold(Val x, const Fold *f, Form form, const Type *type) {
    int64_t from[MAX_RANK] = {0};
    for (uint32_t i = 0; i < f->n; i++) {
        from[form + 1 + i] = f->before[i];
        if (f->step[i] > 1)
            x = unfold_one(x, form, form + 1 + i, f->step[i]);
    }
    return Slice(x, from, type->dim, NULL);
}

static Type folded_type(const Type *type, const Fold *f, Form form) {
    Type t = *type;
    t.dim[form] *= channels_folded(f);
    for (uint32_t i = 0; i < f->n; i++)
        t.dim[form + 1 + i] = f->extent[i];
    return t;
}

// --- folded values -------------------------------------------------------------------------------

static bool has_border(const Type *type, const Fold *by) {
    for (uint32_t i = 0; i < by->n; i++)
        if (by->step[i] * by->extent[i] != type->dim[1 + i])
            return true;
    return false;
}

static Folded folded_find(const Folding *p, const Builder *b, uint32_t id, const Fold *by) {
    Folded x = id < p->folded.n ? p->folded.at[id] : (Folded){0};
    bool is_known = x.node && builder_sees(b, x.node) && !memcmp(&x.by, by, sizeof *by);
    return is_known ? x : (Folded){0};
}

// The value of this type that `x` is the folded form of, which is known from now on.
static uint32_t unfolded(Folding *p, Builder *b, Folded x, const Type *type) {
    uint32_t id = unfold((Val){b, x.node}, &x.by, FormSample, type).id;
    while (p->folded.n <= id)
        vec_push(p->arena, &p->folded, (Folded){0});
    p->folded.at[id] = x;
    return id;
}

// Is it folded, or computed elementwise of what is?
static bool comes_folded(const Folding *p, const Builder *b, uint32_t id, const Fold *by,
                         uint32_t depth) {
    const Graph *g = b->g;
    if (folded_find(p, b, id, by).node)
        return true;
    if (!depth || op_info[graph_node(g, id)->op].cls != ClassEW || !builder_sees(b, id))
        return false;
    for (uint32_t k = 0; k < graph_node(g, id)->nin; k++)
        if (type_same_shape(node_type(g, node_in(g, id, k)), node_type(g, id)) &&
            comes_folded(p, b, node_in(g, id, k), by, depth - 1))
            return true;
    return false;
}

// A value of channels alone, for each of the channels that they become.
static Val repeat_channels(Val x, int64_t times) {
    Type t = val_type(x), each = t;
    each.rank = 2;
    each.dim[0] = 1;
    each.dim[1] = t.dim[0];
    x = Reshape(x, each.rank, each.dim);
    each.dim[0] = times;
    t.dim[0] *= times;
    return Reshape(Expand(x, each), t.rank, t.dim);
}

static Folded fold_value(Folding *p, Builder *b, uint32_t id, const Fold *by, uint32_t depth);

// An operand of an elementwise value of this type.
static uint32_t fold_operand(Folding *p, Builder *b, uint32_t id, const Type *type, const Fold *by,
                             uint32_t depth) {
    Type t = *node_type(b->g, id), all = *type;
    Val x = {b, id};
    if (type_sample(&t) == 1)
        return id;
    if (type_sample(&t) == t.dim[0])
        return repeat_channels(x, channels_folded(by)).id;
    if (type_same_shape(&t, type))
        return fold_value(p, b, id, by, depth).node;
    all.batched = t.batched;
    return fold(Expand(x, all), by, FormSample).id;
}

static Folded fold_value(Folding *p, Builder *b, uint32_t id, const Fold *by, uint32_t depth) {
    const Type type = *node_type(b->g, id);
    Folded x = folded_find(p, b, id, by);
    if (x.node)
        return x;
    if (!comes_folded(p, b, id, by, depth))
        return (Folded){fold((Val){b, id}, by, FormSample).id, *by, true};
    uint32_t in[MAX_IN], n = graph_node(b->g, id)->nin;
    for (uint32_t k = 0; k < n; k++)
        in[k] = fold_operand(p, b, node_in(b->g, id, k), &type, by, depth - 1);
    Type to = folded_type(&type, by, FormSample);
    Attr attr = *node_attr(b->g, id);
    uint32_t made = builder_add(b, (Op)graph_node(b->g, id)->op, in, n, &attr, &to);
    return (Folded){made, *by, !has_border(&type, by)};
}

// With zeros around it.
static Folded fold_clean(Folding *p, Builder *b, uint32_t id, const Fold *by) {
    Folded x = fold_value(p, b, id, by, FoldDepth);
    if (x.clean)
        return x;
    Type inside = *node_type(b->g, id);
    inside.batched = false;
    inside.dtype = DtF32;
    Val made = {b, x.node};
    x.node = Where(fold(Filled(b, 1, inside), by, FormSample), made, Num(made, 0)).id;
    x.clean = true;
    return x;
}

// --- the pass ------------------------------------------------------------------------------------

static uint32_t convolve(Folding *p, Rewriter *r, uint32_t id, const Parts *made) {
    Builder *b = &r->to;
    Val in0 = rewritten_in(r, id, 0), in1 = rewritten_in(r, id, 1);
    const Type type = *node_type(r->from, id);
    switch ((int)graph_node(r->from, id)->op) {
    case OpConv:
        return Conv((Val){b, fold_clean(p, b, in0.id, &made->x).node},
                    fold(in1, &made->w, FormWeight), &made->geom)
            .id;
    case OpConvDx:
        in0 = ConvDx(in0, fold(in1, &made->w, FormWeight), &made->geom,
                     folded_type(&type, &made->x, FormSample));
        return unfolded(p, b, (Folded){in0.id, made->x, !has_border(&type, &made->x)}, &type);
    default:
        in0 = (Val){b, fold_clean(p, b, in0.id, &made->x).node};
        in0 = ConvDw(in0, in1, &made->geom, folded_type(&type, &made->w, FormWeight));
        return unfold(in0, &made->w, FormWeight, &type).id;
    }
}

// A sum over all pixels is made of the folded value, as it is stored.
static uint32_t sum(Folding *p, Rewriter *r, uint32_t id) {
    Builder *b = &r->to;
    uint32_t x = rewritten_in(r, id, 0).id, axes = node_axes(r->from, id);
    const Fold by = x < p->folded.n ? p->folded.at[x].by : (Fold){0};
    uint32_t pixels = ((1u << by.n) - 1) << 2;
    if (!by.n || (axes & pixels) != pixels || !folded_find(p, b, x, &by).node)
        return node_copy(r, id);
    Type type = *node_type(r->from, id), each = type;
    Val made = Sum((Val){b, fold_clean(p, b, x, &by).node}, axes);
    if (axes >> 1 & 1)
        return made.id;
    each.rank = 2;
    each.dim[0] = channels_folded(&by);
    each.dim[1] = type.dim[0];
    return Reshape(Sum(Reshape(made, each.rank, each.dim), 1u << 1), type.rank, type.dim).id;
}

// Is a value computed where it is read, so that only its folded form need be stored?
static bool is_inline(const Graph *g, uint32_t id) {
    OpClass c = (OpClass)op_info[graph_node(g, id)->op].cls;
    return node_type(g, id)->batched && (c == ClassEW || c == ClassRNG);
}

static uint32_t rewrite(Rewriter *r, uint32_t id) {
    Folding *p = r->user;
    Parts made;
    if (p->product[id] && parts_find(p, r->from, id, &made))
        return convolve(p, r, id, &made);
    if (graph_node(r->from, id)->op == OpSum)
        return sum(p, r, id);
    uint32_t copy = node_copy(r, id);
    if (!p->want[id].n || !is_inline(r->from, id))
        return copy;
    return unfolded(p, &r->to, fold_clean(p, &r->to, copy, &p->want[id]), node_type(r->from, id));
}

void pass_fold_strides(Arena *perm, const Module *m, Func *f, const PassOptions *o) {
    Arena scratch;
    (void)m;
    if (!o->pack_channels)
        return;
    arena_need(&scratch);
    Folding p = {.arena = &scratch,
                 .small = o->small_products,
                 .product = arena_array(&scratch, uint8_t, f->g.node.n),
                 .want = arena_array(&scratch, Fold, f->g.node.n)};
    if (products_find(&p, &f->g))
        func_rewrite(perm, f, f->g.batch, rewrite, &p);
    arena_release(&scratch);
}
