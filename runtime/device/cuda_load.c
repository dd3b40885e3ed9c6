// cuda_load.c - this machine's CUDA libraries as tables of functions.
//
// In: names of libraries. Out: a CudaApi: the driver's functions, those of the optional libraries
// that are installed, and a compiler for kernels. All but NVRTC stay loaded, on failure too.
#include "cuda_busy.h"
#include "library.h"
#include "nvrtc.h"

enum { REASON = 1024 }; // bytes

struct CudaMachine {
    void *cuda, *cudnn, *cufft, *nccl;    // handles of the loader, for as long as the process
    char no_dnn[REASON], no_nccl[REASON]; // why a library is not used
    CudaDriver driver;
    int version; // of the driver: 12080 is 12.8
#ifdef GAN_HAVE_CUDNN
    CudnnApi dnn;
#endif
#ifdef GAN_HAVE_CUFFT
    CufftApi fft;
#endif
#ifdef GAN_HAVE_NCCL
    NcclApi sums;
#endif
    void *cupti; // NULL: not asked for, or none
    CuptiApi times;
    Nvrtc *nvrtc; // NULL: none
    CudaApi api;
};

// A row that disagrees with the toolkit's header does not compile. The functions are only named.
#define CU_OLD(...)
#define CU(Name, symbol, args)                                                                     \
    static_assert(_Generic(&cu##Name, CUresult(CUDAAPI *) args : 1, default : 0),                  \
                  symbol ": cuda_driver.def and cuda.h differ");
#include "cuda_driver.def"
#ifdef GAN_HAVE_CUDNN
#define DNN(Name, function, result, args)                                                          \
    static_assert(_Generic(&function, result(CUDNNWINAPI *) args : 1, default : 0),                \
                  #function ": cuda_dnn.def and cudnn_graph.h differ");
#include "cuda_dnn.def"
#endif
#ifdef GAN_HAVE_CUFFT
#define FFT(Name, function, args)                                                                  \
    static_assert(_Generic(&function, cufftResult(*) args : 1, default : 0),                       \
                  #function ": cuda_fft.def and cufft.h differ");
#include "cuda_fft.def"
#endif
#ifdef GAN_HAVE_NCCL
#define NCCL(Name, function, result, args)                                                         \
    static_assert(_Generic(&function, result(*) args : 1, default : 0),                            \
                  #function ": cuda_nccl.def and nccl.h differ");
#include "cuda_nccl.def"
#endif

// Keeps the reason of the last failure.
static void keep_reason(char out[REASON]) {
    snprintf(out, REASON, "%s", gan_error());
}

#define ROWS(rows) rows, sizeof(rows) / sizeof *(rows)

// Loads the first of `names` that there is, into *library, and fills its table. False: there is
// none, or it is too old, and gan_error() says which.
static bool open_table(const char *const *names, const LibraryRow *row, size_t rows, void *table,
                       void **library) {
    *library = library_open(names);
    const char *lacks = *library ? library_fill(*library, row, rows, table) : NULL;
    if (lacks)
        fail(GAN_ERR_DEVICE, "%s is too old: it has no %s", names[0], lacks);
    return *library && !lacks;
}

// --- the driver ----------------------------------------------------------------------------------

static const LibraryRow driver_row[] = {
#define CU(Name, symbol, args) {symbol, offsetof(CudaDriver, Name)},
#include "cuda_driver.def"
};

static GanStatus open_driver(CudaMachine *m) {
    m->cuda = library_open(driver_names);
    if (!m->cuda)
        return fail(GAN_ERR_DEVICE,
                    "--device cuda needs an NVIDIA card and its driver, and this machine has no "
                    "driver (%s); --device cpu works here",
                    gan_error());
    const char *lacks = library_fill(m->cuda, ROWS(driver_row), &m->driver);
    if (lacks)
        return fail(GAN_ERR_DEVICE,
                    "the NVIDIA driver is too old: it has no %s (CUDA %d.%d or newer is "
                    "needed); --device cpu works here",
                    lacks, CUDA_OLDEST_DRIVER / 1000, CUDA_OLDEST_DRIVER % 1000 / 10);
    m->driver.DriverGetVersion(&m->version); // cuda.c reports where it cannot say
    return GAN_OK;
}

// --- cuDNN ---------------------------------------------------------------------------------------

#ifdef GAN_HAVE_CUDNN
static const LibraryRow dnn_row[] = {
#define DNN(Name, function, result, args) {#function, offsetof(CudnnApi, Name)},
#include "cuda_dnn.def"
};

void *cudnn_load(CudnnApi *out) {
    void *library;
    if (open_table(cudnn_names, ROWS(dnn_row), out, &library))
        return library;
    library_close(library);
    return NULL;
}

// One file name for those of all versions of CUDA.
static const CudnnApi *open_dnn(CudaMachine *m) {
    m->cudnn = cudnn_load(&m->dnn);
    if (m->cudnn && driver_serves(m->version, (int)m->dnn.GetCudartVersion()) == GAN_OK)
        return &m->dnn;
    keep_reason(m->no_dnn);
    return NULL;
}
#else
static const CudnnApi *open_dnn(CudaMachine *m) {
    fail(GAN_ERR_DEVICE, "this program was built without its headers");
    keep_reason(m->no_dnn);
    return NULL;
}
#endif

// --- cuFFT ---------------------------------------------------------------------------------------

#ifdef GAN_HAVE_CUFFT
static const LibraryRow fft_row[] = {
#define FFT(Name, function, args) {#function, offsetof(CufftApi, Name)},
#include "cuda_fft.def"
};

static const CufftApi *open_fft(CudaMachine *m) {
    const char *const *names = names_for_driver(cufft_names, m->version);
    return open_table(names, ROWS(fft_row), &m->fft, &m->cufft) ? &m->fft : NULL;
}
#else
static const CufftApi *open_fft(CudaMachine *m) {
    (void)m;
    return NULL;
}
#endif

// --- NCCL ----------------------------------------------------------------------------------------

#ifdef GAN_HAVE_NCCL
static const LibraryRow nccl_row[] = {
#define NCCL(Name, function, result, args) {#function, offsetof(NcclApi, Name)},
#include "cuda_nccl.def"
};

static const NcclApi *open_nccl(CudaMachine *m) {
    if (open_table(nccl_names, ROWS(nccl_row), &m->sums, &m->nccl))
        return &m->sums;
    keep_reason(m->no_nccl);
    return NULL;
}
#else
static const NcclApi *open_nccl(CudaMachine *m) {
    (void)m;
    return NULL;
}
#endif

// --- CUPTI ---------------------------------------------------------------------------------------

static const LibraryRow cupti_row[] = {
    {"cuptiActivityRegisterCallbacks", offsetof(CuptiApi, callbacks)},
    {"cuptiActivityEnable", offsetof(CuptiApi, enable)},
    {"cuptiActivityDisable", offsetof(CuptiApi, disable)},
    {"cuptiActivityFlushAll", offsetof(CuptiApi, flush)},
    {"cuptiActivityGetNextRecord", offsetof(CuptiApi, next)},
    {"cuptiGetResultString", offsetof(CuptiApi, words)},
};

static const CuptiApi *open_cupti(void *user) {
    CudaMachine *m = user;
    if (!m->cupti)
        m->cupti = library_open(names_for_driver(cupti_names, m->version));
    return m->cupti && !library_fill(m->cupti, ROWS(cupti_row), &m->times) ? &m->times : NULL;
}

// --- kernels -------------------------------------------------------------------------------------

static GanStatus compile(void *user, const CudaKernels *k, Arena *a, CudaImages *out) {
    return cuda_compile(((const CudaMachine *)user)->nvrtc, k, a, out);
}

// --- the machine ---------------------------------------------------------------------------------

GanStatus cuda_machine_open(const DeviceOptions *o, CudaMachine **out) {
    *out = NULL;
    CudaMachine *m = mem_alloc(sizeof *m);
    if (!m)
        return fail(GAN_ERR_MEMORY, "no memory for the CUDA libraries");
    GanStatus st = open_driver(m);
    if (st == GAN_OK)
        st = nvrtc_open(m->version, &m->nvrtc);
    if (st != GAN_OK) {
        cuda_machine_close(m);
        return st;
    }
    bool sums = o->comm && o->route == RouteNccl;
    m->api = (CudaApi){.driver = &m->driver,
                       .dnn = open_dnn(m),
                       .no_dnn = m->no_dnn,
                       .compile = compile,
                       .user = m,
                       .fft = open_fft(m),
                       .nccl = sums ? open_nccl(m) : NULL,
                       .no_nccl = m->no_nccl,
                       .cupti = open_cupti};
    *out = m;
    return GAN_OK;
}

void cuda_machine_close(CudaMachine *m) {
    if (!m)
        return;
    nvrtc_close(m->nvrtc);
    // The others stay loaded: they have threads and exit handlers.
    mem_free(m);
}

const CudaApi *cuda_machine_api(const CudaMachine *m) {
    return &m->api;
}
