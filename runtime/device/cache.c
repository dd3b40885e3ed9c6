// cache.c - see cache.h.
#define _GNU_SOURCE
#include "cache.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

// HASH.so.PID-N.c, HASH.so.PID-N.o, HASH.KIND.tmp-PID-N: names that nothing else has.
static bool is_being_made(Str name) {
    enum { HEX = 32 };
    size_t digits = strspn(name.ptr, "0123456789abcdef");
    Str rest = str_sub(name, HEX, name.len);
    bool text = str_ends(rest, STR(".c")) || str_ends(rest, STR(".o"));
    return digits == HEX && ((text && str_starts(rest, STR(".so.")) && strchr(rest.ptr, '-')) ||
                             (rest.len && strstr(rest.ptr, ".tmp-")));
}

// A process that was killed leaves what it was making. Nothing is made for a day.
static void clear_left(Arena scratch, Str dir) {
    enum { DAY = 24 * 60 * 60 };
    StrVec names;
    struct stat info;
    if (dir_list(&scratch, dir, &names) != GAN_OK)
        return;
    for (uint32_t i = 0; i < names.n; i++) {
        Str path = path_join(&scratch, dir, names.at[i]);
        if (is_being_made(names.at[i]) && lstat(path.ptr, &info) == 0 &&
            time(NULL) - info.st_mtime > DAY)
            file_remove(path);
    }
}

GanStatus cache_dir(Arena *a, Str path) {
    mode_t old = umask(077);
    GanStatus status = dir_make(path);
    umask(old);
    TRY(status);
    struct stat info;
    const char *z = str_z(a, path);
    if (lstat(z, &info) != 0)
        return fail(GAN_ERR_IO, "cannot look at %s: %s", z, strerror(errno));
    if (!S_ISDIR(info.st_mode) || info.st_uid != geteuid() || (info.st_mode & 022))
        return fail(GAN_ERR_IO, "%s must be a folder of yours that no one else can write to", z);
    if (access(z, W_OK) != 0)
        return fail(GAN_ERR_IO, "cannot write to %s: %s", z, strerror(errno));
    clear_left(*a, path);
    return GAN_OK;
}

GanStatus sealed_write(Arena *a, Str path, Str bytes) {
    Hash128 sum = hash128(bytes.ptr, bytes.len);
    Text t = {.arena = a};
    text_put(&t, bytes);
    text_put(&t, (Str){(const char *)&sum, sizeof sum});
    Str whole = text_str(&t);
    return file_write_atomic(path, whole.ptr, whole.len);
}

// Maps the file and checks its seal; *out is without it.
static bool open_sealed(Str path, FileMap *map, Str *out) {
    Hash128 said, is;
    if (!file_exists(path) || file_map(path, map) != GAN_OK)
        return false;
    if (map->n > sizeof said) {
        *out = (Str){(const char *)map->ptr, map->n - sizeof said};
        memcpy(&said, map->ptr + out->len, sizeof said);
        is = hash128(out->ptr, out->len);
        if (said.lo == is.lo && said.hi == is.hi)
            return true;
    }
    file_unmap(map);
    return false;
}

bool sealed_intact(Str path) {
    FileMap map;
    Str bytes;
    bool fine = open_sealed(path, &map, &bytes);
    if (fine)
        file_unmap(&map);
    return fine;
}

Str cache_path(Arena *a, Str dir, Str key, const char *ext) {
    Str hex = hash_hex(a, hash128(key.ptr, key.len));
    return path_join(a, dir, str_format(a, "%.*s%s", SARG(hex), ext));
}

void cache_link(Arena *a, Str link, Str path) {
    static _Atomic uint32_t made; // by this process, which may have several threads here
    Str aside = str_format(a, "%.*s.tmp-%ld-%u", SARG(link), (long)getpid(), made++);
    if (symlink(str_z(a, path_base(path)), aside.ptr) == 0 &&
        rename(aside.ptr, str_z(a, link)) != 0)
        unlink(aside.ptr);
}

bool cache_follow(Arena *a, Str link, Str *path) {
    char name[64]; // of a kept file: a hash and an extension
    ssize_t n = readlink(str_z(a, link), name, sizeof name);
    if (n <= 0 || n == sizeof name || memchr(name, '/', (size_t)n))
        return false;
    *path = path_join(a, path_dir(link), (Str){name, (size_t)n});
    return true;
}

bool cache_get(Arena *a, Str path, Str *out) {
    FileMap map;
    Str bytes;
    if (!open_sealed(path, &map, &bytes))
        return false;
    *out = str_copy(a, bytes);
    file_unmap(&map);
    return true;
}
