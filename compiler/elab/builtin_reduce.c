// builtin_reduce.c - elementwise operations on any mix of numbers and tensors, and reductions over
// named axes.
#include "builtin.h"
#include "warn.h"

#include <string.h>

// --- elementwise ---------------------------------------------------------------------------------

// Of two shapes that clash from the left, whether they fit from the right, as other libraries align
// them.
static bool meets_at_the_end(const Type *longer, const Type *shorter) {
    uint32_t front = (uint32_t)(longer->rank - shorter->rank);
    for (uint32_t i = 0; i < shorter->rank; i++)
        if (longer->dim[front + i] != shorter->dim[i] && longer->dim[front + i] != 1 &&
            shorter->dim[i] != 1)
            return false;
    return shorter->rank > 0;
}

static void help_clash(Elab *e, const Val *in, uint32_t n) {
    Type longer = val_type(in[0]), shorter = longer;
    for (uint32_t i = 1; i < n; i++) {
        Type t = val_type(in[i]);
        longer = t.rank > longer.rank ? t : longer;
        shorter = t.rank < shorter.rank ? t : shorter;
    }
    if (shorter.rank == longer.rank || !meets_at_the_end(&longer, &shorter)) {
        diag_help(e->f, "extents that meet are equal or 1: conv(c, k=1) changes channels, upsample "
                        "and avg_pool change space");
        return;
    }
    Text t = {.arena = e->perm};
    for (uint32_t i = 0; i < longer.rank; i++) {
        uint32_t front = (uint32_t)(longer.rank - shorter.rank);
        text_fmt(&t, "%s%lld", i ? ", " : "", i < front ? 1LL : (long long)shorter.dim[i - front]);
    }
    diag_help(e->f,
              "shapes are aligned at their first axes, not at their last: reshape(%.*s) gives "
              "the shorter one the axes it lacks",
              SARG(text_str(&t)));
}

bool op_fits(Elab *e, Op op, const Val *in, uint32_t n, const Attr *attr, const Type *want) {
    uint32_t id[8];
    assert(n <= 8);
    for (uint32_t k = 0; k < n; k++)
        id[k] = in[k].id;
    Infer q = {.g = e->to->at->g, .nin = n, .in = id, .attr = attr, .out = {.rank = UINT8_MAX}};
    if (want)
        q.out = *want;
    if (graph_check(&q, op))
        return true;
    diag(e->f, DiagE0406, here(e), q.error);
    in_library(e);
    for (uint32_t k = 0; k < n; k++)
        note_origin(e, in[k]);
    if (op_info[op].cls == ClassEW)
        help_clash(e, in, n);
    return false;
}

static Value fold(Op op, const Value *in, uint32_t n) {
    double x[3] = {0};
    for (uint32_t k = 0; k < n; k++)
        x[k] = in[k].num;
    return value_num(op_info[op].fold(x[0], x[1], x[2]));
}

Value apply_op(Elab *e, Op op, const Value *in, uint32_t n) {
    Val val[3];
    uint32_t plain = 0, id[3];
    for (uint32_t k = 0; k < n; k++)
        plain += value_is_plain(in[k]);
    if (plain == n)
        return fold(op, in, n);
    for (uint32_t k = 0; k < n; k++) {
        if (!want_tensor(e, in[k], &val[k]))
            return POISON;
        id[k] = val[k].id;
    }
    if (!op_fits(e, op, val, n, NULL, NULL))
        return POISON;
    return value_tensor((Val){e->to->at, builder_add(e->to->at, op, id, n, NULL, NULL)});
}

// --- axes ----------------------------------------------------------------------------------------

static bool axes_of(Elab *e, Value v, uint32_t *out) {
    if (v.kind == KindAxes) {
        *out |= v.axes;
        return true;
    }
    if (v.kind == KindList) {
        for (uint32_t i = 0; i < v.list.n; i++)
            if (!axes_of(e, v.list.at[i], out))
                return false;
        return true;
    }
    if (v.kind != KindPoison) {
        diag(e->f, DiagE0305, here(e), "`axes` (batch, channel, space, sample, all, axis(i))",
             value_what(v));
        if (value_is_plain(v) && v.num > 0 && v.num < MAX_RANK)
            diag_help(e->f,
                      "axes count from 0 and leave out the batch: axis %g of other libraries "
                      "is axis(%g)",
                      v.num, v.num - 1);
        else if (value_is_plain(v) && v.num == 0)
            diag_help(e->f, "axes count from 0 and leave out the batch: write `batch`, or axis(0), "
                            "which is `channel`");
        else if (value_is_plain(v) && v.num >= -MAX_RANK && v.num < 0)
            diag_help(e->f, "write axis(%g), or a name", v.num);
        else if (value_is_plain(v))
            diag_help(e->f, "extents are known, axes have names: x |> layer_norm(channel)");
        else
            diag_help(e->f, "name axes, as in mean(x, space) or mean(x, [batch, axis(1)])");
        in_library(e);
    }
    return false;
}

