// import_products.c - matrix products: dense layers where one of the factors is a weight that only
// they read, else `@` and `einsum`.
#include "import.h"

// One operand of an einsum: letters of its own axes; an axis of 1 that the other broadcasts is
// dropped.
typedef struct Labels {
    char letter[ONNX_RANK];
    uint32_t n;
    Dims dims; // with the axes that are left
    bool reshaped;
} Labels;

static void put_label(Labels *l, const Shape *s, uint32_t axis, char letter) {
    if (shape_own_axis(s, axis) < 0)
        return;
    if (!letter) {
        l->reshaped = true;
        return;
    }
    l->letter[l->n++] = letter;
    l->dims.at[l->dims.n++] = s->dim[axis];
}

static Str labelled(Import *m, uint32_t k, const Labels *l) {
    return l->reshaped ? format(m, "reshape(%.*s, %.*s)", SARG(text_of(m, k, BindOr)),
                                SARG(dims_text(m->a, &l->dims)))
                       : text_of(m, k, BindOr);
}

// The extent of a leading axis, of both; false: they do not go together.
static bool join_leading(Import *m, const Shape *a, int i, const Shape *b, int j, Shape *to) {
    int64_t x = i >= 0 ? a->dim[i] : 1, y = j >= 0 ? b->dim[j] : 1;
    bool left = i >= 0 && a->batch == i, right = j >= 0 && b->batch == j;
    if ((left && right && x != y) || (left != right && (left ? y : x) != 1) ||
        (!left && !right && x != y && x != 1 && y != 1))
        return import_refuse(m, "its operands have extents %lld and %lld", (long long)x,
                             (long long)y);
    if (left || right) {
        to->batch = (int)to->rank;
        to->outer = left ? a->outer : b->outer;
    }
    to->dim[to->rank++] = left ? x : right ? y : x == 1 ? y : x;
    return true;
}

// An operand's leading axes: those that the other broadcasts are dropped.
static void put_leading(Labels *l, const Shape *s, uint32_t lead, const Shape *to) {
    for (uint32_t j = 0; j + 2 < s->rank; j++) {
        uint32_t i = j + lead + 2 - s->rank;
        bool kept = s->dim[j] == to->dim[i] && (s->batch == (int)j || to->batch != (int)i);
        put_label(l, s, j, kept ? (char)('a' + i) : 0);
    }
}

// a [..., rows, k] times b [..., k, columns], of b with `flip` [..., columns, k], as an einsum.
static bool product(Import *m, uint32_t at, uint32_t bt, bool flip, Shape *to, Str *out) {
    const Shape *a = &import_operand(m, at)->shape, *b = &import_operand(m, bt)->shape;
    if (a->rank < 2 || b->rank < 2)
        return import_refuse(
            m, "it multiplies by a vector: export it as a matrix of one row or column");
    uint32_t lead = (a->rank > b->rank ? a->rank : b->rank) - 2, rows = a->rank - 2,
             inner = b->rank - (flip ? 1 : 2), columns = b->rank - (flip ? 2 : 1);
    Labels l[2] = {0}, r = {0};
    if (a->batch == (int)rows + 1 || b->batch == (int)inner || a->dim[rows + 1] != b->dim[inner])
        return import_refuse(m, "its matrices do not fit, or it sums over the batch");
    *to = (Shape){.batch = -1};
    for (uint32_t i = 0; i < lead; i++)
        if (!join_leading(m, a, (int)(i + a->rank) - (int)lead - 2, b,
                          (int)(i + b->rank) - (int)lead - 2, to))
            return false;
    put_leading(&l[0], a, lead, to);
    put_leading(&l[1], b, lead, to);
    if ((a->batch == (int)rows && b->batch >= 0) || (b->batch == (int)columns && a->batch >= 0))
        return import_refuse(m, "its operands have the batch on different axes");
    to->batch = a->batch == (int)rows      ? (int)lead
                : b->batch == (int)columns ? (int)lead + 1
                                           : to->batch;
    to->outer = a->batch == (int)rows ? a->outer : b->batch == (int)columns ? b->outer : to->outer;
    to->dim[to->rank++] = a->dim[rows];
    to->dim[to->rank++] = b->dim[columns];
    put_label(&l[0], a, rows, 'm');
    put_label(&l[0], a, rows + 1, 'k');
    put_label(&l[1], b, b->rank - 2, flip ? 'n' : 'k');
    put_label(&l[1], b, b->rank - 1, flip ? 'k' : 'n');
    for (uint32_t i = 0; i < to->rank; i++)
        if (shape_own_axis(to, i) >= 0)
            r.letter[r.n++] = i < lead ? (char)('a' + i) : i == lead ? 'm' : 'n';
    Str x = labelled(m, at, &l[0]), y = labelled(m, bt, &l[1]);
    *out = format(m, "einsum(\"%.*s,%.*s->%.*s\", %.*s, %.*s)", (int)l[0].n, l[0].letter,
                  (int)l[1].n, l[1].letter, (int)r.n, r.letter, SARG(x), SARG(y));
    return true;
}

