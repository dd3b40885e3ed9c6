// driver.h - the stages in order: a file's text to plans. Both programs compile through here.
#ifndef GAN_DRIVER_H
#define GAN_DRIVER_H

#include "front.h"
#include "gen.h"

typedef struct CompileOptions {
    Str path;               // .gan, .yaml or .yml
    int64_t batch;          // 0: 32
    const Setting *setting; // borrowed
    uint32_t settings;
    Dtype real;
    bool feed;              // draws come from outside (verify)
    bool keep_grads;        // gradients and losses stay readable until their block ends
    bool no_fuse;           // one region a node: what the reference device runs
    const Dialect *dialect; // kernels to generate; NULL: none
    Parallel parallel;
} CompileOptions;

typedef struct Compiled {
    Module module;
    Plan init, step;
    Plan *entry; // [module.entry.n]
} Compiled;

enum { DEFAULT_BATCH = 32 };

// Reads and parses a model file. GAN_ERR_INPUT when there were errors: render f's diagnostics.
GanStatus compile_parse(Front *f, Str path, Ast **out);
// Text to elaborated Module (Grad nodes still in it).
GanStatus compile_module(Front *f, const CompileOptions *o, Module *out);
// Text to plans and, with a dialect, kernels. Diagnostics stay in f.
GanStatus compile_file(Front *f, const CompileOptions *o, Compiled *out);
// The same from an elaborated module, which it changes.
void compile_plans(Arena *perm, Module *m, const CompileOptions *o, Compiled *out);

// A compiled model as text (pass/plan_text.c), and back with the stages behind the text's level and
// kernels. Nothing in the text is trusted; false and "line N: ..." in *error.
void compiled_print(Text *t, const Compiled *c, PlanLevel level);
bool compiled_read(Arena *perm, Str text, const Dialect *d, Compiled *out, Str *error);

// --- summary.c: what a compiled model is and costs -----------------------------------------------

void model_summary(
    Text *t, const Compiled *c); // nets and parameters, GFLOP, memory of every function; one screen
void model_summary_json(Text *t, const Compiled *c);
void plan_dot(Text *t, const Plan *p); // regions as a Graphviz graph

#endif
