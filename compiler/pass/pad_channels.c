// pad_channels.c - convolutions of few channels, such as an image's three, get channels of zeros up
// to a pack of 16 bytes, which is what a card's tensor cores load; and matrices of odd rows rows of
// packs.
//
// In: a function in its final precision, all weights of convolutions shared. Out: the same values,
// but for the order in which libraries add. For channels that are no multiple of a pack, libraries
// have engines for the other cores, or copy operands and results in every call. Where it pays, the
// operands of a product are padded, and its result is a slice of one with more channels.
//
// Pads and slices are moves, which fusion makes part of the kernels around them. So that a value is
// stored once, an elementwise one that such a product reads is made with the added channels, and
// its other readers take their part of it. Where its operands have them, too, and zeros make a zero
// (widen), it is computed over all of them: an activation of a padded result, or its gradient,
// remains a loop over aligned packs.
#include "pass.h"

#include "integers.h"

#include <math.h>

enum {
    PackBytes = 16,
    FewChannels = 8,
    CacheBytes = 32 << 20,
    WidenDepth = 8 // operations between a value and those that have the channels already
};

typedef struct Wide { // a value with more channels
    uint32_t node;    // 0: none is known
    double added;     // what every added element is; NaN: not known
} Wide;
static const Wide unknown = {0, NAN};

typedef struct Padding {
    Arena *arena;
    bool small;      // PassOptions.small_products
    uint8_t *padded; // [old node] a product that is
    Type *want;      // [old node] the type in which products read it; rank 0: as it is
    VEC(Wide) wide;  // [new node]
} Padding;

// --- which products ------------------------------------------------------------------------------

// The operands and the result of a product.
typedef struct Parts {
    Type type[3];
} Parts;

static Parts parts_of(const Graph *g, uint32_t id) {
    return (Parts){
        {*node_type(g, node_in(g, id, 0)), *node_type(g, node_in(g, id, 1)), *node_type(g, id)}};
}

static int64_t packed(int64_t channels, uint8_t dtype) {
    return (int64_t)round_up((size_t)channels, PackBytes / dtype_size[dtype]);
}

// The channels that activations of type `t` get. Up to 16 bytes cuDNN's heuristics rarely name the
// engines of a card's own (67 on an H100) first, from eight channels on they do. What is larger
// than its cache gets no more than it must.
static int64_t packed_channels(const Graph *g, const Type *t) {
    Type few = *t;
    int64_t least = packed(t->dim[0], t->dtype);
    few.dim[0] = FewChannels;
    return least < FewChannels && type_bytes(g, &few) <= CacheBytes ? FewChannels : least;
}

static bool pad_conv(const Graph *g, uint32_t id, Parts *p) {
    Op op = (Op)graph_node(g, id)->op;
    Type *x = &p->type[op == OpConvDx ? 2 : 0], *w = &p->type[op == OpConvDw ? 2 : 1],
         *y = &p->type[op == OpConv ? 2 : op == OpConvDw];
    if (conv_geom(node_attr(g, id)).groups != 1 || w->batched)
        return false;
    x->dim[0] = w->dim[1] = packed_channels(g, x);
    y->dim[0] = w->dim[0] = packed_channels(g, y);
    return true;
}

// Of matrices: an axis of samples and one of each sample, or two shared ones.
static bool pad_dot(Parts *p) {
    uint8_t dtype = p->type[0].dtype;
    for (uint32_t k = 0; k < 3; k++) {
        Type *t = &p->type[k];
        if (t->rank + t->batched > 2)
            return false;
        for (uint32_t i = 0; i < t->rank; i++)
            t->dim[i] = packed(t->dim[i], dtype);
    }
    return true;
}

// Does an elementwise kernel, or several, write this operand for no other reason?
static bool is_made_here(const Graph *g, uint32_t id) {
    while (op_info[graph_node(g, id)->op].cls == ClassMOVE && graph_node(g, id)->nin == 1)
        id = node_in(g, id, 0);
    OpClass c = (OpClass)op_info[graph_node(g, id)->op].cls;
    return c == ClassEW || c == ClassRNG;
}

