// hash.c - a structural hash of a module's graphs.
//
// In: a module. Out: 128 bits of what is computed: live nodes in canonical numbering, control flow,
// effects, reports. Source positions, names of slots, dead nodes, the numbers of Pins and versions,
// and what a skipped update keeps (Commit) do not count.
//
// Everything is written as one row of integers, which is then hashed. A node's row says neither how
// many operands nor how many attributes it has: its operation and types do. Of Concat, which takes
// any number of operands, as many follow as fill its extent along the axis: a prefix of them has a
// smaller extent there, and along another axis two parts have twice the extent of the result.
#include "program.h"

#include <string.h>

typedef struct Canon {
    Text t; // everything hashed, as integers
    const Graph *g;
    uint32_t *number; // [node.n] canonical number, 0 dead
    uint32_t *read;   // [attr.n] canonical number of the first read of this slot and version
} Canon;

static void put(Canon *c, int64_t x) {
    text_put(&c->t, (Str){(const char *)&x, sizeof x});
}

static void put_str(Canon *c, Str s) {
    put(c, (int64_t)s.len);
    text_put(&c->t, s);
}

static void put_type(Canon *c, const Type *t) {
    put(c, t->dtype);
    put(c, t->rank);
    put(c, t->batched | t->inner << 1);
    for (uint32_t i = 0; i < t->rank; i++)
        put(c, t->dim[i]);
}

static void put_node(Canon *c, uint32_t id) {
    const Node *n = graph_node(c->g, id);
    const Attr *a = node_attr(c->g, id);
    put(c, n->op);
    put(c, n->block);
    put_type(c, node_type(c->g, id));
    for (uint32_t k = 0; k < n->nin; k++)
        put(c, c->number[node_in(c->g, id, k)]);
    uint32_t count = n->op == OpPin ? 0 : n->op == OpRead ? 1 : a->n; // a pin is its own number
    for (uint32_t i = 0; i < count; i++)
        put(c, a->i[i]);
    if (n->op == OpRead) {
        uint32_t *first = &c->read[n->attr];
        *first = *first ? *first : c->number[id];
        put(c, *first);
    }
}

static void put_named(Canon *c, const Named *n) {
    put_str(c, n->name);
    put(c, c->number[n->node]);
    put(c, n->block);
}

static void put_roots(Canon *c, const Func *f) {
    for (uint32_t i = 0; i < f->tape.n; i++) {
        put(c, f->tape.at[i].kind);
        put(c, f->tape.at[i].arg);
        put(c, c->number[f->tape.at[i].cond]);
    }
    for (uint32_t i = 0; i < f->effect.n; i++)
        put(c, c->number[f->effect.at[i]]);
    for (uint32_t i = 0; i < f->next.n; i++) {
        put(c, f->next.at[i].stream);
        put(c, f->next.at[i].round);
        put(c, f->next.at[i].block);
    }
    for (uint32_t i = 0; i < f->update.n; i++) {
        const Update *u = &f->update.at[i];
        put(c, u->block);
        put(c, c->number[u->loss]);
        for (uint32_t k = 0; k < u->net.n; k++)
            put(c, u->net.at[k]);
        for (uint32_t k = 0; k < u->grad.n; k++) {
            put(c, u->grad.at[k].slot);
            put(c, c->number[u->grad.at[k].node]);
        }
    }
    for (uint32_t i = 0; i < f->report.n; i++)
        put_named(c, &f->report.at[i]);
    for (uint32_t i = 0; i < f->result.n; i++)
        put_named(c, &f->result.at[i]);
}

// What a skipped update would leave makes no node live.
static const uint8_t *computed(Arena *a, const Func *f) {
    uint8_t *live = func_roots(a, f);
    for (uint32_t id = f->g.node.n; id-- > 1;) {
        const Node *n = graph_node(&f->g, id);
        for (uint32_t k = 0; live[id] && k < (n->op == OpCommit ? 1 : n->nin); k++)
            live[node_in(&f->g, id, k)] = 1;
    }
    return live;
}

static void put_func(Canon *c, const Func *f, Arena *scratch) {
    const uint8_t *live = computed(scratch, f);
    uint32_t next = 1;
    c->g = &f->g;
    c->number = arena_array(scratch, uint32_t, f->g.node.n);
    c->read = arena_array(scratch, uint32_t, f->g.attr.n);
    put_str(c, f->name);
    for (uint32_t id = 1; id < f->g.node.n; id++) {
        if (live[id] && graph_node(&f->g, id)->op == OpCommit) {
            c->number[id] = c->number[node_in(&f->g, id, 0)];
        } else if (live[id]) {
            c->number[id] = next++;
            put_node(c, id);
        }
    }
    put(c, next);
    put_roots(c, f);
}

// Scalars are known by name; other slots by number, kind and owner, classes that are fed by how
// many there are.
static void put_slot(Canon *c, const Module *m, const Slot *s) {
    put(c, s->kind);
    put(c, s->net);
    put_type(c, &s->type);
    put(c, s->kind == SlotFed || s->kind == SlotData ? s->site : 0);
    if (s->kind == SlotFed && m->site.at[s->site].dist == DistCategorical) {
        put(c, DistCategorical);
        put(c, m->site.at[s->site].classes);
    }
    put(c, s->kind == SlotData ? s->stream : 0);
    put(c, s->kind == SlotData ? s->round : 0);
    if (s->kind == SlotScalar)
        put_str(c, s->name);
}

static void put_field(Canon *c, const Field *f) {
    put(c, f->kind);
    put(c, f->rank);
    for (uint32_t i = 0; i < f->rank; i++)
        put(c, f->dim[i]);
    put(c, f->classes);
    for (uint32_t i = 0; i < f->xform.n; i++) {
        int64_t bits[2];
        memcpy(&bits[0], &f->xform.at[i].a, sizeof bits[0]);
        memcpy(&bits[1], &f->xform.at[i].b, sizeof bits[1]);
        put(c, (int64_t)f->xform.at[i].kind);
        put(c, bits[0]);
        put(c, bits[1]);
    }
}

Hash128 module_hash(const Module *m, Arena scratch) {
    Canon c = {.t = {.arena = &scratch}};
    put(&c, m->batch);
    put(&c, m->net.n);
    for (uint32_t i = 0; i < m->net.n; i++)
        if (net_pretrained(m, i))
            put(&c, -1 - (int64_t)i);
    for (uint32_t i = 0; i < m->stream.n; i++) {
        put(&c, m->stream.at[i].field.n);
        for (uint32_t k = 0; k < m->stream.at[i].field.n; k++)
            put_field(&c, &m->stream.at[i].field.at[k]);
    }
    for (uint32_t i = 0; i < m->slot.n; i++)
        put_slot(&c, m, &m->slot.at[i]);
    put_func(&c, &m->init, &scratch);
    put_func(&c, &m->step, &scratch);
    for (uint32_t i = 0; i < m->entry.n; i++)
        put_func(&c, &m->entry.at[i], &scratch);
    for (uint32_t i = 0; i < m->stage.n; i++) {
        const Stage *s = &m->stage.at[i];
        put(&c, s->steps);
        if (s->batch != m->batch)
            put(&c, -s->batch);
        for (uint32_t k = 0; k < s->setting.n; k++) {
            put_str(&c, s->setting.at[k].key);
            put_str(&c, s->setting.at[k].value);
        }
    }
    Str all = text_str(&c.t);
    return hash128(all.ptr, all.len);
}
