// base_test.c - the base library of both programs: text, containers, files; and their behaviour
// when the n-th allocation or disk request fails, for every n.
#define _GNU_SOURCE
#include "base.h"

#include <fcntl.h>
#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "fixture.h"

#include "cases.h"

// --- status --------------------------------------------------------------------------------------

static void a_status_keeps_its_message_and_callers_add_context(void **state) {
    (void)state;
    assert_int_equal(fail(GAN_ERR_IO, "cannot open %s", "x"), GAN_ERR_IO);
    assert_int_equal(fail_in(GAN_ERR_IO, "layer %d", 3), GAN_ERR_IO);
    assert_string_equal(gan_error(), "layer 3: cannot open x");
    fail(GAN_ERR_INPUT, "%s!", gan_error()); // its own message as an argument
    assert_string_equal(gan_error(), "layer 3: cannot open x!");
    fail(GAN_ERR_INPUT, "%5000d", 1);
    fail_in(GAN_ERR_INPUT, "%5000d", 1);
    assert_true(strlen(gan_error()) < 4096);
    fail(GAN_ERR_INPUT, "%s", "a\x1b[1m\xc2\x9b\x7f\r\tb\n\xc3\xa9"); // a name in a file, perhaps
    assert_string_equal(gan_error(), "a?[1m????\tb\n\xc3\xa9");
}

static void exit_codes_are_as_documented(void **state) {
    (void)state;
    static const int want[] = {0, 1, 2, 3, 3, 3, 70, 75};
    for (int i = 0; i <= GAN_STOPPED; i++)
        assert_int_equal(gan_exit_code((GanStatus)i), want[i]);
}

// --- memory --------------------------------------------------------------------------------------

static void the_heap_zeroes_aligns_and_refuses_on_request(void **state) {
    (void)state;
    unsigned char *p = mem_alloc_aligned(1000, 64);
    assert_int_equal((uintptr_t)p % 64, 0);
    for (int i = 0; i < 1000; i++)
        assert_int_equal(p[i], 0);
    mem_free_aligned(p);
    size_t product;
    assert_true(mem_mul(3, 5, &product) && product == 15);
    assert_true(mem_mul(SIZE_MAX, 0, &product) && product == 0);
    assert_false(mem_mul(SIZE_MAX / 2, 3, &product));
    int64_t before = mem_count();
    mem_fail_at(2);
    void *first = mem_alloc(0), *second = mem_alloc(1), *third = mem_alloc(1);
    mem_fail_at(0);
    assert_non_null(first);
    assert_null(second);
    assert_non_null(third);
    assert_int_equal(mem_count() - before, 3);
    mem_free(first);
    mem_free(third);
    assert_true(mem_peak_rss() > 100000);
}

static unsigned char *dirty(Arena scratch) {
    unsigned char *p = arena_array(&scratch, unsigned char, 100);
    memset(p, 0xff, 100);
    return p;
}

static void an_arena_gives_zeroed_aligned_memory_and_a_copy_is_a_checkpoint(void **state) {
    Fixture *p = *state;
    Arena *a = &p->arena;
    char *one = arena_alloc(a, 1, 1);
    double *x = arena_new(a, double);
    assert_true((char *)x > one && (uintptr_t)x % _Alignof(double) == 0);
    assert_int_equal((uintptr_t)arena_alloc(a, 8, 256) % 256, 0);
    for (int more = -50; more <= 50; more += 50) { // relative to earlier use
        unsigned char *used = dirty(*a), *again = arena_array(a, unsigned char, 100 + (size_t)more);
        assert_ptr_equal(used, again);
        for (int i = 0; i < 100 + more; i++)
            assert_int_equal(again[i], 0);
    }
}

static void an_exhausted_arena_longjmps(void **state) {
    (void)state;
    Arena a;
    assert_ok(arena_init(&a, 1 << 16));
    jmp_buf oom;
    a.oom = &oom;
    volatile int jumps = 0, step = 0;
    if (setjmp(oom))
        jumps++;
    switch (step++) {
    case 0:
        arena_alloc(&a, 1 << 20, 1);
        break;
    case 1:
        arena_array(&a, uint64_t, SIZE_MAX / 4);
        break;
    case 2:
        mem_fail_at(1);
        arena_alloc(&a, 1, 1);
        break;
    default:
        break;
    }
    mem_fail_at(0);
    assert_int_equal(jumps, 3);
    assert_non_null(arena_alloc(&a, 1000, 8));
    arena_release(&a);
    arena_release(&a);
    assert_int_equal(arena_init(&a, (size_t)1 << 62), GAN_ERR_MEMORY);
    arena_release(&a);
}

static void a_vec_grows_keeps_its_items_and_longjmps_without_memory(void **state) {
    Fixture *p = *state;
    VEC(uint32_t) v = {0};
    for (uint32_t i = 0; i < 1000; i++)
        vec_push(&p->arena, &v, i * i);
    for (uint32_t i = 0; i < v.n; i++)
        assert_int_equal(v.at[i], i * i);
    VEC(double) zeros = {0};
    assert_true(*vec_add(&p->arena, &zeros) == 0);
    jmp_buf oom;
    p->arena.oom = &oom;
    VEC(uint32_t) w = {0};
    if (setjmp(oom) == 0) {
        mem_fail_at(1);
        vec_push(&p->arena, &w, 1);
        fail_msg("a refused vec_push returned");
    }
    p->arena.oom = NULL;
}

// --- text ----------------------------------------------------------------------------------------

