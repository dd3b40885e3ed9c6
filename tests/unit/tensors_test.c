// tensors_test.c - files of named tensors: safetensors, and what torch.save writes.
#define _GNU_SOURCE
#include "data_fixture.h"
#include "torch.h"
#include "cases.h"

// --- safetensors ---------------------------------------------------------------------------------

static void safetensors_read_back_what_was_written(void **state) {
    Fixture *p = *state;
    const float w[6] = {1, 2, 3, -4, 5.5f, 1e-20f};
    const double d[2] = {0.1, -3};
    SafeTensor t[3] = {
        {.name = STR("G.conv.0.w"), .dtype = SafeF32, .rank = 2, .dim = {2, 3}},
        {.name = STR("opt.m/\"odd\" name"), .dtype = SafeF64, .rank = 1, .dim = {2}},
        {.name = STR("nothing"), .dtype = SafeU8, .rank = 1, .dim = {0}},
    };
    const SafeMeta meta[1] = {{STR("step"), STR("30")}};
    SafeOut *out = NULL;
    SafeFile f = {0};
    assert_ok(safe_out_open(under(p, "a.safetensors"), t, 3, meta, 1, &out));
    assert_ok(safe_out_put(out, w, 8));
    assert_ok(safe_out_put(out, w + 2, 16));
    assert_ok(safe_out_put(out, d, sizeof d));
    assert_false(file_exists(under(p, "a.safetensors"))); // not before it is complete
    assert_ok(safe_out_commit(out));
    assert_ok(safe_open(&p->arena, under(p, "a.safetensors"), &f));
    const SafeTensor *a = safe_find(&f, t[0].name), *b = safe_find(&f, t[1].name);
    assert_true(f.tensor.n == 3 && a && b && !safe_find(&f, STR("G")));
    assert_true(a->rank == 2 && a->dim[1] == 3 && (uintptr_t)a->data % 8 == 0);
    assert_memory_equal(a->data, w, sizeof w);
    assert_memory_equal(b->data, d, sizeof d);
    assert_str(f.meta.at[0].value, "30");
    safe_close(&f);
    assert_ok(safe_out_open(under(p, "b.safetensors"), t, 1, NULL, 0, &out));
    safe_out_abandon(out);
    assert_false(file_exists(under(p, "b.safetensors")));
}

static void safetensors_of_others_are_read_in_every_dtype(void **state) {
    Fixture *p = *state;
    SafeFile f = {0};
    assert_ok(safe_open(&p->arena, STR(SEEDS "safetensors/all.safetensors"), &f));
    assert_int_equal(f.tensor.n, 7);
    const SafeTensor *half = safe_find(&f, STR("d")), *whole = safe_find(&f, STR("g")),
                     *brain = safe_find(&f, STR("c"));
    assert_true(half && safe_at(half, 0) == (1 + 0x31a / 1024.0) * pow(2, 6 - 15)); // 0x1b1a
    assert_true(whole && safe_at(whole, 0) == 0x2b2a2928);
    uint32_t bits = 0x19180000;
    float want;
    memcpy(&want, &bits, sizeof want);
    assert_true(brain && safe_at(brain, 0) == want);
    safe_close(&f);
}

static GanStatus open_header(Fixture *p, const char *header, size_t body) {
    static uint8_t bytes[4096];
    size_t n = strlen(header);
    SafeFile f = {0};
    memset(bytes, 0, sizeof bytes);
    for (uint32_t i = 0; i < 8; i++)
        bytes[i] = (uint8_t)((uint64_t)n >> 8 * i);
    memcpy(bytes + 8, header, n);
    return safe_open_bytes(&p->arena, bytes, 8 + n + body, &f);
}

static void a_tensor_of_another_dtype_leaves_the_others(void **state) {
    Fixture *p = *state;
    const char header[] = "{\"a\":{\"dtype\":\"F8_E4M3\",\"shape\":[3],\"data_offsets\":[0,3]},"
                          "\"b\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[3,5]}}";
    uint8_t bytes[8 + sizeof header - 1 + 5] = {sizeof header - 1};
    memcpy(bytes + 8, header, sizeof header - 1);
    bytes[sizeof bytes - 1] = 7;
    SafeFile f = {0};
    assert_ok(safe_open_bytes(&p->arena, bytes, sizeof bytes, &f));
    const SafeTensor *a = safe_find(&f, STR("a")), *b = safe_find(&f, STR("b"));
    assert_non_null(a);
    assert_int_equal(a->dtype, SafeUnread);
    assert_true(str_eq(a->kind, STR("F8_E4M3")));
    assert_int_equal(a->bytes, 3);
    assert_non_null(b);
    assert_true(safe_at(b, 1) == 7);
}

