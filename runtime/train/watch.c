// watch.c - see watch.h.
//
// In: launches, before and after each. Out: the first operation whose result is not finite and
// reaches a loss or weight. A launch's results are checked in their stored format. Where one is not
// finite, the inputs that the launch overwrote are restored and the operations of its fused region
// are evaluated one by one on the host: a value that is not finite has the cause of an operand that
// is not, or is a new finding.
#include "watch.h"

#include <math.h>
#include <string.h>

typedef struct WatchSaved {
    uint32_t node;
    void *bytes;
} WatchSaved;

static GanStatus begin_step(Watch *w) {
    arena_release(&w->step);
    TRY(arena_init(&w->step, 0));
    w->finding.n = w->finding.cap = 0;
    w->cause = arena_array(&w->step, uint32_t, exec_step_plan(w->exec)->func->g.node.n);
    return GAN_OK;
}

GanStatus watch_init(Watch *w, Exec *e) {
    *w = (Watch){.exec = e};
    TRY(arena_init(&w->room, 0));
    return begin_step(w);
}

void watch_release(Watch *w) {
    arena_release(&w->room);
    arena_release(&w->step);
}

// --- causes --------------------------------------------------------------------------------------

static uint32_t earlier(uint32_t a, uint32_t b) { // of two causes
    return a && (!b || a < b) ? a : b;
}

// Of a node, wherever it is stored: a write where its value is.
static uint32_t cause_of(const Watch *w, uint32_t node) {
    const Plan *p = exec_step_plan(w->exec);
    uint32_t owner = p->place[node].owner, cause = w->cause[node];
    if (owner != NONE)
        cause = earlier(cause, w->cause[owner]);
    if (graph_node(&p->func->g, node)->op == OpWrite)
        cause = earlier(cause, cause_of(w, node_in(&p->func->g, node, 0)));
    return cause;
}

// Of what an earlier launch of this step wrote to a slot.
static uint32_t cause_in_slot(const Watch *w, uint32_t slot) {
    const Func *f = exec_step_plan(w->exec)->func;
    uint32_t cause = 0;
    for (uint32_t i = 0; i < f->effect.n; i++)
        if (graph_node(&f->g, f->effect.at[i])->op == OpWrite &&
            node_slot(&f->g, f->effect.at[i]) == slot)
            cause = earlier(cause, cause_of(w, f->effect.at[i]));
    return cause;
}

static uint32_t cause_in_inputs(const Watch *w, const Region *r) {
    uint32_t cause = 0;
    for (uint32_t i = 0; i < r->in.n; i++)
        cause = earlier(cause, cause_of(w, r->in.at[i]));
    return cause;
}

// --- stored values -------------------------------------------------------------------------------

static size_t bytes_of(const Plan *p, uint32_t node) {
    return type_bytes(&p->func->g, node_type(&p->func->g, node));
}

static GanStatus is_finite(const Watch *w, Arena room, const Plan *p, uint32_t node, bool *out) {
    size_t n = bytes_of(p, node);
    void *bytes = arena_alloc(&room, n, 64);
    TRY(exec_value_save(w->exec, p, node, bytes));
    *out = values_finite(bytes, n, (Dtype)node_type(&p->func->g, node)->dtype);
    return GAN_OK;
}

static bool overlap(const Plan *p, uint32_t a, uint32_t b) {
    Place x = p->place[a], y = p->place[b];
    return x.space == y.space && x.offset < y.offset + bytes_of(p, b) &&
           y.offset < x.offset + bytes_of(p, a);
}

static bool written_over(const Plan *p, Launch l, uint32_t in) {
    for (uint32_t k = 0; k < l.instances; k++) {
        const Region *r = &p->region.at[p->merge.at[l.first + k]];
        for (uint32_t i = 0; i < r->out.n; i++)
            if (overlap(p, in, r->out.at[i]))
                return true;
    }
    return false;
}

