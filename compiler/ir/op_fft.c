// op_fft.c - Fft: the discrete Fourier transform of the last axis.
//
// Axis 0 holds the parts of a number: 2 (real, imaginary) or 1 (real). Channels-last puts it
// innermost, so the lines of a batch are what libraries take, one behind the other. Of several axes
// each is transformed in its turn, with a Permute between. There are three kinds, told by the
// types:
//
//   complex to complex  y[k] = sum over j of x[j] e^(-+2 pi i jk/n)
//   real to complex     the same for k = 0 .. n/2; the others are conjugates of these
//   complex to real     its inverse but for a factor n: the sum over all n frequencies, of which
//                       n/2 + 1 are given. Imaginary parts of the first, and of the last of an even
//                       n, are not read.
//
// A gradient is a transform the other way. Where one side is real every inner frequency stands for
// two: it counts double where frequencies are read, and half where they are made.
#include "op.h"

enum { SHARED_RANK = 3 }; // of a shared value, whose lines are along axis 1 alone

static FftSide side_of(const Type *t) {
    int64_t stride[MAX_RANK + 1];
    type_layout(t, stride);
    FftSide s = {.real = t->dim[0] == 1, .n = t->dim[t->rank - 1]};
    s.part = stride[1];
    s.step = stride[t->rank];
    s.line = !t->batched && t->rank == SHARED_RANK ? stride[2] : s.n * s.step;
    return s;
}

FftLines fft_lines(const Graph *g, uint32_t id) {
    const Type *x = node_type(g, node_in(g, id, 0)), *y = node_type(g, id);
    FftLines f = {.inverse = node_attr(g, id)->i[0] != 0, .in = side_of(x), .out = side_of(y)};
    f.n = f.in.n > f.out.n ? f.in.n : f.out.n;
    f.lines = type_elements(g, x) / (x->dim[0] * f.in.n);
    return f;
}

static bool infer_real(Infer *q, const Type *x) {
    int64_t n = q->out.dim[x->rank - 1], half = x->dim[x->rank - 1];
    Type out = *x;
    out.dim[0] = 1;
    out.dim[x->rank - 1] = n;
    if (x->dim[0] != 2 || !q->attr->i[0])
        return infer_fail(q, "a transform that makes real numbers is the inverse of a complex one");
    if (n / 2 + 1 != half)
        return infer_fail(q, "%lld frequencies are of %lld or %lld real numbers, not %lld",
                          (long long)half, (long long)(2 * half - 2), (long long)(2 * half - 1),
                          (long long)n);
    if (!type_same_shape(&out, &q->out))
        return infer_fail(q, "the inverse transform of %s is not %s", type_name(x).s,
                          type_name(&q->out).s);
    q->out = out;
    return true;
}

bool infer_Fft(Infer *q) {
    const Type *x = infer_in(q, 0);
    if (q->attr->n != 1 || q->attr->i[0] < 0 || q->attr->i[0] > 1)
        return infer_fail(q, "a transform is forward (0) or inverse (1)");
    if (x->rank < 2 || x->dim[0] < 1 || x->dim[0] > 2)
        return infer_fail(q, "a transform's first axis holds 2 parts, real and imaginary, or 1; %s",
                          type_name(x).s);
    if (!x->batched && x->rank > SHARED_RANK)
        return infer_fail(q, "a shared value is transformed as [parts, lines, n], not %s",
                          type_name(x).s);
    if (dtype_is_half((Dtype)x->dtype))
        return infer_fail(q, "a transform is of f32 or f64, not %s", dtype_name[x->dtype]);
    if (x->dim[x->rank - 1] < 1)
        return infer_fail(q, "a transform of nothing: %s", type_name(x).s);
    if (q->out.rank == x->rank && q->out.dim[0] == 1)
        return infer_real(q, x);
    q->out = *x;
    q->out.dim[0] = 2;
    if (x->dim[0] == 1) {
        if (q->attr->i[0])
            return infer_fail(q, "a transform of real numbers is forward");
        q->out.dim[x->rank - 1] = x->dim[x->rank - 1] / 2 + 1;
    }
    return true;
}

// Of frequencies [2, ..., n/2 + 1]: `inner` within, and at both ends 1 for the real part, 0 for the
// imaginary one.
static Val weights(Val like, Type t, int64_t n, double inner) {
    uint32_t last = 1u << t.rank;
    t.batched = false;
    for (uint32_t i = 1; i + 1 < t.rank; i++)
        t.dim[i] = 1;
    Val k = Iota(like.g, last, t), zero = Num(like, 0);
    Val ends = Eq(k, zero), real = Eq(Iota(like.g, 2, t), zero);
    if (n % 2 == 0)
        ends = Max(ends, Eq(k, Num(like, (double)(n / 2))));
    return Where(ends, real, Num(like, inner));
}

Val grad_Fft(Val y, Val g, uint32_t k) {
    Type x = val_type(val_in(y, k)), made = val_type(y);
    bool inverse = val_attr(y).i[0] != 0;
    int64_t n = made.dim[made.rank - 1];
    if (x.dim[0] == 1)
        return Fft(Mul(g, weights(g, made, x.dim[x.rank - 1], 0.5)), true, &x);
    Val back = Fft(g, !inverse, NULL);
    return made.dim[0] == 1 ? Mul(back, weights(g, x, n, 2)) : back;
}
