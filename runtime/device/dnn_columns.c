// dnn_columns.c - convolutions over few pixels, done as matrix products over columns (im2col).
//
// A row is one pixel of y, a column one element of the kernel and channel of x, channels contiguous
// as in memory. The library's own convolutions are slow where y is small: its weight gradient in
// bf16 reorders its operands for every few pixels, and its matrix unit idles. Its matrix products
// keep that unit busy.
//   y  [rows, o]  = columns(x) . w'        w' [o, k.., c]: as the plan has it
//   gw [o, k.., c] = y^T . columns(x)
//   gx            = sum over the columns of y . w' that fall on a pixel (col2im), in float
// Measured on one core with AMX, packing included: 256 to 512 channels, k 4, stride 2, to 4x4,
// batch 32, in bf16 forward 8.1 to 3.5 ms, input gradient 10.6 to 4.4, weights' gradient 27.3
// to 3.5 (and at 8x8, 128 to 256 channels, 12.3 to 4.1); in f32 forward 19.5 to 13.8, weights'
// gradient 22.7 to 14.3.
#include "dnn.h"

#include <string.h>

enum { LEAST_CHANNELS = 32 };

typedef struct Columns {
    DnnAxis axis[DNN_AXES];
    int64_t n, c, o, rows, columns;
    void *x;     // channels-last
    size_t size; // of an element of x
} Columns;

// --- gathering and scattering --------------------------------------------------------------------

// Kernel elements lo..hi-1 of an axis that meet x at pixel `at` of y.
static void span(const DnnAxis *g, int64_t at, int64_t *lo, int64_t *hi) {
    int64_t first = at * g->s - g->p;
    *lo = first < 0 ? (-first + g->d - 1) / g->d : 0;
    *hi = first >= g->x ? 0 : (g->x - 1 - first) / g->d + 1;
    *hi = *hi < g->k ? *hi : g->k;
    *lo = *lo < *hi ? *lo : *hi;
}

static void fill_row(const Columns *j, int64_t row, char *to) {
    const DnnAxis *g = j->axis;
    int64_t y[DNN_AXES] = {row / g[2].y / g[1].y % g[0].y, row / g[2].y % g[1].y, row % g[2].y};
    int64_t sample = row / g[2].y / g[1].y / g[0].y, lo[DNN_AXES], hi[DNN_AXES];
    size_t pixel = (size_t)j->c * j->size;
    for (int i = 0; i < DNN_AXES; i++)
        span(&g[i], y[i], &lo[i], &hi[i]);
    memset(to, 0, (size_t)j->columns * j->size);
    for (int64_t a = lo[0]; a < hi[0]; a++)
        for (int64_t b = lo[1]; b < hi[1]; b++) {
            int64_t x0 = y[0] * g[0].s - g[0].p + a * g[0].d,
                    x1 = y[1] * g[1].s - g[1].p + b * g[1].d;
            const char *line = (const char *)j->x +
                               (size_t)(((sample * g[0].x + x0) * g[1].x + x1) * g[2].x) * pixel;
            char *at = to + (size_t)((a * g[1].k + b) * g[2].k) * pixel;
            int64_t first = y[2] * g[2].s - g[2].p, run = g[2].d == 1 ? hi[2] - lo[2] : 1;
            for (int64_t c = lo[2]; c < hi[2]; c += run)
                memcpy(at + (size_t)c * pixel, line + (size_t)(first + c * g[2].d) * pixel,
                       (size_t)run * pixel);
        }
}

static void gather(void *job, void *const staging[DNN_STAGING], int64_t round) {
    (void)round;
    const Columns *j = job;
#pragma omp parallel for schedule(static)
    for (int64_t row = 0; row < j->rows; row++)
        fill_row(j, row, (char *)staging[1] + (size_t)(row * j->columns) * j->size);
}

// The pixel of y whose kernel element t meets pixel `at` of x, -1 none.
static int64_t meets(const DnnAxis *g, int64_t at, int64_t t) {
    int64_t first = at + g->p - t * g->d;
    return first < 0 || first % g->s || first / g->s >= g->y ? -1 : first / g->s;
}

static void add_pixel(const Columns *j, const float *columns, int64_t pixel, float *sum) {
    const DnnAxis *g = j->axis;
    int64_t x[DNN_AXES] = {pixel / g[2].x / g[1].x % g[0].x, pixel / g[2].x % g[1].x,
                           pixel % g[2].x};
    int64_t sample = pixel / g[2].x / g[1].x / g[0].x;
    memset(sum, 0, (size_t)j->c * sizeof *sum);
    for (int64_t a = 0; a < g[0].k; a++)
        for (int64_t b = 0; b < g[1].k; b++)
            for (int64_t c = 0; c < g[2].k; c++) {
                int64_t y0 = meets(&g[0], x[0], a), y1 = meets(&g[1], x[1], b),
                        y2 = meets(&g[2], x[2], c);
                if (y0 < 0 || y1 < 0 || y2 < 0)
                    continue;
                int64_t row = ((sample * g[0].y + y0) * g[1].y + y1) * g[2].y + y2;
                const float *from =
                    columns + row * j->columns + ((a * g[1].k + b) * g[2].k + c) * j->c;
                for (int64_t i = 0; i < j->c; i++)
                    sum[i] += from[i];
            }
}