static GanStatus save_inputs(Watch *w, const Plan *p, Launch l) {
    uint32_t most = 0;
    for (uint32_t k = 0; k < l.instances; k++)
        most += p->region.at[p->merge.at[l.first + k]].in.n;
    w->saved = arena_array(&w->room, WatchSaved, most);
    w->saves = 0;
    for (uint32_t k = 0; k < l.instances; k++) {
        const Region *r = &p->region.at[p->merge.at[l.first + k]];
        for (uint32_t i = 0; i < r->in.n; i++) {
            if (!written_over(p, l, r->in.at[i]))
                continue;
            WatchSaved *s = &w->saved[w->saves++];
            *s = (WatchSaved){r->in.at[i], arena_alloc(&w->room, bytes_of(p, r->in.at[i]), 64)};
            TRY(exec_value_save(w->exec, p, s->node, s->bytes));
        }
    }
    return GAN_OK;
}

// --- a region, member by member ------------------------------------------------------------------

typedef struct Eval {
    Watch *w;
    const Plan *p;
    const Graph *g;
    const Region *r;
    const Counters *c;
    Arena *room;
    void **value;    // [node] in logical order, float or, in f64, double
    uint32_t *cause; // [node] as Watch.cause
    bool f64;
} Eval;

static Eval eval_init(Watch *w, const Plan *p, const Region *r, const Counters *c, Arena *room) {
    uint32_t nodes = p->func->g.node.n;
    return (Eval){.w = w,
                  .p = p,
                  .g = &p->func->g,
                  .r = r,
                  .c = c,
                  .room = room,
                  .value = arena_array(room, void *, nodes),
                  .cause = arena_array(room, uint32_t, nodes),
                  .f64 = p->real == DtF64};
}

static size_t count_of(const Eval *e, uint32_t id) {
    return (size_t)type_elements(e->g, node_type(e->g, id));
}

static double number(const Eval *e, uint32_t id, size_t i) {
    return e->f64 ? ((double *)e->value[id])[i] : (double)((float *)e->value[id])[i];
}

static int64_t broken_in(const Eval *e, uint32_t id) {
    int64_t n = 0;
    for (size_t i = 0, all = count_of(e, id); i < all; i++)
        n += !isfinite(number(e, id, i));
    return n;
}

static WatchOperand operand_of(const Eval *e, uint32_t id) {
    WatchOperand o = {.node = id, .least = INFINITY, .most = -INFINITY};
    for (size_t i = 0, all = count_of(e, id); i < all; i++) {
        double x = number(e, id, i);
        o.broken += !isfinite(x);
        o.least = isfinite(x) && x < o.least ? x : o.least;
        o.most = isfinite(x) && x > o.most ? x : o.most;
    }
    return o;
}

static void note_samples(const Eval *e, Finding *f) {
    if (!node_type(e->g, f->node)->batched)
        return;
    size_t one = count_of(e, f->node) / (size_t)e->g->batch;
    for (uint32_t s = 0; s < e->g->batch && f->samples < WATCH_SAMPLES; s++) {
        bool broken = false;
        for (size_t i = 0; i < one && !broken; i++)
            broken = !isfinite(number(e, f->node, s * one + i));
        if (broken)
            f->sample[f->samples++] = s;
    }
}

// A new one: node `id`, whose value is there, as are those of its operands if they are known. Its
// number.
static uint32_t add_finding(const Eval *e, uint32_t id, bool repeated) {
    Finding f = {.step = e->c->step + 1, .node = id, .repeated = repeated};
    enum { MOST = sizeof f.operand / sizeof *f.operand };
    f.of = (int64_t)count_of(e, id);
    f.broken = broken_in(e, id);
    for (size_t i = 0; i < (size_t)f.of && !f.nan; i++)
        f.nan = isnan(number(e, id, i));
    for (uint32_t k = 0; k < graph_node(e->g, id)->nin && f.operands < MOST; k++)
        if (e->value[node_in(e->g, id, k)])
            f.operand[f.operands++] = operand_of(e, node_in(e->g, id, k));
    note_samples(e, &f);
    vec_push(&e->w->step, &e->w->finding, f);
    return e->w->finding.n;
}

