// compare.c - a table of several runs: options that differ, and results.
//
// In: the runs' folders as read. Out: cells. A text column is included when two runs differ in it,
// a numeric column when any run has a value. Runs that differ in the seed only form a group, which
// has an extra row below: mean and standard deviation.
#include "past.h"

#include <math.h>
#include <string.h>

typedef struct Column {
    Str name;
    Str *word;              // [runs]; NULL: numbers
    double *value, *spread; // [runs], NaN: none; spread: standard deviation over evaluations
    int64_t *step;          // [runs] of the value, -1: not said
} Column;
typedef VEC(Column) Columns;

typedef struct Figure { // mean and standard deviation of n numbers
    double mean, spread;
    uint32_t n;
} Figure;

static Figure figure_of(const double *x, uint32_t n) {
    double sum = 0, squares = 0;
    Figure f = {NAN, NAN, 0};
    for (uint32_t i = 0; i < n; i++)
        if (!isnan(x[i]))
            sum += x[i], f.n++;
    if (f.n)
        f.mean = sum / f.n;
    for (uint32_t i = 0; i < n; i++)
        if (!isnan(x[i]))
            squares += (x[i] - f.mean) * (x[i] - f.mean);
    if (f.n > 1)
        f.spread = sqrt(squares / (f.n - 1));
    return f;
}

// --- columns of words ----------------------------------------------------------------------------

static const Column *column_named(const Columns *all, Str name) {
    for (uint32_t i = 0; i < all->n; i++)
        if (str_eq(all->at[i].name, name))
            return &all->at[i];
    return NULL;
}

static bool column_differs(const Column *c, uint32_t runs) {
    for (uint32_t r = 1; r < runs; r++)
        if (!str_eq(c->word[r], c->word[0]))
            return true;
    return false;
}

// Do two runs with the same options have different models? Then a text was edited in between.
static bool text_was_edited(const Pasts *runs, const Columns *words) {
    for (uint32_t r = 1; r < runs->n; r++)
        for (uint32_t k = 0; k < r; k++) {
            bool same = true;
            for (uint32_t i = 0; same && i < words->n; i++)
                same = str_eq(words->at[i].name, STR("seed")) ||
                       str_eq(words->at[i].word[r], words->at[i].word[k]);
            if (same && !str_eq(runs->at[r].job.hash, runs->at[k].job.hash))
                return true;
        }
    return false;
}

static void add_hashes(Arena *a, Columns *out, const Pasts *runs) {
    enum { Shown = 8 }; // digits
    Column *c = vec_add(a, out);
    *c = (Column){.name = STR("model hash"), .word = arena_array(a, Str, runs->n)};
    for (uint32_t r = 0; r < runs->n; r++)
        c->word[r] = str_sub(runs->at[r].job.hash, 0, Shown);
}

// How long a run is to be is no part of what it computes.
static Columns columns_of_words(Arena *a, const Pasts *runs) {
    Columns all = {0}, out = {0};
    for (uint32_t r = 0; r < runs->n; r++) {
        Words w = past_words(a, &runs->at[r].job);
        for (uint32_t i = 0; i < w.n; i++) {
            if (str_eq(w.at[i].key, STR("steps")))
                continue;
            if (!column_named(&all, w.at[i].key))
                vec_push(a, &all,
                         ((Column){.name = w.at[i].key, .word = arena_array(a, Str, runs->n)}));
            column_named(&all, w.at[i].key)->word[r] = w.at[i].value;
        }
    }
    for (int others = 0; others < 2; others++) // configs, of which not every run names all, first
        for (uint32_t i = 0; i < all.n; i++)
            if (str_starts(all.at[i].name, STR("-s ")) != others &&
                column_differs(&all.at[i], runs->n))
                vec_push(a, &out, all.at[i]);
    if (text_was_edited(runs, &out))
        add_hashes(a, &out, runs);
    return out;
}

// --- columns of numbers --------------------------------------------------------------------------

