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

static GanStatus make_job(const Nvrtc *n, const CudaKernels *k, Arena *a, NvrtcJob *out) {
    const Plan *p = k->plan;
    Str *text = arena_array(a, Str, p->kernel.n), *name = arena_array(a, Str, p->kernel.n);
    *out = (NvrtcJob){
        .prelude = p->prelude, .source = text, .name = name, .arch = nearest_arch(n, k->arch)};
    for (uint32_t i = 0; i < p->kernel.n; i++) {
        if (k->wanted && !k->wanted[i])
            continue;
        text[out->sources] = p->kernel.at[i].source;
        name[out->sources++] = p->kernel.at[i].name;
    }
    out->ptx = out->arch != k->arch;
    if (!out->arch)
        return fail(GAN_ERR_DEVICE,
                    "NVRTC %d.%d makes no code for compute capability %d.%d: install an older or "
                    "newer one that does, or use --device cpu",
                    nvrtc_version(n) / 1000, nvrtc_version(n) % 1000 / 10, k->arch / 10,
                    k->arch % 10);
    return GAN_OK;
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
    NvrtcJob job;
    NvrtcImage made;
    TRY(make_job(n, k, a, &job));
    Str path = k->dir.len ? kept_at(a, k->dir, n, &job) : (Str){0};
    if (path.len && cache_get(a, path, image))
        return GAN_OK;
    TRY(nvrtc_compile(n, a, &job, &made));
    *image = made.code;
    if (path.len)
        sealed_write(a, path, made.code); // what cannot be written is not kept: no error
    return GAN_OK;
}
