// fuse_test.c - which nodes fuse into one region.
//
// Small graphs with the answer beside them; invariants of regions on random programs; and golden
// cases: tests/golden/fuse/NAME.graph, a module's text, beside NAME.fused, the explanation of its
// step, and NAME.c and NAME.cu, its kernels in each dialect. Those that exist are compared
// (golden.h).
#include "clusters.h"
#include "gen.h"
#include "matrices.h"
#include "programs.h"

#include <setjmp.h>
#include <cmocka.h>
#include "cases.h"
#include "golden.h"
#include <stdlib.h>
#include <string.h>

static Arena arena;

typedef struct Case {
    Module m;
    Builder at; // adds to its step
    Plan plan;
} Case;

static int set_up(void **state) {
    (void)state;
    return arena_init(&arena, 0) == GAN_OK ? 0 : -1;
}

static int tear_down(void **state) {
    (void)state;
    arena_release(&arena);
    return 0;
}

// --- building ------------------------------------------------------------------------------------

static Case *begin(int64_t batch) {
    Case *c = arena_new(&arena, Case);
    c->m = (Module){.name = STR("fuse"), .batch = batch};
    graph_init(&c->m.step.g, &arena, batch);
    c->at.g = &c->m.step.g;
    c->m.step.name = STR("step");
    c->m.step.blocks = 1;
    vec_push(&arena, &c->m.step.tape, ((Ctl){.kind = CtlBlock}));
    return c;
}

static Type shape(bool batched, uint32_t rank, const int64_t *dim) {
    return type_make(batched, rank, dim);
}
#define DIM(...)                                                                                   \
    (const int64_t[]) {                                                                            \
        __VA_ARGS__                                                                                \
    }

static Val input(Case *c, Type t) {
    vec_push(&arena, &c->m.slot,
             ((Slot){.kind = SlotState, .name = STR("s"), .net = NONE, .type = t}));
    return Read(&c->at, c->m.slot.n - 1, 0, t);
}

static uint32_t result(Case *c, Val v) {
    vec_push(&arena, &c->m.step.result, ((Named){STR("r"), v.id, 0}));
    return v.id;
}

static uint32_t write_slot(Case *c, uint32_t slot, Val v) {
    uint32_t id = Write(slot, v).id;
    vec_push(&arena, &c->m.step.effect, id);
    return id;
}

static void fuse_case_for(Case *c, bool card) {
    PassOptions o = {.real = DtF32, .few_launches = card};
    c->plan = (Plan){.module = &c->m, .func = &c->m.step, .real = DtF32};
    fuse(&arena, &o, &c->plan);
    gen_kernels(&arena, &c->plan, gen_has(&dialect_c, &c->plan) ? &dialect_c : &dialect_cuda);
}

static void fuse_case(Case *c) {
    fuse_case_for(c, false);
}

static bool has(const uint32_t *at, uint32_t n, uint32_t id) {
    for (uint32_t i = 0; i < n; i++)
        if (at[i] == id)
            return true;
    return false;
}

static bool stored(const Case *c, Val v) {
    uint32_t r = c->plan.region_of[v.id];
    return r != NONE && has(c->plan.region.at[r].out.at, c->plan.region.at[r].out.n, v.id);
}

static void expect_together(const Case *c, Val a, Val b) {
    assert_int_equal(c->plan.region_of[a.id], c->plan.region_of[b.id]);
}

static void expect_in_order(const Case *c) {
    OrderVec order;
    region_orders(&arena, &c->plan, &order);
    assert_true(order.n > 0);
    for (uint32_t i = 0; i < order.n; i++)
        assert_true(order.at[i].before < order.at[i].after);
}

// --- shapes of training --------------------------------------------------------------------------

typedef struct Norm {
    Val y, shifted, mean, square, dev, out;
} Norm;

static Norm norm_layer(Case *c, Val x, Val w, const ConvGeom *geom, int64_t n) {
    Norm l;
    l.y = Conv(x, w, geom);
    int64_t channels = val_type(l.y).dim[0];
    l.shifted = Add(l.y, input(c, shape(false, 1, &channels)));
    l.mean = Sum(l.shifted, 1 | 4 | 8);
    Val centred = Sub(l.shifted, Mul(l.mean, Num(x, 1.0 / (double)n)));
    l.square = Squares(l.shifted, 1 | 4 | 8);
    l.dev = Sqrt(Add(Mul(l.square, Num(x, 1.0 / (double)n)), Num(x, 1e-5)));
    Val unit = Div(centred, l.dev),
        z = Add(Mul(unit, input(c, shape(false, 1, &channels))), Num(x, 0.1));
    l.out = Where(Gt(z, Num(x, 0)), z, Mul(z, Num(x, 0.2)));
    return l;
}

static const ConvGeom geom = {
    .n = 2, .stride = {2, 2}, .before = {1, 1}, .after = {1, 1}, .dilation = {1, 1}, .groups = 1};

// conv, then [bias, sum and squares], [deviation], [normalise, scale, leaky relu]; only the
// convolution's result and the last one are large, and two layers of different sizes share their
// kernels.
static void a_batch_norm_stores_nothing_large_between(void **state) {
    (void)state;
    Case *c = begin(8);
    Norm a = norm_layer(c, input(c, shape(true, 3, DIM(3, 64, 64))),
                        input(c, shape(false, 4, DIM(32, 3, 4, 4))), &geom, 8 * 32 * 32);
    Norm b = norm_layer(c, a.out, input(c, shape(false, 4, DIM(64, 32, 4, 4))), &geom, 8 * 16 * 16);
    result(c, b.out);
    fuse_case(c);
    const Norm *layers[] = {&a, &b};
    for (int i = 0; i < 2; i++) {
        const Norm *l = layers[i];
        assert_false(stored(c, l->shifted));
        assert_true(stored(c, l->mean) && stored(c, l->square) && stored(c, l->dev) &&
                    stored(c, l->out));
        expect_together(c, l->mean, l->square);
    }
    assert_int_equal(c->plan.region.n, 8);
    assert_int_equal(c->plan.kernel.n, 3);
}

