// eval_conv.c - Conv, ConvDx and ConvDw over 1 to 3 spatial dimensions for the reference evaluator.
//
// Operands are packed, one group at a time, to zero-padded channels-last arrays of double, so that
// no inner loop meets a border. Then
//
//   Conv    out[position][o] = sum over taps, c of in[position + tap][c] * w[tap][c][o]
//
//   ConvDx  is one such correlation of gy for each residue of the stride, of the taps that reach it
//
//   ConvDw  w[tap][u][v] = sum over positions of one operand's u times the other's v, a tap apart
//
// Every element is computed by one task in a fixed order; threads only share the tasks out.
#include "eval.h"

#include "integers.h"

enum { TILE = 32, COLUMNS = 64, CHUNK = 32 };

typedef struct Shape { // a convolution with its missing spatial dimensions in front, of extent 1
    int64_t batch, groups;
    int64_t c, o;             // channels per group: of x, of y
    int64_t x[3], k[3], y[3]; // extents
    int64_t stride[3], before[3], dilation[3];
    int64_t taps;
} Shape;

typedef struct Side { // x or y: [batch][groups*c][extent], channels-first
    const void *at;
    int64_t c;             // channels per group
    const int64_t *extent; // [3]
} Side;

typedef struct Packed { // [batch][total][c]
    double *at;
    int64_t lo[3];     // where the operand begins in it; negative: it begins before
    int64_t stride[4]; // elements per sample and per step of each dimension
} Packed;

static int64_t product(const int64_t v[3]) {
    return v[0] * v[1] * v[2];
}

static Shape shape_of(const Eval *e, const Type *x, const Type *w, const Type *y) {
    const ConvGeom geom = conv_geom(node_attr(e->g, e->id));
    Shape s = {.batch = x->batched ? e->g->batch : 1, .groups = geom.groups};
    s.c = x->dim[0] / s.groups;
    s.o = y->dim[0] / s.groups;
    for (uint32_t d = 0; d < 3; d++)
        s.x[d] = s.k[d] = s.y[d] = s.stride[d] = s.dilation[d] = 1;
    for (uint32_t i = 0, d = 3 - geom.n; i < geom.n; i++, d++) {
        s.x[d] = x->dim[1 + i];
        s.k[d] = w->dim[2 + i];
        s.y[d] = y->dim[1 + i];
        s.stride[d] = geom.stride[i];
        s.before[d] = geom.before[i];
        s.dilation[d] = geom.dilation[i];
    }
    s.taps = product(s.k);
    return s;
}

static void tap_index(const Shape *s, int64_t tap, int64_t at[3]) {
    at[2] = tap % s->k[2];
    at[1] = tap / s->k[2] % s->k[1];
    at[0] = tap / s->k[2] / s->k[1];
}

// One group of an operand, moved by lo[] into a zeroed array of total[] extents; what falls outside
// is dropped (a negative lo crops).
static Packed pack(const Eval *e, const Shape *s, int64_t group, Side from, const int64_t lo[3],
                   const int64_t total[3]) {
    const int64_t c = from.c, *extent = from.extent;
    Packed p = {.lo = {lo[0], lo[1], lo[2]}};
    p.stride[3] = c;
    p.stride[2] = total[2] * c;
    p.stride[1] = total[1] * p.stride[2];
    p.stride[0] = total[0] * p.stride[1];
    p.at = arena_array(e->scratch, double, p.stride[0] * s->batch);
#pragma omp parallel for schedule(static) if (s->batch * p.stride[0] > LOOP_PARALLEL)
    for (int64_t task = 0; task < s->batch * extent[0] * extent[1]; task++) {
        int64_t n = task / (extent[0] * extent[1]), i = task / extent[1] % extent[0],
                j = task % extent[1];
        if (i + lo[0] < 0 || i + lo[0] >= total[0] || j + lo[1] < 0 || j + lo[1] >= total[1])
            continue;
        int64_t row = n * p.stride[0] + (i + lo[0]) * p.stride[1] + (j + lo[1]) * p.stride[2];
        int64_t k0 = lo[2] < 0 ? -lo[2] : 0,
                k1 = extent[2] + lo[2] > total[2] ? total[2] - lo[2] : extent[2];
        for (int64_t ch = 0; ch < c; ch++) {
            int64_t in = (((n * s->groups + group) * c + ch) * extent[0] + i) * extent[1] + j;
            for (int64_t k = k0; k < k1; k++)
                p.at[row + (k + lo[2]) * c + ch] = value_get(from.at, e->f64, in * extent[2] + k);
        }
    }
    return p;
}

