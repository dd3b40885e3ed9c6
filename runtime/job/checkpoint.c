// checkpoint.c - saves and loads everything that persists between steps, bit for bit.
//
// ckpt/N.safetensors holds the slots in their stored precision. ckpt/N.json, written after it,
// names the model and holds the hash of those bytes. A checkpoint without its json, or with other
// bytes, is ignored. Random numbers and data are functions of (seed, step) and of the number of
// batches consumed, so these numbers are all the generator and loader state there is.
#include "checkpoint.h"
#include "weights.h"

#include <math.h>
#include <string.h>

#define FORMAT "gan-checkpoint-1"

static Str ckpt_dir(Arena *a, Str dir) {
    return path_join(a, dir, STR("ckpt"));
}

static size_t largest_slot(const Exec *e) {
    const Module *m = exec_module(e);
    size_t most = 0;
    for (uint32_t i = 0; i < m->slot.n; i++)
        if (slot_outlives(&m->slot.at[i]) && exec_slot_bytes(e, i) > most)
            most = exec_slot_bytes(e, i);
    return most;
}

GanStatus checkpoint_share(Exec *e, Comm *c) {
    const Module *m = exec_module(e);
    size_t most = largest_slot(e);
    GanStatus st = GAN_OK;
    if (comm_size(c) == 1 || !most)
        return GAN_OK;
    void *room = mem_alloc(most);
    if (!room)
        return fail(GAN_ERR_MEMORY, "no memory to share %zu bytes", most);
    for (uint32_t i = 0; i < m->slot.n; i++) {
        if (!slot_outlives(&m->slot.at[i]))
            continue;
        TRY_OUT(exec_slot_save(e, i, room));
        TRY_OUT(comm_bcast(c, room, exec_slot_bytes(e, i), 0));
        TRY_OUT(exec_slot_load(e, i, room));
    }
out:
    mem_free(room);
    return st;
}

static GanStatus state_hash(Exec *e, Hash128 *out) {
    const Module *m = exec_module(e);
    void *room = mem_alloc(largest_slot(e));
    GanStatus st = GAN_OK;
    if (!room)
        return fail(GAN_ERR_MEMORY, "no memory to compare weights");
    *out = (Hash128){0};
    for (uint32_t i = 0; i < m->slot.n; i++) {
        if (!slot_outlives(&m->slot.at[i]))
            continue;
        TRY_OUT(exec_slot_save(e, i, room));
        Hash128 pair[2] = {*out, hash128(room, exec_slot_bytes(e, i))};
        *out = hash128(pair, sizeof pair);
    }
out:
    mem_free(room);
    return st;
}

GanStatus checkpoint_compare(Exec *e, Comm *c) {
    Hash128 mine, *all = NULL;
    if (comm_size(c) == 1)
        return GAN_OK;
    TRY(state_hash(e, &mine));
    all = mem_alloc((size_t)comm_size(c) * sizeof *all);
    if (!all)
        return fail(GAN_ERR_MEMORY, "no memory to compare weights");
    GanStatus st = comm_gather(c, &mine, sizeof mine, all);
    for (int r = 1; st == GAN_OK && r < comm_size(c); r++)
        if (memcmp(&all[r], &all[0], sizeof mine))
            st = fail(GAN_ERR_DEVICE,
                      "the weights of rank %d differ from those of rank 0: a machine has computed "
                      "a wrong "
                      "result since the last checkpoint, which is intact",
                      r);
    mem_free(all);
    return st;
}

// --- saving --------------------------------------------------------------------------------------

static SafeDtype safe_dtype(Dtype d) {
    switch (d) {
    case DtF64:
        return SafeF64;
    case DtF32:
        return SafeF32;
    case DtBF16:
        return SafeBf16;
    case DtF16:
        return SafeF16;
    case DtCount:
        break;
    }
    bug("checkpoint: no such dtype");
}

SafeTensor slot_tensor(const Slot *s) {
    SafeTensor t = {
        .name = s->name, .dtype = safe_dtype((Dtype)s->type.dtype), .rank = s->type.rank};
    memcpy(t.dim, s->type.dim, sizeof s->type.dim);
    return t;
}

