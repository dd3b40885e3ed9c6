// edited.h - the text of plans with one decision changed.
#ifndef EDITED_H
#define EDITED_H

#include "base.h"

// Of function 1: a line left out, two lines swapped, one moved, or one's place from another. `bits`
// say which; the result is in `a`.
Str plan_edited(Arena *a, Str text, uint64_t bits);

#endif
