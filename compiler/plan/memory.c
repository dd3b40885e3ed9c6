// memory.c - static memory planning: an address for every stored value of a function.
//
// In: the schedule, the slots' offsets. Out: Plan.place, work_bytes, work_bound, bytes_moved.
// Time is the number of a launch, blocks in the order of the tape. A value's live range is from the
// launch that computes it to the last that reads it; one that is read inside a loop but computed
// outside lives to the end of that loop. Where a loop region's input dies at an output of equal
// size, computed from it element by element, the output is computed in place. The parts of a
// collective are one buffer. Buffers are packed offline, largest first, each into the smallest gap
// among those whose live ranges interfere.
//
// A tail (program.h) has its times in the blocks that run it. A value it reads that was not
// computed in it stays live until then, to the end of a round and from the beginning of the next
// where the tail is loop-carried. So does what the executor may read between two steps, since a
// tail carried to the next step may also run there.
#include "buffer.h"
#include "stages.h"

#include <stdlib.h>
#include <string.h>

typedef struct TailTime { // a tail where a block runs it
    uint32_t tail;
    uint32_t first, end; // launches
} TailTime;

typedef struct Memory {
    Arena *a; // scratch
    const Plan *p;
    const PassOptions *o;
    bool placed;           // offsets are given
    VEC(Buffer) buffer;    // [0] is none
    uint32_t *of;          // [node] its buffer, 0 none
    size_t *within;        // [node] bytes from the start of its buffer
    uint8_t *part;         // [node] lies in the buffer of a collective
    uint32_t *time;        // [region] its launch
    uint32_t *begin, *end; // [block] its first launch, and one past its last
    VEC(uint32_t) * loops; // [block] enclosing repeats, outermost first: positions in the tape
    uint32_t *loop_begin;  // [tape] of a repeat: its first launch
    uint32_t *loop_end;    // [tape] its last
    uint32_t launches;     // their number
    uint32_t *tail_of;     // [region] the tail it is of, NONE
    VEC(TailTime) span;    // when tails run, by time
    uint32_t wrapped;      // when all that a step leaves to the next has run there
    uint32_t *depends;     // [node] the last question of one_to_one that it depends on
    uint32_t asked;        // their number
} Memory;

// --- time ----------------------------------------------------------------------------------------

static uint32_t number_section(Memory *m, const Section *s, uint32_t now) {
    const Plan *p = m->p;
    for (uint32_t l = s->first; l < s->first + s->n; l++, now++)
        for (uint32_t k = 0; k < p->launch.at[l].instances; k++)
            m->time[p->merge.at[p->launch.at[l].first + k]] = now;
    return now;
}

// Of a tail that several blocks run, its regions have the time in the last of them.
static uint32_t number_tail(Memory *m, uint32_t tail, uint32_t now) {
    const Tail *t = &m->p->tail.at[tail];
    uint32_t end = number_section(m, &m->p->section.at[t->section], now);
    vec_push(m->a, &m->span, ((TailTime){tail, now, end}));
    m->wrapped = t->wraps ? end : m->wrapped;
    return end;
}

static void number_launches(Memory *m) {
    const Plan *p = m->p;
    const uint32_t *order = plan_sections(m->a, p);
    uint32_t now = 0;
    for (uint32_t i = 0; i < p->section.n; i++) {
        const Section *s = &p->section.at[order[i]];
        if (s->kind == SectionBegin)
            m->begin[s->block] = now;
        if (s->kind == SectionTail)
            continue; // numbered where it runs
        if (s->kind == SectionRest)
            now = number_tail(m, s->tail, now);
        now = number_section(m, s, now);
        m->end[s->block] = now;
    }
    m->launches = now;
}

// Which repeats enclose each block, and the launches of each repeat.
static void find_loops(Memory *m) {
    const Func *f = m->p->func;
    uint32_t now = 0, depth = 0, open[MAX_SCOPES];
    for (uint32_t i = 0; i < f->tape.n; i++) {
        Ctl c = f->tape.at[i];
        if (c.kind == CtlBlock) {
            for (uint32_t k = 0; k < depth; k++)
                if (f->tape.at[open[k]].kind == CtlRepeat)
                    vec_push(m->a, &m->loops[c.arg], open[k]);
            now = m->end[c.arg];
        } else if (c.kind == CtlEnd) {
            m->loop_end[open[--depth]] = now ? now - 1 : 0;
        } else if (c.kind != CtlElse) {
            if (depth == MAX_SCOPES)
                bug("scopes nest deeper than %d", MAX_SCOPES);
            m->loop_begin[i] = now;
            open[depth++] = i;
        }
    }
}

