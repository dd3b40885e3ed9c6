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

enum { MOST_RANKS = 7 };

typedef struct Rank {
    int rank;
    LocalHub *hub; // borrowed
    CommOptions options;
    void (*body)(struct Rank *r, Comm *c); // leaves its status in `st`
    bool leave;                            // ends with comm_leave
    atomic_int *spoken;                    // ranks that have said why they end; NULL: not counted
    void *user;                            // the body's; one for all ranks
    GanStatus st;                          // what the body ended with
    char why[512];                         // its message, where it failed
    bool all;                              // comm_leave's answer
    int before;                            // of `spoken`, once this rank was let go
} Rank;

// Runs `body` on n ranks, at most MOST_RANKS, and waits for all. A rank whose body failed ends with
// comm_leave.
void on_ranks(Rank *rank, int n, void (*body)(Rank *r, Comm *c), CommOptions o, void *user);
// Fails the case with the first rank's message that is not well.
void all_well(const Rank *rank, int n);

#endif