static void an_unknown_word_is_answered_by_the_known_ones(void **state) {
    (void)state;
    Str one[] = {STR("dogs")}, many[200];
    assert_string_equal(known_text(STR("dgos"), one, 1).at, ": did you mean `dogs`?");
    assert_string_equal(known_text(STR("birds"), one, 1).at, ": there is `dogs`");
    assert_string_equal(known_text(STR("birds"), one, 0).at, "");
    for (size_t i = 0; i < 200; i++)
        many[i] = i % 2 ? STR("quite a long name of a class") : STR("Tier");
    KnownText t = known_text(STR("x"), many, 200);
    Str text = str_c(t.at);
    assert_true(text.len < sizeof t.at && str_starts(text, STR(": there are `Tier`, `quite a")));
    assert_true(str_ends(text, STR("`, ...")));
    static char longest[1000];
    memset(longest, 'a', sizeof longest);
    many[0] = (Str){longest, sizeof longest}; // there is no room for it
    assert_string_equal(known_text(STR("x"), many, 1).at, ": there is ...");
}

static void slices_compare_cut_and_search(void **state) {
    (void)state;
    Str empty = {0}, s = STR("conv2d");
    assert_true(str_eq(empty, STR("")) && !str_eq(s, empty) && str_eq(s, str_c("conv2d")));
    assert_true(str_cmp(STR("a"), STR("ab")) < 0 && str_cmp(STR("b"), STR("ab")) > 0);
    assert_true(str_cmp(STR("\x80"), STR("a")) > 0 && str_cmp(empty, empty) == 0);
    assert_true(str_starts(s, STR("conv")) && str_starts(s, empty));
    assert_false(str_starts(s, STR("conv2d_")));
    assert_true(str_ends(s, STR("2d")) && str_ends(s, empty) && !str_ends(STR("d"), STR("2d")));
    assert_str(str_sub(s, 4, 100), "2d");
    assert_str(str_sub(s, 5, 2), "");
    assert_int_equal(str_find(s, '2'), 4);
    assert_int_equal(str_find(s, 'x'), 6);
    assert_int_equal(str_find(empty, 'x'), 0);
}

static void integers_are_whole_and_in_range(void **state) {
    (void)state;
    static const struct {
        const char *text;
        bool good;
        int64_t value;
    } row[] = {
        {"0", true, 0},
        {"-17", true, -17},
        {"+5", true, 5},
        {"007", true, 7},
        {"9223372036854775807", true, INT64_MAX},
        {"-9223372036854775808", true, INT64_MIN},
        {"9223372036854775808", false, 0},
        {"-9223372036854775809", false, 0},
        {"99999999999999999999", false, 0},
        {"", false, 0},
        {"-", false, 0},
        {"1.0", false, 0},
        {" 1", false, 0},
        {"1 ", false, 0},
        {"0x1", false, 0},
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        int64_t x = 0;
        assert_int_equal(str_to_int(str_c(row[i].text), &x), row[i].good);
        assert_true(x == row[i].value);
    }
}

static void numbers_are_whole_decimal_and_finite(void **state) {
    (void)state;
    static const struct {
        const char *text;
        bool good;
        double value;
    } row[] = {
        {"0", true, 0},          {"1e-4", true, 1e-4},      {"-.5", true, -.5},
        {"5.", true, 5},         {"+2E+3", true, 2000},     {"1e-999", true, 0},
        {"inf", true, INFINITY}, {"-inf", true, -INFINITY}, {"1e999", false, 0},
        {"", false, 0},          {".", false, 0},           {"e5", false, 0},
        {"1e", false, 0},        {"1e+", false, 0},         {" 1", false, 0},
        {"1x", false, 0},        {"0x10", false, 0},        {"Infinity", false, 0},
        {"1,5", false, 0},
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        double x = 0;
        if (str_to_double(str_c(row[i].text), &x) != row[i].good || x != row[i].value)
            fail_msg("\"%s\" read as %g", row[i].text, x);
    }
    double nan = 0;
    assert_true(str_to_double(STR("nan"), &nan) && isnan(nan));
}

static void a_double_survives_its_text(void **state) {
    Fixture *p = *state;
    static const struct {
        double x;
        const char *text;
    } row[] = {
        {0.1, "0.1"},
        {1, "1"},
        {-0.0, "-0"},
        {1e-4, "0.0001"},
        {1e22, "1e+22"},
        {2.5e-9, "2.5e-09"},
        {1.0 / 3, "0.3333333333333333"},
        {0.1 + 0.2, "0.30000000000000004"},
        {-INFINITY, "-inf"},
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++)
        assert_str(str_double(&p->arena, row[i].x), row[i].text);
    assert_str(str_double(&p->arena, NAN), "nan");
    for (uint64_t i = 0; i < 20000; i++) {
        uint64_t bits = hash64(&i, sizeof i, 1);
        double x, back;
        memcpy(&x, &bits, sizeof x);
        if (isnan(x))
            continue;
        Arena scratch = p->arena;
        assert_true(str_to_double(str_double(&scratch, x), &back));
        assert_memory_equal(&x, &back, sizeof x);
    }
}

static void distance_counts_edits_and_swaps(void **state) {
    (void)state;
    static const struct {
        const char *a, *b;
        uint32_t n;
    } row[] = {
        {"", "", 0},          {"", "abc", 3},        {"conv", "conv", 0},
        {"conv", "covn", 1},  {"dense", "desne", 1}, {"relu", "rel", 1},
        {"relu", "prelu", 1}, {"tanh", "tank", 1},   {"kitten", "sitting", 3},
        {"ab", "ba", 1},      {"abcd", "badc", 2},
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        assert_int_equal(str_distance(str_c(row[i].a), str_c(row[i].b)), row[i].n);
        assert_int_equal(str_distance(str_c(row[i].b), str_c(row[i].a)), row[i].n);
    }
}

