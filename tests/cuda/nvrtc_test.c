// nvrtc_test.c - compiles generated CUDA text with NVRTC, no card needed: every kernel of the op
// table and of every shipped model compiles, and none spills a register. Skipped where the machine
// has no NVRTC. The build sets the ARCHITECTURES and the PRECISIONS of models: all of them take a
// minute.
#define _GNU_SOURCE
#include "cuda_compile.h"
#include "device.h"
#include "driver.h"
#include "image.h"
#include "kernel_cases.h"
#include "nvrtc.h"
#include "stages.h"
#include "ptx.h"
#include "resources.h"

#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include "cases.h"

#define MODELS ROOT_DIR "/models"

static const int architectures[] = {ARCHITECTURES};
static const Dtype precisions[] = {PRECISIONS};
static Arena arena;
static Nvrtc *nvrtc;

static int open_nvrtc(void **state) {
    (void)state;
    assert_int_equal(arena_init(&arena, 0), GAN_OK);
    assert_int_equal(nvrtc_open(0, &nvrtc), GAN_OK);
    if (!nvrtc)
        print_message("no NVRTC on this machine: kernels are not compiled\n");
    return 0;
}

static int close_nvrtc(void **state) {
    (void)state;
    nvrtc_close(nvrtc);
    arena_release(&arena);
    return 0;
}

static const KernelVec *kernels_of_table(Arena *a) {
    Cases *cases = arena_new(a, Cases);
    KernelVec *out = arena_new(a, KernelVec);
    *cases = (Cases){.arena = a, .dialect = &dialect_cuda};
    kernel_cases(cases);
    kernel_cases_kernels(cases, out);
    return out;
}

// --- models --------------------------------------------------------------------------------------

static void add_plan(Arena *a, const Plan *p, Map *seen, KernelVec *out) {
    for (uint32_t i = 0; i < p->kernel.n; i++) {
        const Kernel *k = &p->kernel.at[i];
        uint64_t h = hash64(k->name.ptr, k->name.len, 0);
        if (!map_find(seen, h)) {
            map_put(a, seen, h, 1);
            vec_push(a, out, k);
        }
    }
}

static void add_model(Arena *a, Str path, Dtype real, Map *seen, KernelVec *out) {
    Front *f = arena_new(a, Front);
    Compiled *c = arena_new(a, Compiled);
    front_init(f, a);
    CompileOptions o = {.path = path, .real = real, .dialect = &dialect_cuda};
    assert_int_equal(compile_file(f, &o, c), GAN_OK);
    add_plan(a, &c->init, seen, out);
    add_plan(a, &c->step, seen, out);
    for (uint32_t i = 0; i < c->module.entry.n; i++)
        add_plan(a, &c->entry[i], seen, out);
}

// The distinct kernels of all shipped models. Kernel texts name no model, so many are shared.
static const KernelVec *kernels_of_models(Arena *a) {
    StrVec names = {0};
    Map seen = {0};
    KernelVec *out = arena_new(a, KernelVec);
    assert_int_equal(dir_list(a, STR(MODELS), &names), GAN_OK);
    for (uint32_t i = 0; i < names.n; i++) {
        Str path = path_join(a, STR(MODELS), names.at[i]);
        for (size_t k = 0; k < sizeof precisions / sizeof *precisions; k++)
            if (str_ends(path, STR(".gan")))
                add_model(a, path, precisions[k], &seen, out);
    }
    assert_true(out->n > 0);
    return out;
}

// --- compiling -----------------------------------------------------------------------------------

// A module for every sixteen kernels.
static NvrtcJob *modules(Arena *a, const KernelVec *kernels, int arch, uint32_t *jobs) {
    enum { Kernels = 16 };
    Str *source = arena_array(a, Str, kernels->n), *name = arena_array(a, Str, kernels->n);
    uint32_t n = kernels->n;
    for (uint32_t i = 0; i < n; i++) {
        source[i] = kernels->at[i]->source;
        name[i] = kernels->at[i]->name;
    }
    *jobs = (n + Kernels - 1) / Kernels;
    NvrtcJob *job = arena_array(a, NvrtcJob, *jobs);
    for (uint32_t i = 0; i < *jobs; i++) {
        job[i] = (NvrtcJob){.prelude = gen_prelude(&dialect_cuda),
                            .source = source + i * Kernels,
                            .name = name + i * Kernels,
                            .sources = i + 1 < *jobs ? Kernels : n - i * Kernels,
                            .arch = arch};
    }
    return job;
}

