// front_test.c - sources, diagnostics, both parsers, the formatter and conversion back to text.
// Golden cases: tests/golden/syntax/NAME.gan or NAME.yaml beside NAME.ast .err .fmt .asgan
// .asyaml; those that exist are compared (golden.h).
#include "front.h"

#include <setjmp.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>
#include "arena_cases.h"
#include "golden.h"

static const char *show(Str s) {
    return str_z(&arena, s);
}

static Str read_text(const char *path) {
    Str text;
    if (file_read(&arena, str_c(path), &text) != GAN_OK)
        fail_msg("%s", gan_error());
    return text;
}

// One compilation of one text.
typedef struct Case {
    Front f;
    uint32_t source;
    Ast *tree;
} Case;

static Case read_case(const char *name, Str text) {
    Case c = {0};
    front_init(&c.f, &arena);
    c.source = front_add_source(&c.f, str_c(name), text, strstr(name, "stdlib/") != NULL);
    if (!c.source)
        return c;
    c.tree = str_ends(str_c(name), STR(".yaml")) ? parse_yaml(&c.f, c.source)
                                                 : parse_gan(&c.f, c.source);
    return c;
}

static Str errors_of(Case *c) {
    Text t = {.arena = &arena};
    diag_render(&t, &c->f, false);
    return text_str(&t);
}

static Str tree_of(const Case *c) {
    Text t = {.arena = &arena};
    ast_print(&t, c->tree);
    return text_str(&t);
}

static Str layout_of(Case *c) {
    Text t = {.arena = &arena};
    fmt_source(&t, &c->f, c->source);
    return text_str(&t);
}

static Str gan_of(Case *c) {
    Text t = {.arena = &arena};
    ast_to_gan(&t, c->tree);
    return text_str(&t);
}

static Str yaml_of(Case *c) {
    Text t = {.arena = &arena};
    ast_to_yaml(&t, c->tree);
    return text_str(&t);
}

// The only error of a text; empty if there is none or more than one.
static Str only_error(const char *text) {
    Case c = read_case("case.gan", str_format(&arena, "model m\n%s\n", text));
    return diag_errors(&c.f) == 1 ? errors_of(&c) : (Str){0};
}

static bool contains(Str s, Str part) {
    for (size_t i = 0; i + part.len <= s.len; i++)
        if (str_starts(str_sub(s, i, s.len), part))
            return true;
    return false;
}

static void expect_same(const char *name, Str got, Str want) {
    if (!str_eq(got, want))
        fail_msg("%s differs; got:\n%s\nwanted:\n%s", name, show(got), show(want));
}

// --- golden cases --------------------------------------------------------------------------------

static const struct {
    const char *ext;
    Str (*make)(Case *);
} products[] = {
    {"err", errors_of},
    {"fmt", layout_of},
    {"asgan", gan_of},
    {"asyaml", yaml_of},
};

static void golden(Str path) {
    Case c = read_case(show(path_base(path)), read_text(show(path)));
    Str ast = golden_beside(&arena, path, "ast");
    if (file_exists(ast))
        golden_compare(&arena, ast, tree_of(&c));
    for (size_t i = 0; i < sizeof products / sizeof *products; i++) {
        Str product = golden_beside(&arena, path, products[i].ext);
        if (file_exists(product))
            golden_compare(&arena, product, products[i].make(&c));
    }
    if (!file_exists(golden_beside(&arena, path, "err")))
        expect_same(show(path), errors_of(&c), (Str){0});
}

static void golden_cases(void **state) {
    (void)state;
    assert_true(golden_each(&arena, "syntax", golden) > 0);
}

// --- every model and library file ----------------------------------------------------------------

static uint32_t each_source(const char *folder, void (*check)(const char *path)) {
    StrVec names = {0};
    assert_int_equal(dir_list(&arena, str_c(folder), &names), GAN_OK);
    uint32_t n = 0;
    for (uint32_t i = 0; i < names.n; i++) {
        Str ext = path_ext(names.at[i]);
        if (!str_eq(ext, STR("gan")) && !str_eq(ext, STR("yaml")))
            continue;
        check(show(path_join(&arena, str_c(folder), names.at[i])));
        n++;
    }
    return n;
}

static void reads(const char *path) {
    Case c = read_case(path, read_text(path));
    expect_same(path, errors_of(&c), (Str){0});
}

