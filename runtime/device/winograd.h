// winograd.h - the transforms of a Winograd convolution; dnn_winograd.c has the products and the
// whole. Everything here is compiled once for every level of vector instructions.
#ifndef GAN_WINOGRAD_H
#define GAN_WINOGRAD_H

#include "dnn.h"

// name, outputs of a tile, taps, points (outputs + taps - 1), error: of y, against the direct sum's
#define WINO_FORMS(X)                                                                              \
    X(F22, 2, 2, 3, 1.5)                                                                           \
    X(F32, 3, 2, 4, 1.5)                                                                           \
    X(F42, 4, 2, 5, 4)                                                                             \
    X(F23, 2, 3, 4, 1.5)                                                                           \
    X(F43, 4, 3, 6, 6)

typedef enum WinoForm {
#define X(name, made, taps, points, error) Wino##name,
    WINO_FORMS(X)
#undef X
        WinoForms
} WinoForm;

enum { WINO_POINTS = 6, WINO_PHASES = 2, WINO_AXES = 2, WINO_LANES = 16, WINO_CHUNK = 64 };

typedef struct WinoImage { // x or y, channels-last
    float *at;
    int64_t c, pixel; // channels; numbers from a pixel to the next: more where c are a part of all
    int64_t extent[WINO_AXES];
    int64_t phases[WINO_AXES];             // x: the stride; y: 1
    int64_t shift[WINO_AXES][WINO_PHASES]; // of a phase: its pixel at tile 0, element 0; at most 0
    int64_t tile[WINO_AXES];               // elements a tile has of a phase
    int64_t shared[WINO_AXES];             // of them also the next tile's
    bool is_x;
} WinoImage;

typedef struct Winograd {
    DnnConvKind kind;
    WinoForm form[WINO_AXES];
    int64_t n, tiles[WINO_AXES]; // samples; tiles of one
    int64_t made[WINO_AXES], taps[WINO_AXES], points[WINO_AXES];
    int64_t first[WINO_AXES][WINO_PHASES]; // a phase's first kernel element
    int64_t k[WINO_AXES];                  // kernel
    int64_t rows;                          // rows of tiles (of all samples) done in one round
    WinoImage x, y;
    float *weights; // [o, k, k, c]
    size_t offset;  // of [points, o, phases * c] in the first staging buffer, in bytes
} Winograd;

// dnn_winograd.c: dnn_winograd with the forms given, and about how many bytes of points a
// round may have. False in *done also where the forms do not fit the kernel.
dnnl_status_t wino_add(Dnn *d, DnnCall *call, const DnnProblem *p, const WinoForm form[WINO_AXES],
                       size_t bytes, bool *done);

typedef struct WinoRun { // jobs over a Winograd
    DnnHost *x_in, *y_in, *x_out, *y_out, *weights_in, *weights_out, *weights_zero;
} WinoRun;

extern const WinoRun wino_run_v1, wino_run_v3, wino_run_v4;

#endif
