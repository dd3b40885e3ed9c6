// report.c - `ganrun report` and `ganrun diff`: what a run's folder says, without its model.
//
// In: options.json, log.jsonl, ckpt/, resolved.gan of one run or two. Out: one screen of text, or
// JSON. Nothing is compiled or computed anew, so a run can be looked at anywhere, while it trains.
#include "runs.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct Trail { // one logged number, step by step
    Str name;
    bool report;
    double *value; // [steps], NaN where it was not logged
} Trail;

typedef struct PastPart { // a part of the time
    Str name;
    double fraction; // while the log is read: added up over the steps that were timed
} PastPart;

typedef struct Past {
    Str dir;
    Job job;
    uint32_t steps; // logged
    VEC(Trail) trail;
    double *ms, *data_ms;       // [steps]
    double swd_first, swd_last; // NaN: none
    double save_ms;             // of all saves but the one before the first step
    VEC(PastPart) part;         // data first, eval last; they add up to 1
    Str health;                 // at the last save, empty: none
    uint32_t saved;             // step of the newest checkpoint, 0 none
} Past;

// --- reading -------------------------------------------------------------------------------------

static Trail *trail_of(Arena *perm, Past *p, Str name, bool report, uint32_t most) {
    for (uint32_t i = 0; i < p->trail.n; i++)
        if (p->trail.at[i].report == report && str_eq(p->trail.at[i].name, name))
            return &p->trail.at[i];
    Trail *t = vec_add(perm, &p->trail);
    *t = (Trail){str_copy(perm, name), report, arena_array(perm, double, most)};
    for (uint32_t i = 0; i < most; i++)
        t->value[i] = NAN;
    return t;
}

static PastPart *part_of(Arena *perm, Past *p, Str name) {
    for (uint32_t i = 0; i < p->part.n; i++)
        if (str_eq(p->part.at[i].name, name))
            return &p->part.at[i];
    vec_push(perm, &p->part, ((PastPart){str_copy(perm, name), 0}));
    return &p->part.at[p->part.n - 1];
}

// What a timed step says of data and saves is of some steps; both are logged for all of them.
static void read_parts(Arena *perm, Past *p, const Json *parts) {
    for (uint32_t i = 0; i < json_count(parts); i++) {
        Str name = json_key(json_at(parts, i));
        if (!str_eq(name, STR("data")) && !str_eq(name, STR("eval")))
            part_of(perm, p, name)->fraction += json_number(json_at(parts, i), 0);
    }
}

static double sum_of(const double *x, uint32_t n) {
    double sum = 0;
    for (uint32_t i = 0; i < n; i++)
        sum += isnan(x[i]) ? 0 : x[i];
    return sum;
}

// What is neither data nor saves is divided as it was in the timed steps.
static void settle_parts(Arena *perm, Past *p) {
    double all = sum_of(p->ms, p->steps) + p->save_ms, timed = 0;
    if (!(all > 0))
        return;
    double data = sum_of(p->data_ms, p->steps) / all, eval = p->save_ms / all;
    for (uint32_t i = 0; i < p->part.n; i++)
        timed += p->part.at[i].fraction;
    if (!timed)
        part_of(perm, p, STR("compute"))->fraction = timed = 1;
    for (uint32_t i = 0; i < p->part.n; i++)
        p->part.at[i].fraction *= (1 - data - eval) / timed;
    vec_push(perm, &p->part, p->part.at[0]);
    memmove(p->part.at + 1, p->part.at, (p->part.n - 1) * sizeof *p->part.at);
    p->part.at[0] = (PastPart){STR("data"), data};
    vec_push(perm, &p->part, ((PastPart){STR("eval"), eval}));
}

static void read_step(Arena *perm, Past *p, const Json *line, uint32_t most) {
    uint32_t step = (uint32_t)json_number(json_get(line, "step"), 0);
    if (json_get(line, "saved")) {
        double swd = json_number(json_get(line, "swd"), NAN);
        p->swd_first = isnan(p->swd_first) ? swd : p->swd_first;
        p->swd_last = isnan(swd) ? p->swd_last : swd;
        p->health = str_copy(perm, json_string(json_get(line, "health"), (Str){0}));
        return;
    }
    if (step < 1 || step > most)
        return;
    if (json_get(line, "save_ms")) {
        p->save_ms += json_number(json_get(line, "save_ms"), 0);
        return;
    }
    p->steps = step > p->steps ? step : p->steps;
    p->ms[step - 1] = json_number(json_get(line, "step_ms"), NAN);
    p->data_ms[step - 1] = json_number(json_get(line, "data_ms"), NAN);
    read_parts(perm, p, json_get(line, "shares"));
    for (int report = 0; report < 2; report++) {
        const Json *group = json_get(line, report ? "reports" : "losses");
        for (uint32_t i = 0; i < json_count(group); i++) {
            const Json *member = json_at(group, i);
            trail_of(perm, p, json_key(member), report, most)->value[step - 1] =
                json_number(member, NAN);
        }
    }
}

