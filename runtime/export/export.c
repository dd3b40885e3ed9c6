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
#include "weights.h"

#include <string.h>

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

static GanStatus put_all(SafeOut *f, Exec *e, const Slots *slots) {
    for (uint32_t i = 0; i < slots->n; i++) {
        size_t n = exec_slot_bytes(e, slots->at[i]);
        void *room = mem_alloc(n);
        if (!room)
            return fail(GAN_ERR_MEMORY, "no memory to export %zu bytes", n);
        GanStatus st = exec_slot_save(e, slots->at[i], room);
        if (st == GAN_OK)
            st = safe_out_put(f, room, n);
        mem_free(room);
        TRY(st);
    }
    return GAN_OK;
}

static GanStatus write_tensors(Arena *a, const Trained *t, Str net, Str path) {
    const Module *m = &t->session.compiled.module;
    Slots slots = {0};
    TRY(choose(a, m, net, &slots));
    SafeTensor *tensor = arena_array(a, SafeTensor, slots.n);
    for (uint32_t i = 0; i < slots.n; i++) {
        const Slot *s = &m->slot.at[slots.at[i]];
        tensor[i] = slot_tensor(s);
        tensor[i].name = weight_name(a, m, s, net.len > 0);
    }
    SafeMeta meta[] = {{STR("format"), STR("pt")},
                       {STR("model"), m->name},
                       {STR("hash"), t->job.hash},
                       {STR("step"), str_format(a, "%u", t->step)}};
    SafeOut *f;
    TRY(safe_out_open(path, tensor, slots.n, meta, sizeof meta / sizeof *meta, &f));
    GanStatus st = put_all(f, t->session.exec, &slots);
    if (st == GAN_OK)
        return safe_out_commit(f);
    safe_out_abandon(f);
    return st;
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
    if (onnx && net.len)
        return fail(GAN_ERR_USAGE,
                    "--net is for weights: ONNX has a `sample` of the model, --entry");
    if (!onnx && entry.len)
        return fail(GAN_ERR_USAGE, "--entry is for ONNX, -o NAME.onnx: weights are those of nets");
    if (!onnx && o->at[OptModel].given)
        return fail(GAN_ERR_USAGE,
                    "--model is for ONNX: the run's weights are those of its own text");
    GanStatus st = trained_open(perm, h, o, &t);
    if (st == GAN_OK)
        st = onnx ? write_entry(perm, &t, entry, path) : write_tensors(perm, &t, net, path);
    if (st == GAN_OK)
        h->console.result(h->console.user, str_format(perm, "%.*s\n", SARG(path)));
    trained_close(&t);
    return st;
}
