// host_fft_test.c - Fourier transforms of a step on the mock card: by cuFFT, or by our kernel
// where cuFFT refuses or is missing; and errors at any call. Built twice, the second time as
// without cufft.h.
#include "host_run.h"
#include "op.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "cases.h"
#include <string.h>

// Transforms of samples, and of their mean, which is shared.
static const char model[] =
    "model spectra\ndata x : float(1, 8, 8)\n"
    "net G(z: [4]) -> [1, 8, 8] = z |> dense(64) |> reshape(1, 8, 8)\n"
    "step { f = G(normal(4))\n"
    "  update G minimize spectrum_loss(x, f) + mean(rfft(mean(f, batch))^2) using adam()\n"
    "  report power = mean(rfft(f*x)^2) }\n"
    "sample maps = G(normal(4))\n";

static Run *new_spectra(void) {
    Run *run = new_bare();
    compile_model(run, "spectra.gan", str_c(model), DtF32, NULL);
    return run;
}

typedef struct Seen {
    uint32_t library, ours; // transforms executed
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
        n += node_family(&p->func->g, p->region.at[i].node.at[0]) == FamilyTransform;
    return n;
}

#ifdef WITHOUT_HEADER // linked with cuda_fft_none.c: a program built where cufft.h was not found
enum { HAVE = 0 };
#else
enum { HAVE = 1 };
#endif

static void transforms_go_to_the_library(void **state) {
    (void)state;
    for (int i = 0; i < 4; i++) {
        const bool no_graph = i % 2, needs_room = i / 2;
        const DeviceOptions o = {.threads = 1, .no_graph = no_graph};
        Run *run = new_spectra();
        if (!needs_room)
            recorder_greedy_fft(run->r, 0);
        assert_fine(do_all(run, &o, 3));
        Seen seen = transforms(run);
        uint32_t all = 3 * planned(&run->compiled.step);
        close_run(run);
        assert_clean(run->r, "with cuFFT");
        // x and f along two axes, forward and backward, and the mean, with the same line layout.
        assert_true(all >= 3 * (5 + 2));
        assert_int_equal(seen.library, HAVE ? all : 0);
        assert_int_equal(seen.ours, HAVE ? 0 : all);
        assert_true(no_graph || recorder_made_graphs(run->r) > 0);
        free_run(run);
    }
}

static void too_greedy_fft(Recorder *r) {
    recorder_greedy_fft(r, (size_t)1 << 40);
}

static void kernels_of_ours_run_where_cufft_does_not(void **state) {
    static void (*const mishap[])(Recorder *) = {recorder_without_fft, recorder_refusing_fft,
                                                 too_greedy_fft};
    const DeviceOptions o = {.threads = 1};
    (void)state;
    for (size_t i = 0; i < sizeof mishap / sizeof *mishap; i++) {
        Run *run = new_spectra();
        mishap[i](run->r);
        assert_fine(do_all(run, &o, 3));
        Seen seen = transforms(run);
        close_run(run);
        assert_clean(run->r, "without cuFFT");
        assert_int_equal(seen.library, 0);
        assert_int_equal(seen.ours, 3 * planned(&run->compiled.step));
        free_run(run);
    }
}

// A line too long for our kernel: by cuFFT, else an error with a way to fix it.
static void a_line_too_long_for_a_kernel_is_told(void **state) {
    static const char text[] = "model long\ndata x : float(4)\nstate z : [2, 140000] = 0\n"
                               "net G(x: [4]) -> [] = x |> dense(1) |> squeeze\n"
                               "step { z := fft(z)\n  update G minimize mean(G(x)) using adam() }\n"
                               "sample y = G(normal(4))\n";
    const DeviceOptions o = {.threads = 1};
    (void)state;
    for (int with = 0; with < 2; with++) {
        Run *run = new_bare();
        compile_model(run, "long.gan", str_c(text), DtF32, NULL);
        if (!with)
            recorder_without_fft(run->r);
        GanStatus st = do_all(run, &o, 1);
        if ((st == GAN_OK) != (with && HAVE))
            fail_msg("with cuFFT %d: %s", with, gan_error());
        if (st != GAN_OK) {
            assert_non_null(strstr(gan_error(), "long.gan:5"));
            assert_non_null(strstr(gan_error(), "too large for a kernel of ours"));
            assert_non_null(strstr(gan_error(), "cuFFT is missing or refuses it"));
        }
        close_run(run);
        assert_clean(run->r, "a long line");
        free_run(run);
    }
}

// The library's row in `ganrun doctor`.
static void a_program_built_without_the_header_says_so(void **state) {
    Arena a;
    LibraryInfo all[CUDA_LIBRARIES];
    (void)state;
    assert_fine(arena_init(&a, 0));
    cuda_libraries(&a, all);
    int i = 0;
    while (strcmp(all[i].name, "cuFFT"))
        i++;
    assert_true(HAVE || !all[i].found);
    assert_int_equal(!HAVE, strstr(all[i].fix, "build again") != NULL);
    arena_release(&a);
}

#ifndef WITHOUT_HEADER
static void an_error_at_any_call_ends_cleanly(void **state) {
    (void)state;
    for (int sticky = 0; sticky < 2; sticky++)
        sweep_calls(new_spectra(), &(DeviceOptions){.threads = 1},
                    sticky ? MishapSticky : MishapOnce, do_all);
}
#endif

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(transforms_go_to_the_library),
        cmocka_unit_test(kernels_of_ours_run_where_cufft_does_not),
        cmocka_unit_test(a_line_too_long_for_a_kernel_is_told),
        cmocka_unit_test(a_program_built_without_the_header_says_so),
#ifndef WITHOUT_HEADER
        cmocka_unit_test(an_error_at_any_call_ends_cleanly),
#endif
    };
    if (CASES_LISTED(tests))
        return 0;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
