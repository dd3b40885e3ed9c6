// linear.h - BLAS and LAPACK, by OpenBLAS, which is loaded when it is first called (library.h): it
// starts a thread for each core as it is loaded. Only measure_frechet.c calls it.
#ifndef GAN_LINEAR_H
#define GAN_LINEAR_H

#include "library.h"

#include <cblas.h>

GanStatus linear_ready(void);

// Fortran's, for which OpenBLAS has no header: after the arguments the lengths of those that are
// text.
void dpstrf_(const char *half, const int *n, double *a, const int *lda, int *place, int *rank,
             const double *tolerance, double *work, int *info, size_t half_length);
void dsyev_(const char *job, const char *half, const int *n, double *a, const int *lda,
            double *value, double *work, const int *size, int *info, size_t job_length,
            size_t half_length);
void dlapmt_(const int *forward, const int *rows, const int *columns, double *x, const int *ldx,
             int *order);
void dlapmr_(const int *forward, const int *rows, const int *columns, double *x, const int *ldx,
             int *order);

#endif
