// stream_test.c - from packs to batches: order, streams, audio, synthetic sets, the command line,
// and refused memory.
#define _GNU_SOURCE
#include "data_fixture.h"
#include "cases.h"
#include "process.h"

// --- order and streams ---------------------------------------------------------------------------

static void the_order_is_a_permutation_that_never_changes(void **state) {
    (void)state;
    static const uint64_t sizes[] = {1, 2, 3, 4, 5, 16, 17, 1000, 4097};
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
        Order o = {.n = sizes[k], .seed = 7};
        for (uint64_t epoch = 0; epoch < 3; epoch++) {
            uint8_t *seen = calloc(o.n, 1);
            for (uint64_t i = 0; i < o.n; i++) {
                uint64_t at = order_at(&o, epoch, i);
                assert_true(at < o.n && !seen[at]);
                seen[at] = 1;
            }
            free(seen);
        }
    }
    // Recorded: another order would silently change every resumed run.
    Order o = {.n = 10, .seed = 1};
    uint64_t got[10], other = 0;
    for (uint64_t i = 0; i < 10; i++)
        got[i] = order_at(&o, 0, i);
    for (uint64_t i = 0; i < 10; i++)
        other += got[i] != order_at(&o, 1, i);
    assert_true(other > 0);
    assert_memory_equal(got, ((const uint64_t[10]){3, 8, 6, 7, 9, 4, 5, 0, 2, 1}), sizeof got);
}

static void a_stream_resumes_exactly_and_ranks_share_a_batch(void **state) {
    Fixture *p = *state;
    Str path = under(p, "a.pack");
    const DataXform xform[] = {{DataFlip, 0, 0}, {DataScale, -1, 1}};
    DataField field[2] = {
        {.name = STR("x"),
         .kind = DataImage,
         .rank = 3,
         .dim = {3, 8, 8},
         .xform = xform,
         .xforms = 2,
         .path = &path,
         .paths = 1},
        {.name = STR("y"), .kind = DataLabel, .classes = 3},
    };
    assert_ok(synth_write(STR("shapes"), path, 10, 8, 1));
    DataOptions o = stream_options(field, 2, 4);
    DataStream *whole = NULL, *later = NULL, *half = NULL;
    const DataBatch *a = NULL, *b = NULL;
    assert_ok(stream_open(&o, &whole));
    o.position = 5;
    assert_ok(stream_open(&o, &later));
    o.position = 0, o.first = 2, o.count = 2;
    assert_ok(stream_open(&o, &half));
    uint32_t seen[10] = {0};
    for (uint64_t k = 0; k < 12; k++) {
        assert_ok(stream_next(whole, &a));
        assert_true(a->position == k && a->epoch == 4 * k / 10);
        for (uint32_t i = 0; i < 4; i++)
            seen[a->sample[i]] += 4 * k + i < 20;
        for (uint32_t i = 0; i < 4 * 192; i++)
            assert_true(a->field[0][i] >= -1 && a->field[0][i] <= 1);
        if (k >= 5) {
            assert_ok(stream_next(later, &b));
            assert_memory_equal(a->field[0], b->field[0], 4 * 192 * sizeof(float));
            assert_memory_equal(a->field[1], b->field[1], 4 * sizeof(float));
        }
        assert_ok(stream_next(half, &b));
        assert_memory_equal(a->field[0] + 2 * 192, b->field[0], 2 * 192 * sizeof(float));
    }
    for (uint32_t i = 0; i < 10; i++)
        assert_int_equal(seen[i], 2); // two epochs show every sample twice
    assert_ok(
        stream_seek(later, 9)); // among what was read ahead there is another batch in its place
    assert_ok(stream_next(later, &b));
    assert_int_equal(b->position, 9);
    assert_ok(stream_seek(later, 11));
    assert_ok(stream_next(later, &b));
    assert_memory_equal(a->field[0], b->field[0], 4 * 192 * sizeof(float));
    stream_close(whole);
    stream_close(later);
    stream_close(half);
}

// Classes 0, 2 and 5 with 1, 3 and 6 samples: every three samples contain each class once, and a
// class uses all of its samples before one is repeated.
static void classes_are_drawn_equally_often(void **state) {
    (void)state;
    enum { N = 10, Rounds = 12 };
    static const float class[N] = {5, 2, 5, 5, 0, 2, 5, 2, 5, 5};
    Arena a;
    assert_ok(arena_init(&a, 0));
    Order o = {.n = N, .seed = 11};
    order_by_class(&a, class, &o);
    assert_int_equal(o.classes, 3);
    uint32_t times[N] = {0};
    bool moved = false;
    for (uint64_t round = 0; round < Rounds; round++) {
        bool met[6] = {false};
        for (uint64_t i = 0; i < 3; i++) {
            Drawn d = order_drawn(&o, 3 * round + i);
            uint32_t c = (uint32_t) class[d.sample];
            assert_false(met[c]);
            met[c] = true;
            moved |= i == 0 && c != (uint32_t) class[order_drawn(&o, 0).sample];
            assert_int_equal(d.turn,
                             times[d.sample]++); // so its augmentation is never the same twice
        }
    }
    assert_true(moved); // not the same class first in every round
    for (uint32_t i = 0; i < N; i++)
        assert_int_equal(times[i], class[i] == 0 ? 12 : class[i] == 2 ? 4 : 2);
    arena_release(&a);
}

static void samples_are_drawn_by_their_weights(void **state) {
    (void)state;
    enum { N = 5, Draws = 100000 };
    static const float weight[N] = {0, 1, 4, 0, 5};
    Arena a;
    uint64_t bad;
    assert_ok(arena_init(&a, 0));
    Order o = {.n = N, .seed = 11};
    assert_true(order_by_weight(&a, weight, &o, &bad));
    double times[N] = {0};
    for (uint64_t i = 0; i < Draws; i++) {
        Drawn d = order_drawn(&o, i);
        assert_int_equal(d.turn, i);
        times[d.sample]++;
    }
    for (uint32_t i = 0; i < N; i++) { // within five deviations of a binomial
        double p = (double)weight[i] / 10, far = 5 * sqrt(Draws * p * (1 - p));
        assert_true(fabs(times[i] - Draws * p) <= far);
    }
    assert_false(order_by_weight(&a, (const float[N]){1, -1, 1, 1, 1}, &o, &bad) || bad != 1);
    assert_false(order_by_weight(&a, (const float[N]){1, 1, NAN, 1, 1}, &o, &bad) || bad != 2);
    assert_false(order_by_weight(&a, (const float[N]){0}, &o, &bad) || bad != N);
    arena_release(&a);
}

