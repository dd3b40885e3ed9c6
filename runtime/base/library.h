// library.h - shared libraries loaded at run time: by the devices that must work without them, and
// where only some runs need one. A library that is linked is loaded at every start, with all that
// it is linked with: libarchive and libhdf5 bring forty others along, and linking oneDNN takes a
// few milliseconds. Such a one has a file of functions with its own names (archive_late.c), so that
// those who call it see no difference once they have asked for it (archive_ready).
#ifndef GAN_LIBRARY_H
#define GAN_LIBRARY_H

#include "base.h"

#include <pthread.h>

// The first of `names` (ends in NULL) that loads: as the loader finds it, else in a folder where
// libraries were when this was built. NULL: none does, and gan_error() is the loader's reason, of a
// file that is there before that of one that is not.
void *library_open(const char *const *names);
// Puts the function's address in *field, a pointer to a function. False: the library has none.
bool library_symbol(void *library, const char *symbol, void *field, size_t size);
typedef struct LibraryRow { // a function, and where its address goes
    const char *symbol;
    size_t field; // bytes from the start of a table of pointers to functions
} LibraryRow;
// Fills such a table, from rows[n]. Returns the first function that the library has not, NULL: it
// has all.
const char *library_fill(void *library, const LibraryRow *row, size_t n, void *table);
void library_close(void *library); // accepts NULL

// One that was there when this was built, and is loaded when it is first wanted. Threads may ask at
// once; one that could not be loaded is tried again.
typedef struct LibraryLate {
    pthread_mutex_t lock;
    bool loaded;
} LibraryLate;
// Runs `load` unless it has succeeded before.
GanStatus library_late(LibraryLate *l, GanStatus (*load)(void));
GanStatus library_need(const char *const *names, void **out); // stays loaded
GanStatus library_need_symbol(void *library, const char *symbol, void *field, size_t size);

// What must be said, and heard, before any function of the library is called. Built without it:
// says so.
GanStatus archive_ready(void); // archive_late.c
GanStatus hdf5_ready(void);    // runtime/format/hdf5_late.c, hdf5_none.c
GanStatus sound_ready(void);   // runtime/format/sound_late.c, sound_none.c
GanStatus webp_ready(void);    // runtime/format/webp_late.c, image_webp_none.c
GanStatus onednn_ready(void);  // runtime/device/onednn_late.c

#endif
