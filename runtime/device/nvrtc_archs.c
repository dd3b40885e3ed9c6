// nvrtc_archs.c - kernel text to machine code for several architectures, on all cores.
//
// In: a job, and what to compile it for. Out: an image an architecture. Four fifths of NVRTC's time
// does not depend on the architecture: it goes from text to PTX once, in parts side by side, and
// nvJitLink assembles the PTX for each. How sources are parted follows from them alone, so the
// images do not depend on the machine. Without nvJitLink NVRTC does it all, once an architecture.
#include "nvrtc.h"

#include "device.h"
#include "library.h"

#include <pthread.h>

enum {
    OK = 0,
    INPUT_PTX = 2, // NVJITLINK_INPUT_PTX
    COMMON = 80,   // its PTX is assembled for all later ones: kernels ask no more
    FEWEST = 6,    // sources worth a part of their own
    MOST_PARTS = 8,
    MOST_THREADS = 8,
};

typedef struct Linker {
    void *library; // owned
#define SYM(field, symbol, result, args) result(*field) args;
#include "nvjitlink.def"
} Linker;

static bool fill(Linker *out) {
#define SYM(field, symbol, result, args)                                                           \
    if (!library_symbol(out->library, #symbol, &out->field, sizeof out->field))                    \
        return false;
#include "nvjitlink.def"
    return true;
}

static bool linker_open(Linker *out) {
    static const char *const names[] = {"libnvJitLink.so.13", "libnvJitLink.so.12",
                                        "libnvJitLink.so", NULL};
    *out = (Linker){.library = library_open(names)};
    if (out->library && fill(out))
        return true;
    library_close(out->library);
    return false;
}

// --- tasks side by side --------------------------------------------------------------------------

typedef struct Tasks Tasks;
typedef struct Task {
    Arena arena; // what it makes
    NvrtcImage made;
    GanStatus status;
    char error[1024]; // the message of a thread is its own
} Task;

struct Tasks {
    const Nvrtc *nvrtc;
    const Linker *linker; // NULL: none
    const NvrtcJob *job;
    const int *arch;
    uint32_t parts;
    bool report;     // a link says what each kernel uses
    const Task *ptx; // [parts]; NULL while it is made
    GanStatus (*run)(const Tasks *t, uint32_t i, Arena *a, NvrtcImage *made);
    Task *task;
    uint32_t n, next; // next: under the lock
    pthread_mutex_t lock;
};

static bool task_next(Tasks *t, uint32_t *out) {
    pthread_mutex_lock(&t->lock);
    *out = t->next;
    t->next += t->next < t->n;
    pthread_mutex_unlock(&t->lock);
    return *out < t->n;
}

static void *work(void *user) {
    Tasks *t = user;
    uint32_t i;
    while (task_next(t, &i)) {
        Task *k = &t->task[i];
        k->status = arena_init(&k->arena, 0);
        if (k->status == GAN_OK)
            k->status = t->run(t, i, &k->arena, &k->made);
        if (k->status != GAN_OK)
            snprintf(k->error, sizeof k->error, "%s", gan_error());
    }
    return NULL;
}

// The calling thread works too. The first failure in the order of tasks is the one that is told.
static GanStatus tasks_run(Tasks *t) {
    pthread_t thread[MOST_THREADS];
    uint32_t started = 0, wanted = (uint32_t)device_threads_for(0);
    pthread_mutex_init(&t->lock, NULL);
    wanted = wanted < MOST_THREADS ? wanted : MOST_THREADS;
    wanted = wanted < t->n ? wanted : t->n;
    while (started + 1 < wanted && pthread_create(&thread[started], NULL, work, t) == 0)
        started++;
    work(t);
    for (uint32_t i = 0; i < started; i++)
        pthread_join(thread[i], NULL);
    pthread_mutex_destroy(&t->lock);
    for (uint32_t i = 0; i < t->n; i++)
        if (t->task[i].status != GAN_OK)
            return fail(t->task[i].status, "%s", t->task[i].error);
    return GAN_OK;
}

static void tasks_release(Tasks *t) {
    for (uint32_t i = 0; i < t->n; i++)
        if (t->task[i].arena.beg)
            arena_release(&t->task[i].arena);
}

// --- what a task does ----------------------------------------------------------------------------

// Part i has every parts-th source: the heavy ones lie together.
static GanStatus make_ptx(const Tasks *t, uint32_t i, Arena *a, NvrtcImage *made) {
    NvrtcJob part = *t->job;
    Str *source = arena_array(a, Str, part.sources), *name = arena_array(a, Str, part.sources);
    part.sources = 0;
    for (uint32_t k = i; k < t->job->sources; k += t->parts) {
        source[part.sources] = t->job->source[k];
        name[part.sources++] = t->job->name[k];
    }
    part.source = source;
    part.name = name;
    part.ptx = true;
    part.report = false;
    return nvrtc_compile(t->nvrtc, a, &part, made);
}

static GanStatus make_cubin(const Tasks *t, uint32_t i, Arena *a, NvrtcImage *made) {
    NvrtcJob job = *t->job;
    job.arch = t->arch[i];
    return nvrtc_compile(t->nvrtc, a, &job, made);
}

// One of a link's texts.
static Str text_of(Arena *a, void *link, int (*size)(void *, size_t *),
                   int (*get)(void *, char *)) {
    size_t n = 0;
    if (size(link, &n) != OK || n == 0)
        return (Str){0};
    char *text = arena_alloc(a, n + 1, 1);
    return get(link, text) == OK ? str_c(text) : (Str){0};
}

static GanStatus link_all(const Tasks *t, void *link, int arch, Arena *a, NvrtcImage *made) {
    const Linker *l = t->linker;
    size_t n = 0;
    int result = OK;
    for (uint32_t i = 0; i < t->parts && result == OK; i++) {
        Str name = str_format(a, "part%u.ptx", i), ptx = t->ptx[i].made.code;
        result = l->add(link, INPUT_PTX, str_z(a, ptx), ptx.len + 1, name.ptr);
    }
    if (result == OK)
        result = l->complete(link);
    if (result == OK)
        result = l->cubin_size(link, &n);
    char *image = arena_alloc(a, n, 16);
    if (result == OK)
        result = l->cubin(link, image);
    if (result != OK)
        return fail(GAN_ERR_BUG, "nvJitLink refuses kernels for sm_%d: %.*s (%d)", arch,
                    SARG(text_of(a, link, l->errors_size, l->errors)), result);
    *made = (NvrtcImage){{image, n}, text_of(a, link, l->says_size, l->says)};
    return GAN_OK;
}

static GanStatus assemble(const Tasks *t, uint32_t i, Arena *a, NvrtcImage *made) {
    void *link = NULL;
    const char *option[] = {str_format(a, "-arch=sm_%d", t->arch[i]).ptr, "-Xptxas=-v"};
    int result = t->linker->create(&link, t->report ? 2 : 1, option);
    if (result != OK)
        return fail(GAN_ERR_DEVICE, "nvJitLink begins no link for sm_%d (%d)", t->arch[i], result);
    GanStatus st = link_all(t, link, t->arch[i], a, made);
    t->linker->destroy(&link);
    return st;
}

// --- all of it -----------------------------------------------------------------------------------

static uint32_t parts_of(const NvrtcJob *job) {
    uint32_t n = 1;
    while (n < MOST_PARTS && 2 * n * FEWEST <= job->sources)
        n *= 2;
    return n;
}

static GanStatus take(Tasks *t, Arena *a, NvrtcImage *out) {
    GanStatus st = tasks_run(t);
    for (uint32_t i = 0; i < t->n && st == GAN_OK; i++)
        out[i] = (NvrtcImage){str_copy(a, t->task[i].made.code), str_copy(a, t->task[i].made.log)};
    return st;
}

// Of architectures that share PTX, `common`'s.
static GanStatus through_ptx(const Nvrtc *n, const Linker *l, Arena *a, const NvrtcJob *job,
                             int common, const int *arch, uint32_t archs, NvrtcImage *out) {
    NvrtcJob shared = *job;
    shared.arch = common;
    Tasks ptx = {.nvrtc = n, .job = &shared, .run = make_ptx, .parts = parts_of(job)};
    ptx.n = ptx.parts;
    ptx.task = arena_array(a, Task, ptx.n);
    GanStatus st = tasks_run(&ptx);
    Tasks links = {.linker = l, .arch = arch, .run = assemble, .parts = ptx.parts, .n = archs};
    links.ptx = ptx.task;
    links.report = job->report;
    links.task = arena_array(a, Task, archs);
    if (st == GAN_OK)
        st = take(&links, a, out);
    tasks_release(&links);
    tasks_release(&ptx);
    return st;
}

// The same image for an architecture whichever others are asked for with it.
static GanStatus in_groups(const Nvrtc *n, const Linker *l, Arena *a, const NvrtcJob *job,
                           const int *arch, uint32_t archs, NvrtcImage *out) {
    uint32_t later = 0, *place = arena_array(a, uint32_t, archs);
    int *of = arena_array(a, int, archs);
    NvrtcImage *made = arena_array(a, NvrtcImage, archs);
    for (uint32_t i = 0; i < archs; i++) {
        if (arch[i] < COMMON)
            TRY(through_ptx(n, l, a, job, arch[i], &arch[i], 1, &out[i]));
        else {
            of[later] = arch[i];
            place[later++] = i;
        }
    }
    if (later)
        TRY(through_ptx(n, l, a, job, COMMON, of, later, made));
    for (uint32_t i = 0; i < later; i++)
        out[place[i]] = made[i];
    return GAN_OK;
}

GanStatus nvrtc_compile_archs(const Nvrtc *n, Arena *a, const NvrtcJob *job, const int *arch,
                              uint32_t archs, NvrtcImage *out) {
    Linker linker;
    if (linker_open(&linker)) {
        GanStatus st = in_groups(n, &linker, a, job, arch, archs, out);
        library_close(linker.library);
        return st;
    }
    Tasks t = {.nvrtc = n, .job = job, .arch = arch, .run = make_cubin, .n = archs};
    t.task = arena_array(a, Task, archs);
    GanStatus st = take(&t, a, out);
    tasks_release(&t);
    return st;
}
