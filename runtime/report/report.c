// report.c - `ganrun report` and `ganrun diff`: the contents of runs' folders (past.h) as text or
// JSON.
#include "commands.h"
#include "past.h"

#include <math.h>

// --- report --------------------------------------------------------------------------------------

static void put_job(Text *t, const Job *j) {
    text_fmt(t, "  model      %.*s\n  device     %.*s %s, batch %lld, seed %llu\n", SARG(j->origin),
             SARG(j->device), dtype_name[j->real], (long long)j->batch,
             (unsigned long long)j->seed);
    for (uint32_t i = 0; i < j->setting.n; i++)
        text_fmt(t, "  -s         %.*s=%.*s\n", SARG(j->setting.at[i].key),
                 SARG(j->setting.at[i].value));
    for (uint32_t i = 0; i < j->data.n; i++)
        text_fmt(t, "  --data     %.*s=%.*s\n", SARG(j->data.at[i].key), SARG(j->data.at[i].value));
}

static int names_width(const Past *p) {
    size_t wide = 17;
    for (uint32_t i = 0; i < p->trail.n; i++)
        wide = p->trail.at[i].name.len > wide ? p->trail.at[i].name.len : wide;
    return (int)wide;
}

static void report_text(Text *t, Arena scratch, const Past *p) {
    text_fmt(t, "%.*s: %u", SARG(p->dir), p->steps);
    if (p->steps <= p->job.steps)
        text_fmt(t, " of %lld steps", (long long)p->job.steps);
    else
        text_fmt(t, " steps (the last command asked for %lld)", (long long)p->job.steps);
    if (p->saved.n)
        text_fmt(t, ", saved at %u", p->saved.at[p->saved.n - 1]);
    text_char(t, '\n');
    put_job(t, &p->job);
    double ms = past_median(scratch, p->ms, p->steps),
           data = past_median(scratch, p->data_ms, p->steps);
    if (p->steps)
        text_fmt(t, "  a step     %.4g ms in the median, %.2g ms of it for data\n", ms, data);
    for (uint32_t i = 0; i < p->part.n; i++)
        text_fmt(t, "%s%.*s %.1f%%", i ? ", " : "  time       ", SARG(p->part.at[i].name),
                 100 * p->part.at[i].fraction);
    if (p->part.n)
        text_char(t, '\n');
    if (p->health.len && !str_eq(p->health, STR("-")))
        text_fmt(t, "  health     %.*s\n", SARG(p->health));
    if (!isnan(p->swd_last))
        text_fmt(t, "  distance   of samples from data: %.4g at first, %.4g now\n", p->swd_first,
                 p->swd_last);
    if (p->best)
        text_fmt(t, "  best       %.*s: %.6g, step %u\n", SARG(p->best_of), p->best_value, p->best);
    int wide = names_width(p);
    if (p->trail.n)
        text_fmt(t, "\n  %-*s %12s %12s\n", wide + 7, "", "last", "late mean");
    for (uint32_t i = 0; i < p->trail.n; i++) {
        const Trail *x = &p->trail.at[i];
        text_fmt(t, "  %-6s %-*.*s", x->report ? "report" : "loss", wide, SARG(x->name));
        past_put_number(t, past_last(x->value, p->steps), 13);
        past_put_number(t, past_late(x->value, p->steps), 13);
        text_char(t, '\n');
    }
}

static void put_scores(JsonOut *j, const Past *p) {
    json_member_open(j, "scores", '[');
    for (uint32_t i = 0; i < p->score.n; i++) {
        const Score *s = &p->score.at[i];
        json_open(j, '{');
        json_member_str(j, "name", s->name);
        json_member_int(j, "step", s->step);
        json_member_int(j, "seed", (int64_t)s->seed);
        json_member_double(j, "generated", s->generated);
        json_member_double(j, "data", s->real);
        json_close(j, '}');
    }
    json_close(j, ']');
}

static void put_words(JsonOut *j, Arena scratch, const Past *p) {
    Words w = past_words(&scratch, &p->job);
    json_member_open(j, "options", '{');
    for (uint32_t i = 0; i < w.n; i++)
        json_member_str(j, str_z(&scratch, w.at[i].key), w.at[i].value);
    json_close(j, '}');
}