static void find_tails(Memory *m) {
    const Plan *p = m->p;
    memset(m->tail_of, 0xff, p->region.n * sizeof *m->tail_of);
    for (uint32_t t = 0; t < p->tail.n; t++) {
        uint32_t *region, n = section_regions(p, &p->section.at[p->tail.at[t].section], &region);
        for (uint32_t i = 0; i < n; i++)
            m->tail_of[region[i]] = t;
    }
}

// The tail in which a value is made, NONE.
static uint32_t tail_of_value(const Memory *m, uint32_t node) {
    uint32_t region = m->p->region_of[node];
    return region == NONE ? NONE : m->tail_of[region];
}

// When a value made in block `made` and used by block `used` at `time` may go.
static uint32_t use_ends(const Memory *m, uint32_t made, uint32_t used, uint32_t time) {
    for (uint32_t i = 0; i < m->loops[used].n; i++) {
        uint32_t loop = m->loops[used].at[i];
        bool inside = i < m->loops[made].n && m->loops[made].at[i] == loop;
        if (!inside)
            return m->loop_end[loop]; // the outermost one that does not hold both
    }
    return time;
}

static void live_again(Buffer *b, uint32_t from, uint32_t again) {
    b->from = b->again && b->from < from ? b->from : from;
    b->again = again > b->again ? again : b->again;
}

static void live_until(Buffer *b, uint32_t last) {
    b->last = last > b->last ? last : b->last;
}

// The value is still there when the tail has run, wherever that is.
static void live_until_tail(const Memory *m, Buffer *b, uint32_t tail) {
    const Tail *t = &m->p->tail.at[tail];
    uint32_t begin = t->wraps ? 0 : t->loop != NONE ? m->loop_begin[t->loop] : b->first;
    if (t->wraps) {
        live_until(b, m->launches);
        live_again(b, begin, m->wrapped); // others deferred with it may run first
    }
    for (uint32_t i = 0; i < m->span.n; i++) {
        const TailTime *s = &m->span.at[i];
        if (s->tail == tail && s->first > b->first)
            live_until(b, s->end);
        else if (s->tail == tail)
            live_again(b, begin, s->end);
    }
}

// What is made and read within a tail is there wherever that runs.
static void live_within(const Memory *m, Buffer *b, uint32_t tail) {
    for (uint32_t i = 0; i < m->span.n; i++) {
        const TailTime *s = &m->span.at[i];
        if (s->tail == tail && s->end <= b->first)
            live_again(b, s->first, s->end);
    }
}

static void use(Memory *m, uint32_t owner, uint32_t region) {
    Buffer *b = &m->buffer.at[m->of[owner]];
    uint32_t tail = m->tail_of[region];
    if (tail != NONE && tail_of_value(m, owner) != tail) {
        live_until_tail(m, b, tail);
        return;
    }
    uint32_t made = m->p->region.at[m->p->region_of[owner]].block,
             used = m->p->region.at[region].block;
    live_until(b, use_ends(m, made, used, m->time[region]));
}

static void find_lifetimes(Memory *m) {
    const Plan *p = m->p;
    for (uint32_t r = 0; r < p->region.n; r++)
        for (uint32_t i = 0; i < p->region.at[r].out.n; i++) {
            uint32_t id = p->region.at[r].out.at[i];
            if (plan_in_slot(p, id))
                continue;
            m->of[id] = m->buffer.n;
            Buffer b = {.owner = id, .first = m->time[r], .last = m->time[r]};
            b.bytes = plan_bytes(p, id);
            if (m->tail_of[r] != NONE)
                live_within(m, &b, m->tail_of[r]);
            vec_push(m->a, &m->buffer, b);
        }
    for (uint32_t r = 0; r < p->region.n; r++)
        for (uint32_t i = 0; i < p->region.at[r].in.n; i++)
            if (m->of[p->region.at[r].in.at[i]])
                use(m, p->region.at[r].in.at[i], r);
    ObservedVec seen = {0};
    func_observed(m->a, p->func, m->o->keep_grads, &seen);
    for (uint32_t i = 0; i < seen.n; i++) {
        uint32_t owner = plan_owner(p, seen.at[i].node), block = seen.at[i].block;
        if (!owner || !m->of[owner])
            continue;
        Buffer *b = &m->buffer.at[m->of[owner]];
        uint32_t until = block == NONE
                             ? m->launches
                             : m->end[block]; // past the last launch: none may take its place
        live_until(b, until);
        if (block == NONE && m->wrapped)
            live_again(b, 0, m->wrapped);
    }
}

