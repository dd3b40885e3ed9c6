// data_test.c - arrays, archives and packs: correct data is read exactly, errors are named.
#define _GNU_SOURCE
#include "data_fixture.h"
#include "cases.h"
#include "pack_format.h"
#include "process.h"

#include <sys/stat.h>

// --- arrays and sources --------------------------------------------------------------------------

static void arrays_are_read_in_every_version_and_order(void **state) {
    static const struct {
        const char *file;
        uint32_t rank;
        size_t count;
        double last;
    } seeds[] = {
        {"f4", 2, 12, 11},       {"f8_big_endian", 2, 6, 5}, {"u1", 3, 24, 23},     {"u2", 3, 4, 3},
        {"i8", 1, 3, 2},         {"version2", 2, 4, 3},      {"version3", 2, 4, 3}, {"f2", 2, 6, 5},
        {"fortran", 3, 24, 312},
    };
    Fixture *p = *state;
    for (size_t i = 0; i < sizeof seeds / sizeof *seeds; i++) {
        Str file = {0};
        Array a = {0};
        assert_ok(
            file_read(&p->arena, str_format(&p->arena, SEEDS "npy/%s.npy", seeds[i].file), &file));
        assert_ok(npy_parse((const uint8_t *)file.ptr, file.len, &a));
        assert_true(a.rank == seeds[i].rank && a.count == seeds[i].count);
        assert_true(array_at(&a, a.count - 1) == seeds[i].last);
        assert_refused(npy_parse((const uint8_t *)file.ptr, file.len - 1, &a), "bytes of data");
    }
    Str file = {0};
    Array a = {0};
    assert_ok(file_read(&p->arena, STR(SEEDS "npy/f2.npy"), &file));
    assert_ok(npy_parse((const uint8_t *)file.ptr, file.len, &a));
    assert_true(array_at(&a, 1) == -1.5 && array_at(&a, 3) == 0x1p-24 && array_at(&a, 4) == 65504);
    assert_ok(file_read(&p->arena, STR(SEEDS "npy/images.idx"), &file));
    assert_ok(idx_parse((const uint8_t *)file.ptr, file.len, &a));
    assert_true(a.rank == 3 && a.dim[1] == 3 && a.dim[2] == 4 && array_at(&a, 23) == 23);
    assert_refused(idx_parse((const uint8_t *)file.ptr, file.len - 1, &a), "bytes of data");
    const uint8_t none[] = {0, 0, 8, 0}, five[24] = {0, 0, 8, 5}, cut[] = {0, 0, 8, 2, 0, 0, 0, 1};
    assert_refused(idx_parse(none, sizeof none, &a), "of 0 axes");
    assert_refused(idx_parse(five, sizeof five, &a), "of 5 axes");
    assert_refused(idx_parse(cut, sizeof cut, &a), "ends in its header");
}

// As numpy.save leaves a transposed array, and pandas a table.
static void npy_headers_that_do_not_fit_are_refused(void **state) {
    static const struct {
        const char *header, *says;
    } cases[] = {
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (1, 1, 1, 1, 1, 1, 1, 1, 1), }",
         "more than 8 axes"},
        {"{'descr': '<f1', 'fortran_order': False, 'shape': (1,), }", "npy type 'f1'"},
        {"{'descr': '<f4', 'shape': (1,), }", "a key is missing"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (1,), 'shape': (), }", "two shapes"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (9223372036854775807, 9), }",
         "shape is too large"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }", "npy"}, // one number only
    };
    Fixture *p = *state;
    Array a;
    for (size_t i = 0; i <= sizeof cases / sizeof *cases; i++) {
        bool fits = i == sizeof cases / sizeof *cases;
        const char *header =
            fits ? "{'descr': '<i4', 'fortran_order': False, 'shape': (1,), }" : cases[i].header;
        Text t = {.arena = &p->arena};
        text_put(&t, STR("\x93NUMPY\1\0"));
        put_le(&t, strlen(header), 2);
        text_put(&t, str_c(header));
        size_t head = t.n;
        put_le(&t, 0xfffffffd, 4);
        const uint8_t *file = (const uint8_t *)text_str(&t).ptr;
        GanStatus st = npy_parse(file, t.n, &a);
        if (fits)
            assert_true(st == GAN_OK && array_at(&a, 0) == -3);
        else
            assert_message(st, cases[i].says, header);
        assert_refused(npy_parse(file, head - 10, &a), "ends in its header");
    }
    assert_refused(npy_parse((const uint8_t *)"\x93NUMPY\2\0\0\0", 11, &a), "ends in its header");
}

