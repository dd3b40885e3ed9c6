// import_files_test.c - ONNX files as others may write them, damaged or hostile, and what is on
// disk after the command. What a node means is tests/import_test.c's.
#define _GNU_SOURCE
#include "commands.h"
#include "import.h"
#include "proto.h"
#include "trial.h"

#include <setjmp.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>
#include "arena_cases.h"

// --- a net being written -------------------------------------------------------------------------

typedef struct OnnxNet {
    Arena *a;
    Text graph;
    Str version; // of the producer
} OnnxNet;

// Whole numbers of extents dim.
static void put_tensor(OnnxNet *n, const char *name, uint32_t rank, const int64_t *dim,
                       const int64_t *x) {
    Text t = {.arena = n->a};
    proto_numbers(&t, 1, dim, rank);
    proto_number(&t, 2, OnnxInt64);
    proto_numbers(&t, 7, x, (uint32_t)product_of(dim, rank));
    proto_bytes(&t, 8, str_c(name));
    proto_bytes(&n->graph, 5, text_str(&t));
}

static void put_list(OnnxNet *n, const char *name, int64_t count, const int64_t *x) {
    put_tensor(n, name, 1, &count, x);
}

// An input or output of the graph (its field) of N and the extents dim.
static void put_shaped(OnnxNet *n, uint32_t field, Str name, uint32_t rank, const int64_t *dim) {
    Text dims = {.arena = n->a}, tensor = {.arena = n->a}, type = {.arena = n->a},
         info = {.arena = n->a};
    proto_bytes(&dims, 1, (Str){0});
    for (uint32_t i = 0; i < rank; i++) {
        Text extent = {.arena = n->a};
        proto_number(&extent, 1, (uint64_t)dim[i]);
        proto_bytes(&dims, 1, text_str(&extent));
    }
    proto_number(&tensor, 1, OnnxFloat);
    proto_bytes(&tensor, 2, text_str(&dims));
    proto_bytes(&type, 1, text_str(&tensor));
    proto_bytes(&info, 1, name);
    proto_bytes(&info, 2, text_str(&type));
    proto_bytes(&n->graph, field, text_str(&info));
}

static void put_value(OnnxNet *n, uint32_t field, Str name) {
    put_shaped(n, field, name, 2, (const int64_t[]){5, 6});
}

static Str word(Str *rest, char end) {
    size_t i = str_find(*rest, end);
    Str w = str_sub(*rest, 0, i);
    *rest = str_sub(*rest, i + 1, rest->len);
    return w;
}

// "Op operand operand > result", one after the other with ; between; - stands for a name left out.
static void put_nodes(OnnxNet *n, Str nodes) {
    while (nodes.len) {
        Text node = {.arena = n->a};
        Str line = word(&nodes, ';');
        proto_bytes(&node, 4, word(&line, ' '));
        for (uint32_t field = 1; line.len;) {
            Str name = word(&line, ' ');
            if (str_eq(name, STR(">")))
                field = 2;
            else
                proto_bytes(&node, field, str_eq(name, STR("-")) ? (Str){0} : name);
        }
        proto_bytes(&n->graph, 1, text_str(&node));
    }
}

// With the input x, the constants i = [-1, 0], one = [1], zero = [0], none = [].
static OnnxNet net_of(Arena *a, const char *nodes) {
    OnnxNet n = {.a = a, .graph.arena = a};
    put_value(&n, 11, STR("x"));
    put_list(&n, "i", 2, (const int64_t[]){-1, 0});
    put_list(&n, "one", 1, (const int64_t[]){1});
    put_list(&n, "zero", 1, (const int64_t[]){0});
    put_list(&n, "none", 0, (const int64_t[]){0});
    put_nodes(&n, str_c(nodes));
    return n;
}

static Str net_bytes(OnnxNet *n) {
    Text opset = {.arena = n->a}, model = {.arena = n->a};
    proto_number(&opset, 2, 17);
    proto_bytes(&model, 2, STR("pytorch"));
    proto_bytes(&model, 3, n->version);
    proto_bytes(&model, 7, text_str(&n->graph));
    proto_bytes(&model, 8, text_str(&opset));
    return text_str(&model);
}

// The model's text, or why there is none.
static Str text_of_net(OnnxNet *n, const char *name, const char *from) {
    OnnxFile file = {0};
    NetText net = {0};
    if (onnx_open_bytes(n->a, net_bytes(n), &file) != GAN_OK)
        return str_c(gan_error());
    Import m = {.a = n->a, .f = &file};
    Str text = import_net(&m, str_c(name), &net)
                   ? import_model(&m, &net, str_c(name), str_c(from), STR("net.safetensors"))
                   : m.error;
    onnx_close(&file);
    return text;
}