// The reverse of pack: a dense channels-last array to its group of a channels-first value.
static void unpack(const Eval *e, const Shape *s, const double *from, int64_t group, int64_t c,
                   const int64_t extent[3]) {
    int64_t space = product(extent);
#pragma omp parallel for schedule(static) if (s->batch * c * space > LOOP_PARALLEL)
    for (int64_t task = 0; task < s->batch * c; task++) {
        int64_t n = task / c, ch = task % c, to = ((n * s->groups + group) * c + ch) * space;
        for (int64_t i = 0; i < space; i++)
            value_put(e->out, e->f64, to + i, from[(n * space + i) * c + ch]);
    }
}

// One group's weights [o][c][tap] as [tap][c][o], or as [tap][o][c] when `flip`.
static double *pack_weights(const Eval *e, const void *w, const Shape *s, int64_t group,
                            bool flip) {
    double *to = arena_array(e->scratch, double, s->taps * s->c * s->o);
#pragma omp parallel for schedule(static) if (s->taps * s->c * s->o > LOOP_PARALLEL)
    for (int64_t tap = 0; tap < s->taps; tap++) {
        for (int64_t o = 0; o < s->o; o++) {
            for (int64_t c = 0; c < s->c; c++) {
                int64_t at = flip ? o * s->c + c : c * s->o + o;
                to[tap * s->c * s->o + at] =
                    value_get(w, e->f64, ((group * s->o + o) * s->c + c) * s->taps + tap);
            }
        }
    }
    return to;
}

typedef struct Correlation {
    const double *x;
    int64_t c, o;                 // channels summed over, channels made
    int64_t batch, grid[3];       // positions
    int64_t x_step[4], y_step[4]; // elements per sample and per position along each dimension
    int64_t taps;
    const int64_t *offset;  // [taps] elements from a position in x
    const double *const *w; // [taps] -> [c][o]
    double *y;
} Correlation;

typedef struct Tile { // some positions and some output channels: one task
    int64_t n, from[TILE], to[TILE], first, columns;
} Tile;

static Tile correlate_tile(const Correlation *k, int64_t positions, int64_t tile, int64_t first) {
    Tile t = {.n = positions - tile * TILE < TILE ? positions - tile * TILE : TILE, .first = first};
    t.columns = k->o - first < COLUMNS ? k->o - first : COLUMNS;
    for (int64_t i = 0; i < t.n; i++) {
        int64_t at = tile * TILE + i;
        for (uint32_t d = 4; d-- > 0;) {
            int64_t extent = d ? k->grid[d - 1] : k->batch;
            t.from[i] += at % extent * k->x_step[d];
            t.to[i] += at % extent * k->y_step[d];
            at /= extent;
        }
    }
    return t;
}

// A chunk of weights [CHUNK][COLUMNS] stays in the first cache for all positions of the tile.
static void correlate_task(const Correlation *k, const Tile *t) {
    double y[TILE][COLUMNS] = {{0}};
    for (int64_t tap = 0; tap < k->taps; tap++) {
        for (int64_t c = 0; c < k->c; c += CHUNK) {
            const double *w = k->w[tap] + c * k->o + t->first;
            const double *x = k->x + k->offset[tap] + c;
            int64_t n = k->c - c < CHUNK ? k->c - c : CHUNK;
            for (int64_t i = 0; i < t->n; i++)
                mac_row(t->columns, y[i], n, x + t->from[i], 1, w, k->o);
        }
    }
    for (int64_t i = 0; i < t->n; i++)
        for (int64_t j = 0; j < t->columns; j++)
            k->y[t->to[i] + t->first + j] = y[i][j];
}

static void correlate(const Correlation *k) {
    int64_t positions = k->batch * product(k->grid);
    int64_t tiles = ceil_div(positions, TILE), blocks = ceil_div(k->o, COLUMNS);
#pragma omp parallel for schedule(dynamic) if (positions * k->taps * k->c * k->o > LOOP_PARALLEL)
    for (int64_t task = 0; task < tiles * blocks; task++) {
        Tile t = correlate_tile(k, positions, task % tiles, task / tiles * COLUMNS);
        correlate_task(k, &t);
    }
}

