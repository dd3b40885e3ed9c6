// json_fuzz.c - a JSON document from any bytes: it is refused with a message, or its written form
// reads back and is written the same.
#include "fuzz.h"

#include "base.h"

static void write(JsonOut *j, Arena *a, const Json *v) {
    enum { Deep = 30 }; // we write nothing deeper than that, but read it
    bool object = json_key(json_at(v, 0)).ptr != NULL;
    if (json_is_string(v))
        json_put_str(j, json_string(v, (Str){0}));
    else if (json_is_number(v))
        json_put_double(j, json_number(v, 0));
    else if ((!json_is_array(v) && !json_count(v)) || j->depth == Deep)
        json_put_bool(j, json_bool(v, false)); // or null, or no members
    else {
        json_open(j, object ? '{' : '[');
        for (uint32_t i = 0; i < json_count(v); i++) {
            if (object)
                json_name(j, str_z(a, json_key(json_at(v, i))));
            write(j, a, json_at(v, i));
        }
        json_close(j, object ? '}' : ']');
    }
}

static Str written(Arena *a, const Json *v) {
    Text t = {.arena = a};
    JsonOut j = {.text = &t};
    write(&j, a, v);
    return text_str(&t);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    static Arena arena;
    if (!arena.base && arena_init(&arena, 0) != GAN_OK)
        return 0;
    Arena mark = arena;
    Str text = {(const char *)data, n}, once;
    const Json *root, *again;
    if (json_parse(&arena, text, STR("fuzz.json"), &root) != GAN_OK) {
        if (!*gan_error())
            bug("refused without a word");
    } else {
        once = written(&arena, root);
        if (json_parse(&arena, once, STR("again.json"), &again) != GAN_OK)
            bug("what was written does not read back: %s", gan_error());
        if (!str_eq(once, written(&arena, again)))
            bug("what was written is written otherwise: %.*s", SARG(once));
    }
    arena = mark;
    return 0;
}
