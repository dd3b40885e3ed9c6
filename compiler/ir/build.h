// build.h - builders: a function for each operation, which adds its node over operands of one graph
// and returns it, simplified and shared (builder_add). The front end, the gradient columns of
// lang/ops.def and the passes make graphs with these alone.
#ifndef GAN_BUILD_H
#define GAN_BUILD_H

#include "ir.h"

// One per EW row: Val Mul(Val a, Val b), ...
#define EW_ARGS_1 Val a
#define EW_ARGS_2 Val a, Val b
#define EW_ARGS_3 Val a, Val b, Val c
#define EW_ARGS_(n) EW_ARGS_##n
#define EW(Name, text, n, ...) Val Name(EW_ARGS_(n));
#include "ops.def"

Val Num(Val like, double x); // a shared constant in like's graph and dtype
Val Number(Builder *b, double x);
Val Filled(Builder *b, double x, Type type); // every element x
Val CastTo(Val x, Val like);                 // x in like's dtype
Val Iota(Builder *b, uint32_t axes, Type type);
// Reads of one version are of one moment of the step: between two versions the slot may change.
Val Read(Builder *b, uint32_t slot, uint32_t version, Type type);
Val Write(uint32_t slot, Val x);
// `classes`: of a categorical draw.
Val Rand(Builder *b, Dist dist, uint32_t site, double classes, Type type);
Val Pin(Val x); // a new identity each call
Val Grad(Val y, Val x);
Val Commit(Val made, Val was, uint32_t update); // Func.update[update]
Val Sum(Val x, uint32_t axes);                  // keeps extents of 1; bit 0 makes it shared
Val SumTo(Val x, Type to);                      // adjoint of Expand: sums what `to` does not have
Val GroupSum(Val x, int64_t group);             // group == batch: sums and expands
Val Squares(Val x, uint32_t axes);
Val MaxOf(Val x, uint32_t axes);
Val ArgMax(Val x, uint32_t axes);
Val Reshape(Val x, uint32_t rank, const int64_t *dim);
Val Expand(Val x, Type to); // nothing when it fits already
Val Permute(Val x, const uint32_t *axis);
Val Slice(Val x, const int64_t *from, const int64_t *count, const int64_t *step);
// `extent`: of the result.
Val Pad(Val x, const int64_t *before, const int64_t *step, const int64_t *extent);
Val Flip(Val x, uint32_t axes);
Val Concat(const Val *x, uint32_t n, uint32_t axis);
Val Gather(Val table, Val index);
Val Scatter(Val rows, Val index, Type table);
// Labels are 1..; both operands' batch axes are label 0 where they have one. `batched`: the result
// keeps the batch.
Val Dot(Val a, const uint8_t *la, Val b, const uint8_t *lb, const uint8_t *lo, uint32_t no,
        bool batched);
// Part `part` of collective `call`, and its sum over the ranks.
Val ReduceStart(Val partial, uint32_t call, uint32_t part, SumOrder order);
Val ReduceWait(Val started);
Val Conv(Val x, Val w, const ConvGeom *c);
Val ConvDx(Val gy, Val w, const ConvGeom *c, Type x);
Val ConvDw(Val x, Val gy, const ConvGeom *c, Type w);

// Of samples [parts, ..., n] or a shared value [lines, parts, n], without a factor 1/n either way.
// Real to complex: the first n/2 + 1 frequencies, which say the others; complex to real, the
// inverse of it: `like` says how many numbers.
Val Fft(Val x, bool inverse, const Type *like); // like: NULL, or the type where it is real

// The indices that sort each row along the last axis of [n] or [l, n]: ascending, stable, NaN last.
Val ArgSort(Val x);
Val ArgSortLast(Val x, int64_t k); // the last k of these
// Element i of each row is element index[i] of x's row. `back`: element i goes to index[i] instead,
// which is the inverse, and the adjoint; to longer rows of type `to`, 0 where none goes.
Val Arrange(Val x, Val index, bool back);
Val ArrangeBack(Val x, Val index, Type to);

#endif
