// lsp.c - messages of the Language Server Protocol. In: bytes, framed by Content-Length. Out: the
// same.
//
// A document is its text; every question about it reads and elaborates the text anew, in an arena
// that is emptied behind each message. Models are small: that takes milliseconds, and nothing can
// be out of date.
#include "lsp.h"

#include <math.h>
#include <string.h>

enum { MAX_MESSAGE = 64 << 20, MAX_HEADER = 4096, MAX_DOCUMENTS = 1000 };
enum { // JSON-RPC and the protocol's own
    ErrParse = -32700,
    ErrRequest = -32600,
    ErrMethod = -32601,
    ErrParams = -32602,
    ErrEarly = -32002,
};

typedef struct Document {
    char *uri, *text; // owned
    size_t uri_len, text_len;
} Document;

struct Lsp {
    Arena arena;        // emptied behind each message
    Document *document; // [documents], owned
    uint32_t documents;
    bool open, shutdown, ended;
};

typedef struct Request {
    Lsp *l;
    Arena *perm;
    const Json *id, *params; // id NULL: a notification, which is never answered
    Text *out;
} Request;

GanStatus lsp_open(Lsp **out) {
    Lsp *l = mem_alloc(sizeof *l);
    if (!l)
        return fail(GAN_ERR_MEMORY, "no memory for a language server");
    *l = (Lsp){0};
    GanStatus status = arena_init(&l->arena, 0);
    if (status != GAN_OK) {
        mem_free(l);
        return status;
    }
    *out = l;
    return GAN_OK;
}

void lsp_close(Lsp *l) {
    if (!l)
        return;
    for (uint32_t i = 0; i < l->documents; i++) {
        mem_free(l->document[i].uri);
        mem_free(l->document[i].text);
    }
    mem_free(l->document);
    arena_release(&l->arena);
    mem_free(l);
}

bool lsp_ended(const Lsp *l, int *exit_code) {
    *exit_code = l->shutdown ? 0 : 1;
    return l->ended;
}

// --- documents -----------------------------------------------------------------------------------

static Document *find_document(Lsp *l, Str uri) {
    for (uint32_t i = 0; i < l->documents; i++)
        if (str_eq((Str){l->document[i].uri, l->document[i].uri_len}, uri))
            return &l->document[i];
    return NULL;
}

static char *keep(Str s) {
    char *kept = mem_alloc(s.len + 1);
    if (kept && s.len)
        memcpy(kept, s.ptr, s.len);
    return kept;
}

// Without memory for it a document stays what it was.
static void set_document(Lsp *l, Str uri, Str text) {
    Document *d = find_document(l, uri);
    if (!d) {
        if (l->documents == MAX_DOCUMENTS)
            return;
        Document *grown = mem_realloc(l->document, (l->documents + 1) * sizeof *grown);
        if (!grown)
            return;
        l->document = grown;
        char *kept = keep(uri);
        if (!kept)
            return;
        d = &l->document[l->documents++];
        *d = (Document){.uri = kept, .uri_len = uri.len};
    }
    char *kept = keep(text);
    if (!kept)
        return;
    mem_free(d->text);
    d->text = kept;
    d->text_len = text.len;
}

static void drop_document(Lsp *l, Str uri) {
    Document *d = find_document(l, uri);
    if (!d)
        return;
    mem_free(d->uri);
    mem_free(d->text);
    *d = l->document[--l->documents];
}

