// emit.c - a shaped nest as text. The one emitter of all dialects: it writes what a nest does with
// each element, in terms of values (emit_value.c); emit_loops.c and emit_team.c write the two
// shapes of a nest around it. Names of types and functions come from words_c. Names are
// positions (i0 the outermost variable, v0 the first value), and numbers that are not small are
// arguments (n0, n1, ... in order of appearance), so equal structures give equal text.
#include "emit.h"

const char *emit_acc_type(const Reduce *r) {
    return words_c.compute[r->dtype];
}

const char *emit_at_type(const Emit *e, const Reduce *r) {
    return !e->narrow ? e->index : r->dtype == DtF64 ? "int64_t" : "int32_t";
}

const char *emit_identity(const Reduce *r) {
    return emit_adds(r) ? "0" : "-INFINITY";
}

bool emit_adds(const Reduce *r) {
    return r->kind == ReduceSum || r->kind == ReduceSquares;
}

// "s0 = better0 ? v1 : s0;", or the same of its index.
static void put_better(Emit *e, uint32_t i, char acc, bool index) {
    emit_line(e);
    e->acc(e, acc, i);
    text_fmt(e->t, " = better%u ? ", i);
    if (index)
        text_fmt(e->t, "at%u", i);
    else
        emit_ref(e, e->n->reduce.at[i].value);
    text_put(e->t, STR(" : "));
    e->acc(e, acc, i);
    text_put(e->t, STR(";\n"));
}

// The accumulator becomes the current value where that is greater, or equal and of a lower index.
static void put_argmax(Emit *e, uint32_t i, char acc) {
    const Reduce *r = &e->n->reduce.at[i];
    char index = acc == 'l' ? 'y' : 'x';
    text_fmt(e->t, "const %s at%u = ", emit_at_type(e, r), i);
    emit_ix(e, r->index);
    text_put(e->t, STR(";\n"));
    text_fmt(emit_line(e), "const %s better%u = %s(", e->d->test, i,
             r->in_order ? "gan_exceeds" : "gan_beats");
    emit_ref(e, r->value);
    if (!r->in_order)
        text_fmt(e->t, ", at%u", i);
    text_put(e->t, STR(", "));
    e->acc(e, acc, i);
    if (!r->in_order) {
        text_put(e->t, STR(", "));
        e->acc(e, index, i);
    }
    text_put(e->t, STR(");\n"));
    put_better(e, i, acc, false);
    put_better(e, i, index, true);
}

static void put_update(Emit *e, uint32_t i, char acc) {
    const Reduce *r = &e->n->reduce.at[i];
    emit_line(e);
    if (r->kind == ReduceArgMax) {
        put_argmax(e, i, acc);
        return;
    }
    if (r->kind == ReduceSquares) {
        text_put(e->t, STR("gan_add_square(&"));
        e->acc(e, acc, i);
        text_put(e->t, STR(", "));
        emit_ref(e, r->value);
        text_put(e->t, STR(");\n"));
        return;
    }
    e->acc(e, acc, i);
    if (r->kind == ReduceSum) {
        text_put(e->t, STR(" += "));
        emit_ref(e, r->value);
    } else {
        text_put(e->t, STR(" = gan_greater("));
        emit_ref(e, r->value);
        text_put(e->t, STR(", "));
        e->acc(e, acc, i);
        text_put(e->t, STR(") ? "));
        emit_ref(e, r->value);
        text_put(e->t, STR(" : "));
        e->acc(e, acc, i);
    }
    text_put(e->t, STR(";\n"));
}

void emit_store(Emit *e, const StoreVec *stores, uint32_t i) {
    const Store *s = &stores->at[i];
    if (e->in_pack && emit_copied_pack(e, s) != NONE)
        return;
    emit_line(e);
    if (s->pack) {
        text_fmt(e->t, "y%u.at[l]", i);
    } else {
        text_fmt(e->t, "a%u[", s->arg);
        emit_ix(e, s->at);
        text_put(e->t, STR("]"));
    }
    text_put(e->t, STR(" = "));
    const char *end = emit_call(e, words_c.store[nest_dtype(e->n, s->arg)]);
    emit_ref(e, emit_stored(e, s));
    text_fmt(e->t, "%s;\n", end);
}

void emit_body(Emit *e, char acc) {
    for (uint32_t i = 0; i < e->n->store.n; i++)
        emit_store(e, &e->n->store, i);
    for (uint32_t i = 0; i < e->n->reduce.n; i++)
        put_update(e, i, acc);
}

// The sum of squares about the mean: a team's accumulator has all it takes, a core's needs the sum
// and the number of terms as well.
void emit_squares(Emit *e, uint32_t i) {
    const Reduce *r = &e->n->reduce.at[i];
    text_put(e->t, STR("gan_squares("));
    e->acc(e, 's', i);
    if (r->sum != NONE) {
        text_put(e->t, STR(", "));
        e->acc(e, 's', r->sum);
        text_fmt(e->t, ", %.*s", SARG(emit_num(e, RoleTerms, r->terms)));
    }
    text_put(e->t, STR(")"));
}

// Stores accumulator `acc` of a reduction.
static void put_result(Emit *e, uint32_t i, uint32_t arg, char acc) {
    const Reduce *r = &e->n->reduce.at[i];
    if (r->copies > 1) {
        text_fmt(emit_line(e), "for (%s k = 0; k < %.*s; k++)\n    ", e->index,
                 SARG(emit_num(e, RoleBound, r->copies)));
    }
    text_fmt(emit_line(e), "a%u[", arg);
    emit_ix(e, r->at);
    if (r->copies > 1)
        text_fmt(e->t, " + k*%.*s", SARG(emit_num(e, RoleStride, r->copy_step)));
    text_put(e->t, STR("] = "));
    const char *end = emit_call(e, words_c.store[nest_dtype(e->n, arg)]);
    if (acc == 'x')
        text_fmt(e->t, "(%s)", emit_acc_type(r));
    if (r->kind == ReduceSquares)
        emit_squares(e, i);
    else
        e->acc(e, acc, i);
    text_fmt(e->t, "%s;\n", end);
}

void emit_result(Emit *e, uint32_t i) {
    const Reduce *r = &e->n->reduce.at[i];
    if (r->arg != NONE)
        put_result(e, i, r->arg, r->kind == ReduceArgMax ? 'x' : 's');
    if (r->max_arg != NONE)
        put_result(e, i, r->max_arg, 's');
}

bool emit_kernel(Text *t, const Nest *n, const Dialect *d, Str name, KernelForm form,
                 Numbers *numbers) {
    Emit e = {.t = t, .n = n, .d = d, .name = name, .form = form, .numbers = numbers};
    e.real = DtF32;
    for (uint32_t i = 0; i < n->value.n; i++)
        e.real = n->value.at[i].dtype == DtF64 ? DtF64 : e.real;
    e.index = n->team.wide ? "int64_t" : d->index;
    e.named = emit_named(&e);
    e.guards = emit_guards(&e);
    e.inverses = emit_inverses(&e);
    if (d->names_indices)
        emit_name_indices(&e);
    d->kernel(&e);
    return e.counters;
}