static void utf8_is_checked_to_the_byte(void **state) {
    (void)state;
    static const struct {
        const char *text;
        int bad;
    } row[] = {
        // bad: -1 when valid
        {"", -1},
        {"plain", -1},
        {"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80", -1},
        {"ab\xff", 2},
        {"a\xc3", 1},
        {"\xc0\xaf", 0},
        {"\xe0\x80\x80", 0},
        {"x\xed\xa0\x80", 1},
        {"\xf4\x90\x80\x80", 0},
        {"\x80", 0},
        {"\xe2\x82q", 0},
        {"\xf4\x8f\xbf\xbf", -1},
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        size_t bad = 99;
        assert_int_equal(str_utf8_valid(str_c(row[i].text), &bad), row[i].bad < 0);
        assert_int_equal(bad, row[i].bad < 0 ? 99 : row[i].bad);
    }
}

static void a_text_is_built_and_closed_with_a_zero(void **state) {
    Fixture *p = *state;
    Text t = {.arena = &p->arena};
    assert_int_equal(text_str(&t).len, 0);
    for (int i = 0; i < 300; i++)
        text_fmt(&t, "%d,", i % 10);
    text_put(&t, STR("end"));
    text_char(&t, '.');
    Str s = text_str(&t);
    assert_int_equal(s.len, 604);
    assert_int_equal(strlen(s.ptr), 604);
    assert_true(str_starts(s, STR("0,1,2,")) && str_ends(s, STR("9,end.")));
    assert_string_equal(str_z(&p->arena, str_sub(s, 0, 3)), "0,1");
    assert_str(str_format(&p->arena, "%.*s-%d", SARG(STR("ab")), 7), "ab-7");
}

// --- map and hash --------------------------------------------------------------------------------

static void two_hexadecimal_digits_are_a_byte(void **state) {
    (void)state;
    assert_int_equal(str_to_byte(STR("fF")), 255);
    assert_int_equal(str_to_byte(STR("0a1")), 10);
    assert_int_equal(str_to_byte(STR("7")), -1);
    assert_int_equal(str_to_byte(STR("g0")), -1);
    assert_int_equal(str_to_byte(STR("0g")), -1);
}

static void a_map_finds_every_key_and_no_other(void **state) {
    Fixture *p = *state;
    Map m = {0};
    assert_int_equal(map_find(&m, 5), 0);
    for (uint32_t i = 0; i < 20000; i++)
        map_put(&p->arena, &m, i * (uint64_t)0x100000000, i + 1);
    for (uint32_t i = 0; i < 20000; i += 2)
        map_put(&p->arena, &m, i * (uint64_t)0x100000000, 7);
    assert_int_equal(m.n, 20000);
    for (uint32_t i = 0; i < 20000; i++) {
        assert_int_equal(map_find(&m, i * (uint64_t)0x100000000), i % 2 ? i + 1 : 7);
        assert_int_equal(map_find(&m, i * (uint64_t)0x100000000 + 1), 0);
    }
}

static void hashes_are_the_published_ones(void **state) {
    Fixture *p = *state;
    assert_true(hash64(NULL, 0, 0) == 0x2d06800538d394c2u);
    assert_str(hash_hex(&p->arena, hash128(NULL, 0)), "99aa06d3014798d86001c324468d497f");
    assert_true(hash64("a", 1, 0) != hash64("a", 1, 1));
}

// --- files ---------------------------------------------------------------------------------------

static void a_file_reads_back_what_was_written(void **state) {
    Fixture *p = *state;
    Str path = under(p, "f"), out;
    assert_ok(file_write_atomic(path, "a\0b", 3));
    assert_ok(file_read(&p->arena, path, &out));
    assert_int_equal(out.len, 3);
    assert_memory_equal(out.ptr, "a\0b", 4);
    FileMap map;
    assert_ok(file_map(path, &map));
    assert_int_equal(map.n, 3);
    assert_memory_equal(map.ptr, "a\0b", 3);
    file_unmap(&map);
    file_unmap(&map);
    assert_ok(file_write_atomic(path, NULL, 0));
    assert_ok(file_map(path, &map));
    assert_int_equal(map.n, 0);
    assert_ok(file_read(&p->arena, path, &out));
    assert_int_equal(out.len, 0);
    assert_ok(file_read(&p->arena, STR("/proc/self/stat"), &out)); // reports size 0
    assert_true(out.len > 20);
}

