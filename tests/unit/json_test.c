// json_test.c - JSON: what is accepted, what is rejected and where, and that written text reads
// back.
#include "base.h"

#include <math.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include "cases.h"
#undef fail // cmocka's macro hides ours

#define assert_ok(call) assert_int_equal((call), GAN_OK)
#define assert_str(s, text) assert_true(str_eq((s), str_c(text)))

static int arena_open(void **state) {
    *state = calloc(1, sizeof(Arena));
    return *state && arena_init(*state, 0) == GAN_OK ? 0 : -1;
}

static int arena_close(void **state) {
    mem_fail_at(0);
    arena_release(*state);
    free(*state);
    return 0;
}

static GanStatus parse(Arena *a, const char *text, const Json **out) {
    return json_parse(a, str_c(text), STR("in.json"), out);
}

static void a_document_is_walked_by_name_and_by_index(void **state) {
    Arena *a = *state;
    const Json *v;
    const char *text = " {\"b\": [1, -2.5e3, true, null, \"x\\n\\u20ac\"], \"a\": {}, \"\": 7}\n";
    assert_ok(parse(a, text, &v));
    assert_int_equal(json_count(v), 3);
    const Json *b = json_get(v, "b");
    assert_int_equal(json_count(b), 5);
    assert_true(json_number(json_at(b, 1), 0) == -2500);
    assert_true(json_bool(json_at(b, 2), false));
    assert_false(json_is_number(json_at(b, 3)));
    assert_true(json_is_string(json_at(b, 4)));
    assert_str(json_string(json_at(b, 4), STR("")), "x\n\xe2\x82\xac");
    assert_str(json_key(json_at(v, 0)), "b");
    assert_str(json_key(json_at(v, 1)), "a");
    assert_true(json_number(json_get(v, ""), 0) == 7);
    assert_null(json_get(v, "c"));
    assert_null(json_get(b, "c"));
    assert_null(json_at(b, 5));
    assert_true(json_number(NULL, 4) == 4 && json_bool(b, true));
    assert_str(json_string(json_get(v, "a"), STR("none")), "none");
}

static void bad_json_is_refused_at_line_and_column(void **state) {
    Arena *a = *state;
    static const struct {
        const char *text, *message;
    } row[] = {
        {"", "in.json:1:1: the text ends"},
        {"[1, 2", "in.json:1:6: the text ends"},
        {"[1, 2\n", "in.json:2:1: the text ends"},
        {"\"abc", "in.json:1:2: not JSON"},
        {"nul", "in.json:1:1: not JSON"},
        {"{\"a\": 1,\n \"b\": }", "in.json:2:7: not JSON"},
        {"[\"a\": 1]", "in.json:1:5: not JSON"},
        {"{\"a\" 1}", "in.json:1:6: not JSON"},
        {"[1] x", "in.json:1:5: more text"},
        {"{\"a\": 1,\n  \"a\": 2}", "in.json:2:3: this key is here twice"},
        {"{\"k\": {\"a\\\"\": \"{\\\"\", \"b\": \"a\", \"a\\\"\": 0}}", "in.json:1:32: this key"},
        {"{\"\\u0061\": 1, \"a\": 2}", "in.json:1:15: this key"},
        {"[\"\xc3\xa9\", \"\\u0000\"]", "in.json:1:8: \\u0000"},
        {"[\"a\xff\"]", "in.json:1:4: not UTF-8"},
        {"[\"a\nb\"]", "in.json:1:4: control"},
        {"[1,\v2]", "in.json:1:4: control"},
        {"[1e999]", "in.json:1:1: a number too large"},
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        const Json *v = NULL;
        assert_int_equal(parse(a, row[i].text, &v), GAN_ERR_INPUT);
        assert_null(v);
        if (!str_starts(str_c(gan_error()), str_c(row[i].message))) {
            print_error("%s\n  wanted %s\n  got %s\n", row[i].text, row[i].message, gan_error());
            assert_true(false);
        }
    }
}