static void rows_of_fortran_order_are_gathered(void **state) {
    static const size_t order[] = {2, 0, 3, 1};
    ArrayFile f;
    Array row;
    (void)state;
    assert_ok(array_open(STR(SEEDS "npy/fortran.npy"), SourceNpy, (Str){0}, false, &f));
    for (size_t i = 0; i < 24; i++)
        assert_true(array_at(&f.all, i) == (double)(i / 6 * 100 + i / 3 % 2 * 10 + i % 3));
    for (size_t n = 0; n < 4; n++) {
        assert_ok(array_row(&f, order[n], &row));
        assert_true(row.rank == 2 && row.dim[0] == 2 && row.dim[1] == 3);
        for (size_t i = 0; i < 6; i++)
            assert_true(array_at(&row, i) == (double)(order[n] * 100 + i / 3 * 10 + i % 3));
    }
    array_close(&f);
}

static void an_array_written_reads_back(void **state) {
    Fixture *p = *state;
    const float x[6] = {1, -2, 3.5f, 0, 1e30f, -0.25f};
    Str file = {0};
    Array a = {0};
    assert_ok(npy_write_f32(under(p, "a.npy"), x, 2, (const int64_t[]){3, 2}));
    assert_ok(file_read(&p->arena, under(p, "a.npy"), &file));
    assert_ok(npy_parse((const uint8_t *)file.ptr, file.len, &a));
    assert_true(a.rank == 2 && a.dim[0] == 3 && a.dim[1] == 2 &&
                (a.data - (const uint8_t *)file.ptr) % 64 == 0);
    assert_memory_equal(a.data, x, sizeof x);
    assert_ok(npy_write_f32(under(p, "b.npy"), x, 1, (const int64_t[]){6}));
    assert_ok(file_read(&p->arena, under(p, "b.npy"), &file));
    assert_ok(npy_parse((const uint8_t *)file.ptr, file.len, &a));
    assert_int_equal(a.dim[0], 6);
}

static void unsupported_sources_are_named(void **state) {
    Fixture *p = *state;
    SourceKind kind;
    assert_refused(source_guess(under(p, "absent"), &kind), "no such file");
    write_bytes(p, "a.h5", "\x89HDF\r\n\x1a\n....", 12);
    assert_ok(source_guess(under(p, "a.h5"), &kind));
    assert_int_equal(kind, SourceHdf5);
    write_image(p, "a.png", 4, 4, 9);
    assert_refused(source_guess(under(p, "a.png"), &kind), "single image");
    write_text(p, "a.txt", "nothing");
    assert_refused(source_guess(under(p, "a.txt"), &kind), "not a folder");
    write_bytes(p, "empty", "", 0);
    assert_refused(source_guess(under(p, "empty"), &kind), "empty file");
    assert_ok(source_guess(str_c(p->root), &kind));
    assert_int_equal(kind, SourceFolder);
}

