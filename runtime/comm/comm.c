// comm.c - a rank's communicator: two queues of tasks, each in the order they were started.
//
// In: jobs, in the same order on every rank. Out: their data, reduced or gathered, and statistics.
// The first queue belongs to the progress thread, which carries out large jobs and control while
// the caller computes. Small jobs have the second, so that they do not wait behind a bucket of
// gradients. The caller carries them out itself: it sends its data when the job is started and
// receives the others' when it waits, so no thread is woken. The queue follows from the job, so
// each has the same order on every rank. Before every task all ranks compare a fingerprint, the
// hash of what they are about to do: ranks that disagree fail with a message instead of mixing
// bytes, and a rank that ends says so.
//
// Invariants: a task is free, queued or running; the data of a queued one is only read. A failure
// is permanent, with its first reason. The lock guards what both threads see; each queue's calls of
// the link come from one thread at a time.
#include "comm_internal.h"

#include <string.h>

int comm_rank(const Comm *c) {
    return c ? c->rank : 0;
}
int comm_size(const Comm *c) {
    return c ? c->size : 1;
}

int comm_nodes(const Comm *c) {
    return c ? c->nodes : 0;
}

// Under the lock.
static GanStatus health(const Comm *c) {
    return c->code == GAN_OK ? GAN_OK : fail(c->code, "%s", c->why);
}

GanStatus comm_health(Comm *c) {
    pthread_mutex_lock(&c->lock);
    GanStatus st = health(c);
    pthread_mutex_unlock(&c->lock);
    return st;
}

const CommOptions *comm_options(const Comm *c) {
    return &c->o;
}

bool comm_talks(const Comm *c) {
    return c && !c->o.null && !c->muted && c->api->talks;
}

size_t comm_compressed(const Comm *c) {
    return c->compress_least;
}

static uint32_t queue_of(const CommJob *j) {
    return job_is_eager(j) ? SMALL : LARGE;
}

// Under the lock, until task `at` is done. The link keeps the deadline; the caller only notices
// where the progress thread does not return from the transport at all. A job of its own queue the
// caller carries out, with what is queued up to it. Ranks with one sample more may wait in another
// order: where others need this one for a small sum that it has started, it takes part in that
// before it sleeps.
static GanStatus wait_done(Comm *c, uint32_t at) {
    const Queue *l = &c->queue[LARGE];
    atomic_store(&c->link->awaited, c->task[at].handshake.queue == LARGE);
    while (c->code == GAN_OK && c->task[at].state != TaskFree) {
        double now = time_now();
        if (c->task[at].handshake.queue == SMALL || (c->two_level && c->queue[SMALL].head))
            queue_run(c, SMALL);
        else if (c->o.deadline > 0 && l->running && now > l->since + c->o.deadline + HANG_SECONDS)
            comm_fail(c, task_explain(&c->task[l->running],
                                      fail(GAN_ERR_DEVICE, "past the deadline, %s does not return",
                                           c->api->name)));
        else
            comm_wait_until(c, &c->changed, now + 0.5);
    }
    atomic_store(&c->link->awaited, false);
    return health(c);
}

static GanStatus task_need(Comm *c, uint32_t at) {
    if (at < c->tasks)
        return GAN_OK;
    uint32_t n = at + 1 + at / 2;
    Task *grown = mem_realloc(c->task, n * sizeof *grown);
    if (!grown)
        return fail(GAN_ERR_MEMORY, "no memory for %u collectives", n);
    memset(grown + c->tasks, 0, (n - c->tasks) * sizeof *grown);
    c->task = grown;
    c->tasks = n;
    return GAN_OK;
}

static void keep_event(Comm *c, const CommEvent *e) {
    if (c->event.n == c->event.cap) {
        uint32_t cap = c->event.cap ? 2 * c->event.cap : 256;
        CommEvent *grown = mem_realloc(c->event.at, cap * sizeof *grown);
        if (!grown)
            return; // a trace with a hole is better than a run that ends
        c->event.at = grown;
        c->event.cap = cap;
    }
    c->event.at[c->event.n++] = *e;
}

// Under the lock: the caller waits for `at`, which is over then.
static GanStatus waited(Comm *c, uint32_t at) {
    double came = time_now();
    GanStatus st = wait_done(c, at);
    CommEvent *e = &c->task[at].event;
    if (st != GAN_OK || !(e->ready > 0))
        return st;
    e->wait = came;
    e->go = time_now();
    c->stats.exposed += e->go - e->wait;
    if (c->trace)
        keep_event(c, e);
    e->ready = 0; // a second wait is none
    return st;
}

