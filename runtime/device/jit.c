// jit.c - kernel text to functions: one translation unit per core through the machine's C compiler
// (cc.h), and a cache on disk.
//
// Ranks of one machine load the same kernels. They cut these into units for all their cores, and
// each begins with units of its own: one that another rank has claimed is left to it, and awaited
// at the end.
//
// In: C functions behind a common prelude. Out: addresses. A unit is kept under everything that
// decides its bytes: text, flags, compiler, processor (cache.h). So is a link to it for each of its
// kernels: a program that differs a little from one that has run, or another function of the same
// one, compiles what is new.
//
// What is new is compiled twice: quickly, so that a run begins, and well, in the background, once
// the run has lasted for a while. Both give the same bits (cc.c), so functions may move whenever
// none of them runs. A few kernels are compiled well at once: those of initial values run only
// once, but draw every weight, which takes ten times as long in scalar code.
//
// The loader ignores the seal behind an ELF image. Several threads may load at once: of a Jit that
// is open only what its lock guards changes.
#define _GNU_SOURCE
#include "cache.h"
#include "cc.h"
#include "device.h"
#include "temporary.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum {
    MOST_AT_ONCE = 16, // units that are compiled together
    SMALL = 1 << 13,   // bytes of kernels' text that are not worth a split, nor two tiers
    MOST_FOUND = 64,   // units of a tier that a program's kernels may be spread over
    MOST_UNITS = 2 * (MOST_FOUND + MOST_AT_ONCE),
    NOWHERE = UINT8_MAX, // a kernel that no unit has
};
static_assert(MOST_UNITS <= NOWHERE, "units are numbered in a byte");

static const double Patience = 0.5; // seconds of a run until kernels are worth a better compilation

struct Jit {
    Arena arena;
    Cc cc;
    int threads; // units that this process compiles at once
    int units;   // into which kernels are dealt: of all processes with the same work
    int first;   // the one this process begins with
    Str dir;     // cache folder, ours and private
    DeviceOptions options;
    pthread_mutex_t lock; // of what follows: several threads may load
    TemporaryDir aside;   // where kernels lie that are not kept; empty until one is
    bool told;            // that some are not
};

struct JitCode {
    Arena arena; // what is pointed to
    const Jit *jit;
    Str dir; // the cache's folder, or aside
    uint32_t n;
    uint8_t *of;    // [n] the unit that has the kernel
    uint8_t *later; // [n] the one of best[] that will have it, or NOWHERE
    Str *link;      // [n] where the cache has it, compiled well
    uint32_t units;
    Str path[MOST_UNITS];
    void *handle[MOST_UNITS]; // the loader's
    Unit best[MOST_AT_ONCE];  // compiled in the background
    uint32_t bests, unfinished;
    double due; // when the first is to be started
};

// --- the cache folder, and one for what is not kept ---------------------------------------------

static void tell_not_kept(Jit *j, const char *why) {
    if (!j->told && j->options.notice)
        j->options.notice(j->options.user,
                          str_format(&j->arena, "compiled kernels are not kept: %s", why).ptr);
    j->told = true;
}

static GanStatus make_aside(Jit *j) {
    return j->aside.lock ? GAN_OK
                         : temporary_make(&j->arena, STR("/tmp"), STR(CACHE_ASIDE), &j->aside);
}

static GanStatus open_dir(Jit *j) {
    const DeviceOptions *o = &j->options;
    if (o->cache_dir.len && cache_dir(&j->arena, o->cache_dir, o->cache_limit) == GAN_OK) {
        j->dir = str_copy(&j->arena, o->cache_dir);
        return GAN_OK;
    }
    if (o->cache_dir.len)
        tell_not_kept(j, str_format(&j->arena, "%s; " CACHE_ELSEWHERE, gan_error()).ptr);
    TRY(make_aside(j));
    j->dir = j->aside.path;
    return GAN_OK;
}

GanStatus jit_open(const DeviceOptions *o, Jit **out) {
    *out = NULL;
    Jit *j = mem_alloc(sizeof *j);
    if (!j)
        return fail(GAN_ERR_MEMORY, "no memory for the kernel compiler");
    GanStatus st = arena_init(&j->arena, (size_t)1 << 30);
    if (st != GAN_OK) {
        mem_free(j);
        return st;
    }
    if (pthread_mutex_init(&j->lock, NULL) != 0) {
        arena_release(&j->arena);
        mem_free(j);
        return fail(GAN_ERR_MEMORY, "no memory for the kernel compiler");
    }
    j->options = *o;
    j->threads = device_threads_for(o->threads);
    j->units = j->threads * (o->peers > 1 ? o->peers : 1);
    if (j->units > MOST_AT_ONCE)
        j->units = MOST_AT_ONCE;
    j->first = j->threads * o->peer % j->units;
    if (!cc_find(&j->arena, o->compiler, &j->cc)) {
        jit_close(j);
        return GAN_OK;
    }
    st = open_dir(j);
    if (st == GAN_OK)
        *out = j;
    else
        jit_close(j);
    return st;
}

