// agree.c - checks that a text is equal on all ranks, and finds the first difference.
//
// Ranks exchange hashes; rank 0's text is sent only where these differ. All ranks end with the same
// error message, so one of them can print it for all.
#include "ranks.h"
#include "comm_link.h"

#include <string.h>

enum { FINDING = 600 };

static Str piece_at(Str text, char separator, uint32_t number) {
    size_t from = 0;
    for (uint32_t i = 0; i < number && from <= text.len; i++)
        from += str_find(str_sub(text, from, text.len), separator) + 1;
    if (from > text.len)
        return (Str){0};
    // never without a place, which is what tells an empty piece from none
    return (Str){text.ptr + from, str_find(str_sub(text, from, text.len), separator)};
}

static Str shown(Str piece) {
    enum { SHOWN = 200 };
    size_t blanks = 0;
    while (blanks < piece.len && piece.ptr[blanks] == ' ')
        blanks++;
    return str_sub(piece, blanks, blanks + SHOWN);
}

// "line 12 is `...`, rank 0's is `...`"; a member of JSON needs no number: "`"seed": 4`, rank 0's
// is ..."
static void first_difference(char separator, Str mine, Str first, char out[FINDING]) {
    uint32_t i = 0;
    Str a, b;
    do {
        a = piece_at(mine, separator, i);
        b = piece_at(first, separator, i++);
    } while (str_eq(a, b) && a.ptr && b.ptr);
    a = shown(a);
    b = shown(b);
    char where[24] = "";
    if (separator == '\n')
        snprintf(where, sizeof where, "line %u is ", i);
    snprintf(out, FINDING, "%s`%.*s`, rank 0's is `%.*s`", where, SARG(a), SARG(b));
}

static GanStatus name_difference(Arena *a, Comm *c, const char *what, char separator, Str mine,
                                 const Hash128 *hash) {
    uint64_t n = mine.len;
    TRY(comm_bcast(c, &n, sizeof n, 0));
    char *first = arena_array(a, char, n + 1);
    if (comm_rank(c) == 0)
        memcpy(first, mine.ptr, n);
    TRY(comm_bcast(c, first, n, 0));
    char finding[FINDING] = "", *all = arena_array(a, char, (size_t)comm_size(c) * FINDING);
    if (memcmp(&hash[comm_rank(c)], &hash[0], sizeof *hash))
        first_difference(separator, mine, (Str){first, n}, finding);
    TRY(comm_gather(c, finding, FINDING, all));
    for (int r = 0; r < comm_size(c); r++)
        if (all[(size_t)r * FINDING])
            return fail(GAN_ERR_INPUT, "the ranks differ: rank %d has another %s: %s", r, what,
                        all + (size_t)r * FINDING);
    bug("agree: hashes differ and texts do not");
}

GanStatus ranks_agree(Arena scratch, Comm *c, const char *what, char separator, Str mine) {
    if (comm_size(c) == 1)
        return GAN_OK;
    Hash128 h = hash128(mine.ptr, mine.len), *all = arena_array(&scratch, Hash128, comm_size(c));
    TRY(comm_gather(c, &h, sizeof h, all));
    for (int r = 1; r < comm_size(c); r++)
        if (memcmp(&all[r], &all[0], sizeof h))
            return name_difference(&scratch, c, what, separator, mine, all);
    return GAN_OK;
}

Str plan_collectives(Arena *a, const Plan *p) {
    Text t = {.arena = a};
    for (uint32_t i = 0; i < p->collective.n; i++) {
        const Collective *x = &p->collective.at[i];
        text_fmt(&t, "collective %u: %s, %zu bytes in %u parts, %s\n", i, dtype_name[x->dtype],
                 x->bytes, x->part.n, x->order == OrderTree ? "tree" : "any order");
    }
    return text_str(&t);
}

Str program_text(Arena *a, Str plugin) {
    Text t = {.arena = a};
    const LinkPlugin *mpi;
    const LibraryInfo *library;
    uint32_t n;
    text_put(&t, STR("ganrun " GAN_VERSION "\n"));
    device_libraries(a, &library, &n);
    for (uint32_t i = 0; i < n; i++)
        text_fmt(&t, "%s %s\n", library[i].name, library[i].found ? library[i].version : "none");
    if (link_plugin_load(plugin, &mpi) == GAN_OK) {
        char version[128];
        mpi->library(version, sizeof version);
        text_fmt(&t, "MPI %s\n", version);
    }
    return text_str(&t);
}