static int hex_digit(char c) {
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

static Str path_of(Arena *a, Str uri) {
    Text t = {.arena = a};
    if (str_starts(uri, STR("file://")))
        uri = str_sub(uri, 7, uri.len);
    for (size_t i = 0; i < uri.len; i++) {
        int hi = i + 2 < uri.len ? hex_digit(uri.ptr[i + 1]) : -1;
        int lo = i + 2 < uri.len ? hex_digit(uri.ptr[i + 2]) : -1;
        bool coded = uri.ptr[i] == '%' && hi >= 0 && lo >= 0;
        text_char(&t, coded ? (char)(hi * 16 + lo) : uri.ptr[i]);
        i += coded ? 2 : 0;
    }
    return text_str(&t);
}

// --- looking -------------------------------------------------------------------------------------

static void look_at(Arena *perm, const Document *d, Look *out) {
    enum { BATCH = 32 };
    Str path = path_of(perm, (Str){d->uri, d->uri_len}), ext = path_ext(path);
    *out = (Look){.yaml = str_eq(ext, STR("yaml")) || str_eq(ext, STR("yml"))};
    Front *f = &out->f;
    front_init(f, perm);
    bool library = front_load_library(f); // first: it must not meet the text's mistakes
    Text text = {.arena = perm};
    text_put(&text, (Str){d->text, d->text_len});
    uint32_t source = front_add_source(f, path, text_str(&text), false);
    out->source = f->source.n;
    if (!source)
        return;
    const Ast *file = out->yaml ? parse_yaml(f, source) : parse_gan(f, source);
    out->file = file;
    if (!file || !library || diag_errors(f))
        return;
    Module *m = arena_new(perm, Module);
    facts_want(f);
    (void)elaborate(f, file, &(ElabOptions){.batch = BATCH}, m);
}

// --- answers -------------------------------------------------------------------------------------

static void send(Text *out, Str body) {
    text_fmt(out, "Content-Length: %zu\r\n\r\n", body.len);
    text_put(out, body);
}

typedef struct Answer {
    Text text;
    JsonOut json;
} Answer;

static JsonOut *message_begin(Answer *a, Arena *perm) {
    *a = (Answer){.text = {.arena = perm}};
    a->json = (JsonOut){.text = &a->text};
    json_open(&a->json, '{');
    json_name(&a->json, "jsonrpc");
    json_put_str(&a->json, STR("2.0"));
    return &a->json;
}

static void message_end(Answer *a, Text *out) {
    json_close(&a->json, '}');
    send(out, text_str(&a->text));
}

static void put_null(JsonOut *j) {
    json_put_double(j, NAN);
}

static void put_id(JsonOut *j, const Json *id) {
    json_name(j, "id");
    double x = json_number(id, 0);
    if (json_is_string(id))
        json_put_str(j, json_string(id, (Str){0}));
    else if (json_is_number(id) && x >= -1e15 && x <= 1e15)
        json_put_int(j, (int64_t)x);
    else
        put_null(j);
}

// What follows is written by the caller, one value, and ended by message_end.
static JsonOut *result_begin(const Request *r, Answer *a) {
    JsonOut *j = message_begin(a, r->perm);
    put_id(j, r->id);
    json_name(j, "result");
    return j;
}

static void answer_null(const Request *r) {
    Answer a;
    put_null(result_begin(r, &a));
    message_end(&a, r->out);
}

static void answer_error(const Request *r, int code, const char *message) {
    Answer a;
    JsonOut *j = message_begin(&a, r->perm);
    put_id(j, r->id);
    json_name(j, "error");
    json_open(j, '{');
    json_name(j, "code");
    json_put_int(j, code);
    json_name(j, "message");
    json_put_str(j, str_c(message));
    json_close(j, '}');
    message_end(&a, r->out);
}

// --- what is published ---------------------------------------------------------------------------

static void put_notes(JsonOut *j, const Look *k, Str uri, const DiagView *d) {
    json_name(j, "relatedInformation");
    json_open(j, '[');
    for (uint32_t i = 0; i < d->notes; i++) {
        if (d->note[i].span.file != k->source)
            continue; // the library is in no file of the editor's
        json_open(j, '{');
        json_name(j, "location");
        json_open(j, '{');
        json_name(j, "uri");
        json_put_str(j, uri);
        json_name(j, "range");
        look_range(k, j, d->note[i].span);
        json_close(j, '}');
        json_name(j, "message");
        json_put_str(j, d->note[i].text);
        json_close(j, '}');
    }
    json_close(j, ']');
}

static void put_diagnostic(JsonOut *j, Arena *perm, const Look *k, Str uri, const DiagView *d) {
    Span at = d->span.file == k->source ? d->span : (Span){k->source, 0, 0};
    json_open(j, '{');
    json_name(j, "range");
    look_range(k, j, at);
    json_name(j, "severity");
    json_put_int(j, d->error ? 1 : 2);
    json_name(j, "code");
    json_put_str(j, str_c(d->code));
    json_name(j, "source");
    json_put_str(j, STR("ganc"));
    json_name(j, "message");
    json_put_str(j, str_format(perm, "%.*s%s%.*s", SARG(d->message), d->help.len ? "\nhelp: " : "",
                               SARG(d->help)));
    put_notes(j, k, uri, d);
    json_close(j, '}');
}

// `d` NULL: the document is closed, nothing is wrong with it any more.
static void publish(const Request *r, Str uri, const Document *d) {
    Answer a;
    Look k;
    JsonOut *j = message_begin(&a, r->perm);
    json_name(j, "method");
    json_put_str(j, STR("textDocument/publishDiagnostics"));
    json_name(j, "params");
    json_open(j, '{');
    json_name(j, "uri");
    json_put_str(j, uri);
    json_name(j, "diagnostics");
    json_open(j, '[');
    if (d) {
        uint32_t n;
        look_at(r->perm, d, &k);
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
    json_name(j, "capabilities");
    json_open(j, '{');
    json_name(j, "textDocumentSync");
    json_put_int(j, 1); // whole texts
    static const char *const can[] = {"hoverProvider", "definitionProvider",
                                      "documentFormattingProvider", "documentSymbolProvider"};
    for (uint32_t i = 0; i < sizeof can / sizeof *can; i++) {
        json_name(j, can[i]);
        json_put_bool(j, true);
    }
    json_name(j, "completionProvider");
    json_open(j, '{');
    json_close(j, '}');
    json_close(j, '}');
    json_name(j, "serverInfo");
    json_open(j, '{');
    json_name(j, "name");
    json_put_str(j, STR("ganc"));
    json_name(j, "version");
    json_put_str(j, STR(GAN_VERSION));
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
    set_document(r->l, uri_of(r), json_string(text, (Str){0}));
    publish(r, uri_of(r), find_document(r->l, uri_of(r)));
}

static void did_change(const Request *r) {
    const Json *changes = json_get(r->params, "contentChanges");
    const Json *last = json_at(changes, json_count(changes) - 1), *text = json_get(last, "text");
    if (!json_is_string(text) || json_get(last, "range") || !find_document(r->l, uri_of(r)))
        return;
    set_document(r->l, uri_of(r), json_string(text, (Str){0}));
    publish(r, uri_of(r), find_document(r->l, uri_of(r)));
}

static void did_close(const Request *r) {
    if (!find_document(r->l, uri_of(r)))
        return;
    drop_document(r->l, uri_of(r));
    publish(r, uri_of(r), NULL);
}

// The document a request asks about; false after an answer.
static bool asked(const Request *r, Look *k) {
    const Document *d = find_document(r->l, uri_of(r));
    if (d)
        look_at(r->perm, d, k);
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
    json_name(j, "contents");
    json_open(j, '{');
    json_name(j, "kind");
    json_put_str(j, STR("markdown"));
    json_name(j, "value");
    json_put_str(j, what);
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
    json_name(j, "uri");
    json_put_str(j, uri_of(r));
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
        json_name(j, "newText");
        json_put_str(j, text_str(&done));
        json_close(j, '}');
    }
    json_close(j, ']');
    message_end(&a, r->out);
}

static void do_exit(const Request *r) {
    r->l->ended = true;
}

static const struct Method {
    const char *name;
    bool request, early; // answered; before `initialize` and after `shutdown` too
    void (*run)(const Request *r);
} methods[] = {
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
};

// --- messages ------------------------------------------------------------------------------------

static void run_method(const Request *r, Str name) {
    for (uint32_t i = 0; i < sizeof methods / sizeof *methods; i++) {
        if (!str_eq(str_c(methods[i].name), name))
            continue;
        bool ready = r->l->open && !r->l->shutdown;
        if (!ready && !methods[i].early) {
            if (r->id)
                answer_error(r, r->l->shutdown ? ErrRequest : ErrEarly,
                             r->l->shutdown ? "the server was shut down"
                                            : "`initialize` comes first");
        } else if (methods[i].request == (r->id != NULL)) {
            methods[i].run(r);
        } else if (r->id) {
            answer_error(r, ErrRequest, "a notification has no id");
        }
        return;
    }
    if (r->id) // what is not known and wants no answer is passed over
        answer_error(r, ErrMethod, "no such method");
}

static void run_message(Lsp *l, Arena scratch, Str body, Text *out) {
    const Json *message = NULL;
    Request r = {.l = l, .perm = &scratch, .out = out};
    if (json_parse(&scratch, body, STR("message"), &message) != GAN_OK) {
        answer_error(&r, ErrParse, gan_error());
        return;
    }
    const Json *method = json_get(message, "method");
    r.id = json_get(message, "id");
    r.params = json_get(message, "params");
    if (json_is_string(method))
        run_method(&r, json_string(method, (Str){0}));
    else if (!json_get(message, "result") && !json_get(message, "error")) // an answer to nothing
        answer_error(&r, ErrRequest, "a message has a `method`");
}

// Length of the message behind its header, or -1; *header bytes are the header.
static int64_t frame_length(Str bytes, size_t *header) {
    static const char field[] = "content-length:";
    int64_t length = -1;
    for (size_t at = 0; at < bytes.len;) {
        Str line = str_sub(bytes, at, bytes.len);
        size_t end = str_find(line, '\n');
        if (end == line.len)
            return -1;
        at += end + 1;
        line = str_sub(line, 0, end && line.ptr[end - 1] == '\r' ? end - 1 : end);
        *header = at;
        if (!line.len)
            return length;
        size_t n = 0;
        while (field[n] && n < line.len && (line.ptr[n] | 32) == (field[n] | 32))
            n++;
        if (field[n])
            continue;
        while (n < line.len && line.ptr[n] == ' ')
            n++;
        if (!str_to_int(str_sub(line, n, line.len), &length) || length < 0 || length > MAX_MESSAGE)
            length = -1;
    }
    return -1;
}

// Is the end of a header there? What is longer than a header gets is none.
static bool header_ends(Str bytes) {
    for (size_t i = 0; i + 1 < bytes.len && i < MAX_HEADER; i++)
        if (bytes.ptr[i] == '\n' &&
            (bytes.ptr[i + 1] == '\n' || (bytes.ptr[i + 1] == '\r' && i + 2 < bytes.len)))
            return true;
    return bytes.len >= MAX_HEADER;
}

bool lsp_take(Lsp *l, Str *bytes, Text *out) {
    size_t header = 0;
    if (l->ended || !header_ends(*bytes))
        return false;
    int64_t length = frame_length(*bytes, &header);
    if (length < 0) { // nothing says where the next message begins
        Request r = {.l = l, .perm = &(Arena){0}, .out = out};
        Arena scratch = l->arena;
        r.perm = &scratch;
        answer_error(&r, ErrParse, "a message begins with its Content-Length");
        l->ended = true;
        return true;
    }
    if (bytes->len - header < (size_t)length)
        return false;
    Str body = str_sub(*bytes, header, header + (size_t)length);
    run_message(l, l->arena, body, out);
    *bytes = str_sub(*bytes, header + (size_t)length, bytes->len);
    return true;
}
