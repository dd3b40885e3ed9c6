// building.c - one function being built: the current value of every slot, draws, data, counters.
//
// A slot's first read in a scope is a Read node with a version of its own; `:=` and `update`
// replace the current value, and slots_commit writes what changed. Draws and pins are numbered in
// program order, so that a replay (branch.c) finds those it made before.
#include "builtin.h"

struct OnceEntry { // a `once` block's value in this segment
    Str owner;
    const Ast *ast;
    const Value *weights; // of with_params, at which it was evaluated; NULL: the net's own
    bool training;
    Env env; // where it was evaluated: what its names stood for
    Value value;
    const OnceEntry *older;
};

void building_init(Elab *e, Building *b, Func *fn, Graph *g, uint32_t index) {
    *b = (Building){.fn = fn, .at = arena_new(e->perm, Builder), .index = index};
    b->at->g = g;
    if (!fn)
        return;
    b->scope_end = arena_array(e->perm, uint32_t, MAX_BLOCKS);
    b->scope_end[0] = NONE;
    b->cursor.block = 1;
    b->at->scope_end = b->scope_end;
    fn->blocks = 1;
    vec_push(e->perm, &fn->tape, ((Ctl){CtlBlock, 0, 0}));
}

Building *building_enter(Elab *e, Building *b) {
    Building *outer = e->to;
    e->to = b;
    b->at->span = here(e);
    return outer;
}

// --- slots ---------------------------------------------------------------------------------------

Cell *slot_cell(Elab *e, uint32_t slot) {
    Building *b = e->to;
    while (b->cell.n <= slot)
        vec_push(e->perm, &b->cell, (Cell){0});
    while (b->version.n <= slot)
        vec_push(e->perm, &b->version, (Nodes){0});
    return &b->cell.at[slot];
}

static void set_current(Elab *e, uint32_t slot, uint32_t node, bool dirty) {
    *slot_cell(e, slot) = (Cell){node, dirty};
    Nodes *versions = &e->to->version.at[slot];
    for (uint32_t i = 0; i < versions->n; i++)
        if (versions->at[i] == node)
            return;
    vec_push(e->perm, versions, node);
}

Val slot_read(Elab *e, uint32_t slot) {
    Building *b = e->to;
    if (b == &e->init && e->m->slot.at[slot].init)
        return (Val){b->at, e->m->slot.at[slot].init};
    if (!b->fn || b->index == 0) {
        diag(e->f, DiagE0508, here(e), SARG(e->m->slot.at[slot].name));
        return (Val){0};
    }
    if (!slot_cell(e, slot)->node)
        set_current(e, slot, Read(b->at, slot, b->cursor.version++, e->m->slot.at[slot].type).id,
                    false);
    return (Val){b->at, slot_cell(e, slot)->node};
}

uint32_t carry_slot(Elab *e, uint32_t block, uint32_t i, Type type) {
    Str name = str_format(e->perm, "carry.%u.%u.%u", e->to->index, block, i);
    uint32_t slot = slot_find(e, name); // another outcome's, or a replay's
    if (slot == NONE)
        return slot_add(
            e, (Slot){.kind = SlotCarry, .name = name, .net = NONE, .type = type, .span = here(e)});
    const Slot *s = &e->m->slot.at[slot];
    if (s->type.batched == type.batched && type_same_shape(&s->type, &type))
        return slot;
    diag(e->f, DiagE0524, here(e), SARG(type_text(e->perm, &type)),
         SARG(type_text(e->perm, &s->type)));
    return NONE;
}

bool slot_fits(Elab *e, uint32_t slot, Val *v, bool each) {
    const Slot *s = &e->m->slot.at[slot];
    Type t = val_type(*v), want = s->type, both;
    if (t.batched && !each) {
        diag(e->f, DiagE0502, here(e), SARG(s->name), SARG(type_text(e->perm, &t)));
        in_library(e);
        return false;
    }
    want.batched = t.batched;
    if (type_same_shape(&t, &want))
        return true;
    if (t.rank <= want.rank && type_broadcast(&t, &want, &both) && type_same_shape(&both, &want)) {
        *v = Expand(*v, want);
        return true;
    }
    diag(e->f, DiagE0503, here(e), SARG(s->name), SARG(type_text(e->perm, &s->type)),
         SARG(type_text(e->perm, &t)));
    in_library(e);
    diag_note(e->f, s->span, "`%.*s` is declared here", SARG(s->name));
    return false;
}

