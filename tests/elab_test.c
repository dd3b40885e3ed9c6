// elab_test.c - elaboration: every shipped model's weights, texts that must give one graph, how
// weights, layers and reports are named. Steps are in elab_step_test.c, messages in
// mistakes_test.c.
#include "elab_cases.h"

static const Module *model(const char *file, const char *set, bool feed) {
    Str text;
    Str path = path_join(&arena, STR(ROOT_DIR "/models"), str_c(file));
    if (file_read(&arena, path, &text) != GAN_OK)
        fail_msg("%s", gan_error());
    return module_of(file, text, set, feed);
}

// --- shipped models ------------------------------------------------------------------------------

// Sizes of the published nets: parameters, and numbers of state.
static const struct {
    const char *file, *set, *net;
    int64_t weights, state;
} counts[] = {
    {"dcgan.gan", NULL, "G", 3823555, 1920},
    {"dcgan.gan", NULL, "D", 2766529, 1792},
    {"dcgan.gan", "mode=published", "D", 2766529, 1792},
    {"wgan_gp.gan", NULL, "G", 3823555, 1920},
    {"wgan_gp.gan", NULL, "D", 2766529, 0},
    {"wgan_gp.gan", "penalty=none", "D", 2766529, 0},
    {"sngan.gan", NULL, "G", 3821891, 1344},
    {"sngan.gan", NULL, "D", 4854977, 640},
    {"sngan.gan", "mode=published", "D", 4854977, 640},
    {"cosmogan.gan", NULL, "G", 12824449, 1920},
    {"cosmogan.gan", NULL, "D", 4436225, 1792},
    {"cosmogan.gan", "mode=published", "D", 3583873, 1536},
    {"d3gan.gan", NULL, "G", 2962304, 1920},
    {"d3gan.gan", NULL, "D1", 2759424, 1792},
    {"d3gan.gan", "variant=ddp", "D2", 2759424, 1792},
    {"d3gan.gan", "nz=128", "G", 2962304 + 28 * 512 * 4, 1920},
    {"cosmogan.gan", "nz=100", "G", 12824449 + 36 * 131072, 1920},
    {"d2gan_ring.gan", NULL, "G", 49666, 0},
    {"d2gan_ring.gan", NULL, "D1", 513, 0},
    {"cyclegan.gan", NULL, "G_AB", 11378179, 0},
    {"cyclegan.gan", "blocks=6", "D_B", 2764737, 0},
    {"aae3d.gan", NULL, "E", 502272, 0},
    {"aae3d.gan", NULL, "G", 10981965, 0},
    {"aae3d.gan", NULL, "D", 369921, 0},
    {"aae3d.gan", "critic_filters=[32]", "D", 65 * 32 + 33, 0},
    {"aae3d.gan", "generator_filters=[8]", "G", 65 * 8 + 9 * 10125, 0},
    {"aae3d.gan", "encoder_use_bias=false", "E", 502272 - (64 + 128 + 256 + 256 + 512), 0},
    {"aae3d.gan", "generator_use_bias=false", "G", 10981965 - (64 + 128 + 512 + 1024 + 10125), 0},
    {"aae3d.gan", "critic_use_bias=false", "D", 369921 - (512 + 512 + 128 + 64 + 1), 0},
    {"stargan.gan", NULL, "G", 8430528, 0},
    {"stargan.gan", NULL, "D", 44762048, 0},
    {"wavegan.gan", NULL, "G", 19065345, 0},
    {"wavegan.gan", NULL, "D", 17427969, 0},
    {"biggan.gan", NULL, "G", 70433988, 63603}, // the figures of the authors' code
    {"biggan.gan", NULL, "D", 87982370, 13169},
    {"munit.gan", NULL, "C_A", 5385856, 0},
    {"munit.gan", NULL, "S_B", 2764936, 0},
    {"munit.gan", NULL, "G_A", 6875395, 0},
    {"munit.gan", NULL, "D_B", 8271171, 0},
    {"progan.gan", "size=1024", "G", 23071606, 1}, // the paper's 23.1M with all to_rgb
    {"progan.gan", "size=1024", "D", 23077265, 1}, // their 23087249 with all from_rgb
    {"progan.gan", "size=4", "G", 6556163, 0},
    {"hifigan.gan", NULL, "G", 13926017 + 10113, 0}, // the authors' figure, and a length a row
    {"hifigan.gan", NULL, "P.4", 8221154, 0},
    {"hifigan.gan", NULL, "S.1", 9874306, 0},
    {"stylegan2.gan", "size=256", "M", 2101248, 512},
    {"stylegan2.gan", "size=256", "G", 27933090, 0},
    {"stylegan2.gan", "size=1024", "G", 28268812, 0},
    {"stylegan2.gan", "size=1024", "D", 29012513, 0},
};

