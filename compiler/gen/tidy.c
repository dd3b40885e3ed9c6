// tidy.c - the canonical form of a lowered nest: regions that do the same have the same text.
//
// In: a nest as lower.c leaves it, whose order is that of the graph's nodes. Out: values that are
// read, operands first, in the order in which the stores and reductions need them; arguments in
// the order of their first use. Operands of commuting operations, stores and reductions are ordered
// by what they are: a hash of operations and of how loads move, without sizes and numbers, which
// kernels leave open. Keeps: what is computed, to the bit.
#include "nest.h"

typedef struct Tidy {
    Nest *n;
    uint64_t *hash;     // [value] of what it is
    uint32_t *to;       // [value] its new number + 1; 0: not reached
    uint32_t *arg;      // [argument] likewise
    uint32_t *bounds;   // [bounds] likewise
    uint32_t *reduce;   // [reduction] its new number
    VEC(Value) value;   // in the new order
    VEC(uint32_t) kept; // arguments, by their old numbers
    VEC(Bounds) kept_bounds;
} Tidy;

static uint64_t mix(uint64_t h, uint64_t more) {
    const uint64_t both[2] = {h, more};
    return hash64(both, sizeof both, 0);
}

// How an index moves: with no variable, with some or with all.
static uint32_t moves(const Nest *n, Ix x) {
    uint32_t uses = 0;
    for (uint32_t i = 0; i < n->orders; i++)
        uses += ix_uses(&n->ix, x, n->order[i]);
    return uses == n->orders ? 2 : uses > 0;
}

static bool commutes(const Value *v) {
    return v->kind == ValueEw && op_is(v->op, TraitCommutes);
}

// What is computed comes first, then loads, then numbers.
static int rank_of(const Value *v) {
    return v->kind == ValueNumber ? 2 : v->kind == ValueLoad;
}

// Of one rank the lower hash does.
static bool comes_before(const Tidy *t, uint32_t a, uint32_t b) {
    int x = rank_of(&t->n->value.at[a]), y = rank_of(&t->n->value.at[b]);
    return x != y ? x < y : t->hash[a] < t->hash[b];
}

static void order_operands(Tidy *t, Value *v) {
    if (!commutes(v) || !comes_before(t, v->in[1], v->in[0]))
        return;
    uint32_t swap = v->in[0];
    v->in[0] = v->in[1];
    v->in[1] = swap;
}

// Operands come first, so theirs are known.
static uint64_t hash_of(const Tidy *t, const Value *v) {
    uint64_t h = mix(v->kind, v->dtype);
    if (v->kind == ValueEw)
        h = mix(h, v->op);
    if (v->kind == ValueLoad)
        h = mix(h, moves(t->n, v->at) | (v->bounds ? 4 : 0));
    if (v->kind == ValueResult)
        h = mix(h, mix(t->n->reduce.at[v->arg].kind, t->hash[t->n->reduce.at[v->arg].value]));
    for (uint32_t i = 0; i < nest_operands(v); i++)
        h = mix(h, v->in[i] == NONE ? 0 : t->hash[v->in[i]]);
    return h;
}

static uint32_t keep_bounds(Tidy *t, uint32_t bounds) {
    if (!t->bounds[bounds]) {
        vec_push(t->n->arena, &t->kept_bounds, t->n->bounds.at[bounds]);
        t->bounds[bounds] = t->kept_bounds.n;
    }
    return t->bounds[bounds] - 1;
}

static uint32_t keep_arg(Tidy *t, uint32_t arg) {
    if (arg == NONE)
        return NONE;
    if (!t->arg[arg]) {
        vec_push(t->n->arena, &t->kept, t->n->arg.at[arg]);
        t->arg[arg] = t->kept.n;
    }
    return t->arg[arg] - 1;
}