// Sampling by a field (classes balanced, or weights): the same when resumed and for each rank;
// outside training every sample comes once.
static void a_stream_samples_by_a_field(void **state) {
    Fixture *p = *state;
    enum { N = 12, Batch = 6 };
    float x[N], w[N];
    uint8_t y[8 + N] = {0, 0, 8, 1, 0, 0, 0, N}; // IDX, bytes
    for (uint32_t i = 0; i < N; i++)
        x[i] = (float)i, y[8 + i] = i < 9 ? 0 : i < 11 ? 1 : 2, w[i] = i == 7;
    Str paths[3] = {under(p, "x.npy"), under(p, "y-idx1-ubyte"), under(p, "w.npy")};
    assert_ok(npy_write_f32(paths[0], x, 1, (const int64_t[]){N}));
    assert_ok(file_write_atomic(paths[1], y, sizeof y));
    assert_ok(npy_write_f32(paths[2], w, 1, (const int64_t[]){N}));
    DataField field[2] = {
        {.name = STR("x"), .kind = DataFloat, .path = &paths[0], .paths = 1},
        {.name = STR("y"),
         .kind = DataLabel,
         .classes = 3,
         .draw = DrawBalanced,
         .path = &paths[1],
         .paths = 1},
    };
    DataOptions o = stream_options(field, 2, Batch);
    DataStream *whole = NULL, *later = NULL, *half = NULL;
    const DataBatch *a = NULL, *b = NULL;
    assert_ok(stream_open(&o, &whole));
    o.position = 3;
    assert_ok(stream_open(&o, &later));
    o.position = 0, o.first = 3, o.count = 3;
    assert_ok(stream_open(&o, &half));
    for (uint32_t k = 0; k < 6; k++) {
        uint32_t of[3] = {0};
        assert_ok(stream_next(whole, &a));
        for (uint32_t i = 0; i < Batch; i++) {
            assert_true(a->field[0][i] == x[a->sample[i]] && a->field[1][i] == y[8 + a->sample[i]]);
            of[(uint32_t)a->field[1][i]]++;
        }
        for (uint32_t c = 0; c < 3; c++)
            assert_int_equal(of[c], Batch / 3);
        assert_ok(stream_next(half, &b));
        assert_memory_equal(a->sample + 3, b->sample, 3 * sizeof *a->sample);
        if (k < 3)
            continue;
        assert_ok(stream_next(later, &b));
        assert_memory_equal(a->sample, b->sample, Batch * sizeof *a->sample);
    }
    uint32_t seen[N] = {0};
    for (uint64_t place = 0; place < N; place += Batch) {
        uint64_t sample[Batch];
        float value[2][Batch];
        assert_ok(stream_fill(whole, place, (float *[]){value[0], value[1]}, sample));
        for (uint32_t i = 0; i < Batch; i++)
            seen[sample[i]]++;
    }
    for (uint32_t i = 0; i < N; i++)
        assert_int_equal(seen[i], 1);
    stream_close(whole);
    stream_close(later);
    stream_close(half);

    field[1] = (DataField){
        .name = STR("w"), .kind = DataFloat, .draw = DrawWeight, .path = &paths[2], .paths = 1};
    o.first = 0, o.count = 0;
    assert_ok(stream_open(&o, &whole));
    assert_ok(stream_next(whole, &a));
    for (uint32_t i = 0; i < Batch; i++)
        assert_int_equal(a->sample[i], 7);
    stream_close(whole);
    w[4] = -2;
    assert_ok(npy_write_f32(paths[2], w, 1, (const int64_t[]){N}));
    assert_refused(stream_open(&o, &whole), "w: sample 4 (x.npy:4) has a weight of -2");
    memset(w, 0, sizeof w);
    assert_ok(npy_write_f32(paths[2], w, 1, (const int64_t[]){N}));
    assert_refused(stream_open(&o, &whole), "every weight is 0");
}

static void maps_without_a_channel_axis_have_one_channel(void **state) {
    Fixture *p = *state;
    float x[3 * 12];
    for (uint32_t i = 0; i < 36; i++)
        x[i] = (float)i;
    Str path = under(p, "m.npy");
    assert_ok(npy_write_f32(path, x, 3, (const int64_t[]){3, 4, 3}));
    DataField field = {.name = STR("m"),
                       .kind = DataFloat,
                       .rank = 3,
                       .dim = {1, 4, 3},
                       .path = &path,
                       .paths = 1};
    DataOptions o = stream_options(&field, 1, 3);
    DataStream *s = NULL;
    const DataBatch *b = NULL;
    assert_ok(stream_open(&o, &s));
    assert_ok(stream_next(s, &b));
    for (uint32_t i = 0; i < 3; i++)
        assert_memory_equal(b->field[0] + 12 * i, x + 12 * b->sample[i], 12 * sizeof *x);
    stream_close(s);
    field.dim[0] = 3;
    assert_refused(stream_open(&o, &s), "expects [3, 4, 3], the data has [4, 3]");
}

static void a_folder_is_packed_on_the_fly_and_sets_join(void **state) {
    Fixture *p = *state;
    make_folder(p, 6);
    Str path[2] = {under(p, "set"), under(p, "more.pack")};
    assert_ok(synth_write(STR("shapes"), path[1], 4, 8, 1));
    DataField field[2] = {
        {.name = STR("x"),
         .kind = DataImage,
         .rank = 3,
         .dim = {3, 8, 8},
         .path = path,
         .paths = 2},
        {.name = STR("y"), .kind = DataLabel, .classes = 5},
    };
    DataOptions o = stream_options(field, 2, 10);
    DataStream *s = NULL;
    const DataBatch *b = NULL;
    assert_ok(stream_open(&o, &s));
    assert_int_equal(stream_count(s), 10);
    assert_ok(stream_next(s, &b));
    for (uint32_t i = 0; i < 10; i++) {
        if (b->sample[i] >= 6)
            continue;
        uint32_t number = (uint32_t)(b->sample[i] < 3 ? 2 * b->sample[i] : 2 * b->sample[i] - 5);
        assert_true(b->field[0][192 * i] == (float)number &&
                    b->field[1][i] == (float)(1 + number % 2)); // circle, even, odd, ...
    }
    assert_str(stream_name(s, 7), "shapes:1");
    stream_close(s);
}