static GanStatus read_log(Arena *perm, Past *p) {
    Str path = path_join(perm, p->dir, STR("log.jsonl")), text = {0};
    if (!file_exists(path))
        return GAN_OK;
    TRY(file_read(perm, path, &text));
    uint32_t lines = 0;
    for (size_t i = 0; i < text.len; i++)
        lines += text.ptr[i] == '\n';
    p->ms = arena_array(perm, double, lines);
    p->data_ms = arena_array(perm, double, lines);
    for (size_t at = 0; at < text.len;) { // a torn last line is of a step that will be done again
        Str line = str_sub(text, at, at + str_find(str_sub(text, at, text.len), '\n'));
        const Json *root;
        at += line.len + 1;
        Arena scratch;
        TRY(arena_init(&scratch, (size_t)1 << 30));
        if (at <= text.len && json_parse(&scratch, line, path, &root) == GAN_OK)
            read_step(perm, p, root, lines);
        arena_release(&scratch);
    }
    settle_parts(perm, p);
    return GAN_OK;
}

static GanStatus past_open(Arena *perm, Str dir, Past *out) {
    *out = (Past){.dir = dir, .swd_first = NAN, .swd_last = NAN};
    if (!run_is(*perm, dir))
        return fail(GAN_ERR_INPUT, "%.*s is not the folder of a run: it has no options.json",
                    SARG(dir));
    TRY(run_read(perm, dir, &out->job));
    CheckpointSteps steps;
    TRY(checkpoint_steps(perm, dir, &steps));
    out->saved = steps.n ? steps.at[steps.n - 1] : 0;
    return read_log(perm, out);
}

// --- figures -------------------------------------------------------------------------------------

static double last_of(const double *x, uint32_t n) {
    while (n > 0 && isnan(x[n - 1]))
        n--;
    return n ? x[n - 1] : NAN;
}

// Of the last tenth of the steps.
static double late_mean(const double *x, uint32_t n) {
    double sum = 0;
    uint32_t count = 0;
    for (uint32_t i = n - (n + 9) / 10; i < n; i++)
        if (!isnan(x[i]))
            sum += x[i], count++;
    return count ? sum / count : NAN;
}

static double median_of(Arena scratch, const double *x, uint32_t n) {
    double *sorted = arena_array(&scratch, double, n);
    uint32_t count = 0;
    for (uint32_t i = 0; i < n; i++)
        if (!isnan(x[i]))
            sorted[count++] = x[i];
    if (count)
        qsort(sorted, count, sizeof *sorted, by_double);
    return count ? sorted[count / 2] : NAN;
}

// --- report --------------------------------------------------------------------------------------

static void put_number(Text *t, double x, int width) {
    char text[32];
    snprintf(text, sizeof text, "%.5g", x);
    text_fmt(t, "%*s", width, isnan(x) ? "-" : text);
}

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

static void report_text(Text *t, Arena scratch, const Past *p) {
    text_fmt(t, "%.*s: %u", SARG(p->dir), p->steps);
    if (p->steps <= p->job.steps)
        text_fmt(t, " of %lld steps", (long long)p->job.steps);
    else
        text_fmt(t, " steps (the last command asked for %lld)", (long long)p->job.steps);
    if (p->saved)
        text_fmt(t, ", saved at %u", p->saved);
    text_char(t, '\n');
    put_job(t, &p->job);
    double ms = median_of(scratch, p->ms, p->steps),
           data = median_of(scratch, p->data_ms, p->steps);
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
    if (p->trail.n)
        text_fmt(t, "\n  %-24s %12s %12s\n", "", "last", "late mean");
    for (uint32_t i = 0; i < p->trail.n; i++) {
        const Trail *x = &p->trail.at[i];
        text_fmt(t, "  %-6s %-17.*s", x->report ? "report" : "loss", SARG(x->name));
        put_number(t, last_of(x->value, p->steps), 13);
        put_number(t, late_mean(x->value, p->steps), 13);
        text_char(t, '\n');
    }
}

