// builtin_list.c - the core's functions of lists and numbers, which make no node.
//
// In: values as the text gave them. Out: a value, or a diagnostic in the user's words.
#include "builtin.h"

#include <math.h>
#include <string.h>

Value builtin_prod(Elab *e, const Value *in, uint32_t n) {
    List l;
    double product = 1, x;
    (void)n;
    if (!want_list(e, in[0], "prod", &l))
        return POISON;
    for (uint32_t i = 0; i < l.n; i++) {
        if (!want_num(e, l.at[i], "prod", &x))
            return POISON;
        product *= x;
    }
    return value_num(product);
}

Value builtin_len(Elab *e, const Value *in, uint32_t n) {
    List l;
    (void)n;
    if (in[0].kind == KindStr)
        return value_num((double)in[0].str.len);
    return want_list(e, in[0], "len", &l) ? value_num(l.n) : POISON;
}

bool want_bounds(Elab *e, const Value *in, const char *who, int64_t *from, int64_t *to) {
    bool both = in[1].kind != KindAbsent;
    *from = 0;
    return want_int(e, in[0], who, both ? from : to) && (!both || want_int(e, in[1], who, to));
}

Value builtin_range(Elab *e, const Value *in, uint32_t n) {
    int64_t from, to;
    (void)n;
    if (!want_bounds(e, in, "range", &from, &to))
        return POISON;
    if (to - from > MAX_WORK) {
        diag(e->f, DiagE0317, here(e), MAX_WORK);
        return POISON;
    }
    VEC(Value) out = {0};
    for (int64_t i = from; i < to; i++)
        vec_push(e->perm, &out, value_num((double)i));
    return value_list(out.at, out.n);
}

// Element i of the result is the list of elements i.
Value builtin_zip(Elab *e, const Value *in, uint32_t n) {
    List lists = in[0].list, first, one;
    (void)n;
    if (!lists.n) {
        diag(e->f, DiagE0313, here(e), 3, "zip", 5, "lists");
        return POISON;
    }
    for (uint32_t k = 0; k < lists.n; k++) {
        if (!want_list(e, lists.at[k], "zip", &one))
            return POISON;
        if (!k)
            first = one;
        if (one.n == first.n)
            continue;
        diag(e->f, DiagE0318, here(e), first.n, one.n);
        in_library(e);
        return POISON;
    }
    Value *out = arena_array(e->perm, Value, first.n);
    for (uint32_t i = 0; i < first.n; i++) {
        Value *row = arena_array(e->perm, Value, lists.n);
        for (uint32_t k = 0; k < lists.n; k++)
            row[k] = lists.at[k].list.at[i];
        out[i] = value_list(row, lists.n);
    }
    return value_list(out, first.n);
}

static bool knows_classes(Value v) {
    return v.kind == KindTensor && v.tensor.classes;
}

Value builtin_is_class(Elab *e, const Value *in, uint32_t n) {
    (void)e, (void)n;
    return in[0].kind == KindPoison ? POISON : value_bool(knows_classes(in[0]));
}

Value builtin_classes(Elab *e, const Value *in, uint32_t n) {
    (void)n;
    if (knows_classes(in[0]))
        return value_num((double)in[0].tensor.classes);
    diag(e->f, DiagE0305, here(e), "classes (of a label)", value_what(in[0]));
    diag_help(e->f,
              "a label of the data and categorical(10) know their classes; declare it of an input: "
              "net G(z: [64], y: label(10)), or fn class(y: label(10)) = y of a computed number");
    in_library(e);
    return POISON;
}

Value builtin_axis(Elab *e, const Value *in, uint32_t n) {
    int64_t i;
    (void)n;
    if (!want_int(e, in[0], "axis", &i))
        return POISON;
    if (i >= 0 && i < MAX_RANK)
        return (Value){.kind = KindAxes, .axes = (uint32_t)AxFirst << i};
    if (i < 0 && i >= -MAX_RANK)
        return (Value){.kind = KindAxes, .axes = (uint32_t)AxLast << (-1 - i)};
    diag(e->f, DiagE0405, here(e), (long long)i, 10, "any tensor");
    return POISON;
}

// What a text says of its own arguments: `failed` where the condition does not hold.
static Value stated(Elab *e, const Value *in, const char *who, DiagCode failed) {
    bool holds;
    if (!want_bool(e, in[0], who, &holds) || in[1].kind == KindPoison)
        return POISON;
    if (in[1].kind != KindStr) {
        diag(e->f, DiagE0306, here(e), who, "a text that says what is needed",
             SARG(value_text(e, in[1])));
        diag_help(e->f, "as in %s(size >= 4, \"size is 4 or more\")", who);
        in_library(e);
        return POISON;
    }
    if (holds)
        return (Value){.kind = KindNone};
    diag(e->f, failed, here(e), SARG(in[1].str));
    in_library(e);
    return failed == DiagE0321 ? POISON : (Value){.kind = KindNone};
}

Value builtin_require(Elab *e, const Value *in, uint32_t n) {
    (void)n;
    return stated(e, in, "require", DiagE0321);
}

