// stages.c - a job to the compiler: the models of its stages, their identities, the text a run
// keeps.
//
// A run without `stages` has one. Which one is trained, or looked at, follows from a number of
// steps alone.
#include "job.h"

static CompileOptions compile_options(const Job *job, const Settings *setting) {
    return (CompileOptions){.path = job->model,
                            .text = job->text,
                            .batch = job->batch,
                            .setting = setting->at,
                            .settings = setting->n,
                            .real = job->real,
                            .memory = job->memory};
}

SessionOptions job_session(const Job *job, const DeviceOptions *device, const Parallel *p) {
    const Settings *setting = job->stage.n ? &job_now(job)->setting : &job->setting;
    SessionOptions o = {.compile = compile_options(job, setting),
                        .api = device_find(job->device),
                        .device = *device};
    if (p)
        o.compile.parallel = *p;
    if (job->threads)
        o.device.threads = job->threads;
    o.device.no_tf32 = !job->tf32;
    o.device.no_graph = job->no_graph;
    return o;
}

// --- stages --------------------------------------------------------------------------------------

// As its text says; where --steps says otherwise the last one is longer, or later ones are left
// out.
static GanStatus set_stages(Arena *perm, Job *job, const Module *m) {
    int64_t at = 0;
    job->stage.n = 0;
    for (uint32_t i = 0; i < m->stage.n; i++)
        at += m->stage.at[i].steps;
    if (m->stage.n && ganx_is(job->model))
        return fail(
            GAN_ERR_USAGE,
            "%.*s is compiled, and so one model: a run through the stages of its text needs "
            "that text",
            SARG(job->model));
    if (!job->steps)
        job->steps = m->stage.n ? at : DEFAULT_STEPS;
    if (job->steps > STEPS_MOST)
        return fail(GAN_ERR_USAGE, "stages of %lld steps: the most is %d", (long long)job->steps,
                    STEPS_MOST);
    at = 0;
    for (uint32_t i = 0; i < m->stage.n || i == 0; i++) {
        JobStage s = {.first = (uint32_t)at};
        for (uint32_t k = 0; k < job->setting.n; k++)
            vec_push(perm, &s.setting, job->setting.at[k]);
        for (uint32_t k = 0; m->stage.n && k < m->stage.at[i].setting.n; k++)
            vec_push(perm, &s.setting, m->stage.at[i].setting.at[k]);
        if (m->stage.n)
            s.says = settings_text(perm, m->stage.at[i].setting.at, m->stage.at[i].setting.n);
        at += m->stage.n ? m->stage.at[i].steps : 0;
        at = at > job->steps || i + 1 >= m->stage.n ? job->steps : at;
        s.last = (uint32_t)at;
        vec_push(perm, &job->stage, s);
    }
    return GAN_OK;
}

const JobStage *job_now(const Job *job) {
    return &job->stage.at[job->now];
}

uint64_t job_seed(const Job *job) {
    return job->seed + job->now;
}

Str job_stage_text(const Job *job, Arena *perm) {
    Str says = job_now(job)->says;
    if (job->stage.n == 1)
        return (Str){0};
    return str_format(perm, "stage %u of %u%s%.*s", job->now + 1, job->stage.n,
                      says.len ? ", " : "", SARG(says));
}

static GanStatus module_of(const Job *job, const Settings *setting, const Console *c, Arena *perm,
                           Module *out) {
    Front f;
    front_init(&f, perm);
    CompileOptions o = compile_options(job, setting);
    *out = (Module){0};
    GanStatus st = compile_module(&f, &o, out);
    if (st != GAN_OK && diag_errors(&f)) {
        show_diagnostics(perm, &f, c);
        return c ? fail(GAN_ERR_INPUT, "%s", "")
                 : fail(GAN_ERR_INPUT, "%.*s: the model no longer compiles; `ganc check` says why",
                        SARG(o.path));
    }
    return st;
}

GanStatus job_hash(Job *job, const Console *c, Arena *perm, Str *out) {
    Module m;
    TRY(module_of(job, &job->setting, c, perm, &m));
    *out = job->now_hash = hash_hex(perm, module_hash(&m, *perm));
    job->now = 0;
    return set_stages(perm, job, &m);
}

GanStatus job_stage(Job *job, Arena *perm, uint32_t step, bool next) {
    Module m;
    job->now = 0;
    next = next && step < job->steps;
    while (job->now + 1 < job->stage.n && step + next > job_now(job)->last)
        job->now++;
    if (job->stage.n == 1)
        return GAN_OK;
    TRY(module_of(job, &job_now(job)->setting, NULL, perm, &m));
    job->now_hash = hash_hex(perm, module_hash(&m, *perm));
    return GAN_OK;
}

GanStatus job_unchanged(Job *job, const Console *c, Arena *perm) {
    Str hash;
    TRY(job_hash(job, c, perm, &hash));
    if (str_eq(hash, job->hash))
        return GAN_OK;
    return fail(GAN_ERR_INPUT,
                "%.*s is no longer the model this run began with: its hash is %.*s, options.json "
                "says %.*s",
                SARG(job->model), SARG(hash), SARG(job->hash));
}

GanStatus job_resolved(const Job *job, Arena *perm, Str *out) {
    CompileOptions o = compile_options(job, &job->setting);
    return compile_resolved(perm, &o, out);
}
