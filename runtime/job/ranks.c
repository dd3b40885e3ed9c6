// ranks.c - from a launcher to a communicator: detects who started this process, with which ranks,
// on which cores.
//
// In: the launcher's environment variables, this process's cores. Out: an open communicator, the
// number of threads, and a table of hosts, cores and threads by rank.
#define _GNU_SOURCE
#include "ranks.h"
#include "link_mpi.h"
#include "process.h"

#include <sched.h>
#include <string.h>
#include <unistd.h>

// --- the launcher --------------------------------------------------------------------------------

static int64_t number_of(const char *(*variable)(const char *), const char *name,
                         int64_t otherwise) {
    const char *text = variable(name);
    int64_t n;
    return text && str_to_int(str_c(text), &n) ? n : otherwise;
}

Launcher launcher_detect(const char *(*variable)(const char *name)) {
    // The first row that is there counts: under Slurm mpirun leaves both.
    static const struct {
        const char *by, *rank, *ranks, *tells;
    } launchers[] = {
        {"mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"},
        {"srun", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "PMIX_NAMESPACE"},
        {"mpiexec", "PMI_RANK", "PMI_SIZE", "PMI_RANK"},
    };
    for (size_t i = 0; i < sizeof launchers / sizeof *launchers; i++) {
        int64_t rank = number_of(variable, launchers[i].rank, -1),
                ranks = number_of(variable, launchers[i].ranks, 0);
        if (rank >= 0 && ranks > 0)
            return (Launcher){.by = launchers[i].by,
                              .rank = rank,
                              .ranks = ranks,
                              .told = variable(launchers[i].tells) != NULL};
    }
    return (Launcher){.ranks = 1};
}

static void cores_allowed(cpu_set_t *set) {
    CPU_ZERO(set);
    (void)sched_getaffinity(0, sizeof *set, set); // none where there are more than a set holds
}

static GanStatus fail_alone(const Launcher *l, int seen) {
    return fail(GAN_ERR_DEVICE,
                "%s started %lld tasks, but MPI sees %d: each would train alone. Under Slurm use "
                "`srun --mpi=pmix` (`srun --mpi=list` says what there is), or mpirun",
                l->by, (long long)l->ranks, seen);
}

Str ranks_plugin(Arena *a, Str program) {
    Str beside = path_join(a, path_dir(program), STR("libgan_mpi.so"));
    Str installed = path_join(a, path_dir(program), STR("../lib/gan/libgan_mpi.so"));
    return !file_exists(beside) && file_exists(installed) ? installed : beside;
}

GanStatus ranks_open(const RankSetup *s, Comm **out) {
    const LinkPlugin *plugin;
    const Launcher *l = &s->launch;
    if (link_plugin_load(s->plugin, &plugin) != GAN_OK) {
        char why[512];
        snprintf(why, sizeof why, "%s", gan_error());
        return fail(
            GAN_ERR_DEVICE,
            "%s started %lld ranks, but this ganrun has no MPI (%s). Install it with apt-get "
            "install libopenmpi-dev openmpi-bin and build again, or start one rank",
            l->by, (long long)l->ranks, why);
    }
    if (!l->told)
        return fail_alone(l, 1); // Open MPI would end the process, with a page on its build
    MpiArg arg = {.host = &link_host,
                  .nodes = str_eq(s->nodes, STR("on"))    ? NodesOn
                           : str_eq(s->nodes, STR("off")) ? NodesOff
                                                          : NodesAuto};
    Comm *c;
    TRY(comm_open(plugin->api, &arg, &s->comm, &c));
    if (comm_size(c) == l->ranks) {
        *out = c;
        return GAN_OK;
    }
    int seen = comm_size(c);
    comm_close(c);
    return fail_alone(l, seen);
}

// --- who is where --------------------------------------------------------------------------------

enum { HOST_NAME = 64, GPU_NAME = 128 };

typedef struct RankInfo { // what a rank says of itself; crosses the link as it is
    char host[HOST_NAME];
    char gpu[GPU_NAME]; // "": none
    cpu_set_t cores;
    int64_t threads, pid;
} RankInfo;

static bool same_host(const RankInfo *a, const RankInfo *b) {
    return strncmp(a->host, b->host, HOST_NAME) == 0;
}

