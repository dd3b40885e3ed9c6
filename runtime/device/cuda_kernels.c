// cuda_kernels.c - the kernels of a plan, loaded on the card.
//
// In: a plan, and which of its operations libraries compute. Out: a function of the driver for each
// kernel that is wanted. Most are wanted whatever the libraries support: a thread of their own
// compiles these, or reads them from the cache, while engines are chosen. The others, which take an
// operation's place that a library refuses, are compiled afterwards.
#include "cuda_plan.h"

#include <pthread.h>
#include <string.h>

enum {
    IMAGE_ALIGN = 64,       // bytes, of what the driver reads as an ELF file
    SHARED_FREE = 48 << 10, // bytes of dynamic shared memory that need no opt-in
};

struct CudaAhead {
    const Loaded *l; // borrowed
    pthread_t thread;
    Arena arena;  // owned: the images lie in it
    bool *wanted; // [plan->kernel.n]
    CudaImages images;
    GanStatus status;
    char error[1024]; // the message of a thread is its own
    bool joined;
};

// --- which ---------------------------------------------------------------------------------------

// Marks the kernels of regions that no library computes.
static bool wanted_kernels(const Loaded *l, bool *wanted) {
    const Plan *p = l->plan;
    bool any = false;
    for (uint32_t i = 0; i < p->region.n; i++)
        if (p->region.at[i].kernel != NONE && !l->call[i] && !l->transform[i] && !l->absorbed[i])
            any = wanted[p->region.at[i].kernel] = true;
    return any;
}

// Those of them that are known before the libraries are asked.
static bool certain_kernels(const Loaded *l, bool *wanted) {
    const Plan *p = l->plan;
    Arena scratch = l->arena;
    bool *open = arena_array(&scratch, bool, p->region.n), any = false;
    for (uint32_t i = 0; i < p->region.n; i++) {
        const Region *r = &p->region.at[i];
        open[i] |= r->kernel != NONE && p->kernel.at[r->kernel].fallback;
        if (l->epilogue[i].region != NONE)
            open[l->epilogue[i].region] = true;
    }
    for (uint32_t i = 0; i < p->region.n; i++)
        if (p->region.at[i].kernel != NONE && !open[i])
            any = wanted[p->region.at[i].kernel] = true;
    return any;
}

// --- compiling -----------------------------------------------------------------------------------

// `service`: with the runtime's own.
static GanStatus compile(const Loaded *l, const bool *wanted, bool service, Arena *a,
                         CudaImages *out) {
    Cuda *c = l->cuda;
    CudaKernels k = {l->plan, wanted, c->arch, c->cache_dir, &c->keep, service};
    return c->api->compile(c->api->user, &k, a, out);
}

static GanStatus compile_ahead(void *user) {
    CudaAhead *h = user;
    return compile(h->l, h->wanted, true, &h->arena, &h->images);
}

static void *help(void *user) {
    CudaAhead *h = user;
    h->status = arena_guard(&h->arena, "to compile kernels", compile_ahead, h);
    if (h->status != GAN_OK)
        snprintf(h->error, sizeof h->error, "%s", gan_error());
    return NULL;
}

// What cannot begin is compiled later; so is all where there are no engines to choose.
void cuda_kernels_begin(Loaded *l) {
    if (!l->cuda->dnn)
        return;
    CudaAhead *h = arena_new(&l->arena, CudaAhead);
    h->l = l;
    h->wanted = arena_array(&l->arena, bool, l->plan->kernel.n);
    if (!certain_kernels(l, h->wanted) || arena_init(&h->arena, 0) != GAN_OK)
        return;
    if (pthread_create(&h->thread, NULL, help, h) == 0)
        l->ahead = h;
    else
        arena_release(&h->arena);
}

void cuda_kernels_end(Loaded *l) {
    if (!l->ahead)
        return;
    if (!l->ahead->joined)
        pthread_join(l->ahead->thread, NULL);
    arena_release(&l->ahead->arena);
    l->ahead = NULL;
}

// --- loading -------------------------------------------------------------------------------------

static GanStatus not_for_card(const Cuda *c, const char *words) {
    int driver = 0;
    c->cu->DriverGetVersion(&driver);
    return fail(GAN_ERR_DEVICE,
                "the compiled kernels are not for %s (compute capability %d.%d), or its driver, "
                "for CUDA %d.%d, is older than the NVRTC that made them: compile for it with "
                "--target cuda:sm_%d, or install a newer driver%s%s",
                c->name, c->arch / 10, c->arch % 10, driver / 1000, driver % 1000 / 10, c->arch,
                *words ? "; it says: " : "", words);
}

