// emit.c - a shaped nest as text. The one emitter of all dialects: it knows loops, indices and value columns; types and
// function names come from the dialect's table. Names are positions (i0 the outermost variable, v0 the first value), and
// numbers that are not small are arguments (n0, n1, ... in order of appearance), so equal structures give equal text.
#include "dialect.h"
#include "nest.h"

#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

typedef struct Emit {
    Text *t;
    const Nest *n;
    const Dialect *d;
    Str name;
    int depth;
    bool lanes;                      // the innermost loop adds into lanes
    Numbers *numbers;                // borrowed
    VEC(uint8_t) role;               // of each number
    Dtype real;                      // the widest type computed in: what real arguments are
} Emit;

enum { SmallNumber = 16 };           // below, loops are better written out: their text keeps the number

static void line(Emit *e) {
    for (int i = 0; i < e->depth; i++) {
        text_put(e->t, STR("    "));
    }
}

static void open(Emit *e) {
    text_put(e->t, STR(" {\n"));
    e->depth++;
}

static void close(Emit *e) {
    e->depth--;
    line(e);
    text_put(e->t, STR("}\n"));
}

// What a number is for. Numbers for different things are different arguments even where they happen to be equal, or
// equal structures would get different texts.
typedef enum Role { RoleIndex, RoleTile, RoleTiles, RoleUnits, RoleSums, RoleScratch, RoleSite, RoleReal,
                    RoleExtent } Role;                   // and one more for each loop after the first

// A number as text. Larger ones become arguments, equal ones for the same purpose the same argument.
static Str num(Emit *e, uint32_t role, int64_t x) {
    if (x < SmallNumber && role != RoleSite && role != RoleReal) {
        return str_format(e->t->arena, "%" PRId64, x);
    }
    uint32_t k = 0;
    while (k < e->numbers->n && (e->numbers->at[k] != x || e->role.at[k] != role)) {
        k++;
    }
    if (k == e->numbers->n) {
        vec_push(e->t->arena, e->numbers, x);
        vec_push(e->t->arena, &e->role, (uint8_t)role);
    }
    return str_format(e->t->arena, "n%u", k);
}

// --- indices -------------------------------------------------------------------------------------

static uint32_t position(const Nest *n, uint32_t var) {
    for (uint32_t i = 0; i < n->orders; i++) {
        if (n->order[i] == var) {
            return i;
        }
    }
    bug("variable %u is not among the loops", var);
}

static void put_ix(Emit *e, Ix x);

static void put_atom(Emit *e, const Atom *a) {
    if (a->kind == AtomVar) {
        text_fmt(e->t, "i%u", position(e->n, a->var));
        return;
    }
    text_put(e->t, STR("("));
    put_ix(e, a->of);
    text_fmt(e->t, ")%c%" PRId64, a->kind == AtomDiv ? '/' : '%', a->by);
}

// In order of falling coefficients, the number last.
static void put_ix(Emit *e, Ix x) {
    const IxSum *s = &e->n->ix.sum.at[x];
    bool *done = arena_array(e->t->arena, bool, s->n), first = true;
    for (uint32_t i = 0; i < s->n; i++) {
        uint32_t best = NONE;
        for (uint32_t k = 0; k < s->n; k++) {
            if (!done[k] && (best == NONE || s->term[k].coef > s->term[best].coef)) {
                best = k;
            }
        }
        done[best] = true;
        const Atom *a = &e->n->ix.atom.at[s->term[best].atom];
        int64_t coef = s->term[best].coef;
        text_fmt(e->t, "%s", first ? (coef < 0 ? "-" : "") : coef < 0 ? " - " : " + ");
        bool wrap = a->kind != AtomVar && coef * coef != 1;
        text_put(e->t, wrap ? STR("(") : STR(""));
        put_atom(e, a);
        text_put(e->t, wrap ? STR(")") : STR(""));
        if (coef * coef != 1) {
            text_fmt(e->t, "*%.*s", SARG(num(e, RoleIndex, coef < 0 ? -coef : coef)));
        }
        first = false;
    }
    if (first) {
        text_fmt(e->t, s->off < 0 ? "-%.*s" : "%.*s", SARG(num(e, RoleIndex, s->off < 0 ? -s->off : s->off)));
    } else if (s->off) {
        text_fmt(e->t, " %c %.*s", s->off < 0 ? '-' : '+', SARG(num(e, RoleIndex, s->off < 0 ? -s->off : s->off)));
    }
}

