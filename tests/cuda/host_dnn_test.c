// host_dnn_test.c - the descriptors the cuda device gives to cuDNN are correct: each operation,
// computed by definition over the bytes its tensors' strides reach, equals the reference
// evaluator's value of the node, or with an epilogue of the region.
#include "cuda_dnn.h"
#include "programs.h"
#include "trial.h"

#include <setjmp.h>
#include <cmocka.h>
#include "cases.h"
#include <math.h>
#include <string.h>

// --- operations by definition --------------------------------------------------------------------

static int64_t at_product(const CudnnTensor *t, int64_t b, int64_t i, int64_t j) {
    return (t->dim[0] > 1 ? b : 0) * t->stride[0] + i * t->stride[1] + j * t->stride[2];
}

static void run_product(const CudnnOperation *o, float *const x[3]) {
    const CudnnTensor *a = &o->tensor[0], *b = &o->tensor[1], *c = &o->tensor[2];
    for (int64_t n = 0; n < c->dim[0]; n++)
        for (int64_t i = 0; i < c->dim[1]; i++)
            for (int64_t j = 0; j < c->dim[2]; j++) {
                double sum = 0;
                for (int64_t k = 0; k < a->dim[2]; k++)
                    sum += (double)x[0][at_product(a, n, i, k)] * x[1][at_product(b, n, k, j)];
                x[2][at_product(c, n, i, j)] = (float)sum;
            }
}

// Advances a multi-index over the extents of `dim`, innermost last. False at the end.
static bool count_on(int64_t *index, const int64_t *dim, int n) {
    while (n-- > 0) {
        if (++index[n] < dim[n])
            return true;
        index[n] = 0;
    }
    return false;
}

// x[n, g*I+i, p] w[g*O+o, i, k] y[n, g*O+o, q] wherever p = q stride - before + k dilation: adds
// two of them into the third.
static void run_convolution(const CudnnOperation *o, float *const at[3]) {
    const CudnnTensor *x = &o->tensor[0], *w = &o->tensor[1], *y = &o->tensor[2];
    int result = cudnn_output_index(o->kind), s = o->space;
    int64_t group = w->dim[0] / (x->dim[1] / w->dim[1]); // output channels of a group
    int64_t dim[3 + 2 * CUDNN_SPACE] = {y->dim[0], w->dim[0], w->dim[1]}, i[3 + 2 * CUDNN_SPACE];
    memset(i, 0, sizeof i);
    memcpy(dim + 3, y->dim + 2, (size_t)s * sizeof *dim);
    memcpy(dim + 3 + s, w->dim + 2, (size_t)s * sizeof *dim);
    do {
        int64_t channel = i[1] / group * w->dim[1] + i[2];
        int64_t ax = i[0] * x->stride[0] + channel * x->stride[1];
        int64_t aw = i[1] * w->stride[0] + i[2] * w->stride[1];
        int64_t ay = i[0] * y->stride[0] + i[1] * y->stride[1];
        bool inside = true;
        for (int k = 0; k < s; k++) {
            int64_t p = i[3 + k] * o->stride[k] - o->before[k] + i[3 + s + k] * o->dilation[k];
            inside = inside && p >= 0 && p < x->dim[2 + k];
            ax += p * x->stride[2 + k];
            aw += i[3 + s + k] * w->stride[2 + k];
            ay += i[3 + k] * y->stride[2 + k];
        }
        if (inside && result == 0)
            at[0][ax] += at[1][aw] * at[2][ay];
        else if (inside && result == 1)
            at[1][aw] += at[0][ax] * at[2][ay];
        else if (inside)
            at[2][ay] += at[0][ax] * at[1][aw];
    } while (count_on(i, dim, 3 + 2 * s));
}

static float act(const CudnnEpilogue *e, float x) {
    switch ((Act)e->act) {
    case ActNone:
        return x;
    case ActRelu:
        return x > 0 ? x : 0;
    case ActLeaky:
        return x > 0 ? x : e->slope * x;
    case ActTanh:
        return tanhf(x);
    }
    return NAN;
}

static void run_epilogue(const CudnnOperation *o, float *y, const float *bias) {
    const CudnnTensor *t = cudnn_output(o);
    int64_t i[CUDNN_AXES] = {0};
    do {
        int64_t at = 0;
        for (int k = 0; k < t->n; k++)
            at += i[k] * t->stride[k];
        y[at] = act(&o->epilogue, y[at] + (o->epilogue.biased ? bias[i[1]] : 0));
    } while (count_on(i, t->dim, t->n));
}

