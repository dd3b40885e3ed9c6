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

// "13.0" of 13000.
static const char *version_text(Arena *a, int version) {
    return str_format(a, "%d.%d", version / 1000, version % 1000 / 10).ptr;
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
    return library_symbol(cuda, "cuInit", &d->init, sizeof d->init) &&
           library_symbol(cuda, "cuDriverGetVersion", &d->version, sizeof d->version) &&
           library_symbol(cuda, "cuDeviceGetCount", &d->count, sizeof d->count) &&
           library_symbol(cuda, "cuDeviceGetName", &d->name, sizeof d->name) &&
           library_symbol(cuda, "cuDeviceGetAttribute", &d->attribute, sizeof d->attribute) &&
           library_symbol(cuda, "cuDeviceTotalMem_v2", &d->memory, sizeof d->memory) &&
           library_symbol(cuda, "cuGetErrorString", &d->words, sizeof d->words);
}

// "CUDA 13.0, 1 card: NVIDIA H200, compute capability 9.0, 139.8 GiB"; NULL: there is none, and
// *why the driver's own words.
static const char *driver_text(Arena *a, void *cuda, const char **why) {
    enum { MAJOR = 75, MINOR = 76 }; // CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_
    Driver d;
    int version = 0, cards = 0, major = 0, minor = 0, code;
    size_t memory = 0;
    char name[128] = "";
    if (!driver_fill(cuda, &d))
        return NULL;
    if ((code = d.init(0)) || (code = d.version(&version)) || (code = d.count(&cards)) ||
        (code = d.name(name, sizeof name, 0)) || (code = d.attribute(&major, MAJOR, 0)) ||
        (code = d.attribute(&minor, MINOR, 0)) || (code = d.memory(&memory, 0))) {
        const char *words = NULL;
        d.words(code, &words);
        *why = str_format(a, "; the driver says: %s (%d)", words ? words : "error", code).ptr;
        return NULL;
    }
    return str_format(a, "CUDA %s, %d card%s: %s, compute capability %d.%d, %.1f GiB",
                      version_text(a, version), cards, cards == 1 ? "" : "s", name, major, minor,
                      (double)memory / (1 << 30))
        .ptr;
}

static const char *find_driver(Arena *a, const char **why) {
    void *cuda = library_open(driver_names);
    return cuda ? driver_text(a, cuda, why) : NULL; // it stays loaded: once begun it has threads
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

static const char *find_nvrtc(Arena *a, int driver) {
    Nvrtc *n = NULL;
    GanStatus st = nvrtc_open(driver, &n);
    const char *text = st == GAN_OK && n ? version_text(a, nvrtc_version(n)) : NULL;
    nvrtc_close(n);
    return text;
}

// A library's number for its version: 91900 is 9.19.0 where `major` is 10000.
static const char *number_text(Arena *a, int version, int major) {
    return str_format(a, "%d.%d.%d", version / major, version % major / 100, version % 100).ptr;
}

static const char *find_cudnn(Arena *a) {
    size_t (*version)(void);
    void *cudnn = library_open(cudnn_names);
    const char *text = NULL;
    if (cudnn && library_symbol(cudnn, "cudnnGetVersion", &version, sizeof version))
        text = number_text(a, (int)version(), 10000);
    library_close(cudnn);
    return text;
}

// A library that says its version by a function of this name.
static const char *find_library(Arena *a, const char *const *names, const char *function,
                                int major) {
    int (*version)(int *out), v = 0;
    void *library = library_open(names);
    const char *text = NULL;
    if (library && library_symbol(library, function, &version, sizeof version) && !version(&v))
        text = number_text(a, v, major);
    library_close(library);
    return text;
}

// Before 12.6 its versions were counted: 22 came with 12.4. Without a card that works no function
// of it is called: CUPTI 13.2 recurses without end.
static const char *find_cupti(Arena *a, int driver, bool works) {
    int (*version)(uint32_t * out);
    uint32_t v = 0;
    void *cupti = library_open(names_for_driver(cupti_names, driver));
    const char *text = NULL;
    if (cupti && !works)
        text = "";
    else if (cupti && library_symbol(cupti, "cuptiGetVersion", &version, sizeof version) &&
             !version(&v))
        text = v >= 10000 ? number_text(a, (int)v, 10000) : str_format(a, "%u", v).ptr;
    library_close(cupti);
    return text;
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
    const char *why = "", *card = find_driver(a, &why);
    int driver = driver_version();
    const LibraryInfo all[CUDA_LIBRARIES] = {
        // found: this program was built with what it takes
        {"CUDA headers", built, "--device cuda is left out of this program",
         "install the CUDA toolkit, or its headers alone, and build again", built != NULL},
        {"NVIDIA driver", card, str_format(a, "--device cuda has no card to run on%s", why).ptr,
         "a machine with an NVIDIA card, and NVIDIA's driver", true},
        {"NVRTC", find_nvrtc(a, driver),
         "--device cuda runs only what `ganc compile --target cuda:sm_NN` made elsewhere",
         "pip install nvidia-cuda-nvrtc, and its folder in LD_LIBRARY_PATH", true},
        {"cuDNN", find_cudnn(a), "convolutions and matrix products have no engine on --device cuda",
         "pip install nvidia-cudnn-cu13 (cu12), and its folder in LD_LIBRARY_PATH", HAVE_CUDNN},
        {"cuFFT", find_library(a, names_for_driver(cufft_names, driver), "cufftGetVersion", 1000),
         "Fourier transforms on --device cuda are plain sums, n^2 for a line",
         "pip install nvidia-cufft (nvidia-cufft-cu12), and its folder in LD_LIBRARY_PATH",
         HAVE_CUFFT},
        {"NCCL", find_library(a, nccl_names, "ncclGetVersion", 10000),
         "ranks on cards add up by way of the host (--comm staged)",
         "pip install nvidia-nccl-cu13 (cu12), and its folder in LD_LIBRARY_PATH", HAVE_NCCL},
        {"CUPTI", find_cupti(a, driver, card != NULL),
         "ganrun bench --device cuda cannot tell how much of a step the card idles",
         "pip install nvidia-cuda-cupti (nvidia-cuda-cupti-cu12), and its folder in "
         "LD_LIBRARY_PATH",
         true},
    };
    for (int i = 0; i < CUDA_LIBRARIES; i++) {
        out[i] = all[i];
        if (built && !all[i].found)
            out[i].fix = "install it with its header, and build again";
        out[i].found = all[i].found && all[i].version;
        if (!out[i].found)
            out[i].version = "";
    }
}