// Squares about a mean are computed without waiting for the mean if it is of the same values over
// the same axes. Everything else is unchanged.
static void mean_and_variance_are_one_pass(void **state) {
    (void)state;
    static const struct {
        Dtype dtype;
        uint32_t axes, mean; // of the squares; of the mean
        int64_t n;           // that the mean's sum is divided by
        bool other;          // the mean of another value
        bool found;
        bool turned; // the means of rows, as those of columns
    } cases[] = {
        {DtF32, 1 | 4 | 8, 1 | 4 | 8, 8 * 256, false, true, false}, // batch norm
        {DtF32, 4 | 8, 4 | 8, 256, false, true, false},             // instance norm
        {DtF32, 2 | 4 | 8, 2 | 4 | 8, 6 * 256, false, true, false}, // layer norm
        {DtF64, 4 | 8, 4 | 8, 256, false, false, false},            // its precision would suffer
        {DtF32, 4 | 8, 4 | 8, 255, false, false, false},            // not the mean
        {DtF32, 4 | 8, 8, 16, false, false, false},                 // of a row only
        {DtF32, 4 | 8, 2 | 4 | 8, 256, false, false, false},        // of more, divided by as many
        {DtF32, 4 | 8, 4 | 8, 256, true, false, false},
        {DtF32, 8, 8, 16, false, false, true},
        {DtF32, 2, 2, 6, false, false, false}, // arithmetic, in whatever loop reads it
    };
    PassOptions o = {.real = DtF32};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Case *c = begin(8);
        Type t = shape(true, 3, DIM(6, 16, 16));
        t.dtype = (uint8_t)cases[i].dtype;
        Val x = input(c, t), y = input(c, t), of = cases[i].other ? y : x;
        Val sum = Sum(of, cases[i].mean), mean = Mul(sum, Num(sum, 1.0 / (double)cases[i].n)),
            off = Sub(x, cases[i].turned ? Reshape(mean, 3, DIM(6, 1, 16)) : mean);
        result(c, sum);
        result(c, Sum(Mul(off, off), cases[i].axes));
        result(c, off);
        pass_moments(&arena, &c->m, &c->m.step, &o);
        const Func *f = &c->m.step;
        Val first = {&c->at, f->result.at[0].node}, squares = {&c->at, f->result.at[1].node};
        bool found = graph_node(&f->g, squares.id)->op == OpSquares;
        assert_int_equal(found, cases[i].found);
        fuse_case(c);
        if (found)
            expect_together(c, first, squares);
    }
}

static void both_sums_of_a_norms_gradient_are_one_loop(void **state) {
    (void)state;
    Case *c = begin(8);
    Type t = shape(true, 3, DIM(32, 16, 16));
    Val x = input(c, t), g = input(c, t), masked = Where(Gt(x, Num(x, 0)), g, Mul(g, Num(g, 0.2)));
    Val sum = Sum(masked, 13), dot = Sum(Mul(masked, x), 13);
    result(c, sum);
    result(c, dot);
    result(c, Sub(masked, Add(Mul(x, dot), sum)));
    fuse_case(c);
    expect_together(c, sum, dot);
    assert_false(stored(c, masked));
    assert_int_equal(c->plan.region.n, 2);
}

// A card computes a norm's numbers of each channel in the loop that reads them, once a thread; a
// launch between that and the sums would be all latency. Here a state is one of them.
static void a_card_has_no_launch_for_a_norms_numbers(void **state) {
    (void)state;
    for (int card = 0; card < 2; card++) {
        Case *c = begin(32);
        Val x = input(c, shape(true, 3, DIM(64, 32, 32))), sum = Sum(x, 13),
            square = Squares(x, 13), gain = input(c, shape(false, 3, DIM(64, 1, 1)));
        Val dev = Sqrt(Add(Mul(square, Num(x, 1e-3)), gain));
        Val scale = Div(Div(Mul(sum, Num(x, 0.5)), dev), Mul(dev, Sqrt(dev)));
        result(c, Mul(x, scale));
        fuse_case_for(c, card);
        expect_together(c, sum, square);
        assert_int_equal(stored(c, scale), !card);
        assert_int_equal(c->plan.region.n, 3 - card);
    }
}

// What larger loops read of sums alone, a card computes where it sums; a sum that nothing else
// reads is not stored, nor is one of its kind elsewhere.
static void a_card_stores_a_deviation_in_place_of_its_sum(void **state) {
    (void)state;
    static const struct {
        bool card, also; // reads something else the squares?
        bool derived, square;
    } cases[] = {{false, false, false, true}, {true, false, true, false}, {true, true, true, true}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Case *c = begin(32);
        Val sum[2], square[2], dev[2], mean[2], x = input(c, shape(true, 3, DIM(64, 32, 32)));
        for (int k = 0; k < 2; k++) {
            sum[k] = Sum(x, 13);
            square[k] = Squares(x, 13);
            mean[k] = Mul(sum[k], Num(x, 1e-3));
            dev[k] = Sqrt(Add(Mul(square[k], Num(x, 1e-3)), Num(x, 1e-5)));
            x = Exp(Div(Sub(x, mean[k]), dev[k]));
        }
        result(c, x);
        if (cases[i].also)
            result(c, square[1]);
        fuse_case_for(c, cases[i].card);
        for (int k = 0; k < 2; k++) {
            bool together = c->plan.region_of[dev[k].id] == c->plan.region_of[sum[k].id];
            assert_int_equal(together && stored(c, dev[k]), cases[i].derived);
            assert_int_equal(stored(c, square[k]), cases[i].square);
            assert_true(stored(c, sum[k]) && !(cases[i].card && stored(c, mean[k])));
        }
        assert_int_equal(gen_has(&dialect_c, &c->plan), !cases[i].derived);
    }
}

