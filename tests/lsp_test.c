// lsp_test.c - the language server: scripted sessions, message by message.
#include "lsp.h"

#include <setjmp.h>
#include <string.h>

#include <cmocka.h>
#include "cases.h"

static Arena arena; // emptied before each test
static Arena empty;
static Lsp *server;
static int ids;

static int set_up(void **state) {
    (void)state;
    arena = empty;
    ids = 0;
    return lsp_open(&server) == GAN_OK ? 0 : -1;
}

static int tear_down(void **state) {
    (void)state;
    lsp_close(server);
    return 0;
}

// The server's reply to one message, without the frame; empty: none.
static const char *say(Str body) {
    Str bytes = str_format(&arena, "Content-Length: %zu\r\n\r\n%.*s", body.len, SARG(body));
    Text out = {.arena = &arena};
    assert_true(lsp_take(server, &bytes, &out));
    assert_int_equal(bytes.len, 0);
    const char *answer = str_z(&arena, text_str(&out)), *end = strstr(answer, "\r\n\r\n");
    return end ? end + 4 : "";
}

static const char *notify(const char *method, const char *params) {
    return say(str_format(&arena, "{\"jsonrpc\":\"2.0\",\"method\":\"%s\",\"params\":%s}", method,
                          params));
}

static const char *request(const char *method, const char *params) {
    return say(str_format(&arena, "{\"jsonrpc\":\"2.0\",\"id\":%d,\"method\":\"%s\",\"params\":%s}",
                          ++ids, method, params));
}

static void has(const char *answer, const char *what) {
    if (!strstr(answer, what))
        fail_msg("no %s in\n%s", what, answer);
}

static void has_not(const char *answer, const char *what) {
    if (strstr(answer, what))
        fail_msg("%s in\n%s", what, answer);
}

static Str quoted(Str text) {
    Text t = {.arena = &arena};
    JsonOut j = {.text = &t};
    json_put_str(&j, text);
    return text_str(&t);
}

static const char *open_document(const char *name, const char *text) {
    has(request("initialize", "{}"), "\"hoverProvider\": true");
    return notify("textDocument/didOpen",
                  str_format(&arena, "{\"textDocument\":{\"uri\":\"file:///d/%s\",\"text\":%.*s}}",
                             name, SARG(quoted(str_c(text))))
                      .ptr);
}

static const char *change(const char *name, Str text) {
    return notify("textDocument/didChange",
                  str_format(&arena,
                             "{\"textDocument\":{\"uri\":\"file:///d/%s\"},"
                             "\"contentChanges\":[{\"text\":%.*s}]}",
                             name, SARG(quoted(text)))
                      .ptr);
}

static const char *ask(const char *what, const char *name, int line, int column) {
    return request(what, str_format(&arena,
                                    "{\"textDocument\":{\"uri\":\"file:///d/%s\"},"
                                    "\"position\":{\"line\":%d,\"character\":%d}}",
                                    name, line, column)
                             .ptr);
}

#define MODEL                                                                                      \
    "model m \"\xF0\x9D\x94\xBB\"\n"                                                               \
    "config nz = 6 \"latent size\"\n"                                                              \
    "data x : float(4)\n"                                                                          \
    "fn twice(v) = 2*v\n"                                                                          \
    "net G(z: [nz]) -> [4] = z |> dense(4) |> twice\n"                                             \
    "net D(x: [4]) -> [] { h = x |> dense(3); h |> dense(1) |> squeeze }\n"                        \
    "step {\n"                                                                                     \
    "  update D minimize mean(D(x)) - mean(D(G(normal(nz)))) using adam(lr=0.1)\n"                 \
    "  update G minimize mean(D(G(normal(nz)))) using adam(lr=0.1)\n"                              \
    "}\n"

static void a_correct_model_has_no_diagnostics(void **state) {
    (void)state;
    has(open_document("m.gan", MODEL), "\"diagnostics\": []");
}

