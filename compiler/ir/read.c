// read.c - a module from its text (text.h). In: any bytes. Out: a module that passed the verifier,
// or "line N: ..." in the first mistake's words. Nothing is trusted: every number is bounded before
// it sizes or indexes anything, every node passes its shape rule before it is added. Nodes keep
// their numbers, so nothing is simplified or shared.
#include "text.h"

#include <string.h>

enum { MAX_BLOCKS = 4096, MAX_OPERANDS = 64 };
static const int64_t MaxExtent = INT32_MAX;
static const size_t MaxText = (size_t)1 << 28;

typedef struct Reader {
    Arena *perm;
    Module *m;
    Func *f;        // being read, NULL before the first
    uint32_t funcs; // begun so far: init, step, entries
    Str line;
    size_t at;       // in line
    uint32_t number; // of the line, from 1
    bool begun;      // the module line was read
    Str *error;
} Reader;

static bool refuse(Reader *r, const char *format, ...) {
    va_list args;
    va_start(args, format);
    Str what = str_vformat(r->perm, format, args);
    va_end(args);
    *r->error = str_format(r->perm, "line %u: %.*s", r->number, SARG(what));
    return false;
}

// --- words ---------------------------------------------------------------------------------------

static char peek(Reader *r) {
    while (r->at < r->line.len && r->line.ptr[r->at] == ' ') {
        r->at++;
    }
    return r->at < r->line.len ? r->line.ptr[r->at] : 0;
}

static bool at_end(Reader *r) {
    return peek(r) == 0 && r->at >= r->line.len;
}

static bool try_char(Reader *r, char c) {
    if (peek(r) != c || at_end(r)) {
        return false;
    }
    r->at++;
    return true;
}

static bool want_char(Reader *r, char c) {
    return try_char(r, c) || refuse(r, "expected '%c' at column %zu", c, r->at + 1);
}

static bool is_word(char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
}

static Str word(Reader *r) {
    peek(r);
    size_t from = r->at;
    while (r->at < r->line.len && is_word(r->line.ptr[r->at])) {
        r->at++;
    }
    return str_sub(r->line, from, r->at);
}

static bool want_word(Reader *r, const char *text) {
    return str_eq(word(r), str_c(text)) ||
           refuse(r, "expected '%s' before column %zu", text, r->at + 1);
}

// One of `text[n]`; its index in *out.
static bool want_one_of(Reader *r, const char *const *text, uint32_t n, uint32_t *out) {
    Str w = word(r);
    for (*out = 0; *out < n; ++*out) {
        if (str_eq(w, str_c(text[*out]))) {
            return true;
        }
    }
    return refuse(r, "'%.*s' is not known here", SARG(w));
}
#define WANT_ONE_OF(r, table, out) want_one_of((r), (table), sizeof(table) / sizeof *(table), (out))

static Str number_text(Reader *r) {
    peek(r);
    size_t from = r->at;
    while (r->at < r->line.len) {
        char c = r->line.ptr[r->at];
        bool sign = c == '-' && (r->at == from || r->line.ptr[r->at - 1] == 'e');
        if (!sign && !is_word(c) && c != '.' && c != '+') {
            break;
        }
        r->at++;
    }
    return str_sub(r->line, from, r->at);
}

static bool want_double(Reader *r, double *out) {
    Str s = number_text(r);
    return str_to_double(s, out) || refuse(r, "'%.*s' is no number", SARG(s));
}

static bool want_int(Reader *r, int64_t least, int64_t most, int64_t *out) {
    Str s = number_text(r);
    if (!str_to_int(s, out)) {
        return refuse(r, "'%.*s' is no whole number", SARG(s));
    }
    return (*out >= least && *out <= most) || refuse(r, "%lld is out of range", (long long)*out);
}

static bool want_index(Reader *r, uint32_t *out) {
    int64_t x = 0;
    bool ok = want_int(r, 0, UINT32_MAX - 1, &x);
    *out = (uint32_t)x;
    return ok;
}

