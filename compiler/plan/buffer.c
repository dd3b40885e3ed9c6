// buffer.c - packs buffers offline, largest first, each into the smallest gap among those whose
// live ranges interfere. Those that came to lie above the bound are placed first in further tries
// (squeaky wheel optimization: Joslin and Clements 1999), as many as are quick, and some more if
// the result is far from the bound.
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
typedef VEC(Placed) PlacedVec; // sorted by offset

// Buffers that have their places: all of them, and those that live in a window of time. Windows
// overlap by half, so that a buffer that lives for half a window or less fits in one of them.
enum { Levels = 2 };
static const uint32_t halves_of[Levels] = {64, 8}; // half windows of the whole time
typedef struct Layout {
    Arena *a;
    PlacedVec all, *window[Levels];
    uint32_t half[Levels]; // launches of half a window
} Layout;

static Placed placed(const Buffer *b) {
    bool again = b->again > 0;
    return (Placed){b, again && b->from < b->first ? b->from : b->first,
                    again && b->again > b->last ? b->again : b->last};
}

static void layout_init(Layout *l, Arena *a, uint32_t end) {
    *l = (Layout){.a = a};
    for (uint32_t i = 0; i < Levels; i++) {
        l->half[i] = end / halves_of[i] + 1;
        l->window[i] = arena_array_(a, sizeof *l->window[i], _Alignof(PlacedVec), halves_of[i]);
    }
}

// The smallest list that has all buffers that live together with `p`.
static const PlacedVec *neighbours(const Layout *l, Placed p) {
    for (uint32_t i = 0; i < Levels; i++) {
        uint32_t first = p.begin / l->half[i];
        if (p.end / l->half[i] <= first + 1)
            return &l->window[i][first];
    }
    return &l->all;
}

// The smallest gap for `p` among those placed. Most live at other times, which the two launches at
// hand tell.
static size_t best_gap(const PlacedVec *before, Placed p) {
    size_t end = 0, best = SIZE_MAX, at = 0;
    for (uint32_t i = 0; i < before->n; i++) {
        const Placed *x = &before->at[i];
        if (x->begin > p.end || x->end < p.begin || !buffers_meet(x->b, p.b))
            continue;
        const Buffer *o = x->b;
        if (o->offset > end && o->offset - end >= p.b->bytes && o->offset - end < best) {
            best = o->offset - end;
            at = end;
        }
        end = o->offset + o->bytes > end ? o->offset + o->bytes : end;
    }
    return best == SIZE_MAX ? end : at;
}

static void insert(Arena *a, PlacedVec *v, Placed p) {
    uint32_t lo = 0, hi = v->n;
    while (lo < hi) { // behind all that begin no later
        uint32_t mid = lo + (hi - lo) / 2;
        if (v->at[mid].b->offset > p.b->offset)
            hi = mid;
        else
            lo = mid + 1;
    }
    vec_push(a, v, p);
    memmove(&v->at[lo + 1], &v->at[lo], (v->n - 1 - lo) * sizeof *v->at);
    v->at[lo] = p;
}

static void layout_add(Layout *l, Placed p) {
    insert(l->a, &l->all, p);
    for (uint32_t i = 0; i < Levels; i++) {
        uint32_t first = p.begin / l->half[i], last = p.end / l->half[i];
        for (uint32_t w = first ? first - 1 : 0; w <= last; w++)
            insert(l->a, &l->window[i][w], p);
    }
}

// Places buffers in this order; the memory they need.
static size_t pack(Arena scratch, Buffer *const *order, uint32_t n) {
    uint32_t end = 0;
    for (uint32_t i = 0; i < n; i++)
        end = placed(order[i]).end > end ? placed(order[i]).end : end;
    Layout layout;
    layout_init(&layout, &scratch, end);
    size_t top = 0;
    for (uint32_t i = 0; i < n; i++) {
        Buffer *b = order[i];
        Placed p = placed(b);
        b->offset = best_gap(neighbours(&layout, p), p);
        top = b->offset + b->bytes > top ? b->offset + b->bytes : top;
        layout_add(&layout, p);
    }
    return top;
}

// Those that ended above the bound come first the next time, in the same order otherwise.
static void lift(Arena scratch, Buffer **order, uint32_t n, size_t bound) {
    Buffer **rest = arena_array(&scratch, Buffer *, n);
    uint32_t first = 0, others = 0;
    for (uint32_t i = 0; i < n; i++)
        if (order[i]->offset + order[i]->bytes > bound)
            order[first++] = order[i];
        else
            rest[others++] = order[i];
    memcpy(order + first, rest, others * sizeof *rest);
}

static ByFn *const by[] = {by_area, by_size};
enum { Orders = sizeof by / sizeof *by };

// Is it worth packing n buffers once more, after so many times, with `best` as the least memory?
static bool try_again(uint32_t times, uint32_t n, size_t best, size_t bound) {
    enum { Tries = 8, Places = 10000, Far = 20 }; // a try that places 2,000: 3 ms
    uint32_t tries = times < Orders ? 0 : times - Orders;
    return best > bound && (tries * n < Places || (tries < Tries && best > bound + bound / Far));
}

