// xform_test.c - what a field's words make of a sample: sizes, crops, flips, ranges, missing
// values.
#define _GNU_SOURCE
#include "data_fixture.h"
#include "cases.h"

static void transforms_match_their_definition(void **state) {
    Fixture *p = *state;
    float x[2 * 16];
    for (uint32_t i = 0; i < 32; i++)
        x[i] = (float)i;
    Str path = under(p, "a.npy");
    assert_ok(npy_write_f32(path, x, 4, (const int64_t[]){2, 1, 4, 4}));
    const DataXform scale[] = {{DataScale, 0, 1}},
                    twice[] = {{DataScale, 3, -1}, {DataScale, 1, 0}}, crop[] = {{DataCrop, 2, 0}},
                    flip[] = {{DataFlip, 0, 0}}, resize[] = {{DataResize, 2, 0}};
    DataField field = {.name = STR("x"),
                       .kind = DataFloat,
                       .rank = 3,
                       .dim = {1, 4, 4},
                       .xform = scale,
                       .xforms = 1,
                       .path = &path,
                       .paths = 1};
    DataOptions o = stream_options(&field, 1, 2);
    DataStream *s = NULL;
    const DataBatch *b = NULL;
    assert_ok(stream_open(&o, &s));
    assert_ok(stream_next(s, &b));
    for (uint32_t j = 0; j < 2; j++) {
        for (uint32_t i = 0; i < 16; i++) {
            assert_true(fabsf(b->field[0][16 * j + i] - (float)(16 * b->sample[j] + i) / 31) <
                        1e-6f);
        }
    }
    stream_close(s);
    field.xform = twice, field.xforms = 2; // the second one is of the first one's range
    assert_ok(stream_open(&o, &s));
    assert_ok(stream_next(s, &b));
    for (uint32_t i = 0; i < 16; i++)
        assert_true(fabsf(b->field[0][i] - (1 - (float)(16 * b->sample[0] + i) / 31)) < 1e-6f);
    stream_close(s);
    field.xforms = 1;
    field.dim[1] = field.dim[2] = 2;
    field.xform = crop;
    assert_ok(stream_open(&o, &s));
    uint32_t corners = 0;
    for (uint32_t k = 0; k < 60; k++) {
        assert_ok(stream_next(s, &b));
        const float *c = b->field[0];
        assert_true(c[1] == c[0] + 1 && c[2] == c[0] + 4 && c[3] == c[0] + 5);
        corners |= 1u << (uint32_t)(c[0] - 16 * (float)b->sample[0]);
    }
    assert_int_equal(corners, 0x777); // three rows of three
    stream_close(s);
    field.xform = resize;
    assert_ok(stream_open(&o, &s));
    assert_ok(stream_next(s, &b));
    float mean = 0;
    for (uint32_t i = 0; i < 4; i++)
        mean += b->field[0][i] / 4;
    assert_true(fabsf(mean - (16 * (float)b->sample[0] + 7.5f)) < 1e-4f);
    stream_close(s);
    field.dim[1] = field.dim[2] = 4;
    field.xform = flip;
    assert_ok(stream_open(&o, &s));
    uint32_t flipped = 0;
    for (uint32_t k = 0; k < 40; k++) {
        assert_ok(stream_next(s, &b));
        float step = b->field[0][1] - b->field[0][0];
        assert_true(step == 1 || step == -1);
        flipped += step < 0;
    }
    assert_true(flipped > 5 && flipped < 35);
    stream_close(s);
}

