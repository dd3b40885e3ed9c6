// cc.h - the machine's C compiler: which one, how it is asked, and one unit of kernels through it.
#ifndef GAN_CC_H
#define GAN_CC_H

#include "cache.h"

// How well a unit is compiled. Both give the same bits.
typedef enum Tier {
    TierQuick, // to begin with
    TierBest,  // to stay with
} Tier;

typedef struct Cc {
    Str name;    // as it is started
    Str build;   // what tells it from its other versions
    Str machine; // processor: model and features
} Cc;

// The compiler `asked` for; empty: cc, gcc or clang, the first there is. False: none works.
bool cc_find(Arena *a, Str asked, Cc *out);
// The lines of /proc/cpuinfo's first processor that decide what code for this machine is.
Str cc_machine(Arena *a, Str cpuinfo);
Str cc_version(Arena *a); // how the first there is names itself; empty: none
// What decides the machine code of a text behind `prelude`, but for that text.
Str cc_key(Arena *a, const Cc *c, Tier tier, Str prelude);

// A translation unit. Released with unit_release, at whatever point.
typedef struct Unit {
    Arena arena; // its own: units are built by several threads
    Text text;
    Str path;           // in the cache, where its machine code is to be kept
    Str source, object; // while it is compiled
    CacheClaim claim;   // to compile it
    bool started;       // in the background
    bool waits;         // for the process that has the claim; in the background,
    double since;       // since then
    int pid, code;      // of the compiler in the background; no pid: none runs
    GanStatus status;
    char error[2000]; // of a failed build by another thread
} Unit;

// Both leave the work to another process that has claimed the unit, and take what it has made; of a
// process that was killed, or takes too long, they do its work.
// Returns when the cache has the unit; without `wait`, leaves one that another process has claimed
// (Unit.waits).
GanStatus unit_build(const Cc *c, Tier tier, bool wait, Unit *u);
// Begins, in the background; or finds that the cache has the unit by now.
GanStatus unit_start(const Cc *c, Tier tier, Unit *u);
// After unit_start: false while it is compiled. `status` then says how it went.
bool unit_ended(const Cc *c, Tier tier, Unit *u);
void pause_briefly(void);   // until one may have ended
void unit_release(Unit *u); // stops the compiler, leaves no file behind

#endif