static const char *named_like(const char *path, const char *name) { // library files keep their path
    return strstr(path, "stdlib/") ? show(str_format(&arena, "stdlib/%s", name)) : name;
}

static void lays_out(const char *path) {
    if (str_ends(str_c(path), STR(".yaml")))
        return;
    Case first = read_case(path, read_text(path));
    Str once = layout_of(&first);
    Case second = read_case(named_like(path, "again.gan"), once);
    expect_same(path, layout_of(&second), once);
    expect_same(path, tree_of(&second), tree_of(&first));
}

static void goes_to_gan_and_back(const char *path) {
    Case first = read_case(path, read_text(path));
    Case second = read_case(named_like(path, "again.gan"), gan_of(&first));
    expect_same(path, tree_of(&second), tree_of(&first));
    expect_same(path, layout_of(&second), gan_of(&first));
}

static void goes_to_yaml_and_back(const char *path) {
    Case first = read_case(path, read_text(path));
    Case second = read_case("again.yaml", yaml_of(&first));
    expect_same(path, errors_of(&second), (Str){0});
    expect_same(path, yaml_of(&second), yaml_of(&first));
}

static void every_file(void (*check)(const char *path), bool library) {
    assert_true(each_source(ROOT_DIR "/models", check) > 0);
    if (library)
        assert_true(each_source(ROOT_DIR "/stdlib", check) > 0);
}

static void shipped_models_parse(void **state) {
    (void)state;
    every_file(reads, true);
}
static void layout_is_idempotent(void **state) {
    (void)state;
    every_file(lays_out, true);
}
static void gan_round_trip(void **state) {
    (void)state;
    every_file(goes_to_gan_and_back, true);
}
static void yaml_round_trip(void **state) {
    (void)state;
    every_file(goes_to_yaml_and_back, false);
}

// Both forms of a model have the same statements, up to order and local names.
static void twins_agree(void **state) {
    (void)state;
    Case gan = read_case("dcgan.gan", read_text(ROOT_DIR "/models/dcgan.gan"));
    Case yaml = read_case("dcgan.yaml", read_text(ROOT_DIR "/models/dcgan.yaml"));
    Case back = read_case("again.yaml", yaml_of(&gan));
    assert_int_equal(gan.tree->list.n, yaml.tree->list.n);
    expect_same("dcgan", tree_of(&back), tree_of(&yaml));
}

// --- the manual ----------------------------------------------------------------------------------

// The next block of the manual fenced as `kind`; advances *rest past it.
static bool next_block(Str *rest, const char *kind, Str *out) {
    Str open = str_format(&arena, "```%s\n", kind);
    size_t at = 0;
    while (at < rest->len && !str_starts(str_sub(*rest, at, rest->len), open))
        at++;
    if (at == rest->len)
        return false;
    *rest = str_sub(*rest, at + open.len, rest->len);
    size_t end = 0;
    while (end < rest->len && !str_starts(str_sub(*rest, end, rest->len), STR("```")))
        end++;
    *out = str_sub(*rest, 0, end);
    *rest = str_sub(*rest, end, rest->len);
    return true;
}

static void examples_of_the_manual_parse(void **state) {
    (void)state;
    static const struct {
        const char *kind, *name;
    } forms[] = {
        {"gan", "stdlib/spec.gan"},
        {"yaml", "spec.yaml"},
    };
    for (size_t i = 0; i < 2; i++) {
        Str rest = read_text(ROOT_DIR "/lang/spec.md"), block;
        uint32_t n = 0;
        for (; next_block(&rest, forms[i].kind, &block); n++) {
            Case c = read_case(forms[i].name, block);
            expect_same(show(block), errors_of(&c), (Str){0});
            if (i == 0)
                expect_same("layout in lang/spec.md", layout_of(&c), block);
        }
        assert_true(n > 0);
    }
}

static void names_in_manual(const char *const *names, size_t n) {
    Str text = read_text(ROOT_DIR "/lang/spec.md");
    for (size_t i = 0; i < n; i++)
        if (!contains(text, str_c(names[i])))
            fail_msg("lang/spec.md does not know `%s`", names[i]);
}

