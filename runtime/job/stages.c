// stages.c - compiles a job's model: compiler options, identity (hash), resolved text, and the
// stages of its run.
//
// A run without `stages` has one stage. Which stage is trained or sampled follows from the number
// of steps.
#include "job.h"

// Of the model as its configs stand, `s` NULL, or of a stage.
static CompileOptions compile_options(const Job *job, const JobStage *s) {
    const Settings *setting = s ? &s->setting : &job->setting;
    return (CompileOptions){.path = job->model,
                            .text = job->text,
                            .batch = s ? s->batch : job->batch,
                            .setting = setting->at,
                            .settings = setting->n,
                            .stage = s != NULL,
                            .real = job->real,
                            .memory = job->memory};
}

SessionOptions job_session(const Job *job, const DeviceOptions *device, const Parallel *p) {
    SessionOptions o = {.compile = compile_options(job, job->stage.n ? job_now(job) : NULL),
                        .api = device_find(job->device),
                        .device = *device};
    if (p)
        o.compile.parallel = *p;
    o.device.no_sums = o.compile.parallel.ranks <= 1;
    if (job->threads)
        o.device.threads = job->threads;
    o.device.no_tf32 = !job->tf32;
    o.device.no_graph = job->no_graph;
    o.device.no_branches = job->no_branches;
    return o;
}

// --- stages --------------------------------------------------------------------------------------

// A stage as the text has it; without `stages` the whole run is one.
static JobStage stage_of(Arena *perm, const Job *job, const Stage *text) {
    JobStage s = {.batch = text ? text->batch : job->batch};
    for (uint32_t k = 0; k < job->setting.n; k++)
        vec_push(perm, &s.setting, job->setting.at[k]);
    for (uint32_t k = 0; text && k < text->setting.n; k++)
        vec_push(perm, &s.setting, text->setting.at[k]);
    s.says = text ? stage_text(perm, text, job->batch) : (Str){0};
    return s;
}

// The step that makes --kimg full.
static int64_t steps_of_kimg(const Job *job, const Module *m) {
    int64_t at = 0, left = job->kimg * 1000, batch = job->batch;
    for (uint32_t i = 0; i < m->stage.n; i++) {
        const Stage *s = &m->stage.at[i];
        batch = s->batch;
        if (i + 1 == m->stage.n || left <= s->steps * batch)
            break;
        at += s->steps;
        left -= s->steps * batch;
    }
    return at + (left + batch - 1) / batch;
}

static GanStatus set_steps(Job *job, const Module *m) {
    int64_t all = m->stage.n ? 0 : DEFAULT_STEPS;
    for (uint32_t i = 0; i < m->stage.n; i++)
        all += m->stage.at[i].steps;
    if (job->kimg)
        job->steps = steps_of_kimg(job, m);
    else if (!job->steps)
        job->steps = all;
    return job->steps <= STEPS_MOST ? GAN_OK
                                    : fail(GAN_ERR_USAGE, "%lld steps: at most %d are possible",
                                           (long long)job->steps, STEPS_MOST);
}

// As the text says; where --steps says otherwise the last stage is longer, or later ones are left
// out.
static GanStatus set_stages(Arena *perm, Job *job, const Module *m) {
    if (m->stage.n && ganx_is(job->model))
        return fail(
            GAN_ERR_USAGE,
            "%.*s is compiled, and so one model: a run through the stages of its text needs "
            "that text",
            SARG(job->model));
    if (m->stage.n && job->seed > SEED_MOST - (m->stage.n - 1)) // job_seed
        return fail(GAN_ERR_USAGE,
                    "--seed %llu: each of the %u stages adds one to it, so it is at most %llu",
                    (unsigned long long)job->seed, m->stage.n,
                    (unsigned long long)(SEED_MOST - (m->stage.n - 1)));
    TRY(set_steps(job, m));
    job->stage.n = 0;
    int64_t at = 0, samples = 0;
    for (uint32_t i = 0; i < m->stage.n || i == 0; i++) {
        JobStage s = stage_of(perm, job, m->stage.n ? &m->stage.at[i] : NULL);
        s.first = (uint32_t)at;
        s.samples = samples;
        at += m->stage.n ? m->stage.at[i].steps : 0;
        at = at > job->steps || i + 1 >= m->stage.n ? job->steps : at;
        s.last = (uint32_t)at;
        samples += (at - s.first) * s.batch;
        vec_push(perm, &job->stage, s);
    }
    return GAN_OK;
}

const JobStage *job_now(const Job *job) {
    return &job->stage.at[job->now];
}

int64_t job_batch(const Job *job) {
    return job->stage.n ? job_now(job)->batch : job->batch;
}

int64_t job_samples(const Job *job, uint32_t step) {
    JobStage s = {.batch = job->batch};
    for (uint32_t i = 0; i < job->stage.n && step >= job->stage.at[i].first; i++)
        s = job->stage.at[i];
    return s.samples + (int64_t)(step - s.first) * s.batch;
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

static GanStatus module_of(const Job *job, const JobStage *s, const Console *c, Arena *perm,
                           Module *out) {
    Front f;
    front_init(&f, perm);
    CompileOptions o = compile_options(job, s);
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
    TRY(module_of(job, NULL, c, perm, &m));
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
    TRY(module_of(job, job_now(job), NULL, perm, &m));
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
                "says %.*s; a new run begins with its weights by --from RUN",
                SARG(job->model), SARG(hash), SARG(job->hash));
}

GanStatus job_resolved(const Job *job, Arena *perm, Str *out) {
    CompileOptions o = compile_options(job, NULL);
    return compile_resolved(perm, &o, out);
}
