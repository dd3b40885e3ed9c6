// verify.c - the rules every graph keeps, checked. In: a module between any two passes. Out: true,
// or the first offence. Run after each pass in debug builds and on everything the text reader
// builds.
#include "program.h"

typedef struct Verify {
    const Module *m;
    const Func *f;
    Arena *scratch;
    uint32_t *scope_end; // [block] of block_dominates, whose values a block may use
    uint32_t *at;        // [block] tape entry
    uint32_t blocks;     // on the tape so far
    uint32_t *write;     // [slot] 1 + its last write in Func.effect, 0 none
    uint32_t *older;     // [effect] the same of the write of the slot before it
    char error[512];
} Verify;

static bool wrong(Verify *v, const char *format, ...) {
    int n = v->f ? snprintf(v->error, sizeof v->error, "%.*s: ", SARG(v->f->name)) : 0;
    size_t at = n < 0 ? 0 : (size_t)n < sizeof v->error ? (size_t)n : sizeof v->error - 1;
    va_list args;
    va_start(args, format);
    vsnprintf(v->error + at, sizeof v->error - at, format, args);
    va_end(args);
    return false;
}

static bool is_node(const Verify *v, uint32_t id) {
    return id > 0 && id < v->f->g.node.n;
}

static bool is_shared_number(const Verify *v, uint32_t id) {
    const Type *t = is_node(v, id) ? node_type(&v->f->g, id) : NULL;
    return t && !t->batched && type_sample(t) == 1;
}

static bool verify_ctl(Verify *v, uint32_t i, CtlKind *stack, uint32_t *depth) {
    const Ctl *c = &v->f->tape.at[i];
    switch (c->kind) {
    case CtlBlock:
        if (c->arg >= v->f->blocks || c->arg != v->blocks++)
            return wrong(v, "tape entry %u: block %u is unknown, or not in order", i, c->arg);
        v->at[c->arg] = i + 1;
        return true;
    case CtlRepeat:
    case CtlEvery:
    case CtlIf:
        if (*depth == MAX_SCOPES || (c->kind == CtlIf ? !is_shared_number(v, c->cond) : c->arg < 1))
            return wrong(v, "tape entry %u: no condition, no count or too deep", i);
        stack[(*depth)++] = c->kind;
        return true;
    case CtlElse:
        if (*depth == 0 || (stack[*depth - 1] != CtlIf && stack[*depth - 1] != CtlEvery))
            return wrong(v, "tape entry %u: else without if", i);
        stack[*depth - 1] = CtlElse;
        return true;
    case CtlEnd:
        return (*depth)-- > 0 || wrong(v, "tape entry %u: nothing to end", i);
    }
    return wrong(v, "tape entry %u: no kind %d", i, (int)c->kind);
}

static bool verify_tape(Verify *v) {
    CtlKind stack[MAX_SCOPES];
    uint32_t depth = 0, blocks = v->f->blocks;
    v->blocks = 0;
    v->at = arena_array(v->scratch, uint32_t, blocks);
    for (uint32_t i = 0; i < v->f->tape.n; i++)
        if (!verify_ctl(v, i, stack, &depth))
            return false;
    if (v->f->tape.n && v->blocks < blocks)
        return wrong(v, "block %u is not on the tape", v->blocks);
    return depth == 0 || wrong(v, "%u scopes are not ended", depth);
}

// That the arrays a node points into have what it points at.
static bool verify_links(Verify *v, uint32_t id) {
    const Graph *g = &v->f->g;
    const Node *n = graph_node(g, id);
    if (n->op == OpNone || n->op >= OpCount)
        return wrong(v, "node %u: no op %u", id, n->op);
    if (n->type == 0 || n->type >= g->type.n || n->attr >= g->attr.n || n->span >= g->span.n ||
        n->in > g->edge.n || n->nin > g->edge.n - n->in) {
        return wrong(v, "node %u (%s): type, attribute, span or operands out of range", id,
                     op_info[n->op].text);
    }
    for (uint32_t k = 0; k < n->nin; k++) {
        if (node_in(g, id, k) == 0 || node_in(g, id, k) >= id) {
            return wrong(v, "node %u (%s): operand %u is not an earlier node", id,
                         op_info[n->op].text, k);
        }
    }
    return n->block < v->f->blocks ||
           wrong(v, "node %u (%s): no block %u", id, op_info[n->op].text, n->block);
}

