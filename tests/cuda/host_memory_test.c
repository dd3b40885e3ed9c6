// host_memory_test.c - memory of a card, with the mock driver (record.h): copies, allocations that
// are refused, and the workspace a plan reserves for libraries, which is known before anything is
// allocated and never exceeded.
#define _GNU_SOURCE
#include "host_run.h"
#include "exec_internal.h"
#include "session.h"

#include <setjmp.h>
#include <cmocka.h>
#include "cases.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MODELS ROOT_DIR "/models"

// Device bytes allocated by opening the device.
static size_t open_card_takes(void) {
    Device *d = NULL;
    Recorder *r = recorder_new(CARD);
    assert_fine(cuda_open_with(recorder_api(r), &(DeviceOptions){.threads = 1}, &d));
    size_t bytes = recorder_most_memory(r);
    device_cuda.close(d);
    recorder_free(r);
    return bytes;
}

// --- memory --------------------------------------------------------------------------------------

static void a_card_is_identified_by_name_and_uuid(void **state) {
    (void)state;
    char name[128] = "";
    Run *run = new_bare();
    assert_fine(cuda_card_with(recorder_api(run->r), &(DeviceOptions){0}, name, sizeof name));
    assert_string_equal(name, "a recorded card (GPU-00112233-4455-6677-8899-aabbccddeeff)");
    recorder_card(run->r, "NVIDIA H100 80GB HBM3 MIG 1g.10gb");
    assert_fine(cuda_card_with(recorder_api(run->r), &(DeviceOptions){0}, name, sizeof name));
    assert_string_equal(name, "NVIDIA H100 80GB HBM3 MIG 1g.10gb "
                              "(MIG-00112233-4455-6677-8899-aabbccddeeff)");
    free_run(run);
}

static void bytes_cross_and_come_back(void **state) {
    (void)state;
    const size_t sizes[] = {1, 256, 257, 100000, (8 << 20) + 3, 33 << 20};
    const DeviceOptions o = {.threads = 1};
    Run *run = new_bare();
    Device *d = NULL;
    assert_fine(cuda_open_with(recorder_api(run->r), &o, &d));
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        void *at = NULL;
        unsigned char *x = mem_alloc(sizes[i]), *y = mem_alloc(sizes[i]);
        for (size_t k = 0; k < sizes[i]; k++)
            x[k] = (unsigned char)(k * 31 + i);
        assert_fine(device_cuda.alloc(d, sizes[i], &at));
        for (int again = 0; again < 3; again++) {
            assert_fine(device_cuda.put(d, at, x, sizes[i]));
            memset(y, 0, sizes[i]);
            assert_fine(device_cuda.get(d, y, at, sizes[i]));
            assert_memory_equal(x, y, sizes[i]);
            x[0]++;
        }
        device_cuda.release(d, at);
        mem_free(x);
        mem_free(y);
    }
    for (uint32_t i = 0; i < 300; i++) // more small ones than the pool has slots
        if (i % 2) {
            void *at = NULL;
            assert_fine(device_cuda.alloc(d, 8, &at));
            assert_fine(device_cuda.put(d, at, &i, sizeof i));
            device_cuda.release(d, at);
        }
    device_cuda.close(d);
    assert_clean(run->r, "copies");
    free_run(run);
}

static void too_much_memory_is_refused_with_what_is_missing(void **state) {
    (void)state;
    const size_t room = CARD - open_card_takes();
    const DeviceOptions o = {.threads = 1};
    Run *run = new_bare();
    Device *d = NULL;
    void *at = NULL;
    assert_fine(cuda_open_with(recorder_api(run->r), &o, &d));
    assert_int_equal(device_cuda.alloc(d, room + (3 << 20), &at), GAN_ERR_MEMORY);
    assert_null(at);
    assert_non_null(strstr(gan_error(), "3.0 MiB are missing"));
    device_cuda.close(d);
    assert_clean(run->r, "too much");
    free_run(run);
}

