// ranks_run.c - see ranks_run.h.
#include "ranks_run.h"

#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <string.h>

#include <cmocka.h>
#include "comm.h"
#include "interp.h"
#include "settings.h"

enum { MAX_RANKS = 8, PerStep = 1 << 20, PerSlot = 1 << 24 };

typedef struct RankState { // one rank
    const RanksOptions *o;
    Arena arena;
    LocalRank seat;
    Compiled compiled;
    CompileOptions options;
    Device *device;
    Exec *exec;
    Comm *comm;
    uint32_t step;
    RanksRun run;
    GanStatus status;
    char error[512];
    pthread_t thread;
} RankState;

// --- compiling -----------------------------------------------------------------------------------

Str ranks_model_text(Arena *perm, const char *name) {
    Str text;
    assert_int_equal(file_read(perm, path_join(perm, STR(ROOT_DIR "/models"), str_c(name)), &text),
                     GAN_OK);
    return text;
}

bool ranks_module(Arena *a, const RanksOptions *o, bool literal, Module *out, Str *said) {
    Front f;
    ElabOptions e = {.batch = o->batch, .literal = literal};
    settings_read(a, o->set, &e);
    front_init(&f, a);
    uint32_t source = front_add_source(&f, str_c(o->name), o->text, false);
    bool yaml = str_ends(str_c(o->name), STR(".yaml"));
    Ast *file = !source ? NULL : yaml ? parse_yaml(&f, source) : parse_gan(&f, source);
    if (file && !diag_errors(&f) && front_load_library(&f) && elaborate(&f, file, &e, out))
        return true;
    Text t = {.arena = a};
    diag_render(&t, &f, false);
    *said = text_str(&t);
    return false;
}

// A plan read back and printed again must give the same text. Plans point to the module they are
// read into, so that one runs.
static void reread(RankState *s) {
    Arena *a = &s->arena;
    Text text = {.arena = a}, again = {.arena = a};
    Str error;
    Share share = s->compiled.module.share;
    compiled_print(&text, &s->compiled, PlanPlaced);
    if (!compiled_read(a, text_str(&text), s->options.dialect, &s->compiled, &error))
        fail_msg("%s: its own plan is rejected: %.*s", s->o->name, SARG(error));
    compiled_print(&again, &s->compiled, PlanPlaced);
    if (!str_eq(text_str(&text), text_str(&again)))
        fail_msg("%s: a plan read back prints another text", s->o->name);
    s->compiled.module.share = share;
}

size_t ranks_min_memory(Arena *perm, Module *m, const CompileOptions *o) {
    int64_t batch = m->batch;
    m->batch = share_of(batch, o->parallel.rank, o->parallel.ranks).samples;
    compile_scales(perm, m, o);
    size_t bytes = slots_place(m, o->real);
    m->batch = batch;
    return bytes;
}

static void compile(RankState *s) {
    Str said;
    Arena *a = &s->arena;
    if (!ranks_module(a, s->o, false, &s->compiled.module, &said))
        fail_msg("%s:\n%s", s->o->name, str_z(a, said));
    if (s->o->min_memory)
        s->options.memory = ranks_min_memory(a, &s->compiled.module, &s->options);
    GanStatus st = compile_plans(a, &s->compiled.module, &s->options, &s->compiled);
    bool exceeded =
        st == GAN_ERR_MEMORY && s->options.memory; // the limit is exceeded, but there are plans
    if (st != GAN_OK && !exceeded)
        fail_msg("%s: %s", s->o->name, gan_error());
    if (s->o->reread)
        reread(s);
}

// --- data ----------------------------------------------------------------------------------------

static size_t slot_count(const Module *m, uint32_t slot) {
    const Type *t = &m->slot.at[slot].type;
    return (size_t)(type_sample(t) * (t->batched ? m->batch : 1));
}

double ranks_datum(const Module *m, uint32_t slot, uint32_t step, uint64_t i) {
    const Slot *s = &m->slot.at[slot];
    const Field *f = &m->stream.at[s->stream].field.at[s->site];
    double x = test_number((uint64_t)PerSlot * (slot + 1) + (uint64_t)PerStep * step + i);
    return f->kind == FieldLabel ? floor((x + 1) / 2 * (double)f->classes) : (double)(float)x;
}

