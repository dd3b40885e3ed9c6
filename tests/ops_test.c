// ops_test.c - iterates over the operation table. Every operation is built in small instances of
// many shapes:
// - its value is compared with its definition (the row's own column for elementwise rows,
//   support/naive.c for others),
// - its gradients of first and second order are compared with central differences of the
//   evaluator's own values,
// - whether it is linear is found from its values, and compared with its traits.
// A new elementwise row is covered automatically; a new structural operation fails here until it
// has instances below.
#include "interp.h"
#include "naive.h"
#include "op.h"
#include "pass.h"

#include <math.h>
#include <string.h>

enum { MAX_X = 4, BATCH = 4 };

typedef struct Case {
    Arena *arena;
    Func f;
    Builder *at; // adds to it
    char name[160];
    uint32_t nx;
    Val x[MAX_X];                   // inputs: Reads of slots 0, 1, ...
    double low[MAX_X], high[MAX_X]; // the range of its random numbers
    bool whole[MAX_X];              // whole numbers: an index, a truth value; not differentiated
    Val y;
} Case;

static uint32_t cases, failures;

static void complain(const Case *c, const char *what, int64_t i, double got, double want) {
    if (failures++ < 20) {
        printf("FAIL %s: %s %lld is %.12g, should be %.12g\n", c->name, what, (long long)i, got,
               want);
    }
}

static Type shape(bool batched, uint32_t rank, int64_t d0, int64_t d1, int64_t d2, int64_t d3) {
    return type_make(batched, rank, (int64_t[]){d0, d1, d2, d3});
}

static Case case_new(Arena *a, const char *format, ...) {
    Case c = {.arena = a, .f = {.name = STR("test"), .blocks = 1}};
    graph_init(&c.f.g, a, BATCH);
    c.at = arena_new(a, Builder);
    va_list args;
    va_start(args, format);
    vsnprintf(c.name, sizeof c.name, format, args);
    va_end(args);
    return c;
}

static Val case_input(Case *c, Type t) {
    uint32_t k = c->nx++;
    c->low[k] = -2;
    c->high[k] = 2;
    c->at->g = &c->f.g; // where the case is by now
    return c->x[k] = Read(c->at, k, 0, t);
}

// --- numbers -------------------------------------------------------------------------------------

static uint32_t result_of(const Case *c, const char *name) {
    for (uint32_t i = 0; i < c->f.result.n; i++)
        if (str_eq(c->f.result.at[i].name, str_c(name)))
            return c->f.result.at[i].node;
    return 0;
}

// Fills the Reads of the (rebuilt) graph: inputs by slot, fixed weights with slots from 100.
static Interp fill(const Case *c, double *const *x) {
    const Graph *g = &c->f.g;
    Interp t = interp_make(c->arena, g);
    for (uint32_t id = 1; id < g->node.n; id++) {
        if (graph_node(g, id)->op == OpRead) {
            int64_t slot = node_attr(g, id)->i[0];
            double *to = interp_set(&t, id);
            for (int64_t i = 0; i < interp_count(&t, id); i++)
                to[i] = slot < 100 ? x[slot][i] : test_number((uint64_t)(slot * 1000 + i));
        }
    }
    return t;
}

static void draw(const Case *c, uint64_t seed, double *x[MAX_X]) {
    for (uint32_t k = 0; k < c->nx; k++) {
        const Type *t = node_type(&c->f.g, c->x[k].id);
        int64_t n = type_elements(&c->f.g, t);
        x[k] = arena_array(c->arena, double, n);
        for (int64_t i = 0; i < n; i++) {
            double u = (test_number(seed * 7919 + k * 100003 + (uint64_t)i) + 1) / 2;
            x[k][i] = c->low[k] + (c->high[k] - c->low[k]) * u;
            x[k][i] = c->whole[k] ? floor(x[k][i]) : x[k][i];
        }
    }
}

static bool near(double got, double want, double tolerance) {
    return fabs(got - want) <= tolerance * fmax(1, fmax(fabs(got), fabs(want)));
}

