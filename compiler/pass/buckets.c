// buckets.c - assigns the sums over the ranks to buckets, one collective call each, and orders the
// calls.
//
// In: the values to reduce, of a graph that is the same on every rank. Out: the call and part of
// each. times.c estimates when each value is final: with several chains into one net (real, fake,
// penalty) a gradient is final when the last of them has come back through the layer. The gradients
// of one update, in that order, are cut into buckets; the last buckets are the smallest, since no
// work is left to overlap with them, and where they are not small, other gradients that are final
// earlier are computed after them. Sums that something waits for go before gradients that can be
// computed meanwhile. Other sums are small: those with the same dependences on earlier calls share
// one, except that values that depend on deferred work of the previous step are kept apart. A call
// starts when its last part is ready, so calls are ordered by that; none may precede one it depends
// on, and where sharing creates a dependence cycle, the smallest call in it is split.
#include "shard.h"

#include "integers.h"

#include <stdlib.h>
#include <string.h>

enum {
    OwnDepth = 8,           // nodes between a gradient and the product that computes it, at most
    Worth = 32,             // transfer time of a full bucket, in latencies of its call
    LastPart = 8,           // a full bucket is so many times the last one
    CallAlign = 64,         // of parts in a call
    LeastShared = 16 << 10, // bytes of small sums that share a call on any link
};

typedef struct Item {
    uint32_t node;
    uint64_t place; // of its block on the tape, and its phase there
    uint32_t time;  // when it is final: Times.time
    uint32_t update, slot;
    uint32_t group; // index of the first item of its call
    uint64_t needs; // hash of the items it depends on
    bool late;      // Times.late
    SumOf *sum;
} Item;

typedef VEC(Item) ItemVec;

typedef struct Group {   // a bucket being filled
    uint32_t items, key; // how many; when the last is final
    size_t bytes;
    uint32_t waits; // groups it depends on that have no number yet, itself included
    uint32_t call;  // its number, NONE: none yet
    uint32_t parts; // of it that have a number
} Group;

typedef struct Buckets {
    Arena *a;
    const Func *f;
    const uint8_t *live;
    const uint32_t *phase; // [node] or NULL
    uint32_t words;        // of a set of items
    uint64_t *needs;       // [node][words] items a node depends on
    uint32_t *item;        // [node] its item + 1
    uint32_t *like;        // [node] SumOf.like
    ItemVec items;         // by place, level, node
    Group *group;          // [item] of the first item of a call
} Buckets;

// --- dependences ---------------------------------------------------------------------------------

static uint64_t *needs_of(const Buckets *b, uint32_t node) {
    return b->needs + (size_t)node * b->words;
}

static bool has(const uint64_t *set, uint32_t i) {
    return set[i / 64] >> i % 64 & 1;
}

static void find_needs(Buckets *b) {
    const Graph *g = &b->f->g;
    b->words = (b->items.n + 63) / 64;
    b->needs = arena_array(b->a, uint64_t, (size_t)g->node.n * b->words);
    for (uint32_t id = 1; id < g->node.n; id++) {
        for (uint32_t k = 0; b->live[id] && k < graph_node(g, id)->nin; k++) {
            uint32_t in = node_in(g, id, k);
            for (uint32_t w = 0; w < b->words; w++)
                needs_of(b, id)[w] |= needs_of(b, in)[w];
            if (b->item[in])
                needs_of(b, id)[(b->item[in] - 1) / 64] |= (uint64_t)1 << (b->item[in] - 1) % 64;
        }
        if (b->like[id])
            memcpy(needs_of(b, id), needs_of(b, b->like[id]), b->words * sizeof *b->needs);
    }
    for (uint32_t i = 0; i < b->items.n; i++) {
        Item *item = &b->items.at[i];
        item->needs = hash64(needs_of(b, item->node), b->words * sizeof *b->needs, 0);
    }
}

// --- items ---------------------------------------------------------------------------------------

static int by_finality(const void *x, const void *y) {
    const Item *a = x, *b = y;
    if (a->place != b->place)
        return a->place < b->place ? -1 : 1;
    if (a->time != b->time)
        return a->time < b->time ? -1 : 1;
    if (a->slot != b->slot) // weights lie in their arena with the last made first
        return a->slot > b->slot ? -1 : 1;
    return a->node < b->node ? -1 : a->node > b->node;
}

