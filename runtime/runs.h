// runs.h - runs: what one is asked to do, what it leaves on disk, and the commands that make and
// read it.
//
//   RUN/resolved.gan          the model's text with its settings written in
//   RUN/options.json          the job: everything else needed to go on
//   RUN/log.jsonl             one line a step, one a save
//   RUN/samples/00000030.png  pictures from the same noise, after 30 steps
//   RUN/events.out.tfevents.* the log and the pictures, for TensorBoard
//   RUN/ckpt/00000030.*       safetensors: weights and state; json: written last, vouches for it
//   RUN/index.html            the run at a glance; opens from disk
//
// A run is a function of its job: killed anywhere and resumed, it makes the same bits. Nothing here
// prints; commands are given a Console.
#ifndef GAN_RUNS_H
#define GAN_RUNS_H

#include "comm.h"
#include "data.h"
#include "safetensors.h"
#include "health.h"
#include "options.h"
#include "run.h"
#include "shares.h"

typedef struct Console {                  // where a command's words go; main.c owns it
    void (*result)(void *user, Str text); // standard output, as it is
    void (*say)(void *user, Str line);    // standard error, one line
    void (*live)(void *user, Str line);   // replaces the last live line of a terminal
    bool tty;                             // live lines replace each other
    void *user;
} Console;

typedef struct Host { // what only main.c may know
    Console console;
    DeviceOptions device;     // cache folder, compiler, notices; threads come from options
    bool (*stop_asked)(void); // true: save and stop
    Str self;                 // path of this program
} Host;

// --- console.c -----------------------------------------------------------------------------------

void say(const Console *c, const char *format, ...);
// Opens a session and shows the model's diagnostics, warnings too.
GanStatus session_start(Session *s, const SessionOptions *o, const Console *console);

// --- job.c: what a run was asked to do -----------------------------------------------------------

typedef struct JobWeights { // of a pretrained net
    Str net, path;          // path: absolute; empty: not known yet
    Str hash;               // of what the net was given, 32 digits; empty: not known yet
} JobWeights;
typedef struct Job {
    Str model;  // path of the model's text: as given, or a run's resolved.gan
    Str origin; // path that was given when the run began
    Str from;   // --from, absolute: the run or checkpoint whose weights it begins with; or empty
    Str hash;   // the model's identity, 32 digits; a run never changes it
    int64_t batch, steps, save_every;
    int64_t keep; // newest checkpoints that stay, 0: CHECKPOINTS_KEPT
    uint64_t seed;
    Dtype real;
    Str device;
    int threads;   // of a rank; 0: its share of the cores
    size_t memory; // bytes its plans may take of a rank; 0: no limit. No bit depends on it
    bool tf32;     // cuda: part of what decides the bits
    bool no_graph; // cuda: of this process alone
    Split split;
    bool compress; // --compress bf16
    bool skip_bad;
    VEC(Setting) setting; // configs of the model
    VEC(Setting) data;    // field to path, absolute
    VEC(JobWeights) weights;
} Job;

// From a command line; `perm` keeps texts. GAN_ERR_USAGE with one line.
GanStatus job_from_options(Arena *perm, const Options *o, Job *out);
GanStatus job_set_data(Arena *perm, Job *job, const Options *o); // --data
GanStatus device_of(const Options *o, const DeviceApi **api, Dtype *real);
// What a model's file fixes, where it is a compiled one: batch and precision, which the command
// line may repeat but not change. A model's text fixes nothing.
GanStatus model_fixes(Arena *perm, Str path, const Options *o, int64_t *batch, Dtype *real);
void device_options(const Options *o, DeviceOptions *out); // what of them a device is told
bool option_tf32(const Options *o);
GanStatus path_absolute(Arena *a, Str path, Str *out);
void job_write(Text *t, const Job *job); // options.json
GanStatus job_read(Arena *perm, Str text, Str path, Job *out);
// What a command line may change of a run that goes on: how long, how often saved, where the data
// is, threads.
GanStatus job_resume(Arena *perm, Str dir, Job *job, const Options *o);
// The same for a command line that would begin a run which is there already (--resume auto): what
// is fixed must agree.
GanStatus job_rejoin(Arena *perm, Job *job, const Job *asked, const Options *o);
// `p`: how a step is divided; NULL: not at all.
SessionOptions job_session(const Job *job, const DeviceOptions *device, const Parallel *p);
// The identity of the model a job names, as `ganc hash` prints it.
GanStatus job_hash(const Job *job, Arena *perm, Str *out);
// GAN_ERR_INPUT where somebody has edited the text since job->hash was taken of it.
GanStatus job_unchanged(const Job *job, Arena *perm);
// The model's text with the job's settings as its defaults.
GanStatus job_resolved(const Job *job, Arena *perm, Str *out);