static Str content_of(Fixture *p, const DataStream *s, uint32_t field) {
    Text t = {.arena = &p->arena};
    stream_content(s, field, &t);
    return text_str(&t);
}

// Classes of the same name are one class, whatever their numbers in each source; samples by class.
static void joined_sources_have_the_classes_of_all(void **state) {
    Fixture *p = *state;
    static const char *const image[] = {"a/cat/1.png", "a/dog/2.png", "b/bird/3.png", "b/cat/4.png",
                                        "c/bird/5.png"};
    for (uint8_t i = 0; i < sizeof image / sizeof *image; i++)
        write_image(p, image[i], 8, 8, (uint8_t)(i + 1));
    const struct {
        const char *source[3];
        uint32_t sources, classes;
        float class[8]; // of images 1, 2, ...
        const char *last;
    } cases[] = {{{"a", "b"}, 2, 3, {0, 1, 2, 0, 1}, "dog"},
                 {{"b", "a"}, 2, 3, {0, 1, 2, 0, 1}, "dog"},
                 {{"a", "b", "c"}, 3, 3, {0, 1, 2, 0, 1, 0}, "dog"},
                 {{"b", "c"}, 2, 2, {0, 0, 0, 0, 1, 0}, "cat"}};
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        Str path[3];
        for (uint32_t i = 0; i < cases[k].sources; i++)
            path[i] = under(p, cases[k].source[i]);
        DataField field[2] = {{.name = STR("x"),
                               .kind = DataImage,
                               .rank = 3,
                               .dim = {3, 8, 8},
                               .path = path,
                               .paths = cases[k].sources},
                              {.name = STR("y"), .kind = DataLabel, .classes = 3}};
        DataOptions o = stream_options(field, 2, 2);
        DataStream *s = NULL;
        const DataBatch *b = NULL;
        const Str *names;
        assert_ok(stream_open(&o, &s));
        assert_int_equal(stream_classes(s, 1, &names), cases[k].classes);
        assert_true(str_eq(names[cases[k].classes - 1], str_c(cases[k].last)));
        for (uint64_t n = stream_count(s), i = 0; i < 2 * n; i++) {
            assert_ok(stream_next(s, &b));
            for (uint32_t j = 0; j < 2; j++) {
                uint32_t beside, of = (uint32_t)b->field[0][j * 192];
                assert_true(stream_label(s, b->sample[j], &beside));
                assert_true(b->field[1][j] == cases[k].class[of]);
                assert_true(b->field[1][j] == (float)beside);
            }
        }
        stream_close(s);
        if (cases[k].classes == 3) {
            field[1].classes = 2;
            assert_refused(stream_open(&o, &s),
                           "3 classes, the model's label has 2: write label(3)");
        }
    }
}

static void join_texts(void *user, const char *text) {
    size_t n = strlen(user);
    snprintf((char *)user + n, 300 - n, "%s\n", text);
}

// Of a run whose weights another begins with: names that both have are the same numbers, others
// take those that are left.
static void classes_keep_the_numbers_of_another_label(void **state) {
    Fixture *p = *state;
    static const char *const image[] = {"a/cat/1.png", "a/bird/2.png", "a/dog/3.png", "flat/4.png"};
    const Str like[] = {STR("dog"), STR("cat"), STR("elk"), STR("fox")};
    for (uint8_t i = 0; i < sizeof image / sizeof *image; i++)
        write_image(p, image[i], 8, 8, (uint8_t)(i + 1));
    static const struct {
        uint32_t likes;
        float class[3]; // of cat, bird, dog
        const char *names, *says;
    } cases[] = {{0, {1, 0, 2}, "bird cat dog ", ""},
                 {4, {1, 2, 0}, "dog cat bird ", "begins with; `bird` has 2"},
                 {1, {2, 1, 0}, "dog bird cat ", "begins with; `bird` has 1, `cat` has 2"}};
    Str path[2] = {under(p, "a"), under(p, "flat")};
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        char said[300] = "";
        DataField field[2] = {{.name = STR("x"),
                               .kind = DataImage,
                               .rank = 3,
                               .dim = {3, 8, 8},
                               .path = path,
                               .paths = 1},
                              {.name = STR("y"),
                               .kind = DataLabel,
                               .classes = 4,
                               .like = like,
                               .likes = cases[k].likes}};
        DataOptions o = stream_options(field, 2, 3);
        o.notice = join_texts, o.user = said;
        DataStream *s = NULL;
        const DataBatch *b = NULL;
        const Str *names;
        Text all = {.arena = &p->arena};
        assert_ok(stream_open(&o, &s));
        for (uint32_t c = 0, n = stream_classes(s, 1, &names); c < n; c++)
            text_fmt(&all, "%.*s ", SARG(names[c]));
        assert_str(text_str(&all), cases[k].names);
        assert_non_null(strstr(said, cases[k].says));
        assert_ok(stream_next(s, &b));
        for (uint32_t j = 0; j < 3; j++)
            assert_true(b->field[1][j] == cases[k].class[(uint32_t)b->field[0][j * 192] - 1]);
        stream_close(s);
        field[0].paths = 2;
        assert_refused(stream_open(&o, &s), "flat: y: its samples are in no class's folder");
    }
}

