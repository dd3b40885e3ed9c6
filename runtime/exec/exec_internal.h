// exec_internal.h - shared by the files of exec/ only.
#ifndef GAN_EXEC_INTERNAL_H
#define GAN_EXEC_INTERNAL_H

#include "exec.h"

// --- layout.c ------------------------------------------------------------------------------------

typedef struct LayoutWalk { // storage offsets of a value's elements, visited in logical order
    uint32_t rank;          // axes with the batch
    int64_t extent[MAX_RANK + 1], stride[MAX_RANK + 1], index[MAX_RANK + 1];
    int64_t at;
} LayoutWalk;
void walk_init(LayoutWalk *w, const Type *t, int64_t batch, bool logical);
int64_t walk_next(LayoutWalk *w);        // offset of the current element, in elements; moves on
bool walk_in_order(const LayoutWalk *w); // storage is in logical order
// All elements of a value, as they are, from logical order to storage and back. `w`: not yet moved
// on.
void layout_store(const LayoutWalk *w, Dtype dtype, const void *logical, void *stored);
void layout_load(const LayoutWalk *w, Dtype dtype, const void *stored, void *logical);
void value_put(void *storage, int64_t at, Dtype dtype, double x);
double value_get(const void *storage, int64_t at, Dtype dtype);

// --- exec.c, exec_values.c -----------------------------------------------------------------------

typedef struct PendingTail { // a tail (program.h)
    bool pending;            // it was left and has not run
    Counters counters;       // of the block that left it
} PendingTail;

struct Exec {
    const DeviceApi *api; // borrowed
    Device *device;       // borrowed
    const Module *module; // borrowed
    uint32_t n;           // functions: init, step, entries
    const Plan **plan;    // [n], borrowed; NULL but for init until exec_plans
    Loaded **loaded;      // [n], owned; NULL until first run
    void *slots, *work;   // owned device memory; work: NULL until exec_load_step or exec_plans
    void *init_work;      // owned; the work memory of `init` while it runs
    size_t slot_bytes, work_bytes;
    bool fresh;        // what `init` gives values is zero, as the device gave it
    double *staging;   // owned; grows
    size_t staged;     // bytes of it
    Counters trained;  // what entry points read as step, epoch and kimg
    PendingTail *tail; // [tails of the step's plan], room for one a block
};

enum { FuncInit, FuncStep, FuncEntry };
GanStatus exec_tails(Exec *e); // what was left is run: the last step has ended with all of it
GanStatus exec_staging(Exec *e, size_t bytes); // Exec.staging has room for so many

#endif
