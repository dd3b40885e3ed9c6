// library.c - shared libraries loaded at run time.
//
// In: names, without folders. Out: handles of the loader. The loader's own search comes first: what
// lies beside the program is found by its RPATH, and a user's LD_LIBRARY_PATH is respected.
#define _GNU_SOURCE
#include "library.h"

#include <dlfcn.h>
#include <string.h>

#ifndef GAN_LIBRARY_DIRS // a colon between two; set by cmake to where the libraries were found
#define GAN_LIBRARY_DIRS ""
#endif

static void *open_in(Str dir, const char *name, int how) {
    char path[4096];
    int n = snprintf(path, sizeof path, "%.*s/%s", SARG(dir), name);
    return n > 0 && (size_t)n < sizeof path ? dlopen(path, how) : NULL;
}

static void *open_built_with(const char *name, int how) {
    Str dirs = STR(GAN_LIBRARY_DIRS);
    for (size_t at = 0, end; at < dirs.len; at = end + 1) {
        Str rest = str_sub(dirs, at, dirs.len);
        end = at + str_find(rest, ':');
        void *found = end > at ? open_in(str_sub(dirs, at, end), name, how) : NULL;
        if (found)
            return found;
    }
    return NULL;
}

static void *open_first(const char *const *names, int how) {
    for (const char *const *name = names; *name; name++) {
        void *found = dlopen(*name, how);
        if (!found)
            found = open_built_with(*name, how);
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
    for (size_t i = 0; i < sizeof needed / sizeof *needed; i++)
        open_first(needed[i], RTLD_NOW | RTLD_LOCAL);
}

void *library_open(const char *const *names) {
    cxx_ready();
    return open_first(names, RTLD_NOW | RTLD_LOCAL);
}

bool library_symbol(void *library, const char *symbol, void *field, size_t size) {
    void *at = dlsym(library, symbol);
    assert(size == sizeof at);
    memcpy(field, &at, size); // ISO C has no cast between the two kinds of pointer
    return at != NULL;
}

// --- libraries that were there when this was built -----------------------------------------------

static GanStatus missing(const char *what) {
    const char *why = dlerror();
    return fail(GAN_ERR_DEVICE, "%s was there when this program was built and cannot be loaded: %s",
                what, why ? why : "no reason");
}

// For all to see, as if it had been linked: plug-ins of libhdf5 call it without naming it.
GanStatus library_need(const char *const *names, void **out) {
    *out = open_first(names, RTLD_NOW | RTLD_GLOBAL);
    return *out ? GAN_OK : missing(names[0]);
}

GanStatus library_need_symbol(void *library, const char *symbol, void *field, size_t size) {
    return library_symbol(library, symbol, field, size) ? GAN_OK : missing(symbol);
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