// Class 0 of a source without names is no other's, unless names are numbers.
static void sources_with_names_and_without_do_not_mix(void **state) {
    Fixture *p = *state;
    static const char *const image[] = {"a/cat/1.png", "a/dog/2.png", "n/0/3.png", "n/1/4.png"};
    const Str known[] = {STR("cat"), STR("dog")};
    for (uint8_t i = 0; i < sizeof image / sizeof *image; i++)
        write_image(p, image[i], 8, 8, (uint8_t)(i + 1));
    write_image(p, "c/5.png", 8, 8, 5);
    write_text(p, "c/5.cls", "1");
    Str path[2] = {under(p, "a"), under(p, "c")};
    char said[300] = "";
    DataField field[2] = {{.name = STR("x"),
                           .kind = DataImage,
                           .rank = 3,
                           .dim = {3, 8, 8},
                           .path = path,
                           .paths = 2},
                          {.name = STR("y"), .kind = DataLabel, .classes = 2}};
    DataOptions o = stream_options(field, 2, 1);
    o.notice = join_texts, o.user = said;
    DataStream *s = NULL;
    assert_refused(stream_open(&o, &s), "c: y: its classes are numbers, those of ");
    path[0] = under(p, "n");
    assert_ok(stream_open(&o, &s));
    stream_close(s);
    assert_string_equal(said, "");
    path[0] = path[1];
    field[0].paths = 1;
    field[1].known = known, field[1].knowns = 2; // of a run that began with names
    assert_ok(stream_open(&o, &s));
    stream_close(s);
    assert_non_null(strstr(said, "they are the run's by number, 0 for `cat`, and so on"));
}

static void keep_text(void *user, const char *text) {
    snprintf(user, 200, "%s", text);
}

// Two sources are paired by file name: in any order, and with files missing on either side. Pixels
// encode an image's number.
static void fields_of_two_sources_are_paired_by_file_name(void **state) {
    Fixture *p = *state;
    static const struct {
        const char *name;
        uint8_t number;
    } files[] = {{"a/in/1.png", 1}, {"a/in/2.png", 2}, {"a/in/3.png", 3}, {"b/1.png", 1},
                 {"b/2.png", 2},    {"b/3.png", 3},    {"c/2.png", 2},    {"c/3.png", 3},
                 {"c/4.png", 4},    {"d/01_x.png", 1}, {"d/02_x.png", 2}, {"d/03_x.png", 3}};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        write_image(p, files[i].name, 8, 8, files[i].number);
    Str tar = under(p, "b.tar"), dir = under(p, "b");
    const char *const argv[] = {
        "tar",     "-cf", str_z(&p->arena, tar), "-C", str_z(&p->arena, dir), "./3.png", "./1.png",
        "./2.png", NULL};
    Str said;
    int code;
    assert_ok(process_run(&p->arena, argv, &said, &code));
    Str left = under(p, "a"), right = tar;
    DataField field[2] = {
        {.name = STR("a"),
         .kind = DataImage,
         .rank = 3,
         .dim = {3, 8, 8},
         .path = &left,
         .paths = 1},
        {.name = STR("b"),
         .kind = DataImage,
         .rank = 3,
         .dim = {3, 8, 8},
         .path = &right,
         .paths = 1},
    };
    char told[200] = "";
    DataOptions o = stream_options(field, 2, 2);
    o.notice = keep_text, o.user = told;
    DataStream *s = NULL;
    const DataBatch *b = NULL;
    assert_ok(stream_open(&o, &s)); // an archive in another order, without the folder of `a`
    for (int k = 0; k < 3; k++) {
        assert_ok(stream_next(s, &b));
        for (uint32_t i = 0; i < 2; i++)
            assert_true(b->field[0][192 * i] == b->field[1][192 * i]);
    }
    assert_str(stream_name(s, 1), "in/2.png");
    assert_true(told[0] == 0);
    // A run's checkpoint names the pairs: an older program paired the same files by number.
    assert_null(strstr(content_of(p, s, 0).ptr, "paired"));
    assert_non_null(strstr(content_of(p, s, 1).ptr, ", paired by file name in order "));
    stream_close(s);
    right = dir;
    assert_ok(stream_open(&o, &s));
    assert_null(strstr(content_of(p, s, 1).ptr, "paired")); // each with that of its number
    stream_close(s);
    left = dir, right = under(p, "c");
    assert_refused(stream_open(&o, &s),
                   "a and b are paired by file name, and these have no partner: 1 of 3 of a, such "
                   "as 1; 1 of 3 of b, such as 4; --skip-bad leaves them out");
    o.skip_bad = true;
    assert_ok(stream_open(&o, &s));
    assert_non_null(strstr(told, "b: 2 pairs with a; left out"));
    assert_int_equal(stream_count(s), 2);
    assert_ok(stream_next(s, &b));
    for (uint32_t i = 0; i < 2; i++)
        assert_true(b->field[0][192 * i] == b->field[1][192 * i] && b->field[0][192 * i] > 1);
    assert_str(stream_name(s, 0), "2.png");
    stream_close(s);
    right = under(p, "d"); // no name in common: by number, and reported
    assert_ok(stream_open(&o, &s));
    assert_non_null(strstr(told, "paired in order, the first 1.png with 01_x.png"));
    stream_close(s);
    Str was[2] = {left, right};
    left = tar, right = under(p, "rows.pack"); // without names: by number, in the archive's order
    assert_ok(synth_write(STR("shapes"), right, 3, 8, 1));
    assert_ok(stream_open(&o, &s));
    assert_non_null(
        strstr(told, "b: its rows belong to the files of a in the order of the archive"));
    stream_close(s);
    left = was[0], right = was[1];
    unlink(str_z(&p->arena, under(p, "d/02_x.png")));
    assert_refused(stream_open(&o, &s), "b: 2 samples, and a has 3");
}

