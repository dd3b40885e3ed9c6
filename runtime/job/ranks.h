// ranks.h - one job on many ranks: launch, agreement, communication options.
//
// Every rank runs the same program with the same arguments. Rank 0 alone writes files and prints
// what all ranks would say. Any difference between ranks that would change a result is found before
// the first step and reported.
#ifndef GAN_RANKS_H
#define GAN_RANKS_H

#include "comm.h"
#include "job.h"
#include "pass.h"

typedef struct LinkModel { // of one collective: seconds + bytes / bandwidth
    double latency;        // s; of what is larger than COMM_SMALL and has a thread of its own
    double bandwidth;      // bytes/s
    double small;          // s; of what is no larger
    double core, byte;     // s that a large one takes of a core: each, and for each byte
} LinkModel;

// --- ranks.c: from a launcher to a communicator --------------------------------------------------

typedef struct Launcher { // what the launcher has said in the environment
    const char *by;       // "mpirun", "srun"; NULL: started alone
    int64_t rank, ranks;  // as the launcher counts; ranks 1: alone
    bool told;            // MPI can learn from it who the ranks are
} Launcher;
// `variable` is getenv: only main.c may call it.
Launcher launcher_detect(const char *(*variable)(const char *name));

typedef struct RankSetup {
    Launcher launch;
    Str plugin;       // path of the MPI plugin
    CommOptions comm; // deadline, wire model, null
    Str nodes;        // --hierarchical: "auto", "on", "off"
} RankSetup;
// The file ranks need: beside the program, or where `cmake --install` puts it.
Str ranks_plugin(Arena *a, Str program);
// Opens MPI and refuses what would train the same model several times over: no MPI, or an MPI that
// does not see the launcher's other ranks.
GanStatus ranks_open(const RankSetup *s, Comm **out);
// Chooses the threads of this rank from the cores it may use (`asked`: this many, 0: choose), tells
// the communicator what they leave (comm_room) and rank 0's console who is where. `gpu`: the card
// this rank would compute on (DeviceApi.card), "" for none; GAN_ERR_DEVICE on all ranks where two
// would share one and `share` is false.
GanStatus ranks_preflight(Arena scratch, Comm *c, const Console *console, int64_t asked,
                          const char *gpu, bool share, int *threads);
// "US,GBIT", as `word` was given it: a wire; and what a link over it is.
GanStatus wire_read(const char *word, Str text, double *us, double *gbit);
LinkModel wire_link(double us, double gbit);
// Whether --comm is for ranks that compute so.
GanStatus ranks_comm_fits(const Options *o, bool cuda);
// What the words of a command line ask of a communicator: --deadline --wire --comm --overlap.
GanStatus ranks_comm_options(const Options *o, CommOptions *out);
CardRoute ranks_route(const Options *o); // the same of ranks on cards
// --deterministic, --micro, --bucket-mb. GAN_ERR_USAGE.
GanStatus ranks_split(const Options *o, Split *out);
// How a step of `batch` samples is divided. GAN_ERR_USAGE for fewer samples than ranks, or parts
// that the ranks or the batch do not go into.
GanStatus ranks_parallel(const Comm *c, int64_t batch, const Split *split, LinkModel m,
                         Parallel *out);
enum { COMPRESS_LEAST = 64 << 10 }; // --compress: bytes; statistics and losses are smaller
bool ranks_first(const Comm *c);    // the rank that writes and speaks; true on one rank

// --- agree.c: what must be equal -----------------------------------------------------------------

// Fails on every rank, in the same words, when `mine` is not the same text everywhere: which rank,
// and the first piece that differs (pieces end at `separator`: lines, members of JSON).
GanStatus ranks_agree(Arena scratch, Comm *c, const char *what, char separator, Str mine);
// This program's version and its libraries', one a line; `plugin`: path of the MPI plugin.
Str program_text(Arena *a, Str plugin);
// The list of collectives of a plan, one a line: the same on every rank, or they would wait for
// each other for ever.
Str plan_collectives(Arena *a, const Plan *p);

// --- link_model.c --------------------------------------------------------------------------------

// By the time of sums of three sizes now, in some 50 ms; the same on all ranks.
GanStatus link_measure(Comm *c, LinkModel *out);
// The model kept with run `dir`, else (and where dir is empty) as measured; what plans follow from,
// latency and bandwidth, rounded to powers of two, the rest 0. Zeros on one rank.
GanStatus link_find(Arena scratch, Comm *c, Str dir, LinkModel *out);
GanStatus link_keep(Arena scratch, Str dir, LinkModel m); // link.json
// False: it is not there, or what it says is no link's.
bool link_kept(Arena scratch, Str dir, LinkModel *out);

// --- trace.c: a step on a time line --------------------------------------------------------------

typedef struct Trace Trace;
// `steps` is "FIRST:LAST", counted from 1; empty: *out is NULL, which the others accept. `dir` gets
// trace.rankN.json of each rank and, from rank 0, trace.json with all.
GanStatus trace_open(Arena *perm, Comm *c, Str dir, Str steps, Trace **out);
// GAN_ERR_USAGE when none of its steps is among those behind step `done`, up to `last`.
GanStatus trace_within(const Trace *t, int64_t done, int64_t last);
// A part of step `step` that began at `began` (time_now) and ends now.
void trace_part(Trace *t, uint32_t step, const char *name, uint32_t number, double began);
void trace_step(Trace *t, uint32_t step, double began); // the step, with its collectives
// Takes the communicator's events so far, whose names are the session's: before that is released.
void trace_events(Trace *t);
GanStatus trace_close(Trace *t); // all ranks: writes the files
// What of the waits that the communicator has kept (comm_trace) no communication caused, in
// seconds, a mean over the ranks: of each call the rank that comes last waits for its transfer
// alone, the others for that rank besides. The same on all ranks, which all come.
GanStatus trace_late(Arena scratch, Comm *c, double *seconds);

#endif