// --- in place ------------------------------------------------------------------------------------

// Is every member that depends on `in` elementwise over in's own elements? Then the region reads
// element i of it only to make element i of what it stores.
static bool one_to_one(Memory *m, const Region *r, uint32_t in) {
    const Graph *g = &m->p->func->g;
    const Type *t = node_type(g, in);
    uint32_t number = ++m->asked;
    m->depends[in] = number;
    for (uint32_t i = 0; i < r->node.n; i++) {
        uint32_t id = r->node.at[i];
        bool depends = false;
        for (uint32_t k = 0; k < graph_node(g, id)->nin; k++)
            depends |= m->depends[node_in(g, id, k)] == number;
        if (!depends)
            continue;
        m->depends[id] = number;
        bool same = type_same_layout(node_type(g, id), t);
        Op op = (Op)graph_node(g, id)->op;
        if (!same || (op_info[op].cls != ClassEW && op != OpWrite))
            return false;
    }
    return true;
}

// Will the value be read again when a loop that does not make it comes round?
static bool read_again(const Memory *m, const Region *r, uint32_t id) {
    return use_ends(m, m->p->region.at[m->p->region_of[id]].block, r->block, NONE) != NONE;
}

// Does another region of the same launch read the value? They run side by side.
static bool read_beside(const Memory *m, const Launch *l, uint32_t region, uint32_t id) {
    const Plan *p = m->p;
    for (uint32_t k = 0; k < l->instances; k++) {
        uint32_t r = p->merge.at[l->first + k];
        for (uint32_t i = 0; r != region && i < p->region.at[r].in.n; i++)
            if (p->region.at[r].in.at[i] == id)
                return true;
    }
    return false;
}

// `all` lives as long as `part` does as well.
static void cover(const Memory *m, Buffer *all, const Buffer *part) {
    if (tail_of_value(m, part->owner) != NONE) // so does the call that was deferred with it
        return;
    all->first = part->first < all->first ? part->first : all->first;
    live_until(all, part->last);
    if (part->again)
        live_again(all, part->from, part->again);
}

// The parts of a collective are one buffer, in which it reduces them. A value that only the
// collective reads is made there at once; others are copied when it starts.
static void bundle(Memory *m, const Collective *c) {
    const Plan *p = m->p;
    uint32_t start = m->time[c->start], wait = m->time[c->wait], index = m->buffer.n;
    Buffer all = {.owner = c->part.at[0].start, .first = start, .last = wait, .bytes = c->bytes};
    if (m->tail_of[c->wait] != NONE)
        live_until_tail(m, &all, m->tail_of[c->wait]);
    for (uint32_t i = 0; i < c->part.n; i++)
        cover(m, &all, &m->buffer.at[m->of[c->part.at[i].wait]]);
    for (uint32_t i = 0; i < c->part.n; i++) {
        const CallPart *part = &c->part.at[i];
        uint32_t source = plan_owner(p, node_in(&p->func->g, part->start, 0));
        uint32_t node[3] = {part->start, part->wait, source};
        const Buffer *from = &m->buffer.at[m->of[source]];
        bool alone = m->of[source] && !m->part[source] && from->last == start &&
                     from->first >= all.again; // what the round before deferred has gone
        for (uint32_t k = 0; k < (alone ? 3 : 2); k++) {
            Buffer *old = &m->buffer.at[m->of[node[k]]];
            cover(m, &all, old);
            old->bytes = 0; // an empty buffer takes no place
            m->of[node[k]] = index;
            m->within[node[k]] = part->offset;
            m->part[node[k]] = 1;
        }
    }
    vec_push(m->a, &m->buffer, all);
}

// Does element i of one lie where element i of the other would? Buffers are rounded up, so small
// ones of other element sizes are equally long.
static bool same_elements(const Graph *g, uint32_t a, uint32_t b) {
    const Type *x = node_type(g, a), *y = node_type(g, b);
    return type_same_layout(x, y) && dtype_size[x->dtype] == dtype_size[y->dtype];
}

