// import_test.c - one node or a few of ONNX: as text of the language, evaluated by the reference
// evaluator, it gives what ONNX Runtime gave for the same numbers. tests/import/nodes.txt has a
// line for each case, and how it is read; tests/import/nodes.py fills in the numbers.
#include "commands.h"
#include "half.h"
#include "import.h"
#include "interp.h"
#include "proto.h"
#include "trial.h"
#include "weights.h"

#include <setjmp.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>
#include "arena_cases.h"

enum { Batch = 2 };

// --- a line --------------------------------------------------------------------------------------

typedef struct Input { // of the graph
    char kind;
    uint32_t seed; // its place among the operands
} Input;

typedef struct Line {
    Arena *a;
    int64_t opset;
    uint32_t seeds, results;          // operands and results so far
    Text nodes, initializers, inputs; // fields of the graph
    StrVec output;                    // results of the last node
    VEC(Input) input;
    double want, size; // the sum of the results times numbers, and of their absolute values
    Str error;         // or what the refusal says
} Line;

static bool take(Str *rest, char end, Str *out) {
    size_t n = str_find(*rest, end);
    *out = str_sub(*rest, 0, n);
    bool more = n < rest->len;
    *rest = str_sub(*rest, n + more, rest->len);
    while (out->len && out->ptr[0] == ' ')
        *out = str_sub(*out, 1, out->len);
    while (out->len && out->ptr[out->len - 1] == ' ')
        out->len--;
    return more || out->len;
}

static int64_t whole(Str s) {
    int64_t x;
    if (!str_to_int(s, &x))
        fail_msg("%.*s is no whole number", SARG(s));
    return x;
}

static double real(Str s) {
    double x;
    if (!str_to_double(s, &x))
        fail_msg("%.*s is no number", SARG(s));
    return x;
}

static bool is_list(Str name) {
    static const char *const lists[] = {
        "axes",    "starts",    "ends",         "split",          "pads",
        "strides", "dilations", "kernel_shape", "output_padding", "output_shape"};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        if (str_eq(name, str_c(lists[i])))
            return true;
    return false;
}

// name=2, name=1,2, name=0.5, name='word'
static void put_attribute(Line *l, Str word, Text *node, int64_t *outputs) {
    Text t = {.arena = l->a};
    Str name, value = word, one;
    take(&value, '=', &name);
    if (str_eq(name, STR("opset")) || str_eq(name, STR("outputs"))) {
        *(str_eq(name, STR("opset")) ? &l->opset : outputs) = whole(value);
        return;
    }
    proto_bytes(&t, 1, name);
    if (value.ptr[0] == '\'')
        proto_bytes(&t, 4, str_sub(value, 1, value.len - 1));
    else if (str_find(value, '.') < value.len)
        proto_float(&t, 2, (float)real(value));
    else if (str_find(value, ',') == value.len && !is_list(name))
        proto_number(&t, 3, (uint64_t)whole(value));
    else
        while (take(&value, ',', &one))
            proto_number(&t, 8, (uint64_t)whole(one));
    proto_bytes(node, 5, text_str(&t));
}

// Element types, and test numbers, by the letter of an operand.
static const struct Kind {
    char letter;
    OnnxElement type;
    bool input;
} kinds[] = {
    {'x', OnnxFloat, true},    {'n', OnnxInt64, true},     {'w', OnnxFloat, false},
    {'p', OnnxFloat, false},   {'f', OnnxFloat, false},    {'i', OnnxInt64, false},
    {'h', OnnxFloat16, false}, {'b', OnnxBfloat16, false}, {'d', OnnxDouble, false},
};

static double number_of(char kind, uint32_t seed, int64_t i) {
    double angle = 1.7 * (double)i + 0.9 * seed + 0.3, x = sin(angle);
    return kind == 'n'   ? floor(7 * x)
           : kind == 'p' ? 1.5 + x
           : kind == 'w' ? 0.5 * cos(angle)
           : kind == 'x' ? x
                         : floor(8 * x) / 8; // the same in every type
}

static void put_number(Text *t, OnnxElement type, double x) {
    if (type == OnnxDouble)
        proto_double(t, 10, x);
    else if (type == OnnxFloat)
        proto_float(t, 4, (float)x);
    else
        proto_number(t, 5,
                     type == OnnxFloat16 ? gan_f32_to_f16((float)x) : gan_f32_to_bf16((float)x));
}

// An input of the graph: N, or a number of samples, before its extents.
static void put_input(Line *l, const struct Kind *k, Str name, Str extents, Str samples) {
    Text dim = {.arena = l->a}, shape = {.arena = l->a}, tensor = {.arena = l->a},
         type = {.arena = l->a}, info = {.arena = l->a};
    if (samples.len)
        proto_number(&dim, 1, (uint64_t)whole(samples));
    else
        proto_bytes(&dim, 2, STR("N"));
    proto_bytes(&shape, 1, text_str(&dim));
    for (Str one; take(&extents, ',', &one);) {
        Text extent = {.arena = l->a};
        proto_number(&extent, 1, (uint64_t)whole(one));
        proto_bytes(&shape, 1, text_str(&extent));
    }
    proto_number(&tensor, 1, k->type);
    proto_bytes(&tensor, 2, text_str(&shape));
    proto_bytes(&type, 1, text_str(&tensor));
    proto_bytes(&info, 1, name);
    proto_bytes(&info, 2, text_str(&type));
    proto_bytes(&l->inputs, 11, text_str(&info));
    vec_push(l->a, &l->input, ((Input){k->letter, l->seeds}));
}

