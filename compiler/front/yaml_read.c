// yaml_read.c - in: a YAML source. Out: its one document as a tree with byte spans, or NULL after
// one diagnostic. libyaml's event parser does the reading. A text of [ ] or { } that a comma within
// its parentheses ended is reported, and whole again in the tree. Refused: anchors, aliases, tags,
// further documents, tabs in the indentation, a key given twice. libyaml counts code points; spans
// here are bytes.
#include "yaml_tree.h"

#include <yaml.h>

enum { MAX_DEPTH = 64 };

typedef struct Reader {
    Front *f;
    uint32_t file;
    Str text;
    yaml_parser_t parser;
    yaml_event_t event; // the current one; deleted before the next
    size_t points;      // a place in the text: code points before it,
    uint32_t bytes;     // and bytes
    bool failed;
} Reader;

static uint32_t byte_of(Reader *r, size_t points) {
    if (points < r->points)
        r->points = r->bytes = 0;
    while (r->points < points && r->bytes < r->text.len) {
        do
            r->bytes++;
        while (r->bytes < r->text.len && ((unsigned char)r->text.ptr[r->bytes] & 0xC0) == 0x80);
        r->points++;
    }
    return r->bytes;
}

static Span event_span(Reader *r) {
    uint32_t lo = byte_of(r, r->event.start_mark.index);
    return (Span){r->file, lo, byte_of(r, r->event.end_mark.index)};
}

static size_t indentation(Str line) {
    size_t n = 0;
    while (n < line.len && line.ptr[n] == ' ')
        n++;
    return n;
}

static bool is_blank(Str line) {
    size_t n = indentation(line);
    return n == line.len || line.ptr[n] == '#' || line.ptr[n] == '\r';
}

// How far lines are indented that the one at `place`, itself by `here`, is most likely to belong
// to: either by `outer`, or as the least of those before it, back to one by `outer` or less.
static size_t neighbours(Str text, size_t place, size_t here, size_t outer) {
    size_t least = SIZE_MAX, lo = place;
    while (lo > 0 && text.ptr[lo - 1] != '\n')
        lo--;
    while (lo > 0) {
        size_t hi = --lo;
        while (lo > 0 && text.ptr[lo - 1] != '\n')
            lo--;
        Str line = str_sub(text, lo, hi);
        if (!is_blank(line) && indentation(line) <= outer)
            break;
        if (!is_blank(line) && indentation(line) < least)
            least = indentation(line);
    }
    bool inner = here > outer && least != SIZE_MAX &&
                 (least > here ? least - here : here - least) < here - outer;
    return inner ? least : outer;
}

static bool is_model_text(Str text) {
    while (text.len) {
        Str line = str_sub(text, 0, str_find(text, '\n'));
        if (!is_blank(line))
            return str_starts(line, STR("model "));
        text = str_sub(text, line.len + 1, text.len);
    }
    return false;
}

// The reader's words are about its rules; most often a line is indented by too much or too little,
// or an entry of a list lacks its dash.
static void help_layout(Reader *r, uint32_t place) {
    const yaml_parser_t *p = &r->parser;
    const char *context = p->context ? p->context : "";
    size_t here = p->problem_mark.column, others = p->context_mark.column;
    bool block = !strcmp(context, "while parsing a block mapping") ||
                 !strcmp(context, "while parsing a block collection");
    bool dash = str_starts(str_sub(r->text, place, r->text.len), STR("- "));
    if (is_model_text(r->text))
        diag_help(r->f, "this is a model's text: its file is named FILE.gan");
    else if (dash)
        diag_help(r->f, "every entry of a list begins with `- `, the line before this one too");
    else if (block && here != others)
        diag_help(r->f, "indent it by %zu, as its neighbours are, not by %zu",
                  neighbours(r->text, place, here, others), here);
}

static void advance(Reader *r) {
    if (r->failed)
        return;
    yaml_event_delete(&r->event);
    if (yaml_parser_parse(&r->parser, &r->event))
        return;
    r->event.type = YAML_NO_EVENT;
    r->failed = true;
    uint32_t place = byte_of(r, r->parser.problem_mark.index);
    const char *problem = r->parser.problem ? r->parser.problem : "out of memory";
    diag(r->f, DiagE0200, (Span){r->file, place, place}, problem);
    help_layout(r, place);
    if (!r->parser.context || r->parser.context_mark.index == r->parser.problem_mark.index)
        return;
    uint32_t since = byte_of(r, r->parser.context_mark.index);
    diag_note(r->f, (Span){r->file, since, since}, "%s", r->parser.context);
}

