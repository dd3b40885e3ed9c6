// collective_test.c - the collectives of a plan: the same list on every rank, in order, started
// when their operands are complete and with buffers untouched until they finish; which all-reduces
// share a call, and which reductions need none.
#include "driver.h"
#include "edited.h"
#include "launch_of.h"
#include "stages.h"
#include "shard.h"

#include <setjmp.h>
#include <stdlib.h>

#include <cmocka.h>
#include "arena_cases.h"

// --- compiling -----------------------------------------------------------------------------------

static void compile_with(Arena *a, const char *text, int64_t batch, const CompileOptions *o,
                         Compiled *out) {
    Front f;
    front_init(&f, a);
    ElabOptions e = {.batch = batch};
    uint32_t source = front_add_source(&f, STR("test.gan"), str_c(text), false);
    Ast *file = source ? parse_gan(&f, source) : NULL;
    if (!file || diag_errors(&f) || !front_load_library(&f) ||
        !elaborate(&f, file, &e, &out->module)) {
        Text t = {.arena = a};
        diag_render(&t, &f, false);
        fail_msg("%s", str_z(a, text_str(&t)));
    }
    assert_int_equal(compile_plans(a, &out->module, o, out), GAN_OK);
}

static void compile_text(Arena *a, const char *text, int64_t batch, Parallel parallel, bool no_fuse,
                         Compiled *out) {
    CompileOptions o = {.real = DtF32, .no_fuse = no_fuse, .parallel = parallel};
    compile_with(a, text, batch, &o, out);
}

static const char step[] = //
    "opt = sgd(lr=0.1)\n"
    "step {\n"
    "  update D minimize logistic(D(x), D(stop(G(normal(4)))) ) using opt\n"
    "  update G minimize non_saturating(D(G(normal(4)))) using opt\n"
    "}\n";
static const char head[] = "model m\ndata x : image(2, 4, 4) scale(-1, 1)\n"
                           "net G(z: [4]) -> [2, 4, 4] = z |> dense(32) |> reshape(2, 4, 4)\n";

static const char *model_with(Arena *a, const char *norm) {
    return str_format(a,
                      "%snet D(x: [2, 4, 4]) -> [] {\n  h = x\n  for c in [4, 8, 6] { h = h |> "
                      "conv(c, k=3, pad=1) %s |> leaky_relu(0.2) }\n  h |> flatten |> dense(1) |> "
                      "squeeze\n}\n%s",
                      head, norm, step)
        .ptr;
}

// --- a plan --------------------------------------------------------------------------------------

static bool lies_in(const Plan *p, uint32_t node, const Collective *c) {
    Place at = p->place[node];
    size_t bytes = type_bytes(&p->func->g, node_type(&p->func->g, node));
    return at.space == SpaceWork && at.offset < c->offset + c->bytes &&
           c->offset < at.offset + bytes;
}

static void check_undisturbed(const Plan *p, const Collective *c, uint32_t from, uint32_t to) {
    for (uint32_t l = from + 1; l < to; l++)
        for (uint32_t i = 0; i < p->launch.at[l].instances; i++) {
            const Region *r = &p->region.at[p->merge.at[p->launch.at[l].first + i]];
            for (uint32_t k = 0; k < r->out.n; k++)
                assert_false(lies_in(p, r->out.at[k], c));
            for (uint32_t k = 0; k < r->in.n; k++)
                assert_false(lies_in(p, r->in.at[k], c));
        }
}

static void check_plan(const Plan *p) {
    uint32_t block = NONE, last = 0;
    for (uint32_t k = 0; k < p->collective.n; k++) {
        const Collective *c = &p->collective.at[k];
        uint32_t from = launch_of(p, c->start), to = launch_of(p, c->wait);
        assert_true(from < to);
        assert_true(c->ready == from && (c->use == NONE || c->use > to));
        if (p->region.at[c->start].block == block)
            assert_true(from > last);
        block = p->region.at[c->start].block;
        last = from;
        for (uint32_t i = 0; i < c->part.n; i++) {
            assert_int_equal(p->place[c->part.at[i].start].offset,
                             c->offset + c->part.at[i].offset);
            assert_int_equal(p->place[c->part.at[i].wait].offset, c->offset + c->part.at[i].offset);
        }
        check_undisturbed(p, c, from, to);
    }
}

