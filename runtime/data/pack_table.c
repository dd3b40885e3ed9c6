// pack_table.c - labels from a table: CelebA's list_attr_celeba.txt, or a CSV or TSV file.
//
// In: the table's text, the names of the samples, and the names of the columns that are wanted.
// Out: a label for each sample that the table has. The first column names the file: by its path,
// its base name, or either without the extension. A row serves one sample, so that names that do
// not tell two files apart are an error. All rows count for the numbers of classes, whatever
// samples there are: the parts of a data set agree.
#include "pack_build.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct TableRow {
    Str key;
    uint32_t index, line;
    bool used;
} TableRow;

typedef struct TableStem { // a row's key without its extension
    Str name;
    uint32_t row;
} TableStem;

typedef struct LabelTable {
    Arena *perm;
    Str path; // for messages
    const StrVec *member;
    Table text;
    StrVec field;         // of the row read last
    uint32_t columns;     // of a row, the file's included
    StrVec name;          // [columns] of the columns
    VEC(uint32_t) wanted; // columns, from 1
    VEC(TableRow) row;    // in the order of the file, then sorted by key
    TableStem *stem;      // [rows] sorted by name
    StrVec word;          // [rows] of one column
    FloatVec number;      // [rows][wanted]; of one column NAN where the word is no number, of
                          // several where it is missing
    bool missing;         // which is no error
} LabelTable;

// --- samples and rows ----------------------------------------------------------------------------

static bool names_a_member(const LabelTable *t, Str text) {
    Str stem = path_stem(member_path(text));
    for (uint32_t i = 0; i < t->member->n; i++) {
        Str own = path_stem(member_path(t->member->at[i]));
        if (str_eq(own, stem) || str_eq(path_base(own), stem))
            return true;
    }
    return false;
}

static int by_key(const void *a, const void *b) {
    return str_cmp(((const TableRow *)a)->key, ((const TableRow *)b)->key);
}

static int by_key_and_line(const void *a, const void *b) {
    int order = by_key(a, b);
    return order ? order : ((const TableRow *)a)->line < ((const TableRow *)b)->line ? -1 : 1;
}

static int by_stem(const void *a, const void *b) {
    return str_cmp(((const TableStem *)a)->name, ((const TableStem *)b)->name);
}

static TableRow *row_of_key(const LabelTable *t, Str key) {
    return bsearch(&(TableRow){.key = key}, t->row.at, t->row.n, sizeof *t->row.at, by_key);
}

// The only row of this stem; NULL: none, or several.
static TableRow *row_of_stem(const LabelTable *t, Str stem) {
    const TableStem *end = t->stem + t->row.n, *at = bsearch(&(TableStem){.name = stem}, t->stem,
                                                             t->row.n, sizeof *t->stem, by_stem);
    bool several = at && ((at > t->stem && by_stem(at - 1, at) == 0) ||
                          (at + 1 < end && by_stem(at, at + 1) == 0));
    return at && !several ? &t->row.at[at->row] : NULL;
}

// The most exact name counts.
static TableRow *find_row(const LabelTable *t, Str member) {
    Str path = member_path(member), stem = path_stem(path);
    TableRow *found = row_of_key(t, path);
    found = found ? found : row_of_key(t, path_base(path));
    found = found ? found : row_of_stem(t, stem);
    return found ? found : row_of_stem(t, path_base(stem));
}

// --- the head: a number of rows, names of columns ------------------------------------------------

static GanStatus next_row(LabelTable *t, bool *end) {
    GanStatus st = table_row(t->perm, &t->text, &t->field, end);
    return st == GAN_OK ? st : fail_in(st, "%.*s", SARG(t->path));
}

// A name of a file that is not here, as of a table for more files than these: it has the form of
// the name below it, an extension or digits alone, which no head has.
static bool is_alike(Str a, Str b) {
    int64_t n;
    Str ext = path_ext(a);
    return ext.len ? str_eq(ext, path_ext(b)) : str_to_int(a, &n) && str_to_int(b, &n);
}

// Whether the row read last names the columns: then the one below it is read. A head that is one
// column short does not name the files'.
static GanStatus take_head(LabelTable *t, StrVec *head, bool *end) {
    Table here = t->text;
    head->n = 0;
    if (*end || names_a_member(t, t->field.at[0]))
        return GAN_OK;
    for (uint32_t i = 0; i < t->field.n; i++)
        vec_push(t->perm, head, t->field.at[i]);
    TRY(next_row(t, end));
    if (*end || !is_alike(head->at[0], t->field.at[0]))
        return GAN_OK;
    t->field.n = 0;
    for (uint32_t i = 0; i < head->n; i++)
        vec_push(t->perm, &t->field, head->at[i]);
    t->text = here;
    head->n = 0;
    return GAN_OK;
}

