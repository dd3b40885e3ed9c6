// plan_text.c - plans as text, and back.
//
//   module ...                        the module's own form (ir/text.h), its graphs as the passes
//                                     left them
//   plans plan f32                    the level: fused, schedule or plan; the precision
//     rank 0 of 2 batch 16            of several ranks: whose plans these are, the whole batch
//     slot 3 at 4096                  plan: where slots lie
//   func 1 model 0.25                 init, step, entries; GFLOP of the published step
//     parts                           of chunks of its batch; such a text does not read back
//     region 0                        fused: which values are stored together is all that fusion
//                                     decides
//       store %12 at 64               plan: with its place, unless it lies in a slot
//     block 0                         schedule: a line for every block, its launches behind it
//       launch 0 3                    regions side by side
//     rest                            behind the block within which a tail runs: what else it does
//     tail                            last: what a step leaves to the next
//
// Everything else a plan holds follows from these lines and is derived when they are read; what a
// reader of the text wants to see of it stands in remarks (#). A field is written and read by one
// function, its row below. The text is a function of the plans alone.
#include "plan.h"
#include "words.h"

#include <math.h>
#include <string.h>

static const char *const level_text[] = {"fused", "schedule", "plan"};
static const char *const kind_text[] = {[RegionLoop] = "loop",
                                        [RegionCall] = "call",
                                        [RegionCopy] = "copy",
                                        [RegionStart] = "start",
                                        [RegionWait] = "wait"};
enum { MostBatch = 1 << 30, MostRanks = 1 << 20 };
static const double MostBytes = 1e14; // of one value; keeps every sum of sizes far from wrapping

// --- fields: one function writes and reads each kind of line -------------------------------------

typedef struct Form {
    PlanLevel level;
    Text *t;  // written to, NULL when reading
    Words *w; // read from
} Form;

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

typedef struct Line { // what any kind of line can say
    uint32_t index;   // of a slot, rank, function, region, block
    uint32_t ranks;   // rank
    int64_t batch;    // rank: of all
    uint32_t node;    // store
    size_t at;        // slot, store: NoPlace when it has none of its own
    double model;     // func
    NodeList regions; // launch
} Line;
static const size_t NoPlace = SIZE_MAX;

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

static bool form_nothing(Form *f, Line *l) {
    (void)f, (void)l;
    return true;
}

static bool form_func(Form *f, Line *l) {
    return form_index(f, &l->index) && form_double(f, "model", &l->model);
}

static bool form_number(Form *f, Line *l) {
    return form_index(f, &l->index);
}

