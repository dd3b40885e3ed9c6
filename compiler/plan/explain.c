// explain.c - what fusion did, for a person: per region its members, the memory traffic it saves
// and the model's lines; per value it still reads from another region, why.
#include "plan_text.h"

void region_lines(Arena *a, const Plan *p, const Region *r, SourceLineVec *out) {
    const Graph *g = &p->func->g;
    for (uint32_t i = 0; i < r->node.n; i++) {
        for (uint32_t s = g->node.at[r->node.at[i]].span; s; s = g->span.at[s].next) {
            SourceLine l;
            const char *line = model_text(p->module, g->span.at[s].span).ptr;
            bool known = !line;
            for (uint32_t k = 0; k < out->n && !known; k++)
                known = out->at[k].text.ptr == line;
            if (!known && model_line(p->module, g->span.at[s].span, &l))
                vec_push(a, out, l);
        }
    }
}

// A member that is not stored would have been written once and read once.
static double bytes_saved(const Plan *p, const Region *r) {
    const Graph *g = &p->func->g;
    double sum = 0;
    for (uint32_t i = 0; r->kind == RegionLoop && i < r->node.n; i++) {
        uint32_t id = r->node.at[i];
        if (op_info[g->node.at[id].op].cls != ClassLEAF && !region_stores(r, id))
            sum += 2 * (double)type_bytes(g, node_type(g, id));
    }
    return sum;
}

static void put_bytes(Text *t, double bytes) {
    if (bytes >= 1e6)
        text_fmt(t, "%.1f MB", bytes / 1e6);
    else if (bytes >= 1e3)
        text_fmt(t, "%.1f kB", bytes / 1e3);
    else
        text_fmt(t, "%.0f bytes", bytes);
}

static void explain_region(Text *t, const Plan *p, uint32_t index, Arena scratch) {
    enum { MaxLines = 3 };
    const Region *r = &p->region.at[index];
    const Graph *g = &p->func->g;
    SourceLineVec lines = {0};
    text_fmt(t, "region %u, %s in block %u:", index, region_kind_text[r->kind], r->block);
    for (uint32_t i = 0; i < r->node.n; i++) {
        const OpInfo *op = &op_info[g->node.at[r->node.at[i]].op];
        if (op->cls != ClassLEAF)
            text_fmt(t, " %s", op->text);
    }
    text_put(t, STR("\n  stores"));
    for (uint32_t i = 0; i < r->out.n; i++) {
        Str type = type_text(&scratch, node_type(g, r->out.at[i]));
        text_fmt(t, "%s %%%u %.*s", i ? "," : "", r->out.at[i], SARG(type));
    }
    double saved = bytes_saved(p, r);
    if (saved > 0) {
        text_put(t, STR("; saves "));
        put_bytes(t, saved);
    }
    text_char(t, '\n');
    region_lines(&scratch, p, r, &lines);
    for (uint32_t i = 0; i < lines.n && i < MaxLines; i++) {
        text_fmt(t, "  %.*s:%u: %.*s\n", SARG(lines.at[i].file), lines.at[i].number,
                 SARG(lines.at[i].text));
    }
}

void explain_fusion(Text *t, const Plan *p) {
    const Graph *g = &p->func->g;
    text_fmt(t, "%.*s: %u regions", SARG(p->func->name), p->region.n);
    double saved = 0;
    for (uint32_t i = 0; i < p->region.n; i++)
        saved += bytes_saved(p, &p->region.at[i]);
    text_put(t, STR("; values that need no memory save "));
    put_bytes(t, saved);
    text_char(t, '\n');
    uint32_t why = 0;
    for (uint32_t i = 0; i < p->region.n; i++) {
        Arena space;
        arena_need(&space);
        explain_region(t, p, i, space);
        arena_release(&space);
        for (; why < p->why.n && p->region_of[p->why.at[why].to] == i; why++) {
            const Why *w = &p->why.at[why];
            text_fmt(t, "  reads %%%u (%s, ", w->from, op_info[g->node.at[w->from].op].text);
            put_bytes(t, (double)w->bytes);
            text_fmt(t, "): %s\n", w->reason);
        }
    }
}