static void calls_start_in_order_and_their_buffers_are_untouched(void **state) {
    (void)state;
    for (int no_fuse = 0; no_fuse < 2; no_fuse++) {
        Arena a = empty;
        Compiled c = {0};
        compile_text(&a, model_with(&a, "|> batch_norm"), 7, (Parallel){.ranks = 3, .bucket = 256},
                     no_fuse, &c);
        assert_true(c.step.collective.n > 10);
        check_plan(&c.step);
    }
}

// --- gradients are computed into the buckets ---------------------------------------------------

static void gradients_are_not_copied(void **state) {
    (void)state;
    Arena a = empty;
    Compiled c = {0};
    uint32_t parts = 0;
    compile_text(&a, model_with(&a, ""), 8, (Parallel){.ranks = 2}, false, &c);
    for (uint32_t k = 0; k < c.step.collective.n; k++) {
        const Collective *call = &c.step.collective.at[k];
        for (uint32_t i = 0; call->update != NONE && i < call->part.n; i++, parts++) {
            uint32_t gradient = node_in(&c.module.step.g, call->part.at[i].start, 0);
            assert_int_equal(c.step.place[gradient].offset, call->offset + call->part.at[i].offset);
        }
    }
    assert_int_equal(parts, 8 + 2); // weights and biases of D, of G
}

// A card makes weight gradients in halves, and widens them before it adds those of D's two
// batches: it is their sum that the ranks add up.
static void gradients_in_halves_are_one_part_a_weight(void **state) {
    (void)state;
    uint32_t parts[2] = {0};
    for (int half = 0; half < 2; half++) {
        Arena a = empty;
        Compiled c = {0};
        CompileOptions o = {.real = half ? DtBF16 : DtF32,
                            .small_products = true,
                            .dialect = &dialect_cuda,
                            .parallel = {.ranks = 2}};
        compile_with(&a, model_with(&a, ""), 8, &o, &c);
        for (uint32_t k = 0; k < c.step.collective.n; k++)
            parts[half] += c.step.collective.at[k].part.n;
    }
    assert_int_equal(parts[1], parts[0]);
}

// --- the text form -------------------------------------------------------------------------------

static Str text_of(Arena *a, const Compiled *c, PlanLevel level) {
    Text t = {.arena = a};
    compiled_print(&t, c, level);
    return text_str(&t);
}

static void compile_rank(Arena *a, uint32_t rank, Compiled *out) {
    compile_text(a, model_with(a, "|> batch_norm"), 7,
                 (Parallel){.rank = rank, .ranks = 2, .bucket = 256, .tail = true}, false, out);
}

static void every_ranks_plans_read_back(void **state) {
    (void)state;
    for (uint32_t rank = 0; rank < 2; rank++) {
        for (PlanLevel level = PlanScheduled; level <= PlanPlaced; level++) {
            Arena a = empty;
            Compiled c = {0}, back;
            Str error;
            compile_rank(&a, rank, &c);
            assert_true(c.step.tail.n > 0);
            Str text = text_of(&a, &c, level);
            if (!compiled_read(&a, text, NULL, &back, &error))
                fail_msg("rank %u: %.*s", rank, SARG(error));
            assert_true(str_eq(text_of(&a, &back, level), text));
            assert_true(str_eq(text_of(&a, &back, PlanPlaced), text_of(&a, &c, PlanPlaced)));
            assert_memory_equal(&back.module.share, &c.module.share, sizeof(Share));
            assert_int_equal(back.step.collective.n, c.step.collective.n);
            check_plan(&back.step);
        }
    }
}

