// guard.h - private to data/: arenas that run dry, turned into a status.
#ifndef GAN_GUARD_H
#define GAN_GUARD_H

#include "base.h"

// Runs `run`; when `a` cannot give what it asks for, answers GAN_ERR_MEMORY instead of jumping past
// the caller. What run holds outside the arena must be reachable from `user`, for the caller to
// release.
GanStatus guarded(Arena *a, GanStatus (*run)(void *user), void *user);

#endif
