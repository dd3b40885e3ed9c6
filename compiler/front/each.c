// each.c - `each sample { ... }`, and elements of a state by a number known at run time.
//
// In: a block. Out: its value for every sample of the global batch, in order; `:=` in one sample's
// turn is seen by the next. The turns are elaborated one after the other: in each, a per-sample
// value that a name stands for is that sample's, picked by comparing sample numbers; so all inside
// is shared, and ranks agree.
#include "elab.h"

enum { MAX_TURNS = 64 };

// 1 for sample i, 0 for the others.
static Val turn_of(Elab *e, int64_t i) {
    Graph *g = e->to->g;
    return Eq(Iota(g, 1, type_make(true, 0, NULL)), Number(g, (double)i));
}

Value each_pick(Elab *e, Value v) {
    if (v.kind != KindTensor || !e->turn.id || !node_type(v.tensor.val.g, v.tensor.val.id)->batched)
        return v;
    Val x = import(e, v.tensor.val);
    v.tensor.val = Sum(Where(e->turn, x, Number(x.g, 0)), 1);
    return v;
}

// The samples' values as one per-sample value.
static Value gather_turns(Elab *e, const Val *turn, const Value *v, uint32_t n) {
    Val all = {0}, x;
    for (uint32_t i = 0; i < n; i++) {
        if (!value_is_tensor(v[i]) && !value_is_plain(v[i]))
            return v[n - 1];
        if (!want_tensor(e, v[i], &x))
            return POISON;
        all = i ? Where(turn[i], x, all) : x;
    }
    Type t = *node_type(all.g, all.id);
    t.batched = true;
    return value_tensor(Expand(all, t));
}

Value eval_each(Elab *e, Env *env, const Ast *a) {
    uint32_t n = (uint32_t)e->o->batch;
    if (!e->to->fn || e->to->index == 0 || e->turn.id) {
        diag(e->f, DiagE0514, here(e), "`each sample`");
        return POISON;
    }
    if (n > MAX_TURNS) {
        diag(e->f, DiagE0524, here(e), MAX_TURNS, n);
        return POISON;
    }
    Val *turn = arena_array(e->perm, Val, n);
    Value *v = arena_array(e->perm, Value, n);
    for (uint32_t i = 0; i < n; i++) {
        Env inner = *env;
        inner.local = scope_mark(e, env->local, BindControl);
        e->turn = turn[i] = turn_of(e, i);
        v[i] = value_now(e, eval_block(e, &inner, a->c, false));
    }
    e->turn = (Val){0};
    return gather_turns(e, turn, v, n);
}

// --- elements by a run-time number ---------------------------------------------------------------

Value element_get(Elab *e, Val x, Val index) {
    Val in[2] = {x, index};
    return op_fits(e, OpGather, in, 2, NULL, NULL) ? value_tensor(Gather(x, index)) : POISON;
}

// `slots[i] := v`: the table with row i replaced.
void element_assign(Elab *e, uint32_t slot, Value index, Value v) {
    Type t = e->m->slot.at[slot].type, rows = {.dtype = DtF32, .rank = t.rank, .dim = {t.dim[0]}};
    Val i, x;
    if (!want_tensor(e, index, &i) || !want_tensor(e, v, &x))
        return;
    Type row = *node_type(x.g, x.id);
    if (!t.rank || row.rank >= MAX_RANK) {
        diag(e->f, DiagE0309, here(e), t.rank, 1);
        return;
    }
    int64_t dim[MAX_RANK] = {1};
    for (uint32_t k = 0; k < row.rank; k++)
        dim[k + 1] = row.dim[k];
    for (uint32_t k = 1; k < t.rank; k++)
        rows.dim[k] = 1;
    Val hit[2] = {Iota(x.g, 2, rows), i};
    if (!op_fits(e, OpEq, hit, 2, NULL, NULL))
        return;
    Value table[3] = {value_tensor(Eq(hit[0], hit[1])),
                      value_tensor(Reshape(x, row.rank + 1u, dim)),
                      value_tensor(slot_read(e, slot))};
    slot_assign(e, slot, apply_op(e, OpWhere, table, 3));
}
