// device_test.c - the conformance suite of devices: every device runs the same programs and must
// agree with the oracle.
//
// A device passes when memory is zeroed and aligned, a step over random programs leaves in every
// slot and report what the oracle computes in double (to its precision), running twice gives the
// same bits, the number of threads changes nothing, and unsupported programs are refused with a
// message.
#define _GNU_SOURCE
#include "cc.h"
#include "gen.h"
#include "prelude.h"
#include "programs.h"
#include "device_api.h"

#include <setjmp.h>
#include <cmocka.h>
#include "cases.h"
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PROGRAMS = 60, COMPILED = 16 }; // seeds whose kernels are compiled too: a second each

typedef struct Bench { // one device, one program, loaded
    Arena *a;
    const DeviceApi *api;
    Device *d;
    Module m;
    Plan plan;
    char *slots, *work;           // the device's memory, which may not be the host's
    char *host_slots, *host_work; // host copies of it
    Loaded *loaded;
} Bench;

static char cache[] = "/tmp/gan-device-test-XXXXXX";

static DeviceOptions options(int threads) {
    return (DeviceOptions){.threads = threads, .cache_dir = str_c(cache), .no_tf32 = true};
}

static Device *open_device(const DeviceApi *api, int threads) {
    DeviceOptions o = options(threads);
    Device *d = NULL;
    if (api->open(&o, &d) != GAN_OK)
        fail_msg("%s: %s", api->name, gan_error());
    return d;
}

// --- values --------------------------------------------------------------------------------------

typedef struct Walk {
    int n;
    int64_t extent[MAX_RANK + 1], stride[MAX_RANK + 1];
} Walk;

static Walk walk(const DeviceApi *api, const Type *t, int64_t batch) {
    Walk w = {.n = t->rank + 1};
    w.extent[0] = t->batched ? batch : 1;
    for (int i = 0; i < t->rank; i++)
        w.extent[i + 1] = t->dim[i];
    type_strides(t, w.stride);
    int64_t step = 1;
    for (int i = w.n; api->logical && i-- > 0; step *= w.extent[i])
        w.stride[i] = step;
    return w;
}

static int64_t element(const Walk *w, int64_t i) {
    int64_t at = 0;
    for (int k = w->n; k-- > 0; i /= w->extent[k])
        at += i % w->extent[k] * w->stride[k];
    return at;
}

static double value(const Bench *b, const Type *t, const char *at, int64_t i) {
    Walk w = walk(b->api, t, b->m.batch);
    int64_t e = element(&w, i);
    uint16_t half = dtype_is_half((Dtype)t->dtype) ? ((const uint16_t *)(const void *)at)[e] : 0;
    if (t->dtype == DtBF16)
        return gan_bf16_to_f32(half);
    if (t->dtype == DtF16)
        return gan_f16_to_f32(half);
    return t->dtype == DtF64 ? ((const double *)(const void *)at)[e]
                             : ((const float *)(const void *)at)[e];
}

static void set_slots(Bench *b, const Oracle *o) {
    for (uint32_t s = 0; s < b->m.slot.n; s++) {
        const Type *t = &b->m.slot.at[s].type;
        Walk w = walk(b->api, t, b->m.batch);
        char *at = b->host_slots + b->m.slot.at[s].offset;
        for (int64_t i = 0; i < oracle_count(o, s); i++) {
            int64_t e = element(&w, i);
            if (t->dtype == DtF64)
                ((double *)(void *)at)[e] = o->slot[s][i];
            else
                ((float *)(void *)at)[e] = (float)o->slot[s][i];
        }
    }
    assert_int_equal(b->api->put(b->d, b->slots, b->host_slots, b->plan.slot_bytes), GAN_OK);
}

static void fetch(Bench *b) {
    assert_int_equal(b->api->get(b->d, b->host_slots, b->slots, b->plan.slot_bytes), GAN_OK);
    assert_int_equal(b->api->get(b->d, b->host_work, b->work, b->plan.work_bytes), GAN_OK);
}

// --- programs ------------------------------------------------------------------------------------

static void plan_program(Bench *b, Dtype real) {
    PassOptions o = {.real = real, .no_fuse = b->api->no_fuse};
    passes_run(b->a, &b->m, &b->m.step, &o, NULL);
    size_t slots = slots_place(&b->m, real);
    plan_make(b->a, &b->m, &b->m.step, &o, &b->plan);
    b->plan.slot_bytes = slots;
    if (b->api->dialect)
        gen_kernels(b->a, &b->plan, dialect_find(str_c(b->api->dialect)));
}

