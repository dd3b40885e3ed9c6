// sampler.c - pictures from an entry point of a model.
//
// Noise follows from the seed and the sample's number alone, so the same grid is drawn again while
// the nets learn.
#include "runs.h"

#include <string.h>

// The data field whose samples look like `t`, NONE when there is none.
static uint32_t field_like(const Module *m, const Type *t) {
    for (uint32_t i = 0; i < m->slot.n; i++) {
        const Slot *s = &m->slot.at[i];
        if (s->kind == SlotData && s->round == 0 && type_same_shape(&s->type, t))
            return i;
    }
    return NONE;
}

// The range its data was scaled to; a net without data, or with mapped data, is taken to end in
// tanh.
static void find_range(const Module *m, Sampler *s) {
    s->lo = -1, s->hi = 1;
    if (s->real_slot == NONE)
        return;
    const Slot *slot = &m->slot.at[s->real_slot];
    const Field *f = &m->stream.at[slot->stream].field.at[slot->site];
    for (uint32_t i = 0; i < f->xform.n; i++)
        if (f->xform.at[i].kind == XformScale)
            s->lo = f->xform.at[i].a, s->hi = f->xform.at[i].b;
        else if (f->xform.at[i].kind == XformMap)
            s->lo = -1, s->hi = 1, s->mapped = true;
}

// The entry's value in the units of its data, where a map has it in others.
static uint32_t raw_node(const Func *f) {
    Str last = f->result.at[f->result.n - 1].name;
    return str_ends(last, STR(".raw")) ? f->result.at[f->result.n - 1].node : f->result.at[0].node;
}

Sampler sampler_of(const Module *m, uint32_t entry) {
    const Func *f = &m->entry.at[entry];
    Sampler s = {.entry = entry, .node = f->result.at[0].node, .real_slot = NONE};
    s.raw = raw_node(f);
    s.type = *node_type(&f->g, s.node);
    s.picture = s.type.batched && s.type.rank == 3 && (s.type.dim[0] == 1 || s.type.dim[0] == 3);
    for (uint32_t i = 0; s.picture && i < 3; i++)
        s.chw[i] = (uint32_t)s.type.dim[i];
    s.real_slot = field_like(m, &s.type);
    find_range(m, &s);
    return s;
}

GanStatus sampler_find(const Module *m, Str name, Sampler *out) {
    uint32_t first = NONE;
    for (uint32_t i = 0; i < m->entry.n; i++) {
        if (!m->entry.at[i].result.n || (name.len && !str_eq(m->entry.at[i].name, name)))
            continue;
        Sampler s = sampler_of(m, i);
        if (first == NONE || (s.picture && !out->picture)) {
            *out = s;
            first = i;
        }
    }
    if (first != NONE)
        return out->type.batched
                   ? GAN_OK
                   : fail(GAN_ERR_INPUT, "sample %.*s is one value, not one for each sample",
                          SARG(m->entry.at[out->entry].name));
    if (!name.len)
        return fail(GAN_ERR_INPUT, "model %.*s has no `sample`", SARG(m->name));
    Str known[64];
    uint32_t n = 0;
    for (uint32_t i = 0; i < m->entry.n && n < 64; i++)
        known[n++] = m->entry.at[i].name;
    Str near = diag_nearest(name, known, n);
    return near.len
               ? fail(GAN_ERR_USAGE, "model %.*s has no sample `%.*s`: did you mean `%.*s`?",
                      SARG(m->name), SARG(name), SARG(near))
               : fail(GAN_ERR_USAGE, "model %.*s has no sample `%.*s`", SARG(m->name), SARG(name));
}

size_t sampler_elements(const Sampler *s) {
    return (size_t)type_sample(&s->type);
}

GanStatus sampler_draw(const Sampler *s, Exec *e, const Plan *plan, Feed *feed, uint64_t seed,
                       size_t first, size_t n, Arena scratch, float *out) {
    size_t batch = (size_t)exec_module(e)->batch, one = sampler_elements(s);
    double *x = arena_array(&scratch, double, batch *one);
    for (size_t at = 0; at < n; at += batch) {
        Counters c = {.seed = seed, .sample0 = (int64_t)(first + at)};
        if (feed)
            TRY(feed_entry(feed, e, s->entry, (first + at) / batch));
        TRY(exec_entry(e, s->entry, &c, NULL));
        TRY(exec_value_get(e, plan, s->node, x, batch * one));
        size_t part = n - at < batch ? n - at : batch;
        for (size_t i = 0; i < part * one; i++)
            out[at * one + i] = (float)x[i];
    }
    return GAN_OK;
}

GanStatus sampler_grid(const Sampler *s, const float *x, size_t n, Str path) {
    uint32_t columns = 1;
    while (columns * columns < n && columns < 8)
        columns++;
    Image picture = {0};
    TRY(image_grid(x, n, s->chw, columns, s->lo, s->hi, &picture));
    GanStatus st = image_write_png(path, &picture);
    image_release(&picture);
    return st;
}
