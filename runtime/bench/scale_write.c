// scale_write.c - output of a study: study.csv, study.md with the table and a methods section,
// study.svg with the plot.
#include "scale.h"
#include "page.h"

#include <math.h>

static GanStatus write_file(const Study *s, const char *name, Text *t) {
    Str text = text_str(t);
    return file_write_atomic(path_join(s->perm, s->out, str_c(name)), text.ptr, text.len);
}

// --- the table -----------------------------------------------------------------------------------

static const struct {
    const char *name; // of the column in CSV and table
    int digits;
} columns[] = {
    {"step_ms", 2}, {"samples_per_s", 1}, {"speedup", 3},      {"efficiency", 3},
    {"comm_ms", 2}, {"exposed_ms", 2},    {"step_null_ms", 2}, {"simulated_ms", 2},
};
enum { COLUMNS = sizeof columns / sizeof *columns };

static void row_of(const Study *s, const ScalePoint *p, double out[COLUMNS]) {
    double speedup = scale_speedup(s, p);
    const double row[COLUMNS] = {p->ms,      (double)p->batch / p->ms * 1000,
                                 speedup,    speedup / (double)p->ranks,
                                 p->comm_ms, p->exposed_ms,
                                 p->null_ms, p->simulated ? p->ms : p->simulated_ms};
    for (int i = 0; i < COLUMNS; i++)
        out[i] = row[i];
}

static void put_table(const Study *s, Text *t, bool csv) {
    const char *between = csv ? "," : " | ";
    text_fmt(t, "%smode%sranks%ssource%sbatch", csv ? "" : "| ", between, between, between);
    for (int i = 0; i < COLUMNS; i++)
        text_fmt(t, "%s%s", between, columns[i].name);
    text_put(t, csv ? STR("\n") : STR(" |\n|"));
    for (int i = 0; !csv && i < COLUMNS + 4; i++)
        text_put(t, i == 0 || i == 2 ? STR(" --- |") : STR(" ---: |"));
    text_put(t, csv ? (Str){0} : STR("\n"));
    for (uint32_t k = 0; k < s->point.n; k++) {
        const ScalePoint *p = &s->point.at[k];
        double row[COLUMNS];
        row_of(s, p, row);
        text_fmt(t, "%s%s%s%lld%s%s%s%lld", csv ? "" : "| ", scale_mode_name[p->mode], between,
                 (long long)p->ranks, between, p->simulated ? "simulated" : "measured", between,
                 (long long)p->batch);
        for (int i = 0; i < COLUMNS; i++)
            if (isnan(row[i]))
                text_fmt(t, "%s%s", between, csv ? "" : "-");
            else
                text_fmt(t, "%s%.*f", between, columns[i].digits, row[i]);
        text_put(t, csv ? STR("\n") : STR(" |\n"));
    }
}

// --- the words -----------------------------------------------------------------------------------

static double worst_simulated(const Study *s, uint32_t *n) {
    double worst = 0;
    *n = 0;
    for (uint32_t i = 0; i < s->point.n; i++) {
        const ScalePoint *p = &s->point.at[i];
        if (isnan(p->simulated_ms) || p->simulated)
            continue;
        worst = fmax(worst, fabs(p->simulated_ms / p->ms - 1));
        ++*n;
    }
    return worst;
}

