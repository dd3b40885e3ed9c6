// elab_cases.h - for tests of elaboration: texts elaborated at batch 4, and small models that many
// of them write.
#ifndef GAN_ELAB_CASES_H
#define GAN_ELAB_CASES_H

#include "elaborate.h"

#include <setjmp.h>
#include <string.h>

#include <cmocka.h>
#include "arena_cases.h"

static inline const char *show(Str s) {
    return str_z(&arena, s);
}

typedef struct Case {
    Front f;
    Module m;
    bool fine;
} Case;

static inline Setting setting(const char *text) { // "key=value"
    Str s = str_c(text);
    size_t at = str_find(s, '=');
    return (Setting){str_sub(s, 0, at), str_sub(s, at + 1, s.len)};
}

static inline Case *elaborate_text(const char *name, Str text, int64_t batch, const char *set,
                                   bool feed) {
    Case *c = arena_new(&arena, Case);
    Setting s = set ? setting(set) : (Setting){0};
    ElabOptions o = {.batch = batch, .setting = &s, .settings = set != NULL, .feed = feed};
    front_init(&c->f, &arena);
    uint32_t source = front_add_source(&c->f, str_c(name), text, false);
    assert_true(source);
    bool yaml = str_ends(str_c(name), STR(".yaml"));
    Ast *tree = yaml ? parse_yaml(&c->f, source) : parse_gan(&c->f, source);
    c->fine = tree && elaborate(&c->f, tree, &o, &c->m);
    return c;
}

static inline Str messages(Case *c) {
    Text t = {.arena = &arena};
    diag_render(&t, &c->f, false);
    return text_str(&t);
}

// A text that must elaborate to a valid module without diagnostics.
static inline const Module *module_of(const char *name, Str text, const char *set, bool feed) {
    Str error = {0};
    Case *c = elaborate_text(name, text, 4, set, feed);
    if (!c->fine || diag_total(&c->f))
        fail_msg("%s:\n%s", name, show(messages(c)));
    if (!module_verify(&c->m, &arena, &error))
        fail_msg("%s: %s", name, show(error));
    return &c->m;
}

#define HEAD "model m\ndata x : float(4)\nopt = adam(lr=0.1)\n"
#define NETS                                                                                       \
    HEAD "net G(z: [2]) -> [4] = z |> dense(4)\nnet D(x: [4]) -> [] = x |> dense(1) |> squeeze\n"
#define G_STEP "update G minimize -mean(D(G(normal(2)))) using opt\n"

static inline const Module *small(const char *text) {
    return module_of("small.gan", str_c(text), NULL, false);
}

static inline Str hash_of(const Module *m) {
    return hash_hex(&arena, module_hash(m, arena));
}

static inline uint32_t count_op(const Func *f, Op op) {
    uint32_t n = 0;
    for (uint32_t i = 1; i < f->g.node.n; i++)
        n += graph_node(&f->g, i)->op == op;
    return n;
}

static inline uint32_t slots_named(const Module *m, const char *start) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < m->slot.n; i++)
        n += str_starts(m->slot.at[i].name, str_c(start));
    return n;
}

#endif
