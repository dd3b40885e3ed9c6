// param.c - what a parameter declares behind its colon: a shape, a class, a range of numbers, or
// that it is given by name.
//
//   x: [c, ...size]       a tensor, or a number where the shape is []
//   y: label(k)           one class a sample
//   rate: number(0, 1)    one number; in this range where it is known at compile time
//   n: whole(1)           a whole number known at compile time; wholes: also a list of them
//   bias: option()        anything, by name: f(bias=1)
//
// In: the declaration and the argument. Out: the argument, or a diagnostic with what is expected.
#include "elab.h"

#include <math.h>
#include <string.h>

// --- classes -------------------------------------------------------------------------------------

static bool is_call_of(const Ast *kind, const char *name) {
    return kind->kind == AstCall && kind->a->kind == AstName && str_eq(kind->a->text, str_c(name));
}

bool is_class(const Ast *kind) {
    return is_call_of(kind, "label");
}

bool is_option(const Ast *kind) {
    return is_call_of(kind, "option");
}

bool want_classes(Elab *e, Env *env, const Ast *kind, int64_t *out) {
    Spot outer = spot_enter(e, kind);
    Args args = eval_args(e, env, kind, NULL);
    bool fine = args.n == 1;
    if (!fine)
        diag(e->f, DiagE0602, kind->span, "label", 1, "1", "", args.n);
    fine = fine && want_int(e, args.at[0].value, "label", out);
    if (fine && (*out < 1 || *out > INT32_MAX)) {
        diag(e->f, DiagE0306, here(e), "label", "a number of classes from 1 to 2^31 - 1",
             SARG(value_text(e, args.at[0].value)));
        fine = false;
    }
    spot_leave(e, outer);
    return fine;
}

static bool is_class_number(double x, int64_t classes) {
    return x >= 0 && x < (double)classes && x == floor(x);
}

// `y: label(k)`: one class a sample. What knows its classes has k of them; any other number is
// told.
static bool match_class(Elab *e, Env *env, const Ast *p, Value *v, Str who) {
    int64_t classes, known = v->kind == KindTensor ? v->tensor.classes : 0;
    Val val;
    if (!want_classes(e, env, p->a, &classes) || !want_tensor(e, *v, &val))
        return false;
    Type t = val_type(val);
    bool outside = v->kind == KindBool || (v->kind == KindNum && !is_class_number(v->num, classes));
    if (!t.rank && !outside && (!known || known == classes)) {
        *v = value_class(val, classes);
        return true;
    }
    Str wanted = str_format(e->perm, "label(%lld)", (long long)classes);
    Str found = known     ? str_format(e->perm, "label(%lld)", (long long)known)
                : outside ? value_text(e, *v)
                          : type_text(e->perm, &t);
    diag(e->f, DiagE0401, here(e), SARG(who), SARG(p->text), SARG(wanted), SARG(found));
    diag_help(e->f, "give it a class from 0 to %lld: a label of the data, or categorical(%lld)",
              (long long)classes - 1, (long long)classes);
    if (t.rank == 1 && t.dim[0] == classes && e->f->source.at[p->span.file - 1].library)
        help_called(e, who);
    diag_note(e->f, p->a->span, "%.*s is expected here", SARG(wanted));
    if (!value_is_plain(*v))
        note_origin(e, val);
    return false;
}

// --- ranges --------------------------------------------------------------------------------------

typedef struct Range {
    bool whole, list;
    double low, high;    // inclusive; infinite: none
    double above, below; // exclusive; infinite: none
} Range;

static const char *const range_words[] = {"number", "whole", "wholes"};

bool is_range(const Ast *kind) {
    for (size_t i = 0; i < sizeof range_words / sizeof *range_words; i++)
        if (is_call_of(kind, range_words[i]))
            return true;
    return false;
}

// The bounds by position, low and high, or by name.
static bool want_range(Elab *e, Env *env, const Ast *kind, Range *out) {
    static const char *const names[] = {"low", "high", "above", "below"};
    double bound[] = {-INFINITY, INFINITY, -INFINITY, INFINITY};
    Spot outer = spot_enter(e, kind);
    Args args = eval_args(e, env, kind, NULL);
    bool fine = true;
    uint32_t next = 0;
    for (uint32_t i = 0; fine && i < args.n; i++) {
        uint32_t at = args.at[i].name.len ? 0 : next++;
        while (args.at[i].name.len && at < 4 && !str_eq(args.at[i].name, str_c(names[at])))
            at++;
        fine = at < (args.at[i].name.len ? 4u : 2u);
        if (!fine)
            diag(e->f, DiagE0325, args.at[i].span, SARG(kind->a->text));
        bool known = !value_is_tensor(args.at[i].value); // an earlier parameter may be a schedule
        fine = fine && (!known || want_num(e, args.at[i].value, names[at], &bound[at]));
    }
    spot_leave(e, outer);
    *out = (Range){!str_eq(kind->a->text, STR("number")),
                   str_eq(kind->a->text, STR("wholes")),
                   bound[0],
                   bound[1],
                   bound[2],
                   bound[3]};
    return fine;
}

