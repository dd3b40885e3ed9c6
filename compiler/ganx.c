// ganx.c - a compiled model as one file: a zip that anyone can list.
//
// In: a model and options, or any bytes. Out: the file, or its texts. The same model gives the same
// bytes: members come in one order and carry no time. Reading trusts nothing: sizes are bounded,
// every member's bytes have the hash the manifest states, and the plan is checked as any text is.
#include "driver.h"
#include "library.h"

#include <archive.h>
#include <archive_entry.h>
#include <pthread.h>
#include <string.h>

enum { MEMBERS_MOST = 1000, BYTES_MOST = 1 << 29, MANIFEST_MOST = 1 << 20 };

typedef GanxMember Member;
typedef VEC(Member) MemberVec;

bool ganx_is(Str path) {
    return str_eq(path_ext(path), STR("ganx"));
}

Str ganx_text_path(Arena *perm, Str path) {
    return path_join(perm, path, STR(GANX_TEXT));
}

static const Member *member_find(const MemberVec *m, Str name) {
    for (uint32_t i = 0; i < m->n; i++)
        if (str_eq(m->at[i].name, name))
            return &m->at[i];
    return NULL;
}

// --- writing -------------------------------------------------------------------------------------

static la_ssize_t append(struct archive *a, void *user, const void *bytes, size_t n) {
    (void)a;
    text_put(user, (Str){bytes, n});
    return (la_ssize_t)n;
}

static GanStatus zip_failed(struct archive *a) {
    const char *why = archive_error_string(a);
    return fail(GAN_ERR_IO, "a compiled model could not be packed: %s", why ? why : "no reason");
}

static GanStatus put_member(struct archive *a, const Member *m) {
    struct archive_entry *entry = archive_entry_new();
    if (!entry)
        return fail(GAN_ERR_MEMORY, "no memory to pack a compiled model");
    archive_entry_set_pathname(entry, m->name.ptr);
    archive_entry_set_size(entry, (la_int64_t)m->bytes.len);
    archive_entry_set_filetype(entry, AE_IFREG);
    archive_entry_set_perm(entry, 0644);
    archive_entry_set_mtime(entry, 0, 0); // before what a zip can say: the same in every time zone
    bool fine = archive_write_header(a, entry) == ARCHIVE_OK &&
                archive_write_data(a, m->bytes.ptr, m->bytes.len) == (la_ssize_t)m->bytes.len;
    archive_entry_free(entry);
    return fine ? GAN_OK : zip_failed(a);
}

// A zip as it is written, by one thread at a time.
typedef struct Zip {
    Arena *perm;      // of what is written and of its members
    MemberVec member; // that it has
    Text bytes;
    struct archive *archive; // owned
} Zip;

static GanStatus zip_begin(Zip *z) {
    TRY(archive_ready());
    struct archive *a = z->archive = archive_write_new();
    if (!a)
        return fail(GAN_ERR_MEMORY, "no memory to pack a compiled model");
    z->bytes.arena = z->perm;
    if (archive_write_set_format_zip(a) != ARCHIVE_OK ||
        archive_write_set_format_option(a, "zip", "compression-level", "1") != ARCHIVE_OK ||
        archive_write_set_bytes_in_last_block(a, 1) != ARCHIVE_OK ||
        archive_write_open(a, &z->bytes, NULL, append, NULL) != ARCHIVE_OK)
        return zip_failed(a);
    return GAN_OK;
}

static GanStatus zip_add(Zip *z, Member m) {
    vec_push(z->perm, &z->member, m);
    return put_member(z->archive, &m);
}

static GanStatus zip_end(Zip *z) {
    return archive_write_close(z->archive) == ARCHIVE_OK ? GAN_OK : zip_failed(z->archive);
}

static void zip_release(Zip *z) {
    if (z->archive)
        archive_write_free(z->archive);
}

// The configs of the resolved model: in its text, a default is the value.
static void put_config(JsonOut *j, Arena *perm, Str model, const Ast *file) {
    json_open(j, '{');
    for (uint32_t i = 0; i < file->list.n; i++) {
        const Ast *item = file->list.at[i];
        if (item->kind != AstConfig || !item->list.n)
            continue;
        const Ast *value = item->list.at[0];
        json_member_str(j, str_z(perm, item->text),
                        value->kind == AstStr ? value->text
                                              : str_sub(model, value->span.lo, value->span.hi));
    }
    json_close(j, '}');
}