static GanStatus open_session(Session *s, int64_t batch) {
    static const uint64_t seed = 7;
    static DeviceApi api; // outlives the session
    api = recorded_device();
    const SessionOptions o = {
        .compile = {.path = STR(MODELS "/dcgan.gan"), .batch = batch, .real = DtF32},
        .api = &api,
        .seed = &seed};
    return session_open(s, &o);
}

// The batch size that the message suggests fits, and is not needlessly small.
static void a_plan_that_is_too_large_says_which_batch_fits(void **state) {
    (void)state;
    Session s;
    recorder_new(((size_t)200 << 20) + CUDA_BESIDE);
    assert_int_equal(open_session(&s, 128), GAN_ERR_MEMORY);
    const char *fits = strstr(gan_error(), "; --batch ");
    assert_non_null(strstr(gan_error(), "MiB are missing"));
    assert_non_null(fits);
    int64_t batch = strtoll(fits + strlen("; --batch "), NULL, 10);
    assert_true(batch > 16 && batch < 128);
    session_release(&s);
    if (open_session(&s, batch) != GAN_OK)
        fail_msg("%s", gan_error());
    session_release(&s);
    if (open_session(&s, batch * 3 / 2) == GAN_OK)
        fail_msg("batch %lld fits as well", (long long)(batch * 3 / 2));
    session_release(&s);
    assert_clean(recording, "sessions");
    recorder_free(recording);
}

// --- room ----------------------------------------------------------------------------------------

// The minimum device memory with which the session opens, in bytes.
static size_t least_card(int64_t batch) {
    const size_t open = open_card_takes();
    size_t from = open, to = (size_t)1 << 32; // too little, and enough
    while (to - from > 1) {
        size_t middle = from + (to - from) / 2;
        Session s;
        recorder_new(middle);
        GanStatus st = open_session(&s, batch);
        if (st != GAN_OK)
            assert_int_equal(recorder_most_memory(recording), open); // before anything is allocated
        session_release(&s);
        recorder_free(recording);
        *(st == GAN_OK ? &to : &from) = middle;
    }
    return to;
}

// The memory computed before any allocation equals, to the byte, what a run allocates, including
// engines' workspace and the device's own buffers for every function; and what the driver takes
// beside it, for code and graphs, is there.
static void a_run_allocates_what_was_planned(void **state) {
    (void)state;
    size_t card = least_card(2);
    Session s;
    recorder_new(card);
    assert_fine(open_session(&s, 2));
    assert_true(plan_workspace(&s.compiled.step) > (size_t)16 << 20);
    Run run = {.arena = s.perm, .compiled = s.compiled, .exec = s.exec};
    assert_fine(do_steps(&run, 0, 3));
    assert_true(s.compiled.module.entry.n > 0);
    for (uint32_t i = 0; i < s.compiled.module.entry.n; i++)
        assert_fine(exec_entry(s.exec, i, &(Counters){.seed = 7}, NULL));
    assert_int_equal(recorder_most_memory(recording) + CUDA_BESIDE, card);
    session_release(&s);
    assert_clean(recording, "a run");
    recorder_free(recording);
}

static void a_card_without_memory_for_workspace_is_refused(void **state) {
    (void)state;
    size_t card = least_card(64);
    Session s;
    recorder_new(card);
    assert_fine(open_session(&s, 64));
    size_t room = plan_workspace(&s.compiled.step);
    session_release(&s);
    recorder_free(recording);
    size_t open = open_card_takes();
    recorder_new(card - room);
    assert_int_equal(open_session(&s, 64), GAN_ERR_MEMORY);
    assert_int_equal(recorder_most_memory(recording), open);
    const char *fits = strstr(gan_error(), "; --batch ");
    assert_non_null(fits);
    int64_t batch = strtoll(fits + strlen("; --batch "), NULL, 10);
    session_release(&s);
    assert_fine(open_session(&s, batch));
    session_release(&s);
    recorder_free(recording);
}

