// lmdb.c - the entries of an LMDB file (data.mdb), as LSUN is published, without its library.
//
// In: the bytes of a file. Out: keys and values in the order of the keys. liblmdb trusts the pages
// that it maps: a damaged offset leads it out of them. Here every offset is checked against the
// file, and a walk visits at most as many pages as there are, so a tree with loops ends. The format
// (mdb.c of 0.9): pages of one size; two meta pages, of which the later transaction's counts; a
// B+tree of branch and leaf pages; values that do not fit a leaf in runs of overflow pages. Numbers
// are little-endian, page numbers of 64 bits.
#include "format.h"

#include <string.h>

enum {
    PageHead = 16, // number u64, pad u16, flags u16, lower u16 and upper u16 or pages u32
    NodeHead = 8,  // lo u16, hi u16, flags u16, key's size u16; then the key, and a leaf's value
    PageBranch = 1,
    PageLeaf = 2,
    PageOverflow = 4,
    PageLeaf2 = 0x20, // of fixed-size duplicates
    PageSub = 0x40,   // inside a node
    NodeBig = 1,      // the value is the number of an overflow page
    DbDuplicates = 4, // several values of one key
    Version = 1,
};

// In a meta page.
enum {
    MetaMagic = PageHead,
    MetaVersion = MetaMagic + 4,
    MetaPageSize = MetaVersion + 4 + 16, // the first field of the list of free pages' database
    MetaMain = MetaPageSize + 48,        // the main database
    MainFlags = MetaMain + 4,
    MainRoot = MetaMain + 40,
    MetaTransaction = MetaMain + 48 + 8,
    MetaEnd = MetaTransaction + 8,
};

#define NO_PAGE UINT64_MAX // root of an empty database

static uint64_t le(const uint8_t *at, uint32_t bytes) {
    uint64_t v = 0;
    for (uint32_t i = 0; i < bytes; i++)
        v |= (uint64_t)at[i] << 8 * i;
    return v;
}

bool lmdb_is(const uint8_t *data, size_t n) {
    return n >= MetaEnd && le(data + MetaMagic, 4) == 0xbeefc0de;
}

GanStatus lmdb_open(const uint8_t *data, size_t n, Lmdb *out) {
    *out = (Lmdb){.data = data, .n = n};
    if (!lmdb_is(data, n))
        return fail(GAN_ERR_INPUT, "not an LMDB file");
    if (le(data + MetaVersion, 4) != Version)
        return fail(GAN_ERR_INPUT, "LMDB of version %u; this program reads %d",
                    (unsigned)le(data + MetaVersion, 4), Version);
    size_t page = (size_t)le(data + MetaPageSize, 4);
    if (page < 256 || page > 1 << 16 || (page & (page - 1)) || n / page < 2)
        return fail(GAN_ERR_INPUT, "damaged LMDB file: its pages have %zu bytes", page);
    const uint8_t *meta = data, *other = data + page;
    if (lmdb_is(other, n - page) && le(other + MetaVersion, 4) == Version &&
        le(other + MetaTransaction, 8) > le(meta + MetaTransaction, 8))
        meta = other;
    if (le(meta + MainFlags, 2) & DbDuplicates)
        return fail(GAN_ERR_INPUT, "an LMDB file with several values of one key");
    out->page = page;
    out->pages = n / page;
    out->at[0] = (LmdbPlace){.page = le(meta + MainRoot, 8)};
    out->depth = out->at[0].page == NO_PAGE ? 0 : 1;
    return GAN_OK;
}

static GanStatus damaged(uint64_t page, const char *what) {
    return fail(GAN_ERR_INPUT, "damaged LMDB file: page %llu %s", (unsigned long long)page, what);
}

// A branch or leaf page.
static GanStatus tree_page(Lmdb *l, uint64_t number, const uint8_t **out, uint32_t *nodes) {
    if (number < 2 || number >= l->pages)
        return damaged(number, "is not in the file: it was cut short, or a page is damaged");
    const uint8_t *p = l->data + (size_t)number * l->page;
    uint32_t flags = (uint32_t)le(p + 10, 2), lower = (uint32_t)le(p + 12, 2),
             kind = flags & (PageBranch | PageLeaf | PageOverflow | PageLeaf2 | PageSub);
    if (le(p, 8) != number || (kind != PageBranch && kind != PageLeaf) || lower < PageHead ||
        lower > l->page)
        return damaged(number, "is not one of keys");
    *out = p;
    *nodes = (lower - PageHead) / 2;
    return GAN_OK;
}

// The i-th node of a page, with its key whole; NULL: it lies outside.
static const uint8_t *node_at(const Lmdb *l, const uint8_t *page, uint32_t i) {
    size_t at = (size_t)le(page + PageHead + 2 * (size_t)i, 2);
    if (at < PageHead || at + NodeHead > l->page)
        return NULL;
    return at + NodeHead + le(page + at + 6, 2) <= l->page ? page + at : NULL;
}

static const char *read_value(const Lmdb *l, const uint8_t *page, const uint8_t *node,
                              LmdbEntry *out) {
    size_t size = (size_t)le(node, 4), flags = (size_t)le(node + 4, 2);
    const uint8_t *value = (const uint8_t *)out->key.ptr + out->key.len;
    size_t left = l->page - (size_t)(value - page);
    if (flags == 0 && size > left)
        return "damaged: its value is not in the file";
    if (flags == 0)
        return out->value = value, out->n = size, NULL;
    if (flags != NodeBig)
        return "a database inside of the LMDB file, which is not read";
    uint64_t first = left >= 8 ? le(value, 8) : 0;
    if (first < 2 || first >= l->pages)
        return "damaged: its value is not in the file";
    const uint8_t *run = l->data + (size_t)first * l->page;
    uint64_t pages = le(run + 12, 4);
    if (!(le(run + 10, 2) & PageOverflow) || pages > l->pages - first ||
        size > pages * l->page - (pages ? PageHead : 0))
        return "damaged: its value is not in the file";
    out->value = run + PageHead;
    out->n = size;
    return NULL;
}

GanStatus lmdb_next(Lmdb *l, LmdbEntry *out, bool *end) {
    *out = (LmdbEntry){0};
    for (;;) {
        *end = l->depth == 0;
        if (*end)
            return GAN_OK;
        LmdbPlace *at = &l->at[l->depth - 1];
        const uint8_t *page = NULL;
        uint32_t nodes = 0;
        TRY(tree_page(l, at->page, &page, &nodes));
        if (at->node == 0 && l->visited++ == l->pages)
            return damaged(at->page, "is in its tree more than once");
        if (at->node == nodes) {
            l->depth--;
            continue;
        }
        const uint8_t *node = node_at(l, page, at->node++);
        if (!node)
            return damaged(at->page, "has a key outside of it");
        if (le(page + 10, 2) & PageLeaf) {
            out->key = (Str){(const char *)node + NodeHead, (size_t)le(node + 6, 2)};
            out->why = read_value(l, page, node, out);
            return GAN_OK;
        }
        if (l->depth == LMDB_DEPTH)
            return damaged(at->page, "is deeper in its tree than any can be");
        l->at[l->depth++] = (LmdbPlace){.page = le(node, 6)};
    }
}