static void note_was(Elab *e, uint32_t slot) {
    uint32_t was = slot_read(e, slot).id;
    for (uint32_t i = 0; i < e->tuning->was.n; i++)
        if (e->tuning->was.at[i].slot == slot)
            return;
    vec_push(e->perm, &e->tuning->was, ((GradOf){slot, was}));
}

void slots_hold(Elab *e) {
    const Tuning *t = e->tuning;
    for (uint32_t i = 0; i < t->was.n; i++) {
        Val was = {e->to->at, t->was.at[i].node}, made = slot_read(e, t->was.at[i].slot);
        set_current(e, t->was.at[i].slot, Commit(made, was, t->update).id, true);
    }
}

// A weight's new value gets an identity of its own, so that a later gradient with respect to it
// means only it; of an update, its identity is that of what is committed.
void slot_set(Elab *e, uint32_t slot, Val v) {
    const Slot *s = &e->m->slot.at[slot];
    v = Stop(v);
    if (e->tuning && s->kind == SlotParam)
        v = Commit(v, slot_read(e, slot), e->tuning->update);
    else if (e->tuning)
        note_was(e, slot);
    if (s->kind == SlotParam) {
        v = elab_pin(e, v);
        segment_end(e);
        e->net_info.at[s->net].changes |= !e->to->aside;
    }
    set_current(e, slot, v.id, true);
    vec_push(e->perm, &e->to->assigned, slot);
}

void slot_assign(Elab *e, uint32_t slot, Value v) {
    Val val;
    if (!want_tensor(e, v, &val))
        return;
    if (refuse_pretrained(e, e->m->slot.at[slot].net, here(e)))
        return;
    bool carry = e->m->slot.at[slot].kind == SlotCarry;
    if (!e->to->fn || (e->to->index != 1 && !carry)) {
        diag(e->f, DiagE0507, here(e), SARG(e->m->slot.at[slot].name));
        return;
    }
    if (slot_fits(e, slot, &val, false))
        slot_set(e, slot, val);
}

void slots_commit(Elab *e) {
    Building *b = e->to;
    for (uint32_t slot = 0; slot < b->cell.n; slot++) {
        Cell *c = &b->cell.at[slot];
        if (c->dirty && !b->muted)
            vec_push(e->perm, &b->fn->effect, Write(slot, (Val){b->at, c->node}).id);
        c->dirty = false;
    }
}

// --- pins and segments ---------------------------------------------------------------------------

Val elab_pin(Elab *e, Val v) {
    Building *b = e->to;
    if (!b->fn || graph_node(v.b->g, v.id)->op == OpPin)
        return v;
    uint32_t i = b->cursor.pin++;
    if (i < b->pin.n && node_in(b->at->g, b->pin.at[i], 0) == v.id)
        return (Val){b->at, b->pin.at[i]};
    Val made = Pin(v);
    while (b->pin.n <= i)
        vec_push(e->perm, &b->pin, 0);
    b->pin.at[i] = made.id;
    return made;
}

void segment_end(Elab *e) {
    e->to->once = NULL;
}

// Does what was computed since node `first` read a value there is one of for each sample?
static bool reads_samples(Elab *e, Val v, uint32_t first) {
    Arena scratch = *e->perm;
    const uint8_t *needed = graph_reach(v.b->g, &scratch, &v.id, 1);
    for (uint32_t id = first; id <= v.id; id++)
        for (uint32_t k = 0; needed[id] && k < graph_node(v.b->g, id)->nin; k++)
            if (node_type(v.b->g, node_in(v.b->g, id, k))->batched)
                return true;
    return val_type(v).batched;
}