// The largest workspace of the step's calls, in bytes; it follows the plan's values.
static size_t most_workspace(Run *run) {
    const Plan *p = &run->compiled.step;
    const WorkVec *w = recorder_work(run->r);
    size_t most = 0;
    assert_fine(open_run(run, &(DeviceOptions){.threads = 1}));
    assert_fine(exec_init(run->exec, 7));
    uint32_t from = w->n;
    assert_fine(do_steps(run, 0, 2));
    CUdeviceptr room = cuda_pointer(run->exec->work) + card_align(p->work_bytes);
    for (uint32_t i = from; i < w->n; i++) {
        if (w->at[i].kind != WorkLibrary)
            continue;
        Access a = w->at[i].access.at[w->at[i].access.n - 1];
        assert_true(a.write && a.at >= room && a.at + a.n <= room + plan_workspace(p));
        most = a.n > most ? a.n : most;
    }
    close_run(run);
    return most;
}

static void an_engine_that_exceeds_the_workspace_is_skipped(void **state) {
    (void)state;
    for (size_t more = 0; more < 2; more++) {
        Run *run = new_tiny();
        size_t room = plan_workspace(&run->compiled.step);
        recorder_greedy_dnn(run->r, room + more);
        size_t most = most_workspace(run);
        assert_clean(run->r, "a greedy engine");
        assert_true(more ? most > 0 && most < room : most == room);
        free_run(run);
    }
}

static void empty_folder(Arena a, const char *dir) {
    StrVec names = {0};
    assert_fine(dir_list(&a, str_c(dir), &names));
    for (uint32_t i = 0; i < names.n; i++)
        file_remove(path_join(&a, str_c(dir), names.at[i]));
}

// Library calls of three steps that have so much workspace.
static GanStatus calls_with(Run *run, const DeviceOptions *o, size_t workspace, uint32_t *calls) {
    const WorkVec *w = recorder_work(run->r);
    *calls = 0;
    TRY(open_run(run, o));
    TRY(exec_init(run->exec, 7));
    TRY(exec_ready(run->exec)); // engines are chosen, and what they are chosen from was timed
    uint32_t from = w->n;
    TRY(do_steps(run, 0, 3));
    for (uint32_t i = from; i < w->n; i++)
        if (w->at[i].kind == WorkLibrary)
            *calls += w->at[i].access.at[w->at[i].access.n - 1].n == workspace;
    return GAN_OK;
}

// Two models share a product, and only the larger reserves the workspace of its fastest engine.
// That choice is cached on disk: the smaller model must not use it, nor take it from the larger,
// which would go on with another engine, and other bits.
static void a_cached_engine_that_exceeds_the_workspace_is_skipped(void **state) {
    (void)state;
    char dir[] = "/tmp/gan-engines-XXXXXX";
    assert_non_null(mkdtemp(dir));
    const DeviceOptions o = {.threads = 1, .cache_dir = str_c(dir)};
    const char *const tail = "|> dense(1) |> squeeze }\n"
                             "step { update D minimize mean(D(x)^2) using sgd(0.1) }\n";
    enum { TURNS = 4 };
    uint32_t calls[TURNS];
    size_t room = 0;
    for (int turn = 0; turn < TURNS; turn++) {
        bool large = turn % 2 == 0;
        Run *run = new_bare();
        Str text = str_format(&run->arena,
                              "model m\ndata x : float(8) scale(-1, 1)\n"
                              "net D(x: [8]) -> [] { x |> dense(16) |> relu %s%s",
                              large ? "|> dense(3000) |> dense(3000) " : "", tail);
        compile_model(run, "m.gan", text, DtF32, NULL);
        size_t has = plan_workspace(&run->compiled.step);
        room = large ? has : room;
        recorder_greedy_dnn(run->r, room);
        assert_true(large || has < room);
        assert_fine(calls_with(run, &o, room, &calls[turn]));
        uint64_t queries = recorder_dnn_queries(run->r);
        assert_true(turn < 2 ? queries > 0 : queries == 0);
        close_run(run);
        assert_clean(run->r, large ? "the large model" : "the small model");
        if (turn + 1 == TURNS)
            empty_folder(run->arena, dir);
        free_run(run);
    }
    assert_int_equal(rmdir(dir), 0);
    assert_true(calls[0] > 0 && calls[1] == 0);
    assert_int_equal(calls[2], calls[0]);
    assert_int_equal(calls[3], calls[1]);
}

