// session.h - a model compiled for, and opened on, a device.
#ifndef GAN_SESSION_H
#define GAN_SESSION_H

#include "driver.h"
#include "exec.h"

typedef struct SessionOptions {
    CompileOptions compile; // dialect and no_fuse are set from the device
    const DeviceApi *api;
    DeviceOptions device;
    const uint64_t *seed; // weights and state begin with what it gives; NULL: with zeros. Borrowed
    bool steps;           // the step will be run: it is loaded as soon as its plan is there
    // Called once the module is known and the device open, before anything is drawn or compiled:
    // what does not suit the module is refused here. NULL: nothing is checked.
    GanStatus (*check)(void *user);
    void *user;
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

// What the compiler is asked for: the compile options, for the device.
CompileOptions session_compile(const SessionOptions *o);
// `init` runs while the step and the entries are being planned and the step is loaded. On failure
// the session holds the model's diagnostics (if any) until released.
GanStatus session_open(Session *s, const SessionOptions *o);
void session_release(Session *s); // accepts an empty session

#endif