// --- values --------------------------------------------------------------------------------------

static Dtype arg_dtype(const Nest *n, uint32_t arg) {
    const Region *r = n->region;
    uint32_t id = arg < r->in.n ? r->in.at[arg] : r->out.at[arg - r->in.n];
    return (Dtype)node_type(&n->plan->func->g, id)->dtype;
}

// Whole and half numbers are written out, for multiplying with 1 or 2 is cheaper said than read; others are arguments.
static void put_number(Emit *e, Dtype t, double x) {
    const char *f = t == DtF64 ? "" : "f";
    if (2 * x == floor(2 * x) && fabs(x) < SmallNumber) {
        text_fmt(e->t, signbit(x) ? "(%.1f%s)" : "%.1f%s", x, f);
        return;
    }
    double said = t == DtF64 ? x : (double)(float)x;
    int64_t bits;
    memcpy(&bits, &said, sizeof bits);
    text_fmt(e->t, "r%s", num(e, RoleReal, bits).ptr + 1);
}

static void put_ref(Emit *e, uint32_t id) {
    const Value *v = &e->n->value.at[id];
    if (v->kind == ValueNumber) {
        put_number(e, v->dtype, v->number);
    } else {
        text_fmt(e->t, "v%u", id);
    }
}

static const char *math_name(const Emit *e, Str word, bool f64) {
    for (const MathName *m = e->d->math; m->row; m++) {
        if (str_eq(word, str_c(m->row))) {
            return f64 ? m->f64 : m->f32;
        }
    }
    bug("dialect %s has no function %.*s", e->d->name, SARG(word));
}

// The value column with operands, casts and functions put in.
static void put_ew(Emit *e, const Value *v) {
    const char *c = op_info[v->op].value;
    while (*c) {
        size_t n = 0;
        while (isalnum((unsigned char)c[n]) || c[n] == '_') {
            n++;
        }
        if (n == 0 || isdigit((unsigned char)*c)) {
            n = n ? n : 1;
            text_put(e->t, (Str){c, n});
        } else if (n == 1 && *c >= 'a' && *c <= 'c') {
            put_ref(e, *c == 'a' ? v->a : *c == 'b' ? v->b : v->c);
        } else if (n == 1 && *c == 'K') {
            text_fmt(e->t, "(%s)", e->d->compute[v->dtype]);
        } else {
            text_fmt(e->t, "%s", math_name(e, (Str){c, n}, v->dtype == DtF64));
        }
        c += n;
    }
}

static void put_load(Emit *e, const Value *v) {
    Dtype t = arg_dtype(e->n, v->arg);
    if (v->bounds) {
        text_fmt(e->t, "g%u ? ", v->bounds);
    }
    text_fmt(e->t, "%s(a%u[", e->d->load[t], v->arg);
    put_ix(e, v->at);
    if (v->a != NONE) {
        text_fmt(e->t, " + (int64_t)v%u*%.*s", v->a, SARG(num(e, RoleIndex, v->row)));
    }
    text_fmt(e->t, "])%s", v->bounds ? " : 0" : "");
}

static void put_draw(Emit *e, const Value *v) {
    bool f64 = v->dtype == DtF64;
    text_fmt(e->t, "%s(c->seed, (uint32_t)%.*s, c->step, c->round, (uint32_t)(%s",
             (f64 ? e->d->draw64 : e->d->draw32)[v->dist], SARG(num(e, RoleSite, v->site)),
             v->batched ? "c->sample0 + " : "");
    put_ix(e, v->sample);
    text_put(e->t, STR("), (uint32_t)("));
    put_ix(e, v->at);
    text_put(e->t, STR(")"));
    if (v->dist == DistCategorical) {
        text_put(e->t, STR(", "));
        put_number(e, v->dtype, v->number);
    }
    text_put(e->t, STR(")"));
}

