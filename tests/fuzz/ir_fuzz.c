// ir_fuzz.c - a module from any bytes: it is refused with a message, or it prints, reads back and
// prints the same.
#include "fuzz.h"

#include "program.h"

static Str printed(Arena *a, const Module *m) {
    Text t = {.arena = a};
    module_print(&t, m);
    return text_str(&t);
}

static void look(Arena *a, Str bytes) {
    Module m, again;
    Str error = {0};
    if (module_read(a, bytes, &m, &error)) {
        Str text = printed(a, &m);
        if (!module_read(a, text, &again, &error) || !str_eq(text, printed(a, &again)))
            bug("what was printed does not read back: %.*s", SARG(error));
    } else if (error.len == 0) {
        bug("refused without a word");
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    fuzz_within(look, data, n);
    return 0;
}
