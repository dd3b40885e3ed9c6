// order_line.h - sorts single lines of f32: the cpu device's implementation of arg_sort.
#ifndef GAN_ORDER_LINE_H
#define GAN_ORDER_LINE_H

#include <stddef.h>
#include <stdint.h>

// The last k numbers of a stable argsort, ascending, NaN last: y[i] = the index of the number that
// has n - k + i before it. n is below 2^31, k from 1 to n; `room` is order_room(n) bytes of scratch
// memory, aligned to 64.
typedef void OrderRun(const float *x, float *y, int64_t n, int64_t k, void *room);
extern OrderRun order_run;

size_t order_room(int64_t n);

#endif