// Compiled as for shipping, on all cores. *log: the compiler's messages about all of them.
static GanStatus compile_for(Arena *a, const KernelVec *kernels, int arch, Str *log) {
    uint32_t jobs;
    NvrtcJob *job = modules(a, kernels, arch, &jobs);
    NvrtcImage *image = arena_array(a, NvrtcImage, jobs);
    TRY(nvrtc_compile_all(nvrtc, a, job, jobs, NULL, NULL, image));
    Text said = {.arena = a};
    for (uint32_t i = 0; i < jobs; i++)
        text_put(&said, image[i].log);
    *log = text_str(&said);
    return GAN_OK;
}

// Kernels have no unused declarations and cause no other warnings.
static void check_no_warning(Arena a, const KernelVec *kernels) {
    uint32_t jobs;
    NvrtcImage image;
    NvrtcJob *job = modules(&a, kernels, architectures[0], &jobs);
    for (uint32_t i = 0; i < jobs; i++) {
        Arena scratch = a;
        if (nvrtc_translate(nvrtc, &scratch, &job[i], &image) != GAN_OK)
            fail_msg("%s", gan_error());
        if (strstr(str_z(&scratch, image.log), "warning"))
            fail_msg("%s", str_z(&scratch, image.log));
    }
}

static const Resources *find(const ResourcesVec *all, Str name) {
    for (uint32_t i = 0; i < all->n; i++)
        if (str_eq(all->at[i].name, name))
            return &all->at[i];
    return NULL;
}

static void check_compiled(Arena a, const char *what, const KernelVec *kernels, int arch) {
    Str log;
    ResourcesVec used = {0};
    int most = 0;
    if (!nvrtc_makes(nvrtc, arch)) {
        print_message("NVRTC %d does not know sm_%d\n", nvrtc_version(nvrtc), arch);
        skip();
    }
    if (compile_for(&a, kernels, arch, &log) != GAN_OK)
        fail_msg("%s", gan_error());
    resources_read(&a, log, &used);
    for (uint32_t i = 0; i < kernels->n; i++)
        if (!find(&used, kernels->at[i]->name))
            fail_msg("sm_%d: no entry %s", arch, str_z(&a, kernels->at[i]->name));
    for (uint32_t i = 0; i < used.n; i++) {
        const Resources *r = &used.at[i];
        if (r->stored || r->loaded || r->stack) {
            fail_msg("sm_%d: %s spills %d bytes, has a stack of %d", arch, str_z(&a, r->name),
                     r->stored, r->stack);
        }
        most = r->registers > most ? r->registers : most;
    }
    print_message("%s, sm_%d: %u entries, at most %d registers, none spilled, no stack\n", what,
                  arch, used.n, most);
}

static void check_all(const char *what, const KernelVec *(*kernels)(Arena *a)) {
    Arena a = arena;
    if (!nvrtc)
        skip();
    const KernelVec *all = kernels(&a);
    check_no_warning(a, all);
    for (size_t i = 0; i < sizeof architectures / sizeof *architectures; i++)
        check_compiled(a, what, all, architectures[i]);
}

static void kernels_of_the_op_table_compile(void **state) {
    (void)state;
    check_all("op table", kernels_of_table);
}

static void kernels_of_models_compile(void **state) {
    (void)state;
    check_all("models", kernels_of_models);
}

// --- values of more than 2^31 elements -----------------------------------------------------------

static const KernelVec *kernels_of_large_values(Arena *a) {
    Module *m = arena_new(a, Module);
    Plan *p = arena_new(a, Plan);
    KernelVec *out = arena_new(a, KernelVec);
    Map seen = {0};
    Func *f = &m->step;
    Type t = type_make(true, 3, (int64_t[]){3, 128, 128});
    *m = (Module){.name = STR("large"), .batch = 70000};
    graph_init(&f->g, a, m->batch);
    Builder b = {.g = &f->g};
    f->blocks = 1;
    vec_push(a, &f->tape, ((Ctl){.kind = CtlBlock}));
    vec_push(a, &m->slot, ((Slot){.kind = SlotState, .net = NONE, .type = t}));
    Val x = Read(&b, 0, 0, t), y = Mul(x, x);
    const Val results[] = {Add(y, Sum(x, 4 | 8)), Sum(y, 1 | 4 | 8), MaxOf(y, 2), ArgMax(x, 2 | 4),
                           Sum(y, 15)};
    for (size_t i = 0; i < sizeof results / sizeof *results; i++)
        vec_push(a, &f->result, ((Named){STR("r"), results[i].id, 0}));
    *p = (Plan){.module = m, .func = f, .real = DtF32};
    fuse(a, &(PassOptions){.real = DtF32}, p);
    gen_kernels(a, p, &dialect_cuda);
    add_plan(a, p, &seen, out);
    for (uint32_t i = 0; i < out->n; i++)
        assert_non_null(strstr(out->at[i]->source.ptr, "const int64_t i0 = "));
    return out;
}

