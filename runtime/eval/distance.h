// distance.h - how far two sets of features are apart, whatever net made them: the numbers of
// papers on generators that need a trained network's features, computed from these.
#ifndef GAN_DISTANCE_H
#define GAN_DISTANCE_H

#include "base.h"

typedef struct FeatureSets {
    const float *made, *real; // [mades, d], [reals, d], borrowed
    size_t mades, reals, d;
    uint64_t seed; // of directions and subsets
} FeatureSets;

typedef struct FeatureScores {
    double swd;                // sliced Wasserstein distance, 128 directions (Rabin et al. 2011)
    double kid, kid_deviation; // unbiased MMD^2 with (x y / d + 1)^3: mean and standard deviation
                               // of 100 subsets of at most 1000 (Binkowski et al. 2018)
    double precision, recall;  // Kynkaanniemi et al. 2019
    double density, coverage;  // Naeem et al. 2020; all four by the 5 nearest neighbours
} FeatureScores;

enum { FEATURES_LEAST = 6 }; // of each set: a point and its 5 neighbours
// GAN_ERR_INPUT for smaller sets, GAN_ERR_MEMORY. Squared distances are |x|^2 - 2 x y + |y|^2 in
// f32.
GanStatus features_compare(const FeatureSets *s, FeatureScores *out);

#endif
