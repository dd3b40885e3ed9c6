// base.h - the base of every layer: status, memory, text, containers, hashing, files, JSON.
//
// Nothing here prints, exits or reads the environment, but for bug, no_memory and process.h. A
// function that can fail because of its environment returns GanStatus; the message (with path, size
// and the system's own words) is kept per thread and read with gan_error(). Heap memory goes
// through mem_* so that a test can make the n-th allocation fail.
#ifndef GAN_BASE_H
#define GAN_BASE_H

#include <assert.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

// --- status.c: run-time errors -------------------------------------------------------------------

typedef enum GanStatus {
    GAN_OK = 0,
    GAN_ERR_INPUT,  // the user's model, data or reference is wrong: exit code 1
    GAN_ERR_USAGE,  // command line: exit code 2
    GAN_ERR_IO,     // a file or folder could not be read or written: exit code 3
    GAN_ERR_MEMORY, // an allocation was refused: exit code 3
    GAN_ERR_DEVICE, // device, library or compiler missing or failing: exit code 3
    GAN_ERR_BUG,    // ours: exit code 70
    GAN_STOPPED,    // saved and stopped on request: exit code 75
} GanStatus;

// Sets this thread's message and returns `code`: `return fail(GAN_ERR_IO, "%.*s: %s", SARG(path),
// strerror(errno))`.
GanStatus fail(GanStatus code, const char *format, ...);
// Puts "what: " before this thread's message (a caller adds its context) and returns `code`
// unchanged.
GanStatus fail_in(GanStatus code, const char *format, ...);
const char *gan_error(void);       // this thread's last message, "" when none
int gan_exit_code(GanStatus code); // of a program that ends with this status (docs/runs.md)
// What begins a message that is handed to nobody (bug, no_memory, process.h): the
// program's name, set once and before any other thread.
void speak_as(const char *program);
const char *speaker(void);
// A bug of ours, where release builds must stop too: prints, and aborts with 70.
_Noreturn void bug(const char *format, ...);
// Where nothing can be handed upwards: prints and ends with 3.
_Noreturn void no_memory(const char *format, ...);

#define TRY(call)                                                                                  \
    do {                                                                                           \
        GanStatus try_ = (call);                                                                   \
        if (try_ != GAN_OK)                                                                        \
            return try_;                                                                           \
    } while (0)
#define TRY_OUT(call)                                                                              \
    do {                                                                                           \
        st = (call);                                                                               \
        if (st != GAN_OK)                                                                          \
            goto out;                                                                              \
    } while (0) // needs `GanStatus st` and `out:`

// --- mem.c: heap and arenas ----------------------------------------------------------------------

void *mem_alloc(size_t size); // NULL when refused; zeroed; size 0 gives a valid pointer
// NULL when refused, the old block stays; new bytes not zeroed.
void *mem_realloc(void *ptr, size_t size);
void mem_free(void *ptr);                           // accepts NULL
void *mem_alloc_aligned(size_t size, size_t align); // zeroed; free with mem_free_aligned
void *mem_alloc_pages(size_t size); // the same at 64 bytes; large blocks at, and of, large pages
void mem_free_aligned(void *ptr);
bool mem_mul(size_t a, size_t b, size_t *out); // checked product
int by_double(const void *a, const void *b);   // of two doubles, for qsort
// Tests: the nth allocation from now (1 = next) is refused; 0 = never.
void mem_fail_at(int64_t nth);
int64_t mem_count(void);   // allocations asked for so far (this process)
size_t mem_peak_rss(void); // bytes, peak resident set of the process

// One reserved address range, committed as touched. Passing an Arena by value makes a checkpoint:
// what the callee allocates is gone when it returns (`Arena scratch`). `Arena *perm` results
// outlive the call. When the range is exhausted or memory is refused, longjmps to `oom` if set
// (arena_guard), else ends the program (no_memory).
typedef struct Arena {
    char *beg, *end; // free part of the range
    char *base;      // start of the range, for release
    void *oom;       // jmp_buf *, borrowed; NULL: no_memory
} Arena;