// What all samples share lies as weights do, [c][w][h]; a loop over samples, [h][w][c], reads a
// copy that lies as these.
static void what_samples_share_is_laid_out_as_they_are(void **state) {
    (void)state;
    static const struct {
        int64_t dim[3], batch;
        bool card, copied;
    } cases[] = {
        {{64, 16, 16}, 32, false, true},  {{1, 64, 64}, 32, false, true},
        {{64, 1, 1}, 1024, false, false}, // lies as samples do
        {{64, 16, 16}, 2, false, false},  // the copy costs as much
        {{4, 4, 4}, 32, false, false},    // a launch does
        {{64, 16, 16}, 32, true, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Case *c = begin(cases[i].batch);
        PassOptions o = {.real = DtF32, .few_launches = cases[i].card, .verify_each = true};
        Val x = input(c, shape(true, 3, DIM(64, 64, 64))),
            gain = input(c, shape(false, 3, cases[i].dim));
        Val part = Slice(x, DIM(0, 0, 0), cases[i].dim, DIM(1, 1, 1));
        result(c, Sum(Mul(part, gain), 14));
        result(c, Sub(part, gain));
        pass_as_samples(&arena, &c->m, &c->m.step, &o);
        fuse_case_for(c, cases[i].card);
        uint32_t copies = 0;
        for (uint32_t id = 1; id < c->m.step.g.node.n; id++)
            if (graph_node(&c->m.step.g, id)->op == OpPin) {
                assert_true(stored(c, (Val){&c->at, id}));
                copies++; // of both loops
            }
        assert_int_equal(copies, cases[i].copied);
    }
}

// Scores of [heads, queries, keys] have heads innermost by type_strides' rule; so have queries,
// keys and values that are made of [tokens, channels]. Products of them take and make other ones.
static void heads_are_matrices_in_place(void **state) {
    (void)state;
    Case *c = begin(4);
    static const uint8_t io[] = {1, 2}, nc[] = {3, 2}, no[] = {3, 1}, hqd[] = {1, 2, 3},
                         hkd[] = {1, 4, 3}, hqk[] = {1, 2, 4};
    Val x = input(c, shape(true, 2, DIM(64, 96))), part[3];
    for (int i = 0; i < 3; i++) {
        Val w = input(c, shape(false, 2, DIM(96, 96)));
        Val y = Reshape(Dot(w, io, Exp(x), nc, no, 2, true), 3, DIM(64, 6, 16));
        part[i] = Permute(y, (const uint32_t[]){1, 0, 2});
    }
    Val scores = Exp(Dot(part[0], hqd, part[1], hkd, hqk, 3, true));
    Val y = Dot(Div(scores, Sum(scores, 8)), hqk, part[2], hkd, hqd, 3, true);
    result(c, Permute(y, (const uint32_t[]){1, 0, 2}));
    PassOptions o = {.real = DtF32, .verify_each = true};
    pass_innermost(&arena, &c->m, &c->m.step, &o);
    const Graph *g = &c->m.step.g;
    Matrices m;
    MatrixShape s;
    for (uint32_t id = 1; id < g->node.n; id++) {
        Einsum e = {0};
        if (graph_node(g, id)->op == OpDot)
            e = einsum_of_dot(g, id);
        for (int i = 0; e.type[0] && i < MatrixSides; i++)
            assert_true(matrices_read(&m, g, &e) && matrices_in_place(&m, (MatrixSide)i, &s));
        if (graph_node(g, id)->op == OpRead)
            assert_int_equal(node_type(g, id)->inner, 0);
    }
    assert_int_equal(node_type(g, c->m.step.result.at[0].node)->inner, 0);
    fuse_case(c);
}

// A weight's whole update is one in-place loop; the step count, which it reads, is written after
// it.
static void adam_is_one_loop_per_weight(void **state) {
    (void)state;
    Case *c = begin(4);
    Type t = shape(false, 2, DIM(300, 70));
    Val w = input(c, t), g = input(c, t), m = input(c, t), v = input(c, t),
        n = input(c, shape(false, 0, NULL));
    Val step = Add(n, Num(n, 1)), m1 = Add(Mul(m, Num(m, 0.9)), Mul(g, Num(g, 0.1)));
    Val v1 = Add(Mul(v, Num(v, 0.99)), Mul(Mul(g, g), Num(g, 0.01)));
    Val rate = Div(Num(n, 1e-3), Sub(Num(n, 1), Pow(Num(n, 0.9), step)));
    uint32_t first = write_slot(c, 0, Sub(w, Div(Mul(m1, rate), Add(Sqrt(v1), Num(v, 1e-8)))));
    uint32_t second = write_slot(c, 2, m1), third = write_slot(c, 3, v1),
             count = write_slot(c, 4, step);
    fuse_case(c);
    assert_int_equal(c->plan.region_of[first], c->plan.region_of[second]);
    assert_int_equal(c->plan.region_of[first], c->plan.region_of[third]);
    assert_int_not_equal(c->plan.region_of[first], c->plan.region_of[count]);
    assert_int_equal(c->plan.region.n, 2);
    assert_false(stored(c, m1) || stored(c, v1));
    assert_int_equal(c->plan.copied.n, 0);
}

// --- slots ---------------------------------------------------------------------------------------

static void a_slot_written_from_itself_in_another_order_is_not_one_loop(void **state) {
    (void)state;
    Case *c = begin(4);
    Val x = input(c, shape(false, 2, DIM(50, 60))), y = Add(Flip(x, 2), Num(x, 1));
    uint32_t w = write_slot(c, 0, y);
    fuse_case(c);
    assert_int_not_equal(c->plan.region_of[y.id], c->plan.region_of[w]);
}

// A write that computes nothing is no exception: h := flip(h, ...) reads what it writes.
static void a_slot_that_is_flipped_in_place_needs_a_copy(void **state) {
    (void)state;
    Case *c = begin(4);
    Val x = input(c, shape(false, 2, DIM(50, 60)));
    uint32_t w = write_slot(c, 0, Flip(x, 2));
    fuse_case(c);
    assert_int_equal(c->plan.copied.n, 1);
    assert_int_not_equal(c->plan.region_of[x.id], c->plan.region_of[w]);
}

static void two_slots_that_are_swapped_need_a_copy(void **state) {
    (void)state;
    Case *c = begin(4);
    Type t = shape(false, 1, DIM(100));
    Val a = input(c, t), b = input(c, t);
    uint32_t wa = write_slot(c, 0, Flip(b, 2)), wb = write_slot(c, 1, Flip(a, 2));
    fuse_case(c);
    OrderVec order;
    region_orders(&arena, &c->plan, &order);
    assert_int_equal(c->plan.copied.n, 1);
    assert_int_equal(c->plan.region.n, 3);
    assert_true(c->plan.region_of[wa] != c->plan.region_of[wb]);
    bool in_time = false; // is the copy made before the slot is written?
    uint32_t copy = c->plan.region_of[(c->plan.copied.at[0] ? b : a).id],
             write = c->plan.region_of[c->plan.copied.at[0] ? wb : wa];
    for (uint32_t i = 0; i < order.n; i++) {
        assert_true(order.at[i].before < order.at[i].after); // the plan's own order is valid
        in_time |= order.at[i].before == copy && order.at[i].after == write;
    }
    assert_true(in_time);
}

// The executor reads a report, and the condition of an if, after the block that computes it.
static void a_slot_that_the_executor_reads_is_copied_before_it_is_written(void **state) {
    (void)state;
    for (int written = 0; written < 2; written++)
        for (int condition = 0; condition < 2; condition++) {
            Case *c = begin(4);
            Func *f = &c->m.step;
            Val x = input(c, shape(false, 0, NULL));
            if (condition) {
                vec_push(&arena, &f->tape, ((Ctl){CtlIf, 0, x.id}));
                vec_push(&arena, &f->tape, ((Ctl){CtlEnd, 0, 0}));
            } else {
                vec_push(&arena, &f->report, ((Named){STR("x"), x.id, 0}));
            }
            if (written)
                write_slot(c, 0, Add(x, Num(x, 1)));
            fuse_case(c);
            assert_int_equal(c->plan.copied.n, written);
        }
}

// A factor or divisor that depends on a sum is applied after the next one; what is divided is not.
static void only_factors_and_divisors_leave_a_sum(void **state) {
    (void)state;
    const PassOptions o = {.real = DtF32, .parallel = {.ranks = 2}};
    for (int i = 0; i < 3; i++) {
        Case *c = begin(4);
        Val x = input(c, shape(true, 1, DIM(6))), m = Sum(x, 1), y = Exp(x);
        result(c, Sum(i == 0   ? Add(Mul(y, m), y)
                      : i == 1 ? Add(Div(y, m), y)
                               : Add(Div(m, y), y),
                      1));
        pass_split_sums(&arena, &c->m, &c->m.step, &o);
        Op op = (Op)graph_node(&c->m.step.g, c->m.step.result.at[0].node)->op;
        assert_int_equal(op, i < 2 ? OpAdd : OpSum);
    }
}

static void elementwise_two_slots_are_swapped_in_one_loop(void **state) {
    (void)state;
    Case *c = begin(4);
    Type t = shape(false, 1, DIM(100));
    Val a = input(c, t), b = input(c, t), sum = Add(a, b);
    uint32_t wa = write_slot(c, 0, Mul(sum, b)), wb = write_slot(c, 1, Mul(sum, a));
    fuse_case(c);
    assert_int_equal(c->plan.region_of[wa], c->plan.region_of[wb]);
    assert_int_equal(c->plan.copied.n, 0);
}

// Which branch runs is known only when the step does, but not both: each reads the slot where it
// lies, before it writes it. What comes after them reads what they may have changed.
static void a_slot_that_either_branch_writes_needs_no_copy(void **state) {
    (void)state;
    for (int after = 0; after < 2; after++) {
        Case *c = begin(4);
        Val x = input(c, shape(false, 2, DIM(50, 60))), which = Reshape(Sum(x, 6), 0, NULL);
        const Ctl rest[] = {{CtlIf, 0, which.id}, {CtlBlock, 1, 0}, {CtlElse, 0, 0},
                            {CtlBlock, 2, 0},     {CtlEnd, 0, 0},   {CtlBlock, 3, 0}};
        for (size_t i = 0; i < sizeof rest / sizeof *rest; i++)
            vec_push(&arena, &c->m.step.tape, rest[i]);
        c->m.step.blocks = 4;
        c->at.block = 1;
        Val y = Mul(x, Num(x, 2));
        write_slot(c, 0, y);
        c->at.block = 2;
        Val z = Sum(Mul(x, x), 6);
        write_slot(c, 0, Add(x, z));
        c->at.block = 3;
        if (after)
            result(c, Mul(x, Num(x, 4)));
        fuse_case(c);
        assert_int_equal(c->plan.copied.n, after);
        expect_in_order(c);
    }
}

// --- storing or recomputing ----------------------------------------------------------------------

static void an_operand_of_a_library_call_is_stored_once(void **state) {
    (void)state;
    Case *c = begin(8);
    Val x = input(c, shape(true, 3, DIM(4, 8, 8))), a = Tanh(x), flat = Reshape(a, 1, DIM(256));
    Val y = Conv(a, input(c, shape(false, 4, DIM(6, 4, 4, 4))), &geom);
    result(c, Mul(flat, flat));
    result(c, y);
    result(c, Mul(a, Num(a, 2)));
    fuse_case(c);
    assert_true(stored(c, a));
    assert_false(stored(c, flat));
    assert_int_equal(c->plan.place[flat.id].owner,
                     flat.id); // channels last: the reshape moves elements
}

// A padded vector of x, or of its first quarter, that begins at its first element.
static Val padded(Val x, bool whole) {
    return Pad(whole ? x : Slice(x, DIM(0), DIM(10), DIM(1)), DIM(0), NULL, DIM(100));
}

// Where a loop reads the same elements twice, they are loaded once: as often as the reader that
// asks for more of them does, whether one unit reads both or two that are computed in its place.
static void elements_read_twice_count_once(void **state) {
    (void)state;
    for (int i = 0; i < 4; i++) {
        Case *c = begin(1);
        PassOptions o = {.real = DtF32};
        Val x = input(c, shape(false, 1, DIM(40))), a = padded(x, i & 1), b = padded(x, !(i & 1)),
            sum = i & 2 ? Add(a, b) : Add(Sin(a), Exp(b));
        result(c, sum);
        Arena scratch = arena;
        Fuse z = {.arena = &scratch, .m = &c->m, .f = &c->m.step, .g = &c->m.step.g, .o = &o};
        ReadsVec reads = {0};
        units_find(&z);
        clusters_init(&z);
        unit_reads(&z, sum.id, &reads);
        assert_int_equal(reads.n, 1);
        assert_int_equal(reads.at[0].node, x.id);
        assert_close(reads.at[0].times, 0.4, 1e-12);
    }
}

static void costly_values_are_stored_and_cheap_ones_recomputed(void **state) {
    (void)state;
    Case *c = begin(8);
    Val x = input(c, shape(true, 3, DIM(32, 32, 32))), dear = Tanh(x), cheap = Add(x, Num(x, 1));
    Val s = Sum(dear, 13), t = Sum(cheap, 13);
    result(c, Mul(dear, s));
    result(c, Mul(cheap, t));
    fuse_case(c);
    assert_true(stored(c, dear));
    assert_false(stored(c, cheap));
}

// Four neighbours along an axis.
static Val filtered(Val x, uint32_t axis) {
    int64_t from[3] = {0}, count[3];
    for (uint32_t i = 0; i < 3; i++)
        count[i] = val_type(x).dim[i] - (i == axis ? 3 : 0);
    Val y[4];
    for (uint32_t i = 0; i < 4; i++) {
        from[axis] = i;
        y[i] = Slice(x, from, count, NULL);
    }
    return Add(Add(y[0], y[3]), Mul(Add(y[1], y[2]), Num(x, 3)));
}

// A filter over both axes at once would read sixteen values an element, on a GPU from the memory of
// other blocks; a border reads few elements more.
static void a_card_filters_one_axis_after_the_other(void **state) {
    (void)state;
    for (int card = 0; card < 2; card++) {
        Case *c = begin(8);
        Val x = input(c, shape(true, 3, DIM(32, 64, 64))), once = filtered(x, 1);
        result(c, filtered(once, 2));
        fuse_case_for(c, card);
        assert_int_equal(stored(c, once), card);
        assert_int_equal(c->plan.region.n, 1 + card);
    }
}

static void a_border_is_recomputed(void **state) {
    (void)state;
    Case *c = begin(8);
    const int64_t edge[] = {0, 0, 0};
    Val x = input(c, shape(true, 3, DIM(32, 64, 64))), g = Mul(Add(x, Num(x, 1)), Num(x, 2));
    Val left = Slice(g, edge, DIM(32, 64, 2), NULL), sum = g;
    for (uint32_t i = 0; i < 4; i++)
        sum = Add(sum, Pad(left, DIM(0, 0, 5 * i), NULL, DIM(32, 64, 64)));
    result(c, sum);
    fuse_case_for(c, true);
    assert_false(stored(c, g));
    assert_int_equal(c->plan.region.n, 1);
}

// The only reader of a sum of three pools it in windows that do not overlap: each element is
// computed once, so the sum is not stored and all is one kernel.
static void pooling_fuses_the_sum_it_reads(void **state) {
    (void)state;
    for (int card = 0; card < 2; card++) {
        Case *c = begin(8);
        Val x[3], sum;
        for (uint32_t i = 0; i < 3; i++)
            x[i] = input(c, shape(true, 3, DIM(32, 64, 64)));
        sum = Add(Add(x[0], x[1]), x[2]);
        Val rows = Sum(Reshape(sum, 4, DIM(32, 64, 32, 2)), 16);
        Val both = Sum(Reshape(rows, 4, DIM(32, 32, 2, 32)), 8);
        result(c, Mul(Reshape(both, 3, DIM(32, 32, 32)), Num(x[0], 0.25)));
        fuse_case_for(c, card);
        assert_int_equal(c->plan.region.n, 1);
    }
}

static void a_short_sum_is_arithmetic(void **state) {
    (void)state;
    Case *c = begin(8);
    Val x = input(c, shape(true, 3, DIM(3, 40, 40))), s = Sum(Mul(x, x), 2), y = Sqrt(s);
    result(c, y);
    fuse_case(c);
    assert_int_equal(c->plan.region.n, 1);
    assert_false(stored(c, s));
}

// A reader depends on all parts of a concat, not only on the one that holds its first term: z needs
// the product computed from q, so they are not one loop.
static void a_short_sum_of_parts_reads_all_of_them(void **state) {
    (void)state;
    Case *c = begin(8);
    Val x = input(c, shape(true, 1, DIM(6))), w = input(c, shape(false, 2, DIM(6, 6))),
        q = Exp(Sin(Exp(x)));
    Val made =
        Dot(q, (const uint8_t[]){1}, w, (const uint8_t[]){2, 1}, (const uint8_t[]){2}, 1, true);
    Val part[2] = {Reshape(x, 2, DIM(1, 6)), Reshape(made, 2, DIM(1, 6))};
    Val both = Sum(Concat(part, 2, 0), 2), z = Exp(Mul(q, Reshape(both, 1, DIM(6))));
    result(c, z);
    fuse_case(c);
    expect_in_order(c);
    assert_int_not_equal(c->plan.region_of[q.id], c->plan.region_of[z.id]);
}

// A move depends on all its operands, not only on the one its readers' elements come from.
static void a_move_waits_for_operands_it_does_not_select(void **state) {
    (void)state;
    Case *c = begin(8);
    Val x = input(c, shape(true, 1, DIM(6))), w = input(c, shape(false, 2, DIM(6, 6))),
        q = Exp(Sin(Exp(x)));
    Val made =
        Dot(q, (const uint8_t[]){1}, w, (const uint8_t[]){2, 1}, (const uint8_t[]){2}, 1, true);
    Val both = Concat((Val[]){x, made}, 2, 0), turned = Flip(both, 2);
    Val part = Slice(turned, DIM(6), DIM(6), DIM(1)), z = Exp(Mul(q, part));
    result(c, z);
    fuse_case(c);
    assert_true(has(c->plan.region.at[c->plan.region_of[z.id]].in.at,
                    c->plan.region.at[c->plan.region_of[z.id]].in.n, made.id));
    expect_in_order(c);
}

// Every cropped axis adds a bound to an access through the pad that is the gradient of a crop, and
// an access has a limited number of bounds: after enough of them a value is stored.
static void a_long_chain_of_pads_stores_intermediate_values(void **state) {
    (void)state;
    enum { Crops = 20, Extent = 32 };
    Case *c = begin(2);
    const int64_t one[] = {1, 1, 1};
    Val x = input(c, shape(true, 3, DIM(Extent, Extent, Extent)));
    int64_t e = Extent - Crops;
    Val h = Sin(Slice(x, (int64_t[]){Crops, Crops, Crops}, (int64_t[]){e, e, e}, NULL));
    for (e++; e <= Extent; e++)
        h = Pad(h, one, NULL, (int64_t[]){e, e, e});
    result(c, Sin(h));
    fuse_case(c);
    assert_true(c->plan.region.n > 1);
}

static uint32_t longest_kernel(const Plan *p) {
    uint32_t longest = 0;
    for (uint32_t k = 0; k < p->kernel.n; k++) {
        uint32_t lines = 0;
        Str text = p->kernel.at[k].source;
        for (size_t i = 0; i < text.len; i++)
            lines += text.ptr[i] == '\n';
        longest = lines > longest ? lines : longest;
    }
    return longest;
}

// Each part of the concatenation would be the chain up to it: a kernel of their number squared.
static void an_unrolled_recurrence_is_recomputed_up_to_a_length(void **state) {
    enum { Steps = 64, LinesOfStatement = 2 };
    (void)state;
    Case *c = begin(8);
    Val x = input(c, shape(true, 1, DIM(1))), part[Steps];
    for (uint32_t t = 0; t < Steps; t++)
        part[t] = x = Tanh(Mul(x, Number(&c->at, 2 + t)));
    result(c, Concat(part, Steps, 0));
    fuse_case_for(c, true);
    assert_in_range(longest_kernel(&c->plan), Steps, LinesOfStatement * MaxStatements);
}

// Running sums by doubling distances: each is the one before twice, under two guards, so that all
// of them at once would be as many statements as there are elements.
static void a_running_sum_is_stored_every_few_steps(void **state) {
    enum { Extent = 1024, LinesOfAll = 500 };
    (void)state;
    Case *c = begin(8);
    Val y = input(c, shape(true, 2, DIM(64, Extent)));
    for (int64_t by = 1; by < Extent; by *= 2) {
        const int64_t head[] = {64, by}, tail[] = {64, Extent - by};
        Val first = Slice(y, (int64_t[]){0, 0}, head, NULL),
            before = Slice(y, (int64_t[]){0, 0}, tail, NULL),
            after = Slice(y, (int64_t[]){0, by}, tail, NULL);
        y = Concat((Val[]){first, Add(before, after)}, 2, 1);
    }
    result(c, y);
    fuse_case_for(c, true);
    assert_in_range(longest_kernel(&c->plan), 1, LinesOfAll);
}

static bool has_text(Str text, const char *part) {
    for (size_t i = 0; i < text.len; i++)
        if (str_starts(str_sub(text, i, text.len), str_c(part)))
            return true;
    return false;
}

// Of a concatenation's parts a kernel takes those that the slice reaches, in the order of their
// use.
static void a_part_that_a_slice_leaves_out_is_no_argument(void **state) {
    (void)state;
    Case *c = begin(8);
    Val part[3];
    for (int i = 0; i < 3; i++)
        part[i] = input(c, shape(true, 1, DIM(16)));
    result(c, Exp(Slice(Concat(part, 3, 0), DIM(16), DIM(32), NULL)));
    fuse_case(c);
    const Region *r = &c->plan.region.at[0];
    assert_int_equal(c->plan.region.n, 1);
    assert_int_equal(r->in.n, 3);
    assert_int_equal(r->arg.n, 3);
    for (uint32_t i = 0; i < r->arg.n; i++)
        assert_int_not_equal(region_arg(r, i), part[0].id);
}

// The products are numbered after the one exponential and before the other.
static void the_order_of_a_graphs_nodes_makes_no_kernel(void **state) {
    (void)state;
    static const uint8_t io[] = {1, 2}, ni[] = {1}, no[] = {2};
    Case *c = begin(8);
    Val x = input(c, shape(true, 1, DIM(32))), w = input(c, shape(false, 2, DIM(32, 32)));
    Val a = input(c, shape(true, 1, DIM(32))), b = input(c, shape(true, 1, DIM(32)));
    Val first = Exp(a), y = Mul(first, Dot(w, io, x, ni, no, 1, true));
    Val product = Dot(w, io, y, ni, no, 1, true);
    result(c, Mul(product, Exp(b)));
    fuse_case(c);
    assert_int_equal(c->plan.kernel.n, 1);
}

// Halves of the rows have a loop each that tests nothing; of sixteen parts none is worth one.
static void large_parts_of_a_concatenation_have_loops_of_their_own(void **state) {
    (void)state;
    for (int many = 0; many < 2; many++) {
        Case *c = begin(8);
        Val part[16];
        for (uint32_t i = 0; i < (many ? 16 : 2); i++)
            part[i] = Sin(input(c, shape(true, 2, DIM(32, many ? 1 : 8))));
        result(c, Concat(part, many ? 16 : 2, 1));
        fuse_case_for(c, true);
        assert_int_equal(c->plan.kernel.n, 1);
        assert_int_equal(has_text(c->plan.kernel.at[0].source, "else if ("), !many);
        assert_int_equal(has_text(c->plan.kernel.at[0].source, "else {"), !many);
    }
}

// Each of many parts has a loop of its own, but what is computed of all of them is in the text
// once.
static void what_follows_many_parts_is_not_written_for_each(void **state) {
    (void)state;
    for (int follows = 0; follows < 2; follows++) {
        Case *c = begin(8);
        Val part[16];
        for (uint32_t i = 0; i < 16; i++)
            part[i] = Sin(input(c, shape(true, 2, DIM(32, 2))));
        Val y = Concat(part, 16, 1);
        for (int i = 0; i < 20 * follows; i++)
            y = Cos(Mul(y, Num(y, 1.25 + i)));
        result(c, y);
        fuse_case_for(c, true);
        assert_int_equal(has_text(c->plan.kernel.at[0].source, "int g"), follows);
    }
}

// Kernels are not contracted, so a value that is computed again is the same to the bit, and may be
// compared with what was picked from it.
static void a_cheap_value_compared_with_its_own_elements_is_computed_again(void **state) {
    (void)state;
    Case *c = begin(8);
    Val x = input(c, shape(true, 2, DIM(3, 40))), v = Add(x, Num(x, 1));
    result(c, Mul(Ge(v, MaxOf(v, 4)), x));
    fuse_case(c);
    assert_false(stored(c, v));
}

static void a_value_of_another_block_is_stored(void **state) {
    (void)state;
    Case *c = begin(8);
    Val x = input(c, shape(true, 1, DIM(64))), y = Add(x, Num(x, 1));
    c->m.step.blocks = 2;
    vec_push(&arena, &c->m.step.tape, ((Ctl){CtlRepeat, 3, 0}));
    vec_push(&arena, &c->m.step.tape, ((Ctl){CtlBlock, 1, 0}));
    vec_push(&arena, &c->m.step.tape, ((Ctl){CtlEnd, 0, 0}));
    c->at.block = 1;
    result(c, Mul(y, y));
    fuse_case(c);
    assert_true(stored(c, y));
}

static void a_reported_constant_is_no_input_of_kernels(void **state) {
    (void)state;
    Case *c = begin(8);
    Val x = input(c, shape(true, 1, DIM(64))), zero = Num(x, 0), y = Gt(x, zero);
    result(c, zero);
    result(c, y);
    fuse_case(c);
    const Region *r = &c->plan.region.at[c->plan.region_of[y.id]];
    assert_true(stored(c, zero));
    assert_false(has(r->in.at, r->in.n, zero.id));
}

// --- epilogues -----------------------------------------------------------------------------------

// clang-format off
#define F "f32 [B, 4, 4, 4] @0\n"
static const struct {
    const char *bias;  // type of %5
    const char *lines; // from %6 on, behind %1, the convolution; %3 is 0.2, %4 is 0
    uint32_t result;
    Act act;
    bool found, biased;
} epilogues[] = {
    {"[4]", "%7 = gt %6, %4 : " F "%8 = where %7, %6, %4 : " F, 8, ActRelu, true, false},
    {"[4]", "%7 = add %6, %5 : " F "%8 = gt %7, %4 : " F "%9 = where %8, %7, %4 : " F, 9, ActRelu, true, true},
    {"[4]", "%7 = mul %6, %3 : " F "%8 = gt %6, %4 : " F "%9 = where %8, %6, %7 : " F, 9, ActLeaky, true, false},
    {"[4]", "%7 = add %6, %5 : " F "%8 = tanh %7 : " F, 8, ActTanh, true, true},
    {"[4]", "%7 = add %5, %6 : " F, 7, ActNone, true, true},
    {"[4]", "%7 = gt %6, %4 : " F "%8 = where %7, %6, %3 : " F, 8, ActNone, false, false},
    {"[4]", "%7 = exp %6 : " F, 7, ActNone, false, false},
    {"[4, 4, 4]", "%7 = add %6, %5 : " F, 7, ActNone, false, false}, // no number a channel
    {"[1, 4]", "%7 = add %6, %5 : " F, 7, ActNone, false, false},    // a row
    {"[B, 4]", "%7 = add %6, %5 : " F, 7, ActNone, false, false},
    {"[4]", "%7 = tanh %6 : " F "%8 = mul %7, %7 : " F "result \"s\" %8 block 0\n", 7, ActNone, false, false},
    {"[4]", "%7 = tanh %6 : " F "result \"s\" %6 block 0\n", 7, ActNone, false, false},
    {"[4]", "%7 = dot %6, %5 {na=3 a=1 2 3 nb=1 b=1 no=2 o=2 3} : f32 [B, 4, 4] @0\nresult \"s\" %7 block 0\n"
     "%8 = tanh %6 : " F, 8, ActNone, false, false},                // of what another call reads
    {"[4]",
     "%7 = exp %5 : f32 [4] @0\nresult \"s\" %7 block 0\n%8 = add %6, %7 : " F, 8, ActNone, false, false}, // made later
    {"[4]", "%7 = tanh %6 : f32 [B, 4, 4, 4] @1\n", 7, ActNone, false, false}, // in a block that may not run
};
#undef F
// clang-format on

static void what_follows_a_convolution_is_an_epilogue_or_not(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof epilogues / sizeof *epilogues; i++) {
        Module m = {0};
        Plan p;
        Str error,
            text = str_format(
                &arena,
                "module \"m\" doc \"\" batch 4\n"
                "slot state \"x\" f32 [B, 3, 6, 6] net - site 0 stream 0 round 0\n"
                "slot param \"w\" f32 [4, 3, 3, 3] net - site 0 stream 0 round 0\n"
                "slot state \"b\" f32 %s net - site 0 stream 0 round 0\n"
                "func \"init\"\nblock 0\nfunc \"step\"\nblock 0\nevery 2\nblock 1\nend\n"
                "%%1 = read {slot=0 version=0} : f32 [B, 3, 6, 6] @0\n"
                "%%2 = read {slot=1 version=0} : f32 [4, 3, 3, 3] @0\n"
                "%%3 = const {bits=0.2} : f32 [] @0\n%%4 = const {bits=0} : f32 [] @0\n"
                "%%5 = read {slot=2 version=0} : f32 %s @0\n"
                "%%6 = conv %%1, %%2 {n=2 stride=1 1 before=0 0 after=0 0 dilation=1 1 groups=1}"
                " : f32 [B, 4, 4, 4] @0\n"
                "%sresult \"r\" %%%u block %u\n",
                epilogues[i].bias, epilogues[i].bias, epilogues[i].lines, epilogues[i].result,
                strstr(epilogues[i].lines, "@1") != NULL);
        if (!module_read(&arena, text, &m, &error))
            fail_msg("%.*s: %.*s", SARG(text), SARG(error));
        slots_place(&m, DtF32);
        plan_make(&arena, &m, &m.step, &(PassOptions){.real = DtF32}, &p);
        Epilogue e = plan_epilogues(&arena, &p)[p.region_of[6]];
        if ((e.region != NONE) != epilogues[i].found)
            fail_msg("%s: %s", epilogues[i].bias, epilogues[i].lines);
        if (!epilogues[i].found)
            continue;
        assert_int_equal(e.result, epilogues[i].result);
        assert_int_equal(e.act, epilogues[i].act);
        assert_int_equal(e.bias, epilogues[i].biased ? 5 : 0);
        assert_true(e.slope == (e.act == ActLeaky ? 0.2 : 0));
    }
}

