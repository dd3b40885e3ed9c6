// verify.c - recomputes a reference case: the same start, the same feed, and every loss, gradient
// and final weight.
//
// In: a model file and a case (JSON, format gan-reference-1: see contract of `ganrun verify` in
// docs/verify.md). Out: one line per update and a verdict. Numbers in a case are made by formulas
// from text keys (formula.c); results are digests: length, sum, 2-norm and evenly strided elements.
// On many ranks each feeds its own samples and checks all results, which are the whole batch's.
//
// What fails in f32 or bf16 is put to the graph itself, recomputed in f64 by the reference device:
// as it is, with the decisions that rounding makes made the other way, and from a rounded start. A
// check that the first passes and another moves by more than its tolerance is not judged (D-0009).
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

// A comparison is rounding's to decide when its operands are nearer than this share of their size:
// sums of thousands of terms, some layers deep, lose up to eight of f32's 24 bits.
static const double close_share = 0x1p-16;
// How often over what rounding may do to a tensor its error may be.
static const double reach = 10;

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

typedef struct Check {
    Str what;
    double error, limit; // both relative or both absolute; limit INFINITY: printed, not judged
    double moved;        // what rounding alone did to the reference
    bool exact;          // the graph gives the case's number in f64
    bool last;           // of the end of the case
} Check;

typedef struct Close { // an element of a comparison
    uint32_t node;
    size_t at;
} Close;

