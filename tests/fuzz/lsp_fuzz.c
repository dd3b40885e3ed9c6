// lsp_fuzz.c - any text in an editor: it is opened as both kinds of document, with requests at
// positions all over it, and typed into a model without errors. Then the bytes are used as messages
// themselves.
#include "fuzz.h"

#include "lsp.h"

static Arena arena;

static void say(Lsp *l, Str body) {
    Arena mark = arena;
    Text in = {.arena = &arena}, out = {.arena = &arena};
    text_fmt(&in, "Content-Length: %zu\r\n\r\n", body.len);
    text_put(&in, body); // it may hold bytes of 0
    Str bytes = text_str(&in);
    int code;
    if (!lsp_ended(l, &code) && (!lsp_take(l, &bytes, &out) || bytes.len))
        bug("a whole message was not taken");
    arena = mark;
}

static void ask(Lsp *l, const char *method, const char *uri, size_t line, size_t column) {
    Arena mark = arena;
    say(l, str_format(&arena,
                      "{\"id\":1,\"method\":\"textDocument/%s\",\"params\":{\"textDocument\":"
                      "{\"uri\":\"%s\"},\"position\":{\"line\":%zu,\"character\":%zu}}}",
                      method, uri, line, column));
    arena = mark;
}

static void look(Lsp *l, const char *uri, Str text) {
    Arena mark = arena;
    Text t = {.arena = &arena};
    JsonOut j = {.text = &t};
    json_put_str(&j, text);
    say(l, str_format(&arena,
                      "{\"method\":\"textDocument/didOpen\",\"params\":{\"textDocument\":"
                      "{\"uri\":\"%s\",\"text\":%.*s}}}",
                      uri, SARG(text_str(&t))));
    ask(l, "documentSymbol", uri, 0, 0);
    ask(l, "formatting", uri, 0, 0);
    for (size_t i = 0; i < 2; i++) {
        ask(l, "hover", uri, i * 7, i * 5);
        ask(l, "definition", uri, i * 7, i * 5);
    }
    ask(l, "completion", uri, text.len % 50, 3);
    arena = mark;
}

static void type_into(Lsp *l, const char *uri, Str text) {
    static const char good[] = "model m\n"
                               "net D(x: [4]) -> [] = x |> dense(1) |> squeeze\n"
                               "step { update D minimize mean(D(normal(4))) using adam(lr=1) }\n";
    Arena mark = arena;
    Str whole = STR(good);
    Text t = {.arena = &arena};
    size_t at = text.len * 7 % whole.len;
    text_put(&t, str_sub(whole, 0, at));
    text_put(&t, text);
    text_put(&t, str_sub(whole, at, whole.len));
    look(l, uri, whole);
    look(l, uri, text_str(&t));
    arena = mark;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    if (!arena.base && arena_init(&arena, 0) != GAN_OK)
        return 0;
    if (n > 1 << 14)
        return 0;
    Arena mark = arena;
    Lsp *l = NULL;
    if (lsp_open(&l) != GAN_OK)
        return 0;
    Str text = {(const char *)data, n};
    say(l, STR("{\"id\":0,\"method\":\"initialize\"}"));
    look(l, "file:///a.gan", text);
    look(l, "file:///a.yaml", text);
    type_into(l, "file:///b.gan", text);
    say(l, text);
    Text out = {.arena = &arena};
    while (lsp_take(l, &text, &out) && text.len)
        ;
    lsp_close(l);
    arena = mark;
    return 0;
}
