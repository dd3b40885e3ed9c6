// plan_fuzz.c - plans from any bytes: they are refused with a message, or kernels can be generated
// from them (except unfused ones), and they print, read back and print the same.
#include "fuzz.h"

#include "driver.h"

static Str printed(Arena *a, const Compiled *c) {
    Text t = {.arena = a};
    compiled_print(&t, c, PlanPlaced);
    return text_str(&t);
}

static void look(Arena *a, Str bytes) {
    Compiled c, again;
    Str error = {0};
    const Dialect *d = &dialect_c;
    if (compiled_read(a, bytes, NULL, &c, &error) && c.step.unfused)
        d = NULL; // there are no kernels of those
    if (compiled_read(a, bytes, d, &c, &error)) {
        Str text = printed(a, &c);
        if (!compiled_read(a, text, d, &again, &error) || !str_eq(text, printed(a, &again)))
            bug("what was printed does not read back: %.*s", SARG(error));
    } else if (error.len == 0) {
        bug("refused without a word");
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    fuzz_within(look, data, n);
    return 0;
}
