// synth.c - procedural data sets, so that a first run needs no files: the list of kinds, and those
// of images or single points.
//
//   shapes     a circle, square or triangle in a strong colour on a light background; a labelled
//   pack outlines   the same drawings, only their edges drawn: with the same seed pairs, else
//   unpaired ring       points around eight centres on a circle of radius 2, variance 0.02; [2]
//
// A name that ends in .pack is a pack, whatever the kind. Else shapes, outlines and chains are
// packs, as they have labels or images, ring and lognormal npy files, and tones a folder.
#include "synth.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

enum { ShapeKinds = 3, RingCentres = 8 };

bool synth_to_pack(const SynthJob *j) {
    return str_eq(path_ext(j->path), STR("pack"));
}

Str synth_name(const SynthJob *j, uint64_t i, char room[64]) {
    int n = snprintf(room, 64, "%.*s:%" PRIu64, SARG(j->kind), i);
    return (Str){room, (size_t)n};
}

GanStatus synth_commit(const SynthJob *j, PackWriter *w) {
    char source[64];
    int n = snprintf(source, sizeof source, "synth %.*s", SARG(j->kind));
    return pack_writer_commit(w, (Str){source, (size_t)n}, (Str){0});
}

double synth_uniform(uint64_t seed, uint64_t i, uint64_t k) {
    Order o = {.n = 1, .seed = seed};
    return (double)(order_draw(&o, 0, i, k) >> 11) / 9007199254740992.0;
}

double synth_normal(uint64_t seed, uint64_t i, uint64_t k) { // Box and Muller
    double u = synth_uniform(seed, i, 2 * k), v = synth_uniform(seed, i, 2 * k + 1);
    return sqrt(-2 * log(1 - u)) * cos(2 * SYNTH_PI * v);
}

static double within(double lo, double hi, double u) {
    return lo + (hi - lo) * u;
}

// --- shapes --------------------------------------------------------------------------------------

typedef struct Shape {
    uint32_t kind;       // 0 circle, 1 square, 2 triangle
    double x, y, radius; // in units of the image's side
    double sine, cosine; // of its turn
    double colour[3], top[3],
        bottom[3]; // RGB 0..1: of the shape, of the background above and below
} Shape;

// Hue in 0..1 to RGB by three overlapping ramps.
static void from_hsv(double hue, double saturation, double value, double rgb[3]) {
    for (uint32_t k = 0; k < 3; k++) {
        double t = fmod(hue + (3 - k) / 3.0, 1) * 6, ramp = fabs(t - 3) - 1;
        rgb[k] = value * (1 - saturation * (1 - fmin(1, fmax(0, ramp))));
    }
}

