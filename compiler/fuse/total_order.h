// total_order.h - a total order of items that can be queried and changed in constant time: a linked
// list whose items carry rising labels (Dietz & Sleator, "Two algorithms for maintaining order in a
// list", 1987).
#ifndef GAN_TOTAL_ORDER_H
#define GAN_TOTAL_ORDER_H

#include "base.h"

typedef struct TotalOrder {
    uint64_t *label;       // [item]
    uint32_t *prev, *next; // [item]; of [0], which is no item, the last and the first
    uint32_t n;            // items in it
} TotalOrder;

void order_init(TotalOrder *o, Arena *a, uint32_t items); // empty, of items 1 .. items - 1
void order_append(TotalOrder *o, uint32_t item);
void order_remove(TotalOrder *o, uint32_t item);
// Inserts [n] items, in this order, behind `after`; 0: in front of all.
void order_insert(TotalOrder *o, uint32_t after, const uint32_t *item, uint32_t n);
static inline bool order_before(const TotalOrder *o, uint32_t a, uint32_t b) {
    return o->label[a] < o->label[b];
}

#endif
