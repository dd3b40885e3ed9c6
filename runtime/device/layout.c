// layout.c - converts values between logical order (row-major, batch first) and a device's storage.
//
// In: a type, a device's layout and dtype. Out: elements moved and converted. One odometer walks
// every layout.
#include "layout.h"

#include <string.h>

void value_put(void *storage, int64_t at, Dtype dtype, double x) {
    switch (dtype) {
    case DtF64:
        ((double *)storage)[at] = x;
        return;
    case DtF32:
        ((float *)storage)[at] = (float)x;
        return;
    case DtBF16:
    case DtF16:
        ((uint16_t *)storage)[at] = half_store(dtype, (float)x);
        return;
    case DtCount:
        break;
    }
    bug("layout: no storage for precision %d", (int)dtype);
}

double value_get(const void *storage, int64_t at, Dtype dtype) {
    switch (dtype) {
    case DtF64:
        return ((const double *)storage)[at];
    case DtF32:
        return ((const float *)storage)[at];
    case DtBF16:
    case DtF16:
        return half_load(dtype, ((const uint16_t *)storage)[at]);
    case DtCount:
        break;
    }
    bug("layout: no storage for precision %d", (int)dtype);
}

// Axes that one stride walks become one, so that inner loops are long: the rows and columns of a
// filter are next to each other in no layout, but as far apart in both directions.
static void join_axes(LayoutWalk *w) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < w->rank; i++) {
        int64_t extent = w->extent[i], stride = w->stride[i];
        bool joins = n && w->stride[n - 1] == stride * extent;
        if (extent == 1)
            continue;
        w->extent[joins ? n - 1 : n] = joins ? w->extent[n - 1] * extent : extent;
        w->stride[joins ? n - 1 : n] = stride;
        n += !joins;
    }
    if (!n)
        w->extent[n] = w->stride[n] = 1, n++;
    w->rank = n;
}

void walk_init(LayoutWalk *w, const Type *t, int64_t batch, bool logical) {
    *w = (LayoutWalk){.rank = t->rank + 1u};
    w->extent[0] = t->batched ? batch : 1;
    for (uint32_t i = 0; i < t->rank; i++)
        w->extent[i + 1] = t->dim[i];
    int64_t stride = 1;
    for (uint32_t i = w->rank; i-- > 0;) {
        w->stride[i] = stride;
        stride *= w->extent[i];
    }
    if (!logical)
        type_strides(t, w->stride);
    join_axes(w);
}

int64_t walk_next(LayoutWalk *w) {
    int64_t at = w->at;
    for (uint32_t i = w->rank; i-- > 0;) {
        w->at += w->stride[i];
        if (++w->index[i] < w->extent[i])
            break;
        w->at -= w->stride[i] * w->extent[i];
        w->index[i] = 0;
    }
    return at;
}

bool walk_in_order(const LayoutWalk *w) {
    int64_t step = 1;
    bool same = true;
    for (uint32_t i = w->rank; i-- > 0; step *= w->extent[i])
        same = same && (w->extent[i] == 1 || w->stride[i] == step);
    return same;
}

// The last axis is the inner loop; with `size` known it is a load and a store.
static inline void move_all(LayoutWalk w, size_t size, char *stored, char *logical, bool store) {
    int64_t n = w.extent[--w.rank], step = w.stride[w.rank] * (int64_t)size, rows = 1;
    for (uint32_t i = 0; i < w.rank; i++)
        rows *= w.extent[i];
    for (int64_t row = 0; row < rows; row++) {
        char *at = stored + walk_next(&w) * (int64_t)size;
        for (int64_t i = 0; i < n; i++, at += step, logical += size)
            memcpy(store ? at : logical, store ? logical : at, size);
    }
}

static void move_elements(const LayoutWalk *w, Dtype dtype, char *stored, char *logical,
                          bool store) {
    switch (dtype_size[dtype]) {
    case 2:
        move_all(*w, 2, stored, logical, store);
        return;
    case 4:
        move_all(*w, 4, stored, logical, store);
        return;
    case 8:
        move_all(*w, 8, stored, logical, store);
        return;
    }
    bug("layout: no storage for precision %d", (int)dtype);
}

void layout_store(const LayoutWalk *w, Dtype dtype, const void *logical, void *stored) {
    move_elements(w, dtype, stored, (char *)logical, true);
}

void layout_load(const LayoutWalk *w, Dtype dtype, const void *stored, void *logical) {
    move_elements(w, dtype, (char *)stored, logical, false);
}
