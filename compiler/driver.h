// driver.h - the compiler's stages in order, from a file's text to plans. Both programs use it.
#ifndef GAN_DRIVER_H
#define GAN_DRIVER_H

#include "elaborate.h"
#include "gen.h"

#include <stdatomic.h>

typedef struct CompileOptions {
    Str path;               // .gan, .yaml, .yml or .ganx
    Str text;               // the model's text where it is not to be read from path
    int64_t batch;          // 0: 32
    const Setting *setting; // borrowed
    uint32_t settings;
    Dtype real;
    bool stage;             // the model of one of the text's stages
    bool feed;              // draws come from outside (verify)
    bool feed_entries;      // so do uniform and normal draws of entry points (interp)
    bool keep_grads;        // gradients and losses stay readable until their block ends
    bool scale_losses;      // as f16 does, in any precision
    bool small_products;    // PassOptions
    bool no_fuse;           // one region a node: what the reference device runs
    const Dialect *dialect; // kernels to generate; NULL: none
    size_t memory; // bytes that slots and work memory may take together; on a card with room for
                   // its libraries; 0: no limit
    Parallel parallel;
} CompileOptions;

typedef struct Compiled {
    Module module;
    Plan init, step;
    Plan *entry; // [module.entry.n]
} Compiled;

// A compiled model as read from its file: ganx.c, below.
typedef struct GanxMember {
    Str name; // a 0 byte follows
    Str bytes;
} GanxMember;
typedef struct Ganx {
    Str name;       // of the model
    Str hash;       // the graph's, 32 digits
    Str target;     // "cpu" or "cuda"
    int64_t batch;  // of all ranks; fixed, as the precision is
    uint32_t ranks; // what plan.txt and the kernels are for, of the first of them; 1: one alone
    Dtype real;
    size_t memory;          // bytes its plans were held to, 0: no limit
    Str model, plan;        // texts
    VEC(GanxMember) member; // all of them
} Ganx;

// What is left to do behind compile_begin: passes and plans of the step and of the entries, a
// function done by whoever takes it. Plans that came in a file are taken as they are.
typedef struct Planning {
    Module *module; // borrowed; whoever makes a plan changes its function
    Compiled *out;  // borrowed
    PassOptions pass;
    const Dialect *dialect;
    size_t slot_bytes, memory;
    const Ganx *code;      // machine code for kernels that are the same; NULL
    bool made;             // nothing is left to do but to be taken
    _Atomic uint32_t next; // to be taken: 0 the step, 1 + i entry i; behind the last: none is left
} Planning;

enum { DEFAULT_BATCH = 32 };

bool compile_is_yaml(Str path); // by its ending

// A model file's text, not a compiled one's.
GanStatus compile_read(Arena *perm, Str path, Str *text);
// Reads and parses a model file. GAN_ERR_INPUT when there were errors: render f's diagnostics.
GanStatus compile_parse(Front *f, const CompileOptions *o, Ast **out);
// Text to elaborated Module (Grad nodes still in it).
GanStatus compile_module(Front *f, const CompileOptions *o, Module *out);
// Text to plans and, with a dialect, kernels. Diagnostics stay in f.
GanStatus compile_file(Front *f, const CompileOptions *o, Compiled *out);
// The same from an elaborated module, which it changes. GAN_ERR_USAGE when it cannot be divided
// among the ranks as asked.
GanStatus compile_plans(Arena *perm, Module *m, const CompileOptions *o, Compiled *out);
// The same by two threads, the second of which works in `beside` (NULL: by one): *out is in both.
GanStatus compile_plans_beside(Arena *perm, Arena *beside, Module *m, const CompileOptions *o,
                               Compiled *out);
// Gives `m` the slots of scales where its losses are scaled so; compile_plans does.
void compile_scales(Arena *perm, Module *m, const CompileOptions *o);
// Peak bytes: slots, and the largest work memory of a function; `card`: with the workspace of a
// card's libraries (workspace.c).
size_t compiled_bytes(const Compiled *c, bool card);
// GAN_ERR_MEMORY where all plans are made and take more than o->memory after all; with a batch that
// fits, compiled to be sure.
GanStatus compile_fits(const Compiled *c, const CompileOptions *o);
typedef struct MemoryNeed { // bytes, slots and work
    size_t need, have;
} MemoryNeed;
// Bytes that compiled plans need, by the caller's measure.
typedef size_t CompiledBytes(const void *user, const Compiled *c);
// A batch smaller than that of `c`, whose plans need no more than there is; found by compiling
// them. 0: there is none. Memory is taken for affine in the batch: at first on the line through the
// slots alone, then on that through the last two batches that do not fit.
int64_t compile_less(const CompileOptions *o, const Compiled *c, MemoryNeed m, CompiledBytes *bytes,
                     const void *user);
