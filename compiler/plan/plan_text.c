// plan_text.c - prints plans (plan_text.h), and prints and parses the fields of each kind of line.
#include "plan_text.h"

const char *const plan_level_text[] = {"fused", "schedule", "plan"};
enum { MostBatch = 1 << 30 };
const char *const region_kind_text[] = {[RegionLoop] = "loop",
                                        [RegionCall] = "call",
                                        [RegionCopy] = "copy",
                                        [RegionStart] = "start",
                                        [RegionWait] = "wait"};

// --- fields: one function writes and reads each kind of line -------------------------------------

static bool form_index(Form *f, uint32_t *x) {
    if (f->w)
        return words_index(f->w, x);
    text_fmt(f->t, " %u", *x);
    return true;
}

static bool form_node(Form *f, uint32_t *id) {
    if (f->w)
        return words_char(f->w, '%') && words_index(f->w, id);
    text_fmt(f->t, " %%%u", *id);
    return true;
}

// A place in a memory: "at 4096".
static bool form_place(Form *f, size_t *at) {
    int64_t x = (int64_t)*at;
    if (!f->w) {
        text_fmt(f->t, " at %zu", *at);
        return true;
    }
    bool ok = words_word(f->w, "at") && words_int(f->w, 0, (int64_t)MostBytes, &x);
    *at = (size_t)x;
    return ok;
}

static bool form_double(Form *f, const char *name, double *x) {
    if (f->w)
        return words_word(f->w, name) && words_double(f->w, x);
    text_fmt(f->t, " %s %.*s", name, SARG(str_double(f->t->arena, *x)));
    return true;
}

static bool form_slot(Form *f, Line *l) {
    return form_index(f, &l->index) && form_place(f, &l->at);
}

static bool form_rank(Form *f, Line *l) {
    if (f->t)
        text_fmt(f->t, " %u of %u batch %lld", l->index, l->ranks, (long long)l->batch);
    return f->t || (words_index(f->w, &l->index) && words_word(f->w, "of") &&
                    words_index(f->w, &l->ranks) && words_word(f->w, "batch") &&
                    words_int(f->w, 1, MostBatch, &l->batch));
}

static bool form_func(Form *f, Line *l) {
    return form_index(f, &l->index) && form_double(f, "model", &l->model);
}

static bool form_number(Form *f, Line *l) {
    return form_index(f, &l->index);
}

static bool form_store(Form *f, Line *l) {
    bool placed = f->w ? false : l->at != NO_PLACE;
    if (!form_node(f, &l->node))
        return false;
    if (f->w) {
        placed = !words_end(f->w);
        l->at = NO_PLACE;
    }
    return !placed || form_place(f, &l->at);
}

static bool form_launch(Form *f, Line *l) {
    for (uint32_t i = 0; f->t && i < l->regions.n; i++)
        form_index(f, &l->regions.at[i]);
    while (f->w && !words_end(f->w)) {
        uint32_t region;
        if (!words_index(f->w, &region))
            return false;
        vec_push(f->w->perm, &l->regions, region);
    }
    return f->t || l->regions.n || words_refuse(f->w, "a launch of nothing");
}

const LineRow plan_line[LineCount] = {
    [LineRank] = {"rank", 2, PlanFused, form_rank},
    [LineSlot] = {"slot", 2, PlanPlaced, form_slot},
    [LineFunc] = {"func", 0, PlanFused, form_func},
    [LineRegion] = {"region", 2, PlanFused, form_number},
    [LineStore] = {"store", 4, PlanFused, form_store},
    [LineBlock] = {"block", 2, PlanScheduled, form_number},
    [LineLaunch] = {"launch", 4, PlanScheduled, form_launch},
    [LineRest] = {"rest", 2, PlanScheduled, form_number},
    [LineTail] = {"tail", 2, PlanScheduled, form_number},
};

// --- writing -------------------------------------------------------------------------------------

static void put_line(Form *f, LineId id, Line l) {
    const LineRow *row = &plan_line[id];
    if (f->level < row->from)
        return;
    text_fmt(f->t, "%*s%s", (int)row->indent, "", row->word);
    (void)row->fields(f, &l); // writing refuses nothing
}

static void put_value(Text *t, const Plan *p, uint32_t id) {
    const Graph *g = &p->func->g;
    const Type *type = node_type(g, id);
    Op op = (Op)graph_node(g, id)->op;
    text_fmt(t, "%s %.*s", dtype_name[type->dtype], SARG(type_text(t->arena, type)));
    if (op == OpRead || op == OpWrite)
        text_fmt(t, " %s %.*s", op_info[op].text, SARG(p->module->slot.at[node_slot(g, id)].name));
}

