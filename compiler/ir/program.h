// program.h - what the passes make of a function of a model: a Plan. It is scheduled: regions (one
// kernel or library call each) in launch order per block, a place in memory for every value that is
// stored, sizes known before allocation.
#ifndef GAN_PROGRAM_H
#define GAN_PROGRAM_H

#include "module.h"

typedef enum Space {
    SpaceNone,
    SpaceSlot,
    SpaceWork,
    SpaceInline
} Space;               // Inline: a constant inside kernels
typedef struct Place { // where a node's value lies
    Space space;
    size_t offset;  // bytes from the start of the slot memory or of the function's work memory
    uint32_t owner; // node whose storage this is: itself, or the source of a view
} Place;

typedef enum RegionKind {
    RegionLoop,  // generated: one loop nest over one iteration space
    RegionCall,  // a library call: one ANCHOR
    RegionCopy,  // saves a slot's value before it is overwritten: node[0] is a Read, which from
                 // there on lies in work memory (out), copied from its slot
    RegionStart, // hands the parts of a collective (node: ReduceStart nodes, in order of the parts)
                 // to the communicator. A part that is not yet where it is reduced is copied there
    RegionWait,  // waits for it (node: ReduceWait nodes): from here on the parts hold the sums
} RegionKind;

typedef struct Region {
    RegionKind kind;
    uint32_t block;
    VEC(uint32_t)
    node; // what it computes, in topological order, views and constants included: every
          // operand of a member is a member or in `in`. Cheap nodes may be in several regions
    VEC(uint32_t) in;  // stored nodes read from memory (never a view of one), first use first
    VEC(uint32_t) out; // members stored
    uint32_t kernel;   // Plan.kernel[]; of a call one of our own, or NONE: a library must
    uint32_t call;     // RegionStart, RegionWait: Plan.collective[]; else NONE
    uint32_t merged;   // launched as part of this region (horizontal fusion), NONE when on its own
    int64_t units,
        grain; // parallel work of its kernel, and how much of it is worth a call; fixed by shapes
    size_t scratch;   // bytes of partial results, 64-byte aligned, contents do not matter; 0 none
    uint32_t blocks;  // CUDA: size of the grid; fewer give the same results
    uint32_t tickets; // CUDA: 32-bit words, the region's own, zero before its first launch
    VEC(int64_t) number; // what its kernel leaves open: extents, strides, sites, which part
} Region;

// Generated text of one or more regions of equal structure.
typedef struct Kernel {
    Str name;    // what it does, and a hash of its text
    Str source;  // its functions, prelude not included. As C:
                 //   void NAME(void *const *p, const gan_counters *c, int64_t lo, int64_t hi)
                 //   void NAME_finish(void *const *p), where `finish`: after all of NAME, once
                 // p: addresses of Region.in, then of Region.out, of the scratch, of Region.number.
                 // lo..hi are units, in any cut and order: results never depend on it
                 // As CUDA, over a grid of Region.blocks blocks (gen/kernel_cuda.h), of one region
                 //   NAME(const gan_args<words> w, const gan_counters *c), or *each, where `many`
    bool finish; // C: NAME_finish combines the partial results
    bool many;   // CUDA: its launches are of one region or several; NAME ends in _many
    uint32_t parts;   // CUDA: of several in one, whose number is a region's last word; else 0
    bool spare;       // CUDA: launched only where the device has no library for its regions
    uint32_t threads; // CUDA: of a block
    uint32_t shared;  // CUDA: bytes of dynamic shared memory a block needs
    uint32_t words;   // CUDA: in, out, scratch and tickets where there is scratch, number
} Kernel;

typedef struct Cubin {  // CUDA: kernels as machine code
    int arch;           // 90: for cards of compute capability 9.0, and 9.x behind it
    bool spare;         // or the spare ones, as PTX: for any card from `arch` on
    uint32_t lot, lots; // unless spare: those whose names fall into this lot (cuda_compile.h)
    Str code;
} Cubin;
typedef VEC(Cubin) CubinVec;

// One dispatch. CUDA: one launch for each kernel among its instances.
typedef struct Launch {
    uint32_t region;    // Plan.region[]
    uint32_t instances; // regions merged into it, itself included: Plan.merge[first...]
    uint32_t first;
} Launch;

// The end of a block, waits for sums of gradients and what writes slots only, that runs within the
// first blocks behind it that need it done: its sums have had other work to travel under.
typedef struct Tail {
    uint32_t block, section; // whose end it is; Plan.section[]
    uint32_t loop;           // in the tape, the outermost repeat whose next round may run it, NONE
    bool wraps;              // the next step may run it
} Tail;
typedef enum SectionKind { SectionBegin, SectionRest, SectionTail } SectionKind;
typedef struct Section { // launches of a block, in order
    SectionKind kind;    // those it begins with; those behind a tail, which is run first if it was
    uint32_t tail;       // left and has not run; its own tail. Plan.tail[], of a beginning NONE
    uint32_t block;
    uint32_t first, n; // Plan.launch[]
} Section;

// One call that all ranks make together: the sum of some shared values over the ranks. Its parts
// lie side by side in the work memory, each on a multiple of 64 bytes (the gaps are zero), and are
// reduced in place. Calls are numbered in the order in which every rank starts them, which follows
// from the model alone: ranks with one sample more or less have the same list.
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
    uint32_t ready, use;  // launches: of the start, and the first that reads a part (NONE: none)
} Collective;

typedef struct Why {
    uint32_t from, to;
    const char *reason;
    size_t bytes;
} Why; // an edge not fused, bytes it costs

typedef struct Plan {
    const Module *module; // borrowed
    const Func *func;     // borrowed
    Dtype real;           // precision asked for
    bool unfused;         // a region a node: what the reference device runs
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
    size_t work_bound;    // the largest sum of live values at any point of the schedule
    size_t slot_bytes;    // slot memory, the same for every function of a module
    double gflop,
        gflop_model;    // convolution and matmul: of the compiled graph, of the published step
    double bytes_moved; // bytes its launches read and write
    VEC(Why) why;
    VEC(uint32_t) copied; // slots whose old value is copied: updated before its last reader
    VEC(Collective) collective;
    const struct Remade *remade; // what a limit on memory made of it (pass.h); NULL: there is none
} Plan;
// epilogue.c: an elementwise region as a library would do it along with a call.
typedef enum Act { ActNone, ActRelu, ActLeaky, ActTanh } Act;
extern const char *const act_name[];
typedef struct Epilogue {
    uint32_t region; // Plan.region[]
    uint32_t result; // what it stores: act(the call's result + bias)
    uint32_t bias;   // node of [channels], there when the call is made; 0: none
    Act act;
    double slope; // ActLeaky
} Epilogue;
// Is there a region that a library may do along with call `region` of a placed plan? Only where
// nobody else reads the call's result and the region's lies in its place: then it may be done at
// once, or by its own kernel when its time has come.
bool plan_epilogue(const Plan *p, uint32_t region, Epilogue *out);

// room.c: what launches of a card use beside the plan's values, one after another.
enum { ROOM_ALIGN = 256 };       // bytes, of every piece of a card's memory
size_t room_up(size_t bytes);    // to a multiple of it
size_t plan_room(const Plan *p); // bytes, the most of any launch: no engine gets more

#endif
