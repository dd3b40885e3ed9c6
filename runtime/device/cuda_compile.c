// cuda_compile.c - kernels as module images that the driver loads.
//
// In: kernel text and the card's architecture. Out: machine code, from the first source that has
// it: the .ganx, the cache on disk, NVRTC. A card newer than the installed NVRTC gets PTX, which
// its driver compiles.
//
// Kernels are compiled in batches, as many as there are cores: a batch is one module image. Which
// kernels an image has is read in the image itself. The cache keeps an image under what it was
// compiled from, and for each of its kernels a link to it (cache_find): an edited model, and
// another function of the same one, compile the kernels that are new. What is compiled ahead of
// time for a file does not follow those links, and its batches are the same on any machine: the
// bytes are decided by the kernels.
//
// What is compiled ahead of time has the kernels as PTX too, for cards that came later. Spare
// kernels stand in for a library that most machines have. They are PTX alone: with machine code for
// every architecture dcgan took 1.2 times as long, and the driver can compile it where it is
// needed.
//
// The runtime's own kernels are one text more in some batch.
#include "cuda_compile.h"
#include "embed.h"
#include "image.h"

#include <stdlib.h>

enum {
    // The least and greatest average number of kernels in a batch. Each batch costs a start of the
    // compiler, to PTX and per architecture, which takes as long as one or two kernels.
    LEAST = 4,
    MOST = 64,
    FILE_CORES = 2,  // a file has the batches of such a machine, wherever it is made
    MOST_FOUND = 64, // images of the cache that a program's kernels may be spread over
};

uint32_t cuda_batches(uint32_t kernels, uint32_t cores) {
    uint32_t n = kernels / LEAST < cores ? kernels / LEAST : cores;
    if (kernels > MOST * cores)
        return cores * ((kernels + MOST * cores - 1) / (MOST * cores));
    return n ? n : kernels > 0;
}

extern const EmbeddedFile service_text[]; // service.cuh

static const char service_name[] = "gan_begin"; // one of its kernels

// --- which image has a kernel --------------------------------------------------------------------

typedef struct Modules {
    Arena *a;
    StrVec code; // as the driver loads them: a joined image (image.h) is two
    Map of;      // hash of a kernel's name -> number of its module, plus one
} Modules;

static uint64_t kernel_hash(Str name) {
    return hash64(name.ptr, name.len, 0);
}

// A kernel that several have is that of the last.
static void modules_add(Modules *m, Str image) {
    for (Str again; image.len; image = again) {
        StrVec names = {0};
        again = image_again(image);
        image_kernels(m->a, image, &names);
        vec_push(m->a, &m->code,
                 again.len ? str_sub(image, 0, (size_t)(again.ptr - image.ptr)) : image);
        for (uint32_t i = 0; i < names.n; i++)
            map_put(m->a, &m->of, kernel_hash(names.at[i]), m->code.n);
    }
}

static uint32_t modules_find(const Modules *m, Str kernel) { // its number plus one; 0: in none
    return map_find(&m->of, kernel_hash(kernel));
}

static bool wanted(const CudaKernels *k, uint32_t kernel) {
    return !k->wanted || k->wanted[kernel];
}

// The number of module `at` among those picked.
static uint32_t pick(const Modules *m, uint32_t at, uint32_t *number, CudaImages *out) {
    if (!number[at]) {
        out->code[out->n] = m->code.at[at];
        number[at] = ++out->n;
    }
    return number[at] - 1;
}

// The modules with wanted kernels. False: a wanted kernel of the plan is in none.
static bool modules_pick(const Modules *m, const CudaKernels *k, CudaImages *out) {
    uint32_t kernels = k->plan->kernel.n, *number = arena_array(m->a, uint32_t, m->code.n);
    uint32_t service = k->service ? modules_find(m, str_c(service_name)) : 0;
    *out = (CudaImages){.code = arena_array(m->a, Str, m->code.n),
                        .of = arena_array(m->a, uint32_t, kernels)};
    for (uint32_t i = 0; i < kernels; i++) {
        out->of[i] = NONE;
        if (!wanted(k, i))
            continue;
        uint32_t at = modules_find(m, k->plan->kernel.at[i].name);
        if (!at)
            return false;
        out->of[i] = pick(m, at - 1, number, out);
    }
    out->service = service ? pick(m, service - 1, number, out) : NONE;
    return true;
}

