// naive.c - see naive.h. Coordinates are c[0] the sample, c[1 + i] axis i.
#include "naive.h"

#include <math.h>

typedef struct Coord {
    int64_t c[1 + MAX_RANK];
} Coord;
typedef struct Naive {
    const Graph *g;
    uint32_t id;
    const double *const *in;
    double *out;
    const int64_t *ints;
    const Type *type;
} Naive;

static const Type *in_type(const Naive *n, uint32_t k) {
    return node_type(n->g, node_in(n->g, n->id, k));
}

static Coord coord_of(const Type *t, int64_t i) {
    Coord c = {{0}};
    for (uint32_t d = t->rank; d-- > 0;) {
        c.c[1 + d] = i % t->dim[d];
        i /= t->dim[d];
    }
    c.c[0] = i;
    return c;
}

// Element number of `c` in a value of type t, broadcast: extents of 1, missing axes and a missing
// batch count as 0.
static int64_t place(const Type *t, Coord c) {
    int64_t i = t->batched ? c.c[0] : 0;
    for (uint32_t d = 0; d < t->rank; d++)
        i = i * t->dim[d] + (t->dim[d] == 1 ? 0 : c.c[1 + d]);
    return i;
}

static double at(const Naive *n, uint32_t k, Coord c) {
    return n->in[k][place(in_type(n, k), c)];
}

static int64_t count(const Naive *n, const Type *t) {
    return type_elements(n->g, t);
}

// --- reductions ----------------------------------------------------------------------------------

static void naive_reduce(const Naive *n, Op op) {
    const Type *t = in_type(n, 0);
    for (int64_t i = 0; i < count(n, t); i++) {
        Coord c = coord_of(t, i);
        int64_t index = 0;
        bool first = true;
        for (uint32_t d = 0; d <= t->rank; d++) {
            if (n->ints[0] >> d & 1) {
                index = index * (d ? t->dim[d - 1] : n->g->batch) + c.c[d];
                first &= c.c[d] == 0;
                c.c[d] = 0;
            }
        }
        double *out = &n->out[place(n->type, c)], x = n->in[0][i];
        if (op == OpSum) {
            *out = first ? x : *out + x;
        } else if (op == OpMaxOf) {
            *out = first || x > *out ? x : *out;
        } else { // ArgMax: what `out` points at is compared
            double best = -1e300;
            for (int64_t j = 0; j < i; j++) {
                Coord o = coord_of(t, j);
                for (uint32_t d = 0; d <= t->rank; d++)
                    o.c[d] = n->ints[0] >> d & 1 ? 0 : o.c[d];
                best = place(n->type, o) == place(n->type, c) && n->in[0][j] > best ? n->in[0][j]
                                                                                    : best;
            }
            *out = x > best ? (double)index : *out;
        }
    }
}

// The mean of each element's terms first, then their squares about it.
static void naive_squares(const Naive *n) {
    const Type *t = in_type(n, 0);
    int64_t all = count(n, t);
    double terms = (double)all / (double)count(n, n->type);
    for (int64_t i = 0; i < count(n, n->type); i++) {
        double sum = 0, squares = 0;
        for (int squared = 0; squared < 2; squared++) {
            for (int64_t j = 0; j < all; j++) {
                Coord c = coord_of(t, j);
                for (uint32_t d = 0; d <= t->rank; d++)
                    c.c[d] = n->ints[0] >> d & 1 ? 0 : c.c[d];
                double off = n->in[0][j] - sum / terms;
                if (place(n->type, c) == i)
                    *(squared ? &squares : &sum) += squared ? off * off : n->in[0][j];
            }
        }
        n->out[i] = squares;
    }
}

static void naive_group_sum(const Naive *n) {
    int64_t size = type_sample(n->type), all = count(n, n->type);
    for (int64_t i = 0; i < all; i++) {
        n->out[i] = 0;
        for (int64_t j = 0; j < all; j++) {
            bool same = i % size == j % size && i / size / n->ints[0] == j / size / n->ints[0];
            n->out[i] += same ? n->in[0][j] : 0;
        }
    }
}

// --- moves: where an element of the result comes from --------------------------------------------

