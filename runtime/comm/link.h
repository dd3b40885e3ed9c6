// link.h - the transport of a communicator.
//
// Every operation begins with a meeting, a rendezvous of all ranks: each posts a tag, the hash of
// the operation it is about to do, and waits for the others' tags, so that ranks that disagree or
// have ended are found before any data is mixed. Small data is sent with the tag, so a small
// all-reduce is a meeting and no more; large data follows in a call of its own.
//
// Lanes are independent sequences of meetings. Each lane's calls come one after another, in the
// same order on every rank. All calls but `post` and `meet` of the second lane and `missing` come
// from one thread, the communicator's progress thread, which opens the link. A link neither queues
// nor measures; comm.c does. Errors are GAN_ERR_DEVICE and leave the link unusable.
#ifndef GAN_LINK_H
#define GAN_LINK_H

#include "comm.h"

typedef struct Link { // a link embeds this first
    int rank, size;
    int nodes;     // of its hierarchical CommSum, within each first; 0: it is flat
    int lanes;     // 2: two threads may use it at once, each in its lane; else 1
    CommRoom room; // as comm_room says, between calls
    bool relays;   // a meeting completes only when every rank has entered `meet`, not only posted
} Link;

enum { LANES = 2 };

typedef struct Meeting { // one operation, before it is carried out
    uint32_t lane;       // below Link.lanes
    uint32_t step;       // of training, for messages
    uint64_t turn;       // sequence number in this lane, from 1
    uint64_t tag;        // what this rank is about to do; equal on all ranks when all is well
    double until;        // deadline, on the clock of time_now; 0: none
    // Data sent with it: n numbers to add or compare, in place; 0: none. Of f64 or f32, at most
    // COMM_SMALL bytes.
    CommKind kind;
    Dtype dtype;
    void *data;
    size_t n;
    // What is reduced after it, for a link that accesses other processes' memory; NULL: none.
    void *moves;
} Meeting;

struct LinkApi {
    const char *name;
    bool talks; // false: data jobs do nothing
    GanStatus (*open)(void *arg, Link **out);
    // Orderly: collective. Otherwise only this rank's memory is released.
    void (*close)(Link *l, bool orderly); // accepts NULL
    // Announces this rank and sends its data; does not wait. Several may be posted before the first
    // is met.
    GanStatus (*post)(Link *l, const Meeting *m);
    // After the post, in the same order. Returns when every rank has arrived, with the least and
    // the greatest tag; where these are equal, data holds all ranks' combined in CommTree's order.
    // Past `until`, GAN_ERR_DEVICE names the ranks that are missing and, where known, where they
    // are. *waited: not all had arrived when it was called.
    GanStatus (*meet)(Link *l, const Meeting *m, uint64_t tags[2], bool *waited);
    // Called about ten times a second while the first lane is idle: answers roll calls of other
    // ranks. May be NULL.
    void (*idle)(Link *l);
    // The transfer after meeting `m` hangs: calls the roll for `seconds`, and fails with the ranks
    // that do not answer. Called by the caller's thread, while the progress thread is inside the
    // transfer. May be NULL.
    GanStatus (*missing)(Link *l, const Meeting *m, double seconds);
    // `lost` [n]: sums of bf16 add the rounding error of the result to it, on one rank; may be
    // NULL.
    GanStatus (*reduce)(Link *l, CommKind kind, Dtype dtype, void *data, size_t n, float *lost);
    // All-gather: rank r has bytes from[r]..from[r + 1] of data; afterwards all ranks have all.
    GanStatus (*gather)(Link *l, void *data, const size_t *from);
    GanStatus (*bcast)(Link *l, void *data, size_t bytes, int root);
};

// A link in a shared object. It is linked with nothing of this program: LinkHost has what it needs.
enum { LINK_PLUGIN_VERSION = 6 };
typedef struct LinkHost {
    GanStatus (*fail)(GanStatus code, const char *format, ...);
    double (*now)(void);
    void *(*alloc)(size_t n); // NULL when refused; zeroed
    void (*free)(void *ptr);
    void (*combine)(CommKind kind, Dtype dtype, void *acc, const void *x, size_t n);
    void (*tree)(CommKind kind, Dtype dtype, void *parts, size_t stride, size_t count, size_t n);
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

// plugin.c: loads one, for the life of the process. GAN_ERR_DEVICE with dlopen's message.
GanStatus link_plugin_load(Str path, const LinkPlugin **out);

// --- reduce.c ------------------------------------------------------------------------------------

// acc = acc (+ or max) x, n elements; bf16 adds in f32 but rounds each time: widen to add more.
void link_combine(CommKind kind, Dtype dtype, void *acc, const void *x, size_t n);
// The same of `count` arrays, each `stride` bytes behind the other, into the first, as CommTree
// says.
void link_tree(CommKind kind, Dtype dtype, void *parts, size_t stride, size_t count, size_t n);
// To bf16, nearest, ties to even. What that takes is added to lost [n] (may be NULL); nothing is
// where a number is not finite, before or after: what is sent says so, and later ones may be.
void floats_narrow(const float *from, uint16_t *to, size_t n, float *lost);
void floats_widen(const uint16_t *from, float *to, size_t n);

#endif
