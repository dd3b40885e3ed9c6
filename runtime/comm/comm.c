// comm.c - a rank's communicator: lanes, each a queue of tasks and the thread that carries them
// out.
//
// In: jobs, in the same order on every rank. Out: their data, reduced or gathered, and what that
// cost. The caller's thread and the lanes' share one lock; each link belongs to its lane alone.
// Where the link can be had twice, sums of few bytes have a lane of their own: somebody waits for
// them, and behind a bucket of gradients they would wait for that too. All else, and control, is in
// the first lane. Which lane a job takes follows from the job, so every lane has the same order on
// every rank. Before every task all ranks meet and show a tag made of what they are about to do, so
// that ranks that disagree fail with a sentence instead of mixing bytes, and one that ends says so.
//
// Invariants: a task is free, queued or running; its data is touched only while running. A
// communicator that broke stays so, with its first reason.
#define _GNU_SOURCE
#include "link.h"

#include <pthread.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

typedef enum TaskKind { TaskJob, TaskBarrier, TaskBcast, TaskAllGather, TaskLeave } TaskKind;
typedef enum TaskState { TaskFree, TaskQueued, TaskRunning } TaskState;

typedef struct Task {
    TaskKind kind;
    TaskState state;
    CommJob job;   // TaskJob
    void *data;    // control
    size_t bytes;  // control: of one rank
    int root;      // TaskBcast
    GanStatus why; // TaskLeave
    uint32_t next; // in the queue, 0 none
    uint32_t lane;
    CommEvent event;
} Task;

typedef struct Kept { // what rounding to a narrower wire has lost so far
    float *at;        // [n], owned
    size_t n;
} Kept;

enum { LANES = 2 };
enum { CONTROL = 1, FIRST_JOB = CONTROL + LANES }; // places in Comm.task; 0 is none
enum { PATIENCE = 5 }; // seconds for the others to come, once this rank must end

typedef struct Lane {
    Comm *comm; // borrowed
    Link *link; // the thread's
    pthread_t thread;
    pthread_cond_t work;          // something to do
    uint32_t head, tail, running; // places in Comm.task: the queue; what runs, or ran last
    double busy_since;            // when the running task began, 0: idle
    bool moving;                  // all have come to it: its bytes are under way
    Meeting last;
    bool all_left; // said TaskLeave, met nothing but the like
    bool apart;    // all met, and were not about to do the same: they know of each other
    bool gone;     // the thread's last deed is done
} Lane;

struct Comm {
    const LinkApi *api;
    void *arg; // borrowed while opening
    CommOptions o;
    int rank, size, nodes; // of the link, known once it is open
    Lane lane[LANES];
    uint32_t lanes;         // of them there are
    pthread_mutex_t lock;   // guards all below, and what lanes have but their links
    pthread_cond_t changed; // something was done
    Task *task;             // [tasks], owned: control of each lane, then jobs by id
    uint32_t tasks;
    bool opened, closing;
    GanStatus code; // GAN_OK until broken
    char why[512];
    bool left;           // comm_leave
    bool muted;          // the caller's: comm_mute
    size_t narrow_least; // bytes of an f32 sum that travels as bf16; 0: none
    CommStats stats;
    VEC(CommEvent) event; // owned, through mem_realloc
    // The first lane's own:
    Kept *kept; // [kepts] by id, owned
    uint32_t kepts;
    uint16_t *narrow; // owned; grows
    size_t narrow_n;
};

int comm_rank(const Comm *c) {
    return c ? c->rank : 0;
}
int comm_size(const Comm *c) {
    return c ? c->size : 1;
}

int comm_nodes(const Comm *c) {
    return c ? c->nodes : 0;
}

int64_t comm_share(int64_t n, int rank, int size, int64_t *first) {
    *first = n * rank / size;
    return n * (rank + 1) / size - *first;
}

// --- time ----------------------------------------------------------------------------------------

static struct timespec clock_at(double t) {
    return (struct timespec){.tv_sec = (time_t)t, .tv_nsec = (long)((t - (double)(time_t)t) * 1e9)};
}

