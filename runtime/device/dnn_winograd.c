// dnn_winograd.c - convolutions of stride 1 and 2 with fewer multiplications (Winograd's).
//
// A stride-s convolution is the sum, over the s residues ("phases") of x along each axis, of
// stride-1 convolutions with every s-th kernel element: ceil(k / s) taps. Phases stand side by side
// as channels, so the whole is
//   V [points, tiles, phases * c]   from tiles of x        winograd.c
//   U [points, o, phases * c]       from the weights, at every call (a large one, kept, would be
//                                   read from memory, which takes as long)
//   M [points, tiles, o]            from tiles of y
//   y from M = V . U',  gx from V = M . U,  gw from U = M' . V
// where the products are the library's. Tiles go through in rounds, so that V and M of one stay
// in the processor's cache, and the memory for them does not grow with the image. Where U is the
// larger by far (many channels, few pixels), y's channels go through in parts instead.
//
// F23 needs 0.44 of the multiplications of a 3 x 3 kernel, F32 as much of those of a 4 x 4 kernel
// of stride 2; what decides (choose) is that against the numbers that have to be moved. F43 and F42
// need 0.25 and 0.39, but round off four to six times what a direct sum does, in gradients as well
// as forward: with them activations cross the kinks of leaky ReLUs (wgan_gp's reference case), so
// ERROR keeps them out.
#include "winograd.h"

#include "integers.h"

#include <string.h>

enum {
    ROUND_BYTES = 3 << 20, // V and M of a round: little more than two cores keep next to them
    MOVING = 16,           // multiplications done in the time a number takes to memory or back
    PARTS = 4,             // of y's channels: as many as DnnCall has steps for
    ERROR = 2,             // of a form, times the direct sum's, at most
};

static const struct {
    int64_t made, taps, points;
    double error;
} form_of[WinoForms] = {
#define X(name, made, taps, points, error) {made, taps, points, error},
    WINO_FORMS(X)
#undef X
};

static const WinoRun *run_of(void) {
    return OF_VECTOR_LEVEL(&wino_run_v1, &wino_run_v3, &wino_run_v4);
}

// --- the shape -----------------------------------------------------------------------------------

static bool suits(const DnnConv *c) {
    bool fine = c->src.n == 2 + WINO_AXES && c->weights.n == c->src.n && c->src.stride[1] == 1 &&
                c->dst.stride[1] == 1 && c->src.type == DtF32 && c->weights.type == DtF32 &&
                c->dst.type == DtF32 && c->src.dim[1] % WINO_LANES == 0 &&
                c->dst.dim[1] % WINO_LANES == 0;
    for (int i = 0; i < WINO_AXES; i++)
        fine = fine && !c->dilation[i] && c->stride[i] <= WINO_PHASES &&
               c->weights.dim[2 + i] >= c->stride[i];
    return fine;
}

// Everything about axis `i` that the form does not decide.
static void axis_set(Winograd *j, const DnnConv *c, int i) {
    int64_t s = c->stride[i], p = c->before[i];
    j->k[i] = c->weights.dim[2 + i];
    j->taps[i] = ceil_div(j->k[i], s);
    j->x.extent[i] = c->src.dim[2 + i];
    j->y.extent[i] = c->dst.dim[2 + i];
    j->x.phases[i] = s;
    j->y.phases[i] = 1;
    for (int64_t r = 0; r < s; r++) {
        j->first[i][r] = (r + p) % s;
        j->x.shift[i][r] = (j->first[i][r] - p - r) / s;
    }
}

// False where tiles would leave pixels of x out.
static bool form_set(Winograd *j, int i, WinoForm form) {
    j->form[i] = form;
    j->made[i] = form_of[form].made;
    j->points[i] = form_of[form].points;
    j->tiles[i] = ceil_div(j->y.extent[i], j->made[i]);
    j->x.tile[i] = j->points[i];
    j->x.shared[i] = j->taps[i] - 1;
    j->y.tile[i] = j->made[i];
    bool all = form_of[form].taps == j->taps[i];
    for (int64_t r = 0; r < j->x.phases[i]; r++)
        all = all &&
              (j->tiles[i] * j->made[i] + j->taps[i] - 1 + j->x.shift[i][r]) * j->x.phases[i] + r >=
                  j->x.extent[i];
    return all;
}

static int64_t kernels_of(const Winograd *j) {
    return j->x.phases[0] * j->x.phases[1] * j->x.c;
}

static double cost_of(const Winograd *j) {
    double points = (double)(j->points[0] * j->points[1]), k = (double)kernels_of(j);
    double tiles = (double)(j->n * j->tiles[0] * j->tiles[1]), o = (double)j->y.c;
    return points * (tiles * k * o + MOVING * (2 * tiles * (k + o) + 2 * k * o));
}

