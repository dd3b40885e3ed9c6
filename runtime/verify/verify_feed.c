// verify_feed.c - inputs of a reference case: initial values and, step by step, random numbers and
// data.
//
// In: entries of the case, which name formulas (formula.c). Out: slots of the open session, each
// rank's own samples. A shape or a count that differs from the model's is GAN_ERR_INPUT.
#include "formula.h"
#include "verify.h"

#include <math.h>

enum { step_func = 1 }; // Site.func of the step: 0 is init, 2... the entry points

static const char *const kind_name[KindCount] = {"normal", "uniform", "labels", "data"};

// --- numbers of the case -------------------------------------------------------------------------

static double held(double x, Dtype real) {
    int exponent, digits = real == DtF32 ? 24 : real == DtBF16 ? 8 : real == DtF16 ? 11 : 53;
    (void)frexp(x, &exponent);
    double ulp = ldexp(1, exponent - digits);
    return isfinite(x) ? rint(x / ulp) * ulp : x;
}

static GanStatus fill(const Verify *v, const Json *entry, double *x, size_t n) {
    TRY(formula_fill(entry, x, n));
    for (size_t i = 0; i < n; i++)
        x[i] = held(x[i], v->hold);
    return GAN_OK;
}

// --- start ---------------------------------------------------------------------------------------

static uint32_t net_find(const Module *m, Str name) {
    for (uint32_t i = 0; i < m->net.n; i++)
        if (str_eq(m->net.at[i].name, name))
            return i;
    return NONE;
}

// The k-th slot of a kind in a net, in order of creation.
static uint32_t net_slot(const Module *m, uint32_t net, SlotKind kind, uint32_t k) {
    for (uint32_t i = 0; i < m->slot.n; i++)
        if (m->slot.at[i].net == net && m->slot.at[i].kind == kind && !k--)
            return i;
    return NONE;
}

static bool shape_is(const Type *t, int64_t batch, const Json *shape) {
    uint32_t lead = t->batched ? 1 : 0;
    if (json_count(shape) != t->rank + lead ||
        (lead && json_number(json_at(shape, 0), -1) != (double)batch))
        return false;
    for (uint32_t i = 0; i < t->rank; i++)
        if (json_number(json_at(shape, i + lead), -1) != (double)t->dim[i])
            return false;
    return true;
}

static Str shape_text(Arena *a, const Json *shape) {
    Text t = {.arena = a};
    text_char(&t, '[');
    for (uint32_t i = 0; i < json_count(shape); i++)
        text_fmt(&t, "%s%.0f", i ? ", " : "", json_number(json_at(shape, i), -1));
    text_char(&t, ']');
    return text_str(&t);
}

GanStatus verify_start(Verify *v) {
    Arena *a = &v->session.perm;
    const Module *m = &v->session.compiled.module;
    const Json *start = json_get(v->root, "start");
    uint32_t *seen = arena_array(a, uint32_t, 2 * m->net.n + 2);
    for (uint32_t i = 0; i < json_count(start); i++) {
        const Json *entry = json_at(start, i);
        Str net_name = json_string(json_get(entry, "net"), STR("?")),
            name = json_string(json_get(entry, "param"), STR("?"));
        uint32_t net = net_find(m, net_name);
        if (net == NONE)
            return fail(GAN_ERR_INPUT, "the case has a net %.*s, the model has none of that name",
                        SARG(net_name));
        bool trainable = json_bool(json_get(entry, "trainable"), true);
        uint32_t *k = &seen[2 * net + !trainable];
        uint32_t slot = net_slot(m, net, trainable ? SlotParam : SlotState, (*k)++);
        Str full = str_format(a, "%.*s.%.*s", SARG(net_name), SARG(name));
        if (slot == NONE)
            return fail(GAN_ERR_INPUT,
                        "the case has more %s in net %.*s than the model: %.*s has no counterpart",
                        trainable ? "weights" : "state", SARG(net_name), SARG(name));
        const Slot *s = &m->slot.at[slot];
        if (!shape_is(&s->type, m->batch, json_get(entry, "shape")))
            return fail(GAN_ERR_INPUT, "%.*s is %.*s in the case, %.*s is %.*s in the model",
                        SARG(full), SARG(shape_text(a, json_get(entry, "shape"))), SARG(s->name),
                        SARG(type_text(a, &s->type)));
        size_t n;
        double *x = verify_slot_values(v, slot, &n);
        TRY(fill(v, entry, x, n));
        TRY(exec_slot_put(v->session.exec, slot, x, n));
        vec_push(a, &v->tensor,
                 ((Tensor){.slot = slot, .net = net, .name = full, .trainable = trainable}));
    }
    for (uint32_t i = 0; i < m->net.n; i++)
        if (seen[2 * i] != m->net.at[i].params || seen[2 * i + 1] != m->net.at[i].states)
            return fail(GAN_ERR_INPUT,
                        "net %.*s has %u weights and %u states, the case lists %u and %u",
                        SARG(m->net.at[i].name), m->net.at[i].params, m->net.at[i].states,
                        seen[2 * i], seen[2 * i + 1]);
    return GAN_OK;
}

