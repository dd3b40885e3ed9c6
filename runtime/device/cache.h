// cache.h - compiled things kept on disk, one file each, named by the hash of what it was made
// from.
//
// There is no index and nothing to invalidate: a key holds everything that decides the bytes. Files
// are sealed: they end in the hash of what precedes it, so a damaged one is found out and made
// again. They are written aside and renamed: any number of processes may share the folder. It must
// be the user's own and closed to others, because what lies there is executed.
//
// Its size is bounded: once an hour at most, a process that opens the folder removes the files
// least recently used until the rest is below the limit. Reading a file sets its modification time
// (at most once an hour); a file used within two hours is never removed, so none disappears between
// being found and being loaded.
#ifndef GAN_CACHE_H
#define GAN_CACHE_H

#include "device_api.h"

// --- the folder ----------------------------------------------------------------------------------

// The user's folder, of what the environment says XDG_CACHE_HOME and HOME are; empty: neither is
// set.
Str cache_folder(Arena *a, Str xdg_cache_home, Str home);
#define CACHE_LIMIT ((uint64_t)2 << 30) // bytes on disk

// A limit as users write it, "500M"; empty: CACHE_LIMIT. GAN_ERR_USAGE when it is no size.
GanStatus cache_limit(Str text, uint64_t *out);
// Makes the folder where it is missing; once an hour, clears what processes that were killed left
// in it and prunes it to `limit` bytes (0: CACHE_LIMIT). GAN_ERR_IO when others could write to it,
// or we cannot.
GanStatus cache_dir(Arena *a, Str path, uint64_t limit);
GanStatus cache_dir_make(Str path); // only makes it
uint64_t cache_bytes(Str dir);      // on disk
// A cache that starts empty and is not kept: the prefix of its folder, a TemporaryDir in the
// cache's or, where there is none, in /tmp.
#define CACHE_ASIDE "ganrun-kernels-"

// --- files, each sealed --------------------------------------------------------------------------

// The path of what `key` names: dir/HASH.ext.
Str cache_path(Arena *a, Str dir, Str key, const char *ext);
GanStatus sealed_write(Arena *a, Str path, Str bytes);
bool sealed_intact(Str path); // it is there and as it was written
// What is told, once, of what a folder cannot keep: its disk is full, or may not be written to.
// Several threads may keep.
#define CACHE_ELSEWHERE "XDG_CACHE_HOME, or --cache DIR of ganrun, names another folder"
typedef struct CacheKeep { // NULL: nothing is told
    _Atomic bool told;
    void (*notice)(void *user, const char *text); // or NULL
    void *user;
} CacheKeep;
bool sealed_keep(CacheKeep *k, Arena *a, Str path, Str bytes); // sealed_write; false: it failed
void cache_tell(CacheKeep *k, Arena *a); // that nothing is kept, of what failed last (gan_error)
// The bytes without the seal, copied to `a`, a 0 byte behind them. False: there are none, or they
// are damaged.
bool sealed_read(Arena *a, Str path, Str *out);

// --- kernels: links to the file that each was compiled into, with others -------------------------

// The path of a kernel's link, or of the file, under everything but `text` that decides the code
// (`key`).
Str cache_path_of(Arena *a, Str dir, Str key, Str text, const char *ext);
// A second name for a kept file: `link` from then on leads to `path`, which lies beside it. Where
// the file system refuses (it may have no links), nothing leads there, and what the name stood for
// is made again.
void cache_link(Arena *a, Str link, Str path);
bool cache_follow(Arena *a, Str link, Str *path); // false: it leads nowhere
// Which of the files path[*n] `link` leads to. Another intact file is appended, while there are
// fewer than `most`. NONE: the kernel is to be compiled.
uint32_t cache_find(Arena *a, Str link, Str *path, uint32_t *n, uint32_t most);

// --- claims: processes with the same work share it -----------------------------------------------

// A claim to make the file at `path` is a lock on a file beside it, which ends with its process,
// and excludes no thread of it. Where the file system has no locks everyone gets it.
typedef struct CacheClaim {
    int fd; // of the lock, and 1; 0: none is held
} CacheClaim;
bool cache_claim(Str path, CacheClaim *c);   // false: another process has it
void cache_unclaim(Str path, CacheClaim *c); // accepts an empty one

#endif
