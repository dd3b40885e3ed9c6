// import_test.c - a node of ONNX at a time: as text of the language, evaluated by the reference
// evaluator, it gives what ONNX Runtime gave for the same numbers. tests/import/nodes.txt has a
// line for each case, and how it is read; tests/import/nodes.py fills in the numbers.
#include "commands.h"
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

static Arena empty;
enum { Batch = 2 };

// --- a line --------------------------------------------------------------------------------------

typedef struct Line {
    Arena *a;
    Str all, op;
    int64_t opset, outputs;
    Text nodes, attributes, initializers, inputs; // fields of the graph, and of the node
    StrVec operand;
    VEC(uint32_t) seed; // [graph input] its place among the operands
    double want, size;  // the sum of the result times numbers, and of its absolute values
    Str error;          // or what the refusal says
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
    static const char *const lists[] = {"axes",      "split",        "pads",          "strides",
                                        "dilations", "kernel_shape", "output_padding"};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        if (str_eq(name, str_c(lists[i])))
            return true;
    return false;
}

// name=2, name=1,2, name=0.5, name='word'
static void put_attribute(Line *l, Str word) {
    Text t = {.arena = l->a};
    Str name, value = word, one;
    take(&value, '=', &name);
    if (str_eq(name, STR("opset")) || str_eq(name, STR("outputs"))) {
        *(str_eq(name, STR("opset")) ? &l->opset : &l->outputs) = whole(value);
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
    proto_bytes(&l->attributes, 5, text_str(&t));
}

static double number_of(char kind, uint32_t seed, int64_t i) {
    double angle = 1.7 * (double)i + 0.9 * seed + 0.3;
    return kind == 'p' ? 1.5 + sin(angle) : kind == 'w' ? 0.5 * cos(angle) : sin(angle);
}

// x[3,8]: an input, N before its extents. w[4,3], p[3]: a weight, positive ones. i[2]=1,0, f[]=0.5:
// constants. -: left out.
static void put_operand(Line *l, Str word) {
    uint32_t seed = l->operand.n;
    Str name = str_format(l->a, "t%u", seed), rest = word, head, value = {0}, one;
    Text t = {.arena = l->a}, shape = {.arena = l->a};
    vec_push(l->a, &l->operand, str_eq(word, STR("-")) ? (Str){0} : name);
    if (str_eq(word, STR("-")))
        return;
    char kind = word.ptr[0];
    take(&rest, ']', &head);
    head = str_sub(head, 2, head.len);
    if (rest.len)
        value = str_sub(rest, 1, rest.len);
    int64_t count = 1;
    if (kind == 'x') {
        Text dim = {.arena = l->a}, tensor = {.arena = l->a}, type = {.arena = l->a};
        proto_bytes(&dim, 2, STR("N"));
        proto_bytes(&shape, 1, text_str(&dim));
        while (take(&head, ',', &one)) {
            Text extent = {.arena = l->a};
            proto_number(&extent, 1, (uint64_t)whole(one));
            proto_bytes(&shape, 1, text_str(&extent));
        }
        proto_number(&tensor, 1, OnnxFloat);
        proto_bytes(&tensor, 2, text_str(&shape));
        proto_bytes(&type, 1, text_str(&tensor));
        proto_bytes(&t, 1, name);
        proto_bytes(&t, 2, text_str(&type));
        proto_bytes(&l->inputs, 11, text_str(&t));
        vec_push(l->a, &l->seed, seed);
        return;
    }
    while (take(&head, ',', &one)) {
        proto_number(&t, 1, (uint64_t)whole(one));
        count *= whole(one);
    }
    proto_number(&t, 2, kind == 'i' ? OnnxInt64 : OnnxFloat);
    proto_bytes(&t, 8, name);
    for (int64_t i = 0; i < count; i++) {
        if (value.len)
            take(&value, ',', &one);
        if (kind == 'i')
            proto_number(&t, 7, (uint64_t)whole(one));
        else
            proto_float(&t, 4, (float)(kind == 'f' ? real(one) : number_of(kind, seed, i)));
    }
    proto_bytes(&l->initializers, 5, text_str(&t));
}

// "OP name=value ... : operand; operand = want size", or "... ! what the refusal says".
static Line read_line(Arena *a, Str text) {
    Line l = {.a = a, .all = text, .opset = 17, .outputs = 1};
    l.attributes.arena = l.initializers.arena = l.inputs.arena = l.nodes.arena = a;
    Str rest = text, head, operands, word;
    bool refused = str_find(text, '!') < text.len;
    take(&rest, ':', &head);
    if (refused) {
        take(&rest, '!', &operands);
        take(&rest, '\n', &l.error);
    } else {
        size_t last = rest.len;
        while (last > 0 && rest.ptr[last - 1] != '>')
            last--;
        operands = str_sub(rest, 0, last ? last - 1 : rest.len);
        rest = str_sub(rest, last, rest.len);
        take(&rest, ' ', &word);
        take(&rest, ' ', &word);
        l.want = real(word);
        take(&rest, ' ', &word);
        l.size = real(word);
    }
    take(&head, ' ', &l.op);
    while (take(&head, ' ', &word))
        put_attribute(&l, word);
    while (take(&operands, ';', &word))
        put_operand(&l, word);
    return l;
}

static Str onnx_bytes(Line *l) {
    Text node = {.arena = l->a}, graph = {.arena = l->a}, model = {.arena = l->a},
         opset = {.arena = l->a};
    for (uint32_t i = 0; i < l->operand.n; i++)
        proto_bytes(&node, 1, l->operand.at[i]);
    for (int64_t i = 0; i < l->outputs; i++)
        proto_bytes(&node, 2, str_format(l->a, "y%lld", (long long)i));
    proto_bytes(&node, 4, l->op);
    text_put(&node, text_str(&l->attributes));
    proto_bytes(&graph, 1, text_str(&node));
    text_put(&graph, text_str(&l->initializers));
    text_put(&graph, text_str(&l->inputs));
    for (int64_t i = 0; i < l->outputs; i++) {
        Text info = {.arena = l->a};
        proto_bytes(&info, 1, str_format(l->a, "y%lld", (long long)i));
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
        uint32_t seed = l->seed.at[(*inputs)++];
        for (int64_t i = 0; i < n; i++)
            x[i] = number_of('x', seed, i);
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
    if (onnx_open_bytes(a, onnx_bytes(&l), (Str){0}, &file) != GAN_OK)
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
    o.at[OptFile] = (OptionValue){.given = true, .text = text};
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
    return ARENA_CASES(tests, &empty, (size_t)1 << 32);
}
