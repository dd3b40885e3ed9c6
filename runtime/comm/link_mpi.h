// link_mpi.h - what the MPI plugin is given when its link is opened.
#ifndef GAN_LINK_MPI_H
#define GAN_LINK_MPI_H

#include "comm_link.h"

typedef enum NodeSums { NodesAuto, NodesOff, NodesOn } NodeSums;

typedef struct MpiArg {
    const LinkHost *host; // borrowed
    NodeSums nodes;       // CommSum adds within each node first, then across them; Auto: where
                          // there are several nodes, one of which holds several ranks
} MpiArg;

#endif
