// ganx_fuzz.c - a compiled model from any bytes: it is refused with words, or has all its parts.
#include "fuzz.h"

#include "driver.h"

#include <setjmp.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    Arena a;
    Ganx g;
    if (arena_init(&a, (size_t)1 << 30) != GAN_OK)
        bug("%s", gan_error());
    jmp_buf full;
    a.oom = &full;
    if (setjmp(full) == 0) {
        GanStatus status = ganx_parse(&a, (Str){(const char *)data, n}, STR("x.ganx"), &g);
        if (status == GAN_OK && (!g.model.ptr || !g.plan.ptr || !g.hash.len || g.batch < 1))
            bug("accepted without all its parts");
        if (status != GAN_OK && !*gan_error())
            bug("refused without a word");
    }
    arena_release(&a);
    return 0;
}
