// comm_test.c - results of collectives, over the loop-back link: ranks are threads of this
// program. With `--mpi PLUGIN`, under mpirun: this process is one rank, and the same tests run
// over MPI. With `--stopped PLUGIN`: one job, for tests/cli/ranks_points.sh.
//
// Required: sums, maxima and gathers equal what one rank would compute from all parts, with the
// same bits on all ranks and, for trees, on every number of ranks; compression loses nothing in
// the long run.
#define _GNU_SOURCE
#include "link_mpi.h"

#include "comm_ranks.h"
#include "cases.h"
#include <dirent.h>
#include <dlfcn.h>
#include <float.h>
#include <math.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

static double part(int rank, size_t i) { // rank's element i: no two sums are equal
    return sin(1 + (double)i * 0.7 + rank * 1.3) * (i % 3 == 0 ? 1e6 : 1);
}

// Timers are exact while a communicator is open, and then as they were.
static void the_callers_timers_are_its_own_again(void **state) {
    LocalHub *hub;
    Comm *c;
    (void)state;
    assert_int_equal(local_hub_new(1, &hub), GAN_OK);
    assert_int_equal(prctl(PR_SET_TIMERSLACK, 12345UL), 0);
    assert_int_equal(comm_open(&link_local, &(LocalRank){hub, 0}, &(CommOptions){0}, &c), GAN_OK);
    assert_int_equal(prctl(PR_GET_TIMERSLACK), 1);
    comm_close(c);
    assert_int_equal(prctl(PR_GET_TIMERSLACK), 12345);
    local_hub_free(hub);
}

// --- reductions ----------------------------------------------------------------------------------

typedef struct Reduction {
    CommKind kind;
    Dtype dtype, wire;
    size_t n;
    double result[MAX_COMM_RANKS][300]; // by rank
} Reduction;

static void reduce_body(Rank *r, Comm *c) {
    Reduction *x = r->user;
    double f64[300];
    float f32[300];
    for (size_t i = 0; i < x->n; i++)
        f32[i] = (float)(f64[i] = part(r->rank, i));
    void *data = x->dtype == DtF64 ? (void *)f64 : (void *)f32;
    CommJob job = {.kind = x->kind,
                   .dtype = x->dtype,
                   .wire = x->wire,
                   .data = data,
                   .n = x->n,
                   .what = "a test"};
    r->st = comm_start(c, &job);
    if (r->st == GAN_OK)
        r->st = comm_wait(c, 0);
    for (size_t i = 0; i < x->n; i++)
        x->result[r->rank][i] = x->dtype == DtF64 ? f64[i] : (double)f32[i];
}

static double expected(CommKind kind, int ranks, size_t i) {
    double sum = 0, most = -1e300;
    for (int r = 0; r < ranks; r++) {
        sum += part(r, i);
        most = part(r, i) > most ? part(r, i) : most;
    }
    return kind == CommMax ? most : sum;
}

static const struct {
    Dtype dtype, wire;
    double tolerance;
} reduced_types[] = {{DtF64, DtF64, 1e-14}, {DtF32, DtF32, 1e-6}, {DtF32, DtBF16, 8e-3}};
enum { REDUCED_TYPES = sizeof reduced_types / sizeof *reduced_types };

static void check_reduction(const Reduction *x, int rank, int ranks, double tolerance) {
    for (size_t i = 0; i < x->n; i++) {
        double want = expected(x->kind, ranks, i), size = 0;
        for (int r = 0; r < ranks; r++)
            size += fabs(part(r, i));
        if (!(fabs(x->result[rank][i] - want) <= tolerance * size))
            fail_msg("kind %d of %d ranks, element %zu: %.17g, not %.17g", (int)x->kind, ranks, i,
                     x->result[rank][i], want);
    }
}