// --- folder.c: the folder of a run ---------------------------------------------------------------

bool run_is(Arena scratch, Str dir); // has options.json
// Takes the folder for this process, and clears what a kill left half written.
GanStatus run_lock(Arena *perm, Str dir, FileLock **out);
GanStatus run_create(Arena *perm, Str dir, const Job *job, Str resolved); // options.json last
GanStatus run_write_job(Arena *perm, Str dir, const Job *job);            // options.json alone
GanStatus run_read(Arena *perm, Str dir, Job *out); // job.model is resolved.gan
Str run_free_name(Arena *perm, Str model);          // "runs/00003-dcgan"
Str run_file(Arena *perm, Str dir, const char *folder, uint32_t step, const char *ext);

// --- feed.c: streams of data into slots ----------------------------------------------------------

typedef struct Feed Feed;
typedef struct FeedOptions {
    const Job *job;           // batch, seed, data, threads, skip_bad; borrowed
    const uint64_t *position; // [streams] batches consumed already, NULL: none
    void (*notice)(void *user, const char *text);
    void *user;
} FeedOptions;
// Opens the streams the model reads. An unknown or missing --data is GAN_ERR_USAGE with a
// suggestion.
GanStatus feed_open(Arena *perm, const Module *m, const FeedOptions *o, Feed **out);
void feed_close(Feed *f);                               // accepts NULL
GanStatus feed_begin(Feed *f, Exec *e);                 // a step's own batches
GanStatus feed_block(Feed *f, Exec *e, uint32_t block); // those of `next`s in this block
// An entry point's data: batch `position`, of as many samples as are held here, of every stream it
// reads. Training's own position stays.
GanStatus feed_entry(Feed *f, Exec *e, uint32_t entry, uint64_t position);
// Samples first, first + 1, ... of data slot `slot` in the order of its first epoch, as its files
// have them after all transforms but `map`: f32 [n, ...]; *got: there are. `first` is a multiple of
// the batch.
GanStatus feed_samples(Feed *f, uint32_t slot, size_t first, size_t n, float *out, size_t *got);
// Samples the slot's stream has; 0: nothing reads it, so it was not opened.
uint64_t feed_count(const Feed *f, uint32_t slot);
// The labels stored with the first n samples, whether or not the model reads them; false: none.
GanStatus feed_labels(Feed *f, uint32_t slot, size_t n, uint32_t *out, bool *found);
// Whole passes over the first stream that steps take batches of; what only a sample reads stays.
double feed_epoch(const Feed *f);
Str feed_identity(const Feed *f, Arena *a);                   // what the streams read, a line each
uint32_t feed_positions(const Feed *f, const uint64_t **out); // by stream of the module
double feed_seconds(const Feed *f);                           // spent here so far
GanStatus feed_seek(Feed *f, const uint64_t *position);       // [streams] batches consumed
// What stream `stream` gave as sample `i` of the batch taken last, as a user knows it; empty when
// nothing was taken.
Str feed_sample_name(const Feed *f, uint32_t stream, uint32_t i);

// --- meter.c: losses and reports of a step -------------------------------------------------------

typedef struct Series {
    Str name; // nets of the update joined by "+", or the report's
    Str base; // the name before it was made unique
    bool report;
    uint32_t rounds; // > 1: inside a repeat, logged as name0, name1, ...
    uint32_t first;  // its first round among all values
    double *value;   // [rounds] of the step taken last
    bool *seen;      // [rounds] it ran in that step
} Series;
typedef struct SeriesSource { // what logs in a series: one, or one a branch where only one runs
    uint32_t series, block;
    uint32_t index; // Func.update[] or Func.report[]
} SeriesSource;
typedef struct MeterStep { // numbers of one step, on their way from the device
    Later *later;          // [Meter.values]
    bool *seen;            // [Meter.values] it ran
} MeterStep;
// A device that fetches numbers without waiting is given METER_AHEAD steps more before those of a
// step are looked at.
enum { METER_AHEAD = 2, METER_STEPS = METER_AHEAD + 1 };
typedef struct Meter {
    const Module *module; // borrowed
    VEC(Series) series;   // losses, then reports
    VEC(SeriesSource) source;
    uint32_t values; // of all series, all rounds
    uint32_t ahead;  // steps that may be given to the device before one is taken
    uint32_t step;   // the one being read
    MeterStep under_way[METER_STEPS];
    bool broken; // a loss was not finite
    bool scaled; // losses are: where one is not finite its update was skipped
} Meter;
void meter_init(Arena *perm, const Module *m, Meter *out);
void meter_ahead(Meter *m, const Exec *e); // sets `ahead` to what the device can do; else it is 0
void meter_begin(Meter *m, uint32_t step); // at most `ahead` others are not taken yet
// Asks for what `block` has just computed; where nothing is ahead it is taken at once.
GanStatus meter_block(Meter *m, Exec *e, uint32_t block, uint32_t round);
// Waits for a step's numbers and puts them into the series; each step once, in order. GAN_ERR_INPUT
// when a loss is not a finite number, or its scale less than SCALE_LEAST.
GanStatus meter_take(Meter *m, Exec *e, uint32_t step);
double series_mean(const Series *s); // NaN when it did not run
// Is this a loss of nets alone that no `sample` of the model needs, though there is one?
bool meter_critic(const Meter *m, Arena scratch, uint32_t series);
Str meter_key(Arena *a, const Series *s, uint32_t round);
uint32_t tape_rounds(const Func *f, uint32_t block); // times a step runs the block
int64_t net_weights(const Module *m, uint32_t net);  // numbers, not counting state

