// labels_test.c - classes of members of folders and archives: by folder, by StyleGAN's
// dataset.json, by WebDataset's .cls files; and archives whose names or ends are unusual.
#define _GNU_SOURCE
#include "data_place.h"
#include "cases.h"

static uint32_t label_at(const Pack *k, uint64_t i) {
    uint32_t label;
    memcpy(&label, pack_record(k, i) + k->field[1].offset, sizeof label);
    return label;
}

// Packs what lies under `name`, with these labels.
static GanStatus pack(Place *p, const char *name, const char *labels, Pack *out) {
    static BadList bad;
    bad = (BadList){0};
    PackOptions o = pack_options(&bad);
    o.labels = str_c(labels);
    GanStatus st = pack_build(&p->arena, under(p, name), &o, (Str){0}, out, NULL);
    return st == GAN_OK || !bad.n ? st : fail_in(st, "%s: %s", bad.name[0], bad.reason[0]);
}

static Str picture(Place *p) {
    Str png = {0};
    assert_ok(file_read(&p->arena, STR(SEEDS "image/rgb8.png"), &png));
    return png;
}

static void make_tar(Place *p, const char *folder, const char *tar) {
    const char *const argv[] = {
        "tar", "-C", str_z(&p->arena, under(p, folder)), "-cf", str_z(&p->arena, under(p, tar)),
        ".",   NULL};
    Str said = {0};
    int code;
    assert_ok(process_run(&p->arena, argv, &said, &code));
    assert_int_equal(code, 0);
}

// The process has no locale here, as ganrun has none.
static void names_of_any_language_keep_their_folders_apart(void **state) {
    Place *p = *state;
    Str png = picture(p);
    Pack k = {0};
    write_zip(p, "a.zip", 3,
              (const Member[]){{"K\xc3\xa4se/1.png", png, false},
                               {"\xe7\x8a\xac/1.png", png, false},
                               {"K\xc3\xa4se/2.png", png, false}});
    assert_ok(pack(p, "a.zip", "folders", &k));
    assert_int_equal(k.field[1].classes, 2);
    assert_str(k.field[1].class_name[0], "K\xc3\xa4se");
    assert_str(pack_name(&k, 1), "\xe7\x8a\xac/1.png");
    assert_true(label_at(&k, 0) == 0 && label_at(&k, 1) == 1 && label_at(&k, 2) == 0);
    pack_close(&k);
}

#define NAMED "{\"labels\": [[\"00000/a.png\", 2], [\"00001/b.png\", 0], [\"00000/c.png\", 2]]}"

static void check_stylegan(const Pack *k) {
    assert_true(k->count == 3 && k->field[1].classes == 3 && !k->field[1].class_name);
    for (uint64_t i = 0; i < 3; i++)
        assert_int_equal(label_at(k, i), str_ends(pack_name(k, i), STR("b.png")) ? 0 : 2);
}

static void a_dataset_json_has_the_classes(void **state) {
    Place *p = *state;
    Str png = picture(p);
    Pack k = {0};
    Member m[] = {{"00000/a.png", png, false},
                  {"00001/b.png", png, false},
                  {"00000/c.png", png, false},
                  {"dataset.json", STR(NAMED), false}};
    write_zip(p, "a.zip", 4, m);
    for (int i = 0; i < 2; i++) { // and where nobody says where: its folders are no classes
        assert_ok(pack(p, "a.zip", i ? "auto" : "dataset.json", &k));
        check_stylegan(&k);
        pack_close(&k);
    }
    for (int i = 0; i < 4; i++)
        write_bytes(p, str_format(&p->arena, "set/%s", m[i].name).ptr, m[i].data.ptr,
                    m[i].data.len);
    make_tar(p, "set", "a.tar"); // whose names begin with ./
    write_zip(p, "without.zip", 3, m);
    for (int i = 0; i < 3; i++) {
        const char *const sources[] = {"set", "a.tar", "without.zip"};
        const char *labels = i == 2 ? under(p, "set/dataset.json").ptr : "dataset.json";
        assert_ok(pack(p, sources[i], labels, &k));
        check_stylegan(&k);
        pack_close(&k);
    }
}

