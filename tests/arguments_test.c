// arguments_test.c - every function of the core and of the library, called with arguments that make
// no sense: each has a defined meaning, or is one error at the user's own line. A row is a call
// that is fine, with all its parameters. Each argument in turn is replaced by each of `absurd`.
// tests/golden/arguments.txt holds the outcomes, a diagnostic's code or `ok` (golden.h).
#include "elaborate.h"

#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include "arena_cases.h"
#include "golden.h"

static Front library; // a compilation that has read the library and nothing else

static const char *const absurd[] = {
    "-1",   "0",    "1e9", "0.5",     "0*exp(1e9)", "exp(1e9)", "\"a\"",
    "none", "true", "[]",  "[1, -2]", "axis(5)",    "x",        "relu",
};

// Where a row is called: in the body of a net with x: [4, 8, 8], s: [16], y: label(5) and a net N,
// behind `using`, in the step with a copy N_avg of N, or as a net.
typedef enum Position { InBody, InUsing, InStep, AsNet, Positions } Position;

typedef struct Row {
    const char *fn, *args; // "k=3; stride=1"
    const char *behind;    // the second list, "(x)"
    Position position;
} Row;

static const Row rows[] = {
#define ROW(fn, args, behind, position) {fn, args, behind, position},
#include "arguments.def"
#undef ROW
};

static Str text_of(Arena *a, const Row *row, Str args) {
    Str call = str_format(a, "%s(%.*s)%s", row->fn, SARG(args), row->behind);
    Str at[Positions] = {[InUsing] = STR("adam()"), [AsNet] = STR("copy(N)"), [InBody] = STR("0")};
    at[row->position] = call;
    return str_format(a,
                      "model m\ndata x : image(4, 8, 8), s : float(16), y : label(5)\n"
                      "net N(x: [4, 8, 8]) -> [] = x |> flatten |> dense(1) |> squeeze\n"
                      "fn energy(n) = n(x)\nnet N_avg = copy(N)\nnet P = %.*s\n"
                      "net D(x: [4, 8, 8], s: [16], y: label(5)) -> [] {\n"
                      "  n = N(x)\n  r = %.*s\n  n + (s |> dense(1) |> squeeze)\n}\n"
                      "step {\n  update D, N minimize mean(D(x, s, y)) using %.*s\n  %.*s\n}\n",
                      SARG(at[AsNet]), SARG(at[InBody]), SARG(at[InUsing]), SARG(at[InStep]));
}

// "ok", or the code of the one error, which is at the user's line.
static Str outcome(Arena *a, const Row *row, Str args) {
    Front f = library;
    Module m;
    ElabOptions o = {.batch = 4};
    f.perm = a;
    Str text = text_of(a, row, args);
    uint32_t source = front_add_source(&f, STR("case"), text, false);
    Ast *tree = parse_gan(&f, source);
    bool fine = tree && !diag_errors(&f) && elaborate(&f, tree, &o, &m);
    uint32_t n;
    const DiagView *d = diag_list(&f, &n);
    while (n && !d->error) { // a net of copy() is not used
        d++;
        n--;
    }
    if (fine && !n)
        return STR("ok");
    Text said = {.arena = a};
    diag_render(&said, &f, false);
    if (getenv("SHOW"))
        printf("%s(%.*s)\n%.*s\n", row->fn, SARG(args), SARG(text_str(&said)));
    if (fine || n != 1 || d->span.file != source || !d->help.len)
        fail_msg("not one error with a help line: %s(%.*s) gives\n%s", row->fn, SARG(args),
                 str_z(a, text_str(&said)));
    return str_c(d->code);
}

typedef VEC(Str) Strs;

static Strs arguments(Arena *a, const Row *row) {
    Strs out = {0};
    for (Str s = str_c(row->args); s.len;) {
        size_t end = str_find(s, ';');
        vec_push(a, &out, str_sub(s, 0, end));
        s = str_sub(s, end + 2, s.len);
    }
    return out;
}

// The arguments but number i, which is `instead` (empty: left out).
static Str with(Arena *a, const Strs *args, uint32_t i, Str instead) {
    Text t = {.arena = a};
    for (uint32_t k = 0; k < args->n; k++) {
        Str one = k == i ? instead : args->at[k];
        text_fmt(&t, "%s%.*s", t.n && one.len ? ", " : "", SARG(one));
    }
    return text_str(&t);
}

