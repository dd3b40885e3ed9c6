// program.h - what the passes make of a function of a model: a Plan, which a device executes. It is
// a schedule: regions (fused kernels or library calls) in launch order per block, a memory address
// for every stored value, and all sizes known before anything is allocated.
#ifndef GAN_PROGRAM_H
#define GAN_PROGRAM_H

#include "module.h"

typedef enum Space {
    SpaceNone,
    SpaceSlot,
    SpaceWork,
    SpaceInline // a constant inside kernels
} Space;
typedef struct Place { // where a node's value lies
    Space space;
    size_t offset;  // bytes from the start of the slot memory or of the function's work memory
    uint32_t owner; // node whose storage this is: itself, or the source of a view
} Place;

typedef enum RegionKind {
    RegionLoop,  // generated: one loop nest over one iteration space
    RegionCall,  // a library call: one ANCHOR
    RegionCopy,  // saves a slot's value before it is overwritten: node[0] is a Read, which from
                 // then on lies in work memory (out)
    RegionStart, // hands the parts of a collective (node: ReduceStart nodes, in order of the parts)
                 // to the communicator. A part that is not yet where it is reduced is copied there
    RegionWait,  // waits for it (node: ReduceWait nodes): from here on the parts hold the sums
} RegionKind;

typedef struct Region {
    RegionKind kind;
    uint32_t block;
    // What it computes, in topological order, views and constants included: every operand of a
    // member is a member or in `in`. Cheap nodes may be in several regions.
    VEC(uint32_t) node;
    VEC(uint32_t) in;  // stored nodes read from memory (never a view of one), first use first
    VEC(uint32_t) out; // members stored
    // What its kernel's arguments are: numbers in `in`, continued in `out`. Inputs of which no
    // element is read (a slice selects another part of a concatenation) are none.
    VEC(uint32_t) arg;
    uint32_t kernel;  // Plan.kernel[]; of a call one of our own, or NONE: a library must
    uint32_t call;    // RegionStart, RegionWait: Plan.collective[]; else NONE
    uint32_t merged;  // launched as part of this region (horizontal fusion), NONE when on its own
    int64_t units;    // parallel work items of its kernel, set by shapes
    int64_t grain;    // how many of them are worth a task, likewise
    size_t scratch;   // bytes of partial results, 64-byte aligned, contents do not matter; 0 none
    uint32_t blocks;  // CUDA: size of the grid; fewer give the same results
    uint32_t tickets; // CUDA: 32-bit words, the region's own, zero before its first launch
    VEC(int64_t) number; // its kernel's parameters: extents, strides, sites, which part
} Region;

// The node that an argument of its kernel is.
static inline uint32_t region_arg(const Region *r, uint32_t arg) {
    uint32_t at = r->arg.at[arg];
    return at < r->in.n ? r->in.at[at] : r->out.at[at - r->in.n];
}

static inline bool region_stores(const Region *r, uint32_t node) {
    for (uint32_t i = 0; i < r->out.n; i++)
        if (r->out.at[i] == node)
            return true;
    return false;
}

// Generated text of one or more regions of equal structure.
typedef struct Kernel {
    Str name;    // what it does, and a hash of its text
    Str source;  // its functions, prelude not included. As C:
                 //   void NAME(void *const *p, const gan_counters *c, int64_t lo, int64_t hi)
                 //   void NAME_finish(void *const *p), where `finish`: after all of NAME, once
                 // p: addresses of Region.arg, of the scratch, of Region.number.
                 // lo..hi are units, in any cut and order: results never depend on it
                 // As CUDA, over a grid of Region.blocks blocks (gen/kernel_cuda.h), of one region
                 //   NAME(const gan_args<words> w, const gan_counters *c), or *each, where `many`;
                 // without c where no counter is read
    bool finish; // C: NAME_finish combines the partial results
    bool many;   // CUDA: its launches are of one region or several; NAME ends in _many
    bool open;   // CUDA: of teams of several shapes
    uint32_t parts;   // CUDA: of several in one, whose number is a region's last word; else 0
    bool fallback;    // CUDA: launched only where the device has no library for its regions
    uint32_t threads; // CUDA: of a block
    uint32_t shared;  // CUDA: bytes of dynamic shared memory a block needs
    uint32_t words;   // CUDA: arg, scratch and tickets where there is scratch, number
} Kernel;

typedef struct Cubin { // CUDA: a batch of kernels, perhaps others among them, as machine code
    int arch;          // 90: for cards of compute capability 9.0, and 9.x behind it
    bool ptx;          // or as PTX, the fallbacks: for any card from `arch` on
    Str code;
} Cubin;
typedef VEC(Cubin) CubinVec;

