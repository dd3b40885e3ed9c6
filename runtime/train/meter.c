// meter.c - reads the losses and reports of a step when their block has computed them.
//
// An asynchronous device is not waited for: the numbers of a step are read after later steps have
// been launched, and are logged under their own step.

#include "meter.h"

#include <math.h>
#include <string.h>

uint32_t tape_rounds(const Func *f, uint32_t block) {
    uint32_t open[MAX_SCOPES], depth = 0, rounds = 1; // factor of each open mark
    for (uint32_t i = 0; i < f->tape.n; i++) {
        Ctl c = f->tape.at[i];
        switch (c.kind) {
        case CtlBlock:
            if (c.arg == block)
                return rounds;
            break;
        case CtlRepeat:
        case CtlEvery:
        case CtlIf:
            if (depth == MAX_SCOPES)
                bug("meter: control marks nest too deep");
            open[depth] = c.kind == CtlRepeat ? c.arg : 1;
            rounds *= open[depth++];
            break;
        case CtlEnd:
            rounds /= open[--depth];
            break;
        case CtlElse:
            break;
        }
    }
    return 1;
}

// Is `key` what a round of a series is logged under (meter_key)?
static bool is_round(Str key, Str name, uint32_t rounds) {
    int64_t round;
    return rounds > 1 && str_starts(key, name) &&
           str_to_int(str_sub(key, name.len, key.len), &round) && round >= 0 && round < rounds;
}

// DCGAN updates D twice: the second is D.2. So is the loss of a net D1 beside that of D in a
// `repeat`, whose rounds are D0 and D1: D1.2.
static Str unique_name(Arena *a, const Meter *m, Str name, uint32_t rounds) {
    Str tried = name;
    for (uint32_t k = 2;; k++) {
        bool taken = false;
        for (uint32_t i = 0; i < m->series.n; i++) {
            const Series *s = &m->series.at[i];
            taken |= str_eq(s->name, tried) || is_round(tried, s->name, s->rounds) ||
                     is_round(s->name, tried, rounds);
        }
        if (!taken)
            return tried;
        tried = str_format(a, "%.*s.%u", SARG(name), k);
    }
}

static bool joins(const Meter *m, uint32_t series, const Series *like, uint32_t block) {
    const Series *s = &m->series.at[series];
    bool fits =
        s->report == like->report && s->rounds == like->rounds && str_eq(s->base, like->base);
    for (uint32_t i = 0; fits && i < m->source.n; i++)
        fits = m->source.at[i].series != series ||
               blocks_exclude(&m->module->step, m->source.at[i].block, block);
    return fits;
}

// Is what stands behind the slash of a report's name a weight?
static bool names_weight(const Module *m, Str name) {
    size_t at = 0;
    while (at < name.len && name.ptr[at] != '/')
        at++;
    Str of = str_sub(name, at < name.len ? at + 1 : at, name.len);
    for (uint32_t i = 0; i < m->slot.n; i++)
        if (m->slot.at[i].kind == SlotParam && str_eq(m->slot.at[i].name, of))
            return true;
    return false;
}

// What is compiled once a branch is one series.
static void add_series(Arena *a, Meter *m, Str name, bool report, uint32_t index, uint32_t block) {
    uint32_t rounds = tape_rounds(&m->module->step, block), at = 0;
    Series s = {.base = name, .report = report, .rounds = rounds};
    while (at < m->series.n && !joins(m, at, &s, block))
        at++;
    if (at == m->series.n) {
        s.name = unique_name(a, m, name, rounds);
        s.of_weight = report && names_weight(m->module, name);
        s.first = m->values;
        m->values += rounds;
        s.value = arena_array(a, double, rounds);
        s.seen = arena_array(a, bool, rounds);
        vec_push(a, &m->series, s);
    }
    vec_push(a, &m->source, ((SeriesSource){at, block, index}));
}

void meter_init(Arena *perm, const Module *m, Meter *out) {
    *out = (Meter){.module = m};
    for (uint32_t i = 0; i < m->step.update.n; i++)
        add_series(perm, out, update_name(perm, m, &m->step.update.at[i]), false, i,
                   m->step.update.at[i].block);
    for (uint32_t i = 0; i < m->step.report.n; i++)
        add_series(perm, out, m->step.report.at[i].name, true, i, m->step.report.at[i].block);
    for (uint32_t i = 0; i < m->slot.n; i++)
        out->scaled |= m->slot.at[i].kind == SlotScale;
    for (int i = 0; i < METER_STEPS; i++) {
        out->under_way[i].later = arena_array(perm, FetchedNumber, out->values);
        out->under_way[i].seen = arena_array(perm, bool, out->values);
    }
}

void meter_ahead(Meter *m, const Exec *e) {
    bool room = m->values && exec_fetches(e) / m->values >= METER_STEPS;
    m->ahead = room ? METER_AHEAD : 0;
}

static void clear_series(Meter *m) {
    for (uint32_t i = 0; i < m->series.n; i++)
        memset(m->series.at[i].seen, 0, m->series.at[i].rounds * sizeof(bool));
}