static bool is_axes(Value v) {
    return v.kind == KindAxes || (v.kind == KindList && v.list.n && v.list.at[0].kind == KindAxes);
}

static bool names_batch(Value v) {
    bool found = v.kind == KindAbsent || (v.kind == KindAxes && v.axes & (AxBatch | AxAll));
    for (uint32_t i = 0; v.kind == KindList && i < v.list.n; i++)
        found = found || names_batch(v.list.at[i]);
    return found;
}

// The axes that are numbered, from the first and from the last, as a mask of 1 + i. An axis that is
// not there is `out`'s.
static uint32_t numbered(uint32_t axes, uint32_t rank, int64_t *out, bool *fine) {
    uint32_t mask = 0;
    for (uint32_t i = 0; i < 2 * MAX_RANK; i++) {
        int64_t said = i < MAX_RANK ? (int64_t)i : (int64_t)MAX_RANK - 1 - (int64_t)i;
        int64_t at = said < 0 ? said + rank : said;
        if (!(axes >> i & AxFirst))
            continue;
        if (at >= 0 && at < rank) {
            mask |= 2u << at;
        } else if (*fine) {
            *out = said;
            *fine = false;
        }
    }
    return mask;
}

// A set of axes as the mask of reductions: bit 0 the batch, bit 1 + i axis i of a sample.
bool want_axes(Elab *e, Value v, const Type *t, uint32_t *mask) {
    uint32_t axes = v.kind == KindAbsent ? AxAll : 0, every = ((1u << t->rank) - 1) << 1;
    if (v.kind != KindAbsent && !axes_of(e, v, &axes))
        return false;
    int64_t absent = 0;
    bool fine = !(axes & AxChannel) || t->rank;
    *mask = numbered(axes, t->rank, &absent, &fine);
    if (!fine) {
        diag(e->f, DiagE0405, here(e), (long long)absent, SARG(type_text(e->perm, t)));
        in_library(e);
        return false;
    }
    if (axes & (AxSample | AxAll))
        *mask |= every;
    if (axes & AxChannel)
        *mask |= 2;
    if (axes & AxSpace)
        *mask |= every & ~2u;
    if (axes & (AxBatch | AxAll))
        *mask |= t->batched;
    return true;
}

// A reduction's result, which has extents of 1, without its axes.
static Val drop_axes(Val x, uint32_t mask, bool keep) {
    Type t = val_type(x);
    int64_t dim[MAX_RANK];
    uint32_t rank = 0;
    if (keep)
        return x;
    for (uint32_t i = 0; i < t.rank; i++)
        if (!(mask >> (1 + i) & 1))
            dim[rank++] = t.dim[i];
    return rank == t.rank ? x : Reshape(x, rank, dim);
}

static bool want_keep(Elab *e, Value v, bool *out) {
    *out = false;
    return v.kind == KindAbsent || want_bool(e, v, "keep", out);
}

// --- of a list -----------------------------------------------------------------------------------

static bool is_list_alone(const Value *in, uint32_t n) {
    for (uint32_t i = 1; i < n; i++)
        if (in[i].kind != KindAbsent)
            return false;
    return in[0].kind == KindList;
}

// One number for the whole batch, known when the model is compiled or not.
static bool is_one_number(Elab *e, Value v) {
    Val x;
    if (!value_is_tensor(v))
        return value_is_plain(v);
    if (!want_tensor(e, v, &x))
        return false;
    const Type *t = node_type(x.b->g, x.id);
    return t->rank == 0 && !t->batched;
}

// Tensors are not averaged so: in mean(D(x)) the results of a D with two heads are a mistake.
static bool is_list_of_numbers(Elab *e, const Value *in, uint32_t n) {
    if (!is_list_alone(in, n) || !in[0].list.n)
        return false;
    for (uint32_t i = 0; i < in[0].list.n; i++)
        if (!is_one_number(e, in[0].list.at[i]))
            return false;
    return true;
}

