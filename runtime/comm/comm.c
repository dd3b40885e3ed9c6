// comm.c - a rank's communicator: two lanes, each a queue of tasks in the order they were started.
//
// In: jobs, in the same order on every rank. Out: their data, reduced or gathered, and statistics.
// The first lane belongs to the progress thread, which carries out large jobs and control while the
// caller computes. Small jobs are in the second lane, so that they do not queue behind a bucket of
// gradients. The caller carries them out itself: it sends its data when the job is started and
// receives the others' when it waits, so no thread is woken. The lane follows from the job, so
// every lane has the same order on every rank; where the link allows one thread only, all jobs are
// in the first. Before every task all ranks compare a tag, the hash of what they are about to do:
// ranks that disagree fail with a message instead of mixing bytes, and a rank that ends says so.
//
// Invariants: a task is free, queued or running; the data of a queued one is only read. A failure
// is permanent, with its first reason. The lock guards what both threads see; each lane's calls of
// the link come from one thread at a time.
#include "comm_in.h"

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

size_t comm_narrowed(const Comm *c) {
    return c->narrow_least;
}

static uint32_t lane_of(const Comm *c, const CommJob *j) {
    return c->lanes > 1 && job_rides(j) ? SMALL : LARGE;
}

// Under the lock: the running task's time is over, and its bytes are under way for as long.
static void give_up(Comm *c, double seconds) {
    Lane *l = &c->lane[LARGE];
    Meeting m = l->last;
    Task task = c->task[l->running];
    pthread_mutex_unlock(&c->lock);
    GanStatus st = c->api->missing ? c->api->missing(c->link, &m, seconds)
                                   : fail(GAN_ERR_DEVICE, "the transfer does not end");
    task_explain(&task, st);
    pthread_mutex_lock(&c->lock);
    if (l->moving && l->last.turn == m.turn)
        comm_broke(c, st);
}

// Under the lock, until task `at` is done. In its own lane the caller does what is queued up to it.
// In the other the link keeps the deadline while ranks meet; where the thread is caught inside a
// transfer only this one can. Ranks with one sample more may wait in another order: where others
// need this one for a small sum that it has started, it takes part in that before it stands still.
static GanStatus wait_done(Comm *c, uint32_t at) {
    double ask = c->o.deadline / 4 < 1 ? c->o.deadline / 4 : 1; // seconds, within the deadline
    const Lane *l = &c->lane[LARGE];
    while (c->code == GAN_OK && c->task[at].state != TaskFree) {
        double now = time_now();
        if (c->task[at].meeting.lane == SMALL || (c->relays && c->lane[SMALL].head))
            lane_run(c, SMALL);
        else if (c->o.deadline > 0 && l->moving && now > l->busy_since + c->o.deadline - ask)
            give_up(c, ask);
        else
            comm_wait_until(c, &c->changed, now + (ask > 0 && ask < 0.5 ? ask / 2 : 0.5));
    }
    return health(c);
}

static GanStatus task_room(Comm *c, uint32_t at) {
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
        st = task_room(c, at);
    if (st == GAN_OK && c->task[at].state != TaskFree)
        bug("comm: collective %u (%s) is started twice", job->id, job->what);
    if (st == GAN_OK) {
        c->task[at].kind = TaskJob;
        c->task[at].job = *job;
        if (c->narrow_least && job->kind == CommSum && job->dtype == DtF32 &&
            job->n * sizeof(float) >= c->narrow_least)
            c->task[at].job.wire = DtBF16;
        if (!job->what)
            c->task[at].job.what = "a collective";
        c->task[at].event = (CommEvent){.id = job->id,
                                        .step = job->step,
                                        .what = c->task[at].job.what,
                                        .bytes = job_bytes(&c->task[at].job),
                                        .ready = time_now()};
        lane_enqueue(c, at, lane_of(c, &c->task[at].job));
    }
    if (st == GAN_OK && c->o.wait)
        st = waited(c, at);
    pthread_mutex_unlock(&c->lock);
    return st;
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

void comm_narrow(Comm *c, size_t least) {
    if (c)
        c->narrow_least = least;
}

void comm_room(Comm *c, CommRoom room) {
    if (!c)
        return;
    pthread_mutex_lock(&c->lock);
    c->link->room = room;
    pthread_mutex_unlock(&c->lock);
}

CommRoom comm_room_left(const Comm *c) {
    return c ? c->link->room : CommCrowded;
}

void comm_mute(Comm *c, bool muted) {
    if (c)
        c->muted = muted;
}

void comm_forget(Comm *c) {
    if (!c)
        return;
    pthread_mutex_lock(&c->lock);
    for (uint32_t i = 0; i < c->kepts; i++)
        if (c->kept[i].at)
            memset(c->kept[i].at, 0, c->kept[i].n * sizeof *c->kept[i].at);
    pthread_mutex_unlock(&c->lock);
}

// --- control -------------------------------------------------------------------------------------

static GanStatus control(Comm *c, const Task *what) {
    pthread_mutex_lock(&c->lock);
    GanStatus st = health(c);
    if (st == GAN_OK) {
        c->task[CONTROL] = *what;
        lane_enqueue(c, CONTROL, 0);
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
