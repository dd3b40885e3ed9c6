// page.c - index.html: a summary of a run in one self-contained file.
//
// In: a run's log, sample images and sounds. Out: sample grids (the newest, then some of earlier
// saves), the newest sounds, a curve per loss and report, and the options. Images and sounds are
// embedded; there are no scripts and no external files.

#include "page.h"

#include <math.h>

enum { GRIDS_SHOWN = 8, PLOT_W = 640, PLOT_H = 150 };

static const char style[] =
    "body{font:16px/1.5 system-ui,sans-serif;max-width:72rem;margin:2rem auto;padding:0 "
    "1rem;color:#222;background:#fff}"
    "h1{margin-bottom:0}h2{margin-top:2rem}figure{display:inline-block;margin:0 1rem 1rem "
    "0;vertical-align:top}"
    "figcaption{color:#666;font-size:.85rem}img{max-width:100%;image-rendering:pixelated;"
    "background:#eee}"
    "img.small{width:16rem}svg{background:#f7f7f7;max-width:100%}table{border-collapse:collapse}"
    "td{padding:.1rem 1.5rem .1rem 0;vertical-align:top}td:first-child{color:#666}"
    "table.runs td,table.runs th{text-align:right;font-variant-numeric:tabular-nums}"
    "table.runs th{padding-right:1.5rem;font-weight:normal;color:#666}"
    "@media(prefers-color-scheme:dark){body{color:#ddd;background:#181818}svg{background:#222}}";

void page_text(Text *t, Str s) {
    for (size_t i = 0; i < s.len; i++)
        switch (s.ptr[i]) {
        case '<':
            text_put(t, STR("&lt;"));
            break;
        case '>':
            text_put(t, STR("&gt;"));
            break;
        case '&':
            text_put(t, STR("&amp;"));
            break;
        case '"':
            text_put(t, STR("&quot;"));
            break;
        default:
            text_char(t, s.ptr[i]);
        }
}