static Shape make_shape(uint64_t seed, uint64_t i) {
    Shape s = {.kind = (uint32_t)(synth_uniform(seed, i, 0) * ShapeKinds)};
    s.radius = within(0.18, 0.36, synth_uniform(seed, i, 1));
    s.x = within(s.radius + 0.04, 0.96 - s.radius, synth_uniform(seed, i, 2));
    s.y = within(s.radius + 0.04, 0.96 - s.radius, synth_uniform(seed, i, 3));
    double turn = 2 * SYNTH_PI * synth_uniform(seed, i, 4), hue = synth_uniform(seed, i, 8);
    s.sine = sin(turn);
    s.cosine = cos(turn);
    from_hsv(synth_uniform(seed, i, 5), within(0.65, 1, synth_uniform(seed, i, 6)),
             within(0.55, 0.95, synth_uniform(seed, i, 7)), s.colour);
    from_hsv(hue, within(0, 0.18, synth_uniform(seed, i, 9)),
             within(0.92, 1, synth_uniform(seed, i, 10)), s.top);
    from_hsv(hue, within(0, 0.25, synth_uniform(seed, i, 11)),
             within(0.85, 1, synth_uniform(seed, i, 12)), s.bottom);
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

// `outline`: half the width of the edge drawn, in units of the side; 0 fills the shape.
static void draw_shape(const Shape *s, uint32_t size, double outline, uint8_t *out) {
    for (uint32_t y = 0; y < size; y++) {
        for (uint32_t x = 0; x < size; x++) {
            double px = (x + 0.5) / size, py = (y + 0.5) / size;
            double edge = edge_distance(s, px, py),
                   inside = outline > 0 ? fabs(edge) - outline : edge;
            double cover = fmin(1, fmax(0, 0.5 - inside * size)); // of this pixel, to first order
            for (uint32_t k = 0; k < 3; k++) {
                double background = within(s->top[k], s->bottom[k], py);
                out[((size_t)k * size + y) * size + x] =
                    (uint8_t)(255 * within(background, s->colour[k], cover) + 0.5);
            }
        }
    }
}

static GanStatus add_shapes(const SynthJob *j, double outline, PackWriter *w) {
    uint8_t *record = mem_alloc(pack_writer_stride(w));
    GanStatus st = record ? GAN_OK : fail(GAN_ERR_MEMORY, "no memory for one image");
    for (uint64_t i = 0; st == GAN_OK && i < j->count; i++) {
        char name[64];
        Shape s = make_shape(j->seed, i);
        draw_shape(&s, j->size, outline, record);
        memcpy(record + pack_writer_field(w, 1)->offset, &s.kind, sizeof s.kind);
        st = pack_writer_add(w, record, synth_name(j, i, name));
    }
    mem_free(record);
    return st;
}

static GanStatus draw_shapes(const SynthJob *j, double outline, PackWriter **out) {
    static const Str names[ShapeKinds] = {{"circle", 6}, {"square", 6}, {"triangle", 8}};
    PackField field[2] = {
        {.name = STR("x"),
         .kind = DataImage,
         .dtype = PackU8,
         .rank = 3,
         .dim = {3, j->size, j->size},
         .hi = 255},
        {.name = STR("y"),
         .kind = DataLabel,
         .dtype = PackU32,
         .classes = ShapeKinds,
         .class_name = names},
    };
    TRY(pack_writer_open(j->path, field, 2, out));
    GanStatus st = add_shapes(j, outline, *out);
    if (st != GAN_OK)
        pack_writer_abandon(*out);
    return st;
}

static GanStatus write_shapes(const SynthJob *j) {
    PackWriter *w = NULL;
    TRY(draw_shapes(j, 0, &w));
    return synth_commit(j, w);
}

static GanStatus write_outlines(const SynthJob *j) {
    const double HalfWidth = 0.02;
    PackWriter *w = NULL;
    TRY(draw_shapes(j, HalfWidth, &w));
    return synth_commit(j, w);
}

// --- arrays --------------------------------------------------------------------------------------

static GanStatus write_npy(const SynthJob *j, const PackField *f, size_t each, SynthFill *fill) {
    int64_t shape[DATA_MAX_RANK] = {(int64_t)j->count};
    size_t numbers = 0;
    for (uint32_t i = 0; i < f->rank; i++)
        shape[i + 1] = f->dim[i];
    float *x = mem_mul((size_t)j->count, each, &numbers) ? mem_alloc(numbers * sizeof *x) : NULL;
    if (!x)
        return fail(GAN_ERR_MEMORY, "no memory for %" PRIu64 " samples of %zu numbers", j->count,
                    each);
    GanStatus st = GAN_OK;
    for (uint64_t i = 0; st == GAN_OK && i < j->count; i++)
        st = fill(j, i, x + (size_t)i * each);
    if (st == GAN_OK)
        st = npy_write_f32(j->path, x, f->rank + 1, shape);
    mem_free(x);
    return st;
}

static GanStatus add_floats(const SynthJob *j, size_t each, bool sounds, SynthFill *fill,
                            PackWriter *w) {
    float lo = sounds ? -1 : INFINITY, hi = sounds ? 1 : -INFINITY;
    float *x = mem_alloc(pack_writer_stride(w));
    GanStatus st = x ? GAN_OK : fail(GAN_ERR_MEMORY, "no memory for a sample");
    for (uint64_t i = 0; st == GAN_OK && i < j->count; i++) {
        char name[64];
        st = fill(j, i, x);
        for (size_t k = 0; k < each; k++)
            lo = fminf(lo, x[k]), hi = fmaxf(hi, x[k]);
        if (st == GAN_OK)
            st = pack_writer_add(w, x, synth_name(j, i, name));
    }
    pack_writer_range(w, 0, lo, hi);
    mem_free(x);
    return st;
}

GanStatus synth_floats(const SynthJob *j, uint32_t rank, const int64_t *dim, uint32_t rate,
                       SynthFill *fill) {
    PackField f = {
        .name = STR("x"), .kind = DataFloat, .dtype = PackF32, .rank = rank, .rate = rate};
    size_t each = 1;
    for (uint32_t i = 0; i < rank; i++)
        each *= (size_t)(f.dim[i] = dim[i]);
    if (!synth_to_pack(j))
        return write_npy(j, &f, each, fill);
    PackWriter *w = NULL;
    TRY(pack_writer_open(j->path, &f, 1, &w));
    GanStatus st = add_floats(j, each, rate > 0, fill, w);
    if (st == GAN_OK)
        return synth_commit(j, w);
    pack_writer_abandon(w);
    return st;
}

static GanStatus fill_ring(const SynthJob *j, uint64_t i, float *x) {
    double t = 2 * SYNTH_PI / RingCentres * floor(synth_uniform(j->seed, i, 0) * RingCentres);
    double r = sqrt(0.02) * sqrt(-2 * log(1 - synth_uniform(j->seed, i, 1))),
           angle = 2 * SYNTH_PI * synth_uniform(j->seed, i, 2);
    x[0] = (float)(2 * sin(t) + r * cos(angle));
    x[1] = (float)(2 * cos(t) + r * sin(angle));
    return GAN_OK;
}

static GanStatus write_ring(const SynthJob *j) {
    return synth_floats(j, 1, (const int64_t[]){2}, 0, fill_ring);
}

// --- the kinds -----------------------------------------------------------------------------------

static const struct {
    const char *name, *what; // what one size unit is, "" where size means nothing
    uint32_t size, least, most;
    const char *as; // besides .pack
    GanStatus (*write)(const SynthJob *j);
} kinds[] = {
    {"shapes", "pixels a side", 64, 8, 4096, "", write_shapes},
    {"outlines", "pixels a side", 64, 8, 4096, "", write_outlines},
    {"ring", "", 1, 1, 1, ".npy", write_ring},
    {"lognormal", "pixels a side", 256, 16, 2048, ".npy", synth_lognormal},
    {"chains", "points", 3375, 32, 16384, "", synth_chains},
    {"tones", "numbers", 16384, 256, 1 << 20, "a folder of .wav", synth_tones},
};

// A name is not to say that a file is what it is not.
static GanStatus check_name(const SynthJob *j, const char *as) {
    Str ext = path_ext(j->path);
    bool other = (str_eq(ext, STR("npy")) && !str_eq(str_c(as), STR(".npy"))) ||
                 str_eq(ext, STR("npz")) || str_eq(ext, STR("wav"));
    return other ? fail(GAN_ERR_USAGE, "%.*s: `%.*s` is written as .pack%s%s", SARG(j->path),
                        SARG(j->kind), *as ? " or " : "", as)
                 : GAN_OK;
}

GanStatus synth_write(Str kind, Str path, uint64_t count, uint32_t size, uint64_t seed) {
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (!str_eq(kind, str_c(kinds[i].name)))
            continue;
        SynthJob j = {kind, path, count, seed, size ? size : kinds[i].size};
        if (size && !*kinds[i].what)
            return fail(GAN_ERR_USAGE, "%s: its samples have no --size", kinds[i].name);
        if (count == 0 || count > INT32_MAX)
            return fail(GAN_ERR_USAGE, "%s: 1 to %d samples", kinds[i].name, INT32_MAX);
        if (j.size < kinds[i].least || j.size > kinds[i].most)
            return fail(GAN_ERR_USAGE, "%s: %u to %u %s, not %u", kinds[i].name, kinds[i].least,
                        kinds[i].most, kinds[i].what, j.size);
        TRY(check_name(&j, kinds[i].as));
        bool npy = str_eq(str_c(kinds[i].as), STR(".npy")) && !synth_to_pack(&j);
        TRY(npy ? data_spares(path, STR(NPY_MAGIC), "npy file") : pack_spares(path));
        return kinds[i].write(&j);
    }
    return fail(GAN_ERR_USAGE, "no data set is called '%.*s'; there are: %s", SARG(kind),
                SYNTH_KINDS);
}
