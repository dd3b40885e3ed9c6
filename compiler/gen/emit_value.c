// emit_value.c - values as text: constants, loads, value columns, bounds (emit.h).
#include "emit.h"

#include "half.h"

#include <assert.h>
#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

enum { SmallNumber = 16 }; // below, real numbers are written out

Text *emit_line(Emit *e) {
    for (int i = 0; i < e->depth; i++)
        text_put(e->t, STR("    "));
    return e->t;
}

void emit_open(Emit *e) {
    text_put(e->t, STR(" {\n"));
    e->depth++;
}

void emit_close(Emit *e) {
    e->depth--;
    text_put(emit_line(e), STR("}\n"));
}

const char *emit_call(Emit *e, const char *function) {
    text_fmt(e->t, *function ? "%s(" : "%s", function);
    return *function ? ")" : "";
}

// --- values --------------------------------------------------------------------------------------

// Multiples of a half are literals, since compilers simplify products with 1 or 2; others are
// arguments.
static bool written_out(double x) {
    return 2 * x == floor(2 * x) && fabs(x) < SmallNumber;
}

// As an argument: in the format that the kernel computes in, so that no thread converts it.
static int64_t real_bits(const Emit *e, double x) {
    return e->real == DtF64 ? (int64_t)gan_bits_f64(x) : (int64_t)gan_bits_f32((float)x);
}

// The declaration of real argument `number`, whose bits are `word`.
void emit_real(Emit *e, uint32_t number, Str word) {
    text_fmt(e->t,
             e->real == DtF64 ? "const double r%u = gan_f64_bits((uint64_t)%.*s)"
                              : "const float r%u = gan_f32_bits((uint32_t)%.*s)",
             number, SARG(word));
    emit_end_number(e, number);
}

// Is the text an expression up to an operator?
static bool ends_in_operator(const Text *t) {
    size_t n = t->n;
    while (n && t->at[n - 1] == ' ')
        n--;
    return n && strchr("+-*/", t->at[n - 1]);
}

static void put_number(Emit *e, Dtype t, double x) {
    const char *f = t == DtF64 ? "" : "f";
    if (written_out(x)) {
        text_fmt(e->t, signbit(x) && ends_in_operator(e->t) ? "(%.1f%s)" : "%.1f%s", x, f);
        return;
    }
    double rounded = t == DtF64 ? x : (double)(float)x;
    text_fmt(e->t, "r%s", emit_num(e, RoleReal, real_bits(e, rounded)).ptr + 1);
}

// The function that rounds a value to its type where it is computed, stored or not; "": none.
static const char *rounding(const Value *v) {
    const char *function = v->op == OpCast ? words_c.round[v->dtype] : NULL;
    return function ? function : "";
}

// Do the bounds need no test here, in a loop that was unswitched on them?
static bool is_known(const Emit *e, const Value *v) {
    return e->known && e->known[v->bounds];
}

// Looks through copies and decided selections: the value that is written for `id`.
static uint32_t source_of(const Emit *e, uint32_t id) {
    for (;;) {
        const Value *v = &e->n->value.at[id];
        if (v->kind == ValueSelect && is_known(e, v)) {
            id = e->holds[v->bounds] ? v->in[0] : v->in[1];
            continue;
        }
        if (v->kind != ValueEw || strcmp(op_info[v->op].value, "a") != 0 || *rounding(v) ||
            strcmp(words_c.compute[v->dtype], words_c.compute[e->n->value.at[v->in[0]].dtype]) != 0)
            return id;
        id = v->in[0];
    }
}

// The value that a store writes: it converts, so a conversion to its type is skipped.
uint32_t emit_stored(const Emit *e, const Store *s) {
    const Value *v = &e->n->value.at[s->value];
    bool itself = v->kind == ValueEw && *rounding(v) && v->dtype == nest_dtype(e->n, s->arg);
    return source_of(e, itself ? v->in[0] : s->value);
}

// An element of a pack that needs no conversion has a name already.
static bool is_element(const Emit *e, const Value *v) {
    return v->kind == ValueLoad && v->pack && !*words_c.load[nest_dtype(e->n, v->arg)];
}

// And so has what is accumulated as it is.
static bool is_accumulator(const Emit *e, const Value *v) {
    return v->kind == ValueResult && e->n->reduce.at[v->arg].kind != ReduceSquares;
}

uint32_t emit_copied_pack(const Emit *e, const Store *s) {
    uint32_t id = emit_stored(e, s);
    const Value *v = &e->n->value.at[id];
    bool whole = s->pack && is_element(e, v) && v->pack < LevelPack;
    return whole && nest_dtype(e->n, v->arg) == nest_dtype(e->n, s->arg) ? id : NONE;
}

