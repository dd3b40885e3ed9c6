// pass.h - graph to graph: the passes, in the order of one table (passes.c), each with what it
// needs, keeps and breaks.
#ifndef GAN_PASS_H
#define GAN_PASS_H

#include "build.h"
#include "module.h"

// How a step is divided among ranks, and what is known of the link between them. All zero: one
// rank, the whole batch at once.
typedef struct Parallel {
    uint32_t rank, ranks;
    uint32_t chunks; // --deterministic: the global batch in so many parts, added in a fixed tree; a
                     // power of two, a multiple of `ranks`; 0: off
    uint32_t micro;  // gradient accumulation: this rank's samples in so many parts; 0, 1: at once
    double latency, bandwidth; // of a collective: seconds + bytes / bandwidth; 0: 10 Gbit/s, 20 us
    size_t bucket;             // bytes of a bucket of gradients; 0: from the two above
    bool tail;                 // the step may defer its end to the next one (program.h, Tail)
} Parallel;
static inline bool parallel_chunked(const Parallel *o) {
    return o->chunks > 1 || o->micro > 1;
}

typedef struct PassOptions {
    Dtype real;          // F64, F32, BF16, F16
    bool keep_grads;     // verify: gradients of updates stay readable until their block ends
    bool verify_each;    // check the graph after every pass, and the plan after every stage (debug
                         // builds)
    bool no_fuse;        // every node its own region: what `ref` runs
    bool half_grads;     // bf16, f16: weight gradients leave their product in halves, the only type
                         // cuDNN's ready-made engines make them in
    bool small_products; // they, too, take and make halves, get packs of channels, are laid out as
                         // samples, visit maxima alone, and are made in strips: for tests
    bool wide_f16;       // f16: no library multiplies it; products read and make rounded f32
    bool pack_channels; // channels of convolutions and rows of matrices get packs of 16 bytes where
                        // it pays
    size_t strip_from;  // products of more bytes, and what is made of them, are computed in strips
    size_t strip_bytes; // of so many, where that spares time,
    size_t strip_always; // from so many bytes on in any case, which spares memory
    bool few_launches; // launch overhead outweighs memory: work on weights and state alone, and an
                       // update's writes, are batched into few launches
    bool side_by_side; // launches run side by side, so that memory is reused where few wait for it
    size_t work_most;  // bytes of work memory a function may take; 0: no limit
    Parallel parallel;
} PassOptions;

// --- passes.c: the table and its runner ----------------------------------------------------------

// Runs the graph passes over one function of `m` and changes nothing else of the module: functions
// may be compiled concurrently, each with its own `perm`. bug() when the verifier complains.
// `stop_after`: the last pass to run (ganc emit --stage grad), or NULL.
void passes_run(Arena *perm, const Module *m, Func *f, const PassOptions *o,
                const char *stop_after);

// --- the passes, one file each, and rewrite.c ----------------------------------------------------

typedef void PassFn(Arena *perm, const Module *m, Func *f, const PassOptions *o);
PassFn pass_loss_scale;       // gradients are scaled, updates skipped where one overflows
PassFn pass_join_inputs;      // a weight multiplies values that are all there at once
PassFn pass_grad;             // expands Grad nodes, innermost first
PassFn pass_drop_zero_stores; // `init` does not store zeros
PassFn pass_drop_identities;  // Pin and Stop disappear; more becomes equal
PassFn pass_unfold;           // convolutions by per-sample kernels become products
PassFn pass_one_hot;          // of sums over a maximum's gradient only the maxima are visited
PassFn pass_join_sums;        // sums of products become products of stacked operands
PassFn pass_mask;             // gradients test activations' outputs, not inputs
PassFn pass_dtype;            // storage types of the chosen precision, casts between them
PassFn pass_fold_strides;     // convolutions of few channels trade their stride for channels
PassFn pass_pad_channels;     // few channels and odd rows of products get more, of zeros
PassFn pass_strips;           // large intermediates are made strip by strip
PassFn pass_split_sums;       // sums over the batch wait for fewer others
PassFn pass_chunk;            // the step in parts: Parallel.chunks, .micro
PassFn pass_shard;            // this rank's samples of the step, with collectives
PassFn pass_moments;          // sums of squared deviations in one pass over the data
PassFn pass_innermost;        // samples' values lie as products read them
PassFn pass_as_samples;       // shared values that samples meet are laid out as these

// Adds the slots of a scale for each update of the step, if there are none; before slots_place.
// pass_loss_scale scales where a module has them.
void loss_scale_slots(Arena *perm, Module *m);
void grads_drop_unread(Arena *perm, Func *f); // drops gradients that no update uses

// times.c: static estimates for one core: of a collective of `bytes`, of products, of a loop that
// reads or writes so many bytes.
double call_seconds(const Parallel *o, size_t bytes);
double gflop_seconds(double gflop);
double product_seconds(const Graph *g, uint32_t node);
double loop_seconds(double bytes);
// shard.c. Rank `rank`'s samples of a global batch of `total`; 0 or 1 ranks: all.
Share share_of(int64_t total, uint32_t rank, uint32_t ranks);

typedef VEC(uint32_t) NodeList;

// A graph that is built anew from another, node by node.
typedef struct Rewriter {
    Builder to;          // in the block and of the line of the node at hand
    const Graph *from;   // borrowed
    const uint32_t *map; // [old node] what became of it
    void *user;          // the pass's own
    uint8_t *same; // where the old graph is in simplest form: [old node] copied as it was, over
                   // operands that were, so need not be simplified again; else NULL
} Rewriter;
static inline Val rewritten(Rewriter *r, uint32_t id) { // what became of an old node
    return (Val){&r->to, r->map[id]};
}
static inline Val rewritten_in(Rewriter *r, uint32_t id, uint32_t k) { // of its operand k
    return rewritten(r, node_in(r->from, id, k));
}
// What becomes of an old node; all its operands have been asked for.
typedef uint32_t (*RewriteFn)(Rewriter *r, uint32_t id);
// Replaces the nodes that effects, updates, reports, results and the tape name by map[old].
void func_renumber(Func *f, const uint32_t *map);
// Rebuilds a function's graph for `batch` samples: every live node in order, and renumbers what
// names nodes.
void func_rewrite(Arena *perm, Func *f, int64_t batch, RewriteFn rewrite, void *user);
// The identity rewrite; others call it for the nodes they keep.
uint32_t node_copy(Rewriter *r, uint32_t id);

#endif
