// map.c - open addressing with linear probes; a power of two of slots, at most three quarters used.
// A value of 0 marks a free slot, so any key is allowed. Nothing is ever removed; a table that was
// outgrown stays in the arena.
#include "base.h"

// Keys are often small numbers or carry their pattern in the high bits: multiply, then take from
// the top.
static uint32_t slot_of(const Map *m, uint64_t key) {
    uint32_t i = (uint32_t)((key ^ key >> 32) * 0x9e3779b97f4a7c15u >> 32) & (m->cap - 1);
    while (m->val[i] && m->key[i] != key)
        i = (i + 1) & (m->cap - 1);
    return i;
}

uint32_t map_find(const Map *m, uint64_t key) {
    return m->cap ? m->val[slot_of(m, key)] : 0;
}

static void map_grow(Arena *a, Map *m) {
    if (m->cap > UINT32_MAX / 2)
        bug("a map of %u entries cannot grow", m->n);
    Map grown = {.n = m->n, .cap = m->cap ? m->cap * 2 : 16};
    grown.key = arena_array(a, uint64_t, grown.cap);
    grown.val = arena_array(a, uint32_t, grown.cap);
    for (uint32_t i = 0; i < m->cap; i++) {
        if (!m->val[i])
            continue;
        uint32_t at = slot_of(&grown, m->key[i]);
        grown.key[at] = m->key[i];
        grown.val[at] = m->val[i];
    }
    *m = grown;
}

void map_put(Arena *a, Map *m, uint64_t key, uint32_t val) {
    assert(val != 0);
    if (m->n >= m->cap - m->cap / 4)
        map_grow(a, m);
    uint32_t at = slot_of(m, key);
    if (!m->val[at])
        m->n++;
    m->key[at] = key;
    m->val[at] = val;
}
