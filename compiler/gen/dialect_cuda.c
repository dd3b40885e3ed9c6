// dialect_cuda.c - CUDA C++ for NVRTC. Its functions are the prelude's, so random draws and
// mathematics are those of every other device.
#include "anchor.h"
#include "dialect.h"
#include "nest.h"

#include "embed.h"

extern const EmbeddedFile prelude_cuda[]; // kernel_cuda.h, reduce.cuh, half.h, prelude.h,
                                          // table.cuh, anchor_words.h, anchor.cuh, grouped.cuh,
                                          // fft_words.h, fft.cuh, order_words.h, order.cuh
                                          // (CMakeLists.txt)

static Str prelude(void) {
    return (Str){prelude_cuda[0].text, prelude_cuda[0].len};
}

const Dialect dialect_cuda = {
    .name = "cuda",
    .index = "int",
    .test = "bool",
    .divide = "gan_divf",
    .load_if = "gan_load_if",
    .written_out = 5, // layers of 8 and 16 pixels share their kernels with larger ones
    .names_indices = true,
    .merges = true,
    .shape = nest_shape_team,
    .kernel = emit_team,
    .calls = anchor_kernels,
    .prelude = prelude,
};
