// make_expr.c - generates one operation on names, with the shape of its result (make.h). Functions
// that find no suitable operand bind nothing.
#include "make.h"

#include <stdarg.h>

// --- chance and names ----------------------------------------------------------------------------

uint32_t roll(Maker *k, uint32_t sides) {
    k->state = k->state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((k->state >> 33) % sides);
}

bool chance(Maker *k, uint32_t percent) {
    return roll(k, 100) < percent;
}

static void put_line(Maker *k, const char *start, const char *fmt, va_list args) {
    char text[1000];
    vsnprintf(text, sizeof text, fmt, args);
    for (uint32_t i = 0; i < k->indent; i++)
        text_put(&k->text, STR("  "));
    text_fmt(&k->text, "%s%s\n", start, text);
}

void line(Maker *k, const char *fmt, ...) {
    va_list args;
    va_start(args, fmt);
    put_line(k, "", fmt, args);
    va_end(args);
}

Known *known_add(Maker *k, const char *name, Type t) {
    if (k->n == MAX_NAMES)
        bug("a random model of too many names");
    Known *v = &k->known[k->n++];
    *v = (Known){.type = t};
    snprintf(v->name, sizeof v->name, "%s", name);
    return v;
}

const Known *known_any(Maker *k) {
    uint32_t recent = k->n > 6 && chance(k, 50) ? 6 : k->n; // chains, and long live ranges
    return &k->known[k->n - 1 - roll(k, recent)];
}

const Known *known_some(Maker *k, bool (*fits)(const Maker *k, const Known *v)) {
    for (int i = 0; i < 24; i++) {
        const Known *v = known_any(k);
        if (fits(k, v))
            return v;
    }
    return NULL;
}

const Known *bind_value(Maker *k, Type t, const char *fmt, ...) {
    va_list args;
    char name[24];
    if (t.rank > MAX_RANK || type_sample(&t) > k->most || type_sample(&t) < 1)
        return NULL;
    snprintf(name, sizeof name, "v%u", k->made++);
    va_start(args, fmt);
    put_line(k, str_format(k->text.arena, "%s = ", name).ptr, fmt, args);
    va_end(args);
    return known_add(k, name, t);
}

// --- questions -----------------------------------------------------------------------------------

static bool is_number(const Maker *k, const Known *v) { // not a label: that has classes, not a size
    (void)k;
    return !v->classes;
}
static bool has_axes(const Maker *k, const Known *v) {
    return is_number(k, v) && v->type.rank >= 1;
}
static bool has_two(const Maker *k, const Known *v) {
    return is_number(k, v) && v->type.rank >= 2;
}
static bool is_batched(const Maker *k, const Known *v) {
    return is_number(k, v) && v->type.batched;
}
static bool has_room(const Maker *k, const Known *v) {
    return is_number(k, v) && v->type.rank < MAX_RANK;
}
static bool is_complex(const Maker *k, const Known *v) {
    return has_two(k, v) && v->type.dim[0] == 2;
}
static bool is_label(const Maker *k, const Known *v) {
    (void)k;
    return v->classes > 0;
}
static bool is_table(const Maker *k, const Known *v) {
    return has_axes(k, v) && !v->type.batched;
}

// The shape that both broadcast to, from the left; false if extents differ.
static bool broadcast(Type a, Type b, Type *out) {
    *out = a.rank >= b.rank ? a : b;
    out->batched = a.batched || b.batched;
    for (uint32_t i = 0; i < out->rank; i++) {
        int64_t x = i < a.rank ? a.dim[i] : 1, y = i < b.rank ? b.dim[i] : 1;
        if (x != y && x != 1 && y != 1)
            return false;
        out->dim[i] = x > y ? x : y;
    }
    return true;
}

static const Known *fitting(Maker *k, const Known *a, Type *both) {
    for (int i = 0; i < 24; i++) {
        const Known *b = known_some(k, is_number);
        if (b && broadcast(a->type, b->type, both) && type_sample(both) <= k->most)
            return b;
    }
    return NULL;
}

