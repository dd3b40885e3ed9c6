// inputs.c - values for the inputs of an entry point: `sample from(z: [nz], y: label(10))`.
//
// In: the index of a sample. Out: its random numbers, which depend on the seed and that index only;
// and its class, 0, 1, ... in turn, so that a grid with as many columns as classes has one class
// per column. With several label inputs the classes are digits of the index, the last one fastest,
// so that all combinations occur. Or the values of --input, repeated from the start when they run
// out.
#include "sampler.h"

#include <math.h>
#include <string.h>

Str input_name(const Module *m, uint32_t slot) {
    const Slot *s = &m->slot.at[slot];
    return str_sub(s->name, str_find(s->name, '.') + 1, s->name.len);
}

bool input_of(const Module *m, uint32_t entry, uint32_t slot) {
    const Slot *s = &m->slot.at[slot];
    return s->kind == SlotFed && m->site.at[s->site].func == entry + 2;
}

static const Given *given_find(const Inputs *in, uint32_t slot) {
    for (uint32_t i = 0; in && i < in->given.n; i++)
        if (in->given.at[i].slot == slot)
            return &in->given.at[i];
    return NULL;
}

// How many samples in a row have one class: a round of the later inputs that are classes too.
static size_t samples_a_class(const Inputs *in, const Module *m, uint32_t slot) {
    uint32_t func = m->site.at[m->slot.at[slot].site].func;
    size_t count = 1;
    for (uint32_t i = slot + 1; i < m->slot.n; i++) {
        if (m->slot.at[i].kind != SlotFed || given_find(in, i))
            continue;
        const Site *site = &m->site.at[m->slot.at[i].site];
        if (site->func == func && site->dist == DistCategorical &&
            !mem_mul(count, (size_t)site->classes, &count))
            return SIZE_MAX;
    }
    return count;
}

void input_values(const Inputs *in, const Module *m, uint32_t slot, Draws of, Arena scratch,
                  float *out) {
    const Slot *s = &m->slot.at[slot];
    const Site *site = &m->site.at[s->site];
    if (site->dist == DistCategorical) {
        size_t each = samples_a_class(in, m, slot);
        for (size_t i = 0; i < of.n; i++)
            out[i] = (float)((of.first + i) / each % (size_t)site->classes);
        return;
    }
    Graph g;
    graph_init(&g, &scratch, (int64_t)of.n);
    Builder b = {.g = &g};
    Val v = Rand(&b, site->dist, s->site, 0, site->type);
    Counters c = {.seed = of.seed, .sample0 = (int64_t)of.first};
    eval_node(&g, v.id, NULL, out, false, &c, scratch);
}

// --- what is given -------------------------------------------------------------------------------

static GanStatus check_values(const Module *m, const Given *g) {
    const Slot *s = &m->slot.at[g->slot];
    const Site *site = &m->site.at[s->site];
    size_t one = (size_t)type_sample(&s->type);
    for (size_t i = 0; i < g->n * one; i++)
        if (!isfinite(g->value[i]))
            return fail(GAN_ERR_USAGE, "--input %.*s: number %zu, for sample %zu, is %s",
                        SARG(input_name(m, g->slot)), i, i / one,
                        isnan(g->value[i]) ? "NaN" : "beyond f32");
    for (size_t i = 0; site->dist == DistCategorical && i < g->n; i++)
        if (!(g->value[i] >= 0 && g->value[i] < (float)site->classes &&
              g->value[i] == (float)(int64_t)g->value[i]))
            return fail(GAN_ERR_USAGE, "--input %.*s: %g is not a class from 0 to %lld",
                        SARG(input_name(m, g->slot)), (double)g->value[i],
                        (long long)site->classes - 1);
    return GAN_OK;
}

static GanStatus no_number(Str name, Str word, const Strs *classes) {
    if (!classes->n)
        return fail(GAN_ERR_USAGE,
                    "--input %.*s needs numbers, as in %.*s=0,1,2, or an .npy file, not `%.*s`",
                    SARG(name), SARG(name), SARG(word));
    return fail(GAN_ERR_USAGE, "--input %.*s: no class is called `%.*s`%s", SARG(name), SARG(word),
                known_text(word, classes->at, classes->n).at);
}

// The number of a class of this name.
static bool class_named(const Strs *classes, Str name, double *out) {
    for (uint32_t i = 0; i < classes->n; i++)
        if (str_eq(classes->at[i], name))
            return *out = i, true;
    return false;
}

// 0,3,5 or cats,dogs: one each for a sample, then from the beginning. A name goes before a number;
// the last name may have commas in it.
static GanStatus read_numbers(Arena *perm, Str name, Str text, const Strs *classes, Given *out) {
    VEC(float) x = {0};
    for (Str rest = text;;) {
        double one;
        size_t comma = class_named(classes, rest, &one) ? rest.len : str_find(rest, ',');
        Str word = str_sub(rest, 0, comma);
        if (!class_named(classes, word, &one) && !str_to_double(word, &one))
            return no_number(name, word, classes);
        vec_push(perm, &x, (float)one);
        if (comma == rest.len)
            break;
        rest = str_sub(rest, comma + 1, rest.len);
    }
    out->value = x.at;
    out->n = x.n;
    return GAN_OK;
}

