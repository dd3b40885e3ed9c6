// eval_move.c - data movement of the reference evaluator. Every move is a copy between two strided
// walks of one space: a view of the input read into a dense result, or a dense input written into a
// view of the result.
#include "eval.h"

#include <string.h>

enum { FROM, TO }; // operands of a copy's loop

typedef struct Copy {
    const void *from;
    void *to;
    bool f64;
} Copy;

static void copy_row(void *user, int64_t n, const int64_t *off, const int64_t *step) {
    const Copy *c = user;
    if (c->f64) {
        const double *from = (const double *)c->from + off[FROM];
        double *to = (double *)c->to + off[TO];
        for (int64_t i = 0; i < n; i++)
            to[i * step[TO]] = from[i * step[FROM]];
    } else {
        const float *from = (const float *)c->from + off[FROM];
        float *to = (float *)c->to + off[TO];
        for (int64_t i = 0; i < n; i++)
            to[i * step[TO]] = from[i * step[FROM]];
    }
}

static void copy_run(const Eval *e, uint32_t k, Loop *l) {
    Copy c = {e->in[k], e->out, e->f64};
    loop_run(l, copy_row, &c);
}

static size_t value_bytes(const Eval *e, const Type *t) {
    return (size_t)type_elements(e->g, t) * (e->f64 ? sizeof(double) : sizeof(float));
}

static void copy_all(const Eval *e) {
    memcpy(e->out, e->in[0], value_bytes(e, eval_type(e)));
}

void eval_Pin(Eval *e) {
    copy_all(e);
}

void eval_Commit(Eval *e) { // of an update that is not skipped
    copy_all(e);
}

void eval_Write(Eval *e) { // the value itself; committing it is the device's part
    copy_all(e);
}

void eval_Reshape(Eval *e) {
    copy_all(e);
}

// Of one rank, whose sum is its own value. Devices that are one of several carry it out themselves.
void eval_ReduceStart(Eval *e) {
    copy_all(e);
}

void eval_ReduceWait(Eval *e) {
    copy_all(e);
}

// The space is the result's; starts as a plain broadcast read of operand 0.
static void view_loop(const Eval *e, Loop *l) {
    loop_init(l, e->g, eval_type(e));
    loop_operand(l, eval_in_type(e, 0));
    loop_operand(l, eval_type(e));
}

void eval_Expand(Eval *e) {
    Loop l;
    view_loop(e, &l);
    copy_run(e, 0, &l);
}

// Row-major strides of a dense value of type t by the loop's numbering, nothing broadcast.
static void dense_strides(const Eval *e, const Type *t, int64_t stride[LOOP_DIMS]) {
    Loop l;
    loop_init(&l, e->g, t);
    loop_operand(&l, t);
    memcpy(stride, l.stride[0], sizeof l.stride[0]);
}

void eval_Permute(Eval *e) {
    Loop l;
    int64_t stride[LOOP_DIMS];
    view_loop(e, &l);
    dense_strides(e, eval_in_type(e, 0), stride);
    for (uint32_t d = 1; d < l.n; d++)
        l.stride[FROM][d] = stride[1 + eval_ints(e)[d]];
    copy_run(e, 0, &l);
}

void eval_Slice(Eval *e) {
    Loop l;
    int64_t stride[LOOP_DIMS];
    view_loop(e, &l);
    dense_strides(e, eval_in_type(e, 0), stride);
    const int64_t *from = eval_ints(e) + 1, *step = from + eval_ints(e)[0];
    for (uint32_t d = 1; d < l.n; d++) {
        l.base[FROM] += from[d - 1] * stride[d];
        l.stride[FROM][d] = step[d - 1] * stride[d];
    }
    copy_run(e, 0, &l);
}

