// past.c - reads a run's folder without its model.
//
// In: options.json, log.jsonl, scores.jsonl, ckpt/ of a run. Out: Past. Nothing is compiled or
// computed, so a run can be inspected on any machine, also while it trains.
#include "past.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// --- reading -------------------------------------------------------------------------------------

static bool trail_is(const Trail *t, Str name, bool report) {
    return t->report == report && str_eq(t->name, name);
}

// "grad/D.conv.0.w": an optimizer's report of one weight, of which there may be hundreds.
static bool names_weight(Str name) {
    bool slash = false;
    for (size_t i = 0; i < name.len; i++) {
        if (slash && name.ptr[i] == '.')
            return true;
        slash = slash || name.ptr[i] == '/';
    }
    return false;
}

// A number for each step, none known yet.
static double *unknown(Arena *perm, uint32_t steps) {
    double *x = arena_array(perm, double, steps);
    for (uint32_t i = 0; i < steps; i++)
        x[i] = NAN;
    return x;
}

// *next: where lines that name the same numbers in the same order find the next one.
static Trail *trail_of(Arena *perm, Past *p, Str name, bool report, uint32_t most, uint32_t *next) {
    for (uint32_t k = 0; k < p->trail.n; k++) {
        uint32_t i = (*next + k) % p->trail.n;
        *next = i + 1;
        if (trail_is(&p->trail.at[i], name, report))
            return &p->trail.at[i];
    }
    Trail *t = vec_add(perm, &p->trail);
    *t = (Trail){str_copy(perm, name), report, report && names_weight(name), unknown(perm, most)};
    *next = p->trail.n;
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

// 0 where the line says none.
static uint32_t step_of(const Json *line, const char *name) {
    uint64_t step = 0;
    json_whole(json_get(line, name), UINT32_MAX, &step);
    return (uint32_t)step;
}

// What training itself has measured, as `ganrun eval` would have said it.
static void read_measured(Arena *perm, Past *p, const Json *line, uint32_t step) {
    double generated = json_number(json_at(json_get(line, "values"), 0), NAN);
    Str name = str_copy(perm, json_string(json_get(line, "score"), (Str){0})),
        content = str_copy(perm, json_string(json_get(line, "content"), (Str){0}));
    p->save_ms += json_number(json_get(line, "eval_ms"), 0);
    p->best = step_of(line, "best");
    p->best_value = p->best == step ? generated : p->best_value;
    p->best_of = name;
    vec_push(perm, &p->score, ((Score){name, step, p->job.seed, content, generated, NAN}));
}

static void read_step(Arena *perm, Past *p, const Json *line, uint32_t most) {
    uint32_t step = step_of(line, "step");
    p->ms = p->ms ? p->ms : unknown(perm, most);
    p->data_ms = p->data_ms ? p->data_ms : unknown(perm, most);
    if (json_get(line, "saved")) {
        double swd = json_number(json_get(line, "swd"), NAN);
        p->swd_first = isnan(p->swd_first) ? swd : p->swd_first;
        p->swd_last = isnan(swd) ? p->swd_last : swd;
        if (!isnan(swd))
            vec_push(perm, &p->save, ((PastSave){step, swd}));
        p->health = str_copy(perm, json_string(json_get(line, "health"), (Str){0}));
        return;
    }
    if (step < 1 || step > most)
        return;
    if (json_get(line, "score")) {
        read_measured(perm, p, line, step);
        return;
    }
    if (json_get(line, "save_ms")) {
        p->save_ms += json_number(json_get(line, "save_ms"), 0);
        return;
    }
    p->steps = step > p->steps ? step : p->steps;
    p->ms[step - 1] = json_number(json_get(line, "step_ms"), NAN);
    p->data_ms[step - 1] = json_number(json_get(line, "data_ms"), NAN);
    read_parts(perm, p, json_get(line, "shares"));
    uint32_t next = 0;
    for (int report = 0; report < 2; report++) {
        const Json *group = json_get(line, report ? "reports" : "losses");
        for (uint32_t i = 0; i < json_count(group); i++) {
            const Json *member = json_at(group, i);
            trail_of(perm, p, json_key(member), report, most, &next)->value[step - 1] =
                json_number(member, NAN);
        }
    }
}

// A member that runs of earlier versions have under another name.
static double renamed(const Json *line, const char *name, const char *before) {
    return json_number(json_get(line, name), json_number(json_get(line, before), NAN));
}

static void read_score(Arena *perm, Past *p, const Json *line, uint32_t most) {
    uint64_t seed = 0;
    (void)most;
    json_whole(json_get(line, "seed"), UINT64_MAX, &seed);
    vec_push(perm, &p->score,
             ((Score){str_copy(perm, json_string(json_get(line, "name"), (Str){0})),
                      step_of(line, "step"), seed,
                      str_copy(perm, json_string(json_get(line, "content"), (Str){0})),
                      renamed(line, "generated", "made"), renamed(line, "data", "real")}));
}

typedef void ReadLine(Arena *perm, Past *p, const Json *line, uint32_t most);

// No step of the text is beyond this one: that of its last whole line, as lines are in order of
// steps, whether or not all are there; without one as many as there are lines.
static uint32_t most_steps(Arena scratch, const Past *p, Str text, Str path) {
    const Json *root;
    uint32_t lines = 0, last = 0;
    for (size_t i = 0; i < text.len; i++)
        lines += text.ptr[i] == '\n';
    while (text.len && text.ptr[text.len - 1] != '\n')
        text.len--;
    size_t from = text.len ? text.len - 1 : 0;
    while (from > 0 && text.ptr[from - 1] != '\n')
        from--;
    if (text.len && json_parse(&scratch, str_sub(text, from, text.len), path, &root) == GAN_OK)
        last = step_of(root, "step");
    last = last < p->job.steps ? last : (uint32_t)p->job.steps; // where it is damaged
    return last > lines ? last : lines;
}

// A torn last line is of a step that will be done again.
static GanStatus each_line(Arena *perm, Past *p, const char *name, ReadLine *read) {
    Str path = path_join(perm, p->dir, str_c(name)), text = {0};
    if (!file_exists(path))
        return GAN_OK;
    TRY(file_read(perm, path, &text));
    Arena scratch;
    TRY(arena_init(&scratch, (size_t)1 << 30));
    uint32_t most = most_steps(scratch, p, text, path);
    for (size_t at = 0; at < text.len;) {
        Str line = str_sub(text, at, at + str_find(str_sub(text, at, text.len), '\n'));
        const Json *root;
        at += line.len + 1;
        Arena room = scratch; // of a line
        if (at <= text.len && json_parse(&room, line, path, &root) == GAN_OK)
            read(perm, p, root, most);
    }
    arena_release(&scratch);
    return GAN_OK;
}

GanStatus past_open(Arena *perm, Str dir, Past *out) {
    *out = (Past){.dir = dir, .swd_first = NAN, .swd_last = NAN};
    TRY(run_want(*perm, dir));
    TRY(run_read(perm, dir, &out->job));
    TRY(checkpoint_steps(perm, dir, &out->saved));
    TRY(each_line(perm, out, "scores.jsonl", read_score));
    TRY(each_line(perm, out, "log.jsonl", read_step));
    settle_parts(perm, out);
    return GAN_OK;
}

// Of a name: the first content, plus 1; OTHER_CONTENTS where there is another.
#define OTHER_CONTENTS UINT32_MAX

void past_part_scores(Arena *perm, Past *p, uint32_t n) {
    Map of = {0};
    VEC(Str) content = {0};
    for (uint32_t pass = 0; pass < 2; pass++)
        for (uint32_t r = 0; r < n; r++)
            for (uint32_t i = 0; i < p[r].score.n; i++) {
                Score *s = &p[r].score.at[i];
                uint64_t key = hash64(s->name.ptr, s->name.len, 0);
                uint32_t at = s->content.len ? map_find(&of, key) : 0;
                if (pass && at == OTHER_CONTENTS)
                    s->name = str_format(perm, "%.*s (%.*s)", SARG(s->name),
                                         SARG(str_sub(s->content, 0, 8)));
                if (pass || !s->content.len)
                    continue;
                if (!at) {
                    vec_push(perm, &content, s->content);
                    map_put(perm, &of, key, content.n);
                } else if (at != OTHER_CONTENTS && !str_eq(content.at[at - 1], s->content)) {
                    map_put(perm, &of, key, OTHER_CONTENTS);
                }
            }
}

// --- figures -------------------------------------------------------------------------------------

double past_last(const double *x, uint32_t n) {
    while (n > 0 && isnan(x[n - 1]))
        n--;
    return n ? x[n - 1] : NAN;
}

double past_late(const double *x, uint32_t n) {
    double sum = 0;
    uint32_t count = 0;
    for (uint32_t i = n - (n + 9) / 10; i < n; i++)
        if (!isnan(x[i]))
            sum += x[i], count++;
    return count ? sum / count : NAN;
}

double past_median(Arena scratch, const double *x, uint32_t n) {
    double *sorted = arena_array(&scratch, double, n);
    uint32_t count = 0;
    for (uint32_t i = 0; i < n; i++)
        if (!isnan(x[i]))
            sorted[count++] = x[i];
    if (count)
        qsort(sorted, count, sizeof *sorted, by_double);
    return count ? sorted[count / 2] : NAN;
}

const PastSave *past_best(const Past *p) {
    const PastSave *best = NULL;
    for (uint32_t i = 0; i < p->save.n; i++) {
        const PastSave *s = &p->save.at[i];
        bool there = false;
        for (uint32_t k = 0; k < p->saved.n; k++)
            there = there || p->saved.at[k] == s->step;
        if (there && (!best || s->swd < best->swd))
            best = s;
    }
    return best;
}

const Trail *past_trail(const Past *p, Str name, bool report) {
    for (uint32_t i = 0; i < p->trail.n; i++)
        if (trail_is(&p->trail.at[i], name, report))
            return &p->trail.at[i];
    return NULL;
}

// --- as words ------------------------------------------------------------------------------------

void past_put_number(Text *t, double x, int width) {
    char text[32];
    snprintf(text, sizeof text, "%.5g", x);
    text_fmt(t, "%*s", width, isnan(x) ? "-" : text);
}

static void add_word(Arena *a, Words *w, const char *key, Str value) {
    vec_push(a, w, ((Setting){str_c(key), value}));
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

Words past_words(Arena *a, const Job *j) {
    Words w = {0};
    add_word(a, &w, "model", j->origin);
    for (uint32_t i = 0; i < j->setting.n; i++)
        add_word(a, &w, str_format(a, "-s %.*s", SARG(j->setting.at[i].key)).ptr,
                 j->setting.at[i].value);
    add_word(a, &w, "data", pairs_word(a, j->data.at, j->data.n));
    add_word(a, &w, "from", j->from);
    add_word(a, &w, "from_optimizer", j->from_optimizer ? STR("on") : STR("off"));
    add_word(a, &w, "batch", number_word(a, j->batch));
    add_word(a, &w, "seed", number_word(a, (int64_t)j->seed));
    add_word(a, &w, "device", j->device);
    add_word(a, &w, "precision", str_c(dtype_name[j->real]));
    add_word(a, &w, "tf32", j->tf32 ? STR("on") : STR("off"));
    add_word(a, &w, "deterministic", number_word(a, j->split.chunks));
    add_word(a, &w, "micro", number_word(a, j->split.micro));
    add_word(a, &w, "bucket_bytes", number_word(a, j->split.bucket));
    add_word(a, &w, "compress", j->compress ? STR("bf16") : STR("off"));
    add_word(a, &w, "threads", number_word(a, j->threads));
    add_word(a, &w, "steps", number_word(a, j->steps));
    return w;
}
