// device.c - the devices there are, and the libraries they would like to have.
#include "cc.h"
#include "device.h"
#include "process.h"

#include <string.h>

static const DeviceApi *const devices[] = {&device_cpu, &device_cuda, &device_ref};

bool device_takes(Dtype real) {
    return real == DtF32 || dtype_is_half(real);
}

GanStatus device_check(const Device *d, const Plan *p) {
    return d->api->supports(p->real)
               ? GAN_OK
               : fail(GAN_ERR_DEVICE,
                      "the %s device computes in f32, bf16 or f16, not %s; use --device ref",
                      d->api->name, dtype_name[p->real]);
}

const DeviceApi *device_find(Str name) {
    for (size_t i = 0; i < sizeof devices / sizeof *devices; i++)
        if (str_eq(str_c(devices[i]->name), name))
            return devices[i];
    return NULL;
}

// --- words ---------------------------------------------------------------------------------------

Str region_where(Arena *a, const Plan *p, const Region *r) {
    enum { MOST_OPS = 4 };
    const Graph *g = &p->func->g;
    Text t = {.arena = a};
    SourceLine line;
    bool known = false;
    uint32_t ops = 0;
    for (uint32_t i = 0; i < r->node.n; i++) {
        const Node *n = graph_node(g, r->node.at[i]);
        if (op_info[n->op].cls == ClassLEAF)
            continue;
        if (ops++ < MOST_OPS)
            text_fmt(&t, "%s%s", ops > 1 ? " + " : "", op_info[n->op].text);
        known = known || model_line(p->module, g->span.at[n->span].span, &line);
    }
    if (ops > MOST_OPS)
        text_fmt(&t, " and %u more", ops - MOST_OPS);
    if (known)
        text_fmt(&t, " (%.*s:%u)", SARG(line.file), line.number);
    return text_str(&t);
}

PlanBytes device_bytes(const DeviceApi *api, const Plan *p) {
    return api->bytes ? api->bytes(p) : (PlanBytes){.work = p->work_bytes};
}

int device_threads(Device *d) {
    return d->threads;
}

void device_lend(Device *d, int threads) {
    d->lent = threads;
}

int device_team(const Device *d) {
    int lent = d->lent;
    return d->threads > lent ? d->threads - lent : 1;
}

int device_threads_for(int wanted) {
    return wanted > 0 ? wanted : cores_usable();
}

enum { HOST_LIBRARIES = 3 };

void device_libraries(Arena *a, const LibraryInfo **out, uint32_t *n) {
#ifdef _OPENMP
    bool openmp = true;
#else
    bool openmp = false;
#endif
    Str dnn = dnn_version(a), compiler = cc_version(a);
    const LibraryInfo all[HOST_LIBRARIES] = {
        {"OpenMP", "", "kernels run on one core",
         "a compiler that has it (clang: apt-get install libomp-dev), and build again", openmp,
         NULL},
        {"oneDNN", str_z(a, dnn),
         "convolution and matrix products run as plain loops, many times slower",
         "apt-get install libdnnl-dev ocl-icd-opencl-dev, and build again", dnn.len > 0, NULL},
        {"C compiler", str_z(a, compiler),
         "fused kernels run as reference loops, many times slower", "apt-get install gcc",
         compiler.len > 0, NULL},
    };
    LibraryInfo *info = arena_array(a, LibraryInfo, HOST_LIBRARIES + CUDA_LIBRARIES);
    memcpy(info, all, sizeof all);
    cuda_libraries(a, info + HOST_LIBRARIES);
    *out = info;
    *n = HOST_LIBRARIES + CUDA_LIBRARIES;
}
