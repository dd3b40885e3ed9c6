// cc.c - see cc.h.
#define _GNU_SOURCE
#include "cc.h"
#include "cache.h"
#include "process.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

// --- the compiler and the machine ----------------------------------------------------------------

// The first line the compiler says about itself; empty when it does not work.
static Str compiler_says(Arena *a, Str name) {
    const char *argv[] = {str_z(a, name), "--version", NULL};
    Str said;
    int code;
    if (process_run(a, argv, &said, &code) != GAN_OK || code != 0)
        return (Str){0};
    return str_sub(said, 0, str_find(said, '\n'));
}

// A program that goes by the name of a compiler is that compiler. A script is not known by its
// file, nor is ccache and the like: what they start may change while they do not.
static bool is_compiler(const char *file) {
    static const char elf[4] = {0x7f, 'E', 'L', 'F'};
    char magic[sizeof elf];
    const char *name = strrchr(file, '/');
    FILE *f = name && (strstr(name, "gcc") || strstr(name, "clang")) ? fopen(file, "rb") : NULL;
    bool is = f && fread(magic, 1, sizeof magic, f) == sizeof magic &&
              memcmp(magic, elf, sizeof elf) == 0;
    if (f)
        fclose(f);
    return is;
}

// The file behind the links of a compiler's name, and what changes when it does; empty when that
// does not tell.
static Str file_identity(Arena *a, Str path) {
    struct stat info;
    Str identity = {0};
    char *file = realpath(str_z(a, path), NULL);
    if (file && is_compiler(file) && stat(file, &info) == 0)
        identity = str_format(a, "%s %llu %lld %lld.%09ld %lld.%09ld", file,
                              (unsigned long long)info.st_ino, (long long)info.st_size,
                              (long long)info.st_mtim.tv_sec, info.st_mtim.tv_nsec,
                              (long long)info.st_ctim.tv_sec, info.st_ctim.tv_nsec);
    free(file);
    return identity;
}

static bool probe(Arena *a, Str name, Cc *out) {
    Str path;
    if (!process_find(a, name, &path))
        return false;
    *out = (Cc){.name = name, .build = file_identity(a, path)};
    if (!out->build.len)
        out->build = compiler_says(a, name);
    return out->build.len > 0;
}

// Of x86-64, then of ARM, where "CPU part" and its neighbours are the model.
static bool describes_processor(Str line) {
    return str_starts(line, STR("model name")) || str_starts(line, STR("flags")) ||
           str_starts(line, STR("CPU ")) || str_starts(line, STR("Features"));
}

Str cc_machine(Arena *a, Str cpuinfo) {
    Str line;
    Text t = {.arena = a};
    for (size_t at = 0; at < cpuinfo.len; at += line.len + 1) {
        line = str_sub(cpuinfo, at, at + str_find(str_sub(cpuinfo, at, cpuinfo.len), '\n'));
        if (!line.len)
            break;
        if (describes_processor(line))
            text_put(&t, line);
    }
    return text_str(&t);
}

static bool find(Arena *a, Str asked, Cc *out) {
    if (asked.len)
        return probe(a, asked, out);
    static const char *const usual[] = {"cc", "gcc", "clang"};
    for (size_t i = 0; i < sizeof usual / sizeof *usual; i++)
        if (probe(a, str_c(usual[i]), out))
            return true;
    return false;
}

bool cc_find(Arena *a, Str asked, Cc *out) {
    Str cpuinfo;
    if (!find(a, asked, out))
        return false;
    if (file_read(a, STR("/proc/cpuinfo"), &cpuinfo) == GAN_OK)
        out->machine = cc_machine(a, cpuinfo);
    return true;
}

Str cc_version(Arena *a) {
    Cc c;
    return find(a, (Str){0}, &c) ? compiler_says(a, c.name) : (Str){0};
}

// --- options -------------------------------------------------------------------------------------

