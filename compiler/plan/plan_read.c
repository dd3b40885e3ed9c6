// plan_read.c - plans from their text (plan_text.h), of which nothing is trusted.
//
// In: text. Out: a module and plans that could run, or one sentence with a line. What a line states
// is noted as it comes; once all are there the stages take the decisions in turn (restore.c) and
// refuse what cannot be kept.
#include "plan_text.h"

#include <stdlib.h>
#include <string.h>

enum { MostRanks = 1 << 20 };

// --- what a line adds ----------------------------------------------------------------------------

typedef struct Placed {
    uint32_t node;
    size_t at;
} Placed;
typedef struct FuncText { // one function, as far as it was read
    uint32_t line;
    VEC(NodeList) stored; // by region
    VEC(uint32_t) lines;  // [region] where it stands
    VEC(Placed) place;
    VEC(Section) behind; // rests and tails
    uint32_t tails;
    Section *open; // that the next launch is of, NULL before the first
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
    *r->p = (Plan){.module = m,
                   .func = f,
                   .real = r->out->real,
                   .unfused = r->out->unfused,
                   .gflop_model = l->model};
    r->f->line = r->w.number;
    return true;
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
    if (!r->p || l->index != r->p->section.n)
        return words_refuse(&r->w, "blocks are numbered from 0 in every function");
    vec_push(r->w.perm, &r->p->section,
             ((Section){.block = l->index, .tail = NONE, .first = r->p->launch.n}));
    r->f->open = &r->p->section.at[l->index];
    return true;
}

static bool take_behind(Reader *r, SectionKind kind, uint32_t tail) {
    FuncText *f = r->f;
    Section s = {.kind = kind, .tail = tail};
    s.block = r->p->section.n - 1;
    s.first = r->p->launch.n;
    vec_push(r->w.perm, &f->behind, s);
    f->open = &f->behind.at[f->behind.n - 1];
    return true;
}

static bool take_rest(Reader *r, const Line *l) {
    if (!r->p || !r->p->section.n)
        return words_refuse(&r->w, "the rest of no block");
    return take_behind(r, SectionRest, l->index);
}

static bool take_tail(Reader *r, const Line *l) {
    if (!r->p || !r->p->section.n || l->index != r->f->tails)
        return words_refuse(&r->w, "tails are numbered from 0 in every function, behind a block");
    r->f->tails++;
    return take_behind(r, SectionTail, l->index);
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

static bool (*const take[LineCount])(Reader *r, const Line *l) = {
    [LineRank] = take_rank,     [LineSlot] = take_slot,   [LineFunc] = take_func,
    [LineRegion] = take_region, [LineStore] = take_store, [LineBlock] = take_block,
    [LineLaunch] = take_launch, [LineRest] = take_rest,   [LineTail] = take_tail,
};

// --- lines ---------------------------------------------------------------------------------------

static bool read_line(Reader *r) {
    if (words_end(&r->w))
        return true;
    Str word = words_next(&r->w);
    for (uint32_t i = 0; i < LineCount; i++) {
        Line l = {.at = NO_PLACE};
        if (!str_eq(word, str_c(plan_line[i].word)))
            continue;
        if (r->out->level < plan_line[i].from)
            return words_refuse(&r->w, "'%s' is out of place at level %s", plan_line[i].word,
                                plan_level_text[r->out->level]);
        return plan_line[i].fields(&r->form, &l) && take[i](r, &l) &&
               (words_end(&r->w) ||
                words_refuse(&r->w, "column %zu: nothing more is expected", r->w.at + 1));
    }
    return words_refuse(&r->w, "no line of a plan begins with '%.*s'", SARG(word));
}

static bool read_header(Reader *r) {
    uint32_t level, real;
    if (!words_word(&r->w, "plans") || !WORDS_ONE_OF(&r->w, plan_level_text, &level) ||
        !WORDS_ONE_OF(&r->w, dtype_name, &real))
        return false;
    r->out->level = (PlanLevel)level;
    r->out->real = (Dtype)real;
    r->out->unfused = !words_end(&r->w);
    return !r->out->unfused || words_word(&r->w, "unfused");
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
    double all = 0;
    for (uint32_t i = 0; i < m->slot.n; i++) {
        double bytes = bytes_of(&m->slot.at[i].type, m->batch);
        if (bytes > MostBytes || (all += bytes + PLAN_ALIGN) > MostBytesTogether)
            return words_refuse(&r->w, "slot %u is too large for any machine", i);
    }
    for (uint32_t i = 0; i < 2 + m->entry.n; i++) {
        const Graph *g = &r->out->plan[i].func->g;
        all = 0;
        for (uint32_t id = 1; id < g->node.n; id++) {
            double bytes = bytes_of(node_type(g, id), m->batch);
            if (bytes > MostBytes || (all += bytes + PLAN_ALIGN) > MostBytesTogether)
                return words_refuse(&r->w, "%%%u of function %u is too large for any machine", id,
                                    i);
        }
    }
    return true;
}

typedef struct SlotRange {
    size_t at, end;
    uint32_t slot;
} SlotRange;

static int by_place(const void *a, const void *b) {
    const SlotRange *x = a, *y = b;
    if (x->at != y->at)
        return x->at < y->at ? -1 : 1;
    return x->slot < y->slot ? -1 : x->slot > y->slot;
}

static bool check_slots(Reader *r) {
    const Module *m = r->m;
    SlotRange *range = arena_array(r->w.perm, SlotRange, m->slot.n);
    for (uint32_t i = 0; i < m->slot.n; i++) {
        size_t at = m->slot.at[i].offset;
        range[i] = (SlotRange){at, at + slot_place_bytes(m, i), i};
        r->slots_end = range[i].end > r->slots_end ? range[i].end : r->slots_end;
    }
    if (m->slot.n)
        qsort(range, m->slot.n, sizeof *range, by_place);
    for (uint32_t i = 1; i < m->slot.n; i++)
        if (range[i].at < range[i - 1].end)
            return words_refuse(&r->w, "slots %u and %u lie over one another", range[i - 1].slot,
                                range[i].slot);
    return true;
}

// Rests and tails come behind the beginnings of blocks, a tail last of its block.
static bool close_sections(Reader *r, const FuncText *f, Plan *p, Refusal *wrong) {
    uint32_t blocks = p->section.n;
    if (blocks != p->func->blocks) {
        *wrong = (Refusal){str_format(r->w.perm, "launches of %u blocks; the function has %u",
                                      blocks, p->func->blocks),
                           NONE};
        return false;
    }
    for (uint32_t i = 0; i < f->behind.n; i++) {
        const Section *s = &f->behind.at[i];
        bool last = p->tail.n && p->tail.at[p->tail.n - 1].block == s->block;
        if (last || s->tail >= f->tails) {
            *wrong = (Refusal){STR("the rest of a block behind no tail, or behind its own"), NONE};
            return false;
        }
        vec_push(r->w.perm, &p->section, *s);
        if (s->kind == SectionTail)
            vec_push(r->w.perm, &p->tail, ((Tail){.block = s->block, .section = p->section.n - 1}));
    }
    return true;
}

static bool restore(Reader *r, uint32_t index, Refusal *wrong) {
    const Share *s = &r->m->share;
    PassOptions o = {.real = r->out->real,
                     .no_fuse = r->out->unfused,
                     .parallel = {.rank = s->rank, .ranks = s->ranks, .tail = true}};
    FuncText *f = &r->func[index];
    Plan *p = &r->out->plan[index];
    Arena *perm = r->w.perm;
    double model = p->gflop_model;
    if (!regions_restore(perm, &o, f->stored.at, f->stored.n, p, wrong))
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
