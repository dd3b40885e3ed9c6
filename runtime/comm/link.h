// link.h - the transport under a communicator: what one rank says to the others.
//
// Every operation begins with a meeting: all ranks come to it and show a tag of what they are about
// to do. What is small travels with the tag, so that a small sum is a meeting and no more; what is
// large follows in a call of its own. Meetings are of lanes that know nothing of each other. All
// calls but `post` and `meet` of the second lane and `missing` come from one thread, which opens
// the link; each lane's calls come one after another. Every rank makes the same calls in the same
// order in a lane. A link neither queues nor times anything; that is comm.c's. Errors are
// GAN_ERR_DEVICE and leave the link unusable.
#ifndef GAN_LINK_H
#define GAN_LINK_H

#include "comm.h"

typedef struct Link { // a link embeds this first
    int rank, size;
    int nodes;     // within which it adds CommSum first; 0: all ranks at once
    int lanes;     // 2: two threads may use it at once, each in its lane; else 1
    CommRoom room; // as comm_room says, between calls
    bool relays;   // a meeting ends only when every rank has entered `meet`, not at its post alone
} Link;

enum { LANES = 2 };

typedef struct Meeting { // one operation, before it is carried out
    uint32_t lane;       // below Link.lanes
    uint32_t step;       // of training, for messages
    uint64_t turn;       // operations this rank has come to in this lane, this one included
    uint64_t tag;        // what this rank is about to do; all should say the same
    double until;        // time_now when to give up; 0: never
    // What travels with it: n numbers to add or to compare, in place; 0: nothing. Of f64 or f32, at
    // most COMM_SMALL bytes.
    CommKind kind;
    Dtype dtype;
    void *data;
    size_t n;
    // What is reduced behind it, for a link that reaches others' memory; NULL: not known yet.
    void *moves;
} Meeting;

struct LinkApi {
    const char *name;
    bool talks; // false: data jobs reach no other rank, and do nothing
    GanStatus (*open)(void *arg, Link **out);
    // Orderly: every rank comes. Otherwise only this rank's memory is given back.
    void (*close)(Link *l, bool orderly); // accepts NULL
    // Says that this rank has come, and what it brings; waits for nobody. Several may be posted
    // before the first is met.
    GanStatus (*post)(Link *l, const Meeting *m);
    // Behind its post, in the same order. Returns when every rank has come, with the least and the
    // greatest tag; where these are equal, data holds everyone's, combined as CommTree says. At
    // `until` GAN_ERR_DEVICE naming the ranks that have not come and, where that can be known, what
    // they do instead. *waited: they were not all there when it was called.
    GanStatus (*meet)(Link *l, const Meeting *m, uint64_t tags[2], bool *waited);
    // Called while nothing is under way in the first lane, some ten times a second: answers ranks
    // that ask where this one is. May be NULL.
    void (*idle)(Link *l);
    // A transfer behind meeting `m` does not end: asks every rank where it is, for `seconds`, and
    // names those that do not answer. Always fails. Comes from the caller's thread, while the
    // link's is inside a transfer. May be NULL.
    GanStatus (*missing)(Link *l, const Meeting *m, double seconds);
    // `lost` [n]: sums of bf16 add to it, on one rank, what rounding the result has taken; may be
    // NULL.
    GanStatus (*reduce)(Link *l, CommKind kind, Dtype dtype, void *data, size_t n, float *lost);
    // Rank r brings bytes from[r]..from[r + 1] of data; afterwards all have all.
    GanStatus (*gather)(Link *l, void *data, const size_t *from);
    GanStatus (*bcast)(Link *l, void *data, size_t bytes, int root);
};

// A link in a shared object. It is linked with nothing of ours: what it needs it is given.
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

// plugin.c: loads one; it stays loaded. GAN_ERR_DEVICE in the system's words.
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