static void load(Bench *b) {
    void *slots = NULL, *work = NULL;
    assert_int_equal(b->api->alloc(b->d, b->plan.slot_bytes, &slots), GAN_OK);
    assert_int_equal(b->api->alloc(b->d, device_bytes(b->api, &b->plan).work, &work), GAN_OK);
    b->slots = slots;
    b->work = work;
    b->host_slots = arena_alloc(b->a, b->plan.slot_bytes, 64);
    b->host_work = arena_alloc(b->a, b->plan.work_bytes, 64);
    if (b->api->load(b->d, &b->plan, slots, work, &b->loaded) != GAN_OK)
        fail_msg("%s: %s", b->api->name, gan_error());
}

static void unload(Bench *b) {
    b->api->unload(b->loaded);
    b->api->release(b->d, b->work);
    b->api->release(b->d, b->slots);
}

static void run_block(Bench *b, uint32_t block, const Counters *c) {
    if (b->api->run(b->loaded, block, c) != GAN_OK)
        fail_msg("%s: %s", b->api->name, gan_error());
}

static void step(Bench *b, Counters c) {
    const Func *f = &b->m.step;
    uint32_t repeat = 0;
    for (uint32_t i = 0; i < f->tape.n; i++) {
        Ctl ctl = f->tape.at[i];
        if (ctl.kind == CtlBlock)
            run_block(b, ctl.arg, &c);
        else if (ctl.kind == CtlRepeat)
            repeat = i;
        else if (++c.round < f->tape.at[repeat].arg)
            i = repeat;
        else
            c.round = 0;
    }
    assert_int_equal(b->api->sync(b->d), GAN_OK);
}

static void compare(const Bench *b, const Type *t, const char *at, const double *want,
                    double tolerance, Str what, uint64_t seed) {
    double error = 0, norm = 1;
    int64_t n = type_elements(&b->m.step.g, t);
    for (int64_t i = 0; i < n; i++) {
        double d = value(b, t, at, i) - want[i];
        error += d * d;
        norm += want[i] * want[i];
    }
    if (!(sqrt(error / norm) <= tolerance))
        fail_msg("%s, program %llu, %.*s: relative error %g", b->api->name,
                 (unsigned long long)seed, SARG(what), sqrt(error / norm));
}

static void check_slots(const Bench *b, const Oracle *o, double tolerance, uint64_t seed) {
    for (uint32_t s = 0; s < b->m.slot.n; s++)
        compare(b, &b->m.slot.at[s].type, b->host_slots + b->m.slot.at[s].offset, o->slot[s],
                tolerance, b->m.slot.at[s].name, seed);
}

static void check_reports(const Bench *b, const Oracle *o, double tolerance, uint64_t seed) {
    const Func *f = &b->m.step;
    for (uint32_t i = 0; i < f->report.n; i++) {
        uint32_t id = f->report.at[i].node;
        Place at = b->plan.place[id];
        if (at.space == SpaceWork)
            compare(b, node_type(&f->g, id), b->host_work + at.offset, o->value[id], tolerance,
                    STR("report"), seed);
    }
}

// For a step given in b->m.
static void check_step(Bench *b, uint64_t seed, Dtype real, double tolerance) {
    plan_program(b, real);
    Oracle o;
    oracle_init(b->a, &b->m, &o);
    load(b);
    if (b->api->ready)
        assert_int_equal(b->api->ready(b->loaded), GAN_OK);
    set_slots(b, &o);
    step(b, o.counters);
    oracle_step(b->a, &o);
    fetch(b);
    check_slots(b, &o, tolerance, seed);
    check_reports(b, &o, tolerance, seed);
    unload(b);
}

static void check_program(const DeviceApi *api, Device *d, uint64_t seed, Dtype real,
                          double tolerance) {
    Arena a;
    assert_int_equal(arena_init(&a, 0), GAN_OK);
    Bench b = {.a = &a, .api = api, .d = d};
    program_random(&a, seed, &b.m);
    check_step(&b, seed, real, tolerance);
    arena_release(&a);
}

static uint32_t units_kept(void) {
    Arena a;
    StrVec names = {0};
    uint32_t n = 0;
    assert_int_equal(arena_init(&a, 0), GAN_OK);
    assert_int_equal(dir_list(&a, str_c(cache), &names), GAN_OK);
    for (uint32_t i = 0; i < names.n; i++)
        n += str_ends(names.at[i], STR(".so"));
    arena_release(&a);
    return n;
}

