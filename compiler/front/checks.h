// checks.h - what is likely a mistake, though it means something: warnings about a whole model.
#ifndef GAN_CHECKS_H
#define GAN_CHECKS_H

#include "elab.h"

// As a net is called.
void check_ranges(Elab *e, uint32_t net, Args args);  // ranges.c
void check_latents(Elab *e, uint32_t net, Args args); // latents.c
bool note_scores(Elab *e, uint32_t net, Value v);     // sides.c: whether it gave scores
void check_classes(Elab *e, uint32_t net, Args args); // classes.c: of one that did

// Of all that was elaborated.
void warn_unread_names(Elab *e, const Ast *file); // unread.c
void warn_unreached_weights(Elab *e);
void warn_sides(Elab *e); // sides.c
// [value + 1] What a value follows from: of weights that an update has changed, from what they
// were.
uint8_t *value_origins(const Graph *g, Arena *a, uint32_t value);

#endif
