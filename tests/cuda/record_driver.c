// record_driver.c - the recording driver: one function per row of cuda_driver.def.
#include "record.h"

#include <stdlib.h>
#include <string.h>

Recorder *recording;

enum { TAG_BIT = 62, STREAMS_MOST = RECORD_LINES / 2, LOTS = 2 };

typedef enum Kind { KindStream, KindEvent, KindModule, KindGraph, KindExec, KindPinned } Kind;

typedef struct Object Object;

typedef enum DoingKind { DoWork, DoRecord, DoWait } DoingKind;

typedef struct Doing { // what a recorded graph does, in the order it was told
    DoingKind kind;
    Object *stream, *event;
    Work work;
} Doing;

typedef VEC(Doing) DoingVec;

struct Object {
    Kind kind;
    bool live;
    Clock clock;       // stream: how far it is; event: what recording it saw
    uint32_t line;     // stream
    Object *within;    // stream: the graph that records it; event: the graph that recorded it last
    Clock inner;       // of both, inside a graph
    bool timed;        // event
    uint64_t at;       // event: launches given out when it was recorded
    DoingVec doing;    // graph, exec
    Object *origin;    // graph, exec: the stream it was begun on
    const char *names; // module: of its functions
    char *host;        // pinned: its memory
    size_t n;
};

typedef struct Piece { // of the card's memory
    char *host;
    size_t n;
    bool live, fresh; // fresh: zero and never written
} Piece;

typedef struct Transfer { // from or to pinned memory, not known to be over
    uint32_t line;
    uint64_t number;
    char *host;
    size_t n;
    bool in;     // to the host: `bytes` appear there when it is over
    char *bytes; // else: what they were
} Transfer;

struct Recorder {
    Arena arena;
    CudaApi api;
    Order *order;
    Clock host;
    VEC(Object *) object;
    VEC(Piece) piece;
    VEC(Transfer) transfer;
    WorkVec work;
    Object *capture; // the graph being recorded
    uint32_t lines;
    size_t memory, used, most, graphs;
    uint64_t calls, fail_at;
    Mishap mishap;
    bool broken, dead;                 // a kernel has failed; it has been told
    uint64_t launches, given, nearest; // since a mishap was asked for; in all; behind a wait
    uint64_t made, queries;            // graphs; of events and streams
    int contexts;
    char complaint[400];
};

void complain(const char *format, ...) {
    if (*recording->complaint)
        return;
    va_list args;
    va_start(args, format);
    vsnprintf(recording->complaint, sizeof recording->complaint, format, args);
    va_end(args);
}

Arena *record_arena(void) {
    return &recording->arena;
}

CUresult record_call(void) {
    Recorder *r = recording;
    r->calls++;
    if (r->dead)
        return CUDA_ERROR_ILLEGAL_ADDRESS;
    bool of_calls = r->mishap == MishapOnce || r->mishap == MishapSticky;
    if (!of_calls || r->calls != r->fail_at)
        return CUDA_SUCCESS;
    r->dead = r->mishap == MishapSticky;
    return r->dead ? CUDA_ERROR_ILLEGAL_ADDRESS : CUDA_ERROR_UNKNOWN;
}

#define CALL()                                                                                     \
    do {                                                                                           \
        CUresult code_ = record_call();                                                            \
        if (code_ != CUDA_SUCCESS)                                                                 \
            return code_;                                                                          \
    } while (0)

// --- objects -------------------------------------------------------------------------------------

static Object *object_new(Kind kind) {
    Recorder *r = recording;
    Object *o = arena_new(&r->arena, Object);
    *o = (Object){.kind = kind, .live = true};
    vec_push(&r->arena, &r->object, o);
    return o;
}

static Object *object_get(void *handle, Kind kind, const char *call) {
    Object *o = handle;
    if (!o || o->kind != kind || !o->live) {
        complain("%s: not a live object of its kind", call);
        return NULL;
    }
    return o;
}

// Gives the object back, even where the call is to fail: it is not used again.
static CUresult object_end(void *handle, Kind kind, const char *call) {
    Object *o = object_get(handle, kind, call);
    CUresult code = record_call();
    if (o)
        o->live = false;
    return code;
}

// --- waiting -------------------------------------------------------------------------------------

