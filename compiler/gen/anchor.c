// anchor.c - what a convolution or product is to anchor.cuh: which axes its rows, columns and
// terms run over, how it is cut into tiles, and the few lines of kernel text that say so.
//
// In: call regions and the types of their operands. Out: kernels and the words they are called
// with. Types, the size of a tile and how many axes are spatial are written into the text; all that
// is left are words. So a model has a few such kernels, however many kinds of layers it has.
#include "anchor.h"
#include "anchor_words.h"
#include "product.h"

#include "integers.h"

#include <string.h>

enum {
    RESIDENT = 2,                  // minBlocksPerMultiprocessor: with more, ptxas would spill
    AXES = 3 * (MAX_RANK + 1) / 2, // of all lists: each is in two of three operands, or in all
    FILLS = 2 * CARD_PROCESSORS,   // blocks that keep a card busy
    FILLS_GROUPED = 4 * CARD_PROCESSORS, // the same of grouped.cuh
    SHORTEST = 256,                      // terms a split is worth
    MOST_SPLITS = 64,                    // of a tile
    LEAST_SPACES = 2,                    // of a product
};

typedef struct Cut { // into jobs
    int64_t rows, columns, terms, tiles_m, tiles_n, splits, chunk, jobs;
} Cut;

// --- jobs ----------------------------------------------------------------------------------------

static int64_t list_size(const List *l) {
    int64_t n = 1;
    for (uint32_t i = 0; i < l->n; i++)
        n *= l->axis[i].extent;
    return n;
}

static int64_t parts_apart(const Product *p) {
    int64_t n = 1;
    for (uint32_t i = 0; i < p->aparts; i++)
        n *= p->apart[i].extent;
    for (uint32_t d = 0; p->phases && d < p->spaces; d++)
        n *= p->space[d].stride;
    return n;
}

// Terms are split where the tiles are too few for a card and the terms many.
static void split(Cut *c, int64_t tiles, int64_t fills, int64_t whole) {
    int64_t most = ceil_div(c->terms, SHORTEST);
    c->splits = ceil_div(fills, tiles);
    c->splits = c->splits < most ? c->splits : most;
    c->splits = c->splits < MOST_SPLITS ? c->splits : MOST_SPLITS;
    c->chunk = ceil_div(ceil_div(c->terms, c->splits), whole) * whole;
    c->splits = ceil_div(c->terms, c->chunk);
    c->jobs = tiles * c->splits;
}

// A function of shapes alone.
static Cut cut_of(const Product *p) {
    Cut c = {.rows = list_size(&p->rows),
             .columns = list_size(&p->columns),
             .terms = list_size(&p->terms)};
    c.tiles_m = ceil_div(c.rows, GAN_TILE);
    c.tiles_n = ceil_div(c.columns, GAN_TILE);
    split(&c, c.tiles_m * c.tiles_n * parts_apart(p), FILLS, GAN_TERMS);
    return c;
}

// Of gan_grouped: neighbouring channels of all groups are columns.
static Cut grouped_cut(const Product *p) {
    int64_t groups = p->apart[0].extent;
    Cut c = {.rows = list_size(&p->rows),
             .columns = list_size(&p->columns) * groups,
             .terms = list_size(&p->terms),
             .splits = 1};
    c.tiles_m = ceil_div(c.rows, GAN_TILE);
    c.tiles_n = ceil_div(c.columns, GAN_TILE);
    c.chunk = c.terms;
    c.jobs = c.tiles_m * c.tiles_n * (parts_apart(p) / groups);
    return c;
}

// Of gan_grouped_weights: a row is a thread's, of `sums` elements.
static Cut grouped_weights_cut(const Product *p, int64_t sums) {
    int64_t elements = list_size(&p->rows) * list_size(&p->columns) * p->apart[0].extent;
    Cut c = {.rows = elements / sums, .columns = 1, .terms = list_size(&p->terms), .tiles_n = 1};
    c.tiles_m = ceil_div(c.rows, GAN_THREADS);
    split(&c, c.tiles_m, FILLS_GROUPED, GAN_STAGE);
    return c;
}

