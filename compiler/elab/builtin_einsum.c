// builtin_einsum.c - products of tensors by a rule, "on,n->o": which axes are matched, kept and
// summed, brought to the one product that graphs have.
#include "builtin.h"

#include <string.h>

enum { MAX_FACTORS = 8 };

// "on,n->o": the labels of each factor, and last of the result, each a letter.
typedef struct Rule {
    Str part[MAX_FACTORS + 1];
    uint32_t n; // factors
} Rule;

static bool letters_once(Str part) {
    for (size_t i = 0; i < part.len; i++)
        if (part.ptr[i] < 'a' || part.ptr[i] > 'z' || str_find(part, part.ptr[i]) != i)
            return false;
    return true;
}

static bool has_letter(const Str *part, uint32_t n, char c) {
    for (uint32_t k = 0; k < n; k++)
        if (str_find(part[k], c) < part[k].len)
            return true;
    return false;
}

static bool split_rule(Str text, uint32_t factors, Rule *out) {
    size_t arrow = str_find(text, '-');
    bool fine = arrow + 1 < text.len && text.ptr[arrow + 1] == '>';
    *out = (Rule){.n = factors};
    for (uint32_t k = 0, last = factors - 1; fine && k < factors; k++) {
        size_t comma = str_find(text, ',');
        fine = (k == last) == (comma >= arrow);
        size_t end = k == last ? arrow : comma;
        out->part[k] = str_sub(text, 0, end);
        text = str_sub(text, end + 1, text.len);
        arrow -= end + 1;
    }
    out->part[factors] = str_sub(text, 1, text.len);
    for (uint32_t k = 0; fine && k <= factors; k++)
        fine = letters_once(out->part[k]);
    for (size_t i = 0; fine && i < out->part[factors].len; i++)
        fine = has_letter(out->part, factors, out->part[factors].ptr[i]);
    return fine;
}

static bool not_a_rule(Elab *e, Value v) {
    diag(e->f, DiagE0416, here(e), SARG(value_text(e, v)));
    in_library(e);
    return false;
}

static bool read_rule(Elab *e, Value v, uint32_t factors, Rule *out) {
    Text text = {.arena = e->perm};
    for (size_t i = 0; v.kind == KindStr && i < v.str.len; i++)
        if (v.str.ptr[i] != ' ')
            text_char(&text, v.str.ptr[i]);
    if (factors < 2 || factors > MAX_FACTORS) {
        (void)not_a_rule(e, v);
        diag_help(e->f, factors < 2 ? "it has two factors or more; of one, axes are exchanged by "
                                      "permute(x, 1, 0) and summed by sum(x, axis(0))"
                                    : "it has at most 8 factors: multiply some of them before");
        return false;
    }
    return split_rule(text_str(&text), factors, out) || not_a_rule(e, v);
}

static bool rule_fits(Elab *e, const Str *part, const Val *x) {
    for (uint32_t k = 0; k < 2; k++) {
        Type t = val_type(x[k]), other = val_type(x[1 - k]);
        if (t.rank != part[k].len) {
            diag(e->f, DiagE0417, here(e), SARG(part[k]), SARG(type_text(e->perm, &t)));
            in_library(e);
            note_origin(e, x[k]);
            return false;
        }
        for (uint32_t i = 0; i < t.rank && other.rank == part[1 - k].len; i++) {
            size_t j = str_find(part[1 - k], part[k].ptr[i]);
            if (j == part[1 - k].len || other.dim[j] == t.dim[i])
                continue;
            diag(e->f, DiagE0418, here(e), part[k].ptr[i], SARG(type_text(e->perm, &t)),
                 SARG(type_text(e->perm, &other)));
            in_library(e);
            note_origin(e, x[0]);
            note_origin(e, x[1]);
            return false;
        }
    }
    return true;
}

// The product of two factors; its letters are the third part. id 0 after a diagnostic.
static Val product(Elab *e, const Str *part, const Val *x) {
    uint8_t label[3][MAX_RANK];
    bool batched = val_type(x[0]).batched || val_type(x[1]).batched;
    Type made = {.rank = (uint8_t)part[2].len, .batched = batched};
    for (uint32_t p = 0; p < 3; p++)
        for (size_t i = 0; i < part[p].len && i < MAX_RANK; i++)
            label[p][i] = (uint8_t)(part[p].ptr[i] - 'a' + 1);
    for (uint32_t i = 0; i < made.rank; i++) {
        size_t k = str_find(part[0], part[2].ptr[i]);
        bool in_first = k < part[0].len;
        made.dim[i] = val_type(x[!in_first]).dim[in_first ? k : str_find(part[1], part[2].ptr[i])];
    }
    if (!size_fits(e, &made))
        return (Val){0};
    return Dot(x[0], label[0], x[1], label[1], label[2], made.rank, batched);
}

// What the product of factors 0 to k keeps: the letters of the result and of the factors after it.
static Str letters_kept(Elab *e, const Rule *r, Str first, uint32_t k) {
    Text t = {.arena = e->perm};
    if (k + 1 == r->n)
        return r->part[r->n];
    for (uint32_t p = 0; p < 2; p++) {
        Str part = p ? r->part[k] : first;
        for (size_t i = 0; i < part.len; i++)
            if (has_letter(&r->part[k + 1], r->n - k, part.ptr[i]) &&
                !(p && has_letter(&first, 1, part.ptr[i])))
                text_char(&t, part.ptr[i]);
    }
    return text_str(&t);
}

// From left to right, two factors at a time.
Value builtin_einsum(Elab *e, const Value *in, uint32_t n) {
    List l = parts_list(in[1]);
    Val x[2];
    Rule r;
    (void)n;
    if (!read_rule(e, in[0], l.n, &r) || !want_tensor(e, l.at[0], &x[0]))
        return POISON;
    Str first = r.part[0];
    uint32_t nodes = x[0].b->g->node.n;
    for (uint32_t k = 1; k < r.n; k++) {
        Str part[3] = {first, r.part[k], letters_kept(e, &r, first, k)};
        if (!want_tensor(e, l.at[k], &x[1]) || !rule_fits(e, part, x))
            return POISON;
        if (part[2].len > MAX_RANK) {
            (void)not_a_rule(e, in[0]);
            return POISON;
        }
        nodes = x[0].b->g->node.n;
        x[0] = product(e, part, x);
        if (!x[0].id)
            return POISON;
        if (k + 1 < r.n)
            (void)anchored(e, nodes, x[0]);
        first = part[2];
    }
    return anchored(e, nodes, x[0]);
}