static void models_have_their_weights(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        const Module *m = model(counts[i].file, counts[i].set, false);
        int64_t weights = 0, other = 0;
        for (uint32_t k = 0; k < m->slot.n; k++) {
            const Slot *s = &m->slot.at[k];
            if (s->net == NONE || !str_eq(m->net.at[s->net].name, str_c(counts[i].net)))
                continue;
            if (s->kind == SlotParam)
                weights += type_sample(&s->type);
            if (s->kind == SlotState)
                other += type_sample(&s->type);
        }
        if (weights != counts[i].weights || other != counts[i].state)
            fail_msg("%s %s: %lld and %lld", counts[i].file, counts[i].net, (long long)weights,
                     (long long)other);
    }
}

static void a_yaml_twin_gives_the_same_graph(void **state) {
    (void)state;
    static const char *const sets[] = {NULL, "mode=published", "nz=64"};
    for (size_t i = 0; i < sizeof sets / sizeof *sets; i++) {
        Str gan = hash_of(model("dcgan.gan", sets[i], false)),
            yaml = hash_of(model("dcgan.yaml", sets[i], false));
        assert_string_equal(show(gan), show(yaml));
    }
}

static void fed_draws_are_slots_in_order(void **state) {
    (void)state;
    const Module *m = model("dcgan.gan", NULL, true);
    static const char *const types[] = {"[B, 128]",  "[B, 8192]", "[B]",
                                        "[B, 8192]", "[B]",       "[B, 8192]"};
    uint32_t n = 0;
    for (uint32_t i = 0; i < m->slot.n; i++) {
        const Slot *s = &m->slot.at[i];
        if (s->kind != SlotFed)
            continue;
        assert_int_equal(m->site.at[s->site].func, 1);
        assert_true(n < 6);
        assert_string_equal(show(type_text(&arena, &s->type)), types[n++]);
    }
    assert_int_equal(n, 6);
}

// --- small models --------------------------------------------------------------------------------

