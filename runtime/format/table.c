// table.c - rows of a table in text: values separated by a character, or columns between blanks.
//
// In: a whole file's text. Out: its rows, one by one, each a list of fields; empty lines are passed
// over. Where a character separates, a field in double quotes may hold separators, line ends
// and, doubled, quotes (RFC 4180), and blanks around a field are dropped.
#include "format.h"

#include <string.h>

Table table_of(Str text, char separator) {
    if (str_starts(text, STR("\xef\xbb\xbf"))) // UTF-8's byte order mark
        text = str_sub(text, 3, text.len);
    return (Table){.text = text, .separator = separator, .next = 1};
}

// Spreadsheets write semicolons where commas are decimal points.
static char csv_separator(Str text) {
    Str line = str_sub(text, 0, str_find(text, '\n'));
    bool comma = str_find(line, ',') < line.len, semicolon = str_find(line, ';') < line.len;
    return semicolon && !comma ? ';' : ',';
}

char table_separator(Str path, Str text) {
    Str ext = path_ext(path);
    return str_eq(ext, STR("csv")) ? csv_separator(text) : str_eq(ext, STR("tsv")) ? '\t' : ' ';
}

static bool is_blank(char c) {
    return c == ' ' || c == '\t' || c == '\r';
}

static Str trim(Str s) {
    size_t from = 0;
    while (from < s.len && is_blank(s.ptr[from]))
        from++;
    while (s.len > from && is_blank(s.ptr[s.len - 1]))
        s.len--;
    return str_sub(s, from, s.len);
}

// From the opening quote to behind the closing one.
static GanStatus quoted(Arena *perm, Table *t, Str *out) {
    Text made = {.arena = perm};
    size_t from = ++t->at;
    for (; t->at < t->text.len; t->at++) {
        t->next += t->text.ptr[t->at] == '\n';
        if (t->text.ptr[t->at] != '"')
            continue;
        Str part = str_sub(t->text, from, t->at++);
        if (t->at == t->text.len || t->text.ptr[t->at] != '"') {
            *out = part;
            if (made.n) {
                text_put(&made, part);
                *out = text_str(&made);
            }
            return GAN_OK;
        }
        text_put(&made, part);
        from = t->at; // the second of two quotes stands for itself
    }
    return fail(GAN_ERR_INPUT, "line %u: a quote that is not closed", t->line);
}

static bool ends_field(const Table *t) {
    return t->at == t->text.len || t->text.ptr[t->at] == '\n' || t->text.ptr[t->at] == t->separator;
}

// Up to the separator or the line's end.
static GanStatus take_field(Arena *perm, Table *t, Str *out) {
    while (!ends_field(t) && is_blank(t->text.ptr[t->at]))
        t->at++;
    if (!ends_field(t) && t->text.ptr[t->at] == '"') {
        TRY(quoted(perm, t, out));
        while (!ends_field(t) && is_blank(t->text.ptr[t->at]))
            t->at++;
        return ends_field(t) ? GAN_OK
                             : fail(GAN_ERR_INPUT, "line %u: text behind a closing quote", t->line);
    }
    size_t from = t->at;
    while (!ends_field(t))
        t->at++;
    *out = trim(str_sub(t->text, from, t->at));
    return GAN_OK;
}

static GanStatus separated_row(Arena *perm, Table *t, StrVec *row) {
    size_t from = t->at;
    for (;;) {
        Str field;
        TRY(take_field(perm, t, &field));
        vec_push(perm, row, field);
        bool more = t->at < t->text.len && t->text.ptr[t->at] == t->separator;
        if (!more)
            break;
        t->at++;
    }
    if (row->n == 1 && !trim(str_sub(t->text, from, t->at)).len)
        row->n = 0; // an empty line; one of "" is an empty field
    return GAN_OK;
}

static void blank_row(Arena *perm, Table *t, StrVec *row) {
    while (t->at < t->text.len && t->text.ptr[t->at] != '\n') {
        size_t from = t->at;
        while (t->at < t->text.len && t->text.ptr[t->at] != '\n' && !is_blank(t->text.ptr[t->at]))
            t->at++;
        if (t->at > from)
            vec_push(perm, row, str_sub(t->text, from, t->at));
        else
            t->at++;
    }
}

// As Excel saves `Unicode text`.
static bool is_utf16(Str text) {
    return str_starts(text, STR("\xff\xfe")) || str_starts(text, STR("\xfe\xff"));
}

GanStatus table_row(Arena *perm, Table *t, StrVec *row, bool *end) {
    row->n = 0;
    if (is_utf16(t->text))
        return fail(GAN_ERR_INPUT, "a table in UTF-16: save it as UTF-8");
    while (row->n == 0 && t->at < t->text.len) {
        t->line = t->next;
        if (t->separator == ' ')
            blank_row(perm, t, row);
        else
            TRY(separated_row(perm, t, row));
        t->at++; // the line's end
        t->next++;
    }
    *end = row->n == 0;
    return GAN_OK;
}

bool table_lacks(Str field) {
    static const char *const words[] = {"nan", "NaN", "NAN",  "na",   "NA",
                                        "n/a", "N/A", "null", "NULL", "<NA>"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (str_eq(field, str_c(words[i])))
            return true;
    return false;
}
