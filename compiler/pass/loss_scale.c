// loss_scale.c - losses scaled so that their gradients stay in f16's range (Micikevicius et al.
// 2018, "Mixed precision training", section 3.2), all of it in the graph.
//
// In: a function with Grad and Commit nodes, and a module with slots for scales (loss_scale_slots);
// without them nothing changes. Out: the same function without Commits, where
//   grad(y, x)        becomes grad(y * scale, x) / scale, the quotient in f32. A gradient inside a
//                     loss (a penalty's) uses the scale of the first update that needs it.
//   commit(made, was) becomes `made` where all gradients of the update are finite, else `was`: the
//                     update is skipped, and its optimizer's state does not change.
//   write(slot, x)    of state that is not an optimizer's (running statistics, a moving average)
//                     keeps the old element where x is not finite: the forward pass, or an inner
//                     gradient while the scale is too large, may overflow.
// A scale is state of the step: a skipped update halves it, and Growth updates in a row that were
// not skipped double it. It is a power of two, so scaling does not round. Finiteness is tested on
// the gradients that the optimizer reads, which are equal on all ranks, so ranks agree without
// communication. The host reads only reports: the scale an update used, and how many were skipped
// before it.
#include "pass.h"

#include <float.h>
#include <string.h>

// As PyTorch's GradScaler begins, grows and backs off; the upper bound is apex's.
static const double Start = 65536, Most = 16777216, Factor = 2, Growth = 2000;

enum { ScaleOf, GoodOf, SkippedOf, SLOTS }; // of a scale, in this order

// --- slots ---------------------------------------------------------------------------------------

// Updates of one statement in mutually exclusive branches share a scale: [update] the first one
// that has it.
static uint32_t *scale_owners(Arena *a, const Func *f) {
    uint32_t *owner = arena_array(a, uint32_t, f->update.n);
    for (uint32_t i = 0; i < f->update.n; i++) {
        const Update *u = &f->update.at[i];
        owner[i] = i;
        for (uint32_t j = 0; j < i && owner[i] == i; j++) {
            const Span *s = &f->update.at[j].span;
            bool twin = owner[j] == j && s->file == u->span.file && s->lo == u->span.lo;
            for (uint32_t k = j; twin && k < i; k++)
                twin = owner[k] != j || blocks_exclude(f, f->update.at[k].block, u->block);
            owner[i] = twin ? j : i;
        }
    }
    return owner;
}

static uint32_t first_slot(const Module *m) {
    uint32_t slot = 0;
    while (slot < m->slot.n && m->slot.at[slot].kind != SlotScale)
        slot++;
    return slot;
}

static bool same_nets(const Update *a, const Update *b) {
    return a->net.n == b->net.n && memcmp(a->net.at, b->net.at, a->net.n * sizeof *a->net.at) == 0;
}

// "D", "D.2" for the second that updates D.
static Str scale_name(Arena *a, const Module *m, const uint32_t *owner, uint32_t update) {
    const Update *u = m->step.update.at;
    uint32_t nth = 1;
    for (uint32_t i = 0; i < update; i++)
        nth += owner[i] == i && same_nets(&u[i], &u[update]);
    Str nets = update_name(a, m, &u[update]);
    return nth == 1 ? nets : str_format(a, "%.*s.%u", SARG(nets), nth);
}

void loss_scale_slots(Arena *perm, Module *m) {
    static const char *const kind[SLOTS] = {SCALE_REPORT, "good_updates/", "skipped_updates/"};
    if (first_slot(m) < m->slot.n)
        return;
    const uint32_t *owner = scale_owners(perm, &m->step);
    for (uint32_t i = 0; i < m->step.update.n; i++) {
        Str name = scale_name(perm, m, owner, i);
        for (uint32_t k = 0; owner[i] == i && k < SLOTS; k++)
            vec_push(perm, &m->slot,
                     ((Slot){.kind = SlotScale,
                             .name = str_format(perm, "%s%.*s", kind[k], SARG(name)),
                             .net = NONE,
                             .type = type_make(false, 0, NULL),
                             .span = m->step.update.at[i].span}));
    }
}

