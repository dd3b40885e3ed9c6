// jit.c - kernel text to functions: the machine's C compiler, one translation unit per core, and a
// cache on disk.
//
// In: C functions behind a common prelude. Out: addresses. A unit is kept under everything that
// decides its bytes: text, flags, compiler, processor (cache.h). So is a link to it for each of its
// kernels: a program that differs a little from one that has run, or another function of the same
// one, compiles what is new. A gcc or clang is known by its file, for asking it takes as long as
// loading all kernels; anything else is asked. The loader ignores the seal behind an ELF image.
// Several threads may load at once: a Jit does not change once it is open.
#define _GNU_SOURCE
#include "cache.h"
#include "device.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

// Of what -O3 does, some things are left out that make kernels longer and not faster: copies of a
// loop for each side of a condition, vectors of half the width for what is left of a row, and long
// loops written out. The compiler takes half to three quarters of the time, the kernels 0.88 to
// 0.96 (GCC 12, dcgan, aae3d, d3gan). Nor are registers dealt out loop by loop, nor turns of outer
// loops joined: 0.92 of what is left, the kernels 0.90 to 0.96 (aae3d, cyclegan).
// Products and sums are not contracted: where the compiler does that depends on what else is in a
// kernel, and ranks with shares of other sizes have other kernels around values they must agree on.
static const char *const flags[] = {
    "-std=c17",
    "-O3",
    "-fno-unswitch-loops",
    "--param=vect-epilogues-nomask=0",
    "--param=max-completely-peeled-insns=100",
    "--param=ira-max-loops-num=0",
    "--param=unroll-jam-max-unroll=1",
    "-march=native",
    "-ffp-contract=off",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-fPIC",
    "-shared",
    "-w",
};
enum {
    FLAGS = sizeof flags / sizeof *flags,
    MOST_AT_ONCE = 16,    // units that are compiled together
    SMALL_UNIT = 1 << 13, // bytes of text that are not worth a split
    MOST_FOUND = 64,      // units that a program's kernels may be spread over
};

typedef struct Compiler {
    Str name;  // as it is started
    Str build; // what tells it from its other versions
} Compiler;

struct Jit {
    Arena arena;
    Compiler compiler;
    Str machine;    // processor: model and features
    int units;      // compiled at once
    Str dir;        // cache folder, ours and private
    bool temporary; // it is removed with the Jit
};

struct JitCode {
    uint32_t n;
    void *unit[MOST_FOUND + MOST_AT_ONCE]; // the loader's handles
    uint8_t of[];                          // [kernels] where each is
};

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

static bool probe(Arena *a, Str name, Compiler *out) {
    Str path;
    if (!process_find(a, name, &path))
        return false;
    *out = (Compiler){name, file_identity(a, path)};
    if (!out->build.len)
        out->build = compiler_says(a, name);
    return out->build.len > 0;
}

static bool find_compiler(Arena *a, Str asked, Compiler *out) {
    if (asked.len)
        return probe(a, asked, out);
    static const char *const usual[] = {"cc", "gcc", "clang"};
    for (size_t i = 0; i < sizeof usual / sizeof *usual; i++)
        if (probe(a, str_c(usual[i]), out))
            return true;
    return false;
}

Str jit_compiler(Arena *a) {
    Compiler c;
    return find_compiler(a, (Str){0}, &c) ? compiler_says(a, c.name) : (Str){0};
}

// The lines of the first processor that decide what -march=native means.
static Str machine_text(Arena *a) {
    Str all, line;
    Text t = {.arena = a};
    if (file_read(a, STR("/proc/cpuinfo"), &all) != GAN_OK)
        return (Str){0};
    for (size_t at = 0; at < all.len; at += line.len + 1) {
        line = str_sub(all, at, at + str_find(str_sub(all, at, all.len), '\n'));
        if (!line.len)
            break;
        if (str_starts(line, STR("model name")) || str_starts(line, STR("flags")) ||
            str_starts(line, STR("Features")))
            text_put(&t, line);
    }
    return text_str(&t);
}

// --- the cache folder ----------------------------------------------------------------------------

static GanStatus open_dir(Jit *j, const DeviceOptions *o) {
    if (o->cache_dir.len && cache_dir(&j->arena, o->cache_dir) == GAN_OK) {
        j->dir = str_copy(&j->arena, o->cache_dir);
        return GAN_OK;
    }
    if (o->cache_dir.len && o->notice)
        o->notice(o->user,
                  str_format(&j->arena, "compiled kernels are not kept: %s", gan_error()).ptr);
    char name[] = "/tmp/gan-XXXXXX";
    if (!mkdtemp(name))
        return fail(GAN_ERR_IO, "cannot make a folder in /tmp for compiled kernels: %s",
                    strerror(errno));
    j->dir = str_copy(&j->arena, STR(name));
    j->temporary = true;
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
    j->units = device_threads_for(o->threads);
    if (j->units > MOST_AT_ONCE)
        j->units = MOST_AT_ONCE;
    if (!find_compiler(&j->arena, o->compiler, &j->compiler)) {
        jit_close(j);
        return GAN_OK;
    }
    j->machine = machine_text(&j->arena);
    st = open_dir(j, o);
    if (st == GAN_OK)
        *out = j;
    else
        jit_close(j);
    return st;
}

