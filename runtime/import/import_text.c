// import_text.c - expressions as they grow, the variables that hold them, and the names of weights.
//
// A value that one node reads stays a text and becomes part of the reader's: x |> conv |> relu. One
// that several read, or whose line would be too long, gets a variable. A variable's name is free
// again when all texts that mention it are statements.
#include "import.h"

#include <stdlib.h>

enum { LineMost = 100, StackMost = 8 };

// --- shapes --------------------------------------------------------------------------------------

Shape shape_of(uint32_t rank, const int64_t *dim, int batch) {
    Shape s = {.rank = rank, .batch = batch};
    for (uint32_t i = 0; i < rank; i++)
        s.dim[i] = dim[i];
    return s;
}

int64_t product_of(const int64_t *x, uint32_t n) {
    int64_t p = 1;
    for (uint32_t i = 0; i < n; i++) {
        if (x[i] < 0)
            return -1;
        p = x[i] && p > INT64_MAX / x[i] ? INT64_MAX : p * x[i];
    }
    return p;
}

int64_t rest_of(const int64_t *dim, uint32_t n, uint32_t axis, int64_t all) {
    int64_t before = product_of(dim, axis), behind = product_of(dim + axis + 1, n - axis - 1),
            known = product_of((int64_t[]){before, behind}, 2);
    return known > 0 ? all / known : 0;
}

bool has_extents(const Shape *s) {
    for (uint32_t i = 0; i < s->rank; i++)
        if (s->dim[i] < 1)
            return false;
    return product_of(s->dim, s->rank) <= ExtentMost;
}

int64_t extent_of(double x) {
    const double beyond = (double)(ExtentMost + 1);
    return (int64_t)fmax(-beyond, fmin(x, beyond));
}

Dims shape_own(const Shape *s) {
    Dims d = {0};
    for (uint32_t i = 0; i < s->rank; i++)
        if ((int)i != s->batch || s->dim[i] != 1)
            d.at[d.n++] = s->dim[i];
    return d;
}

int shape_own_axis(const Shape *s, uint32_t axis) {
    bool dropped = s->batch >= 0 && s->dim[s->batch] == 1;
    if (dropped && (int)axis == s->batch)
        return -1;
    return (int)axis - (dropped && (int)axis > s->batch);
}

bool same_dims(const Dims *a, const Dims *b) {
    return a->n == b->n && !memcmp(a->at, b->at, a->n * sizeof *a->at);
}

Str dims_text(Arena *a, const Dims *d) {
    Text t = {.arena = a};
    for (uint32_t i = 0; i < d->n; i++)
        text_fmt(&t, "%s%lld", i ? ", " : "", (long long)d->at[i]);
    return text_str(&t);
}

// --- numbers -------------------------------------------------------------------------------------

// The shortest that is the same number in f32.
Str number_text(Arena *a, double x) {
    char s[40];
    if (x == floor(x) && fabs(x) < 1e7)
        return str_format(a, "%.0f", x);
    if (isnan(x) || isinf(x)) // as large as f32 has; nothing is NaN
        return isnan(x) ? STR("(0/0)") : x > 0 ? STR("3.4e38") : STR("-3.4e38");
    for (int digits = 1; digits <= 9; digits++) {
        snprintf(s, sizeof s, "%.*g", digits, x);
        if (strtof(s, NULL) == (float)x)
            break;
    }
    char *zero = strstr(s, "e-0"); // 1e-06
    if (zero)
        memmove(zero + 2, zero + 3, strlen(zero + 3) + 1);
    return str_copy(a, str_c(s));
}

// A name or a number: as short wherever it stands.
static bool plain(Str text) {
    for (size_t i = 0; i < text.len; i++)
        if (text.ptr[i] == ' ' || text.ptr[i] == '(')
            return false;
    return true;
}

// --- names ---------------------------------------------------------------------------------------

static uint64_t name_key(Str name) {
    return hash64(name.ptr, name.len, 11);
}

bool name_taken(const Names *names, Str name) {
    return map_find(names, name_key(name)) != 0;
}

void name_take(Import *m, Names *names, Str name) {
    map_put(m->a, names, name_key(name), 2);
}

Str name_unique(Import *m, Names *names, Str name) {
    uint32_t first = map_find(names, name_key(name)), n = first;
    Str found = name;
    for (; name_taken(names, found); n++)
        found = format(m, "%.*s_%u", SARG(name), n);
    name_take(m, names, found);
    if (first)
        map_put(m->a, names, name_key(name), n);
    return found;
}

