// dnn_taps.c - convolutions over so few pixels that much of the kernel lies in the padding: one
// matrix product for each kernel element (tap), over the pixels where it lies within the image.
//
// A row is a pixel of y and the pixel of x that a kernel element connects it with; the rows of an
// element are contiguous, those of all elements one after another.
//   y  = sum over the rows of a pixel of   x [rows, c] . w_t'     w_t [o, c]: packed once a block
//   gx = sum over the rows of a pixel of   y [rows, o] . w_t      in float
//   gw_t [o, c] = y [rows, o]' . x [rows, c]                      then to the plan's [o, k.., c]
// The library's own convolutions loop over the kernel for each line of a sample, and use an element
// for only a pixel or two; here the pixels of all samples use it together, and nothing is
// multiplied by the padding. Measured on two cores with AVX-512, f32, packing of w apart: 256 to
// 512 channels, k 4, stride 2, from 4x4 to 2x2 (9 of 16 elements within), batch 32: forward 2.05 to
// 0.91 ms, input gradient 1.80 to 0.86, weights' gradient 2.81 to 1.12. Where 49 of 64 are within
// (8x8 to 4x4) there is no gain.
#include "dnn.h"

#include "integers.h"

#include <string.h>

enum { MOST = 16, LEAST_CHANNELS = 32 };

static const double MET = 0.6; // of what the kernel would multiply, at most

typedef struct Tap { // one kernel element
    int64_t at[DNN_AXES];
    int64_t lo[DNN_AXES], n[DNN_AXES]; // the pixels of y it joins with one of x
    int64_t first, rows;               // its rows among all
} Tap;

typedef struct Taps {
    DnnAxis axis[DNN_AXES];
    int64_t n, c, o, rows; // samples, channels of x and y, rows of all taps
    int taps;
    Tap tap[MOST];
    void *x, *y;         // channels-last
    size_t size, weight; // of an element of x and y, and of w, in bytes
    size_t beside;       // y's rows from where x's begin, in bytes
} Taps;

// --- rows ----------------------------------------------------------------------------------------

// How many pixels of y element `t` of an axis joins with one of x, the first of them in *lo.
static int64_t span(const DnnAxis *a, int64_t t, int64_t *lo) {
    int64_t first = t * a->d - a->p, last = a->x - 1 - first; // what it meets at y = 0; left of x
    *lo = first < 0 ? ceil_div(-first, a->s) : 0;
    int64_t hi = last < 0 ? 0 : last / a->s + 1;
    hi = hi < a->y ? hi : a->y;
    return hi > *lo ? hi - *lo : 0;
}

// False where there are too many elements, or one that meets nothing.
static bool taps_set(Taps *j) {
    const DnnAxis *a = j->axis;
    int64_t elements = a[0].k * a[1].k * a[2].k;
    bool fine = elements <= MOST;
    for (j->taps = 0; fine && j->taps < elements; j->taps++) {
        int64_t i = j->taps;
        Tap *t = &j->tap[i];
        *t = (Tap){.at = {i / a[2].k / a[1].k, i / a[2].k % a[1].k, i % a[2].k},
                   .first = j->rows,
                   .rows = j->n};
        for (int k = 0; k < DNN_AXES; k++)
            t->rows *= t->n[k] = span(&a[k], t->at[k], &t->lo[k]);
        j->rows += t->rows;
        fine = t->rows > 0;
    }
    return fine;
}

// The row of element `t` at a sample's pixel of y; -1 none.
static int64_t row_of(const Tap *t, int64_t sample, const int64_t y[DNN_AXES]) {
    int64_t row = sample;
    for (int i = 0; i < DNN_AXES; i++) {
        if (y[i] < t->lo[i] || y[i] >= t->lo[i] + t->n[i])
            return -1;
        row = row * t->n[i] + y[i] - t->lo[i];
    }
    return t->first + row;
}

// The pixels a row joins, counted through all samples.
static void pixels_of(const Taps *j, const Tap *t, int64_t row, int64_t *x, int64_t *y) {
    int64_t at[DNN_AXES], left = row - t->first;
    for (int i = DNN_AXES; i-- > 0; left /= t->n[i])
        at[i] = left % t->n[i] + t->lo[i];
    *x = *y = left;
    for (int i = 0; i < DNN_AXES; i++) {
        const DnnAxis *a = &j->axis[i];
        *x = *x * a->x + at[i] * a->s - a->p + t->at[i] * a->d;
        *y = *y * a->y + at[i];
    }
}

static void gather(const Taps *j, void *x_rows, void *y_rows) {
    size_t x_bytes = (size_t)j->c * j->size, y_bytes = (size_t)j->o * j->size;
#pragma omp parallel for schedule(static)
    for (int64_t row = 0; row < j->rows; row++) {
        const Tap *t = j->tap;
        while (row >= t->first + t->rows)
            t++;
        int64_t x, y;
        pixels_of(j, t, row, &x, &y);
        if (x_rows)
            memcpy((char *)x_rows + (size_t)row * x_bytes, (char *)j->x + (size_t)x * x_bytes,
                   x_bytes);
        if (y_rows)
            memcpy((char *)y_rows + (size_t)row * y_bytes, (char *)j->y + (size_t)y * y_bytes,
                   y_bytes);
    }
}

