// table_array.c - a table of numbers as an array [rows, columns] of f32: samples that are rows.
//
// In: a .csv or .tsv file. Out: its numbers. A first row without a single number names the columns;
// anything else that is no number is an error, with its line and column. What is missing may be
// wanted as NaN. An error is also what programs write beside the numbers and read back as such: the
// numbers of rows and of columns.
#include "format.h"

#include <math.h>
#include <string.h>

// How the numbers of a column are written, below the first row.
enum {
    HasParts = 1,   // some have a point or an exponent
    DropsPoint = 2, // some are whole, without one
    KeepsPoint = 4, // some are 1.0, or have all digits of a double: so Python writes floats
};

typedef struct Numbers {
    Arena *perm;
    Table text;
    StrVec name;      // of the columns; empty: the table does not say
    size_t columns;   // 0: no row was read
    bool counted;     // the first row is 0, 1, 2, ..., and no row is said to name the columns
    uint8_t *written; // [columns], owned
    bool missing;     // what is missing is NaN
    float *at;        // owned: [n]
    size_t n, cap;
} Numbers;

static bool is_number(Str field, float *out) {
    double v;
    bool is = str_to_double(field, &v) && isfinite((float)v);
    *out = is ? (float)v : 0;
    return is;
}

// Among numbers, no word. C prints 0.0/0 as -nan.
static bool says_missing(Str field) {
    static const char *const words[] = {"", "None", "none", "?", "-", "-nan"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (str_eq(field, str_c(words[i])))
            return true;
    return table_lacks(field);
}

// What is missing is often written nan: a row of that names no columns.
static bool is_head(const StrVec *row) {
    double v;
    bool named = false;
    for (uint32_t i = 0; i < row->n; i++) {
        if (str_to_double(row->at[i], &v))
            return false;
        named = named || !says_missing(row->at[i]);
    }
    return named;
}

// 0, 1, 2, ... from column `first` on.
static bool counts(const StrVec *row, uint32_t first) {
    int64_t v;
    for (uint32_t i = first; i < row->n; i++)
        if (!str_to_int(row->at[i], &v) || v != i - first)
            return false;
    return true;
}

static uint8_t how_written(Str field) {
    enum { AllDigits = 16 }; // of a double that has no shorter name
    int64_t whole;
    uint32_t digits = 0;
    if (str_to_int(field, &whole))
        return DropsPoint;
    for (size_t i = 0; i < field.len; i++)
        digits += field.ptr[i] >= '0' && field.ptr[i] <= '9' && (digits || field.ptr[i] != '0');
    return digits >= AllDigits || str_ends(field, STR(".0")) ? HasParts | KeepsPoint : HasParts;
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
                !row->at[row->n - 1].len  ? ": a separator ends the line"
                : row->n == 2 * x->name.n ? ": decimals have a point, not a comma"
                : row->n == x->name.n + 1
                    ? ": R's write.table puts a number in front of each row, unless row.names=FALSE"
                    : "");
}

static bool is_decimal_comma(Str field) {
    char z[40] = "";
    double v;
    size_t at = str_find(field, ',');
    if (at == field.len || field.len >= sizeof z)
        return false;
    memcpy(z, field.ptr, field.len);
    z[at] = '.';
    return str_to_double(str_c(z), &v);
}

static GanStatus refuse_field(const Numbers *x, uint32_t column, Str field) {
    enum { Shown = 60 }; // bytes: what is called .csv need not be text
    Str name = column < x->name.n ? x->name.at[column] : str_format(x->perm, "%u", column + 1);
    const char *tail = is_decimal_comma(field) ? "decimals have a point, not a comma"
                       : says_missing(field)
                           ? MISSING_KEPT
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

static GanStatus refuse_row_numbers(void) {
    return fail(GAN_ERR_INPUT,
                "the first column has no name and numbers the rows, as pandas and R write them: "
                "to_csv(index=False) and write.csv(row.names=FALSE) leave it out");
}

static GanStatus add_row(Numbers *x, const StrVec *row) {
    if (x->columns && row->n != x->columns)
        return fail(GAN_ERR_INPUT, "line %u: %u values, the lines before have %zu", x->text.line,
                    row->n, x->columns);
    bool first = !x->columns;
    if (first) {
        TRY(check_head(x, row));
        x->counted = !x->name.n && row->n > 1 && counts(row, 0);
        if (!x->name.n && row->n > 1 && !row->at[0].len && counts(row, 1))
            return refuse_row_numbers();
        x->written = mem_alloc(row->n); // the row lies at the arena's end
        if (!x->written)
            return fail(GAN_ERR_MEMORY, "no memory for %u columns", row->n);
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
        float *to = &x->at[x->n++];
        if (is_number(row->at[i], to))
            x->written[i] |= first ? 0 : how_written(row->at[i]);
        else if (x->missing && says_missing(row->at[i]))
            *to = NAN;
        else
            return refuse_field(x, i, row->at[i]);
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

// Whether a first row of 0, 1, 2, ... is what pandas calls columns without a name. Many, or three
// above decimals, are no sample; of 0, 1 the numbers below must be written as Python writes them.
// Where a column has whole numbers among decimals, so it may have in its first row.
static bool numbers_columns(const Numbers *x) {
    enum { Many = 16, Few = 2 };
    uint8_t any = 0;
    bool mixed = false;
    for (size_t i = 0; i < x->columns; i++) {
        any |= x->written[i];
        mixed = mixed || (x->written[i] & HasParts && x->written[i] & DropsPoint);
    }
    if (!x->counted || x->n == x->columns || x->columns > Many)
        return x->counted && x->n > x->columns;
    return !mixed && any & (x->columns > Few ? HasParts : KeepsPoint);
}

// pandas does not name its first column, of rows' numbers, at all.
static GanStatus check_counts(const Numbers *x) {
    Str first = x->name.n ? x->name.at[0] : STR("-");
    if ((!first.len || str_eq(first, STR("Unnamed: 0"))) && numbers_rows(x))
        return refuse_row_numbers();
    if (numbers_columns(x))
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

GanStatus table_numbers(Str path, bool missing, Blob *out, Array *shape) {
    Blob text;
    Arena arena;
    *out = (Blob){0};
    *shape = (Array){0};
    TRY(blob_open(path, &text));
    GanStatus st = arena_init(&arena, 0);
    if (st == GAN_OK) {
        Str all = {(const char *)text.ptr, text.n};
        Numbers x = {
            .perm = &arena, .text = table_of(all, table_separator(path, all)), .missing = missing};
        st = arena_guard(&arena, "for a table", read_numbers, &x);
        *out =
            (Blob){.ptr = (const uint8_t *)x.at, .n = x.n * sizeof *x.at, .heap = (uint8_t *)x.at};
        *shape =
            (Array){.kind = 'f', .size = sizeof *x.at, .rank = 2, .data = out->ptr, .count = x.n};
        shape->dim[0] = x.columns ? (int64_t)(x.n / x.columns) : 0;
        shape->dim[1] = (int64_t)x.columns;
        mem_free(x.written);
        arena_release(&arena);
    }
    blob_close(&text);
    return st;
}
