// plan_print.c - a plan as text: memory, blocks, launches in order, what each region reads,
// computes and stores.
//
// The text is a function of the plan alone and carries no source positions, so it serves as a
// golden file.
#include "plan.h"

static const char *const kind_text[] = {
    [RegionLoop] = "loop", [RegionCall] = "call", [RegionCopy] = "copy"};

static void put_value(Text *t, const Plan *p, uint32_t id) {
    const Graph *g = &p->func->g;
    const Type *type = node_type(g, id);
    Place at = p->place[id];
    Op op = (Op)graph_node(g, id)->op;
    text_fmt(t, "%%%u %s %.*s", id, dtype_name[type->dtype], SARG(type_text(t->arena, type)));
    if (op == OpRead || op == OpWrite)
        text_fmt(t, " %s %.*s", op_info[op].text,
                 SARG(p->module->slot.at[node_attr(g, id)->i[0]].name));
    text_fmt(t, " @%s+%zu", at.space == SpaceSlot ? "slot" : "work", at.offset);
}

static void put_values(Text *t, const Plan *p, const char *what, const uint32_t *id, uint32_t n) {
    for (uint32_t i = 0; i < n; i++) {
        text_fmt(t, "      %s ", what);
        put_value(t, p, id[i]);
        text_char(t, '\n');
    }
}

static void put_region(Text *t, const Plan *p, uint32_t index) {
    const Region *r = &p->region.at[index];
    const Graph *g = &p->func->g;
    text_fmt(t, "    %s r%u", kind_text[r->kind], index);
    if (r->kernel != NONE)
        text_fmt(t, " %.*s", SARG(p->kernel.at[r->kernel].name));
    for (uint32_t i = 0; i < r->node.n; i++)
        text_fmt(t, "%s%s", i ? " " : ": ", op_info[graph_node(g, r->node.at[i])->op].text);
    text_char(t, '\n');
    put_values(t, p, "in ", r->in.at, r->in.n);
    put_values(t, p, "out", r->out.at, r->out.n);
}

static void put_block(Text *t, const Plan *p, uint32_t block) {
    BlockPlan b = p->block.at[block];
    text_fmt(t, "block %u: %u launches\n", block, b.n);
    for (uint32_t i = b.first; i < b.first + b.n; i++) {
        Launch l = p->launch.at[i];
        text_fmt(t, "  launch %u", i);
        if (l.instances > 1)
            text_fmt(t, " of %u regions", l.instances);
        text_char(t, '\n');
        for (uint32_t k = 0; k < l.instances; k++)
            put_region(t, p, p->merge.at[l.first + k]);
    }
}

void plan_print(Text *t, const Plan *p) {
    text_fmt(t, "plan %.*s %s\n", SARG(p->func->name), dtype_name[p->real]);
    text_fmt(t, "work %zu bytes, live at most %zu; slots %zu bytes; moves %.0f bytes; %.6f gflop\n",
             p->work_bytes, p->work_bound, p->slot_bytes, p->bytes_moved, p->gflop);
    for (uint32_t i = 0; i < p->copied.n; i++)
        text_fmt(t, "copied: the old value of %.*s\n",
                 SARG(p->module->slot.at[p->copied.at[i]].name));
    for (uint32_t b = 0; b < p->block.n; b++)
        put_block(t, p, b);
}
