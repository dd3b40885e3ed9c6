// resources.c - ptxas's report, line by line (resources.h).
#include "resources.h"

#include <string.h>

// The number that stands before `word` in the line; -1 when it is not there.
static int before(Str line, const char *word) {
    size_t n = strlen(word);
    for (size_t i = 0; i + n <= line.len; i++) {
        if (memcmp(line.ptr + i, word, n))
            continue;
        int x = 0, digit = 1;
        size_t k = i;
        for (; k > 0 && line.ptr[k - 1] >= '0' && line.ptr[k - 1] <= '9'; k--, digit *= 10)
            x += digit * (line.ptr[k - 1] - '0');
        return k < i ? x : -1;
    }
    return -1;
}

static Resources *entry_get(Arena *a, ResourcesVec *all, Str name) {
    for (uint32_t i = 0; i < all->n; i++)
        if (str_eq(all->at[i].name, name))
            return &all->at[i];
    vec_push(a, all, ((Resources){.name = name}));
    return &all->at[all->n - 1];
}

void resources_read(Arena *a, Str log, ResourcesVec *out) {
    const Str entry = STR("ptxas info    : Compiling entry function '");
    const Str properties = STR("ptxas info    : Function properties for ");
    Resources *r = NULL; // the entry that lines are about
    bool own = false;    // lines are about the entry, not about a function of doubles that it calls
    for (size_t at = 0; at < log.len;) {
        Str rest = str_sub(log, at, log.len), line = str_sub(rest, 0, str_find(rest, '\n'));
        at += line.len + 1;
        if (str_starts(line, entry)) {
            Str name = str_sub(line, entry.len, line.len);
            r = entry_get(a, out, str_sub(name, 0, str_find(name, '\'')));
            own = false;
            continue;
        }
        if (r && str_starts(line, properties))
            own = str_eq(str_sub(line, properties.len, line.len), r->name);
        if (!own)
            continue;
        int stack = before(line, " bytes stack frame"), registers = before(line, " registers");
        if (stack >= 0) {
            r->stack = stack;
            r->stored = before(line, " bytes spill stores");
            r->loaded = before(line, " bytes spill loads");
        }
        if (registers >= 0) {
            int shared = before(line, " bytes smem");
            r->registers = registers;
            r->shared = shared > 0 ? shared : 0;
        }
    }
}
