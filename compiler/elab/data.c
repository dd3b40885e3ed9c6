// data.c - `data` statements: the fields of one stream, their types and transforms.
#include "elab.h"

#include <string.h>

typedef enum WordRole { RoleType, RoleMask, RoleTransform, RoleDraw } WordRole;
typedef struct Word {
    const char *name;
    WordRole role;
    uint32_t least, most; // arguments
    int what;             // FieldKind or XformKind
} Word;

static const Word words[] = {
    {"image", RoleType, 2, 4, FieldImage},          // channels, extents
    {"float", RoleType, 0, MAX_RANK, FieldFloat},   // extents
    {"label", RoleType, 1, 1, FieldLabel},          // number of classes
    {"known", RoleMask, 1, 1, XformKnown},          // a field before it
    {"resize", RoleTransform, 1, 1, XformResize},   // shorter side
    {"crop", RoleTransform, 1, 1, XformCrop},       // side
    {"flip", RoleTransform, 0, 0, XformFlip},       //
    {"scale", RoleTransform, 2, 2, XformScale},     // ends of the new range
    {"missing", RoleTransform, 1, 1, XformMissing}, // what a missing value becomes
    {"map", RoleTransform, 2, 2, XformMap},         // a function and its inverse
    {"balanced", RoleDraw, 0, 0, XformBalanced},    // each class equally often
    {"weight", RoleDraw, 0, 0, XformWeight},        // a sample as often as its number says
};
enum { WORDS = sizeof words / sizeof *words };

const char *data_word(uint32_t i) {
    return i < WORDS ? words[i].name : NULL;
}

static const Word *word_find(Elab *e, const Ast *a, Str name) {
    Str known[WORDS];
    for (uint32_t i = 0; i < WORDS; i++) {
        known[i] = str_c(words[i].name);
        if (str_eq(known[i], name))
            return &words[i];
    }
    Str near = str_nearest(name, known, WORDS);
    diag(e->f, DiagE0601, a->word.file ? a->word : a->span, SARG(name));
    help_name(e, name, near);
    return NULL;
}

static Str word_text(const Ast *a) {
    return a->kind == AstCall ? a->a->text : a->text;
}

// What is in a word's parentheses.
static Args word_args(Elab *e, Env *env, const Ast *a) {
    return a->kind == AstCall ? eval_args(e, env, a, NULL) : (Args){0};
}

// The same where it is numbers.
static bool word_numbers(Elab *e, Env *env, const Ast *a, const Word *w, double *out, uint32_t *n) {
    Args args = word_args(e, env, a);
    *n = args.n;
    if (args.n < w->least || args.n > w->most) {
        Str range = w->least == w->most ? str_format(e->perm, "%u", w->least)
                                        : str_format(e->perm, "%u to %u", w->least, w->most);
        diag(e->f, DiagE0602, a->span, w->name, SARG(range), w->most == 1 ? "" : "s", args.n);
        return false;
    }
    for (uint32_t i = 0; i < args.n; i++)
        if (!want_num(e, args.at[i].value, "a data word", &out[i]))
            return false;
    return true;
}

static bool set_type(Elab *e, const Ast *a, const Word *w, const double *x, uint32_t n,
                     Field *out) {
    Type t;
    Value extents[MAX_RANK];
    for (uint32_t i = 0; i < n; i++)
        extents[i] = value_num(x[i]);
    if (!want_extents(e, value_list(extents, n), w->name, true, &t))
        return false;
    out->kind = (FieldKind)w->what;
    out->span = a->span;
    if (out->kind == FieldLabel) {
        out->classes = t.dim[0];
        return true;
    }
    out->rank = t.rank;
    for (uint32_t i = 0; i < t.rank; i++)
        out->dim[i] = t.dim[i];
    return true;
}

static bool read_map(Elab *e, Env *env, const Ast *a, Field *out, FieldInfo *info) {
    Args args = word_args(e, env, a);
    bool two =
        args.n == 2 && (args.at[0].value.kind == KindNone) == (args.at[1].value.kind == KindNone);
    if (!two) {
        diag(e->f, DiagE0608, a->span, "`map` takes a function and its inverse");
        return false;
    }
    info->map = args.at[0].value;
    info->inverse = args.at[1].value;
    if (info->map.kind != KindNone)
        vec_push(e->perm, &out->xform, (Xform){.kind = XformMap});
    return info->map.kind != KindPoison && info->inverse.kind != KindPoison;
}

static bool field_is_mask(const Field *f) {
    return f->xform.n && f->xform.at[f->xform.n - 1].kind == XformKnown;
}