static void conv_group(Eval *e, const Shape *s, int64_t group) {
    int64_t total[3];
    for (uint32_t d = 0; d < 3; d++) {
        // what y reads of the padded x
        total[d] = (s->y[d] - 1) * s->stride[d] + (s->k[d] - 1) * s->dilation[d] + 1;
    }
    Packed x = pack(e, s, group, (Side){e->in[0], s->c, s->x}, s->before, total);
    const double *w = pack_weights(e, e->in[1], s, group, false);
    int64_t *offset = arena_array(e->scratch, int64_t, s->taps);
    const double **ws = arena_array(e->scratch, const double *, s->taps);
    for (int64_t tap = 0; tap < s->taps; tap++) {
        int64_t at[3];
        tap_index(s, tap, at);
        for (uint32_t d = 0; d < 3; d++)
            offset[tap] += at[d] * s->dilation[d] * x.stride[1 + d];
        ws[tap] = w + tap * s->c * s->o;
    }
    int64_t space = product(s->y);
    double *y = arena_array(e->scratch, double, space * s->batch * s->o);
    Correlation k = {
        .x = x.at,
        .c = s->c,
        .o = s->o,
        .batch = s->batch,
        .grid = {s->y[0], s->y[1], s->y[2]},
        .x_step = {x.stride[0], s->stride[0] * x.stride[1], s->stride[1] * x.stride[2],
                   s->stride[2] * x.stride[3]},
        .y_step = {space * s->o, s->y[1] * s->y[2] * s->o, s->y[2] * s->o, s->o},
        .taps = s->taps,
        .offset = offset,
        .w = ws,
        .y = y,
    };
    correlate(&k);
    unpack(e, s, y, group, s->o, s->y);
}

// The correlation of gy that makes the positions `phase` + stride*q of gx. Position i receives tap
// t of output (i + before - t*dilation) / stride where that divides; within a phase the taps are
// the same and outputs follow q.
static void conv_dx_phase(Eval *e, const Shape *s, const Packed *gy, const double *w,
                          const int64_t phase[3], double *gx) {
    Arena mark = *e->scratch;
    int64_t *offset = arena_array(e->scratch, int64_t, s->taps);
    const double **ws = arena_array(e->scratch, const double *, s->taps);
    int64_t taps = 0, step[3] = {s->x[1] * s->x[2] * s->c, s->x[2] * s->c, s->c};
    for (int64_t tap = 0; tap < s->taps; tap++) {
        int64_t at[3], off = 0;
        bool reaches = true;
        tap_index(s, tap, at);
        for (uint32_t d = 0; d < 3; d++) {
            int64_t i = phase[d] + s->before[d] - at[d] * s->dilation[d],
                    out = floor_div(i, s->stride[d]);
            reaches &= out * s->stride[d] == i;
            off += (out + gy->lo[d]) * gy->stride[1 + d];
        }
        if (reaches) {
            offset[taps] = off;
            ws[taps++] = w + tap * s->c * s->o;
        }
    }
    Correlation k = {
        .x = gy->at,
        .c = s->o,
        .o = s->c,
        .batch = s->batch,
        .x_step = {gy->stride[0], gy->stride[1], gy->stride[2], gy->stride[3]},
        .y_step = {s->x[0] * step[0]},
        .taps = taps,
        .offset = offset,
        .w = ws,
        .y = gx,
    };
    for (uint32_t d = 0; d < 3; d++) {
        k.grid[d] = ceil_div(s->x[d] - phase[d], s->stride[d]);
        k.y_step[1 + d] = s->stride[d] * step[d];
        k.y += phase[d] * step[d];
    }
    correlate(&k);
    *e->scratch = mark;
}

static void conv_dx_group(Eval *e, const Shape *s, int64_t group) {
    int64_t lo[3], total[3];
    for (uint32_t d = 0; d < 3; d++) { // the outputs that any position asks for, real or not
        int64_t first = floor_div(s->before[d] - (s->k[d] - 1) * s->dilation[d], s->stride[d]);
        int64_t last = floor_div(s->x[d] - 1 + s->before[d], s->stride[d]);
        last = last < s->y[d] - 1 ? s->y[d] - 1 : last;
        lo[d] = first < 0 ? -first : 0;
        total[d] = lo[d] + last + 1;
    }
    Packed gy = pack(e, s, group, (Side){e->in[0], s->o, s->y}, lo, total);
    const double *w = pack_weights(e, e->in[1], s, group, true);
    double *gx = arena_array(e->scratch, double, product(s->x) * s->batch * s->c);
    int64_t phases = product(s->stride);
    for (int64_t i = 0; i < phases; i++) {
        int64_t phase[3] = {i / s->stride[2] / s->stride[1], i / s->stride[2] % s->stride[1],
                            i % s->stride[2]};
        if (phase[0] < s->x[0] && phase[1] < s->x[1] && phase[2] < s->x[2])
            conv_dx_phase(e, s, &gy, w, phase, gx);
    }
    unpack(e, s, gx, group, s->c, s->x);
}

typedef struct Factor { // one side of ConvDw's products
    const double *at;   // at the tap, channel 0
    int64_t n;          // channels
    int64_t step[4];    // elements per sample and per position
} Factor;