static void reductions_are_right_and_equal_on_all_ranks(void **state) {
    (void)state;
    for (int ranks = 1; ranks <= MAX_COMM_RANKS; ranks++)
        for (int k = CommSum; k <= CommMax; k++)
            for (size_t t = 0; t < REDUCED_TYPES; t++) {
                static Reduction x;
                Rank rank[MAX_COMM_RANKS];
                x = (Reduction){.kind = (CommKind)k,
                                .dtype = reduced_types[t].dtype,
                                .wire = reduced_types[t].wire,
                                .n = 300 - (size_t)ranks};
                on_ranks(rank, ranks, reduce_body, (CommOptions){.deadline = 20}, &x);
                ranks_ok(rank, ranks);
                check_reduction(&x, 0, ranks, reduced_types[t].tolerance);
                for (int r = 1; r < ranks; r++)
                    assert_memory_equal(x.result[r], x.result[0], x.n * sizeof(double));
            }
}

// Four leaves held by 1, 2 or 4 ranks: the caller adds its subtree, the communicator the rest.
static void tree_body(Rank *r, Comm *c) {
    double *out = r->user;
    int leaves = 4 / comm_size(c);
    float x[64];
    for (size_t i = 0; i < 64; i++) {
        float leaf[4] = {0};
        for (int k = 0; k < leaves; k++)
            leaf[k] = (float)part(r->rank * leaves + k, i);
        for (int s = 1; s < leaves; s *= 2)
            for (int k = 0; k + s < leaves; k += 2 * s)
                leaf[k] += leaf[k + s];
        x[i] = leaf[0];
    }
    CommJob job = {
        .kind = CommTree, .dtype = DtF32, .wire = DtF32, .data = x, .n = 64, .what = "a tree"};
    r->st = comm_start(c, &job);
    if (r->st == GAN_OK)
        r->st = comm_wait(c, 0);
    for (size_t i = 0; r->rank == 0 && i < 64; i++)
        out[i] = (double)x[i];
}

static void a_tree_gives_the_same_bits_on_any_number_of_ranks(void **state) {
    (void)state;
    double one[64], some[64];
    Rank rank[MAX_COMM_RANKS];
    on_ranks(rank, 1, tree_body, (CommOptions){.deadline = 20}, one);
    for (int ranks = 2; ranks <= 4; ranks *= 2) {
        on_ranks(rank, ranks, tree_body, (CommOptions){.deadline = 20}, some);
        ranks_ok(rank, ranks);
        assert_memory_equal(one, some, sizeof one);
    }
}

static void narrow_body(Rank *r, Comm *c) {
    double *sum = r->user, mine = 0;
    for (uint32_t step = 0; r->st == GAN_OK && step < 1000; step++) {
        float x = 1e-3f; // not exact in bf16: an error of 2e-6
        CommJob job = {.kind = CommSum,
                       .dtype = DtF32,
                       .wire = DtBF16,
                       .data = &x,
                       .n = 1,
                       .step = step,
                       .what = "a narrow one"};
        r->st = comm_start(c, &job);
        if (r->st == GAN_OK)
            r->st = comm_wait(c, 0);
        mine += (double)x;
    }
    if (r->rank == 0)
        *sum = mine;
}

static void narrowed_body(Rank *r, Comm *c) {
    float few[4] = {0}, many[64], most[64];
    for (int i = 0; i < 64; i++)
        many[i] = most[i] = 1 + 0x1p-12f; // not exact in bf16
    few[0] = many[0];
    comm_compress(c, sizeof many);
    CommJob jobs[] = {
        {.dtype = DtF32, .wire = DtF32, .data = few, .n = 4},
        {.id = 1, .dtype = DtF32, .wire = DtF32, .data = many, .n = 64},
        {.id = 2, .kind = CommMax, .dtype = DtF32, .wire = DtF32, .data = most, .n = 64}};
    for (int i = 0; r->st == GAN_OK && i < 3; i++)
        r->st = comm_start(c, &jobs[i]);
    for (uint32_t i = 0; r->st == GAN_OK && i < 3; i++)
        r->st = comm_wait(c, i);
    if (few[0] != 2 * (1 + 0x1p-12f) || many[0] != 2 || most[0] != 1 + 0x1p-12f ||
        comm_stats(c).bytes != 4 * 4 + 64 * 2 + 64 * 4)
        *(bool *)r->user = true;
}