static const char by_name[] = "write the value out, or give it a name under `let`";

static void refuse(Reader *r, const char *what, const char *help) {
    if (!r->failed) {
        diag(r->f, DiagE0204, event_span(r), what);
        diag_help(r->f, "%s", help);
    }
    r->failed = true;
}

static bool check_plain(Reader *r, const yaml_char_t *anchor, const yaml_char_t *tag) {
    if (anchor)
        refuse(r, "anchors", by_name);
    else if (tag)
        refuse(r, "tags", "take it out: a value is what its text says");
    return !r->failed;
}

// Where the scalar's text stands: in place if the file has it letter for letter, else in a source
// of its own.
static void find_source(Reader *r, Yaml *y, yaml_scalar_style_t style) {
    Span s = y->span;
    if (y->quoted)
        s.lo++, s.hi--;
    if (y->literal) { // the block without its header line
        while (s.lo < s.hi && r->text.ptr[s.lo++] != '\n')
            continue;
        y->source = s;
        return;
    }
    Str there = str_sub(r->text, s.lo, s.hi);
    bool folded = style == YAML_PLAIN_SCALAR_STYLE; // on several lines, it reads the same
    if (str_eq(there, y->text) || folded) {
        y->source = s;
        return;
    }
    const Source *source = &r->f->source.at[r->file - 1];
    Str name = str_format(r->f->perm, "%.*s (line %u)", SARG(source->name),
                          source_line_col(source, s.lo).line);
    y->source = (Span){front_add_source(r->f, name, y->text, false), 0, (uint32_t)y->text.len};
    r->failed = r->failed || !y->source.file;
}

static Yaml *read_text(Reader *r, Yaml *y) {
    yaml_scalar_style_t style = r->event.data.scalar.style;
    if (!check_plain(r, r->event.data.scalar.anchor, r->event.data.scalar.tag))
        return NULL;
    y->text = str_copy(
        r->f->perm, (Str){(const char *)r->event.data.scalar.value, r->event.data.scalar.length});
    y->literal = style == YAML_LITERAL_SCALAR_STYLE;
    y->quoted =
        style == YAML_SINGLE_QUOTED_SCALAR_STYLE || style == YAML_DOUBLE_QUOTED_SCALAR_STYLE;
    find_source(r, y, style);
    advance(r);
    return r->failed ? NULL : y;
}

// Of [ ] or { }: a part of a text, up to a comma within its parentheses.
static bool is_cut(const Yaml *y) {
    int open = 0;
    for (size_t i = 0; i < y->text.len; i++)
        open += (y->text.ptr[i] == '(') - (y->text.ptr[i] == ')');
    return y->kind == YamlText && !y->quoted && open > 0;
}

static void report_cut(Reader *r, const Yaml *y) {
    if (is_cut(y))
        diag(r->f, DiagE0209, y->span, SARG(y->text));
}

static void extend(Reader *r, Yaml *y, uint32_t hi) {
    y->span.hi = hi;
    y->text = str_sub(r->text, y->span.lo, hi);
    y->source = y->span;
}

static Yaml *read_node(Reader *r, uint32_t depth);

static void add_item(Reader *r, Yaml *list, Yaml *item) {
    Yaml *before = list->item.n ? list->item.at[list->item.n - 1] : NULL;
    if (list->flow && before && is_cut(before)) {
        extend(r, before, item->span.hi);
        return;
    }
    if (list->flow)
        report_cut(r, item);
    vec_push(r->f->perm, &list->item, item);
}

static Yaml *read_list(Reader *r, Yaml *y, uint32_t depth) {
    y->kind = YamlList;
    y->flow = r->event.data.sequence_start.style == YAML_FLOW_SEQUENCE_STYLE;
    check_plain(r, r->event.data.sequence_start.anchor, r->event.data.sequence_start.tag);
    for (advance(r); !r->failed && r->event.type != YAML_SEQUENCE_END_EVENT;) {
        Yaml *item = read_node(r, depth + 1);
        if (item)
            add_item(r, y, item);
    }
    y->span.hi = event_span(r).hi;
    advance(r);
    return r->failed ? NULL : y;
}

static void check_new(Reader *r, const Yaml *map, const Yaml *key) {
    for (uint32_t i = 0; i < map->pair.n; i++) {
        if (!str_eq(map->pair.at[i].key->text, key->text))
            continue;
        diag(r->f, DiagE0202, key->span, SARG(key->text));
        diag_note(r->f, map->pair.at[i].key->span, "it is given here first");
        r->failed = true;
    }
}