// Reads on to the first row of labels. *rows: their number, if the table says so (CelebA's do).
static GanStatus read_head(LabelTable *t, int64_t *rows, bool *end) {
    *rows = -1;
    TRY(next_row(t, end));
    if (!*end && t->field.n == 1 && str_to_int(t->field.at[0], rows) && *rows >= 0)
        TRY(next_row(t, end));
    StrVec head = {0};
    TRY(take_head(t, &head, end));
    bool headed = head.n > 0;
    if (*end)
        return fail(GAN_ERR_INPUT, "%.*s: a table without rows", SARG(t->path));
    t->columns = t->field.n;
    if (headed && head.n != t->columns && head.n + 1 != t->columns)
        return fail(GAN_ERR_INPUT, "%.*s: %u names above rows of %u columns", SARG(t->path), head.n,
                    t->columns);
    if (headed && head.n + 1 == t->columns)
        vec_push(t->perm, &t->name, STR("file")); // CelebA's does not name it
    for (uint32_t i = 0; i < head.n; i++)
        vec_push(t->perm, &t->name, head.at[i]);
    for (uint32_t i = 0; !headed && i < t->columns; i++)
        vec_push(t->perm, &t->name, str_format(t->perm, "%u", i + 1));
    return GAN_OK;
}

static GanStatus want_column(LabelTable *t, Str name) {
    uint32_t found = 0, at = 0;
    for (uint32_t i = 1; i < t->columns; i++)
        if (str_eq(t->name.at[i], name))
            found++, at = i;
    if (found > 1)
        return fail(GAN_ERR_INPUT, "%.*s: %u columns are called %.*s", SARG(t->path), found,
                    SARG(name));
    if (found) {
        vec_push(t->perm, &t->wanted, at);
        return GAN_OK;
    }
    return fail(GAN_ERR_INPUT, "%.*s: no column %.*s%s", SARG(t->path), SARG(name),
                known_text(name, t->name.at + 1, t->columns - 1).at);
}

// `columns`: names with commas between them; empty: the only one.
static GanStatus want_columns(LabelTable *t, Str columns) {
    if (t->columns < 2)
        return fail(GAN_ERR_INPUT, "%.*s: line %u: a file without a label", SARG(t->path),
                    t->text.line);
    if (!columns.len && t->columns > 2) {
        Text names = {.arena = t->perm};
        for (uint32_t i = 1; i < t->columns; i++)
            text_fmt(&names, "%s%.*s", i > 1 ? ", " : "", SARG(t->name.at[i]));
        return fail(GAN_ERR_USAGE, "%.*s: choose with --label-columns NAME,...: %.*s",
                    SARG(t->path), SARG(text_str(&names)));
    }
    if (!columns.len)
        return want_column(t, t->name.at[1]);
    for (size_t from = 0; from <= columns.len;) {
        Str rest = str_sub(columns, from, columns.len);
        size_t n = str_find(rest, ',');
        TRY(want_column(t, str_sub(rest, 0, n)));
        from += n + 1;
    }
    return GAN_OK;
}

// --- rows ----------------------------------------------------------------------------------------

static GanStatus take_value(LabelTable *t, uint32_t column) {
    Str text = t->field.at[column];
    double v = NAN;
    bool lacks = t->wanted.n > 1 && (!text.len || table_lacks(text));
    if (lacks && !t->missing)
        return fail(GAN_ERR_INPUT, "%.*s: line %u: %.*s in column %.*s: " MISSING_KEPT,
                    SARG(t->path), t->text.line, SARG(text.len ? text : STR("nothing")),
                    SARG(t->name.at[column]));
    if (!lacks && !text.len)
        return fail(GAN_ERR_INPUT, "%.*s: line %u: nothing in column %.*s", SARG(t->path),
                    t->text.line, SARG(t->name.at[column]));
    bool number = str_to_double(text, &v) && isfinite((float)v);
    if (t->wanted.n == 1)
        vec_push(t->perm, &t->word, text);
    else if (!number && !lacks)
        return fail(GAN_ERR_INPUT,
                    "%.*s: line %u: %.*s in column %.*s is not a number; words are classes, of one "
                    "column alone",
                    SARG(t->path), t->text.line, SARG(text), SARG(t->name.at[column]));
    vec_push(t->perm, &t->number, number ? (float)v : NAN);
    return GAN_OK;
}

static GanStatus sort_rows(LabelTable *t) {
    qsort(t->row.at, t->row.n, sizeof *t->row.at, by_key_and_line);
    for (uint32_t i = 1; i < t->row.n; i++)
        if (str_eq(t->row.at[i - 1].key, t->row.at[i].key))
            return fail(GAN_ERR_INPUT, "%.*s: lines %u and %u: two labels for %.*s", SARG(t->path),
                        t->row.at[i - 1].line, t->row.at[i].line, SARG(t->row.at[i].key));
    t->stem = arena_array(t->perm, TableStem, t->row.n);
    for (uint32_t i = 0; i < t->row.n; i++)
        t->stem[i] = (TableStem){path_stem(t->row.at[i].key), i};
    qsort(t->stem, t->row.n, sizeof *t->stem, by_stem);
    return GAN_OK;
}

