// progress.c - progress lines: first the model and its data, then the state of training.
//
// A terminal's line is replaced several times a second; elsewhere a line is written every ten
// seconds.

#include "progress.h"

#include <math.h>

static const double every_tty = 0.25, every_plain = 10; // seconds

void progress_title(Arena scratch, const Console *c, const Session *s, const Job *job) {
    const Module *m = &s->compiled.module;
    Text t = {.arena = &scratch};
    text_fmt(&t, "%.*s:", SARG(m->name));
    for (uint32_t i = 0; i < m->net.n; i++) {
        double n = (double)net_weights(m, i);
        const char *unit = n >= 1e6 ? "M" : n >= 1e3 ? "k" : "";
        text_fmt(&t, " %.*s %.3g%s%s", SARG(m->net.at[i].name),
                 n >= 1e6   ? n / 1e6
                 : n >= 1e3 ? n / 1e3
                            : n,
                 unit, net_pretrained(m, i) ? " (pretrained)" : "");
    }
    text_fmt(&t, " weights; batch %lld;", (long long)job_batch(job));
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

Spent progress_spent(const Progress *p) {
    return (Spent){.all = time_now() - p->began,
                   .data = p->data,
                   .comm = comm_stats(p->comm).exposed - p->before,
                   .eval = p->save};
}

// Runs are long: 25000 kimg are written out, not with an exponent.
static void put_figure(Text *t, const char *name, double x) {
    text_fmt(t, x < 100 ? "  %s %.3g" : "  %s %.1f", name, x);
}

void progress_speed(Text *t, const Progress *p, uint32_t step, const Spent *spent, double time) {
    uint32_t steps = step - p->shown_step;
    double batch = (double)job_batch(p->job) / 1000, every = (double)p->job->save_every,
           gib = 1 << 30;
    text_fmt(t, "tick %lld  step %u/%u", (long long)(step / p->job->save_every), step, p->last);
    put_figure(t, "kimg", (double)job_samples(p->job, step) / 1000);
    text_put(t, STR("  time "));
    put_duration(t, time);
    if (steps && spent->all > 0) {
        double tick = (spent->all - spent->eval) / steps * every + p->last_save;
        put_figure(t, "sec/tick", tick);
        put_figure(t, "sec/kimg", tick / (every * batch));
    }
    text_fmt(t, "  cpumem %.2f", (double)mem_peak_rss() / gib);
    if (p->device_bytes)
        text_fmt(t, "  gpumem %.2f", (double)p->device_bytes / gib);
}

static void put_losses(Text *t, const Meter *m) {
    for (uint32_t i = 0, said = 0; i < m->series.n; i++) {
        const Series *s = &m->series.at[i];
        double x = series_mean(s);
        if ((!isnan(x) || (s->report && series_ran(s))) && !s->of_weight)
            text_fmt(t, "%s%.*s %.4g", said++ ? " " : "  ", SARG(s->name), isnan(x) ? NAN : x);
    }
}

// Parts of less than half a hundredth are left out.
static void put_parts(Text *t, const Progress *p, Spent spent) {
    Parts parts = {0};
    parts_find(t->arena, p->shares, spent, &parts);
    for (uint32_t i = 0, said = 0; i < parts.part.n; i++) {
        const Part *x = &parts.part.at[i];
        if (x->fraction >= 0.005)
            text_fmt(t, "%s%.*s %.0f%%", said++ ? " " : "  ", SARG(x->name), 100 * x->fraction);
    }
}

static void show(Progress *p, Arena scratch, uint32_t step, bool live) {
    double now = time_now();
    Spent all = progress_spent(p), spent = spent_since(all, p->shown);
    Text t = {.arena = &scratch};
    progress_speed(&t, p, step, &spent, all.all);
    put_losses(&t, p->meter);
    if (step > p->shown_step && spent.all > 0)
        put_parts(&t, p, spent);
    if (step > p->first && step < p->last) {
        text_put(&t, STR("  eta "));
        put_duration(&t, (now - p->began) / (step - p->first) * (p->last - step));
    }
    uint32_t of;
    HealthWord w = health_word(p->health, &of);
    if (w != HealthYoung && p->health->n)
        text_fmt(&t, "  health %.*s", SARG(health_text(&scratch, w, p->meter->series.at[of].name)));
    const Console *c = p->console;
    (live ? c->live : c->say)(c->user, text_str(&t));
    if (!c->tty || now - p->reset > 5) { // a terminal's figures are means over some seconds
        p->shown_step = step;
        p->shown = all;
        p->reset = now;
    }
    p->last_line = now;
}

void progress_begin(Progress *p) {
    p->began = p->reset = time_now();
    p->before = comm_stats(p->comm).exposed;
    p->last_line = 0;
    p->data = p->save = 0;
    p->shown_step = p->first;
    p->shown = (Spent){0};
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
    p->shown = (Spent){0}, p->shown_step = p->first; // the last line is about all of it
    p->last = step;                                  // also where more were asked for
    show(p, scratch, step, false);
}
