// trace.c - a timeline of steps in the Trace Event Format, for ui.perfetto.dev and
// chrome://tracing.
//
// In: start and end of steps and blocks, and the communicator's events. Out: trace.rankN.json of
// each rank, and of rank 0 trace.json with all. Each rank is a process of two threads: the
// computing thread (steps, blocks, waits for collectives) and the communicator (each collective
// while it is transferred; the argument `ready` is when it was started). Times count from a barrier
// of all ranks, so the clocks of several machines need not agree.
#include "ranks.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct Stretch {
    char name[32];
    double began, ended;
} Stretch;

struct Trace {
    Arena *perm; // borrowed
    Comm *comm;  // borrowed, NULL: one rank
    int64_t first, last;
    double zero; // time_now of the meeting
    VEC(Stretch) slice;
    VEC(CommEvent) event;
};

GanStatus trace_open(Arena *perm, Comm *c, Str steps, Trace **out) {
    *out = NULL;
    if (!steps.len)
        return GAN_OK;
    Trace *t = arena_new(perm, Trace);
    *t = (Trace){.perm = perm, .comm = c};
    size_t colon = str_find(steps, ':');
    if (!str_to_int(str_sub(steps, 0, colon), &t->first) ||
        !str_to_int(str_sub(steps, colon + 1, steps.len), &t->last) || t->first < 1 ||
        t->last < t->first)
        return fail(GAN_ERR_USAGE, "--trace needs the first and the last step, as 10:12; not %.*s",
                    SARG(steps));
    TRY(comm_barrier(c));
    t->zero = time_now();
    comm_events_clear(c);
    comm_trace(c, true);
    *out = t;
    return GAN_OK;
}

GanStatus trace_within(const Trace *t, int64_t done, int64_t last) {
    if (!t || (t->first <= last && t->last > done && done < last))
        return GAN_OK;
    return fail(GAN_ERR_USAGE,
                "--trace %lld:%lld: no such step is taken: the run has done %lld steps and ends "
                "with step %lld",
                (long long)t->first, (long long)t->last, (long long)done, (long long)last);
}

static bool recorded(const Trace *t, uint32_t step) {
    return t && step >= t->first && step <= t->last;
}

void trace_part(Trace *t, uint32_t step, const char *name, uint32_t number, double began) {
    if (!recorded(t, step))
        return;
    Stretch *s = vec_add(t->perm, &t->slice);
    *s = (Stretch){.began = began, .ended = time_now()};
    snprintf(s->name, sizeof s->name, "%s %u", name, number);
}

// Those of recorded steps: some are waited for in the step behind their own.
static void take_events(Trace *t) {
    const CommEvent *e;
    uint32_t n = comm_events(t->comm, &e);
    for (uint32_t i = 0; i < n; i++) {
        if (!recorded(t, e[i].step + 1))
            continue;
        CommEvent *own = vec_add(t->perm, &t->event);
        *own = e[i];
        own->what = e[i].what ? str_copy(t->perm, str_c(e[i].what)).ptr : NULL;
    }
    comm_events_clear(t->comm);
}

void trace_step(Trace *t, uint32_t step, double began) {
    if (!t)
        return;
    trace_part(t, step, "step", step, began);
    take_events(t);
}

// --- who came late -------------------------------------------------------------------------------

static int by_call(const void *a, const void *b) {
    const CommEvent *x = a, *y = b;
    return x->step != y->step ? (x->step > y->step) - (x->step < y->step)
                              : (x->id > y->id) - (x->id < y->id);
}

GanStatus trace_late(Arena scratch, Comm *c, double *seconds) {
    const CommEvent *e;
    uint32_t n = comm_events(c, &e), ranks = (uint32_t)comm_size(c), most = 0;
    uint32_t *count = arena_array(&scratch, uint32_t, ranks);
    CommEvent *mine = arena_array(&scratch, CommEvent, n);
    *seconds = 0;
    TRY(comm_gather(c, &n, sizeof n, count));
    for (uint32_t r = 0; r < ranks; r++)
        most = count[r] > most ? count[r] : most;
    for (uint32_t i = 0; i < n; i++)
        mine[i] = e[i];
    qsort(mine, n, sizeof *mine, by_call);
    double *wait = arena_array(&scratch, double, most),
           *all = arena_array(&scratch, double, (size_t)most *ranks);
    for (uint32_t i = 0; i < n; i++)
        wait[i] = mine[i].go - mine[i].wait;
    TRY(comm_gather(c, wait, most * sizeof *wait, all));
    for (uint32_t i = 0; i < most; i++) {
        double least = INFINITY, sum = 0;
        for (uint32_t r = 0; r < ranks; r++) {
            least = fmin(least, all[(size_t)r * most + i]);
            sum += all[(size_t)r * most + i];
        }
        *seconds += sum / ranks - least;
    }
    return GAN_OK;
}

