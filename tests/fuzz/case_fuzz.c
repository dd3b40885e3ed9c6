// case_fuzz.c - a reference case from any bytes: it is refused with a message, or its model is
// opened with its options, fed and checked as far as possible.
#define _GNU_SOURCE
#include "folder.h"

#include "verify.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    static Arena arena;
    static VerifyOptions o = {.api = &device_ref, .real = DtF64, .device = {.threads = 1}};
    if (!arena.base) {
        if (arena_init(&arena, (size_t)1 << 30) != GAN_OK)
            bug("%s", gan_error());
        o.model = STR(MODEL);
        o.reference = path_join(&arena, folder_make(), STR("case.json"));
    }
    Arena mark = arena;
    Text report = {.arena = &arena}, diagnostics = {.arena = &arena};
    folder_put(arena, o.reference, data, n);
    if (verify_case(&o, &report, &diagnostics) != GAN_OK && !*gan_error() && !diagnostics.n)
        bug("refused without a word");
    arena = mark;
    return 0;
}