// A maximum has the same bits wherever it is kept, of zeros and numbers that are none too.
static void maxima_do_not_depend_on_who_keeps_them(void **state) {
    (void)state;
    static const float x[2][4] = {{0, -0.0f, NAN, 1}, {-0.0f, 0, 1, NAN}};
    float kept[2][4];
    for (size_t keep = 0; keep < 2; keep++) {
        float copy[2][4];
        void *part[2] = {copy[0], copy[1]};
        memcpy(copy, x, sizeof x);
        link_tree(CommMax, DtF32, part, 2, 4, keep);
        memcpy(kept[keep], copy[keep], sizeof *kept);
    }
    assert_memory_equal(kept[0], kept[1], sizeof *kept);
    assert_true(kept[0][2] != kept[0][2] && kept[0][3] != kept[0][3]);
}

static void large_sums_can_be_compressed(void **state) {
    (void)state;
    Rank rank[MAX_COMM_RANKS];
    bool wrong = false;
    on_ranks(rank, 2, narrowed_body, (CommOptions){.deadline = 20}, &wrong);
    ranks_ok(rank, 2);
    assert_false(wrong);
}

static void compression_error_is_fed_back(void **state) {
    (void)state;
    double sum = 0;
    Rank rank[MAX_COMM_RANKS];
    for (int n = 2; n <= 3; n++) {
        on_ranks(rank, n, narrow_body, (CommOptions){.deadline = 20}, &sum);
        ranks_ok(rank, n);
        assert_true(fabs(sum - n) < 2e-5 * n); // without error feedback: an error of 4e-3
    }
}

// The first sum is not finite, because one rank's part is not, or not in bf16; later sums are.
static void infinite_body(Rank *r, Comm *c) {
    static const float first[] = {INFINITY, NAN, FLT_MAX, -FLT_MAX, 1};
    enum { N = sizeof first / sizeof *first };
    for (uint32_t step = 0; r->st == GAN_OK && step < 3; step++) {
        float x[N];
        for (int i = 0; i < N; i++)
            x[i] = step == 0 && r->rank == 0 ? first[i] : 1;
        CommJob job = {.dtype = DtF32, .wire = DtBF16, .data = x, .n = N, .step = step};
        r->st = comm_start(c, &job);
        if (r->st == GAN_OK)
            r->st = comm_wait(c, 0);
        for (int i = 0; i < N; i++)
            if (step == 0 ? isfinite(x[i]) != (i == N - 1) : x[i] != (float)comm_size(c))
                *(bool *)r->user = true;
    }
}

static void compression_error_of_non_finite_values_is_dropped(void **state) {
    (void)state;
    Rank rank[MAX_COMM_RANKS];
    bool wrong = false;
    for (int n = 2; n <= 3; n++) {
        on_ranks(rank, n, infinite_body, (CommOptions){.deadline = 20}, &wrong);
        ranks_ok(rank, n);
        assert_false(wrong);
    }
}

// --- gathering, control --------------------------------------------------------------------------

static void gather_body(Rank *r, Comm *c) {
    enum { SAMPLES = 11, UNIT = 3 };
    double x[SAMPLES * UNIT] = {0};
    int first = SAMPLES * r->rank / comm_size(c), end = SAMPLES * (r->rank + 1) / comm_size(c);
    for (int i = first * UNIT; i < end * UNIT; i++)
        x[i] = (double)i + 0.5;
    CommJob job = {.kind = CommGather,
                   .dtype = DtF64,
                   .wire = DtF64,
                   .data = x,
                   .n = SAMPLES * UNIT,
                   .unit = UNIT,
                   .what = "a gather"};
    r->st = comm_start(c, &job);
    if (r->st == GAN_OK)
        r->st = comm_wait(c, 0);
    for (int i = 0; i < SAMPLES * UNIT; i++)
        if (x[i] != i + 0.5)
            *(bool *)r->user = true;
}

