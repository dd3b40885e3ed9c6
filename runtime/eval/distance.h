// distance.h - distances between two sets of features of any net: metrics of the literature on
// generative models.
#ifndef GAN_DISTANCE_H
#define GAN_DISTANCE_H

#include "base.h"

typedef struct FeatureSets {
    const float *generated, *real; // [n_generated, d], [n_real, d], borrowed
    size_t n_generated, n_real, d;
    uint64_t seed; // of directions and subsets
    Str name[2];   // of the two in messages; empty: the samples, the data
} FeatureSets;

typedef struct FeatureScores {
    double swd;                // sliced Wasserstein distance, 128 directions (Rabin et al. 2011)
    double kid, kid_deviation; // unbiased MMD^2 with (x y / d + 1)^3: mean and standard deviation
                               // of 100 subsets of at most 1000 (Binkowski et al. 2018)
    double precision, recall;  // Kynkaanniemi et al. 2019
    double density, coverage;  // Naeem et al. 2020; all four by the 5 nearest neighbours
} FeatureScores;

enum { FEATURES_LEAST = 6 }; // of each set: a point and its 5 neighbours
// GAN_ERR_INPUT for smaller sets, and where squared distances, |x|^2 - 2 x y + |y|^2 in f32, may
// overflow; GAN_ERR_MEMORY.
GanStatus features_compare(const FeatureSets *s, FeatureScores *out);

// Inception Score (Salimans et al. 2016, section 4), of what a classifier says: exp of the mean
// over samples of KL(p(y|x) || p(y)). p(y|x) is the softmax of a row of logits [n, classes], p(y)
// its mean over a split; split i of 10 has rows floor(in/10) to floor((i + 1)n/10) - 1. Mean and
// (population) deviation of the splits' scores. torch-fidelity's, but that this does not shuffle
// the rows. GAN_ERR_INPUT: fewer rows than splits, or a logit that is not finite; GAN_ERR_MEMORY.
enum { INCEPTION_SPLITS = 10 };
GanStatus inception_score(const float *logits, size_t n, size_t classes, double *mean,
                          double *deviation);

#endif
