// linear_late.c - OpenBLAS, loaded when it is first called (library.h).
#include "linear.h"

#define LATE_ROWS "linear_late.def"
#define LATE_FILES OPENBLAS_FILES
#define LATE_READY linear_ready
#include "library_late.h"
