// temporary.c - folders that a process has to itself, for files alone; and what processes that were
// killed left.
//
// A folder is removed by its owner, also where a signal or a bug ends it. Of an owner that was
// killed, whoever makes the next folder beside it does so: a living one holds a lock on its own.
#define _GNU_SOURCE
#include "temporary.h"
#include "io.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

// Those of this process, for when it is ended: no lock, no memory. One beyond what there is room
// for is left to the next process.
enum { Listed = 8 };
static _Atomic(const char *) listed[Listed];

static int list_folder(const char *path) {
    for (int i = 0; i < Listed; i++) {
        const char *none = NULL;
        if (atomic_compare_exchange_strong(&listed[i], &none, path))
            return i;
    }
    return -1;
}

// Who ends the process may be looking at it: then there is nothing to do any more but wait.
static void unlist_folder(int at, const char *path) {
    if (at >= 0 && !atomic_compare_exchange_strong(&listed[at], &path, NULL))
        for (;;)
            pause();
}

// Files of a folder, by calls that a signal handler may make. False: there were none.
static bool remove_files(int fd) {
    char block[4096];
    bool any = false;
    lseek(fd, 0, SEEK_SET);
    for (ssize_t n; (n = getdents64(fd, block, sizeof block)) > 0;) {
        struct dirent64 entry;
        for (ssize_t at = 0; at < n; at += entry.d_reclen) {
            memcpy(&entry, block + at, offsetof(struct dirent64, d_name));
            const char *name = block + at + offsetof(struct dirent64, d_name);
            any |= unlinkat(fd, name, 0) == 0;
        }
    }
    return any;
}

// A name may be passed over while others go.
static void remove_folder(const char *path) {
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    while (fd >= 0 && remove_files(fd))
        ;
    if (fd >= 0)
        close(fd);
    rmdir(path);
}

void temporary_drop(void) {
    for (int i = 0; i < Listed; i++) {
        const char *path = atomic_exchange(&listed[i], NULL);
        if (path)
            remove_folder(path);
    }
}

bool temporary_is_left(int fd, const char *path) {
    enum { Minute = 60, Day = 24 * 60 * 60 };
    struct stat s;
    if (fstat(fd, &s) != 0 || s.st_uid != geteuid())
        return false;
    long age = labs((long)(time(NULL) - s.st_mtime)); // a clock may have been set back
    if (age <= Minute)
        return false;
    bool free = flock(fd, LOCK_EX | LOCK_NB) == 0 || (errno != EWOULDBLOCK && age > Day);
    return free && io_is_at(fd, path);
}

void temporary_sweep(Arena scratch, Str in, Str prefix) {
    StrVec names;
    if (dir_list(&scratch, in, &names) != GAN_OK)
        return;
    for (uint32_t i = 0; i < names.n; i++) {
        if (!str_starts(names.at[i], prefix))
            continue;
        const char *path = str_z(&scratch, path_join(&scratch, in, names.at[i]));
        int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (fd >= 0 && temporary_is_left(fd, path))
            remove_folder(path);
        if (fd >= 0)
            close(fd);
    }
}

GanStatus temporary_make(Arena *a, Str in, Str prefix, TemporaryDir *out) {
    *out = (TemporaryDir){0};
    temporary_sweep(*a, in, prefix);
    Str made = path_join(a, in, str_format(a, "%.*sXXXXXX", SARG(prefix)));
    char *z = memcpy(arena_alloc(a, made.len + 1, 1), made.ptr, made.len); // 0 follows
    int fd = !io_refused() && mkdtemp(z) ? open(z, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    if (fd < 0)
        return io_fail("make a folder in", in);
    flock(fd, LOCK_EX | LOCK_NB);
    *out = (TemporaryDir){str_c(z), fd + 1, list_folder(z)};
    return GAN_OK;
}

void temporary_remove(TemporaryDir *t) {
    if (!t->lock)
        return;
    remove_folder(t->path.ptr);
    unlist_folder(t->listed, t->path.ptr);
    close(t->lock - 1);
    *t = (TemporaryDir){0};
}

// --- what writers of files left ------------------------------------------------------------------

static bool takes_digits(Str *s) {
    size_t n = 0;
    while (n < s->len && s->ptr[n] >= '0' && s->ptr[n] <= '9')
        n++;
    *s = str_sub(*s, n, s->len);
    return n > 0;
}

static bool takes(Str *s, Str word) {
    bool is = str_starts(*s, word);
    *s = str_sub(*s, is ? word.len : 0, s->len);
    return is;
}

// NAME.tmp-gan-N, and NAME.tmp-PID-N-old of what was there before; of earlier versions
// NAME.tmp-PID-N and NAME.tmp-PID. *of: NAME.
static bool is_temporary(Str name, Str *of, bool *old) {
    const Str mark = STR(".tmp-");
    size_t at = name.len;
    while (at > 0 && !str_starts(str_sub(name, at, name.len), mark))
        at--;
    Str rest = str_sub(name, at + mark.len, name.len);
    *of = str_sub(name, 0, at);
    *old = false;
    bool numbered = takes(&rest, STR("gan-")), ours = takes_digits(&rest) && at > 0;
    if (ours && !numbered && takes(&rest, STR("-"))) {
        ours = takes_digits(&rest);
        *old = ours && takes(&rest, STR("-old"));
    }
    return ours && !rest.len;
}

GanStatus temporary_clear(Arena *a, Str dir) {
    StrVec names;
    if (!file_exists(dir))
        return GAN_OK;
    TRY(dir_list(a, dir, &names));
    for (uint32_t i = 0; i < names.n; i++) {
        Str path = path_join(a, dir, names.at[i]), of;
        bool old;
        if (!is_temporary(names.at[i], &of, &old) || file_is_dir(path))
            continue;
        of = path_join(a, dir, of);
        if (!old || file_exists(of))
            TRY(file_remove(path));
        else if (io_refused() || rename(str_z(a, path), str_z(a, of)) != 0)
            return io_fail("put back", path);
    }
    return GAN_OK;
}
