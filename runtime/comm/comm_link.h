// comm_link.h - the transport of a communicator. (<link.h> is the system's.)
//
// Every operation begins with a handshake of all ranks: each posts a fingerprint, the hash of the
// operation it is about to do, and waits for the others', so that ranks that disagree or have ended
// are found before any data is mixed. Small data is sent with the fingerprint (eagerly), so a small
// all-reduce is a handshake and no more; large data follows in a call of its own.
//
// There are two queues, independent sequences of handshakes. Each queue's calls come one after
// another, in the same order on every rank. All calls but `post` and `wait` of the second queue
// come from one thread, the communicator's progress thread, which opens the link. A link neither
// queues nor measures; comm.c does. Errors are GAN_ERR_DEVICE and leave the link unusable.
#ifndef GAN_COMM_LINK_H
#define GAN_COMM_LINK_H

#include "comm.h"

#include <stdatomic.h>

typedef struct Link { // a link embeds this first
    int rank, size;
    int nodes;       // of its hierarchical CommSum, within each first; 0: it is flat
    CommCores cores; // as comm_cores says, between calls
    bool two_level;  // a handshake completes only when every rank waits for it, not only has posted
    atomic_bool awaited; // the caller waits for the first queue: its core has nothing else to do
} Link;

enum { QUEUES = 2 };

typedef struct Handshake { // of one operation, before it is carried out
    uint32_t queue;        // below QUEUES
    uint32_t step;         // of training, for messages
    uint64_t sequence;     // number in this queue, from 1
    uint64_t fingerprint;  // of what this rank is about to do; equal on all ranks when all is well
    double until;          // deadline, also of what follows, on the clock of time_now; 0: none
    // Data sent with it: n numbers to add or compare, in place; 0: none. Of f64 or f32, at most
    // COMM_SMALL bytes.
    CommKind kind;
    Dtype dtype;
    void *data;
    size_t n;
    // What is reduced after it, for a link that accesses other processes' memory; NULL: none.
    void *reduces;
} Handshake;

struct LinkApi {
    const char *name;
    bool talks; // false: data jobs do nothing
    GanStatus (*open)(void *arg, Link **out);
    // Orderly: collective. Otherwise what other ranks or a library may still use is left behind.
    void (*close)(Link *l, bool orderly); // accepts NULL
    // Announces this rank and sends its data; does not wait. Several may be posted before the first
    // is waited for.
    GanStatus (*post)(Link *l, const Handshake *h);
    // After the post, in the same order. Returns when every rank has arrived, with the least and
    // the greatest fingerprint; where these are equal, data holds all ranks' combined in CommTree's
    // order. Past `until`, GAN_ERR_DEVICE names the ranks that are missing and, where known, where
    // they are. *waited: not all had arrived when it was called.
    GanStatus (*wait)(Link *l, const Handshake *h, uint64_t fingerprints[2], bool *waited);
    // Called about ten times a second while the first queue is idle: answers liveness requests of
    // other ranks. May be NULL.
    void (*idle)(Link *l);
    // What follows a handshake of the first queue, with the same deadline.
    // `lost` [n]: sums of bf16 add the rounding error of the result to it, on one rank; may be
    // NULL.
    GanStatus (*reduce)(Link *l, CommKind kind, Dtype dtype, void *data, size_t n, float *lost);
    // All-gather: rank r has bytes from[r]..from[r + 1] of data; afterwards all ranks have all.
    GanStatus (*gather)(Link *l, void *data, const size_t *from);
    GanStatus (*bcast)(Link *l, void *data, size_t bytes, int root);
};

// A link in a shared object. It is linked with nothing of this program: LinkHost has what it needs.
enum { LINK_PLUGIN_VERSION = 9 };
typedef struct LinkHost {
    GanStatus (*fail)(GanStatus code, const char *format, ...);
    double (*now)(void);
    void *(*alloc)(size_t n); // NULL when refused; zeroed
    void (*free)(void *ptr);
    void (*tree)(CommKind kind, Dtype dtype, void **part, size_t count, size_t n, size_t keep);
    void (*narrow)(const float *from, uint16_t *to, size_t n, float *lost);
    void (*widen)(const uint16_t *from, float *to, size_t n);
} LinkHost;
extern const LinkHost link_host; // reduce.c
typedef struct LinkPlugin {
    int version; // LINK_PLUGIN_VERSION
    const LinkApi *api;
    void (*library)(char *text, size_t n); // "Open MPI v4.1.4"; may be asked before open
} LinkPlugin;
#define LINK_PLUGIN_SYMBOL "gan_link_plugin" // const LinkPlugin

// link_plugin.c: loads one, for the life of the process. GAN_ERR_DEVICE with dlopen's message.
GanStatus link_plugin_load(Str path, const LinkPlugin **out);

// --- reduce.c ------------------------------------------------------------------------------------

// part [count]: arrays of n elements, f64 or f32, which do not overlap. They are combined (+ or
// max) pair by pair as CommTree says, in place: the result is in what part[keep] points to; the
// others and `part` itself are overwritten.
void link_tree(CommKind kind, Dtype dtype, void **part, size_t count, size_t n, size_t keep);
// To bf16, nearest, ties to even. What that takes is added to lost [n] (may be NULL); nothing is
// where a number is not finite, before or after: what is sent says so, and later ones may be.
void floats_narrow(const float *from, uint16_t *to, size_t n, float *lost);
void floats_widen(const uint16_t *from, float *to, size_t n);

#endif
