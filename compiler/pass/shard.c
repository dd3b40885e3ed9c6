// shard.c - turns a step for the global batch into the step of one rank (data parallelism).
//
// In: a function for Share.total samples, in its final precision. Out: the same function for this
// rank's samples, [first, first + samples). Constants made of the batch size (a mean's 1/N) stay
// those of the global batch; random draws and sample numbers count from Share.first
// (Counters.sample0). Sums over samples (a Sum over the batch, a contraction of it, GroupSum,
// Scatter) become sums over this rank's samples, completed by a collective (ReduceStart,
// ReduceWait) where partial.c says. With one rank nothing changes.
//
// Groups of samples (GroupSum) that lie within one rank cost nothing. Otherwise each rank adds its
// samples into a table of all groups, which is reduced and read back.
#include "shard.h"

typedef struct Shard {
    const Share *share;
    Partials partial;
    uint32_t *sum; // [old node] its collective in sums + 1, 0 none
    SumVec sums;
    About *about; // [old node]
} Shard;

Share share_of(int64_t total, uint32_t rank, uint32_t ranks) {
    Share s = {.rank = ranks > 1 ? rank : 0, .ranks = ranks > 1 ? ranks : 1, .total = total};
    s.first = total * s.rank / s.ranks;
    s.samples = total * (s.rank + 1) / s.ranks - s.first;
    return s;
}

// --- groups of samples ---------------------------------------------------------------------------

static bool groups_fit(const Share *s, int64_t group) {
    for (uint32_t r = 1; r < s->ranks; r++)
        if (s->total * r / s->ranks % group)
            return false;
    return true;
}

static bool group_straddles(const Shard *s, const Graph *g, uint32_t id) {
    return graph_node(g, id)->op == OpGroupSum && !groups_fit(s->share, node_attr(g, id)->i[0]);
}

Type groups_table(const Share *s, int64_t group, const Type *t) {
    bool full = t->rank == MAX_RANK; // leaves no room for another axis
    Type table = {.dtype = t->dtype, .rank = (uint8_t)(full ? 2 : t->rank + 1)};
    table.dim[0] = s->total / group;
    table.dim[1] = type_sample(t);
    for (uint32_t i = 0; !full && i < t->rank; i++)
        table.dim[1 + i] = t->dim[i];
    return table;
}

// The group each sample is in.
static Val group_numbers(int64_t group, Val like) {
    Type number = {.dtype = val_type(like).dtype, .batched = true};
    Val at = Iota(like.b, 1, number);
    return Floor(Div(at, Num(at, (double)group)));
}

Val groups_add(const Share *s, int64_t group, Val x) {
    Type t = val_type(x), table = groups_table(s, group, &t);
    Val rows = t.rank == MAX_RANK ? Reshape(x, 1, &table.dim[1]) : x;
    return Scatter(rows, group_numbers(group, x), table);
}

static Val in_dtype(Val x, uint8_t dtype) {
    Type want = val_type(x);
    bool same = want.dtype == dtype;
    want.dtype = dtype;
    return same ? x : (Val){x.b, builder_add(x.b, OpCast, &x.id, 1, NULL, &want)};
}

Val groups_read(int64_t group, Val sums, Type t) {
    Val mine = Gather(sums, group_numbers(group, sums));
    if (t.rank == MAX_RANK)
        mine = Reshape(mine, t.rank, t.dim);
    return in_dtype(mine, t.dtype);
}

// --- collectives ---------------------------------------------------------------------------------

SumOf sum_make(uint32_t node, const Type *t, uint8_t least) {
    uint8_t dtype = t->dtype == DtF64 || least == DtF64 ? DtF64 : DtF32;
    return (SumOf){
        .node = node, .bytes = (size_t)type_sample(t) * dtype_size[dtype], .dtype = dtype};
}

Val sum_widen(const SumOf *s, Val partial) {
    return in_dtype(partial, s->dtype);
}

static void find_sums(Arena *perm, Shard *s, const Graph *g) {
    s->sum = arena_array(perm, uint32_t, g->node.n);
    for (uint32_t id = 1; id < g->node.n; id++) {
        bool straddles = s->partial.live[id] && group_straddles(s, g, id);
        if (!straddles && !(s->partial.is[id] && s->partial.whole[id]))
            continue;
        Type t = *node_type(g, id);
        if (straddles)
            t = groups_table(s->share, node_attr(g, id)->i[0], &t);
        bool about = s->about[id].centre || s->about[id].is_centre;
        SumOf sum = sum_make(id, &t, about ? DtF64 : DtF32);
        sum.like = s->about[id].centre;
        vec_push(perm, &s->sums, sum);
        s->sum[id] = s->sums.n;
    }
}

