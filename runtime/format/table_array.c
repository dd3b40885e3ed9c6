// table_array.c - a table of numbers as an array [rows, columns] of f32: samples that are rows.
//
// In: a .csv or .tsv file. Out: its numbers. A first row without a single number names the columns;
// anything else that is no number is an error, with its line and column.
#include "format.h"

#include <math.h>
#include <string.h>

typedef struct Numbers {
    Arena *perm;
    Table text;
    StrVec name;    // of the columns; empty: the table does not say
    size_t columns; // 0: no row was read
    float *at;      // owned: [n]
    size_t n, cap;
} Numbers;

static bool is_number(Str field, float *out) {
    double v;
    bool is = str_to_double(field, &v) && isfinite((float)v);
    *out = is ? (float)v : 0;
    return is;
}

static bool is_head(const StrVec *row) {
    float v;
    for (uint32_t i = 0; i < row->n; i++)
        if (is_number(row->at[i], &v))
            return false;
    return true;
}

static GanStatus refuse_field(const Numbers *x, uint32_t column, Str field) {
    enum { Shown = 60 }; // bytes: what is called .csv need not be text
    Str name = column < x->name.n ? x->name.at[column] : str_format(x->perm, "%u", column + 1);
    name = str_sub(name, 0, Shown);
    field = str_sub(field, 0, Shown);
    if (!field.len)
        return fail(GAN_ERR_INPUT, "line %u: column %.*s is empty", x->text.line, SARG(name));
    return fail(GAN_ERR_INPUT,
                "line %u: `%.*s` in column %.*s is not a number: words are encoded as numbers "
                "before training, usually one-hot (pandas.get_dummies)",
                x->text.line, SARG(field), SARG(name));
}

static GanStatus add_row(Numbers *x, const StrVec *row) {
    if (x->columns && row->n != x->columns)
        return fail(GAN_ERR_INPUT, "line %u: %u values, the lines before have %zu", x->text.line,
                    row->n, x->columns);
    x->columns = row->n;
    if (x->cap - x->n < row->n) {
        size_t cap = 2 * (x->cap + row->n), bytes;
        float *more = mem_mul(cap, sizeof *more, &bytes) ? mem_realloc(x->at, bytes) : NULL;
        if (!more)
            return fail(GAN_ERR_MEMORY, "no memory for %zu numbers", cap);
        x->at = more;
        x->cap = cap;
    }
    for (uint32_t i = 0; i < row->n; i++)
        if (!is_number(row->at[i], &x->at[x->n++]))
            return refuse_field(x, i, row->at[i]);
    return GAN_OK;
}

static GanStatus read_numbers(void *user) {
    Numbers *x = user;
    for (bool first = true;; first = false) {
        Arena line = *x->perm;
        StrVec row = {0};
        bool end;
        TRY(table_row(first ? x->perm : &line, &x->text, &row, &end));
        if (end)
            return x->columns ? GAN_OK : fail(GAN_ERR_INPUT, "a table without a row of numbers");
        if (first && is_head(&row))
            x->name = row;
        else
            TRY(add_row(x, &row));
    }
}

GanStatus table_numbers(Str path, Blob *out, Array *shape) {
    Blob text;
    Arena arena;
    *out = (Blob){0};
    *shape = (Array){0};
    TRY(blob_open(path, &text));
    GanStatus st = arena_init(&arena, 0);
    if (st == GAN_OK) {
        Str all = {(const char *)text.ptr, text.n};
        Numbers x = {.perm = &arena, .text = table_of(all, table_separator(path, all))};
        st = arena_guard(&arena, "for a table", read_numbers, &x);
        *out =
            (Blob){.ptr = (const uint8_t *)x.at, .n = x.n * sizeof *x.at, .heap = (uint8_t *)x.at};
        *shape =
            (Array){.kind = 'f', .size = sizeof *x.at, .rank = 2, .data = out->ptr, .count = x.n};
        shape->dim[0] = x.columns ? (int64_t)(x.n / x.columns) : 0;
        shape->dim[1] = (int64_t)x.columns;
        arena_release(&arena);
    }
    blob_close(&text);
    return st;
}
