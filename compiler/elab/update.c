// update.c - `update NETS minimize L using OPT`: the gradient with respect to every weight the loss
// was computed with, and the optimizer applied to the newest value of every weight, in lock-step.
//
// In: a loss, an optimizer. Out: Grad nodes, an entry in Func.update, new values of the weights and
// of the optimizer's state. A weight the loss does not depend on is unchanged, and so is its state.
#include "builtin.h"

#include <math.h>

typedef struct Weight {
    uint32_t slot;
    Val grad;
} Weight;
typedef VEC(Weight) Weights;

struct SharedCount {
    uint32_t slot;
    Cell before;      // at the start of the update
    uint64_t weights; // hash of those that use it
};

struct WeightReport { // a report of an optimizer, for one weight
    const Ast *at;
    Str name;
    Val val;
    uint32_t weight; // its slot
};

// --- which weights -------------------------------------------------------------------------------

static void add_nets(Elab *e, Nodes *nets, Value v, const Ast *name) {
    bool twice = false;
    if (v.kind == KindNet && v.given) {
        diag(e->f, DiagE0520, name->span, SARG(span_text(e->f, name->span)),
             "a net with other values for its weights");
        diag_help(e->f, "update %.*s: its weights are what is trained",
                  SARG(e->m->net.at[v.id].name));
        return;
    }
    for (uint32_t i = 0; v.kind == KindNet && i < nets->n; i++)
        twice = twice || nets->at[i] == v.id;
    if (twice)
        diag(e->f, DiagE0536, name->span, SARG(e->m->net.at[v.id].name));
    else if (v.kind == KindNet)
        vec_push(e->perm, nets, v.id);
    else if (v.kind == KindList)
        for (uint32_t i = 0; i < v.list.n; i++)
            add_nets(e, nets, v.list.at[i], name);
    else if (v.kind != KindPoison)
        diag(e->f, DiagE0520, name->span, SARG(span_text(e->f, name->span)), value_what(v));
}

// What an `update` names is a net, or a list of nets: of other names none is meant.
static Value net_named(Elab *e, Env *env, const Ast *a) {
    Value v;
    uint32_t builtin;
    if (a->kind != AstName || scope_find(env, a->text, &v) || predefined_find(e, a->text, &v) ||
        builtin_find(e, a->text, &builtin))
        return eval(e, env, a);
    VEC(Str) known = {0};
    for (uint32_t i = 0; i < e->m->net.n; i++)
        vec_push(e->perm, &known, e->m->net.at[i].name);
    diag(e->f, DiagE0301, a->span, SARG(a->text));
    diag_help_known(e->f, a->text, known.at, known.n, "the nets");
    return POISON;
}

// Of a name that nothing is like an optimizer is meant.
static Value optimizer_named(Elab *e, Env *env, const Ast *a) {
    uint32_t mark = diag_mark(e->f);
    Value v = eval(e, env, a);
    bool unknown = a->kind == AstName && v.kind == KindPoison && diag_mark(e->f) > mark &&
                   !scope_nearest(e, env, a->text).len && !word_habit(a->text).len;
    if (unknown)
        diag_help(e->f, "an optimizer is made before the step: %.*s = adam(lr=2e-4)",
                  SARG(a->text));
    return v;
}

static bool update_nets(Elab *e, Env *env, const Ast *a, Nodes *out) {
    uint32_t errors = diag_errors(e->f);
    for (uint32_t i = 0; i < a->list.n; i++) {
        const Ast *name = a->list.at[i];
        uint32_t before = out->n;
        add_nets(e, out, net_named(e, env, name), name);
        for (uint32_t k = before; k < out->n; k++)
            refuse_pretrained(e, out->at[k], name->span);
    }
    return diag_errors(e->f) == errors && out->n;
}

