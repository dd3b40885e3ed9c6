// elaborate.h - syntax tree to Module, and what an editor wants to know of it.
//
// A mistake in the user's text adds a diagnostic (front.h), and elaboration goes on.
#ifndef GAN_ELABORATE_H
#define GAN_ELABORATE_H

#include "front.h"
#include "module.h"

// --- elaborate.c ---------------------------------------------------------------------------------

enum { BATCH_MOST = 1 << 20 }; // samples
typedef struct ElabOptions {
    int64_t batch;          // samples of the global batch
    const Setting *setting; // borrowed
    uint32_t settings;
    bool stage;        // the model of one of its stages: `stages` are left out
    bool feed_entries; // uniform and normal draws of entry points become SlotFed reads
    bool feed;         // draws become SlotFed reads, in the order of Module.site (verify)
    bool literal;      // nothing is simplified (Graph.literal)
} ElabOptions;

// Elaborates a parsed model: evaluates everything but tensors, inlines every call in the order of
// the text, and builds the functions. Grad nodes stay for pass/grad.c. False when there were
// errors; *out is then not to be used.
bool elaborate(Front *f, const Ast *file, const ElabOptions *o, Module *out);

// --- config.c, stages.c --------------------------------------------------------------------------

// Writes a setting as an expression of the language, with the value it has for a config whose
// default is `first`.
void setting_to_gan(Text *t, const Ast *first, Str value);

// Whether a stage in `a`, the item or a part of it, gives the config of this name a value: then a
// setting of it from outside leaves the stages out.
bool stages_set(const Ast *a, Str config);

// "size=8, mode=wide", in `perm`; with its batch where that is another than the run's `batch`.
Str stage_text(Arena *perm, const Stage *s, int64_t batch);

// --- facts.c: values of names, for editors -------------------------------------------------------

void facts_want(Front *f);                // from here on elaboration records the values of names
Str fact_find(const Front *f, Span span); // "[B, 64, 8, 8]"; empty: never elaborated

typedef enum WordKind { WordReserved, WordItem, WordValue, WordData, WordFunction } WordKind;
typedef struct WordInfo { // a keyword, predefined value or function of the core
    Str name;
    WordKind kind;
    Str params, doc; // of functions: "x axes? keep?" (lang/builtins.def); else empty
} WordInfo;
bool word_info(uint32_t i, WordInfo *out); // false past the last

#endif
