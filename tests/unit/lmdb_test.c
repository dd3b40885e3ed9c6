// lmdb_test.c - images in an LMDB file, as liblmdb 0.9.36 left it (75 small ones, one of them
// deleted, one on overflow pages, one with a key that is not text), and the same file damaged.
#define _GNU_SOURCE
#include "data_fixture.h"
#include "cases.h"

#define FILE_SEED SEEDS "lmdb/images.mdb"
enum { Page = 4096, MainFlags = 92, MainRoot = 128, Entries = 76, Big = 74 };

static uint8_t *file_copy(Fixture *p, size_t *n) {
    Str file = {0};
    assert_ok(file_read(&p->arena, STR(FILE_SEED), &file));
    *n = file.len;
    uint8_t *copy = arena_array(&p->arena, uint8_t, file.len);
    return memcpy(copy, file.ptr, file.len);
}

static GanStatus pack(Fixture *p, Str path, bool skip_bad, BadList *bad, Pack *out) {
    *bad = (BadList){0};
    PackOptions o = pack_options(bad);
    o.skip_bad = skip_bad;
    return pack_build(&p->arena, path, &o, (Str){0}, out, NULL);
}

// Reads all entries: their number, or the error.
static GanStatus walk(const uint8_t *data, size_t n, uint32_t *entries, uint32_t *bad) {
    Lmdb l;
    *entries = *bad = 0;
    TRY(lmdb_open(data, n, &l));
    for (bool end = false; !end;) {
        LmdbEntry e;
        volatile uint8_t last = 0;
        TRY(lmdb_next(&l, &e, &end));
        *entries += !end;
        *bad += e.why != NULL;
        if (e.value && e.n)
            last = e.value[e.n - 1];
        (void)last;
    }
    return GAN_OK;
}

static void entries_are_images_in_the_order_of_their_keys(void **state) {
    Fixture *p = *state;
    Pack k = {0}, folder = {0};
    BadList bad;
    Str file = {0};
    assert_ok(pack(p, STR(FILE_SEED), false, &bad, &k));
    assert_int_equal(k.count, Entries);
    assert_str(pack_name(&k, 0), "00000000");
    assert_str(pack_name(&k, 3), "00000004"); // 3 was deleted
    assert_str(pack_name(&k, Big), "a big one");
    assert_str(pack_name(&k, Big + 1), "ff006b6579");
    assert_str(k.source, "lmdb images.mdb");
    assert_ok(file_read(&p->arena, STR(FILE_SEED), &file)); // an environment's folder
    write_bytes(p, "train_lmdb/data.mdb", file.ptr, file.len);
    write_bytes(p, "train_lmdb/lock.mdb", "", 0);
    assert_ok(pack(p, under(p, "train_lmdb"), false, &bad, &folder));
    assert_true(str_eq(folder.content, k.content));
    pack_close(&k);
    pack_close(&folder);
}

static void entries_have_labels_of_a_table(void **state) {
    Fixture *p = *state;
    Pack k = {0};
    BadList bad = {0};
    PackOptions o = pack_options(&bad);
    write_text(p, "t.csv", "a big one,cat\nff006b6579,dog\n");
    o.labels = under(p, "t.csv"), o.skip_bad = true, o.bad = NULL;
    assert_ok(pack_build(&p->arena, STR(FILE_SEED), &o, (Str){0}, &k, NULL));
    assert_true(k.count == 2 && k.field[1].classes == 2);
    pack_close(&k);
}

static void a_file_cut_short_gives_what_it_has(void **state) {
    Fixture *p = *state;
    Pack k = {0};
    BadList bad;
    size_t n;
    uint32_t entries, broken;
    const uint8_t *file = file_copy(p, &n);
    for (size_t keep = 0; keep < n; keep += 509) {
        uint8_t *cut = malloc(keep + 1); // a block of exactly its length, for the address sanitizer
        assert_non_null(cut);
        memcpy(cut + 1, file, keep);
        GanStatus st = walk(cut + 1, keep, &entries, &broken);
        assert_true(st == GAN_ERR_INPUT || broken || keep >= n - Page);
        free(cut);
    }
    write_bytes(p, "cut.mdb", file, n - Page);
    assert_refused(pack(p, under(p, "cut.mdb"), false, &bad, &k), "can be used");
    assert_non_null(strstr(bad.reason[0], "it was cut short"));
    write_bytes(p, "no.mdb", file, Page + 100);
    assert_refused(pack(p, under(p, "no.mdb"), false, &bad, &k), "no.mdb: damaged LMDB file");
}

