// eval_order.c - sorting for the reference evaluator: a merge sort of each row's indices.
#include "eval.h"

// Does `a` stay in front of `b`, which follows it? NaN is last.
static bool stays(double a, double b) {
    return a <= b || b != b;
}

// Merges runs [lo, mid) and [mid, hi) of indices into one.
static void merge(const double *x, const int64_t *from, int64_t *to, int64_t lo, int64_t mid,
                  int64_t hi) {
    for (int64_t i = lo, a = lo, b = mid; i < hi; i++)
        to[i] = b == hi || (a < mid && stays(x[from[a]], x[from[b]])) ? from[a++] : from[b++];
}

static int64_t last_extent(const Type *t) {
    return t->dim[t->rank - 1];
}

void eval_ArgSort(Eval *e) {
    const Type *t = eval_in_type(e, 0);
    int64_t n = last_extent(t), all = type_elements(e->g, t), k = last_extent(eval_type(e));
    double *x = arena_array(e->scratch, double, n);
    int64_t *from = arena_array(e->scratch, int64_t, n), *to = arena_array(e->scratch, int64_t, n);
    for (int64_t line = 0; line < all; line += n) {
        for (int64_t i = 0; i < n; i++) {
            x[i] = value_get(e->in[0], e->f64, line + i);
            from[i] = i;
        }
        for (int64_t run = 1; run < n; run *= 2) {
            for (int64_t lo = 0; lo < n; lo += 2 * run) {
                int64_t mid = lo + run < n ? lo + run : n, hi = mid + run < n ? mid + run : n;
                merge(x, from, to, lo, mid, hi);
            }
            int64_t *sorted = to;
            to = from;
            from = sorted;
        }
        for (int64_t i = 0; i < k; i++)
            value_put(e->out, e->f64, line / n * k + i, (double)from[n - k + i]);
    }
}

void eval_Arrange(Eval *e) {
    bool back = eval_ints(e)[0] != 0;
    const Type *index = eval_in_type(e, 1);
    int64_t n = last_extent(back ? eval_type(e) : eval_in_type(e, 0)), k = last_extent(index);
    for (int64_t i = 0; i < type_elements(e->g, eval_type(e)); i++)
        value_put(e->out, e->f64, i, 0);
    for (int64_t i = 0; i < type_elements(e->g, index); i++) {
        double at = value_get(e->in[1], e->f64, i);
        if (!(at >= 0 && at < (double)n)) // not of a sort: NaN, for example
            continue;
        int64_t there = i / k * n + (int64_t)at;
        value_put(e->out, e->f64, back ? there : i, value_get(e->in[0], e->f64, back ? i : there));
    }
}
