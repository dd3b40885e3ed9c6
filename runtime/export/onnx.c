// onnx.c - an entry point of a run as an ONNX file.
//
// In: a trained run. Out: the graph of the entry's values, in f32; inputs with a description of
// their distribution or scale; weights under PyTorch's names. Random numbers become inputs, so the
// caller supplies the noise; step, epoch and kimg are those the run has come to. onnx.proto3, of
// which these fields:
//
//   ModelProto  1 ir_version, 2 producer_name, 3 producer_version, 6 doc_string, 7 graph,
//               8 opset_import: 2 version, 14 metadata_props: 1 key, 2 value
//   GraphProto  1 node*, 2 name, 5 initializer*, 11 input*, 12 output*
#include "onnx.h"
#include "sampler.h"
#include "weights.h"

#include <limits.h>

// --- inputs and outputs --------------------------------------------------------------------------

Str onnx_input_name(const Module *m, uint32_t slot) {
    const Slot *s = &m->slot.at[slot];
    return s->kind == SlotFed ? input_name(m, slot) : s->name;
}

static const Xform *last_of(const Field *f, XformKind kind) {
    const Xform *x = NULL;
    for (uint32_t i = 0; i < f->xform.n; i++)
        x = f->xform.at[i].kind == kind ? &f->xform.at[i] : x;
    return x;
}

static Str data_doc(Arena *a, const Stream *s, const Field *f) {
    const Xform *scale = last_of(f, XformScale), *gap = last_of(f, XformMissing),
                *mask = last_of(f, XformKnown);
    if (mask)
        return str_format(a, "1 where %.*s is known, 0 where it is missing",
                          SARG(s->field.at[(uint32_t)mask->a].name));
    Str doc = scale ? str_format(a, "data, from %g to %g", scale->a, scale->b) : STR("data");
    bool after = gap && scale && gap < scale; // then it is scaled as others are
    return gap ? str_format(a, "%.*s, %g where %s", SARG(doc), gap->a,
                            after ? "missing, before it is scaled" : "missing")
               : doc;
}

Str onnx_input_doc(Arena *a, const Module *m, uint32_t slot) {
    const Slot *s = &m->slot.at[slot];
    if (s->kind == SlotFed) {
        const Site *site = &m->site.at[s->site];
        return site->dist == DistCategorical
                   ? str_format(a, "a class from 0 to %lld", (long long)site->classes - 1)
               : site->dist == DistNormal ? STR("normal draws")
                                          : STR("uniform draws from 0 to 1");
    }
    const Field *f = &m->stream.at[s->stream].field.at[s->site];
    return f->kind == FieldLabel
               ? str_format(a, "a class from 0 to %lld", (long long)f->classes - 1)
               : data_doc(a, &m->stream.at[s->stream], f);
}

static void put_outputs(Onnx *o, Text *out) {
    for (uint32_t i = 0; i < o->f->result.n; i++) {
        const Named *r = &o->f->result.at[i];
        Str name = onnx_name(o, r->name);
        o->at = r->node;
        onnx_rename(o, o->value[r->node], name);
        proto_bytes(out, 12, onnx_value_info(o, name, node_type(&o->f->g, r->node), (Str){0}));
    }
}

// --- the graph -----------------------------------------------------------------------------------

static GanStatus refuse(const Onnx *o) {
    const Node *n = graph_node(&o->f->g, o->at);
    Str at = onnx_place(o);
    return fail(GAN_ERR_INPUT,
                "sample %.*s cannot be written as ONNX: `%s`%s%.*s: %.*s; export writes weights "
                "alone as well, -o NAME.safetensors",
                SARG(o->f->name), op_info[n->op].text, at.len ? " at " : "", SARG(at),
                SARG(o->error));
}

static GanStatus make_graph(Onnx *o, Text *out) {
    uint32_t n = o->f->result.n, *root = arena_array(o->a, uint32_t, n);
    if (o->f->blocks > 1)
        return fail(GAN_ERR_INPUT,
                    "sample %.*s cannot be written as ONNX: it has loops or branches at run time",
                    SARG(o->f->name));
    for (uint32_t i = 0; i < n; i++)
        root[i] = o->f->result.at[i].node;
    if (!onnx_ops(o, root, n))
        return refuse(o);
    put_outputs(o, out);
    return GAN_OK;
}

// --- the file ------------------------------------------------------------------------------------

// TensorProto of a weight up to its numbers.
static Text weight_head(Onnx *o, const OnnxWeight *w) {
    const Type *t = &o->m->slot.at[w->slot].type;
    Text head = {.arena = o->a};
    proto_numbers(&head, 1, t->dim, t->rank);
    proto_number(&head, 2, OnnxFloat);
    proto_bytes(&head, 8, w->name);
    proto_head(&head, 9, (uint64_t)type_sample(t) * sizeof(float));
    return head;
}