// --- what came with the plan ---------------------------------------------------------------------

// Machine code runs on cards of its own major version from its own minor version on. 0: none.
static int best_arch(const Plan *p, int arch) {
    int best = 0;
    for (uint32_t i = 0; i < p->cubin.n; i++) {
        const Cubin *x = &p->cubin.at[i];
        if (!x->ptx && x->arch / 10 == arch / 10 && x->arch <= arch && x->arch > best)
            best = x->arch;
    }
    return best;
}

// Machine code for the card, where there is some. False: some wanted kernel did not come.
static bool take_cubins(const CudaKernels *k, Arena *a, CudaImages *out) {
    const Plan *p = k->plan;
    int best = best_arch(p, k->arch);
    Modules came = {.a = a};
    for (int ptx = 1; ptx >= 0; ptx--) { // what is added later comes first
        for (uint32_t i = 0; i < p->cubin.n; i++) {
            const Cubin *x = &p->cubin.at[i];
            if (x->ptx == ptx && (ptx ? x->arch <= k->arch : x->arch == best))
                modules_add(&came, x->code);
        }
    }
    return modules_pick(&came, k, out);
}

// --- kernels for one architecture ----------------------------------------------------------------

typedef VEC(const Kernel *) KernelRefs;

typedef struct Target {
    int arch;
    bool ptx;
    bool file;         // for a file, of the same bytes everywhere
    KernelRefs kernel; // each once
    Str prelude, dir;
    CacheKeep *keep;      // of dir
    Str key;              // all that decides a kernel's code but its text
    StrVec image;         // from the cache, then compiled now
    Modules found;        // in these
    Str path[MOST_FOUND]; // where the cache has an image
    uint32_t paths;
} Target;

typedef struct Batch {
    Target *target;
    KernelRefs kernel;
    size_t length; // of their texts
    Str path;      // in the cache; empty: it is not kept
    Str code;
} Batch;
typedef VEC(Batch) BatchVec;

static Str target_path(Arena *a, const Target *t, Str text, const char *ext) {
    return t->dir.len ? cache_path_of(a, t->dir, t->key, text, ext) : (Str){0};
}

static Str link_path(Arena *a, const Target *t, const Kernel *k) {
    return target_path(a, t, k->source, ".kernel");
}

static void target_add(Target *t, Str image) {
    vec_push(t->found.a, &t->image, image);
    modules_add(&t->found, image);
}

// The images of the cache that have some of the kernels.
static void target_find(Arena *a, Target *t) {
    for (uint32_t i = 0; t->dir.len && !t->file && i < t->kernel.n; i++) {
        uint32_t paths = t->paths;
        Str image;
        if (modules_find(&t->found, t->kernel.at[i]->name))
            continue;
        cache_find(a, link_path(a, t, t->kernel.at[i]), t->path, &t->paths, MOST_FOUND);
        if (t->paths > paths && sealed_read(a, t->path[paths], &image))
            target_add(t, image);
    }
}

static Str batch_path(Arena *a, const Batch *b) {
    Text all = {.arena = a};
    for (uint32_t i = 0; i < b->kernel.n; i++)
        text_put(&all, b->kernel.at[i]->source);
    return target_path(a, b->target, text_str(&all), b->target->ptx ? ".ptx" : ".cubin");
}

// The longest text first; among equals by name, so that the order is that of no sort.
static int by_length(const void *a, const void *b) {
    const Kernel *x = *(const Kernel *const *)a, *y = *(const Kernel *const *)b;
    return x->source.len != y->source.len
               ? (x->source.len < y->source.len) - (x->source.len > y->source.len)
               : str_cmp(x->name, y->name);
}

