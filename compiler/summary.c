// summary.c - what a compiled model is and costs: `ganc plan` as a screen of text and as JSON, and
// the region graph.
//
// In: a Compiled. Out: text. Every figure comes from the plans; nothing is recomputed here.
#include "driver.h"

typedef struct NetSize {
    int64_t trainable, other;
    uint32_t layers;
} NetSize;

static NetSize net_size(const Module *m, uint32_t net) {
    NetSize s = {0};
    for (uint32_t i = 0; i < m->slot.n; i++) {
        const Slot *slot = &m->slot.at[i];
        if (slot->net != net)
            continue;
        if (slot->kind == SlotParam)
            s.trainable += type_sample(&slot->type);
        else if (slot->kind == SlotState)
            s.other += type_sample(&slot->type);
    }
    return s;
}

static const char *func_kind(const Compiled *c, const Plan *p) {
    return p == &c->init ? "init" : p == &c->step ? "step" : "sample";
}

static void function_row(Text *t, const Compiled *c, const Plan *p) {
    text_fmt(t, "  %-8s %-14.*s %7u %9.2f %10.1f %10.1f %7.3f\n", func_kind(c, p),
             SARG(p->func->name), p->launch.n, p->gflop, (double)p->work_bytes / 1048576,
             (double)p->work_bound / 1048576,
             p->work_bound ? (double)p->work_bytes / (double)p->work_bound : 1.0);
}

void model_summary(Text *t, const Compiled *c) {
    const Module *m = &c->module;
    text_fmt(t, "%.*s  batch %lld  %s\n\n", SARG(m->name), (long long)m->batch,
             dtype_name[c->step.real]);
    text_fmt(t, "  net      trainable  not trainable\n");
    for (uint32_t i = 0; i < m->net.n; i++) {
        NetSize s = net_size(m, i);
        text_fmt(t, "  %-8.*s %9lld  %13lld\n", SARG(m->net.at[i].name), (long long)s.trainable,
                 (long long)s.other);
    }
    text_fmt(t, "\n  weights, optimizer state and data: %.1f MiB\n",
             (double)c->step.slot_bytes / 1048576);
    text_fmt(t, "  the published step: %.2f GFLOP; compiled: %.2f GFLOP\n\n", c->step.gflop_model,
             c->step.gflop);
    text_fmt(t, "  function               launches     GFLOP   work MiB  bound MiB   ratio\n");
    function_row(t, c, &c->init);
    function_row(t, c, &c->step);
    for (uint32_t i = 0; i < m->entry.n; i++)
        function_row(t, c, &c->entry[i]);
    for (uint32_t i = 0; i < c->step.copied.n; i++)
        text_fmt(t, "  copied before its update: %.*s\n",
                 SARG(m->slot.at[c->step.copied.at[i]].name));
}

static void function_json(JsonOut *j, const Compiled *c, const Plan *p) {
    json_open(j, '{');
    json_name(j, "name"), json_put_str(j, p->func->name);
    json_name(j, "kind"), json_put_str(j, str_c(func_kind(c, p)));
    json_name(j, "launches"), json_put_int(j, p->launch.n);
    json_name(j, "blocks"), json_put_int(j, p->func->blocks);
    json_name(j, "gflop"), json_put_double(j, p->gflop);
    json_name(j, "bytes_moved"), json_put_double(j, p->bytes_moved);
    json_name(j, "work_bytes"), json_put_int(j, (int64_t)p->work_bytes);
    json_name(j, "work_bound"), json_put_int(j, (int64_t)p->work_bound);
    json_close(j, '}');
}

void model_summary_json(Text *t, const Compiled *c) {
    const Module *m = &c->module;
    JsonOut j = {.text = t};
    json_open(&j, '{');
    json_name(&j, "model"), json_put_str(&j, m->name);
    json_name(&j, "batch"), json_put_int(&j, m->batch);
    json_name(&j, "precision"), json_put_str(&j, str_c(dtype_name[c->step.real]));
    json_name(&j, "nets"), json_open(&j, '[');
    for (uint32_t i = 0; i < m->net.n; i++) {
        NetSize s = net_size(m, i);
        json_open(&j, '{');
        json_name(&j, "name"), json_put_str(&j, m->net.at[i].name);
        json_name(&j, "trainable"), json_put_int(&j, s.trainable);
        json_name(&j, "not_trainable"), json_put_int(&j, s.other);
        json_close(&j, '}');
    }
    json_close(&j, ']');
    json_name(&j, "gflop_model"), json_put_double(&j, c->step.gflop_model);
    json_name(&j, "gflop_per_step"), json_put_double(&j, c->step.gflop);
    json_name(&j, "slot_bytes"), json_put_int(&j, (int64_t)c->step.slot_bytes);
    json_name(&j, "functions"), json_open(&j, '[');
    function_json(&j, c, &c->init);
    function_json(&j, c, &c->step);
    for (uint32_t i = 0; i < m->entry.n; i++)
        function_json(&j, c, &c->entry[i]);
    json_close(&j, ']');
    json_name(&j, "collectives"), json_open(&j, '['), json_close(&j, ']'); // one rank
    json_close(&j, '}');
    text_char(t, '\n');
}

void plan_dot(Text *t, const Plan *p) {
    const Graph *g = &p->func->g;
    text_fmt(t, "digraph \"%.*s\" {\n  node [shape=box fontname=monospace];\n",
             SARG(p->func->name));
    for (uint32_t r = 0; r < p->region.n; r++) {
        const Region *region = &p->region.at[r];
        text_fmt(t, "  r%u [label=\"", r);
        for (uint32_t i = 0; i < region->node.n; i++)
            text_fmt(t, "%s%s", i ? (i % 6 ? " " : "\\n") : "",
                     op_info[graph_node(g, region->node.at[i])->op].text);
        text_fmt(t, "\"%s];\n",
                 region->kind == RegionCall ? " style=filled fillcolor=lightblue" : "");
        for (uint32_t i = 0; i < region->in.n; i++) {
            uint32_t from = p->region_of[p->place[region->in.at[i]].owner];
            if (from != NONE)
                text_fmt(t, "  r%u -> r%u;\n", from, r);
        }
    }
    text_put(t, STR("}\n"));
}
