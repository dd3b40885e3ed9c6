// rules_test.c - iterates over lang/rules.def. For every row both sides are built unsimplified,
// evaluated on random inputs and compared, to the bit for EXACT rows. Then, in a graph that
// simplifies, both sides must become the same node: the rule was applied, and its result does not
// depend on how it was reached.
//
// RULE rows are their own examples. A FOLD row has its example below; a row without one does not
// link.
#include "op.h"

#include <math.h>
#include <setjmp.h>

#include <cmocka.h>
#include "arena_cases.h"
#undef fail // cmocka's macro hides ours, and its fail_msg is built on it
#undef fail_msg
#define fail_msg(...) (print_error(__VA_ARGS__), print_error("\n"), _fail(__FILE__, __LINE__))

enum { Batch = 4 };

static Graph graph;
static Builder at; // adds to it

static void begin(bool raw) {
    graph_init(&graph, &arena, Batch);
    at = (Builder){.g = &graph, .raw = raw};
}

// --- values --------------------------------------------------------------------------------------

// A pseudo-random number for an index: from -2 to 2, or from 0.1 to 2.
static double random_number(uint32_t slot, int64_t i, bool positive) {
    uint64_t h = hash64(&(uint64_t[]){slot, (uint64_t)i}, 16, 7);
    double u = (double)(h >> 11) / 9007199254740992.0;
    return positive ? 0.1 + 1.9 * u : 4 * u - 2;
}

// Every node up to `root`; Reads get random numbers by slot.
static const double *evaluate(const Graph *g, uint32_t root, bool positive) {
    double **value = arena_array(&arena, double *, g->node.n);
    uint8_t *needed = graph_reach(g, &arena, &root, 1);
    Counters c = {.seed = 1};
    for (uint32_t id = 1; id <= root; id++) {
        if (!needed[id])
            continue;
        const Node *n = graph_node(g, id);
        int64_t elements = type_elements(g, node_type(g, id));
        value[id] = arena_array(&arena, double, elements);
        const void *in[MAX_IN];
        for (uint32_t k = 0; k < n->nin; k++)
            in[k] = value[node_in(g, id, k)];
        if (n->op != OpRead) {
            eval_node(g, id, in, value[id], true, &c, arena);
            continue;
        }
        uint32_t slot = (uint32_t)node_attr(g, id)->i[0];
        for (int64_t i = 0; i < elements; i++)
            value[id][i] = random_number(slot, i, positive);
    }
    return value[root];
}

static bool agree(double a, double b, bool exact) {
    if (isnan(a) || isnan(b))
        return isnan(a) && isnan(b);
    return a == b || (!exact && fabs(a - b) <= 1e-12 * (1 + fabs(a)));
}

typedef struct Sides {
    Val from, to;
} Sides;

static void assert_equal_values(const Rule *r, Sides s, bool positive) {
    Type a = val_type(s.from), b = val_type(s.to);
    if (!type_same_shape(&a, &b))
        fail_msg("%s: %s became %s", r->name, type_name(&a).s, type_name(&b).s);
    const double *x = evaluate(s.from.b->g, s.from.id, positive),
                 *y = evaluate(s.to.b->g, s.to.id, positive);
    for (int64_t i = 0; i < type_elements(s.from.b->g, &a); i++)
        if (!agree(x[i], y[i], r->exact))
            fail_msg("%s: element %lld is %.17g, rewritten %.17g", r->name, (long long)i, x[i],
                     y[i]);
}

static void assert_same_node(const Rule *r, Sides s) {
    if (s.from.id != s.to.id)
        fail_msg("%s: simplifies to %s (node %u), its replacement to %s (node %u)", r->name,
                 op_info[graph_node(s.from.b->g, s.from.id)->op].text, s.from.id,
                 op_info[graph_node(s.to.b->g, s.to.id)->op].text, s.to.id);
}

// --- RULE rows -----------------------------------------------------------------------------------