// --- feeding -------------------------------------------------------------------------------------

static GanStatus feed(Verify *v, uint32_t kind, const Json *entry, uint32_t slot) {
    const Module *m = &v->session.compiled.module;
    const Slot *s = &m->slot.at[slot];
    Arena *a = &v->session.perm;
    if (!entry && s->kind == SlotData)
        return fail(GAN_ERR_INPUT,
                    "step %u: the model reads another batch of %.*s %.*s, the case has no more of "
                    "that name",
                    v->step, SARG(s->name), SARG(type_text(a, &s->type)));
    if (!entry)
        return fail(GAN_ERR_INPUT,
                    "step %u: the model reads another %s random number %.*s, the case has no more",
                    v->step, kind_name[kind], SARG(type_text(a, &s->type)));
    if (!shape_is(&s->type, v->share.total, json_get(entry, "shape")))
        return fail(GAN_ERR_INPUT,
                    "step %u: the case feeds %s %.*s, the model asks for %.*s (%.*s) with a batch "
                    "of %lld",
                    v->step, kind_name[kind], SARG(shape_text(a, json_get(entry, "shape"))),
                    SARG(type_text(a, &s->type)), SARG(s->name), (long long)v->share.total);
    size_t n;
    double *x = verify_slot_values(v, slot, &n);
    TRY(fill(v, entry, x, n));
    size_t one = (size_t)type_sample(&s->type);
    if (s->type.batched) {
        x += (size_t)v->share.first * one;
        n = (size_t)v->share.samples * one;
    }
    return exec_slot_put(v->session.exec, slot, x, n);
}

static bool is_field(const Module *m, Str name) {
    for (uint32_t s = 0; s < m->stream.n; s++)
        for (uint32_t i = 0; i < m->stream.at[s].field.n; i++)
            if (str_eq(m->stream.at[s].field.at[i].name, name))
                return true;
    return false;
}

// The next entry that is a draw, not a field's: classes are either.
static const Json *draw_next(Verify *v, uint32_t kind) {
    while (v->at[kind] < v->queue[kind].n) {
        const Json *entry = v->queue[kind].at[v->at[kind]++];
        if (!is_field(&v->session.compiled.module,
                      json_string(json_get(entry, "stream"), (Str){0})))
            return entry;
    }
    return NULL;
}

// The next entry of `data` or `labels` that belongs to a field; others keep their places.
static const Json *data_next(Verify *v, Str field, uint32_t kind, uint32_t taken) {
    uint32_t seen = 0;
    for (uint32_t i = 0; i < v->queue[kind].n; i++) {
        const Json *entry = v->queue[kind].at[i];
        if (str_eq(json_string(json_get(entry, "stream"), (Str){0}), field) && seen++ == taken)
            return entry;
    }
    return NULL;
}

