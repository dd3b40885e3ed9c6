// programs_anchor.c - convolutions and products as programs (programs.h).
#include "programs.h"

static uint32_t below(uint64_t *state, uint32_t n) {
    *state = hash64(state, sizeof *state, 7);
    return (uint32_t)(*state >> 33) % n;
}

static Func *step_begin(Arena *a, int64_t batch, Module *out) {
    *out = (Module){.name = STR("random"), .batch = batch};
    Func *f = &out->step;
    f->name = STR("step");
    graph_init(&f->g, a, batch);
    f->blocks = 1;
    vec_push(a, &f->tape, ((Ctl){.kind = CtlBlock}));
    return f;
}

static uint32_t slot_add(Arena *a, Module *m, Type t) {
    Slot s = {.kind = t.batched ? SlotData : SlotState,
              .name = str_format(a, "s%u", m->slot.n),
              .net = NONE,
              .type = t};
    vec_push(a, &m->slot, s);
    return m->slot.n - 1;
}

static int64_t conv_makes(const ConvCase *k, uint32_t i) {
    const ConvGeom *g = &k->geom;
    int64_t padded = k->x[i] + g->before[i] + g->after[i];
    return (padded - g->dilation[i] * (k->k[i] - 1) - 1) / g->stride[i] + 1;
}

void program_conv(Arena *a, const ConvCase *k, uint32_t pairs, Module *out) {
    Func *f = step_begin(a, k->batch ? k->batch : 1, out);
    Builder at = {.g = &f->g};
    const ConvGeom *geom = &k->geom;
    int64_t xd[4] = {k->c}, wd[5] = {k->o, k->c / geom->groups}, yd[4] = {k->o};
    for (uint32_t i = 0; i < geom->n; i++) {
        xd[1 + i] = k->x[i];
        wd[2 + i] = k->k[i];
        yd[1 + i] = conv_makes(k, i);
    }
    const Type x = type_make(k->batch > 0, geom->n + 1, xd),
               y = type_make(k->batch > 0, geom->n + 1, yd), w = type_make(false, geom->n + 2, wd);
    uint32_t weights = slot_add(a, out, w);
    for (uint32_t i = 0; i < pairs; i++) {
        slot_add(a, out, x);
        slot_add(a, out, y);
    }
    Val by = Read(&at, weights, 0, w), change = {0};
    for (uint32_t i = 1; i <= 2 * pairs; i += 2) {
        Val image = Read(&at, i, 0, x), made = Read(&at, i + 1, 0, y);
        change = ConvDw(image, made, geom, w);
        vec_push(a, &f->effect, Write(i, ConvDx(made, by, geom, x)).id);
        vec_push(a, &f->effect, Write(i + 1, Conv(image, by, geom)).id);
    }
    vec_push(a, &f->effect, Write(weights, change).id);
}

// What an axis looks like: anything; a layer's; smaller than its kernel; met by the kernel once.
typedef enum AxisKind { AxisAny, AxisLayer, AxisTiny, AxisCovered, AxisKinds } AxisKind;

static void random_axis(uint64_t *r, AxisKind kind, ConvCase *c, uint32_t i) {
    ConvGeom *g = &c->geom;
    int64_t k = c->k[i] = 1 + below(r, kind == AxisAny && !below(r, 3) ? 9 : 4), x = 1;
    int64_t stride = g->stride[i] = below(r, 2) ? 1 : 1 + below(r, kind == AxisLayer ? 2 : 4);
    g->dilation[i] = kind != AxisAny || below(r, 2) ? 1 : 1 + below(r, 3);
    g->before[i] = g->after[i] = 0;
    int64_t reach = (k - 1) * g->dilation[i] + 1;
    switch (kind) {
    case AxisAny:
        g->before[i] = below(r, (uint32_t)reach);
        g->after[i] = below(r, (uint32_t)reach);
        x = 1 + below(r, below(r, 3) ? 9 : 40);
        break;
    case AxisLayer:
        g->before[i] = g->after[i] = (k - stride + 1) / 2 > 0 ? (k - stride + 1) / 2 : 0;
        x = 8 * stride + below(r, 12);
        break;
    case AxisTiny:
        g->before[i] = below(r, (uint32_t)k);
        g->after[i] = below(r, (uint32_t)k);
        x = 1 + below(r, 4);
        break;
    case AxisCovered:
    case AxisKinds:
        x = reach + below(r, (uint32_t)stride);
    }
    int64_t least = reach - g->before[i] - g->after[i];
    c->x[i] = x > least ? x : least;
}

static int64_t random_channels(uint64_t *r, bool deep) {
    static const int64_t channels[] = {1, 2, 3, 4, 8, 17, 16, 32, 33, 48, 64};
    return channels[deep ? 6 + below(r, 5) : below(r, 6)];
}

