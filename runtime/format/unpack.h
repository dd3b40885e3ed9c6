// unpack.h - archives through libarchive, and their members.
#ifndef GAN_UNPACK_H
#define GAN_UNPACK_H

#include "format.h"

#include <archive.h>
#include <archive_entry.h>
#include <locale.h>

// A zip or tar, packed or not.
GanStatus archive_open(Str path, struct archive **out);
// The current member's bytes, on the heap. `hint` is its size where the archive says one. At most
// `most` are unpacked.
GanStatus archive_member(struct archive *from, int64_t hint, size_t most, uint8_t **out,
                         size_t *out_n);
Str member_name(struct archive_entry *entry); // borrowed from it
// libarchive converts names to the thread's locale, and loses those that a C locale cannot hold.
// Around its calls the locale is therefore UTF-8, whatever the process has. 0: there is none.
locale_t utf8_new(void);
void utf8_free(locale_t utf8);               // accepts 0
bool gzip_is(const uint8_t *data, size_t n); // by its first bytes

#endif
