// edited.c - plans with one line changed, which are wrong or still correct.
#include "edited.h"

typedef VEC(Str) Lines;

static Lines lines_of(Arena *a, Str text) {
    Lines l = {0};
    for (size_t at = 0; at < text.len;) {
        Str rest = str_sub(text, at, text.len), line = str_sub(rest, 0, str_find(rest, '\n'));
        vec_push(a, &l, line);
        at += line.len + 1;
    }
    return l;
}

Str plan_edited(Arena *a, Str text, uint64_t bits) {
    Lines l = lines_of(a, text);
    uint32_t first = 0;
    while (!str_starts(l.at[first], STR("func 1")))
        first++;
    uint32_t n = l.n - first - 1, x = first + 1 + (uint32_t)(bits >> 8) % n,
             y = first + 1 + (uint32_t)(bits >> 36) % n;
    Str keep = l.at[x];
    switch (bits % 4) {
    case 0:
        l.at[x] = (Str){0};
        break;
    case 1:
        l.at[x] = l.at[y];
        l.at[y] = keep;
        break;
    case 2: // after another line
        l.at[x] = (Str){0};
        l.at[y] = str_format(a, "%.*s\n%.*s", SARG(l.at[y]), SARG(keep));
        break;
    case 3: // another's offset
        keep = str_sub(keep, 0, str_find(keep, '#'));
        for (size_t i = 0; i + 4 < l.at[y].len; i++)
            if (str_starts(str_sub(l.at[y], i, l.at[y].len), STR(" at ")))
                l.at[x] = str_format(a, "%.*s%.*s", (int)str_find(keep, 'a'), keep.ptr,
                                     SARG(str_sub(l.at[y], i, l.at[y].len)));
        break;
    }
    Text t = {.arena = a};
    for (uint32_t i = 0; i < l.n; i++)
        text_fmt(&t, "%.*s\n", SARG(l.at[i]));
    return text_str(&t);
}
