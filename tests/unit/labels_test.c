// labels_test.c - classes and vectors of members of folders and archives: by folder, by StyleGAN's
// dataset.json, by tables such as CelebA's, by WebDataset's .cls files; vectors of arrays; and
// archives whose names or ends are unusual.
#define _GNU_SOURCE
#include "data_fixture.h"
#include "cases.h"
#include "process.h"

static uint32_t label_at(const Pack *k, uint64_t i) {
    uint32_t label;
    memcpy(&label, pack_record(k, i) + k->field[1].offset, sizeof label);
    return label;
}

static const float *vector_at(const Pack *k, uint64_t i) {
    return (const float *)(pack_record(k, i) + k->field[1].offset);
}

// Packs `name` with these labels; of a table, with these columns.
static GanStatus pack_columns(Fixture *p, const char *name, const char *labels, const char *columns,
                              Pack *out) {
    static BadList bad;
    bad = (BadList){0};
    PackOptions o = pack_options(&bad);
    o.labels = str_c(labels);
    o.label_columns = str_c(columns);
    GanStatus st = pack_build(&p->arena, under(p, name), &o, (Str){0}, out, NULL);
    return st == GAN_OK || !bad.n ? st : fail_in(st, "%s: %s", bad.name[0], bad.reason[0]);
}

static GanStatus pack(Fixture *p, const char *name, const char *labels, Pack *out) {
    return pack_columns(p, name, labels, "", out);
}

static Str picture(Fixture *p) {
    Str png = {0};
    assert_ok(file_read(&p->arena, STR(SEEDS "image/rgb8.png"), &png));
    return png;
}

static void make_tar(Fixture *p, const char *folder, const char *tar) {
    const char *const argv[] = {
        "tar", "-C", str_z(&p->arena, under(p, folder)), "-cf", str_z(&p->arena, under(p, tar)),
        ".",   NULL};
    Str said = {0};
    int code;
    assert_ok(process_run(&p->arena, argv, &said, &code));
    assert_int_equal(code, 0);
}

// The process has no locale here, as ganrun has none.
static void non_ascii_folder_names_are_distinct_classes(void **state) {
    Fixture *p = *state;
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

// As ImageFolder does: the outermost folder is the class, whatever lies deeper; but a folder that
// holds all files, such as an archive's own, is none.
static void the_outermost_folder_is_the_class(void **state) {
    static const struct {
        const char *name[3];
        uint32_t classes;
        const char *class_name[3];
        uint32_t label[3];
    } cases[] = {
        {{"cat/old/1.png", "cat/2.png", "dog/a/b/3.png"}, 2, {"cat", "dog"}, {0, 0, 1}},
        {{"./set/dog/1.png", "./set/cat/2.png", "./set/cat/old/3.png"},
         2,
         {"cat", "dog"},
         {1, 0, 0}},
        {{"n1/images/1.png", "n2/images/1.png", "n10/images/1.png"},
         3,
         {"n1", "n10", "n2"},
         {0, 2, 1}},
        {{"set/cat/1.png", "set/cat/2.png", "set/cat/3.png"}, 1, {"cat"}, {0, 0, 0}},
        {{"cats/1.png", "cat/2.png", "c/3.png"}, 3, {"c", "cat", "cats"}, {2, 1, 0}},
        {{"1.png", "2.png", "3.png"}, 1, {"."}, {0, 0, 0}},
    };
    Fixture *p = *state;
    Str png = picture(p);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Pack k = {0};
        Member m[3];
        for (int j = 0; j < 3; j++)
            m[j] = (Member){cases[i].name[j], png, false};
        write_zip(p, "a.zip", 3, m);
        assert_ok(pack(p, "a.zip", "folders", &k));
        assert_int_equal(k.field[1].classes, cases[i].classes);
        for (uint32_t c = 0; c < cases[i].classes; c++)
            assert_str(k.field[1].class_name[c], cases[i].class_name[c]);
        for (uint64_t j = 0; j < 3; j++)
            assert_int_equal(label_at(&k, j), cases[i].label[j]);
        pack_close(&k);
    }
    Pack k = {0};
    write_zip(p, "a.zip", 3,
              (const Member[]){
                  {"cat/1.png", png, false}, {"2.png", png, false}, {"dog/3.png", png, false}});
    assert_refused(pack(p, "a.zip", "folders", &k),
                   "2.png: it lies beside the folders of the classes");
}