// Does the buffer hold an output of the region already? One that nobody reads dies there, too.
static bool is_taken(const Memory *m, const Region *r, uint32_t buffer) {
    for (uint32_t i = 0; i < r->out.n; i++)
        if (m->of[r->out.at[i]] == buffer)
            return true;
    return false;
}

// Gives the outputs of a loop region the buffers of inputs that die there.
static void reuse_inputs(Memory *m, const Launch *l, uint32_t region) {
    const Plan *p = m->p;
    const Region *r = &p->region.at[region];
    for (uint32_t o = 0; o < r->out.n; o++) {
        uint32_t out = r->out.at[o], mine = m->of[out];
        for (uint32_t i = 0; mine && i < r->in.n; i++) {
            uint32_t in = r->in.at[i], theirs = m->of[in];
            Buffer *from = &m->buffer.at[theirs], *to = &m->buffer.at[mine];
            if (m->placed && from->offset != to->offset)
                continue;
            if (m->part[out] || m->part[in])
                continue; // a collective says where they lie
            if (is_taken(m, r, theirs))
                continue;
            if (from->first < to->again)
                continue; // the output of the round before is still there
            if (!theirs || from->last != m->time[region] || from->first == m->time[region] ||
                to->bytes != from->bytes || !same_elements(&p->func->g, in, out))
                continue;
            if (one_to_one(m, r, in) && !read_again(m, r, in) && !read_beside(m, l, region, in)) {
                from->last = to->last;
                from->from = to->from;
                from->again = to->again;
                to->bytes = 0;
                m->of[out] = theirs;
                break;
            }
        }
    }
}

static void reuse_all(Memory *m) {
    const Plan *p = m->p;
    for (uint32_t i = 0; i < p->launch.n; i++) {
        const Launch *l = &p->launch.at[i];
        for (uint32_t k = 0; k < l->instances; k++) {
            uint32_t r = p->merge.at[l->first + k];
            if (p->region.at[r].kind == RegionLoop)
                reuse_inputs(m, l, r);
        }
    }
}

// --- results -------------------------------------------------------------------------------------

static Place place_of(const Memory *m, uint32_t id) {
    const Plan *p = m->p;
    uint32_t owner = plan_owner(p, id);
    if (!owner)
        return p->place[id]; // inside kernels, or nowhere
    if (plan_in_slot(p, owner))
        return (Place){SpaceSlot, slot_value_at(p, owner), owner};
    return (Place){SpaceWork, m->buffer.at[m->of[owner]].offset + m->within[owner], owner};
}

// In an average run, as Plan.gflop is.
static double traffic(Arena scratch, const Plan *p) {
    const double *runs = func_block_runs(&scratch, p->func);
    double sum = 0;
    for (uint32_t r = 0; r < p->region.n; r++)
        sum += (double)region_bytes(p, &p->region.at[r]) * runs[p->region.at[r].block];
    return sum;
}

static void memory_init(Memory *m) {
    const Plan *p = m->p;
    const Func *f = p->func;
    m->of = arena_array(m->a, uint32_t, f->g.node.n);
    m->within = arena_array(m->a, size_t, f->g.node.n);
    m->part = arena_array(m->a, uint8_t, f->g.node.n);
    m->depends = arena_array(m->a, uint32_t, f->g.node.n);
    m->time = arena_array(m->a, uint32_t, p->region.n);
    m->begin = arena_array(m->a, uint32_t, f->blocks);
    m->end = arena_array(m->a, uint32_t, f->blocks);
    m->loops = arena_array_(m->a, sizeof *m->loops, _Alignof(uint32_t *), f->blocks);
    m->loop_begin = arena_array(m->a, uint32_t, f->tape.n);
    m->loop_end = arena_array(m->a, uint32_t, f->tape.n);
    m->tail_of = arena_array(m->a, uint32_t, p->region.n);
    find_tails(m);
    number_launches(m);
    find_loops(m);
    vec_push(m->a, &m->buffer, (Buffer){0});
}

static void fill_places(const Memory *m, Plan *p) {
    p->bytes_moved = traffic(*m->a, p);
    for (uint32_t id = 1; id < p->func->g.node.n; id++)
        p->place[id] = place_of(m, id);
}

// Puts values into the buffers of others where they may share them.
static void share_buffers(Memory *m) {
    for (uint32_t i = 0; i < m->p->collective.n; i++)
        bundle(m, &m->p->collective.at[i]);
    if (!m->o->no_fuse)
        reuse_all(m);
}

