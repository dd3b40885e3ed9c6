// train_stages.c - the stages of a run: selects the next one, initializes it, and checks in advance
// that later ones can be trained.
#include "train.h"
#include "weights.h"

// --- where a run goes on -------------------------------------------------------------------------

// A run that is asked for fewer steps than it has done stays as it is: they are in its log, and its
// stages were what they were. What a damaged checkpoint had done is lost.
static GanStatus keep_done(Train *t) {
    CheckpointSteps steps = {0};
    Job *job = t->job;
    Str hash;
    uint32_t done = 0;
    if (ranks_first(t->comm)) {
        TRY(checkpoint_steps(t->perm, t->dir, &steps));
        if (steps.n && steps.at[steps.n - 1] > job->steps)
            TRY(checkpoint_newest(t->perm, t->dir, &done));
        done = done == NONE ? 0 : done;
    }
    TRY(comm_bcast(t->comm, &done, sizeof done, 0));
    t->past = done > job->steps;
    if (!t->past)
        return GAN_OK;
    job->steps = done;
    job->kimg = 0;
    return job_hash(job, &t->host->console, t->perm, &hash);
}

GanStatus stage_choose(Train *t, bool resume) {
    uint32_t step = NONE;
    if (resume)
        TRY(keep_done(t));
    if (resume && t->job->stage.n > 1 && ranks_first(t->comm))
        TRY(checkpoint_newest(t->perm, t->dir, &step));
    TRY(comm_bcast(t->comm, &step, sizeof step, 0));
    t->step = step == NONE ? 0 : step;
    return job_stage(t->job, t->perm, t->step, true);
}

void stage_tell(const Train *t) {
    Arena scratch = *t->perm;
    const JobStage *now = job_now(t->job);
    Str stage = job_stage_text(t->job, &scratch);
    if (stage.len)
        say(&t->host->console, "%.*s: steps %u to %u", SARG(stage), now->first + 1, now->last);
}

bool stage_begins(const Train *t) {
    return t->job->now && t->step == job_now(t->job)->first;
}

GanStatus stage_begin(Train *t, const Checkpoint *want, Checkpoint *at) {
    const Job *job = t->job;
    uint32_t taken; // a stage may train what no other has
    Str *left = arena_array(t->perm, Str, job->now);
    for (uint32_t i = 0; i < job->now; i++)
        left[i] = run_file(t->perm, t->dir, STR("ckpt"), job->stage.at[i].last, "safetensors");
    *at = *want;
    at->step = t->step = job_now(job)->first;
    weights_forget(t->job);
    TRY(exec_init(t->session.exec, job_seed(t->job)));
    if (ranks_first(t->comm)) {
        TRY(weights_pretrained(t->perm, t->job, t->session.exec, true));
        TRY(weights_take(t->perm, left, job->now, t->session.exec, &t->host->console, &taken));
    }
    return checkpoint_share(t->session.exec, t->comm);
}

// --- later stages --------------------------------------------------------------------------------

// Its share of a rank; its plans, within --memory; its data, of the shapes it reads; weights of its
// pretrained nets.
static GanStatus check_later(const Train *t, Arena *a, Job *job) {
    Parallel p;
    Front f;
    Compiled c;
    Feed *feed;
    TRY(ranks_parallel(t->comm, job_batch(job), &job->split, t->link, &p));
    SessionOptions so = job_session(job, &t->host->device, &p);
    so.api = t->session.api;
    CompileOptions o = session_compile(&so);
    front_init(&f, a);
    GanStatus st = compile_file(&f, &o, &c);
    show_diagnostics(a, &f, &t->host->console);
    TRY(st);
    TRY(feed_open(a, &c.module, &(FeedOptions){.job = job}, &feed));
    feed_close(feed);
    TRY(ranks_first(t->comm) ? weights_fit(a, job, &c.module) : GAN_OK);
    Str name = job_stage_text(job, a);
    say(&t->host->console, "%.*s: %u steps, %s", SARG(name),
        job_now(job)->last - job_now(job)->first,
        size_text(compiled_bytes(&c, o.dialect == &dialect_cuda)).z);
    return GAN_OK;
}

GanStatus stages_check(const Train *t) {
    for (uint32_t i = t->job->now + 1; i < t->job->stage.n; i++) {
        Arena a;
        Job job = *t->job;
        job.now = i;
        if (job_now(&job)->first == job_now(&job)->last)
            continue; // left out by --steps
        TRY(arena_init(&a, 0));
        GanStatus st = check_later(t, &a, &job);
        arena_release(&a);
        if (st != GAN_OK)
            return gan_error()[0] ? fail_in(st, "stage %u of %u", i + 1, job.stage.n) : st;
    }
    return GAN_OK;
}