static Str manifest(Arena *perm, const Ganx *g, const Ast *file, const MemberVec *m) {
    Text t = {.arena = perm};
    JsonOut j = {.text = &t};
    json_open(&j, '{');
    json_member_str(&j, "format", STR("gan-compiled-1"));
    json_member_str(&j, "made_by", STR("ganc " GAN_VERSION));
    json_member_str(&j, "model", g->name);
    json_member_str(&j, "hash", g->hash);
    json_member_int(&j, "batch", g->batch);
    json_member_str(&j, "precision", str_c(dtype_name[g->real]));
    json_member_str(&j, "target", g->target);
    if (g->ranks > 1)
        json_member_int(&j, "ranks", g->ranks);
    if (g->memory)
        json_member_int(&j, "memory_bytes", (int64_t)g->memory);
    json_name(&j, "config"), put_config(&j, perm, g->model, file);
    json_member_open(&j, "members", '{');
    for (uint32_t i = 0; i < m->n; i++) {
        Str hex = hash_hex(perm, hash128(m->at[i].bytes.ptr, m->at[i].bytes.len));
        json_member_str(&j, str_z(perm, m->at[i].name), hex);
    }
    json_close(&j, '}');
    json_close(&j, '}');
    text_char(&t, '\n');
    return text_str(&t);
}

// The kernels of one function as they go to the compiler.
static Member kernel_member(Arena *perm, const Plan *p, const char *ext) {
    Text t = {.arena = perm};
    text_put(&t, p->prelude);
    for (uint32_t i = 0; i < p->kernel.n; i++) {
        text_char(&t, '\n');
        text_put(&t, p->kernel.at[i].source);
    }
    return (Member){str_format(perm, "kernels/%.*s.%s", SARG(p->func->name), ext), text_str(&t)};
}

static const Plan *plan_at(const Compiled *c, uint32_t i) {
    return i == 0 ? &c->init : i == 1 ? &c->step : &c->entry[i - 2];
}

// `number`: among those of its architecture.
static Str cubin_name(Arena *perm, const Cubin *c, uint32_t number) {
    return c->ptx ? str_format(perm, "kernels/compute_%d/%u.ptx", c->arch, number)
                  : str_format(perm, "kernels/sm_%d/%u.cubin", c->arch, number);
}

// The machine code of all functions, which share kernels.
static GanStatus compile_kernels(Arena *perm, const GanxTarget *t, const Compiled *c,
                                 CubinVec *out) {
    uint32_t plans = 2 + c->module.entry.n;
    const Plan **plan = arena_array(perm, const Plan *, plans);
    for (uint32_t i = 0; i < plans; i++)
        plan[i] = plan_at(c, i);
    return t->archs ? t->compile(t->user, plan, plans, t->arch, t->archs, perm, out) : GAN_OK;
}

// A member for each batch of kernels.
static GanStatus add_cubins(Zip *z, const CubinVec *made) {
    for (uint32_t i = 0, number = 0; i < made->n; i++, number++) {
        const Cubin *c = &made->at[i];
        if (i && (c->arch != c[-1].arch || c->ptx != c[-1].ptx))
            number = 0;
        TRY(zip_add(z, (Member){cubin_name(z->perm, c, number), c->code}));
    }
    return GAN_OK;
}

typedef struct Packing { // of all that is known before kernels are compiled, meanwhile
    Zip *zip;
    const Ganx *ganx;
    const Compiled *c;
    GanStatus status;
    char error[1024]; // the message of a thread is its own
} Packing;

static GanStatus add_texts(Zip *z, const Ganx *g, const Compiled *c) {
    Text plan = {.arena = z->perm};
    bool cpu = str_eq(g->target, STR("cpu"));
    compiled_print(&plan, c, PlanPlaced);
    TRY(zip_begin(z));
    TRY(zip_add(z, (Member){STR(GANX_TEXT), g->model}));
    TRY(zip_add(z, (Member){STR("plan.txt"), text_str(&plan)}));
    for (uint32_t i = 0; i < 2 + c->module.entry.n; i++)
        TRY(zip_add(z, kernel_member(z->perm, plan_at(c, i), cpu ? "c" : "cu")));
    return GAN_OK;
}

static void *pack_texts(void *user) {
    Packing *p = user;
    p->status = add_texts(p->zip, p->ganx, p->c);
    if (p->status != GAN_OK)
        snprintf(p->error, sizeof p->error, "%s", gan_error());
    return NULL;
}

