// eval_comm.c - collectives of the reference evaluator: it is one rank, whose sum is its own value.
// Devices that are one of several carry them out themselves.
#include "eval.h"

#include <string.h>

static void pass_on(Eval *e) {
    memcpy(e->out, e->in[0], type_bytes(e->g, eval_type(e)));
}

void eval_ReduceStart(Eval *e) {
    pass_on(e);
}

void eval_ReduceWait(Eval *e) {
    pass_on(e);
}