static void diagnostics_equal_those_of_check(void **state) {
    (void)state;
    const char *answer = open_document("m.gan", "model m \"\xF0\x9D\x94\xBB\" oops\n");
    has(answer, "\"start\": {\"line\": 0, \"character\": 13}"); // the letter is two units of UTF-16
    answer = change("m.gan", STR("model m\nnet D(x: [4]) -> [] = x |> dens(1)\nstep { update D "
                                 "minimize mean(D(normal(4))) using adam(lr=1) }\n"));
    has(answer, "\"code\": \"E0301\"");
    has(answer, "did you mean `dense`?");
    has(answer, "\"start\": {\"line\": 1, \"character\": 27}, \"end\": {\"line\": 1, "
                "\"character\": 31}");
    has(notify("textDocument/didClose", "{\"textDocument\":{\"uri\":\"file:///d/m.gan\"}}"),
        "\"diagnostics\": []");
    has(ask("textDocument/hover", "m.gan", 0, 0), "not open");
}

static void yaml_documents_are_supported(void **state) {
    (void)state;
    has(open_document("m.yaml", "model: m\nnett: {}\n"), "did you mean `net`?");
    has(ask("textDocument/completion", "m.yaml", 0, 0), "\"minimize\"");
    has(request("textDocument/formatting", "{\"textDocument\":{\"uri\":\"file:///d/m.yaml\"}}"),
        "\"result\": null");
}

static void hover_shows_shapes_and_values(void **state) {
    (void)state;
    open_document("m.gan", MODEL);
    has(ask("textDocument/hover", "m.gan", 5, 41), "h: [B, 3]");
    has(ask("textDocument/hover", "m.gan", 4, 24), "z: [B, 6]");
    has(ask("textDocument/hover", "m.gan", 1, 7), "nz: 6\\n```\\nlatent size");
    has(ask("textDocument/hover", "m.gan", 7, 25), "net D(x: [4]) -> []");
    has(ask("textDocument/hover", "m.gan", 7, 20), "mean(x, axes?, group?, keep?)");
    has(ask("textDocument/hover", "m.gan", 4, 30), "dense(");
    has(ask("textDocument/hover", "m.gan", 9, 0), "\"result\": null");
    has(ask("textDocument/hover", "m.gan", 99, 99), "\"result\": null");
    open_document("m.gan", "model m\ny = zero_pad(reshape(range(4), 2, 2), 1) |> upfirdn([1])\n");
    has(ask("textDocument/hover", "m.gan", 1, 7), "```\\nZeros around every axis"); // one line
    const char *said = ask("textDocument/hover", "m.gan", 1, 48);                   // several
    has(said, "```\\nStyleGAN's upfirdn2d");
    has(said, "channels fill vectors, convolved.\\n");
}

// Some are called as functions are, or as the field.
static void words_of_data_are_no_functions(void **state) {
    (void)state;
    open_document("m.gan", "model m\ndata x : float(1, 4, 4) flip, known : known(x)\n");
    has(ask("textDocument/hover", "m.gan", 1, 26), "\"result\": null");
    has(ask("textDocument/hover", "m.gan", 1, 41), "\"result\": null");
    has(ask("textDocument/definition", "m.gan", 1, 41), "\"result\": null");
    has(ask("textDocument/hover", "m.gan", 1, 32), "known: [B, 1, 4, 4]");
    has(ask("textDocument/hover", "m.gan", 1, 44), "x: [B, 1, 4, 4]");
}

static void names_have_their_definition(void **state) {
    (void)state;
    open_document("m.gan", MODEL);
    has(ask("textDocument/definition", "m.gan", 5, 41),
        "\"start\": {\"line\": 5, \"character\": 22}");
    has(ask("textDocument/definition", "m.gan", 5, 26),
        "\"start\": {\"line\": 5, \"character\": 6}");
    has(ask("textDocument/definition", "m.gan", 7, 27),
        "\"start\": {\"line\": 2, \"character\": 5}");
    has(ask("textDocument/definition", "m.gan", 4, 44),
        "\"start\": {\"line\": 3, \"character\": 3}");
    has(ask("textDocument/definition", "m.gan", 4, 30), "\"result\": null"); // of the library
}

static void a_name_that_takes_the_rest_is_found(void **state) {
    (void)state;
    open_document("m.gan", "model m\ndata x : float(4)\n"
                           "net D(x: [4]) = [x |> dense(1) |> squeeze, x, 2*x]\n"
                           "step {\n"
                           "  score, ...more = D(x)\n"
                           "  update D minimize mean(score) + mean(more[0]) using adam(lr=0.1)\n"
                           "}\n");
    has(ask("textDocument/definition", "m.gan", 5, 40),
        "\"start\": {\"line\": 4, \"character\": 12}");
    has(ask("textDocument/hover", "m.gan", 5, 40), "more: ");
    has(ask("textDocument/completion", "m.gan", 5, 39), "\"label\": \"more\"");
}

