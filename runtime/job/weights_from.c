// weights_from.c - weights to begin with (--from): another run's, or a file's.
//
// In: files of tensors. Out: the slots of the same name and shape. A file none of whose names fit
// is read as what it may be instead: of a net in DataParallel or torch.compile, whose names begin
// with a word of theirs; of nets under other names, as {"netG": ..., "netD": ...}; or of a single
// net, without that net's name.
#include "checkpoint.h"
#include "torch.h"
#include "weights.h"

#include <string.h>
#include <strings.h>

// --- a slot's tensor -----------------------------------------------------------------------------

static bool is_weight(const Module *m, const Slot *s) {
    return (s->kind == SlotParam || s->kind == SlotState) && slot_saved(m, s);
}

// The tensor of a slot's name, ours or PyTorch's, and shape; NULL: none.
static const SafeTensor *find_named(Arena scratch, const SafeFile *f, const Module *m,
                                    const Slot *s, Str name) {
    const SafeTensor *t = safe_find(f, name);
    if (!t)
        t = safe_find(f, weight_torch_name(&scratch, m, name));
    if (!t && str_ends(name, STR(".w"))) // of a layer without the normalization that there is here
        t = safe_find(f, str_format(&scratch, "%.*sweight", SARG(weight_layer(name))));
    return tensor_same_shape(t, s) && t->dtype != SafeUnread ? t : NULL;
}

// What a slot begins with: the tensor of its name; in a copy of a net else its original's, whose
// weights a copy begins with, and *copied is set; NULL: neither is there in its shape.
static const SafeTensor *begins_with(Arena scratch, const SafeFile *f, const Module *m,
                                     const Slot *s, bool *copied) {
    Str name = s->name;
    *copied = false;
    for (uint32_t net = s->net;; *copied = true) {
        const SafeTensor *t = find_named(scratch, f, m, s, name);
        uint32_t original = net == NONE ? NONE : m->net.at[net].copy_of;
        if (t || original == NONE)
            return t;
        Str mine = m->net.at[net].name, its = m->net.at[original].name;
        name = str_format(&scratch, "%.*s%.*s", SARG(its), SARG(str_sub(name, mine.len, name.len)));
        net = original;
    }
}

// --- files with other names ----------------------------------------------------------------------

// A weight's name without its net's: ours, or PyTorch's.
static Str weight_within(Arena *a, const Module *m, const Slot *s, bool torch) {
    return torch ? weight_name(a, m, s, true)
                 : str_sub(s->name, m->net.at[s->net].name.len + 1, s->name.len);
}

static bool any_fits(Arena scratch, const Module *m, const SafeFile *f) {
    for (uint32_t i = 0; i < m->slot.n; i++)
        if (is_weight(m, &m->slot.at[i]) &&
            find_named(scratch, f, m, &m->slot.at[i], m->slot.at[i].name))
            return true;
    return false;
}

// Drops the words that DataParallel and torch.compile put into names.
static void drop_wrappers(Arena *a, SafeFile *f) {
    static const char *const words[] = {"module.", "_orig_mod."};
    for (uint32_t i = 0; i < f->tensor.n; i++) {
        Str name = f->tensor.at[i].name;
        Text t = {.arena = a};
        for (size_t at = 0; at < name.len;) {
            Str rest = str_sub(name, at, name.len);
            size_t end = at + str_find(rest, '.') + 1;
            bool wrapper = false;
            for (size_t w = 0; w < sizeof words / sizeof *words; w++)
                wrapper = wrapper || str_starts(rest, str_c(words[w]));
            if (!wrapper)
                text_put(&t, str_sub(name, at, end));
            at = end;
        }
        f->tensor.at[i].name = text_str(&t);
    }
}

