// library.h - shared libraries loaded at run time, by the devices that must work without them.
#ifndef GAN_LIBRARY_H
#define GAN_LIBRARY_H

#include "base.h"

// The first of `names` (ends in NULL) that loads: as the loader finds it, else in a folder where
// libraries were when this was built. NULL when there is none.
void *library_open(const char *const *names);
// Puts the function's address in *field, a pointer to a function. False: the library has none.
bool library_symbol(void *library, const char *symbol, void *field, size_t size);
void library_close(void *library); // accepts NULL

#endif