#define NAMED "{\"labels\": [[\"00000/a.png\", 2], [\"00001/b.png\", 0], [\"00000/c.png\", 2]]}"

static void check_stylegan(const Pack *k) {
    assert_true(k->count == 3 && k->field[1].classes == 3 && !k->field[1].class_name);
    for (uint64_t i = 0; i < 3; i++)
        assert_int_equal(label_at(k, i), str_ends(pack_name(k, i), STR("b.png")) ? 0 : 2);
}

static void a_dataset_json_has_the_classes(void **state) {
    Fixture *p = *state;
    Str png = picture(p);
    Pack k = {0};
    Member m[] = {{"00000/a.png", png, false},
                  {"00001/b.png", png, false},
                  {"00000/c.png", png, false},
                  {"dataset.json", STR(NAMED), false}};
    write_zip(p, "a.zip", 4, m);
    for (int i = 0; i < 2; i++) { // also by default: its folders are not classes
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
        {"{\"labels\": [[\"a.png\", [1]], [\"b.png\", 1]]}", "entry 1 of its labels"},
        {"{\"labels\": [[\"a.png\", [1, 2]], [\"b.png\", [1]]]}", "b.png has 1 numbers, not 2"},
        {"{\"labels\": [[\"a.png\", []]]}", "entry 0 of its labels"},
        {"{\"labels\": [[\"a.png\", [1, \"x\"]]]}", "entry 0 of its labels"},
        {"{\"labels\": [[\"a.png\", [1e60]]]}", "entry 0 of its labels"},
        {"{\"labels\": [[\"a.png\"]]}", "entry 0"},
        {"{\"labels\": [[\"a.png\", 1]", "dataset.json:"},
        {"{\"names\": 3}", "no such file with \"labels\""},
    };
    Fixture *p = *state;
    Pack k = {0};
    write_image(p, "set/a.png", 8, 8, 1);
    write_image(p, "set/b.png", 8, 8, 2);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        write_text(p, "set/dataset.json", cases[i].json);
        assert_refused(pack(p, "set", "dataset.json", &k), cases[i].says);
    }
    assert_refused(pack(p, "set", "cls", &k), "no .cls files");
    assert_refused(pack(p, "set", "by hand", &k), "--labels by hand: ");
    assert_refused(pack(p, "set", "other.json", &k), "no such file with \"labels\"");
    assert_ok(pack(p, "set", "auto", &k)); // an unrelated file of that name: folders are used
    assert_int_equal(k.field[1].classes, 1);
    pack_close(&k);
}

static void a_dataset_json_has_vectors(void **state) {
    Fixture *p = *state;
    Pack k = {0};
    write_image(p, "set/a.png", 8, 8, 1);
    write_image(p, "set/b.png", 8, 8, 2);
    write_text(p, "set/dataset.json",
               "{\"labels\": [[\"b.png\", [0.5, -3]], [\"a.png\", [1, 7]]]}");
    assert_ok(pack(p, "set", "auto", &k));
    const PackField *y = &k.field[1];
    assert_true(k.fields == 2 && y->kind == DataFloat && y->rank == 1 && y->dim[0] == 2);
    assert_str(y->name, "y");
    assert_true(y->lo == -3 && y->hi == 7);
    assert_true(vector_at(&k, 0)[0] == 1 && vector_at(&k, 0)[1] == 7);
    assert_true(vector_at(&k, 1)[0] == 0.5f && vector_at(&k, 1)[1] == -3);
    pack_close(&k);
}

// --- tables --------------------------------------------------------------------------------------

#define CELEBA                                                                                     \
    "3\nBlack_Hair Male Young \n000001.jpg -1  1  1\n000002.jpg  1 -1  1\n000003.jpg -1 -1 -1\n"

// Three PNG files, in the folder img or at the top.
static void make_faces(Fixture *p, const char *dir) {
    for (uint32_t i = 1; i <= 3; i++)
        write_image(p, str_format(&p->arena, "set/%s%06u.png", dir, i).ptr, 8, 8, (uint8_t)i);
}

