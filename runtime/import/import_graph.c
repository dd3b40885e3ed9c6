// import_graph.c - the walk over an ONNX graph: its values, which nodes are needed, and the
// function that comes out.
#include "import.h"

// --- values --------------------------------------------------------------------------------------

static uint64_t slot_of(Str name, uint64_t probe) {
    return hash64(name.ptr, name.len, 7) + probe;
}

Value *value_find(const Import *m, Str name) {
    for (uint64_t probe = 0; name.len; probe++) {
        uint32_t i = map_find(&m->by_name, slot_of(name, probe));
        if (!i || str_eq(m->value.at[i - 1]->name, name))
            return i ? m->value.at[i - 1] : NULL;
    }
    return NULL;
}

static Value *value_add(Import *m, Str name) {
    uint64_t probe = 0;
    while (map_find(&m->by_name, slot_of(name, probe)))
        probe++;
    Value *v = arena_new(m->a, Value);
    v->name = v->label = name;
    v->shape.batch = -1;
    vec_push(m->a, &m->value, v);
    map_put(m->a, &m->by_name, slot_of(name, probe), m->value.n);
    return v;
}

Value *import_operand(const Import *m, uint32_t k) {
    return k < m->node->in.n ? value_find(m, m->node->in.at[k]) : NULL;
}

bool import_refuse(Import *m, const char *format, ...) {
    va_list args;
    if (m->error.len)
        return false;
    va_start(args, format);
    m->error = str_vformat(m->a, format, args);
    va_end(args);
    return false;
}

// --- attributes ----------------------------------------------------------------------------------

const OnnxAttribute *import_attribute(const Import *m, const char *name) {
    for (uint32_t i = 0; i < m->node->attribute.n; i++)
        if (str_eq(m->node->attribute.at[i].name, str_c(name)))
            return &m->node->attribute.at[i];
    return NULL;
}

int64_t attr_int(const Import *m, const char *name, int64_t otherwise) {
    const OnnxAttribute *a = import_attribute(m, name);
    return a ? a->i : otherwise;
}

double attr_real(const Import *m, const char *name, double otherwise) {
    const OnnxAttribute *a = import_attribute(m, name);
    return a ? a->f : otherwise;
}

Str attr_word(const Import *m, const char *name, const char *otherwise) {
    const OnnxAttribute *a = import_attribute(m, name);
    return a ? a->s : str_c(otherwise);
}

bool ints_of(Import *m, const char *name, int k, Ints *out) {
    const OnnxAttribute *a = import_attribute(m, name);
    const Value *v = k >= 0 && !a ? import_operand(m, (uint32_t)k) : NULL;
    size_t n = a ? a->ints.n : v ? v->count : 0, most = sizeof out->at / sizeof *out->at;
    *out = (Ints){.n = (uint32_t)n};
    if (v && v->kind != ValueConstant)
        return import_refuse(m, "its `%s` is computed by the net: export with fixed extents", name);
    if (n > most)
        return import_refuse(m, "its `%s` has %zu numbers", name, n);
    for (size_t i = 0; i < n; i++) {
        if (v && v->samples && v->samples[i])
            return import_refuse(m, "its `%s` depends on the number of samples", name);
        // What does not fit, as the largest number in a slice, is as far as an extent may be.
        out->at[i] = extent_of(a ? (double)a->ints.at[i] : v->number[i]);
    }
    return true;
}

bool axis_in(Import *m, int64_t axis, uint32_t rank, uint32_t *out) {
    int64_t at = axis < 0 ? axis + (int64_t)rank : axis;
    *out = (uint32_t)at;
    return at >= 0 && at < (int64_t)rank
               ? true
               : import_refuse(m, "there is no axis %lld of %u", (long long)axis, rank);
}

bool real_of(Import *m, uint32_t k, double otherwise, double *out) {
    const Value *v = import_operand(m, k);
    *out = otherwise;
    if (!v)
        return true;
    if (v->kind == ValueWeight && v->tensor->count == 1) {
        *out = onnx_at(v->tensor, 0);
        return true;
    }
    if (v->kind != ValueConstant || v->count != 1 || (v->samples && v->samples[0]))
        return import_refuse(m, "operand %u is no number that is known at import", k + 1);
    *out = v->number[0];
    return true;
}

