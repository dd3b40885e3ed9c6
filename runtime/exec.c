// exec.c - runs one model on one device.
//
// In: plans of a module's functions. Out: slots changed in place. The executor is a loop over the
// tape of control marks; a block's launches belong to the device. Two memories are allocated up
// front: the slots, which outlive every run, and one work memory as large as the largest function
// needs (functions run one at a time and overlay it).
//
// A step may end with a tail (program.h, Tail): it is then left pending, with the step's counters,
// and run inside the next step, or before anything else looks at slots or runs. So nobody outside
// sees a step that is not finished.
#include "rt_internal.h"

#include <math.h>
#include <string.h>

struct Exec {
    const DeviceApi *api; // borrowed
    Device *device;       // borrowed
    Arena *perm;          // borrowed
    const Module *module; // borrowed
    uint32_t n;           // functions: init, step, entries
    const Plan **plan;    // [n], borrowed; NULL but for init until exec_plans
    Loaded **loaded;      // [n], owned; NULL until first run
    void *slots, *work;   // owned device memory; work: NULL until exec_load_step or exec_plans
    void *first;          // owned; the work memory of `init` while it runs
    size_t slot_bytes, work_bytes;
    bool fresh;      // what `init` gives values is zero, as the device gave it
    double *staging; // owned; grows
    size_t staged;   // bytes of it
    bool pending;    // the tail of the last step has not run
    Counters last;   // of that step
};

enum { FuncInit, FuncStep, FuncEntry };

GanStatus exec_begin(const DeviceApi *api, Device *d, Arena *perm, const Module *m,
                     const Plan *init, Exec **out) {
    Exec *e = mem_alloc(sizeof *e);
    if (!e)
        return fail(GAN_ERR_MEMORY, "no memory for the executor");
    *e = (Exec){.api = api, .device = d, .perm = perm, .module = m, .n = FuncEntry + m->entry.n};
    e->plan = arena_array(perm, const Plan *, e->n);
    e->loaded = arena_array(perm, Loaded *, e->n);
    e->plan[FuncInit] = init;
    e->slot_bytes = init->slot_bytes;
    GanStatus st = api->alloc(d, e->slot_bytes, &e->slots);
    if (st != GAN_OK) {
        exec_close(e);
        return fail_in(st, "the plan needs %.1f MiB for weights and state",
                       (double)init->slot_bytes / 1048576);
    }
    e->fresh = true;
    *out = e;
    return GAN_OK;
}

static GanStatus work_alloc(Exec *e, size_t bytes) {
    e->work_bytes = bytes;
    GanStatus st = e->api->alloc(e->device, bytes, &e->work);
    return st == GAN_OK ? GAN_OK
                        : fail_in(st,
                                  "the plan needs %.1f MiB for work, beside %.1f MiB for "
                                  "weights and state",
                                  (double)bytes / 1048576, (double)e->slot_bytes / 1048576);
}

static void work_release(Exec *e) {
    e->api->unload(e->loaded[FuncStep]);
    e->loaded[FuncStep] = NULL;
    e->api->release(e->device, e->work);
    e->work = NULL;
}

static GanStatus load(Exec *e, uint32_t func) {
    void *work = func == FuncInit ? e->first : e->work;
    return e->api->load(e->device, e->plan[func], e->slots, work, &e->loaded[func]);
}

GanStatus exec_load_step(Exec *e, const Plan *step) {
    e->plan[FuncStep] = step;
    TRY(work_alloc(e, step->work_bytes));
    return load(e, FuncStep);
}

GanStatus exec_plans(Exec *e, const Plan *step, const Plan *entries) {
    size_t most = step->work_bytes;
    e->plan[FuncStep] = step;
    for (uint32_t i = 0; i < e->module->entry.n; i++) {
        e->plan[FuncEntry + i] = &entries[i];
        most = entries[i].work_bytes > most ? entries[i].work_bytes : most;
    }
    if (e->work && most <= e->work_bytes)
        return GAN_OK;
    work_release(e);
    return work_alloc(e, most);
}

