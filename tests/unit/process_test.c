// process_test.c - time, cores, other processes, standard streams, and what ends or stops this one.
#define _GNU_SOURCE
#include "process.h"
#include "temporary.h"

#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "fixture.h"

#include "cases.h"

static _Noreturn void have_a_bug(void) {
    bug("node %d", 7);
}

static _Noreturn void have_no_memory(void) {
    no_memory("%d bytes", 7);
}

// The exit code of a process that ends that way, and what it says.
static void check_end(void (*end)(void), int code, const char *said) {
    int ends[2], how = 0;
    char text[100] = {0};
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0) {
        speak_as("someone");
        if (dup2(ends[1], 2) == 2)
            end();
        _exit(1);
    }
    close(ends[1]);
    assert_int_equal(waitpid(child, &how, 0), child);
    assert_true(read(ends[0], text, sizeof text - 1) > 0);
    close(ends[0]);
    assert_true(WIFEXITED(how) && WEXITSTATUS(how) == code);
    assert_string_equal(text, said);
}

static void what_ends_the_process_names_the_program(void **state) {
    (void)state;
    check_end(have_a_bug, 70, "someone: internal error: node 7\n");
    check_end(have_no_memory, 3, "someone: out of memory: 7 bytes\n");
}

static void the_clock_runs_and_the_process_started_in_the_past(void **state) {
    (void)state;
    double a = time_now(), b = time_now();
    assert_true(b >= a);
    assert_true(time_process_start() <= time_now());
    assert_true(time_now() - time_process_start() < 600);
}

static void put_file(Fixture *p, const char *name, const char *text) {
    Str path = under(p, name);
    assert_ok(dir_make(path_dir(path)));
    assert_ok(file_write_atomic(path, text, strlen(text)));
}

// Control groups of both versions: limits of parents count, missing paths do not.
static void a_limit_on_cpu_time_is_found(void **state) {
    Fixture *p = *state;
    put_file(p, "two/cpu.max", "max 100000\n");
    put_file(p, "two/job/cpu.max", "250000 100000\n");
    put_file(p, "two/job/step/cpu.max", "400000 100000\n");
    put_file(p, "one/cpu,cpuacct/cpu.cfs_quota_us", "-1\n");
    put_file(p, "one/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
    put_file(p, "one/cpu,cpuacct/docker/cpu.cfs_quota_us", "150000\n");
    put_file(p, "one/cpu,cpuacct/docker/cpu.cfs_period_us", "50000\n");
    const char *two = str_z(&p->arena, under(p, "two")), *one = str_z(&p->arena, under(p, "one"));
    assert_true(cores_quota_of(STR("0::/\n"), two) == INFINITY);
    assert_true(cores_quota_of(STR("0::/job\n"), two) == 2.5);
    assert_true(cores_quota_of(STR("0::/job/step\n"), two) == 2.5);
    assert_true(cores_quota_of(STR("0::/elsewhere/x\n"), two) == INFINITY);
    assert_true(cores_quota_of(STR("5:memory:/docker\n4:cpu,cpuacct:/docker\n0::/"), one) == 3);
    assert_true(cores_quota_of(STR("3:cpuset:/docker\n"), one) == INFINITY);
    assert_true(cores_quota_of(STR(""), one) == INFINITY);
    assert_true(cores_quota() > 0 && cores_usable() >= 1);
}

static void a_child_process_returns_its_output_and_exit_code(void **state) {
    Fixture *p = *state;
    static const struct {
        const char *script, *said;
        int code;
    } row[] = {
        {"echo out; echo err >&2; exit 3", "out\nerr\n", 3},
        {"cat", "", 0},
        {"kill -9 $$", "", 137},
    };
    Str said;
    int code;
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        const char *const argv[] = {"sh", "-c", row[i].script, NULL};
        assert_ok(process_run(&p->arena, argv, &said, &code));
        assert_str(said, row[i].said);
        assert_int_equal(code, row[i].code);
    }
    const char *const missing[] = {"no-such-program-here", NULL};
    assert_ok(process_run(&p->arena, missing, &said, &code));
    assert_int_equal(code, 127);
    assert_true(str_starts(said, STR("no-such-program-here: ")));
    const char *const lots[] = {"sh", "-c", "head -c 200000 /dev/zero", NULL};
    assert_ok(process_run(&p->arena, lots, &said, &code));
    assert_int_equal(said.len, 200000);
    mem_fail_at(2);
    assert_status(process_run(&p->arena, lots, &said, &code), GAN_ERR_MEMORY, "run");
}