static double grown(const Graph *g, const Type *from, const Type *to) {
    return (double)type_bytes(g, to) - (double)type_bytes(g, from);
}

// Does a padded product save more time than the added channels take to write and read? The rates
// are an H200's: cuDNN's engines for few channels do 10 to 14e12 operations a second, cuBLAS's for
// odd matrices 25e12, those for packs in TF32 ten times as many. What no other kernel makes is
// copied, once for all products, by a launch; copies of weights share one. Less than a launch is
// not worth it.
static bool pays(const Padding *p, const Graph *g, uint32_t id, const Parts *from,
                 const Parts *to) {
    static const double Conv = 12e12, Dot = 25e12, Tensor = 120e12, Memory = 3.5e12, Start = 2e-6;
    double before = 1e9 * node_gflop(g, id), after = before, seconds = Start;
    for (uint32_t k = 0; k < 3; k++) {
        const Type *was = &from->type[k], *is = &to->type[k];
        double more = grown(g, was, is);
        bool copied = k < 2 && more > 0 && !is_made_here(g, node_in(g, id, k)) &&
                      !type_same_shape(&p->want[node_in(g, id, k)], is);
        seconds += (2 * more + (copied ? 2 * (double)type_bytes(g, was) : 0)) / Memory +
                   (copied && was->batched ? Start : 0);
        double share = (double)type_sample(is) / (double)type_sample(was);
        after = before * share > after ? before * share : after;
    }
    seconds += after / Tensor;
    return seconds < before / (graph_node(g, id)->op == OpDot ? Dot : Conv);
}

// The parts that product `id` would get; false where they are what it has.
static bool grow(const Graph *g, uint32_t id, Parts *to) {
    if (node_family(g, id) != FamilyProduct || node_type(g, id)->dtype == DtF64)
        return false;
    Parts from = parts_of(g, id);
    bool grows = false;
    *to = from;
    if (!(graph_node(g, id)->op == OpDot ? pad_dot(to) : pad_conv(g, id, to)))
        return false;
    for (uint32_t k = 0; k < 3; k++)
        grows |= grown(g, &from.type[k], &to->type[k]) > 0;
    return grows;
}

// Marks products that are padded, and what they read; false: no more. One that pays pads values
// that others read.
static bool mark_padded(Padding *p, const Graph *g) {
    bool more = false;
    for (uint32_t id = 1; id < g->node.n; id++) {
        Parts to;
        if (p->padded[id] || !grow(g, id, &to))
            continue;
        Parts from = parts_of(g, id);
        if (!p->small && !pays(p, g, id, &from, &to))
            continue;
        p->padded[id] = more = true;
        for (uint32_t k = 0; k < 2; k++)
            if (!type_same_shape(&from.type[k], &to.type[k]))
                p->want[node_in(g, id, k)] = to.type[k];
    }
    return more;
}

// --- values with more channels -------------------------------------------------------------------

static Wide wide_of(const Padding *p, const Builder *b, uint32_t id, const Type *want) {
    Wide w = id < p->wide.n ? p->wide.at[id] : unknown;
    return w.node && builder_sees(b, w.node) && type_same_shape(node_type(b->g, w.node), want)
               ? w
               : unknown;
}

static void set_wide(Padding *p, uint32_t id, Wide w) {
    while (p->wide.n <= id)
        vec_push(p->arena, &p->wide, unknown);
    p->wide.at[id] = w;
}

static Val pad_to(Val x, const Type *want) {
    return Pad(x, NULL, NULL, want->dim);
}

// The part of a wide value that is the value, which is known to be wide from now on.
static uint32_t narrow(Padding *p, Builder *b, Wide w, const Type *type) {
    uint32_t id = Slice((Val){b, w.node}, NULL, type->dim, NULL).id;
    set_wide(p, id, w);
    return id;
}

