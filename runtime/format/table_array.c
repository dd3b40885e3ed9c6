// table_array.c - a table of numbers as an array [rows, columns] of f32: samples that are rows.
//
// In: a .csv or .tsv file. Out: its numbers. A first row without a single number names the columns;
// anything else that is no number is an error, with its line and column. So are what programs write
// beside the numbers and read back as such: the numbers of rows and of columns.
#include "format.h"

#include <math.h>
#include <string.h>

typedef struct Numbers {
    Arena *perm;
    Table text;
    StrVec name;    // of the columns; empty: the table does not say
    size_t columns; // 0: no row was read
    bool counted;   // the first row is 0, 1, 2, ..., and no row is said to name the columns
    bool parts;     // some number has a point or an exponent
    float *at;      // owned: [n]
    size_t n, cap;
} Numbers;

static bool is_number(Str field, float *out) {
    double v;
    bool is = str_to_double(field, &v) && isfinite((float)v);
    *out = is ? (float)v : 0;
    return is;
}

// What is missing is often written nan: a row of that names no columns.
static bool is_head(const StrVec *row) {
    double v;
    for (uint32_t i = 0; i < row->n; i++)
        if (str_to_double(row->at[i], &v))
            return false;
    return true;
}

static bool counts(const StrVec *row) {
    int64_t v;
    for (uint32_t i = 0; i < row->n; i++)
        if (!str_to_int(row->at[i], &v) || v != i)
            return false;
    return true;
}

// A line of another kind may stand in front, as numpy.savetxt writes one.
static GanStatus check_head(Numbers *x, const StrVec *row) {
    if (!x->name.n || x->name.n == row->n)
        return GAN_OK;
    if (str_starts(x->name.at[0], STR("#"))) {
        x->name.n = 0;
        return GAN_OK;
    }
    return fail(GAN_ERR_INPUT, "line %u: %u values, and the first line names %u column%s%s",
                x->text.line, row->n, x->name.n, x->name.n == 1 ? "" : "s",
                row->n == 2 * x->name.n ? ": decimals have a point, not a comma"
                : row->n == x->name.n + 1
                    ? ": R's write.table puts a number in front of each row, unless row.names=FALSE"
                    : "");
}

// What programs write where there is no value.
static bool says_missing(Str field) {
    static const char *const words[] = {"",    "nan",  "NaN",  "NAN",  "na",   "NA", "n/a",
                                        "N/A", "null", "NULL", "None", "none", "?",  "-"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (str_eq(field, str_c(words[i])))
            return true;
    return false;
}

static GanStatus refuse_field(const Numbers *x, uint32_t column, Str field) {
    enum { Shown = 60 }; // bytes: what is called .csv need not be text
    Str name = column < x->name.n ? x->name.at[column] : str_format(x->perm, "%u", column + 1);
    const char *tail = says_missing(field)
                           ? "what is missing is 0 here, and 0 in a second table of what is known "
                             "(docs/cookbook.md, missing values)"
                           : "words are encoded as numbers before training, usually one-hot "
                             "(pandas.get_dummies)";
    name = str_sub(name, 0, Shown);
    field = str_sub(field, 0, Shown);
    if (!field.len)
        return fail(GAN_ERR_INPUT, "line %u: column %.*s is empty: %s", x->text.line, SARG(name),
                    tail);
    return fail(GAN_ERR_INPUT, "line %u: `%.*s` in column %.*s is not a number: %s", x->text.line,
                SARG(field), SARG(name), tail);
}

static GanStatus add_row(Numbers *x, const StrVec *row) {
    if (x->columns && row->n != x->columns)
        return fail(GAN_ERR_INPUT, "line %u: %u values, the lines before have %zu", x->text.line,
                    row->n, x->columns);
    if (!x->columns) {
        TRY(check_head(x, row));
        x->counted = !x->name.n && row->n > 1 && counts(row);
    }
    x->columns = row->n;
    if (x->cap - x->n < row->n) {
        size_t cap = 2 * (x->cap + row->n), bytes;
        float *more = mem_mul(cap, sizeof *more, &bytes) ? mem_realloc(x->at, bytes) : NULL;
        if (!more)
            return fail(GAN_ERR_MEMORY, "no memory for %zu numbers", cap);
        x->at = more;
        x->cap = cap;
    }
    for (uint32_t i = 0; i < row->n; i++) {
        int64_t whole;
        if (!is_number(row->at[i], &x->at[x->n++]))
            return refuse_field(x, i, row->at[i]);
        x->parts = x->parts || !str_to_int(row->at[i], &whole);
    }
    return GAN_OK;
}

// Does the first column number the rows, from 0 or 1?
static bool numbers_rows(const Numbers *x) {
    size_t rows = x->n / x->columns;
    float first = x->at[0];
    bool does = x->columns > 1 && rows > 1 && (first == 0 || first == 1);
    for (size_t i = 0; does && i < rows; i++)
        does = x->at[i * x->columns] == first + (float)i;
    return does;
}

// pandas names columns without a name by number, and its first column, of rows' numbers, not at
// all; a row of 0, 1, 2, ... among numbers with decimals, or of many, is no sample.
static GanStatus check_counts(const Numbers *x) {
    enum { Many = 16 };
    Str first = x->name.n ? x->name.at[0] : STR("-");
    if ((!first.len || str_eq(first, STR("Unnamed: 0"))) && numbers_rows(x))
        return fail(GAN_ERR_INPUT,
                    "the first column has no name and numbers the rows, as pandas and R write "
                    "them: to_csv(index=False) and write.csv(row.names=FALSE) leave it out");
    if (x->counted && x->n > x->columns && (x->parts || x->columns > Many))
        return fail(GAN_ERR_INPUT,
                    "the first line is 0, 1, 2, ...: the columns' numbers, as pandas writes them "
                    "unless to_csv(header=False)? Of a sample, write the first as 0.0");
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
            return x->columns ? check_counts(x)
                              : fail(GAN_ERR_INPUT, "a table without a row of numbers");
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
