// conv_sums.h - a convolution by any method of dnn_conv.c, and by direct sums in f64.
#ifndef GAN_CONV_SUMS_H
#define GAN_CONV_SUMS_H

#include "dnn.h"

enum { CONV_MOST = 140000 }; // numbers of an operand

typedef struct ConvShape {
    int64_t n, c, o, x[2], k[2], s[2], before[2], after[2];
} ConvShape;

// The operands of all that follows, of which one is the result.
extern float conv_x[CONV_MOST], conv_w[CONV_MOST], conv_y[CONV_MOST];

int64_t conv_made(const ConvShape *s, int i); // extent i of y
DnnConv conv_of(const ConvShape *s);          // in f32, channels last
void conv_fill(Dtype type);                   // operands with numbers between -1 and 1, of the type
void conv_sum(const ConvShape *s, DnnConvKind kind); // directly: what conv_compare expects
// By a method, from and to operands of the type. False if it does not take the shape.
bool conv_run(DnnMethod *method, const ConvShape *s, DnnConvKind kind, Dtype type);
const float *conv_result(const ConvShape *s, DnnConvKind kind, int64_t *n);
// Fails if the result is off by more than f32 rounds its terms, and `rounding` of the result.
void conv_compare(const ConvShape *s, DnnConvKind kind, double rounding, const char *way);
void conv_threads(int n);

#endif
