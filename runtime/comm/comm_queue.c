// comm_queue.c - queues: in its turn a task has its handshake with the other ranks, is carried out,
// and is delayed as the wire model says.
#define _GNU_SOURCE
#include "comm_internal.h"

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
static void sleep_until(uint32_t queue, double t) {
    double asleep = queue == LARGE ? t : t - 100e-6;
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

bool job_is_eager(const CommJob *j) {
    return j->kind != CommGather && j->wire == j->dtype && j->dtype != DtBF16 &&
           job_bytes(j) <= COMM_SMALL;
}

// Equal tasks have equal fingerprints, which are below all others; then come FINAL and those of
// ranks that leave, LEAVING and the reason.
static const uint64_t FINAL = (UINT64_MAX >> 1) + 1;
static const uint64_t LEAVING = UINT64_MAX - (uint64_t)GAN_STOPPED;

static uint64_t task_fingerprint(const Task *task) {
    if (task->kind == TaskLeave)
        return LEAVING + (uint64_t)task->why;
    uint64_t what[] = {task->kind,   task->bytes,    (uint64_t)task->root,
                       task->job.id, task->job.kind, task->job.dtype,
                       task->job.n,  task->job.wire, task->job.unit};
    return hash64(what, sizeof what, 0) >> 1;
}

// Under the lock: the next handshake of its queue is this task's.
static void task_handshake(Comm *c, uint32_t queue, Task *task) {
    Handshake *h = &task->handshake, *last = &c->queue[queue].last;
    const CommJob *j = &task->job;
    *h = (Handshake){.queue = queue,
                     .sequence = last->sequence + 1,
                     .fingerprint = task_fingerprint(task),
                     .step = task->kind == TaskJob ? j->step : last->step};
    if (task->kind == TaskJob && job_is_eager(j)) {
        h->kind = j->kind;
        h->dtype = j->dtype;
        h->data = j->data;
        h->n = j->n;
    } else if (task->kind == TaskJob && j->kind != CommGather && j->wire == j->dtype) {
        h->reduces = j->data;
    }
    *last = *h;
}

// What those who go on end with, so that the launcher sees one exit code. None of them has saved
// and stopped.
static GanStatus status_of_leaver(uint64_t fingerprint) {
    return fingerprint > LEAVING && fingerprint < UINT64_MAX ? (GanStatus)(fingerprint - LEAVING)
                                                             : GAN_ERR_DEVICE;
}

static GanStatus fingerprints_agree(const Task *task, const uint64_t least_most[2]) {
    if (least_most[0] == least_most[1])
        return GAN_OK;
    if (least_most[1] >= FINAL)
        return fail(status_of_leaver(least_most[1]), "another rank ended");
    return fail(GAN_ERR_BUG, "the ranks are not at the same place of the same plan (%s)",
                task->kind == TaskJob ? "a collective" : "a control message");
}

static GanStatus feedback_need(Comm *c, const CommJob *j) {
    if (j->id >= c->feedbacks) {
        Feedback *grown = mem_realloc(c->feedback, (j->id + 1) * sizeof *grown);
        if (!grown)
            return fail(GAN_ERR_MEMORY, "no memory for error feedback");
        memset(grown + c->feedbacks, 0, (j->id + 1 - c->feedbacks) * sizeof *grown);
        c->feedback = grown;
        c->feedbacks = j->id + 1;
    }
    Feedback *k = &c->feedback[j->id];
    if (k->n != j->n) {
        mem_free(k->at);
        *k = (Feedback){mem_alloc(j->n * sizeof *k->at), j->n};
    }
    if (j->n > c->narrow_n) {
        mem_free(c->narrow);
        c->narrow = mem_alloc(j->n * sizeof *c->narrow);
        c->narrow_n = c->narrow ? j->n : 0;
    }
    if (k->at && c->narrow)
        return GAN_OK;
    k->n = k->at ? k->n : 0;
    return fail(GAN_ERR_MEMORY, "no memory for error feedback");
}

// Error feedback: what rounding takes from this sum, of a part or of the result, is added to the
// next one of the same id, so that nothing is lost for good (Seide et al. 2014, "1-bit stochastic
// gradient descent").
static GanStatus reduce_narrow(Comm *c, const CommJob *j) {
    TRY(feedback_need(c, j));
    float *x = j->data, *lost = j->kind == CommMax ? NULL : c->feedback[j->id].at;
    for (size_t i = 0; lost && i < j->n; i++) {
        x[i] += lost[i];
        lost[i] = 0;
    }
    floats_narrow(x, c->narrow, j->n, lost);
    TRY(c->api->reduce(c->link, j->kind, DtBF16, c->narrow, j->n, lost));
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

// What was not sent with the handshake.
static GanStatus task_transfer(Comm *c, const Task *task) {
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

static void set_diverged(Comm *c, uint32_t queue, bool diverged, bool leaving) {
    pthread_mutex_lock(&c->lock);
    c->queue[queue].diverged = diverged;
    c->queue[queue].all_left = leaving && !diverged;
    pthread_mutex_unlock(&c->lock);
}

static GanStatus task_post(const Comm *c, Task *task) {
    task->event.start = time_now();
    GanStatus st = c->api->post(c->link, &task->handshake);
    task->event.end = time_now();
    task->took = task->event.end - task->event.start;
    return st == GAN_OK ? st : task_explain(task, st);
}

// Until the wire model lets it end; `from`: when the queue's wire was free.
static void take_time(const Comm *c, Task *task, double from) {
    double takes = c->o.wire_us * 1e-6 +
                   (c->o.wire_gbit > 0 ? 8e-9 * (double)task->event.bytes / c->o.wire_gbit : 0);
    if (task->kind != TaskJob || takes <= 0)
        return;
    double due = fmax(task->event.start, from) + takes;
    sleep_until(task->handshake.queue, due);
    task->event.end = fmax(task->event.end, due);
    task->took = fmax(task->took, takes);
}

// After its post.
static GanStatus task_execute(Comm *c, Task *task) {
    uint64_t least_most[2];
    bool waited = false, eager = task->handshake.n > 0;
    double began = time_now();
    GanStatus st = c->api->wait(c->link, &task->handshake, least_most, &waited);
    if (st == GAN_OK)
        set_diverged(c, task->handshake.queue, least_most[0] != least_most[1],
                     task->kind == TaskLeave);
    if (st == GAN_OK && task->kind != TaskLeave)
        st = fingerprints_agree(task, least_most);
    task->event.met = time_now();
    if (st == GAN_OK && !eager)
        st = task_transfer(c, task);
    if (waited || !eager) { // else it was there before somebody looked
        task->event.end = time_now();
        task->took += task->event.end - began;
    }
    return st == GAN_OK ? st : task_explain(task, st);
}

// --- a queue -------------------------------------------------------------------------------------

// Under the lock: takes this thread's message.
void comm_fail(Comm *c, GanStatus st) {
    if (c->code != GAN_OK)
        return;
    c->code = st;
    snprintf(c->why, sizeof c->why, "%s", gan_error());
    pthread_cond_signal(&c->work);
    pthread_cond_broadcast(&c->changed);
}

// Under the lock: carries out the first in the queue, which the caller has posted where the queue
// is its own.
void queue_run(Comm *c, uint32_t queue) {
    Queue *l = &c->queue[queue];
    uint32_t at = l->head;
    c->task[at].state = TaskRunning;
    if (queue == LARGE)
        task_handshake(c, queue, &c->task[at]);
    Task task = c->task[at];
    l->head = task.next;
    if (!l->head)
        l->tail = 0;
    l->running = at;
    l->since = time_now();
    task.handshake.until = c->o.deadline > 0 ? l->since + c->o.deadline : 0;
    double from = l->wire_free;
    pthread_mutex_unlock(&c->lock);
    GanStatus st = queue == LARGE ? task_post(c, &task) : GAN_OK;
    if (st == GAN_OK)
        st = task_execute(c, &task);
    if (st == GAN_OK)
        take_time(c, &task, from);
    pthread_mutex_lock(&c->lock);
    if (st != GAN_OK)
        comm_fail(c, st);
    l->running = 0;
    task.event.start = task.event.end - task.took;
    l->wire_free = task.event.end;
    c->task[at].state = TaskFree;
    c->task[at].event = task.event;
    if (task.kind == TaskJob) {
        c->stats.busy += task.took;
        c->stats.jobs++;
        c->stats.bytes += task.event.bytes;
    }
    pthread_cond_broadcast(&c->changed);
}

bool queues_diverged(const Comm *c) {
    return c->queue[LARGE].diverged || c->queue[SMALL].diverged;
}

// Under the lock: one more handshake with the others, of no task.
void queue_final_handshake(Comm *c, uint32_t queue) {
    uint64_t least_most[2];
    bool waited;
    Queue *l = &c->queue[queue];
    Handshake h = {.queue = queue,
                   .step = l->last.step,
                   .sequence = ++l->last.sequence,
                   .fingerprint = FINAL,
                   .until = time_now() + LEAVE_SECONDS};
    l->diverged = true;
    pthread_mutex_unlock(&c->lock);
    if (c->api->post(c->link, &h) == GAN_OK)
        c->api->wait(c->link, &h, least_most, &waited);
    pthread_mutex_lock(&c->lock);
}

// Under the lock.
void queue_add(Comm *c, uint32_t at, uint32_t queue) {
    Queue *l = &c->queue[queue];
    Task *task = &c->task[at];
    task->state = TaskQueued;
    task->next = 0;
    task->handshake.queue = queue;
    if (l->tail)
        c->task[l->tail].next = at;
    else
        l->head = at;
    l->tail = at;
    if (queue == LARGE) {
        c->core = sched_getcpu();
        return;
    }
    task_handshake(c, queue, task);
    GanStatus st = task_post(c, task);
    if (st != GAN_OK)
        comm_fail(c, st);
}