static GanStatus save_slots(SafeOut *f, Exec *e) {
    const Module *m = exec_module(e);
    size_t most = largest_slot(e);
    void *room = mem_alloc(most);
    if (!room)
        return fail(GAN_ERR_MEMORY, "no memory to save %zu bytes", most);
    GanStatus st = GAN_OK;
    for (uint32_t i = 0; i < m->slot.n; i++) {
        const Slot *s = &m->slot.at[i];
        if (!slot_saved(m, s))
            continue;
        size_t n = exec_slot_bytes(e, i);
        TRY_OUT(exec_slot_save(e, i, room));
        if (!values_finite(room, n, (Dtype)s->type.dtype)) {
            st = fail(GAN_ERR_INPUT, "%.*s holds numbers that are not finite", SARG(s->name));
            goto out;
        }
        TRY_OUT(safe_out_put(f, room, n));
    }
out:
    mem_free(room);
    return st;
}

static GanStatus save_tensors(Arena *a, Str path, Exec *e, const Checkpoint *c) {
    const Module *m = exec_module(e);
    VEC(SafeTensor) tensor = {0};
    for (uint32_t i = 0; i < m->slot.n; i++)
        if (slot_saved(m, &m->slot.at[i]))
            vec_push(a, &tensor, slot_tensor(&m->slot.at[i]));
    SafeMeta meta[] = {{STR("format"), STR(FORMAT)},
                       {STR("model"), m->name},
                       {STR("step"), str_format(a, "%u", c->step)}};
    SafeOut *f;
    TRY(safe_out_open(path, tensor.at, tensor.n, meta, sizeof meta / sizeof *meta, &f));
    GanStatus st = save_slots(f, e);
    if (st == GAN_OK)
        return safe_out_commit(f);
    safe_out_abandon(f);
    return st;
}

static GanStatus content_of(Arena *a, Str path, Str *hash) {
    FileMap map;
    TRY(file_map(path, &map));
    *hash = hash_hex(a, hash128(map.ptr, map.n));
    file_unmap(&map);
    return GAN_OK;
}

static GanStatus save_json(Arena *a, Str dir, const Checkpoint *c, Str hash) {
    Text t = {.arena = a};
    JsonOut j = {.text = &t};
    json_open(&j, '{');
    json_member_str(&j, "format", STR(FORMAT));
    json_member_int(&j, "step", c->step);
    json_member_int(&j, "seed", (int64_t)c->seed);
    json_member_str(&j, "model", c->model);
    json_member_str(&j, "precision", str_c(dtype_name[c->real]));
    json_member_open(&j, "batches", '[');
    for (uint32_t i = 0; i < c->streams; i++)
        json_put_int(&j, (int64_t)c->position[i]);
    json_close(&j, ']');
    json_member_int(&j, "epoch", (int64_t)c->epoch);
    json_member_str(&j, "data", c->data);
    json_member_str(&j, "content", hash);
    json_close(&j, '}');
    text_char(&t, '\n');
    return file_write_atomic(run_file(a, dir, STR("ckpt"), c->step, "json"), t.at, t.n);
}

// Steps of the files of a checkpoint that end in `ext`, oldest first.
static GanStatus steps_with(Arena *a, Str dir, Str ext, CheckpointSteps *out) {
    enum { Digits = 8 };
    StrVec names;
    *out = (CheckpointSteps){0};
    if (!file_exists(ckpt_dir(a, dir)))
        return GAN_OK;
    TRY(dir_list(a, ckpt_dir(a, dir), &names));
    for (uint32_t i = 0; i < names.n; i++) {
        int64_t step;
        Str name = names.at[i];
        if (name.len == Digits + ext.len && str_ends(name, ext) &&
            str_to_int(str_sub(name, 0, Digits), &step) && step >= 0)
            vec_push(a, out, (uint32_t)step);
    }
    return GAN_OK;
}

GanStatus checkpoint_steps(Arena *a, Str dir, CheckpointSteps *out) {
    return steps_with(a, dir, STR(".json"), out);
}

