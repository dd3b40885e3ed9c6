// distance.c - see distance.h; and `ganrun distance`.
//
// All metrics but the first follow from products of all pairs: a block of rows is multiplied with
// all others by the library, and used for all metrics before the next block.
#include "commands.h"
#include "device.h"
#include "distance.h"
#include "measure.h"

#include <float.h>
#include <math.h>
#include <string.h>

enum { Near = 5, Block = 256, Subsets = 100, SubsetMost = 1000 };

typedef struct Side {
    const float *x; // [n, d], borrowed
    size_t n, d;
    float *norm;     // owned; [n] squared
    float *radius;   // owned; [n] squared distance to the Near-th neighbour
    uint32_t *of;    // owned; [Subsets, size] members of each subset
    uint8_t *within; // owned; [n, Subsets]
} Side;

typedef struct Compare {
    Side side[2];                               // generated, real
    size_t size;                                // of a subset
    float *dot;                                 // owned; [Block, most]
    float *row;                                 // owned; [most]
    double *kernel;                             // owned; [most]
    double within[2][Subsets], across[Subsets]; // sums of the kernel over pairs of a subset
    size_t precise, dense;
    uint8_t *recalled, *covered; // owned; [n_real]
} Compare;

// --- a row of products ---------------------------------------------------------------------------

static void distances(const Side *a, size_t i, const Side *b, const float *dot, float *out) {
    for (size_t j = 0; j < b->n; j++)
        out[j] = a->norm[i] + b->norm[j] - 2 * dot[j];
}

// The Near-th least of x [n] without x[skip].
static float nearest(const float *x, size_t n, size_t skip) {
    float least[Near];
    for (uint32_t k = 0; k < Near; k++)
        least[k] = INFINITY;
    for (size_t j = 0; j < n; j++) {
        if (x[j] >= least[Near - 1] || j == skip)
            continue;
        uint32_t k = Near - 1;
        for (; k > 0 && least[k - 1] > x[j]; k--)
            least[k] = least[k - 1];
        least[k] = x[j];
    }
    return least[Near - 1];
}

// In f32 their cubes would overflow from features of a million on.
static void kernels(const float *dot, size_t n, size_t d, double *out) {
    double scale = 1 / (double)d;
    for (size_t j = 0; j < n; j++) {
        double x = dot[j] * scale + 1;
        out[j] = x * x * x;
    }
}

// Adds to sum[s], for every subset s that row i of `a` is in, the kernels of b's members.
static void add_kernels(const Compare *c, const Side *a, size_t i, const Side *b, const double *k,
                        double *sum) {
    for (uint32_t s = 0; s < Subsets; s++) {
        const uint32_t *of = b->of + s * c->size;
        double all = 0;
        if (!a->within[i * Subsets + s])
            continue;
        for (size_t j = 0; j < c->size; j++)
            all += k[of[j]];
        sum[s] += all - (a == b ? k[i] : 0);
    }
}

static void row_within(Compare *c, uint32_t which, size_t i, const float *dot) {
    Side *a = &c->side[which];
    distances(a, i, a, dot, c->row);
    a->radius[i] = nearest(c->row, a->n, i);
    kernels(dot, a->n, a->d, c->kernel);
    add_kernels(c, a, i, a, c->kernel, c->within[which]);
}

static void row_across(Compare *c, size_t i, const float *dot) {
    const Side *generated = &c->side[0], *real = &c->side[1];
    size_t reached = 0;
    distances(generated, i, real, dot, c->row);
    for (size_t j = 0; j < real->n; j++) {
        bool in = c->row[j] < real->radius[j];
        reached += in;
        c->covered[j] |= in;
        c->recalled[j] |= c->row[j] < generated->radius[i];
    }
    c->precise += reached > 0;
    c->dense += reached;
    kernels(dot, real->n, real->d, c->kernel);
    add_kernels(c, generated, i, real, c->kernel, c->across);
}