void jit_close(Jit *j) {
    if (!j)
        return;
    temporary_remove(&j->aside);
    pthread_mutex_destroy(&j->lock);
    arena_release(&j->arena);
    mem_free(j);
}

// --- kernels and units ---------------------------------------------------------------------------

typedef struct Loading {
    JitCode *code;
    Str prelude;
    const JitKernel *kernel; // [code->n], borrowed
    Unit quick[MOST_AT_ONCE];
} Loading;

// Loads a unit that the cache has, as the last.
static GanStatus unit_add(JitCode *c, Str path) {
    void *handle = dlopen(str_z(&c->arena, path), RTLD_NOW | RTLD_LOCAL);
    if (!handle)
        return fail(file_exists(path) ? GAN_ERR_DEVICE : GAN_ERR_IO,
                    "cannot load compiled kernels: %s; where this folder may hold no programs "
                    "(noexec), --cache DIR names another",
                    dlerror());
    c->path[c->units] = path;
    c->handle[c->units++] = handle;
    return GAN_OK;
}

// Looks for a kernel's code in the unit that `link` leads to. `first`: of the tier's units.
static GanStatus kernel_find(JitCode *c, uint32_t k, Str link, uint32_t first) {
    uint32_t units = c->units - first;
    uint32_t at = cache_find(&c->arena, link, c->path + first, &units, MOST_FOUND);
    if (at == NONE)
        return GAN_OK;
    if (first + at == c->units) {
        Str path = c->path[c->units];
        GanStatus st = unit_add(c, path);
        if (st != GAN_OK) // unless it was pruned in between
            return st == GAN_ERR_IO ? GAN_OK : st;
    }
    c->of[k] = (uint8_t)(first + at);
    return GAN_OK;
}

static GanStatus kernels_find(Loading *l, Str key, Str *link) {
    JitCode *c = l->code;
    uint32_t first = c->units;
    for (uint32_t k = 0; k < c->n; k++) {
        if (c->of[k] != NOWHERE)
            continue;
        link[k] = cache_path_of(&c->arena, c->dir, key, l->kernel[k].source, ".kernel");
        TRY(kernel_find(c, k, link[k], first));
    }
    return GAN_OK;
}

static void unit_append(Unit *u, Str source) {
    text_put(&u->text, source);
    text_char(&u->text, '\n');
}

static size_t missing_length(const Loading *l) {
    size_t length = 0;
    for (uint32_t k = 0; k < l->code->n; k++)
        length += l->code->of[k] == NOWHERE ? l->kernel[k].source.len : 0;
    return length;
}

// Deals the kernels that are nowhere out over *n new units, whose texts are about equally long:
// to[k] is that of kernel k.
static GanStatus kernels_deal(Loading *l, Str key, Unit *u, uint32_t *n, uint8_t *to) {
    JitCode *c = l->code;
    size_t length = missing_length(l);
    size_t most = (length + SMALL - 1) / SMALL;
    *n = most < (size_t)c->jit->units ? (uint32_t)most : (uint32_t)c->jit->units;
    for (uint32_t i = 0; i < *n; i++) {
        TRY(arena_init(&u[i].arena, (size_t)1 << 30));
        u[i].arena.oom = c->arena.oom;
        u[i].text.arena = &u[i].arena;
        text_put(&u[i].text, l->prelude);
    }
    for (uint32_t k = 0; k < c->n; k++) {
        uint8_t least = 0;
        to[k] = NOWHERE;
        if (c->of[k] != NOWHERE)
            continue;
        for (uint8_t i = 1; i < *n; i++)
            if (u[i].text.n < u[least].text.n)
                least = i;
        unit_append(&u[least], l->kernel[k].source);
        to[k] = least;
    }
    for (uint32_t i = 0; i < *n; i++) {
        u[i].path = cache_path_of(&c->arena, c->dir, key, text_str(&u[i].text), ".so");
        u[i].arena.oom = NULL;
    }
    return GAN_OK;
}