// --- golden cases --------------------------------------------------------------------------------

static void compare(Str path, Str got) {
    if (file_exists(path))
        golden_compare(&arena, path, got);
}

static Plan golden_plan(Str path, Module *m, const Dialect *d) {
    Str text, error;
    Plan p;
    assert_int_equal(file_read(&arena, path, &text), GAN_OK);
    if (!module_read(&arena, text, m, &error))
        fail_msg("%.*s: %.*s", SARG(path), SARG(error));
    PassOptions o = {.real = DtF32, .few_launches = gen_few_launches(d)};
    passes_run(&arena, m, &m->step, &o, NULL);
    slots_place(m, DtF32);
    plan_make(&arena, m, &m->step, &o, &p);
    gen_kernels(&arena, &p, d);
    return p;
}

static void golden(Str path) {
    static const struct {
        const char *extension;
        const Dialect *dialect;
    } kernels[] = {{"c", &dialect_c}, {"cu", &dialect_cuda}};
    for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++) {
        Module m = {0};
        Plan p = golden_plan(path, &m, kernels[i].dialect);
        Text fused = {.arena = &arena}, text = {.arena = &arena};
        explain_fusion(&fused, &p);
        gen_print(&text, &p, kernels[i].dialect);
        compare(golden_beside(&arena, path, kernels[i].extension), text_str(&text));
        if (i == 0)
            compare(golden_beside(&arena, path, "fused"), text_str(&fused));
    }
}

