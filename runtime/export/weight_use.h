// weight_use.h - how the functions of a model use a weight: as it is, or through others computed
// from it, which is what a `reparam` of a layer does.
#ifndef GAN_WEIGHT_USE_H
#define GAN_WEIGHT_USE_H

#include "module.h"

typedef struct WeightUse {
    bool plain;    // its own numbers meet samples, or values of another layer
    bool computed; // others are computed from it, without those
    uint32_t rows; // axis that its `reparam` has first
} WeightUse;
WeightUse *weight_uses(Arena *a, const Module *m); // [slots]

#endif
