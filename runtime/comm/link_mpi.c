// link_mpi.c - ranks that are processes, through MPI: a plugin, so that one rank alone needs none.
//
// The progress thread initializes and finalizes MPI (so it is MPI's "main thread"); the caller's
// thread uses it for small jobs (MPI_THREAD_MULTIPLE). Only opening and closing block inside MPI.
// link_mpi_internal.h has the map of this plugin.
#define _GNU_SOURCE
#include "link_mpi_internal.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

GanStatus mpi_checked(const MpiLink *l, const char *call, int code) {
    if (code == MPI_SUCCESS)
        return GAN_OK;
    char text[MPI_MAX_ERROR_STRING];
    int n = 0;
    MPI_Error_string(code, text, &n);
    return FAIL(l, "%s: %.*s", call, n, text);
}

size_t size_of(Dtype dtype) {
    return dtype == DtF64 ? sizeof(double) : dtype == DtF32 ? sizeof(float) : sizeof(uint16_t);
}

GanStatus scratch_need(MpiLink *l, size_t bytes) {
    if (bytes <= l->scratch_n)
        return GAN_OK;
    l->host->free(l->scratch);
    l->scratch = l->host->alloc(bytes);
    l->scratch_n = l->scratch ? bytes : 0;
    return l->scratch ? GAN_OK : l->host->fail(GAN_ERR_MEMORY, "no memory to add %zu bytes", bytes);
}

// --- opening and closing -------------------------------------------------------------------------

// False where MPI still has some of it.
static bool queue_free(const LinkHost *host, MpiQueue *q) {
    for (SendBuffer *p = q->buffer, *next; p; p = next) {
        int all = 0;
        if (MPI_Testall(p->n, p->sent, &all, MPI_STATUSES_IGNORE) != MPI_SUCCESS || !all)
            return false;
        next = q->buffer = p->next;
        host->free(p->at);
        host->free(p->sent);
        host->free(p);
    }
    host->free(q->in);
    host->free(q->part);
    return true;
}

static void link_free(MpiLink *l) {
    const LinkHost *host = l->host;
    pthread_mutex_destroy(&l->lock);
    host->free(l->name);
    host->free(l->progress);
    host->free(l->from);
    host->free(l->part);
    host->free(l->scratch);
    cma_free(l);
    host->free(l);
}

static void mpi_close(Link *link, bool orderly) {
    MpiLink *l = (MpiLink *)link;
    if (!l || !orderly) // the process is about to end, and MPI may have messages under way
        return;
    bool whole = liveness_free(l);
    for (int i = 0; i < QUEUES; i++)
        whole &= queue_free(l->host, &l->queue[i]);
    MPI_Comm *all[] = {&l->node.comm, &l->across.comm, &l->world.comm, &l->liveness};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (*all[i] != MPI_COMM_NULL)
            MPI_Comm_free(all[i]);
    MPI_Finalize();
    if (whole)
        link_free(l);
}

static void group_init(Group *g, MPI_Comm comm) {
    *g = (Group){.comm = comm};
    if (comm == MPI_COMM_NULL)
        return;
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    MPI_Comm_rank(comm, &g->rank);
    MPI_Comm_size(comm, &g->size);
}

// Groups for sums within nodes, then across; none where that would be one of the two alone.
static GanStatus open_nodes(MpiLink *l) {
    int nodes = 0, most[2] = {0};
    MPI_Comm comm;
    TRY(MPI(l, MPI_Comm_split_type, l->world.comm, MPI_COMM_TYPE_SHARED, l->link.rank,
            MPI_INFO_NULL, &comm));
    group_init(&l->node, comm);
    int first = l->node.rank == 0, in_node[2] = {l->node.size, -l->node.size};
    TRY(MPI(l, MPI_Allreduce, in_node, most, 2, MPI_INT, MPI_MAX, l->world.comm));
    TRY(MPI(l, MPI_Allreduce, &first, &nodes, 1, MPI_INT, MPI_SUM, l->world.comm));
    if (l->asked == NodesAuto && (nodes == 1 || most[0] == 1))
        return MPI(l, MPI_Comm_free, &l->node.comm);
    l->link.nodes = nodes;
    l->least_in_node = -most[1];
    int place = l->node.rank < l->least_in_node ? l->node.rank : MPI_UNDEFINED;
    TRY(MPI(l, MPI_Comm_split, l->world.comm, place, l->link.rank, &comm));
    group_init(&l->across, comm);
    return GAN_OK;
}