// The kernels of both compilation tiers give the same bits. False: there was a single tier.
static bool check_tiers(Device *d, uint64_t seed, Dtype real) {
    Arena a;
    assert_int_equal(arena_init(&a, 0), GAN_OK);
    Bench b = {.a = &a, .api = &device_cpu, .d = d};
    Oracle o;
    program_random(&a, seed, &b.m);
    plan_program(&b, real);
    oracle_init(b.a, &b.m, &o);
    load(&b);
    set_slots(&b, &o);
    step(&b, o.counters);
    fetch(&b);
    char *slots = arena_array(&a, char, b.plan.slot_bytes);
    memcpy(slots, b.host_slots, b.plan.slot_bytes);
    uint32_t before = units_kept();
    assert_int_equal(device_cpu.ready(b.loaded), GAN_OK);
    bool moved = units_kept() > before;
    set_slots(&b, &o);
    step(&b, o.counters);
    fetch(&b);
    assert_memory_equal(slots, b.host_slots, b.plan.slot_bytes);
    unload(&b);
    arena_release(&a);
    return moved;
}

static const DeviceApi *const devices[] = {&device_ref, &device_cpu, &device_cuda};
enum { DEVICES = sizeof devices / sizeof *devices };

// Is the device available? If not, the test prints that it is skipped.
static bool present(const DeviceApi *api) {
    DeviceOptions o = options(1);
    Device *d = NULL;
    if (api->open(&o, &d) == GAN_OK) {
        api->close(d);
        return true;
    }
    print_message("skipped for %s: %s\n", api->name, gan_error());
    return false;
}

// Without a compiler the cpu device runs reference loops, and caches nothing.
static void skip_without_compiler(void) {
    Arena a;
    Cc cc;
    assert_int_equal(arena_init(&a, 0), GAN_OK);
    bool found = cc_find(&a, (Str){0}, &cc);
    arena_release(&a);
    if (!found) {
        print_message("skipped: this machine has no C compiler\n");
        skip();
    }
}

static void better_code_gives_the_same_bits(void **state) {
    (void)state;
    skip_without_compiler();
    static const Dtype real[] = {DtF32, DtBF16, DtF16};
    Device *d = open_device(&device_cpu, 2);
    uint32_t moved = 0;
    for (uint64_t seed = 0; seed < 12; seed++)
        moved += check_tiers(d, 100 + seed, real[seed % 3]); // which no other case has compiled
    assert_true(moved > 0);
    print_message("%u programs were compiled twice\n", moved);
    device_cpu.close(d);
}

static void programs_agree_with_the_oracle(void **state) {
    (void)state;
    for (int i = 0; i < DEVICES; i++) {
        if (!present(devices[i]))
            continue;
        Device *d = open_device(devices[i], 2);
        for (uint64_t seed = 0; seed < (devices[i]->dialect ? COMPILED : PROGRAMS); seed++)
            check_program(devices[i], d, seed, DtF32, 2e-4);
        devices[i]->close(d);
    }
}

// Forty products that differ: so many that other threads prepare some of them.
static void program_products(Arena *a, Module *out) {
    enum { PRODUCTS = 40, ROWS = 8 };
    Func *f = &out->step;
    const uint8_t left[] = {1, 2}, right[] = {3, 2}, result[] = {1, 3};
    *out = (Module){.name = STR("products"), .batch = 1};
    graph_init(&f->g, a, 1);
    Builder at = {.g = &f->g};
    f->name = STR("step");
    f->blocks = 1;
    vec_push(a, &out->net, ((Net){.name = STR("N"), .copy_of = NONE}));
    for (uint32_t i = 0; i < PRODUCTS; i++) {
        Type from = type_make(false, 2, (int64_t[]){ROWS, 3 + i}),
             to = type_make(false, 2, (int64_t[]){ROWS, ROWS});
        Slot s = {.kind = SlotParam, .name = str_format(a, "x%u", i), .type = from},
             r = {.kind = SlotParam, .name = str_format(a, "y%u", i), .type = to};
        vec_push(a, &out->slot, s);
        vec_push(a, &out->slot, r);
        Val x = Read(&at, 2 * i, 0, from);
        Val y = Dot(x, left, x, right, result, 2, false);
        vec_push(a, &f->effect, Write(2 * i + 1, y).id);
    }
    vec_push(a, &f->tape, ((Ctl){CtlBlock, 0, 0}));
}

static void many_products_are_right(void **state) {
    (void)state;
    for (int i = 0; i < DEVICES; i++) {
        if (!present(devices[i]))
            continue;
        Arena a;
        assert_int_equal(arena_init(&a, 0), GAN_OK);
        Bench b = {.a = &a, .api = devices[i], .d = open_device(devices[i], 4)};
        program_products(&a, &b.m);
        check_step(&b, 0, DtF32, 1e-5);
        devices[i]->close(b.d);
        arena_release(&a);
    }
}

