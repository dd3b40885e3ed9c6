// text_test.c - the text form, the verifier and the hash: printed text reads back to the same
// bytes; errors are reported with their line; what is not part of a graph's identity does not
// change its hash.
#include "build.h"
#include "program.h"
#include "walks.h"

#include <string.h>

static uint32_t failures;

static void expect(bool ok, const char *what, Str detail) {
    if (!ok && failures++ < 20)
        printf("FAIL %s: %.*s\n", what, SARG(detail));
}

static Str printed(Arena *a, const Module *m) {
    Text t = {.arena = a};
    module_print(&t, m);
    return text_str(&t);
}

static bool hash_equal(Hash128 a, Hash128 b) {
    return a.lo == b.lo && a.hi == b.hi;
}

// --- round trips ---------------------------------------------------------------------------------

static void round_trip(Arena *a, Str name, Str text) {
    Module m;
    Str error = {0};
    if (!module_read(a, text, &m, &error)) {
        expect(false, "does not read", error);
        return;
    }
    expect(str_eq(printed(a, &m), text), "prints other bytes", name);
    Module again;
    expect(module_read(a, printed(a, &m), &again, &error) &&
               hash_equal(module_hash(&m, *a), module_hash(&again, *a)),
           "another hash when read again", name);
}

static void corpus_round_trips(Arena *a) {
    Str dir = STR(TEST_DIR "/fuzz/corpus/ir");
    StrVec names = {0};
    expect(dir_list(a, dir, &names) == GAN_OK && names.n > 0, "no corpus", dir);
    for (uint32_t i = 0; i < names.n; i++) {
        Str text;
        expect(file_read(a, path_join(a, dir, names.at[i]), &text) == GAN_OK, "unreadable",
               names.at[i]);
        round_trip(a, names.at[i], text);
    }
}

static Module small_module(Arena *a, const char *name, uint32_t file, bool dead) {
    Module m = {.name = STR("m"), .batch = 4};
    m.init.name = STR("init");
    m.step.name = STR("step");
    m.init.blocks = m.step.blocks = 1;
    graph_init(&m.init.g, a, 4);
    graph_init(&m.step.g, a, 4);
    Type t = type_make(false, 2, (int64_t[]){2, 3});
    vec_push(a, &m.slot, ((Slot){.kind = SlotParam, .name = str_c(name), .net = NONE, .type = t}));
    vec_push(a, &m.site, ((Site){.dist = DistNormal, .type = t}));
    Builder at = {.g = &m.step.g, .span = {file, file ? 3 : 0, file ? 9 : 0}};
    if (dead)
        Exp(Pin(Number(&at, 7)));
    Val w = Read(&at, 0, dead ? 9 : 0, t), p = Pin(w);
    Val x = Add(Mul(p, Rand(&at, DistNormal, 0, 0, t)), Num(w, 0.1));
    Val out = Write(0, x);
    vec_push(a, &m.step.effect, out.id);
    return m;
}

static void identity(Arena *a) {
    Module plain = small_module(a, "w", 0, false), named = small_module(a, "\"v\\\n\x01", 0, false);
    Module placed = small_module(a, "w", 1, false), dead = small_module(a, "w", 0, true);
    Hash128 h = module_hash(&plain, *a);
    expect(hash_equal(h, module_hash(&named, *a)), "the hash sees names of slots",
           named.slot.at[0].name);
    expect(hash_equal(h, module_hash(&placed, *a)), "the hash sees spans", STR("1:3-9"));
    expect(hash_equal(h, module_hash(&dead, *a)),
           "the hash sees dead nodes, pins' numbers or versions", STR("dead"));
    Module other = small_module(a, "w", 0, false);
    other.step.g.node.at[other.step.effect.at[0]].block = 0;
    other.slot.at[0].type.dim[0] = 3;
    expect(!hash_equal(h, module_hash(&other, *a)), "the hash misses a type", STR("[3, 3]"));
    Module constant = small_module(a, "w", 0, false);
    for (uint32_t i = 1; i < constant.step.g.attr.n; i++)
        constant.step.g.attr.at[i].i[0] ^= 1;
    expect(!hash_equal(h, module_hash(&constant, *a)), "the hash misses attributes", STR("bits"));
    round_trip(a, STR("odd names"), printed(a, &named));
    round_trip(a, STR("spans"), printed(a, &placed));
}

// --- refusals ------------------------------------------------------------------------------------

// clang-format off
#define HEAD "module \"m\" doc \"\" batch 4\nslot param \"w\" f32 [2] net - site 0 stream 0 round 0\n" \
             "site normal f32 [2] func 1 block 0\nfunc \"init\"\nfunc \"step\"\n"      // five lines
