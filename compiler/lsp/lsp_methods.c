// lsp_methods.c - the requests and notifications of an editor: one function a method, and their
// table.
//
// A document is its text, and its last text without errors. Every request parses and elaborates
// them again, in an arena that is cleared after each message: models are small, so that takes
// milliseconds, and what is told of the earlier text is told of lines that are still there.
#include "lsp_messages.h"

#include <string.h>

// --- looking -------------------------------------------------------------------------------------

static Str path_of(Arena *a, Str uri) {
    Text t = {.arena = a};
    if (str_starts(uri, STR("file://")))
        uri = str_sub(uri, 7, uri.len);
    for (size_t i = 0; i < uri.len; i++) {
        int byte = uri.ptr[i] == '%' ? str_to_byte(str_sub(uri, i + 1, uri.len)) : -1;
        text_char(&t, byte >= 0 ? (char)byte : uri.ptr[i]);
        i += byte >= 0 ? 2 : 0;
    }
    return text_str(&t);
}

static void look_text(const Request *r, Str path, Str text, Look *out) {
    enum { BATCH = 32 };
    Str ext = path_ext(path);
    *out = (Look){.yaml = str_eq(ext, STR("yaml")) || str_eq(ext, STR("yml"))};
    Front *f = &out->f;
    front_init(f, r->perm);
    front_share_library(f, &r->l->library);
    uint32_t source = front_add_source(f, path, str_copy(r->perm, text), false);
    out->source = f->source.n;
    if (!source)
        return;
    const Ast *file = out->yaml ? parse_yaml(f, source) : parse_gan(f, source);
    out->file = file;
    out->parsed = file && !diag_errors(f);
    if (!file)
        return;
    Module *m = arena_new(r->perm, Module);
    facts_want(f);
    out->sound = elaborate(f, file, &(ElabOptions){.batch = BATCH}, m);
}

static void look_at(const Request *r, const Document *d, Look *out) {
    Str path = path_of(r->perm, (Str){d->uri, d->uri_len});
    look_text(r, path, (Str){d->text, d->text_len}, out);
    if (out->sound || !d->good)
        return;
    out->before = arena_new(r->perm, Look);
    look_text(r, path, (Str){d->good, d->good_len}, out->before);
    out->kept = lines_kept(r->perm, &out->before->f.source.at[out->before->source - 1],
                           &out->f.source.at[out->source - 1]);
}

// --- what is published ---------------------------------------------------------------------------

static void put_notes(JsonOut *j, const Look *k, Str uri, const DiagView *d) {
    json_member_open(j, "relatedInformation", '[');
    for (uint32_t i = 0; i < d->notes; i++) {
        if (d->note[i].span.file != k->source)
            continue; // the library is in no file of the editor's
        json_open(j, '{');
        json_member_open(j, "location", '{');
        json_member_str(j, "uri", uri);
        json_name(j, "range");
        look_range(k, j, d->note[i].span);
        json_close(j, '}');
        json_member_str(j, "message", d->note[i].text);
        json_close(j, '}');
    }
    json_close(j, ']');
}

static void put_diagnostic(JsonOut *j, Arena *perm, const Look *k, Str uri, const DiagView *d) {
    Span at = d->span.file == k->source ? d->span : (Span){k->source, 0, 0};
    json_open(j, '{');
    json_name(j, "range");
    look_range(k, j, at);
    json_member_int(j, "severity", d->error ? 1 : 2);
    json_member_str(j, "code", str_c(d->code));
    json_member_str(j, "source", STR("ganc"));
    json_member_str(j, "message",
                    str_format(perm, "%.*s%s%.*s", SARG(d->message), d->help.len ? "\nhelp: " : "",
                               SARG(d->help)));
    put_notes(j, k, uri, d);
    json_close(j, '}');
}

// `d` NULL: the document is closed, nothing is wrong with it any more.
static void publish(const Request *r, Str uri, Document *d) {
    Answer a;
    Look k;
    JsonOut *j = message_begin(&a, r->perm);
    json_member_str(j, "method", STR("textDocument/publishDiagnostics"));
    json_member_open(j, "params", '{');
    json_member_str(j, "uri", uri);
    json_member_open(j, "diagnostics", '[');
    if (d) {
        uint32_t n;
        look_text(r, path_of(r->perm, uri), (Str){d->text, d->text_len}, &k);
        d->sound = k.sound;
        const DiagView *list = diag_list(&k.f, &n);
        for (uint32_t i = 0; i < n; i++)
            put_diagnostic(j, r->perm, &k, uri, &list[i]);
    }
    json_close(j, ']');
    json_close(j, '}');
    message_end(&a, r->out);
}

// --- methods -------------------------------------------------------------------------------------

static Str uri_of(const Request *r) {
    return json_string(json_get(json_get(r->params, "textDocument"), "uri"), (Str){0});
}

static void initialize(const Request *r) {
    Answer a;
    JsonOut *j = result_begin(r, &a);
    json_open(j, '{');
    json_member_open(j, "capabilities", '{');
    json_member_int(j, "textDocumentSync", 1); // whole texts
    static const char *const can[] = {"hoverProvider", "definitionProvider",
                                      "documentFormattingProvider", "documentSymbolProvider"};
    for (uint32_t i = 0; i < sizeof can / sizeof *can; i++)
        json_member_bool(j, can[i], true);
    json_member_open(j, "completionProvider", '{');
    json_close(j, '}');
    json_close(j, '}');
    json_member_open(j, "serverInfo", '{');
    json_member_str(j, "name", STR("ganc"));
    json_member_str(j, "version", STR(GAN_VERSION));
    json_close(j, '}');
    json_close(j, '}');
    message_end(&a, r->out);
    r->l->open = true;
}

