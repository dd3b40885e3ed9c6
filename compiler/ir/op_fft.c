// op_fft.c - Fft: the discrete Fourier transform of the last axis.
//
// The parts of a number, 2 (real, imaginary) or 1 (real), lie along the second axis, the batch
// counted: samples are [parts, ..., n], a shared value [lines, parts, n]. The second axis is the
// innermost in memory (type_layout), so all lines are complex numbers one behind the other, what
// libraries take. Of several axes each is transformed in its turn, with a Permute between. There
// are three kinds, told by the types:
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

uint32_t fft_parts(const Type *t) {
    return t->batched ? 0 : 1;
}

static FftSide side_of(const Type *t) {
    int64_t parts = t->dim[fft_parts(t)], n = t->dim[t->rank - 1];
    return (FftSide){.real = parts == 1, .n = n, .line = n * parts, .step = parts, .part = 1};
}

FftLines fft_lines(const Graph *g, uint32_t id) {
    const Type *x = node_type(g, node_in(g, id, 0)), *y = node_type(g, id);
    FftLines f = {.inverse = node_attr(g, id)->i[0] != 0, .in = side_of(x), .out = side_of(y)};
    f.n = f.in.n > f.out.n ? f.in.n : f.out.n;
    f.lines = type_elements(g, x) / f.in.line;
    return f;
}

static bool infer_real(Infer *q, const Type *x) {
    int64_t n = q->out.dim[x->rank - 1], half = x->dim[x->rank - 1];
    Type out = *x;
    out.dim[fft_parts(x)] = 1;
    out.dim[x->rank - 1] = n;
    if (x->dim[fft_parts(x)] != 2 || !q->attr->i[0])
        return infer_fail(q, "a transform that makes real numbers is the inverse of a complex one");
    if (half == 1 && n != 1)
        return infer_fail(q, "one frequency is of one real number, not %lld", (long long)n);
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
    uint32_t parts = fft_parts(x);
    if (q->attr->n != 1 || q->attr->i[0] < 0 || q->attr->i[0] > 1)
        return infer_fail(q, "a transform is forward (0) or inverse (1)");
    if (x->batched ? x->rank < 2 : x->rank != 3)
        return infer_fail(q,
                          "a transform is of samples [parts, ..., n] or of a shared value "
                          "[lines, parts, n], not %s",
                          type_name(x).s);
    if (x->dim[parts] < 1 || x->dim[parts] > 2)
        return infer_fail(q,
                          "axis %u of a transform's operand holds 2 parts, real and imaginary, "
                          "or 1; %s",
                          parts, type_name(x).s);
    if (dtype_is_half((Dtype)x->dtype))
        return infer_fail(q, "a transform is of f32 or f64, not %s", dtype_name[x->dtype]);
    if (x->dim[x->rank - 1] < 1)
        return infer_fail(q, "a transform of nothing: %s", type_name(x).s);
    if (q->out.rank == x->rank && q->out.dim[parts] == 1)
        return infer_real(q, x);
    q->out = *x;
    q->out.dim[parts] = 2;
    if (x->dim[parts] == 1) {
        if (q->attr->i[0])
            return infer_fail(q, "a transform of real numbers is forward");
        q->out.dim[x->rank - 1] = x->dim[x->rank - 1] / 2 + 1;
    }
    return true;
}

// Of frequencies as `t` says: `inner` within, and at both ends 1 for the real part, 0 for the
// imaginary one.
static Val weights(Val like, Type t, int64_t n, double inner) {
    const uint32_t parts = fft_parts(&t), last = t.rank - 1u;
    t.batched = false;
    for (uint32_t i = 0; i < last; i++)
        t.dim[i] = i == parts ? 2 : 1;
    Val k = Iota(like.b, 2u << last, t), zero = Num(like, 0);
    Val ends = Eq(k, zero), real = Eq(Iota(like.b, 2u << parts, t), zero);
    if (n % 2 == 0)
        ends = Max(ends, Eq(k, Num(like, (double)(n / 2))));
    return Where(ends, real, Num(like, inner));
}

Val grad_Fft(Val y, Val g, uint32_t k) {
    Type x = val_type(val_in(y, k)), made = val_type(y);
    bool inverse = val_attr(y).i[0] != 0;
    int64_t n = made.dim[made.rank - 1];
    if (x.dim[fft_parts(&x)] == 1)
        return Fft(Mul(g, weights(g, made, x.dim[x.rank - 1], 0.5)), true, &x);
    Val back = Fft(g, !inverse, NULL);
    return made.dim[fft_parts(&made)] == 1 ? Mul(back, weights(g, x, n, 2)) : back;
}
