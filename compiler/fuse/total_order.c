// total_order.c - labels of a list's items (total_order.h). An insertion spreads its items evenly
// over the gap; where the gap is too small, all items get new labels. That is rare: a
// gap is halved thirty times before, and a removal widens one.
#include "total_order.h"

static const uint64_t WideGap = (uint64_t)1 << 31; // 2^32 items have room

void order_init(TotalOrder *o, Arena *a, uint32_t items) {
    o->label = arena_array(a, uint64_t, items);
    o->prev = arena_array(a, uint32_t, items);
    o->next = arena_array(a, uint32_t, items);
    o->n = 0;
}

static void link_behind(TotalOrder *o, uint32_t after, uint32_t item) {
    uint32_t next = o->next[after];
    o->prev[item] = after;
    o->next[item] = next;
    o->next[after] = o->prev[next] = item;
    o->n++;
}

void order_remove(TotalOrder *o, uint32_t item) {
    o->next[o->prev[item]] = o->next[item];
    o->prev[o->next[item]] = o->prev[item];
    o->n--;
}

static void relabel(TotalOrder *o) {
    uint64_t label = 0;
    for (uint32_t item = o->next[0]; item; item = o->next[item])
        o->label[item] = label += WideGap;
}

// Between labels of [n] items behind `after`; 0: there is no room.
static uint64_t gap_behind(const TotalOrder *o, uint32_t after, uint32_t n) {
    uint32_t next = o->next[after];
    uint64_t end = next ? o->label[next] : UINT64_MAX,
             gap = (end - o->label[after]) / ((uint64_t)n + 1);
    return gap < WideGap ? gap : WideGap;
}

void order_insert(TotalOrder *o, uint32_t after, const uint32_t *item, uint32_t n) {
    if (!gap_behind(o, after, n))
        relabel(o);
    uint64_t gap = gap_behind(o, after, n);
    for (uint32_t i = 0; i < n; i++) {
        o->label[item[i]] = o->label[after] + gap;
        link_behind(o, after, item[i]);
        after = item[i];
    }
}

void order_append(TotalOrder *o, uint32_t item) {
    order_insert(o, o->prev[0], &item, 1);
}