static void put_region(Form *f, const Plan *p, uint32_t index, const Epilogue *e) {
    const Region *r = &p->region.at[index];
    const Graph *g = &p->func->g;
    put_line(f, LineRegion, (Line){.index = index});
    text_fmt(f->t, "  # %s of block %u", region_kind_text[r->kind], r->block);
    if (f->level == PlanPlaced && r->kernel != NONE)
        text_fmt(f->t, ", %.*s", SARG(p->kernel.at[r->kernel].name));
    for (uint32_t i = 0; i < r->node.n; i++)
        text_fmt(f->t, "%s%s", i ? " " : ": ", op_info[graph_node(g, r->node.at[i])->op].text);
    text_char(f->t, '\n');
    if (e && e->region != NONE)
        text_fmt(f->t, "    # a library may do region %u along with it:%s%s%s\n", e->region,
                 e->bias ? " bias" : "", e->act == ActNone ? "" : " ",
                 e->act == ActNone ? "" : act_name[e->act]);
    for (uint32_t i = 0; i < r->in.n; i++) {
        text_fmt(f->t, "    # reads %%%u  ", r->in.at[i]);
        put_value(f->t, p, r->in.at[i]);
        text_char(f->t, '\n');
    }
    for (uint32_t i = 0; i < r->out.n; i++) {
        Place at = p->place[r->out.at[i]];
        bool placed = f->level == PlanPlaced && at.space == SpaceWork;
        put_line(f, LineStore, (Line){.node = r->out.at[i], .at = placed ? at.offset : NO_PLACE});
        text_put(f->t, STR("  # "));
        put_value(f->t, p, r->out.at[i]);
        text_char(f->t, '\n');
    }
}

static void put_section(Form *f, const Plan *p, const Section *s) {
    static const LineId line[] = {LineBlock, LineRest, LineTail};
    static const char *const remark[] = {"", ", behind those of the tail",
                                         ", which what follows runs"};
    put_line(f, line[s->kind], (Line){.index = s->kind == SectionBegin ? s->block : s->tail});
    text_fmt(f->t, "  # %u launches%s\n", s->n, remark[s->kind]);
    for (uint32_t i = s->first; i < s->first + s->n; i++) {
        Launch l = p->launch.at[i];
        NodeList regions = {&p->merge.at[l.first], l.instances, l.instances};
        put_line(f, LineLaunch, (Line){.regions = regions});
        text_char(f->t, '\n');
    }
}

// In the order of the launches.
static void put_launches(Form *f, const Plan *p) {
    if (f->level < PlanScheduled)
        return;
    const uint32_t *order = plan_sections(f->t->arena, p);
    for (uint32_t i = 0; i < p->section.n; i++)
        put_section(f, p, &p->section.at[order[i]]);
}

static void put_func(Form *f, const Plan *p, uint32_t index) {
    put_line(f, LineFunc, (Line){.index = index, .model = p->gflop_model});
    text_fmt(f->t, "  # %.*s", SARG(p->func->name));
    if (f->level == PlanPlaced) {
        text_fmt(f->t, ": work %zu bytes, live at most %zu; moves %.0f bytes; %.6f gflop",
                 p->work_bytes, p->work_bound, p->bytes_moved, p->gflop);
        for (uint32_t i = 0; i < p->copied.n; i++)
            text_fmt(f->t, "; copies the old value of %.*s",
                     SARG(p->module->slot.at[p->copied.at[i]].name));
    }
    text_char(f->t, '\n');
    const Epilogue *epilogue = f->level == PlanPlaced ? plan_epilogues(f->t->arena, p) : NULL;
    for (uint32_t i = 0; i < p->region.n; i++)
        put_region(f, p, i, epilogue ? &epilogue[i] : NULL);
    put_launches(f, p);
}

void plans_print(Text *t, const Plan *const *plan, uint32_t n, PlanLevel level) {
    Form f = {.level = level, .t = t};
    const Module *m = plan[0]->module;
    module_print(t, m);
    text_fmt(t, "plans %s %s%s\n", plan_level_text[level], dtype_name[plan[0]->real],
             plan[0]->unfused ? " unfused" : "");
    if (m->share.ranks > 1) {
        const Share *s = &m->share;
        put_line(&f, LineRank, (Line){.index = s->rank, .ranks = s->ranks, .batch = s->total});
        text_fmt(t, "  # samples %lld to %lld\n", (long long)s->first,
                 (long long)(s->first + s->samples - 1));
    }
    for (uint32_t i = 0; level == PlanPlaced && i < m->slot.n; i++) {
        put_line(&f, LineSlot, (Line){.index = i, .at = m->slot.at[i].offset});
        text_fmt(t, "  # %.*s\n", SARG(m->slot.at[i].name));
    }
    for (uint32_t i = 0; i < n; i++)
        put_func(&f, plan[i], i);
}
