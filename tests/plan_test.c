// plan_test.c - plans of random programs and of the models: every value is at the offset where its
// readers expect it (plan_sim.h).
#include "driver.h"
#include "tail_models.h"
#include "stages.h"
#include "plan_sim.h"
#include "programs.h"

#include <setjmp.h>
#include <cmocka.h>
#include "cases.h"
#include <string.h>

enum { PROGRAMS = 300 };

static void check_plan(Arena *a, uint64_t seed, const PassOptions *o) {
    Module m;
    Plan p;
    program_random(a, seed, &m);
    size_t slots = slots_place(&m, DtF32);
    plan_make(a, &m, &m.step, o, &p);
    p.slot_bytes = slots;
    plan_simulate(a, &p, seed);
    plan_simulate_lifetimes(a, &p, o, seed);
}

static void every_reader_finds_its_value(void **state) {
    (void)state;
    for (uint64_t seed = 0; seed < PROGRAMS; seed++) {
        Arena a;
        assert_int_equal(arena_init(&a, 0), GAN_OK);
        check_plan(&a, seed, &(PassOptions){.real = DtF32, .verify_each = true});
        check_plan(&a, seed, &(PassOptions){.real = DtF32, .verify_each = true, .no_fuse = true});
        arena_release(&a);
    }
}

// A step of one block, in a new arena.
static Func *begin_step(Arena *a, Module *m) {
    assert_int_equal(arena_init(a, 0), GAN_OK);
    graph_init(&m->step.g, a, 1);
    m->step.blocks = 1;
    vec_push(a, &m->step.tape, ((Ctl){.kind = CtlBlock}));
    return &m->step;
}

// The last use of a sum is its cast to a narrower type. Both buffers are rounded up to the same
// size, yet the copy may not overwrite the sum.
static void a_narrower_copy_does_not_lie_on_its_operand(void **state) {
    (void)state;
    Arena a;
    Plan p;
    Module m = {.name = STR("narrow"), .batch = 1};
    Func *f = begin_step(&a, &m);
    Builder at = {.g = &f->g};
    Type wide = type_make(false, 2, (int64_t[]){64, 4}), narrow = type_make(false, 0, NULL);
    narrow.dtype = DtBF16;
    const Type types[] = {wide, narrow};
    for (uint32_t i = 0; i < 2; i++)
        vec_push(&a, &m.slot, ((Slot){.kind = SlotState, .net = NONE, .type = types[i]}));
    Val sum = Sum(Read(&at, 0, 0, wide), 2);
    Val copy = CastTo(Mul(sum, sum), Read(&at, 1, 0, narrow));
    vec_push(&a, &f->result, ((Named){STR("copy"), copy.id, 0}));
    p = (Plan){0};
    size_t slots = slots_place(&m, DtF32);
    plan_make(&a, &m, f, &(PassOptions){.real = DtF32}, &p);
    p.slot_bytes = slots;
    assert_int_equal(p.region.n, 2);
    plan_simulate(&a, &p, 0);
    arena_release(&a);
}

// Memory may exceed the bound for a single small program, but by little over all of them.
static void packing_is_close_to_the_bound(void **state) {
    (void)state;
    double bytes = 0, bound = 0;
    for (uint64_t seed = 0; seed < PROGRAMS; seed++) {
        Arena a;
        Module m;
        Plan p;
        assert_int_equal(arena_init(&a, 0), GAN_OK);
        program_random(&a, seed, &m);
        slots_place(&m, DtF32);
        plan_make(&a, &m, &m.step, &(PassOptions){.real = DtF32}, &p);
        bytes += (double)p.work_bytes;
        bound += (double)p.work_bound;
        arena_release(&a);
    }
    print_message("planned %.0f bytes, bound %.0f\n", bytes, bound);
    assert_true(bytes <= 1.05 * bound);
}