Str word_of(Import *m, Str name, const char *otherwise) {
    Text t = {.arena = m->a};
    for (size_t i = 0; i < name.len; i++) {
        char c = name.ptr[i];
        bool letter = ((c | 32) >= 'a' && (c | 32) <= 'z') || c == '_';
        bool digit = c >= '0' && c <= '9';
        if (letter || (digit && t.n))
            text_char(&t, c);
        else if (t.n && t.at[t.n - 1] != '_')
            text_char(&t, '_');
    }
    Str word = t.n ? text_str(&t) : str_c(otherwise);
    if (name_taken(&m->taken, word))
        word = format(m, "%.*s_", SARG(word));
    return name_unique(m, &m->taken, word);
}

// --- variables -----------------------------------------------------------------------------------

// A letter, then letters with numbers.
static Str new_name(Import *m) {
    static const char pool[] = "habcdefgpqrstuvwyzijklmno";
    for (;;) {
        uint32_t letter = m->names % (sizeof pool - 1), round = m->names / (sizeof pool - 1) + 1;
        char c = pool[letter];
        Str name = round > 1 ? format(m, "%c%u", c, round) : format(m, "%c", c);
        m->names++;
        if (!name_taken(&m->taken, name)) {
            name_take(m, &m->taken, name);
            return name;
        }
    }
}

static bool may_reuse(const Variable *v) {
    return !v->refs && !v->kept;
}

static uint32_t free_variable(Import *m, const Refs *left) {
    for (uint32_t i = 0; i < left->n; i++)
        if (may_reuse(&m->variable.at[left->at[i]]))
            return left->at[i];
    for (; m->unused < m->variable.n; m->unused++)
        if (may_reuse(&m->variable.at[m->unused]))
            return m->unused;
    vec_push(m->a, &m->variable, ((Variable){.name = new_name(m)}));
    return m->variable.n - 1;
}

void variable_drop(Import *m, uint32_t variable) {
    if (!--m->variable.at[variable].refs && variable < m->unused)
        m->unused = variable;
}

static void release(Import *m, const Refs *refs) {
    for (uint32_t i = 0; i < refs->n; i++)
        variable_drop(m, refs->at[i]);
}

static void append(Import *m, Refs *to, const Refs *from) {
    for (uint32_t i = 0; i < from->n; i++)
        vec_push(m->a, to, from->at[i]);
}

// To a variable, where it is none.
static void bind_value(Import *m, Value *v) {
    if (v->kind != ValueText || v->where || m->error.len)
        return;
    if (v->refs.n == 1 && str_eq(v->text, m->variable.at[v->refs.at[0]].name)) {
        v->where = v->refs.at[0] + 1; // another shape of it
        m->variable.at[v->where - 1].refs += v->uses - 1;
        return;
    }
    release(m, &v->refs);
    uint32_t at = free_variable(m, &v->refs);
    m->variable.at[at].refs = v->uses;
    text_fmt(&m->body, "  %.*s = %.*s\n", SARG(m->variable.at[at].name), SARG(v->text));
    v->where = at + 1;
    v->refs = (Refs){0};
}

// --- results -------------------------------------------------------------------------------------

static bool give_as(Import *m, Value *v, Shape shape, Binding binding, Str text) {
    if (m->error.len)
        return false;
    if (!has_extents(&shape))
        return import_refuse(m, "its result has no elements, or more than memory holds");
    v->kind = ValueText;
    v->shape = shape;
    v->binding = binding;
    v->text = text;
    append(m, &v->refs, &m->refs);
    m->refs.n = 0;
    if (!v->uses)
        release(m, &v->refs);
    else if (v->uses > 1 || v->text.len > LineMost)
        bind_value(m, v);
    return true;
}

static Value *result(const Import *m, uint32_t k) {
    return value_find(m, m->node->out.at[k]);
}

bool import_give(Import *m, uint32_t k, Shape shape, Binding binding, Str text) {
    Value *v = k < m->node->out.n ? result(m, k) : NULL;
    return v ? give_as(m, v, shape, binding, text) : !m->error.len;
}

bool import_give_ints(Import *m, Shape shape, const double *x, const uint8_t *samples) {
    Value *v = result(m, 0);
    v->kind = ValueConstant;
    v->shape = shape;
    v->number = x;
    v->samples = samples;
    v->count = (size_t)product_of(shape.dim, shape.rank);
    v->state = true;
    return true;
}