static void sleep_until(double t) {
    struct timespec at = clock_at(t);
    while (time_now() < t)
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL);
}

// Under the lock.
static void wait_until(Comm *c, pthread_cond_t *cond, double t) {
    struct timespec at = clock_at(t);
    pthread_cond_timedwait(cond, &c->lock, &at);
}

// --- a task, on the communicator's thread --------------------------------------------------

static size_t job_bytes(const CommJob *j) {
    return j->n * dtype_size[j->kind == CommGather ? j->dtype : j->wire];
}

// Equal tasks have equal tags; a rank that leaves has the greatest of all.
static uint64_t task_tag(const Task *task) {
    if (task->kind == TaskLeave)
        return UINT64_MAX - (uint64_t)GAN_STOPPED + (uint64_t)task->why;
    uint64_t what[] = {task->kind,   task->bytes,    (uint64_t)task->root,
                       task->job.id, task->job.kind, task->job.dtype,
                       task->job.n,  task->job.wire, task->job.unit};
    return hash64(what, sizeof what, 0) >> 1;
}

static GanStatus tags_agree(const Task *task, const uint64_t tags[2]) {
    if (tags[0] == tags[1])
        return GAN_OK;
    if (tags[1] > UINT64_MAX >> 1)
        return fail(GAN_ERR_DEVICE, "another rank ended");
    return fail(GAN_ERR_BUG, "the ranks are not at the same place of the same plan (%s)",
                task->kind == TaskJob ? "a collective" : "a control message");
}

static GanStatus kept_need(Comm *c, const CommJob *j) {
    if (j->id >= c->kepts) {
        Kept *grown = mem_realloc(c->kept, (j->id + 1) * sizeof *grown);
        if (!grown)
            return fail(GAN_ERR_MEMORY, "no memory for what rounding keeps");
        memset(grown + c->kepts, 0, (j->id + 1 - c->kepts) * sizeof *grown);
        c->kept = grown;
        c->kepts = j->id + 1;
    }
    Kept *k = &c->kept[j->id];
    if (k->n != j->n) {
        mem_free(k->at);
        *k = (Kept){mem_alloc(j->n * sizeof *k->at), j->n};
    }
    if (j->n > c->narrow_n) {
        mem_free(c->narrow);
        c->narrow = mem_alloc(j->n * sizeof *c->narrow);
        c->narrow_n = c->narrow ? j->n : 0;
    }
    if (k->at && c->narrow)
        return GAN_OK;
    k->n = k->at ? k->n : 0;
    return fail(GAN_ERR_MEMORY, "no memory for what rounding keeps");
}

// Error feedback: what rounding takes from this sum, of a part or of the result, is added to the
// next one of the same id, so that nothing is lost for good (Seide et al. 2014, "1-bit stochastic
// gradient descent").
static GanStatus reduce_narrow(Comm *c, const CommJob *j) {
    TRY(kept_need(c, j));
    float *x = j->data, *kept = j->kind == CommMax ? NULL : c->kept[j->id].at;
    for (size_t i = 0; kept && i < j->n; i++) {
        x[i] += kept[i];
        kept[i] = 0;
    }
    floats_narrow(x, c->narrow, j->n, kept);
    TRY(c->api->reduce(c->lane[0].link, j->kind, DtBF16, c->narrow, j->n, kept));
    floats_widen(c->narrow, x, j->n);
    return GAN_OK;
}

static GanStatus gather_shares(const Lane *l, void *data, int64_t samples, size_t sample_bytes) {
    int size = l->comm->size;
    size_t *from = mem_alloc(((size_t)size + 1) * sizeof *from);
    if (!from)
        return fail(GAN_ERR_MEMORY, "no memory to gather");
    for (int r = 0; r <= size; r++)
        from[r] = (size_t)(samples * r / size) * sample_bytes;
    GanStatus st = l->comm->api->gather(l->link, data, from);
    mem_free(from);
    return st;
}