static int by_update(const void *x, const void *y) {
    const Item *a = x, *b = y;
    if (a->update != b->update)
        return a->update < b->update ? -1 : 1;
    return a->sum->dtype != b->sum->dtype ? (a->sum->dtype < b->sum->dtype ? -1 : 1)
                                          : by_finality(x, y);
}

static bool same_kind(const Item *a, const Item *b) {
    return a->place == b->place && a->update == b->update && a->late == b->late &&
           a->sum->dtype == b->sum->dtype;
}

// Seconds to compute a gradient on a core of this rank: the products that contract the batch.
static double own_seconds(const Buckets *b, const Parallel *o, uint32_t node, uint32_t depth) {
    const Graph *g = &b->f->g;
    double sum = product_seconds(g, node) / (o->ranks > 1 ? o->ranks : 1);
    for (uint32_t k = 0; depth && sum == 0 && k < graph_node(g, node)->nin; k++) {
        uint32_t in = node_in(g, node, k);
        bool made = !node_type(g, in)->batched && graph_node(g, in)->op != OpWrite;
        sum += made ? own_seconds(b, o, in, depth - 1) : 0;
    }
    return sum;
}

// No work is left to overlap with the last gradients of an update, so some is held back for them:
// gradients that are final no later, take longer to compute than to send, and are smaller than what
// is still exposed. They become the last, the largest first. Items are sorted; [first, last] are
// all of this update.
static void keep_for_last(Buckets *b, const Parallel *o, uint32_t first, uint32_t last) {
    uint32_t time = b->items.at[last].time + 1;
    double open = 0; // exposed seconds of communication
    for (uint32_t i = last + 1; i-- > first;) {
        Item *item = &b->items.at[i];
        double sent = call_seconds(o, item->sum->bytes) - call_seconds(o, 0);
        double made = own_seconds(b, o, item->node, OwnDepth);
        if (made > sent && open > sent && open > Worth / LastPart * call_seconds(o, 0)) {
            item->time = time++;
            open = open > made - sent ? open - (made - sent) : 0;
        } else {
            open += sent;
        }
    }
}

// Is a sum that something waits for final within `ticks` after an item?
static bool sum_follows(const Buckets *b, const Item *item, uint32_t ticks) {
    for (uint32_t i = 0; i < b->items.n; i++) {
        const Item *sum = &b->items.at[i];
        if (sum->update == NONE && sum->place == item->place && sum->time - item->time < ticks)
            return true;
    }
    return false;
}

// A core computes what the next layer's sums need before a weight gradient, which then overlaps
// with them: unless the step is bound by communication, where any idle time of the link counts.
static void put_behind_sums(Buckets *b, const Parallel *o, uint32_t first, uint32_t last) {
    double made = 0, sent = 0;
    for (uint32_t i = first; i <= last; i++) {
        made += own_seconds(b, o, b->items.at[i].node, OwnDepth);
        sent += call_seconds(o, b->items.at[i].sum->bytes) - call_seconds(o, 0);
    }
    for (uint32_t i = first; i <= last && made > sent; i++) {
        Item *item = &b->items.at[i];
        uint32_t ticks = (uint32_t)(own_seconds(b, o, item->node, OwnDepth) / TIMES_TICK);
        item->time += sum_follows(b, item, ticks) ? ticks : 0;
    }
    qsort(b->items.at + first, last - first + 1, sizeof *b->items.at, by_finality);
}

static void order_gradients(Buckets *b, const Parallel *o) {
    for (uint32_t first = 0, last; first < b->items.n; first = last + 1) {
        const Item *of = &b->items.at[first];
        for (last = first; last + 1 < b->items.n && same_kind(&b->items.at[last + 1], of);)
            last++;
        if (of->update == NONE)
            continue;
        if (!b->phase)
            put_behind_sums(b, o, first, last);
        keep_for_last(b, o, first, last);
    }
}

static void collect_items(Buckets *b, SumVec *sums) {
    const Func *f = b->f;
    uint32_t *place = arena_array(b->a, uint32_t, f->blocks);
    for (uint32_t i = 0; i < f->tape.n; i++)
        if (f->tape.at[i].kind == CtlBlock)
            place[f->tape.at[i].arg] = i;
    for (uint32_t i = 0; i < sums->n; i++) {
        uint32_t node = sums->at[i].node;
        uint64_t at = place[graph_node(&f->g, node)->block];
        Item item = {
            .node = node, .place = at << 32 | (b->phase ? b->phase[node] : 0), .sum = &sums->at[i]};
        item.update = func_gradient(f, node, &item.slot);
        vec_push(b->a, &b->items, item);
        b->item[node] = i + 1;
        b->like[node] = sums->at[i].like;
    }
}

