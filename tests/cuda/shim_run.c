// shim_run.c - launches on the emulator: blocks one after another, their threads as fibers in
// shuffled order, and the barriers where threads wait for each other.
//
// A fiber is a stack, entered once by makecontext and from then on switched by _longjmp, which
// costs no system call. A thread that ends leaves its fiber to the next block.
#define _DEFAULT_SOURCE // _setjmp
#undef _FORTIFY_SOURCE  // its longjmp stays on one stack
#include "shim_state.h"

#include <string.h>

enum { WarpMatch = -3, WarpSync = -2, WarpBallot = -1 };

static uint32_t draw(Shim *s, uint32_t below) {
    s->random = s->random * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((s->random >> 33) % below);
}

// --- faults --------------------------------------------------------------------------------------

_Noreturn static void leave(Shim *s) {
    _longjmp(s->scheduler, 1);
}

_Noreturn void shim_fault(Shim *s, ShimFault fault, const void *pc, const char *format, ...) {
    va_list args;
    ShimSize b = s->here->block;
    int n =
        snprintf(s->said, sizeof s->said, "%.*s, block (%u, %u, %u), thread %u: ", SARG(s->kernel),
                 b.x, b.y, b.z, s->current);
    va_start(args, format);
    n += vsnprintf(s->said + n, sizeof s->said - (size_t)n, format, args);
    va_end(args);
    shim_running = NULL;
    if ((size_t)n < sizeof s->said)
        shim_line(s->code, pc, s->said + n, sizeof s->said - (size_t)n);
    s->fault = fault;
    leave(s);
}

const char *shim_said(const Shim *s) {
    return s->said;
}

// --- fibers --------------------------------------------------------------------------------------

static void push_ready(Shim *s, uint32_t thread) {
    s->lane[thread].state = FiberReady;
    s->ready[s->readies++] = thread;
}

// Returns to the scheduler until the running thread is made ready again.
static void wait(Shim *s, FiberState state) {
    s->lane[s->current].state = state;
    if (!_setjmp(s->fiber[s->current].at))
        leave(s);
}

// What every fiber runs: a thread of one block, then of the next.
static void fiber_main(void) {
    for (;;) {
        Shim *s = shim_running;
        s->entry(s->param);
        wait(s, FiberDone);
    }
}

static void place_thread(Shim *s, uint32_t thread) {
    s->current = thread;
    s->here->thread = (ShimSize){thread % s->block.x, thread / s->block.x % s->block.y,
                                 thread / s->block.x / s->block.y};
}

// --- waiting for each other ----------------------------------------------------------------------

// All threads wait or are done: either all are at the same barrier, or it is a fault.
static void release_barrier(Shim *s) {
    uint32_t at = UINT32_MAX, away = UINT32_MAX;
    for (uint32_t i = 0; i < s->threads; i++) {
        const Lane *t = &s->lane[i];
        place_thread(s, i);
        if (t->state == FiberWarp)
            shim_fault(s, ShimDivergent, NULL,
                       "line %d waits for lanes %08x of its warp, and some never come", t->line,
                       t->mask);
        if (t->state == FiberBarrier && at == UINT32_MAX)
            at = i;
        if (t->state == FiberDone && away == UINT32_MAX)
            away = i;
        if (t->state == FiberBarrier && t->line != s->lane[at].line)
            shim_fault(s, ShimDivergent, NULL,
                       "divergent barrier: this thread is at line %d, thread %u at line %d",
                       t->line, at, s->lane[at].line);
    }
    if (at != UINT32_MAX && away != UINT32_MAX)
        shim_fault(s, ShimDivergent, NULL,
                   "divergent barrier: thread %u waits at line %d, thread %u has returned", at,
                   s->lane[at].line, away);
    if (at == UINT32_MAX)
        return;
    s->time++;
    for (uint32_t i = 0; i < s->threads; i++)
        push_ready(s, i);
}

void shim_barrier(int line) {
    Shim *s = shim_running;
    s->lane[s->current].line = line;
    wait(s, FiberBarrier);
}

int shim_lane(void) {
    return (int)(shim_running->current % ShimLanes);
}

// The lanes of the running thread's warp that exist in the block.
static uint32_t lanes_of(const Shim *s) {
    uint32_t left = s->threads - s->current / ShimLanes * ShimLanes;
    return left < ShimLanes ? (1u << left) - 1 : 0xffffffffu;
}

static void warp_check(Shim *s, const Lane *t) {
    uint32_t lane = s->current % ShimLanes, lanes = lanes_of(s);
    if (!(t->mask >> lane & 1))
        shim_fault(s, ShimDivergent, NULL, "line %d: the mask %08x leaves out its own lane %u",
                   t->line, t->mask, lane);
    if (t->mask & ~lanes)
        shim_fault(s, ShimDivergent, NULL,
                   "line %d: the mask %08x names lanes that the block does not have", t->line,
                   t->mask);
    if (t->from >= 0 && !(t->mask >> t->from & 1))
        shim_fault(s, ShimDivergent, NULL,
                   "line %d: it reads lane %d, which the mask %08x leaves out", t->line, t->from,
                   t->mask);
    if (t->from == WarpSync && t->mask != lanes)
        shim_fault(s, ShimUnsupported, NULL, "line %d: __syncwarp of a part of the warp", t->line);
}

// All lanes of the mask wait: at the same operation, or it is a fault.
static void warp_agree(Shim *s, const Lane *mine, const Lane *warp) {
    for (uint32_t i = 0; i < ShimLanes; i++)
        if (mine->mask >> i & 1 && (warp[i].mask != mine->mask || warp[i].line != mine->line))
            shim_fault(s, ShimDivergent, NULL,
                       "divergent warp: line %d with mask %08x, lane %u at line %d with mask %08x",
                       mine->line, mine->mask, i, warp[i].line, warp[i].mask);
}