static void put_value(Emit *e, const Value *v) {
    switch (v->kind) {
    case ValueNumber:
        put_number(e, v->dtype, v->number);
        break;
    case ValueIndex:
        text_fmt(e->t, "(%s)(", e->d->compute[v->dtype]);
        put_ix(e, v->at);
        if (v->sample0) {
            text_fmt(e->t, " + c->sample0*%.*s", SARG(num(e, RoleIndex, v->sample0)));
        }
        text_put(e->t, STR(")"));
        break;
    case ValueLoad:
        put_load(e, v);
        break;
    case ValueEw:
        put_ew(e, v);
        break;
    case ValueDraw:
        put_draw(e, v);
        break;
    case ValueSelect:
        text_fmt(e->t, "g%u ? ", v->bounds);
        put_ref(e, v->a);
        text_put(e->t, STR(" : "));
        put_ref(e, v->b);
        break;
    case ValueRow:
        text_fmt(e->t, "(%s)gan_row(", e->d->compute[v->dtype]);
        put_ref(e, v->a);
        text_fmt(e->t, ", %.*s)", SARG(num(e, RoleIndex, v->rows)));
        break;
    }
}

static void put_bounds(Emit *e, uint32_t id) {
    const Bounds *b = &e->n->bounds.at[id];
    line(e);
    text_fmt(e->t, "const int g%u = ", id);
    for (uint32_t i = 0; i < b->n; i++) {
        int64_t lo, hi;
        ix_range(&e->n->ix, b->b[i].at, &lo, &hi);
        text_put(e->t, i ? STR(" & ") : STR(""));
        if (lo < b->b[i].lo) {
            text_put(e->t, STR("("));
            put_ix(e, b->b[i].at);
            text_fmt(e->t, " >= %.*s)%s", SARG(num(e, RoleIndex, b->b[i].lo)), hi >= b->b[i].hi ? " & " : "");
        }
        if (hi >= b->b[i].hi) {
            text_put(e->t, STR("("));
            put_ix(e, b->b[i].at);
            text_fmt(e->t, " < %.*s)", SARG(num(e, RoleIndex, b->b[i].hi)));
        }
    }
    text_put(e->t, STR(";\n"));
}

// Everything that is known from this level on.
static void put_level(Emit *e, uint32_t level) {
    const Nest *n = e->n;
    for (uint32_t i = 1; i < n->bounds.n; i++) {
        if (n->bounds_level.at[i] == level && n->bounds.at[i].n) {
            put_bounds(e, i);
        }
    }
    for (uint32_t i = 0; i < n->value.n; i++) {
        const Value *v = &n->value.at[i];
        if (v->level == level && v->kind != ValueNumber) {
            line(e);
            text_fmt(e->t, "const %s v%u = ", e->d->compute[v->dtype], i);
            put_value(e, v);
            text_put(e->t, STR(";\n"));
        }
    }
}

// --- accumulators --------------------------------------------------------------------------------

static const char *acc_type(const Emit *e, const Reduce *r) {
    return e->d->compute[r->dtype];
}

static bool many(const Emit *e) {
    return nest_accumulators(e->n) > 1;
}

// Index of the accumulator of the present kept variables: "[...]", or nothing when there is one.
static void put_acc_index(Emit *e) {
    const Nest *n = e->n;
    if (!many(e)) {
        return;
    }
    int64_t stride = nest_accumulators(n);
    bool first = true;
    text_put(e->t, STR("["));
    for (uint32_t i = n->prefix; i < n->orders; i++) {
        const Var *v = &n->var[n->order[i]];
        if (v->reduced) {
            continue;
        }
        stride /= v->tile ? v->tile : v->n;
        text_fmt(e->t, v->tile ? "%s(i%u - from)" : "%si%u", first ? "" : " + ", i);
        if (stride > 1) {
            text_fmt(e->t, "*%.*s", SARG(num(e, RoleSums, stride)));
        }
        first = false;
    }
    text_put(e->t, STR("]"));
}

static void put_acc(Emit *e, uint32_t r, bool lane) {
    text_fmt(e->t, lane ? "l%u[l]" : "s%u", r);
    if (!lane) {
        put_acc_index(e);
    }
}

static const char *identity(const Reduce *r) {
    return r->kind == ReduceSum ? "0" : "-INFINITY";
}

