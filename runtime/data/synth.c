// synth.c - data sets made here, so that a first run needs no files.
//
//   shapes   a circle, square or triangle in a strong colour on a light ground; a labelled pack
//   ring     points around eight centres on a circle of radius 2, variance 0.02; npy [count, 2]
//
// Sample i is a function of (seed, i) alone, so a longer set begins with the shorter one.
#include "sources.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

const char synth_kinds[] = "shapes, ring";

enum { ShapeKinds = 3, RingCentres = 8 };
#define PI 3.14159265358979323846

// The k-th number of sample i, in [0, 1).
static double uniform(uint64_t seed, uint64_t i, uint64_t k) {
    Order o = {.n = 1, .seed = seed};
    return (double)(order_draw(&o, 0, i, k) >> 11) / 9007199254740992.0;
}

static double within(double lo, double hi, double u) {
    return lo + (hi - lo) * u;
}

// --- shapes --------------------------------------------------------------------------------------

typedef struct Shape {
    uint32_t kind;                       // 0 circle, 1 square, 2 triangle
    double x, y, radius;                 // in units of the picture's side
    double sine, cosine;                 // of its turn
    double colour[3], top[3], bottom[3]; // RGB 0..1: of the shape, of the ground above and below
} Shape;

// Hue in 0..1 to RGB by three overlapping ramps.
static void from_hsv(double hue, double saturation, double value, double rgb[3]) {
    for (uint32_t k = 0; k < 3; k++) {
        double t = fmod(hue + (3 - k) / 3.0, 1) * 6, ramp = fabs(t - 3) - 1;
        rgb[k] = value * (1 - saturation * (1 - fmin(1, fmax(0, ramp))));
    }
}

static Shape make_shape(uint64_t seed, uint64_t i) {
    Shape s = {.kind = (uint32_t)(uniform(seed, i, 0) * ShapeKinds)};
    s.radius = within(0.18, 0.36, uniform(seed, i, 1));
    s.x = within(s.radius + 0.04, 0.96 - s.radius, uniform(seed, i, 2));
    s.y = within(s.radius + 0.04, 0.96 - s.radius, uniform(seed, i, 3));
    double turn = 2 * PI * uniform(seed, i, 4), hue = uniform(seed, i, 8);
    s.sine = sin(turn);
    s.cosine = cos(turn);
    from_hsv(uniform(seed, i, 5), within(0.65, 1, uniform(seed, i, 6)),
             within(0.55, 0.95, uniform(seed, i, 7)), s.colour);
    from_hsv(hue, within(0, 0.18, uniform(seed, i, 9)), within(0.92, 1, uniform(seed, i, 10)),
             s.top);
    from_hsv(hue, within(0, 0.25, uniform(seed, i, 11)), within(0.85, 1, uniform(seed, i, 12)),
             s.bottom);
    return s;
}

// Signed distance from the shape's edge, negative inside.
static double edge_distance(const Shape *s, double px, double py) {
    double x = (px - s->x) * s->cosine + (py - s->y) * s->sine,
           y = (py - s->y) * s->cosine - (px - s->x) * s->sine;
    switch (s->kind) {
    case 0:
        return hypot(x, y) - s->radius;
    case 1:
        return fmax(fabs(x), fabs(y)) - s->radius * 0.8;
    default: {
        double inner = s->radius * 0.55; // distance of each side from the middle
        return fmax(y - inner, fmax(0.8660254 * x - 0.5 * y, -0.8660254 * x - 0.5 * y) - inner);
    }
    }
}

static void draw_shape(const Shape *s, uint32_t size, uint8_t *out) {
    for (uint32_t y = 0; y < size; y++) {
        for (uint32_t x = 0; x < size; x++) {
            double px = (x + 0.5) / size, py = (y + 0.5) / size;
            double cover = fmin(
                1, fmax(0, 0.5 - edge_distance(s, px, py) * size)); // of this pixel, to first order
            for (uint32_t k = 0; k < 3; k++) {
                double ground = within(s->top[k], s->bottom[k], py);
                out[((size_t)k * size + y) * size + x] =
                    (uint8_t)(255 * within(ground, s->colour[k], cover) + 0.5);
            }
        }
    }
}