void program_random_conv(Arena *a, uint64_t seed, Module *out) {
    enum { PRODUCTS = 1 << 22, ELEMENTS = 1 << 16 };
    uint64_t r = seed;
    int64_t products, elements;
    ConvCase c;
    do {
        AxisKind kind = (AxisKind)below(&r, AxisKinds);
        int64_t groups = below(&r, 3) ? 1 : below(&r, 2) ? 2 : 3 + below(&r, 30);
        bool deep = groups == 1 && below(&r, 3);
        bool one = groups > 2 && below(&r, 2); // depthwise
        int64_t in = one ? 1 : random_channels(&r, deep),
                made = one ? 1 : random_channels(&r, deep || !below(&r, 3));
        c = (ConvCase){.batch = (int)below(&r, 6), .c = groups * in, .o = groups * made};
        c.geom = (ConvGeom){.n = 1 + below(&r, 3), .groups = groups};
        int64_t samples = c.batch ? c.batch : 1;
        products = samples * c.c * made;
        elements = samples * (c.c > c.o ? c.c : c.o);
        for (uint32_t i = 0; i < c.geom.n; i++) {
            random_axis(&r, kind, &c, i);
            int64_t y = conv_makes(&c, i);
            products *= c.k[i] * y;
            elements *= c.x[i] > y ? c.x[i] : y;
        }
    } while (products > PRODUCTS || elements > ELEMENTS);
    program_conv(a, &c, 1 + below(&r, 2), out);
}

void program_random_dot(Arena *a, uint64_t seed, Module *out) {
    enum { SideA, SideB, SideOut, Sides, EXTENTS = 7, MOST = 2000 };
    static const int64_t extents[EXTENTS] = {1, 2, 3, 4, 7, 16, 33};
    static const int lacks[] = {Sides, SideB, SideA, SideOut}; // batches, rows, columns, terms
    uint64_t r = seed;
    uint8_t label[Sides][MAX_RANK], name = 0;
    Type t[Sides] = {{0}};
    int64_t all = 1;
    for (size_t kind = 0; kind < sizeof lacks / sizeof *lacks; kind++) {
        for (uint32_t n = below(&r, 3); n > 0; n--) {
            int64_t extent = extents[below(&r, all < MOST ? EXTENTS : 1)];
            all *= extent;
            name++;
            for (int s = SideA; s < Sides; s++) {
                if (s == lacks[kind])
                    continue;
                uint32_t last = t[s].rank++, at = below(&r, t[s].rank);
                label[s][last] = label[s][at], t[s].dim[last] = t[s].dim[at];
                label[s][at] = name, t[s].dim[at] = extent;
            }
        }
    }
    enum { BatchA, BatchB, BatchEach, BatchSummed } batch = below(&r, 4);
    const bool batched[Sides] = {batch != BatchB, batch != BatchA, batch != BatchSummed};
    Func *f = step_begin(a, 1 + below(&r, 5), out);
    Builder at = {.g = &f->g};
    Val x[Sides];
    for (int s = SideA; s < Sides; s++) {
        t[s] = type_make(batched[s], t[s].rank, t[s].dim);
        x[s] = Read(&at, slot_add(a, out, t[s]), 0, t[s]);
    }
    Val y = Dot(x[SideA], label[SideA], x[SideB], label[SideB], label[SideOut], t[SideOut].rank,
                batched[SideOut]);
    vec_push(a, &f->effect, Write(SideOut, y).id);
}

void program_heads(Arena *a, uint64_t seed, Module *out) {
    enum { Head = 1, Query, Key, Depth, Labels };
    static const uint8_t q[] = {Head, Query, Depth}, k[] = {Head, Key, Depth},
                         w[] = {Head, Query, Key};
    static const uint8_t *const labels[] = {q, k, w};
    uint64_t r = seed;
    Func *f = step_begin(a, 1 + below(&r, 3), out);
    Builder at = {.g = &f->g};
    int64_t extent[Labels] = {0};
    for (int i = Head; i < Labels; i++)
        extent[i] = 2 + below(&r, 40);
    Val x[3];
    for (int i = 0; i < 3; i++) {
        int64_t dim[3] = {extent[Head], extent[labels[i][1]], extent[labels[i][2]]};
        Type t = type_make(true, 3, dim);
        x[i] = Read(&at, slot_add(a, out, t), 0, t);
    }
    for (int i = 0; i < 3; i++) { // from the two others
        int first = i == 0 ? 2 : 0, second = i == 1 ? 2 : 1;
        Val y = Dot(x[first], labels[first], x[second], labels[second], labels[i], 3, true);
        vec_push(a, &f->effect, Write((uint32_t)i, y).id);
    }
}