// Does every name in `a` stand for the same value in both environments? A local function's own
// names count with it.
static bool same_names(const Ast *a, const Env *x, const Env *y) {
    if (!a)
        return true;
    if (a->kind == AstName) {
        const Binding *p = scope_find_local(x, a->text), *q = scope_find_local(y, a->text);
        if (p == q)
            return true;
        if (!p || !q || !value_equal(p->value, q->value))
            return false;
        return p->value.kind != KindFn ||
               same_names(p->value.fn->ast, &p->value.fn->env, &q->value.fn->env);
    }
    for (uint32_t i = 0; i < ast_parts(a); i++)
        if (!same_names(ast_part(a, i), x, y))
            return false;
    return true;
}

Value once_block(Elab *e, Env *env, const Ast *a) {
    Str owner = owner_path(e, e->owner);
    const Value *weights = given_weights(e);
    for (const OnceEntry *o = e->to->once; o; o = o->older)
        if (o->ast == a && o->training == e->training && o->weights == weights &&
            str_eq(o->owner, owner) && same_names(a->c, &o->env, env))
            return o->value;
    Env inner = *env;
    bool outer = e->in_once;
    e->in_once = true;
    uint32_t first = e->to->at->g->node.n, assigned = e->to->assigned.n;
    Value v = value_now(e, eval_block(e, &inner, a->c, false));
    e->in_once = outer;
    bool samples = v.kind == KindTensor && reads_samples(e, v.tensor.val, first);
    for (uint32_t i = assigned; i < e->to->assigned.n && !samples; i++)
        samples = reads_samples(e, slot_read(e, e->to->assigned.at[i]), first);
    if (samples) {
        diag(e->f, DiagE0527, a->span);
        return POISON;
    }
    OnceEntry *o = arena_new(e->perm, OnceEntry);
    *o = (OnceEntry){owner, a, weights, e->training, *env, v, e->to->once};
    e->to->once = o;
    return v;
}

// --- draws ---------------------------------------------------------------------------------------

static const char *no_draws(const Elab *e) {
    return e->in_once ? "inside `once`" : e->turn ? "inside `each sample`" : "at the top level";
}

static uint32_t site_next(Elab *e, Site s) {
    Building *b = e->to;
    uint32_t i = b->cursor.site++;
    if (i < b->site.n)
        return b->site.at[i];
    vec_push(e->perm, &e->m->site, s);
    vec_push(e->perm, &b->site, e->m->site.n - 1);
    return e->m->site.n - 1;
}

// A draw fed from outside; one number for the batch is fed as [1].
static Val read_fed(Elab *e, uint32_t site, Type type) {
    Type fed = type;
    if (!type.batched && !type.rank)
        fed = type_make(false, 1, (int64_t[]){1});
    Str name = str_format(e->perm, "draw.%u", site);
    uint32_t slot = slot_find(e, name);
    if (slot == NONE)
        slot = slot_add(e, (Slot){.kind = SlotFed,
                                  .name = name,
                                  .net = NONE,
                                  .type = fed,
                                  .site = site,
                                  .span = here(e)});
    Val v = Read(e->to->at, slot, e->to->cursor.version++, fed);
    return fed.rank == type.rank ? v : Reshape(v, 0, NULL);
}

Value make_draw(Elab *e, Dist dist, int64_t classes, Type type) {
    Building *b = e->to;
    if (!b->fn || e->in_once || e->turn) {
        diag(e->f, DiagE0509, here(e), no_draws(e));
        in_library(e);
        return POISON;
    }
    if (!op_fits(e, OpRand, NULL, 0, &(Attr){.n = 3, .i = {dist}}, &type))
        return POISON;
    if (b->aside)
        return value_class(Rand(b->at, dist, 0, (double)classes, type), classes);
    uint32_t site = site_next(e, (Site){dist, type, b->index, b->at->block, here(e), classes});
    bool entry = b->index > 1 && dist != DistCategorical;
    bool fed = (e->o->feed && b->index == 1) || (e->o->feed_entries && entry);
    return value_class(
        fed ? read_fed(e, site, type) : Rand(b->at, dist, site, (double)classes, type), classes);
}

