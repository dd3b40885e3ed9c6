// onnx_ops.c - converts the operations of a graph to ONNX nodes, a row each.
//
// In: a function's graph. Out: nodes in order, inputs, constants. Our operations broadcast from the
// first axis on, ONNX's from the last: an operand of fewer axes gets trailing axes of extent 1. An
// operation without a row is refused by name.
#include "onnx_ops.h"
#include "weights.h"

#include <string.h>

// --- operands ------------------------------------------------------------------------------------

Str onnx_refused(Onnx *o, const char *why) {
    if (!o->error.len)
        o->error = str_c(why);
    return (Str){0};
}

// [N, dim...] or [dim...]; 0 stands for the N that is there.
Str onnx_reshaped(Onnx *o, Str x, bool batched, const int64_t *dim, uint32_t rank) {
    int64_t to[MAX_RANK + 2] = {0};
    memcpy(to + batched, dim, rank * sizeof *dim);
    return onnx_put(o, "Reshape", NULL, x, onnx_shape(o, to, rank + batched));
}

// A value of type t with last axes of one element up to `rank`.
static Str lift(Onnx *o, Str x, const Type *t, uint32_t rank) {
    int64_t dim[MAX_RANK];
    if (t->rank == rank || (!t->rank && !t->batched))
        return x;
    for (uint32_t i = 0; i < rank; i++)
        dim[i] = i < t->rank ? t->dim[i] : 1;
    return onnx_reshaped(o, x, t->batched, dim, rank);
}

Str onnx_lifted(Onnx *o, uint32_t k) {
    return lift(o, in(o, k), type_in(o, k), type_at(o)->rank);
}

// How many samples there are, [1]; empty where nothing says.
Str onnx_batch(Onnx *o) {
    Text attributes = {.arena = o->a};
    if (o->batch.len)
        return o->batch;
    if (!o->sample.len)
        return onnx_refused(o, "no input says how many samples there are");
    onnx_int(o, &attributes, "start", 0);
    onnx_int(o, &attributes, "end", 1);
    o->batch = onnx_put(o, "Shape", &attributes, o->sample);
    return o->batch;
}

// --- one element at a time -----------------------------------------------------------------------

static Str put_each(Onnx *o, const char *op) {
    uint32_t n = graph_node(graph_of(o), o->at)->nin;
    Str x[3];
    for (uint32_t k = 0; k < n; k++)
        x[k] = onnx_lifted(o, k);
    return onnx_node(o, op, x, n, NULL);
}

static Str put_same(Onnx *o, const char *op) {
    (void)op;
    return in(o, 0);
}

// Truths are numbers, 1 and 0, where they do more than choose.
static Str put_truth(Onnx *o, const char *op) {
    o->truth[o->at] = put_each(o, op);
    return o->counts[o->at] ? onnx_cast(o, o->truth[o->at], OnnxFloat) : o->truth[o->at];
}

static Str put_where(Onnx *o, const char *op) {
    uint32_t which = node_in(graph_of(o), o->at, 0);
    Str truth = o->truth[which].len ? o->truth[which] : onnx_cast(o, in(o, 0), OnnxBool);
    return onnx_put(o, op, NULL, lift(o, truth, type_in(o, 0), type_at(o)->rank), onnx_lifted(o, 1),
                    onnx_lifted(o, 2));
}

// With the divisor's sign, as Python's: ONNX's Mod of numbers that are no integers is C's.
static Str put_mod(Onnx *o, const char *op) {
    Str a = onnx_lifted(o, 0), b = onnx_lifted(o, 1);
    Str whole = onnx_put(o, "Floor", NULL, onnx_put(o, "Div", NULL, a, b));
    (void)op;
    return onnx_put(o, "Sub", NULL, a, onnx_put(o, "Mul", NULL, b, whole));
}

// --- leaves --------------------------------------------------------------------------------------

