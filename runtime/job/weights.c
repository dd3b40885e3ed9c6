// weights.c - names and shapes of weights in files, and the files of pretrained nets.
//
// Files are safetensors of any program, or torch.save's. Tensors are matched by name, as PyTorch's
// layers or our checkpoints name them, never by order. Numbers of another precision are converted.
#include "checkpoint.h"
#include "torch.h"
#include "weights.h"

#include <math.h>
#include <string.h>

// --- names and shapes ----------------------------------------------------------------------------

// How a slot's name ends, and what PyTorch calls it where its layer has another slot, `beside`. The
// first row that applies counts.
static const struct {
    const char *own, *torch, *beside;
} words[] = {
    {"w", "weight_orig", SPECTRAL_U}, // as torch.nn.utils.spectral_norm
    {SPECTRAL_U, "weight_u", "w"},    //
    {"w", "weight_v", "g"},           // as torch.nn.utils.weight_norm
    {"g", "weight_g", "w"},           //
    {"w", "weight", NULL},
    {"b", "bias", NULL},
    {"gain", "weight", NULL},
    {"shift", "bias", NULL},
    {"u", "weight_u", NULL},
    {"slope", "weight", NULL},
    {"run_mean", "running_mean", NULL},
    {"run_var", "running_var", NULL},
};

Str weight_layer(Str name) {
    size_t dot = name.len;
    if (str_ends(name, STR("." SPECTRAL_U)))
        return str_sub(name, 0, name.len - strlen(SPECTRAL_U));
    while (dot > 0 && name.ptr[dot - 1] != '.')
        dot--;
    return str_sub(name, 0, dot);
}

const Slot *weight_beside(const Module *m, Str name, const char *word) {
    Str layer = weight_layer(name);
    for (uint32_t i = 0; i < m->slot.n; i++) {
        Str other = m->slot.at[i].name;
        if (str_starts(other, layer) && str_eq(str_sub(other, layer.len, other.len), str_c(word)))
            return &m->slot.at[i];
    }
    return NULL;
}

static Str torch_words(Arena *a, const Module *m, Str name) {
    Str layer = weight_layer(name), last = str_sub(name, layer.len, name.len);
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (str_eq(last, str_c(words[i].own)) &&
            (!words[i].beside || weight_beside(m, name, words[i].beside))) {
            last = str_c(words[i].torch);
            break;
        }
    return str_format(a, "%.*s%.*s", SARG(layer), SARG(last));
}

// One whose name another slot has by then keeps its own, so that each has one: a layer with both
// `w` and `gain` has `weight` and `gain`.
Str weight_torch_name(Arena *a, const Module *m, Str name) {
    Str says = torch_words(a, m, name), layer = weight_layer(name);
    bool earlier = true;
    for (uint32_t i = 0; i < m->slot.n; i++) {
        Arena scratch = *a;
        Str other = m->slot.at[i].name;
        bool self = str_eq(other, name);
        earlier = earlier && !self;
        if (!self && str_starts(other, layer) &&
            (str_eq(other, says) || (earlier && str_eq(torch_words(&scratch, m, other), says))))
            return name;
    }
    return says;
}

Str weight_name(Arena *a, const Module *m, const Slot *s, bool of_one_net) {
    size_t from = of_one_net && s->net != NONE ? m->net.at[s->net].name.len + 1 : 0;
    Str name = weight_torch_name(a, m, s->name);
    return str_sub(name, from, name.len);
}

bool tensor_same_shape(const SafeTensor *t, const Slot *s) {
    bool same = t && t->rank == s->type.rank;
    for (uint32_t k = 0; same && k < t->rank; k++)
        same = t->dim[k] == s->type.dim[k];
    return same;
}

bool tensor_fits(const SafeTensor *t, const Slot *s) {
    return tensor_same_shape(t, s) && t->dtype == slot_tensor(s).dtype;
}

Str weights_listed(Arena *a, const SafeFile *f) {
    enum { Shown = 4 };
    Text t = {.arena = a};
    for (uint32_t i = 0; i < f->tensor.n && i < Shown; i++)
        text_fmt(&t, "%s%.*s %.*s", i ? ", " : "", SARG(f->tensor.at[i].name),
                 SARG(safe_shape(a, &f->tensor.at[i])));
    text_fmt(&t, "%s, %u in all", f->tensor.n > Shown ? ", ..." : "", f->tensor.n);
    return text_str(&t);
}

// --- numbers into slots --------------------------------------------------------------------------

GanStatus slot_take(Exec *e, uint32_t slot, const SafeTensor *t) {
    if (tensor_fits(t, &exec_module(e)->slot.at[slot]))
        return exec_slot_load(e, slot, t->data);
    double *room = mem_alloc(t->count * sizeof *room);
    if (!room)
        return fail(GAN_ERR_MEMORY, "no memory to convert %.*s", SARG(t->name));
    for (size_t i = 0; i < t->count; i++)
        room[i] = safe_at(t, i);
    GanStatus st = exec_slot_put(e, slot, room, t->count);
    mem_free(room);
    return st;
}