GanStatus exec_open(const DeviceApi *api, Device *d, Arena *perm, const Module *m, const Plan *init,
                    const Plan *step, const Plan *entries, Exec **out) {
    Exec *e = NULL;
    TRY(exec_begin(api, d, perm, m, init, &e));
    GanStatus st = exec_plans(e, step, entries);
    if (st != GAN_OK) {
        exec_close(e);
        return st;
    }
    *out = e;
    return GAN_OK;
}

void exec_close(Exec *e) {
    if (!e)
        return;
    for (uint32_t i = 0; i < e->n; i++)
        e->api->unload(e->loaded[i]);
    e->api->release(e->device, e->work);
    e->api->release(e->device, e->slots);
    mem_free(e->staging);
    mem_free(e);
}

const Module *exec_module(const Exec *e) {
    return e->module;
}
Share exec_share(const Exec *e) {
    const Module *m = e->module;
    if (m->share.ranks > 1)
        return m->share;
    return (Share){.ranks = 1, .samples = m->batch, .total = m->batch};
}
bool exec_launches(const Exec *e) {
    return e->api->launch != NULL;
}
const Plan *exec_step_plan(const Exec *e) {
    return e->plan[FuncStep];
}
Dtype exec_real(const Exec *e) {
    return e->plan[FuncStep]->real;
}
size_t exec_bytes(const Exec *e) {
    return e->slot_bytes + e->work_bytes;
}

// The step has ended with all that follows from it.
static GanStatus finish(Exec *e);

static GanStatus staging_need(Exec *e, size_t bytes) {
    if (bytes <= e->staged)
        return GAN_OK;
    double *grown = mem_realloc(e->staging, bytes);
    if (!grown)
        return fail(GAN_ERR_MEMORY, "no memory to stage %zu bytes", bytes);
    e->staging = grown;
    e->staged = bytes;
    return GAN_OK;
}

// --- values --------------------------------------------------------------------------------------

// Where a value lies and what it looks like.
typedef struct Stored {
    Type type;
    char *at;
    int64_t batch, elements;
} Stored;

static void slot_touched(Exec *e, uint32_t slot) {
    e->fresh =
        e->fresh && !slot_outlives(&e->module->slot.at[slot]); // to which `init` gives values
}

static Stored slot_stored(Exec *e, uint32_t slot) {
    const Slot *s = &e->module->slot.at[slot];
    int64_t batch = s->type.batched ? e->module->batch : 1;
    return (Stored){s->type, (char *)e->slots + s->offset, batch, batch * type_sample(&s->type)};
}

static GanStatus stored_put(Exec *e, Stored v, const double *x, const float *xf, size_t n,
                            Str name) {
    if (n != (size_t)v.elements)
        return fail(GAN_ERR_INPUT, "%.*s: %zu numbers given, %lld needed", SARG(name), n,
                    (long long)v.elements);
    Dtype dtype = (Dtype)v.type.dtype;
    TRY(staging_need(e, n * dtype_size[dtype]));
    LayoutWalk w;
    walk_init(&w, &v.type, v.batch, e->api->logical);
    for (size_t i = 0; i < n; i++)
        value_put(e->staging, walk_next(&w), dtype, x ? x[i] : (double)xf[i]);
    return e->api->put(e->device, v.at, e->staging, n * dtype_size[dtype]);
}

static GanStatus stored_get(Exec *e, Stored v, double *x, size_t n, Str name) {
    if (n != (size_t)v.elements)
        return fail(GAN_ERR_INPUT, "%.*s: room for %zu numbers, %lld needed", SARG(name), n,
                    (long long)v.elements);
    Dtype dtype = (Dtype)v.type.dtype;
    TRY(staging_need(e, n * dtype_size[dtype]));
    TRY(e->api->get(e->device, e->staging, v.at, n * dtype_size[dtype]));
    LayoutWalk w;
    walk_init(&w, &v.type, v.batch, e->api->logical);
    for (size_t i = 0; i < n; i++)
        x[i] = value_get(e->staging, walk_next(&w), dtype);
    return GAN_OK;
}

// Slots that are filled for each step are no tail's business.
static GanStatus finish_for(Exec *e, uint32_t slot) {
    SlotKind kind = e->module->slot.at[slot].kind;
    bool filled = kind == SlotData || kind == SlotScalar || kind == SlotFed;
    return filled ? GAN_OK : finish(e);
}

