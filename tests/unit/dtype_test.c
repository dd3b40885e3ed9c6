// dtype_test.c - the precision pass: which values become bf16, which must not, and how far values
// change. The same small critic in every precision: convolution, tanh, product, mean, gradient.
#include "interp.h"
#include "plan.h"
#include "walks.h"

#include <math.h>

static uint32_t failures;

static void expect(bool ok, const char *what, double got, double want) {
    if (!ok && failures++ < 20)
        printf("FAIL %s: %.9g, should be %.9g\n", what, got, want);
}

static Module critic(Arena *a) {
    Module m = {.batch = 4};
    m.step.blocks = 1;
    graph_init(&m.step.g, a, m.batch);
    Builder at = {.g = &m.step.g};
    ConvGeom c = {.n = 2,
                  .stride = {2, 2},
                  .before = {1, 1},
                  .after = {1, 1},
                  .dilation = {1, 1},
                  .groups = 1};
    const Type types[] = {
        type_make(true, 3, (int64_t[]){3, 8, 8}), type_make(false, 4, (int64_t[]){16, 3, 4, 4}),
        type_make(false, 4, (int64_t[]){16, 16, 4, 4}), type_make(false, 3, (int64_t[]){16, 2, 2})};
    Val in[4];
    for (uint32_t i = 0; i < 4; i++) {
        vec_push(a, &m.slot, ((Slot){.kind = SlotParam, .net = NONE, .type = types[i]}));
        in[i] = Read(&at, i, 0, types[i]);
    }
    Val h = Conv(in[0], in[1], &c);
    h = Tanh(h);
    uint8_t label[] = {1, 2, 3};
    Val score = Dot(Conv(h, in[2], &c), label, in[3], label, NULL, 0, true);
    Val loss = Mul(Sum(score, 1), Num(score, 1.0 / 4));
    vec_push(a, &m.step.result, ((Named){STR("loss"), loss.id, 0}));
    for (uint32_t i = 1; i < 4; i++)
        vec_push(a, &m.step.result, ((Named){STR("gradient"), Grad(loss, in[i]).id, 0}));
    pass_grad(a, &m, &m.step, &(PassOptions){0});
    return m;
}

static Interp run(Arena *a, const Graph *g, bool f64) {
    Interp t = interp_make(a, g);
    t.f64 = f64;
    for (uint32_t id = 1; id < g->node.n; id++) {
        if (graph_node(g, id)->op == OpRead)
            for (int64_t i = 0; i < interp_count(&t, id); i++)
                interp_put(&t, id, i, test_number((uint64_t)(node_attr(g, id)->i[0] * 4099 + i)));
    }
    interp_run(&t);
    return t;
}

static Dtype dtype_of(const Graph *g, uint32_t id) {
    return (Dtype)node_type(g, id)->dtype;
}

// Products of the convolutions are narrow in and, where they are per sample, out; sums over the
// batch, the small product of the score, and everything else are not.
static void check_policy(const Module *m, Dtype half) {
    const Graph *g = &m->step.g;
    uint32_t narrow = 0;
    for (uint32_t id = 1; id < g->node.n; id++) {
        const Node *n = graph_node(g, id);
        bool conv = n->op == OpConv || n->op == OpConvDx || n->op == OpConvDw;
        bool moves = n->op == OpCast || op_info[n->op].cls == ClassMOVE;
        Dtype want = conv && n->op != OpConvDw ? half : DtF32;
        narrow += conv;
        expect(moves || dtype_of(g, id) == want, op_info[n->op].text, dtype_of(g, id), want);
        for (uint32_t k = 0; k < n->nin && conv; k++) {
            Dtype in = dtype_of(g, node_in(g, id, k));
            expect(in == half, "operand of a convolution", in, half);
        }
    }
    expect(narrow == 5, "convolutions", narrow, 5); // two forward, one back, two to weights
    for (uint32_t i = 0; i < m->slot.n; i++)
        expect(m->slot.at[i].type.dtype == DtF32, "slot", m->slot.at[i].type.dtype, DtF32);
    // A value that a product reads is stored once, in halves, for whoever reads it.
    for (uint32_t id = 1; id < g->node.n; id++)
        for (uint32_t k = 0; k < graph_node(g, id)->nin; k++)
            if (graph_node(g, node_in(g, id, k))->op == OpTanh)
                expect(graph_node(g, id)->op == OpCast && dtype_of(g, id) == half, "kept value",
                       dtype_of(g, id), half);
}

static void check_precision(Arena *a, Dtype real, double tolerance) {
    Module plain = critic(a), m = critic(a);
    Str error = {0};
    slots_place(&m, real);
    pass_dtype(a, &m, &m.step, &(PassOptions){.real = real});
    m.init.blocks = 1;
    graph_init(&m.init.g, a, m.batch);
    if (!module_verify(&m, a, &error))
        expect(false, error.ptr, 0, 1);
    if (dtype_is_half(real))
        check_policy(&m, real);
    Interp want = run(a, &plain.step.g, true), got = run(a, &m.step.g, real == DtF64);
    for (uint32_t r = 0; r < m.step.result.n; r++) {
        uint32_t from = plain.step.result.at[r].node, to = m.step.result.at[r].node;
        double error_sum = 0, norm = 0;
        for (int64_t i = 0; i < interp_count(&want, from); i++) {
            error_sum += pow(interp_at(&got, to, i) - interp_at(&want, from, i), 2);
            norm += pow(interp_at(&want, from, i), 2);
        }
        double relative = sqrt(error_sum / norm);
        expect(relative <= tolerance, dtype_name[real], relative, tolerance);
        expect(!dtype_is_half(real) || relative > 1e-5, "nothing was rounded", relative, 1e-3);
    }
}

