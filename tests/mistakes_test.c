// mistakes_test.c - what elaboration says of a text. Several mistakes are reported once each, and
// what follows from one not at all; what is meant gets no warning; settings are checked. Golden
// cases: tests/golden/err/NAME.gan or .yaml beside NAME.err: one common error, and the one
// diagnostic of elaborating it at batch 4, with a help line. Lines of the library have a star for
// their number, so that an edit of stdlib/ changes only the cases that quote it.
#include "elab_cases.h"
#include "golden.h"

#include <stdlib.h>

// --- single mistakes -----------------------------------------------------------------------------

static void settings_are_checked_for_type_and_spelling(void **state) {
    (void)state;
    static const struct {
        const char *model, *set, *code, *help;
    } wrong[] = {
        {"dcgan.gan", "mod=published", "E0613", "did you mean `mode`?"},
        {"dcgan.gan", "mode=publisht", "E0612", "did you mean `mode=published`?"},
        {"dcgan.gan", "nz=many", "E0611", "a number"},
        {"dcgan.gan", "nz=inf", "E0611", "a number"},
        {"dcgan.gan", "nz=12.5", "E0306", "note: -s or a stage sets `nz` to 12.5"},
        {"hifigan.gan", "ups=8,8", "E0611", "a list is needed, as [8, 8, 2, 2] is"},
        {"hifigan.gan", "ups=#", "E0611", "a list"},
        {"hifigan.gan", "ups= ", "E0611", "a list"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        Str path = path_join(&arena, STR(ROOT_DIR "/models"), str_c(wrong[i].model)), text;
        assert_int_equal(file_read(&arena, path, &text), GAN_OK);
        Case *c = elaborate_text(wrong[i].model, text, 4, wrong[i].set, false);
        const char *said = show(messages(c));
        assert_false(c->fine);
        if (!strstr(said, wrong[i].code) || !strstr(said, wrong[i].help))
            fail_msg("%s gives\n%s", wrong[i].set, said);
    }
}

// The names that help lines suggest exist: those after `write`, and those that are called.
static void check_named(const char *habit, const char *at, size_t len) {
    static const char *const known[] = {"image", "label", "resize", "crop", "scale", "cell"};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strlen(known[i]) == len && !memcmp(known[i], at, len))
            return;
    Str text = str_format(&arena,
                          "model m\ndata x : float(4)\nf = %.*s\n"
                          "net D(x: [4]) -> [] = x |> dense(1) |> squeeze\n"
                          "step { update D minimize mean(D(x)) using sgd() }\n",
                          (int)len, at);
    const char *said = show(messages(elaborate_text("habit", text, 4, NULL, false)));
    if (strstr(said, "E0301"))
        fail_msg("the help for `%s` names what is not there: %.*s", habit, (int)len, at);
}

static void hints_name_only_what_exists(void **state) {
    (void)state;
    static const char lower[] = "abcdefghijklmnopqrstuvwxyz_0123456789";
    static const char *const habits[][2] = {
#define HABIT(words, help) {words, help},
#define METHOD HABIT
#define CALLED HABIT
#define GIVES HABIT
#include "habits.def"
    };
    uint32_t names = 0;
    for (size_t i = 0; i < sizeof habits / sizeof *habits; i++) {
        const char *from = habits[i][1];
        for (const char *at = from; *at;) {
            size_t len = strspn(at, lower);
            bool first = at >= from + 6 && !memcmp(at - 6, "write ", 6);
            if (len > 1 && (at[len] == '(' || (first && strchr(",:", at[len])))) {
                check_named(habits[i][0], at, len);
                names++;
            }
            at += len ? len : 1;
        }
    }
    assert_true(names > 50);
}

// A star for each number of a line of the library: in `std/NAME.gan:7:3: note`, and in front of the
// text of the line, which follows.
static Str without_library_lines(Str said) {
    Text t = {.arena = &arena};
    for (bool library = false; said.len;) {
        Str line = str_sub(said, 0, str_find(said, '\n') + 1);
        said = str_sub(said, line.len, said.len);
        if (library)
            line =
                str_format(&arena, "   * %.*s", SARG(str_sub(line, str_find(line, '|'), line.len)));
        library = str_starts(line, STR("std/"));
        if (library) {
            size_t colon = str_find(line, ':') + 1;
            text_fmt(&t, "%.*s*", SARG(str_sub(line, 0, colon)));
            line = str_sub(line, colon, line.len);
            line = str_sub(line, str_find(line, ':'), line.len);
        }
        text_put(&t, line);
    }
    return text_str(&t);
}

