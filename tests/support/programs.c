// programs.c - random models and their oracle (programs.h).
#include "programs.h"

#include <string.h>

enum { BATCH = 4, SLOTS = 9, OPERATIONS = 40, REPORTS = 4 };

// --- making --------------------------------------------------------------------------------------

typedef struct Maker {
    Arena *a;
    Module *m;
    Builder at; // adds to its step
    uint64_t state;
    VEC(Val) open; // values of blocks that later ones may use
} Maker;

static uint32_t below(Maker *k, uint32_t n) {
    k->state = hash64(&k->state, sizeof k->state, 7);
    return (uint32_t)(k->state >> 33) % n;
}

static const Type *type_of(Val v) {
    return node_type(v.b->g, v.id);
}

static Val any(Maker *k) {
    return k->open.at[below(k, k->open.n)];
}

static Val some(Maker *k, bool (*fits)(const Type *t)) {
    for (int i = 0; i < 40; i++) {
        Val v = any(k);
        if (fits(type_of(v)))
            return v;
    }
    return (Val){0};
}

static bool has_axes(const Type *t) {
    return t->rank >= 1;
}
static bool has_two(const Type *t) {
    return t->rank >= 2;
}
static bool is_batched(const Type *t) {
    return t->batched;
}
static bool is_image(const Type *t) {
    return t->batched && t->rank == 3 && t->dim[1] >= 3 && t->dim[2] >= 3;
}
static bool is_row(const Type *t) {
    return t->batched && t->rank == 1;
}

static Val tame(Val v) {
    return Tanh(v); // bounds numbers after sums and products
}

static Val make_unary(Maker *k) {
    Val v = any(k);
    switch (below(k, 7)) {
    case 0:
        return Neg(v);
    case 1:
        return Tanh(v);
    case 2:
        return Sigmoid(v);
    case 3:
        return Sin(v);
    case 4:
        return Softplus(v);
    case 5:
        return Abs(v);
    default:
        return Mul(v, Num(v, 0.5));
    }
}

static Val make_binary(Maker *k) {
    for (int i = 0; i < 40; i++) {
        Val a = any(k), b = any(k);
        Type both;
        if (!type_broadcast(type_of(a), type_of(b), &both) || type_sample(&both) > 4096)
            continue;
        switch (below(k, 5)) {
        case 0:
            return tame(Add(a, b));
        case 1:
            return Sub(a, b);
        case 2:
            return Mul(a, b);
        case 3:
            return Max(a, b);
        default:
            return Min(a, b);
        }
    }
    return make_unary(k);
}

static Val make_reduction(Maker *k) {
    Val v = some(k, below(k, 2) ? has_axes : is_batched);
    if (!v.id)
        return v;
    uint32_t axes = 1 + below(k, (2u << type_of(v)->rank) - 1);
    if (!type_of(v)->batched)
        axes &= ~1u;
    switch (axes ? below(k, 4) : 3) {
    case 0:
        return axes & ~1u ? MaxOf(v, axes & ~1u) : (Val){0};
    case 1:
        return type_of(v)->batched ? GroupSum(Mul(v, Num(v, 0.3)), below(k, 2) ? 2 : BATCH)
                                   : (Val){0};
    default:
        return axes ? Sum(Mul(v, Num(v, 0.1)), axes) : (Val){0};
    }
}

static Val make_permute(Maker *k) {
    Val v = some(k, has_two);
    if (!v.id)
        return v;
    uint32_t n = type_of(v)->rank, turn = 1 + below(k, n - 1), axis[MAX_RANK];
    for (uint32_t i = 0; i < n; i++)
        axis[i] = (i + turn) % n;
    return Permute(v, axis);
}

static Val make_slice(Maker *k) {
    Val v = some(k, has_axes);
    if (!v.id)
        return v;
    int64_t from[MAX_RANK], count[MAX_RANK], step[MAX_RANK];
    for (uint32_t i = 0; i < type_of(v)->rank; i++) {
        int64_t n = type_of(v)->dim[i];
        from[i] = below(k, (uint32_t)n);
        step[i] = 1 + below(k, 2);
        count[i] = (n - from[i] + step[i] - 1) / step[i];
    }
    return Slice(v, from, count, step);
}

