// pickle.c - a pickle is a program for a stack machine that builds one value. Here it builds a
// description of that value: imports and calls are recorded by name and never executed, so a
// hostile file is at worst refused.
//
// The format: Python's Lib/pickletools.py, which describes every instruction.
#include "pickle.h"

#include <string.h>

enum { MarkMost = 1000 };

typedef struct Machine {
    Arena *perm;
    Str bytes;
    size_t at;
    Pickle *out;
    VEC(uint32_t) stack; // places in out->value
    VEC(uint32_t) mark;  // heights of the stack
    Map memo;            // key + 1 -> value + 1
    uint32_t memos;
} Machine;

// --- bytes ---------------------------------------------------------------------------------------

static GanStatus cut_short(void) {
    return fail(GAN_ERR_INPUT, "its pickle is cut short");
}

static GanStatus take(Machine *m, uint64_t n, Str *out) {
    if (n > m->bytes.len - m->at)
        return cut_short();
    *out = str_sub(m->bytes, m->at, m->at + (size_t)n);
    m->at += (size_t)n;
    return GAN_OK;
}

// A little-endian number of `size` bytes, at most 8.
static GanStatus take_count(Machine *m, uint32_t size, uint64_t *out) {
    Str bytes;
    TRY(take(m, size, &bytes));
    *out = 0;
    for (uint32_t i = 0; i < size; i++)
        *out |= (uint64_t)(uint8_t)bytes.ptr[i] << 8 * i;
    return GAN_OK;
}

static GanStatus take_sized(Machine *m, uint32_t size_of_length, Str *out) {
    uint64_t n = 0;
    TRY(take_count(m, size_of_length, &n));
    return take(m, n, out);
}

static GanStatus take_line(Machine *m, Str *out) {
    Str rest = str_sub(m->bytes, m->at, m->bytes.len);
    size_t n = str_find(rest, '\n');
    if (n == rest.len)
        return cut_short();
    *out = str_sub(rest, 0, n);
    m->at += n + 1;
    return GAN_OK;
}

// --- the stack -----------------------------------------------------------------------------------

static PickleValue *push(Machine *m, PickleKind kind) {
    PickleValue *v = vec_add(m->perm, &m->out->value);
    *v = (PickleValue){.kind = kind};
    vec_push(m->perm, &m->stack, m->out->value.n - 1);
    return v;
}

// The lowest place that belongs to what is above the last mark.
static uint32_t floor_of(const Machine *m) {
    return m->mark.n ? m->mark.at[m->mark.n - 1] : 0;
}

static GanStatus too_few(void) {
    return fail(GAN_ERR_INPUT, "its pickle underflows the stack");
}

static GanStatus pop(Machine *m, uint32_t *out) {
    if (m->stack.n <= floor_of(m))
        return too_few();
    *out = m->stack.at[--m->stack.n];
    return GAN_OK;
}

static GanStatus top(const Machine *m, uint32_t *out) {
    if (m->stack.n <= floor_of(m))
        return too_few();
    *out = m->stack.at[m->stack.n - 1];
    return GAN_OK;
}

static GanStatus drop_mark(Machine *m, uint32_t *from) {
    if (!m->mark.n)
        return fail(GAN_ERR_INPUT, "its pickle has no MARK where it needs one");
    *from = m->mark.at[--m->mark.n];
    return GAN_OK;
}

// Makes a value of the last n of the stack.
static GanStatus gather(Machine *m, PickleKind kind, uint32_t n) {
    if (m->stack.n - floor_of(m) < n)
        return too_few();
    uint32_t from = m->stack.n - n;
    PickleValue v = {.kind = kind};
    for (uint32_t i = from; i < m->stack.n; i++)
        vec_push(m->perm, &v.item, m->stack.at[i]);
    m->stack.n = from;
    *push(m, kind) = v;
    return GAN_OK;
}

static GanStatus gather_to_mark(Machine *m, PickleKind kind) {
    uint32_t from = 0;
    TRY(drop_mark(m, &from));
    return gather(m, kind, m->stack.n - from);
}

// The last n of the stack, into the value below them.
static GanStatus put_in(Machine *m, uint32_t n, bool entries) {
    uint32_t into = 0;
    if (m->stack.n - floor_of(m) < n)
        return too_few();
    uint32_t from = m->stack.n - n;
    m->stack.n = from;
    TRY(top(m, &into));
    PickleValue *v = &m->out->value.at[into];
    if (entries && n % 2)
        return fail(GAN_ERR_INPUT, "its pickle has a key without a value");
    for (uint32_t i = from; i < from + n; i++)
        if (entries)
            vec_push(m->perm, &v->entry, m->stack.at[i]);
        else
            vec_push(m->perm, &v->item, m->stack.at[i]);
    return GAN_OK;
}

static GanStatus put_all_in(Machine *m, bool entries) {
    uint32_t from = 0;
    TRY(drop_mark(m, &from));
    return put_in(m, m->stack.n - from, entries);
}

// --- instructions --------------------------------------------------------------------------------

static GanStatus push_text(Machine *m, uint32_t size_of_length) {
    Str text;
    TRY(take_sized(m, size_of_length, &text));
    push(m, PickleText)->text = text;
    return GAN_OK;
}

