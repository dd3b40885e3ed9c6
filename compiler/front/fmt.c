// fmt.c - in: a .gan file that parses. Out: its tokens and comments in the canonical layout. Line
// breaks are the author's; indentation and the blanks between tokens are the formatter's, except
// that tokens of neighbouring lines which the author aligned stay aligned. Formatting is
// idempotent.
#include "syntax.h"

#include <stdlib.h>

enum { STEP = 2, COMMENT_GAP = 4, DOC_GAP = 3 };

typedef struct Cell { // a token and where it goes
    Token tok;
    uint32_t column; // in the source, in code points
    uint32_t width;  // in code points
    uint32_t gap;    // blanks before it, before alignment
    uint32_t pad;    // ... and further ones for it
    uint32_t line;   // of the source, 1-based
    bool by_hand;    // more blanks before it than the layout wants
    bool grouped;
} Cell;

typedef struct Line {
    uint32_t first, n; // cells
    uint32_t indent;
    bool blank;              // an empty line before it
    bool hangs;              // only a comment, under the trailing comment of the line before
    uint32_t summed, column; // align: the first cell not yet passed, and the column it starts at
} Line;

typedef struct Layout {
    Front *f;
    Lexer lex;
    const Source *source;
    VEC(Cell) cell;
    VEC(Line) line;
} Layout;

// --- words and blanks ----------------------------------------------------------------------------

static bool ends_operand(TokKind k) {
    return k == TokName || k == TokNum || k == TokStr || k == TokRParen || k == TokRSquare ||
           k == TokRBrace;
}

static bool opens(TokKind k) {
    return k == TokLParen || k == TokLSquare || k == TokLBrace;
}
static bool closes(TokKind k) {
    return k == TokRParen || k == TokRSquare || k == TokRBrace;
}

// The author says whether a product is tight: `2*x` and `2 * x` both read well.
static bool is_tight(const Layout *o, uint32_t i) {
    TokKind k = o->cell.at[i].tok.kind;
    if (k != TokTimes && k != TokOver && k != TokMod)
        return k == TokPower;
    bool before = i && o->cell.at[i].tok.lo > o->cell.at[i - 1].tok.hi;
    return !before && i + 1 < o->cell.n && o->cell.at[i + 1].tok.lo == o->cell.at[i].tok.hi;
}

static bool is_sign(const Layout *o, uint32_t i) { // a minus of one operand
    return o->cell.at[i].tok.kind == TokMinus &&
           (i == 0 || !ends_operand(o->cell.at[i - 1].tok.kind));
}

static bool in_config(const Layout *o) {
    Token first = o->cell.at[o->line.at[o->line.n - 1].first].tok;
    return str_eq(token_text(&o->lex, first), STR("config"));
}

// Whether the `=` of cell i stands behind a parameter's type, `lr: [] = 1e-3`, where it has blanks.
static bool behind_type(const Layout *o, uint32_t i) {
    uint32_t depth = 0;
    while (i-- > 0) {
        TokKind k = o->cell.at[i].tok.kind;
        if (depth == 0 && (k == TokColon || k == TokComma || opens(k)))
            return k == TokColon;
        depth += closes(k);
        depth -= opens(k);
    }
    return false;
}

// Blanks between cells i - 1 and i of one line; `inside` is the innermost open bracket.
static uint32_t blanks(const Layout *o, uint32_t i, TokKind inside) {
    TokKind a = o->cell.at[i - 1].tok.kind, b = o->cell.at[i].tok.kind;
    if (b == TokComment)
        return COMMENT_GAP;
    if (b == TokStr && ends_operand(a) && in_config(o))
        return DOC_GAP;
    if (b == TokComma || b == TokSemi || b == TokRParen || b == TokRSquare)
        return 0;
    if (a == TokLParen || a == TokLSquare || a == TokDots || is_sign(o, i - 1))
        return 0;
    if ((b == TokLParen || b == TokLSquare) && ends_operand(a) && a != TokStr)
        return 0;
    if (a == TokLBrace && b == TokRBrace)
        return 0;
    if (is_tight(o, i) || is_tight(o, i - 1))
        return 0;
    if (inside == TokLParen && (a == TokBind || b == TokBind))
        return behind_type(o, a == TokBind ? i - 1 : i);
    if (inside == TokLParen && b == TokColon)
        return 0;
    if (inside == TokLSquare && (a == TokColon || (b == TokColon && a != TokComma)))
        return 0;
    return 1;
}

