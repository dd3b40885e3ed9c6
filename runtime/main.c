// main.c - the program ganrun: arguments, environment, signals, exit codes. The only file of the
// runtime that prints, exits or reads the environment.
//
// Results go to standard output, progress and diagnostics to standard error. Exit codes: 0 done, 1
// the user's model, data or reference is wrong, 2 usage, 3 the machine lacks or refused something,
// 70 a bug of ours, 75 saved and stopped.
#define _GNU_SOURCE
#include "cache.h"
#include "commands.h"
#include "process.h"
#include "ranks.h"
#include "verify.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

// --- the console ---------------------------------------------------------------------------------

typedef struct Screen {
    bool live;   // the last line on a terminal may be replaced
    bool silent; // another rank speaks
} Screen;

static void put_error(const char *who, const char *why) {
    const Str part[] = {STR("ganrun: "), str_c(who), str_c(why), STR("\n")};
    if (*why)
        process_say(part, sizeof part / sizeof *part);
}

static void put_result(void *user, Str text) {
    const Screen *s = user;
    if (s->silent)
        return;
    fwrite(text.ptr, 1, text.len, stdout);
}

static void put_line(void *user, Str line) {
    Screen *s = user;
    bool ended = line.len && line.ptr[line.len - 1] == '\n';
    const Str part[] = {s->live ? STR("\r\x1b[K") : STR(""), line, ended ? STR("") : STR("\n")};
    if (s->silent)
        return;
    process_say(part, sizeof part / sizeof *part);
    s->live = false;
}

// What goes beyond the edge is not to begin another line.
static void put_live(void *user, Str line) {
    Screen *s = user;
    const Str part[] = {STR("\r\x1b[K\x1b[?7l"), line, STR("\x1b[?7h")};
    if (s->silent)
        return;
    process_say(part, sizeof part / sizeof *part);
    s->live = true;
}

static void device_notice(void *user, const char *text) {
    const Console *c = user;
    say(c, "%s", text);
}

// --- the environment -----------------------------------------------------------------------------

static Str variable(const char *name) {
    const char *value = getenv(name);
    return value ? str_c(value) : (Str){0};
}

// --- commands ------------------------------------------------------------------------------------

static GanStatus cmd_verify(Arena *perm, const Host *h, const Options *o) {
    Text report = {.arena = perm}, diagnostics = {.arena = perm};
    VerifyOptions v = {.model = o->file.at[0],
                       .reference = o->file.at[1],
                       .setting = o->at[OptSet].pair.at,
                       .settings = o->at[OptSet].pair.n,
                       .real = DtF32,
                       .device = h->device};
    TRY(device_of(o, &v.api, &v.real));
    device_options(o, &v.device);
    TRY(ranks_split(o, &v.split));
    comm_compress(v.device.comm, o->at[OptCompress].given ? COMPRESS_LEAST : 0);
    for (uint32_t i = 0; i < 2; i++)
        if (!file_exists(o->file.at[i]))
            return fail(GAN_ERR_INPUT, "there is no file %.*s", SARG(o->file.at[i]));
    GanStatus st = verify_case(&v, &report, &diagnostics);
    if (diagnostics.n)
        h->console.say(h->console.user, text_str(&diagnostics));
    if (report.n)
        h->console.result(h->console.user, text_str(&report));
    return st;
}

static GanStatus run_command(Arena *perm, const Host *h, const Options *o) {
    static GanStatus (*const run[CommandCount])(Arena *, const Host *, const Options *) = {
        [CommandDemo] = cmd_demo,         [CommandDoctor] = cmd_doctor,
        [CommandTrain] = cmd_train,       [CommandSample] = cmd_sample,
        [CommandEval] = cmd_eval,         [CommandVerify] = cmd_verify,
        [CommandBench] = cmd_bench,       [CommandScale] = cmd_scale,
        [CommandInterp] = cmd_interp,     [CommandExport] = cmd_export,
        [CommandImport] = cmd_import,     [CommandFilm] = cmd_film,
        [CommandReport] = cmd_report,     [CommandDiff] = cmd_diff,
        [CommandDistance] = cmd_distance,
    };
    if (!run[o->command]) // `data` has its own options, `completion` is answered before
        bug("command %d is not refused", (int)o->command);
    return run[o->command](perm, h, o);
}

