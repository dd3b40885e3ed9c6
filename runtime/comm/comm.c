// comm.c - a rank's communicator: two lanes, each a queue of tasks in the order they were started.
//
// In: jobs, in the same order on every rank. Out: their data, reduced or gathered, and what that
// cost. The first lane has a thread, which carries out what is large, and control, while the caller
// computes. What is small the caller carries out itself, in the second lane: it says what it brings
// when the job is started, takes what the others have said when it waits, and nobody is woken.
// Behind a bucket of gradients small sums would wait for that too. Which lane a job takes follows
// from the job, so every lane has the same order on every rank; where two threads cannot use the
// link, all are in the first. In front of every task all ranks meet and show a tag made of what
// they are about to do, so that ranks that disagree fail with a sentence instead of mixing bytes,
// and one that ends says so.
//
// Invariants: a task is free, queued or running; the data of a queued one is only read. A
// communicator that broke stays so, with its first reason. The lock guards what both threads see;
// each lane's calls of the link come from one thread at a time.
#define _GNU_SOURCE
#include "link.h"

#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

typedef enum TaskKind { TaskJob, TaskBarrier, TaskBcast, TaskAllGather, TaskLeave } TaskKind;
typedef enum TaskState { TaskFree, TaskQueued, TaskRunning } TaskState;

typedef struct Task {
    TaskKind kind;
    TaskState state;
    CommJob job;     // TaskJob
    void *data;      // control
    size_t bytes;    // control: of one rank
    int root;        // TaskBcast
    GanStatus why;   // TaskLeave
    uint32_t next;   // in the queue, 0 none
    Meeting meeting; // in its lane
    double took;     // seconds the link was at it
    CommEvent event;
} Task;

typedef struct Kept { // what rounding to a narrower wire has lost so far
    float *at;        // [n], owned
    size_t n;
} Kept;

enum { LARGE, SMALL };                             // lanes: the thread's, the caller's
enum { CONTROL = 1, FIRST_JOB = CONTROL + LANES }; // places in Comm.task; 0 is none
enum { PATIENCE = 5 }; // seconds for the others to come, once this rank must end

typedef struct Lane {
    uint32_t head, tail, running; // places in Comm.task: the queue; what runs, or ran last
    double busy_since;            // when the running task began
    double free;                  // when its wire was last done
    bool moving;                  // all have come to it: its bytes are under way
    Meeting last;                 // that this rank has come to
    bool all_left;                // said TaskLeave, met nothing but the like
    bool apart; // all met, and were not about to do the same: they know of each other
} Lane;

struct Comm {
    const LinkApi *api;
    void *arg; // borrowed while opening
    CommOptions o;
    Link *link;
    int rank, size, nodes; // of the link, known once it is open
    uint32_t lanes;        // of them there are
    bool relays;           // Link.relays
    pthread_t thread;
    pthread_mutex_t lock;   // guards all below
    pthread_cond_t work;    // the thread has something to do
    pthread_cond_t changed; // it has done something
    Lane lane[LANES];
    Task *task; // [tasks], owned: control of each lane, then jobs by id
    uint32_t tasks;
    bool opened, closing, gone; // gone: the thread's last deed is done
    GanStatus code;             // GAN_OK until broken
    char why[512];
    bool left;           // comm_leave
    bool muted;          // the caller's: comm_mute
    bool trace;          // the caller's: comm_trace
    size_t narrow_least; // bytes of an f32 sum that travels as bf16; 0: none
    CommStats stats;
    VEC(CommEvent) event; // owned, through mem_realloc
    // The thread's own:
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

// The thread sleeps all of it: its core has others to serve. The caller's core is its own: it
// spins through the end of it, for to be woken takes as long as a small sum.
static void sleep_until(uint32_t lane, double t) {
    double asleep = lane == LARGE ? t : t - 100e-6;
    struct timespec at = clock_at(asleep);
    while (time_now() < asleep)
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL);
    while (time_now() < t)
        ;
}