// As documented: planned memory is within 5 % of the peak of live bytes.
static void check_model(Arena *a, Str name, Dtype real, bool keep_grads) {
    Front f;
    Compiled c = {0};
    front_init(&f, a);
    CompileOptions o = {.path = path_join(a, STR(ROOT_DIR "/models"), name),
                        .batch = 2,
                        .real = real,
                        .keep_grads = keep_grads};
    if (compile_file(&f, &o, &c) != GAN_OK)
        fail_msg("%.*s: %s", SARG(name), gan_error());
    plan_simulate(a, &c.step, 0);
    for (uint32_t i = 0; i < c.module.entry.n; i++)
        plan_simulate(a, &c.entry[i], 0);
    if ((double)c.step.work_bytes > 1.05 * (double)c.step.work_bound)
        fail_msg("%.*s: %zu bytes planned, %zu live", SARG(name), c.step.work_bytes,
                 c.step.work_bound);
}

static void models_are_planned_close_to_the_bound(void **state) {
    (void)state;
    Arena a;
    StrVec names = {0};
    assert_int_equal(arena_init(&a, 0), GAN_OK);
    assert_int_equal(dir_list(&a, STR(ROOT_DIR "/models"), &names), GAN_OK);
    assert_true(names.n > 0);
    for (uint32_t i = 0; i < names.n; i++) {
        Arena once = a;
        if (!str_ends(names.at[i], STR(".gan")))
            continue;
        check_model(&once, names.at[i], DtF32, false);
        check_model(&once, names.at[i], DtBF16, false);
        check_model(&once, names.at[i], DtF32, true);
    }
    arena_release(&a);
}

// The link is so slow that everything that can be deferred is.
static void check_tails(Arena *a, CompileOptions *o, const char *name, uint32_t tails) {
    Front f;
    Compiled c = {0};
    front_init(&f, a);
    o->real = DtF32;
    o->parallel = (Parallel){.ranks = 2, .tail = true, .latency = 1e-4, .bandwidth = 1e6};
    if (compile_file(&f, o, &c) != GAN_OK)
        fail_msg("%s: %s", name, gan_error());
    if (c.step.tail.n != tails)
        fail_msg("%s: %u tails, not %u", name, c.step.tail.n, tails);
    plan_simulate(a, &c.step, 0);
    plan_simulate_lifetimes(a, &c.step, &(PassOptions){.real = DtF32}, 0);
}

static void deferred_tails_read_correct_values(void **state) {
    (void)state;
    Arena a;
    assert_int_equal(arena_init(&a, 0), GAN_OK);
    for (uint32_t i = 0; i < TAIL_MODELS; i++) {
        Arena once = a;
        CompileOptions o = {.batch = 6};
        o.path = str_format(&once, "%s/tests/tails_%u.gan", BUILD_DIR, i);
        Str text = str_format(&once, "%sstep {\n%s}\n", tail_model_head, tail_models[i].step);
        assert_int_equal(file_write_atomic(o.path, text.ptr, text.len), GAN_OK);
        check_tails(&once, &o, tail_models[i].step, tail_models[i].tails);
    }
    Arena once = a;
    check_tails(&once, &(CompileOptions){.path = STR(ROOT_DIR "/models/wgan_gp.gan"), .batch = 8},
                "wgan_gp", 1);
    arena_release(&a);
}