static void gather_x(void *job, void *const staging[DNN_STAGING], int64_t round) {
    (void)round;
    gather(job, staging[1], NULL);
}

static void gather_y(void *job, void *const staging[DNN_STAGING], int64_t round) {
    (void)round;
    gather(job, NULL, staging[1]);
}

static void gather_both(void *job, void *const staging[DNN_STAGING], int64_t round) {
    (void)round;
    const Taps *j = job;
    gather(j, staging[1], (char *)staging[1] + j->beside);
}

// The pixel of y that element `t` joins with pixel `at` of x; -1 none.
static int64_t meets(const DnnAxis *a, int64_t at, int64_t t) {
    int64_t first = at + a->p - t * a->d;
    return first < 0 || first % a->s ? -1 : first / a->s;
}

// What the rows of one pixel of x or y, counted through all samples, add up to.
static void sum_rows(const Taps *j, bool of_x, const float *rows, int64_t pixel, float *sum) {
    int64_t at[DNN_AXES], y[DNN_AXES], c = of_x ? j->c : j->o;
    for (int i = DNN_AXES; i-- > 0; pixel /= of_x ? j->axis[i].x : j->axis[i].y)
        at[i] = pixel % (of_x ? j->axis[i].x : j->axis[i].y);
    memset(sum, 0, (size_t)c * sizeof *sum);
    for (const Tap *t = j->tap; t < j->tap + j->taps; t++) {
        for (int i = 0; i < DNN_AXES; i++)
            y[i] = of_x ? meets(&j->axis[i], at[i], t->at[i]) : at[i];
        int64_t row = row_of(t, pixel, y);
        const float *from = rows + row * c;
        for (int64_t i = 0; row >= 0 && i < c; i++)
            sum[i] += from[i];
    }
}

static void scatter(const Taps *j, bool of_x, const float *rows) {
    int64_t pixels = j->n, c = of_x ? j->c : j->o;
    for (int i = 0; i < DNN_AXES; i++)
        pixels *= of_x ? j->axis[i].x : j->axis[i].y;
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < pixels; i++) {
        float sum[DNN_COLUMN_CHANNELS];
        sum_rows(j, of_x, rows, i, sum);
        char *to = (char *)(of_x ? j->x : j->y) + (size_t)(i * c) * j->size;
        if (j->size == sizeof *sum)
            memcpy(to, sum, (size_t)c * sizeof *sum);
        else
            floats_to_bf16(sum, (uint16_t *)(void *)to, c);
    }
}

static void scatter_x(void *job, void *const staging[DNN_STAGING], int64_t round) {
    (void)round;
    scatter(job, true, staging[0]);
}

static void scatter_y(void *job, void *const staging[DNN_STAGING], int64_t round) {
    (void)round;
    scatter(job, false, staging[0]);
}

// --- products ------------------------------------------------------------------------------------

// Of all that would be multiplied with the padding, the part that meets the image.
static double met(const Taps *j) {
    double all = (double)(j->n * j->taps);
    for (int i = 0; i < DNN_AXES; i++)
        all *= (double)j->axis[i].y;
    return (double)j->rows / all;
}

static bool pays(const DnnProblem *p, const Taps *j) {
    const DnnConvKind kind = p->kind;
    const DnnConv *c = &p->conv;
    const DnnShape *a = kind == DnnConvData ? &c->dst : &c->src;
    const DnnShape *b = kind == DnnConvWeights ? &c->dst : &c->weights;
    const DnnShape *to = kind == DnnConvForward ? &c->dst : kind == DnnConvData ? &c->src : NULL;
    bool types = a->type == b->type && (a->type == DtF32 || a->type == DtBF16) &&
                 (!to || to->type == a->type);
    bool last = c->src.stride[1] == 1 && c->dst.stride[1] == 1 && c->weights.n == c->src.n;
    bool deep = j->c >= LEAST_CHANNELS && j->o >= LEAST_CHANNELS && j->c <= DNN_COLUMN_CHANNELS &&
                j->o <= DNN_COLUMN_CHANNELS;
    return types && last && deep && met(j) <= MET;
}

// The three matrices of an element's product, in the library's order.
static void matrices(const DnnProblem *p, const Taps *j, int64_t rows, DnnShape s[3]) {
    const DnnConv *c = &p->conv;
    DnnShape x = dnn_matrix(rows, j->c, c->src.type);
    DnnShape y = dnn_matrix(rows, j->o, c->dst.type);
    DnnShape w = dnn_matrix(j->o, j->c, c->weights.type);
    switch (p->kind) {
    case DnnConvForward:
        y.type = DtF32;
        memcpy(s, (DnnShape[]){x, dnn_turned(w), y}, 3 * sizeof *s);
        return;
    case DnnConvData:
        x.type = DtF32;
        memcpy(s, (DnnShape[]){y, w, x}, 3 * sizeof *s);
        return;
    case DnnConvWeights:
        memcpy(s, (DnnShape[]){dnn_turned(y), x, w}, 3 * sizeof *s);
        return;
    }
}

