// io.h - private to base: paths, errors and injected failures of what works on files and folders.
#ifndef GAN_IO_H
#define GAN_IO_H

#include "base.h"

#include <limits.h>

// Whether this write-side call is the one that tests let fail (file_fail_at); errno is ENOSPC then.
// Every call that writes asks; cleaning up after a failure does not.
bool io_refused(void);
bool io_read_refused(void); // the same of a call that reads (file_fail_read_at), and EIO

typedef struct IoPath { // as the system wants it
    char z[PATH_MAX];
} IoPath;
bool io_path(Str path, IoPath *out);            // false: errno says why it cannot be one
int io_open(Str path, int flags);               // -1: errno
bool io_is_at(int fd, const char *path);        // is what is open what has this name?
bool io_write(int fd, const char *p, size_t n); // all of it; false: errno

// With the system's words for errno: "cannot open x.pack: No such file or directory".
GanStatus io_fail(const char *what, Str path);
GanStatus io_fail_memory(const char *what, Str path);

#endif
