// tail.c - which regions a step may leave to the next one, and what must not come before them then.
//
// In: regions and their orders. Out: marks. A region may be left when nobody would miss it at the
// end of the step: it starts no call, the executor looks at nothing it makes, no other block reads
// it, and all that follows from it may be left too; what remains are waits for the last sums of
// gradients and what makes new weights of them. It must find the slots it reads as its own step
// left them, so none that is filled from outside: scalars are the exception, for which the executor
// cares (runtime/exec.c).
#include "plan.h"

// The last block that does anything; NONE: it may not run, or more than once.
static uint32_t last_block(const Plan *p) {
    const Func *f = p->func;
    for (uint32_t i = f->tape.n; i-- > 0 && f->tape.at[i].kind == CtlBlock;)
        for (uint32_t r = 0; r < p->region.n; r++)
            if (p->region.at[r].block == f->tape.at[i].arg)
                return f->tape.at[i].arg;
    return NONE;
}

// A guard: whatever is kept of samples is summed over the ranks first, by a call that no tail
// starts, so this alone has kept no region of the models out.
static bool filled_outside(const Module *m, uint32_t slot) {
    SlotKind kind = m->slot.at[slot].kind;
    return kind == SlotData || kind == SlotFed;
}

// The slot in which a value lies that a region reads or writes, NONE.
static uint32_t slot_of(const Plan *p, uint32_t id) {
    return plan_in_slot(p, id) ? (uint32_t)node_attr(&p->func->g, id)->i[0] : NONE;
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

uint32_t tail_find(const PassOptions *o, const Plan *p, const OrderVec *order,
                   const uint8_t *outlives, uint8_t *may) {
    bool step = p->func == &p->module->step, parts = p->func->block_first;
    bool none = !o->parallel.tail || !p->collective.n || parts || !step || o->keep_grads;
    uint32_t last = none ? NONE : last_block(p);
    for (uint32_t r = 0; r < p->region.n; r++)
        may[r] = p->region.at[r].block == last && missed_by_none(p, &p->region.at[r], outlives);
    for (uint32_t i = order->n; i-- > 0;) // sorted by `after`, and regions are in a valid order
        may[order->at[i].before] &= may[order->at[i].after];
    return last;
}

static void touch(const Plan *p, const Region *r, uint8_t *reads, uint8_t *writes) {
    for (uint32_t i = 0; i < r->in.n; i++)
        if (slot_of(p, r->in.at[i]) != NONE)
            reads[slot_of(p, r->in.at[i])] = 1;
    if (r->kind == RegionCopy)
        reads[node_attr(&p->func->g, r->node.at[0])->i[0]] = 1;
    for (uint32_t i = 0; i < r->out.n; i++)
        if (slot_of(p, r->out.at[i]) != NONE)
            writes[slot_of(p, r->out.at[i])] = 1;
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

static void find_meets(Arena scratch, const Plan *p, const uint32_t *tail, uint32_t n,
                       uint8_t *meets) {
    uint32_t slots = p->module->slot.n;
    uint8_t *reads = arena_array(&scratch, uint8_t, slots),
            *writes = arena_array(&scratch, uint8_t, slots);
    for (uint32_t i = 0; i < n; i++) {
        const Region *r = &p->region.at[tail[i]];
        touch(p, r, reads, writes);
        for (uint32_t k = 0; k < r->in.n; k++)
            meet_maker(p, r->in.at[k], meets);
    }
    for (uint32_t r = 0; r < p->region.n; r++) {
        Arena again = scratch;
        uint8_t *read = arena_array(&again, uint8_t, slots),
                *written = arena_array(&again, uint8_t, slots);
        touch(p, &p->region.at[r], read, written);
        for (uint32_t s = 0; s < slots; s++)
            meets[r] |= (writes[s] && (read[s] || written[s])) || (reads[s] && written[s]);
    }
}

// The first block with a region that is met, or else the last of those that run in every step
// before any other can.
static uint32_t first_met(const Plan *p, const uint8_t *meets) {
    const Func *f = p->func;
    uint32_t block = NONE;
    for (uint32_t i = 0; i < f->tape.n; i++) {
        if (f->tape.at[i].kind == CtlRepeat)
            continue;
        if (f->tape.at[i].kind != CtlBlock)
            break;
        block = f->tape.at[i].arg;
        for (uint32_t r = 0; r < p->region.n; r++)
            if (meets[r] && p->region.at[r].block == block)
                return block;
    }
    return block;
}

uint32_t tail_place(Arena scratch, const Plan *p, const uint32_t *tail, uint32_t n,
                    uint8_t *meets) {
    find_meets(scratch, p, tail, n, meets);
    return first_met(p, meets);
}
