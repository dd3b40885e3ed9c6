// verify.c - recomputes a reference case: the same start, the same feed, and every loss, gradient
// and final weight.
//
// In: a model file and a case (JSON, format gan-reference-1: see contract of `ganrun verify` in
// docs/verify.md). Out: one line per update and a verdict. Numbers in a case are made by formulas
// from text keys (formula.c); results are digests: length, sum, 2-norm and evenly strided elements.
// On many ranks each feeds its own samples and checks all results, which are the whole batch's.
#include "formula.h"
#include "ranks.h"

#include <math.h>
#include <string.h>

typedef struct Tolerance {
    double loss, grad, final, zero;
    bool rounds; // errors are rounding, which a sum of n elements may gather: see digest_compare
} Tolerance;

// Below this share of the update's largest gradient norm, a gradient is zero up to rounding.
static const double zero_share = 1e-10;
static const double rate_slack = 1.1;
enum { step_func = 1 }; // Site.func of the step: 0 is init, 2... the entry points

static Tolerance tolerance_of(Dtype real) {
    switch (real) {
    case DtF64:
        return (Tolerance){1e-8, 1e-8, 1e-8, 1e-12, false};
    case DtF32:
        return (Tolerance){1e-3, 3e-3, 5e-3, 1e-5, true};
    case DtBF16:
        return (Tolerance){5e-2, INFINITY, INFINITY, INFINITY, true};
    case DtF16:
    case DtCount:
        break;
    }
    bug("verify: no tolerance for %s", dtype_name[real]);
}

typedef struct Tensor { // one entry of `start`, matched to a slot
    uint32_t slot, net;
    Str name; // "G.3.weight", the case's name
    bool trainable;
    bool zero;    // its gradient was zero up to rounding
    double moved; // how far rounding may have carried it: the sum of the learning rates applied
} Tensor;

typedef struct Verify {
    const VerifyOptions *o;
    Session session;
    Share share; // of the batch
    const Json *root;
    Text *report;
    Tolerance tol;
    VEC(Tensor) tensor;
    double *values;             // room for the largest slot
    uint32_t step, update;      // position in the case
    VEC(const Json *) queue[4]; // fed entries of this step by kind: normal uniform labels data
    uint32_t at[4];
    uint32_t checks, failures;
    double worst;
    Str worst_what;
} Verify;

enum { KindNormal, KindUniform, KindLabels, KindData, KindCount };
static const char *const kind_name[KindCount] = {"normal", "uniform", "labels", "data"};

// --- checks --------------------------------------------------------------------------------------

static void line(Verify *v, const char *format, ...) {
    va_list args;
    va_start(args, format);
    text_put(v->report, str_vformat(&v->session.perm, format, args));
    va_end(args);
    text_char(v->report, '\n');
}

// One check: `error` against `limit` (both relative or both absolute). NaN fails.
static void check(Verify *v, double error, double limit, Str what) {
    v->checks++;
    if (!(error <= v->worst) && !isinf(limit)) {
        v->worst = error;
        v->worst_what = str_copy(&v->session.perm, what);
    }
    if (!(error <= limit)) {
        v->failures++;
        line(v, "  outside tolerance: %.*s: error %.3g, allowed %.3g", SARG(what), error, limit);
    }
}

typedef struct Digest {
    double error, norm;
} Digest; // largest difference, absolute; the reference's 2-norm

// Compares x [n] with a digest of the case. False (with a line) when lengths differ.
// A tensor that is within e of the reference in 2-norm has its norm and its elements within e, but
// its sum only within sqrt(n) e. Where errors are rounding, the sum counts by that measure: by the
// norm alone, f32 weights of 10^6 elements would have to be right to 5e-6, less than Adam's first
// steps make of a gradient's last digit. In f64 there is room for the sharper test.
static bool digest_compare(Verify *v, const Json *want, const double *x, size_t n, Str name,
                           Digest *out) {
    if ((size_t)json_number(json_get(want, "numel"), -1) != n) {
        v->failures++;
        line(v, "  %.*s: the case has %.0f numbers, the model %zu", SARG(name),
             json_number(json_get(want, "numel"), -1), n);
        return false;
    }
    double sum = 0, square = 0;
    for (size_t i = 0; i < n; i++) {
        sum += x[i];
        square += x[i] * x[i];
    }
    double norm = json_number(json_get(want, "l2"), NAN);
    double gathered = v->tol.rounds ? sqrt((double)n) : 1;
    double error = fmax(fabs(sqrt(square) - norm),
                        fabs(sum - json_number(json_get(want, "sum"), NAN)) / gathered);
    if (isnan(sum) || isnan(norm) || isnan(json_number(json_get(want, "sum"), NAN)))
        error = NAN;
    const Json *samples = json_get(want, "samples");
    for (uint32_t i = 0; i < json_count(samples); i++) {
        const Json *pair = json_at(samples, i);
        double index = json_number(json_at(pair, 0), -1),
               value = json_number(json_at(pair, 1), NAN);
        if (!(index >= 0 && index < (double)n)) {
            v->failures++;
            line(v, "  %.*s: the case names element %g of %zu", SARG(name), index, n);
            return false;
        }
        double d = fabs(x[(size_t)index] - value);
        if (!(d <= error))
            error = d;
    }
    *out = (Digest){error, norm};
    return true;
}