// A rename would replace a device by a file, as root even /dev/null.
static void devices_and_links_are_written_through(void **state) {
    Fixture *p = *state;
    Str pipe = under(p, "pipe"), file = under(p, "file"), link = under(p, "link"), out;
    char got[8] = "";
    struct stat is;
    assert_int_equal(mkfifo(pipe.ptr, 0600), 0);
    int end = open(pipe.ptr, O_RDWR | O_NONBLOCK | O_CLOEXEC);
    assert_true(end >= 0);
    assert_ok(file_write_atomic(pipe, "words", 5));
    assert_int_equal(read(end, got, sizeof got), 5);
    assert_string_equal(got, "words");
    close(end);
    assert_int_equal(lstat(pipe.ptr, &is), 0);
    assert_true(S_ISFIFO(is.st_mode));
    assert_ok(file_write_atomic(file, "old", 3));
    assert_int_equal(symlink("file", link.ptr), 0);
    assert_ok(file_write_atomic(link, "new", 3));
    assert_int_equal(lstat(link.ptr, &is), 0);
    assert_true(S_ISLNK(is.st_mode));
    assert_ok(file_read(&p->arena, file, &out));
    assert_str(out, "new");

    // What the system said of the write is said, not of what followed.
    size_t much = 1 << 20;
    char *zeros = calloc(1, much);
    assert_status(file_write_atomic(STR("/dev/full"), zeros, much), GAN_ERR_IO, "No space left");
    free(zeros);

    // A dangling link: the file is created where it points, through intermediate links.
    Str first = under(p, "first"), later = under(p, "later");
    assert_int_equal(symlink(under(p, "second").ptr, first.ptr), 0);
    assert_int_equal(symlink("later", under(p, "second").ptr), 0);
    assert_ok(file_write_atomic(first, "x", 1));
    assert_int_equal(lstat(first.ptr, &is), 0);
    assert_true(S_ISLNK(is.st_mode));
    assert_ok(file_read(&p->arena, later, &out));
    assert_str(out, "x");
    assert_int_equal(symlink("round", under(p, "round").ptr), 0);
    assert_status(file_write_atomic(under(p, "round"), "x", 1), GAN_ERR_IO, "write in a circle");
    assert_int_equal(symlink("no/such", under(p, "astray").ptr), 0);
    assert_status(file_write_atomic(under(p, "astray"), "x", 1), GAN_ERR_IO, "write in no folder");
}

static void a_file_error_names_path_and_reason(void **state) {
    Fixture *p = *state;
    Str absent = under(p, "no/such"), out, folder = str_c(p->root);
    FileMap map;
    assert_status(file_read(&p->arena, absent, &out), GAN_ERR_IO, "read");
    assert_non_null(strstr(gan_error(), absent.ptr));
    assert_non_null(strstr(gan_error(), "No such file"));
    assert_status(file_write_atomic(absent, "x", 1), GAN_ERR_IO, "write");
    assert_non_null(strstr(gan_error(), absent.ptr));
    FileOut *f;
    assert_status(file_out_open(folder, &f), GAN_ERR_IO, "write a folder");
    assert_non_null(strstr(gan_error(), "directory"));
    assert_status(file_read(&p->arena, folder, &out), GAN_ERR_IO, "read a folder");
    assert_non_null(strstr(gan_error(), "directory"));
    assert_status(file_map(folder, &map), GAN_ERR_IO, "map a folder");
    assert_status(file_read(&p->arena, (Str){0}, &out), GAN_ERR_IO, "read nothing");
    char endless[8192];
    memset(endless, 'x', sizeof endless);
    assert_status(file_read(&p->arena, (Str){endless, sizeof endless}, &out), GAN_ERR_IO, "long");
    assert_false(file_exists((Str){endless, sizeof endless}));
}

// As long as the system allows: the temporary's name, and that of the old file, are no longer.
static void a_file_may_have_the_longest_name(void **state) {
    Fixture *p = *state;
    StrVec names;
    FileOut *f[2];
    char name[2][256] = {{0}};
    for (int i = 0; i < 2; i++) {
        for (size_t k = 0; k + 1 < 255; k += 2)
            memcpy(name[i] + k, "\xc3\xa9", 2); // one character
        name[i][254] = (char)('0' + i);
    }
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < 2; i++) {
            assert_ok(file_out_open(under(p, name[i]), &f[i]));
            assert_ok(file_out_put(f[i], "new", 3));
        }
        assert_ok(dir_list(&p->arena, str_c(p->root), &names));
        for (uint32_t i = 0; i < names.n; i++)
            assert_true(str_utf8_valid(names.at[i], &(size_t){0}));
        assert_ok(file_out_commit_all(f, 2));
        assert_ok(dir_list(&p->arena, str_c(p->root), &names));
        assert_int_equal(names.n, 2);
    }
}

static void write_in_pieces(FileOut *f, const char *data, size_t n) {
    size_t piece = 1;
    for (size_t i = 0; i < n; i += piece, piece = piece * 3 + 1) {
        if (piece > n - i)
            piece = n - i;
        assert_ok(file_out_put(f, data + i, piece));
    }
}

static void a_file_written_in_pieces_appears_whole_or_not_at_all(void **state) {
    Fixture *p = *state;
    enum { Size = 300000 };
    char *data = arena_array(&p->arena, char, Size);
    for (int i = 0; i < Size; i++)
        data[i] = (char)(i * 7 / 3);
    Str path = under(p, "big"), out;
    StrVec names;
    FileOut *f;
    assert_ok(file_out_open(path, &f));
    write_in_pieces(f, data, Size);
    assert_false(file_exists(path));
    file_out_abandon(f);
    file_out_abandon(NULL);
    assert_ok(dir_list(&p->arena, str_c(p->root), &names));
    assert_int_equal(names.n, 0);
    assert_ok(file_out_open(path, &f));
    write_in_pieces(f, data, Size);
    assert_ok(file_out_commit(f));
    assert_ok(file_read(&p->arena, path, &out));
    assert_true(str_eq(out, (Str){data, Size}));
}

// As when threads, or processes with the same id in two containers, write one cache.
static void two_writers_of_one_file_both_succeed(void **state) {
    Fixture *p = *state;
    Str path = under(p, "shared"), out;
    StrVec names;
    FileOut *a, *b;
    assert_ok(file_out_open(path, &a));
    assert_ok(file_out_open(path, &b));
    assert_ok(file_out_put(a, "first", 5));
    assert_ok(file_out_put(b, "second", 6));
    assert_ok(file_out_commit(a));
    assert_ok(file_read(&p->arena, path, &out));
    assert_true(str_eq(out, STR("first")));
    assert_ok(file_out_commit(b));
    assert_ok(file_read(&p->arena, path, &out));
    assert_true(str_eq(out, STR("second")));
    assert_ok(dir_list(&p->arena, str_c(p->root), &names));
    assert_int_equal(names.n, 1);
}

