// library.c - shared libraries loaded at run time.
//
// In: names, without folders. Out: handles of the loader. The loader's own search comes first: what
// lies beside the program is found by its RPATH, and a user's LD_LIBRARY_PATH is respected: a file
// that it finds and cannot load is not replaced by one of elsewhere.
#define _GNU_SOURCE
#include "library.h"

#include <dlfcn.h>
#include <string.h>

#ifndef GAN_LIBRARY_DIRS // a colon between two; set by cmake to where the libraries were found
#define GAN_LIBRARY_DIRS ""
#endif

// Why none of several files could be loaded: what the loader said of the first that is there, else
// of the first.
typedef struct Reason {
    char words[1024];
    bool there;
} Reason;

static void keep_reason(Reason *r, const char *file) {
    const char *words = dlerror();
    Str said = str_c(words ? words : "the loader gives no reason");
    // of a library that it needs it says the same, under that one's name
    bool there =
        !str_starts(said, str_c(file)) || !str_ends(said, STR("No such file or directory"));
    if (*r->words && (r->there || !there))
        return;
    snprintf(r->words, sizeof r->words, "%.*s", SARG(said));
    r->there = there;
}

static void *open_file(const char *file, int how, Reason *why) {
    void *found = dlopen(file, how);
    if (!found)
        keep_reason(why, file);
    return found;
}

static void *open_in(Str dir, const char *name, int how, Reason *why) {
    char path[4096];
    int n = snprintf(path, sizeof path, "%.*s/%s", SARG(dir), name);
    return n > 0 && (size_t)n < sizeof path ? open_file(path, how, why) : NULL;
}

static void *open_built_with(const char *name, int how, Reason *why) {
    Str dirs = STR(GAN_LIBRARY_DIRS);
    for (size_t at = 0, end; at < dirs.len; at = end + 1) {
        Str rest = str_sub(dirs, at, dirs.len);
        end = at + str_find(rest, ':');
        void *found = end > at ? open_in(str_sub(dirs, at, end), name, how, why) : NULL;
        if (found)
            return found;
    }
    return NULL;
}

static void *open_first(const char *const *names, int how, Reason *why) {
    *why = (Reason){0};
    for (const char *const *name = names; *name; name++) {
        void *found = open_file(*name, how, why);
        if (!found && !why->there)
            found = open_built_with(*name, how, why);
        if (found)
            return found;
    }
    return NULL;
}

// NVIDIA's libraries are C++, and a bare machine may lack its library. The portable archive has one
// (cmake/portable.cmake), for such a machine alone: it may need a newer C library than that of a
// machine whose own C++ library would do.
static void cxx_ready(void) {
    static const char *const needed[][3] = {
        {"libgcc_s.so.1", "$ORIGIN/lib/spare/libgcc_s.so.1"},
        {"libstdc++.so.6", "$ORIGIN/lib/spare/libstdc++.so.6"},
    };
    Reason why;
    for (size_t i = 0; i < sizeof needed / sizeof *needed; i++)
        open_first(needed[i], RTLD_NOW | RTLD_LOCAL, &why);
}

void *library_open(const char *const *names) {
    Reason why;
    cxx_ready();
    void *found = open_first(names, RTLD_NOW | RTLD_LOCAL, &why);
    if (!found)
        fail(GAN_ERR_DEVICE, "%s", why.words);
    return found;
}

bool library_symbol(void *library, const char *symbol, void *field, size_t size) {
    void *at = dlsym(library, symbol);
    assert(size == sizeof at);
    memcpy(field, &at, size); // ISO C has no cast between the two kinds of pointer
    return at != NULL;
}

const char *library_fill(void *library, const LibraryRow *row, size_t n, void *table) {
    for (size_t i = 0; i < n; i++)
        if (!library_symbol(library, row[i].symbol, (char *)table + row[i].field, sizeof(void *)))
            return row[i].symbol;
    return NULL;
}

// --- libraries that were there when this was built -----------------------------------------------

static GanStatus missing(const char *what, const char *why) {
    return fail(GAN_ERR_DEVICE, "%s was there when this program was built and cannot be loaded: %s",
                what, why);
}

// For all to see, as if it had been linked: plug-ins of libhdf5 call it without naming it.
GanStatus library_need(const char *const *names, void **out) {
    Reason why;
    *out = open_first(names, RTLD_NOW | RTLD_GLOBAL, &why);
    return *out ? GAN_OK : missing(names[0], why.words);
}

GanStatus library_need_symbol(void *library, const char *symbol, void *field, size_t size) {
    if (library_symbol(library, symbol, field, size))
        return GAN_OK;
    const char *why = dlerror();
    return missing(symbol, why ? why : "no reason");
}

GanStatus library_late(LibraryLate *l, GanStatus (*load)(void)) {
    GanStatus st = GAN_OK;
    pthread_mutex_lock(&l->lock);
    if (!l->loaded)
        st = load();
    l->loaded = st == GAN_OK;
    pthread_mutex_unlock(&l->lock);
    return st;
}

void library_close(void *library) {
#ifndef __SANITIZE_ADDRESS__ // what a library leaks is told from our leaks by its name, which it
                             // has while it is loaded
    if (library)
        dlclose(library);
#else
    (void)library;
#endif
}