// From a file, from a pack, and beside a mask; a mask moves as its field does.
static void what_is_missing_becomes_what_the_field_says(void **state) {
    Fixture *p = *state;
    const float x[8] = {1, NAN, 3, 4, NAN, NAN, 7, 5};
    Str path = under(p, "a.npy"), kept = under(p, "a.pack");
    const DataXform words[] = {{DataFlip, 0, 0}, {DataScale, 0, 1}, {DataMissing, -2, 0}},
                    mask[] = {{DataFlip, 0, 0}, {DataKnown, 0, 0}};
    DataField field[2] = {{.name = STR("x"),
                           .kind = DataFloat,
                           .rank = 3,
                           .dim = {1, 1, 4},
                           .xform = words,
                           .xforms = 3,
                           .path = &path,
                           .paths = 1},
                          {.name = STR("m"),
                           .kind = DataFloat,
                           .rank = 3,
                           .dim = {1, 1, 4},
                           .xform = mask,
                           .xforms = 2}};
    DataOptions o = stream_options(field, 2, 2);
    PackSummary sum;
    DataStream *s = NULL;
    const DataBatch *b = NULL;
    assert_ok(npy_write_f32(path, x, 4, (const int64_t[]){2, 1, 1, 4}));
    for (uint32_t packed = 0; packed < 2; packed++) {
        uint32_t flipped = 0;
        assert_ok(stream_open(&o, &s));
        for (uint32_t k = 0; k < 80; k++) {
            assert_ok(stream_next(s, &b));
            uint32_t j = b->sample[0] == 0 ? 0 : 1; // the first row, whose ends are 1 and 4
            const float *is = b->field[0] + 4 * j, *known = b->field[1] + 4 * j;
            bool turned = is[0] == 0.5f;
            flipped += turned;
            for (uint32_t i = 0; i < 4; i++) {
                float was = x[turned ? 3 - i : i];
                assert_true(known[i] == (isnan(was) ? 0 : 1));
                assert_true(fabsf(is[i] - (isnan(was) ? -2 : (was - 1) / 6)) < 1e-6f);
            }
        }
        assert_true(flipped > 10 && flipped < 70);
        stream_close(s);
        assert_ok(pack_build(&p->arena, under(p, "a.npy"), &(PackOptions){.missing = true}, kept,
                             NULL, &sum));
        path = kept;
    }
    field[1].path = &path, field[1].paths = 1;
    assert_refused(stream_open(&o, &s), "--data m: it is the mask of x");
    field[0].xforms = 2;
    o.fields = 1;
    assert_refused(stream_open(&o, &s), "3 of its numbers are missing, and the field does not say");
    path = under(p, "a.npy");
    assert_refused(stream_open(&o, &s),
                   "NaN means a value that is missing: missing(0) in the model");
}

// One of a pair is cropped to the size that it has, the other not at all.
static void a_crop_to_all_of_an_image_changes_no_flip(void **state) {
    Fixture *p = *state;
    float x[16];
    for (uint32_t i = 0; i < 16; i++)
        x[i] = (float)i;
    Str path = under(p, "a.npy");
    assert_ok(npy_write_f32(path, x, 4, (const int64_t[]){1, 1, 4, 4}));
    const DataXform flip[] = {{DataFlip, 0, 0}},
                    same[] = {{DataResize, 4, 0}, {DataCrop, 4, 0}, {DataFlip, 0, 0}};
    DataField one = {.name = STR("x"),
                     .kind = DataFloat,
                     .rank = 3,
                     .dim = {1, 4, 4},
                     .xform = flip,
                     .xforms = 1,
                     .path = &path,
                     .paths = 1},
              other = one;
    other.xform = same, other.xforms = 3;
    DataOptions o = stream_options(&one, 1, 1), q = stream_options(&other, 1, 1);
    DataStream *s = NULL, *t = NULL;
    const DataBatch *b = NULL, *c = NULL;
    assert_ok(stream_open(&o, &s));
    assert_ok(stream_open(&q, &t));
    for (uint32_t k = 0; k < 40; k++) {
        assert_ok(stream_next(s, &b));
        assert_ok(stream_next(t, &c));
        assert_memory_equal(b->field[0], c->field[0], sizeof x);
    }
    stream_close(s);
    stream_close(t);
}

// Crops are from the middle, and nothing is flipped. Data without a range become its lower end.
static void outside_training_nothing_is_drawn(void **state) {
    Fixture *p = *state;
    float x[16];
    for (uint32_t i = 0; i < 16; i++)
        x[i] = (float)i;
    Str path = under(p, "a.npy");
    const DataXform xform[] = {{DataFlip, 0, 0}, {DataCrop, 2, 0}, {DataScale, 3, -1}};
    DataField field = {.name = STR("x"),
                       .kind = DataFloat,
                       .rank = 3,
                       .dim = {1, 2, 2},
                       .xform = xform,
                       .xforms = 2,
                       .path = &path,
                       .paths = 1};
    DataOptions o = stream_options(&field, 1, 1);
    DataStream *s = NULL;
    const DataBatch *b = NULL;
    o.in_order = true;
    assert_ok(npy_write_f32(path, x, 4, (const int64_t[]){1, 1, 4, 4}));
    assert_ok(stream_open(&o, &s));
    for (uint32_t k = 0; k < 10; k++) {
        assert_ok(stream_next(s, &b));
        assert_true(b->field[0][0] == 5 && b->field[0][1] == 6 && b->field[0][2] == 9);
    }
    stream_close(s);
    memset(x, 0, sizeof x);
    field.xforms = 3;
    assert_ok(npy_write_f32(path, x, 4, (const int64_t[]){1, 1, 4, 4}));
    assert_ok(stream_open(&o, &s));
    assert_ok(stream_next(s, &b));
    assert_true(b->field[0][0] == 3);
    stream_close(s);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        T(transforms_match_their_definition),
        T(what_is_missing_becomes_what_the_field_says),
        T(a_crop_to_all_of_an_image_changes_no_flip),
        T(outside_training_nothing_is_drawn),
    };
    if (CASES_LISTED(tests))
        return 0;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