static void celeba_s_attributes_are_a_vector_or_a_class(void **state) {
    static const float want[3][2] = {{1, 0}, {0, 1}, {0, 0}}; // Male, Black_Hair
    Fixture *p = *state;
    Pack k = {0};
    make_faces(p, "img/");
    write_text(p, "list_attr_celeba.txt", CELEBA);
    const char *list = under(p, "list_attr_celeba.txt").ptr;
    assert_ok(pack_columns(p, "set", list, "Male,Black_Hair", &k));
    assert_true(k.count == 3 && k.field[1].kind == DataFloat && k.field[1].dim[0] == 2);
    assert_true(k.field[1].lo == 0 && k.field[1].hi == 1);
    for (uint64_t i = 0; i < 3; i++)
        assert_memory_equal(vector_at(&k, i), want[i], sizeof want[i]);
    assert_str(k.source, "folder set, labels of list_attr_celeba.txt (Male, Black_Hair)");
    pack_close(&k);
    assert_ok(pack_columns(p, "set", list, "Young", &k));
    assert_true(k.field[1].kind == DataLabel && k.field[1].classes == 2 && !k.field[1].class_name);
    assert_true(label_at(&k, 0) == 1 && label_at(&k, 1) == 1 && label_at(&k, 2) == 0);
    pack_close(&k);
    assert_refused(pack(p, "set", list, &k),
                   "choose with --label-columns NAME,...: Black_Hair, Male, Young");
    assert_refused(pack_columns(p, "set", list, "Male,Yuong", &k), "did you mean `Young`?");
}

// A model's field gets the vector by name, or because it has one axis.
static void a_stream_reads_vectors(void **state) {
    Fixture *p = *state;
    make_faces(p, "");
    write_text(p, "set/attr.csv", "file,a,b\n000001.png,1,0.5\n000002.png,2,0.5\n000003.png,3,0.5");
    PackOptions o = pack_options(&(BadList){0});
    Str out = under(p, "x.pack");
    o.labels = STR("attr.csv");
    o.label_columns = STR("a,b");
    assert_ok(pack_build(&p->arena, under(p, "set"), &o, out, NULL, NULL));
    for (int named = 0; named < 2; named++) {
        DataField field[2] = {{.name = STR("x"),
                               .kind = DataImage,
                               .rank = 3,
                               .dim = {3, 8, 8},
                               .path = &out,
                               .paths = 1},
                              {.name = named ? STR("y") : STR("attributes"),
                               .kind = DataFloat,
                               .rank = 1,
                               .dim = {2}}};
        DataOptions d = {.field = field, .fields = 2, .batch = 3, .seed = 1};
        DataStream *s = NULL;
        const DataBatch *b;
        uint32_t label;
        assert_ok(stream_open(&d, &s));
        assert_ok(stream_next(s, &b));
        for (int i = 0; i < 3; i++) // pixels and label are the image's number
            assert_true(b->field[1][2 * i] == b->field[0][192 * i] &&
                        b->field[1][2 * i + 1] == 0.5f);
        assert_false(stream_label(s, 0, &label)); // it is not a class
        stream_close(s);
    }
}

