// ahead.c - what `ganc compile` compiles kernels for, and with what.
//
// In: the word behind --target. Out: a GanxTarget. For cuda every architecture is one NVRTC can
// make code for; compiled kernels are kept in the folder where ganrun looks for them too, and whole
// compiled models beside them, under the hash of the program that made them.
#include "ahead.h"
#include "cache.h"
#include "cuda_compile.h"
#include "plan.h"

// What `--target cuda` alone means: the data-centre cards of three generations, where NVRTC has
// them.
static const int usual[] = {80, 90, 100};

// Does the compiler's message name this kernel?
static bool names(Str message, Str kernel) {
    for (size_t i = 0; i + kernel.len <= message.len; i++)
        if (str_starts(str_sub(message, i, message.len), kernel))
            return true;
    return false;
}

// The message, and which line of the model the refused kernel was made of.
static GanStatus refused(Arena *perm, const Plan *const *plan, uint32_t plans) {
    Str message = str_copy(perm, str_c(gan_error()));
    for (uint32_t i = 0; i < plans; i++) {
        for (uint32_t k = 0; k < plan[i]->region.n; k++) {
            const Region *r = &plan[i]->region.at[k];
            SourceLineVec line = {0};
            if (r->kernel == NONE || !names(message, plan[i]->kernel.at[r->kernel].name))
                continue;
            region_lines(perm, plan[i], r, &line);
            if (line.n)
                return fail(GAN_ERR_BUG, "%.*s; it is made of %.*s:%u: %.*s", SARG(message),
                            SARG(line.at[0].file), line.at[0].number, SARG(line.at[0].text));
        }
    }
    return fail(GAN_ERR_BUG, "%.*s", SARG(message));
}

static GanStatus compile(void *user, const Plan *const *plan, uint32_t plans, const int *arch,
                         uint32_t archs, Arena *perm, CubinVec *out) {
    const Ahead *a = user;
    const CudaPlans all = {plan, plans, arch, archs, a->cache, a->keep};
    GanStatus st = cuda_compile_ahead(a->nvrtc, &all, perm, out);
    return st == GAN_ERR_BUG ? refused(perm, plan, plans) : st;
}

// --- whole models --------------------------------------------------------------------------------

static Str path_of(const Ahead *a, Arena *perm, Str key) {
    Text whole = {.arena = perm};
    text_fmt(&whole, "%.*s nvrtc %d\n", SARG(a->maker), a->nvrtc ? nvrtc_version(a->nvrtc) : 0);
    text_put(&whole, key);
    return cache_path(perm, a->cache, text_str(&whole), ".ganx");
}

static bool find(void *user, Arena *perm, Str key, Str *out) {
    return sealed_read(perm, path_of(user, perm, key), out);
}

static void keep(void *user, Arena *perm, Str key, Str bytes) {
    sealed_keep(((Ahead *)user)->keep, perm, path_of(user, perm, key), bytes);
}

// The hash of this very program: another one may make other bytes of the same model. Where the
// system does not show it, whole models are not kept.
static void keep_models(Arena *perm, Ahead *a) {
    FileMap self;
    if (file_map(STR("/proc/self/exe"), &self) != GAN_OK)
        return;
    a->maker = hash_hex(perm, hash128(self.ptr, self.n));
    a->target.find = find;
    a->target.keep = keep;
    file_unmap(&self);
}

// --- targets -------------------------------------------------------------------------------------

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

static GanStatus open_cuda(Str list, Ahead *a) {
    TRY(nvrtc_open(0, &a->nvrtc));
    if (!a->nvrtc)
        return fail(GAN_ERR_DEVICE, "--target cuda: kernels are compiled by NVRTC, and "
                                    "libnvrtc.so.13 or .12 is not found: install it");
    if (list.len)
        return add_archs(a, list);
    for (size_t i = 0; i < sizeof usual / sizeof *usual; i++)
        if (nvrtc_makes(a->nvrtc, usual[i]))
            TRY(add_arch(a, usual[i]));
    return a->target.archs ? GAN_OK
                           : fail(GAN_ERR_USAGE, "--target cuda: say for which cards, as in "
                                                 "--target cuda:sm_90");
}

GanStatus ahead_open(Arena *perm, Str target, const AheadVariables *v, Ahead *out) {
    Str cache = cache_folder(perm, v->xdg_cache_home, v->home);
    uint64_t most;
    *out = (Ahead){.target = {.name = STR("cpu"), .compile = compile},
                   .keep = arena_new(perm, CacheKeep)};
    *out->keep = (CacheKeep){.notice = v->notice, .user = v->user};
    out->target.arch = out->arch;
    out->target.user = out;
    TRY(cache_limit(v->gan_cache_limit, &most));
    if (cache.len && cache_dir(perm, cache, most) == GAN_OK) { // else all is compiled every time
        out->cache = cache;
        keep_models(perm, out);
    } else if (cache.len) {
        cache_tell(out->keep, perm);
    }
    if (!target.len || str_eq(target, STR("cpu")))
        return GAN_OK;
    Str name = str_sub(target, 0, str_find(target, ':'));
    if (!str_eq(name, STR("cuda")) || target.len == name.len + 1)
        return fail(GAN_ERR_USAGE, "--target is cpu, cuda or cuda:sm_90,..., not %.*s",
                    SARG(target));
    out->target.name = STR("cuda");
    return open_cuda(str_sub(target, name.len + 1, target.len), out);
}

void ahead_close(Ahead *a) {
    nvrtc_close(a->nvrtc);
}