static void check_sent(const Transfer *t) {
    if (memcmp(t->host, t->bytes, t->n))
        complain("the host changed pinned memory while a copy from it was on its way");
}

// What the host now knows to be over becomes true for it.
static void settle(void) {
    Recorder *r = recording;
    uint32_t kept = 0;
    for (uint32_t i = 0; i < r->transfer.n; i++) {
        Transfer t = r->transfer.at[i];
        if (r->host.at[t.line] < t.number) {
            r->transfer.at[kept++] = t;
            continue;
        }
        if (t.in)
            memcpy(t.host, t.bytes, t.n);
        else
            check_sent(&t);
        free(t.bytes);
    }
    r->transfer.n = kept;
}

static void host_waits(const Clock *for_) {
    order_join(&recording->host, for_);
    settle();
}

static void host_waits_all(void) {
    Recorder *r = recording;
    for (uint32_t i = 0; i < r->object.n; i++)
        if (r->object.at[i]->kind == KindStream)
            order_join(&r->host, &r->object.at[i]->clock);
    settle();
}

// --- memory --------------------------------------------------------------------------------------

static char *host_of(CUdeviceptr at) {
    return (char *)(uintptr_t)(at & ~((CUdeviceptr)1 << TAG_BIT));
}

static CUdeviceptr card_of(const char *host) {
    return (CUdeviceptr)(uintptr_t)host | (CUdeviceptr)1 << TAG_BIT;
}

static Piece *piece_at(CUdeviceptr at, size_t n) {
    Recorder *r = recording;
    for (uint32_t i = 0; i < r->piece.n; i++) {
        Piece *p = &r->piece.at[i];
        CUdeviceptr from = card_of(p->host);
        if (p->live && at >= from && at + n <= from + p->n)
            return p;
    }
    return NULL;
}

static bool is_pinned(const void *at, size_t n) {
    Recorder *r = recording;
    for (uint32_t i = 0; i < r->object.n; i++) {
        const Object *o = r->object.at[i];
        if (o->kind == KindPinned && o->live && (const char *)at >= o->host &&
            (const char *)at + n <= o->host + o->n)
            return true;
    }
    return false;
}

static CUresult mem_get_info(size_t *room, size_t *all) {
    CALL();
    *room = recording->memory - recording->used;
    *all = recording->memory;
    return CUDA_SUCCESS;
}

static CUresult mem_take(CUdeviceptr *out, size_t n) {
    Recorder *r = recording;
    CALL();
    if (r->capture)
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    if (!n)
        return CUDA_ERROR_INVALID_VALUE;
    if (n > r->memory - r->used)
        return CUDA_ERROR_OUT_OF_MEMORY;
    Piece p = {mem_alloc_aligned(n, 256), n, true, true};
    vec_push(&r->arena, &r->piece, p);
    r->used += n;
    r->most = r->used > r->most ? r->used : r->most;
    *out = card_of(p.host);
    return CUDA_SUCCESS;
}

static CUresult mem_give(CUdeviceptr at) {
    Recorder *r = recording;
    CUresult code = record_call();
    Piece *p = piece_at(at, 1);
    if (!p || card_of(p->host) != at) {
        complain("memory is given back that was not taken");
        return CUDA_ERROR_INVALID_VALUE;
    }
    host_waits_all(); // as the driver does
    order_forget(r->order, at, p->n);
    p->live = false;
    r->used -= p->n;
    mem_free_aligned(p->host);
    return code;
}

static CUresult mem_pin(void **out, size_t n) {
    CALL();
    Object *o = object_new(KindPinned);
    o->host = *out = calloc(n, 1);
    o->n = n;
    return CUDA_SUCCESS;
}

static CUresult mem_unpin(void *at) {
    Recorder *r = recording;
    CUresult code = record_call();
    host_waits_all();
    for (uint32_t i = 0; i < r->object.n; i++) {
        Object *o = r->object.at[i];
        if (o->kind == KindPinned && o->live && o->host == at) {
            free(o->host);
            o->live = false;
            return code;
        }
    }
    complain("memory is unpinned that was not pinned");
    return CUDA_ERROR_INVALID_VALUE;
}

// --- work ----------------------------------------------------------------------------------------

static void add_access(Work *w, CUdeviceptr at, size_t n, bool write) {
    vec_push(&recording->arena, &w->access, ((Access){at, n, write}));
}