static void put_acc_init(Emit *e) {
    int64_t count = nest_accumulators(e->n);
    for (uint32_t i = 0; i < e->n->reduce.n; i++) {
        const Reduce *r = &e->n->reduce.at[i];
        line(e);
        if (count == 1) {
            text_fmt(e->t, "%s s%u = %s;", acc_type(e, r), i, identity(r));
            text_fmt(e->t, r->kind == ReduceArgMax ? " int64_t x%u = 0;\n" : "\n", i);
            continue;
        }
        text_fmt(e->t, "%s s%u[%d];", acc_type(e, r), i, MAX_ACC);
        text_fmt(e->t, r->kind == ReduceArgMax ? " int64_t x%u[%d];\n" : "\n", i, MAX_ACC);
        line(e);
        text_fmt(e->t, "for (int64_t k = 0; k < %.*s; k++) s%u[k] = %s;\n", SARG(num(e, RoleSums, count)), i, identity(r));
        if (r->kind == ReduceArgMax) {
            line(e);
            text_fmt(e->t, "for (int64_t k = 0; k < %.*s; k++) x%u[k] = 0;\n", SARG(num(e, RoleSums, count)), i);
        }
    }
}

static void put_update(Emit *e, uint32_t i, bool lane) {
    const Reduce *r = &e->n->reduce.at[i];
    line(e);
    if (r->kind == ReduceArgMax) {
        text_put(e->t, STR("{ const int64_t x = "));
        put_ix(e, r->index);
        text_put(e->t, STR("; const int g = "));
        put_ref(e, r->value);
        text_put(e->t, STR(" > "));
        put_acc(e, i, false);
        text_put(e->t, STR(" || ("));
        put_ref(e, r->value);
        text_put(e->t, STR(" == "));
        put_acc(e, i, false);
        text_fmt(e->t, " && x < x%u", i);
        put_acc_index(e);
        text_put(e->t, STR("); "));
        put_acc(e, i, false);
        text_put(e->t, STR(" = g ? "));
        put_ref(e, r->value);
        text_put(e->t, STR(" : "));
        put_acc(e, i, false);
        text_fmt(e->t, "; x%u", i);
        put_acc_index(e);
        text_fmt(e->t, " = g ? x : x%u", i);
        put_acc_index(e);
        text_put(e->t, STR("; }\n"));
        return;
    }
    put_acc(e, i, lane);
    if (r->kind == ReduceSum) {
        text_put(e->t, STR(" += "));
        put_ref(e, r->value);
    } else {
        text_put(e->t, STR(" = "));
        put_ref(e, r->value);
        text_put(e->t, STR(" > "));
        put_acc(e, i, lane);
        text_put(e->t, STR(" ? "));
        put_ref(e, r->value);
        text_put(e->t, STR(" : "));
        put_acc(e, i, lane);
    }
    text_put(e->t, STR(";\n"));
}

// --- loops ---------------------------------------------------------------------------------------

static void put_body(Emit *e, bool lane) {
    for (uint32_t i = 0; i < e->n->store.n; i++) {
        const Store *s = &e->n->store.at[i];
        line(e);
        text_fmt(e->t, "a%u[", s->arg);
        put_ix(e, s->at);
        text_fmt(e->t, "] = %s(", e->d->store[arg_dtype(e->n, s->arg)]);
        put_ref(e, s->value);
        text_put(e->t, STR(");\n"));
    }
    for (uint32_t i = 0; i < e->n->reduce.n; i++) {
        put_update(e, i, lane);
    }
}

static void put_simd(Emit *e) {
    line(e);
    text_fmt(e->t, "%s\n", e->d->simd);
}

static void put_in_order(Emit *e) {
    line(e);
    text_fmt(e->t, "%s\n", e->d->in_order);
}

// "lo" and "hi" of loop k, as text.
static void put_limits(Emit *e, uint32_t k, Str *lo, Str *hi) {
    const Var *v = &e->n->var[e->n->order[k]];
    *lo = v->tile ? STR("from") : STR("0");
    *hi = v->tile ? STR("to") : num(e, RoleExtent + k, v->n);
}

// Lanes of the innermost loop, when it is over a reduced variable. There are always some: a plain running sum would be
// left to the compiler's in-order vectorisation, which gcc 12 gets wrong for short loops that walk backwards.
static int lanes_of(const Emit *e) {
    const Var *v = &e->n->var[e->n->order[e->n->orders - 1]];
    int64_t n = v->tile ? v->tile : v->n;
    return n < LANES ? (int)n : LANES;
}

