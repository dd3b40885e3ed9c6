// cache.c - see cache.h.
#define _GNU_SOURCE
#include "cache.h"
#include "temporary.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define CLAIM ".claim" // behind the name of the file that is to be made

// HASH.so.PID-N.c, HASH.so.PID-N.o, HASH.so.claim, HASH.KIND.tmp-...: names that nothing else
// has.
static bool is_being_made(Str name) {
    enum { HEX = 32 };
    size_t digits = strspn(name.ptr, "0123456789abcdef");
    Str rest = str_sub(name, HEX, name.len);
    bool text = str_ends(rest, STR(".c")) || str_ends(rest, STR(".o"));
    if (digits == HEX && str_eq(rest, STR(".so" CLAIM)))
        return true;
    return digits == HEX && ((text && str_starts(rest, STR(".so.")) && strchr(rest.ptr, '-')) ||
                             (rest.len && strstr(rest.ptr, ".tmp-")));
}

// --- pruning -------------------------------------------------------------------------------------

enum { HOUR = 60 * 60, DAY = 24 * HOUR };
#define STAMP "pruned" // its modification time is that of the last pruning

typedef struct Entry {
    Str path;
    uint64_t bytes; // on disk
    int64_t used;   // modification time
} Entry;

typedef struct Prune {
    Arena arena;
    Str dir;
    uint64_t limit, bytes; // of all files
    VEC(Entry) file;
    StrVec link;
} Prune;

// Where a clock was set back, what it had stamped before is no younger for that: it would be kept,
// and nothing pruned, until the clock has caught up.
static int64_t age(int64_t time_of) {
    int64_t seconds = (int64_t)time(NULL) - time_of;
    return seconds < 0 ? -seconds : seconds;
}

// Files and links; what is being made is left alone for a day, and then was left by a process that
// was killed.
static GanStatus list_entries(void *user) {
    Prune *p = user;
    StrVec names;
    struct stat info;
    TRY(dir_list(&p->arena, p->dir, &names));
    for (uint32_t i = 0; i < names.n; i++) {
        Str path = path_join(&p->arena, p->dir, names.at[i]);
        if (lstat(path.ptr, &info) != 0)
            continue;
        Entry e = {path, (uint64_t)info.st_blocks * 512, info.st_mtime};
        p->bytes += e.bytes;
        if (S_ISLNK(info.st_mode))
            vec_push(&p->arena, &p->link, path);
        else if (S_ISREG(info.st_mode) && (!is_being_made(names.at[i]) || age(e.used) > DAY))
            vec_push(&p->arena, &p->file, e);
    }
    return GAN_OK;
}

static int least_recently_used(const void *a, const void *b) {
    const Entry *x = a, *y = b;
    return x->used < y->used ? -1 : x->used > y->used ? 1 : str_cmp(x->path, y->path);
}

// Another process may do the same, and others read meanwhile.
static void remove_entries(Prune *p) {
    struct stat info;
    bool over = p->bytes > p->limit;
    if (over)
        qsort(p->file.at, p->file.n, sizeof *p->file.at, least_recently_used);
    for (uint32_t i = 0; i < p->file.n; i++) {
        const Entry *e = &p->file.at[i];
        bool left = is_being_made(path_base(e->path));
        // To nine tenths, lest the next hour prunes again; looked at anew, as it may be read now.
        bool pruned = over && p->bytes > p->limit / 10 * 9 && age(e->used) > 2 * HOUR &&
                      lstat(e->path.ptr, &info) == 0 && info.st_mtime == e->used;
        if ((left || pruned) && unlink(e->path.ptr) == 0)
            p->bytes -= e->bytes < p->bytes ? e->bytes : p->bytes;
    }
    for (uint32_t i = 0; i < p->link.n; i++) // to what is gone
        if (stat(p->link.at[i].ptr, &info) != 0 && errno == ENOENT)
            unlink(p->link.at[i].ptr);
}

static GanStatus prune_open(Str dir, Prune *p) {
    *p = (Prune){0};
    TRY(arena_init(&p->arena, 0));
    p->dir = str_copy(&p->arena, dir);
    GanStatus st = arena_guard(&p->arena, "to look at the kernel cache", list_entries, p);
    if (st != GAN_OK)
        arena_release(&p->arena);
    return st;
}

