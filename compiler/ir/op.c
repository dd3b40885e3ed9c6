// op.c - lang/ops.def made into C: the table of operations, and for every elementwise row its shape
// rule, its gradients and its value in double.
//
// A row says nothing about broadcasting: gradients come out in the node's (broadcast) type and
// pass/grad.c sums them to the operand's.
#include "op.h"

#include <math.h>
#include <string.h>

enum { // as the rows say them
    COMM = TraitCommutes,
    LINEAR = TraitLinear,
    BILINEAR = TraitBilinear,
    LINEAR_A = TraitLinearFirst,
    INDEXED = TraitIndexed,
    CONSTANT = TraitConstant,
};
#define ZERO ((Val){0})

// --- shape rules ---------------------------------------------------------------------------------

bool infer_fail(Infer *q, const char *format, ...) {
    va_list args;
    va_start(args, format);
    vsnprintf(q->error, sizeof q->error, format, args);
    va_end(args);
    return false;
}

const Type *infer_in(const Infer *q, uint32_t k) {
    return node_type(q->g, q->in[k]);
}

bool infer_wants(Infer *q, const char *what) {
    return q->out.rank != TYPE_UNSTATED || infer_fail(q, "%s needs its type stated", what);
}

bool infer_dtypes(Infer *q, uint32_t first, uint32_t last) {
    for (uint32_t k = first + 1; k < last; k++) {
        Dtype a = infer_in(q, first)->dtype, b = infer_in(q, k)->dtype;
        if (a != b)
            return infer_fail(q, "precisions clash: %s and %s", dtype_name[a], dtype_name[b]);
    }
    return true;
}

bool infer_counts(Infer *q, const char *what, const Type *t, int64_t mask) {
    Type counted = {0};
    for (uint32_t i = 0; i < t->rank; i++)
        if (mask >> (1 + i) & 1)
            counted.dim[counted.rank++] = t->dim[i];
    return type_sample(&counted) <= MOST_COUNTED ||
           infer_fail(q, "%s counts up to %d elements, not those of %s", what, MOST_COUNTED,
                      type_name(t).s);
}

uint8_t infer_product(const Infer *q, uint8_t dtype) {
    bool wide =
        dtype_is_half((Dtype)dtype) && q->out.rank != TYPE_UNSTATED && q->out.dtype == DtF32;
    return wide ? DtF32 : dtype;
}

static bool infer_ew(Infer *q, Op op) {
    uint32_t first = op == OpWhere; // a condition may have any precision
    uint8_t dtype = infer_in(q, first)->dtype;
    if (!infer_dtypes(q, first, q->nin))
        return false;
    if (op == OpCast && q->out.rank != TYPE_UNSTATED)
        dtype = q->out.dtype;
    q->out = *infer_in(q, 0);
    for (uint32_t k = 1; k < q->nin; k++) {
        const Type *t = infer_in(q, k);
        if (!type_broadcast(&q->out, t, &q->out))
            return infer_fail(q, "extents clash: %s and %s", type_name(&q->out).s, type_name(t).s);
    }
    q->out.dtype = dtype;
    return true;
}

#define EW(Name, ...)                                                                              \
    static bool infer_##Name(Infer *q) {                                                           \
        return infer_ew(q, Op##Name);                                                              \
    }
#include "ops.def"

// --- gradients -----------------------------------------------------------------------------------

#define EW(Name, text, n, flags, value, da, db, dc, domain)                                        \
    static Val grad_##Name(Val y, Val g, uint32_t k) {                                             \
        Val a = val_in(y, 0), b = (n) > 1 ? val_in(y, 1) : ZERO,                                   \
            c = (n) > 2 ? val_in(y, 2) : ZERO;                                                     \
        (void)a, (void)b, (void)c, (void)g;                                                        \
        switch (k) {                                                                               \
        case 0:                                                                                    \
            return da;                                                                             \
        case 1:                                                                                    \
            return db;                                                                             \
        case 2:                                                                                    \
            return dc;                                                                             \
        }                                                                                          \
        bug(#text " has no operand %u", k);                                                        \
    }
#include "ops.def"

// --- values of constants -------------------------------------------------------------------------

#define K(x) ((double)(x))
#define EW(Name, text, n, flags, value, ...)                                                       \
    static double fold_##Name(double a, double b, double c) {                                      \
        (void)a, (void)b, (void)c;                                                                 \
        return value;                                                                              \
    }
#include "ops.def"
#undef K

double bits_to_double(int64_t bits) {
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

int64_t double_to_bits(double x) {
    int64_t bits;
    if (isnan(x))
        x = NAN;
    if (x == 0)
        x = 0;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

// --- the table -----------------------------------------------------------------------------------

const OpInfo op_info[OpCount] = {
    [OpNone] = {.name = "None", .text = "none", .attrs = ""},
#define EW(Name, txt, n, says, val, da, db, dc, dom)                                               \
    [Op##Name] = {.name = #Name,                                                                   \
                  .text = #txt,                                                                    \
                  .attrs = "",                                                                     \
                  .value = #val,                                                                   \
                  .least = (n),                                                                    \
                  .most = (n),                                                                     \
                  .cls = ClassEW,                                                                  \
                  .domain = Domain##dom,                                                           \
                  .traits = (says),                                                                \
                  .fold = fold_##Name,                                                             \
                  .infer = infer_##Name,                                                           \
                  .grad = grad_##Name},
#define OP(Name, txt, lo, hi, kind, says, names)                                                   \
    STRUCTURAL(Name, txt, lo, hi, kind, None, says, names)
#define ANCHOR(Name, txt, lo, hi, kind, says, names)                                               \
    STRUCTURAL(Name, txt, lo, hi, ANCHOR, kind, says, names)
#define STRUCTURAL(Name, txt, lo, hi, kind, fam, says, names)                                      \
    [Op##Name] = {.name = #Name,                                                                   \
                  .text = #txt,                                                                    \
                  .attrs = names,                                                                  \
                  .least = (lo),                                                                   \
                  .most = (hi),                                                                    \
                  .cls = Class##kind,                                                              \
                  .family = Family##fam,                                                           \
                  .traits = (says),                                                                \
                  .infer = infer_##Name,                                                           \
                  .grad = grad_##Name},
#include "ops.def"
#undef STRUCTURAL
};

AnchorFamily node_family(const Graph *g, uint32_t id) {
    return (AnchorFamily)op_info[graph_node(g, id)->op].family;
}

// The gradient columns, as text.
static const char *const gradient[OpCount][3] = {
#define EW(Name, text, n, says, value, da, db, dc, domain) [Op##Name] = {#da, #db, #dc},
#include "ops.def"
};

bool op_has_gradient(Op op, uint32_t k) {
    if (op_info[op].value)
        return strcmp(gradient[op][k], "ZERO") != 0;
    return !op_is(op, TraitConstant) && !(op_is(op, TraitIndexed) && k == 1);
}

Op op_find(Str text) {
    for (uint32_t op = OpNone + 1; op < OpCount; op++)
        if (str_eq(text, str_c(op_info[op].text)))
            return (Op)op;
    return OpNone;
}