// --- writing -------------------------------------------------------------------------------------

void trace_put_slice(JsonOut *j, int rank, int line, Str name, double began, double ended) {
    json_open(j, '{');
    json_member_str(j, "name", name);
    json_member_str(j, "ph", STR("X"));
    json_member_int(j, "pid", rank);
    json_member_int(j, "tid", line);
    json_member_double(j, "ts", began * 1e6);
    json_member_double(j, "dur", (ended - began) * 1e6);
}

void trace_put_name(JsonOut *j, int rank, int line, const char *what, Str name) {
    json_open(j, '{');
    json_member_str(j, "name", str_c(what));
    json_member_str(j, "ph", STR("M"));
    json_member_int(j, "pid", rank);
    json_member_int(j, "tid", line);
    json_member_open(j, "args", '{');
    json_member_str(j, "name", name);
    json_close(j, '}');
    json_close(j, '}');
}

static void put_event(JsonOut *j, int rank, const CommEvent *e, double zero) {
    trace_put_slice(j, rank, e->bytes <= COMM_SMALL ? 2 : 1, str_c(e->what), e->start - zero,
                    e->end - zero);
    json_member_open(j, "args", '{');
    json_member_int(j, "step", e->step);
    json_member_int(j, "bytes", (int64_t)e->bytes);
    json_member_double(j, "ready_us", (e->ready - zero) * 1e6);
    json_member_double(j, "met_us", (e->met - zero) * 1e6);
    json_member_double(j, "exposed_us", (e->go - e->wait) * 1e6);
    json_close(j, '}');
    json_close(j, '}');
    if (e->go - e->wait > 1e-6) {
        trace_put_slice(j, rank, 0, STR("wait"), e->wait - zero, e->go - zero);
        json_close(j, '}');
    }
}

// The members of this rank's list of events, without its brackets.
static Str events_of(const Trace *t) {
    int rank = comm_rank(t->comm);
    Text text = {.arena = t->perm};
    JsonOut j = {.text = &text};
    json_open(&j, '[');
    trace_put_name(&j, rank, 0, "process_name", str_format(t->perm, "rank %d", rank));
    trace_put_name(&j, rank, 0, "thread_name", STR("compute"));
    trace_put_name(&j, rank, 1, "thread_name", STR("large sums"));
    trace_put_name(&j, rank, 2, "thread_name", STR("small sums"));
    for (uint32_t i = 0; i < t->slice.n; i++) {
        const Stretch *s = &t->slice.at[i];
        trace_put_slice(&j, rank, 0, str_c(s->name), s->began - t->zero, s->ended - t->zero);
        json_close(&j, '}');
    }
    for (uint32_t i = 0; i < t->event.n; i++)
        put_event(&j, rank, &t->event.at[i], t->zero);
    json_close(&j, ']');
    Str all = text_str(&text);
    return str_sub(all, str_find(all, '[') + 1, all.len - 1);
}

static GanStatus write_events(const Trace *t, Str dir, const char *name, Str events) {
    Str text = str_format(t->perm, "{\"traceEvents\": [%.*s]}\n", SARG(events));
    return file_write_atomic(path_join(t->perm, dir, str_c(name)), text.ptr, text.len);
}

// Rank r's events, on every rank.
static GanStatus events_from(const Trace *t, int r, Str mine, Str *out) {
    uint64_t n = mine.len;
    TRY(comm_bcast(t->comm, &n, sizeof n, r));
    char *text = arena_array(t->perm, char, n + 1);
    if (comm_rank(t->comm) == r)
        memcpy(text, mine.ptr, n);
    TRY(comm_bcast(t->comm, text, n, r));
    *out = (Str){text, n};
    return GAN_OK;
}

GanStatus trace_write(Trace *t, Str dir) {
    if (!t)
        return GAN_OK;
    take_events(t);
    Str mine = events_of(t);
    Text all = {.arena = t->perm};
    char name[32];
    snprintf(name, sizeof name, "trace.rank%d.json", comm_rank(t->comm));
    if (comm_size(t->comm) > 1)
        TRY(write_events(t, dir, name, mine));
    for (int r = 0; r < comm_size(t->comm); r++) {
        Str part;
        TRY(events_from(t, r, mine, &part));
        text_put(&all, r ? STR(", ") : (Str){0});
        text_put(&all, part);
    }
    return ranks_first(t->comm) ? write_events(t, dir, "trace.json", text_str(&all)) : GAN_OK;
}