static void put_methods(const Study *s, Text *t) {
    uint32_t told;
    double worst = worst_simulated(s, &told);
    text_fmt(t,
             "\n## Methods\n\nOne step of %.*s (all updates, draws and optimizers; data resident) "
             "was timed with ganrun %s on device %s in %s, %lld thread%s a rank: the median of "
             "%lld steps after %lld, or where steps differ the mean over their period. In weak "
             "scaling every rank has %lld samples, in strong "
             "scaling all ranks together; statistics and losses are over the whole batch, so that "
             "the number of ranks does not change what is learned. `comm_ms` is the time the "
             "collectives of a step take, `exposed_ms` what the computing thread waits for them; "
             "`step_null_ms` is the same step with communication left out. Speed-ups are against "
             "one rank.",
             SARG(path_base(s->model)), GAN_VERSION, s->api->name, dtype_name[s->real],
             (long long)s->threads, s->threads == 1 ? "" : "s", (long long)s->timed,
             (long long)s->warmup, (long long)s->batch);
    int64_t most = 1;
    for (uint32_t i = 0; i < s->point.n; i++)
        if (!s->point.at[i].simulated && s->point.at[i].ranks > most)
            most = s->point.at[i].ranks;
    if (most * s->threads > s->cores)
        text_fmt(t,
                 " Measured points of more than %lld threads share the %lld cores of this machine, "
                 "which the simulation does not know.",
                 (long long)s->cores, (long long)s->cores);
    if (s->o->at[OptWire].given)
        text_fmt(t, " Every collective was made to last at least %.3g us + bytes at %.3g Gbit/s.",
                 s->seen.latency * 1e6, s->seen.bandwidth * 8e-9);
    if (s->o->at[OptSimulate].given)
        text_fmt(
            t,
            " Simulated points are a timeline of the launches of one rank, as measured alone on "
            "this machine, with a link of %.3g us and %.3g Gbit/s, on which a sum over R ranks "
            "takes ceil(log2 R) latencies and 2 (R - 1) / R times its bytes; ranks are taken "
            "to be alike.",
            s->link.latency * 1e6, s->link.bandwidth * 8e-9);
    if (told)
        text_fmt(t,
                 " `simulated_ms` is the same of a measured point, of its launches, timed one by "
                 "one, and "
                 "the link it had; over %u points it differs from `step_ms` by %.0f %% at most.",
                 told, worst * 100);
    text_char(t, '\n');
}

// --- the plot ------------------------------------------------------------------------------------

enum { WIDTH = 640, HEIGHT = 420, LEFT = 64, RIGHT = 24, TOP = 40, BOTTOM = 56 };
typedef struct Axes { // log2
    double ranks;     // from 0 to here
    double low, high; // of speed-ups
} Axes;

static double plot_x(const Axes *a, double ranks) {
    return LEFT + log2(ranks) / a->ranks * (WIDTH - LEFT - RIGHT);
}
static double plot_y(const Axes *a, double speedup) {
    return HEIGHT - BOTTOM -
           (log2(speedup) - a->low) / (a->high - a->low) * (HEIGHT - TOP - BOTTOM);
}

static void put_line(Text *t, const Axes *a, double x0, double y0, double x1, double y1,
                     const char *how) {
    text_fmt(t, "<line x1='%.1f' y1='%.1f' x2='%.1f' y2='%.1f' %s/>\n", plot_x(a, x0),
             plot_y(a, y0), plot_x(a, x1), plot_y(a, y1), how);
}

static void put_axes(Text *t, const Axes *a) {
    double right = exp2(a->ranks), bottom = exp2(a->low), top = exp2(a->high);
    int every = (int)(fmax(a->ranks, a->high - a->low) / 8) + 1;
    for (int i = 0; i <= (int)a->ranks; i += every) {
        put_line(t, a, exp2(i), bottom, exp2(i), top, "stroke='#e4e4e4'");
        text_fmt(t, "<text x='%.1f' y='%d' text-anchor='middle'>%.0f</text>\n", plot_x(a, exp2(i)),
                 HEIGHT - BOTTOM + 20, exp2(i));
    }
    for (int i = (int)a->low; i <= (int)a->high; i += every) {
        put_line(t, a, 1, exp2(i), right, exp2(i), "stroke='#e4e4e4'");
        text_fmt(t, "<text x='%d' y='%.1f' text-anchor='end'>%g</text>\n", LEFT - 12,
                 plot_y(a, exp2(i)) + 4, exp2(i));
    }
    double ideal = exp2(fmin(a->ranks, a->high));
    put_line(t, a, 1, 1, ideal, ideal, "stroke='#999' stroke-dasharray='4 4'");
    text_fmt(t, "<text x='%d' y='%d' text-anchor='middle'>ranks</text>\n",
             (WIDTH + LEFT - RIGHT) / 2, HEIGHT - 14);
    text_fmt(t,
             "<text x='18' y='%d' text-anchor='middle' transform='rotate(-90 18 %d)'>speed-up"
             "</text>\n",
             (HEIGHT + TOP - BOTTOM) / 2, (HEIGHT + TOP - BOTTOM) / 2);
}