static void report_json(JsonOut *j, Arena scratch, const Past *p) {
    const PastSave *best = past_best(p);
    json_open(j, '{');
    json_member_str(j, "run", p->dir);
    json_member_str(j, "model", p->job.origin);
    json_member_str(j, "hash", p->job.hash);
    json_member_int(j, "steps", p->steps);
    json_member_int(j, "steps_asked", p->job.steps);
    json_member_int(j, "saved", p->saved.n ? p->saved.at[p->saved.n - 1] : 0);
    json_member_double(j, "step_ms", past_median(scratch, p->ms, p->steps));
    json_member_double(j, "swd_first", p->swd_first);
    json_member_double(j, "swd_last", p->swd_last);
    json_member_str(j, "health", p->health);
    json_member_open(j, "shares", '{');
    for (uint32_t i = 0; i < p->part.n; i++)
        json_member_double(j, str_z(&scratch, p->part.at[i].name), p->part.at[i].fraction);
    json_close(j, '}');
    for (int report = 0; report < 2; report++) {
        json_member_open(j, report ? "reports" : "losses", '{');
        for (uint32_t i = 0; i < p->trail.n; i++) {
            const Trail *x = &p->trail.at[i];
            if (x->report != (bool)report)
                continue;
            json_member_open(j, str_z(&scratch, x->name), '{');
            json_member_double(j, "last", past_last(x->value, p->steps));
            json_member_double(j, "late_mean", past_late(x->value, p->steps));
            json_close(j, '}');
        }
        json_close(j, '}');
    }
    json_member_int(j, "best_step", best ? best->step : 0);
    json_member_double(j, "best_swd", best ? best->swd : NAN);
    if (p->best) {
        json_member_open(j, "best_score", '{');
        json_member_str(j, "name", p->best_of);
        json_member_int(j, "step", p->best);
        json_member_double(j, "generated", p->best_value);
        json_close(j, '}');
    }
    put_words(j, scratch, p);
    put_scores(j, p);
    json_close(j, '}');
}

static void reports_json(Text *t, Arena scratch, const Pasts *runs) {
    JsonOut j = {.text = t};
    if (runs->n > 1)
        json_open(&j, '{'), json_member_open(&j, "runs", '[');
    for (uint32_t i = 0; i < runs->n; i++)
        report_json(&j, scratch, &runs->at[i]);
    if (runs->n > 1)
        json_close(&j, ']'), json_close(&j, '}');
    text_char(t, '\n');
}

static GanStatus report_runs(Arena *perm, Arena scratch, const Host *h, const Options *o,
                             const Pasts *runs) {
    Str page = o->at[OptFile].text;
    Text t = {.arena = perm};
    Cells c = compare_cells(perm, runs);
    if (str_ends(page, STR(".csv")))
        TRY(compare_csv(scratch, runs, page));
    else if (page.len)
        TRY(compare_page(scratch, runs, &c, page));
    if (o->at[OptJson].given)
        reports_json(&t, scratch, runs);
    else if (runs->n > 1)
        compare_text(&t, &c);
    else
        report_text(&t, scratch, &runs->at[0]);
    h->console.result(h->console.user, text_str(&t));
    return GAN_OK;
}

// Of several paths, as a shell's pattern gives them, those that exist but are no runs are left out.
// If none is a run, the last one is an error.
static GanStatus open_runs(Arena *perm, const Host *h, const Options *o, Pasts *out) {
    for (uint32_t i = 0; i < o->file.n; i++) {
        Str path = o->file.at[i];
        bool other = file_exists(path) && !run_is(*perm, path);
        if (other && (out->n || i + 1 < o->file.n))
            say(&h->console, "%.*s is not the folder of a run: left out", SARG(path));
        else
            TRY(past_open(perm, path, vec_add(perm, out)));
    }
    past_part_scores(perm, out->at, out->n);
    return GAN_OK;
}

GanStatus cmd_report(Arena *perm, const Host *h, const Options *o) {
    Pasts runs = {0};
    if (o->at[OptFile].given)
        TRY(path_writes(o->at[OptFile].text, ".html .csv", false));
    TRY(open_runs(perm, h, o, &runs));
    Arena scratch;
    TRY(arena_init(&scratch, 0));
    GanStatus st = report_runs(perm, scratch, h, o, &runs);
    arena_release(&scratch);
    return st;
}

// --- diff ----------------------------------------------------------------------------------------

static Str word_of(const Words *w, Str key) {
    for (uint32_t i = 0; i < w->n; i++)
        if (str_eq(w->at[i].key, key))
            return w->at[i].value;
    return STR("-");
}

// Every word of either, the first one's order first.
static void diff_jobs(Text *t, Arena *a, const Job *x, const Job *y) {
    uint32_t found = 0;
    Words one = past_words(a, x), two = past_words(a, y), all = one;
    for (uint32_t i = 0; i < two.n; i++)
        if (str_eq(word_of(&one, two.at[i].key), STR("-")))
            vec_push(a, &all, two.at[i]);
    for (uint32_t i = 0; i < all.n; i++) {
        Str key = all.at[i].key, left = word_of(&one, key), right = word_of(&two, key);
        if (str_eq(left, right))
            continue;
        text_fmt(t, "  %-14.*s %.*s | %.*s\n", SARG(key), SARG(left), SARG(right));
        found++;
    }
    if (!found)
        text_put(t, STR("  the same options\n"));
}

