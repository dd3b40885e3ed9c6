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

typedef struct LinkModel { // time of a collective: latency + bytes / bandwidth
    double latency;        // s; of one larger than COMM_SMALL, on the communication thread
    double bandwidth;      // bytes/s
    double small;          // s; of a smaller one
    double core, byte;     // s of processor time of a large one: fixed, and per byte
} LinkModel;

// --- ranks.c: from a launcher to a communicator --------------------------------------------------

typedef struct Launcher { // from the launcher's environment variables
    const char *by;       // "mpirun", "srun"; NULL: no launcher
    int64_t rank, ranks;  // as the launcher counts; ranks 1: no other rank
    bool told;            // MPI can find the other ranks through it
} Launcher;
// `variable` is getenv: only main.c may call it.
Launcher launcher_detect(const char *(*variable)(const char *name));

typedef struct RankSetup {
    Launcher launch;
    Str plugin;       // path of the MPI plugin
    CommOptions comm; // deadline, wire model, null
    Str nodes;        // --hierarchical: "auto", "on", "off"
} RankSetup;
// Path of the MPI plugin: beside the program, or where `cmake --install` puts it.
Str ranks_plugin(Arena *a, Str program);
// Opens MPI. GAN_ERR_DEVICE without MPI, or if MPI does not see all of the launcher's ranks: each
// would train the same model alone.
GanStatus ranks_open(const RankSetup *s, Comm **out);
// Chooses the number of threads of this rank from the cores it may use (`asked`: --threads, 0:
// choose) and finds its place among the ranks of its machine (DeviceOptions.peers), sets
// comm_set_cores, and prints a table of hosts and cores on rank 0's console. `gpu`: the card of
// this rank (DeviceApi.card), "" for none; GAN_ERR_DEVICE on all ranks if two have the same and
// `share` is false.
GanStatus ranks_preflight(Arena scratch, Comm *c, const Console *console, int64_t asked,
                          const char *gpu, bool share, DeviceOptions *out);
// Parses "US,GBIT", the value of option `word`; and the model of a link with these figures.
GanStatus wire_read(const char *word, Str text, double *us, double *gbit);
LinkModel wire_link(double us, double gbit);
// GAN_ERR_USAGE if --comm does not apply to this device.
GanStatus ranks_comm_fits(const Options *o, bool cuda);
// From --deadline, --wire, --comm and --overlap.
GanStatus ranks_comm_options(const Options *o, CommOptions *out);
// The ranks were asked for the same: of a run what they compare before their jobs, of `bench` and
// `verify` all options and files.
GanStatus ranks_agree_asked(Arena *a, Comm *c, const Options *o);
CardRoute ranks_route(const Options *o); // from --comm, for ranks on cards
// --deterministic, --micro, --bucket-mb. GAN_ERR_USAGE.
GanStatus ranks_split(const Options *o, Split *out);
// How a step of `batch` samples is divided. GAN_ERR_USAGE for fewer samples than ranks, or numbers
// of parts that ranks or batch are not divisible by.
GanStatus ranks_parallel(const Comm *c, int64_t batch, const Split *split, LinkModel m,
                         Parallel *out);
enum { COMPRESS_LEAST = 64 << 10 }; // --compress: bytes; statistics and losses are smaller
bool ranks_first(const Comm *c);    // the rank that writes and speaks; true on one rank

// --- agree.c: consistency between ranks ----------------------------------------------------------

// Fails on every rank, with the same message, unless `mine` is the same text on all: it names a
// rank and the first piece that differs (pieces end at `separator`: lines, members of JSON).
GanStatus ranks_agree(Arena scratch, Comm *c, const char *what, char separator, Str mine);
// Versions of this program and of its libraries, one a line; `plugin`: path of the MPI plugin.
Str program_text(Arena *a, Str plugin);
// The list of collectives of a plan, one a line: if it differed between ranks, they would deadlock.
Str plan_collectives(Arena *a, const Plan *p);

// --- link_model.c --------------------------------------------------------------------------------

// Times all-reduces of three sizes, in some 50 ms; the same result on all ranks.
GanStatus link_measure(Comm *c, LinkModel *out);
// The model stored with run `dir`, else (and if dir is empty) a measured one: latency and
// bandwidth, which plans depend on, rounded to powers of two, the rest 0. Zeros on one rank.
GanStatus link_find(Arena scratch, Comm *c, Str dir, LinkModel *out);
GanStatus link_keep(Arena scratch, Str dir, LinkModel m); // link.json
// Zeros: there is no such file. What is in one decides the plan, and so the bits of a resumed run.
GanStatus link_kept(Arena scratch, Str dir, LinkModel *out);

// --- trace.c: a step on a time line --------------------------------------------------------------

typedef struct Trace Trace;
// `steps` is "FIRST:LAST", counted from 1; empty: *out is NULL, which the others accept.
GanStatus trace_open(Arena *perm, Comm *c, Str steps, Trace **out);
// GAN_ERR_USAGE when none of its steps is among those behind step `done`, up to `last`.
GanStatus trace_within(const Trace *t, int64_t done, int64_t last);
// A part of step `step` that began at `began` (time_now) and ends now.
void trace_part(Trace *t, uint32_t step, const char *name, uint32_t number, double began);
void trace_step(Trace *t, uint32_t step, double began); // the step, with its collectives
// Before the session is released, which has the names of events. All ranks: `dir` gets
// trace.rankN.json of each rank and, from rank 0, trace.json with all, of what was recorded so far.
GanStatus trace_write(Trace *t, Str dir);
// Events of the format: a stretch of time on a line of a rank (seconds), whose object is left open
// for more members; and the name of a line or of the rank.
void trace_put_slice(JsonOut *j, int rank, int line, Str name, double began, double ended);
void trace_put_name(JsonOut *j, int rank, int line, const char *what, Str name);
// Collective. Straggler wait of the recorded events (comm_trace), in seconds, mean over the ranks:
// the rank that arrives last at a call waits only for the transfer, the others wait for that rank
// too.
GanStatus trace_late(Arena scratch, Comm *c, double *seconds);

#endif
