// bytes.h - a growing heap buffer, for readers that hold a file descriptor.
//
// An exhausted arena leaves by longjmp, past every close(). So such readers fill a heap buffer,
// close the descriptor, and only then move the result into the arena, by a call that returns a
// status.
#ifndef GAN_BYTES_H
#define GAN_BYTES_H

#include "base.h"

typedef struct Bytes {
    char *at;      // owned heap block
    size_t n, cap; // bytes used, bytes there
} Bytes;

bool bytes_reserve(Bytes *b, size_t more);            // false: memory refused, b unchanged
bool bytes_put(Bytes *b, const void *data, size_t n); // the same
// Up to the end of the stream; `what` only for messages.
GanStatus bytes_read(Bytes *b, int fd, Str what);
GanStatus bytes_move(Bytes *b, Arena *a, Str *out); // a 0 byte follows; frees b either way

// arena_alloc that answers NULL instead of jumping.
void *arena_try(Arena *a, size_t size, size_t align);

#endif
