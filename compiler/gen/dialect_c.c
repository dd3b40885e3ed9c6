// dialect_c.c - C17 for the machine's own compiler.
#include "dialect.h"
#include "nest.h"

#include "embed.h"

extern const EmbeddedFile prelude_c[]; // prelude.h and kernel_c.h, joined (CMakeLists.txt)

static const MathName math[] = {
    {"pow", "gan_powf", "pow"},       {"exp", "gan_expf", "exp"}, {"log", "gan_logf", "log"},
    {"log1p", "gan_log1pf", "log1p"}, {"sqrt", "sqrtf", "sqrt"},  {"tanh", "gan_tanhf", "tanh"},
    {"erf", "gan_erff", "erf"},       {"sin", "gan_sinf", "sin"}, {"cos", "gan_cosf", "cos"},
    {"floor", "floorf", "floor"},     {"fabs", "fabsf", "fabs"},  {0},
};

static Str prelude(void) {
    return (Str){prelude_c[0].text, prelude_c[0].len};
}

const Dialect dialect_c = {
    .name = "c",
    .storage = {[DtF64] = "double", [DtF32] = "float", [DtBF16] = "uint16_t"},
    .compute = {[DtF64] = "double", [DtF32] = "float", [DtBF16] = "float"},
    .load = {[DtF64] = "", [DtF32] = "", [DtBF16] = "gan_bf16_to_f32"},
    .store = {[DtF64] = "", [DtF32] = "", [DtBF16] = "gan_f32_to_bf16"},
    .math = math,
    .draw32 = {[DistUniform] = "gan_uniformf",
               [DistNormal] = "gan_normalf",
               [DistTruncated] = "gan_truncatedf",
               [DistCategorical] = "gan_categoricalf"},
    .draw64 = {[DistUniform] = "gan_uniform",
               [DistNormal] = "gan_normal",
               [DistTruncated] = "gan_truncated",
               [DistCategorical] = "gan_categorical"},
    .index = "int64_t",
    .signature = "void %.*s(void *const *p, const gan_counters *c, int64_t lo, int64_t hi) {\n",
    .finish = "void %.*s_finish(void *const *p) {\n",
    .simd = "GAN_SIMD",
    .in_order = "GAN_IN_ORDER",
    .shape = nest_shape,
    .kernel = emit_loops,
    .prelude = prelude,
};