static void transfer_add(const Object *s, char *host, size_t n, bool in, const void *bytes) {
    Transfer t = {s->line, s->clock.at[s->line], host, n, in, malloc(n)};
    memcpy(t.bytes, bytes, n);
    vec_push(&recording->arena, &recording->transfer, t);
}

// What is about to come to this memory of the host lies behind what left from there.
static void send_before(const Object *s, const char *host, size_t n) {
    Recorder *r = recording;
    uint32_t kept = 0;
    for (uint32_t i = 0; i < r->transfer.n; i++) {
        Transfer t = r->transfer.at[i];
        bool over =
            !t.in && t.host < host + n && host < t.host + t.n && s->clock.at[t.line] >= t.number;
        if (!over) {
            r->transfer.at[kept++] = t;
            continue;
        }
        check_sent(&t);
        free(t.bytes);
    }
    r->transfer.n = kept;
}

static void move_bytes(const Object *s, const Work *w) {
    if (w->host_from) {
        transfer_add(s, (char *)(uintptr_t)w->host_from, w->n, false, w->host_from);
        memcpy(host_of(w->to), w->host_from, w->n);
        piece_at(w->to, w->n)->fresh = false;
    } else if (w->host_to) {
        send_before(s, w->host_to, w->n);
        transfer_add(s, w->host_to, w->n, true, host_of(w->from));
        memset(w->host_to, 0xA5, w->n); // for whoever reads it before it is there
    } else if (!piece_at(w->from, w->n)->fresh || !piece_at(w->to, w->n)->fresh) {
        memmove(host_of(w->to), host_of(w->from), w->n);
        piece_at(w->to, w->n)->fresh = false;
    }
}

static bool all_there(const Work *w) {
    for (uint32_t i = 0; i < w->access.n; i++)
        if (!piece_at(w->access.at[i].at, w->access.at[i].n)) {
            complain("%s: memory that is not there", w->name);
            return false;
        }
    return true;
}

// The card does it, in the order of the stream.
static void do_work(Object *s, Work w) {
    Recorder *r = recording;
    const char *other = NULL;
    r->launches += w.kind == WorkLaunch;
    r->given += w.kind == WorkLaunch;
    r->broken |= r->mishap == MishapKernel && w.kind == WorkLaunch && r->launches == r->fail_at;
    if (r->broken || !all_there(&w))
        return;
    order_join(&s->clock, &r->host);
    if (!order_add(r->order, &s->clock, s->line, &w, &other))
        complain("a race: %s and %s, with nothing between them that orders them", other, w.name);
    if (w.kind == WorkCopy)
        move_bytes(s, &w);
    if (w.kind == WorkLaunch)
        memcpy(&w.said, host_of(w.counters), sizeof w.said);
    vec_push(&r->arena, &r->work, w);
}

void record_work(CUstream stream, Work w) {
    Recorder *r = recording;
    Object *s = object_get(stream, KindStream, w.name);
    w.stream = stream;
    if (!s)
        return;
    if (s->within)
        vec_push(&r->arena, &r->capture->doing, ((Doing){.stream = s, .work = w}));
    else if (r->capture)
        complain("%s: work on a stream that is not recorded while another is", w.name);
    else
        do_work(s, w);
}

static CUresult set_bytes(CUdeviceptr at, unsigned char x, size_t n, CUstream s) {
    CALL();
    Work w = {.kind = WorkSet, .name = "set"};
    add_access(&w, at, n, true);
    record_work(s, w);
    Piece *p = piece_at(at, n);
    if (p && !(p->fresh && !x))
        memset(host_of(at), x, n);
    return CUDA_SUCCESS;
}

static CUresult set_columns(CUdeviceptr at, size_t pitch, unsigned x, size_t width, size_t rows,
                            CUstream s) {
    CALL();
    Work w = {.kind = WorkSet, .name = "set columns"};
    for (size_t i = 0; i < rows; i++)
        add_access(&w, at + i * pitch, width * sizeof x, true);
    record_work(s, w);
    return CUDA_SUCCESS;
}

static CUresult copy_in(CUdeviceptr to, const void *from, size_t n, CUstream s) {
    CALL();
    Work w = {.kind = WorkCopy, .name = "copy to the card", .to = to, .host_from = from, .n = n};
    add_access(&w, to, n, true);
    if (!is_pinned(from, n))
        complain("an asynchronous copy from memory that is not pinned");
    record_work(s, w);
    return CUDA_SUCCESS;
}