// Micro-batches and deterministic chunks: the text states each block's samples.
static void plans_of_chunked_steps_read_back(void **state) {
    (void)state;
    static const Parallel how[] = {{.ranks = 1, .micro = 2},
                                   {.ranks = 1, .chunks = 4},
                                   {.rank = 1, .ranks = 2, .micro = 2},
                                   {.rank = 1, .ranks = 2, .chunks = 4}};
    for (size_t i = 0; i < sizeof how / sizeof *how; i++)
        for (PlanLevel level = PlanFused; level <= PlanPlaced; level++) {
            Arena a = empty;
            Compiled c = {0}, back;
            Str error;
            compile_text(&a, model_with(&a, "|> batch_norm"), 8, how[i], false, &c);
            assert_non_null(c.step.func->block_first);
            Str text = text_of(&a, &c, level);
            if (!compiled_read(&a, text, NULL, &back, &error))
                fail_msg("%zu: %.*s", i, SARG(error));
            assert_true(str_eq(text_of(&a, &back, level), text));
            assert_true(str_eq(text_of(&a, &back, PlanPlaced), text_of(&a, &c, PlanPlaced)));
            assert_int_equal(back.step.slot_bytes, c.step.slot_bytes);
            assert_memory_equal(back.step.func->block_first, c.step.func->block_first,
                                c.step.func->blocks * sizeof(int64_t));
        }
}

// Replaces the first `from` by `to`.
static Str with(Arena *a, Str text, const char *from, const char *to) {
    size_t at = 0;
    while (!str_starts(str_sub(text, at, text.len), str_c(from)))
        assert_true(++at < text.len);
    return str_format(a, "%.*s%s%.*s", (int)at, text.ptr, to,
                      SARG(str_sub(text, at + strlen(from), text.len)));
}

static void expect_error(Arena *a, Str text, const char *from, const char *to, const char *why) {
    Compiled back;
    Str error;
    assert_false(compiled_read(a, with(a, text, from, to), NULL, &back, &error));
    if (!strstr(str_z(a, error), why))
        fail_msg("%s: %.*s", to, SARG(error));
}

static void plans_of_another_rank_are_refused(void **state) {
    (void)state;
    Arena a = empty;
    Compiled c = {0};
    compile_rank(&a, 0, &c);
    Str text = text_of(&a, &c, PlanPlaced);
    expect_error(&a, text, "  rank 0 of 2 batch 7", "  rank 1 of 2 batch 7",
                 "not this rank's part");
    expect_error(&a, text, "  rank 0 of 2 batch 7", "  rank 2 of 2 batch 7",
                 "not this rank's part");
    expect_error(&a, text, "  rank 0 of 2 batch 7", "", "the text is of one alone");
    expect_error(&a, text, "\n  tail", "\n#", "behind no tail");
    expect_error(&a, text, "\n  rest", "\n#", "it must not come before tail 0");
    expect_error(&a, text, "\n  tail 0", "\n  tail 1", "tails are numbered from 0");
    expect_error(&a, text, "\n  tail 0", "\n  tail 0\n  tail 1", "or behind its own");
    expect_error(&a, text, "part=0 order=0}", "part=0 order=2}", "in any order or in a tree");
    compile_text(&a, model_with(&a, "|> batch_norm"), 8, (Parallel){.ranks = 1, .micro = 2}, false,
                 &c);
    text = text_of(&a, &c, PlanPlaced);
    expect_error(&a, text, " from 4\n", " from 3\n", "are no part of 8");
    expect_error(&a, text, " from 4\n", " from 8\n", "are no part of 8");
    expect_error(&a, text, "func \"step\" batch 4\n", "func \"step\" batch 9\n", "line");
    expect_error(&a, text, "  block 1\n", "  block 2\n", "numbered in order");
}

