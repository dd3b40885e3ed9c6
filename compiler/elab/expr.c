// expr.c - expressions: names, operators, lists, indices, compile-time choices. Calls are in
// call.c, run-time choices in branch.c.
//
// In: a syntax tree and its environment. Out: a value; poison after a mistake. Only blocks of a
// compile-time `if` bind names in the given environment.
#include "builtin.h"
#include "warn.h"

#include <math.h>

// --- places and limits ---------------------------------------------------------------------------

Span here(const Elab *e) {
    return e->user.file ? e->user : e->at;
}

void in_library(Elab *e) {
    if (e->at.file && e->at.file != e->user.file && e->user.file)
        diag_note(e->f, e->at, "inside the library, here");
}

Spot spot_enter(Elab *e, const Ast *a) {
    Spot outer = {e->at, e->user};
    e->at = a->word.file ? a->word : a->span;
    if (e->at.file && !e->f->source.at[e->at.file - 1].library)
        e->user = e->at;
    e->to->at->span = here(e);
    return outer;
}

void spot_leave(Elab *e, Spot outer) {
    e->at = outer.at;
    e->user = outer.user;
    e->to->at->span = here(e);
}

static bool work_done(Elab *e, uint64_t work) {
    if (e->stop)
        return false;
    e->work += work;
    if (e->work <= MAX_WORK)
        return true;
    diag(e->f, DiagE0317, here(e), MAX_WORK);
    e->stop = true;
    return false;
}

bool elab_alive(Elab *e) {
    return work_done(e, 1);
}

// A recursion of few calls, each within a long expression, goes as deep as one of many.
bool elab_enter(Elab *e) {
    if (!elab_alive(e))
        return false;
    if (e->depth == MAX_DEPTH) {
        diag(e->f, DiagE0316, here(e), e->calls);
        e->stop = true;
        return false;
    }
    e->depth++;
    return true;
}

void elab_leave(Elab *e) {
    e->depth--;
}

// --- operators -----------------------------------------------------------------------------------

static Value op2(Elab *e, Op op, Value a, Value b) {
    return apply_op(e, op, (Value[]){a, b}, 2);
}

static Value power(Elab *e, Value a, Value b) {
    if (value_is_plain(a) && value_is_plain(b))
        return value_num(pow(a.num, b.num));
    if (b.kind == KindNum && b.num == 2)
        return op2(e, OpMul, a, a);
    if (b.kind == KindNum && b.num == 0.5)
        return apply_op(e, OpSqrt, &a, 1);
    return op2(e, OpPow, a, b);
}

Value eval_arith(Elab *e, Str op, Value a, Value b) {
    bool plain = value_is_plain(a) && value_is_plain(b);
    if (plain && b.num == 0 && (op.ptr[0] == '/' || op.ptr[0] == '%')) {
        diag(e->f, DiagE0320, here(e));
        return POISON;
    }
    switch (op.ptr[0]) {
    case '+':
        return plain ? value_num(a.num + b.num) : op2(e, OpAdd, a, b);
    case '-':
        return plain ? value_num(a.num - b.num) : op2(e, OpSub, a, b);
    case '*':
        return plain ? value_num(a.num * b.num) : op2(e, OpMul, a, b);
    case '/':
        return plain ? value_num(a.num / b.num) : op2(e, OpDiv, a, b);
    case '%':
        return plain ? value_num(a.num - b.num * floor(a.num / b.num)) : op2(e, OpMod, a, b);
    case '^':
        return power(e, a, b);
    }
    bug("operator %.*s", SARG(op));
}

// Is a tensor 0 or 1 everywhere, as far as its making shows within `depth` operations? Unlimited,
// `c = c and c` in a loop would take twice as long in every round.
static bool is_truth(const Graph *g, uint32_t id, uint32_t depth) {
    Op op = (Op)graph_node(g, id)->op;
    double x;
    if (node_is_const(g, id, &x))
        return x == 0 || x == 1;
    if (op == OpEq || op == OpGe || op == OpGt)
        return true;
    if (!depth || (op != OpSub && op != OpMul && op != OpMax))
        return false;
    uint32_t a = node_in(g, id, 0), b = node_in(g, id, 1);
    bool left = op == OpSub ? node_is_const(g, a, &x) && x == 1 : is_truth(g, a, depth - 1);
    return left && is_truth(g, b, depth - 1);
}