void jit_close(Jit *j) {
    if (!j)
        return;
    if (j->temporary) {
        StrVec names = {0};
        if (dir_list(&j->arena, j->dir, &names) == GAN_OK)
            for (uint32_t i = 0; i < names.n; i++)
                file_remove(path_join(&j->arena, j->dir, names.at[i]));
        rmdir(str_z(&j->arena, j->dir));
    }
    arena_release(&j->arena);
    mem_free(j);
}

// --- one unit ------------------------------------------------------------------------------------

typedef struct Unit {
    Arena arena; // its own: units are built by several threads
    Text text;
    Str path;
    bool kept; // in the cache
    GanStatus status;
    char error[2000]; // of a failed build
} Unit;

// What decides the machine code of a text, but for that text.
static Str common_key(Arena *a, const Jit *j, Str prelude) {
    Text key = {.arena = a};
    for (int i = 0; i < FLAGS; i++)
        text_fmt(&key, "%s\n", flags[i]);
    text_fmt(&key, "%.*s\n%.*s\n%.*s\n%.*s\n", SARG(j->compiler.name), SARG(j->compiler.build),
             SARG(j->machine), SARG(prelude));
    Str all = text_str(&key);
    return hash_hex(a, hash128(all.ptr, all.len));
}

static Str key_path(Arena *a, const Jit *j, Str common, Str text, const char *ext) {
    Str own = hash_hex(a, hash128(text.ptr, text.len));
    return cache_path(a, j->dir, str_format(a, "%.*s %.*s", SARG(common), SARG(own)), ext);
}

// Runs the compiler from `source` to `object`.
static GanStatus unit_compile(const Jit *j, Unit *u, Str source, Str object) {
    const char *argv[FLAGS + 6] = {str_z(&u->arena, j->compiler.name)};
    memcpy(argv + 1, flags, sizeof flags);
    argv[FLAGS + 1] = str_z(&u->arena, source);
    argv[FLAGS + 2] = "-o";
    argv[FLAGS + 3] = str_z(&u->arena, object);
    argv[FLAGS + 4] = "-lm";
    Str said;
    int code;
    TRY(process_run(&u->arena, argv, &said, &code));
    if (code == 0)
        return GAN_OK;
    Str start = str_sub(said, 0, 1200);
    return fail(GAN_ERR_DEVICE, "%.*s could not compile %.*s (exit code %d):\n%.*s",
                SARG(j->compiler.name), SARG(source), code, SARG(start));
}

typedef struct Making {
    const Jit *j;
    Unit *u;
} Making;

static GanStatus unit_make(void *user) {
    const Jit *j = ((Making *)user)->j;
    Unit *u = ((Making *)user)->u;
    Arena *a = &u->arena;
    Str stem = str_format(a, "%.*s.%ld-%zx", SARG(u->path), (long)getpid(), (size_t)(uintptr_t)u);
    Str source = str_format(a, "%.*s.c", SARG(stem)), object = str_format(a, "%.*s.o", SARG(stem));
    Str text = text_str(&u->text), image;
    TRY(file_write_atomic(source, text.ptr, text.len));
    TRY(unit_compile(j, u, source, object)); // on failure the source stays, to be looked at
    TRY(file_read(a, object, &image));
    TRY(file_remove(object));
    TRY(file_remove(source));
    return sealed_write(a, u->path, image);
}

static GanStatus unit_build(const Jit *j, Unit *u) {
    return arena_guard(&u->arena, "to compile kernels", unit_make, &(Making){j, u});
}

// --- all kernels ---------------------------------------------------------------------------------

typedef struct Loading {
    const Jit *j;
    Str prelude;
    const JitKernel *kernel; // [n], borrowed
    uint32_t n;
    Arena arena;
    Str common; // key
    Str *link;  // [n] to the unit that has the kernel
    Str *path;  // [code->n] units
    Unit unit[MOST_AT_ONCE];
    JitCode *code;
} Loading;

enum { NOWHERE = UINT8_MAX }; // JitCode.of: not compiled yet
static_assert(MOST_FOUND + MOST_AT_ONCE <= NOWHERE, "units are numbered in a byte");

// Notes where the cache has a kernel.
static void kernel_find(Loading *l, uint32_t k) {
    JitCode *c = l->code;
    Str path;
    uint32_t at = 0;
    l->link[k] = key_path(&l->arena, l->j, l->common, l->kernel[k].source, ".kernel");
    c->of[k] = NOWHERE;
    if (!cache_follow(&l->arena, l->link[k], &path))
        return;
    while (at < c->n && !str_eq(l->path[at], path))
        at++;
    if (at == MOST_FOUND || (at == c->n && !sealed_intact(path)))
        return;
    if (at == c->n)
        l->path[c->n++] = path;
    c->of[k] = (uint8_t)at;
}

