// gen.c - kernels of a plan: every loop region to text, equal texts once; and the whole as a file
// to read.
#include "dialect.h"
#include "nest.h"

#include <string.h>

const Dialect *dialect_find(Str name) {
    static const Dialect *const all[] = {&dialect_c, &dialect_cuda};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (str_eq(name, str_c(all[i]->name)))
            return all[i];
    return NULL;
}

bool gen_few_launches(const Dialect *d) {
    return d->merges;
}

Str gen_prelude(const Dialect *d) {
    return d->prelude();
}

static Str kernel_text(Arena *a, const Nest *n, const Dialect *d, Str name, Numbers *numbers) {
    Text t = {.arena = a};
    emit_kernel(&t, n, d, name, FormAlone, numbers);
    return text_str(&t);
}

static void set_region(Arena *perm, Region *r, const Nest *n, const Numbers *numbers) {
    r->units = n->units;
    r->grain = n->grain;
    r->scratch = n->scratch;
    r->blocks = n->team.blocks;
    r->tickets = n->team.tickets;
    for (uint32_t i = 0; i < numbers->n; i++)
        vec_push(perm, &r->number, numbers->at[i]);
}

static bool tells(const Graph *g, uint32_t id) { // does the operation say what a kernel does?
    Op op = (Op)graph_node(g, id)->op;
    uint8_t cls = op_info[op].cls;
    return op != OpCast && op != OpStop && op != OpPin &&
           (cls == ClassEW || cls == ClassREDUCE || cls == ClassANCHOR || cls == ClassRNG);
}

Str kernel_hash(Arena *a, Str anonymous) {
    enum { Digits = 16 };
    return str_sub(hash_hex(a, hash128(anonymous.ptr, anonymous.len)), 0, Digits);
}

Str kernel_name(Arena *a, const Graph *g, const Region *r, Str anonymous) {
    enum { Most = 4 };
    Op told[Most];
    Text t = {.arena = a};
    uint32_t n = 0;
    for (uint32_t i = 0; i < r->node.n && n < Most; i++) {
        Op op = (Op)graph_node(g, r->node.at[i])->op;
        bool again = !tells(g, r->node.at[i]);
        for (uint32_t k = 0; k < n; k++)
            again |= told[k] == op;
        if (again)
            continue;
        told[n++] = op;
        text_fmt(&t, "%s_", op_info[op].text);
    }
    text_fmt(&t, "%s%.*s", n ? "" : "move_", SARG(kernel_hash(a, anonymous)));
    return text_str(&t);
}

static void gen_region(Arena *perm, Plan *p, Region *r, const Dialect *d, Map *known,
                       Arena scratch) {
    Nest n;
    Numbers numbers = {0}, again = {0};
    nest_lower(&scratch, p, r, &n);
    d->shape(&n);
    Str anonymous = kernel_text(&scratch, &n, d, STR("kernel"), &numbers);
    Hash128 h = hash128(anonymous.ptr, anonymous.len);
    set_region(perm, r, &n, &numbers);
    uint32_t have = map_find(known, h.lo);
    if (have) {
        r->kernel = have - 1;
        return;
    }
    Str name = kernel_name(perm, &p->func->g, r, anonymous);
    Kernel k = {.name = name, .finish = nest_partial(&n)};
    k.threads = n.team.units * n.team.size;
    k.words = r->in.n + r->out.n + (r->scratch ? 2 : 0) + r->number.n;
    k.source = str_copy(perm, kernel_text(&scratch, &n, d, name, &again));
    vec_push(perm, &p->kernel, k);
    map_put(perm, known, h.lo, p->kernel.n);
    r->kernel = p->kernel.n - 1;
}