// Later stages begin with what one has left at its end.
static bool ends_stage(const Job *job, uint32_t step) {
    for (uint32_t i = 0; job && i < job->now; i++)
        if (job->stage.at[i].last == step)
            return true;
    return false;
}

// All but the newest up to step c->step, the one just saved, and those that stay. Those of later
// steps were damaged, or the run would have gone on from them. The json goes first: what is half
// removed does not count.
static GanStatus drop_old(Arena *a, Str dir, const Checkpoint *c) {
    CheckpointSteps steps;
    uint32_t good = 0, keep = c->keep ? c->keep : CHECKPOINTS_KEPT;
    TRY(checkpoint_steps(a, dir, &steps));
    while (good < steps.n && steps.at[good] <= c->step)
        good++;
    for (uint32_t i = 0; i < steps.n; i++) {
        if (i < good && (i + keep >= good || (c->best && steps.at[i] == c->best) ||
                         ends_stage(c->job, steps.at[i])))
            continue;
        TRY(file_remove(run_file(a, dir, STR("ckpt"), steps.at[i], "json")));
        TRY(file_remove(run_file(a, dir, STR("ckpt"), steps.at[i], "safetensors")));
    }
    return GAN_OK;
}

// Tensors without a json, left by a process that was killed between writing the two or between
// removing them: no run would ever find them again.
static GanStatus drop_orphans(Arena *a, Str dir) {
    CheckpointSteps steps, tensors;
    TRY(steps_with(a, dir, STR(".json"), &steps));
    TRY(steps_with(a, dir, STR(".safetensors"), &tensors));
    for (uint32_t i = 0, k = 0; i < tensors.n; i++) {
        while (k < steps.n && steps.at[k] < tensors.at[i])
            k++;
        if (k == steps.n || steps.at[k] != tensors.at[i])
            TRY(file_remove(run_file(a, dir, STR("ckpt"), tensors.at[i], "safetensors")));
    }
    return GAN_OK;
}

GanStatus checkpoint_save(Arena scratch, Str dir, Exec *e, const Checkpoint *c, bool *whole) {
    Arena *a = &scratch;
    *whole = false;
    Str path = run_file(a, dir, STR("ckpt"), c->step, "safetensors"), hash;
    TRY(save_tensors(a, path, e, c));
    TRY(content_of(a, path, &hash));
    TRY(save_json(a, dir, c, hash));
    *whole = true;
    TRY(drop_old(a, dir, c));
    return drop_orphans(a, dir);
}

// --- loading -------------------------------------------------------------------------------------

// One checkpoint's description; GAN_ERR_INPUT with a reason when it is no good. One of another
// format is not damaged (job_format): an older one must not be resumed in its place.
static GanStatus read_json(Arena *a, Str path, uint32_t step, Checkpoint *out, Str *content) {
    Str text;
    const Json *root;
    TRY(file_read(a, path, &text));
    TRY(json_parse(a, text, path, &root));
    TRY(job_format(root, path, STR(FORMAT)));
    const Json *batches = json_get(root, "batches");
    uint64_t is = 0;
    *out = (Checkpoint){
        .step = step,
        .model = json_string(json_get(root, "model"), (Str){0}),
        .real = DtCount,
        .streams = json_count(batches),
        .data = json_string(json_get(root, "data"), (Str){0}),
    };
    if (!json_whole(json_get(root, "epoch"), UINT64_MAX, &out->epoch))
        out->epoch = 0;
    for (int i = 0; i < DtCount; i++)
        if (str_eq(json_string(json_get(root, "precision"), (Str){0}), str_c(dtype_name[i])))
            out->real = (Dtype)i;
    *content = json_string(json_get(root, "content"), (Str){0});
    bool fine = json_whole(json_get(root, "step"), UINT32_MAX, &is) && is == step &&
                json_whole(json_get(root, "seed"), UINT64_MAX, &out->seed) && content->len &&
                out->streams <= STREAMS_MOST && out->real != DtCount;
    for (uint32_t i = 0; fine && i < out->streams; i++)
        fine = json_whole(json_at(batches, i), UINT64_MAX, &out->position[i]);
    return fine ? GAN_OK
                : fail(GAN_ERR_INPUT, "%.*s: not a checkpoint of step %u", SARG(path), step);
}

