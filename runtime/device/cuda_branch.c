// cuda_branch.c - which tasks of a block must wait for which. The others may run at once, as
// branches of a captured graph.
//
// In: tasks in an order in which they may run one after another, and the bytes that each reads and
// writes. Out: for each, the earlier tasks it waits for: those that access a byte it accesses,
// where one of the two writes it. Whether that byte is of a value, of memory that is reused, of
// workspace or of a weight makes no difference. Tasks that another one of the set waits for are
// left out (the transitive reduction; D-0017).
#include "cuda_plan.h"

#include <string.h>

typedef struct Past { // an access of an earlier task that none since has covered
    CudaAccess access;
    uint32_t task;
} Past;

typedef struct Branches {
    Arena *a;
    uint32_t words;   // of a set of tasks, a bit each
    uint64_t *before; // [n][words] the tasks that each comes after
    VEC(Past) past;
} Branches;

static bool has(const uint64_t *set, uint32_t task) {
    return set[task / 64] >> task % 64 & 1;
}

static void add(uint64_t *set, uint32_t task) {
    set[task / 64] |= (uint64_t)1 << task % 64;
}

static bool conflict(const CudaAccess *x, const CudaAccess *y) {
    return (x->write || y->write) && x->at < y->at + y->bytes && y->at < x->at + x->bytes;
}

// Does whatever conflicts with y conflict with x?
static bool covers(const CudaAccess *x, const CudaAccess *y) {
    return (x->write || !y->write) && x->at <= y->at && y->at + y->bytes <= x->at + x->bytes;
}

static void find_conflicts(const Branches *b, const CudaTask *t, uint64_t *out) {
    for (uint32_t i = 0; i < t->access.n; i++)
        for (uint32_t k = 0; k < b->past.n; k++)
            if (conflict(&t->access.at[i], &b->past.at[k].access))
                add(out, b->past.at[k].task);
}

// From the latest on: what one of them comes after is no member of its own.
static void reduce(Branches *b, uint32_t task, const uint64_t *all, CudaAfter *out) {
    uint64_t *before = b->before + (size_t)task * b->words;
    for (uint32_t i = task; i-- > 0;) {
        if (!has(all, i) || has(before, i))
            continue;
        vec_push(b->a, out, i);
        add(before, i);
        for (uint32_t w = 0; w < b->words; w++)
            before[w] |= b->before[(size_t)i * b->words + w];
    }
}

static void remember(Branches *b, uint32_t task, const CudaAccess *x) {
    const uint64_t *before = b->before + (size_t)task * b->words;
    uint32_t kept = 0;
    for (uint32_t i = 0; i < b->past.n; i++) {
        const Past p = b->past.at[i];
        if (!has(before, p.task) || !covers(x, &p.access))
            b->past.at[kept++] = p;
    }
    b->past.n = kept;
    vec_push(b->a, &b->past, ((Past){*x, task}));
}

CudaAfter *cuda_branches(Arena *a, const CudaTask *task, uint32_t n) {
    Branches b = {.a = a, .words = (n + 63) / 64};
    CudaAfter *out = arena_array(a, CudaAfter, n);
    uint64_t *all = arena_array(a, uint64_t, b.words);
    b.before = arena_array(a, uint64_t, (size_t)n * b.words);
    for (uint32_t i = 0; i < n; i++) {
        memset(all, 0, b.words * sizeof *all);
        find_conflicts(&b, &task[i], all);
        reduce(&b, i, all, &out[i]);
        for (uint32_t k = 0; k < task[i].access.n; k++)
            remember(&b, i, &task[i].access.at[k]);
    }
    return out;
}
