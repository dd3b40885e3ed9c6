// jit_test.c - compiled kernels: what is compiled and what the cache provides, also damaged, pruned
// or scattered over units; and optimized code from the background compiler.
#define _GNU_SOURCE
#include "cache.h"
#include "cc.h"
#include "device.h"
#include "temporary.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "cases.h"
#include <stdlib.h>
#include <string.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
    KERNELS = 70, // more than the maximum number of units
    LONG = 4000,  // bytes of a long comment
};

typedef int64_t NumberFn(void);

static char folder[] = "/tmp/gan-jit-test-XXXXXX";
static Arena arena;
static Jit *jit;

// `comment` bytes of comment: few kernels with a short text would be compiled with -O3 at once.
static JitKernel kernel_of(uint32_t k, int comment) {
    return (JitKernel){str_format(&arena, "kernel%u", k),
                       str_format(&arena,
                                  "#include <stdint.h>\n"
                                  "int64_t kernel%u(void) { return %u; } // %*s",
                                  k, 1000 + k, comment, "")};
}

static JitCode *load_code(Jit *j, uint32_t from, uint32_t to, int comment) {
    JitKernel kernel[KERNELS] = {0};
    JitCode *code;
    for (uint32_t k = from; k < to; k++)
        kernel[k - from] = kernel_of(k, comment);
    assert_int_equal(jit_load(j, STR("// prelude\n"), kernel, to - from, &code), GAN_OK);
    return code;
}

static void check_code(const JitCode *code, uint32_t from, uint32_t to) {
    for (uint32_t k = from; k < to; k++) {
        NumberFn *number;
        void *at = jit_find(code, k - from, str_format(&arena, "kernel%u", k).ptr);
        assert_non_null(at);
        memcpy(&number, &at, sizeof number);
        assert_int_equal(number(), 1000 + k);
        assert_null(jit_find(code, k - from, "another"));
    }
}

// Loads kernels [from, to) and closes, like a very short run.
static void load(uint32_t from, uint32_t to) {
    JitCode *code = load_code(jit, from, to, 0);
    check_code(code, from, to);
    jit_free(code);
}

static StrVec kept(Str ext) {
    StrVec all = {0}, some = {0};
    assert_int_equal(dir_list(&arena, str_c(folder), &all), GAN_OK);
    for (uint32_t i = 0; i < all.n; i++)
        if (str_ends(all.at[i], ext))
            vec_push(&arena, &some, path_join(&arena, str_c(folder), all.at[i]));
    return some;
}

static int open_cache(void **state) {
    (void)state;
    return arena_init(&arena, 0) == GAN_OK && mkdtemp(folder) &&
                   jit_open(&(DeviceOptions){.threads = 1, .cache_dir = str_c(folder)}, &jit) ==
                       GAN_OK &&
                   jit
               ? 0
               : -1;
}

static void remove_folder(Str dir) {
    StrVec all;
    assert_int_equal(dir_list(&arena, dir, &all), GAN_OK);
    for (uint32_t i = 0; i < all.n; i++)
        assert_int_equal(file_remove(path_join(&arena, dir, all.at[i])), GAN_OK);
    assert_int_equal(rmdir(str_z(&arena, dir)), 0);
}

static int clear_cache(void **state) {
    (void)state;
    StrVec all = kept(STR(""));
    for (uint32_t i = 0; i < all.n; i++)
        if (file_remove(all.at[i]) != GAN_OK && rmdir(all.at[i].ptr) != 0)
            return -1;
    return 0;
}

static int close_cache(void **state) {
    jit_close(jit);
    int st = clear_cache(state);
    arena_release(&arena);
    return rmdir(folder) + st;
}

static void only_new_kernels_are_compiled(void **state) {
    (void)state;
    load(0, 10);
    assert_int_equal(kept(STR(".so")).n, 1);
    assert_int_equal(kept(STR(".kernel")).n, 10);
    load(3, 10); // fewer
    load(0, 10);
    assert_int_equal(kept(STR(".so")).n, 1);
    load(0, 12); // two more
    assert_int_equal(kept(STR(".so")).n, 2);
    assert_int_equal(kept(STR(".kernel")).n, 12);
    load(9, 11); // one of each unit
    assert_int_equal(kept(STR(".so")).n, 2);
}