void emit_pack_name(Emit *e, uint32_t id) {
    bool one_of = e->part != StepWhole && e->n->value.at[id].pack == LevelStep;
    text_fmt(e->t, one_of ? "p%u[k]" : "p%u", id);
}

const char *emit_if_named(const Emit *e) {
    return e->part == StepWhole ? "" : IF_NAMED;
}

void emit_ref(Emit *e, uint32_t id) {
    id = source_of(e, id);
    const Value *v = &e->n->value.at[id];
    if (v->kind == ValueNumber) {
        put_number(e, v->dtype, v->number);
    } else if (is_element(e, v)) {
        emit_pack_name(e, id);
        text_put(e->t, STR(".at[l]"));
    } else if (is_accumulator(e, v)) {
        e->acc(e, 's', v->arg);
    } else {
        text_fmt(e->t, v->once ? "v%u.at[l]" : "v%u", id);
    }
}

// A function of a value column: the prelude's where it has one for float, else the C library's,
// whose names C and CUDA C++ share.
static void put_math(Emit *e, Str word, bool f64) {
    for (const MathName *m = words_c.math; !f64 && m->row; m++)
        if (str_eq(word, str_c(m->row))) {
            text_put(e->t, str_c(m->f32));
            return;
        }
    text_fmt(e->t, "%.*s%s", SARG(word), f64 ? "" : "f");
}

// --- value columns -------------------------------------------------------------------------------

static uint32_t operand(const Value *v, char name) { // by its letter in the value column
    return v->in[name - 'a'];
}

// How a value column tests a truth value, which is a number.
static const Str test = {" != K(0)", sizeof " != K(0)" - 1};

static bool is_tested(Str after) {
    return str_starts(after, test);
}

// The column of a comparison without its K( ), which is written for `id` where it is tested. Empty:
// it is no comparison.
static Str condition(const Emit *e, uint32_t id) {
    const Value *v = &e->n->value.at[id];
    Str c = v->kind == ValueEw ? str_c(op_info[v->op].value) : (Str){0};
    return str_starts(c, STR("K(")) && str_find(c, ')') + 1 == c.len ? str_sub(c, 2, c.len - 1)
                                                                     : (Str){0};
}

// The next word of a column, or a single sign.
static Str word_of(Str c) {
    size_t n = 0;
    while (n < c.len && (isalnum((unsigned char)c.ptr[n]) || c.ptr[n] == '_'))
        n++;
    return str_sub(c, 0, n ? n : 1);
}

static void put_column(Emit *e, const Value *v, Str c);

// Up to the bracket that closes the first one.
static Str group_of(Str c) {
    size_t n = 0;
    for (int depth = 0; n < c.len; n++) {
        depth += (c.ptr[n] == '(') - (c.ptr[n] == ')');
        if (c.ptr[n] == ')' && !depth)
            break;
    }
    return str_sub(c, 0, n + 1);
}

// The factor that a column begins with: a word, a call or an expression in brackets.
static Str factor_of(Str c) {
    Str word = word_of(c), after = str_sub(c, word.len, c.len);
    return *c.ptr == '(' || str_starts(after, STR("(")) ? group_of(c) : word;
}

// Is the divisor a literal power of two? Then the product with *inverse is exactly the quotient, in
// a tenth of the instructions.
static bool divides_exactly(const Emit *e, const Value *v, Str below, double *inverse) {
    int exponent;
    if (below.len != 1 || !islower((unsigned char)*below.ptr))
        return false;
    const Value *by = &e->n->value.at[source_of(e, operand(v, *below.ptr))];
    if (by->kind != ValueNumber || !written_out(by->number) ||
        fabs(frexp(by->number, &exponent)) != 0.5)
        return false;
    *inverse = 1 / by->number;
    return true;
}

// The value that is divided by, where it is one.
static uint32_t divisor(const Emit *e, const Value *v, Str below) {
    bool operand_alone = below.len == 1 && islower((unsigned char)*below.ptr);
    return operand_alone ? source_of(e, operand(v, *below.ptr)) : NONE;
}