static CUresult copy_out(void *to, CUdeviceptr from, size_t n, CUstream s) {
    CALL();
    Work w = {.kind = WorkCopy, .name = "copy from the card", .from = from, .host_to = to, .n = n};
    add_access(&w, from, n, false);
    if (!is_pinned(to, n))
        complain("an asynchronous copy to memory that is not pinned");
    record_work(s, w);
    return CUDA_SUCCESS;
}

static CUresult copy_across(CUdeviceptr to, CUdeviceptr from, size_t n, CUstream s) {
    CALL();
    Work w = {.kind = WorkCopy, .name = "copy on the card", .to = to, .from = from, .n = n};
    add_access(&w, from, n, false);
    add_access(&w, to, n, true);
    record_work(s, w);
    return CUDA_SUCCESS;
}

// --- streams and events --------------------------------------------------------------------------

// What came to the host before a kernel broke is there, though nobody can wait for it any more.
static void die(void) {
    Recorder *r = recording;
    r->dead = true;
    for (uint32_t i = 0; i < r->transfer.n; i++)
        if (r->transfer.at[i].in)
            memcpy(r->transfer.at[i].host, r->transfer.at[i].bytes, r->transfer.at[i].n);
}

// The host waits for work behind which `given` launches had been given out.
static void note_wait(const Clock *for_, uint64_t given) {
    Recorder *r = recording;
    bool waits = false;
    for (int i = 0; i < RECORD_LINES; i++)
        waits |= for_->at[i] > r->host.at[i];
    if (waits && r->given - given < r->nearest)
        r->nearest = r->given - given;
}

// A call that waits: it learns of a broken kernel, and a recording stream forbids it.
static CUresult may_wait(void) {
    Recorder *r = recording;
    CALL();
    if (r->broken)
        die();
    if (r->dead)
        return CUDA_ERROR_ILLEGAL_ADDRESS;
    return r->capture ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : CUDA_SUCCESS;
}

static CUresult stream_create(CUstream *out, unsigned flags) {
    CALL();
    (void)flags;
    Object *o = object_new(KindStream);
    o->line = ++recording->lines;
    if (o->line >= STREAMS_MOST)
        complain("more streams than the recorder has lines");
    *out = (CUstream)o;
    return CUDA_SUCCESS;
}

static CUresult stream_destroy(CUstream s) {
    return object_end(s, KindStream, "cuStreamDestroy");
}

static CUresult stream_synchronize(CUstream handle) {
    Object *s = object_get(handle, KindStream, "cuStreamSynchronize");
    CUresult code = may_wait();
    if (code == CUDA_SUCCESS && s) {
        note_wait(&s->clock, recording->given);
        host_waits(&s->clock);
    }
    return code;
}

static CUresult stream_wait_event(CUstream handle, CUevent event, unsigned flags) {
    (void)flags;
    CALL();
    Object *s = object_get(handle, KindStream, "cuStreamWaitEvent");
    Object *e = object_get(event, KindEvent, "cuStreamWaitEvent");
    if (!s || !e)
        return CUDA_SUCCESS;
    if (e->within && e->within == recording->capture) { // brings the stream into the graph
        s->within = e->within;
        vec_push(&recording->arena, &s->within->doing, ((Doing){DoWait, s, e, {0}}));
    } else if (e->within || s->within) {
        complain("cuStreamWaitEvent: between what is recorded and what is not");
    } else if (recording->mishap != MishapDropWaits) {
        order_join(&s->clock, &e->clock);
    }
    return CUDA_SUCCESS;
}

static CUresult event_create(CUevent *out, unsigned flags) {
    CALL();
    Object *o = object_new(KindEvent);
    o->timed = !(flags & CU_EVENT_DISABLE_TIMING);
    *out = (CUevent)o;
    return CUDA_SUCCESS;
}

static CUresult event_destroy(CUevent e) {
    return object_end(e, KindEvent, "cuEventDestroy");
}

