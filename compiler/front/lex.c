// lex.c - in: a range of a source. Out: tokens, comments included, each with a flag for the first
// of its line. The words and signs, and where a line may break, are in lang/tokens.def. Tokens are
// produced on demand, so memory is not proportional to a source the parser has not accepted.
#include "syntax.h"

#include <string.h>

enum { NEITHER = 0, AFTER = 1, BEFORE = 2, BOTH = 3 };

typedef struct Row {
    const char *text;
    uint8_t length, breaks;
    const char *what;
} Row;
#define LENGTH(text) (uint8_t)(sizeof(text) - 1)

static const Row token_row[TokCount] = {
#define TOKEN(Kind, what) [Tok##Kind] = {"", 0, NEITHER, what},
#define SIGN(Kind, text, breaks) [Tok##Kind] = {text, LENGTH(text), breaks, "`" text "`"},
#define WORD(Kind, text, breaks) [Tok##Kind] = {text, LENGTH(text), breaks, "`" text "`"},
#include "tokens.def"
};

static const struct {
    const char *text;
    uint8_t length;
    const char *instead;
} foreign[] = {
#define FOREIGN(text, instead) {text, LENGTH(text), instead},
#include "tokens.def"
};

const char *token_what(TokKind kind) {
    return token_row[kind].what;
}
Str token_sign(TokKind kind) {
    return (Str){token_row[kind].text, token_row[kind].length};
}
bool token_is_word(TokKind kind) {
    return kind >= TokAnd && kind <= TokEach;
}
bool token_is_operator(TokKind kind) {
    return kind >= TokEq && kind <= TokPower && kind != TokBind;
}
bool token_breaks_after(TokKind kind) {
    return token_row[kind].breaks & AFTER;
}
bool token_breaks_before(TokKind kind) {
    return token_row[kind].breaks & BEFORE;
}
Str token_text(const Lexer *l, Token t) {
    return str_sub(l->text, t.lo, t.hi);
}

void lex_init(Lexer *l, Front *f, uint32_t file, uint32_t lo, uint32_t hi) {
    *l = (Lexer){.f = f, .file = file, .at = lo, .end = hi, .fresh = true};
    l->text = f->source.at[file - 1].text;
    while (lo > 0 && l->text.ptr[lo - 1] != '\n')
        lo--;
    l->line = lo;
}

static bool is_digit(char c) {
    return c >= '0' && c <= '9';
}
static bool is_letter(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}
static char char_at(const Lexer *l, uint32_t i) {
    return i < l->end ? l->text.ptr[i] : 0;
}

// A mistake in bytes [lo, at); false when the line has had its diagnostic.
static bool report(const Lexer *l, DiagCode code, uint32_t lo) {
    if (!l->quiet)
        diag(l->f, code, (Span){l->file, lo, l->at}, SARG(str_sub(l->text, lo, l->at)));
    return !l->quiet;
}

// Length of a character that is seen as a blank, or not at all; 0: it is none.
static uint32_t match_blank(const Lexer *l, const char **name) {
    static const struct {
        const char *text, *name;
    } blanks[] = {
#define BLANK(text, name) {text, name},
#include "tokens.def"
    };
    for (size_t i = 0; (unsigned char)l->text.ptr[l->at] >= 0x80; i++) {
        if (i == sizeof blanks / sizeof *blanks)
            return 0;
        uint32_t n = (uint32_t)strlen(blanks[i].text);
        *name = blanks[i].name;
        if (n <= l->end - l->at && !memcmp(l->text.ptr + l->at, blanks[i].text, n))
            return n;
    }
    return 0;
}

static void skip_blank(Lexer *l) {
    for (; l->at < l->end; l->at++) {
        char c = l->text.ptr[l->at];
        const char *name;
        uint32_t lo = l->at, blank = match_blank(l, &name);
        if (c == '\n') {
            l->line = l->at + 1;
            l->fresh = true;
            l->quiet = false;
        } else if (blank) {
            l->at += blank;
            if (report(l, DiagE0101, lo))
                diag_help(l->f, "this is %s: write a plain blank", name);
            l->quiet = true; // there are more of them
            l->at--;
        } else if (c != ' ' && c != '\t' && c != '\r')
            return;
    }
}

// Most rows that a text is compared with differ from it in the first byte.
static bool same_text(const char *at, const char *row, size_t n) {
    return *at == *row && !memcmp(at, row, n);
}

// Length of the longest sign at the lexer's place, 0 when none.
static uint32_t match_sign(const Lexer *l, TokKind *out) {
    uint32_t best = 0;
    for (TokKind k = TokDots; k <= TokRBrace; k++) {
        uint32_t n = token_row[k].length;
        bool there = n <= l->end - l->at && same_text(l->text.ptr + l->at, token_row[k].text, n);
        if (!there || n <= best)
            continue;
        best = n;
        *out = k;
    }
    return best;
}

