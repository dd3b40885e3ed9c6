// type.c - types of values: extents, sizes, broadcasting, physical layout, text.
//
// Sizes saturate at INT64_MAX instead of overflowing, so that a rule can compare them first.
#include "half.h"
#include "op.h"

#include <string.h>

const char *const dtype_name[DtCount] = {
#define DTYPE(Name, text, bytes) [Dt##Name] = #text,
#include "dtypes.def"
#undef DTYPE
};

const size_t dtype_size[DtCount] = {
#define DTYPE(Name, text, bytes) [Dt##Name] = bytes,
#include "dtypes.def"
#undef DTYPE
};

float half_load(Dtype t, uint16_t x) {
    return t == DtF16 ? gan_f16_to_f32(x) : gan_bf16_to_f32(x);
}

uint16_t half_store(Dtype t, float x) {
    return t == DtF16 ? gan_f32_to_f16(x) : gan_f32_to_bf16(x);
}

Type type_make(bool batched, uint32_t rank, const int64_t *dim) {
    if (rank > MAX_RANK)
        bug("a type of %u axes", rank);
    Type t = {.dtype = DtF32, .rank = (uint8_t)rank, .batched = batched};
    for (uint32_t i = 0; i < rank; i++)
        t.dim[i] = dim[i];
    return t;
}

bool type_same_shape(const Type *a, const Type *b) {
    if (a->rank != b->rank || a->batched != b->batched)
        return false;
    for (uint32_t i = 0; i < a->rank; i++)
        if (a->dim[i] != b->dim[i])
            return false;
    return true;
}

bool type_same_layout(const Type *a, const Type *b) {
    return a->inner == b->inner && type_same_shape(a, b);
}

static int64_t times(int64_t a, int64_t b) {
    if (a == 0 || b == 0)
        return 0;
    return a > INT64_MAX / b ? INT64_MAX : a * b;
}

int64_t type_sample(const Type *t) {
    int64_t n = 1;
    for (uint32_t i = 0; i < t->rank; i++)
        n = times(n, t->dim[i]);
    return n;
}

int64_t type_elements(const Graph *g, const Type *t) {
    return times(type_sample(t), t->batched ? g->batch : 1);
}

size_t type_bytes(const Graph *g, const Type *t) {
    return (size_t)times(type_elements(g, t), (int64_t)dtype_size[t->dtype]);
}

bool type_broadcast(const Type *a, const Type *b, Type *out) {
    Type t = *a;
    t.batched = a->batched || b->batched;
    t.rank = a->rank > b->rank ? a->rank : b->rank;
    for (uint32_t i = 0; i < t.rank; i++) {
        int64_t da = i < a->rank ? a->dim[i] : 1, db = i < b->rank ? b->dim[i] : 1;
        if (da != db && da != 1 && db != 1)
            return false;
        t.dim[i] = da == 1 ? db : da;
    }
    *out = t;
    return true;
}

void type_layout(const Type *t, int64_t stride[MAX_RANK + 1]) {
    const uint32_t first = !t->batched, second = first + 1, last = t->rank; // axes; 0 is the batch
    const uint32_t inner = t->inner ? t->inner : last > second ? second : last;
    int64_t n = 1;
    memset(stride, 0, sizeof(int64_t) * (MAX_RANK + 1));
    for (uint32_t k = 0; k + first <= last; k++) { // from the fastest axis to the slowest
        uint32_t axis = last + 1 - k;
        axis = k == 0 ? inner : axis <= inner ? axis - 1 : axis;
        stride[axis] = n;
        n = axis ? times(n, t->dim[axis - 1]) : n;
    }
    stride[0] = n;
}

void type_strides(const Type *t, int64_t stride[MAX_RANK + 1]) {
    type_layout(t, stride);
    stride[0] = t->batched ? stride[0] : 0;
    for (uint32_t i = 0; i < t->rank; i++)
        if (t->dim[i] == 1)
            stride[1 + i] = 0;
}

TypeName type_name(const Type *t) {
    TypeName name = {"["};
    size_t n = 1;
    if (t->batched)
        n += (size_t)snprintf(name.s + n, sizeof name.s - n, "B%s", t->rank ? ", " : "");
    for (uint32_t i = 0; i < t->rank; i++)
        n += (size_t)snprintf(name.s + n, sizeof name.s - n, "%s%lld%s", i ? ", " : "",
                              (long long)t->dim[i], t->inner == 1 + i ? "'" : "");
    snprintf(name.s + n, sizeof name.s - n, "]");
    return name;
}

Str type_text(Arena *a, const Type *t) {
    return str_copy(a, str_c(type_name(t).s));
}