// Deals the kernels that no image has out over new batches whose texts are about equally long.
static void target_deal(Arena *a, Target *t, BatchVec *all) {
    KernelRefs missing = {0};
    uint32_t first = all->n;
    for (uint32_t i = 0; i < t->kernel.n; i++)
        if (!modules_find(&t->found, t->kernel.at[i]->name))
            vec_push(a, &missing, t->kernel.at[i]);
    uint32_t n = cuda_batches(missing.n, t->file ? FILE_CORES : nvrtc_threads());
    for (uint32_t i = 0; i < n; i++)
        vec_push(a, all, (Batch){.target = t});
    if (missing.n)
        qsort(missing.at, missing.n, sizeof *missing.at, by_length);
    for (uint32_t i = 0; i < missing.n; i++) {
        Batch *least = all->at + first;
        for (uint32_t b = first; b < all->n; b++)
            least = all->at[b].length < least->length ? &all->at[b] : least;
        vec_push(a, &least->kernel, missing.at[i]);
        least->length += missing.at[i]->source.len;
    }
    for (uint32_t b = first; b < all->n; b++)
        all->at[b].path = batch_path(a, &all->at[b]);
}

static NvrtcJob batch_job(Arena *a, const Batch *b) {
    uint32_t n = b->kernel.n;
    Str *source = arena_array(a, Str, n), *name = arena_array(a, Str, n);
    for (uint32_t i = 0; i < n; i++) {
        source[i] = b->kernel.at[i]->source;
        name[i] = b->kernel.at[i]->name;
    }
    const Target *t = b->target;
    return (NvrtcJob){t->prelude, source, name, n, t->arch, t->ptx};
}

typedef struct Made {
    const BatchVec *all;
    const uint32_t *of; // the batch of each job
} Made;

// Keeps a batch's image. What cannot be written is not kept, and told of: no error.
static void batch_keep(void *user, Arena scratch, uint32_t job, Str code) {
    const Made *m = user;
    const Batch *b = &m->all->at[m->of[job]];
    if (!b->path.len || !sealed_keep(b->target->keep, &scratch, b->path, code))
        return;
    for (uint32_t i = 0; i < b->kernel.n; i++)
        cache_link(&scratch, link_path(&scratch, b->target, b->kernel.at[i]), b->path);
}

// Compiles the batches, but those that the cache has: another process may have been as quick, or
// links could not be made.
static GanStatus batches_make(const Nvrtc *n, Arena *a, BatchVec *all) {
    NvrtcJob *job = arena_array(a, NvrtcJob, all->n);
    NvrtcImage *made = arena_array(a, NvrtcImage, all->n);
    uint32_t *of = arena_array(a, uint32_t, all->n), jobs = 0;
    for (uint32_t i = 0; i < all->n; i++) {
        Batch *b = &all->at[i];
        if (b->path.len && sealed_read(a, b->path, &b->code))
            continue;
        job[jobs] = batch_job(a, b);
        of[jobs++] = i;
    }
    TRY(nvrtc_compile_all(n, a, job, jobs, batch_keep, &(Made){all, of}, made));
    for (uint32_t i = 0; i < jobs; i++)
        all->at[of[i]].code = made[i].code;
    for (uint32_t i = 0; i < all->n; i++)
        target_add(all->at[i].target, all->at[i].code);
    return GAN_OK;
}

// Images for all targets.
static GanStatus targets_make(const Nvrtc *n, Arena *a, Target *t, uint32_t targets) {
    BatchVec all = {0};
    Str own = hash_hex(a, hash128(service_text[0].text, service_text[0].len)); // not in their names
    for (uint32_t i = 0; i < targets; i++) {
        Str prelude = hash_hex(a, hash128(t[i].prelude.ptr, t[i].prelude.len));
        t[i].key =
            str_format(a, "nvrtc %d way %d %s %d %.*s %.*s", nvrtc_version(n), NVRTC_REVISION,
                       t[i].ptx ? "ptx" : "cubin", t[i].arch, SARG(prelude), SARG(own));
        t[i].found.a = a;
        target_find(a, &t[i]);
        target_deal(a, &t[i], &all);
    }
    return batches_make(n, a, &all);
}

// --- compiling -----------------------------------------------------------------------------------

// The newest architecture up to the card's that NVRTC makes code for; 0: none.
static int nearest_arch(const Nvrtc *n, int arch) {
    while (arch >= CUDA_OLDEST_ARCH && !nvrtc_makes(n, arch))
        arch--;
    return arch >= CUDA_OLDEST_ARCH ? arch : 0;
}

