// nvrtc.c - kernel text to machine code, by NVIDIA's run-time compiler.
//
// In: kernels as text. Out: one image of all of them. The library's functions are reached through a
// table (nvrtc.def), so the program neither links it nor needs its headers.
#include "nvrtc.h"

#include "library.h"
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

enum { OK = 0, ERROR_COMPILATION = 6, MOST_OPTIONS = 8, MINIMAL_SINCE = 12040 };

// --- the library ---------------------------------------------------------------------------------

static bool fill(void *library, NvrtcApi *out) {
#define SYM(field, symbol, result, args)                                                           \
    if (!library_symbol(library, #symbol, &out->field, sizeof out->field))                         \
        return false;
#include "nvrtc.def"
    return true;
}

GanStatus nvrtc_open(Nvrtc **out) {
    static const char *const names[] = {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so", NULL};
    *out = NULL;
    void *library = library_open(names);
    if (!library) {
        return GAN_OK;
    }
    Nvrtc *n = mem_alloc(sizeof *n);
    int major, minor;
    if (!n) {
        library_close(library);
        return fail(GAN_ERR_MEMORY, "no memory for the CUDA compiler");
    }
    *n = (Nvrtc){.library = library};
    if (!fill(library, &n->api) || n->api.version(&major, &minor) != OK) {
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
    if (n->api.arch_count(&count) != OK || count > 64 || n->api.archs(known) != OK) {
        return false;
    }
    for (int i = 0; i < count; i++) {
        if (known[i] == arch) {
            return true;
        }
    }
    return false;
}

// --- compiling -----------------------------------------------------------------------------------

// One text, in which every kernel has its own lines: messages name the kernel and count in it.
// roomy[sources]: the kernel's registers come before the number of its blocks (kernel_cuda.h).
static Str joined(Arena *a, const NvrtcJob *job, const bool *roomy) {
    Text t = {.arena = a};
    text_put(&t, STR("#line 1 \"prelude\"\n"));
    text_put(&t, job->prelude);
    for (uint32_t i = 0; i < job->sources; i++) {
        text_fmt(&t, "\n#undef GAN_RESIDENT\n#define GAN_RESIDENT %d\n", roomy[i]);
        text_fmt(&t, "#line 1 \"%.*s\"\n", SARG(job->name[i]));
        text_put(&t, job->source[i]);
    }
    return text_str(&t);
}

static int options(const Nvrtc *n, Arena *a, const NvrtcJob *job, const char **out) {
    int count = 0;
    out[count++] =
        str_format(a, "--gpu-architecture=%s_%d", job->ptx ? "compute" : "sm", job->arch).ptr;
    out[count++] = "--std=c++17";
    if (n->version >= MINIMAL_SINCE) {
        out[count++] = "--minimal"; // the prelude brings what it needs
    }
    out[count++] = "--ptxas-options=-v"; // says what spills
    return count;
}

static GanStatus failed(const Nvrtc *n, int result, const char *doing) {
    return fail(GAN_ERR_DEVICE, "NVRTC %d.%d: %s: %s", n->version / 1000, n->version % 1000 / 10,
                doing, n->api.error_string(result));
}

typedef int SizeFn(void *program, size_t *n);
typedef int TextFn(void *program, char *text);

// One of the program's results, without the 0 byte that texts end in.
static GanStatus fetch(const Nvrtc *n, Arena *a, void *program, SizeFn *size, TextFn *text,
                       bool terminated, Str *out) {
    size_t bytes = 0;
    int result = size(program, &bytes);
    if (result != OK) {
        return failed(n, result, "asking for a size");
    }
    char *at = arena_alloc(a, bytes + 1, 16);
    result = text(program, at);
    if (result != OK) {
        return failed(n, result, "fetching a result");
    }
    *out = (Str){at, terminated && bytes ? bytes - 1 : bytes};
    return GAN_OK;
}

// The log from its first error on: warnings come before.
static Str first_error(Str log) {
    for (size_t at = 0; at < log.len; at += str_find(str_sub(log, at, log.len), '\n') + 1) {
        Str rest = str_sub(log, at, log.len), line = str_sub(rest, 0, str_find(rest, '\n'));
        for (size_t i = 0; i + 6 < line.len; i++) {
            if (str_eq(str_sub(line, i, i + 6), STR("error:"))) {
                return line;
            }
        }
    }
    return str_sub(log, 0, str_find(log, '\n'));
}

static GanStatus compile(const Nvrtc *n, Arena *a, const NvrtcJob *job, void *program,
                         NvrtcImage *out) {
    const char *option[MOST_OPTIONS];
    int count = options(n, a, job, option);
    int result = n->api.compile(program, count, option);
    TRY(fetch(n, a, program, n->api.log_size, n->api.log, true, &out->log));
    if (result == ERROR_COMPILATION) {
        return fail(GAN_ERR_BUG, "NVRTC %d.%d refuses a kernel for %s: %.*s", n->version / 1000,
                    n->version % 1000 / 10, option[0] + sizeof "--gpu-architecture=" - 1,
                    SARG(first_error(out->log)));
    }
    if (result != OK) {
        return failed(n, result, "compiling kernels");
    }
    return job->ptx ? fetch(n, a, program, n->api.ptx_size, n->api.ptx, true, &out->code)
                    : fetch(n, a, program, n->api.cubin_size, n->api.cubin, false, &out->code);
}

static GanStatus compile_text(const Nvrtc *n, Arena *a, const NvrtcJob *job, const bool *roomy,
                              NvrtcImage *out) {
    void *program = NULL;
    Str text = joined(a, job, roomy);
    int result = n->api.create(&program, text.ptr, "kernels", 0, NULL, NULL);
    if (result != OK) {
        return failed(n, result, "reading kernels");
    }
    GanStatus st = compile(n, a, job, program, out);
    n->api.destroy(&program);
    return st;
}

// Marks the kernels with an entry that spills. False: there is none.
static bool spilled(Arena *a, const NvrtcJob *job, Str log, bool *roomy) {
    ResourcesVec used = {0};
    bool any = false;
    resources_read(a, log, &used);
    for (uint32_t i = 0; i < used.n; i++) {
        for (uint32_t k = 0; k < job->sources && used.at[i].stored; k++) {
            roomy[k] |= str_starts(used.at[i].name, job->name[k]);
            any |= roomy[k];
        }
    }
    return any;
}

GanStatus nvrtc_compile(const Nvrtc *n, Arena *a, const NvrtcJob *job, NvrtcImage *out) {
    bool *roomy = arena_array(a, bool, job->sources);
    *out = (NvrtcImage){0};
    TRY(compile_text(n, a, job, roomy, out));
    return spilled(a, job, out->log, roomy) ? compile_text(n, a, job, roomy, out) : GAN_OK;
}