// --- values --------------------------------------------------------------------------------------

static int64_t broadcast_place(const Type *out, const Type *t, int64_t i) {
    int64_t at = 0, step = 1;
    for (uint32_t d = out->rank; d-- > 0;) {
        int64_t extent = d < t->rank ? t->dim[d] : 1;
        at += extent == 1 ? 0 : i % out->dim[d] * step;
        step *= extent;
        i /= out->dim[d];
    }
    return at + (t->batched ? i * step : 0);
}

static void expect_ew(const Graph *g, uint32_t id, const double *const *in, double *out) {
    const Node *n = graph_node(g, id);
    for (int64_t i = 0; i < type_elements(g, node_type(g, id)); i++) {
        double x[3] = {0};
        for (uint32_t k = 0; k < n->nin; k++)
            x[k] = in[k][broadcast_place(node_type(g, id), node_type(g, node_in(g, id, k)), i)];
        out[i] = op_info[n->op].fold(x[0], x[1], x[2]);
    }
}

// The value of every node of the case's graph, against definitions, in double and in float.
static void check_values(const Case *c, double *const *x) {
    const Graph *g = &c->f.g;
    Interp t = fill(c, x);
    interp_run(&t);
    for (uint32_t id = 1; id < g->node.n; id++) {
        const Node *n = graph_node(g, id);
        int64_t count = interp_count(&t, id);
        double *want = arena_array(c->arena, double, count);
        float *single = arena_array(c->arena, float, count);
        const double *in[UINT8_MAX];
        const void *in_single[UINT8_MAX];
        for (uint32_t k = 0; k < n->nin; k++) {
            uint32_t from = node_in(g, id, k);
            in[k] = t.value[from];
            float *copy = arena_array(c->arena, float, interp_count(&t, from));
            for (int64_t i = 0; i < interp_count(&t, from); i++)
                copy[i] = (float)in[k][i];
            in_single[k] = copy;
        }
        if (op_info[n->op].fold)
            expect_ew(g, id, in, want);
        else if (!naive_node(g, id, in, want))
            continue;
        eval_node(g, id, in_single, single, false, &t.counters, *c->arena);
        for (int64_t i = 0; i < count; i++) {
            double got = interp_at(&t, id, i);
            if (!near(got, want[i], 1e-12))
                complain(c, op_info[n->op].text, i, got, want[i]);
            if (op_info[n->op].cls != ClassEW && !near(single[i], want[i], 1e-5))
                complain(c, "in float", i, single[i], want[i]);
        }
    }
}

// --- gradients -----------------------------------------------------------------------------------

static Val weigh(Val y, uint32_t slot) {
    Val w = Read(y.b, slot, 0, val_type(y));
    return Sum(Mul(w, y), (2u << val_type(y).rank) - 1);
}

static const char *const order_name[] = {"", "first", "second"};

// L = sum w*y; its gradients "d1_k"; M = sum over k of v_k * d1_k; its gradients "d2_k".
static void add_gradients(Case *c) {
    Val value[3] = {{0}, weigh(c->y, 100), {0}};
    for (uint32_t order = 1; order <= 2; order++) {
        vec_push(c->arena, &c->f.result,
                 ((Named){str_format(c->arena, "value%u", order), value[order].id, 0}));
        Val next = Number(c->at, 0);
        for (uint32_t k = 0; k < c->nx; k++) {
            Val d = Grad(value[order], c->x[k]);
            vec_push(c->arena, &c->f.result,
                     ((Named){str_format(c->arena, "d%u_%u", order, k), d.id, 0}));
            next = order == 1 && !c->whole[k] ? Add(next, weigh(d, 101 + k)) : next;
        }
        if (order == 1)
            value[2] = Reshape(next, 0, NULL);
    }
    pass_grad(c->arena, NULL, &c->f, NULL);
}

static double value_at(const Case *c, double *const *x, const char *name) {
    Interp t = fill(c, x);
    interp_run(&t);
    return interp_at(&t, result_of(c, name), 0);
}

