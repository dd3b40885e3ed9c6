// unread.c - names that a model binds and nothing reads: a penalty that no loss adds, a config
// that -s would set without effect, a label that a net is given and does not look at.
//
// In: the file. Out: warnings. By the text alone, so that a branch which the configs leave out
// reads too; a name counts as read where any value of that name is.
#include "elab.h"

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

void warn_unread_names(Elab *e, const Ast *file) {
    Arena scratch;
    Map read = {0};
    arena_need(&scratch);
    find_read(&scratch, file, &read);
    for (uint32_t i = 0; i < file->list.n; i++) {
        const Ast *a = file->list.at[i];
        if (a->kind == AstConfig)
            warn_unread(e, &read, a->span, a->text);
        else if (a->kind == AstBind && a->list.n == 1)
            warn_unread(e, &read, a->list.at[0]->span, a->list.at[0]->text);
        else if (a->kind == AstFn || a->kind == AstNet || a->kind == AstStep ||
                 a->kind == AstSample)
            warn_in_body(e, scratch, a);
    }
    arena_release(&scratch);
}

// --- weights -------------------------------------------------------------------------------------

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
        told[s->net] = 1;
    }
    arena_release(&scratch);
}
