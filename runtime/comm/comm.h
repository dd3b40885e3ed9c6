// comm.h - communication between ranks: nonblocking collectives that overlap with computation.
//
//   Comm   one rank's communicator: a queue of jobs and a progress thread that carries them out in
//          order. Small jobs overtake large ones and are carried out by the caller. The transport
//          is a Link (comm_link.h): MPI (a plugin, link_mpi.c), threads of one process
//          (link_local.c), or none (link_null.c).
//
// A collective is started and waited for: between the two its data belongs to the communicator.
// Every rank starts the same jobs in the same order; nothing is negotiated. Sums have the same bits
// on every rank. When a rank misses the deadline, or the link fails, every later call fails with
// the first message: failures are permanent.
//
// Thread rule: one calling thread at a time (link_local has one Comm a thread).
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

typedef struct CommJob {
    uint32_t id; // the caller's, a small number; at most one job with this id is outstanding
    CommKind kind;
    Dtype dtype; // f64, f32, bf16 (added in f32, rounded once)
    Dtype wire;  // of sums: dtype, or bf16 for f32 data, which halves the bytes; the rounding error
                 // is fed back into the next sum of this id (error feedback; comm_reset_feedback)
    void *data;  // [n] in place, borrowed until comm_wait
    size_t n;    // elements; of a gather: of all ranks together
    size_t unit; // gather: elements a sample. Rank r of R brings samples floor(rS/R) to
                 // floor((r+1)S/R)-1 of S = n / unit, where they lie in data; others: 0
    uint32_t step; // for messages and traces
    // For the same: "bucket 3, D.conv.2 (model.gan:31)". Outlives the Comm; NULL: unnamed.
    const char *what;
} CommJob;

int comm_rank(const Comm *c); // 0 of NULL: no communicator is one rank
int comm_size(const Comm *c); // 1 of NULL
// Nodes of a hierarchical all-reduce (within each node first, then across); 0: it is flat.
int comm_nodes(const Comm *c);

// Queues a job and returns at once. One of up to COMM_SMALL bytes (ir.h) has been sent, and
// comm_wait receives the others'. Fails only when the communicator has failed.
GanStatus comm_start(Comm *c, const CommJob *job);
// Returns when job `id` is done and its data is the caller's again; at once when none is
// outstanding. GAN_ERR_DEVICE when a rank missed the deadline: which, on which host, at which job
// and step. After a failure the data of all started jobs stays the communicator's until
// comm_disconnect.
GanStatus comm_wait(Comm *c, uint32_t id);
// From here on f32 sums of at least `least` bytes are sent as bf16, whatever their job says; 0:
// none. The same on all ranks.
void comm_compress(Comm *c, size_t least);
// While muted, sums and gathers do nothing: to measure a step without them.
void comm_mute(Comm *c, bool muted);
// The cores that computing threads leave free, among those that this rank shares with others:
// decides between spinning and sleeping. Set while no job is outstanding; CoresOversubscribed until
// then. Accepts NULL.
typedef enum CommCores {
    CoresOversubscribed, // more threads compute than there are cores: every waiting thread sleeps
    CoresFull,           // none: the progress thread sleeps between polls, bound to its caller's
                         // core
    CoresFew,            // less than a core a progress thread: it sleeps between polls
    CoresSpare           // a core for each: it spins
} CommCores;
void comm_set_cores(Comm *c, CommCores cores);
CommCores comm_cores(const Comm *c); // as set; CoresOversubscribed of NULL
// Clears the error feedback of compressed sums: at every checkpoint, so that a run resumed there
// has the same bits. While no sum is outstanding.
void comm_reset_feedback(Comm *c);

// --- control: small blocking collectives of host memory ------------------------------------------

GanStatus comm_barrier(Comm *c);
GanStatus comm_bcast(Comm *c, void *data, size_t bytes, int root);
GanStatus comm_gather(Comm *c, const void *mine, size_t bytes, void *all); // all: [size][bytes]
GanStatus comm_any(Comm *c, bool mine, bool *any);                         // logical or

// --- opening -------------------------------------------------------------------------------------

typedef struct CommOptions {
    double deadline;           // seconds that a collective may take once this rank waits, and that
                               // opening may take; 0: unlimited
    bool wait;                 // comm_start returns when the job is done (--overlap off)
    bool null;                 // data jobs do nothing; control works (--comm null)
    double wire_us, wire_gbit; // wire model: each job takes at least wire_us + bytes / wire_gbit;
                               // 0, 0: none
} CommOptions;

const CommOptions *comm_options(const Comm *c); // as opened; borrowed
bool comm_talks(const Comm *c);                 // data jobs reach other ranks; false of NULL
size_t comm_compressed(const Comm *c);          // as set by comm_compress
GanStatus comm_health(Comm *c);                 // GAN_OK, or why it has failed

typedef struct LinkApi LinkApi; // comm_link.h
// The link is opened by the progress thread. NULL arg where the link takes none. When it misses the
// deadline, the process must end soon and without exit handlers.
GanStatus comm_open(const LinkApi *link, void *arg, const CommOptions *o, Comm **out);
// Collective, after success on every rank. Accepts NULL.
void comm_close(Comm *c);
// This rank ends, with `why` as the reason: the others fail with the same status and "another rank
// ended" at their next collective. True when every rank left with the same reason: then one reports
// for all. Print the reason, then call comm_disconnect. Accepts NULL: true.
bool comm_leave(Comm *c, GanStatus why);
// After comm_leave: releases the link once the others have reported, too, as launchers kill all
// ranks when one exits. Waits for seconds at most. Where comm_leave returned false the process must
// end soon and without exit handlers, as the progress thread may never return. Accepts NULL.
void comm_disconnect(Comm *c);

// Ranks that are threads of this process. A hub is created once and passed to each rank's comm_open
// in `arg` (LocalRank); it outlives them.
typedef struct LocalHub LocalHub;
GanStatus local_hub_new(int ranks, LocalHub **out);
void local_hub_free(LocalHub *h); // accepts NULL
typedef struct LocalRank {
    LocalHub *hub; // borrowed
    int rank;
} LocalRank; // what arg points to; read while comm_open runs
extern const LinkApi link_local;

// No transport: rank `rank` of `size` alone, whose jobs do nothing. arg: NullRank.
typedef struct NullRank {
    int rank, size;
} NullRank;
extern const LinkApi link_null;

// --- statistics and traces -----------------------------------------------------------------------

typedef struct CommStats { // data jobs since comm_stats_clear
    double busy;           // seconds inside the link: waiting for other ranks, transferring
    double exposed;        // seconds the caller spent in comm_wait
    uint64_t jobs, bytes;
} CommStats;
CommStats comm_stats(Comm *c); // zeros of NULL
void comm_stats_clear(Comm *c);

typedef struct CommEvent { // times on the clock of time_now
    uint32_t id, step;
    const char *what;
    size_t bytes;
    double ready;      // comm_start
    double start, end; // of the transfer
    double met;        // all ranks had arrived
    double wait, go;   // comm_wait: called, returned
} CommEvent;
// Turns recording an event for every job waited for on or off, until comm_events_clear.
void comm_trace(Comm *c, bool on);
// Oldest first; borrowed until the next call.
uint32_t comm_events(const Comm *c, const CommEvent **out);
void comm_events_clear(Comm *c);

#endif