static void ref_agrees_in_double(void **state) {
    (void)state;
    Device *d = open_device(&device_ref, 1);
    for (uint64_t seed = 0; seed < PROGRAMS; seed++)
        check_program(&device_ref, d, seed, DtF64, 1e-12);
    device_ref.close(d);
}

static void check_half(Dtype real, double tolerance) {
    for (int i = 0; i < DEVICES; i++) {
        if (!present(devices[i]))
            continue;
        assert_true(devices[i]->supports(real));
        Device *d = open_device(devices[i], 2);
        for (uint64_t seed = 0; seed < 4; seed++)
            check_program(devices[i], d, seed, real, tolerance);
        devices[i]->close(d);
    }
}

static void programs_agree_in_bf16(void **state) {
    (void)state;
    check_half(DtBF16, 0.15);
}

static void programs_agree_in_f16(void **state) {
    (void)state;
    check_half(DtF16, 0.02);
}

// --- the same bits -------------------------------------------------------------------------------

// The slots' bytes after two steps with this many threads.
static char *bytes_of(Arena *a, const DeviceApi *api, uint64_t seed, int threads, size_t *n) {
    Device *d = open_device(api, threads);
    Bench b = {.a = a, .api = api, .d = d};
    program_random(a, seed, &b.m);
    plan_program(&b, DtF32);
    Oracle o;
    oracle_init(a, &b.m, &o);
    load(&b);
    set_slots(&b, &o);
    step(&b, o.counters);
    step(&b, o.counters);
    *n = b.plan.slot_bytes;
    char *out = arena_alloc(a, *n, 1);
    assert_int_equal(api->get(d, out, b.slots, *n), GAN_OK);
    unload(&b);
    api->close(d);
    return out;
}

static void a_second_run_gives_the_same_bits(void **state) {
    (void)state;
    for (int i = 0; i < DEVICES; i++)
        for (uint64_t seed = 0; seed < 4 && present(devices[i]); seed++) {
            Arena a;
            size_t n;
            assert_int_equal(arena_init(&a, 0), GAN_OK);
            char *one = bytes_of(&a, devices[i], seed, 2, &n),
                 *two = bytes_of(&a, devices[i], seed, 2, &n);
            assert_memory_equal(one, two, n);
            arena_release(&a);
        }
}

// As `init` does: one long launch that draws weights.
static void program_draws(Arena *a, Module *out) {
    Func *f = &out->step;
    Type t = type_make(false, 2, (int64_t[]){1024, 1500});
    *out = (Module){.name = STR("draws"), .batch = 1};
    graph_init(&f->g, a, 1);
    Builder at = {.g = &f->g};
    f->name = STR("step");
    f->blocks = 1;
    vec_push(a, &out->net, ((Net){.name = STR("N"), .copy_of = NONE}));
    vec_push(a, &out->slot, ((Slot){.kind = SlotParam, .name = STR("w"), .type = t}));
    vec_push(a, &out->site, ((Site){DistNormal, t, 1, 0, {0}, 0}));
    vec_push(a, &f->effect, Write(0, Rand(&at, DistNormal, 0, 0, t)).id);
    vec_push(a, &f->tape, ((Ctl){CtlBlock, 0, 0}));
}

static void *return_threads(void *user) {
    device_lend(user, 0);
    return NULL;
}

// A device of four threads, of which so many are lent until another thread returns them.
static char *draws_of(Arena *a, const DeviceApi *api, int lent, size_t *n) {
    Bench b = {.a = a, .api = api, .d = open_device(api, 4)};
    program_draws(a, &b.m);
    plan_program(&b, DtF32);
    load(&b);
    device_lend(b.d, lent);
    pthread_t other;
    assert_int_equal(pthread_create(&other, NULL, return_threads, b.d), 0);
    step(&b, (Counters){.step = 1, .sample0 = 0});
    pthread_join(other, NULL);
    fetch(&b);
    *n = b.plan.slot_bytes;
    unload(&b);
    api->close(b.d);
    return b.host_slots;
}

static void threads_may_return_while_a_launch_runs(void **state) {
    (void)state;
    for (int i = 0; i < DEVICES; i++) {
        if (!present(devices[i]))
            continue;
        Arena a;
        size_t n;
        assert_int_equal(arena_init(&a, 0), GAN_OK);
        char *all = draws_of(&a, devices[i], 0, &n);
        assert_true(*(float *)(void *)all != 0);
        for (int lent = 1; lent < 5; lent++)
            assert_memory_equal(draws_of(&a, devices[i], lent, &n), all, n);
        arena_release(&a);
    }
}

// --- memory and refusals -------------------------------------------------------------------------