// Its new number; operands get theirs before.
static uint32_t keep_value(Tidy *t, uint32_t id) {
    if (id == NONE)
        return NONE;
    if (t->to[id])
        return t->to[id] - 1;
    Value v = t->n->value.at[id];
    for (uint32_t i = 0; i < 3; i++)
        v.in[i] = keep_value(t, v.in[i]);
    if (v.kind == ValueLoad)
        v.arg = keep_arg(t, v.arg);
    if (v.kind == ValueResult)
        v.arg = t->reduce[v.arg];
    v.bounds = keep_bounds(t, v.bounds);
    vec_push(t->n->arena, &t->value, v);
    t->to[id] = t->value.n;
    return t->value.n - 1;
}

// Stable, of few.
static void order_stores(const Tidy *t, StoreVec *s) {
    for (uint32_t i = 1; i < s->n; i++) {
        for (uint32_t k = i; k && comes_before(t, s->at[k].value, s->at[k - 1].value); k--) {
            Store swap = s->at[k];
            s->at[k] = s->at[k - 1];
            s->at[k - 1] = swap;
        }
    }
}

static void order_reductions(Tidy *t) {
    Nest *n = t->n;
    uint32_t *was = arena_array(n->arena, uint32_t, n->reduce.n);
    for (uint32_t i = 0; i < n->reduce.n; i++) {
        Reduce r = n->reduce.at[i];
        uint32_t k = i;
        for (; k && comes_before(t, r.value, n->reduce.at[k - 1].value); k--) {
            n->reduce.at[k] = n->reduce.at[k - 1];
            was[k] = was[k - 1];
        }
        n->reduce.at[k] = r;
        was[k] = i;
    }
    for (uint32_t i = 0; i < n->reduce.n; i++)
        t->reduce[was[i]] = i;
}

static void keep_outputs(Tidy *t) {
    Nest *n = t->n;
    if (n->rows != NONE)
        n->row = keep_value(t, n->row);
    for (uint32_t i = 0; i < n->store.n; i++)
        n->store.at[i].value = keep_value(t, n->store.at[i].value);
    for (uint32_t i = 0; i < n->reduce.n; i++)
        n->reduce.at[i].value = keep_value(t, n->reduce.at[i].value);
    for (uint32_t i = 0; i < n->derived.n; i++)
        n->derived.at[i].value = keep_value(t, n->derived.at[i].value);
    for (uint32_t i = 0; i < n->store.n; i++)
        n->store.at[i].arg = keep_arg(t, n->store.at[i].arg);
    for (uint32_t i = 0; i < n->reduce.n; i++) {
        n->reduce.at[i].arg = keep_arg(t, n->reduce.at[i].arg);
        n->reduce.at[i].max_arg = keep_arg(t, n->reduce.at[i].max_arg);
    }
    for (uint32_t i = 0; i < n->derived.n; i++)
        n->derived.at[i].arg = keep_arg(t, n->derived.at[i].arg);
}

void nest_tidy(Nest *n) {
    Arena *a = n->arena;
    Tidy t = {.n = n,
              .hash = arena_array(a, uint64_t, n->value.n),
              .to = arena_array(a, uint32_t, n->value.n),
              .arg = arena_array(a, uint32_t, n->arg.n),
              .bounds = arena_array(a, uint32_t, n->bounds.n),
              .reduce = arena_array(a, uint32_t, n->reduce.n)};
    keep_bounds(&t, 0);
    for (uint32_t i = 0; i < n->value.n; i++) {
        order_operands(&t, &n->value.at[i]);
        t.hash[i] = hash_of(&t, &n->value.at[i]);
    }
    order_stores(&t, &n->store);
    order_stores(&t, &n->derived);
    order_reductions(&t);
    keep_outputs(&t);
    n->value.at = t.value.at;
    n->value.n = t.value.n;
    n->bounds.at = t.kept_bounds.at;
    n->bounds.n = t.kept_bounds.n;
    n->arg.at = t.kept.at;
    n->arg.n = t.kept.n;
}