static void tables_of_every_form_are_read(void **state) {
    static const struct {
        const char *name, *text, *columns;
        uint32_t classes, class[3];
        const char *first; // the first class's name
    } cases[] = {
        {"a.csv", "file,label\n000001.png,2\n000003.png,0\n000002.png,1\n", "", 3, {2, 1, 0}, NULL},
        {"a.csv",
         "\xef\xbb\xbf"
         "file;label\r\n000001.png;2\r\n\"000003.png\";0\r\n000002.png;1\r\n",
         "",
         3,
         {2, 1, 0},
         NULL},
        {"a.csv", "000001.png,4\r\n000002.png,0\r\n\r\n000003.png,4", "", 5, {4, 0, 4}, NULL},
        {"a.csv",
         "\xef\xbb\xbfid,breed\n000001,pug\n000002,\"dog, \"\"big\"\"\"\n000003,pug",
         "",
         2,
         {1, 0, 1},
         "dog, \"big\""},
        {"a.csv",
         "file,a,b\n./000001.png , 1 ,x\n000002.png,0,\"y\nz\"\n000003.png,1,w",
         "a",
         2,
         {1, 0, 1},
         NULL},
        {"a.tsv",
         "000001.png\ta b\t1\n000002.png\tc\t2\n000003.png\ta b\t3\n",
         "2",
         2,
         {0, 1, 0},
         "a b"},
        {"a.txt",
         "000001.png 0\n000002.png 2\n000003.png 1\nelse.png 9\n",
         "",
         10,
         {0, 2, 1},
         NULL},
        {"a.txt", "f c\n000001.png 3.0\n000002.png 2\n000003.png 1e0", "c", 4, {3, 2, 1}, NULL},
        {"a.txt", "000001.png 3\n000002.png 2\n000003.png x", "", 3, {1, 0, 2}, "2"},
        // The first file is not here, and its line is no head: all rows count for the classes.
        {"a.csv",
         "000000.png,ant\n000001.png,bee\n000002.png,cat\n000003.png,bee\n",
         "",
         3,
         {1, 2, 1},
         "ant"},
        {"a.txt", "000000 9\n000001 0\n000002 1\n000003 1\n", "2", 10, {0, 1, 1}, NULL},
        {"a.csv",
         "image.id,kind\n000001.png,1\n000002.png,0\n000003.png,1\n",
         "kind",
         2,
         {1, 0, 1},
         NULL},
    };
    Fixture *p = *state;
    make_faces(p, "");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Pack k = {0};
        write_text(p, str_format(&p->arena, "set/%s", cases[i].name).ptr, cases[i].text);
        assert_status(pack_columns(p, "set", cases[i].name, cases[i].columns, &k), GAN_OK,
                      cases[i].text);
        assert_int_equal(k.field[1].classes, cases[i].classes);
        for (uint64_t n = 0; n < 3; n++)
            assert_int_equal(label_at(&k, n), cases[i].class[n]);
        assert_true(!cases[i].first == !k.field[1].class_name);
        if (cases[i].first)
            assert_str(k.field[1].class_name[0], cases[i].first);
        pack_close(&k);
    }
}

static void tables_of_numbers_and_in_other_sources_are_read(void **state) {
    Fixture *p = *state;
    Pack k = {0}; // one column of numbers that are not classes, in a zip
    Str png = picture(p);
    write_zip(p, "a.zip", 3,
              (const Member[]){{"1.png", png, false},
                               {"2.png", png, false},
                               {"age.csv", STR("file,age\n1.png,0.5\n2.png,-1\n"), false}});
    assert_ok(pack(p, "a.zip", "age.csv", &k));
    assert_true(k.count == 2 && k.field[1].kind == DataFloat && k.field[1].dim[0] == 1);
    assert_true(vector_at(&k, 0)[0] == 0.5f && vector_at(&k, 1)[0] == -1);
    pack_close(&k);
}

// Attributes of which some were not looked at.
static void numbers_of_a_vector_may_be_missing(void **state) {
    Fixture *p = *state;
    Pack k = {0};
    make_faces(p, "");
    write_text(p, "set/t.csv", "file,a,b\n000001.png,1,\n000002.png,nan,-1\n000003.png,-1,1\n");
    PackOptions o = {.labels = STR("t.csv"), .label_columns = STR("a,b"), .missing = true};
    assert_ok(pack_build(&p->arena, under(p, "set"), &o, (Str){0}, &k, NULL));
    assert_true(k.field[1].missing == 2 && k.field[1].lo == 0 && k.field[1].hi == 1);
    assert_true(vector_at(&k, 0)[0] == 1 && isnan(vector_at(&k, 0)[1]));
    assert_true(isnan(vector_at(&k, 1)[0]) && vector_at(&k, 1)[1] == 0);
    pack_close(&k);
    const float y[4] = {NAN, 2, 3, 4};
    assert_ok(npy_write_f32(under(p, "x.npy"), y + 1, 2, (const int64_t[]){2, 1}));
    assert_ok(npy_write_f32(under(p, "y.npy"), y, 2, (const int64_t[]){2, 2}));
    o = (PackOptions){.labels = under(p, "y.npy")};
    assert_refused(
        pack_build(&p->arena, under(p, "x.npy"), &o, (Str){0}, &k, NULL),
        "label 0 holds a number that f32 does not: NaN, which may mean a value that is missing");
    o.missing = true;
    assert_ok(pack_build(&p->arena, under(p, "x.npy"), &o, (Str){0}, &k, NULL));
    assert_true(k.field[0].missing == 0 && k.field[1].missing == 1 && k.field[1].lo == 2);
    pack_close(&k);
}

