// import_layers.c - operations that own weights: convolutions, normalizations.
//
// Where only one node reads its weights, they become a layer of the library under PyTorch's names;
// otherwise they are tensors by themselves, and the node a function of them.
#include "import.h"

static bool shared_or_own(const Import *m, uint32_t k) {
    const Value *v = import_operand(m, k);
    return !v || is_own(v);
}

// A tensor of a sample, its axes behind the batch.
static bool plain_batch(Import *m, uint32_t k) {
    const Shape *s = &import_operand(m, k)->shape;
    return (s->batch == 0 && s->dim[0] == 1) ||
           import_refuse(m, "its operand has other axes merged with the batch, or none of it");
}

static bool is_all(const Value *v, double x) {
    if (v->kind == ValueText)
        return false;
    for (size_t i = 0, n = v->kind == ValueWeight ? v->tensor->count : v->count; i < n; i++)
        if ((v->kind == ValueWeight ? onnx_at(v->tensor, i) : v->number[i]) != x)
            return false;
    return true;
}

// Role k of a layer: the operand, with another shape in the file.
Role role_of(Import *m, uint32_t k, const char *word, uint32_t rank, const int64_t *dim) {
    Role r = {.word = word, .value = import_operand(m, k), .rank = rank};
    for (uint32_t i = 0; i < rank; i++)
        r.dim[i] = dim[i];
    return r;
}

// The layer's value is the result of `as`, the node at hand where that is NULL.
bool give_layer(Import *m, Str layer, const Role *role, uint32_t roles, const Shape *to,
                const OnnxNode *as) {
    const OnnxNode *self = m->node;
    Str stem = layer_name(m, role, roles), x = name_of(m, 0),
        text = format(m, "named(%.*s, \"%.*s\")(%.*s)", SARG(layer), SARG(stem), SARG(x));
    m->node = as ? as : self;
    bool fine = import_give(m, 0, *to, BindCall, text);
    m->node = self;
    return fine;
}

// A weight that no node has changed, but for its shape; NULL: it is none.
static Value *reshaped_weight(Import *m, Str name) {
    Value *v = value_find(m, name);
    return v && v->kind == ValueWeight ? v : NULL;
}

// c numbers along the axis of `to` that has `behind` axes after it.
static bool fits_bias(const Value *v, int64_t c, uint32_t behind, const Shape *to) {
    if (!is_own(v) || v->shape.rank <= behind || v->shape.rank > to->rank ||
        v->tensor->count != (size_t)c)
        return false;
    return v->shape.dim[v->shape.rank - 1 - behind] == c;
}

// The node that adds a bias to the result, of the shape `to`, as the only one that reads it; its
// bias in *bias.
const OnnxNode *bias_of(Import *m, int64_t c, uint32_t behind, const Shape *to, Value **bias) {
    const Value *y = value_find(m, m->node->out.at[0]);
    if (!y || y->uses != 1 || y->sized || y->reader <= m->at + 1)
        return NULL;
    const OnnxNode *n = &m->f->node.at[y->reader - 1];
    if (!str_eq(n->op, STR("Add")) || n->domain.len || n->in.n != 2 || n->out.n != 1)
        return NULL;
    Value *other = reshaped_weight(m, n->in.at[str_eq(n->in.at[0], y->name)]);
    if (!fits_bias(other, c, behind, to))
        return NULL;
    *bias = other;
    m->done[y->reader - 1] = true;
    return n;
}

// --- convolutions --------------------------------------------------------------------------------

typedef struct Geometry {
    uint32_t n;
    int64_t kernel[3], stride[3], dilation[3], before[3], after[3], groups;
    int64_t beyond[3]; // elements behind the last that a kernel reaches: output_padding
} Geometry;

