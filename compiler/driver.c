// driver.c - runs the stages of the compiler in order.
//
// In: a path and options. Out: a Module and one Plan per function, or diagnostics in the Front.
// This file knows the order of the stages and nothing about any of them.
#include "driver.h"

#include <math.h>
#include <pthread.h>

enum { MAX_MODEL_BYTES = 16 << 20 };

bool compile_is_yaml(Str path) {
    Str ext = path_ext(path);
    return str_eq(ext, STR("yaml")) || str_eq(ext, STR("yml"));
}

// The diagnostics say what is wrong: the status has no words of its own.
static GanStatus diagnosed(void) {
    return fail(GAN_ERR_INPUT, "%s", "");
}

GanStatus compile_read(Arena *perm, Str path, Str *text) {
    if (!file_exists(path))
        return fail(GAN_ERR_INPUT, "there is no file %.*s", SARG(path));
    if (file_is_dir(path))
        return fail(GAN_ERR_INPUT, "%.*s is a folder, not a model", SARG(path));
    TRY(file_read(perm, path, text));
    return text->len <= MAX_MODEL_BYTES
               ? GAN_OK
               : fail(GAN_ERR_INPUT, "%.*s: %zu bytes is not a model: the limit is %d", SARG(path),
                      text->len, MAX_MODEL_BYTES);
}

// A compiled model stands for its text, with what was fixed when it was compiled.
static GanStatus settle_ganx(Front *f, CompileOptions *o, Ganx *g) {
    TRY(ganx_read(f->perm, o->path, g));
    if (o->settings)
        return fail(GAN_ERR_USAGE, "%.*s is compiled: its configs are fixed, -s changes none",
                    SARG(o->path));
    if (o->batch && o->batch != g->batch)
        return fail(GAN_ERR_USAGE,
                    "%.*s is compiled for batches of %lld, not %lld: compile the model again",
                    SARG(o->path), (long long)g->batch, (long long)o->batch);
    o->batch = g->batch;
    o->memory = o->memory ? o->memory : g->memory;
    o->text = g->model;
    o->path = ganx_text_path(f->perm, o->path);
    return GAN_OK;
}

static GanStatus settle(Front *f, CompileOptions *o) {
    Ganx g;
    return !o->text.ptr && ganx_is(o->path) ? settle_ganx(f, o, &g) : GAN_OK;
}

// The tree, perhaps with holes, which elaboration finds more mistakes beside.
static GanStatus read_tree(Front *f, CompileOptions *o, Ast **out) {
    TRY(settle(f, o));
    if (!o->text.ptr)
        TRY(compile_read(f->perm, o->path, &o->text));
    uint32_t source = front_add_source(f, o->path, o->text, false);
    if (source)
        *out = compile_is_yaml(o->path) ? parse_yaml(f, source) : parse_gan(f, source);
    return source && *out ? GAN_OK : diagnosed();
}

GanStatus compile_parse(Front *f, const CompileOptions *asked, Ast **out) {
    CompileOptions o = *asked;
    TRY(read_tree(f, &o, out));
    return diag_errors(f) ? diagnosed() : GAN_OK;
}

GanStatus compile_module(Front *f, const CompileOptions *asked, Module *out) {
    Ast *file = NULL;
    CompileOptions o = *asked;
    TRY(read_tree(f, &o, &file));
    ElabOptions e = {
        .batch = o.batch ? o.batch : DEFAULT_BATCH,
        .setting = o.setting,
        .settings = o.settings,
        .stage = o.stage,
        .feed = o.feed,
        .feed_entries = o.feed_entries,
    };
    if (!front_load_library(f) || !elaborate(f, file, &e, out))
        return diagnosed();
    return GAN_OK;
}

static void plan_one(const Planning *p, Arena *perm, Func *f, const PassOptions *o, Plan *out) {
    passes_run(perm, p->module, f, o, NULL);
    plan_make(perm, p->module, f, o, out);
    if (p->memory && f != &p->module->init) { // whose nodes slots know by number
        PassOptions least = *o;
        size_t beside = p->slot_bytes + (o->few_launches ? plan_workspace(out) + CARD_ALIGN : 0);
        least.work_most = p->memory > beside ? p->memory - beside : 1;
        remat(perm, &least, f, out);
    }
    if (p->dialect)
        gen_kernels(perm, out, p->dialect);
    out->slot_bytes = p->slot_bytes;
}

