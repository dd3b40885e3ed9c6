// nvrtc.c - kernel text to machine code, by NVIDIA's run-time compiler.
//
// In: kernels as text. Out: one image of all of them. The library's functions are reached through a
// table (nvrtc.def), so the program neither links it nor needs its headers.
//
// Text is translated to PTX once, for all cards from PTX_ARCH on, and assembled for each:
// translation takes half of the time, and the same PTX rounds alike on every card.
#include "nvrtc.h"

#include "device.h"
#include "image.h"
#include "library.h"
#include "ptx.h"
#include "resources.h"

typedef struct NvrtcApi {
#define SYM(field, symbol, result, args) result(*field) args;
#include "nvrtc.def"
} NvrtcApi;

struct Nvrtc {
    void *library; // owned
    NvrtcApi api;
    int version;
};

enum { OK = 0, ERROR_COMPILATION = 6, ERROR_BUILTINS = 7, MINIMAL_SINCE = 12040 };

// The architecture whose PTX all later cards get: the oldest that has all the kernels use.
enum { PTX_ARCH = 80 };

// --- the library ---------------------------------------------------------------------------------

static const LibraryRow row[] = {
#define SYM(field, symbol, result, args) {#symbol, offsetof(NvrtcApi, field)},
#include "nvrtc.def"
};

GanStatus nvrtc_open(int driver, Nvrtc **out) {
    *out = NULL;
    void *library = library_open(names_for_driver(nvrtc_names, driver));
    if (!library)
        return GAN_OK;
    Nvrtc *n = mem_alloc(sizeof *n);
    int major, minor, code = OK;
    if (!n) {
        library_close(library);
        return fail(GAN_ERR_MEMORY, "no memory for the CUDA compiler");
    }
    *n = (Nvrtc){.library = library};
    const char *lacks = library_fill(library, row, sizeof row / sizeof *row, &n->api);
    if (lacks || (code = n->api.version(&major, &minor)) != OK) {
        if (lacks)
            fail(GAN_ERR_DEVICE, "it has no %s", lacks);
        else
            fail(GAN_ERR_DEVICE, "asked for its version it says: %s", n->api.error_string(code));
        nvrtc_close(n);
        return GAN_OK;
    }
    n->version = major * 1000 + minor * 10;
    *out = n;
    return GAN_OK;
}

void nvrtc_close(Nvrtc *n) {
    if (n) {
        library_close(n->library);
        mem_free(n);
    }
}

int nvrtc_version(const Nvrtc *n) {
    return n->version;
}

bool nvrtc_makes(const Nvrtc *n, int arch) {
    int count = 0, known[64];
    if (n->api.arch_count(&count) != OK || count > 64 || n->api.archs(known) != OK)
        return false;
    for (int i = 0; i < count; i++)
        if (known[i] == arch)
            return true;
    return false;
}

// --- compiling -----------------------------------------------------------------------------------

// One text, in which every kernel has its own lines: messages name the kernel and count in it.
static Str joined(Arena *a, const NvrtcJob *job) {
    Text t = {.arena = a};
    text_put(&t, STR("#line 1 \"prelude\"\n"));
    text_put(&t, job->prelude);
    for (uint32_t i = 0; i < job->sources; i++) {
        text_fmt(&t, "\n#line 1 \"%.*s\"\n", SARG(job->name[i]));
        text_put(&t, job->source[i]);
    }
    return text_str(&t);
}

static GanStatus failed(const Nvrtc *n, int result, const char *doing) {
    return fail(GAN_ERR_DEVICE, "NVRTC %d.%d: %s: %s%s", n->version / 1000, n->version % 1000 / 10,
                doing, n->api.error_string(result),
                result == ERROR_BUILTINS ? " (libnvrtc-builtins.so, which comes with it, is not "
                                           "found, or libstdc++.so.6, which that needs)"
                                         : "");
}

typedef int SizeFn(void *program, size_t *n);
typedef int TextFn(void *program, char *text);

// One of the program's results, without the 0 byte that texts end in.
static GanStatus fetch(const Nvrtc *n, Arena *a, void *program, SizeFn *size, TextFn *text,
                       bool terminated, Str *out) {
    size_t bytes = 0;
    int result = size(program, &bytes);
    if (result != OK)
        return failed(n, result, "querying a size");
    char *at = arena_alloc(a, bytes + 1, 16);
    result = text(program, at);
    if (result != OK)
        return failed(n, result, "fetching a result");
    *out = (Str){at, terminated && bytes ? bytes - 1 : bytes};
    return GAN_OK;
}