static void hostile_safetensors_are_refused(void **state) {
    static const struct {
        const char *header;
        size_t body;
        const char *reason;
    } cases[] = {
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 3, "ends at byte 4"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 5,
         "belong to no tensor"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,4]}}", 4, "needs 8 bytes"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,0]}}", 4, "bad data_offsets"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0.5,4.5]}}", 8,
         "bad data_offsets"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[-1],\"data_offsets\":[0,4]}}", 4, "bad shape"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1e15,1e15],\"data_offsets\":[0,4]}}", 4,
         "too large"},
        {"{\"a\":{\"dtype\":\"C64\",\"shape\":[1],\"data_offsets\":[0,8]}}", 9,
         "belong to no tensor"},
        {"{\"a\":{\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "no dtype"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},\"a\":{}}", 4, "twice"},
        {"{\"a\":7}", 0, "no dtype"},
        {"[1,2]", 0, "not a JSON object"},
        {"{\"a\":", 0, "too early"},
        {"{\"__metadata__\":{\"k\":5}}", 0, "not text"},
    };
    Fixture *p = *state;
    SafeFile f = {0};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_message(open_header(p, cases[i].header, cases[i].body), cases[i].reason,
                       cases[i].header);
    }
    assert_refused(safe_open(&p->arena, STR(SEEDS "safetensors/gap.safetensors"), &f),
                   "leaves a gap");
    assert_refused(safe_open(&p->arena, STR(SEEDS "safetensors/overlap.safetensors"), &f),
                   "overlaps");
    const uint8_t huge[16] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f, '{', '}'};
    assert_refused(safe_open_bytes(&p->arena, huge, sizeof huge, &f),
                   "not a safetensors file: it begins with no header");
    assert_refused(safe_open_bytes(&p->arena, huge, 3, &f), "3 bytes");
}

// --- torch.save ----------------------------------------------------------------------------------

#define TORCH SEEDS "torch/"

static const SafeTensor *tensor_of(const SafeFile *f, const char *name) {
    const SafeTensor *t = safe_find(f, str_c(name));
    if (!t)
        fail_msg("there is no %s", name);
    return t;
}

static void assert_holds(const SafeFile *f, const char *name, uint32_t rank, const int64_t *dim,
                         const double *x) {
    const SafeTensor *t = tensor_of(f, name);
    size_t n = 1;
    assert_int_equal(t->rank, rank);
    for (uint32_t i = 0; i < rank; i++) {
        assert_int_equal(t->dim[i], dim[i]);
        n *= (size_t)dim[i];
    }
    assert_int_equal(t->count, n);
    for (size_t i = 0; i < n; i++)
        assert_true(safe_at(t, i) == x[i]);
}

#define AXES(...)                                                                                  \
    (const int64_t[]) {                                                                            \
        __VA_ARGS__                                                                                \
    }
#define NUMBERS(...)                                                                               \
    (const double[]) {                                                                             \
        __VA_ARGS__                                                                                \
    }

static void a_state_dict_holds_its_tensors_in_both_formats(void **state) {
    Fixture *p = *state;
    static const char *const files[] = {TORCH "state.pth", TORCH "old.pth"};
    for (int k = 0; k < 2; k++) {
        SafeFile f = {0};
        assert_ok(weights_open(&p->arena, str_c(files[k]), &f));
        assert_int_equal(f.tensor.n, 10);
        assert_str(f.tensor.at[0].name, "a.weight");
        assert_holds(&f, "a.weight", 2, AXES(2, 3), NUMBERS(0, 1, 2, 3, 4, 5));
        assert_holds(&f, "a.bias", 1, AXES(2), NUMBERS(0.5, -2));
        assert_holds(&f, "half", 1, AXES(2), NUMBERS(1.5, -0.25));
        assert_true(tensor_of(&f, "half")->dtype == SafeF16);
        assert_true(safe_at(tensor_of(&f, "brain"), 0) == 3);
        assert_true(tensor_of(&f, "steps")->rank == 0 && safe_at(tensor_of(&f, "steps"), 0) == 7);
        assert_holds(&f, "turned", 2, AXES(3, 2), NUMBERS(0, 3, 1, 4, 2, 5)); // a transpose
        assert_holds(&f, "row", 1, AXES(2), NUMBERS(4, 5));                   // a part
        assert_int_equal(tensor_of(&f, "none")->count, 0);
        assert_holds(&f, "tied", 2, AXES(2, 3), NUMBERS(0, 1, 2, 3, 4, 5));
        assert_true(tensor_of(&f, "flags")->dtype == SafeUnread); // truth values
        assert_true(str_eq(tensor_of(&f, "flags")->kind, STR("BoolStorage")));
        const uint8_t *at = tensor_of(&f, "a.weight")->data;
        assert_true(at >= f.map.ptr && at < f.map.ptr + f.map.n); // not copied
        safe_close(&f);
    }
}

