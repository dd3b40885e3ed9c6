// print.c - a module as text. In: any module. Out: the lines text.h describes; equal modules print
// equal bytes.
#include "op.h"
#include "text.h"

static void put_quoted(Text *t, Str s) {
    text_char(t, '"');
    for (size_t i = 0; i < s.len; i++) {
        unsigned char c = (unsigned char)s.ptr[i];
        if (c < 0x20 || c == '"' || c == '\\' || c == 0x7F)
            text_fmt(t, "\\x%02x", c);
        else
            text_char(t, (char)c);
    }
    text_char(t, '"');
}

static void put_type(Text *t, const Type *type) {
    text_fmt(t, " %s %s", dtype_name[type->dtype], type_name(type).s);
}

static void put_span(Text *t, Span s) {
    if (s.file)
        text_fmt(t, " span=%u:%u-%u", s.file, s.lo, s.hi);
}

static void put_double(Text *t, double x) {
    text_put(t, str_double(t->arena, x));
}

// --- tables --------------------------------------------------------------------------------------

static void print_stream(Text *t, const Stream *s) {
    text_put(t, STR("stream\n"));
    for (uint32_t i = 0; i < s->field.n; i++) {
        const Field *f = &s->field.at[i];
        Type sample = type_make(false, f->rank, f->dim);
        text_put(t, STR("  field "));
        put_quoted(t, f->name);
        text_fmt(t, " %s %s", field_kind_text[f->kind], type_name(&sample).s);
        text_fmt(t, " classes %lld", (long long)f->classes);
        put_span(t, f->span);
        text_char(t, '\n');
        for (uint32_t k = 0; k < f->xform.n; k++) {
            const Xform *x = &f->xform.at[k];
            text_fmt(t, "    xform %s ", xform_text[x->kind]);
            put_double(t, x->a);
            text_char(t, ' ');
            put_double(t, x->b);
            text_char(t, '\n');
        }
    }
}

static void print_slot(Text *t, const Slot *s) {
    text_fmt(t, "slot %s ", slot_kind_text[s->kind]);
    put_quoted(t, s->name);
    put_type(t, &s->type);
    if (s->net == NONE)
        text_put(t, STR(" net -"));
    else
        text_fmt(t, " net %u", s->net);
    text_fmt(t, " site %u stream %u round %u", s->site, s->stream, s->round);
    put_span(t, s->span);
    text_char(t, '\n');
}

static void print_tables(Text *t, const Module *m) {
    text_put(t, STR("module "));
    put_quoted(t, m->name);
    text_put(t, STR(" doc "));
    put_quoted(t, m->doc);
    text_fmt(t, " batch %lld\n", (long long)m->batch);
    for (uint32_t i = 0; i < m->source.n; i++) {
        text_put(t, STR("source "));
        put_quoted(t, m->source.at[i]);
        text_char(t, '\n');
    }
    for (uint32_t i = 0; i < m->net.n; i++) {
        text_put(t, STR("net "));
        put_quoted(t, m->net.at[i].name);
        if (m->net.at[i].copy_of != NONE)
            text_fmt(t, " = copy %u", m->net.at[i].copy_of);
        if (net_pretrained(m, i)) {
            text_put(t, STR(" < "));
            put_quoted(t, m->net.at[i].file);
            text_char(t, ' ');
            put_quoted(t, m->net.at[i].prefix);
        }
        text_fmt(t, " params %u states %u", m->net.at[i].params, m->net.at[i].states);
        put_span(t, m->net.at[i].span);
        text_char(t, '\n');
    }
    for (uint32_t i = 0; i < m->stream.n; i++)
        print_stream(t, &m->stream.at[i]);
    for (uint32_t i = 0; i < m->site.n; i++) {
        const Site *s = &m->site.at[i];
        text_fmt(t, "site %s", dist_text[s->dist]);
        put_type(t, &s->type);
        if (s->dist == DistCategorical)
            text_fmt(t, " classes %lld", (long long)s->classes);
        text_fmt(t, " func %u block %u", s->func, s->block);
        put_span(t, s->span);
        text_char(t, '\n');
    }
    for (uint32_t i = 0; i < m->slot.n; i++)
        print_slot(t, &m->slot.at[i]);
}

// --- functions -----------------------------------------------------------------------------------

// Which samples a block of a step in parts works on.
static void print_first(Text *t, const Func *f, uint32_t block) {
    if (f->block_first && f->block_first[block])
        text_fmt(t, " from %lld", (long long)f->block_first[block]);
}