static Val make_pad(Maker *k) {
    Val v = some(k, has_axes);
    if (!v.id)
        return v;
    int64_t before[MAX_RANK], step[MAX_RANK], extent[MAX_RANK];
    for (uint32_t i = 0; i < type_of(v)->rank; i++) {
        before[i] = below(k, 2);
        step[i] = 1 + below(k, 2);
        extent[i] = before[i] + (type_of(v)->dim[i] - 1) * step[i] + 1 + below(k, 2);
        if (extent[i] > 20)
            return (Val){0};
    }
    return Pad(v, before, step, extent);
}

static Val make_reshape(Maker *k) {
    Val v = some(k, has_axes);
    if (!v.id)
        return v;
    int64_t n = type_sample(type_of(v)), d = 1 + below(k, 6);
    if (n % d)
        return Reshape(v, 1, &n);
    return Reshape(v, 2, (int64_t[]){d, n / d});
}

static Val make_move(Maker *k) {
    switch (below(k, 6)) {
    case 0:
        return make_permute(k);
    case 1:
        return make_slice(k);
    case 2:
        return make_pad(k);
    case 3:
        return make_reshape(k);
    case 4: {
        Val v = some(k, has_axes);
        return v.id ? Flip(v, 2u << below(k, type_of(v)->rank)) : v;
    }
    default: {
        Val v = some(k, has_axes);
        return v.id && type_of(v)->dim[0] <= 8 ? Concat((Val[]){v, Neg(v)}, 2, 0) : (Val){0};
    }
    }
}

// Another value of v's shape, or v.
static Val like(Maker *k, Val v) {
    for (int i = 0; i < 20; i++) {
        Val w = any(k);
        if (w.id != v.id && type_same_shape(type_of(w), type_of(v)))
            return w;
    }
    return tame(Neg(v));
}

// A sum or maximum of few terms, which fusion unrolls, over a concat of two values or a padded one.
static Val make_short(Maker *k) {
    Val v = some(k, has_axes), parts;
    if (!v.id || type_of(v)->rank == MAX_RANK || type_of(v)->dim[0] > 6)
        return (Val){0};
    Type t = *type_of(v);
    int64_t before[MAX_RANK] = {1}, step[MAX_RANK], extent[MAX_RANK], one[MAX_RANK] = {1};
    for (uint32_t i = 0; i < t.rank; i++) {
        step[i] = 1;
        extent[i] = t.dim[i] + (i ? 0 : 1 + below(k, 2));
        one[1 + i] = t.dim[i];
    }
    if (below(k, 2)) {
        Val w = like(k, v), part[] = {Reshape(v, t.rank + 1u, one), Reshape(w, t.rank + 1u, one)};
        parts = Concat(part, 2, 0);
    } else {
        parts = Pad(v, before, step, extent);
    }
    return below(k, 2) ? tame(Sum(parts, 2)) : MaxOf(parts, 2);
}

// A weight of the given shape, by repeating part of an existing value.
static Val weight(Maker *k, uint32_t rank, const int64_t *dim) {
    Val v = any(k);
    uint32_t axes = 1;
    for (uint32_t i = 0; i < type_of(v)->rank; i++)
        axes |= 2u << i;
    axes &= type_of(v)->batched ? ~0u : ~1u;
    v = axes ? Sum(v, axes) : v;
    v = Reshape(tame(v), 0, NULL);
    Type t = type_make(false, rank, dim);
    uint32_t all = 0;
    for (uint32_t i = 0; i < rank; i++)
        all |= 2u << i;
    Val number = Iota(&k->at, all, t);
    return Mul(Sin(Mul(number, Num(number, 0.7))), Expand(v, t));
}

