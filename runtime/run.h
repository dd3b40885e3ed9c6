// run.h - what the program ganrun does with models: verify, train, sample, bench. Above the
// compiler and the devices.
#ifndef GAN_RUN_H
#define GAN_RUN_H

#include "driver.h"
#include "rt.h"

// --- session.c: a model compiled for, and opened on, a device ------------------------------------

typedef struct SessionOptions {
    CompileOptions compile; // dialect and no_fuse are set from the device
    const DeviceApi *api;
    DeviceOptions device;
    const uint64_t *seed; // weights and state begin with what it gives; NULL: with zeros. Borrowed
    bool steps;           // the step will be run: it is loaded as soon as its plan is there
} SessionOptions;

typedef struct Session {
    Arena perm;   // everything below lives here
    Arena beside; // but for plans made by a second thread
    Front front;  // diagnostics of the model
    Compiled compiled;
    const DeviceApi *api;
    Device *device; // owned
    Exec *exec;     // owned
} Session;

// `init` runs while the step and the entries are being planned and the step is loaded. On failure
// the session holds the model's diagnostics (if any) until released.
GanStatus session_open(Session *s, const SessionOptions *o);
void session_release(Session *s); // accepts an empty session

// --- verify.c: reference cases (docs/verify.md) --------------------------------------------------

typedef struct Split { // how a step is divided, as asked for
    int64_t chunks;    // --deterministic, 0: off
    int64_t micro;     // --micro: a rank's samples in so many parts; 0, 1: at once
    int64_t bucket;    // bytes of gradients reduced at once, 0: as the link says
} Split;

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

#endif