static void says(Arena *a, const char *of, Str text, const char *what) {
    if (!strstr(str_z(a, text), what))
        fail_msg("%s: no %s in:\n%.*s", of, what, SARG(text));
}

// --- nodes ---------------------------------------------------------------------------------------

static void damaged_graphs_are_refused(void **state) {
    static const struct {
        const char *nodes, *says;
    } cases[] = {
        {"Max x - x > y", "its operand 2 is left out"},
        {"Min x - > y", "output(x: [5, 6])"},
        {"Sum x - - x > y", "its operand 2 is left out"},
        {"Concat i - i > a;Add x a > y", "its operand 2 is left out"},
        {"Concat x - x > y", "its operand 2 is left out"},
        {"Add one zero - > a;Add x a > y", "x + expand(1, 1)"},
        {"Dropout x > - y", "its first result is left out"},
        {"Dropout x > a y", "its result 2 has no translation"},
        {"Slice none minus far zero minus > a;Add x a > y", "extents 6 and 0"},
        {"Relu b > a;Relu a > b;Add x b > y", "comes later"},
        {"Relu x > a;Relu x > a;Add x a > y", "two nodes give a"},
        {"Relu nothing > y", "nothing gives its operand nothing"},
        {"Relu x > x;Relu x > y", "two nodes give x"},
        {"Reshape x huge > y", "samples on no axis"},
        {"Expand one huge > a;Add x a > y", "more than"},
        {"Tile one big > a;Add x a > y", "more than"},
        {"ConstantOfShape huge > a;Add x a > y", "more than"},
        {"Tile wide huges > a;Add x a > y", "more than"},
    };
    Arena a = empty;
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        OnnxNet n = net_of(&a, cases[i].nodes);
        const int64_t huge[] = {(int64_t)1 << 40, (int64_t)1 << 40, (int64_t)1 << 40},
                      wide[] = {0, (int64_t)1 << 39};
        put_list(&n, "huge", 3, huge);
        put_list(&n, "huges", 2, huge);
        put_list(&n, "big", 1, (const int64_t[]){INT64_MAX});
        put_list(&n, "minus", 1, (const int64_t[]){-1});
        put_list(&n, "far", 1, (const int64_t[]){-9});
        put_tensor(&n, "wide", 2, wide, huge);
        put_value(&n, 12, STR("y"));
        says(&a, cases[i].nodes, text_of_net(&n, "net", "net.onnx"), cases[i].says);
    }
}

static void a_net_has_any_number_of_outputs(void **state) {
    static const struct {
        int outputs;
        const char *says;
    } cases[] = {
        {70, "sample y69(x: [5, 6]) = F(x)[69]\n"},
        {3000, "# A `sample` of output 21 is F(x)[21], and so on to 2999.\n"},
    };
    (void)state;
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        Arena a = empty;
        OnnxNet n = net_of(&a, "Relu x > y0");
        put_value(&n, 12, STR("y0"));
        for (int i = 1; i < cases[k].outputs; i++) {
            put_nodes(&n, str_format(&a, "Relu y%d > y%d", i - 1, i));
            put_value(&n, 12, str_format(&a, "y%d", i));
        }
        Str text = text_of_net(&n, "net", "net.onnx");
        says(&a, "outputs", text, cases[k].says);
        TrialOptions o = {.name = "net.gan", .text = text, .batch = 2, .fed = true};
        assert_non_null(trial_module(&a, &o));
    }
}

// And not with the name of what the statement before it binds, as where a line becomes too long.
static void a_net_ends_with_its_expression(void **state) {
    (void)state;
    for (int length = 8; length < 20; length++) {
        Arena a = empty;
        OnnxNet n = net_of(&a, "Exp x > y0");
        for (int i = 1; i <= length; i++)
            put_nodes(&n, str_format(&a, "Relu y%d > y%d", i - 1, i));
        put_value(&n, 12, str_format(&a, "y%d", length));
        Str text = text_of_net(&n, "net", "net.onnx");
        const char *end = strstr(str_z(&a, text), "\n}\n\nnet F"), *line = end;
        assert_non_null(end);
        while (line[-1] != '\n')
            line--;
        if (!memchr(line, '(', (size_t)(end - line)) && !memchr(line, '|', (size_t)(end - line)))
            fail_msg("%d nodes:\n%.*s", length, SARG(text));
        TrialOptions o = {.name = "net.gan", .text = text, .batch = 2, .fed = true};
        assert_non_null(trial_module(&a, &o));
    }
}

