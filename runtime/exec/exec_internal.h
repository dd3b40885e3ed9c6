// exec_internal.h - shared by the files of exec/ only.
#ifndef GAN_EXEC_INTERNAL_H
#define GAN_EXEC_INTERNAL_H

#include "exec.h"
#include "layout.h"

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
