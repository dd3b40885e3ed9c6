// index.c - index arithmetic (index.h): interning, and the simplification of quotients and
// remainders by range.
#include "index.h"

#include "integers.h"

#include <string.h>

// --- interning -----------------------------------------------------------------------------------

static bool sum_equal(const IxSum *a, const IxSum *b) {
    return a->off == b->off && a->n == b->n &&
           (a->n == 0 || memcmp(a->term, b->term, a->n * sizeof *a->term) == 0);
}

// Interns `s`, whose terms are sorted; takes over its term array.
static Ix intern(Indices *t, IxSum s) {
    uint64_t h = hash64(s.term, s.n * sizeof *s.term, (uint64_t)s.off);
    for (;; h++) {
        uint32_t id = map_find(&t->sums, h);
        if (!id) {
            vec_push(t->arena, &t->sum, s);
            map_put(t->arena, &t->sums, h, t->sum.n); // one more than the id: 0 is absent
            return t->sum.n - 1;
        }
        if (sum_equal(&t->sum.at[id - 1], &s))
            return id - 1;
    }
}

static bool atom_equal(const Atom *a, const Atom *b) {
    return a->kind == b->kind && a->var == b->var && a->of == b->of && a->by == b->by &&
           a->yes == b->yes && a->no == b->no;
}

static uint32_t intern_atom(Indices *t, Atom a) {
    int64_t key[6] = {a.kind, a.var, a.of, a.by, a.yes, a.no};
    uint64_t h = hash64(key, sizeof key, 0);
    for (;; h++) {
        uint32_t id = map_find(&t->atoms, h);
        if (!id) {
            vec_push(t->arena, &t->atom, a);
            map_put(t->arena, &t->atoms, h, t->atom.n);
            return t->atom.n - 1;
        }
        if (atom_equal(&t->atom.at[id - 1], &a))
            return id - 1;
    }
}

void indices_init(Indices *t, Arena *a) {
    *t = (Indices){.arena = a};
    intern(t, (IxSum){0}); // the number 0 is index 0
}

// --- sums ----------------------------------------------------------------------------------------

Ix ix_num(Indices *t, int64_t x) {
    return intern(t, (IxSum){.off = x});
}

static Ix of_atom(Indices *t, Atom a) {
    if (a.lo == a.hi)
        return ix_num(t, a.lo);
    Term *term = arena_array(t->arena, Term, 1);
    *term = (Term){1, intern_atom(t, a)};
    return intern(t, (IxSum){0, 1, term});
}

Ix ix_var(Indices *t, uint32_t var, int64_t extent) {
    return of_atom(t, (Atom){.kind = AtomVar, .var = var, .hi = extent - 1});
}

Ix ix_add(Indices *t, Ix a, Ix b) {
    if (a == 0 || b == 0) // the number 0
        return a ? a : b;
    IxSum x = t->sum.at[a], y = t->sum.at[b], s = {.off = x.off + y.off};
    s.term = arena_array(t->arena, Term, x.n + y.n);
    for (uint32_t i = 0, j = 0; i < x.n || j < y.n;) {
        Term next;
        if (j == y.n || (i < x.n && x.term[i].atom < y.term[j].atom)) {
            next = x.term[i++];
        } else if (i == x.n || y.term[j].atom < x.term[i].atom) {
            next = y.term[j++];
        } else {
            next = (Term){x.term[i].coef + y.term[j].coef, x.term[i].atom};
            i++, j++;
        }
        if (next.coef)
            s.term[s.n++] = next;
    }
    return intern(t, s);
}

Ix ix_mul(Indices *t, Ix a, int64_t by) {
    IxSum x = t->sum.at[a], s = {.off = x.off * by};
    if (by == 0 || by == 1)
        return by ? a : 0;
    s.term = arena_array(t->arena, Term, x.n);
    for (uint32_t i = 0; i < x.n; i++)
        s.term[s.n++] = (Term){x.term[i].coef * by, x.term[i].atom};
    return intern(t, s);
}

void ix_range(const Indices *t, Ix a, int64_t *lo, int64_t *hi) {
    const IxSum *s = &t->sum.at[a];
    *lo = *hi = s->off;
    for (uint32_t i = 0; i < s->n; i++) {
        const Atom *at = &t->atom.at[s->term[i].atom];
        int64_t x = s->term[i].coef * at->lo, y = s->term[i].coef * at->hi;
        *lo += x < y ? x : y;
        *hi += x < y ? y : x;
    }
}