// --- texts of others -----------------------------------------------------------------------------

static void texts_of_others_stay_texts(void **state) {
    static const struct {
        const char *version, *from, *line;
    } cases[] = {
        {"2.6.0", "net.onnx", "model net \"net.onnx, imported: by pytorch 2.6.0\"\n"},
        {"1\"\nstep { x }\n#", "net.onnx", "pytorch 1\\\"?step { x }?#\"\n"},
        {"\\", "net.onnx", "pytorch \\\\\"\n"},
        {"\x1b]0;x\x07", "net.onnx", "pytorch ?]0;x?\"\n"},
        {"1", "a\"b\\.onnx", "model net \"a\\\"b\\\\.onnx, imported"},
        {"1", "a\nb\x1b.onnx", "model net \"a?b?.onnx, imported"},
        {"1", "\xd1\x84.onnx", "model net \"\xd1\x84.onnx, imported"},
        {"1", "\xff.onnx", "model net \"?.onnx, imported"},
    };
    Arena a = empty;
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        OnnxNet n = net_of(&a, "Relu x > y");
        n.version = str_c(cases[i].version);
        put_value(&n, 12, STR("y"));
        Str text = text_of_net(&n, "net", cases[i].from);
        says(&a, "texts", text, cases[i].line);
        TrialOptions o = {.name = "net.gan", .text = text, .batch = 2, .fed = true};
        assert_non_null(trial_module(&a, &o));
    }
}

// --- files ---------------------------------------------------------------------------------------

static Str folder_of(Arena *a, const char *name) {
    Str folder = str_format(a, BUILD_DIR "/tests/import-%s-%d", name, (int)getpid());
    assert_int_equal(dir_make(folder), GAN_OK);
    return folder;
}

static void remove_folder(Arena *a, Str folder) {
    StrVec names;
    assert_int_equal(dir_list(a, folder, &names), GAN_OK);
    for (uint32_t i = 0; i < names.n; i++)
        assert_int_equal(file_remove(path_join(a, folder, names.at[i])), GAN_OK); // a link itself
    assert_int_equal(rmdir(str_z(a, folder)), 0);
}

static void link_to(Arena *a, const char *to, Str folder, const char *name) {
    assert_int_equal(symlink(to, str_z(a, path_join(a, folder, str_c(name)))), 0);
}

// A net that adds a weight, whose four numbers are in another file.
static Str outside_bytes(Arena *a, const char *location, const char *offset) {
    const char *pair[][2] = {{"location", location}, {"offset", offset}, {"length", "24"}};
    OnnxNet n = net_of(a, "Add x w > y");
    Text t = {.arena = a};
    proto_numbers(&t, 1, (const int64_t[]){6}, 1);
    proto_number(&t, 2, OnnxFloat);
    proto_bytes(&t, 8, STR("w"));
    for (size_t i = 0; i < 3; i++) {
        Text entry = {.arena = a};
        proto_bytes(&entry, 1, str_c(pair[i][0]));
        proto_bytes(&entry, 2, str_c(pair[i][1]));
        proto_bytes(&t, 13, text_str(&entry));
    }
    proto_bytes(&n.graph, 5, text_str(&t));
    put_value(&n, 12, STR("y"));
    return net_bytes(&n);
}

static void put_file(Arena *a, Str folder, const char *name, Str bytes) {
    assert_int_equal(file_write_atomic(path_join(a, folder, str_c(name)), bytes.ptr, bytes.len),
                     GAN_OK);
}

