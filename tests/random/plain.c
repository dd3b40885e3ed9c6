// plain.c - see plain.h.
#include "plain.h"

#include <math.h>
#include <setjmp.h>
#include <string.h>

#include <cmocka.h>
#include "half.h"
#include "interp.h"
#include "shard.h"

static Func *func_at(Plain *p, uint32_t i) {
    return i == 0 ? &p->m.init : i == 1 ? &p->m.step : &p->m.entry.at[i - 2];
}

// --- compiling -----------------------------------------------------------------------------------

// Appends y, x and the gradient of every Grad to the results, so that rewrites keep them.
static void name_grads(Plain *p, Func *f) {
    for (uint32_t id = 1; id < f->g.node.n; id++) {
        const Node *n = graph_node(&f->g, id);
        if (n->op != OpGrad)
            continue;
        uint32_t at[3] = {node_in(&f->g, id, 0), node_in(&f->g, id, 1), id};
        for (int k = 0; k < 3; k++)
            vec_push(p->a, &f->result, ((Named){STR("grad"), at[k], n->block}));
    }
}

static bool on_card(const RanksOptions *o) {
    return o->api && o->api->dialect && dialect_find(str_c(o->api->dialect)) == &dialect_cuda;
}

bool plain_open(Plain *p, Arena *a, const RanksOptions *o, bool apart, Str *said) {
    // With noise it does not matter which gradients are rounded, but which overflow in f16 does.
    const PassOptions pass = {
        .real = o->real, .half_grads = o->real != DtF16 || on_card(o), .small_products = true};
    bool scaled = apart && o->real == DtF16;
    *p = (Plain){.a = a, .o = o};
    if (!ranks_module(a, o, !apart, &p->m, said))
        return false;
    if (scaled)
        loss_scale_slots(a, &p->m);
    for (uint32_t i = 0; scaled && i < 2 + p->m.entry.n; i++)
        pass_loss_scale(a, &p->m, func_at(p, i), &pass);
    name_grads(p, &p->m.step);
    for (uint32_t i = 0; i < 2 + p->m.entry.n; i++)
        pass_grad(a, &p->m, func_at(p, i), &pass);
    if (apart) { // sharding requires that no Stop is a factor
        pass_drop_identities(a, &p->m, &p->m.step, &pass);
        for (uint32_t i = 1; i < 2 + p->m.entry.n && dtype_is_half(o->real); i++)
            pass_dtype(a, &p->m, func_at(p, i), &pass);
        pass_split_sums(a, &p->m, &p->m.step,
                        &(PassOptions){.keep_grads = true, .few_launches = true});
    }
    return true;
}

// --- noise ---------------------------------------------------------------------------------------

// Results that are elements of operands, or exact: no device rounds them.
static bool is_exact(const Graph *g, uint32_t id) {
    const Node *n = graph_node(g, id);
    if (dtype_is_half(node_type(g, id)->dtype))
        return false;
    switch (n->op) {
    case OpNeg:
    case OpMax:
    case OpMin:
    case OpAbs:
    case OpSign:
    case OpFloor:
    case OpGt:
    case OpGe:
    case OpEq:
    case OpWhere:
    case OpStop:
    case OpCast:
    case OpPin:
    case OpCommit:
    case OpIota:
    case OpRead:
    case OpWrite:
    case OpMaxOf:
    case OpArgMax:
    case OpArgSort:
    case OpArrange:
        return true;
    case OpRand:
        return node_attr(g, id)->i[0] == DistCategorical;
    default:
        return op_info[n->op].cls == ClassMOVE;
    }
}

// Is it a sum, whose terms are perturbed one by one? Its terms may be added in any order, and if
// large ones cancel, a small one may have been rounded against them: (a + b) - b for a + (b - b).
static bool is_sum(const Graph *g, uint32_t id) {
    const Node *n = graph_node(g, id);
    OpClass cls = (OpClass)op_info[n->op].cls;
    return n->op == OpAdd || n->op == OpSub ||
           ((cls == ClassANCHOR || cls == ClassREDUCE) && !is_exact(g, id));
}