int64_t ix_coef(const Indices *t, Ix a, uint32_t var) {
    const IxSum *s = &t->sum.at[a];
    for (uint32_t i = 0; i < s->n; i++) {
        const Atom *at = &t->atom.at[s->term[i].atom];
        if (at->kind == AtomVar && at->var == var)
            return s->term[i].coef;
    }
    return 0;
}

uint64_t ix_hash(const Indices *t, Ix a) {
    const IxSum *s = &t->sum.at[a];
    uint64_t sum = (uint64_t)s->off; // in any order of the terms
    for (uint32_t i = 0; i < s->n; i++) {
        const Atom *at = &t->atom.at[s->term[i].atom];
        bool var = at->kind == AtomVar, choice = at->kind == AtomChoice;
        uint64_t key[] = {(uint64_t)s->term[i].coef,
                          at->kind,
                          at->var,
                          (uint64_t)at->by,
                          var ? 0 : ix_hash(t, at->of),
                          choice ? ix_hash(t, at->yes) : 0,
                          choice ? ix_hash(t, at->no) : 0};
        sum += hash64(key, sizeof key, 0);
    }
    return sum;
}

bool ix_uses(const Indices *t, Ix a, uint32_t var) {
    const IxSum *s = &t->sum.at[a];
    for (uint32_t i = 0; i < s->n; i++) {
        const Atom *at = &t->atom.at[s->term[i].atom];
        bool inside = at->kind != AtomVar && ix_uses(t, at->of, var);
        bool chosen =
            at->kind == AtomChoice && (ix_uses(t, at->yes, var) || ix_uses(t, at->no, var));
        if (inside || chosen || (at->kind == AtomVar && at->var == var))
            return true;
    }
    return false;
}

// --- quotients and remainders --------------------------------------------------------------------

// a = by * high + low, where low has the terms that `by` does not divide.
static void cut(Indices *t, Ix a, int64_t by, Ix *high, Ix *low) {
    IxSum s = t->sum.at[a];
    int64_t q = floor_div(s.off, by);
    IxSum h = {.off = q, .term = arena_array(t->arena, Term, s.n)};
    IxSum l = {.off = s.off - q * by, .term = arena_array(t->arena, Term, s.n)};
    for (uint32_t i = 0; i < s.n; i++)
        if (s.term[i].coef % by == 0)
            h.term[h.n++] = (Term){s.term[i].coef / by, s.term[i].atom};
        else
            l.term[l.n++] = s.term[i];
    *high = intern(t, h);
    *low = intern(t, l);
}

// Both at once: a = by * quotient + remainder. For the greatest g that divides `by` and for which a
// = g*high + low with low in 0..g-1, the question is passed on to high and by/g.
static void divide(Indices *t, Ix a, int64_t by, Ix *quotient, Ix *remainder) {
    int64_t lo, hi, best = 1;
    Ix high, low;
    ix_range(t, a, &lo, &hi);
    int64_t shift =
        lo < 0 ? floor_div(lo, by) : 0; // C divides towards zero: keep arguments from 0 on
    a = ix_add(t, a, ix_num(t, -shift * by));
    IxSum s = t->sum.at[a];
    for (uint32_t i = 0; i <= s.n; i++) {
        int64_t g = i < s.n ? gcd(s.term[i].coef, by) : by;
        cut(t, a, g, &high, &low);
        ix_range(t, low, &lo, &hi);
        if (g > best && lo >= 0 && hi < g)
            best = g;
    }
    if (best == by) {
        cut(t, a, by, quotient, remainder);
    } else if (best > 1) {
        cut(t, a, best, &high, &low);
        divide(t, high, by / best, quotient, remainder);
        *remainder = ix_add(t, ix_mul(t, *remainder, best), low);
    } else {
        cut(t, a, by, &high, &low); // what `by` divides never needs the division
        ix_range(t, low, &lo, &hi);
        if (lo < 0) { // only negative terms were left: take all of it
            low = a;
            high = 0;
            ix_range(t, low, &lo, &hi);
        }
        int64_t q0 = floor_div(lo, by), q1 = floor_div(hi, by);
        Atom div = {.kind = AtomDiv, .of = low, .by = by, .lo = q0, .hi = q1};
        Atom mod = {.kind = AtomMod, .of = low, .by = by, .lo = 0, .hi = by - 1};
        *quotient = ix_add(t, high, of_atom(t, div));
        *remainder = q0 == q1 ? ix_add(t, low, ix_num(t, -q0 * by)) : of_atom(t, mod);
    }
    *quotient = ix_add(t, *quotient, ix_num(t, shift));
}

