// pair.c - samples of several sources that belong together, such as the two images of a pair.
//
// In: sides, each the concatenated packs of one field. Out: for every joint sample, its number on
// each side. Sides made of files are joined by file name, without the extension and relative to
// their source: an archive stores its members in any order, and a missing file must not shift all
// pairs after it. Joint samples keep the order of the first side of files. Arrays have no names:
// their rows follow that side by number, and where some rows were left out, their own numbers say
// which belong together. Names that differ everywhere (`1_photo.png`,
// `1_label.png`) tell nothing: such sides of equal size are joined by number, with a notice.
#include "pack_build.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define NO_PARTNER UINT64_MAX

typedef struct Key {
    uint32_t source; // the number of its pack, where both sides have as many; else 0
    uint64_t row;    // of an array, in its file; else 0
    Str stem;        // of a file's name; else empty
    Str name;        // for messages
    uint64_t at;     // its number on its side
} Key;

typedef struct Lone { // samples of one side without a partner
    uint64_t n, first;
    Str name; // of the first
} Lone;

// --- keys ----------------------------------------------------------------------------------------

static bool made_of_files(const PairSide *s) {
    for (uint32_t k = 0; k < s->packs; k++)
        if (!source_words_have_members(s->pack[k].source))
            return false;
    return true;
}

// Length of the folders that all names of a pack begin with, as when one side is an archive of a
// folder, and the other of its content.
static size_t common_folders(const Pack *p) {
    Str first = member_path(pack_name(p, 0));
    size_t n = first.len - path_base(first).len;
    for (uint64_t i = 1; n && i < p->count; i++) {
        Str name = member_path(pack_name(p, i));
        while (n && !str_starts(name, str_sub(first, 0, n)))
            for (n--; n && first.ptr[n - 1] != '/';)
                n--;
    }
    return n;
}

// [s->count] in the side's order. `inside`: names are relative to the folder that has all of them.
static Key *side_keys(Arena *a, const PairSide *s, bool by_source, bool inside) {
    Key *key = arena_array(a, Key, s->count);
    uint64_t n = 0;
    for (uint32_t k = 0; k < s->packs; k++) {
        size_t skip = inside ? common_folders(&s->pack[k]) : 0;
        for (uint64_t i = 0; i < s->pack[k].count; i++, n++) {
            Str name = member_path(pack_name(&s->pack[k], i)), ext = path_ext(name);
            Str stem = str_sub(name, skip, name.len - ext.len - (ext.len > 0));
            key[n] = (Key){.source = by_source ? k : 0, .stem = stem, .name = stem, .at = n};
        }
    }
    return key;
}

// The row of a sample `NAME:ROW` in its array; one that does not say has its own number.
static uint64_t row_of(const Pack *p, uint64_t sample) {
    Str name = pack_name(p, sample);
    size_t at = name.len;
    int64_t row;
    while (at > 0 && name.ptr[at - 1] != ':')
        at--;
    return at && str_to_int(str_sub(name, at, name.len), &row) && row >= 0 ? (uint64_t)row : sample;
}

static bool lacks_array_rows(const PairSide *s) {
    for (uint32_t k = 0; k < s->packs; k++)
        for (uint64_t i = 0; i < s->pack[k].count; i++)
            if (!source_words_have_members(s->pack[k].source) && row_of(&s->pack[k], i) != i)
                return true;
    return false;
}

static Key *row_keys(Arena *a, const PairSide *s) {
    Key *key = arena_array(a, Key, s->count);
    uint64_t n = 0;
    for (uint32_t k = 0; k < s->packs; k++)
        for (uint64_t i = 0; i < s->pack[k].count; i++, n++)
            key[n] = (Key){.source = k,
                           .row = row_of(&s->pack[k], i),
                           .name = pack_name(&s->pack[k], i),
                           .at = n};
    return key;
}

static int compare_names(const Key *x, const Key *y) {
    int c = x->source < y->source ? -1 : x->source > y->source;
    c = c ? c : x->row < y->row ? -1 : x->row > y->row;
    return c ? c : str_cmp(x->stem, y->stem);
}

static int compare_keys(const void *a, const void *b) {
    const Key *x = a, *y = b;
    int c = compare_names(x, y);
    return c ? c : x->at < y->at ? -1 : x->at > y->at;
}

// --- two sides -----------------------------------------------------------------------------------

// Keys from `from` on with the same name.
static uint64_t run_length(const Key *key, uint64_t from, uint64_t n) {
    uint64_t end = from;
    while (end < n && compare_names(&key[end], &key[from]) == 0)
        end++;
    return end - from;
}

