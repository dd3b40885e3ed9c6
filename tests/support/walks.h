// walks.h - test programs that iterate over tables themselves, without cmocka: the same interface
// as cases.h.
#ifndef GAN_WALKS_H
#define GAN_WALKS_H

#include "base.h"

#include <string.h>

typedef struct Walk {
    const char *name;
    void (*run)(Arena *a);
} Walk;

// Runs all walks, or lists them, or runs the one named. False when there is no such name or no
// memory.
static inline bool walks_run(int argc, char **argv, const Walk *walks, size_t n) {
    bool found = argc < 2;
    for (size_t i = 0; i < n; i++) {
        if (argc > 1 && !strcmp(argv[1], "--list")) {
            puts(walks[i].name);
            found = true;
            continue;
        }
        if (argc > 1 && strcmp(argv[1], walks[i].name))
            continue;
        Arena a;
        if (arena_init(&a, 0) != GAN_OK) {
            printf("%s\n", gan_error());
            return false;
        }
        walks[i].run(&a);
        arena_release(&a);
        found = true;
    }
    return found;
}
#define WALKS_RUN(walks) walks_run(argc, argv, walks, sizeof(walks) / sizeof *(walks))
#define WALK(f)                                                                                    \
    { #f, f }

#endif
