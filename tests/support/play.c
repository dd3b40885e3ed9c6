// play.c - see play.h.
#include "play.h"

#include <setjmp.h>
#include <string.h>

#include <cmocka.h>
#include "buffer.h"
#include "plan.h"

typedef struct Left { // a tail
    bool pending;
    uint32_t *means; // [node] of Play when its block left it
} Left;

typedef struct Play {
    const Plan *p;
    uint64_t seed;
    uint32_t *work,
        *slots; // [bytes / PLAN_ALIGN] stamp of the value whose bytes these are, 0 the first one
    uint32_t *means; // [node] stamp of its value
    uint32_t stamps;
    Left *left;          // [tail]
    uint8_t *ran;        // [block] in this step
    const Buffer *lives; // [node] when it does; NULL: places are the plan's
} Play;
static const uint32_t UNSETTLED = UINT32_MAX, // no value: what a pending tail writes
    SPOILT = UINT32_MAX - 1;                  // nor this: what lay where another value might have

static size_t cells(const Play *y, uint32_t id) {
    return plan_bytes(y->p, id) / PLAN_ALIGN;
}

static uint32_t *cells_at(const Play *y, Place at, size_t n) {
    assert_true(at.space == SpaceWork || at.space == SpaceSlot);
    assert_int_equal(at.offset % PLAN_ALIGN, 0);
    assert_true(at.offset + n * PLAN_ALIGN <=
                (at.space == SpaceWork ? y->p->work_bytes : y->p->slot_bytes));
    return (at.space == SpaceWork ? y->work : y->slots) + at.offset / PLAN_ALIGN;
}

static Place slot_place(const Play *y, uint32_t read) {
    const Slot *s = &y->p->module->slot.at[node_attr(&y->p->func->g, read)->i[0]];
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

static void expect(const Play *y, uint32_t id, Place at, uint32_t region, const char *what) {
    size_t n = cells(y, id);
    const uint32_t *cell = cells_at(y, at, n);
    for (size_t i = 0; i < n; i++)
        if (cell[i] != y->means[id])
            fail_msg("plan %llu: region %u %s node %u (%s), but another value lies there",
                     (unsigned long long)y->seed, region, what, id,
                     op_info[graph_node(&y->p->func->g, id)->op].text);
}

// Reads of the block, of the slots that the tail writes, or of all (NONE), mean what these hold, or
// nothing yet.
static void read_slots(const Play *y, uint32_t block, uint32_t tail, bool settled) {
    const Plan *p = y->p;
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
            y->means[id] = settled ? *cells_at(y, slot_place(y, id), cells(y, id)) : UNSETTLED;
    }
}

// At the entry of a block its reads mean what their slots hold, once what was left has run.
static void enter_block(const Play *y, uint32_t block) {
    read_slots(y, block, NONE, true);
    for (uint32_t t = 0; t < y->p->tail.n; t++)
        if (y->left[t].pending)
            read_slots(y, block, t, false);
}

static void spoil_others(const Play *y, uint32_t made) {
    for (uint32_t id = 1; id < y->p->func->g.node.n; id++) {
        const Buffer *b = &y->lives[id];
        if (!b->owner || !y->lives[made].owner || buffers_meet(b, &y->lives[made]))
            continue;
        uint32_t *cell = cells_at(y, y->p->place[id], cells(y, id));
        for (size_t k = 0, n = cells(y, id); k < n; k++)
            cell[k] = SPOILT;
    }
}

static void play_region(Play *y, uint32_t index) {
    const Region *r = &y->p->region.at[index];
    for (uint32_t i = 0; i < r->out.n; i++) {
        uint32_t id = r->out.at[i], *cell = cells_at(y, y->p->place[id], cells(y, id));
        if (r->kind == RegionCopy)
            expect(y, id, slot_place(y, id), index, "copies");
        else
            y->means[id] = ++y->stamps;
        for (size_t k = 0, n = cells(y, id); k < n; k++)
            cell[k] = y->means[id];
        if (y->lives)
            spoil_others(y, id);
    }
}

// A kernel reads element i of an operand just before it writes element i over it: both must begin
// at the same byte.
static void expect_same_elements(const Play *y, uint32_t index) {
    const Region *r = &y->p->region.at[index];
    const Graph *g = &y->p->func->g;
    for (uint32_t i = 0; i < r->in.n * r->out.n; i++) {
        uint32_t in = r->in.at[i / r->out.n], out = r->out.at[i % r->out.n];
        Place a = y->p->place[in], b = y->p->place[out];
        size_t size = dtype_size[node_type(g, in)->dtype];
        if (r->kind == RegionLoop && a.space == b.space && a.offset == b.offset &&
            size != dtype_size[node_type(g, out)->dtype])
            fail_msg("plan %llu: region %u writes node %u over node %u, whose elements are of "
                     "another size",
                     (unsigned long long)y->seed, index, out, in);
    }
}

static void play_launch(Play *y, Launch l) {
    const Plan *p = y->p;
    for (uint32_t k = 0; k < l.instances; k++) {
        uint32_t index = p->merge.at[l.first + k];
        for (uint32_t i = 0; i < p->region.at[index].in.n; i++)
            expect(y, p->region.at[index].in.at[i], p->place[p->region.at[index].in.at[i]], index,
                   "reads");
    }
    for (uint32_t k = 0; k < l.instances; k++) {
        play_region(y, p->merge.at[l.first + k]);
        expect_same_elements(y, p->merge.at[l.first + k]);
    }
    for (uint32_t k = 0; k < l.instances; k++) {
        const Region *r = &p->region.at[p->merge.at[l.first + k]];
        for (uint32_t i = 0; i < r->out.n; i++)
            expect(y, r->out.at[i], p->place[r->out.at[i]], p->merge.at[l.first + k], "stores");
    }
}

