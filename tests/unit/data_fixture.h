// data_fixture.h - fixture.h for the tests of data/: files created in its folder, checks of
// messages, zip archives. The includer defines _GNU_SOURCE, for mkdtemp.
#ifndef GAN_DATA_FIXTURE_H
#define GAN_DATA_FIXTURE_H

#include "fixture.h"
#include "sources.h"

#include <math.h>
#include <unistd.h>

#ifndef TEST_DIR
#define TEST_DIR "tests"
#endif
#define SEEDS TEST_DIR "/fuzz/corpus/"

#define assert_refused(call, words) assert_message((call), words, #call)

static inline void assert_message(GanStatus got, const char *words, const char *what) {
    if (got == GAN_OK)
        fail_msg("%s was not refused", what);
    if (!strstr(gan_error(), words))
        fail_msg("%s: expected \"%s\" in: %s", what, words, gan_error());
}

static inline void write_bytes(Fixture *p, const char *name, const void *data, size_t n) {
    Str path = under(p, name);
    assert_ok(dir_make(path_dir(path)));
    assert_ok(file_write_atomic(path, data, n));
}

static inline void write_text(Fixture *p, const char *name, const char *text) {
    write_bytes(p, name, text, strlen(text));
}

// An image of one colour that encodes its number.
static inline void write_image(Fixture *p, const char *name, uint32_t w, uint32_t h,
                               uint8_t value) {
    Image m = {0};
    assert_ok(image_new(w, h, 3, 8, &m));
    memset(m.pixels, value, (size_t)w * h * 3);
    Str path = under(p, name);
    assert_ok(dir_make(path_dir(path)));
    assert_ok(image_write_png(path, &m));
    image_release(&m);
}

// --- zip files -----------------------------------------------------------------------------------

typedef struct Member {
    const char *name; // UTF-8
    Str data;
    bool bad_crc; // with a wrong checksum
} Member;

static inline uint32_t crc_of(Str data) {
    uint32_t crc = 0xffffffffu;
    for (size_t i = 0; i < data.len; i++) {
        crc ^= (uint8_t)data.ptr[i];
        for (int b = 0; b < 8; b++)
            crc = crc >> 1 ^ (crc & 1 ? 0xedb88320u : 0);
    }
    return ~crc;
}

static inline void put_le(Text *t, size_t v, size_t bytes) {
    for (size_t i = 0; i < bytes; i++, v >>= 8)
        text_char(t, (char)(uint8_t)v);
}

static inline void put_be(Text *t, size_t v, size_t bytes) {
    while (bytes--)
        text_char(t, (char)(uint8_t)(v >> 8 * bytes));
}

// What local and central headers share: version, flags (names are UTF-8), method, time and date,
// checksum, both sizes, lengths of the name and of extra fields.
static inline void put_member(Text *t, const Member *m) {
    put_le(t, 20, 2);
    put_le(t, 0x0800, 2);
    put_le(t, 0, 6);
    put_le(t, crc_of(m->data) ^ m->bad_crc, 4);
    put_le(t, m->data.len, 4);
    put_le(t, m->data.len, 4);
    put_le(t, strlen(m->name), 2);
    put_le(t, 0, 2);
}

// Members are stored uncompressed.
static inline void write_zip(Fixture *p, const char *name, size_t n, const Member *m) {
    Text zip = {.arena = &p->arena}, directory = {.arena = &p->arena};
    for (size_t i = 0; i < n; i++) {
        put_le(&directory, 0x02014b50, 4);
        put_le(&directory, 20, 2);
        put_member(&directory, &m[i]);
        put_le(&directory, 0, 10); // comment, disk, attributes
        put_le(&directory, zip.n, 4);
        text_put(&directory, str_c(m[i].name));
        put_le(&zip, 0x04034b50, 4);
        put_member(&zip, &m[i]);
        text_put(&zip, str_c(m[i].name));
        text_put(&zip, m[i].data);
    }
    size_t start = zip.n;
    text_put(&zip, text_str(&directory));
    put_le(&zip, 0x06054b50, 4);
    put_le(&zip, 0, 4);
    put_le(&zip, n, 2);
    put_le(&zip, n, 2);
    put_le(&zip, directory.n, 4);
    put_le(&zip, start, 4);
    put_le(&zip, 0, 2);
    Str all = text_str(&zip);
    write_bytes(p, name, all.ptr, all.len);
}

// -------------------------------------------------------------------------------------------------

typedef struct BadList {
    uint32_t n;
    char name[8][64], reason[8][200];
} BadList;

static inline void note_bad(void *user, Str name, const char *reason) {
    BadList *b = user;
    assert_true(b->n < 8);
    snprintf(b->name[b->n], sizeof b->name[0], "%.*s", SARG(name));
    snprintf(b->reason[b->n++], sizeof b->reason[0], "%s", reason);
}

static inline PackOptions pack_options(BadList *bad) {
    return (PackOptions){.w = 8, .h = 8, .bad = note_bad, .user = bad};
}

static inline void make_folder(Fixture *p, uint32_t n) {
    for (uint32_t i = 0; i < n; i++) {
        char name[40];
        snprintf(name, sizeof name, "set/%s/%03u.png", i % 2 ? "odd" : "even", i);
        write_image(p, name, 10 + i % 5, 12, (uint8_t)i);
    }
}

#define T(test) cmocka_unit_test_setup_teardown(test, fixture_open, fixture_close)

// --- streams -------------------------------------------------------------------------------------

static inline DataOptions stream_options(const DataField *field, uint32_t fields, int64_t batch) {
    return (DataOptions){.field = field, .fields = fields, .batch = batch, .seed = 3};
}

#endif