static void add_lone(Lone *l, const Key *key, uint64_t n) {
    for (uint64_t i = 0; i < n; i++, l->n++)
        if (!l->n || key[i].at < l->first)
            l->first = key[i].at, l->name = key[i].name;
}

// Joins sorted keys: match [nx] is the sample of y for each of x. A name that one side has more
// often than the other joins none: which of them belong together is unknown. Returns the number of
// joint samples.
static uint64_t join_sorted(const Key *x, uint64_t nx, const Key *y, uint64_t ny, uint64_t *match,
                            Lone lone[2]) {
    uint64_t joint = 0, i = 0, k = 0;
    lone[0] = lone[1] = (Lone){0};
    memset(match, 0xff, (size_t)nx * sizeof *match); // NO_PARTNER
    while (i < nx || k < ny) {
        int c = i == nx ? 1 : k == ny ? -1 : compare_names(&x[i], &y[k]);
        uint64_t ni = c <= 0 ? run_length(x, i, nx) : 0, nk = c >= 0 ? run_length(y, k, ny) : 0;
        if (ni == nk) {
            for (uint64_t r = 0; r < ni; r++)
                match[x[i + r].at] = y[k + r].at;
            joint += ni;
        } else {
            add_lone(&lone[0], x + i, ni);
            add_lone(&lone[1], y + k, nk);
        }
        i += ni;
        k += nk;
    }
    return joint;
}

// The same for sides in their own order.
static uint64_t join(Arena scratch, const PairSide *x, const PairSide *y, bool inside,
                     uint64_t *match, Lone lone[2]) {
    bool by_source = x->packs == y->packs, same = x->count == y->count;
    Key *kx = side_keys(&scratch, x, by_source, inside);
    Key *ky = side_keys(&scratch, y, by_source, inside);
    for (uint64_t i = 0; same && i < x->count; i++)
        same = compare_names(&kx[i], &ky[i]) == 0;
    if (same) { // nearly always: spares sorting
        lone[0] = lone[1] = (Lone){0};
        for (uint64_t i = 0; i < x->count; i++)
            match[i] = i;
        return x->count;
    }
    qsort(kx, (size_t)x->count, sizeof *kx, compare_keys);
    qsort(ky, (size_t)y->count, sizeof *ky, compare_keys);
    return join_sorted(kx, x->count, ky, y->count, match, lone);
}

// --- all sides -----------------------------------------------------------------------------------

static GanStatus refuse_counts(const PairSide *x, const PairSide *y) {
    return fail(GAN_ERR_INPUT,
                "%.*s: %" PRIu64 " samples, and %.*s has %" PRIu64
                "; fields of one `data` statement are read together: give each as many, files of "
                "the same names, or write a statement for each",
                SARG(y->name), y->count, SARG(x->name), x->count);
}

static GanStatus refuse_lone(const PairSide *x, const PairSide *y, const char *by,
                             const Lone lone[2]) {
    char text[2][256] = {"", ""};
    const PairSide *side[2] = {x, y};
    for (int i = 0; i < 2; i++)
        if (lone[i].n)
            snprintf(text[i], sizeof text[i], "%s%" PRIu64 " of %" PRIu64 " of %.*s, such as %.*s",
                     i && lone[0].n ? "; " : "", lone[i].n, side[i]->count, SARG(side[i]->name),
                     SARG(lone[i].name));
    return fail(GAN_ERR_INPUT,
                "%.*s and %.*s are paired by %s, and these have no partner: %s%s; "
                "--skip-bad leaves them out",
                SARG(x->name), SARG(y->name), by, text[0], text[1]);
}

static void tell_lone(Arena *perm, const PairSide *x, const PairSide *y, const PairOptions *o,
                      uint64_t joint, const Lone lone[2]) {
    if (lone[0].n || lone[1].n)
        o->notice(o->user, y->name,
                  str_format(perm,
                             "%" PRIu64 " pairs with %.*s; left out as they have no "
                             "partner: %" PRIu64 " of %.*s, %" PRIu64 " of %.*s",
                             joint, SARG(x->name), lone[0].n, SARG(x->name), lone[1].n,
                             SARG(y->name))
                      .ptr);
}