static void rows_of_a_table_are_samples(void **state) {
    Fixture *p = *state;
    static const struct {
        const char *name, *text;
        int64_t rows, columns;
        float last;
        const char *why;
    } tables[] = {
        {"head.csv", "age,\"a, b\"\n1,2.5\n\n3 , -4e1\n", 2, 2, -40, NULL},
        {"bare.csv", "1,2,3", 1, 3, 3, NULL},
        {"bom.csv",
         "\xef\xbb\xbf"
         "7\r\n8\r\n",
         2, 1, 8, NULL},
        {"sheet.csv", "a;b\n1;2\n", 1, 2, 2, NULL},
        {"tabs.tsv", "a\tb\n1\t2\n", 1, 2, 2, NULL},
        {"word.csv", "age,sex\n1,2\n3,male\n", 0, 0, 0,
         "line 3: `male` in column sex is not a number"},
        {"gap.csv", "age,sex\n1,\n", 0, 0, 0,
         "line 2: column sex is empty: missing(0) in the model's field says"},
        {"some.csv", "1,x\n", 0, 0, 0, "line 1: `x` in column 2 is not a number"},
        {"nan.csv", "a\nnan\n", 0, 0, 0, "`nan` in column a is not a number: missing(0) in"},
        {"far.csv", "a\n1e39\n", 0, 0, 0, "`1e39` in column a is not a number"},
        {"short.csv", "1,2\n3\n", 0, 0, 0, "line 2: 1 values, the lines before have 2"},
        {"head_only.csv", "a,b\n", 0, 0, 0, "a table without a row of numbers"},
        {"open.csv", "\"a,b\n", 0, 0, 0, "a quote that is not closed"},
        // What is beside the numbers, and what only looks so.
        {"wide.csv", "a,b,c\n1,2\n", 0, 0, 0,
         "line 2: 2 values, and the first line names 3 columns"},
        {"comma.csv", "x\n1,5\n2,5\n", 0, 0, 0, "decimals have a point, not a comma"},
        {"names.csv", "a,b\n1,1.5,2\n2,3,4\n", 0, 0, 0, "R's write.table puts a number in front"},
        {"savetxt.csv", "# made by numpy\n1,2\n", 1, 2, 2, NULL},
        {"lost.csv", "nan,nan\n1,2\n", 0, 0, 0, "line 1: `nan` in column 1 is not a number"},
        {"index.csv", ",a\n0,1.5\n1,2.5\n", 0, 0, 0, "no name and numbers the rows"},
        {"r.csv", "\"\",\"a\"\n\"1\",1.5\n\"2\",2\n", 0, 0, 0, "no name and numbers the rows"},
        {"again.csv", "Unnamed: 0,a\n0,1\n1,2\n", 0, 0, 0, "no name and numbers the rows"},
        {"unnamed.csv", ",a\n0,1\n2,2\n", 2, 2, 2, NULL},
        {"columns.csv", "0,1,2\n1.0,2.0,3.0\n", 0, 0, 0, "the first line is 0, 1, 2, ..."},
        {"named.csv", ",0,1\n0,1.5,2\n1,2.5,3\n", 0, 0, 0, "no name and numbers the rows"},
        {"pandas.csv", "0,1\n0.25,1.5\n2.0,0.1\n", 0, 0, 0, "the first line is 0, 1, 2, ..."},
        {"digits.csv", "0,1\n0.1234567890123456,1.5\n", 0, 0, 0, "the first line is 0, 1, 2, ..."},
        {"utf16.csv",
         "\xff\xfe"
         "1,2\n",
         0, 0, 0, "a table in UTF-16: save it as UTF-8"},
        {"de.csv", "a;b\n1,5;2\n", 0, 0, 0,
         "`1,5` in column a is not a number: decimals have a point"},
        {"ends.csv", "a,b\n1,2,\n", 0, 0, 0, "names 2 columns: a separator ends the line"},
        {"bits.csv", "0,1\n1,0\n", 2, 2, 0, NULL},
        {"start.csv", "0,1\n0.1,0.995\n0.2,0.98\n", 3, 2, 0.98f, NULL},
        {"mixed.csv", "0,1,2\n1.5,2,3\n1,2,3.25\n", 3, 3, 3.25f, NULL},
        {"sample.csv", "0.0,1,2\n1.5,2,3\n", 2, 3, 3, NULL},
    };
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) {
        SourceKind kind;
        ArrayFile f;
        Array row;
        Str path = under(p, tables[i].name);
        write_bytes(p, tables[i].name, tables[i].text, strlen(tables[i].text));
        assert_ok(source_guess(path, &kind));
        assert_int_equal(kind, SourceTable);
        if (tables[i].why) {
            assert_refused(array_open(path, kind, (Str){0}, false, &f), tables[i].why);
            continue;
        }
        assert_ok(array_open(path, kind, (Str){0}, false, &f));
        assert_int_equal(f.all.dim[0], tables[i].rows);
        assert_int_equal(f.all.dim[1], tables[i].columns);
        assert_ok(array_row(&f, (size_t)tables[i].rows - 1, &row));
        assert_true(array_at(&row, row.count - 1) == (double)tables[i].last);
        array_close(&f);
    }
}

static void cells_of_a_table_may_be_missing(void **state) {
    static const struct {
        const char *name, *text;
        int64_t rows, columns;
        uint32_t missing; // bits of its cells
        const char *why;
    } tables[] = {
        {"gaps.csv", "a,b\n1,\nNA,2\n", 2, 2, 6, NULL},
        {"words.tsv", "a\tb\n?\tnull\nNaN\t-\n1\t-nan\n", 3, 2, 47, NULL},
        {"first.csv", "nan,NA\n1,2\n", 2, 2, 3, NULL},      // names no columns
        {"quoted.csv", "a\n1\n\"\"\n\n2\n", 3, 1, 2, NULL}, // pandas of one column
        {"word.csv", "a,b\n1,x\n", 0, 0, 0, "`x` in column b is not a number"},
        {"inf.csv", "a,b\n1,inf\n", 0, 0, 0, "`inf` in column b is not a number"},
        {"named.csv", ",0,1\n0,1.5,2\n", 0, 0, 0, "no name and numbers the rows"},
    };
    Fixture *p = *state;
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) {
        ArrayFile f;
        Str path = under(p, tables[i].name);
        write_text(p, tables[i].name, tables[i].text);
        if (tables[i].why) {
            assert_refused(array_open(path, SourceTable, (Str){0}, true, &f), tables[i].why);
            continue;
        }
        assert_ok(array_open(path, SourceTable, (Str){0}, true, &f));
        assert_true(f.all.dim[0] == tables[i].rows && f.all.dim[1] == tables[i].columns);
        for (size_t k = 0; k < f.all.count; k++)
            assert_int_equal(isnan(array_at(&f.all, k)) != 0, tables[i].missing >> k & 1);
        array_close(&f);
    }
}