static void check_order(const Case *c, double *x[MAX_X], uint32_t order) {
    const double h = 1e-5;
    char value[16], name[16], what[48];
    Interp t = fill(c, x);
    interp_run(&t);
    snprintf(value, sizeof value, "value%u", order);
    for (uint32_t k = 0; k < c->nx; k++) {
        snprintf(name, sizeof name, "d%u_%u", order, k);
        snprintf(what, sizeof what, "%s derivative to input %u, element", order_name[order], k);
        uint32_t d = result_of(c, name);
        for (int64_t i = 0; i < interp_count(&t, d) && !c->whole[k]; i++) {
            Arena mark = *c->arena;
            double at = x[k][i];
            x[k][i] = at + h;
            double up = value_at(c, x, value);
            x[k][i] = at - h;
            double down = value_at(c, x, value);
            x[k][i] = at;
            *c->arena = mark;
            if (!near(interp_at(&t, d, i), (up - down) / (2 * h), 2e-6))
                complain(c, what, i, interp_at(&t, d, i), (up - down) / (2 * h));
        }
    }
}

// --- traits --------------------------------------------------------------------------------------

enum { AllOperands = 1, First = 2, Second = 4 };
static uint8_t curved_in[OpCount]; // the sets of operands in which some instance is not linear
static bool has_instances[OpCount];

// f(2u - 3v) = 2 f(u) - 3 f(v), where u and v replace the operands of a set? The others are as in
// `t`. Halves, for comparisons to hold at times.
static bool is_linear(const Interp *t, uint32_t id, uint32_t set) {
    const Graph *g = t->g;
    uint32_t nin = graph_node(g, id)->nin;
    int64_t n = interp_count(t, id);
    const void *in[3][MAX_IN];
    double *out[3];
    for (uint32_t v = 0; v < 3; v++) {
        out[v] = arena_array(t->arena, double, n);
        for (uint32_t k = 0; k < nin; k++) {
            uint32_t from = node_in(g, id, k);
            int64_t count = interp_count(t, from);
            bool varies = set == AllOperands || set == (uint32_t)First << k;
            double *x = varies ? arena_array(t->arena, double, count) : t->value[from];
            for (int64_t i = 0; i < count && varies; i++) {
                uint64_t key = (uint64_t)(i * MAX_IN + k) * 2;
                double a = floor(3 * test_number(key)) / 2, b = floor(3 * test_number(key + 1)) / 2;
                x[i] = v == 0 ? a : v == 1 ? b : 2 * a - 3 * b;
            }
            in[v][k] = x;
        }
        eval_node(g, id, in[v], out[v], true, &t->counters, *t->arena);
    }
    bool linear = true;
    for (int64_t i = 0; i < n; i++)
        linear &= near(out[2][i], 2 * out[0][i] - 3 * out[1][i], 1e-12);
    return linear;
}

static bool is_function(Op op) { // of its operands alone
    OpClass c = (OpClass)op_info[op].cls;
    return c == ClassEW || c == ClassREDUCE || c == ClassMOVE || c == ClassANCHOR;
}

static void find_traits(const Case *c, double *const *x) {
    const Graph *g = &c->f.g;
    Interp t = fill(c, x);
    interp_run(&t);
    for (uint32_t id = 1; id < g->node.n; id++) {
        Op op = (Op)graph_node(g, id)->op;
        if (!is_function(op))
            continue;
        has_instances[op] = true;
        for (uint32_t set = AllOperands; set <= Second; set <<= 1)
            if (!(curved_in[op] & set) && !is_linear(&t, id, set))
                curved_in[op] |= set;
    }
}

static uint32_t trait_of(Op op) {
    uint32_t in = ~(uint32_t)curved_in[op];
    if (in & AllOperands)
        return TraitLinear;
    if (op_info[op].most != 2 || !(in & First))
        return 0;
    return in & Second ? TraitBilinear : TraitLinearFirst;
}

