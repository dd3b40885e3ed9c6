// onednn.c - anchors by oneDNN: prepared once, run many times.
//
// In: an anchor of a plan and the addresses of its operands. Out: a DnnCall, a short list of
// primitives with their memories bound. Where a primitive prefers another layout of the weights
// than the plan's, a reorder converts them at their first use in a block, and the block's other
// uses share the result; what has one use is converted in a staging buffer. All calls share one
// scratchpad and the staging buffers, as they run one after another; both grow as calls are
// prepared.
#include "dnn.h"

#include "integers.h"

#include <string.h>

#ifdef _OPENMP
#include <omp.h>
#endif

// Products whose copies of a value may be of one layout.
typedef enum Kind { KindConv, KindConvDx, KindConvDw, KindDot, Kinds } Kind;

typedef struct Packed { // a value in a layout some primitive wants
    uint32_t node, block;
    uint64_t form;       // what else was done to it: see dnn_copy_of
    DnnLayoutRef from;   // the value's axes as the caller numbers them
    DnnLayoutRef layout; // both in Dnn.layout
    void *at;            // in Dnn.own
} Packed;

typedef struct Staged {   // memory bound by dnn_ready
    dnnl_memory_t memory; // borrowed
    size_t offset;
} Staged;

typedef struct Shared { // a buffer that all calls use, one after another
    size_t need, bytes; // of the calls prepared so far; of the buffer
    VEC(Staged) use;
    uint32_t bound; // of use[], to this buffer
} Shared;

struct Dnn {
    Arena arena;
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    bool cache_only;  // no value is stored, no memory bound
    bool began;       // a call was begun and not finished
    uint32_t block;   // calls being prepared belong to it, counted from 1; 0: none
    uint32_t kind;    // of the product being prepared
    size_t copied;    // bytes of DNN_COPIES that it has taken
    uint32_t counted; // the block that `readers` is of; 0: none
    uint8_t *readers; // [node][Kinds] products of the block that read it
    Shared scratched, staged[DNN_STAGING];
    void *scratch, *staging[DNN_STAGING]; // owned, made by dnn_ready
    VEC(Packed) packed;
    VEC(void *) own;         // values of calls, owned
    VEC(DnnLayout *) layout; // owned
    VEC(DnnDesc *) desc;     // of the call being prepared, owned, as are layouts queried from them
    VEC(dnnl_primitive_t) primitive;
    VEC(dnnl_memory_t) memory;
};

// On ARM the library says by the same bits how long vectors are: those of AVX-512 are 512 of SVE.
static bool has_isa(dnnl_cpu_isa_t isa) {
#ifdef GAN_VECTOR_LEVELS
    return onednn_ready() == GAN_OK && (dnnl_get_effective_cpu_isa() & isa) == isa;
#else
    (void)isa;
    return false;
#endif
}

int dnn_vector_level(void) {
    return has_isa(dnnl_cpu_isa_avx512_core) ? 4 : has_isa(dnnl_cpu_isa_avx2) ? 3 : 1;
}

bool dnn_has_matrix_unit(void) {
    return has_isa(dnnl_cpu_isa_avx512_core_amx);
}

Str dnn_version(Arena *a) {
    if (onednn_ready() != GAN_OK)
        return (Str){0};
    const dnnl_version_t *v = dnnl_version();
    return str_format(a, "%d.%d.%d", v->major, v->minor, v->patch);
}

static GanStatus status_of(dnnl_status_t s, const char *what) {
    if (s == dnnl_success)
        return GAN_OK;
    if (s == dnnl_out_of_memory)
        return fail(GAN_ERR_MEMORY, "oneDNN: %s: out of memory", what);
    return fail(GAN_ERR_DEVICE, "oneDNN: %s: status %d", what, (int)s);
}

