// builtin_fft.c - the core's Fourier transforms, along the last axis, in numpy's conventions: a
// forward one has no factor, an inverse one 1/n.
//
// In: values as the text gave them; complex ones have their two parts along axis 0. Out: a tensor,
// or a diagnostic in the user's words.
#include "builtin.h"

// Of a shared value [p, ..., n] its lines [lines, p, n], as the operation takes them; of samples
// what they are.
static Type lines_of(Type t) {
    Type lines = {.rank = 3, .dtype = t.dtype, .dim = {1, t.dim[0], t.dim[t.rank - 1]}};
    for (uint32_t i = 1; i + 1 < t.rank; i++)
        lines.dim[0] *= t.dim[i];
    return t.batched ? t : lines;
}

static const uint32_t swapped[] = {1, 0, 2}; // lines and parts

static Val to_lines(Val x) {
    Type t = val_type(x), l = lines_of(t);
    return t.batched ? x
                     : Permute(Reshape(x, 3, (int64_t[]){l.dim[1], l.dim[0], l.dim[2]}), swapped);
}

static Val from_lines(Val y, Type t) {
    return t.batched ? y : Reshape(Permute(y, swapped), t.rank, t.dim);
}

// `made`: the result's type as the text sees it.
static Value transform(Elab *e, Val x, bool inverse, Type made) {
    Attr at = {.n = 1, .i = {inverse}};
    uint32_t nodes = x.b->g->node.n;
    Type want = lines_of(made);
    const Type *like = made.dim[0] == 1 ? &want : NULL;
    Val lines = to_lines(x);
    if (!op_fits(e, OpFft, &lines, 1, &at, like)) {
        diag_help(e->f, "rfft(x) takes real numbers of any shape to [2, ..., n/2 + 1], which fft, "
                        "ifft and irfft take; irfft(z, n) has n numbers");
        return POISON;
    }
    return size_fits(e, &made) ? anchored(e, nodes, from_lines(Fft(lines, inverse, like), made))
                               : POISON;
}

// A tensor [2, ...], for what is not rfft.
static bool want_complex(Elab *e, Value v, Val *out) {
    if (!want_tensor(e, v, out))
        return false;
    Type t = val_type(*out);
    if (t.rank >= 2 && t.dim[0] == 2)
        return true;
    diag(e->f, DiagE0425, here(e), SARG(type_text(e->perm, &t)));
    in_library(e);
    note_origin(e, *out);
    return false;
}

static Value over_n(Value v, int64_t n) {
    if (v.kind == KindTensor)
        v.tensor.val = Div(v.tensor.val, Num(v.tensor.val, (double)n));
    return v;
}

Value builtin_rfft(Elab *e, const Value *in, uint32_t n) {
    Val x;
    (void)n;
    if (!want_tensor(e, in[0], &x))
        return POISON;
    Type t = val_type(x),
         one = {.dtype = t.dtype, .rank = (uint8_t)(t.rank + 1), .batched = t.batched, .dim = {1}};
    if (t.rank < 1 || t.rank >= MAX_RANK) {
        diag(e->f, DiagE0426, here(e), MAX_RANK - 1, SARG(type_text(e->perm, &t)));
        in_library(e);
        return POISON;
    }
    for (uint32_t i = 0; i < t.rank; i++)
        one.dim[1 + i] = t.dim[i];
    x = Reshape(x, one.rank, one.dim);
    one.dim[0] = 2;
    one.dim[t.rank] = t.dim[t.rank - 1] / 2 + 1;
    return transform(e, x, false, one);
}

Value builtin_fft(Elab *e, const Value *in, uint32_t n) {
    Val z;
    (void)n;
    return want_complex(e, in[0], &z) ? transform(e, z, false, val_type(z)) : POISON;
}

Value builtin_ifft(Elab *e, const Value *in, uint32_t n) {
    Val z;
    (void)n;
    if (!want_complex(e, in[0], &z))
        return POISON;
    Type t = val_type(z);
    return over_n(transform(e, z, true, t), t.dim[t.rank - 1]);
}

Value builtin_irfft(Elab *e, const Value *in, uint32_t n) {
    Val z;
    (void)n;
    if (!want_complex(e, in[0], &z))
        return POISON;
    Type t = val_type(z);
    int64_t *last = &t.dim[t.rank - 1], count = 2 * (*last - 1);
    if (in[1].kind != KindAbsent && !want_int(e, in[1], "n", &count))
        return POISON;
    t.dim[0] = 1;
    *last = count;
    Value made = transform(e, z, true, t);
    if (made.kind == KindTensor)
        made.tensor.val = Reshape(made.tensor.val, t.rank - 1u, t.dim + 1);
    return over_n(made, count);
}
