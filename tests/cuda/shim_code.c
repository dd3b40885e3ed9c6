// shim_code.c - compiles kernel text to functions with the machine's C++ compiler.
//
// In: text and the names of its kernels. Out: a shared object whose loads and stores call
// shim_memory.c; it is linked without the sanitizer's own library, so that those calls resolve to
// ours. Compiled objects are kept in the build folder, since every rank compiles the same kernels;
// each is loaded from a copy, which has a block's memory of its own and is removed with the code.
#define _GNU_SOURCE // mkdtemp, dl_iterate_phdr
#include "shim_state.h"
#include "process.h"

#include "cache.h"

#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PRELUDE TEST_DIR "/cuda/shim_cuda.h"
#define KEPT BUILD_DIR "/tests/shim-objects"
#define KEPT_MOST ((uint64_t)256 << 20)

// Ranks are threads that compile the same text at the same moment: the second finds it compiled.
static pthread_mutex_t compiling = PTHREAD_MUTEX_INITIALIZER;

struct ShimCode {
    Arena arena; // everything below
    Str text, dir, source, object, library;
    void *handle;
    ShimPosition *here;
    ShimRange shared; // its thread-local data: the block's shared memory
    uintptr_t image_at, image_end;
};

// --- compiling -----------------------------------------------------------------------------------

typedef struct Compiler {
    Str name, version; // empty: there is none
} Compiler;

static Compiler find_compiler(Arena *a) {
    static const char *const names[] = {"g++", "c++", "clang++"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *argv[] = {names[i], "--version", NULL};
        Compiler c = {.name = str_c(names[i])};
        int code = 1;
        if (process_run(a, argv, &c.version, &code) == GAN_OK && code == 0)
            return c;
    }
    return (Compiler){0};
}

static GanStatus run(Arena *a, const char *const *argv) {
    Str said;
    int code = 1;
    TRY(process_run(a, argv, &said, &code));
    if (code)
        return fail(GAN_ERR_BUG, "%s refused the kernels:\n%.*s", argv[0],
                    said.len > 4000 ? 4000 : (int)said.len, said.ptr);
    return GAN_OK;
}

static const char *const flags[] = {
    "-std=c++17",
    "-nostdinc++", // C's <math.h> alone is read in a fourth of the time
    "-Og",
    "-g1",
    "-w",
    "-fPIC",
    "-fvisibility=hidden", // shared memory of templates is not another text's
    "-fno-exceptions",
    "-fno-math-errno",
    "-fsanitize=thread",
    "-fsanitize=bounds,alignment",
    "-include",
    PRELUDE,
    "-c",
};
enum { FLAGS = sizeof flags / sizeof *flags };

static GanStatus build(ShimCode *c, Str cxx_name, Str all) {
    Arena *a = &c->arena;
    TRY(file_write_atomic(c->source, all.ptr, all.len));
    const char *cxx = str_z(a, cxx_name), *object = str_z(a, c->object);
    const char *compile[FLAGS + 5] = {cxx};
    memcpy(compile + 1, flags, sizeof flags);
    compile[FLAGS + 1] = str_z(a, c->source);
    compile[FLAGS + 2] = "-o";
    compile[FLAGS + 3] = object;
    const char *link[] = {cxx, "-shared", object, "-o", str_z(a, c->library), NULL};
    TRY(run(a, compile));
    return run(a, link);
}

// All that decides the object.
static GanStatus key_of(Arena *a, const Compiler *compiler, Str all, Str *key) {
    Text t = {.arena = a};
    Str prelude;
    TRY(file_read(a, STR(PRELUDE), &prelude));
    text_put(&t, compiler->version);
    for (uint32_t i = 0; i < FLAGS; i++)
        text_fmt(&t, " %s", flags[i]);
    text_put(&t, prelude);
    text_put(&t, all);
    *key = text_str(&t);
    return GAN_OK;
}

// The object at c->library: one that was kept, or compiled now.
static GanStatus provide(ShimCode *c, const Compiler *compiler, const Str *name, uint32_t n) {
    Arena *a = &c->arena;
    Text t = {.arena = a};
    Str key, object;
    text_put(&t, c->text);
    text_char(&t, '\n');
    for (uint32_t i = 0; i < n; i++)
        text_fmt(&t, "SHIM_KERNEL(%.*s)\n", SARG(name[i]));
    TRY(cache_dir(a, STR(KEPT), KEPT_MOST));
    TRY(key_of(a, compiler, text_str(&t), &key));
    Str path = cache_path(a, STR(KEPT), key, ".so");
    if (sealed_read(a, path, &object))
        return file_write_atomic(c->library, object.ptr, object.len);
    TRY(build(c, compiler->name, text_str(&t)));
    TRY(file_read(a, c->library, &object));
    return sealed_write(a, path, object);
}

// --- loading -------------------------------------------------------------------------------------

typedef struct Search {
    ShimCode *code;
    uintptr_t inside; // an address of the object
} Search;