// Rows that were left out of one array do not shift those of the other.
static void rows_that_were_left_out_have_no_partner(void **state) {
    Fixture *p = *state;
    char said[300] = "";
    write_text(p, "x.csv", "1,1\n2,\n3,3\n4,4\n");
    write_text(p, "y.csv", "10\n20\n30\nnan\n");
    write_image(p, "f/1.png", 8, 8, 1), write_image(p, "f/2.png", 8, 8, 2);
    write_image(p, "f/3.png", 8, 8, 3);
    Str x = under(p, "x.csv"), y = under(p, "y.csv");
    DataField field[2] = {
        {.name = STR("x"), .kind = DataFloat, .rank = 1, .dim = {2}, .path = &x, .paths = 1},
        {.name = STR("y"), .kind = DataFloat, .rank = 1, .dim = {1}, .path = &y, .paths = 1}};
    DataOptions o = stream_options(field, 2, 2);
    o.skip_bad = true, o.notice = join_texts, o.user = said;
    DataStream *s = NULL;
    const DataBatch *b = NULL;
    assert_ok(stream_open(&o, &s));
    assert_int_equal(stream_count(s), 2);
    assert_non_null(strstr(said, "y: 2 pairs with x; left out as they have no partner: 1 of x"));
    assert_ok(stream_next(s, &b));
    for (uint32_t j = 0; j < 2; j++)
        assert_true(b->field[1][j] == 10 * b->field[0][2 * j]);
    stream_close(s);
    field[0] = (DataField){
        .name = STR("x"), .kind = DataImage, .rank = 3, .dim = {3, 8, 8}, .path = &x, .paths = 1};
    x = under(p, "f");
    write_text(p, "y.csv", "10\nnan\n30\n40\n");
    assert_refused(stream_open(&o, &s), "x and y are paired by row, and rows of one were left out");
}

static void arrays_serve_as_images(void **state) {
    Fixture *p = *state;
    float x[2 * 12];
    for (uint32_t i = 0; i < 24; i++)
        x[i] = (float)i;
    Str path[2] = {under(p, "f.npy"), STR(SEEDS "npy/images.idx")};
    assert_ok(npy_write_f32(path[0], x, 4, (const int64_t[]){2, 3, 2, 2}));
    DataField field = {
        .name = STR("x"), .kind = DataImage, .rank = 3, .dim = {3, 2, 2}, .path = path, .paths = 1};
    DataOptions o = stream_options(&field, 1, 2);
    DataStream *s = NULL;
    const DataBatch *b = NULL;
    assert_ok(stream_open(&o, &s)); // floats of the right shape, as they are
    assert_ok(stream_next(s, &b));
    assert_memory_equal(b->field[0], x + 12 * b->sample[0], 12 * sizeof *x);
    stream_close(s);
    field.dim[1] = field.dim[2] = 6;
    field.path = path + 1;
    assert_ok(stream_open(&o, &s)); // bytes of 3x4, fitted to 6x6 and three channels
    assert_ok(stream_next(s, &b));
    for (uint32_t i = 0; i < 36; i++)
        assert_true(b->field[0][i] == b->field[0][36 + i]);
    stream_close(s);
}

static void streams_refuse_what_does_not_fit(void **state) {
    Fixture *p = *state;
    Str path = under(p, "a.pack");
    assert_ok(synth_write(STR("shapes"), path, 4, 8, 1));
    DataField field = {.name = STR("x"),
                       .kind = DataImage,
                       .rank = 3,
                       .dim = {3, 8, 8},
                       .path = &path,
                       .paths = 1};
    DataOptions o = stream_options(&field, 1, 5);
    DataStream *s = NULL;
    assert_refused(stream_open(&o, &s), "a batch of 5, and the data has 4 samples");
    o.batch = 2;
    field.dim[1] = field.dim[2] = 16;
    assert_refused(stream_open(&o, &s), "[3, 16, 16], the data has [3, 8, 8]");
    const DataXform crop[] = {{DataCrop, 16, 0}};
    field.xform = crop, field.xforms = 1;
    assert_refused(stream_open(&o, &s), "crop(16) of images of 8x8");
    const DataXform wide[] = {{DataResize, 60000, 0}};
    field.xform = wide, field.dim[2] = 1600000;
    assert_refused(stream_open(&o, &s), "resize(60000) of [3, 16, 1600000]: a side is 1 to 65536");
    DataField label = {
        .name = STR("y"), .kind = DataLabel, .classes = 2, .path = &path, .paths = 1};
    o.field = &label;
    assert_refused(stream_open(&o, &s), "3 classes, the model's label has 2: write label(3)");
    label.paths = 0;
    assert_refused(stream_open(&o, &s), "no data is named");
    DataField two[2] = {{.name = STR("x"),
                         .kind = DataImage,
                         .rank = 3,
                         .dim = {3, 8, 8},
                         .path = &path,
                         .paths = 1},
                        {.name = STR("depth"), .kind = DataFloat, .rank = 3, .dim = {1, 8, 8}}};
    o = stream_options(two, 2, 2);
    assert_refused(stream_open(&o, &s), "has no field `depth`, and its `x` cannot stand for it "
                                        "(depth: the model expects [1, 8, 8]");
    assert_refused(stream_open(&o, &s), "--data depth=PATH");
}

static void a_nan_in_a_pack_names_its_sample(void **state) {
    Fixture *p = *state;
    PackField field = {
        .name = STR("x"), .kind = DataFloat, .dtype = PackF32, .rank = 1, .dim = {2}, .hi = 1};
    PackWriter *w = NULL;
    Str path = under(p, "nan.pack");
    assert_ok(pack_writer_open(path, &field, 1, &w));
    assert_ok(pack_writer_add(w, (const float[2]){1, 2}, STR("good")));
    assert_ok(pack_writer_add(w, (const float[2]){1, NAN}, STR("evil")));
    assert_ok(pack_writer_commit(w, STR("test"), (Str){0}));
    DataField want = {
        .name = STR("x"), .kind = DataFloat, .rank = 1, .dim = {2}, .path = &path, .paths = 1};
    DataOptions o = stream_options(&want, 1, 2);
    DataStream *s = NULL;
    const DataBatch *b = NULL;
    assert_ok(stream_open(&o, &s));
    assert_refused(stream_next(s, &b), "sample 1 (evil): NaN at element 1");
    stream_close(s);
}

// --- sounds --------------------------------------------------------------------------------------

