// driver.c - the stages in order.
//
// In:  a path and options. Out: a Module and one Plan per function, or diagnostics in the Front.
// This file knows the order of the stages and nothing about any of them.
#include "driver.h"

enum { MAX_MODEL_BYTES = 16 << 20 };

static bool is_yaml(Str path) {
    Str ext = path_ext(path);
    return str_eq(ext, STR("yaml")) || str_eq(ext, STR("yml"));
}

// The diagnostics say what is wrong: the status has no words of its own.
static GanStatus diagnosed(void) {
    return fail(GAN_ERR_INPUT, "%s", "");
}

GanStatus compile_parse(Front *f, Str path, Ast **out) {
    Str text;
    if (!file_exists(path))
        return fail(GAN_ERR_INPUT, "there is no file %.*s", SARG(path));
    if (file_is_dir(path))
        return fail(GAN_ERR_INPUT, "%.*s is a folder, not a model", SARG(path));
    TRY(file_read(f->perm, path, &text));
    if (text.len > MAX_MODEL_BYTES)
        return fail(GAN_ERR_INPUT, "%.*s: %zu bytes is no model: the limit is %d", SARG(path),
                    text.len, MAX_MODEL_BYTES);
    uint32_t source = front_add_source(f, path, text, false);
    if (source)
        *out = is_yaml(path) ? parse_yaml(f, source) : parse_gan(f, source);
    if (!source || !*out || diag_errors(f))
        return diagnosed();
    return GAN_OK;
}

GanStatus compile_module(Front *f, const CompileOptions *o, Module *out) {
    Ast *file = NULL;
    TRY(compile_parse(f, o->path, &file));
    ElabOptions e = {
        .batch = o->batch ? o->batch : DEFAULT_BATCH,
        .setting = o->setting,
        .settings = o->settings,
        .feed = o->feed,
    };
    if (!front_load_library(f) || !elaborate(f, file, &e, out))
        return diagnosed();
    return GAN_OK;
}

static void plan_one(Arena *perm, Module *m, Func *f, const PassOptions *p, const Dialect *d,
                     Plan *out) {
    plan_make(perm, m, f, p, out);
    if (d)
        gen_kernels(perm, out, d);
}

void compile_plans(Arena *perm, Module *m, const CompileOptions *o, Compiled *out) {
    PassOptions p = {
        .real = o->real,
        .keep_grads = o->keep_grads,
        .no_fuse = o->no_fuse,
#ifndef NDEBUG
        .verify_each = true,
#endif
    };
    passes_run(perm, m, &m->init, &p, NULL);
    passes_run(perm, m, &m->step, &p, NULL);
    for (uint32_t i = 0; i < m->entry.n; i++)
        passes_run(perm, m, &m->entry.at[i], &p, NULL);
    size_t slots = slots_place(m, o->real);
    PassOptions quiet = p;
    quiet.keep_grads = false;
    plan_one(perm, m, &m->init, &quiet, o->dialect, &out->init);
    plan_one(perm, m, &m->step, &p, o->dialect, &out->step);
    out->entry = arena_array(perm, Plan, m->entry.n + 1);
    for (uint32_t i = 0; i < m->entry.n; i++)
        plan_one(perm, m, &m->entry.at[i], &quiet, o->dialect, &out->entry[i]);
    out->init.slot_bytes = out->step.slot_bytes = slots;
    for (uint32_t i = 0; i < m->entry.n; i++)
        out->entry[i].slot_bytes = slots;
}

GanStatus compile_file(Front *f, const CompileOptions *o, Compiled *out) {
    TRY(compile_module(f, o, &out->module));
    compile_plans(f->perm, &out->module, o, out);
    return GAN_OK;
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
    for (uint32_t i = 0; d && i < 2 + out->module.entry.n; i++)
        gen_kernels(perm, &read.plan[i], d);
    out->init = read.plan[0];
    out->step = read.plan[1];
    out->entry = read.plan + 2;
    return true;
}