typedef struct HalfFormat { // rounding of a 16-bit type
    double relative;        // relative rounding error
    double smallest;        // smallest normal number, below which the error is absolute
    double integers;        // integers up to this are exact
    double (*round)(double x);
} HalfFormat;

static double round_bf16(double x) {
    return gan_round_bf16((float)x);
}

// Of any size: see overflow.
static double round_f16(double x) {
    double by = fabs(x) > 16384 ? 1024 : 1;
    return gan_round_f16((float)(x / by)) * by;
}

static const HalfFormat *half_format(Dtype d) {
    static const HalfFormat bf16 = {0x1p-8, 0, 256, round_bf16},
                            f16 = {0x1p-11, 0x1p-14, 2048, round_f16};
    return d == DtBF16 ? &bf16 : d == DtF16 ? &f16 : NULL;
}

// The error of a random draw is relative to 1, even near 0. With 16-bit types only their values are
// perturbed, and rounded again: equal values must stay able to cancel exactly.
static void perturb(const Plain *p, const Type *t, double *x, int64_t n, uint64_t key, bool draw) {
    const HalfFormat *h = half_format((Dtype)t->dtype);
    double relative = h ? h->relative : dtype_is_half(p->o->real) ? 0 : p->noise;
    for (int64_t i = 0; i < n; i++) {
        double by = relative * test_number(hash64(&key, sizeof key, p->noise_seed) + (uint64_t)i);
        bool counts = x[i] == rint(x[i]) && !(h && fabs(x[i]) > h->integers);
        if (!counts && isfinite(x[i]))
            x[i] += by * (draw ? 1 : h ? fmax(fabs(x[i]), h->smallest) : x[i]);
        if (h) // so that equal values remain possible
            x[i] = h->round(x[i]);
    }
}

// Overflow of f16 gives infinity. Noise varies the limit, because an update near it may be skipped
// or not.
static void overflow(const Plain *p, double *x, int64_t n) {
    double most = p->noise > 0 ? 65504 * exp2(2 * test_number(p->noise_seed)) : 65504;
    for (int64_t i = 0; i < n; i++)
        if (fabs(x[i]) > most)
            x[i] = copysign(INFINITY, x[i]);
}

// --- one function --------------------------------------------------------------------------------

typedef struct Run {
    Plain *p;
    const Func *f;
    double **value;
    Counters c;
} Run;

static size_t bytes_of(const Graph *g, uint32_t id) {
    return (size_t)type_elements(g, node_type(g, id)) * sizeof(double);
}

static double *value_buffer(Run *r, uint32_t id) {
    if (!r->value[id])
        r->value[id] = arena_alloc(r->p->a, bytes_of(&r->f->g, id), 64);
    return r->value[id];
}

static void run_node(Run *r, uint32_t id) {
    Plain *p = r->p;
    const Graph *g = &r->f->g;
    const Node *node = graph_node(g, id);
    double *out = value_buffer(r, id);
    Arena scratch = *p->a;
    const void *in[MAX_IN];
    uint64_t key = (uint64_t)id << 32 | r->c.step << 16 | r->c.round << 4;
    for (uint32_t k = 0; k < node->nin; k++) {
        uint32_t from = node_in(g, id, k);
        in[k] = r->value[from];
        if (p->noise == 0 || !is_sum(g, id))
            continue;
        double *x = arena_alloc(&scratch, bytes_of(g, from), 64);
        memcpy(x, in[k], bytes_of(g, from));
        perturb(p, node_type(g, from), x, type_elements(g, node_type(g, from)), key + k, false);
        in[k] = x;
    }
    if (node->op == OpRead)
        memcpy(out, p->slot[node_attr(g, id)->i[0]], bytes_of(g, id));
    else if (node->op == OpWrite || node->op == OpCommit)
        memcpy(out, in[0], bytes_of(g, id));
    else
        eval_node(g, id, in, out, true, &r->c, scratch);
    if (node_type(g, id)->dtype == DtF16)
        overflow(p, out, type_elements(g, node_type(g, id)));
    if (p->noise == 0 || is_exact(g, id))
        return;
    if (node->op == OpConst && out[0] == (double)(float)out[0])
        return;
    perturb(p, node_type(g, id), out, type_elements(g, node_type(g, id)),
            node->op == OpConst ? id : key + 15, node->op == OpRand);
}

