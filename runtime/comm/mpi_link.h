// mpi_link.h - inside the MPI plugin: the link, and what its files do for each other.
//
//   link_mpi.c       opens and closes it; its vtable
//   link_mpi_meet.c  meetings (rendezvous of all ranks)
//   link_mpi_roll.c  roll calls, which find stragglers
//   link_mpi_sum.c   transfers after meetings: all-reduce, all-gather, broadcast
//   link_mpi_near.c  all-reduce on one machine, through each other's memory
#ifndef GAN_MPI_LINK_H
#define GAN_MPI_LINK_H

#include "link_mpi.h"

#include <mpi.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>

enum { HOST_NAME = 64 };
enum { TRANSFER = LANES }; // MPI's tag; that of a meeting is its lane

typedef struct Progress { // of a rank, as it answers a roll call
    uint64_t turn[LANES]; // of the meetings it has posted
    uint32_t step[LANES];
    uint32_t heard; // it has answered
} Progress;

typedef struct RollMessage RollMessage;
struct RollMessage { // of a roll call, MPI's until `sent` is
    RollMessage *next;
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

typedef struct MpiLane { // messages of a lane, and where this rank is in it
    SendBuffer *buffer;
    char *in; // everyone's messages of a round; owned, grows
    size_t in_n;
    atomic_ullong turn; // as last posted
    atomic_uint step;
} MpiLane;

typedef struct Near { // ranks that are all on one machine and may access each other's memory
    pid_t *pid;       // [size], owned; NULL: they are not, or may not
    double *at;       // [size], owned: the addresses of what each rank adds up, if `told`
    bool told;        // the first lane's last meeting exchanged them
} Near;

typedef struct MpiLink {
    Link link;
    const LinkHost *host; // borrowed
    NodeSums asked;
    int group;               // ranks of one; see meet_all
    MPI_Comm world, aside;   // tasks; roll calls
    MPI_Comm node, across;   // where Link.nodes: this rank's node; the first ranks of all nodes, on
                             // others null
    char (*name)[HOST_NAME]; // [size] hosts; owned, as all below
    int *count, *first;      // [size] of a gather
    void *room;              // grows
    size_t room_n;
    Near near;
    MpiLane lane[LANES];
    pthread_mutex_t lock; // guards what follows
    Progress *progress;   // [size] as last answered
    RollMessage *rolls;   // sent so far; reused
} MpiLink;

#define FAIL(l, ...) ((l)->host->fail(GAN_ERR_DEVICE, __VA_ARGS__))
#define MPI(l, call, ...) mpi_checked(l, #call, call(__VA_ARGS__))

// --- link_mpi.c ----------------------------------------------------------------------------------

GanStatus mpi_checked(const MpiLink *l, const char *call, int code); // of an MPI call, as a status
size_t size_of(Dtype dtype);                                         // f64, f32
GanStatus room_need(MpiLink *l, size_t bytes);                       // of MpiLink.room

// --- link_mpi_meet.c -----------------------------------------------------------------------------

GanStatus meet_post(Link *link, const Meeting *m);                                // LinkApi.post
GanStatus meet_all(Link *link, const Meeting *m, uint64_t tags[2], bool *waited); // LinkApi.meet
// Whoever waits in a lane, since `began`: looks again at once, or sleeps a little.
void back_off(const MpiLink *l, uint32_t lane, double began);

// --- link_mpi_roll.c -----------------------------------------------------------------------------

void roll_listen(MpiLink *l); // takes what has come in: questions are answered, answers noted
void roll_call(MpiLink *l);   // asks all
GanStatus roll_absent(MpiLink *l, const Meeting *m); // fails, naming who has not come to it
bool roll_free(MpiLink *l);                          // false where MPI still has some of it
void roll_idle(Link *link);                          // LinkApi.idle
GanStatus roll_missing(Link *link, const Meeting *m, double seconds); // LinkApi.missing

// --- link_mpi_sum.c ------------------------------------------------------------------------------

GanStatus sum_reduce(Link *link, CommKind kind, Dtype dtype, void *data, size_t n, float *lost);
GanStatus sum_gather(Link *link, void *data, const size_t *from);
GanStatus sum_bcast(Link *link, void *data, size_t bytes, int root);
// Sends one part on and receives another; polls with `back_off`.
GanStatus exchange(MpiLink *l, MPI_Datatype type, const void *out, int outs, int to, void *in,
                   int ins, int from);

// --- link_mpi_near.c -----------------------------------------------------------------------------

// Finds out whether all ranks may reach each other's memory; every rank comes.
GanStatus near_open(MpiLink *l);
// Meeting `m`, with everyone's Meeting.moves where memory will be reached behind it.
Meeting near_tell(MpiLink *l, const Meeting *m);
// Adds up, as CommTree says, n numbers that lie where all were told at their last meeting
// (near.told).
GanStatus near_reduce(MpiLink *l, CommKind kind, Dtype dtype, size_t n);
void near_free(MpiLink *l);

#endif
