// record_state.h - internals of the mock driver (record.h): state shared by the card and its
// functions (record_driver.c), memory and work (record_memory.c), and streams, events and graphs
// (record_stream.c). Each file adds its functions to the table.
#ifndef GAN_RECORD_STATE_H
#define GAN_RECORD_STATE_H

#include "record.h"

typedef enum Kind { KindStream, KindEvent, KindModule, KindGraph, KindExec, KindPinned } Kind;

typedef struct Object Object;

typedef struct Captured Captured;

typedef enum EdgeKind {
    EdgeStream, // the node before on the stream
    EdgeEvent,  // waited for: MishapDropWaits ignores it
    EdgeSet,    // by cuStreamUpdateCaptureDependencies
} EdgeKind;

typedef struct Edge {
    Captured *from;
    EdgeKind kind;
} Edge;

typedef VEC(Edge) EdgeVec;

struct Captured { // of a captured graph
    const Object *graph, *stream;
    Work work;
    EdgeVec after;
    bool joined; // the end of the capture comes after it
    Clock clock; // of its last run
};

typedef VEC(Captured *) CapturedVec;

struct Object {
    Kind kind;
    bool live;
    Clock clock;       // stream: its progress; event: the stream's when recorded
    uint32_t line;     // stream
    int priority;      // stream: lower runs first
    Object *within;    // stream: the graph that captures it; event: the graph that recorded it last
    EdgeVec next;      // of both, inside a graph: what the next node there depends on
    bool timed;        // event
    Object *timer;     // stream: the event that started a timing run, not yet ended
    uint64_t at;       // event: launches enqueued before it was recorded
    CapturedVec node;  // graph, exec: in the order captured, or sorted where nodes were added
    bool edited;       // graph: nodes were added
    Object *origin;    // graph, exec: the stream whose capture began it
    const char *names; // module: of its functions
    char *host;        // pinned: its memory
    size_t n;
};

typedef struct Piece { // an allocation of device memory
    char *host;
    size_t n;
    bool live, fresh; // fresh: zero and never written
} Piece;

typedef struct Transfer { // from or to pinned memory, not known to be complete
    uint32_t line;
    uint64_t number;
    char *host;
    size_t n;
    bool in;     // to the host: `bytes` appear there when it is complete
    char *bytes; // to the device: the bytes when it was enqueued
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
    Object *capture; // the graph being captured
    bool invalid;    // that capture: a call that it forbids was made
    uint32_t lines;
    size_t memory, used, most, graphs;
    size_t beside; // bytes that the driver and libraries took without being asked for memory
    _Atomic uint64_t calls; // by several threads
    uint64_t fail_at;
    Mishap mishap;
    bool broken;       // a kernel has failed
    _Atomic bool dead; // and a call has reported it
    CUresult loss;     // the code of a lost context
    const char *card;  // its name
    bool no_service;   // images lack the runtime's own kernels
    bool no_kernels;   // none compiles
    uint64_t launches, given,
        nearest;            // since a fault was set; in total; after the work of the last wait
    uint64_t made, queries; // graphs; of events and streams
    uint64_t edges;         // EdgeSet of nodes captured since a fault was set
    int contexts;
    char complaint[400];
};

// Begins every function of the driver.
#define CALL()                                                                                     \
    do {                                                                                           \
        CUresult code_ = record_call();                                                            \
        if (code_ != CUDA_SUCCESS)                                                                 \
            return code_;                                                                          \
    } while (0)

// The same for a call that is illegal on a thread that captures a stream.
#define CALL_OUTSIDE_CAPTURE(call)                                                                 \
    do {                                                                                           \
        CALL();                                                                                    \
        if (in_capture(call))                                                                      \
            return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;                                          \
    } while (0)

// --- record_driver.c -----------------------------------------------------------------------------

Object *object_new(Kind kind);
// NULL, with a complaint, if it is invalid.
Object *object_get(void *handle, Kind kind, const char *call);
// Destroys the object, even if the call is to fail.
CUresult object_end(void *handle, Kind kind, const char *call);
const char *function_name(CUfunction f);

// --- record_memory.c -----------------------------------------------------------------------------

void record_memory_rows(CudaDriver *out);
void host_waits(const Clock *for_); // the host has waited for the work that the clock covers
char *host_of(CUdeviceptr at);      // host copy of the device memory at an address
void add_access(Work *w, CUdeviceptr at, size_t n, bool write);
bool all_there(const Work *w); // all memory is valid; else with a complaint
// gan_begin (service.cuh), which does the work of two copies.
void begin_block(CUstream s, const void *head, CUdeviceptr to, CUdeviceptr mark);
void do_work(Object *s, Work w); // executes it, in stream order

// --- record_stream.c -----------------------------------------------------------------------------

void record_stream_rows(CudaDriver *out);
void capture_work(Object *s, Work w); // adds a node to the graph that captures the stream

#endif
