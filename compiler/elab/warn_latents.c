// warn_latents.c - samples of another distribution than the net was trained with: uniform numbers
// where the step draws normal ones.
//
// In: the arguments of each call of a net that are draws, shifted and scaled by numbers. Out: a
// warning where a `sample` draws one otherwise than every call of the step. Normal numbers may be
// of any scale, and uniform ones of a part of their range: samples are truncated so.
#include "warn.h"

#include <math.h>

static bool is_number(const Graph *g, uint32_t id, double *out) {
    while (graph_node(g, id)->op == OpExpand || graph_node(g, id)->op == OpReshape)
        id = node_in(g, id, 0);
    return node_is_const(g, id, out);
}

// v = scale*x + shift, of a node x that is no such sum or product.
static uint32_t peel(const Graph *g, uint32_t id, double *scale, double *shift) {
    *scale = 1;
    *shift = 0;
    for (;;) {
        const Node *n = graph_node(g, id);
        Op op = (Op)n->op;
        double c;
        if (op == OpReshape || op == OpPin) {
            id = node_in(g, id, 0);
        } else if (op == OpNeg) {
            *scale = -*scale;
            id = node_in(g, id, 0);
        } else if (op == OpAdd || op == OpSub || op == OpMul) {
            bool right = is_number(g, node_in(g, id, 1), &c);
            if (!right && !is_number(g, node_in(g, id, 0), &c))
                return id;
            id = node_in(g, id, right ? 0 : 1);
            if (op != OpMul)
                *shift += *scale * (op == OpSub && right ? -c : c);
            *scale *= op == OpMul ? c : op == OpSub && !right ? -1 : 1;
        } else {
            return id;
        }
    }
}

static bool find_draw(Elab *e, Val v, Bounds *out) {
    double scale, shift;
    const Graph *g = v.b->g;
    uint32_t id = peel(g, v.id, &scale, &shift);
    const Node *n = graph_node(g, id);
    if (n->op != OpRand)
        return false;
    Dist dist = (Dist)node_attr(g, id)->i[0];
    if (dist != DistUniform && dist != DistNormal)
        return false;
    bool normal = dist == DistNormal;
    double a = normal ? -INFINITY : shift, b = normal ? INFINITY : scale + shift;
    *out = (Bounds){a < b ? a : b, a < b ? b : a, n->span ? g->span.at[n->span].span : e->at};
    return true;
}

static bool within(const Bounds *a, const Bounds *b) {
    if (isinf(a->high) || isinf(b->high))
        return isinf(a->high) && isinf(b->high);
    double slack = 1e-6 * (b->high - b->low);
    return b->low - slack <= a->low && a->high <= b->high + slack;
}

static Str draw_text(Elab *e, const Bounds *d) {
    return isinf(d->high) ? STR("normal numbers")
                          : str_format(e->perm, "uniform numbers from %g to %g", d->low, d->high);
}

// An average is sampled in place of the net it begins as.
static NetInfo *trained_info(Elab *e, uint32_t net) {
    while (!e->net_info.at[net].drawn && e->m->net.at[net].copy_of != NONE)
        net = e->m->net.at[net].copy_of;
    return &e->net_info.at[net];
}

void warn_latents(Elab *e, uint32_t net, Args args) {
    bool step = e->to->index == 1;
    NetInfo *info = step ? &e->net_info.at[net] : trained_info(e, net);
    if (e->to->aside || (!step && !info->drawn))
        return;
    info->drawn |= step;
    for (uint32_t i = 0; i < args.n && i < NET_RANGES; i++) {
        Bounds now, *seen = &info->draw[i];
        bool known = !args.at[i].name.len && args.at[i].value.kind == KindTensor &&
                     find_draw(e, args.at[i].value.tensor.val, &now),
             other = seen->at.file && known && !within(&now, seen);
        if (step && (!known || other || (seen->at.file && !within(seen, &now))))
            info->mixed |= 1u << i;
        else if (step)
            *seen = now;
        if (step || !other || info->mixed >> i & 1)
            continue;
        info->mixed |= 1u << i; // reported
        diag(e->f, DiagW0916, here(e), SARG(e->m->net.at[net].name), SARG(draw_text(e, seen)),
             SARG(draw_text(e, &now)));
        diag_note(e->f, seen->at, "what it is trained with is drawn here");
    }
}
