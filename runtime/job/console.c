// console.c - messages for the user, formatted and handed to the Console that shows them.
#include "console.h"

void say(const Console *c, const char *format, ...) {
    char line[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    c->say(c->user, str_c(line));
}

GanStatus session_start(Session *s, const SessionOptions *o, const Console *console) {
    GanStatus st = session_open(s, o);
    if (!diag_total(&s->front))
        return st;
    Text t = {.arena = &s->perm};
    diag_render(&t, &s->front, console->tty);
    console->say(console->user, text_str(&t));
    return st;
}
