// link_mpi_internal.h - inside the MPI plugin: the link, and what its files do for each other.
//
//   link_mpi.c              opens and closes it; its vtable
//   link_mpi_handshake.c    handshakes of all ranks
//   link_mpi_liveness.c     liveness requests, which find stragglers
//   link_mpi_collectives.c  what follows a handshake: all-reduce, all-gather, broadcast
//   link_mpi_cma.c          all-reduce on one machine, by cross-memory attach
//   link_mpi_shared.c       memory that the ranks of one machine share: who sleeps
#ifndef GAN_LINK_MPI_INTERNAL_H
#define GAN_LINK_MPI_INTERNAL_H

#include "link_mpi.h"

#include <mpi.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>

enum { HOST_NAME = 64 };
enum { TRANSFER = QUEUES }; // MPI's tag; that of a handshake is its queue

typedef struct Group { // ranks that communicate: an MPI communicator
    MPI_Comm comm;
    int rank, size; // of this process, in it
} Group;

typedef struct Progress {      // of a rank, as it answers a liveness request
    uint64_t sequence[QUEUES]; // of the handshakes it has posted
    uint32_t step[QUEUES];
    uint32_t heard; // it has answered
} Progress;

typedef struct LivenessMessage LivenessMessage;
struct LivenessMessage { // MPI's until `sent` is
    LivenessMessage *next;
    Progress what;
    MPI_Request sent;
};

typedef struct SendBuffer { // one message to several ranks, MPI's until `sent` is
    struct SendBuffer *next;
    char *at; // owned, as all here
    size_t bytes;
    MPI_Request *sent; // [n]
    int n, room;
} SendBuffer;

typedef struct MpiQueue { // messages of a queue, and where this rank is in it
    SendBuffer *buffer;
    char *in; // everyone's messages of a round; owned, grows
    size_t in_n;
    void **part;            // [size] operands of a sum; owned
    atomic_ullong sequence; // as last posted
    atomic_uint step;
} MpiQueue;

typedef struct Inbox {                     // of a rank; a line of cache each
    _Alignas(64) atomic_uint sent[QUEUES]; // messages to it; its thread sleeps until that changes
    atomic_bool asleep[QUEUES];
} Inbox;

typedef struct Shared { // by all ranks, if they are of one machine; begins as zeros
    Inbox inbox[1];     // [size]
} Shared;

typedef struct Cma { // cross-memory attach: ranks of one machine that may access each other's
                     // memory
    pid_t *pid;      // [size], owned; NULL: they are not, or may not
    double *address; // [size], owned: of what each rank reduces, if `exchanged`
    bool exchanged;  // by the first queue's last handshake
} Cma;

typedef struct MpiLink {
    Link link;
    const LinkHost *host; // borrowed
    NodeSums asked;
    int subset; // ranks of one; see handshake_wait
    Group world;
    MPI_Comm liveness;
    Group node, across;      // where Link.nodes: this rank's node; the ranks of this place in all
    int least_in_node;       // ranks; those places take part in sums across nodes
    char (*name)[HOST_NAME]; // [size] hosts; owned, as all below
    size_t *from;            // [size + 1] bytes: parts of a transfer
    void *scratch;           // grows
    size_t scratch_n;
    void **part; // [size] operands of a sum
    Cma cma;
    Shared *shared; // where memory can be accessed (Cma.pid), else NULL
    MpiQueue queue[QUEUES];
    Handshake last;            // of the first queue: what follows it has its deadline
    pthread_mutex_t lock;      // guards what follows
    Progress *progress;        // [size] as last answered
    LivenessMessage *messages; // sent so far; reused
} MpiLink;

#define FAIL(l, ...) ((l)->host->fail(GAN_ERR_DEVICE, __VA_ARGS__))
#define MPI(l, call, ...) mpi_checked(l, #call, call(__VA_ARGS__))

// --- link_mpi.c ----------------------------------------------------------------------------------

GanStatus mpi_checked(const MpiLink *l, const char *call, int code); // of an MPI call, as a status
size_t size_of(Dtype dtype);                                         // f64, f32, bf16: bytes
GanStatus scratch_need(MpiLink *l, size_t bytes);                    // of MpiLink.scratch

// --- link_mpi_handshake.c ------------------------------------------------------------------------

GanStatus handshake_post(Link *link, const Handshake *hs); // LinkApi.post
// LinkApi.wait.
GanStatus handshake_wait(Link *link, const Handshake *hs, uint64_t least_most[2], bool *waited);

typedef struct Wait {        // for messages of other ranks; begins as zeros
    unsigned looks;          // that found nothing
    unsigned sent;           // Inbox.sent before the last of them
    double began, ask, fail; // when it began; when it asks all ranks for a sign of life; when it
                             // fails
    bool asked;
} Wait;
// After a look that found nothing: answers liveness requests, and sleeps a little. Past the
// deadline of `hs` it fails, naming the stragglers.
GanStatus wait_more(MpiLink *l, const Handshake *hs, Wait *w);

// --- link_mpi_liveness.c -------------------------------------------------------------------------

void liveness_serve(MpiLink *l);   // takes what has arrived: requests are answered, answers kept
void liveness_request(MpiLink *l); // of all ranks
GanStatus liveness_fail(MpiLink *l, const Handshake *hs); // names who has not posted it
bool liveness_free(MpiLink *l);                           // false where MPI still has some of it
void liveness_idle(Link *link);                           // LinkApi.idle

// --- link_mpi_collectives.c ----------------------------------------------------------------------

GanStatus collective_reduce(Link *link, CommKind kind, Dtype dtype, void *data, size_t n,
                            float *lost);
GanStatus collective_gather(Link *link, void *data, const size_t *from);
GanStatus collective_bcast(Link *link, void *data, size_t bytes, int root);
// Returns once every rank has come to it.
GanStatus collective_barrier(MpiLink *l);

// --- link_mpi_cma.c ------------------------------------------------------------------------------

// Finds out whether all ranks may access each other's memory. Collective.
GanStatus cma_open(MpiLink *l);
// Handshake `hs`, with everyone's Handshake.reduces where memory will be accessed after it.
Handshake cma_exchange(MpiLink *l, const Handshake *hs);
// Reduces, as CommTree says, n numbers that lie at the addresses of the last handshake
// (cma.exchanged).
GanStatus cma_reduce(MpiLink *l, CommKind kind, Dtype dtype, size_t n);
void cma_free(MpiLink *l);

// --- link_mpi_shared.c ---------------------------------------------------------------------------

// Creates the memory, a file without a name that the caller closes; -1: it cannot.
int shared_create(const MpiLink *l);
// Maps that which process `pid` has as `file`; false: it cannot be opened.
bool shared_map(MpiLink *l, int64_t pid, int file);
void shared_free(MpiLink *l);
// Says that a message to rank `to` has been sent, or one from it received: its thread of that queue
// wakes.
void shared_notify(MpiLink *l, int to, uint32_t queue);
unsigned shared_sent(const MpiLink *l, uint32_t queue); // to this rank; 0 where none share memory
// Sleeps until that is not `sent` any more, for so many seconds (below 1) at most.
void shared_sleep(MpiLink *l, uint32_t queue, unsigned sent, double seconds);

#endif
