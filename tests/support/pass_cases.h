// pass_cases.h - for tests: models and programs before and after a pass over their graphs.
#ifndef GAN_PASS_CASES_H
#define GAN_PASS_CASES_H

#include "plan.h"

// The model with these settings (TrialOptions.set), its step as it is after the pass `until`, NULL:
// after all.
Module *pass_model(Arena *a, const char *text, const char *set, int64_t batch, const PassOptions *o,
                   const char *until);
// Two steps leave every slot the same, but for rounding.
void pass_assert_same(Arena *a, const Module *before, const Module *after);
// The same to 1e-12, of the case `name`.
void pass_assert_equal(Arena *a, const char *name, const Module *before, const Module *after);
// Every gradient of a text without its first line, batch 3, is the slope of its loss.
void pass_assert_slopes(const char *name, const char *text);

// A text without its first line, of batch 3, and two numbers that the test gives a meaning.
typedef struct PassCase {
    const char *name, *text;
    uint32_t count[2];
} PassCase;
typedef void PassCheck(Arena *a, const PassCase *c);
void pass_each(const PassCase *c, size_t n, PassCheck *check); // in an arena of its own
void pass_each_slope(const PassCase *c, size_t n);             // pass_assert_slopes
// Its module, as pass_model() gives it.
Module *pass_text(Arena *a, const char *text, Dtype real, const char *until);

uint32_t pass_count(Arena *a, const Module *m, Op op); // live nodes of the step

bool pass_is_conv(const Graph *g, uint32_t id); // or one of its gradients

typedef void PassProgram(Arena *a, uint64_t seed, Module *out);
typedef uint32_t PassCount(const Func *before, const Func *after);
// Programs of these seeds have the same results after the pass. Returns the sum of what `count`
// says of each.
uint32_t pass_programs(uint64_t seeds, PassProgram *make, PassFn *pass, const PassOptions *o,
                       PassCount *count);

// A step of nets G(z: [5]) and D of images x, with a gradient penalty: gradients of second order.
#define PASS_STEP                                                                                  \
    "step {\n"                                                                                     \
    "  z = normal(5)\n"                                                                            \
    "  mix = 0.3*x + 0.7*G(z)\n"                                                                   \
    "  slope = grad(D(mix), mix)\n"                                                                \
    "  update D minimize mean(D(x)^2) + mean((norm(slope) - 1)^2) using sgd(0.1)\n"                \
    "  update G minimize mean((D(G(z)) - 1)^2) + mean(abs(G(z) - x)) using sgd(0.1)\n"             \
    "}\n"

#endif
