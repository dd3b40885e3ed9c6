// archive_late.c - libarchive, loaded when it is first called (library.h).
#include <archive.h>
#include <archive_entry.h>

#define LATE_ROWS "archive_late.def"
#define LATE_FILES ARCHIVE_FILES
#define LATE_READY archive_ready
#include "library_late.h"