// --- pretrained nets -----------------------------------------------------------------------------

static JobWeights *weights_of(Arena *perm, JobWeightsVec *list, Str net) {
    for (uint32_t i = 0; i < list->n; i++)
        if (str_eq(list->at[i].net, net))
            return &list->at[i];
    vec_push(perm, list, (JobWeights){.net = net});
    return &list->at[list->n - 1];
}

GanStatus weights_told(Arena *perm, JobWeightsVec *list, const Setting *pair) {
    if (!file_exists(pair->value))
        return fail(GAN_ERR_INPUT, "--weights %.*s=%.*s: there is no such file", SARG(pair->key),
                    SARG(pair->value));
    return path_absolute(perm, pair->value, &weights_of(perm, list, pair->key)->path);
}

GanStatus job_set_weights(Arena *perm, Job *job, const Options *o) {
    for (uint32_t i = 0; i < o->at[OptWeights].pair.n; i++) {
        Setting s = o->at[OptWeights].pair.at[i];
        if (!pair_of_features(o, &s))
            TRY(weights_told(perm, &job->weights, &s));
    }
    return GAN_OK;
}

GanStatus weights_names_known(const Module *m, const Job *job) {
    for (uint32_t i = 0; i < job->weights.n; i++) {
        Str name = job->weights.at[i].net;
        uint32_t net = 0;
        while (net < m->net.n && !str_eq(m->net.at[net].name, name))
            net++;
        if (net == m->net.n || !net_pretrained(m, net))
            return fail(
                GAN_ERR_USAGE,
                "--weights %.*s%.*s: model %.*s has no pretrained net of that name; another "
                "net begins with a file by --from, or in the text as copy(pretrained net)",
                SARG(job->mark), SARG(name), SARG(m->name));
    }
    return GAN_OK;
}

// Beside the model's text, unless the job knows better.
static GanStatus find_file(Arena *perm, const Job *job, const Net *net, JobWeights *w) {
    if (!w->path.len)
        TRY(path_absolute(
            perm,
            net->file.ptr[0] == '/' ? net->file : path_join(perm, path_dir(job->origin), net->file),
            &w->path));
    if (file_exists(w->path))
        return GAN_OK;
    return fail(GAN_ERR_INPUT,
                "the pretrained net %.*s has its weights from %.*s, and there is no such file: "
                "--weights %.*s%.*s=FILE says where it is",
                SARG(net->name), SARG(w->path), SARG(job->mark), SARG(net->name));
}

// What a file has under a name, for a message.
static Str what_is(Arena *a, const SafeTensor *t) {
    return t->dtype == SafeUnread
               ? str_format(a, "holds %.*s, which is not read: convert it to F32", SARG(t->kind))
               : STR("holds whole numbers");
}

static bool is_real(const SafeTensor *t) {
    return t->dtype == SafeF64 || t->dtype == SafeF32 || t->dtype == SafeBf16 ||
           t->dtype == SafeF16;
}

typedef struct Match { // of one slot
    uint32_t slot;
    Str name;             // its tensor's
    const SafeTensor *is; // what has that name; NULL: nothing
} Match;
typedef VEC(Match) Matches;

static bool match_fits(const Module *m, const Match *x) {
    return tensor_same_shape(x->is, &m->slot.at[x->slot]) && is_real(x->is);
}

// A net's slots, and what of the file they are given.
static Matches match(Arena *a, const Module *m, uint32_t net, Str prefix, const SafeFile *f) {
    Matches out = {0};
    for (uint32_t i = 0; i < m->slot.n; i++) {
        const Slot *s = &m->slot.at[i];
        if (s->net != net || (s->kind != SlotParam && s->kind != SlotState))
            continue;
        Str name = weight_name(a, m, s, true);
        if (prefix.len)
            name = str_format(a, "%.*s.%.*s", SARG(prefix), SARG(name));
        vec_push(a, &out, ((Match){i, name, safe_find(f, name)}));
    }
    return out;
}

// Both sides, in one line: the first that does not fit, how many do not, and what the file has.
static GanStatus refuse_file(Arena scratch, const Module *m, const Net *net, Str path,
                             const Matches *all, const SafeFile *f) {
    Arena *a = &scratch;
    const Match *first = NULL;
    uint32_t wrong = 0;
    for (uint32_t i = 0; i < all->n; i++)
        if (!match_fits(m, &all->at[i]))
            first = wrong++ ? first : &all->at[i];
    SafeTensor want = slot_tensor(&m->slot.at[first->slot]);
    Str found = !first->is           ? STR("is not there")
                : is_real(first->is) ? str_format(a, "is %.*s", SARG(safe_shape(a, first->is)))
                                     : what_is(a, first->is);
    return fail(
        GAN_ERR_INPUT,
        "%.*s: %u of %u weights and states of net %.*s are not in it: %.*s of %.*s %.*s; "
        "it has %.*s (ganrun data inspect lists them). What all its names begin with is said "
        "in the text: pretrained(f, file, prefix=\"...\")",
        SARG(path), wrong, all->n, SARG(net->name), SARG(first->name), SARG(safe_shape(a, &want)),
        SARG(found), SARG(weights_listed(a, f)));
}

