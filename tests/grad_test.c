// grad_test.c - the gradient pass as a whole: high orders, penalties, what is not differentiated,
// blocks, broadcasting. Single operations are ops_test.c's.
#include "interp.h"
#include "pass.h"
#include "walks.h"

#include <math.h>

static uint32_t failures;

static void expect(bool ok, const char *what, double got, double want) {
    if (!ok && failures++ < 20)
        printf("FAIL %s: %.12g, should be %.12g\n", what, got, want);
}

static bool near(double got, double want, double tolerance) {
    return fabs(got - want) <= tolerance * fmax(1, fabs(want));
}

static Func func_new(Arena *a, int64_t batch) {
    Func f = {.name = STR("test"), .blocks = 1};
    graph_init(&f.g, a, batch);
    return f;
}

static void result(Arena *a, Func *f, const char *name, Val v) {
    vec_push(a, &f->result, ((Named){str_c(name), v.id, v.b->block}));
}

static uint32_t node_of(const Func *f, const char *name) {
    for (uint32_t i = 0; i < f->result.n; i++)
        if (str_eq(f->result.at[i].name, str_c(name)))
            return f->result.at[i].node;
    return 0;
}

static uint32_t count_ops(const Func *f, Op op) {
    uint32_t n = 0;
    for (uint32_t id = 1; id < f->g.node.n; id++)
        n += graph_node(&f->g, id)->op == op;
    return n;
}

// Values of all nodes where the Read of slot k holds x[k].
static Interp run(Arena *a, const Func *f, double *const *x) {
    Interp t = interp_make(a, &f->g);
    for (uint32_t id = 1; id < f->g.node.n; id++) {
        if (graph_node(&f->g, id)->op == OpRead) {
            const double *from = x[node_attr(&f->g, id)->i[0]];
            double *to = interp_set(&t, id);
            for (int64_t i = 0; i < interp_count(&t, id); i++)
                to[i] = from[i];
        }
    }
    interp_run(&t);
    return t;
}

static double *numbers(Arena *a, int64_t n, uint64_t seed) {
    double *x = arena_array(a, double, n);
    for (int64_t i = 0; i < n; i++)
        x[i] = test_number(seed * 1000 + (uint64_t)i);
    return x;
}

// "d" against central differences of the sum of "y", over every element of slot k.
static void against_differences(Arena *a, const Func *f, double **x, uint32_t k, const char *y,
                                const char *d) {
    const double h = 1e-5;
    Interp t = run(a, f, x);
    for (int64_t i = 0; i < interp_count(&t, node_of(f, d)); i++) {
        Arena mark = *a;
        double at = x[k][i], value[2] = {0};
        for (uint32_t side = 0; side < 2; side++) {
            x[k][i] = at + (side ? h : -h);
            Interp s = run(a, f, x);
            for (int64_t j = 0; j < interp_count(&s, node_of(f, y)); j++)
                value[side] += interp_at(&s, node_of(f, y), j);
        }
        x[k][i] = at;
        *a = mark;
        double want = (value[1] - value[0]) / (2 * h), got = interp_at(&t, node_of(f, d), i);
        expect(near(got, want, 1e-6), d, got, want);
    }
}

// --- the cases -----------------------------------------------------------------------------------

static void third_order_of_exp_x_squared(Arena *a) {
    Func f = func_new(a, 4);
    Builder at = {.g = &f.g};
    Val x = Read(&at, 0, 0, type_make(true, 0, NULL)), y = Exp(Mul(x, x));
    Val d1 = Grad(y, x), d2 = Grad(d1, x), d3 = Grad(d2, x);
    result(a, &f, "d1", d1);
    result(a, &f, "d2", d2);
    result(a, &f, "d3", d3);
    pass_grad(a, NULL, &f, NULL);
    expect(count_ops(&f, OpGrad) == 0, "grads left", count_ops(&f, OpGrad), 0);
    double *in[1] = {numbers(a, 4, 1)};
    Interp t = run(a, &f, in);
    for (int64_t i = 0; i < 4; i++) {
        double v = in[0][i], e = exp(v * v);
        expect(near(interp_at(&t, node_of(&f, "d1"), i), 2 * v * e, 1e-12), "d1",
               interp_at(&t, node_of(&f, "d1"), i), 2 * v * e);
        expect(near(interp_at(&t, node_of(&f, "d2"), i), (2 + 4 * v * v) * e, 1e-12), "d2",
               interp_at(&t, node_of(&f, "d2"), i), (2 + 4 * v * v) * e);
        expect(near(interp_at(&t, node_of(&f, "d3"), i), (12 * v + 8 * v * v * v) * e, 1e-12), "d3",
               interp_at(&t, node_of(&f, "d3"), i), (12 * v + 8 * v * v * v) * e);
    }
}