// --- data ----------------------------------------------------------------------------------------

static uint32_t *stream_next(Elab *e, uint32_t stream) {
    while (e->to->next.n <= stream)
        vec_push(e->perm, &e->to->next, 0);
    return &e->to->next.at[stream];
}

const Field *info_field(const Elab *e, const FieldInfo *info) {
    return &e->m->stream.at[info->stream].field.at[info->field];
}

static uint32_t field_slot(Elab *e, const FieldInfo *info, uint32_t round) {
    const Field *field = info_field(e, info);
    Str name = round ? str_format(e->perm, "%.*s.next.%u", SARG(field->name), round) : field->name;
    uint32_t slot = slot_find(e, name);
    if (slot != NONE)
        return slot;
    return slot_add(e, (Slot){.kind = SlotData,
                              .name = name,
                              .net = NONE,
                              .type = type_make(true, field->rank, field->dim),
                              .site = info->field,
                              .stream = info->stream,
                              .round = round,
                              .span = field->span});
}

static void note_data(Elab *e, uint32_t slot) { // entry points list what they read
    Building *b = e->to;
    if (b->index < 2)
        return;
    for (uint32_t i = 0; i < b->fn->data.n; i++)
        if (b->fn->data.at[i] == slot)
            return;
    vec_push(e->perm, &b->fn->data, slot);
}

Value apply_map(Elab *e, Value f, Value v) {
    Val in, out;
    Value made = call_with(e, f, &v, 1);
    if (made.kind == KindPoison || !want_tensor(e, v, &in) || !want_tensor(e, made, &out))
        return POISON;
    const Type *was = node_type(in.b->g, in.id), *is = node_type(out.b->g, out.id);
    if (was->batched == is->batched && type_same_shape(was, is))
        return value_tensor(out);
    diag(e->f, DiagE0609, here(e), SARG(type_text(e->perm, was)), SARG(type_text(e->perm, is)));
    return POISON;
}

bool place_type(const Elab *e, Value v, Type *out) {
    if (v.kind == KindSlot)
        *out = e->m->slot.at[v.id].type;
    if (v.kind == KindField) {
        const Field *field = info_field(e, &e->field.at[v.id]);
        *out = type_make(true, field->rank, field->dim);
    }
    return v.kind == KindSlot || v.kind == KindField;
}

Value read_field(Elab *e, uint32_t id) {
    const FieldInfo *info = &e->field.at[id];
    const Field *field = info_field(e, info);
    if (!e->to->fn || e->to->index == 0 || e->in_once) {
        diag(e->f, DiagE0509, here(e), no_draws(e));
        return POISON;
    }
    uint32_t slot = field_slot(e, info, *stream_next(e, info->stream));
    note_data(e, slot);
    bool first = !slot_cell(e, slot)->node;
    Val v = slot_read(e, slot);
    if (first && info->map.kind != KindNone && !e->o->feed) { // what is fed is mapped already
        Value mapped = apply_map(e, info->map, value_tensor(v));
        if (mapped.kind == KindPoison)
            return POISON;
        v = mapped.tensor.val;
        slot_cell(e, slot)->node = v.id;
    }
    if (first && info->pinned) {
        v = elab_pin(e, v);
        slot_cell(e, slot)->node = v.id;
    }
    return value_class(v, field->classes);
}

// Has any field of the stream's batch been read?
static bool batch_read(const Elab *e, uint32_t stream, uint32_t round) {
    for (uint32_t i = 0; i < e->m->slot.n; i++) {
        const Slot *s = &e->m->slot.at[i];
        if (s->kind == SlotData && s->stream == stream && s->round == round)
            return true;
    }
    return false;
}

