// host_ranks_test.c - ranks on GPUs, with a mock driver and NCCL (record.h): every model's
// all-reduces on a stream of their own without a race or a leak, captured in graphs or handed to
// the host's link in the plan's order; and what happens when a rank is lost.
//
// The other rank is simulated: it joins every synchronization, adds nothing, and reports
// about itself what the test specifies.
#include "host_run.h"
#include "comm_link.h"
#include "trial.h"

#include <setjmp.h>
#include <cmocka.h>
#include "cases.h"
#include <string.h>

#define MODELS ROOT_DIR "/models"

// --- another rank --------------------------------------------------------------------------------

typedef struct Pretence {
    Link link;
    bool gone;                  // it joins no handshake
    VEC(size_t) summed[QUEUES]; // elements of every job, in order: a list for each thread
    Arena arena[QUEUES];
} Pretence;

static Pretence *other; // of the open communicator

static GanStatus other_open(void *arg, Link **out) {
    other = arg;
    *out = &other->link;
    return GAN_OK;
}

static void other_close(Link *l, bool orderly) {
    (void)l, (void)orderly;
}

static GanStatus other_post(Link *l, const Handshake *hs) {
    Pretence *p = (Pretence *)l;
    if (hs->n)
        vec_push(&p->arena[hs->queue], &p->summed[hs->queue], hs->n);
    return GAN_OK;
}

static GanStatus other_wait(Link *l, const Handshake *hs, uint64_t least_most[2], bool *waited) {
    const Pretence *p = (const Pretence *)l;
    (void)waited;
    least_most[0] = least_most[1] = hs->fingerprint;
    return p->gone ? (fail)(GAN_ERR_DEVICE, "rank 1 on otherhost does not answer") : GAN_OK;
}

static GanStatus other_reduce(Link *l, CommKind kind, Dtype dtype, void *data, size_t n,
                              float *lost) {
    Pretence *p = (Pretence *)l;
    (void)kind, (void)dtype, (void)data, (void)lost;
    vec_push(&p->arena[0], &p->summed[0], n);
    return GAN_OK;
}

static GanStatus other_gather(Link *l, void *data, const size_t *from) {
    char *mine = data;
    (void)l;
    memcpy(mine + from[1], mine, from[1]); // both are on the same host
    return GAN_OK;
}

static GanStatus other_bcast(Link *l, void *data, size_t bytes, int root) {
    (void)l, (void)data, (void)bytes, (void)root;
    return GAN_OK;
}

static const LinkApi pretended = {.name = "pretended",
                                  .talks = true,
                                  .open = other_open,
                                  .close = other_close,
                                  .post = other_post,
                                  .wait = other_wait,
                                  .reduce = other_reduce,
                                  .gather = other_gather,
                                  .bcast = other_bcast};

typedef struct Ranks {
    Pretence other;
    Comm *comm;
    DeviceOptions device;
    Parallel parallel;
} Ranks;

static void ranks_open(Ranks *r, CardRoute route, const CommOptions *o) {
    *r = (Ranks){.other.link = {.size = 2}, .parallel = {.ranks = 2}};
    for (int i = 0; i < QUEUES; i++)
        assert_fine(arena_init(&r->other.arena[i], (size_t)1 << 24));
    assert_fine(comm_open(&pretended, &r->other, o, &r->comm));
    r->device = (DeviceOptions){.threads = 1, .comm = r->comm, .route = route};
}

static void ranks_close(Ranks *r) {
    comm_close(r->comm);
    for (int i = 0; i < QUEUES; i++)
        arena_release(&r->other.arena[i]);
}

// --- every model ---------------------------------------------------------------------------------

static bool is_sum(const Work *w) {
    return w->kind == WorkLibrary && !strcmp(w->name, "ncclAllReduce");
}

// Calls a step makes: one of a block that runs several times counts as often.
static uint32_t count_sums(const Recorder *r, uint32_t *recorded) {
    const WorkVec *w = recorder_work(r);
    uint32_t n = 0;
    *recorded = 0;
    for (uint32_t i = 0; i < w->n; i++)
        if (is_sum(&w->at[i])) {
            n++;
            *recorded += w->at[i].recorded;
        }
    return n;
}

