// synth_chains.c - `chains`: a stand-in for the C-alpha atoms of one protein in molecular dynamics.
//
// Every chain of a length has one fold: points 3.8 apart, in helices, strands and turns, each turn
// taken so that the chain stays together. A sample is that fold with each of two hinges closed or
// open (four states, the label) and moved by a few slow modes of a chain, its centre at 0. So a set
// has what an embedding should find, groups and small motions within each, and two seeds give two
// sets of the same molecule.
#include "synth.h"

#include <math.h>
#include <string.h>

enum { Hinges = 2, States = 1 << Hinges, Modes = 8, TurnsTried = 16 };

typedef struct Point {
    double x[3];
} Point;

static Point sub(Point a, Point b) {
    return (Point){{a.x[0] - b.x[0], a.x[1] - b.x[1], a.x[2] - b.x[2]}};
}

static Point cross(Point a, Point b) {
    return (Point){{a.x[1] * b.x[2] - a.x[2] * b.x[1], a.x[2] * b.x[0] - a.x[0] * b.x[2],
                    a.x[0] * b.x[1] - a.x[1] * b.x[0]}};
}

static double dot(Point a, Point b) {
    return a.x[0] * b.x[0] + a.x[1] * b.x[1] + a.x[2] * b.x[2];
}

static Point unit(Point a) {
    double n = sqrt(dot(a, a));
    return (Point){{a.x[0] / n, a.x[1] / n, a.x[2] / n}};
}

// The point 3.8 from c that makes `angle` with b and `torsion` with a: b - c is the last bond.
static Point next_point(Point a, Point b, Point c, double angle, double torsion) {
    Point along = unit(sub(c, b)), normal = unit(cross(sub(b, a), along)),
          side = cross(normal, along), out;
    double f = -3.8 * cos(angle), g = 3.8 * sin(angle);
    for (uint32_t k = 0; k < 3; k++)
        out.x[k] =
            c.x[k] + f * along.x[k] + g * cos(torsion) * side.x[k] + g * sin(torsion) * normal.x[k];
    return out;
}

// --- the fold ------------------------------------------------------------------------------------

typedef struct Piece {
    double angle, torsion; // of its bonds
    uint32_t length;
} Piece;

// Helix or strand, as C-alpha traces have them.
static Piece draw_piece(uint32_t number) {
    const double degree = SYNTH_PI / 180;
    bool helix = synth_uniform(0, number, 0) < 0.6;
    double length = 6 + 14 * synth_uniform(0, number, 1);
    return helix ? (Piece){91 * degree, 50 * degree, (uint32_t)length}
                 : (Piece){122 * degree, -170 * degree, (uint32_t)length};
}

// Writes a piece after p[at - 1], entered by a turn of `torsion`. Answers how far its end lies from
// the middle of all before.
static double lay_piece(Point *p, uint32_t at, uint32_t n, const Piece *piece, double torsion,
                        Point middle) {
    uint32_t end = at + piece->length < n ? at + piece->length : n;
    for (uint32_t i = at; i < end; i++)
        p[i] = next_point(p[i - 3], p[i - 2], p[i - 1], i == at ? 1.8 : piece->angle,
                          i == at ? torsion : piece->torsion);
    Point away = sub(p[end - 1], middle);
    return dot(away, away);
}

static void make_fold(uint32_t n, Point *p) {
    Point sum = {{0}};
    p[0] = (Point){{0, 0, 0}};
    p[1] = (Point){{3.8, 0, 0}};
    p[2] = (Point){{4.8, 3.8 * sqrt(1 - 1 / (3.8 * 3.8)), 0}};
    for (uint32_t at = 3, number = 0, summed = 0; at < n; number++) {
        for (; summed < at; summed++)
            for (uint32_t k = 0; k < 3; k++)
                sum.x[k] += p[summed].x[k];
        Point middle = {{sum.x[0] / at, sum.x[1] / at, sum.x[2] / at}};
        Piece piece = draw_piece(number);
        double best = INFINITY, turn = 0;
        for (uint32_t t = 0; t < TurnsTried; t++) {
            double torsion = 2 * SYNTH_PI * synth_uniform(0, number, 2 + t),
                   away = lay_piece(p, at, n, &piece, torsion, middle);
            if (away < best)
                best = away, turn = torsion;
        }
        lay_piece(p, at, n, &piece, turn, middle);
        at = at + piece.length < n ? at + piece.length : n;
    }
}