// What fusion, scheduling and packing gain on models: a plan that is worse by a hundredth says so.
static void plans_are_as_good_as_measured(void **state) {
    (void)state;
    static const struct {
        const char *model;
        bool card;
        double moved, work, launches; // MB; MB
    } cases[] = {
        {"dcgan", false, 612.7, 41.11, 183},   {"dcgan", true, 601.3, 48.90, 127},
        {"sngan", false, 1281, 89.60, 325},    {"sngan", true, 1289, 110.4, 293},
        {"wavegan", false, 13650, 158.9, 201}, {"wavegan", true, 14157, 213.4, 181},
        {"pix2pix", false, 8579, 504.1, 292},  {"pix2pix", true, 7912, 600.9, 216},
        {"munit", false, 127148, 6663, 1908},  {"munit", true, 127178, 8580, 1726},
        {"hifigan", false, 23784, 1325, 2008}, {"hifigan", true, 23705, 1508, 1601},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Arena a;
        Front f;
        Compiled c = {0};
        assert_int_equal(arena_init(&a, 0), GAN_OK);
        front_init(&f, &a);
        const CompileOptions o = {.path = str_format(&a, ROOT_DIR "/models/%s.gan", cases[i].model),
                                  .batch = 8,
                                  .real = DtF32,
                                  .dialect = cases[i].card ? &dialect_cuda : NULL};
        assert_int_equal(compile_file(&f, &o, &c), GAN_OK);
        double moved = c.step.bytes_moved / 1e6, work = (double)c.step.work_bytes / 1e6;
        if (moved > 1.01 * cases[i].moved || work > 1.01 * cases[i].work ||
            c.step.launch.n > 1.01 * cases[i].launches)
            fail_msg("%s%s: %.1f MB moved, %.1f MB of work memory, %u launches", cases[i].model,
                     cases[i].card ? " on a card" : "", moved, work, c.step.launch.n);
        arena_release(&a);
    }
}

// On a card the smallest values share no memory, so that launches need not wait for it, but for
// where memory is limited; all of them are a small part of the peak.
static void small_values_of_a_card_have_their_own_places(void **state) {
    (void)state;
    size_t work[2];
    uint32_t shared[2] = {0};
    for (int limited = 0; limited < 2; limited++) {
        Arena a;
        Front f;
        Compiled c = {0};
        assert_int_equal(arena_init(&a, 0), GAN_OK);
        front_init(&f, &a);
        const CompileOptions o = {.path = STR(ROOT_DIR "/models/dcgan.gan"),
                                  .batch = 8,
                                  .real = DtF32,
                                  .dialect = &dialect_cuda,
                                  .memory = limited ? (size_t)1 << 40 : 0};
        assert_int_equal(compile_file(&f, &o, &c), GAN_OK);
        const Plan *p = &c.step;
        for (uint32_t i = 1; i < p->func->g.node.n; i++)
            for (uint32_t k = 1; k < i; k++)
                shared[limited] += p->place[i].space == SpaceWork && p->place[i].owner == i &&
                                   p->place[k].space == SpaceWork && p->place[k].owner == k &&
                                   p->place[i].offset == p->place[k].offset &&
                                   type_bytes(&p->func->g, node_type(&p->func->g, i)) <= 64;
        work[limited] = p->work_bytes;
        arena_release(&a);
    }
    assert_true(shared[0] * 4 < shared[1]);
    assert_true(work[0] > work[1] && work[0] < work[1] + work[1] / 32);
}

typedef struct Counted {
    size_t slots;
    uint32_t *calls;
} Counted;

static size_t beside_a_sample(const void *user, const Compiled *c) {
    const Counted *u = user;
    ++*u->calls;
    return u->slots + 5000 + 100 * (size_t)c->module.share.total;
}

// Memory has a part that is neither slots nor of samples, which the first guess does not know.
static void a_batch_that_fits_is_found_in_few_compilations(void **state) {
    (void)state;
    Arena a;
    Front f;
    Compiled c;
    uint32_t calls = 0;
    assert_int_equal(arena_init(&a, 0), GAN_OK);
    front_init(&f, &a);
    const CompileOptions o = {.path = STR("model.gan"),
                              .text =
                                  STR("model small\n"
                                      "data x : float(8)\n"
                                      "net D(x: [8]) -> [] = x |> dense(1) |> squeeze\n"
                                      "step { update D minimize mean(D(x)^2) using sgd(1e-3) }\n"),
                              .batch = 64};
    assert_int_equal(compile_file(&f, &o, &c), GAN_OK);
    const Counted u = {c.step.slot_bytes, &calls};
    MemoryNeed m = {.need = beside_a_sample(&u, &c), .have = u.slots + 5550};
    assert_int_equal(compile_less(&o, &c, m, beside_a_sample, &u), 5);
    assert_int_equal(calls, 3); // one for what it needs
    m.have = u.slots + 5050;
    assert_int_equal(compile_less(&o, &c, m, beside_a_sample, &u), 0);
    arena_release(&a);
}

