// summary.c - `ganc plan`: properties and costs of a compiled model as text and as JSON, and the
// region graph.
//
// In: a Compiled. Out: text. Every figure is read from the plans; nothing is computed here.
#include "driver.h"

typedef struct NetSize {
    int64_t trainable, other;
} NetSize;

static NetSize net_size(const Module *m, uint32_t net) {
    NetSize s = {0};
    for (uint32_t i = 0; i < m->slot.n; i++) {
        const Slot *slot = &m->slot.at[i];
        if (slot->net != net)
            continue;
        if (slot->kind == SlotParam && slot_saved(m, slot))
            s.trainable += type_sample(&slot->type);
        else if (slot->kind == SlotParam || slot->kind == SlotState)
            s.other += type_sample(&slot->type);
    }
    return s;
}

static const char *func_kind(const Compiled *c, const Plan *p) {
    return p == &c->init ? "init" : p == &c->step ? "step" : "sample";
}

static void function_row(Text *t, const Compiled *c, const Plan *p) {
    text_fmt(t, "  %-8s %-14.*s %7u %9.2f %10.1f %10.1f %10.1f %7.3f\n", func_kind(c, p),
             SARG(p->func->name), p->launch.n, p->gflop, p->bytes_moved / 1048576,
             (double)p->work_bytes / 1048576, (double)p->work_bound / 1048576,
             p->work_bound ? (double)p->work_bytes / (double)p->work_bound : 1.0);
}

static size_t work_of(const Plan *p, bool card) {
    return card ? card_align(p->work_bytes) + plan_workspace(p) : p->work_bytes;
}

size_t compiled_bytes(const Compiled *c, bool card) {
    size_t init = work_of(&c->init, card), most = work_of(&c->step, card);
    most = init > most ? init : most;
    for (uint32_t i = 0; i < c->module.entry.n; i++) {
        size_t bytes = work_of(&c->entry[i], card);
        most = bytes > most ? bytes : most;
    }
    return c->step.slot_bytes + most;
}

static void line_json(JsonOut *j, const char *name, bool known, SourceLine l) {
    json_name(j, name);
    if (known)
        json_put_str(j, str_format(j->text->arena, "%.*s:%u", SARG(l.file), l.number));
    else
        json_put_str(j, (Str){0});
}

// --- layers --------------------------------------------------------------------------------------

typedef VEC(Layer) LayerVec;

// What a net's own body and plain functions in it make is no layer's: a last row of the net, so
// that rows add up. False: there is nothing of the kind.
static bool own_row(const Module *m, uint32_t net, Layer *out) {
    NetSize size = net_size(m, net);
    *out = (Layer){.net = net,
                   .name = m->net.at[net].name,
                   .trainable = size.trainable,
                   .other = size.other,
                   .span = m->net.at[net].span};
    for (uint32_t i = 0; i < m->layer.n; i++) {
        const Layer *l = &m->layer.at[i];
        out->trainable -= l->net == net ? l->trainable : 0;
        out->other -= l->net == net ? l->other : 0;
    }
    return out->trainable || out->other;
}

static bool is_net(const Module *m, const Layer *l) {
    return str_eq(l->name, m->net.at[l->net].name);
}

// Module.layer, and behind it the rows of nets.
static LayerVec all_rows(Arena *a, const Module *m) {
    LayerVec rows = {0};
    for (uint32_t i = 0; i < m->layer.n; i++)
        vec_push(a, &rows, m->layer.at[i]);
    for (uint32_t net = 0; net < m->net.n; net++) {
        Layer own;
        if (own_row(m, net, &own))
            vec_push(a, &rows, own);
    }
    return rows;
}