static void find_items(Buckets *b, const Parallel *o, SumVec *sums) {
    uint32_t nodes = b->f->g.node.n;
    b->item = arena_array(b->a, uint32_t, nodes);
    b->like = arena_array(b->a, uint32_t, nodes);
    collect_items(b, sums);
    Times times = times_find(b->a, b->f, b->live, sums, o, o->tail && !b->phase);
    for (uint32_t i = 0; i < b->items.n; i++) {
        Item *item = &b->items.at[i];
        item->time = times.time[item->node];
        item->late = times.late[item->node];
    }
    qsort(b->items.at, b->items.n, sizeof *b->items.at, by_update);
    order_gradients(b, o);
    qsort(b->items.at, b->items.n, sizeof *b->items.at, by_finality);
    for (uint32_t i = 0; i < b->items.n; i++) {
        b->item[b->items.at[i].node] = i + 1;
        b->items.at[i].group = i;
    }
}

// --- grouping ------------------------------------------------------------------------------------

static size_t aligned(size_t bytes) {
    return round_up(bytes, CallAlign);
}

// Cuts the gradients of an update into buckets from the last final one to the first: small, larger,
// full. One that is too small for a call of its own joins those that start after it, even if full.
static void cut_gradients(Buckets *b, uint32_t last, size_t full, size_t small) {
    const Item *of = &b->items.at[last];
    size_t room = full / LastPart, bytes = 0, joined = 0;
    uint32_t open = last;
    for (uint32_t i = last + 1; i-- > 0;) {
        Item *item = &b->items.at[i];
        if (!same_kind(item, of))
            continue;
        size_t more = aligned(item->sum->bytes);
        bool joins = more <= small && joined + more <= full;
        if (bytes && bytes + more > room && !joins) {
            room = room * 2 < full ? room * 2 : full;
            open = i;
            bytes = joined = 0;
        }
        joined += joins ? more : 0;
        item->group = open;
        bytes += more;
    }
}

static bool waits_alike(const Buckets *b, uint32_t i, uint32_t k) {
    const Item *x = &b->items.at[i], *y = &b->items.at[k];
    return x->needs == y->needs &&
           !memcmp(needs_of(b, x->node), needs_of(b, y->node), b->words * sizeof *b->needs);
}

static void join_small(Buckets *b, uint32_t i, size_t most) {
    Item *item = &b->items.at[i];
    for (uint32_t k = 0; k < i && item->sum->bytes <= most; k++) {
        const Item *first = &b->items.at[k];
        if (first->group == k && same_kind(first, item) && waits_alike(b, i, k) &&
            b->group[k].bytes + aligned(item->sum->bytes) <= most) {
            item->group = k;
            break;
        }
    }
    b->group[item->group].bytes += aligned(item->sum->bytes);
}

static void group_items(Buckets *b, const Parallel *o) {
    size_t small = link_bytes(o), full = o->bucket ? o->bucket : small * Worth;
    uint8_t *cut = arena_array(b->a, uint8_t, b->items.n); // shares a call with its like
    for (uint32_t i = b->items.n; i-- > 0;) {
        const Item *item = &b->items.at[i];
        if (item->update != NONE && !cut[i]) {
            cut_gradients(b, i, full, small);
            for (uint32_t k = 0; k <= i; k++)
                cut[k] |= same_kind(&b->items.at[k], item);
        }
    }
    for (uint32_t i = 0; i < b->items.n; i++)
        if (b->items.at[i].update == NONE)
            join_small(b, i, small > LeastShared ? small : LeastShared);
}

// --- order ---------------------------------------------------------------------------------------

