// kernel_test.c - generated kernels against the reference evaluator.
//
// Each case is a small graph over a few slots. It is fused and its kernels written; all kernels of
// all cases are compiled as one file by the machine's compiler and loaded. Every case then runs its
// regions, each kernel in two calls so that the cut is tried, and compares every result and written
// slot with the graph evaluated node by node. The elementwise cases walk lang/ops.def: a new row is
// tested by being there.
#define _GNU_SOURCE // mkdtemp
#include "interp.h"
#include "kernel_cases.h"
#include "plan.h"

#include <setjmp.h>
#include <cmocka.h>
#include "cases.h"
#include <dlfcn.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static Arena arena;
static Cases cases = {.arena = &arena, .dialect = &dialect_c};
static void *library;

// --- compiling -----------------------------------------------------------------------------------

static int compile_all(void **state) {
    (void)state;
    char dir[] = "/tmp/kernel_test-XXXXXX";
    KernelVec kernels = {0};
    Text t = {.arena = &arena};
    assert_int_equal(arena_init(&arena, 0), GAN_OK);
    kernel_cases(&cases);
    kernel_cases_kernels(&cases, &kernels);
    text_put(&t, gen_prelude(&dialect_c));
    for (uint32_t i = 0; i < kernels.n; i++)
        text_put(&t, kernels.at[i]->source);
    if (!mkdtemp(dir))
        return -1;
    Str all = text_str(&t), source = path_join(&arena, str_c(dir), STR("k.c")),
        object = path_join(&arena, str_c(dir), STR("k.so"));
    const char *argv[] = {"cc",
                          "-std=c17",
                          "-O3",
                          "-march=native",
                          "-ffp-contract=fast",
                          "-fno-math-errno",
                          "-fno-trapping-math",
                          "-w",
                          "-fPIC",
                          "-shared",
                          str_z(&arena, source),
                          "-o",
                          str_z(&arena, object),
                          "-lm",
                          NULL};
    Str said;
    int code = 1;
    assert_int_equal(file_write_atomic(source, all.ptr, all.len), GAN_OK);
    assert_int_equal(process_run(&arena, argv, &said, &code), GAN_OK);
    if (code != 0)
        print_error("%.*s\n", SARG(said));
    library = code == 0 ? dlopen(str_z(&arena, object), RTLD_NOW | RTLD_LOCAL) : NULL;
    file_remove(source);
    file_remove(object);
    rmdir(dir);
    return library ? 0 : -1;
}

static int release_all(void **state) {
    (void)state;
    dlclose(library);
    arena_release(&arena);
    return 0;
}

// --- running -------------------------------------------------------------------------------------

typedef void KernelFn(void *const *p, const Counters *c, int64_t lo, int64_t hi);
typedef void FinishFn(void *const *p);

typedef struct Run {
    const Case *c;
    const Graph *g;
    Counters counters;
    void **at;   // [node] storage of what is stored, in the device's layout
    void **slot; // [slot]
} Run;

static float bf16_float(uint16_t x) {
    uint32_t u = (uint32_t)x << 16;
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
}

// Moves one value between logical doubles and the device's layout.
static void convert(const Graph *g, const Type *t, void *device, double *logical, bool to_device) {
    int64_t stride[MAX_RANK + 1], n = type_elements(g, t), digit[MAX_RANK + 1] = {0};
    type_strides(t, stride);
    for (int64_t i = 0; i < n; i++) {
        int64_t at = 0;
        for (uint32_t d = 0; d <= t->rank; d++)
            at += digit[d] * stride[d];
        if (to_device && t->dtype == DtBF16) {
            float f = (float)logical[i];
            uint32_t u;
            memcpy(&u, &f, sizeof u);
            ((uint16_t *)device)[at] = (uint16_t)(u >> 16);
        } else if (to_device) {
            ((float *)device)[at] = (float)logical[i];
        } else {
            logical[i] = t->dtype == DtBF16 ? (double)bf16_float(((uint16_t *)device)[at])
                                            : (double)((float *)device)[at];
        }
        for (uint32_t d = t->rank + 1; d-- > 0 && ++digit[d] == (d            ? t->dim[d - 1]
                                                                 : t->batched ? g->batch
                                                                              : 1);)
            digit[d] = 0;
    }
}

static void *fresh(const Graph *g, uint32_t id) {
    size_t bytes = type_bytes(g, node_type(g, id));
    void *p = arena_alloc(&arena, bytes, 64);
    memset(p, 0xff, bytes); // nothing may be read before it is written
    return p;
}