static void a_table_that_does_not_fit_is_refused(void **state) {
    static const struct {
        const char *text, *columns, *says;
    } cases[] = {
        {"file,label\n000001.png,1\n000002.png,1\n", "", "000003.png: no label for it in"},
        {"file,label\n000001.png,1\n000001.png,2\n", "",
         "lines 2 and 3: two labels for 000001.png"},
        {"file,label\n000001.png,1\n000001,2\nb,1,1\n", "", "line 4 has 3 columns, not 2"},
        {"file,a,b\n000001.png,1,x\n", "a,b", "line 2: x in column b is not a number"},
        {"file,a,b\n000001.png,1,\n", "a,b",
         "line 2: nothing in column b: missing(0) in the model"},
        {"file,a,b\n000001.png,1,NA\n", "a,b", "line 2: NA in column b: missing(0) in the model"},
        {"file,a,b\n000001.png,1,1e99\n", "a,b", "1e99 in column b is not a number"},
        {"file,sex\n000001.png,man\n000002.png,nan\n000003.png,man\n", "",
         "000002.png: no label for it in"},
        {"file,age\n000001.png,1\n000002.png,NA\n000003.png,2\n", "",
         "000002.png: no label for it"},
        {"file,a\n000001.png,nan\n", "", "no row has a label in column a"},
        {"file,a,b\n000001.png,1,\n", "b", "line 2: nothing in column b"},
        {"file,a,b\n000001.png,1,2\n", "a,", "no column "},
        {"file,a,b\n000001.png,1,2\n", "file", "no column file"},
        {"file,a,a\n000001.png,1,2\n", "a", "2 columns are called a"},
        {"file,a\n000001.png,\"1", "", "line 2: a quote that is not closed"},
        {"file,a\n000001.png,\"1\"2\n", "", "line 2: text behind a closing quote"},
        {"file,a,b,c\n000001.png,1\n", "", "4 names above rows of 2 columns"},
        {"file,label\n", "", "a table without rows"},
        {"", "", "a table without rows"},
        {"000001.png\n", "", "a file without a label"},
    };
    Fixture *p = *state;
    Pack k = {0};
    make_faces(p, "");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        write_text(p, "set/t.csv", cases[i].text);
        assert_message(pack_columns(p, "set", "t.csv", cases[i].columns, &k), cases[i].says,
                       cases[i].text);
        assert_non_null(strstr(gan_error(), "t.csv"));
    }
    write_text(p, "set/t.txt", "4\nx\n000001.png 1\n");
    assert_refused(pack(p, "set", "t.txt", &k), "it says that it has 4 rows, and has 1");
    assert_refused(pack(p, "set", "none.csv", &k), "none.csv: no such table");
    assert_refused(pack_columns(p, "set", "folders", "a", &k),
                   "--label-columns is for labels of a");
    write_image(p, "set/more/000001.png", 8, 8, 1);
    write_text(p, "set/t.csv", "000001.png,1\n000002.png,1\n000003.png,1\n");
    assert_ok(pack(p, "set", "", &k));
    pack_close(&k);
    assert_refused(pack(p, "set", "t.csv", &k), "two files are 000001.png");
    write_text(p, "set/t.csv",
               "f,c\nmore/000001.png,5\n000001.png,1\n000002.png,2\n000003.png,3\n");
    assert_ok(pack(p, "set", "t.csv", &k)); // distinguished by their paths
    assert_true(label_at(&k, 0) == 1 && label_at(&k, 3) == 5);
    pack_close(&k);
    write_text(p, "set/t.csv", "f,c\n000001.jpg,1\n000001.gif,1\n000002.jpg,2\n000003.gif,3\n");
    assert_refused(pack(p, "set", "t.csv", &k), "000001.png: no label for it"); // which one?
}