static void a_file_that_is_replaced_keeps_its_rights(void **state) {
    Fixture *p = *state;
    static const mode_t modes[] = {0600, 0664, 0444, 0755};
    Str path = under(p, "f");
    struct stat s;
    assert_ok(file_write_atomic(path, "old", 3));
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        assert_int_equal(chmod(path.ptr, modes[i]), 0);
        assert_ok(file_write_atomic(path, "new", 3));
        assert_int_equal(stat(path.ptr, &s), 0);
        assert_int_equal(s.st_mode & 07777, modes[i]);
    }
}

static void age(const char *path) {
    const struct timespec then = {time(NULL) - 3600, 0}, both[2] = {then, then};
    assert_int_equal(utimensat(AT_FDCWD, path, both, AT_SYMLINK_NOFOLLOW), 0);
}

// Of processes that were killed as they wrote: the next to write the same file removes it. What a
// living one writes stays, and what is no file.
static void a_killed_writer_is_cleaned_up_after(void **state) {
    Fixture *p = *state;
    Str path = under(p, "f"), link = under(p, "f.tmp-gan-1");
    StrVec names;
    FileOut *f[3], *living;
    pid_t pid = fork();
    if (pid == 0) {
        for (int i = 0; i < 3; i++)
            if (file_out_open(path, &f[i]) != GAN_OK || file_out_put(f[i], "half", 4) != GAN_OK)
                _exit(1);
        raise(SIGKILL);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    assert_ok(file_write_atomic(path, "new", 3)); // they are not old yet
    assert_ok(dir_list(&p->arena, str_c(p->root), &names));
    assert_int_equal(names.n, 4);
    for (int i = 0; i < 3; i++)
        age(under(p, str_format(&p->arena, "f.tmp-gan-%d", i).ptr).ptr);
    assert_ok(file_out_open(path, &living)); // in the place of the first; the others go
    assert_ok(dir_list(&p->arena, str_c(p->root), &names));
    assert_int_equal(names.n, 2);
    age(under(p, "f.tmp-gan-0").ptr);
    assert_int_equal(symlink("f", link.ptr), 0);
    age(link.ptr);
    assert_ok(file_write_atomic(path, "newer", 5));
    assert_ok(dir_list(&p->arena, str_c(p->root), &names));
    assert_int_equal(names.n, 3);
    assert_ok(file_out_put(living, "last", 4));
    assert_ok(file_out_commit(living));
    Str out;
    assert_ok(file_read(&p->arena, path, &out));
    assert_str(out, "last");
}

// The system's, or ahead of it, as where the clock of a file system is behind.
static time_t clock_ahead;
time_t time(time_t *out) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    time_t t = now.tv_sec + clock_ahead;
    if (out)
        *out = t;
    return t;
}

static int write_often(Str path, char fill) {
    enum { Size = 20000, Times = 100 };
    char data[Size];
    memset(data, fill, Size);
    clock_ahead = 3600;
    for (int i = 0; i < Times; i++)
        if (file_write_atomic(path, data, Size) != GAN_OK)
            return 1;
    return 0;
}

// Where what was just made seems to be left, no writer loses it to another.
static void writers_whose_clock_is_ahead_all_succeed(void **state) {
    enum { Writers = 6 };
    Fixture *p = *state;
    Str path = under(p, "shared");
    StrVec names;
    pid_t pid[Writers];
    for (int i = 0; i < Writers; i++) {
        pid[i] = fork();
        if (pid[i] == 0)
            _exit(write_often(path, (char)('a' + i)));
    }
    int status, failed = 0;
    for (int i = 0; i < Writers; i++) {
        assert_int_equal(waitpid(pid[i], &status, 0), pid[i]);
        failed += !WIFEXITED(status) || WEXITSTATUS(status);
    }
    assert_int_equal(failed, 0);
    assert_ok(dir_list(&p->arena, str_c(p->root), &names));
    assert_int_equal(names.n, 1);
}

// The disk fills at the n-th write-side call, for every n: the old file or the new one, never
// between, and no temporary.
static void a_failing_disk_leaves_the_old_file_or_the_new(void **state) {
    Fixture *p = *state;
    Str path = under(p, "ckpt"), out;
    StrVec names;
    int failures = 0;
    for (int n = 1;; n++) {
        assert_ok(file_write_atomic(path, "old", 3));
        file_fail_at(n);
        GanStatus st = file_write_atomic(path, "newer", 5);
        file_fail_at(0);
        Arena scratch = p->arena;
        assert_ok(dir_list(&scratch, str_c(p->root), &names));
        assert_int_equal(names.n, 1);
        assert_ok(file_read(&scratch, path, &out));
        assert_true(str_eq(out, STR("newer")) || (st != GAN_OK && str_eq(out, STR("old"))));
        if (st == GAN_OK)
            break;
        failures++;
        assert_status(st, GAN_ERR_IO, "write");
    }
    assert_int_equal(failures, 6); // create, write, sync, close, rename, sync the folder
}

