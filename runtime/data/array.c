// array.c - arrays in files, a row at a time, whatever the format: npy, IDX and CIFAR are mapped,
// npz is unpacked, a table's text is converted. HDF5, which is read through its library, and arrays
// in Fortran order, whose rows are scattered, are read in windows of some megabytes.
#include "sources.h"

#include <string.h>

enum { Window = 8 << 20 }; // bytes read at once

static GanStatus open_mapped(Str path, SourceKind kind, Str dataset, bool missing, ArrayFile *f) {
    if (kind == SourceTable) {
        GanStatus st = table_numbers(path, missing, &f->blob, &f->all);
        return st == GAN_OK ? st : fail_in(st, "%.*s", SARG(path));
    }
    TRY(kind == SourceNpz ? blob_open_npz(path, dataset, &f->blob) : blob_open(path, &f->blob));
    GanStatus st = kind == SourceIdx     ? idx_parse(f->blob.ptr, f->blob.n, &f->all)
                   : kind == SourceCifar ? cifar_parse(f->blob.ptr, f->blob.n, &f->all, &f->head)
                                         : npy_parse(f->blob.ptr, f->blob.n, &f->all);
    return st == GAN_OK ? st : fail_in(st, "%.*s", SARG(path));
}

GanStatus array_open(Str path, SourceKind kind, Str dataset, bool missing, ArrayFile *out) {
    *out = (ArrayFile){0};
    TRY(source_holds(path, kind, dataset));
    GanStatus st = kind == SourceHdf5 ? hdf5_open(path, dataset, &out->hdf5, &out->all)
                                      : open_mapped(path, kind, dataset, missing, out);
    if (st == GAN_OK && out->all.rank && out->all.dim[0])
        out->row = out->all.count / (size_t)out->all.dim[0] * out->all.size;
    if (st != GAN_OK)
        array_close(out);
    return st;
}

// Rows of an array in Fortran order: an element of all rows lies in one piece.
static void gather_rows(const ArrayFile *f, uint8_t *to) {
    size_t size = f->all.size;
    for (size_t e = 0; e * size < f->row; e++) {
        const uint8_t *from = f->all.data + (array_place(&f->all, e) + f->first) * size;
        for (size_t r = 0; r < f->loaded; r++)
            memcpy(to + r * f->row + e * size, from + r * size, size);
    }
}

static GanStatus move_window(ArrayFile *f, size_t row) {
    size_t rows = (size_t)f->all.dim[0];
    if (!f->window) {
        f->windows = f->row && f->row < Window ? Window / f->row : 1;
        f->windows = f->windows < rows ? f->windows : rows;
        size_t bytes;
        f->window = mem_mul(f->windows, f->row, &bytes) ? mem_alloc(bytes) : NULL;
        if (!f->window)
            return fail(GAN_ERR_MEMORY, "no memory for a sample of %zu bytes", f->row);
    }
    f->first = row / f->windows * f->windows;
    f->loaded = rows - f->first < f->windows ? rows - f->first : f->windows;
    if (!f->hdf5)
        return gather_rows(f, f->window), GAN_OK;
    GanStatus st = hdf5_read(f->hdf5, f->first, f->loaded, f->window);
    if (st != GAN_OK)
        f->loaded = 0;
    return st;
}

GanStatus array_row(ArrayFile *f, size_t row, Array *out) {
    assert(row < (size_t)f->all.dim[0]);
    bool loaded = row >= f->first && row < f->first + f->loaded,
         mapped = !f->hdf5 && !f->all.fortran;
    if (!mapped && !loaded)
        TRY(move_window(f, row));
    *out = f->all;
    out->fortran = false;
    out->rank--;
    for (uint32_t i = 0; i < out->rank; i++)
        out->dim[i] = f->all.dim[i + 1];
    out->count = f->row / f->all.size;
    out->data = mapped ? f->all.data + row * (f->head + f->row) + f->head
                       : f->window + (row - f->first) * f->row;
    return GAN_OK;
}

void array_close(ArrayFile *f) {
    hdf5_close(f->hdf5);
    blob_close(&f->blob);
    mem_free(f->window);
    *f = (ArrayFile){0};
}