static Val make_conv(Maker *k) {
    Val x = some(k, is_image);
    if (!x.id || type_of(x)->dim[0] > 16)
        return (Val){0};
    int64_t c = type_of(x)->dim[0], o = 1 + below(k, 5), size = 1 + below(k, 3);
    ConvGeom geom = {.n = 2, .groups = 1};
    for (int i = 0; i < 2; i++) {
        geom.stride[i] = 1 + below(k, 2);
        geom.before[i] = below(k, (uint32_t)size);
        geom.after[i] = below(k, (uint32_t)size);
        geom.dilation[i] = 1;
    }
    Val w = weight(k, 4, (int64_t[]){o, c, size, size});
    Val y = Conv(x, w, &geom);
    switch (below(k, 3)) {
    case 0:
        return tame(ConvDx(tame(y), w, &geom, *type_of(x)));
    case 1:
        return tame(ConvDw(x, tame(y), &geom, *type_of(w)));
    default:
        return tame(y);
    }
}

static Val make_dot(Maker *k) {
    Val x = some(k, is_row);
    if (!x.id || type_of(x)->dim[0] > 512)
        return (Val){0};
    const uint8_t a = 1, b = 2, ba[] = {2, 1};
    int64_t n = type_of(x)->dim[0], o = 1 + below(k, 7);
    Val w = weight(k, 2, (int64_t[]){o, n});
    Val y = tame(Dot(x, &a, w, ba, &b, 1, true));
    return below(k, 2) ? y : tame(Dot(y, &b, x, &a, ba, 2, below(k, 2)));
}

// Real numbers to frequencies; some of those to others, and back.
static Val make_fft(Maker *k) {
    Val x = some(k, has_axes);
    Type t = x.id ? *type_of(x) : (Type){0};
    if (!x.id || t.rank > 3 || type_sample(&t) > 512)
        return (Val){0};
    int64_t n = t.dim[t.rank - 1];
    Type real = {.rank = 3, .dim = {type_sample(&t) / n, 1, n}}; // shared: lines, parts, n
    if (t.batched) {
        real = (Type){.batched = true, .rank = (uint8_t)(t.rank + 1), .dim = {1}};
        memcpy(real.dim + 1, t.dim, t.rank * sizeof *t.dim);
    }
    Val y = tame(Fft(Reshape(x, real.rank, real.dim), false, NULL));
    switch (below(k, 3)) {
    case 0:
        return tame(Fft(y, true, &real));
    case 1:
        return tame(Fft(y, below(k, 2), NULL));
    default:
        return y;
    }
}

// A short row, or a longer one as lines, in its order or back from it, from all of it or the last.
static Val make_order(Maker *k) {
    Val x = some(k, is_row);
    if (!x.id || type_of(x)->dim[0] > 512)
        return (Val){0};
    int64_t n = type_of(x)->dim[0];
    if (n % 2 == 0 && below(k, 2))
        x = Reshape(x, 2, (int64_t[]){2, n / 2});
    Type t = val_type(x);
    int64_t whole = t.dim[t.rank - 1], last = below(k, 2) ? 1 + below(k, (uint32_t)whole) : whole;
    Val order = ArgSortLast(x, last), y = Arrange(x, order, false);
    y = below(k, 2) || last < whole ? ArrangeBack(y, order, t) : y;
    return Reshape(y, 1, &n);
}

static Val make_draw(Maker *k) {
    static const Dist dist[] = {DistUniform, DistNormal, DistTruncated};
    Dist d = dist[below(k, 3)];
    Type t = type_make(below(k, 2), 1, (int64_t[]){3 + below(k, 4)});
    vec_push(k->a, &k->m->site, ((Site){d, t, 1, k->at.block, {0}, 0}));
    return tame(Rand(&k->at, d, k->m->site.n - 1, 0, t));
}

static Val make_table(Maker *k) {
    Type index = type_make(true, 0, NULL);
    vec_push(k->a, &k->m->site, ((Site){DistCategorical, index, 1, k->at.block, {0}, 5}));
    Val i = Rand(&k->at, DistCategorical, k->m->site.n - 1, 5, index);
    Val rows = Gather(weight(k, 2, (int64_t[]){5, 3}), i);
    return below(k, 2) ? rows : tame(Scatter(rows, i, type_make(false, 2, (int64_t[]){5, 3})));
}

