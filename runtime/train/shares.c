// shares.c - see shares.h.
//
// A launch belongs to the first update that needs it for its loss, its gradients or the weights it
// writes. Within an update, a penalty's part are the convolutions and products that the loss needs
// for an inner gradient only, and what depends on them, forward and backward. What no update needs
// (averages, running statistics, reports) counts for the update it depends on.
#include "shares.h"

#include <math.h>

typedef VEC(uint32_t) Ids;

typedef struct Claims {
    Arena *a;
    const Module *m;
    const Func *f;
    const Graph *g;
    uint32_t *owner;  // [node] update + 1, 0 none
    uint8_t *penalty; // [node]
    Ids *carried;     // [slot] Writes of a SlotCarry: its Reads need them
} Claims;

static bool is_const(const Graph *g, uint32_t id) {
    return op_info[graph_node(g, id)->op].cls == ClassLEAF;
}

// What a node needs: its operands, and through a slot that carries values what was put there.
static Ids needs(const Claims *c, uint32_t id) {
    const Node *n = graph_node(c->g, id);
    Ids in = {&c->g->edge.at[n->in], n->nin, n->nin};
    return n->op == OpRead ? c->carried[node_slot(c->g, id)] : in;
}

// --- owners --------------------------------------------------------------------------------------

static void claim(Claims *c, uint32_t root, uint32_t owner) {
    Arena scratch = *c->a;
    Ids stack = {0};
    vec_push(&scratch, &stack, root);
    while (stack.n) {
        uint32_t id = stack.at[--stack.n];
        if (!id || c->owner[id] || is_const(c->g, id))
            continue;
        c->owner[id] = owner;
        Ids in = needs(c, id);
        for (uint32_t k = 0; k < in.n; k++)
            vec_push(&scratch, &stack, in.at[k]);
    }
}

static bool updates(const Update *u, uint32_t slot, uint32_t block) {
    bool found = false;
    for (uint32_t k = 0; u->block == block && k < u->grad.n; k++)
        found |= u->grad.at[k].slot == slot;
    return found;
}

// The weights that this update, and no later one of the block, leaves.
static void claim_weights(Claims *c, uint32_t update) {
    for (uint32_t i = 0; i < c->f->effect.n; i++) {
        uint32_t w = c->f->effect.at[i], slot = node_slot(c->g, w),
                 block = graph_node(c->g, w)->block;
        bool last = updates(&c->f->update.at[update], slot, block);
        for (uint32_t u = update + 1; last && u < c->f->update.n; u++)
            last = !updates(&c->f->update.at[u], slot, block);
        if (last)
            claim(c, w, update + 1);
    }
}

// What nobody has claimed goes with the latest update it hangs on.
static void claim_rest(Claims *c) {
    for (uint32_t id = 1; id < c->g->node.n; id++) {
        Ids in = needs(c, id);
        for (uint32_t k = 0, own = c->owner[id]; !own && k < in.n; k++) {
            uint32_t other = c->owner[in.at[k]];
            c->owner[id] = other > c->owner[id] ? other : c->owner[id];
        }
    }
}

// --- penalties -----------------------------------------------------------------------------------

// Marks of `owner`'s nodes those that `root` needs, but for what lies behind a `stop`.
static void reach(const Claims *c, uint32_t root, uint32_t owner, const uint8_t *stop,
                  uint8_t *mark) {
    Arena scratch = *c->a;
    Ids stack = {0};
    vec_push(&scratch, &stack, root);
    while (stack.n) {
        uint32_t id = stack.at[--stack.n];
        if (!id || mark[id] || c->owner[id] != owner || (stop && stop[id]))
            continue;
        mark[id] = 1;
        Ids in = needs(c, id);
        for (uint32_t k = 0; k < in.n; k++)
            vec_push(&scratch, &stack, in.at[k]);
    }
}

static bool made_of_penalty(const Claims *c, uint32_t id) {
    Op op = (Op)graph_node(c->g, id)->op;
    Ids in = needs(c, id);
    uint32_t of = 0;
    for (uint32_t k = 0; k < in.n; k++)
        of += c->penalty[in.at[k]];
    return op == OpAdd || op == OpSub ? of == in.n : of > 0;
}

static void find_penalty(Claims *c, uint32_t update) {
    const Update *u = &c->f->update.at[update];
    uint32_t n = c->g->node.n, owner = update + 1;
    Arena scratch = *c->a;
    uint8_t *inner = arena_array(&scratch, uint8_t, n), *loss = arena_array(&scratch, uint8_t, n),
            *plain = arena_array(&scratch, uint8_t, n), *back = arena_array(&scratch, uint8_t, n);
    Claims here = *c;
    here.a = &scratch;
    for (uint32_t i = 0; i < u->inner.n; i++)
        inner[u->inner.at[i]] = 1;
    reach(&here, u->loss, owner, NULL, loss);
    reach(&here, u->loss, owner, inner, plain);
    for (uint32_t i = 0; i < u->grad.n; i++)
        reach(&here, u->grad.at[i].node, owner, NULL, back);
    for (uint32_t id = 1; id < n; id++) {
        bool alone = loss[id] && !plain[id],
             dear = op_info[graph_node(c->g, id)->op].cls == ClassANCHOR;
        if (loss[id] || back[id])
            c->penalty[id] = (alone && dear) || made_of_penalty(c, id);
    }
}

