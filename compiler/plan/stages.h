// stages.h - inside planning: fusion, collectives, schedule and memory, in the order in which
// plan_make() runs them, with what each stage reads and fills; and the same stages restored from a
// text.
#ifndef GAN_STAGES_H
#define GAN_STAGES_H

#include "plan.h"

// collective.c. Fills collective[] from the regions, except offset and launches, and Region.call.
void collectives_find(Arena *perm, Plan *p);
// Offset and launches, once memory and schedule are decided.
void collectives_place(Arena *perm, Plan *p);

// schedule.c. Fills launch[], merge[], section[], tail[] and Region.merged. Needs the regions.
void schedule(Arena *perm, const PassOptions *o, Plan *p);

// tail.c. Marks in `may`, [region], what a block may defer to its successors, together with all
// that depends on it; false: nothing. `order` as region_orders gives it; `outlives`: [node] read by
// another block or by the executor.
bool tail_find(const PassOptions *o, const Plan *p, const OrderVec *order, const uint8_t *outlives,
               uint8_t *may);

// Where a tail (program.h) may run.
typedef struct TailWays {
    uint8_t *within; // [block] runs it if it is pending
    uint8_t *meets;  // [region] conflicts, so the tail runs first: it uses slots that the tail
                     // writes, writes slots that the tail reads, or recomputes what the tail reads
    uint32_t loop;   // as in Tail
    bool wraps;
} TailWays;
// For a tail of these regions of one block; in `a`. False: the next block is not known statically.
bool tail_place(Arena *a, const Plan *p, const uint32_t *tail, uint32_t n, TailWays *out);

// slots.c. Bytes that a slot takes of the slot memory: Module.batch samples where it has samples.
size_t slot_place_bytes(const Module *m, uint32_t slot);

// memory.c. Fills the rest of place[], work_bytes, work_bound and bytes_moved. Needs the schedule
// and the slots' offsets.
void memory_plan(const PassOptions *o, Plan *p);

// Live ranges of all values in work memory, in a scheduled plan.
typedef struct Lives {
    uint32_t *time;       // [region] number of its launch, blocks in the order of the tape
    struct Buffer *value; // [node] as if each had its own buffer (buffer.h); 0 bytes: none
    size_t *live;         // [launches + 2] live bytes, with buffers shared
    uint32_t *tail_of;    // [region] its tail, NONE
    uint32_t launches;
} Lives;
void memory_lives(Arena *a, const PassOptions *o, Plan *p, Lives *out);

// cost.c. Bytes a region reads and writes; its estimated seconds (roofline: arithmetic or memory
// traffic, whichever is longer) on a core or two.
size_t region_bytes(const Plan *p, const Region *r);
double region_seconds(const Plan *p, const Region *r);
double card_seconds(const Plan *p, const Region *r); // the same on all of a card

// --- plan.c: what stages ask of a plan -----------------------------------------------------------

enum { PLAN_ALIGN = 64 }; // bytes that memory deals in

// The node in whose memory a value lies, 0 when it is not stored.
uint32_t plan_owner(const Plan *p, uint32_t node);
size_t plan_bytes(const Plan *p, uint32_t node); // of a value, a multiple of PLAN_ALIGN
// Lies in the slot memory: a Write, or a Read that was not copied.
bool plan_in_slot(const Plan *p, uint32_t owner);

// [node] Is it read by another block or by the executor? In `a`.
uint8_t *plan_outliving(Arena *a, const PassOptions *o, const Plan *p);

// The sections as they run, block by block: [section.n] of Plan.section[], in `a`.
uint32_t *plan_sections(Arena *a, const Plan *p);
// The regions launched in a section; their number.
uint32_t section_regions(const Plan *p, const Section *s, uint32_t **out);

// --- verify_plan.c: the rules that plans keep ----------------------------------------------------

typedef bool PlanVerifier(Arena *a, const PassOptions *o, const Plan *p, Refusal *wrong);
PlanVerifier regions_verify;  // what fuse() fills
PlanVerifier schedule_verify; // what schedule() fills
PlanVerifier memory_verify;   // what memory_plan() fills (memory.c)
// With o->verify_each: bug() where a plan is wrong behind a stage.
void plan_check(const PassOptions *o, const Plan *p, const char *stage, PlanVerifier *verify);

// --- restore.c: the same stages from the decisions of an untrusted text --------------------------

// What fuse() and collectives_find() fill, from the nodes that each region stores. False when these
// regions are not valid.
bool regions_restore(Arena *perm, const PassOptions *o, const NodeList *stored, uint32_t regions,
                     Plan *p, Refusal *wrong);
// Given launch[], merge[], section[], and the block and section of tail[]: fills Region.merged and
// the rest of tail[], if that is a schedule.
bool schedule_restore(Arena *perm, const PassOptions *o, Plan *p, Refusal *wrong);
// place[].offset of stored values in work memory is given: no two that live at once may overlap
// (memory.c). Fills what memory_plan() fills.
bool memory_restore(Arena *perm, const PassOptions *o, Plan *p, Refusal *wrong);

#endif
