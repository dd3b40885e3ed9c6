// comm_faults_test.c - ranks that do not start, that end, or that request another operation, over
// the loop-back link.
//
// Required: all other ranks end soon, with a message that names the rank and the cause; a broken
// communicator stays broken.
#define _GNU_SOURCE
#include "comm_ranks.h"
#include "cases.h"
#include "comm_link.h"
#include <semaphore.h>
#include <string.h>
#include <time.h>

static CommJob faulty_job(float *x) {
    return (CommJob){.id = 4,
                     .kind = CommSum,
                     .dtype = DtF32,
                     .wire = DtF32,
                     .data = x,
                     .n = 1,
                     .step = 12,
                     .what = "bucket 4 (model.gan:9)"};
}

// Rank 1 is idle until rank 0 has given up.
static void late_body(Rank *r, Comm *c) {
    float x = 1;
    CommJob job = faulty_job(&x);
    if (r->rank == 1) {
        sem_wait(r->user);
        return;
    }
    r->st = comm_start(c, &job);
    if (r->st == GAN_OK)
        r->st = comm_wait(c, job.id);
    GanStatus again = comm_barrier(c); // broken for good, with the first reason
    if (again != r->st || !strstr(gan_error(), "bucket 4"))
        r->st = GAN_OK;
    sem_post(r->user);
}

static void a_missing_rank_is_named(void **state) {
    (void)state;
    Rank rank[MAX_COMM_RANKS];
    sem_t given_up;
    sem_init(&given_up, 0, 0);
    double began = time_now();
    on_ranks(rank, 2, late_body, (CommOptions){.deadline = 0.2}, &given_up);
    sem_destroy(&given_up);
    assert_int_equal(rank[0].st, GAN_ERR_DEVICE);
    assert_non_null(strstr(rank[0].why, "step 12, bucket 4 (model.gan:9)"));
    assert_non_null(strstr(rank[0].why, "rank 1 did not come"));
    assert_true(time_now() - began < 5);
}

static void leaving_body(Rank *r, Comm *c) {
    float x = 1;
    r->spoken = r->user;
    CommJob job = faulty_job(&x);
    if (r->rank == 1) {
        r->st = (fail)(GAN_ERR_IO, "the disk is full");
        return;
    }
    r->st = comm_start(c, &job);
    if (r->st == GAN_OK)
        r->st = comm_wait(c, job.id);
}

static void others_learn_that_a_rank_ended(void **state) {
    (void)state;
    Rank rank[MAX_COMM_RANKS];
    on_ranks(rank, 3, leaving_body, (CommOptions){.deadline = 20}, NULL);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(rank[i].st, GAN_ERR_IO); // all end with the same exit code
        assert_false(rank[i].all);                // each reports an error of its own
        if (i != 1)
            assert_non_null(strstr(rank[i].why, "another rank ended"));
    }
}

static void stopping_body(Rank *r, Comm *c) {
    float x = 1;
    CommJob job = faulty_job(&x);
    if (r->rank == 1) {
        r->st = (fail)(GAN_STOPPED, "asked to stop");
        return;
    }
    r->st = comm_start(c, &job);
    if (r->st == GAN_OK)
        r->st = comm_wait(c, job.id);
}

// The error with the largest code wins: the other ranks send FINAL in the queue they do not wait
// in, so no deadline has to expire.
static void a_rank_that_stops_alone_does_not_block_the_others(void **state) {
    (void)state;
    Rank rank[MAX_COMM_RANKS];
    double began = time_now();
    on_ranks(rank, 3, stopping_body, (CommOptions){.deadline = 20}, NULL);
    for (int i = 0; i < 3; i++)
        assert_false(rank[i].all);
    assert_non_null(strstr(rank[0].why, "another rank ended"));
    assert_true(time_now() - began < 4);
}