static void golden(Str path) {
    Str text, said;
    const char *name = show(path_base(path));
    if (file_read(&arena, path, &text) != GAN_OK)
        fail_msg("%s", gan_error());
    Case *c = elaborate_text(name, text, 4, NULL, false);
    said = without_library_lines(messages(c));
    if (diag_total(&c->f) != 1 || !strstr(show(said), "help: "))
        fail_msg("not one mistake with a way to mend it: %s gives\n%s", name, show(said));
    golden_compare(&arena, golden_beside(&arena, path, "err"), said);
}

static void golden_cases(void **state) {
    (void)state;
    assert_true(golden_each(&arena, "err", golden) >= 60);
}

// --- no mistakes ---------------------------------------------------------------------------------

// A net of which only weights are read, and one called in a branch disabled by a config.
static void a_net_that_is_used_gets_no_warning(void **state) {
    (void)state;
    Str text = STR(NETS "config both = false\nnet Start = copy(D)\nnet E = Score\n"
                        "fn Score(x: [4]) -> [] = x |> dense(1) |> squeeze\n"
                        "step { update D minimize mean(D(x)) + if both { mean(E(x)) } else { 0 } "
                        "using opt; " G_STEP "\n"
                        "far = [sum((p - q)^2) for p, q in zip(params(D), params(Start))]\n"
                        "report far0 = far[0] }");
    Case *c = elaborate_text("idle.gan", text, 4, NULL, false);
    if (!c->fine || diag_total(&c->f))
        fail_msg("%s", show(messages(c)));
    // one whose weights another net computes
    text = STR(NETS "net F = Score\nfn Score(x: [4]) -> [] = x |> dense(1) |> squeeze\n"
                    "net Made(c: [2]) { [c |> dense(4) |> unsqueeze(0), c |> dense(1)] }\n"
                    "step { begun = eval(F)(x); y = with_params(F, Made(normal(2, per=batch)))(x)\n"
                    "update Made minimize mean(y*begun) using opt\n"
                    "update D minimize mean(D(x)) using opt; " G_STEP "}");
    c = elaborate_text("made.gan", text, 4, NULL, false);
    if (!c->fine || diag_total(&c->f))
        fail_msg("%s", show(messages(c)));
}

// A kernel of 31 with stride 2 between equal channels, as SEGAN has.
static void a_long_kernel_is_not_taken_for_channels(void **state) {
    (void)state;
    small(HEAD "net D(x: [4]) -> [] = x |> reshape(1, 4) |> conv(1, k=31, stride=2, pad=15) |> "
               "mean(sample)\nstep { update D minimize mean(D(x)) using opt }");
}

// Windows of a map, of which the smallest has one; calls that set a state or report a number.
static void what_is_meant_gets_no_warning(void **state) {
    (void)state;
    small(HEAD "fn heads(x: [n, c]) = x |> reshape(-1, 2, c/2, 1) |> sum(space) |> sum(sample)\n"
               "fn counted(v) { state n = 0; n := n + 1; v }\n"
               "net D(x: [4]) -> [] = heads(reshape(x, 1, 4)) + heads(reshape(x, 2, 2))\n"
               "fn seen(v) { report seen = mean(v); v }\n"
               "net E(x: [4]) -> [] { h = x |> dense(1); seen(h); h |> squeeze }\n"
               "step { counted(D(x)); D(x) |> counted\nupdate E minimize mean(E(x)) using opt }\n"
               "sample s = E(x)");
}