// Whether the last pruning was an hour ago. The next one will then be an hour from now, also if
// this one fails.
static bool prune_due(Arena scratch, Str dir) {
    struct stat info;
    Str stamp = path_join(&scratch, dir, STR(STAMP));
    if (lstat(stamp.ptr, &info) == 0 && age(info.st_mtime) < HOUR)
        return false;
    int fd = open(stamp.ptr, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    bool due = fd >= 0 && futimens(fd, NULL) == 0;
    if (fd >= 0)
        close(fd);
    return due;
}

static void prune(Arena scratch, Str dir, uint64_t limit) {
    Prune p;
    if (!prune_due(scratch, dir) || prune_open(dir, &p) != GAN_OK)
        return;
    temporary_sweep(scratch, dir, STR(CACHE_ASIDE));
    p.limit = limit ? limit : CACHE_LIMIT;
    remove_entries(&p);
    arena_release(&p.arena);
}

static void mark_used(Str path) {
    struct stat info;
    char z[PATH_MAX];
    int n = snprintf(z, sizeof z, "%.*s", SARG(path));
    if (n > 0 && (size_t)n < sizeof z && stat(z, &info) == 0 && age(info.st_mtime) > HOUR)
        utimensat(AT_FDCWD, z, NULL, 0);
}

uint64_t cache_bytes(Str dir) {
    Prune p;
    if (prune_open(dir, &p) != GAN_OK)
        return 0;
    arena_release(&p.arena);
    return p.bytes;
}

// The XDG specification has a relative path ignored: each folder a program is started in would get
// a cache of its own.
Str cache_folder(Arena *a, Str xdg_cache_home, Str home) {
    Str base = str_starts(xdg_cache_home, STR("/")) ? xdg_cache_home
               : home.len                           ? path_join(a, home, STR(".cache"))
                                                    : (Str){0};
    return base.len ? path_join(a, base, STR("gan")) : (Str){0};
}

GanStatus cache_limit(Str text, uint64_t *out) {
    size_t bytes = 0;
    if (text.len && !str_to_bytes(text, &bytes))
        return fail(GAN_ERR_USAGE, "GAN_CACHE_LIMIT is `%.*s`: a size, such as 500M or 4G",
                    SARG(text));
    *out = text.len ? bytes : CACHE_LIMIT;
    return GAN_OK;
}

// --- the folder ----------------------------------------------------------------------------------

GanStatus cache_dir_make(Str path) {
    mode_t old = umask(077);
    GanStatus status = dir_make(path);
    umask(old);
    return status;
}

GanStatus cache_dir(Arena *a, Str path, uint64_t limit) {
    TRY(cache_dir_make(path));
    struct stat info;
    const char *z = str_z(a, path);
    if (lstat(z, &info) != 0)
        return fail(GAN_ERR_IO, "cannot look at %s: %s", z, strerror(errno));
    if (!S_ISDIR(info.st_mode) || info.st_uid != geteuid() || (info.st_mode & 022))
        return fail(GAN_ERR_IO, "%s must be a folder of yours that no one else can write to", z);
    if (access(z, W_OK) != 0)
        return fail(GAN_ERR_IO, "cannot write to %s: %s", z, strerror(errno));
    prune(*a, path, limit);
    return GAN_OK;
}

// --- sealed files --------------------------------------------------------------------------------

GanStatus sealed_write(Arena *a, Str path, Str bytes) {
    Hash128 sum = hash128(bytes.ptr, bytes.len);
    Text t = {.arena = a};
    text_put(&t, bytes);
    text_put(&t, (Str){(const char *)&sum, sizeof sum});
    Str whole = text_str(&t);
    return file_write_atomic(path, whole.ptr, whole.len);
}

void cache_tell(CacheKeep *k, Arena *a) {
    if (k && !atomic_exchange(&k->told, true) && k->notice)
        k->notice(
            k->user,
            str_format(a, "compiled kernels are not kept: %s; " CACHE_ELSEWHERE, gan_error()).ptr);
}

bool sealed_keep(CacheKeep *k, Arena *a, Str path, Str bytes) {
    bool kept = sealed_write(a, path, bytes) == GAN_OK;
    if (!kept)
        cache_tell(k, a);
    return kept;
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
        if (said.lo == is.lo && said.hi == is.hi) {
            mark_used(path);
            return true;
        }
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

bool sealed_read(Arena *a, Str path, Str *out) {
    FileMap map;
    Str bytes;
    if (!open_sealed(path, &map, &bytes))
        return false;
    *out = str_copy(a, bytes);
    file_unmap(&map);
    return true;
}

Str cache_path(Arena *a, Str dir, Str key, const char *ext) {
    Str hex = hash_hex(a, hash128(key.ptr, key.len));
    return path_join(a, dir, str_format(a, "%.*s%s", SARG(hex), ext));
}

// --- kernels as links ----------------------------------------------------------------------------

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

Str cache_path_of(Arena *a, Str dir, Str key, Str text, const char *ext) {
    Str own = hash_hex(a, hash128(text.ptr, text.len));
    return cache_path(a, dir, str_format(a, "%.*s %.*s", SARG(key), SARG(own)), ext);
}

uint32_t cache_find(Arena *a, Str link, Str *path, uint32_t *n, uint32_t most) {
    Str file;
    uint32_t at = 0;
    if (!cache_follow(a, link, &file))
        return NONE;
    while (at < *n && !str_eq(path[at], file))
        at++;
    if (at < *n)
        return at;
    if (at == most || !sealed_intact(file))
        return NONE;
    path[(*n)++] = file;
    return at;
}

// --- claims --------------------------------------------------------------------------------------

typedef struct ClaimFile {
    char z[PATH_MAX];
} ClaimFile;

static bool claim_file(Str path, ClaimFile *f) {
    int n = snprintf(f->z, sizeof f->z, "%.*s" CLAIM, SARG(path));
    return n > 0 && (size_t)n < sizeof f->z;
}

bool cache_claim(Str path, CacheClaim *c) {
    ClaimFile f;
    struct flock all = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    *c = (CacheClaim){0};
    int fd = claim_file(path, &f) ? open(f.z, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600) : -1;
    if (fd < 0)
        return true;
    if (fcntl(fd, F_SETLK, &all) == 0) {
        c->fd = fd + 1;
        return true;
    }
    bool taken = errno == EAGAIN || errno == EACCES;
    close(fd);
    return !taken;
}

// Removed before it is unlocked. Who opened it in between locks a file without a name, which
// excludes nobody: then two processes may make the same thing, which does no harm.
void cache_unclaim(Str path, CacheClaim *c) {
    ClaimFile f;
    if (c->fd) {
        if (claim_file(path, &f))
            unlink(f.z);
        close(c->fd - 1);
    }
    *c = (CacheClaim){0};
}
