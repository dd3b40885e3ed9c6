// classes.c - the classes of packs that are read one after the other, as one list.
//
// In: the label fields of the packs. Out: the names of all classes, and for each pack its classes'
// numbers among them. Where every pack has names, these decide: a class is the same one in all
// packs, and the names are in their order, as in one folder that holds all. Classes without names
// keep their numbers.
#include "stream.h"

#include "pack_build.h"

#include <stdlib.h>

// Whether the names of the shorter list are those that the longer one begins with.
static bool begins_alike(const PackField *a, const PackField *b) {
    uint32_t n = a->classes < b->classes ? a->classes : b->classes, i = 0;
    while (i < n && str_eq(a->class_name[i], b->class_name[i]))
        i++;
    return i == n;
}

static void name_all(Arena *a, const PackField *const *field, uint32_t n, Classes *out) {
    StrVec names = {0};
    for (uint32_t k = 0; k < n; k++)
        for (uint32_t c = 0; c < field[k]->classes; c++)
            vec_push(a, &names, field[k]->class_name[c]);
    out->name = labels_sorted_names(&names, &out->n);
    out->names = out->n;
    for (uint32_t k = 0; k < n; k++) {
        uint32_t *of = arena_array(a, uint32_t, field[k]->classes);
        for (uint32_t c = 0; c < field[k]->classes; c++) {
            const Str *at =
                bsearch(&field[k]->class_name[c], out->name, out->n, sizeof *out->name, by_str);
            of[c] = (uint32_t)(at - out->name);
        }
        out->of[k] = of;
    }
}

void classes_join(Arena *a, const PackField *const *field, uint32_t n, Classes *out) {
    const PackField *longest = field[0];
    bool named = true, alike = true;
    *out = (Classes){.of = arena_array(a, const uint32_t *, n)};
    for (uint32_t k = 0; k < n; k++) {
        named = named && field[k]->class_name;
        longest = field[k]->classes > longest->classes ? field[k] : longest;
    }
    for (uint32_t k = 0; named && k < n; k++)
        alike = alike && begins_alike(longest, field[k]);
    if (!alike) {
        name_all(a, field, n, out);
        return;
    }
    out->n = longest->classes;
    out->name = named ? longest->class_name : NULL;
    out->names = named ? out->n : 0;
}