static void scatter(void *job, void *const staging[DNN_STAGING], int64_t round) {
    (void)round;
    const Columns *j = job;
    const DnnAxis *g = j->axis;
    int64_t pixels = j->n * g[0].x * g[1].x * g[2].x;
#pragma omp parallel
    {
        float sum[DNN_COLUMN_CHANNELS];
#pragma omp for schedule(static)
        for (int64_t i = 0; i < pixels; i++) {
            add_pixel(j, staging[1], i, sum);
            char *to = (char *)j->x + (size_t)(i * j->c) * j->size;
            if (j->size == sizeof *sum)
                memcpy(to, sum, (size_t)j->c * sizeof *sum);
            else
                floats_to_bf16(sum, (uint16_t *)(void *)to, j->c);
        }
    }
}

// --- the product ---------------------------------------------------------------------------------

static Columns columns_of(const DnnConv *c) {
    Columns j = {.n = c->src.dim[0],
                 .c = c->src.dim[1],
                 .o = c->dst.dim[1],
                 .size = dtype_size[c->src.type]};
    dnn_axes(c, j.axis);
    j.rows = j.n;
    j.columns = j.c;
    for (int i = 0; i < DNN_AXES; i++) {
        j.rows *= j.axis[i].y;
        j.columns *= j.axis[i].k;
    }
    return j;
}

// Where the form pays, by pixels of y along the last axis. Measured on a processor with a matrix
// unit; on others only where the library is known to do badly everywhere: the weights' gradient in
// bf16.
static bool pays(DnnConvKind kind, const DnnConv *c, const Columns *j) {
    bool f32 = c->src.type == DtF32 && c->weights.type == DtF32 && c->dst.type == DtF32;
    bool bf16 =
        c->dst.type == DtBF16 && (kind == DnnConvData ? c->weights.type : c->src.type) == DtBF16;
    bool last = c->src.stride[1] == 1 && c->dst.stride[1] == 1 && c->weights.n == c->src.n;
    bool deep = j->c >= LEAST_CHANNELS && j->o >= LEAST_CHANNELS && j->c <= DNN_COLUMN_CHANNELS;
    if (!last || !deep || !(f32 || bf16))
        return false;
    if (bf16 && kind == DnnConvWeights)
        return j->axis[2].y <= 8 * j->axis[2].s;
    return dnn_has_matrix_unit() && j->axis[2].y <= 4 && (bf16 || kind != DnnConvData);
}

// The three matrices of the product, in the library's order.
static void matrices(DnnConvKind kind, const DnnConv *c, const Columns *j, DnnShape s[3]) {
    Dtype x = c->src.type, w = c->weights.type, y = c->dst.type;
    switch (kind) {
    case DnnConvForward:
        s[0] = dnn_matrix(j->rows, j->columns, x);
        s[1] = dnn_turned(dnn_matrix(j->o, j->columns, w));
        s[2] = dnn_matrix(j->rows, j->o, y);
        return;
    case DnnConvData:
        s[0] = dnn_matrix(j->rows, j->o, y);
        s[1] = dnn_matrix(j->o, j->columns, w);
        s[2] = dnn_matrix(j->rows, j->columns, DtF32);
        return;
    case DnnConvWeights:
        s[0] = dnn_turned(dnn_matrix(j->rows, j->o, y));
        s[1] = dnn_matrix(j->rows, j->columns, x);
        s[2] = dnn_matrix(j->o, j->columns, w);
        return;
    }
}

static dnnl_status_t add_product(Dnn *d, DnnCall *call, const DnnProblem *p, Columns *j,
                                 const DnnMatmul *product) {
    const DnnTensor columns = {NULL, NULL, 1, 0}, *t = p->t;
    dnnl_status_t s = dnnl_success;
    if (p->kind != DnnConvData)
        dnn_add_host(call, gather, j);
    switch (p->kind) {
    case DnnConvForward:
        return dnn_add_matmul(d, call, product, (const DnnTensor[]){columns, t[1], t[2]});
    case DnnConvData:
        s = dnn_add_matmul(d, call, product, (const DnnTensor[]){t[2], t[1], columns});
        dnn_add_host(call, scatter, j);
        return s;
    case DnnConvWeights:
        return dnn_add_matmul(d, call, product, (const DnnTensor[]){t[2], columns, t[1]});
    }
    return s;
}

dnnl_status_t dnn_columns(Dnn *d, DnnCall *call, const DnnProblem *p, bool *done) {
    const DnnConv *c = &p->conv;
    Columns *j = dnn_job(d, sizeof *j);
    *j = columns_of(c);
    j->x = p->t[0].at;
    if (!pays(p->kind, c, j))
        return dnnl_success;
    DnnShape s[3];
    DnnMatmul product;
    matrices(p->kind, c, j, s);
    if (dnn_matmul(d, s, false, &product) != dnnl_success)
        return dnnl_success;
    dnnl_status_t status = add_product(d, call, p, j, &product);
    *done = status == dnnl_success;
    return status;
}