static bool is_member(const Region *r, uint32_t id) {
    for (uint32_t i = 0; i < r->node.n; i++)
        if (r->node.at[i] == id)
            return true;
    return false;
}

static GanStatus load(Eval *e, uint32_t id) {
    size_t n = count_of(e, id);
    double *x = arena_array(e->room, double, n);
    TRY(exec_value_get(e->w->exec, e->p, id, x, n));
    float *y = (float *)x; // shortened in place
    for (size_t i = 0; !e->f64 && i < n; i++) {
        float short_x = (float)x[i];
        memcpy(y + i, &short_x, sizeof short_x);
    }
    e->value[id] = x;
    e->cause[id] = cause_of(e->w, id);
    return GAN_OK;
}

// The earliest cause of an operand; a value without one that is not finite is a new finding.
static uint32_t cause_of_member(const Eval *e, uint32_t id) {
    uint32_t cause = 0;
    if (!broken_in(e, id))
        return 0;
    for (uint32_t k = 0; k < graph_node(e->g, id)->nin; k++)
        cause = earlier(cause, e->cause[node_in(e->g, id, k)]);
    return cause ? cause : add_finding(e, id, true);
}

static GanStatus evaluate(Eval *e, uint32_t id) {
    if (e->value[id])
        return GAN_OK;
    const Node *n = graph_node(e->g, id);
    Place at = e->p->place[id];
    bool stored = at.space == SpaceSlot || at.space == SpaceWork;
    if (n->op == OpRead || (stored && at.owner == id && !is_member(e->r, id)))
        return load(e, id);
    const void *in[MAX_IN] = {0};
    for (uint32_t k = 0; k < n->nin; k++) {
        TRY(evaluate(e, node_in(e->g, id, k)));
        in[k] = e->value[node_in(e->g, id, k)];
    }
    size_t bytes = count_of(e, id) * (e->f64 ? sizeof(double) : sizeof(float));
    void *out = arena_alloc(e->room, bytes, 64);
    if (n->op == OpWrite)
        memcpy(out, in[0], bytes);
    else
        eval_node(e->g, id, in, out, e->f64, e->c, *e->room);
    e->value[id] = out;
    e->cause[id] = cause_of_member(e, id);
    return GAN_OK;
}

// Swaps the launch's inputs that it wrote over with what lies there now.
static GanStatus swap_saved(Watch *w, const Plan *p) {
    for (uint32_t i = 0; i < w->saves; i++) {
        Arena room = w->room;
        WatchSaved *s = &w->saved[i];
        size_t n = bytes_of(p, s->node);
        void *now = arena_alloc(&room, n, 64);
        TRY(exec_value_save(w->exec, p, s->node, now));
        TRY(exec_value_load(w->exec, p, s->node, s->bytes));
        memcpy(s->bytes, now, n);
    }
    return GAN_OK;
}

// What goes into a launch straight from a slot: data may be broken as they come.
static GanStatus look_at_reads(Watch *w, const Plan *p, const Region *r, const Counters *c) {
    const Graph *g = &p->func->g;
    for (uint32_t i = 0; i < r->in.n; i++) {
        uint32_t id = r->in.at[i];
        bool fine = true;
        if (graph_node(g, id)->op != OpRead)
            continue;
        TRY(is_finite(w, w->room, p, id, &fine));
        w->cause[id] = fine ? 0 : cause_in_slot(w, node_slot(g, id));
        if (fine || w->cause[id])
            continue;
        Arena room = w->room;
        Eval e = eval_init(w, p, r, c, &room);
        TRY(load(&e, id));
        w->cause[id] = add_finding(&e, id, true);
    }
    return GAN_OK;
}