#define DIMS(...)                                                                                  \
    (sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (const int64_t[]) {                      \
        __VA_ARGS__                                                                                \
    }
#define SAMPLE(...) type_make(true, DIMS(__VA_ARGS__))
#define SHARED(...) type_make(false, DIMS(__VA_ARGS__))

enum { Variants = 4 }; // of the types that x and the other letters get

static Binding bind(Op root, uint32_t variant) {
    const Type number = type_make(false, 0, NULL);
    const Type x[Variants] = {SAMPLE(3, 4), SHARED(3), SAMPLE(3, 4), SHARED(3, 1)};
    const Type other[Variants] = {SAMPLE(3, 4), SAMPLE(3, 4), number, SAMPLE(1, 4)};
    Binding b = {.root = root, .type = number};
    for (uint32_t i = 0; i < 26; i++)
        b.var[i] = Read(&at, i, 0, i == 'x' - 'a' ? x[variant] : other[variant]).id;
    b.var['c' - 'a'] = Number(&at, 0.7).id;
    b.var['d' - 'a'] = Number(&at, -1.3).id;
    if (root == OpSum)
        b.attr = (Attr){.n = 1, .i = {x[variant].batched | 2}};
    if (root == OpReshape)
        b.type = type_make(x[variant].batched, 2, (int64_t[]){1, type_sample(&x[variant])});
    if (root == OpExpand)
        b.type = SAMPLE(3, 4, 2);
    return b;
}

static uint32_t build_pattern(const Rule *r, const Binding *b) {
    return rule_build(&at, str_format(&arena, "%s%s", op_info[r->op].text, r->from).ptr, b);
}

static Sides both_sides(const Rule *r, bool raw, uint32_t variant) {
    begin(raw);
    Binding b = bind(r->op, variant);
    Val from = {&at, build_pattern(r, &b)};
    Val to = {&at, rule_build(&at, r->to, &b)};
    return (Sides){from, Expand(to, val_type(from))};
}

static void every_rule_keeps_the_value_and_is_applied(void **state) {
    (void)state;
    for (uint32_t i = 0; i < rule_count; i++) {
        const Rule *r = &rule_table[i];
        if (r->fold)
            continue;
        Arena mark = arena;
        for (uint32_t variant = 0; variant < Variants; variant++) {
            assert_equal_values(r, both_sides(r, true, variant), false);
            assert_equal_values(r, both_sides(r, true, variant), true);
            assert_same_node(r, both_sides(r, false, variant));
        }
        arena = mark;
    }
}

// --- FOLD rows -----------------------------------------------------------------------------------

static Val in(uint32_t slot, Type t) {
    return Read(&at, slot, 0, t);
}

static Val expand_to(Val x, Type t) { // a node also where Expand would fold it away
    return (Val){x.b, builder_add(x.b, OpExpand, &x.id, 1, NULL, &t)};
}

static Val dot(Val a, Val b) { // [i], [i, j] to [j]
    return Dot(a, (const uint8_t[]){1}, b, (const uint8_t[]){1, 2}, (const uint8_t[]){2}, 1, true);
}

#define x_ in(0, SAMPLE(3, 4))
#define row_ in(1, SHARED(3))
#define flat_ in(2, SAMPLE(12))
#define column_ in(3, SAMPLE(3, 1))
#define wide_ SAMPLE(3, 4)
#define EXAMPLE(Name, from, to)                                                                    \
    static Sides example_##Name(void) {                                                            \
        Val a = from, b = to;                                                                      \
        return (Sides){a, b};                                                                      \
    }
#define LIST(...)                                                                                  \
    (const int64_t[]) {                                                                            \
        __VA_ARGS__                                                                                \
    }
#define AXES(...)                                                                                  \
    (const uint32_t[]) {                                                                           \
        __VA_ARGS__                                                                                \
    }
#define CUBE in(4, SAMPLE(2, 3, 4))

EXAMPLE(constants, Tanh(Mul(Number(&at, 0.5), Number(&at, 3))), Number(&at, tanh(1.5)))
EXAMPLE(narrow_operands, Exp(Mul(Expand(row_, wide_), Expand(column_, wide_))),
        Expand(Exp(Mul(row_, column_)), wide_))
EXAMPLE(moved_constant, Permute(Expand(Number(&at, 2), wide_), AXES(1, 0)),
        Expand(Number(&at, 2), SAMPLE(4, 3)))
EXAMPLE(shared_factor, dot(expand_to(row_, SAMPLE(3)), x_), dot(row_, x_))
EXAMPLE(cast_same, CastTo(x_, row_), x_)
EXAMPLE(sum_of_nothing, Sum(column_, 4), column_)
EXAMPLE(sum_of_expand, Sum(Expand(row_, wide_), 1 | 2 | 4),
        Mul(Sum(Expand(row_, SHARED(3, 1)), 2), Number(&at, 16)))
EXAMPLE(sum_of_sum, Sum(Sum(x_, 1 | 2), 4), Sum(x_, 1 | 2 | 4))
EXAMPLE(sum_of_scaled, Sum(Div(Mul(Mul(row_, x_), column_), column_), 4),
        Div(Mul(Mul(row_, Sum(x_, 4)), column_), column_)) // in either operand's place
EXAMPLE(group_of_one, GroupSum(x_, 1), x_)
EXAMPLE(max_of_nothing, MaxOf(column_, 4), column_)
EXAMPLE(reshape_same, Reshape(x_, 2, LIST(3, 4)), x_)
EXAMPLE(reshape_of_ones, Reshape(expand_to(flat_, SAMPLE(12, 1)), 2, LIST(3, 4)),
        Reshape(flat_, 2, LIST(3, 4)))