// One dispatch. CUDA: one launch for each kernel among its instances.
typedef struct Launch {
    uint32_t region;    // Plan.region[]
    uint32_t instances; // regions merged into it, itself included: Plan.merge[first...]
    uint32_t first;
} Launch;

// A deferred end of a block (software pipelining): waits for gradient sums and the slot updates
// that depend on them run within the first following blocks that need their results, so that the
// collectives overlap with other work.
typedef struct Tail {
    uint32_t block, section; // the block it ends; Plan.section[]
    uint32_t loop;           // tape: the outermost repeat that carries it to its next round, NONE
    bool wraps;              // it may be carried to the next step
} Tail;
typedef enum SectionKind { SectionBegin, SectionRest, SectionTail } SectionKind;
typedef struct Section { // launches of a block, in order
    SectionKind kind;    // the first launches; those after a pending tail, which runs before them;
    uint32_t tail;       // the block's own tail. Plan.tail[], NONE for the first launches
    uint32_t block;
    uint32_t first, n; // Plan.launch[]
} Section;

// An all-reduce (sum) of one bucket of shared values. Its parts are contiguous in work memory, each
// aligned to 64 bytes (the gaps are zero), and are reduced in place. Collectives are numbered in
// the order in which every rank starts them, which follows from the model alone: ranks whose sample
// counts differ by one have the same list.
typedef struct CallPart {
    uint32_t start, wait; // nodes
    size_t offset, bytes; // from Collective.offset; without the gap behind it
} CallPart;
typedef struct Collective {
    Dtype dtype;
    SumOrder order;
    size_t offset, bytes; // slice of the work memory, gaps included
    VEC(CallPart) part;
    uint32_t update;      // Func.update[] whose gradients these are, NONE
    uint32_t start, wait; // Plan.region[]
    const char *what;     // for messages: "step 2, gradients of D (dcgan.gan:31)"
    uint32_t ready, use;  // launches: of the start, and the first reader of a part (NONE: none)
} Collective;

typedef struct Why {
    uint32_t from, to;
    const char *reason;
    size_t bytes;
} Why; // a producer-consumer edge that was not fused, and the bytes it costs

typedef struct Plan {
    const Module *module; // borrowed
    const Func *func;     // borrowed
    Dtype real;           // requested precision
    bool unfused;         // one region per node: what the reference device runs
    Place *place;         // [func->g.node.n]
    uint32_t *region_of;  // [func->g.node.n], NONE
    VEC(Region) region;
    VEC(Kernel) kernel;
    Str prelude;    // text before every kernel, set with them
    CubinVec cubin; // what was compiled ahead
    VEC(Launch) launch;
    VEC(uint32_t) merge;
    VEC(Section) section; // [b] is the beginning of block b; then rests and tails, block by block
    VEC(Tail) tail;       // in the order of their blocks
    size_t work_bytes;    // the function's work memory
    size_t work_bound;    // peak of live bytes over the schedule: a lower bound of work_bytes
    size_t slot_bytes;    // slot memory, the same for every function of a module
    double gflop;         // of convolutions and products of the compiled graph, in an average run
    double gflop_model;   // the same of the published step
    double bytes_moved;   // bytes its launches read and write, in an average run
    VEC(Why) why;
    VEC(uint32_t) copied; // slots whose old value is copied: updated before its last reader
    VEC(Collective) collective;
    const struct Remade *remade; // rematerialization under a memory limit (plan.h); NULL: no limit
} Plan;
// func.c: where in the slot memory a Read's or a Write's value lies. A block that holds some of the
// samples has them where they lie in the slot.
size_t slot_value_at(const Plan *p, uint32_t node);

// epilogue.c: an elementwise region that a library can fuse into the call before it.
typedef enum Act { ActNone, ActRelu, ActLeaky, ActTanh } Act;
extern const char *const act_name[];
typedef struct Epilogue {
    uint32_t region; // Plan.region[]; NONE: the call has no epilogue
    uint32_t result; // what it stores: act(the call's result + bias)
    uint32_t bias;   // node of [channels], ready when the call is made; 0: none
    Act act;
    double slope; // ActLeaky
} Epilogue;
// [region] Of each call of a placed plan, the elementwise region that a library can fuse into it,
// in `a`. Only where nothing else reads the call's result and the region's result takes its memory:
// then the epilogue may run with the call, or as its own kernel later.
Epilogue *plan_epilogues(Arena *a, const Plan *p);

// workspace.c: workspace of a card's launches beside the plan's values, reused from launch to
// launch.
enum { CARD_ALIGN = 256 };            // bytes, of every piece of a card's memory
enum { CARD_PROCESSORS = 132 };       // of a large card (H100, H200): what grids are to keep busy
size_t card_align(size_t bytes);      // to a multiple of it
size_t plan_workspace(const Plan *p); // bytes, the most of any launch: no engine gets more

#endif
