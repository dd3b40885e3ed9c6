// table_fuzz.c - labels of four samples from the text of a table, in each of its forms: the only
// column, and several.
#include "fuzz.h"

#include "pack_build.h"

#include <math.h>

typedef struct Reading {
    Arena *arena;
    Str text, path, columns;
    Labels labels;
} Reading;

static GanStatus read_labels(void *user) {
    static Str name[] = {{"a/1.png", 7}, {"b/1.png", 7}, {"./2.jpg", 7}, {"3", 1}};
    StrVec members = {.at = name, .n = 4, .cap = 4};
    Reading *r = user;
    return labels_of_table(r->arena, r->text, r->path, &members, r->columns, &r->labels);
}

static void check(const Labels *l) {
    if (l->of.n > 4 || (l->width == 0) != (l->classes > 0))
        bug("labels of %u samples, %u numbers, %u classes", l->of.n, l->width, l->classes);
    for (uint32_t i = 0; i < l->of.n; i++) {
        if (!l->width && l->of.at[i].label >= l->classes)
            bug("class %u of %u", l->of.at[i].label, l->classes);
        for (uint32_t k = 0; k < l->width; k++)
            if (!isfinite(l->vector.at[(size_t)l->of.at[i].label * l->width + k]))
                bug("a number of a label is not finite");
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char *const paths[] = {"t.csv", "t.tsv", "t.txt"}, *const columns[] = {"", "a,b"};
    static Arena arena;
    if (!arena.base && arena_init(&arena, (size_t)1 << 30) != GAN_OK)
        return 0;
    for (int i = 0; i < 6; i++) {
        Arena scratch = arena;
        Reading r = {.arena = &scratch,
                     .text = {(const char *)data, size},
                     .path = str_c(paths[i % 3]),
                     .columns = str_c(columns[i / 3])};
        if (arena_guard(&scratch, "for labels", read_labels, &r) == GAN_OK)
            check(&r.labels);
    }
    return 0;
}
