// tail.c - which regions a block may defer to its successors, where they may run then, and what
// must not run before them.
//
// In: regions and their dependences. Out: marks. A region may be deferred when nothing needs it
// after its block: it starts no collective, the executor and other blocks read nothing it computes,
// and all its successors may be deferred too; what remains are waits for the last gradient sums and
// the updates of weights from them. It must find the slots it reads as its own step left them, so
// none that is filled from outside; scalars are the exception, which the executor handles
// (runtime/exec/exec.c).
#include "stages.h"

// A guard: whatever is kept of samples is summed over the ranks first, by a call that no tail
// starts, so this alone has kept no region of the models out.
static bool filled_outside(const Module *m, uint32_t slot) {
    SlotKind kind = m->slot.at[slot].kind;
    return kind == SlotData || kind == SlotFed;
}

// The slot in which a value lies that a region reads or writes, NONE.
static uint32_t slot_of(const Plan *p, uint32_t id) {
    return plan_in_slot(p, id) ? node_slot(&p->func->g, id) : NONE;
}

static bool missed_by_none(const Plan *p, const Region *r, const uint8_t *outlives) {
    for (uint32_t i = 0; i < r->out.n; i++)
        if (outlives[r->out.at[i]])
            return false;
    for (uint32_t i = 0; i < r->in.n; i++) {
        uint32_t slot = slot_of(p, r->in.at[i]);
        if (slot != NONE && filled_outside(p->module, slot))
            return false;
    }
    return r->kind != RegionStart && r->kind != RegionCopy;
}

bool tail_find(const PassOptions *o, const Plan *p, const OrderVec *order, const uint8_t *outlives,
               uint8_t *may) {
    bool step = p->func == &p->module->step, parts = p->func->block_first;
    bool some = o->parallel.tail && p->collective.n && !parts && step && !o->keep_grads;
    some &= p->func->tape.n > 0;
    for (uint32_t r = 0; r < p->region.n; r++)
        may[r] = some && missed_by_none(p, &p->region.at[r], outlives);
    for (uint32_t i = order->n; i-- > 0;) // sorted by `after`, and regions are in a valid order
        may[order->at[i].before] &= may[order->at[i].after];
    return some;
}

enum { Reads = 1, Writes = 2 };
typedef struct SlotUse {
    uint32_t slot;
    uint8_t how; // Reads or Writes
} SlotUse;
typedef VEC(SlotUse) SlotUseVec;

static void add_use(Arena *a, SlotUseVec *uses, uint32_t slot, uint8_t how) {
    if (slot != NONE)
        vec_push(a, uses, ((SlotUse){slot, how}));
}

static SlotUseVec slot_uses(Arena *a, const Plan *p, const Region *r) {
    SlotUseVec uses = {0};
    for (uint32_t i = 0; i < r->in.n; i++)
        add_use(a, &uses, slot_of(p, r->in.at[i]), Reads);
    if (r->kind == RegionCopy) // whose value lies in work memory
        add_use(a, &uses, node_slot(&p->func->g, r->node.at[0]), Reads);
    for (uint32_t i = 0; i < r->out.n; i++)
        add_use(a, &uses, slot_of(p, r->out.at[i]), Writes);
    return uses;
}

// Making the value anew is what must not come before the tail has read it. The sums of a call are
// made where its parts are handed over: that is when it starts.
static void meet_maker(const Plan *p, uint32_t value, uint8_t *meets) {
    uint32_t maker = p->region_of[value];
    if (maker == NONE)
        return;
    meets[maker] = 1;
    if (p->region.at[maker].kind == RegionWait)
        meets[p->collective.at[p->region.at[maker].call].start] = 1;
}

// Two that use one slot conflict unless both read it.
static void find_meets(Arena scratch, const Plan *p, const uint32_t *tail, uint32_t n,
                       uint8_t *meets) {
    uint8_t *used = arena_array(&scratch, uint8_t, p->module->slot.n); // [slot] how, by the tail
    for (uint32_t i = 0; i < n; i++) {
        const Region *r = &p->region.at[tail[i]];
        SlotUseVec uses = slot_uses(&scratch, p, r);
        for (uint32_t k = 0; k < uses.n; k++)
            used[uses.at[k].slot] |= uses.at[k].how;
        for (uint32_t k = 0; k < r->in.n; k++)
            meet_maker(p, r->in.at[k], meets);
    }
    for (uint32_t r = 0; r < p->region.n; r++) {
        Arena again = scratch;
        SlotUseVec uses = slot_uses(&again, p, &p->region.at[r]);
        for (uint32_t k = 0; k < uses.n; k++) {
            uint8_t tails = used[uses.at[k].slot];
            meets[r] |= tails && ((tails | uses.at[k].how) & Writes);
        }
    }
}

