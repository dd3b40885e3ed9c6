// proto.c - see proto.h. The wire format is that of protobuf.dev/programming-guides/encoding.
#include "proto.h"

#include <string.h>

enum { WireVarint = 0, WireDouble = 1, WireBytes = 2, WireFloat = 5 };

void proto_fixed(Text *t, uint64_t x, uint32_t bytes) {
    for (uint32_t i = 0; i < bytes; i++)
        text_char(t, (char)(uint8_t)(x >> 8 * i));
}

static void put_varint(Text *t, uint64_t x) {
    for (; x > 127; x >>= 7)
        text_char(t, (char)(uint8_t)(x | 128));
    text_char(t, (char)x);
}

void proto_number(Text *t, uint32_t field, uint64_t x) {
    put_varint(t, field << 3 | WireVarint);
    put_varint(t, x);
}

void proto_double(Text *t, uint32_t field, double x) {
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    put_varint(t, field << 3 | WireDouble);
    proto_fixed(t, bits, 8);
}

void proto_float(Text *t, uint32_t field, float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    put_varint(t, field << 3 | WireFloat);
    proto_fixed(t, bits, 4);
}

void proto_head(Text *t, uint32_t field, uint64_t bytes) {
    put_varint(t, field << 3 | WireBytes);
    put_varint(t, bytes);
}

void proto_bytes(Text *t, uint32_t field, Str bytes) {
    proto_head(t, field, bytes.len);
    text_put(t, bytes);
}

void proto_numbers(Text *t, uint32_t field, const int64_t *x, uint32_t n) {
    for (uint32_t i = 0; i < n; i++) // not packed: readers of both versions take that
        proto_number(t, field, (uint64_t)x[i]);
}
