// image.c - see image.h. FIRST, zeros up to a multiple of ALIGN, AGAIN, Tail.
#include "image.h"

#include <string.h>

enum { ALIGN = 16 };

static const char mark[8] = {'g', 'a', 'n', 'a', 'g', 'a', 'i', 'n'};

typedef struct Tail {
    uint64_t from; // where AGAIN begins
    char mark[sizeof mark];
} Tail;

Str image_join(Arena *a, Str first, Str again) {
    static const char zeros[ALIGN];
    size_t gap = (ALIGN - first.len % ALIGN) % ALIGN;
    Tail tail = {.from = first.len + gap};
    memcpy(tail.mark, mark, sizeof mark);
    Text t = {.arena = a};
    text_put(&t, first);
    text_put(&t, (Str){zeros, gap});
    text_put(&t, again);
    text_put(&t, (Str){(const char *)&tail, sizeof tail});
    return text_str(&t);
}

Str image_again(Str image) {
    Tail tail;
    if (image.len < sizeof tail)
        return (Str){0};
    size_t end = image.len - sizeof tail;
    memcpy(&tail, image.ptr + end, sizeof tail);
    if (memcmp(tail.mark, mark, sizeof mark) || tail.from % ALIGN || tail.from >= end)
        return (Str){0};
    return str_sub(image, tail.from, end);
}
