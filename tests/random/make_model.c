// make_model.c - generates a whole model: data, nets, a step with everything that a step may
// contain, samples (make.h).
#include "make.h"

typedef struct ModelInfo { // what the parts of a model share
    Type image, latent;
    int64_t classes;  // 0: no labels
    bool conditional; // D sees them
    bool average;     // the model has E, G's average
    uint32_t opts;
} ModelInfo;

static const char *dims_of(Maker *k, Type t) {
    Text text = {.arena = k->text.arena};
    for (uint32_t i = 0; i < t.rank; i++)
        text_fmt(&text, "%s%lld", i ? ", " : "", (long long)t.dim[i]);
    text_put(&text, STR(""));
    return text_str(&text).ptr;
}

// --- nets ----------------------------------------------------------------------------------------

static const Known *flat_dense(Maker *k, const Known *v, Type wide) {
    Type flat = {.batched = true, .rank = 1, .dim = {type_sample(&v->type)}};
    v = v->type.rank == 1 ? v : bind_value(k, flat, "flatten(%s)", v->name);
    return bind_value(k, wide, "%s |> dense(%lld)", v->name, (long long)wide.dim[0]);
}

// Random values, then the result computed from the last ones.
static void net_body(Maker *k, Type result, uint32_t lines) {
    for (uint32_t i = 0; i < lines; i++)
        chance(k, 45) ? make_layer(k) : make_value(k);
    const Known *last = &k->known[k->n - 1];
    for (uint32_t i = 0; i < 8 && !last->type.batched; i++)
        last = &k->known[k->n - 1 - roll(k, k->n)];
    if (!last->type.batched || last->classes)
        last = &k->known[0];
    Type wide = {.batched = true, .rank = 1, .dim = {type_sample(&result)}};
    const Known *row = flat_dense(k, last, wide);
    if (chance(k, 80)) { // else it may not depend on its input
        const Known *other = flat_dense(k, &k->known[0], wide);
        row = bind_value(k, wide, "%s + 0.5*%s", row->name, other->name);
    }
    if (result.rank == 0)
        line(k, "%s |> squeeze", row->name);
    else
        line(k, "reshape(%s, %s) |> tanh", row->name, dims_of(k, result));
}

static void put_net(Maker *k, const ModelInfo *p, char name, Type in, Type result, bool label) {
    line(k, "net %c(x: [%s]%s) -> [%s] {", name, dims_of(k, in),
         label ? str_format(k->text.arena, ", y: label(%lld)", (long long)p->classes).ptr : "",
         dims_of(k, result));
    k->indent++;
    k->n = 0;
    in.batched = true;
    known_add(k, "x", in);
    if (label)
        known_add(k, "y", (Type){.batched = true})->classes = p->classes;
    net_body(k, result, 1 + roll(k, 9));
    k->indent--;
    line(k, "}");
}

// --- the step ------------------------------------------------------------------------------------

static const char *fake(Maker *k, const ModelInfo *p) {
    static const char *const form[] = {"G(normal(%s))", "G(uniform(%s))", "stop(G(normal(%s)))"};
    return str_format(k->text.arena, PICK(k, form), dims_of(k, p->latent)).ptr;
}

// A call of D on the named value, with the label where D takes one.
static const char *score(Maker *k, const ModelInfo *p, const char *of) {
    return str_format(k->text.arena, p->conditional ? "D(%s, y)" : "D(%s)", of).ptr;
}

static const char *make_loss(Maker *k, const ModelInfo *p, const char *a, const char *b) {
    static const char *const form[] = {
        "wasserstein(%s, %s)",          "logistic(%s, %s)",     "least_squares(%s, %s)",
        "relativistic_average(%s, %s)", "hinge(%s, %s)",        "mse(%s, %s)",
        "bce(%s, 0.9) + bce(%s, 0)",    "relativistic(%s, %s)",
    };
    return str_format(k->text.arena, PICK(k, form), score(k, p, a), score(k, p, b)).ptr;
}

