// host_branch_test.c - launches of captured graphs as branches, with the mock driver (record.h):
// every order that memory requires and no other, the same work without branches, and runs that go
// on where a graph cannot be captured.
#include "host_run.h"
#include "cuda_plan.h"

#include <setjmp.h>
#include <cmocka.h>
#include "cases.h"
#include <string.h>

// --- the order, by itself ------------------------------------------------------------------------

enum { Few = 40, Tasks = 150, Accesses = 4, Bytes = 64, Cases = 300 }; // more than 64: two words

static uint32_t draw(uint64_t *seed, uint32_t below) {
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*seed >> 33) % below;
}

static CudaTask draw_task(Arena *a, uint64_t *seed) {
    CudaTask t = {.kind = CudaKernel};
    for (uint32_t i = draw(seed, Accesses + 1); i > 0; i--) {
        uint32_t at = draw(seed, Bytes);
        vec_push(
            a, &t.access,
            ((CudaAccess){4096 + at, 1 + draw(seed, (uint32_t)Bytes - at), draw(seed, 3) == 0}));
    }
    return t;
}

static bool must_wait(const CudaTask *x, const CudaTask *y) {
    for (uint32_t i = 0; i < x->access.n; i++)
        for (uint32_t k = 0; k < y->access.n; k++) {
            const CudaAccess *a = &x->access.at[i], *b = &y->access.at[k];
            for (CUdeviceptr byte = a->at; byte < a->at + a->bytes; byte++)
                if (byte >= b->at && byte < b->at + b->bytes && (a->write || b->write))
                    return true;
        }
    return false;
}

// Tasks are ordered where and only where a chain of conflicts orders them, and none is named that
// another one of the set waits for.
static void tasks_wait_for_what_they_must_and_no_more(void **state) {
    (void)state;
    Arena a;
    uint64_t seed = 1;
    assert_fine(arena_init(&a, 0));
    for (int c = 0; c < Cases; c++) {
        Arena scratch = a;
        static bool must[Tasks][Tasks], is[Tasks][Tasks];
        CudaTask task[Tasks];
        uint32_t n = 1 + draw(&seed, c % 10 ? Few : Tasks);
        memset(must, 0, sizeof must);
        memset(is, 0, sizeof is);
        for (uint32_t i = 0; i < n; i++) {
            task[i] = draw_task(&scratch, &seed);
            for (uint32_t k = 0; k < i; k++) {
                must[i][k] |= must_wait(&task[i], &task[k]);
                for (uint32_t j = 0; must[i][k] && j < k; j++)
                    must[i][j] |= must[k][j];
            }
        }
        CudaAfter *after = cuda_branches(&scratch, task, n);
        for (uint32_t i = 0; i < n; i++) {
            for (uint32_t k = 0; k < after[i].n; k++) {
                assert_true(after[i].at[k] < i);
                assert_false(is[i][after[i].at[k]]);
                is[i][after[i].at[k]] = true;
                for (uint32_t j = 0; j < after[i].at[k]; j++)
                    is[i][j] |= is[after[i].at[k]][j];
            }
            assert_memory_equal(is[i], must[i], sizeof is[i]);
        }
    }
    arena_release(&a);
}

// --- graphs --------------------------------------------------------------------------------------

static uint64_t edges_of_steps(Run *run, Mishap mishap, uint64_t nth) {
    const DeviceOptions o = {.threads = 1};
    assert_fine(open_run(run, &o));
    assert_fine(exec_init(run->exec, 7));
    recorder_mishap(run->r, mishap, nth);
    assert_fine(do_steps(run, 0, 3));
    uint64_t edges = recorder_edges(run->r);
    close_run(run);
    return edges;
}

// None can be left out without a race.
static void every_edge_is_needed_and_a_missing_one_is_detected(void **state) {
    (void)state;
    Run *run = new_tiny();
    Arena checkpoint = run->arena;
    uint64_t edges = edges_of_steps(run, MishapDropEdge, 0);
    assert_clean(run->r, "tiny");
    assert_true(edges > 30);
    for (uint64_t n = 1; n <= edges; n++) {
        recorder_free(run->r);
        run->arena = checkpoint;
        run->r = recorder_new(CARD);
        edges_of_steps(run, MishapDropEdge, n);
        const char *said = recorder_complaint(run->r);
        if (!said || !strstr(said, "a race: "))
            fail_msg("edge %llu of %llu: %s", (unsigned long long)n, (unsigned long long)edges,
                     said ? said : "is not missed");
    }
    free_run(run);
}

