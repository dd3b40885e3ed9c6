// link_mpi_roll.c - roll calls: a rank whose deadline is near asks all others where they are, to
// name the stragglers.
//
// They have an MPI communicator of their own. Ranks that wait or idle answer with their sequence
// numbers; those that do not answer are named. While the progress thread is stuck in a transfer,
// the caller's thread does this (MPI_THREAD_MULTIPLE).
#define _GNU_SOURCE
#include "mpi_link.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

enum { ASK = 1, ANSWER = 2, NAMED = 4 };

// Under the lock: one that MPI is done with; NULL: no memory.
static RollMessage *message_get(MpiLink *l) {
    RollMessage *m = l->rolls;
    for (int done = 0; m; m = m->next)
        if (MPI_Test(&m->sent, &done, MPI_STATUS_IGNORE) == MPI_SUCCESS && done)
            return m;
    m = l->host->alloc(sizeof *m);
    if (m) {
        m->next = l->rolls;
        l->rolls = m;
    }
    return m;
}

// One that cannot be sent is missed by whoever waits for it, who then names this rank.
static void say_aside(MpiLink *l, int to, int tag, const Progress *w) {
    pthread_mutex_lock(&l->lock);
    RollMessage *m = message_get(l);
    if (m) {
        m->what = *w;
        m->sent = MPI_REQUEST_NULL;
        MPI_Isend(&m->what, sizeof m->what, MPI_BYTE, to, tag, l->aside, &m->sent);
    }
    pthread_mutex_unlock(&l->lock);
}

bool roll_free(MpiLink *l) {
    for (RollMessage *m = l->rolls, *next; m; m = next) {
        int done = 0;
        if (MPI_Test(&m->sent, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS || !done)
            return false;
        next = l->rolls = m->next;
        l->host->free(m);
    }
    return true;
}

static Progress here(MpiLink *l) {
    Progress w = {.heard = 1};
    for (int i = 0; i < LANES; i++) {
        w.turn[i] = atomic_load(&l->lane[i].turn);
        w.step[i] = atomic_load(&l->lane[i].step);
    }
    return w;
}

void roll_listen(MpiLink *l) {
    for (;;) {
        int found = 0;
        MPI_Status from;
        MPI_Message message; // matched: two threads may listen at once
        Progress w = here(l);
        if (MPI_Improbe(MPI_ANY_SOURCE, MPI_ANY_TAG, l->aside, &found, &message, &from) !=
                MPI_SUCCESS ||
            !found)
            return;
        if (from.MPI_TAG == ASK)
            say_aside(l, from.MPI_SOURCE, ANSWER, &w);
        if (MPI_Mrecv(&w, sizeof w, MPI_BYTE, &message, MPI_STATUS_IGNORE) != MPI_SUCCESS)
            return;
        if (from.MPI_TAG != ANSWER)
            continue;
        pthread_mutex_lock(&l->lock);
        l->progress[from.MPI_SOURCE] = w;
        pthread_mutex_unlock(&l->lock);
    }
}

void roll_call(MpiLink *l) {
    Progress mine = here(l);
    pthread_mutex_lock(&l->lock);
    memset(l->progress, 0,
           (size_t)l->link.size * sizeof *l->progress); // what was said before is old
    pthread_mutex_unlock(&l->lock);
    for (int r = 0; r < l->link.size; r++)
        if (r != l->link.rank)
            say_aside(l, r, ASK, &mine);
}

void roll_idle(Link *link) {
    roll_listen((MpiLink *)link);
}

GanStatus roll_absent(MpiLink *l, const Meeting *m) {
    char who[1024] = "";
    size_t n = 0;
    int absent = 0;
    pthread_mutex_lock(&l->lock);
    for (int r = 0; r < l->link.size; r++) {
        const Progress *w = &l->progress[r];
        if (r == l->link.rank || (w->heard && w->turn[m->lane] >= m->turn) || ++absent > NAMED)
            continue;
        n += (size_t)snprintf(who + n, sizeof who - n, "%srank %d on %s ", n ? "; " : "", r,
                              l->name[r]);
        if (w->heard)
            n += (size_t)snprintf(who + n, sizeof who - n, "is still at step %u", w->step[m->lane]);
        else
            n += (size_t)snprintf(who + n, sizeof who - n,
                                  "does not answer: it is stopped, gone or cut off");
    }
    pthread_mutex_unlock(&l->lock);
    if (absent > NAMED)
        snprintf(who + n, sizeof who - n, "; and %d more", absent - NAMED);
    return FAIL(l, "on %s, past the deadline: %s", l->name[l->link.rank],
                absent ? who : "all ranks answer, but the meeting does not end");
}

GanStatus roll_missing(Link *link, const Meeting *m, double seconds) {
    MpiLink *l = (MpiLink *)link;
    if (l->link.lanes == 1)
        return FAIL(l, "the transfer does not end: a rank stopped in the middle of it");
    double until = l->host->now() + seconds;
    roll_call(l);
    while (l->host->now() < until) {
        roll_listen(l);
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    return roll_absent(l, m);
}