static GanStatus carry_out(Lane *l, const Task *task) {
    Comm *c = l->comm;
    const CommJob *j = &task->job;
    switch (task->kind) {
    case TaskJob:
        if (j->kind == CommGather)
            return gather_shares(l, j->data, (int64_t)(j->n / j->unit),
                                 j->unit * dtype_size[j->dtype]);
        if (j->wire != j->dtype)
            return reduce_narrow(c, j);
        return c->api->reduce(l->link, j->kind, j->dtype, j->data, j->n, NULL);
    case TaskBcast:
        return c->api->bcast(l->link, task->data, task->bytes, task->root);
    case TaskAllGather:
        return gather_shares(l, task->data, c->size, task->bytes);
    case TaskBarrier:
    case TaskLeave:
        return GAN_OK;
    }
    return GAN_OK;
}

// In front of the link's own words: what this rank was doing.
static GanStatus explain(const Task *task, GanStatus st) {
    if (task->kind != TaskJob)
        return fail_in(st, "between collectives");
    return fail_in(st, "step %u, %s", task->job.step, task->job.what);
}

static void set_moving(Lane *l, bool moving) {
    pthread_mutex_lock(&l->comm->lock);
    l->moving = moving;
    pthread_mutex_unlock(&l->comm->lock);
}

static void set_apart(Lane *l, bool apart, bool leaving) {
    pthread_mutex_lock(&l->comm->lock);
    l->apart = apart;
    l->all_left = leaving && !apart;
    pthread_mutex_unlock(&l->comm->lock);
}

static GanStatus run_task(Lane *l, Task *task) {
    const Comm *c = l->comm;
    uint64_t tags[2];
    task->event.start = time_now();
    GanStatus st = c->api->meet(l->link, &l->last, tags);
    if (st == GAN_OK)
        set_apart(l, tags[0] != tags[1], task->kind == TaskLeave);
    if (st == GAN_OK && task->kind != TaskLeave)
        st = tags_agree(task, tags);
    set_moving(l, st == GAN_OK);
    if (st == GAN_OK)
        st = carry_out(l, task);
    set_moving(l, false);
    if (st == GAN_OK && task->kind == TaskJob && (c->o.wire_us > 0 || c->o.wire_gbit > 0))
        sleep_until(task->event.start + c->o.wire_us * 1e-6 +
                    (c->o.wire_gbit > 0 ? 8e-9 * (double)task->event.bytes / c->o.wire_gbit : 0));
    task->event.end = time_now();
    return st == GAN_OK ? st : explain(task, st);
}

// --- the thread ----------------------------------------------------------------------------------

// Under the lock: takes this thread's message.
static void broke(Comm *c, GanStatus st) {
    if (c->code != GAN_OK)
        return;
    c->code = st;
    snprintf(c->why, sizeof c->why, "%s", gan_error());
    for (uint32_t i = 0; i < c->lanes; i++)
        pthread_cond_signal(&c->lane[i].work);
}

static void run_next(Lane *l) {
    Comm *c = l->comm;
    uint32_t at = l->head;
    Task task = c->task[at];
    l->head = task.next;
    if (!l->head)
        l->tail = 0;
    c->task[at].state = TaskRunning;
    l->running = at;
    l->last.turn++;
    l->last.tag = task_tag(&task);
    l->last.step = task.kind == TaskJob ? task.job.step : l->last.step;
    l->busy_since = time_now();
    l->last.until = c->o.deadline > 0 ? l->busy_since + c->o.deadline : 0;
    pthread_mutex_unlock(&c->lock);
    GanStatus st = run_task(l, &task);
    pthread_mutex_lock(&c->lock);
    if (st != GAN_OK)
        broke(c, st);
    l->busy_since = 0;
    c->task[at].state = TaskFree;
    c->task[at].event = task.event;
    if (task.kind == TaskJob) {
        c->stats.busy += task.event.end - task.event.start;
        c->stats.jobs++;
        c->stats.bytes += task.event.bytes;
    }
    pthread_cond_broadcast(&c->changed);
}

