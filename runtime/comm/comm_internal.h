// comm_internal.h - inside a communicator: its queues and tasks, shared by its files.
//
//   comm.c         the public calls: jobs, control, statistics
//   comm_queue.c   queues: a task's handshake with the other ranks, and its transfer
//   comm_thread.c  the progress thread; opening, leaving, closing
#ifndef GAN_COMM_INTERNAL_H
#define GAN_COMM_INTERNAL_H

#include "comm_link.h"

#include <pthread.h>

typedef enum TaskKind { TaskJob, TaskBarrier, TaskBcast, TaskAllGather, TaskLeave } TaskKind;
typedef enum TaskState { TaskFree, TaskQueued, TaskRunning } TaskState;

typedef struct Task {
    TaskKind kind;
    TaskState state;
    CommJob job;         // TaskJob
    void *data;          // control
    size_t bytes;        // control: of one rank
    int root;            // TaskBcast
    GanStatus why;       // TaskLeave
    uint32_t next;       // in the queue, 0 none
    Handshake handshake; // in its queue
    double took;         // seconds the link was at it
    CommEvent event;
} Task;

typedef struct Feedback { // error feedback of a compressed sum: what rounding has lost so far
    float *at;            // [n], owned
    size_t n;
} Feedback;

enum { LARGE, SMALL };                              // queues: the progress thread's, the caller's
enum { CONTROL = 1, FIRST_JOB = CONTROL + QUEUES }; // indices in Comm.task; 0 is none
enum { LEAVE_SECONDS = 5 };                         // that a rank which ends waits for the others
enum { HANG_SECONDS = 2 }; // that the progress thread has to report a missed deadline

typedef struct Queue {
    uint32_t head, tail; // indices in Comm.task
    uint32_t running;    // the task that has left the queue and is not done; 0: none
    double since;        // when that began
    double wire_free;    // when the modelled wire was last done
    Handshake last;      // the last that this rank posted
    bool all_left;       // TaskLeave met TaskLeave of all others
    bool diverged;       // the ranks met with different tasks, and all know it
} Queue;

struct Comm {
    const LinkApi *api;
    void *arg; // borrowed while opening
    CommOptions o;
    Link *link;
    int rank, size, nodes;  // of the link, known once it is open
    bool two_level;         // Link.two_level
    pthread_t thread;       // the progress thread
    pthread_mutex_t lock;   // guards all below
    pthread_cond_t work;    // the thread has something to do
    pthread_cond_t changed; // it has done something
    Queue queue[QUEUES];
    Task *task; // [tasks], owned: control of each queue, then jobs by id
    uint32_t tasks;
    int core;                   // where the caller last started a job of the first queue
    int slack;                  // the caller's timers before they were exact, ns
    bool opened, closing, gone; // gone: the thread has done its last
    GanStatus code;             // GAN_OK until it fails
    char why[512];
    bool left;             // comm_leave
    bool muted;            // the caller's: comm_mute
    bool trace;            // the caller's: comm_trace
    size_t compress_least; // bytes of an f32 sum that is sent as bf16; 0: none
    CommStats stats;
    VEC(CommEvent) event; // owned, through mem_realloc
    // The thread's own:
    int bound;          // the core it is bound to, -1 none
    Feedback *feedback; // [feedbacks] by id, owned
    uint32_t feedbacks;
    uint16_t *narrow; // owned; grows
    size_t narrow_n;
};

// --- comm_queue.c --------------------------------------------------------------------------------

size_t job_bytes(const CommJob *j);  // on the wire
bool job_is_eager(const CommJob *j); // its data is sent with its handshake
// Puts `st`, in the link's words, under what this rank was doing.
GanStatus task_explain(const Task *task, GanStatus st);
// Under the lock, all of these; they release it while the link is at work.
// task[at], behind what is there. After one to the first queue the caller signals `work`.
void queue_add(Comm *c, uint32_t at, uint32_t queue);
void queue_run(Comm *c, uint32_t queue); // carries out the first task; see comm.c on whose
void queue_final_handshake(Comm *c, uint32_t queue); // one more with the others, of no task
bool queues_diverged(const Comm *c);
void comm_fail(Comm *c, GanStatus st); // takes this thread's message
void comm_wait_until(Comm *c, pthread_cond_t *cond, double t);

#endif
