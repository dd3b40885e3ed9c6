// nvrtc_all.c - compiles many kernel texts to machine code in parallel.
//
// In: jobs. Out: an image each. The compiler is single-threaded and takes a few tens of
// milliseconds a kernel, so every core takes tasks until none is left: translations, one for all
// architectures of a text, then the images, the longest first.
#include "device.h"
#include "nvrtc.h"

#include <pthread.h>

enum { MOST_THREADS = 32 };

typedef struct Task {
    uint32_t job;  // for an image; for a translation the first that needs it
    uint32_t text; // the task that translates, which may be this one
    Arena arena;   // what it makes
    NvrtcImage made;
    GanStatus status;
    char error[1024];  // the message of a thread is its own
    bool begun, ended; // under the lock
} Task;

typedef struct Tasks {
    const Nvrtc *nvrtc;
    const NvrtcJob *job;
    NvrtcMade *made; // is told of each image; NULL: no one
    void *user;
    Task *task; // [n] `texts` translations, then an image of each job
    uint32_t texts, n;
    pthread_mutex_t lock;
    pthread_cond_t changed; // some task has ended
} Tasks;

static bool same_text(const Nvrtc *n, const NvrtcJob *a, const NvrtcJob *b) {
    if (a->sources != b->sources || nvrtc_ptx_arch(n, a) != nvrtc_ptx_arch(n, b))
        return false;
    for (uint32_t i = 0; i < a->sources; i++)
        if (a->source[i].ptr != b->source[i].ptr)
            return false;
    return true;
}

static void tasks_list(Arena *a, uint32_t jobs, Tasks *t) {
    uint32_t *text = arena_array(a, uint32_t, jobs);
    t->task = arena_array(a, Task, 2 * (size_t)jobs);
    for (uint32_t i = 0; i < jobs; i++) {
        while (text[i] < t->texts &&
               !same_text(t->nvrtc, &t->job[t->task[text[i]].job], &t->job[i]))
            text[i]++;
        if (text[i] == t->texts)
            t->task[t->texts++] = (Task){.job = i, .text = text[i]};
    }
    for (uint32_t i = 0; i < jobs; i++)
        t->task[t->texts + i] = (Task){.job = i, .text = text[i]};
    t->n = t->texts + jobs;
}

// How long a task takes, in no unit. Translations that images wait for come before all others.
// Images take time by their PTX, for Hopper and later cards 1.3 to 1.6 times as long as before; a
// text that stays PTX takes least.
static size_t task_time(const Tasks *t, const Task *k) {
    const NvrtcJob *job = &t->job[k->job];
    const Task *text = &t->task[k->text];
    if (k == text)
        return job->ptx ? 0 : SIZE_MAX;
    return text->made.code.len * (job->arch < 90 ? 2 : 3);
}

// The longest task whose text is there, so that no core waits for one that was begun last. `n`:
// none now; *later: there will be one.
static uint32_t task_best(const Tasks *t, bool *later) {
    uint32_t best = t->n;
    *later = false;
    for (uint32_t i = 0; i < t->n; i++) {
        const Task *k = &t->task[i], *text = &t->task[k->text];
        bool ready = text == k || text->ended;
        *later |= !k->begun && !ready;
        if (!k->begun && ready && (best == t->n || task_time(t, k) > task_time(t, &t->task[best])))
            best = i;
    }
    return best;
}

static Task *task_begin(Tasks *t) {
    bool later;
    uint32_t i;
    pthread_mutex_lock(&t->lock);
    while ((i = task_best(t, &later)) == t->n && later)
        pthread_cond_wait(&t->changed, &t->lock);
    if (i < t->n)
        t->task[i].begun = true;
    pthread_mutex_unlock(&t->lock);
    return i < t->n ? &t->task[i] : NULL;
}

static void task_end(Tasks *t, Task *k) {
    pthread_mutex_lock(&t->lock);
    k->ended = true;
    pthread_cond_broadcast(&t->changed);
    pthread_mutex_unlock(&t->lock);
}

typedef struct Compiling {
    const Tasks *t;
    Task *k;
} Compiling;

static GanStatus task_compile(void *user) {
    const Compiling *c = user;
    const NvrtcJob *job = &c->t->job[c->k->job];
    const Task *text = &c->t->task[c->k->text];
    Arena *a = &c->k->arena;
    if (text == c->k)
        return nvrtc_translate(c->t->nvrtc, a, job, &c->k->made);
    TRY(nvrtc_assemble(c->t->nvrtc, a, job, text->made.code, &c->k->made));
    if (c->t->made)
        c->t->made(c->t->user, *a, c->k->job, c->k->made.code);
    return GAN_OK;
}

static void task_run(const Tasks *t, Task *k) {
    const Task *text = &t->task[k->text];
    if (text != k && text->status != GAN_OK) { // the translation has reported it
        k->status = text->status;
        return;
    }
    k->status = arena_init(&k->arena, 0);
    if (k->status == GAN_OK)
        k->status = arena_guard(&k->arena, "to compile kernels", task_compile, &(Compiling){t, k});
    if (k->status != GAN_OK)
        snprintf(k->error, sizeof k->error, "%s", gan_error());
}

static void *work(void *user) {
    Tasks *t = user;
    for (Task *k; (k = task_begin(t)) != NULL; task_end(t, k))
        task_run(t, k);
    return NULL;
}

uint32_t nvrtc_threads(void) {
    uint32_t cores = (uint32_t)device_threads_for(0);
    return cores < MOST_THREADS ? cores : MOST_THREADS;
}

// The calling thread works too.
static void tasks_run(Tasks *t) {
    pthread_t thread[MOST_THREADS];
    uint32_t started = 0, wanted = nvrtc_threads();
    wanted = wanted < t->n ? wanted : t->n;
    pthread_mutex_init(&t->lock, NULL);
    pthread_cond_init(&t->changed, NULL);
    while (started + 1 < wanted && pthread_create(&thread[started], NULL, work, t) == 0)
        started++;
    work(t);
    for (uint32_t i = 0; i < started; i++)
        pthread_join(thread[i], NULL);
    pthread_cond_destroy(&t->changed);
    pthread_mutex_destroy(&t->lock);
}

typedef struct Collecting {
    Arena *a;
    const Tasks *t;
    NvrtcImage *out;
} Collecting;

// Images to where they stay, or the first error of the list.
static GanStatus tasks_collect(void *user) {
    const Collecting *c = user;
    for (uint32_t i = 0; i < c->t->n; i++)
        if (c->t->task[i].status != GAN_OK)
            return fail(c->t->task[i].status, "%s", c->t->task[i].error);
    for (uint32_t i = c->t->texts; i < c->t->n; i++) {
        const Task *k = &c->t->task[i];
        c->out[k->job] = (NvrtcImage){str_copy(c->a, k->made.code), str_copy(c->a, k->made.log)};
    }
    return GAN_OK;
}

GanStatus nvrtc_compile_all(const Nvrtc *n, Arena *a, const NvrtcJob *job, uint32_t jobs,
                            NvrtcMade *made, void *user, NvrtcImage *out) {
    Tasks t = {.nvrtc = n, .job = job, .made = made, .user = user};
    tasks_list(a, jobs, &t);
    tasks_run(&t);
    GanStatus st =
        arena_guard(a, "to keep compiled kernels", tasks_collect, &(Collecting){a, &t, out});
    for (uint32_t i = 0; i < t.n; i++)
        arena_release(&t.task[i].arena);
    return st;
}
