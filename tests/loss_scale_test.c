// loss_scale_test.c - loss scaling for f16: without overflow results are bit-identical; an update
// that overflows is skipped as a whole, its scale halved, and training continues; the same on any
// number of ranks.
#include "ranks_run.h"
#include "trial.h"

#include <math.h>
#include <setjmp.h>
#include <string.h>

#include <cmocka.h>
#include "arena_cases.h"

#define MODELS ROOT_DIR "/models"

static const struct {
    const char *model, *set;
} models[] = {
    {"acgan.gan", "nz=6 wide=2 kinds=3"},
    {"infogan.gan", "nz=4 kinds=3 wide=2"},
    {"stargan.gan", "size=16 depth=2 kinds=3 wide=2 blocks=1 rounds=1"}, // both have penalties
    {"wavegan.gan", "slice=256 nz=5 wide=2 rounds=2"},
    {"d2gan_ring.gan", "nz=8 hidden=6"},
};
enum { MODELS_HERE = sizeof models / sizeof *models };

static RanksOptions options_of(Arena *a, size_t model, Dtype real) {
    return (RanksOptions){.name = models[model].model,
                          .text = trial_read(a, MODELS, str_c(models[model].model)),
                          .set = models[model].set,
                          .batch = 8,
                          .api = &device_ref,
                          .real = real,
                          .steps = 3};
}

// --- the same bits -------------------------------------------------------------------------------

static void check_same(const RanksRun *plain, const RanksRun *scaled, const char *model) {
    uint32_t at = 0, scales = 0;
    for (uint32_t i = 0; i < scaled->value.n; i++) {
        const RanksValue *is = &scaled->value.at[i], *was = &plain->value.at[at];
        if (ranks_is_loss_scale(is->name)) {
            scales++;
            continue;
        }
        assert_true(at++ < plain->value.n && str_eq(is->name, was->name) && is->n == was->n);
        for (size_t k = 0; k < is->n; k++)
            if (is->x[k] != was->x[k])
                fail_msg("%s, %.*s [%zu]: %.17g scaled, %.17g as it is", model, SARG(is->name), k,
                         is->x[k], was->x[k]);
    }
    assert_true(at == plain->value.n && scales > 0);
}

static void a_scale_changes_no_bit(Dtype real) {
    for (size_t i = 0; i < MODELS_HERE; i++) {
        Arena a = empty;
        RanksOptions o = options_of(&a, i, real);
        RanksRun plain, scaled;
        ranks_run(&a, &o, &plain);
        o.scaled = true;
        ranks_run(&a, &o, &scaled);
        check_same(&plain, &scaled, o.name);
        ranks_free(&plain);
        ranks_free(&scaled);
    }
}

static void a_scale_changes_no_bit_of_f32(void **state) {
    (void)state;
    a_scale_changes_no_bit(DtF32);
}

static void a_scale_changes_no_bit_of_f64(void **state) {
    (void)state;
    a_scale_changes_no_bit(DtF64);
}

static void ranks_agree_on_scales(void **state) {
    (void)state;
    for (size_t i = 0; i < MODELS_HERE; i++) {
        Arena a = empty;
        RanksOptions o = options_of(&a, i, DtF64);
        RanksRun one, two;
        o.scaled = true;
        ranks_run(&a, &o, &one);
        o.parallel.ranks = 2;
        ranks_run(&a, &o, &two); // fails if ranks end with different bits
        ranks_compare(&one, &two, 1e-9, o.name);
        ranks_free(&one);
        ranks_free(&two);
    }
}

// --- updates that overflow -----------------------------------------------------------------------

static const char two_nets[] =
    "model m \"two nets, one update each, whose gradients are as large as `far` says\"\n"
    "data x : float(4, 8, 8)\n"
    "config far = 1 \"how far\"\n"
    "config broken = 0 \"a loss that is not a number\"\n"
    "net D(x: [4, 8, 8]) -> [] { x |> conv(4, k=3, pad=1) |> tanh |> flatten |> dense(1) |> "
    "squeeze }\n"
    "net G(x: [4, 8, 8]) -> [4, 8, 8] { x |> conv(4, k=3, pad=1) |> tanh }\n"
    "opt = adam(lr=1e-2)\n"
    "step {\n"
    "  state sign = 1\n"
    "  update D minimize far*mean((D(x) - 1)^2)*sqrt(sign - 2*broken) using opt\n"
    "  update G minimize mean(D(G(x))^2) using opt\n"
    "}\n"
    "sample fakes = G(x)\n";

static void open_trial(Trial *t, Arena *a, const char *set) {
    trial_open(t, a,
               &(TrialOptions){
                   .name = "m.gan", .text = STR(two_nets), .batch = 8, .set = set, .real = DtF16});
}