// A penalty over nested gradients, as a term behind a loss.
static const char *make_penalty(Maker *k, const ModelInfo *p, const char *x, const char *f) {
    Arena *a = k->text.arena;
    switch (roll(k, 8)) {
    case 0:
        return p->conditional
                   ? ""
                   : str_format(a, " + 0.2*gradient_penalty(D, %s, %s, eps=1e-2)", x, f).ptr;
    case 1:
        return str_format(a, " + 0.1*zero_penalty(%s, %s)", score(k, p, x), x).ptr;
    case 2:
        return str_format(a, " + every 2 { 0.1*zero_penalty(%s, %s) }", score(k, p, f), f).ptr;
    case 3:
        return p->conditional ? "" : str_format(a, " + 0.3*dragan(D, %s, eps=1e-2)", x).ptr;
    case 4:
        return str_format(a, " + 0.1*mean(tanh(grad(norm2(grad(%s, %s)), %s)))", score(k, p, x), x,
                          x)
            .ptr;
    case 5:
        return str_format(a, " + 0.02*mean(grad(%s, %s)^2)", score(k, p, f), f).ptr;
    default:
        return "";
    }
}

static const char *optimizer(Maker *k, const ModelInfo *p) {
    static const char *const form[] = {
        "sgd(lr=0.02)",
        "sgd(lr=0.01, momentum=0.5)",
        "adam(lr=2e-3, beta1=0.5, eps=1e-2)",
        "clip_norm(0.5, sgd(lr=0.02))",
        "weight_decay(0.01, adamw(lr=1e-3, eps=1e-2))",
        "clip_weights(0.9, rmsprop(lr=1e-3, eps=0.1))",
        "optimistic(sgd(lr=0.01))",
        "lookahead(sgd(lr=0.02), k=2)",
        "groups(\"*.w\", sgd(lr=0.01), freeze())",
        "sgd(lr=ramp(0.02, 0.01, from=0, to=2))",
        "clip_value(0.1, adam(lr=1e-3, eps=1e-1))",
        "extragradient(sgd(lr=0.01))",
        "orthogonal_weights(0.01, sgd(lr=0.01))",
    };
    if (p->opts && chance(k, 60))
        return str_format(k->text.arena, "opt%u", roll(k, p->opts)).ptr;
    return PICK(k, form);
}

static void put_update(Maker *k, const ModelInfo *p, const char *f) {
    const Known *some = known_any(k);
    bool extra = !some->classes && chance(k, 40);
    if (extra)
        some = make_number(k, some);
    if (chance(k, 65)) {
        line(k, "update D minimize %s%s using %s", make_loss(k, p, "x", f),
             make_penalty(k, p, "x", f), optimizer(k, p));
        return;
    }
    const char *again = str_format(k->text.arena, "g%u", k->made++).ptr;
    line(k, "%s = G(normal(%s))", again, dims_of(k, p->latent));
    line(k, "update %s minimize %s%s%s using %s", chance(k, 15) ? "G, D" : "G",
         chance(k, 50) ? make_loss(k, p, again, "x")
                       : str_format(k->text.arena, "-mean(%s)", score(k, p, again)).ptr,
         extra ? " + 0.1*" : "", extra ? some->name : "", optimizer(k, p));
}

// Scores of values that are all there before the first, the last of them in another loss, too. Of
// rows: D may begin with a product.
static void put_scores(Maker *k, const ModelInfo *p) {
    static const char *const form[] = {"0.7*%s", "tanh(%s)", "0.2 - %s", "%s^2"};
    enum { Scores = 8 };
    Type t = p->image;
    const char *of[Scores], *s = "";
    t.batched = true;
    const char *f = bind_value(k, t, "G(normal(%s))", dims_of(k, p->latent))->name;
    for (uint32_t i = 0; i < Scores; i++)
        of[i] = bind_value(k, t, PICK(k, form), i < 3 ? "x" : f)->name;
    for (uint32_t i = 0; i < Scores; i++) {
        s = bind_value(k, (Type){.batched = true}, "%s", score(k, p, of[i]))->name;
        of[i] = str_format(k->text.arena, "%s%s", i ? ", " : "", s).ptr;
    }
    line(k, "update D minimize mean([mean(softplus(s)) for s in [%s%s%s%s%s%s%s%s]]) using %s",
         of[0], of[1], of[2], of[3], of[4], of[5], of[6], of[7], optimizer(k, p));
    line(k, "update G minimize mean(%s) using %s", s, optimizer(k, p));
}