static double moved(const Naive *n, Op op, Coord c) {
    const Type *x = in_type(n, 0);
    Coord s = c;
    switch (op) {
    case OpPermute:
        for (uint32_t d = 0; d < x->rank; d++)
            s.c[1 + n->ints[1 + d]] = c.c[1 + d];
        return at(n, 0, s);
    case OpSlice:
        for (uint32_t d = 0; d < x->rank; d++)
            s.c[1 + d] = n->ints[1 + d] + c.c[1 + d] * n->ints[1 + x->rank + d];
        return at(n, 0, s);
    case OpPad:
        for (uint32_t d = 0; d < x->rank; d++) {
            int64_t from = c.c[1 + d] - n->ints[1 + d], step = n->ints[1 + x->rank + d];
            if (from < 0 || from % step || from / step >= x->dim[d])
                return 0;
            s.c[1 + d] = from / step;
        }
        return at(n, 0, s);
    case OpFlip:
        for (uint32_t d = 0; d < x->rank; d++)
            s.c[1 + d] = n->ints[0] >> (1 + d) & 1 ? x->dim[d] - 1 - c.c[1 + d] : c.c[1 + d];
        return at(n, 0, s);
    case OpConcat: {
        int64_t axis = 1 + n->ints[0];
        for (uint32_t k = 0;; k++) {
            if (s.c[axis] < in_type(n, k)->dim[axis - 1])
                return at(n, k, s);
            s.c[axis] -= in_type(n, k)->dim[axis - 1];
        }
    }
    case OpGather:
        s = (Coord){{c.c[0], (int64_t)at(n, 1, c)}};
        for (uint32_t d = 0; d + 1u < x->rank; d++)
            s.c[2 + d] = c.c[1 + in_type(n, 1)->rank + d];
        return at(n, 0, s);
    default:
        return at(n, 0, c); // Expand
    }
}

static void naive_scatter(const Naive *n) {
    const Type *rows = in_type(n, 0);
    for (int64_t i = 0; i < count(n, n->type); i++)
        n->out[i] = 0;
    for (int64_t i = 0; i < count(n, rows); i++) {
        Coord c = coord_of(rows, i), to = {{n->type->batched ? c.c[0] : 0}};
        to.c[1] = (int64_t)at(n, 1, c);
        for (uint32_t d = 0; d + 1u < n->type->rank; d++)
            to.c[2 + d] = c.c[1 + in_type(n, 1)->rank + d];
        n->out[place(n->type, to)] += n->in[0][i];
    }
}

// --- products ------------------------------------------------------------------------------------

// Every pair of elements whose labels agree, added to the element of the result with those labels.
static void naive_dot(const Naive *n) {
    const Type *ta = in_type(n, 0), *tb = in_type(n, 1);
    const int64_t *la = n->ints + 1, *lb = la + n->ints[0] + 1, *lo = lb + lb[-1] + 1;
    for (int64_t i = 0; i < count(n, n->type); i++)
        n->out[i] = 0;
    for (int64_t i = 0; i < count(n, ta); i++) {
        for (int64_t j = 0; j < count(n, tb); j++) {
            Coord a = coord_of(ta, i), b = coord_of(tb, j), o = {{ta->batched ? a.c[0] : b.c[0]}};
            bool agree = !ta->batched || !tb->batched || a.c[0] == b.c[0];
            for (uint32_t p = 0; p < ta->rank; p++)
                for (uint32_t q = 0; q < tb->rank; q++)
                    agree &= la[p] != lb[q] || a.c[1 + p] == b.c[1 + q];
            for (uint32_t r = 0; r < n->type->rank; r++) {
                for (uint32_t p = 0; p < ta->rank; p++)
                    o.c[1 + r] = la[p] == lo[r] ? a.c[1 + p] : o.c[1 + r];
                for (uint32_t q = 0; q < tb->rank; q++)
                    o.c[1 + r] = lb[q] == lo[r] ? b.c[1 + q] : o.c[1 + r];
            }
            if (agree)
                n->out[place(n->type, o)] += n->in[0][i] * n->in[1][j];
        }
    }
}

// The triples (element of x, of w, of y) that a convolution multiplies; the result is one of them,
// the rest operands.
static void naive_conv(const Naive *n, Op op) {
    const Type *x = op == OpConvDx ? n->type : in_type(n, 0),
               *w = op == OpConvDw ? n->type : in_type(n, 1);
    const Type *y = op == OpConv ? n->type : in_type(n, op == OpConvDw ? 1 : 0);
    ConvGeom geom = conv_geom(node_attr(n->g, n->id));
    for (int64_t i = 0; i < count(n, n->type); i++)
        n->out[i] = 0;
    for (int64_t i = 0; i < count(n, y); i++) {
        for (int64_t j = 0; j < count(n, w); j++) {
            Coord o = coord_of(y, i), k = coord_of(w, j), c = {{o.c[0]}};
            bool inside = o.c[1] == k.c[1] && (!w->batched || o.c[0] == k.c[0]);
            c.c[1] = o.c[1] / (w->dim[0] / geom.groups) * w->dim[1] + k.c[2];
            for (uint32_t d = 0; d < geom.n; d++) {
                c.c[2 + d] =
                    o.c[2 + d] * geom.stride[d] - geom.before[d] + k.c[3 + d] * geom.dilation[d];
                inside &= c.c[2 + d] >= 0 && c.c[2 + d] < x->dim[1 + d];
            }
            if (inside) {
                int64_t at_x = place(x, c);
                double *out = &n->out[op == OpConv ? i : op == OpConvDw ? j : at_x];
                *out += op == OpConv     ? n->in[0][at_x] * n->in[1][j]
                        : op == OpConvDw ? n->in[0][at_x] * n->in[1][i]
                                         : n->in[0][i] * n->in[1][j];
            }
        }
    }
}