// --- elementwise ---------------------------------------------------------------------------------

static void make_unary(Maker *k) {
    static const char *const form[] = {
        "tanh(%s)",
        "sigmoid(%s)",
        "softplus(%s)",
        "sin(%s)",
        "cos(2*%s)",
        "erf(%s)",
        "exp(tanh(%s))",
        "log(softplus(%s) + 0.1)",
        "sqrt(%s^2 + 0.05)",
        "abs(%s)",
        "sign(%s)",
        "floor(3*%s)",
        "-%s",
        "0.7*%s",
        "%s - 0.3",
        "1/(1 + %s^2)",
        "relu(%s)",
        "leaky_relu(%s, 0.2)",
        "elu(%s)",
        "silu(%s)",
        "gelu(%s)",
        "mish(%s)",
        "clamp(%s, -0.5, 0.6)",
        "stop(%s)",
        "%s^3/4",
        "max(%s, 0)",
        "min(%s, 0.25)",
        "2^tanh(%s)",
        "%s*1 + 0",
        "%s/8",
        "where(%s > 0, 1, -1)",
        "abs(%s)^1.5",
    };
    const Known *v = known_some(k, is_number);
    if (v)
        bind_value(k, v->type, PICK(k, form), v->name);
}

static void make_binary(Maker *k) {
    static const char *const form[] = {
        "%s + %s",
        "%s - %s",
        "%s*%s",
        "tanh(%s)*%s",
        "%s/(abs(%s) + 0.5)",
        "max(%s, %s)",
        "min(%s, %s)",
        "mix(%s, %s, 0.3)",
        "%s*(%s > 0)",
        "(%s >= %s)*0.5",
        "(%s < %s) + 0.25",
        "(%s == %s)*0.5",
        "sigmoid(%s) + tanh(%s)",
        "%s*2 - %s*0.5",
        "(%s + 0.1)*stop(%s)",
        "abs(%s) %% (abs(%s) + 0.7)",
        "(abs(%s) + 0.4)^tanh(%s)",
    };
    Type both;
    const Known *a = known_some(k, is_number), *b = a ? fitting(k, a, &both) : NULL;
    if (!b)
        return;
    if (chance(k, 50))
        bind_value(k, both, PICK(k, form), b->name, a->name);
    else
        bind_value(k, both, PICK(k, form), a->name, b->name);
}

static void make_where(Maker *k) {
    Type both, all;
    const Known *a = known_some(k, is_number), *b = a ? fitting(k, a, &both) : NULL,
                *c = b ? known_some(k, is_number) : NULL;
    if (!c || !broadcast(both, c->type, &all))
        return;
    if (chance(k, 50))
        bind_value(k, all, "where(%s > 0.1, %s, %s)", a->name, b->name, c->name);
    else
        bind_value(k, all, "mix(%s, %s, sigmoid(%s))", a->name, b->name, c->name);
}

// --- reductions ----------------------------------------------------------------------------------

typedef struct Axes { // as text and as a mask: bit 0 the batch, bit 1 + i axis i
    const char *text;
    uint32_t mask;
} Axes;

static Axes axes_list(Maker *k, const Type *t, bool batch) {
    Text text = {.arena = k->text.arena};
    uint32_t mask = 0;
    for (uint32_t i = 0; i <= t->rank; i++) {
        if ((i == 0 && !batch) || chance(k, 50))
            continue;
        text_fmt(&text, mask ? ", " : "[");
        text_fmt(&text, i ? "axis(%u)" : "batch", i - 1);
        mask |= 1u << i;
    }
    text_put(&text, STR("]"));
    return (Axes){mask ? text_str(&text).ptr : NULL, mask};
}