static void play_section(Play *y, const Section *s) {
    for (uint32_t i = s->first; i < s->first + s->n; i++)
        play_launch(y, y->p->launch.at[i]);
}

// With the values as they were when it was left. `block`: runs it, NONE.
static void play_tail(Play *y, uint32_t tail, uint32_t block) {
    uint32_t *now = y->means;
    if (!y->left[tail].pending)
        return;
    y->left[tail].pending = false;
    y->means = y->left[tail].means;
    play_section(y, &y->p->section.at[y->p->tail.at[tail].section]);
    y->means = now;
    if (block != NONE)
        read_slots(y, block, tail, true);
}

static void play_block(Play *y, uint32_t block) {
    const Plan *p = y->p;
    enter_block(y, block);
    y->ran[block] = 1;
    play_section(y, &p->section.at[block]);
    for (uint32_t i = p->func->blocks; i < p->section.n; i++) {
        const Section *s = &p->section.at[i];
        if (s->block != block)
            continue;
        if (s->kind == SectionTail) {
            assert_false(y->left[s->tail].pending);
            y->left[s->tail].pending = true;
            memcpy(y->left[s->tail].means, y->means, p->func->g.node.n * sizeof *y->means);
        } else {
            play_tail(y, s->tail, block);
            play_section(y, s);
        }
    }
}

// The mark behind the branch that begins at `i`: its Else or End.
static uint32_t branch_end(const Func *f, uint32_t i) {
    for (uint32_t depth = 0;; i++) {
        CtlKind k = f->tape.at[i].kind;
        if (!depth && (k == CtlElse || k == CtlEnd))
            return i;
        depth += k == CtlRepeat || k == CtlEvery || k == CtlIf;
        depth -= k == CtlEnd;
    }
}

// Two rounds of every repeat; of an `every` or `if` the first branch or the other.
static void play_tape(Play *y, bool first) {
    enum { DEPTH = 64 };
    const Func *f = y->p->func;
    uint32_t open[DEPTH], rounds[DEPTH], depth = 0;
    for (uint32_t i = 0; i < f->tape.n; i++) {
        Ctl c = f->tape.at[i];
        if (c.kind == CtlBlock) {
            play_block(y, c.arg);
        } else if (c.kind == CtlEnd) {
            bool again = f->tape.at[open[depth - 1]].kind == CtlRepeat && !rounds[depth - 1]++;
            if (again)
                i = open[depth - 1];
            else
                depth--;
        } else if (c.kind == CtlElse) {
            i = branch_end(f, i + 1) - 1; // the other one was taken
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

static void expect_reports(const Play *y) {
    const Func *f = y->p->func;
    for (uint32_t i = 0; i < f->report.n; i++) {
        uint32_t owner = plan_owner(y->p, f->report.at[i].node);
        bool ran = y->ran[graph_node(&f->g, f->report.at[i].node)->block];
        if (ran && owner && !plan_in_slot(y->p, owner))
            expect(y, owner, y->p->place[owner], NONE, "reports");
    }
}

// Steps that take one branch or the other, with what they report there behind each, and behind the
// last when what it has left has run.
static void play(Play *y) {
    static const bool first[] = {true, false, false, true, true};
    for (size_t i = 0; i < sizeof first; i++) {
        memset(y->ran, 0, y->p->func->blocks);
        play_tape(y, first[i]);
        expect_reports(y);
    }
    for (uint32_t t = 0; t < y->p->tail.n; t++)
        play_tail(y, t, NONE);
    expect_reports(y);
}

static void play_all(Arena *a, const Plan *p, const Buffer *lives, uint64_t seed) {
    Play y = {.p = p, .seed = seed, .lives = lives};
    y.work = arena_array(a, uint32_t, p->work_bytes / PLAN_ALIGN + 1);
    y.slots = arena_array(a, uint32_t, p->slot_bytes / PLAN_ALIGN + 1);
    y.means = arena_array(a, uint32_t, p->func->g.node.n);
    y.left = arena_array(a, Left, p->tail.n);
    y.ran = arena_array(a, uint8_t, p->func->blocks);
    for (uint32_t t = 0; t < p->tail.n; t++)
        y.left[t].means = arena_array(a, uint32_t, p->func->g.node.n);
    play(&y);
}

void plan_play(Arena *a, const Plan *p, uint64_t seed) {
    play_all(a, p, NULL, seed);
    assert_true(p->work_bytes >= p->work_bound);
}

void plan_play_lives(Arena *a, const Plan *p, const PassOptions *o, uint64_t seed) {
    Plan apart = *p; // every value by itself
    Lives l;
    memory_lives(a, o, &apart, &l);
    uint32_t n = p->func->g.node.n;
    apart.place = arena_array(a, Place, n);
    apart.work_bytes = 0;
    for (uint32_t id = 1; id < n; id++) {
        apart.place[id] = p->place[id];
        uint32_t owner = p->place[id].owner; // no later than its views
        if (p->place[id].space == SpaceWork) {
            apart.place[id].offset = owner == id ? apart.work_bytes : apart.place[owner].offset;
            apart.work_bytes += owner == id ? plan_bytes(p, id) : 0;
        }
    }
    play_all(a, &apart, l.value, seed);
}