static GanStatus take_matches(Exec *e, Str path, const Matches *all, Hash128 *hash) {
    *hash = (Hash128){0};
    for (uint32_t i = 0; i < all->n; i++) {
        const SafeTensor *t = all->at[i].is;
        for (size_t k = 0; k < t->count; k++)
            if (!isfinite(safe_at(t, k)))
                return fail(GAN_ERR_INPUT, "%.*s: %.*s holds numbers that are not finite",
                            SARG(path), SARG(t->name));
        Hash128 chain[2] = {*hash, hash128(t->data, t->bytes)};
        *hash = hash128(chain, sizeof chain);
        TRY(slot_take(e, all->at[i].slot, t));
    }
    return GAN_OK;
}

// What `net` takes of the file of `given`; they differ in copies.
static GanStatus match_file(Arena *perm, const Module *m, uint32_t net, const Net *given, Str path,
                            const SafeFile *f, Matches *out) {
    *out = match(perm, m, net, given->prefix, f);
    for (uint32_t i = 0; i < out->n; i++)
        if (!match_fits(m, &out->at[i]))
            return refuse_file(*perm, m, given, path, out, f);
    return GAN_OK;
}

static GanStatus take_file(Arena *perm, Exec *e, uint32_t net, const Net *given, Str path,
                           const SafeFile *f, Hash128 *hash) {
    Matches all;
    TRY(match_file(perm, exec_module(e), net, given, path, f, &all));
    return take_matches(e, path, &all, hash);
}

// The pretrained net a copy, or a copy of one, begins with; NONE.
static uint32_t model_of(const Module *m, uint32_t net) {
    while (net != NONE && !net_pretrained(m, net))
        net = m->net.at[net].copy_of;
    return net;
}

static GanStatus check_hash(Arena *perm, Hash128 hash, JobWeights *w) {
    Str hex = hash_hex(perm, hash);
    if (w->hash.len && !str_eq(w->hash, hex))
        return fail(GAN_ERR_INPUT,
                    "%.*s holds other weights for %.*s than this run began with: their hash is "
                    "%.*s, options.json says %.*s. --weights %.*s=FILE names another file",
                    SARG(w->path), SARG(w->net), SARG(hex), SARG(w->hash), SARG(w->net));
    w->hash = hex;
    return GAN_OK;
}

static GanStatus load_net(Arena *perm, Job *job, Exec *e, uint32_t given, bool begin) {
    const Module *m = exec_module(e);
    const Net *net = &m->net.at[given];
    JobWeights *w = weights_of(perm, &job->weights, net->name);
    SafeFile f;
    Hash128 hash = {0}, again;
    TRY(find_file(perm, job, net, w));
    TRY(weights_open(perm, w->path, &f));
    GanStatus st = take_file(perm, e, given, net, w->path, &f, &hash);
    for (uint32_t i = given + 1; st == GAN_OK && begin && i < m->net.n; i++)
        if (!net_pretrained(m, i) && model_of(m, i) == given)
            st = take_file(perm, e, i, net, w->path, &f, &again);
    safe_close(&f);
    return st == GAN_OK ? check_hash(perm, hash, w) : st;
}

// Is there a weight that a net's file is read for? Not where nothing calls it, as in an earlier
// stage.
static bool reads_file(const Module *m, uint32_t net) {
    return net_pretrained(m, net) && m->net.at[net].params + m->net.at[net].states;
}

GanStatus weights_pretrained(Arena *perm, Job *job, Exec *e, bool begin) {
    const Module *m = exec_module(e);
    TRY(weights_names_known(m, job));
    for (uint32_t i = 0; i < m->net.n; i++)
        if (reads_file(m, i))
            TRY(load_net(perm, job, e, i, begin));
    return GAN_OK;
}

GanStatus weights_fit(Arena *perm, Job *job, const Module *m) {
    GanStatus st = GAN_OK;
    for (uint32_t i = 0; i < m->net.n && st == GAN_OK; i++) {
        SafeFile f;
        Matches all;
        const Net *net = &m->net.at[i];
        if (!reads_file(m, i))
            continue;
        JobWeights *w = weights_of(perm, &job->weights, net->name);
        TRY(find_file(perm, job, net, w));
        TRY(weights_open(perm, w->path, &f));
        st = match_file(perm, m, i, net, w->path, &f, &all);
        safe_close(&f);
    }
    return st;
}

void weights_forget(Job *job) {
    for (uint32_t i = 0; i < job->weights.n; i++)
        job->weights.at[i].hash = (Str){0};
}
