// folder.h - for fuzz targets of readers that open files by name: a temporary folder of this
// process, removed when it ends.
#ifndef GAN_FUZZ_FOLDER_H
#define GAN_FUZZ_FOLDER_H

#include "fuzz.h"

#include "process.h"

#include <stdlib.h>
#include <unistd.h>

static char fuzz_memory[] = "/dev/shm/gan-fuzz-XXXXXX", fuzz_disk[] = "/tmp/gan-fuzz-XXXXXX";
static const char
    *fuzz_folder; // in memory where there is such a place: readers also write, and sync

static inline void folder_remove(void) {
    Arena a;
    Str said;
    int code;
    const char *const argv[] = {"rm", "-rf", fuzz_folder, NULL};
    if (arena_init(&a, 0) == GAN_OK)
        process_run(&a, argv, &said, &code);
    arena_release(&a);
}

static inline Str folder_make(void) {
    fuzz_folder = mkdtemp(fuzz_memory);
    fuzz_folder = fuzz_folder ? fuzz_folder : mkdtemp(fuzz_disk);
    if (!fuzz_folder || atexit(folder_remove))
        bug("no folder for files");
    return str_c(fuzz_folder);
}

// Nothing is synced: there are thousands.
static inline void folder_put(Arena scratch, Str path, const void *data, size_t n) {
    FILE *f = fopen(str_z(&scratch, path), "wb");
    if (!f || fwrite(data, 1, n, f) != n || fclose(f) != 0)
        bug("cannot write %.*s", SARG(path));
}

#endif
