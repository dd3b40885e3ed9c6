// hdf5_test.c - arrays in HDF5 files as other programs leave them (hdf5/make.py writes them), and
// the same files damaged.
#define _GNU_SOURCE
#include "data_fixture.h"
#include "cases.h"

#define FILES TEST_DIR "/unit/hdf5/"

static double value(size_t i) { // what make.py writes at flat index i
    return (double)(i * 7 % 101);
}

// Packs one file; skips the test without libhdf5.
static GanStatus pack(Fixture *p, const char *name, PackOptions o, Pack *out) {
    GanStatus st =
        pack_build(&p->arena, str_format(&p->arena, FILES "%s", name), &o, (Str){0}, out, NULL);
    if (st != GAN_OK && strstr(gan_error(), "without libhdf5"))
        skip();
    return st;
}

static void clouds_with_checksums_are_read(void **state) {
    Fixture *p = *state;
    Pack k = {0};
    assert_ok(
        pack(p, "clouds.h5", (PackOptions){0}, &k)); // rmsd has one axis: the choice is unambiguous
    const PackField *f = &k.field[0];
    assert_true(k.count == 5 && f->kind == DataFloat && f->rank == 2);
    assert_true(f->dim[0] == 3 && f->dim[1] == 40);
    for (size_t i = 0; i < 5; i++) {
        const float *x = (const float *)pack_record(&k, i);
        for (size_t j = 0; j < 120; j++)
            assert_true(x[j] == (float)value(i * 120 + j) / 10);
    }
    pack_close(&k);
}

static void compressed_doubles_of_the_other_byte_order_are_read(void **state) {
    Fixture *p = *state;
    Pack k = {0};
    assert_ok(pack(p, "packed.h5", (PackOptions){0}, &k));
    assert_true(k.count == 6 && k.field[0].rank == 3 && k.field[0].dim[2] == 8);
    assert_true(k.field[0].lo == 0 && k.field[0].hi == 100);
    for (size_t i = 0; i < 6; i++)
        for (size_t j = 0; j < 64; j++)
            assert_true(((const float *)pack_record(&k, i))[j] == (float)value(i * 64 + j));
    pack_close(&k);
}

static void one_of_several_datasets_is_selected_by_name(void **state) {
    Fixture *p = *state;
    Pack k = {0};
    assert_refused(pack(p, "bytes.h5", (PackOptions){0}, &k), "it holds test, train");
    assert_refused(pack(p, "bytes.h5", (PackOptions){.dataset = STR("tran")}, &k),
                   "no data set tran; it holds test, train");
    assert_ok(pack(p, "bytes.h5", (PackOptions){.dataset = STR("train")}, &k));
    assert_true(k.count == 4 && k.field[0].kind == DataImage && k.field[0].dtype == PackU8);
    assert_int_equal(pack_record(&k, 1)[2], (int)value(192 + 2));
    pack_close(&k);
    write_text(p, "a.npy", "\x93NUMPY");
    ArrayFile f;
    assert_refused(array_open(under(p, "a.npy"), SourceNpy, STR("x"), false, &f), "only HDF5");
}

static void datasets_within_groups_are_found(void **state) {
    Fixture *p = *state;
    Pack k = {0};
    assert_refused(pack(p, "groups.h5", (PackOptions){0}, &k), "fields/v");
    assert_refused(pack(p, "groups.h5", (PackOptions){0}, &k), "fields/flow/u");
    assert_refused(pack(p, "groups.h5", (PackOptions){0}, &k), "by --dataset NAME");
    assert_ok(pack(p, "groups.h5", (PackOptions){.dataset = STR("fields/flow/u")}, &k));
    assert_true(k.count == 2 && k.field[0].dim[0] == 3);
    pack_close(&k);
    assert_refused(pack(p, "groups.h5", (PackOptions){.dataset = STR("fields")}, &k),
                   "there is no data set fields; it holds fields/v, ");
    assert_ok(pack(p, "group.h5", (PackOptions){0}, &k)); // the only one
    assert_true(k.count == 2 && k.field[0].dim[0] == 5);
    pack_close(&k);
}

static void unusable_datasets_are_refused(void **state) {
    Fixture *p = *state;
    Pack k = {0};
    assert_refused(pack(p, "other.h5", (PackOptions){0}, &k), "words: only floats");
    assert_refused(pack(p, "part.h5", (PackOptions){0}, &k),
                   "1 of its 3 chunks were never written");
    assert_refused(pack(p, "gap.h5", (PackOptions){0}, &k), "1 of 3 samples cannot be used");
    assert_ok(pack(p, "gap.h5", (PackOptions){.skip_bad = true}, &k));
    assert_int_equal(k.count, 2);
    pack_close(&k);
    assert_ok(pack(p, "gap.h5", (PackOptions){.missing = true}, &k));
    assert_true(k.count == 3 && k.field[0].missing == 1 &&
                isnan(((const float *)(const void *)pack_record(&k, 1))[2]));
    pack_close(&k);
}