Span3 slice_span(int64_t extent, int64_t start, int64_t end, int64_t step) {
    if (!extent)
        return (Span3){0, 1, 0};
    int64_t low = step < 0 ? -1 : 0, high = step < 0 ? extent - 1 : extent;
    step = step ? step : 1;
    step = step < -INT64_MAX ? -INT64_MAX : step;
    start = start < 0 ? start + extent : start;
    end = end < 0 ? end + extent : end;
    start = start < 0 ? 0 : start > high ? high : start;
    end = end < low ? low : end > extent ? extent : end;
    int64_t span = step < 0 ? start - end : end - start, by = step < 0 ? -step : step;
    return (Span3){start, step, span > 0 ? (span - 1) / by + 1 : 0};
}

bool slices_of(Import *m, Slices *out) {
    if (!ints_of(m, "starts", 1, &out->starts) || !ints_of(m, "ends", 2, &out->ends) ||
        !ints_of(m, "axes", 3, &out->axes) || !ints_of(m, "steps", 4, &out->steps))
        return false;
    uint32_t n = out->starts.n;
    if (n != out->ends.n || (out->axes.n && out->axes.n != n) ||
        (out->steps.n && out->steps.n != n))
        return import_refuse(m, "its `starts`, `ends`, `axes` and `steps` are not equally many");
    return true;
}

// --- the graph -----------------------------------------------------------------------------------

static bool add_initializers(Import *m) {
    for (uint32_t i = 0; i < m->f->initializer.n; i++) {
        const OnnxTensor *t = &m->f->initializer.at[i];
        if (!t->name.len)
            continue;
        if (value_find(m, t->name))
            return import_refuse(m, "two initializers are named %.*s", SARG(t->name));
        Value *v = value_add(m, t->name);
        v->kind = ValueWeight;
        v->tensor = t;
        v->shape = shape_of(t->rank, t->dim, -1);
        if (!onnx_is_real(t->type) || t->rank == 0)
            constant_of(m, t, v);
    }
    return true;
}

// N, then the extents of a sample.
static bool add_input(Import *m, const OnnxInput *in, NetText *out) {
    OnnxInput *to = &out->input[out->inputs++];
    *to = *in;
    to->name = word_of(m, in->name, "x");
    if (!in->shaped || in->rank == 0)
        return import_refuse(m, "input %.*s has no batch axis: axis 0 of every input is the batch",
                             SARG(in->name));
    for (uint32_t i = 1; i < in->rank; i++)
        if (in->dim[i] <= 0)
            return import_refuse(
                m,
                "axis %u of input %.*s has no fixed extent: export with dynamic extents "
                "for the batch only (axis 0)",
                i, SARG(in->name));
    if (in->dim[0] > 0 && m->samples > 0 && m->samples != in->dim[0])
        return import_refuse(m,
                             "axis 0 of its inputs has %lld and %lld elements, but it is the batch",
                             (long long)m->samples, (long long)in->dim[0]);
    if (in->dim[0] > 0)
        m->samples = in->dim[0];
    Value *v = value_add(m, in->name);
    v->shape = shape_of(in->rank, in->dim, 0);
    v->shape.dim[0] = 1;
    if (!has_extents(&v->shape))
        return import_refuse(m, "input %.*s has more elements than memory holds", SARG(in->name));
    v->whole = !onnx_is_real(in->type);
    v->text = to->name;
    v->binding = BindCall;
    vec_push(m->a, &m->variable, ((Variable){.name = to->name, .kept = to->name.len > 1}));
    v->where = m->variable.n;
    return true;
}

