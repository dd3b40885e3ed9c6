// health.c - see health.h.
//
// Every rule compares a run with itself, since the level of a loss means nothing across models: a
// Wasserstein critic's may be -40, a saturated cross entropy's 0.001. Medians of the last few
// figures are compared, so that one bad batch has no effect.
#include "health.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double Won = 0.05,  // of the critic's largest figure: what is left of its loss
    Worst = 0.8,                 // of the opponent's largest figure
    Doubles = 2,                 // from one figure to the next
    Large = 100,                 // below which no loss diverges
    Fallen = 0.25, Narrow = 0.2; // of the spread at its largest; of the data's

static double median(const double *x) {
    double sorted[HEALTH_TICKS];
    memcpy(sorted, x, sizeof sorted);
    qsort(sorted, HEALTH_TICKS, sizeof *sorted, by_double);
    return sorted[HEALTH_TICKS / 2];
}

static void push(double *last, double x) {
    memmove(last, last + 1, (HEALTH_TICKS - 1) * sizeof *last);
    last[HEALTH_TICKS - 1] = x;
}

// --- what comes in -------------------------------------------------------------------------------

void health_step(Health *h, uint32_t loss, double x) {
    HealthLoss *l = &h->loss[loss];
    if (!isfinite(x))
        return;
    l->sum += x;
    if (++l->steps < HEALTH_TICK)
        return;
    double mean = l->sum / l->steps;
    l->most = l->ticks ? fmax(l->most, mean) : mean;
    l->least = l->ticks ? fmin(l->least, mean) : mean;
    push(l->last, mean);
    l->sum = 0, l->steps = 0;
    l->ticks++;
}

void health_spread(Health *h, double of_data) {
    if (!isfinite(of_data))
        return;
    h->spread = of_data;
    h->most_spread = fmax(h->most_spread, of_data);
}

// --- the rules -----------------------------------------------------------------------------------

static bool diverges(const HealthLoss *l) {
    bool grows = l->ticks >= HEALTH_TICKS && fabs(l->last[HEALTH_TICKS - 1]) > Large;
    for (uint32_t i = 1; i < HEALTH_TICKS; i++)
        grows = grows && fabs(l->last[i]) >= Doubles * fabs(l->last[i - 1]);
    return grows;
}

static bool collapses(const Health *h) {
    return h->spread < Fallen * h->most_spread && h->spread < Narrow;
}

// A loss that was never positive, as the minimax game's, is at its worst near to zero.
static bool is_worst(const HealthLoss *l) {
    if (l->critic || l->ticks < HEALTH_TICKS)
        return false;
    return median(l->last) >= (l->most > 0 ? Worst * l->most : (1 - Worst) * l->least);
}

// A loss that was never negative has a floor to be near to.
static bool has_won(const Health *h, const HealthLoss *l) {
    bool won =
        l->critic && l->ticks >= HEALTH_TICKS && l->least >= 0 && median(l->last) < Won * l->most;
    bool worst = false;
    for (uint32_t i = 0; won && i < h->n; i++)
        worst |= is_worst(&h->loss[i]);
    return won && worst;
}

static bool is_young(const Health *h) {
    bool young = h->n > 0;
    for (uint32_t i = 0; i < h->n; i++)
        young = young && h->loss[i].ticks < HEALTH_TICKS;
    return young;
}

HealthWord health_word(const Health *h, uint32_t *loss) {
    *loss = 0;
    if (is_young(h))
        return HealthYoung;
    for (; *loss < h->n; ++*loss)
        if (diverges(&h->loss[*loss]))
            return HealthDiverging;
    *loss = 0;
    if (collapses(h))
        return HealthCollapsing;
    for (; *loss < h->n; ++*loss)
        if (has_won(h, &h->loss[*loss]))
            return HealthStrong;
    *loss = 0;
    return HealthOk;
}

// --- words ---------------------------------------------------------------------------------------

static const struct {
    const char *text; // the name of a loss goes before it where it begins with a blank
    const char *why;
} words[] = {
    [HealthYoung] = {"-", "there are fewer than five figures of each loss"},
    [HealthOk] = {"ok", "no rule applies"},
    [HealthStrong] =
        {" too strong",
         "its loss has fallen below a twentieth of what it was while its opponent's is "
         "at its worst. A penalty on it, a lower learning rate, and augmentation (diffaug) where "
         "data are few are the usual remedies"},
    [HealthCollapsing] =
        {"collapsing", "samples of the last save differ from one another by less than a fifth of "
                       "what data do, and a quarter of what they did. Go back to a checkpoint; "
                       "minibatch_std, a penalty or lower learning rates are the usual remedies"},
    [HealthDiverging] = {" diverging",
                         "its loss has doubled every hundred steps. Lower learning rates, or "
                         "clip_norm, are the usual remedies"},
};

Str health_text(Arena *a, HealthWord w, Str name) {
    const char *text = words[w].text;
    return *text == ' ' ? str_format(a, "%.*s%s", SARG(name), text) : str_c(text);
}

const char *health_why(HealthWord w) {
    return words[w].why;
}
