// console.h - what main.c provides to commands: where output goes, and whether to stop. Nothing
// else in the runtime prints.
#ifndef GAN_CONSOLE_H
#define GAN_CONSOLE_H

#include "session.h"

typedef struct Console {                  // where a command's words go; main.c owns it
    void (*result)(void *user, Str text); // standard output, as it is
    void (*say)(void *user, Str line);    // standard error, one line
    void (*live)(void *user, Str line);   // replaces the last live line of a terminal
    bool tty;                             // live lines replace each other
    bool color;                           // diagnostics are coloured
    void *user;
} Console;

typedef struct Host { // what only main.c may know
    Console console;
    DeviceOptions device;     // cache folder, compiler, notices; threads come from options
    bool (*stop_asked)(void); // true: save and stop
    // Who is asked to stop ends at once, with these words ("": none) and exit code, 0: by the
    // signal. `words` NULL: stop_asked says so from here on. NULL: it always does.
    void (*stop_ends)(const char *words, int code);
    Str self; // path of this program
} Host;

void say(const Console *c, const char *format, ...);
// What a model's compilation found, if anything; `c` NULL: to nobody.
void show_diagnostics(Arena *a, Front *f, const Console *c);
// Opens a session and shows the model's diagnostics, warnings too.
GanStatus session_start(Session *s, const SessionOptions *o, const Console *console);

#endif
