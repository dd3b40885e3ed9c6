// lsp.c - messages of the Language Server Protocol. In: bytes, framed by Content-Length. Out: the
// same.
#include "lsp_messages.h"

#include <math.h>
#include <string.h>

enum { MAX_MESSAGE = 64 << 20, MAX_HEADER = 4096, MAX_DOCUMENTS = 1000 };

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
    front_init(&l->library, &l->arena);
    if (!front_load_library(&l->library))
        bug("the library does not parse");
    *out = l;
    return GAN_OK;
}

void lsp_close(Lsp *l) {
    if (!l)
        return;
    for (uint32_t i = 0; i < l->documents; i++) {
        mem_free(l->document[i].uri);
        mem_free(l->document[i].text);
        mem_free(l->document[i].good);
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

Document *document_find(Lsp *l, Str uri) {
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
void document_set(Lsp *l, Str uri, Str text) {
    Document *d = document_find(l, uri);
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
    char **old = d->sound ? &d->good : &d->text;
    mem_free(*old);
    if (d->sound) {
        d->good = d->text;
        d->good_len = d->text_len;
    }
    d->text = kept;
    d->text_len = text.len;
    d->sound = false; // until it is looked at
}

void document_drop(Lsp *l, Str uri) {
    Document *d = document_find(l, uri);
    if (!d)
        return;
    mem_free(d->uri);
    mem_free(d->text);
    mem_free(d->good);
    *d = l->document[--l->documents];
}

// --- answers -------------------------------------------------------------------------------------

static void send(Text *out, Str body) {
    text_fmt(out, "Content-Length: %zu\r\n\r\n", body.len);
    text_put(out, body);
}

JsonOut *message_begin(Answer *a, Arena *perm) {
    *a = (Answer){.text = {.arena = perm}};
    a->json = (JsonOut){.text = &a->text};
    json_open(&a->json, '{');
    json_member_str(&a->json, "jsonrpc", STR("2.0"));
    return &a->json;
}

void message_end(Answer *a, Text *out) {
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
JsonOut *result_begin(const Request *r, Answer *a) {
    JsonOut *j = message_begin(a, r->perm);
    put_id(j, r->id);
    json_name(j, "result");
    return j;
}

void answer_null(const Request *r) {
    Answer a;
    put_null(result_begin(r, &a));
    message_end(&a, r->out);
}

void answer_error(const Request *r, int code, const char *message) {
    Answer a;
    JsonOut *j = message_begin(&a, r->perm);
    put_id(j, r->id);
    json_member_open(j, "error", '{');
    json_member_int(j, "code", code);
    json_member_str(j, "message", str_c(message));
    json_close(j, '}');
    message_end(&a, r->out);
}

// --- messages ------------------------------------------------------------------------------------

static void run_method(const Request *r, Str name) {
    for (uint32_t i = 0; lsp_methods[i].name; i++) {
        if (!str_eq(str_c(lsp_methods[i].name), name))
            continue;
        bool ready = r->l->open && !r->l->shutdown;
        if (!ready && !lsp_methods[i].early) {
            if (r->id)
                answer_error(r, r->l->shutdown ? ErrRequest : ErrEarly,
                             r->l->shutdown ? "the server was shut down"
                                            : "`initialize` comes first");
        } else if (lsp_methods[i].request == (r->id != NULL)) {
            lsp_methods[i].run(r);
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
