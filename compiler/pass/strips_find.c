// strips_find.c - finds operations to repeat for strips of an axis.
//
// In: a graph. Out: a group. It begins at a product that is much larger than its operands, as the
// scores of an attention are, at one of its axes, and takes in whatever is as large and carries the
// axis: elementwise operations, moves, reductions over other axes, products of which it is no inner
// axis. What is made of those must carry the axis or sum over it; else the whole value is needed
// somewhere, and there is no group. Small values between two members, such as the maxima of a
// softmax, are members too if they are cheap.
#include "strips.h"

#include <math.h>

enum {
    Expands = 4,     // times that a product is larger than its operands
    MaxStrips = 32,  // each is a part of the kernels that join the results
    LeastRows = 128, // of fewer, products are slower
    RowPack = 16,
    Fits = 2,       // a strip of so many times the wanted size spares time
    SmallStrips = 3 // with small_products
};

// --- one edge ------------------------------------------------------------------------------------

enum { Refused = -1, Whole = 0 }; // or 1 + an axis

static int label_axis(const int64_t *labels, int64_t label) { // labels[0] of them
    for (int64_t i = 0; i < labels[0]; i++)
        if (labels[1 + i] == label)
            return (int)i + 1;
    return Whole;
}

static const int64_t *dot_labels(const Graph *g, uint32_t id, uint32_t side) { // 2: the result
    const int64_t *at = node_attr(g, id)->i;
    while (side--)
        at += at[0] + 1;
    return at;
}

static int reshape_axis(const Type *to, const Type *from, uint32_t axis) {
    int64_t before = 1, n = 1;
    for (uint32_t i = 0; i < axis; i++)
        before *= to->dim[i];
    for (uint32_t i = 0; i < from->rank && n <= before; n *= from->dim[i++])
        if (n == before && from->dim[i] == to->dim[axis])
            return (int)i + 1;
    return Refused;
}

static int move_axis(const Graph *g, uint32_t id, uint32_t k, uint32_t axis) {
    const Type *to = node_type(g, id), *from = node_type(g, node_in(g, id, k));
    const int64_t *at = node_attr(g, id)->i;
    bool whole;
    switch ((Op)graph_node(g, id)->op) {
    case OpExpand:
        return axis < from->rank && from->dim[axis] > 1 ? (int)axis + 1 : Whole;
    case OpReshape:
        return reshape_axis(to, from, axis);
    case OpPermute:
        return (int)at[1 + axis] + 1;
    case OpSlice:
    case OpPad:
        whole =
            at[1 + axis] == 0 && at[1 + to->rank + axis] == 1 && from->dim[axis] == to->dim[axis];
        return whole ? (int)axis + 1 : Refused;
    case OpFlip:
        return node_axes(g, id) >> (1 + axis) & 1 ? Refused : (int)axis + 1;
    case OpConcat:
        return at[0] == axis ? Refused : (int)axis + 1;
    default:
        return Refused;
    }
}

// 1 + the axis of operand k along which `axis` of the result runs.
static int operand_axis(const Graph *g, uint32_t id, uint32_t k, uint32_t axis) {
    const Type *t = node_type(g, node_in(g, id, k));
    Op op = (Op)graph_node(g, id)->op;
    switch ((OpClass)op_info[op].cls) {
    case ClassEW:
        return axis < t->rank && t->dim[axis] > 1 ? (int)axis + 1 : Whole;
    case ClassREDUCE:
        return op_is(op, TraitIndexed) ? Refused : (int)axis + 1;
    case ClassMOVE:
        return op_is(op, TraitIndexed) ? Refused : move_axis(g, id, k, axis);
    case ClassANCHOR:
        return op == OpDot ? label_axis(dot_labels(g, id, k), dot_labels(g, id, 2)[1 + axis])
                           : Refused;
    case ClassNone:
    case ClassRNG:
    case ClassSTATE:
    case ClassLEAF:
    case ClassMETA:
    case ClassCOMM:
    case ClassCount:
        break;
    }
    return Refused;
}

int strips_edge(const Strips *z, uint32_t id, uint32_t k) {
    if (z->cut[id])
        return operand_axis(z->g, id, k, z->cut[id] - 1u);
    return graph_node(z->g, id)->op == OpDot ? label_axis(dot_labels(z->g, id, k), z->sum[id])
                                             : z->sum[id];
}

