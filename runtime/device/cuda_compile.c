// cuda_compile.c - kernels as module images that the driver loads.
//
// In: kernel text and the card's architecture. Out: machine code, from the first source that has
// it: the .ganx, the cache on disk, NVRTC. A card newer than the installed NVRTC gets PTX, which
// its driver compiles.
//
// Kernels are assigned to lots, compilation batches, by a hash of their names, which are hashes of
// their text. A lot is one module image, compiled and cached by itself: lots are compiled on all
// cores, and a model that changes a little recompiles few of them.
//
// Spare kernels, which stand in for a library that most machines have, are a lot of their own, the
// last. Compiled ahead of time it is PTX alone: with machine code for every architecture dcgan took
// 1.2 times as long, and the driver can compile it where it is needed.
#include "cuda_compile.h"
#include "cache.h"

// The greatest average number of kernels in a lot: each lot costs a start of the compiler, once to
// PTX and once per architecture, which takes as long as two kernels. From FEW kernels on there are
// two lots, so that two cores have work.
enum { LOT = 64, FEW = 16 };

uint32_t cuda_lot(const Kernel *k, uint32_t lots) {
    return k->spare ? lots - 1 : (uint32_t)(hash64(k->name.ptr, k->name.len, 0) % (lots - 1));
}

// For kernels that are not spare. A power of two: then a few kernels more or less seldom change the
// lots of all.
static uint32_t lots_for(uint32_t kernels) {
    uint32_t lots = kernels < FEW ? 1 : 2;
    while (lots * LOT < kernels)
        lots *= 2;
    return lots;
}

static bool wanted(const CudaKernels *k, uint32_t kernel) {
    return !k->wanted || k->wanted[kernel];
}

// --- what came with the plan ---------------------------------------------------------------------

// Machine code runs on cards of its own major version from its own minor version on.
static const Cubin *cubin_for(const Plan *p, int arch) {
    const Cubin *best = NULL;
    for (uint32_t i = 0; i < p->cubin.n; i++) {
        const Cubin *x = &p->cubin.at[i];
        if (!x->spare && x->arch / 10 == arch / 10 && x->arch <= arch &&
            (!best || x->arch > best->arch))
            best = x;
    }
    return best;
}

// False: some wanted kernel did not come.
static bool take_cubins(const CudaKernels *k, Arena *a, CudaImages *out) {
    const Plan *p = k->plan;
    const Cubin *best = cubin_for(p, k->arch);
    if (!best)
        return false;
    uint32_t lots = best->lots + 1;
    Str *came = arena_array(a, Str, lots);
    *out = (CudaImages){lots, arena_array(a, Str, lots)};
    for (uint32_t i = 0; i < p->cubin.n; i++) {
        const Cubin *x = &p->cubin.at[i];
        if (x->spare && x->arch <= k->arch)
            came[best->lots] = x->code;
        else if (!x->spare && x->arch == best->arch && x->lots == best->lots)
            came[x->lot] = x->code;
    }
    for (uint32_t i = 0; i < p->kernel.n; i++) {
        uint32_t lot = cuda_lot(&p->kernel.at[i], lots);
        if (wanted(k, i) && !came[lot].len)
            return false;
        if (wanted(k, i))
            out->code[lot] = came[lot];
    }
    return true;
}

// --- what is kept --------------------------------------------------------------------------------

static Str kept_at(Arena *a, Str dir, const Nvrtc *n, const NvrtcJob *job) {
    Text key = {.arena = a};
    text_fmt(&key, "nvrtc %d way %d %s %d\n", nvrtc_version(n), NVRTC_WAY,
             job->ptx ? "ptx" : "cubin", job->arch);
    text_put(&key, job->prelude);
    for (uint32_t i = 0; i < job->sources; i++)
        text_put(&key, job->source[i]);
    return cache_path(a, dir, text_str(&key), job->ptx ? ".ptx" : ".cubin");
}

// --- making it -----------------------------------------------------------------------------------

// The newest architecture up to the card's that NVRTC makes code for; 0: none.
static int nearest_arch(const Nvrtc *n, int arch) {
    while (arch >= CUDA_OLDEST_ARCH && !nvrtc_makes(n, arch))
        arch--;
    return arch >= CUDA_OLDEST_ARCH ? arch : 0;
}

// A job for each lot, in `a`; one without sources where no wanted kernel falls into it. Kernels
// that several plans have come once.
typedef struct Dealt {
    uint32_t lots;
    NvrtcJob *job; // [lots] the last: spare kernels
} Dealt;