static bool verify_type(Verify *v, uint32_t id) {
    const Graph *g = &v->f->g;
    const Node *n = graph_node(g, id);
    const uint32_t *in = n->nin ? &g->edge.at[n->in] : NULL;
    Infer q = {.g = g, .nin = n->nin, .in = in, .attr = node_attr(g, id), .out = *node_type(g, id)};
    if (!graph_check(&q, (Op)n->op))
        return wrong(v, "node %u (%s): %s", id, op_info[n->op].text, q.error);
    if (!type_same_shape(&q.out, node_type(g, id)) || q.out.dtype != node_type(g, id)->dtype) {
        Str is = type_text(v->scratch, node_type(g, id)), rule = type_text(v->scratch, &q.out);
        return wrong(v, "node %u (%s): is %s %.*s, its rule says %s %.*s", id, op_info[n->op].text,
                     dtype_name[node_type(g, id)->dtype], SARG(is), dtype_name[q.out.dtype],
                     SARG(rule));
    }
    return true;
}

// Is a value there at the end of block `block`?
static bool is_ready(const Verify *v, uint32_t id, uint32_t block) {
    return op_info[graph_node(&v->f->g, id)->op].cls == ClassLEAF ||
           block_dominates(v->scope_end, graph_node(&v->f->g, id)->block, block);
}

static bool verify_operands(Verify *v, uint32_t id) {
    const Graph *g = &v->f->g;
    for (uint32_t k = 0; k < graph_node(g, id)->nin; k++) {
        uint32_t in = node_in(g, id, k);
        if (graph_node(g, in)->op == OpWrite)
            return wrong(v, "node %u: reads the write %u", id, in);
        if (!is_ready(v, in, graph_node(g, id)->block)) {
            return wrong(
                v, "node %u (%s) of block %u uses node %u of block %u, which may not have run", id,
                op_info[graph_node(g, id)->op].text, graph_node(g, id)->block, in,
                graph_node(g, in)->block);
        }
    }
    return true;
}

// What slots hold, collectives reduce and libraries take, but for products of matrices, lies by
// type_strides' rule.
static bool verify_layout(Verify *v, uint32_t id) {
    const Graph *g = &v->f->g;
    const Node *n = graph_node(g, id);
    OpClass c = op_info[n->op].cls;
    if ((c != ClassANCHOR || n->op == OpDot) && c != ClassCOMM && c != ClassSTATE)
        return true;
    bool by_rule = node_type(g, id)->inner == 0;
    for (uint32_t k = 0; k < n->nin; k++)
        by_rule = by_rule && node_type(g, node_in(g, id, k))->inner == 0;
    return by_rule || wrong(v, "node %u (%s): another axis than the rule's lies innermost", id,
                            op_info[n->op].text);
}

// Between its ReduceStart and its ReduceWait a value is in flight: nothing else may read it.
static bool verify_flight(Verify *v, uint32_t id) {
    const Graph *g = &v->f->g;
    Op op = (Op)graph_node(g, id)->op;
    for (uint32_t k = 0; k < graph_node(g, id)->nin; k++) {
        uint32_t in = node_in(g, id, k);
        bool flies = graph_node(g, in)->op == OpReduceStart;
        if (flies != (op == OpReduceWait)) {
            return wrong(v,
                         "node %u (%s) of node %u (%s): a wait has a start before it, a start "
                         "nothing but its wait behind it",
                         id, op_info[op].text, in, op_info[graph_node(g, in)->op].text);
        }
        if (op == OpReduceWait && (node_attr(g, in)->i[0] != node_attr(g, id)->i[0] ||
                                   node_attr(g, in)->i[1] != node_attr(g, id)->i[1]))
            return wrong(v, "node %u: waits for another part than node %u starts", id, in);
    }
    return true;
}