static void whole_numbers_are_those_that_a_double_tells_apart(void **state) {
    Arena *a = *state;
    static const struct {
        const char *text;
        uint64_t most;
        bool whole;
        uint64_t is;
    } cases[] = {
        {"0", 0, true, 0},
        {"-0", 5, true, 0},
        {"7", 7, true, 7},
        {"7.0", UINT64_MAX, true, 7},
        {"9007199254740992", UINT64_MAX, true, UINT64_C(1) << 53},
        {"9007199254740994", UINT64_MAX, false, 0},
        {"18446744073709551616", UINT64_MAX, false, 0},
        {"1e300", UINT64_MAX, false, 0},
        {"8", 7, false, 0},
        {"-1", 7, false, 0},
        {"0.5", 7, false, 0},
        {"\"7\"", 7, false, 0},
        {"null", 7, false, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const Json *v;
        uint64_t is = 99;
        assert_ok(json_parse(a, str_c(cases[i].text), STR("in"), &v));
        assert_int_equal(json_whole(v, cases[i].most, &is), cases[i].whole);
        assert_int_equal(is, cases[i].whole ? cases[i].is : 99);
    }
    assert_false(json_whole(NULL, 1, &(uint64_t){0}));
}

static void depth_ends_at_64(void **state) {
    Arena *a = *state;
    char text[131] = {0};
    const Json *v;
    memset(text, '[', 64);
    memset(text + 64, ']', 64);
    assert_ok(parse(a, text, &v));
    memset(text, '[', 65);
    memset(text + 65, ']', 65);
    assert_int_equal(parse(a, text, &v), GAN_ERR_INPUT);
    assert_non_null(strstr(gan_error(), "in.json:1:65: nested deeper than 64"));
}

static void refused_memory_in_json_is_a_status_and_leaks_nothing(void **state) {
    Arena *a = *state;
    const Json *v;
    void *before = a->oom;
    int n = 1;
    for (;; n++) {
        mem_fail_at(n);
        GanStatus st = parse(a, "{\"a\": [1, \"two\", {\"b\": null}]}", &v);
        mem_fail_at(0);
        assert_ptr_equal(a->oom, before);
        if (st == GAN_OK)
            break;
        assert_int_equal(st, GAN_ERR_MEMORY);
        assert_null(v);
    }
    assert_true(n > 12); // cJSON's own among them
}

static void written_json_has_its_commas_and_reads_back(void **state) {
    Arena *a = *state;
    Text t = {.arena = a};
    JsonOut j = {.text = &t};
    json_open(&j, '{');
    json_member_open(&j, "a\"b", '[');
    json_put_int(&j, INT64_MIN);
    json_put_double(&j, 0.1);
    json_put_double(&j, NAN);
    json_open(&j, '{');
    json_close(&j, '}');
    json_put_bool(&j, true);
    json_close(&j, ']');
    json_member_str(&j, "s", STR("tab\t\\ \x01 \xff e\xc3\xa9"));
    json_close(&j, '}');
    assert_str(text_str(&t), "{\"a\\\"b\": [-9223372036854775808, 0.1, null, {}, true], "
                             "\"s\": \"tab\\t\\\\ \\u0001 \\ufffd e\xc3\xa9\"}");
    const Json *v;
    assert_ok(json_parse(a, text_str(&t), STR("out"), &v));
    assert_str(json_string(json_get(v, "s"), STR("")), "tab\t\\ \x01 \xef\xbf\xbd e\xc3\xa9");
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, arena_open, arena_close)

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        CASE(a_document_is_walked_by_name_and_by_index),
        CASE(bad_json_is_refused_at_line_and_column),
        CASE(whole_numbers_are_those_that_a_double_tells_apart),
        CASE(depth_ends_at_64),
        CASE(refused_memory_in_json_is_a_status_and_leaks_nothing),
        CASE(written_json_has_its_commas_and_reads_back),
    };
    if (CASES_LISTED(tests))
        return 0;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