// A value beside its own `stop`, which has another gradient than it seems; what only another
// update reaches, or both a `stop` and the gradient; a sum in parentheses in front of a pipe; a
// class of two, which is a target.
static void a_stop_that_is_meant_gets_no_warning(void **state) {
    (void)state;
    static const char *const loss[] = {
        "mean(D(x) + stop(floor(D(x) + 0.5) - D(x)))",
        "mse(D(x), stop(E(x)))",
        "mean(min(softplus(D(x)), stop(max(all_gather(D(x)), axis(0)))))",
        "mean(softplus(D(x)/stop(norm(D(x), eps=1e-6))))",
        "bce(D(x), categorical(2))",
        "cross_entropy(stack(D(x), -D(x)), categorical(2))",
    };
    for (size_t i = 0; i < sizeof loss / sizeof *loss; i++)
        small(str_format(&arena,
                         HEAD "net D(x: [4]) -> [] { h = x |> dense(4); h = (h + h) |> relu; "
                              "h |> dense(1) |> squeeze }\n"
                              "net E(x: [4]) -> [] = x |> dense(1) |> squeeze\n"
                              "step { update D minimize %s using opt\n"
                              "update E minimize mse(E(x), 1) using opt }",
                         loss[i])
                  .ptr);
}

// A layer of the top level in a net and its copy, in nets of one function, and twice in one net;
// one without weights in two nets; a mean over what a score of patches has.
static void a_layer_that_each_net_is_to_have_gets_no_warning(void **state) {
    (void)state;
    small(HEAD "head = dense(1)\nfn scaled(by)(v) = by*v\ntwice = scaled(2)\n"
               "fn Score(x: [4]) -> [1] = x |> dense(1) |> head |> head |> twice\n"
               "net D = Score\nnet E = Score\nnet D_avg = copy(D)\n"
               "net F(x: [4]) -> [] = x |> dense(1) |> squeeze |> twice\n"
               "step { update D, E minimize mean(mean(D(x), sample)^2) + mean(E(x)) using opt\n"
               "update F minimize mse(F(x), 1) using opt; ema(D_avg, D, 0.9) }\n"
               "sample s = D_avg(x)");
}

// Each of several features, of which one is a score.
static void a_mean_of_each_feature_gets_no_warning(void **state) {
    (void)state;
    small(HEAD "net D(x: [4]) { h = x |> dense(4); [h, h |> dense(1) |> squeeze] }\n"
               "step { match = [mean(mean(abs(f), sample)) for f in D(x)]\n"
               "update D minimize sum(match) using opt }\n"
               "sample s = D(x)[0]");
}

// A code beside a picture that is flipped, and a crop that one of two pictures does not need.
static void pictures_that_stay_pairs_get_no_warning(void **state) {
    (void)state;
    static const char *const other[] = {"float(8, 1, 1)", "image(3, 4, 4) resize(4) flip",
                                        "image(3, 4, 4) resize(4) crop(4) flip"};
    for (size_t i = 0; i < sizeof other / sizeof *other; i++)
        small(str_format(&arena,
                         "model m\ndata x : image(1, 4, 4) resize(4) crop(4) flip, c : %s\n"
                         "opt = adam(0.1)\nnet D(x, c) -> [] = dense(1)(flatten(x)) + "
                         "dense(1)(flatten(c)) |> squeeze\n"
                         "step { update D minimize mean(D(x, c)) using opt }",
                         other[i])
                  .ptr);
}

