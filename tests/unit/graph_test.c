// graph_test.c - graph structure: types and their layouts, interning, sharing between blocks,
// spans, messages of shape rules, and types of gradients for every structural op.
#include "op.h"

#include <setjmp.h>
#include <string.h>

#include <cmocka.h>
#include "arena_cases.h"
#undef fail

enum { Batch = 4 };

static Graph graph;
static Builder at; // adds to it

static int graph_open(void **state) {
    set_up(state);
    graph_init(&graph, &arena, Batch);
    at = (Builder){.g = &graph};
    return 0;
}

#define DIMS(...)                                                                                  \
    (sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (const int64_t[]) {                      \
        __VA_ARGS__                                                                                \
    }
#define SAMPLE(...) type_make(true, DIMS(__VA_ARGS__)) // per-sample
#define SHARED(...) type_make(false, DIMS(__VA_ARGS__))

static Val leaf(uint32_t slot, Type t) {
    return Read(&at, slot, 0, t);
}

static Op op_of(Val x) {
    return (Op)graph_node(&graph, x.id)->op;
}

#define assert_type(x, text)                                                                       \
    do {                                                                                           \
        Type type_ = val_type(x);                                                                  \
        assert_string_equal(type_name(&type_).s, text);                                            \
    } while (0)

// --- types ---------------------------------------------------------------------------------------

static void types_are_equal_when_their_ids_are(void **state) {
    (void)state;
    Type t = SAMPLE(3, 8, 8), u = t;
    u.dim[5] = 77; // past the rank: no part of the type
    assert_int_equal(graph_type(&graph, t), graph_type(&graph, u));
    u.dtype = DtBF16;
    assert_int_not_equal(graph_type(&graph, t), graph_type(&graph, u));
    assert_int_not_equal(graph_type(&graph, t), graph_type(&graph, SHARED(3, 8, 8)));
    assert_int_equal(graph_attr(&graph, (int64_t[]){1, 2}, 2),
                     graph_attr(&graph, (int64_t[]){1, 2}, 2));
    assert_int_not_equal(graph_attr(&graph, (int64_t[]){1, 2}, 2),
                         graph_attr(&graph, (int64_t[]){1, 2, 0}, 3));
    assert_int_equal(graph_attr(&graph, NULL, 0), 0);
}

static void broadcasting_aligns_from_the_left(void **state) {
    (void)state;
    Type out, channels = SHARED(3), picture = SAMPLE(3, 8, 8), number = type_make(true, 0, NULL);
    assert_true(type_broadcast(&channels, &picture, &out));
    assert_true(type_same_shape(&out, &picture));
    assert_true(type_broadcast(&number, &channels, &out));
    assert_string_equal(type_name(&out).s, "[B, 3]");
    Type row = SHARED(8);
    assert_false(type_broadcast(&row, &picture, &out));
    assert_type(Add(leaf(0, SHARED(1, 5)), leaf(1, SAMPLE(4, 1, 2))), "[B, 4, 5, 2]");
}

static void assert_strides(Type t, const int64_t *expected) {
    int64_t stride[MAX_RANK + 1];
    type_strides(&t, stride);
    for (uint32_t i = 0; i <= t.rank; i++)
        assert_int_equal(stride[i], expected[i]);
}

static void images_and_weights_are_channels_last(void **state) {
    (void)state;
    assert_strides(SAMPLE(3, 4, 5), (int64_t[]){60, 1, 15, 3});
    assert_strides(SAMPLE(3, 1, 5), (int64_t[]){15, 1, 0, 3});
    assert_strides(SAMPLE(7, 5), (int64_t[]){35, 1, 7});
    assert_strides(SAMPLE(7), (int64_t[]){7, 1});
    assert_strides(SHARED(2, 3, 4), (int64_t[]){0, 12, 1, 3});
    assert_strides(SHARED(2, 3, 4, 5), (int64_t[]){0, 60, 1, 15, 3});
    assert_strides(SHARED(2, 3, 1, 5), (int64_t[]){0, 15, 1, 0, 3});
    assert_strides(SHARED(7, 5), (int64_t[]){0, 5, 1});
    assert_strides(type_make(true, 0, NULL), (int64_t[]){1});
}

static void another_axis_may_lie_innermost(void **state) {
    (void)state;
    Type heads = SAMPLE(8, 4, 5);
    heads.inner = 3;
    assert_strides(heads, (int64_t[]){160, 20, 5, 1});
    heads.inner = 2;
    assert_strides(heads, (int64_t[]){160, 20, 1, 4});
    assert_string_equal(type_name(&heads).s, "[B, 8, 4', 5]");
    Type rule = SAMPLE(8, 4, 5);
    assert_int_not_equal(graph_type(&graph, heads), graph_type(&graph, rule));
    assert_true(type_same_shape(&heads, &rule));
    assert_false(type_same_layout(&heads, &rule));
    assert_type(Neg(leaf(0, heads)), "[B, 8, 4, 5]"); // for passes to say
}

static void sizes_saturate_and_are_refused(void **state) {
    (void)state;
    Type huge = SAMPLE(INT64_MAX / 2, 3);
    assert_int_equal(type_sample(&huge), INT64_MAX);
    assert_int_equal(type_elements(&graph, &huge), INT64_MAX);
    Infer q = {.g = &graph, .attr = &(Attr){.n = 2}, .out = huge};
    assert_false(graph_check(&q, OpRead));
    assert_non_null(strstr(q.error, "more than 2^40"));
    q.out = SAMPLE(3, 0);
    assert_false(graph_check(&q, OpRead));
    assert_non_null(strstr(q.error, "at least 1"));
}

// --- sharing -------------------------------------------------------------------------------------

static void equal_nodes_are_one_node(void **state) {
    (void)state;
    Val x = leaf(0, SAMPLE(3)), y = leaf(1, SAMPLE(3));
    assert_int_equal(Mul(x, y).id, Mul(y, x).id);
    assert_int_not_equal(Sub(x, y).id, Sub(y, x).id);
    assert_int_equal(leaf(0, SAMPLE(3)).id, x.id);
    assert_int_not_equal(Read(&at, 0, 1, SAMPLE(3)).id, x.id);
    assert_int_equal(Num(x, 0.0).id, Num(x, -0.0).id);
    uint32_t n = graph.node.n;
    (void)Tanh(Mul(x, y));
    assert_int_equal(graph.node.n, n + 1);
}

static void pins_and_writes_are_never_shared(void **state) {
    (void)state;
    Val x = leaf(0, SHARED(3));
    assert_int_not_equal(Pin(x).id, Pin(x).id);
    assert_int_not_equal(Write(0, x).id, Write(0, x).id);
    assert_int_not_equal(Tanh(Pin(x)).id, Tanh(x).id);
}

static void a_raw_builder_keeps_what_it_is_given(void **state) {
    (void)state;
    at.raw = true;
    Val x = leaf(0, SHARED(3));
    assert_int_not_equal(leaf(0, SHARED(3)).id, x.id);
    assert_int_equal(op_of(Add(x, Num(x, 0))), OpAdd);
    assert_int_equal(op_of(Neg(Neg(x))), OpNeg);
}

static void nodes_are_shared_only_where_their_block_dominates(void **state) {
    (void)state;
    uint32_t scope_end[3] = {3, 3, 3};
    at.scope_end = scope_end;
    Val x = leaf(0, SAMPLE(3));
    at.block = 1;
    Val a = Tanh(x), n = Neg(x), five = Num(x, 5);
    assert_int_equal(Tanh(x).id, a.id);
    at.block = 2;
    scope_end[1] = 2;
    Val b = Tanh(x);
    assert_int_not_equal(b.id, a.id);
    assert_int_equal(Tanh(x).id, b.id);
    assert_int_equal(Num(x, 5).id, five.id);
    // The block before may have been skipped: what its node says of its operands does not hold
    // here.
    assert_int_equal(op_of(Neg(n)), OpNeg);
    scope_end[1] = 3;
    assert_int_equal(Neg(n).id, x.id);
}

static void a_shared_node_keeps_all_source_spans(void **state) {
    (void)state;
    Val x = leaf(0, SAMPLE(3));
    at.span = (Span){1, 10, 20};
    uint32_t id = Exp(x).id;
    at.span = (Span){1, 30, 40};
    assert_int_equal(Exp(x).id, id);
    (void)Exp(x);
    uint32_t first = graph_node(&graph, id)->span, second = graph.span.at[first].next;
    assert_int_equal(graph.span.at[first].span.lo, 10);
    assert_int_equal(graph.span.at[second].span.lo, 30);
    assert_int_equal(graph.span.at[second].next, 0);
    for (uint32_t i = 0; i < 100; i++)
        node_add_span(&graph, id, (Span){2, i, i + 1});
    uint32_t count = 0;
    for (uint32_t link = first; link; link = graph.span.at[link].next)
        count++;
    assert_int_equal(count, 16);
}

static void reachability_follows_operands(void **state) {
    (void)state;
    Val x = leaf(0, SAMPLE(3)), y = leaf(1, SAMPLE(3)), product = Mul(x, x), lost = Add(x, y);
    uint8_t *needed = graph_reach(&graph, &arena, &product.id, 1);
    assert_true(needed[x.id] && needed[product.id]);
    assert_false(needed[y.id] || needed[lost.id]);
}

// --- the words of the shape rules ----------------------------------------------------------------

static const ConvGeom plain = {
    .n = 2, .stride = {2, 2}, .before = {1, 1}, .after = {1, 1}, .dilation = {1, 1}, .groups = 1};

static void refuse(Op op, const Val *x, uint32_t n, const Attr *attr, const Type *want,
                   const char *words) {
    uint32_t in[MAX_IN];
    for (uint32_t k = 0; k < n; k++)
        in[k] = x[k].id;
    Infer q = {.g = &graph, .nin = n, .in = in, .attr = attr, .out = {.rank = TYPE_UNSTATED}};
    if (want)
        q.out = *want;
    assert_false(graph_check(&q, op));
    assert_string_equal(q.error, words);
}
#define VALS(...) (const Val[]){__VA_ARGS__}, sizeof((const Val[]){__VA_ARGS__}) / sizeof(Val)

static void operands_that_do_not_fit_are_named(void **state) {
    (void)state;
    Val picture = leaf(0, SAMPLE(3, 64, 64)), w = leaf(1, SHARED(64, 4, 4, 4)),
        row = leaf(2, SHARED(128));
    Attr geom = conv_attr(&plain), axis = {.n = 1, .i = {0}}, third = {.n = 1, .i = {8}};
    refuse(OpConv, VALS(picture, w), &geom, NULL,
           "the input has 3 channels, the weight [64, 4, 4, 4] expects 4");
    refuse(OpConv, VALS(row, w), &geom, NULL,
           "the input should have channels and 2 spatial axes, it is [128]");
    refuse(OpConv, VALS(picture, row), &geom, NULL,
           "the weight [128] should be [out, in, 2 extents]");
    refuse(OpAdd, VALS(leaf(3, SHARED(64, 32, 32)), row), NULL, NULL,
           "extents clash: [64, 32, 32] and [128]");
    refuse(OpConcat, VALS(picture, row), &axis, NULL,
           "cannot join [B, 3, 64, 64] and [128] along axis 0");
    refuse(OpSum, VALS(row), &third, NULL, "a sum over an axis that [128] does not have");
    Type square = SHARED(5, 5), shared = SHARED(3, 64, 64);
    refuse(OpReshape, VALS(row), NULL, &square,
           "cannot reshape [128] to [5, 5]: 128 elements and 25");
    refuse(OpExpand, VALS(picture), NULL, &shared, "cannot expand [B, 3, 64, 64] to [3, 64, 64]");
    refuse(OpGroupSum, VALS(picture), &third, NULL,
           "groups of 8 samples do not divide a batch of 4");
    Val small = leaf(4, SAMPLE(4, 1, 1));
    refuse(
        OpConv, VALS(small, w), &geom, NULL,
        "a kernel of 4 with dilation 1 does not fit the input's extent of 1 with padding [1, 1]");
    ConvGeom wide = plain;
    wide.dilation[0] = wide.dilation[1] = INT32_MAX;
    geom = conv_attr(&wide);
    refuse(OpConv, VALS(leaf(16, SAMPLE(1, 8, 8)), leaf(15, SHARED(1, 1, (int64_t)1 << 33, 1))),
           &geom, NULL,
           "a kernel of 8589934592 with dilation 2147483647 does not fit the input's extent of 8 "
           "with padding [1, 1]");
    Attr far = {.n = 3, .i = {1, 0, (int64_t)1 << 62}};
    Type one = SHARED(1), many = SHARED(5000, 5000);
    refuse(OpSlice, VALS(row), &far, &one, "slice with a step of 4611686018427387904");
    refuse(OpIota, NULL, 0, &(Attr){.n = 1, .i = {6}}, &many,
           "an index counts up to 16777216 elements, not those of [5000, 5000]");
    refuse(OpArgMax, VALS(leaf(17, many)), &(Attr){.n = 1, .i = {6}}, NULL,
           "arg_max counts up to 16777216 elements, not those of [5000, 5000]");
    Attr outer = {.n = 6, .i = {1, 1, 1, 2, 1, 1}};
    refuse(OpDot, VALS(row, row), &outer, NULL,
           "axis 0 of [128] is in neither the other operand nor the result");
    Type half = val_type(row);
    half.dtype = DtBF16;
    refuse(OpMul, VALS(row, leaf(5, half)), NULL, NULL, "precisions clash: f32 and bf16");
    Attr inverse = {.n = 1, .i = {1}};
    Type real = SHARED(1, 1, 4);
    half = SHARED(1, 2, 3);
    half.dtype = DtBF16;
    refuse(
        OpFft, VALS(picture), &inverse, NULL,
        "axis 0 of a transform's operand holds 2 parts, real and imaginary, or 1; [B, 3, 64, 64]");
    refuse(OpFft, VALS(leaf(6, SHARED(1, 2, 4))), &inverse, &real,
           "4 frequencies are of 6 or 7 real numbers, not 4");
    real.dim[2] = 0;
    refuse(OpFft, VALS(leaf(9, SHARED(1, 2, 1))), &inverse, &real,
           "one frequency is of one real number, not 0");
    refuse(OpFft, VALS(leaf(7, SHARED(1, 1, 4))), &inverse, NULL,
           "a transform of real numbers is forward");
    refuse(OpFft, VALS(leaf(10, SHARED(2, 4))), &inverse, NULL,
           "a transform is of samples [parts, ..., n] or of a shared value [lines, parts, n], not "
           "[2, 4]");
    refuse(OpFft, VALS(leaf(8, half)), &inverse, NULL, "a transform is of f32 or f64, not bf16");
}

static void orders_that_do_not_fit_are_named(void **state) {
    (void)state;
    const Attr forward = {.n = 1}, back = {.n = 1, .i = {1}};
    refuse(OpArgSort, VALS(leaf(0, SAMPLE(3, 64, 64))), NULL, NULL,
           "a sort is along rows [n] or [l, n], not of [B, 3, 64, 64]");
    refuse(OpArgSort, VALS(leaf(12, SHARED(1, 1 << 25))), NULL, NULL,
           "a sort takes up to 16777216 numbers a row, not [1, 33554432]");
    Type part = SHARED(2, 5);
    refuse(OpArgSort, VALS(leaf(13, SHARED(2, 4))), NULL, &part,
           "a row of [2, 4] has 4 numbers: its last 5 cannot be sorted");
    part.dim[1] = 0;
    refuse(OpArgSort, VALS(leaf(13, SHARED(2, 4))), NULL, &part,
           "a row of [2, 4] has 4 numbers: its last 0 cannot be sorted");
    part = SHARED(3, 4);
    refuse(OpArgSort, VALS(leaf(13, SHARED(2, 4))), NULL, &part,
           "the order of [2, 4] is not [3, 4]");
    refuse(OpArrange, VALS(leaf(13, SHARED(2, 4)), leaf(13, SHARED(2, 4))), &back, &part,
           "[2, 4] cannot be arranged back to [3, 4]");
    refuse(OpArrange, VALS(leaf(13, SHARED(2, 4)), leaf(14, SHARED(2, 5))), &forward, NULL,
           "[2, 4] cannot be arranged by [2, 5]: their shapes differ");
    refuse(OpArrange, VALS(leaf(13, SHARED(2, 4)), leaf(13, SHARED(2, 4))),
           &(Attr){.n = 1, .i = {2}}, NULL, "arrange: `back` is 0 or 1");
}

static void ops_are_found_by_their_text(void **state) {
    (void)state;
    for (uint32_t op = 1; op < OpCount; op++)
        assert_int_equal(op_find(str_c(op_info[op].text)), op);
    assert_int_equal(op_find(STR("multiply")), OpNone);
}

// --- gradients -----------------------------------------------------------------------------------

// One node of every structural op that has a gradient.
static uint32_t examples(Val *y) {
    uint32_t n = 0;
    Val x = leaf(0, SAMPLE(4, 6, 6)), v = leaf(1, SAMPLE(5)), m = leaf(2, SHARED(5, 3)),
        i = leaf(3, type_make(true, 0, NULL));
    Val w = leaf(4, SHARED(8, 4, 4, 4)), gy = leaf(5, SAMPLE(8, 3, 3)), one = leaf(6, SHARED(1, 6));
    y[n++] = Pin(x);
    y[n++] = Sum(x, 1 | 4);
    y[n++] = GroupSum(x, 2);
    y[n++] = Squares(x, 1 | 4);
    y[n++] = MaxOf(x, 4 | 8);
    y[n++] = Reshape(x, DIMS(6, 24));
    y[n++] = Expand(one, SAMPLE(4, 6, 2));
    y[n++] = Permute(x, (uint32_t[]){2, 0, 1});
    y[n++] = Slice(x, (int64_t[]){1, 0, 2}, (int64_t[]){2, 3, 2}, (int64_t[]){1, 2, 3});
    y[n++] = Pad(x, (int64_t[]){0, 1, 1}, (int64_t[]){1, 2, 1}, (int64_t[]){4, 13, 8});
    y[n++] = Flip(x, 4);
    y[n++] = Concat((Val[]){x, leaf(7, SAMPLE(2, 6, 6)), x}, 3, 0);
    y[n++] = Gather(m, i);
    y[n++] = Scatter(v, i, SHARED(9, 5));
    y[n++] = Dot(v, (uint8_t[]){1}, m, (uint8_t[]){1, 2}, (uint8_t[]){2}, 1, true);
    y[n++] = Dot(v, (uint8_t[]){1}, v, (uint8_t[]){2}, (uint8_t[]){2, 1}, 2, false);
    y[n++] = Dot(v, (uint8_t[]){3}, m, (uint8_t[]){1, 2}, (uint8_t[]){3, 1, 2}, 3, true);
    y[n++] = Conv(x, w, &plain);
    y[n++] = ConvDx(gy, w, &plain, SAMPLE(4, 6, 6));
    y[n++] = ConvDw(x, gy, &plain, SHARED(8, 4, 4, 4));
    y[n++] = Fft(leaf(8, SAMPLE(1, 3, 7)), false, NULL);
    Type real = SAMPLE(1, 3, 7);
    y[n++] = Fft(leaf(9, SAMPLE(2, 3, 4)), true, &real);
    y[n++] = Arrange(m, ArgSort(m), false);
    return n;
}

// The gradient to every operand has that operand's type, and so have the gradients of the gradient.
static void check_gradients(Val y, uint32_t order) {
    const OpInfo *info = &op_info[op_of(y)];
    Val g = Read(&at, 100 + order, 0, val_type(y));
    for (uint32_t k = 0; k < graph_node(&graph, y.id)->nin; k++) {
        Val d = info->grad(y, g, k);
        assert_int_equal(d.id != 0, op_has_gradient(op_of(y), k));
        if (!d.id)
            continue;
        Type x = val_type(val_in(y, k));
        if (info->value)
            d = SumTo(d, x);
        assert_int_equal(graph_type(&graph, x), graph_node(&graph, d.id)->type);
        if (order < 2 && graph_node(&graph, d.id)->nin)
            check_gradients(d, order + 1);
    }
}

static void gradients_of_structural_ops_have_their_operands_types(void **state) {
    (void)state;
    Val y[32];
    uint8_t covered[OpCount] = {
        [OpConst] = 1,       [OpIota] = 1,       [OpRead] = 1,   [OpWrite] = 1,
        [OpRand] = 1,        [OpGrad] = 1,       [OpArgMax] = 1, [OpArgSort] = 1,
        [OpReduceStart] = 1, [OpReduceWait] = 1, [OpCommit] = 1};
    for (int raw = 0; raw < 2; raw++) {
        at.raw = raw;
        uint32_t n = examples(y);
        for (uint32_t i = 0; i < n; i++) {
            covered[op_of(y[i])] = 1;
            check_gradients(y[i], 1);
        }
    }
#define OP(Name, ...) assert_true(covered[Op##Name]);
#include "ops.def"
}

static void a_product_sums_what_only_one_operand_has(void **state) {
    (void)state;
    Val v = leaf(0, SAMPLE(5, 2)), m = leaf(1, SHARED(5, 3));
    assert_type(Dot(v, (uint8_t[]){1, 7}, m, (uint8_t[]){1, 2}, (uint8_t[]){2}, 1, true), "[B, 3]");
    assert_type(Dot(v, (uint8_t[]){1, 7}, m, (uint8_t[]){1, 2}, (uint8_t[]){7, 2}, 2, false),
                "[2, 3]");
    Val a = Dot(v, (uint8_t[]){9, 4}, m, (uint8_t[]){9, 5}, (uint8_t[]){5, 4}, 2, true);
    assert_int_equal(Dot(v, (uint8_t[]){1, 2}, m, (uint8_t[]){1, 3}, (uint8_t[]){3, 2}, 2, true).id,
                     a.id);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(types_are_equal_when_their_ids_are, graph_open),
        cmocka_unit_test_setup(broadcasting_aligns_from_the_left, graph_open),
        cmocka_unit_test_setup(images_and_weights_are_channels_last, graph_open),
        cmocka_unit_test_setup(another_axis_may_lie_innermost, graph_open),
        cmocka_unit_test_setup(sizes_saturate_and_are_refused, graph_open),
        cmocka_unit_test_setup(equal_nodes_are_one_node, graph_open),
        cmocka_unit_test_setup(pins_and_writes_are_never_shared, graph_open),
        cmocka_unit_test_setup(a_raw_builder_keeps_what_it_is_given, graph_open),
        cmocka_unit_test_setup(nodes_are_shared_only_where_their_block_dominates, graph_open),
        cmocka_unit_test_setup(a_shared_node_keeps_all_source_spans, graph_open),
        cmocka_unit_test_setup(reachability_follows_operands, graph_open),
        cmocka_unit_test_setup(operands_that_do_not_fit_are_named, graph_open),
        cmocka_unit_test_setup(orders_that_do_not_fit_are_named, graph_open),
        cmocka_unit_test_setup(ops_are_found_by_their_text, graph_open),
        cmocka_unit_test_setup(gradients_of_structural_ops_have_their_operands_types, graph_open),
        cmocka_unit_test_setup(a_product_sums_what_only_one_operand_has, graph_open),
    };
    return ARENA_CASES(tests, (size_t)1 << 30);
}