void gen_kernels(Arena *perm, Plan *p, const Dialect *d) {
    Arena scratch;
    Map known = {0};
    arena_need(&scratch);
    p->prelude = gen_prelude(d);
    for (uint32_t i = 0; i < p->region.n; i++)
        if (p->region.at[i].kind == RegionLoop)
            gen_region(perm, p, &p->region.at[i], d, &known, scratch);
    if (d->merges)
        gen_together(perm, p, d);
    if (d->calls)
        d->calls(perm, p);
    arena_release(&scratch);
}

// --- reading it ----------------------------------------------------------------------------------

// A region's operations, and the shapes of what its kernel calls a0, a1, ...
static void print_region(Text *t, const Plan *p, const Region *r) {
    const Graph *g = &p->func->g;
    text_put(t, STR("//"));
    for (uint32_t i = 0; i < r->node.n; i++) {
        uint32_t op = p->func->g.node.at[r->node.at[i]].op;
        if (op_info[op].cls != ClassLEAF)
            text_fmt(t, " %s", op_info[op].text);
    }
    for (uint32_t i = 0; i < r->in.n + r->out.n; i++) {
        Str shape = type_text(t->arena, node_type(g, region_arg(r, i)));
        text_put(t, i == 0 ? STR("\n// ") : i == r->in.n ? STR(" ") : STR(", "));
        text_put(t, i == r->in.n ? STR("-> ") : STR(""));
        text_fmt(t, "a%u %.*s", i, SARG(shape));
    }
}

// The first region of a kernel, or of a part of it.
static const Region *first_region(const Plan *p, uint32_t kernel, uint32_t part) {
    bool parts = p->kernel.at[kernel].parts;
    for (uint32_t i = 0; i < p->region.n; i++) {
        const Region *r = &p->region.at[i];
        if (r->kernel == kernel && (!parts || r->number.at[r->number.n - 1] == part))
            return r;
    }
    bug("kernel %u is of no region", kernel);
}

// Of what a kernel does: the first region of each part, the numbers of all of them, the lines they
// came from.
static void print_head(Text *t, const Plan *p, uint32_t kernel, Arena scratch) {
    enum { MaxRegions = 16, MaxLines = 6 };
    SourceLineVec lines = {0};
    uint32_t regions = 0, parts = p->kernel.at[kernel].parts;
    for (uint32_t part = 0; part < (parts ? parts : 1); part++) {
        print_region(t, p, first_region(p, kernel, part));
        text_char(t, '\n');
    }
    text_put(t, STR("// regions"));
    for (uint32_t i = 0; i < p->region.n; i++) {
        const Region *r = &p->region.at[i];
        if (r->kernel != kernel)
            continue;
        if (regions++ < MaxRegions)
            text_fmt(t, regions > 1 ? ", %u" : " %u", i);
        region_lines(&scratch, p, r, &lines);
    }
    text_fmt(t, regions > MaxRegions ? " and %u more\n" : "\n", regions - MaxRegions);
    uint32_t shown = 0;
    for (uint32_t i = 0; i < lines.n; i++) {
        SourceLine l = lines.at[i];
        bool again = false;
        for (uint32_t k = 0; k < i && !again; k++)
            again = lines.at[k].number == l.number && str_eq(lines.at[k].file, l.file);
        if (!again && shown++ < MaxLines)
            text_fmt(t, "//   %.*s:%u: %.*s\n", SARG(l.file), l.number, SARG(l.text));
    }
    if (shown > MaxLines)
        text_fmt(t, "//   and %u more lines\n", shown - MaxLines);
}

void gen_print(Text *t, const Plan *p, const Dialect *d) {
    Arena scratch;
    arena_need(&scratch);
    text_fmt(t,
             "// %.*s, dialect %s. compiler/ir/prelude.h and compiler/gen/kernel_%s.h stand before "
             "this text.\n",
             SARG(p->func->name), d->name, d->name);
    for (uint32_t k = 0; k < p->kernel.n; k++) {
        const Kernel *kernel = &p->kernel.at[k];
        text_char(t, '\n');
        print_head(t, p, k, scratch);
        text_put(t, kernel->source);
    }
    arena_release(&scratch);
}
