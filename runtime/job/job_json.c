// job_json.c - a run's options as options.json, written and read.
//
// What is read is checked: what an edited file, or a later version's, has wrong is named. Members
// that older versions did not write may be missing.
#include "job.h"
#include "ranks.h"

#define FORMAT "gan-run-1"

// --- writing -------------------------------------------------------------------------------------

static void put_pairs(JsonOut *j, const char *name, const Settings *list) {
    json_member_open(j, name, '[');
    for (uint32_t i = 0; i < list->n; i++) {
        json_open(j, '[');
        json_put_str(j, list->at[i].key), json_put_str(j, list->at[i].value);
        json_close(j, ']');
    }
    json_close(j, ']');
}

static void put_facts(JsonOut *j, const FieldFacts *f) {
    json_member_open(j, str_z(j->text->arena, f->field), '{');
    if (f->name.n) {
        json_member_open(j, "classes", '[');
        for (uint32_t k = 0; k < f->name.n; k++)
            json_put_str(j, f->name.at[k]);
        json_close(j, ']');
    }
    if (f->ranged) {
        json_member_open(j, "range", '[');
        json_put_double(j, f->lo), json_put_double(j, f->hi);
        json_close(j, ']');
    }
    if (f->rate)
        json_member_int(j, "rate", f->rate);
    json_close(j, '}');
}

static void put_weights(JsonOut *j, const JobWeightsVec *list) {
    json_member_open(j, "weights", '[');
    for (uint32_t i = 0; i < list->n; i++) {
        const JobWeights *w = &list->at[i];
        json_open(j, '[');
        json_put_str(j, w->net), json_put_str(j, w->path), json_put_str(j, w->hash);
        json_close(j, ']');
    }
    json_close(j, ']');
}

static void put_monitor(JsonOut *j, const MonitorOptions *m) {
    json_member_open(j, "monitor", '{');
    json_member_str(j, "metric", m->metric);
    json_member_str(j, "features", m->features.path);
    if (m->features.setting.n)
        put_pairs(j, "settings", &m->features.setting);
    if (m->features.weights.n)
        put_weights(j, &m->features.weights);
    json_member_str(j, "entry", m->entry);
    json_member_int(j, "count", m->count);
    json_member_int(j, "every", m->every);
    if (m->patience)
        json_member_int(j, "patience", m->patience);
    json_close(j, '}');
}

void job_write(Text *t, const Job *job) {
    JsonOut j = {.text = t};
    json_open(&j, '{');
    json_member_str(&j, "format", STR(FORMAT));
    json_member_str(&j, "model", job->origin);
    if (job->from.len)
        json_member_str(&j, "from", job->from);
    if (job->from_optimizer)
        json_member_bool(&j, "from_optimizer", true);
    json_member_str(&j, "hash", job->hash);
    json_member_int(&j, "batch", job->batch);
    json_member_int(&j, "steps", job->steps);
    json_member_int(&j, "save_every", job->save_every);
    json_member_int(&j, "keep", job->keep);
    json_member_int(&j, "seed", (int64_t)job->seed);
    json_member_str(&j, "precision", str_c(dtype_name[job->real]));
    json_member_str(&j, "device", job->device);
    json_member_bool(&j, "tf32", job->tf32);
    json_member_int(&j, "threads", job->threads);
    if (job->memory)
        json_member_int(&j, "memory_bytes", (int64_t)job->memory);
    json_member_int(&j, "deterministic", job->split.chunks);
    json_member_int(&j, "micro", job->split.micro);
    json_member_bool(&j, "compress", job->compress);
    json_member_int(&j, "bucket_bytes", job->split.bucket);
    json_member_bool(&j, "skip_bad", job->skip_bad);
    if (job->rate)
        json_member_int(&j, "rate", job->rate);
    if (job->fact.n) {
        json_member_open(&j, "fields", '{');
        for (uint32_t i = 0; i < job->fact.n; i++)
            put_facts(&j, &job->fact.at[i]);
        json_close(&j, '}');
    }
    put_pairs(&j, "settings", &job->setting);
    put_pairs(&j, "data", &job->data);
    if (job->weights.n)
        put_weights(&j, &job->weights);
    if (job->monitor.metric.len)
        put_monitor(&j, &job->monitor);
    json_close(&j, '}');
    text_char(t, '\n');
}

