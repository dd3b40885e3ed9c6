// record_memory.c - memory of the mock card and of the host, and the work that reads and writes
// it.
//
// Bytes copied to the host appear there when it has waited for them, not before; bytes in flight
// to the card must not change.
#include "record_state.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum { TAG_BIT = 62 }; // set in device addresses, so that none is a valid host address

// --- waiting -------------------------------------------------------------------------------------

static void check_sent(const Transfer *t) {
    if (memcmp(t->host, t->bytes, t->n))
        complain("the host changed pinned memory while a copy from it was on its way");
}

// Makes the effects of work that the host now knows to be complete visible to it.
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

void host_waits(const Clock *for_) {
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

char *host_of(CUdeviceptr at) {
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

static size_t left(void) {
    return recording->memory - recording->used - recording->beside;
}

bool record_takes(size_t bytes) {
    bool fits = bytes <= left();
    recording->beside += fits ? bytes : 0;
    return fits;
}

void record_gives(size_t bytes) {
    recording->beside -= bytes;
}

static CUresult mem_get_info(size_t *room, size_t *all) {
    CALL();
    *room = left();
    *all = recording->memory;
    return CUDA_SUCCESS;
}

static CUresult mem_take(CUdeviceptr *out, size_t n) {
    Recorder *r = recording;
    CALL_OUTSIDE_CAPTURE("cuMemAlloc");
    if (!n)
        return CUDA_ERROR_INVALID_VALUE;
    if (n > left())
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
    in_capture("cuMemFree");
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
    CALL_OUTSIDE_CAPTURE("cuMemAllocHost");
    Object *o = object_new(KindPinned);
    o->host = *out = calloc(n, 1);
    o->n = n;
    return CUDA_SUCCESS;
}

static CUresult mem_unpin(void *at) {
    Recorder *r = recording;
    in_capture("cuMemFreeHost");
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

void add_access(Work *w, CUdeviceptr at, size_t n, bool write) {
    vec_push(&recording->arena, &w->access, ((Access){at, n, write}));
}

static void transfer_add(const Object *s, char *host, size_t n, bool in, const void *bytes) {
    Transfer t = {s->line, s->clock.at[s->line], host, n, in, malloc(n)};
    memcpy(t.bytes, bytes, n);
    vec_push(&recording->arena, &recording->transfer, t);
}

// Copies to this host memory follow earlier copies from it.
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
        memset(w->host_to, 0xA5, w->n); // to detect reads before the copy is complete
    } else if (!piece_at(w->from, w->n)->fresh || !piece_at(w->to, w->n)->fresh) {
        memmove(host_of(w->to), host_of(w->from), w->n);
        piece_at(w->to, w->n)->fresh = false;
    }
}

bool all_there(const Work *w) {
    for (uint32_t i = 0; i < w->access.n; i++)
        if (!piece_at(w->access.at[i].at, w->access.at[i].n)) {
            complain("%s: memory that is not there", w->name);
            return false;
        }
    return true;
}

// Executes the work, in stream order.
void do_work(Object *s, Work w) {
    Recorder *r = recording;
    const char *other = NULL;
    r->launches += w.kind == WorkLaunch;
    r->given += w.kind == WorkLaunch;
    r->broken |= r->mishap == MishapKernel && w.kind == WorkLaunch && r->launches == r->fail_at;
    if (r->broken || !all_there(&w))
        return;
    if (s->timer && changes_slots(&w))
        complain("%s: a trial run overwrites weights or state", w.name);
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
        capture_work(s, w);
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

void record_fill(CUstream stream, CUdeviceptr at, size_t n) {
    Work w = {.kind = WorkSet, .name = "set"};
    if (n)
        add_access(&w, at, n, true);
    if (n)
        record_work(stream, w);
}

void begin_block(CUstream s, const void *head, CUdeviceptr to, CUdeviceptr mark) {
    const size_t at = offsetof(CudaHead, mark), n = sizeof(CudaMark);
    char *by_value = arena_alloc(&recording->arena, sizeof(CudaHead), 8);
    void *host = (void *)(uintptr_t)mark;
    memcpy(by_value, head, sizeof(CudaHead));
    Work up = {.kind = WorkCopy,
               .name = "gan_begin",
               .to = to,
               .host_from = by_value,
               .n = sizeof(CudaHead)};
    Work down = {.kind = WorkCopy, .name = "gan_begin", .from = to + at, .host_to = host, .n = n};
    add_access(&up, to, sizeof(CudaHead), true);
    add_access(&down, to + at, n, false);
    if (!is_pinned(host, n))
        complain("gan_begin: a breadcrumb to memory that is not pinned");
    record_work(s, up);
    record_work(s, down);
}

// --- the table -----------------------------------------------------------------------------------

void record_memory_rows(CudaDriver *out) {
    out->MemGetInfo = mem_get_info;
    out->MemAlloc = mem_take;
    out->MemFree = mem_give;
    out->MemAllocHost = mem_pin;
    out->MemFreeHost = mem_unpin;
    out->MemsetD8Async = set_bytes;
    out->MemsetD2D32Async = set_columns;
    out->MemcpyHtoDAsync = copy_in;
    out->MemcpyDtoHAsync = copy_out;
    out->MemcpyDtoDAsync = copy_across;
}