// Each edit is rejected with its line, or leaves calls in order and their buffers untouched.
static void an_edited_plan_of_a_rank_is_refused_or_correct(void **state) {
    (void)state;
    uint32_t refused = 0, accepted = 0;
    Arena first = empty;
    Compiled c = {0};
    compile_rank(&first, 0, &c);
    Str text = text_of(&first, &c, PlanPlaced);
    for (uint64_t edit = 0; edit < 600; edit++) {
        Arena a = first;
        Compiled back;
        Str error = {0};
        Str wrong = plan_edited(&a, text, hash64(&edit, sizeof edit, 1));
        if (compiled_read(&a, wrong, NULL, &back, &error)) {
            check_plan(&back.step);
            accepted++;
        } else {
            assert_true(str_starts(error, STR("line ")));
            refused++;
        }
    }
    print_message("%u texts refused, %u accepted\n", refused, accepted);
    assert_true(refused > 200 && accepted > 50);
}

// --- the list ------------------------------------------------------------------------------------

static Str list_of(Arena *a, int64_t batch, uint32_t rank, uint32_t ranks, size_t bucket) {
    Compiled c = {0};
    Text t = {.arena = a};
    compile_text(a, model_with(a, "|> batch_norm"), batch,
                 (Parallel){.rank = rank, .ranks = ranks, .bucket = bucket}, false, &c);
    compiled_collectives(&t, &c);
    return text_str(&t);
}

static void every_rank_has_the_same_list(void **state) {
    (void)state;
    Arena a = empty;
    Str first = list_of(&a, 5, 0, 3, 0); // shares of 1, 2 and 2 samples
    assert_true(str_find(first, '\n') < first.len);
    for (uint32_t r = 1; r < 3; r++)
        assert_true(str_eq(first, list_of(&a, 5, r, 3, 0)));
    assert_false(str_eq(first, list_of(&a, 6, 0, 3, 0)));
    assert_false(str_eq(first, list_of(&a, 5, 0, 2, 0)));
    assert_false(str_eq(first, list_of(&a, 5, 0, 3, 128)));
}

static void one_rank_has_no_collectives(void **state) {
    (void)state;
    Arena a = empty;
    Compiled plain = {0}, one = {0};
    compile_text(&a, model_with(&a, "|> batch_norm"), 6, (Parallel){0}, false, &plain);
    compile_text(&a, model_with(&a, "|> batch_norm"), 6, (Parallel){.ranks = 1}, false, &one);
    Hash128 p = module_hash(&plain.module, a), o = module_hash(&one.module, a);
    assert_int_equal(one.step.collective.n, 0);
    assert_true(p.lo == o.lo && p.hi == o.hi);
}

// --- buckets -------------------------------------------------------------------------------------

static uint32_t calls_of(const Compiled *c, uint32_t update, size_t *last, size_t *most) {
    uint32_t n = 0;
    *last = *most = 0;
    for (uint32_t k = 0; k < c->step.collective.n; k++) {
        const Collective *call = &c->step.collective.at[k];
        if (call->update != update)
            continue;
        n++;
        *last = call->bytes;
        *most = call->bytes > *most ? call->bytes : *most;
    }
    return n;
}

static void buckets_are_cut_from_the_end(void **state) {
    (void)state;
    Arena a = empty;
    size_t last, most;
    Compiled one = {0}, many = {0};
    Parallel o = {.ranks = 2, .bucket = 1 << 20, .latency = 1e-9};
    compile_text(&a, model_with(&a, ""), 8, o, false, &one);
    assert_int_equal(calls_of(&one, 0, &last, &most), 1);
    o.bucket = 1024;
    compile_text(&a, model_with(&a, ""), 8, o, false, &many);
    assert_true(calls_of(&many, 0, &last, &most) > 3);
    assert_true(last < most); // the first layer's, final at the end
}

