// read.c - a module from its text (text.h). In: any bytes. Out: a module that passed the verifier,
// or "line N: ..." in the first mistake's words. Nothing is trusted: every number is bounded before
// it sizes or indexes anything, every node passes its shape rule before it is added. Nodes keep
// their numbers, so nothing is simplified or shared.
#include "text.h"
#include "words.h"

#include <string.h>

static const size_t MaxText = (size_t)1 << 28;

typedef struct Reader {
    Words w;
    Module *m;
    Func *f;        // being read, NULL before the first
    uint32_t funcs; // begun so far: init, step, entries
    bool in_parts;  // its blocks are of some of the samples (Func.block_first)
    bool begun;     // the module line was read
} Reader;

// --- nodes ---------------------------------------------------------------------------------------

static bool want_node(Reader *r, uint32_t *out) {
    if (!words_char(&r->w, '%') || !words_index(&r->w, out))
        return false;
    return (*out > 0 && *out < r->f->g.node.n) ||
           words_refuse(&r->w, "%%%u is not an earlier node", *out);
}

// --- tables --------------------------------------------------------------------------------------

static bool read_module(Reader *r) {
    if (r->begun)
        return words_refuse(&r->w, "a second module");
    r->begun = true;
    return words_quoted(&r->w, &r->m->name) && words_word(&r->w, "doc") &&
           words_quoted(&r->w, &r->m->doc) && words_word(&r->w, "batch") &&
           words_int(&r->w, 1, WORDS_EXTENT, &r->m->batch);
}

static bool read_source(Reader *r) {
    Str name;
    if (!words_quoted(&r->w, &name))
        return false;
    vec_push(r->w.perm, &r->m->source, name);
    vec_push(r->w.perm, &r->m->source_text, (Str){0});
    return true;
}

static bool read_net(Reader *r) {
    Net *n = vec_add(r->w.perm, &r->m->net);
    n->copy_of = NONE;
    return words_quoted(&r->w, &n->name) &&
           (!words_try(&r->w, '=') || words_field(&r->w, "copy", &n->copy_of)) &&
           (!words_try(&r->w, '<') ||
            (words_quoted(&r->w, &n->file) && words_quoted(&r->w, &n->prefix))) &&
           words_field(&r->w, "params", &n->params) && words_field(&r->w, "states", &n->states) &&
           words_span(&r->w, &n->span);
}

static bool read_stream(Reader *r) {
    (void)vec_add(r->w.perm, &r->m->stream);
    return true;
}

static bool read_field(Reader *r) {
    if (r->m->stream.n == 0)
        return words_refuse(&r->w, "a field outside a stream");
    Stream *s = &r->m->stream.at[r->m->stream.n - 1];
    Field *f = vec_add(r->w.perm, &s->field);
    uint32_t kind;
    Type sample;
    if (!words_quoted(&r->w, &f->name) || !WORDS_ONE_OF(&r->w, field_kind_text, &kind) ||
        !words_extents(&r->w, false, &sample) || !words_word(&r->w, "classes") ||
        !words_int(&r->w, 0, WORDS_EXTENT, &f->classes) || !words_span(&r->w, &f->span))
        return false;
    f->kind = (FieldKind)kind;
    f->rank = sample.rank;
    memcpy(f->dim, sample.dim, sizeof f->dim);
    return true;
}

static bool read_xform(Reader *r) {
    Stream *s = r->m->stream.n ? &r->m->stream.at[r->m->stream.n - 1] : NULL;
    if (!s || s->field.n == 0)
        return words_refuse(&r->w, "a transform outside a field");
    uint32_t kind;
    Xform x = {0};
    if (!WORDS_ONE_OF(&r->w, xform_text, &kind) || !words_double(&r->w, &x.a) ||
        !words_double(&r->w, &x.b))
        return false;
    x.kind = kind;
    vec_push(r->w.perm, &s->field.at[s->field.n - 1].xform, x);
    return true;
}

