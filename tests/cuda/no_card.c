// no_card.c - for tests: a driver library without a card. cuDNN compiles engines at run time only
// if there is a driver to load them with; this one has the functions cuDNN looks for, accepts
// modules, and reports no device from everything else.
enum { NO_DEVICE = 100 };

#define FUNCTIONS(X)                                                                               \
    X(cuCtxGetCurrent)                                                                             \
    X(cuCtxGetDevice)                                                                              \
    X(cuCtxGetLimit)                                                                               \
    X(cuCtxPopCurrent)                                                                             \
    X(cuCtxPushCurrent)                                                                            \
    X(cuDeviceGet)                                                                                 \
    X(cuDeviceGetAttribute)                                                                        \
    X(cuDeviceGetCount)                                                                            \
    X(cuDevicePrimaryCtxRelease)                                                                   \
    X(cuDevicePrimaryCtxReset)                                                                     \
    X(cuDevicePrimaryCtxRetain)                                                                    \
    X(cuFuncGetAttribute)                                                                          \
    X(cuFuncSetAttribute)                                                                          \
    X(cuGetErrorName)                                                                              \
    X(cuGetErrorString)                                                                            \
    X(cuGetProcAddress)                                                                            \
    X(cuGetProcAddress_v2)                                                                         \
    X(cuInit)                                                                                      \
    X(cuKernelGetAttribute)                                                                        \
    X(cuKernelSetAttribute)                                                                        \
    X(cuLaunchCooperativeKernel)                                                                   \
    X(cuLaunchKernel)                                                                              \
    X(cuLaunchKernelEx)                                                                            \
    X(cuLibraryLoadFromFile)                                                                       \
    X(cuLibraryUnload)                                                                             \
    X(cuLinkAddData)                                                                               \
    X(cuLinkAddData_v2)                                                                            \
    X(cuLinkAddFile_v2)                                                                            \
    X(cuLinkComplete)                                                                              \
    X(cuLinkCreate)                                                                                \
    X(cuLinkCreate_v2)                                                                             \
    X(cuLinkDestroy)                                                                               \
    X(cuMemcpyDtoH_v2)                                                                             \
    X(cuModuleGetGlobal_v2)                                                                        \
    X(cuModuleLoadFatBinary)                                                                       \
    X(cuModuleUnload)                                                                              \
    X(cuOccupancyMaxActiveBlocksPerMultiprocessor)                                                 \
    X(cuOccupancyMaxPotentialClusterSize)                                                          \
    X(cuStreamGetCtx)                                                                              \
    X(cuStreamSynchronize)                                                                         \
    X(cuTensorMapEncodeTiled)

#define NONE(name)                                                                                 \
    int name(void);                                                                                \
    int name(void) {                                                                               \
        return NO_DEVICE;                                                                          \
    }
FUNCTIONS(NONE)

// Modules and their functions, which are never run.
#define SOMETHING(name)                                                                            \
    int name(void **out);                                                                          \
    int name(void **out) {                                                                         \
        static char something;                                                                     \
        *out = &something;                                                                         \
        return 0;                                                                                  \
    }
SOMETHING(cuLibraryLoadData)
SOMETHING(cuLibraryGetKernel)
SOMETHING(cuKernelGetFunction)
SOMETHING(cuModuleLoadData)
SOMETHING(cuModuleLoadDataEx)
SOMETHING(cuModuleGetFunction)

int cuDriverGetVersion(int *version);
int cuDriverGetVersion(int *version) {
    *version = 13000;
    return 0;
}