static void check_traits(Op op) {
    const uint32_t all = TraitLinear | TraitBilinear | TraitLinearFirst;
    const Case c = {.name = "linear in the operands (Trait)"};
    if (has_instances[op] && trait_of(op) != (op_info[op].traits & all))
        complain(&c, op_info[op].text, 0, op_info[op].traits & all, trait_of(op));
}

static void check(Case *c, bool differentiable) {
    Arena mark = *c->arena;
    double *x[MAX_X];
    cases++;
    draw(c, cases, x);
    check_values(c, x);
    find_traits(c, x);
    if (differentiable) {
        add_gradients(c);
        check_order(c, x, 1);
        check_order(c, x, 2);
    }
    *c->arena = mark;
}

// --- elementwise rows ----------------------------------------------------------------------------

// Comparisons with NaN have results; all other operations on NaN give NaN.
static void check_nan(Arena *a, Op op) {
    bool asks = op == OpGt || op == OpGe || op == OpEq || op == OpSign || op == OpWhere;
    for (uint32_t k = 0; !asks && k < op_info[op].least; k++) {
        const Case c = case_new(a, "%s, operand %u is NaN", op_info[op].text, k);
        double x[3] = {0.5, 0.5, 0.5};
        x[k] = NAN;
        double y = op_info[op].fold(x[0], x[1], x[2]);
        cases++;
        if (!isnan(y))
            complain(&c, "value", 0, y, NAN);
    }
}

static void walk_ew(Arena *a, Op op) {
    static const struct {
        bool batched;
        uint8_t rank;
        int64_t dim[3];
    } pattern[][3] = {
        {{true, 2, {3, 2}}, {true, 2, {3, 2}}, {true, 2, {3, 2}}},
        {{true, 3, {2, 3, 2}}, {false, 1, {2}}, {false, 0, {0}}},
        {{false, 1, {3}}, {true, 2, {3, 2}}, {true, 0, {0}}},
        {{true, 2, {2, 1}}, {false, 2, {1, 3}}, {true, 2, {2, 3}}},
        {{false, 2, {2, 2}}, {false, 1, {2}}, {false, 2, {1, 2}}},
        {{true, 0, {0}}, {false, 0, {0}}, {true, 1, {2}}},
    };
    const OpInfo *info = &op_info[op];
    check_nan(a, op);
    for (uint32_t p = 0; p < sizeof pattern / sizeof *pattern; p++) {
        for (uint32_t whole = 0; whole < 2;
             whole++) { // again with whole numbers, for ties and zeros
            Arena mark = *a;
            Case c = case_new(a, "%s, shapes %u%s", info->text, p, whole ? ", whole numbers" : "");
            uint32_t in[3];
            for (uint32_t k = 0; k < info->least; k++) {
                in[k] = case_input(&c, type_make(pattern[p][k].batched, pattern[p][k].rank,
                                                 pattern[p][k].dim))
                            .id;
                c.low[k] = info->domain == DomainPOS ? (whole ? 1 : 0.1) : -2;
                c.whole[k] = whole || (info->domain == DomainBOOL && k == 0);
            }
            if (info->domain == DomainBOOL)
                c.low[0] = 0;
            Type want = *node_type(&c.f.g, in[0]);
            c.y = (Val){c.at, builder_add(c.at, op, in, info->least, NULL, &want)};
            check(&c, !whole && op != OpStop); // Stop's derivative is deliberately not its value's
            *a = mark;
        }
    }
}

// --- structural operations -----------------------------------------------------------------------

static void walk_axes(Arena *a, Op op) {
    for (uint32_t batched = 0; batched < 2; batched++) {
        for (uint32_t axes = 0; axes < 16; axes++) {
            if ((axes & 1 && ((op != OpSum && op != OpSquares) || !batched)))
                continue;
            Case c = case_new(a, "%s, axes %u, batched %u", op_info[op].text, axes, batched);
            Val x = case_input(&c, shape(batched, 3, 2, 3, 2, 0));
            c.y = op == OpSum       ? Sum(x, axes)
                  : op == OpSquares ? Squares(x, axes)
                  : op == OpMaxOf   ? MaxOf(x, axes)
                  : op == OpArgMax  ? ArgMax(x, axes)
                                    : Flip(x, axes);
            check(&c, true);
        }
    }
}

