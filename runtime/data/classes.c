// classes.c - the classes of packs that are read one after the other, as one list.
//
// In: the label fields of the packs, and the names that have numbers already, as those of a run
// that goes on, or of one whose weights another begins with. Out: the names of all classes, and for
// each pack its classes' numbers among them. Where every pack has names, these decide: a class is
// the same one in all packs, and new names are in their order, as in one folder that holds all.
// Classes without names keep their numbers.
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

static void take_numbers(Arena *a, const PackField *const *field, uint32_t n, NamedVec *number,
                         Classes *out) {
    sort_names(number);
    for (uint32_t k = 0; k < n; k++) {
        uint32_t *of = arena_array(a, uint32_t, field[k]->classes);
        for (uint32_t c = 0; c < field[k]->classes; c++)
            of[c] = find_name(number, field[k]->class_name[c])->number;
        out->of[k] = of;
    }
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
    out->name = names.at;
    out->n = out->names = names.n;
    take_numbers(a, field, n, &number, out);
}

// Names that `like` has keep their numbers there, as far as the model's label has them; the others
// take those that are left, in their order. A number between that no source has keeps its name.
static void name_like(Arena *a, const PackField *const *field, uint32_t n, const DataField *want,
                      Classes *out) {
    StrVec all = {0};
    NamedVec number = {0}, liked = {0};
    uint32_t own, next = 0, most = 0;
    for (uint32_t k = 0; k < n; k++)
        for (uint32_t c = 0; c < field[k]->classes; c++)
            vec_push(a, &all, field[k]->class_name[c]);
    const Str *name = labels_sorted_names(&all, &own);
    bool *taken = arena_array(a, bool, want->likes + own);
    uint32_t *of = arena_array(a, uint32_t, own);
    for (uint32_t c = 0; c < want->likes && c < want->classes; c++)
        vec_push(a, &liked, ((Named){want->like[c], c}));
    sort_names(&liked);
    for (uint32_t i = 0; i < own; i++) {
        const Named *kept = find_name(&liked, name[i]);
        of[i] = kept ? kept->number : UINT32_MAX;
        if (kept)
            taken[of[i]] = true;
    }
    for (uint32_t i = 0; i < own; i++) {
        while (of[i] == UINT32_MAX && taken[next])
            next++;
        if (of[i] == UINT32_MAX)
            taken[of[i] = next] = true;
        most = of[i] >= most ? of[i] + 1 : most;
        vec_push(a, &number, ((Named){name[i], of[i]}));
    }
    Str *names = arena_array(a, Str, most);
    for (uint32_t c = 0; c < most && c < want->likes; c++)
        names[c] = want->like[c];
    for (uint32_t i = 0; i < own; i++)
        names[of[i]] = name[i];
    out->name = names;
    out->n = out->names = most;
    take_numbers(a, field, n, &number, out);
}

static bool is_number_of(Str name, uint32_t class) {
    char z[16];
    snprintf(z, sizeof z, "%u", class);
    return str_eq(name, str_c(z));
}

// Where names are the numbers, both are the same.
bool classes_mix(const PackField *const *field, uint32_t n, uint32_t *named, uint32_t *bare) {
    *named = *bare = n;
    for (uint32_t k = 0; k < n; k++) {
        bool words = false;
        for (uint32_t c = 0; field[k]->class_name && c < field[k]->classes; c++)
            words = words || !is_number_of(field[k]->class_name[c], c);
        *named = words && *named == n ? k : *named;
        *bare = !field[k]->class_name && *bare == n ? k : *bare;
    }
    return *named < n && *bare < n;
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
    if (named && want->likes && !want->knowns) {
        name_like(a, field, n, want, out);
        return;
    }
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