// to[i][j] for rows i of u and all j of v, over every position.
static void dw_task(const Shape *s, const Factor *u, const Factor *v, int64_t first, int64_t rows,
                    double *to) {
    for (int64_t p = 0; p < s->batch * s->y[0] * s->y[1]; p++) {
        int64_t n = p / (s->y[0] * s->y[1]), i = p / s->y[1] % s->y[0], j = p % s->y[1];
        const double *ua = u->at + n * u->step[0] + i * u->step[1] + j * u->step[2];
        const double *va = v->at + n * v->step[0] + i * v->step[1] + j * v->step[2];
        for (int64_t k = 0; k < s->y[2]; k += CHUNK) {
            int64_t run = s->y[2] - k < CHUNK ? s->y[2] - k : CHUNK;
            for (int64_t r = first; r < first + rows; r++) {
                mac_row(v->n, to + (r - first) * v->n, run, ua + k * u->step[3] + r, u->step[3],
                        va + k * v->step[3], v->step[3]);
            }
        }
    }
}

static void conv_dw_group(Eval *e, const Shape *s, int64_t group) {
    int64_t total[3], none[3] = {0};
    for (uint32_t d = 0; d < 3; d++)
        total[d] = (s->y[d] - 1) * s->stride[d] + (s->k[d] - 1) * s->dilation[d] + 1;
    Packed x = pack(e, s, group, (Side){e->in[0], s->c, s->x}, s->before, total);
    Packed gy = pack(e, s, group, (Side){e->in[1], s->o, s->y}, none, s->y);
    Factor fx = {
        x.at,
        s->c,
        {x.stride[0], s->stride[0] * x.stride[1], s->stride[1] * x.stride[2], s->stride[2] * s->c}};
    Factor fy = {gy.at, s->o, {gy.stride[0], gy.stride[1], gy.stride[2], gy.stride[3]}};
    bool by_x = s->c < s->o; // rows are the shorter side's channels
    double *gw = arena_array(e->scratch, double, s->taps * s->c * s->o);
    int64_t n_rows = by_x ? s->c : s->o, blocks = ceil_div(n_rows, TILE);
    int64_t tasks = s->taps * blocks;
#pragma omp parallel for schedule(dynamic) if (s->batch * s->c * s->o > COLUMNS)
    for (int64_t task = 0; task < tasks; task++) {
        int64_t at[3], tap = task / blocks, first = task % blocks * TILE;
        Factor tx = fx;
        tap_index(s, tap, at);
        for (uint32_t d = 0; d < 3; d++)
            tx.at += at[d] * s->dilation[d] * x.stride[1 + d];
        const Factor *u = by_x ? &tx : &fy, *v = by_x ? &fy : &tx;
        int64_t rows = n_rows - first < TILE ? n_rows - first : TILE;
        dw_task(s, u, v, first, rows, gw + tap * s->c * s->o + first * v->n);
    }
    for (int64_t tap = 0; tap < s->taps; tap++) {
        for (int64_t o = 0; o < s->o; o++) {
            for (int64_t c = 0; c < s->c; c++) {
                double g = gw[tap * s->c * s->o + (by_x ? c * s->o + o : o * s->c + c)];
                value_put(e->out, e->f64, ((group * s->o + o) * s->c + c) * s->taps + tap, g);
            }
        }
    }
}

typedef void GroupFn(Eval *e, const Shape *s, int64_t group);

static void each_group(Eval *e, const Shape *s, GroupFn *run) {
    for (int64_t group = 0; group < s->groups; group++) {
        Arena mark = *e->scratch;
        run(e, s, group);
        *e->scratch = mark;
    }
}

static ptrdiff_t sample_bytes(const Eval *e, const Type *t) {
    size_t item = e->f64 ? sizeof(double) : sizeof(float);
    return t->batched ? (ptrdiff_t)type_sample(t) * (ptrdiff_t)item : 0;
}

// Where samples have kernels of their own, one sample after another.
static void each_kernel(Eval *e, const Type *x, const Type *w, const Type *y, GroupFn *run) {
    Shape s = shape_of(e, x, w, y);
    if (!w->batched) {
        each_group(e, &s, run);
        return;
    }
    s.batch = 1;
    for (int64_t i = 0; i < e->g->batch; i++) {
        const void *in[2];
        Eval one = *e;
        for (uint32_t k = 0; k < 2; k++)
            in[k] = (const char *)e->in[k] + i * sample_bytes(e, eval_in_type(e, k));
        one.in = in;
        one.out = (char *)e->out + i * sample_bytes(e, eval_type(e));
        each_group(&one, &s, run);
    }
}

void eval_Conv(Eval *e) {
    each_kernel(e, eval_in_type(e, 0), eval_in_type(e, 1), eval_type(e), conv_group);
}

void eval_ConvDx(Eval *e) {
    each_kernel(e, eval_type(e), eval_in_type(e, 1), eval_in_type(e, 0), conv_dx_group);
}

void eval_ConvDw(Eval *e) {
    each_kernel(e, eval_in_type(e, 0), eval_type(e), eval_in_type(e, 1), conv_dw_group);
}