// x times a weight of its own: `dense` of a vector, `linear` along the last axis of more.
static bool give_linear(Import *m, bool stored_rows, Value *bias, const OnnxNode *as) {
    Shape to = import_operand(m, 0)->shape;
    const Value *w = import_operand(m, 1);
    int64_t in = w->shape.dim[stored_rows ? 1 : 0], c = w->shape.dim[stored_rows ? 0 : 1];
    if (to.dim[to.rank - 1] != in)
        return import_refuse(m, "its weight is not for %lld numbers",
                             (long long)to.dim[to.rank - 1]);
    Dims d = shape_own(&to);
    to.dim[to.rank - 1] = c;
    Role role[] = {role_of(m, 1, "weight", 2, (const int64_t[]){c, in}),
                   {.word = "bias", .value = bias, .rank = 1, .dim = {c}}};
    role[0].transposed = !stored_rows;
    Str layer = format(m, "%s(%lld%s)", d.n == 1 ? "dense" : "linear", (long long)c,
                       bias ? "" : ", bias=none");
    return give_layer(m, layer, role, 2, &to, as);
}

static bool is_linear(const Import *m) {
    const Shape *x = &import_operand(m, 0)->shape;
    return is_own(import_operand(m, 1)) && import_operand(m, 1)->shape.rank == 2 && x->batch >= 0 &&
           x->rank >= 2 && x->batch != (int)x->rank - 1 && shape_own(x).n >= 1;
}

bool op_matmul(Import *m, const Row *row) {
    Shape to;
    Str y;
    Value *bias = NULL;
    (void)row;
    if (is_linear(m)) {
        const OnnxNode *as =
            bias_of(m, import_operand(m, 1)->shape.dim[1], 0, &import_operand(m, 0)->shape, &bias);
        return give_linear(m, false, bias, as);
    }
    return product(m, 0, 1, false, &to, &y) && import_give(m, 0, to, BindCall, y);
}

bool op_gemm(Import *m, const Row *row) {
    double alpha = attr_real(m, "alpha", 1), beta = attr_real(m, "beta", 1);
    bool flip = attr_int(m, "transB", 0);
    Value *c = import_operand(m, 2);
    Shape to;
    Str y;
    (void)row;
    if (attr_int(m, "transA", 0) || import_operand(m, 0)->shape.rank != 2 ||
        import_operand(m, 1)->shape.rank != 2)
        return import_refuse(m, "its first operand is transposed, or one is no matrix");
    bool vector = !c || (is_own(c) && c->shape.rank == 1 &&
                         c->shape.dim[0] == import_operand(m, 1)->shape.dim[flip ? 0 : 1]);
    if (is_linear(m) && alpha == 1 && (beta == 1 || !c) && vector) {
        const OnnxNode *as = c ? NULL
                               : bias_of(m, import_operand(m, 1)->shape.dim[flip ? 0 : 1], 0,
                                         &import_operand(m, 0)->shape, &c);
        return give_linear(m, flip, c, as);
    }
    if (!product(m, 0, 1, flip, &to, &y))
        return false;
    if (alpha != 1)
        y = format(m, "%.*s*%.*s", SARG(number_text(m->a, alpha)), SARG(y));
    if (c && beta != 0) {
        Str b = import_aligned(m, 2, &to, beta == 1 ? BindProduct : BindSign);
        y = beta == 1
                ? format(m, "%.*s + %.*s", SARG(y), SARG(b))
                : format(m, "%.*s + %.*s*%.*s", SARG(y), SARG(number_text(m->a, beta)), SARG(b));
    }
    return import_give(m, 0, to, c && beta != 0 ? BindSum : alpha != 1 ? BindProduct : BindCall, y);
}

