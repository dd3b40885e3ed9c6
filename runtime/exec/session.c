// session.c - a model compiled for, and opened on, a device.
//
// Once the plan of `init` is made, two threads work: the caller's initializes the weights, the
// second one plans the step, loads it, and plans the entry points. Whichever finishes first helps
// with what remains: the caller takes over plans, the second thread returns to the device. A plan
// does not depend on which thread makes it.
#include "session.h"

#include <pthread.h>

// --- room ----------------------------------------------------------------------------------------

// At most: `init` alone, which is let go of, or all other functions, which share their work memory.
static size_t bytes_needed(const DeviceApi *api, const Compiled *c) {
    PlanBytes first = device_bytes(api, &c->init), all = device_bytes(api, &c->step);
    for (uint32_t i = 0; i < c->module.entry.n; i++) {
        PlanBytes entry = device_bytes(api, &c->entry[i]);
        all.work = entry.work > all.work ? entry.work : all.work;
        all.own += entry.own;
    }
    size_t once = first.work + first.own, later = all.work + all.own;
    return c->step.slot_bytes + (once > later ? once : later);
}

static size_t card_bytes(const void *user, const Compiled *c) {
    const DeviceApi *api = user;
    return bytes_needed(api, c);
}

// The plan states its memory: a card with less free is refused before anything is allocated, with
// the batch or the limit that would fit, found by compiling.
static GanStatus check_room(Session *s, const CompileOptions *o) {
    size_t need = bytes_needed(s->api, &s->compiled), room;
    TRY(s->api->room(s->device, &room));
    if (need <= room)
        return GAN_OK;
    Text advice = {.arena = &s->perm};
    int64_t less = compile_less(o, &s->compiled, (MemoryNeed){need, room}, card_bytes, s->api);
    CompileOptions again = *o;
    again.memory = room / (1 << 20) << 20;
    if (less)
        text_fmt(&advice, "; --batch %lld fits", (long long)less);
    if (!ganx_is(o->path) && !o->memory && compile_measure(&again, card_bytes, s->api) <= room)
        text_fmt(&advice, "; so does --memory %zuM, which is slower", again.memory >> 20);
    return fail(GAN_ERR_MEMORY,
                "batch %lld needs %s on the card, which has %s free for it: %s are missing%.*s",
                (long long)s->compiled.module.share.total, size_text(need).z, size_text(room).z,
                size_text(need - room).z, SARG(text_str(&advice)));
}

// --- the session ---------------------------------------------------------------------------------

typedef struct Helper { // the second thread, which is one of the device's
    Session *session;
    Planning rest;
    bool loads; // the step, behind its plan
    pthread_t thread;
    bool works;
    GanStatus status; // of that loading, whoever did it
    char error[2000];
} Helper;

static void load_step(Helper *h) {
    h->status = exec_load_step(h->session->exec, &h->session->compiled.step);
    if (h->status != GAN_OK)
        snprintf(h->error, sizeof h->error, "%s", gan_error());
}

static void take_plans(Helper *h, Arena *perm) {
    for (uint32_t func; compile_next(&h->rest, perm, &func);)
        if (func == 0 && h->loads)
            load_step(h);
}

static void *help(void *user) {
    Helper *h = user;
    take_plans(h, &h->session->beside);
    device_lend(h->session->device, 0);
    return NULL;
}

// Where there is but one thread the caller does it all.
static void helper_start(Helper *h) {
    Device *d = h->session->device;
    if (device_threads(d) == 1)
        return;
    device_lend(d, 1);
    h->works = pthread_create(&h->thread, NULL, help, h) == 0;
    if (!h->works)
        device_lend(d, 0);
}

static void helper_finish(Helper *h) {
    take_plans(h, &h->session->perm);
    if (h->works)
        pthread_join(h->thread, NULL);
}

static GanStatus begin(Session *s) {
    const Compiled *c = &s->compiled;
    return exec_begin(s->api, s->device, &s->perm, &c->module, &c->init, &s->exec);
}

static GanStatus draw(Session *s, const SessionOptions *o) {
    return o->seed ? exec_init(s->exec, *o->seed) : GAN_OK;
}

static GanStatus draw_and_plan(Session *s, const SessionOptions *o, Helper *h,
                               const CompileOptions *c) {
    TRY(begin(s));
    h->loads = o->steps;
    helper_start(h);
    GanStatus st = draw(s, o);
    helper_finish(h); // also where drawing failed: it works in the session's memory
    TRY(st);
    TRY(compile_fits(&s->compiled, c));
    return h->status == GAN_OK ? GAN_OK : fail(h->status, "%s", h->error);
}

// A device that tells its room gives none away before all is planned, which may not fit.
static GanStatus plan_and_draw(Session *s, const SessionOptions *o, Helper *h,
                               const CompileOptions *c) {
    helper_start(h);
    helper_finish(h);
    TRY(compile_fits(&s->compiled, c));
    TRY(check_room(s, c));
    TRY(begin(s));
    return draw(s, o);
}

CompileOptions session_compile(const SessionOptions *o) {
    CompileOptions c = o->compile;
    c.no_fuse = o->api->no_fuse;
    c.dialect = o->api->dialect ? dialect_find(str_c(o->api->dialect)) : NULL;
    return c;
}

GanStatus session_open(Session *s, const SessionOptions *o) {
    *s = (Session){.api = o->api};
    Helper h = {.session = s};
    TRY(arena_init(&s->perm, 0));
    TRY(arena_init(&s->beside, 0));
    front_init(&s->front, &s->perm);
    CompileOptions c = session_compile(o);
    if (!o->api->supports(c.real))
        return fail(GAN_ERR_USAGE, "device %s does not compute in %s", o->api->name,
                    dtype_name[c.real]);
    TRY(compile_begin(&s->front, &c, &s->compiled, &h.rest));
    TRY(o->api->open(&o->device, &s->device));
    TRY(o->check ? o->check(o->user) : GAN_OK);
    TRY(s->api->room ? plan_and_draw(s, o, &h, &c) : draw_and_plan(s, o, &h, &c));
    return exec_plans(s->exec, &s->compiled.step, s->compiled.entry);
}

void session_release(Session *s) {
    if (s->exec)
        exec_close(s->exec);
    if (s->device)
        s->api->close(s->device);
    arena_release(&s->beside);
    arena_release(&s->perm);
    *s = (Session){0};
}
