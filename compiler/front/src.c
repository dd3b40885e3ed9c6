// src.c - in: the bytes of a source. Out: a numbered Source whose text is valid UTF-8 without
// control characters, and the mapping from byte offsets to lines and columns. A source that is not
// text is one diagnostic.
#include "front.h"

#define MAX_SOURCE ((size_t)64 << 20)

void front_init(Front *f, Arena *perm) {
    *f = (Front){.perm = perm};
}

// The first byte no text has: not UTF-8, or a control character other than tab and the ends of
// lines.
static size_t first_bad_byte(Str text, const char **why) {
    size_t bad = text.len;
    *why = "its bytes are not UTF-8";
    str_utf8_valid(text, &bad);
    for (size_t i = 0; i < bad; i++) {
        unsigned char c = (unsigned char)text.ptr[i];
        if ((c < 0x20 && c != '\t' && c != '\n' && c != '\r') || c == 0x7f) {
            *why = "it holds control characters";
            return i;
        }
    }
    return bad;
}

static void find_lines(Arena *perm, Source *s) {
    vec_push(perm, &s->line, 0);
    for (size_t i = 0; i < s->text.len; i++)
        if (s->text.ptr[i] == '\n')
            vec_push(perm, &s->line, (uint32_t)i + 1);
}

uint32_t front_add_source(Front *f, Str name, Str text, bool library) {
    const char *why = NULL;
    size_t size = text.len;
    if (str_starts(text, STR("\xEF\xBB\xBF")))
        text = str_sub(text, 3, text.len);
    if (size > MAX_SOURCE)
        text.len = 0;
    size_t bad = first_bad_byte(text, &why);
    bool refused = size > MAX_SOURCE || bad < text.len;
    Source s = {.name = str_copy(f->perm, name), .text = str_sub(text, 0, bad), .library = library};
    find_lines(f->perm, &s);
    vec_push(f->perm, &f->source, s);
    if (!refused)
        return f->source.n;
    Span at = {f->source.n, (uint32_t)bad, (uint32_t)bad};
    if (size > MAX_SOURCE)
        diag(f, DiagE0107, at, size);
    else
        diag(f, DiagE0103, at, why);
    return 0;
}

LineCol source_line_col(const Source *s, uint32_t offset) {
    uint32_t lo = 0, hi = s->line.n;
    while (hi - lo > 1) { // the last line that starts at or before offset
        uint32_t mid = lo + (hi - lo) / 2;
        if (s->line.at[mid] <= offset)
            lo = mid;
        else
            hi = mid;
    }
    return (LineCol){lo + 1, 1 + str_code_points(str_sub(s->text, s->line.at[lo], offset))};
}

Str source_line(const Source *s, uint32_t line) {
    if (line == 0 || line > s->line.n)
        return (Str){0};
    size_t lo = s->line.at[line - 1];
    size_t hi = line < s->line.n ? s->line.at[line] - 1 : s->text.len;
    while (hi > lo && s->text.ptr[hi - 1] == '\r')
        hi--;
    return str_sub(s->text, lo, hi);
}

Str span_text(const Front *f, Span span) {
    return str_sub(f->source.at[span.file - 1].text, span.lo, span.hi);
}