static void layer_rows(Text *t, const Module *m) {
    LayerVec rows = all_rows(t->arena, m);
    size_t wide = 5;
    for (uint32_t i = 0; i < rows.n; i++)
        wide = rows.at[i].name.len > wide ? rows.at[i].name.len : wide;
    text_fmt(t, "\n  %-*s  at                 output               weights     state    GFLOP\n",
             (int)wide, "layer");
    for (uint32_t i = 0; i < rows.n; i++) {
        const Layer *l = &rows.at[i];
        SourceLine at = {0};
        (void)model_line(m, l->span, &at);
        Str place = str_format(t->arena, "%.*s:%u", SARG(at.file), at.number);
        text_fmt(t, "  %-*.*s  %-18.*s %-18.*s %9lld %9lld %8.3f\n", (int)wide, SARG(l->name),
                 SARG(place), SARG(is_net(m, l) ? STR("-") : type_text(t->arena, &l->out)),
                 (long long)l->trainable, (long long)l->other, l->gflop);
    }
}

static void layers_json(JsonOut *j, const Module *m) {
    LayerVec rows = all_rows(j->text->arena, m);
    json_member_open(j, "layers", '[');
    for (uint32_t i = 0; i < rows.n; i++) {
        const Layer *l = &rows.at[i];
        SourceLine at = {0};
        (void)model_line(m, l->span, &at);
        json_open(j, '{');
        json_member_str(j, "name", l->name);
        json_member_str(j, "net", m->net.at[l->net].name);
        line_json(j, "at", true, at);
        json_member_open(j, "output", '[');
        for (uint32_t d = 0; d < l->out.rank; d++)
            json_put_int(j, l->out.dim[d]);
        json_close(j, ']');
        json_member_int(j, "trainable", l->trainable);
        json_member_int(j, "not_trainable", l->other);
        json_member_double(j, "gflop", l->gflop);
        json_close(j, '}');
    }
    json_close(j, ']');
}

// --- collectives ---------------------------------------------------------------------------------

static void put_place(Text *t, bool known, SourceLine l) {
    Str place = known ? str_format(t->arena, "%.*s:%u", SARG(l.file), l.number) : STR("-");
    text_fmt(t, "  %-18.*s", SARG(place));
}

static void collective_rows(Text *t, const Plan *p) {
    for (uint32_t i = 0; i < p->collective.n; i++) {
        const Collective *c = &p->collective.at[i];
        SourceLine line = {0};
        text_fmt(t, "  %-6.*s %4u %5u %10zu %5u %6u %6s", SARG(p->func->name), i,
                 p->region.at[c->start].block, c->bytes, c->part.n, c->ready,
                 c->use == NONE ? "-" : str_format(t->arena, "%u", c->use).ptr);
        bool ready = collective_ready_line(p, i, &line);
        put_place(t, ready, line);
        bool use = collective_use_line(p, i, &line);
        put_place(t, use, line);
        text_put(t, STR("  "));
        collective_name(t, p, i);
        text_char(t, '\n');
    }
}

static void collectives_summary(Text *t, const Compiled *c) {
    const Share *s = &c->module.share;
    if (s->ranks <= 1)
        return;
    Str hash = hash_hex(t->arena, compiled_collectives_hash(c, *t->arena));
    text_fmt(t, "\n  rank %u of %u: samples %lld to %lld of %lld; collectives %.*s\n", s->rank,
             s->ranks, (long long)s->first, (long long)(s->first + s->samples - 1),
             (long long)s->total, SARG(hash));
    text_fmt(t, "  in     call block      bytes parts  ready   used  ready at            needed at"
                "           what\n");
    collective_rows(t, &c->step);
    for (uint32_t i = 0; i < c->module.entry.n; i++)
        collective_rows(t, &c->entry[i]);
}