static void print_tape(Text *t, const Func *f) {
    for (uint32_t i = 0, depth = 1; i < f->tape.n; i++) {
        const Ctl *c = &f->tape.at[i];
        depth -= c->kind == CtlElse || c->kind == CtlEnd;
        text_fmt(t, "%*s%s", (int)(2 * depth), "", ctl_text[c->kind]);
        if (c->kind == CtlIf)
            text_fmt(t, " %%%u", c->cond);
        else if (c->kind != CtlElse && c->kind != CtlEnd)
            text_fmt(t, " %u", c->arg);
        if (c->kind == CtlBlock)
            print_first(t, f, c->arg);
        text_char(t, '\n');
        depth += c->kind != CtlBlock && c->kind != CtlEnd;
    }
}

static void print_attr(Text *t, Op op, const Attr *a) {
    AttrWalk w = {.rest = str_c(op_info[op].attrs)};
    uint32_t at = 0;
    while (attr_next(&w)) {
        text_fmt(t, "%s%.*s=", at ? " " : " {", SARG(w.name));
        for (uint32_t i = 0; i < w.count && at < a->n; i++, at++) {
            text_put(t, i ? STR(" ") : STR(""));
            if (attr_is_double(w.name))
                put_double(t, bits_to_double(a->i[at]));
            else
                text_fmt(t, "%lld", (long long)a->i[at]);
            w.last = w.list ? w.last : a->i[at];
        }
    }
    text_put(t, at ? STR("}") : STR(""));
}

static void print_node(Text *t, const Graph *g, uint32_t id) {
    const Node *n = graph_node(g, id);
    text_fmt(t, "  %%%u = %s", id, op_info[n->op].text);
    for (uint32_t k = 0; k < n->nin; k++)
        text_fmt(t, "%s%%%u", k ? ", " : " ", node_in(g, id, k));
    print_attr(t, (Op)n->op, node_attr(g, id));
    text_put(t, STR(" :"));
    put_type(t, node_type(g, id));
    text_fmt(t, " @%u", n->block);
    for (uint32_t at = n->span; at; at = g->span.at[at].next) {
        Span s = g->span.at[at].span;
        text_fmt(t, "%s%u:%u-%u", at == n->span ? " span=" : ",", s.file, s.lo, s.hi);
    }
    text_char(t, '\n');
}

static void print_update(Text *t, const Update *u) {
    text_fmt(t, "  update block %u loss %%%u rate ", u->block, u->loss);
    put_double(t, u->rate);
    if (u->until)
        text_fmt(t, " until %u", u->until);
    text_put(t, STR(" nets"));
    for (uint32_t i = 0; i < u->net.n; i++)
        text_fmt(t, " %u", u->net.at[i]);
    text_put(t, STR(" grads"));
    for (uint32_t i = 0; i < u->grad.n; i++)
        text_fmt(t, " %u:%%%u", u->grad.at[i].slot, u->grad.at[i].node);
    for (uint32_t i = 0; i < u->inner.n; i++)
        text_fmt(t, "%s %%%u", i ? "" : " inner", u->inner.at[i]);
    put_span(t, u->span);
    text_char(t, '\n');
}

static void print_named(Text *t, const char *word, const Named *n) {
    text_fmt(t, "  %s ", word);
    put_quoted(t, n->name);
    text_fmt(t, " %%%u block %u\n", n->node, n->block);
}

static void print_func(Text *t, const Func *f) {
    text_put(t, STR("func "));
    put_quoted(t, f->name);
    if (f->block_first)
        text_fmt(t, " batch %lld", (long long)f->g.batch);
    text_char(t, '\n');
    print_tape(t, f);
    for (uint32_t id = 1; id < f->g.node.n; id++)
        print_node(t, &f->g, id);
    for (uint32_t i = 0; i < f->effect.n; i++)
        text_fmt(t, "  effect %%%u\n", f->effect.at[i]);
    for (uint32_t i = 0; i < f->next.n; i++)
        text_fmt(t, "  next stream %u round %u block %u\n", f->next.at[i].stream,
                 f->next.at[i].round, f->next.at[i].block);
    for (uint32_t i = 0; i < f->update.n; i++)
        print_update(t, &f->update.at[i]);
    for (uint32_t i = 0; i < f->report.n; i++)
        print_named(t, "report", &f->report.at[i]);
    for (uint32_t i = 0; i < f->result.n; i++)
        print_named(t, "result", &f->result.at[i]);
    if (f->data.n) {
        text_put(t, STR("  data"));
        for (uint32_t i = 0; i < f->data.n; i++)
            text_fmt(t, " %u", f->data.at[i]);
        text_char(t, '\n');
    }
}

void module_print(Text *t, const Module *m) {
    print_tables(t, m);
    print_func(t, &m->init);
    print_func(t, &m->step);
    for (uint32_t i = 0; i < m->entry.n; i++)
        print_func(t, &m->entry.at[i]);
}
