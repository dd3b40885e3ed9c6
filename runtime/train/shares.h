// shares.h - attributes the time of a launch to a part of the step: a net's update, a penalty, or
// communication.
#ifndef GAN_SHARES_H
#define GAN_SHARES_H

#include "program.h"

// Rows: nets of updates as losses are named ("D", "G_AB+G_BA"), in the order of the text, then
// ShareReg, ShareComm and ShareRest.
typedef enum ShareKind {
    ShareNets, // an update's: its forward passes, gradients, optimizer, and what hangs on those
    ShareReg,  // what a step does only for gradients inside losses: a penalty's
    ShareComm, // sums over the ranks: starting them and waiting for them
    ShareRest, // needed by no update
} ShareKind;
typedef struct ShareRow {
    ShareKind kind;
    Str name;       // "D", "reg", "comm", "rest"
    double seconds; // of launches timed so far
} ShareRow;
typedef struct Shares {
    VEC(ShareRow) row;
    uint32_t *of; // [plan's regions] row
} Shares;

typedef struct Spent { // seconds
    double all;        // of the clock
    double data;       // waiting for batches
    double comm;       // waiting for sums over the ranks
    double eval;       // saves: images, their distance from the data, the checkpoint
} Spent;
Spent spent_since(Spent now, Spent before);

// Where time went, as fractions of it, which add up to 1: data; of what was spent in launches, by
// the launches timed so far, a part for each net and for penalties; comm; eval. `compute` where no
// launch was timed.
typedef struct Part {
    Str name;
    double fraction;
} Part;
typedef struct Parts {
    VEC(Part) part;
} Parts;
void parts_find(Arena *perm, const Shares *s, Spent spent, Parts *out); // reuses out's room

// Work that several updates need is the first one's; a sum of gradients is a penalty's only if all
// its parts are. Reads the plan of a step, whoever made it.
void shares_init(Arena *perm, const Plan *p, Shares *out);
// A launch of the plan took so long; what lies in one launch shares its time equally.
void shares_add(Shares *s, const Plan *p, uint32_t launch, double seconds);

#endif
