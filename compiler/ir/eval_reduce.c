// eval_reduce.c - reductions of the reference evaluator. A result's elements are independent; what
// goes into one is walked in row-major order (batch first) and summed in double, so results do not
// depend on threads.
#include "eval.h"

// A reduction split in two: the dimensions kept, which number the results, and those reduced, which
// make up each.
typedef struct Split {
    Loop kept, reduced; // operand 0: the input
} Split;

static void split_axes(const Eval *e, uint32_t axes, Split *out) {
    const Type *t = eval_in_type(e, 0);
    Loop all;
    loop_init(&all, e->g, t);
    loop_operand(&all, t);
    out->kept = out->reduced = (Loop){.operands = 1};
    for (uint32_t d = 0; d < all.n; d++) {
        Loop *to = axes >> d & 1 ? &out->reduced : &out->kept;
        to->extent[to->n] = all.extent[d];
        to->stride[0][to->n++] = all.stride[0][d];
    }
}

// Calls `each` for every result with the place of its first element.
typedef void ReduceFn(Eval *e, const Loop *reduced, int64_t i, int64_t from);

static void reduce(Eval *e, ReduceFn *each) {
    Split s;
    split_axes(e, (uint32_t)eval_ints(e)[0], &s);
    int64_t n = loop_size(&s.kept);
#pragma omp parallel for schedule(static) if (n * loop_size(&s.reduced) > LOOP_PARALLEL)
    for (int64_t i = 0; i < n; i++) {
        int64_t from;
        loop_offsets(&s.kept, s.kept.n, i, &from);
        each(e, &s.reduced, i, from);
    }
}

static double sum_run(const void *at, bool f64, int64_t from, int64_t n, int64_t step) {
    double sum = 0;
    if (f64) {
        const double *x = (const double *)at + from;
        for (int64_t i = 0; i < n; i++)
            sum += x[i * step];
    } else {
        const float *x = (const float *)at + from;
        for (int64_t i = 0; i < n; i++)
            sum += (double)x[i * step];
    }
    return sum;
}

static void sum_each(Eval *e, const Loop *reduced, int64_t i, int64_t from) {
    Loop l = *reduced;
    loop_fold(&l);
    uint32_t last = l.n - 1;
    int64_t n = l.extent[last], runs = loop_size(&l) / n;
    double sum = 0;
    for (int64_t r = 0; r < runs; r++) {
        int64_t off;
        loop_offsets(&l, last, r, &off);
        sum += sum_run(e->in[0], e->f64, from + off, n, l.stride[0][last]);
    }
    value_put(e->out, e->f64, i, sum);
}

void eval_Sum(Eval *e) {
    reduce(e, sum_each);
}

// By its definition: the mean, then the squares about it.
static void squares_each(Eval *e, const Loop *reduced, int64_t i, int64_t from) {
    double part[2] = {0, 0}; // the sum, the squares
    int64_t n = loop_size(reduced);
    for (int squares = 0; squares < 2; squares++) {
        for (int64_t r = 0; r < n; r++) {
            int64_t off;
            loop_offsets(reduced, reduced->n, r, &off);
            double x = value_get(e->in[0], e->f64, from + off), d = x - part[0] / (double)n;
            part[squares] += squares ? d * d : x;
        }
    }
    value_put(e->out, e->f64, i, part[1]);
}

void eval_Squares(Eval *e) {
    reduce(e, squares_each);
}

// The first greatest of the reduced elements; a NaN is greater than any number, so it is seen.
static int64_t greatest(const Eval *e, const Loop *reduced, int64_t from, double *out) {
    int64_t n = loop_size(reduced), best = 0;
    for (int64_t r = 0; r < n; r++) {
        int64_t off;
        loop_offsets(reduced, reduced->n, r, &off);
        double x = value_get(e->in[0], e->f64, from + off);
        if (r == 0 || x > *out || (x != x && *out == *out)) {
            *out = x;
            best = r;
        }
    }
    return best;
}

static void max_each(Eval *e, const Loop *reduced, int64_t i, int64_t from) {
    double x = 0;
    greatest(e, reduced, from, &x);
    value_put(e->out, e->f64, i, x);
}

static void arg_max_each(Eval *e, const Loop *reduced, int64_t i, int64_t from) {
    double x = 0;
    value_put(e->out, e->f64, i, (double)greatest(e, reduced, from, &x));
}

void eval_MaxOf(Eval *e) {
    reduce(e, max_each);
}

void eval_ArgMax(Eval *e) {
    reduce(e, arg_max_each);
}

void eval_GroupSum(Eval *e) {
    const Type *t = eval_in_type(e, 0);
    int64_t group = eval_ints(e)[0], size = type_sample(t), batch = t->batched ? e->g->batch : 1;
#pragma omp parallel for schedule(static) if (size * batch > LOOP_PARALLEL)
    for (int64_t j = 0; j < size; j++) {
        for (int64_t first = 0; first < batch; first += group) {
            double sum = sum_run(e->in[0], e->f64, first * size + j, group, size);
            for (int64_t n = first; n < first + group; n++)
                value_put(e->out, e->f64, n * size + j, sum);
        }
    }
}