static void names_of_loops_and_comprehensions_are_found_within(void **state) {
    (void)state;
    open_document("m.gan", "model m\ndata x : float(4), y : label(3)\n"
                           "net D(x: [4]) -> [4] {\n"
                           "  hs = [x*i + j for i in range(3) for j in range(i, 4)]\n"
                           "  for h in hs { x = x + h }\n"
                           "  state seen = 0\n"
                           "  x + seen |> dense(4)\n"
                           "}\n"
                           "i = 7\n"
                           "step { update D minimize mean(D(x)^2) using adam() }\n"
                           "sample outs = D(x)*i\n");
    has(ask("textDocument/definition", "m.gan", 3, 10), "{\"line\": 3, \"character\": 20}"); // i
    has(ask("textDocument/definition", "m.gan", 3, 14), "{\"line\": 3, \"character\": 38}"); // j
    has(ask("textDocument/definition", "m.gan", 3, 49), "{\"line\": 3, \"character\": 20}"); // i
    has(ask("textDocument/definition", "m.gan", 4, 24), "{\"line\": 4, \"character\": 6}");  // h
    has(ask("textDocument/definition", "m.gan", 6, 6), "{\"line\": 5, \"character\": 8}");   // seen
    has(ask("textDocument/definition", "m.gan", 10, 19),
        "{\"line\": 8, \"character\": 0}"); // the other i
    has_not(ask("textDocument/completion", "m.gan", 4, 2), "\"label\": \"j\"");
    const char *all =
        request("textDocument/documentSymbol", "{\"textDocument\":{\"uri\":\"file:///d/m.gan\"}}");
    has(all, "\"name\": \"y\"");
    has(all, "\"name\": \"i\"");
    has(all, "\"name\": \"step\"");
    has(all, "\"name\": \"outs\"");
}

static void an_incomplete_text_has_completions(void **state) {
    (void)state;
    has(open_document("m.gan", "model m\nconfig wide = 3\nnet D(seen: [4]) -> [] {\n  h = se\n"),
        "\"severity\": 1");
    const char *answer = ask("textDocument/completion", "m.gan", 3, 8);
    has(answer, "\"label\": \"seen\"");
    has(answer, "\"label\": \"wide\"");
    has(answer, "\"label\": \"conv\"");
    has(answer, "\"label\": \"minimize\"");
    has(request("textDocument/documentSymbol", "{\"textDocument\":{\"uri\":\"file:///d/m.gan\"}}"),
        "\"name\": \"wide\"");
}

// The model with its line `line`, counted from 0, replaced.
static Str with_line(size_t line, Str by) {
    Str rest = STR(MODEL);
    Text t = {.arena = &arena};
    for (size_t i = 0; rest.len; i++) {
        size_t end = str_find(rest, '\n');
        text_put(&t, i == line ? by : str_sub(rest, 0, end));
        text_char(&t, '\n');
        rest = str_sub(rest, end + 1, rest.len);
    }
    return text_str(&t);
}

static const char of_before[] = "of the last text without errors";

// A text of these lines, with one replaced.
static Str lines_with(const char *const *lines, size_t n, size_t line, const char *by) {
    Text t = {.arena = &arena};
    for (size_t i = 0; i < n; i++)
        text_fmt(&t, "%s\n", i == line ? by : lines[i]);
    return text_str(&t);
}

