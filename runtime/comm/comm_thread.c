// comm_thread.c - the progress thread: it opens the link and serves the first queue until the
// communicator is closed, or, after a failure, until the ranks have told each other of it. And what
// starts and ends it: opening, leaving, closing.
#define _GNU_SOURCE
#include "comm_internal.h"

#include <sched.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

// --- the thread, which has the first queue -------------------------------------------------------

// Under the lock. Where threads that compute fill the cores, every rank pays for its own sums: were
// the threads of two ranks on one core, that rank alone would come late to the sums that follow.
static void bind_to_caller(Comm *c) {
    cpu_set_t core;
    if (c->link->cores != CoresFull || c->core == c->bound || c->core < 0 || c->core >= CPU_SETSIZE)
        return;
    CPU_ZERO(&core);
    CPU_SET(c->core, &core);
    c->bound = c->core; // asked once, granted or not
    (void)sched_setaffinity(0, sizeof core, &core);
}

static void serve(Comm *c) {
    Queue *l = &c->queue[LARGE];
    while (c->code == GAN_OK && !(c->closing && !l->head)) {
        if (l->head) {
            bind_to_caller(c);
            queue_run(c, LARGE);
            continue;
        }
        comm_wait_until(c, &c->work, time_now() + 0.1);
        if (!l->head && c->api->idle && !c->closing) {
            pthread_mutex_unlock(&c->lock);
            c->api->idle(c->link);
            pthread_mutex_lock(&c->lock);
        }
    }
}

// Under the lock: the ranks diverged. Those that wait in this queue learn it here where they did
// not in the other. The others are told when this rank has said why it ends, and it stays until
// they have.
static void tell_others(Comm *c) {
    if (!c->queue[LARGE].diverged)
        queue_final_handshake(c, LARGE);
    while (!c->closing)
        pthread_cond_wait(&c->work, &c->lock);
    queue_final_handshake(c, LARGE);
}

static bool all_left(const Comm *c) {
    bool all = true;
    for (uint32_t i = 0; i < QUEUES; i++)
        all &= c->queue[i].all_left;
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
        c->two_level = c->link->two_level;
    } else {
        comm_fail(c, st);
    }
    c->opened = true;
    pthread_cond_broadcast(&c->changed);
    serve(c);
    if (queues_diverged(c))
        tell_others(c);
    while (c->link && !c->closing) // it broke, and the caller may be inside the link
        pthread_cond_wait(&c->work, &c->lock);
    bool orderly = c->code == GAN_OK && (!c->left || all_left(c));
    pthread_mutex_unlock(&c->lock);
    c->api->close(c->link, orderly);
    pthread_mutex_lock(&c->lock);
    c->gone = true;
    pthread_cond_broadcast(&c->changed);
    pthread_mutex_unlock(&c->lock);
    return NULL;
}

// --- opening -------------------------------------------------------------------------------------

static void comm_free(Comm *c) {
    for (uint32_t i = 0; i < c->feedbacks; i++)
        mem_free(c->feedback[i].at);
    mem_free(c->feedback);
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

static GanStatus comm_new(const LinkApi *link, void *arg, const CommOptions *o, Comm **out) {
    Comm *c = mem_alloc(sizeof *c);
    Task *task = mem_alloc(FIRST_JOB * sizeof *task);
    if (!c || !task) {
        mem_free(c);
        mem_free(task);
        return fail(GAN_ERR_MEMORY, "no memory for a communicator");
    }
    *c = (Comm){.api = link,
                .arg = arg,
                .o = *o,
                .task = task,
                .tasks = FIRST_JOB,
                .core = -1,
                .bound = -1};
    init_sync(c);
    *out = c;
    return GAN_OK;
}

// False: the deadline has passed. *st: how it went.
static bool wait_opened(Comm *c, double deadline, GanStatus *st) {
    double until = time_now() + deadline;
    pthread_mutex_lock(&c->lock);
    while (!c->opened && (deadline <= 0 || time_now() < until))
        comm_wait_until(c, &c->changed, deadline > 0 ? until : time_now() + 60);
    bool opened = c->opened;
    *st = c->code;
    pthread_mutex_unlock(&c->lock);
    return opened;
}

GanStatus comm_open(const LinkApi *link, void *arg, const CommOptions *o, Comm **out) {
    Comm *c = NULL;
    GanStatus st;
    *out = NULL;
    TRY(comm_new(link, arg, o, &c));
    if (pthread_create(&c->thread, NULL, comm_main, c) != 0) {
        comm_free(c);
        return fail(GAN_ERR_DEVICE, "no thread for a communicator");
    }
    if (!wait_opened(c, o->deadline, &st)) { // its thread is caught inside the link, with all of it
        pthread_detach(c->thread);
        return fail(GAN_ERR_DEVICE,
                    "the ranks did not connect within %g s: one was not started, ended, or "
                    "is stopped",
                    o->deadline);
    }
    if (st != GAN_OK) {
        fail(st, "%s", c->why);
        pthread_join(c->thread, NULL);
        comm_free(c);
        return st;
    }
    c->slack = prctl(PR_GET_TIMERSLACK);
    prctl(PR_SET_TIMERSLACK, 1UL); // it carries out small sums
    *out = c;
    return GAN_OK;
}

// --- the end -------------------------------------------------------------------------------------

// Under the lock: what is still under way in the caller's queue.
static void end_small(Comm *c) {
    while (c->code == GAN_OK && c->queue[SMALL].head)
        queue_run(c, SMALL);
    if (queues_diverged(c) && !c->queue[SMALL].diverged)
        queue_final_handshake(c, SMALL); // those that wait there have not learnt it elsewhere
}

static void end_thread(Comm *c) {
    if (c->slack > 0) // 0 would be the system's default
        prctl(PR_SET_TIMERSLACK, (unsigned long)c->slack);
    pthread_mutex_lock(&c->lock);
    end_small(c);
    c->closing = true;
    pthread_cond_signal(&c->work);
    // A thread that is caught inside the link cannot be ended: it is left behind with what it uses.
    double most = c->code == GAN_OK ? 60 : queues_diverged(c) ? 2 * LEAVE_SECONDS + 1 : 1;
    double until = time_now() + most;
    while (!c->gone && time_now() < until)
        comm_wait_until(c, &c->changed, until);
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

// In both queues, for the others may be waiting in either: once one has met somebody who goes on,
// all is said.
bool comm_leave(Comm *c, GanStatus why) {
    if (!c)
        return true;
    pthread_mutex_lock(&c->lock);
    c->o.deadline =
        c->o.deadline > 0 && c->o.deadline < LEAVE_SECONDS ? c->o.deadline : LEAVE_SECONDS;
    c->left = true;
    for (uint32_t i = 0; c->code == GAN_OK && i < QUEUES; i++) {
        c->task[CONTROL + i] = (Task){.kind = TaskLeave, .why = why};
        queue_add(c, CONTROL + i, i);
    }
    pthread_cond_signal(&c->work);
    bool left = c->code == GAN_OK;
    end_small(c);
    double until = time_now() + 2 * LEAVE_SECONDS; // a transfer may hold the thread, and has no end
    while (c->code == GAN_OK && !queues_diverged(c) && c->task[CONTROL].state != TaskFree &&
           time_now() < until)
        comm_wait_until(c, &c->changed, time_now() + 0.5);
    bool all = left && all_left(c);
    pthread_mutex_unlock(&c->lock);
    return all;
}

void comm_disconnect(Comm *c) {
    if (c)
        end_thread(c);
}