// Evaluates what makes each broken output of the region, from its inputs as they were.
static GanStatus repeat_region(Eval *e, const bool *broken) {
    TRY(swap_saved(e->w, e->p));
    for (uint32_t i = 0; i < e->r->out.n; i++)
        if (broken[i])
            TRY(evaluate(e, e->r->out.at[i]));
    return swap_saved(e->w, e->p);
}

// A value of which only its operands' causes are known: of a library call, which is one operation,
// or where rounding makes a difference and the region's members gave finite numbers.
static GanStatus look_at_value(Watch *w, const Plan *p, const Region *r, uint32_t id,
                               const Counters *c) {
    w->cause[id] = cause_in_inputs(w, r);
    if (w->cause[id])
        return GAN_OK;
    Eval e = eval_init(w, p, r, c, &w->room);
    bool call = r->kind == RegionCall;
    TRY(load(&e, id));
    TRY(swap_saved(w, p));
    for (uint32_t k = 0; call && k < graph_node(e.g, id)->nin; k++)
        TRY(evaluate(&e, node_in(e.g, id, k)));
    w->cause[id] = add_finding(&e, id, call);
    return swap_saved(w, p);
}

static GanStatus look_at_region(Watch *w, const Plan *p, const Region *r, const Counters *c) {
    bool *broken = arena_array(&w->room, bool, r->out.n), any = false;
    for (uint32_t i = 0; i < r->out.n; i++) {
        bool fine;
        TRY(is_finite(w, w->room, p, r->out.at[i], &fine));
        w->cause[r->out.at[i]] = 0;
        broken[i] = !fine;
        any = any || !fine;
    }
    if (!any)
        return GAN_OK;
    Eval e = eval_init(w, p, r, c, &w->room);
    if (r->kind == RegionLoop)
        TRY(repeat_region(&e, broken));
    for (uint32_t i = 0; i < r->out.n; i++) {
        uint32_t id = r->out.at[i];
        if (broken[i] && e.cause[id])
            w->cause[id] = e.cause[id];
        else if (broken[i])
            TRY(look_at_value(w, p, r, id, c));
    }
    return GAN_OK;
}

static GanStatus look_at_results(Watch *w, const Plan *p, Launch l, const Counters *c) {
    for (uint32_t k = 0; k < l.instances; k++) {
        Arena kept = w->room; // what the launch wrote over; behind it is free again
        TRY(look_at_region(w, p, &p->region.at[p->merge.at[l.first + k]], c));
        w->room = kept;
    }
    return GAN_OK;
}

GanStatus watch_launch(Watch *w, uint32_t launch, bool done, const Counters *c) {
    const Plan *p = exec_step_plan(w->exec);
    Launch l = p->launch.at[launch];
    if (done)
        return look_at_results(w, p, l, c);
    arena_release(&w->room); // what the last launch saved
    TRY(arena_init(&w->room, 0));
    for (uint32_t k = 0; k < l.instances; k++)
        TRY(look_at_reads(w, p, &p->region.at[p->merge.at[l.first + k]], c));
    return save_inputs(w, p, l);
}

GanStatus watch_left(Watch *w, bool *finite) {
    const Module *m = exec_module(w->exec);
    *finite = true;
    for (uint32_t i = 0; w->finding.n && *finite && i < m->slot.n; i++) {
        const Slot *s = &m->slot.at[i];
        if (!slot_outlives(s))
            continue;
        Arena room = w->room;
        size_t n = exec_slot_bytes(w->exec, i);
        void *bytes = arena_alloc(&room, n, 64);
        TRY(exec_slot_save(w->exec, i, bytes));
        *finite = values_finite(bytes, n, (Dtype)s->type.dtype);
    }
    if (*finite)
        return begin_step(w);
    watch_blame(w);
    return GAN_OK;
}

