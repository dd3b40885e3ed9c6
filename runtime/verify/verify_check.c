// verify_check.c - compares losses, gradients, reports and final weights with a case's digests:
// length, sum, 2-norm and evenly strided elements.
#include "verify.h"

#include <math.h>

// Below this share of the update's largest gradient norm, a gradient is zero up to rounding.
static const double zero_share = 1e-10;
static const double rate_slack = 1.1;

// --- checks --------------------------------------------------------------------------------------

// What is no number is worse than any: once an error is, it stays so.
static double worse_error(double a, double b) {
    return isnan(a) || a >= b ? a : b;
}

bool check_fails(const Check *c) {
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
    uint64_t numel;
    if (!json_whole(json_get(want, "numel"), UINT64_MAX, &numel) || numel != n) {
        v->failures++;
        verify_line(v, "  %.*s: the case has %.0f numbers, the model %zu", SARG(name),
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
    double error = worse_error(fabs(sqrt(square) - norm),
                               fabs(sum - json_number(json_get(want, "sum"), NAN)) / gathered);
    const Json *samples = json_get(want, "samples");
    for (uint32_t i = 0; i < json_count(samples); i++) {
        const Json *pair = json_at(samples, i);
        double index = json_number(json_at(pair, 0), -1),
               value = json_number(json_at(pair, 1), NAN);
        if (!(index >= 0 && index < (double)n)) {
            v->failures++;
            verify_line(v, "  %.*s: the case names element %g of %zu", SARG(name), index, n);
            return false;
        }
        double d = fabs(x[(size_t)index] - value);
        error = worse_error(error, d);
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
double *verify_slot_values(Verify *v, uint32_t slot, size_t *n) {
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

static Tensor *tensor_of(Verify *v, uint32_t slot) {
    for (uint32_t i = 0; i < v->tensor.n; i++)
        if (v->tensor.at[i].slot == slot)
            return &v->tensor.at[i];
    bug("verify: slot %u was not matched", slot);
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
        verify_line(
            v,
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
        double *x = verify_slot_values(v, g.slot, &n);
        TRY(exec_value_get(v->session.exec, p, g.node, x, n));
        Digest d;
        Str name = str_format(&v->session.perm, "step %u update %u gradient %.*s", v->step,
                              v->update, SARG(t->name));
        t->moved += fabs(u->rate);
        if (!digest_compare(v, json_at(grads, i), x, n, name, &d))
            continue;
        bool zero = d.norm < zero_share * largest;
        t->zero |= zero;
        double scale = zero ? largest : d.norm; // none where nothing of the update has a gradient
        double error = scale == 0 ? d.error : d.error / scale,
               limit = zero ? v->tol.zero : v->tol.grad;
        *worst = worse_error(*worst, error);
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
    verify_line(v,
                "step %u update %u %-8.*s loss %.9g (reference %.9g, error %.2g)  gradients %.2g",
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

GanStatus verify_check_block(void *user, Exec *e, uint32_t block, uint32_t round) {
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

GanStatus verify_check_final(Verify *v) {
    const Json *final = json_get(v->root, "final");
    uint32_t first = v->check.n;
    if (json_count(final) != v->tensor.n) {
        v->failures++;
        verify_line(v, "the case ends with %u tensors, it began with %u", json_count(final),
                    v->tensor.n);
        return GAN_OK;
    }
    for (uint32_t i = 0; i < v->tensor.n; i++) {
        Tensor *t = &v->tensor.at[i];
        size_t n;
        double *x = verify_slot_values(v, t->slot, &n);
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
