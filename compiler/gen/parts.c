// parts.c - horizontal fusion (Li et al., HFuse, 2022, by blocks): one kernel for the regions of a
// launch.
//
// In: a kernel for each structure, and launches of independent regions (schedule.c). Out: where a
// launch has several regions of one kernel, that kernel in the form for many regions; where it has
// regions of different kernels, one kernel that contains them as parts. blockIdx.y is the region,
// whose last word is the number of its part.
//
// A block has the registers of the largest part, and shared memory for all parts. So parts have
// equal block sizes, and are of small regions or of several regions of one launch. A part loads its
// addresses before its loop, and holds each in two registers: those of many words stay kernels.
#include "dialect.h"
#include "nest.h"

#include <string.h>

enum {
    FewBlocks = 512,       // a larger region fills a card by itself
    MostShared = 24 << 10, // bytes of a block, of all parts
    MostParts = 16,        // so that no text takes much longer to compile than the others
    MostWords = 32,        // of a part: with the 63 to 72 of an update of many scalars, a block of
                           // all parts had 172 to 233 registers a thread, not 56 to 73
    MostParameters =
        511,            // words of a kernel's parameters: 4 KB before CUDA 12.1, counters included
    SharedElement = 16, // bytes of an accumulator, at most
    WarpThreads = 32,
};

typedef struct Member { // a kernel, before it is fused
    uint32_t first;     // of its regions
    uint32_t group;     // the first kernel that it is fused with, itself at first
    bool repeats;       // in one launch
    bool large;         // one of its regions fills a card
    uint32_t shared;    // of its block; of a group's kernel, of all its parts
    uint32_t parts;     // of a group's kernel
    uint32_t to;        // its new number
} Member;

typedef struct Fusion {
    Arena *perm, *scratch;
    Plan *p;
    const Dialect *d;
    const Nest *const *nest; // [kernel.n]
    Member *of;              // [kernel.n]
} Fusion;

static uint32_t group_of(const Fusion *t, uint32_t kernel) {
    while (t->of[kernel].group != kernel)
        kernel = t->of[kernel].group;
    return kernel;
}

// Bytes of shared memory for reductions (gan_team), or for the rows of a table (gan_table).
static uint32_t shared_of(const Nest *n) {
    uint32_t threads = n->team.units * n->team.size;
    if (n->indexed)
        return threads / WarpThreads * TILE_BYTES;
    if (n->team.size == 1)
        return 0;
    uint32_t each = n->team.open && n->team.across ? OpenSlots : nest_slots(n);
    if (n->team.across)
        each *= n->team.pack;
    return (uint32_t)n->reduce.n * each * SharedElement;
}

static void survey(Fusion *t) {
    const Plan *p = t->p;
    for (uint32_t k = 0; k < p->kernel.n; k++)
        t->of[k] = (Member){.first = NONE, .group = k, .shared = shared_of(t->nest[k]), .parts = 1};
    for (uint32_t i = 0; i < p->region.n; i++) {
        const Region *r = &p->region.at[i];
        if (r->kind != RegionLoop)
            continue;
        Member *m = &t->of[r->kernel];
        m->first = m->first == NONE ? i : m->first;
        m->large |= r->blocks > FewBlocks;
    }
}

static const Region *instance(const Plan *p, Launch l, uint32_t i) {
    return &p->region.at[p->merge.at[l.first + i]];
}

static void find_repeats(Fusion *t) {
    const Plan *p = t->p;
    for (uint32_t l = 0; l < p->launch.n; l++) {
        Launch launch = p->launch.at[l];
        for (uint32_t i = 1; i < launch.instances; i++)
            for (uint32_t k = 0; k < i; k++) {
                uint32_t kernel = instance(p, launch, i)->kernel;
                t->of[kernel].repeats |= instance(p, launch, k)->kernel == kernel;
            }
    }
}

static void join(Fusion *t, uint32_t a, uint32_t b) {
    const Kernel *ka = &t->p->kernel.at[a], *kb = &t->p->kernel.at[b];
    uint32_t ga = group_of(t, a), gb = group_of(t, b);
    Member *x = &t->of[ga < gb ? ga : gb], *y = &t->of[ga < gb ? gb : ga];
    if (x == y || ka->threads != kb->threads || ka->words > MostWords || kb->words > MostWords ||
        x->shared + y->shared > MostShared || x->parts + y->parts > MostParts ||
        (t->of[a].large && !t->of[a].repeats) || (t->of[b].large && !t->of[b].repeats))
        return;
    y->group = ga < gb ? ga : gb;
    x->shared += y->shared;
    x->parts += y->parts;
}