// Of all functions' kernels each once: the fallbacks, or the others.
static KernelRefs kernels_of(Arena *a, const Plan *const *plan, uint32_t plans, bool fallback) {
    KernelRefs out = {0};
    Map known = {0};
    for (uint32_t p = 0; p < plans; p++) {
        for (uint32_t i = 0; i < plan[p]->kernel.n; i++) {
            const Kernel *k = &plan[p]->kernel.at[i];
            if (k->fallback != fallback || map_find(&known, kernel_hash(k->name)))
                continue;
            map_put(a, &known, kernel_hash(k->name), 1);
            vec_push(a, &out, k);
        }
    }
    return out;
}

static const Kernel *service_kernel(Arena *a) {
    Kernel *k = arena_new(a, Kernel);
    k->name = str_c(service_name);
    k->source = (Str){service_text[0].text, service_text[0].len};
    return k;
}

// The architecture of the PTX that is for all of arch[archs].
static int oldest_ptx(const Nvrtc *n, const int *arch, uint32_t archs) {
    NvrtcJob job = {.arch = arch[0]};
    for (uint32_t i = 1; i < archs; i++)
        job.arch = arch[i] < job.arch ? arch[i] : job.arch;
    return nvrtc_ptx_arch(n, &job);
}

GanStatus cuda_compile_ahead(const Nvrtc *n, const CudaPlans *k, Arena *a, CubinVec *out) {
    uint32_t targets = k->archs + 2; // PTX of all kernels, then of the fallbacks
    Target *t = arena_array(a, Target, targets);
    KernelRefs kernel = kernels_of(a, k->plan, k->plans, false);
    vec_push(a, &kernel, service_kernel(a));
    for (uint32_t i = 0; i < targets; i++) {
        bool ptx = i >= k->archs;
        t[i] = (Target){ptx ? oldest_ptx(n, k->arch, k->archs) : k->arch[i],
                        .ptx = ptx,
                        .file = true,
                        .kernel = kernel,
                        .prelude = k->plan[0]->prelude,
                        .dir = k->dir,
                        .keep = k->keep};
    }
    t[targets - 1].kernel = kernels_of(a, k->plan, k->plans, true);
    TRY(targets_make(n, a, t, targets));
    for (uint32_t i = 0; i < targets; i++)
        for (uint32_t image = 0; image < t[i].image.n; image++)
            vec_push(a, out, ((Cubin){t[i].arch, t[i].ptx, t[i].image.at[image]}));
    return GAN_OK;
}

GanStatus cuda_compile(const Nvrtc *n, const CudaKernels *k, Arena *a, CudaImages *out) {
    bool compiles = n && !best_arch(k->plan, k->arch); // rather than the driver does
    if (!compiles && take_cubins(k, a, out))
        return GAN_OK;
    if (!n)
        return fail(GAN_ERR_DEVICE,
                    "kernels are compiled by NVRTC, and libnvrtc.so.13 or .12 is not found: "
                    "install it, or give a model that was compiled with `ganc compile --target "
                    "cuda:sm_%d`; --device cpu works here",
                    k->arch);
    int arch = nearest_arch(n, k->arch);
    if (!arch)
        return fail(GAN_ERR_DEVICE,
                    "NVRTC %d.%d makes no code for compute capability %d.%d: install an older or "
                    "newer one that does, or use --device cpu",
                    nvrtc_version(n) / 1000, nvrtc_version(n) % 1000 / 10, k->arch / 10,
                    k->arch % 10);
    Target t = {.arch = arch,
                .ptx = arch != k->arch,
                .prelude = k->plan->prelude,
                .dir = k->dir,
                .keep = k->keep};
    for (uint32_t i = 0; i < k->plan->kernel.n; i++)
        if (wanted(k, i))
            vec_push(a, &t.kernel, &k->plan->kernel.at[i]);
    if (k->service)
        vec_push(a, &t.kernel, service_kernel(a));
    TRY(targets_make(n, a, &t, 1));
    if (!modules_pick(&t.found, k, out))
        return fail(GAN_ERR_DEVICE, "NVRTC %d.%d: a kernel is not found in what it compiled",
                    nvrtc_version(n) / 1000, nvrtc_version(n) % 1000 / 10);
    return GAN_OK;
}
