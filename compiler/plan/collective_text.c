// collective_text.c - a plan's collectives as text: the same on every rank.
//
// In: a plan. Out: a line per call, of facts that follow from the model and not from this rank's
// share of the batch.
#include "stages.h"

// The line a node comes from: of the model itself where it has one there, else of the library.
static bool line_of(const Plan *p, uint32_t node, SourceLine *out) {
    const Graph *g = &p->func->g;
    Span best = {0};
    for (uint32_t s = g->node.at[node].span; s; s = g->span.at[s].next) {
        Span span = g->span.at[s].span;
        best = !best.file || (span.file == 1 && best.file != 1) ? span : best;
    }
    return model_line(p->module, best, out);
}

static uint32_t first_reader(const Plan *p, const Collective *c) {
    const Graph *g = &p->func->g;
    uint32_t first = c->part.at[0].wait; // readers have larger indices
    for (uint32_t i = 1; i < c->part.n; i++)
        first = c->part.at[i].wait < first ? c->part.at[i].wait : first;
    for (uint32_t id = first + 1; id < g->node.n; id++)
        for (uint32_t k = 0; k < graph_node(g, id)->nin; k++)
            for (uint32_t i = 0; i < c->part.n; i++)
                if (node_in(g, id, k) == c->part.at[i].wait && p->region_of[id] != NONE)
                    return id;
    return 0;
}

bool collective_ready_line(const Plan *p, uint32_t call, SourceLine *out) {
    const Collective *c = &p->collective.at[call];
    return line_of(p, c->part.at[c->part.n - 1].start, out);
}

bool collective_use_line(const Plan *p, uint32_t call, SourceLine *out) {
    uint32_t reader = first_reader(p, &p->collective.at[call]);
    return reader && line_of(p, reader, out);
}

void collective_name(Text *t, const Plan *p, uint32_t call) {
    const Collective *c = &p->collective.at[call];
    if (c->update == NONE) {
        text_put(t, c->part.n > 1 ? STR("sums") : STR("sum"));
        return;
    }
    const Update *u = &p->func->update.at[c->update];
    text_put(t, STR("gradients of "));
    for (uint32_t i = 0; i < u->net.n; i++)
        text_fmt(t, "%s%.*s", i ? ", " : "", SARG(p->module->net.at[u->net.at[i]].name));
}

static void put_part(Text *t, const Plan *p, const Collective *c, uint32_t wait) {
    const Func *f = p->func;
    const Update *u = c->update == NONE ? NULL : &f->update.at[c->update];
    for (uint32_t k = 0; u && k < u->grad.n; k++)
        if (u->grad.at[k].node == wait) {
            text_fmt(t, " %.*s", SARG(p->module->slot.at[u->grad.at[k].slot].name));
            return;
        }
    text_fmt(t, " %.*s", SARG(type_text(t->arena, node_type(&f->g, wait))));
}

static void put_line(Text *t, const char *what, bool known, SourceLine l) {
    if (known)
        text_fmt(t, "; %s %.*s:%u", what, SARG(l.file), l.number);
}

void collectives_print(Text *t, const Plan *p) {
    for (uint32_t i = 0; i < p->collective.n; i++) {
        const Collective *c = &p->collective.at[i];
        SourceLine l = {0};
        text_fmt(t, "%.*s %u: ", SARG(p->func->name), i);
        collective_name(t, p, i);
        text_fmt(t, ", %zu bytes of %s%s, block %u:", c->bytes, dtype_name[c->dtype],
                 c->order == OrderTree ? " in a tree" : "", p->region.at[c->start].block);
        for (uint32_t k = 0; k < c->part.n; k++)
            put_part(t, p, c, c->part.at[k].wait);
        bool ready = collective_ready_line(p, i, &l);
        put_line(t, "ready at", ready, l);
        bool use = collective_use_line(p, i, &l);
        put_line(t, "needed at", use, l);
        text_char(t, '\n');
    }
}