// Under the lock.
static void wait_until(Comm *c, pthread_cond_t *cond, double t) {
    struct timespec at = clock_at(t);
    pthread_cond_timedwait(cond, &c->lock, &at);
}

// --- a task --------------------------------------------------------------------------------------

static size_t job_bytes(const CommJob *j) {
    return j->n * dtype_size[j->kind == CommGather ? j->dtype : j->wire];
}

// What travels with its meeting.
static bool rides(const CommJob *j) {
    return j->kind != CommGather && j->wire == j->dtype && j->dtype != DtBF16 &&
           job_bytes(j) <= COMM_SMALL;
}

// Equal tasks have equal tags, which are below all others; then come LAST_TAG and those of ranks
// that leave, each with its reason.
static const uint64_t LAST_TAG = (UINT64_MAX >> 1) + 1;

static uint64_t task_tag(const Task *task) {
    if (task->kind == TaskLeave)
        return UINT64_MAX - (uint64_t)GAN_STOPPED + (uint64_t)task->why;
    uint64_t what[] = {task->kind,   task->bytes,    (uint64_t)task->root,
                       task->job.id, task->job.kind, task->job.dtype,
                       task->job.n,  task->job.wire, task->job.unit};
    return hash64(what, sizeof what, 0) >> 1;
}

// Under the lock: this rank comes to it.
static void come_to(Comm *c, uint32_t lane, Task *task) {
    Meeting *m = &task->meeting;
    const CommJob *j = &task->job;
    *m = (Meeting){.lane = lane,
                   .turn = c->lane[lane].last.turn + 1,
                   .tag = task_tag(task),
                   .step = task->kind == TaskJob ? j->step : c->lane[lane].last.step};
    if (task->kind == TaskJob && rides(j)) {
        m->kind = j->kind;
        m->dtype = j->dtype;
        m->data = j->data;
        m->n = j->n;
    } else if (task->kind == TaskJob && j->kind != CommGather && j->wire == j->dtype) {
        m->moves = j->data;
    }
    c->lane[lane].last = *m;
}

static GanStatus tags_agree(const Task *task, const uint64_t tags[2]) {
    if (tags[0] == tags[1])
        return GAN_OK;
    if (tags[1] >= LAST_TAG)
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
    TRY(c->api->reduce(c->link, j->kind, DtBF16, c->narrow, j->n, kept));
    floats_widen(c->narrow, x, j->n);
    return GAN_OK;
}

static GanStatus gather_shares(const Comm *c, void *data, int64_t samples, size_t sample_bytes) {
    size_t *from = mem_alloc(((size_t)c->size + 1) * sizeof *from);
    if (!from)
        return fail(GAN_ERR_MEMORY, "no memory to gather");
    for (int r = 0; r <= c->size; r++)
        from[r] = (size_t)(samples * r / c->size) * sample_bytes;
    GanStatus st = c->api->gather(c->link, data, from);
    mem_free(from);
    return st;
}