static bool verify_slot(Verify *v, uint32_t id) {
    Op op = (Op)graph_node(&v->f->g, id)->op;
    int64_t first = node_attr(&v->f->g, id)->i[0];
    if (op == OpRand) {
        int64_t site = node_attr(&v->f->g, id)->i[1];
        return (site >= 0 && site < v->m->site.n) ||
               wrong(v, "node %u: no site %lld", id, (long long)site);
    }
    if (op == OpCommit)
        return (first >= 0 && first < v->f->update.n) ||
               wrong(v, "node %u (commit): no update %lld", id, (long long)first);
    if (op != OpRead && op != OpWrite)
        return true;
    if (first < 0 || first >= v->m->slot.n)
        return wrong(v, "node %u (%s): no slot %lld", id, op_info[op].text, (long long)first);
    const Slot *s = &v->m->slot.at[first];
    return type_same_layout(node_type(&v->f->g, id), &s->type) ||
           wrong(v, "node %u (%s): %s, but slot %.*s is %s", id, op_info[op].text,
                 type_text(v->scratch, node_type(&v->f->g, id)).ptr, SARG(s->name),
                 type_text(v->scratch, &s->type).ptr);
}

// A slot is written at most once a block, and only by nodes the effects list.
static bool verify_effects(Verify *v) {
    const Graph *g = &v->f->g;
    uint8_t *listed = arena_array(v->scratch, uint8_t, g->node.n);
    v->write = arena_array(v->scratch, uint32_t, v->m->slot.n);
    v->older = arena_array(v->scratch, uint32_t, v->f->effect.n);
    for (uint32_t i = 0; i < v->f->effect.n; i++) {
        uint32_t id = v->f->effect.at[i];
        if (!is_node(v, id) || graph_node(g, id)->op != OpWrite || listed[id]++)
            return wrong(v, "effect %u: node %u is not a write, or is listed twice", i, id);
        uint32_t *last = &v->write[node_attr(g, id)->i[0]];
        for (uint32_t k = *last; k; k = v->older[k - 1]) {
            uint32_t other = v->f->effect.at[k - 1];
            if (graph_node(g, other)->block == graph_node(g, id)->block)
                return wrong(v, "nodes %u and %u write one slot in one block", other, id);
        }
        v->older[i] = *last;
        *last = i + 1;
    }
    for (uint32_t id = 1; id < g->node.n; id++)
        if (graph_node(g, id)->op == OpWrite && !listed[id])
            return wrong(v, "node %u: a write that is not among the effects", id);
    return true;
}

// Two reads of one version say that no write lies between them.
static bool verify_versions(Verify *v) {
    const Graph *g = &v->f->g;
    uint32_t *first =
        arena_array(v->scratch, uint32_t, g->attr.n); // read by its attribute: slot and version
    for (uint32_t id = 1; id < g->node.n; id++) {
        const Node *n = graph_node(g, id);
        if (n->op != OpRead || v->f->tape.n == 0)
            continue;
        uint32_t one = first[n->attr];
        first[n->attr] = id;
        int64_t slot = node_attr(g, id)->i[0];
        for (uint32_t i = one ? v->write[slot] : 0; i; i = v->older[i - 1]) {
            uint32_t write = v->f->effect.at[i - 1], from = v->at[graph_node(g, one)->block],
                     to = v->at[n->block], at = v->at[graph_node(g, write)->block];
            if (from <= at && at < to) {
                return wrong(
                    v,
                    "nodes %u and %u read one version of slot %lld, but node %u writes it between",
                    one, id, (long long)slot, write);
            }
        }
    }
    return true;
}

static bool verify_updates(Verify *v) {
    const Graph *g = &v->f->g;
    for (uint32_t i = 0; i < v->f->update.n; i++) {
        const Update *u = &v->f->update.at[i];
        if (u->block >= v->f->blocks || !is_shared_number(v, u->loss))
            return wrong(v, "update %u: no such block, or its loss is not one shared number", i);
        if (!is_ready(v, u->loss, u->block))
            return wrong(v, "update %u: loss %u may not have run in block %u", i, u->loss,
                         u->block);
        for (uint32_t k = 0; k < u->net.n; k++)
            if (u->net.at[k] >= v->m->net.n)
                return wrong(v, "update %u: no net %u", i, u->net.at[k]);
        for (uint32_t k = 0; k < u->grad.n; k++) {
            const GradOf *d = &u->grad.at[k];
            if (d->slot >= v->m->slot.n || !is_node(v, d->node) ||
                !type_same_shape(&v->m->slot.at[d->slot].type, node_type(g, d->node))) {
                return wrong(v, "update %u: gradient %u has no slot, no node or another shape", i,
                             k);
            }
        }
        for (uint32_t k = 0; k < u->inner.n; k++)
            if (!is_node(v, u->inner.at[k]))
                return wrong(v, "update %u: no node %u", i, u->inner.at[k]);
    }
    return true;
}