static void every_changed_byte_is_survived(void **state) {
    Fixture *p = *state;
    size_t n;
    uint32_t entries, broken;
    uint8_t *file = file_copy(p, &n);
    assert_ok(walk(file, n, &entries, &broken));
    assert_true(entries == Entries && broken == 0);
    for (size_t i = 0; i < n; i++)
        for (uint32_t k = 0; k < 3; k++) {
            static const uint8_t with[] = {0xff, 0x01, 0x80};
            file[i] ^= with[k];
            (void)walk(file, n, &entries, &broken);
            assert_true(entries <= n / 8);
            file[i] ^= with[k];
        }
}

// Of the tree: the root, and the page of its i-th child.
static uint8_t *root_of(uint8_t *file) {
    return file + (size_t)file[Page + MainRoot] * Page; // the second meta page is the later one
}

static uint8_t *child_of(uint8_t *branch, uint32_t i) {
    return branch + (branch[16 + 2 * i] | branch[17 + 2 * i] << 8);
}

static void entries_before_the_damage_are_read(void **state) {
    Fixture *p = *state;
    Pack k = {0};
    BadList bad;
    size_t n;
    uint8_t *file = file_copy(p, &n);
    file[child_of(root_of(file), 1)[0] * Page]++; // the second leaf has another page's number
    write_bytes(p, "a.mdb", file, n);
    assert_refused(pack(p, under(p, "a.mdb"), false, &bad, &k), "samples cannot be used");
    assert_ok(pack(p, under(p, "a.mdb"), true, &bad, &k));
    assert_true(k.count > 10 && k.count < Entries && bad.n == 1);
    assert_non_null(strstr(bad.reason[0], "is not one of keys"));
    pack_close(&k);
}

static void trees_without_an_end_are_refused(void **state) {
    enum { Deep = 40 };
    Fixture *p = *state;
    size_t n;
    uint32_t entries, broken;
    uint8_t *file = file_copy(p, &n), *root = root_of(file);
    child_of(root, 0)[0] = file[Page + MainRoot];
    assert_refused(walk(file, n, &entries, &broken), "is in its tree more than once");
    file = file_copy(p, &n), root = root_of(file);
    for (size_t at = 16; at < Page - 200; at += 2) // every child is the first leaf
        root[at] = root[16], root[at + 1] = root[17];
    root[12] = (Page - 200) & 255, root[13] = (Page - 200) >> 8;
    assert_refused(walk(file, n, &entries, &broken), "is in its tree more than once");
    assert_true(entries < 8 * Entries);
    uint8_t *deep =
        arena_array(&p->arena, uint8_t, Deep * Page); // each page has one child: the next
    memcpy(deep, file, 2 * Page);
    deep[Page + MainRoot] = 2;
    for (uint32_t i = 2; i < Deep; i++) {
        uint8_t *page = deep + (size_t)i * Page;
        page[0] = (uint8_t)i, page[10] = 1, page[12] = 18, page[16] = 100;
        page[100] = (uint8_t)(i + 1);
    }
    assert_refused(walk(deep, Deep * Page, &entries, &broken),
                   "deeper in its tree than any can be");
}

static void databases_of_other_kinds_are_told(void **state) {
    Fixture *p = *state;
    size_t n;
    uint32_t entries, broken;
    uint8_t *file = file_copy(p, &n), *meta = file + Page;
    uint8_t *key = memmem(file, n, "a big one", 9);
    assert_non_null(key);
    key[-4] = 2; // a node of a named database
    assert_ok(walk(file, n, &entries, &broken));
    assert_true(entries == Entries && broken == 1);
    meta[MainFlags] |= 4;
    assert_refused(walk(file, n, &entries, &broken), "several values of one key");
    meta[MainFlags] = 0;
    memset(meta + MainRoot, 0xff, 8);
    assert_ok(walk(file, n, &entries, &broken));
    assert_int_equal(entries, 0);
    file[20] = 2;
    assert_refused(walk(file, n, &entries, &broken), "LMDB of version 2");
}

static void refused_memory_is_an_error(void **state) {
    Fixture *p = *state;
    for (int64_t nth = 1; nth < 2000; nth++) {
        Arena scratch = p->arena;
        Pack k = {0};
        PackOptions o = pack_options(&(BadList){0});
        o.threads = 1, o.limit = 2;
        mem_fail_at(nth);
        GanStatus st = pack_build(&scratch, STR(FILE_SEED), &o, (Str){0}, &k, NULL);
        mem_fail_at(0);
        if (st == GAN_OK) {
            assert_true(k.count == 2 && nth > 20);
            pack_close(&k);
            return;
        }
    }
    fail_msg("it never succeeds");
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        T(entries_are_images_in_the_order_of_their_keys),
        T(entries_have_labels_of_a_table),
        T(a_file_cut_short_gives_what_it_has),
        T(every_changed_byte_is_survived),
        T(entries_before_the_damage_are_read),
        T(trees_without_an_end_are_refused),
        T(databases_of_other_kinds_are_told),
        T(refused_memory_is_an_error),
    };
    if (CASES_LISTED(tests))
        return 0;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