static CUresult event_record(CUevent event, CUstream handle) {
    CALL();
    Object *e = object_get(event, KindEvent, "cuEventRecord");
    Object *s = object_get(handle, KindStream, "cuEventRecord");
    if (!e || !s)
        return CUDA_SUCCESS;
    e->within = s->within;
    if (s->within) {
        vec_push(&recording->arena, &s->within->doing, ((Doing){DoRecord, s, e, {0}}));
    } else {
        order_join(&s->clock, &recording->host);
        e->clock = s->clock;
        e->at = recording->given;
    }
    return CUDA_SUCCESS;
}

static CUresult event_synchronize(CUevent event) {
    Object *e = object_get(event, KindEvent, "cuEventSynchronize");
    CUresult code = may_wait();
    if (e && e->within)
        complain("cuEventSynchronize: an event of a recorded graph");
    if (code == CUDA_SUCCESS && e && recording->mishap != MishapDropEvents) {
        note_wait(&e->clock, e->at);
        host_waits(&e->clock);
    }
    return code;
}

// The first time it is asked the card is still at work; with MishapHang it stays so.
static CUresult query(const Clock *for_, uint64_t given) {
    Recorder *r = recording;
    CUresult code = may_wait();
    if (code != CUDA_SUCCESS)
        return code;
    if (r->mishap == MishapHang || ++r->queries % 2)
        return CUDA_ERROR_NOT_READY;
    note_wait(for_, given);
    host_waits(for_);
    return CUDA_SUCCESS;
}

static CUresult event_query(CUevent event) {
    const Object *e = object_get(event, KindEvent, "cuEventQuery");
    if (e && e->within)
        complain("cuEventQuery: an event of a recorded graph");
    return e ? query(&e->clock, e->at) : CUDA_ERROR_INVALID_VALUE;
}

static CUresult stream_query(CUstream handle) {
    const Object *s = object_get(handle, KindStream, "cuStreamQuery");
    return s ? query(&s->clock, recording->given) : CUDA_ERROR_INVALID_VALUE;
}

// Later candidates are quicker: the choice is not the first one.
static CUresult event_elapsed(float *ms, CUevent from, CUevent to) {
    CALL();
    const Object *a = object_get(from, KindEvent, "cuEventElapsedTime");
    const Object *b = object_get(to, KindEvent, "cuEventElapsedTime");
    if (a && b && (!a->timed || !b->timed))
        complain("cuEventElapsedTime: an event that is not timed");
    *ms = 1.0f / (float)(1 + recording->calls % 1000);
    return CUDA_SUCCESS;
}

// --- modules -------------------------------------------------------------------------------------

static CUresult module_load(CUmodule *out, const void *image) {
    CALL();
    if (recording->mishap == MishapOtherCode)
        return CUDA_ERROR_NO_BINARY_FOR_GPU;
    Object *m = object_new(KindModule);
    m->names = image;
    *out = (CUmodule)m;
    return CUDA_SUCCESS;
}

static CUresult module_unload(CUmodule m) {
    return object_end(m, KindModule, "cuModuleUnload");
}

static CUresult module_function(CUfunction *out, CUmodule m, const char *name) {
    CALL();
    const Object *o = object_get(m, KindModule, "cuModuleGetFunction");
    if (!o || !strstr(o->names, name))
        return CUDA_ERROR_NOT_FOUND;
    *out = (CUfunction)(uintptr_t)str_z(&recording->arena, str_c(name));
    return CUDA_SUCCESS;
}

static CUresult function_set(CUfunction f, CUfunction_attribute what, int value) {
    (void)f, (void)what, (void)value;
    return record_call();
}

static CUresult launch(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                       unsigned by, unsigned bz, unsigned shared, CUstream s, void **params,
                       void **extra) {
    CALL();
    Work w = {.kind = WorkLaunch, .name = (const char *)f};
    if (!gx || !gy || gz != 1 || !bx || bx > 1024 || by != 1 || bz != 1 || gy > 65535 || extra ||
        shared > 227 << 10)
        complain("%s: a grid of %ux%u blocks of %u threads", w.name, gx, gy, bx);
    Str name = str_c(w.name);
    if (str_ends(name, STR("_many"))) {
        CUdeviceptr table = *(CUdeviceptr *)params[0];
        size_t bytes = launch_words(w.name) * sizeof(uint64_t);
        add_access(&w, table, gy * bytes, false);
        for (unsigned i = 0; i < gy && all_there(&w); i++)
            if (!launch_accesses(w.name, (const void *)(host_of(table) + i * bytes), &w))
                complain("%s: instance %u has arguments of no region", w.name, i);
    } else if (gy != 1 || !launch_accesses(w.name, params[0], &w)) {
        complain("%s: arguments of no region", w.name);
    }
    w.counters = *(CUdeviceptr *)params[1];
    add_access(&w, w.counters, sizeof(Counters), false);
    record_work(s, w);
    return CUDA_SUCCESS;
}