static Val add_up(const Shard *s, uint32_t id, Val partial) {
    const SumOf *of = &s->sums.at[s->sum[id] - 1];
    return ReduceWait(ReduceStart(sum_widen(of, partial), of->call, of->part, OrderAny));
}

// --- squares about a mean (moments.c) ------------------------------------------------------------

static void find_centres(Arena *perm, Shard *s, const Graph *g) {
    s->about = arena_array(perm, About, g->node.n);
    for (uint32_t id = 1; id < g->node.n; id++) {
        uint32_t centre = partial_begins(g, id) ? centre_of(g, id) : 0;
        s->about[id].centre = centre;
        s->about[centre].is_centre = centre != 0;
    }
}

// Terms of a sum that are this rank's.
static double own_terms(const Shard *s, const Graph *from, uint32_t id) {
    return (double)node_terms(from, id) * (double)s->share->samples / (double)s->share->total;
}

// The sum that a mean is made of: n times this rank's own mean, for that is what squares are about.
static Val centre_sum(const Shard *s, const Graph *from, uint32_t id, Val partial) {
    double n = own_terms(s, from, id);
    Val own = Mul(partial, Num(partial, 1 / n)), wide = in_dtype(own, DtF64);
    Val whole = add_up(s, id, Mul(wide, Num(wide, n)));
    s->about[id].own = own.id;
    s->about[id].whole = whole.id;
    return whole;
}

// sum_r [sum (x - c_r)^2 + n_r c_r^2] - (sum_r n_r c_r)^2 / N; rounding must not make it negative.
static Val squares_sum(const Shard *s, const Graph *from, uint32_t id, Val x) {
    uint32_t centre = s->about[id].centre, apart = node_in(from, node_in(from, id, 0), 0);
    Type shape = *node_type(from, node_in(from, apart, 1));
    Val own = {x.b, s->about[centre].own}, whole = {x.b, s->about[centre].whole};
    Val off = Sub(x, Reshape(own, shape.rank, shape.dim)), wide = in_dtype(own, DtF64);
    Val squares = in_dtype(Sum(Mul(off, off), (uint32_t)node_attr(from, id)->i[0]), DtF64);
    Val about = Mul(Mul(wide, wide), Num(wide, own_terms(s, from, id)));
    Val sums = add_up(s, id, Add(squares, about));
    Val taken = Div(Mul(whole, whole), Num(whole, (double)node_terms(from, id)));
    return Max(Sub(sums, taken), Num(sums, 0));
}

static uint32_t localize(Rewriter *r, uint32_t id) {
    const Shard *s = r->user;
    const Graph *from = r->from;
    if (!s->sum[id])
        return node_copy(r, id);
    if (group_straddles(s, from, id)) {
        Val x = rewritten_in(r, id, 0);
        int64_t group = node_attr(from, id)->i[0];
        Val sums = add_up(s, id, groups_add(s->share, group, x));
        return groups_read(group, sums, *node_type(from, id)).id;
    }
    uint8_t dtype = node_type(from, id)->dtype;
    if (s->about[id].centre) {
        Val x = rewritten_in(r, node_in(from, node_in(from, id, 0), 0), 0);
        return in_dtype(squares_sum(s, from, id, x), dtype).id;
    }
    Val partial = {&r->to, node_copy(r, id)};
    if (s->about[id].is_centre)
        return in_dtype(centre_sum(s, from, id, partial), dtype).id;
    return in_dtype(add_up(s, id, partial), dtype).id;
}

void pass_shard(Arena *perm, const Module *m, Func *f, const PassOptions *o) {
    if (o->parallel.ranks <= 1 || f->block_first) // or is divided already (chunk.c)
        return;
    Shard s = {.share = &m->share};
    find_centres(perm, &s, &f->g);
    partials_find(perm, f, s.about, &s.partial);
    find_sums(perm, &s, &f->g);
    calls_plan(perm, f, s.partial.live, NULL, &o->parallel, &s.sums);
    func_rewrite(perm, f, m->share.samples, localize, &s);
}
