// guard.c - see guard.h. The arena's own jump target is borrowed for the time of the run, so guards
// nest.
#include "guard.h"

#include <setjmp.h>

GanStatus guarded(Arena *a, GanStatus (*run)(void *user), void *user) {
    jmp_buf full;
    void *before = a->oom;
    if (setjmp(full)) {
        a->oom = before;
        return fail(GAN_ERR_MEMORY, "no memory, or no address space, for more names and headers");
    }
    a->oom = &full;
    GanStatus st = run(user);
    a->oom = before;
    return st;
}