// A data file must not cause other files to be opened.
static void data_in_other_files_is_refused(void **state) {
    static const struct {
        const char *set, *says;
    } cases[] = {
        {"external", "external: its values are in other files, which are not opened"},
        {"virtual", "virtual: its values are in other files"},
        {"linked", "linked: its values are in other files"},
        {"outside/test", "outside/test: its values are in other files"},
        {"", "its values are in other files"}, // the only data set
    };
    Fixture *p = *state;
    Pack k = {0};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_refused(pack(p, "elsewhere.h5", (PackOptions){.dataset = str_c(cases[i].set)}, &k),
                       cases[i].says);
    assert_ok(pack(p, "elsewhere.h5", (PackOptions){.dataset = STR("group/own")}, &k));
    assert_int_equal(k.count, 2);
    pack_close(&k);
}

// Random access gives the rows of sequential access: windows move back and forth.
static void rows_come_in_any_order(void **state) {
    static const size_t order[] = {5, 0, 3, 4, 1, 2};
    Fixture *p = *state;
    Pack k = {0};
    ArrayFile f;
    assert_ok(pack(p, "packed.h5", (PackOptions){0}, &k));
    pack_close(&k);
    assert_ok(array_open(STR(FILES "packed.h5"), SourceHdf5, (Str){0}, false, &f));
    for (size_t i = 0; i < 6; i++) {
        Array row;
        if (i == 1)
            f.windows = 2, f.loaded = 0; // the first row's window held all rows
        assert_ok(array_row(&f, order[i], &row));
        assert_true(row.rank == 3 && row.count == 64);
        for (size_t j = 0; j < 64; j++)
            assert_true(array_at(&row, j) == value(order[i] * 64 + j));
    }
    array_close(&f);
}

// Unlike write_bytes without fsync: there are thousands of files.
static void write_quickly(Fixture *p, const char *name, const void *bytes, size_t n) {
    FILE *f = fopen(str_z(&p->arena, under(p, name)), "wb");
    assert_non_null(f);
    assert_true(fwrite(bytes, 1, n, f) == n);
    assert_int_equal(fclose(f), 0);
}

static void read_all(Fixture *p, const char *name) {
    ArrayFile f;
    Array row;
    if (array_open(under(p, name), SourceHdf5, (Str){0}, false, &f) != GAN_OK)
        return;
    GanStatus st = GAN_OK;
    for (size_t i = 0; st == GAN_OK && i < (size_t)f.all.dim[0] && i < 16; i++)
        st = array_row(&f, i, &row);
    array_close(&f);
}

// Damage gives an error with a reason, or numbers; never a crash. Checksummed data never gives
// wrong numbers.
static void truncated_and_changed_files_are_survived(void **state) {
    Fixture *p = *state;
    Pack k = {0};
    assert_ok(pack(p, "clouds.h5", (PackOptions){0}, &k));
    pack_close(&k);
    Str file;
    assert_ok(file_read(&p->arena, STR(FILES "clouds.h5"), &file));
    uint8_t *copy = arena_array(&p->arena, uint8_t, file.len);
    for (size_t n = 0; n < file.len; n += 607) {
        write_quickly(p, "cut.h5", file.ptr, n);
        ArrayFile f;
        assert_true(array_open(under(p, "cut.h5"), SourceHdf5, (Str){0}, false, &f) ==
                    GAN_ERR_INPUT);
        assert_non_null(strstr(gan_error(), "cut.h5"));
    }
    for (size_t i = 0; i < file.len; i += 19) {
        memcpy(copy, file.ptr, file.len);
        copy[i] ^= (uint8_t)(1 << i % 8);
        write_quickly(p, "bit.h5", copy, file.len);
        read_all(p, "bit.h5");
    }
}

// Suppresses leaks of the library itself after errors in damaged files. The leak sanitizer calls
// this function.
const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void) {
    return "leak:libhdf5";
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        T(clouds_with_checksums_are_read),
        T(compressed_doubles_of_the_other_byte_order_are_read),
        T(one_of_several_datasets_is_selected_by_name),
        T(datasets_within_groups_are_found),
        T(unusable_datasets_are_refused),
        T(data_in_other_files_is_refused),
        T(rows_come_in_any_order),
        T(truncated_and_changed_files_are_survived),
    };
    if (CASES_LISTED(tests))
        return 0;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