// With nothing left to overlap with the last buckets, each is at most twice the one behind it, and
// the first are full.
static void buckets_grow_from_the_end(void **state) {
    (void)state;
    enum { Full = 1 << 16, OfLayer = (64 + 1) * 64 * 4, Layers = 12 }; // bytes
    Arena a = empty;
    Compiled c = {0};
    size_t bytes[Layers] = {0};
    uint32_t n = 0;
    compile_text(&a,
                 "model m\ndata x : float(64)\nnet D(x: [64]) -> [64] {\n  h = x\n"
                 "  for i in range(12) { h = h |> dense(64) |> tanh }\n  h\n}\n"
                 "step { update D minimize mean(D(x)^2) using sgd(lr=0.1) }\n",
                 8, (Parallel){.ranks = 2, .bucket = Full, .latency = 1e-6, .bandwidth = 1e9},
                 false, &c);
    for (uint32_t k = 0; k < c.step.collective.n; k++)
        if (c.step.collective.at[k].update == 0 && n < Layers)
            bytes[n++] = c.step.collective.at[k].bytes;
    assert_true(n >= 4 && n <= 6);
    assert_int_equal(bytes[n - 1], OfLayer);
    for (uint32_t i = 1; i < n; i++) // of whole layers
        assert_true(bytes[i - 1] <= 2 * bytes[i] + OfLayer);
    assert_true(bytes[1] > Full - OfLayer && bytes[1] <= Full);
}

// Parts are aligned, so many numbers take more than their bytes.
static void a_bucket_counts_the_gaps_between_its_parts(void **state) {
    (void)state;
    Arena a = empty;
    size_t last, most;
    Compiled c = {0};
    compile_text(&a,
                 "model m\ndata x : float(1)\nnet D(x: [1]) -> [1] {\n  h = x\n"
                 "  for i in range(48) { h = h |> dense(1) |> tanh }\n  h\n}\n"
                 "step { update D minimize mean(D(x)^2) using sgd(lr=0.1) }\n",
                 8, (Parallel){.ranks = 2, .bucket = 1024}, false, &c);
    assert_true(calls_of(&c, 0, &last, &most) > 3);
    assert_true(most <= 2 * 1024);
}

static uint32_t sums_with(const char *norm, int64_t batch, uint32_t ranks) {
    Arena a = empty;
    size_t last, most;
    Compiled c = {0};
    compile_text(&a, model_with(&a, norm), batch, (Parallel){.ranks = ranks}, false, &c);
    check_plan(&c.step);
    return calls_of(&c, NONE, &last, &most);
}

// One call a layer forward (mean and squares about it), and one backward.
static void batch_norm_synchronizes_once_each_way(void **state) {
    (void)state;
    Arena a = empty;
    Compiled c;
    const char *text =
        str_format(&a, "model m\ndata x : image(2, 4, 4) scale(-1, 1)\n"
                       "net D(x: [2, 4, 4]) -> [] {\n  h = x\n  for c in [4, 8, 6] { h "
                       "= h |> conv(c, k=3, pad=1) |> batch_norm |> leaky_relu(0.2) }\n"
                       "  h |> flatten |> dense(1) |> squeeze\n}\nopt = sgd(lr=0.1)\n"
                       "step { update D minimize bce(D(x), 1) using opt }\n")
            .ptr;
    for (int quick = 0; quick < 2; quick++) { // also where a call costs nothing but its bytes
        Arena once = a;
        uint32_t sums = 0, wide = 0;
        c = (Compiled){0};
        compile_text(&once, text, 12, (Parallel){.ranks = 2, .latency = quick ? 1e-9 : 0}, false,
                     &c);
        for (uint32_t i = 0; i < c.step.collective.n; i++) {
            const Collective *call = &c.step.collective.at[i];
            sums += call->update == NONE;
            wide += call->dtype == DtF64; // squares about a mean
            if (call->dtype == DtF64)
                assert_int_equal(call->part.n, 2);
        }
        assert_int_equal(sums, 6); // the loss shares the first call of the backward pass
        assert_int_equal(wide, 3);
    }
}