static void record(Plain *p, Str name, uint32_t update, uint32_t slot, const double *x, size_t n) {
    RanksValue v = {name, update, slot, n, arena_array(p->a, double, n)};
    memcpy(v.x, x, n * sizeof *x);
    vec_push(p->a, &p->run.value, v);
}

static void record_block(Run *r, uint32_t block) {
    Plain *p = r->p;
    const Func *f = r->f;
    for (uint32_t u = 0; f == &p->m.step && u < f->update.n; u++)
        if (f->update.at[u].block == block)
            record(p, str_format(p->a, "step %u, loss %u", p->step, u), NONE, NONE,
                   r->value[f->update.at[u].loss], 1);
    for (uint32_t i = 0; f == &p->m.step && i < f->report.n; i++)
        if (f->report.at[i].block == block)
            record(p, str_format(p->a, "step %u, %.*s", p->step, SARG(f->report.at[i].name)), NONE,
                   NONE, r->value[f->report.at[i].node], 1);
}

// Reads see the slots as the block finds them; writes are kept until it ends.
static void run_block(Run *r, uint32_t block) {
    const Graph *g = &r->f->g;
    if (r->f == &r->p->m.step)
        r->p->ran[block] = r->c.step;
    for (uint32_t id = 1; id < g->node.n; id++)
        if (graph_node(g, id)->block == block)
            run_node(r, id);
    for (uint32_t i = 0; i < r->f->effect.n; i++) {
        uint32_t w = r->f->effect.at[i];
        if (graph_node(g, w)->block == block)
            memcpy(r->p->slot[node_attr(g, w)->i[0]], r->value[w], bytes_of(g, w));
    }
    record_block(r, block);
}

// The index of the mark that closes the one at `at`: its End, or its Else if `to_else`.
static uint32_t match(const Func *f, uint32_t at, bool to_else) {
    uint32_t depth = 0;
    for (uint32_t i = at + 1; i < f->tape.n; i++) {
        CtlKind k = f->tape.at[i].kind;
        if (!depth && (k == CtlEnd || (to_else && k == CtlElse)))
            return i;
        depth += k == CtlRepeat || k == CtlEvery || k == CtlIf;
        depth -= k == CtlEnd;
    }
    fail_msg("a control mark is never closed");
    return 0;
}

// The blocks of a branch that is not taken have the values of an earlier round or step.
static void skip_tape(Run *r, uint32_t from, uint32_t to) {
    for (uint32_t at = from; at < to; at++)
        if (r->f == &r->p->m.step && r->f->tape.at[at].kind == CtlBlock)
            r->p->ran[r->f->tape.at[at].arg] = NONE;
}

static void run_tape(Run *r, uint32_t from, uint32_t to) {
    const Func *f = r->f;
    for (uint32_t at = from; at < to;) {
        Ctl c = f->tape.at[at];
        if (c.kind == CtlBlock) {
            run_block(r, c.arg);
            at++;
            continue;
        }
        uint32_t end = match(f, at, false), middle = match(f, at, true), outer = r->c.round;
        for (uint32_t i = 0; c.kind == CtlRepeat && i < c.arg; i++) {
            r->c.round = outer * c.arg + i;
            run_tape(r, at + 1, end);
        }
        r->c.round = outer;
        if (c.kind == CtlEvery || c.kind == CtlIf) {
            bool taken = c.kind == CtlEvery ? r->c.step % c.arg == 0 : r->value[c.cond][0] != 0;
            uint32_t other = middle + (middle != end);
            skip_tape(r, taken ? other : at + 1, taken ? end : middle);
            run_tape(r, taken ? at + 1 : other, taken ? middle : end);
        }
        at = end + 1;
    }
}

static void run_func(Plain *p, uint32_t i, Counters c) {
    const Func *f = func_at(p, i);
    Run r = {p, f, p->value[i], c};
    for (uint32_t s = 0; s < p->m.slot.n; s++) {
        const Slot *slot = &p->m.slot.at[s];
        if (slot->kind == SlotScalar)
            p->slot[s][0] = str_eq(slot->name, STR("step"))    ? c.step
                            : str_eq(slot->name, STR("epoch")) ? c.epoch
                                                               : c.kimg;
    }
    run_tape(&r, 0, f->tape.n);
}