static void group(Fusion *t) {
    const Plan *p = t->p;
    for (uint32_t l = 0; l < p->launch.n; l++) {
        Launch launch = p->launch.at[l];
        for (uint32_t i = 1; i < launch.instances; i++)
            for (uint32_t k = 0; k < i; k++)
                join(t, instance(p, launch, k)->kernel, instance(p, launch, i)->kernel);
    }
}

// --- writing -------------------------------------------------------------------------------------

static Part part_of(Fusion *t, Arena *a, uint32_t kernel, Str name, KernelForm form) {
    Text text = {.arena = a};
    Numbers numbers = {0};
    bool counters = emit_kernel(&text, t->nest[kernel], t->d, name, form, &numbers);
    return (Part){name, text_str(&text), counters};
}

// Regions that are launched alone use this form too: their words come from memory then, but the
// kernel is compiled once. So do those of more words than a launch can pass.
static void write_many(Fusion *t, uint32_t kernel) {
    Kernel *k = &t->p->kernel.at[kernel];
    Arena scratch = *t->scratch;
    k->many = true;
    k->name = str_format(t->perm, "%.*s_many", SARG(k->name));
    k->source = str_copy(t->perm, part_of(t, &scratch, kernel, k->name, FormMany).text);
}

// Pads the words of a kernel's regions to those of the group, and appends the number of the part.
static void number_part(Fusion *t, uint32_t kernel, uint32_t words, uint32_t part) {
    uint32_t missing = words - 1 - t->p->kernel.at[kernel].words;
    for (uint32_t i = 0; i < t->p->region.n; i++) {
        Region *r = &t->p->region.at[i];
        if (r->kind != RegionLoop || r->kernel != kernel)
            continue;
        for (uint32_t k = 0; k < missing; k++)
            vec_push(t->perm, &r->number, 0);
        vec_push(t->perm, &r->number, part);
    }
}

static void write_group(Fusion *t, uint32_t first) {
    Plan *p = t->p;
    Arena scratch = *t->scratch;
    Kernel all = {
        .threads = p->kernel.at[first].threads, .many = true, .parts = t->of[first].parts};
    Part *part = arena_array(&scratch, Part, all.parts);
    Text texts = {.arena = &scratch};
    for (uint32_t k = first, n = 0; k < p->kernel.n; k++) {
        if (group_of(t, k) != first)
            continue;
        part[n] = part_of(t, &scratch, k, p->kernel.at[k].name, FormPart);
        text_put(&texts, part[n++].text);
        all.words = p->kernel.at[k].words + 1 > all.words ? p->kernel.at[k].words + 1 : all.words;
    }
    for (uint32_t k = first, n = 0; k < p->kernel.n; k++)
        if (group_of(t, k) == first)
            number_part(t, k, all.words, n++);
    Str name =
        kernel_name(&scratch, &p->func->g, &p->region.at[t->of[first].first], text_str(&texts));
    Text source = {.arena = &scratch};
    all.name = str_format(t->perm, "%.*s_parts_many", SARG(name));
    emit_parts(&source, all.name, all.threads, all.words, part, all.parts);
    all.source = str_copy(t->perm, text_str(&source));
    p->kernel.at[first] = all;
}

// Removes the kernels that are parts now.
static void renumber_kernels(Fusion *t) {
    Plan *p = t->p;
    uint32_t n = 0, had = p->kernel.n;
    for (uint32_t k = 0; k < had; k++) {
        t->of[k].to = n;
        if (t->of[k].group == k)
            p->kernel.at[n++] = p->kernel.at[k];
    }
    p->kernel.n = n;
    for (uint32_t i = 0; i < p->region.n; i++)
        if (p->region.at[i].kind == RegionLoop)
            p->region.at[i].kernel = t->of[group_of(t, p->region.at[i].kernel)].to;
}

void gen_fuse_launches(Arena *perm, Plan *p, const Dialect *d, const Nest *const *nest) {
    Arena scratch;
    arena_need(&scratch);
    Fusion t = {perm, &scratch, p, d, nest, arena_array(&scratch, Member, p->kernel.n)};
    survey(&t);
    find_repeats(&t);
    group(&t);
    for (uint32_t k = 0; k < p->kernel.n; k++)
        if (t.of[k].group == k && t.of[k].parts > 1)
            write_group(&t, k);
        else if (t.of[k].group == k && (t.of[k].repeats || p->kernel.at[k].words > MostParameters))
            write_many(&t, k);
    renumber_kernels(&t);
    arena_release(&scratch);
}