// Launchers end all ranks as soon as one has ended.
static void no_rank_exits_before_all_have_reported(void **state) {
    (void)state;
    for (int round = 0; round < 20; round++) {
        Rank rank[MAX_COMM_RANKS];
        atomic_int spoken = 0;
        on_ranks(rank, 3, leaving_body, (CommOptions){.deadline = 20}, &spoken);
        for (int i = 0; i < 3; i++)
            assert_int_equal(rank[i].before, 3);
    }
}

static void agreeing_body(Rank *r, Comm *c) {
    (void)c;
    r->st = (fail)(GAN_ERR_USAGE, "no such option");
}

static void ranks_that_fail_alike_know_it(void **state) {
    (void)state;
    Rank rank[MAX_COMM_RANKS];
    on_ranks(rank, 3, agreeing_body, (CommOptions){.deadline = 20}, NULL);
    for (int i = 0; i < 3; i++)
        assert_true(rank[i].all);
}

static void differing_body(Rank *r, Comm *c) {
    float x[2] = {1, 2};
    CommJob job = faulty_job(x);
    job.n = r->rank == 2 ? 2 : 1;
    r->st = comm_start(c, &job);
    if (r->st == GAN_OK)
        r->st = comm_wait(c, job.id);
}

static void ranks_that_disagree_never_mix_data(void **state) {
    (void)state;
    Rank rank[MAX_COMM_RANKS];
    on_ranks(rank, 3, differing_body, (CommOptions){.deadline = 20}, NULL);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(rank[i].st, GAN_ERR_BUG);
        assert_non_null(strstr(rank[i].why, "not at the same place"));
    }
}

static void null_body(Rank *r, Comm *c) {
    float x = (float)r->rank;
    CommJob job = faulty_job(&x);
    r->st = comm_start(c, &job);
    if (r->st == GAN_OK)
        r->st = comm_wait(c, job.id);
    bool any = false;
    if (r->st == GAN_OK)
        r->st = comm_any(c, r->rank == 1, &any); // control messages still work
    if (x != (float)r->rank || !any)
        *(bool *)r->user = true;
}

static void a_null_communicator_leaves_data_alone(void **state) {
    (void)state;
    Rank rank[MAX_COMM_RANKS];
    bool wrong = false;
    on_ranks(rank, 2, null_body, (CommOptions){.deadline = 20, .null = true}, &wrong);
    ranks_ok(rank, 2);
    assert_false(wrong);
    Comm *c;
    NullRank seat = {3, 8};
    assert_int_equal(comm_open(&link_null, &seat, &(CommOptions){0}, &c), GAN_OK);
    assert_int_equal(comm_rank(c), 3);
    assert_int_equal(comm_size(c), 8);
    assert_int_equal(comm_barrier(c), GAN_OK);
    comm_close(c);
}

// A link whose first queue breaks while the caller is inside the second.
typedef struct TornLink {
    Link link;
    sem_t inside, closed;
    bool used; // after it was closed
} TornLink;

static GanStatus torn_open(void *arg, Link **out) {
    TornLink *t = arg;
    t->link = (Link){.size = 2};
    *out = &t->link;
    return GAN_OK;
}

static void torn_close(Link *l, bool orderly) {
    (void)orderly;
    if (l)
        sem_post(&((TornLink *)l)->closed);
}

static GanStatus torn_post(Link *l, const Handshake *hs) {
    (void)l, (void)hs;
    return GAN_OK;
}

static GanStatus torn_wait(Link *l, const Handshake *hs, uint64_t least_most[2], bool *waited) {
    TornLink *t = (TornLink *)l;
    (void)least_most, (void)waited;
    if (hs->queue == 0) {
        sem_wait(&t->inside);
    } else {
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_sec++;
        sem_post(&t->inside);
        t->used = sem_timedwait(&t->closed, &until) == 0;
    }
    return (fail)(GAN_ERR_DEVICE, "queue %u is torn", hs->queue);
}

