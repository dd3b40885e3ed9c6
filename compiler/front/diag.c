// diag.c - in: diagnostics, as they are found. Out: the first twenty errors and twenty warnings,
// sorted by place, as text with the line and a caret, or as JSON in rustc's format. There is one
// error per place: a second one is a follow-up and is dropped. A mistake that elaboration meets in
// several places is one diagnostic: repetitions of its message become notes.
#include "front.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_KEPT = 20, MAX_WIDTH = 120, MAX_REPEATS = 2, MAX_NOTES = 8 };

typedef enum Severity { severity_error, severity_warning } Severity;

typedef struct Row {
    const char *code;
    Severity severity;
    const char *message, *help, *explain;
} Row;

static const Row row_of[DiagCount] = {
#define DIAG(Code, severity, message, help, explain)                                               \
    {#Code, severity_##severity, message, help, explain},
#include "diags.def"
#undef DIAG
};

typedef struct Diag {
    DiagCode code;
    Span span;
    Str message, help;
    VEC(DiagNote) note;
    uint32_t repeats; // other places it was met at
} Diag;

struct Diags {
    VEC(Diag) kept;
    uint32_t count[2], more; // all of each severity; how many were not kept
    bool open;               // the newest was kept: notes and help go to it
};

static Severity severity_of(const Diag *d) {
    return row_of[d->code].severity;
}

static bool keep(const struct Diags *all, DiagCode code, Span span) {
    if (all->count[row_of[code].severity] > MAX_KEPT)
        return false;
    for (uint32_t i = 0; i < all->kept.n; i++) {
        const Diag *d = &all->kept.at[i];
        if (severity_of(d) == row_of[code].severity && span.file && d->span.file == span.file &&
            d->span.lo == span.lo)
            return false;
    }
    return true;
}

// The same mistake, met by elaboration before. A syntax error is a mistake of its place alone.
static Diag *said_before(struct Diags *all, DiagCode code, Str message) {
    for (uint32_t i = 0; code >= DiagE0301 && i < all->kept.n; i++)
        if (all->kept.at[i].code == code && str_eq(all->kept.at[i].message, message))
            return &all->kept.at[i];
    return NULL;
}

static void note_again(Front *f, Diag *d, Span span) {
    for (uint32_t i = 0; i < d->note.n; i++)
        if (d->note.at[i].span.file == span.file && d->note.at[i].span.lo == span.lo)
            return;
    if (d->repeats++ < MAX_REPEATS)
        vec_push(f->perm, &d->note, ((DiagNote){span, STR("and the same here")}));
}

void diag(Front *f, DiagCode code, Span span, ...) {
    if (!f->diags)
        f->diags = arena_new(f->perm, struct Diags);
    struct Diags *all = f->diags;
    va_list args;
    va_start(args, span);
    Diag d = {.code = code, .span = span, .help = str_c(row_of[code].help)};
    d.message = str_vformat(f->perm, row_of[code].message, args);
    va_end(args);
    uint32_t *count = &all->count[row_of[code].severity];
    ++*count;
    all->open = keep(all, code, span);
    Diag *before = all->open ? said_before(all, code, d.message) : NULL;
    if (before) {
        --*count;
        all->open = false;
        note_again(f, before, span);
        return;
    }
    if (!all->open) {
        if (*count > MAX_KEPT)
            all->more++;
        else
            --*count; // a follow-up, no mistake of its own
        return;
    }
    vec_push(f->perm, &all->kept, d);
}

bool diag_open(const Front *f) {
    return f->diags && f->diags->open;
}

void diag_note(Front *f, Span span, const char *format, ...) {
    if (!diag_open(f))
        return;
    va_list args;
    va_start(args, format);
    DiagNote n = {span, str_vformat(f->perm, format, args)};
    va_end(args);
    Diag *newest = &f->diags->kept.at[f->diags->kept.n - 1];
    for (uint32_t i = 0; i < newest->note.n; i++) { // two operands of one origin
        Span s = newest->note.at[i].span;
        if (s.file == span.file && s.lo == span.lo && str_eq(newest->note.at[i].text, n.text))
            return;
    }
    if (newest->note.n < MAX_NOTES) // in the middle of forty loops
        vec_push(f->perm, &newest->note, n);
}

uint32_t diag_mark(const Front *f) {
    return f->diags ? f->diags->kept.n : 0;
}

void diag_note_since(Front *f, uint32_t mark, Span span, Str text) {
    for (uint32_t i = mark; f->diags && i < f->diags->kept.n; i++)
        vec_push(f->perm, &f->diags->kept.at[i].note, ((DiagNote){span, text}));
}

void diag_help(Front *f, const char *format, ...) {
    if (!diag_open(f))
        return;
    va_list args;
    va_start(args, format);
    f->diags->kept.at[f->diags->kept.n - 1].help = str_vformat(f->perm, format, args);
    va_end(args);
}

uint32_t diag_errors(const Front *f) {
    return f->diags ? f->diags->count[severity_error] : 0;
}
uint32_t diag_total(const Front *f) {
    return f->diags ? f->diags->count[severity_error] + f->diags->count[severity_warning] : 0;
}

void diag_help_known(Front *f, Str word, const Str *known, uint32_t n, const char *what) {
    Str near = diag_open(f) ? str_nearest(word, known, n) : (Str){0};
    Text all = {.arena = f->perm};
    if (near.len)
        diag_help(f, "did you mean `%.*s`?", SARG(near));
    if (near.len || !n || !diag_open(f))
        return;
    for (uint32_t i = 0; i < n; i++)
        text_fmt(&all, "%s%.*s", i ? ", " : "", SARG(known[i]));
    diag_help(f, "%s are: %.*s", what, SARG(text_str(&all)));
}

// --- as text -------------------------------------------------------------------------------------

static int by_place(const void *a, const void *b) {
    const Diag *x = *(const Diag *const *)a, *y = *(const Diag *const *)b;
    if (x->span.file != y->span.file)
        return x->span.file < y->span.file ? -1 : 1;
    if (x->span.lo != y->span.lo)
        return x->span.lo < y->span.lo ? -1 : 1;
    return (x > y) - (x < y); // as they came: they lie in one array
}

static const Diag **sorted(Front *f) {
    uint32_t n = f->diags->kept.n;
    const Diag **order = arena_array(f->perm, const Diag *, n);
    for (uint32_t i = 0; i < n; i++)
        order[i] = &f->diags->kept.at[i];
    qsort(order, n, sizeof *order, by_place);
    return order;
}

// A window of a long line that shows byte `at`; moves *lo to where it begins.
static Str clip(Str line, size_t at, size_t *lo) {
    if (line.len <= MAX_WIDTH)
        return line;
    *lo = at > MAX_WIDTH / 2 ? at - MAX_WIDTH / 2 : 0;
    size_t hi = *lo + MAX_WIDTH < line.len ? *lo + MAX_WIDTH : line.len;
    while (*lo > 0 && ((unsigned char)line.ptr[*lo] & 0xC0) == 0x80)
        --*lo;
    while (hi < line.len && ((unsigned char)line.ptr[hi] & 0xC0) == 0x80)
        hi++;
    return str_sub(line, *lo, hi);
}

static void put_line(Text *t, const Source *s, Span span, const char *tint, const char *plain) {
    LineCol at = source_line_col(s, span.lo);
    Str line = source_line(s, at.line);
    size_t from = span.lo - s->line.at[at.line - 1], to = span.hi - s->line.at[at.line - 1], lo = 0;
    Str shown = clip(line, from, &lo);
    if (!line.len)
        return;
    text_fmt(t, "%4u | ", at.line);
    text_put(t, shown);
    text_fmt(t, "\n     | ");
    for (size_t i = lo; i < from && i < line.len; i++)
        if (line.ptr[i] == '\t')
            text_char(t, '\t'); // the same tab moves the caret as far
        else if (((unsigned char)line.ptr[i] & 0xC0) != 0x80)
            text_char(t, ' ');
    uint32_t carets =
        str_code_points(str_sub(line, from, to < lo + shown.len ? to : lo + shown.len));
    text_fmt(t, "%s^", tint);
    for (uint32_t i = 1; i < carets; i++)
        text_char(t, '^');
    text_fmt(t, "%s\n", plain);
}

static void put_place(Text *t, const Front *f, Span span) {
    if (!span.file)
        return;
    const Source *s = &f->source.at[span.file - 1];
    LineCol at = source_line_col(s, span.lo);
    text_fmt(t, "%.*s:%u:%u: ", SARG(s->name), at.line, at.col);
}

static void put_diag(Text *t, const Front *f, const Diag *d, bool color) {
    static const char *const name[] = {"error", "warning"};
    static const char *const tints[] = {"\033[1;31m", "\033[1;33m"};
    const char *tint = color ? tints[severity_of(d)] : "", *plain = color ? "\033[0m" : "";
    put_place(t, f, d->span);
    text_fmt(t, "%s%s[%s]%s: %.*s\n", tint, name[severity_of(d)], row_of[d->code].code, plain,
             SARG(d->message));
    if (d->span.file)
        put_line(t, &f->source.at[d->span.file - 1], d->span, tint, plain);
    const char *blue = color ? "\033[1;36m" : "";
    for (uint32_t i = 0; i < d->note.n; i++) {
        const DiagNote *n = &d->note.at[i];
        put_place(t, f, n->span);
        text_fmt(t, "%snote%s: %.*s\n", blue, plain, SARG(n->text));
        if (n->span.file)
            put_line(t, &f->source.at[n->span.file - 1], n->span, blue, plain);
    }
    if (d->help.len)
        text_fmt(t, "%shelp%s: %.*s\n", blue, plain, SARG(d->help));
}

void diag_render(Text *t, Front *f, bool color) {
    if (!f->diags)
        return;
    const Diag **order = sorted(f);
    for (uint32_t i = 0; i < f->diags->kept.n; i++) {
        if (i)
            text_char(t, '\n');
        put_diag(t, f, order[i], color);
    }
    if (f->diags->more)
        text_fmt(t, "\nand %u more\n", f->diags->more);
}

const DiagView *diag_list(Front *f, uint32_t *n) {
    *n = f->diags ? f->diags->kept.n : 0;
    if (!*n)
        return NULL;
    const Diag **order = sorted(f);
    DiagView *list = arena_array(f->perm, DiagView, *n);
    for (uint32_t i = 0; i < *n; i++) {
        const Diag *d = order[i];
        list[i] = (DiagView){.code = row_of[d->code].code,
                             .error = severity_of(d) == severity_error,
                             .span = d->span,
                             .message = d->message,
                             .help = d->help,
                             .note = d->note.at,
                             .notes = d->note.n};
    }
    return list;
}

// --- as JSON -------------------------------------------------------------------------------------

static void json_span(JsonOut *j, const Front *f, Span span) {
    const Source *s = &f->source.at[span.file - 1];
    LineCol lo = source_line_col(s, span.lo), hi = source_line_col(s, span.hi);
    Str line = source_line(s, lo.line);
    uint32_t last = hi.line == lo.line ? hi.col : str_code_points(line) + 1;
    json_open(j, '{');
    json_member_str(j, "file_name", s->name);
    json_member_int(j, "byte_start", span.lo);
    json_member_int(j, "byte_end", span.hi);
    json_member_int(j, "line_start", lo.line);
    json_member_int(j, "line_end", hi.line);
    json_member_int(j, "column_start", lo.col);
    json_member_int(j, "column_end", hi.col);
    json_member_bool(j, "is_primary", true);
    json_member_open(j, "text", '[');
    json_open(j, '{');
    json_member_str(j, "text", line);
    json_member_int(j, "highlight_start", lo.col);
    json_member_int(j, "highlight_end", last);
    json_close(j, '}');
    json_close(j, ']');
    json_close(j, '}');
}

static void json_spans(JsonOut *j, const Front *f, Span span) {
    json_member_open(j, "spans", '[');
    if (span.file)
        json_span(j, f, span);
    json_close(j, ']');
}

static void json_child(JsonOut *j, const Front *f, const char *level, Str message, Span span) {
    json_open(j, '{');
    json_member_str(j, "message", message);
    json_member_str(j, "level", str_c(level));
    json_spans(j, f, span);
    json_member_open(j, "children", '[');
    json_close(j, ']');
    json_close(j, '}');
}

static void json_code(JsonOut *j, const Row *row) {
    json_name(j, "code");
    if (!row) {
        json_put_null(j);
        return;
    }
    json_open(j, '{');
    json_member_str(j, "code", str_c(row->code));
    json_member_str(j, "explanation", str_c(row->explain));
    json_close(j, '}');
}

// `row` NULL: of no code, an error.
static void json_diag(Text *t, const Front *f, const Diag *d, const Row *row, Str rendered) {
    JsonOut j = {.text = t};
    json_open(&j, '{');
    json_member_str(&j, "$message_type", STR("diagnostic"));
    json_member_str(&j, "message", d->message);
    json_code(&j, row);
    json_member_str(&j, "level",
                    row && row->severity == severity_warning ? STR("warning") : STR("error"));
    json_spans(&j, f, d->span);
    json_member_open(&j, "children", '[');
    for (uint32_t i = 0; i < d->note.n; i++)
        json_child(&j, f, "note", d->note.at[i].text, d->note.at[i].span);
    if (d->help.len)
        json_child(&j, f, "help", d->help, (Span){0});
    json_close(&j, ']');
    json_member_str(&j, "rendered", rendered);
    json_close(&j, '}');
    text_char(t, '\n');
}

void diag_render_json(Text *t, Front *f) {
    if (!f->diags)
        return;
    const Diag **order = sorted(f);
    for (uint32_t i = 0; i < f->diags->kept.n; i++) {
        Text rendered = {.arena = f->perm};
        put_diag(&rendered, f, order[i], false);
        json_diag(t, f, order[i], &row_of[order[i]->code], text_str(&rendered));
    }
}

void diag_json_failure(Text *t, const Front *f, Str message) {
    Diag d = {.message = message};
    json_diag(t, f, &d, NULL, str_format(t->arena, "error: %.*s\n", SARG(message)));
}

// --- explain -------------------------------------------------------------------------------------

// The row's message with `...` where a message has words of its own.
static void put_pattern(Text *t, const char *format) {
    for (const char *c = format; *c; c++) {
        if (*c != '%') {
            text_char(t, *c);
            continue;
        }
        c += strspn(c + 1, ".*0123456789lz") + 1;
        if (*c == '%')
            text_char(t, '%');
        else
            text_put(t, STR("..."));
    }
}

bool diag_explain(Text *t, Str code) {
    for (uint32_t i = 0; i < DiagCount; i++) {
        if (!str_eq(code, str_c(row_of[i].code)))
            continue;
        text_fmt(t, "%s (%s): ", row_of[i].code,
                 row_of[i].severity == severity_error ? "error" : "warning");
        put_pattern(t, row_of[i].message);
        text_fmt(t, "\n\n%s\n", row_of[i].explain);
        if (*row_of[i].help)
            text_fmt(t, "\nhelp: %s\n", row_of[i].help);
        return true;
    }
    return false;
}