static bool can_cut(const Graph *g, uint32_t id, uint32_t axis) {
    bool can = graph_node(g, id)->nin > 0;
    for (uint32_t k = 0; k < graph_node(g, id)->nin && can; k++)
        can = operand_axis(g, id, k, axis) != Refused;
    return can;
}

// The axis of `user` along which axis `axis` of all its operands `id` runs, -1 none.
static int carried_axis(const Graph *g, uint32_t user, uint32_t id, uint32_t axis) {
    const Type *t = node_type(g, user);
    for (uint32_t b = 0; b < t->rank; b++) {
        bool same = t->dim[b] == node_type(g, id)->dim[axis] && can_cut(g, user, b);
        for (uint32_t k = 0; k < graph_node(g, user)->nin && same; k++)
            same = node_in(g, user, k) != id || operand_axis(g, user, k, b) == (int)axis + 1;
        if (same)
            return (int)b;
    }
    return -1;
}

// Strips.sum of `user`, if it adds up its operands `id` along `axis`, or takes their maximum.
static uint8_t summed(const Graph *g, uint32_t user, uint32_t id, uint32_t axis) {
    Op op = (Op)graph_node(g, user)->op;
    if (op == OpSum || op == OpMaxOf)
        return node_axes(g, user) >> (1 + axis) & 1 ? (uint8_t)(axis + 1) : 0;
    if (op != OpDot)
        return 0;
    uint32_t k = node_in(g, user, 0) != id;
    int64_t label = dot_labels(g, user, k)[1 + axis];
    bool inner = label_axis(dot_labels(g, user, 2), label) == Whole &&
                 label_axis(dot_labels(g, user, 1 - k), label) != Whole;
    bool other = node_in(g, user, 1 - k) != id ||
                 label_axis(dot_labels(g, user, 1 - k), label) == (int)axis + 1;
    return inner && other ? (uint8_t)label : 0;
}

// --- members -------------------------------------------------------------------------------------

static int64_t elements(const Strips *z, uint32_t id) {
    return type_elements(z->g, node_type(z->g, id));
}

static double bytes_of(const Strips *z, uint32_t id) {
    return (double)type_bytes(z->g, node_type(z->g, id));
}

// Of the seed where it is not rounded, as in the loops around it.
static double bytes_wide(const Strips *z, uint32_t seed) {
    return (double)elements(z, seed) * (double)dtype_size[z->o->real == DtF64 ? DtF64 : DtF32];
}

static bool is_large(const Strips *z, uint32_t id) {
    return elements(z, id) > elements(z, z->seed) / 2;
}

static bool is_beside(const Strips *z, uint32_t id) { // in the block of the seed
    return graph_node(z->g, id)->block == graph_node(z->g, z->seed)->block;
}

// False where it is one already with another axis.
static bool join(Strips *z, uint32_t id, int cut, uint8_t sum) {
    if (strips_member(z, id))
        return z->cut[id] == cut && z->sum[id] == sum;
    z->cut[id] = (uint8_t)cut;
    z->sum[id] = sum;
    vec_push(z->a, &z->member, id);
    return true;
}

static bool join_users(Strips *z, uint32_t id) {
    const NodeList *users = &z->users[id];
    uint32_t axis = z->cut[id] - 1u;
    for (uint32_t i = 0; i < users->n; i++) {
        uint32_t user = users->at[i];
        int carried = carried_axis(z->g, user, id, axis);
        uint8_t sum = carried < 0 ? summed(z->g, user, id, axis) : 0;
        bool fits = is_beside(z, user) && (carried >= 0 || (sum && !is_large(z, user)));
        if (!fits || !join(z, user, carried + 1, sum))
            return false;
    }
    return true;
}

static bool join_operands(Strips *z, uint32_t id) {
    for (uint32_t k = 0; k < graph_node(z->g, id)->nin; k++) {
        uint32_t in = node_in(z->g, id, k);
        int edge = strips_edge(z, id, k);
        bool joins = edge != Whole && is_large(z, in) && is_beside(z, in) &&
                     can_cut(z->g, in, (uint32_t)edge - 1);
        if (joins && !join(z, in, edge, 0))
            return false;
    }
    return true;
}

static bool is_cheap(const Graph *g, uint32_t id) {
    OpClass cls = (OpClass)op_info[graph_node(g, id)->op].cls;
    return cls == ClassEW || cls == ClassREDUCE || cls == ClassMOVE;
}

