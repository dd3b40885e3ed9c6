// dialect_c.c - C17 for the machine's own compiler.
#include "dialect.h"
#include "nest.h"

#include "embed.h"

extern const EmbeddedFile prelude_c[]; // half.h, prelude.h and kernel_c.h, joined (CMakeLists.txt)

static Str prelude(void) {
    return (Str){prelude_c[0].text, prelude_c[0].len};
}

const Dialect dialect_c = {
    .name = "c",
    .index = "int64_t",
    .test = "int", // of bool compilers make no vectors
    .signature = "void %.*s(void *const *p, const gan_counters *c, int64_t lo, int64_t hi) {\n",
    .draws = "GAN_DRAWS ",
    .finish = "GAN_SELDOM void %.*s_finish(void *const *p) {\n",
    .simd = "GAN_SIMD",
    .few = "GAN_FEW(%d)",
    .in_order = "GAN_IN_ORDER",
    .written_out = 16, // loops so short are better with their number known
    .shape = nest_shape,
    .kernel = emit_loops,
    .prelude = prelude,
};