bool ranks_is_loss_scale(Str name) {
    Str kind = str_sub(name, 0, str_find(name, '/'));
    return str_ends(kind, STR("loss_scale")) || str_ends(kind, STR("_updates"));
}

Counters ranks_counters(uint32_t step) {
    return (Counters){.seed = 7, .step = step, .kimg = step * 0.125};
}

// Puts this rank's samples of the global batch.
static GanStatus fill(RankState *s, uint32_t slot) {
    const Module *m = &s->compiled.module;
    const Type *t = &m->slot.at[slot].type;
    Arena scratch = s->arena;
    size_t n = slot_count(m, slot);
    uint64_t first = t->batched ? (uint64_t)(m->share.first * type_sample(t)) : 0;
    double *x = arena_array(&scratch, double, n);
    for (size_t i = 0; i < n; i++)
        x[i] = ranks_datum(m, slot, s->step, first + i);
    return exec_slot_put(s->exec, slot, x, n);
}

static GanStatus fill_data(RankState *s) {
    const Module *m = &s->compiled.module;
    for (uint32_t i = 0; i < m->slot.n; i++)
        if (m->slot.at[i].kind == SlotData)
            TRY(fill(s, i));
    return GAN_OK;
}

// --- recording -----------------------------------------------------------------------------------

static GanStatus record(RankState *s, Str name, uint32_t update, uint32_t slot,
                        const uint32_t *node, size_t n) {
    RanksValue v = {name, update, slot, n, arena_array(&s->arena, double, n)};
    if (node)
        TRY(exec_value_get(s->exec, &s->compiled.step, *node, v.x, n));
    else
        TRY(exec_slot_get(s->exec, slot, v.x, n));
    vec_push(&s->arena, &s->run.value, v);
    return GAN_OK;
}

static GanStatus record_update(RankState *s, uint32_t u) {
    const Module *m = &s->compiled.module;
    const Update *of = &m->step.update.at[u];
    TRY(record(s, str_format(&s->arena, "step %u, loss %u", s->step, u), NONE, NONE, &of->loss, 1));
    bool looked_at = !s->o->as_trained && s->step + 1 == s->o->steps;
    for (uint32_t k = 0; looked_at && k < of->grad.n; k++) {
        uint32_t slot = of->grad.at[k].slot;
        Str name =
            str_format(&s->arena, "update %u, gradient of %.*s", u, SARG(m->slot.at[slot].name));
        TRY(record(s, name, u, slot, &of->grad.at[k].node, slot_count(m, slot)));
    }
    return GAN_OK;
}

static GanStatus after_block(void *user, Exec *e, uint32_t block, uint32_t round) {
    RankState *s = user;
    const Func *f = &s->compiled.module.step;
    (void)e, (void)round;
    for (uint32_t u = 0; u < f->update.n; u++)
        if (f->update.at[u].block == block)
            TRY(record_update(s, u));
    for (uint32_t i = 0; i < f->report.n; i++)
        if (f->report.at[i].block == block)
            TRY(record(s,
                       str_format(&s->arena, "step %u, %.*s", s->step, SARG(f->report.at[i].name)),
                       NONE, NONE, &f->report.at[i].node, 1));
    return GAN_OK;
}

static GanStatus record_slots(RankState *s) {
    const Module *m = &s->compiled.module;
    for (uint32_t i = 0; i < m->slot.n; i++)
        if (slot_outlives(&m->slot.at[i]))
            TRY(record(s, m->slot.at[i].name, NONE, i, NULL, slot_count(m, i)));
    return GAN_OK;
}

// --- running -------------------------------------------------------------------------------------

// As a session does, where another thread loads the step and must not use the arena.
static GanStatus open_exec(RankState *s) {
    const Compiled *c = &s->compiled;
    TRY(exec_begin(s->o->api, s->device, &s->arena, &c->module, &c->init, &s->exec));
    const char *free = s->arena.beg;
    TRY(exec_load_step(s->exec, &c->step));
    if (s->arena.beg != free)
        bug("a step that is loaded takes %td bytes of the session's arena", s->arena.beg - free);
    return exec_plans(s->exec, &c->step, c->entry);
}

