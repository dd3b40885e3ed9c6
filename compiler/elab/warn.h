// warn.h - warnings: what means something, but is likely a mistake.
#ifndef GAN_WARN_H
#define GAN_WARN_H

#include "elab.h"

// As a net is called.
void warn_ranges(Elab *e, uint32_t net, Args args);  // warn_ranges.c
void warn_latents(Elab *e, uint32_t net, Args args); // warn_latents.c
bool note_scores(Elab *e, uint32_t net, Value v);    // warn_signs.c: whether it gave scores
void warn_classes(Elab *e, uint32_t net, Args args); // warn_classes.c: of one that did

// As a class chooses one of so many rows.
void warn_rows(Elab *e, Value index, int64_t rows); // warn_classes.c

// Of all that was elaborated.
void warn_unused(Elab *e, const Ast *file);         // warn_unused.c
void warn_unused_weights(Elab *e, const Ast *file); // ... behind all others, which may say why
void warn_signs(Elab *e);                           // warn_signs.c
void warn_stops(Elab *e);                           // warn_stops.c
void warn_means(Elab *e);                           // builtin_reduce.c
// Whether nothing calls the net, updates it, or names it.
bool net_is_idle(const Elab *e, const Ast *file, uint32_t net);
// [value + 1] What a value follows from: of weights that an update has changed, from what they
// were.
uint8_t *value_origins(const Graph *g, Arena *a, uint32_t value);

#endif