// Two texts that give the same graph.
static const struct {
    const char *what, *a, *b;
} twins[] = {
    {"a pipe is a call", NETS "step { update D minimize x |> D |> mean using opt; " G_STEP "}",
     NETS "step { update D minimize mean(D(x)) using opt; " G_STEP "}"},
    {"a loop over a list is its unrolling",
     NETS "step { s = 0; for a in [1, 2] { s = s + a*mean(D(a*x)) }; update D minimize s using "
          "opt; " G_STEP "}",
     NETS
     "step { s = 0 + 1*mean(D(1*x)); s = s + 2*mean(D(2*x)); update D minimize s using opt; " G_STEP
     "}"},
    {"a compile-time if leaves no trace",
     NETS "step { if 1 + 1 == 2 { loss = mean(D(x)) } else { loss = none }; update D minimize loss "
          "using opt; " G_STEP "}",
     NETS "step { update D minimize mean(D(x)) using opt; " G_STEP "}"},
    {"arguments by place and by name",
     NETS "step { update D minimize mean(mix(t=0.5, b=D(x), a=D(2*x))) using opt; " G_STEP "}",
     NETS "fn f(t, b, a) = mix(a, b, t)\nstep { update D minimize mean(f(0.5, D(x), D(2*x))) using "
          "opt; " G_STEP "}"},
    {"a penalty of the library is its text",
     NETS "step { update D minimize zero_penalty(D(x), x) using opt; " G_STEP "}",
     NETS "step { update D minimize mean(sum(grad(D(x), x)^2, sample)) using opt; " G_STEP "}"},
    {"a choice in an argument is a choice before it",
     NETS "step { c = mean(x); update D minimize if c > 0 { mean(D(x)) } else { mean(D(-x)) } "
          "using opt; " G_STEP "}",
     NETS "step { c = mean(x); l = if c > 0 { mean(D(x)) } else { mean(D(-x)) }; update D minimize "
          "l using opt; " G_STEP "}"},
    {"a parameter hides a config, and may be what the config never is",
     NETS "config _way = \"a\" | \"b\"\nfn f(_way) = if _way == \"c\" { 1 } else { 2 }\n"
          "step { update D minimize f(\"c\")*mean(D(x)) using opt; " G_STEP "}",
     NETS "config _way = \"a\" | \"b\"\n"
          "step { update D minimize 1*mean(D(x)) using opt; " G_STEP "}"},
    {"functions may be used before their text",
     HEAD "net D = Score\nfn Score(x: [4]) -> [] = x |> dense(1) |> squeeze\nstep { update D "
          "minimize mean(D(x)) using opt }",
     HEAD "fn Score(x: [4]) -> [] = x |> dense(1) |> squeeze\nnet D = Score\nstep { update D "
          "minimize mean(D(x)) using opt }"},
    {"SAME is what TensorFlow pads",
     HEAD "net D(x: [4]) -> [] = x |> reshape(1, 4) |> conv(2, k=5, stride=2, pad=\"same\") |> "
          "conv_transpose(3, k=5, stride=2, pad=\"same\") |> mean(sample)\n"
          "step { update D minimize mean(D(x)) using opt }",
     HEAD "net D(x: [4]) -> [] = x |> reshape(1, 4) |> conv(2, k=5, stride=2, pad=[[1, 2]]) |> "
          "conv_transpose(3, k=5, stride=2, pad=[[1, 2]]) |> mean(sample)\n"
          "step { update D minimize mean(D(x)) using opt }"},
    {"a list has one for each axis",
     HEAD "net D(x: [4]) -> [] = x |> reshape(1, 2, 2) |> conv(2, k=3, stride=[2, 2], "
          "pad=[[1, 2], 1], dilation=[1, 1]) |> upsample([2, 2]) |> mean(sample)\n"
          "step { update D minimize mean(D(x)) using opt }",
     HEAD "net D(x: [4]) -> [] = x |> reshape(1, 2, 2) |> conv(2, k=3, stride=2, "
          "pad=[[1, 2], [1, 1]]) |> upsample(2) |> mean(sample)\n"
          "step { update D minimize mean(D(x)) using opt }"},
    {"a range of a list ends where the list does",
     NETS "none_yet = []\nboth = [1, 2]\nstep { update D minimize len([...none_yet[:1], "
          "...both[1:9], ...both[-3:1], ...both[2:1]])*mean(D(x)) using opt; " G_STEP "}",
     NETS "step { update D minimize 2*mean(D(x)) using opt; " G_STEP "}"},
    {"a class that is told is a class that is known",
     HEAD "data k : label(3)\nnet D(x: [4], y) -> [] = x |> dense(5) |> conditional_batch_norm(y) "
          "|> mean(sample)\nstep { update D minimize mean(D(x, k)) using opt }",
     HEAD "data k : label(3)\nfn told(y: label(3)) = y\nnet D(x: [4], y) -> [] = x |> dense(5) |> "
          "conditional_batch_norm(told(1*y)) |> mean(sample)\n"
          "step { update D minimize mean(D(x, k)) using opt }"},
    {"a gradient to an element of a list is one to a name",
     NETS "step { r = [1*x, 2*x]; s = D(r[0])*D(...r[1:]); p = [norm2(grad(s, a)) for a in r]\n"
          "update D minimize mean(p[0] + p[1]) + mean(grad(s, r[1])) using opt; " G_STEP "}",
     NETS "step { a, b = [1*x, 2*x]; s = D(a)*D(b); p = norm2(grad(s, a)); q = norm2(grad(s, b))\n"
          "update D minimize mean(p + q) + mean(grad(s, b)) using opt; " G_STEP "}"},
    {"a list is added up from its first element to its last",
     NETS "step { n = sum([1, 2, sum([])]) + sum([5]); r = [mean(n*D(x*k)) for k in [1, 2, 3]]\n"
          "s = [x, D(x), 7]; update D minimize sum(r) + mean(sum(s)) using opt; " G_STEP "}",
     NETS "step { n = 8; r = [mean(n*D(x*k)) for k in [1, 2, 3]]\n"
          "s = [x, D(x), 7]; update D minimize r[0] + r[1] + r[2] + mean(s[0] + s[1] + s[2]) "
          "using opt; " G_STEP "}"},
    {"a list of numbers has a mean and extremes",
     NETS "step { r = [mean(D(k*x)) for k in [1, 2, 3]]; n = mean([1, 2, 6]) + max([1, 5, 4])\n"
          "update D minimize n*mean(r) + max(r) - min([3, 2])*min(r) using opt; " G_STEP "}",
     NETS "step { a, b, c = [mean(D(k*x)) for k in [1, 2, 3]]\n"
          "update D minimize 8*((a + b + c)/3) + max(max(a, b), c) - 2*min(min(a, b), c) using "
          "opt; " G_STEP "}"},
    {"a name of a weight is the weight",
     NETS "step { s = mean(D(x)); w = params(D)[0]; t = s + mean(D(2*x))\n"
          "update D minimize norm2(grad(t, w)) using opt; " G_STEP "}",
     NETS "step { s = mean(D(x)); t = s + mean(D(2*x))\n"
          "update D minimize norm2(grad(t, params(D)[0])) using opt; " G_STEP "}"},
    {"a net with other weights is what its layers are with them",
     NETS
     "step { now = mean(D(x)^2); w = [p - g/2 for p, g in zip(params(D), grad(now, params(D)))]\n"
     "v = [p + grad(mean(with_params(D, w)(2*x)^2), p) for p in w]\n"
     "update D minimize mean(with_params(D, v)(x)) + mean(D(x)) using opt; " G_STEP "}",
     NETS
     "fn d(x, w) = squeeze(einsum(\"on,n->o\", w[0], x) + w[1])\n"
     "step { now = mean(D(x)^2); w = [p - g/2 for p, g in zip(params(D), grad(now, params(D)))]\n"
     "v = [p + grad(mean(d(2*x, w)^2), p) for p in w]\n"
     "update D minimize mean(with_params(D, v)(x)) + mean(D(x)) using opt; " G_STEP "}"},
    {"the weights of a net with other weights are those",
     NETS "step { now = mean(D(x)^2)\n"
          "F = with_params(D, [p - g/2 for p, g in zip(params(D), grad(now, params(D)))])\n"
          "g = grad(mean(F(2*x)^2), params(F))\n"
          "v = [p + h for p, h in zip(params(F), g)]\n"
          "update D minimize mean(with_params(D, v)(x)) + now using opt; " G_STEP "}",
     NETS
     "step { now = mean(D(x)^2); w = [p - g/2 for p, g in zip(params(D), grad(now, params(D)))]\n"
     "g = grad(mean(with_params(D, w)(2*x)^2), w)\n"
     "v = [p + h for p, h in zip(w, g)]\n"
     "update D minimize mean(with_params(D, v)(x)) + now using opt; " G_STEP "}"},
    {"zip goes through any number of lists",
     NETS "step { k = sum([a*b - c for a, b, c in zip([1, 2], [3, 4], [5, 6])])\n"
          "r = [1*x, 2*x]; s = D(r[0])*D(r[1])\n"
          "p = sum([a*norm2(grad(s, v)) for a, v, b in zip([1, 2], r, [7, 8])])\n"
          "update D minimize mean(k*D(x) + p) using opt; " G_STEP "}",
     NETS "step { k = 0; r = [1*x, 2*x]; s = D(r[0])*D(r[1])\n"
          "p = 1*norm2(grad(s, r[0])) + 2*norm2(grad(s, r[1]))\n"
          "update D minimize mean(k*D(x) + p) using opt; " G_STEP "}"},
    {"data, a state and a weight have their shape before the step",
     NETS
     "state s : [3, 4] = 0\n_w = params(D)\nstep { update D minimize 12*4*mean(D(x)) + mean(s) "
     "using opt; " G_STEP "}",
     NETS
     "state s : [3, 4] = 0\nw = params(D)\na, b = shape(s)\n"
     "step { update D minimize a*shape(w[0])[1]*shape(x)[0]*mean(D(x)) + mean(s) using opt; " G_STEP
     "}\n"
     "n = shape(x)[0]; require(n == b, \"the shape of data before the step\")"},
    {"a list of weights is bound anew, as one of them is",
     HEAD "net D(x: [4]) -> [] { param w : [[4], [4]] = gauss(1); w = [p*2 for p in w]\n"
          "mean(w[0]*x + w[1], sample) }\nstep { update D minimize mean(D(x)) using opt }",
     HEAD "net D(x: [4]) -> [] { param w : [[4], [4]] = gauss(1); a = "
          "w[0]*2; b = w[1]*2\nmean(a*x + b, sample) }\nstep { update D minimize mean(D(x)) using "
          "opt }"},
    {"pads are of any number of axes",
     NETS "p = pads([1, 2], range(40))\nstep { update D minimize len(p)*p[39][1]*mean(D(x)) using "
          "opt; " G_STEP "}",
     NETS "step { update D minimize 80*mean(D(x)) using opt; " G_STEP "}"},
    {"a shape is bound by the call",
     HEAD "fn f(x: [n, ...size]) = n*x + len(size)\nnet D(x: [4]) -> [] = x |> f |> dense(1) |> "
          "squeeze\n"
          "step { update D minimize mean(D(x)) using opt }",
     HEAD "net D(x: [4]) -> [] = 4*x + 0 |> dense(1) |> squeeze\nstep { update D minimize "
          "mean(D(x)) using opt }"},
};