// Of x86-64 and of ARM: the model is part of the key, another core of the same is not.
static void code_is_kept_for_the_model_of_processor(void **state) {
    (void)state;
    static const char *const info[] = {
        "processor\t: 0\nmodel name\t: A\ncpu MHz\t\t: 1\nflags\t\t: fpu sse\n\nprocessor\t: 1\n",
        "processor\t: 0\nmodel name\t: B\ncpu MHz\t\t: 1\nflags\t\t: fpu sse\n\nprocessor\t: 1\n",
        "processor\t: 0\nFeatures\t: fp sve\nCPU implementer\t: 0x41\nCPU part\t: 0xd40\n\n",
        "processor\t: 0\nFeatures\t: fp sve\nCPU implementer\t: 0x41\nCPU part\t: 0xd4f\n\n",
        "processor\t: 0\nFeatures\t: fp sve2\nCPU implementer\t: 0x41\nCPU part\t: 0xd4f\n\n",
    };
    enum { Machines = sizeof info / sizeof *info };
    for (int i = 0; i < Machines; i++)
        for (int k = 0; k < i; k++)
            assert_false(
                str_eq(cc_machine(&arena, str_c(info[i])), cc_machine(&arena, str_c(info[k]))));
    Str slow = str_c("model name\t: A\ncpu MHz\t\t: 1\n"),
        fast = str_c("model name\t: A\ncpu MHz\t\t: 2\n");
    assert_true(str_eq(cc_machine(&arena, slow), cc_machine(&arena, fast)));
}

static void damage(Str path) {
    FILE *f = fopen(path.ptr, "r+");
    assert_non_null(f);
    fseek(f, 700, SEEK_SET);
    fputs("damage", f);
    fclose(f);
}

static void a_damaged_unit_is_compiled_again_and_no_other(void **state) {
    (void)state;
    load(0, 5);
    Str first = kept(STR(".so")).at[0];
    load(0, 10);
    damage(first);
    load(0, 10);
    load(5, 10);
    assert_int_equal(kept(STR(".so")).n, 2); // under its old name
    assert_true(sealed_intact(first));
}

static void links_that_lead_astray_are_not_followed(void **state) {
    (void)state;
    load(0, 4);
    StrVec link = kept(STR(".kernel"));
    const char *const target[] = {"../../../bin/true", "missing.so", ".."};
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(unlink(link.at[i].ptr), 0);
        assert_int_equal(symlink(target[i], link.at[i].ptr), 0);
    }
    assert_int_equal(unlink(link.at[3].ptr), 0); // creating a link fails here
    assert_int_equal(mkdir(link.at[3].ptr, 0700), 0);
    load(0, 4);
    load(0, 4); // a kernel without a link is found through its unit
    assert_int_equal(kept(STR(".so")).n, 2);
}

// After many small edits kernels are scattered over units: those beyond the limit are recompiled
// together.
static void a_program_is_loaded_from_so_many_units_at_most(void **state) {
    (void)state;
    load(0, KERNELS);
    Str unit = kept(STR(".so")).at[0], image;
    StrVec link = kept(STR(".kernel"));
    assert_int_equal(file_read(&arena, unit, &image), GAN_OK);
    for (uint32_t k = 0; k < KERNELS; k++) {
        Str copy = path_join(&arena, str_c(folder), str_format(&arena, "%032x.so", k));
        assert_int_equal(file_write_atomic(copy, image.ptr, image.len), GAN_OK);
        cache_link(&arena, link.at[k], copy);
    }
    load(0, KERNELS);
    assert_int_equal(kept(STR(".so")).n, 1 + KERNELS + 1);
    load(0, KERNELS);
    assert_int_equal(kept(STR(".so")).n, 1 + KERNELS + 1);
}

// --- compiled again in the background ------------------------------------------------------------

