// elab_step_test.c - elaboration of a step: its blocks of run-time control flow, random draws,
// optimizers and gradients.
#include "elab_cases.h"

// For each update of the net, the number of weights with a gradient; ends with -1.
static void count_gradients(const Module *m, uint32_t net, int out[8]) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < m->step.update.n && n < 7; i++) {
        const Update *u = &m->step.update.at[i];
        bool listed = false;
        for (uint32_t k = 0; k < u->net.n; k++)
            listed = listed || u->net.at[k] == net;
        if (!listed)
            continue;
        out[n] = 0;
        for (uint32_t k = 0; k < u->grad.n; k++)
            out[n] += m->slot.at[u->grad.at[k].slot].net == net;
        n++;
    }
    out[n] = -1;
}

static void a_net_of_one_branch_is_not_updated_in_the_other(void **state) {
    (void)state;
    static const char *const losses[] = {
        "mean(D(x)) + every 4 { mean(E(x)) }",
        "mean(D(x)) + if mean(x) > 0 { mean(E(x)) } else { 0 }",
    };
    for (size_t i = 0; i < 2; i++) {
        int got[8];
        const Module *m = small(show(
            str_format(&arena,
                       NETS "net E = Score\nfn Score(x: [4]) -> [] = x |> dense(1) |> squeeze\n"
                            "step { update D, E minimize %s using opt; " G_STEP "}",
                       losses[i])));
        count_gradients(m, 2, got);
        assert_int_equal(got[0], 2);
        assert_int_equal(got[1], 0);
        assert_int_equal(got[2], -1);
    }
}

static Str tape_text(const Func *f) {
    static const char *const words[] = {
        [CtlBlock] = "", [CtlRepeat] = "repeat", [CtlEvery] = "every",
        [CtlIf] = "if",  [CtlElse] = "else",     [CtlEnd] = "end"};
    Text t = {.arena = &arena};
    for (uint32_t i = 0; i < f->tape.n; i++) {
        const Ctl *c = &f->tape.at[i];
        bool counts_something = c->kind == CtlBlock || c->kind == CtlRepeat || c->kind == CtlEvery;
        text_fmt(&t, "%s%s", i ? " " : "", words[c->kind]);
        if (counts_something)
            text_fmt(&t, "%u", c->arg);
    }
    return text_str(&t);
}

static const struct {
    const char *step, *tape;
} tapes[] = {
    {"update D minimize mean(D(x)) using opt\n" G_STEP, "0"},
    {"repeat 3 { update D minimize mean(D(x)) using opt }\n" G_STEP, "0 repeat3 1 end 2"},
    {"repeat 0 { update D minimize mean(D(x)) using opt }\nupdate D minimize mean(D(x)) using "
     "opt\n" G_STEP,
     "0"},
    {"update D minimize mean(D(x)) using opt\nevery 4 { " G_STEP "}", "0 every4 1 end 2"},
    {"a = every 4 { mean(x) }\nupdate D minimize (1 + a)*mean(D(x)) using opt\n" G_STEP,
     "0 every4 1 else 2 end"},
    {"a = if mean(x) > 0 { 1 } else { 2 }\nb = every 4 { mean(x) }\nupdate D minimize (a + "
     "b)*mean(D(x)) using opt\n" G_STEP,
     "0 if 1 every4 2 else 3 end else 4 every4 5 else 6 end end"},
    {"repeat 2 { a = every 4 { 1 }\nupdate D minimize (1 + a)*mean(D(x)) using opt }\n" G_STEP,
     "0 repeat2 1 every4 2 else 3 end end 4"},
    {"update D minimize mean(D(x)) using opt\nif mean(x) > 0 { " G_STEP
     "} else if mean(x) > 1 { } else { report r = 1 }",
     "0 if 1 else 2 if 3 else 4 end 5 end 6"},
};

static void control_flow_splits_the_step_into_blocks(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof tapes / sizeof *tapes; i++) {
        const Module *m = small(show(str_format(&arena, NETS "step { %s }", tapes[i].step)));
        assert_string_equal(show(tape_text(&m->step)), tapes[i].tape);
    }
}

