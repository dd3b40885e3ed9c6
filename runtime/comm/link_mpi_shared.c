// link_mpi_shared.c - memory that the ranks of one machine share: who sleeps until a message comes.
//
// MPI has no way to sleep until a message comes. Here whoever sends one counts it in the inbox of
// its receiver, a futex, and wakes the thread that sleeps there. Only MPI knows what has come: a
// thread that wakes looks, and one that is not woken looks after a while.
#define _GNU_SOURCE
#include "link_mpi_internal.h"

#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static_assert(sizeof(atomic_uint) == 4, "a futex");

static size_t shared_bytes(const MpiLink *l) {
    return (size_t)l->link.size * sizeof(Inbox);
}

int shared_create(const MpiLink *l) {
    int file = memfd_create("gan-ranks", MFD_CLOEXEC);
    if (file >= 0 && ftruncate(file, (off_t)shared_bytes(l)) != 0) {
        close(file);
        return -1;
    }
    return file;
}

bool shared_map(MpiLink *l, int64_t pid, int file) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%lld/fd/%d", (long long)pid, file);
    int own = open(path, O_RDWR | O_CLOEXEC);
    if (own < 0)
        return false;
    void *at = mmap(NULL, shared_bytes(l), PROT_READ | PROT_WRITE, MAP_SHARED, own, 0);
    close(own);
    l->shared = at == MAP_FAILED ? NULL : at;
    return l->shared;
}

void shared_free(MpiLink *l) {
    if (l->shared)
        munmap(l->shared, shared_bytes(l));
    l->shared = NULL;
}

// A thread says that it sleeps, then the system compares `sent`; the sender counts, then asks who
// sleeps: one of the two sees the other.
void shared_notify(MpiLink *l, int to, uint32_t queue) {
    if (!l->shared || to < 0)
        return;
    Inbox *in = &l->shared->inbox[to];
    atomic_fetch_add(&in->sent[queue], 1);
    if (atomic_load(&in->asleep[queue]))
        (void)syscall(SYS_futex, &in->sent[queue], FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

unsigned shared_sent(const MpiLink *l, uint32_t queue) {
    return l->shared ? atomic_load(&l->shared->inbox[l->link.rank].sent[queue]) : 0;
}

void shared_sleep(MpiLink *l, uint32_t queue, unsigned sent, double seconds) {
    Inbox *in = &l->shared->inbox[l->link.rank];
    struct timespec most = {.tv_nsec = (long)(seconds * 1e9)};
    atomic_store(&in->asleep[queue], true);
    (void)syscall(SYS_futex, &in->sent[queue], FUTEX_WAIT, sent, &most, NULL, 0);
    atomic_store(&in->asleep[queue], false);
}
