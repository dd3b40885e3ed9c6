// cpu_order.c - sorting on the cpu device: lines are distributed over the threads, each sorted by
// order_line.c.
//
// In: an ArgSort or an Arrange of a plan, and memory. Out: a call ready to run. Memory for the keys
// of a line is allocated once; results do not depend on the number of threads.
#include "cpu.h"
#include "order_line.h"

#include "integers.h"

#include <math.h>

struct OrderCall {
    OrderLines lines;
    bool sorts, back;
    const float *in, *places;
    float *out;
    char *room;  // owned; [threads, bytes]
    size_t each; // bytes of a thread
    int threads;
    OrderRun *run;
    OrderCall *next;
};

#ifdef GAN_VECTOR_LEVELS
extern OrderRun order_run_v3, order_run_v4;
#endif

static OrderRun *run_of(void) {
#ifdef GAN_VECTOR_LEVELS
    switch (dnn_vector_level()) {
    case 4:
        return order_run_v4;
    case 3:
        return order_run_v3;
    }
#endif
    return order_run;
}

double order_operations(const Graph *g, uint32_t id) {
    OrderLines l = order_lines(g, node_type(g, id));
    bool sorts = graph_node(g, id)->op == OpArgSort;
    return (double)(l.lines * l.n) * (sorts ? 1 + log2((double)l.n) : 1);
}

GanStatus order_prepare(OrderCalls *calls, const Plan *p, uint32_t id, Memory m, int threads) {
    const Graph *g = &p->func->g;
    OrderCall *c = mem_alloc(sizeof *c);
    if (!c)
        return fail(GAN_ERR_MEMORY, "no memory for an order");
    *c = (OrderCall){.lines = order_lines(g, node_type(g, id)),
                     .sorts = graph_node(g, id)->op == OpArgSort,
                     .in = memory_at(m, p, node_in(g, id, 0)),
                     .out = memory_at(m, p, id),
                     .threads = threads,
                     .run = run_of(),
                     .next = calls->last};
    calls->last = c;
    if (!c->sorts) {
        c->back = node_attr(g, id)->i[0] != 0;
        c->places = memory_at(m, p, node_in(g, id, 1));
        return GAN_OK;
    }
    c->each = round_up(order_room(c->lines.n), 64);
    c->room = mem_alloc_aligned(c->each * (size_t)threads, 64);
    return c->room ? GAN_OK
                   : fail(GAN_ERR_MEMORY, "no memory for an order of %lld numbers",
                          (long long)c->lines.n);
}

static int64_t line_at(const OrderLines *l, int64_t line) {
    return line / l->step * l->n * l->step + line % l->step;
}

static void arrange_line(const OrderCall *c, int64_t at) {
    const OrderLines *l = &c->lines;
    const float *in = c->in + at, *places = c->places + at;
    float *out = c->out + at;
    for (int64_t i = 0; i < l->n; i++) {
        float place = places[i * l->step];
        if (!(place >= 0 && place < (float)l->n)) // of no order
            continue;
        int64_t there = (int64_t)place;
        out[(c->back ? there : i) * l->step] = in[(c->back ? i : there) * l->step];
    }
}

static void run_lines(const OrderCall *c, int64_t lo, int64_t hi, char *room) {
    for (int64_t line = lo; line < hi; line++) {
        int64_t at = line_at(&c->lines, line);
        if (c->sorts)
            c->run(c->in + at, c->out + at, c->lines.n, c->lines.step, room);
        else
            arrange_line(c, at);
    }
}

void order_run_call(const OrderCall *c, int team) {
    int64_t lines = c->lines.lines;
    team = c->threads < team ? c->threads : team;
#pragma omp parallel for num_threads(team) schedule(static, 1)
    for (int i = 0; i < team; i++)
        run_lines(c, lines * i / team, lines * (i + 1) / team, c->room + (size_t)i * c->each);
}

void order_release(OrderCalls *calls) {
    while (calls->last) {
        OrderCall *c = calls->last;
        calls->last = c->next;
        mem_free_aligned(c->room);
        mem_free(c);
    }
}