GanStatus exec_slot_put(Exec *e, uint32_t slot, const double *x, size_t n) {
    TRY(finish_for(e, slot));
    slot_touched(e, slot);
    return stored_put(e, slot_stored(e, slot), x, NULL, n, e->module->slot.at[slot].name);
}

GanStatus exec_slot_put_f32(Exec *e, uint32_t slot, const float *x, size_t n) {
    TRY(finish_for(e, slot));
    slot_touched(e, slot);
    return stored_put(e, slot_stored(e, slot), NULL, x, n, e->module->slot.at[slot].name);
}

GanStatus exec_slot_get(Exec *e, uint32_t slot, double *x, size_t n) {
    TRY(finish_for(e, slot));
    return stored_get(e, slot_stored(e, slot), x, n, e->module->slot.at[slot].name);
}

size_t exec_slot_bytes(const Exec *e, uint32_t slot) {
    const Type *t = &e->module->slot.at[slot].type;
    assert(!t->batched);
    return (size_t)type_sample(t) * dtype_size[t->dtype];
}

GanStatus exec_slot_save(Exec *e, uint32_t slot, void *bytes) {
    TRY(finish_for(e, slot));
    return e->api->get(e->device, bytes, (char *)e->slots + e->module->slot.at[slot].offset,
                       exec_slot_bytes(e, slot));
}

GanStatus exec_slot_load(Exec *e, uint32_t slot, const void *bytes) {
    TRY(finish_for(e, slot));
    slot_touched(e, slot);
    return e->api->put(e->device, (char *)e->slots + e->module->slot.at[slot].offset, bytes,
                       exec_slot_bytes(e, slot));
}

static char *value_at(const Exec *e, const Plan *p, uint32_t node) {
    Place place = p->place[node];
    if (place.space == SpaceNone || place.space == SpaceInline)
        bug("exec: node %u (%s) is not stored", node,
            op_info[graph_node(&p->func->g, node)->op].text);
    void *work = p == e->plan[FuncInit] ? e->first : e->work;
    return (char *)(place.space == SpaceSlot ? e->slots : work) + place.offset;
}

GanStatus exec_value_get(Exec *e, const Plan *p, uint32_t node, double *x, size_t n) {
    const Graph *g = &p->func->g;
    Type type = *node_type(g, node);
    double number;
    if (node_is_const(g, node, &number)) { // may have no storage at all
        for (size_t i = 0; i < n; i++)
            x[i] = number;
        return GAN_OK;
    }
    int64_t batch = type.batched ? g->batch : 1;
    Stored v = {type, value_at(e, p, node), batch, batch * type_sample(&type)};
    return stored_get(e, v, x, n, STR("value"));
}

uint32_t exec_fetches(const Exec *e) {
    return e->api->fetches;
}

GanStatus exec_number_later(Exec *e, const Plan *p, uint32_t node, Later *out) {
    const Type *t = node_type(&p->func->g, node);
    assert(!t->batched && type_sample(t) == 1);
    *out = (Later){.dtype = (Dtype)t->dtype};
    out->there = !e->api->fetches || node_is_const(&p->func->g, node, &out->value);
    if (out->there)
        return exec_value_get(e, p, node, &out->value, 1);
    return e->api->fetch(e->device, value_at(e, p, node), dtype_size[t->dtype], &out->ticket);
}

GanStatus exec_number_take(Exec *e, const Later *l, double *x) {
    double stored = 0;
    if (l->there) {
        *x = l->value;
        return GAN_OK;
    }
    TRY(e->api->fetched(e->device, l->ticket, &stored, dtype_size[l->dtype]));
    *x = value_get(&stored, 0, l->dtype);
    return GAN_OK;
}

GanStatus exec_value_save(Exec *e, const Plan *p, uint32_t node, void *bytes) {
    return e->api->get(e->device, bytes, value_at(e, p, node),
                       type_bytes(&p->func->g, node_type(&p->func->g, node)));
}

GanStatus exec_value_load(Exec *e, const Plan *p, uint32_t node, const void *bytes) {
    return e->api->put(e->device, value_at(e, p, node), bytes,
                       type_bytes(&p->func->g, node_type(&p->func->g, node)));
}

