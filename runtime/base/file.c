// file.c - reading files and mapping them; what all that works on files has in common (io.h).
//
// In: a path. Out: bytes. Every failure reports the path and the system's reason.
#define _GNU_SOURCE
#include "io.h"
#include "bytes.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

// --- io.h ----------------------------------------------------------------------------------------

typedef struct IoCalls {
    _Atomic int64_t n;     // so far
    _Atomic int64_t fails; // the one that fails; 0: none
    _Atomic int error;     // and why
} IoCalls;
static IoCalls writes, reads;

static bool refused(IoCalls *calls) {
    bool now = atomic_fetch_add(&calls->n, 1) + 1 == atomic_load(&calls->fails);
    if (now)
        errno = atomic_load(&calls->error);
    return now;
}

static void fail_at(IoCalls *calls, int64_t nth, int error) {
    atomic_store(&calls->error, error);
    atomic_store(&calls->fails, nth > 0 ? atomic_load(&calls->n) + nth : 0);
}

bool io_refused(void) {
    return refused(&writes);
}

bool io_read_refused(void) {
    return refused(&reads);
}

void file_fail_at(int64_t nth) {
    fail_at(&writes, nth, ENOSPC);
}

void file_interrupt_at(int64_t nth) {
    fail_at(&writes, nth, EINTR);
}

void file_fail_read_at(int64_t nth) {
    fail_at(&reads, nth, EIO);
}

bool io_path(Str path, IoPath *out) {
    bool fits = path.len > 0 && path.len < sizeof out->z && str_find(path, 0) == path.len;
    if (!fits) {
        errno = path.len >= sizeof out->z ? ENAMETOOLONG : ENOENT;
        return false;
    }
    memcpy(out->z, path.ptr, path.len);
    out->z[path.len] = 0;
    return true;
}

int io_open(Str path, int flags) {
    IoPath p;
    return io_path(path, &p) ? open(p.z, flags | O_CLOEXEC, 0666) : -1;
}

bool io_is_at(int fd, const char *path) {
    struct stat open, there;
    return fstat(fd, &open) == 0 && lstat(path, &there) == 0 && open.st_ino == there.st_ino &&
           open.st_dev == there.st_dev;
}

GanStatus io_fail(const char *what, Str path) {
    int error = errno;
    return fail(GAN_ERR_IO, "cannot %s %.*s: %s", what, SARG(path), strerror(error));
}

GanStatus io_fail_memory(const char *what, Str path) {
    return fail(GAN_ERR_MEMORY, "cannot %s %.*s: out of memory", what, SARG(path));
}

// --- reading -------------------------------------------------------------------------------------

GanStatus file_read(Arena *a, Str path, Str *out) {
    int fd = io_read_refused() ? -1 : io_open(path, O_RDONLY);
    if (fd < 0)
        return io_fail("open", path);
    Bytes b = {0};
    struct stat info;
    GanStatus st = GAN_OK;
    if (io_read_refused() || fstat(fd, &info) != 0)
        st = io_fail("look at", path);
    else if (!bytes_reserve(&b, (size_t)info.st_size + 1))
        st = io_fail_memory("read", path);
    else
        st = bytes_read(&b, fd, path);
    close(fd);
    if (st == GAN_OK && bytes_move(&b, a, out) != GAN_OK)
        st = io_fail_memory("read", path);
    mem_free(b.at);
    return st;
}

// Maps that are open, for a signal handler to name a file by an address: no lock, no memory. One
// beyond what there is room for has no name.
enum { MapsNamed = 64 };
static struct {
    _Atomic(const uint8_t *) ptr; // NULL: free; &being_filled: not to be looked at
    size_t n;
    IoPath path;
} named[MapsNamed];
static const uint8_t being_filled;

static void name_map(const FileMap *m, Str path) {
    for (int i = 0; i < MapsNamed; i++) {
        const uint8_t *none = NULL;
        if (!atomic_compare_exchange_strong(&named[i].ptr, &none, &being_filled))
            continue;
        named[i].n = m->n;
        io_path(path, &named[i].path);
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
    // A pipe is refused, not waited for.
    int fd = io_read_refused() ? -1 : io_open(path, O_RDONLY | O_NONBLOCK);
    if (fd < 0)
        return io_fail("open", path);
    struct stat info;
    GanStatus st = GAN_OK;
    if (io_read_refused() || fstat(fd, &info) != 0) {
        st = io_fail("look at", path);
    } else if (!S_ISREG(info.st_mode)) {
        st = fail(GAN_ERR_IO, "cannot map %.*s: not a regular file", SARG(path));
    } else if (info.st_size > 0) { // the system maps no empty range: an empty file is {NULL, 0}
        void *at = io_read_refused()
                       ? MAP_FAILED
                       : mmap(NULL, (size_t)info.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (at == MAP_FAILED)
            st = io_fail("map", path);
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
    IoPath p;
    return io_path(path, &p) && (access(p.z, F_OK) == 0 ||
                                 (errno != ENOENT && errno != ENOTDIR && errno != ENAMETOOLONG));
}

bool file_is_dir(Str path) {
    IoPath p;
    struct stat info;
    return io_path(path, &p) && stat(p.z, &info) == 0 && S_ISDIR(info.st_mode);
}

bool file_same(Str a, Str b) {
    IoPath p, q;
    struct stat x, y;
    return io_path(a, &p) && io_path(b, &q) && stat(p.z, &x) == 0 && stat(q.z, &y) == 0 &&
           x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

Str file_resolved(Arena *a, Str path) {
    IoPath p, real;
    return io_path(path, &p) && realpath(p.z, real.z) ? str_copy(a, str_c(real.z)) : (Str){0};
}