static double number(Trial *t, const char *slot) {
    double x;
    assert_int_equal(exec_slot_get(t->exec, trial_slot(t, slot), &x, 1), GAN_OK);
    return x;
}

static void set_number(Trial *t, const char *slot, double x) {
    assert_int_equal(exec_slot_put(t->exec, trial_slot(t, slot), &x, 1), GAN_OK);
}

// Everything that the net's updates change: weights and optimizer state.
static Str state_of(Trial *t, Arena *a, uint32_t net) {
    Text all = {.arena = a};
    const Module *m = &t->compiled.module;
    for (uint32_t i = 0; i < m->slot.n; i++) {
        if (!slot_outlives(&m->slot.at[i]) || m->slot.at[i].net != net)
            continue;
        size_t n = exec_slot_bytes(t->exec, i);
        char *bytes = arena_array(a, char, n);
        assert_int_equal(exec_slot_save(t->exec, i, bytes), GAN_OK);
        text_put(&all, (Str){bytes, n});
    }
    assert_true(all.n > 0);
    return text_str(&all);
}

static void an_update_that_overflows_is_skipped_until_it_does_not(void **state) {
    (void)state;
    Arena a = empty;
    Trial t;
    open_trial(&t, &a, "far=3e4");
    double scale = number(&t, "loss_scale/D"), skipped = 0;
    assert_true(scale == 65536 && number(&t, "loss_scale/G") == 65536);
    for (; skipped < 30; skipped++) {
        Str d = state_of(&t, &a, 0), g = state_of(&t, &a, 1);
        trial_step(&t);
        assert_false(str_eq(state_of(&t, &a, 1), g)); // G has a scale of its own
        assert_true(number(&t, "loss_scale/G") == 65536 && number(&t, "skipped_updates/G") == 0);
        if (!str_eq(state_of(&t, &a, 0), d))
            break;
        scale /= 2;
        assert_true(number(&t, "loss_scale/D") == scale && number(&t, "good_updates/D") == 0);
        assert_true(number(&t, "skipped_updates/D") == skipped + 1);
    }
    assert_true(skipped > 0 && skipped < 30);
    assert_true(number(&t, "loss_scale/D") == scale && number(&t, "good_updates/D") == 1);
    assert_true(isfinite(number(&t, "opt.c1/D")));
    trial_close(&t);
}

static void after_enough_updates_a_scale_doubles(void **state) {
    (void)state;
    Arena a = empty;
    Trial t;
    open_trial(&t, &a, NULL);
    set_number(&t, "good_updates/D", 1998);
    trial_step(&t);
    assert_true(number(&t, "loss_scale/D") == 65536 && number(&t, "good_updates/D") == 1999);
    trial_step(&t);
    assert_true(number(&t, "loss_scale/D") == 131072 && number(&t, "good_updates/D") == 0);
    set_number(&t, "good_updates/G", 1999); // the bound
    set_number(&t, "loss_scale/G", 16777216);
    trial_step(&t);
    assert_true(number(&t, "loss_scale/G") <= 16777216);
    trial_close(&t);
}

static void a_nan_loss_skips_its_update(void **state) {
    (void)state;
    Arena a = empty;
    Trial t;
    open_trial(&t, &a, "broken=1");
    Str d = state_of(&t, &a, 0);
    trial_step(&t);
    assert_true(isnan(t.loss[0]) && isfinite(t.loss[1]));
    assert_true(str_eq(state_of(&t, &a, 0), d) && number(&t, "skipped_updates/D") == 1);
    assert_true(number(&t, "skipped_updates/G") == 0);
    trial_close(&t);
}

// --- state that no optimizer keeps ---------------------------------------------------------------

static bool slot_is_finite(Trial *t, Arena a, uint32_t slot) {
    size_t n = exec_slot_bytes(t->exec, slot) / sizeof(float);
    double *x = arena_array(&a, double, n);
    assert_int_equal(exec_slot_get(t->exec, slot, x, n), GAN_OK);
    for (size_t i = 0; i < n; i++)
        if (!isfinite(x[i]))
            return false;
    return true;
}