static GanStatus open_rank(RankState *s) {
    static const CommOptions limits = {.deadline = 60};
    if (s->o->parallel.ranks > 1)
        TRY(comm_open(&link_local, &s->seat, &limits, &s->comm));
    if (s->comm)
        comm_compress(s->comm, s->o->narrow);
    DeviceOptions d = {.threads = s->o->threads ? s->o->threads : 1,
                       .comm = s->comm,
                       .compiler = s->o->compiler,
                       .no_tf32 = true,
                       .cache_dir = s->o->cache};
    TRY(s->o->api->open(&d, &s->device));
    return open_exec(s);
}

// Continues in another executor, given only what a checkpoint stores.
static GanStatus resume(RankState *s) {
    const Module *m = &s->compiled.module;
    Exec *before = s->exec;
    GanStatus st = GAN_OK;
    s->exec = NULL;
    TRY_OUT(open_exec(s));
    TRY_OUT(exec_init(s->exec, 8));
    for (uint32_t i = 0; i < m->slot.n; i++) {
        if (!slot_outlives(&m->slot.at[i]))
            continue;
        void *bytes = arena_alloc(&s->arena, exec_slot_bytes(before, i), 64);
        TRY_OUT(exec_slot_save(before, i, bytes));
        TRY_OUT(exec_slot_load(s->exec, i, bytes));
    }
out:
    exec_close(before);
    return st;
}

static GanStatus run_entries(RankState *s) {
    const Compiled *c = &s->compiled;
    const Counters count = ranks_counters(s->step);
    TRY(fill_data(s));
    for (uint32_t i = 0; i < c->module.entry.n; i++) {
        const Func *f = &c->module.entry.at[i];
        TRY(exec_entry(s->exec, i, &count, NULL));
        for (uint32_t k = 0; k < f->result.n; k++) {
            const Type *t = node_type(&f->g, f->result.at[k].node);
            size_t n = (size_t)type_elements(&f->g, t);
            RanksValue v = {f->result.at[k].name, NONE, NONE, n, arena_array(&s->arena, double, n)};
            TRY(exec_value_get(s->exec, &c->entry[i], f->result.at[k].node, v.x, n));
            vec_push(&s->arena, &s->run.value, v);
        }
    }
    return GAN_OK;
}

static GanStatus train(RankState *s) {
    const ExecHooks hooks = {.after = after_block, .user = s};
    const Module *m = &s->compiled.module;
    TRY(open_rank(s));
    TRY(exec_init(s->exec, 7));
    for (uint32_t i = 0; i < m->slot.n; i++)
        if (s->o->scale > 0 && str_starts(m->slot.at[i].name, STR(SCALE_REPORT)))
            TRY(exec_slot_put(s->exec, i, &s->o->scale, 1));
    for (s->step = 0; s->step < s->o->steps; s->step++) {
        Counters c = ranks_counters(s->step);
        if (s->o->resume && s->step == s->o->resume)
            TRY(resume(s));
        TRY(fill_data(s));
        TRY(exec_step(s->exec, &c, &hooks));
        if (s->o->as_trained && s->step % 2)
            TRY(record_slots(s));
    }
    TRY(record_slots(s));
    return s->o->entries ? run_entries(s) : GAN_OK;
}

static void *rank_main(void *user) {
    RankState *s = user;
    s->status = train(s);
    if (s->status != GAN_OK)
        snprintf(s->error, sizeof s->error, "%s", gan_error());
    exec_close(s->exec);
    s->o->api->close(s->device);
    if (s->status != GAN_OK) {
        comm_leave(s->comm, s->status);
        comm_disconnect(s->comm);
    } else {
        comm_close(s->comm);
    }
    return NULL;
}

static bool equal_bits(const RanksRun *a, const RanksRun *b, uint32_t *at) {
    for (*at = 0; *at < a->value.n; ++*at)
        if (memcmp(a->value.at[*at].x, b->value.at[*at].x, a->value.at[*at].n * sizeof(double)))
            return false;
    return a->value.n == b->value.n;
}

