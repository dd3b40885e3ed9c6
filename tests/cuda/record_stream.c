// record_stream.c - streams, events, and captured graphs of the mock driver, and the order between
// them.
#include "record_state.h"

#include <string.h>

// --- nodes ---------------------------------------------------------------------------------------

static void add_edge(EdgeVec *to, Captured *from, EdgeKind kind) {
    for (uint32_t i = 0; i < to->n; i++)
        if (to->at[i].from == from)
            return;
    vec_push(&recording->arena, to, ((Edge){from, kind}));
}

// What a stream captures first depends on nothing.
static void enter_capture(Object *s, Object *graph) {
    if (s->within != graph)
        s->next = (EdgeVec){0};
    s->within = graph;
}

void capture_work(Object *s, Work w) {
    Captured *n = arena_new(&recording->arena, Captured);
    *n = (Captured){.graph = s->within, .stream = s, .work = w};
    for (uint32_t i = 0; i < s->next.n; i++) {
        const Edge e = s->next.at[i];
        bool drop = e.kind == EdgeSet && ++recording->edges == recording->fail_at &&
                    recording->mishap == MishapDropEdge;
        if (!drop)
            add_edge(&n->after, e.from, e.kind);
    }
    s->next = (EdgeVec){0};
    add_edge(&s->next, n, EdgeStream);
    vec_push(&recording->arena, &s->within->node, n);
}

// --- streams and events --------------------------------------------------------------------------

// Copies to the host that completed before a kernel failed are visible, although no wait succeeds.
static void die(void) {
    Recorder *r = recording;
    r->dead = true;
    for (uint32_t i = 0; i < r->transfer.n; i++)
        if (r->transfer.at[i].in)
            memcpy(r->transfer.at[i].host, r->transfer.at[i].bytes, r->transfer.at[i].n);
}

// The host waits for work that was enqueued after `given` launches.
static void note_wait(const Clock *for_, uint64_t given) {
    Recorder *r = recording;
    bool waits = false;
    for (int i = 0; i < RECORD_LINES; i++)
        waits |= for_->at[i] > r->host.at[i];
    if (waits && r->given - given < r->nearest)
        r->nearest = r->given - given;
}

// A call that waits: it reports a failed kernel, and is forbidden during capture.
static CUresult may_wait(void) {
    Recorder *r = recording;
    CALL();
    if (r->broken)
        die();
    if (r->dead)
        return r->loss;
    r->invalid |= r->capture != NULL;
    return r->capture ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : CUDA_SUCCESS;
}

enum { PriorityLeast = 0, PriorityGreatest = -5 };

static CUresult priority_range(int *least, int *greatest) {
    CALL();
    *least = PriorityLeast;
    *greatest = PriorityGreatest;
    return CUDA_SUCCESS;
}

static CUresult stream_create_with(CUstream *out, unsigned flags, int priority) {
    CALL();
    (void)flags;
    Object *o = object_new(KindStream);
    if (priority < PriorityGreatest || priority > PriorityLeast)
        complain("cuStreamCreateWithPriority: %d is not within the card's range", priority);
    o->priority = priority;
    o->line = ++recording->lines;
    if (o->line >= RECORD_STREAMS)
        complain("more streams than the recorder has lines");
    *out = (CUstream)o;
    return CUDA_SUCCESS;
}

static CUresult stream_create(CUstream *out, unsigned flags) {
    return stream_create_with(out, flags, PriorityLeast);
}

