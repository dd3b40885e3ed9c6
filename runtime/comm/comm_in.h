// comm_in.h - inside a communicator: its lanes (queues) and tasks, shared by its files.
//
//   comm.c       the public calls: jobs, control, statistics
//   comm_lane.c  lanes: a task synchronizes with the other ranks, and is carried out
//   comm_life.c  the progress thread; opening, leaving, closing
#ifndef GAN_COMM_IN_H
#define GAN_COMM_IN_H

#include "link.h"

#include <pthread.h>

typedef enum TaskKind { TaskJob, TaskBarrier, TaskBcast, TaskAllGather, TaskLeave } TaskKind;
typedef enum TaskState { TaskFree, TaskQueued, TaskRunning } TaskState;

typedef struct Task {
    TaskKind kind;
    TaskState state;
    CommJob job;     // TaskJob
    void *data;      // control
    size_t bytes;    // control: of one rank
    int root;        // TaskBcast
    GanStatus why;   // TaskLeave
    uint32_t next;   // in the queue, 0 none
    Meeting meeting; // in its lane
    double took;     // seconds the link was at it
    CommEvent event;
} Task;

typedef struct Kept { // error feedback of a narrowed sum: what rounding has lost so far
    float *at;        // [n], owned
    size_t n;
} Kept;

enum { LARGE, SMALL };                             // lanes: the progress thread's, the caller's
enum { CONTROL = 1, FIRST_JOB = CONTROL + LANES }; // indices in Comm.task; 0 is none
enum { PATIENCE = 5 }; // seconds that a rank that ends waits for the others

typedef struct Lane {
    uint32_t head, tail, running; // indices in Comm.task: the queue; what runs, or ran last
    double busy_since;            // when the running task began
    double free;                  // when its wire was last done
    bool moving;                  // all ranks have arrived: its bytes are being transferred
    Meeting last;                 // the last that this rank entered
    bool all_left;                // TaskLeave met TaskLeave of all others
    bool apart;                   // the ranks met with different tasks, and all know it
} Lane;

struct Comm {
    const LinkApi *api;
    void *arg; // borrowed while opening
    CommOptions o;
    Link *link;
    int rank, size, nodes; // of the link, known once it is open
    uint32_t lanes;        // of them there are
    bool relays;           // Link.relays
    pthread_t thread;
    pthread_mutex_t lock;   // guards all below
    pthread_cond_t work;    // the thread has something to do
    pthread_cond_t changed; // it has done something
    Lane lane[LANES];
    Task *task; // [tasks], owned: control of each lane, then jobs by id
    uint32_t tasks;
    int core;                   // where the caller last started a job of the first lane
    bool opened, closing, gone; // gone: the thread has done its last
    GanStatus code;             // GAN_OK until it fails
    char why[512];
    bool left;           // comm_leave
    bool muted;          // the caller's: comm_mute
    bool trace;          // the caller's: comm_trace
    size_t narrow_least; // bytes of an f32 sum that travels as bf16; 0: none
    CommStats stats;
    VEC(CommEvent) event; // owned, through mem_realloc
    // The thread's own:
    int stays;  // the core it is bound to, -1 none
    Kept *kept; // [kepts] by id, owned
    uint32_t kepts;
    uint16_t *narrow; // owned; grows
    size_t narrow_n;
};

// --- comm_lane.c ---------------------------------------------------------------------------------

size_t job_bytes(const CommJob *j); // on the wire
bool job_rides(const CommJob *j);   // its data is sent with its meeting
// Puts `st`, in the link's words, under what this rank was doing.
GanStatus task_explain(const Task *task, GanStatus st);
// Under the lock, all of these; they let go of it while the link is at work.
void lane_enqueue(Comm *c, uint32_t at, uint32_t lane); // task[at], behind what is there
void lane_run(Comm *c, uint32_t lane); // carries out the first in the queue; see comm.c on whose
void lane_meet_last(Comm *c, uint32_t lane); // meets the others once more, in no task
bool lanes_apart(const Comm *c);
void comm_broke(Comm *c, GanStatus st); // takes this thread's message
void comm_wait_until(Comm *c, pthread_cond_t *cond, double t);

#endif
