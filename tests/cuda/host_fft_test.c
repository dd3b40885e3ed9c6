// host_fft_test.c - transforms of a step on a recorded card: by cuFFT where lines lie as it takes
// them, by a kernel of ours where they do not and where there is none; and errors at any call.
#include "host_run.h"
#include "op.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "cases.h"
#include <string.h>

// Of samples, and of their mean, whose parts lie apart.
static const char model[] =
    "model spectra\ndata x : float(1, 8, 8)\n"
    "net G(z: [4]) -> [1, 8, 8] = z |> dense(64) |> reshape(1, 8, 8)\n"
    "step { f = G(normal(4))\n"
    "  update G minimize spectrum_loss(x, f) + mean(rfft(mean(f, batch))^2) using adam() }\n"
    "sample maps = G(normal(4))\n";

static Run *new_spectra(void) {
    Run *run = new_bare();
    compile_model(run, "spectra.gan", str_c(model), DtF32, NULL);
    return run;
}

typedef struct Seen {
    uint32_t library, ours; // transforms carried out
} Seen;

static Seen transforms(const Run *run) {
    const WorkVec *w = recorder_work(run->r);
    Seen seen = {0};
    for (uint32_t i = 0; i < w->n; i++) {
        seen.library += !strcmp(w->at[i].name, "cuFFT");
        seen.ours += !strncmp(w->at[i].name, "fft_", 4);
    }
    return seen;
}

static uint32_t planned(const Plan *p) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < p->region.n; i++)
        n += graph_node(&p->func->g, p->region.at[i].node.at[0])->op == OpFft;
    return n;
}

static void transforms_go_to_the_library(void **state) {
    (void)state;
    for (int no_graph = 0; no_graph < 2; no_graph++) {
        const DeviceOptions o = {.threads = 1, .no_graph = no_graph};
        Run *run = new_spectra();
        assert_fine(do_all(run, &o, 3));
        Seen seen = transforms(run);
        close_run(run);
        assert_clean(run->r, "with cuFFT");
        assert_int_equal(seen.library + seen.ours, 3 * planned(&run->compiled.step));
        assert_true(seen.library >= 3 * 5); // of x and f, there and back along two axes
        assert_int_equal(seen.ours, 3 * 2); // of the mean, there and back
        assert_true(no_graph || recorder_made_graphs(run->r) > 0);
        free_run(run);
    }
}

static void without_cufft_kernels_of_ours_run(void **state) {
    const DeviceOptions o = {.threads = 1};
    Run *run = new_spectra();
    (void)state;
    recorder_without_fft(run->r);
    assert_fine(do_all(run, &o, 3));
    Seen seen = transforms(run);
    close_run(run);
    assert_clean(run->r, "without cuFFT");
    assert_int_equal(seen.library, 0);
    assert_int_equal(seen.ours, 3 * planned(&run->compiled.step));
    free_run(run);
}

static void an_error_at_any_call_ends_cleanly(void **state) {
    const DeviceOptions o = {.threads = 1};
    (void)state;
    for (int sticky = 0; sticky < 2; sticky++) {
        Run *run = new_spectra();
        assert_fine(do_all(run, &o, 3));
        close_run(run);
        uint64_t calls = recorder_calls(run->r), failed = 0;
        recorder_free(run->r);
        Arena checkpoint = run->arena;
        for (uint64_t n = 1; n <= calls; n++) {
            run->r = recorder_new(CARD);
            recorder_mishap(run->r, sticky ? MishapSticky : MishapOnce, n);
            failed += do_all(run, &o, 3) != GAN_OK;
            close_run(run);
            assert_clean(run->r, gan_error());
            recorder_free(run->r);
            run->arena = checkpoint;
        }
        assert_true(failed > 300);
        run->r = recorder_new(CARD);
        free_run(run);
    }
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(transforms_go_to_the_library),
        cmocka_unit_test(without_cufft_kernels_of_ours_run),
        cmocka_unit_test(an_error_at_any_call_ends_cleanly),
    };
    if (CASES_LISTED(tests))
        return 0;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
