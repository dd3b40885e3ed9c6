// nvrtc_all.c - many texts to machine code, side by side.
//
// In: jobs. Out: an image each. The compiler is single-threaded and takes a few tens of
// milliseconds a kernel, so every core takes jobs until none is left. PTX that is made once and
// linked by nvJitLink for each architecture would take half the time, but it assembles kernels as
// parts of something larger: those that divide then need 66 registers instead of 38.
#include "device.h"
#include "nvrtc.h"

#include <pthread.h>
#include <setjmp.h>

enum { MOST_THREADS = 32 };

typedef struct Task {
    Arena arena; // what it makes
    NvrtcImage made;
    GanStatus status;
    char error[1024]; // the message of a thread is its own
} Task;

typedef struct Tasks {
    const Nvrtc *nvrtc;
    const NvrtcJob *job;
    Task *task;
    uint32_t n, next; // next: under the lock
    pthread_mutex_t lock;
} Tasks;

static bool task_next(Tasks *t, uint32_t *out) {
    pthread_mutex_lock(&t->lock);
    *out = t->next;
    t->next += t->next < t->n;
    pthread_mutex_unlock(&t->lock);
    return *out < t->n;
}

static GanStatus compile_guarded(const Tasks *t, uint32_t i) {
    Task *k = &t->task[i];
    TRY(arena_init(&k->arena, 0));
    jmp_buf oom;
    k->arena.oom = &oom;
    if (setjmp(oom))
        return fail(GAN_ERR_MEMORY, "no memory to compile kernels");
    GanStatus st = nvrtc_compile(t->nvrtc, &k->arena, &t->job[i], &k->made);
    k->arena.oom = NULL;
    return st;
}

static void *work(void *user) {
    Tasks *t = user;
    uint32_t i;
    while (task_next(t, &i)) {
        Task *k = &t->task[i];
        k->status = compile_guarded(t, i);
        if (k->status != GAN_OK)
            snprintf(k->error, sizeof k->error, "%s", gan_error());
    }
    return NULL;
}

// The calling thread works too.
static void tasks_run(Tasks *t) {
    pthread_t thread[MOST_THREADS];
    uint32_t started = 0, wanted = (uint32_t)device_threads_for(0);
    wanted = wanted < MOST_THREADS ? wanted : MOST_THREADS;
    wanted = wanted < t->n ? wanted : t->n;
    pthread_mutex_init(&t->lock, NULL);
    while (started + 1 < wanted && pthread_create(&thread[started], NULL, work, t) == 0)
        started++;
    work(t);
    for (uint32_t i = 0; i < started; i++)
        pthread_join(thread[i], NULL);
    pthread_mutex_destroy(&t->lock);
}

GanStatus nvrtc_compile_all(const Nvrtc *n, Arena *a, const NvrtcJob *job, uint32_t jobs,
                            NvrtcImage *out) {
    Tasks t = {.nvrtc = n, .job = job, .n = jobs};
    GanStatus st = GAN_OK;
    t.task = arena_array(a, Task, jobs);
    tasks_run(&t);
    for (uint32_t i = 0; i < jobs; i++) {
        const Task *k = &t.task[i];
        if (k->status == GAN_OK)
            out[i] = (NvrtcImage){str_copy(a, k->made.code), str_copy(a, k->made.log)};
        else if (st == GAN_OK) // the first in the list is the one that is told
            st = fail(k->status, "%s", k->error);
        arena_release(&t.task[i].arena);
    }
    return st;
}