// "[n, 3, 8]: [3, 8] for each sample".
static Str wanted_array(Arena *perm, const Type *t) {
    Type one = *t;
    one.batched = false;
    Str shape = type_text(perm, &one);
    return t->rank ? str_format(perm, "[n, %.*s: %.*s for each sample",
                                SARG(str_sub(shape, 1, shape.len)), SARG(shape))
                   : STR("[n]: one number for each sample");
}

// Names of the classes of an input: those of a label of the data with as many.
static const Strs *names_of(const Module *m, uint32_t slot, const Job *job) {
    static const Strs none;
    const Site *site = &m->site.at[m->slot.at[slot].site];
    for (uint32_t i = 0; site->dist == DistCategorical && i < job->fact.n; i++)
        if (site->classes == job->fact.at[i].name.n)
            return &job->fact.at[i].name;
    return &none;
}

// [n, ...]: a sample's input each.
static GanStatus read_array(Arena *perm, const Module *m, Str path, Given *out) {
    const Type *t = &m->slot.at[out->slot].type;
    uint32_t rank;
    int64_t dim[DATA_MAX_RANK];
    TRY(npy_read_f32(perm, path, &out->value, &rank, dim));
    bool fits = rank == t->rank + 1u && dim[0] > 0;
    for (uint32_t i = 0; fits && i < t->rank; i++)
        fits = dim[i + 1] == t->dim[i];
    if (!fits)
        return fail(GAN_ERR_INPUT, "%.*s: input %.*s needs an array %.*s", SARG(path),
                    SARG(input_name(m, out->slot)), SARG(wanted_array(perm, t)));
    out->n = out->rows = (size_t)dim[0];
    return GAN_OK;
}

static GanStatus no_input(Str entry, Str name, const Str *known, uint32_t n) {
    if (n)
        return fail(GAN_ERR_USAGE, "sample %.*s has no input `%.*s`%s", SARG(entry), SARG(name),
                    known_text(name, known, n).at);
    return fail(GAN_ERR_USAGE,
                "sample %.*s has no input `%.*s`: inputs are written sample %.*s(%.*s: [n]) = ...",
                SARG(entry), SARG(name), SARG(entry), SARG(name));
}

static GanStatus find_input(const Module *m, uint32_t entry, Str name, uint32_t *out) {
    Str known[64];
    uint32_t n = 0;
    for (uint32_t i = 0; i < m->slot.n; i++) {
        if (!input_of(m, entry, i))
            continue;
        if (n < 64)
            known[n++] = input_name(m, i);
        if (str_eq(input_name(m, i), name))
            return *out = i, GAN_OK;
    }
    return no_input(m->entry.at[entry].name, name, known, n);
}

GanStatus inputs_read(Arena *perm, const Module *m, uint32_t entry, const Job *job,
                      const ArgValue *o, Inputs *out) {
    *out = (Inputs){0};
    for (uint32_t i = 0; i < o->pair.n; i++) {
        Str name = o->pair.at[i].key, text = o->pair.at[i].value;
        Given g = {0};
        TRY(find_input(m, entry, name, &g.slot));
        if (str_eq(path_ext(text), STR("npy")))
            TRY(read_array(perm, m, text, &g));
        else if (!m->slot.at[g.slot].type.rank)
            TRY(read_numbers(perm, name, text, names_of(m, g.slot, job), &g));
        else
            return fail(GAN_ERR_USAGE, "--input %.*s is %.*s a sample: give an .npy file",
                        SARG(name), SARG(type_text(perm, &m->slot.at[g.slot].type)));
        TRY(check_values(m, &g));
        if (g.rows > 1 && out->rows > 1 && g.rows != out->rows)
            return fail(GAN_ERR_INPUT,
                        "%.*s has %zu rows, an array before it %zu: one for each sample, or one "
                        "for all",
                        SARG(text), g.rows, out->rows);
        out->rows = g.rows > out->rows ? g.rows : out->rows;
        vec_push(perm, &out->given, g);
    }
    return GAN_OK;
}

// --- feeding -------------------------------------------------------------------------------------

GanStatus inputs_put(const Inputs *in, Exec *e, uint32_t entry, uint64_t seed, size_t first,
                     Arena scratch) {
    const Module *m = exec_module(e);
    size_t batch = (size_t)m->batch;
    for (uint32_t i = 0; i < m->slot.n; i++) {
        if (!input_of(m, entry, i))
            continue;
        Arena a = scratch;
        size_t one = (size_t)type_sample(&m->slot.at[i].type);
        float *x = arena_array(&a, float, batch *one);
        const Given *g = given_find(in, i);
        for (size_t k = 0; g && k < batch; k++)
            memcpy(x + k * one, g->value + (first + k) % g->n * one, one * sizeof *x);
        if (!g)
            input_values(in, m, i, (Draws){seed, first, batch}, a, x);
        TRY(exec_slot_put_f32(e, i, x, batch * one));
    }
    return GAN_OK;
}