static Str range_text(Elab *e, const Range *r) {
    Text t = {.arena = e->perm};
    bool low = isfinite(r->low), high = isfinite(r->high);
    text_fmt(&t, r->whole ? "a whole number" : "a number");
    if (low)
        text_fmt(&t, " %s%.15g%s", high || isfinite(r->below) ? "from " : "of ", r->low,
                 high || isfinite(r->below) ? "" : " or more");
    if (isfinite(r->above))
        text_fmt(&t, " above %.15g", r->above);
    if (high)
        text_fmt(&t, "%s to %.15g", low ? "" : " up", r->high);
    if (isfinite(r->below))
        text_fmt(&t, "%s below %.15g", low ? " to" : "", r->below);
    if (r->list)
        text_put(&t, STR(", or a list of them"));
    return text_str(&t);
}

static bool in_range(const Range *r, Value v) {
    bool fine = value_is_plain(v) && isfinite(v.num) && (!r->whole || v.num == floor(v.num)) &&
                v.num >= r->low && v.num <= r->high && v.num > r->above && v.num < r->below;
    for (uint32_t i = 0; r->list && v.kind == KindList && i < v.list.n; i++)
        if (!in_range(r, v.list.at[i]))
            return false;
    return fine || (r->list && v.kind == KindList);
}

void help_wrapped_layer(Elab *e, Str who) {
    diag_help(e->f,
              "a layer is no argument: x |> LAYER |> %.*s; what changes its weights is its option, "
              "conv(64, k=3, reparam=spectral_norm)",
              SARG(who));
}

// A parameter with a shape or a class was given neither a number nor a tensor.
static void refuse_kind(Elab *e, const Ast *p, Value v, Str who) {
    bool class = is_class(p->a),
         number = is_range(p->a) || (p->a->kind == AstList && !p->a->list.n);
    double quoted;
    diag(e->f, DiagE0402, here(e), SARG(who), SARG(p->text),
         class    ? "class"
         : number ? "number"
                  : "tensor",
         value_what(v));
    if ((class || number) && v.kind == KindStr && str_to_double(v.str, &quoted))
        diag_help(e->f, "write the number without quotes: %.*s", SARG(v.str));
    else if (class)
        diag_help(e->f, "give it a label of the data, categorical(k) or a class's number");
    else if (number && v.kind == KindObject && v.object->fn->ast->b->list.n == 1)
        help_wrapped_layer(e, who); // an optimizer has two, w and g
    else if (number)
        diag_help(e->f, "give it one number; options have names: %.*s(%.*s=...)", SARG(who),
                  SARG(p->text));
    in_library(e);
}

// A number of a range; one that is known only when it runs has the shape of a number.
static bool match_range(Elab *e, Env *env, const Ast *p, Value v, Str who) {
    Range r;
    Val val;
    if (!want_range(e, env, p->a, &r))
        return false;
    bool tensor = value_is_tensor(v);
    if (tensor && !want_tensor(e, v, &val))
        return false;
    if (tensor && !r.whole && !val_type(val).rank)
        return true;
    if (!tensor && !value_is_plain(v) && !(r.list && v.kind == KindList)) {
        refuse_kind(e, p, v, who);
        return false;
    }
    if (in_range(&r, v))
        return true;
    Str wanted = range_text(e, &r);
    diag(e->f, DiagE0324, here(e), SARG(who), SARG(p->text), SARG(wanted), SARG(value_text(e, v)));
    if (tensor)
        diag_help(e->f, "give it %s; what a layer is applied to stands before it: x |> %.*s(...)",
                  r.whole ? "a number that is known when the model is compiled" : "one number",
                  SARG(who));
    else
        note_settings(e);
    diag_note(e->f, p->span, "`%.*s` is declared here", SARG(p->text));
    return false;
}

// --- any -----------------------------------------------------------------------------------------

bool match_parameter(Elab *e, Env *env, const Ast *p, Value *v, Str who) {
    Val val;
    if (is_option(p->a))
        return true;
    if (is_range(p->a))
        return match_range(e, env, p, *v, who);
    if (!value_is_tensor(*v) && !value_is_plain(*v)) {
        refuse_kind(e, p, *v, who);
        return false;
    }
    if (is_class(p->a))
        return match_class(e, env, p, v, who);
    if (!want_tensor(e, *v, &val))
        return false;
    bool fits = match_shape(e, env, p->a, val, who, p->text);
    long long classes = v->kind == KindTensor ? (long long)v->tensor.classes : 0;
    if (!fits && classes && e->f->source.at[p->span.file - 1].library)
        diag_help(e->f,
                  "a label is one class a sample: look at the order of the arguments, or give "
                  "it one_hot(y, %lld)",
                  classes);
    else if (!fits && classes)
        diag_help(e->f,
                  "a label is one class a sample: declare `%.*s: label(%lld)`, or give it "
                  "one_hot(y, %lld)",
                  SARG(p->text), classes, classes);
    return fits;
}
