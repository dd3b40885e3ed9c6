// import_fold.c - what is known at import is computed here: the shapes, axes and indices that
// exporters compute by nodes.
//
// In: a node all of whose operands are constants, or one that asks for a shape. Out: the constant
// it gives. Numbers of samples stay N times a number through all that a shape goes through.
#include "import_fold.h"

enum { FoldMost = 1 << 22, FoldAll = 1 << 26 }; // elements, of a constant and of all

bool make_cells(Import *m, uint32_t rank, const int64_t *dim, Cells *out) {
    *out = (Cells){.shape = shape_of(rank, dim, -1), .count = 1};
    for (uint32_t i = 0; i < rank; i++) {
        if (dim[i] < 0)
            return import_refuse(m, "a constant has an impossible shape");
        out->count = dim[i] > FoldMost ? (size_t)FoldMost + 1 : out->count * (size_t)dim[i];
        if (out->count > FoldMost)
            return import_refuse(m, "a constant of more than %d elements", (int)FoldMost);
    }
    m->folded += out->count;
    if (m->folded > FoldAll)
        return import_refuse(m, "constants of more than %d elements", (int)FoldAll);
    out->x = arena_array(m->a, double, out->count + 1);
    out->n = arena_array(m->a, uint8_t, out->count + 1);
    return true;
}

bool give_cells(Import *m, const Cells *c, bool whole) {
    import_give_ints(m, c->shape, c->x, c->n);
    value_find(m, m->node->out.at[0])->whole = whole;
    return true;
}

double cell(const Value *v, size_t i) {
    return v->kind == ValueWeight ? onnx_at(v->tensor, i) : v->number[i];
}
size_t cells_of(const Value *v) {
    return v->kind == ValueWeight ? v->tensor->count : v->count;
}
bool cell_n(const Value *v, size_t i) {
    return v->samples && v->samples[i];
}
void copy_cell(Cells *to, size_t i, const Value *v, size_t k) {
    to->x[i] = cell(v, k);
    to->n[i] = cell_n(v, k);
}

void constant_of(Import *m, const OnnxTensor *t, Value *out) {
    double *x = arena_array(m->a, double, t->count + 1);
    for (size_t i = 0; i < t->count; i++)
        x[i] = onnx_at(t, i);
    out->kind = ValueConstant;
    out->shape = shape_of(t->rank, t->dim, -1);
    out->number = x;
    out->count = t->count;
    out->whole = !onnx_is_real(t->type);
}

// --- shapes and constants ------------------------------------------------------------------------

static bool fold_shape(Import *m) {
    const Shape *s = &import_operand(m, 0)->shape;
    Span3 p = slice_span(s->rank, attr_int(m, "start", 0), attr_int(m, "end", s->rank), 1);
    Cells c;
    if (!make_cells(m, 1, &p.count, &c))
        return false;
    for (int64_t i = 0; i < p.count; i++) {
        c.x[i] = (double)s->dim[p.from + i];
        c.n[i] = p.from + i == s->batch;
    }
    return give_cells(m, &c, true);
}

static bool fold_size(Import *m) {
    const Shape *s = &import_operand(m, 0)->shape;
    Cells c;
    if (!make_cells(m, 0, NULL, &c))
        return false;
    c.x[0] = 1;
    for (uint32_t i = 0; i < s->rank; i++)
        c.x[0] *= (double)s->dim[i];
    c.n[0] = s->batch >= 0;
    return give_cells(m, &c, true);
}

static bool fold_constant(Import *m) {
    const OnnxAttribute *a = import_attribute(m, "value");
    Value *out = value_find(m, m->node->out.at[0]);
    Cells c;
    int64_t n;
    if (a && a->t) {
        constant_of(m, a->t, out);
        out->state = true;
        return true;
    }
    if ((a = import_attribute(m, "value_float")) || (a = import_attribute(m, "value_int"))) {
        if (!make_cells(m, 0, NULL, &c))
            return false;
        c.x[0] = import_attribute(m, "value_int") ? (double)a->i : a->f;
        return give_cells(m, &c, import_attribute(m, "value_int") != NULL);
    }
    if (!(a = import_attribute(m, "value_ints")) && !(a = import_attribute(m, "value_floats")))
        return import_refuse(m, "it is no tensor of numbers");
    bool whole = a->ints.n;
    n = whole ? a->ints.n : a->floats.n;
    if (!make_cells(m, 1, &n, &c))
        return false;
    for (int64_t i = 0; i < n; i++)
        c.x[i] = whole ? (double)a->ints.at[i] : a->floats.at[i];
    return give_cells(m, &c, whole);
}

bool dims_of(Import *m, uint32_t k, uint32_t *rank, int64_t *dim) {
    const Value *v = import_operand(m, k);
    if (!v || v->kind != ValueConstant || v->count > ONNX_RANK)
        return import_refuse(m, "its shape is not known at import");
    *rank = (uint32_t)v->count;
    for (size_t i = 0; i < v->count; i++)
        dim[i] = cell_n(v, i) ? 1 : extent_of(cell(v, i));
    return true;
}

