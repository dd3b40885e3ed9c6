// order.c - kernels that sort rows and permute them: the words of order.cuh, and the line of text
// that names their types and where their operands' addresses are.
//
// In: the call region of an ArgSort or an Arrange. Out: its words, and the text of its kernel.
#include "anchor.h"
#include "order_words.h"

#include "integers.h"

enum { BLOCKS = 8 * CARD_PROCESSORS }; // keep a card busy

static bool is_sort(const CallRegion *c) {
    return graph_node(c->g, c->r->node.at[0])->op == OpArgSort;
}

static OrderLines lines_of(const CallRegion *c) {
    return order_lines(c->g, c->r->node.at[0]);
}

// Is there a place that no index moves to?
static bool leaves_zeros(const CallRegion *c, const OrderLines *l) {
    return !is_sort(c) && node_attr(c->g, c->r->node.at[0])->i[0] && l->last < l->n;
}

// Is the row merge sorted, from tiles and by several blocks?
static bool is_long(const CallRegion *c, const OrderLines *l) {
    return is_sort(c) && l->n > GAN_ORDER_SHORT;
}

static int64_t jobs_of(const CallRegion *c, const OrderLines *l) {
    if (is_long(c, l))
        return l->lines * ceil_div(l->n, GAN_ORDER_TILE);
    bool by_rows = is_sort(c) || leaves_zeros(c, l);
    return by_rows ? l->lines : ceil_div(l->lines * l->last, GAN_ORDER_THREADS);
}

// Two buffers of runs, keys and their positions; a ticket for each pair of runs.
static void set_scratch(const CallRegion *c, const OrderLines *l) {
    size_t key = dtype_size[node_type(c->g, c->r->node.at[0])->dtype];
    c->r->scratch = 2 * (size_t)(l->lines * l->n) * (key + sizeof(uint32_t));
    c->r->tickets = (uint32_t)jobs_of(c, l);
}

static bool words_of(Arena *perm, const CallRegion *c, Arena scratch) {
    (void)scratch;
    OrderLines l = lines_of(c);
    const int64_t number[GAN_ORDER_NUMBERS] = {
        [GAN_ORDER_N] = l.n,
        [GAN_ORDER_LAST] = l.last,
        [GAN_ORDER_LINES] = l.lines,
        [GAN_ORDER_STEP] = l.step,
    };
    int64_t jobs = jobs_of(c, &l);
    if (jobs > UINT32_MAX)
        return false;
    c->r->number.n = 0;
    for (int i = 0; i < GAN_ORDER_NUMBERS; i++)
        vec_push(perm, &c->r->number, number[i]);
    c->r->blocks = (uint32_t)(jobs < BLOCKS ? jobs : BLOCKS);
    if (is_long(c, &l))
        set_scratch(c, &l);
    return true;
}

// A sorting network's size is a power of two, and at least two elements a thread.
static int64_t network(int64_t n) {
    int64_t size = 2 * GAN_ORDER_THREADS;
    while (size < n)
        size *= 2;
    return size;
}

static Str call_of(Arena *a, const CallRegion *c) {
    const uint32_t id = c->r->node.at[0], to = c->r->in.n, numbers = to + 1;
    const char *type = node_type(c->g, id)->dtype == DtF64 ? "double" : "float";
    OrderLines l = lines_of(c);
    if (is_long(c, &l)) // the addresses of scratch and tickets stand before the numbers
        return str_format(a, "gan_sort_long<%s, 0, %u, %u>", type, to, to + 1);
    if (is_sort(c))
        return str_format(a, "gan_sort<%s, %d, 0, %u, %u>", type, (int)network(l.n), to, numbers);
    const uint32_t from = anchor_operand(c, 0, *a), order = anchor_operand(c, 1, *a);
    if (leaves_zeros(c, &l))
        return str_format(a, "gan_spread<%s, %u, %u, %u, %u>", type, from, order, to, numbers);
    return str_format(a, "gan_arrange<%s, %s, %u, %u, %u, %u>", type,
                      node_attr(c->g, id)->i[0] ? "true" : "false", from, order, to, numbers);
}

const CallKernel order_kernel = {.name = "order",
                                 .words = words_of,
                                 .call = call_of,
                                 .threads = GAN_ORDER_THREADS,
                                 .always = true};