// The elements of a list, combined from its first to its last.
static Value over_list(Elab *e, List l, Op op) {
    Value all = l.at[0];
    for (uint32_t i = 1; i < l.n; i++)
        all = apply_op(e, op, (Value[]){all, l.at[i]}, 2);
    return all;
}

// --- sum and mean --------------------------------------------------------------------------------

typedef struct Reduction {
    Val x;
    uint32_t mask;
    int64_t group; // samples that are summed together; 0: not over the batch
    bool keep;
} Reduction;

// `batch`: the batch is among the axes. A shared value has none, and is each group's own mean.
static bool want_group(Elab *e, Value v, bool batch, Reduction *r) {
    if (v.kind == KindAbsent)
        return true;
    if (!batch) {
        diag(e->f, DiagE0428, here(e));
        in_library(e);
        return false;
    }
    int64_t shared;
    if (!want_int(e, v, "group", r->mask & 1 ? &r->group : &shared))
        return false;
    if (!(r->mask & 1))
        return true;
    if (r->group >= 1 && e->o->batch % r->group == 0)
        return true;
    diag(e->f, DiagE0407, here(e), (long long)r->group, (long long)e->o->batch);
    in_library(e);
    return false;
}

// A mean of one number a sample over axes of the sample, which it has none of, where that of the
// batch was meant, as in D(x) - mean(D(fake), sample). The library's functions are for any shape;
// so is a text of the user's that has met one with axes.
static void note_mean(Elab *e, const Value *in, const Reduction *r) {
    const Type *t = node_type(r->x.b->g, r->x.id);
    bool own = e->at.file && !e->f->source.at[e->at.file - 1].library;
    if (own && t->batched && in[1].kind == KindAxes && (t->rank || !r->mask))
        vec_push(e->perm, &e->mean[t->rank > 0], here(e));
}

void warn_means(Elab *e) {
    for (uint32_t i = 0; i < e->mean[false].n; i++) {
        Span at = e->mean[false].at[i];
        bool fine = false;
        for (uint32_t k = 0; k < e->mean[true].n && !fine; k++) {
            Span other = e->mean[true].at[k];
            fine = other.file == at.file && other.lo == at.lo && other.hi == at.hi;
        }
        if (!fine)
            diag(e->f, DiagW0925, at);
    }
}

static bool want_reduction(Elab *e, const Value *in, Reduction *r) {
    if (!want_tensor(e, in[0], &r->x))
        return false;
    const Type *t = node_type(r->x.b->g, r->x.id);
    if (!want_axes(e, in[1], t, &r->mask))
        return false;
    r->group = r->mask & 1 ? e->o->batch : 0;
    return want_group(e, in[2], names_batch(in[1]), r) && want_keep(e, in[3], &r->keep);
}

static int64_t reduced_count(const Reduction *r) {
    const Type *t = node_type(r->x.b->g, r->x.id);
    int64_t count = r->mask & 1 ? r->group : 1;
    for (uint32_t i = 0; i < t->rank; i++)
        if (r->mask >> (1 + i) & 1)
            count *= t->dim[i];
    return count;
}

// A sum over groups that are the whole batch is one shared value; over smaller ones it stays
// per-sample.
static Val reduced_sum(Elab *e, const Reduction *r) {
    uint32_t mask = r->mask;
    Val x = r->x;
    if (mask & 1 && r->group < e->o->batch) {
        mask &= ~1u;
        if (mask)
            x = Sum(x, mask);
        x = GroupSum(x, r->group);
    } else if (mask) {
        x = Sum(x, mask);
    }
    return drop_axes(x, r->mask, r->keep);
}

Value builtin_sum(Elab *e, const Value *in, uint32_t n) {
    Reduction r;
    if (value_is_plain(in[0]))
        return value_num(in[0].num);
    if (is_list_alone(in, n))
        return in[0].list.n ? over_list(e, in[0].list, OpAdd) : value_num(0);
    return want_reduction(e, in, &r) ? value_tensor(reduced_sum(e, &r)) : POISON;
}