static Str put_const(Onnx *o, const char *op) {
    double x;
    (void)op;
    memcpy(&x, ints_at(o), sizeof x);
    return onnx_number(o, x);
}

// 0 .. N - 1.
static Str numbers(Onnx *o, const Type *t) {
    int64_t dim[MAX_RANK + 1] = {-1};
    Str many = onnx_batch(o);
    if (!many.len)
        return many;
    Str last = onnx_put(o, "Reshape", NULL, onnx_cast(o, many, OnnxFloat), onnx_shape(o, NULL, 0));
    Str all = onnx_put(o, "Range", NULL, onnx_number(o, 0), last, onnx_number(o, 1));
    memcpy(dim + 1, t->dim, t->rank * sizeof *dim);
    return onnx_put(o, "Reshape", NULL, all, onnx_shape(o, dim, t->rank + 1));
}

static Str put_iota(Onnx *o, const char *op) {
    const Type *t = type_at(o);
    (void)op;
    if (t->batched)
        return type_sample(t) == 1 ? numbers(o, t)
                                   : onnx_refused(o, "places counted through samples");
    float *x = arena_array(o->a, float, type_sample(t));
    eval_node(graph_of(o), o->at, NULL, x, false, &(Counters){0}, *o->a);
    return onnx_floats(o, t, x);
}

static Str add_input(Onnx *o, Str wanted, Str doc) {
    const Type *t = type_at(o);
    Str name = onnx_name(o, wanted);
    proto_bytes(&o->input, 11, onnx_value_info(o, name, t, doc));
    if (t->batched && !o->sample.len)
        o->sample = name;
    return name;
}

static Str put_rand(Onnx *o, const char *op) {
    static const char *const names[] = {"uniform", "normal", "truncated", "classes"};
    static const char *const docs[] = {"uniform draws from 0 to 1", "normal draws",
                                       "normal draws between -2 and 2",
                                       "draws of classes: 0, 1, ..."};
    int64_t dist = ints_at(o)[0];
    (void)op;
    return add_input(o, str_c(names[dist]), str_c(docs[dist]));
}

static Str put_read(Onnx *o, const char *op) {
    uint32_t slot = (uint32_t)ints_at(o)[0];
    const Slot *s = &o->m->slot.at[slot];
    (void)op;
    for (uint32_t i = 1; i < o->at; i++)
        if (o->value[i].len && graph_node(graph_of(o), i)->op == OpRead &&
            node_slot(graph_of(o), i) == slot)
            return o->value[i];
    if (s->kind == SlotFed || s->kind == SlotData)
        return add_input(o, onnx_input_name(o->m, slot), onnx_input_doc(o->a, o->m, slot));
    if (s->kind == SlotScalar)
        return onnx_number(o, exec_progress(o->exec, slot));
    Str name = onnx_name(o, weight_name(o->a, o->m, s, false));
    vec_push(o->a, &o->weight, ((OnnxWeight){name, slot}));
    return name;
}

// --- reductions ----------------------------------------------------------------------------------

// Axes of a mask as ONNX numbers them, of an operand of type t.
static uint32_t axes_of(const Type *t, int64_t mask, int64_t *out) {
    uint32_t n = 0;
    if (mask & 1 && t->batched)
        out[n++] = 0;
    for (uint32_t i = 0; i < t->rank; i++)
        if (mask >> (1 + i) & 1)
            out[n++] = axis_of(t, i);
    return n;
}

// A result that no longer has samples loses their axis.
static Str shared(Onnx *o, Str x) {
    const Type *t = type_at(o);
    return t->batched == type_in(o, 0)->batched ? x : onnx_reshaped(o, x, false, t->dim, t->rank);
}

static Str put_sum(Onnx *o, const char *op) {
    int64_t axes[MAX_RANK + 1] = {0};
    uint32_t n = axes_of(type_in(o, 0), ints_at(o)[0], axes);
    return shared(o, n ? onnx_put(o, op, NULL, in(o, 0), onnx_shape(o, axes, n)) : in(o, 0));
}