static void code_is_replaced_by_better_code(void **state) {
    (void)state;
    bool moved;
    JitCode *code = load_code(jit, 0, 4, LONG);
    void *before = jit_find(code, 1, "kernel1");
    assert_int_equal(jit_improve(code, false, &moved), GAN_OK); // the delay has not passed
    assert_false(moved);
    assert_int_equal(kept(STR(".so")).n, 1);
    assert_int_equal(jit_improve(code, true, &moved), GAN_OK);
    assert_true(moved);
    assert_int_equal(kept(STR(".so")).n, 2);
    assert_ptr_not_equal(jit_find(code, 1, "kernel1"), before);
    check_code(code, 0, 4);
    assert_int_equal(jit_improve(code, true, &moved), GAN_OK);
    assert_false(moved); // already optimized
    jit_free(code);
    code = load_code(jit, 0, 4, LONG);
    assert_int_equal(jit_improve(code, true, &moved), GAN_OK);
    assert_false(moved); // found in the cache
    assert_int_equal(kept(STR(".so")).n, 2);
    jit_free(code);
}

static void a_few_kernels_are_compiled_well_at_once(void **state) {
    (void)state;
    bool moved;
    JitCode *code = load_code(jit, 0, 4, 0);
    assert_int_equal(jit_improve(code, true, &moved), GAN_OK);
    assert_false(moved);
    assert_int_equal(kept(STR(".so")).n, 1);
    jit_free(code);
}

static void a_run_that_lasts_gets_better_code(void **state) {
    (void)state;
    bool moved = false;
    JitCode *code = load_code(jit, 0, 4, LONG);
    for (double began = time_now(); !moved && time_now() < began + 60; usleep(1000))
        assert_int_equal(jit_improve(code, false, &moved), GAN_OK);
    assert_true(moved);
    check_code(code, 0, 4);
    jit_free(code);
}

// A compiler that runs `what` when called with -O3.
static StrVec noticed; // in order

static void note(void *user, const char *text) {
    (void)user;
    vec_push(&arena, &noticed, str_copy(&arena, str_c(text)));
}

static Jit *open_as(const char *script, Str dir) {
    Jit *j;
    Str path = path_join(&arena, str_c(folder), STR("compiler"));
    Str text = str_format(&arena, "#!/bin/sh\n%s\n", script);
    assert_int_equal(file_write_atomic(path, text.ptr, text.len), GAN_OK);
    assert_int_equal(chmod(path.ptr, 0700), 0);
    assert_int_equal(
        jit_open(&(DeviceOptions){.threads = 1, .cache_dir = dir, .compiler = path, .notice = note},
                 &j),
        GAN_OK);
    assert_non_null(j);
    noticed.n = 0;
    return j;
}

static Jit *open_with(const char *what) {
    const char *script =
        str_format(&arena, "case \"$*\" in *-O3*) %s ;; esac\nexec cc \"$@\"", what).ptr;
    return open_as(script, str_c(folder));
}

static void code_stays_where_the_compiler_fails(void **state) {
    (void)state;
    bool moved;
    Jit *j = open_with("exit 3");
    JitCode *code = load_code(j, 0, 4, LONG);
    assert_int_equal(jit_improve(code, true, &moved), GAN_ERR_DEVICE);
    assert_non_null(strstr(gan_error(), "exit code 3"));
    assert_false(moved);
    check_code(code, 0, 4);
    assert_int_equal(jit_improve(code, true, &moved), GAN_OK); // not retried
    jit_free(code);
    jit_close(j);
}

// Somebody removes the cache before, after or while the first unit is compiled in it.
static void a_cache_that_is_removed_meanwhile_ends_no_run(void **state) {
    (void)state;
    static const char *const meanwhile[] = {"rm -rf $d; cc \"$@\"", "cc \"$@\"; rm -rf $d",
                                            "(sleep 0.01; rm -rf $d) & cc \"$@\""};
    Str cache = path_join(&arena, str_c(folder), STR("cache"));
    Str first = str_format(&arena, "%s.first", cache.ptr);
    for (size_t i = 0; i < sizeof meanwhile / sizeof *meanwhile; i++) {
        Jit *j = open_as(str_format(&arena,
                                    "d=%s\n[ ! -e $d.first ] || exec cc \"$@\"\n"
                                    "case \"$*\" in *$d/*) ;; *) exec cc \"$@\" ;; esac\n"
                                    ">$d.first\n%s",
                                    cache.ptr, meanwhile[i])
                             .ptr,
                         cache);
        JitCode *code = load_code(j, 0, 4, LONG);
        check_code(code, 0, 4);
        jit_free(code);
        assert_int_equal(kept(STR(".first")).n, 1);
        assert_int_equal(file_remove(first), GAN_OK);
        jit_close(j);
        remove_folder(cache);
    }
}

