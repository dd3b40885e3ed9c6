// exec.h - one model on one device: the executor.
//
// Thread rule: one thread at a time, but for exec_load_step beside exec_init. Everything that fails
// returns the device's status: GAN_ERR_MEMORY, or GAN_ERR_DEVICE also for a rank that is lost; the
// executor may then only be closed.
#ifndef GAN_EXEC_H
#define GAN_EXEC_H

#include "device_api.h"

typedef struct Exec Exec; // plans of all functions, slot memory, counters; one owner

typedef struct ExecHooks { // any may be NULL
    // Before a block runs (its round of the enclosing repeat): fill fed or data slots with
    // exec_slot_put.
    GanStatus (*before)(void *user, Exec *e, uint32_t block, uint32_t round);
    GanStatus (*after)(void *user, Exec *e, uint32_t block, uint32_t round);
    void *user;
    // Where given (and the device can), launches run one by one, with this called before (done
    // false) and after each.
    GanStatus (*launch)(void *user, Exec *e, uint32_t launch, bool done, const Counters *c);
    bool whole; // the step runs the tails it has left (program.h), at its end
} ExecHooks;

// Plans are loaded when first run. Borrows everything it is given; `entries` is [m->entry.n]. In
// two halves, so that `init` can run before the others are planned: behind exec_begin the slots are
// there, and zero, behind exec_plans everything else. Between the two the step may be loaded, by
// another thread while exec_init is at work: exec_plans then loads it again only where an entry
// takes more memory.
GanStatus exec_begin(const DeviceApi *api, Device *d, Arena *perm, const Module *m,
                     const Plan *init, Exec **out);
GanStatus exec_load_step(Exec *e, const Plan *step);
GanStatus exec_plans(Exec *e, const Plan *step, const Plan *entries);
void exec_close(Exec *e); // accepts NULL
// Runs `init`: every slot's first value, from draws of `seed`.
GanStatus exec_init(Exec *e, uint64_t seed);
// Returns when all work of the step has been given to the device, which may be at work on it still;
// all but its tail, which is given in the next step, or before slots are looked at or another
// function runs. `hooks` may be NULL.
GanStatus exec_step(Exec *e, const Counters *c, const ExecHooks *hooks);
GanStatus exec_wait(Exec *e); // for all work given so far
// For all work of the steps so far. All-reduces of a tail are in flight until then: it comes before
// the end, and before what is asked of the communicator about them (comm_reset_feedback).
GanStatus exec_finish(Exec *e);
// Loads the step, and waits until it runs the code that stays (DeviceApi.ready): to time it, or to
// check it.
GanStatus exec_ready(Exec *e);
// One launch of the step alone (Plan.launch[]), waited for; where exec_launches.
GanStatus exec_launch(Exec *e, uint32_t launch, const Counters *c);
// How far the weights are trained: what entry points read as step, epoch and kimg, 0 until told.
// Their draws follow from the counters they are run with, so that these may stay as weights change.
void exec_set_progress(Exec *e, const Counters *c);
double exec_progress(const Exec *e, uint32_t slot); // of one of these numbers
// Runs Module.entry[entry] and waits for it.
GanStatus exec_entry(Exec *e, uint32_t entry, const Counters *c, const ExecHooks *hooks);
// Slots are Module.slot[], nodes those of a plan's function. Values cross as f64 or f32 in logical
// order (row-major, batch first), converted to and from what the device stores. n: their number;
// GAN_ERR_INPUT when the slot has another.
GanStatus exec_slot_put(Exec *e, uint32_t slot, const double *x, size_t n);
GanStatus exec_slot_put_f32(Exec *e, uint32_t slot, const float *x, size_t n);
GanStatus exec_slot_get(Exec *e, uint32_t slot, double *x, size_t n);
// Shared values (weights, state) in their own precision and logical order: for checkpoints, exact
// to the bit. bytes: [exec_slot_bytes].
size_t exec_slot_bytes(const Exec *e, uint32_t slot);
GanStatus exec_slot_save(Exec *e, uint32_t slot, void *bytes);
GanStatus exec_slot_load(Exec *e, uint32_t slot, const void *bytes);
// A stored value of the function that ran last: x [n] as of a slot.
GanStatus exec_value_get(Exec *e, const Plan *p, uint32_t node, double *x, size_t n);
// The same as the device stores it: type_bytes bytes.
GanStatus exec_value_save(Exec *e, const Plan *p, uint32_t node, void *bytes);
GanStatus exec_value_load(Exec *e, const Plan *p, uint32_t node, const void *bytes);
// An asynchronous read of a stored scalar: exec_fetched_number waits until the device has come as
// far as it was when exec_fetch_number was called, and for nothing later. At most exec_fetches() at
// once; where that is 0 every number is there as soon as it is asked for.
typedef struct FetchedNumber {
    bool there;      // `value` is it; else:
    uint64_t ticket; // the device's
    Dtype dtype;     // as it is stored
    double value;
} FetchedNumber;
uint32_t exec_fetches(const Exec *e);
GanStatus exec_fetch_number(Exec *e, const Plan *p, uint32_t node, FetchedNumber *out);
GanStatus exec_fetched_number(Exec *e, const FetchedNumber *f, double *x);

Share exec_share(const Exec *e); // the samples held here; all of them on one rank
const Module *exec_module(const Exec *e);
bool exec_launches(const Exec *e); // its device runs launches one by one
const Plan *exec_step_plan(const Exec *e);
bool exec_absorbs(const Exec *e, uint32_t region); // of the step, which has been loaded
size_t exec_bytes(const Exec *e);                  // slot and work memory it holds

// No number of `bytes` is infinite or NaN. n: bytes.
bool values_finite(const void *bytes, size_t n, Dtype dtype);

#endif
