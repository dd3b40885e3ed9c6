// call_report.h - the reports that ask cuDNN: its heuristics run on the description of a card
// (cards.h), and engines are compiled with a driver that loads nothing (no_card.c).
#ifndef GAN_CALL_REPORT_H
#define GAN_CALL_REPORT_H

#include "cards.h"
#include "cuda_dnn.h"
#include "library.h"
#include "report.h"

#include <stdio.h>

typedef struct Report {
    CudnnApi api;
    Cudnn *dnn; // of the described card
    Arena a;
} Report;
// Prints a model's row.
typedef GanStatus ReportFn(Report *r, Str model, Dtype real);

static inline GanStatus report_rows(Report *r, ReportFn *row, Dtype real, char **model, int n) {
    static const char *const no_card[] = {BUILD_DIR "/tests/libno_card.so", NULL};
    GanStatus st = GAN_OK;
    void *driver = library_open(no_card), *library = cudnn_load(&r->api);
    if (!driver || !library)
        return fail(GAN_ERR_DEVICE, "this machine has no cuDNN 9");
    TRY(arena_init(&r->a, 0));
    TRY_OUT(cudnn_open_for(&r->api, str_c(cards[0].properties), false, &r->dnn));
    for (int i = 0; i < n; i++)
        TRY_OUT(row(r, str_c(model[i]), real));
out:
    cudnn_close(r->dnn);
    arena_release(&r->a);
    return st;
}

// What main returns. `head`: of the columns behind the first, which names the card.
static inline int report_main(int argc, char **argv, const char *head, ReportFn *row) {
    Report r = {0};
    Dtype real = report_real(argc, argv);
    if (real == DtCount) {
        fprintf(stderr, "usage: %s f32|bf16|f16 MODEL.gan[:BATCH]...\n", argv[0]);
        return 2;
    }
    printf("| %s %s", cards[0].name, head);
    GanStatus st = report_rows(&r, row, real, argv + 2, argc - 2);
    if (st != GAN_OK)
        fprintf(stderr, "%s: %s\n", argv[0], gan_error());
    return st == GAN_OK ? 0 : 1;
}

#endif
