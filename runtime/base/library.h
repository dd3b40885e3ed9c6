// library.h - shared libraries loaded at run time: by the devices that must work without them, and
// where only some runs need one. A library that is linked is loaded at every start, with all that
// it is linked with: libarchive and libhdf5 bring forty others along. Such a one has a file of
// functions with its own names (archive_late.c), so that those who call it see no difference.
#ifndef GAN_LIBRARY_H
#define GAN_LIBRARY_H

#include "base.h"

// The first of `names` (ends in NULL) that loads: as the loader finds it, else in a folder where
// libraries were when this was built. NULL when there is none.
void *library_open(const char *const *names);
// Puts the function's address in *field, a pointer to a function. False: the library has none.
bool library_symbol(void *library, const char *symbol, void *field, size_t size);
void library_close(void *library); // accepts NULL
// The same for one that was there when this was built: where it cannot be loaded, or lacks the
// function, the process ends, as it would if it had been linked.
void *library_need(const char *const *names);
void library_need_symbol(void *library, const char *symbol, void *field, size_t size);

#endif