static Val leaky(Val x) {
    return Where(Gt(x, Num(x, 0)), x, Mul(x, Num(x, 0.2)));
}

// WGAN-GP's critic in small: penalty = mean over samples of (|d score / d x| - 1)^2, differentiated
// to the weights.
static void penalty_through_convolution(Arena *a) {
    enum { Batch = 3 };
    Func f = func_new(a, Batch);
    Builder at = {.g = &f.g};
    ConvGeom c = {.n = 2,
                  .stride = {2, 2},
                  .before = {1, 1},
                  .after = {1, 1},
                  .dilation = {1, 1},
                  .groups = 1};
    Val x = Pin(Read(&at, 0, 0, type_make(true, 3, (int64_t[]){2, 4, 4})));
    Val w1 = Read(&at, 1, 0, type_make(false, 4, (int64_t[]){3, 2, 4, 4}));
    Val w2 = Read(&at, 2, 0, type_make(false, 4, (int64_t[]){1, 3, 2, 2}));
    Val b = Read(&at, 3, 0, type_make(false, 1, (int64_t[]){3}));
    ConvGeom last = {.n = 2, .stride = {1, 1}, .dilation = {1, 1}, .groups = 1};
    Val score = Conv(leaky(Add(Conv(x, w1, &c), b)), w2, &last);
    Val g = Grad(score, x);
    Val norm = Sqrt(Sum(Mul(g, g), 2 | 4 | 8)), off = Sub(norm, Num(norm, 1));
    Val penalty = Mul(Sum(Mul(off, off), 1), Num(norm, 1.0 / Batch));
    result(a, &f, "g", g);
    result(a, &f, "score", score);
    result(a, &f, "penalty", penalty);
    result(a, &f, "penalty to w1", Grad(penalty, w1));
    result(a, &f, "penalty to w2", Grad(penalty, w2));
    result(a, &f, "penalty to b", Grad(penalty, b));
    pass_grad(a, NULL, &f, NULL);
    pass_drop_identities(a, NULL, &f, &(PassOptions){0});
    double *in[] = {numbers(a, Batch * 32, 1), numbers(a, 96, 2), numbers(a, 12, 3),
                    numbers(a, 3, 4)};
    against_differences(a, &f, in, 0, "score", "g");
    against_differences(a, &f, in, 1, "penalty", "penalty to w1");
    against_differences(a, &f, in, 2, "penalty", "penalty to w2");
    against_differences(a, &f, in, 3, "penalty", "penalty to b");
    // One gradient a weight: the inner gradient, to x alone, has none of its own. The bias moves no
    // derivative.
    expect(count_ops(&f, OpConvDw) == 2, "weight gradients", count_ops(&f, OpConvDw), 2);
}

static void a_gradient_without_a_path_is_zero(Arena *a) {
    Func f = func_new(a, 2);
    Builder at = {.g = &f.g};
    Type t = type_make(false, 1, (int64_t[]){3});
    Val x = Read(&at, 0, 0, t), y = Read(&at, 1, 0, t), two = Num(x, 2);
    result(a, &f, "stop", Grad(Mul(Stop(Mul(x, x)), y), x));
    result(a, &f, "other", Grad(Mul(y, y), x));
    result(a, &f, "step", Grad(Floor(Mul(x, two)), x));
    result(a, &f, "later", Grad(Mul(x, two), Read(&at, 2, 0, t)));
    pass_grad(a, NULL, &f, NULL);
    double *in[] = {numbers(a, 3, 1), numbers(a, 3, 2), numbers(a, 3, 3)};
    Interp r = run(a, &f, in);
    for (uint32_t i = 0; i < f.result.n; i++) {
        expect(interp_count(&r, f.result.at[i].node) == 3, "elements of a zero gradient", 0, 3);
        for (int64_t k = 0; k < 3; k++) {
            expect(interp_at(&r, f.result.at[i].node, k) == 0, f.result.at[i].name.ptr,
                   interp_at(&r, f.result.at[i].node, k), 0);
        }
    }
}