static void control_body(Rank *r, Comm *c) {
    int root = comm_size(c) - 1, mine = 100 + r->rank, all[MAX_COMM_RANKS], given = r->rank;
    bool any = false, none = true;
    r->st = comm_barrier(c);
    if (r->st == GAN_OK)
        r->st = comm_gather(c, &mine, sizeof mine, all);
    if (r->st == GAN_OK)
        r->st = comm_bcast(c, &given, sizeof given, root);
    if (r->st == GAN_OK)
        r->st = comm_any(c, r->rank == root, &any);
    if (r->st == GAN_OK)
        r->st = comm_any(c, false, &none);
    bool wrong = given != root || !any || none;
    for (int i = 0; i < comm_size(c); i++)
        wrong |= all[i] != 100 + i;
    if (wrong)
        *(bool *)r->user = true;
}

static void parts_and_control_messages_arrive(void **state) {
    (void)state;
    for (int ranks = 1; ranks <= MAX_COMM_RANKS; ranks++) {
        Rank rank[MAX_COMM_RANKS];
        bool wrong = false;
        on_ranks(rank, ranks, gather_body, (CommOptions){.deadline = 20}, &wrong);
        ranks_ok(rank, ranks);
        on_ranks(rank, ranks, control_body, (CommOptions){.deadline = 20}, &wrong);
        ranks_ok(rank, ranks);
        assert_false(wrong);
    }
}

static void no_communicator_is_one_rank(void **state) {
    (void)state;
    double x = 3;
    int one = 7, all = 0;
    bool any = false;
    CommJob job = {.dtype = DtF64, .wire = DtF64, .data = &x, .n = 1, .what = "nothing"};
    assert_int_equal(comm_size(NULL), 1);
    assert_int_equal(comm_start(NULL, &job), GAN_OK);
    assert_int_equal(comm_wait(NULL, 0), GAN_OK);
    assert_int_equal(comm_gather(NULL, &one, sizeof one, &all), GAN_OK);
    assert_int_equal(comm_any(NULL, true, &any), GAN_OK);
    assert_true(x == 3 && all == 7 && any);
}

// --- over MPI ------------------------------------------------------------------------------------

// The results of `body` must have the same bits on every rank.
static void same_everywhere(Comm *c, const void *mine, size_t bytes) {
    char *all = malloc(bytes * (size_t)comm_size(c));
    assert_int_equal(comm_gather(c, mine, bytes, all), GAN_OK);
    for (int r = 0; r < comm_size(c); r++)
        assert_memory_equal(all + (size_t)r * bytes, mine, bytes);
    free(all);
}

static void mpi_reductions(Rank *r, Comm *c) {
    for (int k = CommSum; k <= CommMax; k++)
        for (size_t t = 0; t < REDUCED_TYPES; t++) {
            static Reduction x;
            x = (Reduction){.kind = (CommKind)k,
                            .dtype = reduced_types[t].dtype,
                            .wire = reduced_types[t].wire,
                            .n = 300 - (size_t)comm_size(c)};
            r->user = &x;
            comm_reset_feedback(c);
            reduce_body(r, c);
            ranks_ok(r, 1);
            check_reduction(&x, r->rank, comm_size(c), reduced_types[t].tolerance);
            same_everywhere(c, x.result[r->rank], x.n * sizeof(double));
        }
}

