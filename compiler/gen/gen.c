// gen.c - kernels of a plan: the text of every loop region, one kernel for equal texts; and all of
// them printed with their model's lines.
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

// Does the region compute something of what it has summed?
static bool derives(const Graph *g, const Region *r) {
    for (uint32_t i = 0; i < r->node.n; i++) {
        uint32_t id = r->node.at[i];
        for (uint32_t k = 0; node_ends_loop(g, id) && k < r->node.n; k++)
            for (uint32_t in = 0; in < graph_node(g, r->node.at[k])->nin; in++)
                if (node_in(g, r->node.at[k], in) == id)
                    return true;
    }
    return false;
}

bool gen_has(const Dialect *d, const Plan *p) {
    for (uint32_t i = 0; !d->merges && i < p->region.n; i++)
        if (p->region.at[i].kind == RegionLoop && derives(&p->func->g, &p->region.at[i]))
            return false;
    return true;
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
    for (uint32_t i = 0; i < n->arg.n; i++)
        vec_push(perm, &r->arg, n->arg.at[i]);
    for (uint32_t i = 0; i < numbers->n; i++)
        vec_push(perm, &r->number, numbers->at[i]);
}

static void copy_region(Arena *perm, Region *r, const Region *like) {
    r->kernel = like->kernel;
    r->units = like->units;
    r->grain = like->grain;
    r->scratch = like->scratch;
    r->blocks = like->blocks;
    r->tickets = like->tickets;
    for (uint32_t i = 0; i < like->arg.n; i++)
        vec_push(perm, &r->arg, like->arg.at[i]);
    for (uint32_t i = 0; i < like->number.n; i++)
        vec_push(perm, &r->number, like->number.at[i]);
}

// Is the operation part of a kernel's name? Moves and casts are not.
static bool is_named_for(const Graph *g, uint32_t id) {
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
    Op named[Most];
    Text t = {.arena = a};
    uint32_t n = 0;
    for (uint32_t i = 0; i < r->node.n && n < Most; i++) {
        Op op = (Op)graph_node(g, r->node.at[i])->op;
        bool again = !is_named_for(g, r->node.at[i]);
        for (uint32_t k = 0; k < n; k++)
            again |= named[k] == op;
        if (again)
            continue;
        named[n++] = op;
        text_fmt(&t, "%s_", op_info[op].text);
    }
    text_fmt(&t, "%s%.*s", n ? "" : "move_", SARG(kernel_hash(a, anonymous)));
    return text_str(&t);
}

// Structures whose texts are the same where the shape of teams is left open.
typedef struct Family {
    uint64_t text; // hash of the text of the first of them, in its own shape
    bool several;  // do others have another text in theirs?
} Family;

typedef struct Structure { // regions of equal operations, types and operands
    uint32_t first;        // of them
    uint32_t family;       // Gen.family[], 0 none
    Nest nest;             // of the first
} Structure;

typedef struct Gen {
    Arena *perm;
    Arena *nests; // until all kernels are written
    Plan *p;
    const Dialect *d;
    Map texts;      // hash of a text: its kernel + 1
    Map structures; // hash of a structure: its index + 1
    Map families;   // hash of an open text: its family + 1
    VEC(Structure) structure;
    VEC(Family) family;       // [0] is none
    VEC(const Nest *) kernel; // [kernel] what it is written of
    uint32_t *of;             // [region] its structure
    uint32_t *local;          // [node] its number in the region at hand: in first, then the members
} Gen;

