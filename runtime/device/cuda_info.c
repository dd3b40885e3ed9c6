// cuda_info.c - the CUDA libraries of this machine and their versions, for doctor. Each is queried
// by itself, so that one that is missing or broken hides no other. No CUDA header is needed, so a
// program built without them reports the same.
#include "device.h"
#include "library.h"
#include "nvrtc.h"

const char *const driver_names[] = {"libcuda.so.1", NULL};
const char *const cudnn_names[] = {"libcudnn.so.9", NULL};
const char *const nccl_names[] = {"libnccl.so.2", NULL};
// NVRTC 13 comes last again: an older driver refuses its code by a message that says why.
const char *const nvrtc_names[] = {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so",
                                   "libnvrtc.so.13", NULL};
const char *const cufft_names[] = {"libcufft.so.12", "libcufft.so.11", NULL};
const char *const cupti_names[] = {"libcupti.so.13", "libcupti.so.12", NULL};

const char *const *names_for_driver(const char *const *names, int driver) {
    return driver && driver < 13000 ? names + 1 : names;
}

GanStatus driver_serves(int driver, int built_for) {
    return !driver || driver / 1000 >= built_for / 1000
               ? GAN_OK
               : fail(GAN_ERR_DEVICE,
                      "it is built for CUDA %d, and the NVIDIA driver serves CUDA %d.%d and older",
                      built_for / 1000, driver / 1000, driver % 1000 / 10);
}

// "13.0" of 13000.
static const char *version_text(Arena *a, int version) {
    return str_format(a, "%d.%d", version / 1000, version % 1000 / 10).ptr;
}

// What was found of a library: its version, as it says it. NULL: it cannot be used, and why.
typedef struct Found {
    const char *version, *why;
} Found;

static Found found(const char *version) {
    return (Found){version, NULL};
}

// For the reason that the last call gave.
static Found not_found(Arena *a) {
    return (Found){NULL, str_format(a, "%s", gan_error()).ptr};
}

// For what it answered when it was called.
static Found says(Arena *a, int code) {
    return (Found){NULL, str_format(a, "asked for its version it fails (%d)", code).ptr};
}

// False, with gan_error() saying so: the library has no such function.
static bool has(void *library, const char *symbol, void *field, size_t size) {
    if (library_symbol(library, symbol, field, size))
        return true;
    fail(GAN_ERR_DEVICE, "it has no %s", symbol);
    return false;
}

// --- the driver and its first card ---------------------------------------------------------------

typedef struct Driver {
    int (*init)(unsigned flags);
    int (*version)(int *out);
    int (*count)(int *out);
    int (*name)(char *out, int n, int device);
    int (*attribute)(int *out, int which, int device);
    int (*memory)(size_t *out, int device);
    int (*words)(int code, const char **out);
} Driver;

static bool driver_fill(void *cuda, Driver *d) {
    return has(cuda, "cuInit", &d->init, sizeof d->init) &&
           has(cuda, "cuDriverGetVersion", &d->version, sizeof d->version) &&
           has(cuda, "cuDeviceGetCount", &d->count, sizeof d->count) &&
           has(cuda, "cuDeviceGetName", &d->name, sizeof d->name) &&
           has(cuda, "cuDeviceGetAttribute", &d->attribute, sizeof d->attribute) &&
           has(cuda, "cuDeviceTotalMem_v2", &d->memory, sizeof d->memory) &&
           has(cuda, "cuGetErrorString", &d->words, sizeof d->words);
}

// "CUDA 13.0, 1 card: NVIDIA H200, compute capability 9.0, 139.8 GiB". It stays loaded: once begun
// it has threads.
static Found find_driver(Arena *a) {
    enum { MAJOR = 75, MINOR = 76 }; // CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_
    void *cuda = library_open(driver_names);
    Driver d;
    int version = 0, cards = 0, major = 0, minor = 0, code;
    size_t memory = 0;
    char name[128] = "";
    if (!cuda || !driver_fill(cuda, &d))
        return not_found(a);
    if ((code = d.init(0)) || (code = d.version(&version)) || (code = d.count(&cards)) ||
        (code = d.name(name, sizeof name, 0)) || (code = d.attribute(&major, MAJOR, 0)) ||
        (code = d.attribute(&minor, MINOR, 0)) || (code = d.memory(&memory, 0))) {
        const char *words = NULL;
        d.words(code, &words);
        return (Found){
            NULL, str_format(a, "the driver says: %s (%d)", words ? words : "error", code).ptr};
    }
    return found(str_format(a, "CUDA %s, %d card%s: %s, compute capability %d.%d, %.1f GiB",
                            version_text(a, version), cards, cards == 1 ? "" : "s", name, major,
                            minor, (double)memory / (1 << 30))
                     .ptr);
}

// 0: there is none.
static int driver_version(void) {
    void *cuda = library_open(driver_names);
    int (*version)(int *out), v = 0;
    return cuda && library_symbol(cuda, "cuDriverGetVersion", &version, sizeof version) &&
                   !version(&v)
               ? v
               : 0;
}

// --- libraries -----------------------------------------------------------------------------------

static Found find_nvrtc(Arena *a, int driver) {
    Nvrtc *n = NULL;
    if (nvrtc_open(driver, &n) != GAN_OK || !n)
        return not_found(a);
    Found f = found(version_text(a, nvrtc_version(n)));
    nvrtc_close(n);
    return f;
}