static void arrays_of_an_npz_file_have_names(void **state) {
    Fixture *p = *state;
    SourceKind kind;
    ArrayFile f;
    Array row;
    assert_ok(source_guess(STR(SEEDS "npy/one.npz"), &kind));
    assert_int_equal(kind, SourceNpz);
    assert_ok(array_open(STR(SEEDS "npy/one.npz"), kind, (Str){0}, false, &f));
    assert_true(f.all.rank == 2 && f.all.dim[0] == 4 && f.all.dim[1] == 3);
    assert_ok(array_row(&f, 3, &row));
    assert_true(array_at(&row, 2) == 11);
    array_close(&f);
    assert_ok(array_open(STR(SEEDS "npy/two.npz"), kind, STR("y"), false, &f));
    assert_true(f.all.rank == 1 && array_at(&f.all, 2) == 2);
    array_close(&f);
    assert_refused(array_open(STR(SEEDS "npy/two.npz"), kind, (Str){0}, false, &f),
                   "it holds x, y; `ganrun data pack`");
    assert_refused(array_open(STR(SEEDS "npy/two.npz"), kind, STR("z"), false, &f),
                   "no array z in it");
    Str whole;
    assert_ok(file_read(&p->arena, STR(SEEDS "npy/two.npz"), &whole));
    write_bytes(p, "cut.npz", whole.ptr, whole.len / 2);
    assert_false(array_open(under(p, "cut.npz"), SourceNpz, STR("y"), false, &f) == GAN_OK);
}

// `records` of CIFAR with `head` labels each; picture i is all i, its class i + 1.
static void write_cifar(Fixture *p, const char *name, size_t head, size_t records, size_t extra) {
    uint8_t bytes[4 * (3072 + 2) + 8] = {0};
    size_t each = head + 3072;
    assert_true(records * each + extra <= sizeof bytes);
    for (size_t i = 0; i < records; i++) {
        bytes[i * each + head - 1] = (uint8_t)(i + 1);
        memset(bytes + i * each + head, (int)i, 3072);
    }
    write_bytes(p, name, bytes, records * each + extra);
}

static void cifar_packs_with_its_classes(void **state) {
    Fixture *p = *state;
    BadList bad = {0};
    for (size_t head = 1; head <= 2; head++) {
        PackOptions o = pack_options(&bad);
        PackSummary sum = {0};
        Pack pack = {0};
        o.w = o.h = 0;
        o.channels = 0;
        write_cifar(p, "a.bin", head, 4, 0);
        assert_ok(pack_build(&p->arena, under(p, "a.bin"), &o, under(p, "a.pack"), NULL, &sum));
        assert_ok(pack_open(&p->arena, under(p, "a.pack"), &pack));
        assert_true(pack.count == 4 && pack.fields == 2);
        assert_int_equal(pack.field[1].classes, head == 1 ? 10 : 100);
        pack_close(&pack);
    }
    Array a;
    size_t head;
    uint8_t none[3073] = {10}; // CIFAR-10 has classes 0 to 9
    assert_refused(cifar_parse(none, sizeof none, &a, &head), "a class that CIFAR does not have");
    write_cifar(p, "b.bin", 1, 2, 5);
    SourceKind kind;
    ArrayFile f;
    assert_ok(source_guess(under(p, "b.bin"), &kind));
    assert_refused(array_open(under(p, "b.bin"), kind, (Str){0}, false, &f), "no CIFAR records");
}

// --- packs ---------------------------------------------------------------------------------------

static void a_folder_packs_the_same_for_every_number_of_threads(void **state) {
    Fixture *p = *state;
    BadList bad = {0};
    Str first = {0};
    make_folder(p, 40);
    for (int threads = 1; threads <= 5; threads++) {
        PackOptions o = pack_options(&bad);
        PackSummary sum = {0};
        Str bytes = {0};
        o.threads = threads;
        o.labels = STR("folders");
        assert_ok(pack_build(&p->arena, under(p, "set"), &o, under(p, "set.pack"), NULL, &sum));
        assert_true(sum.good == 40 && sum.bad == 0);
        assert_ok(file_read(&p->arena, under(p, "set.pack"), &bytes));
        if (threads == 1)
            first = bytes;
        assert_true(str_eq(first, bytes));
    }
    Pack pack = {0};
    assert_ok(pack_open(&p->arena, under(p, "set.pack"), &pack));
    assert_ok(pack_verify(&pack));
    assert_true(pack.count == 40 && pack.fields == 2 && pack.field[1].classes == 2);
    assert_str(pack.field[1].class_name[1], "odd");
    for (uint64_t i = 0; i < 40; i++) { // sorted by name: even/000 even/002 ... odd/001 ...
        uint32_t number = (uint32_t)(i < 20 ? 2 * i : 2 * i - 39), label;
        memcpy(&label, pack_record(&pack, i) + pack.field[1].offset, sizeof label);
        assert_int_equal(pack_record(&pack, i)[0], number);
        assert_int_equal(label, number % 2);
        assert_str(pack_name(&pack, i),
                   str_format(&p->arena, "%s/%03u.png", label ? "odd" : "even", number).ptr);
    }
    pack_close(&pack);
}