// Files that belong together: both are new, or each is what it was, and no other file is there.
static void a_failing_disk_leaves_files_that_fit(void **state) {
    Fixture *p = *state;
    StrVec names;
    Str got;
    for (uint32_t before = 0; before < 4; before++) {
        GanStatus st = GAN_ERR_IO;
        int failures = -1;
        for (int n = 1; st != GAN_OK; n++, failures++) {
            FileOut *f[2];
            uint32_t there = 0;
            for (uint32_t i = 0; i < 2; i++) {
                Str path = under(p, i ? "b" : "a");
                assert_ok(file_remove(path));
                if (before >> i & 1)
                    assert_ok(file_write_atomic(path, "old", 3));
                assert_ok(file_out_open(path, &f[i]));
                assert_ok(file_out_put(f[i], "newer", 5));
            }
            file_fail_at(n);
            st = file_out_commit_all(f, 2);
            file_fail_at(0);
            for (uint32_t i = 0; i < 2; i++) {
                Str path = under(p, i ? "b" : "a");
                bool is_there = file_exists(path);
                assert_int_equal(is_there, st == GAN_OK || before >> i & 1);
                if (is_there) {
                    assert_ok(file_read(&p->arena, path, &got));
                    assert_true(str_eq(got, st == GAN_OK ? STR("newer") : STR("old")));
                }
                there += is_there;
            }
            assert_ok(dir_list(&p->arena, str_c(p->root), &names));
            assert_int_equal(names.n, there);
        }
        // write, sync, close; rename, and keep what is there; sync the folder
        assert_int_equal(failures, 10 + (before & 1) + (before >> 1));
    }
}

// Left by a process of the same number that was killed, or used by one on another machine.
static void another_process_s_old_files_stay(void **state) {
    enum { Left = 200 };
    Fixture *p = *state;
    FileOut *f[2];
    StrVec names;
    Str got;
    for (int i = 0; i < Left; i++) {
        char name[64];
        snprintf(name, sizeof name, "a.tmp-%ld-%d-old", (long)getpid(), i);
        assert_ok(file_write_atomic(under(p, name), "theirs", 6));
    }
    for (int fails = 0; fails < 2; fails++) {
        for (int i = 0; i < 2; i++) {
            assert_ok(file_write_atomic(under(p, i ? "b" : "a"), "old", 3));
            assert_ok(file_out_open(under(p, i ? "b" : "a"), &f[i]));
            assert_ok(file_out_put(f[i], "new", 3));
        }
        file_fail_at(fails ? 11 : 0); // the last call before both are in place
        assert_int_equal(file_out_commit_all(f, 2), fails ? GAN_ERR_IO : GAN_OK);
        file_fail_at(0);
        assert_ok(file_read(&p->arena, under(p, "a"), &got));
        assert_true(str_eq(got, fails ? STR("old") : STR("new")));
    }
    assert_ok(dir_list(&p->arena, str_c(p->root), &names));
    assert_int_equal(names.n, 2 + Left);
    for (uint32_t i = 0; i < names.n; i++) {
        assert_ok(file_read(&p->arena, under(p, names.at[i].ptr), &got));
        assert_true(!str_ends(names.at[i], STR("-old")) || str_eq(got, STR("theirs")));
    }
}

static void refused_memory_is_a_status_for_every_reader_and_writer(void **state) {
    Fixture *p = *state;
    Str path = under(p, "f"), out;
    StrVec names;
    FileLock *lock;
    assert_ok(file_write_atomic(path, "x", 1));
    for (int n = 1; n <= 2; n++) { // heap buffer, then the arena
        mem_fail_at(n);
        assert_status(file_read(&p->arena, path, &out), GAN_ERR_MEMORY, "read");
        mem_fail_at(n);
        assert_status(dir_list(&p->arena, str_c(p->root), &names), GAN_ERR_MEMORY, "list");
    }
    mem_fail_at(1);
    assert_status(file_write_atomic(path, "y", 1), GAN_ERR_MEMORY, "write");
    mem_fail_at(1);
    assert_status(file_lock(path, &lock), GAN_ERR_MEMORY, "lock");
    mem_fail_at(0);
    assert_null(lock);
}

static void lines_are_appended(void **state) {
    Fixture *p = *state;
    Str path = under(p, "log.jsonl"), out;
    assert_ok(file_append_line(path, STR("{}")));
    assert_ok(file_append_line(path, (Str){0}));
    file_fail_at(2);
    assert_status(file_append_line(path, STR("lost")), GAN_ERR_IO, "append");
    assert_ok(file_append_line(path, STR("end")));
    assert_ok(file_read(&p->arena, path, &out));
    assert_str(out, "{}\n\nend\n");
    file_fail_at(3);
    assert_status(file_append(path, (Str){0}), GAN_ERR_IO, "close");
    // Space for only a part of the line: nothing of it is written.
    struct rlimit all, few;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &all), 0);
    few = (struct rlimit){out.len + 4, all.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &few), 0);
    assert_status(file_append_line(path, STR("a longer one")), GAN_ERR_IO, "append");
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &all), 0);
    assert_ok(file_append_line(path, STR("more")));
    assert_ok(file_read(&p->arena, path, &out));
    assert_str(out, "{}\n\nend\nmore\n");
    assert_ok(file_sync(path));
    assert_ok(file_sync(STR("/dev/null")));
    file_fail_at(1);
    assert_status(file_sync(path), GAN_ERR_IO, "sync");
    assert_status(file_sync(under(p, "absent")), GAN_ERR_IO, "sync");
}