static bool geometry(Import *m, bool adjoint, Geometry *g) {
    const Shape *x = &import_operand(m, 0)->shape, *w = &import_operand(m, 1)->shape;
    Str pad = attr_word(m, "auto_pad", "NOTSET");
    int64_t said[3];
    Ints pads;
    *g = (Geometry){.n = x->rank - 2, .groups = attr_int(m, "group", 1)};
    if (x->rank < 3 || x->rank > 5 || w->rank != x->rank || w->batch >= 0)
        return import_refuse(m,
                             "it has no 1 to 3 spatial axes, or its weight differs from sample to "
                             "sample");
    for (uint32_t i = 0; i < g->n; i++)
        g->kernel[i] = w->dim[2 + i];
    if (!plain_batch(m, 0) || !each_axis(m, "strides", g->n, 1, g->stride) ||
        !each_axis(m, "dilations", g->n, 1, g->dilation) || !ints_of(m, "pads", -1, &pads) ||
        !each_axis(m, "kernel_shape", g->n, 0, said))
        return false;
    for (uint32_t i = 0; i < g->n; i++)
        if (said[i] && said[i] != g->kernel[i])
            return import_refuse(m, "its weight has another kernel than its `kernel_shape`");
    for (uint32_t i = 0; i < g->n; i++)
        if (g->stride[i] < 1 || g->dilation[i] < 1 || g->kernel[i] < 1 || g->groups < 1 ||
            g->groups > 1 << 20 || g->stride[i] > 1 << 20 || g->dilation[i] > 1 << 20 ||
            g->kernel[i] > 1 << 20)
            return import_refuse(m, "its strides, dilations or kernel are not from 1 on");
    if (pads.n && pads.n != 2 * g->n)
        return import_refuse(m, "its `pads` are not two for each of %u axes", g->n);
    for (uint32_t i = 0; i < g->n && pads.n; i++) {
        g->before[i] = pads.at[i];
        g->after[i] = pads.at[g->n + i];
    }
    for (uint32_t i = 0; i < g->n; i++)
        if (g->before[i] < 0 || g->after[i] < 0)
            return import_refuse(m, "its `pads` are below 0");
    for (uint32_t i = 0; i < g->n && !adjoint && str_starts(pad, STR("SAME")); i++)
        same_pads(x->dim[2 + i], g->stride[i], (g->kernel[i] - 1) * g->dilation[i] + 1,
                  str_eq(pad, STR("SAME_UPPER")), &g->before[i], &g->after[i]);
    return true;
}

static void put_each(Text *t, const char *word, uint32_t n, const int64_t *x, int64_t otherwise) {
    bool equal = true;
    for (uint32_t i = 1; i < n; i++)
        equal = equal && x[i] == x[0];
    if (equal && x[0] == otherwise)
        return;
    text_fmt(t, ", %s=", word);
    for (uint32_t i = 0; i < (equal ? 1 : n); i++)
        text_fmt(t, "%s%lld", i ? ", " : equal ? "" : "[", (long long)x[i]);
    text_fmt(t, "%s", equal ? "" : "]");
}

static Str options(Import *m, const Geometry *g) {
    Text t = {.arena = m->a};
    Str pad = pads_text(m, g->n, g->before, g->after);
    put_each(&t, "stride", g->n, g->stride, 1);
    if (!str_eq(pad, STR("0")))
        text_fmt(&t, ", pad=%.*s", SARG(pad));
    put_each(&t, "dilation", g->n, g->dilation, 1);
    put_each(&t, "groups", 1, &g->groups, 1);
    return t.n ? text_str(&t) : (Str){0};
}

// `c` channels of kernel g->kernel as a layer, or as the function `call` of the weight.
static bool convolve(Import *m, const char *layer, const char *call, int64_t c, const Geometry *g,
                     const Shape *to) {
    bool bias = import_operand(m, 2) != NULL;
    Text k = {.arena = m->a};
    Str how = options(m, g);
    if (bias && (import_operand(m, 2)->shape.rank != 1 || import_operand(m, 2)->shape.dim[0] != c))
        return import_refuse(m, "its bias is not one number a channel");
    bool beyond = g->beyond[0] || g->beyond[1] || g->beyond[2];
    if (is_own(import_operand(m, 1)) && shared_or_own(m, 2) && !beyond) {
        put_each(&k, "k", g->n, g->kernel, 0);
        Role role[] = {role_of(m, 1, "weight", 0, NULL), role_of(m, 2, "bias", 1, &c)};
        const OnnxNode *as = bias ? NULL : bias_of(m, c, g->n, to, &role[1].value);
        return give_layer(m,
                          format(m, "%s(%lld%.*s%.*s%s)", layer, (long long)c, SARG(text_str(&k)),
                                 SARG(how), bias || as ? "" : ", bias=none"),
                          role, 2, to, as);
    }
    Str x = text_of(m, 0, BindOr), w = text_of(m, 1, BindOr),
        y = format(m, "%s(%.*s, %.*s%.*s)", call, SARG(x), SARG(w), SARG(how));
    Text pads = {.arena = m->a};
    for (uint32_t i = 0; i < g->n; i++)
        text_fmt(&pads, ", [0, %lld]", (long long)g->beyond[i]);
    if (beyond)
        y = format(m, "constant_pad(%.*s, [[0, 0]%.*s])", SARG(y), SARG(text_str(&pads)));
    if (bias)
        y = format(m, "%.*s + %.*s", SARG(y), SARG(text_of(m, 2, BindProduct)));
    return import_give(m, 0, *to, bias ? BindSum : BindCall, y);
}

