// xform.h - private to data/: one field of one sample, from a record to f32 after its transforms.
#ifndef GAN_XFORM_H
#define GAN_XFORM_H

#include "data.h"

enum { XformMost = 16 };

typedef struct XformStage {
    DataOp op;
    uint32_t h, w;   // after this stage
    uint32_t site;   // which of the sample's random draws it uses
    double mul, add; // DataScale; add: of DataMissing, what a missing value becomes
} XformStage;

typedef struct XformPlan {
    PackDtype dtype; // stored
    size_t offset;   // in the record
    // stored, images and other three-axis samples; else c = elements, h = w = 1
    uint32_t c, h, w;
    size_t elements;          // delivered
    size_t scratch;           // floats needed while working
    uint32_t classes;         // labels, else 0
    const uint32_t *class_of; // [own] of labels: the numbers they are given; NULL: their own
    uint32_t own;
    bool missing; // NaN is read, and is none after the last stage
    uint32_t stages;
    XformStage stage[XformMost + 1]; // and one that the text need not say
} XformPlan;

// The size that resize(a) or crop(a) gives: height a, and the width that goes with it in the
// model's proportions. False: a side out of range.
bool xform_size(const DataField *want, const DataXform *x, uint32_t *h, uint32_t *w);
// Whether a transform makes something of what is missing.
bool xform_takes_missing(const DataField *want);
// Checks that the transforms turn what the pack stores into what the model expects; the message
// names both. lo..hi: the range that scale maps.
GanStatus xform_plan(const DataField *want, const PackField *have, double lo, double hi,
                     XformPlan *out);
// out: [elements]. Fails for a value that is not finite, a label out of range, or when out of
// memory.
GanStatus xform_run(const XformPlan *p, const uint8_t *record, const Order *o, uint64_t epoch,
                    uint64_t sample, float *scratch, float *out);

#endif
