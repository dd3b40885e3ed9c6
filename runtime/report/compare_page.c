// compare_page.c - an HTML page of several runs: the table of compare.c, a plot per loss, report
// and distance with all runs overlaid, and their newest samples.
#include "page.h"
#include "past.h"

#include <math.h>
#include <stdlib.h>

enum { PLOT_W = 860, PLOT_H = 240, LEGEND = 190, POINTS = 300 };

// Neighbours are far apart in hue; from the ninth run on they come again, dashed.
static const char *const colour[] = {"#1a6fb5", "#d95f02", "#1b9e77", "#c2185b",
                                     "#7b5ea7", "#a6761d", "#444444", "#66a61e"};
enum { COLOURS = sizeof colour / sizeof *colour };

typedef struct Point {
    double step, value;
} Point;
typedef struct Line {
    Point at[POINTS];
    uint32_t n;
} Line;

// --- what is drawn -------------------------------------------------------------------------------

// Means of equal numbers of steps.
static void line_of_trail(Line *out, const double *x, uint32_t steps) {
    uint32_t each = steps / POINTS + 1;
    for (uint32_t first = 0; first < steps; first += each) {
        double sum = 0;
        uint32_t n = 0, end = first + each < steps ? first + each : steps;
        for (uint32_t i = first; i < end; i++)
            if (isfinite(x[i]))
                sum += x[i], n++;
        if (n)
            out->at[out->n++] = (Point){(first + end) / 2.0 + 0.5, sum / n};
    }
}

static void line_of_saves(Line *out, const Past *p) {
    uint32_t each = p->save.n / POINTS + 1;
    for (uint32_t i = 0; i < p->save.n; i += each)
        if (isfinite(p->save.at[i].swd))
            out->at[out->n++] = (Point){p->save.at[i].step, p->save.at[i].swd};
}

typedef struct Frame {
    double lo, hi, steps;
} Frame;

// From the 2nd to the 98th percentile of all points, and a little more: one run that leaves does
// not flatten the others.
static Frame frame_of(Arena scratch, const Line *line, uint32_t n) {
    double *all = arena_array(&scratch, double, (size_t)n *POINTS);
    uint32_t count = 0;
    Frame f = {NAN, NAN, 1};
    for (uint32_t r = 0; r < n; r++)
        for (uint32_t i = 0; i < line[r].n; i++) {
            all[count++] = line[r].at[i].value;
            f.steps = fmax(f.steps, line[r].at[i].step);
        }
    if (!count)
        return f;
    qsort(all, count, sizeof *all, by_double);
    double lo = all[count / 50], hi = all[count - 1 - count / 50], more = (hi - lo) / 10;
    f.lo = fmax(all[0], lo - more);
    f.hi = fmin(all[count - 1], hi + more);
    f.hi = f.hi > f.lo ? f.hi : f.lo + 1;
    return f;
}

static void put_line(Text *t, const Line *l, const Frame *f, uint32_t run) {
    text_fmt(t, "<polyline fill=\"none\" stroke=\"%s\" stroke-width=\"1.5\"%s points=\"",
             colour[run % COLOURS], run / COLOURS % 2 ? " stroke-dasharray=\"5 3\"" : "");
    for (uint32_t i = 0; i < l->n; i++) {
        double y = fmin(f->hi, fmax(f->lo, l->at[i].value));
        text_fmt(t, "%.1f,%.1f ", PLOT_W * l->at[i].step / f->steps,
                 8 + (PLOT_H - 16) * (f->hi - y) / (f->hi - f->lo));
    }
    text_put(t, STR("\"/>\n"));
}

static void put_plot(Text *t, Arena scratch, const Pasts *runs, Str name, const Line *line) {
    Frame f = frame_of(scratch, line, runs->n);
    if (isnan(f.lo))
        return;
    int high = PLOT_H > (int)runs->n * 15 + 8 ? PLOT_H : (int)runs->n * 15 + 8;
    text_put(t, STR("<figure><figcaption>"));
    page_text(t, name);
    text_fmt(t, "</figcaption><svg viewBox=\"0 0 %d %d\" width=\"%d\" height=\"%d\">\n",
             PLOT_W + LEGEND, high + 20, PLOT_W + LEGEND, high + 20);
    for (uint32_t r = 0; r < runs->n; r++)
        put_line(t, &line[r], &f, r);
    text_fmt(t,
             "<g font-size=\"11\" fill=\"#888\"><text x=\"2\" y=\"12\">%.4g</text><text x=\"2\" "
             "y=\"%d\">%.4g</text><text x=\"%d\" y=\"%d\" text-anchor=\"end\">%.0f "
             "steps</text></g>\n",
             f.hi, PLOT_H - 4, f.lo, PLOT_W, PLOT_H + 14, f.steps);
    for (uint32_t r = 0; r < runs->n; r++) {
        text_fmt(t, "<text font-size=\"11\" x=\"%d\" y=\"%u\" fill=\"%s\">", PLOT_W + 8,
                 14 + 15 * r, colour[r % COLOURS]);
        page_text(t, path_base(runs->at[r].dir));
        text_put(t, STR("</text>\n"));
    }
    text_put(t, STR("</svg></figure>\n"));
}

