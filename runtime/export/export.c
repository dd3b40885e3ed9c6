// export.c - `ganrun export`: a trained model for other programs.
//
// In: a checkpoint. Out: an entry point as ONNX (onnx.c), or a safetensors file of weights and
// running statistics: nets in order of the text, weights in order of first use, then the rest,
// under the names of PyTorch's layers. Shapes and layouts are PyTorch's already (type.c).
#include "checkpoint.h"
#include "commands.h"
#include "onnx.h"
#include "sampler.h"
#include "trained.h"
#include "weight_use.h"
#include "weights.h"

#include <math.h>

typedef VEC(uint32_t) Slots;

static void add_slots(Arena *a, const Module *m, uint32_t net, SlotKind kind, Slots *out) {
    for (uint32_t i = 0; i < m->slot.n; i++)
        if (m->slot.at[i].net == net && m->slot.at[i].kind == kind && slot_saved(m, &m->slot.at[i]))
            vec_push(a, out, i);
}

static GanStatus find_net(const Module *m, Str name, uint32_t *out) {
    Str known[64];
    uint32_t n = 0;
    for (*out = 0; *out < m->net.n; ++*out) {
        if (str_eq(m->net.at[*out].name, name))
            return GAN_OK;
        if (n < 64)
            known[n++] = m->net.at[*out].name;
    }
    return fail(GAN_ERR_USAGE, "--net %.*s: model %.*s has no such net%s", SARG(name),
                SARG(m->name), known_text(name, known, n).at);
}

static GanStatus choose(Arena *a, const Module *m, Str net, Slots *out) {
    uint32_t only = NONE;
    if (net.len)
        TRY(find_net(m, net, &only));
    for (uint32_t i = 0; i < m->net.n; i++) {
        if (net.len && i != only)
            continue;
        add_slots(a, m, i, SlotParam, out);
        add_slots(a, m, i, SlotState, out);
    }
    return out->n ? GAN_OK
                  : fail(GAN_ERR_INPUT, "model %.*s has no weights to export%s", SARG(m->name),
                         only != NONE && net_pretrained(m, only) ? " of a pretrained net" : "");
}

// --- weights -------------------------------------------------------------------------------------

typedef struct Item { // of the file
    SafeTensor tensor;
    uint32_t slot; // whose numbers it has; of a weight_v: whose layer's u it follows from
    bool follows;  // a weight_v
    uint32_t rows; // of a weight_v: the axis of the weight that u is along
} Item;
typedef VEC(Item) Items;

static uint32_t slot_index(const Module *m, const Slot *s) {
    return (uint32_t)(s - m->slot.at);
}

// The axis of a weight that a vector is along: the one its reparam has first, where that fits.
static uint32_t axis_along(const Type *w, const Type *u, uint32_t first) {
    for (uint32_t k = 0; k < w->rank; k++) {
        uint32_t axis = k ? k - 1 : first;
        if (u->rank == 1 && axis < w->rank && w->dim[axis] == u->dim[0])
            return axis;
    }
    return NONE;
}

// PyTorch stores the vector v of a spectral norm as well, which follows from weight and u here.
static void add_v(Arena *a, const Module *m, uint32_t slot, const WeightUse *use, Str name,
                  Items *out) {
    const Slot *u = &m->slot.at[slot], *w = weight_beside(m, u->name, "w");
    if (!w || !str_ends(u->name, STR(SPECTRAL_U)))
        return;
    uint32_t rows = axis_along(&w->type, &u->type, use[slot_index(m, w)].rows);
    if (rows == NONE)
        return;
    Item v = {.tensor = slot_tensor(u), .slot = slot, .follows = true, .rows = rows};
    v.tensor.dim[0] = type_sample(&w->type) / u->type.dim[0];
    v.tensor.name = str_format(a, "%.*sweight_v", SARG(weight_layer(name)));
    vec_push(a, out, v);
}

static void add_item(Arena *a, const Module *m, uint32_t slot, const WeightUse *use,
                     bool of_one_net, Items *out) {
    const Slot *s = &m->slot.at[slot], *w = weight_beside(m, s->name, "w");
    Item x = {.tensor = slot_tensor(s), .slot = slot};
    x.tensor.name = weight_name(a, m, s, of_one_net);
    if (w && str_ends(x.tensor.name, STR("weight_g"))) // [rows, 1, 1], as there
        while (x.tensor.rank < w->type.rank)
            x.tensor.dim[x.tensor.rank++] = 1;
    vec_push(a, out, x);
    add_v(a, m, slot, use, x.tensor.name, out);
}

