// build.c - one short name per operation, over values that carry their builder.
//
// In: values of one builder. Out: the value, in simplest form. Operands that do not fit are our own
// mistake here; user input goes through graph_check first.
#include "op.h"

static Val add(Op op, const Val *x, uint32_t n, const Attr *attr, const Type *want) {
    uint32_t in[MAX_IN];
    for (uint32_t k = 0; k < n; k++) {
        if (!x[k].id || x[k].b != x[0].b)
            bug("%s: operand %u is none or of another builder", op_info[op].text, k);
        in[k] = x[k].id;
    }
    return (Val){x[0].b, builder_add(x[0].b, op, in, n, attr, want)};
}

static Val add1(Op op, Val x, const Attr *attr, const Type *want) {
    return add(op, &x, 1, attr, want);
}

static Val add2(Op op, Val a, Val b, const Attr *attr, const Type *want) {
    return add(op, (Val[]){a, b}, 2, attr, want);
}

static Attr attr1(int64_t i) {
    return (Attr){.n = 1, .i = {i}};
}

// --- elementwise ---------------------------------------------------------------------------------

#define EW_VALUES_1 a
#define EW_VALUES_2 a, b
#define EW_VALUES_3 a, b, c
#define EW_VALUES_(n) EW_VALUES_##n
#define EW(Name, text, n, ...)                                                                     \
    Val Name(EW_ARGS_(n)) {                                                                        \
        return add(Op##Name, (Val[]){EW_VALUES_(n)}, n, NULL, NULL);                               \
    }
#include "ops.def"

Val CastTo(Val x, Val like) {
    Type want = val_type(x);
    want.dtype = val_type(like).dtype;
    return add1(OpCast, x, NULL, &want);
}

// --- leaves, state, names ------------------------------------------------------------------------

static Val number(Builder *b, double x, uint8_t dtype) {
    Attr bits = attr1(double_to_bits(x));
    Type want = {.dtype = dtype};
    return (Val){b, builder_add(b, OpConst, NULL, 0, &bits, &want)};
}

Val Num(Val like, double x) {
    return number(like.b, x, val_type(like).dtype);
}

Val Number(Builder *b, double x) {
    return number(b, x, DtF32);
}

Val Filled(Builder *b, double x, Type type) {
    return Expand(number(b, x, type.dtype), type);
}

Val Iota(Builder *b, uint32_t axes, Type type) {
    Attr mask = attr1(axes);
    return (Val){b, builder_add(b, OpIota, NULL, 0, &mask, &type)};
}

Val Read(Builder *b, uint32_t slot, uint32_t version, Type type) {
    Attr at = {.n = 2, .i = {slot, version}};
    return (Val){b, builder_add(b, OpRead, NULL, 0, &at, &type)};
}

Val Write(uint32_t slot, Val x) {
    Attr at = attr1(slot);
    return add1(OpWrite, x, &at, NULL);
}

Val Rand(Builder *b, Dist dist, uint32_t site, double classes, Type type) {
    Attr at = {.n = 3, .i = {dist, site, double_to_bits(classes)}};
    return (Val){b, builder_add(b, OpRand, NULL, 0, &at, &type)};
}

Val Pin(Val x) {
    Attr id = attr1(x.b->g->next_unique++);
    return add1(OpPin, x, &id, NULL);
}

Val Commit(Val made, Val was, uint32_t update) {
    Attr at = attr1(update);
    return add2(OpCommit, made, was, &at, NULL);
}

Val Grad(Val y, Val x) {
    return add2(OpGrad, y, x, NULL, NULL);
}

Val ReduceStart(Val partial, uint32_t call, uint32_t part, SumOrder order) {
    Attr at = {.n = 3, .i = {call, part, order}};
    return add1(OpReduceStart, partial, &at, NULL);
}

Val ReduceWait(Val started) {
    Attr at = {.n = 2, .i = {val_attr(started).i[0], val_attr(started).i[1]}};
    return add1(OpReduceWait, started, &at, NULL);
}

// --- reductions ----------------------------------------------------------------------------------

static Val reduce(Op op, Val x, uint32_t axes) {
    Attr mask = attr1(axes);
    return add1(op, x, &mask, NULL);
}

Val Sum(Val x, uint32_t axes) {
    return reduce(OpSum, x, axes);
}

Val Squares(Val x, uint32_t axes) {
    return reduce(OpSquares, x, axes);
}

Val MaxOf(Val x, uint32_t axes) {
    return reduce(OpMaxOf, x, axes);
}

Val ArgMax(Val x, uint32_t axes) {
    return reduce(OpArgMax, x, axes);
}

Val GroupSum(Val x, int64_t group) {
    Attr at = attr1(group);
    if (group == x.b->g->batch)
        return Expand(Sum(x, 1), val_type(x));
    return add1(OpGroupSum, x, &at, NULL);
}

Val SumTo(Val x, Type to) {
    Type from = val_type(x);
    uint32_t axes = from.batched && !to.batched;
    for (uint32_t i = 0; i < from.rank; i++)
        if (from.dim[i] > 1 && (i >= to.rank || to.dim[i] == 1))
            axes |= 2u << i;
    return Reshape(axes ? Sum(x, axes) : x, to.rank, to.dim);
}

// --- movement ------------------------------------------------------------------------------------

Val Reshape(Val x, uint32_t rank, const int64_t *dim) {
    Type want = type_make(val_type(x).batched, rank, dim);
    return add1(OpReshape, x, NULL, &want);
}

Val Expand(Val x, Type to) {
    Type from = val_type(x);
    return type_same_shape(&from, &to) ? x : add1(OpExpand, x, NULL, &to);
}

Val Permute(Val x, const uint32_t *axis) {
    Attr at = {.n = 1, .i = {val_type(x).rank}};
    for (uint32_t i = 0; i < at.i[0]; i++)
        at.i[at.n++] = axis[i];
    return add1(OpPermute, x, &at, NULL);
}

// Slice and Pad: `from` and `step` (NULL: 0, 1) of the smaller in the larger. A single element has
// step 1, so that equal moves have equal attributes.
static Val placed(Op op, Val x, const int64_t *from, const int64_t *step, const int64_t *extent) {
    uint32_t n = val_type(x).rank;
    Attr at = {.n = 1 + 2 * n, .i = {n}};
    for (uint32_t i = 0; i < n; i++) {
        at.i[1 + i] = from ? from[i] : 0;
        int64_t count = op == OpSlice ? extent[i] : val_type(x).dim[i];
        at.i[1 + n + i] = step && count > 1 ? step[i] : 1;
    }
    Type want = type_make(val_type(x).batched, n, extent);
    return add1(op, x, &at, &want);
}

Val Slice(Val x, const int64_t *from, const int64_t *count, const int64_t *step) {
    return placed(OpSlice, x, from, step, count);
}

Val Pad(Val x, const int64_t *before, const int64_t *step, const int64_t *extent) {
    return placed(OpPad, x, before, step, extent);
}

Val Flip(Val x, uint32_t axes) {
    return reduce(OpFlip, x, axes);
}

Val Concat(const Val *x, uint32_t n, uint32_t axis) {
    Attr at = attr1(axis);
    if (n <= MAX_IN)
        return add(OpConcat, x, n, &at, NULL);
    Val half[2] = {Concat(x, n / 2, axis), Concat(x + n / 2, n - n / 2, axis)};
    return add(OpConcat, half, 2, &at, NULL);
}

Val Gather(Val table, Val index) {
    return add2(OpGather, table, index, NULL, NULL);
}

Val Scatter(Val rows, Val index, Type table) {
    return add2(OpScatter, rows, index, NULL, &table);
}

// --- products ------------------------------------------------------------------------------------

// Sums the axes of *x whose labels nothing else mentions, and its batch when `batch` says so; the
// labels that stay, renamed by `rename`, are appended to *at.
static Val dot_operand(Val x, const uint8_t *label, const uint8_t rename[256], bool batch,
                       Attr *at) {
    Type t = val_type(x);
    uint32_t axes = batch, count = at->n++;
    int64_t dim[MAX_RANK];
    uint32_t rank = 0;
    for (uint32_t i = 0; i < t.rank; i++) {
        if (!rename[label[i]]) {
            axes |= 2u << i;
            continue;
        }
        dim[rank++] = t.dim[i];
        at->i[at->n++] = rename[label[i]];
    }
    at->i[count] = rank;
    return axes ? Reshape(Sum(x, axes), rank, dim) : x;
}

Val Dot(Val a, const uint8_t *la, Val b, const uint8_t *lb, const uint8_t *lo, uint32_t no,
        bool batched) {
    enum { InA = 1, InB = 2, InOut = 4 };
    Type ta = val_type(a), tb = val_type(b), want = {.batched = batched};
    uint8_t where[256] = {0}, rename[256] = {0}, next = 1;
    for (uint32_t i = 0; i < ta.rank; i++)
        where[la[i]] |= InA;
    for (uint32_t i = 0; i < tb.rank; i++)
        where[lb[i]] |= InB;
    for (uint32_t i = 0; i < no; i++)
        where[lo[i]] |= InOut;
    // Labels are numbered as they are met, so that equal products have equal attributes.
    for (uint32_t i = 0; i < ta.rank; i++)
        if (where[la[i]] != InA && !rename[la[i]])
            rename[la[i]] = next++;
    for (uint32_t i = 0; i < tb.rank; i++)
        if (where[lb[i]] != InB && !rename[lb[i]])
            rename[lb[i]] = next++;
    Attr at = {0};
    Val x = dot_operand(a, la, rename, ta.batched && !tb.batched && !batched, &at);
    Val y = dot_operand(b, lb, rename, tb.batched && !ta.batched && !batched, &at);
    at.i[at.n++] = no;
    for (uint32_t i = 0; i < no; i++)
        at.i[at.n++] = rename[lo[i]];
    return add2(OpDot, x, y, &at, &want);
}

Val Fft(Val x, bool inverse, const Type *like) {
    Attr at = {.n = 1, .i = {inverse}};
    return (Val){x.b, builder_add(x.b, OpFft, &x.id, 1, &at, like)};
}

Val ArgSort(Val x) {
    return add(OpArgSort, &x, 1, NULL, NULL);
}

Val ArgSortLast(Val x, int64_t k) {
    Type t = val_type(x);
    t.dim[t.rank - 1] = k;
    return add(OpArgSort, &x, 1, NULL, &t);
}

Val Arrange(Val x, Val index, bool back) {
    Attr at = attr1(back);
    return add2(OpArrange, x, index, &at, NULL);
}

Val ArrangeBack(Val x, Val index, Type to) {
    Attr at = attr1(true);
    return add2(OpArrange, x, index, &at, &to);
}

Val Conv(Val x, Val w, const ConvGeom *c) {
    Attr at = conv_attr(c);
    return add2(OpConv, x, w, &at, NULL);
}

Val ConvDx(Val gy, Val w, const ConvGeom *c, Type x) {
    Attr at = conv_attr(c);
    return add2(OpConvDx, gy, w, &at, &x);
}

Val ConvDw(Val x, Val gy, const ConvGeom *c, Type w) {
    Attr at = conv_attr(c);
    return add2(OpConvDw, x, gy, &at, &w);
}