// Can the step be divided so?
static GanStatus check_parallel(const Module *m, const Parallel *p) {
    if (p->ranks > 1 && m->batch < p->ranks)
        return fail(GAN_ERR_USAGE,
                    "a batch of %lld cannot be divided among %u ranks: give --batch "
                    "at least as many",
                    (long long)m->batch, p->ranks);
    int64_t ranks = p->ranks > 1 ? p->ranks : 1, parts = p->chunks ? p->chunks : ranks * p->micro;
    bool power = (p->chunks & (p->chunks - 1)) == 0;
    if (p->chunks && p->micro > 1)
        return fail(GAN_ERR_USAGE, "a step is cut for the same bits on any number of ranks or to "
                                   "accumulate gradients, not both");
    if (p->chunks && (!power || p->chunks % ranks))
        return fail(GAN_ERR_USAGE,
                    "%u chunks of the batch on %lld ranks: their number must be a "
                    "power of two that the ranks divide",
                    p->chunks, (long long)ranks);
    if (parts && m->batch % parts)
        return fail(GAN_ERR_USAGE, "a batch of %lld cannot be cut in %lld equal parts",
                    (long long)m->batch, (long long)parts);
    return GAN_OK;
}

// Losses and gradients are the step's.
static PassOptions quiet(const Planning *p) {
    PassOptions o = p->pass;
    o.keep_grads = false;
    return o;
}

void compile_scales(Arena *perm, Module *m, const CompileOptions *o) {
    if (o->real == DtF16 || o->scale_losses)
        loss_scale_slots(perm, m);
}

// Large intermediates are computed in strips that a core's cache holds. On a card launches cost as
// much as that spares: for memory alone. `--memory` decides nothing here, for sums over strips are
// rounded otherwise.
static void set_strips(PassOptions *p, bool card) {
    enum { From = 64 << 20, Always = 1 << 30, Strip = 4 << 20, CardStrip = 32 << 20 };
    p->strip_always = Always;
    p->strip_from = card ? Always : From;
    p->strip_bytes = card ? CardStrip : Strip;
}

static GanStatus plans_begin(Arena *perm, Module *m, const CompileOptions *o, Compiled *out,
                             Planning *rest) {
    TRY(check_parallel(m, &o->parallel));
    *rest = (Planning){.module = m, .out = out, .dialect = o->dialect, .memory = o->memory};
    rest->pass = (PassOptions){
        .real = o->real,
        .keep_grads = o->keep_grads,
        .no_fuse = o->no_fuse,
        .few_launches = o->dialect && gen_few_launches(o->dialect),
        .side_by_side = o->dialect == &dialect_cuda && !o->memory,
        .parallel = o->parallel,
        .small_products = o->small_products,
        .half_grads = o->dialect == &dialect_cuda,
        .pack_channels = o->dialect == &dialect_cuda,
        .wide_f16 = o->dialect == &dialect_c,
#ifndef NDEBUG
        .verify_each = true,
#endif
    };
    if (!o->small_products)
        set_strips(&rest->pass, o->dialect == &dialect_cuda);
    // A card records a block's calls and waits together: no wait may be in another's.
    rest->pass.parallel.tail &= !rest->pass.few_launches;
    m->share = share_of(m->batch, o->parallel.rank, o->parallel.ranks);
    m->batch = m->share.samples;
    compile_scales(perm, m, o);
    rest->slot_bytes = slots_place(m, o->real);
    if (o->memory && rest->slot_bytes > o->memory) // no plan helps, so none is searched for
        return fail(GAN_ERR_MEMORY,
                    "--memory %s: weights, optimizer state and data of batch %lld alone need %s",
                    size_text(o->memory).z, (long long)m->share.total,
                    size_text(rest->slot_bytes).z);
    out->entry = arena_array(perm, Plan, m->entry.n + 1);
    return GAN_OK;
}

static void plan_init(const Planning *p, Arena *perm) {
    PassOptions pass = quiet(p);
    plan_one(p, perm, &p->module->init, &pass, &p->out->init);
}

bool compile_next(Planning *p, Arena *perm, uint32_t *func) {
    Module *m = p->module;
    PassOptions pass = quiet(p);
    uint32_t i = *func = atomic_fetch_add(&p->next, 1);
    if (i > m->entry.n)
        return false;
    if (p->made)
        return true;
    Plan *out = i == 0 ? &p->out->step : &p->out->entry[i - 1];
    plan_one(p, perm, i == 0 ? &m->step : &m->entry.at[i - 1], i == 0 ? &p->pass : &pass, out);
    if (p->code)
        ganx_cubins(perm, p->code, out);
    return true;
}

static void compile_rest(Planning *p, Arena *perm) {
    for (uint32_t func; compile_next(p, perm, &func);)
        ;
}

