// costs.c - a profile of a step: its launches, the most expensive first.
//
// In: a plan and the time of each launch, and what it ran on a card. Out: rows of a table, or
// members of a JSON array.
#include "costs.h"

#include <stdlib.h>

typedef struct Cost {
    const Plan *p;
    const Launch *launch;
    const DeviceWorkVec *ran; // NULL: not known
    double seconds, gflop, bytes;
} Cost;

static int slowest_first(const void *a, const void *b) {
    double x = ((const Cost *)a)->seconds, y = ((const Cost *)b)->seconds;
    return (x < y) - (x > y);
}

// A broadcast operand is counted once, though it be read for every element: it stays in a cache.
static Cost cost_of(const Plan *p, const TimedLaunch *m, const LaunchClock *clock) {
    const Graph *g = &p->func->g;
    Cost c = {.p = p,
              .launch = &p->launch.at[m->launch],
              .ran = clock ? &clock->ran[m->launch] : NULL,
              .seconds = m->seconds};
    for (uint32_t k = 0; k < c.launch->instances; k++) {
        const Region *r = &p->region.at[p->merge.at[c.launch->first + k]];
        for (uint32_t i = 0; i < r->in.n; i++)
            c.bytes += (double)type_bytes(g, node_type(g, r->in.at[i]));
        for (uint32_t i = 0; i < r->out.n; i++)
            c.bytes += (double)type_bytes(g, node_type(g, r->out.at[i]));
        for (uint32_t i = 0; i < r->node.n; i++)
            c.gflop += node_gflop(g, r->node.at[i]);
    }
    return c;
}

// What its first region computes, in a few words: "conv", "add tanh", "mul mul add ...".
static Str what(Arena *a, const Cost *c) {
    const Region *r = &c->p->region.at[c->launch->region];
    Text t = {.arena = a};
    uint32_t said = 0;
    for (uint32_t i = 0; i < r->node.n; i++) {
        const OpInfo *op = &op_info[graph_node(&c->p->func->g, r->node.at[i])->op];
        if (op->cls == ClassLEAF)
            continue;
        if (said == 5) {
            text_put(&t, STR(" ..."));
            break;
        }
        text_fmt(&t, "%s%s", said++ ? " " : "", op->text);
    }
    return text_str(&t);
}

static Str place(Arena *a, const Cost *c) {
    SourceLineVec line = {0};
    region_lines(a, c->p, &c->p->region.at[c->launch->region], &line);
    return line.n ? str_format(a, "%.*s:%u", SARG(line.at[0].file), line.at[0].number) : STR("-");
}

// Of the step in which all is done that comes every so many.
static Cost *costs_of(Arena *a, const Plan *p, const Timeline *m, const LaunchClock *clock,
                      uint32_t *n, double *all) {
    Cost *c = arena_array(a, Cost, m->n);
    *n = 0;
    for (uint32_t i = 0; i < m->n; i++) {
        if (m->at[i].step != 0)
            continue;
        c[*n] = cost_of(p, &m->at[i], clock);
        *all += c[(*n)++].seconds;
    }
    qsort(c, *n, sizeof *c, slowest_first);
    return c;
}

// 1e9 a second, or "-" of what took no time that the clock sees.
static Str rate(Arena *a, double amount, double seconds) {
    return seconds > 0 ? str_format(a, "%.1f", amount * 1e-9 / seconds) : STR("-");
}

static double us_of(const DeviceWork *w) {
    return (w->ended - w->began) * 1e6;
}

static uint32_t volume(const uint32_t n[3]) {
    return n[0] * n[1] * n[2];
}

static void put_ran(Text *t, const Cost *c) {
    enum { NAME = 60 };
    for (uint32_t i = 0; c->ran && i < c->ran->n; i++) {
        const DeviceWork *w = &c->ran->at[i];
        Str name = str_c(w->name);
        text_fmt(t, "  %10.1f us  %.*s%s", us_of(w), (int)(name.len < NAME ? name.len : NAME),
                 name.ptr, name.len > NAME ? "..." : "");
        if (w->registers) // a kernel
            text_fmt(t, "  %u x %u, %u registers, %u B", volume(w->grid), volume(w->block),
                     w->registers, w->shared);
        text_char(t, '\n');
    }
}

void costs_put(Text *t, const Plan *p, const Timeline *m, const LaunchClock *clock, uint32_t most) {
    double all = 0;
    uint32_t n;
    Cost *c = costs_of(t->arena, p, m, clock, &n, &all);
    text_fmt(t, "\n       ms  share  GFLOP/s   GB/s  at                 what\n");
    for (uint32_t i = 0; i < n && i < most; i++) {
        text_fmt(t, "  %7.3f %5.1f%% %8.*s %6.*s  %-18.*s %.*s\n", c[i].seconds * 1000,
                 all > 0 ? 100 * c[i].seconds / all : 0,
                 SARG(rate(t->arena, c[i].gflop * 1e9, c[i].seconds)),
                 SARG(rate(t->arena, c[i].bytes, c[i].seconds)), SARG(place(t->arena, &c[i])),
                 SARG(what(t->arena, &c[i])));
        put_ran(t, &c[i]);
    }
}

static void ran_json(JsonOut *j, const Cost *c) {
    json_member_open(j, "kernels", '[');
    for (uint32_t i = 0; i < c->ran->n; i++) {
        const DeviceWork *w = &c->ran->at[i];
        json_open(j, '{');
        json_member_str(j, "name", str_c(w->name));
        json_member_double(j, "us", us_of(w));
        json_member_int(j, "blocks", volume(w->grid));
        json_member_int(j, "threads", volume(w->block));
        json_member_int(j, "registers", w->registers);
        json_member_int(j, "shared", w->shared);
        json_close(j, '}');
    }
    json_close(j, ']');
}

void costs_json(JsonOut *j, const Plan *p, const Timeline *m, const LaunchClock *clock,
                uint32_t most) {
    double all = 0;
    uint32_t n;
    Cost *c = costs_of(j->text->arena, p, m, clock, &n, &all);
    json_member_open(j, "launches", '[');
    for (uint32_t i = 0; i < n && i < most; i++) {
        json_open(j, '{');
        json_member_double(j, "ms", c[i].seconds * 1000);
        json_member_double(j, "gflop", c[i].gflop);
        json_member_double(j, "bytes", c[i].bytes);
        json_member_str(j, "at", place(j->text->arena, &c[i]));
        json_member_str(j, "what", what(j->text->arena, &c[i]));
        if (c[i].ran)
            ran_json(j, &c[i]);
        json_close(j, '}');
    }
    json_close(j, ']');
}
