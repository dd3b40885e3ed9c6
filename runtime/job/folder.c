// folder.c - creates, finds, locks and cleans the folder of a run.
//
// options.json is written last, so a folder that has it is complete. A lock, which the system
// releases with the process, keeps two processes from writing to one run.
#include "job.h"
#include "temporary.h"

Str run_file(Arena *perm, Str dir, Str folder, uint32_t step, const char *ext) {
    return str_format(perm, "%.*s/%.*s/%08u.%s", SARG(dir), SARG(folder), step, ext);
}

bool run_is(Arena scratch, Str dir) {
    return file_exists(path_join(&scratch, dir, STR("options.json")));
}

GanStatus run_want(Arena scratch, Str dir) {
    if (run_is(scratch, dir))
        return GAN_OK;
    return fail(GAN_ERR_INPUT, "%.*s is not the folder of a run: %s", SARG(dir),
                file_is_dir(dir)   ? "it has no options.json"
                : file_exists(dir) ? "it is a file"
                                   : "there is no such folder");
}

GanStatus run_samples(Arena *a, Str dir, StrVec *out) {
    StrVec names;
    Str first = STR("samples"), in = path_join(a, dir, first);
    *out = (StrVec){0};
    if (!file_exists(in))
        return GAN_OK;
    TRY(dir_list(a, in, &names));
    vec_push(a, out, first);
    for (uint32_t i = 0; i < names.n; i++)
        if (file_is_dir(path_join(a, in, names.at[i])))
            vec_push(a, out, path_join(a, first, names.at[i]));
    return GAN_OK;
}

GanStatus run_lock(Arena *perm, Str dir, FileLock **out) {
    TRY(dir_make(dir));
    GanStatus st = file_lock(path_join(perm, dir, STR(".lock")), out);
    if (st == GAN_ERR_INPUT)
        return fail_in(st, "another ganrun is training in this folder");
    TRY(st);
    StrVec samples;
    TRY(temporary_clear(perm, dir));
    TRY(temporary_clear(perm, path_join(perm, dir, STR("ckpt"))));
    TRY(run_samples(perm, dir, &samples));
    for (uint32_t i = 0; i < samples.n; i++)
        TRY(temporary_clear(perm, path_join(perm, dir, samples.at[i])));
    return GAN_OK;
}

// Whether it is a folder of checkpoints, of samples, or of one of several samples.
static bool is_of_run(Arena scratch, Str folder) {
    Str in = path_dir(folder), name = path_base(folder);
    if (str_eq(path_base(in), STR("samples")))
        return run_is(scratch, path_dir(in));
    return (str_eq(name, STR("samples")) || str_eq(name, STR("ckpt"))) && run_is(scratch, in);
}

GanStatus run_spares(Arena scratch, Str path) {
    Str there = file_resolved(&scratch, path);
    bool folder = file_is_dir(there);
    if (there.len && is_of_run(scratch, folder ? there : path_dir(there)))
        return fail(GAN_ERR_USAGE, "-o %.*s: the run wrote %s itself, and may read it again",
                    SARG(path), folder ? "what is in this folder" : "this file");
    return GAN_OK;
}

// A folder may have other files, but none that a run writes after options.json, which is not there.
static GanStatus none_in_the_way(Arena scratch, Str dir) {
    static const Str names[] = {{"log.jsonl", 9}, {"index.html", 10}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (file_exists(path_join(&scratch, dir, names[i])))
            return fail(GAN_ERR_INPUT,
                        "%.*s has a file %.*s, which the run would write over: another --out, or "
                        "move it away",
                        SARG(dir), SARG(names[i]));
    return GAN_OK;
}

GanStatus run_create(Arena *perm, Str dir, const Job *job, Str resolved) {
    TRY(none_in_the_way(*perm, dir));
    TRY(dir_make(path_join(perm, dir, STR("samples"))));
    TRY(file_write_atomic(path_join(perm, dir, STR("resolved.gan")), resolved.ptr, resolved.len));
    return run_rewrite(perm, dir, job);
}

GanStatus run_rewrite(Arena *perm, Str dir, const Job *job) {
    Text t = {.arena = perm};
    TRY(dir_make(path_join(perm, dir, STR("ckpt")))); // which may have been moved away
    job_write(&t, job);
    return file_write_atomic(path_join(perm, dir, STR("options.json")), t.at, t.n);
}

GanStatus run_read(Arena *perm, Str dir, Job *out) {
    Str path = path_join(perm, dir, STR("options.json")), text;
    TRY(file_read(perm, path, &text));
    TRY(job_read(perm, text, path, out));
    out->model = path_join(perm, dir, STR("resolved.gan"));
    return GAN_OK;
}

GanStatus run_claim(Arena *perm, Str model, Str *out) {
    Str base = path_base(path_stem(model));
    bool created = false;
    TRY(dir_make(STR("runs")));
    for (uint32_t i = 0; !created; i++) {
        *out = str_format(perm, "runs/%05u-%.*s", i, SARG(base));
        TRY(dir_make_new(*out, &created));
    }
    return GAN_OK;
}