static void yaml_and_gan_texts_give_the_same_graph(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof twins / sizeof *twins; i++) {
        Str a = hash_of(small(twins[i].a)), b = hash_of(small(twins[i].b));
        if (!str_eq(a, b))
            fail_msg("%s: the graphs differ", twins[i].what);
    }
}

static void input_classes_are_part_of_the_hash(void **state) {
    (void)state;
    static const char *const kinds[] = {"[]", "label(2)", "label(3)"};
    Str hash[3];
    for (size_t i = 0; i < 3; i++)
        hash[i] = hash_of(
            small(show(str_format(&arena, NETS "step { %s }\nsample s(y: %s) = 1*y",
                                  "update D minimize mean(D(x)) using opt; " G_STEP, kinds[i]))));
    assert_false(str_eq(hash[0], hash[1]));
    assert_false(str_eq(hash[1], hash[2]));
}

// 2^31 numbers: 1024 times as many would be too many, but a weight has no batch.
static void a_weight_is_counted_without_the_batch(void **state) {
    (void)state;
    Case *c = elaborate_text(
        "m.gan",
        STR("model m\ndata x : float(4)\n"
            "net D(x: [4]) -> [] = x |> dense(65536) |> dense(32768) |> dense(1) |> squeeze\n"
            "step { update D minimize mean(D(x)^2) using sgd(1e-3) }\n"),
        1024, NULL, false);
    if (!c->fine)
        fail_msg("%s", show(messages(c)));
}