// Some of v's axes; text NULL if it has none.
static Axes some_axes(Maker *k, const Type *t, bool batch) {
    uint32_t every = ((1u << t->rank) - 1) << 1, space = every & ~2u;
    batch = batch && t->batched;
    switch (roll(k, 6)) {
    case 0:
        return (Axes){every ? "sample" : NULL, every};
    case 1:
        return (Axes){every ? "channel" : NULL, 2};
    case 2:
        return (Axes){space ? "space" : NULL, space};
    case 3:
        if (batch)
            return space ? (Axes){"[batch, space]", 1 | space} : (Axes){"batch", 1};
        break;
    default:
        break;
    }
    return axes_list(k, t, batch);
}

static Type reduced(Type t, uint32_t mask, bool keep) {
    Type out = {.batched = t.batched && !(mask & 1)};
    for (uint32_t i = 0; i < t.rank; i++)
        if (!(mask >> (1 + i) & 1))
            out.dim[out.rank++] = t.dim[i];
        else if (keep)
            out.dim[out.rank++] = 1;
    return out;
}

static void make_mean(Maker *k) {
    const Known *v = known_some(k, is_number);
    static const char *const form[] = {"mean(%s, %s%s)", "0.3*sum(%s, %s%s)", "mean(%s^2, %s%s)",
                                       "var(%s, %s%s)"};
    if (!v)
        return;
    Axes axes = some_axes(k, &v->type, true);
    bool keep = chance(k, 40);
    if (axes.text)
        bind_value(k, reduced(v->type, axes.mask, keep), PICK(k, form), v->name, axes.text,
                   keep ? ", keep=true" : "");
}

static void make_group_mean(Maker *k) {
    const Known *v = known_some(k, is_batched);
    if (!v)
        return;
    uint32_t every = ((1u << v->type.rank) - 1) << 1, mask = chance(k, 50) ? every & ~2u : 0;
    int64_t group = k->batch % 2 || chance(k, 30) ? k->batch : 2;
    Type t = reduced(v->type, mask, false);
    bind_value(k, t, "mean(%s, %s, %lld)", v->name, mask ? "[batch, space]" : "batch",
               (long long)group);
}

static void make_greatest(Maker *k) {
    static const char *const form[] = {"max(%s, %s%s)", "min(%s, %s%s)", "0.1*argmax(%s, %s%s)"};
    const Known *v = known_some(k, has_axes);
    if (!v)
        return;
    Axes axes = some_axes(k, &v->type, true);
    bool keep = chance(k, 60);
    if (!axes.text)
        return;
    Type t = reduced(v->type, axes.mask, keep);
    const Known *m = bind_value(k, t, PICK(k, form), v->name, axes.text, keep ? ", keep=true" : "");
    if (m && keep && chance(k, 60)) // the maximum compared with the values it comes from
        bind_value(k, v->type, chance(k, 50) ? "where(%s >= %s, 1, 0)" : "(%s == %s)*0.5", v->name,
                   m->name);
}

static void make_softmax(Maker *k) {
    const Known *v = known_some(k, has_axes);
    Axes axes = v ? some_axes(k, &v->type, true) : (Axes){0};
    if (axes.text)
        bind_value(k, v->type, chance(k, 70) ? "softmax(%s, %s)" : "standard(%s, %s, 0.01)",
                   v->name, axes.text);
}

static void make_norm(Maker *k) {
    static const char *const form[] = {"norm(%s, 0.01)", "norm2(%s)/4", "norm(unit(%s + 0.5))"};
    const Known *v = known_some(k, is_number);
    Type t = {.batched = v && v->type.batched};
    if (v)
        bind_value(k, t, PICK(k, form), v->name);
}