GanStatus comm_start(Comm *c, const CommJob *job) {
    if (!comm_talks(c))
        return GAN_OK;
    uint32_t at = FIRST_JOB + job->id;
    pthread_mutex_lock(&c->lock);
    GanStatus st = health(c);
    if (st == GAN_OK)
        st = task_need(c, at);
    if (st == GAN_OK && c->task[at].state != TaskFree)
        bug("comm: collective %u (%s) is started twice", job->id, job->what);
    if (st == GAN_OK) {
        c->task[at].kind = TaskJob;
        c->task[at].job = *job;
        if (c->compress_least && job->kind == CommSum && job->dtype == DtF32 &&
            job->n * sizeof(float) >= c->compress_least)
            c->task[at].job.wire = DtBF16;
        if (!job->what)
            c->task[at].job.what = "a collective";
        c->task[at].event = (CommEvent){.id = job->id,
                                        .step = job->step,
                                        .what = c->task[at].job.what,
                                        .bytes = job_bytes(&c->task[at].job),
                                        .ready = time_now()};
        queue_add(c, at, queue_of(&c->task[at].job));
    }
    bool large = st == GAN_OK && c->task[at].handshake.queue == LARGE;
    pthread_mutex_unlock(&c->lock);
    if (large) // not before: the thread may take this core at once, and would wait for the lock
        pthread_cond_signal(&c->work);
    return st == GAN_OK && c->o.wait ? comm_wait(c, job->id) : st;
}

GanStatus comm_wait(Comm *c, uint32_t id) {
    uint32_t at = FIRST_JOB + id;
    if (!comm_talks(c))
        return GAN_OK;
    pthread_mutex_lock(&c->lock);
    GanStatus st = at < c->tasks ? waited(c, at) : health(c);
    pthread_mutex_unlock(&c->lock);
    return st;
}

void comm_compress(Comm *c, size_t least) {
    if (c)
        c->compress_least = least;
}

void comm_set_cores(Comm *c, CommCores cores) {
    if (!c)
        return;
    pthread_mutex_lock(&c->lock);
    c->link->cores = cores;
    pthread_mutex_unlock(&c->lock);
}

CommCores comm_cores(const Comm *c) {
    return c ? c->link->cores : CoresOversubscribed;
}

void comm_mute(Comm *c, bool muted) {
    if (c)
        c->muted = muted;
}

void comm_reset_feedback(Comm *c) {
    if (!c)
        return;
    pthread_mutex_lock(&c->lock);
    for (uint32_t i = 0; i < c->feedbacks; i++)
        if (c->feedback[i].at)
            memset(c->feedback[i].at, 0, c->feedback[i].n * sizeof *c->feedback[i].at);
    pthread_mutex_unlock(&c->lock);
}

// --- control -------------------------------------------------------------------------------------

static GanStatus control(Comm *c, const Task *what) {
    pthread_mutex_lock(&c->lock);
    GanStatus st = health(c);
    if (st == GAN_OK) {
        c->task[CONTROL] = *what;
        queue_add(c, CONTROL, LARGE);
        pthread_cond_signal(&c->work);
        st = wait_done(c, CONTROL);
    }
    pthread_mutex_unlock(&c->lock);
    return st;
}

GanStatus comm_barrier(Comm *c) {
    return c ? control(c, &(Task){.kind = TaskBarrier}) : GAN_OK;
}

GanStatus comm_bcast(Comm *c, void *data, size_t bytes, int root) {
    return c ? control(c, &(Task){.kind = TaskBcast, .data = data, .bytes = bytes, .root = root})
             : GAN_OK;
}

GanStatus comm_gather(Comm *c, const void *mine, size_t bytes, void *all) {
    memcpy((char *)all + (size_t)comm_rank(c) * bytes, mine, bytes);
    return c ? control(c, &(Task){.kind = TaskAllGather, .data = all, .bytes = bytes}) : GAN_OK;
}

GanStatus comm_any(Comm *c, bool mine, bool *any) {
    *any = mine;
    if (!c)
        return GAN_OK;
    char yes = mine, *all = mem_alloc((size_t)c->size);
    if (!all)
        return fail(GAN_ERR_MEMORY, "no memory to ask %d ranks", c->size);
    GanStatus st = comm_gather(c, &yes, 1, all);
    for (int r = 0; st == GAN_OK && r < c->size; r++)
        *any |= all[r] != 0;
    mem_free(all);
    return st;
}

// --- what it cost --------------------------------------------------------------------------------

CommStats comm_stats(Comm *c) {
    if (!c)
        return (CommStats){0};
    pthread_mutex_lock(&c->lock);
    CommStats s = c->stats;
    pthread_mutex_unlock(&c->lock);
    return s;
}

void comm_stats_clear(Comm *c) {
    if (!c)
        return;
    pthread_mutex_lock(&c->lock);
    c->stats = (CommStats){0};
    pthread_mutex_unlock(&c->lock);
}

void comm_trace(Comm *c, bool on) {
    if (c)
        c->trace = on;
}

uint32_t comm_events(const Comm *c, const CommEvent **out) {
    *out = c ? c->event.at : NULL;
    return c ? c->event.n : 0;
}

void comm_events_clear(Comm *c) {
    if (c)
        c->event.n = 0;
}