// The language has a to z only: 0 where an equation has an axis in both cases.
static char letter_of(Str rule, char c) {
    bool upper = c >= 'A' && c <= 'Z';
    return upper && str_find(rule, (char)(c | 32)) < rule.len ? 0 : upper ? (char)(c | 32) : c;
}

// "bqhd,bkhd->bhqk": the letters of the operands' axes, then those of the result.
typedef struct Equation {
    Str part[3];
    char batch; // the letter of the samples; 0: no operand has them
} Equation;

static bool read_equation(Import *m, Equation *e) {
    Str rule = attr_word(m, "equation", "");
    Text letters = {.arena = m->a};
    uint32_t p = 0;
    for (size_t i = 0; i < rule.len; i++) {
        char c = letter_of(rule, rule.ptr[i]);
        bool ends = c == ',' || c == '>';
        if ((ends && p == 2) || c == '.' || !c)
            return import_refuse(m, "its equation is not of one or two operands with axes a to z");
        if (ends)
            e->part[p++] = text_str(&letters), letters = (Text){.arena = m->a};
        if (str_find(text_str(&letters), c) < letters.n)
            return import_refuse(m, "its equation has an axis twice in an operand");
        if (c >= 'a' && c <= 'z')
            text_char(&letters, c);
    }
    e->part[p] = text_str(&letters);
    return p == m->node->in.n ||
           import_refuse(m, "its equation has no result, or not one part for each operand");
}

static bool find_batch(Import *m, Equation *e) {
    for (uint32_t k = 0; k < m->node->in.n; k++) {
        const Shape *s = &import_operand(m, k)->shape;
        if (e->part[k].len != s->rank)
            return import_refuse(m, "its equation has other axes than operand %u", k + 1);
        if (s->batch < 0)
            continue;
        if (e->batch && e->batch != e->part[k].ptr[s->batch])
            return import_refuse(m, "its operands have the batch on different axes");
        e->batch = e->part[k].ptr[s->batch];
    }
    for (uint32_t k = 0; k < m->node->in.n; k++)
        if (import_operand(m, k)->shape.batch < 0 && e->batch &&
            str_find(e->part[k], e->batch) < e->part[k].len)
            return import_refuse(m, "an operand has an extent of its own along the batch");
    return true;
}

static bool result_of(Import *m, const Equation *e, Shape *to) {
    Str result = e->part[m->node->in.n];
    *to = (Shape){.batch = -1, .rank = (uint32_t)result.len};
    for (size_t i = 0; i < result.len && i < ONNX_RANK; i++) {
        to->batch = result.ptr[i] == e->batch ? (int)i : to->batch;
        for (uint32_t k = 0; k < m->node->in.n; k++) {
            size_t at = str_find(e->part[k], result.ptr[i]);
            if (at < e->part[k].len)
                to->dim[i] = import_operand(m, k)->shape.dim[at];
        }
    }
    return (result.len <= ONNX_RANK && (to->batch >= 0 || !e->batch)) ||
           import_refuse(m, "it sums over the batch");
}

// Those of the axes that a sample has.
static void put_letters(Text *t, const Shape *s, Str letters) {
    for (uint32_t i = 0; i < s->rank; i++)
        if (shape_own_axis(s, i) >= 0)
            text_char(t, letters.ptr[i]);
}

bool op_einsum(Import *m, const Row *row) {
    uint32_t n = m->node->in.n;
    Text t = {.arena = m->a};
    Equation e = {0};
    Shape to;
    (void)row;
    if (!read_equation(m, &e) || !find_batch(m, &e) || !result_of(m, &e, &to))
        return false;
    for (uint32_t k = 0; k < n; k++) {
        text_fmt(&t, "%s", k ? "," : "");
        put_letters(&t, &import_operand(m, k)->shape, e.part[k]);
    }
    text_fmt(&t, "%s->", n == 1 ? "," : "");
    put_letters(&t, &to, e.part[n]);
    Str x = text_of(m, 0, BindOr), y = n > 1 ? text_of(m, 1, BindOr) : STR("1");
    return import_give(
        m, 0, to, BindCall,
        format(m, "einsum(\"%.*s\", %.*s, %.*s)", SARG(text_str(&t)), SARG(x), SARG(y)));
}