// All-reduces that overlap the computation of a weight gradient.
static uint32_t sums_beside_weights(const Plan *p) {
    const Graph *g = &p->func->g;
    uint32_t n = 0;
    for (uint32_t k = 0; k < p->collective.n; k++) {
        const Collective *call = &p->collective.at[k];
        uint32_t from = launch_of(p, call->start), to = launch_of(p, call->wait);
        bool beside = false;
        for (uint32_t l = from; l < to; l++) {
            const Region *r = &p->region.at[p->launch.at[l].region];
            for (uint32_t i = 0; i < r->node.n; i++)
                beside |= node_gflop(g, r->node.at[i]) > 0 && partial_begins(g, r->node.at[i]);
        }
        n += call->update == NONE && beside;
    }
    return n;
}

// On a fast link, weight gradients overlap the sums that the layer below waits for. On a slow link,
// which is always busy, they come first to keep it busy.
static void weight_gradients_overlap_all_reduces(void **state) {
    (void)state;
    Arena a = empty;
    Compiled fast = {0}, slow = {0};
    const char *text = "model m\ndata x : image(8, 16, 16) scale(-1, 1)\n"
                       "net D(x: [8, 16, 16]) -> [] {\n  h = x\n  for c in [32, 32, 32] { h = h "
                       "|> conv(c, k=3, pad=1) |> batch_norm |> leaky_relu(0.2) }\n"
                       "  h |> flatten |> dense(1) |> squeeze\n}\nopt = sgd(lr=0.1)\n"
                       "step { update D minimize bce(D(x), 1) using opt }\n";
    compile_text(&a, text, 32, (Parallel){.ranks = 2, .bandwidth = 1e11, .bucket = 1024}, false,
                 &fast);
    compile_text(&a, text, 32, (Parallel){.ranks = 2, .bandwidth = 1e7, .bucket = 1024}, false,
                 &slow);
    check_plan(&fast.step);
    assert_int_equal(sums_beside_weights(&fast.step), 3); // one a layer, backward
    assert_int_equal(sums_beside_weights(&slow.step), 0);
}

// Weight gradients deferred until after the layer below keep activations alive.
static void memory_of_deferred_weight_gradients_is_bounded(void **state) {
    (void)state;
    Arena a = empty;
    Compiled deferred = {0}, early = {0};
    const char *text =
        "model m\ndata x : image(4, 64, 64) scale(-1, 1)\n"
        "net D(x: [4, 64, 64]) -> [] {\n  h = x |> conv(64, k=5, stride=2, pad=2) "
        "|> leaky_relu(0.2)\n  for c in [128, 256] { h = h |> conv(c, k=5, "
        "stride=2, pad=2) |> batch_norm |> leaky_relu(0.2) }\n"
        "  h |> flatten |> dense(1) |> squeeze\n}\nopt = sgd(lr=0.1)\n"
        "step { update D minimize bce(D(x), 1) + bce(D(x + normal(4, 64, 64)), 0) using opt }\n";
    compile_text(&a, text, 32, (Parallel){.ranks = 2, .bandwidth = 1e11, .bucket = 1024}, false,
                 &deferred);
    compile_text(&a, text, 32, (Parallel){.ranks = 2, .bandwidth = 1e6, .bucket = 1024}, false,
                 &early);
    assert_true(deferred.step.work_bytes * 20 <= early.step.work_bytes * 21);
}