static GanStatus init_and_steps(Run *run, const DeviceOptions *o, uint32_t steps) {
    TRY(open_run(run, o));
    TRY(exec_init(run->exec, 7));
    return do_steps(run, 0, steps);
}

// All-reduces run on a stream of their own, with higher priority than kernels.
static void check_streams(const Recorder *r, const char *what) {
    const WorkVec *w = recorder_work(r);
    CUstream sums = NULL;
    for (uint32_t i = 0; i < w->n; i++)
        sums = is_sum(&w->at[i]) ? w->at[i].stream : sums;
    for (uint32_t i = 0; i < w->n; i++)
        if (w->at[i].kind != WorkCopy && (w->at[i].stream == sums) != is_sum(&w->at[i]))
            fail_msg("%s: %s is on the stream of the sums", what, w->at[i].name);
        else if (is_sum(&w->at[i]) != (recorder_priority(w->at[i].stream) < 0))
            fail_msg("%s: the priority of the stream of %s is %d", what, w->at[i].name,
                     recorder_priority(w->at[i].stream));
}

// Are some calls not made in every step?
static bool leaves_out(const Func *f) {
    for (uint32_t i = 0; i < f->tape.n; i++)
        if (f->tape.at[i].kind == CtlEvery || f->tape.at[i].kind == CtlIf)
            return true;
    return false;
}

static void check_model(Str name, CardRoute route, bool no_graph) {
    Ranks ranks;
    ranks_open(&ranks, route, &(CommOptions){0});
    ranks.device.no_graph = no_graph;
    Run *run = new_run(MODELS, name, DtF32, &ranks.parallel);
    const char *z = str_z(&run->arena, name);
    const Plan *step = &run->compiled.step;
    uint32_t calls = step->collective.n, recorded;
    uint32_t least = leaves_out(step->func) ? 3 : 3 * calls; // in three steps
    if (init_and_steps(run, &ranks.device, 3) != GAN_OK)
        fail_msg("%s: %s", z, gan_error());
    assert_true(calls > 0);
    uint32_t sums = count_sums(run->r, &recorded);
    if (route == RouteNccl) {
        if (sums < least)
            fail_msg("%s: %u sums in three steps, not %u", z, sums, least);
        assert_true(no_graph ? !recorded : recorded > 0);
        check_streams(run->r, z);
    } else {
        assert_int_equal(sums, 0);
        assert_true(ranks.other.summed[0].n + ranks.other.summed[1].n >= least);
    }
    if (!no_graph)
        assert_true(recorder_launched_graphs(run->r) > 0);
    close_run(run);
    assert_clean(run->r, z);
    free_run(run);
    ranks_close(&ranks);
}

static void every_model(CardRoute route) {
    Arena a;
    StrVec names = {0};
    uint32_t n = 0;
    assert_fine(arena_init(&a, 0));
    assert_fine(dir_list(&a, STR(MODELS), &names));
    for (uint32_t i = 0; i < names.n; i++)
        if (str_ends(names.at[i], STR(".gan")))
            check_model(names.at[i], route, n++ % 3 == 2);
    assert_true(n >= 10);
    arena_release(&a);
}

static void every_model_reduces_on_its_own_stream(void **state) {
    (void)state;
    every_model(RouteNccl);
}

static void every_model_reduces_through_the_host(void **state) {
    (void)state;
    every_model(RouteStaged);
}

// --- order ---------------------------------------------------------------------------------------

static Run *tiny_on(const Ranks *ranks) {
    return new_run(TEST_DIR "/cli", STR("tiny.gan"), DtF32, &ranks->parallel);
}

