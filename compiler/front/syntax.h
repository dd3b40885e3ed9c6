// syntax.h - what the files of the syntax share: tokens, the lexer, and the parser's entry points
// for parts of a text. Private to this folder: others see front.h.
#ifndef GAN_SYNTAX_H
#define GAN_SYNTAX_H

#include "front.h"

// --- lex.c ---------------------------------------------------------------------------------------

typedef enum TokKind {
#define TOKEN(Kind, what) Tok##Kind,
#define SIGN(Kind, text, breaks) Tok##Kind,
#define WORD(Kind, text, breaks) Tok##Kind,
#include "tokens.def"
    TokCount
} TokKind;

typedef struct Token {
    TokKind kind;
    bool first;      // first on its line
    uint32_t lo, hi; // bytes of the source
    uint32_t indent; // bytes between the start of the line and the token
} Token;

typedef struct Lexer {
    Front *f;
    uint32_t file;
    Str text;         // of the whole source
    uint32_t at, end; // the range still to read
    uint32_t line;    // start of the current line
    bool fresh;       // no token on this line yet
    bool quiet;       // this line has had its diagnostic
} Lexer;

void lex_init(Lexer *l, Front *f, uint32_t file, uint32_t lo, uint32_t hi);
// The next token; comments are tokens too. TokEnd at the end, then for ever. What is no token adds
// a diagnostic and is TokBad, or the word that was meant.
Token lex_next(Lexer *l);
Str token_text(const Lexer *l, Token t);
bool token_is_word(TokKind kind);     // reserved
bool token_is_operator(TokKind kind); // between two operands
// Help where a statement was meant to go on.
#define GOES_ON "a statement goes on in the next line where its line ends in an operator or a comma"
const char *token_what(TokKind kind);   // "`|>`", "a name"
Str token_sign(TokKind kind);           // "|>", as the language writes it
bool token_breaks_after(TokKind kind);  // a line may end in it
bool token_breaks_before(TokKind kind); // the next line may begin with it
// What a string writes behind a backslash, and the letters it writes for them, in the same order.
// A carriage return is among them because YAML reads a plain one as a blank.
static const char escaped[] = "\"\\\n\t\r", escapes[] = "\"\\ntr";
Str string_contents(const Lexer *l, Token t); // between the quotes, escapes resolved

// --- parser.c, parse.c, parse_expr.c -------------------------------------------------------------

// After a mistake the parser sees only the end of the text (`panic`) until its statement has
// unwound; then it goes on at the next statement. So each mistake adds one diagnostic, and no
// function has to ask whether a part of it failed.
typedef struct Parser {
    Front *f;
    Lexer lex;
    Token tok, ahead; // the next two tokens
    Token before;     // the one taken last
    Token held;       // in panic: what tok was
    bool panic;
    bool broken;   // tok begins a line that ends the statement
    bool flat;     // inside ( or [: the ends of lines mean nothing
    bool stopped;  // nothing more is worth saying about what is open
    bool unopened; // a line ended without its `{`: a `}` that closes nothing follows from that
    bool astray;   // blocks do not match, or text was left out: what follows may belong elsewhere
    Token bracket; // the innermost open bracket
    const char *form; // how the statement being read looks; NULL: it has no form of its own
    uint32_t indent;  // of the statement being read
    uint32_t depth;   // of recursion
    VEC(Token) bound; // names taken so far that their statements seem to bind
} Parser;

void parser_init(Parser *p, Front *f, uint32_t file, uint32_t lo, uint32_t hi);
void parser_next(Parser *p);                       // takes the next token
void parser_fail(Parser *p, const char *expected); // "expected ..., found ..." and panic
void parser_panic(Parser *p);                      // after a diagnostic
Ast *parser_refuse(Parser *p, DiagCode code);   // a diagnostic of the next token, and panic; NULL
void parser_not_ended(Parser *p, const Ast *a); // ... of what follows the statement a on its line
// After a panic in the statement at `start`: skips to the next one.
void parser_recover(Parser *p, Token start);
void parser_stop(Parser *p); // ... behind which nothing is read: for texts that are no models
void parser_need(Parser *p, TokKind kind); // takes a `kind`, or fails
bool parser_enter(Parser *p);              // one level deeper, or false after a diagnostic
Span parser_span(const Parser *p, Token t);

static inline bool at(const Parser *p, TokKind kind) {
    return p->tok.kind == kind && !p->broken;
}
static inline bool take(Parser *p, TokKind kind) {
    bool there = at(p, kind);
    if (there)
        parser_next(p);
    return there;
}
static inline bool at_end(const Parser *p) { // the statement ends here
    return p->broken || p->tok.kind == TokSemi || p->tok.kind == TokRBrace || p->tok.kind == TokEnd;
}

typedef struct Bracket {
    Token outer;
    bool flat;
} Bracket;
Bracket bracket_open(Parser *p, TokKind kind);    // takes ( [ or {
bool bracket_ends(const Parser *p, TokKind kind); // at its partner, or where it must be missing
bool at_item(const Parser *p); // at the first word of a statement of the top level
// Takes the partner of an open bracket.
void bracket_close(Parser *p, TokKind kind, Bracket outer, const char *expected);

void bracket_never_closed(Parser *p, Token found); // the innermost one; the diagnostic

Ast *ast_start(Parser *p, AstKind kind); // a node beginning at the next token, which is its word
// The same, beginning at the node `first`; the next token is its word.
Ast *ast_wrap(Parser *p, AstKind kind, const Ast *first);
Ast *ast_done(Parser *p, Ast *a);            // it ends at the token taken last
void ast_add(Parser *p, Ast *a, Ast *child); // to its list

// The grammar's rules of the same names (lang/grammar.ebnf) that more than one file reads.
Ast *read_name(Parser *p);               // one NAME
void read_names(Parser *p, Ast *into);   // NAME { "," NAME }
void read_targets(Parser *p, Ast *into); // of a list's values: Name, and one Rest at most
void read_nets(Parser *p, Ast *into);
Ast *read_expr(Parser *p);
Ast *read_postfix(Parser *p);
Ast *read_list(Parser *p);
Ast *read_params(Parser *p);
Ast *read_parameter(Parser *p);                 // one of them
void refuse_twice(Front *f, const Ast *params); // a diagnostic for each name that is there already
void read_result(Parser *p, Ast *into);         // if there is one
Ast *read_block(Parser *p);
void read_words(Parser *p, Ast *field); // word { word }, of a data field

// --- convert.c: trees as text --------------------------------------------------------------------

static inline void text_blanks(Text *t, uint32_t n) {
    while (n--)
        text_char(t, ' ');
}
void gan_expr(Text *t, const Ast *a);    // on one line
void gan_names(Text *t, const Ast *a);   // "a, ...rest": of its list
void gan_params(Text *t, const Ast *a);  // "(x: [n], c=3)"
void gan_result(Text *t, const Ast *fn); // " -> [3]", or nothing
// The lines of a statement, the first without its indentation.
void gan_statement(Text *t, const Ast *a, uint32_t indent);
void gan_statements(Text *t, const Ast *block, uint32_t indent); // each on its own line, indented

#endif
