// buffer.c - packs buffers offline, largest first, each into the smallest gap among those whose
// live ranges interfere.
#include "buffer.h"

#include <stdlib.h>
#include <string.h>

typedef int ByFn(const void *, const void *);

static int by_first(const Buffer *x, const Buffer *y) {
    if (x->first != y->first)
        return x->first < y->first ? -1 : 1;
    return x->owner < y->owner ? -1 : x->owner > y->owner;
}

static int by_size(const void *a, const void *b) {
    const Buffer *x = *(Buffer *const *)a, *y = *(Buffer *const *)b;
    if (x->bytes != y->bytes)
        return x->bytes > y->bytes ? -1 : 1;
    return by_first(x, y);
}

static int by_area(const void *a, const void *b) {
    const Buffer *x = *(Buffer *const *)a, *y = *(Buffer *const *)b;
    double p = (double)x->bytes * (x->last - x->first + 1 + x->again - x->from),
           q = (double)y->bytes * (y->last - y->first + 1 + y->again - y->from);
    if (p != q)
        return p > q ? -1 : 1;
    return by_first(x, y);
}

// Does y live when x lives again?
static bool meets_again(const Buffer *x, const Buffer *y) {
    bool both = x->from < y->again && y->from < x->again;
    return both || (y->first < x->again && x->from <= y->last);
}

bool buffers_meet(const Buffer *x, const Buffer *y) {
    bool meet = x->first <= y->last && y->first <= x->last;
    return meet || meets_again(x, y) || meets_again(y, x);
}

typedef struct Placed {
    const Buffer *b;
    uint32_t begin, end; // launches from the first at which it lives to the last, inclusive
} Placed;

static Placed placed(const Buffer *b) {
    bool again = b->again > 0;
    return (Placed){b, again && b->from < b->first ? b->from : b->first,
                    again && b->again > b->last ? b->again : b->last};
}

// The smallest gap for `p` among those `before`, which are sorted by offset. Most live at other
// times, which the two launches at hand tell.
static size_t best_gap(const Placed *before, uint32_t n, Placed p) {
    size_t end = 0, best = SIZE_MAX, at = 0;
    for (uint32_t i = 0; i < n; i++) {
        const Buffer *o = before[i].b;
        if (before[i].begin > p.end || before[i].end < p.begin || !buffers_meet(o, p.b))
            continue;
        if (o->offset > end && o->offset - end >= p.b->bytes && o->offset - end < best) {
            best = o->offset - end;
            at = end;
        }
        end = o->offset + o->bytes > end ? o->offset + o->bytes : end;
    }
    return best == SIZE_MAX ? end : at;
}

// Places all buffers in the order of `by`; the memory they need.
static size_t pack(Arena scratch, Buffer *buffer, uint32_t buffers, ByFn *by) {
    uint32_t n = 0;
    Buffer **order = arena_array(&scratch, Buffer *, buffers);
    Placed *before = arena_array(&scratch, Placed, buffers);
    for (uint32_t i = 1; i < buffers; i++)
        if (buffer[i].bytes)
            order[n++] = &buffer[i];
    qsort(order, n, sizeof *order, by);
    size_t top = 0;
    for (uint32_t i = 0; i < n; i++) {
        Buffer *b = order[i];
        b->offset = best_gap(before, i, placed(b));
        top = b->offset + b->bytes > top ? b->offset + b->bytes : top;
        uint32_t k = i;
        while (k > 0 && before[k - 1].b->offset > b->offset)
            k--;
        memmove(&before[k + 1], &before[k], (i - k) * sizeof *before);
        before[k] = placed(b);
    }
    return top;
}

size_t buffers_pack(Arena scratch, Buffer *buffer, uint32_t n, size_t bound) {
    size_t area = pack(scratch, buffer, n, by_area);
    if (area <= bound) // nothing is better
        return area;
    Buffer *kept = arena_array(&scratch, Buffer, n);
    memcpy(kept, buffer, n * sizeof *kept);
    size_t size = pack(scratch, buffer, n, by_size);
    if (size < area)
        return size;
    memcpy(buffer, kept, n * sizeof *kept);
    return area;
}

size_t *buffers_live(Arena *a, const Buffer *buffer, uint32_t n, uint32_t launches) {
    size_t *live = arena_array(a, size_t, launches + 2);
    for (uint32_t i = 1; i < n; i++) {
        const Buffer *b = &buffer[i];
        live[b->first] += b->bytes;
        live[b->last + 1] -= b->bytes; // wraps round and back
        live[b->from] += b->bytes;
        live[b->again < b->first ? b->again : b->first] -= b->bytes;
    }
    for (uint32_t t = 1; t <= launches; t++)
        live[t] += live[t - 1];
    return live;
}

size_t buffers_bound(Arena scratch, const Buffer *buffer, uint32_t n, uint32_t launches) {
    const size_t *live = buffers_live(&scratch, buffer, n, launches);
    size_t most = 0;
    for (uint32_t t = 0; t < launches; t++)
        most = live[t] > most ? live[t] : most;
    return most;
}