// Standard error is a terminal for the time of the questions.
static void a_terminal_may_want_no_colors(void **state) {
    (void)state;
    static const struct {
        const char *term, *no_color;
        bool terminal, color;
    } cases[] = {
        {"xterm", "", true, true}, {"xterm", "1", true, false}, {"dumb", "", false, false}};
    int kept = dup(2), far = posix_openpt(O_RDWR | O_NOCTTY);
    assert_true(kept >= 0 && far >= 0 && grantpt(far) == 0 && unlockpt(far) == 0);
    int near = open(ptsname(far), O_RDWR | O_NOCTTY);
    assert_true(near >= 0);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        setenv("TERM", cases[i].term, 1);
        setenv("NO_COLOR", cases[i].no_color, 1);
        dup2(near, 2);
        bool terminal = process_at_terminal(), color = process_in_color();
        dup2(kept, 2);
        assert_true(terminal == cases[i].terminal && color == cases[i].color);
    }
    close(near);
    close(far);
    close(kept);
}

// Through a socket each call arrives as a message of its own; through a pipe, in parts, more than
// it holds.
static void a_line_of_parts_arrives_as_one(void **state) {
    (void)state;
    static char middle[200000], got[sizeof middle + 16];
    int socket[2], through[2], kept = dup(2), how;
    assert_true(kept >= 0 && pipe(through) == 0);
    assert_int_equal(socketpair(AF_UNIX, SOCK_DGRAM, 0, socket), 0);
    dup2(socket[1], 2);
    process_say((const Str[]){STR("who: "), STR(""), STR("why"), STR("\n")}, 4);
    dup2(kept, 2);
    ssize_t n = read(socket[0], got, sizeof got);
    const Str said = {got, n < 0 ? 0 : (size_t)n};
    assert_str(said, "who: why\n");
    memset(middle, '.', sizeof middle);
    pid_t child = fork();
    if (child == 0) {
        dup2(through[1], 2);
        process_say((const Str[]){STR("<"), {middle, sizeof middle}, STR(">\n")}, 3);
        _exit(0);
    }
    close(through[1]);
    size_t all = 0;
    while ((n = read(through[0], got + all, sizeof got - all)) > 0)
        all += (size_t)n;
    assert_int_equal(waitpid(child, &how, 0), child);
    assert_int_equal(all, sizeof middle + 3);
    assert_true(got[0] == '<' && !memcmp(got + 1, middle, sizeof middle) &&
                !memcmp(got + all - 2, ">\n", 2));
    close(through[0]);
    close(socket[0]);
    close(socket[1]);
    close(kept);
}

// More than a terminal holds that nobody reads.
static void who_is_to_stop_says_what_is_heard(void **state) {
    (void)state;
    static char line[10000];
    memset(line, '.', sizeof line);
    int how, far = posix_openpt(O_RDWR | O_NOCTTY);
    assert_true(far >= 0 && grantpt(far) == 0 && unlockpt(far) == 0);
    pid_t child = fork();
    if (child == 0) {
        const Str part[] = {{line, sizeof line}, STR("\n")};
        int near = open(ptsname(far), O_RDWR | O_NOCTTY);
        alarm(60);
        process_watch_stop();
        bool ok = near >= 0 && dup2(near, 2) == 2 && kill(getpid(), SIGTERM) == 0;
        while (ok && !process_stop_asked())
            sched_yield();
        for (int i = 0; ok && i < 20; i++)
            process_say(part, 2);
        _exit(ok ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &how, 0), child);
    close(far);
    assert_true(WIFEXITED(how) && WEXITSTATUS(how) == 0);
}