static void collective_json(JsonOut *j, const Plan *p, uint32_t call) {
    const Collective *c = &p->collective.at[call];
    Text name = {.arena = j->text->arena};
    SourceLine line = {0};
    collective_name(&name, p, call);
    json_open(j, '{');
    json_member_str(j, "function", p->func->name);
    json_member_int(j, "call", call);
    json_member_str(j, "what", text_str(&name));
    json_member_int(j, "block", p->region.at[c->start].block);
    json_member_str(j, "precision", str_c(dtype_name[c->dtype]));
    json_member_int(j, "bytes", (int64_t)c->bytes);
    json_member_int(j, "parts", c->part.n);
    json_member_int(j, "ready", c->ready);
    json_member_int(j, "used", c->use == NONE ? -1 : (int64_t)c->use);
    bool ready = collective_ready_line(p, call, &line);
    line_json(j, "ready_at", ready, line);
    bool use = collective_use_line(p, call, &line);
    line_json(j, "needed_at", use, line);
    json_close(j, '}');
}

static void collectives_json(JsonOut *j, const Compiled *c) {
    json_member_open(j, "collectives", '[');
    for (uint32_t i = 0; i < c->step.collective.n; i++)
        collective_json(j, &c->step, i);
    for (uint32_t e = 0; e < c->module.entry.n; e++)
        for (uint32_t i = 0; i < c->entry[e].collective.n; i++)
            collective_json(j, &c->entry[e], i);
    json_close(j, ']');
    Str hash = hash_hex(j->text->arena, compiled_collectives_hash(c, *j->text->arena));
    json_member_str(j, "collectives_hash", hash);
}

// --- what a limit on memory made of a function ---------------------------------------------------

static void remade_row(Text *t, const Plan *p) {
    const Remade *r = p->remade;
    if (r && r->launches)
        text_fmt(
            t,
            "  recomputed in %.*s (rematerialization): %u launches, %.2f GFLOP, %.1f MiB read and "
            "written; work memory %.1f MiB instead of %.1f MiB\n",
            SARG(p->func->name), r->launches, r->gflop, r->bytes / 1048576,
            (double)p->work_bytes / 1048576, (double)r->held / 1048576);
}

static void remade_json(JsonOut *j, const Remade *r) {
    json_member_open(j, "again", '{');
    json_member_int(j, "launches", r->launches);
    json_member_double(j, "gflop", r->gflop);
    json_member_double(j, "bytes_moved", r->bytes);
    json_member_int(j, "work_bytes_held", (int64_t)r->held);
    json_close(j, '}');
}

// --- the whole model -----------------------------------------------------------------------------

// What is shown is the model as its configs stand, not one of these.
static void stage_rows(Text *t, const Module *m) {
    for (uint32_t i = 0; i < m->stage.n; i++) {
        const Stage *s = &m->stage.at[i];
        Str set = stage_text(t->arena, s, m->share.total);
        text_fmt(t, "  stage %u: %lld steps%s%.*s\n", i + 1, (long long)s->steps,
                 set.len ? " with " : "", SARG(set));
    }
    if (m->stage.n)
        text_put(t, STR("  shown is the model without its stages; -s shows one of them\n\n"));
}

static void stages_json(JsonOut *j, const Module *m) {
    json_member_open(j, "stages", '[');
    for (uint32_t i = 0; i < m->stage.n; i++) {
        const Stage *s = &m->stage.at[i];
        json_open(j, '{');
        json_member_int(j, "steps", s->steps);
        json_member_int(j, "batch", s->batch);
        json_member_open(j, "settings", '{');
        for (uint32_t k = 0; k < s->setting.n; k++)
            json_member_str(j, str_z(j->text->arena, s->setting.at[k].key), s->setting.at[k].value);
        json_close(j, '}');
        json_close(j, '}');
    }
    json_close(j, ']');
}