// Kernels of two functions are compiled, and improved, elsewhere.
static void check_not_kept(Jit *j, const char *why) {
    bool moved;
    JitCode *one = load_code(j, 0, 4, LONG), *two = load_code(j, 2, 7, 0);
    check_code(one, 0, 4);
    check_code(two, 2, 7);
    assert_int_equal(noticed.n, 1);
    assert_non_null(strstr(noticed.at[0].ptr, "compiled kernels are not kept: "));
    assert_non_null(strstr(noticed.at[0].ptr, why));
    assert_int_equal(jit_improve(one, true, &moved), GAN_OK);
    assert_true(moved);
    check_code(one, 0, 4);
    jit_free(one);
    jit_free(two);
    jit_close(j);
}

static void a_cache_that_cannot_be_written_ends_no_run(void **state) {
    (void)state;
    Str cache = path_join(&arena, str_c(folder), STR("cache"));
    Jit *j = open_as("exec cc \"$@\"", cache);
    remove_folder(cache);
    assert_int_equal(file_write_atomic(cache, "", 0), GAN_OK);
    check_not_kept(j, "cache");
}

// The compiler writes most of what is kept.
static void a_full_disk_ends_no_run(void **state) {
    (void)state;
    Str cache = path_join(&arena, str_c(folder), STR("cache"));
    Jit *j =
        open_as(str_format(&arena,
                           "case \"$*\" in *\" -o %s\"*) echo No space left on device; exit 1;; "
                           "esac\nexec cc \"$@\"",
                           cache.ptr)
                    .ptr,
                cache);
    check_not_kept(j, "No space left on device");
    remove_folder(cache);
}

static void a_compiler_that_fails_everywhere_ends_a_run(void **state) {
    (void)state;
    JitKernel kernel = kernel_of(0, 0);
    JitCode *code;
    Jit *j = open_as("case \"$*\" in *-o*) exit 3 ;; esac\nexec cc \"$@\"", str_c(folder));
    assert_int_equal(jit_load(j, (Str){0}, &kernel, 1, &code), GAN_ERR_DEVICE);
    assert_null(code);
    assert_non_null(strstr(gan_error(), "exit code 3"));
    assert_non_null(strstr(gan_error(), folder)); // where its source stays
    assert_int_equal(noticed.n, 0);
    jit_close(j);
}

static void a_run_that_ends_stops_the_compiler(void **state) {
    (void)state;
    bool moved;
    Jit *j = open_with("sleep 100");
    JitCode *code = load_code(j, 0, 4, LONG);
    usleep(600000);
    assert_int_equal(jit_improve(code, false, &moved), GAN_OK); // begins
    assert_int_equal(kept(STR(".c")).n, 1);
    double began = time_now();
    jit_free(code);
    assert_true(time_now() - began < 50);
    assert_int_equal(kept(STR(".c")).n, 0);
    jit_close(j);
}

// --- several processes ---------------------------------------------------------------------------

static void load_well(Jit *j, int comment) {
    bool moved;
    JitCode *code = load_code(j, 0, 4, comment);
    assert_int_equal(jit_improve(code, true, &moved), GAN_OK);
    check_code(code, 0, 4);
    jit_free(code);
}

static pid_t load_in_child(Jit *j, int comment) {
    pid_t child = fork();
    if (!child) {
        load_well(j, comment);
        _exit(0);
    }
    assert_true(child > 0);
    return child;
}

// -O3 compilations by a compiler that takes a second for each.
static Jit *open_counting(void) {
    return open_with(str_format(&arena, "echo >>%s/calls; sleep 1", folder).ptr);
}