// A hash of all that determines a kernel: operations, types and operands, without node numbers.
// Types and attributes of one graph are equal where their indices are.
static uint64_t structure_of(Gen *z, const Region *r, Arena scratch) {
    const Graph *g = &z->p->func->g;
    VEC(uint32_t) key = {0};
    for (uint32_t i = 0; i < r->node.n; i++)
        z->local[r->node.at[i]] = r->in.n + i;
    vec_push(&scratch, &key, r->in.n);
    for (uint32_t i = 0; i < r->in.n; i++) {
        z->local[r->in.at[i]] = i;
        vec_push(&scratch, &key, graph_node(g, r->in.at[i])->type);
    }
    for (uint32_t i = 0; i < r->node.n; i++) {
        const Node *n = graph_node(g, r->node.at[i]);
        vec_push(&scratch, &key, n->op);
        vec_push(&scratch, &key, n->type);
        vec_push(&scratch, &key, n->attr);
        vec_push(&scratch, &key, n->nin);
        for (uint32_t k = 0; k < n->nin; k++)
            vec_push(&scratch, &key, z->local[node_in(g, r->node.at[i], k)]);
    }
    for (uint32_t i = 0; i < r->out.n; i++)
        vec_push(&scratch, &key, z->local[r->out.at[i]]);
    return hash128(key.at, key.n * sizeof *key.at).lo;
}

static uint32_t gen_kernel(Gen *z, const Region *r, const Nest *n, Str anonymous, Arena scratch) {
    uint64_t h = hash128(anonymous.ptr, anonymous.len).lo;
    uint32_t have = map_find(&z->texts, h);
    if (have)
        return have - 1;
    Numbers again = {0};
    Kernel k = {.name = kernel_name(z->perm, &z->p->func->g, r, anonymous),
                .finish = nest_partial(n)};
    k.threads = n->team.units * n->team.size;
    k.open = n->team.open;
    k.words = r->arg.n + (r->scratch ? 2 : 0) + r->number.n;
    k.source = str_copy(z->perm, kernel_text(&scratch, n, z->d, k.name, &again));
    vec_push(z->perm, &z->p->kernel, k);
    vec_push(z->nests, &z->kernel, n);
    map_put(z->perm, &z->texts, h, z->p->kernel.n);
    return z->p->kernel.n - 1;
}

static uint64_t text_hash(const Gen *z, const Nest *n, Arena scratch) {
    Numbers numbers = {0};
    Str text = kernel_text(&scratch, n, z->d, STR("kernel"), &numbers);
    return hash128(text.ptr, text.len).lo;
}

// The family of a structure, if its teams can be open. A kernel of open shape is a little longer
// than one of a known shape, and in place of two or more.
static uint32_t family_of(Gen *z, const Nest *n, Arena scratch) {
    Nest open = *n;
    if (!z->d->merges || !n->reduce.n || !nest_open_team(&open))
        return 0;
    uint64_t own = text_hash(z, n, scratch), hash = text_hash(z, &open, scratch);
    uint32_t family = map_find(&z->families, hash);
    if (!family) {
        vec_push(z->perm, &z->family, ((Family){.text = own}));
        family = z->family.n - 1;
        map_put(z->perm, &z->families, hash, family);
    }
    z->family.at[family].several |= z->family.at[family].text != own;
    return family;
}

// Regions of equal structure share a kernel: a network's layers repeat, and so do an optimizer's
// weights.
static uint32_t find_structure(Gen *z, uint32_t region, Arena scratch) {
    const Region *r = &z->p->region.at[region];
    uint64_t hash = structure_of(z, r, scratch);
    uint32_t have = map_find(&z->structures, hash);
    if (have)
        return have - 1;
    Structure s = {.first = region};
    nest_lower(z->nests, z->p, r, &s.nest);
    z->d->shape(&s.nest);
    s.family = family_of(z, &s.nest, scratch);
    vec_push(z->nests, &z->structure, s);
    map_put(z->perm, &z->structures, hash, z->structure.n);
    return z->structure.n - 1;
}