static void run_kernel(Run *r, const Region *region) {
    const Kernel *k = &r->c->plan.kernel.at[region->kernel];
    void *p[64];
    uint32_t n = 0;
    KernelFn *kernel;
    FinishFn *last;
    void *symbol = dlsym(library, str_z(&arena, k->name));
    assert_non_null(symbol);
    memcpy(&kernel, &symbol, sizeof symbol);
    for (uint32_t i = 0; i < region->in.n; i++)
        p[n++] = r->at[region->in.at[i]];
    for (uint32_t i = 0; i < region->out.n; i++) {
        uint32_t id = region->out.at[i];
        if (r->g->node.at[id].op == OpWrite)
            r->at[id] = r->slot[node_attr(r->g, id)->i[0]];
        else
            r->at[id] = fresh(r->g, id);
        p[n++] = r->at[id];
    }
    p[n] = arena_alloc(&arena, region->scratch + 1, 64);
    memset(p[n++], 0xff, region->scratch);
    p[n++] = region->number.at;
    int64_t units = region->units, cut = units / 3;
    kernel(p, &r->counters, cut, units);
    kernel(p, &r->counters, 0, cut);
    if (k->finish) {
        symbol = dlsym(library, str_format(&arena, "%.*s_finish", SARG(k->name)).ptr);
        assert_non_null(symbol);
        memcpy(&last, &symbol, sizeof symbol);
        last(p);
    }
}

static void check(const Run *r, const char *what, uint32_t id, void *device, const double *right) {
    const Type *t = node_type(r->g, id);
    int64_t n = type_elements(r->g, t);
    double *is = arena_array(&arena, double, n), most = 0;
    convert(r->g, t, device, is, false);
    for (int64_t i = 0; i < n; i++)
        most = fabs(right[i]) > most ? fabs(right[i]) : most;
    for (int64_t i = 0; i < n; i++)
        if (!(fabs(is[i] - right[i]) <= r->c->tolerance * (most + 1e-3)))
            fail_msg("%s: %s %s %%%u element %lld is %.9g, not %.9g", r->c->name, what,
                     op_info[r->g->node.at[id].op].text, id, (long long)i, is[i], right[i]);
}

static void run_case(const Case *c) {
    Run r = {.c = c,
             .g = &c->m.step.g,
             .counters = {.seed = 0x1234567890abcdef, .step = 3, .sample0 = 2}};
    Interp ref = interp_make(&arena, r.g);
    ref.counters = r.counters;
    r.at = arena_array(&arena, void *, r.g->node.n);
    r.slot = arena_array(&arena, void *, c->m.slot.n);
    for (uint32_t id = 1; id < r.g->node.n; id++) {
        if (r.g->node.at[id].op != OpRead)
            continue;
        uint32_t slot = (uint32_t)node_attr(r.g, id)->i[0];
        double *x = interp_set(&ref, id);
        for (int64_t i = 0; i < interp_count(&ref, id); i++)
            x[i] = test_number((uint64_t)slot << 32 | (uint64_t)i);
        r.at[id] = r.slot[slot] = fresh(r.g, id);
        convert(r.g, node_type(r.g, id), r.at[id], x, true);
        convert(r.g, node_type(r.g, id), r.at[id], x, false); // as the device rounds it
    }
    interp_run(&ref);
    for (uint32_t i = 0; i < c->plan.region.n; i++) {
        assert_int_equal(c->plan.region.at[i].kind, RegionLoop);
        run_kernel(&r, &c->plan.region.at[i]);
    }
    for (uint32_t i = 0; i < c->m.step.result.n; i++) {
        uint32_t id = c->m.step.result.at[i].node;
        check(&r, "result", id, r.at[c->plan.place[id].owner], ref.value[id]);
    }
    for (uint32_t i = 0; i < c->m.step.effect.n; i++) {
        uint32_t id = c->m.step.effect.at[i];
        check(&r, "effect", id, r.at[id], ref.value[id]);
    }
}

static void kernels_agree_with_the_evaluator(void **state) {
    (void)state;
    for (uint32_t i = 0; i < cases.at.n; i++)
        run_case(cases.at.at[i]);
    print_message("%u cases\n", cases.at.n);
}

// The table of squared distances of the case above is promised never to be stored.
static void a_table_read_by_minima_is_not_stored(void **state) {
    (void)state;
    for (uint32_t i = 0; i < cases.at.n; i++) {
        const Case *c = cases.at.at[i];
        for (uint32_t k = 0; strstr(c->name, "only minima") && k < c->plan.region.n; k++)
            for (uint32_t o = 0; o < c->plan.region.at[k].out.n; o++)
                assert_true(type_sample(node_type(&c->m.step.g, c->plan.region.at[k].out.at[o])) <
                            2000);
    }
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kernels_agree_with_the_evaluator),
        cmocka_unit_test(a_table_read_by_minima_is_not_stored),
    };
    if (CASES_LISTED(tests)) {
        return 0;
    }
    return cmocka_run_group_tests(tests, compile_all, release_all);
}
