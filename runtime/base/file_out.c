// file_out.c - writing files. A file is replaced whole or not at all: the new content is written to
// a temporary file in the same folder, synced, and renamed; who may read and write it stays. Every
// failure removes the temporary and reports the path and the system's reason; that of a process
// that was killed goes when another writes the same file.
#define _GNU_SOURCE
#include "io.h"
#include "temporary.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

// Linux keeps what one call wrote in pages as large as the call. Beyond 1 MiB it must first find
// such pages, and clear them: 80 MB in calls of 8 MiB took ten times as long as in these
// (docs/tuning.md).
enum { OutBuffer = 1 << 16, WriteMost = 1 << 19 };

struct FileOut {
    int fd;
    int lock; // the same; holds the temporary while it has that name; -1: there is none
    IoPath path, temporary; // the file's; where it is written first, empty: in its place
    IoPath old;             // what was in its place, until others are in theirs; empty: nothing
    int at;                 // its place in `listed`, or -1
    mode_t mode;            // of what it replaces; 0: that of a new file
    size_t n;               // bytes waiting in `buffer`
    char buffer[OutBuffer];
};

// Temporary files being written, for a process that is ended: no lock, no memory. One beyond what
// there is room for stays behind.
enum { TemporariesListed = 64 };
static _Atomic(FileOut *) listed[TemporariesListed];

static void list_temporary(FileOut *f) {
    for (int i = 0; f->at < 0 && i < TemporariesListed; i++) {
        FileOut *none = NULL;
        if (atomic_compare_exchange_strong(&listed[i], &none, f))
            f->at = i;
    }
}

// Who ends the process may be looking at it: then there is nothing to do any more but wait.
static void unlist_temporary(FileOut *f) {
    FileOut *here = f;
    if (f->at >= 0 && !atomic_compare_exchange_strong(&listed[f->at], &here, NULL))
        for (;;)
            pause();
    f->at = -1;
}

static void release(FileOut *f) {
    unlist_temporary(f);
    if (f->lock >= 0)
        close(f->lock);
    mem_free(f);
}

// Where the old file is still in its place, only its second name goes.
static void restore(const FileOut *f) {
    if (f->old.z[0]) {
        rename(f->old.z, f->path.z);
        unlink(f->old.z);
    }
}

void file_drop_temporaries(void) {
    for (int i = 0; i < TemporariesListed; i++) {
        const FileOut *f = atomic_exchange(&listed[i], NULL);
        if (f) {
            if (io_is_at(f->lock, f->temporary.z)) // else it is in its place, the name another's
                unlink(f->temporary.z);
            restore(f);
        }
    }
    temporary_drop();
}

bool io_write(int fd, const char *p, size_t n) {
    while (n > 0) {
        ssize_t done = io_refused() ? -1 : write(fd, p, n < WriteMost ? n : WriteMost);
        if (done < 0 && errno == EINTR)
            continue;
        if (done < 0)
            return false;
        p += done;
        n -= (size_t)done;
    }
    return true;
}

// A signal may interrupt either. What is closed then is closed, on Linux; to say what failed to be
// written is for the sync before it.
static bool sync_all(int fd) {
    int st;
    do
        st = io_refused() ? -1 : fsync(fd);
    while (st != 0 && errno == EINTR);
    return st == 0;
}

static bool close_written(int fd) {
    bool closed = close(fd) == 0 && !io_refused();
    return closed || errno == EINTR;
}

// As much of the path as leaves its last name room for ".tmp-PID-N-old"; cut between characters.
static int stem_length(const char *path) {
    enum { SuffixMost = 48, StemMost = NAME_MAX - SuffixMost };
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    return (int)((size_t)(name - path) + str_cut(str_c(name), StemMost).len);
}

