// words.c - tokens, numbers and types of a line of the text form. In: any bytes. Out: values within
// the given bounds, or an error message.
#include "words.h"

bool words_refuse(Words *w, const char *format, ...) {
    va_list args;
    va_start(args, format);
    Str what = str_vformat(w->perm, format, args);
    va_end(args);
    *w->error = str_format(w->perm, "line %u: %.*s", w->number, SARG(what));
    return false;
}

bool words_line(Words *w, Str *text) {
    if (text->len == 0)
        return false;
    w->line = str_sub(*text, 0, str_find(*text, '\n'));
    w->at = 0;
    w->number++;
    *text = str_sub(*text, w->line.len + 1, text->len);
    return true;
}

char words_peek(Words *w) {
    while (w->at < w->line.len && w->line.ptr[w->at] == ' ')
        w->at++;
    return w->at < w->line.len ? w->line.ptr[w->at] : 0;
}

bool words_end(Words *w) {
    return words_peek(w) == '#' || w->at >= w->line.len;
}

bool words_try(Words *w, char c) {
    if (words_peek(w) != c || words_end(w))
        return false;
    w->at++;
    return true;
}

bool words_char(Words *w, char c) {
    return words_try(w, c) || words_refuse(w, "expected '%c' at column %zu", c, w->at + 1);
}

static bool is_word(char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
}

Str words_next(Words *w) {
    words_peek(w);
    size_t from = w->at;
    while (w->at < w->line.len && is_word(w->line.ptr[w->at]))
        w->at++;
    return str_sub(w->line, from, w->at);
}

bool words_word(Words *w, const char *text) {
    return str_eq(words_next(w), str_c(text)) ||
           words_refuse(w, "expected '%s' before column %zu", text, w->at + 1);
}

// One of `text[n]`; its index in *out.
bool words_one_of(Words *w, const char *const *text, uint32_t n, uint32_t *out) {
    Str s = words_next(w);
    for (*out = 0; *out < n; ++*out)
        if (str_eq(s, str_c(text[*out])))
            return true;
    return words_refuse(w, "'%.*s' is not known here", SARG(s));
}

static Str number_text(Words *w) {
    words_peek(w);
    size_t from = w->at;
    while (w->at < w->line.len) {
        char c = w->line.ptr[w->at];
        bool sign = c == '-' && (w->at == from || w->line.ptr[w->at - 1] == 'e');
        if (!sign && !is_word(c) && c != '.' && c != '+')
            break;
        w->at++;
    }
    return str_sub(w->line, from, w->at);
}

bool words_double(Words *w, double *out) {
    Str s = number_text(w);
    return str_to_double(s, out) || words_refuse(w, "'%.*s' is not a number", SARG(s));
}

bool words_int(Words *w, int64_t least, int64_t most, int64_t *out) {
    Str s = number_text(w);
    if (!str_to_int(s, out))
        return words_refuse(w, "'%.*s' is not a whole number", SARG(s));
    return (*out >= least && *out <= most) ||
           words_refuse(w, "%lld is out of range", (long long)*out);
}

bool words_index(Words *w, uint32_t *out) {
    int64_t x = 0;
    bool ok = words_int(w, 0, UINT32_MAX - 1, &x);
    *out = (uint32_t)x;
    return ok;
}

// "name 12"
bool words_field(Words *w, const char *name, uint32_t *out) {
    return words_word(w, name) && words_index(w, out);
}

bool words_quoted(Words *w, Str *out) {
    Text t = {.arena = w->perm};
    if (!words_char(w, '"'))
        return false;
    while (w->at < w->line.len && w->line.ptr[w->at] != '"') {
        char c = w->line.ptr[w->at++];
        if (c == '\\') {
            int byte = str_to_byte(str_sub(w->line, w->at + 1, w->line.len));
            if (byte < 0 || w->line.ptr[w->at] != 'x')
                return words_refuse(w, "a backslash without xHH");
            c = (char)byte;
            w->at += 3;
        }
        text_char(&t, c);
    }
    *out = text_str(&t);
    return words_char(w, '"');
}

// "1:10-20"
bool words_place(Words *w, Span *s) {
    return words_index(w, &s->file) && words_char(w, ':') && words_index(w, &s->lo) &&
           words_char(w, '-') && words_index(w, &s->hi);
}

// " span=1:10-20", or nothing.
bool words_span(Words *w, Span *s) {
    *s = (Span){0};
    return words_end(w) || (words_word(w, "span") && words_char(w, '=') && words_place(w, s));
}

// A mark behind an extent: Type.inner.
bool words_extents(Words *w, bool may_batch, Type *out) {
    *out = (Type){0};
    if (!words_char(w, '['))
        return false;
    if (words_try(w, ']'))
        return true;
    if (may_batch && words_try(w, 'B')) {
        out->batched = true;
        if (!words_try(w, ','))
            return words_char(w, ']');
    }
    do {
        if (out->rank == MAX_RANK)
            return words_refuse(w, "more than %d axes", MAX_RANK);
        if (!words_int(w, 1, WORDS_EXTENT, &out->dim[out->rank++]))
            return false;
        if (may_batch && !out->inner && words_try(w, '\''))
            out->inner = out->rank;
    } while (words_try(w, ','));
    return words_char(w, ']');
}

bool words_type(Words *w, Type *out) {
    uint32_t dtype;
    if (!WORDS_ONE_OF(w, dtype_name, &dtype) || !words_extents(w, true, out))
        return false;
    out->dtype = (uint8_t)dtype;
    return true;
}