// Reserves that many bytes of address space (0: 16 GiB), fewer where it is limited.
GanStatus arena_init(Arena *a, size_t reserve);
void arena_need(Arena *a);    // the same with 0, or the program ends (no_memory)
void arena_release(Arena *a); // accepts an empty arena
void *arena_alloc(Arena *a, size_t size, size_t align); // zeroed
// Calls `run`; where an allocation from `a` fails in it, returns GAN_ERR_MEMORY ("no memory " and
// `what`, as "to load a plan") instead of jumping past the caller. Guards nest. What run owns
// outside the arena must be reachable from `user`, for the caller to release.
GanStatus arena_guard(Arena *a, const char *what, GanStatus (*run)(void *user), void *user);
#define arena_new(a, T) ((T *)arena_alloc((a), sizeof(T), _Alignof(T)))
#define arena_array(a, T, n) ((T *)arena_array_((a), sizeof(T), _Alignof(T), (size_t)(n)))
void *arena_array_(Arena *a, size_t size, size_t align, size_t n); // overflow-checked, zeroed

// A growable array in an arena: `VEC(uint32_t) v = {0}; vec_push(arena, &v, x); v.at[i]; v.n`.
#define VEC(T)                                                                                     \
    struct {                                                                                       \
        T *at;                                                                                     \
        uint32_t n, cap;                                                                           \
    }
#define vec_push(a, v, x)                                                                          \
    (vec_grow((a), (void **)&(v)->at, &(v)->cap, (v)->n, sizeof *(v)->at), (v)->at[(v)->n++] = (x))
#define vec_add(a, v)                                                                              \
    (vec_grow((a), (void **)&(v)->at, &(v)->cap, (v)->n, sizeof *(v)->at), &(v)->at[(v)->n++])
void vec_grow(Arena *a, void **at, uint32_t *cap, uint32_t n,
              size_t size); // room for one more; new room is zeroed

// --- str.c: text ---------------------------------------------------------------------------------

typedef struct Str {
    const char *ptr;
    size_t len;
} Str; // not terminated; immutable; {0} is the empty text
#define STR_INIT(literal)                                                                          \
    { (literal), sizeof(literal) - 1 } // of a static one
#define STR(literal) ((Str)STR_INIT(literal))
#define SARG(s) (int)(s).len, (s).ptr // for "%.*s"

Str str_c(const char *zero_terminated); // borrowed
bool str_eq(Str a, Str b);
int str_cmp(Str a, Str b); // bytewise order
bool str_starts(Str s, Str prefix);
bool str_ends(Str s, Str suffix);
Str str_sub(Str s, size_t from, size_t to);        // clamped
Str str_cut(Str s, size_t most);                   // to so many bytes, between UTF-8 characters
size_t str_find(Str s, char c);                    // index, or s.len
Str str_copy(Arena *a, Str s);                     // followed by a 0 byte outside len
Str str_format(Arena *a, const char *format, ...); // the same
Str str_vformat(Arena *a, const char *format, va_list args);
const char *str_z(Arena *a, Str s);     // zero-terminated copy, for the edge of the system
bool str_to_double(Str s, double *out); // whole text must be a number; locale-independent
bool str_to_int(Str s, int64_t *out);
int str_to_byte(Str s); // its first two hexadecimal digits; -1: it does not begin with two
bool str_to_bytes(Str s, size_t *out); // "12G", "1.5GiB", "800MiB", "4096": at least one byte
typedef struct SizeText {
    char z[24];
} SizeText;
SizeText size_text(size_t bytes);    // "1709.0 MiB", "1.5 KiB", "12 bytes"; rounded up
uint32_t str_distance(Str a, Str b); // Damerau-Levenshtein
// Did-you-mean: the nearest of `known` within a third of the word's length, or an empty Str.
Str str_nearest(Str word, const Str *known, uint32_t n);
// What a message about an unknown word ends with: ": did you mean `x`?", or as many as there is
// room for of what is known, ": there are `x`, `y`"; empty where nothing is.
typedef struct KnownText {
    char at[320];
} KnownText;
KnownText known_text(Str word, const Str *known, uint32_t n);
int by_str(const void *a, const void *b); // of two Str, for qsort and bsearch
bool str_utf8_valid(Str s, size_t *bad_at);
uint32_t str_code_points(Str s);    // of UTF-8: as many columns on a screen, mostly
Str str_double(Arena *a, double x); // shortest text that reads back to the same double
// For terminals: control bytes, which names in others' files may hold, become ?, but not line ends
// and tabs.
void str_mask(char *zero_terminated);