static void a_split_of_a_table_is_packed(void **state) {
    static const struct {
        const char *text, *split;
        uint32_t count; // 0: refused
        const char *says;
    } cases[] = {
        {"000001.jpg 0\n000002.jpg 2\n000003.jpg 0\n", "s.txt=0", 2, "000001.png"},
        {"000001.jpg 0\n000002.jpg 2\n000003.jpg 0\n", "s.txt=2", 1, "000002.png"},
        {"f a part\n000002 1 test\n000003 1 train\n", "s.txt:part=train", 1, "000003.png"},
        {"000001 0\n000002 2\n", "s.txt=1", 0, "--split: by s.txt (2) no sample of "},
        {"000001 0\n000002 2\n", "s.txt=x", 0, "is x"},
        {"000001 0.5\n000002 2\n", "s.txt=2", 0, "no classes"},
        {"000001 0\n000002 2\n", "s.txt", 0, "--split s.txt: which table"},
        {"000001 0\n000002 2\n", "s.txt=", 0, "which table"},
        {"000001 0\n000002 2\n", "none.txt=0", 0, "none.txt: no such table"},
        {"000001 0\n000002 2\n", "s.txt:b=0", 0, "no column b"},
    };
    Fixture *p = *state;
    Pack k = {0};
    BadList bad = {0};
    PackOptions o = pack_options(&bad);
    make_faces(p, "");
    write_text(p, "set/attr.csv", "f,a\n000001.png,4\n000002.png,5\n000003.png,6\n");
    o.labels = STR("attr.csv");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        write_text(p, "set/s.txt", cases[i].text);
        o.split = str_c(cases[i].split);
        GanStatus st = pack_build(&p->arena, under(p, "set"), &o, (Str){0}, &k, NULL);
        if (!cases[i].count) {
            assert_message(st, cases[i].says, cases[i].split);
            continue;
        }
        assert_status(st, GAN_OK, cases[i].split);
        assert_true(k.count == cases[i].count && k.field[1].classes == 7 && bad.n == 0);
        assert_str(pack_name(&k, 0), cases[i].says);
        pack_close(&k);
    }
    make_tar(p, "set", "a.tar"); // whose names begin with ./
    write_text(p, "s.csv", "000003,0\n000001,1\n");
    o.split = str_format(&p->arena, "%s=0", under(p, "s.csv").ptr);
    assert_ok(pack_build(&p->arena, under(p, "a.tar"), &o, (Str){0}, &k, NULL));
    assert_true(k.count == 1 && label_at(&k, 0) == 6);
    assert_str(k.source, "archive a.tar, labels of attr.csv (a), split by s.csv (2) = 0");
    pack_close(&k);
    assert_ok(npy_write_f32(under(p, "x.npy"), (const float[]){1, 2}, 2, (const int64_t[]){2, 1}));
    PackOptions arrays = {.split = STR("s.txt=0")};
    assert_refused(pack_build(&p->arena, under(p, "x.npy"), &arrays, (Str){0}, &k, NULL),
                   "--split is for files with names");
}

static void refused_memory_of_a_table_is_an_error(void **state) {
    Fixture *p = *state;
    make_faces(p, "");
    write_text(p, "set/t.csv", "f,a,b\n000001.png,\"1\",2\n000002.png,1,2\n000003.png,1,2\n");
    Str set = under(p, "set");
    for (int64_t nth = 1; nth < 4000; nth++) {
        Arena scratch = p->arena;
        Pack k = {0};
        PackOptions o = pack_options(&(BadList){0});
        o.labels = STR("t.csv"), o.label_columns = STR("a,b"), o.threads = 1;
        o.split = STR("t.csv:b=2");
        mem_fail_at(nth);
        GanStatus st = pack_build(&scratch, set, &o, (Str){0}, &k, NULL);
        mem_fail_at(0);
        if (st == GAN_OK) {
            assert_true(k.count == 3 && vector_at(&k, 2)[1] == 2 && nth > 50);
            pack_close(&k);
            return;
        }
    }
    fail_msg("it never succeeds");
}