static GanStatus path_readable(const char *what, Str path) {
    return str_utf8_valid(path, NULL)
               ? GAN_OK
               : fail(GAN_ERR_INPUT,
                      "%s: %.*s is not UTF-8: a run's options.json could not name it, and the run "
                      "would not find it again; rename it, or give a link to it",
                      what, SARG(path));
}

static GanStatus weights_readable(const JobWeightsVec *list) {
    for (uint32_t i = 0; i < list->n; i++)
        TRY(path_readable("--weights", list->at[i].path));
    return GAN_OK;
}

GanStatus job_writable(const Job *job) {
    for (uint32_t i = 0; i < job->data.n; i++)
        TRY(path_readable("--data", job->data.at[i].value));
    TRY(path_readable("--from", job->from));
    TRY(path_readable("--features", job->monitor.features.path));
    TRY(weights_readable(&job->monitor.features.weights));
    return weights_readable(&job->weights);
}

// --- reading -------------------------------------------------------------------------------------

typedef struct Reader {
    Arena *perm;
    const Json *root;
    const char *wrong; // the first member that is missing or makes no sense; NULL: none
} Reader;

static int64_t get_int(Reader *r, const char *name, int64_t least, int64_t most) {
    uint64_t x;
    if (json_whole(json_get(r->root, name), (uint64_t)most, &x) && (int64_t)x >= least)
        return (int64_t)x;
    r->wrong = r->wrong ? r->wrong : name;
    return least;
}

// A member that older runs do not have: 0.
static int64_t get_later(Reader *r, const char *name, int64_t most) {
    return json_get(r->root, name) ? get_int(r, name, 0, most) : 0;
}

static Str get_str(Reader *r, const char *name) {
    Str s = json_string(json_get(r->root, name), (Str){0});
    if (!s.len && !r->wrong)
        r->wrong = name;
    return s;
}

static bool get_pair(const Json *v, Setting *out) {
    *out = (Setting){json_string(json_at(v, 0), (Str){0}), json_string(json_at(v, 1), (Str){0})};
    return out->key.len && out->value.len;
}

static void get_pairs(Reader *r, const Json *in, const char *name, Settings *out) {
    const Json *list = json_get(in, name);
    Setting s;
    for (uint32_t i = 0; i < json_count(list); i++)
        if (get_pair(json_at(list, i), &s))
            vec_push(r->perm, out, s);
        else
            r->wrong = name;
}

static void get_weights(Reader *r, const Json *in, JobWeightsVec *out) {
    const Json *list = json_get(in, "weights");
    Setting s;
    for (uint32_t i = 0; i < json_count(list); i++) {
        const Json *row = json_at(list, i);
        if (get_pair(row, &s))
            vec_push(r->perm, out,
                     ((JobWeights){s.key, s.value, json_string(json_at(row, 2), (Str){0})}));
        else
            r->wrong = "weights";
    }
}

static void get_monitor(Reader *r, const Json *v, MonitorOptions *out) {
    uint64_t count = 0, every = 0, patience = 0;
    const Json *later = json_get(v, "patience");
    bool fine = json_whole(json_get(v, "count"), (uint64_t)1 << 53, &count) && count &&
                json_whole(json_get(v, "every"), STEPS_MOST, &every) &&
                (!later || json_whole(later, (uint64_t)1 << 53, &patience));
    *out = (MonitorOptions){.metric = json_string(json_get(v, "metric"), (Str){0}),
                            .features.path = json_string(json_get(v, "features"), (Str){0}),
                            .entry = json_string(json_get(v, "entry"), (Str){0}),
                            .count = (int64_t)count,
                            .every = (int64_t)every,
                            .patience = (int64_t)patience};
    get_pairs(r, v, "settings", &out->features.setting);
    get_weights(r, v, &out->features.weights);
    if (!fine || !out->metric.len)
        r->wrong = "monitor";
}

GanStatus job_format(const Json *root, Str path, Str own) {
    Str format = json_string(json_get(root, "format"), (Str){0});
    if (!format.len || str_eq(format, own))
        return GAN_OK;
    return fail(GAN_ERR_USAGE,
                "%.*s is of format `%.*s`, and this ganrun reads `%.*s`: use the version that "
                "wrote it, or a later one",
                SARG(path), SARG(format), SARG(own));
}

