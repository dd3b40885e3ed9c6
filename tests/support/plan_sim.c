// plan_sim.c - see plan_sim.h.
#include "plan_sim.h"

#include <setjmp.h>
#include <string.h>

#include <cmocka.h>
#include "buffer.h"
#include "stages.h"

typedef struct Deferred { // a tail (program.h)
    bool pending;
    uint32_t *stamp_of; // [node] PlanSim.stamp_of when its block deferred it
} Deferred;

typedef struct PlanSim {
    const Plan *p;
    uint64_t seed;
    // [bytes / PLAN_ALIGN] stamp of the value that these bytes hold; 0: an initial one
    uint32_t *work, *slots;
    uint32_t *stamp_of; // [node] stamp of its value
    uint32_t last_stamp;
    Deferred *deferred;     // [tail]
    uint8_t *ran;           // [block] ran in this step
    const Buffer *lifetime; // [node] lifetimes; NULL: simulate the plan's own offsets
} PlanSim;
static const uint32_t UNDEFINED = UINT32_MAX, // not a stamp: to be written by a pending tail
    CLOBBERED = UINT32_MAX - 1;               // not a stamp: overwritten by clobber_others

static size_t cells(const PlanSim *sim, uint32_t id) {
    return plan_bytes(sim->p, id) / PLAN_ALIGN;
}

static uint32_t *cells_at(const PlanSim *sim, Place at, size_t n) {
    assert_true(at.space == SpaceWork || at.space == SpaceSlot);
    assert_int_equal(at.offset % PLAN_ALIGN, 0);
    assert_true(at.offset + n * PLAN_ALIGN <=
                (at.space == SpaceWork ? sim->p->work_bytes : sim->p->slot_bytes));
    return (at.space == SpaceWork ? sim->work : sim->slots) + at.offset / PLAN_ALIGN;
}

static Place slot_place(const PlanSim *sim, uint32_t read) {
    const Slot *s = &sim->p->module->slot.at[node_attr(&sim->p->func->g, read)->i[0]];
    return (Place){SpaceSlot, s->offset, read};
}

static bool is_of_tail(const Plan *p, uint32_t tail, uint32_t region) {
    const Section *s = &p->section.at[p->tail.at[tail].section];
    for (uint32_t l = s->first; l < s->first + s->n; l++)
        for (uint32_t k = 0; k < p->launch.at[l].instances; k++)
            if (p->merge.at[p->launch.at[l].first + k] == region)
                return true;
    return false;
}

static void expect(const PlanSim *sim, uint32_t id, Place at, uint32_t region, const char *what) {
    size_t n = cells(sim, id);
    const uint32_t *cell = cells_at(sim, at, n), stamp = sim->stamp_of[id];
    uint32_t off = 0;
    for (size_t i = 0; i < n;
         i++) // without an exit, so that it is vectorized: most of the time is here
        off |= cell[i] ^ stamp;
    if (off)
        fail_msg("plan %llu: region %u %s node %u (%s), but the memory holds another value",
                 (unsigned long long)sim->seed, region, what, id,
                 op_info[graph_node(&sim->p->func->g, id)->op].text);
}

// Sets the values of the block's reads, of the slots that the tail writes or of all slots (NONE),
// to what the slots hold, or to UNDEFINED.
static void read_slots(const PlanSim *sim, uint32_t block, uint32_t tail, bool settled) {
    const Plan *p = sim->p;
    const Graph *g = &p->func->g;
    for (uint32_t id = 1; id < g->node.n; id++) {
        bool of_it = tail == NONE;
        if (graph_node(g, id)->op != OpRead || graph_node(g, id)->block != block)
            continue;
        for (uint32_t i = 0; tail != NONE && i < p->func->effect.n; i++) {
            uint32_t write = p->func->effect.at[i], region = p->region_of[write];
            of_it |= node_attr(g, write)->i[0] == node_attr(g, id)->i[0] && region != NONE &&
                     is_of_tail(p, tail, region);
        }
        if (of_it)
            sim->stamp_of[id] =
                settled ? *cells_at(sim, slot_place(sim, id), cells(sim, id)) : UNDEFINED;
    }
}

// At the entry of a block its reads get their slots' values, except those a pending tail writes.
static void enter_block(const PlanSim *sim, uint32_t block) {
    read_slots(sim, block, NONE, true);
    for (uint32_t t = 0; t < sim->p->tail.n; t++)
        if (sim->deferred[t].pending)
            read_slots(sim, block, t, false);
}