GanStatus dnn_open(Dnn **out) {
    *out = NULL;
    TRY(onednn_ready());
    Dnn *d = mem_alloc(sizeof *d);
    if (!d)
        return fail(GAN_ERR_MEMORY, "no memory for oneDNN");
    GanStatus st = arena_init(&d->arena, (size_t)1 << 30);
    if (st != GAN_OK) {
        mem_free(d);
        return st;
    }
    dnnl_status_t s = dnnl_engine_create(&d->engine, dnnl_cpu, 0);
    if (s == dnnl_success)
        s = dnnl_stream_create(&d->stream, d->engine, dnnl_stream_default_flags);
    if (s != dnnl_success) {
        dnn_close(d);
        return status_of(s, "no engine");
    }
    *out = d;
    return GAN_OK;
}

static void drop_descs(Dnn *d) {
    for (uint32_t i = 0; i < d->desc.n; i++)
        if (*d->desc.at[i])
            dnnl_primitive_desc_destroy(*d->desc.at[i]);
    d->desc.n = 0;
}

void dnn_close(Dnn *d) {
    if (!d)
        return;
    drop_descs(d);
    for (uint32_t i = 0; i < d->primitive.n; i++)
        if (d->primitive.at[i])
            dnnl_primitive_destroy(d->primitive.at[i]);
    for (uint32_t i = 0; i < d->memory.n; i++)
        if (d->memory.at[i])
            dnnl_memory_destroy(d->memory.at[i]);
    for (uint32_t i = 0; i < d->layout.n; i++)
        dnn_layout_free(d->layout.at[i]);
    for (uint32_t i = 0; i < d->own.n; i++)
        mem_free_aligned(d->own.at[i]);
    mem_free_aligned(d->scratch);
    for (int i = 0; i < DNN_STAGING; i++)
        mem_free_aligned(d->staging[i]);
    if (d->stream)
        dnnl_stream_destroy(d->stream);
    if (d->engine)
        dnnl_engine_destroy(d->engine);
    arena_release(&d->arena);
    mem_free(d);
}

void dnn_set_cache_only(Dnn *d) {
    d->cache_only = true;
}

void dnn_block(Dnn *d, uint32_t block) {
    d->block = block + 1;
}

dnnl_engine_t dnn_engine(const Dnn *d) {
    return d->engine;
}

// --- layouts and steps ---------------------------------------------------------------------------

void dnn_dense(DnnShape *s) {
    int64_t step = 1;
    for (int i = s->n; i-- > 0;) {
        s->stride[i] = step;
        step *= s->dim[i];
    }
}

void dnn_channels_last(DnnShape *s) {
    int64_t step = s->dim[1];
    s->stride[1] = 1;
    for (int i = s->n; i-- > 2; step *= s->dim[i])
        s->stride[i] = step;
    s->stride[0] = step;
}

DnnShape dnn_matrix(int64_t rows, int64_t columns, Dtype type) {
    DnnShape s = {.n = 2, .dim = {rows, columns}, .type = type};
    dnn_dense(&s);
    return s;
}

DnnShape dnn_turned(DnnShape s) {
    DnnShape t = s;
    t.dim[s.n - 2] = s.dim[s.n - 1];
    t.dim[s.n - 1] = s.dim[s.n - 2];
    t.stride[s.n - 2] = s.stride[s.n - 1];
    t.stride[s.n - 1] = s.stride[s.n - 2];
    return t;
}

// Room for what the library makes is taken before it is made, so that none is lost when memory is
// refused.
DnnLayoutRef dnn_keep_layout(Dnn *d, const DnnShape *s) {
    DnnLayout *l = arena_new(&d->arena, DnnLayout);
    vec_push(&d->arena, &d->layout, l);
    return dnn_layout(s, l) == dnnl_success ? dnn_layout_ref(l) : NULL;
}

DnnDesc *dnn_new_desc(Dnn *d) {
    DnnDesc *desc = arena_new(&d->arena, DnnDesc);
    vec_push(&d->arena, &d->desc, desc);
    return desc;
}

