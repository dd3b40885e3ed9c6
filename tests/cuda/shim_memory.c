// shim_memory.c - emulated memory, its shadow memory, and the access rules.
//
// In: every load and store of the kernel text, as calls that -fsanitize=thread inserts before
// them. Out: nothing, or the end of the launch. A cell per element remembers its last write and
// its last reads; see shim_state.h for the order of accesses.
#define _DEFAULT_SOURCE // MAP_ANONYMOUS
#include "shim_state.h"

#include <string.h>
#include <sys/mman.h>

_Thread_local Shim *shim_running;

static size_t pages(size_t bytes) {
    return (bytes + 4095) & ~(size_t)4095;
}

static void *map(size_t bytes, int access) {
    void *at = mmap(NULL, bytes, access, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return at == MAP_FAILED ? NULL : at;
}

// --- allocations ---------------------------------------------------------------------------------

void shim_shadow(ShimRange *r) {
    size_t cells = (r->bytes + r->unit - 1) / r->unit;
    r->shadow = pages((cells ? cells : 1) * sizeof *r->cell);
    r->cell = map(r->shadow, PROT_READ | PROT_WRITE);
    if (!r->cell)
        bug("no memory for the shadow of %zu bytes", r->bytes);
}

void shim_forget(ShimRange *r) {
    madvise(r->cell, r->shadow, MADV_DONTNEED);
}

void shim_unshadow(ShimRange *r) {
    if (r->cell)
        munmap(r->cell, r->shadow);
    r->cell = NULL;
}

GanStatus shim_open(uint64_t seed, Shim **out) {
    Shim *s = mem_alloc(sizeof *s);
    if (!s)
        return fail(GAN_ERR_MEMORY, "no memory for a shim");
    s->random = seed * 2 + 1;
    s->time = 1;
    s->device = map((size_t)ShimSlots << ShimSlotBits, PROT_NONE);
    s->stacks = map((size_t)ShimMaxThreads * ShimStack, PROT_READ | PROT_WRITE);
    s->fiber = mem_alloc(ShimMaxThreads * sizeof *s->fiber);
    if (!s->device || !s->stacks || !s->fiber || arena_init(&s->arena, 0) != GAN_OK) {
        shim_close(s);
        return fail(GAN_ERR_MEMORY, "no address space for a shim");
    }
    for (int i = 0; i < ShimMaxThreads; i++) {
        s->fiber[i].stack = s->stacks + (size_t)i * ShimStack;
        mprotect(s->fiber[i].stack, 4096, PROT_NONE);
    }
    *out = s;
    return GAN_OK;
}

void shim_close(Shim *s) {
    if (!s)
        return;
    if (s->device) {
        shim_release_all(s);
        munmap(s->device, (size_t)ShimSlots << ShimSlotBits);
    }
    if (s->stacks)
        munmap(s->stacks, (size_t)ShimMaxThreads * ShimStack);
    arena_release(&s->arena);
    mem_free(s->fiber);
    mem_free(s);
}

void *shim_alloc(Shim *s, size_t bytes, size_t unit) {
    size_t slot = (size_t)1 << ShimSlotBits, half = slot / 2;
    uint32_t need = (uint32_t)((bytes + 2 * half + slot - 1) >> ShimSlotBits);
    if (need > ShimSlots - s->slots)
        bug("%zu bytes do not fit the shim's memory", bytes);
    char *at = s->device + ((size_t)s->slots << ShimSlotBits) + half;
    if (mprotect(at, pages(bytes + 1), PROT_READ | PROT_WRITE))
        bug("no memory for %zu bytes in the shim", bytes);
    ShimRange *r = &s->range[++s->ranges];
    *r = (ShimRange){.at = (uintptr_t)at, .bytes = bytes, .unit = unit};
    shim_shadow(r);
    memset(at, 0xff, bytes); // NaN in every floating type
    for (uint32_t i = 0; i < need; i++)
        s->owner[s->slots++] = (uint16_t)s->ranges;
    return at;
}

void shim_release_all(Shim *s) {
    size_t used = (size_t)s->slots << ShimSlotBits;
    for (uint32_t i = 1; i <= s->ranges; i++)
        shim_unshadow(&s->range[i]);
    if (used) {
        madvise(s->device, used, MADV_DONTNEED);
        mprotect(s->device, used, PROT_NONE);
    }
    memset(s->owner, 0, sizeof s->owner);
    s->slots = s->ranges = 0;
}

// The range whose slots contain an address: the one a pointer belongs to.
static const ShimRange *range_of(const Shim *s, uintptr_t at) {
    uintptr_t off = at - (uintptr_t)s->device;
    if (off < (uintptr_t)ShimSlots << ShimSlotBits) {
        uint32_t owner = s->owner[off >> ShimSlotBits];
        return owner ? &s->range[owner] : NULL;
    }
    return at - s->shared.at < s->shared.bytes ? &s->shared : NULL;
}

static Cell *cells(const ShimRange *r, uintptr_t at, size_t size, size_t *n) {
    size_t first = (at - r->at) / r->unit, last = (at - r->at + size - 1) / r->unit;
    *n = last - first + 1;
    return &r->cell[first];
}

void shim_put(Shim *s, void *to, const void *from, size_t n) {
    const ShimRange *r = range_of(s, (uintptr_t)to);
    size_t count = 0;
    Cell *c = n ? cells(r, (uintptr_t)to, n, &count) : NULL;
    for (size_t i = 0; i < count; i++)
        c[i].wrote = 1;
    memcpy(to, from, n);
}

bool shim_written(const Shim *s, const void *at, size_t n) {
    size_t count = 0;
    const Cell *c = n ? cells(range_of(s, (uintptr_t)at), (uintptr_t)at, n, &count) : NULL;
    for (size_t i = 0; i < count; i++)
        if (!c[i].wrote)
            return false;
    return true;
}

// --- order ---------------------------------------------------------------------------------------

typedef struct Who {                         // the accessing thread
    uint32_t thread, warp, lane, now, first; // first: the earliest time that is not surely over
    uint16_t clock;
    bool write, atomic;
} Who;

// Has another block released what it did at `time`, by its thread `writer` if known?
static bool was_acquired(const Shim *s, const Who *me, uint32_t time, uint32_t writer) {
    for (uint32_t i = 0; i < s->acquire.n; i++) {
        const Acquire *a = &s->acquire.at[i];
        if (a->time == me->now && a->thread != me->thread)
            continue; // no barrier since
        for (uint32_t k = a->releases; k-- > 0;) {
            const Release *r = &s->release.at[k];
            bool covers = time <= r->until || (time == r->until + 1 && writer == r->thread);
            if (r->at == a->at && time >= r->from && covers)
                return true;
        }
    }
    return false;
}

// Is what another thread of this launch did at `time` ordered before now? writer: that thread if it
// was a single one, else UINT32_MAX.
static bool is_over(const Shim *s, const Who *me, uint32_t time, uint32_t warp, uint16_t clock,
                    uint32_t lanes, uint32_t writer) {
    if (time < me->first)
        return true;
    if (time < s->block_time)
        return was_acquired(s, me, time, writer);
    if (time < me->now)
        return true; // a barrier ago
    if (warp != me->warp)
        return false;
    return clock != me->clock || !(lanes & ~(1u << me->lane));
}

static bool writes_are_over(const Shim *s, const Who *me, const Cell *c) {
    if (me->atomic && c->atomic)
        return true;
    if (c->several)
        return is_over(s, me, c->wrote, UINT32_MAX, 0, 0, UINT32_MAX);
    return is_over(s, me, c->wrote, c->writer / ShimLanes, c->write_clock,
                   1u << c->writer % ShimLanes, c->writer);
}

static bool reads_are_over(const Shim *s, const Who *me, const Cell *c) {
    return is_over(s, me, c->read, c->read_warp, c->read_clock, c->lanes, UINT32_MAX) &&
           is_over(s, me, c->other, UINT32_MAX, 0, 0, UINT32_MAX) &&
           is_over(s, me, c->far, UINT32_MAX, 0, 0, UINT32_MAX);
}

static void note_write(const Who *me, Cell *c) {
    c->several =
        me->atomic && c->atomic && c->wrote == me->now && (c->several || c->writer != me->thread);
    c->wrote = me->now;
    c->writer = (uint16_t)me->thread;
    c->write_clock = me->clock;
    c->atomic = me->atomic;
}

static void note_read(const Shim *s, const Who *me, Cell *c) {
    if (c->read != me->now) {
        c->far = c->read < s->block_time && c->read > c->far ? c->read : c->far;
        c->lanes = 0;
    } else if (c->read_warp != me->warp) {
        c->other = me->now;
        return;
    } else if (c->read_clock != me->clock) {
        c->lanes = 0;
    }
    c->read = me->now;
    c->read_warp = (uint16_t)me->warp;
    c->read_clock = me->clock;
    c->lanes |= 1u << me->lane;
}

// --- accesses ------------------------------------------------------------------------------------

static const char *space(const ShimRange *r) {
    return r->shared ? "shared memory" : "global memory";
}

_Noreturn static void race(Shim *s, const ShimRange *r, uintptr_t at, const Cell *c, bool reads,
                           const Who *me, const void *pc) {
    bool far = (reads ? c->read : c->wrote) < s->block_time;
    uint32_t other = !reads ? c->writer
                     : c->lanes & ~(1u << me->lane)
                         ? c->read_warp * ShimLanes + (uint32_t)__builtin_ctz(c->lanes)
                         : c->read_warp * ShimLanes;
    if (far || (reads && other == me->thread))
        shim_fault(s, ShimRace, pc, "race: byte %zu of %zu in %s is %s here and %s by %s",
                   (size_t)(at - r->at), r->bytes, space(r), me->write ? "written" : "read",
                   reads ? "read" : "written", far ? "another block" : "another warp");
    shim_fault(
        s, ShimRace, pc,
        "race: byte %zu of %zu in %s is %s here and %s by thread %u, with no barrier between",
        (size_t)(at - r->at), r->bytes, space(r), me->write ? "written" : "read",
        reads ? "read" : "written", other);
}

static void touch_cell(Shim *s, const ShimRange *r, uintptr_t at, Cell *c, const Who *me,
                       const void *pc) {
    bool unwritten = r->shared ? c->wrote < s->block_time : !c->wrote;
    if ((!me->write || me->atomic) && unwritten)
        shim_fault(s, ShimUnwritten, pc, "byte %zu of %zu in %s is read but was never written",
                   (size_t)(at - r->at), r->bytes, space(r));
    if (!writes_are_over(s, me, c))
        race(s, r, at, c, false, me, pc);
    if (!me->write) {
        note_read(s, me, c);
        return;
    }
    if (!reads_are_over(s, me, c))
        race(s, r, at, c, true, me, pc);
    note_write(me, c);
}

// Memory private to the running thread: its stack, and the constants of the text.
static bool is_private(const Shim *s, uintptr_t at) {
    uintptr_t stack = (uintptr_t)s->fiber[s->current].stack;
    return at - stack < ShimStack || at - s->image_at < s->image_end - s->image_at;
}

static void touch(const void *ptr, size_t size, size_t align, bool write, bool atomic,
                  const void *pc) {
    Shim *s = shim_running;
    uintptr_t at = (uintptr_t)ptr;
    if (!s || is_private(s, at))
        return;
    const ShimRange *r = range_of(s, at);
    if (!r)
        shim_fault(s, ShimOutOfBounds, pc, "%zu bytes at %p, where nothing is, are %s", size, ptr,
                   write ? "written" : "read");
    if (at < r->at || size > r->bytes || at - r->at > r->bytes - size)
        shim_fault(s, ShimOutOfBounds, pc, "%zu bytes at %lld of %zu in %s are %s", size,
                   (long long)(intptr_t)(at - r->at), r->bytes, space(r),
                   write ? "written" : "read");
    if (at % align)
        shim_fault(s, ShimMisaligned, pc, "%zu bytes at %zu in %s are not aligned", size,
                   (size_t)(at - r->at), space(r));
    Who me = {
        .thread = s->current,
        .warp = s->current / ShimLanes,
        .lane = s->current % ShimLanes,
        .now = s->time,
        .first = r->shared ? s->block_time : s->launch_time,
        .clock = s->clock[s->current / ShimLanes],
        .write = write,
        .atomic = atomic,
    };
    size_t n;
    Cell *c = cells(r, at, size, &n);
    for (size_t i = 0; i < n; i++)
        touch_cell(s, r, at + i * r->unit, &c[i], &me, pc);
}

// --- what instrumented text calls ----------------------------------------------------------------
// These functions replace the runtime of the compilers' thread sanitizer. Their return address is
// the access: the only compiler extension here.

#define HERE __builtin_return_address(0)

// Order between blocks is transitive: a block hands on what others have handed to it.
static void hand_on(Shim *s, uintptr_t at) {
    for (uint32_t i = 0; i < s->acquire.n; i++) {
        const Acquire a = s->acquire.at[i];
        if (a.time == s->time && a.thread != s->current)
            continue; // no barrier since
        for (uint32_t k = 0; k < a.releases; k++) {
            Release r = s->release.at[k];
            bool same = r.at == a.at;
            r.at = at;
            if (same)
                vec_push(&s->arena, &s->release, r);
        }
    }
}

void shim_atomic(const void *at, unsigned long size) {
    touch(at, size, size, true, true, HERE);
    Shim *s = shim_running;
    if (s->lane[s->current].fenced)
        hand_on(s, (uintptr_t)at);
    vec_push(&s->arena, &s->acquire, ((Acquire){(uintptr_t)at, s->release.n, s->current, s->time}));
    if (s->lane[s->current].fenced)
        vec_push(&s->arena, &s->release,
                 ((Release){(uintptr_t)at, s->block_time, s->time - 1, s->current}));
}
void shim_fence(void) {
    shim_running->lane[shim_running->current].fenced = true;
}
void shim_vector(const void *at, unsigned long size, int write) {
    touch(at, size, size, write, false, HERE);
}

#define ACCESS(size)                                                                               \
    void __tsan_read##size(void *at) {                                                             \
        touch(at, size, size, false, false, HERE);                                                 \
    }                                                                                              \
    void __tsan_write##size(void *at) {                                                            \
        touch(at, size, size, true, false, HERE);                                                  \
    }                                                                                              \
    void __tsan_unaligned_read##size(void *at) {                                                   \
        touch(at, size, 1, false, false, HERE);                                                    \
    }                                                                                              \
    void __tsan_unaligned_write##size(void *at) {                                                  \
        touch(at, size, 1, true, false, HERE);                                                     \
    }
ACCESS(1)
ACCESS(2)
ACCESS(4)
ACCESS(8)
ACCESS(16)

void __tsan_read_range(void *at, size_t n) {
    touch(at, n, 1, false, false, HERE);
}
void __tsan_write_range(void *at, size_t n) {
    touch(at, n, 1, true, false, HERE);
}
void __tsan_init(void) {}
void __tsan_func_entry(void *from) {
    (void)from;
}
void __tsan_func_exit(void) {}

// A misaligned or null pointer (-fsanitize=alignment).
void __ubsan_handle_type_mismatch_v1(void *where, uintptr_t at) {
    (void)where;
    if (shim_running)
        shim_fault(shim_running, at ? ShimMisaligned : ShimOutOfBounds, HERE,
                   "address %#zx is not aligned to its type", (size_t)at);
}

// An index outside an array whose extent the text states (-fsanitize=bounds).
void __ubsan_handle_out_of_bounds(void *where, uintptr_t index) {
    (void)where;
    if (shim_running)
        shim_fault(shim_running, ShimOutOfBounds, HERE, "index %lld is outside its array",
                   (long long)(intptr_t)index);
}
