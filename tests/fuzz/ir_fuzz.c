// ir_fuzz.c - a module from any bytes: it is refused with a message, or it prints, reads back and
// prints the same.
#include "fuzz.h"

#include "program.h"

#include <setjmp.h>

static Str printed(Arena *a, const Module *m) {
    Text t = {.arena = a};
    module_print(&t, m);
    return text_str(&t);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    Arena a;
    Module m, again;
    Str error = {0};
    if (arena_init(&a, (size_t)1 << 30) != GAN_OK)
        bug("%s", gan_error());
    jmp_buf full;
    a.oom = &full;
    if (setjmp(full) == 0) {
        if (module_read(&a, (Str){(const char *)data, n}, &m, &error)) {
            Str text = printed(&a, &m);
            if (!module_read(&a, text, &again, &error) || !str_eq(text, printed(&a, &again)))
                bug("what was printed does not read back: %.*s", SARG(error));
        } else if (error.len == 0) {
            bug("refused without a word");
        }
    }
    arena_release(&a);
    return 0;
}