// --- the pass ------------------------------------------------------------------------------------

typedef struct Gate { // of an update
    Val finite;       // 1 where its gradients are, 0 else; id 0: not built yet
    uint32_t write[SLOTS];
} Gate;

typedef struct Scaler {
    const Func *f;
    uint32_t *slot;   // [update] the first of its scale's
    uint32_t *scaled; // [old node] of a Grad: the update whose scale it has, + 1; 0 none
    Gate *gate;       // [update]
    const Module *m;
    uint32_t version; // of reads: the first that is free
} Scaler;

static Val read_slot(const Scaler *s, Builder *to, uint32_t update, uint32_t which) {
    return Read(to, s->slot[update] + which, to->block, type_make(false, 0, NULL));
}

// Marks the Grad nodes whose sum is one weight's gradient.
static void mark_gradient(Scaler *s, const Graph *g, uint32_t id, uint32_t update) {
    if (graph_node(g, id)->op == OpGrad)
        s->scaled[id] = update + 1;
    for (uint32_t k = 0; graph_node(g, id)->op == OpAdd && k < 2; k++)
        mark_gradient(s, g, node_in(g, id, k), update);
}

// The other Grad nodes are of the first update whose loss needs them.
static void mark_inner(Scaler *s, Arena scratch, const Graph *g) {
    uint32_t *first = arena_array(&scratch, uint32_t, g->node.n); // [node] the update + 1, 0 none
    for (uint32_t i = s->f->update.n; i-- > 0;)
        first[s->f->update.at[i].loss] = i + 1;
    for (uint32_t id = g->node.n; id-- > 1;) { // users come first
        for (uint32_t k = 0; first[id] && k < graph_node(g, id)->nin; k++) {
            uint32_t *in = &first[node_in(g, id, k)];
            *in = *in && *in < first[id] ? *in : first[id];
        }
        if (first[id] && graph_node(g, id)->op == OpGrad && !s->scaled[id])
            s->scaled[id] = first[id];
    }
}

static Val is_finite(Val x) {
    return Ge(Num(x, FLT_MAX), Abs(x)); // false of a NaN
}

static Val not_finite(Val g) {
    Type t = val_type(g);
    Val bad = Sum(Sub(Num(g, 1), is_finite(g)), (((uint32_t)1 << t.rank) - 1) << 1);
    return Reshape(bad, 0, NULL);
}

// Builds the gate in the block of the update, from whichever block of its optimizer comes first.
static void open_gate(Scaler *s, Rewriter *r, uint32_t update) {
    const Update *u = &s->f->update.at[update];
    Gate *gate = &s->gate[update];
    Builder *to = &r->to, outer = *to;
    to->block = u->block;
    Val bad = Number(to, 0), scale = read_slot(s, to, update, ScaleOf);
    for (uint32_t i = 0; i < u->grad.n; i++)
        bad = Add(bad, not_finite(rewritten(r, u->grad.at[i].node)));
    Val finite = gate->finite = Eq(bad, Num(bad, 0));
    Val good = Add(read_slot(s, to, update, GoodOf), Num(bad, 1)),
        full = Ge(good, Num(bad, Growth));
    Val grown = Where(full, Min(Mul(scale, Num(bad, Factor)), Num(bad, Most)), scale);
    Val next[SLOTS] = {
        [ScaleOf] = Where(finite, grown, Mul(scale, Num(bad, 1 / Factor))),
        [GoodOf] = Where(finite, Where(full, Num(bad, 0), good), Num(bad, 0)),
        [SkippedOf] = Add(read_slot(s, to, update, SkippedOf), Sub(Num(bad, 1), finite)),
    };
    for (uint32_t k = 0; k < SLOTS; k++)
        gate->write[k] = Write(s->slot[update] + k, next[k]).id;
    *to = outer;
}

// The version is a new one: the model reads none of it, and this block writes the slot once.
static Val write_finite(const Scaler *s, uint32_t slot, Val made) {
    Val was = Read(made.b, slot, s->version + made.b->block, val_type(made));
    return Write(slot, Where(is_finite(made), made, was));
}

