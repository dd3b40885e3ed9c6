// words.h - the tokenizer of the text forms of modules and plans, a line at a time.
//
// The text is untrusted: every number is checked against bounds. A function that returns false has
// set *error to "line N: ...", and the reader stops. A `#` outside quotes begins a comment.
#ifndef GAN_WORDS_H
#define GAN_WORDS_H

#include "ir.h"

enum { WORDS_EXTENT = INT32_MAX }; // the largest extent, batch and number of classes

typedef struct Words {
    Arena *perm;     // texts and messages live here
    Str line;        // being read
    size_t at;       // in line
    uint32_t number; // of the line, from 1
    Str *error;      // set on the first mistake
} Words;

bool words_line(Words *w, Str *text); // takes the next line off `text`; false at its end
bool words_refuse(Words *w, const char *format, ...); // sets *error; false
char words_peek(Words *w);                            // next character behind blanks, 0 at the end
bool words_end(Words *w);                             // only a comment follows, or nothing
Str words_next(Words *w);                             // letters, digits, _; may be empty

bool words_try(Words *w, char c);
// These fail where the text has something else.
bool words_char(Words *w, char c);
bool words_word(Words *w, const char *text);
bool words_one_of(Words *w, const char *const *text, uint32_t n, uint32_t *out); // its index
#define WORDS_ONE_OF(w, table, out)                                                                \
    words_one_of((w), (table), sizeof(table) / sizeof *(table), (out))
bool words_double(Words *w, double *out);
bool words_int(Words *w, int64_t least, int64_t most, int64_t *out);
bool words_index(Words *w, uint32_t *out);                   // 0 .. NONE - 1
bool words_field(Words *w, const char *name, uint32_t *out); // "name 12"
bool words_quoted(Words *w, Str *out);                       // "text", \xHH undone
bool words_extents(Words *w, bool may_batch, Type *out);     // "[3, 64, 64]"; "[B, 8, 64', 64]"
bool words_type(Words *w, Type *out);                        // "f32 [B, 3, 64, 64]"
bool words_span(Words *w, Span *s);                          // " span=1:10-20", or nothing
bool words_place(Words *w, Span *s);                         // "1:10-20"

#endif