int recorder_priority(CUstream s) {
    return ((const Object *)s)->priority;
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
    if (e->within && e->within == recording->capture) {
        enter_capture(s, e->within);
        for (uint32_t i = 0; i < e->next.n; i++)
            add_edge(&s->next, e->next.at[i].from, EdgeEvent);
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
    for (uint32_t i = 0; i < recording->object.n; i++)
        if (recording->object.at[i]->timer == (Object *)e)
            recording->object.at[i]->timer = NULL;
    return object_end(e, KindEvent, "cuEventDestroy");
}

static CUresult event_record(CUevent event, CUstream handle) {
    CALL();
    Object *e = object_get(event, KindEvent, "cuEventRecord");
    Object *s = object_get(handle, KindStream, "cuEventRecord");
    if (!e || !s)
        return CUDA_SUCCESS;
    e->within = s->within;
    if (e->timed)
        s->timer = s->timer && s->timer != e ? NULL : e;
    if (s->within) {
        e->next = (EdgeVec){0};
        for (uint32_t i = 0; i < s->next.n; i++)
            add_edge(&e->next, s->next.at[i].from, s->next.at[i].kind);
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

// The first query reports that work is not complete; with MishapHang all do.
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

// Later candidates are faster, so that the first one is not chosen, and all are short.
static CUresult event_elapsed(float *ms, CUevent from, CUevent to) {
    CALL();
    const Object *a = object_get(from, KindEvent, "cuEventElapsedTime");
    const Object *b = object_get(to, KindEvent, "cuEventElapsedTime");
    if (a && b && (!a->timed || !b->timed))
        complain("cuEventElapsedTime: an event that is not timed");
    for (int i = 0; a && b && i < RECORD_LINES; i++)
        if (a->clock.at[i] > recording->host.at[i] || b->clock.at[i] > recording->host.at[i])
            return CUDA_ERROR_NOT_READY;
    *ms = record_dnn_delay() + 1e4f / (1e6f + (float)recording->calls);
    return CUDA_SUCCESS;
}

// --- graphs --------------------------------------------------------------------------------------

static CUresult begin_capture(CUstream s, CUstreamCaptureMode mode) {
    Recorder *r = recording;
    CALL();
    if (mode == CU_STREAM_CAPTURE_MODE_GLOBAL)
        complain("cuStreamBeginCapture: no thread of a library may allocate in that mode");
    r->invalid = false;
    Object *origin = object_get(s, KindStream, "cuStreamBeginCapture");
    if (r->capture)
        complain("cuStreamBeginCapture: one is recorded already");
    r->capture = object_new(KindGraph);
    r->capture->live = false; // until capture ends
    r->capture->origin = origin;
    record_captures(true);
    if (origin)
        enter_capture(origin, r->capture);
    return CUDA_SUCCESS;
}

static CUresult capture_info(CUstream handle, CUstreamCaptureStatus *status, cuuint64_t *id,
                             CUgraph *graph, const CUgraphNode **node, size_t *n) {
    CALL();
    const Object *s = object_get(handle, KindStream, "cuStreamGetCaptureInfo");
    if (!s)
        return CUDA_ERROR_INVALID_VALUE;
    if (id || graph)
        complain("cuStreamGetCaptureInfo: not recorded");
    *status = s->within ? CU_STREAM_CAPTURE_STATUS_ACTIVE : CU_STREAM_CAPTURE_STATUS_NONE;
    CUgraphNode *all = arena_array(&recording->arena, CUgraphNode, s->next.n);
    for (uint32_t i = 0; i < s->next.n; i++)
        all[i] = (CUgraphNode)s->next.at[i].from;
    *node = all;
    *n = s->next.n;
    return CUDA_SUCCESS;
}

static CUresult set_dependencies(CUstream handle, CUgraphNode *node, size_t n, unsigned flags) {
    Recorder *r = recording;
    CALL();
    Object *s = object_get(handle, KindStream, "cuStreamUpdateCaptureDependencies");
    if (!s || !s->within)
        return CUDA_ERROR_ILLEGAL_STATE;
    if (r->mishap == MishapNoBranches)
        return CUDA_ERROR_NOT_SUPPORTED;
    if (!node)
        complain("cuStreamUpdateCaptureDependencies: no array, not even of no nodes");
    if (flags == CU_STREAM_SET_CAPTURE_DEPENDENCIES)
        s->next = (EdgeVec){0};
    for (size_t i = 0; i < n; i++) {
        Captured *from = (Captured *)node[i];
        uint32_t before = s->next.n;
        if (from->graph != s->within)
            complain("cuStreamUpdateCaptureDependencies: a node of another graph");
        add_edge(&s->next, from, EdgeSet);
        if (s->next.n == before)
            complain("cuStreamUpdateCaptureDependencies: a node is named twice");
    }
    return CUDA_SUCCESS;
}

// Does the last work of every stream come before what the origin stream would capture next?
static bool all_joined(const Object *g) {
    const Recorder *r = recording;
    bool all = true;
    for (uint32_t i = 0; i < g->origin->next.n; i++)
        g->origin->next.at[i].from->joined = true;
    for (uint32_t i = g->node.n; i-- > 0;)
        for (uint32_t k = 0; g->node.at[i]->joined && k < g->node.at[i]->after.n; k++)
            g->node.at[i]->after.at[k].from->joined = true;
    for (uint32_t i = 0; i < r->object.n; i++)
        for (uint32_t k = 0; r->object.at[i]->kind == KindStream && r->object.at[i]->within == g &&
                             k < r->object.at[i]->next.n;
             k++)
            all &= r->object.at[i]->next.at[k].from->joined;
    return all;
}

static CUresult end_capture(CUstream s, CUgraph *out) {
    Recorder *r = recording;
    CUresult code = record_call();
    Object *g = r->capture;
    bool joined = g && all_joined(g);
    r->capture = NULL;
    record_captures(false);
    for (uint32_t i = 0; i < r->object.n; i++)
        if (r->object.at[i]->kind == KindStream)
            r->object.at[i]->within = NULL;
    if (!g || (Object *)s != g->origin)
        complain("cuStreamEndCapture: nothing is recorded there");
    if (code != CUDA_SUCCESS || !g)
        return code;
    if (r->mishap == MishapNoCapture || r->invalid)
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    if (!joined) {
        g->live = false;
        return CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
    }
    g->live = true;
    *out = (CUgraph)g;
    return CUDA_SUCCESS;
}

// Work of a graph runs at the priority of the stream it is launched into, unless the graph was
// instantiated to keep that of the streams it was captured from.
static void check_priorities(const Object *g) {
    for (uint32_t i = 0; i < g->node.n; i++)
        if (g->node.at[i]->stream->priority != g->origin->priority) {
            complain("cuGraphInstantiate: the priority of a captured stream is lost");
            return;
        }
}

// --- the nodes of a graph ---

#define FILL "gan_fill" // of service.cuh

static CUresult get_nodes(CUgraph graph, CUgraphNode *node, size_t *n) {
    CALL();
    const Object *g = object_get(graph, KindGraph, "cuGraphGetNodes");
    if (!g)
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; node && i < *n && i < g->node.n; i++)
        node[i] = (CUgraphNode)g->node.at[i];
    *n = g->node.n;
    return CUDA_SUCCESS;
}

static CUresult node_type_of(CUgraphNode node, CUgraphNodeType *out) {
    static const CUgraphNodeType type[] = {[WorkLaunch] = CU_GRAPH_NODE_TYPE_KERNEL,
                                           [WorkCopy] = CU_GRAPH_NODE_TYPE_MEMCPY,
                                           [WorkSet] = CU_GRAPH_NODE_TYPE_MEMSET,
                                           [WorkLibrary] = CU_GRAPH_NODE_TYPE_KERNEL};
    CALL();
    const Work *w = &((const Captured *)node)->work;
    *out = strcmp(w->name, FILL) ? type[w->kind] : CU_GRAPH_NODE_TYPE_KERNEL;
    return CUDA_SUCCESS;
}

// Of bytes of zero, with what their parameter may have above them. Rows that a pitch separates are
// several accesses.
static CUresult memset_params(CUgraphNode node, CUDA_MEMSET_NODE_PARAMS *out) {
    CALL();
    const Work *w = &((const Captured *)node)->work;
    *out = (CUDA_MEMSET_NODE_PARAMS){.dst = w->access.at[0].at,
                                     .value = 0xffffff00u,
                                     .elementSize = 1,
                                     .width = w->access.at[0].n,
                                     .height = w->access.n};
    return CUDA_SUCCESS;
}

static CUresult dependencies(CUgraphNode node, CUgraphNode *out, size_t *n) {
    CALL();
    const Captured *c = (const Captured *)node;
    for (size_t i = 0; out && i < *n && i < c->after.n; i++)
        out[i] = (CUgraphNode)c->after.at[i].from;
    *n = c->after.n;
    return CUDA_SUCCESS;
}

static bool depends_on(const Captured *c, const Captured *on) {
    for (uint32_t i = 0; i < c->after.n; i++)
        if (c->after.at[i].from == on)
            return true;
    return false;
}

static CUresult dependents(CUgraphNode node, CUgraphNode *out, size_t *n) {
    CALL();
    const Captured *c = (const Captured *)node;
    size_t found = 0;
    for (uint32_t i = 0; i < c->graph->node.n; i++) {
        if (!depends_on(c->graph->node.at[i], c))
            continue;
        if (out && found < *n)
            out[found] = (CUgraphNode)c->graph->node.at[i];
        found++;
    }
    *n = found;
    return CUDA_SUCCESS;
}

static CUresult add_kernel_node(CUgraphNode *out, CUgraph graph, const CUgraphNode *before,
                                size_t n, const CUDA_KERNEL_NODE_PARAMS *k) {
    CALL();
    Object *g = object_get(graph, KindGraph, "cuGraphAddKernelNode");
    if (!g)
        return CUDA_ERROR_INVALID_VALUE;
    Captured *c = arena_new(&recording->arena, Captured);
    *c = (Captured){
        .graph = g,
        .stream = g->origin,
        .work = {.kind = WorkSet, .stream = (CUstream)g->origin, .name = function_name(k->func)}};
    if (strcmp(c->work.name, FILL) != 0)
        complain("cuGraphAddKernelNode: %s is not known", c->work.name);
    else if (*(uint32_t *)k->kernelParams[2] != 0)
        complain("a fill with %x stands for one with zeros", *(uint32_t *)k->kernelParams[2]);
    else
        add_access(&c->work, *(CUdeviceptr *)k->kernelParams[0],
                   *(uint64_t *)k->kernelParams[1] * sizeof(uint32_t), true);
    for (size_t i = 0; i < n; i++)
        add_edge(&c->after, (Captured *)before[i], EdgeStream);
    vec_push(&recording->arena, &g->node, c);
    g->edited = true;
    *out = (CUgraphNode)c;
    return CUDA_SUCCESS;
}

static CUresult add_dependencies(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to,
                                 size_t n) {
    (void)graph;
    CALL();
    for (size_t i = 0; i < n; i++)
        add_edge(&((Captured *)to[i])->after, (Captured *)from[i], EdgeStream);
    return CUDA_SUCCESS;
}

static CUresult destroy_node(CUgraphNode node) {
    CALL();
    Captured *c = (Captured *)node;
    Object *g = (Object *)(uintptr_t)c->graph;
    uint32_t kept = 0;
    for (uint32_t i = 0; i < g->node.n; i++) {
        Captured *other = g->node.at[i];
        uint32_t edges = 0;
        for (uint32_t k = 0; k < other->after.n; k++)
            if (other->after.at[k].from != c)
                other->after.at[edges++] = other->after.at[k];
        other->after.n = edges;
        if (other != c)
            g->node.at[kept++] = other;
    }
    g->node.n = kept;
    return CUDA_SUCCESS;
}

// Behind those that it depends on.
static void place_node(CapturedVec *sorted, Captured *c) {
    if (c->joined)
        return;
    c->joined = true;
    for (uint32_t i = 0; i < c->after.n; i++)
        place_node(sorted, c->after.at[i].from);
    vec_push(&recording->arena, sorted, c);
}

// In the order captured, but for the nodes that were added.
static void sort_nodes(Object *g) {
    CapturedVec sorted = {0};
    for (uint32_t i = 0; i < g->node.n; i++)
        g->node.at[i]->joined = false;
    for (uint32_t i = 0; i < g->node.n; i++)
        place_node(&sorted, g->node.at[i]);
    if (sorted.n != g->node.n)
        complain("cuGraphInstantiate: a node waits for one of another graph");
    g->node = sorted;
}

static CUresult instantiate(CUgraphExec *out, CUgraph graph, unsigned long long flags) {
    CALL();
    Object *g = object_get(graph, KindGraph, "cuGraphInstantiate");
    if (g && g->edited)
        sort_nodes(g);
    if (g && !(flags & CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY))
        check_priorities(g);
    if (!record_takes(RECORD_GRAPH))
        return CUDA_ERROR_OUT_OF_MEMORY;
    Object *e = object_new(KindExec);
    recording->made++;
    if (g) {
        e->node = g->node;
        e->origin = g->origin;
    }
    *out = (CUgraphExec)e;
    return CUDA_SUCCESS;
}

// A line that the clock is past the end of, so that work after the clock may go on there. `end`: of
// the lines of graphs.
static uint32_t find_line(const Clock *c, const Clock *end) {
    for (uint32_t i = RECORD_STREAMS; i < RECORD_LINES; i++)
        if (c->at[i] >= end->at[i])
            return i;
    complain("a graph with more branches than the recorder has lines");
    return RECORD_STREAMS;
}

// Nodes are ordered after the graph launch's predecessors and after the nodes they depend on.
static void replay(const Object *exec, Object *s) {
    Clock end = s->clock;
    for (uint32_t i = 0; i < exec->node.n; i++) {
        Captured *n = exec->node.at[i];
        Object on = {.kind = KindStream, .clock = s->clock};
        Work w = n->work;
        w.recorded = true;
        for (uint32_t k = 0; k < n->after.n; k++)
            if (n->after.at[k].kind != EdgeEvent || recording->mishap != MishapDropWaits)
                order_join(&on.clock, &n->after.at[k].from->clock);
        on.line = find_line(&on.clock, &end);
        do_work(&on, w);
        n->clock = on.clock;
        order_join(&end, &on.clock);
    }
    order_join(&s->clock, &end); // a graph is complete when all its branches are
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
    record_gives(RECORD_GRAPH);
    return object_end(e, KindExec, "cuGraphExecDestroy");
}

static CUresult graph_destroy(CUgraph g) {
    return object_end(g, KindGraph, "cuGraphDestroy");
}

bool record_graph_has(const char *name) {
    const Recorder *r = recording;
    for (uint32_t i = 0; i < r->object.n; i++) {
        const Object *o = r->object.at[i];
        if (o->live && (o->kind == KindGraph || o->kind == KindExec))
            for (uint32_t k = 0; k < o->node.n; k++)
                if (!strcmp(o->node.at[k]->work.name, name))
                    return true;
    }
    return false;
}

// --- the table -----------------------------------------------------------------------------------

void record_stream_rows(CudaDriver *out) {
    out->CtxGetStreamPriorityRange = priority_range;
    out->StreamCreate = stream_create;
    out->StreamCreateWithPriority = stream_create_with;
    out->StreamDestroy = stream_destroy;
    out->StreamSynchronize = stream_synchronize;
    out->StreamQuery = stream_query;
    out->StreamWaitEvent = stream_wait_event;
    out->StreamBeginCapture = begin_capture;
    out->StreamEndCapture = end_capture;
    out->StreamGetCaptureInfo = capture_info;
    out->StreamUpdateCaptureDependencies = set_dependencies;
    out->EventCreate = event_create;
    out->EventDestroy = event_destroy;
    out->EventRecord = event_record;
    out->EventSynchronize = event_synchronize;
    out->EventQuery = event_query;
    out->EventElapsedTime = event_elapsed;
    out->GraphInstantiate = instantiate;
    out->GraphLaunch = graph_launch;
    out->GraphExecDestroy = exec_destroy;
    out->GraphDestroy = graph_destroy;
    out->GraphGetNodes = get_nodes;
    out->GraphNodeGetType = node_type_of;
    out->GraphMemsetNodeGetParams = memset_params;
    out->GraphNodeGetDependencies = dependencies;
    out->GraphNodeGetDependentNodes = dependents;
    out->GraphAddKernelNode = add_kernel_node;
    out->GraphAddDependencies = add_dependencies;
    out->GraphDestroyNode = destroy_node;
}