static uint32_t sites_of(const Module *m, uint32_t func) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < m->site.n; i++)
        n += m->site.at[i].func == func;
    return n;
}

// A random draw before an `if` is a single site; one after it is a site in either branch.
static void a_replay_buffer_draws_each_random_number_once(void **state) {
    (void)state;
    const Module *m = small(
        NETS "step { report mean_x = mean(x)\nupdate D minimize mean(D(normal(4))) + (every 2 { "
             "mean(D(normal(4))) }) using opt\n" G_STEP "}");
    assert_int_equal(sites_of(m, 1), 1 + 1 + 2);
    assert_int_equal(m->step.update.n, 4);
    assert_int_equal(m->step.update.at[0].block, 1);
    assert_int_equal(m->step.update.at[2].block, 2);
}

static void equal_step_counters_are_shared(void **state) {
    (void)state;
    const Module *m = small(NETS "step { update D minimize mean(D(x)) using opt; " G_STEP "}");
    assert_int_equal(slots_named(m, "opt.c1/"), 2); // one for each net
    assert_int_equal(slots_named(m, "opt.m/"), 4);
    m = small(
        HEAD
        "net D(x: [4]) { a = x |> dense(1); b = x |> dense(1); [mean(a), mean(b)] }\n"
        "step { a, b = D(x); update D minimize a using opt; update D minimize a + b using opt }");
    assert_int_equal(slots_named(m, "opt.c1/"),
                     4); // the updates have different weights: one for each
}

static void updates_with_one_optimizer_share_its_moments(void **state) {
    (void)state;
    const Module *m = small(NETS "step { update D minimize mean(D(x)) using opt; update D minimize "
                                 "mean(D(-x)) using opt; " G_STEP "}");
    assert_int_equal(slots_named(m, "opt.v/D"), 2);
    assert_int_equal(m->step.update.n, 3);
}

// A schedule is known at run time only: it has the state of what it may become.
static void sgd_has_state_for_momentum_alone(void **state) {
    static const struct {
        const char *options;
        uint32_t slots; // of the two weights of D
    } rows[] = {
        {"", 0}, {"momentum=0", 0}, {"momentum=0.9", 2}, {"momentum=ramp(0, 0.9, 0, 9)", 2}};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const char *text = NETS "step { update D minimize mean(D(x)) using sgd(%s); " G_STEP "}";
        const Module *m = small(show(str_format(&arena, text, rows[i].options)));
        assert_int_equal(slots_named(m, "sgd.0.m/D"), rows[i].slots);
    }
}

// A loss over a value from before an update and one from after it has gradients to both.
static void a_gradient_flows_to_every_version_of_a_weight(void **state) {
    (void)state;
    const Module *m = small(NETS "step { before = mean(D(x)); update D minimize before using opt\n"
                                 "update D minimize before + mean(D(2*x)) using opt\n" G_STEP "}");
    const Graph *g = &m->step.g;
    const GradOf *grad = &m->step.update.at[1].grad.at[0];
    assert_int_equal(graph_node(g, grad->node)->op, OpAdd);
    assert_int_equal(graph_node(g, node_in(g, grad->node, 0))->op, OpGrad);
    assert_int_equal(graph_node(g, node_in(g, grad->node, 1))->op, OpGrad);
    assert_int_equal(graph_node(g, m->step.update.at[0].grad.at[0].node)->op, OpGrad);
}

// Clipping by the global gradient norm: one square root, of the sum over both weights.
static void total_is_one_sum_over_all_weights(void **state) {
    (void)state;
    const Module *m =
        small(NETS "step { update D minimize mean(D(x)) using clip_norm(1, sgd())\n" G_STEP "}");
    const Graph *g = &m->step.g;
    uint32_t roots = 0;
    for (uint32_t i = 1; i < g->node.n; i++) {
        if (graph_node(g, i)->op != OpSqrt)
            continue;
        const uint8_t *behind = graph_reach(g, &arena, &i, 1);
        if (roots++)
            continue; // the other roots are Adam's
        for (uint32_t k = 0; k < 2; k++)
            assert_true(behind[m->step.update.at[0].grad.at[k].node]);
    }
    assert_int_equal(roots, 1 + 2);
}