// --- one sample ----------------------------------------------------------------------------------

// Turns all points from `hinge` on around it by `angle` (Rodrigues 1840).
static void bend(Point *p, uint32_t n, uint32_t hinge, Point axis, double angle) {
    for (uint32_t i = hinge + 1; i < n; i++) {
        Point v = sub(p[i], p[hinge]), w = cross(axis, v);
        double along = dot(axis, v) * (1 - cos(angle));
        for (uint32_t k = 0; k < 3; k++)
            p[i].x[k] =
                p[hinge].x[k] + v.x[k] * cos(angle) + w.x[k] * sin(angle) + axis.x[k] * along;
    }
}

static void move_slowly(uint64_t seed, uint64_t i, uint32_t n, Point *p) {
    for (uint32_t m = 1; m <= Modes; m++) {
        for (uint32_t k = 0; k < 3; k++) {
            double size = synth_normal(seed, i, 8 + 3 * m + k) / m; // Rouse: 1/m
            for (uint32_t at = 0; at < n; at++)
                p[at].x[k] += size * cos(SYNTH_PI * m * (at + 0.5) / n);
        }
    }
}

static void centre(Point *p, uint32_t n) {
    for (uint32_t k = 0; k < 3; k++) {
        double mean = 0;
        for (uint32_t i = 0; i < n; i++)
            mean += p[i].x[k] / n;
        for (uint32_t i = 0; i < n; i++)
            p[i].x[k] -= mean;
    }
}

// Answers the state.
static uint32_t make_chain(const SynthJob *j, uint64_t i, const Point *fold, Point *p) {
    const double open = 0.9, wobble = 0.06; // radians
    uint32_t state = (uint32_t)(synth_uniform(j->seed, i, 0) * States), n = j->size;
    memcpy(p, fold, n * sizeof *p);
    for (uint32_t h = 0; h < Hinges; h++) {
        uint32_t at = n * (h + 1) / (Hinges + 1);
        Point axis = unit(cross(sub(fold[at], fold[at - 1]), sub(fold[at + 1], fold[at])));
        bend(p, n, at, axis, (state >> h & 1) * open + wobble * synth_normal(j->seed, i, 2 + h));
    }
    move_slowly(j->seed, i, n, p);
    centre(p, n);
    return state;
}

// --- the set -------------------------------------------------------------------------------------

typedef struct Range {
    double lo, hi;
} Range;

static GanStatus add_chains(const SynthJob *j, PackWriter *w, Point *work, uint8_t *record) {
    const Point *fold = work;
    Point *p = work + j->size;
    Range range = {INFINITY, -INFINITY};
    make_fold(j->size, work);
    for (uint64_t i = 0; i < j->count; i++) {
        char name[64];
        uint32_t state = make_chain(j, i, fold, p);
        for (uint32_t k = 0; k < 3; k++) {
            for (uint32_t at = 0; at < j->size; at++) {
                float v = (float)p[at].x[k];
                memcpy(record + ((size_t)k * j->size + at) * sizeof v, &v, sizeof v);
                range.lo = v < range.lo ? v : range.lo;
                range.hi = v > range.hi ? v : range.hi;
            }
        }
        memcpy(record + pack_writer_field(w, 1)->offset, &state, sizeof state);
        TRY(pack_writer_add(w, record, synth_name(j, i, name)));
    }
    pack_writer_range(w, 0, range.lo, range.hi);
    return GAN_OK;
}

GanStatus synth_chains(const SynthJob *j) {
    static const Str names[States] = {
        {"closed closed", 13}, {"open closed", 11}, {"closed open", 11}, {"open open", 9}};
    PackField field[2] = {
        {.name = STR("x"), .kind = DataFloat, .dtype = PackF32, .rank = 2, .dim = {3, j->size}},
        {.name = STR("y"),
         .kind = DataLabel,
         .dtype = PackU32,
         .classes = States,
         .class_name = names},
    };
    PackWriter *w = NULL;
    TRY(pack_writer_open(j->path, field, 2, &w));
    Point *work = mem_alloc(2 * (size_t)j->size * sizeof *work);
    uint8_t *record = mem_alloc(pack_writer_stride(w));
    GanStatus st = work && record ? add_chains(j, w, work, record)
                                  : fail(GAN_ERR_MEMORY, "no memory for a chain");
    mem_free(work);
    mem_free(record);
    if (st == GAN_OK)
        return synth_commit(j, w);
    pack_writer_abandon(w);
    return st;
}