// v = W'u / |W'u|, W [rows, rest].
static GanStatus put_v(SafeOut *f, Arena scratch, Exec *e, const Item *x) {
    const Module *m = exec_module(e);
    const Slot *us = &m->slot.at[x->slot], *ws = weight_beside(m, us->name, "w");
    size_t rows = (size_t)us->type.dim[0], rest = (size_t)x->tensor.dim[0], inner = 1;
    double *u = arena_array(&scratch, double, rows), *w = arena_array(&scratch, double, rows *rest),
           *v = arena_array(&scratch, double, rest), square = 0;
    TRY(exec_slot_get(e, x->slot, u, rows));
    TRY(exec_slot_get(e, slot_index(m, ws), w, rows * rest));
    for (uint32_t k = x->rows + 1; k < ws->type.rank; k++)
        inner *= (size_t)ws->type.dim[k];
    for (size_t i = 0; i < rows * rest; i++) {
        size_t before = i / (inner * rows), row = i / inner % rows;
        v[before * inner + i % inner] += w[i] * u[row];
    }
    for (size_t k = 0; k < rest; k++)
        square += v[k] * v[k];
    float *single = arena_array(&scratch, float, rest);
    for (size_t k = 0; k < rest; k++) {
        v[k] /= fmax(sqrt(square), 1e-12); // PyTorch's eps
        single[k] = (float)v[k];
    }
    return x->tensor.dtype == SafeF64 ? safe_out_put(f, v, rest * sizeof *v)
                                      : safe_out_put(f, single, rest * sizeof *single);
}

static GanStatus put_slot(SafeOut *f, Exec *e, uint32_t slot) {
    size_t n = exec_slot_bytes(e, slot);
    void *room = mem_alloc(n);
    if (!room)
        return fail(GAN_ERR_MEMORY, "no memory to export %zu bytes", n);
    GanStatus st = exec_slot_save(e, slot, room);
    if (st == GAN_OK)
        st = safe_out_put(f, room, n);
    mem_free(room);
    return st;
}

// Of weights under the name `weight` that a layer does not use as they are: a plain layer of
// PyTorch would.
static void warn_of_computed(const Host *h, const Module *m, const Items *items,
                             const WeightUse *use) {
    uint32_t n = 0;
    Str first = {0};
    for (uint32_t i = 0; i < items->n; i++) {
        const Item *x = &items->at[i];
        const WeightUse *u = &use[x->slot];
        if (x->follows || m->slot.at[x->slot].kind != SlotParam || u->plain || !u->computed ||
            !(str_ends(x->tensor.name, STR(".weight")) || str_eq(x->tensor.name, STR("weight"))))
            continue;
        first = n++ ? first : x->tensor.name;
    }
    if (n)
        say(&h->console,
            "warning: %u of the weights (%.*s) go through a `reparam` of the model, such as a "
            "scale: a layer of PyTorch computes the same only with that function around its weight",
            n, SARG(first));
}

static GanStatus write_tensors(Arena *a, const Host *h, const Trained *t, Str net, Str path) {
    const Module *m = &t->session.compiled.module;
    const WeightUse *use = weight_uses(a, m);
    Slots slots = {0};
    Items items = {0};
    TRY(choose(a, m, net, &slots));
    for (uint32_t i = 0; i < slots.n; i++)
        add_item(a, m, slots.at[i], use, net.len > 0, &items);
    SafeTensor *tensor = arena_array(a, SafeTensor, items.n);
    for (uint32_t i = 0; i < items.n; i++)
        tensor[i] = items.at[i].tensor;
    SafeMeta meta[] = {{STR("format"), STR("pt")},
                       {STR("model"), m->name},
                       {STR("hash"), t->job.hash},
                       {STR("step"), str_format(a, "%u", t->step)}};
    SafeOut *f;
    TRY(safe_out_open(path, tensor, items.n, meta, sizeof meta / sizeof *meta, &f));
    GanStatus st = GAN_OK;
    for (uint32_t i = 0; i < items.n && st == GAN_OK; i++)
        st = items.at[i].follows ? put_v(f, *a, t->session.exec, &items.at[i])
                                 : put_slot(f, t->session.exec, items.at[i].slot);
    if (st != GAN_OK) {
        safe_out_abandon(f);
        return st;
    }
    TRY(safe_out_commit(f));
    warn_of_computed(h, m, &items, use);
    return GAN_OK;
}

static GanStatus write_entry(Arena *a, const Trained *t, Str name, Str path) {
    Sampler s;
    TRY(sampler_find(&t->session.compiled.module, name, &s));
    return onnx_write(a, t, s.entry, path);
}

GanStatus cmd_export(Arena *perm, const Host *h, const Options *o) {
    Trained t = {0};
    Str net = option_text(o, OptNet, (Str){0}), entry = option_text(o, OptEntry, (Str){0});
    Str path = option_text(o, OptFile, path_join(perm, o->file.at[0], STR("weights.safetensors")));
    bool onnx = str_eq(path_ext(path), STR("onnx"));
    TRY(path_writes(path, ".safetensors .onnx", false));
    TRY(run_spares(*perm, path));
    if (onnx && net.len)
        return fail(GAN_ERR_USAGE,
                    "--net is for weights: ONNX has a `sample` of the model, --entry");
    if (!onnx && entry.len)
        return fail(GAN_ERR_USAGE, "--entry is for ONNX, -o NAME.onnx: weights are those of nets");
    if (!onnx && o->at[OptModel].given)
        return fail(GAN_ERR_USAGE,
                    "--model is for ONNX: the run's weights are those of its own text");
    GanStatus st = trained_open(perm, h, o, &(TrainedOptions){0}, &t);
    if (st == GAN_OK)
        st = onnx ? write_entry(perm, &t, entry, path) : write_tensors(perm, h, &t, net, path);
    if (st == GAN_OK)
        h->console.result(h->console.user, str_format(perm, "%.*s\n", SARG(path)));
    trained_close(&t);
    return st;
}