// Along one axis of a table of all pairs: the distance to the nearest.
static void make_nearest(Maker *k) {
    static const char *const form[] = {
        "min(sum((unsqueeze(%s, 2) - unsqueeze(%s, 1))^2, channel), axis(%u))",
        "max(einsum(\"dp,dq->pq\", %s, %s), axis(%u))",
        "max(sum(unsqueeze(%s, 2)*unsqueeze(tanh(%s), 1), channel), axis(%u))",
        "log(min(sum((unsqueeze(%s, 2) - unsqueeze(%s, 1))^2, channel), axis(%u)) + 0.1)",
    };
    const Known *a = known_some(k, has_two), *b = known_some(k, has_two);
    for (int i = 0; i < 12 && b && (b->type.rank != 2 || b == a); i++)
        b = known_some(k, has_two);
    if (!a || !b || a->type.rank != 2 || b->type.rank != 2 || a->type.dim[0] != b->type.dim[0])
        return;
    uint32_t over = roll(k, 2);
    Type t = {.batched = a->type.batched || b->type.batched,
              .rank = 1,
              .dim = {over ? a->type.dim[1] : b->type.dim[1]}};
    if (a->type.dim[1] * b->type.dim[1] <= k->most)
        bind_value(k, t, PICK(k, form), a->name, b->name, over);
}

// Functions of the library that keep a value's shape.
static void make_library(Maker *k) {
    static const char *const form[] = {
        "selu(%s)",
        "log_softmax(%s, sample)/4",
        "unit(%s + 0.5)",
        "brightness(%s)",
        "contrast(%s)",
        "sometimes(%s, tanh, 0.6)",
        "erfinv(tanh(%s)/2)",
        "%s*0.2 + logsumexp(%s, sample)/4",
        "cosine_similarity(%s, tanh(%s)) + %s",
        "%s - 0.5*median(%s)",
        "warp(%s, stack(stack(0.8, 0.3), stack(-0.2, 0.9)))",
        "rotate(%s, 0.4)",
        "zoom(%s, 1.3, padding_mode=\"zeros\")",
        "cutout(%s)",
    };
    enum { Forms = sizeof form / sizeof *form, Maps = 4 }; // the last: of pictures
    const Known *v = known_some(k, has_axes);
    uint32_t forms = v && v->type.rank == 3 && v->type.batched ? Forms : Forms - Maps;
    if (v && v->type.batched)
        bind_value(k, v->type, form[roll(k, forms)], v->name, v->name, v->name);
}

// --- shapes --------------------------------------------------------------------------------------

static const char *dims(Maker *k, const Type *t) {
    Text text = {.arena = k->text.arena};
    for (uint32_t i = 0; i < t->rank; i++)
        text_fmt(&text, "%s%lld", i ? ", " : "", (long long)t->dim[i]);
    text_put(&text, STR(""));
    return text_str(&text).ptr;
}

static void make_reshape(Maker *k) {
    const Known *v = known_some(k, has_axes);
    if (!v)
        return;
    Type t = {.batched = v->type.batched};
    int64_t left = type_sample(&v->type);
    for (uint32_t parts = roll(k, 4); parts > 0 && left > 1; parts--) {
        int64_t d = 1 + roll(k, 6);
        if (left % d == 0)
            t.dim[t.rank++] = d, left /= d;
    }
    t.dim[t.rank++] = left;
    bind_value(k, t, "reshape(%s, %s)", v->name, dims(k, &t));
}

static void make_permute(Maker *k) {
    const Known *v = known_some(k, has_two);
    if (!v)
        return;
    uint32_t n = v->type.rank, order[MAX_RANK] = {0};
    Type t = v->type;
    Text text = {.arena = k->text.arena};
    for (uint32_t i = 0; i < n; i++) {
        uint32_t j = roll(k, i + 1);
        order[i] = order[j];
        order[j] = i;
    }
    for (uint32_t i = 0; i < n; i++) {
        t.dim[i] = v->type.dim[order[i]];
        text_fmt(&text, ", %u", order[i]);
    }
    bind_value(k, t, "permute(%s%s)", v->name, text_str(&text).ptr);
}