// Ranks that were asked for different orders of sums would wait for each other in different calls.
static GanStatus same_nodes(const MpiLink *l) {
    int mine[2] = {(int)l->asked, -(int)l->asked}, most[2] = {0};
    TRY(MPI(l, MPI_Allreduce, mine, most, 2, MPI_INT, MPI_MAX, l->world.comm));
    return most[0] == -most[1] ? GAN_OK
                               : FAIL(l, "the ranks were started with different --hierarchical");
}

static GanStatus open_world(MpiLink *l) {
    MPI_Comm comm;
    TRY(MPI(l, MPI_Comm_dup, MPI_COMM_WORLD, &comm));
    group_init(&l->world, comm);
    TRY(MPI(l, MPI_Comm_dup, MPI_COMM_WORLD, &l->liveness));
    MPI_Comm_set_errhandler(l->liveness, MPI_ERRORS_RETURN);
    l->link.rank = l->world.rank;
    l->link.size = l->world.size;
    size_t size = (size_t)l->link.size;
    l->name = l->host->alloc(size * sizeof *l->name);
    l->progress = l->host->alloc(size * sizeof *l->progress);
    l->from = l->host->alloc((size + 1) * sizeof *l->from);
    bool all = true;
    for (int i = 0; i < QUEUES; i++)
        all &= (l->queue[i].part = l->host->alloc(size * sizeof *l->part)) != NULL;
    l->part = l->host->alloc(size * sizeof *l->part);
    if (!all || !l->name || !l->progress || !l->from || !l->part)
        return l->host->fail(GAN_ERR_MEMORY, "no memory for %zu ranks", size);
    gethostname(l->name[l->link.rank], HOST_NAME - 1);
    return MPI(l, MPI_Allgather, MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, l->name, HOST_NAME, MPI_CHAR,
               l->world.comm);
}

// Subsets are as large as there are subsets, or four.
static int subset_of(int ranks) {
    int n = 4;
    while (n * n < ranks)
        n *= 2;
    return n;
}

static GanStatus mpi_open(void *arg, Link **out) {
    const MpiArg *a = arg;
    MpiLink *l = a->host->alloc(sizeof *l);
    if (!l)
        return a->host->fail(GAN_ERR_MEMORY, "no memory for a communicator");
    *l = (MpiLink){.host = a->host,
                   .asked = a->nodes,
                   .world = {.comm = MPI_COMM_NULL},
                   .liveness = MPI_COMM_NULL,
                   .node = {.comm = MPI_COMM_NULL},
                   .across = {.comm = MPI_COMM_NULL}};
    pthread_mutex_init(&l->lock, NULL);
    int provided = 0;
    GanStatus st = MPI(l, MPI_Init_thread, NULL, NULL, MPI_THREAD_MULTIPLE, &provided);
    if (st == GAN_OK && provided < MPI_THREAD_MULTIPLE)
        st = FAIL(l, "this MPI does not support threads (MPI_THREAD_MULTIPLE)");
    if (st == GAN_OK)
        st = open_world(l);
    if (st == GAN_OK)
        st = same_nodes(l);
    if (st == GAN_OK && l->asked != NodesOff)
        st = open_nodes(l);
    if (st == GAN_OK && !l->link.nodes)
        st = cma_open(l);
    if (st != GAN_OK) {
        link_free(l);
        return st;
    }
    l->subset = subset_of(l->link.size);
    l->link.two_level = l->subset < l->link.size;
    *out = &l->link;
    return GAN_OK;
}

static void mpi_library(char *text, size_t size) {
    char whole[MPI_MAX_LIBRARY_VERSION_STRING];
    int n = 0;
    MPI_Get_library_version(whole, &n);
    snprintf(text, size, "%.*s", (int)strcspn(whole, ",\n"), whole);
}

static const LinkApi link_mpi = {.name = "mpi",
                                 .talks = true,
                                 .open = mpi_open,
                                 .close = mpi_close,
                                 .post = handshake_post,
                                 .wait = handshake_wait,
                                 .idle = liveness_idle,
                                 .reduce = collective_reduce,
                                 .gather = collective_gather,
                                 .bcast = collective_bcast};

extern const LinkPlugin gan_link_plugin; // found by name (LINK_PLUGIN_SYMBOL)
const LinkPlugin gan_link_plugin = {LINK_PLUGIN_VERSION, &link_mpi, mpi_library};
