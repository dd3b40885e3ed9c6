// job.h - a run: its options, and its files.
//
//   RUN/resolved.gan          the model's text, with settings (-s) as defaults
//   RUN/options.json          the job: all other options, needed to resume
//   RUN/log.jsonl             one line per step, one per save
//   RUN/samples/00000030.png  samples of fixed noise after 30 steps; of sounds also .wav
//   RUN/samples/NAME/         the same of the model's other `sample`s
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
typedef struct Split { // how a step is divided, from options
    int64_t chunks;    // --deterministic, 0: off
    int64_t micro;     // --micro: number of micro-batches of a rank; 0, 1: one
    int64_t bucket;    // --bucket-mb: bytes of a gradient bucket, 0: from the link model
} Split;

typedef struct JobWeights { // of a pretrained net
    Str net, path;          // path: absolute; empty: not known yet
    Str hash;               // of the weights that were loaded, 32 digits; empty: not known yet
} JobWeights;
typedef VEC(JobWeights) JobWeightsVec;
typedef VEC(Setting) Settings;
typedef VEC(Str) Strs;

// What a field's data said of themselves as the run began: other data mean the same by the same
// numbers.
typedef struct FieldFacts {
    Str field;     // empty, in a run of an older version: one of its labels
    Strs name;     // of a label's classes; none: they are numbers
    bool ranged;   // of numbers: `scale` maps
    double lo, hi; // these, their extremes
    uint32_t rate; // of sounds, in Hz; 0: unknown, or no sounds
} FieldFacts;
typedef VEC(FieldFacts) FactVec;
#define FEATURES_MARK "features." // prefix of -s and --weights pairs for the model of --features
typedef struct FeaturesAsked {    // --features, and the options of its model
    Str path;                     // of the model of features, empty: none
    Settings setting;             // its configs
    JobWeightsVec weights;        // of its pretrained nets
} FeaturesAsked;
typedef struct MonitorOptions { // evaluation during training (monitor.h); no bit of the run depends
                                // on it
    Str metric;                 // empty: none
    FeaturesAsked features;     // its path is absolute
    Str entry;                  // `sample` to evaluate, empty: the first that the metric applies to
    int64_t count;              // samples
    int64_t every;              // steps; 0: at each save
    int64_t patience;           // evaluations without a new best that end the run; 0: none do
} MonitorOptions;
typedef struct JobStage { // a run without `stages` in its text has one
    uint32_t first, last; // number of steps done where it begins, and where it ends
    int64_t samples;      // of all steps before it
    int64_t batch;        // samples of a step, on all ranks
    Settings setting;     // configs: the run's, then the stage's own
    Str says;             // the stage's own settings as text, "size=8"
} JobStage;
typedef struct Job {
    Str model;  // path of the model's text: as given, or a run's resolved.gan
    Str text;   // the model's text if it was read before, so that later edits have no effect
    Str origin; // path that was given when the run began
    Str from;   // --from, absolute: run or file of the initial weights; or empty
    bool from_optimizer; // --from-optimizer: and of the optimizers' initial state
    Str hash;            // the model's identity, 32 digits; fixed for the life of a run
    int64_t batch;       // of the run; a stage may set its own (job_batch)
    int64_t save_every;  // steps
    int64_t steps;       // of all stages; 0: from the text, else DEFAULT_STEPS (job_hash)
    int64_t kimg;        // --kimg, which job_hash converts to steps; 0: not given
    int64_t keep;        // newest checkpoints to keep, 0: CHECKPOINTS_KEPT
    uint64_t seed;
    Dtype real;       // --precision
    Str device;       // its name
    int threads;      // of a rank; 0: its share of the cores
    size_t memory;    // limit of a rank's plans in bytes; 0: none. No bit depends on it
    bool tf32;        // cuda: changes the bits
    bool no_graph;    // cuda: of this process alone, not stored
    bool no_branches; // the same
    Split split;
    bool compress;       // --compress bf16
    bool skip_bad;       // samples that cannot be read are left out
    FactVec fact;        // of its fields that have any
    FactVec like;        // of those of the run of --from, as this one begins; not stored
    uint32_t rate;       // sample rate of its sounds in Hz, from the data; 0: no sounds
    Settings setting;    // configs of the model
    VEC(JobStage) stage; // in order, set by job_hash; empty before
    uint32_t now;        // the current stage[]
    Str now_hash;        // the identity of its model; with one stage equal to `hash`
    Settings data;       // field to path, absolute
    JobWeightsVec weights;
    Str mark; // prefix of its -s and --weights in messages: FEATURES_MARK for that model
    MonitorOptions monitor;
} Job;