#define READ "%1 = read {slot=0 version=0} : f32 [2] @0\n"
#define FILLED(site, slot) "module \"m\" doc \"\" batch 4\nstream\nfield \"x\" float [3] classes 0\n" site slot \
                           "func \"init\"\nfunc \"step\"\n"

static const struct { const char *text, *error; } refused[] = {
    {"", "line 0: the text ends"},
    {"func \"init\"\n", "line 1: 'func' is out of place"},
    {"module \"m\" doc \"\" batch 0\n", "line 1: 0 is out of range"},
    {"module \"m doc\n", "line 1: expected '\"'"},
    {"module \"\\q\" doc \"\" batch 1\n", "line 1: a backslash"},
    {HEAD "%2 = read {slot=0 version=0} : f32 [2] @0\n", "line 6: node %2 should be %1"},
    {HEAD "%1 = reed {slot=0 version=0} : f32 [2] @0\n", "line 6: there is no operation 'reed'"},
    {HEAD "%1 = exp %1 : f32 [2] @0\n", "line 6: %1 is not an earlier node"},
    {HEAD "%1 = read {slot=0} : f32 [2] @0\n", "line 6: expected version="},
    {HEAD READ "%2 = exp %1 : f32 [3] @0\n", "line 7: exp makes f32 [2]"},
    {HEAD READ "%2 = exp %1, %1 : f32 [2] @0\n", "line 7: exp: exp takes 1 to 1 operands"},
    {HEAD READ "%2 = exp %1 : f32 [2] @0 twice\n", "line 7: expected 'span'"},
    {HEAD "%1 = read {slot=0 version=0} : f32 [99999999999] @0\n", "line 6: 99999999999 is out of range"},
    {HEAD "%1 = read {slot=0 version=0} : f32 [2147483647, 2147483647] @0\n", "line 6: read: the result would be"},
    {HEAD "%1 = read {slot=1 version=0} : f32 [2] @0\n", "no slot 1"},
    {HEAD "%1 = read {slot=0 version=0} : f32 [3] @0\n", "slot w is [2]"},
    {HEAD "%1 = rand {dist=1 site=7 bits=0} : f32 [2] @0\n", "no site 7"},
    {HEAD READ "%2 = exp %1 : f32 [2] @1\n", "no block 1"},
    {HEAD "block 0\nblock 0\n", "unknown, or not in order"},
    {HEAD "block 1\nblock 0\n", "unknown, or not in order"},
    {HEAD "block 0\nend\n", "nothing to end"},
    {HEAD "block 0\nrepeat 2\n", "1 scopes are not ended"},
    {HEAD "block 0\nelse\n", "else without if"},
    {HEAD "block 0\nif %5\nend\n", "no condition"},
    {HEAD READ "%2 = write %1 {slot=0} : f32 [2] @0\n", "not among the effects"},
    {HEAD READ "%2 = write %1 {slot=0} : f32 [2] @0\neffect %1\n", "is not a write"},
    {HEAD READ "%2 = write %1 {slot=0} : f32 [2] @0\neffect %2\neffect %2\n", "listed twice"},
    {HEAD READ "%2 = write %1 {slot=0} : f32 [2] @0\n%3 = exp %1 : f32 [2] @0\n%4 = write %3 {slot=0} : f32 [2] @0\n"
     "effect %2\neffect %4\n", "write one slot in one block"},
    {HEAD READ "%2 = write %1 {slot=0} : f32 [2] @0\n%3 = exp %2 : f32 [2] @0\neffect %2\n", "reads the write"},
    {HEAD READ "update block 0 loss %1 rate nan nets grads\n", "not one shared number"},
    {HEAD "every 4\nblock 0\nend\nblock 1\n" READ "%2 = exp %1 : f32 [2] @1\n", "which may not have run"},
    {HEAD "block 0\nblock 1\n" READ "%2 = write %1 {slot=0} : f32 [2] @0\n"
     "%3 = read {slot=0 version=0} : f32 [2] @1\neffect %2\n", "writes it between"},
    {HEAD "block 0\nif %2\nblock 1\nend\n" READ "%2 = sum %1 {axes=2} : f32 [1] @1\n", "condition 2 may not have"},
    {HEAD "if %2\nblock 0\nend\nif %2\nblock 1\nend\n" READ "%2 = sum %1 {axes=2} : f32 [1] @0\n",
     "condition 2 may not have run"},
    {HEAD "every 4\nblock 0\nend\nblock 1\n" READ "report \"r\" %1 block 1\n", "report r: node 1 may not have run"},
    {HEAD "every 4\nblock 0\nend\nif %2\nblock 1\nend\n" READ "%2 = sum %1 {axes=2} : f32 [1] @0\n",
     "condition 2 may not have run"},
    {HEAD READ "%2 = reduce_start %1 {call=0 part=0 order=0} : f32 [2] @0\n%3 = exp %2 : f32 [2] @0\n",
     "nothing but its wait"},
    {HEAD READ "%2 = reduce_wait %1 {call=0 part=0} : f32 [2] @0\n", "a wait has a start before it"},
    {HEAD READ "%2 = reduce_start %1 {call=0 part=0 order=0} : f32 [2] @0\n"
     "%3 = reduce_wait %2 {call=0 part=1} : f32 [2] @0\n",
     "waits for another part"},
    {HEAD READ "%2 = sum %1 {axes=2} : f32 [1] @0\nupdate block 0 loss %2 rate nan nets 3 grads\n", "no net 3"},
    {HEAD "data 7\n", "no data slot 7"},
    {HEAD "next stream 5 round 1 block 0\n", "no stream 5"},
    {"module \"m\" doc \"\" batch 4\nfunc \"init\"\nfunc \"step\" batch 2\nblock 0 from 1\n",
     "samples from 1 on are no part of 4"},
    {"module \"m\" doc \"\" batch 4\nfunc \"init\"\nfunc \"step\" batch 2\nblock 0 from 4\n",
     "samples from 4 on are no part of 4"},
    {"module \"m\" doc \"\" batch 4\nfunc \"init\"\nfunc \"step\" batch 2\n", "a batch of 2 in a module of 4"},
    {"module \"m\" doc \"\" batch 4\nnet \"A\" = copy 0 params 0 states 0\nfunc \"init\"\nfunc \"step\"\n",
     "a copy of net 0, which is not before it"},
    {FILLED("", "slot param \"w\" f32 [3] net 5 site 0 stream 0 round 0\n"), "no net 5"},
    {FILLED("", "slot fed \"d\" f32 [3] net - site 5 stream 0 round 0\n"), "no site 5"},
    {FILLED("", "slot data \"x\" f32 [B, 3] net - site 0 stream 0 round 1\n")
     "%1 = read {slot=0 version=0} : f32 [B, 3] @0\n%2 = exp %1 : f32 [B, 3] @0\n",
     "no `next` takes its batch"},
    {HEAD "every 4\nblock 0\nend\nblock 1\n" READ "%2 = sum %1 {axes=2} : f32 [1] @0\n"
     "update block 1 loss %2 rate nan nets grads\n", "loss 2 may not have run"},
    {FILLED("site normal f32 [2] func 2 block 0\n", ""), "site 0: no function 2"},
    {FILLED("site normal f32 [2] func 1 block 1\n", ""), "no block 1 in it"},
    {FILLED("", "slot data \"x\" f32 [B, 4] net - site 0 stream 0 round 0\n"), "is filled with [B, 3]"},
    {FILLED("", "slot data \"x\" f32 [3] net - site 0 stream 0 round 0\n"), "is filled with [B, 3]"},
    {FILLED("site normal f32 [2] func 1 block 0\n", "slot fed \"d\" f32 [B, 2] net - site 0 stream 0 round 0\n"),
     "slot 0 (d): is [B, 2], but is filled with [2]"},
    {FILLED("site normal f32 [] func 1 block 0\n", "slot fed \"d\" f32 [] net - site 0 stream 0 round 0\n"),
     "is filled with [1]"},
};
// clang-format on

