// library.c - shared libraries loaded at run time.
//
// In: names, without folders. Out: handles of the loader. The loader's own search comes first: what
// lies beside the program is found by its RPATH, and a user's LD_LIBRARY_PATH is respected.
#define _GNU_SOURCE
#include "library.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#ifndef GAN_LIBRARY_DIRS // a colon between two; set by cmake to where the libraries were found
#define GAN_LIBRARY_DIRS ""
#endif

static void *open_in(Str dir, const char *name) {
    char path[4096];
    int n = snprintf(path, sizeof path, "%.*s/%s", SARG(dir), name);
    return n > 0 && (size_t)n < sizeof path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
}

static void *open_built_with(const char *name) {
    Str dirs = STR(GAN_LIBRARY_DIRS);
    for (size_t at = 0, end; at < dirs.len; at = end + 1) {
        Str rest = str_sub(dirs, at, dirs.len);
        end = at + str_find(rest, ':');
        void *found = end > at ? open_in(str_sub(dirs, at, end), name) : NULL;
        if (found)
            return found;
    }
    return NULL;
}

void *library_open(const char *const *names) {
    for (const char *const *name = names; *name; name++) {
        void *found = dlopen(*name, RTLD_NOW | RTLD_LOCAL);
        if (!found)
            found = open_built_with(*name);
        if (found)
            return found;
    }
    return NULL;
}

bool library_symbol(void *library, const char *symbol, void *field, size_t size) {
    void *at = dlsym(library, symbol);
    assert(size == sizeof at);
    memcpy(field, &at, size); // ISO C has no cast between the two kinds of pointer
    return at != NULL;
}

static _Noreturn void missing(const char *what) {
    const char *why = dlerror();
    fprintf(stderr, "%s was there when this program was built and is missing now%s%s\n", what,
            why ? ": " : "", why ? why : "");
    _Exit(3);
}

void *library_need(const char *const *names) {
    void *found = library_open(names);
    if (!found)
        missing(names[0]);
    return found;
}

void library_need_symbol(void *library, const char *symbol, void *field, size_t size) {
    if (!library_symbol(library, symbol, field, size))
        missing(symbol);
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
