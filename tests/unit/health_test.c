// health_test.c - the health verdict on losses and samples of typical runs: `ok` for those that go
// well, however unusual their losses, and correct for those that do not.
#include "health.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include "cases.h"

enum { D, G, Losses, Steps = 3000 };

static double noise(uint32_t *state) { // uniform in (-1, 1)
    *state = *state * 1664525u + 1013904223u;
    return (double)(*state >> 8) / 8388608.0 - 1;
}

// Losses by step; the diversity of a save's samples.
typedef struct Course {
    const char *name;
    double (*loss[Losses])(double step);
    double (*spread)(double step);
    double noise; // of losses, relative
    HealthWord at_the_end;
    uint32_t whose;
} Course;

static double bce_d(double s) { // falls quickly, then G and D balance
    return 0.5 + 0.9 * exp(-s / 30);
}
static double bce_g(double s) {
    return 2.2 - 1.5 * exp(-s / 100);
}
static double critic(double s) { // rises, then falls with the distance
    return -60 * (s / 300) * exp(1 - s / 300) - 0.02;
}
static double critic_g(double s) { // drifts without meaning
    return 40 * sin(s / 400) - 0.01 * s;
}
static double began_d(double s) {
    return 0.02 + 0.3 * exp(-s / 200);
}
static double began_g(double s) {
    return 0.01 + 0.25 * exp(-s / 180);
}
static double pix2pix_g(double s) { // mostly the L1 distance to the image
    return 5 + 40 * exp(-s / 300);
}
static double lsgan_d(double s) {
    return 0.2 + 0.3 * exp(-s / 50);
}
static double lsgan_g(double s) {
    return 0.35 + 0.15 * exp(-s / 50);
}
static double beaten_d(double s) {
    return 1.4 * exp(-s / 150) + 1e-4;
}
static double beaten_g(double s) {
    return 0.7 + 9 * (1 - exp(-s / 300));
}
static double lsgan_won_d(double s) {
    return 0.5 * exp(-s / 200) + 1e-5;
}
static double lsgan_lost_g(double s) {
    return 0.5 - 0.05 * exp(-s / 50);
}
static double minimax_g(double s) { // log(1 - D(G)) at D(G) about 1/2
    return -0.5 - 0.2 * exp(-s / 100);
}
static double ahead_g(double s) { // never positive, and far from zero
    return -2 + exp(-s / 100);
}
static double half_ahead_g(double s) { // never positive, and neither far from zero nor near
    return -1 - exp(-s / 100);
}
static double saturated_g(double s) { // log(1 - D(G)) saturates: no gradient
    return -0.7 * exp(-s / 200);
}
static double explodes(double s) {
    return -exp(s / 120);
}
static double grows(double s) { // doubles as often, of a size that means nothing
    return -1e-9 * exp(s / 120);
}
static double wide(double s) { // noise at first, then diverse images
    return 0.1 + 0.8 * (1 - exp(-s / 300));
}
static double narrows(double s) { // mode collapse from step 1500 on
    return 0.9 / (1 + exp((s - 2000) / 100)) + 0.03;
}
static double still_wide(double s) { // a quarter of what it was is left, and a fifth of the data's
    return 0.95 / (1 + exp((s - 2000) / 100)) + 0.205;
}
static double
never_wide(double s) { // a simple data set or little training: low diversity throughout
    return 0.12 + 0 * s;
}