static void do_shutdown(const Request *r) {
    r->l->shutdown = true;
    answer_null(r);
}

static void did_open(const Request *r) {
    const Json *text = json_get(json_get(r->params, "textDocument"), "text");
    if (!json_is_string(text) || !uri_of(r).len)
        return;
    document_set(r->l, uri_of(r), json_string(text, (Str){0}));
    publish(r, uri_of(r), document_find(r->l, uri_of(r)));
}

static void did_change(const Request *r) {
    const Json *changes = json_get(r->params, "contentChanges");
    const Json *last = json_at(changes, json_count(changes) - 1), *text = json_get(last, "text");
    if (!json_is_string(text) || json_get(last, "range") || !document_find(r->l, uri_of(r)))
        return;
    document_set(r->l, uri_of(r), json_string(text, (Str){0}));
    publish(r, uri_of(r), document_find(r->l, uri_of(r)));
}

static void did_close(const Request *r) {
    if (!document_find(r->l, uri_of(r)))
        return;
    document_drop(r->l, uri_of(r));
    publish(r, uri_of(r), NULL);
}

// The document a request asks about; false after an answer.
static bool asked(const Request *r, Look *k) {
    const Document *d = document_find(r->l, uri_of(r));
    if (d)
        look_at(r, d, k);
    else
        answer_error(r, ErrParams, "this document is not open");
    return d != NULL;
}

static uint32_t place_of(const Request *r, const Look *k) {
    const Json *at = json_get(r->params, "position");
    double line = json_number(json_get(at, "line"), 0),
           column = json_number(json_get(at, "character"), 0);
    bool sane = line >= 0 && line < 1e9 && column >= 0 && column < 1e9;
    return sane ? look_offset(k, (int64_t)line, (int64_t)column) : 0;
}

static void hover(const Request *r) {
    Answer a;
    Look k;
    if (!asked(r, &k))
        return;
    Span word = look_word(&k, place_of(r, &k));
    Str what = word.hi > word.lo ? look_hover(&k, word) : (Str){0};
    if (!what.len) {
        answer_null(r);
        return;
    }
    JsonOut *j = result_begin(r, &a);
    json_open(j, '{');
    json_member_open(j, "contents", '{');
    json_member_str(j, "kind", STR("markdown"));
    json_member_str(j, "value", what);
    json_close(j, '}');
    json_name(j, "range");
    look_range(&k, j, word);
    json_close(j, '}');
    message_end(&a, r->out);
}

static void definition(const Request *r) {
    Answer a;
    Look k;
    Span at;
    if (!asked(r, &k))
        return;
    Span word = look_word(&k, place_of(r, &k));
    if (word.hi == word.lo || !look_definition(&k, word, &at)) {
        answer_null(r);
        return;
    }
    JsonOut *j = result_begin(r, &a);
    json_open(j, '{');
    json_member_str(j, "uri", uri_of(r));
    json_name(j, "range");
    look_range(&k, j, at);
    json_close(j, '}');
    message_end(&a, r->out);
}

static void completion(const Request *r) {
    Answer a;
    Look k;
    if (!asked(r, &k))
        return;
    look_completion(&k, place_of(r, &k), result_begin(r, &a));
    message_end(&a, r->out);
}

static void symbols(const Request *r) {
    Answer a;
    Look k;
    if (!asked(r, &k))
        return;
    look_symbols(&k, result_begin(r, &a));
    message_end(&a, r->out);
}

// One edit of the whole text; none where there is nothing to change, or the text does not parse.
static void formatting(const Request *r) {
    Answer a;
    Look k;
    if (!asked(r, &k))
        return;
    Front f;
    Text done = {.arena = r->perm};
    Str text = k.f.source.at[k.source - 1].text;
    front_init(&f, r->perm);
    uint32_t source = k.yaml ? 0 : front_add_source(&f, STR("document.gan"), text, false);
    if (!source || !fmt_source(&done, &f, source)) {
        answer_null(r);
        return;
    }
    JsonOut *j = result_begin(r, &a);
    json_open(j, '[');
    if (!str_eq(text_str(&done), text)) {
        json_open(j, '{');
        json_name(j, "range");
        look_range(&k, j, (Span){k.source, 0, (uint32_t)text.len});
        json_member_str(j, "newText", text_str(&done));
        json_close(j, '}');
    }
    json_close(j, ']');
    message_end(&a, r->out);
}

static void do_exit(const Request *r) {
    r->l->ended = true;
}

const Method lsp_methods[] = {
    {"initialize", true, true, initialize},
    {"shutdown", true, false, do_shutdown},
    {"exit", false, true, do_exit},
    {"textDocument/didOpen", false, false, did_open},
    {"textDocument/didChange", false, false, did_change},
    {"textDocument/didClose", false, false, did_close},
    {"textDocument/hover", true, false, hover},
    {"textDocument/definition", true, false, definition},
    {"textDocument/completion", true, false, completion},
    {"textDocument/documentSymbol", true, false, symbols},
    {"textDocument/formatting", true, false, formatting},
    {NULL, false, false, NULL},
};
