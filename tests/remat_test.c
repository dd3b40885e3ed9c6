// remat_test.c - a step with rematerialization has the same bits as one without: losses,
// gradients, weights and state, on ref and cpu, on one rank and on several; and needs less memory.
// Built twice: small models in the quick tier, the others in the long one.
#include "ranks_run.h"

#include <math.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include "arena_cases.h"
#include "buffer.h"
#include "stages.h"
#include "settings.h"

static const struct {
    const char *model, *set;
} models[] = {
#ifdef ALL_MODELS // MODEL=dcgan.gan picks one
    {"aae3d.gan", "points=64 nz=8"},
    {"began.gan", "size=16 wide=3 nz=5"},
    {"biggan.gan", "levels=[2,2,1] attn=8 z_chunk=2 wide=2 kinds=3 shared=3 rounds=1"},
    {"cosmogan.gan", "size=32 flip=0.5"},
    {"cyclegan.gan", "size=32 blocks=1 pool=3"},
    {"d3gan.gan", "nz=5 ngf=4 ndf=4"},
    {"dcgan.gan", NULL},
    {"munit.gan", "size=16 wide=2 blocks=1 scales=1"},
    {"pix2pix.gan", "size=32 wide=2"},
    {"progan.gan", "size=16 nz=5 wide=3"},
    {"sagan.gan", "size=16 attn=8 nz=5 wide=2 kinds=3"},
    {"sngan.gan", NULL},
    {"stargan.gan", "size=16 depth=2 kinds=3 wide=2 blocks=1 rounds=1"},
    {"stylegan2.gan", "size=16 wide=4 nz=5"},
    {"wgan_gp.gan", "critic=1"},
#else
    {"acgan.gan", "nz=6 wide=2 kinds=3"},
    {"demo.gan", "c=8 nz=5"},
    {"infogan.gan", "nz=4 kinds=3 wide=2"},
    {"r3gan.gan", "size=8 full=4 wide=4 groups=2 nz=5 blocks=1"},
    {"wavegan.gan", "slice=256 nz=5 wide=2 rounds=1"},
#endif
};

enum { Models = sizeof models / sizeof *models };

// Live bytes at launch `now` that it neither reads nor writes and that could be recomputed.
static size_t idle_at(Arena scratch, const Plan *p, const Lives *l, const uint8_t *stays,
                      uint32_t now) {
    uint32_t nodes = p->func->g.node.n;
    uint8_t *used = arena_array(&scratch, uint8_t, nodes);
    size_t idle = 0;
    for (uint32_t r = 0; r < p->region.n; r++)
        for (uint32_t i = 0; l->time[r] == now && i < p->region.at[r].in.n; i++)
            used[p->region.at[r].in.at[i]] = 1;
    for (uint32_t id = 1; id < nodes; id++) {
        const Buffer *b = &l->value[id];
        idle += b->first < now && now < b->last && !used[id] && !stays[id] ? b->bytes : 0;
    }
    return idle;
}

// A lower bound on memory: the largest launch without its idle values.
static size_t least_bytes(Arena scratch, const RanksOptions *o, Plan *p) {
    const PassOptions pass = {.keep_grads = !o->as_trained, .no_fuse = o->api->no_fuse};
    const uint8_t *stays = plan_outliving(&scratch, &pass, p);
    size_t least = 0;
    Lives l;
    memory_lives(&scratch, &pass, p, &l);
    for (uint32_t t = 0; t < l.launches; t++) {
        size_t here = l.live[t] - idle_at(scratch, p, &l, stays, t);
        least = here > least ? here : least;
    }
    return least;
}