static void refuse_unreached(Elab *e, const Ast *update, uint32_t net) {
    const Net *n = &e->m->net.at[net];
    diag(e->f, DiagE0521, update->a->span, SARG(n->name));
    if (n->params) {
        diag_note(e->f, n->span, "`%.*s` has %u weights", SARG(n->name), n->params);
        return;
    }
    bool called = e->net_info.at[net].called;
    diag_note(e->f, n->span,
              called ? "`%.*s` has no weights: what it computes has no layer and no `param`"
                     : "`%.*s` has no weights yet: nothing calls it before this update",
              SARG(n->name));
    diag_help(e->f, "%s, or remove it from the update",
              called ? "give it a layer" : "call it in the loss");
}

// Behind a run-time choice another outcome's loss may reach the net, as that of a lazy penalty
// does: which nets none reaches is known when the step ends.
static void note_reach(Elab *e, const Ast *update, uint32_t net, bool reached) {
    for (uint32_t i = 0; i < e->reach.n; i++) {
        Reach *r = &e->reach.at[i];
        if (r->update == update && r->net == net) {
            r->reached = r->reached || reached;
            return;
        }
    }
    vec_push(e->perm, &e->reach, ((Reach){update, net, reached}));
}

void updates_reach(Elab *e) {
    for (uint32_t i = 0; i < e->reach.n; i++)
        if (!e->reach.at[i].reached)
            refuse_unreached(e, e->reach.at[i].update, e->reach.at[i].net);
}

static void net_gradients(Elab *e, const Ast *update, uint32_t net, Val loss,
                          const uint8_t *reached, Weights *out) {
    uint32_t before = out->n;
    for (uint32_t slot = 0; slot < e->m->slot.n; slot++) {
        const Slot *s = &e->m->slot.at[slot];
        if (s->kind != SlotParam || s->net != net)
            continue;
        Val g = slot_gradient(e, slot, loss, reached);
        if (g.id)
            vec_push(e->perm, out, ((Weight){slot, g}));
    }
    e->net_info.at[net].changes = true;
    if (e->to->choices)
        note_reach(e, update, net, out->n > before);
    else if (out->n == before)
        refuse_unreached(e, update, net);
}

// --- applying the optimizer ----------------------------------------------------------------------

// One round over all weights. True when it got to the end of each; else a sum over all weights was
// met whose terms are now in t->part.
static bool tune(Elab *e, Value opt, const Weights *weights, Tuning *t, Value *out) {
    t->waits = false;
    t->part.n = 0;
    t->shared.n = 0;
    t->report.n = 0;
    t->was.n = 0;
    for (uint32_t i = 0; i < weights->n; i++) {
        Value w = value_tensor(slot_read(e, weights->at[i].slot));
        w.slot = t->weight = weights->at[i].slot;
        t->totals = 0;
        out[i] = call_with(e, opt, (Value[]){w, value_tensor(weights->at[i].grad)}, 2);
    }
    return !t->waits;
}

static void sum_parts(Elab *e, Tuning *t) {
    Val sum = {0};
    for (uint32_t i = 0; i < t->part.n; i++) {
        Val part = {e->to->at, t->part.at[i]};
        sum = i ? Add(sum, part) : part;
    }
    vec_push(e->perm, &t->total, sum.id ? sum.id : Number(e->to->at, 0).id);
}

// A count kept once must always meet the same weights; where it does not, the model is elaborated
// again with a count for each weight.
static void check_shared(Elab *e, const Tuning *t) {
    for (uint32_t i = 0; i < t->shared.n; i++) {
        const SharedCount *now = &t->shared.at[i];
        uint32_t k = 0;
        while (k < e->counted.n && e->counted.at[k].slot != now->slot)
            k++;
        if (k == e->counted.n)
            vec_push(e->perm, &e->counted, *now);
        else if (e->counted.at[k].weights != now->weights)
            e->retry = true;
    }
}