static DnnTensor moved(DnnTensor t, int64_t elements, size_t size) {
    size_t bytes = (size_t)elements * size;
    if (t.at)
        t.at = (char *)t.at + bytes;
    else
        t.offset += bytes;
    return t;
}

// Where the operands of element `t` lie, in the library's order. w: of all elements, [k.., o, c].
static void operands(DnnConvKind kind, const Taps *j, int t, DnnTensor w, DnnTensor at[3]) {
    int64_t first = j->tap[t].first;
    DnnTensor made = {NULL, NULL, 0, 0}, x = {NULL, NULL, 1, 0}, y = {NULL, NULL, 1, j->beside};
    w = moved(w, t * j->o * j->c, j->weight);
    switch (kind) {
    case DnnConvForward:
        at[0] = moved(x, first * j->c, j->size);
        at[1] = w;
        at[2] = moved(made, first * j->o, sizeof(float));
        return;
    case DnnConvData:
        at[0] = moved(y, first * j->o, j->size);
        at[1] = w;
        at[2] = moved(made, first * j->c, sizeof(float));
        return;
    case DnnConvWeights:
        at[0] = moved(y, first * j->o, j->size);
        at[1] = moved(x, first * j->c, j->size);
        at[2] = w;
        return;
    }
}

// Elements that meet equally many pixels share a description.
static dnnl_status_t add_products(Dnn *d, DnnCall *call, const DnnProblem *p, const Taps *j,
                                  DnnTensor w) {
    DnnMatmul made[MOST];
    int64_t rows[MOST]; // of each
    int n = 0;
    for (int t = 0; t < j->taps; t++) {
        int i = 0;
        while (i < n && rows[i] != j->tap[t].rows)
            i++;
        dnnl_status_t s = dnnl_success;
        if (i == n) {
            DnnShape shape[3];
            matrices(p, j, rows[n] = j->tap[t].rows, shape);
            s = dnn_matmul(d, shape, false, &made[n++]);
        }
        DnnTensor at[3];
        operands(p->kind, j, t, w, at);
        if (s == dnnl_success)
            s = dnn_add_matmul(d, call, &made[i], at);
        if (s != dnnl_success)
            return s;
    }
    return dnnl_success;
}

// The weights' shape with the kernel's elements outermost, the channels innermost as they are.
static DnnShape elements_outside(const DnnShape *w) {
    DnnShape s = *w;
    int64_t step = s.dim[0] * s.dim[1];
    s.stride[0] = s.dim[1];
    s.stride[1] = 1;
    for (int i = s.n; i-- > 2; step *= s.dim[i])
        s.stride[i] = step;
    return s;
}

// inside: the weights with the kernel's elements outermost.
static dnnl_status_t add_steps(Dnn *d, DnnCall *call, const DnnProblem *p, Taps *j,
                               DnnTensor inside) {
    static DnnHost *const before[] = {gather_x, gather_y, gather_both};
    const DnnTensor w = p->t[1];
    dnnl_status_t s = dnnl_success;
    if (p->kind != DnnConvWeights)
        s = dnn_pack(d, call, p->weights, w, inside.layout, &inside);
    dnn_add_host(call, before[p->kind], j);
    if (s == dnnl_success)
        s = add_products(d, call, p, j, inside);
    if (s == dnnl_success && p->kind == DnnConvWeights)
        return dnn_add_reorder(d, call, inside, w);
    dnn_add_host(call, p->kind == DnnConvData ? scatter_x : scatter_y, j);
    return s;
}

dnnl_status_t dnn_taps(Dnn *d, DnnCall *call, const DnnProblem *p, bool *done) {
    const DnnConv *c = &p->conv;
    Taps *j = dnn_job(d, sizeof *j);
    *j = (Taps){.n = c->src.dim[0],
                .c = c->src.dim[1],
                .o = c->dst.dim[1],
                .x = p->t[0].at,
                .y = p->t[2].at,
                .size = dtype_size[p->kind == DnnConvData ? c->dst.type : c->src.type],
                .weight = dtype_size[c->weights.type]};
    dnn_axes(c, j->axis);
    if (!taps_set(j) || !pays(p, j))
        return dnnl_success;
    j->beside = p->kind == DnnConvWeights ? round_up((size_t)(j->rows * j->c) * j->size, 64) : 0;
    DnnShape shape = elements_outside(&c->weights);
    DnnTensor inside = {dnn_keep_layout(d, &shape), NULL, 0, 0};
    DnnCall as_it_was = *call;
    dnnl_status_t s = dnnl_unimplemented;
    if (inside.layout)
        s = add_steps(d, call, p, j, inside);
    *done = s == dnnl_success;
    if (s != dnnl_unimplemented)
        return s;
    *call = as_it_was;
    return dnnl_success;
}