static const char *match_foreign(const Lexer *l, uint32_t *length) {
    const char *instead = NULL;
    *length = 0;
    for (size_t i = 0; i < sizeof foreign / sizeof *foreign; i++) {
        uint32_t n = foreign[i].length;
        if (n <= *length || n > l->end - l->at ||
            !same_text(l->text.ptr + l->at, foreign[i].text, n))
            continue;
        *length = n;
        instead = foreign[i].instead;
    }
    return instead;
}

static TokKind word_kind(Str word) {
    for (TokKind k = TokAnd; k < TokCount; k++)
        if (word.len == token_row[k].length && same_text(word.ptr, token_row[k].text, word.len))
            return k;
    return TokName;
}

static TokKind lex_name(Lexer *l) {
    uint32_t lo = l->at;
    while (is_letter(char_at(l, l->at)) || is_digit(char_at(l, l->at)))
        l->at++;
    return word_kind(str_sub(l->text, lo, l->at));
}

bool gan_number(Str text, double *out) {
    return str_to_double(text, out) && *out >= -1e300 && *out <= 1e300;
}

static TokKind lex_number(Lexer *l) {
    uint32_t lo = l->at;
    while (is_digit(char_at(l, l->at)))
        l->at++;
    if (char_at(l, l->at) == '.' && is_digit(char_at(l, l->at + 1)))
        for (l->at++; is_digit(char_at(l, l->at));)
            l->at++;
    if ((char_at(l, l->at) | 32) == 'e') {
        uint32_t sign = char_at(l, l->at + 1) == '+' || char_at(l, l->at + 1) == '-';
        if (is_digit(char_at(l, l->at + 1 + sign)))
            for (l->at += 1 + sign; is_digit(char_at(l, l->at));)
                l->at++;
    }
    bool good = !is_letter(char_at(l, l->at)) && l->text.ptr[lo] != '.';    // not `.5`
    if (char_at(l, l->at) == '.' && char_at(l, l->at + 1) != '.' && good) { // nor `8.`
        l->at++;
        good = false;
    }
    while (is_letter(char_at(l, l->at)) || is_digit(char_at(l, l->at)))
        l->at++;
    double value;
    Str text = str_sub(l->text, lo, l->at);
    if (!good)
        report(l, DiagE0104, lo);
    else if (!gan_number(text, &value) && report(l, DiagE0104, lo))
        diag_help(l->f, "it is too large: numbers go up to 1e300");
    return TokNum;
}

static TokKind lex_string(Lexer *l) {
    uint32_t lo = l->at++;
    for (; char_at(l, l->at) != '"'; l->at++) {
        if (char_at(l, l->at) == '\\' && char_at(l, l->at + 1) != '\n')
            l->at++;
        if (l->at < l->end && l->text.ptr[l->at] != '\n')
            continue;
        if (l->at > l->end)
            l->at = l->end;
        report(l, DiagE0102, lo);
        return TokBad;
    }
    l->at++;
    return TokStr;
}

static TokKind lex_comment(Lexer *l) {
    while (l->at < l->end && l->text.ptr[l->at] != '\n')
        l->at++;
    while (l->text.ptr[l->at - 1] == '\r' || l->text.ptr[l->at - 1] == ' ' ||
           l->text.ptr[l->at - 1] == '\t')
        l->at--;
    return TokComment;
}

// `a//b` in one word is a quotient; anything else is a comment.
static bool is_quotient(const Lexer *l, uint32_t lo) {
    return lo > 0 && (unsigned char)l->text.ptr[lo - 1] > ' ' && char_at(l, lo) == '/' &&
           char_at(l, lo + 1) == '/' && (unsigned char)char_at(l, lo + 2) > ' ';
}

static Str name_at(const Lexer *l, uint32_t at) {
    uint32_t from = at;
    while (is_letter(char_at(l, at)) || is_digit(char_at(l, at)))
        at++;
    return str_sub(l->text, from, at);
}

// Help for `x.name`; of `torch.fft.fft2` the last name counts.
static void help_method(Lexer *l) {
    Str name = name_at(l, l->at), habit = method_habit(name);
    for (uint32_t at = l->at + (uint32_t)name.len;
         char_at(l, at) == '.' && is_letter(char_at(l, at + 1)); at += (uint32_t)name.len) {
        name = name_at(l, ++at);
        habit = method_habit(name).len ? method_habit(name) : habit;
    }
    if (habit.len)
        diag_help(l->f, "%.*s", SARG(habit));
    else if (name.len && is_letter(name.ptr[0]))
        diag_help(l->f, "write `%.*s(x)` or `x |> %.*s`", SARG(name), SARG(name));
    else
        diag_help(l->f, "write `f(x)` or `x |> f`");
}

