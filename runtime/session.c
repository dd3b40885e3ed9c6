// session.c - a model compiled for, and opened on, a device.
#include "run.h"

#include <string.h>

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