// The handler of a stop runs on no thread that computes (process.c says why), here and in threads
// that begin later; a child is no such thread.
static void a_stop_is_asked_of_no_computing_thread(void **state) {
    Fixture *p = *state;
    const char *const ends[] = {"sh", "-c", "kill -TERM $$; echo deaf", NULL};
    pid_t child = fork();
    if (child == 0) {
        sigset_t blocked;
        int code;
        Str said;
        process_watch_stop();
        bool ok = pthread_sigmask(SIG_BLOCK, NULL, &blocked) == 0 &&
                  sigismember(&blocked, SIGTERM) && sigismember(&blocked, SIGINT) &&
                  sigismember(&blocked, SIGUSR1) && sigismember(&blocked, SIGHUP) &&
                  !process_stop_asked() && kill(getpid(), SIGTERM) == 0;
        for (double until = time_now() + 60; ok && !process_stop_asked();)
            ok = time_now() < until;
        ok = ok && process_run(&p->arena, ends, &said, &code) == GAN_OK && code == 128 + SIGTERM;
        _exit(!ok);
    }
    int how = 1;
    assert_int_equal(waitpid(child, &how, 0), child);
    assert_int_equal(how, 0);
}

static void raise_and_wait(int signal, double seconds) {
    kill(getpid(), signal);
    for (double until = time_now() + seconds; time_now() < until;)
        sched_yield();
}

// How a child ends that is asked to stop with `words` in force, and twice over where it goes on.
static int stopped(const char *words, int code, int signal, double between) {
    int how = 0;
    pid_t child = fork();
    if (child == 0) {
        alarm(60);
        process_watch_stop();
        process_stop_ends("", 1);
        process_stop_ends(words, code);
        raise_and_wait(signal, between);
        raise_and_wait(signal, words ? 60 : 0.1);
        _exit(process_stop_asked() ? 7 : 8);
    }
    assert_int_equal(waitpid(child, &how, 0), child);
    return how;
}

static void a_stop_is_a_request_or_the_end(void **state) {
    (void)state;
    int how = stopped("", 75, SIGTERM, 60);
    assert_true(WIFEXITED(how) && WEXITSTATUS(how) == 75);
    how = stopped("", 0, SIGINT, 60);
    assert_true(WIFSIGNALED(how) && WTERMSIG(how) == SIGINT);
    how = stopped(NULL, 0, SIGTERM, 0.1);
    assert_true(WIFEXITED(how) && WEXITSTATUS(how) == 7);
    how = stopped(NULL, 0, SIGINT, 0.1); // close together, as launchers do: counted once
    assert_true(WIFEXITED(how) && WEXITSTATUS(how) == 7);
    how = stopped(NULL, 0, SIGINT, 2.5);
    assert_true(WIFSIGNALED(how) && WTERMSIG(how) == SIGINT);
}

// Says on descriptor 9 that it runs, after more output than a pipe holds: somebody reads it.
static void *run_a_long_child(void *none) {
    static const char script[] = "head -c 200000 /dev/zero; echo >&9; exec sleep 600";
    const char *const argv[] = {"sh", "-c", script, NULL};
    Arena a;
    Str said;
    int code;
    if (arena_init(&a, 0) == GAN_OK)
        (void)process_run(&a, argv, &said, &code);
    return none;
}

// As the compilers are of several threads.
static void children_end_with_the_process_whichever_thread_has_them(void **state) {
    (void)state;
    enum { Children = 3 };
    int ends[2];
    char ready[Children];
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0) {
        pthread_t thread;
        bool ok = dup2(ends[1], 9) == 9;
        close(ends[1]);
        process_watch_end();
        for (int i = 0; i < Children && ok; i++)
            ok = pthread_create(&thread, NULL, run_a_long_child, NULL) == 0;
        while (ok)
            pause();
        _exit(1);
    }
    close(ends[1]);
    for (int i = 0; i < Children; i++)
        assert_int_equal(read(ends[0], &ready[i], 1), 1);
    int how = 0;
    kill(child, SIGTERM);
    assert_int_equal(waitpid(child, &how, 0), child);
    assert_true(WIFSIGNALED(how) && WTERMSIG(how) == SIGTERM);
    struct pollfd left = {.fd = ends[0], .events = POLLIN};
    assert_int_equal(poll(&left, 1, 0), 1); // nobody has the other end any more
    close(ends[0]);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, fixture_open, fixture_close)