// --- a run ---------------------------------------------------------------------------------------

static size_t slot_count(const Module *m, uint32_t slot) {
    const Type *t = &m->slot.at[slot].type;
    return (size_t)(type_sample(t) * (t->batched ? m->batch : 1));
}

static void fill_data(Plain *p) {
    for (uint32_t s = 0; s < p->m.slot.n; s++)
        for (size_t i = 0; p->m.slot.at[s].kind == SlotData && i < slot_count(&p->m, s); i++)
            p->slot[s][i] = ranks_datum(&p->m, s, p->step, i);
}

static void record_slots(Plain *p) {
    for (uint32_t s = 0; s < p->m.slot.n; s++)
        if (slot_outlives(&p->m.slot.at[s]))
            record(p, p->m.slot.at[s].name, NONE, s, p->slot[s], slot_count(&p->m, s));
}

static void run_entries(Plain *p) {
    fill_data(p);
    for (uint32_t i = 0; i < p->m.entry.n; i++) {
        const Func *f = &p->m.entry.at[i];
        run_func(p, 2 + i, ranks_counters(p->step));
        for (uint32_t k = 0; k < f->result.n; k++) {
            uint32_t node = f->result.at[k].node;
            record(p, f->result.at[k].name, NONE, NONE, p->value[2 + i][node],
                   bytes_of(&f->g, node) / sizeof(double));
        }
    }
}

void plain_run(Plain *p, double noise, uint64_t noise_seed) {
    p->noise = noise;
    p->noise_seed = noise_seed;
    p->run = (RanksRun){0};
    p->slot = arena_array(p->a, double *, p->m.slot.n);
    p->value = arena_array(p->a, double **, 2 + p->m.entry.n);
    p->ran = arena_array(p->a, uint32_t, p->m.step.blocks);
    for (uint32_t s = 0; s < p->m.slot.n; s++)
        p->slot[s] = arena_array(p->a, double, slot_count(&p->m, s));
    for (uint32_t i = 0; i < 2 + p->m.entry.n; i++)
        p->value[i] = arena_array(p->a, double *, func_at(p, i)->g.node.n);
    run_func(p, 0, (Counters){.seed = 7});
    for (uint32_t s = 0; s < p->m.slot.n; s++)
        if (p->o->scale > 0 && str_starts(p->m.slot.at[s].name, STR(SCALE_REPORT)))
            p->slot[s][0] = p->o->scale;
    for (p->step = 0; p->step < p->o->steps; p->step++) {
        fill_data(p);
        run_func(p, 1, ranks_counters(p->step));
        if (p->o->as_trained && p->step % 2)
            record_slots(p);
    }
    record_slots(p);
    if (p->o->entries)
        run_entries(p);
}

// --- gradients -----------------------------------------------------------------------------------

typedef struct Slope { // y as a function of x moved along a direction
    Plain *p;
    const Graph *g;
    double **value; // [node] of the run
    double **moved; // [node] value if it depends on x, else NULL
    uint32_t y, x;
} Slope;

// Operations that gradients treat as constants.
static bool is_constant(const Graph *g, uint32_t id) {
    const Node *n = graph_node(g, id);
    return n->op == OpStop || n->op == OpSign || n->op == OpFloor || n->op == OpGt ||
           n->op == OpGe || n->op == OpEq || n->op == OpArgMax || n->op == OpArgSort;
}

static double sum_of(const double *x, int64_t n, bool absolute) {
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += absolute ? fabs(x[i]) : x[i];
    return sum;
}

// Is the value from an earlier step or round, because its block did not run in the last one?
static bool is_stale(const Slope *s, uint32_t id) {
    return s->p->ran[graph_node(s->g, id)->block] + 1 != s->p->o->steps;
}