static void golden_cases(void **state) {
    (void)state;
    assert_true(golden_each(&arena, "fuse", golden) > 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        TEST(a_batch_norm_stores_nothing_large_between),
        TEST(mean_and_variance_are_one_pass),
        TEST(both_sums_of_a_norms_gradient_are_one_loop),
        TEST(a_card_has_no_launch_for_a_norms_numbers),
        TEST(a_card_stores_a_deviation_in_place_of_its_sum),
        TEST(what_samples_share_is_laid_out_as_they_are),
        TEST(heads_are_matrices_in_place),
        TEST(adam_is_one_loop_per_weight),
        TEST(a_slot_written_from_itself_in_another_order_is_not_one_loop),
        TEST(a_slot_that_is_flipped_in_place_needs_a_copy),
        TEST(two_slots_that_are_swapped_need_a_copy),
        TEST(a_slot_that_the_executor_reads_is_copied_before_it_is_written),
        TEST(only_factors_and_divisors_leave_a_sum),
        TEST(elementwise_two_slots_are_swapped_in_one_loop),
        TEST(a_slot_that_either_branch_writes_needs_no_copy),
        TEST(an_operand_of_a_library_call_is_stored_once),
        TEST(elements_read_twice_count_once),
        TEST(costly_values_are_stored_and_cheap_ones_recomputed),
        TEST(a_card_filters_one_axis_after_the_other),
        TEST(a_border_is_recomputed),
        TEST(pooling_fuses_the_sum_it_reads),
        TEST(a_short_sum_is_arithmetic),
        TEST(a_short_sum_of_parts_reads_all_of_them),
        TEST(a_move_waits_for_operands_it_does_not_select),
        TEST(a_long_chain_of_pads_stores_intermediate_values),
        TEST(an_unrolled_recurrence_is_recomputed_up_to_a_length),
        TEST(a_running_sum_is_stored_every_few_steps),
        TEST(a_part_that_a_slice_leaves_out_is_no_argument),
        TEST(the_order_of_a_graphs_nodes_makes_no_kernel),
        TEST(large_parts_of_a_concatenation_have_loops_of_their_own),
        TEST(what_follows_many_parts_is_not_written_for_each),
        TEST(a_cheap_value_compared_with_its_own_elements_is_computed_again),
        TEST(a_value_of_another_block_is_stored),
        TEST(a_reported_constant_is_no_input_of_kernels),
        TEST(what_follows_a_convolution_is_an_epilogue_or_not),
        TEST(golden_cases),
    };
    if (CASES_LISTED(tests))
        return 0;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