// The next batch of a stream to its slots of a round, as far as the step reads them.
static GanStatus feed_batch(Verify *v, uint32_t stream, uint32_t round) {
    const Module *m = &v->session.compiled.module;
    bool read = false;
    for (uint32_t i = 0; i < m->slot.n; i++) {
        const Slot *s = &m->slot.at[i];
        if (s->kind != SlotData || s->stream != stream || s->round != round ||
            !func_reads(&m->step, i))
            continue;
        const Field *f = &m->stream.at[stream].field.at[s->site];
        uint32_t kind = f->kind == FieldLabel ? KindLabels : KindData;
        TRY(feed(v, kind, data_next(v, f->name, kind, v->taken[stream]), i));
        read = true;
    }
    v->taken[stream] += read;
    return GAN_OK;
}

GanStatus verify_begin_step(Verify *v) {
    const Module *m = &v->session.compiled.module;
    const Json *fed = json_at(json_get(v->root, "fed"), v->step);
    for (uint32_t k = 0; k < KindCount; k++)
        v->queue[k].n = v->at[k] = 0;
    for (uint32_t i = 0; i < json_count(fed); i++) {
        const Json *entry = json_at(fed, i);
        Str kind = json_string(json_get(entry, "kind"), (Str){0});
        uint32_t k = 0;
        while (k < KindCount && !str_eq(kind, str_c(kind_name[k])))
            k++;
        if (k == KindCount)
            return fail(GAN_ERR_INPUT, "the case feeds an unknown kind: %.*s", SARG(kind));
        vec_push(&v->session.perm, &v->queue[k], entry);
    }
    v->taken = arena_array(&v->session.perm, uint32_t, m->stream.n);
    for (uint32_t s = 0; s < m->stream.n; s++)
        TRY(feed_batch(v, s, 0));
    return GAN_OK;
}

GanStatus verify_feed_block(void *user, Exec *e, uint32_t block, uint32_t round) {
    (void)e, (void)round;
    Verify *v = user;
    const Module *m = &v->session.compiled.module;
    for (uint32_t i = 0; i < m->step.next.n; i++)
        if (m->step.next.at[i].block == block)
            TRY(feed_batch(v, m->step.next.at[i].stream, m->step.next.at[i].round));
    static const uint32_t kind_of[] = {[DistUniform] = KindUniform,
                                       [DistNormal] = KindNormal,
                                       [DistTruncated] = KindNormal,
                                       [DistCategorical] = KindLabels};
    for (uint32_t i = 0; i < m->slot.n; i++) {
        const Slot *s = &m->slot.at[i];
        if (s->kind != SlotFed || m->site.at[s->site].func != step_func ||
            func_block(&m->step, m->site.at[s->site].block) != block)
            continue;
        uint32_t kind = kind_of[m->site.at[s->site].dist];
        TRY(feed(v, kind, draw_next(v, kind), i));
    }
    return GAN_OK;
}

static GanStatus fail_unread(Verify *v, uint32_t kind, const Json *entry) {
    return fail(GAN_ERR_INPUT, "step %u: the case feeds another %s %.*s, the model reads no more",
                v->step, kind_name[kind],
                SARG(shape_text(&v->session.perm, json_get(entry, "shape"))));
}

GanStatus verify_end_step(Verify *v) {
    const Module *m = &v->session.compiled.module;
    for (uint32_t k = 0; k < KindCount; k++) {
        const Json *left = k == KindData ? NULL : draw_next(v, k);
        if (left)
            return fail_unread(v, k, left);
    }
    for (uint32_t s = 0; s < m->stream.n; s++) {
        for (uint32_t i = 0; v->taken[s] && i < m->stream.at[s].field.n; i++) {
            const Field *f = &m->stream.at[s].field.at[i];
            uint32_t k = f->kind == FieldLabel ? KindLabels : KindData;
            const Json *left = data_next(v, f->name, k, v->taken[s]);
            if (left)
                return fail_unread(v, k, left);
        }
    }
    return GAN_OK;
}
