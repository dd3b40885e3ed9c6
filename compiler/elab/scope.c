// scope.c - environments: persistent lists of local bindings, and tables of top-level names.
//
// A binding never changes, but where it is lost to an error: binding a name again prepends a newer
// one. So a closure keeps the bindings it captured, a loop's rebinding is visible to what follows,
// and restoring an earlier environment costs nothing.
#include "builtin.h"

const Binding *scope_bind(Elab *e, const Binding *outer, Str name, Value v) {
    Binding *b = arena_new(e->perm, Binding);
    *b = (Binding){.kind = BindName, .name = name, .value = v, .outer = outer};
    return b;
}

const Binding *scope_mark(Elab *e, const Binding *outer, BindKind kind) {
    Binding *b = arena_new(e->perm, Binding);
    b->kind = kind;
    b->outer = outer;
    return b;
}

const Global *globals_find(const Globals *g, Str name) {
    for (uint64_t h = hash64(name.ptr, name.len, 1);; h++) {
        uint32_t i = map_find(&g->find, h);
        if (!i)
            return NULL;
        if (str_eq(g->at.at[i - 1].name, name))
            return &g->at.at[i - 1];
    }
}

Global *globals_put(Elab *e, Globals *g, Str name, Value v, Span span) {
    uint64_t h = hash64(name.ptr, name.len, 1);
    uint32_t i;
    while ((i = map_find(&g->find, h)) != 0 && !str_eq(g->at.at[i - 1].name, name))
        h++;
    if (!i) {
        vec_push(e->perm, &g->at, ((Global){.name = name}));
        map_put(e->perm, &g->find, h, g->at.n);
        i = g->at.n;
    }
    g->at.at[i - 1].value = v;
    g->at.at[i - 1].span = span;
    return &g->at.at[i - 1];
}

// What was bound since `base` without the bindings that newer ones hide: so a loop's rounds leave
// one binding per name behind, not one per round.
const Binding *scope_compact(Elab *e, const Binding *newest, const Binding *base) {
    VEC(const Binding *) kept = {0};
    for (const Binding *b = newest; b && b != base; b = b->outer) {
        uint32_t i = 0;
        while (i < kept.n && !str_eq(kept.at[i]->name, b->name))
            i++;
        if (i == kept.n)
            vec_push(e->perm, &kept, b);
    }
    for (uint32_t i = kept.n; i-- > 0;)
        base = scope_bind(e, base, kept.at[i]->name, kept.at[i]->value);
    return base;
}

const Binding *scope_find_local(const Env *env, Str name) {
    const Binding *b = env->local;
    while (b && !(b->kind == BindName && str_eq(b->name, name)))
        b = b->outer;
    return b;
}

bool scope_find_global(const Env *env, Str name, Value *out) {
    const Global *found = NULL;
    for (const Globals *g = env->globals; g && !found; g = g->outer)
        found = globals_find(g, name);
    if (!found || scope_find_local(env, name))
        return false;
    *out = found->value;
    return true;
}

bool scope_find(const Env *env, Str name, Value *out) {
    const Binding *b = scope_find_local(env, name);
    if (b)
        *out = b->value;
    return b || scope_find_global(env, name, out);
}

// The local of that name in this function; *outside: with a run-time block around the place that
// it is not in. NULL: none, and *outside says whether there is such a block at all.
static const Binding *find_in_function(const Env *env, Str name, bool *outside) {
    *outside = false;
    for (const Binding *b = env->local; b && b->kind != BindFn; b = b->outer)
        if (b->kind == BindControl)
            *outside = true;
        else if (str_eq(b->name, name))
            return b;
    return NULL;
}

bool scope_rebinds_outer(const Env *env, Str name) {
    bool outside;
    return find_in_function(env, name, &outside) && outside;
}

void scope_lose(const Env *env, Str name) {
    Binding *b = (Binding *)(uintptr_t)scope_find_local(env, name);
    b->value = POISON;
}

const Global *scope_hidden_setting(const Env *env, Str name) {
    bool inside;
    if (find_in_function(env, name, &inside) || !inside)
        return NULL;
    const Global *found = globals_find(env->globals, name);
    bool kept = found && (value_is_setting(found->value) || found->value.kind == KindObject);
    return kept ? found : NULL;
}

Str scope_nearest(Elab *e, const Env *env, Str name) {
    VEC(Str) known = {0};
    for (const Binding *b = env->local; b; b = b->outer)
        if (b->kind == BindName)
            vec_push(e->perm, &known, b->name);
    for (const Globals *g = env->globals; g; g = g->outer)
        for (uint32_t i = 0; i < g->at.n; i++)
            vec_push(e->perm, &known, g->at.at[i].name);
    for (uint32_t i = 0; i < builtin_count(); i++)
        vec_push(e->perm, &known, builtin_get(i)->name);
    for (uint32_t i = 0; predefined_word(i); i++)
        vec_push(e->perm, &known, str_c(predefined_word(i)));
    return str_nearest(name, known.at, known.n);
}

// Where an item of the top level says a name that it binds; NULL: it does not.
static const Span *item_binds(const Ast *a, Str name) {
    bool named = a->kind == AstConfig || a->kind == AstNet;
    if (named && str_eq(a->text, name))
        return a->kind == AstNet ? &a->word : &a->span;
    for (uint32_t i = 0; (a->kind == AstBind || a->kind == AstData) && i < a->list.n; i++)
        if (str_eq(a->list.at[i]->text, name))
            return &a->list.at[i]->span;
    return NULL;
}

bool scope_note_later(Elab *e, Str name, Span use) {
    for (uint32_t i = 0; i < e->file->list.n; i++) {
        const Span *at = item_binds(e->file->list.at[i], name);
        if (!at || at->file != use.file || at->lo < use.hi)
            continue;
        diag_note(e->f, *at, "`%.*s` is defined here, behind its use", SARG(name));
        diag_help(e->f, "the top level is read from top to bottom: move that line up");
        return true;
    }
    return false;
}

typedef struct Ended { // a binding, and what holds it
    const Ast *name, *in;
} Ended;

// What of `a` binds the name and ends before the use; the last of several. `in`: what holds `a`.
static void find_ended(const Ast *a, const Ast *in, Str name, Span use, Ended *out) {
    if (!a || a->span.file != use.file || a->span.lo >= use.lo)
        return;
    bool holds = a->kind == AstFn || a->kind == AstNet || a->kind == AstStep ||
                 a->kind == AstSample || a->kind == AstRepeat || a->kind == AstEvery ||
                 a->kind == AstIf;
    for (uint32_t i = 0; a->kind == AstBind && i < a->list.n; i++)
        if (a->span.hi <= use.lo && str_eq(a->list.at[i]->text, name))
            *out = (Ended){a->list.at[i], in};
    for (uint32_t i = 0; i < ast_parts(a); i++)
        find_ended(ast_part(a, i), holds ? a : in, name, use, out);
}

bool scope_note_ended(Elab *e, Str name, Span use) {
    Ended last = {0};
    find_ended(e->file, NULL, name, use, &last);
    if (!last.in)
        return false;
    diag_note(e->f, last.name->span, "`%.*s` is bound here, in a block that has ended", SARG(name));
    if (last.in->kind == AstIf)
        diag_help(e->f, "bind it by the choice: %.*s = if CONDITION { a } else { b }", SARG(name));
    else if (last.in->kind == AstEvery || last.in->kind == AstRepeat)
        diag_help(e->f, "use it inside, as in `report %.*s`, or keep it in a state", SARG(name));
    else
        diag_help(e->f, "give it as an argument or a result, or bind it here too");
    return true;
}