static uint32_t axes_of(const Product *p) {
    return p->aparts + p->rows.n + p->columns.n + p->terms.n;
}

static bool fits(const Product *p, const Cut *c) {
    if (axes_of(p) > AXES)
        bug("a product of %u axes", axes_of(p));
    return c->rows < INT32_MAX && c->columns < INT32_MAX && c->terms < INT32_MAX &&
           c->jobs < INT32_MAX;
}

// --- words ---------------------------------------------------------------------------------------

typedef struct WordList {
    Arena *arena;
    Region *r;
} WordList;

static void put(WordList *w, int64_t x) {
    vec_push(w->arena, &w->r->number, x);
}

static void put_all(WordList *w, const int64_t *x, size_t n) {
    for (size_t i = 0; i < n; i++)
        put(w, x[i]);
}

static void put_list(WordList *w, const List *l) {
    for (uint32_t i = 0; i < l->n; i++) {
        const Axis *a = &l->axis[i];
        put(w, a->extent);
        put(w, a->extent > 1 ? fast_divisor(a->extent) : 0);
        put_all(w, a->step, 2);
        put_all(w, a->stride, 2);
    }
}

static void put_apart(WordList *w, const Apart *a) {
    static const int64_t unused[GAN_AXIS_WORDS - 1 - MatrixSides];
    put(w, a->extent);
    put_all(w, a->stride, MatrixSides);
    put_all(w, unused, GAN_AXIS_WORDS - 1 - MatrixSides);
}

static void put_space(WordList *w, const Product *p, const Along *s) {
    for (MatrixSide x = SideA; x < MatrixSides; x++)
        put(w, p->bounded[x] ? s->extent[x] : INT32_MAX);
    put_all(w, s->origin, MatrixSides);
    put_all(w, s->step, MatrixSides);
    put(w, s->stride);
    put(w, s->dilation);
    put(w, s->before);
    put(w, s->kernel);
}

static bool fast(const List *terms, int side, const List *lines) {
    if (!terms->n || !lines->n)
        return terms->n > 0;
    return terms->axis[terms->n - 1].stride[side] <= lines->axis[lines->n - 1].stride[0];
}

uint32_t anchor_operand(const CallRegion *c, uint32_t k, Arena scratch) {
    const Region *r = c->r;
    uint32_t from = node_storage(c->g, node_in(c->g, r->node.at[0], k), scratch), i = 0;
    while (i < r->in.n && r->in.at[i] != from)
        i++;
    if (i == r->in.n)
        bug("node %u is not among what its region reads", from);
    return i;
}

// Where each list's axes are, behind the spatial axes.
static void put_lists(WordList *w, const Product *p) {
    const struct {
        uint32_t n;
        int space;
    } list[GAN_LIST_COUNT] = {[GAN_OF_G] = {p->aparts, -1},
                              [GAN_OF_M] = {p->rows.n, p->rows.space},
                              [GAN_OF_N] = {p->columns.n, p->columns.space},
                              [GAN_OF_K] = {p->terms.n, p->terms.space}};
    int64_t at = GAN_SPACE + p->spaces * GAN_SPACE_WORDS;
    for (int i = 0; i < GAN_LIST_COUNT; i++) {
        put_all(w, (int64_t[GAN_LIST_WORDS]){at, list[i].n, list[i].space}, GAN_LIST_WORDS);
        at += list[i].n * GAN_AXIS_WORDS;
    }
}