typedef struct Setting {
    Str key, value;
} Setting; // key=value, as on a command line

// A text being built. Not terminated until text_str.
typedef struct Text {
    Arena *arena;
    char *at;
    size_t n, cap;
} Text;
void text_put(Text *t, Str s);
void text_char(Text *t, char c);
void text_fmt(Text *t, const char *format, ...);
Str text_str(Text *t); // borrowed from the arena; a 0 byte follows

// --- map.c: open-addressing map of 64-bit keys to 32-bit values, in an arena ---------------------

typedef struct Map {
    uint64_t *key;
    uint32_t *val;
    uint32_t n, cap;
} Map;                                                      // val 0 means absent
uint32_t map_find(const Map *m, uint64_t key);              // 0 when absent
void map_put(Arena *a, Map *m, uint64_t key, uint32_t val); // replaces; val != 0

// --- hash.c: content hashes (xxHash) -------------------------------------------------------------

uint64_t hash64(const void *data, size_t n, uint64_t seed);
typedef struct Hash128 {
    uint64_t lo, hi;
} Hash128;
Hash128 hash128(const void *data, size_t n);
Str hash_hex(Arena *a, Hash128 h); // 32 lower-case digits

// --- file.c: reading. All messages about files name the path and the system's reason -------------

GanStatus file_read(Arena *a, Str path, Str *out); // whole file; a 0 byte follows
typedef struct FileMap {
    const uint8_t *ptr;
    size_t n;
} FileMap; // owned; read-only mapping
GanStatus file_map(Str path, FileMap *out);
void file_unmap(FileMap *m);
void file_fail_read_at(int64_t nth); // tests: the nth read-side I/O call from now fails (EIO)
const char *file_mapped_at(const void *address); // the path; NULL: of no file. For signal handlers
// False only if the system says that nothing has this name. What cannot be looked at (a disk or a
// server that fails, no permission) counts as there, so that opening it says why.
bool file_exists(Str path);
bool file_is_dir(Str path);   // false of what cannot be looked at: never to be read as absence
bool file_same(Str a, Str b); // both are there, and one: links are followed
Str file_resolved(Arena *a, Str path); // from the root, without links; empty: it is not there

// --- file_out.c: writing -------------------------------------------------------------------------

// Writes path + ".tmp-gan-N", with the rights of what it replaces, syncs file and folder, renames.
// Nothing is left on failure, after a kill until the next such write. Links are followed; a device
// or pipe is written to as it is.
GanStatus file_write_atomic(Str path, const void *data, size_t n);
typedef struct FileOut FileOut; // the same, in pieces; buffered
GanStatus file_out_open(Str path, FileOut **out);
GanStatus file_out_put(FileOut *f, const void *data, size_t n);
GanStatus file_out_commit(FileOut *f); // flush, fsync, rename; frees f either way
// The same of files that belong together: after a failure what was there before is there again.
GanStatus file_out_commit_all(FileOut *const *f, size_t n);
void file_out_abandon(FileOut *f); // removes the temporary; accepts NULL
void file_drop_temporaries(void);  // all, folders too; as a process ends, in signal handlers too
GanStatus file_append(Str path, Str bytes);     // one write call
GanStatus file_append_line(Str path, Str line); // the same, for logs
GanStatus file_sync(Str path);                  // what was appended survives a crash of the machine
GanStatus file_remove(Str path);                // fine when absent
void file_fail_at(int64_t nth);      // tests: the nth write-side I/O call from now fails (ENOSPC)
void file_interrupt_at(int64_t nth); // the same by a signal (EINTR)

// --- dir.c: folders ------------------------------------------------------------------------------