// A division, where the dialect has a function for it. Returns the length of the text it replaces,
// 0: there is no division here. The dividend is a factor: columns bracket products.
static size_t put_division(Emit *e, const Value *v, Str c) {
    const Str over = STR(" / ");
    Str above = factor_of(c), rest = str_sub(c, above.len, c.len);
    if (!e->d->divide || v->dtype == DtF64 || !str_starts(rest, over))
        return 0;
    Str below = factor_of(str_sub(rest, over.len, rest.len));
    bool bare = *below.ptr != '(';
    double inverse;
    size_t length = above.len + over.len + below.len;
    if (divides_exactly(e, v, below, &inverse)) {
        static_assert(SmallNumber <= 16, "an eighth has three decimals, a sixteenth has four");
        bool whole = length == strlen(op_info[v->op].value);
        text_put(e->t, whole ? STR("") : STR("("));
        put_column(e, v, above);
        text_fmt(e->t, whole ? " * %.3ff" : " * %.3ff)", inverse);
        return length;
    }
    uint32_t by = divisor(e, v, below);
    text_fmt(e->t, by != NONE && e->inverses[by] ? "%s_by(" : "%s(", e->d->divide);
    put_column(e, v, above);
    text_put(e->t, STR(", "));
    put_column(e, v, bare ? below : str_sub(below, 1, below.len - 1));
    if (by != NONE && e->inverses[by])
        text_fmt(e->t, ", d%u.at[l]", by);
    text_char(e->t, ')');
    return length;
}

// K(...): a number of the value's type, or a comparison as one, or, where it is tested, a
// comparison. Returns the length of the text it replaces.
static size_t put_k(Emit *e, const Value *v, Str c) {
    Str inner = str_sub(c, 2, str_find(c, ')'));
    size_t n = inner.len + 3;
    double x;
    if (str_to_double(inner, &x)) {
        put_number(e, v->dtype, x);
        return n;
    }
    if (is_tested(str_sub(c, n, c.len))) {
        put_column(e, v, inner);
        return n + test.len;
    }
    text_fmt(e->t, "(%s)(", words_c.compute[v->dtype]);
    put_column(e, v, inner);
    text_char(e->t, ')');
    return n;
}

// An operand; a comparison that is tested as such. Returns as put_k does.
static size_t put_operand(Emit *e, const Value *v, Str c) {
    uint32_t id = source_of(e, operand(v, *c.ptr));
    Str inner = is_tested(str_sub(c, 1, c.len)) ? condition(e, id) : (Str){0};
    if (!inner.len) {
        emit_ref(e, id);
        return 1;
    }
    put_column(e, &e->n->value.at[id], inner);
    return 1 + test.len;
}

// A value column with operands, numbers and functions substituted.
static void put_column(Emit *e, const Value *v, Str c) {
    char before = 0; // the last sign that is no blank
    while (c.len) {
        Str word = word_of(c);
        size_t n = word.len, divided = put_division(e, v, c);
        assert(!divided || before != '*');
        assert(divided || *word.ptr != '/' || !e->d->divide || v->dtype == DtF64); // none is missed
        bool letter = isalpha((unsigned char)*word.ptr);
        if (divided)
            n = divided;
        else if (letter && n == 1 && *word.ptr == 'K')
            n = put_k(e, v, c);
        else if (letter && n == 1)
            n = put_operand(e, v, c);
        else if (letter)
            put_math(e, word, v->dtype == DtF64);
        else
            text_put(e->t, word);
        before = c.ptr[n - 1] == ' ' ? before : c.ptr[n - 1];
        c = str_sub(c, n, c.len);
    }
}

// Marks the values that a value's text names.
static void name_operands(const Emit *e, const Value *v, bool *named) {
    Str c = v->kind == ValueEw ? str_c(op_info[v->op].value) : STR("");
    for (uint32_t i = 0; i < 3 && v->kind != ValueEw; i++) // that as its column says
        if (v->in[i] != NONE)
            named[source_of(e, v->in[i])] = true;
    for (Str word; c.len; c = str_sub(c, word.len, c.len)) {
        word = word_of(c);
        if (word.len != 1 || !islower((unsigned char)*word.ptr))
            continue;
        uint32_t id = source_of(e, operand(v, *word.ptr));
        if (is_tested(str_sub(c, 1, c.len)) && condition(e, id).len)
            name_operands(e, &e->n->value.at[id], named);
        else
            named[id] = true;
    }
}

bool *emit_named(const Emit *e) {
    const Nest *n = e->n;
    bool *named = arena_array(e->t->arena, bool, n->value.n);
    for (uint32_t i = 0; i < n->store.n; i++)
        named[emit_stored(e, &n->store.at[i])] = true;
    for (uint32_t i = 0; i < n->derived.n; i++)
        named[emit_stored(e, &n->derived.at[i])] = true;
    for (uint32_t i = 0; i < n->reduce.n; i++)
        named[source_of(e, n->reduce.at[i].value)] = true;
    if (n->indexed)
        named[source_of(e, n->row)] = true;
    for (uint32_t i = n->value.n; i-- > 0;) // operands come first
        if (named[i])
            name_operands(e, &n->value.at[i], named);
    return named;
}