Value builtin_warn_unless(Elab *e, const Value *in, uint32_t n) {
    (void)n;
    return stated(e, in, "warn_unless", DiagW0904);
}

static bool is_known(Value v) {
    bool known = !value_is_tensor(v);
    for (uint32_t i = 0; v.kind == KindList && i < v.list.n; i++)
        known = known && is_known(v.list.at[i]);
    return known;
}

Value builtin_known(Elab *e, const Value *in, uint32_t n) {
    (void)e, (void)n;
    return in[0].kind == KindPoison ? POISON : value_bool(is_known(in[0]));
}

Value builtin_per_sample(Elab *e, const Value *in, uint32_t n) {
    Val x;
    (void)n;
    return want_tensor(e, in[0], &x) ? value_bool(val_type(x).batched) : POISON;
}

static uint32_t behind(const Graph *g, uint32_t id, bool expands) {
    while (graph_node(g, id)->op == OpReshape || (expands && graph_node(g, id)->op == OpExpand))
        id = node_in(g, id, 0);
    return id;
}

// exp(...) / its sum, along any axes.
static bool is_softmax(const Graph *g, uint32_t id) {
    if (graph_node(g, id)->op != OpDiv)
        return false;
    uint32_t part = behind(g, node_in(g, id, 0), false), whole = behind(g, node_in(g, id, 1), true);
    return graph_node(g, part)->op == OpExp && graph_node(g, whole)->op == OpSum &&
           behind(g, node_in(g, whole, 0), false) == part;
}

static bool is_zero(const Graph *g, uint32_t id) {
    double c;
    return node_is_const(g, behind(g, id, true), &c) && c == 0;
}

// where(0 >= x, 0, x), which is the library's, and a maximum.
static bool is_relu(const Graph *g, uint32_t id) {
    const Node *n = graph_node(g, id);
    if (n->op == OpMax)
        return is_zero(g, node_in(g, id, 0)) || is_zero(g, node_in(g, id, 1));
    if (n->op != OpWhere || !is_zero(g, node_in(g, id, 1)))
        return false;
    uint32_t where = node_in(g, id, 0);
    return graph_node(g, where)->op == OpGe && is_zero(g, node_in(g, where, 0)) &&
           node_in(g, where, 1) == node_in(g, id, 2);
}

// By its own value alone: reshapes aside, and no further back.
Value builtin_computed_by(Elab *e, const Value *in, uint32_t n) {
    Val x;
    Op op = 0;
    (void)n;
    if (!want_tensor(e, in[0], &x))
        return POISON;
    const Graph *g = x.b->g;
    uint32_t id = behind(g, x.id, false);
    if (in[1].kind == KindStr && str_eq(in[1].str, STR("softmax")))
        return value_bool(is_softmax(g, id));
    if (in[1].kind == KindStr && str_eq(in[1].str, STR("relu")))
        return value_bool(is_relu(g, id));
    while (in[1].kind == KindStr && op < OpCount && !str_eq(in[1].str, str_c(op_info[op].text)))
        op++;
    if (in[1].kind != KindStr || op == OpCount) {
        diag(e->f, DiagE0306, here(e), "computed_by", "the name of an operation, as \"sigmoid\"",
             SARG(value_text(e, in[1])));
        in_library(e);
        return POISON;
    }
    return value_bool(graph_node(g, id)->op == op);
}

// Goes back to the last `*` on a mismatch, letting it take one more.
static bool glob(Str pattern, Str text) {
    size_t p = 0, t = 0, star = SIZE_MAX, taken = 0;
    while (t < text.len) {
        if (p < pattern.len && pattern.ptr[p] == '*') {
            star = p++;
            taken = t;
        } else if (p < pattern.len && pattern.ptr[p] == text.ptr[t]) {
            p++;
            t++;
        } else if (star != SIZE_MAX) {
            p = star + 1;
            t = ++taken;
        } else {
            return false;
        }
    }
    while (p < pattern.len && pattern.ptr[p] == '*')
        p++;
    return p == pattern.len;
}

static void note_pattern(Elab *e, Str text, bool fits) {
    uint32_t i = 0;
    while (i < e->pattern.n && !str_eq(e->pattern.at[i].text, text))
        i++;
    if (i == e->pattern.n)
        vec_push(e->perm, &e->pattern, ((WeightPattern){.text = text, .span = here(e)}));
    e->pattern.at[i].fits = e->pattern.at[i].fits || fits;
}

Value builtin_matches(Elab *e, const Value *in, uint32_t n) {
    (void)n;
    if (in[0].kind == KindStr && in[1].kind == KindStr) {
        bool fits = glob(in[1].str, in[0].str);
        if (in[0].id)
            note_pattern(e, in[1].str, fits);
        return value_bool(fits);
    }
    diag(e->f, DiagE0305, here(e), "matches", value_what(in[in[0].kind == KindStr]));
    diag_help(e->f, "both are strings: matches(name(w), \"G.*\")");
    return POISON;
}