// "name 12"
static bool want_field(Reader *r, const char *name, uint32_t *out) {
    return want_word(r, name) && want_index(r, out);
}

static bool want_node(Reader *r, uint32_t *out) {
    if (!want_char(r, '%') || !want_index(r, out)) {
        return false;
    }
    return (*out > 0 && *out < r->f->g.node.n) || refuse(r, "%%%u is not an earlier node", *out);
}

static int hex_digit(char c) {
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool want_quoted(Reader *r, Str *out) {
    Text t = {.arena = r->perm};
    if (!want_char(r, '"')) {
        return false;
    }
    while (r->at < r->line.len && r->line.ptr[r->at] != '"') {
        char c = r->line.ptr[r->at++];
        if (c == '\\') {
            int hi = r->at + 2 < r->line.len ? hex_digit(r->line.ptr[r->at + 1]) : -1;
            int lo = r->at + 2 < r->line.len ? hex_digit(r->line.ptr[r->at + 2]) : -1;
            if (hi < 0 || lo < 0 || r->line.ptr[r->at] != 'x') {
                return refuse(r, "a backslash without xHH");
            }
            c = (char)(hi * 16 + lo);
            r->at += 3;
        }
        text_char(&t, c);
    }
    *out = text_str(&t);
    return want_char(r, '"');
}

// "1:10-20"
static bool want_place(Reader *r, Span *s) {
    return want_index(r, &s->file) && want_char(r, ':') && want_index(r, &s->lo) &&
           want_char(r, '-') && want_index(r, &s->hi);
}

// " span=1:10-20", or nothing.
static bool maybe_span(Reader *r, Span *s) {
    *s = (Span){0};
    return at_end(r) || (want_word(r, "span") && want_char(r, '=') && want_place(r, s));
}

static bool want_extents(Reader *r, bool may_batch, bool *batched, uint32_t *rank,
                         int64_t dim[MAX_RANK]) {
    *rank = 0;
    *batched = false;
    if (!want_char(r, '[')) {
        return false;
    }
    if (try_char(r, ']')) {
        return true;
    }
    if (may_batch && try_char(r, 'B')) {
        *batched = true;
        if (!try_char(r, ',')) {
            return want_char(r, ']');
        }
    }
    do {
        if (*rank == MAX_RANK) {
            return refuse(r, "more than %d axes", MAX_RANK);
        }
        if (!want_int(r, 1, MaxExtent, &dim[(*rank)++])) {
            return false;
        }
    } while (try_char(r, ','));
    return want_char(r, ']');
}

static bool want_type(Reader *r, Type *out) {
    uint32_t dtype, rank;
    *out = (Type){0};
    if (!WANT_ONE_OF(r, dtype_name, &dtype) ||
        !want_extents(r, true, &out->batched, &rank, out->dim)) {
        return false;
    }
    out->dtype = (uint8_t)dtype;
    out->rank = (uint8_t)rank;
    return true;
}

// --- tables --------------------------------------------------------------------------------------

static bool read_module(Reader *r) {
    if (r->begun) {
        return refuse(r, "a second module");
    }
    r->begun = true;
    return want_quoted(r, &r->m->name) && want_word(r, "doc") && want_quoted(r, &r->m->doc) &&
           want_word(r, "batch") && want_int(r, 1, MaxExtent, &r->m->batch);
}

static bool read_source(Reader *r) {
    Str name;
    if (!want_quoted(r, &name)) {
        return false;
    }
    vec_push(r->perm, &r->m->source, name);
    vec_push(r->perm, &r->m->source_text, (Str){0});
    return true;
}

static bool read_net(Reader *r) {
    Net *n = vec_add(r->perm, &r->m->net);
    return want_quoted(r, &n->name) && want_field(r, "params", &n->params) &&
           want_field(r, "states", &n->states) && maybe_span(r, &n->span);
}

static bool read_stream(Reader *r) {
    (void)vec_add(r->perm, &r->m->stream);
    return true;
}

static bool read_field(Reader *r) {
    if (r->m->stream.n == 0) {
        return refuse(r, "a field outside a stream");
    }
    Stream *s = &r->m->stream.at[r->m->stream.n - 1];
    Field *f = vec_add(r->perm, &s->field);
    uint32_t kind;
    bool batched;
    if (!want_quoted(r, &f->name) || !WANT_ONE_OF(r, field_kind_text, &kind) ||
        !want_extents(r, false, &batched, &f->rank, f->dim) || !want_word(r, "classes") ||
        !want_int(r, 0, MaxExtent, &f->classes) || !maybe_span(r, &f->span)) {
        return false;
    }
    f->kind = (FieldKind)kind;
    return true;
}

static bool read_xform(Reader *r) {
    Stream *s = r->m->stream.n ? &r->m->stream.at[r->m->stream.n - 1] : NULL;
    if (!s || s->field.n == 0) {
        return refuse(r, "a transform outside a field");
    }
    uint32_t kind;
    Xform x = {0};
    if (!WANT_ONE_OF(r, xform_text, &kind) || !want_double(r, &x.a) || !want_double(r, &x.b)) {
        return false;
    }
    x.kind = kind;
    vec_push(r->perm, &s->field.at[s->field.n - 1].xform, x);
    return true;
}

static bool read_site(Reader *r) {
    Site *s = vec_add(r->perm, &r->m->site);
    uint32_t dist;
    if (!WANT_ONE_OF(r, dist_text, &dist) || !want_type(r, &s->type) ||
        !want_field(r, "func", &s->func) || !want_field(r, "block", &s->block) ||
        !maybe_span(r, &s->span)) {
        return false;
    }
    s->dist = (Dist)dist;
    return true;
}

static bool read_slot(Reader *r) {
    Slot *s = vec_add(r->perm, &r->m->slot);
    uint32_t kind;
    if (!WANT_ONE_OF(r, slot_kind_text, &kind) || !want_quoted(r, &s->name) ||
        !want_type(r, &s->type) || !want_word(r, "net")) {
        return false;
    }
    s->kind = (SlotKind)kind;
    s->net = NONE;
    return (try_char(r, '-') || want_index(r, &s->net)) && want_field(r, "site", &s->site) &&
           want_field(r, "stream", &s->stream) && want_field(r, "round", &s->round) &&
           maybe_span(r, &s->span);
}

// --- functions -----------------------------------------------------------------------------------

static bool read_func(Reader *r) {
    uint32_t n = r->funcs++;
    r->f = n == 0 ? &r->m->init : n == 1 ? &r->m->step : vec_add(r->perm, &r->m->entry);
    graph_init(&r->f->g, r->perm, r->m->batch);
    r->f->g.raw = true;
    return want_quoted(r, &r->f->name);
}

static bool read_ctl(Reader *r, CtlKind kind) {
    Ctl c = {.kind = kind};
    if (kind == CtlIf) {
        // The condition may be printed ahead of its node, so only the verifier can tell whether it
        // is one.
        if (!want_char(r, '%') || !want_index(r, &c.cond)) {
            return false;
        }
    } else if (kind != CtlElse && kind != CtlEnd && !want_index(r, &c.arg)) {
        return false;
    }
    if (kind == CtlBlock && ++r->f->blocks > MAX_BLOCKS) {
        return refuse(r, "more than %d blocks", MAX_BLOCKS);
    }
    vec_push(r->perm, &r->f->tape, c);
    return true;
}

static bool read_attr_value(Reader *r, Str name, int64_t *out) {
    double x;
    if (!attr_is_double(name)) {
        return want_int(r, INT64_MIN, INT64_MAX, out);
    }
    if (!want_double(r, &x)) {
        return false;
    }
    memcpy(out, &x, sizeof x);
    return true;
}

// {n=2 stride=2 2 ...}: the names of the op's row, in order.
static bool read_attr(Reader *r, Op op, Attr *out) {
    AttrWalk w = {.rest = str_c(op_info[op].attrs)};
    *out = (Attr){0};
    if (w.rest.len && !want_char(r, '{')) {
        return false;
    }
    while (attr_next(&w)) {
        if (!str_eq(word(r), w.name) || !want_char(r, '=')) {
            return refuse(r, "expected %.*s=", SARG(w.name));
        }
        for (uint32_t i = 0; i < w.count; i++) {
            if (out->n == MAX_INTS) {
                return refuse(r, "more than %d attributes", MAX_INTS);
            }
            if (!read_attr_value(r, w.name, &out->i[out->n++])) {
                return false;
            }
            w.last = w.list ? w.last : out->i[out->n - 1];
        }
    }
    return op_info[op].attrs[0] == 0 || want_char(r, '}');
}

static bool read_operands(Reader *r, uint32_t in[MAX_OPERANDS], uint32_t *n) {
    *n = 0;
    while (peek(r) == '%') {
        if (*n == MAX_OPERANDS) {
            return refuse(r, "more than %d operands", MAX_OPERANDS);
        }
        if (!want_node(r, &in[(*n)++])) {
            return false;
        }
        if (!try_char(r, ',')) {
            return true;
        }
    }
    return true;
}

static bool add_node(Reader *r, Op op, const uint32_t *in, uint32_t nin, const Attr *attr,
                     const Type *type) {
    Graph *g = &r->f->g;
    Infer q = {.g = g, .nin = nin, .in = in, .attr = attr, .out = *type};
    if (!graph_check(&q, op)) {
        return refuse(r, "%s: %s", op_info[op].text, q.error);
    }
    if (!type_same_shape(&q.out, type) || q.out.dtype != type->dtype) {
        return refuse(r, "%s makes %s %s", op_info[op].text, dtype_name[q.out.dtype],
                      type_text(r->perm, &q.out).ptr);
    }
    graph_add(g, op, in, nin, attr, type);
    int64_t unique = op == OpPin ? attr->i[0] : op == OpRead ? attr->i[1] : 0;
    if (unique >= g->next_unique && unique < UINT32_MAX) {
        g->next_unique = (uint32_t)unique + 1;
    }
    return true;
}

static bool read_node(Reader *r) {
    Graph *g = &r->f->g;
    uint32_t id, nin, block, in[MAX_OPERANDS];
    Attr attr;
    Type type;
    if (!want_index(r, &id) || !want_char(r, '=')) {
        return false;
    }
    if (id != g->node.n) {
        return refuse(r, "node %%%u should be %%%u", id, g->node.n);
    }
    Str name = word(r);
    Op op = op_find(name);
    if (op == OpNone) {
        return refuse(r, "there is no operation '%.*s'", SARG(name));
    }
    if (!read_operands(r, in, &nin) || !read_attr(r, op, &attr) || !want_char(r, ':') ||
        !want_type(r, &type) || !want_char(r, '@') || !want_index(r, &block) ||
        !add_node(r, op, in, nin, &attr, &type)) {
        return false;
    }
    g->node.at[id].block = block;
    if (at_end(r)) {
        return true;
    }
    if (!want_word(r, "span") || !want_char(r, '=')) {
        return false;
    }
    do {
        Span s;
        if (!want_place(r, &s)) {
            return false;
        }
        node_add_span(g, id, s);
    } while (try_char(r, ','));
    return true;
}

static bool read_effect(Reader *r) {
    uint32_t id;
    if (!want_node(r, &id)) {
        return false;
    }
    vec_push(r->perm, &r->f->effect, id);
    return true;
}

static bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

static bool read_update(Reader *r) {
    Update *u = vec_add(r->perm, &r->f->update);
    if (!want_field(r, "block", &u->block) || !want_word(r, "loss") || !want_node(r, &u->loss) ||
        !want_word(r, "rate") || !want_double(r, &u->rate) || !want_word(r, "nets")) {
        return false;
    }
    while (is_digit(peek(r))) {
        uint32_t net;
        if (!want_index(r, &net)) {
            return false;
        }
        vec_push(r->perm, &u->net, net);
    }
    if (!want_word(r, "grads")) {
        return false;
    }
    while (is_digit(peek(r))) {
        GradOf d;
        if (!want_index(r, &d.slot) || !want_char(r, ':') || !want_node(r, &d.node)) {
            return false;
        }
        vec_push(r->perm, &u->grad, d);
    }
    return maybe_span(r, &u->span);
}

static bool read_named(Reader *r, Named *n) {
    return want_quoted(r, &n->name) && want_node(r, &n->node) && want_field(r, "block", &n->block);
}

static bool read_report(Reader *r) {
    return read_named(r, vec_add(r->perm, &r->f->report));
}

static bool read_result(Reader *r) {
    return read_named(r, vec_add(r->perm, &r->f->result));
}

static bool read_data(Reader *r) {
    while (!at_end(r)) {
        uint32_t slot;
        if (!want_index(r, &slot)) {
            return false;
        }
        vec_push(r->perm, &r->f->data, slot);
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
    {"result", true, read_result},  {"data", true, read_data},
};
// clang-format on

static bool read_line(Reader *r) {
    if (at_end(r)) {
        return true;
    }
    if (try_char(r, '%')) {
        return r->f ? read_node(r) : refuse(r, "a node outside a function");
    }
    Str w = word(r);
    for (uint32_t i = 0; i < sizeof line_kinds / sizeof *line_kinds; i++) {
        const LineKind *k = &line_kinds[i];
        if (str_eq(w, str_c(k->word))) {
            bool placed = k->in_func ? r->f != NULL : r->begun || k->read == read_module;
            return placed ? k->read(r) : refuse(r, "'%s' is out of place", k->word);
        }
    }
    for (uint32_t kind = 0; kind < sizeof ctl_text / sizeof *ctl_text; kind++) {
        if (str_eq(w, str_c(ctl_text[kind]))) {
            return r->f ? read_ctl(r, (CtlKind)kind)
                        : refuse(r, "'%s' outside a function", ctl_text[kind]);
        }
    }
    return refuse(r, "no line begins with '%.*s'", SARG(w));
}

static bool read_lines(Reader *r, Str text) {
    for (size_t at = 0; at < text.len;) {
        Str rest = str_sub(text, at, text.len);
        r->line = str_sub(rest, 0, str_find(rest, '\n'));
        r->at = 0;
        r->number++;
        at += r->line.len + 1;
        if (!read_line(r)) {
            return false;
        }
        if (!at_end(r)) {
            return refuse(r, "column %zu: nothing more is expected", r->at + 1);
        }
    }
    return r->funcs >= 2 || refuse(r, "the text ends before the functions init and step");
}

static void finish(Func *f) {
    f->blocks = f->blocks ? f->blocks : 1;
    f->g.raw = false; // later passes rebuild it and simplify then
}

bool module_read(Arena *perm, Str text, Module *out, Str *error) {
    *out = (Module){0};
    Reader r = {.perm = perm, .m = out, .error = error};
    if (text.len > MaxText) {
        return refuse(&r, "a text of more than %zu bytes", MaxText);
    }
    if (!read_lines(&r, text)) {
        return false;
    }
    finish(&out->init);
    finish(&out->step);
    for (uint32_t i = 0; i < out->entry.n; i++) {
        finish(&out->entry.at[i]);
    }
    Str wrong;
    if (!module_verify(out, *perm, &wrong)) {
        char copy[512]; // the verifier's words lie in memory that is free again
        snprintf(copy, sizeof copy, "%.*s", SARG(wrong));
        return refuse(&r, "%s", copy);
    }
    return true;
}