static void put_tensor(Line *l, const struct Kind *k, Str name, Str extents, Str values) {
    Text t = {.arena = l->a};
    int64_t count = 1;
    Str one;
    while (take(&extents, ',', &one)) {
        proto_number(&t, 1, (uint64_t)whole(one));
        count *= whole(one);
    }
    proto_number(&t, 2, k->type);
    proto_bytes(&t, 8, name);
    for (int64_t i = 0; i < count; i++) {
        bool given = take(&values, ',', &one);
        if (k->type == OnnxInt64)
            proto_number(&t, 7, (uint64_t)whole(one));
        else
            put_number(&t, k->type, given ? real(one) : number_of(k->letter, l->seeds, i));
    }
    proto_bytes(&l->initializers, 5, text_str(&t));
}

// x[3,8], w[4], i[2]=1,0: a letter of `kinds`, extents, numbers (of an input the samples). t1, y0:
// an operand or a result before. -: left out.
static void put_operand(Line *l, Str word, Text *node) {
    Str rest = word, extents, values = {0};
    if (str_find(word, '[') == word.len) {
        proto_bytes(node, 1, str_eq(word, STR("-")) ? (Str){0} : word);
        l->seeds += str_eq(word, STR("-"));
        return;
    }
    const struct Kind *k = kinds;
    while (k->letter != word.ptr[0])
        k++;
    Str name = str_format(l->a, "t%u", l->seeds);
    take(&rest, ']', &extents);
    extents = str_sub(extents, 2, extents.len);
    if (rest.len)
        values = str_sub(rest, 1, rest.len);
    if (k->input)
        put_input(l, k, name, extents, values);
    else
        put_tensor(l, k, name, extents, values);
    proto_bytes(node, 1, name);
    l->seeds++;
}

// "OP name=value ... : operand; operand"
static void put_node(Line *l, Str text) {
    Text node = {.arena = l->a};
    Str head, op, word;
    int64_t outputs = 1;
    take(&text, ':', &head);
    take(&head, ' ', &op);
    proto_bytes(&node, 4, op);
    while (take(&head, ' ', &word))
        put_attribute(l, word, &node, &outputs);
    while (take(&text, ';', &word))
        put_operand(l, word, &node);
    l->output.n = 0;
    for (int64_t i = 0; i < outputs; i++) {
        Str name = str_format(l->a, "y%u", l->results++);
        proto_bytes(&node, 2, name);
        vec_push(l->a, &l->output, name);
    }
    proto_bytes(&l->nodes, 1, text_str(&node));
}

// "node | node > want size", or "... ! what the refusal says".
static Line read_line(Arena *a, Str text) {
    Line l = {.a = a, .opset = 17};
    l.nodes.arena = l.initializers.arena = l.inputs.arena = a;
    Str nodes, rest = text, word;
    if (str_find(text, '!') < text.len) {
        take(&rest, '!', &nodes);
        take(&rest, '\n', &l.error);
    } else {
        size_t last = rest.len;
        while (last > 0 && rest.ptr[last - 1] != '>')
            last--;
        nodes = str_sub(rest, 0, last ? last - 1 : rest.len);
        rest = str_sub(rest, last, rest.len);
        take(&rest, ' ', &word);
        take(&rest, ' ', &word);
        l.want = real(word);
        take(&rest, ' ', &word);
        l.size = real(word);
    }
    while (take(&nodes, '|', &word))
        put_node(&l, word);
    return l;
}

static Str onnx_bytes(Line *l) {
    Text graph = l->nodes, model = {.arena = l->a}, opset = {.arena = l->a};
    text_put(&graph, text_str(&l->initializers));
    text_put(&graph, text_str(&l->inputs));
    for (uint32_t i = 0; i < l->output.n; i++) {
        Text info = {.arena = l->a};
        proto_bytes(&info, 1, l->output.at[i]);
        proto_bytes(&graph, 12, text_str(&info));
    }
    proto_number(&opset, 2, (uint64_t)l->opset);
    proto_number(&model, 1, 8);
    proto_bytes(&model, 7, text_str(&graph));
    proto_bytes(&model, 8, text_str(&opset));
    return text_str(&model);
}

// --- its value -----------------------------------------------------------------------------------

static const Stored *stored_find(const Import *m, Str name) {
    for (uint32_t i = 0; i < m->stored.n; i++)
        if (str_eq(m->stored.at[i].name, name))
            return &m->stored.at[i];
    fail_msg("no weight %.*s is stored", SARG(name));
    return NULL;
}

