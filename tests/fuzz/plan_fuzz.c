// plan_fuzz.c - plans from any bytes: they are refused with a message, or kernels can be generated
// from them (except unfused ones), and they print, read back and print the same.
#include "fuzz.h"

#include "driver.h"

#include <setjmp.h>

static Str printed(Arena *a, const Compiled *c) {
    Text t = {.arena = a};
    compiled_print(&t, c, PlanPlaced);
    return text_str(&t);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    Arena a;
    Compiled c, again;
    Str error = {0};
    if (arena_init(&a, (size_t)1 << 30) != GAN_OK)
        bug("%s", gan_error());
    jmp_buf full;
    a.oom = &full;
    if (setjmp(full) == 0) {
        Str text = {(const char *)data, n};
        const Dialect *d = &dialect_c;
        if (compiled_read(&a, text, NULL, &c, &error) && c.step.unfused)
            d = NULL; // there are no kernels of those
        if (compiled_read(&a, text, d, &c, &error)) {
            text = printed(&a, &c);
            if (!compiled_read(&a, text, d, &again, &error) || !str_eq(text, printed(&a, &again)))
                bug("what was printed does not read back: %.*s", SARG(error));
        } else if (error.len == 0) {
            bug("refused without a word");
        }
    }
    arena_release(&a);
    return 0;
}
