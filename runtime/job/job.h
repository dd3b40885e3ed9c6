// job.h - a run: its options, and its files.
//
//   RUN/resolved.gan          the model's text, with settings (-s) as defaults
//   RUN/options.json          the job: all other options, needed to resume
//   RUN/log.jsonl             one line per step, one per save
//   RUN/samples/00000030.png  samples of fixed noise after 30 steps; of sounds also .wav
//   RUN/events.out.tfevents.* log and samples for TensorBoard
//   RUN/ckpt/00000030.*       safetensors: weights and state; json, written last: their hash
//   RUN/index.html            summary page; opens from disk
//
// A run is a function of its job: killed anywhere and resumed, it gives the same bits.
#ifndef GAN_JOB_H
#define GAN_JOB_H

#include "console.h"
#include "data.h"
#include "options.h"

enum { DEFAULT_STEPS = 10000, STEPS_MOST = 99999999 };
typedef struct Split { // how a step is divided, as asked for
    int64_t chunks;    // --deterministic, 0: off
    int64_t micro;     // --micro: a rank's samples in so many parts; 0, 1: at once
    int64_t bucket;    // bytes of gradients reduced at once, 0: as the link says
} Split;

typedef struct JobWeights { // of a pretrained net
    Str net, path;          // path: absolute; empty: not known yet
    Str hash;               // of what the net was given, 32 digits; empty: not known yet
} JobWeights;
typedef VEC(JobWeights) JobWeightsVec;
typedef VEC(Setting) Settings;
typedef VEC(Str) Strs;
#define FEATURES_MARK "features." // before the name of what is told to its model
typedef struct FeaturesAsked {    // --features, and what its model is told
    Str path;                     // of the model of features, empty: none
    Settings setting;             // its configs
    JobWeightsVec weights;        // of its pretrained nets
} FeaturesAsked;
typedef struct Gauging { // what is measured while it trains (gauge.h); no bit of the run depends on
                         // it
    Str metric;          // empty: nothing
    FeaturesAsked features; // its path is absolute
    Str entry;              // `sample` that is measured, empty: the first there is a measure of
    int64_t count;          // samples
    int64_t every;          // steps; 0: at each save
} Gauging;
typedef struct JobStage { // of a run; one without `stages` in its text has one
    uint32_t first, last; // steps before it, and behind it
    int64_t samples;      // of the steps before it
    int64_t batch;        // samples of a step, on all ranks
    Settings setting;     // configs: the run's, then the stage's own
    Str says;             // what the stage sets, "size=8"
} JobStage;
typedef struct Job {
    Str model;     // path of the model's text: as given, or a run's resolved.gan
    Str text;      // of the model where it was read already, so that no edit gets in; else empty
    Str origin;    // path that was given when the run began
    Str from;      // --from, absolute: the run or checkpoint whose weights it begins with; or empty
    Str hash;      // the model's identity, 32 digits; a run never changes it
    int64_t batch; // of the run; a stage may set its own (job_batch)
    int64_t save_every;
    int64_t steps; // of all stages; 0: as many as the text says, else DEFAULT_STEPS (job_hash)
    int64_t kimg;  // --kimg, which job_hash turns into steps; 0: not given
    int64_t keep;  // newest checkpoints that stay, 0: CHECKPOINTS_KEPT
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
    Strs class_name;     // of its labels, as its data were found; empty: they are numbers
    uint32_t rate;       // of its sounds, numbers a second, as its data were found; 0: no sounds
    Settings setting;    // configs of the model
    VEC(JobStage) stage; // job_hash has found them, in order; empty before that
    uint32_t now;        // stage[] that is trained, or looked at
    Str now_hash;        // its model's identity; of a run of one stage `hash`
    Settings data;       // field to path, absolute
    JobWeightsVec weights;
    Str mark; // before the names of its -s and --weights: FEATURES_MARK of a model of features
    Gauging gauge;
} Job;