static bool writes_optimizer(const Plan *p, const Region *r) {
    const Graph *g = &p->func->g;
    for (uint32_t i = 0; i < r->out.n; i++) {
        const Node *n = graph_node(g, r->out.at[i]);
        if (n->op == OpWrite &&
            p->module->slot.at[node_attr(g, r->out.at[i])->i[0]].kind == SlotOpt)
            return true;
    }
    return false;
}

// The step of a small net, compiled for a GPU.
static void compile_small(Arena *a, Dtype real, Compiled *c) {
    Front f;
    front_init(&f, a);
    const CompileOptions o = {
        .path = STR("model.gan"),
        .text = STR("model small\n"
                    "data x : float(64)\n"
                    "net D(x: [64]) -> [] {\n"
                    "  x |> dense(512) |> layer_norm |> dense(256) |> layer_norm |> dense(512)\n"
                    "    |> dense(1) |> squeeze\n"
                    "}\n"
                    "step { update D minimize mean(D(x)^2) using adam(lr=1e-3) }\n"),
        .real = real,
        .dialect = &dialect_cuda,
    };
    if (compile_file(&f, &o, c) != GAN_OK) {
        Text t = {.arena = a};
        diag_render(&t, &f, false);
        fail_msg("%s%s", gan_error(), text_str(&t).ptr);
    }
}

// All regions that `is` says yes to share one launch of one kernel.
static void one_launch(const Plan *p, bool (*is)(const Plan *p, const Region *r),
                       uint32_t *instances) {
    uint32_t launches = 0, kernel = NONE;
    *instances = 0;
    for (uint32_t l = 0; l < p->launch.n; l++) {
        Launch launch = p->launch.at[l];
        uint32_t before = *instances;
        for (uint32_t i = 0; i < launch.instances; i++) {
            const Region *r = &p->region.at[p->merge.at[launch.first + i]];
            if (!is(p, r))
                continue;
            assert_true(kernel == NONE || kernel == r->kernel);
            kernel = r->kernel;
            (*instances)++;
        }
        launches += *instances > before;
    }
    assert_int_equal(launches, 1);
    assert_true(p->kernel.at[kernel].many);
}

static bool narrows_weight(const Plan *p, const Region *r) {
    const Graph *g = &p->func->g;
    uint32_t last = r->node.n ? r->node.at[r->node.n - 1] : 0;
    return r->in.n == 1 && graph_node(g, r->in.at[0])->op == OpRead &&
           !node_type(g, r->in.at[0])->batched && graph_node(g, last)->op == OpCast;
}

static bool updates_many(const Plan *p, const Region *r) {
    return writes_optimizer(p, r) && r->units > 1;
}

// Every part of every kernel is some region's, and a region has the words that its kernel takes.
static void parts_are_all_there(const Plan *p, uint32_t *kernels) {
    for (uint32_t k = 0; k < p->kernel.n; k++) {
        const Kernel *kernel = &p->kernel.at[k];
        uint64_t seen = 0;
        for (uint32_t i = 0; kernel->parts && i < p->region.n; i++) {
            const Region *r = &p->region.at[i];
            if (r->kernel != k)
                continue;
            assert_int_equal(r->arg.n + (r->scratch ? 2 : 0) + r->number.n, kernel->words);
            seen |= UINT64_C(1) << r->number.at[r->number.n - 1];
        }
        assert_true(seen == (UINT64_C(1) << kernel->parts) - 1 || !kernel->parts);
        *kernels += kernel->parts > 1;
    }
}

// A kernel's text with another name.
static Str anonymous(Arena *a, const Kernel *k) {
    Text t = {.arena = a};
    for (size_t at = 0; at < k->source.len;) {
        Str rest = str_sub(k->source, at, k->source.len);
        bool named = str_starts(rest, k->name);
        text_put(&t, named ? STR("kernel") : str_sub(rest, 0, 1));
        at += named ? k->name.len : 1;
    }
    return text_str(&t);
}

