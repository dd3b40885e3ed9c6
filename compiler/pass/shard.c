// shard.c - a step for the global batch becomes the step of one rank.
//
// In: a function for Share.total samples, in its final precision. Out: the same function for this
// rank's samples, [first, first + samples). Numbers that were made of the batch size (a mean's 1/N)
// stay as they are; draws and sample numbers count from Share.first (Counters.sample0). What adds
// samples up (a Sum over the batch, a product that contracts it, GroupSum, Scatter) adds this rank's,
// and a collective (ReduceStart, ReduceWait) makes the rest of it where partial.c says. With one rank
// nothing changes.
//
// Groups of samples (GroupSum): where no group lies on two ranks they cost nothing. Otherwise each
// rank adds its samples into a table of all groups, which is added up and read back.
#include "shard.h"

typedef struct Shard {
    const Share *share;
    Partials partial;
    uint32_t *sum; // [old node] its collective in sums + 1, 0 none
    SumVec sums;
    SumOrder order;
} Shard;

Share share_of(int64_t total, uint32_t rank, uint32_t ranks) {
    Share s = {.rank = ranks > 1 ? rank : 0, .ranks = ranks > 1 ? ranks : 1, .total = total};
    s.first = total * s.rank / s.ranks;
    s.samples = total * (s.rank + 1) / s.ranks - s.first;
    return s;
}

// --- groups of samples ---------------------------------------------------------------------------

static bool groups_fit(const Share *s, int64_t group) {
    for (uint32_t r = 1; r < s->ranks; r++) {
        if (s->total * r / s->ranks % group) {
            return false;
        }
    }
    return true;
}

static bool group_straddles(const Shard *s, const Graph *g, uint32_t id) {
    return graph_node(g, id)->op == OpGroupSum &&
           !groups_fit(s->share, node_attr(g, id)->i[0]);
}

// The table of group sums of values of type t: a row a group. Six axes leave no room for another.
static Type group_table(const Share *s, int64_t group, const Type *t) {
    bool full = t->rank == MAX_RANK;
    Type table = {.dtype = t->dtype, .rank = (uint8_t)(full ? 2 : t->rank + 1)};
    table.dim[0] = s->total / group;
    table.dim[1] = type_sample(t);
    for (uint32_t i = 0; !full && i < t->rank; i++) {
        table.dim[1 + i] = t->dim[i];
    }
    return table;
}

// --- collectives ---------------------------------------------------------------------------------

static void find_sums(Arena *perm, Shard *s, const Graph *g) {
    s->sum = arena_array(perm, uint32_t, g->node.n);
    for (uint32_t id = 1; id < g->node.n; id++) {
        bool straddles = s->partial.live[id] && group_straddles(s, g, id);
        if (!straddles && !(s->partial.is[id] && s->partial.whole[id])) {
            continue;
        }
        Type t = *node_type(g, id);
        if (straddles) {
            t = group_table(s->share, node_attr(g, id)->i[0], &t);
        }
        uint8_t dtype = t.dtype == DtF64 ? DtF64 : DtF32;
        vec_push(perm, &s->sums, ((SumOf){.node = id, .dtype = dtype}));
        s->sums.at[s->sums.n - 1].bytes = (size_t)type_sample(&t) * dtype_size[dtype];
        s->sum[id] = s->sums.n;
    }
}

// The sum over the ranks of a partial: in f32 at least.
static Val add_up(const Shard *s, uint32_t id, Val partial) {
    const SumOf *of = &s->sums.at[s->sum[id] - 1];
    Type wide = *node_type(partial.g, partial.id);
    bool narrow = wide.dtype != of->dtype;
    wide.dtype = of->dtype;
    Val x = narrow ? (Val){partial.g, graph_add(partial.g, OpCast, &partial.id, 1, NULL, &wide)}
                   : partial;
    Val sum = ReduceWait(ReduceStart(x, of->call, of->part, s->order));
    return narrow ? CastTo(sum, partial) : sum;
}

static Val sum_groups(const Shard *s, uint32_t id, Val x, int64_t group) {
    Type t = *node_type(x.g, x.id), table = group_table(s->share, group, &t);
    Val rows = t.rank == MAX_RANK ? Reshape(x, 1, &table.dim[1]) : x;
    Type index = {.dtype = t.dtype, .batched = true};
    Val at = Iota(x.g, 1, index);
    at = Floor(Div(at, Num(at, (double)group)));
    Val sums = add_up(s, id, Scatter(rows, at, table)), mine = Gather(sums, at);
    return t.rank == MAX_RANK ? Reshape(mine, t.rank, t.dim) : mine;
}

static uint32_t localize(void *user, Graph *to, const Graph *from, uint32_t id,
                         const uint32_t *map) {
    const Shard *s = user;
    if (!s->sum[id]) {
        return node_copy(NULL, to, from, id, map);
    }
    if (group_straddles(s, from, id)) {
        Val x = {to, map[node_in(from, id, 0)]};
        return sum_groups(s, id, x, node_attr(from, id)->i[0]).id;
    }
    return add_up(s, id, (Val){to, node_copy(NULL, to, from, id, map)}).id;
}

void pass_shard(Arena *perm, Module *m, Func *f, const PassOptions *o) {
    if (o->parallel.ranks <= 1) {
        return;
    }
    Shard s = {.share = &m->share};
    partials_find(perm, f, &s.partial);
    find_sums(perm, &s, &f->g);
    calls_plan(perm, f, s.partial.live, &o->parallel, &s.sums);
    func_rewrite(perm, f, m->share.samples, localize, &s);
}
