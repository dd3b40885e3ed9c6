// console.c - messages for the user, formatted and handed to the Console that shows them.
#include "console.h"

void say(const Console *c, const char *format, ...) {
    char line[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    str_mask(line);
    c->say(c->user, str_c(line));
}

void show_diagnostics(Arena *a, Front *f, const Console *c) {
    Text t = {.arena = a};
    if (!c || !diag_total(f))
        return;
    diag_render(&t, f, c->color);
    c->say(c->user, text_str(&t));
}

GanStatus session_start(Session *s, const SessionOptions *o, const Console *console) {
    GanStatus st = session_open(s, o);
    show_diagnostics(&s->perm, &s->front, console);
    return st;
}