bool *emit_guards(const Emit *e) {
    const Nest *n = e->n;
    bool *guards = arena_array(e->t->arena, bool, n->bounds.n);
    for (uint32_t i = 0; i < n->value.n; i++) {
        const Value *v = &n->value.at[i];
        if (e->named[i] && (v->kind == ValueLoad || v->kind == ValueSelect) && !is_known(e, v))
            guards[v->bounds] = v->bounds > 0;
    }
    return guards;
}

bool *emit_inverses(const Emit *e) {
    const Nest *n = e->n;
    bool *inverses = arena_array(e->t->arena, bool, n->value.n);
    for (uint32_t i = 0; i < n->value.n; i++) {
        const Value *v = &n->value.at[i];
        Str c = v->kind == ValueEw ? str_c(op_info[v->op].value) : (Str){0};
        if (!e->named[i] || v->dtype == DtF64 || !e->d->divide)
            continue;
        for (size_t at = 0; (at += str_find(str_sub(c, at, c.len), '/')) + 2 < c.len; at += 2) {
            uint32_t by = divisor(e, v, factor_of(str_sub(c, at + 2, c.len)));
            if (by != NONE && n->value.at[by].once)
                inverses[by] = true;
        }
    }
    return inverses;
}

// --- loads ---------------------------------------------------------------------------------------

static void put_element(Emit *e, const Value *v) {
    emit_ix(e, v->at);
    if (v->in[0] != NONE)
        text_fmt(e->t, " + (%s)v%u*%.*s", e->index, v->in[0],
                 SARG(emit_num(e, RoleStride, v->row)));
}

static void put_load(Emit *e, uint32_t id) {
    const Value *v = &e->n->value.at[id];
    bool known = is_known(e, v), guarded = v->bounds && !known;
    if (known && !e->holds[v->bounds]) {
        text_put(e->t, STR("0"));
        return;
    }
    const char *load = words_c.load[nest_dtype(e->n, v->arg)];
    if (v->pack) {
        const char *end = emit_call(e, load);
        emit_pack_name(e, id);
        text_fmt(e->t, ".at[l]%s", end);
        return;
    }
    bool choice = guarded && !e->d->load_if, call = guarded && !choice;
    if (choice)
        text_fmt(e->t, "g%u ? ", v->bounds);
    const char *end = emit_call(e, load);
    if (call)
        text_fmt(e->t, "%s(g%u, &", e->d->load_if, v->bounds);
    text_fmt(e->t, "a%u[", v->arg);
    put_element(e, v);
    text_fmt(e->t, "]%s%s%s", call ? ")" : "", end, choice ? " : 0" : "");
}

// The pack that a value is one element of. The index is summed in its own type: of a pointer
// advanced term by term every term is widened to 64 bits, which costs a kernel of many loads a
// tenth to a fifth of its time in ptxas, and up to a quarter of its registers.
static void put_pack(Emit *e, uint32_t id) {
    const Value *v = &e->n->value.at[id];
    uint32_t pack = e->n->team.pack;
    emit_line(e);
    if (e->part != StepLoads)
        text_fmt(e->t, "const gan_pack<%s, %u> ", words_c.storage[nest_dtype(e->n, v->arg)], pack);
    emit_pack_name(e, id);
    text_put(e->t, STR(" = "));
    if (v->bounds)
        text_fmt(e->t, "gan_load_if<%u>(g%u, &a%u[", pack, v->bounds, v->arg);
    else
        text_fmt(e->t, "gan_load<%u>(&a%u[", pack, v->arg);
    put_element(e, v);
    text_put(e->t, STR("]);\n"));
}

static void put_draw(Emit *e, const Value *v) {
    bool f64 = v->dtype == DtF64;
    e->counters = true;
    text_fmt(e->t, "%s(c->seed, %.*s, c->step, c->round, %s",
             (f64 ? words_c.draw64 : words_c.draw32)[v->dist], SARG(emit_num(e, RoleSite, v->site)),
             v->batched ? "c->sample0 + " : "");
    emit_ix(e, v->sample);
    text_put(e->t, STR(", "));
    emit_ix(e, v->at);
    if (v->dist == DistCategorical) {
        text_put(e->t, STR(", "));
        put_number(e, v->dtype, v->number);
    }
    text_put(e->t, STR(")"));
}