// A key before the comma goes on in the next one, and has its value.
static bool joins(Reader *r, Yaml *map, const YamlPair *next) {
    YamlPair *before = map->flow && map->pair.n ? &map->pair.at[map->pair.n - 1] : NULL;
    if (!before)
        return false;
    bool valued = before->value->kind != YamlText || before->value->text.len;
    Yaml *part = valued ? before->value : before->key;
    if (!is_cut(part))
        return false;
    bool whole = next->value->kind == YamlText && !next->value->text.len;
    extend(r, part, valued && !whole ? next->value->span.hi : next->key->span.hi);
    if (!valued)
        before->value = next->value;
    return true;
}

static void add_pair(Reader *r, Yaml *map, YamlPair pair) {
    if (joins(r, map, &pair))
        return;
    check_new(r, map, pair.key);
    if (map->flow) {
        report_cut(r, pair.key);
        report_cut(r, pair.value);
    }
    vec_push(r->f->perm, &map->pair, pair);
}

static Yaml *read_map(Reader *r, Yaml *y, uint32_t depth) {
    y->kind = YamlMap;
    y->flow = r->event.data.mapping_start.style == YAML_FLOW_MAPPING_STYLE;
    check_plain(r, r->event.data.mapping_start.anchor, r->event.data.mapping_start.tag);
    for (advance(r); !r->failed && r->event.type != YAML_MAPPING_END_EVENT;) {
        Yaml *key = read_node(r, depth + 1);
        if (!key)
            return NULL;
        if (key->kind != YamlText) {
            diag(r->f, DiagE0203, key->span, "a text as key",
                 key->kind == YamlMap ? "a mapping" : "a list");
            r->failed = true;
            return NULL;
        }
        YamlPair pair = {key, read_node(r, depth + 1)};
        if (pair.value)
            add_pair(r, y, pair);
    }
    y->span.hi = event_span(r).hi;
    advance(r);
    return r->failed ? NULL : y;
}

static Yaml *read_node(Reader *r, uint32_t depth) {
    if (r->failed)
        return NULL;
    Yaml *y = arena_new(r->f->perm, Yaml);
    y->span = event_span(r);
    if (depth > MAX_DEPTH) {
        diag(r->f, DiagE0105, y->span);
        r->failed = true;
        return NULL;
    }
    if (r->event.type == YAML_SCALAR_EVENT)
        return read_text(r, y);
    if (r->event.type == YAML_SEQUENCE_START_EVENT)
        return read_list(r, y, depth);
    if (r->event.type == YAML_MAPPING_START_EVENT)
        return read_map(r, y, depth);
    refuse(r, "aliases", by_name);
    return NULL;
}

static Yaml *read_document(Reader *r) {
    advance(r); // the stream's start
    advance(r);
    if (r->failed)
        return NULL;
    if (r->event.type == YAML_STREAM_END_EVENT) {
        diag(r->f, DiagE0203, (Span){r->file, 0, 0}, "a model", "an empty file");
        return NULL;
    }
    advance(r);
    Yaml *y = read_node(r, 0);
    advance(r); // past the document's end
    if (!r->failed && r->event.type != YAML_STREAM_END_EVENT)
        refuse(r, "files of several documents", "keep one model in a file");
    return r->failed ? NULL : y;
}

static bool has_tab_indent(const Reader *r, Span *out) {
    const Source *s = &r->f->source.at[r->file - 1];
    for (uint32_t line = 0; line < s->line.n; line++) {
        uint32_t i = s->line.at[line];
        while (i < s->text.len && s->text.ptr[i] == ' ')
            i++;
        if (i >= s->text.len || s->text.ptr[i] != '\t')
            continue;
        *out = (Span){r->file, i, i + 1};
        return true;
    }
    return false;
}

Yaml *yaml_read(Front *f, uint32_t source) {
    Reader r = {.f = f, .file = source, .text = f->source.at[source - 1].text};
    Span tab;
    if (has_tab_indent(&r, &tab)) {
        diag(f, DiagE0205, tab);
        return NULL;
    }
    if (!yaml_parser_initialize(&r.parser)) {
        diag(f, DiagE0200, (Span){source, 0, 0}, "out of memory");
        return NULL;
    }
    yaml_parser_set_encoding(&r.parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&r.parser, (const unsigned char *)(r.text.len ? r.text.ptr : ""),
                                 r.text.len);
    Yaml *y = read_document(&r);
    yaml_event_delete(&r.event);
    yaml_parser_delete(&r.parser);
    return y;
}