EXAMPLE(reshape_adds_ones, Reshape(flat_, 2, LIST(12, 1)), Expand(flat_, SAMPLE(12, 1)))
EXAMPLE(expand_same, expand_to(x_, wide_), x_)
EXAMPLE(permute_permute, Permute(Permute(CUBE, AXES(1, 2, 0)), AXES(0, 2, 1)),
        Permute(CUBE, AXES(1, 0, 2)))
EXAMPLE(permute_same, Permute(CUBE, AXES(0, 1, 2)), CUBE)
EXAMPLE(permuted_operands,
        Slice(Mul(Permute(CUBE, AXES(1, 2, 0)), Number(&at, 2)), LIST(1, 0, 1), LIST(2, 4, 1),
              NULL),
        Permute(Slice(Mul(CUBE, Number(&at, 2)), LIST(1, 1, 0), LIST(1, 2, 4), NULL),
                AXES(1, 2, 0)))
EXAMPLE(flip_flip, Flip(Flip(x_, 2 | 4), 4), Flip(x_, 2))
EXAMPLE(flip_same, Flip(column_, 4), column_)
EXAMPLE(slice_same, Slice(x_, NULL, LIST(3, 4), NULL), x_)
EXAMPLE(slice_of_concat,
        Slice(Concat((Val[]){column_, x_}, 2, 1), LIST(1, 2), LIST(2, 2), LIST(1, 2)),
        Slice(x_, LIST(1, 1), LIST(2, 2), LIST(1, 2)))
EXAMPLE(pad_same, Pad(x_, NULL, NULL, LIST(3, 4)), x_)
EXAMPLE(concat_one, Concat((Val[]){x_}, 1, 0), x_)

typedef struct Example {
    const char *name;
    Sides (*build)(void);
    bool exact;
} Example;
static const Example example[] = {
#define FOLD(Name, op, accuracy) {#Name, example_##Name, accuracy},
#define EXACT 1
#define INEXACT 0
#include "rules.def"
};

static void every_fold_keeps_the_value_and_is_applied(void **state) {
    (void)state;
    for (uint32_t i = 0; i < sizeof example / sizeof *example; i++) {
        Rule r = {.name = example[i].name, .exact = example[i].exact};
        Arena mark = arena;
        begin(true);
        Sides raw = example[i].build();
        assert_int_not_equal(raw.from.id, raw.to.id);
        assert_equal_values(&r, raw, false);
        begin(false);
        assert_same_node(&r, example[i].build());
        arena = mark;
    }
}

// --- any operation of any operands ---------------------------------------------------------------

// Values of many extents, batches and operations, for the conditions of rows.
enum { Operands = 23 };

static Val operand(uint32_t which) {
    const Type cube = SAMPLE(2, 3, 4);
    const Val ones = in(5, SAMPLE(1, 1, 1)), square = in(6, SHARED(3, 3)), c = CUBE;
    switch (which) {
    case 0:
        return in(7, type_make(false, 0, NULL));
    case 1:
        return in(8, type_make(true, 0, NULL));
    case 2:
        return ones;
    case 3:
        return in(9, SHARED(1, 1, 1, 1));
    case 4:
        return x_;
    case 5:
        return row_;
    case 6:
        return column_;
    case 7:
        return c;
    case 8:
        return square;
    case 9:
        return Permute(x_, AXES(1, 0));
    case 10:
        return Permute(square, AXES(1, 0));
    case 11:
        return Permute(c, AXES(2, 0, 1));
    case 12:
        return Permute(in(10, SAMPLE(4, 2, 3)), AXES(1, 2, 0));
    case 13:
        return expand_to(row_, SAMPLE(3, 4));
    case 14:
        return expand_to(ones, cube);
    case 15:
        return expand_to(Number(&at, 0.25), cube);
    case 16:
        return Sum(c, 2 | 8);
    case 17:
        return Sum(c, 1 | 4);
    case 18:
        return Neg(Mul(c, in(11, SHARED(2))));
    case 19:
        return Flip(x_, 4);
    case 20:
        return Concat((Val[]){x_, column_}, 2, 1);
    case 21:
        return expand_to(Number(&at, 0.5), cube);
    default:
        return Reshape(flat_, 2, LIST(3, 4));
    }
}