// The kernels that were dealt to a unit have it; it is in the cache.
static GanStatus unit_adopt(JitCode *c, const Unit *u, uint8_t dealt, const uint8_t *to,
                            const Str *link) {
    TRY(unit_add(c, u->path));
    for (uint32_t k = 0; k < c->n; k++) {
        if (to[k] != dealt)
            continue;
        c->of[k] = (uint8_t)(c->units - 1);
        cache_link(&c->arena, link[k], u->path);
    }
    return GAN_OK;
}

// --- quickly, to begin with ----------------------------------------------------------------------

// The k-th of n units in the order of this process.
static uint32_t turn(const Jit *j, uint32_t k, uint32_t n) {
    return ((uint32_t)j->first + k) % n;
}

// Those that `wanted` says; without `wait`, those that other processes have claimed are left.
static void units_visit(const Jit *j, Tier tier, Unit *u, uint32_t n, const bool *wanted,
                        bool wait) {
    int team = 0;
    for (uint32_t i = 0; i < n; i++)
        team += wanted[i];
    if (!team)
        return; // no team is started where there is nothing to do
    team = team < j->threads ? team : j->threads;
#pragma omp parallel for num_threads(team) schedule(dynamic, 1)
    for (uint32_t k = 0; k < n; k++) {
        uint32_t i = turn(j, k, n);
        if (!wanted[i])
            continue;
        u[i].status = unit_build(&j->cc, tier, wait, &u[i]);
        if (u[i].status != GAN_OK)
            snprintf(u[i].error, sizeof u[i].error, "%s", gan_error());
    }
}

static GanStatus units_build(const Jit *j, Tier tier, Unit *u, uint32_t n) {
    bool missing[MOST_AT_ONCE], left[MOST_AT_ONCE];
    for (uint32_t i = 0; i < n; i++)
        missing[i] = !sealed_intact(u[i].path);
    units_visit(j, tier, u, n, missing, false);
    for (uint32_t i = 0; i < n; i++)
        left[i] = u[i].waits;
    units_visit(j, tier, u, n, left, true);
    for (uint32_t i = 0; i < n; i++)
        if (u[i].status != GAN_OK)
            return fail(u[i].status, "%s%s", u[i].error,
                        u[i].status == GAN_ERR_IO ? "; --cache DIR keeps kernels elsewhere" : "");
    return GAN_OK;
}

static GanStatus load_quick(Loading *l) {
    JitCode *c = l->code;
    Str key = cc_key(&c->arena, &c->jit->cc, TierQuick, l->prelude);
    Str *link = arena_array(&c->arena, Str, c->n);
    uint8_t *to = arena_array(&c->arena, uint8_t, c->n);
    uint32_t n;
    TRY(kernels_find(l, key, link));
    TRY(kernels_deal(l, key, l->quick, &n, to));
    TRY(units_build(c->jit, TierQuick, l->quick, n));
    for (uint8_t i = 0; i < n; i++)
        TRY(unit_adopt(c, &l->quick[i], i, to, link));
    return GAN_OK;
}

// --- well, in the background ---------------------------------------------------------------------

// A unit of best[] that has been compiled, or was there: its kernels move.
static GanStatus best_adopt(JitCode *c, uint8_t i) {
    TRY(unit_adopt(c, &c->best[i], i, c->later, c->link));
    unit_release(&c->best[i]);
    c->unfinished--;
    return GAN_OK;
}

typedef struct Poll {
    JitCode *code;
    bool wait, moved;
} Poll;

// As many compilers as there are threads.
static GanStatus best_start(JitCode *c) {
    int running = 0;
    for (uint32_t i = 0; i < c->bests; i++)
        running += c->best[i].pid != 0;
    for (uint32_t k = 0; k < c->bests && running < c->jit->threads; k++) {
        Unit *u = &c->best[turn(c->jit, k, c->bests)];
        if (!u->path.len || u->started)
            continue;
        u->started = true;
        TRY(unit_start(&c->jit->cc, TierBest, u));
        running += u->pid != 0;
    }
    return GAN_OK;
}

static GanStatus best_take(Poll *p) {
    JitCode *c = p->code;
    for (uint8_t i = 0; i < c->bests; i++) {
        Unit *u = &c->best[i];
        if (!u->started || !unit_ended(&c->jit->cc, TierBest, u))
            continue;
        TRY(u->status);
        TRY(best_adopt(c, i));
        p->moved = true;
    }
    return GAN_OK;
}

static GanStatus best_poll(void *user) {
    Poll *p = user;
    for (;;) {
        TRY(best_start(p->code));
        TRY(best_take(p));
        if (!p->wait || !p->code->unfinished)
            return GAN_OK;
        pause_briefly();
    }
}