static void f64(Arena *a) {
    check_precision(a, DtF64, 1e-14);
}

static void f32(Arena *a) {
    check_precision(a, DtF32, 1e-5);
}

static void bf16(Arena *a) {
    check_precision(a, DtBF16, 3e-2);
}

static void f16(Arena *a) {
    check_precision(a, DtF16, 4e-3);
}

// Where no library multiplies f16: products of f32, but the same roundings.
static void f16_in_f32(Arena *a) {
    Module narrow = critic(a), wide = critic(a);
    pass_dtype(a, &narrow, &narrow.step, &(PassOptions){.real = DtF16});
    pass_dtype(a, &wide, &wide.step, &(PassOptions){.real = DtF16, .wide_f16 = true});
    for (uint32_t id = 1; id < wide.step.g.node.n; id++)
        expect(op_info[graph_node(&wide.step.g, id)->op].cls != ClassANCHOR ||
                   dtype_of(&wide.step.g, id) == DtF32,
               "a product is not of f32", dtype_of(&wide.step.g, id), DtF32);
    Interp want = run(a, &narrow.step.g, false), got = run(a, &wide.step.g, false);
    for (uint32_t r = 0; r < wide.step.result.n; r++) {
        uint32_t to = wide.step.result.at[r].node, from = narrow.step.result.at[r].node;
        for (int64_t i = 0; i < interp_count(&got, to); i++)
            expect(interp_at(&got, to, i) == interp_at(&want, from, i), "f16 in f32",
                   interp_at(&got, to, i), interp_at(&want, from, i));
    }
}

// A product reads what indices are computed from; rows and elements are the right ones
// nevertheless.
static void indices(Arena *a) {
    enum { Many = 192, Rows = 4096, Lines = 3, Length = 1024 };
    Module m = {.batch = 4};
    m.step.blocks = 1;
    Graph *g = &m.step.g;
    graph_init(g, a, m.batch);
    Builder b = {.g = g};
    ConvGeom c = {.n = 2, .stride = {1, 1}, .dilation = {1, 1}, .groups = 1};
    Type x = type_make(true, 3, (int64_t[]){3, 8, 8}),
         w = type_make(false, 4, (int64_t[]){8, 3, 4, 4});
    Val at = Read(&b, 0, 0, x);
    at = Floor(Mul(Add(at, Num(at, 1)), Num(at, Rows / 2 - 1)));
    Val line = Reshape(at, 1, (int64_t[]){Many});
    Val table = Iota(&b, 2, type_make(false, 1, (int64_t[]){Rows}));
    Val rows = Gather(table, Add(line, Num(line, 1)));
    vec_push(a, &m.step.result, ((Named){STR("rows"), rows.id, 0}));
    vec_push(a, &m.step.result, ((Named){STR("maps"), Conv(at, Read(&b, 1, 0, w), &c).id, 0}));
    Type tall = type_make(true, 3, (int64_t[]){Lines, 32, 32}),
         lines = type_make(true, 2, (int64_t[]){Lines, Length});
    Val by = Read(&b, 2, 0, tall), shuffled = Read(&b, 3, 0, lines);
    by = Floor(Mul(Add(by, Num(by, 1)), Num(by, Length / 2 - 1)));
    Val arranged = Arrange(shuffled, Reshape(by, 2, lines.dim), false);
    vec_push(a, &m.step.result, ((Named){STR("arranged"), arranged.id, 0}));
    vec_push(a, &m.step.result, ((Named){STR("maps"), Conv(by, Read(&b, 4, 0, w), &c).id, 0}));
    Val to = Read(&b, 5, 0, tall); // indices that are moved by others first
    to = Floor(Mul(Add(to, Num(to, 1)), Num(to, Length / 2 - 1)));
    Val moved = Arrange(Reshape(to, 2, lines.dim), Reshape(by, 2, lines.dim), false);
    Val again = Arrange(shuffled, moved, false);
    vec_push(a, &m.step.result, ((Named){STR("again"), again.id, 0}));
    vec_push(a, &m.step.result, ((Named){STR("maps"), Conv(to, Read(&b, 4, 0, w), &c).id, 0}));
    Interp want = run(a, g, true);
    const uint32_t meant[] = {rows.id, 0, arranged.id, 0, again.id};
    pass_dtype(a, &m, &m.step, &(PassOptions){.real = DtBF16});
    Interp got = run(a, &m.step.g, false);
    for (uint32_t r = 0; r < 5; r += 2) {
        uint32_t node = m.step.result.at[r].node;
        for (int64_t i = 0; i < interp_count(&want, meant[r]); i++)
            expect((float)interp_at(&got, node, i) == (float)interp_at(&want, meant[r], i),
                   r ? "element" : "row", interp_at(&got, node, i), interp_at(&want, meant[r], i));
    }
}

int main(int argc, char **argv) {
    static const Walk walks[] = {
        WALK(f64), WALK(f32), WALK(bf16), WALK(f16), WALK(f16_in_f32), WALK(indices),
    };
    bool found = WALKS_RUN(walks);
    return !found || failures;
}