// GraphProto.initializer of a weight up to its numbers, and what it is with them.
static uint64_t put_head(Onnx *o, const OnnxWeight *w, Text *out) {
    Text head = weight_head(o, w);
    uint64_t bytes = (uint64_t)type_sample(&o->m->slot.at[w->slot].type) * sizeof(float);
    size_t before = out->n;
    proto_head(out, 5, head.n + bytes);
    text_put(out, text_str(&head));
    return out->n - before + bytes;
}

static GanStatus put_numbers(FileOut *f, Exec *e, uint32_t slot) {
    enum { Block = 4096 };
    size_t n = (size_t)type_sample(&exec_module(e)->slot.at[slot].type);
    double *x = mem_alloc(n * sizeof *x);
    if (!x)
        return fail(GAN_ERR_MEMORY, "no memory to export %zu numbers", n);
    GanStatus st = exec_slot_get(e, slot, x, n);
    for (size_t i = 0; st == GAN_OK && i < n; i += Block) {
        float block[Block];
        size_t k = n - i < Block ? n - i : Block;
        for (size_t j = 0; j < k; j++)
            block[j] = (float)x[i + j];
        st = file_out_put(f, block, k * sizeof *block);
    }
    mem_free(x);
    return st;
}

static GanStatus put_text(FileOut *f, Text *t) {
    return file_out_put(f, text_str(t).ptr, t->n);
}

static GanStatus put_weights(FileOut *f, Onnx *o, Exec *e) {
    for (uint32_t i = 0; i < o->weight.n; i++) {
        Text head = {.arena = o->a};
        put_head(o, &o->weight.at[i], &head);
        TRY(put_text(f, &head));
        TRY(put_numbers(f, e, o->weight.at[i].slot));
    }
    return GAN_OK;
}

static void put_meta(Arena *a, Text *t, Str key, Str value) {
    Text entry = {.arena = a};
    proto_bytes(&entry, 1, key);
    proto_bytes(&entry, 2, value);
    proto_bytes(t, 14, text_str(&entry));
}

static Text model_head(Onnx *o, const Trained *t) {
    Text head = {.arena = o->a}, opset = {.arena = o->a};
    proto_number(&opset, 2, ONNX_OPSET);
    proto_number(&head, 1, ONNX_IR);
    proto_bytes(&head, 2, STR("ganrun"));
    proto_bytes(&head, 3, STR(GAN_VERSION));
    proto_bytes(&head, 6, o->m->doc);
    proto_bytes(&head, 8, text_str(&opset));
    put_meta(o->a, &head, STR("model"), o->m->name);
    put_meta(o->a, &head, STR("hash"), t->job.hash);
    put_meta(o->a, &head, STR("step"), str_format(o->a, "%u", t->step));
    return head;
}

GanStatus onnx_write(Arena *perm, const Trained *t, uint32_t entry, Str path) {
    Arena scratch = *perm;
    const Module *m = &t->session.compiled.module;
    Onnx o = {.a = &scratch, .m = m, .exec = t->session.exec, .f = &m->entry.at[entry]};
    o.node = o.constant = o.input = (Text){.arena = &scratch};
    Text output = {.arena = &scratch}, name = {.arena = &scratch}, sizes = {.arena = &scratch};
    TRY(make_graph(&o, &output));
    proto_bytes(&name, 2, o.f->name);
    uint64_t bytes = o.node.n + name.n + o.constant.n + o.input.n + output.n;
    for (uint32_t i = 0; i < o.weight.n; i++)
        bytes += put_head(&o, &o.weight.at[i], &sizes);
    Text head = model_head(&o, t);
    proto_head(&head, 7, bytes);
    if (head.n + bytes > INT32_MAX)
        return fail(GAN_ERR_INPUT,
                    "sample %.*s cannot be written as ONNX: its file would be %.1f GiB, and 2 are "
                    "the most that one may be",
                    SARG(o.f->name), (double)bytes / 0x1p30);
    FileOut *f;
    TRY(file_out_open(path, &f));
    Text *const parts[] = {&head, &o.node, &name, &o.constant, &o.input, &output};
    GanStatus st = GAN_OK;
    for (size_t i = 0; st == GAN_OK && i < sizeof parts / sizeof *parts; i++)
        st = put_text(f, parts[i]);
    if (st == GAN_OK)
        st = put_weights(f, &o, t->session.exec);
    if (st == GAN_OK)
        return file_out_commit(f);
    file_out_abandon(f);
    return st;
}
