// warn_signs.c - signs that were exchanged: a critic that is taught the same of data and of
// samples, a generator that wants what its critic wants, a penalty of gradients that is subtracted.
//
// In: the step, and the scores that its nets gave, one number for each sample or place. Out:
// warnings where two losses would have one score at the same place, or one a gradient without
// bound. Where a loss would have it follows from its slope at some numbers, with all other scores
// alike and everything else as it is; a slope that follows from more than numbers of the text says
// nothing.
#include "builtin.h"
#include "warn.h"

#include <math.h>

// Between numbers that are targets or margins, and beyond them.
static const double place[] = {-40, -4.1, -2.1, -0.9, -0.4, 0.1, 0.6, 1.1, 2.1, 4.1, 40};
enum {
    PLACES = sizeof place / sizeof *place,
    PATIENCE = 6000, // operations on numbers: a model that needs more is not judged
};
static const double middle = 0.6, apart = 1e-3;

bool note_scores(Elab *e, uint32_t net, Value v) {
    bool any = false;
    if (v.kind == KindList)
        for (uint32_t i = 0; i < v.list.n; i++)
            any |= note_scores(e, net, v.list.at[i]);
    if (v.kind != KindTensor || v.tensor.val.b->g != &e->m->step.g)
        return any;
    Type t = val_type(v.tensor.val);
    if (!t.batched || (t.rank && t.dim[0] != 1))
        return any;
    vec_push(e->perm, &e->score, v.tensor.val.id);
    vec_push(e->perm, &e->scorer, net);
    return true;
}

// --- slopes --------------------------------------------------------------------------------------

typedef struct Worth { // of a node, one number for all its elements
    double at[3];      // with all scores in the middle; with one of them below, and above
    bool moves, vague; // follows from that score; from what no text says
    bool lost;         // both, so that how it moves is not known
} Worth;

static double count(const Elab *e, const Graph *g, uint32_t id) {
    const Type *t = node_type(g, id);
    return (double)type_sample(t) * (t->batched ? (double)e->o->batch : 1);
}

// Whether an operation on what moves and what is vague moves as numbers of the text say: a sum
// does, and a product of it with such a number.
static bool stays_known(const Graph *g, uint32_t id, const Worth *known) {
    const Node *n = graph_node(g, id);
    if (op_is((Op)n->op, TraitLinear))
        return true;
    if (n->op != OpMul && n->op != OpDiv)
        return false;
    const Worth *a = &known[node_in(g, id, 0)], *b = &known[node_in(g, id, 1)];
    return (!b->moves && !b->vague) || (n->op == OpMul && !a->moves && !a->vague);
}

static Worth combine(Elab *e, const Graph *g, uint32_t id, const Worth *known) {
    const Node *n = graph_node(g, id);
    Worth w = {0};
    for (uint32_t k = 0; k < n->nin; k++) {
        const Worth *in = &known[node_in(g, id, k)];
        w.moves |= in->moves;
        w.vague |= in->vague;
        w.lost |= in->lost;
    }
    w.lost |= w.moves && w.vague && !stays_known(g, id, known);
    for (uint32_t i = 0; i < 3; i++) {
        Value in[3];
        for (uint32_t k = 0; k < n->nin; k++)
            in[k] = value_num(known[node_in(g, id, k)].at[i]);
        w.at[i] = w.vague && !w.moves ? middle : apply_op(e, (Op)n->op, in, n->nin).num;
    }
    return w;
}

static Worth worth_of(Elab *e, const Graph *g, uint32_t id, const Worth *known) {
    const Node *n = graph_node(g, id);
    double c;
    if (node_is_const(g, id, &c))
        return (Worth){.at = {c, c, c}};
    Worth in = n->nin ? known[node_in(g, id, 0)] : (Worth){0};
    bool any = false, lost = false;
    for (uint32_t k = 0; k < n->nin; k++) {
        any |= known[node_in(g, id, k)].moves;
        lost |= known[node_in(g, id, k)].lost;
    }
    if (n->op == OpGrad || n->op == OpCommit) // how they move is no one's gradient
        return (Worth){.at = {middle, middle, middle}, .vague = true};
    if (n->op == OpStop)
        return (Worth){.at = {in.at[0], in.at[0], in.at[0]}, .vague = in.vague};
    if (n->op == OpPin || n->op == OpReshape || n->op == OpExpand || n->op == OpPermute)
        return in;
    if (n->op == OpSum) {
        double times = count(e, g, node_in(g, id, 0)) / count(e, g, id);
        for (uint32_t i = 0; i < 3; i++)
            in.at[i] *= times;
        return in;
    }
    if (op_info[n->op].cls == ClassEW && n->nin <= 3)
        return combine(e, g, id, known);
    return (Worth){
        .at = {middle, middle, middle}, .moves = any, .vague = true, .lost = any || lost};
}

