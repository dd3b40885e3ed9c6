// import_ops.c - converts the nodes of an ONNX graph to the language, a row each.
//
// ONNX broadcasts from the last axis on, ours from the first: an operand of fewer axes is reshaped.
// An operation without a row is refused by name.
#include "import.h"

// --- shapes --------------------------------------------------------------------------------------

static bool join_extent(Import *m, Shape *out, uint32_t axis, int64_t n, bool batch) {
    int64_t *to = &out->dim[axis];
    if (batch && out->batch >= 0 && (out->batch != (int)axis || *to != n))
        return import_refuse(m, "its operands have the batch on different axes");
    if (batch && out->batch < 0 && *to != 1)
        return import_refuse(
            m,
            "an operand has an extent of its own, %lld, along the batch: export with "
            "a batch of 1 or a dynamic one",
            (long long)*to);
    if (batch)
        out->batch = (int)axis;
    else if ((int)axis == out->batch ? n != 1 : n != 1 && *to != 1 && *to != n)
        return import_refuse(m, "its operands have extents %lld and %lld", (long long)*to,
                             (long long)n);
    *to = batch || *to == 1 ? ((int)axis == out->batch && !batch ? *to : n) : *to;
    return true;
}

// Of the first n operands, broadcast as ONNX does, from the last axis on.
static bool spread(Import *m, uint32_t n, Shape *out) {
    *out = (Shape){.batch = -1};
    for (uint32_t k = 0; k < n; k++)
        if (import_operand(m, k)->shape.rank > out->rank)
            out->rank = import_operand(m, k)->shape.rank;
    for (uint32_t i = 0; i < out->rank; i++)
        out->dim[i] = 1;
    for (uint32_t k = 0; k < n; k++) {
        const Shape *s = &import_operand(m, k)->shape;
        if (s->batch >= 0 && out->batch >= 0 && (s->outer > 1) != (out->outer > 1))
            return import_refuse(m, "its operands have the batch at different places of an axis");
        out->outer = s->batch >= 0 ? s->outer : out->outer;
        for (uint32_t i = 0; i < s->rank; i++)
            if (!join_extent(m, out, i + out->rank - s->rank, s->dim[i], (int)i == s->batch))
                return false;
    }
    return true;
}

Str axes_text(Import *m, const Shape *s, uint32_t mask) {
    Text t = {.arena = m->a};
    Dims d = shape_own(s);
    uint32_t axes = 0, all = (1u << d.n) - 1;
    bool batch = s->batch >= 0 && mask >> s->batch & 1;
    for (uint32_t i = 0; i < s->rank; i++)
        if (mask >> i & 1 && shape_own_axis(s, i) >= 0)
            axes |= 1u << shape_own_axis(s, i);
    const char *word = d.n && axes == all           ? "sample"
                       : axes == 1                  ? "channel"
                       : d.n > 2 && axes == all - 1 ? "space"
                                                    : NULL;
    bool list = (batch && axes) || (!word && (axes & (axes - 1)));
    text_fmt(&t, "%s%s", list ? "[" : "", batch ? (axes ? "batch, " : "batch") : "");
    for (uint32_t i = 0, n = 0; !word && i < d.n; i++)
        if (axes >> i & 1)
            text_fmt(&t, "%saxis(%u)", n++ ? ", " : "", i);
    text_fmt(&t, "%s%s", word ? word : "", list ? "]" : "");
    return text_str(&t);
}

Shape shape_reduced(const Shape *s, uint32_t mask, bool keep) {
    Shape r = {.batch = -1, .outer = s->outer};
    for (uint32_t i = 0; i < s->rank; i++) {
        bool gone = mask >> i & 1;
        if (gone && !keep)
            continue;
        if ((int)i == s->batch && !gone)
            r.batch = (int)r.rank;
        r.dim[r.rank++] = gone ? 1 : s->dim[i];
    }
    return r;
}

// --- one element at a time -----------------------------------------------------------------------

static bool op_call(Import *m, const Row *row) {
    Value *v = import_operand(m, 0);
    return import_give(m, 0, v->shape, BindPipe, import_piped(m, 0, "%s", row->text));
}

// What is written once for each $; the binding is that of `*`.
static bool op_template(Import *m, const Row *row) {
    Text t = {.arena = m->a};
    Str x = name_of(m, 0);
    for (const char *c = row->text; *c; c++)
        if (*c == '$')
            text_put(&t, x);
        else
            text_char(&t, *c);
    return import_give(m, 0, import_operand(m, 0)->shape, BindOr, text_str(&t));
}