// Does the file have every weight of a net, with `prefix` where the net's name is?
static bool holds_net(Arena scratch, const Module *m, uint32_t net, const SafeFile *f, Str prefix) {
    uint32_t weights = 0;
    for (uint32_t i = 0; i < m->slot.n; i++) {
        const Slot *s = &m->slot.at[i];
        if (s->net != net || !is_weight(m, s))
            continue;
        Arena a = scratch;
        const SafeTensor *t = NULL;
        for (int torch = 0; torch < 2 && !tensor_same_shape(t, s); torch++)
            t = safe_find(
                f, str_format(&a, "%.*s%.*s", SARG(prefix), SARG(weight_within(&a, m, s, torch))));
        if (!tensor_same_shape(t, s))
            return false;
        weights++;
    }
    return weights > 0;
}

// Whether that is how programs write a net's name: "G.", "g." or "netG.".
static bool is_called(Str prefix, Str net) {
    Str word = str_sub(prefix, 0, prefix.len ? prefix.len - 1 : 0);
    if (word.len == net.len + 3 && strncasecmp(word.ptr, "net", 3) == 0)
        word = str_sub(word, 3, word.len);
    return word.len == net.len && word.len && strncasecmp(word.ptr, net.ptr, net.len) == 0;
}

// What the names of a net's weights begin with in the file, instead of the net's own: where several
// would do, as for an average beside the net, the one that is called like it. A copy without one
// begins with its original's.
static bool find_prefix(Arena *perm, const Module *m, uint32_t net, const SafeFile *f, Str *out) {
    uint32_t slot = 0, found = 0;
    while (slot < m->slot.n && (m->slot.at[slot].net != net || !is_weight(m, &m->slot.at[slot])))
        slot++;
    for (int torch = 0; slot < m->slot.n && torch < 2; torch++) {
        Str own = weight_within(perm, m, &m->slot.at[slot], torch);
        for (uint32_t i = 0; i < f->tensor.n; i++) {
            Str name = f->tensor.at[i].name;
            if (!str_ends(name, own))
                continue;
            Str prefix = str_sub(name, 0, name.len - own.len);
            bool whole = !prefix.len || prefix.ptr[prefix.len - 1] == '.';
            if (!whole || (found && str_eq(prefix, *out)) || !holds_net(*perm, m, net, f, prefix))
                continue;
            *out = prefix;
            found++;
            if (is_called(prefix, m->net.at[net].name))
                return true;
        }
    }
    return found == 1 && m->net.at[net].copy_of == NONE;
}

// Gives the tensors of a file that has no weight of the model's names those names. The result says
// which net is which: "netG as G, netD as D".
static Str adapt_names(Arena *perm, const Module *m, SafeFile *f) {
    Text says = {.arena = perm};
    if (any_fits(*perm, m, f))
        return (Str){0};
    drop_wrappers(perm, f);
    if (any_fits(*perm, m, f))
        return (Str){0};
    SafeFile was = {.tensor = f->tensor};
    was.tensor.at = arena_array(perm, SafeTensor, f->tensor.n);
    memcpy(was.tensor.at, f->tensor.at, f->tensor.n * sizeof *f->tensor.at);
    Str *prefix = arena_array(perm, Str, m->net.n);
    bool *held = arena_array(perm, bool, m->net.n);
    for (uint32_t i = 0; i < m->net.n; i++)
        held[i] = find_prefix(perm, m, i, &was, &prefix[i]);
    for (uint32_t i = 0; i < m->net.n; i++) {
        bool alone = held[i];
        for (uint32_t k = 0; k < m->net.n; k++)
            alone = alone && (k == i || !held[k] || !str_eq(prefix[k], prefix[i]));
        for (uint32_t t = 0; alone && t < was.tensor.n; t++)
            if (str_starts(was.tensor.at[t].name, prefix[i]))
                f->tensor.at[t].name =
                    str_format(perm, "%.*s.%.*s", SARG(m->net.at[i].name),
                               SARG(str_sub(was.tensor.at[t].name, prefix[i].len, SIZE_MAX)));
        if (alone && prefix[i].len)
            text_fmt(&says, "%s%.*s as %.*s", says.n ? ", " : "", (int)prefix[i].len - 1,
                     prefix[i].ptr, SARG(m->net.at[i].name));
    }
    return text_str(&says);
}

