// link_mpi_liveness.c - liveness requests: a rank whose deadline is near asks all others where they
// are, to name the stragglers.
//
// They have an MPI communicator of their own. Ranks whose progress thread waits, transfers or idles
// answer with their sequence numbers; those that do not answer are named.
#define _GNU_SOURCE
#include "link_mpi_internal.h"

#include <stdio.h>
#include <string.h>

enum { ASK = 1, ANSWER = 2, NAMED = 4 };

// Under the lock: one that MPI is done with; NULL: no memory.
static LivenessMessage *message_get(MpiLink *l) {
    LivenessMessage *m = l->messages;
    for (int done = 0; m; m = m->next)
        if (MPI_Test(&m->sent, &done, MPI_STATUS_IGNORE) == MPI_SUCCESS && done)
            return m;
    m = l->host->alloc(sizeof *m);
    if (m) {
        m->next = l->messages;
        l->messages = m;
    }
    return m;
}

// One that cannot be sent is missed by whoever waits for it, who then names this rank.
static void send_progress(MpiLink *l, int to, int tag, const Progress *w) {
    pthread_mutex_lock(&l->lock);
    LivenessMessage *m = message_get(l);
    if (m) {
        m->what = *w;
        m->sent = MPI_REQUEST_NULL;
        MPI_Isend(&m->what, sizeof m->what, MPI_BYTE, to, tag, l->liveness, &m->sent);
    }
    pthread_mutex_unlock(&l->lock);
}

bool liveness_free(MpiLink *l) {
    for (LivenessMessage *m = l->messages, *next; m; m = next) {
        int done = 0;
        if (MPI_Test(&m->sent, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS || !done)
            return false;
        next = l->messages = m->next;
        l->host->free(m);
    }
    return true;
}

static Progress here(MpiLink *l) {
    Progress w = {.heard = 1};
    for (int i = 0; i < QUEUES; i++) {
        w.sequence[i] = atomic_load(&l->queue[i].sequence);
        w.step[i] = atomic_load(&l->queue[i].step);
    }
    return w;
}

void liveness_serve(MpiLink *l) {
    for (;;) {
        int found = 0;
        MPI_Status from;
        MPI_Message message; // matched: two threads may listen at once
        Progress w = here(l);
        if (MPI_Improbe(MPI_ANY_SOURCE, MPI_ANY_TAG, l->liveness, &found, &message, &from) !=
                MPI_SUCCESS ||
            !found)
            return;
        if (from.MPI_TAG == ASK)
            send_progress(l, from.MPI_SOURCE, ANSWER, &w);
        if (MPI_Mrecv(&w, sizeof w, MPI_BYTE, &message, MPI_STATUS_IGNORE) != MPI_SUCCESS)
            return;
        if (from.MPI_TAG != ANSWER)
            continue;
        pthread_mutex_lock(&l->lock);
        l->progress[from.MPI_SOURCE] = w;
        pthread_mutex_unlock(&l->lock);
    }
}

void liveness_request(MpiLink *l) {
    Progress mine = here(l);
    pthread_mutex_lock(&l->lock);
    memset(l->progress, 0,
           (size_t)l->link.size * sizeof *l->progress); // what was said before is old
    pthread_mutex_unlock(&l->lock);
    for (int r = 0; r < l->link.size; r++)
        if (r != l->link.rank)
            send_progress(l, r, ASK, &mine);
}

void liveness_idle(Link *link) {
    liveness_serve((MpiLink *)link);
}

GanStatus liveness_fail(MpiLink *l, const Handshake *hs) {
    char who[1024] = "";
    size_t n = 0;
    int absent = 0;
    pthread_mutex_lock(&l->lock);
    for (int r = 0; r < l->link.size; r++) {
        const Progress *w = &l->progress[r];
        if (r == l->link.rank || (w->heard && w->sequence[hs->queue] >= hs->sequence) ||
            ++absent > NAMED)
            continue;
        n += (size_t)snprintf(who + n, sizeof who - n, "%srank %d on %s ", n ? "; " : "", r,
                              l->name[r]);
        if (w->heard)
            n += (size_t)snprintf(who + n, sizeof who - n, "is still at step %u",
                                  w->step[hs->queue]);
        else
            n += (size_t)snprintf(who + n, sizeof who - n,
                                  "does not answer: it is stopped, gone or cut off");
    }
    pthread_mutex_unlock(&l->lock);
    if (absent > NAMED)
        snprintf(who + n, sizeof who - n, "; and %d more", absent - NAMED);
    return FAIL(l, "on %s, past the deadline: %s", l->name[l->link.rank],
                absent ? who : "all ranks answer, but the operation does not end");
}