static void refusals(Arena *a) {
    for (uint32_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        Module m;
        Str error = {0};
        bool ok = module_read(a, str_c(refused[i].text), &m, &error);
        expect(!ok, "reads", str_c(refused[i].error));
        if (!ok && !strstr(error.ptr, refused[i].error))
            expect(false, refused[i].error, error);
    }
}

// clang-format off
// What the shape rules refuse: a line of two operands of these types.
#define GEOM(stride, groups) "{n=2 stride=" stride " before=0 0 after=0 0 dilation=1 1 groups=" groups "}"
static const struct { const char *a, *b, *line, *error; } shapes_refused[] = {
    {"f32 [B, 4, 8, 8]", "f32 [3, 2, 3, 3]", "conv %1, %2 " GEOM("1 1", "2") " : f32 [B, 3, 6, 6]",
     "2 groups do not divide"},
    {"f32 [B, 3, 8, 8]", "f32 [4, 3, 3, 3]", "conv %1, %2 " GEOM("0 1", "1") " : f32 [B, 4, 6, 6]",
     "stride must be from 1"},
    {"f32 [B, 4, 6, 6]", "f32 [4, 3, 3, 3]", "conv_dx %1, %2 " GEOM("1 1", "1") " : f32 [B, 3, 9, 8]",
     "extents clash"},
    {"f32 [B, 4, 6, 6]", "f32 [4, 3, 3, 3]", "conv_dx %1, %2 " GEOM("1 1", "1") " : f32 [B, 2, 8, 8]",
     "the result has 2 channels"},
    {"f32 [B, 3, 8, 8]", "f32 [4, 6, 6]", "conv_dw %1, %2 " GEOM("1 1", "1") " : f32 [4, 3, 3, 3]", "only one of"},
    {"f32 [B, 3, 8, 8]", "f32 [B, 5, 6, 6]", "conv_dw %1, %2 " GEOM("1 1", "1") " : f32 [4, 3, 3, 3]",
     "gradient has 5 channels"},
    {"f32 [B, 3, 8, 8]", "f32 [B, 4, 6, 6]", "conv_dw %1, %2 " GEOM("1 1", "1") " : f64 [4, 3, 3, 3]",
     "conv_dw makes f32"},
    {"f32 [B, 5, 5]", "f32 [5]", "dot %1, %2 {na=2 a=1 1 nb=1 b=1 no=0 o=} : f32 [B]", "a label appears twice on"},
    {"f32 [B, 5]", "f32 [6, 3]", "dot %1, %2 {na=1 a=1 nb=2 b=1 2 no=1 o=2} : f32 [B, 3]", "extents clash: axis 0"},
    {"f32 [5]", "f32 [5, 3]", "dot %1, %2 {na=1 a=1 nb=2 b=1 2 no=1 o=2} : f32 [B, 3]", "their product is too"},
    {"f32 [B, 5]", "f32 [5, 3]", "dot %1, %2 {na=1 a=1 nb=2 b=1 2 no=1 o=2} : f32 [3]", "has a batch to contract"},
    {"f32 [B, 5]", "f32 [5, 3]", "dot %1, %2 {na=1 a=1 nb=2 b=1 2 no=2 o=2 2} : f32 [B, 3, 3]",
     "twice in the result"},
    {"f32 [B, 5]", "f32 [5, 3]", "dot %1, %2 {na=1 a=1 nb=2 b=1 2 no=2 o=2 9} : f32 [B, 3, 3]", "in neither operand"},
    {"f32 [B, 5]", "f32 [5, 3]", "dot %1, %2 {na=2 a=1 4 nb=2 b=1 2 no=2 o=2 4} : f32 [B, 3, 3]",
     "2 labels for the 1 axes"},
    {"f32 [B, 5]", "f32 [1]", "slice %1 {n=1 from=3 step=1} : f32 [B, 3]", "do not lie in 5"},
    {"f32 [B, 5]", "f32 [1]", "slice %1 {n=1 from=-1 step=1} : f32 [B, 3]", "elements from -1"},
    {"f32 [5, 6]", "f32 [1]", "permute %1 {n=2 axis=0 0} : f32 [5, 5]", "not a permutation"},
    {"f32 [B, 5]", "f32 [1]", "flip %1 {axes=1} : f32 [B, 5]", "a flip of an axis"},
    {"f32 [2, 1, 1, 1, 1, 1]", "f32 [B, 1, 1]", "gather %1, %2 : f32 [B, 1, 1, 1, 1, 1, 1]", "axes, more than"},
    {"f32 [16777217, 2]", "f32 [B]", "gather %1, %2 : f32 [B, 2]", "more rows than an index can count"},
    {"f32 [B, 2]", "f32 [B]", "scatter %1, %2 : f32 [9, 5]", "do not fit the table"},
    {"f32 [B, 2]", "bf16 [B, 2]", "concat %1, %2 {axis=0} : f32 [B, 4]", "precisions clash"},
    {"f32 [B, 2]", "f32 [1]", "max_of %1 {axes=1} : f32 [2]", "cannot go over the batch"},
    {"f32 [2]", "f32 [1]", "group_sum %1 {group=2} : f32 [2]", "has no groups of samples"},
    {"f32 [2]", "f32 [3]", "commit %1, %2 {update=0} : f32 [2]", "cannot become"},
    {"f32 [B, 2]", "f32 [1]", "reduce_start %1 {call=0 part=0 order=0} : f32 [B, 2]", "ranks add shared values only"},
    {"bf16 [B, 2]", "f32 [1]", "arg_sort %1 : bf16 [B, 2]", "a sort is of f32 or f64"},
    {"f32 [1, 2, 3]", "f32 [1]", "fft %1 {inverse=1} : f32 [2, 1, 4]", "is not [2, 1, 4]"},
    {"f32 [1]", "f32 [1]", "rand {dist=9 site=0 bits=0} : f32 [2]", "no distribution 9"},
};
// clang-format on