static GanStatus all_pairs(Compare *c, uint32_t a, uint32_t b) {
    const Side *x = &c->side[a], *y = &c->side[b];
    for (size_t first = 0; first < x->n; first += Block) {
        size_t n = x->n - first < Block ? x->n - first : Block;
        TRY(dnn_product(x->x + first * x->d, y->x, n, y->n, x->d, c->dot));
        for (size_t i = 0; i < n; i++) {
            const float *dot = c->dot + i * y->n;
            if (a == b)
                row_within(c, a, first + i, dot);
            else
                row_across(c, first + i, dot);
        }
    }
    return GAN_OK;
}

// --- the whole -----------------------------------------------------------------------------------

static bool side_init(Side *s, const float *x, size_t n, size_t d, size_t size) {
    *s = (Side){.x = x, .n = n, .d = d};
    s->norm = mem_alloc(n * sizeof *s->norm);
    s->radius = mem_alloc(n * sizeof *s->radius);
    s->of = mem_alloc(Subsets * size * sizeof *s->of);
    s->within = mem_alloc(Subsets * n);
    return s->norm && s->radius && s->of && s->within;
}

static void side_release(Side *s) {
    mem_free(s->norm);
    mem_free(s->radius);
    mem_free(s->of);
    mem_free(s->within);
}

static void side_fill(Side *s, size_t size, uint64_t seed) {
    Order order = {.n = s->n, .seed = seed};
    for (size_t i = 0; i < s->n; i++) {
        double sum = 0;
        for (size_t k = 0; k < s->d; k++)
            sum += (double)s->x[i * s->d + k] * s->x[i * s->d + k];
        s->norm[i] = (float)sum;
    }
    for (uint32_t k = 0; k < Subsets; k++)
        for (size_t i = 0; i < size; i++) {
            uint32_t member = (uint32_t)order_at(&order, k, i);
            s->of[k * size + i] = member;
            s->within[member * Subsets + k] = 1;
        }
}

static void put_kid(const Compare *c, FeatureScores *out) {
    double m = (double)c->size, sum = 0, squares = 0;
    for (uint32_t s = 0; s < Subsets; s++) {
        double x = (c->within[0][s] + c->within[1][s]) / (m * (m - 1)) - 2 * c->across[s] / (m * m);
        sum += x, squares += x * x;
    }
    out->kid = sum / Subsets;
    out->kid_deviation = sqrt(fmax(0, squares / Subsets - out->kid * out->kid));
}

static void put_near(const Compare *c, FeatureScores *out) {
    double generated = (double)c->side[0].n, real = (double)c->side[1].n;
    size_t covered = 0, recalled = 0;
    for (size_t j = 0; j < c->side[1].n; j++)
        covered += c->covered[j], recalled += c->recalled[j];
    out->precision = (double)c->precise / generated;
    out->recall = (double)recalled / real;
    out->density = (double)c->dense / (Near * generated);
    out->coverage = (double)covered / real;
}

static GanStatus compare_init(Compare *c, const FeatureSets *f) {
    size_t least = f->n_generated < f->n_real ? f->n_generated : f->n_real,
           most = f->n_generated > f->n_real ? f->n_generated : f->n_real;
    c->size = least < SubsetMost ? least : SubsetMost;
    c->dot = mem_alloc(Block * most * sizeof *c->dot);
    c->row = mem_alloc(most * sizeof *c->row);
    c->kernel = mem_alloc(most * sizeof *c->kernel);
    c->recalled = mem_alloc(f->n_real);
    c->covered = mem_alloc(f->n_real);
    if (!c->dot || !c->row || !c->kernel || !c->recalled || !c->covered ||
        !side_init(&c->side[0], f->generated, f->n_generated, f->d, c->size) ||
        !side_init(&c->side[1], f->real, f->n_real, f->d, c->size))
        return fail(GAN_ERR_MEMORY, "no memory to compare %zu samples with %zu", f->n_generated,
                    f->n_real);
    side_fill(&c->side[0], c->size, f->seed);
    side_fill(&c->side[1], c->size, f->seed + 1);
    return GAN_OK;
}

