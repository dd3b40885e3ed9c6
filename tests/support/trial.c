// trial.c - see trial.h.
#include "trial.h"

#include <math.h>
#include <setjmp.h>
#include <string.h>

#include <cmocka.h>
#include "interp.h"
#include "settings.h"

// Offsets of each kind of number in the sequence of test numbers: fixed, so that other programs can
// reproduce them.
enum {
    FieldNumbers = 0,
    WeightNumbers = 300000,
    DrawNumbers = 400000,
    DirectionNumbers = 500000,
    PerItem = 10000
};

#define assert_ok(call)                                                                            \
    do {                                                                                           \
        if ((call) != GAN_OK)                                                                      \
            fail_msg("%s: %s", #call, gan_error());                                                \
    } while (0)

// --- compiling -----------------------------------------------------------------------------------

Str trial_read(Arena *a, const char *folder, Str name) {
    Str text;
    assert_ok(file_read(a, path_join(a, str_c(folder), name), &text));
    return text;
}

static ElabOptions elab_options(Arena *a, const TrialOptions *o) {
    ElabOptions e = {.batch = o->batch, .feed = o->fed};
    settings_read(a, o->set, &e);
    return e;
}

const Module *trial_module(Arena *a, const TrialOptions *o) {
    Front f;
    ElabOptions e = elab_options(a, o);
    Module *m = arena_new(a, Module);
    Str error = {0};
    front_init(&f, a);
    uint32_t source = front_add_source(&f, str_c(o->name), o->text, false);
    bool yaml = str_ends(str_c(o->name), STR(".yaml"));
    Ast *file = !source ? NULL : yaml ? parse_yaml(&f, source) : parse_gan(&f, source);
    bool fine = file && !diag_errors(&f) && front_load_library(&f) && elaborate(&f, file, &e, m);
    if (!fine || diag_total(&f)) {
        Text t = {.arena = a};
        diag_render(&t, &f, false);
        fail_msg("%s:\n%s", o->name, str_z(a, text_str(&t)));
    }
    if (!module_verify(m, a, &error))
        fail_msg("%s: %s", o->name, str_z(a, error));
    return m;
}

void trial_open(Trial *t, Arena *a, const TrialOptions *o) {
    const DeviceOptions plain = {.threads = 1};
    const CompileOptions c = {.real = o->real, .no_fuse = true, .keep_grads = true};
    *t = (Trial){.arena = a, .compiled.module = *trial_module(a, o), .counters.seed = 1};
    Module *m = &t->compiled.module;
    compile_plans(a, m, &c, &t->compiled);
    assert_ok(device_ref.open(&plain, &t->device));
    assert_ok(exec_begin(&device_ref, t->device, a, m, &t->compiled.init, &t->exec));
    assert_ok(exec_plans(t->exec, &t->compiled.step, t->compiled.entry));
    assert_ok(exec_init(t->exec, t->counters.seed));
    t->loss = arena_array(a, double, m->step.update.n);
    t->slope = arena_array(a, double, m->step.update.n);
}

void trial_close(Trial *t) {
    exec_close(t->exec);
    device_ref.close(t->device);
}

// --- slots ---------------------------------------------------------------------------------------

static size_t slot_count(const Module *m, uint32_t slot) {
    const Type *t = &m->slot.at[slot].type;
    return (size_t)(type_sample(t) * (t->batched ? m->batch : 1));
}

uint32_t trial_slot(const Trial *t, const char *name) {
    const Module *m = &t->compiled.module;
    for (uint32_t i = 0; i < m->slot.n; i++)
        if (str_eq(m->slot.at[i].name, str_c(name)))
            return i;
    fail_msg("no slot %s", name);
    return NONE;
}

static int64_t label_classes(const Module *m, const Slot *s) {
    if (s->kind != SlotData)
        return 0;
    const Field *f = &m->stream.at[s->stream].field.at[s->site];
    return f->kind == FieldLabel ? f->classes : 0;
}

static void fill(Trial *t, uint32_t slot, uint64_t key) {
    const Module *m = &t->compiled.module;
    const Slot *s = &m->slot.at[slot];
    Arena scratch = *t->arena;
    size_t n = slot_count(m, slot);
    double *x = arena_array(&scratch, double, n);
    int64_t classes = label_classes(m, s);
    bool draw = s->kind == SlotFed && m->site.at[s->site].dist == DistUniform;
    for (size_t i = 0; i < n; i++) {
        double r = test_number(key + i);
        x[i] = classes ? floor((r + 1) / 2 * (double)classes) : draw ? (r + 1) / 2 : r;
    }
    assert_ok(exec_slot_put(t->exec, slot, x, n));
}

void trial_set_weights(Trial *t) {
    const Module *m = &t->compiled.module;
    uint64_t seen = 0;
    for (uint32_t i = 0; i < m->slot.n; i++)
        if (m->slot.at[i].kind == SlotParam && !str_ends(m->slot.at[i].name, STR(".at")))
            fill(t, i, WeightNumbers + PerItem * seen++);
}

static void fill_data(Trial *t) {
    const Module *m = &t->compiled.module;
    uint64_t draws = 0, later = (uint64_t)t->counters.step * 1000000;
    for (uint32_t i = 0; i < m->slot.n; i++) {
        const Slot *s = &m->slot.at[i];
        if (s->kind == SlotData)
            fill(t, i, later + FieldNumbers + PerItem * (s->stream + s->site));
        else if (s->kind == SlotFed && m->site.at[s->site].func == 1)
            fill(t, i, later + DrawNumbers + PerItem * draws++);
    }
}

// --- steps ---------------------------------------------------------------------------------------

static double direction_at(uint32_t slot, size_t i) {
    return test_number(DirectionNumbers + (uint64_t)slot * PerItem + i);
}

static double slope_of(Trial *t, const Update *u) {
    double sum = 0;
    for (uint32_t k = 0; k < u->grad.n; k++) {
        Arena scratch = *t->arena;
        size_t n = slot_count(&t->compiled.module, u->grad.at[k].slot);
        double *g = arena_array(&scratch, double, n);
        assert_ok(exec_value_get(t->exec, &t->compiled.step, u->grad.at[k].node, g, n));
        for (size_t i = 0; i < n; i++)
            sum += g[i] * direction_at(u->grad.at[k].slot, i);
    }
    return sum;
}

static GanStatus after_block(void *user, Exec *e, uint32_t block, uint32_t round) {
    Trial *t = user;
    const Func *f = &t->compiled.module.step;
    (void)round;
    for (uint32_t i = 0; i < f->update.n; i++) {
        if (f->update.at[i].block != block)
            continue;
        TRY(exec_value_get(e, &t->compiled.step, f->update.at[i].loss, &t->loss[i], 1));
        t->slope[i] = slope_of(t, &f->update.at[i]);
    }
    return GAN_OK;
}

static void step_once(Trial *t) {
    const ExecHooks hooks = {.after = after_block, .user = t};
    fill_data(t);
    assert_ok(exec_step(t->exec, &t->counters, &hooks));
}

void trial_step(Trial *t) {
    step_once(t);
    t->counters.step++;
}

// --- gradients -----------------------------------------------------------------------------------

static bool is_kept(const Slot *s) {
    return slot_outlives(s);
}

typedef struct Kept {
    double **value;
} Kept; // [slot], NULL if the slot does not outlive a step

static Kept keep(Trial *t) {
    const Module *m = &t->compiled.module;
    Kept k = {arena_array(t->arena, double *, m->slot.n)};
    for (uint32_t i = 0; i < m->slot.n; i++) {
        if (!is_kept(&m->slot.at[i]))
            continue;
        k.value[i] = arena_array(t->arena, double, slot_count(m, i));
        assert_ok(exec_slot_get(t->exec, i, k.value[i], slot_count(m, i)));
    }
    return k;
}

// Restores the slots, with the first update's weights moved by `h` direction_at the direction.
static void put_back(Trial *t, Kept k, double h) {
    const Module *m = &t->compiled.module;
    const Update *u = &m->step.update.at[0];
    for (uint32_t i = 0; i < m->slot.n; i++)
        if (k.value[i])
            assert_ok(exec_slot_put(t->exec, i, k.value[i], slot_count(m, i)));
    for (uint32_t j = 0; j < u->grad.n && h != 0; j++) {
        Arena scratch = *t->arena;
        uint32_t slot = u->grad.at[j].slot;
        size_t n = slot_count(m, slot);
        double *x = arena_array(&scratch, double, n);
        for (size_t i = 0; i < n; i++)
            x[i] = k.value[slot][i] + h * direction_at(slot, i);
        assert_ok(exec_slot_put(t->exec, slot, x, n));
    }
}

double trial_gradient_error(Trial *t) {
    const double h = 1e-7; // small against the distance to a kink, large against rounding
    Kept k = keep(t);
    double value[2];
    for (int side = 0; side < 2; side++) {
        put_back(t, k, side ? -h : h);
        step_once(t);
        value[side] = t->loss[0];
    }
    put_back(t, k, 0);
    step_once(t);
    put_back(t, k, 0);
    double measured = (value[0] - value[1]) / (2 * h);
    return fabs(measured - t->slope[0]) / fmax(fabs(t->slope[0]), fabs(t->loss[0]));
}