// --- ranks ---------------------------------------------------------------------------------------

static const char *environment(const char *name) {
    return getenv(name);
}

// Where this program lies: its plugin lies beside it, and others are to start it.
static Str program_path(Arena *a) {
    char self[4096];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    return n > 0 ? str_copy(a, (Str){self, (size_t)n}) : STR("ganrun");
}

static GanStatus join_ranks(Arena *perm, const Options *o, const Launcher *l,
                            const CommOptions *how, Host *h, Comm **out) {
    RankSetup setup = {.launch = *l,
                       .plugin = ranks_plugin(perm, h->self),
                       .comm = *how,
                       .nodes = option_text(o, OptHier, STR("auto"))};
    // A rank is at least two threads: one that waits for messages must give way to one that works.
    setenv("OMPI_MCA_mpi_yield_when_idle", "1", 0);
    TRY(ranks_open(&setup, out));
    h->device.comm = *out;
    TRY(ranks_agree(*perm, *out, "program", '\n', program_text(perm, setup.plugin)));
    TRY(ranks_agree_asked(perm, *out, o));
    char gpu[128] = "";
    const DeviceApi *device = device_find(option_text(o, OptDevice, STR("cpu")));
    if (device->card)
        TRY(device->card(&h->device, gpu, sizeof gpu));
    return ranks_preflight(*perm, *out, &h->console, option_number(o, OptThreads, 0), gpu,
                           h->device.route == RouteStaged, &h->device);
}

static bool runs_on_ranks(Command c) {
    return c == CommandTrain || c == CommandVerify || c == CommandBench;
}

static int finish(GanStatus st) {
    if (st != GAN_OK)
        put_error("", gan_error());
    bool written = fflush(stdout) == 0 && !ferror(stdout);
    if (st == GAN_OK && !written) {
        fputs("ganrun: standard output could not be written\n", stderr);
        return 3;
    }
    return gan_exit_code(st);
}

// Rank 0 speaks where all end the same way; a rank that ends by itself says so. Exit handlers are
// left out then: MPI's thread may be anywhere.
static int finish_rank(Comm *c, GanStatus st) {
    char why[2048], who[32];
    snprintf(why, sizeof why, "%s", gan_error());
    int rank = comm_rank(c), code = gan_exit_code(st);
    if (st == GAN_OK) {
        comm_close(c);
        return finish(st);
    }
    bool all = comm_leave(c, st);
    snprintf(who, sizeof who, "rank %d ends: ", rank);
    if (!all || rank == 0)
        put_error(all ? "" : who, why);
    fflush(NULL);
    comm_disconnect(c);
    if (!all)
        _Exit(code);
    return code;
}

// A rank that fails before it has met the others leaves it to rank 0, which mostly fails in the
// same way, to say why. Launchers end all ranks as soon as one has ended, so this one waits for
// that; if nobody ends it, it has failed alone.
static int finish_unmet(int64_t rank, GanStatus st) {
    static const double Wait = 5; // seconds
    fflush(NULL);
    for (double end = time_now() + Wait; !process_stop_asked() && time_now() < end;)
        nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
    if (!process_stop_asked() && *gan_error())
        fprintf(stderr, "ganrun: rank %lld ends: %s\n", (long long)rank, gan_error());
    return gan_exit_code(st);
}

// Help, a shell's script and the like: what is written needs no command to run.
static GanStatus answer(Arena *perm, int argc, char **argv, bool *answered) {
    Text t = {.arena = perm};
    GanStatus st = args_answer(&t, &ganrun_args, argc, argv, answered);
    if (st == GAN_OK && *answered)
        fwrite(t.at, 1, t.n, stdout);
    return st;
}

static int usage(Arena *perm) {
    Text t = {.arena = perm};
    args_help(&t, &ganrun_args);
    fwrite(t.at, 1, t.n, stderr);
    return 2;
}

// libgomp's idle threads spin for some 15 ms before they sleep, which starves the working ones
// wherever cores are shared with anything else. Our launches follow each other within microseconds:
// 0.1 ms is enough. The library reads its environment as it is loaded, so the program starts itself
// again; what the user set is left alone.
static void wait_calmly(char **argv) {
    if (!getenv("GOMP_SPINCOUNT") && !getenv("OMP_WAIT_POLICY"))
        process_restart_with("GOMP_SPINCOUNT", "2000", argv);
}