static uint64_t ballot(const Lane *warp, uint32_t mask) {
    uint64_t votes = 0;
    for (int i = 0; i < ShimLanes; i++)
        if (mask >> i & 1)
            votes |= (uint64_t)(warp[i].bits != 0) << i;
    return votes;
}

// The lanes that give the same bits as this one.
static uint64_t match(const Lane *warp, uint32_t mask, uint64_t bits) {
    uint64_t same = 0;
    for (int i = 0; i < ShimLanes; i++)
        if (mask >> i & 1)
            same |= (uint64_t)(warp[i].bits == bits) << i;
    return same;
}

// A lane reaches a warp operation: the last one computes the results for all and continues.
static uint64_t warp_meet(int line, uint32_t mask, uint64_t bits, int from) {
    Shim *s = shim_running;
    uint32_t w = s->current / ShimLanes;
    Lane *t = &s->lane[s->current], *warp = &s->lane[w * ShimLanes];
    t->line = line, t->mask = mask, t->bits = bits, t->from = from;
    warp_check(s, t);
    s->arrived[w] |= 1u << s->current % ShimLanes;
    if (mask & ~s->arrived[w]) {
        wait(s, FiberWarp);
        return t->result;
    }
    warp_agree(s, t, warp);
    s->arrived[w] &= ~mask;
    for (uint32_t i = 0; i < ShimLanes; i++) {
        if (!(mask >> i & 1))
            continue;
        warp[i].result = warp[i].from >= 0            ? warp[warp[i].from].bits
                         : warp[i].from == WarpBallot ? ballot(warp, mask)
                         : warp[i].from == WarpMatch  ? match(warp, mask, warp[i].bits)
                                                      : 0;
        if (&warp[i] != t)
            push_ready(s, w * ShimLanes + i);
    }
    if (from == WarpSync)
        s->clock[w]++;
    return t->result;
}

void shim_warp_sync(int line, unsigned mask) {
    (void)warp_meet(line, mask, 0, WarpSync);
}
unsigned long long shim_shuffle(int line, unsigned mask, unsigned long long bits, int from) {
    return warp_meet(line, mask, bits, from);
}
unsigned shim_ballot(int line, unsigned mask, int vote) {
    return (unsigned)warp_meet(line, mask, (uint64_t)vote, WarpBallot);
}
unsigned shim_match(int line, unsigned mask, unsigned x) {
    return (unsigned)warp_meet(line, mask, x, WarpMatch);
}

// --- launches ------------------------------------------------------------------------------------

// Runs one ready fiber until it waits: it comes back by _longjmp to the scheduler.
_Noreturn static void resume(Shim *s, uint32_t thread) {
    Fiber *f = &s->fiber[thread];
    place_thread(s, thread);
    if (f->entered)
        _longjmp(f->at, 1);
    f->entered = true;
    getcontext(&f->first);
    f->first.uc_stack.ss_sp = f->stack;
    f->first.uc_stack.ss_size =
        ShimStack - thread % 128 * 576; // frames in different sets of a cache
    f->first.uc_link = NULL;
    makecontext(&f->first, fiber_main, 0);
    setcontext(&f->first);
    bug("a fiber was not entered");
}

static void run_block(Shim *s) {
    s->block_time = ++s->time;
    memset(s->clock, 0, sizeof s->clock);
    memset(s->arrived, 0, sizeof s->arrived);
    s->readies = 0;
    s->acquire.n = 0;
    for (uint32_t i = 0; i < s->threads; i++) {
        s->lane[i].fenced = false;
        push_ready(s, i);
    }
    (void)_setjmp(s->scheduler); // every fiber that waits comes back to here
    if (s->fault)
        return;
    if (!s->readies)
        release_barrier(s);
    if (!s->readies)
        return;
    uint32_t pick = draw(s, s->readies), thread = s->ready[pick];
    s->ready[pick] = s->ready[--s->readies];
    resume(s, thread);
}

static uint32_t *shuffled(Shim *s, uint32_t n) {
    uint32_t *order = mem_alloc(n * sizeof *order);
    if (!order)
        bug("no memory for the order of %u blocks", n);
    for (uint32_t i = 0; i < n; i++) {
        uint32_t j = draw(s, i + 1);
        order[i] = order[j];
        order[j] = i;
    }
    return order;
}

ShimFault shim_launch(Shim *s, const ShimCode *c, Str name, ShimSize grid, ShimSize block,
                      void *const *param) {
    s->code = c;
    s->kernel = name;
    s->entry = shim_entry(c, name, s);
    s->param = param;
    s->grid = grid, s->block = block;
    s->threads = block.x * block.y * block.z;
    if (s->threads < 1 || s->threads > ShimMaxThreads)
        bug("%u threads in a block", s->threads);
    s->fault = ShimFine;
    s->said[0] = 0;
    s->launch_time = ++s->time;
    shim_forget(&s->shared); // times of the previous Shim
    s->release.n = 0;
    s->here->threads = block;
    s->here->blocks = grid;
    uint32_t blocks = grid.x * grid.y * grid.z, *order = shuffled(s, blocks);
    for (uint32_t i = 0; i < blocks && !s->fault; i++) {
        uint32_t b = order[i];
        s->here->block = (ShimSize){b % grid.x, b / grid.x % grid.y, b / grid.x / grid.y};
        shim_running = s;
        run_block(s);
    }
    shim_running = NULL;
    mem_free(order);
    for (uint32_t i = 0; s->fault && i < ShimMaxThreads; i++)
        s->fiber[i].entered = false; // discards the state in which the fault left them
    return s->fault;
}