void eval_Pad(Eval *e) {
    Loop l;
    int64_t stride[LOOP_DIMS];
    memset(e->out, 0, value_bytes(e, eval_type(e)));
    loop_init(&l, e->g, eval_in_type(e, 0));
    loop_operand(&l, eval_in_type(e, 0));
    loop_operand(&l, eval_in_type(e, 0));
    dense_strides(e, eval_type(e), stride);
    const int64_t *before = eval_ints(e) + 1, *step = before + eval_ints(e)[0];
    l.stride[TO][0] = stride[0];
    for (uint32_t d = 1; d < l.n; d++) {
        l.base[TO] += before[d - 1] * stride[d];
        l.stride[TO][d] = step[d - 1] * stride[d];
    }
    copy_run(e, 0, &l);
}

void eval_Flip(Eval *e) {
    Loop l;
    view_loop(e, &l);
    for (uint32_t d = 1; d < l.n; d++) {
        if (eval_ints(e)[0] >> d & 1) {
            l.base[FROM] += (l.extent[d] - 1) * l.stride[FROM][d];
            l.stride[FROM][d] = -l.stride[FROM][d];
        }
    }
    copy_run(e, 0, &l);
}

void eval_Concat(Eval *e) {
    uint32_t axis = 1 + (uint32_t)eval_ints(e)[0];
    int64_t stride[LOOP_DIMS], at = 0;
    dense_strides(e, eval_type(e), stride);
    for (uint32_t k = 0; k < graph_node(e->g, e->id)->nin; k++) {
        const Type *t = eval_in_type(e, k);
        Loop l;
        loop_init(&l, e->g, eval_type(e));
        l.extent[axis] = t->dim[axis - 1];
        loop_operand(&l, t);
        loop_operand(&l, eval_type(e));
        memcpy(l.stride[TO], stride, sizeof stride);
        l.base[TO] = at * stride[axis];
        at += t->dim[axis - 1];
        copy_run(e, k, &l);
    }
}

// Place `i` of the index values, clamped into the table: a wrong label may give a wrong row but no
// wild read.
static int64_t row_index(const Eval *e, int64_t i, int64_t rows) {
    double x = value_get(e->in[1], e->f64, i);
    if (!(x >= 0))
        return 0;
    return x >= (double)rows ? rows - 1 : (int64_t)x;
}

// Indices of a sample, and the elements of a table and of one of its rows.
typedef struct Rows {
    int64_t samples, indices, rows, size;
    int64_t table_step, index_step; // elements from sample to sample, 0 where shared
} Rows;

static Rows rows_in(const Eval *e, const Type *table, const Type *rows) {
    const Type *index = eval_in_type(e, 1);
    Rows r = {.samples = rows->batched ? e->g->batch : 1, .indices = type_sample(index)};
    r.rows = table->dim[0];
    r.size = type_sample(table) / r.rows;
    r.table_step = table->batched ? type_sample(table) : 0;
    r.index_step = index->batched ? r.indices : 0;
    return r;
}

void eval_Gather(Eval *e) {
    Rows r = rows_in(e, eval_in_type(e, 0), eval_type(e));
    size_t one = e->f64 ? sizeof(double) : sizeof(float), bytes = (size_t)r.size * one;
    char *to = e->out;
    for (int64_t b = 0; b < r.samples; b++) {
        for (int64_t i = 0; i < r.indices; i++, to += bytes) {
            int64_t row = row_index(e, b * r.index_step + i, r.rows);
            int64_t from = b * r.table_step + row * r.size;
            memcpy(to, (const char *)e->in[0] + (size_t)from * one, bytes);
        }
    }
}

void eval_Scatter(Eval *e) {
    const Type *table = eval_type(e);
    Rows r = rows_in(e, table, eval_in_type(e, 0));
    int64_t all = type_elements(e->g, table), at = 0;
    double *sum = arena_array(e->scratch, double, all);
    for (int64_t b = 0; b < r.samples; b++) { // in order: the order of a sum is part of the result
        for (int64_t i = 0; i < r.indices; i++) {
            int64_t row = row_index(e, b * r.index_step + i, r.rows);
            double *to = sum + b * r.table_step + row * r.size;
            for (int64_t j = 0; j < r.size; j++)
                to[j] += value_get(e->in[0], e->f64, at++);
        }
    }
    for (int64_t j = 0; j < all; j++)
        value_put(e->out, e->f64, j, sum[j]);
}