// A pin is a distinct value: the gradient with respect to it excludes equal computations elsewhere.
static void pins_are_distinct_values(Arena *a) {
    Func f = func_new(a, 2);
    Builder at = {.g = &f.g};
    Val x = Read(&at, 0, 0, type_make(false, 0, NULL)), p = Pin(x), q = Pin(x);
    Val y = Add(Mul(p, p), Mul(Num(x, 5), q));
    result(a, &f, "p", Grad(y, p));
    result(a, &f, "q", Grad(y, q));
    result(a, &f, "x", Grad(y, x));
    pass_grad(a, NULL, &f, NULL);
    pass_drop_identities(a, NULL, &f, &(PassOptions){0});
    double v = 3, *in[] = {&v};
    Interp r = run(a, &f, in);
    expect(interp_at(&r, node_of(&f, "p"), 0) == 6, "p", interp_at(&r, node_of(&f, "p"), 0), 6);
    expect(interp_at(&r, node_of(&f, "q"), 0) == 5, "q", interp_at(&r, node_of(&f, "q"), 0), 5);
    expect(interp_at(&r, node_of(&f, "x"), 0) == 11, "x", interp_at(&r, node_of(&f, "x"), 0), 11);
    expect(count_ops(&f, OpPin) == 0, "pins left", count_ops(&f, OpPin), 0);
}

// y is in a later block than x: the gradient belongs to the block that requests it.
// The operand that is not selected gets zero gradient, even from an infinite one.
static void clamped_roots_have_no_nan(Arena *a) {
    Func f = func_new(a, 4);
    Builder at = {.g = &f.g};
    Type each = type_make(true, 0, NULL), row = type_make(true, 1, (int64_t[]){2});
    Val x = Read(&at, 0, 0, each), y = Read(&at, 1, 0, row), zero = Num(x, 0);
    result(a, &f, "max", Grad(Sqrt(Max(x, zero)), x));
    result(a, &f, "min", Grad(Sqrt(Neg(Min(Neg(x), zero))), x));
    result(a, &f, "max_of", Grad(Sqrt(MaxOf(y, 2)), y));
    pass_grad(a, NULL, &f, NULL);
    double *in[2] = {(double[]){-2, -0.5, 1, 4}, (double[]){-1, 0, 0, -2, 4, 1, 1, 4}};
    const double root[] = {0, 0, 0.5, 0.25}, of[] = {0, INFINITY, INFINITY, 0, 0.25, 0, 0, 0.25};
    Interp t = run(a, &f, in);
    for (int64_t i = 0; i < 4; i++) {
        double max = interp_at(&t, node_of(&f, "max"), i),
               min = interp_at(&t, node_of(&f, "min"), i);
        expect(max == root[i], "sqrt(max(x, 0))", max, root[i]);
        expect(min == root[i], "sqrt(-min(-x, 0))", min, root[i]);
    }
    for (int64_t i = 0; i < 8; i++) {
        double got = interp_at(&t, node_of(&f, "max_of"), i);
        expect(got == of[i], "sqrt of the greatest", got, of[i]);
    }
}

// At a = 0 and b = 0, where its formulas are 0 times infinity.
static void powers_of_zero_have_gradients(Arena *a) {
    Func f = func_new(a, 3);
    Builder at = {.g = &f.g};
    Type each = type_make(true, 0, NULL);
    Val x = Read(&at, 0, 0, each), p = Read(&at, 1, 0, each), y = Pow(x, p);
    result(a, &f, "base", Grad(y, x));
    result(a, &f, "power", Grad(y, p));
    pass_grad(a, NULL, &f, NULL);
    double *in[2] = {(double[]){0, 0, 2}, (double[]){0, 2, 0}};
    const double base[] = {0, 0, 0}, power[] = {0, 0, log(2)};
    Interp t = run(a, &f, in);
    for (int64_t i = 0; i < 3; i++) {
        double b = interp_at(&t, node_of(&f, "base"), i),
               e = interp_at(&t, node_of(&f, "power"), i);
        expect(b == base[i], "d x^p / dx", b, base[i]);
        expect(near(e, power[i], 1e-15), "d x^p / dp", e, power[i]);
    }
}