// --- runlog.c: log.jsonl, and the curves drawn from it -------------------------------------------

enum { CURVE_BINS = 400 };
typedef struct Curve { // means over bins of equal width, doubled when all are used
    Str name;
    uint32_t width; // steps a bin
    uint32_t used;  // bins
    double sum[CURVE_BINS];
    uint32_t n[CURVE_BINS];
} Curve;
void curve_add(Curve *c, uint32_t step, double y); // step from 1; only finite numbers count
typedef struct RunLog {
    Str path;
    const Meter *meter; // borrowed
    Curve *curve;       // [series], then the distance of the pictures from the data
    uint32_t curves;
    Health health; // of the losses, by series; follows from the log
} RunLog;
// Keeps the lines up to `step`, drops the rest (and a torn one), and rebuilds the curves.
GanStatus runlog_open(Arena *perm, Str dir, uint32_t step, const Meter *m, RunLog *out);
typedef struct StepLine {
    uint32_t step;
    int64_t images;
    double step_ms, data_ms;
    const Parts *parts; // of a step that was timed: where time went; else NULL
} StepLine;
GanStatus runlog_step(RunLog *l, Arena scratch, const StepLine *line); // and what the meter saw
typedef struct Distance { // sliced Wasserstein, sample grid to data; NaN: not measured
    double pictures;      // whole pictures: colour and composition
    double patches;       // 7x7 patches on a Laplacian pyramid: texture
    double spread;        // how much samples differ from one another, of how much data do
} Distance;
Str runlog_health(const RunLog *l, Arena *a); // the word, and whose it is
GanStatus runlog_save(RunLog *l, Arena scratch, uint32_t step, Distance d);
// How long that took, from the pictures to the page.
GanStatus runlog_saved(const RunLog *l, Arena scratch, uint32_t step, double seconds);

// --- checkpoint.c --------------------------------------------------------------------------------

SafeTensor slot_tensor(const Slot *s); // how a weight or state is stored
enum { CHECKPOINTS_KEPT = 3, STREAMS_MOST = 64 };
typedef struct Checkpoint {
    uint32_t step; // steps done
    uint64_t seed;
    Str model; // its hash
    Dtype real;
    uint32_t streams;
    uint64_t position[STREAMS_MOST]; // batches consumed
    uint32_t keep;                   // of a save: checkpoints that stay, 0: CHECKPOINTS_KEPT
} Checkpoint;
// Writes slots that outlive a step, exactly; json last; then drops all but the newest `keep`.
// Weights that are not finite are refused (GAN_ERR_INPUT): what was saved before is worth more.
GanStatus checkpoint_save(Arena scratch, Str dir, Exec *e, const Checkpoint *c);
typedef VEC(uint32_t) CheckpointSteps;
GanStatus checkpoint_steps(Arena *a, Str dir, CheckpointSteps *out); // of all there are, ascending
// Gives rank 0's slots that outlive a step to all ranks.
GanStatus checkpoint_share(Exec *e, Comm *c);
// GAN_ERR_DEVICE when these slots are not the same bits on every rank: they follow from the same
// sums, so a machine has made a mistake.
GanStatus checkpoint_compare(Exec *e, Comm *c);
bool stored_alike(Dtype a, Dtype b); // does a checkpoint of precision `a` load in `b`?
// Loads the newest whole checkpoint; damaged ones are passed over, with a line each to the console.
// *found false: there are none. GAN_ERR_INPUT: it is another model's, or all are damaged.
// With a want->step other than NONE no other is looked at.
GanStatus checkpoint_load(Arena *perm, Str dir, Exec *e, const Checkpoint *want,
                          const Console *console, Checkpoint *out, bool *found);