// The link gets calls in the plan's order, whatever the host has to wait for first.
static void the_link_is_given_calls_in_their_order(void **state) {
    (void)state;
    for (int wait = 0; wait < 2; wait++) {
        Ranks ranks;
        ranks_open(&ranks, RouteStaged, &(CommOptions){.wait = wait});
        Run *run = new_run(MODELS, STR("dcgan.gan"), DtF32, &ranks.parallel);
        const Plan *p = &run->compiled.step;
        assert_fine(init_and_steps(run, &ranks.device, 3));
        assert_true(p->collective.n > 2);
        uint32_t at[QUEUES] = {0};
        for (uint32_t i = 0; i < 3 * p->collective.n; i++) {
            const Collective *c = &p->collective.at[i % p->collective.n];
            int queue = c->bytes <= COMM_SMALL;
            assert_true(at[queue] < ranks.other.summed[queue].n);
            assert_int_equal(ranks.other.summed[queue].at[at[queue]++],
                             c->bytes / dtype_size[c->dtype]);
        }
        for (int i = 0; i < QUEUES; i++)
            assert_int_equal(ranks.other.summed[i].n, at[i]);
        close_run(run);
        assert_clean(run->r, "dcgan");
        free_run(run);
        ranks_close(&ranks);
    }
}

// Without the events between streams the recorder reports races of all-reduces with producers and
// consumers, inside captured graphs too.
static void an_unordered_all_reduce_is_detected(void **state) {
    (void)state;
    for (int no_graph = 0; no_graph < 2; no_graph++) {
        Ranks ranks;
        ranks_open(&ranks, RouteNccl, &(CommOptions){0});
        ranks.device.no_graph = no_graph;
        Run *run = tiny_on(&ranks);
        assert_fine(init_and_steps(run, &ranks.device, 4));
        assert_null(recorder_complaint(run->r));
        recorder_mishap(run->r, MishapDropWaits, 0);
        Counters c = {.step = 4, .seed = 7};
        assert_fine(exec_step(run->exec, &c, NULL));
        assert_non_null(recorder_complaint(run->r));
        assert_non_null(strstr(recorder_complaint(run->r), "ncclAllReduce"));
        assert_fine(exec_wait(run->exec));
        close_run(run);
        free_run(run);
        ranks_close(&ranks);
    }
}

// Ranks that capture their sums must all do the same: none goes on by itself without graphs.
static void a_rank_that_cannot_capture_its_sums_ends(void **state) {
    (void)state;
    static const char *const instead[] = {"--no-branches may help", "--no-graph may help"};
    for (int chain = 0; chain < 2; chain++) {
        Ranks ranks;
        ranks_open(&ranks, RouteNccl, &(CommOptions){0});
        ranks.device.no_branches = chain;
        Run *run = tiny_on(&ranks);
        recorder_mishap(run->r, MishapNoCapture, 0);
        assert_int_equal(init_and_steps(run, &ranks.device, 3), GAN_ERR_DEVICE);
        assert_non_null(strstr(gan_error(), "capturing a graph failed"));
        assert_non_null(strstr(gan_error(), instead[chain]));
        close_run(run);
        assert_clean(run->r, "a rank without graphs");
        free_run(run);
        ranks_close(&ranks);
    }
}

// A model that each rank computes for itself, such as that of --features, joins nobody.
static void a_device_that_sums_nothing_opens_no_communicator(void **state) {
    (void)state;
    for (int without = 0; without < 2; without++) {
        Ranks ranks;
        ranks_open(&ranks, RouteNccl, &(CommOptions){0});
        ranks.parallel.ranks = without ? 1 : 2;
        ranks.device.no_sums = without;
        Run *run = tiny_on(&ranks);
        assert_fine(init_and_steps(run, &ranks.device, 3));
        assert_int_equal(record_nccl_live(), !without);
        close_run(run);
        assert_clean(run->r, "a device that sums nothing");
        free_run(run);
        ranks_close(&ranks);
    }
}

// --- refusals ------------------------------------------------------------------------------------

static void options_nccl_cannot_do_are_refused(void **state) {
    (void)state;
    static const char *const says[] = {"--deterministic", "--compress",
                                       "NCCL cannot be used: no such file"};
    for (int i = 0; i < 3; i++) {
        Ranks ranks;
        ranks_open(&ranks, RouteNccl, &(CommOptions){0});
        ranks.parallel.chunks = i == 0 ? 2 : 0;
        comm_compress(ranks.comm, i == 1 ? 1024 : 0);
        Run *run = tiny_on(&ranks);
        CudaApi without = *recorder_api(run->r);
        without.nccl = NULL;
        without.no_nccl = "no such file";
        GanStatus st;
        if (i == 2) {
            Device *d = NULL;
            st = cuda_open_with(&without, &ranks.device, &d);
        } else {
            st = init_and_steps(run, &ranks.device, 1);
        }
        assert_true(st != GAN_OK);
        if (!strstr(gan_error(), says[i]) || !strstr(gan_error(), "--comm staged"))
            fail_msg("not `%s`: %s", says[i], gan_error());
        if (i < 2)
            close_run(run);
        assert_clean(run->r, says[i]);
        free_run(run);
        ranks_close(&ranks);
    }
}