typedef struct Other { // another process, which keeps its choices in `to` as soon as this one tells
    Arena a;           // something
    const char *from, *to;
} Other;

static void other_keeps(void *user, const char *text) {
    Other *o = user;
    Arena scratch = o->a;
    StrVec names = {0};
    (void)text;
    assert_fine(dir_list(&scratch, str_c(o->from), &names));
    for (uint32_t i = 0; i < names.n; i++) {
        Str bytes;
        assert_fine(file_read(&scratch, path_join(&scratch, str_c(o->from), names.at[i]), &bytes));
        assert_fine(file_write_atomic(path_join(&scratch, str_c(o->to), names.at[i]), bytes.ptr,
                                      bytes.len));
    }
}

// Two processes begin with an empty cache, as ranks do. The one that has chosen later goes on with
// the other's engines, which it would find if it began again.
static void an_engine_that_was_kept_meanwhile_is_taken(void **state) {
    (void)state;
    char dir[2][32] = {"/tmp/gan-other-XXXXXX", "/tmp/gan-mine-XXXXXX"};
    assert_true(mkdtemp(dir[0]) && mkdtemp(dir[1]));
    for (int turn = 0; turn < 3; turn++) { // the other; this one beside it; and alone
        Run *run = new_tiny();
        Other other = {.from = dir[0], .to = dir[1]};
        DeviceOptions o = {.threads = 1, .cache_dir = str_c(dir[turn > 0])};
        size_t room = plan_workspace(&run->compiled.step);
        uint32_t calls;
        assert_fine(arena_init(&other.a, 0));
        if (turn == 1)
            o.notice = other_keeps, o.user = &other;
        if (turn > 0)
            recorder_greedy_dnn(run->r, room);    // the fastest, which the other has no room for
        recorder_mishap(run->r, MishapEngine, 0); // which it tells
        assert_fine(calls_with(run, &o, room, &calls));
        assert_true(turn < 2 ? calls == 0 : calls > 0);
        close_run(run);
        assert_clean(run->r, "a process beside another");
        if (turn > 0)
            empty_folder(run->arena, dir[1]);
        if (turn == 2)
            empty_folder(run->arena, dir[0]);
        arena_release(&other.a);
        free_run(run);
    }
    assert_int_equal(rmdir(dir[0]) | rmdir(dir[1]), 0);
}

// --- the card ------------------------------------------------------------------------------------

static void measuring_the_roofline_leaves_no_allocation(void **state) {
    (void)state;
    const DeviceOptions o = {.threads = 1};
    Run *run = new_bare();
    Device *d = NULL;
    Roofline r = {0};
    assert_fine(cuda_open_with(recorder_api(run->r), &o, &d));
    uint32_t live = recorder_live(run->r);
    assert_fine(device_cuda.roofline(d, &r));
    assert_true(r.gflops_f32 > 0 && r.gflops_bf16 > 0 && r.gbs > 0);
    assert_true(recorder_live(run->r) < live + 40); // the engines chosen for products are kept
    device_cuda.close(d);
    assert_clean(run->r, "the roofline");
    free_run(run);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_card_is_identified_by_name_and_uuid),
        cmocka_unit_test(bytes_cross_and_come_back),
        cmocka_unit_test(too_much_memory_is_refused_with_what_is_missing),
        cmocka_unit_test(a_plan_that_is_too_large_says_which_batch_fits),
        cmocka_unit_test(a_run_allocates_what_was_planned),
        cmocka_unit_test(a_card_without_memory_for_workspace_is_refused),
        cmocka_unit_test(an_engine_that_exceeds_the_workspace_is_skipped),
        cmocka_unit_test(a_cached_engine_that_exceeds_the_workspace_is_skipped),
        cmocka_unit_test(an_engine_that_was_kept_meanwhile_is_taken),
        cmocka_unit_test(measuring_the_roofline_leaves_no_allocation),
    };
    if (CASES_LISTED(tests))
        return 0;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
