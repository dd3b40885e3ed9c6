// op_comm.c - shape rules of the collectives: ReduceStart and ReduceWait. They are made by
// pass/shard.c, after differentiation, so they have no gradients; between the two a value belongs
// to the communicator.
#include "op.h"

static bool infer_shared(Infer *q, uint32_t ints) {
    const Type *x = infer_in(q, 0);
    q->out = *x;
    if (x->batched)
        return infer_fail(q, "%s is per-sample: ranks add shared values only", type_name(x).s);
    return q->attr->n == ints || infer_fail(q, "a collective with %u attributes", q->attr->n);
}

bool infer_ReduceStart(Infer *q) {
    return infer_shared(q, 3);
}

bool infer_ReduceWait(Infer *q) {
    return infer_shared(q, 2);
}

Val grad_ReduceStart(Val y, Val g, uint32_t k) {
    bug("gradient of a collective: node %u, incoming %u, operand %u", y.id, g.id, k);
}

Val grad_ReduceWait(Val y, Val g, uint32_t k) {
    bug("gradient of a collective: node %u, incoming %u, operand %u", y.id, g.id, k);
}