static void put_lanes_begin(Emit *e) {
    for (uint32_t i = 0; i < e->n->reduce.n; i++) {
        const Reduce *r = &e->n->reduce.at[i];
        if (r->kind != ReduceArgMax) {
            line(e);
            text_fmt(e->t, "%s l%u[%d];\n", acc_type(e, r), i, lanes_of(e));
            line(e);
            text_fmt(e->t, "for (int l = 0; l < %d; l++) l%u[l] = %s;\n", lanes_of(e), i, identity(r));
        }
    }
}

static void put_lanes_end(Emit *e) {
    for (uint32_t i = 0; i < e->n->reduce.n; i++) {
        const Reduce *r = &e->n->reduce.at[i];
        if (r->kind == ReduceArgMax) {
            continue;
        }
        line(e);
        text_fmt(e->t, "{ const %s m = gan_%s_lanes%s(l%u, %d); ", acc_type(e, r), r->kind == ReduceSum ? "sum" : "max",
                 r->dtype == DtF64 ? "" : "f", i, lanes_of(e));
        put_acc(e, i, false);
        if (r->kind == ReduceSum) {
            text_put(e->t, STR(" += m; }\n"));
        } else {
            text_put(e->t, STR(" = m > "));
            put_acc(e, i, false);
            text_put(e->t, STR(" ? m : "));
            put_acc(e, i, false);
            text_put(e->t, STR("; }\n"));
        }
    }
}

// One lane for each of `count` elements from j on.
static void put_lane_body(Emit *e, uint32_t k, uint32_t level, Str count) {
    put_simd(e);
    line(e);
    text_fmt(e->t, "for (int l = 0; l < %.*s; l++)", SARG(count));
    open(e);
    line(e);
    text_fmt(e->t, "const int64_t i%u = j + l;\n", k);
    put_level(e, level);
    put_body(e, true);
    close(e);
}

// The innermost loop over a reduced variable, LANES elements at a time, and what is left over.
static void put_lane_loop(Emit *e, uint32_t k, uint32_t level) {
    const Var *v = &e->n->var[e->n->order[k]];
    Str lo, hi;
    put_limits(e, k, &lo, &hi);
    line(e);
    text_fmt(e->t, "int64_t j = %.*s;\n", SARG(lo));
    if (lanes_of(e) == LANES) {
        line(e);
        text_fmt(e->t, "for (; j + %d <= %.*s; j += %d)", LANES, SARG(hi), LANES);
        open(e);
        put_lane_body(e, k, level, str_format(e->t->arena, "%d", LANES));
        close(e);
    }
    if (v->n % LANES) {
        bool fixed = lanes_of(e) < LANES && !v->tile;
        put_lane_body(e, k, level, fixed ? str_format(e->t->arena, "%d", lanes_of(e))
                                         : str_format(e->t->arena, "%.*s - j", SARG(hi)));
    }
}

static void put_loops(Emit *e, uint32_t k) {
    const Nest *n = e->n;
    if (k == n->orders) {
        put_body(e, false);
        return;
    }
    const Var *v = &n->var[n->order[k]];
    uint32_t level = 2 + k - n->prefix;
    bool last = k + 1 == n->orders;
    if (last && e->lanes) {
        if (many(e)) {
            put_lanes_begin(e);
        }
        put_lane_loop(e, k, level);
        if (many(e)) {
            put_lanes_end(e);
        }
        return;
    }
    Str lo, hi;
    put_limits(e, k, &lo, &hi);
    if (last && !v->reduced) {
        put_simd(e);
    }
    line(e);
    text_fmt(e->t, "for (int64_t i%u = %.*s; i%u < %.*s; i%u++)", k, SARG(lo), k, SARG(hi), k);
    open(e);
    if (last && v->reduced) {
        put_in_order(e);
    }
    put_level(e, level);
    put_loops(e, k + 1);
    close(e);
}

// --- results of a unit ---------------------------------------------------------------------------

// Opens loops over the kept variables inside the unit; returns how many.
static int put_kept_loops(Emit *e) {
    const Nest *n = e->n;
    int opened = 0;
    for (uint32_t i = n->prefix; i < n->orders; i++) {
        if (!n->var[n->order[i]].reduced) {
            Str lo, hi;
            put_limits(e, i, &lo, &hi);
            line(e);
            text_fmt(e->t, "for (int64_t i%u = %.*s; i%u < %.*s; i%u++)", i, SARG(lo), i, SARG(hi), i);
            open(e);
            opened++;
        }
    }
    return opened;
}