typedef struct Texts { // of kernels that were met
    Map known;
    VEC(const Kernel *) first; // of each text
    uint32_t again, products;
} Texts;

static void meet(Arena *a, const Kernel *k, Texts *t) {
    Str text = anonymous(a, k);
    uint64_t h = hash64(text.ptr, text.len, 0);
    uint32_t have = map_find(&t->known, h);
    if (have) {
        assert_memory_equal(k->name.ptr, t->first.at[have - 1]->name.ptr, k->name.len);
        t->again++;
        return;
    }
    vec_push(a, &t->first, k);
    map_put(a, &t->known, h, t->first.n);
    t->products += str_starts(k->name, STR("product_"));
}

// What a model's functions compute alike is compiled once: its kernel has one name in all of them,
// though what stands for it may be a convolution here and a product there, a sound or a picture.
static void functions_share_their_kernels(void **state) {
    (void)state;
    const Str models[] = {STR(ROOT_DIR "/models/hifigan.gan"), STR(ROOT_DIR "/models/dcgan.gan")};
    for (size_t m = 0; m < sizeof models / sizeof *models; m++) {
        Arena a;
        Front f;
        Compiled c = {0};
        Texts texts = {0};
        assert_int_equal(arena_init(&a, 0), GAN_OK);
        front_init(&f, &a);
        const CompileOptions o = {.path = models[m], .real = DtF32, .dialect = &dialect_cuda};
        assert_int_equal(compile_file(&f, &o, &c), GAN_OK);
        for (uint32_t e = 0; e <= c.module.entry.n; e++) {
            const Plan *p = e ? &c.entry[e - 1] : &c.step;
            for (uint32_t k = 0; k < p->kernel.n; k++)
                meet(&a, &p->kernel.at[k], &texts);
        }
        assert_true(texts.again > 0);
        assert_int_equal(texts.products, 1);
        arena_release(&a);
    }
}

// Weights and biases of all sizes, on a card: one launch of one kernel, whose parts they are where
// their gradients differ in type.
static void an_update_of_a_net_is_one_launch(void **state) {
    (void)state;
    for (int narrow = 0; narrow < 2; narrow++) {
        Arena a;
        Compiled c = {0};
        uint32_t instances, kernels = 0;
        assert_int_equal(arena_init(&a, 0), GAN_OK);
        compile_small(&a, narrow ? DtBF16 : DtF32, &c);
        one_launch(&c.step, updates_many, &instances);
        assert_int_equal(instances, 11); // four weights, three biases of more than one element,
                                         // two gains and shifts
        parts_are_all_there(&c.step, &kernels);
        assert_true(kernels > 0);
        arena_release(&a);
    }
}

// A part holds its addresses in registers, and all parts of its kernel get as many.
static void an_update_of_many_scalars_is_no_part(void **state) {
    (void)state;
    Arena a;
    Front f;
    Compiled c = {0};
    const CompileOptions o = {
        .path = STR(ROOT_DIR "/models/hifigan.gan"), .real = DtF32, .dialect = &dialect_cuda};
    uint32_t fused = 0, alone = 0;
    assert_int_equal(arena_init(&a, 0), GAN_OK);
    front_init(&f, &a);
    assert_int_equal(compile_file(&f, &o, &c), GAN_OK);
    for (uint32_t k = 0; k < c.step.kernel.n; k++) {
        const Kernel *kernel = &c.step.kernel.at[k];
        assert_true(!kernel->parts || kernel->words <= 33);
        fused += kernel->parts > 1;
        alone += kernel->words > 33;
    }
    assert_true(fused > 0 && alone > 0);
    arena_release(&a);
}