static bool known_truth(Val x) {
    return is_truth(x.b->g, x.id, 8);
}

static Value negated(Elab *e, Value v) {
    Val x;
    if (value_is_plain(v))
        return value_bool(v.num == 0);
    bool known = value_is_tensor(v) && want_tensor(e, v, &x) && known_truth(x);
    return known ? op2(e, OpSub, value_num(1), v) : op2(e, OpEq, v, value_num(0));
}

// Numbers that are not 0 are true.
static Value truth(Elab *e, Value v) {
    Val x;
    if (value_is_plain(v))
        return value_bool(v.num != 0);
    if (!value_is_tensor(v) || !want_tensor(e, v, &x) || known_truth(x))
        return v;
    return negated(e, negated(e, v));
}

// A tensor is compared element by element, and is never `none`, a function or a net. It has nothing
// to do with a text, a list or axes: those are refused as operands.
static bool compares_elements(Value a, Value b) {
    return value_is_tensor(a) && (value_is_tensor(b) || value_is_plain(b) || b.kind == KindStr ||
                                  b.kind == KindList || b.kind == KindAxes);
}

static Value equals(Elab *e, Value a, Value b) {
    bool tensors = compares_elements(a, b) || compares_elements(b, a);
    if (a.kind == KindPoison || b.kind == KindPoison)
        return POISON;
    return tensors ? op2(e, OpEq, a, b) : value_bool(value_equal(a, b));
}

static Value eval_compare(Elab *e, Str op, Value a, Value b) {
    bool plain = value_is_plain(a) && value_is_plain(b), or_equal = op.len == 2;
    switch (op.ptr[0]) {
    case '=':
        return equals(e, a, b);
    case '!':
        return negated(e, equals(e, a, b));
    case '<':
        return plain ? value_bool(or_equal ? a.num <= b.num : a.num < b.num)
                     : op2(e, or_equal ? OpGe : OpGt, b, a);
    case '>':
        return plain ? value_bool(or_equal ? a.num >= b.num : a.num > b.num)
                     : op2(e, or_equal ? OpGe : OpGt, a, b);
    }
    bug("comparison %.*s", SARG(op));
}

// `and`, `or`: the right side is not evaluated when the left decides at compile time.
static Value eval_logic(Elab *e, Env *env, const Ast *a) {
    bool is_and = str_eq(a->text, STR("and")), left, right;
    Value x = eval(e, env, a->a);
    if (value_is_plain(x) && (x.num != 0) != is_and)
        return value_bool(x.num != 0);
    Value y = eval(e, env, a->b);
    if (value_is_tensor(x) || value_is_tensor(y))
        return op2(e, is_and ? OpMul : OpMax, truth(e, x), truth(e, y));
    if (!want_bool(e, x, "`and` and `or`", &left) || !want_bool(e, y, "`and` and `or`", &right))
        return POISON;
    return value_bool(is_and ? left && right : left || right);
}

static Value eval_binary(Elab *e, Env *env, const Ast *a) {
    if (str_eq(a->text, STR("and")) || str_eq(a->text, STR("or")))
        return eval_logic(e, env, a);
    Value x = eval(e, env, a->a), y = eval(e, env, a->b);
    char c = a->text.ptr[0];
    if (a->a->kind == AstName && y.kind == KindStr)
        check_choice(e, env, a->a->text, y, a->b->span);
    if (a->b->kind == AstName && x.kind == KindStr)
        check_choice(e, env, a->b->text, x, a->a->span);
    bool compares = c == '<' || c == '>' || c == '=' || c == '!';
    return compares ? eval_compare(e, a->text, x, y) : eval_arith(e, a->text, x, y);
}

