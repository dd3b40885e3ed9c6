// lsp_look.c - what stands at a position of a document.
//
// In: a tree, perhaps with holes, and a byte offset. Out: the names in scope there and where they
// are bound. The tree is walked in the order of elaboration up to the offset. Values come from
// elaboration (elab/facts.c); those it did not get to, because of an error, from the document's
// last text without errors, for lines that are still there.
#include "lsp.h"

// --- places --------------------------------------------------------------------------------------

static const Source *source_of(const Look *k) {
    return &k->f.source.at[k->source - 1];
}

static uint32_t units_of(unsigned char lead) { // of UTF-16, of the character this byte begins
    return (lead & 0xC0) == 0x80 ? 0 : lead >= 0xF0 ? 2 : 1;
}

uint32_t look_offset(const Look *k, int64_t line, int64_t column) {
    const Source *s = source_of(k);
    if (line < 0)
        return 0;
    if (line >= s->line.n)
        return (uint32_t)s->text.len;
    uint32_t at = s->line.at[line];
    uint32_t end = at + (uint32_t)source_line(s, (uint32_t)line + 1).len;
    for (int64_t units = 0; at < end; at++) {
        uint32_t n = units_of((unsigned char)s->text.ptr[at]);
        if (n && units >= column)
            break;
        units += n;
    }
    return at;
}

static void put_position(const Look *k, JsonOut *j, const char *name, uint32_t at) {
    const Source *s = source_of(k);
    if (at > s->text.len)
        at = (uint32_t)s->text.len;
    uint32_t line = source_line_col(s, at).line - 1, units = 0;
    for (uint32_t i = s->line.at[line]; i < at; i++)
        units += units_of((unsigned char)s->text.ptr[i]);
    json_member_open(j, name, '{');
    json_member_int(j, "line", line);
    json_member_int(j, "character", units);
    json_close(j, '}');
}

void look_range(const Look *k, JsonOut *j, Span span) {
    json_open(j, '{');
    put_position(k, j, "start", span.lo);
    put_position(k, j, "end", span.hi > span.lo ? span.hi : span.lo);
    json_close(j, '}');
}

