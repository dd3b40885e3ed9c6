// grads.c - what a gradient flows through, and which names gradients are taken to.
#include "elab.h"

// --- reach ---------------------------------------------------------------------------------------

uint8_t *grad_reach(const Graph *g, Arena *a, uint32_t from) {
    uint8_t *reached = arena_array(a, uint8_t, g->node.n);
    reached[from] = 1;
    for (uint32_t id = from + 1; id-- > 1;) { // users have larger indices than their operands
        if (!reached[id])
            continue;
        const Node *n = graph_node(g, id);
        for (uint32_t k = 0; k < n->nin; k++)
            if (op_has_gradient((Op)n->op, k))
                reached[node_in(g, id, k)] = 1;
    }
    return reached;
}

Val slot_gradient(Elab *e, uint32_t slot, Val y, const uint8_t *reached) {
    Val sum = {0};
    (void)slot_cell(e, slot);
    Nodes versions = e->to->version.at[slot];
    for (uint32_t i = 0; i < versions.n; i++) {
        if (versions.at[i] > y.id || !reached[versions.at[i]])
            continue;
        Val g = Grad(y, (Val){y.b, versions.at[i]});
        sum = sum.id ? Add(sum, g) : g;
    }
    return sum;
}

uint32_t weight_of(const Elab *e, const Value *v) {
    uint32_t slot = v->kind == KindSlot ? v->id : v->kind == KindTensor ? v->slot : NONE;
    return slot != NONE && e->m->slot.at[slot].kind == SlotParam ? slot : NONE;
}

// --- names a grad differentiates to --------------------------------------------------------------
//
// Such a name's value is pinned where it is bound, before it is used. A name passed on to a
// function that takes the gradient to its parameter counts too: in `zero_penalty(D(x), x)` it is
// this x that D was computed from. So does a list gradients are taken to the elements of, as r in
// `for a in r { grad(y, a) }` and `grad(y, r[0])`.

typedef VEC(Str) NameVec;

bool names_has(Names names, Str name) {
    for (uint32_t i = 0; i < names.n; i++)
        if (str_eq(names.at[i], name))
            return true;
    return false;
}

static void add_name(Elab *e, NameVec *out, const Ast *a) {
    while (a && a->kind == AstIndex)
        a = a->a;
    if (a && a->kind == AstName && !names_has((Names){out->at, out->n}, a->text))
        vec_push(e->perm, out, a->text);
}

// A loop's list, or lists in `zip`, where gradients are taken to a name it binds.
static void add_sequence(Elab *e, NameVec *out, const Ast *loop, const Ast *sequence) {
    bool wanted = false;
    for (uint32_t i = 0; i < loop->list.n; i++)
        wanted = wanted || names_has((Names){out->at, out->n}, loop->list.at[i]->text);
    if (!wanted)
        return;
    add_name(e, out, sequence);
    for (uint32_t i = 0; sequence->kind == AstCall && i < sequence->list.n; i++)
        add_name(e, out, sequence->list.at[i]);
}

// The argument a call gives to parameter `at` called `name`; `piped` stands in front.
static const Ast *argument(const Ast *call, const Ast *piped, uint32_t at, Str name) {
    uint32_t next = 0;
    if (piped && next++ == at)
        return piped;
    for (uint32_t i = 0; call && i < call->list.n; i++) {
        const Ast *a = call->list.at[i];
        if (a->kind == AstArg ? str_eq(a->text, name) : next++ == at)
            return a->kind == AstArg ? a->a : a;
        if (a->kind == AstSpread)
            return NULL;
    }
    return NULL;
}

static void scan_call(Elab *e, const Env *env, const Ast *callee, const Ast *call, const Ast *piped,
                      NameVec *out) {
    Value f;
    if (callee->kind != AstName)
        return;
    if (!scope_find(env, callee->text, &f)) {
        if (str_eq(callee->text, STR("grad")))
            add_name(e, out, argument(call, piped, 1, STR("x")));
        return;
    }
    if (f.kind != KindFn || f.fn->ast->b || !f.fn->ast->a)
        return;
    Names inner = grad_names(e, &f.fn->env, f.fn->ast->c);
    const Ast *params = f.fn->ast->a;
    for (uint32_t i = 0; i < params->list.n; i++)
        if (names_has(inner, params->list.at[i]->text))
            add_name(e, out, argument(call, piped, i, params->list.at[i]->text));
}

static void scan(Elab *e, const Env *env, const Ast *a, NameVec *out) {
    if (!a)
        return;
    if (a->kind == AstCall)
        scan_call(e, env, a->a, a, NULL, out);
    if (a->kind == AstPipe) {
        const Ast *call = a->b->kind == AstCall ? a->b : NULL;
        scan_call(e, env, call ? call->a : a->b, call, a->a, out);
    }
    for (uint32_t i = 0; i < ast_parts(a); i++)
        scan(e, env, ast_part(a, i), out);
    if (a->kind == AstFor || a->kind == AstComp)
        add_sequence(e, out, a, a->kind == AstFor ? a->a : a->b);
}

Names grad_names(Elab *e, const Env *env, const Ast *body) {
    uint64_t key = hash64(&body, sizeof body, 3);
    uint32_t found = map_find(&e->names, key);
    if (found)
        return e->pinned_names.at[found - 1];
    vec_push(e->perm, &e->pinned_names, (Names){0}); // what a recursive call sees
    uint32_t at = e->pinned_names.n;
    map_put(e->perm, &e->names, key, at);
    NameVec out = {0};
    scan(e, env, body, &out);
    return e->pinned_names.at[at - 1] = (Names){out.at, out.n};
}