// `op` of operands a and b, or of a alone; id 0 if they do not fit.
static Val applied(Op op, Val a, Val b) {
    const Type t = val_type(a);
    const uint32_t in[3] = {op == OpWhere ? Gt(a, Num(a, 0)).id : a.id, b.id, a.id};
    Attr attr = {.n = 1, .i = {op == OpGroupSum ? 2 : op == OpConcat ? 0 : 2 << (t.rank / 2)}};
    Type want = t;
    Infer q = {.g = &graph, .nin = op_info[op].least, .in = in, .attr = &attr, .out = want};
    if (op_info[op].cls == ClassEW)
        attr.n = 0;
    if (op == OpReshape || op == OpExpand)
        attr.n = 0;
    if (op == OpReshape)
        want = type_make(t.batched, 2, LIST(1, type_sample(&t)));
    if (op == OpExpand && t.rank < MAX_RANK)
        want.dim[want.rank++] = 2;
    if (op == OpConcat)
        q.nin = 2;
    if (op == OpPermute || op == OpSlice || op == OpPad) {
        attr = (Attr){.n = 1, .i = {t.rank}};
        for (uint32_t i = 0; i < t.rank; i++)
            attr.i[attr.n++] = op == OpPermute ? (i + 1) % t.rank : t.dim[i] / 2 * (op == OpSlice);
        for (uint32_t i = 0; i < t.rank && op != OpPermute; i++) {
            attr.i[attr.n++] = 1;
            want.dim[i] = op == OpPad ? t.dim[i] + 1 : t.dim[i] - t.dim[i] / 2;
        }
    }
    q.out = want;
    if (!graph_check(&q, op))
        return (Val){0};
    return (Val){&at, builder_add(&at, op, in, q.nin, &attr, &want)};
}

static bool is_tried(Op op) {
    uint8_t cls = op_info[op].cls;
    return op != OpPin && op != OpCast && !op_is(op, TraitIndexed) && op != OpPow &&
           (cls == ClassEW || cls == ClassREDUCE || cls == ClassMOVE);
}

static Val tried(bool raw, Op op, uint32_t a, uint32_t b) {
    begin(raw);
    return applied(op, operand(a), operand(b));
}

static void random_operations_keep_their_value(void **state) {
    (void)state;
    uint32_t done = 0;
    for (Op op = OpNone + 1; op < OpCount; op++) {
        for (uint32_t i = 0; is_tried(op) && i < Operands * Operands; i++) {
            Rule r = {.name = op_info[op].text};
            Arena mark = arena;
            Graph kept;
            Sides s;
            s.from = tried(true, op, i / Operands, i % Operands);
            kept = graph;
            Builder raw = {.g = &kept};
            s.from.b = &raw;
            s.to = tried(false, op, i / Operands, i % Operands);
            assert_int_equal(!s.from.id, !s.to.id);
            if (s.from.id)
                assert_equal_values(&r, s, false);
            done += s.from.id != 0;
            arena = mark;
        }
    }
    assert_true(done > 4000);
}

// --- the whole of it -----------------------------------------------------------------------------

// Simplest form means that adding a node again, with the operands it has, changes nothing.
static void simplified_nodes_stay_as_they_are(void **state) {
    (void)state;
    begin(false);
    for (uint32_t variant = 0; variant < Variants; variant++) {
        for (uint32_t i = 0; i < rule_count; i++) {
            if (rule_table[i].fold)
                continue;
            Binding b = bind(rule_table[i].op, variant);
            (void)build_pattern(&rule_table[i], &b);
        }
    }
    for (uint32_t i = 0; i < sizeof example / sizeof *example; i++)
        (void)example[i].build();
    for (uint32_t id = 1; id < graph.node.n; id++) {
        Node n = *graph_node(&graph, id);
        Type type = *node_type(&graph, id);
        assert_int_equal(
            builder_add(&at, (Op)n.op, &graph.edge.at[n.in], n.nin, node_attr(&graph, id), &type),
            id);
    }
}

// x - x, x / x and 0 / x are NaN for some x and must not fold; a constant factor 0 removes the
// other factor.
static void computed_values_do_not_cancel(void **state) {
    (void)state;
    double c;
    begin(false);
    Val x = Read(&at, 0, 0, type_make(true, 2, (int64_t[]){3, 4})), sum = Sum(x, 2),
        zero = Num(x, 0), rows = Filled(&at, 1, type_make(true, 1, (int64_t[]){3})),
        index = Read(&at, 1, 0, type_make(true, 0, NULL));
    const Val stay[] = {Sub(x, x), Div(x, x), Div(zero, x), Sub(sum, Sum(x, 2)),
                        Scatter(rows, index, type_make(false, 2, (int64_t[]){5, 3}))};
    for (size_t i = 0; i < sizeof stay / sizeof *stay; i++)
        assert_false(node_is_const(&graph, stay[i].id, &c));
    assert_true(node_is_const(&graph, Mul(x, zero).id, &c));
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(every_rule_keeps_the_value_and_is_applied, set_up),
        cmocka_unit_test_setup(every_fold_keeps_the_value_and_is_applied, set_up),
        cmocka_unit_test_setup(random_operations_keep_their_value, set_up),
        cmocka_unit_test_setup(simplified_nodes_stay_as_they_are, set_up),
        cmocka_unit_test_setup(computed_values_do_not_cancel, set_up),
    };
    return ARENA_CASES(tests, (size_t)1 << 30);
}