static void memory_comes_zeroed_and_aligned(void **state) {
    (void)state;
    const size_t sizes[] = {0, 1, 4096, 5 << 20};
    for (int i = 0; i < DEVICES; i++) {
        if (!present(devices[i]))
            continue;
        Device *d = open_device(devices[i], 1);
        for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
            void *at = NULL;
            assert_int_equal(devices[i]->alloc(d, sizes[k], &at), GAN_OK);
            assert_int_equal((uintptr_t)at % 64, 0);
            char *back = calloc(sizes[k] + 1, 1), *zero = calloc(sizes[k] + 1, 1);
            assert_int_equal(devices[i]->get(d, back, at, sizes[k]), GAN_OK);
            assert_memory_equal(back, zero, sizes[k]);
            memset(zero, 7, sizes[k]);
            assert_int_equal(devices[i]->put(d, at, zero, sizes[k]), GAN_OK);
            assert_int_equal(devices[i]->get(d, back, at, sizes[k]), GAN_OK);
            assert_memory_equal(back, zero, sizes[k]);
            free(back);
            free(zero);
            devices[i]->release(d, at);
        }
        devices[i]->release(d, NULL);
        devices[i]->close(d);
    }
}

static void refused_memory_is_a_status(void **state) {
    (void)state;
    for (int i = 0; i < DEVICES; i++) {
        if (!present(devices[i]))
            continue;
        Device *d = open_device(devices[i], 1);
        void *at = NULL;
        const size_t most = (size_t)1 << 60;
        assert_int_equal(devices[i]->alloc(d, most, &at), GAN_ERR_MEMORY);
        assert_true(strstr(gan_error(), "1152921504606846976") != NULL);
        devices[i]->close(d);
    }
}

static const ConvCase conv_cases[] = {
    // of a shared value, which the plan does not lay out channels-last (dnn_conv.c)
    {0, 16, 24, {12, 10}, {3, 3}, {2, {1, 1}, {1, 1}, {1, 1}, {1, 1}, 1}},
    {0, 3, 16, {9, 11}, {4, 4}, {2, {2, 2}, {1, 1}, {1, 1}, {1, 1}, 1}},
    {0, 1, 5, {8, 7}, {3, 2}, {2, {1, 1}, {0, 0}, {0, 0}, {1, 1}, 1}},
    {0, 32, 48, {12, 10}, {3, 3}, {2, {1, 1}, {1, 1}, {1, 1}, {1, 1}, 1}},
    {0, 48, 32, {20, 19}, {4, 4}, {2, {2, 2}, {1, 1}, {1, 1}, {1, 1}, 1}},
    {0, 16, 16, {40}, {3}, {1, {1}, {9}, {9}, {9}, 1}},
    {0, 32, 32, {67, 67}, {3, 3}, {2, {1, 1}, {1, 1}, {1, 1}, {1, 1}, 2}},
    {0, 24, 24, {9, 11}, {5, 5}, {2, {1, 1}, {2, 2}, {2, 2}, {1, 1}, 24}},
    {0, 4, 6, {4, 5, 6}, {2, 3, 3}, {3, {1, 2, 1}, {0, 1, 1}, {1, 1, 2}, {1, 1, 1}, 1}},
    // narrow groups over samples larger than a core's cache: in the library's layout (dnn_conv.c)
    {1, 32, 32, {8, 8}, {3, 3}, {2, {1, 1}, {1, 1}, {1, 1}, {1, 1}, 2}},
    {1, 32, 32, {67, 67}, {3, 3}, {2, {1, 1}, {1, 1}, {1, 1}, {1, 1}, 2}},
    {1, 64, 64, {48, 48}, {3, 3}, {2, {1, 1}, {1, 1}, {1, 1}, {1, 1}, 2}},
    {1, 16, 16, {67, 67}, {3, 3}, {2, {1, 1}, {1, 1}, {1, 1}, {1, 1}, 2}},
    {1, 96, 96, {8, 8}, {3, 3}, {2, {1, 1}, {1, 1}, {1, 1}, {1, 1}, 2}},
    // depthwise (dnn_grouped.c): kernels large, dilated, of one, two and three dimensions
    {3, 24, 24, {9, 11}, {5, 5}, {2, {1, 1}, {2, 2}, {2, 2}, {1, 1}, 24}},
    {2, 20, 20, {10, 9}, {12, 7}, {2, {1, 1}, {6, 1}, {5, 3}, {1, 1}, 20}},
    {2, 16, 16, {12, 13}, {3, 3}, {2, {2, 1}, {2, 1}, {2, 3}, {2, 2}, 16}},
    {2, 20, 20, {50}, {12}, {1, {3}, {5}, {4}, {2}, 20}},
    {2, 17, 17, {4, 5, 6}, {2, 3, 3}, {3, {1, 2, 1}, {0, 1, 1}, {1, 1, 2}, {1, 1, 1}, 17}},
    {7, 3, 3, {12, 12}, {4, 4}, {2, {2, 2}, {1, 1}, {1, 1}, {1, 1}, 3}}, // samples share vectors
    {1, 16, 16, {5000}, {9}, {1, {1}, {4}, {4}, {1}, 16}},               // tiles
    {1, 16, 16, {80, 90}, {5, 5}, {2, {2, 1}, {2, 2}, {2, 2}, {1, 1}, 16}},
    // and with several channels on either side
    {2, 8, 24, {8, 8}, {3, 3}, {2, {1, 1}, {2, 2}, {2, 2}, {2, 2}, 8}},
    {2, 8, 4, {9, 9}, {12, 12}, {2, {1, 1}, {6, 6}, {6, 6}, {1, 1}, 4}},
    {2, 12, 8, {11, 7}, {2, 3}, {2, {4, 6}, {0, 2}, {3, 2}, {1, 4}, 4}}, // taps that reach nothing
    {2, 64, 64, {60}, {41}, {1, {4}, {20}, {20}, {1}, 4}},
    {2, 24, 24, {60}, {41}, {1, {4}, {20}, {20}, {1}, 6}},
    // padding so wide that the library errs on it (dnn_conv.c)
    {2, 16, 24, {20, 22}, {13, 13}, {2, {1, 1}, {6, 6}, {6, 6}, {1, 1}, 1}},
    {3, 16, 16, {40}, {3}, {1, {1}, {9}, {9}, {9}, 1}},
    {2, 64, 64, {15, 14}, {11, 11}, {2, {2, 1}, {5, 5}, {4, 5}, {1, 1}, 2}},
    {1, 256, 512, {513}, {41}, {1, {4}, {20}, {20}, {1}, 16}}, // and narrow groups of a large
                                                               // sample
    {2, 128, 128, {15, 15}, {3, 3}, {2, {1, 1}, {1, 1}, {1, 1}, {1, 1}, 1}}, // Winograd's
    {2,
     32,
     32,
     {4, 5, 18},
     {2, 3, 4},
     {3, {2, 1, 2}, {0, 1, 1}, {0, 1, 1}, {1, 1, 1}, 1}}, // phases
};

