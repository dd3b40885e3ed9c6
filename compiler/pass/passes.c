// passes.c - the passes over a function's graph: this screen is the whole order. What becomes of
// the graph then is plan_make() (plan/plan.c).
#include "pass.h"

typedef struct Pass {
    const char *name;
    PassFn *run;
    uint64_t removes; // operations, as bits: there is no node of them from here on
    uint64_t adds;    // there may be some again
} Pass;

#define BIT(Name) ((uint64_t)1 << Op##Name)
static_assert(OpCount <= 64, "a bit for each operation");

// Simplification and sharing are no pass: every builder_add does them (lang/rules.def).
static const Pass passes[] = {
    // needs an elaborated graph and loss_scale_slots, else does nothing
    {"loss_scale", pass_loss_scale, 0, 0},
    // needs an elaborated graph; keeps values but for rounding
    {"join_inputs", pass_join_inputs, 0, 0},
    // needs an elaborated graph
    {"grad", pass_grad, BIT(Grad), 0},
    // needs to be `init`, else does nothing; leaves it without writes of zero
    {"drop_zero_stores", pass_drop_zero_stores, 0, 0},
    // needs no Grad nodes; leaves only what an effect or a root needs; breaks later
    // differentiation, and node numbers, as all below do
    {"drop_identities", pass_drop_identities, BIT(Pin) | BIT(Stop) | BIT(Commit), 0},
    // needs no Grad, Pin, Stop; keeps values but for rounding; leaves only shared convolution
    // weights
    {"unfold", pass_unfold, 0, 0},
    // needs no Grad, Pin, Stop; keeps values but for rounding
    {"one_hot", pass_one_hot, 0, 0},
    // needs no Grad, Pin, Stop, and one precision; keeps values but for rounding
    {"join_sums", pass_join_sums, 0, 0},
    // needs no Grad, Pin, Stop; keeps every value's bits, if y stays wide; leaves fewer values
    // live until the backward pass
    {"mask", pass_mask, 0, 0},
    // needs no Grad, Pin, Stop; leaves storage types with casts between; breaks equality of types
    {"dtype", pass_dtype, 0, 0},
    // needs the final precision and only shared convolution weights; keeps values but for rounding
    {"fold_strides", pass_fold_strides, 0, 0},
    // needs the same; keeps values but for rounding
    {"pad_channels", pass_pad_channels, 0, 0},
    // needs the final precision and the global batch; keeps values but for rounding
    {"strips", pass_strips, 0, BIT(Pin)},
    // needs no Grad, Stop, and the global batch; keeps values but for rounding
    {"split_sums", pass_split_sums, 0, 0},
    // needs the final precision and Module.share; leaves a step of blocks for this rank's chunks,
    // with collectives; breaks what is said of the global batch
    {"chunk", pass_chunk, 0, 0},
    // needs the same; leaves what is not in chunks for this rank's samples, with collectives;
    // breaks what is said of the global batch
    {"shard", pass_shard, 0, 0},
    // needs the final precision and this rank's samples; keeps values but for rounding; breaks what
    // looks for squares about a mean by their pattern (centre_of)
    {"moments", pass_moments, 0, 0},
    // needs the final precision and this rank's samples; keeps every value's bits
    {"innermost", pass_innermost, 0, 0},
    // needs the same and final layouts; keeps every value's bits
    {"as_samples", pass_as_samples, 0, BIT(Pin)},
};

static void check(const Module *m, const Func *f, const Pass *after, uint64_t removed) {
    Arena scratch;
    Str error;
    arena_need(&scratch);
    if (!func_verify(m, f, &scratch, &error))
        bug("after %s: %.*s", after->name, SARG(error));
    for (uint32_t id = 1; id < f->g.node.n; id++)
        if (removed >> graph_node(&f->g, id)->op & 1)
            bug("after %s: %.*s: node %u is %s", after->name, SARG(f->name), id,
                op_info[graph_node(&f->g, id)->op].text);
    arena_release(&scratch);
}

void passes_run(Arena *perm, const Module *m, Func *f, const PassOptions *o,
                const char *stop_after) {
    uint64_t removed = 0;
    for (size_t i = 0; i < sizeof passes / sizeof *passes; i++) {
        passes[i].run(perm, m, f, o);
        removed = (removed | passes[i].removes) & ~passes[i].adds;
        if (o->verify_each)
            check(m, f, &passes[i], removed);
        if (stop_after && str_eq(str_c(stop_after), str_c(passes[i].name)))
            return;
    }
}