static void make_slice(Maker *k) {
    const Known *v = known_some(k, has_axes);
    if (!v)
        return;
    Type t = v->type;
    uint32_t axis = roll(k, t.rank < 3 ? t.rank : 3);
    int64_t n = t.dim[axis], from = roll(k, (uint32_t)n),
            to = from + 1 + roll(k, (uint32_t)(n - from));
    if (axis == 0 && chance(k, 40)) {
        for (uint32_t i = 1; i < t.rank; i++)
            t.dim[i - 1] = t.dim[i];
        t.rank--;
        t.dim[t.rank] = 0;
        bind_value(k, t, "%s[%lld]", v->name, (long long)(chance(k, 30) ? from - n : from));
        return;
    }
    static const char *const before[] = {"", ":, ", ":, :, "};
    t.dim[axis] = to - from;
    bind_value(k, t, "%s[%s%lld:%lld]", v->name, before[axis], (long long)from, (long long)to);
}

static void make_join(Maker *k) {
    const Known *a = known_some(k, has_axes), *b = a;
    if (!a)
        return;
    uint32_t axis = roll(k, a->type.rank);
    for (int i = 0; i < 16; i++) {
        const Known *c = known_any(k);
        Type t = c->type;
        if (t.rank == a->type.rank && !c->classes) {
            t.dim[axis] = a->type.dim[axis];
            t.batched = a->type.batched;
            b = type_same_shape(&t, &a->type) ? c : b;
        }
    }
    Type t = a->type;
    t.batched = t.batched || b->type.batched;
    if (type_same_shape(&b->type, &a->type) && chance(k, 40)) {
        Type s = {.batched = t.batched, .rank = (uint8_t)(t.rank + 1), .dim = {2}};
        for (uint32_t i = 0; i < t.rank && i + 1 < MAX_RANK; i++)
            s.dim[i + 1] = t.dim[i];
        if (t.rank < MAX_RANK)
            bind_value(k, s, "stack(%s, %s)", a->name, b->name);
        return;
    }
    t.dim[axis] += b->type.dim[axis];
    if (chance(k, 50))
        bind_value(k, t, "concat(%s, %s, axis=axis(%u))", a->name, b->name, axis);
    else
        bind_value(k, t, "concat(%s, -%s, axis=axis(%u))", a->name, b->name, axis);
}

static void make_expand(Maker *k) {
    const Known *v = known_some(k, has_room);
    if (!v)
        return;
    Type t = v->type;
    if (chance(k, 50) && t.rank < 4) {
        uint32_t at = roll(k, t.rank + 1u);
        for (uint32_t i = t.rank; i > at; i--)
            t.dim[i] = t.dim[i - 1];
        t.dim[at] = 1;
        t.rank++;
        bind_value(k, t, "unsqueeze(%s, %u)", v->name, at);
        return;
    }
    for (uint32_t i = 0; i < t.rank; i++)
        t.dim[i] = t.dim[i] == 1 ? 1 + roll(k, 4) : t.dim[i];
    if (t.rank < 4)
        t.dim[t.rank++] = 1 + roll(k, 4);
    bind_value(k, t, "expand(%s, %s)", v->name, dims(k, &t));
}

static void make_flip(Maker *k) {
    const Known *v = known_some(k, has_axes);
    if (v)
        bind_value(k, v->type, "flip(%s, axis(%u))", v->name, roll(k, v->type.rank));
}

static void make_squeeze(Maker *k) {
    const Known *v = known_some(k, has_axes);
    if (!v)
        return;
    Type t = {.batched = v->type.batched}, flat = {.batched = t.batched, .rank = 1};
    for (uint32_t i = 0; i < v->type.rank; i++)
        if (v->type.dim[i] != 1)
            t.dim[t.rank++] = v->type.dim[i];
    flat.dim[0] = type_sample(&v->type);
    if (chance(k, 50))
        bind_value(k, t, "squeeze(%s)", v->name);
    else
        bind_value(k, flat, "flatten(%s)", v->name);
}