static int by_bytes(const void *a, const void *b) {
    const Buffer *x = *(Buffer *const *)a, *y = *(Buffer *const *)b;
    if (x->bytes != y->bytes)
        return x->bytes < y->bytes ? -1 : 1;
    return x->owner < y->owner ? -1 : x->owner > y->owner;
}

// The smallest values, as many as take a small part of the peak together, get places that no other
// takes, at the beginning of the memory: for a few numbers' memory no launch of a card need wait
// for another. They are a card's most numerous, and what is packed is spared them (stylegan2, 2,388
// of 4,188 values left: 0.15 of the time, in as many bytes). Returns where the others begin.
static size_t own_places(Memory *m) {
    enum { PART = 64 }; // of the peak
    size_t end = 0;
    Buffer **by_size = arena_array(m->a, Buffer *, m->buffer.n);
    for (uint32_t i = 1; i < m->buffer.n; i++)
        by_size[i - 1] = &m->buffer.at[i];
    qsort(by_size, m->buffer.n - 1, sizeof *by_size, by_bytes);
    for (uint32_t i = 0; i + 1 < m->buffer.n; i++) {
        Buffer *b = by_size[i];
        if (end + b->bytes > m->p->work_bound / PART)
            break;
        b->offset = end;
        end += b->bytes;
        b->bytes = 0; // it takes no other place
    }
    return end;
}

// [launch] its level: 0 where it reads no other launch's value, else behind those it reads of; in a
// block all are behind those of earlier blocks.
static uint32_t *find_levels(const Memory *m) {
    const Plan *p = m->p;
    uint32_t *level = arena_array(m->a, uint32_t, m->launches + 1), block = NONE, begin = 0,
             end = 0;
    for (uint32_t l = 0; l < p->launch.n; l++)
        for (uint32_t k = 0; k < p->launch.at[l].instances; k++) {
            const Region *r = &p->region.at[p->merge.at[p->launch.at[l].first + k]];
            uint32_t now = m->time[p->launch.at[l].region], *mine = &level[now];
            begin = r->block == block ? begin : end;
            block = r->block;
            *mine = *mine > begin ? *mine : begin;
            for (uint32_t i = 0; i < r->in.n; i++) {
                uint32_t from = p->region_of[r->in.at[i]];
                if (from != NONE && m->time[from] < now && level[m->time[from]] >= *mine)
                    *mine = level[m->time[from]] + 1;
            }
            end = *mine >= end ? *mine + 1 : end;
        }
    return level;
}

static void reaches(Buffer *b, uint32_t level) {
    b->level = level < b->level ? level : b->level;
    b->until = level > b->until ? level : b->until;
}

// Moves packed buffers to where they make few launches wait, at no more bytes.
static void spread(Memory *m, size_t bytes) {
    const Plan *p = m->p;
    const uint32_t *level = find_levels(m);
    for (uint32_t i = 1; i < m->buffer.n; i++)
        m->buffer.at[i].level = NONE;
    for (uint32_t r = 0; r < p->region.n; r++) {
        const Region *x = &p->region.at[r];
        for (uint32_t i = 0; i < x->out.n; i++)
            reaches(&m->buffer.at[m->of[x->out.at[i]]], level[m->time[r]]);
        for (uint32_t i = 0; i < x->in.n; i++)
            reaches(&m->buffer.at[m->of[x->in.at[i]]], level[m->time[r]]);
    }
    buffers_spread(*m->a, m->buffer.at, m->buffer.n, bytes);
}

void memory_plan(const PassOptions *o, Plan *p) {
    Arena scratch;
    arena_need(&scratch);
    Memory m = {.a = &scratch, .p = p, .o = o};
    memory_init(&m);
    find_lifetimes(&m);
    share_buffers(&m);
    size_t bound = p->work_bound = buffers_bound(scratch, m.buffer.at, m.buffer.n, m.launches);
    size_t own = 0;
    if (o->side_by_side) {
        own = own_places(&m);
        bound = buffers_bound(scratch, m.buffer.at, m.buffer.n, m.launches);
    }
    size_t bytes = buffers_pack(scratch, m.buffer.at, m.buffer.n, bound);
    if (o->side_by_side && p->func != &p->module->init) // which runs once, and so in turn
        spread(&m, bytes);
    for (uint32_t i = 1; i < m.buffer.n; i++)
        m.buffer.at[i].offset += m.buffer.at[i].bytes ? own : 0;
    p->work_bytes = own + bytes;
    fill_places(&m, p);
    arena_release(&scratch);
}

