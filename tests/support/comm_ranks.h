// comm_ranks.h - runs a function on several ranks, which are threads of one program over the
// loop-back link.
#ifndef GAN_COMM_RANKS_H
#define GAN_COMM_RANKS_H

#include "comm.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdatomic.h>

enum { MAX_COMM_RANKS = 7 };

typedef struct Rank {
    int rank;
    LocalHub *hub; // borrowed
    CommOptions options;
    void (*body)(struct Rank *r, Comm *c); // leaves its status in `st`
    bool leave;                            // ends with comm_leave
    atomic_int *spoken; // ranks that have reported why they end; NULL: not counted
    void *user;         // the body's; one for all ranks
    GanStatus st;       // the body's result
    char why[512];      // its message, where it failed
    bool all;           // comm_leave's result
    int before;         // `spoken` when this rank's comm_disconnect returned
} Rank;

// Runs `body` on n ranks, at most MAX_COMM_RANKS, and waits for all. A rank whose body failed ends
// with comm_leave.
void on_ranks(Rank *rank, int n, void (*body)(Rank *r, Comm *c), CommOptions o, void *user);
// Fails the case with the message of the first rank that failed.
void ranks_ok(const Rank *rank, int n);

#endif
