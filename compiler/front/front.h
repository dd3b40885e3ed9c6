// front.h - text to syntax tree, and back: sources, diagnostics, trees.
//
//   .gan  --lex, parse-->  Ast  --elaborate (elab/)-->  Module
//   .yaml --libyaml------>  Ast
//
// A mistake in the user's text adds a diagnostic (a row of lang/diags.def) with a span, and
// compilation goes on. Up to twenty are kept, sorted by place, one per mistake. Nothing here
// prints.
#ifndef GAN_FRONT_H
#define GAN_FRONT_H

#include "ir.h" // Span

// --- src.c ---------------------------------------------------------------------------------------

typedef struct Source {
    Str name;           // path as the user gave it, or "std/layers.gan"
    Str text;           // valid UTF-8, checked on entry
    bool library;       // part of the embedded stdlib
    VEC(uint32_t) line; // byte offset of each line's start
} Source;
typedef struct LineCol {
    uint32_t line, col;
} LineCol; // 1-based; col counts code points

typedef struct Front { // one compilation; one thread at a time
    Arena *perm;
    VEC(Source) source; // Span.file - 1
    struct Diags *diags;
    VEC(struct Ast *) library; // AstFile of each embedded file, once front_load_library has run
    struct Facts *facts;       // values of names, for an editor (facts.c); NULL: not recorded
} Front;

void front_init(Front *f, Arena *perm);
// Adds a source; returns its number for spans (1-based), or 0 after a diagnostic (invalid UTF-8,
// binary, too large).
uint32_t front_add_source(Front *f, Str name, Str text, bool library);
LineCol source_line_col(const Source *s, uint32_t offset);
Str source_line(const Source *s, uint32_t line);
Str span_text(const Front *f, Span span);

// --- diag.c --------------------------------------------------------------------------------------

typedef enum DiagCode {
#define DIAG(Code, severity, message, help, explain) Diag##Code,
#include "diags.def"
#undef DIAG
    DiagCount
} DiagCode;

// Adds a diagnostic at `span`; arguments as the row's message asks (a format of printf). Further
// calls refine the newest one. A second diagnostic at the same place, or a follow-up of a poisoned
// value, is dropped.
void diag(Front *f, DiagCode code, Span span, ...);
bool diag_open(const Front *f); // whether the newest was kept, so that notes and help go to it
// Where the other side of a clash came from, printed with its line.
void diag_note(Front *f, Span span, const char *format, ...);
// Adds the note to all diagnostics since a mark.
uint32_t diag_mark(const Front *f);
void diag_note_since(Front *f, uint32_t mark, Span span, Str text);
void diag_help(Front *f, const char *format, ...); // replaces the row's help line
// The newest diagnostic's help: the nearest of `known`, or "WHAT are: " and all of them.
void diag_help_known(Front *f, Str word, const Str *known, uint32_t n, const char *what);
uint32_t diag_errors(const Front *f); // errors so far (warnings apart)
uint32_t diag_total(const Front *f);
// "model.gan:12:9: error[E0301]: ..." with line, caret, notes, help.
void diag_render(Text *t, Front *f, bool color);
void diag_render_json(Text *t, Front *f); // rustc's field names, one object a line
// The same form for what went wrong before there was a text, a file that is missing: its code is
// null.
void diag_json_failure(Text *t, const Front *f, Str message);
bool diag_explain(Text *t, Str code); // false: no such code

typedef struct DiagNote {
    Span span; // file 0: none
    Str text;
} DiagNote;
typedef struct DiagView { // one diagnostic; borrowed
    const char *code;
    bool error; // else a warning
    Span span;
    Str message, help;
    const DiagNote *note;
    uint32_t notes;
} DiagView;
const DiagView *diag_list(Front *f, uint32_t *n); // those kept, in the order they are rendered

// --- habits.c: help by the habits of other languages and libraries ------------------------------

// Help for what stands there, or empty: no habit.
Str word_habit(Str word);   // a word of another library or language
Str method_habit(Str word); // ... written as a method, `x.word`
Str call_habit(Str word);   // a function that was given other arguments than it takes
Str gives_habit(Str word);  // a function that gives less than elsewhere
Str asked_habit(Str word);  // a name that is an option of a run
Str key_habit(Str word);    // a key of a YAML model: the one that is meant
Str found_habit(Str sign);  // a sign where the parser expects another token

// --- ast.c, lex.c, parse.c, yaml.c, fmt.c --------------------------------------------------------

typedef enum AstKind {
    AstNone,
#define AST(Kind, text) Ast##Kind,
#include "ast.def"
#undef AST
    AstCount
} AstKind;

typedef struct Ast Ast;
struct Ast { // fields used by each kind: lang/ast.def
    AstKind kind;
    Span span; // the whole construct
    Span word; // where a caret goes: the name or operator
    Str text;
    double num;
    Ast *a, *b, *c;
    bool has_result; // Fn, Net: `->` was written; `list` holds the results, each an AstList of dims
    uint32_t height; // of the tree from here down; the parser limits it, so recursion over a tree
                     // is safe
    VEC(Ast *) list;
};

// The parts of a node, for what looks at all of a tree: a, b and c, then the list. Each may be
// NULL.
static inline uint32_t ast_parts(const Ast *a) {
    return 3 + a->list.n;
}
static inline const Ast *ast_part(const Ast *a, uint32_t i) {
    return i > 2 ? a->list.at[i - 3] : i == 0 ? a->a : i == 1 ? a->b : a->c;
}
bool ast_mentions(const Ast *a, Str name); // somewhere in it, as a Name; a may be NULL

// Parses a file (or, for YAML, a document) to AstFile; NULL only when nothing could be parsed.
// After errors the tree has holes, and is to be elaborated for its other errors only.
Ast *parse_gan(Front *f, uint32_t source);
Ast *parse_yaml(Front *f, uint32_t source);
// An expression inside a larger source (YAML scalars).
Ast *parse_expr(Front *f, uint32_t source, uint32_t lo, uint32_t hi);
Ast *parse_statements(Front *f, uint32_t source, uint32_t lo, uint32_t hi); // AstBlock
void ast_print(Text *t, const Ast *a); // `ganc emit --stage ast`: indented, one node a line
void tokens_print(Text *t, Front *f, uint32_t source); // `ganc emit --stage tokens`
// Canonical layout of a .gan file, comments kept. False when the file does not parse.
bool fmt_source(Text *t, Front *f, uint32_t source);
void ast_to_gan(Text *t, const Ast *file); // `ganc convert`
void ast_to_yaml(Text *t, const Ast *file);
void gan_string(Text *t, Str s); // in quotes, with escapes
// A number of the language, or of a setting: finite, and not above the largest literal there is.
bool gan_number(Str text, double *out);
Str yaml_key(uint32_t i); // keys of YAML models; empty past the last

// --- library.c -----------------------------------------------------------------------------------

// The library's files, embedded (stdlib/*.gan), always in scope; parsed once per Front.
bool front_load_library(Front *f);
// The same without parsing, into a new Front: `from` holds the library alone, and outlives it.
void front_share_library(Front *f, const Front *from);

#endif
