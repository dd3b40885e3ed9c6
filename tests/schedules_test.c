// schedules_test.c - random steps on several ranks: models with random nets, norms, penalties,
// updates, repeats, optimizers and bucket sizes train to the same numbers on one rank and on three,
// and to the same bits whether or not a step leaves its end to the next.
//
// A model follows from its seed alone; a failure names the seed and prints the text. Built twice:
// CASES models in the quick tier, and a long list.
#include "ranks_run.h"

#include <math.h>
#include <setjmp.h>
#include <stdlib.h>

#include <cmocka.h>
#include "arena_cases.h"

#ifndef CASES
#define CASES 20
#endif

static Arena empty;

// --- models --------------------------------------------------------------------------------------

typedef struct Dice {
    uint64_t state;
} Dice;

static uint32_t roll(Dice *d, uint32_t sides) {
    d->state = d->state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(d->state >> 33) % sides;
}

#define PICK(d, list) (list)[roll(d, sizeof(list) / sizeof *(list))]

typedef struct Case {
    Str text;
    int64_t batch;
    bool twice; // D is updated twice
} Case;

static const char *const acts[] = {"tanh", "leaky_relu(0.2)", "silu", "softplus", "sigmoid"};
static const char *const opts[] = {
    "sgd(lr=0.01)",
    "sgd(lr=0.005, momentum=0.5)",
    "adam(lr=1e-3, beta1=0.5, eps=1e-3)",
    "clip_norm(0.5, sgd(lr=0.01))",
    "weight_decay(0.01, sgd(lr=0.01))",
    "clip_weights(0.9, rmsprop(lr=1e-3, eps=0.1))",
};

static const char *norm_of(Arena *a, Dice *d, int64_t batch) {
    int64_t group = roll(d, 2) ? batch / 2 : roll(d, 2) ? 2 : batch;
    switch (roll(d, 6)) {
    case 0:
        return " |> batch_norm";
    case 1:
        return batch % group || group < 2
                   ? " |> batch_norm(affine=false)"
                   : str_format(a, " |> batch_norm(group=%lld)", (long long)group).ptr;
    case 2:
        return " |> layer_norm";
    case 3:
        return batch % group || group < 2
                   ? ""
                   : str_format(a, " |> minibatch_std(group=%lld)", (long long)group).ptr;
    default:
        return "";
    }
}

static void put_nets(Arena *a, Text *t, Dice *d, int64_t batch) {
    const char *act = PICK(d, acts), *bias = roll(d, 3) ? "" : ", bias=none";
    text_fmt(t, "net G(z: [3]) -> [2, 3, 3] {\n  h = z");
    for (uint32_t i = roll(d, 3); i > 0; i--)
        text_fmt(t, " |> dense(%u)%s |> %s", 2 + roll(d, 5), roll(d, 2) ? "" : " |> batch_norm",
                 act);
    text_fmt(t, " |> dense(18) |> reshape(2, 3, 3)\n  h");
    for (uint32_t i = roll(d, 2); i > 0; i--)
        text_fmt(t, "%s |> %s", norm_of(a, d, batch), act);
    text_fmt(t, " |> conv(2, k=3, pad=1) |> tanh\n}\n");
    act = PICK(d, acts);
    text_fmt(t, "net D(x: [2, 3, 3]) -> [] {\n  h = x");
    for (uint32_t i = 1 + roll(d, 3); i > 0; i--)
        text_fmt(t, " |> conv(%u, k=3, pad=1%s%s)%s |> %s", 2 + roll(d, 4), bias,
                 roll(d, 3) ? "" : ", reparam=spectral_norm()", norm_of(a, d, batch), act);
    text_fmt(t, "\n  h |> flatten |> dense(1) |> squeeze\n}\n");
}

static void put_penalty(Text *t, Dice *d) {
    switch (roll(d, 4)) {
    case 0:
        text_put(t, STR(" + 0.2*gradient_penalty(D, x, fake, eps=1e-3)"));
        break;
    case 1:
        text_put(t, STR(" + 0.1*zero_penalty(D(x), x)"));
        break;
    case 2:
        text_put(t, STR(" + every 2 { 0.1*zero_penalty(D(fake), fake) }"));
        break;
    default:
        break;
    }
}

static void put_update(Text *t, Dice *d) {
    static const char *const losses[] = {
        "wasserstein(D(x), D(fake))",
        "logistic(D(x), D(fake))",
        "least_squares(D(x), D(fake))",
        "relativistic_average(D(x), D(fake))",
    };
    text_fmt(t, "  update D minimize %s", PICK(d, losses));
    put_penalty(t, d);
    text_put(t, STR(" using opt\n"));
}

