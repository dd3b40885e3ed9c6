// sim.h - a step as a timeline: measured launches, and collectives as a link transfers them.
#ifndef GAN_SIM_H
#define GAN_SIM_H

#include "ranks.h"

typedef struct TimedLaunch { // in the order of the steps
    RegionKind kind;         // RegionStart, RegionWait; all others compute
    uint32_t step;           // of the period
    uint32_t launch;         // Plan.launch[]
    uint32_t call;           // of a start or a wait: Plan.collective[]
    double seconds;          // on the computing thread
    size_t bytes;            // RegionStart: what travels
} TimedLaunch;
typedef struct Timeline { // of a period of steps, after which all that `every` chooses repeats
    TimedLaunch *at;
    uint32_t n, cap;
    uint32_t steps; // of the period: those with numbers 0 to steps - 1, and again
} Timeline;

// Times launches on a device that computes behind the host's back, and says what they ran.
typedef struct LaunchClock {
    const DeviceApi *api; // borrowed; has `work`
    Device *device;       // borrowed; `inside` counts
    DeviceWorkVec *ran;   // [Plan.launch.n] when it ran last; DeviceWork.host left out
} LaunchClock;

enum { PERIOD_MOST = 64 }; // steps; what comes less often is left out
// Steps of a period of a step function: 1 where it has no `every`.
uint32_t sim_period(const Func *f);
// Whether steps of these numbers do the same, as far as `every` decides it within a period.
bool sim_same_launches(const Func *f, uint32_t step, uint32_t other);

// The launches of a period on this rank, each with the median of its times over `times` steps of
// its kind that nobody waits in: collectives are left out meanwhile. Steps whose run-time
// conditions do not choose the same launches every time are taken as they ran last. `clock` NULL:
// the host's.
GanStatus sim_profile(Arena *perm, Exec *e, Comm *c, const LaunchClock *clock, uint32_t times,
                      Timeline *out);
// Those of all ranks, [comm_size].
GanStatus sim_gather(Arena *perm, Comm *c, const Timeline *mine, const Timeline **all);
// Gives each launch the mean of its times over the ranks, where all run the same launches: ranks
// with equal work that were timed one after the other differ by what the host did meanwhile.
GanStatus sim_average(Arena *perm, Comm *c, Timeline *m);
// The same step (of the period: c->step says which) with every computing launch slept through
// instead of run: what waits, starts and travels is real. So many ranks can be tried on few cores.
GanStatus sim_replay(Exec *e, const Timeline *m, const Counters *c);
GanStatus sim_drain(Exec *e); // after the last: waits for the sums it has left

// How long an all-reduce of `bytes` takes: the longer of both. A zero bandwidth is no link.
typedef struct SimLink {
    LinkModel each;   // as measured or as --wire says: latency + bytes / bandwidth
    LinkModel scaled; // grows with the ranks: ceil(log2 R) * latency + 2 (R - 1) / R * bytes /
                      // bandwidth (recursive doubling for what is small, a ring for what is large)
    int64_t ranks;
    bool waits; // every call is waited for where it starts (--overlap off)
} SimLink;

typedef struct SimTimes { // seconds of a step
    double step, comm, exposed;
} SimTimes;

double sim_sum_seconds(const SimLink *link, size_t bytes); // of one all-reduce; 0 on one rank

// Runs the timelines of `n` ranks against a link that carries one call at a time, in the order
// they start, and besides one of those that are small (COMM_SMALL). A call begins when every rank
// has come to it; a large one takes its `each.core` from what is computed, or waited, next. One
// line stands for ranks that are all alike. The times are of a step among its like, which finds its
// predecessor's tail under way; means over the steps of a period and the ranks.
SimTimes sim_run(Arena scratch, const Timeline *m, uint32_t n, const SimLink *link);

// sim_bound.c: what no order of this work could hide in a step at whose end all of it is done: the
// least it waits on such a link, if each value travelled by itself as soon as it is there, the most
// wanted first, while whatever does not depend on it is computed. A bound from below: for every
// launch, the launches and the values it depends on, of each the earliest moment it can begin, take
// one core and one wire. A mean over the steps of a period.
double sim_bound(Arena scratch, const Plan *p, const Timeline *m, const SimLink *link);

#endif