// The model's text and what its own options do not say in it: all that decides the file's bytes.
static Str key_of(Arena *perm, const CompileOptions *o, const GanxTarget *target) {
    const Parallel *p = &o->parallel;
    Text key = {.arena = perm};
    text_fmt(&key, "ganx %.*s", SARG(target->name));
    for (uint32_t i = 0; i < target->archs; i++)
        text_fmt(&key, " %d", target->arch[i]);
    text_fmt(&key, "\n%s %lld, %d %d %d %d, %u %u %u %zu %a %a %d, %zu\n", dtype_name[o->real],
             (long long)o->batch, o->feed, o->feed_entries, o->keep_grads, o->no_fuse, p->ranks,
             p->chunks, p->micro, p->bucket, p->latency, p->bandwidth, p->tail, o->memory);
    text_put(&key, o->text);
    return text_str(&key);
}

// The zip of a planned model: its texts by a second thread, while this one compiles its kernels.
static GanStatus pack(Arena *perm, Zip *z, const Ganx *g, const GanxTarget *target, const Ast *file,
                      const Compiled *c) {
    Packing texts = {z, g, c, GAN_OK, ""};
    CubinVec made = {0};
    pthread_t thread;
    bool beside = pthread_create(&thread, NULL, pack_texts, &texts) == 0;
    GanStatus status = compile_kernels(perm, target, c, &made);
    if (beside)
        pthread_join(thread, NULL);
    TRY(status);
    if (!beside)
        pack_texts(&texts);
    if (texts.status != GAN_OK)
        return fail(texts.status, "%s", texts.error);
    TRY(add_cubins(z, &made));
    TRY(zip_add(z, (Member){STR("manifest.json"), manifest(z->perm, g, file, &z->member)}));
    return zip_end(z);
}

// The file of a resolved and checked model. `file`: what its text was read as. *out is in `beside`,
// the memory of a second thread.
static GanStatus make(Arena *perm, Arena *beside, const CompileOptions *o, const GanxTarget *target,
                      const Ast *file, const Module *m, Str *out) {
    Compiled c = {.module = *m};
    Zip z = {.perm = beside};
    Ganx g = {.name = m->name,
              .hash = hash_hex(perm, module_hash(m, *perm)),
              .target = target->name,
              .batch = m->batch,
              .ranks = o->parallel.ranks > 1 ? o->parallel.ranks : 1,
              .real = o->real,
              .memory = o->memory,
              .model = o->text};
    TRY(compile_plans_beside(perm, beside, &c.module, o, &c));
    GanStatus status = pack(perm, &z, &g, target, file, &c);
    zip_release(&z);
    *out = text_str(&z.bytes);
    return status;
}

// A resolved model, which has nothing to say that was not said of the user's own text. `told`: what
// that text means, where it is the resolved one; else NULL.
static GanStatus read_resolved(Arena *perm, const CompileOptions *o, const Module *told, Ast **file,
                               Module *out) {
    Front parsed, compiled; // spans are of the front that read them
    front_init(&parsed, perm);
    front_init(&compiled, perm);
    if (compile_parse(&parsed, o, file) != GAN_OK ||
        (!told && compile_module(&compiled, o, out) != GAN_OK))
        return fail(GAN_ERR_BUG, "the model is refused with its settings written into its text; "
                                 "please report this");
    if (told) {
        *out = *told;
        out->source.at[0] = STR(GANX_TEXT);
    }
    return GAN_OK;
}

static GanStatus make_and_write(Arena *perm, const CompileOptions *o, const Module *told,
                                const GanxTarget *target, Str path) {
    Str key = target->find ? key_of(perm, o, target) : (Str){0}, bytes;
    Ast *file = NULL;
    Module m = {0};
    Arena beside;
    if (target->find && target->find(target->user, perm, key, &bytes))
        return file_write_atomic(path, bytes.ptr, bytes.len);
    TRY(read_resolved(perm, o, told, &file, &m));
    TRY(arena_init(&beside, 0));
    GanStatus status = make(perm, &beside, o, target, file, &m, &bytes);
    if (status == GAN_OK && target->find)
        target->keep(target->user, perm, key, bytes);
    if (status == GAN_OK)
        status = file_write_atomic(path, bytes.ptr, bytes.len);
    arena_release(&beside);
    return status;
}

