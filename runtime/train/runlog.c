// runlog.c - log.jsonl: one JSON object per line, appended as training goes, and the curves drawn
// from it.
//
//   {"step":31,"images":992,"losses":{"D":0.61,"D.2":0.55,"G":1.02},"step_ms":410.2,...}
//   {"step":50,"saved":true,"swd":41.7,"swd_patches":120.3,"spread":0.8,"health":"ok"}
//   {"step":50,"save_ms":431.7}
//   {"step":50,"score":"fakes fid of 256 by fid.gan","values":{"fid":9.1},"best":50,
//    "content":"0f3a...","eval_ms":812}
//
// Lines are in order of steps. The line of a save is written, and synced, before its checkpoint, so
// a checkpoint's log is complete; its duration follows afterwards. A resumed run drops lines later
// than its checkpoint, which it writes again, and damaged ones.

#include "runlog.h"

#include <math.h>
#include <string.h>

// --- curves --------------------------------------------------------------------------------------

static void curve_halve(Curve *c) {
    for (uint32_t i = 0; i < CURVE_BINS / 2; i++) {
        c->sum[i] = c->sum[2 * i] + c->sum[2 * i + 1];
        c->n[i] = c->n[2 * i] + c->n[2 * i + 1];
    }
    memset(c->sum + CURVE_BINS / 2, 0, sizeof c->sum / 2);
    memset(c->n + CURVE_BINS / 2, 0, sizeof c->n / 2);
    c->width *= 2;
    c->used = (c->used + 1) / 2;
}

void curve_add(Curve *c, uint32_t step, double y) {
    if (!isfinite(y) || !step)
        return;
    if (!c->width)
        c->width = 1;
    while ((step - 1) / c->width >= CURVE_BINS)
        curve_halve(c);
    uint32_t bin = (step - 1) / c->width;
    c->sum[bin] += y;
    c->n[bin]++;
    if (bin >= c->used)
        c->used = bin + 1;
}

// --- scores --------------------------------------------------------------------------------------

// The monitor's first number after a step. One that is named otherwise was another's.
static void add_score(RunLog *l, uint32_t step, double x) {
    double ahead = l->monitor->better * (x - l->best_value);
    l->scored = step;
    curve_add(&l->curve[l->meter->series.n + 1], step, x);
    if (!l->monitor->better || step <= l->first)
        return;
    l->since_best++;
    if (isfinite(x) && (!l->best || ahead > 0))
        l->best = step, l->best_value = x, l->since_best = 0;
}

static void replay_score(RunLog *l, const Json *line, uint32_t step) {
    const Monitor *m = l->monitor;
    Str content = json_string(json_get(line, "content"), m->content); // earlier versions had none
    if (m->in && str_eq(json_string(json_get(line, "score"), (Str){0}), m->name) &&
        str_eq(content, m->content))
        add_score(l, step, json_number(json_at(json_get(line, "values"), 0), NAN));
}

// --- reading -------------------------------------------------------------------------------------

static void replay_line(RunLog *l, Arena scratch, const Json *line, uint32_t step) {
    if (json_get(line, "score"))
        replay_score(l, line, step);
    if (json_get(line, "saved")) {
        curve_add(&l->curve[l->meter->series.n], step ? step : 1,
                  json_number(json_get(line, "swd"), NAN));
        if (step > l->first)
            health_spread(&l->health, json_number(json_get(line, "spread"), NAN));
    }
    for (uint32_t i = 0; i < l->meter->series.n; i++) {
        const Series *s = &l->meter->series.at[i];
        const Json *group = json_get(line, s->report ? "reports" : "losses");
        double sum = 0;
        uint32_t n = 0;
        for (uint32_t r = 0; group && r < s->rounds; r++) {
            double x =
                json_number(json_get(group, str_z(&scratch, meter_key(&scratch, s, r))), NAN);
            if (isfinite(x))
                sum += x, n++;
        }
        if (!s->report && step > l->first)
            health_step(&l->health, i, n ? sum / n : NAN);
        if (n)
            curve_add(&l->curve[i], step, sum / n);
    }
}

// *keep: whether a line, with its end, is whole and not later than `step`.
static GanStatus replay_whole(RunLog *l, Arena scratch, Str line, uint32_t step, bool *keep) {
    const Json *root;
    *keep = false;
    if (!str_ends(line, STR("\n")))
        return GAN_OK;
    GanStatus st = json_parse(&scratch, line, l->path, &root);
    if (st != GAN_OK)
        return st == GAN_ERR_INPUT ? GAN_OK : st;
    double of = json_number(json_get(root, "step"), -1);
    *keep = of >= 0 && of <= step;
    if (*keep)
        replay_line(l, scratch, root, (uint32_t)of);
    return GAN_OK;
}

// Reads the lines up to `step`. From the first that is damaged or later on the file is written
// anew, without such lines.
static GanStatus replay(RunLog *l, Arena scratch, Str text, uint32_t step) {
    FileOut *anew = NULL;
    GanStatus st = GAN_OK;
    for (size_t at = 0; at < text.len;) {
        size_t end = at + str_find(str_sub(text, at, text.len), '\n') + 1;
        Str line = str_sub(text, at, end);
        bool keep;
        TRY_OUT(replay_whole(l, scratch, line, step, &keep));
        if (!keep && !anew) {
            TRY_OUT(file_out_open(l->path, &anew));
            TRY_OUT(file_out_put(anew, text.ptr, at));
        } else if (keep && anew) {
            TRY_OUT(file_out_put(anew, line.ptr, line.len));
        }
        at = end;
    }
    return anew ? file_out_commit(anew) : GAN_OK;
out:
    file_out_abandon(anew);
    return st;
}