static void operands_refused(Arena *a) {
    for (uint32_t i = 0; i < sizeof shapes_refused / sizeof *shapes_refused; i++) {
        Module m;
        Str error = {0},
            text = str_format(a,
                              HEAD "%%1 = read {slot=0 version=0} : %s @0\n"
                                   "%%2 = read {slot=0 version=1} : %s @0\n%%3 = %s @0\n",
                              shapes_refused[i].a, shapes_refused[i].b, shapes_refused[i].line);
        bool ok = module_read(a, text, &m, &error);
        expect(!ok && strstr(error.ptr, shapes_refused[i].error), shapes_refused[i].error, error);
    }
}

// The verifier detects in memory what the reader rejects in text.
static void the_verifier_detects_damage(Arena *a) {
    Module m = small_module(a, "w", 0, false);
    Graph *g = &m.step.g;
    Str error;
    uint32_t last = g->node.n - 1;
    expect(module_verify(&m, a, &error), "refuses a good module", STR("small_module"));
    g->edge.at[g->node.at[last].in] = last;
    expect(!module_verify(&m, a, &error), "misses an operand that is no earlier node",
           STR("write"));
    g->edge.at[g->node.at[last].in] = last - 1;
    g->node.at[last - 1].op = OpCount;
    expect(!module_verify(&m, a, &error), "misses an unknown op", STR("add"));
    g->node.at[last - 1].op = OpAdd;
    g->node.at[last - 1].type = graph_type(g, type_make(false, 1, (int64_t[]){2}));
    expect(!module_verify(&m, a, &error), "misses a wrong type", STR("add"));
    m = small_module(a, "w", 0, false);
    g = &m.step.g;
    Type wide = *node_type(g, last - 1);
    wide.dtype = DtF64;
    g->node.at[last - 1].type = graph_type(g, wide);
    expect(!module_verify(&m, a, &error), "misses a wrong precision", STR("add"));
    m = small_module(a, "w", 0, false);
    m.step.g.node.at[last].span = m.step.g.span.n;
    expect(!module_verify(&m, a, &error), "misses a span that is none", STR("write"));
    m = small_module(a, "w", 0, false);
    vec_push(a, &m.step.tape, ((Ctl){.kind = CtlBlock}));
    m.step.blocks = 2;
    expect(!module_verify(&m, a, &error), "misses a block beside the tape", STR("1"));
    m = small_module(a, "w", 0, false);
    m.site.at[0].dist = DistCategorical;
    expect(!module_verify(&m, a, &error), "misses a draw of no classes", STR("site 0"));
}

