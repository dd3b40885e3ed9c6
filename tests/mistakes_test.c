// mistakes_test.c - texts with several mistakes: each is reported once, and what follows from one
// not at all. Single mistakes are in tests/golden/err.
#include "elaborate.h"

#include <setjmp.h>

#include <cmocka.h>
#include "arena_cases.h"

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

#define HEAD "model m\ndata x : float(4)\nopt = adam(lr=0.1)\n"
#define NETS                                                                                       \
    HEAD "net G(z: [2]) -> [4] = z |> dense(4)\nnet D(x: [4]) -> [] = x |> dense(1) |> squeeze\n"
#define G_STEP "update G minimize -mean(D(G(normal(2)))) using opt\n"

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
        cmocka_unit_test_setup(independent_mistakes_are_all_reported, set_up),
    };
    return ARENA_CASES(tests, 0);
}
