// strips_test.c - large intermediates are made strip by strip: the same values, and no value that
// is much larger than what goes in and comes out, wherever there is a group of operations that
// carries an axis through or sums over it.
#include "pass_cases.h"

#include <setjmp.h>
#include <cmocka.h>
#include "cases.h"

typedef struct Case {
    const char *name, *text;
    int64_t before, after; // elements of a sample's largest value
} Case;

#define TOKENS "data x : float(4, 12)\n"
#define NET TOKENS "net N(x: [4, 12]) {\n"
#define SCORES "  s = einsum(\"cp,cq->pq\", x |> conv(2, k=1), x |> conv(2, k=1))\n"
#define STEP "}\nstep { update N minimize mean(N(x)^2) using sgd(0.1) }\n"
enum { All = 12 * 12, Third = All / 3 };

static const Case cases[] = {
    {"attention",
     NET SCORES "  einsum(\"pq,cq->cp\", softmax(s, axis(1)), x) |> conv(3, k=1)\n" STEP, All,
     Third},
    {"without a product behind it",
     NET SCORES "  einsum(\"pq,cq->cp\", softmax(s, axis(1)), x)\n" STEP, All, Third},
    {"over the other axis",
     NET SCORES "  einsum(\"pq,cp->cq\", softmax(s, axis(0)), x) |> conv(3, k=1)\n" STEP, All,
     Third},
    {"with heads", NET "  multihead_attention(2)(x)\n" STEP, 2 * All, 2 * Third},
    {"with a mask and a bias of positions",
     NET "  param b : [12, 12] = gauss(1)\n" SCORES
         "  s = where(unsqueeze(arange(12), 1) >= unsqueeze(arange(12), 0), s, -1e9)\n"
         "  einsum(\"pq,cq->cp\", softmax(s + b, axis(1)), x) |> conv(3, k=1)\n" STEP,
     All, Third},
    {"in two layers", NET "  for i in range(2) { x = x + multihead_attention(1)(x) }\n  x\n" STEP,
     All, Third},
    {"with a penalty on its gradient",
     NET "  multihead_attention(1)(x) |> tanh |> mean(sample)\n}\n"
         "step { update N minimize mean(N(x)) + mean(norm2(grad(N(x), x))) using sgd(0.1) }\n",
     All, Third},
    {"of a power of distances",
     NET SCORES "  tanh(s)^2 |> sum(axis(0)) |> tanh |> sum(sample)\n" STEP, All, Third},
    {"not of scores and their transpose",
     NET SCORES "  s = tanh(s + permute(s, 1, 0))\n"
                "  einsum(\"pq,cq->cp\", s, x) |> conv(3, k=1)\n" STEP,
     All, All},
    {"not of what is sorted",
     NET SCORES "  einsum(\"pq,cq->cp\", sort(permute(sort(s), 1, 0)), x)\n" STEP, All, All},
    {"not of what is flattened", NET SCORES "  s |> flatten |> dense(3)\n" STEP, 3 * All, 3 * All},
    {"whose mean over the batch is written",
     TOKENS "state kept : [12, 12] = 0\n"
            "net N(x: [4, 12]) {\n" SCORES "  s\n}\n"
            "step { s = N(x); kept := mean(s, batch)\n"
            "  update N minimize mean(s^2) using sgd(0.1) }\n",
     All, Third},
    {"not of what is no larger than its operands",
     NET "  a = x |> conv(8, k=1)\n"
         "  s = einsum(\"cp,cq->pq\", a[:, :2], a[:, :3]) |> softmax(axis(1))\n"
         "  einsum(\"pq,cq->cp\", s, a[:, :3])\n" STEP,
     24, 24},
};

static Module *passed(Arena *a, const char *text, bool small, const char *until) {
    PassOptions pass = {.real = DtF64, .small_products = small, .verify_each = true};
    if (!small)
        pass.strip_bytes = pass.strip_always = 1 << 20;
    return pass_model(a, str_format(a, "model m\n%s", text).ptr, NULL, 3, &pass, until);
}

// Of values that no view of slices or joined parts is.
static int64_t largest(Arena *a, const Module *m) {
    const uint8_t *live = func_live(a, &m->step);
    int64_t most = 0;
    for (uint32_t id = 1; id < m->step.g.node.n; id++) {
        int64_t n = type_sample(node_type(&m->step.g, id));
        if (live[id] && graph_node(&m->step.g, id)->op == OpDot)
            most = n > most ? n : most;
    }
    return most;
}

static void check(Arena *a, const Case *c, bool small) {
    const Module *m[2] = {passed(a, c->text, small, "pad_channels"),
                          passed(a, c->text, small, "strips")};
    int64_t before = largest(a, m[0]), after = largest(a, m[1]);
    pass_assert_equal(a, c->name, m[0], m[1]);
    if (before != c->before || after != c->after)
        fail_msg("%s: %lld and %lld elements", c->name, (long long)before, (long long)after);
}

static void check_alone(const Case *c, bool small) {
    Arena a;
    assert_int_equal(arena_init(&a, 0), GAN_OK);
    check(&a, c, small);
    arena_release(&a);
}

static void values_stay_and_none_is_large(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        check_alone(&cases[i], true);
}

// Six strips, of which the last has 60 rows of 128: more than are added up at once.
static void sums_of_many_strips_are_added_up_a_few_at_a_time(void **state) {
    (void)state;
    static const Case many = {
        "many strips",
        "data x : float(2, 700)\n"
        "net N(x: [2, 700]) {\n"
        "  s = einsum(\"cp,cq->pq\", x |> conv(1, k=1), x |> conv(1, k=1))\n"
        "  einsum(\"pq,cq->cp\", softmax(s, axis(1)), x) |> conv(1, k=1)\n" STEP,
        700 * 700, 128 * 700};
    check_alone(&many, false);
}

int main(int argc, char **argv) {
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_stay_and_none_is_large),
        cmocka_unit_test(sums_of_many_strips_are_added_up_a_few_at_a_time),
    };
    if (CASES_LISTED(tests))
        return 0;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