typedef VEC(Str) Lines;

static GanStatus read_lines(Arena *a, Str path, Lines *out) {
    Str text;
    TRY(file_read(a, path, &text));
    for (size_t at = 0; at < text.len;) {
        Str line = str_sub(text, at, at + str_find(str_sub(text, at, text.len), '\n'));
        vec_push(a, out, line);
        at += line.len + 1;
    }
    return GAN_OK;
}

// The longest common lines by the usual table: models are short.
static void diff_lines(Text *t, Arena *a, const Lines *x, const Lines *y) {
    size_t w = (size_t)y->n + 1;
    uint32_t *common = arena_array(a, uint32_t, ((size_t)x->n + 1) * w);
    for (uint32_t i = x->n; i-- > 0;)
        for (uint32_t k = y->n; k-- > 0;) {
            uint32_t down = common[(i + 1) * w + k], right = common[i * w + k + 1];
            common[i * w + k] = str_eq(x->at[i], y->at[k]) ? common[(i + 1) * w + k + 1] + 1
                                : down > right             ? down
                                                           : right;
        }
    for (uint32_t i = 0, k = 0; i < x->n || k < y->n;) {
        bool left = i < x->n && (k == y->n || common[(i + 1) * w + k] >= common[i * w + k + 1]);
        if (i < x->n && k < y->n && str_eq(x->at[i], y->at[k]))
            i++, k++;
        else if (left)
            text_fmt(t, "  - %.*s\n", SARG(x->at[i])), i++;
        else
            text_fmt(t, "  + %.*s\n", SARG(y->at[k])), k++;
    }
}

static GanStatus diff_models(Text *t, Arena *a, const Past *x, const Past *y) {
    enum { LINES_MOST = 5000 };
    if (str_eq(x->job.hash, y->job.hash)) {
        text_put(t, STR("  the same graph\n"));
        return GAN_OK;
    }
    Lines one = {0}, two = {0};
    TRY(read_lines(a, path_join(a, x->dir, STR("resolved.gan")), &one));
    TRY(read_lines(a, path_join(a, y->dir, STR("resolved.gan")), &two));
    if (one.n > LINES_MOST || two.n > LINES_MOST)
        text_put(t, STR("  another graph; the texts are too long to compare here\n"));
    else
        diff_lines(t, a, &one, &two);
    return GAN_OK;
}

static bool same_number(double a, double b) {
    return a == b || (isnan(a) && isnan(b));
}

// Logged numbers are printed to read back exactly: equal texts are equal bits.
static void diff_trails(Text *t, const Past *x, const Past *y) {
    uint32_t n = x->steps < y->steps ? x->steps : y->steps, equal = n, shared = 0;
    for (uint32_t i = 0; i < x->trail.n; i++) {
        const Trail *a = &x->trail.at[i], *b = past_trail(y, a->name, a->report);
        shared += b != NULL;
        for (uint32_t s = 0; b && s < equal; s++)
            if (!same_number(a->value[s], b->value[s]))
                equal = s;
    }
    text_fmt(t, "%u and %u steps", x->steps, y->steps);
    if (shared && n && equal == n)
        text_put(t, STR(", bitwise equal as far as both go"));
    else if (shared && n && equal)
        text_fmt(t, ", bitwise equal up to step %u", equal);
    else if (shared && n)
        text_put(t, STR(", different from the first step on"));
    text_fmt(t, "\n");
    int wide = names_width(x);
    for (uint32_t i = 0; n && i < x->trail.n; i++) {
        const Trail *a = &x->trail.at[i], *b = past_trail(y, a->name, a->report);
        text_fmt(t, "  %-6s %-*.*s", a->report ? "report" : "loss", wide, SARG(a->name));
        past_put_number(t, past_late(a->value, n), 13);
        past_put_number(t, b ? past_late(b->value, n) : NAN, 13);
        text_char(t, '\n');
    }
}

GanStatus cmd_diff(Arena *perm, const Host *h, const Options *o) {
    Past x, y;
    TRY(past_open(perm, o->file.at[0], &x));
    TRY(past_open(perm, o->file.at[1], &y));
    Text t = {.arena = perm};
    text_fmt(&t, "options: %.*s | %.*s\n", SARG(x.dir), SARG(y.dir));
    diff_jobs(&t, perm, &x.job, &y.job);
    text_put(&t, STR("model\n"));
    TRY(diff_models(&t, perm, &x, &y));
    text_put(&t, STR("losses and reports (means of the last tenth both have): "));
    diff_trails(&t, &x, &y);
    h->console.result(h->console.user, text_str(&t));
    return GAN_OK;
}
