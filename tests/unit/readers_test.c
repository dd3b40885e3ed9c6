// readers_test.c - every reader of files, with its n-th read-side call failing, for every n: one
// error with the system's own words, no descriptor left open; or all that the file holds.
#define _GNU_SOURCE
#include "data_fixture.h"
#include "cases.h"
#include "driver.h"
#include "job.h"
#include "onnx_file.h"
#include "process.h"
#include "ranks.h"
#include "torch.h"

typedef struct Reading {
    Arena *a;
    Str path;
    Text said; // what is reported besides the status
} Reading;

static void note(void *user, Str name, const char *reason) {
    Reading *r = user;
    text_fmt(&r->said, "%.*s: %s\n", SARG(name), reason);
}

static GanStatus read_pack(Reading *r) {
    Pack pack = {0};
    GanStatus st = pack_open(r->a, r->path, &pack);
    assert_true(st != GAN_OK || pack_verify(&pack) == GAN_OK);
    pack_close(&pack);
    return st;
}

static GanStatus read_weights(Reading *r) {
    SafeFile f = {0};
    GanStatus st = weights_open(r->a, r->path, &f);
    assert_true(st != GAN_OK || f.tensor.n >= 4);
    safe_close(&f);
    return st;
}

static GanStatus read_npy(Reading *r) {
    float *x;
    uint32_t rank;
    int64_t dim[DATA_MAX_RANK];
    GanStatus st = npy_read_f32(r->a, r->path, &x, &rank, dim);
    assert_true(st != GAN_OK || rank == 2);
    return st;
}

static GanStatus read_onnx(Reading *r) {
    OnnxFile f = {0};
    GanStatus st = onnx_open(r->a, r->path, &f);
    assert_true(st != GAN_OK || f.node.n > 0);
    onnx_close(&f);
    return st;
}

static GanStatus read_ganx(Reading *r) {
    Ganx g;
    return ganx_read(r->a, r->path, &g);
}

static GanStatus read_model(Reading *r) {
    Str text;
    return compile_read(r->a, r->path, &text);
}

static GanStatus read_run(Reading *r) {
    Job job;
    return run_read(r->a, r->path, &job);
}

static GanStatus read_link(Reading *r) {
    LinkModel m;
    GanStatus st = link_kept(*r->a, r->path, &m);
    assert_true(st != GAN_OK || m.latency > 0); // else it would be measured again
    return st;
}

static GanStatus inspect(Reading *r) {
    char *text = NULL;
    size_t n = 0;
    FILE *out = open_memstream(&text, &n);
    assert_non_null(out);
    GanStatus st = data_inspect(r->path, (Str){0}, false, out);
    assert_int_equal(fclose(out), 0);
    text_put(&r->said, (Str){text, n});
    free(text);
    return st;
}

static GanStatus make_pack(Reading *r) {
    Pack pack = {0};
    PackSummary sum = {0};
    PackOptions o = {.threads = 1, .bad = note, .user = r};
    if (file_is_dir(r->path) || str_ends(r->path, STR(".zip")))
        o.w = o.h = 8;
    GanStatus st = pack_build(r->a, r->path, &o, (Str){0}, &pack, &sum);
    assert_true(st != GAN_OK || (pack.count > 1 && !sum.bad));
    pack_close(&pack);
    return st;
}

static uint32_t descriptors(Arena scratch) {
    StrVec names;
    assert_ok(dir_list(&scratch, STR("/proc/self/fd"), &names));
    return names.n;
}

static const struct {
    GanStatus (*read)(Reading *r);
    const char *path;  // below the corpora, or the folder that a case has
    uint32_t failures; // read-side calls that it makes, at least
} readers[] = {
    {read_pack, SEEDS "pack/shapes.pack", 3},
    {read_weights, SEEDS "safetensors/all.safetensors", 3},
    {read_weights, SEEDS "torch/state.pth", 3},
    {read_npy, SEEDS "npy/f4.npy", 3},
    {read_onnx, SEEDS "onnx/layers.onnx", 3},
    {read_ganx, SEEDS "ganx/dot.ganx", 4},
    {read_model, "resolved.gan", 4},
    {read_run, SEEDS "run", 4},
    {read_link, SEEDS "run", 4},
    {inspect, SEEDS "pack/shapes.pack", 9},
    {inspect, SEEDS "torch/old.pth", 6},
    {inspect, SEEDS "npy/one.npz", 6},
    {inspect, "t.csv", 6},
    {inspect, "set", 20},
    {inspect, "env", 6},
    {make_pack, SEEDS "npy/u1.npy", 6},
    {make_pack, SEEDS "npy/images.idx", 6},
    {make_pack, "a.npy.gz", 6},
    {make_pack, SEEDS "source/pictures.zip", 3},
    {make_pack, "set", 20},
    {make_pack, "env", 6},
};

// The last call that can fail is behind `most`: none of these makes more.
static void try_reader(Fixture *p, size_t i) {
    enum { Most = 200 };
    const char *path = readers[i].path;
    Str at = str_starts(str_c(path), STR(SEEDS)) ? str_c(path) : under(p, path);
    uint32_t failures = 0, before = descriptors(p->arena);
    GanStatus st = GAN_OK;
    for (int64_t n = 1; n <= Most; n++) {
        Arena scratch = p->arena;
        Reading r = {.a = &scratch, .path = at, .said.arena = &scratch};
        file_fail_read_at(n);
        st = readers[i].read(&r);
        file_fail_read_at(0);
        failures += st != GAN_OK;
        const char *words = "Input/output error";
        if (st != GAN_OK && !strstr(gan_error(), words) && !strstr(text_str(&r.said).ptr, words))
            fail_msg("%s, read %lld: %s\n%s", path, (long long)n, gan_error(), r.said.at);
        if (descriptors(scratch) != before)
            fail_msg("%s, read %lld: a file stays open", path, (long long)n);
    }
    if (st != GAN_OK || failures < readers[i].failures)
        fail_msg("%s: %u reads failed, the last with %d: %s", path, failures, (int)st, gan_error());
}

static void whatever_read_fails_is_one_error(void **state) {
    Fixture *p = *state;
    Str lmdb, array, said;
    int code;
    make_folder(p, 6);
    write_text(p, "resolved.gan", "model m\nstep {}\n");
    write_text(p, "t.csv", "a,b\n1,2\n3,4\n");
    assert_ok(file_read(&p->arena, STR(SEEDS "lmdb/images.mdb"), &lmdb));
    write_bytes(p, "env/data.mdb", lmdb.ptr, lmdb.len);
    assert_ok(file_read(&p->arena, STR(SEEDS "npy/u1.npy"), &array));
    write_bytes(p, "a.npy", array.ptr, array.len);
    const char *const gzip[] = {"gzip", under(p, "a.npy").ptr, NULL};
    assert_ok(process_run(&p->arena, gzip, &said, &code));
    assert_int_equal(code, 0);
    for (size_t i = 0; i < sizeof readers / sizeof *readers; i++)
        try_reader(p, i);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {T(whatever_read_fails_is_one_error)};
    if (CASES_LISTED(tests))
        return 0;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
