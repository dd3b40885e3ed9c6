// onnx_ops.c - the operations of a graph as ONNX has them, a row each.
//
// In: a function's graph. Out: nodes in order, inputs, constants. Ours broadcast from the first
// axis on, ONNX's from the last: an operand of fewer axes gets the missing last ones as extents of
// 1. What rows are missing is refused by name.
#include "onnx.h"
#include "weights.h"

#include <string.h>

// --- operands ------------------------------------------------------------------------------------

static const Graph *graph_of(const Onnx *o) {
    return &o->f->g;
}

static const Type *type_at(const Onnx *o) {
    return node_type(graph_of(o), o->at);
}

static const Type *type_in(const Onnx *o, uint32_t k) {
    return node_type(graph_of(o), node_in(graph_of(o), o->at, k));
}

static const int64_t *ints_at(const Onnx *o) {
    return node_attr(graph_of(o), o->at)->i;
}

static Str in(const Onnx *o, uint32_t k) {
    return o->value[node_in(graph_of(o), o->at, k)];
}

static Str refused(Onnx *o, const char *why) {
    if (!o->error.len)
        o->error = str_c(why);
    return (Str){0};
}

// The axis that a sample's axis is, behind the batch's.
static int64_t axis_of(const Type *t, uint32_t axis) {
    return (int64_t)axis + t->batched;
}

// [N, dim...] or [dim...]; 0 stands for the N that is there.
static Str reshape(Onnx *o, Str x, bool batched, const int64_t *dim, uint32_t rank) {
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
    return reshape(o, x, t->batched, dim, rank);
}

static Str lifted(Onnx *o, uint32_t k) {
    return lift(o, in(o, k), type_in(o, k), type_at(o)->rank);
}

// How many samples there are, [1]; empty where nothing says.
static Str batch(Onnx *o) {
    Text attributes = {.arena = o->a};
    if (o->batch.len)
        return o->batch;
    if (!o->sample.len)
        return refused(o, "no input says how many samples there are");
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
        x[k] = lifted(o, k);
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
    return onnx_put(o, op, NULL, lift(o, truth, type_in(o, 0), type_at(o)->rank), lifted(o, 1),
                    lifted(o, 2));
}