// Values computed from data, fakes and each other.
static void put_values(Maker *k, uint32_t n) {
    for (uint32_t i = 0; i < n; i++)
        make_value(k);
}

static void put_gradient(Maker *k, const ModelInfo *p, const char *f) {
    Type t = p->image;
    t.batched = true;
    const Known *v = bind_value(k, t, "mix(x, %s, 0.5)", f);
    const Known *s = v ? bind_value(k, (Type){.batched = true}, "%s", score(k, p, v->name)) : NULL;
    const Known *g = s ? bind_value(k, t, "grad(%s, %s)", s->name, v->name) : NULL;
    if (g && chance(k, 50))
        bind_value(k, t, "grad(norm2(%s)*0.5, %s)", g->name, v->name);
}

static void put_accumulator(Maker *k) {
    const Known *v = known_any(k);
    if (v->classes)
        return;
    const Known *level = make_number(k, v);
    char name[24];
    snprintf(name, sizeof name, "a%u", k->made++);
    line(k, "state %s = 0.5", name);
    static const char *const change[] = {"%s := mix(%s, %s, 0.3)", "%s := 0.5*%s + %s",
                                         "%s := clamp(%s + 0.1*%s, -2, 2)"};
    if (chance(k, 30))
        line(k, "every 2 { %s := %s + %s }", name, name, level->name);
    else
        line(k, PICK(k, change), name, name, level->name);
    known_add(k, name, (Type){.rank = 0});
}

static void put_branch(Maker *k) {
    const Known *a = known_any(k);
    if (a->classes)
        return;
    const Known *level = make_number(k, a),
                *u = make_number(k, known_any(k)->classes ? a : known_any(k));
    bind_value(k, (Type){.rank = 0}, "if %s > %s { %s*2 } else { tanh(%s) }", level->name, u->name,
               level->name, u->name);
}

// Gradients of each sample of D, whose results a batch norm would mix.
static void put_each_gradient(Maker *k, const ModelInfo *p, const char *f) {
    const char *name = str_format(k->text.arena, "of%u", k->made++).ptr;
    line(k, "fn %s(D) = softplus(-%s)", name, score(k, p, f));
    bind_value(k, (Type){.batched = true},
               "sqrt(sum([norm2(g) for g in per_sample_grad(D, %s)]) + 0.01)", name);
}

// What only some steps do, or one of two.
static void put_sometimes(Maker *k, const ModelInfo *p, const char *f) {
    const Known *by = known_any(k);
    if (by->classes)
        return;
    if (chance(k, 40))
        line(k, "every 2 {");
    else
        line(k, "if %s > 0.3 {", make_number(k, by)->name);
    uint32_t known = k->n;
    k->indent++;
    put_values(k, roll(k, 4));
    put_update(k, p, f);
    k->indent--;
    k->n = known;
    line(k, "}");
}

static void put_reports(Maker *k) {
    for (uint32_t i = 0; i < 2; i++) {
        const Known *v = known_any(k);
        if (!v->classes)
            line(k, "report r%u = %s", k->made++, make_number(k, v)->name);
    }
}

static const char *put_fake(Maker *k, const ModelInfo *p) {
    Type t = p->image;
    t.batched = true;
    const Known *v = bind_value(k, t, "%s", fake(k, p));
    if (chance(k, 15)) {
        static const char *const change[] = {"replay(3)(%s)", "%s |> replay(2)", "%s |> same"};
        v = bind_value(k, t, PICK(k, change), v->name);
    }
    return v->name;
}