static void put_base64(Text *t, Str bytes) {
    static const char digit[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const uint8_t *p = (const uint8_t *)bytes.ptr;
    for (size_t i = 0; i < bytes.len; i += 3) {
        size_t n = bytes.len - i;
        uint32_t three =
            (uint32_t)p[i] << 16 | (n > 1 ? (uint32_t)p[i + 1] << 8 : 0) | (n > 2 ? p[i + 2] : 0);
        char four[4] = {digit[three >> 18], digit[three >> 12 & 63],
                        n > 1 ? digit[three >> 6 & 63] : '=', n > 2 ? digit[three & 63] : '='};
        text_put(t, (Str){four, 4});
    }
}

// --- images --------------------------------------------------------------------------------------

GanStatus page_images(Arena *a, Str run, Str folder, uint32_t most, PageSteps *out) {
    StrVec names;
    *out = (PageSteps){0};
    TRY(dir_list(a, path_join(a, run, folder), &names));
    for (uint32_t i = 0; i < names.n; i++) {
        int64_t step;
        Str name = names.at[i];
        if (name.len == 12 && str_ends(name, STR(".png")) &&
            str_to_int(str_sub(name, 0, 8), &step) && step <= most)
            vec_push(a, out, (uint32_t)step);
    }
    return GAN_OK;
}

GanStatus page_image(Text *t, Str dir, Str folder, uint32_t step, const char *kind, Str caption) {
    Str png;
    TRY(file_read(t->arena, run_file(t->arena, dir, folder, step, "png"), &png));
    text_fmt(
        t, "<figure><img class=\"%s\" alt=\"samples after %u steps\" src=\"data:image/png;base64,",
        kind, step);
    put_base64(t, png);
    text_put(t, STR("\"><figcaption>"));
    page_text(t, caption);
    text_put(t, STR("</figcaption></figure>\n"));
    return GAN_OK;
}

GanStatus page_sound(Text *t, Str dir, Str folder, uint32_t step) {
    Str path = run_file(t->arena, dir, folder, step, "wav"), wav;
    if (!file_exists(path))
        return GAN_OK;
    TRY(file_read(t->arena, path, &wav));
    text_put(t, STR("<p><audio controls src=\"data:audio/wav;base64,"));
    put_base64(t, wav);
    text_put(t, STR("\"></audio></p>\n"));
    return GAN_OK;
}

static GanStatus put_image(Text *t, const Page *p, Str folder, uint32_t step, const char *kind) {
    return page_image(t, p->dir, folder, step, kind, str_format(t->arena, "after %u steps", step));
}

// Of one `sample`: the newest large, then others evenly spread from the first on.
static GanStatus put_images(Text *t, const Page *p, Str folder, Str title) {
    PageSteps steps;
    TRY(page_images(t->arena, p->dir, folder, p->step, &steps));
    if (!steps.n)
        return GAN_OK;
    text_put(t, STR("<h2>"));
    page_text(t, title);
    text_put(t, STR("</h2>\n"));
    TRY(put_image(t, p, folder, steps.at[steps.n - 1], "newest"));
    TRY(page_sound(t, p->dir, folder, steps.at[steps.n - 1]));
    uint32_t before = steps.n - 1, shown = before < GRIDS_SHOWN ? before : GRIDS_SHOWN;
    if (shown)
        text_put(t, STR("<h3>During training</h3>\n"));
    for (uint32_t i = 0; i < shown; i++)
        TRY(put_image(t, p, folder, steps.at[(uint64_t)i * before / shown], "small"));
    return GAN_OK;
}

static GanStatus put_samples(Text *t, const Page *p) {
    StrVec folder;
    TRY(run_samples(t->arena, p->dir, &folder));
    for (uint32_t i = 0; i < folder.n; i++)
        TRY(put_images(t, p, folder.at[i],
                       i ? str_format(t->arena, "Samples: %.*s", SARG(path_base(folder.at[i])))
                         : STR("Samples")));
    return GAN_OK;
}

// --- curves --------------------------------------------------------------------------------------

static void put_plot(Text *t, const Curve *c, uint32_t last) {
    double lo = INFINITY, hi = -INFINITY;
    for (uint32_t i = 0; i < c->used; i++)
        if (c->n[i]) {
            lo = fmin(lo, c->sum[i] / c->n[i]);
            hi = fmax(hi, c->sum[i] / c->n[i]);
        }
    if (!(lo <= hi))
        return;
    double span = hi > lo ? hi - lo : 1;
    text_put(t, STR("<figure><figcaption>"));
    page_text(t, c->name);
    text_fmt(t,
             "</figcaption><svg viewBox=\"0 0 %d %d\" width=\"%d\" height=\"%d\">"
             "<polyline fill=\"none\" stroke=\"#c40\" stroke-width=\"1.5\" points=\"",
             PLOT_W + 70, PLOT_H, PLOT_W + 70, PLOT_H);
    for (uint32_t i = 0; i < c->used; i++)
        if (c->n[i])
            text_fmt(t, "%.1f,%.1f ", PLOT_W * fmin(1, (i + 0.5) * c->width / fmax(last, 1)),
                     10 + (PLOT_H - 20) * (hi - c->sum[i] / c->n[i]) / span);
    text_fmt(t,
             "\"/><g font-size=\"11\" fill=\"#888\"><text x=\"%d\" y=\"14\">%.4g</text><text "
             "x=\"%d\" y=\"%d\">%.4g"
             "</text></g></svg></figure>\n",
             PLOT_W + 6, hi, PLOT_W + 6, PLOT_H - 6, lo);
}

// Those of single weights, which may be hundreds, are folded.
static void put_curves(Text *t, const Page *p) {
    const Meter *m = p->log->meter;
    uint32_t folded = 0;
    text_put(t, STR("<h2>Losses</h2>\n"));
    for (uint32_t i = 0; i < p->log->curves; i++)
        if (i < m->series.n && m->series.at[i].of_weight)
            folded++;
        else
            put_plot(t, &p->log->curve[i], p->step);
    if (!folded)
        return;
    text_fmt(t, "<details><summary>Reports of single weights: %u</summary>\n", folded);
    for (uint32_t i = 0; i < m->series.n; i++)
        if (m->series.at[i].of_weight)
            put_plot(t, &p->log->curve[i], p->step);
    text_put(t, STR("</details>\n"));
}

// --- the job -------------------------------------------------------------------------------------

static void put_row(Text *t, const char *name, Str value) {
    text_fmt(t, "<tr><td>%s</td><td>", name);
    page_text(t, value);
    text_put(t, STR("</td></tr>\n"));
}

static void put_nets(Text *t, const Page *p) {
    const Module *m = p->module;
    for (uint32_t i = 0; i < m->net.n; i++)
        put_row(t, "net",
                str_format(t->arena, "%.*s, %lld weights%s", SARG(m->net.at[i].name),
                           (long long)net_weights(m, i),
                           net_pretrained(m, i) ? ", pretrained" : ""));
}

static void put_job(Text *t, const Page *p) {
    const Job *job = p->job;
    Arena *a = t->arena;
    text_put(t, STR("<h2>Run</h2>\n<table>\n"));
    put_nets(t, p);
    for (uint32_t i = 0; i < job->setting.n; i++)
        put_row(t, "setting",
                str_format(a, "%.*s = %.*s", SARG(job->setting.at[i].key),
                           SARG(job->setting.at[i].value)));
    for (uint32_t i = 0; i < job->stage.n && job->stage.n > 1; i++) {
        const JobStage *s = &job->stage.at[i];
        put_row(t, "stage",
                str_format(a, "steps %u to %u%s%.*s", s->first + 1, s->last,
                           s->says.len ? ": " : "", SARG(s->says)));
    }
    for (uint32_t i = 0; i < job->data.n; i++)
        put_row(
            t, "data",
            str_format(a, "%.*s = %.*s", SARG(job->data.at[i].key), SARG(job->data.at[i].value)));
    put_row(t, "batch", str_format(a, "%lld", (long long)job->batch));
    put_row(t, "seed", str_format(a, "%llu", (unsigned long long)job->seed));
    put_row(t, "device", str_format(a, "%.*s, %s", SARG(job->device), dtype_name[job->real]));
    put_row(t, "model", job->hash);
    text_put(t, STR("</table>\n"));
}

void page_begin(Text *t, Str title) {
    text_put(t, STR("<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>"));
    page_text(t, title);
    text_fmt(t, "</title><style>%s</style></head><body>\n<h1>", style);
    page_text(t, title);
    text_put(t, STR("</h1>\n"));
}

GanStatus page_write(Arena scratch, const Page *p) {
    Text t = {.arena = &scratch};
    page_begin(&t, p->module->name);
    text_put(&t, STR("<p>"));
    page_text(&t, p->module->doc);
    text_fmt(&t, "<br>%u of %lld steps, %lld samples.</p>\n", p->step, (long long)p->job->steps,
             (long long)job_samples(p->job, p->step));
    TRY(put_samples(&t, p));
    put_curves(&t, p);
    put_job(&t, p);
    text_put(&t, STR("</body></html>\n"));
    Str html = text_str(&t);
    return file_write_atomic(path_join(&scratch, p->dir, STR("index.html")), html.ptr, html.len);
}