const char *dnn_library_name(Dnn *d, DnnConvKind kind, const DnnConv *c) {
    DnnConv conv = *c;
    conv.weights.any = true;
    DnnDesc *desc = dnn_new_desc(d);
    return dnn_conv_desc(d->engine, kind, &conv, desc) == dnnl_success ? dnn_desc_name(*desc) : "";
}

DnnLayoutRef dnn_desc_layout(DnnDesc desc, dnnl_query_t what) {
    return dnnl_primitive_desc_query_md(desc, what, 0);
}

static dnnl_status_t new_memory(Dnn *d, DnnLayoutRef layout, void *at, dnnl_memory_t *out) {
    dnnl_memory_t *memory = vec_add(&d->arena, &d->memory);
    dnnl_status_t s = dnnl_memory_create(memory, layout, d->engine, at ? at : DNNL_MEMORY_NONE);
    *out = *memory;
    return s;
}

void dnn_stage(Dnn *d, int staging, size_t bytes) {
    if (bytes > d->staged[staging].need)
        d->staged[staging].need = bytes;
}

static dnnl_status_t bind(Dnn *d, DnnStep *step, int arg, DnnTensor t) {
    if (d->cache_only)
        return dnnl_success;
    dnnl_memory_t memory;
    dnnl_status_t s = new_memory(d, t.layout, t.at, &memory);
    if (s != dnnl_success)
        return s;
    if (!t.at) {
        vec_push(&d->arena, &d->staged[t.staging].use, ((Staged){memory, t.offset}));
        dnn_stage(d, t.staging, dnnl_memory_desc_get_size(t.layout) + t.offset);
    }
    step->arg[step->n++] = (dnnl_exec_arg_t){arg, memory};
    return s;
}

static dnnl_status_t bind_scratch(Dnn *d, DnnStep *step, DnnDesc desc) {
    DnnLayoutRef layout = dnn_desc_layout(desc, dnnl_query_scratchpad_md);
    size_t need = dnnl_memory_desc_get_size(layout);
    if (!need || d->cache_only)
        return dnnl_success;
    dnnl_memory_t memory;
    dnnl_status_t s = new_memory(d, layout, NULL, &memory);
    if (s != dnnl_success)
        return s;
    vec_push(&d->arena, &d->scratched.use, ((Staged){memory, 0}));
    if (need > d->scratched.need)
        d->scratched.need = need;
    step->arg[step->n++] = (dnnl_exec_arg_t){DNNL_ARG_SCRATCHPAD, memory};
    return s;
}

dnnl_status_t dnn_add_step(Dnn *d, DnnCall *call, DnnDesc desc, const int *arg,
                           const DnnTensor *tensor, int n) {
    assert(call->n < DNN_STEPS && n < DNN_ARGS);
    DnnStep *step = &call->step[call->n];
    dnnl_primitive_t *primitive = vec_add(&d->arena, &d->primitive);
    dnnl_status_t s = dnnl_primitive_create(primitive, desc);
    if (s != dnnl_success)
        return s;
    step->primitive = *primitive;
    call->n++;
    for (int i = 0; i < n && s == dnnl_success; i++)
        s = bind(d, step, arg[i], tensor[i]);
    return s == dnnl_success ? bind_scratch(d, step, desc) : s;
}

dnnl_status_t dnn_add_forward(Dnn *d, DnnCall *call, DnnDesc desc, const DnnTensor operand[3]) {
    static const int arg[] = {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST};
    return dnn_add_step(d, call, desc, arg, operand, 3);
}

dnnl_status_t dnn_matmul(Dnn *d, const DnnShape shape[3], bool add, DnnMatmul *out) {
    DnnDesc *desc = dnn_new_desc(d);
    for (int i = 0; i < 3; i++)
        if (!(out->layout[i] = dnn_keep_layout(d, &shape[i])))
            return dnnl_unimplemented;
    dnnl_status_t s = dnn_matmul_desc(d->engine, &shape[0], &shape[1], &shape[2], add, desc);
    out->desc = *desc;
    return s;
}