Value builtin_mean(Elab *e, const Value *in, uint32_t n) {
    Reduction r;
    if (value_is_plain(in[0]))
        return value_num(in[0].num);
    if (is_list_of_numbers(e, in, n))
        return eval_arith(e, STR("/"), over_list(e, in[0].list, OpAdd), value_num(in[0].list.n));
    if (!want_reduction(e, in, &r))
        return POISON;
    note_mean(e, in, &r);
    int64_t count = reduced_count(&r);
    Val sum = reduced_sum(e, &r);
    return value_tensor(count == 1 ? sum : Mul(sum, Number(sum.b, 1.0 / (double)count)));
}

// --- extremes ------------------------------------------------------------------------------------

static Val extreme_of(Val x, uint32_t axes, bool least) {
    return least ? Neg(MaxOf(Neg(x), axes)) : MaxOf(x, axes);
}

// Of all samples, which are rows for it.
static Val over_samples(Val x, bool least) {
    Type t = val_type(x);
    int64_t all = type_sample(&t);
    return Reshape(extreme_of(rows_of(Reshape(x, 1, &all)), 2, least), t.rank, t.dim);
}

// max or min over axes.
static Value extreme(Elab *e, const Value *in, uint32_t n, bool least) {
    Val x;
    uint32_t mask;
    bool keep;
    if (in[1].kind != KindAbsent && !is_axes(in[1]) && in[2].kind == KindAbsent)
        return apply_op(e, least ? OpMin : OpMax, in, 2);
    if (is_list_of_numbers(e, in, n))
        return over_list(e, in[0].list, least ? OpMin : OpMax);
    if (value_is_plain(in[0]))
        return value_num(in[0].num);
    if (!want_tensor(e, in[0], &x) || !want_axes(e, in[1], node_type(x.b->g, x.id), &mask))
        return POISON;
    if (!want_keep(e, in[2], &keep))
        return POISON;
    uint32_t own = mask & ~1u;
    if (own && !op_fits(e, OpMaxOf, &x, 1, &(Attr){.n = 1, .i = {own}}, NULL))
        return POISON;
    Val y = own ? extreme_of(x, own, least) : x;
    y = mask & 1 ? over_samples(y, least) : y;
    return value_tensor(drop_axes(y, mask, keep));
}

Value builtin_max(Elab *e, const Value *in, uint32_t n) {
    return extreme(e, in, n, false);
}

Value builtin_min(Elab *e, const Value *in, uint32_t n) {
    return extreme(e, in, n, true);
}

Value builtin_argmax(Elab *e, const Value *in, uint32_t n) {
    Val x;
    uint32_t mask;
    bool keep;
    Value axes = in[1].kind == KindAbsent ? (Value){.kind = KindAxes, .axes = AxSample} : in[1];
    (void)n;
    if (!want_tensor(e, in[0], &x) || !want_axes(e, axes, node_type(x.b->g, x.id), &mask))
        return POISON;
    if (!want_keep(e, in[2], &keep))
        return POISON;
    Type t = val_type(x);
    Val rows = x;
    uint32_t of_rows = mask;
    if (mask & 1 && t.rank == MAX_RANK) {
        diag(e->f, DiagE0409, here(e), MAX_RANK, SARG(type_text(e->perm, &t)));
        return POISON;
    }
    if (mask & 1) { // the samples are the first axis
        rows = rows_of(x);
        of_rows = (mask & ~1u) << 1 | 2;
    }
    if (!op_fits(e, OpArgMax, &rows, 1, &(Attr){.n = 1, .i = {of_rows}}, NULL))
        return POISON;
    Val y = ArgMax(rows, of_rows);
    for (uint32_t i = 0; i < t.rank; i++)
        t.dim[i] = mask >> (1 + i) & 1 ? 1 : t.dim[i];
    y = mask & 1 ? Reshape(y, t.rank, t.dim) : y;
    return value_tensor(drop_axes(y, mask, keep));
}

Value builtin_clamp(Elab *e, const Value *in, uint32_t n) {
    (void)n;
    if (in[1].kind == KindNum && in[2].kind == KindNum && in[1].num > in[2].num) {
        diag(e->f, DiagE0306, here(e), "clamp", "a range from its low to its high end",
             SARG(value_text(e, value_list(in + 1, 2))));
        diag_help(e->f, "write clamp(x, LOW, HIGH)");
        in_library(e);
        return POISON;
    }
    Value low = apply_op(e, OpMax, (Value[]){in[0], in[1]}, 2);
    return apply_op(e, OpMin, (Value[]){low, in[2]}, 2);
}