void meter_begin(Meter *m, uint32_t step) {
    m->broken = false;
    m->step = step;
    memset(m->under_way[step % METER_STEPS].seen, 0, m->values * sizeof(bool));
    if (!m->ahead)
        clear_series(m);
}

// An update is skipped now and then and its scale halved. Below the least nothing will help.
static GanStatus check_scale(const Series *s, uint32_t round) {
    Str nets = str_sub(s->name, sizeof SCALE_REPORT - 1, s->name.len);
    if (!str_starts(s->name, STR(SCALE_REPORT)) || s->value[round] >= SCALE_LEAST)
        return GAN_OK;
    return fail(GAN_ERR_INPUT,
                "the updates of %.*s are skipped one after another, for gradients or losses are "
                "not finite in f16 whatever they are scaled by (%g by now): --precision bf16 or "
                "f32 has the range",
                SARG(nets), s->value[round]);
}

static GanStatus take_value(Meter *m, Exec *e, const FetchedNumber *from, Series *s,
                            uint32_t round) {
    TRY(exec_fetched_number(e, from, &s->value[round]));
    s->seen[round] = true;
    if (s->report)
        return check_scale(s, round);
    if (isfinite(s->value[round]) || m->scaled)
        return GAN_OK;
    m->broken = true;
    const char *what = isnan(s->value[round]) ? "not a number" : "infinite";
    return s->rounds == 1 ? fail(GAN_ERR_INPUT, "the loss of %.*s is %s", SARG(s->name), what)
                          : fail(GAN_ERR_INPUT, "the loss of %.*s in round %u is %s", SARG(s->name),
                                 round, what);
}

GanStatus meter_block(Meter *m, Exec *e, uint32_t block, uint32_t round) {
    const Func *f = &m->module->step;
    MeterStep *to = &m->under_way[m->step % METER_STEPS];
    for (uint32_t i = 0; i < m->source.n; i++) {
        const SeriesSource *from = &m->source.at[i];
        Series *s = &m->series.at[from->series];
        if (from->block != block || round >= s->rounds)
            continue;
        uint32_t node = s->report ? f->report.at[from->index].node : f->update.at[from->index].loss;
        TRY(exec_fetch_number(e, exec_step_plan(e), node, &to->later[s->first + round]));
        to->seen[s->first + round] = true;
        if (!m->ahead)
            TRY(take_value(m, e, &to->later[s->first + round], s, round));
    }
    return GAN_OK;
}

GanStatus meter_take(Meter *m, Exec *e, uint32_t step) {
    const MeterStep *from = &m->under_way[step % METER_STEPS];
    if (!m->ahead)
        return GAN_OK; // each was taken when its block had run
    clear_series(m);
    for (uint32_t i = 0; i < m->series.n; i++) {
        Series *s = &m->series.at[i];
        for (uint32_t r = 0; r < s->rounds; r++)
            if (from->seen[s->first + r])
                TRY(take_value(m, e, &from->later[s->first + r], s, r));
    }
    return GAN_OK;
}

double series_mean(const Series *s) {
    double sum = 0;
    uint32_t n = 0;
    for (uint32_t i = 0; i < s->rounds; i++)
        if (s->seen[i])
            sum += s->value[i], n++;
    return n ? sum / n : NAN;
}

static void mark_shown(const Module *m, const Func *f, uint8_t *shown) {
    for (uint32_t id = 1; id < f->g.node.n; id++) {
        if (graph_node(&f->g, id)->op != OpRead)
            continue;
        const Slot *s = &m->slot.at[node_slot(&f->g, id)];
        uint32_t net = s->net; // an average stands for its net
        for (; net != NONE && m->net.at[net].copy_of != NONE; net = m->net.at[net].copy_of)
            shown[net] = 1;
        if (net != NONE)
            shown[net] = 1;
    }
}

bool meter_critic(const Meter *m, Arena scratch, uint32_t series) {
    const Module *of = m->module;
    uint8_t *shown = arena_array(&scratch, uint8_t, of->net.n + 1);
    bool critic = of->entry.n && !m->series.at[series].report;
    for (uint32_t i = 0; i < of->entry.n; i++)
        mark_shown(of, &of->entry.at[i], shown);
    for (uint32_t i = 0; i < m->source.n; i++) {
        const SeriesSource *s = &m->source.at[i];
        if (s->series != series || m->series.at[series].report)
            continue;
        const Update *u = &of->step.update.at[s->index];
        for (uint32_t k = 0; k < u->net.n; k++)
            critic = critic && !shown[u->net.at[k]];
    }
    return critic;
}

Str meter_key(Arena *a, const Series *s, uint32_t round) {
    return s->rounds > 1 ? str_format(a, "%.*s%u", SARG(s->name), round) : s->name;
}

int64_t net_weights(const Module *m, uint32_t net) {
    int64_t n = 0;
    for (uint32_t i = 0; i < m->slot.n; i++)
        if (m->slot.at[i].kind == SlotParam && m->slot.at[i].net == net)
            n += type_sample(&m->slot.at[i].type);
    return n;
}

bool series_ran(const Series *s) {
    bool ran = false;
    for (uint32_t i = 0; i < s->rounds; i++)
        ran |= s->seen[i];
    return ran;
}
