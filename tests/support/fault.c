// fault.c - preloaded into one rank of a job by the tests: a fault at a set point of its MPI
// traffic, or a library that reports fault_is version.
//
// GAN_FAULT is a list, separated by commas, of:
// POINT:N:SIGNAL. POINT: `init`, before MPI starts; `post`, before the N-th handshake message is
// sent; `after`, when the N-th of the others' has been received; `in`, in the N-th exchange of a
// transfer, while the others are inside; `cma`, at the N-th read of another rank's memory. SIGNAL:
// the number of a signal this process sends itself.
// mpi, dnn: that library reports another version. nodes, in all ranks: the first half of them and
// the second are on different nodes; gan_fault_crossed counts the bytes of transfers between these.
// far: this rank may not read another's memory, so that none does. gan_fault_read counts the bytes
// that it reads there otherwise. threads: MPI is not safe for several threads. sums: this rank gets
// sums with one bit flipped, as from a broken machine. sends: MPI reads send buffers late, so this
// rank must not reuse one before the send has completed. disk: once MPI has started, which writes
// files of its own, this rank's files end at 100 KiB, as on a full disk.
#define _GNU_SOURCE
#include <errno.h>
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

// What follows `name` in the list; NULL: it is not there.
static const char *fault_find(const char *name) {
    size_t n = strlen(name);
    for (const char *at = getenv("GAN_FAULT"); at && *at; at += strcspn(at, ","), at += *at == ',')
        if (!strncmp(at, name, n) && strchr(":,", at[n])) // its end is in that too
            return at + n;
    return NULL;
}

// This thread goes on when the signal has been taken: by itself, or, where it blocks it, by the
// thread that this program has for signals.
static void fault_send(int number) {
    sigset_t blocked, pending;
    pthread_sigmask(SIG_BLOCK, NULL, &blocked);
    if (!sigismember(&blocked, number)) {
        raise(number);
        return;
    }
    kill(getpid(), number);
    while (sigpending(&pending) == 0 && sigismember(&pending, number))
        usleep(50);
}

static void fault_point(const char *point, int *times) {
    int nth, number;
    const char *fault = fault_find(point);
    if (fault && sscanf(fault, ":%d:%d", &nth, &number) == 2 && ++*times == nth)
        fault_send(number);
}

static int fault_is(const char *name) {
    return fault_find(name) != NULL;
}

int MPI_Init_thread(int *argc, char ***argv, int required, int *provided) {
    static int times;
    fault_point("init", &times);
    int code = PMPI_Init_thread(argc, argv, required, provided);
    if (fault_is("disk")) {
        signal(SIGXFSZ, SIG_IGN);
        setrlimit(RLIMIT_FSIZE, &(struct rlimit){100 << 10, 100 << 10});
    }
    if (fault_is("threads"))
        *provided = MPI_THREAD_FUNNELED;
    return code;
}

// On which of the two nodes is a rank of `comm`?
static int node_of(MPI_Comm comm, int rank) {
    MPI_Group here, all;
    int world, size;
    PMPI_Comm_group(comm, &here);
    PMPI_Comm_group(MPI_COMM_WORLD, &all);
    PMPI_Group_translate_ranks(here, 1, &rank, all, &world);
    PMPI_Group_free(&here);
    PMPI_Group_free(&all);
    PMPI_Comm_size(MPI_COMM_WORLD, &size);
    return world >= (size + 1) / 2;
}

static int own_rank(MPI_Comm comm) {
    int rank;
    PMPI_Comm_rank(comm, &rank);
    return rank;
}

long long gan_fault_crossed; // bytes that this rank has sent to the other node in transfers

int MPI_Isend(const void *from, int n, MPI_Datatype type, int to, int tag, MPI_Comm comm,
              MPI_Request *request) {
    static int times;
    if (type == MPI_BYTE)
        fault_point("post", &times);
    else if (fault_is("nodes") && to >= 0 && node_of(comm, to) != node_of(comm, own_rank(comm)))
        gan_fault_crossed += n;
    return PMPI_Isend(from, n, type, to, tag, comm, request);
}

// After this the program cannot know when the send buffer may change.
int MPI_Request_free(MPI_Request *request) {
    if (fault_is("sends")) {
        fputs("a request is freed that MPI may still be using\n", stderr);
        abort();
    }
    return PMPI_Request_free(request);
}

int MPI_Mrecv(void *to, int n, MPI_Datatype type, MPI_Message *message, MPI_Status *status) {
    enum { HEAD = 24, ONE = 8 }; // bytes before the summands; of a cma_exchange of one rank
    static int times;
    int code = PMPI_Mrecv(to, n, type, message, status);
    if (fault_is("sums") && n > HEAD + ONE)
        ((unsigned char *)to)[HEAD + 1] ^= 1;
    fault_point("after", &times);
    return code;
}

int MPI_Irecv(void *to, int n, MPI_Datatype type, int from, int tag, MPI_Comm comm,
              MPI_Request *request) {
    static int times;
    fault_point("in", &times);
    return PMPI_Irecv(to, n, type, from, tag, comm, request);
}

long long gan_fault_read; // bytes that this rank has read in the memory of others

ssize_t process_vm_readv(pid_t pid, const struct iovec *here, unsigned long n,
                         const struct iovec *there, unsigned long m, unsigned long flags) {
    static int times;
    fault_point("cma", &times);
    errno = EPERM;
    ssize_t done =
        fault_is("far") ? -1 : syscall(SYS_process_vm_readv, pid, here, n, there, m, flags);
    gan_fault_read += done > 0 ? done : 0;
    return done;
}

int MPI_Comm_split_type(MPI_Comm comm, int kind, int key, MPI_Info info, MPI_Comm *out) {
    int rank, size;
    if (!fault_is("nodes"))
        return PMPI_Comm_split_type(comm, kind, key, info, out);
    PMPI_Comm_rank(comm, &rank);
    PMPI_Comm_size(comm, &size);
    return PMPI_Comm_split(comm, rank >= (size + 1) / 2, key, out);
}

int MPI_Get_library_version(char *version, int *n) {
    int code = PMPI_Get_library_version(version, n);
    if (fault_is("mpi"))
        *n =
            snprintf(version, MPI_MAX_LIBRARY_VERSION_STRING, "Open MPI v99.0.1, as a test has it");
    return code;
}

#ifdef WITH_DNNL
#include <oneapi/dnnl/dnnl.h>
#include <sys/mman.h>

// Who loads the library later finds it loaded, and asks it by its handle: so its own constant says
// another version.
__attribute__((constructor)) static void change_version(void) {
    dnnl_version_t *version = (dnnl_version_t *)(uintptr_t)dnnl_version();
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *first = (char *)((uintptr_t)version / page * page);
    if (fault_is("dnn") && mprotect(first, page, PROT_READ | PROT_WRITE) == 0)
        version->patch = 99;
}
#endif