dnnl_status_t dnn_add_matmul(Dnn *d, DnnCall *call, const DnnMatmul *p, const DnnTensor at[3]) {
    DnnTensor t[3];
    for (int i = 0; i < 3; i++) {
        t[i] = at[i];
        t[i].layout = p->layout[i];
    }
    return dnn_add_forward(d, call, p->desc, t);
}

dnnl_status_t dnn_add_reorder(Dnn *d, DnnCall *call, DnnTensor from, DnnTensor to) {
    DnnDesc *desc = dnn_new_desc(d);
    dnnl_status_t s = dnnl_reorder_primitive_desc_create(desc, from.layout, d->engine, to.layout,
                                                         d->engine, NULL);
    if (s != dnnl_success)
        return s;
    return dnn_add_step(d, call, *desc, (const int[]){DNNL_ARG_FROM, DNNL_ARG_TO},
                        (const DnnTensor[]){from, to}, 2);
}

void dnn_add_host(DnnCall *call, DnnHost *host, void *job) {
    assert(call->n < DNN_STEPS);
    call->step[call->n++] = (DnnStep){.host = host, .job = job};
}

void *dnn_job(Dnn *d, size_t size) {
    return arena_alloc(&d->arena, size, _Alignof(max_align_t));
}

void *dnn_own(Dnn *d, size_t bytes) {
    if (d->cache_only)
        return d;
    void **own = vec_add(&d->arena, &d->own);
    return *own = mem_alloc_pages(bytes);
}

static DnnLayoutRef copy_layout(Dnn *d, DnnLayoutRef from) {
    DnnLayout *l = arena_new(&d->arena, DnnLayout);
    vec_push(&d->arena, &d->layout, l);
    return dnn_layout_copy(from, l) == dnnl_success ? dnn_layout_ref(l) : NULL;
}

DnnTensor dnn_transient(Dnn *d, DnnLayoutRef layout) {
    size_t at = d->copied;
    d->copied += round_up(dnnl_memory_desc_get_size(layout), 64);
    dnn_stage(d, DNN_COPIES, d->copied);
    return (DnnTensor){layout, NULL, DNN_COPIES, at};
}

// Products of different operations want different layouts.
static bool has_one_reader(const Dnn *d, uint32_t id) {
    return d->counted && d->counted == d->block && d->readers[id * Kinds + d->kind] == 1;
}

dnnl_status_t dnn_copy_of(Dnn *d, uint32_t id, uint64_t form, DnnLayoutRef from,
                          DnnLayoutRef layout, DnnTensor *out, bool *fresh) {
    Packed *p = NULL;
    if (has_one_reader(d, id)) {
        *out = dnn_transient(d, layout);
        *fresh = true;
        return dnnl_success;
    }
    for (uint32_t i = 0; i < d->packed.n && !p; i++) {
        Packed *q = &d->packed.at[i];
        if (q->node == id && q->form == form && dnnl_memory_desc_equal(q->from, from) &&
            dnnl_memory_desc_equal(q->layout, layout))
            p = q;
    }
    *fresh = !p || p->block != d->block;
    if (!p) {
        Packed made = {.node = id, .form = form};
        made.from = copy_layout(d, from);
        made.layout = copy_layout(d, layout);
        made.at = dnn_own(d, dnnl_memory_desc_get_size(layout));
        if (!made.from || !made.layout || !made.at)
            return dnnl_out_of_memory;
        p = vec_add(&d->arena, &d->packed);
        *p = made;
    }
    p->block = d->block;
    *out = (DnnTensor){layout, p->at, 0, 0};
    return dnnl_success;
}