// Returns the slots the case leaves.
static char *check_conv(Arena *a, Device *d, uint32_t i, Dtype real, size_t *bytes) {
    Bench b = {.a = a, .api = &device_cpu, .d = d};
    program_conv(a, &conv_cases[i], 1, &b.m);
    check_step(&b, i, real, real == DtBF16 ? 1e-2 : 1e-5);
    *bytes = b.plan.slot_bytes;
    return b.host_slots;
}

// In groups narrower than a vector they are loops of our own. Others are the library's, whose sums
// may depend on the number of threads: weight gradients of few groups; with 3.7 strided input
// gradients too.
static void convolutions_are_right(void **state) {
    (void)state;
    Device *three = open_device(&device_cpu, 3), *one = open_device(&device_cpu, 1);
    for (uint32_t i = 0; i < sizeof conv_cases / sizeof *conv_cases; i++)
        for (int half = 0; half < 2; half++) {
            Arena a;
            size_t n;
            Dtype real = half ? DtBF16 : DtF32;
            assert_int_equal(arena_init(&a, 0), GAN_OK);
            char *slots = check_conv(&a, three, i, real, &n);
            if (conv_cases[i].geom.groups > 2 && conv_cases[i].c < 16 * conv_cases[i].geom.groups)
                assert_memory_equal(slots, check_conv(&a, one, i, real, &n), n);
            arena_release(&a);
        }
    device_cpu.close(three);
    device_cpu.close(one);
}

typedef void Program(Arena *a, uint64_t seed, Module *out);

// On the cpu device, whose library calls they are.
static void random_programs_are_right(Program *program, uint64_t n) {
    Device *d = open_device(&device_cpu, 2);
    for (uint64_t seed = 0; seed < 2 * n; seed++) {
        Arena a;
        Dtype real = seed % 2 ? DtBF16 : DtF32;
        assert_int_equal(arena_init(&a, 0), GAN_OK);
        Bench b = {.a = &a, .api = &device_cpu, .d = d};
        program(&a, seed / 2, &b.m);
        check_step(&b, seed / 2, real, real == DtBF16 ? 2e-2 : 1e-5);
        arena_release(&a);
    }
    device_cpu.close(d);
}

static void random_convolutions_are_right(void **state) {
    (void)state;
    random_programs_are_right(program_random_conv, 300);
}