static void every_bad_file_is_listed_and_no_pack_is_left(void **state) {
    Fixture *p = *state;
    BadList bad = {0};
    PackOptions o = pack_options(&bad);
    Str file = {0};
    make_folder(p, 4);
    assert_ok(file_read(&p->arena, STR(SEEDS "image/truncated_rgb8.png"), &file));
    write_bytes(p, "set/a_cut.png", file.ptr, file.len);
    write_text(p, "set/b_text.png", "hello");
    write_text(p, "set/.hidden", "not looked at");
    write_text(p, "set/NOTES.TXT", "not looked at");
    write_text(p, "set/odd/LICENSE", "not looked at");
    assert_refused(pack_build(&p->arena, under(p, "set"), &o, under(p, "set.pack"), NULL, NULL),
                   "2 of 6");
    assert_false(file_exists(under(p, "set.pack")));
    assert_int_equal(bad.n, 2);
    assert_string_equal(bad.name[0], "a_cut.png");
    assert_non_null(strstr(bad.reason[0], "ends too early"));
    assert_non_null(strstr(bad.reason[1], "but text"));
    o.skip_bad = true;
    PackSummary sum = {0};
    assert_ok(pack_build(&p->arena, under(p, "set"), &o, under(p, "set.pack"), NULL, &sum));
    assert_true(sum.good == 4 && sum.bad == 2);
}

// A folder that only its owner may list, in a set of others.
static void a_folder_that_cannot_be_listed_is_a_bad_file(void **state) {
    Fixture *p = *state;
    BadList bad = {0};
    PackOptions o = pack_options(&bad);
    PackSummary sum = {0};
    Pack pack = {0};
    make_folder(p, 6);
    assert_int_equal(chmod(p->root, 0755), 0);
    assert_int_equal(chmod(under(p, "set/odd").ptr, 0), 0);
    bool root = geteuid() == 0; // who may list all
    assert_true(!root || seteuid(65534) == 0);
    GanStatus strict = pack_build(&p->arena, under(p, "set"), &o, (Str){0}, &pack, NULL);
    Str why = str_copy(&p->arena, str_c(gan_error()));
    o.skip_bad = true;
    GanStatus lenient = pack_build(&p->arena, under(p, "set"), &o, (Str){0}, &pack, &sum);
    assert_true(!root || seteuid(0) == 0);
    assert_int_equal(chmod(under(p, "set/odd").ptr, 0755), 0);
    assert_status(strict, GAN_ERR_INPUT, "pack");
    assert_non_null(strstr(why.ptr, "1 of 4 samples cannot be used"));
    assert_ok(lenient);
    assert_true(sum.good == 3 && sum.bad == 1 && bad.n == 2);
    assert_string_equal(bad.name[1], "odd");
    assert_non_null(strstr(bad.reason[1], "Permission denied"));
    pack_close(&pack);
}

static void sets_without_a_good_image_are_errors(void **state) {
    Fixture *p = *state;
    BadList bad = {0};
    PackOptions o = pack_options(&bad);
    Pack pack = {0};
    assert_ok(dir_make(under(p, "empty")));
    assert_refused(pack_build(&p->arena, under(p, "empty"), &o, (Str){0}, &pack, NULL),
                   "no images or sounds in it");
    write_text(p, "texts/a.png", "hello");
    o.skip_bad = true;
    assert_refused(pack_build(&p->arena, under(p, "texts"), &o, (Str){0}, &pack, NULL),
                   "none of 1");
    assert_int_equal(bad.n, 1);
    write_image(p, "one/a.png", 30, 20, 77);
    assert_ok(pack_build(&p->arena, under(p, "one"), &o, (Str){0}, &pack, NULL));
    assert_true(pack.count == 1 && pack_record(&pack, 0)[5] == 77);
    pack_close(&pack);
    o.w = o.h = 0; // the size that all have
    assert_ok(pack_build(&p->arena, under(p, "one"), &o, (Str){0}, &pack, NULL));
    assert_true(pack.field[0].dim[1] == 20 && pack.field[0].dim[2] == 30);
    pack_close(&pack);
    write_image(p, "one/b.png", 20, 30, 77);
    assert_refused(pack_build(&p->arena, under(p, "one"), &o, (Str){0}, &pack, NULL),
                   "b.png: it is 20x30, the first 30x20");
}

static uint64_t files_done[8];
static uint32_t progress_calls;

static void note_progress(void *user, uint64_t files) {
    (void)user;
    files_done[progress_calls++ % 8] = files;
}