// Element i of every channel of every file is i mod 256, mapped to -1/2 to 1/2.
static void every_wav_format_is_read_exactly(void **state) {
    static const struct {
        const char *file;
        uint32_t channels, rate, frames;
        float coarse; // quantization step, if larger than 1/256
    } files[] = {
        {"pcm8", 1, 16000, 300, 1.0F / 128}, {"pcm16", 1, 16000, 200, 0},
        {"pcm24", 1, 16000, 300, 0},         {"pcm32", 1, 16000, 300, 0},
        {"float", 1, 16000, 200, 0},         {"rate", 1, 8000, 100, 0},
        {"stereo", 2, 16000, 100, 0},
    };
    enum { Length = 250 };
    Fixture *p = *state;
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        Str bytes;
        Sound first, is;
        float x[SOUND_CHANNELS * Length] = {0};
        assert_ok(file_read(&p->arena, str_format(&p->arena, SEEDS "sound/%s.wav", files[i].file),
                            &bytes));
        const uint8_t *data = (const uint8_t *)bytes.ptr;
        if (sound_look(data, bytes.len, &first) != GAN_OK && strstr(gan_error(), "without lib"))
            skip();
        assert_ok(sound_look(data, bytes.len, &first));
        assert_int_equal(first.channels, files[i].channels);
        assert_int_equal(first.rate, files[i].rate);
        assert_int_equal(first.frames, files[i].frames);
        assert_ok(sound_read(data, bytes.len, &first, Length, x, &is));
        for (uint32_t c = 0; c < first.channels; c++)
            for (uint32_t k = 0; k < Length; k++) {
                float want = k < first.frames ? (float)(k % 256) / 256 - 0.5F : 0;
                assert_true(fabsf(x[c * Length + k] - want) <= files[i].coarse);
            }
        first.rate = 44100;
        assert_refused(sound_read(data, bytes.len, &first, Length, x, &is), "others have 44100");
    }
}

// Samples read back to within half a 16-bit step, and are clipped.
static void a_written_wav_file_reads_back(void **state) {
    enum { Frames = 5000 };
    static float x[2][2][Frames], back[2][2 * Frames + 1000];
    Fixture *p = *state;
    Str bytes;
    Sound is = {2, 4000, 0};
    for (uint32_t i = 0; i < 4 * Frames; i++)
        (&x[0][0][0])[i] = (float)(i % 701) / 350 - 1;
    x[1][1][7] = 3;
    assert_ok(sound_write(under(p, "a.wav"), &(Sounds){&x[0][0][0], 2, Frames, 2, 4000, -1, 1}));
    assert_ok(file_read(&p->arena, under(p, "a.wav"), &bytes));
    assert_int_equal(bytes.len, 44 + 4 * (2 * Frames + 1000));
    if (sound_read((const uint8_t *)bytes.ptr, bytes.len, &is, 2 * Frames + 1000, &back[0][0],
                   &is) != GAN_OK)
        skip();
    for (uint32_t c = 0; c < 2; c++)
        for (uint32_t k = 0; k < Frames; k++) {
            assert_true(fabsf(back[c][k] - x[0][c][k] * 32767 / 32768) <= 0.51F / 32768);
            assert_true(k != 7 || c != 1 || back[c][Frames + 1000 + k] == 32767.0F / 32768);
        }
    assert_true(back[0][Frames] == 0 && back[1][Frames + 999] == 0); // silence between
    file_fail_at(3);
    assert_true(sound_write(under(p, "b.wav"), &(Sounds){&x[0][0][0], 2, Frames, 2, 4000, -1, 1}) !=
                GAN_OK);
    file_fail_at(0);
    assert_false(file_exists(under(p, "b.wav")));
}

// --- synthesis, command line ---------------------------------------------------------------------

typedef struct Said {
    int code;
    char out[4000], err[4000];
} Said;

static Said run_data(const char *line) {
    Said s = {0};
    char words[600], *argv[24];
    int argc = 0;
    snprintf(words, sizeof words, "%s", line);
    for (char *w = words; *w && argc < 24;) {
        argv[argc++] = w;
        while (*w && *w != ' ')
            w++;
        if (*w)
            *w++ = 0;
    }
    FILE *out = tmpfile(), *err = tmpfile();
    s.code = data_main(argc, argv, out, err);
    rewind(out);
    rewind(err);
    s.out[fread(s.out, 1, sizeof s.out - 1, out)] = 0;
    s.err[fread(s.err, 1, sizeof s.err - 1, err)] = 0;
    fclose(out);
    fclose(err);
    return s;
}

// One image of each width from 8 to 14, but two of 8, three of 9.
static void make_sizes(Fixture *p) {
    static const uint32_t width[] = {13, 12, 9, 11, 14, 8, 9, 10, 8, 9};
    for (uint32_t i = 0; i < sizeof width / sizeof *width; i++) {
        char name[32];
        snprintf(name, sizeof name, "sizes/%u.png", i);
        write_image(p, name, width[i], 8, 1);
    }
}

