// gen.h - regions to kernel text. One emitter; a dialect is a table of strings and small functions.
#ifndef GAN_GEN_H
#define GAN_GEN_H

#include "pass.h"

typedef struct Dialect Dialect;
extern const Dialect dialect_c;        // C17 for the machine's compiler
const Dialect *dialect_find(Str name); // "c"; NULL when there is none

// Writes the kernels of every RegionLoop and RegionCopy into plan->kernel (equal regions share one) and fills
// Region.kernel. Kernel text is a function of the region's structure only: no node numbers, no spans.
void gen_kernels(Arena *perm, Plan *plan, const Dialect *d);
// The pointers a kernel takes, in order: args[i] is a node; outputs follow inputs.
void gen_print(Text *t, const Plan *plan, const Dialect *d);   // whole text with the model's lines as comments (ganc emit --stage c)
Str gen_prelude(const Dialect *d);                             // shared functions: mathematics, Philox, bf16

#endif
