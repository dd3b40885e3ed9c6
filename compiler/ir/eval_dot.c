// eval_dot.c - the einsum of two operands for the reference evaluator. Labels fall into four kinds;
// both operands are packed to [each][row][inner] and [each][inner][column] in double, multiplied,
// and written back in the result's order.
//   each    in a, b and the result            row     in a and the result
//   inner   in a and b, or in one alone       column  in b and the result
#include "eval.h"

#include "integers.h"

enum { LABELS = 1 + 2 * MAX_RANK, COLUMNS = 128 };

typedef struct Side { // an operand or the result seen by label
    const Type *type;
    int64_t stride[LABELS]; // elements per step of a label, 0 when absent; repeated labels walk the
                            // diagonal
    bool has[LABELS];
} Side;

typedef struct Group {
    uint32_t n;
    uint32_t label[LABELS];
} Group;

typedef struct Einsum {
    const Eval *e;
    uint32_t labels;
    int64_t extent[LABELS]; // label 0: the batch; numbered in order of first use
    Side a, b, out;
    Group each, row, column, inner;
    int64_t n_each, n_row, n_column, n_inner;
} Einsum;

static uint32_t dot_label(uint32_t *seen, uint32_t *n, int64_t text) {
    for (uint32_t i = 1; i < *n; i++)
        if (seen[i] == (uint32_t)text)
            return i;
    seen[*n] = (uint32_t)text;
    return (*n)++;
}

static void dot_side(Einsum *d, uint32_t *seen, Side *s, const Type *t, const int64_t *labels) {
    s->type = t;
    int64_t step = 1;
    for (uint32_t i = t->rank; i-- > 0;) {
        uint32_t label = dot_label(seen, &d->labels, labels[i]);
        d->extent[label] = t->dim[i];
        s->stride[label] += step;
        s->has[label] = true;
        step *= t->dim[i];
    }
    s->has[0] = t->batched;
    s->stride[0] = t->batched ? step : 0;
}

static int64_t group_add(Einsum *d, Group *g, uint32_t label) {
    g->label[g->n++] = label;
    return d->extent[label];
}

static void dot_init(Einsum *d, const Eval *e, bool swap) {
    const int64_t *at = eval_ints(e);
    const int64_t *la = at + 1, *lb = la + at[0] + 1, *lo = lb + lb[-1] + 1;
    *d = (Einsum){.e = e, .labels = 1, .n_each = 1, .n_row = 1, .n_column = 1, .n_inner = 1};
    d->extent[0] = e->g->batch;
    uint32_t seen[LABELS] = {0};
    dot_side(d, seen, &d->a, eval_in_type(e, swap ? 1 : 0), swap ? lb : la);
    dot_side(d, seen, &d->b, eval_in_type(e, swap ? 0 : 1), swap ? la : lb);
    dot_side(d, seen, &d->out, eval_type(e), lo);
    for (uint32_t i = 0; i < d->labels; i++) {
        bool a = d->a.has[i], b = d->b.has[i], out = d->out.has[i];
        if (out && a && b)
            d->n_each *= group_add(d, &d->each, i);
        else if (out && b)
            d->n_column *= group_add(d, &d->column, i);
        else if (out)
            d->n_row *= group_add(d, &d->row, i);
        else if (a || b)
            d->n_inner *= group_add(d, &d->inner, i);
    }
}

static int64_t group_offset(const Einsum *d, const Group *g, const Side *s, int64_t i) {
    int64_t off = 0;
    for (uint32_t k = g->n; k-- > 0;) {
        int64_t extent = d->extent[g->label[k]];
        off += i % extent * s->stride[g->label[k]];
        i /= extent;
    }
    return off;
}

// [each][outer][last] of an operand, in double; a label the operand lacks repeats its elements.
static double *dot_pack(const Einsum *d, const Side *s, const void *from, const Group *outer,
                        int64_t n_outer, const Group *last, int64_t n_last) {
    int64_t size = d->n_each * n_outer * n_last;
    double *to = arena_array(d->e->scratch, double, size);
#pragma omp parallel for schedule(static) if (size > LOOP_PARALLEL)
    for (int64_t i = 0; i < d->n_each * n_outer; i++) {
        int64_t off =
            group_offset(d, &d->each, s, i / n_outer) + group_offset(d, outer, s, i % n_outer);
        for (int64_t j = 0; j < n_last; j++)
            to[i * n_last + j] = value_get(from, d->e->f64, off + group_offset(d, last, s, j));
    }
    return to;
}

void eval_Dot(Eval *e) {
    Einsum d;
    bool swap = false;
    dot_init(&d, e, swap);
    if (d.n_column < d.n_row) // the longer side goes where the inner loop runs
        dot_init(&d, e, swap = true);
    const double *a = dot_pack(&d, &d.a, e->in[swap], &d.row, d.n_row, &d.inner, d.n_inner);
    const double *b = dot_pack(&d, &d.b, e->in[!swap], &d.inner, d.n_inner, &d.column, d.n_column);
    int64_t blocks = ceil_div(d.n_column, COLUMNS);
    int64_t tasks = d.n_each * blocks * d.n_row;
#pragma omp parallel for schedule(static) if (tasks * d.n_inner > LOOP_PARALLEL / COLUMNS)
    for (int64_t task = 0; task < tasks; task++) {
        int64_t each = task / (blocks * d.n_row), block = task / d.n_row % blocks,
                row = task % d.n_row;
        int64_t first = block * COLUMNS,
                n = d.n_column - first < COLUMNS ? d.n_column - first : COLUMNS;
        double y[COLUMNS] = {0};
        mac_row(n, y, d.n_inner, a + (each * d.n_row + row) * d.n_inner, 1,
                b + each * d.n_inner * d.n_column + first, d.n_column);
        int64_t off =
            group_offset(&d, &d.each, &d.out, each) + group_offset(&d, &d.row, &d.out, row);
        for (int64_t j = 0; j < n; j++)
            value_put(e->out, e->f64, off + group_offset(&d, &d.column, &d.out, first + j), y[j]);
    }
}
