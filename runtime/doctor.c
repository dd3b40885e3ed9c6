// doctor.c - `ganrun doctor`: checks this machine: what is missing, what that costs, and the
// command that installs it.
#define _GNU_SOURCE
#include "cache.h"
#include "comm_link.h"
#include "commands.h"
#include "library.h"
#include "measure.h"
#include "process.h"
#include "ranks.h"

#include <unistd.h>

static const double MiB = 1 << 20;

typedef VEC(LibraryInfo) Findings;

// Libraries found when this program was built (GAN_HAVE_: runtime/CMakeLists.txt), and whether
// those that are loaded when they are first wanted are there now.
static const struct {
    LibraryInfo info;
    GanStatus (*ready)(void); // NULL: it is linked
} built_with[] = {
    {{"libjpeg", "", "JPEG images cannot be read", "apt-get install libjpeg-dev, and build again",
      GAN_HAVE_JPEG, NULL},
     NULL},
    {{"libwebp", "", "WebP images cannot be read", "apt-get install libwebp-dev, and build again",
      GAN_HAVE_WEBP, NULL},
     webp_ready},
    {{"libhdf5", "", "HDF5 files cannot be read", "apt-get install libhdf5-dev, and build again",
      GAN_HAVE_HDF5, NULL},
     hdf5_ready},
    {{"libsndfile", "", "WAV sounds cannot be read",
      "apt-get install libsndfile1-dev, and build again", GAN_HAVE_SNDFILE, NULL},
     sound_ready},
    {{"openblas", "", "`ganrun eval` has no Frechet distances, as FID is",
      "apt-get install libopenblas-dev, and build again", GAN_HAVE_OPENBLAS, NULL},
     feature_frechet_ready},
    {{"freetype", "", "examples/emoji cannot draw its images",
      "apt-get install libfreetype-dev, and build again", GAN_HAVE_FREETYPE, NULL},
     NULL},
};

static void examine_built(Arena *a, Findings *f) {
    for (size_t i = 0; i < sizeof built_with / sizeof *built_with; i++) {
        LibraryInfo *x = vec_add(a, f);
        *x = built_with[i].info;
        if (x->found && built_with[i].ready && built_with[i].ready() != GAN_OK) {
            x->found = false;
            x->why = str_format(a, "%s", gan_error()).ptr;
            x->fix = "install what it is in";
        }
    }
}

// The first line a program says of itself; *found false: it cannot be started.
static const char *version_of(Arena *a, const char *program, bool *found) {
    const char *const line[] = {program, "--version", NULL};
    Str said;
    int code;
    *found = process_run(a, line, &said, &code) == GAN_OK && code != 127;
    // srun wants to know its cluster before it tells its version
    return *found && code == 0 ? str_z(a, str_sub(said, 0, str_find(said, '\n'))) : "";
}

// What more ranks than one need: the plugin beside this program, and who starts them.
static void examine_ranks(Arena *a, Str self, Findings *f) {
    const LinkPlugin *plugin;
    Str file = ranks_plugin(a, self);
    LibraryInfo mpi = {.name = "MPI",
                       .version = "",
                       .cost = "runs use one rank",
                       .fix = file_exists(file)
                                  ? "apt-get install openmpi-bin"
                                  : "apt-get install libopenmpi-dev, and build again"};
    if (link_plugin_load(file, &plugin) == GAN_OK) {
        char *text = arena_array(a, char, 128);
        plugin->library(text, 128);
        mpi.version = text;
        mpi.found = true;
    } else {
        mpi.why = str_format(a, "%s", gan_error()).ptr;
    }
    vec_push(a, f, mpi);
    LibraryInfo launchers[] = {
        {"mpirun", "", "ranks can be started by srun alone", "apt-get install openmpi-bin", false,
         NULL},
        {"srun", "", "ranks can be started by mpirun alone",
         "apt-get install slurm-client, on a cluster", false, NULL},
    };
    for (size_t i = 0; i < sizeof launchers / sizeof *launchers; i++) {
        LibraryInfo *x = &launchers[i];
        x->version = version_of(a, x->name, &x->found);
        if (i == 0 && x->found && geteuid() == 0)
            x->version = str_format(a,
                                    "%s (as root it needs OMPI_ALLOW_RUN_AS_ROOT=1 and "
                                    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1)",
                                    x->version)
                             .ptr;
        vec_push(a, f, *x);
    }
}

static Findings examine(Arena *a, Str self) {
    Findings f = {0};
    const LibraryInfo *library;
    uint32_t n;
    device_libraries(a, &library, &n);
    for (uint32_t i = 0; i < n; i++)
        vec_push(a, &f, library[i]);
    examine_built(a, &f);
    examine_ranks(a, self, &f);
    return f;
}

static Str as_text(Arena *a, const Findings *f, int threads, const DeviceOptions *o) {
    Text t = {.arena = a};
    text_fmt(&t, "  %-13s %d\n", "threads", threads);
    if (o->cache_dir.len)
        text_fmt(&t, "  %-13s %.*s, %.1f MiB of at most %.1f (GAN_CACHE_LIMIT)\n", "kernel cache",
                 SARG(o->cache_dir), (double)cache_bytes(o->cache_dir) / MiB,
                 (double)o->cache_limit / MiB);
    else
        text_fmt(&t, "  %-13s none: no home folder\n", "kernel cache");
    for (uint32_t i = 0; i < f->n; i++) {
        const LibraryInfo *x = &f->at[i];
        if (x->found)
            text_fmt(&t, "  %-13s %s\n", x->name, *x->version ? x->version : "found");
        else
            text_fmt(&t, "  %-13s missing: %s\n", x->name, x->cost);
        if (!x->found && x->why)
            text_fmt(&t, "  %-13s why: %s\n", "", x->why);
        if (!x->found && x->fix)
            text_fmt(&t, "  %-13s fix: %s\n", "", x->fix);
    }
    return text_str(&t);
}

static Str as_json(Arena *a, const Findings *f, int threads, const DeviceOptions *o) {
    Text t = {.arena = a};
    JsonOut j = {.text = &t};
    json_open(&j, '{');
    json_member_str(&j, "version", STR(GAN_VERSION));
    json_member_int(&j, "threads", threads);
    if (o->cache_dir.len) {
        json_member_str(&j, "cache", o->cache_dir);
        json_member_int(&j, "cache_bytes", (int64_t)cache_bytes(o->cache_dir));
        json_member_int(&j, "cache_limit", (int64_t)o->cache_limit);
    }
    json_member_open(&j, "libraries", '[');
    for (uint32_t i = 0; i < f->n; i++) {
        const LibraryInfo *x = &f->at[i];
        json_open(&j, '{');
        json_member_str(&j, "name", str_c(x->name));
        json_member_bool(&j, "found", x->found);
        json_member_str(&j, "version", str_c(x->version));
        json_member_str(&j, "cost", str_c(x->cost));
        json_member_str(&j, "why", str_c(x->why && !x->found ? x->why : ""));
        json_member_str(&j, "fix", str_c(x->fix ? x->fix : ""));
        json_close(&j, '}');
    }
    json_close(&j, ']');
    json_close(&j, '}');
    text_char(&t, '\n');
    return text_str(&t);
}

GanStatus cmd_doctor(Arena *perm, const Host *h, const Options *o) {
    Findings f = examine(perm, h->self);
    h->console.result(h->console.user, (o->at[OptJson].given ? as_json : as_text)(
                                           perm, &f, data_threads(0), &h->device));
    return GAN_OK;
}
