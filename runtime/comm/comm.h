// comm.h - what ranks say to each other: collectives that run while the caller computes.
//
//   Comm   one rank's communicator: jobs in the order they were started, and a thread of its own
//          that carries them out one after another; where the link allows it, what is small
//          overtakes them, carried out by the caller itself. Where the bytes go is the business of
//          a Link (link.h): MPI (a plugin, link_mpi.c), threads of one process (link_local.c),
//          nobody.
//
// A collective is started and waited for: between the two its data belongs to the communicator.
// Every rank starts the same jobs in the same order; there is no negotiation. Sums are the same
// bits on every rank. When a rank does not come within the deadline, or the link breaks, every
// later call fails with the first message: a communicator that is broken stays so.
//
// Thread rule: one thread at a time calls (the loop-back has one Comm a thread).
#ifndef GAN_COMM_H
#define GAN_COMM_H

#include "ir.h"

typedef struct Comm Comm; // opaque; one per rank

// --- collectives ---------------------------------------------------------------------------------

typedef enum CommKind {
    CommSum,    // all-reduce, added in the order the link finds fastest
    CommTree,   // all-reduce, added as ((0+1)+(2+3))+...: where ranks hold subtrees of 2^k leaves,
                // the bits depend on the number of leaves alone, not on which ranks hold them
    CommMax,    // all-reduce
    CommGather, // all-gather: afterwards every rank has all parts
    CommKinds
} CommKind;
extern const char *const comm_kind_name[CommKinds]; // "sum", "tree", "max", "gather"

typedef struct CommJob {
    uint32_t id; // caller's number of it, small; at most one with this number is under way
    CommKind kind;
    Dtype dtype;   // f64, f32, bf16 (added in f32, rounded once)
    Dtype wire;    // of sums: dtype, or bf16 for an f32: half the bytes; what rounding loses is
                   // kept and added the next time this id is started (comm_forget)
    void *data;    // [n] in place, borrowed until comm_wait
    size_t n;      // elements; of a gather: of all ranks together
    size_t unit;   // gather: elements a sample. Rank r of R brings samples floor(rS/R) to
                   // floor((r+1)S/R)-1 of S = n / unit, where they lie in data; others: 0
    uint32_t step; // for messages and traces
    const char *
        what; // for the same: "bucket 3, D.conv.2 (model.gan:31)"; outlives the Comm; NULL: unnamed
} CommJob;

int comm_rank(const Comm *c); // 0 of NULL: no communicator is one rank
int comm_size(const Comm *c); // 1 of NULL
// Nodes within which sums of any order are added first, then across; 0: of all ranks at once.
int comm_nodes(const Comm *c);
// Rank r's part of a batch of n samples over `size` ranks: *first and how many.
int64_t comm_share(int64_t n, int rank, int size, int64_t *first);

// Queues a job and returns at once; one of up to COMM_SMALL bytes (ir.h) is then on its way, and
// comm_wait does the rest. Only a broken communicator refuses.
GanStatus comm_start(Comm *c, const CommJob *job);
// Returns when job `id` is done and its data is the caller's again; at once when none is under way.
// GAN_ERR_DEVICE when a rank did not come in time: who, on which host, at which job and step. After
// a failure the data of all that was started stays the communicator's until comm_part.
GanStatus comm_wait(Comm *c, uint32_t id);
// From here on sums of f32 of at least `least` bytes travel as bf16, whatever their job says; 0:
// none do. All ranks say the same.
void comm_narrow(Comm *c, size_t least);
// While muted, sums and gathers do nothing: to see what a step takes without them.
void comm_mute(Comm *c, bool muted);
// What the threads that compute leave of the cores that this rank shares with others. No job is
// under way. Until it is said, the first. Accepts NULL.
typedef enum CommRoom {
    CommCrowded, // less than nothing, they take turns: whoever waits for others sleeps
    CommFull,    // nothing: the communicator's thread sleeps between looks, on its caller's core
    CommFew,     // less than a core for each communicator's thread: it sleeps between looks
    CommSpare    // a core for each: it looks all the time
} CommRoom;
void comm_room(Comm *c, CommRoom room);
CommRoom comm_room_left(const Comm *c); // as told; the first of NULL
// Drops what rounding to a narrower wire has kept: at every checkpoint, so that a run that resumes
// there makes the same bits.
void comm_forget(Comm *c);