static void kernels_of_large_values_compile(void **state) {
    (void)state;
    check_all("large values", kernels_of_large_values);
}

// --- mistakes are seen ---------------------------------------------------------------------------

static NvrtcJob planted(Arena *a, const char *source) {
    Str *text = arena_new(a, Str), *name = arena_new(a, Str);
    *text = str_c(source);
    *name = STR("k_planted");
    return (NvrtcJob){.source = text, .name = name, .sources = 1, .arch = architectures[0]};
}

static void assert_named(GanStatus st) {
    assert_int_equal(st, GAN_ERR_BUG);
    assert_non_null(strstr(gan_error(), "k_planted(2)"));
    assert_non_null(strstr(gan_error(), "\"y\""));
}

static void a_refused_kernel_is_named_with_its_line(void **state) {
    (void)state;
    Arena a = arena;
    NvrtcImage image;
    NvrtcImage code[2];
    if (!nvrtc)
        skip();
    NvrtcJob job = planted(&a, "extern \"C\" __global__ void k_planted(float *x) {\n"
                               "    x[0] = y;\n"
                               "}\n");
    assert_named(nvrtc_compile(nvrtc, &a, &job, &image));
    const NvrtcJob both[] = {job, job};
    assert_named(nvrtc_compile_all(nvrtc, &a, both, 2, NULL, NULL, code)); // on other threads
}

static void stack_use_is_detected(void **state) {
    (void)state;
    Arena a = arena;
    NvrtcImage image;
    ResourcesVec used = {0};
    if (!nvrtc)
        skip();
    NvrtcJob job = planted(&a, "extern \"C\" __global__ void k_planted(int *x, int n) {\n"
                               "    volatile int at[64];\n"
                               "    for (int i = 0; i < n; i++) at[i] = x[i];\n"
                               "    for (int i = 0; i < n; i++) x[i] = at[x[i]];\n"
                               "}\n");
    assert_int_equal(nvrtc_compile(nvrtc, &a, &job, &image), GAN_OK);
    resources_read(&a, image.log, &used);
    assert_int_equal(used.n, 1);
    assert_true(used.at[0].stack >= 256);
    assert_true(used.at[0].registers > 0);
}

// The same element has the same bits in every kernel: no implicit fma contraction.
static void only_fma_calls_become_fma(void **state) {
    (void)state;
    static const struct {
        const char *sum;
        bool one;
    } cases[] = {{"x[1] * x[2] + x[3]", false}, {"fmaf(x[1], x[2], x[3])", true}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Arena a = arena;
        NvrtcImage ptx;
        if (!nvrtc)
            skip();
        const char *text = "extern \"C\" __global__ void k_planted(float *x) { x[0] = %s; }\n";
        NvrtcJob job = planted(&a, str_format(&a, text, cases[i].sum).ptr);
        assert_int_equal(nvrtc_translate(nvrtc, &a, &job, &ptx), GAN_OK);
        const char *z = str_z(&a, ptx.code);
        assert_int_equal(strstr(z, "fma.rn.f32") != NULL, cases[i].one);
        assert_int_equal(strstr(z, "mul.rn.f32") && strstr(z, "add.rn.f32"), !cases[i].one);
    }
}

// Forty live sums do not fit into the 32 registers a thread has with two such blocks.
#define PRESSED(name)                                                                              \
    "extern \"C\" __global__ void __launch_bounds__(1024, 2)\n"                                    \
    "    " name "(float *x, int n) {\n"                                                            \
    "    float at[40] = {};\n"                                                                     \
    "    for (int i = 0; i < n; i++) {\n"                                                          \
    "        _Pragma(\"unroll\") for (int k = 0; k < 40; k++)\n"                                   \
    "            at[k] = fmaf(at[(k + 7) % 40], x[i], at[k]);\n"                                   \
    "    }\n"                                                                                      \
    "    _Pragma(\"unroll\") for (int k = 0; k < 40; k++) x[k + threadIdx.x] = at[k];\n"           \
    "}\n"