static void progress_is_told_by_the_clock(void **state) {
    Fixture *p = *state;
    PackOptions o = {.w = 8, .h = 8, .progress = note_progress};
    Pack pack = {0};
    make_folder(p, 4);
    progress_calls = 0;
    assert_ok(pack_build(&p->arena, under(p, "set"), &o, (Str){0}, &pack, NULL));
    assert_int_equal(progress_calls, 4);
    assert_true(files_done[0] == 1 && files_done[3] == 4);
    pack_close(&pack);
    o.every = 1e6;
    assert_ok(pack_build(&p->arena, under(p, "set"), &o, (Str){0}, &pack, NULL));
    assert_int_equal(progress_calls, 4);
    pack_close(&pack);
}

// The two folders of make_folder, as set.tar.
static void make_tar(Fixture *p) {
    const char *const argv[] = {"tar",
                                "-C",
                                str_z(&p->arena, under(p, "set")),
                                "-cf",
                                str_z(&p->arena, under(p, "set.tar")),
                                "even",
                                "odd",
                                NULL};
    Str said;
    int code;
    assert_ok(process_run(&p->arena, argv, &said, &code));
    assert_int_equal(code, 0);
}

static void a_zip_with_a_bad_member_names_it(void **state) {
    Fixture *p = *state;
    BadList bad = {0};
    PackOptions o = pack_options(&bad);
    Pack pack = {0};
    make_folder(p, 4);
    make_tar(p);
    Str tar = {0};
    o.labels = STR("folders");
    assert_ok(pack_build(&p->arena, under(p, "set.tar"), &o, (Str){0}, &pack, NULL));
    assert_true(pack.count == 4 && pack.field[1].classes == 2);
    pack_close(&pack);
    // The same archive truncated in its last member, and with a byte of an image changed.
    assert_ok(file_read(&p->arena, under(p, "set.tar"), &tar));
    char *copy = arena_array(&p->arena, char, tar.len);
    memcpy(copy, tar.ptr, tar.len);
    for (size_t at = 0, seen = 0; at + 8 < tar.len; at += 512)
        if (memcmp(copy + at, "\x89PNG", 4) == 0 && ++seen == 2)
            copy[at + 45] ^= 0x10;
    write_bytes(p, "bad.tar", copy, tar.len);
    o.skip_bad = true;
    PackSummary sum = {0};
    assert_ok(pack_build(&p->arena, under(p, "bad.tar"), &o, (Str){0}, &pack, &sum));
    assert_true(sum.good == 3 && sum.bad == 1 && bad.n == 1);
    assert_non_null(strstr(bad.reason[0], "broken PNG"));
    pack_close(&pack);
}

// tar writes the second name of a file as a link without content.
static void a_link_in_an_archive_is_no_sample_that_is_passed_over(void **state) {
    Fixture *p = *state;
    BadList bad = {0};
    PackOptions o = pack_options(&bad);
    Pack pack = {0};
    make_folder(p, 4);
    assert_int_equal(link(str_z(&p->arena, under(p, "set/odd/001.png")),
                          str_z(&p->arena, under(p, "set/odd/005.png"))),
                     0);
    assert_int_equal(symlink("001.png", str_z(&p->arena, under(p, "set/odd/007.png"))), 0);
    make_tar(p);
    assert_refused(pack_build(&p->arena, under(p, "set.tar"), &o, (Str){0}, &pack, NULL),
                   "2 of 6 samples cannot be used");
    assert_true(bad.n == 2 && strstr(bad.reason[0], "a link to another file"));
    o.skip_bad = true;
    assert_ok(pack_build(&p->arena, under(p, "set.tar"), &o, (Str){0}, &pack, NULL));
    assert_int_equal(pack.count, 4);
    pack_close(&pack);
    assert_ok(pack_build(&p->arena, under(p, "set"), &o, (Str){0}, &pack, NULL));
    assert_int_equal(pack.count, 6); // in a folder links are followed
    pack_close(&pack);
}

static void zip_checksums_are_checked(void **state) {
    Fixture *p = *state;
    BadList bad = {0};
    PackOptions o = pack_options(&bad);
    Pack pack = {0};
    PackSummary sum = {0};
    Str png = {0};
    assert_ok(file_read(&p->arena, STR(SEEDS "image/rgb8.png"), &png));
    write_zip(p, "a.zip", 2, (const Member[]){{"a", png, false}, {"b", png, true}});
    o.skip_bad = true;
    assert_ok(pack_build(&p->arena, under(p, "a.zip"), &o, (Str){0}, &pack, &sum));
    assert_true(sum.good == 1 && sum.bad == 1);
    assert_string_equal(bad.name[0], "b");
    assert_non_null(strstr(bad.reason[0], "damaged in the archive"));
    pack_close(&pack);
}