static uint32_t width_of(const Layout *o, uint32_t lo, uint32_t hi) {
    return str_code_points(str_sub(o->source->text, lo, hi));
}

static void read_cells(Layout *o) {
    for (;;) {
        Token t = lex_next(&o->lex);
        if (t.kind == TokEnd)
            return;
        Cell c = {.tok = t, .width = width_of(o, t.lo, t.hi)};
        if (t.first || !o->cell.n) {
            c.line = source_line_col(o->source, t.lo).line;
            c.column = width_of(o, t.lo - t.indent, t.lo);
        } else { // counted on from the cell before, for lines may be long
            Cell before = o->cell.at[o->cell.n - 1];
            c.line = before.line;
            c.column = before.column + before.width + width_of(o, before.tok.hi, t.lo);
        }
        vec_push(o->f->perm, &o->cell, c);
    }
}

// --- lines and indentation -----------------------------------------------------------------------

typedef struct Open {
    TokKind kind;
    uint32_t line;
} Open;
typedef VEC(Open) OpenStack;

// Cell i continues the statement of the line before.
static bool goes_on(const Layout *o, uint32_t i) {
    uint32_t before = i;
    while (before && o->cell.at[before - 1].tok.kind == TokComment)
        before--;
    if (!before)
        return false;
    TokKind a = o->cell.at[before - 1].tok.kind, b = o->cell.at[i].tok.kind;
    return b != TokElse && ((token_breaks_after(a) && !opens(a)) || token_breaks_before(b));
}

static uint32_t indent_of(const Layout *o, const OpenStack *open, uint32_t i) {
    TokKind k = o->cell.at[i].tok.kind;
    if (open->n && closes(k))
        return o->line.at[open->at[open->n - 1].line].indent;
    uint32_t inner = open->n ? o->line.at[open->at[open->n - 1].line].indent + STEP : 0;
    bool statements = !open->n || open->at[open->n - 1].kind == TokLBrace;
    return inner + (statements && k != TokComment && goes_on(o, i) ? STEP : 0);
}

static Line start_line(const Layout *o, const OpenStack *open, uint32_t i) {
    const Cell *c = &o->cell.at[i];
    Line line = {.first = i, .indent = indent_of(o, open, i)};
    if (!i)
        return line;
    const Cell *before = &o->cell.at[i - 1];
    const Line *last = &o->line.at[o->line.n - 1];
    line.blank = c->line > before->line + 1 && !opens(before->tok.kind) && !closes(c->tok.kind);
    bool under = before->tok.kind == TokComment && before->column == c->column &&
                 (last->n > 1 || last->hangs);
    line.hangs = c->tok.kind == TokComment && under && !line.blank && c->column > line.indent;
    return line;
}

static void read_lines(Layout *o) {
    OpenStack open = {0};
    for (uint32_t i = 0; i < o->cell.n; i++) {
        Cell *c = &o->cell.at[i];
        if (i == 0 || c->tok.first) {
            Line line = start_line(o, &open, i);
            vec_push(o->f->perm, &o->line, line);
        } else {
            c->gap = blanks(o, i, open.n ? open.at[open.n - 1].kind : TokEnd);
            uint32_t there = c->column - o->cell.at[i - 1].column - o->cell.at[i - 1].width;
            c->by_hand = c->gap && there > c->gap;
        }
        if (opens(c->tok.kind)) {
            Open one = {c->tok.kind, o->line.n - 1};
            vec_push(o->f->perm, &open, one);
        }
        if (closes(c->tok.kind) && open.n)
            open.n--;
        o->line.at[o->line.n - 1].n++;
    }
}

// --- columns -------------------------------------------------------------------------------------

typedef struct Group {
    uint32_t column;
    VEC(uint32_t) cell;
    VEC(uint32_t) line;
} Group;
typedef VEC(Group) Groups;

static bool defines(TokKind k) {
    return k == TokBind || k == TokAssign || k == TokLBrace;
}
static bool alike(TokKind a, TokKind b) {
    return a == b || (defines(a) && defines(b));
}

// The cell of a line that stands at `column` in the source and may be moved: words without a blank
// between them stay together, and the first of a line moves only if it is a comment that hangs.
static uint32_t cell_at(const Layout *o, const Line *line, uint32_t column) {
    uint32_t lo = line->first + !line->hangs, end = line->first + line->n, hi = end;
    while (lo < hi) { // columns ascend
        uint32_t mid = lo + (hi - lo) / 2;
        if (o->cell.at[mid].column < column)
            lo = mid + 1;
        else
            hi = mid;
    }
    bool found = lo < end && o->cell.at[lo].column == column;
    return found && (o->cell.at[lo].gap || line->hangs) ? lo : NONE;
}

