// func.c - queries about functions that passes and devices share: what is observed and which nodes
// are live, which blocks dominate which, where slots and the lines of the text are.
#include "program.h"

static void observe(Arena *a, ObservedVec *out, uint32_t node, uint32_t block, const char *what) {
    if (node)
        vec_push(a, out, ((Observed){node, block, what}));
}

void func_observed(Arena *a, const Func *f, bool grads, ObservedVec *out) {
    for (uint32_t i = 0; i < f->tape.n; i++)
        observe(a, out, f->tape.at[i].cond, NONE, "a condition");
    for (uint32_t i = 0; i < f->update.n; i++) {
        const Update *u = &f->update.at[i];
        observe(a, out, u->loss, NONE, "a loss");
        for (uint32_t k = 0; grads && k < u->grad.n; k++)
            observe(a, out, u->grad.at[k].node, u->block, "a gradient");
    }
    for (uint32_t i = 0; i < f->report.n; i++)
        observe(a, out, f->report.at[i].node, NONE, "a report");
    for (uint32_t i = 0; i < f->result.n; i++)
        observe(a, out, f->result.at[i].node, NONE, "a result");
}

uint8_t *func_roots(Arena *a, const Func *f) {
    uint8_t *root = arena_array(a, uint8_t, f->g.node.n);
    ObservedVec seen = {0};
    func_observed(a, f, true, &seen);
    for (uint32_t i = 0; i < f->effect.n; i++)
        root[f->effect.at[i]] = 1;
    for (uint32_t i = 0; i < seen.n; i++)
        root[seen.at[i].node] = 1;
    return root;
}

uint8_t *func_live(Arena *a, const Func *f) {
    uint8_t *live = func_roots(a, f);
    graph_spread(&f->g, live);
    return live;
}

// --- which blocks dominate which -----------------------------------------------------------------

uint32_t *blocks_scope_end(Arena *a, const Func *f, bool past_repeats) {
    typedef struct Scope {
        CtlKind kind;
        uint32_t first; // block
    } Scope;
    Scope open[MAX_SCOPES];
    uint32_t blocks = f->blocks ? f->blocks : 1, next = 0, depth = 0;
    uint32_t *end = arena_array(a, uint32_t, blocks);
    for (uint32_t b = 0; b < blocks; b++)
        end[b] = blocks;
    for (uint32_t i = 0; i < f->tape.n; i++) {
        CtlKind kind = f->tape.at[i].kind;
        if (kind == CtlBlock) {
            next++;
        } else if (kind == CtlElse || kind == CtlEnd) {
            Scope *s = &open[depth - 1];
            for (uint32_t b = s->first; b < next && !(s->kind == CtlRepeat && past_repeats); b++)
                end[b] = end[b] == blocks ? next : end[b]; // else a scope within has ended it
            s->first = next;
            depth -= kind == CtlEnd;
        } else {
            if (depth == MAX_SCOPES)
                bug("scopes nest deeper than %d", MAX_SCOPES);
            open[depth++] = (Scope){kind, next};
        }
    }
    return end;
}

// They are where the tape between them has the else of a scope that encloses both.
bool blocks_exclude(const Func *f, uint32_t a, uint32_t b) {
    enum { NOWHERE = 1 };
    int depth = 0, around = 0, other = NOWHERE; // scopes, counted from the first block's: the
                                                // one at hand, around both, whose else came
    for (uint32_t i = 0, met = 0; i < f->tape.n && met < 2 && a != b; i++) {
        const Ctl *c = &f->tape.at[i];
        met += c->kind == CtlBlock && (c->arg == a || c->arg == b);
        if (!met || c->kind == CtlBlock)
            continue;
        if (c->kind == CtlElse)
            other = depth == around ? depth : other;
        else
            depth += c->kind == CtlEnd ? -1 : 1;
        around = depth < around ? depth : around;
        other = other > around ? NOWHERE : other;
    }
    return other != NOWHERE;
}

size_t slot_value_at(const Plan *p, uint32_t id) {
    const Type *t = node_type(&p->func->g, id);
    size_t offset = p->module->slot.at[node_slot(&p->func->g, id)].offset;
    if (!t->batched || !p->func->block_first)
        return offset;
    int64_t before = p->func->block_first[graph_node(&p->func->g, id)->block];
    return offset + (size_t)(before * type_sample(t)) * dtype_size[t->dtype];
}

bool slot_outlives(const Slot *s) {
    return s->kind == SlotParam || s->kind == SlotState || s->kind == SlotOpt ||
           s->kind == SlotScale;
}

bool net_pretrained(const Module *m, uint32_t net) {
    return net < m->net.n && m->net.at[net].file.len > 0;
}

bool slot_saved(const Module *m, const Slot *s) {
    return slot_outlives(s) && !net_pretrained(m, s->net);
}

uint32_t func_gradient(const Func *f, uint32_t node, uint32_t *slot) {
    for (uint32_t u = 0; u < f->update.n; u++)
        for (uint32_t k = 0; k < f->update.at[u].grad.n; k++)
            if (f->update.at[u].grad.at[k].node == node) {
                *slot = f->update.at[u].grad.at[k].slot;
                return u;
            }
    return NONE;
}

Str update_name(Arena *a, const Module *m, const Update *u) {
    Text t = {.arena = a};
    for (uint32_t i = 0; i < u->net.n; i++)
        text_fmt(&t, "%s%.*s", i ? "+" : "", SARG(m->net.at[u->net.at[i]].name));
    return text_str(&t);
}

uint32_t func_block(const Func *f, uint32_t block) {
    uint32_t first = f->block_of ? 0 : block;
    while (f->block_of && f->block_of[first] != block)
        first++;
    return first;
}

bool func_reads(const Func *f, uint32_t slot) {
    for (uint32_t i = 1; i < f->g.node.n; i++)
        for (uint32_t k = 0; k < graph_node(&f->g, i)->nin; k++) {
            uint32_t in = node_in(&f->g, i, k);
            if (graph_node(&f->g, in)->op == OpRead && node_slot(&f->g, in) == slot)
                return true;
        }
    return false;
}

// --- source lines --------------------------------------------------------------------------------

Str model_text(const Module *m, Span s) {
    Str text = m && s.file && s.file <= m->source_text.n ? m->source_text.at[s.file - 1] : (Str){0};
    uint32_t lo = s.lo < text.len ? s.lo : (uint32_t)text.len;
    if (!text.len)
        return (Str){0};
    while (lo > 0 && text.ptr[lo - 1] != '\n')
        lo--;
    while (lo < text.len && text.ptr[lo] == ' ')
        lo++;
    Str rest = str_sub(text, lo, text.len);
    return str_sub(rest, 0, str_find(rest, '\n'));
}

bool model_line(const Module *m, Span s, SourceLine *out) {
    Str text = model_text(m, s);
    if (!text.ptr)
        return false;
    *out = (SourceLine){path_base(m->source.at[s.file - 1]), 1, text};
    for (const char *c = m->source_text.at[s.file - 1].ptr; c < text.ptr; c++)
        out->number += *c == '\n';
    return true;
}
