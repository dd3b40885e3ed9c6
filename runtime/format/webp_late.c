// webp_late.c - libwebp, loaded when it is first called (library.h).
#include <webp/decode.h>

#define LATE_ROWS "webp_late.def"
#define LATE_FILES WEBP_FILES
#define LATE_READY webp_ready
#include "library_late.h"
