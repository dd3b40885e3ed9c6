// proto.h - protocol buffers, written and read: fields of a message, one after the other, as bytes.
// Field numbers and their types are those of the format's .proto file.
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

typedef enum ProtoWire { WireVarint = 0, WireDouble = 1, WireBytes = 2, WireFloat = 5 } ProtoWire;

typedef struct ProtoField {
    uint32_t number;
    ProtoWire wire;
    uint64_t value; // of a varint, or the bits of a float or double
    Str bytes;      // of WireBytes: borrowed from the message
} ProtoField;

// The next field of a message, which is cut off `message`. False: there is none, as `message` is
// empty, or what is left of it is damaged.
bool proto_next(Str *message, ProtoField *out);
// One number after the other of a repeated field, packed or not: `wire` is that of its elements.
// `left` begins as f->bytes. False: there is none left, or the rest is damaged.
bool proto_repeated(const ProtoField *f, ProtoWire wire, Str *left, bool *first, uint64_t *out);
float proto_as_float(uint64_t bits);
double proto_as_double(uint64_t bits);

#endif
