// op_state.c - shape rules and gradients of the operations that are not computed from operands
// alone: leaves (Const, Iota, Read, Rand), effects (Write), markers that a pass expands or removes
// (Pin, Commit, Grad), and the two halves of a collective (ReduceStart, ReduceWait).
#include "op.h"

// Never called: leaves have no operands, Grad is expanded before, no loss depends on Write or
// Commit, and pass/shard.c inserts collectives after differentiation.
#define NO_GRAD(Name)                                                                              \
    Val grad_##Name(Val y, Val g, uint32_t k) {                                                    \
        bug("gradient of %s (node %u) to operand %u, incoming %u", op_info[Op##Name].text, y.id,   \
            k, g.id);                                                                              \
    }
NO_GRAD(Const)
NO_GRAD(Iota)
NO_GRAD(Read)
NO_GRAD(Write)
NO_GRAD(Rand)
NO_GRAD(Grad)
NO_GRAD(Commit)
NO_GRAD(ReduceStart)
NO_GRAD(ReduceWait)

static bool has_ints(Infer *q, Op op, uint32_t n) {
    return q->attr->n == n ||
           infer_fail(q, "%s has %u attributes, not %u", op_info[op].text, n, q->attr->n);
}

bool infer_Const(Infer *q) {
    uint8_t dtype = q->out.rank == TYPE_UNSTATED ? DtF32 : q->out.dtype;
    q->out = (Type){.dtype = dtype};
    return has_ints(q, OpConst, 1);
}

// The flat index over the masked axes of the wanted type; the other axes have extent 1.
bool infer_Iota(Infer *q) {
    if (!infer_wants(q, "iota") || !has_ints(q, OpIota, 1))
        return false;
    int64_t mask = q->attr->i[0];
    if (mask < 0 || mask >> (q->out.rank + 1))
        return infer_fail(q, "iota over axes that %s does not have", type_name(&q->out).s);
    q->out.batched = mask & 1;
    for (uint32_t i = 0; i < q->out.rank; i++)
        if (!(mask >> (1 + i) & 1))
            q->out.dim[i] = 1;
    return infer_counts(q, "an index", &q->out, mask);
}

bool infer_Read(Infer *q) {
    return infer_wants(q, "read") && has_ints(q, OpRead, 2);
}

bool infer_Write(Infer *q) {
    q->out = *infer_in(q, 0);
    return has_ints(q, OpWrite, 1);
}

bool infer_Rand(Infer *q) {
    if (!infer_wants(q, "a draw") || !has_ints(q, OpRand, 3))
        return false;
    int64_t dist = q->attr->i[0];
    if (dist < DistUniform || dist > DistCategorical)
        return infer_fail(q, "no distribution %lld", (long long)dist);
    // a draw's counter has 32 bits for the element (prelude.h): more of them would repeat
    return type_sample(&q->out) <= (int64_t)UINT32_MAX + 1 ||
           infer_fail(q, "a draw makes up to 2^32 numbers, not those of %s", type_name(&q->out).s);
}

bool infer_Pin(Infer *q) {
    q->out = *infer_in(q, 0);
    return has_ints(q, OpPin, 1);
}

Val grad_Pin(Val y, Val g, uint32_t k) {
    (void)y, (void)k;
    return g;
}

bool infer_Commit(Infer *q) {
    if (!type_same_shape(infer_in(q, 0), infer_in(q, 1)) || !infer_dtypes(q, 0, 2))
        return infer_fail(q, "a slot of %s cannot become %s", type_name(infer_in(q, 1)).s,
                          type_name(infer_in(q, 0)).s);
    q->out = *infer_in(q, 0);
    return has_ints(q, OpCommit, 1);
}

bool infer_Grad(Infer *q) {
    q->out = *infer_in(q, 1);
    return true;
}

static bool infer_shared(Infer *q, Op op, uint32_t ints) {
    const Type *x = infer_in(q, 0);
    q->out = *x;
    if (x->batched)
        return infer_fail(q, "%s is per-sample: ranks add shared values only", type_name(x).s);
    return has_ints(q, op, ints);
}

bool infer_ReduceStart(Infer *q) {
    return infer_shared(q, OpReduceStart, 3);
}

bool infer_ReduceWait(Infer *q) {
    return infer_shared(q, OpReduceWait, 2);
}