static void compare_release(Compare *c) {
    for (int i = 0; i < 2; i++)
        side_release(&c->side[i]);
    mem_free(c->dot);
    mem_free(c->row);
    mem_free(c->kernel);
    mem_free(c->recalled);
    mem_free(c->covered);
}

static GanStatus compare(Compare *c, const FeatureSets *f, FeatureScores *out) {
    TRY(compare_init(c, f));
    TRY(all_pairs(c, 0, 0));
    TRY(all_pairs(c, 1, 1));
    TRY(all_pairs(c, 0, 1));
    put_kid(c, out);
    put_near(c, out);
    return GAN_OK;
}

// A squared distance is at most twice the sum of both squared norms.
static GanStatus check_set(const FeatureSets *f, int which) {
    const float *x = which ? f->real : f->generated;
    size_t n = which ? f->n_real : f->n_generated;
    Str name = f->name[which].len ? f->name[which] : which ? STR("the data") : STR("the samples");
    for (size_t i = 0; i < n; i++) {
        double norm = 0;
        for (size_t k = 0; k < f->d; k++) {
            float v = x[i * f->d + k];
            if (!isfinite(v))
                return fail(GAN_ERR_INPUT, "feature %zu of sample %zu of %.*s is not finite", k, i,
                            SARG(name));
            norm += (double)v * v;
        }
        if (norm > (double)FLT_MAX / 4)
            return fail(GAN_ERR_INPUT,
                        "sample %zu of %.*s has features so large (a norm of %.2g) that distances "
                        "are beyond f32: multiply both sets by one small number",
                        i, SARG(name), sqrt(norm));
    }
    return GAN_OK;
}

GanStatus features_compare(const FeatureSets *f, FeatureScores *out) {
    *out = (FeatureScores){0};
    if (f->n_generated < FEATURES_LEAST || f->n_real < FEATURES_LEAST ||
        f->n_generated > UINT32_MAX || f->n_real > UINT32_MAX || !f->d || f->d > UINT32_MAX)
        return fail(GAN_ERR_INPUT,
                    "%zu samples and %zu of data, of %zu numbers each: %d of each "
                    "are needed at least",
                    f->n_generated, f->n_real, f->d, FEATURES_LEAST);
    TRY(check_set(f, 0));
    TRY(check_set(f, 1));
    SwdOptions o = {.product = dnn_product, .seed = f->seed};
    SwdResult swd;
    TRY(swd_measure(f->generated, f->n_generated, f->real, f->n_real,
                    (uint32_t[3]){1, 1, (uint32_t)f->d}, &o, &swd));
    out->swd = swd.pixels;
    Compare c = {0};
    GanStatus st = compare(&c, f, out);
    compare_release(&c);
    return st;
}

// --- Inception Score -----------------------------------------------------------------------------

// Adds p(y|x) of a row to p [classes]; gives the sum of p(y|x) log p(y|x).
static double add_row(const float *logit, size_t classes, double *p) {
    double top = logit[0], sum = 0, negative = 0;
    for (size_t y = 1; y < classes; y++)
        top = logit[y] > top ? logit[y] : top;
    for (size_t y = 0; y < classes; y++)
        sum += exp(logit[y] - top);
    for (size_t y = 0; y < classes; y++) {
        double log_p = logit[y] - top - log(sum), one = exp(log_p);
        p[y] += one, negative += one * log_p;
    }
    return negative;
}

// KL of a row is its sum of p(y|x) log p(y|x) less that of p(y|x) log p(y), whose mean over the
// rows is the sum of p(y) log p(y): so one walk does.
static double split_score(const float *logit, size_t n, size_t classes, double *p) {
    double apart = 0;
    memset(p, 0, classes * sizeof *p);
    for (size_t i = 0; i < n; i++)
        apart += add_row(logit + i * classes, classes, p) / (double)n;
    for (size_t y = 0; y < classes; y++)
        apart -= p[y] > 0 ? p[y] / (double)n * log(p[y] / (double)n) : 0;
    return exp(apart);
}