// The driver gets an aligned, zero-terminated copy: images in a file may have any address. PTX it
// compiles, and says why it cannot.
static GanStatus load_module(Loaded *l, Str image, CUmodule *out) {
    enum { WORDS = 4096 };
    const Cuda *c = l->cuda;
    Arena scratch = l->arena;
    char *at = arena_alloc(&scratch, image.len + 1, IMAGE_ALIGN), words[WORDS] = "";
    CUjit_option option[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
    void *value[] = {words, (void *)(uintptr_t)WORDS};
    memcpy(at, image.ptr, image.len);
    at[image.len] = 0;
    CUresult code = c->cu->ModuleLoadDataEx(out, at, 2, option, value);
    words[WORDS - 1] = 0;
    switch (code) {
    case CUDA_ERROR_NO_BINARY_FOR_GPU:
    case CUDA_ERROR_INVALID_IMAGE:
    case CUDA_ERROR_INVALID_PTX:
    case CUDA_ERROR_UNSUPPORTED_PTX_VERSION:
        return not_for_card(c, words);
    default:
        return cuda_check(c, code, "loading kernels of %.*s%s%.300s", SARG(l->plan->func->name),
                          *words ? ": " : "", words);
    }
}

static GanStatus allow_shared(const Loaded *l, CUfunction f, uint32_t bytes, const char *name) {
    if (bytes > SHARED_FREE)
        CUDA_TRY(l->cuda,
                 FuncSetAttribute(f, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, (int)bytes),
                 "allowing kernel %s %u bytes of shared memory", name, bytes);
    return GAN_OK;
}

static GanStatus find_entry(Loaded *l, const Kernel *k, CUmodule module, CUfunction *out) {
    const char *name = str_z(&l->arena, k->name);
    CUDA_TRY(l->cuda, ModuleGetFunction(out, module, name), "finding kernel %s", name);
    return allow_shared(l, *out, k->shared, name);
}

static GanStatus load_images(Loaded *l, const CudaImages *images) {
    for (uint32_t i = 0; i < images->n; i++)
        TRY(load_module(l, images->code[i], &l->module[l->modules++]));
    return GAN_OK;
}

// Loads the images, and finds the kernels that they have.
static GanStatus load_parts(Loaded *l, const CudaImages part[2]) {
    const Plan *p = l->plan;
    uint32_t first = 0;
    l->module = arena_array(&l->arena, CUmodule, part[0].n + part[1].n);
    l->kernel = arena_array(&l->arena, CUfunction, p->kernel.n);
    for (int k = 0; k < 2; k++, first = l->modules) {
        TRY(load_images(l, &part[k]));
        for (uint32_t i = 0; part[k].n && i < p->kernel.n; i++)
            if (part[k].of[i] != NONE)
                TRY(find_entry(l, &p->kernel.at[i], l->module[first + part[k].of[i]],
                               &l->kernel[i]));
        if (part[k].n && part[k].service != NONE)
            cuda_service_find(l, l->module[first + part[k].service]);
    }
    return GAN_OK;
}

static GanStatus join_ahead(Loaded *l, CudaImages *out) {
    CudaAhead *h = l->ahead;
    pthread_join(h->thread, NULL);
    h->joined = true;
    *out = h->images;
    return h->status == GAN_OK ? GAN_OK : fail(h->status, "%s", h->error);
}

GanStatus cuda_kernels_load(Loaded *l) {
    const uint32_t n = l->plan->kernel.n;
    CudaImages part[2] = {0}; // compiled ahead, and now
    bool *wanted = arena_array(&l->arena, bool, n), more = false;
    if (!wanted_kernels(l, wanted))
        return GAN_OK;
    for (uint32_t i = 0; i < n; i++) {
        wanted[i] &= !l->ahead || !l->ahead->wanted[i];
        more |= wanted[i];
    }
    if (l->ahead)
        TRY(join_ahead(l, &part[0]));
    if (more)
        TRY(compile(l, wanted, !l->ahead, &l->arena, &part[1]));
    TRY(load_parts(l, part));
    cuda_kernels_end(l);
    return GAN_OK;
}