static Dtype get_precision(Reader *r) {
    Str precision = get_str(r, "precision");
    for (int i = 0; i < DtCount; i++)
        if (str_eq(precision, str_c(dtype_name[i])))
            return (Dtype)i;
    r->wrong = r->wrong ? r->wrong : "precision";
    return DtCount;
}

static Str get_device(Reader *r) {
    Str device = get_str(r, "device");
    if (!device_find(device))
        r->wrong = r->wrong ? r->wrong : "device";
    return device;
}

static Split get_split(Reader *r) {
    return (Split){.chunks = get_later(r, "deterministic", BATCH_MOST),
                   .micro = get_later(r, "micro", BATCH_MOST),
                   .bucket = get_later(r, "bucket_bytes", (int64_t)1 << 53)};
}

static void get_names(Reader *r, const Json *list, Strs *out) {
    for (uint32_t i = 0; i < json_count(list); i++)
        vec_push(r->perm, out, json_string(json_at(list, i), (Str){0}));
}

static FieldFacts get_facts(Reader *r, const Json *v) {
    FieldFacts f = {.field = json_key(v)};
    const Json *range = json_get(v, "range"), *rate = json_get(v, "rate");
    uint64_t hz = 0;
    get_names(r, json_get(v, "classes"), &f.name);
    f.ranged = range != NULL;
    f.lo = json_number(json_at(range, 0), 0);
    f.hi = json_number(json_at(range, 1), -1);
    if ((f.ranged && f.lo > f.hi) || (rate && !json_whole(rate, SOUND_RATE_MOST, &hz)))
        r->wrong = "fields";
    f.rate = (uint32_t)hz;
    return f;
}

// Older versions wrote the names of one label's classes, and not which label it is.
static void get_fields(Reader *r, Job *out) {
    const Json *all = json_get(r->root, "fields");
    FieldFacts older = {0};
    for (uint32_t i = 0; i < json_count(all); i++)
        vec_push(r->perm, &out->fact, get_facts(r, json_at(all, i)));
    get_names(r, json_get(r->root, "classes"), &older.name);
    if (older.name.n)
        vec_push(r->perm, &out->fact, older);
}

static void get_lists(Reader *r, Job *out) {
    get_pairs(r, r->root, "settings", &out->setting);
    get_pairs(r, r->root, "data", &out->data);
    get_weights(r, r->root, &out->weights);
    const Json *monitor = json_get(r->root, "monitor");
    get_fields(r, out);
    if (monitor)
        get_monitor(r, monitor, &out->monitor);
}

GanStatus job_read(Arena *perm, Str text, Str path, Job *out) {
    Reader r = {.perm = perm};
    TRY(json_parse(perm, text, path, &r.root));
    TRY(job_format(r.root, path, STR(FORMAT)));
    *out = (Job){
        .model = get_str(&r, "model"),
        .origin = get_str(&r, "model"),
        .from = json_string(json_get(r.root, "from"), (Str){0}),
        .from_optimizer = json_bool(json_get(r.root, "from_optimizer"), false),
        .hash = get_str(&r, "hash"),
        .batch = get_int(&r, "batch", 1, BATCH_MOST),
        .steps = get_int(&r, "steps", 1, STEPS_MOST),
        .save_every = get_int(&r, "save_every", 1, STEPS_MOST),
        .keep = get_later(&r, "keep", STEPS_MOST),
        .seed = (uint64_t)get_int(&r, "seed", 0, (int64_t)SEED_MOST),
        .device = get_device(&r),
        .threads = (int)get_int(&r, "threads", 0, THREADS_MOST),
        .memory = (size_t)get_later(&r, "memory_bytes", (int64_t)1 << 53),
        .tf32 = json_bool(json_get(r.root, "tf32"), true),
        .split = get_split(&r),
        .compress = json_bool(json_get(r.root, "compress"), false),
        .skip_bad = json_bool(json_get(r.root, "skip_bad"), false),
        .rate = (uint32_t)get_later(&r, "rate", SOUND_RATE_MOST),
        .real = get_precision(&r),
    };
    get_lists(&r, out);
    if (!str_eq(json_string(json_get(r.root, "format"), (Str){0}), STR(FORMAT)))
        r.wrong = "format";
    return r.wrong
               ? fail(GAN_ERR_INPUT, "%.*s: `%s` is missing or makes no sense", SARG(path), r.wrong)
               : GAN_OK;
}