static void serve(Lane *l) {
    Comm *c = l->comm;
    while (c->code == GAN_OK && !(c->closing && !l->head)) {
        if (l->head) {
            run_next(l);
            continue;
        }
        wait_until(c, &l->work, time_now() + 0.1);
        if (!l->head && c->api->idle && !c->closing) {
            Meeting last = l->last;
            pthread_mutex_unlock(&c->lock);
            c->api->idle(l->link, &last);
            pthread_mutex_lock(&c->lock);
        }
    }
}

static bool any_apart(const Comm *c) {
    return c->lane[0].apart || c->lane[1].apart;
}

// Under the lock: meets the others once more, in no task.
static void meet_last(Lane *l) {
    Comm *c = l->comm;
    uint64_t tags[2];
    Meeting m = l->last;
    m.turn = ++l->last.turn;
    m.tag = UINT64_MAX;
    m.until = time_now() + PATIENCE;
    pthread_mutex_unlock(&c->lock);
    c->api->meet(l->link, &m, tags);
    pthread_mutex_lock(&c->lock);
}

// Under the lock: the ranks came apart. Those that wait in this lane learn it here where they did
// not in another. The others are told when this rank has said why it ends, and it stays until they
// have.
static void part(Lane *l) {
    Comm *c = l->comm;
    if (!l->apart)
        meet_last(l);
    l->apart = true;
    while (!c->closing)
        pthread_cond_wait(&l->work, &c->lock);
    meet_last(l);
}

// Under the lock: a lane from its first task to its end. The first lane's link is the last to go.
static void run_lane(Lane *l) {
    Comm *c = l->comm;
    prctl(PR_SET_TIMERSLACK, 1UL); // 50 us otherwise, as much as a small sum takes
    serve(l);
    if (any_apart(c))
        part(l);
    for (uint32_t i = 1; l == c->lane && i < c->lanes; i++)
        while (!c->lane[i].gone)
            pthread_cond_wait(&c->changed, &c->lock);
    bool orderly = c->code == GAN_OK && (!c->left || l->all_left);
    pthread_mutex_unlock(&c->lock);
    c->api->close(l->link, orderly);
    pthread_mutex_lock(&c->lock);
    l->gone = true;
    pthread_cond_broadcast(&c->changed);
}

static void *lane_main(void *arg) {
    Lane *l = arg;
    pthread_mutex_lock(&l->comm->lock);
    run_lane(l);
    pthread_mutex_unlock(&l->comm->lock);
    return NULL;
}

static GanStatus open_links(Comm *c) {
    TRY(c->api->open(c->arg, &c->lane[0].link));
    return c->api->second ? c->api->second(c->lane[0].link, &c->lane[1].link) : GAN_OK;
}

// The first lane's: it opens all links, and starts the other lane.
static void *comm_main(void *arg) {
    Comm *c = arg;
    GanStatus st = open_links(c);
    pthread_mutex_lock(&c->lock);
    if (st == GAN_OK && c->lane[1].link) {
        c->lanes = LANES;
        if (pthread_create(&c->lane[1].thread, NULL, lane_main, &c->lane[1]) != 0) {
            c->lanes = 1;
            c->api->close(c->lane[1].link, false);
            st = fail(GAN_ERR_DEVICE, "no second thread for a communicator");
        }
    }
    if (st != GAN_OK) {
        broke(c, st);
    } else {
        c->rank = c->lane[0].link->rank;
        c->size = c->lane[0].link->size;
        c->nodes = c->lane[0].link->nodes;
    }
    c->opened = true;
    pthread_cond_broadcast(&c->changed);
    run_lane(&c->lane[0]);
    pthread_mutex_unlock(&c->lock);
    return NULL;
}

// --- the caller's side ---------------------------------------------------------------------------

static void comm_free(Comm *c) {
    for (uint32_t i = 0; i < c->kepts; i++)
        mem_free(c->kept[i].at);
    mem_free(c->kept);
    mem_free(c->narrow);
    mem_free(c->event.at);
    mem_free(c->task);
    for (int i = 0; i < LANES; i++)
        pthread_cond_destroy(&c->lane[i].work);
    pthread_cond_destroy(&c->changed);
    pthread_mutex_destroy(&c->lock);
    mem_free(c);
}