static void an_overflow_leaves_running_statistics_finite(void **state) {
    (void)state;
    static const char norm[] =
        "model m \"one batch that no half can hold\"\n"
        "data x : float(4, 8, 8)\n"
        "net D(x: [4, 8, 8]) -> [] { x |> conv(8, k=3, pad=1) |> batch_norm |> tanh |> flatten |> "
        "dense(1) |> squeeze }\n"
        "opt = adam(lr=1e-3)\n"
        "step { update D minimize mean((D(x*where(step == 2, 1e6, 1)) - 1)^2) using opt }\n"
        "sample ones = D(x)\n";
    Arena a = empty;
    Trial t;
    trial_open(&t, &a,
               &(TrialOptions){.name = "m.gan", .text = STR(norm), .batch = 8, .real = DtF16});
    Str before = {0};
    for (int step = 0; step < 5; step++) {
        before = state_of(&t, &a, 0);
        trial_step(&t);
        assert_true(isfinite(t.loss[0]) == (step != 2));
        assert_true(str_eq(state_of(&t, &a, 0), before) == (step == 2));
        assert_true(slot_is_finite(&t, a, trial_slot(&t, "D.batch_norm.0.run_mean")));
    }
    assert_true(number(&t, "skipped_updates/D") == 1);
    trial_close(&t);
}

// The inner gradient overflows at the initial scale. The average of values derived from it is not
// updated until it no longer does; other state is.
static void an_average_skips_non_finite_inner_gradients(void **state) {
    (void)state;
    static const char lengths[] =
        "model m \"a penalty on the lengths of gradients, which it keeps an average of\"\n"
        "data x : float(4, 8, 8)\n"
        "net G(x: [4, 8, 8]) -> [4, 8, 8] { x |> conv(16, k=3, pad=1) |> tanh |> "
        "conv(4, k=3, pad=1) }\n"
        "step {\n"
        "  state usual = 0\n"
        "  state count = 0\n"
        "  long = norm(grad(30*G(x), x))\n"
        "  middle = mix(usual, mean(long), 0.5)\n"
        "  usual := middle\n"
        "  count := count + 1\n"
        "  update G minimize 1e-4*mean((long - stop(middle))^2) using sgd(1e-3)\n"
        "}\n"
        "sample ones = G(x)\n";
    Arena a = empty;
    Trial t;
    trial_open(&t, &a,
               &(TrialOptions){.name = "m.gan", .text = STR(lengths), .batch = 8, .real = DtF16});
    double skipped = 0, usual = 0;
    for (int step = 0; step < 24; step++) {
        trial_step(&t);
        usual = number(&t, "usual");
        skipped = number(&t, "skipped_updates/G");
        assert_true(isfinite(usual));
        assert_true(usual > 0 || !isfinite(t.loss[0]));
        assert_true(number(&t, "count") == step + 1);
    }
    assert_true(skipped > 0 && skipped < 20 && usual > 0);
    trial_close(&t);
}

// --- ranks, choices ------------------------------------------------------------------------------

static double last(const RanksRun *run, const char *name) {
    double x = NAN;
    for (uint32_t i = 0; i < run->value.n; i++)
        if (str_eq(run->value.at[i].name, str_c(name)))
            x = run->value.at[i].x[0];
    return x;
}

static void compression_error_skips_no_update(void **state) {
    (void)state;
    Arena a = empty;
    RanksOptions o = {.name = "m.gan",
                      .text = STR(two_nets),
                      .set = "far=3e4",
                      .batch = 8,
                      .parallel = {.ranks = 2},
                      .api = &device_ref,
                      .real = DtF16,
                      .steps = 16};
    RanksRun plain, narrow;
    ranks_run(&a, &o, &plain);
    o.narrow = 1;
    ranks_run(&a, &o, &narrow);
    double skipped = last(&plain, "skipped_updates/D");
    assert_true(skipped > 0 && skipped < 12);
    assert_true(last(&narrow, "skipped_updates/D") == skipped);
    assert_true(isfinite(last(&narrow, "step 15, loss 0")));
    ranks_free(&plain);
    ranks_free(&narrow);
}

// An `if` within an optimizer puts its assignments into separate blocks, of which one runs.
static void an_optimizer_may_have_a_condition(void **state) {
    (void)state;
    static const char chooses[] =
        "model m \"too large from step 4 on\"\n"
        "data x : float(4, 8, 8)\n"
        "net D(x: [4, 8, 8]) -> [] { x |> flatten |> dense(1) |> squeeze }\n"
        "fn warm(lr)(w, g) {\n"
        "  state n = 0\n"
        "  n := n + 1\n"
        "  if n < 3 { w - lr*g } else { w - 0.5*lr*g }\n"
        "}\n"
        "step { update D minimize where(step > 3, 1e38, 1)*mean((D(x) - 1)^2) using warm(1e-4) }\n"
        "sample ones = D(x)\n";
    Arena a = empty;
    Trial t;
    trial_open(&t, &a,
               &(TrialOptions){.name = "m.gan", .text = STR(chooses), .batch = 8, .real = DtF16});
    Str d = {0}, error;
    if (!func_verify(&t.compiled.module, &t.compiled.module.step, &a, &error))
        fail_msg("%.*s", SARG(error));
    for (int step = 0; step < 6; step++) {
        Str was = d;
        trial_step(&t);
        d = state_of(&t, &a, 0);
        assert_true(step == 0 || str_eq(d, was) == (step > 3));
        assert_true(number(&t, "good_updates/D") == (step > 3 ? 0 : step + 1));
        assert_true(number(&t, "skipped_updates/D") == (step > 3 ? step - 3 : 0));
    }
    trial_close(&t);
}

