// shares_test.c - attribution of a step's work to nets and penalties: rows are counted in GFLOP
// and compared with the same step without its penalty.
#include "driver.h"
#include "shares.h"

#include <math.h>
#include <setjmp.h>

#include <cmocka.h>
#include "cases.h"

enum { MostRows = 8 };

typedef struct Counted {
    uint32_t n;
    const char *name[MostRows];
    double gflop[MostRows], all;
} Counted;

static const char nets[] = "net G(z: [8]) -> [3, 8, 8] {\n"
                           "  z |> dense(256) |> reshape(16, 4, 4) |> batch_norm |> relu\n"
                           "    |> conv_transpose(3, k=4, stride=2, pad=1) |> tanh\n"
                           "}\n"
                           "net D(x: [3, 8, 8]) -> [] {\n"
                           "  x |> conv(16, k=4, stride=2, pad=1) |> ACT\n"
                           "    |> conv(32, k=3, pad=1) |> ACT |> flatten |> dense(1) |> squeeze\n"
                           "}\n";

// GFLOP of each row for a step with this text and this activation in D.
static Counted count(Arena *a, const char *act, const char *step, uint32_t chunks) {
    Text text = {.arena = a};
    Counted out = {0};
    Front f;
    Compiled c = {0};
    Shares s;
    text_put(&text, STR("model m\ndata x : image(3, 8, 8) scale(-1, 1)\n"));
    for (Str rest = str_c(nets); rest.len;) {
        size_t at = 0;
        while (at < rest.len && !str_starts(str_sub(rest, at, rest.len), STR("ACT")))
            at++;
        text_put(&text, str_sub(rest, 0, at));
        text_put(&text, at < rest.len ? str_c(act) : STR(""));
        rest = str_sub(rest, at + 3 < rest.len ? at + 3 : rest.len, rest.len);
    }
    text_fmt(&text, "opt = adam(lr=1e-3)\nstep {\n%s\n}\n", step);
    front_init(&f, a);
    CompileOptions o = {.path = STR("m.gan"), .text = text_str(&text), .batch = 8, .real = DtF32};
    o.parallel = (Parallel){.ranks = 1, .chunks = chunks};
    if (compile_file(&f, &o, &c) != GAN_OK) {
        Text t = {.arena = a};
        diag_render(&t, &f, false);
        fail_msg("%s%.*s", gan_error(), SARG(text_str(&t)));
    }
    shares_init(a, &c.step, &s);
    out.n = s.row.n;
    assert_true(out.n <= MostRows);
    for (uint32_t i = 0; i < out.n; i++)
        out.name[i] = str_z(a, s.row.at[i].name);
    for (uint32_t i = 0; i < c.step.region.n; i++) {
        const Region *r = &c.step.region.at[i];
        for (uint32_t k = 0; k < r->node.n; k++)
            out.gflop[s.of[i]] += node_gflop(&c.step.func->g, r->node.at[k]);
    }
    for (uint32_t i = 0; i < out.n; i++)
        out.all += out.gflop[i];
    return out;
}

static double row(const Counted *c, const char *name) {
    for (uint32_t i = 0; i < c->n; i++)
        if (str_eq(str_c(c->name[i]), str_c(name)))
            return c->gflop[i];
    fail_msg("no row %s", name);
    return 0;
}

static void assert_row(const Counted *c, const char *name, double gflop) {
    if (!(fabs(row(c, name) - gflop) <= 1e-9 * (1 + gflop)))
        fail_msg("%s has %.9g GFLOP, not %.9g", name, row(c, name), gflop);
}

static const char plain[] = "  fake = G(normal(8))\n"
                            "  update D minimize logistic(D(x), D(stop(fake))) using opt\n"
                            "  update G minimize non_saturating(D(fake)) using opt\n";

// A penalty's row is the difference from the step without it; the other rows do not change.
static void check_penalty(const char *act, const char *penalty, uint32_t chunks) {
    Arena a;
    assert_int_equal(arena_init(&a, 0), GAN_OK);
    const char *with =
        str_z(&a, str_format(&a,
                             "  fake = G(normal(8))\n"
                             "  update D minimize logistic(D(x), D(stop(fake))) + %s using opt\n"
                             "  update G minimize non_saturating(D(fake)) using opt\n",
                             penalty));
    Counted one = count(&a, act, plain, chunks), two = count(&a, act, with, chunks);
    assert_row(&one, "reg", 0);
    assert_true(row(&one, "D") > 0 && row(&one, "G") > 0 && two.all > one.all);
    assert_row(&two, "D", row(&one, "D"));
    assert_row(&two, "G", row(&one, "G"));
    assert_row(&two, "reg", two.all - one.all);
    assert_row(&two, "rest", 0);
    arena_release(&a);
}

static void a_penaltys_share_is_the_extra_cost_of_the_step(void **state) {
    (void)state;
    static const char *const act[] = {"leaky_relu(0.2)", "softplus"};
    for (size_t i = 0; i < sizeof act / sizeof *act; i++) {
        check_penalty(act[i], "10*gradient_penalty(D, x, stop(fake))", 0);
        check_penalty(act[i], "5*zero_penalty(D(x), x)", 0);
    }
}

static void chunks_of_a_step_are_attributed_alike(void **state) {
    (void)state;
    check_penalty("leaky_relu(0.2)", "10*gradient_penalty(D, x, stop(fake))", 2);
}

// The forward pass of G that both updates need counts for D, which comes first; the backward pass
// for G.
static void shared_work_is_attributed_to_the_first_update(void **state) {
    (void)state;
    Arena a;
    assert_int_equal(arena_init(&a, 0), GAN_OK);
    Counted shared = count(&a, "relu", plain, 0);
    Counted apart = count(&a, "relu",
                          "  update D minimize logistic(D(x), D(stop(G(normal(8))))) using opt\n"
                          "  update G minimize non_saturating(D(G(normal(8)))) using opt\n",
                          0);
    double forward = apart.all - shared.all;
    assert_true(forward > 0);
    assert_row(&shared, "D", row(&apart, "D"));
    assert_row(&shared, "G", row(&apart, "G") - forward);
    arena_release(&a);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_penaltys_share_is_the_extra_cost_of_the_step),
        cmocka_unit_test(chunks_of_a_step_are_attributed_alike),
        cmocka_unit_test(shared_work_is_attributed_to_the_first_update),
    };
    return CASES_LISTED(tests) ? 0 : cmocka_run_group_tests(tests, NULL, NULL);
}