static int look(struct dl_phdr_info *info, size_t size, void *user) {
    Search *q = user;
    ShimCode *c = q->code;
    uintptr_t lo = UINTPTR_MAX, hi = 0;
    size_t tls = 0;
    (void)size;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *h = &info->dlpi_phdr[i];
        uintptr_t at = info->dlpi_addr + h->p_vaddr;
        if (h->p_type == PT_LOAD) {
            lo = at < lo ? at : lo;
            hi = at + h->p_memsz > hi ? at + h->p_memsz : hi;
        }
        if (h->p_type == PT_TLS)
            tls = h->p_memsz;
    }
    if (q->inside < lo || q->inside >= hi)
        return 0;
    c->image_at = lo;
    c->image_end = hi;
    c->shared = (ShimRange){
        .at = (uintptr_t)info->dlpi_tls_data, .bytes = tls, .unit = ShimSharedUnit, .shared = true};
    return 1;
}

typedef void *SharedFn(void);

static GanStatus load(ShimCode *c) {
    c->handle = dlopen(str_z(&c->arena, c->library), RTLD_NOW | RTLD_LOCAL);
    if (!c->handle)
        return fail(GAN_ERR_BUG, "%s", dlerror());
    SharedFn *touch;
    *(void **)&touch = dlsym(c->handle, "shim_shared_memory");
    touch(); // from here on this thread has its copy of the thread-local data
    c->here = dlsym(c->handle, "shim_here");
    Search q = {c, (uintptr_t)c->here};
    if (!dl_iterate_phdr(look, &q))
        return fail(GAN_ERR_BUG, "%.*s is loaded and not found", SARG(c->library));
    shim_shadow(&c->shared);
    return GAN_OK;
}

GanStatus shim_compile(Str text, const Str *name, uint32_t n, ShimCode **out) {
    Arena arena;
    *out = NULL;
    TRY(arena_init(&arena, 0));
    const Compiler compiler = find_compiler(&arena);
    if (!compiler.name.len) {
        arena_release(&arena);
        return GAN_OK;
    }
    ShimCode *c = mem_alloc(sizeof *c);
    char dir[] = BUILD_DIR "/tests/shim-XXXXXX";
    if (!c || !mkdtemp(dir)) {
        mem_free(c);
        arena_release(&arena);
        return fail(GAN_ERR_IO, "no folder for kernels in " BUILD_DIR "/tests");
    }
    *c = (ShimCode){.arena = arena};
    c->text = str_copy(&c->arena, text);
    c->dir = str_copy(&c->arena, str_c(dir));
    c->source = path_join(&c->arena, c->dir, STR("kernels.cpp"));
    c->object = path_join(&c->arena, c->dir, STR("kernels.o"));
    c->library = path_join(&c->arena, c->dir, STR("kernels.so"));
    pthread_mutex_lock(&compiling);
    GanStatus st = provide(c, &compiler, name, n);
    pthread_mutex_unlock(&compiling);
    if (st == GAN_OK)
        st = load(c);
    if (st != GAN_OK) {
        shim_free(c);
        return st;
    }
    *out = c;
    return GAN_OK;
}

void shim_free(ShimCode *c) {
    if (!c)
        return;
    if (c->handle)
        dlclose(c->handle);
    shim_unshadow(&c->shared);
    file_remove(c->source);
    file_remove(c->object);
    file_remove(c->library);
    rmdir(str_z(&c->arena, c->dir));
    Arena arena = c->arena;
    mem_free(c);
    arena_release(&arena);
}

// --- using ---------------------------------------------------------------------------------------

ShimEntry *shim_entry(const ShimCode *c, Str name, Shim *s) {
    Arena scratch = c->arena;
    ShimEntry *entry;
    *(void **)&entry = dlsym(c->handle, str_format(&scratch, "shim_kernel_%.*s", SARG(name)).ptr);
    if (!entry)
        bug("no kernel %.*s", SARG(name));
    s->shared = c->shared;
    s->image_at = c->image_at;
    s->image_end = c->image_end;
    s->here = c->here;
    return entry;
}

static Str text_line(Str text, int64_t line) {
    for (; line > 1; line--) {
        size_t end = str_find(text, '\n');
        text = str_sub(text, end < text.len ? end + 1 : end, text.len);
    }
    text = str_sub(text, 0, str_find(text, '\n'));
    while (text.len && *text.ptr == ' ')
        text = str_sub(text, 1, text.len);
    return text;
}

void shim_line(const ShimCode *c, const void *pc, char *out, size_t n) {
    uintptr_t at = (uintptr_t)pc;
    Arena scratch = c->arena;
    if (at < c->image_at || at >= c->image_end)
        return;
    const char *argv[] = {"addr2line", "-e", str_z(&scratch, c->library),
                          str_format(&scratch, "%#zx", (size_t)(at - c->image_at - 1)).ptr, NULL};
    Str said;
    int code = 1;
    if (process_run(&scratch, argv, &said, &code) != GAN_OK || code)
        return;
    size_t colon = str_find(said, ':');
    int64_t line = 0;
    for (size_t i = colon + 1; i < said.len && said.ptr[i] >= '0' && said.ptr[i] <= '9'; i++)
        line = line * 10 + said.ptr[i] - '0';
    if (!line || !str_ends(str_sub(said, 0, colon), STR("kernels.cpp")))
        return;
    Str text = text_line(c->text, line);
    snprintf(out, n, "\n  line %lld: %.*s", (long long)line, SARG(text));
}
