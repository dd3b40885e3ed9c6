// host_run.h - for tests: a model compiled for, and opened on, the mock card (record.h).
#ifndef GAN_HOST_RUN_H
#define GAN_HOST_RUN_H

#include "session.h"
#include "record.h"

static const size_t CARD = (size_t)80 << 30; // bytes of device memory

typedef struct Run {
    Arena arena;
    Recorder *r;
    DeviceApi api;
    Compiled compiled;
    Device *device;
    Exec *exec;
} Run;

#define assert_fine(call)                                                                          \
    do {                                                                                           \
        if ((call) != GAN_OK)                                                                      \
            fail_msg("%s: %s", #call, gan_error());                                                \
    } while (0)

// The cuda device over the open recorder, to which every plan is announced.
DeviceApi recorded_device(void);

// `folder` empty: no model. `parallel` NULL: one rank.
Run *new_run(const char *folder, Str name, Dtype real, const Parallel *parallel);
Run *new_tiny(void); // tests/cli/tiny.gan
Run *new_bare(void); // no model
void free_run(Run *run);
void compile_model(Run *run, const char *name, Str text, Dtype real, const Parallel *parallel);
GanStatus open_run(Run *run, const DeviceOptions *o); // the device and the executor
// For DeviceOptions.notice: adds the device's message to `told`, as a line.
void keep_notice(void *user, const char *text);
extern char told[4096];
void close_run(Run *run);
GanStatus put_data(Run *run);
GanStatus do_steps(Run *run, uint32_t from, uint32_t to);           // and waits for them
GanStatus do_all(Run *run, const DeviceOptions *o, uint32_t steps); // every function
// Fails every call of `work` in turn: it must end without leaks and without using destroyed
// objects, and say why in the words of the library. It may survive single errors: an engine that
// does not run is not chosen. `run` is consumed.
void sweep_calls(Run *run, const DeviceOptions *o, Mishap mishap,
                 GanStatus (*work)(Run *run, const DeviceOptions *o, uint32_t steps));
void assert_clean(const Recorder *r, const char *what); // no complaints, no leaks

#endif