static bool read_site(Reader *r) {
    Site *s = vec_add(r->w.perm, &r->m->site);
    uint32_t dist;
    if (!WORDS_ONE_OF(&r->w, dist_text, &dist) || !words_type(&r->w, &s->type))
        return false;
    s->dist = (Dist)dist;
    if (s->dist == DistCategorical &&
        (!words_word(&r->w, "classes") || !words_int(&r->w, 1, WORDS_EXTENT, &s->classes)))
        return false;
    return words_field(&r->w, "func", &s->func) && words_field(&r->w, "block", &s->block) &&
           words_span(&r->w, &s->span);
}

static bool read_slot(Reader *r) {
    Slot *s = vec_add(r->w.perm, &r->m->slot);
    uint32_t kind;
    if (!WORDS_ONE_OF(&r->w, slot_kind_text, &kind) || !words_quoted(&r->w, &s->name) ||
        !words_type(&r->w, &s->type) || !words_word(&r->w, "net"))
        return false;
    s->kind = (SlotKind)kind;
    s->net = NONE;
    return (words_try(&r->w, '-') || words_index(&r->w, &s->net)) &&
           words_field(&r->w, "site", &s->site) && words_field(&r->w, "stream", &s->stream) &&
           words_field(&r->w, "round", &s->round) && words_span(&r->w, &s->span);
}

// --- functions -----------------------------------------------------------------------------------

static bool read_func(Reader *r) {
    uint32_t n = r->funcs++;
    r->f = n == 0 ? &r->m->init : n == 1 ? &r->m->step : vec_add(r->w.perm, &r->m->entry);
    graph_init(&r->f->g, r->w.perm, r->m->batch);
    r->in_parts = false;
    if (!words_quoted(&r->w, &r->f->name) || words_end(&r->w))
        return r->f->name.ptr;
    r->in_parts = true;
    return words_word(&r->w, "batch") && words_int(&r->w, 1, r->m->batch, &r->f->g.batch);
}

// The samples of a block of a step in parts, whose blocks are numbered along the tape.
static bool read_first(Reader *r, uint32_t block) {
    int64_t first = 0;
    if (!words_end(&r->w) &&
        !(words_word(&r->w, "from") && words_int(&r->w, 0, r->m->batch, &first)))
        return false;
    if (block != r->f->blocks - 1)
        return words_refuse(&r->w, "blocks of a step in parts are numbered in order");
    if (!block)
        r->f->block_first = arena_array(r->w.perm, int64_t, MAX_BLOCKS);
    r->f->block_first[block] = first;
    return true;
}

static bool read_ctl(Reader *r, CtlKind kind) {
    Ctl c = {.kind = kind};
    if (kind == CtlIf) {
        // The condition may be printed ahead of its node, so only the verifier can tell whether it
        // is one.
        if (!words_char(&r->w, '%') || !words_index(&r->w, &c.cond))
            return false;
    } else if (kind != CtlElse && kind != CtlEnd && !words_index(&r->w, &c.arg)) {
        return false;
    }
    if (kind == CtlBlock && ++r->f->blocks > MAX_BLOCKS)
        return words_refuse(&r->w, "more than %d blocks", MAX_BLOCKS);
    vec_push(r->w.perm, &r->f->tape, c);
    return kind != CtlBlock || !r->in_parts || read_first(r, c.arg);
}

static bool read_attr_value(Reader *r, Str name, int64_t *out) {
    double x;
    if (!attr_is_double(name))
        return words_int(&r->w, INT64_MIN, INT64_MAX, out);
    if (!words_double(&r->w, &x))
        return false;
    *out = double_to_bits(x);
    return true;
}

// {n=2 stride=2 2 ...}: the names of the op's row, in order.
static bool read_attr(Reader *r, Op op, Attr *out) {
    AttrWalk w = {.rest = str_c(op_info[op].attrs)};
    *out = (Attr){0};
    if (w.rest.len && !words_char(&r->w, '{'))
        return false;
    while (attr_next(&w)) {
        if (!str_eq(words_next(&r->w), w.name) || !words_char(&r->w, '='))
            return words_refuse(&r->w, "expected %.*s=", SARG(w.name));
        for (uint32_t i = 0; i < w.count; i++) {
            if (out->n == MAX_INTS)
                return words_refuse(&r->w, "more than %d attributes", MAX_INTS);
            if (!read_attr_value(r, w.name, &out->i[out->n++]))
                return false;
            w.last = w.list ? w.last : out->i[out->n - 1];
        }
    }
    return op_info[op].attrs[0] == 0 || words_char(&r->w, '}');
}

