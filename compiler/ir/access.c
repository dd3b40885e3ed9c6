// access.c - coordinates of graph values through broadcasting, moves and layouts (index.h).
#include "index.h"

static bool has_axis(const Type *t,
                     uint32_t d) { // d: 0 the batch, 1 + i axis i; extents of 1 do not count
    return d == 0 ? t->batched : d <= t->rank && t->dim[d - 1] > 1;
}

void coords_identity(Indices *t, const Graph *g, const Type *type, Coords *out) {
    *out = (Coords){0};
    if (type->batched)
        out->c[0] = ix_var(t, 0, g->batch);
    for (uint32_t i = 0; i < type->rank; i++)
        out->c[1 + i] = ix_var(t, 1 + i, type->dim[i]);
}

void coords_broadcast(const Type *operand, const Coords *at, Coords *out) {
    Coords c = {0};
    for (uint32_t d = 0; d <= operand->rank; d++)
        c.c[d] = has_axis(operand, d) ? at->c[d] : 0;
    *out = c;
}

// Adds 0 <= *at < extent to the bounds, and to what is known of *at; false when no element passes.
// Known is what earlier bounds say, and what the plain index does, whose terms may cancel out.
static bool bound(Indices *t, Bounds *b, Ix *at, int64_t extent) {
    int64_t least, most, lo, hi;
    Ix plain = ix_plain(t, *at);
    ix_range(t, *at, &least, &most);
    ix_range(t, plain, &lo, &hi);
    least = lo > least ? lo : least;
    most = hi < most ? hi : most;
    if (most < 0 || least >= extent || least > most)
        return false;
    if (least < 0 || most >= extent) {
        if (b->n == MAX_BOUNDS)
            bug("more than %u bounds on one access", b->n);
        b->b[b->n++] = (Bound){plain, 0, extent};
    }
    *at = ix_within(t, *at, extent);
    return true;
}

static void move_reshape(Indices *t, const Type *to, const Type *from, const Coords *at,
                         Coords *out) {
    Ix flat = coords_number(t, to, ~1u, at);
    out->c[0] = at->c[0];
    for (uint32_t i = from->rank; i-- > 0;) {
        out->c[1 + i] = ix_mod(t, flat, from->dim[i]);
        flat = ix_div(t, flat, from->dim[i]);
    }
}

static bool move_pad(Indices *t, const Type *from, const int64_t *before, const int64_t *step,
                     const Coords *at, Coords *out, Bounds *bounds) {
    out->c[0] = at->c[0];
    for (uint32_t i = 0; i < from->rank; i++) {
        Ix x = ix_add(t, at->c[1 + i], ix_num(t, -before[i]));
        Ix between = ix_mod(t, x, step[i]);
        if (!bound(t, bounds, &between, 1))
            return false;
        out->c[1 + i] = ix_div(t, x, step[i]);
        if (!bound(t, bounds, &out->c[1 + i], from->dim[i]))
            return false;
    }
    return true;
}

bool coords_move(Indices *t, const Graph *g, uint32_t id, uint32_t k, const Coords *at, Coords *out,
                 Bounds *bounds) {
    const Type *to = node_type(g, id), *from = node_type(g, node_in(g, id, k));
    const int64_t *a = node_attr(g, id)->i;
    Coords c = *at;
    switch ((Op)graph_node(g, id)->op) {
    case OpExpand:
        coords_broadcast(from, at, &c);
        break;
    case OpReshape:
        move_reshape(t, to, from, at, &c);
        break;
    case OpPermute:
        for (uint32_t i = 0; i < to->rank; i++)
            c.c[1 + a[1 + i]] = at->c[1 + i];
        break;
    case OpSlice:
        for (uint32_t i = 0; i < to->rank; i++) {
            c.c[1 + i] =
                ix_add(t, ix_mul(t, at->c[1 + i], a[1 + to->rank + i]), ix_num(t, a[1 + i]));
        }
        break;
    case OpFlip:
        for (uint32_t d = 1; d <= to->rank; d++)
            if (a[0] >> d & 1)
                c.c[d] = ix_add(t, ix_num(t, to->dim[d - 1] - 1), ix_mul(t, at->c[d], -1));
        break;
    case OpPad:
        if (!move_pad(t, from, a + 1, a + 1 + to->rank, at, &c, bounds))
            return false;
        break;
    case OpConcat: {
        int64_t before = 0;
        for (uint32_t j = 0; j < k; j++)
            before += node_type(g, node_in(g, id, j))->dim[a[0]];
        Ix *x = &c.c[1 + a[0]];
        *x = ix_add(t, *x, ix_num(t, -before));
        if (!bound(t, bounds, x, from->dim[a[0]]))
            return false;
        break;
    }
    default:
        bug("node %u (%s) is not an affine move", id, op_info[graph_node(g, id)->op].text);
    }
    coords_broadcast(from, &c, out); // what has one element is read at 0
    return true;
}

void coords_rows(const Type *table, const Type *places, const Coords *at, Coords *place,
                 Coords *row) {
    Coords in_table = {{at->c[0]}};
    for (uint32_t i = 1; i < table->rank; i++)
        in_table.c[1 + i] = at->c[places->rank + i];
    coords_broadcast(places, at, place);
    coords_broadcast(table, &in_table, row);
}

Ix coords_address(Indices *t, const Type *type, const Coords *at) {
    int64_t stride[MAX_RANK + 1];
    Ix sum = 0;
    type_strides(type, stride);
    for (uint32_t d = 0; d <= type->rank; d++)
        sum = ix_add(t, sum, ix_mul(t, at->c[d], stride[d]));
    return ix_plain(t, sum);
}

void coords_at(Indices *t, const Graph *g, const Type *type, Ix flat, Coords *out) {
    int64_t stride[MAX_RANK + 1];
    type_strides(type, stride);
    *out = (Coords){0};
    for (uint32_t d = 0; d <= type->rank; d++)
        if (has_axis(type, d) && stride[d] > 0)
            out->c[d] = ix_mod(t, ix_div(t, flat, stride[d]), d ? type->dim[d - 1] : g->batch);
}

Ix coords_number(Indices *t, const Type *type, uint32_t axes, const Coords *at) {
    Ix sum = 0;
    int64_t step = 1;
    for (uint32_t i = type->rank; i-- > 0;) {
        if (axes >> (1 + i) & 1) {
            sum = ix_add(t, sum, ix_mul(t, at->c[1 + i], step));
            step *= type->dim[i];
        }
    }
    return axes & 1 ? ix_add(t, sum, ix_mul(t, at->c[0], step)) : sum;
}
