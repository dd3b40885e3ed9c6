// watch.h - finds the first operation whose result is not finite.
//
// A run that meets such a loss or weight is repeated from its last checkpoint with a Watch on the
// executor's launches. Random numbers follow from counters and data from positions, so the same
// numbers come again. A non-finite result counts only when its step leaves a non-finite loss or
// weight: one that is masked later is harmless.
#ifndef GAN_WATCH_H
#define GAN_WATCH_H

#include "feed.h"

enum { WATCH_SAMPLES = 16 };

typedef struct WatchOperand { // of the operation that was found
    uint32_t node;
    double least, most; // of its finite numbers
    int64_t broken;     // how many are not finite
} WatchOperand;

typedef struct Finding {
    uint32_t step; // counted from 1
    uint32_t node; // of the step's graph; a Read: the data or weights themselves
    bool repeated; // evaluated again outside its kernel it gave the same; else the kernel's output
    bool nan;      // else infinite
    int64_t broken, of; // numbers
    uint32_t operands, samples;
    WatchOperand operand[4];
    uint32_t sample[WATCH_SAMPLES]; // of the batch, the first so many; none where it is shared
} Finding;

typedef struct Watch {
    Arena room, step;     // of one launch; of the step
    Exec *exec;           // borrowed
    VEC(Finding) finding; // of the step, in order
    uint32_t *cause; // [node] which finding made its value not finite, from 1 on; 0: it is finite
    bool found;
    Finding at;               // the one to blame
    struct WatchSaved *saved; // values the launch at hand writes over
    uint32_t saves;
} Watch;

GanStatus watch_init(Watch *w, Exec *e);
void watch_release(Watch *w); // accepts an empty one
// For ExecHooks.launch, with the Watch as `user` of the caller's own hook.
GanStatus watch_launch(Watch *w, uint32_t launch, bool done, const Counters *c);
// The step is over and its losses are finite: false when what it left in the slots is not, which is
// blamed. Else its findings are forgotten.
GanStatus watch_left(Watch *w, bool *finite);
// A loss or what the step left is not finite: blames the first finding that reaches one of these,
// or the first of all.
void watch_blame(Watch *w);

// Where, which and of what, with the line and a caret; `f` is the model's.
void watch_tell(const Watch *w, const Front *f, Text *out);
// DIR/nonfinite.json: all that is known. `why` is what the run met, `from` the step it was repeated
// from; w->found may be false.
GanStatus watch_keep(const Watch *w, Arena scratch, const Front *front, const Feed *feed, Str dir,
                     Str why, uint32_t from);

#endif