// Of the whole batch, wherever its samples are.
static size_t slot_elements(const Verify *v, uint32_t slot) {
    const Type *t = &v->session.compiled.module.slot.at[slot].type;
    return (size_t)(type_sample(t) * (t->batched ? v->share.total : 1));
}

// Room for one slot's values; the next call hands out the same memory.
static double *slot_values(Verify *v, uint32_t slot, size_t *n) {
    const Module *m = &v->session.compiled.module;
    if (!v->values) {
        size_t most = 0;
        for (uint32_t i = 0; i < m->slot.n; i++)
            most = slot_elements(v, i) > most ? slot_elements(v, i) : most;
        v->values = arena_array(&v->session.perm, double, most);
    }
    *n = slot_elements(v, slot);
    return v->values;
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
    for (uint32_t i = 0; i < json_count(shape); i++)
        text_fmt(&t, "%s%.0f", i ? ", " : "[", json_number(json_at(shape, i), -1));
    text_put(&t, STR("]"));
    return text_str(&t);
}

static GanStatus match_start(Verify *v) {
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
        double *x = slot_values(v, slot, &n);
        TRY(formula_fill(entry, x, n));
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

static Tensor *tensor_of(Verify *v, uint32_t slot) {
    for (uint32_t i = 0; i < v->tensor.n; i++)
        if (v->tensor.at[i].slot == slot)
            return &v->tensor.at[i];
    bug("verify: slot %u was not matched", slot);
}

// --- feeding -------------------------------------------------------------------------------------

static GanStatus feed(Verify *v, uint32_t kind, const Json *entry, uint32_t slot) {
    const Module *m = &v->session.compiled.module;
    const Slot *s = &m->slot.at[slot];
    Arena *a = &v->session.perm;
    if (!entry)
        return fail(GAN_ERR_INPUT,
                    "step %u: the model asks for another %s draw %.*s, the case feeds no more",
                    v->step, kind_name[kind], SARG(type_text(a, &s->type)));
    if (!shape_is(&s->type, v->share.total, json_get(entry, "shape")))
        return fail(GAN_ERR_INPUT,
                    "step %u: the case feeds %s %.*s, the model asks for %.*s (%.*s)", v->step,
                    kind_name[kind], SARG(shape_text(a, json_get(entry, "shape"))),
                    SARG(type_text(a, &s->type)), SARG(s->name));
    size_t n;
    double *x = slot_values(v, slot, &n);
    TRY(formula_fill(entry, x, n));
    size_t one = (size_t)type_sample(&s->type);
    if (s->type.batched) {
        x += (size_t)v->share.first * one;
        n = (size_t)v->share.samples * one;
    }
    return exec_slot_put(v->session.exec, slot, x, n);
}

static const Json *queue_next(Verify *v, uint32_t kind) {
    return v->at[kind] < v->queue[kind].n ? v->queue[kind].at[v->at[kind]++] : NULL;
}

// The next entry of `data` or `labels` that belongs to a field; others keep their places.
static const Json *data_next(Verify *v, Str field, uint32_t kind, uint32_t round) {
    uint32_t seen = 0;
    for (uint32_t i = 0; i < v->queue[kind].n; i++) {
        const Json *entry = v->queue[kind].at[i];
        if (str_eq(json_string(json_get(entry, "stream"), (Str){0}), field) && seen++ == round)
            return entry;
    }
    return NULL;
}

static GanStatus begin_step(Verify *v) {
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
    for (uint32_t i = 0; i < m->slot.n; i++) {
        const Slot *s = &m->slot.at[i];
        if (s->kind != SlotData)
            continue;
        const Field *f = &m->stream.at[s->stream].field.at[s->site];
        uint32_t kind = f->kind == FieldLabel ? KindLabels : KindData;
        TRY(feed(v, kind, data_next(v, f->name, kind, s->round), i));
    }
    return GAN_OK;
}

static GanStatus before_block(void *user, Exec *e, uint32_t block, uint32_t round) {
    (void)e, (void)round;
    Verify *v = user;
    const Module *m = &v->session.compiled.module;
    static const uint32_t kind_of[] = {[DistUniform] = KindUniform,
                                       [DistNormal] = KindNormal,
                                       [DistTruncated] = KindNormal,
                                       [DistCategorical] = KindLabels};
    for (uint32_t i = 0; i < m->slot.n; i++) {
        const Slot *s = &m->slot.at[i];
        if (s->kind != SlotFed || m->site.at[s->site].func != step_func ||
            m->site.at[s->site].block != block)
            continue;
        uint32_t kind = kind_of[m->site.at[s->site].dist];
        TRY(feed(v, kind, queue_next(v, kind), i));
    }
    return GAN_OK;
}

// --- results -------------------------------------------------------------------------------------

static Str loss_name(Verify *v, const Update *u) {
    Text t = {.arena = &v->session.perm};
    for (uint32_t i = 0; i < u->net.n; i++)
        text_fmt(&t, "%s%.*s", i ? "," : "",
                 SARG(v->session.compiled.module.net.at[u->net.at[i]].name));
    return text_str(&t);
}

static bool check_names(Verify *v, const Json *want, const Update *u) {
    const Json *nets = json_get(want, "nets"), *grads = json_get(want, "grads");
    const Module *m = &v->session.compiled.module;
    bool same = json_count(nets) == u->net.n && json_count(grads) == u->grad.n;
    for (uint32_t i = 0; same && i < u->net.n; i++)
        same = str_eq(json_string(json_at(nets, i), (Str){0}), m->net.at[u->net.at[i]].name);
    if (!same) {
        v->failures++;
        line(v,
             "step %u update %u: the case updates %u nets and %u weights, the model %u and %u "
             "(%.*s)",
             v->step, v->update, json_count(nets), json_count(grads), u->net.n, u->grad.n,
             SARG(loss_name(v, u)));
    }
    return same;
}

static double largest_norm(const Json *grads) {
    double largest = 0;
    for (uint32_t i = 0; i < json_count(grads); i++)
        largest = fmax(largest, json_number(json_get(json_at(grads, i), "l2"), 0));
    return largest;
}

// All gradients of one update; returns the worst relative error among them.
static GanStatus check_grads(Verify *v, const Json *grads, const Update *u, bool judged,
                             double *worst) {
    const Plan *p = exec_step_plan(v->session.exec);
    double largest = largest_norm(grads);
    for (uint32_t i = 0; i < u->grad.n; i++) {
        GradOf g = u->grad.at[i];
        Tensor *t = tensor_of(v, g.slot);
        size_t n;
        double *x = slot_values(v, g.slot, &n);
        TRY(exec_value_get(v->session.exec, p, g.node, x, n));
        Digest d;
        Str name = str_format(&v->session.perm, "step %u update %u gradient %.*s", v->step,
                              v->update, SARG(t->name));
        t->moved += fabs(u->rate);
        if (!digest_compare(v, json_at(grads, i), x, n, name, &d))
            continue;
        bool zero = d.norm < zero_share * largest;
        t->zero |= zero;
        double error = d.error / (zero ? largest : d.norm),
               limit = zero ? v->tol.zero : v->tol.grad;
        if (!(error <= *worst))
            *worst = error;
        check(v, error, judged ? limit : isfinite(error) ? INFINITY : 0, name);
    }
    return GAN_OK;
}

static GanStatus check_update(Verify *v, const Update *u) {
    const Json *updates = json_get(json_at(json_get(v->root, "steps"), v->step), "updates");
    const Json *want = json_at(updates, v->update);
    if (!want)
        return fail(GAN_ERR_INPUT, "step %u: the model makes more than the case's %u updates",
                    v->step, json_count(updates));
    double loss = NAN, ref = json_number(json_get(want, "loss"), NAN), worst = 0;
    TRY(exec_value_get(v->session.exec, exec_step_plan(v->session.exec), u->loss, &loss, 1));
    bool judged = v->o->real == DtF64 || v->step == 0;
    Str nets = loss_name(v, u);
    double error = fabs(loss - ref) / fmax(fabs(ref), 1);
    check(v, error,
          judged            ? v->tol.loss
          : isfinite(error) ? INFINITY
                            : 0,
          str_format(&v->session.perm, "step %u update %u loss of %.*s", v->step, v->update,
                     SARG(nets)));
    if (check_names(v, want, u))
        TRY(check_grads(v, json_get(want, "grads"), u, judged, &worst));
    line(v, "step %u update %u %-8.*s loss %.9g (reference %.9g, error %.2g)  gradients %.2g",
         v->step, v->update, SARG(nets), loss, ref, error, worst);
    v->update++;
    return GAN_OK;
}

// Reports of a block against the case's values of the same name; inside a repeat, name0, name1, ...
static GanStatus check_reports(Verify *v, uint32_t block, uint32_t round) {
    const Func *f = &v->session.compiled.module.step;
    const Json *values = json_get(json_at(json_get(v->root, "steps"), v->step), "values");
    for (uint32_t i = 0; i < f->report.n; i++) {
        const Named *r = &f->report.at[i];
        if (r->block != block)
            continue;
        Arena *a = &v->session.perm;
        const Json *want = json_get(values, str_z(a, r->name));
        if (!want)
            want = json_get(values, str_z(a, str_format(a, "%.*s%u", SARG(r->name), round)));
        if (!want)
            continue;
        double x = NAN, ref = json_number(want, NAN);
        TRY(exec_value_get(v->session.exec, exec_step_plan(v->session.exec), r->node, &x, 1));
        bool judged = v->o->real == DtF64 || v->step == 0;
        double error = fabs(x - ref) / fmax(fabs(ref), 1);
        check(v, error,
              judged            ? v->tol.loss
              : isfinite(error) ? INFINITY
                                : 0,
              str_format(a, "step %u value %.*s", v->step, SARG(r->name)));
    }
    return GAN_OK;
}

static GanStatus after_block(void *user, Exec *e, uint32_t block, uint32_t round) {
    (void)e;
    Verify *v = user;
    const Func *f = &v->session.compiled.module.step;
    for (uint32_t i = 0; i < f->update.n; i++)
        if (f->update.at[i].block == block)
            TRY(check_update(v, &f->update.at[i]));
    return check_reports(v, block, round);
}

// How far rounding in a zero gradient may have carried this tensor: itself, or a running mean
// behind such a bias.
static double drift(const Verify *v, const Tensor *t, size_t n) {
    double allowed = t->zero ? t->moved : 0;
    for (uint32_t i = 0; !t->trainable && i < v->tensor.n; i++) {
        const Tensor *p = &v->tensor.at[i];
        const Type *type = &v->session.compiled.module.slot.at[p->slot].type;
        if (p->net == t->net && p->zero && (size_t)type_sample(type) == n)
            allowed = fmax(allowed, p->moved);
    }
    return rate_slack * allowed;
}

static GanStatus check_final(Verify *v) {
    const Json *final = json_get(v->root, "final");
    if (json_count(final) != v->tensor.n) {
        v->failures++;
        line(v, "the case ends with %u tensors, it began with %u", json_count(final), v->tensor.n);
        return GAN_OK;
    }
    for (uint32_t i = 0; i < v->tensor.n; i++) {
        Tensor *t = &v->tensor.at[i];
        size_t n;
        double *x = slot_values(v, t->slot, &n);
        TRY(exec_slot_get(v->session.exec, t->slot, x, n));
        Digest d;
        Str name = str_format(&v->session.perm, "final %.*s", SARG(t->name));
        if (!digest_compare(v, json_at(final, i), x, n, name, &d))
            continue;
        double slack = drift(v, t, n);
        if (slack > 0) // each element may be off by slack: the sum by n times that
            check(v, d.error / (slack * (double)n) <= 1 ? 0 : d.error / (d.norm > 0 ? d.norm : 1),
                  v->tol.final, name);
        else
            check(v, d.error / (d.norm > 0 ? d.norm : 1), v->tol.final, name);
    }
    return GAN_OK;
}

// --- the case ------------------------------------------------------------------------------------

static GanStatus read_case(Arena *a, Str path, const Json **out) {
    Str text;
    TRY(file_read(a, path, &text));
    TRY(json_parse(a, text, path, out));
    if (!str_eq(json_string(json_get(*out, "format"), (Str){0}), STR("gan-reference-1")))
        return fail(GAN_ERR_INPUT, "%.*s: not a reference case (format gan-reference-1)",
                    SARG(path));
    static const char *const parts[] = {"start", "fed", "steps", "final"};
    for (uint32_t i = 0; i < 4; i++)
        if (!json_count(json_get(*out, parts[i])))
            return fail(GAN_ERR_INPUT, "%.*s: the case has no \"%s\"", SARG(path), parts[i]);
    return GAN_OK;
}

// `batch` sets the batch, the other options set configs of the same name.
static GanStatus case_options(Arena *a, const VerifyOptions *o, const Json *options,
                              CompileOptions *out) {
    VEC(Setting) s = {0};
    for (uint32_t i = 0; i < json_count(options); i++) {
        const Json *member = json_at(options, i);
        Str key = json_key(member);
        if (str_eq(key, STR("batch"))) {
            double batch = json_number(member, 0);
            if (!(batch >= 1 && batch <= 1 << 20 && batch == floor(batch)))
                return fail(GAN_ERR_INPUT, "the case's batch is %g", batch);
            out->batch = (int64_t)batch;
            continue;
        }
        Str value = json_is_number(member) ? str_double(a, json_number(member, 0))
                                           : json_string(member, (Str){0});
        vec_push(a, &s, ((Setting){key, value}));
    }
    for (uint32_t i = 0; i < o->settings; i++)
        vec_push(a, &s, o->setting[i]);
    out->setting = s.at;
    out->settings = s.n;
    return GAN_OK;
}

static GanStatus run_case(Verify *v) {
    ExecHooks hooks = {.before = before_block, .after = after_block, .user = v};
    v->share = exec_share(v->session.exec);
    TRY(exec_init(v->session.exec, 0));
    TRY(match_start(v));
    uint32_t steps = json_count(json_get(v->root, "steps"));
    for (v->step = 0; v->step < steps; v->step++) {
        v->update = 0;
        TRY(begin_step(v));
        Counters c = {.step = v->step};
        TRY(exec_step(v->session.exec, &c, &hooks));
        uint32_t expected =
            json_count(json_get(json_at(json_get(v->root, "steps"), v->step), "updates"));
        if (v->update != expected)
            return fail(GAN_ERR_INPUT, "step %u: the model makes %u updates, the case has %u",
                        v->step, v->update, expected);
    }
    TRY(check_final(v));
    line(v, "verify: %u checks, worst relative error %.3g (%.*s)", v->checks, v->worst,
         SARG(v->worst_what));
    if (v->failures)
        return fail(GAN_ERR_INPUT, "%.*s: %u of %u checks are outside tolerance",
                    SARG(v->o->reference), v->failures, v->checks);
    return GAN_OK;
}

// A case passes where every rank says so.
static GanStatus agree_on_verdict(const Verify *v, GanStatus mine) {
    bool any, failed = v->failures > 0;
    if (mine != GAN_OK && !failed)
        return mine; // it could not be run to its end
    TRY(comm_any(v->o->device.comm, failed, &any));
    return any && !failed ? fail(GAN_ERR_INPUT, "%.*s: checks are outside tolerance on other ranks",
                                 SARG(v->o->reference))
                          : mine;
}

GanStatus verify_case(const VerifyOptions *o, Text *report, Text *diagnostics) {
    Verify v = {.o = o, .report = report, .tol = tolerance_of(o->real)};
    SessionOptions s = {
        .compile = {.path = o->model, .real = o->real, .feed = true, .keep_grads = true},
        .api = o->api,
        .device = o->device};
    GanStatus st = GAN_OK;
    Arena *a = report->arena;
    TRY(read_case(a, o->reference, &v.root));
    TRY(case_options(a, o, json_get(v.root, "options"), &s.compile));
    int64_t batch = s.compile.batch ? s.compile.batch : DEFAULT_BATCH;
    TRY(ranks_parallel(o->device.comm, batch, o->chunks, o->bucket, (LinkModel){0},
                       &s.compile.parallel));
    TRY_OUT(session_open(&v.session, &s));
    st = agree_on_verdict(&v, run_case(&v));
out:
    if (diag_total(&v.session.front))
        diag_render(diagnostics, &v.session.front, false);
    if (st == GAN_OK || v.failures || !o->device.comm) // else sums may still arrive in its memory
        session_release(&v.session);
    return st;
}
