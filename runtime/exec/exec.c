// exec.c - executes the plans of one model on one device.
//
// In: the plans of a module's functions. Out: updated slots. The executor interprets a function's
// list of control marks; the launches of a block are the device's work. Two memories are allocated
// up front: the slots, which persist, and one work memory as large as the largest function needs
// (functions run one at a time and share it).
//
// A block may end with a tail (program.h), launches that need not finish with it. The tail then
// stays pending, with the block's counters, and runs within a later block, of this step or the
// next, or before anything else reads slots or runs. Callers never see an unfinished step.
#include "exec_internal.h"

#include <math.h>
#include <string.h>

GanStatus exec_begin(const DeviceApi *api, Device *d, Arena *perm, const Module *m,
                     const Plan *init, Exec **out) {
    Exec *e = mem_alloc(sizeof *e);
    if (!e)
        return fail(GAN_ERR_MEMORY, "no memory for the executor");
    *e = (Exec){.api = api, .device = d, .module = m, .n = FuncEntry + m->entry.n};
    e->plan = arena_array(perm, const Plan *, e->n); // all of `perm` there will ever be: the step
    e->loaded = arena_array(perm, Loaded *, e->n);   // may be loaded by a thread that has no arena
    e->tail = arena_array(perm, PendingTail, m->step.blocks);
    e->plan[FuncInit] = init;
    e->slot_bytes = init->slot_bytes;
    GanStatus st = api->alloc(d, e->slot_bytes, &e->slots);
    if (st != GAN_OK) {
        exec_close(e);
        return fail_in(st, "the plan needs %s for weights and state",
                       size_text(init->slot_bytes).z);
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
                                  "the plan needs %s of work memory, beside %s for weights and "
                                  "state; a smaller --batch needs less, and so does --memory SIZE, "
                                  "which is slower",
                                  size_text(bytes).z, size_text(e->slot_bytes).z);
}

static void work_release(Exec *e) {
    e->api->unload(e->loaded[FuncStep]);
    e->loaded[FuncStep] = NULL;
    e->api->release(e->device, e->work);
    e->work = NULL;
}

static GanStatus load(Exec *e, uint32_t func) {
    void *work = func == FuncInit ? e->init_work : e->work;
    return e->api->load(e->device, e->plan[func], e->slots, work, &e->loaded[func]);
}

GanStatus exec_load_step(Exec *e, const Plan *step) {
    e->plan[FuncStep] = step;
    TRY(work_alloc(e, device_bytes(e->api, step).work));
    return load(e, FuncStep);
}