// --- functions -----------------------------------------------------------------------------------

typedef struct Run {
    Exec *e;
    uint32_t func;
    Counters counters;
    const ExecHooks *hooks; // may be NULL
} Run;

static GanStatus put_scalars(Exec *e, const Counters *c) {
    for (uint32_t i = 0; i < e->module->slot.n; i++) {
        const Slot *s = &e->module->slot.at[i];
        if (s->kind != SlotScalar)
            continue;
        double x = str_eq(s->name, STR("step"))    ? c->step
                   : str_eq(s->name, STR("epoch")) ? c->epoch
                                                   : c->kimg;
        TRY(exec_slot_put(e, i, &x, 1));
    }
    return GAN_OK;
}

// Plan.block[section] with the counters `c`.
static GanStatus run_section(Exec *e, uint32_t func, uint32_t section, const Counters *c,
                             const ExecHooks *h) {
    if (!h || !h->launch || !e->api->launch)
        return e->api->run(e->loaded[func], section, c);
    BlockPlan b = e->plan[func]->block.at[section];
    for (uint32_t i = b.first; i < b.first + b.n; i++) {
        TRY(h->launch(h->user, e, i, false, c));
        TRY(e->api->launch(e->loaded[func], section, i, c));
        TRY(h->launch(h->user, e, i, true, c));
    }
    return GAN_OK;
}

// Numbers that are made of the step's are those of the step that left the tail.
static GanStatus run_tail(Exec *e, const ExecHooks *h) {
    const Plan *p = e->plan[FuncStep];
    if (!e->pending)
        return GAN_OK;
    e->pending = false;
    TRY(put_scalars(e, &e->last));
    return run_section(e, FuncStep, p->tail.section, &e->last, h);
}

static GanStatus finish(Exec *e) {
    return run_tail(e, NULL);
}

static GanStatus run_block(Run *r, uint32_t block) {
    Exec *e = r->e;
    const ExecHooks *h = r->hooks;
    const Plan *p = e->plan[r->func];
    if (h && h->before)
        TRY(h->before(h->user, e, block, r->counters.round));
    Counters here = r->counters;
    here.sample0 += p->func->block_first ? p->func->block_first[block] : 0;
    TRY(run_section(e, r->func, block, &here, h));
    if (p->tail.section && block == p->tail.within) {
        if (e->pending) {
            TRY(run_tail(e, h));
            TRY(put_scalars(e, &r->counters));
        }
        TRY(run_section(e, r->func, p->tail.rest, &here, h));
    }
    if (h && h->after)
        TRY(h->after(h->user, e, block, r->counters.round));
    return GAN_OK;
}

// The mark that closes the one at `pc`: its Else (when `to_else`) or its End.
static uint32_t tape_match(const Func *f, uint32_t pc, bool to_else) {
    uint32_t depth = 0;
    for (uint32_t i = pc + 1; i < f->tape.n; i++) {
        CtlKind k = f->tape.at[i].kind;
        if (!depth && (k == CtlEnd || (to_else && k == CtlElse)))
            return i;
        if (k == CtlRepeat || k == CtlEvery || k == CtlIf)
            depth++;
        else if (k == CtlEnd)
            depth--;
    }
    bug("exec: a control mark of %.*s is never closed", SARG(f->name));
}

static GanStatus run_tape(Run *r, uint32_t from, uint32_t to);

static GanStatus run_repeat(Run *r, uint32_t rounds, uint32_t from, uint32_t to) {
    uint32_t outer = r->counters.round;
    for (uint32_t i = 0; i < rounds; i++) {
        r->counters.round = outer * rounds + i;
        TRY(run_tape(r, from, to));
    }
    r->counters.round = outer;
    return GAN_OK;
}

static GanStatus run_if(Run *r, uint32_t pc, uint32_t *next) {
    const Plan *p = r->e->plan[r->func];
    uint32_t middle = tape_match(p->func, pc, true), end = tape_match(p->func, pc, false);
    double cond = 0;
    TRY(exec_value_get(r->e, p, p->func->tape.at[pc].cond, &cond, 1));
    *next = end + 1;
    if (cond != 0)
        return run_tape(r, pc + 1, middle);
    return middle == end ? GAN_OK : run_tape(r, middle + 1, end);
}