// The log from its first error on: warnings come before.
static Str first_error(Str log) {
    for (size_t at = 0; at < log.len; at += str_find(str_sub(log, at, log.len), '\n') + 1) {
        Str rest = str_sub(log, at, log.len), line = str_sub(rest, 0, str_find(rest, '\n'));
        for (size_t i = 0; i + 6 < line.len; i++)
            if (str_eq(str_sub(line, i, i + 6), STR("error:")))
                return line;
    }
    return str_sub(log, 0, str_find(log, '\n'));
}

// Text to PTX or machine code for `arch`, with the compiler's log.
static GanStatus compile(const Nvrtc *n, Arena *a, void *program, int arch, bool ptx,
                         NvrtcImage *out) {
    const char *option[] = {
        str_format(a, "--gpu-architecture=%s_%d", ptx ? "compute" : "sm", arch).ptr,
        "--std=c++17",
        "--fmad=false",       // a value must not depend on the code around it
        "--ptxas-options=-v", // logs what spills
        "--minimal",          // the prelude declares all it needs
    };
    int options = sizeof option / sizeof *option - (n->version < MINIMAL_SINCE);
    int result = n->api.compile(program, options, option);
    TRY(fetch(n, a, program, n->api.log_size, n->api.log, true, &out->log));
    if (result == ERROR_COMPILATION) {
        return fail(GAN_ERR_BUG, "NVRTC %d.%d refuses a kernel for %s: %.*s", n->version / 1000,
                    n->version % 1000 / 10, option[0] + sizeof "--gpu-architecture=" - 1,
                    SARG(first_error(out->log)));
    }
    if (result != OK)
        return failed(n, result, "compiling kernels");
    return ptx ? fetch(n, a, program, n->api.ptx_size, n->api.ptx, true, &out->code)
               : fetch(n, a, program, n->api.cubin_size, n->api.cubin, false, &out->code);
}

static GanStatus compile_text(const Nvrtc *n, Arena *a, Str text, int arch, bool ptx,
                              NvrtcImage *out) {
    void *program = NULL;
    int result = n->api.create(&program, text.ptr, "kernels", 0, NULL, NULL);
    if (result != OK)
        return failed(n, result, "reading kernels");
    GanStatus st = compile(n, a, program, arch, ptx, out);
    n->api.destroy(&program);
    return st;
}

int nvrtc_ptx_arch(const Nvrtc *n, const NvrtcJob *job) {
    return !job->ptx && job->arch > PTX_ARCH && nvrtc_makes(n, PTX_ARCH) ? PTX_ARCH : job->arch;
}

GanStatus nvrtc_translate(const Nvrtc *n, Arena *a, const NvrtcJob *job, NvrtcImage *out) {
    *out = (NvrtcImage){0};
    return compile_text(n, a, joined(a, job), nvrtc_ptx_arch(n, job), true, out);
}

// The entries that spill, or keep room for it.
static uint32_t spilled(Arena *a, Str log, Str **out) {
    ResourcesVec used = {0};
    uint32_t n = 0;
    resources_read(a, log, &used);
    *out = arena_array(a, Str, used.n);
    for (uint32_t i = 0; i < used.n; i++)
        if (used.at[i].stored || used.at[i].stack)
            (*out)[n++] = used.at[i].name;
    return n;
}

GanStatus nvrtc_assemble(const Nvrtc *n, Arena *a, const NvrtcJob *job, Str ptx, NvrtcImage *out) {
    Str *entry;
    *out = (NvrtcImage){.code = ptx};
    if (job->ptx)
        return GAN_OK;
    TRY(compile_text(n, a, ptx_as_cuda(a, ptx), job->arch, false, out));
    uint32_t spills = spilled(a, out->log, &entry);
    if (!spills)
        return GAN_OK;
    NvrtcImage roomy;
    Str again = ptx_as_cuda(a, ptx_with_room(a, ptx, entry, spills));
    TRY(compile_text(n, a, again, job->arch, false, &roomy));
    out->code = image_join(a, out->code, roomy.code);
    out->log = str_format(a, "%.*s\n%.*s", SARG(out->log), SARG(roomy.log));
    return GAN_OK;
}

GanStatus nvrtc_compile(const Nvrtc *n, Arena *a, const NvrtcJob *job, NvrtcImage *out) {
    NvrtcImage ptx;
    TRY(nvrtc_translate(n, a, job, &ptx));
    return nvrtc_assemble(n, a, job, ptx.code, out);
}