// A field's `map` is applied once a batch where the field is read; values that are fed are mapped
// already. Samples of the field's shape are mapped back to the files' units, others are not.
static void a_data_map_is_part_of_the_graphs(void **state) {
    static const char text[] = "model m\nfn back(s) = log((1 + s)/(1 - s))/2\n"
                               "data x : float(2) map(tanh, back)\n"
                               "net N(x: [2]) -> [2] = x |> dense(2)\nopt = sgd()\nstep {\n"
                               "  p = mean(norm2(grad(N(x), x)))\n"
                               "  update N minimize p + mean(N(x)) using opt\n}\n"
                               "sample like_x = N(x)\nsample other = sum(N(x), sample)\n";
    (void)state;
    const Module *m = module_of("map", str_c(text), NULL, false);
    const Func *like = &m->entry.at[0], *other = &m->entry.at[1];
    assert_int_equal(count_op(&m->step, OpTanh), 1);
    assert_int_equal(count_op(like, OpTanh), 1);
    assert_int_equal(like->result.n, 2);
    assert_string_equal(show(like->result.at[1].name), "like_x.raw");
    assert_int_equal(other->result.n, 1);
    m = module_of("map", str_c(text), NULL, true);
    assert_int_equal(count_op(&m->step, OpTanh), 0);
}