GanStatus runlog_open(Arena *perm, Str dir, uint32_t first, uint32_t step, const Meter *m,
                      const Monitor *monitor, RunLog *out) {
    *out = (RunLog){.path = path_join(perm, dir, STR("log.jsonl")),
                    .first = first,
                    .meter = m,
                    .monitor = monitor,
                    .curves = m->series.n + 1 + (monitor->in != NULL)};
    out->curve = arena_array(perm, Curve, out->curves);
    for (uint32_t i = 0; i < m->series.n; i++)
        out->curve[i].name = m->series.at[i].name;
    out->curve[m->series.n].name = STR("distance of the samples from the data");
    if (monitor->in)
        out->curve[m->series.n + 1].name = monitor->name;
    for (uint32_t i = 0; i < m->series.n; i++)
        out->health.n += !m->series.at[i].report; // they come first
    out->health.loss = arena_array(perm, HealthLoss, out->health.n);
    for (uint32_t i = 0; i < out->health.n; i++)
        out->health.loss[i].critic = meter_critic(m, *perm, i);
    Str text = {0};
    Arena scratch = *perm;
    if (file_exists(out->path))
        TRY(file_read(&scratch, out->path, &text));
    return replay(out, scratch, text, step);
}

// --- writing -------------------------------------------------------------------------------------

static void put_series(JsonOut *j, Arena *a, const Meter *m, bool reports) {
    json_open(j, '{');
    for (uint32_t i = 0; i < m->series.n; i++) {
        const Series *s = &m->series.at[i];
        for (uint32_t r = 0; s->report == reports && r < s->rounds; r++)
            if (s->seen[r])
                json_member_double(j, str_z(a, meter_key(a, s, r)), s->value[r]);
    }
    json_close(j, '}');
}

static void put_parts(JsonOut *j, Arena *a, const Parts *p) {
    json_member_open(j, "shares", '{');
    for (uint32_t i = 0; i < p->part.n; i++)
        json_member_double(j, str_z(a, p->part.at[i].name),
                           round(p->part.at[i].fraction * 1e4) / 1e4);
    json_close(j, '}');
}

GanStatus runlog_step(RunLog *l, Arena scratch, const StepLine *line) {
    for (uint32_t i = 0; i < l->meter->series.n; i++) {
        double mean = series_mean(&l->meter->series.at[i]);
        curve_add(&l->curve[i], line->step, mean);
        if (i < l->health.n)
            health_step(&l->health, i, mean);
    }
    Text t = {.arena = &scratch};
    JsonOut j = {.text = &t};
    json_open(&j, '{');
    json_member_int(&j, "step", line->step);
    json_member_int(&j, "images", line->images);
    json_name(&j, "losses"), put_series(&j, &scratch, l->meter, false);
    json_name(&j, "reports"), put_series(&j, &scratch, l->meter, true);
    json_member_double(&j, "step_ms", round(line->step_ms * 1000) / 1000);
    json_member_double(&j, "data_ms", round(line->data_ms * 1000) / 1000);
    if (line->parts)
        put_parts(&j, &scratch, line->parts);
    json_close(&j, '}');
    return file_append_line(l->path, text_str(&t));
}

Str runlog_health(const RunLog *l, Arena *a) {
    uint32_t of;
    HealthWord w = health_word(&l->health, &of);
    return health_text(a, w, l->health.n ? l->meter->series.at[of].name : (Str){0});
}

GanStatus runlog_save(RunLog *l, Arena scratch, uint32_t step, Distance d) {
    curve_add(&l->curve[l->meter->series.n], step ? step : 1, d.images);
    Text t = {.arena = &scratch};
    JsonOut j = {.text = &t};
    json_open(&j, '{');
    json_member_int(&j, "step", step);
    json_member_bool(&j, "saved", true);
    if (!isnan(d.images))
        json_member_double(&j, "swd", d.images);
    if (!isnan(d.patches))
        json_member_double(&j, "swd_patches", d.patches);
    if (!isnan(d.spread))
        json_member_double(&j, "spread", d.spread);
    health_spread(&l->health, d.spread);
    json_member_str(&j, "health", runlog_health(l, &scratch));
    json_close(&j, '}');
    TRY(file_append_line(l->path, text_str(&t)));
    return file_sync(l->path);
}

GanStatus runlog_saved(const RunLog *l, Arena scratch, uint32_t step, double seconds) {
    return file_append_line(
        l->path, str_format(&scratch, "{\"step\": %u, \"save_ms\": %.3f}", step, seconds * 1000));
}

GanStatus runlog_score(RunLog *l, Arena scratch, uint32_t step, const MetricValues *r,
                       double seconds) {
    Text t = {.arena = &scratch};
    JsonOut j = {.text = &t};
    add_score(l, step, r->value[0]);
    json_open(&j, '{');
    json_member_int(&j, "step", step);
    json_member_str(&j, "score", l->monitor->name);
    json_member_open(&j, "values", '{');
    for (uint32_t i = 0; i < r->n; i++)
        json_member_double(&j, r->name[i], r->value[i]);
    json_close(&j, '}');
    if (l->best)
        json_member_int(&j, "best", l->best);
    if (l->monitor->content.len)
        json_member_str(&j, "content", l->monitor->content);
    json_member_double(&j, "eval_ms", round(seconds * 1e6) / 1000);
    json_close(&j, '}');
    return file_append_line(l->path, text_str(&t));
}