bool op_conv(Import *m, const Row *row) {
    Geometry g;
    (void)row;
    if (!geometry(m, false, &g))
        return false;
    Shape to = import_operand(m, 0)->shape;
    const Shape *w = &import_operand(m, 1)->shape;
    if (to.dim[1] != w->dim[1] * g.groups || w->dim[0] % g.groups)
        return import_refuse(m, "its weight is not for %lld channels", (long long)to.dim[1]);
    to.dim[1] = w->dim[0];
    for (uint32_t i = 0; i < g.n; i++) {
        int64_t all = to.dim[2 + i] + g.before[i] + g.after[i],
                kernel = (g.kernel[i] - 1) * g.dilation[i] + 1;
        if (kernel > all)
            return import_refuse(m, "its kernel is larger than its operand");
        to.dim[2 + i] = (all - kernel) / g.stride[i] + 1;
    }
    return convolve(m, "conv", "convolve", to.dim[1], &g, &to);
}

bool op_conv_transpose(Import *m, const Row *row) {
    Geometry g;
    int64_t more[3], want[3];
    Str pad = attr_word(m, "auto_pad", "NOTSET");
    bool upper = str_eq(pad, STR("SAME_UPPER")), same = upper || str_eq(pad, STR("SAME_LOWER"));
    (void)row;
    if (!geometry(m, true, &g) || !each_axis(m, "output_padding", g.n, 0, more) ||
        !each_axis(m, "output_shape", g.n, 0, want))
        return false;
    Shape to = import_operand(m, 0)->shape;
    const Shape *w = &import_operand(m, 1)->shape;
    if (to.dim[1] != w->dim[0])
        return import_refuse(m, "its weight is not for %lld channels", (long long)to.dim[1]);
    to.dim[1] = w->dim[1] * g.groups;
    for (uint32_t i = 0; i < g.n; i++) {
        int64_t all = (to.dim[2 + i] - 1) * g.stride[i] + (g.kernel[i] - 1) * g.dilation[i] + 1;
        if (same && !want[i])
            want[i] = to.dim[2 + i] * g.stride[i];
        if (want[i]) {
            int64_t less = all + more[i] - want[i];
            if (less < 0)
                return import_refuse(m, "its result is larger than what its kernel reaches");
            g.after[i] = upper ? less - less / 2 : less / 2;
            g.before[i] = less - g.after[i];
        }
        g.after[i] -= more[i];
        to.dim[2 + i] = all - g.before[i] - g.after[i];
        g.beyond[i] = g.after[i] < 0 ? -g.after[i] : 0;
        g.after[i] += g.beyond[i];
    }
    return convolve(m, "conv_transpose", "convolve_transpose", to.dim[1], &g, &to);
}

// --- normalizations ------------------------------------------------------------------------------

static Str eps_text(Import *m, const char *name, double standard, bool first) {
    double eps = attr_real(m, name, 1e-5);
    if (fabs(eps - standard) < 1e-3 * standard)
        return (Str){0};
    return format(m, "%seps=%.*s", first ? "" : ", ", SARG(number_text(m->a, eps)));
}

bool op_batch_norm(Import *m, const Row *row) {
    const Shape s = import_operand(m, 0)->shape;
    bool own_all = true;
    (void)row;
    if (s.rank < 2 || !plain_batch(m, 0) || attr_int(m, "training_mode", 0))
        return import_refuse(
            m, "it has no channels, or computes statistics: export in evaluation mode");
    for (uint32_t k = 1; k < 5; k++) {
        own_all = own_all && is_own(import_operand(m, k));
        if (import_operand(m, k)->shape.rank != 1 || import_operand(m, k)->shape.dim[0] != s.dim[1])
            return import_refuse(m, "its weights are not one number a channel");
    }
    if (own_all) {
        const Role role[] = {
            {.word = "weight", .value = import_operand(m, 1)},
            {.word = "bias", .value = import_operand(m, 2)},
            {.word = "running_mean", .value = import_operand(m, 3)},
            {.word = "running_var", .value = import_operand(m, 4)},
        };
        return give_layer(m,
                          format(m, "batch_norm(%.*s)", SARG(eps_text(m, "epsilon", 1e-5, true))),
                          role, 4, &s, NULL);
    }
    Str x = text_of(m, 0, BindSum), gain = text_of(m, 1, BindSign),
        shift = text_of(m, 2, BindProduct), mean = text_of(m, 3, BindProduct),
        var = text_of(m, 4, BindSum), eps = number_text(m->a, attr_real(m, "epsilon", 1e-5));
    return import_give(m, 0, s, BindSum,
                       format(m, "(%.*s - %.*s)/sqrt(%.*s + %.*s)*%.*s + %.*s", SARG(x), SARG(mean),
                              SARG(var), SARG(eps), SARG(gain), SARG(shift)));
}

