// mem.c - the heap behind one door, and arenas: an address range from which items are cut and given
// back all at once.
//
// Every request, heap or arena, counts and may be refused by mem_fail_at; that counter is the one
// piece of process state here and is atomic. An arena belongs to one thread at a time; copies of
// one Arena are checkpoints of the same range, so only the newest copy may allocate until it is
// gone.
//
// Under AddressSanitizer the gap after each item, and everything beyond the newest one, is
// poisoned: an overrun, or a read of what a finished scratch copy left behind, is reported like a
// heap error.
#define _GNU_SOURCE
#include "base.h"
#include "bytes.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__)
#define POISON 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define POISON 1
#endif
#endif

enum { LARGE = 2 << 20 }; // bytes of a large page

static _Atomic int64_t requests;  // allocations asked for so far
static _Atomic int64_t refuse_at; // the request that is refused; 0: none

static bool refused(void) {
    return atomic_fetch_add(&requests, 1) + 1 == atomic_load(&refuse_at);
}

void mem_fail_at(int64_t nth) {
    atomic_store(&refuse_at, nth > 0 ? atomic_load(&requests) + nth : 0);
}

int64_t mem_count(void) {
    return atomic_load(&requests);
}

// --- heap ----------------------------------------------------------------------------------------

void *mem_alloc(size_t size) {
    return refused() ? NULL : calloc(1, size ? size : 1);
}

void *mem_realloc(void *ptr, size_t size) {
    return refused() ? NULL : realloc(ptr, size ? size : 1);
}

void mem_free(void *ptr) {
    free(ptr);
}

// calloc takes large blocks from the system as fresh zero pages: nothing is touched before its
// first use. The block's own address is kept just before the aligned one.
void *mem_alloc_aligned(size_t size, size_t align) {
    size_t extra = align + sizeof(void *);
    if (refused() || size > SIZE_MAX - extra)
        return NULL;
    char *block = calloc(1, size + extra);
    if (!block)
        return NULL;
    uintptr_t at = ((uintptr_t)block + extra - 1) / align * align;
    char *ptr = block + (at - (uintptr_t)block);
    memcpy(ptr - sizeof block, &block, sizeof block);
    return ptr;
}

// What is walked again and again misses the address cache less on large pages, and how it falls
// into the caches does not depend on which small pages this process was dealt. Where the system has
// none to give, small ones do.
void *mem_alloc_pages(size_t size) {
    enum { LINE = 64 };
    void *at = mem_alloc_aligned(size, size >= LARGE ? LARGE : LINE);
    if (at && size >= LARGE)
        madvise(at, size, MADV_HUGEPAGE);
    return at;
}

void mem_free_aligned(void *ptr) {
    if (!ptr)
        return;
    char *block;
    memcpy(&block, (char *)ptr - sizeof block, sizeof block);
    free(block);
}

bool mem_mul(size_t a, size_t b, size_t *out) {
    if (b != 0 && a > SIZE_MAX / b)
        return false;
    *out = a * b;
    return true;
}

