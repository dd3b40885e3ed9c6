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
#include "monitor.h"
#include "progress.h"
#include "ranks.h"
#include "runlog.h"
#include "sampler.h"
#include "watch.h"

typedef struct Grid { // what a save shows of a `sample`
    Sampler sampler;
    Str folder; // of the run
    size_t n;   // samples
    float *x;   // [n, ...]
} Grid;

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
    Monitor monitor;                  // owned
    VEC(Grid) grid;                   // of saves; none: the model has nothing to display
    size_t n_real;                    // samples of the data the first is compared with; 0: none
    float *real;                      // [n_real, c, h, w]
    bool out_of_patience;             // no more steps
    bool past;                        // more steps are done than were asked for: nothing is changed
    uint32_t step;                    // steps launched
    uint32_t taken;                   // steps whose numbers were read; later ones may be in flight
    StepLine line[METER_STEPS];       // of the steps in flight, by number
    double began[METER_STEPS], ended; // clock: when a step was launched; when the last one was read
    LinkModel link;                   // between the ranks
    Trace *trace;                     // NULL: none
    double block;                     // clock: when the current block began
    float stop;                       // 1: a rank had a request to stop when this step began
    Watch *watch;                     // borrowed; only while steps are repeated
    Timing timing;
    HealthWord said; // the last health verdict that was printed
} Train;

Counters counters_of(const Train *t); // of the next step
GanStatus train_steps(Train *t);      // all remaining steps. GAN_STOPPED on request
void train_tell(const Train *t);      // sets what samples read as step, epoch and kimg
// Launches one step.
GanStatus train_run_step(Train *t, const Counters *c);

// The initial state, the same on every rank: the newest checkpoint, else drawn from the seed.
GanStatus train_restore(Train *t, bool resume, Checkpoint *at);

// Selects the stage in which a run continues, by its newest checkpoint; sets t->step.
GanStatus stage_choose(Train *t, bool resume);
void stage_tell(const Train *t);
bool stage_begins(const Train *t); // a later one, at its first step
// Initializes such a stage: weights and state by name and shape, each from the last stage that had
// it.
GanStatus stage_begin(Train *t, const Checkpoint *want, Checkpoint *at);
// Reports any error of a later stage that can be found now, and the memory of each.
GanStatus stages_check(const Train *t);

// Is step t->step + 1 timed? On all ranks or none: a timed step ends with its own tail.
bool train_timed(const Train *t);
GanStatus train_time_launch(Train *t, uint32_t launch, bool done, const Counters *c);
// After a step that was timed: the shares in its line of the log, valid until the next one.
const Parts *train_time_end(Train *t);

GanStatus train_images(Train *t); // buffers for the sample grids of saves, if there are any
GanStatus train_save(Train *t);   // after step t->step
GanStatus train_page(Train *t);   // index.html alone
// After a save, and when a run is resumed: evaluates the step if that is due and was not done, and
// sets t->out_of_patience. All ranks. GAN_STOPPED: requested meanwhile; the resumed run evaluates
// it.
GanStatus train_score(Train *t);
void train_tell_patience(const Train *t);

// Ends the run after a loss or weight that is not finite, with the first such operation named and
// the last checkpoint intact. `last`: the step in which it was found.
GanStatus train_not_finite(Train *t, uint32_t last, Str why);

#endif