// --- nodes ---------------------------------------------------------------------------------------

typedef struct Values {
    Arena *a;
    const Graph *g;
    const double *in[2]; // of the node's operands, in logical order
    const double *want;  // of the node
} Values;

static double *numbers(Arena *a, const Graph *g, uint32_t node) {
    int64_t n = type_elements(g, node_type(g, node));
    double *x = arena_array(a, double, n);
    for (int64_t i = 0; i < n; i++) {
        uint64_t key[2] = {node, (uint64_t)i};
        x[i] = (double)(hash64(key, sizeof key, 3) >> 40) * 0x1p-23 - 1;
    }
    return x;
}

static Values values_of(Arena *a, const Graph *g, uint32_t id) {
    Values v = {.a = a, .g = g};
    const void *in[2];
    double *out = arena_array(a, double, type_elements(g, node_type(g, id)));
    for (uint32_t k = 0; k < 2; k++)
        in[k] = v.in[k] = numbers(a, g, node_in(g, id, k));
    eval_node(g, id, in, out, true, &(Counters){0}, *a);
    v.want = out;
    return v;
}

// A node's memory in the device's layout: operands filled, the result zero.
static float *memory_of(const Values *v, uint32_t id, uint32_t node) {
    const Type *t = node_type(v->g, node);
    int64_t n = type_elements(v->g, t);
    float *logical = arena_array(v->a, float, n), *x = arena_array(v->a, float, n);
    for (int64_t i = 0; i < n && node != id; i++)
        logical[i] = (float)(node == node_in(v->g, id, 0) ? v->in[0] : v->in[1])[i];
    value_store(v->g, t, logical, x);
    return x;
}

static void check_operation(const Values *v, uint32_t id, const CudnnOperation *o,
                            const uint32_t node[3], const char *what) {
    const Type *t = node_type(v->g, id);
    int64_t n = type_elements(v->g, t);
    float *at[3], *got = arena_array(v->a, float, n);
    double error = 0, norm = 1;
    for (int i = 0; i < 3; i++)
        at[i] = memory_of(v, id, node[i]);
    assert_int_equal(node[cudnn_output_index(o->kind)], id);
    if (o->kind == CudnnMatmul)
        run_product(o, at);
    else
        run_convolution(o, at);
    value_load(v->g, t, at[cudnn_output_index(o->kind)], got);
    for (int64_t i = 0; i < n; i++) {
        error += (got[i] - v->want[i]) * (got[i] - v->want[i]);
        norm += v->want[i] * v->want[i];
    }
    if (!(sqrt(error / norm) < 1e-5))
        fail_msg("node %u, %s: relative error %g", id, what, sqrt(error / norm));
}

typedef struct Seen {
    uint32_t conv[3], products, as_conv[3];
} Seen;

static void check_node(Arena a, const Graph *g, uint32_t id, Seen *seen) {
    CudnnOperation o, conv;
    uint32_t node[3];
    Values v = values_of(&a, g, id);
    if (graph_node(g, id)->op != OpDot) {
        assert_true(cudnn_read_conv(g, id, &o, node));
        check_operation(&v, id, &o, node, "a convolution");
        seen->conv[o.kind]++;
        return;
    }
    if (!cudnn_read_dot(g, id, &o, node))
        return;
    check_operation(&v, id, &o, node, "a product");
    seen->products++;
    if (!cudnn_dot_as_conv(&o, &conv, node))
        return;
    check_operation(&v, id, &conv, node, "a product as a convolution");
    seen->as_conv[conv.kind]++;
}

static void cudnn_operations_equal_their_nodes(void **state) {
    (void)state;
    Arena a;
    Seen seen = {0};
    assert_int_equal(arena_init(&a, 0), GAN_OK);
    for (uint64_t seed = 0; seed < 60; seed++) {
        Arena scratch = a;
        Module m;
        program_random(&scratch, seed, &m);
        const Graph *g = &m.step.g;
        for (uint32_t id = 1; id < g->node.n; id++)
            if (node_family(g, id) == FamilyProduct)
                check_node(scratch, g, id, &seen);
    }
    for (int i = 0; i < 3; i++)
        assert_true(seen.conv[i] > 5);
    assert_true(seen.products > 20 && seen.as_conv[CudnnForward] > 5);
    arena_release(&a);
}