static double direct_cost(const Winograd *j) {
    return (double)(j->n * j->y.extent[0] * j->y.extent[1]) * (double)(j->k[0] * j->k[1]) *
           (double)(j->x.c * j->y.c);
}

// The cheapest form, and whether it is cheaper than none.
static bool choose(Winograd *j, double error) {
    double least = 0.8 * direct_cost(j);
    Winograd best = *j, now = *j;
    bool found = false;
    for (int a = 0; a < WinoForms; a++)
        for (int b = 0; b < WinoForms; b++)
            if (form_of[a].error <= error && form_of[b].error <= error &&
                form_set(&now, 0, (WinoForm)a) && form_set(&now, 1, (WinoForm)b) &&
                cost_of(&now) < least) {
                least = cost_of(&now);
                best = now;
                found = true;
            }
    *j = best;
    return found;
}

// Rows of tiles in a round: as many as the cache holds, but enough that U, which is walked every
// round, is not most of what is moved; and as even as can be.
static int64_t rounds_set(Winograd *j, int64_t bytes) {
    int64_t all = j->n * j->tiles[0], size = (int64_t)sizeof(float) * j->points[0] * j->points[1];
    int64_t row = size * j->tiles[1] * (kernels_of(j) + j->y.c), u = size * j->y.c * kernels_of(j);
    int64_t most = (u > bytes ? u : bytes) / row;
    int64_t rounds = most > 1 ? ceil_div(all, most) : all;
    j->rows = ceil_div(all, rounds);
    return ceil_div(all, j->rows);
}

// Parts of y's channels, where one round has all tiles and yet U, which is then walked once, does
// not stay in the cache between being made and being multiplied.
static int64_t parts_of(const Winograd *j, int64_t rounds, int64_t bytes) {
    int64_t u = (int64_t)sizeof(float) * j->points[0] * j->points[1] * j->y.c * kernels_of(j);
    int64_t parts = 1;
    while (rounds == 1 && parts < PARTS && u > bytes * parts &&
           j->y.c % (2 * parts * WINO_LANES) == 0)
        parts *= 2;
    return parts;
}

// --- the call ------------------------------------------------------------------------------------

static DnnShape matrices(int64_t points, int64_t rows, int64_t columns) {
    DnnShape s = {.n = 3, .dim = {points, rows, columns}, .type = DtF32};
    dnn_dense(&s);
    return s;
}

typedef struct Points { // the three batches of matrices, and where they lie
    DnnShape v, u, m;
    DnnTensor v_at, u_at, m_at;
} Points;

static bool points_of(Dnn *d, const Winograd *j, Points *p) {
    int64_t points = j->points[0] * j->points[1], tiles = j->rows * j->tiles[1];
    p->v = matrices(points, tiles, kernels_of(j));
    p->u = matrices(points, j->y.c, kernels_of(j));
    p->m = matrices(points, tiles, j->y.c);
    p->v_at = (DnnTensor){dnn_keep_layout(d, &p->v), NULL, 0, 0};
    p->u_at = (DnnTensor){dnn_keep_layout(d, &p->u), NULL, 0, 0};
    p->m_at = (DnnTensor){dnn_keep_layout(d, &p->m), NULL, 1, 0};
    return p->v_at.layout && p->u_at.layout && p->m_at.layout;
}

typedef struct Product {
    DnnMatmul of;
    DnnTensor at[3];
} Product;

static bool product_of(Dnn *d, DnnConvKind kind, const Points *p, bool add, Product *out) {
    const DnnShape made[][3] = {[DnnConvForward] = {p->v, dnn_turned(p->u), p->m},
                                [DnnConvData] = {p->m, p->u, p->v},
                                [DnnConvWeights] = {dnn_turned(p->m), p->v, p->u}};
    const DnnTensor at[][3] = {[DnnConvForward] = {p->v_at, p->u_at, p->m_at},
                               [DnnConvData] = {p->m_at, p->u_at, p->v_at},
                               [DnnConvWeights] = {p->m_at, p->v_at, p->u_at}};
    memcpy(out->at, at[kind], sizeof out->at);
    return dnn_matmul(d, made[kind], add, &out->of) == dnnl_success;
}

static dnnl_status_t add_rounds(Dnn *d, DnnCall *call, Winograd *j, const Product *p,
                                int64_t rounds) {
    const WinoRun *run = run_of();
    const DnnConvKind kind = j->kind;
    if (kind == DnnConvWeights && rounds > 1)
        dnn_add_host(call, run->weights_zero, j);
    call->from = call->n;
    if (kind != DnnConvData)
        dnn_add_host(call, run->x_in, j);
    if (kind != DnnConvForward)
        dnn_add_host(call, run->y_in, j);
    dnnl_status_t s = dnn_add_matmul(d, call, &p->of, p->at);
    if (kind != DnnConvWeights)
        dnn_add_host(call, kind == DnnConvData ? run->x_out : run->y_out, j);
    call->to = call->n;
    call->rounds = rounds;
    if (kind == DnnConvWeights)
        dnn_add_host(call, run->weights_out, j);
    return s;
}

