// barrier.c - tells most clusters that a path keeps apart, without a walk along the path
// (clusters.h).
//
// In: units and their users. Out: Fuse.barrier. The sets are exact for the barriers chosen, so what
// they tell is so; where they meet nowhere, a walk decides.
#include "clusters.h"

static void set_add(BarrierSet *s, const BarrierSet *more) {
    for (uint32_t i = 0; i < BarrierWords; i++)
        s->bits[i] |= more->bits[i];
}

static void set_add_one(BarrierSet *s, uint32_t barrier) {
    s->bits[barrier / 64] |= (uint64_t)1 << barrier % 64;
}

// [node] 1 + its number where it is one of the chosen barriers, else 0. Those that lead to no other
// are on no long path.
static uint32_t *choose_barriers(const Fuse *z) {
    enum { Most = 64 * BarrierWords };
    uint32_t n = z->g->node.n, all = 0, seen = 0;
    uint32_t *number = arena_array(z->arena, uint32_t, n);
    uint8_t *leads = arena_array(z->arena, uint8_t, n); // to a barrier
    for (uint32_t id = n; id-- > 1;) {
        for (uint32_t k = 0; k < z->users[id].n; k++) {
            uint32_t user = z->users[id].at[k];
            leads[id] |= leads[user] | !unit_joins(z->g, user);
        }
        all += z->unit[id] && leads[id] && !unit_joins(z->g, id);
    }
    uint32_t chosen = all < Most ? all : Most;
    for (uint32_t id = 1; id < n; id++) {
        if (!z->unit[id] || !leads[id] || unit_joins(z->g, id))
            continue;
        uint32_t k = (uint32_t)((uint64_t)seen * chosen / all); // the first of each k-th
        number[id] = !seen || k != (uint32_t)((uint64_t)(seen - 1) * chosen / all) ? 1 + k : 0;
        seen++;
    }
    return number;
}

void barriers_find(Fuse *z) {
    uint32_t n = z->g->node.n;
    BarrierSet *after = arena_array(z->arena, BarrierSet, n),
               *before = arena_array(z->arena, BarrierSet, n);
    const uint32_t *number = choose_barriers(z);
    for (uint32_t id = n; id-- > 1;) {
        for (uint32_t k = 0; k < z->users[id].n; k++) {
            uint32_t user = z->users[id].at[k];
            set_add(&after[id], &after[user]);
            if (number[user])
                set_add_one(&after[id], number[user] - 1);
        }
    }
    for (uint32_t id = 1; id < n; id++) {
        if (number[id])
            set_add_one(&before[id], number[id] - 1);
        for (uint32_t k = 0; k < z->users[id].n; k++)
            set_add(&before[z->users[id].at[k]], &before[id]);
    }
    z->barrier = (Barriers){after, before};
    for (uint32_t id = 1; id < n; id++)
        if (z->unit[id] && z->cluster[id] != id)
            barriers_join(z, z->cluster[id], id);
}

void barriers_join(Fuse *z, uint32_t a, uint32_t b) {
    if (!z->barrier.after)
        return;
    set_add(&z->barrier.after[a], &z->barrier.after[b]);
    set_add(&z->barrier.before[a], &z->barrier.before[b]);
}

bool barrier_between(const Fuse *z, uint32_t a, uint32_t b) {
    uint64_t both = 0;
    for (uint32_t i = 0; i < BarrierWords; i++)
        both |= z->barrier.after[a].bits[i] & z->barrier.before[b].bits[i];
    return both != 0;
}