// Products and sums are not contracted: where the compiler does that depends on what else is in a
// kernel, and ranks with shares of other sizes have other kernels around values they must agree on.
// Nothing here lets a compiler reorder sums, so the bits do not depend on the tier. Registers are
// not dealt out loop by loop, which takes a fifth of -Og's time and a little of -O3's, to no gain.
static const char *const common[] = {"-std=c17",
#ifdef __aarch64__
                                     "-mcpu=native", // -march=native would not tune for it
#else
                                     "-march=native",
#endif
                                     "--param=ira-max-loops-num=0",
                                     "-ffp-contract=off",
                                     "-fno-math-errno",
                                     "-fno-trapping-math",
                                     "-fPIC",
                                     "-shared",
                                     "-w",
                                     NULL};

// -Og takes a fifth of the time of -O3, -O1 near half of it; kernels are scalar code, and steps
// take 0.9 to 2 times as long (GCC 12, a busy machine; dcgan, aae3d, sngan, wgan_gp).
static const char *const quick[] = {"-Og", NULL};

// Of what -O3 does, some things are left out that make kernels longer and not faster: copies of a
// loop for each side of a condition, vectors of half the width for what is left of a row, and long
// loops written out. The compiler takes half to three quarters of the time, the kernels 0.88 to
// 0.96 (GCC 12, dcgan, aae3d, d3gan). Nor are turns of outer loops joined, nor registers dealt out
// by loop: 0.92 of what is left, the kernels 0.90 to 0.96 (aae3d, cyclegan).
static const char *const best[] = {"-O3",
                                   "-fno-unswitch-loops",
                                   "--param=vect-epilogues-nomask=0",
                                   "--param=max-completely-peeled-insns=100",
                                   "--param=unroll-jam-max-unroll=1",
                                   NULL};

static const char *const *const of_tier[] = {[TierQuick] = quick, [TierBest] = best};

Str cc_key(Arena *a, const Cc *c, Tier tier, Str prelude) {
    Text key = {.arena = a};
    const char *const *const all[] = {of_tier[tier], common};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        for (const char *const *flag = all[i]; *flag; flag++)
            text_fmt(&key, "%s\n", *flag);
    text_fmt(&key, "%.*s\n%.*s\n%.*s\n%.*s\n", SARG(c->name), SARG(c->build), SARG(c->machine),
             SARG(prelude));
    Str text = text_str(&key);
    return hash_hex(a, hash128(text.ptr, text.len));
}

// --- one unit ------------------------------------------------------------------------------------

typedef struct Job {
    const Cc *cc;
    Tier tier;
    Unit *unit;
    bool wait; // for another process that has claimed the unit
} Job;

static const char *const *unit_argv(const Job *job) {
    typedef VEC(const char *) Words;
    Unit *u = job->unit;
    Words v = {0};
    vec_push(&u->arena, &v, str_z(&u->arena, job->cc->name));
    for (const char *const *flag = of_tier[job->tier]; *flag; flag++)
        vec_push(&u->arena, &v, *flag);
    for (const char *const *flag = common; *flag; flag++)
        vec_push(&u->arena, &v, *flag);
    vec_push(&u->arena, &v, str_z(&u->arena, u->source));
    vec_push(&u->arena, &v, "-o");
    vec_push(&u->arena, &v, str_z(&u->arena, u->object));
    vec_push(&u->arena, &v, "-lm");
    vec_push(&u->arena, &v, NULL);
    return v.at;
}

static GanStatus unit_write(Unit *u) {
    Arena *a = &u->arena;
    Str stem = str_format(a, "%.*s.%ld-%zx", SARG(u->path), (long)getpid(), (size_t)(uintptr_t)u);
    Str text = text_str(&u->text);
    u->source = str_format(a, "%.*s.c", SARG(stem));
    u->object = str_format(a, "%.*s.o", SARG(stem));
    return file_write_atomic(u->source, text.ptr, text.len);
}