static GanStatus push_whole(Machine *m, uint32_t size, bool is_signed) {
    uint64_t x = 0;
    TRY(take_count(m, size, &x));
    if (is_signed && x >> (8 * size - 1) & 1 && size < 8)
        x |= UINT64_MAX << 8 * size;
    push(m, PickleWhole)->whole = (int64_t)x;
    return GAN_OK;
}

// Longer ones than fit are kept as their bytes: PyTorch begins its old files with one.
static GanStatus push_long(Machine *m, uint32_t size_of_length) {
    uint64_t n = 0;
    Str bytes;
    TRY(take_count(m, size_of_length, &n));
    if (n == 0)
        return push(m, PickleWhole), GAN_OK;
    if (n <= 8)
        return push_whole(m, (uint32_t)n, true);
    TRY(take(m, n, &bytes));
    push(m, PickleText)->text = bytes;
    return GAN_OK;
}

static GanStatus push_plain(Machine *m, uint32_t bytes) {
    Str skipped;
    TRY(take(m, bytes, &skipped));
    push(m, PickleNone);
    return GAN_OK;
}

static GanStatus push_global(Machine *m, Str module, Str name) {
    push(m, PickleGlobal)->text = str_format(m->perm, "%.*s %.*s", SARG(module), SARG(name));
    return GAN_OK;
}

static GanStatus push_global_lines(Machine *m) {
    Str module, name;
    TRY(take_line(m, &module));
    TRY(take_line(m, &name));
    return push_global(m, module, name);
}

static GanStatus push_global_of_stack(Machine *m) {
    uint32_t name = 0, module = 0;
    TRY(pop(m, &name));
    TRY(pop(m, &module));
    return push_global(m, m->out->value.at[module].text, m->out->value.at[name].text);
}

// Calls what is below its arguments: that and they are what is noted.
static GanStatus call(Machine *m) {
    uint32_t arguments = 0, called = 0;
    TRY(pop(m, &arguments));
    TRY(pop(m, &called));
    PickleValue v = {.kind = PickleCall};
    vec_push(m->perm, &v.item, called);
    for (uint32_t i = 0; i < m->out->value.at[arguments].item.n; i++)
        vec_push(m->perm, &v.item, m->out->value.at[arguments].item.at[i]);
    *push(m, PickleCall) = v;
    return GAN_OK;
}

static GanStatus build(Machine *m) {
    uint32_t state = 0, value = 0;
    TRY(pop(m, &state));
    TRY(top(m, &value));
    m->out->value.at[value].state = state;
    return GAN_OK;
}

static GanStatus memo_put(Machine *m, uint64_t key) {
    uint32_t value = 0;
    TRY(top(m, &value));
    map_put(m->perm, &m->memo, key + 1, value + 1);
    return GAN_OK;
}

static GanStatus memo_put_sized(Machine *m, uint32_t size) {
    uint64_t key = 0;
    TRY(take_count(m, size, &key));
    return memo_put(m, key);
}

static GanStatus memo_get(Machine *m, uint32_t size) {
    uint64_t key = 0;
    TRY(take_count(m, size, &key));
    uint32_t value = map_find(&m->memo, key + 1);
    if (!value)
        return fail(GAN_ERR_INPUT, "its pickle reads a memo entry that was not written");
    vec_push(m->perm, &m->stack, value - 1);
    return GAN_OK;
}

static GanStatus mark(Machine *m) {
    if (m->mark.n == MarkMost)
        return fail(GAN_ERR_INPUT, "its pickle is nested too deeply");
    vec_push(m->perm, &m->mark, m->stack.n);
    return GAN_OK;
}

static GanStatus pop_one(Machine *m) {
    uint32_t value = 0;
    if (m->mark.n && m->stack.n == floor_of(m))
        return drop_mark(m, &value);
    return pop(m, &value);
}

static GanStatus pop_mark(Machine *m) {
    return drop_mark(m, &m->stack.n);
}

static GanStatus skip(Machine *m, uint32_t bytes) {
    Str skipped;
    return take(m, bytes, &skipped);
}

static GanStatus push_truth(Machine *m, bool x) {
    push(m, PickleWhole)->whole = x;
    return GAN_OK;
}

// Does one instruction other than the last.
static GanStatus step(Machine *m, uint8_t code) {
    switch (code) {
#define CODE(byte, name, does)                                                                     \
    case byte:                                                                                     \
        return does;
#include "pickle.def"
#undef CODE
    }
    return fail(GAN_ERR_INPUT, "its pickle has an opcode 0x%02x that is not supported", code);
}

GanStatus pickle_read(Arena *perm, Str bytes, Pickle *out) {
    *out = (Pickle){0};
    Machine m = {.perm = perm, .bytes = bytes, .out = out};
    vec_push(perm, &out->value, (PickleValue){0});
    for (;;) {
        Str code;
        TRY(take(&m, 1, &code));
        if (*code.ptr == '.') // STOP
            break;
        TRY(step(&m, (uint8_t)*code.ptr));
    }
    TRY(pop(&m, &out->root));
    out->bytes = m.at;
    return GAN_OK;
}