static bool shares_cores(const RankInfo *a, const RankInfo *b) {
    cpu_set_t both;
    CPU_AND(&both, &a->cores, &b->cores);
    return same_host(a, b) && CPU_COUNT(&both) > 0;
}

// The cores a rank may use, divided among the ranks that may use them too; the time its control
// group has, among all of its host.
static int64_t fair_threads(const RankInfo *all, int ranks, int me) {
    int64_t sharing = 0, here = 0;
    for (int r = 0; r < ranks; r++) {
        sharing += shares_cores(&all[r], &all[me]);
        here += same_host(&all[r], &all[me]);
    }
    int64_t n = CPU_COUNT(&all[me].cores) / (sharing > 0 ? sharing : 1);
    double each = cores_quota() / (double)here;
    n = each < (double)n ? (int64_t)each : n;
    return n > 0 ? n : 1;
}

static CommCores cores_left(const RankInfo *all, int ranks, int me) {
    cpu_set_t cores = all[me].cores;
    int64_t threads = 0, sharing = 0;
    for (int r = 0; r < ranks; r++) {
        if (!shares_cores(&all[r], &all[me]))
            continue;
        CPU_OR(&cores, &cores, &all[r].cores);
        threads += all[r].threads;
        sharing++;
    }
    int64_t left = CPU_COUNT(&cores) - threads;
    if (!sharing) // not even its own are known
        return CoresFew;
    return left < 0         ? CoresOversubscribed
           : left == 0      ? CoresFull
           : left < sharing ? CoresFew
                            : CoresSpare;
}

static Str cores_text(Arena *a, const cpu_set_t *set) {
    Text t = {.arena = a};
    for (int i = 0; i < CPU_SETSIZE; i++) {
        if (!CPU_ISSET(i, set))
            continue;
        int last = i;
        while (last + 1 < CPU_SETSIZE && CPU_ISSET(last + 1, set))
            last++;
        text_fmt(&t, "%s%d", t.n ? "," : "", i);
        if (last > i)
            text_fmt(&t, "-%d", last);
        i = last;
    }
    return text_str(&t);
}

static void show_ranks(Arena *a, const Console *console, const RankInfo *all, int ranks) {
    int64_t busy = 0, cores = 0;
    bool gpus = all[0].gpu[0];
    say(console, "rank  host              cores       threads  %sprocess", gpus ? "card, " : "");
    for (int r = 0; r < ranks; r++) {
        const RankInfo *c = &all[r];
        say(console, "%4d  %-16.63s  %-10s  %7lld  %s%s%lld", r, c->host,
            cores_text(a, &c->cores).ptr, (long long)c->threads, c->gpu, gpus ? "  " : "",
            (long long)c->pid);
        busy += same_host(c, &all[0]) ? c->threads : 0;
    }
    cpu_set_t used;
    CPU_ZERO(&used);
    for (int r = 0; r < ranks; r++)
        if (same_host(&all[r], &all[0]))
            CPU_OR(&used, &used, &all[r].cores);
    cores = CPU_COUNT(&used);
    if (busy > cores)
        say(console, "%lld threads share %lld cores of %s: ranks will wait for each other",
            (long long)busy, (long long)cores, all[0].host);
}

// Two ranks of one job on one card would halve it and train no faster.
static GanStatus check_cards(const RankInfo *all, int ranks) {
    for (int r = 0; r < ranks; r++)
        for (int q = 0; all[r].gpu[0] && q < r; q++)
            if (strncmp(all[q].gpu, all[r].gpu, GPU_NAME) == 0)
                return fail(GAN_ERR_DEVICE,
                            "ranks %d and %d on %s would share one card, %s: give every rank of a "
                            "host its own with CUDA_VISIBLE_DEVICES, start fewer ranks, or let "
                            "them share with --comm staged",
                            q, r, all[r].host, all[r].gpu);
    return GAN_OK;
}