// Others may lie beside them: a run's folder is its user's.
static void temporaries_go_and_other_files_stay(void **state) {
    static const char *const own[] = {"a.json.tmp-gan-0", "b.png.tmp-gan-12", "c.json.tmp-1",
                                      "d.json.tmp-17-3", "kept.tmp-17-3-old"},
                             *const others[] = {"notes.tmp-2024.txt", "x.tmp-old",    "x.tmp-",
                                                "x.tmp-gan-",         "x.tmp-gan-1b", ".tmp-gan-1",
                                                "y.tmp-1-",           "kept"};
    Fixture *p = *state;
    Str file;
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        assert_ok(file_append(under(p, own[i]), STR("half")));
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        assert_ok(file_append(under(p, others[i]), STR("whole")));
    assert_ok(dir_make(under(p, "folder.tmp-gan-1")));
    assert_ok(file_append(under(p, "lost.tmp-17-0-old"), STR("all that is left")));
    assert_ok(temporary_clear(&p->arena, str_c(p->root)));
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        assert_false(file_exists(under(p, own[i])));
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        assert_true(file_exists(under(p, others[i])));
    assert_true(file_is_dir(under(p, "folder.tmp-gan-1")));
    assert_ok(file_read(&p->arena, under(p, "lost"), &file));
    assert_true(str_eq(file, STR("all that is left")));
    assert_ok(temporary_clear(&p->arena, under(p, "absent")));
}

// Killed when the temporary was read-only already, as what it replaces is. No right is refused to
// root.
static void a_killed_writer_of_a_read_only_file_is_cleaned_up_after(void **state) {
    enum { Nobody = 65534 };
    const struct timespec then = {time(NULL) - 3600, 0}, both[2] = {then, then};
    Fixture *p = *state;
    Str path = under(p, "f"), left = under(p, "f.tmp-gan-0"), own[] = {path, left, str_c(p->root)};
    bool root = geteuid() == 0;
    assert_ok(file_write_atomic(path, "old", 3));
    assert_ok(file_append(left, STR("half")));
    assert_int_equal(chmod(path.ptr, 0444) | chmod(left.ptr, 0444), 0);
    assert_int_equal(utimensat(AT_FDCWD, left.ptr, both, 0), 0);
    for (size_t i = 0; root && i < sizeof own / sizeof *own; i++)
        assert_int_equal(chown(own[i].ptr, Nobody, (gid_t)-1), 0);
    assert_int_equal(root ? seteuid(Nobody) : 0, 0);
    GanStatus st = file_write_atomic(path, "new", 3);
    assert_int_equal(root ? seteuid(0) : 0, 0);
    assert_ok(st);
    assert_false(file_exists(left));
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        CASE(what_ends_the_process_names_the_program),
        CASE(the_clock_runs_and_the_process_started_in_the_past),
        CASE(a_limit_on_cpu_time_is_found),
        CASE(temporaries_go_and_other_files_stay),
        CASE(a_killed_writer_of_a_read_only_file_is_cleaned_up_after),
        CASE(a_child_process_returns_its_output_and_exit_code),
        CASE(a_terminal_may_want_no_colors),
        CASE(a_line_of_parts_arrives_as_one),
        CASE(who_is_to_stop_says_what_is_heard),
        CASE(a_stop_is_asked_of_no_computing_thread),
        CASE(a_stop_is_a_request_or_the_end),
        CASE(children_end_with_the_process_whichever_thread_has_them),
    };
    if (CASES_LISTED(tests))
        return 0;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
