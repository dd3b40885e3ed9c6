// proto.h - protocol buffers, written: fields of a message, one after the other, as bytes. Field
// numbers and their types are those of the format's .proto file.
#ifndef GAN_PROTO_H
#define GAN_PROTO_H

#include "base.h"

void proto_fixed(Text *t, uint64_t x, uint32_t bytes);  // little-endian, without a field
void proto_number(Text *t, uint32_t field, uint64_t x); // int32, int64, uint64, bool, enum
void proto_double(Text *t, uint32_t field, double x);
void proto_float(Text *t, uint32_t field, float x);
void proto_bytes(Text *t, uint32_t field, Str bytes); // string, bytes, a message
void proto_numbers(Text *t, uint32_t field, const int64_t *x, uint32_t n); // repeated int64
// Begins a field of so many bytes, which follow by other ways.
void proto_head(Text *t, uint32_t field, uint64_t bytes);

#endif