// Before CUDA 12.1 a kernel has at most 4 KB of parameters; what it gets more comes from memory.
static void many_operands_come_from_memory(void **state) {
    (void)state;
    enum { Terms = 256 }; // an address each, and the numbers of its borders
    Arena a;
    Plan p;
    Module m = {.name = STR("frames"), .batch = 1};
    Func *f = begin_step(&a, &m);
    Builder at = {.g = &f->g};
    Val sum = {0};
    for (uint32_t i = 0; i < Terms; i++) {
        Type type = type_make(false, 2, (int64_t[]){100 + i, 7 + i});
        vec_push(&a, &m.slot, ((Slot){.kind = SlotState, .net = NONE, .type = type}));
        Val x = Read(&at, i, 0, type);
        x = Pad(x, (int64_t[]){1 + i, 2 + i}, (int64_t[]){1, 1}, (int64_t[]){800, 900});
        sum = i ? Add(sum, x) : x;
    }
    vec_push(&a, &f->result, ((Named){STR("sum"), sum.id, 0}));
    slots_place(&m, DtF32);
    plan_make(&a, &m, f, &(PassOptions){.real = DtF32, .few_launches = true}, &p);
    gen_kernels(&a, &p, &dialect_cuda);
    uint32_t most = 0;
    for (uint32_t k = 0; k < p.kernel.n; k++) {
        const Kernel *kernel = &p.kernel.at[k];
        size_t words = kernel->many ? 1 : kernel->words;
        assert_true((words + 1) * sizeof(uint64_t) <= 4096);
        most = kernel->words > most ? kernel->words : most;
    }
    assert_true(most > 512);
    arena_release(&a);
}

// What a step makes of weights alone need not be made layer by layer.
static void weights_are_cast_to_bf16_in_one_launch(void **state) {
    (void)state;
    Arena a;
    Compiled c = {0};
    uint32_t instances;
    assert_int_equal(arena_init(&a, 0), GAN_OK);
    compile_small(&a, DtBF16, &c);
    one_launch(&c.step, narrows_weight, &instances);
    assert_int_equal(instances, 3); // the last has one row, and is read as it is
    arena_release(&a);
}

static void planning_twice_gives_the_same_text(void **state) {
    (void)state;
    for (uint64_t seed = 0; seed < 20; seed++) {
        Arena a;
        assert_int_equal(arena_init(&a, 0), GAN_OK);
        Str text[2];
        for (int i = 0; i < 2; i++) {
            Module m;
            Plan p;
            program_random(&a, seed, &m);
            slots_place(&m, DtF32);
            plan_make(&a, &m, &m.step, &(PassOptions){.real = DtF32}, &p);
            Text t = {.arena = &a};
            plans_print(&t, &(const Plan *){&p}, 1, PlanPlaced);
            text[i] = text_str(&t);
        }
        assert_true(str_eq(text[0], text[1]));
        arena_release(&a);
    }
}

// Two nets of two weights, with one kind of state each.
static void arenas_of_weights_and_moments_have_equal_layout(void **state) {
    (void)state;
    Arena a;
    assert_int_equal(arena_init(&a, 0), GAN_OK);
    Module m = {.batch = 2};
    graph_init(&m.step.g, &a, 2);
    vec_push(&a, &m.net, ((Net){.name = STR("A")}));
    const struct {
        SlotKind kind;
        const char *name;
        int64_t n;
    } row[] = {
        {SlotParam, "A.1.w", 100},   {SlotParam, "A.2.w", 7},     {SlotState, "A.mean", 3},
        {SlotOpt, "o.m/A.1.w", 100}, {SlotOpt, "o.v/A.1.w", 100}, {SlotOpt, "o.m/A.2.w", 7},
        {SlotOpt, "o.v/A.2.w", 7},
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++)
        vec_push(&a, &m.slot,
                 ((Slot){.kind = row[i].kind,
                         .name = str_c(row[i].name),
                         .type = type_make(false, 1, &row[i].n)}));
    size_t bytes = slots_place(&m, DtF32);
    const Slot *s = m.slot.at;
    assert_true(s[1].offset < s[0].offset); // the last weight's gradient is ready first
    assert_int_equal(s[3].offset - s[5].offset, s[0].offset - s[1].offset);
    assert_int_equal(s[4].offset - s[6].offset, s[0].offset - s[1].offset);
    assert_true(s[2].offset > s[3].offset && s[2].offset > s[4].offset);
    for (size_t i = 0; i < sizeof row / sizeof *row; i++)
        assert_true(s[i].offset % PLAN_ALIGN == 0 && s[i].offset < bytes);
    arena_release(&a);
}

