// formula.h - the inputs of reference cases, generated from text keys so that a case stores results
// only.
#ifndef GAN_FORMULA_H
#define GAN_FORMULA_H

#include "base.h"

// Fills x [n] as the case's entry says: "key" names the stream, "kind" is normal (mean, std),
// uniform or data (lo, hi), or labels (classes). GAN_ERR_INPUT for an entry that says something
// else.
GanStatus formula_fill(const Json *entry, double *x, size_t n);

#endif
