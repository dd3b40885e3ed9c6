// make.h - for tests: random models, as text.
//
// A model follows from its seed alone. There is one operation per line, on names bound before it,
// so that a failing model can be reduced by deleting lines (shrink.c). The generator tracks the
// shape of every name: its output is meant to compile, and the caller counts the models that
// do not.
#ifndef GAN_RANDOM_MAKE_H
#define GAN_RANDOM_MAKE_H

#include "ir.h"

typedef struct RandomModel {
    Str text;
    int64_t batch; // samples of the global batch
} RandomModel;

RandomModel random_model(Arena *a, uint64_t seed);

// --- shared by make_expr.c, make_layer.c, make_chain.c, make_model.c -----------------------------

enum { MAX_NAMES = 400 };

typedef struct Known { // a name and its type
    char name[24];
    Type type;
    int64_t classes; // of a label, 0 elsewhere
} Known;

typedef struct Maker {
    Text text;
    uint64_t state;
    int64_t batch, most; // most: elements per sample of a value
    uint32_t indent, made;
    bool layers; // inside a net: layers with weights are allowed
    Known known[MAX_NAMES];
    uint32_t n; // used of known[]
} Maker;

uint32_t roll(Maker *k, uint32_t sides); // 0 to sides - 1
bool chance(Maker *k, uint32_t percent);
#define PICK(k, list) (list)[roll(k, (uint32_t)(sizeof(list) / sizeof *(list)))]

void line(Maker *k, const char *fmt, ...); // one line of text, indented
Known *known_add(Maker *k, const char *name, Type t);
const Known *known_any(Maker *k);
// A random one that fits; NULL if some tries find none.
const Known *known_some(Maker *k, bool (*fits)(const Maker *k, const Known *v));
// Writes "vN = ..." and adds vN to known[]. A value larger than Maker.most is not written: NULL.
const Known *bind_value(Maker *k, Type t, const char *fmt, ...);

void make_value(Maker *k);  // binds a new name to a random operation
void make_layer(Maker *k);  // the same with weights; inside nets
void make_scores(Maker *k); // large values of all pairs of positions, and what they become
void make_series(Maker *k); // one weight at many steps; inside nets
// Converts `from`, of any type, to this type.
const Known *make_shaped(Maker *k, const Known *from, Type to);
// A shared scalar of moderate size that depends on all elements of `v`.
const Known *make_number(Maker *k, const Known *v);

#endif