static Dealt deal(Arena *a, const CudaKernels *k, uint32_t plans) {
    uint32_t most = 0, kernels = 0, spares = 0;
    Map known = {0};
    for (uint32_t p = 0; p < plans; p++)
        most += k[p].plan->kernel.n;
    const Kernel **kernel = arena_array(a, const Kernel *, most);
    for (uint32_t p = 0; p < plans; p++) {
        for (uint32_t i = 0; i < k[p].plan->kernel.n; i++) {
            const Kernel *x = &k[p].plan->kernel.at[i];
            uint64_t h = hash64(x->name.ptr, x->name.len, 0);
            if (!wanted(&k[p], i) || map_find(&known, h))
                continue;
            map_put(a, &known, h, kernels + 1);
            kernel[kernels++] = x;
            spares += x->spare;
        }
    }
    Dealt d = {.lots = lots_for(kernels - spares) + 1};
    Str *text = arena_array(a, Str, d.lots * kernels),
        *name = arena_array(a, Str, d.lots * kernels);
    d.job = arena_array(a, NvrtcJob, d.lots);
    for (uint32_t lot = 0; lot < d.lots; lot++)
        d.job[lot] = (NvrtcJob){.prelude = k->plan->prelude,
                                .source = text + lot * kernels,
                                .name = name + lot * kernels};
    for (uint32_t i = 0; i < kernels; i++) {
        uint32_t lot = cuda_lot(kernel[i], d.lots), at = d.job[lot].sources++;
        text[lot * kernels + at] = kernel[i]->source;
        name[lot * kernels + at] = kernel[i]->name;
    }
    return d;
}

// An image for each job that has sources: what is kept, and what is made now, and kept from then
// on.
static GanStatus make_images(const Nvrtc *n, const NvrtcJob *job, uint32_t jobs, Str dir, Arena *a,
                             Str *out) {
    NvrtcImage *made = arena_array(a, NvrtcImage, jobs);
    NvrtcJob *missing = arena_array(a, NvrtcJob, jobs);
    uint32_t *place = arena_array(a, uint32_t, jobs), lacks = 0;
    Str *path = arena_array(a, Str, jobs);
    for (uint32_t i = 0; i < jobs; i++) {
        path[i] = dir.len ? kept_at(a, dir, n, &job[i]) : (Str){0};
        if (job[i].sources && (!path[i].len || !cache_get(a, path[i], &out[i]))) {
            missing[lacks] = job[i];
            place[lacks++] = i;
        }
    }
    TRY(nvrtc_compile_all(n, a, missing, lacks, made));
    for (uint32_t i = 0; i < lacks; i++) {
        out[place[i]] = made[i].code;
        if (path[place[i]].len) // what cannot be written is not kept: no error
            sealed_write(a, path[place[i]], made[i].code);
    }
    return GAN_OK;
}

// The spare kernels for all of arch[archs]: the PTX that the oldest one's code is made of.
static NvrtcJob spare_job(const Nvrtc *n, const NvrtcJob *spare, const int *arch, uint32_t archs) {
    NvrtcJob job = *spare;
    job.arch = arch[0];
    for (uint32_t i = 1; i < archs; i++)
        job.arch = arch[i] < job.arch ? arch[i] : job.arch;
    job.arch = nvrtc_ptx_arch(n, &job);
    job.ptx = true;
    return job;
}

GanStatus cuda_compile_ahead(const Nvrtc *n, const Plan *const *plan, uint32_t plans,
                             const int *arch, uint32_t archs, Str dir, Arena *a, CubinVec *out) {
    CudaKernels *all = arena_array(a, CudaKernels, plans);
    for (uint32_t i = 0; i < plans; i++)
        all[i].plan = plan[i];
    Dealt d = deal(a, all, plans);
    uint32_t lots = d.lots - 1, cubins = lots * archs, jobs = cubins + 1;
    NvrtcJob *job = arena_array(a, NvrtcJob, jobs);
    Str *code = arena_array(a, Str, jobs);
    for (uint32_t i = 0; i < cubins; i++) {
        job[i] = d.job[i % lots];
        job[i].arch = arch[i / lots];
    }
    job[cubins] = spare_job(n, &d.job[lots], arch, archs);
    TRY(make_images(n, job, jobs, dir, a, code));
    for (uint32_t i = 0; i < jobs; i++)
        if (job[i].sources)
            vec_push(a, out, ((Cubin){job[i].arch, i == cubins, i % lots, lots, code[i]}));
    return GAN_OK;
}

GanStatus cuda_compile(const Nvrtc *n, const CudaKernels *k, Arena *a, CudaImages *out) {
    if (take_cubins(k, a, out))
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
    Dealt d = deal(a, k, 1);
    for (uint32_t i = 0; i < d.lots; i++) {
        d.job[i].arch = arch;
        d.job[i].ptx = arch != k->arch;
    }
    *out = (CudaImages){d.lots, arena_array(a, Str, d.lots)};
    return make_images(n, d.job, d.lots, k->dir, a, out->code);
}
