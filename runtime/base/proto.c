// proto.c - see proto.h. The wire format is that of protobuf.dev/programming-guides/encoding.
#include "proto.h"

#include <string.h>

// --- writing -------------------------------------------------------------------------------------

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

// --- reading -------------------------------------------------------------------------------------

static bool take_fixed(Str *from, uint32_t bytes, uint64_t *out) {
    if (from->len < bytes)
        return false;
    *out = 0;
    for (uint32_t i = 0; i < bytes; i++)
        *out |= (uint64_t)(uint8_t)from->ptr[i] << 8 * i;
    *from = str_sub(*from, bytes, from->len);
    return true;
}

static bool take_varint(Str *from, uint64_t *out) {
    *out = 0;
    for (uint32_t i = 0; i < from->len && i < 10; i++) {
        uint8_t byte = (uint8_t)from->ptr[i];
        *out |= (uint64_t)(byte & 127) << 7 * i;
        if (byte < 128) {
            *from = str_sub(*from, i + 1, from->len);
            return true;
        }
    }
    return false;
}

static bool take_number(Str *from, ProtoWire wire, uint64_t *out) {
    return wire == WireVarint ? take_varint(from, out)
                              : take_fixed(from, wire == WireDouble ? 8 : 4, out);
}

bool proto_next(Str *message, ProtoField *out) {
    Str rest = *message;
    uint64_t key;
    if (!rest.len || !take_varint(&rest, &key) || key >> 3 == 0 || key >> 32)
        return false;
    *out = (ProtoField){.number = (uint32_t)(key >> 3), .wire = (ProtoWire)(key & 7)};
    if (out->wire != WireVarint && out->wire != WireDouble && out->wire != WireFloat &&
        out->wire != WireBytes)
        return false;
    if (out->wire != WireBytes) {
        if (!take_number(&rest, out->wire, &out->value))
            return false;
    } else {
        uint64_t n;
        if (!take_varint(&rest, &n) || n > rest.len)
            return false;
        out->bytes = str_sub(rest, 0, (size_t)n);
        rest = str_sub(rest, (size_t)n, rest.len);
    }
    *message = rest;
    return true;
}

bool proto_repeated(const ProtoField *f, ProtoWire wire, Str *left, bool *first, uint64_t *out) {
    if (f->wire == WireBytes)
        return left->len && take_number(left, wire, out);
    *out = f->value;
    bool one = *first && f->wire == wire;
    *first = false;
    return one;
}

float proto_as_float(uint64_t bits) {
    float x;
    uint32_t low = (uint32_t)bits;
    memcpy(&x, &low, sizeof x);
    return x;
}

double proto_as_double(uint64_t bits) {
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}
