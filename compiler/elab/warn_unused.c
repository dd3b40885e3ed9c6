// warn_unused.c - what a model has and nothing uses: names that it binds and nothing reads, such as
// a penalty that no loss adds, a config that -s would set without effect, a label that a net is
// given and does not look at; nets, averages and data that nothing calls or names; weights that no
// update reaches; patterns that no weight's name matches.
//
// In: the file, and what was elaborated. Out: warnings. Names by the text alone, so that a branch
// which the configs leave out reads too; a name counts as read where any value of that name is.
#include "warn.h"

// --- names ---------------------------------------------------------------------------------------

static uint64_t name_hash(Str name) {
    return hash64(name.ptr, name.len, 0);
}

// Adds the names that are read in `a`.
static void find_read(Arena *to, const Ast *a, Map *out) {
    if (!a)
        return;
    bool binds = a->kind == AstBind || a->kind == AstFor || a->kind == AstComp; // its list: targets
    if (a->kind == AstName)
        map_put(to, out, name_hash(a->text), 1);
    for (uint32_t i = 0; a->kind == AstReport && i < a->list.n; i++)
        if (!a->list.at[i]->c)
            map_put(to, out, name_hash(a->list.at[i]->list.at[0]->text), 1);
    for (uint32_t i = 0; i < ast_parts(a) - (binds ? a->list.n : 0); i++)
        find_read(to, ast_part(a, i), out);
}

static void warn_unread(Elab *e, const Map *read, Span at, Str name) {
    if (name.len && name.ptr[0] != '_' && !map_find(read, name_hash(name)))
        diag(e->f, DiagW0911, at, SARG(name));
}

// A name of the top level that the run has too: whoever binds it means the run's, or will miss it.
static bool hides_run(Elab *e, Span at, Str name) {
    static const char *const runs[] = {"batch_size", "step", "epoch", "kimg", "training"};
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++)
        if (str_eq(name, str_c(runs[i])))
            return diag(e->f, DiagW0915, at, SARG(name)), true;
    return false;
}

// What a, a part of the body, binds. Of several targets some may be there for the others' sake.
static void warn_bound(Elab *e, const Map *read, const Ast *a) {
    if (!a || a->kind == AstReport)
        return;
    if (a->kind == AstBind && a->list.n == 1 && a->list.at[0]->kind == AstName)
        warn_unread(e, read, a->list.at[0]->span, a->list.at[0]->text);
    if (a->kind == AstParam)
        warn_unread(e, read, a->span, a->text);
    for (uint32_t i = 0; i < ast_parts(a); i++)
        warn_bound(e, read, ast_part(a, i));
}

static void warn_in_body(Elab *e, Arena scratch, const Ast *a) {
    Map read = {0};
    find_read(&scratch, a->c, &read);
    warn_bound(e, &read, a->c);
    for (uint32_t k = 0; a->kind == AstNet && a->a && k < a->a->list.n; k++)
        warn_unread(e, &read, a->a->list.at[k]->span, a->a->list.at[k]->text);
}

static void warn_top(Elab *e, const Map *read, Span at, Str name) {
    uint32_t mark = diag_mark(e->f);
    if (hides_run(e, at, name))
        return;
    warn_unread(e, read, at, name);
    Str help = asked_habit(name);
    if (diag_mark(e->f) > mark && help.len)
        diag_help(e->f, "%.*s", SARG(help));
}

static void warn_unread_names(Elab *e, const Ast *file) {
    Arena scratch;
    Map read = {0};
    arena_need(&scratch);
    find_read(&scratch, file, &read);
    for (uint32_t i = 0; i < file->list.n; i++) {
        const Ast *a = file->list.at[i];
        if (a->kind == AstConfig)
            warn_top(e, &read, a->span, a->text);
        else if (a->kind == AstBind && a->list.n == 1)
            warn_top(e, &read, a->list.at[0]->span, a->list.at[0]->text);
        else if (a->kind == AstFn || a->kind == AstNet || a->kind == AstStep ||
                 a->kind == AstSample)
            warn_in_body(e, scratch, a);
    }
    arena_release(&scratch);
}

// --- averages ------------------------------------------------------------------------------------

static bool is_ema(const Ast *a) {
    return a->kind == AstCall && a->a->kind == AstName && str_eq(a->a->text, STR("ema"));
}

// Whether `a` has the net's name but as what ema(...) averages into.
static bool uses_average(const Ast *a, Str net) {
    if (!a)
        return false;
    if (a->kind == AstName)
        return str_eq(a->text, net);
    for (uint32_t i = 0; i < ast_parts(a); i++)
        if (!(i == 3 && is_ema(a)) && uses_average(ast_part(a, i), net))
            return true;
    return false;
}