// Concurrent sums of many sizes in both queues: sizes that ranks do not divide, and sizes around
// the limits at which a message is split, is no longer sent with the handshake, or is reduced in
// pieces.
static void sizes_body(Rank *r, Comm *c) {
    enum { MOST_OF = 4 * COMM_SMALL + 11 };
    static const size_t sizes[] = {
        MOST_OF, 1, 993, 994, 995, 1993, 1994, 1995, 4096, COMM_SMALL / 4, COMM_SMALL / 4 + 1};
    enum { SIZES = sizeof sizes / sizeof *sizes };
    static float x[SIZES][MOST_OF];
    static double y[MOST_OF];
    int size = comm_size(c);
    for (size_t i = 0; i < MOST_OF; i++) {
        y[i] = (double)(i % 1000) + r->rank;
        for (int k = 0; k < SIZES; k++)
            x[k][i] = (float)y[i];
    }
    for (uint32_t k = 0; r->st == GAN_OK && k <= SIZES; k++) {
        CommJob f32 = {.id = k,
                       .dtype = DtF32,
                       .wire = DtF32,
                       .data = x[k % SIZES],
                       .n = sizes[k % SIZES]},
                f64 = {.id = k, .dtype = DtF64, .wire = DtF64, .data = y, .n = MOST_OF};
        r->st = comm_start(c, k < SIZES ? &f32 : &f64);
    }
    for (uint32_t k = 0; r->st == GAN_OK && k <= SIZES; k++)
        r->st = comm_wait(c, k);
    for (size_t i = 0; i < MOST_OF; i++) {
        double want = (double)(size * (int)(i % 1000) + size * (size - 1) / 2);
        bool wrong = y[i] != want;
        for (int k = 0; k < SIZES; k++)
            wrong |= i < sizes[k] && (double)x[k][i] != want;
        *(bool *)r->user |= wrong;
    }
}

// Sums and gathers of several messages, and of several chunks, to the last element.
static void large_body(Rank *r, Comm *c) {
    enum { SUM = (1 << 22) + 5, GATHER = 5 << 19 }; // f32: 16 MiB and more; f64: 20 MiB
    int size = comm_size(c);
    float *x = malloc(SUM * sizeof *x);
    double *y = calloc(GATHER, sizeof *y);
    for (size_t i = 0; i < SUM; i++)
        x[i] = (float)(i % 1000) + (float)r->rank;
    for (size_t i = (size_t)GATHER * (size_t)r->rank / (size_t)size;
         i < (size_t)GATHER * ((size_t)r->rank + 1) / (size_t)size; i++)
        y[i] = (double)i;
    CommJob sum = {.dtype = DtF32, .wire = DtF32, .data = x, .n = SUM},
            gather = {.id = 1,
                      .kind = CommGather,
                      .dtype = DtF64,
                      .wire = DtF64,
                      .data = y,
                      .n = GATHER,
                      .unit = 1};
    r->st = comm_start(c, &sum);
    if (r->st == GAN_OK)
        r->st = comm_start(c, &gather);
    for (uint32_t id = 0; r->st == GAN_OK && id < 2; id++)
        r->st = comm_wait(c, id);
    bool wrong = false;
    for (size_t i = 0; i < SUM; i++)
        wrong |= x[i] != (float)(size * (int)(i % 1000) + size * (size - 1) / 2);
    for (size_t i = 0; i < GATHER; i++)
        wrong |= y[i] != (double)i;
    *(bool *)r->user |= wrong;
    free(x);
    free(y);
}

// All ranks start both jobs in one order, but some wait for the small one before they start the
// large one, while others already wait for the large one, as ranks with one sample more may do.
static void orders_body(Rank *r, Comm *c) {
    enum { LARGE_OF = COMM_SMALL / sizeof(float) + 1 };
    static float large[LARGE_OF];
    for (uint32_t step = 0; r->st == GAN_OK && step < 5; step++) {
        float small = (float)(r->rank + 1);
        bool at_once = (r->rank + step) % 2;
        for (size_t i = 0; i < LARGE_OF; i++)
            large[i] = small;
        CommJob first = {.id = 0, .dtype = DtF32, .wire = DtF32, .data = &small, .n = 1},
                second = {.id = 1, .dtype = DtF32, .wire = DtF32, .data = large, .n = LARGE_OF};
        r->st = comm_start(c, &first);
        if (r->st == GAN_OK && at_once)
            r->st = comm_wait(c, 0);
        if (r->st == GAN_OK)
            r->st = comm_start(c, &second);
        if (r->st == GAN_OK)
            r->st = comm_wait(c, 1);
        if (r->st == GAN_OK)
            r->st = comm_wait(c, 0);
        float want = (float)(comm_size(c) * (comm_size(c) + 1) / 2);
        *(bool *)r->user |= small != want || large[LARGE_OF - 1] != want;
    }
}