typedef struct Beside { // what a second thread plans
    Planning *rest;
    Arena *perm;
} Beside;

static void *plan_beside(void *user) {
    const Beside *b = user;
    compile_rest(b->rest, b->perm);
    return NULL;
}

// One takes the step while the other plans `init`.
GanStatus compile_plans_beside(Arena *perm, Arena *beside, Module *m, const CompileOptions *o,
                               Compiled *out) {
    Planning rest;
    Beside second = {&rest, beside};
    pthread_t thread;
    TRY(plans_begin(perm, m, o, out, &rest));
    bool two = beside && pthread_create(&thread, NULL, plan_beside, &second) == 0;
    plan_init(&rest, perm);
    compile_rest(&rest, perm);
    if (two)
        pthread_join(thread, NULL);
    return compile_fits(out, o);
}

GanStatus compile_plans(Arena *perm, Module *m, const CompileOptions *o, Compiled *out) {
    return compile_plans_beside(perm, NULL, m, o, out);
}

// Names and texts of a read module's sources, as diagnostics say and quote them.
static void quote_sources(const Front *f, Str path, Module *m) {
    for (uint32_t i = 0; i < m->source.n; i++) {
        if (str_eq(m->source.at[i], STR(GANX_TEXT)))
            m->source.at[i] = path;
        for (uint32_t k = 0; k < f->source.n; k++)
            if (str_eq(m->source.at[i], f->source.at[k].name))
                m->source_text.at[i] = f->source.at[k].text;
    }
}

// The plans of a compiled model, settled, as they are in its file, `path`.
static GanStatus load_ganx(Front *f, const CompileOptions *o, const Ganx *g, Str path,
                           Compiled *out) {
    Str error;
    if (!front_add_source(f, o->path, g->model, false) || !front_load_library(f))
        return diagnosed();
    if (!compiled_read(f->perm, g->plan, o->dialect, out, &error))
        return fail(GAN_ERR_INPUT, "%.*s: plan.txt: %.*s: compile the model again", SARG(path),
                    SARG(error));
    ganx_cubins(f->perm, g, &out->init);
    ganx_cubins(f->perm, g, &out->step);
    for (uint32_t i = 0; i < out->module.entry.n; i++)
        ganx_cubins(f->perm, g, &out->entry[i]);
    Module *m = &out->module;
    if (out->step.real != g->real || m->batch != g->batch)
        return fail(GAN_ERR_INPUT, "%.*s: its plan is not the one its manifest says", SARG(path));
    quote_sources(f, o->path, m);
    m->share = share_of(m->batch, 0, 1);
    return GAN_OK;
}

// Plans are made anew where they are not for the device at hand.
static bool plan_fits(const CompileOptions *o, const Ganx *g) {
    const char *dialect = str_eq(g->target, STR("cpu")) ? "c" : "cuda";
    bool divided = o->parallel.ranks > 1 || o->parallel.chunks || o->parallel.micro > 1;
    return !divided && g->ranks == 1 && o->memory == g->memory && !o->feed && !o->feed_entries &&
           !o->keep_grads && !o->no_fuse && o->dialect &&
           o->dialect == dialect_find(str_c(dialect));
}

GanStatus compile_begin(Front *f, const CompileOptions *asked, Compiled *out, Planning *rest) {
    CompileOptions o = *asked;
    Ganx *code = NULL;
    if (!o.text.ptr && ganx_is(o.path)) {
        Ganx g;
        TRY(settle_ganx(f, &o, &g));
        code = arena_new(f->perm, Ganx);
        *code = g;
        if (o.real != g.real)
            return fail(GAN_ERR_USAGE, "%.*s is compiled for %s, not %s: compile the model again",
                        SARG(asked->path), dtype_name[g.real], dtype_name[o.real]);
        if (plan_fits(&o, &g)) { // whose plans are all there
            TRY(load_ganx(f, &o, &g, asked->path, out));
            *rest = (Planning){.module = &out->module, .made = true};
            return GAN_OK;
        }
    }
    TRY(compile_module(f, &o, &out->module));
    TRY(plans_begin(f->perm, &out->module, &o, out, rest));
    plan_init(rest, f->perm);
    rest->code = code;
    if (code)
        ganx_cubins(f->perm, code, &out->init);
    return GAN_OK;
}

static GanStatus compile_all(Front *f, const CompileOptions *o, Compiled *out) {
    Planning rest;
    TRY(compile_begin(f, o, out, &rest));
    compile_rest(&rest, f->perm);
    return GAN_OK;
}

GanStatus compile_file(Front *f, const CompileOptions *o, Compiled *out) {
    TRY(compile_all(f, o, out));
    return compile_fits(out, o);
}