void watch_blame(Watch *w) {
    const Func *f = exec_step_plan(w->exec)->func;
    uint32_t cause = 0;
    for (uint32_t i = 0; i < f->update.n; i++)
        cause = earlier(cause, cause_of(w, f->update.at[i].loss));
    for (uint32_t i = 0; i < f->effect.n; i++)
        cause = earlier(cause, cause_of(w, f->effect.at[i]));
    if (w->finding.n)
        w->at = w->finding.at[cause ? cause - 1 : 0];
    w->found = w->finding.n > 0;
}

// --- telling -------------------------------------------------------------------------------------

static const Span *span_of(const Front *f, const Graph *g, uint32_t node) {
    const Span *first = NULL;
    for (uint32_t at = graph_node(g, node)->span; at; at = g->span.at[at].next) {
        const Span *s = &g->span.at[at].span;
        if (s->file == 0 || s->file > f->source.n)
            continue;
        if (!f->source.at[s->file - 1].library)
            return s; // the model's own line
        first = first ? first : s;
    }
    return first;
}

static const char *kind_of(const Finding *f) {
    return f->nan ? "NaN" : "infinity";
}

// The weight or state that a node is, as it was or as it is written, in whatever shape; empty:
// none.
static Str slot_behind(const Watch *w, uint32_t node) {
    const Func *f = exec_step_plan(w->exec)->func;
    const Module *m = exec_module(w->exec);
    for (;; node = node_in(&f->g, node, 0)) {
        const Node *n = graph_node(&f->g, node);
        if (n->op == OpRead || n->op == OpWrite)
            return m->slot.at[node_slot(&f->g, node)].name;
        for (uint32_t i = 0; i < f->effect.n; i++)
            if (node_in(&f->g, f->effect.at[i], 0) == node)
                return m->slot.at[node_slot(&f->g, f->effect.at[i])].name;
        if (n->nin != 1 || (op_info[n->op].cls != ClassMOVE && n->op != OpCast))
            return (Str){0};
    }
}

static void put_operand(Text *t, const Watch *w, const WatchOperand *o) {
    Str name = slot_behind(w, o->node);
    if (o->least > o->most)
        text_put(t, STR("no finite number"));
    else if (o->least == o->most)
        text_fmt(t, "%.6g", o->least);
    else
        text_fmt(t, "%.6g to %.6g", o->least, o->most);
    if (name.len)
        text_fmt(t, " (%.*s)", SARG(name));
}

// The weight whose gradient a node is; empty: none.
static Str gradient_of(const Watch *w, uint32_t node) {
    uint32_t slot;
    return func_gradient(exec_step_plan(w->exec)->func, node, &slot) == NONE
               ? (Str){0}
               : exec_module(w->exec)->slot.at[slot].name;
}

static Str finding_words(const Watch *w, Arena *a) {
    const Finding *f = &w->at;
    const Graph *g = &exec_step_plan(w->exec)->func->g;
    const Node *n = graph_node(g, f->node);
    Str gradient = gradient_of(w, f->node);
    Text t = {.arena = a};
    if (n->op == OpRead)
        text_fmt(&t, "%.*s holds %s",
                 SARG(exec_module(w->exec)->slot.at[node_slot(g, f->node)].name), kind_of(f));
    else
        text_fmt(&t, "`%s`%s%.*s%s gave %s", op_info[n->op].text,
                 gradient.len ? ", the gradient of " : "", SARG(gradient), gradient.len ? "," : "",
                 kind_of(f));
    text_fmt(&t, " in step %u", f->step);
    if (f->of > 1)
        text_fmt(&t, ", %lld of %lld numbers", (long long)f->broken, (long long)f->of);
    for (uint32_t i = 0; i < f->operands; i++) {
        text_put(&t, i == 0 ? STR("; it was given ") : STR(", "));
        put_operand(&t, w, &f->operand[i]);
    }
    for (uint32_t i = 0; i < f->samples; i++)
        text_fmt(&t, "%s%u", i ? ", " : "; samples of the batch: ", f->sample[i]);
    return text_str(&t);
}