static bool fold_filled(Import *m) {
    const OnnxAttribute *a = import_attribute(m, "value");
    int64_t dim[ONNX_RANK];
    uint32_t rank;
    Cells c;
    if (!dims_of(m, 0, &rank, dim) || !make_cells(m, rank, dim, &c))
        return false;
    for (size_t i = 0; a && a->t && a->t->count && i < c.count; i++)
        c.x[i] = onnx_at(a->t, 0);
    return give_cells(m, &c, a && a->t && !onnx_is_real(a->t->type));
}

static bool fold_range(Import *m) {
    double from, to, step;
    Cells c;
    if (!real_of(m, 0, 0, &from) || !real_of(m, 1, 0, &to) || !real_of(m, 2, 1, &step))
        return false;
    double many = step != 0 ? ceil((to - from) / step) : 0;
    int64_t n = many > 0 ? (int64_t)fmin(many, (double)FoldMost + 1) : 0;
    if (!make_cells(m, 1, &n, &c))
        return false;
    for (int64_t i = 0; i < n; i++)
        c.x[i] = from + step * (double)i;
    return give_cells(m, &c, import_operand(m, 0)->whole);
}

// --- arithmetic ----------------------------------------------------------------------------------

static double add(double a, double b) {
    return a + b;
}
static double sub(double a, double b) {
    return a - b;
}
static double mul(double a, double b) {
    return a * b;
}
static double divide(double a, double b) {
    return a / b;
}
static double equal(double a, double b) {
    return a == b;
}
static double greater(double a, double b) {
    return a > b;
}
static double less(double a, double b) {
    return a < b;
}
static double at_least(double a, double b) {
    return a >= b;
}
static double at_most(double a, double b) {
    return a <= b;
}
static double both(double a, double b) {
    return a != 0 && b != 0;
}
static double either(double a, double b) {
    return a != 0 || b != 0;
}
static double modulo(double a, double b) { // by the sign of b
    double r = fmod(a, b);
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}
static double minus(double a) {
    return -a;
}
static double not(double a) {
    return a == 0;
}
static double inverse(double a) {
    return 1 / a;
}

static const struct Each {
    const char *op;
    double (*two)(double a, double b);
    double (*one)(double a);
    bool truth; // of any numbers
} each[] = {
    {"Add", add, NULL, false},
    {"Sub", sub, NULL, false},
    {"Mul", mul, NULL, false},
    {"Div", divide, NULL, false},
    {"Mod", modulo, NULL, false},
    {"Pow", pow, NULL, false},
    {"Min", fmin, NULL, false},
    {"Max", fmax, NULL, false},
    {"Equal", equal, NULL, true},
    {"Greater", greater, NULL, true},
    {"Less", less, NULL, true},
    {"GreaterOrEqual", at_least, NULL, true},
    {"LessOrEqual", at_most, NULL, true},
    {"And", both, NULL, true},
    {"Or", either, NULL, true},
    {"Not", NULL, not, true},
    {"Neg", NULL, minus, false},
    {"Floor", NULL, floor, false},
    {"Ceil", NULL, ceil, false},
    {"Round", NULL, nearbyint, false},
    {"Abs", NULL, fabs, false},
    {"Sqrt", NULL, sqrt, false},
    {"Exp", NULL, exp, false},
    {"Log", NULL, log, false},
    {"Sin", NULL, sin, false},
    {"Cos", NULL, cos, false},
    {"Reciprocal", NULL, inverse, false},
};

// Two cells of which one or both are times N. A comparison takes N for no particular number.
static bool put_two(Import *m, const struct Each *e, bool whole, const double x[2], const bool n[2],
                    Cells *c, size_t i) {
    bool product = e->two == mul, quotient = e->two == divide;
    c->x[i] = e->two(x[0], x[1]);
    c->x[i] = whole && !e->truth ? trunc(c->x[i]) : c->x[i];
    if (whole && !isfinite(c->x[i]))
        return import_refuse(m, "it divides whole numbers by 0");
    if (!n[0] && !n[1])
        return true;
    c->n[i] = n[0] != n[1] && !e->truth;
    if (e->truth && n[0] != n[1])
        c->x[i] = 0;
    if ((product && n[0] != n[1]) || (quotient && n[0]) || e->truth || (n[0] && n[1] && !product) ||
        (e->two == add && x[n[0] ? 1 : 0] == 0))
        return true;
    return import_refuse(m, "it computes with the number of samples");
}

static bool fold_each(Import *m, const struct Each *e) {
    uint32_t rank = 0, n = m->node->in.n;
    int64_t dim[ONNX_RANK] = {0}, at[ONNX_RANK] = {0};
    Cells c;
    for (uint32_t k = 0; k < n; k++)
        if (!broadcast(m, &import_operand(m, k)->shape, &rank, dim))
            return false;
    if ((e->two && n != 2) || (e->one && n != 1) || !make_cells(m, rank, dim, &c))
        return import_refuse(m, "it has %u operands", n);
    static const struct Each remainder = {"Mod", fmod, NULL, false}; // by that of a
    bool whole = import_operand(m, 0)->whole;
    e = e->two == modulo && attr_int(m, "fmod", 0) ? &remainder : e;
    for (size_t i = 0; i < c.count; i++, next_index(&c.shape, at)) {
        double x[2] = {0};
        bool times[2] = {false, false};
        for (uint32_t k = 0; k < n; k++) {
            size_t from = broadcast_at(import_operand(m, k), &c.shape, at);
            x[k] = cell(import_operand(m, k), from);
            times[k] = cell_n(import_operand(m, k), from);
        }
        c.x[i] = e->one ? e->one(x[0]) : 0;
        c.n[i] = e->one && times[0];
        if (e->two && !put_two(m, e, whole, x, times, &c, i))
            return false;
    }
    return give_cells(m, &c, whole || e->truth);
}