// --- sides ---------------------------------------------------------------------------------------

typedef struct Sides {
    Elab *e;
    const Graph *g;
    uint8_t *is_score; // [node]
    Worth *known;      // [node], of those at work
    Nodes *terms;      // [update] what its loss is computed by, down to scores, in order
    uint32_t at_work;  // update + 1 whose terms `known` is of, with all scores in the middle
    uint32_t patience;
    uint8_t *from; // [score][net + 1] which nets' weights it follows from; the last: from state
    uint32_t nets;
} Sides;

static bool ends_terms(const Sides *s, uint32_t id) {
    Op op = (Op)graph_node(s->g, id)->op;
    return s->is_score[id] || op == OpGrad || op == OpCommit;
}

static void find_terms(Sides *s, Arena *a, uint32_t loss, Nodes *out) {
    Arena scratch;
    arena_need(&scratch);
    uint8_t *needed = arena_array(&scratch, uint8_t, loss + 1);
    needed[loss] = 1;
    for (uint32_t id = loss; id; id--)
        for (uint32_t k = 0; needed[id] && !ends_terms(s, id) && k < graph_node(s->g, id)->nin; k++)
            needed[node_in(s->g, id, k)] = 1;
    for (uint32_t id = 1; id <= loss; id++)
        if (needed[id])
            vec_push(a, out, id);
    arena_release(&scratch);
}

uint8_t *value_origins(const Graph *g, Arena *a, uint32_t value) {
    uint8_t *from = arena_array(a, uint8_t, value + 1);
    from[value] = 1;
    for (uint32_t id = value; id; id--) {
        const Node *n = graph_node(g, id);
        for (uint32_t k = n->op == OpCommit; from[id] && k < n->nin; k++)
            from[node_in(g, id, k)] = 1;
    }
    return from;
}

static void find_origins(Sides *s, uint32_t score, uint8_t *out) {
    Arena scratch;
    arena_need(&scratch);
    uint32_t last = s->e->score.at[score], net = s->e->scorer.at[score];
    const uint8_t *from = value_origins(s->g, &scratch, last);
    for (uint32_t id = 1; id <= last; id++) {
        if (!from[id] || graph_node(s->g, id)->op != OpRead)
            continue;
        const Slot *slot = &s->e->m->slot.at[node_slot(s->g, id)];
        if (slot->kind == SlotParam && slot->net != NONE)
            out[slot->net] = 1;
        else if (slot->kind != SlotData && slot->net != net)
            out[s->nets] = 1;
    }
    arena_release(&scratch);
}

static Worth score_at(double x, double far, bool moves) {
    return (Worth){.at = {x, x - far, x + far}, .moves = moves};
}

static Worth look_at(Sides *s, uint32_t id) {
    s->patience -= s->patience > 0;
    return worth_of(s->e, s->g, id, s->known);
}

static Worth at_rest(Sides *s, uint32_t id) {
    return s->is_score[id] ? score_at(middle, 0, false) : look_at(s, id);
}

static void begin_update(Sides *s, uint32_t update) {
    const Nodes *terms = &s->terms[update];
    if (s->at_work == update + 1)
        return;
    s->at_work = update + 1;
    for (uint32_t i = 0; i < terms->n; i++)
        s->known[terms->at[i]] = at_rest(s, terms->at[i]);
}

