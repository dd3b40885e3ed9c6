// verify.h - reference cases (docs/verify.md): the interface, and what the verify*.c files share.
#ifndef GAN_VERIFY_H
#define GAN_VERIFY_H

#include "ranks.h"

typedef struct VerifyOptions {
    Str model, reference;   // paths
    const Setting *setting; // on top of the case's options; borrowed
    uint32_t settings;
    const DeviceApi *api;
    Dtype real;
    DeviceOptions device; // device.comm: all ranks recompute the case together
    Split split;          // ranks_split
} VerifyOptions;
// Recomputes the case. GAN_OK when every check is within tolerance. Lines for the user go to
// *report, the model's diagnostics to *diagnostics, either way.
GanStatus verify_case(const VerifyOptions *o, Text *report, Text *diagnostics);

typedef struct Tolerance {
    double loss, grad, final, zero;
    bool rounds; // errors are rounding, which a sum of n elements may gather: see digest_compare
} Tolerance;

typedef struct Tensor { // one entry of `start`, matched to a slot
    uint32_t slot, net;
    Str name; // "G.3.weight", the case's name
    bool trainable;
    bool zero;    // its gradient was zero up to rounding
    double moved; // how far rounding may have carried it: the sum of the learning rates applied
} Tensor;

typedef struct Check {
    Str what;
    double error, limit; // both relative or both absolute; limit INFINITY: printed, not judged
    double moved;        // what rounding alone did to the reference
    bool exact;          // the graph gives the case's number in f64
    bool last;           // of the end of the case
} Check;

typedef struct Close { // an element of a comparison
    uint32_t node;
    size_t at;
} Close;

enum { KindNormal, KindUniform, KindLabels, KindData, KindCount }; // what a case feeds

typedef struct Verify {
    const VerifyOptions *o;
    Dtype judge;             // whose tolerances hold: the later steps are judged in f64 only
    Dtype hold;              // start and feed are what this can hold
    const uint8_t *deciding; // [node of the step]: see verify_turn; NULL: nothing is turned
    VEC(Close) close;        // comparisons of the launch that runs
    Session session;
    Share share; // of the batch
    const Json *root;
    Text *report;
    Tolerance tol;
    VEC(Tensor) tensor;
    double *values;        // room for the largest slot
    uint32_t step, update; // position in the case
    VEC(const Json *)
    queue[KindCount]; // fed entries of this step by kind: normal uniform labels data
    uint32_t at[KindCount];
    uint32_t *taken; // [streams] batches this step has been fed
    VEC(Check) check;
    uint32_t failures; // checks outside tolerance, and what could not be compared
} Verify;

// --- verify.c ------------------------------------------------------------------------------------

Tolerance verify_tolerance(Dtype real);
// Reads the case and says how its model is to be opened. `comm` NULL: by this rank alone.
GanStatus verify_open(Verify *v, SessionOptions *s, Comm *comm, const Split *split);
// The case's first `steps` steps in the open session; its end is checked after all of them.
GanStatus verify_run(Verify *v, uint32_t steps);
// A line of the report.
void verify_line(Verify *v, const char *format, ...);

// --- verify_feed.c: what goes in -----------------------------------------------------------------

GanStatus verify_start(Verify *v);      // every weight and state, matched to the case's `start`
GanStatus verify_begin_step(Verify *v); // queues what the step is fed, and feeds its data
GanStatus verify_end_step(Verify *v);   // nothing is left of what it is fed
// ExecHooks.before: feeds the draws of a block, in the order of the text.
GanStatus verify_feed_block(void *user, Exec *e, uint32_t block, uint32_t round);

// --- verify_check.c: what comes out --------------------------------------------------------------

bool check_fails(const Check *c);
// ExecHooks.after: losses, gradients and reports of a block against the case's.
GanStatus verify_check_block(void *user, Exec *e, uint32_t block, uint32_t round);
GanStatus verify_check_final(Verify *v);
// Room for one slot's values of the whole batch, wherever its samples are; the next call hands out
// the same memory.
double *verify_slot_values(Verify *v, uint32_t slot, size_t *n);

// --- verify_rounding.c: what rounding alone does to the case (D-0009) ----------------------------

// Puts the checks that fail to the graph itself, recomputed in f64 by this rank alone. A
// recomputation that fails is a line of the report and excuses nothing.
void verify_ask_graph(Verify *v);
bool check_excused(const Check *c); // after it: what the check fails by is rounding's to decide
// ExecHooks.launch: outcomes of comparisons that rounding decides are turned, but for those that
// are themselves the condition of an `if`.
GanStatus verify_turn(void *user, Exec *e, uint32_t launch, bool done, const Counters *c);

#endif