static void put_result(Emit *e, uint32_t i) {
    const Reduce *r = &e->n->reduce.at[i];
    if (r->copies > 1) {
        line(e);
        text_fmt(e->t, "for (int64_t k = 0; k < %.*s; k++)\n    ", SARG(num(e, RoleIndex, r->copies)));
    }
    line(e);
    text_fmt(e->t, "a%u[", r->arg);
    put_ix(e, r->at);
    if (r->copies > 1) {
        text_fmt(e->t, " + k*%.*s", SARG(num(e, RoleIndex, r->copy_step)));
    }
    text_fmt(e->t, "] = %s(", e->d->store[arg_dtype(e->n, r->arg)]);
    if (r->kind == ReduceArgMax) {
        text_fmt(e->t, "(%s)x%u", acc_type(e, r), i);
    } else {
        text_fmt(e->t, "s%u", i);
    }
    put_acc_index(e);
    text_put(e->t, STR(");\n"));
}

static void put_results(Emit *e) {
    if (nest_partial(e->n)) {
        int64_t count = nest_accumulators(e->n);
        for (uint32_t i = 0; i < e->n->reduce.n; i++) {
            line(e);
            if (count == 1) {
                text_fmt(e->t, "q%u[u] = s%u;\n", i, i);
            } else {
                Str n = num(e, RoleSums, count);
                text_fmt(e->t, "for (int64_t k = 0; k < %.*s; k++) q%u[u*%.*s + k] = s%u[k];\n", SARG(n), i, SARG(n), i);
            }
        }
        return;
    }
    int opened = e->n->reduce.n ? put_kept_loops(e) : 0;
    for (uint32_t i = 0; i < e->n->reduce.n; i++) {
        put_result(e, i);
    }
    while (opened--) {
        close(e);
    }
}

// --- functions -----------------------------------------------------------------------------------

static void put_args(Emit *e, bool inputs) {
    const Region *r = e->n->region;
    for (uint32_t i = inputs ? 0 : r->in.n; i < r->in.n + r->out.n; i++) {
        const char *type = e->d->storage[arg_dtype(e->n, i)], *in = i < r->in.n ? "const " : "";
        line(e);
        text_fmt(e->t, "%s%s *a%u = (%s%s *)p[%u];\n", in, type, i, in, type, i);
    }
    size_t off = 0;
    for (uint32_t i = 0; nest_partial(e->n) && i < e->n->reduce.n; i++) {
        const Reduce *x = &e->n->reduce.at[i];
        line(e);
        text_fmt(e->t, "%s *q%u = (%s *)((char *)p[%u] + %.*s);\n", acc_type(e, x), i, acc_type(e, x),
                 r->in.n + r->out.n, SARG(num(e, RoleScratch, (int64_t)off)));
        off += (size_t)(e->n->units * nest_accumulators(e->n)) * (x->dtype == DtF64 ? 8 : 4);
    }
}

// The prefix's variables and the tile from number `u`. `tiles`: how many numbers a tile takes part in.
static void put_decode(Emit *e, int64_t tiles) {
    const Nest *n = e->n;
    int64_t below = tiles;
    if (tiles > 1) {
        const Var *v = &n->var[n->tiled];
        Str size = num(e, RoleTile, v->tile), all = num(e, RoleExtent + position(n, n->tiled), v->n);
        line(e);
        text_fmt(e->t, "const int64_t from = u %% %.*s * %.*s;\n", SARG(num(e, RoleTiles, tiles)), SARG(size));
        line(e);
        text_fmt(e->t, "const int64_t to = from + %.*s < %.*s ? from + %.*s : %.*s;\n", SARG(size), SARG(all), SARG(size),
                 SARG(all));
    }
    for (uint32_t i = n->prefix; i-- > 0;) {
        int64_t extent = n->var[n->order[i]].n;
        line(e);
        text_fmt(e->t, "const int64_t i%u = u", i);
        if (below > 1) {
            text_fmt(e->t, " / %.*s", SARG(num(e, RoleUnits, below)));
        }
        if (i > 0) {
            text_fmt(e->t, " %% %.*s", SARG(num(e, RoleExtent + i, extent)));
        }
        text_put(e->t, STR(";\n"));
        below *= extent;
    }
}