void weight_report(Elab *e, const Ast *at, Str name, Val v) {
    Tuning *t = e->tuning;
    vec_push(e->perm, &t->report, ((WeightReport){at, name, v, t->weight}));
}

// A number that is the same for all weights, such as a total, is reported once, under the names of
// the nets; another for each weight, under its name.
static void emit_reports(Elab *e, const Tuning *t, const Update *u) {
    for (uint32_t i = 0; i < t->report.n; i++) {
        const WeightReport *r = &t->report.at[i];
        bool same = true, first = true;
        for (uint32_t k = 0; k < t->report.n; k++) {
            const WeightReport *s = &t->report.at[k];
            same = same && (s->at != r->at || s->val.id == r->val.id);
            first = first && (s->at != r->at || k >= i);
        }
        Str of = same ? update_name(e->perm, e->m, u) : e->m->slot.at[r->weight].name;
        if (first || !same)
            vec_push(e->perm, &e->to->fn->report,
                     ((Named){str_format(e->perm, "%.*s/%.*s", SARG(r->name), SARG(of)), r->val.id,
                              r->val.b->block}));
    }
}

static void apply(Elab *e, Value opt, const Weights *weights, const Update *u) {
    Tuning t = {.update = e->to->cursor.update++};
    Value *out = arena_array(e->perm, Value, weights->n);
    Snapshot start = snapshot_take(e);
    uint32_t errors = diag_errors(e->f);
    e->tuning = &t;
    while (!tune(e, opt, weights, &t, out) && diag_errors(e->f) == errors && !e->stop) {
        sum_parts(e, &t);
        Cursors now = e->to->cursor;
        snapshot_restore(e, &start);
        e->to->cursor.pin = now.pin; // a round cut short numbers its pins otherwise than the next
        e->to->cursor.version = now.version;
    }
    for (uint32_t i = 0; i < weights->n; i++) {
        Val v;
        if (want_tensor(e, out[i], &v) && slot_fits(e, weights->at[i].slot, &v, false))
            slot_set(e, weights->at[i].slot, v);
    }
    slots_hold(e);
    e->tuning = NULL;
    emit_reports(e, &t, u);
    check_shared(e, &t);
}

Value eval_total(Elab *e, Value x) {
    Tuning *t = e->tuning;
    Val v;
    if (!t) {
        diag(e->f, DiagE0522, here(e), "total");
        return POISON;
    }
    if (!want_tensor(e, x, &v))
        return POISON;
    const Type *type = node_type(v.b->g, v.id);
    if (type->batched || type->rank) {
        diag(e->f, DiagE0505, here(e), 5, "total", SARG(type_text(e->perm, type)));
        return POISON;
    }
    uint32_t i = t->totals++;
    if (i < t->total.n)
        return value_tensor((Val){v.b, t->total.at[i]});
    if (i == t->total.n)
        vec_push(e->perm, &t->part, v.id);
    t->waits = true;
    return POISON;
}

// --- the optimizer's state -----------------------------------------------------------------------
//
// Kept per object and weight. A number that only counts, like Adam's step count, is the same for
// all weights that are updated together, and kept once per object and net.

static bool only_counts(const Ast *a, const Ast *fn, Str self) {
    switch (a->kind) {
    case AstNum:
        return true;
    case AstUnary:
        return only_counts(a->a, fn, self);
    case AstBinary:
        return only_counts(a->a, fn, self) && only_counts(a->b, fn, self);
    case AstName:
        if (str_eq(a->text, self))
            return true;
        for (uint32_t i = 0; i < fn->a->list.n; i++) // an option
            if (str_eq(fn->a->list.at[i]->text, a->text))
                return true;
        return false;
    default:
        return false;
    }
}