static void random_products_are_right(void **state) {
    (void)state;
    random_programs_are_right(program_random_dot, 200);
    random_programs_are_right(program_heads, 20);
}

// Rows of samples, whose numbers lie apart: fewer, as many and more than are brought near at once.
// Of their order all indices or the last few, and their numbers there and back.
static void program_order(Arena *a, uint64_t seed, Module *out) {
    static const int64_t lines[] = {2, 16, 37}, last[] = {1, 8, 50, 150};
    Func *f = &out->step;
    Type rows = type_make(true, 2, (int64_t[]){lines[seed / 4], 150});
    *out = (Module){.name = STR("order"), .batch = 3};
    graph_init(&f->g, a, out->batch);
    Builder at = {.g = &f->g};
    f->name = STR("step");
    f->blocks = 1;
    vec_push(a, &out->slot,
             ((Slot){.kind = SlotState, .net = NONE, .name = STR("x"), .type = rows}));
    Val x = Read(&at, 0, 0, rows), order = ArgSortLast(x, last[seed % 4]),
        there = Arrange(Mul(x, x), order, false),
        all[] = {order, there, ArrangeBack(there, order, rows)};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        vec_push(a, &f->report, ((Named){STR("report"), all[i].id, 0}));
    vec_push(a, &f->tape, ((Ctl){CtlBlock, 0, 0}));
}

static void orders_are_right(void **state) {
    (void)state;
    Device *d = open_device(&device_cpu, 2);
    for (uint64_t seed = 0; seed < 12; seed++) {
        Arena a;
        assert_int_equal(arena_init(&a, 0), GAN_OK);
        Bench b = {.a = &a, .api = &device_cpu, .d = d};
        program_order(&a, seed, &b.m);
        check_step(&b, seed, DtF32, 1e-6);
        arena_release(&a);
    }
    device_cpu.close(d);
}

// Loading a plan, and running it, with the n-th allocation refused, for every n: a status each
// time.
static void memory_refused_to(const DeviceApi *api, Str compiler) {
    Arena a;
    DeviceOptions o = options(1);
    o.compiler = compiler;
    assert_int_equal(arena_init(&a, 0), GAN_OK);
    Bench b = {.a = &a, .api = api};
    assert_int_equal(api->open(&o, &b.d), GAN_OK);
    program_random(&a, 3, &b.m);
    plan_program(&b, DtF32);
    load(&b);
    b.api->unload(b.loaded);
    GanStatus status = GAN_ERR_MEMORY;
    for (int64_t n = 1; status != GAN_OK; n++) {
        mem_fail_at(n);
        status = b.api->load(b.d, &b.plan, b.slots, b.work, &b.loaded);
        mem_fail_at(0);
        assert_true(status == GAN_OK || status == GAN_ERR_MEMORY);
        assert_true(n < 10000);
    }
    status = GAN_ERR_MEMORY;
    for (int64_t n = 1; status != GAN_OK; n++) {
        mem_fail_at(n);
        status = b.api->run(b.loaded, 0, &(Counters){.seed = 1});
        mem_fail_at(0);
        assert_true(status == GAN_OK || status == GAN_ERR_MEMORY);
        assert_true(n < 10000);
    }
    unload(&b);
    api->close(b.d);
    arena_release(&a);
}

static void loading_survives_refused_memory(void **state) {
    (void)state;
    memory_refused_to(&device_cpu, (Str){0});
    memory_refused_to(&device_cpu, STR("/no/such/compiler")); // regions as plain loops
    memory_refused_to(&device_ref, (Str){0});
}

static void a_precision_that_is_not_supported_is_refused(void **state) {
    (void)state;
    Arena a;
    assert_int_equal(arena_init(&a, 0), GAN_OK);
    assert_false(device_cpu.supports(DtF64));
    assert_true(device_ref.supports(DtF64));
    Bench b = {.a = &a, .api = &device_cpu, .d = open_device(&device_cpu, 1)};
    program_random(&a, 1, &b.m);
    plan_program(&b, DtF32);
    b.plan.real = DtF64;
    char memory[64];
    assert_int_equal(device_cpu.load(b.d, &b.plan, memory, memory, &b.loaded), GAN_ERR_DEVICE);
    assert_true(strstr(gan_error(), "f64") != NULL);
    device_cpu.close(b.d);
    arena_release(&a);
}

static void devices_are_found_by_name(void **state) {
    (void)state;
    assert_ptr_equal(device_find(STR("cpu")), &device_cpu);
    assert_ptr_equal(device_find(STR("ref")), &device_ref);
    assert_ptr_equal(device_find(STR("cuda")), &device_cuda);
    assert_null(device_find(STR("tpu")));
    Device *d = open_device(&device_cpu, 3);
    assert_int_equal(device_threads(d), 3);
    device_cpu.close(d);
}

