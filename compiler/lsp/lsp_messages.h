// lsp_messages.h - inside the language server: documents, requests and replies.
#ifndef GAN_LSP_MESSAGES_H
#define GAN_LSP_MESSAGES_H

#include "lsp.h"

enum { // JSON-RPC and the protocol's own
    ErrParse = -32700,
    ErrRequest = -32600,
    ErrMethod = -32601,
    ErrParams = -32602,
    ErrEarly = -32002,
};

typedef struct Document {
    char *uri, *text, *good; // owned; good: the last text before this one without errors, or NULL
    size_t uri_len, text_len, good_len;
    bool sound; // this text has no errors
} Document;

struct Lsp {
    Arena arena;        // the library; what else is in it is dropped behind each message
    Front library;      // parsed once, for all documents
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

typedef struct Answer {
    Text text;
    JsonOut json;
} Answer;

// --- lsp.c ---------------------------------------------------------------------------------------

Document *document_find(Lsp *l, Str uri);     // NULL when it is not open
void document_set(Lsp *l, Str uri, Str text); // opened, or its text replaced
void document_drop(Lsp *l, Str uri);

// A message: begun, then members written, then ended, which sends it.
JsonOut *message_begin(Answer *a, Arena *perm);
void message_end(Answer *a, Text *out);
JsonOut *result_begin(const Request *r, Answer *a); // one that answers `r`; its value comes next
void answer_null(const Request *r);
void answer_error(const Request *r, int code, const char *message);

// --- lsp_methods.c -------------------------------------------------------------------------------

typedef struct Method {
    const char *name;    // NULL: the end of the table
    bool request, early; // answered; before `initialize` and after `shutdown` too
    void (*run)(const Request *r);
} Method;
extern const Method lsp_methods[];

#endif
