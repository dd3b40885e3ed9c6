// value.c - compile-time values: constructing, comparing and printing them, and converting them to
// the numbers, extents and tensors that operations take.
//
// In: values of the evaluator. Out: the same, or a diagnostic at the operation being evaluated.
// Poison, the value of a mistake already reported, is refused without a diagnostic.
#include "elab.h"

#include <math.h>
#include <string.h>

enum { LONG_TEXT = 100 }; // a list or string longer than that is cut off in messages

static const double max_elements = 1099511627776.0; // 2^40, as the graph allows

Value value_num(double x) {
    return (Value){.kind = KindNum, .num = x};
}
Value value_bool(bool x) {
    return (Value){.kind = KindBool, .num = x};
}
Value value_str(Str s) {
    return (Value){.kind = KindStr, .str = s};
}

Value value_list(const Value *at, uint32_t n) {
    uint64_t size = n;
    uint32_t depth = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (at[i].kind != KindList)
            continue;
        size += at[i].list.size;
        depth = at[i].list.depth > depth ? at[i].list.depth : depth;
    }
    uint32_t counted = size < UINT32_MAX ? (uint32_t)size : UINT32_MAX;
    return (Value){.kind = KindList, .list = {at, n, counted, depth + 1}};
}

Value value_fn(Elab *e, const Ast *a, Env env) {
    Closure *fn = arena_new(e->perm, Closure);
    *fn = (Closure){a, env};
    return (Value){.kind = KindFn, .fn = fn};
}

const Ast *value_ast(Value v) {
    return v.kind == KindFn ? v.fn->ast : v.kind == KindObject ? v.object->fn->ast : NULL;
}

const Ast *value_params(Value v) {
    const Ast *fn = value_ast(v);
    return !fn ? NULL : v.kind == KindFn ? fn->a : fn->b;
}

Value value_tensor(Val v) {
    return (Value){.kind = KindTensor, .slot = NONE, .tensor = {.val = v}};
}

Value value_class(Val v, int64_t classes) {
    return (Value){.kind = KindTensor, .slot = NONE, .tensor = {v, classes}};
}

Value extents_value(Elab *e, const int64_t *dim, uint32_t n) {
    Value *at = arena_array(e->perm, Value, n);
    for (uint32_t i = 0; i < n; i++)
        at[i] = value_num((double)dim[i]);
    return value_list(at, n);
}

bool value_is_plain(Value v) {
    return v.kind == KindNum || v.kind == KindBool;
}

bool value_is_setting(Value v) {
    for (uint32_t i = 0; v.kind == KindList && i < v.list.n; i++)
        if (!value_is_setting(v.list.at[i]))
            return false;
    return value_is_plain(v) || v.kind == KindStr || v.kind == KindNone || v.kind == KindList ||
           v.kind == KindPoison;
}

bool value_is_tensor(Value v) {
    return v.kind == KindTensor || v.kind == KindSlot || v.kind == KindField ||
           v.kind == KindScalar;
}

static bool lists_equal(List a, List b) {
    for (uint32_t i = 0; i < a.n && i < b.n; i++)
        if (!value_equal(a.at[i], b.at[i]))
            return false;
    return a.n == b.n;
}

bool value_equal(Value a, Value b) {
    if (value_is_plain(a) && value_is_plain(b))
        return a.num == b.num;
    if (a.kind != b.kind)
        return false;
    switch (a.kind) {
    case KindStr:
        return str_eq(a.str, b.str);
    case KindList:
        return lists_equal(a.list, b.list);
    case KindAxes:
        return a.axes == b.axes;
    case KindFn:
        return a.fn->ast == b.fn->ast;
    case KindObject:
        return a.object == b.object;
    case KindTensor:
        return a.tensor.val.id == b.tensor.val.id;
    case KindBuiltin:
    case KindNet:
    case KindSlot:
    case KindField:
    case KindScalar:
        return a.id == b.id;
    case KindPoison:
    case KindAbsent:
    case KindNone:
    case KindNum:
    case KindBool:
        return true;
    }
    return false;
}

// --- for messages --------------------------------------------------------------------------------

const char *value_what(Value v) {
    switch (v.kind) {
    case KindPoison:
    case KindAbsent:
    case KindNone:
        return "none";
    case KindNum:
        return "a number";
    case KindBool:
        return "a boolean";
    case KindStr:
        return "a string";
    case KindList:
        return "a list";
    case KindAxes:
        return "axes";
    case KindFn:
    case KindBuiltin:
        return "a function";
    case KindObject:
        return "a layer or optimizer";
    case KindNet:
        return "a net";
    case KindTensor:
        return "a tensor";
    case KindSlot:
        return "a weight or state";
    case KindField:
        return "data";
    case KindScalar:
        return "a counter";
    }
    return "a value";
}

