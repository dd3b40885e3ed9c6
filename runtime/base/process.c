// process.c - runs another program and captures its output; the standard streams and the signal
// handlers of this process: requests to stop (stops), signals that end it (temporary files are
// removed first), and SIGBUS, a mapped file that was truncated while it was read.
#define _GNU_SOURCE
#include "process.h"
#include "bytes.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>

#include <unistd.h>

// Signals that this process leaves to one thread (watch_on_a_thread) are blocked in all others, and
// a child begins with the mask of the thread that starts it: it gets an empty one.
static int child_signals(posix_spawnattr_t *how, short flags) {
    sigset_t none;
    sigemptyset(&none);
    int error = posix_spawnattr_setsigmask(how, &none);
    return error ? error : posix_spawnattr_setflags(how, flags | POSIX_SPAWN_SETSIGMASK);
}

// The child reads nothing and writes both of its outputs into `out`, or nowhere (-1). Its process
// group is a new one with POSIX_SPAWN_SETPGROUP in `flags`. Returns the system's error number.
static int spawn(const char *const *argv, int out, short flags, pid_t *pid) {
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t how;
    int error = posix_spawn_file_actions_init(&actions);
    if (error)
        return error;
    error = posix_spawnattr_init(&how);
    if (error) {
        posix_spawn_file_actions_destroy(&actions);
        return error;
    }
    error = child_signals(&how, flags);
    if (!error)
        error = posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    for (int fd = 1; fd <= 2 && !error; fd++)
        error = out < 0 ? posix_spawn_file_actions_addopen(&actions, fd, "/dev/null", O_WRONLY, 0)
                        : posix_spawn_file_actions_adddup2(&actions, out, fd);
    // posix_spawnp promises not to change the words of argv; its type predates const.
    if (!error)
        error = posix_spawnp(pid, argv[0], &actions, &how, (char *const *)argv, environ);
    posix_spawnattr_destroy(&how);
    posix_spawn_file_actions_destroy(&actions);
    return error;
}

enum { NOT_STARTED = 127 }; // exit code, as a shell's

static int exit_code_of(int how) {
    return WIFEXITED(how) ? WEXITSTATUS(how) : 128 + WTERMSIG(how);
}

bool process_ended(int pid, bool wait, int *exit_code) {
    int how;
    pid_t ended = waitpid(pid, &how, wait ? 0 : WNOHANG);
    while (ended < 0 && errno == EINTR)
        ended = waitpid(pid, &how, wait ? 0 : WNOHANG);
    if (ended == 0)
        return false;
    *exit_code = ended == pid ? exit_code_of(how) : NOT_STARTED;
    return true;
}

// Children of process_run, one a thread, ended with this process; 0: none. One beyond what there is
// room for is left to end by itself.
enum { Awaited = 64 };
static atomic_int awaited[Awaited];

static int list_awaited(pid_t pid) {
    for (int i = 0; i < Awaited; i++) {
        int none = 0;
        if (atomic_compare_exchange_strong(&awaited[i], &none, pid))
            return i;
    }
    return -1;
}

GanStatus process_run(Arena *a, const char *const *argv, Str *output, int *exit_code) {
    *output = (Str){0};
    *exit_code = NOT_STARTED;
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0)
        return fail(GAN_ERR_DEVICE, "cannot run %s: %s", argv[0], strerror(errno));
    pid_t pid;
    int error = spawn(argv, ends[1], 0, &pid);
    close(ends[1]);
    if (error) {
        close(ends[0]);
        *output = str_format(a, "%s: %s", argv[0], strerror(error));
        return GAN_OK;
    }
    Bytes said = {0};
    int listed = list_awaited(pid);
    GanStatus read_status = bytes_read(&said, ends[0], str_c(argv[0]));
    close(ends[0]);
    process_ended(pid, true, exit_code);
    if (listed >= 0)
        awaited[listed] = 0;
    if (read_status == GAN_OK)
        return bytes_move(&said, a, output);
    mem_free(said.at);
    return read_status;
}

GanStatus process_start(const char *const *argv, int *pid) {
    int error = spawn(argv, -1, POSIX_SPAWN_SETPGROUP, pid);
    return error ? fail(GAN_ERR_DEVICE, "cannot run %s: %s", argv[0], strerror(error)) : GAN_OK;
}

void process_kill(int pid) {
    int code;
    kill(-pid, SIGTERM); // a compiler removes what it has begun
    process_ended(pid, true, &code);
}

void process_need_path(void) {
    const char *path = getenv("PATH");
    if (!path || !*path)
        setenv("PATH", "/usr/local/bin:/usr/bin:/bin", 1);
}

static bool can_start(Arena *a, Str path) {
    return file_exists(path) && !file_is_dir(path) && access(str_z(a, path), X_OK) == 0;
}

