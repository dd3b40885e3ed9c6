// xform.c - see xform.h. Random draws are keyed by the sample and the index of the crop or flip,
// not by the field: the fields of one stream are cropped and flipped alike. A crop to all that
// there is draws nothing.
#include "xform.h"

#include <math.h>
#include <string.h>

typedef struct ShapeText {
    char at[128];
} ShapeText;

static ShapeText shape_text(uint32_t rank, const int64_t *dim) {
    ShapeText t = {""};
    size_t n = 0;
    for (uint32_t i = 0; i < rank && n < sizeof t.at; i++) {
        int put = snprintf(t.at + n, sizeof t.at - n, "%s%lld", i ? ", " : "", (long long)dim[i]);
        n += put > 0 ? (size_t)put : 0;
    }
    return t;
}

static bool same_shape(const DataField *want, uint32_t rank, const int64_t *dim) {
    if (want->rank != rank)
        return false;
    return rank == 0 || memcmp(want->dim, dim, rank * sizeof *dim) == 0;
}

bool xform_size(const DataField *want, const DataXform *x, uint32_t *h, uint32_t *w) {
    enum { SideMost = 1 << 16 };
    double wide = floor(floor(x->a) * (double)want->dim[2] / (double)want->dim[1]);
    if (!(x->a >= 1 && x->a <= SideMost && wide <= SideMost))
        return false;
    *h = (uint32_t)x->a;
    *w = wide < 1 ? 1 : (uint32_t)wide;
    return true;
}

bool xform_takes_missing(const DataField *want) {
    for (uint32_t i = 0; i < want->xforms; i++)
        if (want->xform[i].op == DataMissing || want->xform[i].op == DataKnown)
            return true;
    return false;
}

static GanStatus plan_size(const DataField *want, const DataXform *x, XformStage *s) {
    bool resize = x->op == DataResize;
    if (want->rank != 3) {
        return fail(GAN_ERR_INPUT, "%.*s: %s needs samples of three axes [c, h, w]",
                    SARG(want->name), resize ? "resize" : "crop");
    }
    uint32_t h = 0, w = 0;
    if (!xform_size(want, x, &h, &w))
        return fail(GAN_ERR_INPUT, "%.*s: %s(%g) of [%s]: a side is 1 to 65536 pixels",
                    SARG(want->name), resize ? "resize" : "crop", x->a,
                    shape_text(want->rank, want->dim).at);
    if (!resize && (h > s->h || w > s->w)) {
        return fail(GAN_ERR_INPUT,
                    "%.*s: crop(%u) of images of %ux%u: crop less, resize(...) before it, or pack "
                    "the images again with a larger --size",
                    SARG(want->name), h, s->w, s->h);
    }
    s->h = h;
    s->w = w;
    return GAN_OK;
}

static GanStatus plan_stages(const DataField *want, double lo, double hi, XformPlan *p) {
    XformStage s = {.h = p->h, .w = p->w};
    uint32_t sites = 0;
    bool scaled = false;
    if (want->xforms > XformMost)
        return fail(GAN_ERR_INPUT, "%.*s: more than %d transforms", SARG(want->name), XformMost);
    for (uint32_t i = 0; i < want->xforms; i++) {
        const DataXform *x = &want->xform[i];
        uint32_t h = s.h, w = s.w;
        s.op = x->op;
        s.site = sites;
        if (x->op == DataResize || x->op == DataCrop)
            TRY(plan_size(want, x, &s));
        if (x->op == DataFlip || (x->op == DataCrop && (s.h != h || s.w != w)))
            sites += 2;
        if (x->op == DataScale) {
            s.mul = hi != lo ? (x->b - x->a) / (hi - lo) : 0;
            s.add = x->a - lo * s.mul;
            lo = x->a, hi = x->b; // of a scale after it
            scaled = true;
        }
        if (x->op == DataMissing)
            s.add = x->a;
        size_t floats = (size_t)p->c * s.h * s.w;
        p->scratch = floats > p->scratch ? floats : p->scratch;
        p->stage[p->stages++] = s;
    }
    if (want->kind == DataImage && p->dtype == PackU16 && !scaled) { // images are 0 to 255
        s.op = DataScale;
        s.mul = 255 / (hi - lo);
        s.add = -lo * s.mul;
        p->stage[p->stages++] = s;
    }
    p->elements = (size_t)p->c * s.h * s.w;
    p->scratch *= 2;
    int64_t made[3] = {p->c, s.h, s.w};
    bool spatial = want->rank == 3;
    if (!spatial || same_shape(want, 3, made))
        return GAN_OK;
    return fail(
        GAN_ERR_INPUT,
        "%.*s: the model expects [%s], the data has [%s]; pack its source again with --size "
        "and --channels, write resize(...) in the model, or set the config that the "
        "model's size follows from (-s)",
        SARG(want->name), shape_text(3, want->dim).at, shape_text(3, made).at);
}