static void a_copy_starts_from_its_nets_weights(void **state) {
    (void)state;
    const Module *m =
        small(NETS "net G_avg = copy(G)\nstep { update D minimize mean(D(x)) using opt\n" G_STEP
                   "ema(G_avg, G, keep=0.9) }\nsample fakes = G_avg(normal(2))");
    uint32_t found = 0;
    assert_int_equal(m->net.at[2].params, m->net.at[0].params);
    for (uint32_t i = 0; i < m->slot.n; i++) {
        const Slot *a = &m->slot.at[i];
        if (a->net != 2)
            continue;
        for (uint32_t k = 0; k < m->slot.n; k++) {
            const Slot *b = &m->slot.at[k];
            if (b->net == 0 &&
                str_eq(str_sub(a->name, 5, a->name.len), str_sub(b->name, 1, b->name.len))) {
                assert_int_equal(a->init, b->init);
                found++;
            }
        }
    }
    assert_int_equal(found, 2);
}

// Layers bound to names use them; others are numbered; a second call uses the same weights.
static void weights_are_named_by_their_path(void **state) {
    (void)state;
    const Module *m = small(HEAD "fn residual(c)(x) = x + (x |> dense(c) |> dense(c))\n"
                                 "net D(x: [4]) -> [] { head = dense(1); x |> residual(4) |> "
                                 "residual(4) |> head |> squeeze }\n"
                                 "step { update D minimize mean(D(x)) + mean(D(-x)) using opt }");
    static const char *const names[] = {"D.residual.0.dense.0.w", "D.residual.0.dense.1.b",
                                        "D.residual.1.dense.0.b", "D.head.w"};
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(slots_named(m, names[i]), 1);
    assert_int_equal(m->net.at[0].params, 10);
}