// --- ranks that are gone -------------------------------------------------------------------------

// An all-reduce never finishes on the device: the link's error, the library's, or the deadline ends
// the wait, and NCCL is aborted so that its kernels end.
static void a_lost_rank_ends_the_wait(void **state) {
    (void)state;
    static const char *const says[] = {"rank 1 on otherhost does not answer",
                                       "remote process exited",
                                       "waiting for other ranks takes more than 0.2 s, and all"};
    for (int i = 0; i < 3; i++) {
        Ranks ranks;
        ranks_open(&ranks, RouteNccl, &(CommOptions){.deadline = 0.2});
        Run *run = tiny_on(&ranks);
        assert_fine(init_and_steps(run, &ranks.device, 2));
        Counters c = {.step = 2, .seed = 7};
        assert_fine(exec_step(run->exec, &c, NULL));
        recorder_mishap(run->r, i == 1 ? MishapRemote : MishapHang, 0);
        ranks.other.gone = i == 0;
        if (i == 0)
            assert_int_equal(comm_barrier(ranks.comm), GAN_ERR_DEVICE);
        assert_int_equal(exec_wait(run->exec), GAN_ERR_DEVICE);
        if (!strstr(gan_error(), says[i]))
            fail_msg("not `%s`: %s", says[i], gan_error());
        assert_int_equal(record_nccl_aborted(), 1);
        recorder_mishap(run->r, MishapNone, 0);
        assert_int_equal(exec_step(run->exec, &c, NULL) == GAN_OK, false);
        close_run(run);
        assert_clean(run->r, says[i]);
        free_run(run);
        ranks_close(&ranks);
    }
}

// How a rank is not there where the library connects the ranks: it does not come to the link
// either, or it waits there, as one that hangs in the library does.
static void check_absent(bool first_sum, bool gone) {
    const char *says = gone ? "rank 1 on otherhost does not answer"
                       : first_sum
                           ? "starting a sum over the ranks takes more than 0.2 s, and all ranks"
                           : "joining the ranks takes more than 0.2 s, and all ranks answer";
    Ranks ranks;
    ranks_open(&ranks, RouteNccl, &(CommOptions){.deadline = 0.2});
    Run *run = tiny_on(&ranks);
    if (first_sum) {
        assert_fine(open_run(run, &ranks.device));
        assert_fine(exec_init(run->exec, 7));
    }
    recorder_mishap(run->r, MishapAbsent, 0);
    ranks.other.gone = gone;
    double began = time_now();
    GanStatus st = first_sum ? do_steps(run, 0, 1) : open_run(run, &ranks.device);
    assert_int_equal(st, GAN_ERR_DEVICE);
    if (!strstr(gan_error(), says))
        fail_msg("not `%s`: %s", says, gan_error());
    close_run(run);
    assert_true(time_now() - began < 10);
    assert_int_equal(record_nccl_aborted(), first_sum || !gone);
    assert_clean(run->r, says);
    free_run(run);
    ranks_close(&ranks);
}

static void a_rank_that_never_arrives_is_not_waited_for(void **state) {
    (void)state;
    for (int first_sum = 0; first_sum < 2; first_sum++)
        for (int gone = 0; gone < 2; gone++)
            check_absent(first_sum, gone);
}