// A penalty of gradients may be written in any way that lets it grow; and what falls with a
// gradient is none where that has a limit, where it is another net's, or where weights
// differentiate.
static void only_a_penalty_that_is_subtracted_is_one(void **state) {
    (void)state;
    static const struct {
        const char *loss; // of D
        bool warned;
    } cases[] = {
        {"wasserstein(D(x), D(fake)) + 10*gradient_penalty(D, x, fake)", false},
        {"wasserstein(D(x), D(fake)) - 10*gradient_penalty(D, x, fake)", true},
        {"-(wasserstein(D(fake), D(x)) - 10*gradient_penalty(D, x, fake))", false},
        {"-(wasserstein(D(fake), D(x)) + 10*gradient_penalty(D, x, fake))", true},
        {"wasserstein(D(x), D(fake)) - 10*mean(relu(norm(grad(D(x), x)) - 1)^2)", true},
        {"wasserstein(D(x), D(fake)) - 2*mean(norm(grad(D(x), x))^6)", true},
        {"bce(D(x), 1) + bce(D(fake), 0) + 5*zero_penalty(D(x), x)", false},
        {"bce(D(x), 1) + bce(D(fake), 0) - 5*zero_penalty(D(x), x)", true},
        {"bce(D(x), 1) + bce(D(fake), 0) - 5*(zero_penalty(D(x), x) + zero_penalty(D(fake), fake))",
         true},
        {"wasserstein(D(x), D(fake)) - mean(min(norm(grad(D(x), x)), 1))", false},
        {"wasserstein(D(x), D(fake)) + 10*mean((norm(grad(D(x), x)) - 750)^2)/750^2", false},
        {"mean(D(fake)/(norm(grad(D(fake), fake), 1e-6) + abs(D(fake)))) - "
         "mean(D(x)/(norm(grad(D(x), x), 1e-6) + abs(D(x))))",
         false},
        {"wasserstein(D(x + 0.1*grad(D(x), x)), D(fake))", false},
        {"wasserstein(D(x), D(fake)) - 0.1*sum([norm2(g) for g in grad(mean(D(x)), params(D))])",
         false},
        {"mean(-sum(grad(D(x), x)*normal(4), sample) + 0.5*norm2(grad(D(x), x))) - mean(D(fake))",
         false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Case *c = elaborate_text("m.gan",
                                 str_format(&arena,
                                            NETS "step { fake = G(normal(2)); update D minimize %s "
                                                 "using opt\n" G_STEP "}",
                                            cases[i].loss),
                                 4, NULL, false);
        const char *said = show(messages(c));
        if (!c->fine || diag_total(&c->f) != cases[i].warned ||
            cases[i].warned != (strstr(said, "W0920") != NULL))
            fail_msg("%s gives\n%s", cases[i].loss, said);
    }
}

// --- several mistakes ----------------------------------------------------------------------------

// "5:E0111 8:E0301": the line and the code of each.
static Str mistakes(Front *f, const char *model) {
    Module m;
    uint32_t n;
    Text t = {.arena = &arena};
    front_init(f, &arena);
    uint32_t source = front_add_source(f, STR("m"), str_c(model), false);
    bool yaml = str_starts(str_c(model), STR("model:"));
    const Ast *tree = yaml ? parse_yaml(f, source) : parse_gan(f, source);
    assert_false(elaborate(f, tree, &(ElabOptions){.batch = 4}, &m));
    const DiagView *list = diag_list(f, &n);
    for (uint32_t i = 0; i < n; i++)
        text_fmt(&t, "%s%u:%s", i ? " " : "",
                 source_line_col(&f->source.at[source - 1], list[i].span.lo).line, list[i].code);
    return text_str(&t);
}

static const struct {
    const char *what, *text, *errors;
} rows[] = {
    {"a line that does not parse hides no other mistake",
     HEAD "net G(z: [2]) -> [4] {\n  h = z |> dense(4\n  h |> tanh\n}\n"
          "net D(x: [4]) -> [] = x |> dens(1) |> squeeze\n"
          "step {\n  update D minimize mean(D(x)) using opt\n  " G_STEP "}\n"
          "sample s = G(normal(3)) + G(normal(two))\n",
     "5:E0111 8:E0301 13:E0401 13:E0301"},
    {"a header that does not parse leaves its name unknown",
     HEAD "net G(z: [2) -> [4] {\n  h = z |> dense(4)\n  h |> tanh\n}\n"
          "net D(x: [4]) -> [] = x |> dense(1) |> squeeze\n"
          "step {\n  f = G(normal(2))\n  update D minimize mean(D(f)) using opt\n"
          "  update D minimize mean(D(x)) using opt2\n}\n",
     "4:E0110 12:E0301"},
    {"a config that does not parse",
     "model m\nconfig n = \ndata x : float(4)\nopt = adam(lr=0.1)\n"
     "net D(x: [n]) -> [] = x |> dense(n) |> mean(sample)\n"
     "step { update D minimize mean(D(x)) using opts }\n",
     "2:E0110 6:E0301"},
    {"names of a statement that does not parse, in a block",
     NETS "step {\n  a, b = G(normal(2)))\n  c = 2 3\n"
          "  update D minimize mean(D(a + b + c)) using opt\n  " G_STEP "}\n",
     "7:E0119 8:E0119"},
    {"names in a row without their value",
     NETS "step {\n  a, b, c G(normal(2))\n  update D minimize mean(D(a + b + c)) using opt\n "
          " " G_STEP "}\n",
     "7:E0110"},
    {"one wrong name that all of the model uses",
     "model m\nconfig n = sice\ndata x : float(n)\n"
     "net G(z: [2]) -> [n] = z |> dense(n)\n"
     "net D(x: [n]) -> [] = x |> dense(1) |> squeeze\nopt = adam(lr=0.1)\n"
     "step { update D minimize mean(D(x)) using opt\n" G_STEP "}\nsample s = G(normal(2))\n",
     "2:E0301"},
    {"a word of data that is not there, and a name in the step",
     "model m\ndata x : flaot(4)\nopt = adam(lr=0.1)\n"
     "net D(x: [4]) -> [] = x |> dense(1) |> squeeze\n"
     "step { update D minimize mean(D(x)) using opt\n"
     "update D minimize mean(D(y)) using opt }\n",
     "2:E0601 6:E0301"},
    {"a loop over what is no list",
     NETS "step {\n  l = 0\n  for k in 3 { l = l + mean(D(k*x)); last = k }\n"
          "  update D minimize l + last using opt\n  " G_STEP "}\n",
     "8:E0305"},
    {"a choice by a name that is not there",
     NETS "step {\n  if modus == 1 { l = mean(D(x)); k = 1 } else { l = mean(D(2*x)); k = 2 }\n"
          "  update D minimize k*l using opt\n  " G_STEP "}\n",
     "7:E0301"},
    {"a mistake in each of two nets",
     HEAD "net G(z: [2]) -> [4] = z |> dense(5)\n"
          "net D(x: [4]) -> [] = x |> dense(2) |> squeeze\n"
          "step { update D minimize mean(D(x)) using opt; " G_STEP "}\n",
     "4:E0403 5:E0403"},
    {"a block that is not closed tells nothing of what stands behind it",
     HEAD "net D(x: [4]) -> [] {\n  x |> dense(1) |> squeeze\n"
          "step { update D minimize mean(F(x)) using opt }\n",
     "4:E0111"},
    {"a net, a config and a statement of YAML",
     "model: m\nconfig:\n  n: {valeu: 3}\n  k: 2\ndata:\n  x: float(4)\nnet:\n"
     "  G:\n    input: {z: [2]}\n    layers: [dense(n)]\n"
     "  D:\n    in: {x: [4]}\n    out: []\n    layers: [dens(n), dense(k), squeeze]\n"
     "step:\n  - z: G(normal(2)\n"
     "  - {update: D, minimize: mean(D(x)) + mean(z), usin: adam()}\n"
     "  - {update: D, minimize: mean(D(x)), using: adamm()}\n",
     "3:E0201 9:E0201 14:E0301 16:E0111 17:E0201 18:E0301"},
    {"a section of YAML that is not there",
     "model: m\nnets:\n  D: {in: {x: [4]}, out: [], layers: [dens(1), squeeze]}\n"
     "step:\n  - {update: D, minimize: mean(D(x)), using: adamm()}\n",
     "2:E0201"},
};

static void independent_mistakes_are_all_reported(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        Front f;
        Str said = mistakes(&f, rows[i].text);
        Text all = {.arena = &arena};
        diag_render(&all, &f, false);
        if (!str_eq(said, str_c(rows[i].errors)))
            fail_msg("%s: not %s but\n%s", rows[i].what, rows[i].errors,
                     str_z(&arena, text_str(&all)));
    }
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(settings_are_checked_for_type_and_spelling, set_up),
        cmocka_unit_test_setup(hints_name_only_what_exists, set_up),
        cmocka_unit_test_setup(golden_cases, set_up),
        cmocka_unit_test_setup(a_net_that_is_used_gets_no_warning, set_up),
        cmocka_unit_test_setup(a_long_kernel_is_not_taken_for_channels, set_up),
        cmocka_unit_test_setup(what_is_meant_gets_no_warning, set_up),
        cmocka_unit_test_setup(a_stop_that_is_meant_gets_no_warning, set_up),
        cmocka_unit_test_setup(a_layer_that_each_net_is_to_have_gets_no_warning, set_up),
        cmocka_unit_test_setup(a_mean_of_each_feature_gets_no_warning, set_up),
        cmocka_unit_test_setup(pictures_that_stay_pairs_get_no_warning, set_up),
        cmocka_unit_test_setup(only_a_penalty_that_is_subtracted_is_one, set_up),
        cmocka_unit_test_setup(independent_mistakes_are_all_reported, set_up),
    };
    return ARENA_CASES(tests, 0);
}
