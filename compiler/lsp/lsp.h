// lsp.h - `ganc lsp`: a language server for editors (Language Server Protocol 3.17).
//
//   lsp.c          messages in, messages out; documents
//   lsp_methods.c  requests and notifications; published diagnostics
//   lsp_look.c     names at a position: hover, definition, completion, symbols
//   lsp_lines.c    which lines of a text are still there in a later one
//
// Nothing here does I/O: main.c moves the bytes. Texts are incomplete most of the time, and the
// client is not trusted: no input but `exit` ends the server.
#ifndef GAN_LSP_H
#define GAN_LSP_H

#include "elaborate.h"

typedef struct Lsp Lsp; // one thread at a time

GanStatus lsp_open(Lsp **out);
void lsp_close(Lsp *l); // accepts NULL
// Takes the first message off `*bytes`; its answers, ready to be sent, are added to `out`. False
// when no whole message is there.
bool lsp_take(Lsp *l, Str *bytes, Text *out);
bool lsp_ended(const Lsp *l, int *exit_code); // `exit` came

// --- lsp_look.c ----------------------------------------------------------------------------------

typedef struct Look Look;
struct Look { // a document, read and elaborated as far as it goes
    Front f;
    uint32_t source;
    const Ast *file; // NULL: nothing could be made of it
    bool yaml;
    bool parsed; // the tree is whole
    bool sound;  // ... and has no errors
    // Of a text with errors: the document's last text without any, for what the present one does
    // not tell. NULL: there was none.
    Look *before;
    const uint32_t *kept; // [lines + 1] line of `before` that a line is still, from 1; 0: it is new
};

// The byte at a line and column as editors count: from 0, columns in units of UTF-16. Clamped.
uint32_t look_offset(const Look *k, int64_t line, int64_t column);
void look_range(const Look *k, JsonOut *j, Span span); // {"start": ..., "end": ...}
Span look_word(const Look *k, uint32_t at);            // the name at a byte; empty: none
// Markdown about the name at `word`; empty when nothing is known.
Str look_hover(Look *k, Span word);
bool look_definition(Look *k, Span word, Span *out);
void look_completion(Look *k, uint32_t at, JsonOut *j); // an array of items
void look_symbols(Look *k, JsonOut *j);                 // an array, in the order of the text

// --- lsp_lines.c ---------------------------------------------------------------------------------

// For each line of `now`, counted from 1, the line of `before` that it is; 0: it is new.
const uint32_t *lines_kept(Arena *perm, const Source *before, const Source *now);

#endif