// The elements added to an operand.
typedef struct Added {
    double x;   // each of them; NaN: not known
    bool as_is; // they repeat elements of the value itself
} Added;

// What an elementwise operation makes of the elements added to its operands. A product with zero,
// or a quotient of it, is zero but for an infinity, a NaN or a zero divisor (as of the gradient of
// a square root): none among those that are known, or that the value itself is computed from.
static double added_by(Builder *b, Op op, uint32_t n, const Added *from, uint8_t dtype) {
    uint32_t in[MAX_IN];
    Type scalar = {.dtype = dtype};
    bool known = true, as_is = true, zero = from[0].x == 0 && op_is(op, TraitLinearFirst);
    double made;
    for (uint32_t k = 0; k < n; k++) {
        known &= !isnan(from[k].x);
        as_is &= !isnan(from[k].x) || from[k].as_is;
        zero |= from[k].x == 0 && op_is(op, TraitBilinear);
    }
    if (!known)
        return zero && as_is ? 0 : NAN;
    for (uint32_t k = 0; k < n; k++)
        in[k] = Number(b, from[k].x).id;
    uint32_t id = builder_add(b, op, in, n, NULL, &scalar); // which folds
    return node_is_const(b->g, id, &made) ? made : NAN;
}

typedef enum Growth { GrowthNone, GrowthSome, GrowthUnclear } Growth;

// Does an operand of type `t` of a value of type `type` grow where that does, to *to? Where it is
// repeated along all that is added, it stays as it is.
static Growth growth(const Type *t, const Type *type, const Type *want, Type *to) {
    Growth made = GrowthNone;
    *to = *t;
    for (uint32_t i = 0; i < t->rank; i++) {
        bool adds = type->dim[i] != want->dim[i];
        if (adds && t->dim[i] == 1 && type->dim[i] == 1)
            return GrowthUnclear; // one channel or all of them: extents of 1 do not say
        if (adds && t->dim[i] > 1) {
            to->dim[i] = want->dim[i];
            made = GrowthSome;
        }
    }
    return made;
}

// `id` with the shape of `want`, where it is known or made of such values; else unknown. With
// depth: an elementwise value is made of its operands, padded, if one of them is known.
static Wide widen(Padding *p, Builder *b, uint32_t id, const Type *want, uint32_t depth) {
    Wide known = wide_of(p, b, id, want), x[MAX_IN];
    Op op = (Op)graph_node(b->g, id)->op;
    uint32_t in[MAX_IN], n = graph_node(b->g, id)->nin;
    Added added[MAX_IN];
    Type type = *node_type(b->g, id), to = *want, grown[MAX_IN];
    bool some = false, lacks = false;
    double c;
    if (known.node || !depth || op_info[op].cls != ClassEW || !builder_sees(b, id))
        return known;
    for (uint32_t k = 0; k < n; k++) {
        uint32_t from = in[k] = node_in(b->g, id, k);
        const Type t = *node_type(b->g, from);
        Growth grows = growth(&t, &type, want, &grown[k]);
        if (grows == GrowthUnclear)
            return unknown;
        x[k] = grows == GrowthNone ? (Wide){from, node_is_const(b->g, from, &c) ? c : NAN}
               : t.batched         ? widen(p, b, from, &grown[k], depth - 1)
                                   : (Wide){pad_to((Val){b, from}, &grown[k]).id, 0};
        some |= grows == GrowthSome && t.batched && x[k].node;
        lacks |= !x[k].node;
    }
    if (lacks && !some)
        return unknown;
    for (uint32_t k = 0; k < n; k++) {
        if (!x[k].node)
            x[k] = (Wide){pad_to((Val){b, in[k]}, &grown[k]).id, 0};
        added[k] = (Added){x[k].added, x[k].node == in[k]};
        in[k] = x[k].node;
    }
    to.dtype = type.dtype;
    Attr attr = *node_attr(b->g, id);
    Wide made = {builder_add(b, op, in, n, &attr, &to), added_by(b, op, n, added, type.dtype)};
    if (!type_same_shape(node_type(b->g, made.node), want))
        return unknown;
    set_wide(p, id, made);
    return made;
}

