// comm_ranks.c - ranks as threads: opened, run and ended side by side.
#include "comm_ranks.h"

#include <pthread.h>
#include <stdio.h>

static void leave(Rank *r, Comm *c) {
    r->all = comm_leave(c, r->st);
    if (r->spoken)
        atomic_fetch_add(r->spoken, 1);
    comm_disconnect(c);
    r->before = r->spoken ? atomic_load(r->spoken) : 0;
}

static void *rank_main(void *arg) {
    Rank *r = arg;
    Comm *c;
    LocalRank seat = {r->hub, r->rank};
    r->st = comm_open(&link_local, &seat, &r->options, &c);
    if (r->st == GAN_OK) {
        r->body(r, c);
        if (r->st != GAN_OK)
            snprintf(r->why, sizeof r->why, "%s", gan_error());
        if (r->leave || r->st != GAN_OK)
            leave(r, c);
        else
            comm_close(c);
    }
    return NULL;
}

// Runs `body` on n ranks and waits for all.
void on_ranks(Rank *rank, int n, void (*body)(Rank *, Comm *), CommOptions o, void *user) {
    LocalHub *hub;
    pthread_t thread[MAX_COMM_RANKS];
    assert_int_equal(local_hub_new(n, &hub), GAN_OK);
    for (int i = 0; i < n; i++) {
        rank[i] = (Rank){.rank = i, .hub = hub, .options = o, .body = body, .user = user};
        assert_int_equal(pthread_create(&thread[i], NULL, rank_main, &rank[i]), 0);
    }
    for (int i = 0; i < n; i++)
        pthread_join(thread[i], NULL);
    local_hub_free(hub);
}

void ranks_ok(const Rank *rank, int n) {
    for (int i = 0; i < n; i++)
        if (rank[i].st != GAN_OK)
            fail_msg("rank %d: %s", i, rank[i].why);
}
