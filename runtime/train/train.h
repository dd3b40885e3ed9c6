// train.h - private to training: the state of a run that trains, and the interface of its files.
//
//   train.c         the loop over steps
//   train_open.c    starts or resumes a run; the command
//   train_stages.c  the stages of a run: selects one, initializes it, checks later ones in advance
//   train_save.c    a save: samples, checkpoint, page
//   train_score.c   evaluates samples every so many steps and finds the best step
//   train_repeat.c  repeats steps to find where a non-finite number came from
//   train_time.c    profiles some steps launch by launch
#ifndef GAN_TRAIN_H
#define GAN_TRAIN_H

#include "checkpoint.h"
#include "events.h"
#include "gauge.h"
#include "progress.h"
#include "ranks.h"
#include "runlog.h"
#include "sampler.h"
#include "watch.h"

// Steps timed launch by launch, by their numbers, wherever a run was cut: one in TIMED_EVERY, which
// no `every` of a model divides, so that in time steps of every kind are among them.
enum { TIMED_EVERY = 101, TIMED_FIRST = 7 };
typedef struct Timing {
    Shares shares;
    double began; // clock: of the launch at work
    Parts parts;  // what the time since the step timed before went for
    Spent spent;  // until then
} Timing;

typedef struct Train {
    Arena *perm;
    const Host *host;
    Comm *comm; // borrowed from the host; NULL: one rank
    Job *job;
    Str dir;
    FileLock *lock; // owned, with what follows
    Session session;
    Feed *feed;
    Meter meter;
    RunLog log;
    Events events; // the same for TensorBoard
    Progress progress;
    Gauge gauge; // owned
    Sampler sampler;
    size_t pictures;            // of a grid; 0: the model shows none
    float *picture;             // [pictures, c, h, w]
    size_t reals;               // samples of the data they are compared with; 0: none
    float *real;                // [reals, c, h, w]
    uint32_t step;              // steps given to the device
    uint32_t taken;             // steps whose numbers are in: the later ones may still be at work
    StepLine line[METER_STEPS]; // of those, by number
    double began[METER_STEPS], ended; // clock: when a step began; when the last one taken was in
    LinkModel link;                   // between the ranks
    Trace *trace;                     // NULL: none
    double block;                     // when the present block began
    float stop;                       // 1: some rank was asked to stop as this step began
    Watch *watch;                     // borrowed; NULL but while steps are repeated
    Timing timing;
    HealthWord said; // the last word on the run's health
} Train;

Counters counters_of(const Train *t); // of the step to come
GanStatus train_steps(Train *t);      // all that are left. GAN_STOPPED when asked to
void train_tell(const Train *t);      // what samples read as step, epoch and kimg
// One step given to the device, no more.
GanStatus train_run_step(Train *t, const Counters *c);

// The state to begin with, the same on every rank: the newest checkpoint's, else what the seed
// gives.
GanStatus train_restore(Train *t, bool resume, Checkpoint *at);

// The stage that a run goes on with, by the newest of its checkpoints; t->step: steps done.
GanStatus stage_choose(Train *t, bool resume);
void stage_tell(const Train *t);
bool stage_begins(const Train *t); // a later one, at its first step
// Such a stage takes what those before it have left: weights and state by name and shape, each as
// the last stage that had it left it.
GanStatus stage_begin(Train *t, const Checkpoint *want, Checkpoint *at);
// Whatever would stop a later stage, as far as can be known now, each with the memory it takes.
GanStatus stages_check(const Train *t);

// Is step t->step + 1 timed? On all ranks or none: a timed step ends with its own tail.
bool train_timed(const Train *t);
GanStatus train_time_launch(Train *t, uint32_t launch, bool done, const Counters *c);
// Behind a step that was timed: what goes in its line of the log, valid until the next one.
const Parts *train_time_end(Train *t);

GanStatus train_pictures(Train *t); // room for the grids of saves, where the model shows any
GanStatus train_save(Train *t);     // after step t->step
GanStatus train_page(Train *t);     // index.html alone
// Behind a save, and where a run goes on: measures the step if that is due and was not done. All
// ranks. GAN_STOPPED: asked to stop meanwhile; the run goes on with it.
GanStatus train_score(Train *t);

// A loss or weight that is not finite ends the run where everything before it is still there to be
// looked at, with the operation it began with named. `last`: the step it was met in.
GanStatus train_not_finite(Train *t, uint32_t last, Str why);

#endif