// Where nothing is recomputed, a single launch must need nearly all of the memory.
static void same_bits(RanksOptions *o) {
    for (size_t i = 0; i < Models; i++) {
        const char *one = getenv("MODEL");
        Arena a = empty;
        RanksRun held, again;
        if (one && strcmp(one, models[i].model))
            continue;
        o->name = models[i].model;
        o->set = models[i].set;
        o->text = ranks_model_text(&a, o->name);
        o->min_memory = false;
        ranks_run(&a, o, &held);
        o->min_memory = true;
        ranks_run(&a, o, &again);
        Plan *p = &held.compiled.step;
        const Plan *q = &again.compiled.step;
        ranks_compare(&held, &again, 0, str_format(&a, "%s, computed again", o->name).ptr);
        assert_true(q->remade->held == p->work_bytes);
        assert_true((q->work_bytes < p->work_bytes) == (q->remade->launches > 0));
        size_t least = least_bytes(a, o, p);
        if (!q->remade->launches && p->work_bytes - least > p->work_bytes / 32)
            fail_msg("%s takes %zu bytes and computes nothing again, a launch takes %zu", o->name,
                     p->work_bytes, least);
        assert_true(q->gflop_model == p->gflop_model);
        assert_true(fabs(q->gflop - p->gflop - q->remade->gflop) <= 1e-9 * p->gflop);
        ranks_free(&again);
        ranks_free(&held);
    }
}

static void results_are_equal_on_ref(void **state) {
    (void)state;
    same_bits(&(RanksOptions){.batch = 2, .api = &device_ref, .real = DtF64, .steps = 2});
}

static void results_are_equal_on_the_cpu(void **state) {
    (void)state;
    same_bits(&(RanksOptions){.batch = 4, .api = &device_cpu, .real = DtF32, .steps = 2});
}

static void results_are_equal_in_bf16(void **state) {
    (void)state;
    same_bits(&(RanksOptions){.batch = 4, .api = &device_cpu, .real = DtBF16, .steps = 2});
}

static void results_are_equal_on_ranks(void **state) {
    (void)state;
    same_bits(&(RanksOptions){.batch = 4,
                              .api = &device_cpu,
                              .real = DtF32,
                              .steps = 4,
                              .parallel = {.ranks = 2, .tail = true},
                              .as_trained = true});
}

static void results_are_equal_in_chunks(void **state) {
    (void)state;
    same_bits(&(RanksOptions){.batch = 8,
                              .api = &device_cpu,
                              .real = DtF32,
                              .steps = 2,
                              .parallel = {.ranks = 2, .chunks = 4}});
}

static void results_are_equal_in_micro_batches(void **state) {
    (void)state;
    same_bits(&(RanksOptions){.batch = 8,
                              .api = &device_cpu,
                              .real = DtF32,
                              .steps = 2,
                              .parallel = {.ranks = 1, .micro = 2}});
}

// --- limits --------------------------------------------------------------------------------------

enum { Batch = 4 };

// Bytes of the all-reduces that tails wait for, which stay allocated throughout.
static size_t bytes_deferred(const Plan *p) {
    size_t sum = 0;
    for (uint32_t t = 0; t < p->tail.n; t++) {
        const Section *s = &p->section.at[p->tail.at[t].section];
        for (uint32_t l = s->first; l < s->first + s->n; l++) {
            const Region *r = &p->region.at[p->launch.at[l].region];
            sum += r->kind == RegionWait ? p->collective.at[r->call].bytes : 0;
        }
    }
    return sum;
}

// Memory of model i on rank 0 of `ranks` with a limit of `limit` bytes, or of the weights' size
// (0); *deferred: bytes of its tails' all-reduces.
static size_t plan_within(size_t i, uint32_t ranks, bool tail, size_t limit, size_t *deferred) {
    Arena a = empty;
    Compiled c = {0};
    Str said;
    RanksOptions r = {.name = models[i].model, .set = models[i].set, .batch = Batch};
    CompileOptions o = {.real = DtF32,
                        .dialect = &dialect_c,
                        .memory = limit,
                        .parallel = {.ranks = ranks, .tail = tail}};
    r.text = ranks_model_text(&a, r.name);
    assert_true(ranks_module(&a, &r, false, &c.module, &said));
    if (!o.memory)
        o.memory = ranks_min_memory(&a, &c.module, &o);
    GanStatus st = compile_plans(&a, &c.module, &o, &c);
    size_t bytes = compiled_bytes(&c, false);
    assert_int_equal(st, bytes <= o.memory ? GAN_OK : GAN_ERR_MEMORY);
    *deferred = bytes_deferred(&c.step);
    return bytes;
}

static size_t bytes_within(size_t i, uint32_t ranks, bool tail, size_t limit) {
    return plan_within(i, ranks, tail, limit, &(size_t){0});
}

