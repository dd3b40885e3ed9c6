// warn_classes.c - a critic that is given another class than the one its sample was made with; a
// table of fewer rows than there are classes.
//
// In: the arguments of a net's call, of which one is a class that is drawn or a label of the data.
// Out: a warning where another argument follows from such classes, as many, but not from this one:
// what the two have to do with each other cannot be learned. Data follow from no class; what mixes
// them with samples, as a penalty does, may have their label.
#include "warn.h"

// How many classes there are of those that a node draws or reads; 0: it is none.
static int64_t classes_of(const Elab *e, const Graph *g, uint32_t id) {
    Op op = (Op)graph_node(g, id)->op;
    if (op == OpRand && node_attr(g, id)->i[0] == DistCategorical)
        return e->m->site.at[node_attr(g, id)->i[1]].classes;
    if (op != OpRead)
        return 0;
    const Slot *s = &e->m->slot.at[node_slot(g, id)];
    if (s->kind != SlotData)
        return 0;
    const Field *f = &e->m->stream.at[s->stream].field.at[s->site];
    return f->kind == FieldLabel ? f->classes : 0;
}

// Whether a node reads data of which `class` is a label.
static bool reads_labelled(const Elab *e, const Graph *g, uint32_t id, uint32_t class) {
    if (graph_node(g, id)->op != OpRead || graph_node(g, class)->op != OpRead)
        return false;
    const Slot *s = &e->m->slot.at[node_slot(g, id)], *label = &e->m->slot.at[node_slot(g, class)];
    return s->kind == SlotData && s->stream == label->stream;
}

static bool is_of_another(const Elab *e, Arena scratch, const Graph *g, uint32_t value,
                          uint32_t class) {
    const uint8_t *from = value_origins(g, &scratch, value);
    bool another = false;
    if (class <= value && from[class])
        return false;
    for (uint32_t id = 1; id <= value; id++) {
        if (from[id] && reads_labelled(e, g, id, class))
            return false;
        another |= from[id] && classes_of(e, g, id) == classes_of(e, g, class);
    }
    return another;
}

void warn_classes(Elab *e, uint32_t net, Args args) {
    const Graph *g = &e->m->step.g;
    for (uint32_t i = 0; i < args.n; i++) {
        Value v = args.at[i].value;
        if (v.kind != KindTensor || v.tensor.val.b->g != g)
            continue;
        uint32_t class = v.tensor.val.id;
        while (graph_node(g, class)->op == OpPin)
            class = node_in(g, class, 0);
        for (uint32_t k = 0; classes_of(e, g, class) && k < args.n; k++) {
            Value of = args.at[k].value;
            Arena scratch;
            if (k == i || of.kind != KindTensor || of.tensor.val.b->g != g)
                continue;
            arena_need(&scratch);
            if (is_of_another(e, scratch, g, of.tensor.val.id, class))
                diag(e->f, DiagW0919, here(e), SARG(e->m->net.at[net].name));
            arena_release(&scratch);
        }
    }
}

void warn_rows(Elab *e, Value index, int64_t rows) {
    if (index.kind == KindTensor && index.tensor.classes > rows)
        diag(e->f, DiagW0922, here(e), (long long)rows, (long long)index.tensor.classes);
}