static void rows_of_a_table_with_gaps_may_be_left_out(void **state) {
    Fixture *p = *state;
    BadList bad = {0};
    PackOptions o = {.bad = note_bad, .user = &bad};
    Pack pack = {0};
    PackSummary sum = {0};
    write_text(p, "gaps.csv", "a,b\n1,2\n3,\n5,6\n");
    o.skip_bad = true;
    assert_ok(pack_build(&p->arena, under(p, "gaps.csv"), &o, (Str){0}, &pack, &sum));
    assert_true(sum.good == 2 && sum.bad == 1 && pack.field[0].missing == 0);
    assert_string_equal(bad.reason[0], "NaN at element 1");
    pack_close(&pack);
}

// As appending to a zip or tar leaves them: which one is meant, the archive does not say.
static void a_member_of_a_name_that_is_taken_is_refused(void **state) {
    Fixture *p = *state;
    BadList bad = {0};
    PackOptions o = pack_options(&bad);
    Pack pack = {0};
    PackSummary sum = {0};
    Str png = {0};
    assert_ok(file_read(&p->arena, STR(SEEDS "image/rgb8.png"), &png));
    write_zip(
        p, "a.zip", 3,
        (const Member[]){{"a.png", png, false}, {"b/a.png", png, false}, {"a.png", png, false}});
    assert_refused(pack_build(&p->arena, under(p, "a.zip"), &o, (Str){0}, &pack, &sum),
                   "1 of 3 samples cannot be used");
    assert_string_equal(bad.name[0], "a.png");
    assert_non_null(strstr(bad.reason[0], "a second member of this name"));
}

static void arrays_pack_with_labels_and_refuse_nan(void **state) {
    Fixture *p = *state;
    BadList bad = {0};
    PackOptions o = {.bad = note_bad, .user = &bad, .labels = STR(SEEDS "npy/labels.idx")};
    Pack pack = {0};
    assert_ok(pack_build(&p->arena, STR(SEEDS "npy/images.idx"), &o, (Str){0}, &pack, NULL));
    assert_true(pack.count == 2 && pack.field[0].kind == DataImage && pack.field[0].dim[2] == 4 &&
                pack.field[1].classes == 8);
    for (uint32_t i = 0; i < 24; i++)
        assert_int_equal(pack_record(&pack, i / 12)[i % 12], i);
    pack_close(&pack);
    float x[6] = {0, 1, 2, NAN, 4, 5};
    o.labels = (Str){0};
    assert_ok(npy_write_f32(under(p, "nan.npy"), x, 2, (const int64_t[]){3, 2}));
    assert_refused(pack_build(&p->arena, under(p, "nan.npy"), &o, (Str){0}, &pack, NULL), "1 of 3");
    assert_string_equal(bad.name[0], "nan.npy:1");
    assert_string_equal(bad.reason[0], "NaN at element 1");
    x[3] = -7;
    assert_ok(npy_write_f32(under(p, "ok.npy"), x, 2, (const int64_t[]){3, 2}));
    assert_ok(pack_build(&p->arena, under(p, "ok.npy"), &o, (Str){0}, &pack, NULL));
    assert_true(pack.field[0].lo == -7 && pack.field[0].hi == 5);
    pack_close(&pack);
}

static void channels_last_is_transposed(void **state) {
    Fixture *p = *state;
    BadList bad = {0};
    PackOptions o = {.bad = note_bad, .user = &bad, .channels_last = true};
    Pack pack = {0};
    float x[12];
    for (uint32_t i = 0; i < 12; i++)
        x[i] = (float)i;
    assert_ok(npy_write_f32(under(p, "a.npy"), x, 4, (const int64_t[]){1, 2, 2, 3}));
    assert_ok(pack_build(&p->arena, under(p, "a.npy"), &o, (Str){0}, &pack, NULL));
    assert_true(pack.field[0].rank == 3 && pack.field[0].dim[0] == 3 && pack.field[0].dim[1] == 2 &&
                pack.field[0].dim[2] == 2);
    const float *got = (const float *)pack_record(&pack, 0);
    for (uint32_t i = 0; i < 12; i++)
        assert_true(got[i] == (float)(i % 4 * 3 + i / 4));
    pack_close(&pack);
}

