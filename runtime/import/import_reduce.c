// import_reduce.c - reductions of axes.
#include "import.h"

static bool mask_of(Import *m, const Ints *axes, uint32_t rank, uint32_t *out) {
    uint32_t axis;
    *out = 0;
    for (uint32_t i = 0; i < axes->n; i++) {
        if (!axis_in(m, axes->at[i], rank, &axis))
            return false;
        *out |= 1u << axis;
    }
    return true;
}

// The template has the operand as $ and the axes, with `keep`, as @.
bool op_reduce(Import *m, const Row *row) {
    const Shape s = import_operand(m, 0)->shape;
    bool keep = attr_int(m, "keepdims", 1);
    Ints axes;
    uint32_t mask;
    Text t = {.arena = m->a};
    if (!ints_of(m, "axes", 1, &axes) || !mask_of(m, &axes, s.rank, &mask))
        return false;
    if (!axes.n && attr_int(m, "noop_with_empty_axes", 0))
        return op_same(m, row);
    mask = axes.n ? mask : (1u << s.rank) - 1;
    bool batch = s.batch >= 0 && mask >> s.batch & 1;
    if (batch && s.dim[s.batch] != 1)
        return import_refuse(m, "it reduces over an axis that holds the batch and others");
    if (batch && import_operand(m, 0)->copies)
        return import_refuse(m, "it reduces what is the same for each sample over the batch");
    if (batch && row->text[0] == 'm' && row->text[1] != 'e')
        return import_refuse(m, "it takes the extreme over the batch");
    Shape to = shape_reduced(&s, mask, keep);
    uint32_t some = 0;
    for (uint32_t i = 0; i < s.rank; i++)
        some |= mask >> i & 1 && (batch || shape_own_axis(&s, i) >= 0);
    if (!some)
        return op_reshape(m, row);
    Str how = axes_text(m, &s, mask), x = text_of(m, 0, BindCall);
    for (const char *c = row->text; *c; c++)
        if (*c == '$')
            text_put(&t, x);
        else if (*c == '@')
            text_fmt(&t, "%.*s%s", SARG(how), keep ? ", keep=true" : "");
        else
            text_char(&t, *c);
    Dims all = shape_own(&to);
    Str y = text_str(&t);
    if (import_operand(m, 0)->whole && str_starts(y, STR("mean")))
        y = truncated(m, y);
    if (batch && keep) // an axis of one where the samples were
        y = format(m, "reshape(%.*s, %.*s)", SARG(y), SARG(dims_text(m->a, &all)));
    return import_give(m, 0, to, BindCall, y);
}

bool op_arg_max(Import *m, const Row *row) {
    const Shape s = import_operand(m, 0)->shape;
    uint32_t axis;
    bool keep = attr_int(m, "keepdims", 1);
    if (!axis_in(m, attr_int(m, "axis", 0), s.rank, &axis))
        return false;
    if (shape_own_axis(&s, axis) < 0 || (int)axis == s.batch || attr_int(m, "select_last_index", 0))
        return import_refuse(m, "it looks along the batch, or for the last maximum");
    Str x = text_of(m, 0, BindCall), how = axes_text(m, &s, 1u << axis);
    return import_give(m, 0, shape_reduced(&s, 1u << axis, keep), BindCall,
                       format(m, "argmax(%s%.*s, %.*s%s)", row->text, SARG(x), SARG(how),
                              keep ? ", keep=true" : ""));
}

// Until opset 13 over all axes from the one it names on.
bool op_softmax(Import *m, const Row *row) {
    const Shape s = import_operand(m, 0)->shape;
    bool old = m->opset < 13;
    uint32_t axis, mask;
    if (!axis_in(m, attr_int(m, "axis", old ? 1 : -1), s.rank, &axis))
        return false;
    mask = old ? ((1u << s.rank) - 1) & ~((1u << axis) - 1) : 1u << axis;
    if (s.batch >= 0 && mask >> s.batch & 1)
        return import_refuse(m, "it normalizes over the batch");
    if (strcmp(row->text, "softmax") == 0)
        return import_give(m, 0, s, BindPipe,
                           import_piped(m, 0, "softmax(%.*s)", SARG(axes_text(m, &s, mask))));
    return import_give(m, 0, s, BindPipe,
                       import_piped(m, 0, "log_softmax(%.*s)", SARG(axes_text(m, &s, mask))));
}

bool op_lp_norm(Import *m, const Row *row) {
    const Shape s = import_operand(m, 0)->shape;
    uint32_t axis;
    (void)row;
    if (!axis_in(m, attr_int(m, "axis", -1), s.rank, &axis))
        return false;
    if (attr_int(m, "p", 2) != 2 || (int)axis == s.batch)
        return import_refuse(m, "only p=2, and along no batch");
    Str x = name_of(m, 0), how = axes_text(m, &s, 1u << axis);
    // Zeros stay zeros, as in ONNX Runtime.
    return import_give(m, 0, s, BindProduct,
                       format(m, "%.*s/sqrt(max(sum(%.*s^2, %.*s, keep=true), 1e-37))", SARG(x),
                              SARG(x), SARG(how)));
}