static void gradients_cross_blocks(Arena *a) {
    Func f = func_new(a, 2);
    Builder at = {.g = &f.g};
    f.blocks = 3;
    const Ctl tape[] = {
        {CtlBlock, 0, 0}, {CtlRepeat, 5, 0}, {CtlBlock, 1, 0}, {CtlEnd, 0, 0}, {CtlBlock, 2, 0}};
    for (uint32_t i = 0; i < sizeof tape / sizeof *tape; i++)
        vec_push(a, &f.tape, tape[i]);
    Val x = Read(&at, 0, 0, type_make(true, 1, (int64_t[]){3})), h = Tanh(x);
    at.block = 2;
    Val y = Sum(Mul(h, h), 1 | 2);
    result(a, &f, "y", y);
    result(a, &f, "d", Grad(y, x));
    pass_grad(a, NULL, &f, NULL);
    uint32_t d = node_of(&f, "d");
    expect(graph_node(&f.g, d)->block == 2, "block of the gradient", graph_node(&f.g, d)->block, 2);
    double *in[] = {numbers(a, 6, 1)};
    against_differences(a, &f, in, 0, "y", "d");
}

// Gradients of one y share a backward pass: each forward product has one gradient to each operand,
// however many are requested.
static void gradients_of_one_loss_share_one_sweep(Arena *a) {
    Func f = func_new(a, 2);
    Builder at = {.g = &f.g};
    uint8_t i[] = {1}, ij[] = {1, 2}, j[] = {2};
    Val x = Read(&at, 0, 0, type_make(true, 1, (int64_t[]){3})), h = x;
    Val w[3];
    for (uint32_t k = 0; k < 3; k++) {
        w[k] = Read(&at, 1 + k, 0, type_make(false, 2, (int64_t[]){3, 3}));
        h = Tanh(Dot(h, i, w[k], ij, j, 1, true));
    }
    Val y = Sum(h, 1 | 2);
    result(a, &f, "y", y);
    for (uint32_t k = 0; k < 3; k++)
        result(a, &f, k == 0 ? "w0" : k == 1 ? "w1" : "w2", Grad(y, w[k]));
    pass_grad(a, NULL, &f, NULL);
    pass_drop_identities(a, NULL, &f, &(PassOptions){0});
    expect(count_ops(&f, OpDot) == 3 + 3 + 2, "products", count_ops(&f, OpDot),
           8); // forward, to weights, to h1 and h2
    double *in[] = {numbers(a, 6, 1), numbers(a, 9, 2), numbers(a, 9, 3), numbers(a, 9, 4)};
    against_differences(a, &f, in, 1, "y", "w0");
    against_differences(a, &f, in, 3, "y", "w2");
}

// A forward line keeps its name on the gradient's nodes.
static void gradients_keep_source_spans(Arena *a) {
    Func f = func_new(a, 2);
    Builder at = {.g = &f.g};
    Val x = Read(&at, 0, 0, type_make(false, 0, NULL));
    at.span = (Span){1, 10, 20};
    Val y = Tanh(x);
    at.span = (Span){1, 30, 40};
    result(a, &f, "d", Grad(y, x));
    pass_grad(a, NULL, &f, NULL);
    uint32_t d = node_of(&f, "d"), first = graph_node(&f.g, d)->span;
    expect(f.g.span.at[first].span.lo == 10, "first span of the gradient",
           f.g.span.at[first].span.lo, 10);
}

// Bytes the pass takes for gradients of so many losses, each of a weight of its own.
static size_t bytes_for(Arena a, uint32_t losses) {
    Func f = func_new(&a, 2);
    Builder at = {.g = &f.g};
    for (uint32_t k = 0; k < losses; k++) {
        Val x = Read(&at, k, 0, type_make(false, 0, NULL));
        result(&a, &f, "d", Grad(Tanh(x), x));
    }
    const char *before = a.beg;
    pass_grad(&a, NULL, &f, NULL);
    return (size_t)(a.beg - before);
}

// Eight times as many take ten times as much: vectors double.
static void many_losses_take_linear_memory(Arena *a) {
    size_t few = bytes_for(*a, 256), many = bytes_for(*a, 2048);
    expect(many <= 16 * few, "bytes for eight times as many losses", (double)many, (double)few * 8);
}

int main(int argc, char **argv) {
    static const Walk walks[] = {
        WALK(third_order_of_exp_x_squared),
        WALK(penalty_through_convolution),
        WALK(a_gradient_without_a_path_is_zero),
        WALK(pins_are_distinct_values),
        WALK(clamped_roots_have_no_nan),
        WALK(powers_of_zero_have_gradients),
        WALK(gradients_cross_blocks),
        WALK(gradients_of_one_loss_share_one_sweep),
        WALK(gradients_keep_source_spans),
        WALK(many_losses_take_linear_memory),
    };
    bool found = WALKS_RUN(walks);
    return !found || failures;
}