static Value eval_unary(Elab *e, Env *env, const Ast *a) {
    Value x = eval(e, env, a->a);
    bool truth;
    if (str_eq(a->text, STR("-")))
        return value_is_plain(x) ? value_num(-x.num) : apply_op(e, OpNeg, &x, 1);
    if (value_is_tensor(x))
        return negated(e, x);
    return want_bool(e, x, "`not`", &truth) ? value_bool(!truth) : POISON;
}

// --- names, lists, indices -----------------------------------------------------------------------

void help_name(Elab *e, Str name, Str near) {
    Str habit = word_habit(name);
    if (habit.len)
        diag_help(e->f, "%.*s", SARG(habit));
    else if (near.len)
        diag_help(e->f, "did you mean `%.*s`?", SARG(near));
}

void help_called(Elab *e, Str who) {
    Str habit = call_habit(who);
    if (habit.len)
        diag_help(e->f, "%.*s", SARG(habit));
}

// What a name is worth in an expression: places and data are read now.
Value value_now(Elab *e, Value v) {
    Val val;
    if (v.kind == KindField)
        return read_field(e, v.id);
    if (v.kind != KindSlot && v.kind != KindScalar)
        return v;
    if (!want_tensor(e, v, &val))
        return POISON;
    Value now = value_tensor(val);
    if (v.kind == KindSlot && !given_weight(e, v.id, &val))
        now.slot = v.id;
    return now;
}

// After DiagE0301 of a name that nothing is like: data are most often looked for.
static void help_data(Elab *e) {
    Text t = {.arena = e->perm};
    for (uint32_t i = 0; i < e->m->stream.n; i++)
        for (uint32_t k = 0; k < e->m->stream.at[i].field.n; k++)
            text_fmt(&t, "%s`%.*s`", t.n ? ", " : "", SARG(e->m->stream.at[i].field.at[k].name));
    if (t.n)
        diag_help(e->f, "define it before this line, or at the top level; there are the data %.*s",
                  SARG(text_str(&t)));
}

static Value eval_name(Elab *e, Env *env, const Ast *a) {
    Value v;
    if (scope_find(env, a->text, &v) || predefined_find(e, a->text, &v)) {
        v = each_pick(e, value_now(e, v));
        if (v.kind == KindList)
            v.id = 0;
        note_worth(e, a->span, v);
        return v;
    }
    uint32_t builtin;
    if (builtin_find(e, a->text, &builtin))
        return (Value){.kind = KindBuiltin, .id = builtin};
    diag(e->f, DiagE0301, here(e), SARG(a->text));
    in_library(e);
    if (!diag_open(e->f)) // the search takes as long as there are names
        return POISON;
    Str near = scope_nearest(e, env, a->text);
    if (scope_note_later(e, a->text, a->span))
        return POISON;
    if (!word_habit(a->text).len && scope_note_ended(e, a->text, a->span))
        return POISON;
    help_name(e, a->text, near);
    bool in_step = e->to->fn && e->to->index > 0 && !e->net;
    if (in_step && !near.len && !word_habit(a->text).len)
        help_data(e);
    return POISON;
}

Value eval_argument(Elab *e, Env *env, const Ast *a) {
    Value v;
    Type t;
    bool place =
        !e->to->fn && a->kind == AstName && scope_find(env, a->text, &v) && place_type(e, v, &t);
    return place ? v : eval(e, env, a);
}

static Value eval_list(Elab *e, Env *env, const Ast *a) {
    VEC(Value) out = {0};
    for (uint32_t i = 0; i < a->list.n; i++) {
        const Ast *item = a->list.at[i];
        bool spread = item->kind == AstSpread;
        Value v = eval(e, env, spread ? item->a : item);
        if (!spread)
            vec_push(e->perm, &out, v);
        else if (v.kind == KindList)
            for (uint32_t k = 0; k < v.list.n && elab_alive(e); k++)
                vec_push(e->perm, &out, v.list.at[k]);
        else if (v.kind != KindPoison) {
            diag(e->f, DiagE0305, item->span, "`...`", value_what(v));
            diag_help(e->f, "`...` spreads a list's elements: [...sizes, 3]");
        }
    }
    return value_list(out.at, out.n);
}

