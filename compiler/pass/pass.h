// pass.h - Module to Plan: the passes, in the order of one table (passes.c), each with what it
// needs, keeps and breaks.
#ifndef GAN_PASS_H
#define GAN_PASS_H

#include "program.h"

// How a step is divided among ranks, and what is known of the link between them. All zero: one
// rank, the whole batch at once.
typedef struct Parallel {
    uint32_t rank, ranks;
    uint32_t chunks; // --deterministic: the global batch in so many parts, added in a fixed tree; a
                     // power of two, a multiple of `ranks`; 0: off
    uint32_t micro;  // gradient accumulation: this rank's samples in so many parts; 0, 1: at once
    double latency, bandwidth; // of a collective: seconds + bytes / bandwidth; 0: 10 Gbit/s, 20 us
    size_t bucket;             // bytes of a bucket of gradients; 0: from the two above
    bool tail;                 // the step may leave its end to the next one (program.h, Tail)
} Parallel;

typedef struct PassOptions {
    Dtype real;         // F64, F32, BF16, F16
    bool keep_grads;    // verify: gradients of updates stay readable until their block ends
    bool verify_each;   // check the graph after every pass (debug builds)
    bool no_fuse;       // every node its own region: what `ref` runs
    bool half_grads;    // bf16, f16: weight gradients leave their product in halves, the only type
                        // cuDNN's ready-made engines make them in
    bool all_halves;    // bf16, f16: small products, too, take and make halves
    bool wide_f16;      // f16: no library multiplies it; products read and make rounded f32
    bool channels_pack; // the backend wants packed weights (cpu)
    bool few_launches;  // a launch costs more than memory does: what is made of weights and state
                        // alone, and an update's writes, wait for one another
    size_t work_most;   // bytes of work memory a function may take; 0: no limit
    Parallel parallel;
} PassOptions;

// --- passes.c: the table and its runner ----------------------------------------------------------

// Graph passes over one function (grad, fresh, unpin, mask, dtype, shard). It is of `m`, the only
// part of it that changes: functions may be worked on side by side, each with its own `perm`. bug()
// on a verifier complaint. `stop_after`: a pass name to stop behind (ganc emit --stage grad), or
// NULL.
void passes_run(Arena *perm, const Module *m, Func *f, const PassOptions *o,
                const char *stop_after);
// Gives slots and sites the precision that goes with `real`, and every slot its offset in the slot
// memory: per net flat arenas, weights in order of gradient finality, with equal layouts for
// weights, gradients and each optimizer state; then the rest. Returns its size in bytes.
size_t slots_place(Module *m, Dtype real);
// Regions, schedule and memory of a function whose graph passes are done.
void plan_make(Arena *perm, const Module *m, const Func *f, const PassOptions *o, Plan *out);

// --- the passes, a file each, and rewrite.c, arena.c, count.c
// --------------------------------------

// Adds the slots of a scale for each update of the step, if there are none; before slots_place.
// What a module has makes pass_loss_scale scale.
void loss_scale_slots(Arena *perm, Module *m);
void pass_loss_scale(Arena *perm, const Module *m, Func *f,
                     const PassOptions *o); // gradients scaled, updates skipped where one overflows
void pass_grad(Arena *perm, const Module *m, Func *f,
               const PassOptions *o); // expands Grad nodes, innermost first
void pass_fresh(Arena *perm, const Module *m, Func *f,
                const PassOptions *o); // init writes no zeros
void pass_unpin(Arena *perm, const Module *m, Func *f,
                const PassOptions *o);        // Pin and Stop disappear; more becomes equal
void grads_drop_unread(Arena *perm, Func *f); // forgets gradients that no weight is made of
void pass_mask(Arena *perm, const Module *m, Func *f,
               const PassOptions *o); // gradients read activations' outputs
void pass_dtype(Arena *perm, const Module *m, Func *f, const PassOptions *o);
void pass_shard(Arena *perm, const Module *m, Func *f, const PassOptions *o);
void pass_moments(Arena *perm, const Module *m, Func *f,
                  const PassOptions *o); // squares about a mean do not wait for it

// times.c: what is said, before anything is measured, of a collective of `bytes`, and of the
// products in a node on one core.
double call_seconds(const Parallel *o, size_t bytes);
double product_seconds(const Graph *g, uint32_t node);
// shard.c. Rank `rank`'s samples of a global batch of `total`; 0 or 1 ranks: all.
Share share_of(int64_t total, uint32_t rank, uint32_t ranks);

// fuse.c (plan.h has the pass itself): what generation and scheduling share with it.

bool fuse_is_view(const Graph *g, uint32_t id); // an affine move: readers look through it
bool fuse_is_short(const Graph *g,
                   uint32_t id); // a reduction of so few terms that it is arithmetic
bool fuse_ends_loop(const Graph *g,
                    uint32_t id); // a reduction proper: known only when its region's loop is over