// sum(y), with x moved by h.
static double moved_sum(Slope *s, double h) {
    Arena scratch = *s->p->a;
    const Graph *g = s->g;
    Counters none = {0};
    memset(s->moved, 0, g->node.n * sizeof *s->moved);
    int64_t n = type_elements(g, node_type(g, s->x));
    s->moved[s->x] = arena_array(&scratch, double, n);
    for (int64_t i = 0; i < n; i++)
        s->moved[s->x][i] = s->value[s->x][i] + h * test_number((uint64_t)i + 17 * s->x);
    for (uint32_t id = s->x + 1; id <= s->y; id++) {
        const Node *node = graph_node(g, id);
        const void *in[MAX_IN];
        bool touched = false;
        for (uint32_t k = 0; k < node->nin; k++) {
            uint32_t from = node_in(g, id, k);
            in[k] = s->moved[from] ? s->moved[from] : s->value[from];
            touched = touched || s->moved[from];
            if (!in[k])
                return NAN;
        }
        if (touched && is_stale(s, id))
            return NAN;
        if (!touched || is_constant(g, id) || node->op == OpWrite || node->op == OpCommit)
            continue;
        s->moved[id] = arena_alloc(&scratch, bytes_of(g, id), 64);
        eval_node(g, id, in, s->moved[id], true, &none, scratch);
    }
    const double *y = s->moved[s->y] ? s->moved[s->y] : s->value[s->y];
    return sum_of(y, type_elements(g, node_type(g, s->y)), false);
}

// The error relative to the allowed error, infinite for a gradient that is not a number where y is
// smooth; negative: not checked.
static double slope_error(Slope *s, uint32_t gradient, Str *what) {
    const Graph *g = s->g;
    const double h = 1e-5, *way = s->value[gradient], *y = s->value[s->y];
    double slope = 0, size = 0;
    if (!way || !y || !s->value[s->x] || is_stale(s, gradient) || is_stale(s, s->x))
        return -1;
    int64_t n = type_elements(g, node_type(g, s->x));
    for (int64_t i = 0; i < n; i++) {
        double term = way[i] * test_number((uint64_t)i + 17 * s->x);
        slope += term;
        size += fabs(term);
    }
    if (!isfinite(size))
        size = 0;          // the differences alone say whether y is smooth
    double d[3], kink = 0; // kink: of the one-sided differences, how far they are apart
    for (int k = 0; k < 3; k++) {
        double step = h / (1 << 2 * k), up = moved_sum(s, step), down = moved_sum(s, -step);
        d[k] = (up - down) / (2 * step);
        kink = fmax(kink, fabs(up + down - 2 * moved_sum(s, 0)) / step);
    }
    double noise = 1e-8 * (1 + sum_of(y, type_elements(g, node_type(g, s->y)), true));
    double drift = fmax(fabs(d[1] - d[0]), fabs(d[2] - d[1])),
           allowed = 1e-5 * size + noise + 4 * drift;
    if (!isfinite(d[0] + d[1] + d[2]) || kink > 1e-2 * (size + fabs(d[2])) + noise ||
        drift > 1e-3 * (size + fabs(d[2])) + noise)
        return -1;
    *what = str_format(s->p->a, "d sum(%%%u) / d %%%u (%s of %s) is %.9g, a difference %.9g", s->y,
                       s->x, op_info[graph_node(g, s->y)->op].text,
                       op_info[graph_node(g, s->x)->op].text, slope, d[1]);
    return isfinite(slope) ? fabs(slope - d[1]) / allowed : INFINITY;
}

double plain_slopes(Plain *p, Str *worst, uint32_t *counted) {
    enum { MOST = 24 }; // of a step
    const Func *f = &p->m.step;
    double most = 0;
    uint32_t grads = f->result.n / 3, every = 1 + grads / MOST;
    *counted = 0;
    for (uint32_t i = 0; i < grads; i += every) {
        const Named *at = &f->result.at[3 * i];
        Slope s = {p,          &f->g,     p->value[1], arena_array(p->a, double *, f->g.node.n),
                   at[0].node, at[1].node};
        Str what;
        double error = slope_error(&s, at[2].node, &what);
        *counted += error >= 0;
        if (error > most) {
            most = error;
            *worst = what;
        }
    }
    return most;
}