// The terms of an update that follow from a score, in order.
static void find_behind(const Sides *s, Arena *a, uint32_t update, uint32_t score, Nodes *out) {
    const Nodes *terms = &s->terms[update];
    Arena scratch;
    arena_need(&scratch);
    uint8_t *behind = arena_array(&scratch, uint8_t, s->g->node.n);
    behind[score] = 1;
    for (uint32_t i = 0; i < terms->n; i++) {
        uint32_t id = terms->at[i];
        for (uint32_t k = 0; !ends_terms(s, id) && k < graph_node(s->g, id)->nin; k++)
            behind[id] |= behind[node_in(s->g, id, k)];
        if (behind[id] && id != score)
            vec_push(a, out, id);
    }
    arena_release(&scratch);
}

typedef struct Probe { // of an update's loss by one score, or gradient
    uint32_t update, score;
    Nodes behind;
} Probe;

// How the loss moves with the score at x; NaN: that is not known.
static double slope(Sides *s, const Probe *p, double x) {
    s->known[p->score] = score_at(x, apart, true);
    for (uint32_t i = 0; i < p->behind.n; i++)
        s->known[p->behind.at[i]] = look_at(s, p->behind.at[i]);
    const Worth *w = &s->known[s->e->m->step.update.at[p->update].loss];
    double by = (w->at[2] - w->at[1]) / (2 * apart);
    return w->lost || !isfinite(by) || !s->patience ? NAN : fabs(by) < 1e-9 ? 0 : by;
}

// Where a loss would have scores: from `low` to `high`.
typedef struct Side {
    double low, high;
    bool any, known; // it follows from one of them; these would be at one place, which is known
} Side;

static const Side anywhere = {.low = -INFINITY, .high = INFINITY, .known = true};

// How far a loss falls (`or_zero`: does not rise) that does so at `low` and not at `high`.
static double falls_until(Sides *s, const Probe *p, double low, double high, bool or_zero) {
    for (int i = 0; i < 20; i++) {
        double x = (low + high) / 2, by = slope(s, p, x);
        if (by < 0 || (or_zero && by == 0))
            low = x;
        else
            high = x;
    }
    return or_zero ? high : low;
}

static Side find_side(Sides *s, const Probe *p) {
    Side side = anywhere;
    int low = -1, high = PLACES; // the last place where more is better, the first where less is
    for (int i = 0; i < PLACES && side.known; i++) {
        double by = slope(s, p, place[i]);
        side.any |= by != 0;
        side.known &= !isnan(by);
        if (by < 0)
            low = i;
        if (by > 0 && i < high)
            high = i;
    }
    side.known &= low < high; // it has one valley
    if (!side.any || !side.known)
        return side;
    if (low >= 0)
        side.low =
            low == PLACES - 1 ? place[low] : falls_until(s, p, place[low], place[low + 1], false);
    if (high < PLACES)
        side.high = !high ? place[0] : falls_until(s, p, place[high - 1], place[high], true);
    return side;
}

static bool is_term(const Sides *s, uint32_t update, uint32_t id) {
    const Nodes *terms = &s->terms[update];
    uint32_t i = 0;
    while (i < terms->n && terms->at[i] != id)
        i++;
    return i < terms->n;
}

static Probe probe_begin(Sides *s, Arena *a, uint32_t update, uint32_t score) {
    Probe p = {update, score, {0}};
    arena_need(a);
    begin_update(s, update);
    find_behind(s, a, update, score, &p.behind);
    return p;
}

// All is as begin_update left it.
static void probe_end(Sides *s, Arena *a, const Probe *p) {
    s->known[p->score] = at_rest(s, p->score);
    for (uint32_t i = 0; i < p->behind.n; i++)
        s->known[p->behind.at[i]] = look_at(s, p->behind.at[i]);
    arena_release(a);
}

static Side side_of_score(Sides *s, uint32_t update, uint32_t score) {
    Arena a;
    if (!is_term(s, update, score))
        return anywhere;
    Probe p = probe_begin(s, &a, update, score);
    Side side = find_side(s, &p);
    probe_end(s, &a, &p);
    return side;
}

static bool meet(Side a, Side b) {
    return a.low <= b.high && b.low <= a.high;
}