static Val make_one(Maker *k) {
    switch (below(k, 14)) {
    case 0:
    case 1:
    case 2:
        return make_binary(k);
    case 3:
        return make_reduction(k);
    case 4:
    case 5:
        return make_move(k);
    case 6:
        return make_conv(k);
    case 7:
        return make_dot(k);
    case 8:
        return make_draw(k);
    case 9:
        return below(k, 3) ? (Val){0} : make_table(k);
    case 10:
        return below(k, 2) ? make_fft(k) : make_order(k);
    case 11:
        return make_short(k);
    default:
        return make_unary(k);
    }
}

// --- slots ---------------------------------------------------------------------------------------

static void make_slots(Maker *k) {
    static const struct {
        bool batched;
        uint32_t rank;
        int64_t dim[4];
    } shape[SLOTS] = {
        {true, 3, {3, 6, 6}}, {true, 1, {12}},          {false, 1, {12}},
        {false, 1, {12}},     {false, 2, {5, 4}},       {false, 2, {5, 4}},
        {false, 0, {0}},      {false, 4, {2, 3, 3, 3}}, {true, 2, {4, 5}},
    };
    for (uint32_t i = 0; i < SLOTS; i++) {
        Type t = type_make(shape[i].batched, shape[i].rank, shape[i].dim);
        Slot s = {.kind = t.batched ? SlotData : SlotParam,
                  .name = str_format(k->a, "s%u", i),
                  .net = t.batched ? NONE : 0,
                  .type = t};
        vec_push(k->a, &k->m->slot, s);
    }
    vec_push(k->a, &k->m->net, ((Net){.name = STR("N"), .copy_of = NONE}));
}

// A value of the slot's shape that depends on `v`: the slot's value plus v's scaled sum.
static Val next_value(Maker *k, uint32_t slot, uint32_t version, Val v) {
    Val old = Read(&k->at, slot, version, k->m->slot.at[slot].type);
    uint32_t axes = 0;
    for (uint32_t i = 0; i < type_of(v)->rank; i++)
        axes |= 2u << i;
    axes |= type_of(v)->batched;
    v = axes ? Sum(v, axes) : v;
    v = Reshape(tame(Mul(v, Num(v, 0.05))), 0, NULL);
    switch (below(k, 3)) {
    case 0:
        return Mul(Add(old, v), Num(old, 0.9));
    case 1: { // another slot of the same shape: swaps, shifts
        uint32_t other = slot == 2 ? 3 : slot == 3 ? 2 : slot == 4 ? 5 : slot == 5 ? 4 : slot;
        return Add(Read(&k->at, other, version, k->m->slot.at[other].type), v);
    }
    default: { // each element from another one: no update in place
        Val turned = type_of(old)->rank ? Flip(old, 2) : old;
        return slot % 2 ? turned : Sub(turned, v);
    }
    }
}

static void make_block(Maker *k, uint32_t block, uint32_t operations) {
    Func *f = &k->m->step;
    k->at.block = block;
    for (uint32_t i = 0; i < SLOTS; i++)
        if (block == 0 || below(k, 2))
            vec_push(k->a, &k->open, Read(&k->at, i, block, k->m->slot.at[i].type));
    for (uint32_t i = 0; i < operations; i++) {
        Val v = make_one(k);
        if (v.id && type_sample(type_of(v)) <= 4096)
            vec_push(k->a, &k->open, v);
    }
    for (uint32_t i = 0; i < SLOTS; i++)
        if (!k->m->slot.at[i].type.batched && below(k, 3))
            vec_push(k->a, &f->effect, Write(i, next_value(k, i, block, any(k))).id);
    for (int i = 0; i < REPORTS; i++)
        vec_push(k->a, &f->report, ((Named){STR("r"), any(k).id, block}));
}