static void put_round(Maker *k, const ModelInfo *p, bool inside) {
    const char *f = put_fake(k, p);
    put_values(k, roll(k, 8));
    if (chance(k, 25))
        put_gradient(k, p, f);
    if (chance(k, 8))
        put_each_gradient(k, p, f);
    put_update(k, p, f);
    if (chance(k, 30)) {
        put_values(k, roll(k, 4));
        put_update(k, p, f);
    }
    if (p->image.rank == 1 && chance(k, 40))
        put_scores(k, p);
    if (chance(k, 20))
        put_sometimes(k, p, f);
    if (chance(k, 25) && inside)
        put_reports(k);
}

static void put_step(Maker *k, const ModelInfo *p) {
    Type t = p->image;
    t.batched = true;
    k->n = 0;
    known_add(k, "x", t);
    if (p->classes)
        known_add(k, "y", (Type){.batched = true})->classes = p->classes;
    line(k, "step {");
    k->indent++;
    if (chance(k, 30)) {
        uint32_t known = k->n;
        line(k, "repeat %u {", 2 + roll(k, 2));
        k->indent++;
        if (chance(k, 40))
            line(k, "next x");
        put_round(k, p, false);
        k->indent--;
        line(k, "}");
        k->n = known;
    }
    if (chance(k, 30))
        put_accumulator(k);
    put_round(k, p, true);
    if (chance(k, 20))
        put_branch(k);
    if (chance(k, 40))
        put_update(k, p, put_fake(k, p));
    if (p->average)
        line(k, "ema(E, G, keep=0.9)");
    put_reports(k);
    k->indent--;
    line(k, "}");
}

// --- the rest ------------------------------------------------------------------------------------

static void put_samples(Maker *k, const ModelInfo *p) {
    line(k, "sample fakes = %s(normal(%s))", p->average ? "E" : "G", dims_of(k, p->latent));
    if (chance(k, 40)) {
        line(k, "sample more(a: [%s]) {", dims_of(k, p->latent));
        k->indent++;
        Type t = p->latent;
        t.batched = true;
        k->n = 0;
        known_add(k, "a", t);
        put_values(k, 1 + roll(k, 5));
        line(k, "G(a) + 0*mean(%s)", known_any(k)->name);
        k->indent--;
        line(k, "}");
    }
}

static Type random_image(Maker *k) {
    Type t = {.rank = (uint8_t)(1 + roll(k, 4))};
    bool small = k->most < 1000, volume = t.rank == 4;
    uint32_t most = volume ? (small ? 3 : 6) : small ? 5 : 16;
    for (uint32_t i = 0; i < t.rank; i++)
        t.dim[i] = 1 + roll(k, i ? most : 4);
    return t;
}

RandomModel random_model(Arena *a, uint64_t seed) {
    static const int64_t batches[] = {1, 2, 4, 4, 4, 6, 8, 3, 5, 7};
    static const int64_t classes[] = {2, 3, 4, 9}; // tables of 8 rows or more are indexed (nest.c)
    Maker *k = arena_new(a, Maker);
    *k = (Maker){.text.arena = a, .state = seed * 0x9e3779b97f4a7c15u + 1};
    roll(k, 2);
    k->batch = PICK(k, batches);
    k->most = chance(k, 6) ? 1024 : 160;
    ModelInfo p = {.image = random_image(k), .latent = {.rank = 1, .dim = {1 + roll(k, 5)}}};
    p.classes = chance(k, 35) ? PICK(k, classes) : 0;
    p.conditional = p.classes && chance(k, 60);
    p.average = chance(k, 30);
    line(k, "model random");
    line(k, "fn own(w) = w*(0.5 + uniform())");
    line(k, p.classes ? "data x : float(%s), y : label(%lld)" : "data x : float(%s)",
         dims_of(k, p.image), (long long)p.classes);
    for (uint32_t n = roll(k, 3); p.opts < n; p.opts++) {
        ModelInfo none = {0};
        line(k, "opt%u = %s", p.opts, optimizer(k, &none));
    }
    put_net(k, &p, 'G', p.latent, p.image, false);
    put_net(k, &p, 'D', p.image, (Type){.rank = 0}, p.conditional);
    if (p.average)
        line(k, "net E = copy(G)");
    put_step(k, &p);
    put_samples(k, &p);
    return (RandomModel){text_str(&k->text), k->batch};
}
