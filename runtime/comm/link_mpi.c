// link_mpi.c - ranks that are processes, through MPI: a plugin, so that one rank alone needs none.
//
// The progress thread initializes and finalizes MPI (so it is MPI's "main thread"); the caller's
// thread uses it for small jobs and roll calls. Of the transfers after meetings, large sums poll as
// meetings do; the others are blocking calls, as all ranks have arrived. mpi_link.h has the map of
// this plugin.
#define _GNU_SOURCE
#include "mpi_link.h"

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
    return dtype == DtF64 ? sizeof(double) : sizeof(float);
}

GanStatus room_need(MpiLink *l, size_t bytes) {
    if (bytes <= l->room_n)
        return GAN_OK;
    l->host->free(l->room);
    l->room = l->host->alloc(bytes);
    l->room_n = l->room ? bytes : 0;
    return l->room ? GAN_OK : l->host->fail(GAN_ERR_MEMORY, "no memory to add %zu bytes", bytes);
}

// --- opening and closing -------------------------------------------------------------------------

// False where MPI still has some of it.
static bool lane_free(const LinkHost *host, MpiLane *d) {
    for (SendBuffer *p = d->buffer, *next; p; p = next) {
        int all = 0;
        if (MPI_Testall(p->n, p->sent, &all, MPI_STATUSES_IGNORE) != MPI_SUCCESS || !all)
            return false;
        next = d->buffer = p->next;
        host->free(p->at);
        host->free(p->sent);
        host->free(p);
    }
    host->free(d->in);
    return true;
}

static void link_free(MpiLink *l) {
    const LinkHost *host = l->host;
    pthread_mutex_destroy(&l->lock);
    host->free(l->name);
    host->free(l->progress);
    host->free(l->count);
    host->free(l->first);
    host->free(l->room);
    near_free(l);
    host->free(l);
}

static void mpi_close(Link *link, bool orderly) {
    MpiLink *l = (MpiLink *)link;
    if (!l)
        return;
    bool whole = roll_free(l);
    for (int i = 0; i < LANES; i++)
        whole &= lane_free(l->host, &l->lane[i]);
    if (orderly) {
        if (l->node != MPI_COMM_NULL)
            MPI_Comm_free(&l->node);
        if (l->across != MPI_COMM_NULL)
            MPI_Comm_free(&l->across);
        MPI_Comm_free(&l->world);
        MPI_Comm_free(&l->aside);
        MPI_Finalize();
    }
    if (whole) // else the process is about to end
        link_free(l);
}

// Communicators for sums within nodes, then across; none where that would be one of the two alone.
static GanStatus open_nodes(MpiLink *l) {
    int in_node = 0, most = 0, place = 0, first = 0, nodes = 0;
    TRY(MPI(l, MPI_Comm_split_type, l->world, MPI_COMM_TYPE_SHARED, l->link.rank, MPI_INFO_NULL,
            &l->node));
    MPI_Comm_size(l->node, &in_node);
    MPI_Comm_rank(l->node, &place);
    first = place == 0;
    TRY(MPI(l, MPI_Allreduce, &in_node, &most, 1, MPI_INT, MPI_MAX, l->world));
    TRY(MPI(l, MPI_Allreduce, &first, &nodes, 1, MPI_INT, MPI_SUM, l->world));
    if (l->asked == NodesAuto && (nodes == 1 || most == 1))
        return MPI(l, MPI_Comm_free, &l->node);
    l->link.nodes = nodes;
    TRY(MPI(l, MPI_Comm_split, l->world, first ? 0 : MPI_UNDEFINED, l->link.rank, &l->across));
    MPI_Comm_set_errhandler(l->node, MPI_ERRORS_RETURN);
    if (l->across != MPI_COMM_NULL)
        MPI_Comm_set_errhandler(l->across, MPI_ERRORS_RETURN);
    return GAN_OK;
}

// Ranks that were asked for different orders of sums would wait for each other in different calls.
static GanStatus same_nodes(const MpiLink *l) {
    int mine[2] = {(int)l->asked, -(int)l->asked}, most[2] = {0};
    TRY(MPI(l, MPI_Allreduce, mine, most, 2, MPI_INT, MPI_MAX, l->world));
    return most[0] == -most[1] ? GAN_OK
                               : FAIL(l, "the ranks were started with different --hierarchical");
}

static GanStatus open_world(MpiLink *l) {
    TRY(MPI(l, MPI_Comm_dup, MPI_COMM_WORLD, &l->world));
    TRY(MPI(l, MPI_Comm_dup, MPI_COMM_WORLD, &l->aside));
    MPI_Comm_set_errhandler(l->world, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(l->aside, MPI_ERRORS_RETURN);
    MPI_Comm_rank(l->world, &l->link.rank);
    MPI_Comm_size(l->world, &l->link.size);
    size_t size = (size_t)l->link.size;
    l->name = l->host->alloc(size * sizeof *l->name);
    l->progress = l->host->alloc(size * sizeof *l->progress);
    l->count = l->host->alloc(size * sizeof *l->count);
    l->first = l->host->alloc(size * sizeof *l->first);
    if (!l->name || !l->progress || !l->count || !l->first)
        return l->host->fail(GAN_ERR_MEMORY, "no memory for %zu ranks", size);
    gethostname(l->name[l->link.rank], HOST_NAME - 1);
    return MPI(l, MPI_Allgather, MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, l->name, HOST_NAME, MPI_CHAR,
               l->world);
}

// Groups are as large as there are groups, or four.
static int group_of(int ranks) {
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
    *l = (MpiLink){
        .host = a->host, .asked = a->nodes, .node = MPI_COMM_NULL, .across = MPI_COMM_NULL};
    pthread_mutex_init(&l->lock, NULL);
    int provided = 0;
    GanStatus st = MPI(l, MPI_Init_thread, NULL, NULL, MPI_THREAD_MULTIPLE, &provided);
    if (st == GAN_OK && provided < MPI_THREAD_FUNNELED)
        st = FAIL(l, "this MPI was built without threads (MPI_THREAD_FUNNELED)");
    if (st == GAN_OK)
        st = open_world(l);
    if (st == GAN_OK)
        st = same_nodes(l);
    if (st == GAN_OK && l->asked != NodesOff)
        st = open_nodes(l);
    if (st == GAN_OK && !l->link.nodes)
        st = near_open(l);
    if (st != GAN_OK) {
        link_free(l);
        return st;
    }
    l->link.lanes = provided == MPI_THREAD_MULTIPLE ? LANES : 1;
    l->group = group_of(l->link.size);
    l->link.relays = l->group < l->link.size;
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
                                 .post = meet_post,
                                 .meet = meet_all,
                                 .idle = roll_idle,
                                 .missing = roll_missing,
                                 .reduce = sum_reduce,
                                 .gather = sum_gather,
                                 .bcast = sum_bcast};

extern const LinkPlugin gan_link_plugin; // found by name (LINK_PLUGIN_SYMBOL)
const LinkPlugin gan_link_plugin = {LINK_PLUGIN_VERSION, &link_mpi, mpi_library};