static bool read_operands(Reader *r, uint32_t in[MAX_IN], uint32_t *n) {
    *n = 0;
    while (words_peek(&r->w) == '%') {
        if (*n == MAX_IN)
            return words_refuse(&r->w, "more than %d operands", MAX_IN);
        if (!want_node(r, &in[(*n)++]))
            return false;
        if (!words_try(&r->w, ','))
            return true;
    }
    return true;
}

static bool add_node(Reader *r, Op op, const uint32_t *in, uint32_t nin, const Attr *attr,
                     const Type *type) {
    Graph *g = &r->f->g;
    Builder raw = {.g = g, .raw = true}; // a pass rebuilds it and simplifies then
    Infer q = {.g = g, .nin = nin, .in = in, .attr = attr, .out = *type};
    if (!graph_check(&q, op))
        return words_refuse(&r->w, "%s: %s", op_info[op].text, q.error);
    if (!type_same_shape(&q.out, type) || q.out.dtype != type->dtype) {
        return words_refuse(&r->w, "%s makes %s %s", op_info[op].text, dtype_name[q.out.dtype],
                            type_text(r->w.perm, &q.out).ptr);
    }
    builder_add(&raw, op, in, nin, attr, type);
    int64_t unique = op == OpPin ? attr->i[0] : op == OpRead ? attr->i[1] : 0;
    if (unique >= g->next_unique && unique < UINT32_MAX)
        g->next_unique = (uint32_t)unique + 1;
    return true;
}

static bool read_node(Reader *r) {
    Graph *g = &r->f->g;
    uint32_t id, nin, block, in[MAX_IN];
    Attr attr;
    Type type;
    if (!words_index(&r->w, &id) || !words_char(&r->w, '='))
        return false;
    if (id != g->node.n)
        return words_refuse(&r->w, "node %%%u should be %%%u", id, g->node.n);
    Str name = words_next(&r->w);
    Op op = op_find(name);
    if (op == OpNone)
        return words_refuse(&r->w, "there is no operation '%.*s'", SARG(name));
    if (!read_operands(r, in, &nin) || !read_attr(r, op, &attr) || !words_char(&r->w, ':') ||
        !words_type(&r->w, &type) || !words_char(&r->w, '@') || !words_index(&r->w, &block) ||
        !add_node(r, op, in, nin, &attr, &type))
        return false;
    g->node.at[id].block = block;
    if (words_end(&r->w))
        return true;
    if (!words_word(&r->w, "span") || !words_char(&r->w, '='))
        return false;
    do {
        Span s;
        if (!words_place(&r->w, &s))
            return false;
        node_add_span(g, id, s);
    } while (words_try(&r->w, ','));
    return true;
}

static bool read_effect(Reader *r) {
    uint32_t id;
    if (!want_node(r, &id))
        return false;
    vec_push(r->w.perm, &r->f->effect, id);
    return true;
}

static bool read_next(Reader *r) {
    Next *n = vec_add(r->w.perm, &r->f->next);
    return words_field(&r->w, "stream", &n->stream) && words_field(&r->w, "round", &n->round) &&
           words_field(&r->w, "block", &n->block);
}

static bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

static bool read_update(Reader *r) {
    Update *u = vec_add(r->w.perm, &r->f->update);
    if (!words_field(&r->w, "block", &u->block) || !words_word(&r->w, "loss") ||
        !want_node(r, &u->loss) || !words_word(&r->w, "rate") || !words_double(&r->w, &u->rate))
        return false;
    if (words_peek(&r->w) == 'u' && !words_field(&r->w, "until", &u->until))
        return false;
    if (!words_word(&r->w, "nets"))
        return false;
    while (is_digit(words_peek(&r->w))) {
        uint32_t net;
        if (!words_index(&r->w, &net))
            return false;
        vec_push(r->w.perm, &u->net, net);
    }
    if (!words_word(&r->w, "grads"))
        return false;
    while (is_digit(words_peek(&r->w))) {
        GradOf d;
        if (!words_index(&r->w, &d.slot) || !words_char(&r->w, ':') || !want_node(r, &d.node))
            return false;
        vec_push(r->w.perm, &u->grad, d);
    }
    if (words_peek(&r->w) == 'i' && !words_word(&r->w, "inner"))
        return false;
    while (words_peek(&r->w) == '%') {
        uint32_t node;
        if (!want_node(r, &node))
            return false;
        vec_push(r->w.perm, &u->inner, node);
    }
    return words_span(&r->w, &u->span);
}