// Before this rank has met the others.
static int finish_early(const Launcher *l, GanStatus st) {
    return l->rank ? finish_unmet(l->rank, st) : finish(st);
}

static GanStatus host_open(Arena *perm, const Options *o, Screen *screen, Host *out) {
    Str cache = cache_folder(perm, variable("XDG_CACHE_HOME"), variable("HOME"));
    *out = (Host){
        .console = {put_result, put_line, put_live, process_at_terminal(), process_in_color(),
                    screen},
        .device = {.compiler = variable("GAN_CC"),
                   .notice = device_notice,
                   .cache_dir = option_text(o, OptCache, cache),
                   .route = ranks_route(o)},
        .stop_asked = process_stop_asked,
        .stop_ends = process_stop_ends,
        .self = program_path(perm),
    };
    out->device.user = &out->console;
    bool compiles = ganrun_args.option[OptCache].commands >> o->command & 1 &&
                    !str_eq(option_text(o, OptDevice, (Str){0}), STR("ref"));
    if (compiles && !out->device.cache_dir.len)
        say(&out->console, "compiled kernels are not kept: neither XDG_CACHE_HOME nor HOME is set; "
                           "--cache DIR names a folder");
    return cache_limit(variable("GAN_CACHE_LIMIT"), &out->device.cache_limit);
}

static int run(Arena *perm, const Launcher *l, const Options *o) {
    Screen screen = {.silent = l->rank > 0};
    Host host;
    CommOptions how;
    Comm *comm = NULL;
    if (o->command == CommandTrain || o->command == CommandDemo) {
        process_watch_stop();
        process_stop_ends(l->rank ? "" : "stopped before the run began: nothing is saved", 0);
    }
    GanStatus st = host_open(perm, o, &screen, &host);
    if (st == GAN_OK)
        st = ranks_comm_options(o, &how);
    if (st != GAN_OK)
        return finish_early(l, st);
    if (l->ranks == 1)
        return finish(run_command(perm, &host, o));
    st = join_ranks(perm, o, l, &how, &host, &comm);
    if (!comm) {
        int code = finish_early(l, st);
        fflush(NULL);
        _Exit(code); // MPI's thread may be anywhere
    }
    return finish_rank(comm, st == GAN_OK ? run_command(perm, &host, o) : st);
}

static int run_words(int argc, char **argv) {
    Arena perm;
    Options options;
    if (cpu_unbind())
        process_restart_with("OMP_PROC_BIND", "false", argv);
    if (arena_init(&perm, 0) != GAN_OK)
        return finish(GAN_ERR_MEMORY);
    if (argc < 2)
        return usage(&perm);
    bool answered;
    GanStatus st = answer(&perm, argc - 1, argv + 1, &answered);
    if (st != GAN_OK || answered)
        return finish(st);
    if (!strcmp(argv[1], "--version"))
        return puts("ganrun " GAN_VERSION) < 0 ? 3 : finish(GAN_OK);
    if (!strcmp(argv[1], "data")) {
        int code = data_main(argc - 2, argv + 2, stdout, stderr);
        return code ? code : finish(GAN_OK);
    }
    wait_calmly(argv);
    Launcher launch = launcher_detect(environment);
    st = options_parse(&perm, argc - 1, argv + 1, &options);
    if (st == GAN_OK && launch.ranks > 1 && !runs_on_ranks(options.command))
        st = fail(GAN_ERR_USAGE, "`ganrun %s` runs on one rank: start it without %s", argv[1],
                  launch.by);
    return st == GAN_OK ? run(&perm, &launch, &options) : finish_early(&launch, st);
}

static bool done; // main has the exit code

// A library ends the program by itself where it gets no memory or no thread (libgomp, with 1): the
// machine has refused something.
static void ended_by_a_library(void) {
    if (done)
        return;
    file_drop_temporaries();
    _Exit(gan_exit_code(GAN_ERR_DEVICE));
}

int main(int argc, char **argv) {
    process_open_standard();
    process_need_path();
    speak_as("ganrun");
    process_watch_files();
    process_watch_end();
    atexit(ended_by_a_library);
    int code = run_words(argc, argv);
    done = true;
    return code;
}