static const Course courses[] = {
    {"cross entropy, going well", {bce_d, bce_g}, wide, 0.5, HealthOk, 0},
    {"least squares, going well", {lsgan_d, lsgan_g}, wide, 0.5, HealthOk, 0},
    {"the minimax game, going well", {bce_d, minimax_g}, wide, 0.2, HealthOk, 0},
    {"a Wasserstein critic", {critic, critic_g}, wide, 0.5, HealthOk, 0},
    {"an autoencoder as critic", {began_d, began_g}, wide, 0.2, HealthOk, 0},
    {"pixels and a critic", {beaten_d, pix2pix_g}, wide, 0.3, HealthOk, 0},
    {"narrow samples from the first", {bce_d, bce_g}, never_wide, 0.5, HealthOk, 0},
    {"a critic at rest, its opponent ahead", {beaten_d, ahead_g}, wide, 0.2, HealthOk, 0},
    {"a critic at rest, its opponent less far ahead",
     {beaten_d, half_ahead_g},
     wide,
     0.2,
     HealthOk,
     0},
    {"a small loss that grows", {grows, critic_g}, wide, 0.1, HealthOk, 0},
    {"fewer modes, but diverse", {bce_d, bce_g}, still_wide, 0.5, HealthOk, 0},
    {"D has won, cross entropy", {beaten_d, beaten_g}, wide, 0.5, HealthStrong, D},
    {"D has won, least squares", {lsgan_won_d, lsgan_lost_g}, wide, 0.2, HealthStrong, D},
    {"D has won, the minimax game", {beaten_d, saturated_g}, wide, 0.2, HealthStrong, D},
    {"G loses modes", {bce_d, bce_g}, narrows, 0.5, HealthCollapsing, 0},
    {"a critic without bounds", {explodes, critic_g}, wide, 0.1, HealthDiverging, D},
};

// Healthy runs only ever get "-" and "ok"; of the others, each gets only its own verdict besides.
static void check(const Course *c, uint32_t seed) {
    HealthLoss loss[Losses] = {{.critic = true}, {.critic = false}};
    Health h = {.n = Losses, .loss = loss};
    HealthWord w = HealthYoung;
    uint32_t whose = 0, state = seed;
    for (uint32_t s = 1; s <= Steps; s++) {
        for (uint32_t i = 0; i < Losses; i++)
            health_step(&h, i, c->loss[i](s) * (1 + c->noise * noise(&state)));
        if (s % 250 == 0)
            health_spread(&h, c->spread(s));
        w = health_word(&h, &whose);
        if (w != HealthYoung && w != HealthOk && w != c->at_the_end)
            fail_msg("%s: word %d in step %u", c->name, (int)w, s);
    }
    if (w != c->at_the_end)
        fail_msg("%s: ends with word %d, not %d", c->name, (int)w, (int)c->at_the_end);
    if (w != HealthOk)
        assert_int_equal(whose, c->whose);
}

static void verdicts_fit_typical_loss_curves(void **state) {
    (void)state;
    for (uint32_t i = 0; i < sizeof courses / sizeof *courses; i++)
        for (uint32_t seed = 1; seed <= 50; seed++)
            check(&courses[i], seed);
}

static void a_run_gets_no_verdict_before_five_figures(void **state) {
    (void)state;
    HealthLoss loss[Losses] = {{.critic = true}, {0}};
    Health h = {.n = Losses, .loss = loss};
    uint32_t whose;
    for (uint32_t s = 1; s < HEALTH_TICK * HEALTH_TICKS; s++) {
        health_step(&h, D, exp(-(double)s));
        health_step(&h, G, (double)s);
        health_spread(&h, s % 2 ? 0.9 : 0.01); // samples of the first steps may be anything
        assert_int_equal(health_word(&h, &whose), HealthYoung);
    }
}

static void missing_measurements_give_no_verdict(void **state) {
    (void)state;
    HealthLoss loss[Losses] = {{.critic = true}, {0}};
    Health h = {.n = Losses, .loss = loss};
    uint32_t whose;
    for (uint32_t s = 1; s <= Steps; s++) { // G runs in every second step
        health_step(&h, D, 0.6);
        health_step(&h, G, s % 2 ? 1.0 : (double)NAN);
        health_spread(&h, (double)NAN);
    }
    assert_int_equal(loss[G].ticks, Steps / 2 / HEALTH_TICK);
    assert_int_equal(health_word(&h, &whose), HealthOk);
    loss[D] = (HealthLoss){.critic = true};
    loss[G] = (HealthLoss){0};
    for (uint32_t s = 1; s <= Steps; s++) // D has won, and nothing is known of G
        health_step(&h, D, beaten_d(s));
    assert_int_equal(health_word(&h, &whose), HealthOk);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(verdicts_fit_typical_loss_curves),
        cmocka_unit_test(a_run_gets_no_verdict_before_five_figures),
        cmocka_unit_test(missing_measurements_give_no_verdict),
    };
    return CASES_LISTED(tests) ? 0 : cmocka_run_group_tests(tests, NULL, NULL);
}