static bool add_inputs(Import *m, NetText *out) {
    out->input = arena_array(m->a, OnnxInput, m->f->input.n + 1);
    for (uint32_t i = 0; i < m->f->input.n; i++) {
        const OnnxInput *in = &m->f->input.at[i];
        const Value *known = value_find(m, in->name);
        if (known && known->kind != ValueText) // an initializer
            continue;
        if (!in->name.len || known)
            return import_refuse(m, "two inputs have one name");
        if (!add_input(m, in, out))
            return false;
    }
    return out->inputs || import_refuse(m, "it has no input");
}

static bool add_results(Import *m) {
    for (uint32_t i = 0; i < m->f->node.n; i++)
        for (uint32_t k = 0; k < m->f->node.at[i].out.n; k++) {
            Str name = m->f->node.at[i].out.at[k];
            if (name.len && value_find(m, name))
                return import_refuse(m, "two nodes give %.*s", SARG(name));
            if (name.len)
                value_add(m, name);
        }
    return true;
}

static bool reads_shape(const OnnxNode *n) {
    return str_eq(n->op, STR("Shape")) || str_eq(n->op, STR("Size"));
}

// Which nodes the outputs need, and how often each value becomes part of a text: a shape is read at
// import.
static bool *count_uses(Import *m) {
    bool *live = arena_array(m->a, bool, m->f->node.n + 1);
    for (uint32_t i = 0; i < m->f->output.n; i++) {
        Value *v = value_find(m, m->f->output.at[i].name);
        if (v) {
            v->uses++;
            v->wanted = true;
        }
    }
    for (uint32_t i = m->f->node.n; i-- > 0;) {
        const OnnxNode *n = &m->f->node.at[i];
        for (uint32_t k = 0; k < n->out.n; k++) {
            const Value *v = value_find(m, n->out.at[k]);
            live[i] |= v && v->wanted;
        }
        for (uint32_t k = 0; live[i] && k < n->in.n; k++) {
            Value *v = value_find(m, n->in.at[k]);
            if (!v)
                continue;
            v->uses += !reads_shape(n);
            v->reader = reads_shape(n) ? v->reader : i + 1;
            v->sized |= reads_shape(n);
            v->wanted = true;
        }
    }
    return live;
}

// --- the node at hand ----------------------------------------------------------------------------

// Operands whose text the node did not take are read once less.
static void settle(Import *m) {
    for (uint32_t k = 0; k < m->node->in.n && !reads_shape(m->node); k++) {
        Value *v = import_operand(m, k);
        if (!v || (m->counted >> k & 1 && v->where))
            continue;
        if (v->where)
            variable_drop(m, v->where - 1);
        else if (!(m->counted >> k & 1))
            for (uint32_t i = 0; v->kind == ValueText && v->uses == 1 && i < v->refs.n; i++)
                variable_drop(m, v->refs.at[i]);
        v->uses -= v->uses > 0;
    }
}

static bool make_node(Import *m, uint32_t i) {
    m->node = &m->f->node.at[i];
    m->at = i;
    m->counted = 0;
    m->refs.n = 0;
    if (m->node->in.n > 32)
        return import_refuse(m, "it has %u operands, and 32 are the most", m->node->in.n);
    if (import_node(m) && !m->error.len) {
        settle(m);
        return true;
    }
    Str op = m->node->op, name = m->node->name;
    m->error = format(m, "%.*s%s%.*s%s: %.*s", SARG(op), name.len ? " (node " : "", SARG(name),
                      name.len ? ")" : "", SARG(m->error));
    return false;
}

// Weights in other shapes come first, so that layers find them.
static bool make_weights(Import *m, const bool *live) {
    for (uint32_t i = 0; i < m->f->node.n; i++) {
        const OnnxNode *n = &m->f->node.at[i];
        bool reshape = str_eq(n->op, STR("Reshape")) || str_eq(n->op, STR("Unsqueeze"));
        const Value *v = reshape && n->in.n ? value_find(m, n->in.at[0]) : NULL;
        const Value *to = reshape && n->in.n > 1 ? value_find(m, n->in.at[1]) : NULL;
        if (!live[i] || !is_own(v) || !to || to->kind != ValueConstant || n->out.n != 1)
            continue;
        if (!make_node(m, i))
            return false;
        m->done[i] = true;
    }
    return true;
}