// --- a limit on memory ---------------------------------------------------------------------------

size_t compile_measure(const CompileOptions *o, CompiledBytes *bytes, const void *user) {
    Arena perm;
    Front f;
    Compiled c;
    if (arena_init(&perm, 0) != GAN_OK)
        return SIZE_MAX;
    front_init(&f, &perm);
    size_t needs = compile_all(&f, o, &c) == GAN_OK ? bytes(user, &c) : SIZE_MAX;
    arena_release(&perm);
    return needs;
}

int64_t compile_less(const CompileOptions *o, const Compiled *c, MemoryNeed m, CompiledBytes *bytes,
                     const void *user) {
    CompileOptions smaller = *o;
    int64_t above = c->module.share.total; // a batch that does not fit, and what it needs
    double need = (double)m.need, have = (double)m.have, fixed = (double)c->step.slot_bytes;
    if (!o->text.ptr && (!o->path.len || ganx_is(o->path))) // a compiled file fixes it
        return 0;
    if (have <= fixed)
        return 0;
    smaller.batch = (int64_t)ceil((double)above * (have - fixed) / (need - fixed));
    smaller.batch -= smaller.batch == above;
    for (int64_t next; smaller.batch > 0; smaller.batch = next) {
        size_t now = compile_measure(&smaller, bytes, user);
        if (now <= m.have)
            break;
        next = smaller.batch * 7 / 8;
        if (now == SIZE_MAX) // no plan of this batch, which the model may want divisible
            continue;
        double each = (need - (double)now) / (double)(above - smaller.batch),
               line = (double)smaller.batch - ceil(((double)now - have) / each);
        above = smaller.batch;
        need = (double)now;
        if (each > 0 && line < (double)next)
            next = line < 1 ? above > 1 : (int64_t)line;
    }
    return smaller.batch;
}

static size_t total_bytes(const void *user, const Compiled *c) {
    const CompileOptions *o = user;
    return compiled_bytes(c, o->dialect == &dialect_cuda);
}

GanStatus compile_fits(const Compiled *c, const CompileOptions *asked) {
    CompileOptions o = *asked;
    MemoryNeed m = {.need = total_bytes(&o, c), .have = o.memory};
    if (!m.have || m.need <= m.have)
        return GAN_OK;
    int64_t less = compile_less(&o, c, m, total_bytes, &o);
    char advice[64] = "";
    if (less)
        snprintf(advice, sizeof advice, "; --batch %lld fits", (long long)less);
    return fail(GAN_ERR_MEMORY, "--memory %s: batch %lld needs %s, even with recomputation%s",
                size_text(m.have).z, (long long)c->module.share.total, size_text(m.need).z, advice);
}

void compiled_print(Text *t, const Compiled *c, PlanLevel level) {
    uint32_t n = 2 + c->module.entry.n;
    const Plan **plan = arena_array(t->arena, const Plan *, n);
    plan[0] = &c->init;
    plan[1] = &c->step;
    for (uint32_t i = 2; i < n; i++)
        plan[i] = &c->entry[i - 2];
    plans_print(t, plan, n, level);
}

bool compiled_read(Arena *perm, Str text, const Dialect *d, Compiled *out, Str *error) {
    PlansRead read;
    *out = (Compiled){0};
    if (!plans_read(perm, text, &out->module, &read, error))
        return false;
    if (d && read.unfused) {
        *error =
            STR("its plans are unfused, for the reference device: there are no kernels of them");
        return false;
    }
    for (uint32_t i = 0; d && i < 2 + out->module.entry.n; i++) {
        if (!gen_has(d, &read.plan[i])) {
            *error = STR("a region computes of its sums, as on a card: there is no kernel of it");
            return false;
        }
        gen_kernels(perm, &read.plan[i], d);
    }
    out->init = read.plan[0];
    out->step = read.plan[1];
    out->entry = read.plan + 2;
    return true;
}

void compiled_collectives(Text *t, const Compiled *c) {
    const Share *s = &c->module.share;
    text_fmt(t, "%.*s: batch %lld on %u ranks\n", SARG(c->module.name), (long long)s->total,
             s->ranks);
    collectives_print(t, &c->init);
    collectives_print(t, &c->step);
    for (uint32_t i = 0; i < c->module.entry.n; i++)
        collectives_print(t, &c->entry[i]);
}

Hash128 compiled_collectives_hash(const Compiled *c, Arena scratch) {
    Text t = {.arena = &scratch};
    compiled_collectives(&t, c);
    Str text = text_str(&t);
    return hash128(text.ptr, text.len);
}