static void put_value(Emit *e, uint32_t id) {
    const Value *v = &e->n->value.at[id];
    switch (v->kind) {
    case ValueNumber:
        put_number(e, v->dtype, v->number);
        break;
    case ValueIndex:
        text_fmt(e->t, "(%s)(", words_c.compute[v->dtype]);
        emit_ix(e, v->at);
        if (v->sample0) {
            e->counters = true;
            text_fmt(e->t, " + c->sample0*%.*s", SARG(emit_num(e, RoleStride, v->sample0)));
        }
        text_put(e->t, STR(")"));
        break;
    case ValueLoad:
        put_load(e, id);
        break;
    case ValueEw: {
        const char *end = emit_call(e, rounding(v));
        put_column(e, v, str_c(op_info[v->op].value));
        text_put(e->t, str_c(end));
        break;
    }
    case ValueDraw:
        put_draw(e, v);
        break;
    case ValueSelect:
        text_fmt(e->t, "g%u ? ", v->bounds);
        emit_ref(e, v->in[0]);
        text_put(e->t, STR(" : "));
        emit_ref(e, v->in[1]);
        break;
    case ValueRow:
        text_fmt(e->t, "(%s)gan_row(", words_c.compute[v->dtype]);
        emit_ref(e, v->in[0]);
        text_fmt(e->t, ", %.*s)", SARG(emit_num(e, RoleBound, v->rows)));
        break;
    case ValueResult:
        emit_squares(e, v->arg);
        break;
    }
}

static void put_bounds(Emit *e, uint32_t id) {
    const Bounds *b = &e->n->bounds.at[id];
    uint32_t tests = 0, written = 0;
    for (uint32_t i = 0; i < 2 * b->n; i++)
        tests += emit_tests(e, &b->b[i / 2], i % 2);
    text_fmt(emit_line(e), "%sconst %s g%u = ", emit_if_named(e), e->d->test, id);
    for (uint32_t i = 0; i < 2 * b->n; i++) {
        if (!emit_tests(e, &b->b[i / 2], i % 2))
            continue;
        text_put(e->t, written++ ? STR(" & ") : STR(""));
        text_put(e->t, tests > 1 ? STR("(") : STR(""));
        emit_test(e, &b->b[i / 2], i % 2);
        text_put(e->t, tests > 1 ? STR(")") : STR(""));
    }
    text_put(e->t, STR(";\n"));
}

// Everything that is known from this level on.
void emit_level(Emit *e, uint32_t level) {
    const Nest *n = e->n;
    emit_index_names(e, level);
    for (uint32_t i = 1; i < n->bounds.n; i++)
        if (n->bounds_level.at[i] == level && n->bounds.at[i].n && e->guards[i])
            put_bounds(e, i);
    for (uint32_t i = 0; i < n->value.n; i++) {
        const Value *v = &n->value.at[i];
        bool loaded = e->part == StepRest && level == LevelStep;
        if (v->pack && v->pack == level && e->named[i] && !loaded)
            put_pack(e, i);
        if (v->level == level && e->named[i] && e->part != StepLoads && v->kind != ValueNumber &&
            !v->once && !is_element(e, v) && !is_accumulator(e, v)) {
            text_fmt(emit_line(e), "const %s v%u = ", words_c.compute[v->dtype], i);
            put_value(e, i);
            text_put(e->t, STR(";\n"));
        }
    }
}

// Declares the pack of a value that is computed for the unit, or of its inverse; or begins to set
// an element of it.
static void put_once(Emit *e, const char *type, char name, uint32_t id, bool declare) {
    emit_line(e);
    if (declare)
        text_fmt(e->t, "gan_pack<%s, %u> %c%u;\n", type, e->n->team.pack, name, id);
    else
        text_fmt(e->t, "%c%u.at[l] = ", name, id);
}

void emit_once(Emit *e, bool declare) {
    for (uint32_t i = 0; i < e->n->value.n; i++) {
        const Value *v = &e->n->value.at[i];
        if (!v->once || !e->named[i])
            continue;
        if (!is_element(e, v)) {
            put_once(e, words_c.compute[v->dtype], 'v', i, declare);
            if (!declare) {
                put_value(e, i);
                text_put(e->t, STR(";\n"));
            }
        }
        if (e->inverses[i]) {
            put_once(e, "gan_inverse", 'd', i, declare);
            if (!declare) {
                text_put(e->t, STR("gan_inverse_of("));
                emit_ref(e, i);
                text_put(e->t, STR(");\n"));
            }
        }
    }
}