void ranks_run(Arena *a, const RanksOptions *o, RanksRun *out) {
    uint32_t ranks = o->parallel.ranks > 1 ? o->parallel.ranks : 1, at;
    LocalHub *hub = NULL;
    RankState *seat = arena_array(a, RankState, MAX_RANKS);
    assert_true(ranks <= MAX_RANKS);
    assert_int_equal(local_hub_new((int)ranks, &hub), GAN_OK);
    for (uint32_t r = 0; r < ranks; r++) {
        RankState *s = &seat[r];
        *s = (RankState){.o = o, .seat = {hub, (int)r}};
        assert_int_equal(arena_init(&s->arena, 0), GAN_OK);
        s->options = (CompileOptions){.real = o->real,
                                      .scale_losses = o->scaled,
                                      .small_products = o->halves,
                                      .no_fuse = o->api->no_fuse,
                                      .keep_grads = !o->as_trained,
                                      .parallel = o->parallel};
        s->options.parallel.rank = r;
        if (o->api->dialect)
            s->options.dialect = dialect_find(str_c(o->api->dialect));
        compile(s);
    }
    for (uint32_t r = 0; r < ranks; r++)
        assert_int_equal(pthread_create(&seat[r].thread, NULL, rank_main, &seat[r]), 0);
    for (uint32_t r = 0; r < ranks; r++)
        pthread_join(seat[r].thread, NULL);
    local_hub_free(hub);
    bool failed = false; // print all: one may only report that another ended
    for (uint32_t r = 0; r < ranks; r++)
        if ((failed |= seat[r].status != GAN_OK) && *seat[r].error)
            print_error("%s, rank %u of %u: %s\n", o->name, r, ranks, seat[r].error);
    assert_false(failed);
    for (uint32_t r = 1; r < ranks; r++)
        if (!equal_bits(&seat[0].run, &seat[r].run, &at))
            fail_msg("%s, rank %u of %u: %s differs from rank 0", o->name, r, ranks,
                     str_z(a, seat[0].run.value.at[at].name));
    *out = seat[0].run;
    out->compiled = seat[0].compiled;
    for (uint32_t r = 0; r < ranks; r++)
        out->arena[r] = seat[r].arena;
}

void ranks_free(RanksRun *run) {
    for (uint32_t r = 0; r < MAX_RANKS; r++)
        arena_release(&run->arena[r]);
}

// --- comparing -----------------------------------------------------------------------------------

static double norm_of(const RanksValue *v, const double *minus) {
    double sum = 0;
    for (size_t i = 0; i < v->n; i++) {
        double x = v->x[i] - (minus ? minus[i] : 0);
        sum += x * x;
    }
    return sqrt(sum);
}

static double largest_gradient(const RanksRun *run, uint32_t update) {
    double most = 0;
    for (uint32_t i = 0; i < run->value.n; i++)
        if (run->value.at[i].update == update)
            most = fmax(most, norm_of(&run->value.at[i], NULL));
    return most;
}

// Is the gradient of weight `slot` zero but for rounding?
static bool zero_gradient(const RanksRun *run, uint32_t slot) {
    for (uint32_t i = 0; i < run->value.n; i++) {
        const RanksValue *v = &run->value.at[i];
        if (v->update != NONE && v->slot == slot &&
            norm_of(v, NULL) <= 1e-10 * largest_gradient(run, v->update))
            return true;
    }
    return false;
}

// "opt.m/G.conv.3.w" is optimizer state of G.conv.3.w.
static uint32_t weight_of(const RanksRun *run, uint32_t slot) {
    const Module *m = &run->compiled.module;
    Str name = m->slot.at[slot].name;
    size_t cut = str_find(name, '/');
    for (uint32_t i = 0; i < m->slot.n && cut < name.len; i++)
        if (str_eq(m->slot.at[i].name, str_sub(name, cut + 1, name.len)))
            return i;
    return slot;
}

void ranks_compare(const RanksRun *want, const RanksRun *got, double tolerance, const char *what) {
    assert_int_equal(want->value.n, got->value.n);
    for (uint32_t i = 0; i < want->value.n; i++) {
        const RanksValue *w = &want->value.at[i], *g = &got->value.at[i];
        assert_int_equal(w->n, g->n);
        double error = norm_of(w, g->x), scale = norm_of(w, NULL);
        if (w->update != NONE)
            scale = largest_gradient(want, w->update);
        else if (w->slot == NONE || scale < 1)
            scale = fmax(scale, 1);
        bool skip = tolerance > 0 && w->update == NONE && w->slot != NONE &&
                    zero_gradient(want, weight_of(want, w->slot));
        if (!skip && !(error <= tolerance * scale))
            fail_msg("%s: %.*s differs by %.3g of %.3g", what, SARG(w->name), error, scale);
    }
}