void next_batch(Elab *e, Env *env, const Ast *a) {
    Value v;
    if (!scope_find(env, a->text, &v) || v.kind != KindField) {
        diag(e->f, DiagE0515, here(e), SARG(a->text));
        return;
    }
    if (e->to->index != 1 || !e->to->fn) {
        diag(e->f, DiagE0514, here(e), "next");
        return;
    }
    uint32_t stream = e->field.at[v.id].stream;
    uint32_t *next = stream_next(e, stream);
    if (*next && !batch_read(e, stream, *next)) {
        diag(e->f, DiagE0528, here(e), SARG(a->text));
        return;
    }
    for (uint32_t slot = 0; e->to->rounds && slot < e->to->cell.n; slot++) {
        const Slot *s = &e->m->slot.at[slot];
        if (s->kind != SlotData || s->stream != stream || s->round != *next ||
            !e->to->cell.at[slot].node)
            continue;
        diag(e->f, DiagE0516, here(e),
             SARG(s->name)); // round 2 would see another batch than round 1
        return;
    }
    ++*next;
    if (!e->to->muted)
        vec_push(e->perm, &e->to->fn->next, ((Next){stream, *next, e->to->at->block}));
}

// --- counters and top-level tensors --------------------------------------------------------------

Val read_scalar(Elab *e, uint32_t which) {
    static const char *const names[] = {"step", "epoch", "kimg"};
    if (e->scalar[which] == NONE)
        e->scalar[which] = slot_add(e, (Slot){.kind = SlotScalar,
                                              .name = str_c(names[which]),
                                              .net = NONE,
                                              .type = type_make(false, 0, NULL)});
    return Read(e->to->at, e->scalar[which], 0, type_make(false, 0, NULL));
}

static uint32_t import_node(Elab *e, const Graph *from, uint32_t id, Nodes *done);

// A node of a function in the graph of `init`: a slot is worth what it begins with. 0 where the
// value is not known then.
static uint32_t import_begun(Elab *e, const Graph *from, uint32_t id, Nodes *done) {
    const Node *n = graph_node(from, id);
    if (n->op == OpPin)
        return import_node(e, from, node_in(from, id, 0), done);
    const Slot *s = n->op == OpRead ? &e->m->slot.at[node_slot(from, id)] : NULL;
    return s && (s->kind == SlotParam || s->kind == SlotState) ? s->init : 0;
}

static uint32_t import_copy(Elab *e, const Graph *from, uint32_t id, Nodes *done) {
    const Node *n = graph_node(from, id);
    OpClass class = op_info[n->op].cls;
    bool computed = class == ClassEW || class == ClassREDUCE || class == ClassMOVE ||
                    class == ClassANCHOR || class == ClassLEAF;
    if (from != &e->loose && (!computed || n->op == OpPin))
        return import_begun(e, from, id, done);
    uint32_t in[MAX_IN];
    for (uint32_t k = 0; k < n->nin; k++)
        if (!(in[k] = import_node(e, from, node_in(from, id, k), done)))
            return 0;
    return builder_add(e->to->at, (Op)n->op, in, n->nin, node_attr(from, id), node_type(from, id));
}

// The copy of node `id` of `from` in the graph of e->to. `done`: that of each node of `from`.
static uint32_t import_node(Elab *e, const Graph *from, uint32_t id, Nodes *done) {
    while (done->n <= id)
        vec_push(e->perm, done, 0);
    uint32_t at = done->at[id];
    if (at && builder_sees(e->to->at, at))
        return at;
    at = import_copy(e, from, id, done);
    return done->at[id] = at;
}

Val import(Elab *e, Val v) {
    if (v.b == e->to->at || !v.id)
        return v;
    Nodes begun = {0};
    bool begins = e->to == &e->init;
    bool loose = v.b->g == &e->loose;
    if (loose || begins)
        v = (Val){e->to->at, import_node(e, v.b->g, v.id, loose ? &e->to->imported : &begun)};
    if (v.b == e->to->at && v.id)
        return v;
    diag(e->f, DiagE0517, here(e));
    in_library(e);
    return (Val){0};
}