static GanStatus run_tape(Run *r, uint32_t from, uint32_t to) {
    const Func *f = r->e->plan[r->func]->func;
    for (uint32_t pc = from; pc < to;) {
        Ctl c = f->tape.at[pc];
        switch (c.kind) {
        case CtlBlock:
            TRY(run_block(r, c.arg));
            pc++;
            break;
        case CtlRepeat: {
            uint32_t end = tape_match(f, pc, false);
            TRY(run_repeat(r, c.arg, pc + 1, end));
            pc = end + 1;
            break;
        }
        case CtlEvery: {
            uint32_t end = tape_match(f, pc, false), middle = tape_match(f, pc, true);
            if (r->counters.step % c.arg == 0)
                TRY(run_tape(r, pc + 1, middle));
            else if (middle != end)
                TRY(run_tape(r, middle + 1, end));
            pc = end + 1;
            break;
        }
        case CtlIf:
            TRY(run_if(r, pc, &pc));
            break;
        case CtlElse:
        case CtlEnd:
            bug("exec: a stray control mark at %u of %.*s", pc, SARG(f->name));
        }
    }
    return GAN_OK;
}

static GanStatus run_func(Exec *e, uint32_t func, const Counters *c, const ExecHooks *hooks) {
    const Plan *p = e->plan[func];
    if (!e->loaded[func])
        TRY(load(e, func));
    e->fresh = false;
    TRY(put_scalars(e, c));
    Run r = {.e = e, .func = func, .counters = *c, .hooks = hooks};
    r.counters.round = 0;
    r.counters.sample0 += e->module->share.first;
    return run_tape(&r, 0, p->func->tape.n);
}

GanStatus exec_wait(Exec *e) {
    return e->api->sync(e->device);
}

GanStatus exec_finish(Exec *e) {
    TRY(finish(e));
    return exec_wait(e);
}

// What `init` leaves out is zero already, the first time (pass/fresh.c).
static GanStatus clear_slots(Exec *e) {
    for (uint32_t i = 0; i < e->module->slot.n; i++) {
        if (!slot_outlives(&e->module->slot.at[i]))
            continue;
        size_t bytes = exec_slot_bytes(e, i);
        TRY(staging_need(e, bytes));
        memset(e->staging, 0, bytes);
        TRY(exec_slot_load(e, i, e->staging));
    }
    return GAN_OK;
}

// It runs once: neither its code nor its work memory stays.
GanStatus exec_init(Exec *e, uint64_t seed) {
    Counters c = {.seed = seed};
    GanStatus st = GAN_OK;
    TRY(finish(e));
    if (!e->fresh)
        TRY(clear_slots(e));
    TRY(e->api->alloc(e->device, e->plan[FuncInit]->work_bytes, &e->first));
    TRY_OUT(run_func(e, FuncInit, &c, NULL));
    TRY_OUT(exec_wait(e));
out:
    e->api->unload(e->loaded[FuncInit]);
    e->loaded[FuncInit] = NULL;
    e->api->release(e->device, e->first);
    e->first = NULL;
    return st;
}

GanStatus exec_step(Exec *e, const Counters *c, const ExecHooks *hooks) {
    TRY(run_func(e, FuncStep, c, hooks));
    e->pending = e->plan[FuncStep]->tail.section;
    e->last = *c;
    e->last.sample0 += e->module->share.first;
    return hooks && hooks->whole ? run_tail(e, hooks) : GAN_OK;
}

GanStatus exec_launch(Exec *e, uint32_t launch, const Counters *c) {
    const Plan *p = e->plan[FuncStep];
    uint32_t section = 0;
    while (launch - p->block.at[section].first >= p->block.at[section].n)
        section++;
    return e->api->launch(e->loaded[FuncStep], section, launch, c);
}

GanStatus exec_entry(Exec *e, uint32_t entry, const Counters *c, const ExecHooks *hooks) {
    TRY(finish(e));
    TRY(run_func(e, FuncEntry + entry, c, hooks));
    return exec_wait(e);
}