// Something the language does not have. A habit of another language is read as what it means here.
static TokKind lex_foreign(Lexer *l, const char *instead, uint32_t length) {
    uint32_t lo = l->at;
    l->at += length;
    if (!instead) { // one diagnostic for a run of them
        TokKind ignored;
        while (l->at < l->end && !is_letter(l->text.ptr[l->at]) && !is_digit(l->text.ptr[l->at]) &&
               (unsigned char)l->text.ptr[l->at] > ' ' && !strchr("#\"", l->text.ptr[l->at]) &&
               !match_sign(l, &ignored))
            l->at++;
        if (report(l, DiagE0101, lo) && (unsigned char)l->text.ptr[lo] >= 0x80)
            diag_help(l->f,
                      "names and operators are ASCII; other characters, seen or unseen, stand "
                      "in strings and comments");
        else if (l->text.ptr[lo] == '\\')
            diag_help(l->f, GOES_ON);
        return TokBad;
    }
    if (report(l, DiagE0101, lo)) {
        if (str_starts(str_sub(l->text, lo, l->end), STR("//")))
            diag_help(l->f, "a comment begins with #; a whole quotient is floor(a/b)");
        else if (l->text.ptr[lo] == '.')
            help_method(l);
        else
            diag_help(l->f, "write `%s`", instead);
    }
    if (is_quotient(l, lo))
        return TokOver;
    if (!strcmp(instead, "#"))
        return lex_comment(l);
    if (!strcmp(instead, "\"")) {
        while (l->at < l->end && l->text.ptr[l->at] != '\n' &&
               l->text.ptr[l->at] != l->text.ptr[lo])
            l->at++;
        if (char_at(l, l->at) == l->text.ptr[lo])
            l->at += length;
        return TokStr;
    }
    for (TokKind k = TokDots; k < TokCount; k++)
        if (!strcmp(token_row[k].text, instead))
            return k;
    return TokBad;
}

static TokKind lex_token(Lexer *l) {
    char c = l->text.ptr[l->at];
    if (is_letter(c))
        return lex_name(l);
    if (is_digit(c) || (c == '.' && is_digit(char_at(l, l->at + 1))))
        return lex_number(l);
    if (c == '"')
        return lex_string(l);
    if (c == '#')
        return lex_comment(l);
    TokKind kind = TokBad;
    uint32_t length, sign = match_sign(l, &kind);
    const char *instead = match_foreign(l, &length);
    if (length > sign || !sign)
        return lex_foreign(l, instead, length ? length : 1);
    l->at += sign;
    return kind;
}

Token lex_next(Lexer *l) {
    skip_blank(l);
    Token t = {.first = l->fresh, .lo = l->at, .indent = l->at - l->line};
    t.kind = l->at < l->end ? lex_token(l) : TokEnd;
    t.hi = l->at;
    l->fresh = false;
    return t;
}

Str string_contents(const Lexer *l, Token token) {
    Front *f = l->f;
    char quote =
        l->text.ptr[token.lo]; // another than `"` had its diagnostic, and may not be closed
    uint32_t width = (unsigned char)quote < 0x80 ? 1 : 3, file = l->file, lo = token.lo + width,
             hi = token.hi;
    if (hi >= lo + width && l->text.ptr[hi - width] == quote)
        hi -= width;
    Str raw = str_sub(l->text, lo, hi);
    if (str_find(raw, '\\') == raw.len)
        return raw;
    Text t = {.arena = f->perm};
    for (size_t i = 0; i < raw.len; i++) {
        if (raw.ptr[i] != '\\') {
            text_char(&t, raw.ptr[i]);
            continue;
        }
        const char *escape = ++i < raw.len ? memchr(escapes, raw.ptr[i], sizeof escapes - 1) : NULL;
        if (escape)
            text_char(&t, escaped[escape - escapes]);
        else
            diag(f, DiagE0106, (Span){file, lo + (uint32_t)i - 1, lo + (uint32_t)i + 1},
                 SARG(str_sub(raw, i, i + 1)));
    }
    return text_str(&t);
}

void tokens_print(Text *t, Front *f, uint32_t source) {
    Lexer l;
    const Source *s = &f->source.at[source - 1];
    LineCol at = {1, 1};
    uint32_t counted = 0; // bytes before `at`: counted on within a line, for lines may be long
    lex_init(&l, f, source, 0, (uint32_t)s->text.len);
    for (;;) {
        Token tok = lex_next(&l);
        if (tok.first || tok.kind == TokEnd)
            at = source_line_col(s, tok.lo);
        else
            at.col += str_code_points(str_sub(s->text, counted, tok.lo));
        counted = tok.lo;
        text_fmt(t, "%u:%u %s", at.line, at.col, tok.first && tok.kind != TokEnd ? "first " : "");
        text_put(t, str_c(token_what(tok.kind)));
        if (token_row[tok.kind].length == 0 && tok.kind != TokEnd) {
            text_char(t, ' ');
            text_put(t, token_text(&l, tok));
        }
        text_char(t, '\n');
        if (tok.kind == TokEnd)
            return;
    }
}
