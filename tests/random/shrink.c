// shrink.c - reduces a failing model. Edits of its text are tried one after the other and kept if
// the model still fails in the same way; an edit that makes the text invalid is undone.
#include "check.h"

typedef VEC(Str) Lines;

static Lines lines_of(Arena *a, Str text) {
    Lines l = {0};
    while (text.len) {
        Str line = str_sub(text, 0, str_find(text, '\n'));
        vec_push(a, &l, line);
        text = str_sub(text, line.len + (line.len < text.len), text.len);
    }
    return l;
}

static bool is_word(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

// `line` with every word `name` replaced.
static void put_renamed(Text *t, Str line, Str name, Str by) {
    for (size_t i = 0; i < line.len;) {
        size_t n = 0;
        while (i + n < line.len && is_word(line.ptr[i + n]))
            n++;
        Str word = str_sub(line, i, i + (n ? n : 1));
        text_put(t, name.len && str_eq(word, name) ? by : word);
        i += n ? n : 1;
    }
    text_char(t, '\n');
}

// The text without lines [from, to), and with `name` renamed to `by` after them.
static Str without(Arena *a, const Lines *l, uint32_t from, uint32_t to, Str name, Str by) {
    Text t = {.arena = a};
    for (uint32_t i = 0; i < l->n; i++)
        if (i < from || i >= to)
            put_renamed(&t, l->at[i], i >= to ? name : (Str){0}, by);
    return text_str(&t);
}

// What a line binds: "v3 = ..." gives v3.
static Str bound_name(Str line) {
    size_t i = 0, n = 0;
    while (i < line.len && line.ptr[i] == ' ')
        i++;
    while (i + n < line.len && is_word(line.ptr[i + n]))
        n++;
    return str_starts(str_sub(line, i + n, line.len), STR(" = ")) ? str_sub(line, i, i + n)
                                                                  : (Str){0};
}

typedef struct Shrink {
    Arena *a;
    const CheckOptions *o;
    Str label;
    RandomModel m;
    uint32_t tries;
} Shrink;

static bool still_fails(Shrink *s, Str text) {
    enum { MOST = 3000 };
    Arena scratch = *s->a;
    RandomModel m = {text, s->m.batch};
    if (str_eq(text, s->m.text) || s->tries++ > MOST)
        return false;
    Finding f = check_model(&scratch, &m, s->o);
    if (f.verdict != VerdictWrong || !str_eq(f.label, s->label))
        return false;
    s->m.text = str_copy(s->a, text);
    return true;
}

// Deletes runs of `n` lines. True: at least one deletion kept the failure.
static bool drop_lines(Shrink *s, uint32_t n) {
    bool done = false;
    for (uint32_t at = 0;;) {
        Lines l = lines_of(s->a, s->m.text);
        if (at + n > l.n)
            return done;
        if (still_fails(s, without(s->a, &l, at, at + n, (Str){0}, (Str){0})))
            done = true;
        else
            at++;
    }
}

// Deletes a value's line and replaces its name by one that the line reads.
static bool replace_value(Shrink *s, uint32_t at) {
    Lines l = lines_of(s->a, s->m.text);
    Str name = bound_name(l.at[at]), line = l.at[at];
    if (!name.len)
        return false;
    for (size_t i = 0; i < line.len;) {
        size_t n = 0;
        while (i + n < line.len && is_word(line.ptr[i + n]))
            n++;
        Str word = str_sub(line, i, i + n);
        if (n && !str_eq(word, name) && still_fails(s, without(s->a, &l, at, at + 1, name, word)))
            return true;
        i += n ? n : 1;
    }
    return false;
}

static bool replace_values(Shrink *s) {
    bool done = false;
    for (uint32_t at = 0; at < lines_of(s->a, s->m.text).n;)
        if (replace_value(s, at))
            done = true;
        else
            at++;
    return done;
}

// Deletes a line's rest (up to " using ") from each operator + - * or |>.
static bool cut_terms(Shrink *s) {
    bool done = false;
    for (uint32_t at = 0; at < lines_of(s->a, s->m.text).n; at++) {
        Lines l = lines_of(s->a, s->m.text);
        Str line = l.at[at];
        for (size_t i = 1; i + 3 < line.len; i++) {
            bool sum = line.ptr[i] == '+' || line.ptr[i] == '-' || line.ptr[i] == '*';
            if (!sum && line.ptr[i] != '|')
                continue;
            size_t using = line.len;
            for (size_t k = i; k + 7 < line.len; k++)
                if (str_starts(str_sub(line, k, line.len), STR(" using ")))
                    using = k;
            size_t cut = i;
            while (cut > 0 && line.ptr[cut - 1] == ' ')
                cut--;
            l.at[at] = str_format(s->a, "%.*s%.*s", (int)cut, line.ptr, (int)(line.len - using),
                                  line.ptr + using);
            if (still_fails(s, without(s->a, &l, 0, 0, (Str){0}, (Str){0}))) {
                done = true;
                break;
            }
            l.at[at] = line;
        }
    }
    return done;
}

RandomModel shrink_model(Arena *a, const RandomModel *m, const CheckOptions *o, Str label) {
    Shrink s = {.a = a, .o = o, .label = label, .m = *m};
    for (bool again = true; again;) {
        again = false;
        for (uint32_t n = 16; n > 0; n /= 2)
            again |= drop_lines(&s, n);
        again |= replace_values(&s);
        again |= cut_terms(&s);
    }
    return s.m;
}