// What the compiler made; where it failed, the source stays, to be looked at.
static GanStatus unit_take(const Job *job, int code, Str said) {
    Unit *u = job->unit;
    Str image, start = str_sub(said, 0, 1200);
    if (code != 0) // a source that has gone was removed by somebody else
        return fail(file_exists(u->source) ? GAN_ERR_DEVICE : GAN_ERR_IO,
                    "%.*s could not compile %.*s (exit code %d):\n%.*s", SARG(job->cc->name),
                    SARG(u->source), code, SARG(start));
    TRY(file_read(&u->arena, u->object, &image));
    TRY(file_remove(u->object));
    TRY(file_remove(u->source));
    return sealed_write(&u->arena, u->path, image);
}

// Seconds after which another process with a claim is taken to be stopped, and its work done here:
// what a run begins with, and better code.
static const double ClaimPatience[] = {[TierQuick] = 10, [TierBest] = 60};

void pause_briefly(void) {
    nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
}

// True: to be compiled here. False: another process has made it, or (Unit.waits) is about to.
static bool unit_claim(const Job *job) {
    Unit *u = job->unit;
    double until = time_now() + ClaimPatience[TierQuick];
    u->waits = false;
    while (!cache_claim(u->path, &u->claim)) {
        if (sealed_intact(u->path))
            return false;
        u->waits = !job->wait;
        if (u->waits || time_now() > until)
            return !u->waits;
        pause_briefly();
    }
    return !sealed_intact(u->path); // it may have been made just before the claim was free
}

static GanStatus build(void *user) {
    const Job *job = user;
    Str said;
    int code;
    if (!unit_claim(job))
        return GAN_OK;
    TRY(unit_write(job->unit));
    TRY(process_run(&job->unit->arena, unit_argv(job), &said, &code));
    return unit_take(job, code, said);
}

static GanStatus start(void *user) {
    const Job *job = user;
    Unit *u = job->unit;
    bool waited = u->waits;
    u->waits = false;
    if (sealed_intact(u->path)) // another process was as quick
        return GAN_OK;
    u->since = waited ? u->since : time_now();
    if (!cache_claim(u->path, &u->claim) && time_now() - u->since < ClaimPatience[TierBest]) {
        u->waits = true;
        return GAN_OK;
    }
    if (sealed_intact(u->path))
        return GAN_OK;
    TRY(unit_write(u));
    return process_start(unit_argv(job), &u->pid);
}

static GanStatus take(void *user) {
    return unit_take(user, ((Job *)user)->unit->code, (Str){0});
}

GanStatus unit_build(const Cc *c, Tier tier, bool wait, Unit *u) {
    GanStatus st = arena_guard(&u->arena, "to compile kernels", build, &(Job){c, tier, u, wait});
    cache_unclaim(u->path, &u->claim);
    return st;
}

GanStatus unit_start(const Cc *c, Tier tier, Unit *u) {
    GanStatus st = arena_guard(&u->arena, "to compile kernels", start, &(Job){c, tier, u, false});
    if (!u->pid)
        cache_unclaim(u->path, &u->claim);
    return st;
}

bool unit_ended(const Cc *c, Tier tier, Unit *u) {
    if (u->waits) {
        u->status = unit_start(c, tier, u);
        if (u->waits && u->status == GAN_OK)
            return false;
    }
    if (!u->pid)
        return true;
    if (!process_ended(u->pid, false, &u->code))
        return false;
    u->pid = 0;
    u->status = arena_guard(&u->arena, "to compile kernels", take, &(Job){c, tier, u, false});
    cache_unclaim(u->path, &u->claim);
    return true;
}

void unit_release(Unit *u) {
    if (u->pid) {
        process_kill(u->pid);
        file_remove(u->object);
        file_remove(u->source);
    }
    cache_unclaim(u->path, &u->claim);
    arena_release(&u->arena);
    *u = (Unit){0};
}
