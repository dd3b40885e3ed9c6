// process.h - this process and those it starts: signals, the terminal, the cores it may use.
#ifndef GAN_PROCESS_H
#define GAN_PROCESS_H

#include "base.h"

// --- process.c -----------------------------------------------------------------------------------

// Starts this program again with one more variable in its environment; returns where that fails.
void process_restart_with(const char *name, const char *value, char **argv);
// Runs argv (NULL-terminated; argv[0] looked up in PATH) and waits; its stdout and stderr, joined,
// go to `output`. *exit_code is 127 when the program could not be started.
GanStatus process_run(Arena *a, const char *const *argv, Str *output, int *exit_code);
// The same without waiting, the output lost, with what it starts in a group of its own: its pid in
// *pid, to be given to process_ended until that says so, or to process_kill.
GanStatus process_start(const char *const *argv, int *pid);
bool process_ended(int pid, bool wait, int *exit_code); // false: it still runs
void process_kill(int pid);                             // with its group
bool process_find(Arena *a, Str name, Str *path); // the file process_run would start for a name
// Opens /dev/null in place of each standard stream that is closed: the next file would get its
// number, and whatever is printed. The first call of a program.
void process_open_standard(void);
// Where the environment has no PATH, as under `env -i` and some job systems, that of the system's
// own folders: a compiler needs one to find its parts. Before any thread.
void process_need_path(void);
// Does standard error lead to a terminal, and are escape sequences understood there (TERM)? Wanted
// for colours, too (NO_COLOR)?
bool process_at_terminal(void);
bool process_in_color(void);
// Signals that end the program (SIGTERM, SIGINT, SIGHUP, SIGPIPE, SIGUSR1, SIGUSR2, SIGXCPU, unless
// ignored) remove temporaries first. Beyond a file size limit writes fail (SIGXFSZ is ignored).
void process_watch_end(void);
// SIGTERM, SIGUSR1, SIGUSR2, SIGXCPU, SIGHUP (unless it was ignored: nohup) and SIGINT only request
// a stop; a second SIGINT, seconds after the first, is fatal; on a terminal the first prints that.
// Writes to a closed pipe are lost. It starts a thread that takes them: call it before any other.
void process_watch_stop(void);
bool process_stop_asked(void); // one of them came
// From here on such a request ends the program at once, with these words ("": none) on standard
// error, and with `code`; 0: by the signal. `words` stay where they are. NULL: it is a request
// again.
void process_stop_ends(const char *words, int code);
// Up to 4 parts of a line to standard error. Who was asked to stop waits for no reader: what nobody
// takes is lost.
void process_say(const Str *part, size_t n);
// A mapped file that is truncated while it is read, or whose disk fails, ends the program with the
// file's name (SIGBUS), as no_memory does.
void process_watch_files(void);

// --- cores.c -------------------------------------------------------------------------------------

int cores_usable(void); // this process may compute on: its affinity, within cores_quota; at least 1
double cores_quota(void); // cores of time that its control groups allow; INFINITY: no limit
// The same of what /proc/self/cgroup says, with the control groups' folders under `mount`.
double cores_quota_of(Str membership, const char *mount);

#endif