static void wrapper_modules_are_stripped_from_names(void **state) {
    Fixture *p = *state;
    SafeFile f = {0};
    assert_ok(weights_open(&p->arena, STR(TORCH "nested.pth"), &f));
    assert_int_equal(tensor_of(&f, "G.0.weight")->dim[1], 2); // {"G": {"state_dict": {"module.0...
    assert_holds(&f, "G.1.running_var", 1, AXES(1), NUMBERS(1));
    assert_holds(&f, "list.0", 2, AXES(2, 3), NUMBERS(0, 1, 2, 3, 4, 5));
    safe_close(&f);
    assert_ok(weights_open(&p->arena, STR(TORCH "module.pth"), &f)); // torch.save(a module)
    assert_int_equal(tensor_of(&f, "0.weight")->dim[1], 2);
    assert_holds(&f, "1.running_mean", 1, AXES(1), NUMBERS(0));
    assert_int_equal(f.tensor.n, 7);
    safe_close(&f);
}

// By the functions of torch.nn.utils and by those of its parametrizations; another
// parametrization's tensors keep their names.
static void normalized_weights_have_one_name(void **state) {
    Fixture *p = *state;
    static const char *const names[][2] = {
        {"a.weight_g", "a.weight_g"},
        {"a.weight_v", "a.weight_v"},
        {"b.parametrizations.weight.original0", "b.weight_g"},
        {"b.parametrizations.weight.original1", "b.weight_v"},
        {"c.weight_orig", "c.weight_orig"},
        {"d.parametrizations.weight.original", "d.weight_orig"},
        {"d.parametrizations.weight.0._u", "d.weight_u"},
        {"d.parametrizations.weight.0._v", "d.weight_v"},
        {"e.parametrizations.weight.original", "e.parametrizations.weight.original"},
    };
    enum { Count = sizeof names / sizeof *names };
    const float number[2] = {3, 4};
    SafeTensor t[Count];
    SafeOut *out = NULL;
    SafeFile f = {0};
    for (int i = 0; i < Count; i++)
        t[i] =
            (SafeTensor){.name = str_c(names[i][0]), .dtype = SafeF32, .rank = 3, .dim = {2, 1, 1}};
    assert_ok(safe_out_open(under(p, "a.safetensors"), t, Count, NULL, 0, &out));
    for (int i = 0; i < Count; i++)
        assert_ok(safe_out_put(out, number, sizeof number));
    assert_ok(safe_out_commit(out));
    assert_ok(weights_open(&p->arena, under(p, "a.safetensors"), &f));
    for (int i = 0; i < Count; i++)
        assert_str(f.tensor.at[i].name, names[i][1]);
    assert_holds(&f, "a.weight_g", 1, AXES(2), NUMBERS(3, 4));
    assert_holds(&f, "b.weight_v", 3, AXES(2, 1, 1), NUMBERS(3, 4));
    safe_close(&f);
}

// One pickle of PyTorch before 1.6 around a value: its magic number, version, machine and names.
static GanStatus open_value(Fixture *p, const char *value, size_t n) {
    Text t = {.arena = &p->arena};
    SafeFile f;
    text_put(&t, STR("\x80\2\x8a\nl\xfc\x9c"
                     "F\xf9 j\xa8P\x19.\x80\2M\xe9\3.\x80\2}."));
    text_put(&t, (Str){value, n});
    if (memmem(value, n, "U\0010U", 4)) { // storage 0 has two numbers
        text_put(&t, STR("\x80\2]U\0010a."));
        text_put(&t, STR("\2\0\0\0\0\0\0\0"
                         "\0\0\x80\x3f"
                         "\0\0\0\x40"));
    } else {
        text_put(&t, STR("\x80\2]."));
    }
    return torch_open_bytes(&p->arena, (const uint8_t *)t.at, t.n, &f);
}

#define GLOBAL_TENSOR "ctorch._utils\n_rebuild_tensor_v2\n"
#define STORAGE "(U\7storagectorch\nFloatStorage\nU\0010U\3cpuK\2tQ"
// {"w": a tensor in storage 0 from `offset` on}; numbers are given as pickle opcodes.
#define TENSOR(offset, sizes, strides)                                                             \
    "\x80\2}U\1w" GLOBAL_TENSOR "(" STORAGE offset sizes strides "\x89NtRs."