static bool is_trained(const Elab *e, uint32_t net) {
    const Func *step = &e->m->step;
    for (uint32_t u = 0; u < step->update.n; u++)
        for (uint32_t k = 0; k < step->update.at[u].net.n; k++)
            if (step->update.at[u].net.at[k] == net)
                return true;
    return false;
}

static void warn_unused_averages(Elab *e, const Ast *file) {
    for (uint32_t i = 0; i < e->m->net.n; i++) {
        const Net *n = &e->m->net.at[i];
        const NetInfo *info = &e->net_info.at[i];
        Str name = str_sub(n->name, 0, str_find(n->name, '.')); // of a list of nets
        bool used = !info->changes || info->called || is_trained(e, i);
        for (uint32_t k = 0; k < file->list.n && !used; k++)
            used = uses_average(file->list.at[k], name);
        if (used)
            continue;
        diag(e->f, DiagW0914, n->span, SARG(n->name));
        diag_help(e->f, "sample it: sample fakes = %.*s(...)", SARG(n->name));
    }
}

// --- nets ----------------------------------------------------------------------------------------

// Whether a body of the file has the net's name, in a branch that its configs leave out too. What
// other nets begin with or are copied from is no body.
static bool is_used(const Ast *file, Str name) {
    name = str_sub(name, 0, str_find(name, '.')); // of a list of nets
    for (uint32_t i = 0; i < file->list.n; i++) {
        const Ast *a = file->list.at[i];
        bool itself = a->kind == AstNet && str_eq(a->text, name);
        if ((a->kind != AstNet || a->a) && !itself && ast_mentions(a->c, name))
            return true;
    }
    return false;
}

bool net_is_idle(const Elab *e, const Ast *file, uint32_t net) {
    const NetInfo *info = &e->net_info.at[net];
    return !info->changes && !info->called && !is_used(file, e->m->net.at[net].name);
}

static bool updates(const Ast *a, Str net) {
    if (!a)
        return false;
    for (uint32_t i = 0; a->kind == AstUpdate && i < a->list.n; i++)
        if (ast_mentions(a->list.at[i], net))
            return true;
    for (uint32_t i = 0; i < ast_parts(a); i++)
        if (updates(ast_part(a, i), net))
            return true;
    return false;
}

static bool has_stages(const Ast *file) {
    for (uint32_t i = 0; i < file->list.n; i++)
        if (file->list.at[i]->kind == AstStages)
            return true;
    return false;
}

// Whether another stage may train what this one leaves alone.
static bool waits_its_turn(const Ast *file, Str net) {
    return has_stages(file) && updates(file, str_sub(net, 0, str_find(net, '.'))); // of a list
}

// Whether the net is what an ema(...) averages, its second argument.
static bool is_averaged(const Ast *a, Str net) {
    if (!a)
        return false;
    if (is_ema(a) && a->list.n > 1 && a->list.at[1]->kind == AstName &&
        str_eq(a->list.at[1]->text, net))
        return true;
    for (uint32_t i = 0; i < ast_parts(a); i++)
        if (is_averaged(ast_part(a, i), net))
            return true;
    return false;
}

static void warn_idle_nets(Elab *e, const Ast *file) {
    for (uint32_t i = 0; i < e->m->net.n; i++) {
        const Net *n = &e->m->net.at[i];
        const NetInfo *info = &e->net_info.at[i];
        if (net_is_idle(e, file, i))
            diag(e->f, DiagW0903, n->span, SARG(n->name));
        if (info->changes || !n->params || n->file.len || waits_its_turn(file, n->name))
            continue;
        if (is_averaged(file, n->name)) {
            diag(e->f, DiagW0902, n->span, SARG(n->name));
            diag_help(e->f, "ema(AVERAGE, NET, keep) changes AVERAGE: this net is the other one");
        } else if (info->trains)
            diag(e->f, DiagW0902, n->span, SARG(n->name));
    }
}

// --- data ----------------------------------------------------------------------------------------

static bool has_parameter(const Ast *params, Str name) {
    for (uint32_t i = 0; params && i < params->list.n; i++)
        if (str_eq(params->list.at[i]->text, name))
            return true;
    return false;
}