static bool form_store(Form *f, Line *l) {
    bool placed = f->w ? false : l->at != NoPlace;
    if (!form_node(f, &l->node))
        return false;
    if (f->w) {
        placed = !words_end(f->w);
        l->at = NoPlace;
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

// --- reading: what a line adds -------------------------------------------------------------------

typedef struct Placed {
    uint32_t node;
    size_t at;
} Placed;
typedef struct FuncText { // one function, as far as it was read
    uint32_t line;
    VEC(NodeList) stored; // by region
    VEC(uint32_t) lines;  // [region] where it stands
    VEC(Placed) place;
    bool has_rest, has_tail;
    uint32_t within; // the block that `rest` is of
    BlockPlan rest, tail;
    BlockPlan *open; // the section that the next launch is of, NULL before the first
} FuncText;

typedef struct Reader {
    Words w;
    Form form;
    Module *m;
    PlansRead *out;
    uint32_t funcs; // begun
    FuncText *func; // [2 + entry.n]
    Plan *p;        // of the last function begun, NULL before the first
    FuncText *f;
    size_t slots_end;
} Reader;

static bool take_slot(Reader *r, const Line *l) {
    if (l->index >= r->m->slot.n || l->at % PLAN_ALIGN)
        return words_refuse(&r->w, "no slot %u, or no place for one", l->index);
    r->m->slot.at[l->index].offset = l->at;
    return true;
}

static bool take_rank(Reader *r, const Line *l) {
    Module *m = r->m;
    bool fits = !r->funcs && m->share.ranks == 1 && l->ranks > 1 && l->ranks <= MostRanks &&
                l->index < l->ranks;
    Share share = fits ? share_of(l->batch, l->index, l->ranks) : m->share;
    if (!fits || l->batch < l->ranks || share.samples != m->batch)
        return words_refuse(&r->w, "a batch of %lld is not this rank's part", (long long)m->batch);
    m->share = share;
    return true;
}

static bool take_func(Reader *r, const Line *l) {
    if (l->index != r->funcs || r->funcs >= 2 + r->m->entry.n)
        return words_refuse(&r->w, "expected function %u of %u", r->funcs, 2 + r->m->entry.n);
    const Module *m = r->m;
    r->p = &r->out->plan[r->funcs];
    r->f = &r->func[r->funcs++];
    const Func *f = l->index == 0   ? &m->init
                    : l->index == 1 ? &m->step
                                    : &m->entry.at[l->index - 2];
    *r->p = (Plan){.module = m, .func = f, .real = r->out->real, .gflop_model = l->model};
    r->f->line = r->w.number;
    return true;
}

static bool take_parts(Reader *r, const Line *l) {
    (void)l;
    return words_refuse(&r->w, "a step in parts does not read back: compile the model");
}

static bool take_region(Reader *r, const Line *l) {
    if (!r->p || l->index != r->f->stored.n)
        return words_refuse(&r->w, "regions are numbered from 0 in every function");
    vec_push(r->w.perm, &r->f->lines, r->w.number);
    vec_push(r->w.perm, &r->f->stored, (NodeList){0});
    return true;
}

static bool take_store(Reader *r, const Line *l) {
    if (!r->p || !r->f->stored.n || l->node >= r->p->func->g.node.n)
        return words_refuse(&r->w, "no region to store in, or no such node");
    vec_push(r->w.perm, &r->f->stored.at[r->f->stored.n - 1], l->node);
    vec_push(r->w.perm, &r->f->place, ((Placed){l->node, l->at}));
    return true;
}

static bool take_block(Reader *r, const Line *l) {
    if (!r->p || l->index != r->p->block.n || r->f->has_tail)
        return words_refuse(&r->w, "blocks are numbered from 0 in every function, the tail last");
    vec_push(r->w.perm, &r->p->block, ((BlockPlan){r->p->launch.n, 0}));
    r->f->open = &r->p->block.at[l->index];
    return true;
}

static bool take_rest(Reader *r, const Line *l) {
    (void)l;
    if (!r->p || !r->p->block.n || r->f->has_rest)
        return words_refuse(&r->w, "the rest of no block, or of a second one");
    r->f->has_rest = true;
    r->f->within = r->p->block.n - 1;
    r->f->rest = (BlockPlan){r->p->launch.n, 0};
    r->f->open = &r->f->rest;
    return true;
}

static bool take_tail(Reader *r, const Line *l) {
    (void)l;
    if (!r->p || !r->f->has_rest || r->f->has_tail)
        return words_refuse(&r->w, "a tail that no block runs, or a second one");
    r->f->has_tail = true;
    r->f->tail = (BlockPlan){r->p->launch.n, 0};
    r->f->open = &r->f->tail;
    return true;
}

static bool take_launch(Reader *r, const Line *l) {
    if (!r->p || !r->f->open)
        return words_refuse(&r->w, "a launch outside a block");
    Launch launch = {l->regions.at[0], l->regions.n, r->p->merge.n};
    vec_push(r->w.perm, &r->p->launch, launch);
    r->f->open->n++;
    for (uint32_t i = 0; i < l->regions.n; i++)
        vec_push(r->w.perm, &r->p->merge, l->regions.at[i]);
    return true;
}

// --- the rows ------------------------------------------------------------------------------------

typedef enum LineId {
    LineRank,
    LineSlot,
    LineFunc,
    LineParts,
    LineRegion,
    LineStore,
    LineBlock,
    LineLaunch,
    LineRest,
    LineTail,
    LineCount
} LineId;
static const struct LineRow {
    const char *word;
    uint32_t indent;
    PlanLevel from; // the first level that has it
    bool (*fields)(Form *f, Line *l);
    bool (*take)(Reader *r, const Line *l);
} rows[LineCount] = {
    [LineRank] = {"rank", 2, PlanFused, form_rank, take_rank},
    [LineSlot] = {"slot", 2, PlanPlaced, form_slot, take_slot},
    [LineFunc] = {"func", 0, PlanFused, form_func, take_func},
    [LineParts] = {"parts", 2, PlanFused, form_nothing, take_parts},
    [LineRegion] = {"region", 2, PlanFused, form_number, take_region},
    [LineStore] = {"store", 4, PlanFused, form_store, take_store},
    [LineBlock] = {"block", 2, PlanScheduled, form_number, take_block},
    [LineLaunch] = {"launch", 4, PlanScheduled, form_launch, take_launch},
    [LineRest] = {"rest", 2, PlanScheduled, form_nothing, take_rest},
    [LineTail] = {"tail", 2, PlanScheduled, form_nothing, take_tail},
};

// --- writing -------------------------------------------------------------------------------------

static void put_line(Form *f, LineId id, Line l) {
    const struct LineRow *row = &rows[id];
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
        text_fmt(t, " %s %.*s", op_info[op].text,
                 SARG(p->module->slot.at[node_attr(g, id)->i[0]].name));
}

static void put_region(Form *f, const Plan *p, uint32_t index) {
    const Region *r = &p->region.at[index];
    const Graph *g = &p->func->g;
    put_line(f, LineRegion, (Line){.index = index});
    text_fmt(f->t, "  # %s of block %u", kind_text[r->kind], r->block);
    if (f->level == PlanPlaced && r->kernel != NONE)
        text_fmt(f->t, ", %.*s", SARG(p->kernel.at[r->kernel].name));
    for (uint32_t i = 0; i < r->node.n; i++)
        text_fmt(f->t, "%s%s", i ? " " : ": ", op_info[graph_node(g, r->node.at[i])->op].text);
    text_char(f->t, '\n');
    Epilogue e;
    if (f->level == PlanPlaced && plan_epilogue(p, index, &e))
        text_fmt(f->t, "    # a library may do region %u along with it:%s%s%s\n", e.region,
                 e.bias ? " bias" : "", e.act == ActNone ? "" : " ",
                 e.act == ActNone ? "" : act_name[e.act]);
    for (uint32_t i = 0; i < r->in.n; i++) {
        text_fmt(f->t, "    # reads %%%u  ", r->in.at[i]);
        put_value(f->t, p, r->in.at[i]);
        text_char(f->t, '\n');
    }
    for (uint32_t i = 0; i < r->out.n; i++) {
        Place at = p->place[r->out.at[i]];
        bool placed = f->level == PlanPlaced && at.space == SpaceWork;
        put_line(f, LineStore, (Line){.node = r->out.at[i], .at = placed ? at.offset : NoPlace});
        text_put(f->t, STR("  # "));
        put_value(f->t, p, r->out.at[i]);
        text_char(f->t, '\n');
    }
}

static void put_section(Form *f, const Plan *p, LineId id, uint32_t index) {
    BlockPlan section = p->block.at[index];
    put_line(f, id, (Line){.index = index});
    text_fmt(f->t, "  # %u launches%s\n", section.n,
             id == LineTail   ? ", which the next step runs"
             : id == LineRest ? ", behind those of the tail"
                              : "");
    for (uint32_t i = section.first; i < section.first + section.n; i++) {
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
    for (uint32_t b = 0; b < p->func->blocks; b++) {
        put_section(f, p, LineBlock, b);
        if (p->tail.section && b == p->tail.within)
            put_section(f, p, LineRest, p->tail.rest);
    }
    if (p->tail.section)
        put_section(f, p, LineTail, p->tail.section);
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
    if (p->func->block_first) {
        put_line(f, LineParts, (Line){0});
        text_char(f->t, '\n');
    }
    for (uint32_t i = 0; i < p->region.n; i++)
        put_region(f, p, i);
    put_launches(f, p);
}

static uint32_t func_index(const Plan *p) {
    const Module *m = p->module;
    return p->func == &m->init   ? 0
           : p->func == &m->step ? 1
                                 : 2 + (uint32_t)(p->func - m->entry.at);
}

void plan_print(Text *t, const Plan *p, PlanLevel level) {
    Form f = {.level = level, .t = t};
    put_func(&f, p, func_index(p));
}

void plans_print(Text *t, const Plan *const *plan, uint32_t n, PlanLevel level) {
    Form f = {.level = level, .t = t};
    const Module *m = plan[0]->module;
    module_print(t, m);
    text_fmt(t, "plans %s %s\n", level_text[level], dtype_name[plan[0]->real]);
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

// --- reading -------------------------------------------------------------------------------------

static bool read_line(Reader *r) {
    if (words_end(&r->w))
        return true;
    Str word = words_next(&r->w);
    for (uint32_t i = 0; i < LineCount; i++) {
        Line l = {.at = NoPlace};
        if (!str_eq(word, str_c(rows[i].word)))
            continue;
        if (r->out->level < rows[i].from)
            return words_refuse(&r->w, "'%s' is out of place at level %s", rows[i].word,
                                level_text[r->out->level]);
        return rows[i].fields(&r->form, &l) && rows[i].take(r, &l) &&
               (words_end(&r->w) ||
                words_refuse(&r->w, "column %zu: nothing more is expected", r->w.at + 1));
    }
    return words_refuse(&r->w, "no line of a plan begins with '%.*s'", SARG(word));
}

static bool read_header(Reader *r) {
    uint32_t level, real;
    if (!words_word(&r->w, "plans") || !WORDS_ONE_OF(&r->w, level_text, &level) ||
        !WORDS_ONE_OF(&r->w, dtype_name, &real))
        return false;
    r->out->level = (PlanLevel)level;
    r->out->real = (Dtype)real;
    return true;
}

static double bytes_of(const Type *t, int64_t batch) {
    double n = t->batched ? (double)batch : 1;
    for (uint32_t i = 0; i < t->rank; i++)
        n *= (double)t->dim[i];
    return n * (double)dtype_size[t->dtype];
}

// That no size below can wrap, and slots lie side by side.
static bool check_sizes(Reader *r) {
    const Module *m = r->m;
    for (uint32_t i = 0; i < m->slot.n; i++)
        if (bytes_of(&m->slot.at[i].type, m->batch) > MostBytes)
            return words_refuse(&r->w, "slot %u is too large for any machine", i);
    for (uint32_t i = 0; i < 2 + m->entry.n; i++) {
        const Graph *g = &r->out->plan[i].func->g;
        for (uint32_t id = 1; id < g->node.n; id++)
            if (bytes_of(node_type(g, id), m->batch) > MostBytes)
                return words_refuse(&r->w, "%%%u of function %u is too large for any machine", id,
                                    i);
    }
    return true;
}

static size_t slot_bytes(const Module *m, uint32_t slot) {
    size_t bytes = type_bytes(&m->step.g, &m->slot.at[slot].type);
    return (bytes + PLAN_ALIGN - 1) / PLAN_ALIGN * PLAN_ALIGN;
}

static bool check_slots(Reader *r) {
    const Module *m = r->m;
    for (uint32_t i = 0; i < m->slot.n; i++) {
        size_t at = m->slot.at[i].offset, end = at + slot_bytes(m, i);
        r->slots_end = end > r->slots_end ? end : r->slots_end;
        for (uint32_t k = 0; k < i; k++) {
            size_t other = m->slot.at[k].offset;
            if (at < other + slot_bytes(m, k) && other < end)
                return words_refuse(&r->w, "slots %u and %u lie over one another", k, i);
        }
    }
    return true;
}

// The sections of a tail come behind those of the blocks.
static bool close_sections(Reader *r, const FuncText *f, Plan *p, Refusal *wrong) {
    uint32_t blocks = p->block.n;
    if (f->has_rest != f->has_tail) {
        *wrong = (Refusal){STR("the rest of a block behind a tail, and no tail"), NONE};
        return false;
    }
    if (f->has_tail) {
        p->tail = (Tail){.section = blocks + 1, .within = f->within, .rest = blocks};
        vec_push(r->w.perm, &p->block, f->rest);
        vec_push(r->w.perm, &p->block, f->tail);
    }
    return true;
}

static bool restore(Reader *r, uint32_t index, Refusal *wrong) {
    const Share *s = &r->m->share;
    PassOptions o = {.real = r->out->real,
                     .parallel = {.rank = s->rank, .ranks = s->ranks, .tail = true}};
    FuncText *f = &r->func[index];
    Plan *p = &r->out->plan[index];
    Arena *perm = r->w.perm;
    double model = p->gflop_model;
    if (!fuse_restore(perm, &o, f->stored.at, f->stored.n, p, wrong))
        return false;
    if (r->out->level < PlanScheduled)
        schedule(perm, &o, p);
    else if (!close_sections(r, f, p, wrong) || !schedule_restore(perm, &o, p, wrong))
        return false;
    p->gflop = func_gflop(p->func);
    p->gflop_model = model;
    p->slot_bytes = r->slots_end;
    if (r->out->level < PlanPlaced) {
        memory_plan(&o, p);
    } else {
        for (uint32_t i = 0; i < f->place.n; i++)
            p->place[f->place.at[i].node].offset = f->place.at[i].at;
        if (!memory_restore(perm, &o, p, wrong))
            return false;
    }
    collectives_place(perm, p);
    return true;
}

static bool restore_all(Reader *r) {
    if (r->funcs != 2 + r->m->entry.n)
        return words_refuse(&r->w, "the text ends behind %u functions of %u", r->funcs,
                            2 + r->m->entry.n);
    if (!check_sizes(r))
        return false;
    if (r->out->level < PlanPlaced)
        r->slots_end = slots_place(r->m, r->out->real);
    else if (!check_slots(r))
        return false;
    for (uint32_t i = 0; i < r->funcs; i++) {
        Refusal wrong = {.region = NONE};
        if (restore(r, i, &wrong))
            continue;
        const FuncText *f = &r->func[i];
        bool known = wrong.region < f->lines.n;
        r->w.number = known ? f->lines.at[wrong.region] : f->line;
        return known ? words_refuse(&r->w, "region %u: %.*s", wrong.region, SARG(wrong.why))
                     : words_refuse(&r->w, "function %u: %.*s", i, SARG(wrong.why));
    }
    return true;
}

// Where the plans begin: a line that begins with "plans ". Texts in quotes have no line ends.
static size_t find_plans(Str text) {
    for (size_t at = 0; at < text.len;) {
        Str rest = str_sub(text, at, text.len);
        if (str_starts(rest, STR("plans ")))
            return at;
        at += str_find(rest, '\n') + 1;
    }
    return text.len;
}

bool plans_read(Arena *perm, Str text, Module *module, PlansRead *out, Str *error) {
    size_t at = find_plans(text);
    Str head = str_sub(text, 0, at), rest = str_sub(text, at, text.len);
    *out = (PlansRead){0};
    if (!module_read(perm, head, module, error))
        return false;
    module->share = share_of(module->batch, 0, 1);
    Reader r = {.w = {.perm = perm, .error = error}, .m = module, .out = out};
    r.form.w = &r.w;
    for (size_t i = 0; i < head.len; i++)
        r.w.number += head.ptr[i] == '\n';
    uint32_t funcs = 2 + module->entry.n;
    out->plan = arena_array(perm, Plan, funcs);
    r.func = arena_array(perm, FuncText, funcs);
    if (!words_line(&r.w, &rest))
        return words_refuse(&r.w, "the text ends before its plans");
    if (!read_header(&r))
        return false;
    while (words_line(&r.w, &rest))
        if (!read_line(&r))
            return false;
    return restore_all(&r);
}
