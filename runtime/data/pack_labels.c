// pack_labels.c - the labels of a pack: from folder names, files beside the samples, or arrays.
//
// In: what --labels says. Out: the pack's label field and a label for each sample. A member of a
// folder or archive finds its label by a key, which is a part of its name.
#include "pack_build.h"

#include <stdlib.h>
#include <string.h>

enum { LabelMost = 1000000 };

static int by_text(const void *a, const void *b) {
    return str_cmp(*(const Str *)a, *(const Str *)b);
}

static int by_key(const void *a, const void *b) {
    return str_cmp(((const KeyLabel *)a)->key, ((const KeyLabel *)b)->key);
}

// --- members of folders and archives -------------------------------------------------------------

static Str without_dot(Str name) { // tar -C writes ./a.png
    return str_starts(name, STR("./")) ? str_sub(name, 2, name.len) : name;
}

static Str key_of(LabelKey key, Str name) {
    if (key == LabelByFolder)
        return path_dir(name);
    Str base = path_base(name);
    size_t end = key == LabelByStem ? name.len - base.len + str_find(base, '.') : name.len;
    return without_dot(str_sub(name, 0, end));
}

static void add_label(Build *b, Str key, uint64_t label) {
    Labels *l = &b->labels;
    vec_push(b->perm, &l->of, ((KeyLabel){str_copy(b->perm, key), (uint32_t)label}));
    l->classes = label >= l->classes ? (uint32_t)label + 1 : l->classes;
}

static GanStatus sort_labels(Labels *l) {
    if (l->of.n)
        qsort(l->of.at, l->of.n, sizeof *l->of.at, by_key);
    for (uint32_t i = 1; i < l->of.n; i++)
        if (str_eq(l->of.at[i - 1].key, l->of.at[i].key))
            return fail(GAN_ERR_INPUT, "%.*s: two labels for %.*s", SARG(l->in),
                        SARG(l->of.at[i].key));
    return GAN_OK;
}

static GanStatus labels_of_folders(Build *b) {
    StrVec names = {0};
    TRY(source_names(b->perm, b->path, b->kind, &names));
    for (uint32_t i = 0; i < names.n; i++)
        names.at[i] = path_dir(names.at[i]);
    if (names.n)
        qsort(names.at, names.n, sizeof *names.at, by_text);
    uint32_t n = 0;
    for (uint32_t i = 0; i < names.n; i++)
        if (n == 0 || !str_eq(names.at[n - 1], names.at[i]))
            names.at[n++] = names.at[i];
    b->labels.key = LabelByFolder;
    b->labels.in = STR("folders");
    b->labels.class_name = names.at;
    for (uint32_t i = 0; i < n; i++)
        add_label(b, names.at[i], i);
    return sort_labels(&b->labels);
}

// StyleGAN's: {"labels": [["00000/img00000000.png", 6], ...]}. Of an object without that member
// *found is false.
static GanStatus read_json(Build *b, Str text, Str path, bool *found) {
    const Json *root = NULL;
    TRY(json_parse(b->perm, text, path, &root));
    const Json *labels = json_get(root, "labels");
    *found = labels != NULL;
    if (labels && !json_count(labels))
        return fail(GAN_ERR_INPUT, "%.*s: it says that there are no labels", SARG(path));
    for (uint32_t i = 0; i < json_count(labels); i++) {
        const Json *pair = json_at(labels, i);
        Str name = json_string(json_at(pair, 0), (Str){0});
        uint64_t label;
        if (!name.len || json_count(pair) != 2 ||
            !json_whole(json_at(pair, 1), LabelMost, &label)) {
            return fail(GAN_ERR_INPUT,
                        "%.*s: entry %u of its labels is not [\"PATH\", CLASS], with a class from "
                        "0 to %d%s",
                        SARG(path), i, LabelMost,
                        json_is_array(json_at(pair, 1)) ? "; vectors are not supported" : "");
        }
        add_label(b, without_dot(name), label);
    }
    b->labels.key = LabelByPath;
    b->labels.in = path;
    return sort_labels(&b->labels);
}

typedef struct TextSearch {
    Build *b;
    Str name; // to find
    bool found;
} TextSearch;