static size_t calls_counted(void) {
    Str text = {0};
    Str path = path_join(&arena, str_c(folder), STR("calls"));
    return file_exists(path) && file_read(&arena, path, &text) == GAN_OK ? text.len : 0;
}

static void processes_compile_the_same_kernels_once(void **state) {
    (void)state;
    static const int comment[] = {0, LONG}; // at once, and in the background
    Jit *j = open_counting();
    for (size_t i = 0; i < 2; i++) {
        int code;
        pid_t child = load_in_child(j, comment[i]);
        load_well(j, comment[i]);
        assert_int_equal(waitpid(child, &code, 0), child);
        assert_int_equal(code, 0);
        assert_int_equal(calls_counted(), i + 1);
    }
    assert_int_equal(kept(STR(".claim")).n, 0);
    jit_close(j);
}

// Starts together with the other process, as one of two with the same work.
static void load_as_peer(Str compiler, int peer, const int ready[2]) {
    Jit *j;
    char byte = 0;
    DeviceOptions o = {
        .threads = 1, .cache_dir = str_c(folder), .compiler = compiler, .peers = 2, .peer = peer};
    assert_int_equal(jit_open(&o, &j), GAN_OK);
    assert_int_equal(write(ready[1], &byte, 1), 1);
    assert_int_equal(read(ready[0], &byte, 1), 1);
    load_well(j, LONG);
    jit_close(j);
}

static void processes_divide_the_same_kernels(void **state) {
    (void)state;
    int to_child[2], to_parent[2], code;
    Str calls, path = path_join(&arena, str_c(folder), STR("compiler"));
    Str text = str_format(&arena,
                          "#!/bin/sh\ncase \"$*\" in *-O*) echo $PPID >>%s/calls; sleep 1;; "
                          "esac\nexec cc \"$@\"\n",
                          folder);
    assert_int_equal(file_write_atomic(path, text.ptr, text.len), GAN_OK);
    assert_int_equal(chmod(path.ptr, 0700), 0);
    assert_int_equal(pipe(to_child), 0);
    assert_int_equal(pipe(to_parent), 0);
    pid_t child = fork();
    if (!child) {
        load_as_peer(path, 1, (int[]){to_child[0], to_parent[1]});
        _exit(0);
    }
    load_as_peer(path, 0, (int[]){to_parent[0], to_child[1]});
    assert_int_equal(waitpid(child, &code, 0), child);
    assert_int_equal(code, 0);
    assert_int_equal(kept(STR(".so")).n, 4); // two units, each compiled quickly and well
    path = path_join(&arena, str_c(folder), STR("calls"));
    assert_int_equal(file_read(&arena, path, &calls), GAN_OK);
    size_t mine = 0, all = 0;
    Str me = str_format(&arena, "%ld", (long)getpid()), line;
    for (size_t at = 0; at < calls.len; at += line.len + 1, all++) {
        line = str_sub(calls, at, at + str_find(str_sub(calls, at, calls.len), '\n'));
        mine += str_eq(line, me);
    }
    assert_int_equal(all, 4); // nothing twice
    assert_in_range(mine, 1, 3);
    for (int i = 0; i < 2; i++) {
        close(to_child[i]);
        close(to_parent[i]);
    }
}

static void work_of_a_killed_process_is_done_by_another(void **state) {
    (void)state;
    Jit *j = open_counting();
    pid_t child = load_in_child(j, 0);
    while (!calls_counted())
        usleep(1000);
    assert_int_equal(kept(STR(".claim")).n, 1);
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitpid(child, NULL, 0), child);
    CacheClaim claim;
    Str file = kept(STR(".claim")).at[0], unit = str_sub(file, 0, file.len - STR(".claim").len);
    assert_true(cache_claim(unit, &claim)); // it ended with the process
    cache_unclaim(unit, &claim);
    load_well(j, 0);
    assert_int_equal(calls_counted(), 2);
    jit_close(j);
}

// --- pruning -------------------------------------------------------------------------------------

enum { Hour = 3600, Big = 64 << 10 };