// A line between neighbours, and points, hollow where simulated. Weak scaling's are larger: both
// begin at the same one.
static void put_curve(Text *t, const Study *s, const Axes *a, ScaleMode mode) {
    static const char *const colour[ScaleModes] = {"#1a6fb5", "#c2571a"};
    const ScalePoint *before = NULL;
    text_fmt(t, "<g stroke='%s' fill='%s'>\n", colour[mode], colour[mode]);
    for (uint32_t i = 0; i < s->point.n; i++) {
        const ScalePoint *p = &s->point.at[i];
        double y = scale_speedup(s, p);
        if (p->mode != mode || isnan(y))
            continue;
        if (before)
            put_line(t, a, (double)before->ranks, scale_speedup(s, before), (double)p->ranks, y,
                     p->simulated ? "stroke-dasharray='2 3'" : "");
        before = p;
    }
    for (uint32_t i = 0; i < s->point.n; i++) {
        const ScalePoint *p = &s->point.at[i];
        double y = scale_speedup(s, p);
        if (p->mode == mode && !isnan(y))
            text_fmt(t, "<circle cx='%.1f' cy='%.1f' r='%d'%s/>\n", plot_x(a, (double)p->ranks),
                     plot_y(a, y), mode == ScaleWeak ? 5 : 3, p->simulated ? " fill='white'" : "");
    }
    text_put(t, STR("</g>\n"));
    if (before)
        text_fmt(t, "<text x='%d' y='%d' fill='%s'>%s scaling</text>\n", LEFT + 12,
                 TOP + 20 + 18 * (int)mode, colour[mode], scale_mode_name[mode]);
}

static void put_plot(Text *t, const Study *s) {
    Axes a = {.ranks = 1, .high = 1};
    for (uint32_t i = 0; i < s->point.n; i++) {
        double y = log2(scale_speedup(s, &s->point.at[i]));
        a.ranks = fmax(a.ranks, ceil(log2((double)s->point.at[i].ranks)));
        a.high = fmax(a.high, isnan(y) ? 0 : ceil(y));
        a.low = fmin(a.low, isnan(y) ? 0 : floor(y));
    }
    a.high = fmax(a.high, a.ranks);
    text_fmt(t,
             "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 %d %d' font-family='sans-serif' "
             "font-size='12'>\n<rect width='100%%' height='100%%' fill='white'/>\n<text x='%d' "
             "y='24'>",
             WIDTH, HEIGHT, LEFT);
    page_text(t, path_base(s->model));
    text_fmt(t, " on device %s; dashed: ideal; hollow: simulated</text>\n", s->api->name);
    put_axes(t, &a);
    for (int m = 0; m < ScaleModes; m++)
        put_curve(t, s, &a, (ScaleMode)m);
    text_put(t, STR("</svg>\n"));
}

GanStatus scale_write(const Study *s) {
    Text csv = {.arena = s->perm}, md = {.arena = s->perm}, svg = {.arena = s->perm};
    put_table(s, &csv, true);
    TRY(write_file(s, "study.csv", &csv));
    text_fmt(&md, "# How %.*s scales\n\n", SARG(path_base(s->model)));
    put_table(s, &md, false);
    s->host->console.result(s->host->console.user, text_str(&md));
    put_methods(s, &md);
    text_put(&md, STR("\n![speed-up](study.svg)\n"));
    TRY(write_file(s, "study.md", &md));
    put_plot(&svg, s);
    TRY(write_file(s, "study.svg", &svg));
    say(&s->host->console, "written: %.*s/study.md, study.csv, study.svg", SARG(s->out));
    return GAN_OK;
}