static GanStatus take_json(void *user, Str name, Str text) {
    TextSearch *t = user;
    if (!str_eq(without_dot(name), t->name))
        return GAN_OK;
    Str path = path_join(t->b->perm, t->b->path, t->name);
    return read_json(t->b, str_copy(t->b->perm, text), path, &t->found);
}

// A file that lies beside the samples, else one of this path.
static GanStatus labels_of_json(Build *b, Str name, bool *found) {
    TextSearch t = {b, name, false};
    Str text = {0};
    TRY(source_texts(b->path, b->kind, name, take_json, &t));
    *found = t.found;
    if (t.found || !file_exists(name))
        return GAN_OK;
    TRY(file_read(b->perm, name, &text));
    return read_json(b, text, name, found);
}

static GanStatus take_class(void *user, Str name, Str text) {
    TextSearch *t = user;
    while (text.len && strchr(" \t\r\n", text.ptr[text.len - 1]))
        text.len--;
    int64_t label;
    if (!str_to_int(text, &label) || label < 0 || label > LabelMost)
        return fail(GAN_ERR_INPUT, "%.*s: %.*s: a file of one class, 0 to %d, does not hold that",
                    SARG(t->b->path), SARG(name), LabelMost);
    add_label(t->b, key_of(LabelByStem, name), (uint64_t)label);
    t->found = true;
    return GAN_OK;
}

static GanStatus labels_of_class_files(Build *b, bool *found) {
    TextSearch t = {.b = b};
    TRY(source_texts(b->path, b->kind, STR(".cls"), take_class, &t));
    *found = t.found;
    b->labels.key = LabelByStem;
    b->labels.in = STR("files .cls");
    return sort_labels(&b->labels);
}

static GanStatus labels_of_members(Build *b) {
    Str asked = b->o->labels;
    bool any = str_eq(asked, STR("auto")), found = false;
    if (str_eq(asked, STR("folders")))
        return labels_of_folders(b);
    if (any || str_ends(asked, STR(".json"))) {
        TRY(labels_of_json(b, any ? STR("dataset.json") : asked, &found));
        if (!any && !found)
            return fail(GAN_ERR_INPUT, "%.*s: no such file with \"labels\", in %.*s or elsewhere",
                        SARG(asked), SARG(b->path));
    }
    if (!found && (any || str_eq(asked, STR("cls")))) {
        TRY(labels_of_class_files(b, &found));
        if (!any && !found)
            return fail(GAN_ERR_INPUT, "%.*s: no .cls files in it", SARG(b->path));
    }
    if (found || any)
        return found ? GAN_OK : labels_of_folders(b);
    return fail(GAN_ERR_USAGE,
                "--labels %.*s: members of a folder or archive have labels by `folders`, by a JSON "
                "file {\"labels\": [[\"a.png\", 0], ...]} (StyleGAN's dataset.json), or by `cls` "
                "(WebDataset's .cls files)",
                SARG(asked));
}

GanStatus build_put_label_of(const Build *b, Str name, uint8_t *record) {
    const Labels *l = &b->labels;
    if (!l->on)
        return GAN_OK;
    KeyLabel wanted = {.key = key_of(l->key, name)};
    const KeyLabel *at =
        l->of.n ? bsearch(&wanted, l->of.at, l->of.n, sizeof wanted, by_key) : NULL;
    if (!at)
        return fail(GAN_ERR_INPUT, "no label for it in %.*s", SARG(l->in));
    build_put_label(b, at->label, record);
    return GAN_OK;
}

// --- arrays --------------------------------------------------------------------------------------

// `asked` is a file, or an array of the file `npz` (empty: there is none).
static GanStatus open_labels(Str asked, Str npz, Blob *out) {
    if (file_exists(asked))
        return blob_open(asked, out);
    if (npz.len)
        return blob_open_npz(npz, asked, out);
    return fail(GAN_ERR_INPUT, "%.*s: no such file of labels", SARG(asked));
}