static void shapes_outlive_a_mistake(void **state) {
    (void)state;
    static const char *const lines[] = {
        "model m",
        "data x : float(4)",
        "net D(x: [4]) -> [] {",
        "  h = x |> dense(3)",
        "  g = h |> relu",
        "  g |> dense(1) |> squeeze",
        "}",
        "step { update D minimize mean(D(x)) using adam(lr=0.1) }",
    };
    enum { LINES = sizeof lines / sizeof *lines };
    open_document("m.gan", lines_with(lines, LINES, LINES, "").ptr);
    has(change("m.gan", lines_with(lines, LINES, 3, "  h = x |> dense(")), "E0111");
    const char *answer = ask("textDocument/hover", "m.gan", 4, 2);
    has(answer, "g: [B, 3]");
    has(answer, of_before);
    answer = ask("textDocument/hover", "m.gan", 4, 6);
    has(answer, "h: [B, 3]");
    has(answer, of_before);
    answer = ask("textDocument/hover", "m.gan", 3, 6); // read before the mistake
    has(answer, "x: [B, 4]");
    has_not(answer, of_before);
    change("m.gan", lines_with(lines, LINES, 2, "# one more line\nnet D(x: [4) -> [] {"));
    answer = ask("textDocument/hover", "m.gan", 5, 2);
    has(answer, "g: [B, 3]");
    has(answer, of_before);
    answer = ask("textDocument/hover", "m.gan", 8, 14);
    has(answer, "net D(x: [4]) -> []");
    has(answer, of_before);
    answer = ask("textDocument/completion", "m.gan", 6, 3);
    has(answer, "\"label\": \"g\"");
    has(answer, "\"detail\": \"D(x: [4]) -> []\"");
    change("m.gan", lines_with(lines, LINES, LINES, ""));
    answer = ask("textDocument/hover", "m.gan", 4, 2);
    has(answer, "g: [B, 3]");
    has_not(answer, of_before);
}

