// pickle.h - private to data/: Python's pickles, as data. Nothing a pickle names is ever called.
#ifndef GAN_PICKLE_H
#define GAN_PICKLE_H

#include "base.h"

typedef enum PickleKind {
    PickleNone, // None, and all that holds neither text, whole numbers nor other values
    PickleWhole,
    PickleText,
    PickleGlobal, // text: "module name"
    PickleList,   // lists, tuples and sets
    PickleDict,
    PickleCall,    // the result of a call: item[0] is the callee, the others are its arguments
    PickleOutside, // a persistent id: item[0] names data outside the pickle
} PickleKind;

typedef struct PickleValue {
    PickleKind kind;
    int64_t whole;
    Str text;            // borrowed from the pickle
    VEC(uint32_t) item;  // places in Pickle.value
    VEC(uint32_t) entry; // key, value, key, value: of dictionaries, and of what calls give
    uint32_t state;      // of BUILD; 0: none
} PickleValue;

typedef struct Pickle {
    VEC(PickleValue) value; // [0] is None
    uint32_t root;
    size_t bytes; // of the pickle, which may be followed by something else
} Pickle;

// Reads one pickle of protocol 2 to 5 from the beginning of bytes, which the result borrows. May
// exhaust `perm`: call it under arena_guard. GAN_ERR_INPUT: it is truncated, damaged, or uses
// opcodes that are not supported. A value may contain itself.
GanStatus pickle_read(Arena *perm, Str bytes, Pickle *out);

#endif
