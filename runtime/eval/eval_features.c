// eval_features.c - features of samples, computed by a separate model (--features FILE.gan).
//
// In: samples in the value range of the run's model. Out: f32 [n, d], the first `sample` of
// FILE.gan applied to them, in the value range of its `data` field. Images are clamped and rounded
// to 8 bits in between, as a PNG would be. That model is compiled and opened beside the run's, on
// the same device.
#include "eval.h"
#include "checkpoint.h"
#include "weights.h"

#include <math.h>

enum { FeatureBatch = 16 };

static GanStatus refuse(const FeatureNet *net, const char *what) {
    return fail(GAN_ERR_INPUT, "--features %.*s: %s", SARG(net->job.model), what);
}

// Its first `sample` is one row of numbers for each sample of the one field it reads.
static GanStatus find_feature(FeatureNet *net) {
    const Module *m = &net->session.compiled.module;
    if (!m->entry.n || !m->entry.at[0].result.n || m->entry.at[0].data.n != 1)
        return refuse(net, "its first `sample` should read one `data` field");
    const Func *f = &m->entry.at[0];
    const Slot *slot = &m->slot.at[f->data.at[0]];
    const Field *field = &m->stream.at[slot->stream].field.at[slot->site];
    net->slot = f->data.at[0];
    net->node = f->result.at[0].node;
    const Type *t = node_type(&f->g, net->node);
    if (field->kind == FieldLabel)
        return refuse(net, "the field its `sample` reads should be image(...) or float(...)");
    if (!t->batched || t->rank != 1)
        return refuse(net, "its `sample` should be one axis of numbers for each of them");
    net->type = slot->type;
    net->d = (uint32_t)t->dim[0];
    net->images = field->kind == FieldImage && field->rank == 3;
    net->hi = net->images ? 255 : 0;
    for (uint32_t i = 0; i < field->xform.n; i++)
        if (field->xform.at[i].kind == XformScale)
            net->lo = field->xform.at[i].a, net->hi = field->xform.at[i].b;
    return GAN_OK;
}

// On many ranks rank 0 reads the files for all.
static GanStatus read_weights(Arena *perm, Comm *c, FeatureNet *net) {
    if (comm_rank(c) == 0)
        TRY(weights_pretrained(perm, &net->job, net->session.exec, false));
    return checkpoint_share(net->session.exec, c);
}

GanStatus features_there(const FeaturesAsked *asked) {
    if (!asked->path.len || file_exists(asked->path))
        return GAN_OK;
    return fail(
        GAN_ERR_INPUT,
        "--features %.*s: there is no such file; docs/cookbook.md has the text of one (FID)",
        SARG(asked->path));
}

GanStatus features_open(Arena *perm, const Host *h, const FeaturesAsked *asked, const Job *run,
                        FeatureNet *out) {
    static const uint64_t seed = 0;
    const DeviceApi *api = device_find(run->device);
    *out = (FeatureNet){.job = {.model = asked->path,
                                .origin = asked->path,
                                .setting = asked->setting,
                                .mark = STR(FEATURES_MARK),
                                .device = run->device,
                                .threads = run->threads,
                                .tf32 = run->tf32,
                                .batch = FeatureBatch,
                                .real = api->supports(DtF32) ? DtF32 : DtF64}};
    TRY(features_there(asked));
    for (uint32_t i = 0; i < asked->weights.n; i++) // its own, as it learns hashes
        vec_push(perm, &out->job.weights, asked->weights.at[i]);
    SessionOptions so = job_session(&out->job, &h->device, NULL);
    so.seed = &seed; // a net that is not pretrained is drawn
    TRY(session_start(&out->session, &so, &h->console));
    TRY(find_feature(out));
    return read_weights(perm, h->device.comm, out);
}

Str features_content(Arena *a, const FeaturesAsked *asked, const FeatureNet *net) {
    Text t = {.arena = a};
    Str text;
    if (!net->d || file_read(a, asked->path, &text) != GAN_OK)
        return (Str){0};
    text_put(&t, text);
    for (uint32_t i = 0; i < net->job.weights.n; i++)
        text_fmt(&t, " %.*s", SARG(net->job.weights.at[i].hash));
    text = text_str(&t);
    return hash_hex(a, hash128(text.ptr, text.len));
}

void features_close(FeatureNet *net) {
    session_release(&net->session);
}

static bool grey_to_colour(const FeatureNet *net, const Type *t) {
    Type one = net->type;
    bool colour = net->images && one.dim[0] == 3;
    one.dim[0] = 1;
    return colour && type_same_shape(&one, t);
}

bool features_fit(const FeatureNet *net, const Type *t) {
    return type_same_shape(&net->type, t) || grey_to_colour(net, t);
}

GanStatus features_refuse(const FeatureNet *net, Arena scratch, const Type *t) {
    Type takes = net->type, has = *t;
    takes.batched = has.batched = false;
    long long size = (long long)(has.rank ? has.dim[has.rank - 1] : 1);
    return fail(GAN_ERR_INPUT,
                "--features %.*s takes %s of %.*s, the samples are %.*s: a config of its own for "
                "the size is set as -s " FEATURES_MARK "size=%lld",
                SARG(net->job.model), net->images ? "images" : "samples",
                SARG(type_text(&scratch, &takes)), SARG(type_text(&scratch, &has)), size);
}

// A sample as the net reads it; one channel stands for three.
static void convert(const FeatureNet *net, const Sampler *look, const float *x, float *out) {
    size_t n = sampler_elements(look);
    double lo = look->lo, hi = look->hi;
    size_t taken = (size_t)type_sample(&net->type);
    bool as_it_comes = net->lo == 0 && net->hi == 0;
    double of = net->images ? 255 : 1;
    for (size_t i = 0; i < taken; i++) {
        double v = (x[i % n] - lo) / (hi - lo);
        if (net->images)
            v = floor(of * (v > 0 ? v < 1 ? v : 1 : 0) + 0.5); // a NaN is black
        out[i] = as_it_comes ? x[i] : (float)(net->lo + (net->hi - net->lo) * v / of);
    }
}

GanStatus features_make(FeatureNet *net, const Sampler *look, const float *x, size_t n,
                        Arena scratch, float *out) {
    Exec *e = net->session.exec;
    size_t one = sampler_elements(look), taken = (size_t)type_sample(&net->type);
    float *in = arena_array(&scratch, float, FeatureBatch *taken);
    double *row = arena_array(&scratch, double, FeatureBatch *(size_t)net->d);
    for (size_t at = 0; at < n; at += FeatureBatch) {
        size_t part = n - at < FeatureBatch ? n - at : FeatureBatch;
        for (size_t i = 0; i < FeatureBatch; i++) // a batch is filled with its last sample
            convert(net, look, x + (at + (i < part ? i : part - 1)) * one, in + i * taken);
        TRY(exec_slot_put_f32(e, net->slot, in, FeatureBatch * taken));
        TRY(exec_entry(e, 0, &(Counters){0}, NULL));
        TRY(exec_value_get(e, &net->session.compiled.entry[0], net->node, row,
                           FeatureBatch * (size_t)net->d));
        for (size_t i = 0; i < part * net->d; i++)
            out[at * net->d + i] = (float)row[i];
    }
    return GAN_OK;
}