// The field of this statement that a mask is of; NULL: its word names none.
static const Field *masked(Elab *e, Env *env, const Ast *a, uint32_t *at) {
    uint32_t stream = e->m->stream.n - 1;
    Args args = word_args(e, env, a);
    const Value *v = args.n ? &args.at[0].value : NULL;
    if (v && v->kind == KindPoison)
        return NULL; // which has been said
    const FieldInfo *info = v && v->kind == KindField ? &e->field.at[v->id] : NULL;
    const Field *of = info && info->stream == stream ? info_field(e, info) : NULL;
    if (args.n != 1 || !of || of->kind != FieldFloat || field_is_mask(of)) {
        diag(e->f, DiagE0626, a->span);
        return NULL;
    }
    *at = info->field;
    return of;
}

// A mask is as its field is: of its shape, and moved as it is.
static bool set_mask(Elab *e, Env *env, const Ast *a, Field *out) {
    uint32_t at;
    const Field *of = masked(e, env, a, &at);
    if (!of)
        return false;
    out->kind = FieldFloat;
    out->span = a->span;
    out->rank = of->rank;
    memcpy(out->dim, of->dim, sizeof out->dim);
    for (uint32_t i = 0; i < of->xform.n; i++) {
        Xform x = of->xform.at[i];
        if (x.kind == XformResize || x.kind == XformCrop || x.kind == XformFlip)
            vec_push(e->perm, &out->xform, x);
    }
    vec_push(e->perm, &out->xform, ((Xform){.kind = XformKnown, .a = at}));
    return true;
}

static bool is_height(double x) { // in pixels; a fraction is left out
    return x >= 1 && x <= 65536;
}

// The height that the transforms so far give; 0: that of the pictures.
static int64_t height_of(const Field *f) {
    int64_t h = 0;
    for (uint32_t i = 0; i < f->xform.n; i++)
        if (f->xform.at[i].kind == XformResize || f->xform.at[i].kind == XformCrop)
            h = (int64_t)f->xform.at[i].a;
    return h;
}

static bool check_xform(Elab *e, const Ast *a, const Field *f, Xform x) {
    int64_t before = height_of(f);
    bool resizes = x.kind == XformResize || x.kind == XformCrop;
    if (f->rank != 3 && (resizes || x.kind == XformFlip))
        diag(e->f, DiagE0623, a->span, SARG(word_text(a)),
             SARG(value_text(e, extents_value(e, f->dim, f->rank))));
    else if (x.kind == XformMissing && f->kind != FieldFloat)
        diag(e->f, DiagE0625, a->span);
    else if (x.kind == XformScale && x.a == x.b)
        diag(e->f, DiagE0614, a->span, x.a, x.b);
    else if (resizes && !is_height(x.a))
        diag(e->f, DiagE0306, a->span, x.kind == XformCrop ? "crop" : "resize",
             "a height in pixels from 1 to 65536", SARG(str_double(e->perm, x.a)));
    else if (x.kind == XformCrop && before && (int64_t)x.a > before)
        diag(e->f, DiagE0615, a->span, (long long)x.a, (long long)before);
    else
        return true;
    return false;
}

// What the transforms give is what the type says.
static bool check_height(Elab *e, const Ast *field, const Field *f) {
    int64_t h = height_of(f);
    if (!h || f->rank != 3 || h == f->dim[1])
        return true;
    diag(e->f, DiagE0616, field->list.at[field->list.n - 1]->span, (long long)h,
         (long long)f->dim[1]);
    diag_note(e->f, field->list.at[0]->span, "the type is what the model reads");
    return false;
}

static bool read_draw(Elab *e, const Ast *a, XformKind kind, Field *out) {
    bool fits =
        kind == XformBalanced ? out->kind == FieldLabel : out->kind == FieldFloat && out->rank == 0;
    if (!fits)
        diag(e->f, kind == XformBalanced ? DiagE0617 : DiagE0618, a->span);
    vec_push(e->perm, &out->xform, (Xform){.kind = kind});
    return fits;
}

// Does it say how often samples are drawn?
static bool draws(const Field *f) {
    for (uint32_t i = 0; i < f->xform.n; i++)
        if (f->xform.at[i].kind == XformBalanced || f->xform.at[i].kind == XformWeight)
            return true;
    return false;
}

static bool check_draws(Elab *e, const Stream *s, const Field *f) {
    for (uint32_t i = 0; draws(f) && i < s->field.n; i++)
        if (draws(&s->field.at[i])) {
            diag(e->f, DiagE0619, f->span, SARG(s->field.at[i].name), SARG(f->name));
            return false;
        }
    return true;
}