static void walk_group_sum(Arena *a, Op op) {
    (void)op;
    for (int64_t group = 1; group <= BATCH; group *= 2) {
        Case c = case_new(a, "group_sum of %lld", (long long)group);
        c.y = GroupSum(case_input(&c, shape(true, 1, 3, 0, 0, 0)), group);
        check(&c, true);
    }
}

static void walk_reshape(Arena *a, Op op) {
    (void)op;
    for (uint32_t batched = 0; batched < 2; batched++) {
        Case c = case_new(a, "reshape, batched %u", batched);
        Val x = case_input(&c, shape(batched, 3, 2, 3, 2, 0));
        c.y = Mul(Reshape(x, 2, (int64_t[]){4, 3}), Reshape(Mul(x, x), 2, (int64_t[]){4, 3}));
        check(&c, true);
    }
}

static void walk_expand(Arena *a, Op op) {
    (void)op;
    const Type from[] = {shape(false, 0, 0, 0, 0, 0), shape(true, 0, 0, 0, 0, 0),
                         shape(false, 2, 2, 1, 0, 0), shape(true, 2, 1, 3, 0, 0),
                         shape(false, 1, 2, 0, 0, 0)};
    for (uint32_t i = 0; i < sizeof from / sizeof *from; i++) {
        Case c = case_new(a, "expand %u", i);
        Val x = case_input(&c, from[i]);
        c.y = Expand(Mul(x, x), shape(true, 3, 2, 3, 2, 0));
        check(&c, true);
    }
}

static void walk_permute(Arena *a, Op op) {
    (void)op;
    for (uint32_t p = 0; p < 27; p++) {
        uint32_t axis[3] = {p % 3, p / 3 % 3, p / 9};
        if (axis[0] != axis[1] && axis[1] != axis[2] && axis[0] != axis[2]) {
            Case c = case_new(a, "permute %u%u%u", axis[0], axis[1], axis[2]);
            Val x = case_input(&c, shape(p & 1, 3, 2, 3, 4, 0));
            c.y = Permute(Mul(x, x), axis);
            check(&c, true);
        }
    }
}

static void walk_window(Arena *a, Op op) { // Slice and Pad
    for (int64_t step = 1; step <= 3; step++) {
        for (int64_t from = 0; from < 2; from++) {
            Case c = case_new(a, "%s from %lld by %lld", op_info[op].text, (long long)from,
                              (long long)step);
            int64_t small[2] = {2, 3}, large[2] = {from + step + 2, 3 + from}, at[2] = {from, 0},
                    by[2] = {step, 1};
            Val x = case_input(&c, type_make(from, 2, op == OpSlice ? large : small));
            x = Mul(x, x);
            c.y = op == OpSlice ? Slice(x, at, small, by) : Pad(x, at, by, large);
            check(&c, true);
        }
    }
}

static void walk_concat(Arena *a, Op op) {
    (void)op;
    for (uint32_t axis = 0; axis < 2; axis++) {
        Case c = case_new(a, "concat along %u", axis);
        Val x[3];
        for (uint32_t k = 0; k < 3; k++) {
            x[k] =
                case_input(&c, shape(true, 2, axis == 0 ? 1 + k : 2, axis == 1 ? 1 + k : 3, 0, 0));
            x[k] = Mul(x[k], x[k]);
        }
        c.y = Concat(x, 3, axis);
        check(&c, true);
    }
}

