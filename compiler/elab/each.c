// each.c - `each sample { ... }`, and elements of a state at a run-time index.
//
// In: a block. Out: its value for every sample of the global batch, in order; the next sample sees
// the `:=` of this one. The samples are a loop whose body is elaborated once (branch.c). A
// per-sample value that the body reads is gathered into a table before the loop, and each iteration
// reads its row; the value of each iteration becomes a row of another table, from which the samples
// read after the loop. So everything inside is shared, and all ranks compute the same.
#include "builtin.h"

// The number of each sample, from 0.
static Val sample_numbers(Builder *b) {
    return Iota(b, 1, type_make(true, 0, NULL));
}

Val rows_of(Val x) {
    Type t = val_type(x), table = {.dtype = t.dtype, .rank = 1, .dim = {x.b->g->batch}};
    bool full = t.rank == MAX_RANK;
    int64_t flat = type_sample(&t);
    for (uint32_t i = 0; i < (full ? 1u : t.rank); i++)
        table.dim[table.rank++] = full ? flat : t.dim[i];
    return Scatter(full ? Reshape(x, 1, &flat) : x, sample_numbers(x.b), table);
}

// The table is made in front of the loop if what it is made of is known there.
Value each_pick(Elab *e, Value v) {
    if (v.kind != KindTensor || !e->turn || !val_type(v.tensor.val).batched)
        return v;
    Val x = import(e, v.tensor.val), turn = slot_read(e, e->turn->slot);
    Type t = val_type(x);
    uint32_t block = x.b->block;
    if (graph_node(x.b->g, x.id)->block <= e->turn->outside)
        x.b->block = e->turn->outside;
    Val table = rows_of(x);
    x.b->block = block;
    Val row = Gather(table, turn);
    v.tensor.val = t.rank == MAX_RANK ? Reshape(row, t.rank, t.dim) : row;
    return v;
}

// Puts value `i` of this turn into its table.
static void keep_value(Elab *e, Turn *t, uint32_t i, Value v) {
    Val x;
    if (!want_tensor(e, v, &x))
        return;
    Type row = val_type(x), table = {.dtype = row.dtype, .dim = {x.b->g->batch}};
    if (row.rank >= MAX_RANK) {
        diag(e->f, DiagE0309, here(e), row.rank, 1);
        return;
    }
    for (table.rank = 1; table.rank <= row.rank; table.rank++)
        table.dim[table.rank] = row.dim[table.rank - 1];
    if (!size_fits(e, &table))
        return;
    uint32_t slot = carry_slot(e, t->outside, 1 + i, table);
    if (slot == NONE)
        return;
    if (t->value.n <= i)
        vec_push(e->perm, &t->value, slot);
    element_assign(e, slot, value_tensor(slot_read(e, t->slot)), v);
}

static void end_turn(Elab *e, Env *env, const Ast *last, void *user) {
    Turn *t = user;
    Value v = value_now(e, eval_last(e, env, last));
    bool list = v.kind == KindList;
    List l = list ? v.list : (List){.at = &v, .n = v.kind != KindNone};
    if (t->ended && l.n != t->values) // a row that one outcome leaves out would be an older turn's
        diag(e->f, DiagE0304, here(e), t->values, l.n);
    t->ended = true;
    t->list = list;
    t->values = l.n;
    for (uint32_t i = 0; i < l.n; i++)
        keep_value(e, t, i, l.at[i]);
    slot_set(e, t->slot, Add(slot_read(e, t->slot), Number(e->to->at, 1)));
}

static Value samples_value(Elab *e, const Turn *t) {
    Value *v = arena_array(e->perm, Value, t->value.n);
    for (uint32_t i = 0; i < t->value.n; i++)
        v[i] = value_tensor(Gather(slot_read(e, t->value.at[i]), sample_numbers(e->to->at)));
    if (t->value.n < t->values) // one of them was a mistake
        return POISON;
    if (t->list)
        return value_list(v, t->value.n);
    return t->values ? v[0] : (Value){.kind = KindNone};
}

Value eval_each(Elab *e, Env *env, const Ast *a) {
    Building *b = e->to;
    if (!b->branching || e->turn) {
        diag(e->f, DiagE0514, here(e), "`each sample`");
        return POISON;
    }
    Turn t = {.outside = b->at->block};
    t.slot = carry_slot(e, t.outside, 0, type_make(false, 0, NULL));
    if (t.slot == NONE)
        return POISON;
    slot_set(e, t.slot, Number(b->at, 0));
    uint32_t errors = diag_errors(e->f);
    e->turn = &t;
    scope_rounds(e, env, a->c, (uint32_t)e->o->batch, &(Last){end_turn, &t});
    e->turn = NULL;
    return diag_errors(e->f) > errors ? POISON : samples_value(e, &t);
}

// --- elements by a run-time number ---------------------------------------------------------------

Value element_get(Elab *e, Val x, uint32_t axis, Val index) {
    uint32_t k = val_type(index).rank, first[MAX_RANK] = {axis}, back[MAX_RANK];
    for (uint32_t i = 1; i < val_type(x).rank; i++)
        first[i] = i <= axis ? i - 1 : i;
    Val in[2] = {axis ? Permute(x, first) : x, index};
    if (!op_fits(e, OpGather, in, 2, NULL, NULL))
        return POISON;
    Val y = Gather(in[0], index); // the axes of the index, then the others
    for (uint32_t i = 0; i < val_type(y).rank; i++)
        back[i] = i < axis ? k + i : i < axis + k ? i - axis : i;
    return value_tensor(axis ? Permute(y, back) : y);
}

// `slots[i] := v`: the table with row i replaced.
void element_assign(Elab *e, uint32_t slot, Value index, Value v) {
    Type t = e->m->slot.at[slot].type, rows = {.dtype = DtF32, .rank = t.rank, .dim = {t.dim[0]}};
    Val i, x;
    if (!want_tensor(e, index, &i) || !want_tensor(e, v, &x))
        return;
    Type row = val_type(x);
    int64_t at;
    if (!t.rank || row.rank >= MAX_RANK) {
        diag(e->f, DiagE0309, here(e), t.rank, 1);
        return;
    }
    if (value_is_plain(index)) {
        if (!want_position(e, index, t.dim[0], &at))
            return;
        i = Number(e->to->at, (double)at);
    }
    int64_t dim[MAX_RANK] = {1};
    for (uint32_t k = 0; k < row.rank; k++)
        dim[k + 1] = row.dim[k];
    for (uint32_t k = 1; k < t.rank; k++)
        rows.dim[k] = 1;
    Val hit[2] = {Iota(x.b, 2, rows), i};
    if (!op_fits(e, OpEq, hit, 2, NULL, NULL))
        return;
    Value table[3] = {value_tensor(Eq(hit[0], hit[1])),
                      value_tensor(Reshape(x, row.rank + 1u, dim)),
                      value_tensor(slot_read(e, slot))};
    slot_assign(e, slot, apply_op(e, OpWhere, table, 3));
}