static void clobber_others(const PlanSim *sim, uint32_t written) {
    for (uint32_t id = 1; id < sim->p->func->g.node.n; id++) {
        const Buffer *b = &sim->lifetime[id];
        if (!b->owner || !sim->lifetime[written].owner || buffers_meet(b, &sim->lifetime[written]))
            continue;
        uint32_t *cell = cells_at(sim, sim->p->place[id], cells(sim, id));
        for (size_t k = 0, n = cells(sim, id); k < n; k++)
            cell[k] = CLOBBERED;
    }
}

static void run_region(PlanSim *sim, uint32_t index) {
    const Region *r = &sim->p->region.at[index];
    for (uint32_t i = 0; i < r->out.n; i++) {
        uint32_t id = r->out.at[i], *cell = cells_at(sim, sim->p->place[id], cells(sim, id));
        if (r->kind == RegionCopy)
            expect(sim, id, slot_place(sim, id), index, "copies");
        else
            sim->stamp_of[id] = ++sim->last_stamp;
        for (size_t k = 0, n = cells(sim, id), stamp = sim->stamp_of[id]; k < n; k++)
            cell[k] = (uint32_t)stamp;
        if (sim->lifetime)
            clobber_others(sim, id);
    }
}

// An in-place kernel reads element i of an operand just before it overwrites it with element i of
// the result: elements must have the same size.
static void expect_same_elements(const PlanSim *sim, uint32_t index) {
    const Region *r = &sim->p->region.at[index];
    const Graph *g = &sim->p->func->g;
    for (uint32_t i = 0; i < r->in.n * r->out.n; i++) {
        uint32_t in = r->in.at[i / r->out.n], out = r->out.at[i % r->out.n];
        Place a = sim->p->place[in], b = sim->p->place[out];
        size_t size = dtype_size[node_type(g, in)->dtype];
        if (r->kind == RegionLoop && a.space == b.space && a.offset == b.offset &&
            size != dtype_size[node_type(g, out)->dtype])
            fail_msg("plan %llu: region %u writes node %u over node %u, whose elements have "
                     "another size",
                     (unsigned long long)sim->seed, index, out, in);
    }
}

static void run_launch(PlanSim *sim, Launch l) {
    const Plan *p = sim->p;
    for (uint32_t k = 0; k < l.instances; k++) {
        uint32_t index = p->merge.at[l.first + k];
        for (uint32_t i = 0; i < p->region.at[index].in.n; i++)
            expect(sim, p->region.at[index].in.at[i], p->place[p->region.at[index].in.at[i]], index,
                   "reads");
    }
    for (uint32_t k = 0; k < l.instances; k++) {
        run_region(sim, p->merge.at[l.first + k]);
        expect_same_elements(sim, p->merge.at[l.first + k]);
    }
    for (uint32_t k = 0; k < l.instances; k++) {
        const Region *r = &p->region.at[p->merge.at[l.first + k]];
        for (uint32_t i = 0; i < r->out.n; i++)
            expect(sim, r->out.at[i], p->place[r->out.at[i]], p->merge.at[l.first + k], "stores");
    }
}

static void run_section(PlanSim *sim, const Section *s) {
    for (uint32_t i = s->first; i < s->first + s->n; i++)
        run_launch(sim, sim->p->launch.at[i]);
}

// Runs the tail on the values of the time it was deferred. `block`: the one that runs it, or NONE.
static void run_tail(PlanSim *sim, uint32_t tail, uint32_t block) {
    uint32_t *now = sim->stamp_of;
    if (!sim->deferred[tail].pending)
        return;
    sim->deferred[tail].pending = false;
    sim->stamp_of = sim->deferred[tail].stamp_of;
    run_section(sim, &sim->p->section.at[sim->p->tail.at[tail].section]);
    sim->stamp_of = now;
    if (block != NONE)
        read_slots(sim, block, tail, true);
}

static void run_block(PlanSim *sim, uint32_t block) {
    const Plan *p = sim->p;
    enter_block(sim, block);
    sim->ran[block] = 1;
    run_section(sim, &p->section.at[block]);
    for (uint32_t i = p->func->blocks; i < p->section.n; i++) {
        const Section *s = &p->section.at[i];
        if (s->block != block)
            continue;
        if (s->kind == SectionTail) {
            assert_false(sim->deferred[s->tail].pending);
            sim->deferred[s->tail].pending = true;
            memcpy(sim->deferred[s->tail].stamp_of, sim->stamp_of,
                   p->func->g.node.n * sizeof *sim->stamp_of);
        } else {
            run_tail(sim, s->tail, block);
            run_section(sim, s);
        }
    }
}