// The minimum reported for a limit that is too low is accepted as a limit, and so is a little more.
static void the_reported_minimum_is_reachable(void **state) {
    (void)state;
    for (size_t i = 0; i < Models; i++)
        for (uint32_t ranks = 1; ranks <= 2; ranks++) {
            size_t least = bytes_within(i, ranks, true, 0), more = least + least / 64;
            assert_true(bytes_within(i, ranks, true, least) <= least);
            assert_true(bytes_within(i, ranks, true, more) <= more);
        }
}

// Writes of a deferred tail do not prevent recomputation in the next step: a tail costs only the
// memory of the all-reduces that it waits for.
static void a_tail_costs_only_the_sums_it_waits_for(void **state) {
    (void)state;
    for (size_t i = 0; i < Models; i++) {
        size_t deferred = 0, none = 0;
        size_t with = plan_within(i, 2, true, 0, &deferred),
               without = plan_within(i, 2, false, 0, &none);
        if (with > without + without / 64 + deferred)
            fail_msg("%s: %zu bytes with tails that hold %zu, %zu without", models[i].model, with,
                     deferred, without);
    }
}

static GanStatus compile_within(Arena *a, size_t i, int64_t batch, size_t limit, Compiled *c) {
    Front f;
    ElabOptions set = {0};
    settings_read(a, models[i].set, &set);
    CompileOptions o = {.path = str_c(models[i].model),
                        .text = ranks_model_text(a, models[i].model),
                        .batch = batch,
                        .setting = set.setting,
                        .settings = set.settings,
                        .real = DtF32,
                        .dialect = &dialect_c,
                        .memory = limit};
    front_init(&f, a);
    return compile_file(&f, &o, c);
}

// The number, or the size without its space, after `word` in the last message.
static Str said_behind(const char *word) {
    static char text[64];
    const char *at = strstr(gan_error(), word);
    char unit[8] = "";
    double n = 0;
    assert_non_null(at);
    sscanf(at + strlen(word), "%lf %3s", &n, unit);
    snprintf(text, sizeof text, "%.1f%s", n, strstr(unit, "iB") ? unit : "");
    return str_c(text);
}

// The error for a limit that is too low states the minimum for the batch, rounded up, and a batch
// that fits if there is one. For a limit below the weights' size it states that, before planning.
static void a_refusal_names_what_fits(void **state) {
    (void)state;
    for (size_t i = 0; i < Models; i++) {
        Arena a = empty;
        Compiled c;
        size_t all;
        assert_int_equal(compile_within(&a, i, 2 * Batch, 1, &c), GAN_ERR_MEMORY);
        assert_true(str_to_bytes(said_behind("alone need "), &all));
        assert_null(strstr(gan_error(), "--batch"));
        assert_int_equal(compile_within(&a, i, 2 * Batch, all, &c), GAN_ERR_MEMORY);
        assert_true(c.step.slot_bytes <= all);
        size_t least = compiled_bytes(&c, false), limit = c.step.slot_bytes / 2 + least / 2;
        assert_true(str_to_bytes(said_behind("batch 8 needs "), &all) && all >= least);
        assert_int_equal(compile_within(&a, i, 2 * Batch, limit, &c), GAN_ERR_MEMORY);
        double fits = 0;
        if (strstr(gan_error(), "--batch"))
            assert_true(str_to_double(said_behind("--batch "), &fits));
        if (fits > 0) {
            assert_true(fits < 2 * Batch);
            assert_int_equal(compile_within(&a, i, (int64_t)fits, limit, &c), GAN_OK);
        }
        int64_t few = 2; // the least that has a batch norm
        assert_int_equal(compile_within(&a, i, few, limit, &c),
                         fits >= (double)few ? GAN_OK : GAN_ERR_MEMORY);
    }
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(results_are_equal_on_ref),
        cmocka_unit_test(results_are_equal_on_the_cpu),
        cmocka_unit_test(results_are_equal_in_bf16),
        cmocka_unit_test(results_are_equal_on_ranks),
        cmocka_unit_test(results_are_equal_in_chunks),
        cmocka_unit_test(results_are_equal_in_micro_batches),
        cmocka_unit_test(the_reported_minimum_is_reachable),
        cmocka_unit_test(a_tail_costs_only_the_sums_it_waits_for),
        cmocka_unit_test(a_refusal_names_what_fits),
    };
    return ARENA_CASES(tests, (size_t)1 << 33);
}