// Over spatial axes: all after the first.
static void make_space(Maker *k) {
    const Known *v = known_some(k, has_two);
    if (!v)
        return;
    Type t = v->type;
    bool even = true, more = true;
    for (uint32_t i = 1; i < t.rank; i++) {
        even = even && t.dim[i] % 2 == 0;
        more = more && t.dim[i] > 1;
    }
    switch (roll(k, 4)) {
    case 0:
        for (uint32_t i = 1; i < t.rank && more; i++)
            t.dim[i] += 2;
        if (more)
            bind_value(k, t, "reflect_pad(%s, 1)", v->name);
        return;
    case 1:
        for (uint32_t i = 1; i < t.rank; i++)
            t.dim[i] *= 2;
        bind_value(k, t, chance(k, 50) ? "upsample(%s, 2)" : "upsample_linear(%s)", v->name);
        return;
    case 2:
        for (uint32_t i = 1; i < t.rank && even; i++)
            t.dim[i] /= 2;
        if (even && t.rank < MAX_RANK)
            bind_value(k, t, chance(k, 50) ? "avg_pool(%s, 2)" : "max_pool(%s, 2)", v->name);
        return;
    default:
        if (t.rank == 3 && t.dim[0] % 4 == 0) {
            t.dim[0] /= 4, t.dim[1] *= 2, t.dim[2] *= 2;
            bind_value(k, t, "pixel_shuffle(%s, 2)", v->name);
        }
    }
}

// Windows that overlap, leave gaps, or reach beyond the border.
static void make_pool(Maker *k) {
    const Known *v = known_some(k, has_two);
    int64_t n = 1 + roll(k, 3), stride = 1 + roll(k, 3), pad = roll(k, (uint32_t)n);
    if (!v || (stride == n && !pad))
        return;
    Type t = v->type;
    for (uint32_t i = 1; i < t.rank; i++) {
        if (t.dim[i] + 2 * pad < n)
            return;
        t.dim[i] = (t.dim[i] + 2 * pad - n) / stride + 1;
    }
    if (t.rank < MAX_RANK)
        bind_value(k, t, "%s_pool(%s, %lld, stride=%lld, pad=%lld)", chance(k, 50) ? "avg" : "max",
                   v->name, (long long)n, (long long)stride, (long long)pad);
}

static void make_resize(Maker *k) {
    static const char *const form[] = {"linear", "cubic", "nearest"};
    const Known *v = known_some(k, has_two);
    int64_t size = 1 + roll(k, 6);
    if (!v)
        return;
    Type t = v->type;
    for (uint32_t i = 1; i < t.rank; i++)
        t.dim[i] = size;
    bind_value(k, t, "resize_%s(%s, %lld)", PICK(k, form), v->name, (long long)size);
}

static void make_move(Maker *k) {
    static void (*const moves[])(Maker *) = {
        make_reshape, make_permute, make_slice, make_join, make_expand,
        make_flip,    make_squeeze, make_space, make_pool, make_resize,
    };
    PICK(k, moves)(k);
}

// --- products and transforms ---------------------------------------------------------------------

// A letter for each axis: axes of equal extents may share one. Each letter is kept or summed.
static void make_einsum(Maker *k) {
    const Known *a = known_some(k, has_axes), *b = known_some(k, has_axes);
    char rule[3][MAX_RANK + 1] = {{0}};
    Type t = {.rank = 0};
    int64_t terms = 1;
    if (!a || !b || a->type.rank + b->type.rank > 7)
        return;
    t.batched = a->type.batched || b->type.batched;
    uint32_t of[MAX_RANK] = {0}; // 1 + the axis of a that shares a letter with axis i of b
    for (uint32_t i = 0; i < a->type.rank; i++)
        rule[0][i] = (char)('a' + i);
    for (uint32_t i = 0; i < b->type.rank; i++) {
        rule[1][i] = (char)('p' + i);
        for (uint32_t j = 0; j < a->type.rank && !of[i]; j++) {
            bool taken = false;
            for (uint32_t l = 0; l < i; l++)
                taken = taken || of[l] == j + 1;
            if (!taken && a->type.dim[j] == b->type.dim[i] && chance(k, 80))
                of[i] = j + 1, rule[1][i] = (char)('a' + j);
        }
    }
    for (uint32_t p = 0; p < 2; p++) {
        const Type *from = p ? &b->type : &a->type;
        for (uint32_t i = 0; i < from->rank; i++) {
            bool both = p && of[i];
            if (both)
                continue;
            if (t.rank < MAX_RANK && chance(k, 60)) {
                rule[2][t.rank] = rule[p][i];
                t.dim[t.rank++] = from->dim[i];
            } else
                terms *= from->dim[i];
        }
    }
    if (terms * type_sample(&t) > 1 << 16)
        return;
    bind_value(k, t, "einsum(\"%s,%s->%s\", %s, %s)/%lld", rule[0], rule[1], rule[2], a->name,
               b->name, (long long)(terms > 4 ? terms / 2 : 2));
}

