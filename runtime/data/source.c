// source.c - the members of folders, archives and LMDB files in order.
//
// A member that cannot be read is an item with a reason, so that the reader may continue; so is the
// missing end of an archive or LMDB file. Names are UTF-8, live in the source's arena and are valid
// until source_close.
#define _GNU_SOURCE // uselocale
#include "sources.h"
#include "unpack.h"

#include <string.h>
#include <strings.h>

enum { MemberMost = 1 << 28 }; // bytes

struct Source {
    Arena arena; // names
    Str path;
    SourceKind kind;
    WalkVec list;            // folder
    struct archive *archive; // archive, or NULL
    locale_t utf8;           // of its members' names
    uint64_t index;          // items given
    uint32_t at;             // folder: next of list
    FileMap map;             // LMDB: owned
    Lmdb lmdb;               // LMDB: in map
    Map seen;                // archive: hashes of the names of members that were given
    bool ended;              // archive, LMDB: nothing follows
    bool names_only;         // archive: members are not unpacked
    SourceFilter *wants;     // or NULL
    const void *user;        // of wants
    Str ending;              // not empty: texts whose names end so, instead of samples
};

// Text files beside images: captions, tables, licences. Some systems write names in capitals.
static bool is_notes(Str name) {
    static const char *const ext[] = {"txt", "md", "csv", "tsv", "json", "xml", "html", "cls"},
                             *const base[] = {"README", "LICENSE"};
    char z[8] = "";
    Str own = path_ext(name);
    if (own.len && own.len < sizeof z)
        memcpy(z, own.ptr, own.len);
    for (size_t i = 0; own.len && i < sizeof ext / sizeof *ext; i++)
        if (strcasecmp(z, ext[i]) == 0)
            return true;
    for (size_t i = 0; i < sizeof base / sizeof *base; i++)
        if (str_eq(path_base(name), str_c(base[i])))
            return true;
    return false;
}

// What systems leave beside images: hidden files, Apple's resource forks, Windows' thumbnails.
static bool is_hidden(Str name) {
    for (size_t from = 0; from < name.len;) {
        size_t n = str_find(str_sub(name, from, name.len), '/');
        Str part = str_sub(name, from, from + n);
        if (part.len && part.ptr[0] == '.' && !str_eq(part, STR(".")) && !str_eq(part, STR("..")))
            return true;
        if (str_eq(part, STR("__MACOSX")) || str_eq(part, STR("Thumbs.db")) ||
            str_eq(part, STR("desktop.ini")))
            return true;
        from += n + 1;
    }
    return false;
}

static bool is_left_out(const Source *s, Str name) {
    return is_hidden(name) || (s->ending.len ? !str_ends(name, s->ending) : is_notes(name)) ||
           (s->wants && !s->wants(s->user, name));
}

static GanStatus open_lmdb(Source *s) {
    Str file = file_is_dir(s->path) ? path_join(&s->arena, s->path, STR(LMDB_FILE)) : s->path;
    TRY(file_map(file, &s->map));
    GanStatus st = lmdb_open(s->map.ptr, s->map.n, &s->lmdb);
    return st == GAN_OK ? st : fail_in(st, "%.*s", SARG(file));
}

static GanStatus open_members(void *user) {
    Source *s = user;
    s->path = str_copy(&s->arena, s->path);
    if (s->kind == SourceLmdb)
        return open_lmdb(s);
    return s->kind == SourceFolder ? dir_walk(&s->arena, s->path, true, &s->list)
                                   : archive_open(s->path, &s->archive);
}

GanStatus source_open(Str path, SourceKind kind, Source **out) {
    assert(source_has_members(kind));
    Source *s = mem_alloc(sizeof *s);
    if (!s)
        return fail(GAN_ERR_MEMORY, "no memory to open %.*s", SARG(path));
    s->path = path;
    s->kind = kind;
    s->utf8 = utf8_new();
    GanStatus st = arena_init(&s->arena, 0);
    if (st == GAN_OK)
        st = arena_guard(&s->arena, "for names and headers", open_members, s);
    if (st != GAN_OK) {
        source_close(s);
        return st;
    }
    *out = s;
    return GAN_OK;
}