bool want_list(Elab *e, Value v, const char *who, List *out) {
    if (v.kind == KindList) {
        *out = v.list;
        return true;
    }
    if (v.kind != KindPoison) {
        diag(e->f, DiagE0305, here(e), who, value_what(v));
        diag_help(e->f, "a list is [a, b], or range(n) for the numbers from 0 to n - 1");
    }
    return false;
}

bool want_sequence(Elab *e, Env *env, const Ast *a, List *out) {
    Value v = eval(e, env, a);
    Spot outer = spot_enter(e, a);
    bool fine = want_list(e, v, "`for ... in`", out);
    spot_leave(e, outer);
    return fine;
}

typedef VEC(Value) Values;

static bool comprehend(Elab *e, Env *env, const Ast *a, Values *out) {
    List seq;
    const Binding *outer = env->local;
    if (!elab_enter(e))
        return false;
    bool fine = want_sequence(e, env, a->b, &seq);
    for (uint32_t i = 0; fine && i < seq.n && elab_alive(e); i++) {
        bind_names(e, env, NULL, a->list.n, a->list.at, seq.at[i]);
        if (a->c)
            fine = comprehend(e, env, a->c, out);
        else
            vec_push(e->perm, out, eval(e, env, a->a));
        env->local = outer;
    }
    elab_leave(e);
    return fine;
}

static Value eval_comprehension(Elab *e, Env *env, const Ast *a) {
    Values out = {0};
    return comprehend(e, env, a, &out) ? value_list(out.at, out.n) : POISON;
}

static bool want_end(Elab *e, Value v, const char *who, int64_t *out) {
    if (want_int(e, v, who, out))
        return true;
    if (value_is_tensor(v))
        diag_help(e->f, "n elements from a computed one on are x[from + arange(n)], along the next "
                        "axis x[:, from + arange(n)]");
    return false;
}

// [from, to) of a range over n elements; negative ends count from the back. A list, which may be
// empty, ends the range where it ends itself.
static bool eval_range(Elab *e, Env *env, const Ast *a, int64_t n, bool list, int64_t *from,
                       int64_t *to) {
    *from = 0;
    *to = n;
    if (a->a && !want_end(e, eval(e, env, a->a), "the start of a range", from))
        return false;
    if (a->b && !want_end(e, eval(e, env, a->b), "the end of a range", to))
        return false;
    long long first = *from, end = *to; // as written
    if (*from < 0)
        *from += n;
    if (*to < 0)
        *to += n;
    if (list) {
        *from = *from < 0 ? 0 : *from > n ? n : *from;
        *to = *to < *from ? *from : *to > n ? n : *to;
    }
    if (*from >= 0 && *from <= *to && *to <= n)
        return true;
    diag(e->f, DiagE0307, here(e), first, end, (long long)n,
         *from > *to ? "empty" : "out of bounds");
    return false;
}

bool want_position(Elab *e, Value v, int64_t n, int64_t *at) {
    if (!want_int(e, v, "an index", at)) {
        if (v.kind == KindNone)
            diag_help(e->f, "a new axis is unsqueeze(x, at), at from 0");
        return false;
    }
    int64_t said = *at;
    if (*at < 0)
        *at += n;
    if (*at >= 0 && *at < n)
        return true;
    diag(e->f, DiagE0308, here(e), (long long)said, (long long)n);
    return false;
}

static Value index_list(Elab *e, Env *env, const Ast *a, List l) {
    const Ast *index = a->list.at[0];
    int64_t from, to;
    if (a->list.n != 1) {
        diag(e->f, DiagE0309, here(e), 1, a->list.n);
        return POISON;
    }
    if (index->kind == AstRange)
        return eval_range(e, env, index, l.n, true, &from, &to)
                   ? value_list(l.at + from, (uint32_t)(to - from))
                   : POISON;
    Value at = eval(e, env, index);
    if (want_position(e, at, l.n, &from))
        return l.at[from];
    bool called = l.n && l.at[0].kind >= KindFn && l.at[0].kind <= KindNet;
    if (value_is_tensor(at) && called)
        diag_help(e->f, "which one is known when it runs: for i, f in enumerate(list) { if index "
                        "== i { ... } }");
    else if (value_is_tensor(at))
        diag_help(e->f, "the element of a list at a computed index is stack(...list)[index]");
    return POISON;
}

