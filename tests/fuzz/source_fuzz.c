// source_fuzz.c - a file of samples of any kind: its format is detected from its bytes, members of
// archives are unpacked, arrays and images read, labels taken, and a pack made of them. Except
// HDF5, which is parsed by its library (hdf5_test damages some): 1.10 reads out of bounds on a
// damaged group list.
#define _GNU_SOURCE
#include "folder.h"

#include "sources.h"

#include <string.h>

static void pack(Arena *a, Str path, PackOptions o) {
    Pack p = {0};
    SourceKind kind;
    o.skip_bad = true;
    o.threads = 1;
    o.limit = 64;
    bool made = source_guess(path, &kind) == GAN_OK && kind != SourcePack; // which is used as it is
    if (pack_build(a, path, &o, (Str){0}, &p, NULL) == GAN_OK && pack_verify(&p) != GAN_OK && made)
        bug("what was packed is damaged: %s", gan_error());
    pack_close(&p);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    static const char hdf5[] = "\x89HDF";
    static const char *const name[] = {"a", "a.bin"}; // CIFAR's are told by their names
    static Arena arena;
    static Str folder;
    if (!arena.base && arena_init(&arena, (size_t)1 << 30) != GAN_OK)
        return 0;
    if (!folder.ptr)
        folder = folder_make();
    if (n >= 4 && memcmp(data, hdf5, 4) == 0)
        return 0;
    Arena mark = arena;
    for (int i = 0; i < 2; i++) {
        Str path = path_join(&arena, folder, str_c(name[i]));
        Pack labels = {0};
        folder_put(arena, path, data, n);
        pack(&arena, path, (PackOptions){0});
        pack(&arena, path, (PackOptions){.w = 4, .h = 4, .channels = 1, .labels = STR("auto")});
        pack(&arena, path, (PackOptions){.length = 50, .labels = STR("folders")});
        if (pack_labels(&arena, path, &labels) == GAN_OK && pack_verify(&labels) != GAN_OK)
            bug("labels are damaged: %s", gan_error());
        pack_close(&labels);
    }
    arena = mark;
    return 0;
}