// --- ways through the tape -----------------------------------------------------------------------

typedef struct Walk {
    const Func *f;
    uint32_t *pair;      // [tape] of an End the mark it closes, of an Else its End
    uint8_t *met, *seen; // [block]
    uint32_t *went; // [tape, and its end] 2 + the block behind which a round ended there, 0: none
    TailWays *out;
} Walk;

static void pair_marks(Walk *w) {
    uint32_t open[MAX_SCOPES], middle[MAX_SCOPES], depth = 0;
    for (uint32_t i = 0; i < w->f->tape.n; i++) {
        CtlKind kind = w->f->tape.at[i].kind;
        if (kind == CtlElse) {
            middle[depth - 1] = i;
        } else if (kind == CtlEnd) {
            w->pair[i] = open[--depth];
            if (middle[depth] != NONE)
                w->pair[middle[depth]] = i;
        } else if (kind != CtlBlock) {
            open[depth] = i;
            middle[depth++] = NONE;
        }
    }
}

// Is this the first time that a round ends at `pc` behind this block (NONE: behind none yet)?
static bool ends_anew(Walk *w, uint32_t pc, uint32_t block) {
    bool anew = w->went[pc] != block + 2;
    w->went[pc] = block + 2;
    return anew;
}

// Marks the blocks that run the tail on all ways from `pc` on: the first with a region that is met,
// or else the last that comes before it is open which block is next. `block`: the last that all
// ways there led through. False where there is none.
static bool walk(Walk *w, uint32_t pc, uint32_t block) {
    const Func *f = w->f;
    for (;; pc++) {
        if (pc == f->tape.n) {
            if (!ends_anew(w, pc, block))
                return true;
            w->out->wraps = true;
            pc = 0;
        }
        Ctl c = f->tape.at[pc];
        switch (c.kind) {
        case CtlBlock:
            if (w->seen[c.arg])
                return true; // from there on the way is known
            block = c.arg;
            w->seen[block] = 1;
            if (w->met[block])
                w->out->within[block] = 1;
            if (w->met[block])
                return true;
            break;
        case CtlRepeat: // it has a round at least
            break;
        case CtlEvery:
        case CtlIf:
            if (block != NONE)
                w->out->within[block] = 1;
            return block != NONE;
        case CtlElse:
            pc = w->pair[pc];
            break;
        case CtlEnd:
            if (f->tape.at[w->pair[pc]].kind != CtlRepeat || !ends_anew(w, pc, block))
                break;
            w->out->loop = w->pair[pc] < w->out->loop ? w->pair[pc] : w->out->loop;
            if (!walk(w, w->pair[pc] + 1, block))
                return false;
            break;
        }
    }
}

bool tail_place(Arena *a, const Plan *p, const uint32_t *tail, uint32_t n, TailWays *out) {
    const Func *f = p->func;
    uint32_t block = p->region.at[tail[0]].block, pc = 0;
    *out = (TailWays){.within = arena_array(a, uint8_t, f->blocks),
                      .meets = arena_array(a, uint8_t, p->region.n),
                      .loop = NONE};
    Arena scratch = *a;
    Walk w = {.f = f, .out = out};
    w.pair = arena_array(&scratch, uint32_t, f->tape.n);
    w.met = arena_array(&scratch, uint8_t, f->blocks);
    w.seen = arena_array(&scratch, uint8_t, f->blocks);
    w.went = arena_array(&scratch, uint32_t, f->tape.n + 1);
    find_meets(scratch, p, tail, n, out->meets);
    for (uint32_t r = 0; r < p->region.n; r++)
        w.met[p->region.at[r].block] |= out->meets[r];
    pair_marks(&w);
    while (f->tape.at[pc].kind != CtlBlock || f->tape.at[pc].arg != block)
        pc++;
    return walk(&w, pc + 1, NONE);
}