// --- graphs --------------------------------------------------------------------------------------

static CUresult begin_capture(CUstream s, CUstreamCaptureMode mode) {
    Recorder *r = recording;
    (void)mode;
    CALL();
    Object *origin = object_get(s, KindStream, "cuStreamBeginCapture");
    if (r->capture)
        complain("cuStreamBeginCapture: one is recorded already");
    r->capture = object_new(KindGraph);
    r->capture->live = false; // until it is handed out
    r->capture->origin = origin;
    if (origin)
        origin->within = r->capture;
    return CUDA_SUCCESS;
}

// Does the graph's last work on every stream come before the end of the one it was begun on?
static bool all_joined(const Object *g) {
    Recorder *r = recording;
    for (uint32_t i = 0; i < r->object.n; i++)
        r->object.at[i]->inner = (Clock){{0}};
    for (uint32_t i = 0; i < g->doing.n; i++) {
        const Doing *d = &g->doing.at[i];
        if (d->kind == DoWait)
            order_join(&d->stream->inner, &d->event->inner);
        else
            d->stream->inner.at[d->stream->line]++;
        if (d->kind == DoRecord)
            d->event->inner = d->stream->inner;
    }
    bool all = true;
    for (uint32_t i = 0; i < r->object.n; i++) {
        const Object *s = r->object.at[i];
        all &= s->kind != KindStream || g->origin->inner.at[s->line] == s->inner.at[s->line];
    }
    return all;
}

static CUresult end_capture(CUstream s, CUgraph *out) {
    Recorder *r = recording;
    CUresult code = record_call();
    Object *g = r->capture;
    r->capture = NULL;
    for (uint32_t i = 0; i < r->object.n; i++)
        if (r->object.at[i]->kind == KindStream)
            r->object.at[i]->within = NULL;
    if (!g || (Object *)s != g->origin)
        complain("cuStreamEndCapture: nothing is recorded there");
    if (code != CUDA_SUCCESS || !g)
        return code;
    if (!all_joined(g)) {
        g->live = false;
        return CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
    }
    g->live = true;
    *out = (CUgraph)g;
    return CUDA_SUCCESS;
}

static CUresult instantiate(CUgraphExec *out, CUgraph graph, unsigned long long flags) {
    CALL();
    (void)flags;
    const Object *g = object_get(graph, KindGraph, "cuGraphInstantiate");
    Object *e = object_new(KindExec);
    recording->made++;
    if (g) {
        e->doing = g->doing;
        e->origin = g->origin;
    }
    *out = (CUgraphExec)e;
    return CUDA_SUCCESS;
}

// Work of another stream in a graph is behind what the launch is behind, and on a line of its own:
// it has nothing to do with what was given to that stream otherwise.
static void replay(const Object *exec, Object *s) {
    Recorder *r = recording;
    Object branch[STREAMS_MOST];
    for (uint32_t i = 0; i < STREAMS_MOST; i++)
        branch[i] = (Object){.kind = KindStream, .clock = s->clock, .line = i + STREAMS_MOST};
    for (uint32_t i = 0; i < exec->doing.n; i++) {
        const Doing *d = &exec->doing.at[i];
        Object *on = d->stream == exec->origin ? s : &branch[d->stream->line];
        Work w = d->work;
        w.recorded = true;
        if (d->kind == DoWork)
            do_work(on, w);
        else if (d->kind == DoRecord)
            d->event->inner = on->clock;
        else if (r->mishap != MishapDropWaits)
            order_join(&on->clock, &d->event->inner);
    }
    for (uint32_t i = 0; i < STREAMS_MOST; i++)
        order_join(&s->clock, &branch[i].clock); // a graph is over when all of it is
}

static CUresult graph_launch(CUgraphExec exec, CUstream stream) {
    CALL();
    const Object *e = object_get(exec, KindExec, "cuGraphLaunch");
    Object *s = object_get(stream, KindStream, "cuGraphLaunch");
    recording->graphs++;
    if (e && s)
        replay(e, s);
    return CUDA_SUCCESS;
}