static Column *add_numbers(Arena *a, Columns *out, Str name, uint32_t runs) {
    Column *c = vec_add(a, out);
    *c = (Column){.name = name,
                  .value = arena_array(a, double, runs),
                  .spread = arena_array(a, double, runs),
                  .step = arena_array(a, int64_t, runs)};
    for (uint32_t r = 0; r < runs; r++)
        c->value[r] = c->spread[r] = NAN, c->step[r] = -1;
    return c;
}

static void add_trails(Arena *a, Columns *out, const Pasts *runs, bool report) {
    uint32_t first = out->n;
    for (uint32_t r = 0; r < runs->n; r++)
        for (uint32_t i = 0; i < runs->at[r].trail.n; i++) {
            const Trail *x = &runs->at[r].trail.at[i];
            uint32_t c = first;
            while (c < out->n && !str_eq(out->at[c].name, x->name))
                c++;
            if (x->report != report || x->of_weight)
                continue;
            if (c == out->n)
                add_numbers(a, out, x->name, runs->n);
            out->at[c].value[r] = past_late(x->value, runs->at[r].steps);
        }
}

// A column of scores: a reader's has the ratio of generated to data, a program's both apart.
typedef enum ScorePart { ScoreRatio, ScoreGenerated, ScoreReal } ScorePart;

static double score_value(const Score *s, ScorePart part) {
    return part == ScoreReal                   ? s->real
           : part == ScoreRatio && s->real > 0 ? s->generated / s->real
                                               : s->generated;
}

static Str score_name(Arena *a, const Score *s, ScorePart part) {
    bool ratio = part == ScoreRatio && s->real > 0;
    return str_format(a, "%.*s%s", SARG(s->name),
                      ratio               ? ", generated/data"
                      : part == ScoreReal ? ", data"
                                          : "");
}

// The evaluations of the step that was evaluated last; of two with one seed the later.
static void set_score(Arena scratch, const Past *p, Str name, ScorePart part, Column *c,
                      uint32_t run) {
    double *value = arena_array(&scratch, double, p->score.n);
    uint64_t *seed = arena_array(&scratch, uint64_t, p->score.n);
    uint32_t n = 0, step = 0;
    for (uint32_t i = 0; i < p->score.n; i++)
        if (str_eq(p->score.at[i].name, name))
            step = p->score.at[i].step;
    for (uint32_t i = 0; i < p->score.n; i++) {
        const Score *s = &p->score.at[i];
        if (s->step != step || !str_eq(s->name, name))
            continue;
        uint32_t k = 0;
        while (k < n && seed[k] != s->seed)
            k++;
        n += k == n;
        seed[k] = s->seed, value[k] = score_value(s, part);
    }
    Figure f = figure_of(value, n);
    c->value[run] = f.mean, c->spread[run] = f.spread;
    c->step[run] = part == ScoreReal ? -1 : (int64_t)step;
}

static void add_scores(Arena *a, Columns *out, const Pasts *runs, ScorePart part) {
    uint32_t first = out->n;
    for (uint32_t r = 0; r < runs->n; r++)
        for (uint32_t i = 0; i < runs->at[r].score.n; i++) {
            const Score *s = &runs->at[r].score.at[i];
            Str name = score_name(a, s, part);
            uint32_t c = first;
            if (part == ScoreReal && isnan(s->real))
                continue;
            while (c < out->n && !str_eq(out->at[c].name, name))
                c++;
            if (c == out->n)
                add_numbers(a, out, name, runs->n);
            set_score(*a, &runs->at[r], s->name, part, &out->at[c], r);
        }
}

static Columns columns_of_numbers(Arena *a, const Pasts *runs, bool apart) {
    Columns out = {0};
    add_trails(a, &out, runs, false);
    add_trails(a, &out, runs, true);
    Column last = *add_numbers(a, &out, STR("distance"), runs->n);
    Column best = *add_numbers(a, &out, STR("best kept"), runs->n);
    bool any = false;
    for (uint32_t r = 0; r < runs->n; r++) {
        const PastSave *b = past_best(&runs->at[r]);
        last.value[r] = runs->at[r].swd_last;
        best.value[r] = b ? b->swd : NAN;
        best.step[r] = b ? (int64_t)b->step : -1;
        any = any || b || !isnan(last.value[r]);
    }
    out.n -= any ? 0 : 2;
    add_scores(a, &out, runs, apart ? ScoreGenerated : ScoreRatio);
    if (apart)
        add_scores(a, &out, runs, ScoreReal);
    return out;
}