// --- without a compiler, with a damaged cache ----------------------------------------------------

static void count_notice(void *user, const char *text) {
    (void)text;
    ++*(int *)user;
}

static void without_a_compiler_the_evaluator_runs(void **state) {
    (void)state;
    int notices = 0;
    DeviceOptions o = options(2);
    o.compiler = STR("/no/such/compiler");
    o.notice = count_notice;
    o.user = &notices;
    Device *d = NULL;
    assert_int_equal(device_cpu.open(&o, &d), GAN_OK);
    assert_int_equal(notices, 1);
    for (uint64_t seed = 0; seed < 12; seed++)
        check_program(&device_cpu, d, seed, DtF32, 2e-4);
    device_cpu.close(d);
}

static void a_damaged_cache_entry_is_built_again(void **state) {
    (void)state;
    Arena a;
    StrVec names = {0};
    skip_without_compiler();
    Device *d = open_device(&device_cpu, 2);
    for (uint64_t seed = 0; seed < 4; seed++)
        check_program(&device_cpu, d, seed, DtF32, 2e-4);
    device_cpu.close(d);
    assert_int_equal(arena_init(&a, 0), GAN_OK);
    assert_int_equal(dir_list(&a, str_c(cache), &names), GAN_OK);
    assert_true(names.n > 0);
    for (uint32_t i = 0; i < names.n; i++) {
        FILE *f = fopen(path_join(&a, str_c(cache), names.at[i]).ptr, "r+");
        assert_non_null(f);
        fseek(f, 700, SEEK_SET);
        fputs("damage", f);
        fclose(f);
    }
    d = open_device(&device_cpu, 2);
    for (uint64_t seed = 0; seed < 4; seed++)
        check_program(&device_cpu, d, seed, DtF32, 2e-4);
    device_cpu.close(d);
    arena_release(&a);
}

static void a_cache_others_can_write_to_is_not_used(void **state) {
    (void)state;
    char open_dir[] = "/tmp/gan-device-open-XXXXXX";
    assert_non_null(mkdtemp(open_dir));
    chmod(open_dir, 0777);
    int notices = 0;
    DeviceOptions o = {
        .threads = 1, .cache_dir = str_c(open_dir), .notice = count_notice, .user = &notices};
    Device *d = NULL;
    assert_int_equal(device_cpu.open(&o, &d), GAN_OK);
    assert_int_equal(notices, 1); // one message, however many kernels there are
    check_program(&device_cpu, d, 1, DtF32, 2e-4);
    device_cpu.close(d);
    assert_int_equal(rmdir(open_dir), 0); // and is empty
}

static int remove_cache(void **state) {
    (void)state;
    Arena a;
    StrVec names = {0};
    if (arena_init(&a, 0) != GAN_OK || dir_list(&a, str_c(cache), &names) != GAN_OK)
        return -1;
    for (uint32_t i = 0; i < names.n; i++)
        file_remove(path_join(&a, str_c(cache), names.at[i]));
    arena_release(&a);
    return rmdir(cache);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(devices_are_found_by_name),
        cmocka_unit_test(memory_comes_zeroed_and_aligned),
        cmocka_unit_test(refused_memory_is_a_status),
        cmocka_unit_test(a_precision_that_is_not_supported_is_refused),
        cmocka_unit_test(convolutions_are_right),
        cmocka_unit_test(random_convolutions_are_right),
        cmocka_unit_test(random_products_are_right),
        cmocka_unit_test(orders_are_right),
        cmocka_unit_test(loading_survives_refused_memory),
        cmocka_unit_test(programs_agree_with_the_oracle),
        cmocka_unit_test(many_products_are_right),
        cmocka_unit_test(ref_agrees_in_double),
        cmocka_unit_test(programs_agree_in_bf16),
        cmocka_unit_test(programs_agree_in_f16),
        cmocka_unit_test(a_second_run_gives_the_same_bits),
        cmocka_unit_test(threads_may_return_while_a_launch_runs),
        cmocka_unit_test(without_a_compiler_the_evaluator_runs),
        cmocka_unit_test(better_code_gives_the_same_bits),
        cmocka_unit_test(a_damaged_cache_entry_is_built_again),
        cmocka_unit_test(a_cache_others_can_write_to_is_not_used),
    };
    if (CASES_LISTED(tests))
        return 0;
    if (!mkdtemp(cache))
        return 1;
    return cmocka_run_group_tests(tests, NULL, remove_cache);
}
