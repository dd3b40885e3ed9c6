// file.c - files and folders. A file is replaced whole or not at all: the new content is written
// to a temporary file in the same folder, synced, and renamed. Every failure removes the temporary
// and reports the path and the system's reason.
//
// Calls that write go through refused(), through which tests inject failures; cleaning up after a
// failure does not.
#define _GNU_SOURCE
#include "base.h"
#include "bytes.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

static _Atomic int64_t writes;    // write-side calls so far
static _Atomic int64_t refuse_at; // the one that fails; 0: none

static bool refused(void) {
    bool now = atomic_fetch_add(&writes, 1) + 1 == atomic_load(&refuse_at);
    if (now)
        errno = ENOSPC;
    return now;
}

void file_fail_at(int64_t nth) {
    atomic_store(&refuse_at, nth > 0 ? atomic_load(&writes) + nth : 0);
}

// A path as the system wants it.
typedef struct Path {
    char z[PATH_MAX];
} Path;

static bool path_z(Str path, Path *out) {
    bool fits = path.len > 0 && path.len < sizeof out->z && str_find(path, 0) == path.len;
    if (!fits) {
        errno = path.len >= sizeof out->z ? ENAMETOOLONG : ENOENT;
        return false;
    }
    memcpy(out->z, path.ptr, path.len);
    out->z[path.len] = 0;
    return true;
}

static GanStatus fail_io(const char *what, Str path) {
    int error = errno;
    return fail(GAN_ERR_IO, "cannot %s %.*s: %s", what, SARG(path), strerror(error));
}

static GanStatus fail_memory(const char *what, Str path) {
    return fail(GAN_ERR_MEMORY, "cannot %s %.*s: out of memory", what, SARG(path));
}

static int open_path(Str path, int flags) {
    Path p;
    if (!path_z(path, &p))
        return -1;
    return open(p.z, flags | O_CLOEXEC, 0666);
}

// --- reading -------------------------------------------------------------------------------------

GanStatus file_read(Arena *a, Str path, Str *out) {
    int fd = open_path(path, O_RDONLY);
    if (fd < 0)
        return fail_io("open", path);
    Bytes b = {0};
    struct stat info;
    GanStatus st = GAN_OK;
    if (fstat(fd, &info) != 0)
        st = fail_io("look at", path);
    else if (!bytes_reserve(&b, (size_t)info.st_size + 1))
        st = fail_memory("read", path);
    else
        st = bytes_read(&b, fd, path);
    close(fd);
    if (st == GAN_OK && bytes_move(&b, a, out) != GAN_OK)
        st = fail_memory("read", path);
    mem_free(b.at);
    return st;
}

// Maps that are open, for a signal handler to name a file by an address: no lock, no memory. One
// beyond what there is room for has no name.
enum { MapsNamed = 64 };
static struct {
    _Atomic(const uint8_t *) ptr; // NULL: free; &being_filled: not to be looked at
    size_t n;
    Path path;
} named[MapsNamed];
static const uint8_t being_filled;

static void name_map(const FileMap *m, Str path) {
    for (int i = 0; i < MapsNamed; i++) {
        const uint8_t *none = NULL;
        if (!atomic_compare_exchange_strong(&named[i].ptr, &none, &being_filled))
            continue;
        named[i].n = m->n;
        path_z(path, &named[i].path);
        atomic_store(&named[i].ptr, m->ptr);
        return;
    }
}

static void forget_map(const FileMap *m) {
    for (int i = 0; i < MapsNamed; i++)
        if (atomic_load(&named[i].ptr) == m->ptr) {
            atomic_store(&named[i].ptr, NULL);
            return;
        }
}

const char *file_mapped_at(const void *address) {
    uintptr_t at = (uintptr_t)address;
    for (int i = 0; i < MapsNamed; i++) {
        const uint8_t *ptr = atomic_load(&named[i].ptr);
        if (ptr && ptr != &being_filled && at - (uintptr_t)ptr < named[i].n)
            return named[i].path.z;
    }
    return NULL;
}