// --- cores ---------------------------------------------------------------------------------------

static int bound_threads(void) { // threads of this process bound to a single core
    int n = 0;
    DIR *d = opendir("/proc/self/task");
    for (struct dirent *e; d && (e = readdir(d));) {
        cpu_set_t set;
        pid_t tid = (pid_t)strtol(e->d_name, NULL, 10);
        n += tid > 0 && sched_getaffinity(tid, sizeof set, &set) == 0 && CPU_COUNT(&set) == 1;
    }
    if (d)
        closedir(d);
    return n;
}

typedef struct Rooms {
    CommCores room;
    int bound;
} Rooms;

static void rooms_body(Rank *r, Comm *c) {
    Rooms *x = r->user;
    comm_set_cores(c, x->room);
    r->st = comm_barrier(c); // all have finished binding, and wait
    if (r->st == GAN_OK && r->rank == 0)
        x->bound = bound_threads();
    if (r->st == GAN_OK)
        r->st = comm_barrier(c);
}

static void communication_threads_share_their_callers_cores_when_all_are_busy(void **state) {
    (void)state;
    cpu_set_t set;
    assert_int_equal(sched_getaffinity(0, sizeof set, &set), 0);
    if (CPU_COUNT(&set) < 2)
        skip();
    for (CommCores room = CoresOversubscribed; room <= CoresSpare; room++) {
        Rank rank[2];
        Rooms x = {.room = room, .bound = -1};
        on_ranks(rank, 2, rooms_body, (CommOptions){.deadline = 20}, &x);
        ranks_ok(rank, 2);
        assert_int_equal(x.bound, room == CoresFull ? 2 : 0);
    }
}

// Where the ranks are as if on two nodes (tests/support/fault.c): a hierarchical sum sends as many
// bytes between them as two ranks would.
static void crossing_body(Rank *r, Comm *c) {
    enum { MANY = 4 * COMM_SMALL };
    static double x[MANY];
    long long *crossed = dlsym(RTLD_DEFAULT, "gan_fault_crossed"), all[MAX_COMM_RANKS];
    if (!comm_nodes(c) || !crossed)
        return;
    CommJob job = {.dtype = DtF64, .wire = DtF64, .data = x, .n = MANY};
    long long before = *crossed, mine = 0, sum = 0;
    r->st = comm_start(c, &job);
    if (r->st == GAN_OK)
        r->st = comm_wait(c, 0);
    mine = *crossed - before;
    if (r->st == GAN_OK)
        r->st = comm_gather(c, &mine, sizeof mine, all);
    for (int i = 0; i < comm_size(c); i++)
        sum += all[i];
    *(bool *)r->user |= sum != 2 * (long long)sizeof x;
}

// A rank that waits for another is woken by its message: it does not look for it all the time.
static void asleep_body(Rank *r, Comm *c) {
    long long *read = dlsym(RTLD_DEFAULT, "gan_fault_read");
    struct rusage before, after;
    float x = 1;
    CommJob job = {.dtype = DtF32, .wire = DtF32, .data = &x, .n = 1};
    if (comm_nodes(c) || !read || *read == 0)
        return;
    r->st = comm_barrier(c);
    if (comm_rank(c) > 0)
        nanosleep(&(struct timespec){.tv_nsec = 400000000}, NULL);
    getrusage(RUSAGE_THREAD, &before);
    if (r->st == GAN_OK)
        r->st = comm_start(c, &job);
    if (r->st == GAN_OK)
        r->st = comm_wait(c, 0);
    getrusage(RUSAGE_THREAD, &after);
    *(bool *)r->user |= after.ru_nvcsw - before.ru_nvcsw > 800; // naps of half a millisecond
}