static void put_string(Text *t, Str s) {
    size_t n = s.len < LONG_TEXT ? s.len : LONG_TEXT;
    while (n < s.len && ((unsigned char)s.ptr[n] & 0xC0) == 0x80)
        n--; // not within a character
    text_fmt(t, "\"%.*s%s\"", SARG(str_sub(s, 0, n)), n < s.len ? "..." : "");
}

static void put_value(Elab *e, Text *t, Value v) {
    switch (v.kind) {
    case KindNum:
        text_put(t, str_double(e->perm, v.num));
        return;
    case KindBool:
        text_put(t, str_c(v.num != 0 ? "true" : "false"));
        return;
    case KindStr:
        put_string(t, v.str);
        return;
    case KindList:
        text_char(t, '[');
        for (uint32_t i = 0; i < v.list.n; i++) {
            if (i)
                text_put(t, STR(", "));
            if (text_str(t).len > LONG_TEXT) {
                text_put(t, STR("..."));
                break;
            }
            put_value(e, t, v.list.at[i]);
        }
        text_char(t, ']');
        return;
    case KindTensor: {
        const Type *type = node_type(v.tensor.val.b->g, v.tensor.val.id);
        text_put(t, type->rank || type->batched ? type_text(e->perm, type)
                                                : STR("a number known when it runs"));
        return;
    }
    case KindNet:
        text_fmt(t, "net %.*s", SARG(e->m->net.at[v.id].name));
        return;
    case KindSlot:
        text_put(t, e->m->slot.at[v.id].name);
        return;
    case KindField:
    case KindScalar:
    case KindPoison:
    case KindAbsent:
    case KindNone:
    case KindAxes:
    case KindFn:
    case KindObject:
    case KindBuiltin:
        text_put(t, str_c(value_what(v)));
        return;
    }
}

Str value_text(Elab *e, Value v) {
    Text t = {.arena = e->perm};
    put_value(e, &t, v);
    return text_str(&t);
}

// --- conversions ---------------------------------------------------------------------------------

// Whether a value, or a part of it, is wrong already.
static bool poisoned(Value v) {
    for (uint32_t i = 0; v.kind == KindList && i < v.list.n; i++)
        if (poisoned(v.list.at[i]))
            return true;
    return v.kind == KindPoison;
}

static Str found_text(Elab *e, Value v) {
    Str text = value_text(e, v);
    return v.kind == KindTensor && text.ptr[0] == '['
               ? str_format(e->perm, "a tensor %.*s", SARG(text))
               : text;
}

static bool expected(Elab *e, const char *what, const char *who, Value v) {
    if (poisoned(v))
        return false;
    diag(e->f, DiagE0306, here(e), who, what, SARG(found_text(e, v)));
    if (value_is_tensor(v))
        diag_help(e->f, "the values of a tensor are known only when it runs: give it a number or a "
                        "config");
    in_library(e);
    return false;
}

bool want_num(Elab *e, Value v, const char *who, double *out) {
    if (!value_is_plain(v))
        return expected(e, "a number known at compile time", who, v);
    *out = v.num;
    return true;
}

bool want_int(Elab *e, Value v, const char *who, int64_t *out) {
    if (!value_is_plain(v) || v.num != floor(v.num) || fabs(v.num) > 1e15) {
        (void)expected(e, "a whole number", who, v);
        if (value_is_plain(v))
            note_settings(e);
        return false;
    }
    *out = (int64_t)v.num;
    return true;
}

bool want_bool(Elab *e, Value v, const char *who, bool *out) {
    if (!value_is_plain(v) || (v.num != 0 && v.num != 1))
        return expected(e, "true or false", who, v);
    *out = v.num != 0;
    return true;
}

bool is_shared_number(const Type *t) {
    return !t->batched && type_sample(t) == 1;
}

bool size_fits(Elab *e, const Type *t) {
    double elements = t->batched ? (double)e->o->batch : 1;
    for (uint32_t i = 0; i < t->rank; i++)
        elements *= (double)t->dim[i];
    if (elements <= max_elements)
        return true;
    diag(e->f, DiagE0419, here(e), SARG(type_text(e->perm, t)),
         t->batched ? " with the batch" : "");
    in_library(e);
    return false;
}