// The groups that each group depends on, [group][words]; Group.waits counts them.
static uint64_t *find_waits(Buckets *b, Arena *scratch) {
    uint32_t n = b->items.n, words = b->words;
    uint64_t *waits = arena_array(scratch, uint64_t, (size_t)n * words);
    for (uint32_t i = 0; i < n; i++) {
        const uint64_t *needs = needs_of(b, b->items.at[i].node);
        uint32_t group = b->items.at[i].group;
        for (uint32_t k = 0; k < n; k++) {
            uint32_t on = b->items.at[k].group;
            if (has(needs, k) && !has(waits + (size_t)group * words, on)) {
                waits[(size_t)group * words + on / 64] |= (uint64_t)1 << on % 64;
                b->group[group].waits++;
            }
        }
    }
    return waits;
}

static bool sooner(const Buckets *b, uint32_t g, uint32_t than) {
    const Item *x = &b->items.at[g], *y = &b->items.at[than];
    if (x->place != y->place)
        return x->place < y->place;
    return b->group[g].key < b->group[than].key;
}

// The earliest call that may be next; NONE: there is a cycle, or none is left.
static uint32_t next_group(const Buckets *b) {
    uint32_t best = NONE;
    for (uint32_t g = 0; g < b->items.n; g++) {
        const Group *group = &b->group[g];
        if (group->items && group->call == NONE && !group->waits)
            best = best == NONE || sooner(b, g, best) ? g : best;
    }
    return best;
}

// Numbers the calls; false when their dependences form a cycle.
static bool order_groups(Buckets *b) {
    Arena scratch = *b->a;
    uint32_t left = 0, call = 0;
    for (uint32_t g = 0; g < b->items.n; g++)
        b->group[g] = (Group){.call = NONE};
    for (uint32_t i = 0; i < b->items.n; i++) {
        const Item *item = &b->items.at[i];
        Group *g = &b->group[item->group];
        left += !g->items++;
        g->key = item->time > g->key ? item->time : g->key;
    }
    const uint64_t *waits = find_waits(b, &scratch);
    for (uint32_t g; left && (g = next_group(b)) != NONE; left--) {
        b->group[g].call = call++;
        for (uint32_t k = 0; k < b->items.n; k++)
            b->group[k].waits -= has(waits + (size_t)k * b->words, g);
    }
    for (uint32_t i = 0; i < b->items.n; i++) {
        const Item *item = &b->items.at[i];
        item->sum->call = b->group[item->group].call;
        item->sum->part = b->group[item->group].parts++;
    }
    return !left;
}

// [group] Of each call that has no number, one like it that it depends on; NONE: there is none.
static uint32_t *needed_groups(const Buckets *b, Arena *scratch) {
    uint32_t *needed = arena_array(scratch, uint32_t, b->items.n);
    memset(needed, 0xff, b->items.n * sizeof *needed);
    for (uint32_t i = 0; i < b->items.n; i++) {
        const Item *item = &b->items.at[i];
        const uint64_t *needs = needs_of(b, item->node);
        for (uint32_t k = 0; k < b->items.n && needed[item->group] == NONE; k++)
            if (has(needs, k) && b->group[b->items.at[k].group].call == NONE)
                needed[item->group] = b->items.at[k].group;
    }
    return needed;
}

// Splits the call of a dependence cycle that has the fewest items, but more than one; false: there
// is none.
static bool split_cycle(Buckets *b) {
    Arena scratch = *b->a;
    const uint32_t *needed = needed_groups(b, &scratch);
    uint32_t at = 0, best = NONE;
    while (!b->group[at].items || b->group[at].call != NONE)
        at++;
    for (uint32_t i = 0; i < b->items.n; i++) // ends within the cycle, not on a path to it
        at = needed[at];
    for (uint32_t i = 0; i < b->items.n; i++, at = needed[at])
        if (b->group[at].items > 1 && (best == NONE || b->group[at].items < b->group[best].items))
            best = at;
    for (uint32_t i = 0; i < b->items.n; i++)
        if (b->items.at[i].group == best)
            b->items.at[i].group = i;
    return best != NONE;
}

void calls_plan(Arena *a, const Func *f, const uint8_t *live, const uint32_t *phase,
                const Parallel *o, SumVec *sums) {
    Buckets b = {.a = a, .f = f, .live = live, .phase = phase};
    if (!sums->n)
        return;
    find_items(&b, o, sums);
    find_needs(&b);
    b.group = arena_array(a, Group, b.items.n);
    group_items(&b, o);
    while (!order_groups(&b))
        if (!split_cycle(&b))
            bug("the collectives of %.*s wait for each other", SARG(f->name));
}