// The numbers of anchor_words.h.
static void put_words(WordList *w, const CallRegion *call, const Product *p, const Cut *c,
                      Arena scratch) {
    const Region *r = w->r;
    const int64_t head[GAN_LISTS] = {
        [GAN_ROWS] = c->rows,
        [GAN_COLUMNS] = c->columns,
        [GAN_K] = c->terms,
        [GAN_CHUNK] = c->chunk,
        [GAN_TILES_M] = c->tiles_m,
        [GAN_TILES_N] = c->tiles_n,
        [GAN_SPLITS] = c->splits,
        [GAN_JOBS] = c->jobs,
        [GAN_A] = anchor_operand(call, p->swapped, scratch),
        [GAN_B] = anchor_operand(call, !p->swapped, scratch),
        [GAN_C] = r->in.n,
        [GAN_A_BY_TERMS] = fast(&p->terms, 0, &p->rows),
        [GAN_B_BY_TERMS] = fast(&p->terms, 1, &p->columns),
        [GAN_PHASES] = p->phases,
    };
    uint32_t own = r->in.n + r->out.n + (r->scratch ? 2 : 0); // what stands before
    assert(own <= GAN_HEAD);
    put_all(w, head + own, GAN_LISTS - own);
    put_lists(w, p);
    for (uint32_t d = 0; d < p->spaces; d++)
        put_space(w, p, &p->space[d]);
    for (uint32_t i = 0; i < p->aparts; i++)
        put_apart(w, &p->apart[i]);
    put_list(w, &p->rows);
    put_list(w, &p->columns);
    put_list(w, &p->terms);
    for (uint32_t i = axes_of(p) * GAN_AXIS_WORDS; i < AXES * GAN_AXIS_WORDS; i++)
        put(w, 0);
}

// --- text ----------------------------------------------------------------------------------------

static const char *const storage[DtCount] = {
    [DtF64] = "double", [DtF32] = "float", [DtBF16] = "gan_bf16", [DtF16] = "gan_f16"};

// The kernel of a call region; `words`: all it is called with.
static Str kernel_text(Arena *a, const CallKernel *k, const CallRegion *c, uint32_t words,
                       Str name) {
    Text t = {.arena = a};
    text_fmt(&t, "extern \"C\" __global__ void __launch_bounds__(%u", k->threads);
    if (k->resident)
        text_fmt(&t, ", %u", k->resident);
    text_fmt(&t, ")\n%.*s(const __grid_constant__ gan_args<%u> w) {\n    ", SARG(name), words);
    text_put(&t, k->call(a, c));
    text_put(&t, STR("(w);\n}\n"));
    return text_str(&t);
}

// --- regions -------------------------------------------------------------------------------------

// What a kernel is called with; false: too much. `sums`: of a tile.
static bool fill_region(Arena *perm, const CallRegion *call, const Product *p, const Cut *c,
                        int64_t sums, Arena scratch) {
    Region *r = call->r;
    size_t size = p->in == DtF64 ? 8 : 4;
    bool split = c->splits > 1;
    if (!fits(p, c))
        return false;
    r->blocks = (uint32_t)c->jobs;
    r->tickets = split ? (uint32_t)(c->jobs / c->splits) : 0;
    r->scratch = split ? (size_t)(c->jobs * sums) * size : 0;
    r->number.n = 0;
    put_words(&(WordList){perm, r}, call, p, c, scratch);
    return true;
}

static bool product_words(Arena *perm, const CallRegion *call, Arena scratch) {
    Product p;
    product_read(call->g, call->r->node.at[0], call->spaces, &p);
    Cut c = cut_of(&p);
    return fill_region(perm, call, &p, &c, GAN_TILE * GAN_TILE, scratch);
}

static Str shape_text(Arena *a, const Product *p) {
    return str_format(a, "gan_shape<%s, %s, %s, %u>", storage[p->in], storage[p->out],
                      p->in == DtF64 ? "double" : "float", p->spaces);
}

static Str product_call(Arena *a, const CallRegion *call) {
    Product p;
    product_read(call->g, call->r->node.at[0], call->spaces, &p);
    return str_format(a, "gan_product<%s>", shape_text(a, &p).ptr);
}

// --- regions of several groups -------------------------------------------------------------------

static bool of_weights(const CallRegion *call) {
    return graph_node(call->g, call->r->node.at[0])->op == OpConvDw;
}

static bool grouped_words(Arena *perm, const CallRegion *call, Arena scratch) {
    GroupedKind kind = product_grouped(call->g, call->r->node.at[0]);
    int64_t sums = kind == GroupedDeep ? GAN_SQUARE * GAN_SQUARE : GAN_SQUARE; // of a thread
    if (kind == GroupedNot)
        return false;
    Product p;
    product_read(call->g, call->r->node.at[0], call->spaces, &p);
    const List *taps = of_weights(call) ? &p.columns : &p.terms; // and, last, a group's channels
    Cut c = of_weights(call) ? grouped_weights_cut(&p, sums) : grouped_cut(&p);
    return list_size(taps) / taps->axis[taps->n - 1].extent <= GAN_TAPS &&
           fill_region(perm, call, &p, &c, GAN_THREADS * sums, scratch);
}