// A file of the cache, last used so many hours ago.
static Str put(uint32_t number, const char *ext, int hours) {
    static char bytes[Big];
    Str path = path_join(&arena, str_c(folder), str_format(&arena, "%032x%s", number, ext));
    const struct timespec then = {time(NULL) - (time_t)hours * Hour, 0}, both[2] = {then, then};
    assert_int_equal(sealed_write(&arena, path, (Str){bytes, sizeof bytes}), GAN_OK);
    assert_int_equal(utimensat(AT_FDCWD, path.ptr, both, 0), 0);
    return path;
}

// The cache of a bench, begun an hour ago. Returns its lock, unless a kill has ended that.
static int put_aside(bool killed, Str *dir) {
    const struct timespec then = {time(NULL) - Hour, 0}, both[2] = {then, then};
    TemporaryDir t;
    assert_int_equal(temporary_make(&arena, str_c(folder), STR(CACHE_ASIDE), &t), GAN_OK);
    *dir = t.path;
    assert_int_equal(file_write_atomic(path_join(&arena, t.path, STR("kernels.so")), "x", 1), 0);
    assert_int_equal(utimensat(AT_FDCWD, t.path.ptr, both, 0), 0);
    if (killed)
        close(t.lock - 1);
    return killed ? -1 : t.lock - 1;
}

static void open_again(uint64_t limit, bool later) {
    if (later)
        file_remove(path_join(&arena, str_c(folder), STR("pruned")));
    assert_int_equal(cache_dir(&arena, str_c(folder), limit), GAN_OK);
}

static void what_was_not_used_for_longest_is_pruned(void **state) {
    (void)state;
    Str oldest = put(1, ".so", 5), older = put(2, ".so", 3), recent = put(3, ".so", 1);
    Str link = path_join(&arena, str_c(folder), STR("link.kernel")), at;
    Str in_work = put(4, ".so.12-7f.c", 5), left = put(5, ".so.12-7f.o", 30);
    Str benched, bench_left;
    int lock = put_aside(false, &benched);
    put_aside(true, &bench_left);
    cache_link(&arena, link, oldest);
    open_again(UINT64_MAX, true); // room for all: only what killed processes left goes
    assert_true(file_exists(oldest) && file_exists(in_work) && !file_exists(left));
    assert_true(file_is_dir(benched) && !file_is_dir(bench_left));
    close(lock);
    temporary_sweep(arena, str_c(folder), STR(CACHE_ASIDE));
    assert_false(file_is_dir(benched));
    uint64_t all = cache_bytes(str_c(folder));
    assert_true(all > 4 * Big && all < 5 * Big);
    open_again(all - 1, false); // not twice within an hour
    assert_true(file_exists(oldest));
    open_again(all - 1, true);
    assert_false(file_exists(oldest) || cache_follow(&arena, link, &at));
    assert_true(file_exists(older) && file_exists(in_work));
    assert_true(sealed_intact(older)); // used
    open_again(1, true);
    assert_true(file_exists(older) && file_exists(recent) && file_exists(in_work));
}

static void a_clock_that_was_set_back_stops_no_pruning(void **state) {
    (void)state;
    Str ahead = put(1, ".so", -50), used = put(2, ".so", -60), left = put(3, ".so.12-7f.o", -30);
    Str stamp = path_join(&arena, str_c(folder), STR("pruned"));
    const struct timespec later = {time(NULL) + 2 * Hour, 0}, both[2] = {later, later};
    open_again(UINT64_MAX, true);
    assert_int_equal(utimensat(AT_FDCWD, stamp.ptr, both, 0), 0);
    assert_true(sealed_intact(used)); // which stamps it anew
    open_again(1, false);
    assert_true(!file_exists(ahead) && file_exists(used) && !file_exists(left));
}

