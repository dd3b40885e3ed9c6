// buffer.h - pieces of work memory with live ranges in launches, and their packing (memory.c,
// buffer.c).
#ifndef GAN_BUFFER_H
#define GAN_BUFFER_H

#include "base.h"

typedef struct Buffer {
    uint32_t owner;       // first node it holds
    uint32_t first, last; // live range: launches, inclusive
    uint32_t from, again; // loop-carried: also live in [from, again), neither after `first`, in the
                          // next round of a repeat or step; again 0: it is not
    size_t bytes, offset; // 0 bytes take no memory
    uint32_t level, until; // when it would be made and last read if every launch ran as soon as
                           // the values it reads are there
} Buffer;

// Do both live at some moment of one step?
bool buffers_meet(const Buffer *x, const Buffer *y);

// Of [n] buffers, of which [0] is none:
// Gives each its offset; the bytes that all need. Two orders are tried, by size times life and by
// size, unless the first reaches `bound`; up to eight more where both exceed it by a twentieth.
size_t buffers_pack(Arena scratch, Buffer *buffer, uint32_t n, size_t bound);
// Moves those of n packed buffers, within the bytes they all need, to where those before and behind
// them make launches least late that need not wait for their values (level, until).
void buffers_spread(Arena scratch, Buffer *buffer, uint32_t n, size_t bytes);
// The bytes that live at once, [launches + 2], in `a`.
size_t *buffers_live(Arena *a, const Buffer *buffer, uint32_t n, uint32_t launches);
// The most of them in a step of so many launches: no places need fewer.
size_t buffers_bound(Arena scratch, const Buffer *buffer, uint32_t n, uint32_t launches);

#endif