static void blocks(Arena *a) {
    Func f = {.blocks = 6};
    const Ctl tape[] = {{CtlBlock, 0, 0}, {CtlRepeat, 3, 0}, {CtlBlock, 1, 0}, {CtlEvery, 2, 0},
                        {CtlBlock, 2, 0}, {CtlEnd, 0, 0},    {CtlEnd, 0, 0},   {CtlIf, 0, 1},
                        {CtlBlock, 3, 0}, {CtlElse, 0, 0},   {CtlBlock, 4, 0}, {CtlEnd, 0, 0},
                        {CtlBlock, 5, 0}};
    for (uint32_t i = 0; i < sizeof tape / sizeof *tape; i++)
        vec_push(a, &f.tape, tape[i]);
    static const char *const want[2][6] = {
        {"100000", "110000", "111000", "100100", "100010", "100001"},
        {"100000", "110000", "111000", "110100", "110010", "110001"}};
    for (uint32_t past = 0; past < 2; past++) {
        const uint32_t *scope_end = blocks_scope_end(a, &f, past);
        for (uint32_t b = 0; b < 6; b++) {
            for (uint32_t k = 0; k < 6; k++) {
                expect(block_dominates(scope_end, k, b) == (want[past][b][k] == '1'),
                       "block dominates", str_format(a, "%u to %u, %u", k, b, past));
            }
        }
    }
}

int main(int argc, char **argv) {
    static const Walk walks[] = {
        WALK(corpus_round_trips),          WALK(identity), WALK(refusals), WALK(operands_refused),
        WALK(the_verifier_detects_damage), WALK(blocks),
    };
    bool found = WALKS_RUN(walks);
    return !found || failures;
}