void source_close(Source *s) {
    if (!s)
        return;
    if (s->archive)
        archive_read_free(s->archive);
    file_unmap(&s->map);
    utf8_free(s->utf8);
    arena_release(&s->arena);
    mem_free(s);
}

void source_filter(Source *s, SourceFilter *wants, const void *user) {
    s->wants = wants;
    s->user = user;
}

static void set_reason(Item *item, GanStatus st, const char *why) {
    item->st = st;
    snprintf(item->reason, sizeof item->reason, "%s", why ? why : "unknown reason");
}

typedef struct Next {
    Source *s;
    Item *out;
    bool *end;
} Next;

static void next_of_folder(Source *s, Item *out, bool *end) {
    while (s->at < s->list.n && is_left_out(s, s->list.at[s->at].path))
        s->at++;
    *end = s->at == s->list.n;
    if (*end)
        return;
    const WalkFile *file = &s->list.at[s->at++];
    out->name = file->path;
    out->path = path_join(&s->arena, s->path, out->name);
    if (file->why.len)
        set_reason(out, GAN_ERR_IO, file->why.ptr);
}

// A tar ends with blocks of zeros. libarchive takes the file's end for one too; then there is
// nothing between the last member and where it stopped.
static bool lacks_its_end(struct archive *a) {
    return (archive_format(a) & ARCHIVE_FORMAT_BASE_MASK) == ARCHIVE_FORMAT_TAR &&
           archive_filter_bytes(a, 0) == archive_read_header_position(a);
}

static void end_early(Source *s, Item *out, const char *why) {
    s->ended = true;
    out->name = path_base(s->path);
    set_reason(out, GAN_ERR_INPUT, why);
}

static void next_of_archive(Source *s, Item *out, bool *end) {
    struct archive_entry *entry = NULL;
    bool link = false; // as tar writes a second name of one file, too
    for (;;) {
        int r = s->ended ? ARCHIVE_EOF : archive_read_next_header(s->archive, &entry);
        bool cut = r == ARCHIVE_EOF && !s->ended && lacks_its_end(s->archive);
        *end = r == ARCHIVE_EOF && !cut;
        if (*end)
            return;
        if (cut || r < ARCHIVE_WARN) { // or libarchive cannot find the next member
            end_early(s, out,
                      cut ? "the zeros at the tar's end are missing: it was cut short"
                          : archive_error_string(s->archive));
            return;
        }
        out->name = str_copy(&s->arena, member_name(entry));
        link = archive_entry_hardlink(entry) || archive_entry_filetype(entry) == AE_IFLNK;
        if ((link || archive_entry_filetype(entry) == AE_IFREG) && !is_left_out(s, out->name))
            break;
    }
    uint64_t key = hash64(out->name.ptr, out->name.len, 0);
    if (map_find(&s->seen, key)) {
        set_reason(out, GAN_ERR_INPUT,
                   "a second member of this name, as appending to an archive leaves it: unpack it, "
                   "and name the folder");
        return;
    }
    map_put(&s->arena, &s->seen, key, 1);
    if (link) {
        set_reason(out, GAN_ERR_INPUT,
                   "a link to another file, which is not followed within an archive: unpack it, "
                   "and name the folder");
        return;
    }
    if (s->names_only)
        return;
    int64_t hint = archive_entry_size_is_set(entry) ? archive_entry_size(entry) : 0;
    GanStatus st = archive_member(s->archive, hint, MemberMost, &out->heap, &out->n);
    if (st != GAN_OK)
        set_reason(out, st, gan_error());
}

// Keys are any bytes, a name is text: others are named by their hexadecimal digits.
static Str key_name(Arena *a, Str key) {
    bool text = key.len && str_utf8_valid(key, &(size_t){0});
    for (size_t i = 0; text && i < key.len; i++)
        text = (unsigned char)key.ptr[i] >= ' ' && key.ptr[i] != 0x7f;
    if (text)
        return str_copy(a, key);
    Text t = {.arena = a};
    for (size_t i = 0; i < key.len; i++)
        text_fmt(&t, "%02x", (unsigned char)key.ptr[i]);
    return text_str(&t);
}