GanStatus ranks_preflight(Arena scratch, Comm *c, const Console *console, int64_t asked,
                          const char *gpu, bool share, DeviceOptions *out) {
    int ranks = comm_size(c), me = comm_rank(c);
    RankInfo mine = {.pid = getpid()}, *all = arena_array(&scratch, RankInfo, ranks);
    gethostname(mine.host, HOST_NAME - 1);
    snprintf(mine.gpu, sizeof mine.gpu, "%s", gpu);
    cores_allowed(&mine.cores);
    TRY(comm_gather(c, &mine, sizeof mine, all));
    mine.threads = asked ? asked : fair_threads(all, ranks, me);
    TRY(comm_gather(c, &mine, sizeof mine, all));
    out->threads = (int)mine.threads;
    out->peers = out->peer = 0;
    for (int r = 0; r < ranks; r++) {
        out->peers += same_host(&all[r], &mine);
        out->peer += r < me && same_host(&all[r], &mine);
    }
    comm_set_cores(c, *gpu ? CoresFew
                           : cores_left(all, ranks, me)); // a card leaves its host's cores idle
    if (me == 0)
        show_ranks(&scratch, console, all, ranks);
    if (!share)
        TRY(check_cards(all, ranks));
    if (comm_nodes(c))
        say(console, "all-reduce: within each of %d nodes, then across nodes", comm_nodes(c));
    return GAN_OK;
}

// --- what was asked for --------------------------------------------------------------------------

enum { DEADLINE = 300, CHUNKS = 4 };

bool ranks_first(const Comm *c) {
    return comm_rank(c) == 0;
}

GanStatus wire_read(const char *word, Str text, double *us, double *gbit) {
    size_t comma = str_find(text, ',');
    if (str_to_double(str_sub(text, 0, comma), us) &&
        str_to_double(str_sub(text, comma + 1, text.len), gbit) && *us >= 0 && *us < 1e7 &&
        *gbit > 0)
        return GAN_OK;
    return fail(GAN_ERR_USAGE, "%s needs microseconds and Gbit/s, as 20,10; not `%.*s`", word,
                SARG(text));
}

LinkModel wire_link(double us, double gbit) {
    return (LinkModel){.latency = us * 1e-6, .bandwidth = gbit * 1e9 / 8, .small = us * 1e-6};
}

GanStatus ranks_comm_fits(const Options *o, bool cuda) {
    Str how = option_text(o, OptComm, STR("null"));
    if (!cuda && (str_eq(how, STR("nccl")) || str_eq(how, STR("staged"))))
        return fail(GAN_ERR_USAGE, "--comm %.*s is for --device cuda: mpi or null", SARG(how));
    if (cuda && str_eq(how, STR("mpi")))
        return fail(GAN_ERR_USAGE,
                    "--comm mpi adds up in the host's memory: of ranks on cards it is "
                    "nccl, staged or null");
    return GAN_OK;
}

GanStatus ranks_comm_options(const Options *o, CommOptions *out) {
    Str how = option_text(o, OptComm, STR("mpi"));
    *out = (CommOptions){.deadline = (double)option_number(o, OptDeadline, DEADLINE),
                         .null = str_eq(how, STR("null")),
                         .wait = str_eq(option_text(o, OptOverlap, STR("on")), STR("off"))};
    if (o->at[OptDevice].given || !o->file.n || !file_is_dir(o->file.at[0])) // else a run's
        TRY(ranks_comm_fits(o, str_eq(option_text(o, OptDevice, (Str){0}), STR("cuda"))));
    if (out->null && o->command == CommandTrain)
        return fail(GAN_ERR_USAGE, "--comm null adds nothing up, so each rank would train other "
                                   "weights: it is for `ganrun bench`");
    if (o->at[OptWire].given)
        TRY(wire_read(option_word(OptWire), o->at[OptWire].text, &out->wire_us, &out->wire_gbit));
    return GAN_OK;
}

static bool is_among(OptionId id, const OptionId *list, size_t n) {
    size_t i = 0;
    while (i < n && list[i] != id)
        i++;
    return i < n;
}

// Of a run what its job does not say, by which the ranks agree on the rest; else all but what a
// rank may have of its own.
static bool is_agreed(Command command, OptionId id) {
    static const OptionId beside[] = {OptComm, OptOverlap, OptReplay, OptTrace, OptReplan},
                          own[] = {OptCache, OptThreads, OptTop, OptTimeline, OptJson};
    if (!(ganrun_args.option[id].commands >> command & 1))
        return false;
    return command == CommandTrain ? is_among(id, beside, sizeof beside / sizeof *beside)
                                   : !is_among(id, own, sizeof own / sizeof *own);
}