static bool name_temporary(const IoPath *path, unsigned nth, IoPath *out) {
    int n = snprintf(out->z, sizeof out->z, "%.*s.tmp-gan-%u", stem_length(path->z), path->z, nth);
    if (n >= 0 && (size_t)n < sizeof out->z)
        return true;
    errno = ENAMETOOLONG;
    return false;
}

static bool remove_left(const char *temporary) {
    enum { How = O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC };
    int fd = open(temporary, O_WRONLY | How); // NFS locks only what may be written
    if (fd < 0 && errno == EACCES)
        fd = open(temporary, O_RDONLY | How); // killed when it had the rights of what it replaces
    bool removed = fd >= 0 && temporary_is_left(fd, temporary) && unlink(temporary) == 0;
    if (fd >= 0)
        close(fd);
    return removed;
}

// Whether it is ours. In a file system whose clock is another, one that is new looks old: whoever
// comes before it is locked takes it for one that was left, and its name may be another's again.
static bool hold_temporary(const FileOut *f) {
    bool taken = flock(f->lock, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
    return !taken && io_is_at(f->lock, f->temporary.z);
}

// The first of its names that nobody writes at. What is left at it, or at those that follow, goes.
static int open_temporary(FileOut *f) {
    enum { LostMost = 8 }; // in a row; else this file system does not tell which file is which
    const char *name = f->temporary.z;
    unsigned nth = 0, lost = 0;
    list_temporary(f); // before it is there
    while (f->lock < 0) {
        if (!name_temporary(&f->path, nth, &f->temporary))
            return -1;
        f->lock = open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (f->lock < 0 && errno != EEXIST)
            return -1;
        if (f->lock < 0 && !remove_left(name))
            nth++;
        if (f->lock >= 0 && !hold_temporary(f) && lost++ < LostMost) {
            close(f->lock);
            f->lock = -1;
        }
    }
    IoPath next;
    while (name_temporary(&f->path, ++nth, &next) && remove_left(next.z))
        ;
    int fd = fcntl(f->lock, F_DUPFD_CLOEXEC, 0);
    if (fd < 0)
        unlink(name);
    return fd;
}

// Replaces a link by its target, which need not exist (realpath would require that).
static bool follow_links(IoPath *path) {
    enum { Most = 40 }; // as the system
    struct stat s;
    for (int i = 0; i < Most; i++) {
        char to[sizeof path->z];
        if (lstat(path->z, &s) != 0 || !S_ISLNK(s.st_mode))
            return true;
        ssize_t n = readlink(path->z, to, sizeof to - 1);
        if (n < 0)
            return false;
        to[n] = 0;
        const char *slash = strrchr(path->z, '/');
        size_t folder = to[0] != '/' && slash ? (size_t)(slash - path->z) + 1 : 0;
        if (folder + (size_t)n >= sizeof path->z) {
            errno = ENAMETOOLONG;
            return false;
        }
        memcpy(path->z + folder, to, (size_t)n + 1);
    }
    errno = ELOOP;
    return false;
}

// Before anything is written; that of its owner to write stays until all is. Who may not give a
// file to the old one's group gives that group nothing.
static void take_rights(FileOut *f, int fd, const struct stat *of) {
    bool given = fchown(fd, of->st_uid, of->st_gid) == 0 || fchown(fd, (uid_t)-1, of->st_gid) == 0;
    f->mode = of->st_mode & (given ? 0777 : 0707);
    if (fchmod(fd, f->mode | S_IWUSR) != 0)
        f->mode = 0;
}

// A link stays: its target is what is replaced. A device or a pipe is written to, because a rename
// would take its place (as root, that of /dev/null). A folder is refused before what is to be
// written is made.
static int open_out(FileOut *f) {
    struct stat s;
    f->temporary.z[0] = f->old.z[0] = 0;
    bool there = stat(f->path.z, &s) == 0;
    if (there && !S_ISREG(s.st_mode))
        return open(f->path.z, O_WRONLY | O_CLOEXEC);
    int fd = follow_links(&f->path) ? open_temporary(f) : -1;
    if (fd >= 0 && there)
        take_rights(f, fd, &s);
    return fd;
}

GanStatus file_out_open(Str path, FileOut **out) {
    *out = NULL;
    FileOut *f = mem_alloc(sizeof *f);
    if (!f)
        return io_fail_memory("write", path);
    f->at = f->lock = -1;
    f->fd = io_path(path, &f->path) && !io_refused() ? open_out(f) : -1;
    if (f->fd < 0) {
        GanStatus st = io_fail("create", path);
        release(f);
        return st;
    }
    *out = f;
    return GAN_OK;
}

GanStatus file_out_put(FileOut *f, const void *data, size_t n) {
    bool ok = true;
    if (n > OutBuffer - f->n) {
        ok = io_write(f->fd, f->buffer, f->n);
        f->n = 0;
    }
    if (ok && n >= OutBuffer) {
        ok = io_write(f->fd, data, n);
        if (ok)                                                        // else errno says why
            (void)sync_file_range(f->fd, 0, 0, SYNC_FILE_RANGE_WRITE); // begins; fsync waits less
    } else if (ok && n > 0) {
        memcpy(f->buffer + f->n, data, n);
        f->n += n;
    }
    return ok ? GAN_OK : io_fail("write", str_c(f->path.z));
}

// The rename itself is on disk only after its folder is. Some file systems cannot sync a folder and
// say EINVAL.
static bool sync_folder_of(const char *path) {
    int fd = io_open(path_dir(str_c(path)), O_RDONLY | O_DIRECTORY);
    if (fd < 0)
        return false;
    bool ok = sync_all(fd) || errno == EINVAL;
    int error = errno;
    close(fd);
    errno = error;
    return ok;
}

// All of it on disk, closed either way. NULL, or what failed; errno.
static const char *finish(FileOut *f) {
    const char *failed = NULL;
    if (!io_write(f->fd, f->buffer, f->n))
        failed = "write";
    else if (f->mode && fchmod(f->fd, f->mode) != 0)
        failed = "set the rights of";
    else if (f->temporary.z[0] && !sync_all(f->fd))
        failed = "sync";
    int error = errno;
    bool closed = close_written(f->fd);
    if (!closed && !failed)
        failed = "close", error = errno;
    errno = error;
    return failed;
}

static bool name_old(const IoPath *path, IoPath *out) {
    static _Atomic unsigned nth;
    int n = snprintf(out->z, sizeof out->z, "%.*s.tmp-%ld-%u-old", stem_length(path->z), path->z,
                     (long)getpid(), atomic_fetch_add(&nth, 1));
    if (n >= 0 && (size_t)n < sizeof out->z)
        return true;
    errno = ENAMETOOLONG;
    return false;
}

// Gives what is in its place a second name; where the file system has none, that is its only one. A
// name that is taken is of another process of this number, on another machine or killed long ago:
// what it names may be all that is left of a file. f->old is never such a name: a signal restores
// it.
static bool keep_old(FileOut *f) {
    IoPath old;
    struct stat s;
    if (lstat(f->path.z, &s) != 0 || !S_ISREG(s.st_mode))
        return true;
    if (io_refused())
        return false;
    do {
        if (!name_old(&f->path, &old))
            return false;
    } while (lstat(old.z, &s) == 0);
    f->old = old;
    if (link(f->path.z, old.z) == 0)
        return true;
    if (errno != EEXIST && rename(f->path.z, old.z) == 0)
        return true;
    f->old.z[0] = 0;
    return false;
}

static const char *put_in_place(FileOut *f, bool keep) {
    if (!f->temporary.z[0])
        return NULL;
    if (keep && !keep_old(f))
        return "keep";
    return io_refused() || rename(f->temporary.z, f->path.z) != 0 ? "put in place" : NULL;
}

GanStatus file_out_commit_all(FileOut *const *f, size_t n) {
    GanStatus st = GAN_OK;
    const char *failed;
    size_t placed = 0;
    for (size_t i = 0; i < n; i++)
        if ((failed = finish(f[i])) && st == GAN_OK)
            st = io_fail(failed, str_c(f[i]->path.z));
    for (; st == GAN_OK && placed < n; placed += st == GAN_OK)
        if ((failed = put_in_place(f[placed], n > 1)))
            st = io_fail(failed, str_c(f[placed]->path.z));
    for (size_t i = 0; st == GAN_OK && i < n; i++)
        if (f[i]->temporary.z[0] && !sync_folder_of(f[i]->path.z))
            st = io_fail("sync the folder of", str_c(f[i]->path.z));
    for (size_t i = 0; i < n; i++) {
        bool back = st != GAN_OK && n > 1, is_new = f[i]->temporary.z[0] && !f[i]->old.z[0];
        if (f[i]->temporary.z[0] && i >= placed)
            unlink(f[i]->temporary.z);
        else if (back && is_new)
            unlink(f[i]->path.z);
        if (back)
            restore(f[i]);
        else if (f[i]->old.z[0])
            unlink(f[i]->old.z);
        release(f[i]);
    }
    return st;
}

GanStatus file_out_commit(FileOut *f) {
    return file_out_commit_all(&f, 1);
}

void file_out_abandon(FileOut *f) {
    if (!f)
        return;
    close(f->fd);
    if (f->temporary.z[0])
        unlink(f->temporary.z);
    release(f);
}

GanStatus file_write_atomic(Str path, const void *data, size_t n) {
    FileOut *f;
    TRY(file_out_open(path, &f));
    GanStatus st = file_out_put(f, data, n);
    if (st == GAN_OK)
        return file_out_commit(f);
    file_out_abandon(f);
    return st;
}

// One call, so that what several writers append does not mix.
static GanStatus append(Str path, const struct iovec *part, int parts, size_t n) {
    int fd = io_refused() ? -1 : io_open(path, O_WRONLY | O_CREAT | O_APPEND);
    if (fd < 0)
        return io_fail("open", path);
    ssize_t done;
    do
        done = io_refused() ? -1 : writev(fd, part, parts);
    while (done < 0 && errno == EINTR);
    if (done >= 0 && (size_t)done != n) { // a part of a line would spoil the next one
        errno = ftruncate(fd, lseek(fd, 0, SEEK_CUR) - done) == 0 ? ENOSPC : errno;
        done = -1;
    }
    GanStatus st = done < 0 ? io_fail("write", path) : GAN_OK;
    bool closed = close_written(fd); // a network's file system may only say so now
    return closed || st != GAN_OK ? st : io_fail("close", path);
}

// iovec predates const; writev does not write there.
static struct iovec part_of(Str s) {
    return (struct iovec){(char *)(uintptr_t)s.ptr, s.len};
}

GanStatus file_append(Str path, Str bytes) {
    const struct iovec part = part_of(bytes);
    return append(path, &part, 1, bytes.len);
}

GanStatus file_append_line(Str path, Str line) {
    const struct iovec part[2] = {part_of(line), part_of(STR("\n"))};
    return append(path, part, 2, line.len + 1);
}

GanStatus file_sync(Str path) {
    int fd = io_refused() ? -1 : io_open(path, O_WRONLY);
    bool ok = fd >= 0 && (sync_all(fd) || errno == EINVAL); // a device cannot be
    GanStatus st = ok ? GAN_OK : io_fail("sync", path);
    if (fd >= 0)
        close(fd);
    return st;
}

GanStatus file_remove(Str path) {
    IoPath p;
    if (!io_path(path, &p) || io_refused() || unlink(p.z) != 0) {
        if (errno != ENOENT)
            return io_fail("remove", path);
    }
    return GAN_OK;
}