// With --no-branches the stream orders a graph's launches, as it does without graphs.
static void no_branches_is_one_chain(void **state) {
    (void)state;
    for (int chain = 0; chain < 2; chain++) {
        const DeviceOptions o = {.threads = 1, .no_branches = chain};
        Run *run = new_tiny();
        assert_fine(do_all(run, &o, 3));
        assert_true(recorder_launched_graphs(run->r) > 0);
        assert_int_equal(recorder_edges(run->r) == 0, chain);
        close_run(run);
        assert_clean(run->r, "tiny");
        free_run(run);
    }
}

static bool works(const Recorder *r, const char *name) {
    const WorkVec *w = recorder_work(r);
    for (uint32_t i = 0; i < w->n; i++)
        if (!strcmp(w->at[i].name, name))
            return true;
    return false;
}

// A library's memsets, and the copies that begin a block, where a program has the kernels for it.
static void kernels_stand_for_memsets_and_copies(void **state) {
    (void)state;
    for (int without = 0; without < 2; without++) {
        const DeviceOptions o = {.threads = 1};
        Run *run = new_tiny();
        if (without)
            recorder_without_service(run->r);
        assert_fine(open_run(run, &o));
        assert_fine(exec_init(run->exec, 7));
        assert_fine(do_steps(run, 0, 3));
        assert_int_equal(record_graph_has("gan_fill"), !without);
        assert_int_equal(record_graph_has("set"), without);
        assert_int_equal(works(run->r, "gan_begin"), !without);
        close_run(run);
        assert_clean(run->r, "tiny");
        free_run(run);
    }
}

// --- what cannot be captured ---------------------------------------------------------------------

// Calls of libraries are not counted: without graphs an engine is timed with fewer runs.
static uint32_t launches(const Recorder *r) {
    const WorkVec *w = recorder_work(r);
    uint32_t n = 0;
    for (uint32_t i = 0; i < w->n; i++)
        n += w->at[i].kind == WorkLaunch;
    return n;
}

// Each step down is said once, whatever the number of blocks.
static void where_a_capture_fails_the_run_goes_on_without(void **state) {
    (void)state;
    static const struct {
        Mishap mishap;
        bool graphs;
        const char *says;
    } cases[] = {
        {MishapNone, true, ""},
        {MishapNoBranches, true,
         "the launches of a CUDA graph run one after another, which may be slower: "},
        {MishapNoCapture, false, "no CUDA graphs, which is slower: "},
    };
    const DeviceOptions o = {.threads = 1, .notice = keep_notice};
    uint32_t all = 0;
    for (int i = 0; i < 3; i++) {
        Run *run = new_tiny();
        *told = 0;
        recorder_mishap(run->r, cases[i].mishap, 0);
        assert_fine(do_all(run, &o, 4));
        all = i ? all : launches(run->r);
        assert_int_equal(launches(run->r), all);
        assert_int_equal(recorder_launched_graphs(run->r) > 0, cases[i].graphs);
        int lines = 0;
        for (const char *c = told; *c; c++)
            lines += *c == '\n';
        assert_int_equal(lines, i);
        if (!strstr(told, cases[i].says))
            fail_msg("not `%s`: %s", cases[i].says, told);
        close_run(run);
        assert_clean(run->r, "a capture that fails");
        free_run(run);
    }
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tasks_wait_for_what_they_must_and_no_more),
        cmocka_unit_test(no_branches_is_one_chain),
        cmocka_unit_test(kernels_stand_for_memsets_and_copies),
        cmocka_unit_test(where_a_capture_fails_the_run_goes_on_without),
        cmocka_unit_test(every_edge_is_needed_and_a_missing_one_is_detected),
    };
    if (CASES_LISTED(tests))
        return 0;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