static void report_json(Text *t, Arena scratch, const Past *p) {
    JsonOut j = {.text = t};
    json_open(&j, '{');
    json_name(&j, "run"), json_put_str(&j, p->dir);
    json_name(&j, "model"), json_put_str(&j, p->job.origin);
    json_name(&j, "hash"), json_put_str(&j, p->job.hash);
    json_name(&j, "steps"), json_put_int(&j, p->steps);
    json_name(&j, "steps_asked"), json_put_int(&j, p->job.steps);
    json_name(&j, "saved"), json_put_int(&j, p->saved);
    json_name(&j, "step_ms"), json_put_double(&j, median_of(scratch, p->ms, p->steps));
    json_name(&j, "swd_first"), json_put_double(&j, p->swd_first);
    json_name(&j, "swd_last"), json_put_double(&j, p->swd_last);
    json_name(&j, "health"), json_put_str(&j, p->health);
    json_name(&j, "shares"), json_open(&j, '{');
    for (uint32_t i = 0; i < p->part.n; i++) {
        json_name(&j, str_z(&scratch, p->part.at[i].name));
        json_put_double(&j, p->part.at[i].fraction);
    }
    json_close(&j, '}');
    for (int report = 0; report < 2; report++) {
        json_name(&j, report ? "reports" : "losses"), json_open(&j, '{');
        for (uint32_t i = 0; i < p->trail.n; i++) {
            const Trail *x = &p->trail.at[i];
            if (x->report != (bool)report)
                continue;
            json_name(&j, str_z(&scratch, x->name)), json_open(&j, '{');
            json_name(&j, "last"), json_put_double(&j, last_of(x->value, p->steps));
            json_name(&j, "late_mean"), json_put_double(&j, late_mean(x->value, p->steps));
            json_close(&j, '}');
        }
        json_close(&j, '}');
    }
    json_close(&j, '}');
    text_char(t, '\n');
}

GanStatus cmd_report(Arena *perm, const Host *h, const Options *o) {
    Past p;
    TRY(past_open(perm, o->file.at[0], &p));
    Text t = {.arena = perm};
    Arena scratch;
    TRY(arena_init(&scratch, (size_t)1 << 30));
    (o->at[OptJson].given ? report_json : report_text)(&t, scratch, &p);
    arena_release(&scratch);
    h->console.result(h->console.user, text_str(&t));
    return GAN_OK;
}

// --- diff ----------------------------------------------------------------------------------------

static void diff_word(Text *t, const char *name, Str a, Str b, uint32_t *found) {
    if (str_eq(a, b))
        return;
    text_fmt(t, "  %-10s %.*s | %.*s\n", name, SARG(a), SARG(b));
    ++*found;
}

static Str number_word(Arena *a, int64_t x) {
    return str_format(a, "%lld", (long long)x);
}

static Str pairs_word(Arena *a, const Setting *at, uint32_t n) {
    Text t = {.arena = a};
    for (uint32_t i = 0; i < n; i++)
        text_fmt(&t, "%s%.*s=%.*s", i ? " " : "", SARG(at[i].key), SARG(at[i].value));
    return text_str(&t);
}

static void diff_jobs(Text *t, Arena *a, const Job *x, const Job *y) {
    uint32_t found = 0;
    diff_word(t, "model", x->origin, y->origin, &found);
    diff_word(t, "settings", pairs_word(a, x->setting.at, x->setting.n),
              pairs_word(a, y->setting.at, y->setting.n), &found);
    diff_word(t, "data", pairs_word(a, x->data.at, x->data.n), pairs_word(a, y->data.at, y->data.n),
              &found);
    diff_word(t, "batch", number_word(a, x->batch), number_word(a, y->batch), &found);
    diff_word(t, "seed", number_word(a, (int64_t)x->seed), number_word(a, (int64_t)y->seed),
              &found);
    diff_word(t, "device", x->device, y->device, &found);
    diff_word(t, "precision", str_c(dtype_name[x->real]), str_c(dtype_name[y->real]), &found);
    diff_word(t, "threads", number_word(a, x->threads), number_word(a, y->threads), &found);
    diff_word(t, "steps", number_word(a, x->steps), number_word(a, y->steps), &found);
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

static const Trail *trail_like(const Past *p, const Trail *like) {
    for (uint32_t i = 0; i < p->trail.n; i++)
        if (p->trail.at[i].report == like->report && str_eq(p->trail.at[i].name, like->name))
            return &p->trail.at[i];
    return NULL;
}

static bool same_number(double a, double b) {
    return a == b || (isnan(a) && isnan(b));
}

// Logged numbers are printed to read back exactly: equal texts are equal bits.
static void diff_trails(Text *t, const Past *x, const Past *y) {
    uint32_t n = x->steps < y->steps ? x->steps : y->steps, equal = n, shared = 0;
    for (uint32_t i = 0; i < x->trail.n; i++) {
        const Trail *a = &x->trail.at[i], *b = trail_like(y, a);
        shared += b != NULL;
        for (uint32_t s = 0; b && s < equal; s++)
            if (!same_number(a->value[s], b->value[s]))
                equal = s;
    }
    text_fmt(t, "%u and %u steps", x->steps, y->steps);
    if (shared && n)
        text_fmt(t,
                 equal == n ? ", equal to the bit as far as both go"
                            : ", equal to the bit in the first %u",
                 equal);
    text_fmt(t, "\n");
    for (uint32_t i = 0; n && i < x->trail.n; i++) {
        const Trail *a = &x->trail.at[i], *b = trail_like(y, a);
        text_fmt(t, "  %-6s %-17.*s", a->report ? "report" : "loss", SARG(a->name));
        put_number(t, late_mean(a->value, n), 13);
        put_number(t, b ? late_mean(b->value, n) : NAN, 13);
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