void watch_tell(const Watch *w, const Front *f, Text *out) {
    Front own = *f; // its sources, with this one mistake
    own.diags = NULL;
    const Span *span = span_of(f, &exec_step_plan(w->exec)->func->g, w->at.node);
    Str words = finding_words(w, f->perm);
    diag(&own, DiagE0701, span ? *span : (Span){0}, SARG(words));
    diag_render(out, &own, false);
}

// --- evidence ------------------------------------------------------------------------------------

static void put_node(JsonOut *j, const Watch *w, uint32_t node) {
    const Graph *g = &exec_step_plan(w->exec)->func->g;
    Op op = (Op)graph_node(g, node)->op;
    json_member_str(j, "operation", str_c(op_info[op].text));
    Str name = slot_behind(w, node), gradient = gradient_of(w, node);
    if (name.len)
        json_member_str(j, "of", name);
    if (gradient.len)
        json_member_str(j, "gradient_of", gradient);
    Str shape = type_text(j->text->arena, node_type(g, node));
    json_member_str(j, "shape", shape);
}

static void put_samples(JsonOut *j, const Watch *w, const Feed *feed) {
    const Module *m = exec_module(w->exec);
    json_member_open(j, "samples", '[');
    for (uint32_t i = 0; i < w->at.samples; i++) {
        json_open(j, '{');
        json_member_int(j, "in_batch", w->at.sample[i]);
        for (uint32_t s = 0; s < m->stream.n; s++) {
            Str name = feed_sample_name(feed, s, w->at.sample[i]);
            if (!name.len)
                continue;
            json_member_str(j, str_z(j->text->arena, m->stream.at[s].field.at[0].name), name);
        }
        json_close(j, '}');
    }
    json_close(j, ']');
}

static void put_finding(JsonOut *j, const Watch *w, const Front *front, const Feed *feed) {
    const Graph *g = &exec_step_plan(w->exec)->func->g;
    const Finding *f = &w->at;
    json_member_open(j, "first", '{');
    json_member_int(j, "step", f->step);
    put_node(j, w, f->node);
    json_member_str(j, "gave", str_c(kind_of(f)));
    json_member_int(j, "numbers", f->of);
    json_member_int(j, "not_finite", f->broken);
    json_member_bool(j, "repeated_on_the_host", f->repeated);
    json_member_open(j, "places", '[');
    for (uint32_t at = graph_node(g, f->node)->span; at; at = g->span.at[at].next) {
        Span s = g->span.at[at].span;
        if (s.file == 0 || s.file > front->source.n)
            continue;
        const Source *source = &front->source.at[s.file - 1];
        LineCol lc = source_line_col(source, s.lo);
        json_put_str(j,
                     str_format(j->text->arena, "%.*s:%u:%u", SARG(source->name), lc.line, lc.col));
    }
    json_close(j, ']');
    json_member_open(j, "given", '[');
    for (uint32_t i = 0; i < f->operands; i++) {
        json_open(j, '{');
        put_node(j, w, f->operand[i].node);
        json_member_double(j, "least", f->operand[i].least);
        json_member_double(j, "most", f->operand[i].most);
        json_member_int(j, "not_finite", f->operand[i].broken);
        json_close(j, '}');
    }
    json_close(j, ']');
    put_samples(j, w, feed);
    json_close(j, '}');
}

GanStatus watch_keep(const Watch *w, Arena scratch, const Front *front, const Feed *feed, Str dir,
                     Str why, uint32_t from) {
    Text t = {.arena = &scratch};
    JsonOut j = {.text = &t};
    json_open(&j, '{');
    json_member_str(&j, "format", STR("gan-nonfinite-1"));
    json_member_str(&j, "stopped", why);
    json_member_int(&j, "repeated_from", from);
    if (w->found)
        put_finding(&j, w, front, feed);
    json_close(&j, '}');
    text_char(&t, '\n');
    return file_write_atomic(path_join(&scratch, dir, STR("nonfinite.json")), t.at, t.n);
}
