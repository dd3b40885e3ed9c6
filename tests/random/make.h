// make.h - for tests: random models, as text.
//
// A model follows from its seed alone. There is one operation per line, on names bound before it,
// so that a failing model can be reduced by deleting lines (shrink.c). The generator tracks the
// shape of every name: its output is meant to compile, and the caller counts what is refused all
// the same.
#ifndef GAN_RANDOM_MAKE_H
#define GAN_RANDOM_MAKE_H

#include "ir.h"

typedef struct RandomModel {
    Str text;
    int64_t batch; // samples of the global batch
} RandomModel;

RandomModel random_model(Arena *a, uint64_t seed);

// --- what the parts of the maker share (make_expr.c, make_layer.c, make_model.c) -----------------

enum { MAX_NAMES = 400 };

typedef struct Known { // a name and what it stands for
    char name[24];
    Type type;
    int64_t classes; // of a label, 0 elsewhere
} Known;

typedef struct Maker {
    Text text;
    uint64_t state;
    int64_t batch, most; // most: numbers of one sample of a value
    uint32_t indent, made;
    bool layers; // inside a net: weights may be made
    Known known[MAX_NAMES];
    uint32_t n; // of them
} Maker;

uint32_t roll(Maker *k, uint32_t sides); // 0 to sides - 1
bool chance(Maker *k, uint32_t percent);
#define PICK(k, list) (list)[roll(k, (uint32_t)(sizeof(list) / sizeof *(list)))]

void line(Maker *k, const char *fmt, ...); // one line of text, indented
Known *known_add(Maker *k, const char *name, Type t);
const Known *known_any(Maker *k);
// One that fits, by trial; NULL where there seems to be none.
const Known *known_some(Maker *k, bool (*fits)(const Maker *k, const Known *v));
// Writes "vN = ..." and knows vN from then on. A value larger than Maker.most is not bound: NULL.
const Known *bind(Maker *k, Type t, const char *fmt, ...);

void make_value(Maker *k); // one more name, of any operation
void make_layer(Maker *k); // the same with weights; inside nets
// A name of this type made of `from`, whatever that is.
const Known *make_shaped(Maker *k, const Known *from, Type to);
// A shared number of moderate size out of all there is of `v`.
const Known *make_number(Maker *k, const Known *v);

#endif