// Whether a body names a field, in a branch that is not taken too; a parameter hides it.
static bool field_is_named(const Ast *file, Str name) {
    for (uint32_t i = 0; i < file->list.n; i++) {
        const Ast *a = file->list.at[i];
        bool hidden = has_parameter(a->a, name) || has_parameter(a->b, name);
        if (a->kind != AstData && !hidden && ast_mentions(a->c, name))
            return true;
    }
    return false;
}

static void warn_idle_streams(Elab *e, const Ast *file) {
    for (uint32_t i = 0; i < e->m->stream.n; i++) {
        const Stream *s = &e->m->stream.at[i];
        bool named = false;
        for (uint32_t k = 0; k < s->field.n; k++)
            named = named || field_is_named(file, s->field.at[k].name);
        if (!named)
            diag(e->f, DiagW0905, s->field.at[0].span, SARG(s->field.at[0].name));
    }
}

// --- weights -------------------------------------------------------------------------------------

// A weight that updates reach and the same text made, for another call: one of a `sample`, or of
// the other branch of an `if`, whose author may have meant the same layer. NULL: there is none.
static const Slot *updated_twin(const Elab *e, const uint8_t *written, const Slot *s) {
    for (uint32_t i = 0; i < e->m->slot.n; i++) {
        const Slot *t = &e->m->slot.at[i];
        if (written[i] && t->kind == SlotParam && t->net == s->net &&
            t->span.file == s->span.file && t->span.lo == s->span.lo &&
            type_same_shape(&t->type, &s->type))
            return t;
    }
    return NULL;
}

// Whether what a `sample` gives depends on the weight.
static bool is_sampled(const Elab *e, Arena scratch, uint32_t slot) {
    for (uint32_t i = 0; i < e->m->entry.n; i++) {
        const Func *fn = &e->m->entry.at[i];
        Nodes root = {0};
        for (uint32_t k = 0; k < fn->result.n; k++)
            vec_push(&scratch, &root, fn->result.at[k].node);
        for (uint32_t k = 0; k < fn->effect.n; k++)
            vec_push(&scratch, &root, fn->effect.at[k]);
        const uint8_t *needed = graph_reach(&fn->g, &scratch, root.at, root.n);
        for (uint32_t id = 1; id < fn->g.node.n; id++)
            if (needed[id] && graph_node(&fn->g, id)->op == OpRead && node_slot(&fn->g, id) == slot)
                return true;
    }
    return false;
}

// One of each net, the first: those of a layer without effect come together.
static void warn_unreached_weights(Elab *e) {
    Arena scratch;
    arena_need(&scratch);
    const Graph *g = &e->m->step.g;
    uint8_t *written = arena_array(&scratch, uint8_t, e->m->slot.n + 1),
            *told = arena_array(&scratch, uint8_t, e->m->net.n + 1);
    for (uint32_t id = 1; id < g->node.n; id++)
        if (graph_node(g, id)->op == OpWrite)
            written[node_slot(g, id)] = 1;
    for (uint32_t i = 0; i < e->m->slot.n; i++) {
        const Slot *s = &e->m->slot.at[i];
        if (s->kind != SlotParam || s->net == NONE || written[i] || told[s->net] ||
            !e->net_info.at[s->net].changes)
            continue;
        diag(e->f, DiagW0912, s->span, SARG(s->name));
        const Slot *twin = updated_twin(e, written, s);
        if (twin && !is_sampled(e, scratch, i))
            diag_help(e->f,
                      "no loss and no sample depends on it; the same text in another call or round "
                      "made `%.*s`, which is updated: leave this one out, or use what it gives",
                      SARG(twin->name));
        else if (twin)
            diag_help(e->f,
                      "the same text in another call made `%.*s`, which is updated: a layer that "
                      "calls or branches share is bound to a name before them",
                      SARG(twin->name));
        told[s->net] = 1;
    }
    arena_release(&scratch);
}

static void warn_idle_patterns(Elab *e) {
    for (uint32_t i = 0; i < e->pattern.n; i++)
        if (!e->pattern.at[i].fits)
            diag(e->f, DiagW0906, e->pattern.at[i].span, SARG(e->pattern.at[i].text));
}

// --- all of them ---------------------------------------------------------------------------------

void warn_unused(Elab *e, const Ast *file) {
    warn_idle_nets(e, file);
    warn_idle_streams(e, file);
    warn_unread_names(e, file);
    warn_unused_averages(e, file);
}

void warn_unused_weights(Elab *e, const Ast *file) {
    if (has_stages(file)) // another stage may have what these miss
        return;
    warn_idle_patterns(e);
    if (!diag_total(e->f)) // whose cause was not named yet
        warn_unreached_weights(e);
}