// --- groups --------------------------------------------------------------------------------------

// Runs of one group have done as many steps, and their seeds differ: a run and its copy are one.
static bool same_but_seed(const Pasts *runs, const Columns *words, uint32_t a, uint32_t b) {
    bool same = runs->at[a].steps == runs->at[b].steps;
    for (uint32_t i = 0; same && i < words->n; i++)
        same = str_eq(words->at[i].name, STR("seed")) ||
               str_eq(words->at[i].word[a], words->at[i].word[b]);
    return same;
}

static bool seed_is_there(const Pasts *runs, const uint32_t *group, uint32_t of, uint32_t run) {
    for (uint32_t r = 0; r < run; r++)
        if (group[r] == of && runs->at[r].job.seed == runs->at[run].job.seed)
            return true;
    return false;
}

// The first run of each run's group; UINT32_MAX: it has none.
static uint32_t *groups_of(Arena *a, const Pasts *runs, const Columns *words) {
    uint32_t *group = arena_array(a, uint32_t, runs->n);
    for (uint32_t r = 0; r < runs->n; r++) {
        while (!same_but_seed(runs, words, group[r], r))
            group[r]++;
        if (seed_is_there(runs, group, group[r], r))
            group[r] = UINT32_MAX;
    }
    return group;
}

static uint32_t group_size(const uint32_t *group, uint32_t of, uint32_t runs) {
    uint32_t n = 0;
    for (uint32_t r = 0; r < runs; r++)
        n += group[r] == of;
    return n;
}

// --- cells ---------------------------------------------------------------------------------------

static Str put_figure(Arena *a, double value, double spread, int64_t step) {
    Text t = {.arena = a};
    if (isnan(value))
        return STR("-");
    text_fmt(&t, "%.4g", value);
    if (!isnan(spread))
        text_fmt(&t, " \xc2\xb1 %.2g", spread);
    if (step >= 0)
        text_fmt(&t, " at %lld", (long long)step);
    return text_str(&t);
}

static void fill_run(Arena *a, Str *row, const Past *p, uint32_t run, const Columns *words,
                     const Columns *numbers) {
    *row++ = p->dir;
    *row++ = str_format(a, "%u", p->steps);
    for (uint32_t i = 0; i < words->n; i++)
        *row++ = words->at[i].word[run].len ? words->at[i].word[run] : STR("-");
    for (uint32_t i = 0; i < numbers->n; i++) {
        const Column *c = &numbers->at[i];
        *row++ = put_figure(a, c->value[run], c->spread[run], c->step[run]);
    }
}

static void fill_group(Arena *a, Str *row, const uint32_t *group, uint32_t of, uint32_t runs,
                       const Columns *words, const Columns *numbers) {
    *row++ = str_format(a, "mean of %u seeds", group_size(group, of, runs));
    *row++ = STR("");
    for (uint32_t i = 0; i < words->n; i++)
        *row++ = str_eq(words->at[i].name, STR("seed")) ? STR("")
                 : words->at[i].word[of].len            ? words->at[i].word[of]
                                                        : STR("-");
    double *value = arena_array(a, double, runs);
    for (uint32_t i = 0; i < numbers->n; i++) {
        for (uint32_t r = 0; r < runs; r++)
            value[r] = group[r] == of ? numbers->at[i].value[r] : NAN;
        Figure f = figure_of(value, runs);
        *row++ = put_figure(a, f.mean, f.spread, -1);
    }
}