static bool read_named(Reader *r, Named *n) {
    return words_quoted(&r->w, &n->name) && want_node(r, &n->node) &&
           words_field(&r->w, "block", &n->block);
}

static bool read_report(Reader *r) {
    return read_named(r, vec_add(r->w.perm, &r->f->report));
}

static bool read_result(Reader *r) {
    return read_named(r, vec_add(r->w.perm, &r->f->result));
}

static bool read_data(Reader *r) {
    while (!words_end(&r->w)) {
        uint32_t slot;
        if (!words_index(&r->w, &slot))
            return false;
        vec_push(r->w.perm, &r->f->data, slot);
    }
    return true;
}

// --- lines ---------------------------------------------------------------------------------------

typedef struct LineKind {
    const char *word;
    bool in_func;
    bool (*read)(Reader *r);
} LineKind;
// clang-format off
static const LineKind line_kinds[] = {
    {"module", false, read_module}, {"source", false, read_source}, {"net", false, read_net},
    {"stream", false, read_stream}, {"field", false, read_field},   {"xform", false, read_xform},
    {"site", false, read_site},     {"slot", false, read_slot},     {"func", false, read_func},
    {"effect", true, read_effect},  {"update", true, read_update},  {"report", true, read_report},
    {"result", true, read_result},  {"data", true, read_data},      {"next", true, read_next},
};
// clang-format on

static bool read_line(Reader *r) {
    if (words_end(&r->w))
        return true;
    if (words_try(&r->w, '%'))
        return r->f ? read_node(r) : words_refuse(&r->w, "a node outside a function");
    Str w = words_next(&r->w);
    for (uint32_t i = 0; i < sizeof line_kinds / sizeof *line_kinds; i++) {
        const LineKind *k = &line_kinds[i];
        if (str_eq(w, str_c(k->word))) {
            bool placed = k->in_func ? r->f != NULL : r->begun || k->read == read_module;
            return placed ? k->read(r) : words_refuse(&r->w, "'%s' is out of place", k->word);
        }
    }
    for (uint32_t kind = 0; kind < sizeof ctl_text / sizeof *ctl_text; kind++) {
        if (str_eq(w, str_c(ctl_text[kind]))) {
            return r->f ? read_ctl(r, (CtlKind)kind)
                        : words_refuse(&r->w, "'%s' outside a function", ctl_text[kind]);
        }
    }
    return words_refuse(&r->w, "no line begins with '%.*s'", SARG(w));
}

static bool read_lines(Reader *r, Str text) {
    while (words_line(&r->w, &text)) {
        if (!read_line(r))
            return false;
        if (!words_end(&r->w))
            return words_refuse(&r->w, "column %zu: nothing more is expected", r->w.at + 1);
    }
    return r->funcs >= 2 || words_refuse(&r->w, "the text ends before the functions init and step");
}

static void finish(Func *f) {
    f->blocks = f->blocks ? f->blocks : 1;
}

bool module_read(Arena *perm, Str text, Module *out, Str *error) {
    *out = (Module){0};
    Reader r = {.w = {.perm = perm, .error = error}, .m = out};
    if (text.len > MaxText)
        return words_refuse(&r.w, "a text of more than %zu bytes", MaxText);
    if (!read_lines(&r, text))
        return false;
    finish(&out->init);
    finish(&out->step);
    for (uint32_t i = 0; i < out->entry.n; i++)
        finish(&out->entry.at[i]);
    Str wrong;
    if (!module_verify(out, perm, &wrong))
        return words_refuse(&r.w, "%.*s", SARG(wrong));
    return true;
}
