// report.h - the command line of the reports beside it: PRECISION MODEL.gan[:BATCH]...
#ifndef GAN_REPORT_H
#define GAN_REPORT_H

#include "driver.h"

#include <string.h>

// DtCount where the first word is no type or no model follows it.
static inline Dtype report_real(int argc, char **argv) {
    for (int i = 0; argc > 2 && i < DtCount; i++)
        if (!strcmp(argv[1], dtype_name[i]))
            return (Dtype)i;
    return DtCount;
}

static inline GanStatus report_model(Str word, Dtype real, CompileOptions *out) {
    size_t colon = str_find(word, ':');
    *out =
        (CompileOptions){.path = str_sub(word, 0, colon), .real = real, .dialect = &dialect_cuda};
    if (colon < word.len && !str_to_int(str_sub(word, colon + 1, word.len), &out->batch))
        return fail(GAN_ERR_USAGE, "%.*s: behind the colon belongs a batch", SARG(word));
    return GAN_OK;
}

#endif