// The end of the branch that begins at `i`: its Else or End.
static uint32_t branch_end(const Func *f, uint32_t i) {
    for (uint32_t depth = 0;; i++) {
        CtlKind k = f->tape.at[i].kind;
        if (!depth && (k == CtlElse || k == CtlEnd))
            return i;
        depth += k == CtlRepeat || k == CtlEvery || k == CtlIf;
        depth -= k == CtlEnd;
    }
}

// Runs each `repeat` twice, and of each `every` or `if` the first branch or the other.
static void run_tape(PlanSim *sim, bool first) {
    enum { DEPTH = 64 };
    const Func *f = sim->p->func;
    uint32_t open[DEPTH], rounds[DEPTH], depth = 0;
    for (uint32_t i = 0; i < f->tape.n; i++) {
        Ctl c = f->tape.at[i];
        if (c.kind == CtlBlock) {
            run_block(sim, c.arg);
        } else if (c.kind == CtlEnd) {
            bool again = f->tape.at[open[depth - 1]].kind == CtlRepeat && !rounds[depth - 1]++;
            if (again)
                i = open[depth - 1];
            else
                depth--;
        } else if (c.kind == CtlElse) {
            i = branch_end(f, i + 1) - 1; // the first branch was taken
        } else {
            assert_true(depth < DEPTH);
            open[depth] = i;
            rounds[depth++] = 0;
            if (c.kind != CtlRepeat && !first) {
                uint32_t end = branch_end(f, i + 1);
                i = f->tape.at[end].kind == CtlElse ? end : end - 1;
            }
        }
    }
}

static void expect_reports(const PlanSim *sim) {
    const Func *f = sim->p->func;
    for (uint32_t i = 0; i < f->report.n; i++) {
        uint32_t owner = plan_owner(sim->p, f->report.at[i].node);
        bool ran = sim->ran[graph_node(&f->g, f->report.at[i].node)->block];
        if (ran && owner && !plan_in_slot(sim->p, owner))
            expect(sim, owner, sim->p->place[owner], NONE, "reports");
    }
}

// Runs steps with either branch and checks the reported values after each, and once more after the
// pending tails of the last.
static void run_steps(PlanSim *sim) {
    static const bool first[] = {true, false, false, true, true};
    for (size_t i = 0; i < sizeof first; i++) {
        memset(sim->ran, 0, sim->p->func->blocks);
        run_tape(sim, first[i]);
        expect_reports(sim);
    }
    for (uint32_t t = 0; t < sim->p->tail.n; t++)
        run_tail(sim, t, NONE);
    expect_reports(sim);
}

static void simulate(Arena *a, const Plan *p, const Buffer *lifetime, uint64_t seed) {
    PlanSim sim = {.p = p, .seed = seed, .lifetime = lifetime};
    sim.work = arena_array(a, uint32_t, p->work_bytes / PLAN_ALIGN + 1);
    sim.slots = arena_array(a, uint32_t, p->slot_bytes / PLAN_ALIGN + 1);
    sim.stamp_of = arena_array(a, uint32_t, p->func->g.node.n);
    sim.deferred = arena_array(a, Deferred, p->tail.n);
    sim.ran = arena_array(a, uint8_t, p->func->blocks);
    for (uint32_t t = 0; t < p->tail.n; t++)
        sim.deferred[t].stamp_of = arena_array(a, uint32_t, p->func->g.node.n);
    run_steps(&sim);
}

void plan_simulate(Arena *a, const Plan *p, uint64_t seed) {
    simulate(a, p, NULL, seed);
    assert_true(p->work_bytes >= p->work_bound);
}

void plan_simulate_lifetimes(Arena *a, const Plan *p, const PassOptions *o, uint64_t seed) {
    Plan separate = *p; // each value has its own memory
    Lives l;
    memory_lives(a, o, &separate, &l);
    uint32_t n = p->func->g.node.n;
    separate.place = arena_array(a, Place, n);
    separate.work_bytes = 0;
    for (uint32_t id = 1; id < n; id++) {
        separate.place[id] = p->place[id];
        uint32_t owner = p->place[id].owner; // precedes its views
        if (p->place[id].space == SpaceWork) {
            separate.place[id].offset =
                owner == id ? separate.work_bytes : separate.place[owner].offset;
            separate.work_bytes += owner == id ? plan_bytes(p, id) : 0;
        }
    }
    simulate(a, &separate, l.value, seed);
}