static void next_of_lmdb(Source *s, Item *out, bool *end) {
    LmdbEntry e;
    *end = s->ended;
    do {
        if (*end)
            return;
        if (lmdb_next(&s->lmdb, &e, end) != GAN_OK) {
            end_early(s, out, gan_error());
            return;
        }
        out->name = *end ? (Str){0} : key_name(&s->arena, e.key);
    } while (*end || is_left_out(s, out->name));
    out->bytes = e.value;
    out->n = e.n;
    if (e.why)
        set_reason(out, GAN_ERR_INPUT, e.why);
}

static GanStatus next_member(void *user) {
    Next *n = user;
    if (n->s->kind == SourceLmdb)
        next_of_lmdb(n->s, n->out, n->end);
    else if (n->s->archive)
        next_of_archive(n->s, n->out, n->end);
    else
        next_of_folder(n->s, n->out, n->end);
    return GAN_OK;
}

GanStatus source_next(Source *s, Item *out, bool *end) {
    *out = (Item){.index = s->index};
    locale_t before = uselocale(s->utf8);
    GanStatus st =
        arena_guard(&s->arena, "for names and headers", next_member, &(Next){s, out, end});
    uselocale(before);
    TRY(st);
    if (!*end)
        s->index++;
    return out->st == GAN_ERR_MEMORY ? fail(out->st, "%.*s: %s", SARG(out->name), out->reason)
                                     : GAN_OK;
}

typedef struct Listing {
    Arena *perm;
    Source *s;
    StrVec *out;
} Listing;

static GanStatus list_names(void *user) {
    Listing *l = user;
    for (;;) {
        Item item;
        bool end;
        TRY(source_next(l->s, &item, &end));
        if (end)
            return GAN_OK;
        if (item.st == GAN_OK) // the reader of samples reports what is damaged
            vec_push(l->perm, l->out, str_copy(l->perm, item.name));
    }
}

GanStatus source_names(Arena *perm, Str path, SourceKind kind, StrVec *out) {
    Source *s = NULL;
    TRY(source_open(path, kind, &s));
    s->names_only = true;
    GanStatus st = arena_guard(perm, "for names and headers", list_names, &(Listing){perm, s, out});
    source_close(s);
    return st;
}

typedef struct Texts {
    Source *s;
    Str path, ending;
    SourceText *take;
    void *user;
    Item item; // released by who owns the source
} Texts;

static GanStatus take_texts(void *user) {
    Texts *t = user;
    for (bool end = false;; item_release(&t->item)) {
        TRY(source_next(t->s, &t->item, &end));
        if (end)
            return GAN_OK;
        if (!str_ends(t->item.name, t->ending)) // what damages the archive itself
            continue;
        GanStatus st = item_load(&t->item);
        if (st != GAN_OK)
            return fail_in(st, "%.*s: %.*s", SARG(t->path), SARG(t->item.name));
        TRY(t->take(t->user, t->item.name, (Str){(const char *)t->item.bytes, t->item.n}));
    }
}

GanStatus source_texts(Arena *perm, Str path, SourceKind kind, Str ending, SourceText *take,
                       void *user) {
    Texts t = {.path = path, .ending = ending, .take = take, .user = user};
    TRY(source_open(path, kind, &t.s));
    t.s->ending = ending;
    GanStatus st = arena_guard(perm, "for the texts beside samples", take_texts, &t);
    item_release(&t.item);
    source_close(t.s);
    return st;
}

GanStatus item_load(Item *item) {
    if (item->st != GAN_OK)
        return fail(item->st, "%s", item->reason);
    if (item->path.len) {
        TRY(file_map(item->path, &item->map));
        item->n = item->map.n;
    }
    if (!item->bytes)
        item->bytes = item->path.len ? item->map.ptr : item->heap;
    return GAN_OK;
}

void item_release(Item *item) {
    mem_free(item->heap);
    file_unmap(&item->map);
    *item = (Item){0};
}