// A rank fails by itself while the communicator works and the other ranks are inside an all-reduce
// that waits for it: the library does not return before they end, even if this rank aborts first.
static void a_rank_that_ends_alone_does_not_wait_for_the_others(void **state) {
    (void)state;
    for (int aborts = 0; aborts < 2; aborts++) {
        Ranks ranks;
        ranks_open(&ranks, RouteNccl, &(CommOptions){.deadline = 0.2});
        Run *run = tiny_on(&ranks);
        assert_fine(init_and_steps(run, &ranks.device, 2));
        ranks.other.gone = aborts;
        assert_int_equal(comm_barrier(ranks.comm) == GAN_OK, !aborts);
        recorder_mishap(run->r, MishapStuckEnd, 0);
        close_run(run);
        assert_int_equal(record_nccl_live(), 1);
        assert_int_equal(recorder_live(run->r),
                         2); // the stuck communicator, and the context that it uses
        record_nccl_others_end();
        assert_int_equal(record_nccl_aborted(), aborts);
        assert_int_equal(recorder_live(run->r), 1);
        assert_null(recorder_complaint(run->r));
        free_run(run);
        ranks_close(&ranks);
    }
}

// Computation on weights alone is replicated on all ranks: the engine must not depend on timing,
// nor on workspace that depends on a rank's samples. The mock library has no engine without
// workspace.
static const char power[] = "model power\n"
                            "data x : float(8) scale(-1, 1)\n"
                            "net D(x: [8]) -> [] {\n"
                            "  state m : [6, 6] = 1\n"
                            "  m := einsum(\"ab,bc->ac\", m, m)\n"
                            "  x |> dense(8) |> dense(1) |> squeeze }\n"
                            "opt = adam(lr=1e-3)\n"
                            "step { update D minimize mean(D(x)^2) using opt }\n";

// Library calls with a result of this many bytes.
static uint32_t library_makes(const Recorder *r, size_t bytes) {
    const WorkVec *w = recorder_work(r);
    uint32_t n = 0;
    for (uint32_t i = 0; i < w->n; i++)
        for (uint32_t k = 0; w->at[i].kind == WorkLibrary && k < w->at[i].access.n; k++)
            n += w->at[i].access.at[k].write && w->at[i].access.at[k].n == bytes;
    return n;
}

static void replicated_products_use_no_timed_engine(void **state) {
    (void)state;
    for (int many = 0; many < 2; many++) {
        const DeviceOptions one = {.threads = 1};
        Ranks ranks;
        ranks_open(&ranks, RouteNccl, &(CommOptions){0});
        Run *run = new_bare();
        compile_model(run, "power.gan", STR(power), DtF32, many ? &ranks.parallel : NULL);
        assert_fine(init_and_steps(run, many ? &ranks.device : &one, 1));
        assert_true((library_makes(run->r, 6 * 6 * sizeof(float)) == 0) == many);
        close_run(run);
        assert_clean(run->r, "power");
        free_run(run);
        ranks_close(&ranks);
    }
}

// As in host_failure_test.c, with both kinds of communication.
static void sweep(CardRoute route, Mishap mishap) {
    Ranks ranks;
    ranks_open(&ranks, route, &(CommOptions){0});
    sweep_calls(tiny_on(&ranks), &ranks.device, mishap, init_and_steps);
    ranks_close(&ranks);
}

static void an_error_at_any_call_ends_cleanly(void **state) {
    (void)state;
    sweep(RouteNccl, MishapOnce);
    sweep(RouteStaged, MishapOnce);
}

static void a_broken_context_at_any_call_ends_cleanly(void **state) {
    (void)state;
    sweep(RouteNccl, MishapSticky);
    sweep(RouteStaged, MishapSticky);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_model_reduces_on_its_own_stream),
        cmocka_unit_test(every_model_reduces_through_the_host),
        cmocka_unit_test(the_link_is_given_calls_in_their_order),
        cmocka_unit_test(an_unordered_all_reduce_is_detected),
        cmocka_unit_test(a_rank_that_cannot_capture_its_sums_ends),
        cmocka_unit_test(a_device_that_sums_nothing_opens_no_communicator),
        cmocka_unit_test(options_nccl_cannot_do_are_refused),
        cmocka_unit_test(a_lost_rank_ends_the_wait),
        cmocka_unit_test(a_rank_that_never_arrives_is_not_waited_for),
        cmocka_unit_test(a_rank_that_ends_alone_does_not_wait_for_the_others),
        cmocka_unit_test(replicated_products_use_no_timed_engine),
        cmocka_unit_test(an_error_at_any_call_ends_cleanly),
        cmocka_unit_test(a_broken_context_at_any_call_ends_cleanly),
    };
    if (CASES_LISTED(tests))
        return 0;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
