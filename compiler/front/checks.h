// checks.h - what is likely a mistake, though it means something: warnings about a whole model.
#ifndef GAN_CHECKS_H
#define GAN_CHECKS_H

#include "elab.h"

// As a net is called.
void check_ranges(Elab *e, uint32_t net, Args args);  // ranges.c
void check_latents(Elab *e, uint32_t net, Args args); // latents.c
void note_scores(Elab *e, uint32_t net, Value v);     // sides.c: what it gave

// Of all that was elaborated.
void warn_unread_names(Elab *e, const Ast *file); // unread.c
void warn_unreached_weights(Elab *e);
void warn_sides(Elab *e); // sides.c

#endif
