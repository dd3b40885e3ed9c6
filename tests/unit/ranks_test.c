// ranks_test.c - what ranks exchange about each other: placement before the start, and straggler
// waits.
#define _GNU_SOURCE
#include "ranks.h"

#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <setjmp.h>
#include <string.h>

#include <cmocka.h>
#include "cases.h"

enum { RANKS = 3 };

typedef struct Seat {
    LocalRank seat;
    const char *gpu;
    bool share;
    int core; // the core it is bound to, if `bound`
    bool bound;
    int64_t asked;
    GanStatus status;
    DeviceOptions device; // what was chosen
    CommCores room;
    char error[512];
} Seat;

static void say_nothing(void *user, Str line) {
    (void)user, (void)line;
}

static void bind_to(int core) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(core, &set);
    sched_setaffinity(0, sizeof set, &set);
}

static void *preflight(void *user) {
    static const CommOptions limits = {.deadline = 20};
    static const Console console = {.result = say_nothing, .say = say_nothing, .live = say_nothing};
    Seat *s = user;
    Comm *c = NULL;
    Arena a;
    if (s->bound)
        bind_to(s->core);
    s->status = arena_init(&a, 0);
    if (s->status == GAN_OK)
        s->status = comm_open(&link_local, &s->seat, &limits, &c);
    if (s->status == GAN_OK)
        s->status = ranks_preflight(a, c, &console, s->asked, s->gpu, s->share, &s->device);
    s->room = comm_cores(c);
    snprintf(s->error, sizeof s->error, "%s", s->status == GAN_OK ? "" : gan_error());
    comm_close(c);
    arena_release(&a);
    return NULL;
}

static void run_seats(Seat *seat) {
    LocalHub *hub;
    pthread_t thread[RANKS];
    assert_int_equal(local_hub_new(RANKS, &hub), GAN_OK);
    for (int r = 0; r < RANKS; r++) {
        seat[r].seat = (LocalRank){hub, r};
        assert_int_equal(pthread_create(&thread[r], NULL, preflight, &seat[r]), 0);
    }
    for (int r = 0; r < RANKS; r++)
        pthread_join(thread[r], NULL);
    local_hub_free(hub);
}

static void run(Seat *seat, const char *const gpu[RANKS], bool share) {
    for (int r = 0; r < RANKS; r++)
        seat[r] = (Seat){.gpu = gpu[r], .share = share};
    run_seats(seat);
}

static void two_ranks_on_one_card_are_refused(void **state) {
    (void)state;
    Seat seat[RANKS];
    run(seat, (const char *const[]){"a card (GPU-1)", "a card (GPU-2)", "a card (GPU-1)"}, false);
    for (int r = 0; r < RANKS; r++) {
        assert_int_equal(seat[r].status, GAN_ERR_DEVICE);
        assert_non_null(strstr(seat[r].error, "ranks 0 and 2 on "));
        assert_non_null(strstr(seat[r].error, "one card, a card (GPU-1): "));
        assert_string_equal(seat[r].error, seat[0].error); // so that one rank can report for all
    }
}

static void ranks_with_distinct_cards_or_none_are_accepted(void **state) {
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
        assert_true(seat[r].device.threads >= 1);
        assert_int_equal(seat[r].device.peers, RANKS); // threads of one process are on one machine
        assert_int_equal(seat[r].device.peer, r);
    }
}

// --- cores ---------------------------------------------------------------------------------------

static void cores_are_shared_among_ranks_bound_to_them(void **state) {
    (void)state;
    Seat seat[RANKS];
    cpu_set_t set;
    assert_int_equal(sched_getaffinity(0, sizeof set, &set), 0);
    int64_t cores = CPU_COUNT(&set);
    for (int r = 0; r < RANKS; r++)
        seat[r] = (Seat){.gpu = "", .asked = cores};
    run_seats(seat);
    for (int r = 0; r < RANKS; r++)
        assert_int_equal(seat[r].room, CoresOversubscribed);
    if (cores < 2)
        skip();
    int core[2], n = 0;
    for (int i = 0; n < 2; i++)
        if (CPU_ISSET(i, &set))
            core[n++] = i;
    for (int r = 0; r < RANKS; r++) // one has the first core for itself
        seat[r] = (Seat){.gpu = "", .asked = 1, .bound = true, .core = core[r > 0]};
    run_seats(seat);
    assert_int_equal(seat[0].room, CoresFull);
    for (int r = 1; r < RANKS; r++)
        assert_int_equal(seat[r].room, CoresOversubscribed);
}

// --- who came late -------------------------------------------------------------------------------

static const double Held = 0.03; // seconds by which rank 0 arrives after the others

typedef struct Late {
    LocalRank seat;
    sem_t *come; // posted by every other rank just before it waits
    GanStatus status;
    double seconds, took;
} Late;

static void hold_back(sem_t *come) {
    for (int r = 1; r < RANKS; r++)
        sem_wait(come);
    for (double until = time_now() + Held; time_now() < until;)
        continue;
}

static GanStatus sum_late(Late *l, Comm *c, Arena scratch) {
    float x = 1;
    CommJob job = {.kind = CommSum, .dtype = DtF32, .wire = DtF32, .data = &x, .n = 1, .what = ""};
    double began = time_now();
    comm_trace(c, true);
    if (l->seat.rank == 0)
        hold_back(l->come);
    TRY(comm_start(c, &job));
    if (l->seat.rank != 0)
        sem_post(l->come);
    TRY(comm_wait(c, 0));
    l->took = time_now() - began;
    return trace_late(scratch, c, &l->seconds);
}

static void *late_main(void *user) {
    static const CommOptions limits = {.deadline = 20};
    Late *l = user;
    Comm *c = NULL;
    Arena a;
    l->status = arena_init(&a, 0);
    if (l->status == GAN_OK)
        l->status = comm_open(&link_local, &l->seat, &limits, &c);
    if (l->status == GAN_OK)
        l->status = sum_late(l, c, a);
    comm_close(c);
    arena_release(&a);
    return NULL;
}

// R - 1 of R ranks wait for the straggler: the mean is (R - 1) / R of its delay.
static void straggler_wait_is_reported(void **state) {
    (void)state;
    LocalHub *hub;
    pthread_t thread[RANKS];
    Late late[RANKS];
    sem_t come;
    sem_init(&come, 0, 0);
    assert_int_equal(local_hub_new(RANKS, &hub), GAN_OK);
    for (int r = 0; r < RANKS; r++) {
        late[r] = (Late){.seat = {hub, r}, .come = &come};
        assert_int_equal(pthread_create(&thread[r], NULL, late_main, &late[r]), 0);
    }
    for (int r = 0; r < RANKS; r++)
        pthread_join(thread[r], NULL);
    local_hub_free(hub);
    sem_destroy(&come);
    double longest = 0;
    for (int r = 0; r < RANKS; r++)
        longest = late[r].took > longest ? late[r].took : longest;
    for (int r = 0; r < RANKS; r++) {
        assert_int_equal(late[r].status, GAN_OK);
        assert_true(late[r].seconds == late[0].seconds); // the mean over all ranks
        assert_true(late[r].seconds > Held / 10); // the waiting ranks may have been delayed as well
        assert_true(late[r].seconds < longest);
    }
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_ranks_on_one_card_are_refused),
        cmocka_unit_test(ranks_with_distinct_cards_or_none_are_accepted),
        cmocka_unit_test(cores_are_shared_among_ranks_bound_to_them),
        cmocka_unit_test(straggler_wait_is_reported),
    };
    if (CASES_LISTED(tests))
        return 0;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