static void a_link_in_use_is_not_closed(void **state) {
    static const LinkApi torn = {.talks = true,
                                 .open = torn_open,
                                 .close = torn_close,
                                 .post = torn_post,
                                 .wait = torn_wait};
    static float x[COMM_SMALL];
    (void)state;
    TornLink t = {0};
    Comm *c;
    CommJob large = faulty_job(x), small = faulty_job(x);
    large.id = 0;
    large.n = COMM_SMALL;
    sem_init(&t.inside, 0, 0);
    sem_init(&t.closed, 0, 0);
    assert_int_equal(comm_open(&torn, &t, &(CommOptions){.deadline = 20}, &c), GAN_OK);
    assert_int_equal(comm_start(c, &large), GAN_OK);
    assert_int_equal(comm_start(c, &small), GAN_OK);
    assert_int_equal(comm_wait(c, small.id), GAN_ERR_DEVICE);
    assert_non_null(strstr(gan_error(), "queue 0 is torn"));
    assert_false(t.used);
    comm_leave(c, GAN_ERR_DEVICE);
    comm_disconnect(c);
    assert_int_equal(sem_trywait(&t.closed), 0);
    sem_destroy(&t.inside);
    sem_destroy(&t.closed);
}

// A link that never returns from a transfer, as a library might that cannot reach a rank.
static GanStatus hung_open(void *arg, Link **out) {
    *(Link *)arg = (Link){.size = 2};
    *out = arg;
    return GAN_OK;
}

static void hung_close(Link *l, bool orderly) {
    (void)l, (void)orderly;
}

static GanStatus hung_wait(Link *l, const Handshake *hs, uint64_t least_most[2], bool *waited) {
    (void)l, (void)waited;
    least_most[0] = least_most[1] = hs->fingerprint;
    return GAN_OK;
}

static sem_t never;

static GanStatus hung_reduce(Link *l, CommKind kind, Dtype dtype, void *data, size_t n,
                             float *lost) {
    (void)l, (void)kind, (void)dtype, (void)data, (void)n, (void)lost;
    sem_wait(&never);
    return GAN_OK;
}

static void a_transport_that_does_not_return_ends_the_rank(void **state) {
    static const LinkApi hung = {.name = "hung",
                                 .talks = true,
                                 .open = hung_open,
                                 .close = hung_close,
                                 .post = torn_post,
                                 .wait = hung_wait,
                                 .reduce = hung_reduce};
    static float x[COMM_SMALL];
    static Link link;
    (void)state;
    Comm *c;
    CommJob job = faulty_job(x);
    job.n = COMM_SMALL;
    sem_init(&never, 0, 0);
    assert_int_equal(comm_open(&hung, &link, &(CommOptions){.deadline = 0.1}, &c), GAN_OK);
    assert_int_equal(comm_start(c, &job), GAN_OK);
    assert_int_equal(comm_wait(c, job.id), GAN_ERR_DEVICE);
    assert_non_null(strstr(gan_error(), "step 12, bucket 4 (model.gan:9)"));
    assert_non_null(strstr(gan_error(), "hung does not return"));
    assert_false(comm_leave(c, GAN_ERR_DEVICE));
    comm_disconnect(c); // leaves its thread behind
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_missing_rank_is_named),
        cmocka_unit_test(others_learn_that_a_rank_ended),
        cmocka_unit_test(a_rank_that_stops_alone_does_not_block_the_others),
        cmocka_unit_test(no_rank_exits_before_all_have_reported),
        cmocka_unit_test(ranks_that_fail_alike_know_it),
        cmocka_unit_test(ranks_that_disagree_never_mix_data),
        cmocka_unit_test(a_null_communicator_leaves_data_alone),
        cmocka_unit_test(a_link_in_use_is_not_closed),
        cmocka_unit_test(a_transport_that_does_not_return_ends_the_rank),
    };
    if (CASES_LISTED(tests))
        return 0;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