// Rows of rank 0 to 2, indices of rank 0 to 2, tables of few and many rows.
static void walk_rows_of(Arena *a, Op op, bool table_batched, bool index_batched) {
    for (uint32_t i = 0; i < 18; i++) {
        uint32_t rank = i % 3, places = i / 3 % 3;
        int64_t n = i < 9 ? 3 : 11;
        Case c = case_new(a, "%s of rank %u at places of rank %u of %d rows%s%s", op_info[op].text,
                          rank, places, (int)n, table_batched ? ", tables of samples" : "",
                          index_batched ? ", places of samples" : "");
        Type table = shape(table_batched, 1 + rank, n, 2, 2, 0),
             index = shape(index_batched, places, 3, 2, 0, 0), row = index;
        row.batched = table_batched || index_batched;
        for (uint32_t k = 0; k < rank; k++)
            row.dim[row.rank++] = 2;
        Val x = case_input(&c, op == OpGather ? table : row), at = case_input(&c, index);
        c.low[1] = 0;
        c.high[1] = (double)n;
        c.whole[1] = true;
        c.y = op == OpGather ? Gather(Mul(x, x), at) : Scatter(Mul(x, x), at, table);
        check(&c, true);
    }
}

static void walk_rows(Arena *a, Op op) { // Gather and Scatter
    for (uint32_t k = 0; k < 4; k++)
        walk_rows_of(a, op, k & 1, k >> 1);
}

static void walk_dot(Arena *a, Op op) {
    (void)op;
    static const struct {
        const char *a, *b, *out;
        bool ab, bb, batched;
    } rows[] = {
        {"ik", "kj", "ij", false, false, false},  {"k", "jk", "j", true, false, true},
        {"i", "j", "ij", true, true, false},      {"i", "j", "ij", true, true, true},
        {"ki", "jk", "ji", true, true, true},     {"kl", "kl", "", true, false, true},
        {"ik", "ik", "ik", false, true, true},    {"ikl", "klj", "ij", true, false, true},
        {"gik", "gjk", "igj", true, true, false}, {"c", "c", "", true, true, false},
        {"", "j", "j", true, false, true},        {"k", "kj", "j", false, true, true},
    };
    for (uint32_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        Case c = case_new(a, "dot %s,%s->%s (%u)", rows[r].a, rows[r].b, rows[r].out, r);
        const char *text[3] = {rows[r].a, rows[r].b, rows[r].out};
        uint8_t label[3][MAX_RANK] = {{0}};
        Type t[2] = {{.batched = rows[r].ab}, {.batched = rows[r].bb}};
        for (uint32_t s = 0; s < 3; s++) {
            for (uint32_t i = 0; text[s][i]; i++) {
                label[s][i] = (uint8_t)(text[s][i] - 'a' + 1);
                if (s < 2)
                    t[s].dim[t[s].rank++] = 1 + text[s][i] % 3; // an extent per label
            }
            if (s < 2)
                t[s] = type_make(t[s].batched, t[s].rank, t[s].dim);
        }
        Val x = case_input(&c, t[0]), y = case_input(&c, t[1]);
        c.y = Dot(x, label[0], y, label[1], label[2], (uint32_t)strlen(text[2]), rows[r].batched);
        check(&c, true);
    }
}

static Val conv_case(Case *c, Op op, const ConvGeom *g, Type x, Type w, Type y) {
    if (op == OpConv) {
        Val vx = case_input(c, x);
        return Conv(vx, case_input(c, w), g);
    }
    if (op == OpConvDx) {
        Val vy = case_input(c, y);
        return ConvDx(vy, case_input(c, w), g, x);
    }
    Val vx = case_input(c, x);
    return ConvDw(vx, case_input(c, y), g, w);
}