void memory_lives(Arena *a, const PassOptions *o, Plan *p, Lives *out) {
    Memory m = {.a = a, .p = p, .o = o};
    memory_init(&m);
    find_lifetimes(&m);
    *out = (Lives){.time = m.time, .tail_of = m.tail_of, .launches = m.launches};
    out->value = arena_array(a, Buffer, p->func->g.node.n);
    for (uint32_t i = 1; i < m.buffer.n; i++)
        out->value[m.buffer.at[i].owner] = m.buffer.at[i];
    share_buffers(&m);
    out->live = buffers_live(a, m.buffer.at, m.buffer.n, m.launches);
}

// --- places that are given -----------------------------------------------------------------------

// Two buffers that live at once and lie over one another, or one that lies askew; NULL: none.
static const char *buffers_wrong(const Memory *m, uint32_t *a, uint32_t *b) {
    enum { MOST = 1 << 30 }; // of PLAN_ALIGN bytes: no sum below can wrap
    for (uint32_t i = 1; i < m->buffer.n; i++) {
        const Buffer *x = &m->buffer.at[i];
        *a = *b = x->owner;
        if (x->bytes && (x->offset % PLAN_ALIGN || x->offset / PLAN_ALIGN > MOST))
            return "lies at no place for a value";
        for (uint32_t k = 1; x->bytes && k < i; k++) {
            const Buffer *y = &m->buffer.at[k];
            *b = y->owner;
            bool over = x->offset < y->offset + y->bytes && y->offset < x->offset + x->bytes;
            if (y->bytes && over && buffers_meet(x, y))
                return "lies over a value that is still needed";
        }
    }
    return NULL;
}

// A part of a call that lies elsewhere than behind the part before it; NULL: none.
static const char *parts_wrong(const Memory *m, uint32_t *a, uint32_t *b) {
    for (uint32_t id = 1; id < m->p->func->g.node.n; id++) {
        const Buffer *all = &m->buffer.at[m->of[id]];
        *a = id;
        *b = all->owner;
        if (m->part[id] && m->p->place[id].offset != all->offset + m->within[id])
            return "is part of a call and lies apart from it";
    }
    return NULL;
}

// Live ranges, and buffers at the offsets that places say; false where that is no plan.
static bool place_buffers(Memory *m, Arena *perm, Refusal *wrong) {
    uint32_t a = 0, b = 0;
    find_lifetimes(m);
    for (uint32_t i = 0; i < m->p->collective.n; i++)
        bundle(m, &m->p->collective.at[i]);
    for (uint32_t i = 1; i < m->buffer.n; i++)
        m->buffer.at[i].offset = m->p->place[m->buffer.at[i].owner].offset;
    if (!m->o->no_fuse)
        reuse_all(m);
    const char *why = parts_wrong(m, &a, &b);
    why = why ? why : buffers_wrong(m, &a, &b);
    if (why)
        *wrong = (Refusal){str_format(perm, "%%%u %s (%%%u)", a, why, b), m->p->region_of[a]};
    return !why;
}

static size_t buffers_end(const Memory *m) {
    size_t all = 0;
    for (uint32_t i = 1; i < m->buffer.n; i++) {
        const Buffer *x = &m->buffer.at[i];
        size_t end = x->bytes ? x->offset + x->bytes : 0;
        all = end > all ? end : all;
    }
    return all;
}

bool memory_restore(Arena *perm, const PassOptions *o, Plan *p, Refusal *wrong) {
    Arena scratch;
    arena_need(&scratch);
    scratch.oom = perm->oom;
    Memory m = {.a = &scratch, .p = p, .o = o, .placed = true};
    memory_init(&m);
    bool ok = place_buffers(&m, perm, wrong);
    if (ok) {
        p->work_bound = buffers_bound(scratch, m.buffer.at, m.buffer.n, m.launches);
        p->work_bytes = buffers_end(&m);
        fill_places(&m, p);
    }
    arena_release(&scratch);
    return ok;
}

bool memory_verify(Arena *a, const PassOptions *o, const Plan *p, Refusal *wrong) {
    Memory m = {.a = a, .p = p, .o = o, .placed = true};
    memory_init(&m);
    if (!place_buffers(&m, a, wrong))
        return false;
    if (p->work_bytes >= buffers_end(&m))
        return true;
    *wrong = (Refusal){STR("values lie beyond the work memory"), NONE};
    return false;
}