static void put_units(Emit *e) {
    const Nest *n = e->n;
    put_level(e, 0);
    if (n->flat) {
        put_simd(e);
        line(e);
        text_put(e->t, STR("for (int64_t i0 = lo; i0 < hi; i0++)"));
        open(e);
        put_level(e, 2);
        put_body(e, false);
        close(e);
        return;
    }
    line(e);
    text_put(e->t, STR("for (int64_t u = lo; u < hi; u++)"));
    open(e);
    put_decode(e, nest_tiles(n));
    put_level(e, 1);
    put_acc_init(e);
    if (e->lanes && !many(e)) {
        put_lanes_begin(e);
    }
    put_loops(e, n->prefix);
    if (e->lanes && !many(e)) {
        put_lanes_end(e);
    }
    put_results(e);
    close(e);
}

// Adds the partial results of the pieces, first to last.
static void put_finish(Emit *e) {
    const Nest *n = e->n;
    int64_t tiles = nest_tiles(n), count = nest_accumulators(n);
    Str parts = num(e, RoleTiles, tiles), accs = num(e, RoleSums, count);
    const char *k = count > 1 ? "[k]" : "";
    line(e);
    text_fmt(e->t, "for (int64_t u = 0; u < %.*s; u++)", SARG(num(e, RoleUnits, n->units / tiles)));
    open(e);
    put_decode(e, 1);
    put_acc_init(e);
    line(e);
    text_fmt(e->t, "for (int64_t t = u*%.*s; t < (u + 1)*%.*s; t++)", SARG(parts), SARG(parts));
    open(e);
    for (uint32_t i = 0; i < n->reduce.n; i++) {
        Str part = str_format(e->t->arena, "q%u[t*%.*s + k]", i, SARG(accs));
        line(e);
        text_fmt(e->t, "for (int64_t k = 0; k < %.*s; k++) s%u%s ", SARG(accs), i, k);
        if (n->reduce.at[i].kind == ReduceSum) {
            text_fmt(e->t, "+= %.*s;\n", SARG(part));
        } else {
            text_fmt(e->t, "= %.*s > s%u%s ? %.*s : s%u%s;\n", SARG(part), i, k, SARG(part), i, k);
        }
    }
    close(e);
    int opened = put_kept_loops(e);
    for (uint32_t i = 0; i < n->reduce.n; i++) {
        put_result(e, i);
    }
    while (opened--) {
        close(e);
    }
    close(e);
}

// A function around `body`: its arguments are known when that is written.
static void put_function(Emit *e, const char *head, void (*body)(Emit *e), bool inputs) {
    const Region *r = e->n->region;
    Text *out = e->t, inside = {.arena = out->arena};
    e->t = &inside;
    e->depth = 1;
    put_args(e, inputs);
    body(e);
    e->t = out;
    text_fmt(out, head, SARG(e->name));
    if (e->numbers->n) {
        text_fmt(out, "    const int64_t *n = (const int64_t *)p[%u];\n", r->in.n + r->out.n + 1);
    }
    for (uint32_t i = 0; i < e->numbers->n; i++) {
        if (e->role.at[i] == RoleReal) {
            text_fmt(out, "    const %s r%u = gan_f64_bits((uint64_t)n[%u]);\n", e->d->compute[e->real], i, i);
        } else {
            text_fmt(out, "    const int64_t n%u = n[%u];\n", i, i);
        }
    }
    text_put(out, text_str(&inside));
    text_put(out, STR("}\n"));
}

void emit_kernel(Text *t, const Nest *n, const Dialect *d, Str name, Numbers *numbers) {
    Emit e = {.t = t, .n = n, .d = d, .name = name, .numbers = numbers};
    e.lanes = n->reduce.n && n->prefix < n->orders && n->var[n->order[n->orders - 1]].reduced;
    e.real = DtF32;
    for (uint32_t i = 0; i < n->value.n; i++) {
        e.real = n->value.at[i].dtype == DtF64 ? DtF64 : e.real;
    }
    put_function(&e, d->signature, put_units, true);
    if (nest_partial(n)) {
        put_function(&e, d->finish, put_finish, false);
    }
}