typedef struct ConvRow {
    uint32_t n;
    int64_t x[3], k[3], stride[3], before[3], after[3], dilation[3], groups, in, out;
    bool shared;
} ConvRow;
// clang-format off
static const ConvRow conv_rows[] = {
    //  x          kernel     stride     before     after      dilation groups in out
    {1, {5},       {3},       {1},       {1},       {1},       {1},       1, 2, 3, false},
    {1, {6},       {2},       {2},       {0},       {0},       {1},       1, 1, 2, true},
    {1, {7},       {3},       {3},       {2},       {0},       {2},       2, 2, 4, false},
    {2, {4, 4},    {4, 4},    {2, 2},    {1, 1},    {1, 1},    {1, 1},    1, 2, 2, false},
    {2, {5, 4},    {3, 2},    {2, 1},    {1, 0},    {2, 1},    {1, 2},    1, 2, 1, false},
    {2, {3, 3},    {1, 1},    {1, 1},    {0, 0},    {0, 0},    {1, 1},    1, 3, 2, false},
    {2, {4, 5},    {3, 3},    {1, 2},    {2, 1},    {1, 2},    {2, 1},    2, 4, 2, false},
    {2, {5, 5},    {2, 2},    {3, 3},    {0, 0},    {0, 0},    {1, 1},    1, 1, 1, false},
    {3, {3, 2, 3}, {2, 2, 2}, {1, 1, 2}, {1, 0, 1}, {0, 1, 0}, {1, 1, 1}, 1, 1, 2, false},
    {3, {2, 3, 2}, {1, 3, 2}, {1, 2, 1}, {0, 1, 1}, {0, 1, 0}, {1, 1, 1}, 2, 2, 2, true},
};
// clang-format on

static void walk_conv(Arena *a, Op op) { // with a kernel for all samples, and with one for each
    for (uint32_t r = 0; r < 2 * sizeof conv_rows / sizeof *conv_rows; r++) {
        const ConvRow *row = &conv_rows[r / 2];
        Case c = case_new(a, "%s %u%s", op_info[op].text, r / 2, r % 2 ? ", own kernels" : "");
        ConvGeom g = {.n = row->n, .groups = row->groups};
        Type x = {
            .dtype = DtF32, .rank = (uint8_t)(1 + g.n), .batched = !row->shared, .dim = {row->in}};
        Type w = {
            .dtype = DtF32, .rank = (uint8_t)(2 + g.n), .dim = {row->out, row->in / g.groups}};
        w.batched = r % 2;
        Type y = x;
        y.batched = x.batched || w.batched;
        y.dim[0] = row->out;
        for (uint32_t i = 0; i < g.n; i++) {
            g.stride[i] = row->stride[i];
            g.before[i] = row->before[i];
            g.after[i] = row->after[i];
            g.dilation[i] = row->dilation[i];
            x.dim[1 + i] = row->x[i];
            w.dim[2 + i] = row->k[i];
            int64_t room =
                row->x[i] + g.before[i] + g.after[i] - (row->k[i] - 1) * g.dilation[i] - 1;
            y.dim[1 + i] = room / g.stride[i] + 1;
        }
        c.y = conv_case(&c, op, &g, x, w, y);
        check(&c, true);
    }
}

// Every kind of transform, over even, odd, prime lengths and 1, one line or many.
static void walk_fft(Arena *a, Op op) {
    (void)op;
    for (int64_t n = 1; n <= 7; n++) {
        for (uint32_t kind = 0; kind < 8; kind++) {
            bool real = kind & 1, inverse = kind & 2, batched = kind & 4;
            Case c = case_new(a, "fft of %lld, %s, inverse %d, batched %d", (long long)n,
                              real ? "real" : "complex", inverse, batched);
            int64_t parts = real ? 1 : 2, lines = 1 + n % 2;
            Type whole =
                batched ? shape(true, 3, parts, lines, n, 0) : shape(false, 3, lines, parts, n, 0);
            Type given = whole;
            if (real && inverse) {
                given.dim[batched ? 0 : 1] = 2;
                given.dim[2] = n / 2 + 1;
            }
            Val x = case_input(&c, given);
            c.y = Fft(Mul(x, x), inverse, real && inverse ? &whole : NULL);
            check(&c, true);
        }
    }
}