// --- control: small things from host memory, all ranks, waited for -------------------------------

GanStatus comm_barrier(Comm *c);
GanStatus comm_bcast(Comm *c, void *data, size_t bytes, int root);
GanStatus comm_gather(Comm *c, const void *mine, size_t bytes, void *all); // all: [size][bytes]
GanStatus comm_any(Comm *c, bool mine, bool *any);                         // did one rank say yes?

// --- opening -------------------------------------------------------------------------------------

typedef struct CommOptions {
    double deadline;           // seconds a collective may take once this rank waits, and opening;
                               // 0: for ever
    bool wait;                 // comm_start returns when the job is done (--overlap off)
    bool null;                 // data jobs do nothing; control works (--comm null)
    double wire_us, wire_gbit; // wire model: each job takes at least wire_us + bytes / wire_gbit;
                               // 0, 0: none
} CommOptions;

const CommOptions *comm_options(const Comm *c); // as opened; borrowed
bool comm_talks(const Comm *c);                 // data jobs do something; false of NULL
size_t comm_narrowed(const Comm *c);            // what comm_narrow was told
GanStatus comm_health(Comm *c);                 // GAN_OK, or why it is broken

typedef struct LinkApi LinkApi; // link.h
// The link is opened by the communicator's thread. NULL arg where the link takes none. Where it is
// not open by the deadline, the process must end soon and without exit handlers.
GanStatus comm_open(const LinkApi *link, void *arg, const CommOptions *o, Comm **out);
// Orderly, every rank comes: when all went well. Accepts NULL.
void comm_close(Comm *c);
// This rank cannot go on, with `why` as the reason: tells the others, who fail with "another rank
// ended" at their next meeting. True when every rank left with the same reason: then one may speak
// for all. Say what there is to say, then comm_part. Accepts NULL: true.
bool comm_leave(Comm *c, GanStatus why);
// Behind comm_leave: lets go of the link once the others that know of it have come this far, for
// launchers end all ranks as soon as one has ended. Waits for seconds, not for ever. The process
// must end soon and without exit handlers where comm_leave said false, as the link's thread may
// never return. Accepts NULL.
void comm_part(Comm *c);

// Loop-back: ranks are threads of this process. A hub is made once and given to each rank's
// comm_open as `arg` of link_local; it outlives them.
typedef struct LocalHub LocalHub;
GanStatus local_hub_new(int ranks, LocalHub **out);
void local_hub_free(LocalHub *h); // accepts NULL
typedef struct LocalSeat {
    LocalHub *hub; // borrowed
    int rank;
} LocalSeat; // what arg points to; read while comm_open runs
extern const LinkApi link_local;

// Nobody: rank `rank` of `size` alone, whose jobs do nothing. arg: NullSeat.
typedef struct NullSeat {
    int rank, size;
} NullSeat;
extern const LinkApi link_null;

// --- what it cost --------------------------------------------------------------------------------

typedef struct CommStats { // data jobs since comm_stats_clear
    double busy;           // seconds the link was at them: waiting for other ranks, carrying
    double exposed;        // seconds the caller spent in comm_wait
    uint64_t jobs, bytes;
} CommStats;
CommStats comm_stats(const Comm *c); // zeros of NULL
void comm_stats_clear(Comm *c);

typedef struct CommEvent { // times on the clock of time_now
    uint32_t id, step;
    const char *what;
    size_t bytes;
    double ready;      // comm_start
    double start, end; // carried out
    double met;        // this rank knew that all had come to it
    double wait, go;   // comm_wait: came, went on
} CommEvent;
// From here on an event is kept of every job waited for, until comm_events_clear; or not.
void comm_trace(Comm *c, bool on);
// Oldest first; borrowed until the next call.
uint32_t comm_events(const Comm *c, const CommEvent **out);
void comm_events_clear(Comm *c);

#endif
