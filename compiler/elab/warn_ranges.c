// warn_ranges.c - data that a generator cannot reach: images of 0..255 beside those of a tanh.
//
// In: the arguments of each call of a net, of which some are a field of the data, or what a
// bounded operation gave. Out: a warning where one parameter takes both, and the data go beyond.
// Data within are fine: a study may scale to 0..1 beside a tanh.
#include "warn.h"

// What the loader gives: 0..255 for an image, or what `scale` says. A map may change it.
static bool field_range(const Elab *e, const Slot *s, Bounds *out) {
    const Field *f = &e->m->stream.at[s->stream].field.at[s->site];
    bool known = f->kind == FieldImage;
    *out = (Bounds){0, 255, s->span};
    for (uint32_t i = 0; i < f->xform.n; i++) {
        Xform x = f->xform.at[i];
        if (x.kind == XformMap)
            return false;
        if (x.kind == XformKnown) {
            *out = (Bounds){0, 1, s->span};
            known = true;
        }
        if (x.kind == XformScale) {
            *out = (Bounds){x.a < x.b ? x.a : x.b, x.a < x.b ? x.b : x.a, s->span};
            known = true;
        }
    }
    return known;
}

static bool value_range(const Elab *e, Val v, Bounds *out, bool *made) {
    const Graph *g = v.b->g;
    uint32_t id = v.id;
    while (graph_node(g, id)->op == OpReshape || graph_node(g, id)->op == OpPin)
        id = node_in(g, id, 0);
    const Node *n = graph_node(g, id);
    *made = n->op == OpTanh || n->op == OpSigmoid;
    if (*made)
        *out = (Bounds){n->op == OpTanh ? -1 : 0, 1, n->span ? g->span.at[n->span].span : e->at};
    if (*made || n->op != OpRead)
        return *made;
    const Slot *s = &e->m->slot.at[node_slot(g, id)];
    return s->kind == SlotData && field_range(e, s, out);
}

void warn_ranges(Elab *e, uint32_t net, Args args) {
    NetInfo *info = &e->net_info.at[net];
    for (uint32_t i = 0; i < args.n && i < NET_RANGES && !info->two_ranges; i++) {
        Bounds now;
        bool made;
        if (args.at[i].name.len || args.at[i].value.kind != KindTensor ||
            !value_range(e, args.at[i].value.tensor.val, &now, &made))
            continue;
        Bounds *seen = info->range[i];
        seen[made] = now;
        if (!seen[!made].at.file || (seen[1].low <= seen[0].low && seen[0].high <= seen[1].high))
            continue;
        info->two_ranges = true;
        diag(e->f, DiagW0913, here(e), SARG(e->m->net.at[net].name), seen[0].low, seen[0].high,
             seen[1].low, seen[1].high);
        diag_note(e->f, seen[0].at, "these are from %g to %g", seen[0].low, seen[0].high);
        diag_note(e->f, seen[1].at, "these are from %g to %g", seen[1].low, seen[1].high);
    }
}
