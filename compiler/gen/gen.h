// gen.h - regions to kernel text. One emitter; a dialect is a table of strings and small functions.
#ifndef GAN_GEN_H
#define GAN_GEN_H

#include "plan.h"

typedef struct Dialect Dialect;
extern const Dialect dialect_c;        // C17 for the machine's compiler
extern const Dialect dialect_cuda;     // CUDA C++ for NVRTC
const Dialect *dialect_find(Str name); // "c", "cuda"; NULL when there is none

// Should the schedule save launches (PassOptions.few_launches)?
bool gen_few_launches(const Dialect *d);

// Has the dialect kernels of all regions? Of one that computes something of what it has summed only
// those for cards (PassOptions.few_launches).
bool gen_has(const Dialect *d, const Plan *plan);
// Writes the kernels of every RegionLoop into plan->kernel and fills plan->prelude and
// Region.kernel, units, grain, scratch, blocks, tickets and number. Kernel text is a function of
// the region's structure only: no node numbers, no spans, no sizes that are not small. So regions
// of equal structure share a kernel, in one plan and in a cache.
void gen_kernels(Arena *perm, Plan *plan, const Dialect *d);
// What profilers and messages call a kernel: its region's first operations, and a hash of the text
// that it has under another name. Regions of one text have one name.
Str kernel_name(Arena *a, const Graph *g, const Region *r, Str anonymous);
Str kernel_hash(Arena *a, Str anonymous); // the latter: some digits
// All kernels, each with its regions and the model's lines as comments (ganc emit --stage c).
void gen_print(Text *t, const Plan *plan, const Dialect *d);
Str gen_prelude(const Dialect *d); // shared functions: mathematics, Philox, bf16

#endif
