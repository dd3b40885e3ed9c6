// shim_state.h - internals of the emulator: the card, its memory with shadow memory, and its
// threads.
//
// Time is a counter that goes up at every launch, at every block and at every barrier. Accesses of
// two threads are ordered when the times differ and both are of one block, or when they share a
// warp and its clock (one tick per __syncwarp) differs. Blocks of one launch are ordered only by a
// fence and an atomic on one side and the same atomic on the other.
#ifndef GAN_SHIM_STATE_H
#define GAN_SHIM_STATE_H

#include "shim.h"

#include <setjmp.h>
#include <ucontext.h>

enum {
    ShimLanes = 32,
    ShimMaxThreads = 1024,
    ShimStack = 256 << 10, // bytes of a thread's stack, its guard page included
    ShimSlots = 4096,      // of device memory,
    ShimSlotBits = 26,     // 64 MiB each; an allocation begins in the middle of one
    ShimSharedUnit = 2,    // bytes of a cell of shared memory
};

typedef struct Cell { // who touched an element last
    uint32_t wrote;   // time of the last write; 0 never
    uint32_t read;    // time of the last read
    uint32_t lanes;   // that read at `read`, at the warp's clock `read_clock`
    uint32_t other;   // last time at which more than one warp read
    uint32_t far;     // last time at which another block than that of `read` read
    uint16_t write_clock, read_clock;
    uint16_t writer, read_warp; // a thread of the block, a warp of it
    bool atomic;                // the last write was
    bool several;               // atomics of several threads since the last plain write
} Cell;

typedef struct ShimRange { // memory with a shadow
    uintptr_t at;
    size_t bytes, unit;
    Cell *cell;
    size_t shadow; // bytes of cell[], a mapping
    bool shared;
} ShimRange;

typedef enum FiberState { FiberReady, FiberBarrier, FiberWarp, FiberDone } FiberState;

typedef struct Fiber {
    jmp_buf at; // where it goes on
    ucontext_t first;
    char *stack;
    bool entered; // `at` is where it waits
} Fiber;

// A thread of the running block. Apart from its fiber, so that a warp's lie in few cache lines.
typedef struct Lane {
    FiberState state;
    int line;        // of the barrier or warp operation it waits at
    uint32_t mask;   // lanes it waits for
    int from;        // the lane it wants the bits of; -1 ballot, -2 sync, -3 match
    uint64_t bits;   // what it gives to a shuffle, ballot or match
    uint64_t result; // what it gets
    bool fenced;
} Lane;

// Blocks may hand over through an atomic: what a block did before a fence and an atomic is over for
// a block that comes to the same atomic later, and so is what others had handed to that block.
typedef struct Release {
    uintptr_t at;         // the atomic
    uint32_t from, until; // times that are handed over,
    uint32_t thread;      // and what this thread itself wrote at `until` + 1
} Release;

typedef struct Acquire {
    uintptr_t at;
    uint32_t releases; // that came before it
    uint32_t thread, time;
} Acquire;

typedef struct ShimPosition { // shim_position of shim_cuda.h
    ShimSize thread, block, threads, blocks;
} ShimPosition;

typedef void ShimEntry(void *const *param);

struct Shim {
    uint64_t random;
    // memory
    char *device;                  // ShimSlots slots of address space
    uint32_t slots;                // used so far
    uint16_t owner[ShimSlots];     // range[] of each slot, 0 none
    ShimRange range[ShimSlots];    // [0] none
    uint32_t ranges;               // [1..ranges]
    ShimRange shared;              // of the code that runs
    uintptr_t image_at, image_end; // of the code that runs: its constants
    // the launch
    const ShimCode *code;
    Str kernel;
    ShimEntry *entry;
    void *const *param;
    ShimSize block, grid;
    ShimPosition *here;
    uint32_t time, launch_time, block_time;
    uint16_t clock[ShimMaxThreads / ShimLanes];
    VEC(Release) release; // of the launch
    VEC(Acquire) acquire; // of the block
    Arena arena;          // theirs
    // threads
    char *stacks;
    uint32_t threads; // of a block
    uint32_t current; // the one running
    uint32_t ready[ShimMaxThreads], readies;
    Fiber *fiber; // [ShimMaxThreads]
    Lane lane[ShimMaxThreads];
    uint32_t arrived[ShimMaxThreads / ShimLanes]; // lanes of each warp that wait for others of it
    jmp_buf scheduler;
    // the verdict
    ShimFault fault;
    char said[512];
};

extern _Thread_local Shim *shim_running; // whom callbacks from kernel text mean; NULL outside

// Ends the launch with a fault; does not return. `pc`: in the kernel's code, NULL unknown.
_Noreturn void shim_fault(Shim *s, ShimFault fault, const void *pc, const char *format, ...);
void shim_forget(ShimRange *r);   // as if nothing had been touched
void shim_shadow(ShimRange *r);   // maps fresh cells; bug() when refused
void shim_unshadow(ShimRange *r); // accepts one that has none

// --- shim_code.c ---------------------------------------------------------------------------------

ShimEntry *shim_entry(const ShimCode *c, Str name, Shim *s); // and fills shared, image, here
// The text's line that an address comes from: "line 12: x = y[i]", or nothing.
void shim_line(const ShimCode *c, const void *pc, char *out, size_t n);

#endif
