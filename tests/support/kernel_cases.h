// kernel_cases.h - for tests: small graphs that together cover every kind of kernel, fused and
// with their kernels generated in a dialect. The elementwise ones iterate over lang/ops.def, so a
// new row is tested without further work.
#ifndef GAN_TEST_KERNEL_CASES_H
#define GAN_TEST_KERNEL_CASES_H

#include "gen.h"

typedef struct Cases Cases;
typedef struct Case {
    Cases *all; // borrowed
    char name[64];
    double tolerance; // relative to the largest element
    bool rounds;      // the reference rounds to 16 bits too; else it computes in f64 throughout
    Module m;         // slots, and `step`: results and written slots
    Builder at;       // adds to `step`
    Plan plan;        // regions in order, with kernels; neither scheduled nor placed in memory
} Case;

struct Cases {
    Arena *arena;           // given
    const Dialect *dialect; // given
    VEC(Case *) at;
};

// A case of one's own: begin, build a graph on inputs and give results, finish. Names are
// formatted.
Case *case_begin(Cases *all, int64_t batch, double tolerance, const char *format, ...);
Val case_input(Case *c, Type t); // of a slot of its own
void case_result(Case *c, Val v);
void case_finish(Case *c, Dtype real); // fuses it and generates kernels

// Every case, in out->arena and out->dialect.
void kernel_cases(Cases *out);

// The distinct kernels of all cases, in order of first use.
typedef VEC(const Kernel *) KernelVec;
void kernel_cases_kernels(const Cases *c, KernelVec *out);

#endif