static bool letter(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static bool within_letter(Str text, size_t at) {
    return at < text.len && ((unsigned char)text.ptr[at] & 0xC0) == 0x80;
}

// Hovers over the n-th word of a text, counted round: what is told must be of that word.
static void hover_word(const char *name, Str text, size_t n) {
    VEC(Str) words = {0};
    for (size_t i = 0; i < text.len; i++) {
        size_t from = i;
        while (i < text.len &&
               (letter(text.ptr[i]) || (i > from && text.ptr[i] <= '9' && text.ptr[i] >= '0')))
            i++;
        if (i > from)
            vec_push(&arena, &words, str_sub(text, from, i));
    }
    if (!words.n)
        return;
    Str word = words.at[n % words.n];
    int line = 0, column = 0;
    for (const char *c = text.ptr; c < word.ptr; c++) {
        column = *c == '\n' ? 0 : column + 1; // nothing stands behind the letter of four bytes
        line += *c == '\n';
    }
    const char *answer = ask("textDocument/hover", name, line, column);
    if (strstr(answer, "\"result\": null"))
        return;
    has(answer, str_format(&arena,
                           "{\"start\": {\"line\": %d, \"character\": %d}, \"end\": "
                           "{\"line\": %d, \"character\": %d}}",
                           line, column, line, column + (int)word.len)
                    .ptr);
    Str told = str_c(strstr(answer, "```\\n") + 5);
    for (size_t i = 0; i < 2; i++) {
        static const Str kinds[] = {{"net ", 4}, {"fn ", 3}};
        if (str_starts(told, kinds[i]) && !str_eq(word, str_sub(kinds[i], 0, kinds[i].len - 1)))
            told = str_sub(told, kinds[i].len, told.len);
    }
    if (!str_starts(told, word) || letter(told.ptr[word.len]))
        fail_msg("hover over %.*s tells\n%s", SARG(word), answer);
}

// Each line of the model is typed anew, letter by letter, the others being there.
static void what_is_told_is_of_the_word_while_a_line_is_typed(void **state) {
    (void)state;
    Str rest = STR(MODEL);
    open_document("m.gan", MODEL);
    for (size_t line = 0; rest.len; line++) {
        size_t end = str_find(rest, '\n');
        for (size_t n = 0; n <= end; n++) {
            Arena mark = arena;
            if (within_letter(rest, n))
                continue;
            Str text = with_line(line, str_sub(rest, 0, n));
            change("m.gan", text);
            hover_word("m.gan", text, 7 * n + line);
            arena = mark;
        }
        has(change("m.gan", STR(MODEL)), "\"diagnostics\": []");
        rest = str_sub(rest, end + 1, rest.len);
    }
}

// ... and all of it, from nothing.
static void type_whole(const char *name, Str whole) {
    open_document(name, "");
    for (size_t n = 0; n <= whole.len; n++) {
        Arena mark = arena;
        Str text = str_sub(whole, 0, n);
        if (within_letter(whole, n))
            continue;
        const char *answer = change(name, text);
        hover_word(name, text, 5 * n);
        if (n == whole.len)
            has(answer, "\"diagnostics\": []");
        arena = mark;
    }
}

static void a_model_is_typed(void **state) {
    (void)state;
    type_whole("m.gan", STR(MODEL));
}

static void a_yaml_model_is_typed(void **state) {
    (void)state;
    type_whole("m.yaml",
               STR("model: m\nconfig:\n  nz: {value: 6, doc: latent size}\n"
                   "data:\n  x: float(4)\nfn:\n  twice(v): 2*v\n"
                   "net:\n  G:\n    in: {z: [nz]}\n    layers: [dense(4), twice]\n"
                   "  D:\n    in: {x: [4]}\n    out: []\n    body: |\n"
                   "      h = x |> dense(3)\n      h |> dense(1) |> squeeze\n"
                   "step:\n  - fake: G(normal(nz))\n"
                   "  - {update: D, minimize: mean(D(x)) - mean(D(fake)), using: adam()}\n"
                   "  - {update: G, minimize: mean(D(fake)), using: adam()}\n"));
}

static void formatting_is_one_edit(void **state) {
    (void)state;
    open_document("m.gan", "model   m\nconfig a=1\n");
    has(request("textDocument/formatting", "{\"textDocument\":{\"uri\":\"file:///d/m.gan\"}}"),
        "\"newText\": \"model m\\nconfig a = 1\\n\"");
}

static void malformed_messages_are_refused(void **state) {
    (void)state;
    int code;
    has(request("textDocument/hover", "{}"), "-32002");
    has(say(STR("{\"id\":")), "-32700");
    has(say(STR("[1, 2]")), "-32600");
    has(request("initialize", "{}"), "result");
    has(request("no/such", "null"), "-32601");
    assert_string_equal(notify("$/progress", "null"), "");
    assert_string_equal(notify("textDocument/didOpen", "{\"textDocument\":3}"), "");
    assert_string_equal(notify("textDocument/didChange", "{\"contentChanges\":[]}"), "");
    has(request("textDocument/hover", "{\"textDocument\":{\"uri\":7}}"), "not open");
    has(request("shutdown", "null"), "\"result\": null");
    has(request("textDocument/hover", "{}"), "-32600");
    assert_false(lsp_ended(server, &code));
    assert_string_equal(notify("exit", "null"), "");
    assert_true(lsp_ended(server, &code));
    assert_int_equal(code, 0);
}

static void messages_come_in_pieces(void **state) {
    (void)state;
    Str whole =
        STR("content-length:  24\r\nContent-Type: x\r\n\r\n{\"method\":\"no\",\"id\":\"a\"}");
    for (size_t n = 0; n < whole.len; n++) {
        Str bytes = str_sub(whole, 0, n);
        Text out = {.arena = &arena};
        assert_false(lsp_take(server, &bytes, &out));
        assert_int_equal(bytes.len, n);
    }
    Text out = {.arena = &arena};
    assert_true(lsp_take(server, &whole, &out));
    has(str_z(&arena, text_str(&out)), "\"id\": \"a\"");
    int code;
    Str bytes = STR("Content-Length: -4\r\n\r\n");
    assert_true(lsp_take(server, &bytes, &out));
    assert_true(lsp_ended(server, &code)); // the start of the next message is unknown
    assert_int_equal(code, 1);
}

int main(int argc, char **argv) {
    if (arena_init(&empty, 0) != GAN_OK)
        return 1;
#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        CASE(a_correct_model_has_no_diagnostics),
        CASE(diagnostics_equal_those_of_check),
        CASE(yaml_documents_are_supported),
        CASE(hover_shows_shapes_and_values),
        CASE(words_of_data_are_no_functions),
        CASE(names_have_their_definition),
        CASE(a_name_that_takes_the_rest_is_found),
        CASE(names_of_loops_and_comprehensions_are_found_within),
        CASE(an_incomplete_text_has_completions),
        CASE(shapes_outlive_a_mistake),
        CASE(what_is_told_is_of_the_word_while_a_line_is_typed),
        CASE(a_model_is_typed),
        CASE(a_yaml_model_is_typed),
        CASE(formatting_is_one_edit),
        CASE(malformed_messages_are_refused),
        CASE(messages_come_in_pieces),
    };
    return CASES_LISTED(tests) ? 0 : cmocka_run_group_tests(tests, NULL, NULL);
}