// Whether `name` is bound or assigned anywhere below, other than by its declaration.
static bool changes_below(const Ast *a, Str name) {
    if (!a)
        return false;
    if (a->kind == AstAssign && a->a->kind == AstName && str_eq(a->a->text, name))
        return true;
    if (a->kind == AstBind || a->kind == AstFor)
        for (uint32_t i = 0; i < a->list.n; i++)
            if (str_eq(a->list.at[i]->text, name))
                return true;
    for (uint32_t i = 0; i < ast_parts(a); i++)
        if (changes_below(ast_part(a, i), name))
            return true;
    return false;
}

// The state moves only by statements of the body's own list, each from itself, options and numbers;
// no option is rebound.
static bool find_count(const Ast *decl, const Ast *fn) {
    if (decl->a || fn->c->kind != AstBlock || !only_counts(decl->c, fn, decl->text))
        return false;
    for (uint32_t i = 0; i < fn->a->list.n; i++)
        if (changes_below(fn->c, fn->a->list.at[i]->text))
            return false;
    for (uint32_t i = 0; i < fn->c->list.n; i++) {
        const Ast *a = fn->c->list.at[i];
        bool moves =
            a->kind == AstAssign && a->a->kind == AstName && str_eq(a->a->text, decl->text);
        if (moves ? !only_counts(a->c, fn, decl->text) : changes_below(a, decl->text))
            return false;
    }
    return true;
}

// The same; the body is searched once, not for each weight.
static bool is_count(Elab *e, const Ast *decl, const Ast *fn) {
    enum { Other = 1, Count };
    uint64_t key = hash64(&decl, sizeof decl, 5);
    uint32_t found = map_find(&e->counts, key);
    if (!found)
        map_put(e->perm, &e->counts, key, found = find_count(decl, fn) ? Count : Other);
    return found == Count;
}

// Every weight's turn begins at the value of before the update.
static void share_count(Elab *e, uint32_t slot) {
    Tuning *t = e->tuning;
    for (uint32_t i = 0; i < t->shared.n; i++) {
        if (t->shared.at[i].slot != slot)
            continue;
        *slot_cell(e, slot) = t->shared.at[i].before;
        t->shared.at[i].weights = hash64(&t->weight, sizeof t->weight, t->shared.at[i].weights);
        return;
    }
    (void)slot_read(e, slot);
    SharedCount c = {slot, *slot_cell(e, slot), hash64(&t->weight, sizeof t->weight, 4)};
    vec_push(e->perm, &t->shared, c);
}

uint32_t optimizer_slot(Elab *e, Env *env, const Ast *decl, Slot s) {
    const Slot *w = &e->m->slot.at[e->tuning->weight];
    const Object *o = e->owner->object;
    bool shared = !e->split_counts && o && is_count(e, decl, o->fn->ast);
    s.kind = SlotOpt;
    s.net = w->net;
    s.name = str_format(e->perm, "%.*s/%.*s", SARG(s.name),
                        SARG(shared ? e->m->net.at[w->net].name : w->name));
    uint32_t slot = slot_make(e, env, decl, s);
    if (shared && slot != NONE)
        share_count(e, slot);
    return slot;
}

// --- the statement -------------------------------------------------------------------------------

// Of a sum in which one term is not one number, that term: the loss itself is where it was written.
static Val larger_term(Val loss) {
    for (;;) {
        const Graph *g = loss.b->g;
        Op op = (Op)graph_node(g, loss.id)->op;
        if (op != OpAdd && op != OpSub)
            return loss;
        bool one[2];
        for (uint32_t k = 0; k < 2; k++)
            one[k] = is_shared_number(node_type(g, node_in(g, loss.id, k)));
        if (one[0] == one[1])
            return loss;
        loss.id = node_in(g, loss.id, one[0] ? 1 : 0);
    }
}