// Two nets share a trunk: calls that combine sums of both would wait for each other. Only one of
// them is split.
static void a_cyclic_dependency_splits_one_call(void **state) {
    (void)state;
    Arena a = empty;
    Front f;
    Compiled c = {0};
    front_init(&f, &a);
    CompileOptions o = {.path = STR(ROOT_DIR "/models/infogan.gan"),
                        .batch = 16,
                        .real = DtF32,
                        .parallel = {.ranks = 2, .tail = true}};
    assert_int_equal(compile_file(&f, &o, &c), GAN_OK);
    uint32_t small = 0, shared = 0;
    for (uint32_t k = 0; k < c.step.collective.n; k++) {
        small += c.step.collective.at[k].update == NONE;
        shared += c.step.collective.at[k].part.n > 1;
    }
    check_plan(&c.step);
    assert_true(small < 30); // 41 sums
    assert_true(shared > 10);
}

// Estimated seconds of a section's launches; *sent: of the all-reduces it waits for.
static double section_seconds(const Plan *p, const Section *s, const Parallel *o, double *sent) {
    double work = 0;
    *sent = 0;
    for (uint32_t i = 0; i < s->n; i++) {
        const Region *r = &p->region.at[p->launch.at[s->first + i].region];
        if (r->kind == RegionWait)
            *sent += call_seconds(o, p->collective.at[r->call].bytes);
        else if (r->kind != RegionStart)
            work += region_seconds(p, r);
    }
    return work;
}

// Even a core faster than estimated has work until the tail's all-reduces finish, and even if all
// of them start at the step's end.
static void work_covers_deferred_sums_on_a_faster_core(void **state) {
    (void)state;
    Arena a = empty;
    Front f;
    Compiled c = {0};
    front_init(&f, &a);
    CompileOptions o = {.path = STR(ROOT_DIR "/models/cosmogan.gan"),
                        .batch = 16,
                        .real = DtF32,
                        .parallel = {.ranks = 2, .tail = true, .bandwidth = 1.3e8}};
    assert_int_equal(compile_file(&f, &o, &c), GAN_OK);
    double sent, none, work;
    assert_int_equal(c.step.tail.n, 1);
    assert_int_equal(c.step.func->blocks, 1); // runs the previous step's tail
    work = section_seconds(&c.step, &c.step.section.at[0], &o.parallel, &none);
    section_seconds(&c.step, &c.step.section.at[c.step.tail.at[0].section], &o.parallel, &sent);
    assert_true(work > 1.1 * sent);
}

// cosmoGAN's step on four ranks; bandwidth in bytes a second, 0: the default.
static const Plan *four_ranks(Arena *a, double bandwidth, Compiled *c) {
    Front f;
    front_init(&f, a);
    CompileOptions o = {.path = STR(ROOT_DIR "/models/cosmogan.gan"),
                        .batch = 16,
                        .real = DtF32,
                        .parallel = {.ranks = 4, .tail = true, .bandwidth = bandwidth}};
    assert_int_equal(compile_file(&f, &o, c), GAN_OK);
    return &c->step;
}

static uint32_t tail_of(const Plan *p, uint32_t region) {
    for (uint32_t t = 0; t < p->tail.n; t++) {
        const Section *s = &p->section.at[p->tail.at[t].section];
        for (uint32_t l = s->first; l < s->first + s->n; l++)
            for (uint32_t k = 0; k < p->launch.at[l].instances; k++)
                if (p->merge.at[p->launch.at[l].first + k] == region)
                    return t;
    }
    return NONE;
}

// Every launch of a tail is a wait or depends on one: any other would only delay its readers.
static void check_tails(Arena *a, double bandwidth) {
    Compiled c = {0};
    const Plan *p = four_ranks(a, bandwidth, &c);
    OrderVec order = {0};
    region_orders(a, p, &order);
    assert_int_equal(p->tail.n, 1);
    for (uint32_t r = 0; r < p->region.n; r++) {
        bool follows = tail_of(p, r) == NONE || p->region.at[r].kind == RegionWait;
        for (uint32_t i = 0; i < order.n; i++)
            follows |= order.at[i].after == r && tail_of(p, order.at[i].before) == 0;
        if (!follows)
            fail_msg("at %g bytes a second region %u of the tail depends on no wait", bandwidth, r);
    }
}