Ix ix_div(Indices *t, Ix a, int64_t by) {
    Ix quotient, remainder;
    divide(t, a, by, &quotient, &remainder);
    return quotient;
}

Ix ix_mod(Indices *t, Ix a, int64_t by) {
    Ix quotient, remainder;
    divide(t, a, by, &quotient, &remainder);
    return remainder;
}

Ix ix_choice(Indices *t, Ix at, int64_t less_than, Ix yes, Ix no) {
    int64_t lo, hi, other_lo, other_hi;
    ix_range(t, at, &lo, &hi);
    if (yes == no || lo >= less_than)
        return no;
    if (hi < less_than)
        return yes;
    ix_range(t, yes, &lo, &hi);
    ix_range(t, no, &other_lo, &other_hi);
    Atom a = {.kind = AtomChoice, .of = at, .by = less_than, .yes = yes, .no = no};
    a.lo = lo < other_lo ? lo : other_lo;
    a.hi = hi > other_hi ? hi : other_hi;
    return of_atom(t, a);
}

// --- ranges by bounds ----------------------------------------------------------------------------

Ix ix_within(Indices *t, Ix a, int64_t extent) {
    int64_t lo, hi;
    ix_range(t, a, &lo, &hi);
    if (lo >= 0 && hi < extent)
        return a;
    return of_atom(t, (Atom){.kind = AtomWithin,
                             .of = a,
                             .by = extent,
                             .lo = lo > 0 ? lo : 0,
                             .hi = hi < extent ? hi : extent - 1});
}

static bool is_plain(const Indices *t, Ix a) {
    const IxSum *s = &t->sum.at[a];
    for (uint32_t i = 0; i < s->n; i++) {
        const Atom *at = &t->atom.at[s->term[i].atom];
        bool choice = at->kind == AtomChoice;
        if (at->kind == AtomWithin || (at->kind != AtomVar && !is_plain(t, at->of)) ||
            (choice && (!is_plain(t, at->yes) || !is_plain(t, at->no))))
            return false;
    }
    return true;
}

static Ix plain_atom(Indices *t, uint32_t id) {
    Atom a = t->atom.at[id];
    Ix of = a.kind == AtomVar ? 0 : ix_plain(t, a.of);
    switch (a.kind) {
    case AtomVar:
        return of_atom(t, a);
    case AtomDiv:
        return ix_div(t, of, a.by);
    case AtomMod:
        return ix_mod(t, of, a.by);
    case AtomChoice:
        return ix_choice(t, of, a.by, ix_plain(t, a.yes), ix_plain(t, a.no));
    case AtomWithin:
        return of;
    }
    bug("an atom of kind %d", (int)a.kind);
}

Ix ix_plain(Indices *t, Ix a) {
    if (is_plain(t, a))
        return a;
    IxSum s = t->sum.at[a];
    Ix sum = ix_num(t, s.off);
    for (uint32_t i = 0; i < s.n; i++)
        sum = ix_add(t, sum, ix_mul(t, plain_atom(t, s.term[i].atom), s.term[i].coef));
    return sum;
}

bool ix_split_wanted(const Indices *t, uint32_t *var, int64_t *factor) {
    for (uint32_t i = 0; i < t->atom.n; i++) {
        const Atom *a = &t->atom.at[i];
        if (a->kind != AtomDiv && a->kind != AtomMod)
            continue;
        const IxSum *s = &t->sum.at[a->of];
        for (uint32_t k = 0; k < s->n; k++) {
            const Atom *v = &t->atom.at[s->term[k].atom];
            int64_t f = a->by / gcd(s->term[k].coef, a->by), extent = v->hi + 1;
            if (v->kind == AtomVar && f > 1 && f < extent && extent % f == 0) {
                *var = v->var;
                *factor = f;
                return true;
            }
        }
    }
    return false;
}