static bool trains(const Update *u, uint32_t net) {
    for (uint32_t i = 0; i < u->net.n; i++)
        if (u->net.at[i] == net)
            return true;
    return false;
}

static bool is_made(const Sides *s, uint32_t score, const Update *maker) {
    bool made = false;
    for (uint32_t i = 0; i < maker->net.n; i++)
        made |= s->from[score * (s->nets + 1) + maker->net.at[i]];
    return made;
}

static bool is_of_data(const Sides *s, uint32_t score) {
    bool others = false;
    for (uint32_t net = 0; net <= s->nets; net++)
        others |= net != s->e->scorer.at[score] && s->from[score * (s->nets + 1) + net];
    return !others;
}

// Where an update would have the scores of a net: of what `maker` trains to be made, NULL: of data.
static Side side_of(Sides *s, uint32_t update, uint32_t net, const Update *maker) {
    Side all = anywhere;
    for (uint32_t i = 0; i < s->e->score.n && all.known; i++) {
        if (s->e->scorer.at[i] != net || !(maker ? is_made(s, i, maker) : is_of_data(s, i)))
            continue;
        Side one = side_of_score(s, update, s->e->score.at[i]);
        if (!one.any)
            continue;
        all = (Side){fmax(one.low, all.low), fmin(one.high, all.high), true,
                     one.known && meet(one, all)};
    }
    return all;
}

// Whether another update, too, teaches a net what to say of data or of samples: this one may keep
// its scores small.
static bool learns_elsewhere(Sides *s, uint32_t c, uint32_t net, const Update *maker) {
    const Func *f = &s->e->m->step;
    for (uint32_t u = 0; u < f->update.n; u++)
        if (u != c && trains(&f->update.at[u], net) &&
            (side_of(s, u, net, NULL).any || side_of(s, u, net, maker).any))
            return true;
    return false;
}

static void compare(Sides *s, uint32_t c, uint32_t m, uint32_t net) {
    const Update *critic = &s->e->m->step.update.at[c], *maker = &s->e->m->step.update.at[m];
    Side data = side_of(s, c, net, NULL);
    if (!data.any || !data.known)
        return;
    Side fake = side_of(s, c, net, maker), wanted = side_of(s, m, net, maker);
    if (!fake.any || !fake.known || !wanted.any || !wanted.known ||
        learns_elsewhere(s, c, net, maker))
        return;
    Str d = s->e->m->net.at[net].name, g = update_name(s->e->perm, s->e->m, maker);
    if (meet(data, fake)) {
        diag(s->e->f, DiagW0917, critic->span, SARG(d), SARG(g));
    } else if (meet(wanted, fake)) {
        diag(s->e->f, DiagW0918, maker->span, data.low > fake.high ? "lowers" : "raises", SARG(d),
             SARG(g), SARG(d));
        diag_note(s->e->f, critic->span, "this update of `%.*s` does so, too", SARG(d));
    }
}

// Whether a gradient of the score is kept from what other nets made, or turned around on its way
// (x + stop(f(x) - x)).
static bool is_stopped(const Sides *s, uint32_t score) {
    Arena a;
    arena_need(&a);
    const uint8_t *from = value_origins(s->g, &a, score);
    bool stopped = false;
    for (uint32_t id = 1; id <= score; id++)
        stopped |= from[id] && graph_node(s->g, id)->op == OpStop;
    arena_release(&a);
    return stopped;
}

// One loss of a critic and of what it judges: where the critic would have the scores of samples,
// and not those of data, is where their maker puts them.
static void compare_within(Sides *s, uint32_t c, uint32_t net) {
    const Update *u = &s->e->m->step.update.at[c];
    Side data = side_of(s, c, net, NULL), fake = anywhere;
    uint32_t maker = NONE;
    for (uint32_t i = 0; i < s->e->score.n && data.any && data.known; i++)
        for (uint32_t k = 0; s->e->scorer.at[i] == net && k < u->net.n; k++) {
            bool made = u->net.at[k] != net && s->from[i * (s->nets + 1) + u->net.at[k]];
            if (!made || is_stopped(s, s->e->score.at[i]))
                continue;
            fake = side_of_score(s, c, s->e->score.at[i]);
            if (fake.any && fake.known && !meet(data, fake))
                maker = u->net.at[k];
        }
    if (maker != NONE)
        diag(s->e->f, DiagW0927, u->span, SARG(s->e->m->net.at[maker].name),
             SARG(s->e->m->net.at[net].name));
}

