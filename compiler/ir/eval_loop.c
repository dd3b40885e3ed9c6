// eval_loop.c - strided iteration for the reference evaluator. In: a space and operand strides.
// Out: calls for innermost runs. Rows are independent, so the order in which threads take them
// cannot show in a result.
#include "eval.h"

void loop_init(Loop *l, const Graph *g, const Type *space) {
    *l = (Loop){.n = 1u + space->rank};
    l->extent[0] = space->batched ? g->batch : 1;
    for (uint32_t i = 0; i < space->rank; i++)
        l->extent[1 + i] = space->dim[i];
}

uint32_t loop_operand(Loop *l, const Type *t) {
    uint32_t k = l->operands++;
    int64_t step = 1;
    for (uint32_t d = l->n; d-- > 1;) {
        int64_t extent = d - 1 < t->rank ? t->dim[d - 1] : 1;
        l->stride[k][d] = extent == 1 ? 0 : step;
        step *= extent;
    }
    l->stride[k][0] = t->batched ? step : 0;
    return k;
}

int64_t loop_size(const Loop *l) {
    int64_t n = 1;
    for (uint32_t d = 0; d < l->n; d++)
        n *= l->extent[d];
    return n;
}

static bool loop_joins(const Loop *l, uint32_t outer, uint32_t inner) {
    for (uint32_t k = 0; k < l->operands; k++)
        if (l->stride[k][outer] != l->stride[k][inner] * l->extent[inner])
            return false;
    return true;
}

void loop_fold(Loop *l) {
    uint32_t n = 0;
    for (uint32_t d = 0; d < l->n; d++) {
        if (l->extent[d] == 1)
            continue;
        bool join = n > 0 && loop_joins(l, n - 1, d);
        uint32_t to = join ? n - 1 : n++;
        l->extent[to] = join ? l->extent[to] * l->extent[d] : l->extent[d];
        for (uint32_t k = 0; k < l->operands; k++)
            l->stride[k][to] = l->stride[k][d];
    }
    if (n == 0) {
        l->extent[0] = 1;
        n = 1;
    }
    l->n = n;
}

void loop_offsets(const Loop *l, uint32_t dims, int64_t i, int64_t *off) {
    for (uint32_t k = 0; k < l->operands; k++)
        off[k] = l->base[k];
    for (uint32_t d = dims; d-- > 0;) {
        int64_t at = i % l->extent[d];
        i /= l->extent[d];
        for (uint32_t k = 0; k < l->operands; k++)
            off[k] += at * l->stride[k][d];
    }
}

void loop_run(Loop *l, LoopRow *row, void *user) {
    int64_t size = loop_size(l);
    if (size == 0)
        return;
    loop_fold(l);
    uint32_t last = l->n - 1;
    int64_t n = l->extent[last], step[LOOP_OPERANDS];
    for (uint32_t k = 0; k < l->operands; k++)
        step[k] = l->stride[k][last];
    int64_t rows = size / n;
#pragma omp parallel for schedule(static) if (size > LOOP_PARALLEL)
    for (int64_t r = 0; r < rows; r++) {
        int64_t off[LOOP_OPERANDS];
        loop_offsets(l, last, r, off);
        row(user, n, off, step);
    }
}
