// embed.h - text files carried inside the programs (cmake/embed.cmake makes the tables).
#ifndef GAN_EMBED_H
#define GAN_EMBED_H

#include <stddef.h>

typedef struct EmbeddedFile {
    const char *name; // file name without folder; NULL ends a table
    const char *text; // bytes, a 0 follows
    size_t len;       // bytes, without that 0
} EmbeddedFile;

#endif