// With the divisor's sign, as Python's: ONNX's Mod of numbers that are no integers is C's.
static Str put_mod(Onnx *o, const char *op) {
    Str a = lifted(o, 0), b = lifted(o, 1);
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

static Str put_iota(Onnx *o, const char *op) {
    const Type *t = type_at(o);
    (void)op;
    if (t->batched)
        return refused(o, "the number of a sample");
    float *x = arena_array(o->a, float, type_sample(t));
    eval_node(graph_of(o), o->at, NULL, x, false, &(Counters){0}, *o->a);
    return onnx_floats(o, t, x);
}

static Str add_input(Onnx *o, Str name, Str doc) {
    const Type *t = type_at(o);
    proto_bytes(&o->input, 11, onnx_value_info(o, name, t, doc));
    if (t->batched && !o->sample.len)
        o->sample = name;
    return name;
}

// "normal", then "normal_2", ...
static Str put_rand(Onnx *o, const char *op) {
    static const char *const names[] = {"uniform", "normal", "truncated", "classes"};
    static const char *const docs[] = {"uniform draws from 0 to 1", "normal draws",
                                       "normal draws between -2 and 2",
                                       "draws of classes: 0, 1, ..."};
    int64_t dist = ints_at(o)[0];
    uint32_t before = 0;
    (void)op;
    for (uint32_t i = 1; i < o->at; i++)
        before += o->value[i].len && graph_node(graph_of(o), i)->op == OpRand &&
                  node_attr(graph_of(o), i)->i[0] == dist;
    Str name = before ? str_format(o->a, "%s_%u", names[dist], before + 1) : str_c(names[dist]);
    return add_input(o, name, str_c(docs[dist]));
}

static Str put_read(Onnx *o, const char *op) {
    uint32_t slot = (uint32_t)ints_at(o)[0];
    const Slot *s = &o->m->slot.at[slot];
    (void)op;
    for (uint32_t i = 1; i < o->at; i++)
        if (o->value[i].len && graph_node(graph_of(o), i)->op == OpRead &&
            (uint32_t)node_attr(graph_of(o), i)->i[0] == slot)
            return o->value[i];
    if (s->kind == SlotFed || s->kind == SlotData)
        return add_input(o, onnx_input_name(o->m, slot), onnx_input_doc(o->a, o->m, slot));
    if (s->kind != SlotParam && s->kind != SlotState)
        return refused(o, "a number of the run's progress");
    Str name = weight_name(o->a, o->m, s, false);
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
    return t->batched == type_in(o, 0)->batched ? x : reshape(o, x, false, t->dim, t->rank);
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
        return refused(o, "the place of the greatest over axes that do not lie side by side");
    onnx_int(o, &attributes, "axis", axis_of(t, axis));
    Str place = onnx_put(o, op, &attributes, reshape(o, in(o, 0), t->batched, dim, rank));
    return reshape(o, onnx_cast(o, place, OnnxFloat), t->batched, to->dim, to->rank);
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

// --- moves ---------------------------------------------------------------------------------------

static Str put_reshape(Onnx *o, const char *op) {
    const Type *t = type_at(o);
    (void)op;
    return reshape(o, in(o, 0), t->batched, t->dim, t->rank);
}

static Str put_expand(Onnx *o, const char *op) {
    const Type *t = type_at(o);
    int64_t to[MAX_RANK + 1] = {1};
    Text attributes = {.arena = o->a};
    Str x = lifted(o, 0), shape;
    memcpy(to + 1, t->dim, t->rank * sizeof *to);
    if (t->batched && !type_in(o, 0)->batched) {
        onnx_int(o, &attributes, "axis", 0);
        shape = onnx_put(o, "Concat", &attributes, batch(o), onnx_shape(o, t->dim, t->rank));
    } else {
        shape = onnx_shape(o, to + !t->batched, t->rank + t->batched);
    }
    return onnx_put(o, op, NULL, x, shape);
}

static Str put_permute(Onnx *o, const char *op) {
    const Type *t = type_at(o);
    int64_t axis[MAX_RANK + 1] = {0};
    Text attributes = {.arena = o->a};
    for (uint32_t i = 0; i < t->rank; i++)
        axis[i + t->batched] = axis_of(t, (uint32_t)ints_at(o)[1 + i]);
    onnx_ints(o, &attributes, "perm", axis, t->rank + t->batched);
    return onnx_put(o, op, &attributes, in(o, 0));
}

// Elements from, from + step, ... of the axes, `count` of each.
static Str slice(Onnx *o, Str x, const Type *t, const int64_t *from, const int64_t *count,
                 const int64_t *step) {
    int64_t axis[MAX_RANK], end[MAX_RANK];
    for (uint32_t i = 0; i < t->rank; i++) {
        axis[i] = axis_of(t, i);
        end[i] = from[i] + (count[i] - 1) * step[i] + 1;
    }
    return onnx_put(o, "Slice", NULL, x, onnx_shape(o, from, t->rank), onnx_shape(o, end, t->rank),
                    onnx_shape(o, axis, t->rank), onnx_shape(o, step, t->rank));
}

static Str put_slice(Onnx *o, const char *op) {
    const Type *t = type_at(o);
    (void)op;
    return slice(o, in(o, 0), type_in(o, 0), ints_at(o) + 1, t->dim, ints_at(o) + 1 + t->rank);
}

static Str pad(Onnx *o, Str x, const Type *t, const int64_t *before, const int64_t *after) {
    int64_t pads[2 * (MAX_RANK + 1)] = {0};
    uint32_t axes = t->rank + t->batched;
    for (uint32_t i = 0; i < t->rank; i++) {
        pads[axis_of(t, i)] = before[i];
        pads[axes + (uint32_t)axis_of(t, i)] = after[i];
    }
    return onnx_put(o, "Pad", NULL, x, onnx_shape(o, pads, 2 * axes));
}

// Zeros between elements of one axis: each becomes the first of `step`. *t becomes what it is then.
static Str spread(Onnx *o, Str x, Type *t, uint32_t axis, int64_t step) {
    Type each = *t;
    int64_t none[MAX_RANK] = {0}, zeros[MAX_RANK] = {0};
    if (step == 1)
        return x;
    memmove(each.dim + axis + 2, each.dim + axis + 1, (t->rank - axis - 1) * sizeof *each.dim);
    each.dim[axis + 1] = 1;
    each.rank++;
    zeros[axis + 1] = step - 1;
    x = reshape(o, x, t->batched, each.dim, each.rank);
    x = pad(o, x, &each, none, zeros);
    t->dim[axis] *= step;
    return reshape(o, x, t->batched, t->dim, t->rank);
}

static Str put_pad(Onnx *o, const char *op) {
    const Type *to = type_at(o);
    const int64_t *before = ints_at(o) + 1, *step = before + to->rank;
    Type t = *type_in(o, 0);
    Str x = in(o, 0);
    int64_t after[MAX_RANK];
    (void)op;
    for (uint32_t i = 0; i < to->rank; i++) {
        if (step[i] > 1 && t.rank == MAX_RANK)
            return refused(o, "zeros between the elements of so many axes");
        x = spread(o, x, &t, i, step[i]);
        after[i] = to->dim[i] - before[i] - t.dim[i]; // less than 0: behind the last element
    }
    return pad(o, x, to, before, after);
}

static Str put_flip(Onnx *o, const char *op) {
    const Type *t = type_at(o);
    int64_t axis[MAX_RANK], from[MAX_RANK], end[MAX_RANK], step[MAX_RANK];
    uint32_t n = 0;
    for (uint32_t i = 0; i < t->rank; i++) {
        if (!(ints_at(o)[0] >> (1 + i) & 1))
            continue;
        axis[n] = axis_of(t, i);
        from[n] = step[n] = -1;
        end[n++] = INT64_MIN; // before the first
    }
    return onnx_put(o, op, NULL, in(o, 0), onnx_shape(o, from, n), onnx_shape(o, end, n),
                    onnx_shape(o, axis, n), onnx_shape(o, step, n));
}

static Str put_concat(Onnx *o, const char *op) {
    uint32_t n = graph_node(graph_of(o), o->at)->nin;
    Str *x = arena_array(o->a, Str, n);
    Text attributes = {.arena = o->a};
    for (uint32_t k = 0; k < n; k++)
        x[k] = in(o, k);
    onnx_int(o, &attributes, "axis", axis_of(type_at(o), (uint32_t)ints_at(o)[0]));
    return onnx_node(o, op, x, n, &attributes);
}

// Places lie within the table: a wrong one is the nearest there is.
static Str put_gather(Onnx *o, const char *op) {
    const Type *table = type_in(o, 0), *t = type_in(o, 1);
    Text attributes = {.arena = o->a};
    int64_t dim[MAX_RANK + 1];
    Str within = onnx_put(o, "Clip", NULL, in(o, 1), onnx_number(o, 0),
                          onnx_number(o, (double)(table->dim[0] - 1)));
    Str places = onnx_cast(o, within, OnnxInt64);
    if (!table->batched || !t->batched) {
        onnx_int(o, &attributes, "axis", table->batched);
        return onnx_put(o, op, &attributes, in(o, 0), places);
    }
    memcpy(dim, t->dim, t->rank * sizeof *dim);
    dim[t->rank] = 1;
    onnx_int(o, &attributes, "batch_dims", 1);
    return onnx_put(o, "GatherND", &attributes, in(o, 0),
                    reshape(o, places, true, dim, t->rank + 1));
}

// --- products ------------------------------------------------------------------------------------

typedef struct Labels { // of an operand, or of the result
    uint32_t n;
    const int64_t *at;
} Labels;

// A matrix that samples share and a vector of each: Gemm, which every runtime has.
static bool is_layer(const Onnx *o, uint32_t matrix, const Labels *l) {
    return !type_in(o, matrix)->batched && type_in(o, 1 - matrix)->batched && l[matrix].n == 2 &&
           l[1 - matrix].n == 1 && l[2].n == 1 && l[2].at[0] != l[1 - matrix].at[0];
}

static Str put_layer(Onnx *o, uint32_t matrix, const Labels *l) {
    Text attributes = {.arena = o->a};
    onnx_int(o, &attributes, "transB", l[2].at[0] == l[matrix].at[0]);
    return onnx_put(o, "Gemm", &attributes, in(o, 1 - matrix), in(o, matrix));
}

// The batch is z.
static Str put_dot(Onnx *o, const char *op) {
    Labels l[3];
    Text equation = {.arena = o->a}, attributes = {.arena = o->a};
    char letter[UINT8_MAX + 1] = {0}, next = 'a';
    const int64_t *at = ints_at(o);
    for (uint32_t s = 0; s < 3; at += 1 + l[s].n, s++)
        l[s] = (Labels){(uint32_t)at[0], at + 1};
    for (uint32_t matrix = 0; matrix < 2; matrix++)
        if (is_layer(o, matrix, l))
            return put_layer(o, matrix, l);
    for (uint32_t s = 0; s < 3; s++) {
        const Type *t = s < 2 ? type_in(o, s) : type_at(o);
        text_fmt(&equation, "%s%s", s == 1 ? "," : s ? "->" : "", t->batched ? "z" : "");
        for (uint32_t i = 0; i < l[s].n; i++) {
            char *c = &letter[l[s].at[i]];
            *c = *c ? *c : next++;
            text_char(&equation, *c);
        }
    }
    onnx_word(o, &attributes, "equation", text_str(&equation));
    return onnx_put(o, op, &attributes, in(o, 0), in(o, 1));
}

static Text conv_attributes(Onnx *o, const ConvGeom *c) {
    Text attributes = {.arena = o->a};
    int64_t pads[6];
    memcpy(pads, c->before, c->n * sizeof *pads);
    memcpy(pads + c->n, c->after, c->n * sizeof *pads);
    onnx_ints(o, &attributes, "strides", c->stride, c->n);
    onnx_ints(o, &attributes, "pads", pads, 2 * c->n);
    onnx_ints(o, &attributes, "dilations", c->dilation, c->n);
    onnx_int(o, &attributes, "group", c->groups);
    return attributes;
}

// What samples share is a batch of one.
static Str convolve(Onnx *o, const char *op, Text *attributes) {
    const Type *t = type_in(o, 0), *to = type_at(o);
    int64_t one[MAX_RANK + 1] = {1};
    if (t->batched)
        return onnx_put(o, op, attributes, in(o, 0), in(o, 1));
    memcpy(one + 1, t->dim, t->rank * sizeof *one);
    Str x = reshape(o, in(o, 0), false, one, t->rank + 1);
    return reshape(o, onnx_put(o, op, attributes, x, in(o, 1)), false, to->dim, to->rank);
}

static Str put_conv(Onnx *o, const char *op) {
    ConvGeom c = conv_geom(node_attr(graph_of(o), o->at));
    Text attributes = conv_attributes(o, &c);
    return convolve(o, op, &attributes);
}

// Elements that no place of a kernel reaches from the last output are output_padding.
static Str put_conv_dx(Onnx *o, const char *op) {
    const Type *t = type_at(o), *gy = type_in(o, 0), *w = type_in(o, 1);
    ConvGeom c = conv_geom(node_attr(graph_of(o), o->at));
    Text attributes = conv_attributes(o, &c);
    int64_t more[3];
    for (uint32_t i = 0; i < c.n; i++)
        more[i] = t->dim[1 + i] + c.before[i] + c.after[i] - (gy->dim[1 + i] - 1) * c.stride[i] -
                  c.dilation[i] * (w->dim[2 + i] - 1) - 1;
    onnx_ints(o, &attributes, "output_padding", more, c.n);
    return convolve(o, op, &attributes);
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
    [OpReshape] = {"Reshape", put_reshape},
    [OpExpand] = {"Expand", put_expand},
    [OpPermute] = {"Transpose", put_permute},
    [OpSlice] = {"Slice", put_slice},
    [OpPad] = {"Pad", put_pad},
    [OpFlip] = {"Slice", put_flip},
    [OpConcat] = {"Concat", put_concat},
    [OpGather] = {"Gather", put_gather},
    [OpDot] = {"Einsum", put_dot},
    [OpConv] = {"Conv", put_conv},
    [OpConvDx] = {"ConvTranspose", put_conv_dx},
};

static bool put_op(Onnx *o, uint32_t id) {
    const struct Row *row = &rows[graph_node(graph_of(o), id)->op];
    o->at = id;
    if (row->put)
        o->value[id] = row->put(o, row->name);
    else
        refused(o, "no form of it is known here");
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

bool onnx_ops(Onnx *o, const uint32_t *root, uint32_t n) {
    const Graph *g = graph_of(o);
    const uint8_t *live = graph_reach(g, o->a, root, n);
    find_counts(o, live, root, n);
    o->value = arena_array(o->a, Str, g->node.n);
    o->truth = arena_array(o->a, Str, g->node.n);
    for (uint32_t id = 1; id < g->node.n; id++)
        if (live[id] && !put_op(o, id))
            return false;
    return true;
}
