// rewrite_test.c - a graph that is built anew from another one (pass/rewrite.c).
#include "pass.h"
#include "programs.h"

#include <setjmp.h>
#include <cmocka.h>
#include "cases.h"

static uint32_t without_tanh(Rewriter *r, uint32_t id) {
    return graph_node(r->from, id)->op == OpTanh ? rewritten_in(r, id, 0).id : node_copy(r, id);
}

static void assert_equal_graphs(const Graph *a, const Graph *b) {
    assert_int_equal(a->node.n, b->node.n);
    for (uint32_t id = 1; id < a->node.n; id++) {
        const Node *x = graph_node(a, id), *y = graph_node(b, id);
        const Attr *ax = node_attr(a, id), *ay = node_attr(b, id);
        assert_int_equal(x->op, y->op);
        assert_int_equal(x->nin, y->nin);
        assert_int_equal(x->block, y->block);
        assert_int_equal(node_type(a, id)->dtype, node_type(b, id)->dtype);
        assert_true(type_same_shape(node_type(a, id), node_type(b, id)));
        assert_int_equal(ax->n, ay->n);
        assert_memory_equal(ax->i, ay->i, ax->n * sizeof *ax->i);
        for (uint32_t k = 0; k < x->nin; k++)
            assert_int_equal(node_in(a, id, k), node_in(b, id, k));
    }
}

// What a rewrite copies as it was is what simplifying it again would give, and what it changes, and
// all that depends on that, is simplified again.
static void copies_are_as_if_they_were_simplified_again(void **state) {
    (void)state;
    Arena arena;
    assert_int_equal(arena_init(&arena, 0), GAN_OK);
    static const RewriteFn rewrites[] = {node_copy, without_tanh};
    for (uint64_t seed = 0; seed < 60; seed++) {
        Module m;
        PassOptions o = {.real = DtF32};
        for (size_t i = 0; i < sizeof rewrites / sizeof *rewrites; i++) {
            Func known, unknown;
            program_random(&arena, seed, &m);
            passes_run(&arena, &m, &m.step, &o, "drop_identities");
            known = m.step;
            assert_true(known.g.simple);
            program_random(&arena, seed, &m);
            passes_run(&arena, &m, &m.step, &o, "drop_identities");
            unknown = m.step;
            unknown.g.simple = false;
            func_rewrite(&arena, &known, m.batch, rewrites[i], NULL);
            func_rewrite(&arena, &unknown, m.batch, rewrites[i], NULL);
            assert_equal_graphs(&known.g, &unknown.g);
        }
    }
    arena_release(&arena);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(copies_are_as_if_they_were_simplified_again),
    };
    if (CASES_LISTED(tests))
        return 0;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