// Two branches of an `if`, taken in two calls or at run time, have layers of their own, also where
// one function makes them; what is made before them they share, and what follows them is one.
static void layers_of_two_branches_are_two(void **state) {
    (void)state;
    const Module *m = small(HEAD "fn wide(x) = x |> dense(4) |> relu\n"
                                 "net D(x: [4], second=false) -> [] { both = dense(4)\n"
                                 "h = if second { x |> wide |> both } else { x |> wide |> both }\n"
                                 "h = h |> dense(4)\n"
                                 "if mean(h) > 0 { h |> dense(1) |> squeeze } else "
                                 "{ h |> dense(1) |> squeeze } }\n"
                                 "step { update D minimize mean(D(x)) + "
                                 "mean(D(-x, second=true)) + mean(D(2*x)) using opt }");
    static const char *const names[] = {"D.dense.0.w", "D.both.w",    "D.dense.1.w",
                                        "D.dense.2.w", "D.dense.3.w", "D.dense.4.b"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        assert_int_equal(slots_named(m, names[i]), 1);
    assert_int_equal(m->net.at[0].params, 2 * sizeof names / sizeof *names);
}

// Layers of a list: by the names it is unpacked to, or by its own and their number.
static void layers_of_a_list_are_named(void **state) {
    (void)state;
    const Module *m = small(HEAD "net D(x: [4]) -> [] { score, style = [dense(1), dense(4)]\n"
                                 "hidden = [dense(c) for c in [3, 4]]; last = style\n"
                                 "first, ...more = [dense(2), dense(2)]\n"
                                 "x = x |> first |> more[0]\n"
                                 "x |> last |> hidden[1] |> hidden[0] |> score |> squeeze }\n"
                                 "a, b = [opt, opt]\n"
                                 "step { update D minimize mean(D(x)) using a }");
    static const char *const names[] = {"D.style.w", "D.hidden.1.w",    "D.hidden.0.w",
                                        "D.score.b", "opt.m/D.style.w", "D.first.w",
                                        "D.more.0.w"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        assert_int_equal(slots_named(m, names[i]), 1);
}

// Listed before the net is called, its weights and state are those that the call makes: draws,
// reports and choices in the net's body are the call's alone.
static void weights_are_listed_before_the_net_is_called(void **state) {
    (void)state;
#define PENALTY "far = sum([norm2(w) for w in params(E)])\n"
#define FIRST_CALL "y = E(x, 1)\n"
#define REST                                                                                       \
    "update E minimize mean(y) + far using opt; update D minimize mean(D(x)) using opt; " G_STEP   \
    "ema(E_avg, E, keep=0.9) }\nsample s = E_avg(normal(4), 1)"
    static const char nets[] =
        NETS "net E(x: [4], y: label(3)) -> [] { h = concat(x, embed(2)(y)) |> dense(4) |> "
             "batch_norm |> dropout(0.5)\n"
             "big = mean(h) > 0; report big\n"
             "score = if big { h |> dense(1) } else { h |> linear(1) }\n"
             "score |> squeeze }\n"
             "net E_avg = copy(E)\n";
    const Module *made[2] = {
        small(show(str_format(&arena, "%sstep { " FIRST_CALL PENALTY REST, nets))),
        small(show(str_format(&arena, "%sstep { " PENALTY FIRST_CALL REST, nets)))};
    assert_int_equal(made[0]->site.n, made[1]->site.n);
    assert_int_equal(made[0]->step.report.n, made[1]->step.report.n);
    assert_int_equal(made[0]->layer.n, made[1]->layer.n);
    for (uint32_t k = 0; k < 2; k++)
        assert_int_equal(made[k]->net.at[3].params, 9);
    for (uint32_t i = 0; i < made[0]->slot.n; i++) {
        const Slot *s = &made[0]->slot.at[i];
        if ((s->kind == SlotParam || s->kind == SlotState) && !slots_named(made[1], show(s->name)))
            fail_msg("%s is not there", show(s->name));
    }
#undef PENALTY
#undef FIRST_CALL
#undef REST
}

static void a_list_of_no_shapes_declares_no_state(void **state) {
    (void)state;
    const Module *m = small(NETS "net Id(x: [4]) -> [4] = 2*x\nstate one : [1 for n in []] = 0\n"
                                 "state old : [shape(w) for w in params(Id)] = 0\n"
                                 "step { update D minimize mean(D(Id(x))) using opt; " G_STEP
                                 "old := params(Id); one := one + len(old); report one }");
    assert_int_equal(slots_named(m, "old") + 2 * slots_named(m, "one"), 2);
}

// Around a layer, as decorators of two lists do; a layer in front of it is its argument.
static void a_tensor_is_piped_into_what_names_a_layer(void **state) {
    (void)state;
    const Module *m = small(HEAD "net D(x: [4]) -> [] { last = dense(1) |> named(\"out\"); "
                                 "x |> named(dense(4), \"fc\", 0) |> last |> squeeze }\n"
                                 "step { update D minimize mean(D(x)) using opt }\n"
                                 "sample s = x |> eval(D)");
    assert_int_equal(slots_named(m, "D.fc.0.w"), 1);
    assert_int_equal(slots_named(m, "D.out.w"), 1);
    assert_int_equal(m->net.at[0].params, 4);
}

// Calls share the value of `once` where its names have the same values: not two weights, nor
// functions that captured them; but all calls of a net.
static void a_once_is_shared_by_calls_with_equal_arguments(void **state) {
    (void)state;
    static const char *const sines[] = {
        "fn f(w) = once { sin(w) }\n",
        "fn f(w) { fn g() = sin(w)\n once { g() } }\n",
    };
    for (size_t i = 0; i < sizeof sines / sizeof *sines; i++) {
        const Module *m = small(
            show(str_format(&arena,
                            HEAD "%snet D(x: [4]) -> [] { param p : [4] = 1; param q : [4] = 2; "
                                 "sum(x*f(p)) + 2*sum(x*f(q)) + 3*sum(x*f(p)) }\n"
                                 "step { update D minimize mean(D(x)) + mean(D(-x)) using opt }",
                            sines[i])));
        assert_int_equal(count_op(&m->step, OpSin), 2);
    }
}

// In a net by the object, in an optimizer by the weight, or by the nets where the number is the
// same for all weights; each once, though an optimizer with a total is evaluated twice.
static void reports_are_named_by_where_they_are(void **state) {
    (void)state;
    static const char *const names[] = {
        "size/D.Layer.0", "sum/D", "early/D.b", "norm/D", "early/D.Layer.0.a",
        "size/D.Layer.0", "sum/D", "early/G",   "norm/G", "sum",
    };
    const Module *m = module_of(
        "reports",
        STR("model m\ndata x : float(3)\n"
            "fn Layer()(x) { param a : [3] = 1; report size = mean(x); a*x }\n"
            "net D(x: [3]) -> [] { param b = 1; h = x |> Layer; report sum = mean(h); b*sum(h, "
            "sample) }\n"
            "net G(z: [3]) -> [3] { param w : [3] = 1; w*z }\n"
            "fn logged(opt)(w, g) { report early = sum(g^2), norm = total(sum(g^2)); opt(w, g) }\n"
            "opt = sgd(lr=0.1)\nstep {\n"
            "  update D minimize mean(D(x)) using clip_norm(1, logged(opt))\n"
            "  loss = mean(D(G(normal(3))))\n"
            "  update G minimize loss using logged(opt)\n"
            "  report sum = loss\n}\n"
            "sample score = D(G(normal(3)))\n"),
        NULL, false);
    assert_int_equal(m->step.report.n, sizeof names / sizeof *names);
    for (uint32_t i = 0; i < m->step.report.n; i++)
        assert_string_equal(show(m->step.report.at[i].name), names[i]);
    assert_int_equal(m->entry.at[0].report.n, 0);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(models_have_their_weights, set_up),
        cmocka_unit_test_setup(a_weight_is_counted_without_the_batch, set_up),
        cmocka_unit_test_setup(a_yaml_twin_gives_the_same_graph, set_up),
        cmocka_unit_test_setup(fed_draws_are_slots_in_order, set_up),
        cmocka_unit_test_setup(yaml_and_gan_texts_give_the_same_graph, set_up),
        cmocka_unit_test_setup(input_classes_are_part_of_the_hash, set_up),
        cmocka_unit_test_setup(a_data_map_is_part_of_the_graphs, set_up),
        cmocka_unit_test_setup(a_copy_starts_from_its_nets_weights, set_up),
        cmocka_unit_test_setup(weights_are_named_by_their_path, set_up),
        cmocka_unit_test_setup(layers_of_two_branches_are_two, set_up),
        cmocka_unit_test_setup(layers_of_a_list_are_named, set_up),
        cmocka_unit_test_setup(weights_are_listed_before_the_net_is_called, set_up),
        cmocka_unit_test_setup(a_once_is_shared_by_calls_with_equal_arguments, set_up),
        cmocka_unit_test_setup(a_list_of_no_shapes_declares_no_state, set_up),
        cmocka_unit_test_setup(a_tensor_is_piped_into_what_names_a_layer, set_up),
        cmocka_unit_test_setup(reports_are_named_by_where_they_are, set_up),
    };
    return ARENA_CASES(tests, 0);
}