// Without a cache kernels lie in a folder that goes with the process. One that was killed left its
// own, without the lock.
static void folders_of_killed_processes_are_removed(void **state) {
    (void)state;
    const struct timespec long_ago[2] = {{.tv_sec = 1}, {.tv_sec = 1}};
    char left[] = "/tmp/ganrun-kernels-XXXXXX", used[] = "/tmp/ganrun-kernels-XXXXXX";
    assert_true(mkdtemp(left) && mkdtemp(used));
    Str file = path_join(&arena, str_c(left), STR("a.so"));
    int lock = open(used, O_RDONLY | O_DIRECTORY);
    assert_int_equal(file_write_atomic(file, "", 0), GAN_OK);
    assert_true(lock >= 0 && flock(lock, LOCK_EX) == 0);
    assert_int_equal(utimensat(AT_FDCWD, left, long_ago, 0), 0);
    assert_int_equal(utimensat(AT_FDCWD, used, long_ago, 0), 0);
    Jit *aside;
    assert_int_equal(jit_open(&(DeviceOptions){.threads = 1}, &aside), GAN_OK);
    assert_non_null(aside);
    bool gone = !file_exists(str_c(left)), stays = file_exists(str_c(used));
    jit_close(aside);
    close(lock);
    rmdir(used);
    assert_true(gone && stays);
}

static void a_limit_is_a_size(void **state) {
    (void)state;
    uint64_t limit;
    assert_int_equal(cache_limit(STR("500M"), &limit), GAN_OK);
    assert_true(limit == (uint64_t)500 << 20 || limit == 500000000);
    assert_int_equal(cache_limit((Str){0}, &limit), GAN_OK);
    assert_true(limit == CACHE_LIMIT);
    assert_int_equal(cache_limit(STR("much"), &limit), GAN_ERR_USAGE);
}

static void the_folder_is_the_users(void **state) {
    (void)state;
    Str none = {0}, home = STR("/home/x");
    assert_true(str_eq(cache_folder(&arena, STR("/y"), home), STR("/y/gan")));
    assert_true(str_eq(cache_folder(&arena, none, home), STR("/home/x/.cache/gan")));
    assert_true(str_eq(cache_folder(&arena, STR("y"), home), STR("/home/x/.cache/gan")));
    assert_false(cache_folder(&arena, none, none).len);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(code_is_kept_for_the_model_of_processor),
        cmocka_unit_test_teardown(only_new_kernels_are_compiled, clear_cache),
        cmocka_unit_test_teardown(a_damaged_unit_is_compiled_again_and_no_other, clear_cache),
        cmocka_unit_test_teardown(links_that_lead_astray_are_not_followed, clear_cache),
        cmocka_unit_test_teardown(code_is_replaced_by_better_code, clear_cache),
        cmocka_unit_test_teardown(a_few_kernels_are_compiled_well_at_once, clear_cache),
        cmocka_unit_test_teardown(a_run_that_lasts_gets_better_code, clear_cache),
        cmocka_unit_test_teardown(code_stays_where_the_compiler_fails, clear_cache),
        cmocka_unit_test_teardown(a_cache_that_is_removed_meanwhile_ends_no_run, clear_cache),
        cmocka_unit_test_teardown(a_cache_that_cannot_be_written_ends_no_run, clear_cache),
        cmocka_unit_test_teardown(a_full_disk_ends_no_run, clear_cache),
        cmocka_unit_test_teardown(a_compiler_that_fails_everywhere_ends_a_run, clear_cache),
        cmocka_unit_test_teardown(a_run_that_ends_stops_the_compiler, clear_cache),
        cmocka_unit_test_teardown(a_program_is_loaded_from_so_many_units_at_most, clear_cache),
        cmocka_unit_test_teardown(processes_compile_the_same_kernels_once, clear_cache),
        cmocka_unit_test_teardown(processes_divide_the_same_kernels, clear_cache),
        cmocka_unit_test_teardown(work_of_a_killed_process_is_done_by_another, clear_cache),
        cmocka_unit_test_teardown(what_was_not_used_for_longest_is_pruned, clear_cache),
        cmocka_unit_test_teardown(a_clock_that_was_set_back_stops_no_pruning, clear_cache),
        cmocka_unit_test(the_folder_is_the_users),
        cmocka_unit_test(folders_of_killed_processes_are_removed),
        cmocka_unit_test(a_limit_is_a_size),
    };
    if (CASES_LISTED(tests))
        return 0;
    return cmocka_run_group_tests(tests, open_cache, close_cache);
}
