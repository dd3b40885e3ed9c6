// warn_unused.c - names that a model binds and nothing reads: a penalty that no loss adds, a config
// that -s would set without effect, a label that a net is given and does not look at; and averages
// that nothing calls.
//
// In: the file. Out: warnings. By the text alone, so that a branch which the configs leave out
// reads too; a name counts as read where any value of that name is.
#include "warn.h"

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
    for (uint32_t i = 0; !binds && i < a->list.n; i++)
        find_read(to, a->list.at[i], out);
    find_read(to, a->a, out);
    find_read(to, a->b, out);
    find_read(to, a->c, out);
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
    for (uint32_t i = 0; i < a->list.n; i++)
        warn_bound(e, read, a->list.at[i]);
    warn_bound(e, read, a->a);
    warn_bound(e, read, a->b);
    warn_bound(e, read, a->c);
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

// --- averages ------------------------------------------------------------------------------------

// Whether `a` has the net's name but as what ema(...) averages into.
static bool uses_average(const Ast *a, Str net) {
    if (!a)
        return false;
    if (a->kind == AstName)
        return str_eq(a->text, net);
    bool averages = a->kind == AstCall && a->a->kind == AstName && str_eq(a->a->text, STR("ema"));
    for (uint32_t i = averages; i < a->list.n; i++)
        if (uses_average(a->list.at[i], net))
            return true;
    return uses_average(a->a, net) || uses_average(a->b, net) || uses_average(a->c, net);
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

// --- all of them ---------------------------------------------------------------------------------

void warn_unread_names(Elab *e, const Ast *file) {
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
    warn_unused_averages(e, file);
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

// One of each net, the first: those of a layer without effect come together.
void warn_unreached_weights(Elab *e) {
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
        if (twin)
            diag_help(e->f,
                      "the same text in another call made `%.*s`, which is updated: a layer that "
                      "calls or branches share is bound to a name before them",
                      SARG(twin->name));
        told[s->net] = 1;
    }
    arena_release(&scratch);
}