static GanStatus check_tensors(const SafeFile *f, const Module *m) {
    for (uint32_t i = 0; i < m->slot.n; i++) {
        const Slot *s = &m->slot.at[i];
        if (!slot_saved(m, s))
            continue;
        const SafeTensor *t = safe_find(f, s->name);
        if (!t && s->kind == SlotScale)
            continue;
        if (!tensor_fits(t, s))
            return fail(GAN_ERR_INPUT, "%.*s is %s", SARG(s->name),
                        t ? "of another shape" : "missing");
    }
    return GAN_OK;
}

// One of a precision that scales no losses: the scales begin as `init` has them.
static bool lacks_scales(const SafeFile *f, const Module *m) {
    for (uint32_t i = 0; i < m->slot.n; i++)
        if (m->slot.at[i].kind == SlotScale && !safe_find(f, m->slot.at[i].name))
            return true;
    return false;
}

static bool samples_read(const Module *m, uint32_t slot) {
    for (uint32_t i = 0; i < m->entry.n; i++)
        if (func_reads(&m->entry.at[i], slot))
            return true;
    return false;
}

// Of another text than the run's only what its samples read must be there. That the text asks for
// more is no damage, hence GAN_ERR_USAGE.
static GanStatus check_samples(const SafeFile *f, const Module *m) {
    for (uint32_t i = 0; i < m->slot.n; i++) {
        const Slot *s = &m->slot.at[i];
        const SafeTensor *t = safe_find(f, s->name);
        if (slot_saved(m, s) && !tensor_fits(t, s) && samples_read(m, i))
            return fail(GAN_ERR_USAGE,
                        "a `sample` of model %.*s reads %.*s, which the checkpoint %s",
                        SARG(m->name), SARG(s->name), t ? "has in another shape" : "does not have");
    }
    return GAN_OK;
}

static GanStatus load_slots(const SafeFile *f, Exec *e, const Checkpoint *want) {
    const Module *m = exec_module(e);
    bool any = !want->model.len;
    TRY(any ? check_samples(f, m) : check_tensors(f, m));
    if (any || lacks_scales(f, m))
        TRY(exec_init(e, want->seed));
    for (uint32_t i = 0; i < m->slot.n; i++) {
        const SafeTensor *t = safe_find(f, m->slot.at[i].name);
        if (slot_saved(m, &m->slot.at[i]) && (any ? tensor_fits(t, &m->slot.at[i]) : t != NULL))
            TRY(exec_slot_load(e, i, t->data));
    }
    return GAN_OK;
}

static GanStatus check_content(Arena *a, Str path, Str content) {
    Str hash;
    TRY(content_of(a, path, &hash));
    return str_eq(hash, content)
               ? GAN_OK
               : fail(GAN_ERR_INPUT, "%.*s: its content does not match its hash", SARG(path));
}

static GanStatus load_tensors(Arena *a, Str path, Str content, Exec *e, const Checkpoint *want) {
    SafeFile f;
    TRY(check_content(a, path, content));
    TRY(safe_open(a, path, &f));
    GanStatus st = load_slots(&f, e, want);
    safe_close(&f);
    return st;
}

// Weights of every precision but f64 are f32.
bool stored_alike(Dtype a, Dtype b) {
    return (a == DtF64) == (b == DtF64);
}

// A run that trains removes old checkpoints as it saves: what was listed a moment ago may be gone.
// *since: there are newer ones; then *steps is what is there now.
static GanStatus saved_since(Arena *a, Str dir, CheckpointSteps *steps, bool *since) {
    CheckpointSteps now;
    TRY(checkpoint_steps(a, dir, &now));
    *since = now.n && (!steps->n || now.at[now.n - 1] > steps->at[steps->n - 1]);
    if (*since)
        *steps = now;
    return GAN_OK;
}