static void a_tail_contains_only_waits_and_their_dependents(void **state) {
    (void)state;
    for (int i = 0; i < 3; i++) {
        Arena a = empty;
        check_tails(&a, (const double[]){0, 1.3e8, 1.25e9}[i]);
    }
}

static uint32_t position(const Plan *p, uint32_t region) {
    uint32_t at = 0;
    while (p->merge.at[at] != region)
        at++;
    return at;
}

// The library call that computes a gradient, or NONE.
static uint32_t product_of(const Plan *p, const CallPart *part) {
    uint32_t source = node_in(&p->func->g, part->start, 0);
    uint32_t region = p->region_of[p->place[source].owner];
    return region != NONE && p->region.at[region].kind == RegionCall ? region : NONE;
}

// Where the link is the bottleneck, the largest call starts before gradients that can be computed
// during it, although these would fill short waits before it.
static void long_work_does_not_fill_a_short_wait(void **state) {
    (void)state;
    Arena a = empty;
    Compiled c = {0};
    const Plan *p = four_ranks(&a, 1.3e8, &c);
    uint32_t most = 0, behind = 0;
    for (uint32_t k = 0; k < p->collective.n; k++)
        most = p->collective.at[k].bytes > p->collective.at[most].bytes ? k : most;
    for (uint32_t k = most + 1; k < p->collective.n; k++) {
        for (uint32_t i = 0; i < p->collective.at[k].part.n; i++) {
            uint32_t product = product_of(p, &p->collective.at[k].part.at[i]);
            if (product == NONE)
                continue;
            assert_true(position(p, product) > position(p, p->collective.at[most].start));
            behind++;
        }
    }
    assert_true(behind > 0);
}

static void groups_within_a_rank_need_no_collective(void **state) {
    (void)state;
    // the remaining sums are the losses and the means of running statistics over the groups
    uint32_t none = sums_with("|> batch_norm(frozen=true)", 12, 2);
    uint32_t inside = sums_with("|> batch_norm(group=3)", 12, 2);
    uint32_t whole = sums_with("|> batch_norm", 12, 2);
    uint32_t across = sums_with("|> batch_norm(group=4)", 12, 2);
    assert_true(inside <= none + 3);
    assert_true(whole > inside + 3);
    assert_true(across > inside + 3);
    assert_int_equal(sums_with("|> layer_norm", 12, 2), none);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(calls_start_in_order_and_their_buffers_are_untouched),
        cmocka_unit_test(gradients_are_not_copied),
        cmocka_unit_test(gradients_in_halves_are_one_part_a_weight),
        cmocka_unit_test(every_rank_has_the_same_list),
        cmocka_unit_test(one_rank_has_no_collectives),
        cmocka_unit_test(buckets_are_cut_from_the_end),
        cmocka_unit_test(buckets_grow_from_the_end),
        cmocka_unit_test(a_bucket_counts_the_gaps_between_its_parts),
        cmocka_unit_test(batch_norm_synchronizes_once_each_way),
        cmocka_unit_test(weight_gradients_overlap_all_reduces),
        cmocka_unit_test(memory_of_deferred_weight_gradients_is_bounded),
        cmocka_unit_test(every_ranks_plans_read_back),
        cmocka_unit_test(plans_of_chunked_steps_read_back),
        cmocka_unit_test(plans_of_another_rank_are_refused),
        cmocka_unit_test(an_edited_plan_of_a_rank_is_refused_or_correct),
        cmocka_unit_test(a_cyclic_dependency_splits_one_call),
        cmocka_unit_test(work_covers_deferred_sums_on_a_faster_core),
        cmocka_unit_test(a_tail_contains_only_waits_and_their_dependents),
        cmocka_unit_test(long_work_does_not_fill_a_short_wait),
        cmocka_unit_test(groups_within_a_rank_need_no_collective),
    };
    return ARENA_CASES(tests, (size_t)1 << 32);
}
