// device.h - inside the devices: what they share. The public interface is DeviceApi in
// device_api.h.
#ifndef GAN_DEVICE_H
#define GAN_DEVICE_H

#include "comm.h"
#include "device_api.h"

struct Device { // the first member of every device's own struct
    const DeviceApi *api;
    DeviceOptions options;
    int threads;      // at least 1
    _Atomic int lent; // of them, reserved by device_lend
};

static inline void device_notice(const Device *d, const char *text) {
    if (d->options.notice)
        d->options.notice(d->options.user, text);
}
// The types that `cpu` and `cuda` support: f32, bf16, f16.
bool device_takes(Dtype real);
// GAN_ERR_DEVICE: the device does not support its type.
GanStatus device_check(const Device *d, const Plan *p);
GanStatus device_cpu_roofline(Device *d, Roofline *out); // of all cores
int device_threads_for(int wanted);                      // 0: cores_usable
int device_team(const Device *d);                        // threads not reserved
// A region in the model's terms, for messages: "conv + relu (dcgan.gan:31)".
Str region_where(Arena *a, const Plan *p, const Region *r);

// The two memories a plan is loaded against; the address of a node's value in them.
typedef struct Memory {
    char *slots, *work;
} Memory;
void *memory_at(Memory m, const Plan *p, uint32_t node);   // NULL for values that are not stored
void *memory_need(Memory m, const Plan *p, uint32_t node); // bug() for them
// What a RegionCopy copies: the value of a slot, before it is overwritten, to where its Read lies.
typedef struct SlotCopy {
    void *to;
    const void *from;
    size_t bytes;
} SlotCopy;
SlotCopy memory_copy(Memory m, const Plan *p, const Region *r);

// --- cuda_info.c ---------------------------------------------------------------------------------

enum { CUDA_LIBRARIES = 7 };
// Files of the driver and of the libraries; each list ends in NULL.
extern const char *const driver_names[], *const cudnn_names[], *const nccl_names[];
// The same of libraries with a file for each major version of CUDA: first that of 13, then 12.
extern const char *const nvrtc_names[], *const cufft_names[], *const cupti_names[];
// Those of `names` that a driver of this version (12080 is 12.8; 0: none is used) can serve, the
// best first: a driver serves libraries of its own major version of CUDA and of earlier ones.
const char *const *names_for_driver(const char *const *names, int driver);
// The same of a library with one file name for all of them: GAN_ERR_DEVICE where it was built for a
// later major version of CUDA than the driver's; 0: not known.
GanStatus driver_serves(int driver, int built_for);
void cuda_libraries(Arena *a, LibraryInfo out[CUDA_LIBRARIES]); // what doctor prints of them

// --- plain.c: reference implementations, without any library -------------------------------------

// Between a device's layout (type_strides, the type's dtype) and logical order (row-major, batch
// first) in float.
void value_load(const Graph *g, const Type *t, const void *from, float *to);
void value_store(const Graph *g, const Type *t, const float *from, void *to);
void floats_to_bf16(const float *from, uint16_t *to, int64_t n);
// Computes region `r` member by member with eval_node in float.
GanStatus plain_region(const Plan *p, const Region *r, Memory m, const Counters *c);
// A Cast between f64 and f32, to f64 where `wide`: n numbers. No other operation makes a type of
// another width than its operands'.
void plain_cast(const void *from, void *to, int64_t n, bool wide);

// --- host.c: devices whose memory is the host's --------------------------------------------------

// DeviceApi.release, put and get, sync; of memory of mem_alloc_aligned or mem_alloc_pages.
void host_release(Device *d, void *ptr);
GanStatus host_copy(Device *d, void *to, const void *from, size_t n);
GanStatus host_sync(Device *d);
GanStatus collective_check(const Plan *p, Comm *comm); // is it a plan for so many ranks?
// Plan.collective[call] as the communicator has it, with its bytes at `data`.
CommJob collective_job(const Plan *p, uint32_t call, void *data, uint32_t step);
// Plan.collective[call] starts: `m` is the plan's memory. It ends with comm_wait(comm, call).
GanStatus collective_start(const Plan *p, uint32_t call, Memory m, Comm *comm, uint32_t step);

// --- jit.c: kernel text to functions, through the machine's C compiler and a cache on disk -------

typedef struct Jit Jit;         // one compiler, one cache folder
typedef struct JitCode JitCode; // loaded functions; owned
// *out is NULL when the machine has no compiler.
GanStatus jit_open(const DeviceOptions *o, Jit **out);
void jit_close(Jit *j); // accepts NULL; after every JitCode is freed
typedef struct JitKernel {
    Str name;   // of its first function
    Str source; // its functions; no two kernels define one of the same name
} JitKernel;
// Machine code of `n` kernels behind `prelude`: each from the cache where it is there, whatever it
// was compiled together with, else compiled now, quickly. What the cache's folder cannot take is
// kept elsewhere until jit_close, with a notice.
GanStatus jit_load(Jit *j, Str prelude, const JitKernel *kernel, uint32_t n, JitCode **out);
// Code that was compiled quickly, because the cache had none, is compiled better in the background,
// half a second after it was loaded, and then takes its place. *moved: functions are elsewhere now.
// `wait`: when this returns, none is left to be. On failure the code stays what it is.
GanStatus jit_improve(JitCode *c, bool wait, bool *moved);
void jit_free(JitCode *c); // accepts NULL
// The function `name` of kernel[k]; NULL when it has none.
void *jit_find(const JitCode *c, uint32_t k, const char *name);

// --- onednn.c: anchors by the library ------------------------------------------------------------

typedef struct Dnn Dnn;         // what one loaded plan needs of the library
typedef struct DnnCall DnnCall; // one prepared anchor; lives as long as its Dnn
GanStatus dnn_open(Dnn **out);  // *out is NULL without the library
void dnn_close(Dnn *d);         // accepts NULL
// From here on calls are prepared only to fill the library's cache of primitives: they cannot run.
void dnn_set_cache_only(Dnn *d);
// Calls prepared from here on belong to this block. Within a block, calls are prepared in the order
// in which they run: the first one that wants a value in another layout makes the copy.
void dnn_block(Dnn *d, uint32_t block);
// Prepares node `id` of the plan. *out is NULL when the library does not do it. A call that is
// refused memory may be prepared again.
GanStatus dnn_prepare(Dnn *d, const Plan *p, uint32_t id, Memory m, DnnCall **out);
GanStatus dnn_ready(Dnn *d); // after dnn_prepare and before dnn_run: shared scratch memory
GanStatus dnn_run(Dnn *d, const DnnCall *call);
int dnn_vector_level(void); // of x86-64 (psABI) that this machine's instructions reach: 1, 3 or 4
// Which of three objects to use that the same text was compiled to for these levels
// (CMakeLists.txt).
#ifdef GAN_VECTOR_LEVELS
#define OF_VECTOR_LEVEL(v1, v3, v4)                                                                \
    (dnn_vector_level() == 4 ? (v4) : dnn_vector_level() == 3 ? (v3) : (v1))
#else
#define OF_VECTOR_LEVEL(v1, v3, v4) (v1)
#endif
Str dnn_version(Arena *a); // empty when absent
// c [m, n] = a [m, k] times the transpose of b [n, k], row by row in f32, on the threads the cpu
// device was given, or all cores; plain loops where the library is absent.
GanStatus dnn_product(const float *a, const float *b, size_t m, size_t n, size_t k, float *c);
// Best of several large products, GFLOP/s; 0 when the library does not do this type.
GanStatus dnn_peak(Dtype type, double *gflops);

#endif
