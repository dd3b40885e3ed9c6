// ranks_test.c - what ranks find out about each other before anything begins.
#include "ranks.h"

#include <pthread.h>
#include <setjmp.h>
#include <string.h>

#include <cmocka.h>
#include "cases.h"

enum { RANKS = 3 };

typedef struct Seat {
    LocalSeat seat;
    const char *gpu;
    bool share;
    GanStatus status;
    int threads;
    char error[512];
} Seat;

static void say_nothing(void *user, Str line) {
    (void)user, (void)line;
}

static void *preflight(void *user) {
    static const CommOptions limits = {.deadline = 20};
    static const Console console = {say_nothing, say_nothing, say_nothing, false, NULL};
    Seat *s = user;
    Comm *c = NULL;
    Arena a;
    s->status = arena_init(&a, 0);
    if (s->status == GAN_OK)
        s->status = comm_open(&link_local, &s->seat, &limits, &c);
    if (s->status == GAN_OK)
        s->status = ranks_preflight(a, c, &console, 0, s->gpu, s->share, &s->threads);
    snprintf(s->error, sizeof s->error, "%s", s->status == GAN_OK ? "" : gan_error());
    comm_close(c);
    arena_release(&a);
    return NULL;
}

static void run(Seat *seat, const char *const gpu[RANKS], bool share) {
    LocalHub *hub;
    pthread_t thread[RANKS];
    assert_int_equal(local_hub_new(RANKS, &hub), GAN_OK);
    for (int r = 0; r < RANKS; r++) {
        seat[r] = (Seat){.seat = {hub, r}, .gpu = gpu[r], .share = share};
        assert_int_equal(pthread_create(&thread[r], NULL, preflight, &seat[r]), 0);
    }
    for (int r = 0; r < RANKS; r++)
        pthread_join(thread[r], NULL);
    local_hub_free(hub);
}

static void two_ranks_on_one_card_are_refused(void **state) {
    (void)state;
    Seat seat[RANKS];
    run(seat, (const char *const[]){"a card (GPU-1)", "a card (GPU-2)", "a card (GPU-1)"}, false);
    for (int r = 0; r < RANKS; r++) {
        assert_int_equal(seat[r].status, GAN_ERR_DEVICE);
        assert_non_null(strstr(seat[r].error, "ranks 0 and 2 on "));
        assert_non_null(strstr(seat[r].error, "one card, a card (GPU-1): "));
        assert_string_equal(seat[r].error, seat[0].error); // so that one may speak for all
    }
}

static void cards_of_their_own_and_none_are_fine(void **state) {
    (void)state;
    Seat seat[RANKS];
    run(seat, (const char *const[]){"a card (GPU-1)", "a card (GPU-2)", "a card (GPU-3)"}, false);
    for (int r = 0; r < RANKS; r++)
        assert_int_equal(seat[r].status, GAN_OK);
    run(seat, (const char *const[]){"a card (GPU-1)", "a card (GPU-1)", "a card (GPU-1)"}, true);
    for (int r = 0; r < RANKS; r++)
        assert_int_equal(seat[r].status, GAN_OK);
    run(seat, (const char *const[]){"", "", ""}, false);
    for (int r = 0; r < RANKS; r++) {
        assert_int_equal(seat[r].status, GAN_OK);
        assert_true(seat[r].threads >= 1);
    }
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_ranks_on_one_card_are_refused),
        cmocka_unit_test(cards_of_their_own_and_none_are_fine),
    };
    if (CASES_LISTED(tests))
        return 0;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
