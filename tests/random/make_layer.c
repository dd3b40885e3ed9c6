// make_layer.c - generates one layer with weights, with any options (make.h).
#include "make.h"

#include <string.h>

static bool is_row(const Maker *k, const Known *v) {
    (void)k;
    return !v->classes && v->type.batched && v->type.rank == 1;
}
static bool is_map(const Maker *k, const Known *v) {
    (void)k;
    return !v->classes && v->type.batched && v->type.rank >= 2 && v->type.rank <= 4;
}
static bool has_channels(const Maker *k, const Known *v) {
    (void)k;
    return !v->classes && v->type.batched && v->type.rank >= 1 && v->type.rank <= 4;
}
static bool is_label(const Maker *k, const Known *v) {
    (void)k;
    return v->classes > 0;
}

static const char *weight_options(Maker *k) {
    static const char *const option[] = {
        ", bias=none",
        ", init=gauss(0.3)",
        ", reparam=spectral_norm",
        ", reparam=equalized",
        ", bias=0.1",
        ", init=orthogonal(0.8)",
        ", init=glorot, reparam=spectral_norm(iterations=2)",
        ", init=he",
        ", reparam=weight_norm",
        ", reparam=own", // per-sample
    };
    return chance(k, 50) ? "" : PICK(k, option);
}

static void make_dense(Maker *k) {
    const Known *v = known_some(k, is_row);
    Type t = {.batched = true, .rank = 1, .dim = {1 + roll(k, 6)}};
    if (v)
        bind_value(k, t, "%s |> dense(%lld%s)", v->name, (long long)t.dim[0], weight_options(k));
}

// --- convolutions --------------------------------------------------------------------------------

typedef struct Window { // along one axis
    int64_t size, stride, before, after, dilation;
} Window;

static Window some_window(Maker *k, int64_t n, bool transposed) {
    Window w = {.size = 1 + roll(k, 4), .stride = 1 + roll(k, 3), .dilation = 1 + roll(k, 5) / 4};
    while (!transposed && (w.size - 1) * w.dilation + 1 > n + 2 && w.size > 1)
        w.size--;
    if (chance(k, 10) && !transposed)
        w.size = n, w.dilation = 1; // as large as its input
    if (w.stride > w.size && chance(k, 70))
        w.stride = w.size;
    w.before = roll(k, (uint32_t)w.size + 1);
    w.after = chance(k, 60) ? w.before : roll(k, (uint32_t)w.size + 1);
    return w;
}

static int64_t window_gives(Window w, int64_t n, bool transposed) {
    int64_t reach = (w.size - 1) * w.dilation + 1;
    if (transposed)
        return (n - 1) * w.stride + reach - w.before - w.after;
    int64_t room = n + w.before + w.after - reach;
    return room < 0 ? 0 : room / w.stride + 1;
}

static void put_each(Text *t, const char *what, const Window *w, uint32_t n, size_t field) {
    text_fmt(t, ", %s=[", what);
    for (uint32_t i = 0; i < n; i++) {
        const int64_t *at = (const int64_t *)(const void *)((const char *)&w[i] + field);
        text_fmt(t, "%s%lld", i ? ", " : "", (long long)*at);
    }
    text_char(t, ']');
}

static const char *window_text(Maker *k, const Window *w, uint32_t n) {
    Text t = {.arena = k->text.arena};
    put_each(&t, "k", w, n, offsetof(Window, size));
    put_each(&t, "stride", w, n, offsetof(Window, stride));
    put_each(&t, "dilation", w, n, offsetof(Window, dilation));
    text_put(&t, STR(", pad=["));
    for (uint32_t i = 0; i < n; i++)
        text_fmt(&t, "%s[%lld, %lld]", i ? ", " : "", (long long)w[i].before,
                 (long long)w[i].after);
    text_char(&t, ']');
    return text_str(&t).ptr;
}

static void make_conv(Maker *k) {
    const Known *v = known_some(k, is_map);
    bool transposed = chance(k, 40);
    if (!v)
        return;
    Type t = v->type;
    Window w[3] = {0};
    int64_t groups = chance(k, 70) ? 1 : chance(k, 50) ? t.dim[0] : 2;
    t.dim[0] = groups * (1 + roll(k, 4));
    if (v->type.dim[0] % groups)
        return;
    for (uint32_t i = 1; i < t.rank; i++) {
        w[i - 1] = i > 1 && chance(k, 60) ? w[0] : some_window(k, t.dim[i], transposed);
        t.dim[i] = window_gives(w[i - 1], t.dim[i], transposed);
        if (t.dim[i] < 1)
            return;
    }
    bind_value(k, t, "%s |> %s(%lld%s, groups=%lld%s)", v->name,
               transposed ? "conv_transpose" : "conv", (long long)t.dim[0],
               window_text(k, w, t.rank - 1u), (long long)groups, weight_options(k));
}