int by_double(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

// getrusage's ru_maxrss survives exec, so it may be the launching program's; VmHWM is this
// program's own.
size_t mem_peak_rss(void) {
    char text[4096];
    int fd = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    if (fd >= 0)
        close(fd);
    if (n > 0) {
        text[n] = 0;
        const char *line = strstr(text, "VmHWM:");
        if (line)
            return (size_t)strtoull(line + 6, NULL, 10) * 1024;
    }
    struct rusage usage;
    return getrusage(RUSAGE_SELF, &usage) == 0 ? (size_t)usage.ru_maxrss * 1024 : 0;
}

// --- arenas --------------------------------------------------------------------------------------

typedef struct Head {
    char *live; // end of what may be touched
    char *top;  // end of what was ever handed out; what is above is as the system gave it: zero
} Head;         // kept in the range's first bytes, where all copies of the arena find it
enum { HeadRoom = 64 };

static Head *head_of(const Arena *a) {
    return (Head *)(void *)a->base;
}

#ifdef POISON
#include <sanitizer/asan_interface.h>

enum { FenceGap = 16, FenceAlign = 8 };

// Opens the item; closes what lies between it and everything older copies handed out above.
static void fence_item(Arena *a, char *item, size_t size) {
    Head *h = head_of(a);
    if (h->live < a->beg)
        h->live = a->beg;
    __asan_unpoison_memory_region(item, size);
    __asan_poison_memory_region(item + size, (size_t)(h->live - (item + size)));
    h->live = a->beg;
}

static void fence_release(Arena *a) {
    __asan_unpoison_memory_region(a->base, (size_t)(head_of(a)->top - a->base));
}
#else
enum { FenceGap = 0, FenceAlign = 1 };
static void fence_item(Arena *a, char *item, size_t size) {
    (void)a, (void)item, (void)size;
}
static void fence_release(Arena *a) {
    (void)a;
}
#endif

// Most arenas stay small. What fills more is walked from end to end, and a fault for each small
// page was a tenth of a warm start.
static char *reserve_range(size_t size) {
    const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    char *at = mmap(NULL, size, PROT_READ | PROT_WRITE, flags, -1, 0);
    if (at == MAP_FAILED)
        return NULL;
    if (size > LARGE)
        madvise(at + LARGE, size - LARGE, MADV_HUGEPAGE);
    return at;
}

enum { SMALLEST = 64 << 20 }; // bytes of a default arena that a limit leaves

// What an arena may take of a limited address space (ulimit -v, and batch systems that limit memory
// so). A run has 16 arenas at a time; most stay small, one has a batch of data.
static size_t address_share(void) {
    struct rlimit space;
    if (getrlimit(RLIMIT_AS, &space) != 0 || space.rlim_cur == RLIM_INFINITY)
        return SIZE_MAX;
    size_t share = (size_t)space.rlim_cur / 32;
    return share > SMALLEST ? share : SMALLEST;
}

// Where the machine has no more to give the default shrinks until two fit, for there will be
// others; a size that was asked for does not, but for a limit's share.
GanStatus arena_init(Arena *a, size_t reserve) {
    const size_t usual = (size_t)16 << 30, least = SMALLEST, share = address_share();
    *a = (Arena){0};
    size_t size = reserve ? reserve : usual;
    size = size < share ? size : share;
    char *at = refused() ? NULL : reserve_range(size);
    while (!at && !reserve && size > least && errno == ENOMEM) {
        at = reserve_range(size /= 2);
        if (at && size > least) {
            munmap(at, size);
            at = reserve_range(size /= 2);
        }
    }
    if (!at)
        return fail(GAN_ERR_MEMORY, "cannot reserve %zu bytes of address space", size);
    *a = (Arena){.beg = at + HeadRoom, .end = at + size, .base = at};
    *head_of(a) = (Head){a->beg, a->beg};
    return GAN_OK;
}

void arena_need(Arena *a) {
    if (arena_init(a, 0) != GAN_OK)
        no_memory("%s", gan_error());
}

void arena_release(Arena *a) {
    if (!a->base)
        return;
    fence_release(a);
    munmap(a->base, (size_t)(a->end - a->base));
    *a = (Arena){0};
}

void *arena_try(Arena *a, size_t size, size_t align) {
    assert(align && (align & (align - 1)) == 0);
    if (align < FenceAlign)
        align = FenceAlign;
    size_t room = (size_t)(a->end - a->beg);
    size_t pad = (size_t) - (uintptr_t)a->beg & (align - 1);
    if (refused() || room < pad + FenceGap || size > room - pad - FenceGap)
        return NULL;
    char *item = a->beg + pad;
    Head *h = head_of(a);
    a->beg = item + size + FenceGap;
    fence_item(a, item, size);
    // A scratch copy used what is below `top` before. Clearing the rest as well was 3 % of the
    // instructions from cyclegan's text to its kernels.
    if (item < h->top)
        memset(item, 0, size < (size_t)(h->top - item) ? size : (size_t)(h->top - item));
    if (h->top < a->beg)
        h->top = a->beg;
    return item;
}

static _Noreturn void arena_out_of_memory(const Arena *a, size_t size) {
    size_t room = (size_t)(a->end - a->beg);
    if (!a->oom)
        no_memory("an arena could not give %zu bytes (%zu free)", size, room);
    longjmp(*(jmp_buf *)a->oom, 1);
}

GanStatus arena_guard(Arena *a, const char *what, GanStatus (*run)(void *user), void *user) {
    jmp_buf full;
    void *before = a->oom; // borrowed for the time of the run
    if (setjmp(full)) {
        a->oom = before;
        return fail(GAN_ERR_MEMORY, "no memory %s", what);
    }
    a->oom = &full;
    GanStatus st = run(user);
    a->oom = before;
    return st;
}

void *arena_alloc(Arena *a, size_t size, size_t align) {
    void *item = arena_try(a, size, align);
    if (!item)
        arena_out_of_memory(a, size);
    return item;
}

void *arena_array_(Arena *a, size_t size, size_t align, size_t n) {
    size_t total;
    if (!mem_mul(size, n, &total))
        arena_out_of_memory(a, SIZE_MAX);
    return arena_alloc(a, total, align);
}

// `at` is really a T **: its pointer is copied as bytes, so that no T * is read as a void *.
void vec_grow(Arena *a, void **at, uint32_t *cap, uint32_t n, size_t size) {
    if (n < *cap)
        return;
    if (*cap > UINT32_MAX / 2)
        arena_out_of_memory(a, SIZE_MAX);
    uint32_t room = *cap ? *cap * 2 : 8;
    void *old, *grown = arena_array_(a, size, _Alignof(max_align_t), room);
    memcpy(&old, at, sizeof old);
    if (n)
        memcpy(grown, old, (size_t)n * size);
    memcpy(at, &grown, sizeof grown);
    *cap = room;
}