void model_summary(Text *t, const Compiled *c) {
    const Module *m = &c->module;
    text_fmt(t, "%.*s  batch %lld  %s\n\n", SARG(m->name), (long long)m->share.total,
             dtype_name[c->step.real]);
    stage_rows(t, m);
    text_fmt(t, "  net      trainable  not trainable\n");
    for (uint32_t i = 0; i < m->net.n; i++) {
        NetSize s = net_size(m, i);
        const Net *net = &m->net.at[i];
        text_fmt(t, "  %-8.*s %9lld  %13lld%s%.*s\n", SARG(net->name), (long long)s.trainable,
                 (long long)s.other, net->file.len ? "  pretrained: " : "", SARG(net->file));
    }
    layer_rows(t, m);
    text_fmt(
        t,
        "\n  weights, optimizer state and data: %.1f MiB; peak, with work memory: %.1f MiB; on a "
        "card, with workspace of its libraries: %.1f MiB\n",
        (double)c->step.slot_bytes / 1048576, (double)compiled_bytes(c, false) / 1048576,
        (double)compiled_bytes(c, true) / 1048576);
    text_fmt(t, "  the step as written: %.2f GFLOP; compiled: %.2f GFLOP\n\n", c->step.gflop_model,
             c->step.gflop);
    text_put(t,
             STR("  function               launches     GFLOP  moved MiB   work MiB  bound MiB   "
                 "ratio\n"));
    function_row(t, c, &c->init);
    function_row(t, c, &c->step);
    for (uint32_t i = 0; i < m->entry.n; i++)
        function_row(t, c, &c->entry[i]);
    remade_row(t, &c->step);
    for (uint32_t i = 0; i < m->entry.n; i++)
        remade_row(t, &c->entry[i]);
    for (uint32_t i = 0; i < c->step.copied.n; i++)
        text_fmt(t, "  copied before its update: %.*s\n",
                 SARG(m->slot.at[c->step.copied.at[i]].name));
    collectives_summary(t, c);
}

static void function_json(JsonOut *j, const Compiled *c, const Plan *p) {
    json_open(j, '{');
    json_member_str(j, "name", p->func->name);
    json_member_str(j, "kind", str_c(func_kind(c, p)));
    json_member_int(j, "launches", p->launch.n);
    json_member_int(j, "blocks", p->func->blocks);
    json_member_double(j, "gflop", p->gflop);
    json_member_double(j, "bytes_moved", p->bytes_moved);
    json_member_int(j, "work_bytes", (int64_t)p->work_bytes);
    json_member_int(j, "work_bound", (int64_t)p->work_bound);
    if (p->remade)
        remade_json(j, p->remade);
    json_close(j, '}');
}

void model_summary_json(Text *t, const Compiled *c) {
    const Module *m = &c->module;
    JsonOut j = {.text = t};
    json_open(&j, '{');
    json_member_str(&j, "model", m->name);
    json_member_int(&j, "batch", m->share.total);
    json_member_int(&j, "ranks", m->share.ranks);
    json_member_str(&j, "precision", str_c(dtype_name[c->step.real]));
    json_member_open(&j, "nets", '[');
    for (uint32_t i = 0; i < m->net.n; i++) {
        NetSize s = net_size(m, i);
        json_open(&j, '{');
        json_member_str(&j, "name", m->net.at[i].name);
        json_member_int(&j, "trainable", s.trainable);
        json_member_int(&j, "not_trainable", s.other);
        if (net_pretrained(m, i))
            json_member_str(&j, "pretrained", m->net.at[i].file);
        json_close(&j, '}');
    }
    json_close(&j, ']');
    layers_json(&j, m);
    if (m->stage.n)
        stages_json(&j, m);
    json_member_double(&j, "gflop_model", c->step.gflop_model);
    json_member_double(&j, "gflop_per_step", c->step.gflop);
    json_member_int(&j, "slot_bytes", (int64_t)c->step.slot_bytes);
    json_member_int(&j, "peak_bytes", (int64_t)compiled_bytes(c, false));
    json_member_int(&j, "card_bytes", (int64_t)compiled_bytes(c, true));
    json_member_open(&j, "functions", '[');
    function_json(&j, c, &c->init);
    function_json(&j, c, &c->step);
    for (uint32_t i = 0; i < m->entry.n; i++)
        function_json(&j, c, &c->entry[i]);
    json_close(&j, ']');
    collectives_json(&j, c);
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