// --- all weights ---------------------------------------------------------------------------------

// What a slot begins with, of the newest file that has it.
static const SafeTensor *find_newest(Arena scratch, const SafeFile *f, uint32_t files,
                                     const Module *m, const Slot *s, bool *copied) {
    const SafeTensor *t = NULL;
    for (uint32_t i = files; i-- > 0 && !t;)
        t = begins_with(scratch, &f[i], m, s, copied);
    return t;
}

// Why the newest file's tensor of a slot's name is not taken.
static const char *why_absent(Arena scratch, const SafeFile *newest, const Module *m,
                              const Slot *s) {
    const SafeTensor *named = safe_find(newest, s->name);
    if (!named)
        named = safe_find(newest, weight_torch_name(&scratch, m, s->name));
    return !named                       ? ""
           : named->dtype == SafeUnread ? " (of numbers that are not read)"
                                        : " (of another shape)";
}

static GanStatus take_tensors(Arena *perm, const SafeFile *f, uint32_t files, Str from, Exec *e,
                              const Console *console, uint32_t *some) {
    enum { Listed = 4 };
    const Module *m = exec_module(e);
    Text absent = {.arena = perm}, copied = {.arena = perm};
    uint32_t all = 0, taken = 0, copying = NONE; // a net of which that was said
    for (uint32_t i = 0; i < m->slot.n; i++) {
        const Slot *s = &m->slot.at[i];
        if (!is_weight(m, s))
            continue;
        bool copy;
        const SafeTensor *t = find_newest(*perm, f, files, m, s, &copy);
        all++;
        if (t) {
            TRY(slot_take(e, i, t));
            taken++;
            if (copy && s->net != copying)
                text_fmt(&copied, "%s%.*s", copied.n ? ", " : "", SARG(m->net.at[s->net].name));
            copying = copy ? s->net : copying;
        } else if (all - taken <= Listed) {
            text_fmt(&absent, "%s%.*s%s", absent.n ? ", " : "", SARG(s->name),
                     why_absent(*perm, &f[files - 1], m, s));
        }
    }
    say(console, "from %.*s: %u of %u weights and states%s%.*s%s%.*s%s", SARG(from), taken, all,
        copied.n ? "; from the nets they are copies of: " : "", SARG(text_str(&copied)),
        absent.n ? "; initialized: " : "", SARG(text_str(&absent)),
        all - taken > Listed ? ", ..." : "");
    *some = taken;
    return GAN_OK;
}

GanStatus weights_take(Arena *perm, const Str *path, uint32_t files, Exec *e,
                       const Console *console, uint32_t *taken) {
    SafeFile *f = arena_array(perm, SafeFile, files);
    GanStatus st = GAN_OK;
    uint32_t open = 0;
    Str from = path[files - 1], nets = {0};
    while (st == GAN_OK && open < files) {
        st = weights_open(perm, path[open], &f[open]);
        if (st == GAN_OK)
            nets = adapt_names(perm, exec_module(e), &f[open++]);
    }
    if (st == GAN_OK && nets.len)
        from = str_format(perm, "%.*s, %.*s", SARG(from), SARG(nets));
    if (st == GAN_OK)
        st = take_tensors(perm, f, files, from, e, console, taken);
    while (open-- > 0)
        safe_close(&f[open]);
    return st;
}

// --- --from --------------------------------------------------------------------------------------