// Kernel and sizes of a region.
static void gen_region(Gen *z, uint32_t index, Arena scratch) {
    Region *r = &z->p->region.at[index];
    Structure *s = &z->structure.at[z->of[index]];
    Numbers numbers = {0};
    if (s->first != index) {
        copy_region(z->perm, r, &z->p->region.at[s->first]);
        return;
    }
    if (z->family.at[s->family].several)
        nest_open_team(&s->nest);
    Str anonymous = kernel_text(&scratch, &s->nest, z->d, STR("kernel"), &numbers);
    set_region(z->perm, r, &s->nest, &numbers);
    r->kernel = gen_kernel(z, r, &s->nest, anonymous, scratch);
}

// A call's kernel takes every input and output.
static void take_all(Arena *perm, Region *r) {
    for (uint32_t i = 0; i < r->in.n + r->out.n; i++)
        vec_push(perm, &r->arg, i);
}

void gen_kernels(Arena *perm, Plan *p, const Dialect *d) {
    Arena scratch, nests;
    arena_need(&scratch);
    arena_need(&nests);
    Gen z = {.perm = perm, .nests = &nests, .p = p, .d = d};
    z.local = arena_array(&scratch, uint32_t, p->func->g.node.n);
    z.of = arena_array(&scratch, uint32_t, p->region.n);
    p->prelude = gen_prelude(d);
    vec_push(perm, &z.family, (Family){0});
    for (uint32_t i = 0; i < p->region.n; i++)
        if (p->region.at[i].kind == RegionLoop)
            z.of[i] = find_structure(&z, i, scratch);
    for (uint32_t i = 0; i < p->region.n; i++)
        if (p->region.at[i].kind == RegionLoop)
            gen_region(&z, i, scratch);
    if (d->merges)
        gen_fuse_launches(perm, p, d, z.kernel.at);
    for (uint32_t i = 0; i < p->region.n && d->calls; i++)
        if (p->region.at[i].kind == RegionCall)
            take_all(perm, &p->region.at[i]);
    if (d->calls)
        d->calls(perm, p);
    arena_release(&nests);
    arena_release(&scratch);
}

// --- printing ------------------------------------------------------------------------------------

// A region's operations, and the shapes of what its kernel calls a0, a1, ...
static void print_region(Text *t, const Plan *p, const Region *r) {
    const Graph *g = &p->func->g;
    text_put(t, STR("//"));
    for (uint32_t i = 0; i < r->node.n; i++) {
        uint32_t op = p->func->g.node.at[r->node.at[i]].op;
        if (op_info[op].cls != ClassLEAF)
            text_fmt(t, " %s", op_info[op].text);
    }
    for (uint32_t i = 0; i < r->arg.n; i++) {
        Str shape = type_text(t->arena, node_type(g, region_arg(r, i)));
        bool result = r->arg.at[i] >= r->in.n && (!i || r->arg.at[i - 1] < r->in.n);
        text_put(t, i == 0 ? STR("\n// ") : result ? STR(" ") : STR(", "));
        text_put(t, result ? STR("-> ") : STR(""));
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

// The comment before a kernel: the first region of each part, the numbers of all its regions, the
// model's lines they come from.
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
        text_fmt(t, "//   and %u more line%s\n", shown - MaxLines, shown > MaxLines + 1 ? "s" : "");
}

void gen_print(Text *t, const Plan *p, const Dialect *d) {
    Arena scratch;
    arena_need(&scratch);
    text_fmt(
        t,
        "// %.*s, dialect %s. compiler/ir/prelude.h and compiler/gen/kernel_%s.h stand before "
        "this text.\n"
        "//\n"
        "// a inputs and outputs, n and r numbers, i loop variables, j parts of indices, g bounds "
        "that\n"
        "// hold, v values, p and y packs loaded and stored, s accumulators, q partial results\n",
        SARG(p->func->name), d->name, d->name);
    for (uint32_t k = 0; k < p->kernel.n; k++) {
        const Kernel *kernel = &p->kernel.at[k];
        text_char(t, '\n');
        print_head(t, p, k, scratch);
        text_put(t, kernel->source);
    }
    arena_release(&scratch);
}