// Of a file that is written: its opening, then the write, sync and close, the rename, the sync of
// its folder. Of a line: the write and close after the opening.
static void a_signal_while_writing_is_no_failure(void **state) {
    static const int of_file[] = {2, 3, 4, 6}, of_line[] = {2, 3};
    Fixture *p = *state;
    Str path = under(p, "interrupted"), out;
    for (size_t i = 0; i < sizeof of_file / sizeof *of_file; i++) {
        file_interrupt_at(of_file[i]);
        assert_ok(file_write_atomic(path, "x\n", 2));
    }
    for (size_t i = 0; i < sizeof of_line / sizeof *of_line; i++) {
        file_interrupt_at(of_line[i]);
        assert_ok(file_append_line(path, STR("y")));
    }
    file_interrupt_at(2);
    assert_ok(file_sync(path));
    file_interrupt_at(0);
    assert_ok(file_read(&p->arena, path, &out));
    assert_str(out, "x\ny\ny\n");
}

static void folders_are_made_listed_and_walked_in_order(void **state) {
    Fixture *p = *state;
    Arena *a = &p->arena;
    assert_ok(dir_make(under(p, "run/b/c")));
    assert_ok(dir_make(under(p, "run/b/c/")));
    assert_ok(dir_make(under(p, "run/a")));
    assert_ok(file_write_atomic(under(p, "run/b/c/2.png"), "x", 1));
    assert_ok(file_write_atomic(under(p, "run/b-1"), "x", 1));
    assert_ok(file_write_atomic(under(p, "run/Z"), "x", 1));
    assert_int_equal(symlink("../b", under(p, "run/a/loop").ptr), 0);
    assert_int_equal(symlink("../Z", under(p, "run/a/link").ptr), 0);
    assert_int_equal(symlink("nowhere", under(p, "run/a/dangling").ptr), 0);
    StrVec v;
    WalkVec w;
    assert_ok(dir_list(a, under(p, "run"), &v));
    assert_int_equal(v.n, 4);
    assert_str(v.at[0], "Z");
    assert_str(v.at[2], "b");
    assert_str(v.at[3], "b-1");
    assert_int_equal(symlink("../..", under(p, "run/b/c/up").ptr), 0);
    static const char *const want[] = {"Z",   "a/dangling", "a/link", "a/loop/c/2.png",
                                       "b-1", "b/c/2.png"};
    for (uint32_t links = 0; links < 2; links++) { // a/loop is one to a folder, b/c/up a circle
        assert_ok(dir_walk(a, under(p, "run"), links, &w));
        assert_int_equal(w.n, 5 + links);
        for (uint32_t i = 0; i < w.n; i++) {
            assert_str(w.at[i].path, want[i < 3 || links ? i : i + 1]);
            assert_str(w.at[i].why, i == 1 ? "a link that leads nowhere" : "");
        }
    }
    assert_status(dir_walk(a, under(p, "none"), true, &w), GAN_ERR_IO, "walk");
    assert_status(dir_make(under(p, "run/Z")), GAN_ERR_IO, "make over a file");
    assert_status(dir_make(under(p, "run/Z/deep")), GAN_ERR_IO, "make below a file");
    assert_status(dir_list(a, under(p, "none"), &v), GAN_ERR_IO, "list");
    assert_true(file_is_dir(under(p, "run")) && !file_is_dir(under(p, "run/Z")));
    assert_ok(file_remove(under(p, "run/Z")));
    assert_ok(file_remove(under(p, "run/Z")));
    assert_false(file_exists(under(p, "run/Z")));
}

static void only_what_is_not_there_does_not_exist(void **state) {
    Fixture *p = *state;
    assert_ok(file_write_atomic(under(p, "file"), "x", 1));
    assert_int_equal(symlink("loop", under(p, "loop").ptr), 0);
    assert_int_equal(symlink("nowhere", under(p, "dangling").ptr), 0);
    assert_true(file_exists(under(p, "file")) && file_exists(str_c(p->root)));
    assert_false(file_exists(under(p, "none")) || file_exists(under(p, "none/below")));
    assert_false(file_exists(under(p, "file/below")) || file_exists(under(p, "dangling")));
    assert_true(file_exists(under(p, "loop")) && file_exists(under(p, "loop/below")));
}

// Nothing that is there is passed over in silence.
static void a_walk_names_what_cannot_be_read(void **state) {
    Fixture *p = *state;
    WalkVec v;
    uint32_t failures = 0, named = 0;
    assert_ok(dir_make(under(p, "sub/deep")));
    assert_ok(file_write_atomic(under(p, "sub/deep/1"), "x", 1));
    assert_ok(file_write_atomic(under(p, "2"), "x", 1));
    for (int64_t n = 1; n < 40; n++) {
        file_fail_read_at(n);
        GanStatus st = dir_walk(&p->arena, str_c(p->root), false, &v);
        if (st != GAN_OK) {
            failures++;
            assert_status(st, GAN_ERR_IO, "walk");
            continue;
        }
        assert_int_equal(v.n, 2);
        assert_str(v.at[0].path, "2");
        assert_true(str_starts(STR("sub/deep/1"), v.at[1].path));
        bool bad = v.at[0].why.len || v.at[1].why.len;
        assert_true(bad || str_eq(v.at[1].path, STR("sub/deep/1")));
        for (uint32_t i = 0; i < 2; i++)
            assert_true(!v.at[i].why.len || strstr(v.at[i].why.ptr, "Input/output error"));
        named += bad;
    }
    assert_int_equal(failures, 7); // look at the folder, open it, its four names, its end
    assert_true(named > 10);
}