static void arithmetic_is_counted_on_shapes(void **state) {
    (void)state;
    Arena a;
    assert_int_equal(arena_init(&a, 0), GAN_OK);
    Func f = {.blocks = 1};
    graph_init(&f.g, &a, 4);
    Builder at = {.g = &f.g};
    ConvGeom geom = {.n = 2,
                     .stride = {2, 2},
                     .before = {1, 1},
                     .after = {1, 1},
                     .dilation = {1, 1},
                     .groups = 1};
    Val x = Read(&at, 0, 0, type_make(true, 3, (int64_t[]){3, 8, 8}));
    Val w = Read(&at, 1, 0, type_make(false, 4, (int64_t[]){5, 3, 4, 4}));
    Val y = Conv(x, w, &geom);
    double conv = 2e-9 * 4 * 5 * 4 * 4 * 3 * 4 * 4;
    assert_close(node_gflop(&f.g, y.id), conv, 1e-15);
    Val dx = ConvDx(y, w, &geom, *node_type(&f.g, x.id));
    Val dw = ConvDw(x, y, &geom, *node_type(&f.g, w.id));
    assert_close(node_gflop(&f.g, dx.id), conv, 1e-15);
    assert_close(node_gflop(&f.g, dw.id), conv, 1e-15);
    vec_push(&a, &f.tape, ((Ctl){CtlRepeat, 5, 0}));
    vec_push(&a, &f.tape, ((Ctl){CtlBlock, 0, 0}));
    vec_push(&a, &f.tape, ((Ctl){CtlEnd, 0, 0}));
    assert_close(func_gflop(&f), 15 * conv, 1e-15);

    // One step in four takes the first branch, the others the second: their average is counted.
    f.blocks = 2;
    f.tape.n = 0;
    vec_push(&a, &f.tape, ((Ctl){CtlEvery, 4, 0}));
    vec_push(&a, &f.tape, ((Ctl){CtlBlock, 0, 0}));
    vec_push(&a, &f.tape, ((Ctl){CtlElse, 0, 0}));
    vec_push(&a, &f.tape, ((Ctl){CtlBlock, 1, 0}));
    vec_push(&a, &f.tape, ((Ctl){CtlEnd, 0, 0}));
    assert_close(func_gflop(&f), 0.25 * 3 * conv, 1e-15);
    at.block = 1;
    Val other = Read(&at, 2, 0, type_make(true, 3, (int64_t[]){3, 8, 8}));
    Conv(other, w, &geom);
    assert_close(func_gflop(&f), 0.25 * 3 * conv + 0.75 * conv, 1e-15);
    arena_release(&a);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_reader_finds_its_value),
        cmocka_unit_test(a_narrower_copy_does_not_lie_on_its_operand),
        cmocka_unit_test(packing_is_close_to_the_bound),
        cmocka_unit_test(models_are_planned_close_to_the_bound),
        cmocka_unit_test(deferred_tails_read_correct_values),
        cmocka_unit_test(plans_are_as_good_as_measured),
        cmocka_unit_test(small_values_of_a_card_have_their_own_places),
        cmocka_unit_test(an_update_of_a_net_is_one_launch),
        cmocka_unit_test(an_update_of_many_scalars_is_no_part),
        cmocka_unit_test(many_operands_come_from_memory),
        cmocka_unit_test(functions_share_their_kernels),
        cmocka_unit_test(weights_are_cast_to_bf16_in_one_launch),
        cmocka_unit_test(planning_twice_gives_the_same_text),
        cmocka_unit_test(a_batch_that_fits_is_found_in_few_compilations),
        cmocka_unit_test(arenas_of_weights_and_moments_have_equal_layout),
        cmocka_unit_test(arithmetic_is_counted_on_shapes),
    };
    if (CASES_LISTED(tests))
        return 0;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