static bool verify_named(Verify *v, const Named *n, const char *what) {
    if (!is_node(v, n->node) || n->block >= v->f->blocks)
        return wrong(v, "%s %.*s: node %u, block %u", what, SARG(n->name), n->node, n->block);
    return is_ready(v, n->node, n->block) ||
           wrong(v, "%s %.*s: node %u may not have run in block %u", what, SARG(n->name), n->node,
                 n->block);
}

// The condition of an `if` is computed before it in a scope around it: then it dominates the
// first block that follows.
static bool verify_conditions(Verify *v) {
    uint32_t next = NONE;
    for (uint32_t i = v->f->tape.n; i-- > 0;) {
        const Ctl *c = &v->f->tape.at[i];
        next = c->kind == CtlBlock ? c->arg : next;
        if (c->kind != CtlIf || op_info[graph_node(&v->f->g, c->cond)->op].cls == ClassLEAF)
            continue;
        uint32_t home = graph_node(&v->f->g, c->cond)->block;
        if (v->at[home] > i || (next != NONE && !block_dominates(v->scope_end, home, next)))
            return wrong(v, "tape entry %u: condition %u may not have run", i, c->cond);
    }
    return true;
}

// Each block of a step in parts has a whole number of them before its own.
static bool verify_parts(Verify *v) {
    int64_t part = v->f->g.batch;
    for (uint32_t b = 0; v->f->block_first && b < v->f->blocks; b++) {
        int64_t first = v->f->block_first[b];
        if (first < 0 || first % part || first > v->m->batch - part)
            return wrong(v, "block %u: samples from %lld on are no part of %lld", b,
                         (long long)first, (long long)v->m->batch);
    }
    return true;
}

static bool takes(const Func *f, uint32_t stream, uint32_t round) {
    bool found = false;
    for (uint32_t i = 0; i < f->next.n; i++)
        found |= f->next.at[i].stream == stream && f->next.at[i].round == round;
    return found;
}

// Nobody would fill the slot of a round that no `next` takes.
static bool verify_nexts(Verify *v) {
    const Func *f = v->f;
    for (uint32_t i = 0; i < f->next.n; i++)
        if (f->next.at[i].stream >= v->m->stream.n || f->next.at[i].block >= f->blocks)
            return wrong(v, "next: no stream %u or block %u", f->next.at[i].stream,
                         f->next.at[i].block);
    for (uint32_t i = 0; i < v->m->slot.n; i++) {
        const Slot *s = &v->m->slot.at[i];
        if (s->kind == SlotData && s->round && !takes(f, s->stream, s->round) && func_reads(f, i))
            return wrong(v, "slot %u (%.*s): no `next` takes its batch", i, SARG(s->name));
    }
    return true;
}

static bool verify_func(Verify *v, const Func *f) {
    v->f = f;
    const Share *s = &v->m->share;
    bool whole = f->g.batch == v->m->batch || f->g.batch == s->samples || f->g.batch == s->total;
    if (!whole && !f->block_first) {
        return wrong(v, "a batch of %lld in a module of %lld", (long long)f->g.batch,
                     (long long)v->m->batch);
    }
    for (uint32_t id = 1; id < f->g.node.n; id++)
        if (!verify_links(v, id) || !verify_type(v, id) || !verify_slot(v, id))
            return false;
    if (!verify_tape(v) || !verify_parts(v))
        return false;
    v->scope_end = blocks_scope_end(v->scratch, f, true);
    for (uint32_t id = 1; id < f->g.node.n; id++)
        if (!verify_operands(v, id) || !verify_layout(v, id) || !verify_flight(v, id))
            return false;
    if (!verify_conditions(v))
        return false;
    for (uint32_t i = 0; i < f->report.n; i++)
        if (!verify_named(v, &f->report.at[i], "report"))
            return false;
    for (uint32_t i = 0; i < f->result.n; i++)
        if (!verify_named(v, &f->result.at[i], "result"))
            return false;
    for (uint32_t i = 0; i < f->data.n; i++)
        if (f->data.at[i] >= v->m->slot.n)
            return wrong(v, "no data slot %u", f->data.at[i]);
    return verify_effects(v) && verify_versions(v) && verify_updates(v) && verify_nexts(v);
}

