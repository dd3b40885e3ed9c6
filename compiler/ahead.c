// ahead.c - what `ganc compile` compiles kernels for, and with what.
//
// In: the word behind --target. Out: a GanxTarget. For cuda every architecture is one NVRTC can
// make code for; compiled kernels are kept in the folder where ganrun looks for them too.
#include "ahead.h"
#include "cache.h"
#include "cuda_compile.h"

// What `--target cuda` alone means: the data-centre cards of three generations, where NVRTC has
// them.
static const int usual[] = {80, 90, 100};

static GanStatus compile(void *user, const Plan *const *plan, uint32_t plans, const int *arch,
                         uint32_t archs, Arena *perm, CubinVec *out) {
    const Ahead *a = user;
    return cuda_compile_ahead(a->nvrtc, plan, plans, arch, archs, a->cache, perm, out);
}

static GanStatus add_arch(Ahead *a, int arch) {
    enum { MOST = sizeof a->arch / sizeof *a->arch };
    for (uint32_t i = 0; i < a->target.archs; i++)
        if (a->arch[i] == arch)
            return GAN_OK;
    if (!nvrtc_makes(a->nvrtc, arch))
        return fail(GAN_ERR_USAGE, "--target sm_%d: NVRTC %d.%d makes no code for it", arch,
                    nvrtc_version(a->nvrtc) / 1000, nvrtc_version(a->nvrtc) % 1000 / 10);
    if (a->target.archs == MOST)
        return fail(GAN_ERR_USAGE, "--target: at most %d architectures", (int)MOST);
    a->arch[a->target.archs++] = arch;
    return GAN_OK;
}

static GanStatus add_archs(Ahead *a, Str list) {
    while (list.len) {
        size_t comma = str_find(list, ',');
        Str word = str_sub(list, 0, comma);
        int64_t arch;
        if (!str_starts(word, STR("sm_")) || !str_to_int(str_sub(word, 3, word.len), &arch) ||
            arch < CUDA_OLDEST_ARCH || arch > 999)
            return fail(GAN_ERR_USAGE, "--target cuda: an architecture is sm_%d or later, not %.*s",
                        CUDA_OLDEST_ARCH, SARG(word));
        TRY(add_arch(a, (int)arch));
        list = str_sub(list, comma + 1, list.len);
    }
    return GAN_OK;
}

static GanStatus open_cuda(Arena *perm, Str list, Str cache, Ahead *a) {
    TRY(nvrtc_open(&a->nvrtc));
    if (!a->nvrtc)
        return fail(GAN_ERR_DEVICE, "--target cuda: kernels are compiled by NVRTC, and "
                                    "libnvrtc.so.13 or .12 is not found: install it");
    if (cache.len && cache_dir(perm, cache) == GAN_OK) // else they are compiled every time
        a->cache = cache;
    if (list.len)
        return add_archs(a, list);
    for (size_t i = 0; i < sizeof usual / sizeof *usual; i++)
        if (nvrtc_makes(a->nvrtc, usual[i]))
            TRY(add_arch(a, usual[i]));
    return a->target.archs ? GAN_OK
                           : fail(GAN_ERR_USAGE, "--target cuda: say for which cards, as in "
                                                 "--target cuda:sm_90");
}

GanStatus ahead_open(Arena *perm, Str target, Str cache, Ahead *out) {
    *out = (Ahead){.target = {.name = STR("cpu"), .compile = compile}};
    out->target.arch = out->arch;
    out->target.user = out;
    if (!target.len || str_eq(target, STR("cpu")))
        return GAN_OK;
    Str name = str_sub(target, 0, str_find(target, ':'));
    if (!str_eq(name, STR("cuda")) || target.len == name.len + 1)
        return fail(GAN_ERR_USAGE, "--target is cpu, cuda or cuda:sm_90,..., not %.*s",
                    SARG(target));
    out->target.name = STR("cuda");
    return open_cuda(perm, str_sub(target, name.len + 1, target.len), cache, out);
}

void ahead_close(Ahead *a) {
    nvrtc_close(a->nvrtc);
}