static Str options_text(Arena *a, const Options *o) {
    Text t = {.arena = a};
    text_fmt(&t, "ganrun %s", ganrun_args.command[o->command].word);
    for (OptionId id = 0; id < OptCount; id++) {
        const ArgValue *v = &o->at[id];
        if (!is_agreed(o->command, id))
            continue;
        text_fmt(&t, ",%s%s", v->given ? "" : "no ", option_word(id));
        for (uint32_t k = 0; k < v->pair.n; k++)
            text_fmt(&t, " %.*s=%.*s", SARG(v->pair.at[k].key), SARG(v->pair.at[k].value));
        if (v->text.len && !v->pair.n)
            text_fmt(&t, " %.*s", SARG(v->text));
    }
    return text_str(&t);
}

// By its content: ranks may have it at different places.
static Str content_text(Arena *a, Str path) {
    FileMap map;
    if (file_map(path, &map) != GAN_OK)
        return STR("a file that cannot be read");
    Str hash = hash_hex(a, hash128(map.ptr, map.n));
    file_unmap(&map);
    return str_format(a, "of hash %.*s", SARG(hash));
}

GanStatus ranks_agree_asked(Arena *a, Comm *c, const Options *o) {
    TRY(ranks_agree(*a, c, "command line", ',', options_text(a, o)));
    for (uint32_t i = 0; o->command != CommandTrain && i < o->file.n; i++)
        TRY(ranks_agree(*a, c, str_z(a, path_base(o->file.at[i])), ',',
                        content_text(a, o->file.at[i])));
    return GAN_OK;
}

CardRoute ranks_route(const Options *o) {
    return str_eq(option_text(o, OptComm, STR("nccl")), STR("staged")) ? RouteStaged : RouteNccl;
}

GanStatus ranks_split(const Options *o, Split *out) {
    double mb = 0;
    const ArgValue *d = &o->at[OptDeterm], *b = &o->at[OptBucketMb];
    *out = (Split){.chunks = !d->given   ? 0
                             : d->number ? d->number
                                         : CHUNKS,
                   .micro = option_number(o, OptMicro, 0)};
    if (out->chunks & (out->chunks - 1))
        return fail(GAN_ERR_USAGE, "--deterministic=%lld: sums in a fixed tree need a power of two",
                    (long long)out->chunks);
    if (out->chunks && out->micro > 1)
        return fail(GAN_ERR_USAGE,
                    "--deterministic cuts the batch itself: it goes without --micro");
    if (b->given && !(str_to_double(b->text, &mb) && mb > 0 && mb <= 1 << 20))
        return fail(GAN_ERR_USAGE, "--bucket-mb needs megabytes, not `%.*s`", SARG(b->text));
    out->bucket = (int64_t)(mb * 1e6);
    return GAN_OK;
}

GanStatus ranks_parallel(const Comm *c, int64_t batch, const Split *split, LinkModel m,
                         Parallel *out) {
    int ranks = comm_size(c);
    *out = (Parallel){.rank = (uint32_t)comm_rank(c),
                      .ranks = (uint32_t)ranks,
                      .chunks = (uint32_t)split->chunks,
                      .micro = (uint32_t)split->micro,
                      .latency = m.latency,
                      .bandwidth = m.bandwidth,
                      .bucket = (size_t)split->bucket,
                      .tail = c && !comm_options(c)->wait};
    if (batch < ranks)
        return fail(GAN_ERR_USAGE, "a batch of %lld has no sample for each of %d ranks",
                    (long long)batch, ranks);
    if (split->chunks && (split->chunks % ranks || batch % split->chunks))
        return fail(GAN_ERR_USAGE,
                    "--deterministic=%lld: the number of ranks (%d) must go into it, and it into "
                    "the batch (%lld)",
                    (long long)split->chunks, ranks, (long long)batch);
    if (split->micro > 1 && batch % (split->micro * ranks))
        return fail(
            GAN_ERR_USAGE,
            "--micro %lld: the batch (%lld) must divide into %lld equal parts on each of %d "
            "ranks",
            (long long)split->micro, (long long)batch, (long long)split->micro, ranks);
    return GAN_OK;
}