static void weights_lie_below_the_folder_of_the_model(void **state) {
    static const struct {
        const char *model, *location, *offset, *says; // NULL: nothing, they are read
    } cases[] = {
        {"a/net.onnx", "w.bin", "0", NULL},
        {"a/net.onnx", "w.bin", "8", NULL},
        {"a/net.onnx", "./sub/../w.bin", "0", "not below the model's folder"},
        {"a/net.onnx", "here.bin", "0", NULL},  // a link beside it
        {"a/link.onnx", "blob.bin", "0", NULL}, // both are links to one folder
        {"a/net.onnx", "blob.bin", "0", "not below the model's folder"},
        {"a/link.onnx", "other.bin", "0", "not below the model's folder"},
        {"a/net.onnx", "w.bin", "9", "has no 24 bytes"},
        {"a/net.onnx", "w.bin", "9223372036854775807", "has no 24 bytes"},
        {"a/net.onnx", "w.bin", "9223372036854775808", "damaged"},
        {"a/net.onnx", "w.bin", "-1", "damaged"},
        {"a/net.onnx", "nowhere.bin", "0", "nowhere.bin"},
        {"a/net.onnx", "../out.bin", "0", "not below the model's folder"},
        {"a/net.onnx", "/etc/passwd", "0", "not below the model's folder"},
        {"a/net.onnx", "passwd", "0", "not below the model's folder"},
        {"a/net.onnx", "root/etc/passwd", "0", "not below the model's folder"},
        {"a/net.onnx", ".", "0", "not below the model's folder"},
    };
    const float numbers[8] = {0};
    const Str bytes = {(const char *)numbers, sizeof numbers};
    Arena a = empty;
    Str top = folder_of(&a, "outside"), folder = path_join(&a, top, STR("a")),
        blobs = path_join(&a, top, STR("blobs"));
    (void)state;
    assert_int_equal(dir_make(folder), GAN_OK);
    assert_int_equal(dir_make(blobs), GAN_OK);
    put_file(&a, folder, "w.bin", bytes);
    put_file(&a, top, "out.bin", bytes);
    put_file(&a, blobs, "1", bytes);
    link_to(&a, "w.bin", folder, "here.bin");
    link_to(&a, "../blobs/0", folder, "link.onnx");
    link_to(&a, "../blobs/1", folder, "blob.bin");
    link_to(&a, "../out.bin", folder, "other.bin");
    link_to(&a, "/etc/passwd", folder, "passwd");
    link_to(&a, "/", folder, "root");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        OnnxFile file = {0};
        Str model = path_join(&a, top, str_c(cases[i].model)),
            text = outside_bytes(&a, cases[i].location, cases[i].offset);
        assert_int_equal(file_write_atomic(model, text.ptr, text.len), GAN_OK); // through the link
        GanStatus st = onnx_open(&a, model, &file);
        onnx_close(&file);
        if (!cases[i].says && st != GAN_OK)
            fail_msg("%s: %s", cases[i].location, gan_error());
        if (cases[i].says && (st == GAN_OK || !strstr(gan_error(), cases[i].says)))
            fail_msg("%s at %s: %s", cases[i].location, cases[i].offset,
                     st == GAN_OK ? "is read" : gan_error());
    }
    remove_folder(&a, folder);
    remove_folder(&a, blobs);
    remove_folder(&a, top);
}

static void hear_nothing(void *user, Str text) {
    (void)user;
    (void)text;
}

typedef enum Refused { RefusedMemory, RefusedRead, RefusedWrite, RefusedKinds } Refused;

// With the n-th allocation, or read-side or write-side call, refused; 0: none.
static GanStatus import_failing(Arena scratch, Str from, Str to, Refused kind, int64_t n) {
    static void (*const refuse_at[])(int64_t nth) = {mem_fail_at, file_fail_read_at, file_fail_at};
    const Host host = {.console = {.result = hear_nothing, .say = hear_nothing}};
    Options o = {.command = CommandImport};
    vec_push(&scratch, &o.file, from);
    o.at[OptFile] = (ArgValue){.given = true, .text = to};
    refuse_at[kind](n);
    GanStatus st = cmd_import(&scratch, &host, &o);
    refuse_at[kind](0);
    return st;
}

static GanStatus import_file(Arena scratch, Str from, Str to) {
    return import_failing(scratch, from, to, RefusedMemory, 0);
}

// Names of the file, and of things in it, that the text has for its own.
static void names_do_not_collide(void **state) {
    static const char *const names[] = {"output", "features", "F", "x", "h", "weight", "net"};
    enum { Taken = sizeof names / sizeof *names };
    Arena a = empty;
    Str folder = folder_of(&a, "names");
    (void)state;
    for (size_t i = 0; i < 2 * Taken; i++) {
        const char *in = names[i % Taken], *file = names[(i + i / Taken) % Taken];
        OnnxNet n = {.a = &a, .graph.arena = &a};
        put_shaped(&n, 11, str_c(in), 3, (const int64_t[]){3, 5, 6});
        put_nodes(&n, str_format(&a, "Relu %s > a;Neg a > b", in));
        put_value(&n, 12, STR("a"));
        if (i % 2)
            put_value(&n, 12, STR("b"));
        put_file(&a, folder, "net.onnx", net_bytes(&n));
        Str to = path_join(&a, folder, str_format(&a, "%s.gan", file));
        if (import_file(a, path_join(&a, folder, STR("net.onnx")), to) != GAN_OK)
            fail_msg("input %s, file %s: %s", in, file, gan_error());
    }
    remove_folder(&a, folder);
}