GanStatus inception_score(const float *logits, size_t n, size_t classes, double *mean,
                          double *deviation) {
    enum { Splits = INCEPTION_SPLITS };
    double score[Splits], sum = 0, square = 0;
    if (n < Splits || !classes)
        return fail(GAN_ERR_INPUT,
                    "Inception Score is of %d splits: %zu samples are too few (papers: 50000)",
                    Splits, n);
    for (size_t i = 0; i < n * classes; i++)
        if (!isfinite(logits[i]))
            return fail(GAN_ERR_INPUT, "logit %zu of sample %zu is not finite", i % classes,
                        i / classes);
    double *p = mem_alloc(classes * sizeof *p);
    if (!p)
        return fail(GAN_ERR_MEMORY, "no memory for %zu classes", classes);
    for (size_t i = 0; i < Splits; i++) {
        size_t from = i * n / Splits, to = (i + 1) * n / Splits;
        score[i] = split_score(logits + from * classes, to - from, classes, p);
        sum += score[i] / Splits;
    }
    mem_free(p);
    for (size_t i = 0; i < Splits; i++)
        square += (score[i] - sum) * (score[i] - sum) / Splits;
    *mean = sum, *deviation = sqrt(square);
    return GAN_OK;
}

// --- ganrun distance -----------------------------------------------------------------------------

// [n, d], or what lies behind the first axis as one vector.
static GanStatus read_set(Arena *perm, Str path, float **x, size_t *n, size_t *d) {
    uint32_t rank;
    int64_t dim[DATA_MAX_RANK];
    if (!file_exists(path))
        return fail(GAN_ERR_INPUT, "there is no file %.*s", SARG(path));
    TRY(npy_read_f32(perm, path, x, &rank, dim));
    if (rank < 2)
        return fail(GAN_ERR_INPUT, "%.*s: expected an array [n, d], d features of n samples",
                    SARG(path));
    *n = (size_t)dim[0], *d = 1;
    for (uint32_t i = 1; i < rank; i++)
        *d *= (size_t)dim[i];
    return GAN_OK;
}

GanStatus cmd_distance(Arena *perm, const Host *h, const Options *o) {
    FeatureSets f = {.seed = (uint64_t)option_number(o, OptSeed, 0)};
    float *generated, *real;
    size_t d = 0;
    TRY(read_set(perm, o->file.at[0], &generated, &f.n_generated, &f.d));
    TRY(read_set(perm, o->file.at[1], &real, &f.n_real, &d));
    if (d != f.d)
        return fail(GAN_ERR_INPUT, "%.*s has %zu features per sample, %.*s has %zu",
                    SARG(o->file.at[0]), f.d, SARG(o->file.at[1]), d);
    f.generated = generated, f.real = real;
    f.name[0] = o->file.at[0], f.name[1] = o->file.at[1];
    FeatureScores r;
    TRY(features_compare(&f, &r));
    const struct {
        const char *name;
        double value;
    } row[] = {{"swd", r.swd},
               {"kid", r.kid},
               {"kid deviation", r.kid_deviation},
               {"precision", r.precision},
               {"recall", r.recall},
               {"density", r.density},
               {"coverage", r.coverage}};
    Text t = {.arena = perm};
    JsonOut j = {.text = &t};
    bool json = o->at[OptJson].given;
    if (json)
        json_open(&j, '{');
    for (size_t i = 0; i < sizeof row / sizeof *row; i++)
        if (json)
            json_member_double(&j, row[i].name, row[i].value);
        else
            text_fmt(&t, "%-14s %.6g\n", row[i].name, row[i].value);
    if (json)
        json_close(&j, '}'), text_char(&t, '\n');
    h->console.result(h->console.user, text_str(&t));
    return GAN_OK;
}