static void try_row(Text *out, const Row *row, Arena a) {
    Strs args = arguments(&a, row);
    Str plain = with(&a, &args, NONE, (Str){0}), error = outcome(&a, row, plain);
    if (!str_eq(error, STR("ok")))
        fail_msg("%s(%.*s) is %.*s", row->fn, SARG(plain), SARG(error));
    for (uint32_t i = 0; i < args.n; i++) {
        Str name = str_sub(args.at[i], 0, str_find(args.at[i], '='));
        Str twice = str_format(&a, "%.*s, %.*s", SARG(args.at[i]), SARG(args.at[i]));
        error = outcome(&a, row, with(&a, &args, i, twice));
        if (!str_eq(error, STR("E0314")))
            fail_msg("%s: %.*s given twice is %.*s", row->fn, SARG(name), SARG(error));
        text_fmt(out, "%s %.*s: left out %.*s", row->fn, SARG(name),
                 SARG(outcome(&a, row, with(&a, &args, i, (Str){0}))));
        for (size_t k = 0; k < sizeof absurd / sizeof *absurd; k++) {
            Arena mark = a;
            Str one = str_format(&mark, "%.*s=%s", SARG(name), absurd[k]);
            text_fmt(out, ", %s %.*s", absurd[k],
                     SARG(outcome(&mark, row, with(&mark, &args, i, one))));
        }
        text_char(out, '\n');
    }
}

static void absurd_arguments_are_one_error(void **state) {
    (void)state;
    Arena a = empty, b;
    front_init(&library, &a);
    assert_true(front_load_library(&library));
    Text out = {.arena = &a};
    Str path = STR(TEST_DIR "/golden/arguments.txt");
    assert_int_equal(arena_init(&b, 0), GAN_OK);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (!getenv("ONLY") || !strcmp(getenv("ONLY"), rows[i].fn))
            try_row(&out, &rows[i], b);
    arena_release(&b);
    golden_compare(&a, path, text_str(&out));
}

static bool has_row(Str name) {
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (str_eq(name, str_c(rows[i].fn)))
            return true;
    return false;
}

static bool is_letter(char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
}

static bool has_word(Str text, Str word) {
    for (size_t i = 1; i + word.len < text.len; i++)
        if (str_starts(str_sub(text, i, text.len), word) && !is_letter(text.ptr[i - 1]) &&
            !is_letter(text.ptr[i + word.len]))
            return true;
    return false;
}

// All functions of the core, and those of the library that the manual names in its section 10,
// apart from nets with published weights.
static void every_function_has_a_row(void **state) {
    (void)state;
    static const char *const core[] = {
#define BUILTIN(name, params, doc) #name,
#include "builtins.def"
    };
    Arena a = empty;
    Front f;
    Str manual;
    front_init(&f, &a);
    assert_true(front_load_library(&f));
    assert_int_equal(file_read(&a, STR(ROOT_DIR "/lang/spec.md"), &manual), GAN_OK);
    const char *section = strstr(str_z(&a, manual), "\n## 10. ");
    assert_non_null(section);
    for (size_t i = 0; i < sizeof core / sizeof *core; i++)
        if (!has_row(str_c(core[i])) && strcmp(core[i], "total") != 0) // of optimizers alone
            fail_msg("tests/arguments.def lacks `%s`", core[i]);
    for (uint32_t i = 0; i < f.library.n; i++) {
        const Ast *file = f.library.at[i];
        bool features = str_ends(f.source.at[file->span.file - 1].name, STR("features.gan"));
        for (uint32_t k = 0; k < file->list.n && !features; k++) {
            Str name = file->list.at[k]->text;
            if (file->list.at[k]->kind == AstFn && has_word(str_c(section), name) && !has_row(name))
                fail_msg("tests/arguments.def lacks `%.*s`", SARG(name));
        }
    }
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(absurd_arguments_are_one_error),
        cmocka_unit_test(every_function_has_a_row),
    };
    return ARENA_CASES(tests, 0);
}