static CUresult exec_destroy(CUgraphExec e) {
    return object_end(e, KindExec, "cuGraphExecDestroy");
}

static CUresult graph_destroy(CUgraph g) {
    return object_end(g, KindGraph, "cuGraphDestroy");
}

// --- the card ------------------------------------------------------------------------------------

static CUresult init(unsigned flags) {
    (void)flags;
    CALL();
    return recording->mishap == MishapNoCard ? CUDA_ERROR_NO_DEVICE : CUDA_SUCCESS;
}

static CUresult driver_version(int *out) {
    CALL();
    *out = recording->mishap == MishapOldDriver ? 11040 : 13000;
    return CUDA_SUCCESS;
}

static CUresult error_name(CUresult code, const char **out) {
    *out = code == CUDA_ERROR_ILLEGAL_ADDRESS ? "CUDA_ERROR_ILLEGAL_ADDRESS" : "CUDA_ERROR";
    return CUDA_SUCCESS;
}

static CUresult error_string(CUresult code, const char **out) {
    *out = code == CUDA_ERROR_ILLEGAL_ADDRESS ? "an illegal memory access was encountered"
                                              : "a recorded error";
    return CUDA_SUCCESS;
}

static CUresult device_count(int *out) {
    CALL();
    *out = 1;
    return CUDA_SUCCESS;
}

static CUresult device_get(CUdevice *out, int i) {
    CALL();
    *out = i;
    return CUDA_SUCCESS;
}

static CUresult device_name(char *out, int n, CUdevice d) {
    (void)d;
    CALL();
    snprintf(out, (size_t)n, "a recorded card");
    return CUDA_SUCCESS;
}

static CUresult device_uuid(CUuuid *out, CUdevice d) {
    (void)d;
    CALL();
    for (size_t i = 0; i < sizeof out->bytes; i++)
        out->bytes[i] = (char)(i * 17);
    return CUDA_SUCCESS;
}

static CUresult device_attribute(int *out, CUdevice_attribute what, CUdevice d) {
    (void)d;
    CALL();
    bool old = recording->mishap == MishapOldCard;
    *out = what == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR ? (old ? 6 : 9) : 0;
    return CUDA_SUCCESS;
}

static CUresult context_retain(CUcontext *out, CUdevice d) {
    (void)d;
    CALL();
    recording->contexts++;
    *out = (CUcontext)recording;
    return CUDA_SUCCESS;
}

static CUresult context_release(CUdevice d) {
    (void)d;
    if (--recording->contexts < 0)
        complain("the context is released more often than retained");
    return record_call();
}

static CUresult context_set(CUcontext c) {
    (void)c;
    return record_call();
}

static const CudaDriver driver = {
    .Init = init,
    .DriverGetVersion = driver_version,
    .GetErrorName = error_name,
    .GetErrorString = error_string,
    .DeviceGetCount = device_count,
    .DeviceGet = device_get,
    .DeviceGetName = device_name,
    .DeviceGetUuid = device_uuid,
    .DeviceGetAttribute = device_attribute,
    .DevicePrimaryCtxRetain = context_retain,
    .DevicePrimaryCtxRelease = context_release,
    .CtxSetCurrent = context_set,
    .MemGetInfo = mem_get_info,
    .MemAlloc = mem_take,
    .MemFree = mem_give,
    .MemAllocHost = mem_pin,
    .MemFreeHost = mem_unpin,
    .MemsetD8Async = set_bytes,
    .MemsetD2D32Async = set_columns,
    .MemcpyHtoDAsync = copy_in,
    .MemcpyDtoHAsync = copy_out,
    .MemcpyDtoDAsync = copy_across,
    .StreamCreate = stream_create,
    .StreamDestroy = stream_destroy,
    .StreamSynchronize = stream_synchronize,
    .StreamQuery = stream_query,
    .StreamWaitEvent = stream_wait_event,
    .StreamBeginCapture = begin_capture,
    .StreamEndCapture = end_capture,
    .EventCreate = event_create,
    .EventDestroy = event_destroy,
    .EventRecord = event_record,
    .EventSynchronize = event_synchronize,
    .EventQuery = event_query,
    .EventElapsedTime = event_elapsed,
    .ModuleLoadData = module_load,
    .ModuleUnload = module_unload,
    .ModuleGetFunction = module_function,
    .FuncSetAttribute = function_set,
    .LaunchKernel = launch,
    .GraphInstantiate = instantiate,
    .GraphLaunch = graph_launch,
    .GraphExecDestroy = exec_destroy,
    .GraphDestroy = graph_destroy,
};