static Comm *open_mpi(const char *path, double deadline) {
    const LinkPlugin *plugin;
    Comm *c = NULL;
    MpiArg arg = {.host = &link_host};
    if (link_plugin_load(str_c(path), &plugin) != GAN_OK ||
        comm_open(plugin->api, &arg, &(CommOptions){.deadline = deadline}, &c) != GAN_OK)
        fail_msg("%s", gan_error());
    return c;
}

static void on_this_rank(void **state) {
    Comm *c = open_mpi(*state, 60);
    bool wrong = false;
    double sum = 0, tree[64];
    Rank r = {.rank = comm_rank(c)};
    comm_set_cores(c, CoresFull);
    assert_true(comm_size(c) <= MAX_COMM_RANKS);
    mpi_reductions(&r, c);
    static void (*const bodies[])(Rank *, Comm *) = {
        gather_body, control_body, sizes_body, orders_body, large_body, crossing_body, asleep_body};
    for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++) {
        r.user = &wrong;
        bodies[i](&r, c);
        ranks_ok(&r, 1);
        assert_false(wrong);
    }
    comm_reset_feedback(c);
    r.user = &sum;
    narrow_body(&r, c);
    ranks_ok(&r, 1);
    assert_true(r.rank != 0 || fabs(sum - comm_size(c)) < 2e-5 * comm_size(c));
    r.user = tree;
    if (4 % comm_size(c) == 0)
        tree_body(&r, c);
    ranks_ok(&r, 1);
    if (r.rank == 0)
        for (size_t i = 0; i < 64 && 4 % comm_size(c) == 0; i++)
            printf("%a\n", tree[i]);
    comm_close(c);
}

// The last rank stops inside a transfer (tests/support/fault.c). The first waits for it and ends,
// naming it; the caller of the others is busy.
static int run_stopped(const char *plugin) {
    static float x[COMM_SMALL];
    Comm *c = open_mpi(plugin, 3);
    CommJob job = {.dtype = DtF32, .wire = DtF32, .data = x, .n = COMM_SMALL, .step = 7};
    GanStatus st = comm_start(c, &job);
    while (st == GAN_OK && comm_rank(c) > 0)
        pause(); // until the launcher ends it
    if (st == GAN_OK)
        st = comm_wait(c, 0);
    fprintf(stderr, "rank %d: %s\n", comm_rank(c), gan_error());
    _Exit(gan_exit_code(st));
}

static int run_on_ranks(char *plugin) {
    const struct CMUnitTest tests[] = {cmocka_unit_test_prestate(on_this_rank, plugin)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

int main(int argc, char **argv) {
    if (argc == 3 && !strcmp(argv[1], "--mpi"))
        return run_on_ranks(argv[2]);
    if (argc == 3 && !strcmp(argv[1], "--stopped"))
        return run_stopped(argv[2]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reductions_are_right_and_equal_on_all_ranks),
        cmocka_unit_test(communication_threads_share_their_callers_cores_when_all_are_busy),
        cmocka_unit_test(a_tree_gives_the_same_bits_on_any_number_of_ranks),
        cmocka_unit_test(maxima_do_not_depend_on_who_keeps_them),
        cmocka_unit_test(large_sums_can_be_compressed),
        cmocka_unit_test(compression_error_is_fed_back),
        cmocka_unit_test(compression_error_of_non_finite_values_is_dropped),
        cmocka_unit_test(parts_and_control_messages_arrive),
        cmocka_unit_test(no_communicator_is_one_rank),
        cmocka_unit_test(the_callers_timers_are_its_own_again),
    };
    if (CASES_LISTED(tests))
        return 0;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