static GanStatus read_rows(LabelTable *t, int64_t rows) {
    int64_t count = 0;
    for (bool end = false; !end; count++) {
        if (t->field.n != t->columns)
            return fail(GAN_ERR_INPUT, "%.*s: line %u has %u columns, not %u", SARG(t->path),
                        t->text.line, t->field.n, t->columns);
        // A class that is not there is none of that name: packing the sample says so.
        bool lacks = t->wanted.n == 1 && table_lacks(t->field.at[t->wanted.at[0]]);
        TableRow row = {member_path(t->field.at[0]), t->row.n, t->text.line, false};
        if (!lacks)
            vec_push(t->perm, &t->row, row);
        for (uint32_t k = 0; !lacks && k < t->wanted.n; k++)
            TRY(take_value(t, t->wanted.at[k]));
        TRY(next_row(t, &end));
    }
    if (rows >= 0 && rows != count)
        return fail(GAN_ERR_INPUT, "%.*s: it says that it has %lld rows, and has %lld",
                    SARG(t->path), (long long)rows, (long long)count);
    if (!t->row.n)
        return fail(GAN_ERR_INPUT, "%.*s: no row has a label in column %.*s", SARG(t->path),
                    SARG(t->name.at[t->wanted.at[0]]));
    return sort_rows(t);
}

// --- what the values are -------------------------------------------------------------------------

// CelebA's attributes are -1 and 1. They become 0 and 1, what one_hot and a sigmoid have.
static void make_binary(FloatVec *number) {
    bool signs = true;
    for (uint32_t i = 0; signs && i < number->n; i++)
        signs = number->at[i] == -1 || number->at[i] == 1 || isnan(number->at[i]);
    for (uint32_t i = 0; signs && i < number->n; i++)
        number->at[i] = (number->at[i] + 1) / 2;
}

static bool are_numbers(const FloatVec *v) {
    for (uint32_t i = 0; i < v->n; i++)
        if (isnan(v->at[i]))
            return false;
    return true;
}

static bool are_classes(const FloatVec *v) {
    for (uint32_t i = 0; i < v->n; i++)
        if (!(v->at[i] >= 0 && v->at[i] <= LabelMost && v->at[i] == floorf(v->at[i])))
            return false;
    return true;
}

// Numbers the words of one column in their order.
static GanStatus number_words(LabelTable *t, Labels *l) {
    StrVec all = {0};
    for (uint32_t i = 0; i < t->word.n; i++)
        vec_push(t->perm, &all, t->word.at[i]);
    const Str *name = labels_sorted_names(&all, &l->classes);
    for (uint32_t i = 0; i < t->word.n; i++) {
        const Str *at = bsearch(&t->word.at[i], name, l->classes, sizeof *name, by_str);
        t->number.at[i] = (float)(at - name);
    }
    l->class_name = name;
    return l->classes <= LabelMost ? GAN_OK
                                   : fail(GAN_ERR_INPUT, "%.*s: more than %d different words",
                                          SARG(t->path), LabelMost);
}

static GanStatus give_label(LabelTable *t, Labels *l, Str member) {
    TableRow *row = find_row(t, member);
    if (!row)
        return GAN_OK; // packing it says that it has no label
    if (row->used)
        return fail(GAN_ERR_INPUT,
                    "%.*s: line %u: two files are %.*s, one of them %.*s: the table does not tell "
                    "them apart",
                    SARG(t->path), row->line, SARG(row->key), SARG(member));
    row->used = true;
    const float *v = t->number.at + (size_t)row->index * t->wanted.n;
    if (l->width)
        return labels_add_vector(t->perm, l, member_path(member), v, t->wanted.n);
    labels_add_class(t->perm, l, member_path(member), (uint64_t)v[0]);
    return GAN_OK;
}

static Str in_words(const LabelTable *t) {
    Text s = {.arena = t->perm};
    text_fmt(&s, "%.*s (", SARG(path_base(t->path)));
    for (uint32_t k = 0; k < t->wanted.n; k++)
        text_fmt(&s, "%s%.*s", k ? ", " : "", SARG(t->name.at[t->wanted.at[k]]));
    text_char(&s, ')');
    return text_str(&s);
}

GanStatus labels_of_table(Arena *perm, Str text, Str path, const StrVec *members, Str columns,
                          Labels *l) {
    LabelTable t = {.perm = perm,
                    .path = path,
                    .member = members,
                    .text = table_of(text, table_separator(path, text)),
                    .missing = l->missing};
    int64_t rows;
    bool end;
    TRY(read_head(&t, &rows, &end));
    TRY(want_columns(&t, columns));
    TRY(read_rows(&t, rows));
    if (t.wanted.n == 1 && !are_numbers(&t.number)) { // of several columns they are missing
        TRY(number_words(&t, l));
    } else {
        make_binary(&t.number);
        l->width = t.wanted.n == 1 && are_classes(&t.number) ? 0 : t.wanted.n;
        for (uint32_t i = 0; !l->width && i < t.number.n; i++)
            if (t.number.at[i] >= (float)l->classes)
                l->classes = (uint32_t)t.number.at[i] + 1;
    }
    l->key = LabelByPath;
    l->in = path;
    l->words = in_words(&t);
    for (uint32_t i = 0; i < members->n; i++)
        TRY(give_label(&t, l, members->at[i]));
    return labels_sort(l);
}