static bool loss_value(Elab *e, Env *env, const Ast *a, Val *out) {
    Spot outer = spot_enter(e, a);
    bool fine = want_tensor(e, eval(e, env, a), out);
    if (fine) {
        const Type *t = node_type(out->b->g, out->id);
        fine = is_shared_number(t);
        if (!fine) {
            Val term = larger_term(*out);
            diag(e->f, DiagE0523, a->span, SARG(type_text(e->perm, t)));
            if (term.id != out->id)
                note_origin(e, term);
        } else if (t->rank)
            *out = Reshape(*out, 0, NULL);
    }
    spot_leave(e, outer);
    return fine;
}

typedef struct Moment { // of a run
    double n;           // a step's number,
    bool epoch;         // or an epoch's: how many steps it has follows from the data
} Moment;

static double counter_at(const Elab *e, uint32_t slot, Moment at) {
    if (at.n == 0 || at.epoch == (slot == e->scalar[1]))
        return at.n * (slot == e->scalar[2] ? (double)e->o->batch / 1000 : 1);
    return NAN;
}

static double node_at(const Elab *e, Arena scratch, const Graph *g, uint32_t id, Moment at,
                      const double *known) {
    const Node *n = graph_node(g, id);
    const Type *t = node_type(g, id);
    const void *in[3];
    double out;
    if (node_is_const(g, id, &out))
        return out;
    if (!is_shared_number(t) || n->nin > 3 || op_info[n->op].cls == ClassRNG ||
        op_info[n->op].cls == ClassMETA)
        return NAN;
    if (n->op == OpRead) {
        uint32_t slot = node_slot(g, id);
        return e->m->slot.at[slot].kind == SlotScalar ? counter_at(e, slot, at) : NAN;
    }
    for (uint32_t k = 0; k < n->nin; k++) {
        in[k] = &known[node_in(g, id, k)];
        if (isnan(known[node_in(g, id, k)]))
            return NAN;
    }
    Counters none = {0};
    eval_node(g, id, in, &out, true, &none, scratch);
    return out;
}

// A schedule's number; NaN where it follows from more than that counter.
static double number_at(const Elab *e, Val v, Moment at) {
    Arena scratch = *e->perm;
    double *known = arena_array(&scratch, double, v.id + 1);
    const uint8_t *needed = graph_reach(v.b->g, &scratch, &v.id, 1);
    for (uint32_t id = 1; id <= v.id; id++)
        known[id] = needed[id] ? node_at(e, scratch, v.b->g, id, at, known) : NAN;
    return known[v.id];
}

// The optimizer's `lr`, its own or of the optimizer it goes around; NaN where there is none.
static double learning_rate(Elab *e, Value opt, Moment at, uint32_t depth) {
    if (opt.kind != KindObject || depth > 8)
        return NAN;
    Env options = {.local = opt.object->args};
    Value lr;
    if (scope_find(&options, STR("lr"), &lr) && value_is_plain(lr))
        return lr.num;
    if (scope_find(&options, STR("lr"), &lr))
        return lr.kind == KindTensor ? number_at(e, lr.tensor.val, at) : NAN;
    for (const Binding *b = opt.object->args; b && b->kind == BindName; b = b->outer)
        if (b->value.kind == KindObject)
            return learning_rate(e, b->value, at, depth + 1);
    return NAN;
}

typedef struct Rate { // a learning rate as a function of one counter
    Elab *e;
    Value opt;
    bool epoch; // of epochs, else of steps
} Rate;

static double rate_at(const Rate *r, double n) {
    return learning_rate(r->e, r->opt, (Moment){n, r->epoch}, 0);
}

enum { Far = 1 << 30 }; // more steps than a run has

// Whether a schedule that is not above 0 in step `none` is so later, as far as some steps of any
// period tell. *below: it is less than 0 there.
static bool stays_down(const Rate *r, uint32_t none, bool *below) {
    *below = rate_at(r, none) < 0;
    for (uint32_t more = 1; more < Far; more += more / 4 + 1) {
        double rate = rate_at(r, (double)none + more);
        if (!(rate <= 0))
            return false;
        *below |= rate < 0;
    }
    return true;
}

