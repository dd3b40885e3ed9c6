// plan.h - the stages of plan_make in the order they run, and what each leaves to the next.
#ifndef GAN_PLAN_H
#define GAN_PLAN_H

#include "pass.h"

// fuse.c. Fills region[] (node, in, out, kind, block), region_of[], why[], copied[], and of
// place[]: `space` SpaceInline for values that kernels compute where they use them (constants,
// iota), and `owner` of every node: itself, or, of a view (a move whose elements are its source's,
// in the same order of bytes), the source's owner. Region.in and .out hold owners.
void fuse(Arena *perm, const PassOptions *o, Plan *p);

// collective.c. Fills collective[] from the regions, but for its offset and launches, and
// Region.call. Of regions that a text states, fuse_restore does.
void collectives_find(Arena *perm, Plan *p);
// The rest, once everything has its place and time.
void collectives_place(Arena *perm, Plan *p);

// schedule.c. Fills launch[], merge[], section[], tail[] and Region.merged. Needs the regions.
void schedule(Arena *perm, const PassOptions *o, Plan *p);

// tail.c. Marks in `may`, [region], what a block may leave to those that follow it, as long as all
// that must follow is left with it; false: nothing is. `order` as region_orders gives it;
// `outlives`: [node] read by another block or by the executor.
bool tail_find(const PassOptions *o, const Plan *p, const OrderVec *order, const uint8_t *outlives,
               uint8_t *may);

// Where a tail (program.h) runs.
typedef struct TailWays {
    uint8_t *within; // [block] if it was left and has not run
    uint8_t *meets;  // [region] must not run before it then: it uses slots that the tail writes, or
                     // writes slots that it reads, or makes what it reads anew
    uint32_t loop;   // as in Tail
    bool wraps;
} TailWays;
// For a tail of these regions, of one block; in `a`. False: it is open which block is next.
bool tail_place(Arena *a, const Plan *p, const uint32_t *tail, uint32_t n, TailWays *out);

// arena.c. Bytes that a slot takes of the slot memory: Module.batch samples where it has samples.
size_t slot_place_bytes(const Module *m, uint32_t slot);

// memory.c. Fills the rest of place[], work_bytes, work_bound and bytes_moved. Needs the schedule
// and the slots' offsets.
void memory_plan(const PassOptions *o, Plan *p);

// When everything stored in work memory lives, in a scheduled plan.
typedef struct Lives {
    uint32_t *time;       // [region] number of its launch, blocks in the order of the tape
    struct Buffer *value; // [node] as if each had a buffer of its own (buffer.h); 0 bytes: none
    size_t *live;         // [launches + 2] bytes of all buffers, as they are shared
    uint32_t *left;       // [region] the tail it is of, NONE
    uint32_t launches;
} Lives;
void memory_lives(Arena *a, const PassOptions *o, Plan *p, Lives *out);

// times.c. Bytes a region reads and writes; its seconds: its arithmetic or its bytes, whichever
// takes longer, on a core or two.
size_t region_bytes(const Plan *p, const Region *r);
double region_seconds(const Plan *p, const Region *r);

// --- restore.c: the same stages from decisions that a text states, none of which is trusted ------

typedef struct Refusal {
    Str why;         // what is wrong with the decisions; in the perm arena
    uint32_t region; // the region it is about, NONE
} Refusal;
typedef VEC(uint32_t) NodeList;
// The nodes each region stores say everything that fusion decides. Fills what fuse() fills but
// why[], and collective[] as collectives_find() does. False when these regions are none that could
// run.
bool fuse_restore(Arena *perm, const PassOptions *o, const NodeList *stored, uint32_t regions,
                  Plan *p, Refusal *wrong);
// launch[], merge[] and section[] are given, and of tail[] the block and the section: every region
// once, behind what it needs; in a tail none that its block may not leave. Fills Region.merged and
// the rest of tail[].
bool schedule_restore(Arena *perm, const PassOptions *o, Plan *p, Refusal *wrong);
// place[].offset of stored values in work memory is given: no two that live at once may overlap
// (memory.c). Fills what memory_plan() fills.
bool memory_restore(Arena *perm, const PassOptions *o, Plan *p, Refusal *wrong);

// [node] Is it read by another block or by the executor? In `a`.
uint8_t *plan_outliving(Arena *a, const PassOptions *o, const Plan *p);

// The node in whose memory a value lies, 0 when it is not stored.
uint32_t plan_owner(const Plan *p, uint32_t node);
size_t plan_bytes(const Plan *p, uint32_t node); // of a value, rounded up to what memory deals in
bool plan_in_slot(
    const Plan *p,
    uint32_t owner); // lies in the slot memory: a Write, or a Read that was not copied

enum { PLAN_ALIGN = 64 };

#endif
