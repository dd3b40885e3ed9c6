// session.c - a model compiled for, and opened on, a device.
#include "run.h"

#include <string.h>

// --- room ----------------------------------------------------------------------------------------

static size_t bytes_needed(const Compiled *c) {
    size_t work = c->step.work_bytes > c->init.work_bytes ? c->step.work_bytes : c->init.work_bytes;
    for (uint32_t i = 0; i < c->module.entry.n; i++)
        if (c->entry[i].work_bytes > work)
            work = c->entry[i].work_bytes;
    return c->step.slot_bytes + work;
}

static bool batch_fits(const CompileOptions *o, int64_t batch, size_t room) {
    Arena perm;
    Front f;
    Compiled c;
    CompileOptions smaller = *o;
    if (arena_init(&perm, 0) != GAN_OK)
        return false;
    smaller.batch = batch;
    smaller.dialect = NULL; // what is placed does not depend on kernels
    front_init(&f, &perm);
    bool fits = compile_file(&f, &smaller, &c) == GAN_OK && bytes_needed(&c) <= room;
    arena_release(&perm);
    return fits;
}

// A batch that fits, compiled to be sure; 0: none does. Memory is about linear in the batch, and
// what is not is on top of that: the first guess is a little too large.
static int64_t batch_that_fits(const CompileOptions *o, int64_t batch, size_t need, size_t room) {
    int64_t n = (int64_t)((double)batch * ((double)room / (double)need));
    while (n > 0 && !batch_fits(o, n, room))
        n = n * 7 / 8;
    return n;
}

// The plan knows what it takes: a card that has not so much is told before anything is allocated.
static GanStatus check_room(const Session *s, const CompileOptions *o) {
    size_t room = 0, need = bytes_needed(&s->compiled);
    if (!s->api->room)
        return GAN_OK;
    TRY(s->api->room(s->device, &room));
    if (need <= room)
        return GAN_OK;
    const double mib = 1048576;
    int64_t batch = s->compiled.module.batch;
    int64_t less = ganx_is(o->path) ? 0 : batch_that_fits(o, batch, need, room); // a file fixes it
    char advice[64] = "";
    if (less)
        snprintf(advice, sizeof advice, "; --batch %lld fits", (long long)less);
    return fail(GAN_ERR_MEMORY,
                "batch %lld takes %.1f MiB on the card, which has %.1f MiB free: %.1f MiB are "
                "missing%s",
                (long long)batch, (double)need / mib, (double)room / mib,
                (double)(need - room) / mib, advice);
}

// --- the session ---------------------------------------------------------------------------------

GanStatus session_open(Session *s, const SessionOptions *o) {
    *s = (Session){.api = o->api};
    TRY(arena_init(&s->perm, 0));
    front_init(&s->front, &s->perm);
    CompileOptions c = o->compile;
    c.no_fuse = o->api->no_fuse;
    c.dialect = o->api->dialect ? dialect_find(str_c(o->api->dialect)) : NULL;
    if (!o->api->supports(c.real))
        return fail(GAN_ERR_USAGE, "device %s does not compute in %s", o->api->name,
                    dtype_name[c.real]);
    TRY(compile_file(&s->front, &c, &s->compiled));
    TRY(o->api->open(&o->device, &s->device));
    TRY(check_room(s, &c));
    return exec_open(o->api, s->device, &s->perm, &s->compiled.module, &s->compiled.init,
                     &s->compiled.step, s->compiled.entry, &s->exec);
}

void session_release(Session *s) {
    if (s->exec)
        exec_close(s->exec);
    if (s->device)
        s->api->close(s->device);
    arena_release(&s->perm);
    *s = (Session){0};
}
