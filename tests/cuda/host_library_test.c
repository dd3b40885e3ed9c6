// host_library_test.c - the cuda device with the real libraries, as far as they work without a
// card: cuDNN finds an engine for every convolution of every model, NVRTC's images are cached and
// damaged ones detected. Skipped visibly where the machine has no such library.
#define _GNU_SOURCE
#include "cache.h"
#include "cards.h"
#include "cuda_dnn.h"
#include "image.h"
#include "library.h"
#include "nvrtc.h"
#include "trial.h"

#include <setjmp.h>
#include <cmocka.h>
#include "cases.h"
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define MODELS ROOT_DIR "/models"

#define assert_fine(call)                                                                          \
    do {                                                                                           \
        if ((call) != GAN_OK)                                                                      \
            fail_msg("%s: %s", #call, gan_error());                                                \
    } while (0)

static void compile_model(Arena *a, Str name, Dtype real, Compiled *out) {
    const TrialOptions o = {
        .name = str_z(a, name), .text = trial_read(a, MODELS, name), .batch = 8};
    const CompileOptions c = {.real = real, .dialect = dialect_find(STR("cuda"))};
    out->module = *trial_module(a, &o);
    assert_fine(compile_plans(a, &out->module, &c, out));
}

// --- cuDNN ---------------------------------------------------------------------------------------

typedef struct Found {
    uint32_t convolutions, products, batches, epilogues;
} Found;

// A bias and relu are ready where the bias has the operation's type, and so is a bias alone; those
// of an input gradient must be compiled (host_compiled_test.c).
static uint32_t check_epilogue(Arena *a, CudnnCalls *calls, const Plan *p, uint32_t region,
                               const Epilogue *e, Memory m, const char *what) {
    CudnnCall *call = NULL;
    uint32_t id = p->region.at[region].node.at[0];
    if (e->region == NONE || !e->bias || e->act > ActRelu ||
        graph_node(&p->func->g, id)->op == OpConvDx ||
        node_type(&p->func->g, e->bias)->dtype != node_type(&p->func->g, e->result)->dtype)
        return 0;
    assert_fine(cudnn_prepare(calls, p, id, e, m, &call));
    if (!call)
        fail_msg("%s: no engine for an epilogue of %s", what,
                 region_where(a, p, &p->region.at[region]).ptr);
    return 1;
}

// Every convolution and every product of single matrices has an engine that the plan has room for.
// (Those of batches of matrices must be compiled: host_compiled_test.c.)
static Found check_plan(Arena *a, Cudnn *dnn, const Plan *p, const char *what) {
    CudnnCalls calls = {.dnn = dnn, .arena = a, .room.bytes = plan_workspace(p)};
    char *nowhere = (char *)(uintptr_t)4096; // an address that is only compared with 0
    Memory m = {nowhere, nowhere};
    Found found = {0};
    const Epilogue *epilogue = plan_epilogues(a, p);
    for (uint32_t i = 0; i < p->region.n; i++) {
        uint32_t id = p->region.at[i].node.at[0], node[3];
        if (p->region.at[i].kind != RegionCall || node_family(&p->func->g, id) != FamilyProduct)
            continue;
        CudnnOperation o;
        CudnnCall *call = NULL;
        bool dot = graph_node(&p->func->g, id)->op == OpDot;
        bool batch = dot && cudnn_read_dot(&p->func->g, id, &o, node) && o.tensor[2].dim[0] > 1;
        if (!batch)
            assert_fine(cudnn_prepare(&calls, p, id, NULL, m, &call));
        if (!batch && !call)
            fail_msg("%s: no engine for %s", what, region_where(a, p, &p->region.at[i]).ptr);
        found.epilogues += batch ? 0 : check_epilogue(a, &calls, p, i, &epilogue[i], m, what);
        found.convolutions += !dot;
        found.products += dot && !batch;
        found.batches += batch;
    }
    cudnn_release(&calls);
    return found;
}

static Found check_models(const CudnnApi *api, const char *card, const char *properties, Dtype real,
                          bool no_tf32) {
    Arena a;
    StrVec names = {0};
    Cudnn *dnn;
    Found all = {0};
    assert_fine(arena_init(&a, 0));
    assert_fine(cudnn_open_for(api, str_c(properties), no_tf32, &dnn));
    assert_fine(dir_list(&a, STR(MODELS), &names));
    for (uint32_t i = 0; i < names.n; i++) {
        Arena scratch = a;
        Compiled c;
        if (!str_ends(names.at[i], STR(".gan")))
            continue;
        const char *what = str_format(&scratch, "%.*s on %s", SARG(names.at[i]), card).ptr;
        compile_model(&scratch, names.at[i], real, &c);
        Found f = check_plan(&scratch, dnn, &c.step, what);
        all.convolutions += f.convolutions;
        all.products += f.products;
        all.batches += f.batches;
        all.epilogues += f.epilogues;
    }
    cudnn_close(dnn);
    arena_release(&a);
    return all;
}

static void check_card(int card, Dtype real, bool no_tf32) {
    CudnnApi api;
    if (!cudnn_load(&api)) {
        print_message("skipped: this machine has no cuDNN 9\n");
        skip();
    }
    Found f = check_models(&api, cards[card].name, cards[card].properties, real, no_tf32);
    print_message("%s: %u convolutions, %u products, %u of batches, %u with epilogues\n",
                  cards[card].name, f.convolutions, f.products, f.batches, f.epilogues);
    assert_true(f.convolutions > 300 && f.products > 50);
    assert_true(real != DtF32 || f.epilogues > 50);
}

static void every_convolution_has_an_engine_on_hopper(void **state) {
    (void)state;
    check_card(0, DtF32, false);
}

static void every_convolution_has_an_engine_in_bf16(void **state) {
    (void)state;
    check_card(0, DtBF16, false);
}

static void every_convolution_has_an_engine_in_f16(void **state) {
    (void)state;
    check_card(0, DtF16, false);
}

static void every_convolution_has_an_engine_on_ampere(void **state) {
    (void)state;
    check_card(1, DtF32, false);
}

static void every_convolution_has_an_engine_without_tf32(void **state) {
    (void)state;
    check_card(0, DtF32, true);
}

// --- NVRTC ---------------------------------------------------------------------------------------

typedef struct Kept {
    Arena a;
    Nvrtc *nvrtc;
    Compiled compiled;
    CudaKernels kernels;
    char dir[32];
    CacheKeep keep;
    uint32_t told; // notices
    char says[600];
} Kept;

// A plan of a model, all of whose kernels but the fallbacks are wanted, and an empty folder.
static void kept_open(Kept *k, Str model) {
    *k = (Kept){.dir = "/tmp/gan-kept-XXXXXX"};
    assert_fine(arena_init(&k->a, 0));
    assert_fine(nvrtc_open(0, &k->nvrtc));
    if (!k->nvrtc) {
        print_message("skipped: this machine has no NVRTC\n");
        arena_release(&k->a);
        skip();
    }
    assert_non_null(mkdtemp(k->dir));
    compile_model(&k->a, model, DtF32, &k->compiled);
    const Plan *p = &k->compiled.entry[0];
    bool *wanted = arena_array(&k->a, bool, p->kernel.n);
    for (uint32_t i = 0; i < p->kernel.n; i++)
        wanted[i] = !p->kernel.at[i].fallback;
    assert_true(p->kernel.n > 0);
    k->kernels = (CudaKernels){p, wanted, 90, str_c(k->dir), &k->keep, true};
}

static void kept_close(Kept *k) {
    StrVec names = {0};
    assert_fine(dir_list(&k->a, str_c(k->dir), &names));
    for (uint32_t i = 0; i < names.n; i++)
        file_remove(path_join(&k->a, str_c(k->dir), names.at[i]));
    assert_int_equal(rmdir(k->dir), 0);
    nvrtc_close(k->nvrtc);
    arena_release(&k->a);
}

// The images in the folder: all but the links to them.
static StrVec kept_images(Kept *k) {
    StrVec names = {0}, images = {0};
    assert_fine(dir_list(&k->a, str_c(k->dir), &names));
    for (uint32_t i = 0; i < names.n; i++)
        if (!str_ends(names.at[i], STR(".kernel")))
            vec_push(&k->a, &images, path_join(&k->a, str_c(k->dir), names.at[i]));
    return images;
}

static void note(void *user, const char *text) {
    Kept *k = user;
    k->told++;
    snprintf(k->says, sizeof k->says, "%s", text);
}

// What cannot be kept is compiled all the same, and that is said once, with the folder and a way
// out.
static void a_folder_that_keeps_nothing_is_told_once(void **state) {
    (void)state;
    Kept k;
    CudaImages images;
    kept_open(&k, STR("dcgan.gan"));
    k.keep = (CacheKeep){.notice = note, .user = &k};
    k.kernels.dir = path_join(&k.a, str_c(k.dir), STR("gone"));
    assert_fine(cuda_compile(k.nvrtc, &k.kernels, &k.a, &images));
    assert_int_equal(k.told, 1);
    assert_non_null(strstr(k.says, "compiled kernels are not kept: cannot create /tmp/gan-kept-"));
    assert_non_null(strstr(k.says, "No such file or directory; XDG_CACHE_HOME, or --cache DIR"));
    assert_fine(cuda_compile(k.nvrtc, &k.kernels, &k.a, &images));
    assert_int_equal(k.told, 1);
    kept_close(&k);
}

static Str kept_file(Kept *k) {
    StrVec images = kept_images(k);
    assert_int_equal(images.n, 1);
    return images.at[0];
}

// The image of a few kernels.
static Str one_image(Kept *k, const Nvrtc *n) {
    CudaImages images;
    assert_fine(cuda_compile(n, &k->kernels, &k->a, &images));
    assert_int_equal(images.n, 1);
    return images.code[0];
}

static void assert_same_image(Kept *k, const Nvrtc *n, Str want) {
    Str image = one_image(k, n);
    assert_int_equal(image.len, want.len);
    assert_memory_equal(image.ptr, want.ptr, want.len);
}

static void images_are_cached_and_damage_is_detected(void **state) {
    (void)state;
    Kept k;
    Str whole, again;
    kept_open(&k, STR("d2gan_ring.gan"));
    Str image = one_image(&k, k.nvrtc);
    assert_memory_equal(image.ptr, "\177ELF", 4);
    Str path = kept_file(&k);
    assert_fine(file_read(&k.a, path, &whole));
    char *damaged = (char *)(uintptr_t)str_copy(&k.a, whole).ptr;
    damaged[whole.len / 2] ^= 1;
    assert_fine(file_write_atomic(path, damaged, whole.len));
    assert_same_image(&k, k.nvrtc, image); // made again, and kept again
    assert_fine(file_read(&k.a, path, &again));
    assert_int_equal(again.len, whole.len);
    assert_memory_equal(again.ptr, whole.ptr, whole.len);
    assert_fine(file_write_atomic(path, whole.ptr, 10)); // cut off
    assert_same_image(&k, k.nvrtc, image);
    k.kernels.arch = 91; // NVRTC makes none for it: PTX of the one before
    assert_non_null(strstr(one_image(&k, k.nvrtc).ptr, ".target sm_90"));
    kept_close(&k);
}

static void two_processes_may_fill_one_cache(void **state) {
    (void)state;
    Kept k;
    Str kept;
    kept_open(&k, STR("d2gan_ring.gan"));
    fflush(NULL);
    pid_t other = fork();
    if (other == 0) {
        CudaImages image;
        _exit(cuda_compile(k.nvrtc, &k.kernels, &k.a, &image) == GAN_OK ? 0 : 1);
    }
    Str mine = one_image(&k, k.nvrtc);
    int how = -1;
    assert_int_equal(waitpid(other, &how, 0), other);
    assert_int_equal(how, 0);
    assert_true(sealed_read(&k.a, kept_file(&k), &kept));
    assert_int_equal(kept.len, mine.len);
    assert_memory_equal(kept.ptr, mine.ptr, mine.len);
    kept_close(&k);
}

// Images follow from the text: not from what else is compiled beside them, nor from how many cores
// there are to do it.
static void an_image_does_not_depend_on_other_kernels(void **state) {
    (void)state;
    Kept k;
    CubinVec beside = {0};
    kept_open(&k, STR("d2gan_ring.gan"));
    k.kernels.dir = (Str){0};
    Str alone = one_image(&k, k.nvrtc);
    const Plan *twice[] = {k.kernels.plan, k.kernels.plan};
    const int arch[] = {80, 90, 75};
    assert_fine(
        cuda_compile_ahead(k.nvrtc, &(CudaPlans){twice, 2, arch, 3, {0}, NULL}, &k.a, &beside));
    assert_int_equal(beside.n, 4);
    assert_true(beside.at[3].ptx && beside.at[3].arch == 75);
    assert_true(str_eq(beside.at[1].code, alone));
    assert_false(str_eq(beside.at[0].code, alone));
    assert_memory_equal(beside.at[2].code.ptr, "\177ELF", 4);
    kept_close(&k);
}

static bool holds(Str image, Str name) {
    return memmem(image.ptr, image.len, name.ptr, name.len) != NULL;
}

// Loads one kernel without a compiler, from code shipped with the plan; fallbacks as PTX.
static void check_came(Kept *k, uint32_t kernel) {
    CudaImages came;
    Plan *p = (Plan *)(uintptr_t)k->kernels.plan;
    const Kernel *x = &p->kernel.at[kernel];
    bool *one = arena_array(&k->a, bool, p->kernel.n);
    one[kernel] = true;
    k->kernels.wanted = one;
    k->kernels.service = false;
    assert_fine(cuda_compile(NULL, &k->kernels, &k->a, &came));
    assert_int_equal(came.n, 1);
    for (uint32_t i = 0; i < p->kernel.n; i++)
        assert_int_equal(came.of[i], i == kernel ? 0 : NONE);
    assert_true(holds(came.code[0], x->name));
    assert_int_equal(str_starts(came.code[0], STR("\177ELF")), !x->fallback);
    k->kernels.arch = 120; // a card later than the code
    assert_fine(cuda_compile(NULL, &k->kernels, &k->a, &came));
    assert_int_equal(came.n, 1);
    assert_true(holds(came.code[0], x->name) && !str_starts(came.code[0], STR("\177ELF")));
    k->kernels.arch = 90;
    CubinVec all = p->cubin;
    p->cubin = (CubinVec){0};
    for (uint32_t i = 0; i < all.n; i++)
        if (!holds(all.at[i].code, x->name))
            vec_push(&k->a, &p->cubin, all.at[i]);
    assert_int_equal(cuda_compile(NULL, &k->kernels, &k->a, &came), GAN_ERR_DEVICE); // did not come
    p->cubin = all;
}

static uint32_t first_kernel(const Plan *p, bool fallback) {
    uint32_t i = 0;
    while (i < p->kernel.n && p->kernel.at[i].fallback != fallback)
        i++;
    assert_true(i < p->kernel.n);
    return i;
}

// Many kernels are dealt out to several modules, each to one; one that spilled is in the module it
// was assembled again as, and still in that of its batch. One has the runtime's own.
static void kernels_are_in_their_modules(void **state) {
    (void)state;
    Kept k;
    CudaImages made;
    kept_open(&k, STR("dcgan.gan"));
    Plan p = k.compiled.step;
    const Plan *plan[] = {&p};
    k.kernels.plan = &p;
    k.kernels.wanted = NULL;
    assert_fine(cuda_compile(k.nvrtc, &k.kernels, &k.a, &made));
    assert_true(made.n >= cuda_batches(p.kernel.n, nvrtc_threads()));
    uint32_t again = 0;
    for (uint32_t i = 0; i < p.kernel.n; i++) {
        uint32_t have = 0;
        for (uint32_t image = 0; image < made.n; image++)
            have += holds(made.code[image], p.kernel.at[i].name);
        assert_true(holds(made.code[made.of[i]], p.kernel.at[i].name));
        assert_in_range(have, 1, 2);
        again += have - 1;
    }
    assert_true(again < p.kernel.n / 8);
    for (uint32_t image = 0; image < made.n; image++)
        assert_int_equal(holds(made.code[image], STR("gan_fill")), image == made.service);
    assert_fine(cuda_compile_ahead(k.nvrtc, &(CudaPlans){plan, 1, &(int){90}, 1, {0}, NULL}, &k.a,
                                   &p.cubin));
    const Cubin *fallback = &p.cubin.at[p.cubin.n - 1];
    assert_true(fallback->ptx);
    assert_int_equal(fallback->arch, 80); // for all cards, as what the others were made of
    assert_non_null(strstr(fallback->code.ptr, ".target sm_80"));
    check_came(&k, first_kernel(&p, false));
    check_came(&k, first_kernel(&p, true));
    kept_close(&k);
}

// How many of the first `n` kernels of a plan are in the images that were added to the folder
// by compiling them; `files`: how many images there were, and then are.
static uint32_t compiled_anew(Kept *k, uint32_t n, uint32_t *files) {
    CudaImages images;
    StrVec before = kept_images(k), after;
    uint32_t count = 0;
    assert_int_equal(before.n, *files);
    for (uint32_t i = 0; i < k->kernels.plan->kernel.n; i++)
        ((bool *)(uintptr_t)k->kernels.wanted)[i] = i < n;
    assert_fine(cuda_compile(k->nvrtc, &k->kernels, &k->a, &images));
    after = kept_images(k);
    for (uint32_t i = 0; i < after.n; i++) {
        Str bytes;
        StrVec names = {0};
        bool known = false;
        for (uint32_t b = 0; b < before.n; b++)
            known |= str_eq(before.at[b], after.at[i]);
        assert_fine(file_read(&k->a, after.at[i], &bytes));
        image_kernels(&k->a, bytes, &names);
        for (uint32_t b = 0; b < names.n && !known; b++)
            count += !str_starts(names.at[b], STR("gan_")); // the runtime's own
    }
    *files = after.n;
    assert_int_equal(images.n, after.n);
    return count;
}

// What has been compiled, with whatever else, is found again.
static void only_new_kernels_are_compiled(void **state) {
    (void)state;
    Kept k;
    uint32_t files = 0;
    kept_open(&k, STR("d2gan_ring.gan"));
    k.kernels.plan = &k.compiled.step;
    k.kernels.wanted = arena_array(&k.a, bool, k.compiled.step.kernel.n);
    assert_true(k.compiled.step.kernel.n >= 5);
    assert_int_equal(compiled_anew(&k, 3, &files), 3);
    assert_int_equal(files, 1);
    assert_int_equal(compiled_anew(&k, 5, &files), 2);
    assert_int_equal(files, 2);
    assert_int_equal(compiled_anew(&k, 5, &files), 0);
    Str path = kept_images(&k).at[1];
    assert_fine(file_write_atomic(path, "cut off", 7));
    assert_int_equal(compiled_anew(&k, 5, &files), 0); // in new files
    assert_int_equal(files, 2);
    assert_true(sealed_intact(path));
    kept_close(&k);
}

#define ENTRY(name) ".visible .entry " name "(\n)\n{\n}\n"

// Kernels that were compiled again by themselves are taken from where that was.
static void kernels_compiled_again_are_taken_from_there(void **state) {
    (void)state;
    Arena a;
    CudaImages image;
    assert_fine(arena_init(&a, 0));
    Plan p = {0};
    vec_push(&a, &p.kernel, ((Kernel){.name = STR("k_one")}));
    vec_push(&a, &p.kernel, ((Kernel){.name = STR("k_two")}));
    Str both = image_join(&a, STR(ENTRY("k_one") ENTRY("k_two")), STR(ENTRY("k_two")));
    vec_push(&a, &p.cubin, ((Cubin){.arch = 90, .code = both}));
    assert_fine(cuda_compile(NULL, &(CudaKernels){&p, NULL, 90, {0}, NULL, false}, &a, &image));
    assert_int_equal(image.n, 2);
    assert_non_null(strstr(image.code[image.of[0]].ptr, "k_one"));
    assert_true(str_eq(image.code[image.of[1]], STR(ENTRY("k_two"))));
    arena_release(&a);
}

// Code that came with the plan needs no compiler; without either the message names both ways out.
static void code_of_a_compiled_model_is_used(void **state) {
    (void)state;
    Arena a;
    CudaImages image;
    assert_fine(arena_init(&a, 0));
    Plan p = {0};
    vec_push(&a, &p.kernel, ((Kernel){.name = STR("k_any")}));
    CudaKernels k = {&p, NULL, 90, {0}, NULL, false};
    assert_int_equal(cuda_compile(NULL, &k, &a, &image), GAN_ERR_DEVICE);
    assert_non_null(strstr(gan_error(), "--target cuda:sm_90"));
    assert_non_null(strstr(gan_error(), "--device cpu works here"));
    const Str eighty = STR(ENTRY("k_any") "eighty"), ninety = STR(ENTRY("k_any") "ninety");
    vec_push(&a, &p.cubin, ((Cubin){.arch = 80, .code = eighty}));
    assert_int_equal(cuda_compile(NULL, &k, &a, &image), GAN_ERR_DEVICE);
    vec_push(&a, &p.cubin, ((Cubin){.arch = 90, .code = STR(ENTRY("k_other"))}));
    assert_int_equal(cuda_compile(NULL, &k, &a, &image), GAN_ERR_DEVICE);
    vec_push(&a, &p.cubin, ((Cubin){.arch = 90, .code = ninety}));
    assert_fine(cuda_compile(NULL, &k, &a, &image));
    assert_int_equal(image.n, 1);
    assert_true(str_eq(image.code[0], ninety));
    k.arch = 86;
    assert_fine(cuda_compile(NULL, &k, &a, &image));
    assert_true(str_eq(image.code[0], eighty));
    arena_release(&a);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_folder_that_keeps_nothing_is_told_once),
        cmocka_unit_test(every_convolution_has_an_engine_on_hopper),
        cmocka_unit_test(every_convolution_has_an_engine_in_bf16),
        cmocka_unit_test(every_convolution_has_an_engine_in_f16),
        cmocka_unit_test(every_convolution_has_an_engine_on_ampere),
        cmocka_unit_test(every_convolution_has_an_engine_without_tf32),
        cmocka_unit_test(images_are_cached_and_damage_is_detected),
        cmocka_unit_test(two_processes_may_fill_one_cache),
        cmocka_unit_test(an_image_does_not_depend_on_other_kernels),
        cmocka_unit_test(kernels_are_in_their_modules),
        cmocka_unit_test(only_new_kernels_are_compiled),
        cmocka_unit_test(kernels_compiled_again_are_taken_from_there),
        cmocka_unit_test(code_of_a_compiled_model_is_used),
    };
    if (CASES_LISTED(tests))
        return 0;
    keep_nvrtc();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