static bool read_word(Elab *e, Env *env, const Ast *a, bool first, Field *out, FieldInfo *info) {
    Spot outer = spot_enter(e, a);
    Str name = word_text(a);
    double x[MAX_RANK];
    uint32_t n = 0;
    const Word *w = word_find(e, a, name);
    bool map = w && w->role == RoleTransform && w->what == XformMap,
         mask = w && w->role == RoleMask,
         fine = w && (map || mask || word_numbers(e, env, a, w, x, &n));
    if (fine && (mask || w->role == RoleType) != first) {
        diag(e->f, first ? DiagE0603 : DiagE0604, a->span, SARG(name));
        fine = false;
    } else if (fine && info->map.kind != KindNone) {
        diag(e->f, DiagE0608, a->span, "nothing follows `map`");
        fine = false;
    } else if (fine && mask) {
        fine = set_mask(e, env, a, out);
    } else if (fine && field_is_mask(out)) {
        diag(e->f, DiagE0627, a->span, SARG(name));
        fine = false;
    } else if (fine && w->role == RoleDraw) {
        fine = read_draw(e, a, (XformKind)w->what, out);
    } else if (fine && !first && out->kind == FieldLabel) {
        diag(e->f, DiagE0610, a->span, SARG(name));
        fine = false;
    } else if (fine && map) {
        fine = read_map(e, env, a, out, info);
    } else if (fine && first) {
        fine = set_type(e, a, w, x, n, out);
    } else if (fine) {
        Xform xform = {(XformKind)w->what, n > 0 ? x[0] : 0, n > 1 ? x[1] : 0};
        fine = check_xform(e, a, out, xform);
        vec_push(e->perm, &out->xform, xform);
    }
    spot_leave(e, outer);
    return fine;
}

// The i-th random change of place: a crop, as the height before it and its own, or a flip.
static Xform moved_by(const Field *f, uint32_t i) {
    double h = 0;
    for (uint32_t k = 0; k < f->xform.n; k++) {
        Xform x = f->xform.at[k];
        if (x.kind == XformFlip && i-- == 0)
            return x;
        if (x.kind == XformCrop && x.a != h && i-- == 0)
            return (Xform){XformCrop, x.a, h};
        if (x.kind == XformCrop || x.kind == XformResize)
            h = x.a;
    }
    return (Xform){.kind = XformScale};
}

static bool moved_alike(const Field *f, const Field *g) {
    for (uint32_t i = 0;; i++) {
        Xform x = moved_by(f, i), y = moved_by(g, i);
        if (x.kind != y.kind || x.a != y.a || x.b != y.b)
            return false;
        if (x.kind == XformScale)
            return true;
    }
}

// What lies at one place of two pictures that belong together is to stay at one place. A single
// pixel has none.
static void check_pairs(Elab *e, const Stream *s) {
    const Field *first = NULL;
    for (uint32_t i = 0; i < s->field.n; i++) {
        const Field *f = &s->field.at[i];
        if (f->kind == FieldLabel || f->rank != 3 || f->dim[1] * f->dim[2] == 1)
            continue;
        if (first && !moved_alike(first, f)) {
            diag(e->f, DiagW0921, f->span, SARG(first->name), SARG(f->name));
            return;
        }
        first = first ? first : f;
    }
}

void eval_data(Elab *e, Env *env, const Ast *a) {
    Stream stream = {0}; // as far as it is read, a field may speak of those before it
    uint32_t index = e->m->stream.n;
    vec_push(e->perm, &e->m->stream, stream);
    for (uint32_t i = 0; i < a->list.n; i++) {
        const Ast *field = a->list.at[i];
        Field f = {.name = field->text, .span = field->word};
        FieldInfo info = {.stream = index,
                          .field = stream.field.n,
                          .map = {.kind = KindNone},
                          .inverse = {.kind = KindNone}};
        bool fine = true;
        for (uint32_t k = 0; k < field->list.n && fine; k++)
            fine = read_word(e, env, field->list.at[k], k == 0, &f, &info);
        f.span = field->word;
        fine = fine && check_height(e, field, &f) && check_draws(e, &stream, &f);
        declare(e, field->text, field->word,
                fine ? (Value){.kind = KindField, .id = e->field.n} : POISON);
        if (!fine)
            continue;
        vec_push(e->perm, &e->field, info);
        vec_push(e->perm, &stream.field, f);
        e->m->stream.at[index] = stream;
    }
    check_pairs(e, &stream);
    for (uint32_t i = 0; i < stream.field.n; i++)
        note_worth(e, stream.field.at[i].span,
                   (Value){.kind = KindField, .id = e->field.n - stream.field.n + i});
}
