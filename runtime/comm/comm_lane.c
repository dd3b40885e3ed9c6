// comm_lane.c - lanes: a task synchronizes with the other ranks in its turn, is carried out, and is
// delayed as the wire model says.
#define _GNU_SOURCE
#include "comm_in.h"

#include <math.h>
#include <sched.h>
#include <string.h>
#include <time.h>

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
void comm_wait_until(Comm *c, pthread_cond_t *cond, double t) {
    struct timespec at = clock_at(t);
    pthread_cond_timedwait(cond, &c->lock, &at);
}

// --- a task --------------------------------------------------------------------------------------

size_t job_bytes(const CommJob *j) {
    return j->n * dtype_size[j->kind == CommGather ? j->dtype : j->wire];
}

// What travels with its meeting.
bool job_rides(const CommJob *j) {
    return j->kind != CommGather && j->wire == j->dtype && j->dtype != DtBF16 &&
           job_bytes(j) <= COMM_SMALL;
}

// Equal tasks have equal tags, which are below all others; then come LAST_TAG and those of ranks
// that leave, LEAVE_TAG and the reason.
static const uint64_t LAST_TAG = (UINT64_MAX >> 1) + 1;
static const uint64_t LEAVE_TAG = UINT64_MAX - (uint64_t)GAN_STOPPED;

static uint64_t task_tag(const Task *task) {
    if (task->kind == TaskLeave)
        return LEAVE_TAG + (uint64_t)task->why;
    uint64_t what[] = {task->kind,   task->bytes,    (uint64_t)task->root,
                       task->job.id, task->job.kind, task->job.dtype,
                       task->job.n,  task->job.wire, task->job.unit};
    return hash64(what, sizeof what, 0) >> 1;
}

// Under the lock: this rank comes to it.
static void lane_come_to(Comm *c, uint32_t lane, Task *task) {
    Meeting *m = &task->meeting;
    const CommJob *j = &task->job;
    *m = (Meeting){.lane = lane,
                   .turn = c->lane[lane].last.turn + 1,
                   .tag = task_tag(task),
                   .step = task->kind == TaskJob ? j->step : c->lane[lane].last.step};
    if (task->kind == TaskJob && job_rides(j)) {
        m->kind = j->kind;
        m->dtype = j->dtype;
        m->data = j->data;
        m->n = j->n;
    } else if (task->kind == TaskJob && j->kind != CommGather && j->wire == j->dtype) {
        m->moves = j->data;
    }
    c->lane[lane].last = *m;
}

// What those who go on end with, so that the launcher sees one exit code. None of them has saved
// and stopped.
static GanStatus status_of_leaver(uint64_t tag) {
    return tag > LEAVE_TAG && tag < UINT64_MAX ? (GanStatus)(tag - LEAVE_TAG) : GAN_ERR_DEVICE;
}

static GanStatus tags_agree(const Task *task, const uint64_t tags[2]) {
    if (tags[0] == tags[1])
        return GAN_OK;
    if (tags[1] >= LAST_TAG)
        return fail(status_of_leaver(tags[1]), "another rank ended");
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
GanStatus task_explain(const Task *task, GanStatus st) {
    if (task->kind != TaskJob)
        return fail_in(st, "between collectives");
    return fail_in(st, "step %u, %s", task->job.step, task->job.what);
}

static void set_moving(Comm *c, uint32_t lane, bool moving) {
    pthread_mutex_lock(&c->lock);
    c->lane[lane].moving = moving;
    pthread_mutex_unlock(&c->lock);
}

static void set_apart(Comm *c, uint32_t lane, bool apart, bool leaving) {
    pthread_mutex_lock(&c->lock);
    c->lane[lane].apart = apart;
    c->lane[lane].all_left = leaving && !apart;
    pthread_mutex_unlock(&c->lock);
}

// Says that this rank has come to it.
static GanStatus lane_post(const Comm *c, Task *task) {
    task->event.start = time_now();
    GanStatus st = c->api->post(c->link, &task->meeting);
    task->event.end = time_now();
    task->took = task->event.end - task->event.start;
    return st == GAN_OK ? st : task_explain(task, st);
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
        set_moving(c, task->meeting.lane, true);
        st = carry_out(c, task);
        set_moving(c, task->meeting.lane, false);
    }
    if (waited || !rode) { // else it was there before somebody looked
        task->event.end = time_now();
        task->took += task->event.end - began;
    }
    return st == GAN_OK ? st : task_explain(task, st);
}

// --- a lane --------------------------------------------------------------------------------------

// Under the lock: takes this thread's message.
void comm_broke(Comm *c, GanStatus st) {
    if (c->code != GAN_OK)
        return;
    c->code = st;
    snprintf(c->why, sizeof c->why, "%s", gan_error());
    pthread_cond_signal(&c->work);
    pthread_cond_broadcast(&c->changed);
}

// Under the lock: carries out the first in the queue, which the caller has posted where the lane is
// its own.
void lane_run(Comm *c, uint32_t lane) {
    Lane *l = &c->lane[lane];
    uint32_t at = l->head;
    c->task[at].state = TaskRunning;
    if (lane == LARGE)
        lane_come_to(c, lane, &c->task[at]);
    Task task = c->task[at];
    l->head = task.next;
    if (!l->head)
        l->tail = 0;
    l->running = at;
    l->busy_since = time_now();
    task.meeting.until = c->o.deadline > 0 ? l->busy_since + c->o.deadline : 0;
    double from = l->free;
    pthread_mutex_unlock(&c->lock);
    GanStatus st = lane == LARGE ? lane_post(c, &task) : GAN_OK;
    if (st == GAN_OK)
        st = meet_and_carry(c, &task);
    if (st == GAN_OK)
        take_time(c, &task, from);
    pthread_mutex_lock(&c->lock);
    if (st != GAN_OK)
        comm_broke(c, st);
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

bool lanes_apart(const Comm *c) {
    return c->lane[LARGE].apart || c->lane[SMALL].apart;
}

// Under the lock: meets the others once more, in no task.
void lane_meet_last(Comm *c, uint32_t lane) {
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

// Under the lock.
void lane_enqueue(Comm *c, uint32_t at, uint32_t lane) {
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
        c->core = sched_getcpu();
        pthread_cond_signal(&c->work);
        return;
    }
    lane_come_to(c, lane, task);
    GanStatus st = lane_post(c, task);
    if (st != GAN_OK)
        comm_broke(c, st);
}
