// make_chain.c - generates chains of operations that passes look for: large values between small
// ones, for which strips are made, and one weight at many steps, whose products join (make.h).
#include "make.h"

static bool is_number(const Maker *k, const Known *v) {
    (void)k;
    return !v->classes;
}

// A value of this shape, made of any.
static const Known *some_shaped(Maker *k, Type t) {
    const Known *v = known_some(k, is_number);
    return v ? make_shaped(k, v, t) : NULL;
}

// --- all pairs of positions ----------------------------------------------------------------------

// One operation on scores [p, q] or [p, q, heads]; `axis`: p or q. NULL: none fits.
static const Known *score_step(Maker *k, const Known *s, uint32_t axis) {
    static const char *const single[] = {
        "tanh(%s)",
        "%s^2/4",
        "softmax(%s, axis(%u))",
        "softmax(%s, axis(%u))",
        "standard(%s, axis(%u), 0.1)",
        "flip(%s, axis(%u))",
        "dropout(%s, 0.3)",
    };
    static const char *const twice[] = {
        "%s - mean(%s, axis(%u), keep=true)",
        "%s - max(%s, axis(%u), keep=true)",
        "%s*sigmoid(sum(%s, axis(%u), keep=true))",
        "where(%s > min(%s, axis(%u), keep=true) + 0.1, 0.5, -1)",
    };
    Type t = s->type, row = {.batched = t.batched, .rank = 1, .dim = {t.dim[axis]}};
    const Known *bias;
    switch (roll(k, 9)) {
    case 0:
        t.dim[0] = s->type.dim[1], t.dim[1] = s->type.dim[0];
        return bind_value(k, t, t.rank == 3 ? "permute(%s, 1, 0, 2)" : "permute(%s, 1, 0)",
                          s->name);
    case 1:
        t.dim[axis] *= 2;
        return bind_value(k, t, "concat(%s, -%s, axis=axis(%u))", s->name, s->name, axis);
    case 2:
        return bind_value(k, t,
                          "where(unsqueeze(arange(%d), 1) >= unsqueeze(arange(%d), 0), %s, -2)",
                          (int)t.dim[0], (int)t.dim[1], s->name);
    case 3:
        bias = some_shaped(k, row);
        t.batched |= bias && bias->type.batched;
        return bias ? bind_value(k, t, "%s + 0.3*unsqueeze(%s, %u)", s->name, bias->name, 1 - axis)
                    : NULL;
    case 4:
    case 5:
        return bind_value(k, t, PICK(k, twice), s->name, s->name, axis);
    default:
        return bind_value(k, t, PICK(k, single), s->name, axis);
    }
}

// What the scores become: a product of the values v that has axis `kept` of theirs, or a sum.
static void score_end(Maker *k, const Known *s, const Known *v, uint32_t kept) {
    static const char *const product[2][2] = {
        {"einsum(\"pq,cq->cp\", %s, %s)", "einsum(\"pq,cp->cq\", %s, %s)"},
        {"einsum(\"pqc,cq->cp\", %s, %s)", "einsum(\"pqc,cp->cq\", %s, %s)"}};
    static const char *const sum[] = {"mean(%s, axis(%u))", "sum(tanh(%s), axis(%u))/2",
                                      "max(%s, axis(%u))"};
    Type t = s->type, rows = v->type;
    if (t.dim[1 - kept] == v->type.dim[1] && chance(k, 70)) {
        rows.batched |= t.batched;
        rows.dim[1] = t.dim[kept];
        bind_value(k, rows, product[t.rank - 2][kept], s->name, v->name);
    } else if (t.rank == 2 && chance(k, 25)) {
        t.dim[1] = t.dim[0];
        bind_value(k, t, "einsum(\"pq,rq->pr\", %s, tanh(%s))/4", s->name, s->name);
    } else if (t.batched && chance(k, 15)) {
        t.batched = false;
        bind_value(k, t, "mean(%s, batch)", s->name);
    } else {
        for (uint32_t i = 1 - kept; i + 1 < t.rank; i++)
            t.dim[i] = t.dim[i + 1];
        t.dim[--t.rank] = 0;
        bind_value(k, t, PICK(k, sum), s->name, 1 - kept);
    }
}

void make_scores(Maker *k) {
    Type from = {.rank = 2, .dim = {1 + roll(k, 2), 4 + roll(k, 7)}}, to = from;
    to.dim[1] = chance(k, 50) ? from.dim[1] : 4 + roll(k, 7);
    const Known *p = some_shaped(k, from), *q = p && chance(k, 70) ? some_shaped(k, to) : p;
    if (!p || !q)
        return;
    uint32_t before = k->n;
    bool heads = chance(k, 30);
    Type t = {.batched = p->type.batched || q->type.batched,
              .rank = heads ? 3 : 2,
              .dim = {p->type.dim[1], q->type.dim[1], heads ? p->type.dim[0] : 0}};
    const Known *s = bind_value(
        k, t, heads ? "einsum(\"cp,cq->pqc\", %s, %s)" : "einsum(\"cp,cq->pq\", %s, %s)/2", p->name,
        q->name);
    for (uint32_t i = roll(k, 4); s && i > 0; i--)
        s = score_step(k, s, roll(k, 2));
    uint32_t scores = k->n;
    if (s)
        score_end(k, s, q, roll(k, 2));
    if (k->n > scores && chance(k, 80)) { // nothing else reads the scores
        k->known[before] = k->known[k->n - 1];
        k->n = before + 1;
    }
}

// --- one weight at many steps --------------------------------------------------------------------

void make_series(Maker *k) {
    static const char *const form[] = {
        "rnn(gru(%d), %s, expand(0, %d))",
        "rnn(lstm(%d), %s, expand(0, %d))",
        "rnn(gru(%d), flip(%s, axis(0))[1:], expand(0, %d))",
    };
    int n = 1 + (int)roll(k, 4);
    Type t = {.rank = 2, .dim = {3 + roll(k, 4), 1 + roll(k, 5)}};
    const Known *x = some_shaped(k, t);
    if (!x || !x->type.batched)
        return;
    t.batched = true;
    uint32_t kind = roll(k, 5);
    if (kind < 3) {
        t.dim[0] -= kind == 2;
        t.dim[1] = kind == 1 ? 2 * n : n;
        bind_value(k, t, form[kind], n, x->name, (int)t.dim[1]);
        return;
    }
    line(k, "l%u = dense(%d%s)", k->made, n, chance(k, 50) ? "" : ", bias=none");
    t.dim[1] = n;
    bind_value(k, t,
               kind == 3 ? "stack([l%u(%s[i]) for i in range(%d)])"
                         : "stack([l%u(a) for a in [tanh(%s[i]) for i in range(%d)]])",
               k->made, x->name, (int)t.dim[0]);
}