bool process_find(Arena *a, Str name, Str *path) {
    const char *dirs = getenv("PATH"); // which posix_spawnp looks at
    Str all = str_c(dirs ? dirs : "/bin:/usr/bin"), dir;
    *path = name;
    if (str_find(name, '/') < name.len)
        return can_start(a, name);
    for (size_t at = 0; at < all.len; at += dir.len + 1) {
        dir = str_sub(all, at, at + str_find(str_sub(all, at, all.len), ':'));
        *path = path_join(a, dir.len ? dir : STR("."), name);
        if (can_start(a, *path))
            return true;
    }
    return false;
}

// For the other direction, so that printing to it fails as it did.
void process_open_standard(void) {
    for (int fd = 0; fd <= 2; fd++)
        if (fcntl(fd, F_GETFD) < 0 && errno == EBADF)
            (void)open("/dev/null", fd ? O_RDONLY : O_WRONLY); // the lowest free number: fd
}

bool process_at_terminal(void) {
    const char *kind = getenv("TERM");
    return isatty(2) && !(kind && strcmp(kind, "dumb") == 0);
}

bool process_in_color(void) {
    const char *unwanted = getenv("NO_COLOR"); // https://no-color.org
    return process_at_terminal() && !(unwanted && *unwanted);
}

// What handlers touch: signals belong to the process, not to a caller.
static atomic_int stop_flag;              // handlers run on one thread, others ask
static volatile sig_atomic_t interrupted; // second of the first SIGINT, monotonic; 0: none yet
static bool at_terminal;                  // set once, before any other thread

static void note_stop(int signal) {
    stop_flag = signal;
}

// As the system would without a handler: the signal is taken as the handler returns.
static void end_by(int signal) {
    const struct sigaction end = {.sa_handler = SIG_DFL};
    sigaction(signal, &end, NULL);
    raise(signal);
}

// What this process would leave: first its children, which may write there.
static void clear_up(void) {
    int pid[Awaited];
    for (int i = 0; i < Awaited; i++) {
        pid[i] = awaited[i];
        if (pid[i])
            kill(pid[i], SIGTERM);
    }
    for (int i = 0; i < Awaited; i++)
        if (pid[i])
            waitpid(pid[i], NULL, 0);
    file_drop_temporaries();
}

// Only calls that a handler may make.
static void put_words(const char *text) {
    if (write(2, text, strlen(text)) < 0)
        return; // nobody is left to be told
}

// Who asks a second time will not wait. Launchers repeat themselves, but at once.
static void note_interrupt(int signal) {
    int error = errno; // of what was interrupted
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    if (interrupted && now.tv_sec > interrupted + 1) {
        clear_up();
        end_by(signal);
    }
    if (!interrupted && at_terminal) // a step may take long, and impatience costs all since a save
        put_words(
            "\nsaving after this step, then ending; another Ctrl-C ends now, without saving\n");
    if (!interrupted)
        interrupted = (sig_atomic_t)now.tv_sec;
    note_stop(signal);
    errno = error;
}

static _Atomic(const char *) last_words;
static atomic_int last_code;

static void end_with_words(int signal) {
    clear_up();
    if (*last_words) {
        put_words(at_terminal ? "\n" : ""); // behind ^C
        put_words(speaker());
        put_words(": ");
        put_words(last_words);
        put_words("\n");
    }
    if (last_code)
        _exit(last_code);
    end_by(signal);
}

static void note_lost_file(int signal, siginfo_t *info, void *context) {
    (void)context;
    const char *path = file_mapped_at(info->si_addr);
    if (!path) { // not ours to explain
        end_by(signal);
        return;
    }
    clear_up();
    put_words("\n");
    put_words(speaker());
    put_words(": ");
    put_words(path);
    put_words(" was cut short while it was read, or its disk has failed; what was saved is as it "
              "was\n");
    _exit(gan_exit_code(GAN_ERR_IO));
}

void process_watch_files(void) {
    struct sigaction act = {.sa_sigaction = note_lost_file, .sa_flags = SA_SIGINFO};
    sigemptyset(&act.sa_mask);
    sigaction(SIGBUS, &act, NULL);
}

static void handle(int signal, void (*handler)(int)) {
    struct sigaction act = {.sa_handler = handler, .sa_flags = SA_RESTART};
    sigemptyset(&act.sa_mask);
    sigaction(signal, &act, NULL);
}

static bool is_ignored(int signal) {
    struct sigaction now;
    return sigaction(signal, NULL, &now) == 0 && now.sa_handler == SIG_IGN;
}

static void end_tidily(int signal) {
    clear_up();
    end_by(signal);
}

void process_watch_end(void) {
    static const int ends[] = {SIGTERM, SIGINT, SIGHUP, SIGPIPE, SIGUSR1, SIGUSR2, SIGXCPU};
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        if (!is_ignored(ends[i]))
            handle(ends[i], end_tidily);
    handle(SIGXFSZ, SIG_IGN);
}

