// sound_late.c - libsndfile, loaded when it is first called (library.h).
#include <sndfile.h>

#define LATE_ROWS "sound_late.def"
#define LATE_FILES SNDFILE_FILES
#define LATE_READY sound_ready
#include "library_late.h"