// --- penalties -----------------------------------------------------------------------------------

// A net that this update trains, whose score is differentiated by what is no weight; or NONE.
static uint32_t judge_of(const Sides *s, const Update *u, uint32_t grad) {
    uint32_t y = node_in(s->g, grad, 0), x = node_in(s->g, grad, 1), net = NONE;
    while (graph_node(s->g, x)->op == OpPin)
        x = node_in(s->g, x, 0);
    if (graph_node(s->g, x)->op == OpRead && s->e->m->slot.at[node_slot(s->g, x)].kind == SlotParam)
        return NONE;
    Arena a;
    arena_need(&a);
    const uint8_t *from = value_origins(s->g, &a, y);
    for (uint32_t i = 0; i < s->e->score.n && net == NONE; i++)
        if (s->e->score.at[i] <= y && from[s->e->score.at[i]] && trains(u, s->e->scorer.at[i]))
            net = s->e->scorer.at[i];
    arena_release(&a);
    return net;
}

// The larger a gradient is, whatever its sign, the less is the loss, and no less so far from 0,
// beyond any length that a penalty asks for: it has no least value. A quotient by a gradient falls
// as well, but to a limit.
static bool rewards(Sides *s, uint32_t update, uint32_t grad) {
    static const double beyond = 1e6; // ProGAN's penalty asks for a length of 750 in places
    Arena a;
    Probe p = probe_begin(s, &a, update, grad);
    double near = slope(s, &p, 4.1), far = slope(s, &p, beyond), back = slope(s, &p, -beyond);
    probe_end(s, &a, &p);
    return near < 0 && far < 0.9 * near && back > 0;
}

static void warn_penalty(Sides *s, uint32_t update) {
    const Update *u = &s->e->m->step.update.at[update];
    const Nodes *terms = &s->terms[update];
    for (uint32_t i = 0; i < terms->n && s->patience; i++) {
        uint32_t id = terms->at[i];
        uint32_t net = graph_node(s->g, id)->op == OpGrad ? judge_of(s, u, id) : NONE;
        if (net == NONE || !rewards(s, update, id))
            continue;
        Str name = s->e->m->net.at[net].name;
        diag(s->e->f, DiagW0920, u->span, SARG(name));
        return;
    }
}

void warn_signs(Elab *e) {
    const Func *f = &e->m->step;
    Arena a;
    arena_need(&a);
    uint32_t nodes = f->g.node.n, nets = e->m->net.n;
    Sides s = {.e = e,
               .g = &f->g,
               .is_score = arena_array(&a, uint8_t, nodes),
               .known = arena_array(&a, Worth, nodes),
               .patience = PATIENCE,
               .terms = arena_array(&a, Nodes, f->update.n + 1),
               .from = arena_array(&a, uint8_t, e->score.n * (nets + 1) + 1),
               .nets = nets};
    for (uint32_t i = 0; i < e->score.n; i++)
        s.is_score[e->score.at[i]] = 1;
    for (uint32_t i = 0; i < e->score.n; i++)
        find_origins(&s, i, &s.from[i * (nets + 1)]);
    for (uint32_t u = 0; u < f->update.n; u++)
        find_terms(&s, &a, f->update.at[u].loss, &s.terms[u]);
    for (uint32_t c = 0; c < f->update.n; c++)
        for (uint32_t m = 0; m < f->update.n && f->update.at[c].net.n == 1; m++)
            if (!trains(&f->update.at[m], f->update.at[c].net.at[0]))
                compare(&s, c, m, f->update.at[c].net.at[0]);
    for (uint32_t c = 0; c < f->update.n; c++)
        for (uint32_t i = 0; i < f->update.at[c].net.n && f->update.at[c].net.n > 1; i++)
            compare_within(&s, c, f->update.at[c].net.at[i]);
    for (uint32_t u = 0; u < f->update.n; u++)
        warn_penalty(&s, u);
    arena_release(&a);
}
