// order.c - orders of lines as kernels: the words of order.cuh, and the line of text that names
// their types and where their operands' addresses are.
//
// In: the call region of an ArgSort or an Arrange. Out: its words, and the text of its kernel.
#include "anchor.h"
#include "order_words.h"

enum { BLOCKS = 1056 }; // keep a large card busy

static OrderLines lines_of(const CallRegion *c) {
    return order_lines(c->g, node_type(c->g, c->r->node.at[0]));
}

static bool is_sort(const CallRegion *c) {
    return graph_node(c->g, c->r->node.at[0])->op == OpArgSort;
}

static int64_t blocks_of(const CallRegion *c, const OrderLines *l) {
    int64_t parts = (l->n + GAN_ORDER_THREADS - 1) / GAN_ORDER_THREADS;
    return l->lines * (is_sort(c) && l->n <= GAN_ORDER_SHORT ? 1 : parts);
}

static bool words_of(Arena *perm, const CallRegion *c, Arena scratch) {
    (void)scratch;
    OrderLines l = lines_of(c);
    const int64_t number[GAN_ORDER_NUMBERS] = {
        [GAN_ORDER_N] = l.n, [GAN_ORDER_LINES] = l.lines, [GAN_ORDER_STEP] = l.step};
    c->r->number.n = 0;
    for (int i = 0; i < GAN_ORDER_NUMBERS; i++)
        vec_push(perm, &c->r->number, number[i]);
    int64_t blocks = blocks_of(c, &l);
    c->r->blocks = (uint32_t)(blocks < BLOCKS ? blocks : BLOCKS);
    return true;
}

// A network is of a power of two; the least is a block's own work.
static int64_t network(int64_t n) {
    int64_t size = 2 * GAN_ORDER_THREADS;
    while (size < n)
        size *= 2;
    return size;
}

static Str call_text(Arena *a, const CallRegion *c) {
    const uint32_t id = c->r->node.at[0], to = c->r->in.n, numbers = to + 1;
    const char *type = node_type(c->g, id)->dtype == DtF64 ? "double" : "float";
    int64_t n = lines_of(c).n;
    if (is_sort(c) && n > GAN_ORDER_SHORT)
        return str_format(a, "gan_sort_long<%s, 0, %u, %u>", type, to, numbers);
    if (is_sort(c))
        return str_format(a, "gan_sort<%s, %d, 0, %u, %u>", type, (int)network(n), to, numbers);
    return str_format(a, "gan_arrange<%s, %s, %u, %u, %u, %u>", type,
                      node_attr(c->g, id)->i[0] ? "true" : "false", anchor_operand(c, 0, *a),
                      anchor_operand(c, 1, *a), to, numbers);
}

static Str text_of(Arena *a, const CallRegion *c, uint32_t words, Str name) {
    Str call = call_text(a, c);
    return str_format(a,
                      "\nextern \"C\" __global__ void __launch_bounds__(%d)\n"
                      "    %.*s(const __grid_constant__ gan_args<%u> w) {\n"
                      "    %.*s(w);\n}\n",
                      GAN_ORDER_THREADS, SARG(name), words, SARG(call));
}

const CallKernel order_kernel = {"order", words_of, text_of, GAN_ORDER_THREADS, true};
