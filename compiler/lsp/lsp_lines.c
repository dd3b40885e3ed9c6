// lsp_lines.c - which lines of a text are still there in a later one.
//
// In: two texts. Out: a longest common subsequence of their lines. An edit changes few lines, so
// what is equal at both ends is set aside first.
#include "lsp.h"

enum { MAX_CELLS = 1 << 22 }; // of the table; of a larger change no line between its ends is kept

typedef struct Lines { // [lo, hi) of a text, counted from 1
    const Source *of;
    uint32_t lo, hi;
} Lines;

static Lines lines_of(const Source *s) {
    return (Lines){s, 1, s->line.n + 1};
}

static bool same(const Lines *a, uint32_t i, const Lines *b, uint32_t k) {
    return str_eq(source_line(a->of, i), source_line(b->of, k));
}

static void keep_common(Arena scratch, const Lines *a, const Lines *b, uint32_t *out) {
    size_t n = a->hi - a->lo, m = b->hi - b->lo, row = m + 1, cells;
    if (!mem_mul(n + 1, row, &cells) || cells > MAX_CELLS)
        return;
    uint32_t *common = arena_array(&scratch, uint32_t, cells); // [n + 1, m + 1] from here on
    for (size_t i = n; i-- > 0;)
        for (size_t k = m; k-- > 0;) {
            uint32_t *at = &common[i * row + k], down = at[row], right = at[1];
            *at = same(a, a->lo + (uint32_t)i, b, b->lo + (uint32_t)k) ? at[row + 1] + 1
                  : down > right                                       ? down
                                                                       : right;
        }
    for (uint32_t i = 0, k = 0; i < n && k < m;)
        if (same(a, a->lo + i, b, b->lo + k))
            out[b->lo + k++] = a->lo + i++;
        else if (common[(i + 1) * row + k] >= common[i * row + k + 1])
            i++;
        else
            k++;
}

const uint32_t *lines_kept(Arena *perm, const Source *before, const Source *now) {
    Lines a = lines_of(before), b = lines_of(now);
    uint32_t *out = arena_array(perm, uint32_t, b.hi);
    while (a.lo < a.hi && b.lo < b.hi && same(&a, a.lo, &b, b.lo))
        out[b.lo++] = a.lo++;
    while (a.lo < a.hi && b.lo < b.hi && same(&a, a.hi - 1, &b, b.hi - 1))
        out[--b.hi] = --a.hi;
    keep_common(*perm, &a, &b, out);
    return out;
}