static uint32_t scales_of(Arena *a, const char *name, Str text) {
    Module m = *trial_module(a, &(TrialOptions){.name = name, .text = text, .batch = 4});
    uint32_t scales = 0;
    loss_scale_slots(a, &m);
    loss_scale_slots(a, &m); // idempotent
    for (uint32_t k = 0; k < m.slot.n; k++)
        scales += m.slot.at[k].kind == SlotScale;
    return scales / 3;
}

// d3gan's generator is updated in both branches of an `if`, dcgan's critic twice in each step.
static void branches_share_a_scale_and_iterations_do_not(void **state) {
    (void)state;
    Arena a = empty;
    static const struct {
        const char *model;
        uint32_t scales;
    } rows[] = {{"d3gan.gan", 2}, {"dcgan.gan", 3}, {"wgan_gp.gan", 2}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        uint32_t scales =
            scales_of(&a, rows[i].model, trial_read(&a, MODELS, str_c(rows[i].model)));
        if (scales != rows[i].scales)
            fail_msg("%s: %u scales", rows[i].model, scales);
    }
}

static Str printed_after(Arena *a, Module *m) {
    Text t = {.arena = a};
    passes_run(a, m, &m->step, &(PassOptions){.real = DtF16}, "loss_scale");
    module_print(&t, m);
    return text_str(&t);
}

// A module read back from text after the pass runs through it again.
static void the_loss_scale_pass_is_idempotent(void **state) {
    (void)state;
    Arena a = empty;
    Module m = *trial_module(&a, &(TrialOptions){.name = "dcgan.gan",
                                                 .text = trial_read(&a, MODELS, STR("dcgan.gan")),
                                                 .batch = 4});
    loss_scale_slots(&a, &m);
    Str once = printed_after(&a, &m);
    assert_true(str_eq(printed_after(&a, &m), once));
}

// Do two blocks from one statement share a scale?
static void exclusive_blocks_of_one_update_share_a_scale(void **state) {
    (void)state;
    static const struct {
        const char *step;
        uint32_t scales;
    } rows[] = {
        {"for a in [2, 1] { repeat 2 { update D minimize a*mean(D(x)) using o } }", 2},
        {"for a in [2, 1] { every 2 { update D minimize a*mean(D(x)) using o } }", 2},
        {"a = if step < 3 { 2 } else { 1 }\nupdate D minimize a*mean(D(x)) using o", 1},
        {"a = if step < 3 { 2 } else { if step < 5 { 3 } else { 1 } }\n"
         "update D minimize a*mean(D(x)) using o",
         1},
        {"a = if step < 3 { 2 } else { 1 }\n"
         "for b in [1, 3] { repeat 2 { update D minimize a*b*mean(D(x)) using o } }",
         2},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        Arena a = empty;
        Str text = str_format(&a,
                              "model m \"one statement\"\n"
                              "data x : float(4)\n"
                              "net D(x: [4]) -> [] { x |> dense(1) |> squeeze }\n"
                              "o = sgd(1)\n"
                              "step {\n%s\n}\n"
                              "sample ones = D(x)\n",
                              rows[i].step);
        uint32_t scales = scales_of(&a, "m.gan", text);
        if (scales != rows[i].scales)
            fail_msg("%s: %u scales", rows[i].step, scales);
    }
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_scale_changes_no_bit_of_f32),
        cmocka_unit_test(a_scale_changes_no_bit_of_f64),
        cmocka_unit_test(ranks_agree_on_scales),
        cmocka_unit_test(an_update_that_overflows_is_skipped_until_it_does_not),
        cmocka_unit_test(after_enough_updates_a_scale_doubles),
        cmocka_unit_test(a_nan_loss_skips_its_update),
        cmocka_unit_test(an_overflow_leaves_running_statistics_finite),
        cmocka_unit_test(an_average_skips_non_finite_inner_gradients),
        cmocka_unit_test(compression_error_skips_no_update),
        cmocka_unit_test(an_optimizer_may_have_a_condition),
        cmocka_unit_test(branches_share_a_scale_and_iterations_do_not),
        cmocka_unit_test(the_loss_scale_pass_is_idempotent),
        cmocka_unit_test(exclusive_blocks_of_one_update_share_a_scale),
    };
    return ARENA_CASES(tests, 0);
}