bool want_extents(Elab *e, Value v, const char *who, bool batched, Type *out) {
    List l = v.kind == KindList ? v.list : (List){.at = &v, .n = 1};
    *out = (Type){.dtype = DtF32, .batched = batched};
    if (l.n > MAX_RANK)
        return expected(e, "at most 6 extents", who, v);
    for (uint32_t i = 0; i < l.n; i++) {
        Value n = l.at[i];
        if (n.kind == KindPoison)
            return false;
        if (!value_is_plain(n) || n.num != floor(n.num) || n.num < 1) {
            expected(e, "extents: whole numbers above 0", who, v);
            if (value_is_plain(n))
                note_settings(e);
            double number;
            bool quoted = n.kind == KindStr && str_to_double(n.str, &number);
            if (quoted)
                diag_help(e->f, "write the number without quotes: %.*s", SARG(n.str));
            else
                diag_help(e->f,
                          "look at the numbers given here, and at the configs they come from");
            return false;
        }
        if (n.num > max_elements) {
            expected(e, "extents of at most 2^40", who, v);
            diag_help(e->f, "look for a number with a few digits too many");
            return false;
        }
        out->dim[out->rank++] = (int64_t)n.num;
    }
    return size_fits(e, out);
}

static bool same_line(const Front *f, Span a, Span b) {
    const Source *s = a.file ? &f->source.at[a.file - 1] : NULL;
    return a.file == b.file &&
           (!s || source_line_col(s, a.lo).line == source_line_col(s, b.lo).line);
}

static void help_unapplied(Elab *e, const Object *o) {
    Str word = o->named || !o->label.len ? STR("f") : o->label;
    if (!same_line(e->f, o->made, here(e)))
        diag_note(e->f, o->made, "it was made here, and not applied");
    diag_help(e->f, "its first arguments are options: x |> %.*s applies it, or %.*s()(x)",
              SARG(word), SARG(word));
}

// What was probably meant, where a value is no operand.
static void help_operand(Elab *e, Value v) {
    double number;
    bool times = str_eq(span_text(e->f, here(e)), STR("*"));
    if (v.kind == KindList && v.list.n && value_is_plain(v.list.at[0]))
        diag_help(e->f, "stack(v) is the tensor of these numbers, v[0] one of them%s",
                  times ? "; a list is repeated by [64 for i in range(3)]" : "");
    else if (v.kind == KindList && times)
        diag_help(e->f, "a list is repeated by [conv(64, k=3) for i in range(3)], three layers");
    else if (v.kind == KindList)
        diag_help(e->f, "take an element, v[0], or unpack it: a, b = v; sum(v) adds the elements "
                        "up, mean(stack(v), axis(0)) averages them, [...v, ...w] joins lists");
    else if (v.kind == KindNone)
        diag_help(
            e->f,
            "the value of a block is its last line: end it with an expression, not a binding");
    else if (v.kind == KindStr && str_to_double(v.str, &number))
        diag_help(e->f, "write the number without quotes: %.*s", SARG(v.str));
    else if (v.kind == KindObject)
        help_unapplied(e, v.object);
    else if (v.kind == KindAxes)
        diag_help(e->f, "axes are given under their name: concat(a, b, axis=axis(1))");
    else if (v.kind == KindFn || v.kind == KindBuiltin || v.kind == KindNet)
        diag_help(e->f, "call it with its tensor: f(x)");
}

// The function or operator that is being evaluated, as the user wrote it.
static const char *callee(Elab *e) {
    Str text = here(e).file ? span_text(e->f, here(e)) : STR("");
    bool word = text.len && str_find(text, ' ') == text.len && str_find(text, '\n') == text.len;
    return word ? str_format(e->perm, "`%.*s`", SARG(text)).ptr : "an operand";
}

bool want_tensor(Elab *e, Value v, Val *out) {
    switch (v.kind) {
    case KindNum:
    case KindBool:
        if (isnan(v.num)) {
            diag(e->f, DiagE0322, here(e));
            in_library(e);
            return false;
        }
        *out = Number(e->to->at, v.num);
        return true;
    case KindTensor:
        *out = import(e, v.tensor.val);
        return out->id != 0;
    case KindSlot:
        if (!given_weight(e, v.id, out))
            *out = slot_read(e, v.id);
        return out->id != 0;
    case KindScalar:
        *out = read_scalar(e, v.id);
        return true;
    case KindField: {
        Value read = read_field(e, v.id);
        if (read.kind == KindPoison)
            return false;
        *out = read.tensor.val;
        return true;
    }
    case KindPoison:
        return false;
    case KindAbsent:
    case KindNone:
    case KindStr:
    case KindList:
    case KindAxes:
    case KindFn:
    case KindObject:
    case KindBuiltin:
    case KindNet:
        break;
    }
    if (!poisoned(v)) {
        expected(e, "a tensor or a number", callee(e), v);
        help_operand(e, v);
    }
    return false;
}
