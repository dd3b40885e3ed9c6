// module.h - a whole model.
//
//   Module  slots (weights, state, data, draws fed) and functions over them: `init` once, `step`
//           for training, one per `sample` entry point. Slots are the only memory that outlives a
//           function's run.
//   Func    one graph, cut into blocks. A tape of control marks says in which order blocks run:
//           straight-line code is one block; only `repeat`, `every` and run-time `if` cut it.
//           Values may be used by later blocks of an enclosing scope.
#ifndef GAN_MODULE_H
#define GAN_MODULE_H

#include "ir.h"

typedef struct Module Module;
typedef struct Func Func;

typedef enum SlotKind {
    SlotParam,  // trained weight of a net
    SlotState,  // running statistics, spectral vectors, model state: checkpointed
    SlotOpt,    // state of an optimizer object for one weight: checkpointed
    SlotData,   // a field of a data stream: the loader fills it, after transforms
    SlotScalar, // counters as numbers: name is "step", "epoch" or "kimg"; the executor fills it
    SlotFed,    // a draw fed from outside instead of made (verify)
    SlotCarry,  // carries a value past control marks, within one run of a function; never saved
    SlotScale,  // of a loss in f16 (pass/loss_scale.c): checkpointed, made anew where it is missing
} SlotKind;

typedef struct Slot {
    SlotKind kind;
    Str name;        // "G.conv.3.w"; optimizer state "opt.m/G.conv.3.w"; data "x"
    uint32_t net;    // Module.net[] that owns it, NONE
    Type type;       // params and state are shared
    uint32_t init;   // its value's node in Module.init.g; 0: none (data, scalars, fed)
    uint32_t site;   // SlotFed: Module.site[]; SlotData: index of the field in its stream
    uint32_t stream; // SlotData: Module.stream[]
    uint32_t round;  // SlotData: 0 for the batch of the step, n for the n-th `next` read in it
    Span span;       // where the text made it
    size_t offset;   // bytes from the start of the slot memory, set by plan/slots.c
} Slot;

typedef struct Net {
    Str name;
    Span span;
    uint32_t params, states; // numbers of slots, in order of creation
    uint32_t copy_of;        // the net before it whose weights it begins with: net[], NONE
    Str file, prefix;        // of a pretrained net: path of its weights, and what their names begin
                             // with, as in the text; else empty
} Net;

typedef enum FieldKind { FieldImage, FieldFloat, FieldLabel } FieldKind;
typedef enum XformKind {
    XformResize,
    XformCrop,
    XformFlip,
    XformScale,
    XformMap,
    XformBalanced,
    XformWeight,
    XformMissing,
    XformKnown
} XformKind;
typedef struct Xform {
    XformKind kind;
    double a, b;
} Xform; // scale(a, b), resize(a), crop(a), flip, missing(a); map is part of the graphs that read
         // the field; balanced, weight: how often the stream draws its samples follows from the
         // field; known: it is the mask of the stream's field a, whose changes of place are before
typedef struct Field {
    Str name;
    FieldKind kind;
    uint32_t rank;
    int64_t dim[MAX_RANK]; // label: rank 0
    int64_t classes;       // label
    VEC(Xform) xform;
    Span span;
} Field;
typedef struct Stream {
    VEC(Field) field;
} Stream; // read together, same permutation

typedef struct Site { // one place in the text that draws, in program order; a repeat's round is a
                      // counter
    Dist dist;
    Type type;
    uint32_t func, block;
    Span span;
    int64_t classes; // of a categorical draw, 0 elsewhere
} Site;

typedef struct Stage { // a part of a run: steps with values of their own for the model's configs
    int64_t steps;
    int64_t batch; // samples of its global batch: the run's, unless the stage sets it
    VEC(Setting) setting;
    Span span;
} Stage;

typedef enum CtlKind { CtlBlock, CtlRepeat, CtlEvery, CtlIf, CtlElse, CtlEnd } CtlKind;
typedef struct Ctl {
    CtlKind kind;
    uint32_t arg;  // block index; rounds of a repeat; k of an every
    uint32_t cond; // If: node of one shared number, not zero is true
} Ctl;

typedef struct GradOf {
    uint32_t slot, node;
} GradOf; // gradient value of one weight
typedef struct Update {
    uint32_t block, loss; // loss: a shared number
    VEC(uint32_t) net;
    // In order of the nets' parameters; weights the loss does not reach are absent.
    VEC(GradOf) grad;
    // Convolutions and products of gradients inside the loss (a penalty's): where its time goes is
    // known by them. Set by pass/grad.c; one that a pass drops is absent.
    VEC(uint32_t) inner;
    // The optimizer's `lr` where it is a number, else NaN (verify's tolerance needs it).
    double rate;
    // The step, and the epoch, from which on a schedule makes it 0 or less, of which at most one is
    // known; 0: there is none. `below`: it is less, and the update raises its loss.
    uint32_t until, epochs;
    bool below;
    Span span;
} Update;
typedef struct Next { // a `next`: the block's runs begin with a new batch in the round's slots
    uint32_t stream, round, block;
} Next;
typedef struct Named {
    Str name;
    uint32_t node, block;
} Named;

// The report of a scale is called this and the nets of its updates, "loss_scale/D+E". Below the
// least the update would be skipped for ever, and a run ends (fairseq's bound, a power of two).
#define SCALE_REPORT "loss_scale/"
#define SCALE_LEAST 0x1p-13

typedef struct Again {
    double gflop;
    uint32_t block;
} Again; // work the text repeats and the graph shares

// Blocks that a text may have, and scopes around one.
enum { MAX_BLOCKS = 4096, MAX_SCOPES = 32 };

