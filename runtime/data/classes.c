// classes.c - the classes of packs that are read one after the other, as one list.
//
// In: the label fields of the packs, and the names that have numbers already, as those of a run
// that goes on. Out: the names of all classes, and for each pack its classes' numbers among them.
// Where every pack has names, these decide: a class is the same one in all packs, and new names are
// in their order, as in one folder that holds all. Classes without names keep their numbers.
#include "stream.h"

#include "pack_build.h"

#include <stdlib.h>
#include <string.h>

typedef struct Named {
    Str name;
    uint32_t number;
} Named;
typedef VEC(Named) NamedVec;

static int by_name(const void *a, const void *b) {
    return str_cmp(((const Named *)a)->name, ((const Named *)b)->name);
}

static void sort_names(NamedVec *v) {
    if (v->n)
        qsort(v->at, v->n, sizeof *v->at, by_name);
}

static const Named *find_name(const NamedVec *sorted, Str name) {
    const Named key = {.name = name};
    return sorted->n ? bsearch(&key, sorted->at, sorted->n, sizeof key, by_name) : NULL;
}

static void name_all(Arena *a, const PackField *const *field, uint32_t n, const PackField *known,
                     Classes *out) {
    StrVec all = {0}, names = {0};
    NamedVec number = {0};
    for (uint32_t c = 0; c < known->classes; c++) {
        vec_push(a, &names, known->class_name[c]);
        vec_push(a, &number, ((Named){known->class_name[c], c}));
    }
    sort_names(&number);
    for (uint32_t k = 0; k < n; k++)
        for (uint32_t c = 0; c < field[k]->classes; c++)
            if (!find_name(&number, field[k]->class_name[c]))
                vec_push(a, &all, field[k]->class_name[c]);
    uint32_t more;
    const Str *anew = labels_sorted_names(&all, &more);
    for (uint32_t c = 0; c < more; c++) {
        vec_push(a, &number, ((Named){anew[c], names.n}));
        vec_push(a, &names, anew[c]);
    }
    sort_names(&number);
    out->name = names.at;
    out->n = out->names = names.n;
    for (uint32_t k = 0; k < n; k++) {
        uint32_t *of = arena_array(a, uint32_t, field[k]->classes);
        for (uint32_t c = 0; c < field[k]->classes; c++)
            of[c] = find_name(&number, field[k]->class_name[c])->number;
        out->of[k] = of;
    }
}

// Whether the names of the shorter list are those that the longer one begins with.
static bool begins_alike(const PackField *a, const PackField *b) {
    uint32_t n = a->classes < b->classes ? a->classes : b->classes, i = 0;
    while (i < n && str_eq(a->class_name[i], b->class_name[i]))
        i++;
    return i == n;
}

void classes_join(Arena *a, const PackField *const *field, uint32_t n, const DataField *want,
                  Classes *out) {
    const PackField known = {.class_name = want->known, .classes = want->knowns};
    const PackField *longest = &known;
    bool named = true, alike = true;
    *out = (Classes){.of = arena_array(a, const uint32_t *, n)};
    for (uint32_t k = 0; k < n; k++)
        named = named && field[k]->class_name;
    for (uint32_t k = 0; k < n; k++)
        longest = (!named && longest == &known) || field[k]->classes > longest->classes ? field[k]
                                                                                        : longest;
    for (uint32_t k = 0; named && k < n; k++)
        alike = alike && begins_alike(longest, field[k]);
    if (named && !(alike && begins_alike(longest, &known))) {
        name_all(a, field, n, &known, out);
        return;
    }
    out->n = longest->classes;
    out->name = named ? longest->class_name : NULL;
    out->names = named ? out->n : 0;
}