static GanStatus labels_of_file(Labels *l, Str path, Str npz) {
    TRY(open_labels(path, npz, &l->blob));
    if (l->blob.n > 1 && !memcmp(l->blob.ptr, "PK", 2))
        return fail(GAN_ERR_INPUT,
                    "%.*s: an npz file; --labels NAME takes that array of the samples' own, for "
                    "another's save the labels as npy",
                    SARG(path));
    bool npy = l->blob.n > 0 && l->blob.ptr[0] == 0x93;
    GanStatus st = npy ? npy_parse(l->blob.ptr, l->blob.n, &l->array)
                       : idx_parse(l->blob.ptr, l->blob.n, &l->array);
    if (st != GAN_OK)
        return fail_in(st, "%.*s", SARG(path));
    if (l->array.rank != 1 || l->array.kind == 'f')
        return fail(GAN_ERR_INPUT, "%.*s: labels are one axis of whole numbers", SARG(path));
    for (size_t i = 0; i < l->array.count; i++) {
        double v = array_at(&l->array, i);
        if (v < 0 || v > LabelMost) {
            return fail(GAN_ERR_INPUT, "%.*s: label %zu is %.0f, not in 0..%d", SARG(path), i, v,
                        LabelMost);
        }
        if ((uint32_t)v >= l->classes)
            l->classes = (uint32_t)v + 1;
    }
    return GAN_OK;
}

// CIFAR's classes are in front of its images.
void build_labels_of_records(Build *b, const ArrayFile *f) {
    size_t n = (size_t)f->all.dim[0];
    uint8_t *class = arena_array(b->perm, uint8_t, n);
    for (size_t i = 0; i < n; i++)
        class[i] = f->all.data[i * (f->head + f->row) + f->head - 1];
    b->labels.on = true;
    b->labels.classes = f->head == 1 ? 10 : 100;
    b->labels.array = (Array){.kind = 'u', .size = 1, .rank = 1, .data = class, .count = n};
    b->labels.array.dim[0] = f->all.dim[0];
}

GanStatus build_labels(Build *b, size_t samples) {
    Str asked = b->o->labels;
    b->labels.on = asked.len > 0;
    if (!b->labels.on)
        return GAN_OK;
    if (b->kind == SourceFolder || b->kind == SourceArchive)
        return labels_of_members(b);
    if (str_eq(asked, STR("folders")) || str_eq(asked, STR("cls"))) {
        return fail(GAN_ERR_USAGE,
                    "an array has no folders; give its labels as an IDX or npy file");
    }
    TRY(labels_of_file(&b->labels, asked, b->kind == SourceNpz ? b->path : (Str){0}));
    if (b->labels.array.count == samples)
        return GAN_OK;
    return fail(GAN_ERR_INPUT, "%.*s: %zu labels for %zu samples", SARG(asked),
                b->labels.array.count, samples);
}

static PackField label_field(const Labels *l) {
    return (PackField){.name = STR("y"),
                       .kind = DataLabel,
                       .dtype = PackU32,
                       .classes = l->classes,
                       .class_name = l->class_name};
}

void build_label_field(Build *b) {
    if (b->labels.on)
        b->field[b->fields++] = label_field(&b->labels);
}

void build_put_label(const Build *b, uint32_t label, uint8_t *record) {
    memcpy(record + pack_writer_field(b->writer, 1)->offset, &label, sizeof label);
}

// --- labels alone --------------------------------------------------------------------------------

static GanStatus add_labels(const Labels *l, PackWriter *w) {
    for (size_t i = 0; i < l->array.count; i++) {
        uint64_t record = 0;
        uint32_t label = (uint32_t)array_at(&l->array, i);
        memcpy(&record, &label, sizeof label);
        TRY(pack_writer_add(w, &record, (Str){0}));
    }
    return GAN_OK;
}

GanStatus pack_labels(Arena *perm, Str path, Pack *pack) {
    Labels l = {0};
    PackWriter *w = NULL;
    GanStatus st = labels_of_file(&l, path, (Str){0});
    PackField field = label_field(&l);
    if (st == GAN_OK && l.array.count == 0)
        st = fail(GAN_ERR_INPUT, "%.*s: no labels in it", SARG(path));
    if (st == GAN_OK)
        st = pack_writer_open((Str){0}, &field, 1, &w);
    if (st == GAN_OK)
        st = add_labels(&l, w);
    blob_close(&l.blob);
    if (st == GAN_OK)
        return pack_writer_open_result(perm, w, path_base(path), (Str){0}, pack);
    pack_writer_abandon(w);
    return st;
}