static void every_changed_byte_of_a_pack_is_noticed(void **state) {
    Fixture *p = *state;
    Str file = {0};
    assert_ok(synth_write(STR("shapes"), under(p, "a.pack"), 5, 8, 1));
    assert_ok(file_read(&p->arena, under(p, "a.pack"), &file));
    uint8_t *copy = arena_array(&p->arena, uint8_t, file.len);
    for (size_t i = 0; i<file.len; i += i> 16 && i < 4000 ? 97 : 1) {
        Arena scratch = p->arena;
        Pack pack = {0};
        memcpy(copy, file.ptr, file.len);
        copy[i] ^= (uint8_t)(1 + i % 255);
        GanStatus st = pack_open_bytes(&scratch, copy, file.len, &pack);
        if (st == GAN_OK)
            st = pack_verify(&pack);
        if (st != GAN_ERR_INPUT)
            fail_msg("byte %zu of %zu was changed and nothing noticed", i, file.len);
    }
    for (size_t n = 0; n < file.len; n += 61) {
        Arena scratch = p->arena;
        Pack pack = {0};
        assert_true(pack_open_bytes(&scratch, (const uint8_t *)file.ptr, n, &pack) ==
                    GAN_ERR_INPUT);
    }
}

static void kinds_of_damage_to_a_pack_are_distinguished(void **state) {
    Fixture *p = *state;
    Str file = {0};
    Pack pack = {0};
    assert_ok(synth_write(STR("shapes"), under(p, "a.pack"), 5, 8, 1));
    assert_ok(file_read(&p->arena, under(p, "a.pack"), &file));
    write_bytes(p, "cut.pack", file.ptr, file.len - 100);
    assert_refused(pack_open(&p->arena, under(p, "cut.pack"), &pack), "truncated pack");
    char *copy = arena_array(&p->arena, char, file.len + 64);
    memcpy(copy, file.ptr, file.len);
    copy[file.len - 80] ^= 1;
    write_bytes(p, "header.pack", copy, file.len);
    assert_refused(pack_open(&p->arena, under(p, "header.pack"), &pack), "does not match its hash");
    memcpy(copy, file.ptr, file.len);
    memcpy(copy + file.len, file.ptr + file.len - 64, 64); // a trailer too many
    write_bytes(p, "long.pack", copy, file.len + 64);
    assert_refused(pack_open(&p->arena, under(p, "long.pack"), &pack), "wrong size");
    memcpy(copy, file.ptr, file.len);
    copy[PackLead + 300] ^= 1;
    write_bytes(p, "data.pack", copy, file.len);
    assert_ok(pack_open(&p->arena, under(p, "data.pack"), &pack));
    assert_refused(pack_verify(&pack), "samples 0 to 4");
    pack_close(&pack);
}

static void a_million_samples_open_at_once(void **state) {
    Fixture *p = *state;
    PackField field = {
        .name = STR("x"), .kind = DataFloat, .dtype = PackF32, .rank = 1, .dim = {2}, .hi = 1};
    PackWriter *w = NULL;
    Pack pack = {0};
    assert_ok(pack_writer_open(under(p, "big.pack"), &field, 1, &w));
    for (uint32_t i = 0; i < 1000000; i++) {
        float x[2] = {(float)i, 1};
        assert_ok(pack_writer_add(w, x, STR("s")));
    }
    assert_ok(pack_writer_commit(w, STR("test"), (Str){0}));
    int64_t before = mem_count();
    Arena scratch = p->arena;
    assert_ok(pack_open(&scratch, under(p, "big.pack"), &pack));
    assert_true(pack.count == 1000000 && mem_count() - before < 100);
    assert_true((size_t)(scratch.beg - p->arena.beg) <
                1 << 16); // constant, whatever the number of samples
    assert_true(((const float *)pack_record(&pack, 999999))[0] == 999999);
    assert_str(pack_name(&pack, 999999), "s");
    assert_ok(pack_verify(&pack));
    pack_close(&pack);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        T(arrays_are_read_in_every_version_and_order),
        T(npy_headers_that_do_not_fit_are_refused),
        T(rows_of_fortran_order_are_gathered),
        T(an_array_written_reads_back),
        T(unsupported_sources_are_named),
        T(rows_of_a_table_are_samples),
        T(cells_of_a_table_may_be_missing),
        T(arrays_of_an_npz_file_have_names),
        T(cifar_packs_with_its_classes),
        T(a_folder_packs_the_same_for_every_number_of_threads),
        T(every_bad_file_is_listed_and_no_pack_is_left),
        T(a_folder_that_cannot_be_listed_is_a_bad_file),
        T(sets_without_a_good_image_are_errors),
        T(progress_is_told_by_the_clock),
        T(a_zip_with_a_bad_member_names_it),
        T(a_link_in_an_archive_is_no_sample_that_is_passed_over),
        T(zip_checksums_are_checked),
        T(rows_of_a_table_with_gaps_may_be_left_out),
        T(a_member_of_a_name_that_is_taken_is_refused),
        T(arrays_pack_with_labels_and_refuse_nan),
        T(channels_last_is_transposed),
        T(every_changed_byte_of_a_pack_is_noticed),
        T(kinds_of_damage_to_a_pack_are_distinguished),
        T(a_million_samples_open_at_once),
    };
    if (CASES_LISTED(tests))
        return 0;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