Cells compare_cells(Arena *a, const Pasts *runs) {
    Columns words = columns_of_words(a, runs), numbers = columns_of_numbers(a, runs, false);
    uint32_t *group = groups_of(a, runs, &words), groups = 0;
    for (uint32_t r = 0; r < runs->n; r++)
        groups += group[r] == r && group_size(group, r, runs->n) > 1;
    Cells c = {1 + runs->n + groups, 2 + words.n + numbers.n, runs->n, NULL};
    c.at = arena_array(a, Str, (size_t)c.rows * c.columns);
    Str *row = c.at;
    row[0] = STR("run"), row[1] = STR("steps");
    for (uint32_t i = 0; i < words.n; i++)
        row[2 + i] = words.at[i].name;
    for (uint32_t i = 0; i < numbers.n; i++)
        row[2 + words.n + i] = numbers.at[i].name;
    row += c.columns;
    for (uint32_t r = 0; r < runs->n; r++, row += c.columns)
        fill_run(a, row, &runs->at[r], r, &words, &numbers);
    for (uint32_t r = 0; r < runs->n; r++)
        if (group[r] == r && group_size(group, r, runs->n) > 1) {
            fill_group(a, row, group, r, runs->n, &words, &numbers);
            row += c.columns;
        }
    return c;
}

// --- as CSV --------------------------------------------------------------------------------------

static void put_cell(Text *t, Str s) {
    text_put(t, t->n && t->at[t->n - 1] != '\n' ? STR(",\"") : STR("\""));
    for (size_t k = 0; k < s.len; k++) {
        if (s.ptr[k] == '"')
            text_char(t, '"');
        text_char(t, s.ptr[k]);
    }
    text_char(t, '"');
}

static void put_cell_number(Text *t, double x) {
    put_cell(t, isnan(x) ? STR("") : str_double(t->arena, x));
}

// A column of numbers is up to three of the file: value, standard deviation and step. Row 0: names.
static void put_numbers(Text *t, const Column *c, uint32_t runs, uint32_t row) {
    bool spread = false, step = false;
    for (uint32_t r = 0; r < runs; r++) {
        spread = spread || !isnan(c->spread[r]);
        step = step || c->step[r] >= 0;
    }
    if (row == 0) {
        put_cell(t, c->name);
        if (spread)
            put_cell(t, str_format(t->arena, "%.*s, deviation", SARG(c->name)));
        if (step)
            put_cell(t, str_format(t->arena, "%.*s, step", SARG(c->name)));
        return;
    }
    put_cell_number(t, c->value[row - 1]);
    if (spread)
        put_cell_number(t, c->spread[row - 1]);
    if (step)
        put_cell_number(t, c->step[row - 1] < 0 ? NAN : (double)c->step[row - 1]);
}

GanStatus compare_csv(Arena scratch, const Pasts *runs, Str path) {
    Arena *a = &scratch;
    Columns words = columns_of_words(a, runs), numbers = columns_of_numbers(a, runs, true);
    Text t = {.arena = a};
    for (uint32_t row = 0; row <= runs->n; row++) {
        const Past *p = row ? &runs->at[row - 1] : NULL;
        put_cell(&t, p ? p->dir : STR("run"));
        put_cell(&t, p ? str_format(a, "%u", p->steps) : STR("steps"));
        for (uint32_t i = 0; i < words.n; i++)
            put_cell(&t, p ? words.at[i].word[row - 1] : words.at[i].name);
        for (uint32_t i = 0; i < numbers.n; i++)
            put_numbers(&t, &numbers.at[i], runs->n, row);
        text_char(&t, '\n');
    }
    return file_write_atomic(path, t.at, t.n);
}

// --- as text -------------------------------------------------------------------------------------

void compare_text(Text *t, const Cells *c) {
    int *width = arena_array(t->arena, int, c->columns);
    for (uint32_t i = 0; i < c->rows * c->columns; i++)
        if ((int)str_code_points(c->at[i]) > width[i % c->columns])
            width[i % c->columns] = (int)str_code_points(c->at[i]);
    for (uint32_t r = 0; r < c->rows; r++) {
        if (r == c->runs + 1)
            text_char(t, '\n');
        for (uint32_t k = 0; k < c->columns; k++) {
            Str s = c->at[r * c->columns + k];
            int pad = width[k] - (int)str_code_points(s);
            text_fmt(t, k ? "  %*s%.*s" : "%*s%.*s", k ? pad : 0, "", SARG(s));
            text_fmt(t, "%*s", k ? 0 : pad, "");
        }
        text_char(t, '\n');
    }
    text_put(t,
             STR("losses and reports: means of the last tenth; distance: of samples from data\n"));
}
