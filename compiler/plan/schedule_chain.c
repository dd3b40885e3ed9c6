// schedule_chain.c - how long a block takes on a card, which runs launches side by side: Brent's
// bound, the time of its work on all of the card and the latency of its longest chain.
//
// A launch waits for those that make what it reads, and for those that read last what lay in the
// memory it takes. Where values will lie is not known before the order is. Taken is what has been
// free for the longest chain of launches: an order under which each value dies soon needs little
// memory, and chains its launches by it.
#include "schedule.h"

static const double LaunchLatency = 3.5e-6; // seconds: cyclegan, by its longest chains (tuning.md)

typedef struct Pool {
    size_t *bytes;   // [launches + 1] free behind a chain of so many launches
    uint32_t lowest; // there are none behind shorter ones
} Pool;

static void pool_free(Pool *p, uint32_t behind, size_t bytes) {
    p->bytes[behind] += bytes;
    p->lowest = behind < p->lowest ? behind : p->lowest;
}

// The chain behind which so many bytes are free, `least` or longer.
static uint32_t pool_take(Pool *p, uint32_t least, size_t bytes) {
    while (bytes) {
        size_t *free = &p->bytes[p->lowest], take = *free < bytes ? *free : bytes;
        *free -= take;
        bytes -= take;
        least = take && p->lowest > least ? p->lowest : least;
        p->lowest += *free == 0;
    }
    return least;
}

// Launches of the longest chain of an order whose values live in so many bytes, no fewer than its
// peak.
static uint32_t longest_chain(Arena scratch, const Sched *s, const RegionVec *order, size_t bytes) {
    const Plan *p = s->p;
    uint32_t *before = arena_array(&scratch, uint32_t, p->region.n + s->tail.n), most = 0;
    uint32_t *readers = arena_array(&scratch, uint32_t, p->func->g.node.n),
             *read = arena_array(&scratch, uint32_t, p->func->g.node.n); // by the end of a chain
    Pool pool = {arena_array(&scratch, size_t, order->n + 1), 0};
    pool_free(&pool, 0, bytes);
    for (uint32_t i = 0; i < order->n; i++) {
        const Region *r = &p->region.at[order->at[i]];
        for (uint32_t k = 0; k < r->in.n; k++)
            readers[r->in.at[k]]++;
    }
    for (uint32_t i = 0; i < order->n; i++) {
        uint32_t region = order->at[i];
        const Region *r = &p->region.at[region];
        uint32_t mine = pool_take(&pool, before[region], s->made[region]) + 1;
        most = mine > most ? mine : most;
        for (uint32_t k = 0; k < s->next[region].n; k++) {
            uint32_t *theirs = &before[s->next[region].at[k]];
            *theirs = mine > *theirs ? mine : *theirs;
        }
        for (uint32_t k = 0; k < r->in.n; k++) {
            uint32_t id = r->in.at[k];
            read[id] = mine > read[id] ? mine : read[id];
            if (!--readers[id])
                pool_free(&pool, read[id], s->value[id].bytes);
        }
    }
    return most;
}

double sched_card_seconds(const Sched *s, const RegionVec *regions, const RegionVec *order,
                          size_t bytes) {
    double work = 0; // the same bits for each order: none wins by how its sum is rounded
    for (uint32_t i = 0; i < regions->n; i++)
        work += card_seconds(s->p, &s->p->region.at[regions->at[i]]);
    return work + LaunchLatency * longest_chain(*s->a, s, order, bytes);
}