static bool is_asked_for(const Checkpoint *want, uint32_t step) {
    const Job *job = want->job;
    if (want->step != NONE)
        return step == want->step;
    return !job || job->now + 1 >= job->stage.n || step <= job_now(job)->last;
}

// Of another run than `want`'s.
static GanStatus check_origin(const Checkpoint *c, const Checkpoint *want) {
    if (want->model.len && !str_eq(c->model, want->model))
        return fail(GAN_ERR_INPUT,
                    "the checkpoint of step %u is of another model: its hash is %.*s, that of "
                    "resolved.gan %.*s",
                    c->step, SARG(c->model), SARG(want->model));
    if (want->model.len && c->seed != want->seed)
        return fail(GAN_ERR_INPUT,
                    "the checkpoint of step %u is of seed %llu, the run of seed %llu", c->step,
                    (unsigned long long)c->seed, (unsigned long long)want->seed);
    if (!stored_alike(c->real, want->real))
        return fail(GAN_ERR_INPUT, "the checkpoint of step %u is in %s, the run in %s", c->step,
                    dtype_name[c->real], dtype_name[want->real]);
    return GAN_OK;
}

// A checkpoint that says something else than was written, or of which a part is gone, is damaged;
// one that cannot be read now may be whole, and going back from it would write over it.
static bool is_damage(GanStatus st, Str about, Str tensors) {
    return st == GAN_ERR_INPUT ||
           (st == GAN_ERR_IO && !(file_exists(about) && file_exists(tensors)));
}

GanStatus checkpoint_load(Arena *perm, Str dir, Exec *e, const Checkpoint *want,
                          const Console *console, Checkpoint *out, bool *found) {
    CheckpointSteps steps;
    bool there = false;
    *found = false;
    TRY(checkpoint_steps(perm, dir, &steps));
    for (uint32_t i = steps.n; i-- > 0;) {
        uint32_t step = steps.at[i];
        bool since;
        if (!is_asked_for(want, step))
            continue;
        there = true;
        Str content, about = run_file(perm, dir, STR("ckpt"), step, "json"),
                     tensors = run_file(perm, dir, STR("ckpt"), step, "safetensors");
        GanStatus st = read_json(perm, about, step, out, &content);
        if (st == GAN_OK) {
            TRY(check_origin(out, want));
            st = load_tensors(perm, tensors, content, e, want);
        }
        if (st == GAN_OK || !is_damage(st, about, tensors)) {
            *found = st == GAN_OK;
            return st;
        }
        TRY(saved_since(perm, dir, &steps, &since));
        if (since) {
            i = steps.n;
            there = false;
            continue;
        }
        say(console, "the checkpoint of step %u is damaged (%s)%s", step, gan_error(),
            i && want->step == NONE ? "; using the one before" : "");
    }
    if (!there)
        return GAN_OK;
    if (want->step != NONE)
        return fail(GAN_ERR_INPUT, "the checkpoint of step %u in %.*s/ckpt is damaged", want->step,
                    SARG(dir));
    return fail(GAN_ERR_INPUT,
                "no checkpoint in %.*s/ckpt is whole: put a copy of one back, or move that folder "
                "away, and `ganrun train %.*s` begins at step 0 again",
                SARG(dir), SARG(dir));
}

GanStatus checkpoint_newest(Arena *perm, Str dir, uint32_t *out) {
    CheckpointSteps steps;
    Checkpoint c;
    TRY(checkpoint_steps(perm, dir, &steps));
    for (uint32_t i = steps.n; i-- > 0;) {
        uint32_t step = *out = steps.at[i];
        Str content, about = run_file(perm, dir, STR("ckpt"), step, "json"),
                     tensors = run_file(perm, dir, STR("ckpt"), step, "safetensors");
        GanStatus st = read_json(perm, about, step, &c, &content);
        if (st == GAN_OK)
            st = check_content(perm, tensors, content);
        if (st == GAN_OK || !is_damage(st, about, tensors))
            return st;
        bool since;
        TRY(saved_since(perm, dir, &steps, &since));
        i = since ? steps.n : i;
    }
    *out = NONE;
    return GAN_OK;
}