// Until opset 18 all but ReduceSum have their axes as an attribute.
static Str reduce(Onnx *o, const char *op, Str x) {
    int64_t axes[MAX_RANK + 1] = {0};
    Text attributes = {.arena = o->a};
    uint32_t n = axes_of(type_in(o, 0), ints_at(o)[0], axes);
    onnx_ints(o, &attributes, "axes", axes, n);
    return n ? onnx_put(o, op, &attributes, x) : x;
}

static Str put_reduced(Onnx *o, const char *op) {
    return shared(o, reduce(o, op, in(o, 0)));
}

static Str put_squares(Onnx *o, const char *op) {
    Str about = onnx_put(o, "Sub", NULL, in(o, 0), reduce(o, "ReduceMean", in(o, 0)));
    return shared(o, reduce(o, op, about));
}

// ONNX looks along one axis: several are one where they lie side by side.
static Str put_arg_max(Onnx *o, const char *op) {
    const Type *t = type_in(o, 0), *to = type_at(o);
    int64_t mask = ints_at(o)[0] >> 1, dim[MAX_RANK];
    uint32_t rank = 0, axis = 0, runs = 0;
    Text attributes = {.arena = o->a};
    for (uint32_t i = 0; i < t->rank; i++) {
        bool first = (mask >> i & 1) && !(i && mask >> (i - 1) & 1);
        axis = first ? rank : axis;
        runs += first;
        if (mask >> i & 1 && !first)
            dim[rank - 1] *= t->dim[i];
        else
            dim[rank++] = t->dim[i];
    }
    if (runs != 1)
        return onnx_refused(o, "the place of the greatest over axes that do not lie side by side");
    onnx_int(o, &attributes, "axis", axis_of(t, axis));
    Str place = onnx_put(o, op, &attributes, onnx_reshaped(o, in(o, 0), t->batched, dim, rank));
    return onnx_reshaped(o, onnx_cast(o, place, OnnxFloat), t->batched, to->dim, to->rank);
}

static Str put_group_sum(Onnx *o, const char *op) {
    const Type *t = type_at(o);
    int64_t parts[MAX_RANK + 2] = {-1, ints_at(o)[0]}, all[MAX_RANK + 2], axis = 1;
    memcpy(parts + 2, t->dim, t->rank * sizeof *parts);
    for (uint32_t i = 0, n = t->rank + 2; i < n; i++)
        all[i] = i == 1 ? parts[1] : 1;
    Str x = onnx_put(o, "Reshape", NULL, in(o, 0), onnx_shape(o, parts, t->rank + 2));
    Str sum = onnx_put(o, op, NULL, x, onnx_shape(o, &axis, 1));
    Str each = onnx_put(o, "Expand", NULL, sum, onnx_shape(o, all, t->rank + 2));
    parts[1] = -1;
    return onnx_put(o, "Reshape", NULL, each, onnx_shape(o, parts + 1, t->rank + 1));
}

// --- rows ----------------------------------------------------------------------------------------