// A library's number for its version: 91900 is 9.19.0 where `major` is 10000.
static const char *number_text(Arena *a, int version, int major) {
    return str_format(a, "%d.%d.%d", version / major, version % major / 100, version % 100).ptr;
}

static Found find_cudnn(Arena *a, int driver) {
    size_t (*version)(void), (*built_for)(void);
    void *cudnn = library_open(cudnn_names);
    Found f = cudnn && has(cudnn, "cudnnGetVersion", &version, sizeof version) &&
                      has(cudnn, "cudnnGetCudartVersion", &built_for, sizeof built_for) &&
                      driver_serves(driver, (int)built_for()) == GAN_OK
                  ? found(number_text(a, (int)version(), 10000))
                  : not_found(a);
    library_close(cudnn);
    return f;
}

// A library that says its version by a function of this name.
static Found find_library(Arena *a, const char *const *names, const char *function, int major) {
    int (*version)(int *out), v = 0, code = 0;
    void *library = library_open(names);
    Found f = !library || !has(library, function, &version, sizeof version) ? not_found(a)
              : (code = version(&v))                                        ? says(a, code)
                                     : found(number_text(a, v, major));
    library_close(library);
    return f;
}

// Before 12.6 its versions were counted: 22 came with 12.4. Without a card that works no function
// of it is called: CUPTI 13.2 recurses without end.
static Found find_cupti(Arena *a, int driver, bool works) {
    int (*version)(uint32_t * out), code = 0;
    uint32_t v = 0;
    void *cupti = library_open(names_for_driver(cupti_names, driver));
    Found f = !cupti                                                     ? not_found(a)
              : !works                                                   ? found("")
              : !has(cupti, "cuptiGetVersion", &version, sizeof version) ? not_found(a)
              : (code = version(&v))                                     ? says(a, code)
              : v >= 10000 ? found(number_text(a, (int)v, 10000))
                           : found(str_format(a, "%u", v).ptr);
    library_close(cupti);
    return f;
}

// Which of the libraries' headers this program was built with: without, a library is of no use.
enum {
#ifdef GAN_HAVE_CUDNN
    HAVE_CUDNN = 1,
#else
    HAVE_CUDNN = 0,
#endif
#ifdef GAN_HAVE_CUFFT
    HAVE_CUFFT = 1,
#else
    HAVE_CUFFT = 0,
#endif
#ifdef GAN_HAVE_NCCL
    HAVE_NCCL = 1
#else
    HAVE_NCCL = 0
#endif
};

void cuda_libraries(Arena *a, LibraryInfo out[CUDA_LIBRARIES]) {
#ifdef GAN_HAVE_CUDA
    const char *built = "found when this was built";
#else
    const char *built = NULL;
#endif
    const Found card = find_driver(a);
    int driver = driver_version();
    const struct {
        const char *name;
        Found found;
        bool usable; // this program was built with what it takes
        const char *cost, *fix;
    } all[CUDA_LIBRARIES] = {
        {"CUDA headers", found(built), true, "--device cuda is left out of this program",
         "install the CUDA toolkit, or its headers alone, and build again"},
        {"NVIDIA driver", card, true, "--device cuda has no card to run on",
         "a machine with an NVIDIA card, and NVIDIA's driver"},
        {"NVRTC", find_nvrtc(a, driver), true,
         "--device cuda runs only what `ganc compile --target cuda:sm_NN` made elsewhere",
         "pip install nvidia-cuda-nvrtc, and its folder in LD_LIBRARY_PATH"},
        {"cuDNN", find_cudnn(a, driver), HAVE_CUDNN,
         "convolutions and matrix products run on kernels of our own, slower",
         "pip install nvidia-cudnn-cu13 (cu12), and its folder in LD_LIBRARY_PATH"},
        {"cuFFT", find_library(a, names_for_driver(cufft_names, driver), "cufftGetVersion", 1000),
         HAVE_CUFFT, "Fourier transforms on --device cuda are plain sums, n^2 for a line",
         "pip install nvidia-cufft (nvidia-cufft-cu12), and its folder in LD_LIBRARY_PATH"},
        {"NCCL", find_library(a, nccl_names, "ncclGetVersion", 10000), HAVE_NCCL,
         "ranks on cards add up by way of the host (--comm staged)",
         "pip install nvidia-nccl-cu13 (cu12), and its folder in LD_LIBRARY_PATH"},
        {"CUPTI", find_cupti(a, driver, card.version != NULL), true,
         "ganrun bench --device cuda cannot tell how much of a step the card idles",
         "pip install nvidia-cuda-cupti (nvidia-cuda-cupti-cu12), and its folder in "
         "LD_LIBRARY_PATH"},
    };
    for (int i = 0; i < CUDA_LIBRARIES; i++) {
        const Found *f = &all[i].found;
        bool usable = all[i].usable || !built; // without CUDA's headers those say it all
        out[i] = (LibraryInfo){.name = all[i].name,
                               .version = "",
                               .cost = all[i].cost,
                               .fix = usable ? all[i].fix
                                             : "install it with its header, and build again",
                               .why = f->why};
        if (f->version && all[i].usable) {
            out[i].version = f->version;
            out[i].found = true;
        } else if (f->version) {
            out[i].why = "this program was built without its header";
        }
    }
}
