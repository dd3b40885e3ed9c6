// weights_inspect.c - `ganrun data inspect` of a weight file: names, dtypes and shapes of its
// tensors, which a model needs to load them.
#include "data.h"
#include "torch.h"

#include <inttypes.h>

static Str dtype_of(const SafeTensor *t) {
    return t->dtype == SafeUnread ? t->kind : safe_dtype_name(t->dtype);
}

static void tell(Arena *a, const SafeFile *f, Str path, FILE *out) {
    uint64_t elements = 0;
    size_t widest = 0;
    for (uint32_t i = 0; i < f->tensor.n; i++) {
        const SafeTensor *t = &f->tensor.at[i];
        elements += t->count;
        widest = t->name.len > widest ? t->name.len : widest;
    }
    fprintf(out, "%.*s: weights, %u tensors, %" PRIu64 " numbers\n", SARG(path), f->tensor.n,
            elements);
    for (uint32_t i = 0; i < f->tensor.n; i++) {
        const SafeTensor *t = &f->tensor.at[i];
        Str dtype = dtype_of(t);
        Str shape = safe_shape(a, t);
        fprintf(out, "%-*.*s  %.*s %.*s%s\n", (int)widest, SARG(t->name), SARG(dtype), SARG(shape),
                t->dtype == SafeUnread ? ", not supported" : "");
    }
}

static void tell_json(Arena *a, const SafeFile *f, Str path, FILE *out) {
    Text text = {.arena = a};
    JsonOut j = {.text = &text};
    json_open(&j, '{');
    json_member_str(&j, "path", path);
    json_member_str(&j, "kind", STR("weights"));
    json_member_int(&j, "count", f->tensor.n);
    json_member_open(&j, "tensors", '[');
    for (uint32_t i = 0; i < f->tensor.n; i++) {
        const SafeTensor *t = &f->tensor.at[i];
        json_open(&j, '{');
        json_member_str(&j, "name", t->name);
        json_member_str(&j, "dtype", dtype_of(t));
        json_member_open(&j, "shape", '[');
        for (uint32_t k = 0; k < t->rank; k++)
            json_put_int(&j, t->dim[k]);
        json_close(&j, ']');
        json_close(&j, '}');
    }
    json_close(&j, ']');
    json_close(&j, '}');
    Str all = text_str(&text);
    fprintf(out, "%.*s\n", SARG(all));
}

GanStatus weights_inspect(Str path, bool json, FILE *out) {
    Arena a;
    SafeFile f = {0};
    TRY(arena_init(&a, 0));
    GanStatus st = weights_open(&a, path, &f);
    if (st == GAN_OK)
        (json ? tell_json : tell)(&a, &f, path, out);
    safe_close(&f);
    arena_release(&a);
    return st;
}