// --- weights -------------------------------------------------------------------------------------

bool is_own(const Value *v) {
    return v && v->kind == ValueWeight && v->uses == 1;
}

// Letters, digits, dots and low lines.
static Str clean(Arena *a, Str name) {
    Text t = {.arena = a};
    size_t colon = name.len;
    while (colon > 0 && name.ptr[colon - 1] != ':') // "onnx::Conv_193"
        colon--;
    for (size_t i = colon; i < name.len; i++) {
        char c = name.ptr[i];
        bool word = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
        bool dot = c == '.' || c == '/';
        if (word || (t.n && t.at[t.n - 1] != '.'))
            text_char(&t, word ? c : dot ? '.' : '_');
    }
    while (t.n && t.at[t.n - 1] == '.')
        t.n--;
    return text_str(&t);
}

// PyTorch's names of nodes: "/layer1/layer1.0/conv1/Conv" is in layer1.0.conv1.
static Str scope_of_node(const Import *m) {
    Str path = m->node->name, last = {0};
    Text scope = {.arena = m->a};
    if (m->node->scope.len || !path.len || path.ptr[0] != '/')
        return m->node->scope;
    path = str_sub(path, 1, path.len);
    for (size_t end; (end = str_find(path, '/')) < path.len;) {
        Str part = str_sub(path, 0, end);
        bool below =
            last.len && part.len > last.len && str_starts(part, last) && part.ptr[last.len] == '.';
        if (below)
            scope.n -= last.len;
        else if (scope.n)
            text_char(&scope, '.');
        text_put(&scope, part);
        last = part;
        path = str_sub(path, end + 1, path.len);
    }
    return text_str(&scope);
}

static void store(Import *m, Str name, const Role *r) {
    const Value *v = r->value;
    Stored s = {.name = name,
                .tensor = v->kind == ValueWeight ? v->tensor : NULL,
                .number = v->number,
                .rank = r->rank ? r->rank : v->shape.rank,
                .transposed = r->transposed};
    memcpy(s.dim, r->rank ? r->dim : v->shape.dim, s.rank * sizeof *s.dim);
    if ((size_t)product_of(s.dim, s.rank) != (s.tensor ? s.tensor->count : v->count))
        import_refuse(m, "its weight %.*s has other extents", SARG(v->label));
    vec_push(m->a, &m->stored, s);
}

// What stands before ".weight"; empty: nothing does.
static Str before_word(Import *m, Str name, const char *word) {
    Str end = format(m, ".%s", word);
    return str_ends(name, end) ? clean(m->a, str_sub(name, 0, name.len - end.len)) : (Str){0};
}

Str layer_name(Import *m, const Role *role, uint32_t n) {
    Str stem = {0}, any = {0};
    for (uint32_t i = 0; i < n; i++) {
        if (!role[i].value)
            continue;
        if (!stem.len && role[i].value->kind == ValueWeight)
            stem = before_word(m, role[i].value->label, role[i].word);
        any = any.len ? any : clean(m->a, role[i].value->label);
    }
    if (!stem.len)
        stem = clean(m->a, scope_of_node(m));
    stem = name_unique(m, &m->stems, stem.len ? stem : any.len ? any : STR("layer"));
    for (uint32_t i = 0; i < n; i++)
        if (role[i].value) {
            store(m, format(m, "%.*s.%s", SARG(stem), role[i].word), &role[i]);
            role[i].value->uses = 0;
        }
    return stem;
}

static bool is_identifier(const Import *m, Str s) {
    bool fine = s.len > 2 && !(s.ptr[0] >= '0' && s.ptr[0] <= '9') && !name_taken(&m->taken, s);
    for (size_t i = 0; i < s.len; i++)
        fine = fine && ((s.ptr[i] >= '0' && s.ptr[i] <= '9') || s.ptr[i] == '_' ||
                        ((s.ptr[i] | 32) >= 'a' && (s.ptr[i] | 32) <= 'z'));
    return fine;
}

