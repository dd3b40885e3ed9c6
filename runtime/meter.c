// meter.c - losses and reports of a step, read where their block has just computed them.
#include "runs.h"

#include <math.h>
#include <string.h>

uint32_t tape_rounds(const Func *f, uint32_t block) {
    uint32_t open[64], depth = 0, rounds = 1; // factor of each open mark
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
            if (depth == sizeof open / sizeof *open)
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

static Str update_name(Arena *a, const Module *m, const Update *u) {
    Text t = {.arena = a};
    for (uint32_t i = 0; i < u->net.n; i++)
        text_fmt(&t, "%s%.*s", i ? "+" : "", SARG(m->net.at[u->net.at[i]].name));
    return text_str(&t);
}

// DCGAN updates D twice: the second is D.2.
static Str unique_name(Arena *a, const Meter *m, Str name) {
    Str tried = name;
    for (uint32_t k = 2;; k++) {
        bool taken = false;
        for (uint32_t i = 0; i < m->series.n; i++)
            taken |= str_eq(m->series.at[i].name, tried);
        if (!taken)
            return tried;
        tried = str_format(a, "%.*s.%u", SARG(name), k);
    }
}

static void add_series(Arena *a, Meter *m, Str name, bool report, uint32_t index, uint32_t block) {
    uint32_t rounds = tape_rounds(&m->module->step, block);
    vec_push(a, &m->series,
             ((Series){
                 .name = unique_name(a, m, name),
                 .report = report,
                 .index = index,
                 .block = block,
                 .rounds = rounds,
                 .value = arena_array(a, double, rounds),
                 .seen = arena_array(a, bool, rounds),
             }));
}

void meter_init(Arena *perm, const Module *m, Meter *out) {
    *out = (Meter){.module = m};
    for (uint32_t i = 0; i < m->step.update.n; i++)
        add_series(perm, out, update_name(perm, m, &m->step.update.at[i]), false, i,
                   m->step.update.at[i].block);
    for (uint32_t i = 0; i < m->step.report.n; i++)
        add_series(perm, out, m->step.report.at[i].name, true, i, m->step.report.at[i].block);
}

void meter_clear(Meter *m) {
    m->broken = false;
    for (uint32_t i = 0; i < m->series.n; i++)
        memset(m->series.at[i].seen, 0, m->series.at[i].rounds * sizeof(bool));
}

GanStatus meter_block(Meter *m, Exec *e, uint32_t block, uint32_t round) {
    const Func *f = &m->module->step;
    for (uint32_t i = 0; i < m->series.n; i++) {
        Series *s = &m->series.at[i];
        if (s->block != block || round >= s->rounds)
            continue;
        uint32_t node = s->report ? f->report.at[s->index].node : f->update.at[s->index].loss;
        TRY(exec_value_get(e, exec_step_plan(e), node, &s->value[round], 1));
        s->seen[round] = true;
        if (s->report || isfinite(s->value[round]))
            continue;
        m->broken = true;
        const char *what = isnan(s->value[round]) ? "not a number" : "infinite";
        return s->rounds == 1 ? fail(GAN_ERR_INPUT, "the loss of %.*s is %s", SARG(s->name), what)
                              : fail(GAN_ERR_INPUT, "the loss of %.*s in round %u is %s",
                                     SARG(s->name), round, what);
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