// Arrays of which rows were left out.
static GanStatus join_rows(Arena *perm, const PairSide *x, const PairSide *y, const PairOptions *o,
                           uint64_t *match) {
    Arena scratch = *perm;
    Lone lone[2];
    if (x->packs != y->packs || made_of_files(x) || made_of_files(y))
        return fail(
            GAN_ERR_INPUT,
            "%.*s and %.*s are paired by row, and rows of one were left out (--skip-bad): "
            "which belong together is not known; pair as many arrays with as many, or files "
            "with files",
            SARG(x->name), SARG(y->name));
    Key *kx = row_keys(&scratch, x), *ky = row_keys(&scratch, y);
    uint64_t joint = join_sorted(kx, x->count, ky, y->count, match, lone);
    if ((lone[0].n || lone[1].n) && !o->skip_lone)
        return refuse_lone(x, y, "row", lone);
    tell_lone(perm, x, y, o, joint, lone);
    return GAN_OK;
}

static GanStatus join_named(Arena *perm, const PairSide *x, const PairSide *y, const PairOptions *o,
                            uint64_t *match) {
    Lone lone[2];
    uint64_t joint = join(*perm, x, y, false, match, lone);
    if (!joint)
        joint = join(*perm, x, y, true, match, lone);
    if (joint && (o->skip_lone || (!lone[0].n && !lone[1].n))) {
        tell_lone(perm, x, y, o, joint, lone);
        return GAN_OK;
    }
    if (joint)
        return refuse_lone(x, y, "file name", lone);
    if (x->count != y->count)
        return refuse_counts(x, y);
    for (uint64_t i = 0; i < x->count; i++)
        match[i] = i;
    o->notice(o->user, y->name,
              str_format(perm,
                         "no file is named as one of %.*s: they are paired in order, the "
                         "first %.*s with %.*s",
                         SARG(x->name), SARG(pack_name(&x->pack[0], 0)),
                         SARG(pack_name(&y->pack[0], 0)))
                  .ptr);
    return GAN_OK;
}

// Rows follow the files as their source has them, which in an archive may be any order.
static void tell_order(Arena *perm, const PairSide *x, const PairSide *y, const PairOptions *o) {
    for (uint32_t k = 0; k < x->packs; k++)
        for (uint64_t i = 1; i < x->pack[k].count; i++) {
            if (str_cmp(pack_name(&x->pack[k], i - 1), pack_name(&x->pack[k], i)) <= 0)
                continue;
            o->notice(o->user, y->name,
                      str_format(perm,
                                 "its rows belong to the files of %.*s in the order of the "
                                 "archive, which is not that of their names: the first is %.*s",
                                 SARG(x->name), SARG(pack_name(&x->pack[0], 0)))
                          .ptr);
            return;
        }
}

static bool is_identity(const uint64_t *at, uint64_t n) {
    uint64_t i = 0;
    while (i < n && at[i] == i)
        i++;
    return i == n;
}

GanStatus pair_sides(Arena *perm, PairSide *side, uint32_t n, const PairOptions *o) {
    uint32_t first = 0;
    while (first < n && !made_of_files(&side[first]))
        first++;
    first = first < n ? first : 0;
    PairSide *x = &side[first];
    for (uint32_t i = 0; i < n; i++) {
        PairSide *y = &side[i];
        y->at = arena_array(perm, uint64_t, x->count);
        if (i != first && made_of_files(x) && made_of_files(y)) {
            TRY(join_named(perm, x, y, o, y->at));
            continue;
        }
        if (i != first && (lacks_array_rows(x) || lacks_array_rows(y))) {
            TRY(join_rows(perm, x, y, o, y->at));
            continue;
        }
        if (y->count != x->count)
            return refuse_counts(i < first ? y : x, i < first ? x : y);
        for (uint64_t k = 0; k < x->count; k++)
            y->at[k] = k;
        if (i != first && made_of_files(x))
            tell_order(perm, x, y, o);
    }
    uint64_t joint = 0, all = x->count;
    for (uint64_t k = 0; k < all; k++) {
        bool whole = true;
        for (uint32_t i = 0; i < n; i++)
            whole = whole && side[i].at[k] != NO_PARTNER;
        for (uint32_t i = 0; whole && i < n; i++)
            side[i].at[joint] = side[i].at[k];
        joint += whole;
    }
    for (uint32_t i = 0; i < n; i++)
        if (joint == side[i].count && is_identity(side[i].at, joint))
            side[i].at = NULL;
    for (uint32_t i = 0; i < n; i++)
        side[i].count = joint;
    return joint
               ? GAN_OK
               : fail(GAN_ERR_INPUT, "%.*s: no sample has a partner in every field", SARG(x->name));
}
