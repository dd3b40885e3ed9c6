// onednn_late.c - oneDNN, loaded when it is first called (library.h).
#include "dnn.h"

#define LATE_ROWS "onednn_late.def"
#define LATE_FILES DNNL_FILES
#define LATE_READY onednn_ready
#include "library_late.h"