static void a_dataset_json_that_does_not_fit_is_refused(void **state) {
    static const struct {
        const char *json, *says;
    } cases[] = {
        {"{\"labels\": [[\"a.png\", 1]]}", "b.png: no label for it in"},
        {"{\"labels\": null}", "dataset.json: it says that there are no labels"},
        {"{\"labels\": [[\"a.png\", 1], [\"a.png\", 2]]}", "two labels for a.png"},
        {"{\"labels\": [[\"a.png\", -1]]}", "entry 0 of its labels is not"},
        {"{\"labels\": [[\"a.png\", 1], [\"b.png\", [0, 1]]]}", "entry 1 of its labels"},
        {"{\"labels\": [[\"a.png\"]]}", "entry 0"},
        {"{\"labels\": [[\"a.png\", 1]", "dataset.json:"},
        {"{\"names\": 3}", "no such file with \"labels\""},
    };
    Place *p = *state;
    Pack k = {0};
    write_picture(p, "set/a.png", 8, 8, 1);
    write_picture(p, "set/b.png", 8, 8, 2);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        write_text(p, "set/dataset.json", cases[i].json);
        assert_refused(pack(p, "set", "dataset.json", &k), cases[i].says);
    }
    assert_refused(pack(p, "set", "cls", &k), "no .cls files");
    assert_refused(pack(p, "set", "by hand", &k), "--labels by hand: ");
    assert_refused(pack(p, "set", "other.json", &k), "no such file with \"labels\"");
    assert_ok(pack(p, "set", "auto", &k)); // some other file of that name: folders
    assert_int_equal(k.field[1].classes, 1);
    pack_close(&k);
}

static void class_files_of_a_shard_are_read(void **state) {
    Place *p = *state;
    Pack k = {0};
    for (uint32_t i = 0; i < 4; i++) {
        char name[32], class[16];
        snprintf(name, sizeof name, "set/%06u.in.png", i);
        write_picture(p, name, 8, 8, (uint8_t)i);
        snprintf(name, sizeof name, "set/%06u.cls", i);
        snprintf(class, sizeof class, "%u\n", 3 - i);
        write_text(p, name, class);
    }
    make_tar(p, "set", "a.tar");
    for (int i = 0; i < 2; i++) {
        assert_ok(pack(p, "a.tar", i ? "auto" : "cls", &k));
        assert_true(k.count == 4 && k.field[1].classes == 4);
        for (uint64_t n = 0; n < 4; n++)
            assert_int_equal(label_at(&k, n), 3 - pack_record(&k, n)[0]);
        pack_close(&k);
    }
    write_text(p, "set/000002.cls", "dog");
    assert_refused(pack(p, "set", "cls", &k), "000002.cls: a file of one class");
}

// With members whole to the last, only the zeros tell.
static void a_tar_cut_between_members_is_noticed(void **state) {
    Place *p = *state;
    Pack k = {0};
    Str tar = {0};
    make_folder(p, 3);
    make_tar(p, "set", "a.tar");
    assert_ok(file_read(&p->arena, under(p, "a.tar"), &tar));
    size_t end = tar.len;
    while (end > 512 && !tar.ptr[end - 512]) // blocks of zeros, to the last member's data
        end -= 512;
    write_bytes(p, "cut.tar", tar.ptr, end);
    write_bytes(p, "whole.tar", tar.ptr, end + 1024);
    assert_refused(pack(p, "cut.tar", "folders", &k), "cut.tar: the zeros at the tar's end");
    assert_ok(pack(p, "whole.tar", "folders", &k));
    assert_true(k.count == 3 && k.field[1].classes == 2);
    pack_close(&k);
    // What can be read has no class for the missing end.
    BadList bad = {0};
    PackOptions o = pack_options(&bad);
    o.labels = STR("folders"), o.skip_bad = true;
    assert_ok(pack_build(&p->arena, under(p, "cut.tar"), &o, (Str){0}, &k, NULL));
    assert_true(k.count == 3 && k.field[1].classes == 2 && bad.n == 1);
    pack_close(&k);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        T(names_of_any_language_keep_their_folders_apart), T(a_dataset_json_has_the_classes),
        T(a_dataset_json_that_does_not_fit_is_refused),    T(class_files_of_a_shard_are_read),
        T(a_tar_cut_between_members_is_noticed),
    };
    if (CASES_LISTED(tests))
        return 0;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