struct Func {
    Str name;
    Graph g;
    uint32_t blocks;      // block 0 is the first; numbers follow the text
    int64_t *block_first; // [blocks] sample of Module.batch at which a block's samples begin, where
                          // g.batch is less (pass/chunk.c); NULL: 0
    uint32_t *block_of;   // [blocks] then: the block of the text that it is part of; NULL: itself
    VEC(Ctl) tape;
    VEC(uint32_t) effect; // Write nodes, in program order
    VEC(Next) next;       // in program order; one a block where the text was elaborated again
    VEC(Update) update;
    VEC(Named) report; // logged numbers
    VEC(Again) again; // convolutions and products found already computed; not part of the text form
    VEC(Named) result;  // an entry point's value(s); "NAME.raw": its inverse through a field's map
    VEC(uint32_t) data; // entry points: data slots it reads
};

// The slot that a Read reads or a Write writes.
static inline uint32_t node_slot(const Graph *g, uint32_t id) {
    return (uint32_t)node_attr(g, id)->i[0];
}
// func.c. What outlives a run; what of it is saved: what no pretrained net owns.
bool slot_outlives(const Slot *s);
bool slot_saved(const Module *m, const Slot *s);
bool net_pretrained(const Module *m, uint32_t net);
Str update_name(Arena *a, const Module *m, const Update *u); // its nets, "D" or "G+E"
// A value that the executor looks at. It must be there at the end of `block`, or of the function
// where that is NONE.
typedef struct Observed {
    uint32_t node, block;
    const char *what; // for messages: "a loss"
} Observed;
typedef VEC(Observed) ObservedVec;
// Conditions, losses, reports, results and, where asked for, gradients.
void func_observed(Arena *a, const Func *f, bool grads, ObservedVec *out);
// Nodes that something outside the graph needs, directly: effects and all that is observed; and
// directly or through others: [node.n], 1 where so.
uint8_t *func_roots(Arena *a, const Func *f);
uint8_t *func_live(Arena *a, const Func *f);
// The update whose gradient a node is, NONE; *slot: of its weight.
uint32_t func_gradient(const Func *f, uint32_t node, uint32_t *slot);
uint32_t func_block(const Func *f, uint32_t block); // the first that this block of the text became
bool func_reads(const Func *f, uint32_t slot);      // has a node an operand that is this slot?
// [block] The first block behind the scope it is in, their number where there is none: what
// block_dominates asks. `past_repeats`: the end of a repeat ends no scope, for the values of its
// last round may be used.
uint32_t *blocks_scope_end(Arena *a, const Func *f, bool past_repeats);
// Are two blocks in different branches of one `if` or `every`?
bool blocks_exclude(const Func *f, uint32_t a, uint32_t b);

// Which samples of the global batch per-sample values hold here. Ranks may differ by one sample.
typedef struct Share {
    uint32_t rank, ranks;   // ranks: 1 when all samples are here, 0 before anyone has asked
    int64_t first, samples; // samples [first, first + samples) of
    int64_t total;          // the global batch
} Share;

// A layer of a net's text that made weights or state, by the call that made them. What an inner
// layer made and computed counts there alone.
typedef struct Layer {
    uint32_t net;             // Module.net[]
    Str name;                 // "G.conv.3"
    int64_t trainable, other; // numbers it made
    Type out;                 // of its result
    double gflop;             // convolutions and products of that call, for the whole batch
    Span span;
} Layer;

struct Module {
    Str name, doc;
    int64_t batch; // samples of a per-sample value: the global batch, from the passes on
                   // share.samples; a function's own is its graph's
    Share share;
    VEC(Slot) slot;
    VEC(Net) net;
    VEC(Stream) stream;
    VEC(Site) site;
    VEC(Stage) stage; // in order; empty: the model has none. Not part of the text form
    Func init, step;
    VEC(Func) entry;
    // In the order of the text, an inner one before its outer; not part of the text form.
    VEC(Layer) layer;
    VEC(Str) source; // file names by Span.file - 1, for messages
    VEC(Str) source_text;
};

// The line of the text in which a span begins. False: the module (which may be NULL) has not that
// file's text.
typedef struct SourceLine {
    Str file;        // without folder
    uint32_t number; // from 1
    Str text;        // without indent
} SourceLine;
typedef VEC(SourceLine) SourceLineVec;
bool model_line(const Module *m, Span s, SourceLine *out); // func.c
Str model_text(const Module *m, Span s); // its text alone, without counting lines; NULL: no line

// --- gflop.c -------------------------------------------------------------------------------------

// [block] Expected executions per run, in `a`: the rounds of a repeat, 1/k in an `every k` and the
// rest in its else, half in each branch of an `if`.
double *func_block_runs(Arena *a, const Func *f);
double func_gflop_again(const Func *f); // of repeated work in the text that CSE removed
double func_gflop(const Func *f);       // of all nodes, weighted by their block's executions

// --- print.c, read.c, verify.c, hash.c -----------------------------------------------------------

// The text form; module_read(print(m)) prints the same bytes.
void module_print(Text *t, const Module *m);
// Reads the text form; on a mistake false and "line N: ..." in *error. Never trusts the text: every
// reader is fuzzed.
bool module_read(Arena *perm, Str text, Module *out, Str *error);
// Structure, types, block order, write and read hazards; false and the offending node in *error,
// which is in `a`.
bool module_verify(const Module *m, Arena *a, Str *error);
bool func_verify(const Module *m, const Func *f, Arena *a, Str *error); // one of its functions
// The graph's identity: every function, in canonical numbering; no spans, no names of bindings.
Hash128 module_hash(const Module *m, Arena scratch);

#endif