static bool holds(Str image, Str name) {
    return memmem(image.ptr, image.len, name.ptr, name.len) != NULL;
}

// A kernel that spills is assembled again, by itself and with more registers.
static void spilling_kernels_are_assembled_with_more_registers(void **state) {
    (void)state;
    Arena a = arena;
    NvrtcImage image;
    ResourcesVec used = {0};
    Str source[] = {STR(PRESSED("k_pressed")),
                    STR("extern \"C\" __global__ void k_small(float *x) { x[0] = 1; }\n")};
    Str name[] = {STR("k_pressed"), STR("k_small")};
    if (!nvrtc)
        skip();
    NvrtcJob job = {.source = source, .name = name, .sources = 2, .arch = architectures[0]};
    if (nvrtc_compile(nvrtc, &a, &job, &image) != GAN_OK)
        fail_msg("%s", gan_error());
    resources_read(&a, image.log, &used);
    assert_int_equal(used.n, 2);
    for (uint32_t i = 0; i < used.n; i++)
        assert_int_equal(used.at[i].stored, 0);
    assert_true(find(&used, name[0])->registers > 32);
    Str again = image_again(image.code);
    assert_memory_equal(again.ptr, "\177ELF", 4);
    assert_true(holds(again, name[0]) && !holds(again, name[1]));
    assert_true(holds(str_sub(image.code, 0, (size_t)(again.ptr - image.code.ptr)), name[1]));
}

// Two joined images are split again; other bytes are one image, whatever they end in.
static void the_images_of_a_module_are_split(void **state) {
    (void)state;
    Arena a = arena;
    const Str second = STR("second");
    for (size_t n = 0; n < 40; n++) {
        Str first = str_sub(STR("a first image of up to forty bytes, or so"), 0, n);
        Str both = image_join(&a, first, second);
        assert_true(str_starts(both, first) && str_eq(image_again(both), second));
        assert_int_equal(image_again(str_sub(both, 0, both.len - 1)).len, 0);
        assert_int_equal(image_again(first).len, 0);
    }
    Str both = image_join(&a, STR("first"), second);
    char *from = (char *)(uintptr_t)both.ptr + both.len - 16; // where the second begins
    for (int i = 0; i < 256; i++) {
        for (int k = 0; k < 8; k++) {
            char was = from[k];
            from[k] = (char)i;
            Str again = image_again(both);
            assert_true(!again.len || (again.ptr >= both.ptr && again.ptr + again.len <= from));
            from[k] = was;
        }
    }
}

static void named_kernels_are_assembled_alone_without_the_block_minimum(void **state) {
    (void)state;
    Arena a = arena;
#define ENTRY(name, room)                                                                          \
    ".visible .entry " name "(\n\t.param .u64 p\n)\n.maxntid 256, 1, 1\n" room "{\n\tret;\n\n}\n"
    const Str name = STR("k_b"), without = STR("k_c");
#define HEAD ".version 8.0\n.shared .b8 all[4];\n"
    Str ptx = STR(HEAD ENTRY("k_a", ".minnctapersm 2\n") ENTRY("k_b", ".minnctapersm 2\n")
                      ENTRY("k_bb", "") ENTRY("k_c", ""));
    Str one = STR(HEAD ENTRY("k_b", ".minnctapersm 1\n"));
    Str both = STR(HEAD ENTRY("k_b", ".minnctapersm 1\n") ENTRY("k_c", ".minnctapersm 1\n"));
    assert_true(str_eq(ptx_with_room(&a, ptx, &name, 0), STR(HEAD)));
    assert_true(str_eq(ptx_with_room(&a, ptx, &name, 1), one));
    assert_true(str_eq(ptx_with_room(&a, ptx, (Str[]){name, without}, 2), both));
}

static void hash_of_image(void *user, Arena scratch, uint32_t job, Str code) {
    (void)scratch;
    ((Hash128 *)user)[job] = hash128(code.ptr, code.len);
}