bool op_same(Import *m, const Row *row) {
    Value *v = import_operand(m, 0);
    (void)row;
    if (v->kind == ValueWeight && m->node->out.n) { // shared by exporters where it is equal
        Value *out = value_find(m, m->node->out.at[0]);
        out->kind = ValueWeight;
        out->tensor = v->tensor;
        out->shape = v->shape;
        return true;
    }
    Str x = text_of(m, 0, BindPipe);
    return import_give(m, 0, v->shape, v->where ? BindCall : v->binding, x);
}

static bool op_dropout(Import *m, const Row *row) {
    const Value *training = import_operand(m, 2);
    if (training &&
        (training->kind != ValueConstant || training->count != 1 || training->number[0] != 0))
        return import_refuse(m, "it is in training mode: export in evaluation mode");
    return op_same(m, row);
}

Str truncated(Import *m, Str x) {
    import_helper(m, "trunc");
    return format(m, "trunc(%.*s)", SARG(x));
}

static bool op_cast(Import *m, const Row *row) {
    OnnxElement to = (OnnxElement)attr_int(m, "to", OnnxFloat);
    Value *v = import_operand(m, 0);
    if (to == OnnxBool)
        return import_give(m, 0, v->shape, BindCompare,
                           format(m, "%.*s != 0", SARG(text_of(m, 0, BindSum))));
    if (onnx_is_real(to) || v->whole)
        return op_same(m, row);
    return import_give(m, 0, v->shape, BindCall, truncated(m, text_of(m, 0, BindOr)));
}

static const struct Infix {
    const char *word;
    Binding binding, left, right;
    const char *space;
} infixes[] = {
    {"+", BindSum, BindSum, BindProduct, " "},      {"-", BindSum, BindSum, BindProduct, " "},
    {"*", BindProduct, BindProduct, BindSign, ""},  {"/", BindProduct, BindProduct, BindSign, ""},
    {"%", BindProduct, BindProduct, BindSign, " "}, {"^", BindSign, BindCall, BindCall, ""},
    {"<", BindCompare, BindSum, BindSum, " "},      {">", BindCompare, BindSum, BindSum, " "},
    {"<=", BindCompare, BindSum, BindSum, " "},     {">=", BindCompare, BindSum, BindSum, " "},
    {"==", BindCompare, BindSum, BindSum, " "},     {"and", BindOr, BindCompare, BindCompare, " "},
    {"or", BindOr, BindCompare, BindCompare, " "},
};

static bool op_infix(Import *m, const Row *row) {
    const struct Infix *f = infixes;
    Shape s;
    while (strcmp(f->word, row->text) != 0)
        f++;
    if (!spread(m, 2, &s))
        return false;
    bool quotient = import_operand(m, 0)->whole && f->word[0] == '/';
    Str a = import_aligned(m, 0, &s, f->left), b = import_aligned(m, 1, &s, f->right);
    const char *word = f->word;
    if (f->binding == BindSum && b.len && b.ptr[0] == '-' && strcmp(word, "+") == 0) {
        word = "-";
        b = str_sub(b, 1, b.len);
    }
    Str text = format(m, "%.*s%s%s%s%.*s", SARG(a), f->space, word, f->space, SARG(b));
    return quotient ? import_give(m, 0, s, BindCall, truncated(m, text))
                    : import_give(m, 0, s, f->binding, text);
}

// By the sign of the divisor, as Python's, or with fmod that of the dividend, as C's.
static bool op_mod(Import *m, const Row *row) {
    Shape s;
    if (!attr_int(m, "fmod", 0))
        return op_infix(m, row);
    if (!spread(m, 2, &s))
        return false;
    (void)name_of(m, 0);
    Str a = import_aligned(m, 0, &s, BindCall), b = import_aligned(m, 1, &s, BindOr);
    return import_give(m, 0, s, BindProduct,
                       format(m, "sign(%.*s)*(abs(%.*s) %% abs(%.*s))", SARG(a), SARG(a), SARG(b)));
}

// Of whole numbers to exponents that leave them whole.
static bool op_pow(Import *m, const Row *row) {
    const Value *e = import_operand(m, 1);
    bool fine = !import_operand(m, 0)->whole || (e->kind == ValueConstant && e->whole);
    for (size_t i = 0; fine && import_operand(m, 0)->whole && i < e->count; i++)
        fine = e->number[i] >= 0;
    return fine ? op_infix(m, row)
                : import_refuse(m,
                                "it takes whole numbers to a power that may leave them so or not");
}