const Type *fuse_space(const Graph *g,
                       uint32_t id); // the shape a node is computed over: its own or its operand's
uint32_t fuse_reduced(const Graph *g,
                      uint32_t id); // axes of that shape it reduces, those of one element left out
// Operand k, of a commuting operation the larger first: so that equal structures are met in equal
// order.
uint32_t fuse_operand(const Graph *g, uint32_t id, uint32_t k);
// The node whose memory holds `id`: through reshapes and expands that move no element; `id` itself
// when it is its own.
uint32_t fuse_storage(const Graph *g, uint32_t id, Arena scratch);
// Pairs of regions of one block that must keep their order: one reads what the other stores, or
// reads a slot that the other writes. Sorted by (after, before), without repeats; never a circle,
// for where reading first was impossible fuse made a RegionCopy.
typedef struct RegionOrder {
    uint32_t before, after;
} RegionOrder; // Plan.region[]
typedef VEC(RegionOrder) OrderVec;
void region_orders(Arena *perm, const Plan *p, OrderVec *out);

// Rebuilds a function's graph, for `batch` samples: `map` is called for every live node in order
// and returns the new node (graph_add with mapped operands when it has nothing to say); effects,
// updates, reports, results and the tape are renumbered.
typedef uint32_t (*RewriteFn)(void *user, Graph *to, const Graph *from, uint32_t id,
                              const uint32_t *map);
// Puts new numbers, map[old], where effects, updates, reports, results and the tape say nodes.
void func_renumber(Func *f, const uint32_t *map);
void func_rewrite(Arena *perm, Func *f, int64_t batch, RewriteFn map, void *user);
// The RewriteFn with nothing to say; others call it for the nodes they leave alone.
uint32_t node_copy(void *user, Graph *to, const Graph *from, uint32_t id, const uint32_t *map);

// What a limit on memory made of a plan: launches that make again what could not be held until its
// last reader (pass/remat.c).
typedef struct Remade {
    size_t most;       // bytes of work memory the plan was to take at most
    size_t held;       // bytes it takes when everything is held
    uint32_t launches; // made again
    double gflop;      // of these; in Plan.gflop as well
    double bytes;      // that these read and write
} Remade;

// remat.c. Where the plan of `f` takes more than o->work_most bytes of work memory: makes launches
// again in front of late readers, instead of holding what they made, until it does not, the
// cheapest first; or until nothing is left to gain. Replaces f's graph and *p; fills p->remade.
void remat(Arena *perm, const PassOptions *o, Func *f, Plan *p);

double graph_gflop(const Graph *g); // of all nodes (node_gflop)
// [block] How often it runs in an average run, in `a`: a repeat's rounds, one in k of an `every`
// and all the others of what follows where it did not, half of each branch.
double *func_block_runs(Arena *a, const Func *f);
double func_gflop_again(const Func *f); // what the text asks for again and sharing spares
double func_gflop(const Func *f);       // the same, each node as often as its block runs

// plan_text.c, plan_read.c: the text form of plans, which follows that of their module.

typedef enum PlanLevel { PlanFused, PlanScheduled, PlanPlaced } PlanLevel; // a stage's result
void plan_print(Text *t, const Plan *p, PlanLevel level); // one function of a module
// The module and the plans of its functions (init, step, entries): plans_read(print(p)) prints the
// same bytes.
void plans_print(Text *t, const Plan *const *plan, uint32_t n, PlanLevel level);
typedef struct PlansRead {
    Dtype real;      // precision they were made for
    bool unfused;    // a region a node, for the reference device: there are no kernels of them
    PlanLevel level; // of the text
    Plan *plan;      // [2 + entry.n], of `module`, complete; without kernels
} PlansRead;
// Reads the text form and runs the stages behind its level. On a mistake false and "line N: ..." in
// *error. Never trusts the text. `module` must stay where it is.
bool plans_read(Arena *perm, Str text, Module *module, PlansRead *out, Str *error);

// Where members of a region come from: the model's lines, each once, in order of the members.
typedef struct SourceLine {
    Str file;
    uint32_t number;
    Str text;
} SourceLine; // file without folder; text without indent
typedef VEC(SourceLine) SourceLineVec;
SourceLine model_line(const Module *m, Span s); // of a span whose file's text the module has
void region_lines(Arena *a, const Plan *p, const Region *r, SourceLineVec *out);
// collective_text.c. Call `call` in a word or two ("gradients of D"); the lines at which its last
// part is ready and its sums are first read, where they are known.
void collective_name(Text *t, const Plan *p, uint32_t call);
bool collective_ready_line(const Plan *p, uint32_t call, SourceLine *out);
bool collective_use_line(const Plan *p, uint32_t call, SourceLine *out);
// A line a call, the same on every rank.
void collectives_print(Text *t, const Plan *p);
void explain_fusion(Text *t, const Plan *p); // per region: members, bytes saved; per edge left: why

#endif