// --- the function --------------------------------------------------------------------------------

// A result that the last statement binds is that statement's expression.
static Str unbound(Import *m, Str result) {
    Str body = text_str(&m->body), head = format(m, "  %.*s = ", SARG(result));
    size_t line = body.len;
    while (line > 0 && (line == body.len || body.ptr[line - 1] != '\n'))
        line--;
    Str last = str_sub(body, line, body.len);
    if (!str_starts(last, head))
        return result;
    m->body.n = line;
    return str_sub(last, head.len, last.len - 1);
}

// Each output as a node's operand, so that it is written as any other.
static bool put_results(Import *m, NetText *out, Text *last) {
    OnnxNode all = {0};
    uint32_t n = m->f->output.n;
    out->output = arena_array(m->a, Str, n + 1);
    out->shape = arena_array(m->a, Shape, n + 1);
    m->node = &all;
    vec_push(m->a, &all.in, (Str){0});
    for (uint32_t i = 0; i < n; i++) {
        all.in.at[0] = m->f->output.at[i].name;
        const Value *v = import_operand(m, 0);
        if (!v || v->kind != ValueText || !v->text.len)
            return import_refuse(m, "output %.*s does not depend on an input",
                                 SARG(m->f->output.at[i].name));
        m->counted = 0;
        Str text = text_of(m, 0, n > 1 ? BindOr : BindPipe);
        text = n > 1 ? text : unbound(m, text);
        text_fmt(last, "%s%.*s", i ? ", " : "", SARG(text));
        out->shape[i] = v->shape;
        out->output[i] = word_of(m, n > 1 ? v->name : STR("output"), "y");
    }
    out->outputs = n;
    return !m->error.len && (n || import_refuse(m, "it has no output"));
}

static void put_head(Import *m, Str name, const NetText *n, Text *t) {
    text_fmt(t, "fn %.*s(", SARG(name));
    for (uint32_t i = 0; i < n->inputs; i++) {
        Dims d = {.n = n->input[i].rank - 1};
        memcpy(d.at, n->input[i].dim + 1, d.n * sizeof *d.at);
        text_fmt(t, "%s%.*s: [%.*s]", i ? ", " : "", SARG(n->input[i].name),
                 SARG(dims_text(m->a, &d)));
    }
    for (uint32_t i = 0; i < n->outputs; i++) {
        Dims d = shape_own(&n->shape[i]);
        text_fmt(t, "%s[%.*s]", i ? ", " : ") -> ", SARG(dims_text(m->a, &d)));
    }
    text_fmt(t, " {\n");
}

bool import_net(Import *m, Str name, NetText *out) {
    Text last = {.arena = m->a}, text = {.arena = m->a};
    m->samples = -1;
    m->opset = m->f->opset;
    m->declared.arena = m->body.arena = m->a;
    if (m->opset < 7) // operations broadcast by attributes, and remember what they overwrote
        return import_refuse(
            m, "it is of opset %lld, and 7 is the oldest that is read: export it again",
            (long long)m->opset);
    if (!add_initializers(m) || !add_inputs(m, out) || !add_results(m))
        return false;
    bool *live = count_uses(m);
    m->done = arena_array(m->a, bool, m->f->node.n + 1);
    for (uint32_t i = 0; i < m->f->input.n; i++) {
        const Value *v = value_find(m, m->f->input.at[i].name);
        if (v && v->where)
            m->variable.at[v->where - 1].refs = v->uses;
    }
    if (!make_weights(m, live))
        return false;
    for (uint32_t i = 0; i < m->f->node.n; i++)
        if (live[i] && !m->done[i] && !make_node(m, i))
            return false;
    if (!put_results(m, out, &last))
        return false;
    put_head(m, name, out, &text);
    text_put(&text, text_str(&m->declared));
    text_put(&text, text_str(&m->body));
    text_fmt(&text, out->outputs > 1 ? "  [%.*s]\n}\n" : "  %.*s\n}\n", SARG(text_str(&last)));
    out->text = text_str(&text);
    return true;
}