static uint32_t scale_node(Rewriter *r, uint32_t id) {
    Scaler *s = r->user;
    const Graph *from = r->from;
    Builder *to = &r->to;
    Op op = (Op)graph_node(from, id)->op;
    if (op == OpGrad && s->scaled[id]) {
        Val y = rewritten_in(r, id, 0), x = rewritten_in(r, id, 1);
        Val scale = read_slot(s, to, s->scaled[id] - 1, ScaleOf);
        return Mul(Grad(Mul(y, scale), x), Div(Number(to, 1), scale)).id;
    }
    uint32_t slot = op == OpWrite ? node_slot(from, id) : NONE;
    if (slot != NONE && s->m->slot.at[slot].kind == SlotState)
        return write_finite(s, slot, rewritten_in(r, id, 0)).id;
    if (op != OpCommit)
        return node_copy(r, id);
    uint32_t update = (uint32_t)node_attr(from, id)->i[0];
    if (!s->gate[update].finite.id)
        open_gate(s, r, update);
    Val made = rewritten_in(r, id, 0), was = rewritten_in(r, id, 1);
    return Stop(Where(s->gate[update].finite, made, was)).id;
}

// Adds the writes of a gate, and reports of the values before the update.
static void add_effects(Arena *perm, const Module *m, Func *f, const Scaler *s, uint32_t update) {
    static const uint32_t reported[] = {ScaleOf, SkippedOf};
    uint32_t block = f->update.at[update].block;
    Builder at = {.g = &f->g, .block = block};
    for (uint32_t k = 0; k < SLOTS; k++)
        vec_push(perm, &f->effect, s->gate[update].write[k]);
    for (uint32_t k = 0; k < sizeof reported / sizeof *reported; k++)
        vec_push(perm, &f->report,
                 ((Named){m->slot.at[s->slot[update] + reported[k]].name,
                          read_slot(s, &at, update, reported[k]).id, block}));
}

static void begin_scales(Arena *perm, const Module *m, Func *init) {
    for (uint32_t slot = first_slot(m); slot < m->slot.n; slot += SLOTS) {
        Builder at = {.g = &init->g, .span = m->slot.at[slot].span};
        vec_push(perm, &init->effect, Write(slot, Number(&at, Start)).id);
    }
}

static bool has_commit(const Graph *g) {
    for (uint32_t id = 1; id < g->node.n; id++)
        if (graph_node(g, id)->op == OpCommit)
            return true;
    return false;
}

static uint32_t free_version(const Graph *g) {
    int64_t version = 0;
    for (uint32_t id = 1; id < g->node.n; id++)
        if (graph_node(g, id)->op == OpRead && node_attr(g, id)->i[1] >= version)
            version = node_attr(g, id)->i[1] + 1;
    return (uint32_t)version;
}

void pass_loss_scale(Arena *perm, const Module *m, Func *f, const PassOptions *o) {
    (void)o;
    uint32_t first = first_slot(m), n = f->update.n, scales = 0;
    if (first == m->slot.n)
        return;
    if (f == &m->init)
        begin_scales(perm, m, f);
    if (!has_commit(&f->g)) // no updates, or a text printed after this pass
        return;
    Scaler s = {.f = f,
                .m = m,
                .version = free_version(&f->g),
                .slot = arena_array(perm, uint32_t, n),
                .scaled = arena_array(perm, uint32_t, f->g.node.n),
                .gate = arena_array(perm, Gate, n)};
    const uint32_t *owner = scale_owners(perm, f);
    for (uint32_t i = 0; i < n; i++)
        s.slot[i] = owner[i] == i ? first + SLOTS * scales++ : s.slot[owner[i]];
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t k = 0; k < f->update.at[i].grad.n; k++)
            mark_gradient(&s, &f->g, f->update.at[i].grad.at[k].node, i);
    mark_inner(&s, *perm, &f->g);
    func_rewrite(perm, f, f->g.batch, scale_node, &s);
    for (uint32_t i = 0; i < n; i++)
        if (s.gate[i].finite.id)
            add_effects(perm, m, f, &s, i);
}