// Both sides of a file of which nothing fits, in one line.
static GanStatus refuse_file(Arena *a, Str path, const Module *m) {
    SafeFile f;
    TRY(weights_open(a, path, &f));
    Text want = {.arena = a};
    for (uint32_t i = 0; i < m->slot.n && !want.n; i++)
        if (is_weight(m, &m->slot.at[i])) {
            SafeTensor t = slot_tensor(&m->slot.at[i]);
            text_fmt(&want, "%.*s %.*s", SARG(weight_name(a, m, &m->slot.at[i], false)),
                     SARG(safe_shape(a, &t)));
        }
    GanStatus st = fail(
        GAN_ERR_INPUT,
        "--from %.*s: it has no weight of this model's names and shapes, as %.*s; it has %.*s "
        "(ganrun data inspect lists them). One of several files, or other names, are for a net of "
        "the text: net G = copy(pretrained(f, file, prefix=\"...\"))",
        SARG(path), SARG(text_str(&want)), SARG(weights_listed(a, &f)));
    safe_close(&f);
    return st;
}

static GanStatus take_optimizers(Arena *perm, Str path, Exec *e, const Console *console) {
    const Module *m = exec_module(e);
    uint32_t all = 0, taken = 0;
    GanStatus st = GAN_OK;
    SafeFile f;
    TRY(weights_open(perm, path, &f));
    for (uint32_t i = 0; i < m->slot.n && st == GAN_OK; i++) {
        const Slot *s = &m->slot.at[i];
        if (s->kind != SlotOpt)
            continue;
        const SafeTensor *t = find_named(*perm, &f, m, s, s->name);
        all++, taken += t != NULL;
        st = t ? slot_take(e, i, t) : GAN_OK;
    }
    safe_close(&f);
    if (st == GAN_OK && all && !taken)
        return fail(GAN_ERR_INPUT,
                    "--from-optimizer on: %.*s has no state of these optimizers; a run's "
                    "checkpoints have it, an exported file has not",
                    SARG(path));
    if (st == GAN_OK)
        say(console, "%u of %u tensors of optimizers' state", taken, all);
    return st;
}

GanStatus weights_from(Arena *perm, Str from, bool optimizers, Exec *e, const Console *console) {
    Str path = from;
    uint32_t step;
    if (file_is_dir(from)) {
        TRY(checkpoint_newest(perm, from, &step));
        GanStatus st = step == NONE ? run_want(*perm, from) : GAN_OK;
        if (st != GAN_OK)
            return fail_in(st, "--from");
        if (step == NONE)
            return fail(GAN_ERR_INPUT, "--from %.*s: there is no whole checkpoint in it",
                        SARG(from));
        path = run_file(perm, from, STR("ckpt"), step, "safetensors");
    }
    uint32_t taken;
    TRY(weights_take(perm, &path, 1, e, console, &taken));
    if (!taken)
        return refuse_file(perm, path, exec_module(e));
    return optimizers ? take_optimizers(perm, path, e, console) : GAN_OK;
}

// Only rank 0 need see the file.
GanStatus weights_from_facts(Arena *perm, Comm *comm, Job *job) {
    Str dir = job->from, text = {0}, path;
    if (!dir.len)
        return GAN_OK;
    if (!file_is_dir(dir) && str_eq(path_base(path_dir(dir)), STR("ckpt")))
        dir = path_dir(path_dir(dir));
    path = path_join(perm, dir, STR("options.json"));
    uint64_t size = 0;
    if (comm_rank(comm) == 0 && file_exists(path) && file_read(perm, path, &text) == GAN_OK)
        size = text.len;
    TRY(comm_bcast(comm, &size, sizeof size, 0));
    if (!size)
        return GAN_OK;
    char *all = arena_alloc(perm, (size_t)size, 1);
    if (comm_rank(comm) == 0)
        memcpy(all, text.ptr, text.len);
    TRY(comm_bcast(comm, all, (size_t)size, 0));
    Job other;
    GanStatus st = job_read(perm, (Str){all, (size_t)size}, path, &other);
    if (st != GAN_OK)
        return fail_in(st, "--from");
    job->like = other.fact;
    return GAN_OK;
}