void program_random(Arena *a, uint64_t seed, Module *out) {
    *out = (Module){.name = STR("random"), .batch = BATCH};
    Maker k = {.a = a, .m = out, .at.g = &out->step.g, .state = seed * 2654435761u + 1};
    out->step.name = STR("step");
    graph_init(&out->step.g, a, BATCH);
    make_slots(&k);
    Func *f = &out->step;
    f->blocks = below(&k, 3) ? 1 : 3;
    make_block(&k, 0, OPERATIONS);
    vec_push(a, &f->tape, ((Ctl){CtlBlock, 0, 0}));
    if (f->blocks == 3) {
        uint32_t visible = k.open.n;
        make_block(&k, 1, OPERATIONS / 2);
        k.open.n = visible; // values of the loop are not used after it
        make_block(&k, 2, OPERATIONS / 2);
        vec_push(a, &f->tape, ((Ctl){CtlRepeat, 3, 0}));
        vec_push(a, &f->tape, ((Ctl){CtlBlock, 1, 0}));
        vec_push(a, &f->tape, ((Ctl){CtlEnd, 0, 0}));
        vec_push(a, &f->tape, ((Ctl){CtlBlock, 2, 0}));
    }
}

// --- the oracle ----------------------------------------------------------------------------------

int64_t oracle_count(const Oracle *o, uint32_t slot) {
    return type_elements(&o->m->step.g, &o->m->slot.at[slot].type);
}

void oracle_init(Arena *a, const Module *m, Oracle *out) {
    *out = (Oracle){.m = m, .f = &m->step, .counters = {.seed = 42, .step = 3}};
    out->slot = arena_array(a, double *, m->slot.n);
    out->value = arena_array(a, double *, m->step.g.node.n);
    for (uint32_t s = 0; s < m->slot.n; s++) {
        int64_t n = oracle_count(out, s);
        out->slot[s] = arena_array(a, double, n);
        for (int64_t i = 0; i < n; i++) {
            uint64_t key[2] = {s, (uint64_t)i};
            out->slot[s][i] =
                (double)(float)((double)(hash64(key, sizeof key, 1) >> 11) * 0x1p-52 - 1);
        }
    }
}

static void run_node(Arena *a, Oracle *o, uint32_t id) {
    const Graph *g = &o->f->g;
    const Node *node = graph_node(g, id);
    int64_t n = type_elements(g, node_type(g, id));
    const void *in[64];
    double *out = o->value[id] = arena_array(a, double, n);
    for (uint32_t k = 0; k < node->nin; k++)
        in[k] = o->value[node_in(g, id, k)];
    if (node->op == OpRead)
        memcpy(out, o->slot[node_attr(g, id)->i[0]], (size_t)n * sizeof *out);
    else if (node->op == OpWrite)
        memcpy(out, in[0], (size_t)n * sizeof *out);
    else
        eval_node(g, id, in, out, true, &o->counters, *a);
}

static bool belongs(const Graph *g, uint32_t id, uint32_t block) {
    const Node *n = graph_node(g, id);
    return n->block == block || (block == 0 && op_info[n->op].cls == ClassLEAF);
}

// Reads see the slots as at the block's entry; writes take effect when it ends.
static void run_block(Arena *a, Oracle *o, uint32_t block) {
    const Graph *g = &o->f->g;
    for (uint32_t id = 1; id < g->node.n; id++)
        if (belongs(g, id, block))
            run_node(a, o, id);
    for (uint32_t i = 0; i < o->f->effect.n; i++) {
        uint32_t w = o->f->effect.at[i];
        if (graph_node(g, w)->block == block)
            memcpy(o->slot[node_attr(g, w)->i[0]], o->value[w],
                   (size_t)type_elements(g, node_type(g, w)) * sizeof(double));
    }
}

void oracle_step(Arena *a, Oracle *o) {
    const Func *f = o->f;
    uint32_t repeat = 0;
    o->counters.round = 0;
    for (uint32_t i = 0; i < f->tape.n; i++) {
        Ctl c = f->tape.at[i];
        if (c.kind == CtlBlock)
            run_block(a, o, c.arg);
        else if (c.kind == CtlRepeat)
            repeat = i;
        else if (++o->counters.round < f->tape.at[repeat].arg)
            i = repeat;
        else
            o->counters.round = 0;
    }
}