// %s: the fixture's folder.
static const struct {
    const char *format;
    int code;
    const char *out, *err;
} command_lines[] = {
    {"pack %s/set -o %s/a.pack --size 8", 1, "",
     "bad: odd/z.png: not a PNG, JPEG or WebP image but text"},
    {"pack %s/set -o %s/a.pack --size 8 --skip-bad --labels folders", 0, "5 samples",
     "left out: 1 of 6"},
    {"verify %s/a.pack", 0, "5 samples, whole", ""},
    {"inspect %s/a.pack", 0, "data x : image(3, 8, 8) scale(-1, 1), y : label(2)", ""},
    {"inspect %s/a.pack --json", 0, "\"count\": 5", ""},
    {"inspect %s/a.pack --json", 0, "\"classes\": 2, \"samples\": [", ""},
    {"inspect %s/set", 1, "5 samples", "1 files cannot be read"},
    {"inspect %s/sizes", 0, "images     3 of 9x8, RGB, 8 bits\nimages     2 of 8x8", ""},
    {"inspect %s/sizes", 0, "data x : image(3, 64, 64) scale(-1, 1), or any other size", ""},
    {"inspect %s/sizes", 0, "\n           2 of 2 other kinds, 13 to 14 wide, 8 to 8 high\n", ""},
    {"inspect " SEEDS "npy/two.npz", 2, "",
     "it holds x, y; `ganrun data pack` and `inspect` take one of them by"},
    {"inspect " SEEDS "npy/two.npz --dataset y", 0, "npz", ""},
    {"pack " SEEDS "npy/two.npz --dataset x --labels y -o %s/two.pack", 0, "4 samples", ""},
    {"inspect %s/two.pack", 0, "\n           3 classes of ", ""},
    {"inspect %s/two.pack", 0, "data x : float(3) scale(-1, 1), y : label(3)", ""},
    {"pack " SEEDS "npy/two.npz --dataset x --labels z -o %s/b.pack", 1, "",
     "no array z in it, but x, y"},
    {"pack " SEEDS "npy/two.npz --dataset x --labels " SEEDS "npy/two.npz -o %s/b.pack", 1, "",
     "--labels NAME takes that array"},
    {"inspect %s/a.pack --dataset y", 2, "", "only HDF5 and npz"},
    {"pack %s/set -o %s/b.pack --size 8 --dataset y", 2, "", "only HDF5 and npz"},
    {"pack %s/set -o %s/b.pack --size 8 --length 9", 2, "", "--length is for sounds; these are"},
    {"pack %s/set -o %s/b.pack --size 8 --channels-last", 2, "", "--channels-last is for arrays"},
    {"pack " SEEDS "npy/images.idx -o %s/b.pack --background black", 2, "",
     "--background is for images that are resized"},
    {"pack " SEEDS "npy/images.idx -o %s/b.pack --fit cover", 2, "", "--fit is for images that"},
    {"pack " SEEDS "npy/images.idx -o %s/b.pack --length 3", 2, "", "--length is for sounds"},
    {"pack " SEEDS "npy/images.idx -o %s/b.pack --channels-last", 2, "", "--channels-last is for"},
    {"preview %s/a.pack -o %s/a.png --channels-last", 2, "", "a pack is shown as it is"},
    {"preview %s/a.pack -o %s/a.png", 0, "5 samples of 8x8", ""},
    {"synth ring --out %s/r.npy --count 9", 0, "9 samples", ""},
    {"synth ring --out %s/r.npy --count 9 --size 8", 2, "", "its samples have no --size"},
    {"synth cats --out %s/c --count 9", 2, "", "shapes, outlines, ring"},
    {"synth shapes --out %s/s.npy --count 2", 2, "", "s.npy: `shapes` is written as .pack"},
    {"synth ring --out %s/r.wav --count 2", 2, "", "is written as .pack or .npy"},
    {"synth tones --out %s/t.npy --count 2", 2, "", "written as .pack or a folder of .wav"},
    {"synth tones --out %s/t.pack --count 3 --size 256", 0, "3 samples", ""},
    {"inspect %s/t.pack", 0, "data x : float(1, 256)", ""},
    {"synth tones --out %s/t --count 2 --size 256", 0, "2 samples", ""},
    {"pack %s/t -o %s/b.pack --length 256 --size 8", 2, "", "--size is for images; these are"},
    {"pack %s/t -o %s/b.pack --length 256 --background black", 2, "", "--background is for images"},
    {"pack %s/t -o %s/b.pack --length 256 --channels 3", 2, "", "have 1 channel, not 3"},
    {"preview %s/t -o %s/a.png", 1, "", "these are sounds; images are needed"},
    {"synth lognormal --out %s/m.pack --count 3 --size 16", 0, "3 samples", ""},
    {"inspect %s/m.pack", 0, "data x : float(1, 16, 16)", ""},
    {"pack %s/set -o %s/b.pack --sise 8", 2, "", "did you mean `--size`?"},
    {"pack %s/set -o %s/b.pack --size big", 2, "", "'big' is not a size: N or WxH"},
    {"pack %s/even -o %s/even.pack", 0, "2 samples", ""},
    {"inspect %s/even.pack", 0, "data x : image(3, 8, 9) scale(-1, 1)", ""},
    {"inspect %s/even", 0, "data x : image(3, 8, 9) scale(-1, 1)", ""},
    {"inspect %s/even --json", 0, "\"model\": \"data x : image(3, 8, 9) scale(-1, 1)\"", ""},
    {"inspect " SEEDS "npy/images.idx", 0, "data x : image(1, ", ""},
    {"inspect " SEEDS "npy/two.npz --dataset x", 0, "data x : float(3) scale(-1, 1)", ""},
    {"pack %s/sizes -o %s/b.pack --skip-bad", 2, "",
     "sizes: 1.png: it is 12x8, the first 13x8: give all one size with --size N"},
    {"pack %s/absent -o %s/b.pack --size 8", 1, "", "no such file"},
    {"verify %s/absent", 1, "", "no such file"},
    {"frobnicate", 2, "", "unknown command `frobnicate`: `ganrun data --help` lists them"},
};

static void the_command_line_has_the_documented_exit_codes(void **state) {
    Fixture *p = *state;
    make_folder(p, 5);
    write_text(p, "set/odd/z.png", "text");
    make_sizes(p);
    write_image(p, "even/0.png", 9, 8, 1);
    write_image(p, "even/1.png", 9, 8, 2);
    for (size_t i = 0; i < sizeof command_lines / sizeof *command_lines; i++) {
        Text line = {.arena = &p->arena};
        for (const char *c = command_lines[i].format; *c; c++)
            if (c[0] == '%' && c[1] == 's')
                text_put(&line, str_c(p->root)), c++;
            else
                text_char(&line, *c);
        Said s = run_data(text_str(&line).ptr);
        if (s.code != command_lines[i].code) {
            fail_msg("%s: exit %d, not %d: %s%s", command_lines[i].format, s.code,
                     command_lines[i].code, s.out, s.err);
        }
        if (!strstr(s.out, command_lines[i].out)) {
            fail_msg("%s: expected \"%s\" on standard output: %s", command_lines[i].format,
                     command_lines[i].out, s.out);
        }
        if (!strstr(s.err, command_lines[i].err)) {
            fail_msg("%s: expected \"%s\" on standard error: %s", command_lines[i].format,
                     command_lines[i].err, s.err);
        }
    }
}