static const struct Row {
    const char *name; // in ONNX
    Str (*put)(Onnx *o, const char *name);
} rows[OpCount] = {
    [OpNeg] = {"Neg", put_each},
    [OpAdd] = {"Add", put_each},
    [OpSub] = {"Sub", put_each},
    [OpMul] = {"Mul", put_each},
    [OpDiv] = {"Div", put_each},
    [OpMax] = {"Max", put_each},
    [OpMin] = {"Min", put_each},
    [OpPow] = {"Pow", put_each},
    [OpMod] = {"Mod", put_mod},
    [OpExp] = {"Exp", put_each},
    [OpLog] = {"Log", put_each},
    [OpSqrt] = {"Sqrt", put_each},
    [OpTanh] = {"Tanh", put_each},
    [OpSigmoid] = {"Sigmoid", put_each},
    [OpSoftplus] = {"Softplus", put_each},
    [OpErf] = {"Erf", put_each},
    [OpSin] = {"Sin", put_each},
    [OpCos] = {"Cos", put_each},
    [OpAbs] = {"Abs", put_each},
    [OpSign] = {"Sign", put_each},
    [OpFloor] = {"Floor", put_each},
    [OpGt] = {"Greater", put_truth},
    [OpGe] = {"GreaterOrEqual", put_truth},
    [OpEq] = {"Equal", put_truth},
    [OpWhere] = {"Where", put_where},
    [OpStop] = {"Identity", put_same},
    [OpCast] = {"Identity", put_same},
    [OpPin] = {"Identity", put_same},
    [OpConst] = {"Constant", put_const},
    [OpIota] = {"Constant", put_iota},
    [OpRead] = {"", put_read},
    [OpRand] = {"", put_rand},
    [OpSum] = {"ReduceSum", put_sum},
    [OpGroupSum] = {"ReduceSum", put_group_sum},
    [OpSquares] = {"ReduceSumSquare", put_squares},
    [OpMaxOf] = {"ReduceMax", put_reduced},
    [OpArgMax] = {"ArgMax", put_arg_max},
    [OpReshape] = {"Reshape", onnx_reshape},
    [OpExpand] = {"Expand", onnx_expand},
    [OpPermute] = {"Transpose", onnx_permute},
    [OpSlice] = {"Slice", onnx_slice},
    [OpPad] = {"Pad", onnx_pad},
    [OpFlip] = {"Slice", onnx_flip},
    [OpConcat] = {"Concat", onnx_concat},
    [OpGather] = {"Gather", onnx_gather},
    [OpDot] = {"Einsum", onnx_dot},
    [OpFft] = {"DFT", onnx_fft},
    [OpConv] = {"Conv", onnx_conv},
    [OpConvDx] = {"ConvTranspose", onnx_conv_dx},
};

static bool put_op(Onnx *o, uint32_t id) {
    const struct Row *row = &rows[graph_node(graph_of(o), id)->op];
    o->at = id;
    if (row->put)
        o->value[id] = row->put(o, row->name);
    else
        onnx_refused(o, "no form of it is known here");
    return !o->error.len;
}

// Marks what is read as a number, not only as what `where` goes by.
static void find_counts(Onnx *o, const uint8_t *live, const uint32_t *root, uint32_t n) {
    const Graph *g = graph_of(o);
    o->counts = arena_array(o->a, uint8_t, g->node.n);
    for (uint32_t i = 0; i < n; i++)
        o->counts[root[i]] = 1;
    for (uint32_t id = 1; id < g->node.n; id++)
        for (uint32_t k = 0; live[id] && k < graph_node(g, id)->nin; k++)
            o->counts[node_in(g, id, k)] |= k > 0 || graph_node(g, id)->op != OpWhere;
}

// What is computed of all samples together is of as many as the run's batch: its mean divides by
// that number.
static void find_samples(Onnx *o, const uint8_t *live) {
    const Graph *g = graph_of(o);
    for (uint32_t id = 1; id < g->node.n; id++)
        for (uint32_t k = 0; live[id] && k < graph_node(g, id)->nin; k++)
            if (node_type(g, node_in(g, id, k))->batched && !node_type(g, id)->batched)
                o->samples = g->batch;
}

bool onnx_ops(Onnx *o, const uint32_t *root, uint32_t n) {
    const Graph *g = graph_of(o);
    const uint8_t *live = graph_reach(g, o->a, root, n);
    find_counts(o, live, root, n);
    find_samples(o, live);
    o->value = arena_array(o->a, Str, g->node.n);
    o->truth = arena_array(o->a, Str, g->node.n);
    for (uint32_t id = 1; id < g->node.n; id++)
        if (live[id] && !put_op(o, id))
            return false;
    return true;
}