// Deals the kernels that are nowhere out over *n new units whose texts are about equally long.
static GanStatus units_fill(Loading *l, uint32_t *n) {
    JitCode *c = l->code;
    Unit *u = l->unit;
    size_t length = 0;
    for (uint32_t k = 0; k < l->n; k++)
        length += c->of[k] == NOWHERE ? l->kernel[k].source.len : 0;
    *n = length < SMALL_UNIT ? length > 0 : (uint32_t)l->j->units;
    for (uint32_t i = 0; i < *n; i++) {
        TRY(arena_init(&u[i].arena, (size_t)1 << 30));
        u[i].arena.oom = l->arena.oom;
        u[i].text.arena = &u[i].arena;
        text_put(&u[i].text, l->prelude);
    }
    for (uint32_t k = 0; k < l->n; k++) {
        uint32_t least = 0;
        if (c->of[k] != NOWHERE)
            continue;
        for (uint32_t i = 1; i < *n; i++)
            if (u[i].text.n < u[least].text.n)
                least = i;
        text_put(&u[least].text, l->kernel[k].source);
        text_char(&u[least].text, '\n');
        c->of[k] = (uint8_t)(c->n + least);
    }
    return GAN_OK;
}

static GanStatus units_build(const Jit *j, Unit *u, uint32_t n) {
    int missing = 0;
    for (uint32_t i = 0; i < n; i++)
        missing += !(u[i].kept = sealed_intact(u[i].path));
    if (!missing)
        return GAN_OK; // no team is started where there is nothing to do
#pragma omp parallel for num_threads(missing) schedule(dynamic, 1)
    for (uint32_t i = 0; i < n; i++) {
        u[i].status = u[i].kept ? GAN_OK : unit_build(j, &u[i]);
        if (u[i].status != GAN_OK)
            snprintf(u[i].error, sizeof u[i].error, "%s", gan_error());
    }
    for (uint32_t i = 0; i < n; i++)
        if (u[i].status != GAN_OK)
            return fail(u[i].status, "%s%s", u[i].error,
                        u[i].status == GAN_ERR_IO ? "; --cache DIR keeps kernels elsewhere" : "");
    return GAN_OK;
}

static GanStatus kernels_compile(Loading *l) {
    JitCode *c = l->code;
    uint32_t found = c->n, n;
    TRY(units_fill(l, &n));
    for (uint32_t i = 0; i < n; i++) {
        l->unit[i].path = key_path(&l->arena, l->j, l->common, text_str(&l->unit[i].text), ".so");
        l->path[c->n++] = l->unit[i].path;
    }
    TRY(units_build(l->j, l->unit, n));
    for (uint32_t k = 0; k < l->n; k++)
        if (c->of[k] >= found)
            cache_link(&l->arena, l->link[k], l->path[c->of[k]]);
    return GAN_OK;
}

static GanStatus units_open(Loading *l) {
    JitCode *c = l->code;
    for (uint32_t i = 0; i < c->n; i++) {
        c->unit[i] = dlopen(str_z(&l->arena, l->path[i]), RTLD_NOW | RTLD_LOCAL);
        if (!c->unit[i])
            return fail(GAN_ERR_DEVICE,
                        "cannot load compiled kernels: %s; where this folder may hold no programs "
                        "(noexec), --cache DIR names another",
                        dlerror());
    }
    return GAN_OK;
}

static GanStatus kernels_load(void *user) {
    Loading *l = user;
    l->common = common_key(&l->arena, l->j, l->prelude);
    l->link = arena_array(&l->arena, Str, l->n);
    l->path = arena_array(&l->arena, Str, MOST_FOUND + MOST_AT_ONCE);
    for (uint32_t k = 0; k < l->n; k++)
        kernel_find(l, k);
    TRY(kernels_compile(l));
    return units_open(l);
}

GanStatus jit_load(const Jit *j, Str prelude, const JitKernel *kernel, uint32_t n, JitCode **out) {
    *out = NULL;
    Loading *l = mem_alloc(sizeof *l);
    JitCode *code = mem_alloc(sizeof *code + n);
    GanStatus st = fail(GAN_ERR_MEMORY, "no memory for compiled kernels");
    if (l && code) {
        *l = (Loading){.j = j, .prelude = prelude, .kernel = kernel, .n = n, .code = code};
        st = arena_init(&l->arena, (size_t)1 << 30);
        if (st == GAN_OK)
            st = arena_guard(&l->arena, "for compiled kernels", kernels_load, l);
        for (int i = 0; i < MOST_AT_ONCE; i++)
            arena_release(&l->unit[i].arena);
        arena_release(&l->arena);
    }
    mem_free(l);
    if (st == GAN_OK)
        *out = code;
    else
        jit_free(code);
    return st;
}

void jit_free(JitCode *c) {
    if (!c)
        return;
    for (uint32_t i = 0; i < c->n; i++)
        if (c->unit[i])
            dlclose(c->unit[i]);
    mem_free(c);
}

void *jit_find(const JitCode *c, uint32_t k, const char *name) {
    return dlsym(c->unit[c->of[k]], name);
}