// What did not travel with the meeting.
static GanStatus carry_out(Comm *c, const Task *task) {
    const CommJob *j = &task->job;
    switch (task->kind) {
    case TaskJob:
        if (j->kind == CommGather)
            return gather_shares(c, j->data, (int64_t)(j->n / j->unit),
                                 j->unit * dtype_size[j->dtype]);
        if (j->wire != j->dtype)
            return reduce_narrow(c, j);
        return c->api->reduce(c->link, j->kind, j->dtype, j->data, j->n, NULL);
    case TaskBcast:
        return c->api->bcast(c->link, task->data, task->bytes, task->root);
    case TaskAllGather:
        return gather_shares(c, task->data, c->size, task->bytes);
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

static void set_moving(Comm *c, bool moving) {
    pthread_mutex_lock(&c->lock);
    c->lane[LARGE].moving = moving;
    pthread_mutex_unlock(&c->lock);
}

static void set_apart(Comm *c, uint32_t lane, bool apart, bool leaving) {
    pthread_mutex_lock(&c->lock);
    c->lane[lane].apart = apart;
    c->lane[lane].all_left = leaving && !apart;
    pthread_mutex_unlock(&c->lock);
}

// Says that this rank has come to it.
static GanStatus post_task(const Comm *c, Task *task) {
    task->event.start = time_now();
    GanStatus st = c->api->post(c->link, &task->meeting);
    task->event.end = time_now();
    task->took = task->event.end - task->event.start;
    return st == GAN_OK ? st : explain(task, st);
}

// Until the wire model lets it end; `from`: when the lane's wire was free.
static void take_time(const Comm *c, Task *task, double from) {
    double takes = c->o.wire_us * 1e-6 +
                   (c->o.wire_gbit > 0 ? 8e-9 * (double)task->event.bytes / c->o.wire_gbit : 0);
    if (task->kind != TaskJob || takes <= 0)
        return;
    double due = fmax(task->event.start, from) + takes;
    sleep_until(task->meeting.lane, due);
    task->event.end = fmax(task->event.end, due);
    task->took = fmax(task->took, takes);
}

// Behind its post.
static GanStatus meet_and_carry(Comm *c, Task *task) {
    uint64_t tags[2];
    bool waited = false, rode = task->meeting.n > 0;
    double began = time_now();
    GanStatus st = c->api->meet(c->link, &task->meeting, tags, &waited);
    if (st == GAN_OK)
        set_apart(c, task->meeting.lane, tags[0] != tags[1], task->kind == TaskLeave);
    if (st == GAN_OK && task->kind != TaskLeave)
        st = tags_agree(task, tags);
    task->event.met = time_now();
    if (st == GAN_OK && !rode) {
        set_moving(c, true);
        st = carry_out(c, task);
        set_moving(c, false);
    }
    if (waited || !rode) { // else it was there before somebody looked
        task->event.end = time_now();
        task->took += task->event.end - began;
    }
    return st == GAN_OK ? st : explain(task, st);
}

// --- a lane --------------------------------------------------------------------------------------

// Under the lock: takes this thread's message.
static void broke(Comm *c, GanStatus st) {
    if (c->code != GAN_OK)
        return;
    c->code = st;
    snprintf(c->why, sizeof c->why, "%s", gan_error());
    pthread_cond_signal(&c->work);
    pthread_cond_broadcast(&c->changed);
}

// Under the lock: carries out the first in the queue, which the caller has posted where the lane is
// its own.
static void run_next(Comm *c, uint32_t lane) {
    Lane *l = &c->lane[lane];
    uint32_t at = l->head;
    c->task[at].state = TaskRunning;
    if (lane == LARGE)
        come_to(c, lane, &c->task[at]);
    Task task = c->task[at];
    l->head = task.next;
    if (!l->head)
        l->tail = 0;
    l->running = at;
    l->busy_since = time_now();
    task.meeting.until = c->o.deadline > 0 ? l->busy_since + c->o.deadline : 0;
    double from = l->free;
    pthread_mutex_unlock(&c->lock);
    GanStatus st = lane == LARGE ? post_task(c, &task) : GAN_OK;
    if (st == GAN_OK)
        st = meet_and_carry(c, &task);
    if (st == GAN_OK)
        take_time(c, &task, from);
    pthread_mutex_lock(&c->lock);
    if (st != GAN_OK)
        broke(c, st);
    task.event.start = task.event.end - task.took;
    l->free = task.event.end;
    c->task[at].state = TaskFree;
    c->task[at].event = task.event;
    if (task.kind == TaskJob) {
        c->stats.busy += task.took;
        c->stats.jobs++;
        c->stats.bytes += task.event.bytes;
    }
    pthread_cond_broadcast(&c->changed);
}

static bool any_apart(const Comm *c) {
    return c->lane[LARGE].apart || c->lane[SMALL].apart;
}

// Under the lock: meets the others once more, in no task.
static void meet_last(Comm *c, uint32_t lane) {
    uint64_t tags[2];
    bool waited;
    Meeting m = {.lane = lane,
                 .step = c->lane[lane].last.step,
                 .turn = ++c->lane[lane].last.turn,
                 .tag = LAST_TAG,
                 .until = time_now() + PATIENCE};
    c->lane[lane].apart = true;
    pthread_mutex_unlock(&c->lock);
    if (c->api->post(c->link, &m) == GAN_OK)
        c->api->meet(c->link, &m, tags, &waited);
    pthread_mutex_lock(&c->lock);
}

// --- the thread, which has the first lane --------------------------------------------------------

static void serve(Comm *c) {
    Lane *l = &c->lane[LARGE];
    while (c->code == GAN_OK && !(c->closing && !l->head)) {
        if (l->head) {
            run_next(c, LARGE);
            continue;
        }
        wait_until(c, &c->work, time_now() + 0.1);
        if (!l->head && c->api->idle && !c->closing) {
            pthread_mutex_unlock(&c->lock);
            c->api->idle(c->link);
            pthread_mutex_lock(&c->lock);
        }
    }
}

// Under the lock: the ranks came apart. Those that wait in this lane learn it here where they did
// not in the other. The others are told when this rank has said why it ends, and it stays until
// they have.
static void part(Comm *c) {
    if (!c->lane[LARGE].apart)
        meet_last(c, LARGE);
    while (!c->closing)
        pthread_cond_wait(&c->work, &c->lock);
    meet_last(c, LARGE);
}

static bool all_left(const Comm *c) {
    bool all = true;
    for (uint32_t i = 0; i < c->lanes; i++)
        all &= c->lane[i].all_left;
    return all;
}

// Where threads that compute fill the cores, one that wakes has none before the end of somebody's
// slice, 3 ms later, and a sum wakes it several times. Who asks for short slices goes first, and
// gets no more of a core (Linux 6.12, `man 2 sched_setattr`; older ones take no notice).
static void ask_short_slices(void) {
    struct { // struct sched_attr, which not every libc has
        uint32_t size, policy;
        uint64_t flags;
        int32_t nice;
        uint32_t priority;
        uint64_t runtime, deadline, period; // ns
        uint32_t least, most;
    } a;
    if (syscall(SYS_sched_getattr, 0, &a, sizeof a, 0) == 0 && a.policy == SCHED_OTHER) {
        a.runtime = 100000;
        (void)syscall(SYS_sched_setattr, 0, &a, 0); // a wish
    }
}

static void *comm_main(void *arg) {
    Comm *c = arg;
    ask_short_slices();
    prctl(PR_SET_TIMERSLACK, 1UL); // 50 us otherwise, more than a small sum takes
    GanStatus st = c->api->open(c->arg, &c->link);
    pthread_mutex_lock(&c->lock);
    if (st == GAN_OK) {
        c->rank = c->link->rank;
        c->size = c->link->size;
        c->nodes = c->link->nodes;
        c->lanes = (uint32_t)c->link->lanes;
        c->relays = c->link->relays;
    } else {
        broke(c, st);
    }
    c->opened = true;
    pthread_cond_broadcast(&c->changed);
    serve(c);
    if (any_apart(c))
        part(c);
    bool orderly = c->code == GAN_OK && (!c->left || all_left(c));
    pthread_mutex_unlock(&c->lock);
    c->api->close(c->link, orderly);
    pthread_mutex_lock(&c->lock);
    c->gone = true;
    pthread_cond_broadcast(&c->changed);
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
    pthread_cond_destroy(&c->work);
    pthread_cond_destroy(&c->changed);
    pthread_mutex_destroy(&c->lock);
    mem_free(c);
}

static void init_sync(Comm *c) {
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_mutex_init(&c->lock, NULL);
    pthread_cond_init(&c->work, &attr);
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
    if (pthread_create(&c->thread, NULL, comm_main, c) != 0) {
        comm_free(c);
        return fail(GAN_ERR_DEVICE, "no thread for a communicator");
    }
    prctl(PR_SET_TIMERSLACK, 1UL); // it carries out small sums
    double until = time_now() + o->deadline;
    pthread_mutex_lock(&c->lock);
    while (!c->opened && (o->deadline <= 0 || time_now() < until))
        wait_until(c, &c->changed, o->deadline > 0 ? until : time_now() + 60);
    bool opened = c->opened;
    GanStatus st = c->code;
    pthread_mutex_unlock(&c->lock);
    if (!opened) { // its thread is caught inside the link, and uses what it has
        pthread_detach(c->thread);
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
    pthread_join(c->thread, NULL);
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

static uint32_t lane_of(const Comm *c, const CommJob *j) {
    return c->lanes > 1 && rides(j) ? SMALL : LARGE;
}

// Under the lock.
static void enqueue(Comm *c, uint32_t at, uint32_t lane) {
    Lane *l = &c->lane[lane];
    Task *task = &c->task[at];
    task->state = TaskQueued;
    task->next = 0;
    task->meeting.lane = lane;
    if (l->tail)
        c->task[l->tail].next = at;
    else
        l->head = at;
    l->tail = at;
    if (lane == LARGE) {
        pthread_cond_signal(&c->work);
        return;
    }
    come_to(c, lane, task);
    GanStatus st = post_task(c, task);
    if (st != GAN_OK)
        broke(c, st);
}

// Under the lock: the running task's time is over, and its bytes are under way for as long.
static void give_up(Comm *c, double seconds) {
    Lane *l = &c->lane[LARGE];
    Meeting m = l->last;
    Task task = c->task[l->running];
    pthread_mutex_unlock(&c->lock);
    GanStatus st = c->api->missing ? c->api->missing(c->link, &m, seconds)
                                   : fail(GAN_ERR_DEVICE, "the transfer does not end");
    explain(&task, st);
    pthread_mutex_lock(&c->lock);
    if (l->moving && l->last.turn == m.turn)
        broke(c, st);
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
            run_next(c, SMALL);
        else if (c->o.deadline > 0 && l->moving && now > l->busy_since + c->o.deadline - ask)
            give_up(c, ask);
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
        enqueue(c, at, lane_of(c, &c->task[at].job));
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

// Under the lock: what is still under way in the caller's lane.
static void end_small(Comm *c) {
    while (c->code == GAN_OK && c->lane[SMALL].head)
        run_next(c, SMALL);
    if (any_apart(c) && !c->lane[SMALL].apart && c->lanes > 1)
        meet_last(c, SMALL); // those that wait there have not learnt it elsewhere
}

static void end_thread(Comm *c) {
    pthread_mutex_lock(&c->lock);
    end_small(c);
    c->closing = true;
    pthread_cond_signal(&c->work);
    // A thread that is caught inside the link cannot be ended: it is left behind with what it uses.
    double patience = c->code == GAN_OK ? 60 : any_apart(c) ? 2 * PATIENCE + 1 : 1;
    double until = time_now() + patience;
    while (!c->gone && time_now() < until)
        wait_until(c, &c->changed, until);
    bool gone = c->gone;
    pthread_mutex_unlock(&c->lock);
    if (!gone) {
        pthread_detach(c->thread);
        return;
    }
    pthread_join(c->thread, NULL);
    comm_free(c);
}

void comm_close(Comm *c) {
    if (c)
        end_thread(c);
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
    bool left = c->code == GAN_OK;
    end_small(c);
    double until = time_now() + 2 * PATIENCE; // a transfer may hold the thread, and has no end
    while (c->code == GAN_OK && !any_apart(c) && c->task[CONTROL].state != TaskFree &&
           time_now() < until)
        wait_until(c, &c->changed, time_now() + 0.5);
    bool all = left && all_left(c);
    pthread_mutex_unlock(&c->lock);
    return all;
}

void comm_part(Comm *c) {
    if (c)
        end_thread(c);
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