static void synthesis_is_repeatable_and_the_ring_has_its_spread(void **state) {
    Fixture *p = *state;
    Pack few = {0}, more = {0};
    assert_ok(synth_write(STR("shapes"), under(p, "few.pack"), 4, 16, 9));
    assert_ok(synth_write(STR("shapes"), under(p, "more.pack"), 8, 16, 9));
    assert_ok(pack_open(&p->arena, under(p, "few.pack"), &few));
    assert_ok(pack_open(&p->arena, under(p, "more.pack"), &more));
    assert_memory_equal(few.records, more.records, 4 * few.stride);
    assert_memory_not_equal(pack_record(&more, 0), pack_record(&more, 1), few.stride);
    pack_close(&few);
    pack_close(&more);
    Str file = {0};
    Array a = {0};
    assert_ok(synth_write(STR("ring"), under(p, "r.npy"), 4000, 0, 9));
    assert_ok(file_read(&p->arena, under(p, "r.npy"), &file));
    assert_ok(npy_parse((const uint8_t *)file.ptr, file.len, &a));
    double radius = 0;
    for (size_t i = 0; i < 4000; i++)
        radius += hypot(array_at(&a, 2 * i), array_at(&a, 2 * i + 1)) / 4000;
    assert_true(fabs(radius - 2) < 0.02);
    // The same numbers as a pack.
    assert_ok(synth_write(STR("ring"), under(p, "r.pack"), 40, 0, 9));
    assert_ok(pack_open(&p->arena, under(p, "r.pack"), &few));
    assert_int_equal(few.count, 40);
    for (size_t i = 0; i < 80; i++) {
        float x;
        memcpy(&x, pack_record(&few, i / 2) + i % 2 * sizeof x, sizeof x);
        assert_true(x == (float)array_at(&a, i) && x >= few.field[0].lo && x <= few.field[0].hi);
    }
    pack_close(&few);
    assert_ok(synth_write(STR("tones"), under(p, "t.pack"), 3, 256, 9));
    assert_ok(pack_open(&p->arena, under(p, "t.pack"), &few));
    assert_true(few.field[0].rate == 16000 && few.field[0].lo == -1 && few.field[0].hi == 1);
    pack_close(&few);
}

// Fails the n-th allocation of packing and reading, for every n: an error each time, no leak and no
// file left.
static void refused_memory_is_an_error_wherever_it_happens(void **state) {
    Fixture *p = *state;
    make_folder(p, 3);
    Str from = under(p, "set"), to = under(p, "m.pack");
    for (int64_t nth = 1; nth < 4000; nth++) {
        Arena scratch = p->arena;
        BadList bad = {0};
        PackOptions o = pack_options(&bad);
        Pack pack = {0};
        o.threads = 1;
        mem_fail_at(nth);
        GanStatus st = pack_build(&scratch, from, &o, to, NULL, NULL);
        mem_fail_at(0);
        if (st == GAN_OK) {
            assert_ok(pack_open(&scratch, to, &pack));
            assert_ok(pack_verify(&pack));
            assert_int_equal(pack.count, 3);
            pack_close(&pack);
            assert_true(nth > 50); // the failures were injected
            return;
        }
        assert_false(file_exists(to));
    }
    fail_msg("it never succeeds");
}

// The same for archives, compressed arrays and writing an image.
static void refused_memory_of_other_sources_is_an_error(void **state) {
    Fixture *p = *state;
    Str png = {0};
    Image m = {0};
    assert_ok(file_read(&p->arena, STR(SEEDS "image/rgb8.png"), &png));
    assert_ok(image_decode((const uint8_t *)png.ptr, png.len, &m));
    write_zip(p, "a.zip", 2, (const Member[]){{"a/1.png", png, false}, {"b/2.png", png, false}});
    assert_ok(npy_write_f32(under(p, "x.npy"), (const float[]){1, 2}, 2, (const int64_t[]){2, 1}));
    const char *const gzip[] = {"gzip", str_z(&p->arena, under(p, "x.npy")), NULL};
    Str said, source[] = {under(p, "a.zip"), under(p, "x.npy.gz")}, to = under(p, "to.png");
    int code;
    assert_ok(process_run(&p->arena, gzip, &said, &code));
    for (int i = 0; i < 3; i++) {
        GanStatus st = GAN_ERR_MEMORY;
        for (int64_t nth = 1; st != GAN_OK; nth++) {
            Arena scratch = p->arena;
            BadList bad = {0};
            PackOptions o = pack_options(&bad);
            Pack pack = {0};
            o.threads = 1, o.labels = STR("folders");
            if (i == 1)
                o = (PackOptions){.threads = 1};
            mem_fail_at(nth);
            st = i < 2 ? pack_build(&scratch, source[i], &o, (Str){0}, &pack, NULL)
                       : image_write_png(to, &m);
            mem_fail_at(0);
            if (st == GAN_OK)
                assert_true(nth > 2 && (i == 2 || pack.count == 2));
            assert_true(nth < 4000 && (st == GAN_OK || st == GAN_ERR_MEMORY));
            pack_close(&pack);
        }
    }
    image_release(&m);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        T(the_order_is_a_permutation_that_never_changes),
        T(a_stream_resumes_exactly_and_ranks_share_a_batch),
        T(classes_are_drawn_equally_often),
        T(samples_are_drawn_by_their_weights),
        T(a_stream_samples_by_a_field),
        T(maps_without_a_channel_axis_have_one_channel),
        T(a_folder_is_packed_on_the_fly_and_sets_join),
        T(joined_sources_have_the_classes_of_all),
        T(classes_keep_the_numbers_of_another_label),
        T(sources_with_names_and_without_do_not_mix),
        T(fields_of_two_sources_are_paired_by_file_name),
        T(rows_that_were_left_out_have_no_partner),
        T(arrays_serve_as_images),
        T(streams_refuse_what_does_not_fit),
        T(a_nan_in_a_pack_names_its_sample),
        T(every_wav_format_is_read_exactly),
        T(a_written_wav_file_reads_back),
        T(the_command_line_has_the_documented_exit_codes),
        T(synthesis_is_repeatable_and_the_ring_has_its_spread),
        T(refused_memory_is_an_error_wherever_it_happens),
        T(refused_memory_of_other_sources_is_an_error),
    };
    if (CASES_LISTED(tests))
        return 0;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
