// eval_leaf.c - leaves of the reference evaluator: constants, indices and draws. A draw is a
// function of its counters alone (prelude.h), so it depends on neither threads nor layout nor the
// number of ranks.
#include "eval.h"
#include "prelude.h"

void eval_Const(Eval *e) {
    value_put(e->out, e->f64, 0, bits_to_double(eval_ints(e)[0]));
}

void eval_Iota(Eval *e) {
    const Type *t = eval_type(e);
    uint32_t axes = (uint32_t)eval_ints(e)[0];
    Loop l;
    loop_init(&l, e->g, t);
    l.operands = 1;
    int64_t step = 1;
    for (uint32_t d = l.n; d-- > 0;) {
        if (axes >> d & 1) {
            l.stride[0][d] = step;
            step *= l.extent[d];
        }
    }
    l.base[0] =
        axes & 1 ? e->c->sample0 * l.stride[0][0] : 0; // samples are numbered over all ranks
    int64_t n = loop_size(&l);
    for (int64_t i = 0; i < n; i++) {
        int64_t index;
        loop_offsets(&l, l.n, i, &index);
        value_put(e->out, e->f64, i, (double)index);
    }
}

// Element `element` of sample `sample`, in the precision's own arithmetic: what a kernel draws.
static double draw(const Eval *e, const int64_t *ints, uint32_t sample, uint32_t element) {
    const Counters *c = e->c;
    uint32_t site = (uint32_t)ints[1];
    switch ((Dist)ints[0]) {
    case DistUniform:
        return e->f64 ? gan_uniform(c->seed, site, c->step, c->round, sample, element)
                      : (double)gan_uniformf(c->seed, site, c->step, c->round, sample, element);
    case DistNormal:
        return e->f64 ? gan_normal(c->seed, site, c->step, c->round, sample, element)
                      : (double)gan_normalf(c->seed, site, c->step, c->round, sample, element);
    case DistTruncated:
        return gan_truncated(c->seed, site, c->step, c->round, sample, element);
    case DistCategorical:
        return gan_categorical(c->seed, site, c->step, c->round, sample, element,
                               bits_to_double(ints[2]));
    }
    bug("node %u: no distribution %lld", e->id, (long long)ints[0]);
}

void eval_Rand(Eval *e) {
    const Type *t = eval_type(e);
    const int64_t *ints = eval_ints(e);
    int64_t size = type_sample(t), samples = t->batched ? e->g->batch : 1;
    int64_t first = t->batched ? e->c->sample0 : 0;
#pragma omp parallel for schedule(static) if (size * samples > LOOP_PARALLEL)
    for (int64_t i = 0; i < size * samples; i++) {
        value_put(e->out, e->f64, i,
                  draw(e, ints, (uint32_t)(first + i / size), (uint32_t)(i % size)));
    }
}