// What the plans of `o` need; SIZE_MAX where there are none.
size_t compile_measure(const CompileOptions *o, CompiledBytes *bytes, const void *user);
// compile_file in two halves, so that weights can be drawn while the rest is planned. The first
// ends with the module, of which only functions without a plan change from there on, and the plan
// of `init`.
GanStatus compile_begin(Front *f, const CompileOptions *o, Compiled *out, Planning *rest);
// Takes one function and makes its plan, in `perm`: 0 the step, 1 + i entry i. False: none is left
// to take. Several threads may be in here, each with its own `perm`.
bool compile_next(Planning *p, Arena *perm, uint32_t *func);

// A compiled model as text (plan/plan_text.h), and back with the stages behind the text's level and
// kernels. Nothing in the text is trusted; false and "line N: ..." in *error.
void compiled_print(Text *t, const Compiled *c, PlanLevel level);
bool compiled_read(Arena *perm, Str text, const Dialect *d, Compiled *out, Str *error);

// --- resolve.c -----------------------------------------------------------------------------------

// The model's text with its settings as the defaults of its configs.
GanStatus compile_resolved(Arena *perm, const CompileOptions *o, Str *out);

// --- ganx.c: a compiled model as one file --------------------------------------------------------
//
// A zip: model.gan (the model's text, settings written in), plan.txt (compiled_print),
// kernels/FUNC.c or .cu (what was generated, to be read), kernels/sm_90/N.cubin (what was compiled,
// for all functions, in batches), kernels/compute_80/N.ptx (of those, what libraries stand in for;
// the driver compiles it where there is none), manifest.json (what it is, and the hash of every
// other member). The same model, made by the same versions of compilers, gives the same bytes.

// The kernels of a model's plans to machine code for compute capabilities `arch` (90: 9.0),
// appended to *out, in `perm`.
typedef GanStatus GanxCompile(void *user, const Plan *const *plan, uint32_t plans, const int *arch,
                              uint32_t archs, Arena *perm, CubinVec *out);
// Compiled models that were made before. `key` says all that decides their bytes but the program
// that makes them. Found bytes are in `perm`; what cannot be kept is not.
typedef bool GanxFind(void *user, Arena *perm, Str key, Str *out);
typedef void GanxKeep(void *user, Arena *perm, Str key, Str bytes);
typedef struct GanxTarget {
    Str name;        // "cpu" or "cuda"
    const int *arch; // cuda: what to compile kernels for
    uint32_t archs;
    GanxCompile *compile;
    GanxFind *find; // NULL: nothing is kept
    GanxKeep *keep; // where find is
    void *user;
} GanxTarget;

#define GANX_TEXT "model.gan" // the member that is the model's text

bool ganx_is(Str path); // by its ending
// What diagnostics call the text in a compiled model: "made/dcgan.ganx/model.gan".
Str ganx_text_path(Arena *perm, Str path);
// Compiles a model for `target` into the file `out`, written aside and renamed. Diagnostics stay in
// f.
GanStatus ganx_write(Front *f, const CompileOptions *o, const GanxTarget *target, Str out);
// Reads a file that anyone may have changed: GAN_ERR_INPUT with one line when it is not whole.
GanStatus ganx_read(Arena *perm, Str path, Ganx *out);
// The same from bytes; `path` is for messages.
GanStatus ganx_parse(Arena *perm, Str bytes, Str path, Ganx *out);
// Gives a plan the machine code that came in the file, where it is of the kernels it has.
void ganx_cubins(Arena *perm, const Ganx *g, Plan *p);

// Every function's collectives in words, a line each: the same on all ranks of a job, which compare
// the hash and, where it differs, say the first line that does.
void compiled_collectives(Text *t, const Compiled *c);
Hash128 compiled_collectives_hash(const Compiled *c, Arena scratch);

// --- summary.c: what a compiled model is and costs -----------------------------------------------

// Nets and parameters, GFLOP, memory of every function; one screen.
void model_summary(Text *t, const Compiled *c);
void model_summary_json(Text *t, const Compiled *c);
void plan_dot(Text *t, const Plan *p); // regions as a Graphviz graph

#endif