// A part of y's channels: a convolution with its own slice of the weights.
static Winograd *part_of(Dnn *d, const Winograd *whole, int64_t i, int64_t parts) {
    Winograd *j = dnn_job(d, sizeof *j);
    *j = *whole;
    j->y.c /= parts;
    j->y.at += i * j->y.c;
    j->weights += i * j->y.c * j->x.c * j->k[0] * j->k[1];
    return j;
}

// One round of tiles, part by part: V of x is made or used again, U and M are a part's.
static dnnl_status_t add_parts(Dnn *d, DnnCall *call, const Winograd *whole, const Points *p,
                               int64_t parts, bool *done) {
    const WinoRun *run = run_of();
    const DnnConvKind kind = whole->kind;
    Product first, more; // an input gradient adds its parts up
    if (!product_of(d, kind, p, false, &first) || !product_of(d, kind, p, true, &more))
        return dnnl_success;
    dnnl_status_t s = dnnl_success;
    for (int64_t i = 0; i < parts && s == dnnl_success; i++) {
        Winograd *j = part_of(d, whole, i, parts);
        if (kind != DnnConvData && !i)
            dnn_add_host(call, run->x_in, j);
        if (kind != DnnConvForward)
            dnn_add_host(call, run->y_in, j);
        if (kind != DnnConvWeights)
            dnn_add_host(call, run->weights_in, j);
        const Product *product = kind == DnnConvData && i ? &more : &first;
        s = dnn_add_matmul(d, call, &product->of, product->at);
        if (kind == DnnConvData && i + 1 == parts)
            dnn_add_host(call, run->x_out, j);
        if (kind != DnnConvData)
            dnn_add_host(call, kind == DnnConvForward ? run->y_out : run->weights_out, j);
    }
    *done = s == dnnl_success;
    return s;
}

// Everything but the forms and the rounds.
static void shape_set(Winograd *j, const DnnProblem *p) {
    const DnnConv *c = &p->conv;
    int64_t x = c->src.dim[1], y = c->dst.dim[1];
    *j = (Winograd){.kind = p->kind, .n = c->src.dim[0], .weights = p->t[1].at};
    j->x = (WinoImage){.at = p->t[0].at, .c = x, .pixel = x, .is_x = true};
    j->y = (WinoImage){.at = p->t[2].at, .c = y, .pixel = y};
    for (int i = 0; i < WINO_AXES; i++)
        axis_set(j, c, i);
}

static dnnl_status_t add_call(Dnn *d, DnnCall *call, Winograd *j, size_t bytes, bool *done) {
    int64_t rounds = rounds_set(j, (int64_t)bytes), parts = parts_of(j, rounds, (int64_t)bytes);
    const DnnConvKind kind = j->kind;
    Points p;
    Product product;
    if (!points_of(d, part_of(d, j, 0, parts), &p))
        return dnnl_success;
    j->offset = p.u_at.offset = round_up(dnnl_memory_desc_get_size(p.v_at.layout), 64);
    if (parts > 1)
        return add_parts(d, call, j, &p, parts, done);
    if (!product_of(d, kind, &p, kind == DnnConvWeights && rounds > 1, &product))
        return dnnl_success;
    if (kind != DnnConvWeights)
        dnn_add_host(call, run_of()->weights_in, j);
    dnnl_status_t s = add_rounds(d, call, j, &product, rounds);
    *done = s == dnnl_success;
    return s;
}

dnnl_status_t wino_add(Dnn *d, DnnCall *call, const DnnProblem *p, const WinoForm form[WINO_AXES],
                       size_t bytes, bool *done) {
    if (!suits(&p->conv))
        return dnnl_success;
    Winograd *j = dnn_job(d, sizeof *j);
    shape_set(j, p);
    if (!form_set(j, 0, form[0]) || !form_set(j, 1, form[1]))
        return dnnl_success;
    return add_call(d, call, j, bytes, done);
}

dnnl_status_t dnn_winograd(Dnn *d, DnnCall *call, const DnnProblem *p, bool *done) {
    if (!suits(&p->conv))
        return dnnl_success;
    Winograd *j = dnn_job(d, sizeof *j);
    shape_set(j, p);
    if (!choose(j, ERROR))
        return dnnl_success;
    return add_call(d, call, j, ROUND_BYTES, done);
}