// A weight, or a constant too long to write, that no layer owns.
static void declare(Import *m, Value *v) {
    bool weight = v->kind == ValueWeight;
    Dims d = {.n = v->shape.rank};
    memcpy(d.at, v->shape.dim, sizeof d.at);
    Str size = dims_text(m->a, &d), name = clean(m->a, v->label);
    Role r = {"weight", v, false, 0, {0}};
    if (is_identifier(m, name) && !name_taken(&m->stems, name)) {
        text_fmt(&m->declared, "  %s %.*s : [%.*s] = 0\n", weight ? "param" : "state", SARG(name),
                 SARG(size));
        name_take(m, &m->taken, name);
        name_take(m, &m->stems, name);
        v->text = name;
        store(m, name, &r);
    } else {
        Str stem = before_word(m, v->label, "weight"), bias = before_word(m, v->label, "bias");
        bool is_bias = bias.len && !name_taken(&m->stems, bias);
        stem = stem.len && !name_taken(&m->stems, stem) ? stem : is_bias ? bias : name;
        is_bias = is_bias && str_eq(stem, bias);
        const char *word = !weight ? "constant" : is_bias ? "bias" : "weight";
        import_helper(m, word);
        stem = name_unique(m, &m->stems, stem.len ? stem : str_c(word));
        v->text = format(m, "named(%s([%.*s]), \"%.*s\")()", word, SARG(size), SARG(stem));
        store(m, format(m, "%.*s.%s", SARG(stem), word), &r);
    }
    v->kind = ValueText;
    v->binding = BindCall;
    v->state = false;
    if (v->uses > 1 && !plain(v->text))
        bind_value(m, v);
}

// --- constants -----------------------------------------------------------------------------------

static bool all_equal(const Value *v) {
    for (size_t i = 1; i < v->count; i++)
        if (v->number[i] != v->number[0])
            return false;
    return v->count > 0;
}

// from + step*arange(n), where that is what a vector holds; empty otherwise.
static Str counted_text(Import *m, const Value *v, Binding *binding) {
    double from = v->number[0], step = v->count > 1 ? v->number[1] - from : 0;
    if (v->count <= 3 || step != floor(step) || step == 0 || from != floor(from))
        return (Str){0};
    for (size_t i = 0; i < v->count; i++)
        if (v->number[i] != from + step * (double)i)
            return (Str){0};
    *binding = step != 1 ? (from != 0 ? BindSum : BindProduct) : BindCall;
    if (step == 1 && from != 0)
        return format(m, "arange(%.0f, %.0f)", from, from + (double)v->count);
    if (step == 1)
        return format(m, "arange(%zu)", v->count);
    Str times = format(m, "%.0f*arange(%zu)", step, v->count);
    return from != 0 ? format(m, "%.*s + %.0f", SARG(times), from) : times;
}

// Text of the constant; too long a one is declared.
static void write_constant(Import *m, Value *v) {
    Dims d = shape_own(&v->shape);
    Text t = {.arena = m->a};
    for (size_t i = 0; v->samples && i < v->count; i++)
        if (v->samples[i]) {
            import_refuse(m, "it computes with the number of samples");
            return;
        }
    Str counted = {0};
    Binding binding = BindCall;
    bool row = d.n == 1;
    if (row && v->count)
        counted = counted_text(m, v, &binding);
    if (!v->count) {
        import_refuse(m, "it has an operand without elements");
        return;
    }
    if (v->count > 1 && !counted.len && (!row || v->count > StackMost) && !all_equal(v)) {
        declare(m, v);
        return;
    }
    if (d.n == 0) {
        binding = v->number[0] < 0 ? BindSign : BindCall;
        text_put(&t, number_text(m->a, v->number[0]));
    } else if (counted.len) {
        text_put(&t, counted);
    } else if (all_equal(v)) {
        text_fmt(&t, "expand(%.*s, %.*s)", SARG(number_text(m->a, v->number[0])),
                 SARG(dims_text(m->a, &d)));
    } else {
        for (size_t i = 0; i < v->count; i++)
            text_fmt(&t, "%s%.*s", i ? ", " : "stack(", SARG(number_text(m->a, v->number[i])));
        text_char(&t, ')');
    }
    v->kind = ValueText;
    v->text = text_str(&t);
    v->binding = binding;
    if (v->uses > 1 && v->text.len > 16)
        bind_value(m, v);
}

// --- operands ------------------------------------------------------------------------------------

static void count(Import *m, uint32_t k, Value *v) {
    if (m->counted >> k & 1)
        return;
    m->counted |= 1u << k;
    if (v->where)
        vec_push(m->a, &m->refs, v->where - 1);
    else
        append(m, &m->refs, &v->refs);
}