// max, min, sum, mean of any number of operands.
static bool op_of_all(Import *m, const Row *row) {
    Shape s;
    uint32_t n = m->node->in.n;
    bool call = row->text[0] == 'm' && strcmp(row->text, "mean") != 0;
    Text t = {.arena = m->a};
    if (!spread(m, n, &s))
        return false;
    for (uint32_t k = 0; k < n; k++) {
        Str x = import_aligned(m, k, &s, call ? BindOr : k ? BindProduct : BindSum);
        if (call && k + 1 < n)
            text_fmt(&t, "%s(%.*s, ", row->text, SARG(x));
        else
            text_fmt(&t, "%s%.*s", call || !k ? "" : " + ", SARG(x));
    }
    for (uint32_t k = 1; call && k < n; k++)
        text_char(&t, ')');
    if (strcmp(row->text, "mean") == 0)
        return import_give(m, 0, s, BindProduct, format(m, "(%.*s)/%u", SARG(text_str(&t)), n));
    return import_give(m, 0, s, call ? BindCall : BindSum, text_str(&t));
}

static bool op_where(Import *m, const Row *row) {
    Shape s;
    (void)row;
    if (!spread(m, 3, &s))
        return false;
    Str c = import_aligned(m, 0, &s, BindOr), a = import_aligned(m, 1, &s, BindOr),
        b = import_aligned(m, 2, &s, BindOr);
    return import_give(m, 0, s, BindCall,
                       format(m, "where(%.*s, %.*s, %.*s)", SARG(c), SARG(a), SARG(b)));
}

// A function with one number, which is left out where it is the default.
static bool op_slope(Import *m, const Row *row) {
    bool leaky = strcmp(row->text, "leaky_relu") == 0;
    double alpha = attr_real(m, "alpha", leaky ? 0.01 : 1);
    Str x = !leaky && alpha == 1
                ? import_piped(m, 0, "elu")
                : import_piped(m, 0, "%s(%.*s)", row->text, SARG(number_text(m->a, alpha)));
    return import_give(m, 0, import_operand(m, 0)->shape, BindPipe, x);
}

// What is written with alpha for each @, which is a positive number.
static bool op_with_alpha(Import *m, const Row *row) {
    Text t = {.arena = m->a};
    Str x = name_of(m, 0), alpha = number_text(m->a, attr_real(m, "alpha", 1));
    for (const char *c = row->text; *c; c++)
        if (*c == '$' || *c == '@')
            text_put(&t, *c == '$' ? x : alpha);
        else
            text_char(&t, *c);
    return import_give(m, 0, import_operand(m, 0)->shape, BindSum, text_str(&t));
}

static bool op_selu(Import *m, const Row *row) {
    double alpha = attr_real(m, "alpha", 1.67326319217681884765625),
           gamma = attr_real(m, "gamma", 1.05070102214813232421875);
    if (fabs(alpha - 1.6732632) > 1e-5 || fabs(gamma - 1.0507010) > 1e-5)
        return import_refuse(m, "selu has other constants here");
    return op_call(m, row);
}

static bool op_hard_sigmoid(Import *m, const Row *row) {
    double alpha = attr_real(m, "alpha", 0.2), beta = attr_real(m, "beta", 0.5);
    bool sixth = fabs(alpha - 1.0 / 6) < 1e-7;
    (void)row;
    Str x = text_of(m, 0, BindProduct),
        scaled = sixth ? format(m, "%.*s/6", SARG(x))
                       : format(m, "%.*s*%.*s", SARG(x), SARG(number_text(m->a, alpha)));
    return import_give(
        m, 0, import_operand(m, 0)->shape, BindCall,
        format(m, "clamp(%.*s + %.*s, 0, 1)", SARG(scaled), SARG(number_text(m->a, beta))));
}

static bool op_gelu(Import *m, const Row *row) {
    if (str_eq(attr_word(m, "approximate", "none"), STR("none")))
        return op_call(m, row);
    Str x = name_of(m, 0);
    return import_give(m, 0, import_operand(m, 0)->shape, BindProduct,
                       format(m, "0.5*%.*s*(1 + tanh(0.7978845608*(%.*s + 0.044715*%.*s^3)))",
                              SARG(x), SARG(x), SARG(x)));
}

