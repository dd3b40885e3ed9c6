// safetensors.h - files of named tensors: reading any, writing in pieces.
#ifndef GAN_SAFETENSORS_H
#define GAN_SAFETENSORS_H

#include "format.h"

// SafeUnread is any other: its bytes are there, its numbers are not read.
#define SAFE_DTYPES(X)                                                                             \
    X(SafeF64, "F64", 8)                                                                           \
    X(SafeF32, "F32", 4)                                                                           \
    X(SafeBf16, "BF16", 2)                                                                         \
    X(SafeF16, "F16", 2)                                                                           \
    X(SafeU8, "U8", 1)                                                                             \
    X(SafeI64, "I64", 8)                                                                           \
    X(SafeI32, "I32", 4)                                                                           \
    X(SafeUnread, "", 0)
typedef enum SafeDtype {
#define X(name, text, size) name,
    SAFE_DTYPES(X)
#undef X
} SafeDtype;

typedef struct SafeTensor {
    Str name;
    SafeDtype dtype;
    Str kind; // reading: the dtype as the file has it
    uint32_t rank;
    int64_t dim[DATA_MAX_RANK];
    const uint8_t *data; // reading: borrowed from the map, may be unaligned; not used in writing
    size_t count, bytes; // elements that can be read, and all bytes; set by reader and writer
} SafeTensor;
typedef struct SafeMeta {
    Str key, value;
} SafeMeta;

typedef struct SafeFile {
    VEC(SafeTensor) tensor; // in the file's order
    VEC(SafeMeta) meta;     // in the file's order
    FileMap map;            // owned, or empty
} SafeFile;

GanStatus safe_open(Arena *perm, Str path, SafeFile *out);
GanStatus safe_open_bytes(Arena *perm, const uint8_t *data, size_t n, SafeFile *out);
// The file mapped, and read by a reader of bytes, which borrows them.
typedef GanStatus SafeReader(Arena *perm, const uint8_t *data, size_t n, SafeFile *out);
GanStatus safe_open_by(SafeReader *reader, Arena *perm, Str path, SafeFile *out);
void safe_close(SafeFile *f);                             // accepts an empty file
const SafeTensor *safe_find(const SafeFile *f, Str name); // NULL when absent
Str safe_shape(Arena *a, const SafeTensor *t);            // "[2, 3]"
Str safe_dtype_name(SafeDtype dtype);                     // "F32"; of SafeUnread ""
double safe_at(const SafeTensor *t, size_t i);            // element as a number, any dtype read

typedef struct SafeOut SafeOut;
// The header first (names, shapes, offsets), then the bytes of the tensors in that order, in pieces
// of any size.
GanStatus safe_out_open(Str path, SafeTensor *tensor, size_t n, const SafeMeta *meta, size_t metas,
                        SafeOut **out);
GanStatus safe_out_put(SafeOut *f, const void *data, size_t n);
FileOut *safe_out_end(SafeOut *f); // the file, to be committed; frees f; too few bytes are a bug
GanStatus safe_out_commit(SafeOut *f); // frees f either way
void safe_out_abandon(SafeOut *f);     // accepts NULL

#endif
