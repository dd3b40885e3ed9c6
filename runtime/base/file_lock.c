// file_lock.c - locks between processes: a file that one of them holds, with its number and host
// written in it for the message that another gets.
#define _GNU_SOURCE
#include "io.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

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
        return errno == EWOULDBLOCK ? fail_taken(fd, path) : io_fail("lock", path);
    char text[OwnerMost], host[HOST_NAME_MAX + 1] = "";
    gethostname(host, sizeof host - 1); // "" where it has none
    int n = snprintf(text, sizeof text, "%ld\n%s\n", (long)getpid(), host);
    bool ok = !io_refused() && ftruncate(fd, 0) == 0 && io_write(fd, text, (size_t)n);
    return ok ? GAN_OK : io_fail("write", path);
}

// The system drops the lock with the process. The file stays: were it removed, one process could
// lock the removed file and another its successor.
GanStatus file_lock(Str path, FileLock **out) {
    *out = NULL;
    FileLock *l = mem_alloc(sizeof *l);
    if (!l)
        return io_fail_memory("lock", path);
    l->fd = io_refused() ? -1 : io_open(path, O_RDWR | O_CREAT);
    GanStatus st = l->fd < 0 ? io_fail("open", path) : lock_and_sign(l->fd, path);
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