static void set_read(Interp *t, uint32_t id, const Line *l, const Import *import, const Module *m,
                     uint32_t *inputs) {
    const Slot *s = &m->slot.at[node_attr(t->g, id)->i[0]];
    double *x = interp_set(t, id);
    int64_t n = interp_count(t, id);
    if (s->kind == SlotFed || s->kind == SlotData) {
        // Inputs are read in the order of the function's parameters.
        const Input *in = &l->input.at[(*inputs)++];
        for (int64_t i = 0; i < n; i++)
            x[i] = number_of(in->kind, in->seed, i);
        return;
    }
    const Stored *w = stored_find(import, weight_name(t->arena, m, s, true));
    for (int64_t i = 0; i < n; i++)
        x[i] = stored_at(w, (size_t)i);
}

static double evaluate(Arena *a, const Line *l, const Import *import, Str text) {
    const Module *m = trial_module(
        a, &(TrialOptions){.name = "net.gan", .text = text, .batch = Batch, .fed = true});
    double sum = 0;
    int64_t place = 0;
    for (uint32_t e = 0; e < m->entry.n; e++) {
        const Func *f = &m->entry.at[e];
        if (str_eq(f->name, STR("features")))
            continue;
        Interp t = interp_make(a, &f->g);
        uint32_t inputs = 0;
        for (uint32_t id = 1; id < f->g.node.n; id++)
            if (graph_node(&f->g, id)->op == OpRead)
                set_read(&t, id, l, import, m, &inputs);
        interp_run(&t);
        uint32_t y = f->result.at[0].node;
        for (int64_t i = 0, n = interp_count(&t, y); i < n; i++)
            sum += interp_at(&t, y, i) * cos(0.37 * (double)place++);
    }
    return sum;
}

// What is wrong with the line, or nothing.
static Str check_line(Arena *a, Str text) {
    Line l = read_line(a, text);
    OnnxFile file = {0};
    if (onnx_open_bytes(a, onnx_bytes(&l), &file) != GAN_OK)
        return str_format(a, "%s", gan_error());
    Import m = {.a = a, .f = &file};
    NetText net = {0};
    bool made = import_net(&m, STR("net"), &net);
    if (l.error.len && !made && strstr(str_z(a, m.error), str_z(a, l.error)))
        return (Str){0};
    if (l.error.len || !made)
        return made ? STR("it is not refused") : m.error;
    Str model = import_model(&m, &net, STR("net"), STR("net.onnx"), STR("net.safetensors"));
    double got = evaluate(a, &l, &m, model);
    onnx_close(&file);
    return fabs(got - l.want) <= 2e-6 * fmax(1, l.size)
               ? (Str){0}
               : str_format(a, "it gives %.9g:\n%.*s", got, SARG(model));
}

static void nodes_are_translated(void **state) {
    Arena a = empty;
    Str text;
    uint32_t n = 0, bad = 0;
    (void)state;
    if (file_read(&a, STR(TEST_DIR "/import/nodes.txt"), &text) != GAN_OK)
        fail_msg("%s", gan_error());
    for (Str line; take(&text, '\n', &line);) {
        Arena scratch = a;
        if (!line.len || line.ptr[0] == '#')
            continue;
        Str wrong = check_line(&scratch, line);
        if (wrong.len)
            print_error("%.*s: %.*s\n", SARG(line), SARG(wrong));
        bad += wrong.len > 0;
        n++;
    }
    assert_true(n > 150);
    assert_int_equal(bad, 0);
}

// --- the files -----------------------------------------------------------------------------------

static void hear_nothing(void *user, Str text) {
    (void)user;
    (void)text;
}

// Whichever call that writes fails: both files, or neither.
static void both_files_are_written_or_none(void **state) {
    Arena a = empty;
    Options o = {.command = CommandImport};
    const Host host = {.console = {.result = hear_nothing, .say = hear_nothing}};
    Str stem = str_format(&a, BUILD_DIR "/tests/import-%d", (int)getpid()),
        text = str_format(&a, "%.*s.gan", SARG(stem)),
        weights = str_format(&a, "%.*s.safetensors", SARG(stem));
    (void)state;
    vec_push(&a, &o.file, STR(TEST_DIR "/fuzz/corpus/onnx/layers.onnx"));
    o.at[OptFile] = (ArgValue){.given = true, .text = text};
    int64_t n = 1;
    for (;; n++) {
        Arena scratch = a;
        file_fail_at(n);
        GanStatus st = cmd_import(&scratch, &host, &o);
        file_fail_at(0);
        if (st == GAN_OK)
            break;
        if (file_exists(text) || file_exists(weights))
            fail_msg("failure %lld leaves a file: %s", (long long)n, gan_error());
    }
    assert_true(n > 4);
    assert_true(file_exists(text) && file_exists(weights));
    assert_int_equal(file_remove(text), GAN_OK);
    assert_int_equal(file_remove(weights), GAN_OK);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(nodes_are_translated),
                                       cmocka_unit_test(both_files_are_written_or_none)};
    return ARENA_CASES(tests, (size_t)1 << 32);
}