static void make_fft(Maker *k) {
    const Known *v = known_some(k, chance(k, 50) ? is_complex : has_axes);
    if (!v)
        return;
    Type t = v->type;
    int64_t last = t.dim[t.rank - 1];
    if (t.rank >= 2 && t.dim[0] == 2 && chance(k, 60)) {
        if (chance(k, 60)) {
            bind_value(k, t, chance(k, 50) ? "fft(%s)/2" : "ifft(%s)", v->name);
            return;
        }
        int64_t n = 2 * (last - 1) + roll(k, 2);
        Type real = {.batched = t.batched, .rank = (uint8_t)(t.rank - 1)};
        for (uint32_t i = 1; i < t.rank; i++)
            real.dim[i - 1] = t.dim[i];
        real.dim[real.rank - 1] = n;
        if (n >= 1)
            bind_value(k, real, "irfft(%s, %lld)", v->name, (long long)n);
        return;
    }
    if (t.rank >= MAX_RANK)
        return;
    Type z = {.batched = t.batched, .rank = (uint8_t)(t.rank + 1), .dim = {2}};
    for (uint32_t i = 0; i < t.rank; i++)
        z.dim[i + 1] = t.dim[i];
    z.dim[z.rank - 1] = last / 2 + 1;
    bind_value(k, z, "rfft(%s)/2", v->name);
}

static void make_sort(Maker *k) {
    const Known *v = known_some(k, has_axes), *by = known_some(k, has_axes);
    if (v && by && type_same_shape(&v->type, &by->type) && chance(k, 50))
        bind_value(k, v->type, "sort_by(%s, %s)", v->name, by->name);
    else if (v)
        bind_value(k, v->type, "sort(%s)", v->name);
}

// Along the last axis.
static void make_scan(Maker *k) {
    static const char *const form[] = {"cumsum(%s)/4", "cumprod(tanh(%s))", "0.1*argsort(%s)"};
    const Known *v = known_some(k, has_axes);
    if (!v)
        return;
    Type t = v->type;
    int64_t *last = &t.dim[t.rank - 1];
    if (chance(k, 60)) {
        bind_value(k, t, PICK(k, form), v->name);
    } else {
        *last = 1 + roll(k, (uint32_t)*last);
        bind_value(k, t, "topk(%s, %lld)", v->name, (long long)*last);
    }
}

// Samples of the whole batch as one shared value, or sums of them by class.
static void make_all(Maker *k) {
    const Known *v = known_some(k, is_batched), *y = known_some(k, is_label);
    if (!v || v->type.rank == MAX_RANK)
        return;
    Type t = {.rank = (uint8_t)(v->type.rank + 1), .dim = {y ? y->classes : k->batch}};
    for (uint32_t i = 0; i < v->type.rank; i++)
        t.dim[i + 1] = v->type.dim[i];
    if (y)
        bind_value(k, t, "scatter(%s, %s, %lld, per=batch)", v->name, y->name,
                   (long long)y->classes);
    else
        bind_value(k, t, "all_gather(%s)", v->name);
}