static void init_sync(Comm *c) {
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_mutex_init(&c->lock, NULL);
    for (int i = 0; i < LANES; i++) {
        c->lane[i].comm = c;
        pthread_cond_init(&c->lane[i].work, &attr);
    }
    pthread_cond_init(&c->changed, &attr);
    pthread_condattr_destroy(&attr);
}

GanStatus comm_open(const LinkApi *link, void *arg, const CommOptions *o, Comm **out) {
    *out = NULL;
    Comm *c = mem_alloc(sizeof *c);
    Task *task = mem_alloc(FIRST_JOB * sizeof *task);
    if (!c || !task) {
        mem_free(c);
        mem_free(task);
        return fail(GAN_ERR_MEMORY, "no memory for a communicator");
    }
    *c = (Comm){.api = link, .arg = arg, .o = *o, .task = task, .tasks = FIRST_JOB, .lanes = 1};
    init_sync(c);
    if (pthread_create(&c->lane[0].thread, NULL, comm_main, c) != 0) {
        comm_free(c);
        return fail(GAN_ERR_DEVICE, "no thread for a communicator");
    }
    double until = time_now() + o->deadline;
    pthread_mutex_lock(&c->lock);
    while (!c->opened && (o->deadline <= 0 || time_now() < until))
        wait_until(c, &c->changed, o->deadline > 0 ? until : time_now() + 60);
    bool opened = c->opened;
    GanStatus st = c->code;
    pthread_mutex_unlock(&c->lock);
    if (!opened) { // its thread is caught inside the link, and uses what it has
        pthread_detach(c->lane[0].thread);
        return fail(GAN_ERR_DEVICE,
                    "the ranks did not come together within %g s: one was not started, ended, or "
                    "is stopped",
                    o->deadline);
    }
    if (st == GAN_OK) {
        *out = c;
        return GAN_OK;
    }
    fail(st, "%s", c->why);
    pthread_join(c->lane[0].thread, NULL);
    comm_free(c);
    return st;
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

static void enqueue(Comm *c, uint32_t at, uint32_t lane) {
    Lane *l = &c->lane[lane];
    c->task[at].state = TaskQueued;
    c->task[at].next = 0;
    c->task[at].lane = lane;
    if (l->tail)
        c->task[l->tail].next = at;
    else
        l->head = at;
    l->tail = at;
    pthread_cond_signal(&l->work);
}

static uint32_t lane_of(const Comm *c, const CommJob *j) {
    return c->lanes > 1 && j->kind != CommGather && j->wire == j->dtype &&
           job_bytes(j) <= COMM_SMALL;
}

// Under the lock: the running task's time is over, and its bytes are under way for as long.
static void give_up(Lane *l, double seconds) {
    Comm *c = l->comm;
    Meeting m = l->last;
    Task task = c->task[l->running];
    pthread_mutex_unlock(&c->lock);
    GanStatus st = c->api->missing ? c->api->missing(l->link, &m, seconds)
                                   : fail(GAN_ERR_DEVICE, "the transfer does not end");
    explain(&task, st);
    pthread_mutex_lock(&c->lock);
    if (l->moving && l->last.turn == m.turn)
        broke(c, st);
}

// Waits, under the lock, until task `at` is done. While ranks meet, the link keeps the deadline;
// where its thread is caught inside a transfer only this one can.
static GanStatus wait_done(Comm *c, uint32_t at) {
    double ask = c->o.deadline / 4 < 1 ? c->o.deadline / 4 : 1; // seconds, within the deadline
    Lane *l = &c->lane[c->task[at].lane];
    while (c->code == GAN_OK && c->task[at].state != TaskFree) {
        double now = time_now();
        if (c->o.deadline > 0 && l->moving && now > l->busy_since + c->o.deadline - ask)
            give_up(l, ask);
        else
            wait_until(c, &c->changed, now + (ask > 0 && ask < 0.5 ? ask / 2 : 0.5));
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
        enqueue(c, at, lane_of(c, &c->task[at].job));
    }
    if (st == GAN_OK && c->o.wait) {
        double came = time_now();
        st = wait_done(c, at);
        c->stats.exposed += time_now() - came;
    }
    pthread_mutex_unlock(&c->lock);
    return st;
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

GanStatus comm_wait(Comm *c, uint32_t id) {
    uint32_t at = FIRST_JOB + id;
    if (!comm_talks(c))
        return GAN_OK;
    double came = time_now();
    pthread_mutex_lock(&c->lock);
    GanStatus st = at < c->tasks ? wait_done(c, at) : health(c);
    if (st == GAN_OK && at < c->tasks && c->task[at].event.ready > 0) {
        CommEvent *e = &c->task[at].event;
        e->wait = came;
        e->go = time_now();
        c->stats.exposed += e->go - e->wait;
        if (c->o.trace)
            keep_event(c, e);
        e->ready = 0; // a second wait is none
    }
    pthread_mutex_unlock(&c->lock);
    return st;
}

void comm_narrow(Comm *c, size_t least) {
    if (c)
        c->narrow_least = least;
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
        enqueue(c, CONTROL, 0);
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

// --- the end -------------------------------------------------------------------------------------

// Under the lock.
static bool all_gone(const Comm *c) {
    bool all = true;
    for (uint32_t i = 0; i < c->lanes; i++)
        all &= c->lane[i].gone;
    return all;
}

static void end_threads(Comm *c) {
    pthread_mutex_lock(&c->lock);
    c->closing = true;
    for (uint32_t i = 0; i < c->lanes; i++)
        pthread_cond_signal(&c->lane[i].work);
    // A thread that is caught inside the link cannot be ended: it is left behind with what it uses.
    double patience = c->code == GAN_OK ? 60 : any_apart(c) ? PATIENCE + 1 : 1;
    double until = time_now() + patience;
    while (!all_gone(c) && time_now() < until)
        wait_until(c, &c->changed, until);
    bool whole = all_gone(c);
    uint32_t lanes = c->lanes;
    pthread_t thread[LANES] = {c->lane[0].thread, c->lane[1].thread};
    pthread_mutex_unlock(&c->lock);
    for (uint32_t i = 0; i < lanes; i++) {
        if (whole)
            pthread_join(thread[i], NULL);
        else
            pthread_detach(thread[i]);
    }
    if (whole)
        comm_free(c);
}

void comm_close(Comm *c) {
    if (c)
        end_threads(c);
}

// In every lane, for the others may be waiting in any: once one has met somebody who goes on, all
// is said.
bool comm_leave(Comm *c, GanStatus why) {
    if (!c)
        return true;
    pthread_mutex_lock(&c->lock);
    c->o.deadline = c->o.deadline > 0 && c->o.deadline < PATIENCE ? c->o.deadline : PATIENCE;
    c->left = true;
    for (uint32_t i = 0; c->code == GAN_OK && i < c->lanes; i++) {
        c->task[CONTROL + i] = (Task){.kind = TaskLeave, .why = why};
        enqueue(c, CONTROL + i, i);
    }
    bool all = c->code == GAN_OK;
    double until = time_now() + 2 * PATIENCE; // a lane may be held in a transfer, which has no end
    for (uint32_t i = 0; i < c->lanes; i++) {
        while (c->code == GAN_OK && !any_apart(c) && c->task[CONTROL + i].state != TaskFree &&
               time_now() < until)
            wait_until(c, &c->changed, time_now() + 0.5);
        all &= c->lane[i].all_left;
    }
    pthread_mutex_unlock(&c->lock);
    return all;
}

void comm_part(Comm *c) {
    if (c)
        end_threads(c);
}

// --- what it cost --------------------------------------------------------------------------------

CommStats comm_stats(const Comm *c) {
    return c ? c->stats : (CommStats){0};
}

void comm_stats_clear(Comm *c) {
    if (!c)
        return;
    pthread_mutex_lock(&c->lock);
    c->stats = (CommStats){0};
    pthread_mutex_unlock(&c->lock);
}

uint32_t comm_events(const Comm *c, const CommEvent **out) {
    *out = c ? c->event.at : NULL;
    return c ? c->event.n : 0;
}

void comm_events_clear(Comm *c) {
    if (c)
        c->event.n = 0;
}
