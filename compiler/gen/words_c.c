// words_c.c - names of types and functions in C and in CUDA C++, which share the prelude.
#include "dialect.h"

static const MathName math[] = {
    {"pow", "gan_powf"},   {"exp", "gan_expf"},
    {"log", "gan_logf"},   {"log1p", "gan_log1pf"},
    {"sqrt", "gan_sqrtf"}, {"tanh", "gan_tanhf"},
    {"erf", "gan_erff"},   {"sin", "gan_sinf"},
    {"cos", "gan_cosf"},   {0},
};

const Words words_c = {
    .storage = {[DtF64] = "double", [DtF32] = "float", [DtBF16] = "uint16_t", [DtF16] = "uint16_t"},
    .compute = {[DtF64] = "double", [DtF32] = "float", [DtBF16] = "float", [DtF16] = "float"},
    .load = {[DtF64] = "", [DtF32] = "", [DtBF16] = "gan_bf16_to_f32", [DtF16] = "gan_f16_to_f32"},
    .store = {[DtF64] = "", [DtF32] = "", [DtBF16] = "gan_f32_to_bf16", [DtF16] = "gan_f32_to_f16"},
    .round = {[DtBF16] = "gan_round_bf16", [DtF16] = "gan_round_f16"},
    .math = math,
    .draw32 = {[DistUniform] = "gan_uniformf",
               [DistNormal] = "gan_normalf",
               [DistTruncated] = "gan_truncatedf",
               [DistCategorical] = "gan_categoricalf"},
    .draw64 = {[DistUniform] = "gan_uniform",
               [DistNormal] = "gan_normal",
               [DistTruncated] = "gan_truncated",
               [DistCategorical] = "gan_categorical"},
};