GanStatus ganx_write(Front *f, const CompileOptions *asked, const GanxTarget *target, Str path) {
    Arena *perm = f->perm;
    CompileOptions o = *asked;
    Module told = {0};
    if (ganx_is(o.path)) { // its text is a model like any other
        Ganx g;
        TRY(ganx_read(perm, o.path, &g));
        if (o.real != g.real)
            return fail(GAN_ERR_USAGE, "%.*s is compiled for %s, not %s: give --precision %s",
                        SARG(o.path), dtype_name[g.real], dtype_name[o.real], dtype_name[g.real]);
        o.path = ganx_text_path(perm, o.path);
        o.text = g.model;
        o.batch = o.batch ? o.batch : g.batch;
        o.memory = o.memory ? o.memory : g.memory;
    }
    o.dialect = dialect_find(str_eq(target->name, STR("cpu")) ? STR("c") : STR("cuda"));
    TRY(compile_module(f, &o, &told)); // also of a model that is kept: its warnings are told
    TRY(compile_resolved(perm, &o, &o.text));
    bool same = !o.settings && !compile_is_yaml(o.path);
    o.path = STR(GANX_TEXT);
    o.setting = NULL;
    o.settings = 0;
    return make_and_write(perm, &o, same ? &told : NULL, target, path);
}

// --- reading -------------------------------------------------------------------------------------

static GanStatus not_whole(Str path, const char *why) {
    return fail(GAN_ERR_INPUT, "%.*s is not a compiled model, or is damaged: %s", SARG(path),
                why ? why : "it cannot be unpacked");
}

static GanStatus get_bytes(struct archive *a, Arena *perm, Str path, size_t *left, Str *out) {
    Text t = {.arena = perm};
    char block[1 << 14];
    for (;;) {
        la_ssize_t got = archive_read_data(a, block, sizeof block);
        if (got < 0)
            return not_whole(path, archive_error_string(a));
        if (got == 0)
            break;
        if ((size_t)got > *left)
            return not_whole(path, "it is larger than any model");
        *left -= (size_t)got;
        text_put(&t, (Str){block, (size_t)got});
    }
    *out = text_str(&t);
    return GAN_OK;
}

static GanStatus get_members(struct archive *a, Arena *perm, Str path, MemberVec *out) {
    struct archive_entry *entry;
    size_t left = BYTES_MOST;
    int code;
    while ((code = archive_read_next_header(a, &entry)) == ARCHIVE_OK) {
        const char *name = archive_entry_pathname(entry);
        if (!name || out->n == MEMBERS_MOST)
            return not_whole(path, "a member without a name, or too many");
        Member m = {.name = str_copy(perm, str_c(name))};
        if (member_find(out, m.name))
            return not_whole(path, "a member comes twice");
        TRY(get_bytes(a, perm, path, &left, &m.bytes));
        vec_push(perm, out, m);
    }
    return code == ARCHIVE_EOF ? GAN_OK : not_whole(path, archive_error_string(a));
}

static GanStatus unzip(Arena *perm, Str bytes, Str path, MemberVec *out) {
    TRY(archive_ready());
    struct archive *a = archive_read_new();
    if (!a)
        return fail(GAN_ERR_MEMORY, "no memory to open %.*s", SARG(path));
    archive_read_support_format_zip(a);
    GanStatus status = archive_read_open_memory(a, bytes.ptr, bytes.len) == ARCHIVE_OK
                           ? get_members(a, perm, path, out)
                           : not_whole(path, archive_error_string(a));
    archive_read_free(a);
    return status;
}

static GanStatus read_manifest(Arena *perm, Str text, Str path, const Json **members, Ganx *out) {
    const Json *root;
    Str where = str_format(perm, "%.*s: manifest.json", SARG(path));
    if (text.len > MANIFEST_MOST)
        return not_whole(path, "its manifest is too long");
    TRY(json_parse(perm, text, where, &root));
    double batch = json_number(json_get(root, "batch"), 0);
    double ranks = json_number(json_get(root, "ranks"), 1); // one: not said
    double memory = json_number(json_get(root, "memory_bytes"), 0);
    Str precision = json_string(json_get(root, "precision"), (Str){0});
    *out = (Ganx){
        .name = json_string(json_get(root, "model"), (Str){0}),
        .hash = json_string(json_get(root, "hash"), (Str){0}),
        .target = json_string(json_get(root, "target"), (Str){0}),
        .real = DtCount,
    };
    for (int i = 0; i < DtCount; i++)
        if (str_eq(precision, str_c(dtype_name[i])))
            out->real = (Dtype)i;
    *members = json_get(root, "members");
    if (!str_eq(json_string(json_get(root, "format"), (Str){0}), STR("gan-compiled-1")))
        return not_whole(path, "its manifest is of another format");
    bool known = str_eq(out->target, STR("cpu")) || str_eq(out->target, STR("cuda"));
    if (!(memory >= 0 && memory <= 9007199254740992.0)) // 2^53: exact in a double
        return not_whole(path, "its manifest names no possible limit on memory");
    if (!(batch >= 1 && batch <= 1 << 30) || !(ranks >= 1 && ranks <= batch) ||
        out->real == DtCount || !known || !out->hash.len)
        return not_whole(path, "its manifest lacks the model, batch, precision or target");
    out->batch = (int64_t)batch;
    out->ranks = (uint32_t)ranks;
    out->memory = (size_t)memory;
    return GAN_OK;
}