// Batch systems warn of a limit by SIGUSR1, SIGUSR2 or SIGTERM, the system of one on processor time
// by SIGXCPU.
static const int stops[] = {SIGTERM, SIGINT, SIGUSR1, SIGUSR2, SIGXCPU, SIGHUP};
enum { Stops = sizeof stops / sizeof *stops };

static void stop_signals(sigset_t *set) {
    sigemptyset(set);
    for (int i = 0; i < Stops; i++)
        sigaddset(set, stops[i]);
}

static void *take_signals(void *unused) {
    (void)unused;
    sigset_t set;
    stop_signals(&set);
    pthread_sigmask(SIG_UNBLOCK, &set, NULL);
    for (;;)
        pause();
    return NULL;
}

// A handler's frame, 11 KB with AVX-512 and AMX, is written below the stack pointer of the thread
// that it interrupts. Matrix products of oneDNN before 3.11.2 use that register for an address on
// the heap (uxlfoundation/oneDNN issue 4845): a run that was asked to stop crashed as it saved. So
// handlers run on a thread that does nothing else; later threads inherit the mask. Without such a
// thread signals arrive anywhere, as before.
static void watch_on_a_thread(void) {
    sigset_t set;
    stop_signals(&set);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    pthread_t thread;
    if (pthread_create(&thread, NULL, take_signals, NULL) == 0)
        pthread_detach(thread);
    else
        pthread_sigmask(SIG_UNBLOCK, &set, NULL);
}

void process_stop_ends(const char *words, int code) {
    if (words) { // else they stay: a signal may still come to its handler
        last_code = code;
        last_words = words;
    }
    for (int i = 0; i < Stops; i++)
        if (stops[i] != SIGHUP || !is_ignored(SIGHUP)) // else: nohup
            handle(stops[i], words                ? end_with_words
                             : stops[i] == SIGINT ? note_interrupt
                                                  : note_stop);
}

void process_watch_stop(void) {
    at_terminal = isatty(2);
    process_stop_ends(NULL, 0);
    handle(SIGPIPE, SIG_IGN);
    watch_on_a_thread();
}

bool process_stop_asked(void) {
    return stop_flag != 0;
}

// Standard error, for writing without waiting. The flag is one of an open file, which the shell and
// others share with us: a terminal and a pipe are opened once more. -1: it is none, or not ours.
static int open_error_stream(void) {
    struct stat s;
    bool may_wait = fstat(2, &s) == 0 && (S_ISCHR(s.st_mode) || S_ISFIFO(s.st_mode));
    return may_wait ? open("/proc/self/fd/2", O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC) : -1;
}

// Whether it takes something, after waiting while nobody reads, as behind a pager or in a terminal
// that is stopped; not when asked to stop.
static bool is_heard(int fd) {
    enum { LOOK = 100 }; // ms
    struct pollfd to = {.fd = fd, .events = POLLOUT};
    int ready = poll(&to, 1, LOOK);
    while (!process_stop_asked() && (ready == 0 || (ready < 0 && errno == EINTR)))
        ready = poll(&to, 1, LOOK);
    return ready != 0;
}

// In one call where it is taken whole, so that lines of several processes do not mix.
static void say(int fd, struct iovec *part, int n) {
    const struct timespec pause = {.tv_nsec = 10 * 1000 * 1000};
    while (n && is_heard(fd)) {
        ssize_t done = writev(fd, part, n);
        if (done < 0 && (process_stop_asked() || (errno != EAGAIN && errno != EINTR)))
            return;
        if (done < 0) // a terminal with room for one byte has none for the end of a line
            nanosleep(&pause, NULL);
        size_t taken = done > 0 ? (size_t)done : 0;
        for (; n && taken >= part->iov_len; n--)
            taken -= part++->iov_len;
        if (n)
            *part = (struct iovec){(char *)part->iov_base + taken, part->iov_len - taken};
    }
}

void process_say(const Str *part, size_t n) {
    struct iovec at[4];
    assert(n <= sizeof at / sizeof *at);
    for (size_t i = 0; i < n; i++)
        at[i] = (struct iovec){(char *)(uintptr_t)part[i].ptr, part[i].len}; // writev only reads
    int own = open_error_stream();
    say(own < 0 ? 2 : own, at, (int)n);
    if (own >= 0)
        close(own);
}

void process_restart_with(const char *name, const char *value, char **argv) {
    if (setenv(name, value, 1) != 0)
        return;
    char self[4096];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    self[n > 0 ? n : 0] = 0;
    execv(self, argv);             // by its own name, which ps, pgrep and killall know it by
    execv("/proc/self/exe", argv); // it has been replaced
}