static void best_stop(JitCode *c) {
    for (uint32_t i = 0; i < c->bests; i++)
        unit_release(&c->best[i]);
    c->bests = c->unfinished = 0;
}

GanStatus jit_improve(JitCode *c, bool wait, bool *moved) {
    *moved = false;
    if (!c->unfinished || (!wait && time_now() < c->due))
        return GAN_OK;
    Poll p = {c, wait, false};
    GanStatus st = arena_guard(&c->arena, "for compiled kernels", best_poll, &p);
    *moved = p.moved;
    if (st != GAN_OK)
        best_stop(c);
    return st;
}

// --- all of it -----------------------------------------------------------------------------------

static GanStatus load(void *user) {
    Loading *l = user;
    JitCode *c = l->code;
    Str key = cc_key(&c->arena, &c->jit->cc, TierBest, l->prelude);
    c->of = arena_array(&c->arena, uint8_t, c->n);
    c->later = arena_array(&c->arena, uint8_t, c->n);
    c->link = arena_array(&c->arena, Str, c->n);
    memset(c->of, NOWHERE, c->n);
    TRY(kernels_find(l, key, c->link));
    bool few = missing_length(l) < SMALL;
    TRY(kernels_deal(l, key, c->best, &c->bests, c->later));
    c->unfinished = c->bests;
    if (few)
        TRY(units_build(c->jit, TierBest, c->best, c->bests));
    for (uint8_t i = 0; i < c->bests; i++)
        if (few || sealed_intact(c->best[i].path)) // where links could not be made
            TRY(best_adopt(c, i));
    if (c->unfinished)
        TRY(load_quick(l));
    c->due = time_now() + Patience;
    return GAN_OK;
}

static GanStatus try_to_load(const Jit *j, Str dir, Str prelude, const JitKernel *kernel,
                             uint32_t n, JitCode **out) {
    *out = NULL;
    Loading *l = mem_alloc(sizeof *l);
    JitCode *c = mem_alloc(sizeof *c);
    GanStatus st = fail(GAN_ERR_MEMORY, "no memory for compiled kernels");
    if (l && c) {
        *l = (Loading){.code = c, .prelude = prelude, .kernel = kernel};
        c->jit = j;
        c->dir = dir;
        c->n = n;
        st = arena_init(&c->arena, (size_t)1 << 30);
        if (st == GAN_OK)
            st = arena_guard(&c->arena, "for compiled kernels", load, l);
        for (int i = 0; i < MOST_AT_ONCE; i++)
            unit_release(&l->quick[i]);
    }
    mem_free(l);
    if (st == GAN_OK)
        *out = c;
    else
        jit_free(c);
    return st;
}

// Somebody may empty the cache, or remove its folder, while kernels are compiled there.
static GanStatus load_in(const Jit *j, Str dir, Str prelude, const JitKernel *kernel, uint32_t n,
                         JitCode **out) {
    enum { TRIES = 3 };
    GanStatus st = try_to_load(j, dir, prelude, kernel, n, out);
    for (int i = 1; i < TRIES && st == GAN_ERR_IO; i++) {
        cache_dir_make(dir);
        st = try_to_load(j, dir, prelude, kernel, n, out);
    }
    return st;
}

// Where the cache's disk is full, its owner's quota used up, or nothing may be run in its folder, a
// compiler and a loader fail as they do by mistakes of ours, which fail anywhere.
GanStatus jit_load(Jit *j, Str prelude, const JitKernel *kernel, uint32_t n, JitCode **out) {
    char why[2048];
    GanStatus st = load_in(j, j->dir, prelude, kernel, n, out);
    if (st != GAN_ERR_IO && st != GAN_ERR_DEVICE)
        return st;
    snprintf(why, sizeof why, "%s", gan_error());
    pthread_mutex_lock(&j->lock);
    bool elsewhere = j->dir.ptr != j->aside.path.ptr && make_aside(j) == GAN_OK;
    pthread_mutex_unlock(&j->lock);
    if (!elsewhere || load_in(j, j->aside.path, prelude, kernel, n, out) != GAN_OK)
        return fail(st, "%s", why);
    pthread_mutex_lock(&j->lock);
    tell_not_kept(j, why);
    pthread_mutex_unlock(&j->lock);
    return GAN_OK;
}

void jit_free(JitCode *c) {
    if (!c)
        return;
    best_stop(c);
    for (uint32_t i = 0; i < c->units; i++)
        dlclose(c->handle[i]);
    arena_release(&c->arena);
    mem_free(c);
}

void *jit_find(const JitCode *c, uint32_t k, const char *name) {
    return dlsym(c->handle[c->of[k]], name);
}
