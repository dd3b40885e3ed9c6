// yaml_fuzz.c - any bytes as a YAML model: diagnostics or a tree, never a crash. A tree's own YAML
// parses without errors and gives the same YAML again.
#include "fuzz.h"

#include "front.h"

static Arena arena;

static void check_round_trip(const Ast *file) {
    Text once = {.arena = &arena}, twice = {.arena = &arena};
    ast_to_yaml(&once, file);
    Front f;
    front_init(&f, &arena);
    uint32_t source = front_add_source(&f, STR("again.yaml"), text_str(&once), false);
    const Ast *again = source ? parse_yaml(&f, source) : NULL;
    if (!again || diag_errors(&f))
        bug("the YAML of a tree does not read");
    ast_to_yaml(&twice, again);
    if (!str_eq(text_str(&once), text_str(&twice)))
        bug("the YAML of a tree has other YAML");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    if (!arena.base && arena_init(&arena, 0) != GAN_OK)
        return 0;
    Arena mark = arena;
    Front f;
    front_init(&f, &arena);
    uint32_t source = front_add_source(&f, STR("fuzz.yaml"), (Str){(const char *)data, n}, false);
    const Ast *file = source ? parse_yaml(&f, source) : NULL;
    if (file && !diag_errors(&f))
        check_round_trip(file);
    Text t = {.arena = &arena};
    diag_render(&t, &f, true);
    arena = mark;
    return 0;
}