static void what_is_read_is_not_overwritten(void **state) {
    static const struct {
        const char *model, *to;
    } cases[] = {{"net.onnx", "w.gan"}, {"net.gan", "net.gan"}, {"net.onnx", "link.gan"}};
    const float numbers[8] = {0};
    Arena a = empty;
    Str folder = folder_of(&a, "sources"), model = outside_bytes(&a, "w.safetensors", "0"), text;
    (void)state;
    put_file(&a, folder, "net.onnx", model);
    put_file(&a, folder, "net.gan", model);
    put_file(&a, folder, "w.safetensors", (Str){(const char *)numbers, sizeof numbers});
    link_to(&a, "w.safetensors", folder, "link.safetensors");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Str from = path_join(&a, folder, str_c(cases[i].model));
        assert_int_equal(import_file(a, from, path_join(&a, folder, str_c(cases[i].to))),
                         GAN_ERR_USAGE);
        says(&a, cases[i].to, str_c(gan_error()), "is read here");
        assert_int_equal(file_read(&a, from, &text), GAN_OK);
        assert_true(str_eq(text, model));
    }
    assert_int_equal(import_file(a, path_join(&a, folder, STR("net.onnx")),
                                 path_join(&a, folder, STR("new.gan"))),
                     GAN_OK);
    remove_folder(&a, folder);
}

// Neither file, or what was there before: text and weights of an earlier import.
static void check_before(Arena scratch, Str text, Str weights, const Str *before, int64_t n) {
    bool there = before != NULL;
    Str got;
    for (int i = 0; i < 2; i++) {
        Str path = i ? weights : text;
        if (file_exists(path) != there)
            fail_msg("failure %lld: %.*s: %s", (long long)n, SARG(path), gan_error());
        if (there && (file_read(&scratch, path, &got) != GAN_OK || !str_eq(got, before[i])))
            fail_msg("failure %lld leaves another %.*s: %s", (long long)n, SARG(path), gan_error());
    }
}

// Whichever call fails that reads, writes, or asks for memory: both files, or all as it was.
static void both_files_are_written_or_none(void **state) {
    Arena a = empty;
    Str folder = folder_of(&a, "both"), text = path_join(&a, folder, STR("net.gan")),
        weights = path_join(&a, folder, STR("net.safetensors")),
        layers = STR(TEST_DIR "/fuzz/corpus/onnx/layers.onnx"), source = folder_of(&a, "from");
    StrVec names;
    (void)state;
    Str before[2];
    const float numbers[8] = {0};
    put_file(&a, source, "w.bin", (Str){(const char *)numbers, sizeof numbers});
    put_file(&a, source, "net.onnx", outside_bytes(&a, "w.bin", "0"));
    assert_int_equal(import_file(a, path_join(&a, source, STR("net.onnx")), text), GAN_OK);
    assert_int_equal(file_read(&a, text, &before[0]), GAN_OK);
    assert_int_equal(file_read(&a, weights, &before[1]), GAN_OK);
    for (int round = 0; round < 2 * RefusedKinds; round++) {
        bool there = round & 1;
        Refused kind = (Refused)(round / 2);
        Str from = kind == RefusedRead ? path_join(&a, source, STR("net.onnx")) : layers;
        GanStatus st = GAN_ERR_BUG;
        int64_t n = 1, failures = 0;
        for (; st != GAN_OK; n += kind == RefusedMemory ? 1 + n / 8 : 1, failures++) {
            (void)file_remove(text);
            (void)file_remove(weights);
            if (there) {
                put_file(&a, folder, "net.gan", before[0]);
                put_file(&a, folder, "net.safetensors", before[1]);
            }
            st = import_failing(a, from, text, kind, n);
            if (st != GAN_OK)
                check_before(a, text, weights, there ? before : NULL, n);
            assert_true(st == GAN_OK ||
                        st == (kind == RefusedMemory ? GAN_ERR_MEMORY : GAN_ERR_IO));
            assert_int_equal(dir_list(&a, folder, &names), GAN_OK);
            assert_int_equal(names.n, st == GAN_OK || there ? 2 : 0);
        }
        assert_true(failures > (kind == RefusedRead ? 5 : 8));
    }
    remove_folder(&a, folder);
    remove_folder(&a, source);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(damaged_graphs_are_refused),
        cmocka_unit_test(a_net_has_any_number_of_outputs),
        cmocka_unit_test(a_net_ends_with_its_expression),
        cmocka_unit_test(names_do_not_collide),
        cmocka_unit_test(texts_of_others_stay_texts),
        cmocka_unit_test(weights_lie_below_the_folder_of_the_model),
        cmocka_unit_test(what_is_read_is_not_overwritten),
        cmocka_unit_test(both_files_are_written_or_none),
    };
    return ARENA_CASES(tests, (size_t)1 << 32);
}