static void the_manual_has_every_keyword_and_function(void **state) {
    (void)state;
    static const char *const words[] = {
#define WORD(Kind, text, breaks) text,
#define ITEM(Kind, text) text,
#include "tokens.def"
    };
    static const char *const functions[] = {
#define BUILTIN(name, params, doc) #name,
#include "builtins.def"
#undef BUILTIN
    };
    names_in_manual(words, sizeof words / sizeof *words);
    names_in_manual(functions, sizeof functions / sizeof *functions);
}

// --- expressions ---------------------------------------------------------------------------------

static void put_grouped(Text *t, const Ast *a) { // every operation in parentheses
    if (a->kind == AstBinary || a->kind == AstPipe) {
        text_char(t, '(');
        put_grouped(t, a->a);
        text_fmt(t, " %.*s ", a->kind == AstPipe ? 2 : (int)a->text.len,
                 a->kind == AstPipe ? "|>" : a->text.ptr);
        put_grouped(t, a->b);
        text_char(t, ')');
    } else if (a->kind == AstUnary) {
        text_fmt(t, "(%.*s ", SARG(a->text));
        put_grouped(t, a->a);
        text_char(t, ')');
    } else
        text_put(t, a->text);
}

static void operators_have_their_precedence(void **state) {
    (void)state;
    static const struct {
        const char *text, *grouped;
    } rows[] = {
        {"a + b*c", "(a + (b * c))"},
        {"a - b - c", "((a - b) - c)"},
        {"a/b*c % d", "(((a / b) * c) % d)"},
        {"-a^b", "(- (a ^ b))"},
        {"a^-b", "(a ^ (- b))"},
        {"a^b^c", "(a ^ (b ^ c))"},
        {"(a^b)^c", "((a ^ b) ^ c)"},
        {"-a*b", "((- a) * b)"},
        {"a - -b", "(a - (- b))"},
        {"a + b < c*d", "((a + b) < (c * d))"},
        {"not a < b and c or d", "(((not (a < b)) and c) or d)"},
        {"not not a", "(not (not a))"},
        {"a or b and c", "(a or (b and c))"},
        {"a + b |> f |> g", "(((a + b) |> f) |> g)"},
        {"a and b |> f", "((a and b) |> f)"},
        {"(a |> f) + b", "((a |> f) + b)"},
        {"a == b and c != d", "((a == b) and (c != d))"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        Front f;
        front_init(&f, &arena);
        Str text = str_c(rows[i].text);
        uint32_t source = front_add_source(&f, STR("case"), text, false);
        Text t = {.arena = &arena};
        put_grouped(&t, parse_expr(&f, source, 0, (uint32_t)text.len));
        expect_same(rows[i].text, text_str(&t), str_c(rows[i].grouped));
        assert_int_equal(diag_errors(&f), 0);
    }
}

// Where a statement ends. The number of statements of each text.
static void statements_end_at_lines_and_semicolons(void **state) {
    (void)state;
    static const struct {
        const char *text;
        uint32_t n;
    } rows[] = {
        {"a = b\nc = d", 2},
        {"a = b; c = d;", 2},
        {"a = f(b,\nc)\n", 1},
        {"a = [b\n, c]", 1},
        {"a = b +\nc", 1},
        {"a = b\n|> f\n|> g", 1},
        {"a = b |>\nf", 1},
        {"a =\nb", 1},
        {"a = b\n-c", 2},
        {"a = b\n(c)", 2},
        {"a = b\n[c]", 2},
        {"update D\nminimize a\nusing b", 1},
        {"if a { b }\nelse { c }", 1},
        {"x = once {\na\n}\nb", 2},
        {"report a,\nb", 1},
        {"a = b # + \nc", 2},
        {"f(a) # |>\n", 1},
        {"", 0},
        {"# only a comment", 0},
        {"a, b = c", 1},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        Front f;
        front_init(&f, &arena);
        Str text = str_c(rows[i].text);
        uint32_t source = front_add_source(&f, STR("case"), text, false);
        Ast *block = parse_statements(&f, source, 0, (uint32_t)text.len);
        if (diag_errors(&f) || block->list.n != rows[i].n)
            fail_msg("%s\nis %u statements, not %u", rows[i].text, block->list.n, rows[i].n);
    }
}

// --- mistakes ------------------------------------------------------------------------------------

// One mistake is one diagnostic with the code, at the line and column (line 1 is `model m`).
static void one_mistake_is_one_error(void **state) {
    (void)state;
    static const struct {
        const char *text, *place;
    } rows[] = {
        {"x = 2 $ 3", "2:7: error[E0101]"},
        {"x = 2 && 3", "2:7: error[E0101]"},
        {"x = \"é\" $", "2:9: error[E0101]"},
        {"x = 'abc'", "2:5: error[E0101]"},
        {"x = \"abc", "2:5: error[E0102]"},
        {"x = 3x", "2:5: error[E0104]"},
        {"x = 1e999", "2:5: error[E0104]"},
        {"x = \"a\\q\"", "2:7: error[E0106]"},
        {"x = 1 +", "2:8: error[E0110]"},
        {"x = (1, 2)", "2:7: error[E0110]"},
        {"x = f(1", "2:6: error[E0111]"},
        {"x = f(", "2:6: error[E0111]"},
        {"fn f(a { b }", "2:5: error[E0111]"},
        {"x = 2 2 2 $", "2:7: error[E0119]"},
        {"x = f(1\ny = 2", "2:6: error[E0111]"},
        {"step {\n  x = 1\n", "2:6: error[E0111]"},
        {"net G(x) {\n  x\nstep { y }", "2:10: error[E0111]"},
        {"x = 3\n}", "3:1: error[E0112]"},
        {"x = 1 < 2 < 3", "2:11: error[E0113]"},
        {"x = a |> f + 1", "2:12: error[E0114]"},
        {"step {\n  net G = H\n}", "3:3: error[E0116]"},
        {"stages { stage (3) { a = 1 } }", "2:20: error[E0119]"},
        {"x = if a = 3 { 1 }", "2:10: error[E0118]"},
        {"x = 1 2", "2:7: error[E0119]"},
        {"updat D minimize 3 using f", "2:1: error[E0119]"},
        {"for = 3", "2:1: error[E0120]"},
        {"for x = 3", "2:7: error[E0110]"},
        {"fn repeat(x) = x", "2:4: error[E0120]"},
        {"f(x) := 2", "2:1: error[E0121]"},
        {"x[1:2] := 2", "2:1: error[E0121]"},
        {"x[0] = 3", "2:1: error[E0122]"},
        {"else { 1 }", "2:1: error[E0123]"},
        {"model n", "2:1: error[E0124]"},
        {"update D minimize x", "2:20: error[E0110]"},
        {"each batch { x }", "2:6: error[E0110]"},
        {"data x : 3", "2:10: error[E0110]"},
        {"use std", "2:5: error[E0110]"},
        {"net G = ", "2:8: error[E0110]"},
        {"x = [a for b in c, d]", "2:18: error[E0110]"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        Str got = only_error(rows[i].text);
        Str want = str_format(&arena, "case.gan:%s", rows[i].place);
        if (!str_starts(got, want))
            fail_msg("%s\nshould be %s, is:\n%s", rows[i].text, show(want), show(got));
    }
}

static void recovery_finds_the_next_error(void **state) {
    (void)state;
    Case c = read_case("case.gan",
                       STR("model m\nx = 1 2\nnet G(z {\n  h = z |> f(\n}\ny = [1\nstep {\n"
                           "  a = )\n  update D minimise x using o\n  b = 1 # fine\n}\nz = 3 4\n"));
    Str all = errors_of(&c);
    static const char *const places[] = {"2:7", "3:6", "6:5", "8:7", "9:12", "12:7"};
    assert_int_equal(diag_errors(&c.f), 6);
    for (size_t i = 0; i < 6; i++)
        if (!contains(all, str_format(&arena, "case.gan:%s: error", places[i])))
            fail_msg("nothing at %s:\n%s", places[i], show(all));
}

static void help_suggests_the_nearest_name(void **state) {
    (void)state;
    assert_true(contains(only_error("updte D minimize x using o"), STR("did you mean `update`?")));
    assert_true(contains(only_error("x = a && b"), STR("write `and`")));
    Str known[] = {STR("batch_norm"), STR("layer_norm"), STR("mean")};
    expect_same("near", str_nearest(STR("bacth_norm"), known, 3), STR("batch_norm"));
    expect_same("near", str_nearest(STR("maen"), known, 3), STR("mean"));
    expect_same("far", str_nearest(STR("convolve"), known, 3), (Str){0});
    expect_same("short", str_nearest(STR("x"), known, 3), (Str){0});
}

// --- diagnostics as such -------------------------------------------------------------------------

static Str many(const char *line, uint32_t n) {
    Text t = {.arena = &arena};
    text_put(&t, STR("model m\n"));
    for (uint32_t i = 0; i < n; i++)
        text_put(&t, str_c(line));
    return text_str(&t);
}

static uint32_t count(Str s, Str part) {
    uint32_t n = 0;
    for (size_t i = 0; i < s.len; i++)
        n += str_starts(str_sub(s, i, s.len), part);
    return n;
}

static void twenty_errors_are_shown(void **state) {
    (void)state;
    Case c = read_case("case.gan", many("x = 1 2\n", 50));
    Str all = errors_of(&c);
    assert_int_equal(diag_errors(&c.f), 50);
    assert_int_equal(count(all, STR("error[E0119]")), 20);
    assert_true(str_ends(all, STR("and 30 more\n")));
}

static void a_position_holds_one_error(void **state) {
    (void)state;
    Case c = read_case("case.gan", STR("model m\n"));
    Span here = {1, 2, 4};
    diag(&c.f, DiagE0113, here);
    diag(&c.f, DiagE0119, here, 1, "x");
    diag_note(&c.f, here, "of the one that was dropped");
    assert_int_equal(diag_errors(&c.f), 1);
    assert_false(contains(errors_of(&c), STR("dropped")));
}

static void errors_are_sorted_by_position(void **state) {
    (void)state;
    Case c = read_case("case.gan", STR("model m\n\n\n"));
    diag(&c.f, DiagE0113, (Span){1, 8, 8});
    diag(&c.f, DiagE0123, (Span){1, 6, 7});
    Str all = errors_of(&c);
    assert_true(str_starts(all, STR("case.gan:1:7: error[E0123]")));
}

static void the_caret_is_under_the_token(void **state) {
    (void)state;
    Case c = read_case("case.gan", STR("model m\n\tx = \"é\" + 1 == 2 == 3\n"));
    expect_same("caret", errors_of(&c),
                STR("case.gan:2:19: error[E0113]: comparisons do not chain\n"
                    "   2 | \tx = \"é\" + 1 == 2 == 3\n"
                    "     | \t                 ^^\n"
                    "help: write `a < b and b < c`\n"));
}

static void json_has_rustc_names(void **state) {
    (void)state;
    Case c = read_case("case.gan", STR("model m\nx = f(1\ny = 2\n"));
    Text t = {.arena = &arena};
    diag_render_json(&t, &c.f);
    Str line = text_str(&t);
    const Json *root;
    assert_int_equal(json_parse(&arena, line, STR("diag"), &root), GAN_OK);
    expect_same("level", json_string(json_get(root, "level"), (Str){0}), STR("error"));
    expect_same("code", json_string(json_get(json_get(root, "code"), "code"), (Str){0}),
                STR("E0111"));
    const Json *span = json_at(json_get(root, "spans"), 0);
    assert_int_equal((int)json_number(json_get(span, "line_start"), 0), 2);
    assert_int_equal((int)json_number(json_get(span, "column_start"), 0), 6);
    assert_int_equal((int)json_number(json_get(span, "byte_start"), 0), 13);
    assert_int_equal(json_count(json_get(root, "children")), 2); // a note and a help
    assert_true(contains(json_string(json_get(root, "rendered"), (Str){0}), STR("never closed")));
}

static const char *const codes[] = {
#define DIAG(Code, severity, message, help, explain) #Code,
#include "diags.def"
#undef DIAG
};

static void every_code_is_explained(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) {
        Text t = {.arena = &arena};
        if (!diag_explain(&t, str_c(codes[i])) || t.n < 60)
            fail_msg("%s has no explanation", codes[i]);
        for (size_t k = 0; k < i; k++)
            assert_string_not_equal(codes[k], codes[i]);
    }
    Text t = {.arena = &arena};
    assert_false(diag_explain(&t, STR("E9999")));
}

// --- hostile texts -------------------------------------------------------------------------------

static void repeated(const char *name, const char *head, const char *part, size_t n,
                     uint32_t most) {
    Text t = {.arena = &arena};
    text_put(&t, str_c(head));
    for (size_t i = 0; i < n; i++)
        text_put(&t, str_c(part));
    Case c = read_case(name, text_str(&t));
    uint32_t errors = diag_errors(&c.f);
    if (errors < 1 || errors > most)
        fail_msg("%s %s...: %u errors", head, part, errors);
    assert_true(errors_of(&c).len < 100000);
}

static void a_word_has_one_hint(void **state) {
    (void)state;
    static const char *const habits[] = {
#define HABIT(words, help) words,
#include "habits.def"
    };
    StrVec seen = {0};
    for (size_t i = 0; i < sizeof habits / sizeof *habits; i++)
        for (Str words = str_c(habits[i]); words.len;) {
            Str word = str_sub(words, 0, str_find(words, ' '));
            words = str_sub(words, word.len + 1, words.len);
            for (uint32_t k = 0; k < seen.n; k++)
                if (str_eq(seen.at[k], word))
                    fail_msg("habits.def has `%s` twice", show(word));
            vec_push(&arena, &seen, word);
        }
}

static void hostile_texts_are_one_error(void **state) {
    (void)state;
    enum { N = 1 << 20 };
    repeated("a.gan", "", "(", 10 * N, 1);
    repeated("a.gan", "model m\nx = ", "[", N, 1);
    repeated("a.gan", "model m\nx = ", "-", N, 1);
    repeated("a.gan", "model m\nx = ", "not ", N, 1);
    repeated("a.gan", "model m\nx = ", "a^", N, 1);
    repeated("a.gan", "model m\nx = ", "a + ", N, 1);
    repeated("a.gan", "model m\nx = a", " |> f", N, 1);
    repeated("a.gan", "model m\nx = a", "(1)", N, 1);
    repeated("a.gan", "model m\nx = ", "if a { ", N, 1);
    repeated("a.gan", "model m\nx = if a { b }", " else if a { b }", N, 1);
    repeated("a.gan", "model m\n", "for a in b { ", N, 1);
    repeated("a.gan", "model m\n", "fn f() { ", N, 1);
    repeated("a.gan", "model m\n", "\x01\x02", N, 1);
    repeated("a.gan", "model m\n", "\xff\xfe", N, 1);
    repeated("a.gan", "model m\nx = ", "\"", N + 1, 1);
    repeated("a.yaml", "", "[", N, 1);
    repeated("a.yaml", "", "{a: ", N, 1);
    repeated("a.yaml", "", "- ", N, 1);
    repeated("a.yaml", "model: a\nlet:\n  x: ", "(", N, 1);
}

static Str tokens_of(Case *c) {
    Text t = {.arena = &arena};
    tokens_print(&t, &c->f, c->source);
    return text_str(&t);
}

// A line of 600,000 tokens takes a fraction of a second; what goes over the line again for each of
// its tokens takes minutes of processor time.
static void long_lines_take_linear_time(void **state) {
    (void)state;
    static const struct {
        const char *head, *part;
        uint32_t lines;
        Str (*make)(Case *);
    } rows[] = {
        {"v = [1", ", 1", 1, tokens_of},
        {"v = [1", ", 1", 1, layout_of},
        {"v = [1", ",  1", 2, layout_of}, // both lines aligned by hand, column by column
        {"v = f(1", ", a=1", 1, layout_of},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        Text t = {.arena = &arena};
        text_put(&t, STR("model m\n"));
        for (uint32_t l = 0; l < rows[i].lines; l++) {
            text_put(&t, str_c(rows[i].head));
            for (uint32_t k = 0; k < 300000; k++)
                text_put(&t, str_c(rows[i].part));
            text_put(&t, str_c(strchr(rows[i].head, '[') ? "]\n" : ")\n"));
        }
        Case c = read_case("case.gan", text_str(&t));
        clock_t start = clock();
        assert_true(rows[i].make(&c).len > 100000);
        if (clock() - start > 20 * CLOCKS_PER_SEC)
            fail_msg("%s%s... takes quadratic time", rows[i].head, rows[i].part);
    }
}

static void any_prefix_of_a_model_parses_or_fails_cleanly(void **state) {
    (void)state;
    static const char *const files[] = {ROOT_DIR "/models/dcgan.gan",
                                        ROOT_DIR "/models/dcgan.yaml"};
    for (size_t k = 0; k < 2; k++) {
        Str text = read_text(files[k]);
        Arena mark = arena;
        for (size_t n = 0; n < text.len; n += 3, arena = mark)
            read_case(files[k], str_sub(text, 0, n));
    }
}

// --- YAML ----------------------------------------------------------------------------------------

static void yaml_scalars_are_raw(void **state) {
    (void)state;
    Case c = read_case("a.yaml", STR("model: no\nconfig:\n  y: 1e-4\n  on: {value: 0x}\n"));
    Str all = errors_of(&c);
    assert_true(contains(all, STR("a.yaml:4:15: error[E0104]"))); // 0x is no number of ours
    assert_int_equal(diag_errors(&c.f), 1);
    expect_same("name", c.tree->text, STR("no"));
    expect_same("config", c.tree->list.at[0]->text, STR("y"));
    assert_true(c.tree->list.at[0]->list.at[0]->num == 1e-4);
}

static void yaml_errors_have_their_position(void **state) {
    (void)state;
    static const struct {
        const char *text, *place;
    } rows[] = {
        {"let:\n  x: 1 2\n", "3:8: error[E0119]"},
        {"let:\n  x: \"1 2\"\n", "3:9: error[E0119]"},
        {"let:\n  é: 1\n", "3:3: error[E0101]"},
        {"let: |\n  x = 1\n  y = f(\n", "4:8: error[E0111]"},
        {"lett:\n  x: 1\n", "2:1: error[E0201]"},
        {"let:\n  x: 1\n  x: 2\n", "4:3: error[E0202]"},
        {"let: [a]\n", "2:6: error[E0203]"},
        {"let: &a\n  x: 1\n", "2:6: error[E0204]"},
        {"let:\n  x: *a\n", "3:6: error[E0204]"},
        {"let: !t\n  x: 1\n", "2:6: error[E0204]"},
        {"let:\n\tx: 1\n", "3:1: error[E0205]"},
        {"net:\n  G: {in: {x: [1], y: [1]}, layers: [tanh]}\n", "3:37: error[E0206]"},
        {"step:\n  - {update: D, using: o}\n", "3:6: error[E0207]"},
        {"step:\n  - {update: D, minimise: x, using: o}\n", "3:17: error[E0201]"},
        {"let:\n  x: {y\n", "4:1: error[E0200]"},
        {"---\nmodel: b\n", "2:1: error[E0204]"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        Case c = read_case("a.yaml", str_format(&arena, "model: m\n%s", rows[i].text));
        Str got = errors_of(&c), want = str_format(&arena, "a.yaml:%s", rows[i].place);
        if (diag_errors(&c.f) != 1 || !str_starts(got, want))
            fail_msg("%s\nshould be one %s, is:\n%s", rows[i].text, show(want), show(got));
    }
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(golden_cases, set_up),
        cmocka_unit_test_setup(shipped_models_parse, set_up),
        cmocka_unit_test_setup(layout_is_idempotent, set_up),
        cmocka_unit_test_setup(gan_round_trip, set_up),
        cmocka_unit_test_setup(yaml_round_trip, set_up),
        cmocka_unit_test_setup(twins_agree, set_up),
        cmocka_unit_test_setup(examples_of_the_manual_parse, set_up),
        cmocka_unit_test_setup(the_manual_has_every_keyword_and_function, set_up),
        cmocka_unit_test_setup(operators_have_their_precedence, set_up),
        cmocka_unit_test_setup(statements_end_at_lines_and_semicolons, set_up),
        cmocka_unit_test_setup(one_mistake_is_one_error, set_up),
        cmocka_unit_test_setup(recovery_finds_the_next_error, set_up),
        cmocka_unit_test_setup(help_suggests_the_nearest_name, set_up),
        cmocka_unit_test_setup(twenty_errors_are_shown, set_up),
        cmocka_unit_test_setup(a_position_holds_one_error, set_up),
        cmocka_unit_test_setup(errors_are_sorted_by_position, set_up),
        cmocka_unit_test_setup(the_caret_is_under_the_token, set_up),
        cmocka_unit_test_setup(json_has_rustc_names, set_up),
        cmocka_unit_test_setup(every_code_is_explained, set_up),
        cmocka_unit_test_setup(a_word_has_one_hint, set_up),
        cmocka_unit_test_setup(hostile_texts_are_one_error, set_up),
        cmocka_unit_test_setup(long_lines_take_linear_time, set_up),
        cmocka_unit_test_setup(any_prefix_of_a_model_parses_or_fails_cleanly, set_up),
        cmocka_unit_test_setup(yaml_scalars_are_raw, set_up),
        cmocka_unit_test_setup(yaml_errors_have_their_position, set_up),
    };
    return ARENA_CASES(tests, 0);
}