dnnl_status_t dnn_pack(Dnn *d, DnnCall *call, uint32_t id, DnnTensor from, DnnLayoutRef to,
                       DnnTensor *out) {
    *out = from;
    if (dnnl_memory_desc_equal(from.layout, to))
        return dnnl_success;
    bool fresh;
    dnnl_status_t s = dnn_copy_of(d, id, 0, from.layout, to, out, &fresh);
    return s == dnnl_success && fresh ? dnn_add_reorder(d, call, from, *out) : s;
}

dnnl_status_t dnn_own_packed(Dnn *d, DnnLayoutRef wanted, DnnTensor plain, DnnTensor *out) {
    *out = plain;
    if (dnnl_memory_desc_equal(plain.layout, wanted))
        return dnnl_success;
    *out = (DnnTensor){wanted, dnn_own(d, dnnl_memory_desc_get_size(wanted)), 0, 0};
    return out->at ? dnnl_success : dnnl_out_of_memory;
}

// --- calls ---------------------------------------------------------------------------------------

typedef struct Preparing {
    Dnn *dnn;
    DnnNode node;
    DnnCall *call; // NULL: the library does not do it
} Preparing;

// A call that was begun and refused memory leaves copies that no step of a call makes.
static void forget_copies(Dnn *d) {
    for (uint32_t i = 0; i < d->packed.n; i++)
        d->packed.at[i].block = 0;
}

static uint32_t kind_of(const Graph *g, uint32_t id) {
    Op op = (Op)graph_node(g, id)->op;
    return op == OpConv     ? KindConv
           : op == OpConvDx ? KindConvDx
           : op == OpConvDw ? KindConvDw
                            : KindDot;
}

// Of all products of the block, before the first of them is prepared.
static void count_readers(Dnn *d, const Plan *p) {
    const Graph *g = &p->func->g;
    const Section *s = &p->section.at[d->block - 1];
    size_t n = (size_t)g->node.n * Kinds;
    if (!d->readers)
        d->readers = arena_array(&d->arena, uint8_t, n);
    memset(d->readers, 0, n);
    for (uint32_t i = s->first; i < s->first + s->n; i++) {
        const Region *r = &p->region.at[p->launch.at[i].region];
        uint32_t id = r->node.at[0];
        if (r->kind != RegionCall || node_family(g, id) != FamilyProduct)
            continue;
        for (uint32_t k = 0; k < 2; k++) {
            uint8_t *readers = &d->readers[node_in(g, id, k) * Kinds + kind_of(g, id)];
            *readers += *readers < UINT8_MAX;
        }
    }
    d->counted = d->block;
}

static GanStatus prepare(void *user) {
    Preparing *p = user;
    Dnn *d = p->dnn;
    const Graph *g = &p->node.plan->func->g;
    Op op = (Op)graph_node(g, p->node.id)->op;
    if (d->began)
        forget_copies(d);
    d->began = true;
    if (d->counted != d->block)
        count_readers(d, p->node.plan);
    d->kind = kind_of(g, p->node.id);
    d->copied = 0;
    DnnCall *call = arena_new(&d->arena, DnnCall);
    bool done = false;
    dnnl_status_t s = (op == OpDot ? dnn_prepare_dot : dnn_prepare_conv)(d, &p->node, call, &done);
    if (s != dnnl_success)
        return status_of(s, op_info[op].text);
    p->call = done ? call : NULL;
    d->began = false;
    return GAN_OK;
}

GanStatus dnn_prepare(Dnn *d, const Plan *p, uint32_t id, Memory m, DnnCall **out) {
    Preparing now = {d, {p, id, m}, NULL};
    *out = NULL;
    GanStatus st = arena_guard(&d->arena, "to prepare a product", prepare, &now);
    drop_descs(d);
    if (st == GAN_OK)
        *out = now.call;
    return st;
}