// From a command line; `perm` keeps texts. GAN_ERR_USAGE with one line.
GanStatus job_from_options(Arena *perm, const Options *o, Job *out);
// --data: the sources of the fields that it names, in place of those they had.
GanStatus job_set_data(Arena *perm, Job *job, const Options *o);
bool job_names_data(const Options *o, Str field);           // --data has a source of it
const FieldFacts *job_facts(const FactVec *all, Str field); // none: all empty
// Whether a pair of -s or --weights is for the model of --features; the prefix is then removed from
// its key. With `eval --features` every pair is.
bool pair_of_features(const Options *o, Setting *pair);
// --features and the options of its model; without --features, changes those in *f.
GanStatus features_asked(Arena *perm, const Options *o, FeaturesAsked *f);
GanStatus device_of(const Options *o, const DeviceApi **api, Dtype *real);
// Batch and precision of a compiled model, which the command line may repeat but not change; a text
// leaves both unchanged.
GanStatus model_fixes(Arena *perm, Str path, const Options *o, int64_t *batch, Dtype *real);
void device_options(const Options *o, DeviceOptions *out); // those that a device reads
GanStatus path_absolute(Arena *a, Str path, Str *out);
// Applies the options that may change when a run is resumed: length, intervals, paths of the data,
// threads; GAN_ERR_USAGE for one that is fixed.
GanStatus job_resume(Arena *perm, Str dir, Job *job, const Options *o);
// The same for --resume auto, whose command line repeats all options: those that are fixed must
// agree.
GanStatus job_rejoin(Arena *perm, Job *job, const Job *asked, const Options *o);

// --- job_json.c: options.json --------------------------------------------------------------------

void job_write(Text *t, const Job *job);
// GAN_ERR_INPUT if a path of the job is not UTF-8, so that JSON cannot hold it.
GanStatus job_writable(const Job *job);
GanStatus job_read(Arena *perm, Str text, Str path, Job *out);
// GAN_ERR_USAGE if the format that this JSON file names is not `own`, such as a later version.
GanStatus job_format(const Json *root, Str path, Str own);

// --- stages.c: to the compiler -------------------------------------------------------------------

// `p`: how a step is divided; NULL: not at all.
SessionOptions job_session(const Job *job, const DeviceOptions *device, const Parallel *p);
// The identity of the job's model, as `ganc hash` prints it; sets the job's stages and, unless they
// were given, its steps from the text. Diagnostics of an invalid model go to `c`.
GanStatus job_hash(Job *job, const Console *c, Arena *perm, Str *out);
// The same, and GAN_ERR_INPUT if the text was edited since job->hash was computed.
GanStatus job_unchanged(Job *job, const Console *c, Arena *perm);
// After job_hash: selects the stage whose weights exist after `step` steps, or with `next` the one
// that trains the following step.
GanStatus job_stage(Job *job, Arena *perm, uint32_t step, bool next);
const JobStage *job_now(const Job *job);
int64_t job_batch(const Job *job); // of the current stage; before job_hash, the run's
int64_t job_samples(const Job *job, uint32_t step); // of the steps up to `step`, of all stages
// The seed of random draws and of the order of the data: each stage has its own.
#define SEED_MOST ((uint64_t)1 << 53) // exact in JSON
uint64_t job_seed(const Job *job);
Str job_stage_text(const Job *job, Arena *perm); // "stage 2 of 3, size=8"; empty: only one
// The model's text with the job's settings as its defaults.
GanStatus job_resolved(const Job *job, Arena *perm, Str *out);

// --- folder.c: the folder of a run ---------------------------------------------------------------

bool run_is(Arena scratch, Str dir);           // has options.json
GanStatus run_spares(Arena scratch, Str path); // GAN_ERR_USAGE: a run's own file, or their folder
GanStatus run_want(Arena scratch, Str dir);    // GAN_ERR_INPUT: it is none, and why
// Locks the folder for this process, and removes temporary files of a killed one.
GanStatus run_lock(Arena *perm, Str dir, FileLock **out);
GanStatus run_create(Arena *perm, Str dir, const Job *job, Str resolved); // options.json last
GanStatus run_rewrite(Arena *perm, Str dir, const Job *job); // options.json, as it resumes
GanStatus run_read(Arena *perm, Str dir, Job *out);          // job.model is resolved.gan
// A folder of its own for a run that names none, "runs/00003-dcgan", created empty.
GanStatus run_claim(Arena *perm, Str model, Str *out);
Str run_file(Arena *perm, Str dir, Str folder, uint32_t step, const char *ext);
// The folders of its sample images: "samples", then by name "samples/NAME" of each other `sample`.
GanStatus run_samples(Arena *a, Str dir, StrVec *out);

#endif