static GanStatus add_shapes(PackWriter *w, uint64_t count, uint32_t size, uint64_t seed) {
    uint8_t *record = mem_alloc(pack_writer_stride(w));
    GanStatus st = record ? GAN_OK : fail(GAN_ERR_MEMORY, "no memory for one picture");
    for (uint64_t i = 0; st == GAN_OK && i < count; i++) {
        char name[40];
        Shape s = make_shape(seed, i);
        int n = snprintf(name, sizeof name, "shapes:%" PRIu64, i);
        draw_shape(&s, size, record);
        memcpy(record + pack_writer_field(w, 1)->offset, &s.kind, sizeof s.kind);
        st = pack_writer_add(w, record, (Str){name, (size_t)n});
    }
    mem_free(record);
    return st;
}

static GanStatus write_shapes(Str path, uint64_t count, uint32_t size, uint64_t seed,
                              PackWriter **out) {
    static const Str names[ShapeKinds] = {{"circle", 6}, {"square", 6}, {"triangle", 8}};
    PackField field[2] = {
        {.name = STR("x"),
         .kind = DataImage,
         .dtype = PackU8,
         .rank = 3,
         .dim = {3, size, size},
         .hi = 255},
        {.name = STR("y"),
         .kind = DataLabel,
         .dtype = PackU32,
         .classes = ShapeKinds,
         .class_name = names},
    };
    if (count == 0 || size < 8 || size > 4096) {
        return fail(GAN_ERR_USAGE, "shapes: one picture or more, of 8 to 4096 pixels a side");
    }
    TRY(pack_writer_open(path, field, 2, out));
    GanStatus st = add_shapes(*out, count, size, seed);
    if (st != GAN_OK)
        pack_writer_abandon(*out);
    return st;
}

GanStatus synth_pack(Arena *perm, uint64_t count, uint32_t size, uint64_t seed, Pack *out) {
    PackWriter *w = NULL;
    TRY(write_shapes((Str){0}, count, size, seed, &w));
    return pack_writer_open_result(perm, w, STR("synth shapes"), (Str){0}, out);
}

// --- ring ----------------------------------------------------------------------------------------

static GanStatus write_ring(Str path, uint64_t count, uint64_t seed) {
    size_t floats;
    if (count == 0 || count > INT32_MAX || !mem_mul((size_t)count, 2, &floats)) {
        return fail(GAN_ERR_USAGE, "ring: 1 to 2147483647 points");
    }
    float *x = mem_alloc(floats * sizeof *x);
    if (!x)
        return fail(GAN_ERR_MEMORY, "no memory for %" PRIu64 " points", count);
    for (uint64_t i = 0; i < count; i++) {
        double t = 2 * PI / RingCentres * floor(uniform(seed, i, 0) * RingCentres);
        double r = sqrt(0.02) * sqrt(-2 * log(1 - uniform(seed, i, 1))),
               angle = 2 * PI * uniform(seed, i, 2);
        x[2 * i] = (float)(2 * sin(t) + r * cos(angle));
        x[2 * i + 1] = (float)(2 * cos(t) + r * sin(angle));
    }
    GanStatus st = npy_write_f32(path, x, 2, (const int64_t[]){(int64_t)count, 2});
    mem_free(x);
    return st;
}

GanStatus synth_write(Str kind, Str path, uint64_t count, uint32_t size, uint64_t seed) {
    if (str_eq(kind, STR("ring")))
        return write_ring(path, count, seed);
    if (!str_eq(kind, STR("shapes"))) {
        return fail(GAN_ERR_USAGE, "no data set is called '%.*s'; there are: %s", SARG(kind),
                    synth_kinds);
    }
    PackWriter *w = NULL;
    TRY(write_shapes(path, count, size, seed, &w));
    return pack_writer_commit(w, STR("synth shapes"), (Str){0});
}
