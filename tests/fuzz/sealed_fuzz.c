// sealed_fuzz.c - a cached kernel from any bytes: one without a valid checksum is rejected, a
// sealed one reads back unchanged, and one with a flipped bit is rejected.
#define _GNU_SOURCE
#include "folder.h"

#include "cache.h"

#include <setjmp.h>
#include <string.h>

static Str path;

static void check(Arena *a, const uint8_t *data, size_t n) {
    Str bytes = {(const char *)data, n}, got, whole;
    if (sealed_write(a, path, bytes) != GAN_OK || file_read(a, path, &whole) != GAN_OK)
        bug("%s", gan_error());
    if (n && (!sealed_intact(path) || !sealed_read(a, path, &got) || !str_eq(got, bytes)))
        bug("what was kept is not what comes back");
    char *turned = arena_array(a, char, whole.len);
    memcpy(turned, whole.ptr, whole.len);
    turned[hash64(data, n, 0) % whole.len] ^= 1;
    folder_put(*a, path, turned, whole.len);
    if (sealed_intact(path) || sealed_read(a, path, &got))
        bug("a damaged file is taken");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    static Arena arena;
    if (!arena.base) {
        if (arena_init(&arena, (size_t)1 << 28) != GAN_OK)
            bug("%s", gan_error());
        path = path_join(&arena, folder_make(), STR("kernel.so"));
    }
    Arena a = arena;
    jmp_buf full;
    a.oom = &full;
    folder_put(a, path, data, n);
    if (setjmp(full) == 0) {
        Str got;
        if (sealed_intact(path) != sealed_read(&a, path, &got))
            bug("intact, and not there");
        check(&a, data, n);
    }
    return 0;
}