static bool verify_nets(Verify *v) {
    const Module *m = v->m;
    for (uint32_t i = 0; i < m->net.n; i++)
        if (m->net.at[i].copy_of != NONE && m->net.at[i].copy_of >= i)
            return wrong(v, "net %u (%.*s): a copy of net %u, which is not before it", i,
                         SARG(m->net.at[i].name), m->net.at[i].copy_of);
    return true;
}

// The function a site belongs to, NULL: there is none.
static const Func *func_of(const Module *m, const Site *s) {
    return s->func == 0               ? &m->init
           : s->func == 1             ? &m->step
           : s->func - 2 < m->entry.n ? &m->entry.at[s->func - 2]
                                      : NULL;
}

static bool verify_sites(Verify *v) {
    for (uint32_t i = 0; i < v->m->site.n; i++) {
        const Site *s = &v->m->site.at[i];
        const Func *f = func_of(v->m, s);
        if (!f || s->block >= f->blocks)
            return wrong(v, "site %u: no function %u, or no block %u in it", i, s->func, s->block);
        if (s->dist == DistCategorical && s->classes < 1)
            return wrong(v, "site %u: a draw of %lld classes", i, (long long)s->classes);
    }
    return true;
}

// Is the slot of the type that whoever fills it writes? A batch of the field; what the site draws,
// where one number is fed as [1].
static bool verify_filled(Verify *v, uint32_t slot) {
    const Slot *s = &v->m->slot.at[slot];
    Type want = s->type;
    if (s->kind == SlotData) {
        const Field *f = &v->m->stream.at[s->stream].field.at[s->site];
        want = type_make(true, f->rank, f->dim);
    } else if (s->kind == SlotFed) {
        want = v->m->site.at[s->site].type;
        if (!want.batched && !want.rank)
            want = type_make(false, 1, (int64_t[]){1});
    }
    return type_same_shape(&s->type, &want) ||
           wrong(v, "slot %u (%.*s): is %s, but is filled with %s", slot, SARG(s->name),
                 type_text(v->scratch, &s->type).ptr, type_text(v->scratch, &want).ptr);
}

static bool verify_slots(Verify *v) {
    const Module *m = v->m;
    for (uint32_t i = 0; i < m->slot.n; i++) {
        const Slot *s = &m->slot.at[i];
        if (s->net != NONE && s->net >= m->net.n)
            return wrong(v, "slot %u (%.*s): no net %u", i, SARG(s->name), s->net);
        if (s->kind == SlotFed && s->site >= m->site.n)
            return wrong(v, "slot %u (%.*s): no site %u", i, SARG(s->name), s->site);
        if (s->kind == SlotData &&
            (s->stream >= m->stream.n || s->site >= m->stream.at[s->stream].field.n)) {
            return wrong(v, "slot %u (%.*s): no field %u of stream %u", i, SARG(s->name), s->site,
                         s->stream);
        }
        if (!verify_filled(v, i))
            return false;
    }
    return true;
}

static bool refuse(const Verify *v, Arena *a, Str *error) {
    *error = str_copy(a, str_c(v->error));
    return false;
}

bool func_verify(const Module *m, const Func *f, Arena *a, Str *error) {
    Arena scratch = *a;
    Verify v = {.m = m, .scratch = &scratch};
    return verify_func(&v, f) || refuse(&v, a, error);
}

bool module_verify(const Module *m, Arena *a, Str *error) {
    Arena scratch = *a;
    Verify v = {.m = m, .scratch = &scratch};
    bool ok = verify_nets(&v) && verify_sites(&v) && verify_slots(&v) &&
              verify_func(&v, &m->init) && verify_func(&v, &m->step);
    for (uint32_t i = 0; ok && i < m->entry.n; i++)
        ok = verify_func(&v, &m->entry.at[i]);
    return ok || refuse(&v, a, error);
}