static bool is_name(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

Span look_word(const Look *k, uint32_t at) {
    Str t = source_of(k)->text;
    uint32_t lo = at < t.len ? at : (uint32_t)t.len, hi = lo;
    while (lo > 0 && is_name(t.ptr[lo - 1]))
        lo--;
    while (hi < t.len && is_name(t.ptr[hi]))
        hi++;
    return (Span){k->source, lo, hi};
}

static Str text_of(const Look *k, Span s) {
    return str_sub(source_of(k)->text, s.lo, s.hi);
}

// Where what stands at `at` stood in the text before; file 0: its line is new.
static Span span_before(const Look *k, Span at) {
    uint32_t line = k->before ? source_line_col(source_of(k), at.lo).line : 0;
    if (!line || !k->kept[line])
        return (Span){0};
    uint32_t from = source_of(k->before)->line.at[k->kept[line] - 1],
             in_line = at.lo - source_of(k)->line.at[line - 1];
    return (Span){k->before->source, from + in_line, from + in_line + at.hi - at.lo};
}

// The nearest offset of the text before: in the same line, or at the end of the next one above that
// is still there.
static uint32_t offset_before(const Look *k, uint32_t at) {
    Span same = span_before(k, (Span){k->source, at, at});
    uint32_t line = source_line_col(source_of(k), at).line;
    if (same.file)
        return same.lo;
    while (line && !k->kept[line])
        line--;
    const Source *s = source_of(k->before);
    uint32_t last = k->kept[line];
    return last ? s->line.at[last - 1] + (uint32_t)source_line(s, last).len : 0;
}

typedef struct Worth { // the values or shapes of a name
    Str text;
    bool old; // in the text before
} Worth;

static Worth worth_at(const Look *k, Span at) {
    Str now = fact_find(&k->f, at);
    Span before = now.len ? (Span){0} : span_before(k, at);
    Str then = before.file ? fact_find(&k->before->f, before) : (Str){0};
    return then.len ? (Worth){then, true} : (Worth){now, false};
}

// --- names ---------------------------------------------------------------------------------------

typedef struct Known {
    Str name;
    Span at;
    const Ast *by; // what binds it
} Known;
typedef struct Scan {
    Arena *perm;
    uint32_t file, at;
    VEC(Known) known;
    bool done;
} Scan;

static bool holds(const Scan *s, Span span) {
    return span.file == s->file && span.lo <= s->at && s->at <= span.hi;
}

static void bind(Scan *s, const Ast *by, Str name, Span at) {
    if (name.len)
        vec_push(s->perm, &s->known, ((Known){name, at, by}));
}

static void scan(Scan *s, const Ast *a);

static void scan_list(Scan *s, const Ast *a) {
    for (uint32_t i = 0; a && i < a->list.n && !s->done; i++)
        scan(s, a->list.at[i]);
}

// Names that a statement binds by `=`, `for` or a comprehension.
static void bind_targets(Scan *s, const Ast *a) {
    for (uint32_t i = 0; i < a->list.n && !s->done; i++) {
        const Ast *target = a->list.at[i];
        if (!target || (target->kind != AstName && target->kind != AstRest))
            continue;
        bind(s, a, target->text, target->span);
        s->done = holds(s, target->span);
    }
}

static void bind_params(Scan *s, const Ast *params) {
    for (uint32_t i = 0; params && i < params->list.n && !s->done; i++) {
        const Ast *p = params->list.at[i];
        if (!p)
            continue;
        scan(s, p->a);
        scan(s, p->b);
        if (s->done)
            return;
        bind(s, p, p->text, p->word);
        s->done = holds(s, p->word);
    }
}

static void scan_function(Scan *s, const Ast *a) {
    uint32_t outside = s->known.n;
    bind_params(s, a->a);
    bind_params(s, a->b);
    if (a->kind != AstSample)
        scan_list(s, a);
    scan(s, a->c);
    if (!s->done)
        s->known.n = outside;
}

static void scan_statements(Scan *s, const Ast *a) {
    for (uint32_t i = 0; i < a->list.n && !s->done; i++) {
        const Ast *one = a->list.at[i];
        if (!one)
            continue;
        if (one->span.file == s->file && one->span.lo > s->at) { // the byte lies in between
            s->done = true;
            return;
        }
        scan(s, one);
    }
}

static void bind_top(Scan *s, const Ast *a) {
    switch (a->kind) {
    case AstConfig:
    case AstFn:
    case AstNet:
        bind(s, a, a->text, a->word);
        return;
    case AstData:
        for (uint32_t i = 0; i < a->list.n; i++)
            bind(s, a->list.at[i], a->list.at[i]->text, a->list.at[i]->word);
        return;
    case AstBind:
    case AstHole:
        for (uint32_t i = 0; i < a->list.n; i++)
            bind(s, a, a->list.at[i]->text, a->list.at[i]->span);
        return;
    case AstState:
    case AstParam:
        bind(s, a, a->text, a->word);
        return;
    default:
        return;
    }
}

static void scan_children(Scan *s, const Ast *a) {
    scan(s, a->a);
    scan(s, a->b);
    scan_list(s, a);
    scan(s, a->c);
}

static void scan_comprehension(Scan *s, const Ast *a) {
    uint32_t outside = s->known.n;
    scan(s, a->b);
    if (!s->done)
        bind_targets(s, a);
    scan(s, a->a ? a->a : a->c);
    if (!s->done)
        s->known.n = outside;
}

// Goes on from what is known before `a` to what is known behind it, or at the byte, inside.
static void scan(Scan *s, const Ast *a) {
    if (!a || s->done)
        return;
    switch (a->kind) {
    case AstFile: // functions may be used before their text; a later binding hides an earlier one
        for (uint32_t i = 0; i < a->list.n; i++)
            if (a->list.at[i])
                bind_top(s, a->list.at[i]);
        scan_list(s, a);
        return;
    case AstName:
        s->done = holds(s, a->span);
        return;
    case AstFn:
        if (holds(s, a->word))
            s->done = true;
        bind(s, a, a->text, a->word);
        scan_function(s, a);
        return;
    case AstNet:
    case AstSample:
        scan_function(s, a);
        return;
    case AstBind:
        scan(s, a->c);
        if (!s->done)
            bind_targets(s, a);
        return;
    case AstParam:
    case AstState:
        scan(s, a->a);
        scan(s, a->c);
        if (s->done)
            return;
        bind(s, a, a->text, a->word);
        s->done = holds(s, a->word);
        return;
    case AstFor:
        scan(s, a->a);
        if (!s->done)
            bind_targets(s, a);
        scan(s, a->c);
        return;
    case AstComp:
        scan_comprehension(s, a);
        return;
    case AstBlock:
        scan_statements(s, a);
        return;
    case AstHole:
        bind_targets(s, a);
        return;
    default:
        scan_children(s, a);
        return;
    }
}

static Scan names_at(Look *k, uint32_t at) {
    Scan s = {.perm = k->f.perm, .file = k->source, .at = at};
    scan(&s, k->file);
    return s;
}

static const Known *find_known(const Scan *s, Str name) {
    for (uint32_t i = s->known.n; i-- > 0;)
        if (str_eq(s->known.at[i].name, name))
            return &s->known.at[i];
    return NULL;
}

static const Ast *find_library(const Look *k, Str name) {
    for (uint32_t i = 0; i < k->f.library.n; i++)
        for (uint32_t n = 0; n < k->f.library.at[i]->list.n; n++) {
            const Ast *a = k->f.library.at[i]->list.at[n];
            if (a->kind == AstFn && str_eq(a->text, name))
                return a;
        }
    return NULL;
}

// A word of a data field, as the `known` of m : known(x), is no function of that name.
static bool is_data_word(const Look *k, Span word) {
    for (uint32_t i = 0; k->file && i < k->file->list.n; i++) {
        const Ast *data = k->file->list.at[i];
        for (uint32_t n = 0; data && data->kind == AstData && n < data->list.n; n++) {
            const Ast *field = data->list.at[n];
            for (uint32_t w = 0; field && w < field->list.n; w++)
                if (field->list.at[w] && field->list.at[w]->span.lo == word.lo)
                    return true;
        }
    }
    return false;
}

bool look_definition(Look *k, Span word, Span *out) {
    Scan s = names_at(k, word.lo);
    const Known *known = is_data_word(k, word) ? NULL : find_known(&s, text_of(k, word));
    if (known)
        *out = known->at;
    return known && known->at.file == k->source;
}

// --- hover ---------------------------------------------------------------------------------------

// "conv(channels, k, stride=1)": what stands between the name and the body, on one line.
static Str head_of(Look *k, const Ast *a) {
    const Source *s = &k->f.source.at[a->word.file - 1];
    uint32_t end = a->c ? a->c->span.lo : a->span.hi;
    Str head = str_sub(s->text, a->word.lo, end);
    Text t = {.arena = k->f.perm};
    for (size_t i = 0; i < head.len; i++)
        if (head.ptr[i] == '\n' || head.ptr[i] == '\r')
            break;
        else
            text_char(&t, head.ptr[i]);
    while (t.n && (t.at[t.n - 1] == ' ' || t.at[t.n - 1] == '=' || t.at[t.n - 1] == '{'))
        t.n--;
    return text_str(&t);
}

// The lines of comment right above a function of the library.
static Str comment_above(const Look *k, const Ast *a) {
    const Source *s = &k->f.source.at[a->span.file - 1];
    uint32_t end = source_line_col(s, a->span.lo).line, line = end;
    while (line > 1 && str_starts(source_line(s, line - 1), STR("# ")))
        line--;
    Text t = {.arena = k->f.perm};
    for (; line < end; line++) {
        Str text = source_line(s, line);
        text_fmt(&t, "%.*s\n", SARG(str_sub(text, 2, text.len)));
    }
    return text_str(&t);
}

static bool is_function(const Ast *a) {
    return a->kind == AstFn || (a->kind == AstNet && a->a);
}

static const char of_before[] = "of the last text without errors\n";

static void hover_value(Text *t, Str name, Worth w) {
    text_fmt(t, "```\n%.*s%s%.*s\n```\n%s", SARG(name), w.text.len ? ": " : "", SARG(w.text),
             w.old ? of_before : "");
}

static void hover_known(Look *k, Text *t, const Known *known, Worth worth) {
    const Ast *by = known->by;
    const char *kind = by->kind == AstNet ? "net " : by->kind == AstFn ? "fn " : "";
    if (is_function(by))
        text_fmt(t, "```\n%s%.*s\n```\n", kind, SARG(head_of(k, by)));
    else
        hover_value(t, known->name, worth);
    if (by->kind == AstConfig && by->a)
        text_fmt(t, "%.*s\n", SARG(by->a->text));
}

static void put_params(Text *t, Str params) { // "x axes? keep?" as "(x, axes?, keep?)"
    text_char(t, '(');
    for (size_t i = 0; i < params.len; i++)
        if (params.ptr[i] == ' ')
            text_put(t, STR(", "));
        else
            text_char(t, params.ptr[i]);
    text_char(t, ')');
}

static bool find_word(Str name, WordInfo *out) {
    for (uint32_t i = 0; word_info(i, out); i++)
        if (str_eq(out->name, name))
            return true;
    return false;
}

// What binds it does not parse.
static void hover_before(const Look *k, Text *t, Span before) {
    Str then = look_hover(k->before, before);
    text_fmt(t, "%.*s%s", SARG(then), then.len ? of_before : "");
}

Str look_hover(Look *k, Span word) {
    Text t = {.arena = k->f.perm};
    Str name = text_of(k, word);
    Span before = span_before(k, word);
    Worth worth = worth_at(k, word);
    WordInfo info;
    if (is_data_word(k, word))
        return (Str){0};
    Scan s = names_at(k, word.lo);
    const Known *known = find_known(&s, name);
    const Ast *library = known ? NULL : find_library(k, name);
    if (known && !worth.text.len) // not evaluated there: what it is bound to
        worth = worth_at(k, known->at);
    if (known && known->by->kind == AstHole && before.file) {
        hover_before(k, &t, before);
    } else if (known) {
        hover_known(k, &t, known, worth);
    } else if (library) {
        text_fmt(&t, "```\n%.*s\n```\n%.*s", SARG(head_of(k, library)),
                 SARG(comment_above(k, library)));
    } else if (find_word(name, &info) && info.kind == WordFunction) {
        text_fmt(&t, "```\n%.*s", SARG(name));
        put_params(&t, info.params);
        text_fmt(&t, "\n```\n%.*s\n", SARG(info.doc));
    } else if (worth.text.len) {
        hover_value(&t, name, worth);
    } else if (before.file) {
        hover_before(k, &t, before);
    }
    return text_str(&t);
}

// --- completion ----------------------------------------------------------------------------------

typedef enum Kind { KindMethod = 2, KindField = 5, KindVariable = 6, KindClass = 7 } Kind;
enum { ItemFunction = 3, ItemProperty = 10, ItemKeyword = 14 };

static void put_item(JsonOut *j, Str name, int kind, Str detail) {
    json_open(j, '{');
    json_member_str(j, "label", name);
    json_member_int(j, "kind", kind);
    if (detail.len)
        json_member_str(j, "detail", detail);
    json_close(j, '}');
}

static bool offered(Arena *perm, Map *seen, Str name) {
    uint64_t hash = hash64(name.ptr, name.len, 0);
    bool before = map_find(seen, hash) != 0;
    map_put(perm, seen, hash, 1);
    return before;
}

// `lost`: those that text binds which does not parse, or the others.
static void complete_known(Look *k, Scan s, bool lost, Map *seen, JsonOut *j) {
    for (uint32_t i = s.known.n; i-- > 0;) {
        const Known *one = &s.known.at[i];
        if ((one->by->kind == AstHole) != lost || offered(k->f.perm, seen, one->name))
            continue;
        int kind = one->by->kind == AstNet     ? KindClass
                   : one->by->kind == AstFn    ? ItemFunction
                   : one->by->kind == AstField ? KindField
                                               : KindVariable;
        put_item(j, one->name, kind,
                 is_function(one->by) ? head_of(k, one->by) : worth_at(k, one->at).text);
    }
}

void look_completion(Look *k, uint32_t at, JsonOut *j) {
    static const int kinds[] = {[WordReserved] = ItemKeyword,
                                [WordItem] = ItemKeyword,
                                [WordValue] = KindVariable,
                                [WordData] = ItemKeyword,
                                [WordFunction] = ItemFunction};
    WordInfo info;
    Map seen = {0};
    json_open(j, '[');
    complete_known(k, names_at(k, at), false, &seen, j);
    if (k->before && !k->parsed)
        complete_known(k->before, names_at(k->before, offset_before(k, at)), false, &seen, j);
    complete_known(k, names_at(k, at), true, &seen, j);
    for (uint32_t i = 0; i < k->f.library.n; i++)
        for (uint32_t n = 0; n < k->f.library.at[i]->list.n; n++) {
            const Ast *a = k->f.library.at[i]->list.at[n];
            if (a->kind == AstFn && !offered(k->f.perm, &seen, a->text))
                put_item(j, a->text, ItemFunction, head_of(k, a));
        }
    for (uint32_t i = 0; word_info(i, &info); i++)
        put_item(j, info.name, kinds[info.kind], info.doc);
    for (uint32_t i = 0; k->yaml && yaml_key(i).len; i++)
        put_item(j, yaml_key(i), ItemProperty, (Str){0});
    json_close(j, ']');
}

// --- symbols -------------------------------------------------------------------------------------

static void put_symbol(Look *k, JsonOut *j, Str name, int kind, Span whole, Span word) {
    if (!name.len || whole.file != k->source)
        return;
    if (word.file != k->source || word.lo < whole.lo || word.hi > whole.hi)
        word = whole; // the protocol wants the one inside the other
    json_open(j, '{');
    json_member_str(j, "name", name);
    json_member_int(j, "kind", kind);
    json_name(j, "range");
    look_range(k, j, whole);
    json_name(j, "selectionRange");
    look_range(k, j, word);
    json_close(j, '}');
}

static void put_item_symbols(Look *k, JsonOut *j, const Ast *a) {
    // The protocol's SymbolKind; a Member is its Field.
    enum { Class = 5, Member = 8, Function = 12, Variable = 13, Constant = 14, Event = 24 };
    switch (a->kind) {
    case AstConfig:
        put_symbol(k, j, a->text, Constant, a->span, a->word);
        return;
    case AstData:
        for (uint32_t i = 0; i < a->list.n; i++)
            put_symbol(k, j, a->list.at[i]->text, Member, a->list.at[i]->span, a->list.at[i]->word);
        return;
    case AstFn:
        put_symbol(k, j, a->text, Function, a->span, a->word);
        return;
    case AstNet:
        put_symbol(k, j, a->text, Class, a->span, a->word);
        return;
    case AstStep:
        put_symbol(k, j, STR("step"), Event, a->span, a->word);
        return;
    case AstStages:
        put_symbol(k, j, STR("stages"), Event, a->span, a->word);
        return;
    case AstSample:
        put_symbol(k, j, a->text, Function, a->span, a->word);
        return;
    case AstBind:
        for (uint32_t i = 0; i < a->list.n; i++)
            put_symbol(k, j, a->list.at[i]->text, Variable, a->span, a->list.at[i]->span);
        return;
    case AstState:
        put_symbol(k, j, a->text, Variable, a->span, a->word);
        return;
    default:
        return;
    }
}

void look_symbols(Look *k, JsonOut *j) {
    json_open(j, '[');
    for (uint32_t i = 0; k->file && i < k->file->list.n; i++)
        if (k->file->list.at[i])
            put_item_symbols(k, j, k->file->list.at[i]);
    json_close(j, ']');
}