size_t buffers_pack(Arena scratch, Buffer *buffer, uint32_t buffers, size_t bound) {
    size_t best = SIZE_MAX, *offset = arena_array(&scratch, size_t, buffers);
    Buffer **order = arena_array(&scratch, Buffer *, buffers);
    uint32_t n = 0;
    for (uint32_t i = 1; i < buffers; i++)
        if (buffer[i].bytes)
            order[n++] = &buffer[i];
    for (uint32_t k = 0; try_again(k, n, best, bound); k++) {
        if (k < Orders)
            qsort(order, n, sizeof *order, by[k]);
        else
            lift(scratch, order, n, bound);
        size_t top = pack(scratch, order, n);
        if (top >= best)
            continue;
        best = top;
        for (uint32_t i = 1; i < buffers; i++)
            offset[i] = buffer[i].offset;
    }
    for (uint32_t i = 1; i < buffers; i++)
        buffer[i].offset = offset[i];
    return best;
}

// --- waits for memory ----------------------------------------------------------------------------

typedef struct Late { // bytes of a buffer that lives at another time, and by how many levels the
    size_t from, to;  // later of the two would be late if they shared some
    uint32_t levels;
} Late;

typedef struct Around { // of one buffer
    const Buffer **beside;
    uint32_t besides; // those that live with it, by offset
    Late *late;
    uint32_t lates;
} Around;

static uint32_t lateness(const Buffer *x, const Buffer *y) {
    const Buffer *first = x->first < y->first ? x : y, *second = first == x ? y : x;
    return second->level > first->until ? 0 : first->until + 1 - second->level;
}

// Is b late, or another by it, where it is?
static bool is_late(Buffer *const *all, uint32_t n, const Buffer *b) {
    for (uint32_t i = 0; i < n && all[i]->offset < b->offset + b->bytes; i++)
        if (b->offset < all[i]->offset + all[i]->bytes && all[i] != b && !buffers_meet(all[i], b) &&
            lateness(all[i], b))
            return true;
    return false;
}

static void look_around(Buffer *const *all, uint32_t n, const Buffer *b, Around *out) {
    out->besides = out->lates = 0;
    for (uint32_t i = 0; i < n; i++) {
        const Buffer *x = all[i];
        uint32_t levels = lateness(x, b);
        if (x == b)
            continue;
        if (buffers_meet(x, b))
            out->beside[out->besides++] = x;
        else if (levels)
            out->late[out->lates++] = (Late){x->offset, x->offset + x->bytes, levels};
    }
}

// By how much the latest would be late: a chain of launches is as long as its latest link.
static uint32_t late_at(const Around *r, size_t from, size_t to) {
    uint32_t most = 0;
    for (uint32_t i = 0; i < r->lates; i++)
        if (r->late[i].from < to && from < r->late[i].to && r->late[i].levels > most)
            most = r->late[i].levels;
    return most;
}

// Where b makes others late the least: between those that live with it, or where it is.
static size_t best_place(const Around *r, const Buffer *b, size_t bytes) {
    size_t end = 0, best = b->offset;
    uint32_t least = late_at(r, best, best + b->bytes);
    for (uint32_t i = 0; i <= r->besides && least; i++) {
        const Buffer *x = i < r->besides ? r->beside[i] : NULL;
        size_t next = x ? x->offset : bytes;
        uint32_t late = end + b->bytes <= next ? late_at(r, end, end + b->bytes) : least;
        if (late < least) {
            least = late;
            best = end;
        }
        end = x && next + x->bytes > end ? next + x->bytes : end;
    }
    return best;
}

static int by_offset(const void *a, const void *b) {
    const Buffer *x = *(Buffer *const *)a, *y = *(Buffer *const *)b;
    if (x->offset != y->offset)
        return x->offset < y->offset ? -1 : 1;
    return by_first(x, y);
}

// Moves all[at], which is not where its offset says, there.
static void reorder(Buffer **all, uint32_t n, uint32_t at) {
    Buffer *b = all[at];
    for (; at > 0 && by_offset(&all[at - 1], &b) > 0; at--)
        all[at] = all[at - 1];
    for (; at + 1 < n && by_offset(&all[at + 1], &b) < 0; at++)
        all[at] = all[at + 1];
    all[at] = b;
}

void buffers_spread(Arena scratch, Buffer *buffer, uint32_t buffers, size_t bytes) {
    Buffer **all = arena_array(&scratch, Buffer *, buffers),
           **order = arena_array(&scratch, Buffer *, buffers);
    Around r = {.beside = arena_array_(&scratch, sizeof *r.beside, _Alignof(Buffer *), buffers),
                .late = arena_array(&scratch, Late, buffers)};
    enum { ROUNDS = 2 }; // what moved later left gaps for what moved before
    uint32_t n = 0;
    for (uint32_t i = 1; i < buffers; i++)
        if (buffer[i].bytes)
            all[n++] = &buffer[i];
    memcpy(order, all, n * sizeof *all);
    qsort(all, n, sizeof *all, by_offset);
    qsort(order, n, sizeof *order, by_size);
    for (uint32_t i = 0; i < ROUNDS * n; i++) {
        Buffer *b = order[i % n];
        uint32_t at = 0;
        if (!is_late(all, n, b))
            continue;
        while (all[at] != b)
            at++;
        look_around(all, n, b, &r);
        b->offset = best_place(&r, b, bytes);
        reorder(all, n, at);
    }
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