// The same PTX for all architectures from one on: an image does not depend on the others requested.
static void an_image_does_not_depend_on_the_others(void **state) {
    (void)state;
    Arena a = arena;
    NvrtcImage alone, all[3];
    Hash128 told[3] = {0};
    if (!nvrtc)
        skip();
    NvrtcJob job[3];
    job[0] = planted(&a, "extern \"C\" __global__ void k_planted(float *x, float y) {\n"
                         "    x[threadIdx.x] = x[threadIdx.x] / y;\n"
                         "}\n");
    job[1] = job[2] = job[0];
    job[0].arch = job[1].arch = 80;
    job[1].ptx = true;
    job[2].arch = 90;
    assert_int_equal(nvrtc_compile(nvrtc, &a, &job[2], &alone), GAN_OK);
    assert_int_equal(nvrtc_compile_all(nvrtc, &a, job, 3, hash_of_image, told, all), GAN_OK);
    for (uint32_t i = 0; i < 3; i++)
        assert_int_equal(told[i].lo, hash128(all[i].code.ptr, all[i].code.len).lo);
    assert_true(str_eq(all[2].code, alone.code));
    assert_false(str_eq(all[0].code, alone.code));
    assert_non_null(strstr(all[1].code.ptr, ".target sm_80"));
}

// Fails every allocation, in any thread: a status, and the caller's arena is unchanged. Failures in
// the caller's own arena before any thread starts are handled by the caller.
static void refused_memory_is_a_status(void **state) {
    (void)state;
    Arena a = arena;
    NvrtcImage image[2];
    if (!nvrtc)
        skip();
    NvrtcJob job[2];
    job[0] = planted(&a, "extern \"C\" __global__ void k_planted(float *x) { x[0] = 1; }\n");
    job[1] = job[0];
    job[1].arch = 80;
    volatile int refusals = 0, n = 0;
    for (GanStatus st = GAN_ERR_MEMORY; st != GAN_OK;) {
        Arena once = a;
        jmp_buf oom;
        once.oom = &oom;
        mem_fail_at(++n);
        if (setjmp(oom))
            continue;
        st = nvrtc_compile_all(nvrtc, &once, job, 2, NULL, NULL, image);
        mem_fail_at(0);
        assert_true(st == GAN_OK || st == GAN_ERR_MEMORY);
        assert_ptr_equal(once.oom, &oom);
        if (st == GAN_ERR_MEMORY)
            assert_true(strstr(gan_error(), "memory") || strstr(gan_error(), "address space"));
        refusals += st == GAN_ERR_MEMORY;
    }
    assert_true(refusals > 10); // in every task, and in storing images
}

// Every core has a batch, of at least four kernels and at most 64 on average.
static void batches_follow_the_cores(void **state) {
    (void)state;
    static const struct {
        uint32_t kernels, cores, batches;
    } row[] = {
        {0, 16, 0},   {1, 16, 1},   {7, 2, 1},   {8, 2, 2},   {47, 1, 1},     {47, 2, 2},
        {47, 16, 11}, {92, 16, 16}, {128, 2, 2}, {129, 2, 4}, {1024, 16, 16}, {1025, 16, 32},
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++)
        assert_int_equal(cuda_batches(row[i].kernels, row[i].cores), row[i].batches);
}

// A driver serves libraries of its own major version of CUDA and of earlier ones.
static void libraries_are_not_newer_than_the_driver(void **state) {
    (void)state;
    const struct {
        const char *const *names;
        const char *file[2]; // for drivers of CUDA 12 and of 13
    } row[] = {{nvrtc_names, {"libnvrtc.so.12", "libnvrtc.so.13"}},
               {cufft_names, {"libcufft.so.11", "libcufft.so.12"}},
               {cupti_names, {"libcupti.so.12", "libcupti.so.13"}}};
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        assert_string_equal(names_for_driver(row[i].names, 12090)[0], row[i].file[0]);
        assert_string_equal(names_for_driver(row[i].names, 13000)[0], row[i].file[1]);
        assert_string_equal(names_for_driver(row[i].names, 0)[0], row[i].file[1]);
    }
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kernels_of_the_op_table_compile),
        cmocka_unit_test(kernels_of_models_compile),
        cmocka_unit_test(kernels_of_large_values_compile),
        cmocka_unit_test(a_refused_kernel_is_named_with_its_line),
        cmocka_unit_test(stack_use_is_detected),
        cmocka_unit_test(only_fma_calls_become_fma),
        cmocka_unit_test(spilling_kernels_are_assembled_with_more_registers),
        cmocka_unit_test(the_images_of_a_module_are_split),
        cmocka_unit_test(named_kernels_are_assembled_alone_without_the_block_minimum),
        cmocka_unit_test(an_image_does_not_depend_on_the_others),
        cmocka_unit_test(refused_memory_is_a_status),
        cmocka_unit_test(batches_follow_the_cores),
        cmocka_unit_test(libraries_are_not_newer_than_the_driver),
    };
    if (CASES_LISTED(tests))
        return 0;
    return cmocka_run_group_tests(tests, open_nvrtc, close_nvrtc);
}