// From a command line; `perm` keeps texts. GAN_ERR_USAGE with one line.
GanStatus job_from_options(Arena *perm, const Options *o, Job *out);
GanStatus job_set_data(Arena *perm, Job *job, const Options *o); // --data
// Whether a pair of -s or --weights is told to the model of --features; its key then is without the
// mark that says so. Of `eval` with --features every pair is.
bool pair_of_features(const Options *o, Setting *pair);
// --features, and what its model is told; of the same file, over what it was told before.
GanStatus features_asked(Arena *perm, const Options *o, FeaturesAsked *f);
GanStatus device_of(const Options *o, const DeviceApi **api, Dtype *real);
// What a model's file fixes, where it is a compiled one: batch and precision, which the command
// line may repeat but not change. A model's text fixes nothing.
GanStatus model_fixes(Arena *perm, Str path, const Options *o, int64_t *batch, Dtype *real);
void device_options(const Options *o, DeviceOptions *out); // what of them a device is told
bool option_tf32(const Options *o);
GanStatus path_absolute(Arena *a, Str path, Str *out);
void job_write(Text *t, const Job *job); // options.json
// GAN_ERR_INPUT where a path of the job could not be read again from there: it is not UTF-8.
GanStatus job_writable(const Job *job);
GanStatus job_read(Arena *perm, Str text, Str path, Job *out);
// What a command line may change of a run that goes on: how long, how often saved, where the data
// is, threads.
GanStatus job_resume(Arena *perm, Str dir, Job *job, const Options *o);
// The same for a command line that would begin a run which is there already (--resume auto): what
// is fixed must agree.
GanStatus job_rejoin(Arena *perm, Job *job, const Job *asked, const Options *o);

// GAN_ERR_USAGE: this JSON file says that it is of another format than `own`, such as a later one.
GanStatus job_format(const Json *root, Str path, Str own);

// --- stages.c: to the compiler -------------------------------------------------------------------

// `p`: how a step is divided; NULL: not at all.
SessionOptions job_session(const Job *job, const DeviceOptions *device, const Parallel *p);
// The identity of the model a job names, as `ganc hash` prints it; its stages and, where nobody
// said, its steps are set as the text says. A model that is wrong is told to `c`.
GanStatus job_hash(Job *job, const Console *c, Arena *perm, Str *out);
// The same, and GAN_ERR_INPUT where somebody has edited the text since job->hash was taken of it.
GanStatus job_unchanged(Job *job, const Console *c, Arena *perm);
// Once job_hash is known: goes to the stage that holds the weights after `step` steps, or, where
// `next`, the one that makes the step behind it.
GanStatus job_stage(Job *job, Arena *perm, uint32_t step, bool next);
const JobStage *job_now(const Job *job);
int64_t job_batch(const Job *job); // of the stage at hand; before job_hash, the run's
int64_t job_samples(const Job *job, uint32_t step); // of the steps up to `step`, of all stages
// What its draws and the order of its data follow from: each stage's are its own.
#define SEED_MOST ((uint64_t)1 << 53) // exact in JSON
uint64_t job_seed(const Job *job);
Str job_stage_text(const Job *job, Arena *perm); // "stage 2 of 3, size=8"; empty: there is but one
// The model's text with the job's settings as its defaults.
GanStatus job_resolved(const Job *job, Arena *perm, Str *out);

// --- folder.c: the folder of a run ---------------------------------------------------------------

bool run_is(Arena scratch, Str dir); // has options.json
// Takes the folder for this process, and clears what a kill left half written.
GanStatus run_lock(Arena *perm, Str dir, FileLock **out);
GanStatus run_create(Arena *perm, Str dir, const Job *job, Str resolved); // options.json last
GanStatus run_write_job(Arena *perm, Str dir, const Job *job);            // options.json alone
GanStatus run_read(Arena *perm, Str dir, Job *out); // job.model is resolved.gan
// A folder of its own for a run that names none, "runs/00003-dcgan", created empty.
GanStatus run_claim(Arena *perm, Str model, Str *out);
Str run_file(Arena *perm, Str dir, const char *folder, uint32_t step, const char *ext);

#endif