// The greatest of what a product makes: its gradient is that of the maxima alone (one_hot.c).
static void make_peak(Maker *k) {
    static const char *const after[] = {"%s", "tanh(%s)", "%s + 0.3", "softplus(%s)"};
    static const char *const most[] = {"max(%s, sample)", "max(%s, space)", "min(%s, channel)"};
    const Known *v = known_some(k, is_map), *p;
    if (!v)
        return;
    Type t = v->type, one = {.batched = true}, row = {.batched = true, .rank = 1};
    t.dim[0] = 1 + roll(k, 6);
    v = bind_value(k, t, "%s |> conv(%lld, k=1%s)", v->name, (long long)t.dim[0],
                   chance(k, 50) ? "" : ", bias=none");
    p = v ? bind_value(k, t, PICK(k, after), v->name) : NULL;
    uint32_t over = roll(k, 3);
    row.dim[0] = t.dim[0];
    if (over == 2) {
        row.rank = (uint8_t)(t.rank - 1);
        memcpy(row.dim, t.dim + 1, row.rank * sizeof *row.dim);
    }
    if (p)
        bind_value(k, over ? row : one, most[over], p->name);
}

// --- norms and the rest --------------------------------------------------------------------------

static void make_norm(Maker *k) {
    static const char *const form[] = {
        "batch_norm",
        "batch_norm(affine=false)",
        "batch_norm(eps=0.1, momentum=0.9)",
        "layer_norm",
        "layer_norm(eps=0.1, affine=false)",
        "pixel_norm",
        "batch_norm(frozen=true)",
        "rms_norm(eps=0.01)",
        "layer_norm(over=channel, eps=0.1)",
    };
    const Known *v = known_some(k, has_channels);
    if (!v)
        return;
    switch (roll(k, 5)) {
    case 0:
        if (v->type.rank >= 2)
            bind_value(k, v->type, "%s |> instance_norm(eps=0.01, affine=%s)", v->name,
                       chance(k, 50) ? "true" : "false");
        return;
    case 1:
        if (v->type.dim[0] % 2 == 0)
            bind_value(k, v->type, "%s |> group_norm(2, eps=0.01)", v->name);
        return;
    case 2:
        if (k->batch % 2 == 0)
            bind_value(k, v->type, "%s |> batch_norm(group=2, eps=0.01)", v->name);
        return;
    default:
        bind_value(k, v->type, "%s |> %s", v->name, PICK(k, form));
    }
}

static void make_deviation(Maker *k) {
    const Known *v = known_some(k, is_map);
    if (!v)
        return;
    Type t = v->type;
    t.dim[0]++;
    bind_value(k, t, "%s |> minibatch_std(group=%lld, eps=0.01)", v->name,
               (long long)(k->batch % 2 ? k->batch : 2));
}

static void make_other(Maker *k) {
    static const char *const form[] = {"dropout(0.3)", "prelu", "dropout(0.5)"};
    const Known *v = known_some(k, has_channels), *y = known_some(k, is_label),
                *h = known_some(k, is_row);
    if (!v)
        return;
    if (v->type.rank >= 2 && chance(k, 25))
        bind_value(k, v->type, "%s |> attention", v->name);
    else if (v->type.rank >= 2 && chance(k, 25))
        bind_value(k, v->type, "%s |> multihead_attention(%d)", v->name,
                   v->type.dim[0] % 2 ? 1 : 2);
    else if (v->type.rank >= 2 && v->type.rank <= 4 && chance(k, 10)) {
        long long c = (long long)v->type.dim[0];
        bool pair = c % 2 == 0 && chance(k, 50);
        bind_value(k, v->type, pair ? "lstm(%lld, k=%d)(%s, %s)" : "gru(%lld, k=%d)(%s, %s)",
                   pair ? c / 2 : c, 1 + 2 * (int)roll(k, 2), v->name, v->name);
    } else if (h && v->type.rank == 1 && chance(k, 50))
        bind_value(k, h->type, "gru(%lld)(%s, %s)", (long long)h->type.dim[0], v->name, h->name);
    else if (h && v->type.rank == 1 && h->type.dim[0] % 2 == 0 && chance(k, 30))
        bind_value(k, h->type, "lstm(%lld)(%s, %s)", (long long)h->type.dim[0] / 2, v->name,
                   h->name);
    else if (y && chance(k, 50))
        bind_value(k, v->type, "%s |> conditional_batch_norm(%s, eps=0.05)", v->name, y->name);
    else if (y && chance(k, 50))
        bind_value(k, (Type){.batched = true, .rank = 1, .dim = {v->type.dim[0]}},
                   "%s |> embed(%lld)", y->name, (long long)v->type.dim[0]);
    else
        bind_value(k, v->type, "%s |> %s", v->name, PICK(k, form));
}

// A parameter used directly.
static void make_param(Maker *k) {
    const Known *v = known_some(k, has_channels);
    if (!v)
        return;
    char name[24];
    snprintf(name, sizeof name, "p%u", k->made++);
    line(k, "param %s : [%lld] = gauss(0.5)", name, (long long)v->type.dim[0]);
    bind_value(k, v->type, "%s*%s", name, v->name);
    known_add(k, name, (Type){.rank = 1, .dim = {v->type.dim[0]}});
}

void make_layer(Maker *k) {
    static void (*const makers[])(Maker *) = {make_dense, make_conv,      make_conv,  make_norm,
                                              make_norm,  make_deviation, make_other, make_param,
                                              make_peak,  make_series,    make_series};
    PICK(k, makers)(k);
}