static void hostile_state_dicts_are_refused(void **state) {
    Fixture *p = *state;
    SafeFile f;
#define CASE(value, why)                                                                           \
    { value, sizeof(value) - 1, why }
    static const struct {
        const char *value;
        size_t n;
        const char *why;
    } cases[] = {
        CASE(TENSOR("K\0", "K\3\x85", "K\1\x85"), "tensor w reaches beyond its numbers"),
        CASE(TENSOR("K\3", "K\0\x85", "K\1\x85"), "reaches beyond"),
        CASE(TENSOR("K\0", "K\3\x85", "K\0\x85"), "reaches beyond"), // stride 0
        CASE(TENSOR("J\xff\xff\xff\xff", "K\1\x85", "K\1\x85"), "reaches beyond"),
        CASE(TENSOR("K\0", "J\xff\xff\xff\xff\x85", "K\1\x85"), "reaches beyond"),
        CASE(TENSOR("K\1", "K\2\x85", "J\xff\xff\xff\xff\x85"), "reaches beyond"),
        CASE(TENSOR("K\0", "\x8a\x8\xff\xff\xff\xff\xff\xff\xff\x7fK\2\x86", "K\1K\1\x86"),
             "reaches beyond"),
        CASE(TENSOR("K\0", "K\1K\1\x86", "K\1\x85"), "has no shape"),
        CASE("\x80\2}U\1w" GLOBAL_TENSOR "(NK\0K\1\x85K\1\x85tRs.", "has no numbers"),
        CASE("\x80\2}U\1w" GLOBAL_TENSOR
             "((U\7storagectorch\nFloatStorage\nU\0011U\3cpuK\2tQK\0K\1\x85K\1\x85tRs.",
             "not in the file"),
        CASE("\x80\2}.", "holds no tensor"),
        CASE("\x80\2}q\0U\1ah\0s.", "hold themselves"), // {"a": itself}
        CASE("\x80\2K\1", "cut short"),
        CASE("\x80\2R.", "underflows the stack"),
        CASE("\x80\2h\7.", "memo entry that was not written"),
        CASE("\x80\2t.", "no MARK"),
        CASE("\x80\2}U\1w(s.", "underflows the stack"),
        CASE("\x80\2\x82\1.", "an opcode 0x82"),
    };
    assert_ok(open_value(p, TENSOR("K\0", "K\2\x85", "K\1\x85"),
                         sizeof TENSOR("K\0", "K\2\x85", "K\1\x85") - 1));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_message(open_value(p, cases[i].value, cases[i].n), cases[i].why, cases[i].value);
    assert_refused(torch_open_bytes(&p->arena, (const uint8_t *)"\x80\2K\1.", 5, &f),
                   "torch.save did not write it");
    assert_refused(weights_open(&p->arena, STR(SEEDS "safetensors/gap.safetensors"), &f),
                   "leaves a gap");
}

// A truncated or damaged archive is rejected, or still holds its tensors.
static void a_damaged_archive_is_refused(void **state) {
    Fixture *p = *state;
    Str whole;
    SafeFile f;
    assert_ok(file_read(&p->arena, STR(TORCH "state.pth"), &whole));
    const uint8_t *bytes = (const uint8_t *)whole.ptr;
    assert_ok(torch_open_bytes(&p->arena, bytes, whole.len, &f));
    const uint8_t *at = tensor_of(&f, "a.weight")->data;
    assert_true(at >= bytes && at < bytes + whole.len);
    ((uint8_t *)bytes)[at - bytes] ^= 1; // a number that no longer matches its checksum
    assert_refused(torch_open_bytes(&p->arena, bytes, whole.len, &f), "a damaged archive");
    assert_refused(torch_open_bytes(&p->arena, bytes, whole.len / 2, &f), "");
}

static void refused_memory_is_an_error_in_weights_too(void **state) {
    (void)state;
    for (int64_t nth = 1; nth < 40; nth++) {
        Arena a;
        SafeFile f = {0};
        assert_ok(arena_init(&a, (size_t)1 << 24));
        mem_fail_at(nth);
        GanStatus st = weights_open(&a, STR(TORCH "state.pth"), &f);
        mem_fail_at(0);
        if (st == GAN_OK)
            assert_int_equal(f.tensor.n, 10);
        else
            assert_true(st == GAN_ERR_MEMORY || st == GAN_ERR_INPUT);
        safe_close(&f);
        arena_release(&a);
    }
    Arena small;
    SafeFile f = {0};
    assert_ok(arena_init(&small, 4096));
    assert_status(weights_open(&small, STR(TORCH "state.pth"), &f), GAN_ERR_MEMORY,
                  "a small arena");
    arena_release(&small);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        T(safetensors_read_back_what_was_written),
        T(safetensors_of_others_are_read_in_every_dtype),
        T(a_tensor_of_another_dtype_leaves_the_others),
        T(hostile_safetensors_are_refused),
        T(a_state_dict_holds_its_tensors_in_both_formats),
        T(wrapper_modules_are_stripped_from_names),
        T(normalized_weights_have_one_name),
        T(hostile_state_dicts_are_refused),
        T(a_damaged_archive_is_refused),
        T(refused_memory_is_an_error_in_weights_too),
    };
    if (CASES_LISTED(tests))
        return 0;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