static void an_array_s_labels_may_be_vectors(void **state) {
    static const float x[3 * 4] = {1, 2, 3, 4}, y[3 * 2] = {0, 1, -2, 3, 0.5f, 1},
                             bad_crc[3 * 2] = {0, 1, NAN};
    Fixture *p = *state;
    Pack k = {0};
    assert_ok(npy_write_f32(under(p, "x.npy"), x, 2, (const int64_t[]){3, 4}));
    assert_ok(npy_write_f32(under(p, "y.npy"), y, 2, (const int64_t[]){3, 2}));
    assert_ok(npy_write_f32(under(p, "nan.npy"), bad_crc, 2, (const int64_t[]){3, 2}));
    assert_ok(npy_write_f32(under(p, "short.npy"), y, 2, (const int64_t[]){2, 2}));
    assert_ok(npy_write_f32(under(p, "line.npy"), y, 1, (const int64_t[]){3}));
    PackOptions o = {.labels = under(p, "y.npy")};
    assert_ok(pack_build(&p->arena, under(p, "x.npy"), &o, (Str){0}, &k, NULL));
    assert_true(k.field[1].kind == DataFloat && k.field[1].dim[0] == 2 && k.field[1].lo == -2);
    for (uint64_t i = 0; i < 3; i++)
        assert_memory_equal(vector_at(&k, i), y + 2 * i, 2 * sizeof *y);
    pack_close(&k);
    // What NumPy has made floats of, but are whole numbers, are classes.
    assert_ok(npy_write_f32(under(p, "whole.npy"), x, 1, (const int64_t[]){3}));
    o.labels = under(p, "whole.npy");
    assert_ok(pack_build(&p->arena, under(p, "x.npy"), &o, (Str){0}, &k, NULL));
    assert_true(k.field[1].kind == DataLabel && k.field[1].classes == 4);
    pack_close(&k);
    static const char *const refused[][2] = {
        {"nan.npy", "label 1 holds a number"},
        {"short.npy", "2 labels for 3 samples"},
        {"line.npy", "label 2 is -2, not a whole number in 0.."},
        {"y.csv", "an array has no folders and names"}};
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        o.labels = under(p, refused[i][0]);
        assert_refused(pack_build(&p->arena, under(p, "x.npy"), &o, (Str){0}, &k, NULL),
                       refused[i][1]);
    }
    assert_refused(pack_labels(&p->arena, under(p, "y.npy"), &k), "classes are one axis");
}

// --- archives ------------------------------------------------------------------------------------

static void class_files_of_a_shard_are_read(void **state) {
    Fixture *p = *state;
    Pack k = {0};
    for (uint32_t i = 0; i < 4; i++) {
        char name[32], class[16];
        snprintf(name, sizeof name, "set/%06u.in.png", i);
        write_image(p, name, 8, 8, (uint8_t)i);
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

// Where all members are complete, only the final zeros tell that the archive is.
static void a_tar_cut_between_members_is_noticed(void **state) {
    Fixture *p = *state;
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
    // The readable part lacks the classes of the missing end.
    BadList bad = {0};
    PackOptions o = pack_options(&bad);
    o.labels = STR("folders"), o.skip_bad = true;
    assert_ok(pack_build(&p->arena, under(p, "cut.tar"), &o, (Str){0}, &k, NULL));
    assert_true(k.count == 3 && k.field[1].classes == 2 && bad.n == 1);
    pack_close(&k);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        T(non_ascii_folder_names_are_distinct_classes),
        T(the_outermost_folder_is_the_class),
        T(a_dataset_json_has_the_classes),
        T(a_dataset_json_that_does_not_fit_is_refused),
        T(a_dataset_json_has_vectors),
        T(celeba_s_attributes_are_a_vector_or_a_class),
        T(a_stream_reads_vectors),
        T(tables_of_every_form_are_read),
        T(tables_of_numbers_and_in_other_sources_are_read),
        T(numbers_of_a_vector_may_be_missing),
        T(a_table_that_does_not_fit_is_refused),
        T(a_split_of_a_table_is_packed),
        T(refused_memory_of_a_table_is_an_error),
        T(an_array_s_labels_may_be_vectors),
        T(class_files_of_a_shard_are_read),
        T(a_tar_cut_between_members_is_noticed),
    };
    if (CASES_LISTED(tests))
        return 0;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