// --- the recorder --------------------------------------------------------------------------------

static GanStatus compile(void *user, const CudaKernels *k, Arena *a, CudaImages *out) {
    (void)user;
    *out = (CudaImages){LOTS, arena_array(a, Str, LOTS)};
    for (uint32_t i = 0; i < k->plan->kernel.n; i++) {
        Str name = k->plan->kernel.at[i].name, *code = &out->code[cuda_lot(name, LOTS)];
        if (k->wanted[i])
            *code = str_format(a, "%.*s %.*s", SARG(*code), SARG(name));
    }
    return GAN_OK;
}

Recorder *recorder_new(size_t memory) {
    Arena arena;
    assert(!recording);
    if (arena_init(&arena, 0) != GAN_OK)
        bug("%s", gan_error());
    Recorder *r = recording = arena_new(&arena, Recorder);
    *r = (Recorder){.memory = memory,
                    .api = {&driver, &record_dnn_api, compile, NULL, RECORD_FFT, RECORD_NCCL}};
    r->arena = arena;
    r->order = order_new(&r->arena);
    r->nearest = UINT64_MAX;
    record_dnn_begin();
    record_fft_begin();
    record_nccl_begin();
    record_plan_begin();
    return r;
}

void recorder_free(Recorder *r) {
    Arena arena = r->arena;
    for (uint32_t i = 0; i < r->piece.n; i++)
        if (r->piece.at[i].live)
            mem_free_aligned(r->piece.at[i].host);
    for (uint32_t i = 0; i < r->object.n; i++)
        if (r->object.at[i]->kind == KindPinned && r->object.at[i]->live)
            free(r->object.at[i]->host);
    for (uint32_t i = 0; i < r->transfer.n; i++)
        free(r->transfer.at[i].bytes);
    recording = NULL;
    arena_release(&arena);
}

const CudaApi *recorder_api(Recorder *r) {
    return &r->api;
}

Mishap record_mishap(void) {
    return recording->mishap;
}

void recorder_without_dnn(Recorder *r) {
    r->api.dnn = NULL;
}

void recorder_without_fft(Recorder *r) {
    r->api.fft = NULL;
}

void recorder_refusing_fft(Recorder *r) {
    (void)r; // there is one at a time
    record_fft_refuses();
}

void recorder_greedy_dnn(Recorder *r, size_t bytes) {
    (void)r;
    record_dnn_greed(bytes);
}

void recorder_greedy_fft(Recorder *r, size_t bytes) {
    (void)r;
    record_fft_greed(bytes);
}

size_t recorder_most_memory(const Recorder *r) {
    return r->most;
}

const WorkVec *recorder_work(const Recorder *r) {
    return &r->work;
}

uint32_t recorder_live(const Recorder *r) {
    uint32_t n = record_dnn_live() + record_fft_live() + record_nccl_live() + (uint32_t)r->contexts;
    for (uint32_t i = 0; i < r->piece.n; i++)
        n += r->piece.at[i].live;
    for (uint32_t i = 0; i < r->object.n; i++)
        n += r->object.at[i]->live;
    return n;
}

const char *recorder_complaint(const Recorder *r) {
    return *r->complaint ? r->complaint : NULL;
}

uint64_t recorder_calls(const Recorder *r) {
    return r->calls;
}

uint64_t recorder_made_graphs(const Recorder *r) {
    return r->made;
}

uint64_t recorder_nearest_wait(Recorder *r) {
    uint64_t nearest = r->nearest;
    r->nearest = UINT64_MAX;
    return nearest;
}

size_t recorder_launched_graphs(const Recorder *r) {
    return r->graphs;
}

void recorder_mishap(Recorder *r, Mishap m, uint64_t nth) {
    r->mishap = m;
    r->launches = 0;
    r->fail_at = m == MishapKernel                      ? nth
                 : m == MishapOnce || m == MishapSticky ? r->calls + nth
                                                        : 0;
}
