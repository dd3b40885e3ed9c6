// pack_format.h - private to data/: the bytes of a pack, shared by its reader and its writer.
//
//   lead     4096 bytes: magic, a line for people who look inside, zeros
//   records  count * stride bytes: the fields of a sample in turn, each on a multiple of 8
//   hashes   16 bytes for every `block` records
//   names    u64 offsets [count + 1] into the text that follows them
//   header   JSON: fields, count, stride, block, source, fit, the hash of hashes and names
//   trailer  64 bytes: where the header lies, its hash, the size of the file
//
// There are no gaps: every byte is covered by a hash or compared with a constant. The header comes
// last because it is known last: a pack is written as one stream. Numbers are in the machine's byte
// order, which the trailer records.
#ifndef GAN_PACK_FORMAT_H
#define GAN_PACK_FORMAT_H

#include "data.h"

enum { PackLead = 4096, PackAlign = 8, PackBlockBytes = 1 << 20, PackVersion = 1 };

typedef struct PackTrailer {
    char begin[8];           // PACK_END
    uint32_t version, order; // PackVersion, PACK_ORDER
    uint64_t header, header_size, file_size;
    Hash128 hash; // of the header
    char end[8];  // PACK_MAGIC
} PackTrailer;
static_assert(sizeof(PackTrailer) == 64, "the trailer is a file format");

#define PACK_MAGIC "GANPACK1"
#define PACK_END "GANPEND1"
#define PACK_ORDER 0x01020304u
#define PACK_LEAD_TEXT                                                                             \
    PACK_MAGIC "\nA set of training samples. Look inside with: ganrun data inspect FILE\n"

// Samples per hash: about a mebibyte, so that damage is located to within a few samples.
static inline uint64_t pack_block(size_t stride) {
    return stride < PackBlockBytes ? PackBlockBytes / stride : 1;
}

#endif