static GanStatus check_members(Arena *perm, const MemberVec *m, const Json *members, Str path) {
    for (uint32_t i = 0; i < m->n; i++) {
        Str name = m->at[i].name;
        Hash128 h = hash128(m->at[i].bytes.ptr, m->at[i].bytes.len);
        Str said = json_string(json_get(members, str_z(perm, name)), (Str){0});
        if (!str_eq(name, STR("manifest.json")) && !str_eq(said, hash_hex(perm, h)))
            return fail(GAN_ERR_INPUT, "%.*s: its %.*s is not what was compiled: compile it again",
                        SARG(path), SARG(name));
    }
    return GAN_OK;
}

GanStatus ganx_parse(Arena *perm, Str bytes, Str path, Ganx *out) {
    MemberVec m = {0};
    const Json *members = NULL;
    TRY(unzip(perm, bytes, path, &m));
    const Member *first = member_find(&m, STR("manifest.json"));
    const Member *model = member_find(&m, STR(GANX_TEXT));
    const Member *plan = member_find(&m, STR("plan.txt"));
    if (!first || !model || !plan)
        return not_whole(path, "it lacks its manifest, model or plan");
    TRY(read_manifest(perm, first->bytes, path, &members, out));
    TRY(check_members(perm, &m, members, path));
    out->model = model->bytes;
    out->plan = plan->bytes;
    for (uint32_t i = 0; i < m.n; i++)
        vec_push(perm, &out->member, m.at[i]);
    return GAN_OK;
}

static bool take_head(Str *s, Str head) {
    bool starts = str_starts(*s, head);
    if (starts)
        *s = str_sub(*s, head.len, s->len);
    return starts;
}

// Is it a name that cubin_name makes, whatever the file in the folder is called? Then *out has all
// but the code.
static bool cubin_member(Str name, Cubin *out) {
    int64_t arch;
    bool ptx = take_head(&name, STR("kernels/compute_"));
    if (!ptx && !take_head(&name, STR("kernels/sm_")))
        return false;
    size_t slash = str_find(name, '/');
    if (!str_to_int(str_sub(name, 0, slash), &arch) || arch < 0 || arch > 1000 ||
        !str_ends(str_sub(name, slash, name.len), ptx ? STR(".ptx") : STR(".cubin")))
        return false;
    *out = (Cubin){(int)arch, ptx, {0}};
    return true;
}

// Another version of the generator may have made what is in the file.
static bool same_kernels(Arena *perm, const Ganx *g, const Plan *p) {
    Member now = kernel_member(perm, p, "cu");
    for (uint32_t k = 0; k < g->member.n; k++)
        if (str_eq(g->member.at[k].name, now.name))
            return str_eq(g->member.at[k].bytes, now.bytes);
    return false;
}

void ganx_cubins(Arena *perm, const Ganx *g, Plan *p) {
    bool same = same_kernels(perm, g, p);
    for (uint32_t k = 0; same && k < g->member.n; k++) {
        Cubin x;
        if (!cubin_member(g->member.at[k].name, &x))
            continue;
        x.code = g->member.at[k].bytes;
        vec_push(perm, &p->cubin, x);
    }
}

GanStatus ganx_read(Arena *perm, Str path, Ganx *out) {
    Str bytes;
    if (!file_exists(path))
        return fail(GAN_ERR_INPUT, "there is no file %.*s", SARG(path));
    if (file_is_dir(path))
        return fail(GAN_ERR_INPUT, "%.*s is a folder, not a compiled model", SARG(path));
    TRY(file_read(perm, path, &bytes));
    return ganx_parse(perm, bytes, path, out);
}
