// progress.c - the lines a user watches: what is trained, then how it goes.
//
// On a terminal one line is replaced several times a second; elsewhere a line is written every ten
// seconds.
#include "runs.h"

#include <math.h>

static const double every_tty = 0.25, every_plain = 10; // seconds

void progress_title(Arena scratch, const Console *c, const Session *s, const Job *job) {
    const Module *m = &s->compiled.module;
    Text t = {.arena = &scratch};
    text_fmt(&t, "%.*s:", SARG(m->name));
    for (uint32_t i = 0; i < m->net.n; i++) {
        double n = (double)net_weights(m, i);
        const char *unit = n >= 1e6 ? "M" : n >= 1e3 ? "k" : "";
        text_fmt(&t, " %.*s %.3g%s", SARG(m->net.at[i].name),
                 n >= 1e6   ? n / 1e6
                 : n >= 1e3 ? n / 1e3
                            : n,
                 unit);
    }
    text_fmt(&t, " weights; batch %lld;", (long long)job->batch);
    for (uint32_t i = 0; i < job->data.n; i++)
        text_fmt(&t, " %.*s=%.*s", SARG(job->data.at[i].key),
                 SARG(path_base(job->data.at[i].value)));
    int threads = device_threads(s->device);
    text_fmt(&t, "%s %.*s, %d thread%s, %s", job->data.n ? ";" : "", SARG(job->device), threads,
             threads == 1 ? "" : "s", dtype_name[job->real]);
    c->say(c->user, text_str(&t));
}

static void put_duration(Text *t, double seconds) {
    if (seconds >= 3600)
        text_fmt(t, "%.0f h %02.0f min", floor(seconds / 3600), floor(fmod(seconds, 3600) / 60));
    else if (seconds >= 60)
        text_fmt(t, "%.0f min %02.0f s", floor(seconds / 60), floor(fmod(seconds, 60)));
    else
        text_fmt(t, "%.0f s", seconds);
}

static void show(Progress *p, Arena scratch, uint32_t step, bool live) {
    double now = time_now(), spent = now - p->shown;
    uint32_t steps = step - p->shown_step;
    Text t = {.arena = &scratch};
    text_fmt(&t, "step %u/%u  %lld samples ", step, p->last, (long long)step * (long long)p->batch);
    for (uint32_t i = 0; i < p->meter->series.n; i++) {
        double x = series_mean(&p->meter->series.at[i]);
        if (!isnan(x))
            text_fmt(&t, " %.*s %.4g", SARG(p->meter->series.at[i].name), x);
    }
    if (steps && spent > 0) {
        double data = (p->data - p->shown_data) / spent, save = (p->save - p->shown_save) / spent;
        text_fmt(&t, "  %.1f ms/step (data %.0f%% compute %.0f%% save %.0f%%)",
                 spent * 1000 / steps, 100 * data, 100 * fmax(0, 1 - data - save), 100 * save);
    }
    if (step > p->first && step < p->last) {
        text_put(&t, STR("  "));
        put_duration(&t, (now - p->began) / (step - p->first) * (p->last - step));
        text_put(&t, STR(" left"));
    }
    const Console *c = p->console;
    (live ? c->live : c->say)(c->user, text_str(&t));
    if (!c->tty || now - p->reset > 5) { // a terminal's figures are means over some seconds
        p->shown_step = step;
        p->shown_data = p->data, p->shown_save = p->save;
        p->shown = p->reset = now;
    }
    p->last_line = now;
}

void progress_begin(Progress *p) {
    p->began = p->shown = p->reset = time_now();
    p->last_line = 0;
    p->data = p->save = 0;
    p->shown_step = p->first;
}

void progress_step(Progress *p, Arena scratch, uint32_t step) {
    double wait = p->console->tty ? every_tty : every_plain;
    if (step == p->first || step == p->last)
        return; // nothing to show yet; progress_end says it
    if (step == p->first + 1 || time_now() - p->last_line >= wait)
        show(p, scratch, step, p->console->tty);
}

void progress_end(Progress *p, Arena scratch, uint32_t step) {
    if (step == p->first)
        return;
    p->shown = p->began, p->shown_step = p->first; // the last line is about all of it
    p->shown_data = p->shown_save = 0;
    show(p, scratch, step, false);
}