// Lines per sample and shared, one or several, with ties between whole numbers; all of an order or
// its last two.
static void walk_order(Arena *a, Op op) {
    for (int64_t n = 1; n <= 7; n++) {
        for (uint32_t kind = 0; kind < 32; kind++) {
            bool several = kind & 1, batched = kind & 2, whole = kind & 4, back = kind & 8;
            int64_t last = kind & 16 ? 2 : n;
            if ((back && op == OpArgSort) || last > n)
                continue;
            Case c = case_new(a, "%s of the last %lld of %lld, %s, batched %d, whole %d, back %d",
                              op_info[op].text, (long long)last, (long long)n,
                              several ? "lines" : "a line", batched, whole, back);
            Type t = several ? shape(batched, 2, 3, n, 0, 0) : shape(batched, 1, n, 0, 0, 0);
            Val x = case_input(&c, t);
            c.whole[0] = whole;
            Val order = ArgSortLast(x, last), squares = Mul(x, x);
            Type part = val_type(order);
            Val some = Slice(squares, (int64_t[]){0, 0}, part.dim, NULL);
            c.y = op == OpArgSort ? Mul(order, some)
                  : back          ? ArrangeBack(some, order, t)
                                  : Arrange(squares, order, false);
            check(&c, !whole);
        }
    }
}

static void walk_leaf(Arena *a, Op op) { // covered elsewhere: no operands, or no value of their own
    (void)a, (void)op;
}

static void walk_pin(Arena *a, Op op) {
    (void)op;
    Case c = case_new(a, "pin");
    Val x = Pin(case_input(&c, shape(true, 1, 3, 0, 0, 0)));
    c.y = Mul(x, Exp(x));
    check(&c, true);
}

// On one rank the sum is the value itself. Several ranks: shard_test.
static void walk_comm(Arena *a, Op op) {
    (void)op;
    Case c = case_new(a, "a collective of one rank");
    Val x = case_input(&c, shape(false, 2, 3, 2, 0, 0));
    c.y = ReduceWait(ReduceStart(Exp(x), 0, 0, OrderAny));
    check(&c, false);
}

typedef void Walk(Arena *a, Op op);
static Walk *const walk[OpCount] = {
#define EW(Name, ...) [Op##Name] = walk_ew,
#define OP(...)
#include "ops.def"
    [OpConst] = walk_leaf,         [OpIota] = walk_leaf,       [OpRead] = walk_leaf,
    [OpWrite] = walk_leaf,         [OpRand] = walk_leaf,       [OpGrad] = walk_leaf,
    [OpCommit] = walk_leaf,        [OpPin] = walk_pin,         [OpSum] = walk_axes,
    [OpSquares] = walk_axes,       [OpMaxOf] = walk_axes,      [OpArgMax] = walk_axes,
    [OpGroupSum] = walk_group_sum, [OpReshape] = walk_reshape, [OpExpand] = walk_expand,
    [OpPermute] = walk_permute,    [OpSlice] = walk_window,    [OpPad] = walk_window,
    [OpFlip] = walk_axes,          [OpConcat] = walk_concat,   [OpGather] = walk_rows,
    [OpScatter] = walk_rows,       [OpDot] = walk_dot,         [OpConv] = walk_conv,
    [OpConvDx] = walk_conv,        [OpFft] = walk_fft,         [OpConvDw] = walk_conv,
    [OpArgSort] = walk_order,      [OpArrange] = walk_order,   [OpReduceStart] = walk_comm,
    [OpReduceWait] = walk_comm,
};

// Each row is a case: its name as argument runs it, --list prints all.
int main(int argc, char **argv) {
    bool list = argc > 1 && !strcmp(argv[1], "--list"), found = argc < 2;
    Arena a;
    if (arena_init(&a, 0) != GAN_OK) {
        printf("%s\n", gan_error());
        return 1;
    }
    for (uint32_t op = 1; op < OpCount; op++) {
        if (list) {
            puts(op_info[op].text);
        } else if (argc > 1 && strcmp(argv[1], op_info[op].text)) {
            continue;
        } else if (walk[op]) {
            walk[op](&a, (Op)op);
            check_traits((Op)op);
        } else {
            printf("FAIL %s has no instances\n", op_info[op].text);
            failures++;
        }
        found = true;
    }
    if (!list)
        printf("%u cases, %u failures\n", cases, failures);
    arena_release(&a);
    return !found || failures;
}