static void a_schedule_has_its_rate_at_the_start(void **state) {
    (void)state;
    const Module *m = small(HEAD "lr = ramp(2e-4, 0, from=100, to=200, at=epoch)\n"
                                 "net D(x: [4]) -> [] = x |> dense(1) |> squeeze\n"
                                 "step { update D minimize mean(D(x)) using adam(lr=lr)\n"
                                 "update D minimize mean(D(x)) using clip_norm(1, opt) }");
    assert_true(m->step.update.at[0].rate == 2e-4);
    assert_true(m->step.update.at[1].rate == 0.1);
}

// `each sample`: one write of the table, for any batch size.
static void a_replay_buffer_is_written_once(void **state) {
    (void)state;
    const Module *m = small(NETS "old = replay(3)\n"
                                 "step { report mean_x = mean(x)\nupdate D minimize "
                                 "mean(D(old(G(normal(2))))) using opt\n" G_STEP "}");
    uint32_t writes = 0;
    for (uint32_t i = 0; i < m->step.effect.n; i++) {
        const Attr *at = node_attr(&m->step.g, m->step.effect.at[i]);
        writes += str_eq(m->slot.at[at->i[0]].name, STR("old.slots"));
    }
    assert_int_equal(writes, 1);
    assert_int_equal(sites_of(m, 1), 3);
}

// What is known to be 0 or 1 is found in bounded time, however often a condition joins itself.
static void conditions_that_double_are_elaborated(void **state) {
    (void)state;
    small(NETS "step { c = mean(normal()) > 0\nfor i in range(60) { c = c and c }\n"
               "update D minimize mean(D(x)) + c using opt\n" G_STEP "}");
}

// `each sample` is a loop: the graph does not grow with the batch, its iterations do.
static void each_sample_is_a_loop(void **state) {
    (void)state;
    Str text = STR(NETS "old = replay(3)\n"
                        "step { update D minimize mean(D(old(G(normal(2))))) using opt\n" G_STEP
                        "}\nsample order = each sample { mean(x) }");
    static const int64_t batches[] = {7, 300};
    uint32_t nodes[2];
    for (uint32_t i = 0; i < 2; i++) {
        Case *c = elaborate_text("turns.gan", text, batches[i], NULL, false);
        assert_true(c->fine);
        nodes[i] = c->m.step.g.node.n;
        uint32_t turns = 0;
        for (uint32_t k = 0; k < c->m.step.tape.n; k++)
            if (c->m.step.tape.at[k].kind == CtlRepeat)
                turns = c->m.step.tape.at[k].arg;
        assert_int_equal(turns, batches[i]);
    }
    assert_int_equal(nodes[0], nodes[1]);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_net_of_one_branch_is_not_updated_in_the_other, set_up),
        cmocka_unit_test_setup(control_flow_splits_the_step_into_blocks, set_up),
        cmocka_unit_test_setup(a_replay_buffer_draws_each_random_number_once, set_up),
        cmocka_unit_test_setup(equal_step_counters_are_shared, set_up),
        cmocka_unit_test_setup(updates_with_one_optimizer_share_its_moments, set_up),
        cmocka_unit_test_setup(sgd_has_state_for_momentum_alone, set_up),
        cmocka_unit_test_setup(a_gradient_flows_to_every_version_of_a_weight, set_up),
        cmocka_unit_test_setup(total_is_one_sum_over_all_weights, set_up),
        cmocka_unit_test_setup(a_schedule_has_its_rate_at_the_start, set_up),
        cmocka_unit_test_setup(a_replay_buffer_is_written_once, set_up),
        cmocka_unit_test_setup(conditions_that_double_are_elaborated, set_up),
        cmocka_unit_test_setup(each_sample_is_a_loop, set_up),
    };
    return ARENA_CASES(tests, 0);
}
