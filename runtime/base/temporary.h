// temporary.h - folders that a process has to itself, for files: where kernels lie that are not
// kept; and what writers of files left that were killed.
#ifndef GAN_TEMPORARY_H
#define GAN_TEMPORARY_H

#include "base.h"

typedef struct TemporaryDir {
    Str path;   // zero-terminated
    int lock;   // a file descriptor, and 1; 0: there is no folder
    int listed; // for a process that is ended
} TemporaryDir;
// A new one in the folder `in`, of this user alone, for files. It goes with temporary_remove, or
// where a signal or a bug ends this process; after a kill, with the next one made or swept there, a
// minute later.
GanStatus temporary_make(Arena *a, Str in, Str prefix, TemporaryDir *out);
void temporary_remove(TemporaryDir *t); // accepts an empty one
void temporary_sweep(Arena scratch, Str in, Str prefix);
// Whether the process that made a file or a folder, open here, is gone: one that lives holds a lock
// on it. In its first minute it may not be locked yet; where the file system has no locks, a day
// decides. If so it is this process's alone to remove, until `fd` is closed.
bool temporary_is_left(int fd, const char *path);
// In a folder that no other process writes to: removes the temporaries of file_out.c, and gives
// back the name of a file of which nothing else is left. Other files stay, whatever they are
// called.
GanStatus temporary_clear(Arena *a, Str dir);
void temporary_drop(void); // all of this process, in signal handlers too: file_drop_temporaries

#endif