static bool bound_of(Import *m, const char *name, uint32_t k, double otherwise, double *out) {
    const OnnxAttribute *a = import_attribute(m, name);
    if (a) {
        *out = a->f;
        return true;
    }
    return real_of(m, k, otherwise, out);
}

static bool op_clip(Import *m, const Row *row) {
    double low, high;
    (void)row;
    if (!bound_of(m, "min", 1, -INFINITY, &low) || !bound_of(m, "max", 2, INFINITY, &high))
        return false;
    bool below = low > -3e38, above = high < 3e38;
    Str a = number_text(m->a, low), b = number_text(m->a, high), x;
    if (!below && !above)
        return op_same(m, row);
    if (!above)
        x = import_piped(m, 0, "max(%.*s)", SARG(a));
    else if (!below)
        x = import_piped(m, 0, "min(%.*s)", SARG(b));
    else if (low <= high)
        x = import_piped(m, 0, "clamp(%.*s, %.*s)", SARG(a), SARG(b));
    else // every value is `high`, which the language does not call a range
        x = import_piped(m, 0, "max(%.*s) |> min(%.*s)", SARG(a), SARG(b));
    return import_give(m, 0, import_operand(m, 0)->shape, BindPipe, x);
}

// --- rows ----------------------------------------------------------------------------------------

enum { Any = 32 };

#define CONV "auto_pad dilations group kernel_shape pads strides"
#define POOL "auto_pad ceil_mode dilations kernel_shape pads strides"
#define REDUCE "axes keepdims noop_with_empty_axes"
#define FOUND "axis keepdims select_last_index"