// `None` as an index, which adds an axis in other libraries.
static bool has_none(const Ast *a) {
    for (uint32_t i = 0; i < a->list.n; i++)
        if (a->list.at[i]->kind == AstName &&
            (str_eq(a->list.at[i]->text, STR("None")) || str_eq(a->list.at[i]->text, STR("none"))))
            return true;
    return false;
}

typedef struct AxisIndex { // one of the indices of a tensor
    const Ast *written;
    Value at;  // its value; none of a range
    Val of;    // the tensor
    int64_t n; // extent of its axis
} AxisIndex;

// The elements from..to - 1 that it takes.
static bool eval_along(Elab *e, Env *env, const AxisIndex *index, int64_t *from, int64_t *to) {
    Spot outer = spot_enter(e, index->written);
    bool range = index->written->kind == AstRange;
    uint32_t errors = diag_errors(e->f);
    bool fits = range ? eval_range(e, env, index->written, index->n, false, from, to)
                      : want_position(e, index->at, index->n, from);
    if (!range && value_is_tensor(index->at))
        diag_help(e->f, "of several indices one may be computed: the next one indexes the result, "
                        "x[:, j][i]");
    if (!range)
        *to = *from + 1;
    if (fits && *from == *to) {
        diag(e->f, DiagE0307, here(e), (long long)*from, (long long)*to, (long long)index->n,
             "empty");
        diag_help(e->f, "a tensor has at least one element along each axis");
        fits = false;
    }
    if (diag_errors(e->f) > errors)
        note_origin(e, index->of);
    spot_leave(e, outer);
    return fits;
}

// A mask is no index: the rows that its zeros and ones number are hardly what is meant.
static bool want_rows(Elab *e, Val index) {
    double x;
    if (!val_type(index).rank || node_is_const(index.b->g, index.id, &x) || !known_truth(index))
        return true; // of equal numbers: rows, though they be 0 or 1
    diag(e->f, DiagE0305, here(e), "an index", "a condition of each element");
    diag_help(e->f, "write where(c, x, 0): how many elements a condition chooses is not known");
    note_origin(e, index);
    return false;
}

// x[i, a:b, ...] over sample axes: an index drops its axis, a range keeps it. One index may be
// computed; the axis it is along is kept whole first.
static Value index_tensor(Elab *e, Env *env, const Ast *a, Val x) {
    Type t = val_type(x), kept = {0};
    int64_t from[MAX_RANK] = {0}, count[MAX_RANK] = {0};
    if (a->list.n > t.rank) {
        diag(e->f, DiagE0309, here(e), t.rank, a->list.n);
        if (has_none(a))
            diag_help(
                e->f,
                "an axis of extent 1 is added by unsqueeze(x, at), the batch is never written");
        return POISON;
    }
    Val rows = {0};           // the computed index,
    uint32_t axis = MAX_RANK; // and the axis of `kept` that it is along, if there is one
    for (uint32_t i = 0; i < t.rank; i++) {
        const Ast *index = i < a->list.n ? a->list.at[i] : NULL;
        int64_t to = t.dim[i];
        bool keep = !index || index->kind == AstRange;
        Value at = keep ? (Value){0} : eval(e, env, index);
        if (!keep && value_is_tensor(at) && axis == MAX_RANK) {
            if (!want_tensor(e, at, &rows) || !want_rows(e, rows))
                return POISON;
            warn_rows(e, at, t.dim[i]);
            axis = kept.rank;
            keep = true;
        } else if (index &&
                   !eval_along(e, env, &(AxisIndex){index, at, x, t.dim[i]}, &from[i], &to)) {
            return POISON;
        }
        count[i] = to - from[i];
        if (keep)
            kept.dim[kept.rank++] = count[i];
    }
    Val y = Reshape(Slice(x, from, count, NULL), kept.rank, kept.dim);
    return axis == MAX_RANK ? value_tensor(y) : element_get(e, y, axis, rows);
}