// The step, or epoch, from which on a schedule is 0 or less, having been more; 0: there is none.
static uint32_t rate_ends(const Rate *r, bool *below) {
    uint32_t some = Far, none = Far; // one where it is more, one where it is not
    *below = false;
    if (!(rate_at(r, Far) <= 0))
        return 0;
    while (some && !(rate_at(r, some) > 0))
        none = some, some /= 2;
    if (!some && !(rate_at(r, 0) > 0))
        return 0;
    while (none - some > 1) {
        uint32_t middle = some + (none - some) / 2;
        if (rate_at(r, middle) > 0)
            some = middle;
        else
            none = middle;
    }
    return stays_down(r, none, below) ? none : 0;
}

static void warn_two(Elab *e, uint32_t net, Value opt) {
    if (opt.kind != KindObject || !opt.object->component.len)
        return;
    NetInfo *info = &e->net_info.at[net];
    Str name = opt.object->component;
    if (info->optimizer.len && !str_eq(info->optimizer, name))
        diag(e->f, DiagW0901, here(e), SARG(e->m->net.at[net].name));
    info->optimizer = name;
}

static Str callee_text(Elab *e, Value v) {
    const Ast *fn = value_ast(v);
    return fn ? str_format(e->perm, "`%.*s`", SARG(fn->text)) : str_c(value_what(v));
}

// A function, or a made object, of a weight and its gradient.
static bool is_optimizer(Value v) {
    const Ast *params = value_params(v);
    uint32_t needed = 0;
    for (uint32_t i = 0; params && i < params->list.n; i++)
        needed += !params->list.at[i]->b;
    return params && params->list.n >= 2 && needed <= 2;
}

void eval_update(Elab *e, Env *env, const Ast *a) {
    Nodes nets = {0};
    Weights weights = {0};
    Val loss;
    if (e->to->index != 1 || !e->to->branching || e->net) {
        diag(e->f, DiagE0514, here(e), "update");
        return;
    }
    if (e->turn) {
        diag(e->f, DiagE0530, here(e), "update");
        return;
    }
    bool named = update_nets(e, env, a, &nets), known = loss_value(e, env, a->a, &loss);
    Value opt = optimizer_named(e, env, a->b); // whatever was wrong before it
    if (!named || !known)
        return;
    if (value_takes_two_lists(opt))
        opt = call_with(e, opt, NULL, 0); // `using adam`: with its defaults
    if (!is_optimizer(opt)) {
        if (opt.kind != KindPoison)
            diag(e->f, DiagE0526, a->b->span, SARG(callee_text(e, opt)));
        return;
    }
    Arena scratch;
    arena_need(&scratch);
    const uint8_t *reached = grad_reach(loss.b->g, &scratch, loss.id);
    for (uint32_t i = 0; i < nets.n; i++)
        net_gradients(e, a, nets.at[i], loss, reached, &weights);
    arena_release(&scratch);
    Update u = {.block = loss.b->block,
                .loss = loss.id,
                .rate = learning_rate(e, opt, (Moment){0}, 0),
                .span = a->span};
    u.until = rate_ends(&(Rate){.e = e, .opt = opt}, &u.below);
    if (!u.until)
        u.epochs = rate_ends(&(Rate){.e = e, .opt = opt, .epoch = true}, &u.below);
    for (uint32_t i = 0; i < nets.n; i++)
        vec_push(e->perm, &u.net, nets.at[i]);
    for (uint32_t i = 0; i < weights.n; i++)
        vec_push(e->perm, &u.grad, ((GradOf){weights.at[i].slot, weights.at[i].grad.id}));
    if (!e->to->muted) {
        assert(e->to->fn->update.n == e->to->cursor.update);
        vec_push(e->perm, &e->to->fn->update, u);
    }
    apply(e, opt, &weights, &u);
    for (uint32_t i = 0; i < nets.n; i++)
        warn_two(e, nets.at[i], opt);
}