static const Row rows[] = {
    // known at import (import_fold.c), or refused
    {"Shape", 1, 1, NULL, "", "start end"},
    {"Size", 1, 1, NULL, "", ""},
    {"Constant", 0, 0, NULL, "", "value value_float value_floats value_int value_ints"},
    {"ConstantOfShape", 1, 1, op_filled, "", "value"},
    {"Range", 3, 3, NULL, "", ""},
    {"ReduceProd", 1, 2, NULL, "", REDUCE},
    {"ScatterND", 3, 3, NULL, "", "reduction"},
    {"Identity", 1, 1, op_same, "", ""},
    {"Dropout", 1, 3, op_dropout, "", "ratio seed"},
    {"Cast", 1, 1, op_cast, "", "to saturate"},
    // elementwise
    {"Relu", 1, 1, op_call, "relu", ""},
    {"Sigmoid", 1, 1, op_call, "sigmoid", ""},
    {"Tanh", 1, 1, op_call, "tanh", ""},
    {"Exp", 1, 1, op_call, "exp", ""},
    {"Log", 1, 1, op_call, "log", ""},
    {"Sqrt", 1, 1, op_call, "sqrt", ""},
    {"Abs", 1, 1, op_call, "abs", ""},
    {"Sign", 1, 1, op_call, "sign", ""},
    {"Floor", 1, 1, op_call, "floor", ""},
    {"Sin", 1, 1, op_call, "sin", ""},
    {"Cos", 1, 1, op_call, "cos", ""},
    {"Erf", 1, 1, op_call, "erf", ""},
    {"Softplus", 1, 1, op_call, "softplus", ""},
    {"Mish", 1, 1, op_call, "mish", ""},
    {"Selu", 1, 1, op_selu, "selu", "alpha gamma"},
    {"Gelu", 1, 1, op_gelu, "gelu", "approximate"},
    {"Elu", 1, 1, op_slope, "elu", "alpha"},
    {"LeakyRelu", 1, 1, op_slope, "leaky_relu", "alpha"},
    {"Celu", 1, 1, op_with_alpha, "max($, 0) + min(@*(exp(min($, 0)/@) - 1), 0)", "alpha"},
    {"ThresholdedRelu", 1, 1, op_with_alpha, "where($ > @, $, 0)", "alpha"},
    {"HardSigmoid", 1, 1, op_hard_sigmoid, "", "alpha beta"},
    {"HardSwish", 1, 1, op_template, "$*clamp($/6 + 0.5, 0, 1)", ""},
    {"Swish", 1, 1, op_template, "$*sigmoid($)", ""},
    {"Softsign", 1, 1, op_template, "$/(1 + abs($))", ""},
    {"Reciprocal", 1, 1, op_template, "1/$", ""},
    {"Neg", 1, 1, op_template, "-$", ""},
    {"Ceil", 1, 1, op_template, "-floor(-$)", ""},
    {"Round", 1, 1, op_template, "floor($ + 0.5) - ($ % 2 == 0.5)", ""}, // halves to even
    {"Not", 1, 1, op_template, "$ == 0", ""},
    {"Clip", 1, 3, op_clip, "", "min max"},
    {"PRelu", 2, 2, op_prelu, "", ""},
    {"Add", 2, 2, op_infix, "+", ""},
    {"Sub", 2, 2, op_infix, "-", ""},
    {"Mul", 2, 2, op_infix, "*", ""},
    {"Div", 2, 2, op_infix, "/", ""},
    {"Mod", 2, 2, op_mod, "%", "fmod"},
    {"Pow", 2, 2, op_pow, "^", ""},
    {"Less", 2, 2, op_infix, "<", ""},
    {"Greater", 2, 2, op_infix, ">", ""},
    {"LessOrEqual", 2, 2, op_infix, "<=", ""},
    {"GreaterOrEqual", 2, 2, op_infix, ">=", ""},
    {"Equal", 2, 2, op_infix, "==", ""},
    {"And", 2, 2, op_infix, "and", ""},
    {"Or", 2, 2, op_infix, "or", ""},
    {"Max", 1, Any, op_of_all, "max", ""},
    {"Min", 1, Any, op_of_all, "min", ""},
    {"Sum", 1, Any, op_of_all, "sum", ""},
    {"Mean", 1, Any, op_of_all, "mean", ""},
    {"Where", 3, 3, op_where, "", ""},
    // reductions
    {"ReduceMean", 1, 2, op_reduce, "mean($, @)", REDUCE},
    {"ReduceSum", 1, 2, op_reduce, "sum($, @)", REDUCE},
    {"ReduceMax", 1, 2, op_reduce, "max($, @)", REDUCE},
    {"ReduceMin", 1, 2, op_reduce, "min($, @)", REDUCE},
    {"ReduceSumSquare", 1, 2, op_reduce, "sum($^2, @)", REDUCE},
    {"ReduceL1", 1, 2, op_reduce, "sum(abs($), @)", REDUCE},
    {"ReduceL2", 1, 2, op_reduce, "sqrt(sum($^2, @))", REDUCE},
    {"ReduceLogSum", 1, 2, op_reduce, "log(sum($, @))", REDUCE},
    {"ArgMax", 1, 1, op_arg_max, "", FOUND},
    {"ArgMin", 1, 1, op_arg_max, "-", FOUND},
    {"Softmax", 1, 1, op_softmax, "softmax", "axis"},
    {"LogSoftmax", 1, 1, op_softmax, "log_softmax", "axis"},
    {"LpNormalization", 1, 1, op_lp_norm, "", "axis p"},
    // layers
    {"Conv", 2, 3, op_conv, "", CONV},
    {"ConvTranspose", 2, 3, op_conv_transpose, "", CONV " output_padding output_shape"},
    {"Gemm", 2, 3, op_gemm, "", "alpha beta transA transB"},
    {"MatMul", 2, 2, op_matmul, "", ""},
    {"Einsum", 1, 2, op_einsum, "", "equation"},
    {"BatchNormalization", 5, 5, op_batch_norm, "", "epsilon momentum training_mode"},
    {"LayerNormalization", 2, 3, op_layer_norm, "", "axis epsilon stash_type"},
    {"InstanceNormalization", 3, 3, op_instance_norm, "", "epsilon"},
    {"GroupNormalization", 3, 3, op_group_norm, "", "epsilon num_groups stash_type"},
    // shapes
    {"Reshape", 2, 2, op_reshape, "", "allowzero"},
    {"Flatten", 1, 1, op_flatten, "", "axis"},
    {"Squeeze", 1, 2, op_squeeze, "", "axes"},
    {"Unsqueeze", 1, 2, op_unsqueeze, "", "axes"},
    {"Transpose", 1, 1, op_transpose, "", "perm"},
    {"Concat", 1, Any, op_concat, "", "axis"},
    {"Split", 1, 2, op_split, "", "axis num_outputs split"},
    {"Slice", 1, 5, op_slice, "", "axes ends starts"},
    {"Gather", 2, 2, op_gather, "", "axis"},
    {"GatherND", 2, 2, op_gather_nd, "", "batch_dims"},
    {"Expand", 2, 2, op_expand, "", ""},
    {"Tile", 2, 2, op_tile, "", ""},
    {"DepthToSpace", 1, 1, op_depth_to_space, "", "blocksize mode"},
    {"SpaceToDepth", 1, 1, op_space_to_depth, "", "blocksize"},
    // space
    {"MaxPool", 1, 1, op_pool, "max_pool", POOL " storage_order"},
    {"AveragePool", 1, 1, op_pool, "avg_pool", POOL " count_include_pad"},
    {"GlobalMaxPool", 1, 1, op_global_pool, "max", ""},
    {"GlobalAveragePool", 1, 1, op_global_pool, "mean", ""},
    {"Pad", 1, 4, op_pad, "", "mode pads value"},
    {"Resize", 1, 4, op_resize, "",
     "antialias axes coordinate_transformation_mode cubic_coeff_a exclude_outside "
     "extrapolation_value keep_aspect_ratio_policy mode nearest_mode"},
    {"Upsample", 1, 2, op_resize, "", "mode scales"},
};