GanStatus xform_plan(const DataField *want, const PackField *have, double lo, double hi,
                     XformPlan *out) {
    XformPlan p = {.dtype = have->dtype, .offset = have->offset, .h = 1, .w = 1};
    if ((want->kind == DataLabel) != (have->kind == DataLabel)) {
        return fail(GAN_ERR_INPUT, "%.*s: the model expects %s, the data has %s", SARG(want->name),
                    want->kind == DataLabel ? "labels" : "samples",
                    have->kind == DataLabel ? "labels" : "samples");
    }
    if (want->kind == DataLabel) {
        if (have->classes > want->classes) {
            return fail(
                GAN_ERR_INPUT,
                "%.*s: the data has %u classes, the model's label has %lld: write label(%u) "
                "in the model, set the config it follows from (-s), or pack other labels",
                SARG(want->name), have->classes, (long long)want->classes, have->classes);
        }
        p.c = 1, p.elements = 1, p.classes = (uint32_t)want->classes;
        *out = p;
        return GAN_OK;
    }
    // Maps are often stored without an axis for their one channel.
    bool flat = have->rank == 2 && want->rank == 3 && want->dim[0] == 1,
         spatial = have->rank == 3 || flat;
    if ((want->rank != have->rank && !flat) ||
        (!spatial && !same_shape(want, have->rank, have->dim))) {
        bool lengths = want->rank == 2 && have->rank == 2 && want->dim[0] == have->dim[0];
        return fail(GAN_ERR_INPUT,
                    "%.*s: the model expects [%s], the data has [%s]: `ganrun data inspect` prints "
                    "the `data` line for it, --data %.*s=PATH names other data%s",
                    SARG(want->name), shape_text(want->rank, want->dim).at,
                    shape_text(have->rank, have->dim).at, SARG(want->name),
                    lengths ? "; sounds are packed again with another --length" : "");
    }
    p.c = (uint32_t)(have->bytes / pack_dtype_size(have->dtype));
    if (spatial) {
        p.c = flat ? 1 : (uint32_t)have->dim[0];
        p.h = (uint32_t)have->dim[flat ? 0 : 1], p.w = (uint32_t)have->dim[flat ? 1 : 2];
    }
    p.scratch = (size_t)p.c * p.h * p.w;
    p.missing = xform_takes_missing(want);
    TRY(plan_stages(want, lo, hi, &p));
    *out = p;
    return GAN_OK;
}

// --- one sample ----------------------------------------------------------------------------------

static GanStatus load(const XformPlan *p, const uint8_t *record, float *out) {
    size_t n = (size_t)p->c * p->h * p->w;
    const uint8_t *from = record + p->offset; // on a multiple of 8, see pack_format.h
    switch (p->dtype) {
    case PackU8:
        for (size_t i = 0; i < n; i++)
            out[i] = from[i];
        return GAN_OK;
    case PackU16:
        for (size_t i = 0; i < n; i++)
            out[i] = ((const uint16_t *)from)[i];
        return GAN_OK;
    case PackU32: {
        uint32_t label = *(const uint32_t *)from;
        if (p->class_of && label < p->own)
            label = p->class_of[label];
        if (label >= p->classes)
            return fail(GAN_ERR_INPUT, "label %u, and the model has %u classes", label, p->classes);
        out[0] = (float)label;
        return GAN_OK;
    }
    case PackF32:
        memcpy(out, from, n * sizeof *out);
        for (size_t i = 0; i < n; i++) {
            bool keeps = isfinite(out[i]) || (p->missing && isnan(out[i]));
            if (!keeps) {
                return fail(GAN_ERR_INPUT, "%s at element %zu", isnan(out[i]) ? "NaN" : "infinity",
                            i);
            }
        }
        return GAN_OK;
    }
    return fail(GAN_ERR_BUG, "unknown type of samples");
}

// `corner` points into the first of c planes [h, w].
static void crop(const float *corner, uint32_t c, uint32_t h, uint32_t w, const XformStage *to,
                 float *out) {
    for (uint32_t k = 0; k < c; k++)
        for (uint32_t y = 0; y < to->h; y++, out += to->w)
            memcpy(out, corner + (k * (size_t)h + y) * w, to->w * sizeof *out);
}

static void mirror(size_t rows, uint32_t w, float *x) {
    for (size_t r = 0; r < rows; r++, x += w) {
        for (uint32_t i = 0, j = w - 1; i < j; i++, j--) {
            float t = x[i];
            x[i] = x[j];
            x[j] = t;
        }
    }
}

GanStatus xform_run(const XformPlan *p, const uint8_t *record, const Order *o, uint64_t epoch,
                    uint64_t sample, float *scratch, float *out) {
    float *now = scratch, *other = scratch + p->scratch / 2;
    if (p->stages == 0)
        return load(p, record, out);
    TRY(load(p, record, now));
    uint32_t h = p->h, w = p->w;
    for (uint32_t i = 0; i < p->stages; i++) {
        const XformStage *s = &p->stage[i];
        size_t n = (size_t)p->c * s->h * s->w;
        bool moved = s->h != h || s->w != w;
        if (s->op == DataResize && moved) {
            for (uint32_t k = 0; k < p->c; k++) {
                TRY(plane_resize(now + (size_t)k * h * w, h, w, other + (size_t)k * s->h * s->w,
                                 s->h, s->w));
            }
        } else if (s->op == DataCrop && moved) {
            uint64_t y = order_draw(o, epoch, sample, s->site) % (h - s->h + 1);
            uint64_t x = order_draw(o, epoch, sample, s->site + 1) % (w - s->w + 1);
            if (o->in_order) { // the middle
                y = (h - s->h) / 2;
                x = (w - s->w) / 2;
            }
            crop(now + y * w + x, p->c, h, w, s, other);
        } else if (s->op == DataFlip) {
            if (!o->in_order && order_draw(o, epoch, sample, s->site) >> 63)
                mirror((size_t)p->c * h, w, now);
        } else if (s->op == DataScale) {
            for (size_t k = 0; k < n; k++)
                now[k] = (float)(s->add + s->mul * now[k]);
        } else if (s->op == DataMissing) {
            for (size_t k = 0; k < n; k++)
                now[k] = isnan(now[k]) ? (float)s->add : now[k];
        } else if (s->op == DataKnown) {
            for (size_t k = 0; k < n; k++)
                now[k] = isnan(now[k]) ? 0 : 1;
        }
        if (moved) {
            float *t = now;
            now = other;
            other = t;
        }
        h = s->h, w = s->w;
    }
    memcpy(out, now, p->elements * sizeof *out);
    return GAN_OK;
}