static void put_step(Text *t, Dice *d) {
    uint32_t rounds = roll(d, 3);
    bool again = roll(d, 2);
    text_fmt(t, "opt = %s\nstep {\n", PICK(d, opts));
    if (rounds)
        text_fmt(t, "  repeat %u {\n", rounds + 1);
    text_fmt(t, "  fake = %sG(normal(3)))\n", roll(d, 2) ? "stop(" : "(");
    put_update(t, d);
    if (again)
        put_update(t, d);
    if (rounds)
        text_put(t, STR("  }\n"));
    text_fmt(t, "  update G minimize %s using %s\n",
             roll(d, 2) ? "-mean(D(G(normal(3))))" : "non_saturating(D(G(normal(3))))",
             roll(d, 2) ? "opt" : PICK(d, opts));
    if (roll(d, 2))
        text_put(t, STR("  report level = mean(G(normal(3))), spread = std(D(x))\n"));
    text_put(t, STR("}\nsample fakes = G(normal(3))\n"));
}

static Case make_case(Arena *a, uint64_t seed) {
    Dice d = {seed * 0x9e3779b97f4a7c15u + 1};
    Case c = {.batch = 3 + roll(&d, 8)};
    Text t = {.arena = a};
    text_fmt(&t, "model random\ndata x : image(2, 3, 3) scale(-1, 1)\n");
    put_nets(a, &t, &d, c.batch);
    put_step(&t, &d);
    c.text = text_str(&t);
    return c;
}

// --- the property --------------------------------------------------------------------------------

// A step whose numbers run away says nothing about ranks.
static bool runs_away(const RanksRun *run) {
    for (uint32_t i = 0; i < run->value.n; i++)
        for (size_t k = 0; k < run->value.at[i].n; k++)
            if (!(fabs(run->value.at[i].x[k]) < 1e6))
                return true;
    return false;
}

// False when there was nothing to compare.
static bool run_case(uint64_t seed) {
    Arena a = empty;
    Dice d = {seed + 77};
    Case c = make_case(&a, seed);
    const char *what = str_format(&a, "seed %llu, batch %lld:\n%.*s", (unsigned long long)seed,
                                  (long long)c.batch, SARG(c.text))
                           .ptr;
    RanksOptions o = {.name = str_format(&a, "random%llu.gan", (unsigned long long)seed).ptr,
                      .text = c.text,
                      .batch = c.batch,
                      .api = &device_ref,
                      .real = DtF64,
                      .steps = 2};
    RanksRun one, three;
    ranks_run(&a, &o, &one);
    o.parallel.ranks = roll(&d, 4) ? 3 : 2;
    o.parallel.bucket = roll(&d, 2) ? 64u << roll(&d, 8) : 0;
    ranks_run(&a, &o, &three);
    bool fine = !runs_away(&one);
    if (fine)
        ranks_compare(&one, &three, 1e-8, what);
    ranks_free(&one);
    ranks_free(&three);
    return fine;
}

// True when there was a tail.
static bool leave_case(uint64_t seed) {
    Arena a = empty;
    Dice d = {seed + 77};
    Case c = make_case(&a, seed);
    const char *what = str_format(&a, "with a tail, seed %llu, batch %lld:\n%.*s",
                                  (unsigned long long)seed, (long long)c.batch, SARG(c.text))
                           .ptr;
    RanksOptions o = {.name = str_format(&a, "random%llu.gan", (unsigned long long)seed).ptr,
                      .text = c.text,
                      .batch = c.batch,
                      .api = &device_ref,
                      .real = DtF64,
                      .steps = 5,
                      .as_trained = true};
    RanksRun whole, left;
    o.parallel.ranks = 2 + roll(&d, 2);
    o.parallel.bucket = roll(&d, 2) ? 64u << roll(&d, 8) : 0;
    ranks_run(&a, &o, &whole);
    o.parallel.tail = true;
    ranks_run(&a, &o, &left);
    if (!runs_away(&whole)) // infinite numbers are equal, and their difference is none
        ranks_compare(&whole, &left, 0, what);
    bool tail = left.compiled.step.tail.section;
    ranks_free(&whole);
    ranks_free(&left);
    return tail;
}

// Every case, or the one that SEED names. `run` says whether a case was one that counts: `least`
// are.
static void each_case(bool (*run)(uint64_t seed), uint32_t least) {
    const char *only = getenv("SEED");
    uint32_t counted = 0;
    if (only) {
        run(strtoull(only, NULL, 10));
        return;
    }
    for (uint64_t seed = 0; seed < CASES; seed++)
        counted += run(seed);
    assert_true(counted >= least);
}

static void random_steps_may_leave_their_end(void **state) {
    (void)state;
    each_case(leave_case,
              CASES / 10); // a node a region: constants are shared, and one may be early
}

static void random_steps_do_not_depend_on_ranks(void **state) {
    (void)state;
    each_case(run_case, CASES - CASES / 20);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_steps_do_not_depend_on_ranks),
        cmocka_unit_test(random_steps_may_leave_their_end),
    };
    return ARENA_CASES(tests, &empty, (size_t)1 << 28);
}
