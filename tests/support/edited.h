// edited.h - the text of plans with one decision changed.
#ifndef EDITED_H
#define EDITED_H

#include "base.h"

// Edits function 1: deletes a line, swaps two, moves one, or gives one the offset of another,
// chosen by `bits`. The result is in `a`.
Str plan_edited(Arena *a, Str text, uint64_t bits);

#endif