// --- launches ------------------------------------------------------------------------------------

static uint32_t row_of(Arena *perm, Shares *s, ShareKind kind, Str name) {
    for (uint32_t i = 0; i < s->row.n; i++)
        if (s->row.at[i].kind == kind && str_eq(s->row.at[i].name, name))
            return i;
    vec_push(perm, &s->row, ((ShareRow){kind, name, 0}));
    return s->row.n - 1;
}

static uint32_t row_of_region(const Claims *c, const Region *r, const uint32_t *of_update,
                              uint32_t reg) {
    bool all = r->out.n > 0;
    uint32_t owner = 0;
    for (uint32_t i = 0; i < r->out.n; i++) {
        all = all && c->penalty[r->out.at[i]];
        owner = owner ? owner : c->owner[r->out.at[i]];
    }
    if (r->kind == RegionStart || r->kind == RegionWait)
        return reg + 1;
    return all ? reg : owner ? of_update[owner - 1] : reg + 2;
}

static void find_claims(Arena *a, const Plan *p, Claims *c) {
    uint32_t n = p->func->g.node.n;
    *c = (Claims){.a = a, .m = p->module, .f = p->func, .g = &p->func->g};
    c->owner = arena_array(a, uint32_t, n);
    c->penalty = arena_array(a, uint8_t, n);
    c->carried = arena_array(a, Ids, p->module->slot.n);
    for (uint32_t i = 0; i < c->f->effect.n; i++) {
        int64_t slot = node_slot(c->g, c->f->effect.at[i]);
        if (c->m->slot.at[slot].kind == SlotCarry)
            vec_push(a, &c->carried[slot], c->f->effect.at[i]);
    }
    for (uint32_t i = 0; i < c->f->update.n; i++) {
        claim(c, c->f->update.at[i].loss, i + 1);
        for (uint32_t k = 0; k < c->f->update.at[i].grad.n; k++)
            claim(c, c->f->update.at[i].grad.at[k].node, i + 1);
        claim_weights(c, i);
        if (c->f->update.at[i].inner.n)
            find_penalty(c, i);
    }
    claim_rest(c);
}

void shares_init(Arena *perm, const Plan *p, Shares *out) {
    *out = (Shares){0};
    uint32_t *of_update = arena_array(perm, uint32_t, p->func->update.n + 1);
    for (uint32_t i = 0; i < p->func->update.n; i++)
        of_update[i] =
            row_of(perm, out, ShareNets, update_name(perm, p->module, &p->func->update.at[i]));
    uint32_t reg = row_of(perm, out, ShareReg, STR("reg"));
    row_of(perm, out, ShareComm, STR("comm"));
    row_of(perm, out, ShareRest, STR("rest"));
    out->of = arena_array(perm, uint32_t, p->region.n + 1);
    Arena scratch = *perm;
    Claims c;
    find_claims(&scratch, p, &c);
    for (uint32_t i = 0; i < p->region.n; i++)
        out->of[i] = row_of_region(&c, &p->region.at[i], of_update, reg);
}

void shares_add(Shares *s, const Plan *p, uint32_t launch, double seconds) {
    Launch l = p->launch.at[launch];
    for (uint32_t i = 0; i < l.instances; i++)
        s->row.at[s->of[p->merge.at[l.first + i]]].seconds += seconds / l.instances;
}

// --- where time went -----------------------------------------------------------------------------

Spent spent_since(Spent now, Spent before) {
    return (Spent){.all = now.all - before.all,
                   .data = now.data - before.data,
                   .comm = now.comm - before.comm,
                   .eval = now.eval - before.eval};
}

static void add_part(Arena *perm, Parts *out, Str name, double seconds, const Spent *of) {
    double fraction = of->all > 0 ? seconds / of->all : 0;
    vec_push(perm, &out->part, ((Part){name, fraction > 0 ? fraction : 0}));
}

void parts_find(Arena *perm, const Shares *s, Spent spent, Parts *out) {
    double timed = 0, rest = fmax(0, spent.all - spent.data - spent.comm - spent.eval);
    out->part.n = 0;
    for (uint32_t i = 0; i < s->row.n; i++)
        timed += s->row.at[i].kind == ShareComm ? 0 : s->row.at[i].seconds;
    add_part(perm, out, STR("data"), spent.data, &spent);
    if (!timed)
        add_part(perm, out, STR("compute"), rest, &spent);
    for (uint32_t i = 0; timed && i < s->row.n; i++) {
        const ShareRow *r = &s->row.at[i];
        if (r->kind == ShareNets || (r->kind != ShareComm && r->seconds > 0))
            add_part(perm, out, r->name, rest * r->seconds / timed, &spent);
    }
    if (spent.comm > 0)
        add_part(perm, out, STR("comm"), spent.comm, &spent);
    add_part(perm, out, STR("eval"), spent.eval, &spent);
}