static Value eval_index(Elab *e, Env *env, const Ast *a) {
    Value x = eval(e, env, a->a);
    Val v;
    if (x.kind == KindList)
        return index_list(e, env, a, x.list);
    if (value_is_tensor(x) && want_tensor(e, x, &v))
        return index_tensor(e, env, a, v);
    if (x.kind != KindPoison) {
        diag(e->f, DiagE0305, here(e), "an index", value_what(x));
        diag_help(e->f, "lists and tensors have elements; a net, a layer or a function is called");
    }
    return POISON;
}

// --- choices -------------------------------------------------------------------------------------

Value eval_if(Elab *e, Env *env, const Ast *a, bool drop) {
    Value cond = eval(e, env, a->a);
    bool truth;
    if (value_is_tensor(cond)) {
        Val v;
        if (!want_tensor(e, cond, &v))
            return POISON;
        Type t = val_type(v);
        if (!is_shared_number(&t)) {
            diag(e->f, DiagE0510, here(e), SARG(type_text(e->perm, &t)));
            bind_lost(e, env, a);
            return POISON;
        }
        if (!drop)
            return branch_if(e, env, a, v);
        scope_if(e, env, a, v);
        return (Value){.kind = KindNone};
    }
    if (!want_bool(e, cond, "the condition of `if`", &truth)) {
        bind_lost(e, env, a);
        return POISON;
    }
    const Ast *taken = truth ? a->b : a->c;
    if (!taken)
        return (Value){.kind = KindNone};
    return taken->kind == AstIf ? eval_if(e, env, taken, drop) : eval_block(e, env, taken, drop);
}

Value eval_every(Elab *e, Env *env, const Ast *a, bool drop) {
    int64_t k;
    if (!want_int(e, eval(e, env, a->a), "`every`", &k))
        return POISON;
    if (k < 1 || k > INT32_MAX) {
        diag(e->f, DiagE0511, here(e), "every", (long long)k);
        return POISON;
    }
    if (!drop)
        return branch_every(e, env, a, k);
    scope_every(e, env, a, k);
    return (Value){.kind = KindNone};
}

static Value eval_kind(Elab *e, Env *env, const Ast *a) {
    switch (a->kind) {
    case AstNum:
        return value_num(a->num);
    case AstStr:
        return value_str(a->text);
    case AstName:
        return eval_name(e, env, a);
    case AstList:
        return eval_list(e, env, a);
    case AstComp:
        return eval_comprehension(e, env, a);
    case AstCall:
        return eval_call(e, env, a);
    case AstPipe:
        return eval_pipe(e, env, a);
    case AstIndex:
        return eval_index(e, env, a);
    case AstUnary:
        return eval_unary(e, env, a);
    case AstBinary:
        return eval_binary(e, env, a);
    case AstIf:
        return eval_if(e, env, a, false);
    case AstEvery:
        return eval_every(e, env, a, false);
    case AstOnce:
        return once_block(e, env, a);
    case AstEach:
        return eval_each(e, env, a);
    case AstBlock:
        return eval_block(e, env, a, false);
    case AstHole:
        return POISON;
    default:
        break; // kinds that only stand inside those above, and statements
    }
    bug("an expression of kind %d", (int)a->kind);
}

// Whether what walks over a list may do so: by recursion, and as long as all of it has elements. A
// list may hold one list many times.
static bool list_fits(Elab *e, List l) {
    if (l.depth <= MAX_LISTS)
        return l.size <= MAX_WORK || work_done(e, l.size);
    if (!e->stop)
        diag(e->f, DiagE0323, here(e), MAX_LISTS);
    e->stop = true;
    return false;
}

Value eval(Elab *e, Env *env, const Ast *a) {
    if (!elab_enter(e))
        return POISON;
    Spot outer = spot_enter(e, a);
    Value v = eval_kind(e, env, a);
    if (v.kind == KindList && !list_fits(e, v.list))
        v = POISON;
    spot_leave(e, outer);
    elab_leave(e);
    return v;
}