static GanStatus bind_shared(Shared *b, void **at) {
    if (b->need > b->bytes) {
        void *more = mem_alloc_pages(b->need);
        if (!more)
            return fail(GAN_ERR_MEMORY, "no memory for %zu bytes of scratch", b->need);
        mem_free_aligned(*at);
        *at = more;
        b->bytes = b->need;
        b->bound = 0;
    }
    for (; b->bound < b->use.n; b->bound++) {
        Staged s = b->use.at[b->bound];
        TRY(status_of(dnnl_memory_set_data_handle(s.memory, (char *)*at + s.offset),
                      "binding scratch memory"));
    }
    return GAN_OK;
}

GanStatus dnn_ready(Dnn *d) {
    drop_descs(d);
    for (int i = 0; i < DNN_STAGING; i++)
        TRY(bind_shared(&d->staged[i], &d->staging[i]));
    return bind_shared(&d->scratched, &d->scratch);
}

static GanStatus run_steps(Dnn *d, const DnnCall *call, int from, int to, int64_t round) {
    for (int i = from; i < to; i++) {
        const DnnStep *step = &call->step[i];
        if (step->host) {
            step->host(step->job, d->staging, round);
            continue;
        }
        TRY(status_of(dnnl_primitive_execute(step->primitive, d->stream, step->n, step->arg),
                      "running a primitive"));
    }
    return GAN_OK;
}

GanStatus dnn_run(Dnn *d, const DnnCall *call) {
    TRY(run_steps(d, call, 0, call->from, 0));
    for (int64_t i = 0; i < call->rounds; i++)
        TRY(run_steps(d, call, call->from, call->to, i));
    TRY(run_steps(d, call, call->to, call->n, 0));
    return status_of(dnnl_stream_wait(d->stream), "waiting");
}

// --- measuring -----------------------------------------------------------------------------------

enum { PEAK_SIZE = 2048, PEAK_RUNS = 5 };

static GanStatus time_product(Dnn *d, const DnnCall *call, double *gflops) {
    *gflops = 0;
    for (int i = 0; i < PEAK_RUNS; i++) {
        double start = time_now();
        TRY(dnn_run(d, call));
        double rate = 2e-9 * PEAK_SIZE * (double)PEAK_SIZE * PEAK_SIZE / (time_now() - start);
        if (i && rate > *gflops) // the first one warms up
            *gflops = rate;
    }
    return GAN_OK;
}

GanStatus dnn_peak(Dtype type, double *gflops) {
    *gflops = 0;
    Dnn *d;
    TRY(dnn_open(&d));
    GanStatus st = GAN_OK;
    DnnCall call = {0};
    DnnShape s = {.n = 2, .dim = {PEAK_SIZE, PEAK_SIZE}, .type = type};
    dnn_dense(&s);
    void *memory = mem_alloc_aligned(3 * (size_t)PEAK_SIZE * PEAK_SIZE * dtype_size[type], 64);
    DnnLayoutRef l = dnn_keep_layout(d, &s);
    DnnDesc *desc = dnn_new_desc(d);
    if (!memory || !l) {
        st = fail(GAN_ERR_MEMORY, "no memory to measure the processor");
        goto out;
    }
    if (dnn_matmul_desc(d->engine, &s, &s, &s, false, desc) != dnnl_success)
        goto out; // no such type here: the rate stays 0
    char *at = memory;
    size_t one = (size_t)PEAK_SIZE * PEAK_SIZE * dtype_size[type];
    TRY_OUT(
        status_of(dnn_add_forward(d, &call, *desc,
                                  (const DnnTensor[]){
                                      {l, at, 0, 0}, {l, at + one, 0, 0}, {l, at + 2 * one, 0, 0}}),
                  "matmul"));
    TRY_OUT(dnn_ready(d));
    TRY_OUT(time_product(d, &call, gflops));
out:
    mem_free_aligned(memory);
    dnn_close(d);
    return st;
}

int64_t dnn_threads(void) {
#ifdef _OPENMP
    return omp_get_max_threads();
#else
    return 1;
#endif
}