typedef struct Verify {
    const VerifyOptions *o;
    Dtype judge;      // whose tolerances hold: the later steps are judged in f64 only
    Dtype hold;       // start and feed are what this can hold
    bool turn;        // close decisions are made the other way
    VEC(Close) close; // those of the launch that runs
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
    VEC(Check) check;
    uint32_t failures; // checks outside tolerance, and what could not be compared
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

static bool check_fails(const Check *c) {
    return !(c->error <= c->limit); // so NaN does
}

// One check: `error` against `limit` (both relative or both absolute).
static void check(Verify *v, double error, double limit, Str what) {
    Check c = {.what = str_copy(&v->session.perm, what), .error = error, .limit = limit};
    vec_push(&v->session.perm, &v->check, c);
    v->failures += check_fails(&c);
}

// In later steps rounding has grown: they are to be finite, and are printed.
static void check_step(Verify *v, double error, double limit, Str what) {
    bool judged = v->judge == DtF64 || v->step == 0;
    check(v, error, judged ? limit : isfinite(error) ? INFINITY : 0, what);
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

// --- numbers of the case -------------------------------------------------------------------------

static double held(double x, Dtype real) {
    int exponent, digits = real == DtF32 ? 24 : real == DtBF16 ? 8 : 53;
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
    TRY(fill(v, entry, x, n));
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
static GanStatus check_grads(Verify *v, const Json *grads, const Update *u, double *worst) {
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
        check_step(v, error, limit, name);
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
    Str nets = loss_name(v, u);
    double error = fabs(loss - ref) / fmax(fabs(ref), 1);
    check_step(v, error, v->tol.loss,
               str_format(&v->session.perm, "step %u update %u loss of %.*s", v->step, v->update,
                          SARG(nets)));
    if (check_names(v, want, u))
        TRY(check_grads(v, json_get(want, "grads"), u, &worst));
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
        double error = fabs(x - ref) / fmax(fabs(ref), 1);
        check_step(v, error, v->tol.loss,
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
    uint32_t first = v->check.n;
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
    for (uint32_t i = first; i < v->check.n; i++)
        v->check.at[i].last = true;
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

// --- decisions of rounding -----------------------------------------------------------------------

// How far a computed value [n] is from the constant it is compared with, and its size. False: what
// is compared is something else.
static bool difference(Verify *v, const Plan *p, uint32_t node, double *d, double *size, size_t n,
                       GanStatus *st) {
    const Graph *g = &p->func->g;
    uint32_t a = node_in(g, node, 0),
             b = graph_node(g, node)->op == OpSign ? 0 : node_in(g, node, 1);
    double number = 0, sum = 0;
    const Type *t = node_type(g, a);
    if (graph_node(g, a)->op == OpRead || (b && !node_is_const(g, b, &number)) ||
        (size_t)(type_sample(t) * (t->batched ? g->batch : 1)) != n)
        return false;
    *st = exec_value_get(v->session.exec, p, a, d, n);
    for (size_t i = 0; *st == GAN_OK && i < n; i++) {
        sum += d[i] * d[i];
        d[i] -= number;
    }
    *size = sqrt(sum / (double)n);
    return *st == GAN_OK;
}

// Before a comparison (its operands may not outlive it): which elements are close. Those that are
// equal in f64 are so by their making (zeros of a padding, counts), not by rounding.
static GanStatus find_close(Verify *v, const Plan *p, uint32_t node) {
    const Type *t = node_type(&p->func->g, node);
    size_t n = (size_t)(type_sample(t) * (t->batched ? p->func->g.batch : 1));
    Arena scratch = v->session.perm;
    double *d = arena_array(&scratch, double, n), size;
    GanStatus st = GAN_OK;
    if (!difference(v, p, node, d, &size, n, &st))
        return st;
    for (size_t i = 0; i < n; i++)
        if (d[i] != 0 && fabs(d[i]) <= close_share * size)
            vec_push(v->report->arena, &v->close, ((Close){node, i}));
    return GAN_OK;
}

static GanStatus turn_close(Verify *v, const Plan *p, uint32_t node) {
    const Type *t = node_type(&p->func->g, node);
    size_t n = (size_t)(type_sample(t) * (t->batched ? p->func->g.batch : 1));
    Arena scratch = v->session.perm;
    double *x = arena_array(&scratch, double, n);
    TRY(exec_value_get(v->session.exec, p, node, x, n));
    for (uint32_t i = 0; i < v->close.n; i++)
        if (v->close.at[i].node == node) {
            double *y = &x[v->close.at[i].at];
            *y = graph_node(&p->func->g, node)->op == OpSign ? -*y : 1 - *y;
        }
    return exec_value_load(v->session.exec, p, node, x); // the reference device's: f64, in order
}

static GanStatus around_launch(void *user, Exec *e, uint32_t launch, bool done, const Counters *c) {
    (void)c;
    Verify *v = user;
    const Plan *p = exec_step_plan(e);
    Launch l = p->launch.at[launch];
    v->close.n = done ? v->close.n : 0;
    for (uint32_t k = 0; k < l.instances; k++) {
        const Region *r = &p->region.at[p->merge.at[l.first + k]];
        for (uint32_t i = 0; i < r->node.n; i++) {
            Op op = (Op)graph_node(&p->func->g, r->node.at[i])->op;
            if (op == OpGt || op == OpGe || op == OpSign)
                TRY((done ? turn_close : find_close)(v, p, r->node.at[i]));
        }
    }
    return GAN_OK;
}

// --- the case's steps ----------------------------------------------------------------------------

// The case's first `steps` steps; its end is checked after all of them.
static GanStatus run_case(Verify *v, uint32_t steps) {
    ExecHooks hooks = {.before = before_block,
                       .after = after_block,
                       .launch = v->turn ? around_launch : NULL,
                       .user = v};
    uint32_t all = json_count(json_get(v->root, "steps"));
    v->share = exec_share(v->session.exec);
    TRY(exec_init(v->session.exec, 0));
    TRY(match_start(v));
    for (v->step = 0; v->step < steps && v->step < all; v->step++) {
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
    return v->step == all ? check_final(v) : GAN_OK;
}

static GanStatus open_case(Verify *v, SessionOptions *s, Comm *comm, const Split *split) {
    *s = (SessionOptions){
        .compile = {.path = v->o->model, .real = v->o->real, .feed = true, .keep_grads = true},
        .api = v->o->api,
        .device = v->o->device};
    s->device.comm = comm;
    TRY(read_case(v->report->arena, v->o->reference, &v->root));
    TRY(case_options(v->report->arena, v->o, json_get(v->root, "options"), &s->compile));
    int64_t batch = s->compile.batch ? s->compile.batch : DEFAULT_BATCH;
    return ranks_parallel(comm, batch, split, (LinkModel){0}, &s->compile.parallel);
}

// --- what rounding alone does to the case (D-0009) -----------------------------------------------

static bool excused(const Check *c) {
    return c->exact && c->moved > c->limit && c->error <= reach * c->moved;
}

typedef enum Ways { WayExact, WayTurned, WayRounded, Ways } Way;

// The case on the reference device in f64, by this rank alone.
static GanStatus recompute(Verify *v, Way way, uint32_t steps) {
    Arena said;
    SessionOptions s;
    GanStatus st = arena_init(&said, 0);
    Text report = {.arena = &said};
    Verify p = {.o = v->o,
                .judge = way == WayExact ? DtF64 : v->judge,
                .hold = way == WayRounded ? v->o->real : DtF64,
                .turn = way == WayTurned,
                .report = &report};
    p.tol = tolerance_of(p.judge);
    TRY_OUT(st);
    TRY_OUT(open_case(&p, &s, NULL, &(Split){0}));
    s.api = &device_ref;
    s.compile.real = DtF64;
    TRY_OUT(session_open(&p.session, &s));
    TRY_OUT(run_case(&p, steps));
    for (uint32_t i = 0; i < v->check.n && i < p.check.n; i++) {
        Check *c = &v->check.at[i];
        const Check *again = &p.check.at[i];
        if (!str_eq(c->what, again->what))
            break;
        if (way == WayExact)
            c->exact = !check_fails(again);
        else
            c->moved = fmax(c->moved, again->error);
    }
out:
    session_release(&p.session);
    arena_release(&said);
    return st;
}

// How many steps show all checks that fail without excuse; 0: there are none.
static uint32_t steps_to_ask(const Verify *v) {
    uint32_t steps = 0;
    for (uint32_t i = 0; i < v->check.n && steps <= 1; i++)
        if (check_fails(&v->check.at[i]) && !excused(&v->check.at[i]))
            steps = v->check.at[i].last ? UINT32_MAX : 1;
    return steps;
}

// bf16 judges losses only, which no single decision moves.
static GanStatus ask_the_graph(Verify *v) {
    for (Way way = WayExact; way < Ways; way++) {
        uint32_t steps = steps_to_ask(v);
        if (steps && (way != WayTurned || v->o->real == DtF32))
            TRY(recompute(v, way, steps));
    }
    return GAN_OK;
}

// --- the verdict ---------------------------------------------------------------------------------

// The lines that say what fails and what is not judged, and the last one.
static void print_verdict(Verify *v) {
    const Check *worst = NULL;
    uint32_t unjudged = 0;
    for (uint32_t i = 0; i < v->check.n; i++) {
        const Check *c = &v->check.at[i];
        bool fails = check_fails(c), pardon = fails && excused(c);
        if (pardon)
            line(v, "  not judged: %.*s: error %.3g; rounding to %s alone moves it by %.3g",
                 SARG(c->what), c->error, dtype_name[v->o->real], c->moved);
        else if (fails)
            line(v, "  outside tolerance: %.*s: error %.3g, allowed %.3g", SARG(c->what), c->error,
                 c->limit);
        unjudged += pardon;
        if (!pardon && !isinf(c->limit) && (!worst || !(c->error <= worst->error)))
            worst = c;
    }
    v->failures -= unjudged;
    Text t = {.arena = &v->session.perm};
    text_fmt(&t, "verify: %u checks, worst relative error %.3g (%.*s)", v->check.n,
             worst ? worst->error : 0, SARG(worst ? worst->what : STR("none judged")));
    if (unjudged)
        text_fmt(&t, ", %u not judged", unjudged);
    line(v, "%.*s", SARG(text_str(&t)));
}

// A case passes where every rank says so.
static GanStatus verdict(Verify *v) {
    bool any;
    if (v->o->real != DtF64)
        TRY(ask_the_graph(v));
    print_verdict(v);
    TRY(comm_any(v->o->device.comm, v->failures > 0, &any));
    if (v->failures)
        return fail(GAN_ERR_INPUT, "%.*s: %u of %u checks are outside tolerance",
                    SARG(v->o->reference), v->failures, v->check.n);
    return any ? fail(GAN_ERR_INPUT, "%.*s: checks are outside tolerance on other ranks",
                      SARG(v->o->reference))
               : GAN_OK;
}

GanStatus verify_case(const VerifyOptions *o, Text *report, Text *diagnostics) {
    Verify v = {
        .o = o, .judge = o->real, .hold = DtF64, .report = report, .tol = tolerance_of(o->real)};
    SessionOptions s;
    GanStatus st = GAN_OK;
    bool judged = false; // else it could not be run to its end, and sums may still arrive
    TRY(open_case(&v, &s, o->device.comm, &o->split));
    TRY_OUT(session_open(&v.session, &s));
    TRY_OUT(run_case(&v, UINT32_MAX));
    judged = true;
    st = verdict(&v);
out:
    if (diag_total(&v.session.front))
        diag_render(diagnostics, &v.session.front, false);
    if (judged || !o->device.comm)
        session_release(&v.session);
    return st;
}