static bool fold_where(Import *m) {
    uint32_t rank = 0;
    int64_t dim[ONNX_RANK] = {0}, at[ONNX_RANK] = {0};
    Cells c;
    for (uint32_t k = 0; k < 3; k++)
        if (!broadcast(m, &import_operand(m, k)->shape, &rank, dim))
            return false;
    if (!make_cells(m, rank, dim, &c))
        return false;
    for (size_t i = 0; i < c.count; i++, next_index(&c.shape, at)) {
        const Value *which = import_operand(m, 0);
        const Value *v =
            import_operand(m, cell(which, broadcast_at(which, &c.shape, at)) != 0 ? 1 : 2);
        copy_cell(&c, i, v, broadcast_at(v, &c.shape, at));
    }
    return give_cells(m, &c, import_operand(m, 1)->whole);
}

// Of all elements: what exporters do to shapes.
static bool fold_product(Import *m) {
    const Value *v = import_operand(m, 0);
    int64_t one[ONNX_RANK];
    uint32_t rank = attr_int(m, "keepdims", 1) ? v->shape.rank : 0;
    Cells c;
    for (uint32_t i = 0; i < rank; i++)
        one[i] = 1;
    if (v->shape.rank > 1)
        return import_refuse(m, "a product over some axes of a constant");
    if (!make_cells(m, rank, one, &c))
        return false;
    c.x[0] = 1;
    for (size_t i = 0; i < v->count; i++) {
        c.x[0] *= cell(v, i);
        c.n[0] |= cell_n(v, i);
    }
    return give_cells(m, &c, v->whole);
}

// --- rows ----------------------------------------------------------------------------------------

typedef enum Needs { NeedsNothing, NeedsNumbers, NeedsConstants } Needs; // numbers: also of weights

static const struct Fold {
    const char *op;
    Folding *make;
    Needs needs; // of its operands
} folds[] = {
    {"Shape", fold_shape, NeedsNothing},
    {"Size", fold_size, NeedsNothing},
    {"Constant", fold_constant, NeedsNothing},
    {"ScatterND", fold_scatter_nd, NeedsNumbers},
    {"ConstantOfShape", fold_filled, NeedsConstants},
    {"Range", fold_range, NeedsConstants},
    {"Identity", fold_same, NeedsConstants},
    {"Cast", fold_cast, NeedsConstants},
    {"Reshape", fold_reshape, NeedsConstants},
    {"Squeeze", fold_squeeze, NeedsConstants},
    {"Unsqueeze", fold_unsqueeze, NeedsConstants},
    {"Transpose", fold_transpose, NeedsConstants},
    {"Gather", fold_gather, NeedsConstants},
    {"Concat", fold_concat, NeedsConstants},
    {"Slice", fold_slice, NeedsConstants},
    {"Expand", fold_expand, NeedsConstants},
    {"Tile", fold_tile, NeedsConstants},
    {"Where", fold_where, NeedsConstants},
    {"ReduceProd", fold_product, NeedsConstants},
};

// A shape that has N among its extents: what has it is a value of each sample, and no constant.
static bool per_sample(const Import *m) {
    bool shapes = str_eq(m->node->op, STR("Expand")) || str_eq(m->node->op, STR("ConstantOfShape"));
    const Value *v = shapes ? import_operand(m, m->node->in.n - 1) : NULL;
    for (size_t i = 0; v && v->samples && i < v->count; i++)
        if (v->samples[i])
            return true;
    return false;
}

bool import_fold(Import *m, bool *made) {
    Needs known = m->node->in.n > 0 ? NeedsConstants : NeedsNothing; // the most that is met
    *made = !per_sample(m);
    if (!*made)
        return true;
    for (uint32_t k = 0; k < m->node->in.n; k++) {
        const Value *v = import_operand(m, k);
        Needs met = !v || v->kind == ValueConstant ? NeedsConstants
                    : v->kind == ValueWeight       ? NeedsNumbers
                                                   : NeedsNothing;
        known = met < known ? met : known;
    }
    for (size_t i = 0; i < sizeof folds / sizeof *folds; i++)
        if (known >= folds[i].needs && str_eq(m->node->op, str_c(folds[i].op)))
            return folds[i].make(m);
    for (size_t i = 0; known == NeedsConstants && i < sizeof each / sizeof *each; i++)
        if (str_eq(m->node->op, str_c(each[i].op)))
            return fold_each(m, &each[i]);
    *made = false;
    return true;
}