static void paths_are_split_and_joined(void **state) {
    Fixture *p = *state;
    static const struct {
        const char *path, *dir, *base, *ext, *stem;
    } row[] = {
        {"a/b.tar.gz", "a", "b.tar.gz", "gz", "a/b.tar"},
        {"model.gan", ".", "model.gan", "gan", "model"},
        {"/x", "/", "x", "", "/x"},
        {"/", "/", "/", "", "/"},
        {"a/b/", "a", "b", "", "a/b/"},
        {"a/b.c/", "a", "b.c", "c", "a/b"},
        {"a//b", "a", "b", "", "a//b"},
        {".hidden", ".", ".hidden", "", ".hidden"},
        {"a.d/f", "a.d", "f", "", "a.d/f"},
        {"", ".", "", "", ""},
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        assert_str(path_dir(str_c(row[i].path)), row[i].dir);
        assert_str(path_base(str_c(row[i].path)), row[i].base);
        assert_str(path_ext(str_c(row[i].path)), row[i].ext);
        assert_str(path_stem(str_c(row[i].path)), row[i].stem);
    }
    assert_str(path_join(&p->arena, STR("a"), STR("b")), "a/b");
    assert_str(path_join(&p->arena, STR("a/"), STR("b")), "a/b");
    assert_str(path_join(&p->arena, STR(""), STR("b")), "b");
    assert_str(path_join(&p->arena, STR("a"), STR("/b")), "/b");
    assert_str(path_join(&p->arena, STR("a"), STR("")), "a");
}

// --- locks ---------------------------------------------------------------------------------------

static void a_lock_is_held_once_and_names_its_holder(void **state) {
    Fixture *p = *state;
    Str path = under(p, "lock");
    FileLock *mine, *other;
    assert_ok(file_lock(path, &mine));
    assert_status(file_lock(path, &other), GAN_ERR_INPUT, "second lock");
    assert_null(other);
    Str pid = str_format(&p->arena, "process %ld", (long)getpid());
    assert_non_null(strstr(gan_error(), pid.ptr));
    char host[256] = " on ";
    assert_int_equal(gethostname(host + 4, sizeof host - 5), 0);
    assert_true(str_ends(str_c(gan_error()), str_c(host)));
    file_unlock(mine);
    assert_ok(file_lock(path, &mine));
    file_unlock(mine);
    file_unlock(NULL);
    file_fail_at(3);
    assert_status(file_lock(path, &mine), GAN_ERR_IO, "lock on a full disk");
}

static void a_killed_holder_frees_its_lock(void **state) {
    Fixture *p = *state;
    Str path = under(p, "lock");
    int ready[2];
    assert_int_equal(pipe(ready), 0);
    pid_t child = fork();
    if (child == 0) {
        FileLock *l;
        char ok = file_lock(path, &l) == GAN_OK;
        if (write(ready[1], &ok, 1) == 1)
            pause();
        _exit(1);
    }
    char ok = 0;
    assert_int_equal(read(ready[0], &ok, 1), 1);
    assert_true(ok);
    FileLock *mine;
    assert_status(file_lock(path, &mine), GAN_ERR_INPUT, "lock held by the child");
    Str pid = str_format(&p->arena, "process %ld", (long)child);
    assert_non_null(strstr(gan_error(), pid.ptr));
    kill(child, SIGKILL);
    assert_int_equal(waitpid(child, NULL, 0), child);
    assert_ok(file_lock(path, &mine));
    file_unlock(mine);
    close(ready[0]);
    close(ready[1]);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, fixture_open, fixture_close)

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        CASE(a_status_keeps_its_message_and_callers_add_context),
        CASE(exit_codes_are_as_documented),
        CASE(the_heap_zeroes_aligns_and_refuses_on_request),
        CASE(an_arena_gives_zeroed_aligned_memory_and_a_copy_is_a_checkpoint),
        CASE(an_exhausted_arena_longjmps),
        CASE(a_vec_grows_keeps_its_items_and_longjmps_without_memory),
        CASE(slices_compare_cut_and_search),
        CASE(an_unknown_word_is_answered_by_the_known_ones),
        CASE(integers_are_whole_and_in_range),
        CASE(numbers_are_whole_decimal_and_finite),
        CASE(a_double_survives_its_text),
        CASE(distance_counts_edits_and_swaps),
        CASE(utf8_is_checked_to_the_byte),
        CASE(a_text_is_built_and_closed_with_a_zero),
        CASE(two_hexadecimal_digits_are_a_byte),
        CASE(a_map_finds_every_key_and_no_other),
        CASE(hashes_are_the_published_ones),
        CASE(a_file_reads_back_what_was_written),
        CASE(devices_and_links_are_written_through),
        CASE(a_file_error_names_path_and_reason),
        CASE(a_file_may_have_the_longest_name),
        CASE(a_file_written_in_pieces_appears_whole_or_not_at_all),
        CASE(two_writers_of_one_file_both_succeed),
        CASE(a_file_that_is_replaced_keeps_its_rights),
        CASE(a_killed_writer_is_cleaned_up_after),
        CASE(writers_whose_clock_is_ahead_all_succeed),
        CASE(a_failing_disk_leaves_the_old_file_or_the_new),
        CASE(a_failing_disk_leaves_files_that_fit),
        CASE(another_process_s_old_files_stay),
        CASE(refused_memory_is_a_status_for_every_reader_and_writer),
        CASE(lines_are_appended),
        CASE(a_signal_while_writing_is_no_failure),
        CASE(folders_are_made_listed_and_walked_in_order),
        CASE(only_what_is_not_there_does_not_exist),
        CASE(a_walk_names_what_cannot_be_read),
        CASE(paths_are_split_and_joined),
        CASE(a_lock_is_held_once_and_names_its_holder),
        CASE(a_killed_holder_frees_its_lock),
    };
    if (CASES_LISTED(tests))
        return 0;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