// --- products of every shape ---------------------------------------------------------------------

static Val leaf(Builder *b, bool batched, uint32_t rank, const int64_t *dim) {
    return Read(b, b->g->node.n, 0, type_make(batched, rank, dim));
}

// a [4, 5], b with the inner axis first or last, the result either way round, of batches
// or shared.
static Seen check_orders(Arena a, bool batch_a, bool batch_b) {
    Graph g;
    Seen seen = {0};
    graph_init(&g, &a, 3);
    Builder b = {.g = &g};
    const uint8_t ik[] = {1, 2}, ki[] = {2, 1}, kj[] = {2, 3}, jk[] = {3, 2}, ij[] = {1, 3},
                  ji[] = {3, 1};
    const int64_t d45[] = {4, 5}, d54[] = {5, 4}, d56[] = {5, 6}, d65[] = {6, 5};
    for (int way = 0; way < 8; way++) {
        Val x = leaf(&b, batch_a, 2, way & 1 ? d54 : d45);
        Val y = leaf(&b, batch_b, 2, way & 2 ? d65 : d56);
        Val z = Dot(x, way & 1 ? ki : ik, y, way & 2 ? jk : kj, way & 4 ? ji : ij, 2,
                    batch_a || batch_b);
        check_node(a, &g, z.id, &seen);
    }
    assert_int_equal(seen.products, 8);
    return seen;
}

static void products_of_every_order_are_read(void **state) {
    (void)state;
    Arena a;
    assert_int_equal(arena_init(&a, 0), GAN_OK);
    Seen one = check_orders(a, false, false);
    for (int i = 0; i < 3; i++)
        assert_true(one.as_conv[i] > 0);
    check_orders(a, true, true);
    check_orders(a, false, true); // a is broadcast if samples do not fold into b's columns
    check_orders(a, true, false);
    arena_release(&a);
}

// --- epilogues -----------------------------------------------------------------------------------

// The value a region stores, for a call with operands and result `v`.
static const double *region_value(const Values *v, const Plan *p, const Region *r, uint32_t made) {
    const double **value = arena_array(v->a, const double *, v->g->node.n);
    value[made] = v->want;
    for (uint32_t i = 0; i < r->in.n; i++)
        if (r->in.at[i] != made)
            value[r->in.at[i]] = numbers(v->a, v->g, r->in.at[i]);
    for (uint32_t i = 0; i < r->node.n; i++) {
        uint32_t id = r->node.at[i];
        const void *in[3];
        double *out = arena_array(v->a, double, type_elements(v->g, node_type(v->g, id)));
        for (uint32_t k = 0; k < graph_node(v->g, id)->nin; k++) {
            in[k] = value[node_in(v->g, id, k)];
            assert_non_null(in[k]);
        }
        eval_node(v->g, id, in, out, true, &(Counters){0}, *v->a);
        value[id] = out;
    }
    return value[p->place[r->out.at[0]].owner];
}

static void check_epilogue(Arena a, const Plan *p, uint32_t region, const Epilogue *e) {
    const Graph *g = &p->func->g;
    uint32_t id = p->region.at[region].node.at[0], node[CUDNN_PARTS];
    Values v = values_of(&a, g, id);
    CudnnOperation o, product;
    bool dot = graph_node(g, id)->op == OpDot;
    if (dot)
        assert_true(cudnn_read_dot(g, id, &product, node) && cudnn_dot_as_conv(&product, &o, node));
    else
        assert_true(cudnn_read_conv(g, id, &o, node));
    float *at[3];
    for (int i = 0; i < 3; i++)
        at[i] = memory_of(&v, id, node[i]);
    assert_true(cudnn_add_epilogue(g, e, &o, node));
    int made = cudnn_output_index(o.kind);
    int64_t channels = o.tensor[made].dim[1];
    assert_int_equal(node[made], e->result);
    const Type *t = node_type(g, e->result);
    int64_t n = type_elements(g, t);
    const double *want = region_value(&v, p, &p->region.at[e->region], id);
    float *got = arena_array(&a, float, n), *bias = arena_array(&a, float, channels);
    const double *numbered = e->bias ? numbers(&a, g, e->bias) : NULL;
    for (int64_t i = 0; numbered && i < channels; i++)
        bias[i] = (float)numbered[i];
    run_convolution(&o, at);
    run_epilogue(&o, at[made], bias);
    value_load(g, t, at[made], got);
    for (int64_t i = 0; i < n; i++)
        if (!(fabs(got[i] - want[i]) < 1e-4))
            fail_msg("region %u, element %lld: %g instead of %g", e->region, (long long)i, got[i],
                     want[i]);
}