static void put_trails(Text *t, Arena scratch, const Pasts *runs, bool report) {
    Words done = {0};
    for (uint32_t r = 0; r < runs->n; r++)
        for (uint32_t i = 0; i < runs->at[r].trail.n; i++) {
            const Trail *x = &runs->at[r].trail.at[i];
            bool drawn = x->report != report || x->of_weight;
            for (uint32_t k = 0; k < done.n; k++)
                drawn = drawn || str_eq(done.at[k].key, x->name);
            if (drawn)
                continue;
            vec_push(t->arena, &done, ((Setting){x->name, x->name}));
            Arena mine = scratch;
            Line *line = arena_array(&mine, Line, runs->n);
            for (uint32_t k = 0; k < runs->n; k++) {
                const Trail *of = past_trail(&runs->at[k], x->name, report);
                if (of)
                    line_of_trail(&line[k], of->value, runs->at[k].steps);
            }
            put_plot(t, mine, runs, x->name, line);
        }
}

static void put_distances(Text *t, Arena scratch, const Pasts *runs) {
    Line *line = arena_array(&scratch, Line, runs->n);
    for (uint32_t r = 0; r < runs->n; r++)
        line_of_saves(&line[r], &runs->at[r]);
    put_plot(t, scratch, runs, STR("distance of samples from data"), line);
}

// --- the rest ------------------------------------------------------------------------------------

static void put_table(Text *t, const Cells *c) {
    text_put(t, STR("<table class=\"runs\">\n"));
    for (uint32_t r = 0; r < c->rows; r++) {
        text_put(t, STR("<tr>"));
        for (uint32_t k = 0; k < c->columns; k++) {
            text_put(t, r ? STR("<td>") : STR("<th>"));
            page_text(t, c->at[r * c->columns + k]);
            text_put(t, r ? STR("</td>") : STR("</th>"));
        }
        text_put(t, STR("</tr>\n"));
    }
    text_put(t, STR("</table>\n<p>Losses and reports are means of the last tenth of a run's "
                    "steps.</p>\n"));
}

static GanStatus put_samples(Text *t, const Pasts *runs) {
    Str folder = STR("samples"); // of the first `sample`
    bool first = true;
    for (uint32_t r = 0; r < runs->n; r++) {
        const Past *p = &runs->at[r];
        PageSteps steps;
        if (!file_exists(path_join(t->arena, p->dir, folder)))
            continue;
        TRY(page_images(t->arena, p->dir, folder, UINT32_MAX, &steps));
        if (!steps.n)
            continue;
        uint32_t step = steps.at[steps.n - 1];
        text_put(t, first ? STR("<h2>Newest samples</h2>\n") : STR(""));
        first = false;
        TRY(page_image(t, p->dir, folder, step, "small",
                       str_format(t->arena, "%.*s after %u steps", SARG(path_base(p->dir)), step)));
        TRY(page_sound(t, p->dir, folder, step));
    }
    return GAN_OK;
}

GanStatus compare_page(Arena scratch, const Pasts *runs, const Cells *c, Str path) {
    Text t = {.arena = &scratch};
    Arena lines;
    TRY(arena_init(&lines, 0));
    page_begin(&t, runs->n == 1 ? runs->at[0].dir : str_format(&scratch, "%u runs", runs->n));
    put_table(&t, c);
    text_put(&t, STR("<h2>Losses</h2>\n"));
    put_trails(&t, lines, runs, false);
    put_trails(&t, lines, runs, true);
    put_distances(&t, lines, runs);
    arena_release(&lines);
    TRY(put_samples(&t, runs));
    text_put(&t, STR("</body></html>\n"));
    Str html = text_str(&t);
    return file_write_atomic(path, html.ptr, html.len);
}
