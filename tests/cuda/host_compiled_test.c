// host_compiled_test.c - engines that cuDNN compiles at run time, with the real library and no
// card (no_card.c): those the cuda device relies on exist. Skipped visibly where the machine has
// no cuDNN, or has a driver, where the device's own tests run on the card.
#include "cards.h"
#include "cuda_dnn.h"
#include "library.h"
#include "trial.h"

#include <setjmp.h>
#include <cmocka.h>
#include "cases.h"

typedef struct Bench {
    Arena a;
    CudnnApi api;
    Cudnn *dnn;
    CudnnCalls calls;
} Bench;

static const Memory nowhere = {(char *)(uintptr_t)4096,
                               (char *)(uintptr_t)4096}; // never dereferenced

// Loads no_card.c's driver library for good; NULL if there is a real driver.
static void *no_card(void) {
    static const char *const real[] = {"libcuda.so.1", NULL};
    static const char *const none[] = {BUILD_DIR "/tests/libno_card.so", NULL};
    static void *mine;
    if (!mine && !library_open(real))
        mine = library_open(none);
    return mine;
}

static void bench_open(Bench *b) {
    *b = (Bench){0};
    bool card = !no_card();
    if (card || !cudnn_load(&b->api)) {
        print_message("skipped: %s\n",
                      card ? "this machine has a driver" : "this machine has no cuDNN 9");
        skip();
    }
    assert_int_equal(arena_init(&b->a, 0), GAN_OK);
    assert_int_equal(cudnn_open_for(&b->api, str_c(cards[1].properties), false, &b->dnn), GAN_OK);
    b->calls = (CudnnCalls){.dnn = b->dnn, .arena = &b->a};
}

static void bench_close(Bench *b) {
    cudnn_release(&b->calls);
    cudnn_close(b->dnn);
    arena_release(&b->a);
}

static Compiled *compiled(Bench *b, const char *name, Str text) {
    const TrialOptions o = {.name = name, .text = text, .batch = 4};
    const CompileOptions c = {.real = DtF32, .dialect = dialect_find(STR("cuda"))};
    Compiled *made = arena_new(&b->a, Compiled);
    made->module = *trial_module(&b->a, &o);
    assert_int_equal(compile_plans(&b->a, &made->module, &c, made), GAN_OK);
    return made;
}

// Is there an engine for the step's only convolution that may have an epilogue, with it?
static bool has_engine(Bench *b, const char *layer, const char *act, int extent) {
    Str text = str_format(&b->a,
                          "model m\n"
                          "data x : float(4, %d, %d)\n"
                          "net D(x: [4, %d, %d]) -> [] { x |> %s(16, k=3, pad=1) |> %s\n"
                          "  |> conv(1, k=3, pad=1) |> mean(space) |> squeeze }\n"
                          "step { update D minimize mean(D(x)^2) using sgd(0.1) }\n",
                          extent, extent, extent, extent, layer, act);
    const Plan *p = &compiled(b, "m.gan", text)->step;
    const Epilogue *e = plan_epilogues(&b->a, p);
    b->calls.room.bytes = plan_workspace(p);
    for (uint32_t r = 0; r < p->region.n; r++) {
        CudnnCall *call = NULL;
        if (e[r].region == NONE)
            continue;
        assert_int_equal(
            cudnn_prepare(&b->calls, p, p->region.at[r].node.at[0], &e[r], nowhere, &call), GAN_OK);
        return call != NULL;
    }
    fail_msg("%s is no epilogue", act);
    return false;
}

static void epilogues_are_compiled_where_it_pays(void **state) {
    (void)state;
    Bench b;
    bench_open(&b);
    assert_true(has_engine(&b, "conv", "relu", 8)); // prebuilt
    assert_false(has_engine(&b, "conv", "leaky_relu(0.2)", 8));
    assert_true(has_engine(&b, "conv", "leaky_relu(0.2)", 512));
    assert_false(has_engine(&b, "conv_transpose", "relu", 8));
    assert_true(has_engine(&b, "conv_transpose", "relu", 512));
    assert_true(has_engine(&b, "conv_transpose", "tanh", 512));
    bench_close(&b);
}

static void products_of_batches_are_compiled(void **state) {
    (void)state;
    Bench b;
    bench_open(&b);
    const Plan *p =
        &compiled(&b, "sagan.gan", trial_read(&b.a, ROOT_DIR "/models", STR("sagan.gan")))->step;
    uint32_t found = 0, node[3];
    CudnnOperation o;
    b.calls.room.bytes = plan_workspace(p);
    for (uint32_t r = 0; r < p->region.n && found < 3; r++) {
        uint32_t id = p->region.at[r].node.at[0];
        CudnnCall *call = NULL;
        if (p->region.at[r].kind != RegionCall || !cudnn_read_dot(&p->func->g, id, &o, node) ||
            o.tensor[2].dim[0] == 1)
            continue;
        assert_int_equal(cudnn_prepare(&b.calls, p, id, NULL, nowhere, &call), GAN_OK);
        assert_non_null(call);
        found++;
    }
    assert_int_equal(found, 3);
    bench_close(&b);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(epilogues_are_compiled_where_it_pays),
        cmocka_unit_test(products_of_batches_are_compiled),
    };
    if (CASES_LISTED(tests))
        return 0;
    keep_nvrtc();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