// `layer` without its closing bracket; scale and bias are operands 1 and 2, of extents d.
static bool give_norm(Import *m, Str layer, const Dims *d, const Shape *s, const Dims *broadcast) {
    bool bias = import_operand(m, 2) != NULL;
    Str comma = layer.ptr[layer.len - 1] == '(' ? (Str){0} : STR(", ");
    if (is_own(import_operand(m, 1)) && bias && is_own(import_operand(m, 2))) {
        const Role role[] = {role_of(m, 1, "weight", d->n, d->at),
                             role_of(m, 2, "bias", d->n, d->at)};
        bool instance = str_starts(layer, STR("instance"));
        return give_layer(m,
                          format(m, "%.*s%.*s%s)", SARG(layer), SARG(instance ? comma : (Str){0}),
                                 instance ? "affine=true" : ""),
                          role, 2, s, NULL);
    }
    bool one = is_all(import_operand(m, 1), 1), zero = !bias || is_all(import_operand(m, 2), 0);
    Str off =
        str_starts(layer, STR("instance")) ? (Str){0} : format(m, "%.*saffine=false", SARG(comma));
    Str x = name_of(m, 0), y = format(m, "%.*s%.*s)(%.*s)", SARG(layer), SARG(off), SARG(x)),
        to = dims_text(m->a, broadcast);
    if (!one)
        y = format(m, "%.*s*reshape(%.*s, %.*s)", SARG(y), SARG(text_of(m, 1, BindOr)), SARG(to));
    if (!zero)
        y = format(m, "%.*s + reshape(%.*s, %.*s)", SARG(y), SARG(text_of(m, 2, BindOr)), SARG(to));
    return import_give(m, 0, *s, zero ? (one ? BindCall : BindProduct) : BindSum, y);
}

bool op_layer_norm(Import *m, const Row *row) {
    const Shape s = import_operand(m, 0)->shape;
    uint32_t axis;
    (void)row;
    if (!axis_in(m, attr_int(m, "axis", -1), s.rank, &axis))
        return false;
    if (s.batch >= (int)axis)
        return import_refuse(m, "it normalizes over the batch");
    Dims all = shape_own(&s), d = {0}, at = all;
    for (uint32_t i = axis; i < s.rank; i++)
        d.at[d.n++] = s.dim[i];
    for (uint32_t i = 0; i + d.n < all.n; i++)
        at.at[i] = 1;
    uint32_t mask = ((1u << s.rank) - 1) & ~((1u << axis) - 1);
    Str over = d.n == all.n ? (Str){0} : axes_text(m, &s, mask);
    return give_norm(
        m,
        format(m, "layer_norm(%.*s%.*s", SARG(over), SARG(eps_text(m, "epsilon", 1e-5, !over.len))),
        &d, &s, &at);
}

static bool channels_of(Import *m, Dims *d, Dims *at) {
    const Shape *s = &import_operand(m, 0)->shape;
    if (s->rank < 3 || !plain_batch(m, 0))
        return import_refuse(m, "it has no channels and spatial axes behind the batch");
    *d = *at = (Dims){.n = 1, .at = {s->dim[1]}};
    return true;
}

bool op_instance_norm(Import *m, const Row *row) {
    Dims d, at;
    (void)row;
    if (!channels_of(m, &d, &at))
        return false;
    const Shape s = import_operand(m, 0)->shape;
    return give_norm(m, format(m, "instance_norm(%.*s", SARG(eps_text(m, "epsilon", 1e-5, true))),
                     &d, &s, &at);
}

bool op_group_norm(Import *m, const Row *row) {
    Dims d, at;
    int64_t groups = attr_int(m, "num_groups", 1);
    (void)row;
    if (!channels_of(m, &d, &at))
        return false;
    const Shape s = import_operand(m, 0)->shape;
    if (import_operand(m, 1)->shape.rank != 1 || import_operand(m, 1)->shape.dim[0] != s.dim[1])
        return import_refuse(m,
                             "its weights are one number a group: export at opset 21, or below 18");
    return give_norm(m,
                     format(m, "group_norm(%lld%.*s", (long long)groups,
                            SARG(eps_text(m, "epsilon", 1e-5, false))),
                     &d, &s, &at);
}

bool op_prelu(Import *m, const Row *row) {
    const Shape s = import_operand(m, 0)->shape;
    const Value *slope = import_operand(m, 1);
    (void)row;
    if (is_own(slope) && slope->tensor->count == 1) {
        const Role role[] = {role_of(m, 1, "weight", 1, (const int64_t[]){1})};
        return give_layer(m, STR("prelu()"), role, 1, &s, NULL);
    }
    Str a = import_aligned(m, 1, &s, BindOr);
    return import_give(m, 0, s, BindPipe, import_piped(m, 0, "leaky_relu(%.*s)", SARG(a)));
}