// `id` with zeros around it.
static Wide zero_padded(Padding *p, Builder *b, uint32_t id, const Type *want) {
    if (type_same_shape(node_type(b->g, id), want))
        return (Wide){id, 0};
    Wide w = widen(p, b, id, want, node_type(b->g, id)->batched ? WidenDepth : 0);
    if (w.added != 0) { // or not known
        w = (Wide){pad_to((Val){b, id}, want).id, 0};
        set_wide(p, id, w);
    }
    return w;
}

// --- the pass ------------------------------------------------------------------------------------

static uint32_t multiply(Padding *p, Rewriter *r, uint32_t id, const Parts *to) {
    uint32_t in[2];
    for (uint32_t k = 0; k < 2; k++)
        in[k] = zero_padded(p, &r->to, rewritten_in(r, id, k).id, &to->type[k]).node;
    uint32_t made = builder_add(&r->to, (Op)graph_node(r->from, id)->op, in, 2,
                                node_attr(r->from, id), &to->type[2]);
    const Type *type = node_type(r->from, id);
    return type_same_shape(type, &to->type[2]) ? made : narrow(p, &r->to, (Wide){made, 0}, type);
}

// A sum is made of all of a value, as it is stored, unless it adds what is not zero to what is.
static uint32_t sum(Padding *p, Rewriter *r, uint32_t id) {
    uint32_t narrow_sum = node_copy(r, id), x = rewritten_in(r, id, 0).id,
             axes = node_axes(r->from, id);
    const Graph *g = r->to.g;
    Wide w = x < p->wide.n ? p->wide.at[x] : unknown;
    if (!w.node || !builder_sees(&r->to, w.node))
        return narrow_sum;
    const Type *t = node_type(g, x), *all = node_type(g, w.node);
    for (uint32_t i = 0; i < t->rank; i++)
        if (t->dim[i] != all->dim[i] && axes >> (1 + i) & 1 && w.added != 0)
            return narrow_sum;
    Wide made = {Sum((Val){&r->to, w.node}, axes).id, w.added == 0 ? 0 : NAN};
    const Type *type = node_type(r->from, id);
    return type_same_shape(node_type(g, made.node), type) ? made.node
                                                          : narrow(p, &r->to, made, type);
}

// Is a value computed where it is read, so that only its padded form need be stored? Weights are
// stored by their update.
static bool is_inline(const Graph *g, uint32_t id) {
    OpClass c = (OpClass)op_info[graph_node(g, id)->op].cls;
    return node_type(g, id)->batched && (c == ClassEW || c == ClassRNG);
}

static uint32_t pad(Rewriter *r, uint32_t id) {
    Padding *p = r->user;
    Parts to;
    if (p->padded[id] && grow(r->from, id, &to))
        return multiply(p, r, id, &to);
    if (graph_node(r->from, id)->op == OpSum)
        return sum(p, r, id);
    uint32_t made = node_copy(r, id);
    if (!p->want[id].rank || !is_inline(r->from, id))
        return made;
    Wide w = zero_padded(p, &r->to, made, &p->want[id]);
    return narrow(p, &r->to, w, node_type(r->from, id));
}

void pass_pad_channels(Arena *perm, const Module *m, Func *f, const PassOptions *o) {
    Arena scratch;
    bool any = false;
    (void)m;
    if (!o->pack_channels)
        return;
    arena_need(&scratch);
    Padding p = {.arena = &scratch,
                 .small = o->small_products,
                 .padded = arena_array(&scratch, uint8_t, f->g.node.n),
                 .want = arena_array(&scratch, Type, f->g.node.n)};
    while (mark_padded(&p, &f->g))
        any = true;
    if (any)
        func_rewrite(perm, f, f->g.batch, pad, &p);
    arena_release(&scratch);
}