// From cell i of line l downwards: the cells of the next lines in its column. Comments may skip
// lines without one.
static Group run_from(Layout *o, uint32_t l, uint32_t i) {
    Group g = {.column = o->cell.at[i].column};
    TokKind kind = o->cell.at[i].tok.kind;
    bool by_hand = false;
    for (uint32_t at = l; at < o->line.n && (at == l || !o->line.at[at].blank); at++) {
        uint32_t c = cell_at(o, &o->line.at[at], g.column);
        bool there = c != NONE && alike(o->cell.at[c].tok.kind, kind) && !o->cell.at[c].grouped;
        if (!there && kind != TokComment)
            break;
        if (!there)
            continue;
        by_hand = by_hand || o->cell.at[c].by_hand;
        vec_push(o->f->perm, &g.cell, c);
        vec_push(o->f->perm, &g.line, at);
        o->cell.at[c].grouped = true;
    }
    if (!by_hand || g.cell.n < 2)
        g.cell.n = 0;
    return g;
}

static int by_column(const void *a, const void *b) {
    const Group *x = a, *y = b;
    if (x->column != y->column)
        return x->column < y->column ? -1 : 1;
    return (x->cell.at[0] > y->cell.at[0]) - (x->cell.at[0] < y->cell.at[0]);
}

static Groups find_groups(Layout *o) {
    Groups groups = {0};
    for (uint32_t l = 0; l < o->line.n; l++) {
        const Line *line = &o->line.at[l];
        for (uint32_t i = line->first + 1; i < line->first + line->n; i++) {
            if (o->cell.at[i].grouped || !o->cell.at[i].gap)
                continue;
            Group g = run_from(o, l, i);
            if (g.cell.n)
                vec_push(o->f->perm, &groups, g);
        }
    }
    if (groups.n)
        qsort(groups.at, groups.n, sizeof *groups.at, by_column);
    return groups;
}

// The column of a cell before its own pad. Groups ascend, so a line's cells come in order and the
// sum goes on from the last one: a line may be long.
static uint32_t column_of(Layout *o, uint32_t l, uint32_t cell) {
    Line *line = &o->line.at[l];
    for (; line->summed < cell; line->summed++) {
        const Cell *c = &o->cell.at[line->summed];
        line->column += c->gap + c->pad + c->width;
    }
    return line->column + o->cell.at[cell].gap;
}

// Left to right, so that what stands before a group in its lines has its place already.
static void align(Layout *o) {
    Groups groups = find_groups(o);
    for (uint32_t l = 0; l < o->line.n; l++) {
        Line *line = &o->line.at[l];
        line->summed = line->first;
        line->column = line->hangs ? 0 : line->indent;
    }
    for (uint32_t g = 0; g < groups.n; g++) {
        const Group *group = &groups.at[g];
        uint32_t column = 0;
        for (uint32_t i = 0; i < group->cell.n; i++) {
            uint32_t c = column_of(o, group->line.at[i], group->cell.at[i]);
            if (c > column)
                column = c;
        }
        for (uint32_t i = 0; i < group->cell.n; i++)
            o->cell.at[group->cell.at[i]].pad =
                column - column_of(o, group->line.at[i], group->cell.at[i]);
    }
}

bool fmt_source(Text *t, Front *f, uint32_t source) {
    uint32_t errors = diag_errors(f);
    bool library = f->source.at[source - 1].library;
    f->source.at[source - 1].library = true; // a missing `model` line is no matter of layout
    parse_gan(f, source);
    f->source.at[source - 1].library = library;
    if (diag_errors(f) != errors)
        return false;
    Layout o = {.f = f, .source = &f->source.at[source - 1]};
    lex_init(&o.lex, f, source, 0, (uint32_t)o.source->text.len);
    read_cells(&o);
    read_lines(&o);
    align(&o);
    for (uint32_t l = 0; l < o.line.n; l++) {
        const Line *line = &o.line.at[l];
        if (line->blank)
            text_char(t, '\n');
        if (!line->hangs)
            text_blanks(t, line->indent);
        for (uint32_t i = line->first; i < line->first + line->n; i++) {
            text_blanks(t, o.cell.at[i].gap + o.cell.at[i].pad);
            text_put(t, token_text(&o.lex, o.cell.at[i].tok));
        }
        text_char(t, '\n');
    }
    return true;
}