// 1 + the axis that is cut of a small value if it joins, by what it is computed from; 0: it cannot.
static uint8_t cut_between(const Strips *z, uint32_t id) {
    const Graph *g = z->g;
    int cut = 0;
    for (uint32_t k = 0; k < graph_node(g, id)->nin; k++) {
        uint32_t in = node_in(g, id, k);
        if (!z->cut[in])
            continue;
        int now = carried_axis(g, id, in, z->cut[in] - 1u) + 1;
        if (!now || (cut && cut != now))
            return 0;
        cut = now;
    }
    return (uint8_t)cut;
}

static bool read_by_member(const Strips *z, const uint8_t *member, uint32_t id) {
    for (uint32_t i = 0; i < z->users[id].n; i++) {
        uint32_t user = z->users[id].at[i];
        for (uint32_t k = 0; member[user] && k < graph_node(z->g, user)->nin; k++)
            if (node_in(z->g, user, k) == id && strips_edge(z, user, k) == z->cut[id])
                return true;
    }
    return false;
}

// Small values on a way from member to member.
static void join_between(Strips *z) {
    const Graph *g = z->g;
    uint8_t *member = arena_array(z->a, uint8_t, g->node.n);
    for (uint32_t i = 0; i < z->member.n; i++)
        member[z->member.at[i]] = 1;
    for (uint32_t id = z->seed + 1; id < g->node.n; id++)
        if (z->live[id] && !strips_member(z, id) && is_beside(z, id) && is_cheap(g, id))
            z->cut[id] = cut_between(z, id);
    for (uint32_t id = g->node.n; id-- > 1;) {
        if (!z->cut[id] || member[id])
            continue;
        if (read_by_member(z, member, id)) {
            member[id] = 1;
            vec_push(z->a, &z->member, id);
        } else {
            z->cut[id] = 0;
        }
    }
}

static void forget(Strips *z) {
    for (uint32_t i = 0; i < z->member.n; i++)
        z->cut[z->member.at[i]] = z->sum[z->member.at[i]] = 0;
    z->member.n = 0;
}

static bool grow(Strips *z, uint32_t axis) {
    join(z, z->seed, (int)axis + 1, 0);
    for (uint32_t i = 0; i < z->member.n; i++) {
        uint32_t id = z->member.at[i];
        bool large = is_large(z, id);
        if (large && z->root[id])
            return false;
        if (!join_operands(z, id) || (large && !join_users(z, id)))
            return false;
    }
    join_between(z);
    return true;
}

// --- levels --------------------------------------------------------------------------------------

bool strips_carries(const Strips *z, uint32_t id, uint32_t k) {
    uint32_t in = node_in(z->g, id, k);
    return strips_member(z, id) && z->cut[in] && strips_edge(z, id, k) == z->cut[in];
}

static bool find_levels(Strips *z, Group *out) {
    const Graph *g = z->g;
    out->levels = 0;
    for (uint32_t id = 1; id < g->node.n; id++) {
        z->level[id] = 0;
        for (uint32_t k = 0; k < graph_node(g, id)->nin; k++) {
            uint32_t in = node_in(g, id, k);
            bool whole = strips_member(z, in) && !strips_carries(z, id, k);
            uint32_t level = z->level[in] + whole;
            z->level[id] = level > z->level[id] ? level : z->level[id];
            if (whole && is_large(z, in) && z->live[id])
                return false;
        }
        if (strips_member(z, id) && z->level[id] >= out->levels)
            out->levels = z->level[id] + 1;
    }
    return out->levels <= MaxLevels;
}

static bool is_read_whole(const Strips *z, uint32_t id) {
    for (uint32_t i = 0; i < z->users[id].n; i++) {
        uint32_t user = z->users[id].at[i];
        for (uint32_t k = 0; k < graph_node(z->g, user)->nin; k++)
            if (node_in(z->g, user, k) == id &&
                (!strips_carries(z, user, k) || z->level[user] != z->level[id]))
                return true;
    }
    return z->root[id];
}