static Str bound(Import *m, Str text, Binding binding, Binding least) {
    return binding < least ? format(m, "(%.*s)", SARG(text)) : text;
}

static void to_text(Import *m, Value *v) {
    if (v->kind == ValueWeight)
        declare(m, v);
    if (v->kind == ValueConstant)
        write_constant(m, v);
}

Str text_of(Import *m, uint32_t k, Binding least) {
    Value *v = import_operand(m, k);
    to_text(m, v);
    if (v->kind != ValueText)
        return (Str){0};
    bool long_pipe = v->binding == BindPipe && least > BindPipe;
    if (long_pipe || v->text.len > LineMost)
        bind_value(m, v);
    count(m, k, v);
    return v->where ? m->variable.at[v->where - 1].name : bound(m, v->text, v->binding, least);
}

Str name_of(Import *m, uint32_t k) {
    Value *v = import_operand(m, k);
    to_text(m, v);
    if (!plain(v->text))
        bind_value(m, v);
    return text_of(m, k, BindCall);
}

Str import_piped(Import *m, uint32_t k, const char *call, ...) {
    va_list args;
    va_start(args, call);
    Str to = str_vformat(m->a, call, args);
    va_end(args);
    bool pipe = import_operand(m, k)->binding == BindPipe; // h + h |> f may be meant otherwise
    Str x = text_of(m, k, pipe ? BindPipe : BindProduct);
    if (!plain(x))
        return format(m, "%.*s |> %.*s", SARG(x), SARG(to));
    size_t open = str_find(to, '(');
    Str rest = str_sub(to, open + 1, to.len);
    return open == to.len
               ? format(m, "%.*s(%.*s)", SARG(to), SARG(x))
               : format(m, "%.*s(%.*s, %.*s", SARG(str_sub(to, 0, open)), SARG(x), SARG(rest));
}

// All of an operand as extents of the result's axes: what the left-aligned broadcast needs.
static bool aligned_dims(Import *m, const Value *v, const Shape *to, Dims *out) {
    uint32_t missing = to->rank - v->shape.rank;
    bool dropped = to->batch >= 0 && to->dim[to->batch] == 1;
    *out = (Dims){0};
    if (v->shape.rank > to->rank)
        return import_refuse(m, "an operand has more axes than its result");
    if (v->shape.batch >= 0 && v->shape.batch + (int)missing != to->batch)
        return import_refuse(m, "its operands have the batch on different axes");
    for (uint32_t i = 0; i < to->rank; i++) {
        int64_t n = i < missing ? 1 : v->shape.dim[i - missing];
        bool batch = (int)i == to->batch;
        if (batch && v->shape.batch < 0 && n != 1)
            return import_refuse(
                m,
                "an operand has an extent of its own, %lld, along the batch: export "
                "with a batch of 1 or a dynamic one",
                (long long)n);
        if (!(batch && dropped))
            out->at[out->n++] = n;
    }
    return true;
}

static uint32_t trimmed(const Dims *d) {
    uint32_t n = d->n;
    while (n > 0 && d->at[n - 1] == 1)
        n--;
    return n;
}

// Another operand has all extents of the result, so that one number is enough of this one.
static bool fills(const Import *m, uint32_t k, const Shape *to) {
    Dims all = shape_own(to);
    for (uint32_t i = 0; i < m->node->in.n; i++) {
        const Value *v = import_operand(m, i);
        Dims d = v ? shape_own(&v->shape) : (Dims){0};
        if (v && i != k && v->kind != ValueConstant && same_dims(&d, &all))
            return true;
    }
    return false;
}

Str import_aligned(Import *m, uint32_t k, const Shape *to, Binding least) {
    Value *v = import_operand(m, k);
    Dims d = shape_own(&v->shape), want;
    if (v->kind == ValueConstant && v->count && all_equal(v) && !v->samples &&
        (v->count == 1 || fills(m, k, to)) && v->where == 0) {
        double x = v->number[0];
        return bound(m, number_text(m->a, x), x < 0 ? BindSign : BindCall, least);
    }
    if (!aligned_dims(m, v, to, &want))
        return (Str){0};
    uint32_t n = trimmed(&d);
    if (n == trimmed(&want) && !memcmp(d.at, want.at, n * sizeof *d.at))
        return text_of(m, k, least);
    Str x = text_of(m, k, BindSum);
    return format(m, "reshape(%.*s, %.*s)", SARG(x), SARG(dims_text(m->a, &want)));
}