typedef struct SeenEpilogues { // calls of a model's step that have one
    uint32_t of[4][2];         // by what it does and whether it has a bias
    uint32_t gradients;        // those of input gradients
} SeenEpilogues;

static void check_model(Arena *a, const char *text, SeenEpilogues *seen) {
    const TrialOptions o = {.name = "model.gan", .text = str_c(text), .batch = 3};
    const CompileOptions c = {.real = DtF32, .dialect = dialect_find(STR("cuda"))};
    Compiled made = {.module = *trial_module(a, &o)};
    assert_int_equal(compile_plans(a, &made.module, &c, &made), GAN_OK);
    const Epilogue *epilogue = plan_epilogues(a, &made.step);
    for (uint32_t r = 0; r < made.step.region.n; r++)
        if (epilogue[r].region != NONE) {
            Epilogue e = epilogue[r];
            uint32_t id = made.step.region.at[r].node.at[0];
            check_epilogue(*a, &made.step, r, &e);
            seen->of[e.act][e.bias != 0]++;
            seen->gradients += graph_node(&made.step.func->g, id)->op == OpConvDx;
        }
}

static void cudnn_epilogues_equal_their_regions(void **state) {
    (void)state;
    static const char *const of[] = {
        "data x : image(3, 8, 8)\n"
        "net D(x: [3, 8, 8]) -> [] {\n"
        "  h = x |> conv(4, k=4, stride=2, pad=1) |> relu |> conv(5, k=3, pad=1) |> "
        "leaky_relu(0.2)\n"
        "  h = h |> conv(6, k=1, bias=none) |> tanh |> conv(7, k=3, pad=1, groups=1)\n"
        "  h |> flatten |> dense(9) |> relu |> dense(8, bias=none) |> leaky_relu(0.1)\n"
        "    |> dense(1) |> squeeze\n"
        "}\n",
        "data x : float(2, 20)\n"
        "net D(x: [2, 20]) -> [] { x |> conv(5, k=3) |> relu |> conv(4, k=5) |> conv(3, k=1)\n"
        "  |> flatten |> dense(1) |> squeeze }\n",
        "data x : float(2, 4, 4, 4)\n"
        "net D(x: [2, 4, 4, 4]) -> [] { x |> conv(3, k=3, pad=1) |> tanh |> conv(5, k=2, "
        "stride=2)\n"
        "  |> relu |> flatten |> dense(1) |> squeeze }\n",
        "data x : image(3, 4, 4)\n"
        "net D(x: [3, 4, 4]) -> [] { x |> conv_transpose(5, k=4, stride=2, pad=1) |> relu\n"
        "  |> conv_transpose(4, k=3) |> leaky_relu(0.2) |> conv_transpose(2, k=2, stride=3, "
        "bias=none)\n"
        "  |> tanh |> conv(1, k=3) |> flatten |> dense(1) |> squeeze }\n"};
    Arena a;
    SeenEpilogues seen = {0};
    assert_int_equal(arena_init(&a, 0), GAN_OK);
    for (size_t i = 0; i < sizeof of / sizeof *of; i++)
        check_model(
            &a,
            str_format(&a, "model m\n%sstep { update D minimize mean(D(x)^2) using sgd(0.1) }\n",
                       of[i])
                .ptr,
            &seen);
    assert_true(seen.of[ActRelu][1] >= 3 && seen.of[ActLeaky][1] >= 1 && seen.of[ActTanh][1] >= 1);
    assert_true(seen.of[ActTanh][0] >= 1 && seen.of[ActLeaky][0] >= 1 && seen.of[ActNone][1] >= 1);
    assert_true(seen.gradients >= 3);
    arena_release(&a);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cudnn_operations_equal_their_nodes),
        cmocka_unit_test(products_of_every_order_are_read),
        cmocka_unit_test(cudnn_epilogues_equal_their_regions),
    };
    if (CASES_LISTED(tests))
        return 0;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