GanStatus dir_make(Str path); // with parents; fine when it exists
// Only if nothing has this name: of several processes one creates it. Its parent exists.
GanStatus dir_make_new(Str path, bool *created);
typedef VEC(Str) StrVec;
GanStatus dir_list(Arena *a, Str path, StrVec *out); // names sorted bytewise, without "." and ".."
// Relative paths of all regular files below, and of links to such, sorted bytewise. `links`:
// folders are also entered through links, except into those that they lie in. What lies below and
// cannot be looked at or listed is among them.
typedef struct WalkFile {
    Str path;
    Str why; // it cannot be read; empty: a file
} WalkFile;
typedef VEC(WalkFile) WalkVec;
GanStatus dir_walk(Arena *a, Str path, bool links, WalkVec *out);

// --- file_lock.c: locks between processes --------------------------------------------------------

typedef struct FileLock FileLock;
// Takes an exclusive lock on path for this process's life, waiting up to a second for a holder that
// is being ended; GAN_ERR_INPUT with the holder's pid and host when it stays taken. Nothing is
// locked where the file system has no locks.
GanStatus file_lock(Str path, FileLock **out);
void file_unlock(FileLock *l); // accepts NULL

// --- path.c: paths as text -----------------------------------------------------------------------

Str path_join(Arena *a, Str dir, Str name);
Str path_trim(Str path); // without slashes at its end, which name the same; a root keeps its own
Str path_base(Str path); // last component
Str path_dir(Str path);  // "." when none
Str path_ext(Str path);  // without the dot, "" when none
Str path_stem(Str path); // without the extension and its dot
// For what -o names: GAN_ERR_USAGE when its extension is not among `written` (".png .npy"). With
// `folders` a name without one, or with a `/` at its end, is a folder.
GanStatus path_writes(Str path, const char *written, bool folders);

// --- time.c --------------------------------------------------------------------------------------

double time_now(void);           // seconds, monotonic
double time_process_start(void); // the same clock, when this process began

// --- json.c: a reader on top of cJSON, and an ordered writer -------------------------------------

typedef struct Json Json; // a value inside a document; borrowed
// `path` is for messages only. Duplicate keys are refused.
GanStatus json_parse(Arena *a, Str text, Str path, const Json **out);
const Json *json_get(const Json *object, const char *key); // NULL when absent or not an object
const Json *json_at(const Json *array, uint32_t i);        // NULL past the end
uint32_t json_count(const Json *v);                        // elements or members
Str json_key(const Json *member); // name of a member reached by json_at on an object
bool json_is_number(const Json *v);
bool json_is_string(const Json *v);
bool json_is_array(const Json *v);
double json_number(const Json *v, double otherwise); // accepts NULL
// A whole number in 0..most, or false and *out as it was. No more than 2^53 is: from there on a
// double says less than it seems to.
bool json_whole(const Json *v, uint64_t most, uint64_t *out);
Str json_string(const Json *v, Str otherwise); // accepts NULL
bool json_bool(const Json *v, bool otherwise);
// Writer: json_open(j, '{'), json_member_double(j, "k", x), ...; it places the commas.
typedef struct JsonOut {
    Text *text;
    uint32_t depth;
    bool first[32], after_name;
} JsonOut;
void json_open(JsonOut *j, char bracket);  // '{' or '['
void json_close(JsonOut *j, char bracket); // '}' or ']'
void json_name(JsonOut *j, const char *name);
void json_put_str(JsonOut *j, Str s);
void json_put_double(JsonOut *j, double x); // NaN and infinities as null
void json_put_int(JsonOut *j, int64_t x);
void json_put_bool(JsonOut *j, bool x);
void json_put_null(JsonOut *j);
// A member of an object: its name, and its value or the bracket that begins it.
void json_member_str(JsonOut *j, const char *name, Str s);
void json_member_double(JsonOut *j, const char *name, double x);
void json_member_int(JsonOut *j, const char *name, int64_t x);
void json_member_bool(JsonOut *j, const char *name, bool x);
void json_member_open(JsonOut *j, const char *name, char bracket);

#endif
