// cuda_compile.c - a plan's kernels as an image the driver loads.
//
// In: kernel text and the card's architecture. Out: machine code, the first there is of: what came
// with the plan, what is kept on disk, what NVRTC makes now. One module per plan. A card newer than
// the NVRTC at hand gets PTX, which its driver compiles.
#include "cuda_compile.h"
#include "cache.h"

// --- what came with the plan ---------------------------------------------------------------------

// Machine code runs on cards of its own major version from its own minor version on.
static const Cubin *cubin_for(const Plan *p, int arch) {
    const Cubin *best = NULL;
    for (uint32_t i = 0; i < p->cubin.n; i++) {
        const Cubin *x = &p->cubin.at[i];
        if (x->arch / 10 == arch / 10 && x->arch <= arch && (!best || x->arch > best->arch))
            best = x;
    }
    return best;
}

// --- what is kept --------------------------------------------------------------------------------

// The text without its comments: what they say does not decide what is compiled.
static void put_bare(Text *t, Str s) {
    for (size_t i = 0; i < s.len;) {
        Str rest = str_sub(s, i, s.len);
        if (str_starts(rest, STR("//"))) {
            i += str_find(rest, '\n');
        } else if (str_starts(rest, STR("/*"))) {
            for (i += 2; i < s.len && !str_starts(str_sub(s, i, s.len), STR("*/")); i++)
                ;
            i += 2;
        } else {
            text_char(t, s.ptr[i++]);
        }
    }
}

static Str kept_at(Arena *a, Str dir, const Nvrtc *n, const NvrtcJob *job) {
    Text key = {.arena = a};
    text_fmt(&key, "nvrtc %d %s %d\n", nvrtc_version(n), job->ptx ? "ptx" : "cubin", job->arch);
    put_bare(&key, job->prelude);
    for (uint32_t i = 0; i < job->sources; i++)
        put_bare(&key, job->source[i]);
    return cache_path(a, dir, text_str(&key), job->ptx ? ".ptx" : ".cubin");
}

// --- making it -----------------------------------------------------------------------------------

// The newest architecture up to the card's that NVRTC makes code for; 0: none.
static int nearest_arch(const Nvrtc *n, int arch) {
    while (arch >= CUDA_OLDEST_ARCH && !nvrtc_makes(n, arch))
        arch--;
    return arch >= CUDA_OLDEST_ARCH ? arch : 0;
}

// A kernel that several plans have comes once, with its second entry if any has that.
static void job_add(NvrtcJob *job, Arena *a, Map *known, const Kernel *k, Str *text, Str *name) {
    uint64_t h = hash64(k->name.ptr, k->name.len, 0);
    uint32_t at = map_find(known, h);
    if (!at) {
        at = ++job->sources;
        map_put(a, known, h, at);
        name[at - 1] = k->name;
    }
    if (!text[at - 1].len || k->many)
        text[at - 1] = k->source;
}

static NvrtcJob make_job(Arena *a, const Plan *const *plan, uint32_t plans, const bool *wanted) {
    uint32_t kernels = 0;
    Map known = {0};
    for (uint32_t p = 0; p < plans; p++)
        kernels += plan[p]->kernel.n;
    Str *text = arena_array(a, Str, kernels), *name = arena_array(a, Str, kernels);
    NvrtcJob job = {.source = text, .name = name};
    for (uint32_t p = 0; p < plans; p++)
        for (uint32_t i = 0; i < plan[p]->kernel.n; i++)
            if (!wanted || wanted[i]) {
                job.prelude = plan[p]->prelude;
                job_add(&job, a, &known, &plan[p]->kernel.at[i], text, name);
            }
    return job;
}

// Machine code for each architecture: what is kept, and what is made now, and kept from then on.
static GanStatus make_cubins(const Nvrtc *n, NvrtcJob *job, const int *arch, uint32_t archs,
                             Str dir, Arena *a, Str *out) {
    Str *path = arena_array(a, Str, archs);
    NvrtcImage *made = arena_array(a, NvrtcImage, archs);
    int *missing = arena_array(a, int, archs);
    uint32_t *place = arena_array(a, uint32_t, archs), lacks = 0;
    for (uint32_t i = 0; i < archs; i++) {
        job->arch = arch[i];
        path[i] = dir.len ? kept_at(a, dir, n, job) : (Str){0};
        if (!path[i].len || !cache_get(a, path[i], &out[i])) {
            missing[lacks] = arch[i];
            place[lacks++] = i;
        }
    }
    if (lacks)
        TRY(nvrtc_compile_archs(n, a, job, missing, lacks, made));
    for (uint32_t i = 0; i < lacks; i++) {
        out[place[i]] = made[i].code;
        if (path[place[i]].len)
            sealed_write(a, path[place[i]],
                         made[i].code); // what cannot be written is not kept: no error
    }
    return GAN_OK;
}

// PTX for a card that NVRTC makes no machine code for.
static GanStatus make_ptx(const Nvrtc *n, NvrtcJob *job, Str dir, Arena *a, Str *out) {
    NvrtcImage made;
    job->ptx = true;
    Str path = dir.len ? kept_at(a, dir, n, job) : (Str){0};
    if (path.len && cache_get(a, path, out))
        return GAN_OK;
    TRY(nvrtc_compile(n, a, job, &made));
    *out = made.code;
    if (path.len)
        sealed_write(a, path, made.code);
    return GAN_OK;
}

GanStatus cuda_compile_ahead(const Nvrtc *n, const Plan *const *plan, uint32_t plans,
                             const int *arch, uint32_t archs, Str dir, Arena *a, Str *out) {
    NvrtcJob job = make_job(a, plan, plans, NULL);
    return make_cubins(n, &job, arch, archs, dir, a, out);
}

GanStatus cuda_compile(const Nvrtc *n, const CudaKernels *k, Arena *a, Str *image) {
    const Cubin *ready = cubin_for(k->plan, k->arch);
    if (ready) {
        *image = ready->code;
        return GAN_OK;
    }
    if (!n)
        return fail(GAN_ERR_DEVICE,
                    "kernels are compiled by NVRTC, and libnvrtc.so.13 or .12 is not found: "
                    "install it, or give a model that was compiled with `ganc compile --target "
                    "cuda:sm_%d`; --device cpu works here",
                    k->arch);
    NvrtcJob job = make_job(a, &k->plan, 1, k->wanted);
    job.arch = nearest_arch(n, k->arch);
    if (!job.arch)
        return fail(GAN_ERR_DEVICE,
                    "NVRTC %d.%d makes no code for compute capability %d.%d: install an older or "
                    "newer one that does, or use --device cpu",
                    nvrtc_version(n) / 1000, nvrtc_version(n) % 1000 / 10, k->arch / 10,
                    k->arch % 10);
    return job.arch == k->arch ? make_cubins(n, &job, &k->arch, 1, k->dir, a, image)
                               : make_ptx(n, &job, k->dir, a, image);
}