// Indices that differ from sample to sample.
static void make_rows(Maker *k) {
    const Known *v = known_some(k, has_axes), *by = known_some(k, has_axes);
    if (!v || !by || by->type.rank != 1)
        return;
    Type t = v->type;
    t.batched = t.batched || by->type.batched;
    int64_t n = by->type.dim[0], rows = t.dim[0];
    if (chance(k, 50) && rows >= n) {
        t.dim[0] = n;
        bind_value(k, t, "gather(%s, argsort(%s))", v->name, by->name);
    } else if (rows == n) {
        t.dim[0] = n + roll(k, 3);
        bind_value(k, t, "scatter(%s, argsort(%s), %lld)", v->name, by->name, (long long)t.dim[0]);
    } else if (k->batch > 1) {
        bind_value(k, (Type){.batched = true}, "cos(2*sample_index())");
    }
}

static void make_gather(Maker *k) {
    const Known *table = known_some(k, is_table), *y = known_some(k, is_label);
    if (!table || !y || table->type.dim[0] < y->classes)
        return;
    Type t = {.batched = true, .rank = (uint8_t)(table->type.rank - 1)};
    for (uint32_t i = 0; i < t.rank; i++)
        t.dim[i] = table->type.dim[i + 1];
    bind_value(k, t, "gather(%s, %s)", table->name, y->name);
}

static void make_draw(Maker *k) {
    static const char *const form[] = {"normal(%s)", "uniform(%s)", "truncated(%s)"};
    Type t = {.batched = chance(k, 80), .rank = (uint8_t)(1 + roll(k, 3))};
    for (uint32_t i = 0; i < t.rank; i++)
        t.dim[i] = 1 + roll(k, 4);
    const char *size =
        t.batched ? dims(k, &t) : str_format(k->text.arena, "%s, per=batch", dims(k, &t)).ptr;
    if (chance(k, 15)) {
        t.batched = false;
        bind_value(k, t, "reshape(arange(%d), %s)/4", (int)type_sample(&t), dims(k, &t));
    } else
        bind_value(k, t, PICK(k, form), size);
}

static void make_one_hot(Maker *k) {
    const Known *y = known_some(k, is_label);
    Type t = {.batched = true, .rank = 1};
    if (y) {
        t.dim[0] = y->classes;
        bind_value(k, t, "one_hot(%s, %lld) + 0", y->name, (long long)y->classes);
    }
}

void make_value(Maker *k) {
    static void (*const makers[])(Maker *) = {
        make_unary,   make_unary,      make_unary,   make_binary,   make_binary, make_binary,
        make_where,   make_mean,       make_mean,    make_greatest, make_norm,   make_move,
        make_move,    make_move,       make_einsum,  make_fft,      make_gather, make_draw,
        make_softmax, make_group_mean, make_one_hot, make_sort,     make_scan,   make_all,
        make_rows,    make_nearest,    make_library, make_scores,   make_scores,
    };
    PICK(k, makers)(k);
}

// --- to a shape ----------------------------------------------------------------------------------

const Known *make_number(Maker *k, const Known *v) {
    static const char *const form[] = {"mean(%s)", "mean(%s^2)", "mean(tanh(%s))",
                                       "sqrt(mean(%s^2) + 0.01)", "mean(softplus(%s))"};
    return bind_value(k, (Type){.rank = 0}, PICK(k, form), v->name);
}

const Known *make_shaped(Maker *k, const Known *v, Type to) {
    int64_t have = type_sample(&v->type), want = type_sample(&to);
    Type flat = {.batched = v->type.batched, .rank = 1, .dim = {have}};
    if (v->type.rank != 1)
        v = bind_value(k, flat, "flatten(%s)", v->name);
    for (; v && have < want; have *= 2) {
        flat.dim[0] = 2 * have;
        v = bind_value(k, flat, "concat(%s, 0.5 - %s)", v->name, v->name);
    }
    flat.dim[0] = want;
    if (v && have > want)
        v = bind_value(k, flat, "%s[:%lld]", v->name, (long long)want);
    to.batched = v && v->type.batched;
    if (v && to.rank == 0)
        return bind_value(k, to, "squeeze(%s)", v->name);
    return v ? bind_value(k, to, "reshape(%s, %s)", v->name, dims(k, &to)) : NULL;
}
