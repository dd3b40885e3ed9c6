// eval_comm.c - collectives of the reference evaluator: it is one rank, whose sum is its own value.
// Devices that are one of several carry them out themselves.
#include "eval.h"

#include <string.h>

static void pass_on(Eval *e) {
    size_t one = e->f64 ? sizeof(double) : sizeof(float);
    memcpy(e->out, e->in[0], (size_t)type_elements(e->g, eval_type(e)) * one);
}

void eval_ReduceStart(Eval *e) {
    pass_on(e);
}

void eval_ReduceWait(Eval *e) {
    pass_on(e);
}