GanStatus checkpoint_newest(Arena *perm, Str dir, Str *out); // the file of the newest whole one

// --- page.c: index.html --------------------------------------------------------------------------

typedef struct Page {
    Str dir;
    const Job *job;
    const Module *module;
    const RunLog *log;
    uint32_t step; // steps done
} Page;
GanStatus page_write(Arena scratch, const Page *p);

// --- trained.c: a run opened to be looked at -----------------------------------------------------

typedef struct Trained {
    Str dir; // the run's folder
    Job job;
    Session session; // owned; weights are those of the newest checkpoint
    Feed *feed;      // owned; NULL until trained_feed
    uint32_t step;   // steps trained
} Trained;
// o->file[0] is the folder; --device, --threads and --data are looked at.
GanStatus trained_open(Arena *perm, const Host *h, const Options *o, Trained *out);
// The same; its entry points' uniform and normal draws are slots to be fed.
GanStatus trained_open_fed(Arena *perm, const Host *h, const Options *o, Trained *out);
// The weights of the checkpoint of step `step`, NONE: the newest whole one.
GanStatus trained_load(Arena *perm, const Host *h, Trained *t, uint32_t step);
GanStatus trained_feed(Arena *perm, const Host *h, Trained *t); // opens its data
void trained_close(Trained *t);                                 // accepts an empty one

// --- progress.c ----------------------------------------------------------------------------------

typedef struct Progress {
    const Console *console;
    const Meter *meter;
    const Shares *shares;
    const Health *health;
    const Comm *comm; // NULL: one rank
    int64_t batch, save_every;
    size_t device_bytes;  // of a device with a memory of its own; 0: it has none
    uint32_t first, last; // steps: where this process began, where the run ends
    double data, save;    // seconds spent so, since `began`
    double last_save;     // seconds of the newest save; 0: this process has made none
    // its own:
    double began, last_line; // clock
    double before;           // seconds waited for sums before `began`
    double reset;            // clock: since when the figures shown are means
    uint32_t shown_step;
    Spent shown;
} Progress;
Spent progress_spent(const Progress *p); // since `began`
// The columns of a tick as StyleGAN's users know them, after `step` steps and `time` seconds of
// this process; a tick is what lies between two saves, with one of them. `spent`: since
// p->shown_step.
void progress_speed(Text *t, const Progress *p, uint32_t step, const Spent *spent, double time);
// The first line: the model, its nets, its data, the device.
void progress_title(Arena scratch, const Console *c, const Session *s, const Job *job);
void progress_begin(Progress *p);                              // the first step begins
void progress_step(Progress *p, Arena scratch, uint32_t step); // shows a line when it is time
void progress_end(Progress *p, Arena scratch, uint32_t step);

// --- train.c, sample.c, eval.c, bench.c, doctor.c, demo.c: the commands --------------------------

typedef struct TrainOptions {
    Str dir;              // a run to go on with, or one to begin
    bool resume;          // the former
    bool replan;          // measure the link between the ranks again
    Str trace;            // "FIRST:LAST", empty: none
    const DeviceApi *api; // opened instead of the job's device; NULL: that one
} TrainOptions;
// Trains. GAN_STOPPED when the host (on many ranks: one of them) was asked to stop.
GanStatus train_run(Arena *perm, const Host *h, Job *job, const TrainOptions *o);
GanStatus cmd_train(Arena *perm, const Host *h, const Options *o);
GanStatus cmd_sample(Arena *perm, const Host *h, const Options *o);
GanStatus cmd_eval(Arena *perm, const Host *h, const Options *o);
GanStatus cmd_scale(Arena *perm, const Host *h, const Options *o);
GanStatus cmd_bench(Arena *perm, const Host *h, const Options *o);
GanStatus cmd_doctor(Arena *perm, const Host *h, const Options *o);
GanStatus cmd_export(Arena *perm, const Host *h, const Options *o);   // export.c
GanStatus cmd_film(Arena *perm, const Host *h, const Options *o);     // film.c
GanStatus cmd_interp(Arena *perm, const Host *h, const Options *o);   // interp.c
GanStatus cmd_report(Arena *perm, const Host *h, const Options *o);   // report.c
GanStatus cmd_distance(Arena *perm, const Host *h, const Options *o); // distance.c
GanStatus cmd_diff(Arena *perm, const Host *h, const Options *o);
GanStatus cmd_demo(Arena *perm, const Host *h, const Options *o);

#endif