GanStatus exec_plans(Exec *e, const Plan *step, const Plan *entries) {
    size_t most = device_bytes(e->api, step).work;
    e->plan[FuncStep] = step;
    for (uint32_t i = 0; i < e->module->entry.n; i++) {
        size_t bytes = device_bytes(e->api, &entries[i]).work;
        e->plan[FuncEntry + i] = &entries[i];
        most = bytes > most ? bytes : most;
    }
    if (e->work && most <= e->work_bytes)
        return GAN_OK;
    work_release(e);
    return work_alloc(e, most);
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
bool exec_absorbs(const Exec *e, uint32_t region) {
    return e->api->absorbs && e->api->absorbs(e->loaded[FuncStep], region);
}
size_t exec_bytes(const Exec *e) {
    return e->slot_bytes + e->work_bytes;
}

// --- functions -----------------------------------------------------------------------------------

typedef struct Run {
    Exec *e;
    uint32_t func;
    Counters counters;
    const ExecHooks *hooks; // may be NULL
} Run;

// `step`, `epoch` or `kimg`.
static double scalar_of(const Counters *c, const Slot *s) {
    return str_eq(s->name, STR("step"))    ? c->step
           : str_eq(s->name, STR("epoch")) ? c->epoch
                                           : c->kimg;
}

static GanStatus put_scalars(Exec *e, const Counters *c) {
    for (uint32_t i = 0; i < e->module->slot.n; i++) {
        const Slot *s = &e->module->slot.at[i];
        if (s->kind != SlotScalar)
            continue;
        double x = scalar_of(c, s);
        TRY(exec_slot_put(e, i, &x, 1));
    }
    return GAN_OK;
}

// Plan.section[] with the counters `c`.
static GanStatus run_section(Exec *e, uint32_t func, uint32_t section, const Counters *c,
                             const ExecHooks *h) {
    if (!h || !h->launch || !e->api->launch)
        return e->api->run(e->loaded[func], section, c);
    const Section *s = &e->plan[func]->section.at[section];
    for (uint32_t i = s->first; i < s->first + s->n; i++) {
        TRY(h->launch(h->user, e, i, false, c));
        TRY(e->api->launch(e->loaded[func], section, i, c));
        TRY(h->launch(h->user, e, i, true, c));
    }
    return GAN_OK;
}

// Numbers that are made of the step's are those of the step that left the tail.
static GanStatus run_tail(Exec *e, uint32_t tail, const ExecHooks *h) {
    PendingTail *t = &e->tail[tail];
    if (!t->pending)
        return GAN_OK;
    t->pending = false;
    TRY(put_scalars(e, &t->counters));
    return run_section(e, FuncStep, e->plan[FuncStep]->tail.at[tail].section, &t->counters, h);
}

static GanStatus run_tails(Exec *e, const ExecHooks *h) {
    for (uint32_t t = 0; e->plan[FuncStep] && t < e->plan[FuncStep]->tail.n; t++)
        TRY(run_tail(e, t, h));
    return GAN_OK;
}

GanStatus exec_tails(Exec *e) {
    return run_tails(e, NULL);
}

// What a block does behind its beginning, or leaves.
static GanStatus run_behind(Run *r, const Section *s, const Counters *here) {
    Exec *e = r->e;
    PendingTail *tail = &e->tail[s->tail];
    if (s->kind == SectionTail) {
        *tail = (PendingTail){true, *here};
        return GAN_OK;
    }
    if (tail->pending) {
        TRY(run_tail(e, s->tail, r->hooks));
        TRY(put_scalars(e, &r->counters));
    }
    return run_section(e, r->func, (uint32_t)(s - e->plan[r->func]->section.at), here, r->hooks);
}

static GanStatus run_block(Run *r, uint32_t block) {
    const ExecHooks *h = r->hooks;
    const Plan *p = r->e->plan[r->func];
    if (h && h->before)
        TRY(h->before(h->user, r->e, block, r->counters.round));
    Counters here = r->counters;
    here.sample0 += p->func->block_first ? p->func->block_first[block] : 0;
    TRY(run_section(r->e, r->func, block, &here, h));
    for (uint32_t s = p->func->blocks; s < p->section.n; s++)
        if (p->section.at[s].block == block)
            TRY(run_behind(r, &p->section.at[s], &here));
    if (h && h->after)
        TRY(h->after(h->user, r->e, block, r->counters.round));
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
    TRY(put_scalars(e, func < FuncEntry ? c : &e->trained));
    Run r = {.e = e, .func = func, .counters = *c, .hooks = hooks};
    r.counters.round = 0;
    r.counters.sample0 += e->module->share.first;
    return run_tape(&r, 0, p->func->tape.n);
}

GanStatus exec_wait(Exec *e) {
    return e->api->sync(e->device);
}

GanStatus exec_finish(Exec *e) {
    TRY(exec_tails(e));
    return exec_wait(e);
}

// What `init` leaves out is zero already, the first time (pass/drop_zero_stores.c).
static GanStatus clear_slots(Exec *e) {
    for (uint32_t i = 0; i < e->module->slot.n; i++) {
        if (!slot_outlives(&e->module->slot.at[i]))
            continue;
        size_t bytes = exec_slot_bytes(e, i);
        TRY(exec_staging(e, bytes));
        memset(e->staging, 0, bytes);
        TRY(e->api->put(e->device, (char *)e->slots + e->module->slot.at[i].offset, e->staging,
                        bytes));
    }
    return GAN_OK;
}

// It runs once: neither its code nor its work memory stays.
GanStatus exec_init(Exec *e, uint64_t seed) {
    Counters c = {.seed = seed};
    GanStatus st = GAN_OK;
    TRY(exec_tails(e));
    if (!e->fresh)
        TRY(clear_slots(e));
    TRY(e->api->alloc(e->device, device_bytes(e->api, e->plan[FuncInit]).work, &e->init_work));
    TRY_OUT(run_func(e, FuncInit, &c, NULL));
    TRY_OUT(exec_wait(e));
out:
    e->api->unload(e->loaded[FuncInit]);
    e->loaded[FuncInit] = NULL;
    e->api->release(e->device, e->init_work);
    e->init_work = NULL;
    return st;
}

GanStatus exec_step(Exec *e, const Counters *c, const ExecHooks *hooks) {
    TRY(run_func(e, FuncStep, c, hooks));
    return hooks && hooks->whole ? run_tails(e, hooks) : GAN_OK;
}

GanStatus exec_ready(Exec *e) {
    if (!e->loaded[FuncStep])
        TRY(load(e, FuncStep));
    return e->api->ready ? e->api->ready(e->loaded[FuncStep]) : GAN_OK;
}

GanStatus exec_launch(Exec *e, uint32_t launch, const Counters *c) {
    const Plan *p = e->plan[FuncStep];
    uint32_t section = 0;
    while (launch - p->section.at[section].first >= p->section.at[section].n)
        section++;
    return e->api->launch(e->loaded[FuncStep], section, launch, c);
}

void exec_set_progress(Exec *e, const Counters *c) {
    e->trained = *c;
}

double exec_progress(const Exec *e, uint32_t slot) {
    return scalar_of(&e->trained, &e->module->slot.at[slot]);
}

GanStatus exec_entry(Exec *e, uint32_t entry, const Counters *c, const ExecHooks *hooks) {
    TRY(exec_tails(e));
    TRY(run_func(e, FuncEntry + entry, c, hooks));
    return exec_wait(e);
}