GanStatus file_map(Str path, FileMap *out) {
    *out = (FileMap){0};
    int fd = open_path(path, O_RDONLY | O_NONBLOCK); // a pipe is refused, not waited for
    if (fd < 0)
        return fail_io("open", path);
    struct stat info;
    GanStatus st = GAN_OK;
    if (fstat(fd, &info) != 0) {
        st = fail_io("look at", path);
    } else if (!S_ISREG(info.st_mode)) {
        st = fail(GAN_ERR_IO, "cannot map %.*s: not a regular file", SARG(path));
    } else if (info.st_size > 0) { // the system maps no empty range: an empty file is {NULL, 0}
        void *at = mmap(NULL, (size_t)info.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (at == MAP_FAILED)
            st = fail_io("map", path);
        else
            *out = (FileMap){at, (size_t)info.st_size};
    }
    close(fd);
    if (out->ptr)
        name_map(out, path);
    return st;
}

void file_unmap(FileMap *m) {
    if (m->ptr) {
        forget_map(m);
        munmap((void *)(uintptr_t)m->ptr, m->n);
    }
    *m = (FileMap){0};
}

bool file_exists(Str path) {
    Path p;
    return path_z(path, &p) && access(p.z, F_OK) == 0;
}

bool file_is_dir(Str path) {
    Path p;
    struct stat info;
    return path_z(path, &p) && stat(p.z, &info) == 0 && S_ISDIR(info.st_mode);
}

// --- writing -------------------------------------------------------------------------------------

// Linux keeps what one call wrote in pages as large as the call. Beyond 1 MiB it must first find
// such pages, and clear them: 80 MB in calls of 8 MiB took ten times as long as in these
// (docs/tuning.md).
enum { OutBuffer = 1 << 16, WriteMost = 1 << 19 };

struct FileOut {
    int fd;
    Path path, aside; // the file's place; where it is written first, empty: in its place
    int noted;        // where it stands in `beside`, or -1
    size_t n;         // bytes waiting in `buffer`
    char buffer[OutBuffer];
};

// What is being written aside, for a process that is ended: no lock, no memory. One beyond what
// there is room for stays behind.
enum { AsidesNoted = 64 };
static _Atomic(FileOut *) beside[AsidesNoted];

static void note_aside(FileOut *f) {
    for (int i = 0; f->noted < 0 && i < AsidesNoted; i++) {
        FileOut *none = NULL;
        if (atomic_compare_exchange_strong(&beside[i], &none, f))
            f->noted = i;
    }
}

// Who ends the process may be looking at it: then there is nothing to do any more but wait.
static void forget_aside(FileOut *f) {
    FileOut *here = f;
    if (f->noted >= 0 && !atomic_compare_exchange_strong(&beside[f->noted], &here, NULL))
        for (;;)
            pause();
    f->noted = -1;
}

void file_drop_asides(void) {
    for (int i = 0; i < AsidesNoted; i++) {
        const FileOut *f = atomic_exchange(&beside[i], NULL);
        if (f)
            unlink(f->aside.z);
    }
}

static bool write_all(int fd, const char *p, size_t n) {
    while (n > 0) {
        ssize_t done = refused() ? -1 : write(fd, p, n < WriteMost ? n : WriteMost);
        if (done < 0 && errno == EINTR)
            continue;
        if (done < 0)
            return false;
        p += done;
        n -= (size_t)done;
    }
    return true;
}

// A name nobody writes at: not another thread, nor a process of the same number that died here or
// that lives in another container.
static int open_aside(FileOut *f) {
    static _Atomic unsigned nth;
    int fd = -1;
    do {
        int n = snprintf(f->aside.z, sizeof f->aside.z, "%s.tmp-%ld-%u", f->path.z, (long)getpid(),
                         atomic_fetch_add(&nth, 1));
        if (n < 0 || (size_t)n >= sizeof f->aside.z) {
            errno = ENAMETOOLONG;
            return -1;
        }
        note_aside(f); // before it is there
        fd = open(f->aside.z, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (fd < 0)
            forget_aside(f);
    } while (fd < 0 && errno == EEXIST);
    return fd;
}

// Replaces a link by its target, which need not exist (realpath would require that).
static bool follow_links(Path *path) {
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

// A link stays: its target is what is replaced. A device or a pipe is written to, because a rename
// would take its place (as root, that of /dev/null).
static int open_out(FileOut *f) {
    struct stat s;
    f->aside.z[0] = 0;
    if (stat(f->path.z, &s) == 0 && !S_ISREG(s.st_mode) && !S_ISDIR(s.st_mode))
        return open(f->path.z, O_WRONLY | O_CLOEXEC);
    return follow_links(&f->path) ? open_aside(f) : -1;
}

GanStatus file_out_open(Str path, FileOut **out) {
    *out = NULL;
    FileOut *f = mem_alloc(sizeof *f);
    if (!f)
        return fail_memory("write", path);
    f->noted = -1;
    f->fd = path_z(path, &f->path) && !refused() ? open_out(f) : -1;
    if (f->fd < 0) {
        GanStatus st = fail_io("create", path);
        mem_free(f);
        return st;
    }
    *out = f;
    return GAN_OK;
}

GanStatus file_out_put(FileOut *f, const void *data, size_t n) {
    bool ok = true;
    if (n > OutBuffer - f->n) {
        ok = write_all(f->fd, f->buffer, f->n);
        f->n = 0;
    }
    if (ok && n >= OutBuffer) {
        ok = write_all(f->fd, data, n);
        (void)sync_file_range(f->fd, 0, 0, SYNC_FILE_RANGE_WRITE); // begins; fsync waits less
    } else if (ok && n > 0) {
        memcpy(f->buffer + f->n, data, n);
        f->n += n;
    }
    return ok ? GAN_OK : fail_io("write", str_c(f->path.z));
}

// The rename itself is on disk only after its folder is. Some file systems cannot sync a folder and
// say EINVAL.
static bool sync_folder_of(const char *path) {
    int fd = open_path(path_dir(str_c(path)), O_RDONLY | O_DIRECTORY);
    if (fd < 0)
        return false;
    bool ok = !refused() && (fsync(fd) == 0 || errno == EINVAL);
    int error = errno;
    close(fd);
    errno = error;
    return ok;
}

GanStatus file_out_commit(FileOut *f) {
    const char *failed = NULL;
    bool aside = f->aside.z[0];
    if (!write_all(f->fd, f->buffer, f->n))
        failed = "write";
    else if (aside && (refused() || fsync(f->fd) != 0))
        failed = "sync";
    int error = errno;
    if (close(f->fd) != 0 && !failed)
        failed = "close", error = errno;
    if (!failed && aside && (refused() || rename(f->aside.z, f->path.z) != 0))
        failed = "put in place", error = errno;
    if (failed && aside)
        unlink(f->aside.z);
    forget_aside(f);
    errno = error;
    GanStatus st = failed ? fail_io(failed, str_c(f->path.z)) : GAN_OK;
    if (!failed && aside && !sync_folder_of(f->path.z))
        st = fail_io("sync the folder of", str_c(f->path.z));
    mem_free(f);
    return st;
}

void file_out_abandon(FileOut *f) {
    if (!f)
        return;
    close(f->fd);
    if (f->aside.z[0])
        unlink(f->aside.z);
    forget_aside(f);
    mem_free(f);
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
    int fd = refused() ? -1 : open_path(path, O_WRONLY | O_CREAT | O_APPEND);
    if (fd < 0)
        return fail_io("open", path);
    ssize_t done;
    do
        done = refused() ? -1 : writev(fd, part, parts);
    while (done < 0 && errno == EINTR);
    if (done >= 0 && (size_t)done != n) { // a part of a line would spoil the next one
        errno = ftruncate(fd, lseek(fd, 0, SEEK_CUR) - done) == 0 ? ENOSPC : errno;
        done = -1;
    }
    GanStatus st = done < 0 ? fail_io("write", path) : GAN_OK;
    close(fd);
    return st;
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
    int fd = refused() ? -1 : open_path(path, O_WRONLY);
    bool ok = fd >= 0 && (fsync(fd) == 0 || errno == EINVAL); // a device cannot be
    GanStatus st = ok ? GAN_OK : fail_io("sync", path);
    if (fd >= 0)
        close(fd);
    return st;
}

GanStatus file_remove(Str path) {
    Path p;
    if (!path_z(path, &p) || refused() || unlink(p.z) != 0) {
        if (errno != ENOENT)
            return fail_io("remove", path);
    }
    return GAN_OK;
}

// --- folders -------------------------------------------------------------------------------------

GanStatus dir_make(Str path) {
    Path p;
    if (!path_z(path, &p))
        return fail_io("create folder", path);
    for (size_t i = 1; i <= path.len; i++) {
        if (i < path.len && p.z[i] != '/')
            continue;
        p.z[i] = 0;
        // Only what is missing is made: a parent that is there may refuse mkdir for another reason
        // than EEXIST.
        if (!file_is_dir(str_c(p.z)) && (refused() || mkdir(p.z, 0777) != 0) && errno != EEXIST)
            return fail_io("create folder", str_c(p.z));
        if (i < path.len)
            p.z[i] = '/';
    }
    if (file_is_dir(path))
        return GAN_OK;
    errno = ENOTDIR;
    return fail_io("create folder", path);
}

GanStatus dir_make_new(Str path, bool *created) {
    Path p;
    *created = path_z(path, &p) && !refused() && mkdir(p.z, 0777) == 0;
    return *created || errno == EEXIST ? GAN_OK : fail_io("create folder", path);
}

void dir_remove_empty(Str path) {
    Path p;
    if (path_z(path, &p))
        rmdir(p.z);
}

// All names in one block, each followed by a 0 byte.
static GanStatus read_names(Str path, Bytes *names) {
    Path p;
    DIR *dir = path_z(path, &p) ? opendir(p.z) : NULL;
    if (!dir)
        return fail_io("list", path);
    GanStatus st = GAN_OK;
    for (;;) {
        errno = 0;
        const struct dirent *entry = readdir(dir);
        if (!entry) {
            if (errno)
                st = fail_io("list", path);
            break;
        }
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        if (!bytes_put(names, entry->d_name, strlen(entry->d_name) + 1)) {
            st = fail_memory("list", path);
            break;
        }
    }
    closedir(dir);
    return st;
}

static void sort(StrVec *names) {
    if (names->n)
        qsort(names->at, names->n, sizeof *names->at, by_str);
}

GanStatus dir_list(Arena *a, Str path, StrVec *out) {
    *out = (StrVec){0};
    Bytes names = {0};
    GanStatus st = read_names(path, &names);
    if (st != GAN_OK) {
        mem_free(names.at);
        return st;
    }
    Str all;
    TRY(bytes_move(&names, a, &all));
    for (Str name; all.len; all = str_sub(all, name.len + 1, all.len)) {
        name = str_c(all.ptr);
        vec_push(a, out, name);
    }
    sort(out);
    return GAN_OK;
}

typedef struct Folder {
    Str path;        // below the first, whose own is ""
    uint32_t parent; // its place in the list
    dev_t device;
    ino_t inode;
} Folder;
typedef VEC(Folder) FolderVec;

// Is this folder one of those on the way to number i?
static bool is_above(const FolderVec *folders, uint32_t i, const struct stat *info) {
    for (;; i = folders->at[i].parent) {
        if (folders->at[i].device == info->st_dev && folders->at[i].inode == info->st_ino)
            return true;
        if (i == 0)
            return false;
    }
}

// What a name leads to; false: nothing there, or a link to a folder that is not to be entered.
// Whatever vanishes while we walk is passed over.
static bool look_at(const char *full, bool links, struct stat *info) {
    if (lstat(full, info) != 0)
        return false;
    bool link = S_ISLNK(info->st_mode);
    return !link || (stat(full, info) == 0 && (links || !S_ISDIR(info->st_mode)));
}

GanStatus dir_walk(Arena *a, Str path, bool links, StrVec *out) {
    *out = (StrVec){0};
    FolderVec folders = {0};
    StrVec names;
    struct stat info;
    Arena scratch = *a;
    if (stat(str_z(&scratch, path), &info) != 0)
        return fail_io("list", path);
    vec_push(a, &folders, ((Folder){.device = info.st_dev, .inode = info.st_ino}));
    for (uint32_t i = 0; i < folders.n; i++) {
        Str folder = folders.at[i].path;
        TRY(dir_list(a, path_join(a, path, folder), &names));
        for (uint32_t k = 0; k < names.n; k++) {
            Str name = path_join(a, folder, names.at[k]);
            scratch = *a;
            const char *full = str_z(&scratch, path_join(&scratch, path, name));
            if (!look_at(full, links, &info))
                continue;
            if (S_ISREG(info.st_mode))
                vec_push(a, out, name);
            else if (S_ISDIR(info.st_mode) && !is_above(&folders, i, &info))
                vec_push(a, &folders, ((Folder){name, i, info.st_dev, info.st_ino}));
        }
    }
    sort(out);
    return GAN_OK;
}

// --- locks ---------------------------------------------------------------------------------------

struct FileLock {
    int fd;
};

enum { OwnerMost = 32 + HOST_NAME_MAX };

// The owner's number and host, two lines that it wrote into the file for this message. A folder may
// be shared by many hosts.
static GanStatus fail_taken(int fd, Str path) {
    char text[OwnerMost];
    ssize_t n = read(fd, text, sizeof text);
    Str owner = {text, n > 0 ? (size_t)n : 0}, pid = str_sub(owner, 0, str_find(owner, '\n')),
        host = str_sub(owner, pid.len + 1, owner.len);
    host.len = str_find(host, '\n');
    if (pid.len == 0)
        pid = STR("unknown");
    return fail(GAN_ERR_INPUT, "%.*s is in use by process %.*s%s%.*s", SARG(path), SARG(pid),
                host.len ? " on " : "", SARG(host));
}

// A killed process holds its locks until the system has taken its memory apart, which takes a
// moment: a lock counts as taken when it stays so for a second.
static int flock_patiently(int fd) {
    enum { TRIES = 20 };
    const struct timespec pause = {.tv_nsec = 50 * 1000 * 1000};
    for (int i = 0; i < TRIES; i++) {
        if (flock(fd, LOCK_EX | LOCK_NB) == 0)
            return 0;
        if (errno != EWOULDBLOCK)
            return -1;
        nanosleep(&pause, NULL);
    }
    return flock(fd, LOCK_EX | LOCK_NB);
}

// Some file systems of clusters have no locks: it is better to work there without.
static bool knows_no_locks(int error) {
    return error == ENOSYS || error == ENOLCK || error == EOPNOTSUPP || error == EINVAL;
}

static GanStatus lock_and_sign(int fd, Str path) {
    if (flock_patiently(fd) != 0 && !knows_no_locks(errno))
        return errno == EWOULDBLOCK ? fail_taken(fd, path) : fail_io("lock", path);
    char text[OwnerMost], host[HOST_NAME_MAX + 1] = "";
    gethostname(host, sizeof host - 1); // "" where it has none
    int n = snprintf(text, sizeof text, "%ld\n%s\n", (long)getpid(), host);
    bool ok = !refused() && ftruncate(fd, 0) == 0 && write_all(fd, text, (size_t)n);
    return ok ? GAN_OK : fail_io("write", path);
}

// The system drops the lock with the process. The file stays: were it removed, one process could
// lock the removed file and another its successor.
GanStatus file_lock(Str path, FileLock **out) {
    *out = NULL;
    FileLock *l = mem_alloc(sizeof *l);
    if (!l)
        return fail_memory("lock", path);
    l->fd = refused() ? -1 : open_path(path, O_RDWR | O_CREAT);
    GanStatus st = l->fd < 0 ? fail_io("open", path) : lock_and_sign(l->fd, path);
    if (st == GAN_OK)
        *out = l;
    else
        file_unlock(l);
    return st;
}

void file_unlock(FileLock *l) {
    if (!l)
        return;
    if (l->fd >= 0)
        close(l->fd);
    mem_free(l);
}