// --- transforms ----------------------------------------------------------------------------------

// Every stored frequency, and the conjugate one that it represents.
static double naive_frequency(const Naive *n, Coord c, int64_t k, int64_t line, double turns) {
    const Type *x = in_type(n, 0), *y = n->type;
    int64_t last = x->rank, parts = x->batched ? 0 : 1;
    c.c[last] = k;
    c.c[1 + parts] = 0;
    double re = at(n, 0, c), im = 0, angle = turns * 6.28318530717958647692;
    c.c[1 + parts] = 1;
    if (x->dim[parts] == 2)
        im = at(n, 0, c);
    if (y->dim[parts] == 1 && (k == 0 || 2 * k == line))
        return re * cos(angle);
    if (y->dim[parts] == 1)
        return 2 * (re * cos(angle) - im * sin(angle));
    return n->ints[1] ? re * sin(angle) + im * cos(angle) : re * cos(angle) - im * sin(angle);
}

static void naive_fft(Naive *n) {
    const Type *x = in_type(n, 0), *y = n->type;
    int64_t xs = x->dim[x->rank - 1], ys = y->dim[y->rank - 1], line = xs > ys ? xs : ys;
    double sign = n->ints[0] ? 1 : -1;
    for (int64_t i = 0; i < count(n, y); i++) {
        Coord c = coord_of(y, i);
        int64_t part[2] = {n->ints[0], c.c[y->batched ? 1 : 2]}, to = c.c[y->rank];
        Naive one = *n;
        one.ints = part;
        n->out[i] = 0;
        for (int64_t k = 0; k < xs; k++)
            n->out[i] +=
                naive_frequency(&one, c, k, line, sign * (double)(k * to % line) / (double)line);
    }
}

static int64_t row(const Type *t) {
    return t->dim[t->rank - 1];
}

// An element's position in the order is the number of elements of its line that come before it.
static void naive_arg_sort(const Naive *n) {
    const double *x = n->in[0];
    const Type *t = node_type(n->g, node_in(n->g, n->id, 0));
    int64_t line = row(t), last = row(n->type);
    for (int64_t i = 0; i < count(n, t); i++) {
        int64_t first = i - i % line, before = 0;
        for (int64_t j = first; j < first + line; j++)
            before += x[j] < x[i] || (x[j] == x[i] && j < i);
        if (before >= line - last)
            n->out[first / line * last + before - (line - last)] = (double)(i - first);
    }
}

static void naive_arrange(const Naive *n) {
    const Type *index = node_type(n->g, node_in(n->g, n->id, 1));
    bool back = n->ints[0];
    int64_t line = row(back ? n->type : node_type(n->g, node_in(n->g, n->id, 0)));
    for (int64_t i = 0; i < count(n, n->type); i++)
        n->out[i] = 0;
    for (int64_t i = 0; i < count(n, index); i++) {
        int64_t there = i / row(index) * line + (int64_t)n->in[1][i];
        n->out[back ? there : i] = n->in[0][back ? i : there];
    }
}

bool naive_node(const Graph *g, uint32_t id, const double *const *in, double *out) {
    Naive n = {g, id, in, out, node_attr(g, id)->i, node_type(g, id)};
    Op op = (Op)graph_node(g, id)->op;
    switch (op) {
    case OpSum:
    case OpMaxOf:
    case OpArgMax:
        naive_reduce(&n, op);
        return true;
    case OpSquares:
        naive_squares(&n);
        return true;
    case OpGroupSum:
        naive_group_sum(&n);
        return true;
    case OpReshape:
    case OpReduceStart: // one rank's sum is its own value
    case OpReduceWait:
        for (int64_t i = 0; i < count(&n, n.type); i++)
            out[i] = in[0][i];
        return true;
    case OpExpand:
    case OpPermute:
    case OpSlice:
    case OpPad:
    case OpFlip:
    case OpConcat:
    case OpGather:
        for (int64_t i = 0; i < count(&n, n.type); i++)
            out[i] = moved(&n, op, coord_of(n.type, i));
        return true;
    case OpScatter:
        naive_scatter(&n);
        return true;
    case OpDot:
        naive_dot(&n);
        return true;
    case OpFft:
        naive_fft(&n);
        return true;
    case OpArgSort:
        naive_arg_sort(&n);
        return true;
    case OpArrange:
        naive_arrange(&n);
        return true;
    case OpConv:
    case OpConvDx:
    case OpConvDw:
        naive_conv(&n, op);
        return true;
    default:
        return false;
    }
}