// What each level's strips compute: what is read in full, and what that is made of. Large values of
// lower levels are made again; small ones are stored.
static void find_members(Strips *z, Group *out) {
    const Graph *g = z->g;
    for (uint32_t i = 0; i < z->member.n; i++) {
        uint32_t id = z->member.at[i];
        z->out[id] = z->sum[id] || (!is_large(z, id) && is_read_whole(z, id));
        z->again[id] = (uint8_t)(z->out[id] ? 1u << z->level[id] : 0);
    }
    for (uint32_t id = g->node.n; id-- > 1;) {
        for (uint32_t k = 0; strips_member(z, id) && k < graph_node(g, id)->nin; k++) {
            uint32_t in = node_in(g, id, k);
            if (!strips_carries(z, id, k))
                continue;
            uint8_t own = (uint8_t)(1u << z->level[in]);
            z->out[in] |= !is_large(z, in) && z->again[id] & ~own;
            z->again[in] |= is_large(z, in) ? z->again[id] : z->out[in] ? own : z->again[id] & own;
        }
    }
    for (uint32_t l = 0; l < out->levels; l++) {
        out->member[l] = (NodeList){0};
        for (uint32_t id = 1; id < g->node.n; id++)
            if (strips_member(z, id) && z->again[id] >> l & 1)
                vec_push(z->a, &out->member[l], id);
    }
}

// --- what it costs -------------------------------------------------------------------------------

typedef struct Cost {
    double strip;        // bytes of a strip of the seed, at least those that are wanted
    double adds, spares; // seconds
} Cost;

static void cut_rows(const Strips *z, Group *out) {
    int64_t most = MaxStrips, pack = RowPack, least = LeastRows;
    if (z->o->small_products)
        most = SmallStrips, pack = least = 1;
    double parts = bytes_wide(z, z->seed) / (double)z->o->strip_bytes;
    int64_t strips = parts < (double)most ? (int64_t)ceil(parts) : most;
    int64_t rows = (out->extent + strips - 1) / strips;
    rows = rows > least ? rows : least;
    out->rows = (rows + pack - 1) / pack * pack;
    out->strips = (uint32_t)((out->extent + out->rows - 1) / out->rows);
}

static Cost cost_of(const Strips *z, const Group *group) {
    double wanted = (double)z->o->strip_bytes, strip = bytes_wide(z, z->seed) / group->strips;
    Cost c = {.strip = strip > wanted ? strip : wanted};
    for (uint32_t l = 0; l < group->levels; l++)
        for (uint32_t i = 0; i < group->member[l].n; i++) {
            uint32_t id = group->member[l].at[i];
            double seconds = loop_seconds(bytes_of(z, id));
            if (z->level[id] != l)
                c.adds += product_seconds(z->g, id) + seconds;
            else if (z->sum[id])
                c.adds += 3 * group->strips * seconds; // read, added to, written
            else if (is_large(z, id))
                c.spares += 2 * seconds; // written and read
        }
    return c;
}

static bool is_better(const Cost *a, const Cost *b) {
    return a->strip != b->strip ? a->strip < b->strip : a->adds < b->adds;
}

// Is there a group that begins at the seed at this axis, and does it pay?
static bool try_axis(Strips *z, uint32_t axis, Group *out, Cost *cost) {
    *out = (Group){.extent = node_type(z->g, z->seed)->dim[axis]};
    cut_rows(z, out);
    if (out->strips < 2 || !grow(z, axis) || !find_levels(z, out))
        return false;
    find_members(z, out);
    *cost = cost_of(z, out);
    return z->o->small_products || bytes_wide(z, z->seed) > (double)z->o->strip_always ||
           (cost->strip <= Fits * (double)z->o->strip_bytes && cost->adds < cost->spares);
}

// --- the product it begins at --------------------------------------------------------------------

static bool is_seed(const Strips *z, uint32_t id) {
    if (!z->live[id] || z->made[id] || graph_node(z->g, id)->op != OpDot)
        return false;
    double in = bytes_of(z, node_in(z->g, id, 0)) + bytes_of(z, node_in(z->g, id, 1));
    return z->o->small_products
               ? bytes_of(z, id) > in
               : bytes_of(z, id) >= Expands * in && bytes_wide(z, id) > (double)z->o->strip_from;
}

static bool find_at(Strips *z, uint32_t seed, Group *out) {
    Group group;
    Cost cost, best = {0};
    int at = -1;
    z->seed = seed;
    for (uint32_t axis = 0; axis < node_type(z->g, seed)->rank; axis++) {
        if (try_axis(z, axis, &group, &cost) && (at < 0 || is_better(&cost, &best))) {
            best = cost;
            at = (int)axis;
        }
        forget(z);
    }
    return at >= 0 && try_axis(z, (uint32_t)at, out, &cost);
}

bool strips_find(Strips *z, Group *out) {
    for (uint32_t id = 1; id < z->g->node.n; id++)
        if (is_seed(z, id) && find_at(z, id, out))
            return true;
    return false;
}
