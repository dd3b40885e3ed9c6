// matrices.c - labels of an einsum as rows and columns of matrices (matrices.h).
#include "matrices.h"

const MatrixKind matrix_kinds[MatrixSides][2] = {
    {KindRow, KindInner}, {KindInner, KindColumn}, {KindRow, KindColumn}};

// --- reading -------------------------------------------------------------------------------------

Einsum einsum_of_dot(const Graph *g, uint32_t id) {
    const int64_t *a = node_attr(g, id)->i + 1, *b = a + a[-1] + 1, *out = b + b[-1] + 1;
    return (Einsum){
        {node_type(g, node_in(g, id, 0)), node_type(g, node_in(g, id, 1)), node_type(g, id)},
        {a, b, out}};
}

// Adds a side's labels to the n there are, known by their numbers. Returns their number, or -1.
static int read_side(const Graph *g, const Einsum *e, MatrixSide side, MatrixLabel *label,
                     int64_t *known, int n) {
    const Type *t = e->type[side];
    int64_t stride[MAX_RANK + 1];
    type_strides(t, stride);
    for (int i = t->batched ? 0 : 1; i <= t->rank; i++) {
        int64_t number = i ? e->labels[side][i - 1] : 0;
        int k = 0;
        while (k < n && known[k] != number)
            k++;
        if (k == n) {
            label[n] = (MatrixLabel){.extent = i ? t->dim[i - 1] : g->batch};
            known[n++] = number;
        }
        if (label[k].has[side])
            return -1;
        label[k].stride[side] = stride[i];
        label[k].has[side] = true;
    }
    return n;
}

int einsum_labels(const Graph *g, const Einsum *e, MatrixLabel out[MATRIX_LABELS]) {
    int64_t known[MATRIX_LABELS];
    int n = 0;
    for (MatrixSide side = SideA; side < MatrixSides && n >= 0; side++)
        n = read_side(g, e, side, out, known, n);
    return n;
}

bool label_kind(const MatrixLabel *l, MatrixKind *out) {
    const bool *has = l->has;
    *out = !has[SideOut] ? KindInner : !has[SideB] ? KindRow : !has[SideA] ? KindColumn : KindEach;
    return has[SideA] + has[SideB] + has[SideOut] >= 2;
}

static bool read_labels(Matrices *m, const Graph *g, const Einsum *e, bool swap) {
    Einsum turned = {{e->type[swap], e->type[!swap], e->type[SideOut]},
                     {e->labels[swap], e->labels[!swap], e->labels[SideOut]}};
    *m = (Matrices){.swapped = swap};
    m->n = einsum_labels(g, &turned, m->label);
    for (int k = 0; k < m->n; k++) {
        MatrixKind kind;
        if (m->label[k].extent == 1)
            continue;
        if (!label_kind(&m->label[k], &kind))
            return false;
        m->group[kind][m->members[kind]++] = k;
    }
    return m->n >= 0;
}

// Between neighbours along a kind's labels; 0: it has none.
static int64_t nearest(const Matrices *m, MatrixKind kind, MatrixSide side) {
    int64_t least = 0;
    for (int i = 0; i < m->members[kind]; i++) {
        int64_t stride = m->label[m->group[kind][i]].stride[side];
        least = least && least < stride ? least : stride;
    }
    return least;
}

bool matrices_turned(const Matrices *m, MatrixSide side) {
    int64_t rows = nearest(m, matrix_kinds[side][0], side),
            columns = nearest(m, matrix_kinds[side][1], side);
    return rows && rows < columns;
}

// oneDNN is quick only where the columns of the result lie side by side. Where neither rows nor
// columns do, it is copied out in order, which is quicker for whole lines.
static bool wants_swap(const Matrices *m) {
    return nearest(m, KindRow, SideOut) == 1 || matrices_turned(m, SideOut);
}

static void sort_by(Matrices *m, MatrixKind kind, MatrixSide side) {
    int *group = m->group[kind];
    for (int i = 1; i < m->members[kind]; i++)
        for (int j = i;
             j > 0 && m->label[group[j]].stride[side] > m->label[group[j - 1]].stride[side]; j--) {
            int t = group[j];
            group[j] = group[j - 1];
            group[j - 1] = t;
        }
}

static int64_t size_of(const Matrices *m, MatrixSide side) {
    int64_t n = 1;
    for (int k = 0; k < m->n; k++)
        n *= m->label[k].has[side] ? m->label[k].extent : 1;
    return n;
}

// Labels shared by two sides take the larger one's order: if one must be copied, the smaller.
static void sort_all(Matrices *m) {
    int64_t a = size_of(m, SideA), b = size_of(m, SideB), out = size_of(m, SideOut);
    sort_by(m, KindRow, a >= out ? SideA : SideOut);
    sort_by(m, KindColumn, b >= out ? SideB : SideOut);
    sort_by(m, KindInner, a >= b ? SideA : SideB);
}

bool matrices_read(Matrices *m, const Graph *g, const Einsum *e) {
    if (!read_labels(m, g, e, false))
        return false;
    if (wants_swap(m))
        read_labels(m, g, e, true);
    sort_all(m);
    return true;
}

// --- folding -------------------------------------------------------------------------------------

int64_t matrices_extent(const Matrices *m, MatrixKind kind) {
    int64_t n = 1;
    for (int i = 0; i < m->members[kind]; i++)
        n *= m->label[m->group[kind][i]].extent;
    return n;
}

static bool folds(const Matrices *m, MatrixKind kind, MatrixSide side, int64_t *stride) {
    const int *group = m->group[kind];
    int n = m->members[kind];
    for (int i = 0; i + 1 < n; i++) {
        const MatrixLabel *inner = &m->label[group[i + 1]];
        if (m->label[group[i]].stride[side] != inner->stride[side] * inner->extent)
            return false;
    }
    *stride = n ? m->label[group[n - 1]].stride[side] : 0;
    return true;
}

bool matrices_in_place(const Matrices *m, MatrixSide side, MatrixShape *out) {
    *out = (MatrixShape){0};
    for (int i = 0; i < m->members[KindEach]; i++) {
        const MatrixLabel *l = &m->label[m->group[KindEach][i]];
        out->dim[out->n] = l->extent;
        out->stride[out->n++] = l->stride[side];
    }
    for (int i = 0; i < 2; i++) {
        out->dim[out->n] = matrices_extent(m, matrix_kinds[side][i]);
        if (!folds(m, matrix_kinds[side][i], side, &out->stride[out->n]))
            return false;
        out->n++;
    }
    int64_t *dim = out->dim + out->n - 2, *stride = out->stride + out->n - 2;
    if (dim[1] == 1) // a stride that is never taken: the one that makes it dense
        stride[1] = 1;
    else if (dim[0] == 1)
        stride[0] = stride[1] == 1 ? dim[1] : 1;
    if (dim[1] == 1 && dim[0] == 1)
        stride[0] = 1;
    // One row whose numbers lie apart, read or written in place, oneDNN (3.7) gets wrong.
    bool apart = dim[0] == 1 && side != SideB;
    bool unit = stride[1] == 1 || (stride[0] == 1 && !apart);
    return unit && (stride[0] == 1 || stride[0] >= dim[1]) &&
           (stride[1] == 1 || stride[1] >= dim[0]);
}
