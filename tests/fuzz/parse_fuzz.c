// parse_fuzz.c - any bytes as a .gan file: diagnostics or a tree, never a crash. What parses is
// formatted to the same text twice, and keeps its tree through formatting and through printing and
// parsing.
#include "fuzz.h"

#include "front.h"

static Arena arena;

static Str tree_of(const Ast *a) {
    Text t = {.arena = &arena};
    ast_print(&t, a);
    return text_str(&t);
}

static uint32_t read_again(Front *f, Str text, Ast **out) {
    front_init(f, &arena);
    uint32_t source = front_add_source(f, STR("again.gan"), text, true);
    if (source)
        *out = parse_gan(f, source);
    return source;
}

static void check_layout(Front *f, uint32_t source, Str tree) {
    Text once = {.arena = &arena}, twice = {.arena = &arena};
    if (!fmt_source(&once, f, source))
        bug("what parsed was not laid out");
    Front g;
    Ast *again = NULL;
    uint32_t second = read_again(&g, text_str(&once), &again);
    if (!second || diag_errors(&g))
        bug("the layout does not parse");
    if (!str_eq(tree_of(again), tree))
        bug("the layout changed the tree");
    fmt_source(&twice, &g, second);
    if (!str_eq(text_str(&once), text_str(&twice)))
        bug("the layout is not idempotent");
}

static void check_text(const Ast *file, Str tree) {
    Text text = {.arena = &arena};
    ast_to_gan(&text, file);
    Front g;
    Ast *again = NULL;
    if (!read_again(&g, text_str(&text), &again) || diag_errors(&g))
        bug("the text of a tree does not parse");
    if (!str_eq(tree_of(again), tree))
        bug("the text of a tree has another tree");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    if (!arena.base && arena_init(&arena, 0) != GAN_OK)
        return 0;
    Arena mark = arena;
    Front f;
    front_init(&f, &arena);
    uint32_t source = front_add_source(&f, STR("fuzz.gan"), (Str){(const char *)data, n}, true);
    if (source) {
        const Ast *file = parse_gan(&f, source);
        if (!diag_errors(&f)) {
            check_layout(&f, source, tree_of(file));
            check_text(file, tree_of(file));
        }
    }
    Text t = {.arena = &arena};
    diag_render(&t, &f, true);
    diag_render_json(&t, &f);
    arena = mark;
    return 0;
}
