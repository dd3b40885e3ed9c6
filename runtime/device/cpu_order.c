// cpu_order.c - sorting on the cpu device: lines are distributed over the threads, each sorted by
// order_line.c.
//
// In: an ArgSort or an Arrange of a plan, and memory. Out: a call ready to run. Memory for the keys
// of a line is allocated once; results do not depend on the number of threads.
//
// Where the numbers of a line lie apart, so many neighbouring lines are worked on that they fill
// cache lines: what is read or written whole is copied, one line behind the other.
#include "cpu.h"
#include "order_line.h"

#include "integers.h"

#include <math.h>

enum {
    TOGETHER = 16,       // neighbouring lines, at most: of a cache line
    NUMBERS = 256 << 10, // of these together, but for one line
    FEW = 4,             // one in so many, or fewer, numbers are reached where they lie
};

struct OrderCall {
    OrderLines lines;
    bool sorts, back;
    float *in, *places, *out;
    int64_t together; // lines
    char *room;       // owned; [threads, each]: keys of a line, then copies of lines
    size_t each;      // bytes of a thread
    size_t keys, copy;
    int threads;
    OrderRun *run;
    OrderCall *next;
};

extern OrderRun order_run_v3, order_run_v4;

double order_operations(const Graph *g, uint32_t id) {
    OrderLines l = order_lines(g, id);
    bool sorts = graph_node(g, id)->op == OpArgSort;
    double n = (double)l.n, last = (double)l.last;
    return (double)l.lines * (sorts ? n + last * log2(n) : last);
}

static GanStatus make_room(OrderCall *c) {
    const OrderLines *l = &c->lines;
    bool apart = l->step > 1;
    c->together = !apart ? 1 : l->n > NUMBERS / TOGETHER ? NUMBERS / l->n : TOGETHER;
    c->together = c->together ? c->together : 1;
    c->keys = c->sorts ? round_up(order_room(l->n), 64) : 0;
    c->copy = apart ? round_up((size_t)(c->together * (l->n + TOGETHER)) * sizeof(float), 64) : 0;
    c->each = c->keys + (c->sorts ? 2 : 3) * c->copy; // of what comes and goes, and of places
    c->room = c->each ? mem_alloc_aligned(c->each * (size_t)c->threads, 64) : NULL;
    return c->room || !c->each
               ? GAN_OK
               : fail(GAN_ERR_MEMORY, "no memory for an order of %lld numbers", (long long)l->n);
}

GanStatus order_prepare(OrderCalls *calls, const Plan *p, uint32_t id, Memory m, int threads) {
    const Graph *g = &p->func->g;
    OrderCall *c = mem_alloc(sizeof *c);
    if (!c)
        return fail(GAN_ERR_MEMORY, "no memory for an order");
    *c = (OrderCall){.lines = order_lines(g, id),
                     .sorts = graph_node(g, id)->op == OpArgSort,
                     .in = memory_at(m, p, node_in(g, id, 0)),
                     .out = memory_at(m, p, id),
                     .threads = threads,
                     .run = OF_VECTOR_LEVEL(order_run, order_run_v3, order_run_v4),
                     .next = calls->last};
    calls->last = c;
    if (!c->sorts) {
        c->back = node_attr(g, id)->i[0] != 0;
        c->places = memory_at(m, p, node_in(g, id, 1));
    }
    return make_room(c);
}

// --- lines, where they are or copied -------------------------------------------------------------

typedef struct Rows { // number i of line l is at[i*number + l*line]
    float *at;
    int64_t number, line;
} Rows;

static Rows rows_in_memory(const OrderCall *c, float *x, int64_t n, int64_t line) {
    int64_t step = c->lines.step;
    return (Rows){x + line / step * n * step + line % step, step, 1};
}

// Longer by a cache line than their numbers, so that lines do not compete for the same places in
// the cache.
static Rows rows_in_room(const OrderCall *c, char *room, int copy) {
    return (Rows){(float *)(room + c->keys + (size_t)copy * c->copy), 1, c->lines.n + TOGETHER};
}

static void copy_rows(Rows from, Rows to, int64_t n, int64_t lines) {
    for (int64_t i = 0; i < n; i++)
        for (int64_t l = 0; l < lines; l++)
            to.at[i * to.number + l * to.line] = from.at[i * from.number + l * from.line];
}

static void clear_rows(Rows to, int64_t n, int64_t lines) {
    for (int64_t i = 0; i < n; i++)
        for (int64_t l = 0; l < lines; l++)
            to.at[i * to.number + l * to.line] = 0;
}

static Rows brought_near(const OrderCall *c, Rows from, int64_t n, int64_t lines, char *room,
                         int copy) {
    if (c->lines.step == 1)
        return from;
    Rows to = rows_in_room(c, room, copy);
    copy_rows(from, to, n, lines);
    return to;
}

// --- work on some neighbouring lines -------------------------------------------------------------

static void sort_lines(const OrderCall *c, int64_t first, int64_t lines, char *room) {
    const OrderLines *l = &c->lines;
    Rows in = brought_near(c, rows_in_memory(c, c->in, l->n, first), l->n, lines, room, 0);
    Rows out = rows_in_memory(c, c->out, l->last, first),
         to = l->step == 1 ? out : rows_in_room(c, room, 1);
    for (int64_t k = 0; k < lines; k++)
        c->run(in.at + k * in.line, to.at + k * to.line, l->n, l->last, room);
    if (l->step > 1)
        copy_rows(to, out, l->last, lines);
}

// One line: what its indices say of `whole`, which has n numbers, and `part`.
static void arrange_line(const OrderCall *c, Rows whole, Rows part, Rows places) {
    for (int64_t i = 0; i < c->lines.last; i++) {
        float place = places.at[i * places.number];
        if (!(place >= 0 && place < (float)c->lines.n)) // of no order
            continue;
        float *there = &whole.at[(int64_t)place * whole.number], *here = &part.at[i * part.number];
        *(c->back ? there : here) = *(c->back ? here : there);
    }
}

static void arrange_lines(const OrderCall *c, int64_t first, int64_t lines, char *room) {
    const OrderLines *l = &c->lines;
    int64_t taken = c->back ? l->last : l->n, made = c->back ? l->n : l->last;
    bool few = l->last <= l->n / FEW;
    bool copied = l->step > 1 && !(c->back && few);
    Rows places =
        brought_near(c, rows_in_memory(c, c->places, l->last, first), l->last, lines, room, 0);
    Rows in = rows_in_memory(c, c->in, taken, first), out = rows_in_memory(c, c->out, made, first),
         to = out;
    if (c->back || !few)
        in = brought_near(c, in, taken, lines, room, 1);
    if (copied)
        to = rows_in_room(c, room, 2);
    if (made > l->last)
        clear_rows(to, made, lines);
    for (int64_t k = 0; k < lines; k++) {
        Rows from = {in.at + k * in.line, in.number, 0}, into = {to.at + k * to.line, to.number, 0};
        Rows at = {places.at + k * places.line, places.number, 0};
        arrange_line(c, c->back ? into : from, c->back ? from : into, at);
    }
    if (copied)
        copy_rows(to, out, made, lines);
}

static void run_lines(const OrderCall *c, int64_t lo, int64_t hi, char *room) {
    int64_t step = c->lines.step;
    for (int64_t line = lo, n; line < hi; line += n) {
        n = step - line % step < c->together ? step - line % step : c->together;
        n = hi - line < n ? hi - line : n;
        if (c->sorts)
            sort_lines(c, line, n, room);
        else
            arrange_lines(c, line, n, room);
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