static const Row *row_of(Str op) {
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (str_eq(op, str_c(rows[i].op)))
            return &rows[i];
    return NULL;
}

// What is not known may change what the operation means.
static bool knows_attributes(Import *m, const Row *row) {
    for (uint32_t i = 0; i < m->node->attribute.n; i++) {
        Str name = m->node->attribute.at[i].name, rest = str_c(row->attributes), word = {0};
        while (rest.len && !str_eq(word, name)) {
            word = str_sub(rest, 0, str_find(rest, ' '));
            rest = str_sub(rest, word.len + (word.len < rest.len), rest.len);
        }
        if (!str_eq(word, name))
            return import_refuse(m, "its attribute `%.*s` is not known here", SARG(name));
    }
    return true;
}

// Whether the results are whole numbers: as operand 0, with exceptions.
static bool gives_whole(const Import *m, const Row *row) {
    static const char *const truths[] = {"<", ">", "<=", ">=", "==", "and", "or"};
    if (row->make == op_cast)
        return !onnx_is_real((OnnxElement)attr_int(m, "to", OnnxFloat));
    for (size_t i = 0; row->make == op_infix && i < sizeof truths / sizeof *truths; i++)
        if (strcmp(row->text, truths[i]) == 0)
            return true;
    if (row->make == op_filled) {
        const OnnxAttribute *a = import_attribute(m, "value");
        return a && a->t && !onnx_is_real(a->t->type);
    }
    const Value *v = import_operand(m, row->make == op_where ? 1 : 0);
    return row->make == op_arg_max || (v && v->whole);
}

// No operand differs from sample to sample.
static bool reads_shared(const Import *m) {
    bool shared = true;
    for (uint32_t k = 0; k < m->node->in.n; k++) {
        const Value *v = import_operand(m, k);
        shared = shared && (!v || v->shape.batch < 0 || v->copies);
    }
    return shared;
}

static bool finish_results(Import *m, const Row *row) {
    for (uint32_t k = 0; k < m->node->out.n; k++) {
        Value *v = value_find(m, m->node->out.at[k]);
        if (k > 0 && v && v->wanted && v->kind == ValueText && !v->text.len)
            return import_refuse(m, "its result %u has no translation here", k + 1);
        if (!v)
            continue;
        v->whole = gives_whole(m, row);
        v->copies = v->shape.batch >= 0 && reads_shared(m);
    }
    return true;
}

bool import_node(Import *m) {
    const Row *row = m->node->domain.len ? NULL : row_of(m->node->op);
    bool made;
    if (!row)
        return import_refuse(
            m, "this operation has no translation here; export the part of the net that "
               "does without it, or write the rest by hand (docs/cookbook.md)");
    uint32_t n = m->node->in.n, needed = row->most == Any ? n : row->least;
    if (n < row->least || n > row->most)
        return import_refuse(m, "it has %u operands", n);
    if (!m->node->out.n || !m->node->out.at[0].len)
        return import_refuse(m, "its first result is left out");
    for (uint32_t k = 0; k < n; k++) {
        if (m->node->in.at[k].len && !import_operand(m, k))
            return import_refuse(m, "nothing gives its operand %.*s", SARG(m->node->in.at[k]));
        const Value *v = import_operand(m, k);
        if (k < needed && !v)
            return import_refuse(m, "its operand %u is left out", k + 1);
        if (v && v->kind == ValueText && !v->text.len)
            return import_refuse(m, "the node that gives its operand %u comes later", k + 1);
    }
    if (!knows_attributes(m, row) || !import_fold(m, &made))
        return false;
    if (made)
        return true;
    if (!row->make)
        return import_refuse(m, "its result is not known at import");
    return row->make(m, row) && finish_results(m, row);
}