static Str grouped_call(Arena *a, const CallRegion *call) {
    uint32_t id = call->r->node.at[0];
    Product p;
    product_read(call->g, id, call->spaces, &p);
    return str_format(a, "gan_grouped%s<%s, %s>", of_weights(call) ? "_weights" : "",
                      shape_text(a, &p).ptr,
                      product_grouped(call->g, id) == GroupedDeep ? "true" : "false");
}

static const CallKernel product_kernel = {.name = "product",
                                          .words = product_words,
                                          .call = product_call,
                                          .threads = GAN_THREADS,
                                          .resident = RESIDENT};
// An engine of a library may take a group after another, and leave most of a card idle.
static const CallKernel grouped_kernel = {.name = "grouped",
                                          .words = grouped_words,
                                          .call = grouped_call,
                                          .threads = GAN_THREADS,
                                          .resident = RESIDENT,
                                          .always = true};
// The first whose words there are.
static const CallKernel *const kernel_of[FamilyCount][2] = {
    [FamilyProduct] = {&grouped_kernel, &product_kernel},
    [FamilyTransform] = {&fft_kernel},
    [FamilyOrder] = {&order_kernel}};

static const CallKernel *choose(Arena *perm, const CallRegion *call, Arena scratch) {
    const CallKernel *const *of = kernel_of[node_family(call->g, call->r->node.at[0])];
    for (int i = 0; i < 2 && of[i]; i++)
        if (of[i]->words(perm, call, scratch))
            return of[i];
    return NULL;
}

static void region_kernel(Arena *perm, Plan *plan, Region *r, uint32_t spaces, Map *known,
                          Arena scratch) {
    const CallRegion call = {&plan->func->g, r, spaces};
    const CallKernel *make = choose(perm, &call, scratch);
    if (!make)
        return;
    uint32_t words = r->in.n + r->out.n + (r->scratch ? 2 : 0) + r->number.n;
    Str anonymous = kernel_text(&scratch, make, &call, words, STR("kernel"));
    Hash128 h = hash128(anonymous.ptr, anonymous.len);
    r->kernel = map_find(known, h.lo) - 1;
    if (r->kernel != NONE)
        return;
    Kernel k = {.threads = make->threads, .words = words, .fallback = !make->always};
    k.name = str_format(perm, "%s_%.*s", make->name, SARG(kernel_hash(&scratch, anonymous)));
    k.source = kernel_text(perm, make, &call, words, k.name);
    vec_push(perm, &plan->kernel, k);
    map_put(perm, known, h.lo, plan->kernel.n);
    r->kernel = plan->kernel.n - 1;
}

// The most spatial axes of a convolution of the plan. All others, and products, get as many, of
// extent 1, so that one kernel serves all: kernels of their own would be a twelfth of what dcgan
// has to compile. A model's functions share their kernels, and one may have images where another
// has sequences or products alone, so all have at least two.
static uint32_t spaces_of(const Plan *plan) {
    const Graph *g = &plan->func->g;
    uint32_t most = 0;
    for (uint32_t i = 0; i < plan->region.n; i++) {
        const Region *r = &plan->region.at[i];
        uint32_t n = r->kind == RegionCall ? product_spaces(g, r->node.at[0]) : 0;
        most = n > most ? n : most;
    }
    return most > LEAST_SPACES ? most : LEAST_SPACES;
}

void anchor_kernels(Arena *perm, Plan *plan) {
    Arena scratch;
    Map known = {0};
    uint32_t spaces = spaces_of(plan);
    arena_need(&scratch);
    for (uint32_t i = 0; i < plan->region.n; i++)
        if (plan->region.at[i].kind == RegionCall)
            region_kernel(perm, plan, &plan->region.at[i], spaces, &known, scratch);
    arena_release(&scratch);
}
