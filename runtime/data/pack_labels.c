// pack_labels.c - the labels of a pack: from folder names, files beside the samples, or arrays.
//
// In: what --labels says. Out: the pack's label field and a label, a class or a vector, for each
// sample. A member of a folder or archive finds its label by a key, which is a part of its name.
#include "pack_build.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static int by_key(const void *a, const void *b) {
    return str_cmp(((const KeyLabel *)a)->key, ((const KeyLabel *)b)->key);
}

// --- members of folders and archives -------------------------------------------------------------

Str member_path(Str name) {
    return str_starts(name, STR("./")) ? str_sub(name, 2, name.len) : name;
}

// The outermost folder below the root: as in ImageFolder, what lies deeper belongs to it. Of a file
// in the root itself "".
static Str class_folder(Str root, Str name) {
    Str rest = str_sub(member_path(name), root.len, SIZE_MAX);
    size_t slash = str_find(rest, '/');
    return slash < rest.len ? str_sub(rest, 0, slash) : (Str){0};
}

static Str key_of(LabelKey key, Str name) {
    Str base = path_base(name);
    size_t end = key == LabelByStem ? name.len - base.len + str_find(base, '.') : name.len;
    return member_path(str_sub(name, 0, end));
}

void labels_add_class(Arena *perm, Labels *l, Str key, uint64_t class) {
    vec_push(perm, &l->of, ((KeyLabel){str_copy(perm, key), (uint32_t) class}));
    l->classes = class >= l->classes ? (uint32_t) class + 1 : l->classes;
}

static void widen(Labels *l, float v) {
    l->lo = v < l->lo ? v : l->lo;
    l->hi = v > l->hi ? v : l->hi;
}

GanStatus labels_add_vector(Arena *perm, Labels *l, Str key, const float *v, size_t n) {
    if (!l->of.n)
        l->width = (uint32_t)n, l->lo = INFINITY, l->hi = -INFINITY;
    if (n != l->width)
        return fail(GAN_ERR_INPUT, "the label of %.*s has %zu numbers, not %u", SARG(key), n,
                    l->width);
    uint32_t place = l->of.n;
    vec_push(perm, &l->of, ((KeyLabel){str_copy(perm, key), place}));
    for (size_t i = 0; i < n; i++) {
        vec_push(perm, &l->vector, v[i]);
        widen(l, v[i]);
    }
    return GAN_OK;
}

GanStatus labels_sort(Labels *l) {
    if (l->of.n)
        qsort(l->of.at, l->of.n, sizeof *l->of.at, by_key);
    for (uint32_t i = 1; i < l->of.n; i++)
        if (str_eq(l->of.at[i - 1].key, l->of.at[i].key))
            return fail(GAN_ERR_INPUT, "%.*s: two labels for %.*s", SARG(l->in),
                        SARG(l->of.at[i].key));
    return GAN_OK;
}

Str *labels_sorted_names(StrVec *names, uint32_t *n) {
    if (names->n)
        qsort(names->at, names->n, sizeof *names->at, by_str);
    *n = 0;
    for (uint32_t i = 0; i < names->n; i++)
        if (*n == 0 || !str_eq(names->at[*n - 1], names->at[i]))
            names->at[(*n)++] = names->at[i];
    return names->at;
}

// The folder that holds all of these files, with the slash behind it; "" where none does.
static Str common_folder(const StrVec *names) {
    Str root = names->n ? member_path(names->at[0]) : (Str){0};
    for (uint32_t i = 0; i < names->n; i++)
        while (root.len &&
               (root.ptr[root.len - 1] != '/' || !str_starts(member_path(names->at[i]), root)))
            root.len--;
    return root;
}

// Where all files are in one folder, that is the class.
static Str only_class(Str root) {
    return root.len ? path_base(str_sub(root, 0, root.len - 1)) : STR(NO_FOLDER);
}

// A data set's parts often lie in folders, each with the classes' folders in it.
static bool is_part(Str name) {
    static const char *const parts[] = {"train", "training", "val",     "valid", "validation",
                                        "dev",   "test",     "testing", "eval"};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (name.len == strlen(parts[i]) && strncasecmp(name.ptr, parts[i], name.len) == 0)
            return true;
    return false;
}

static GanStatus refuse_parts(const Build *b, const Str *name, uint32_t n) {
    for (uint32_t i = 0; i < n; i++)
        if (!is_part(name[i]))
            return GAN_OK;
    return n < 2 ? GAN_OK
                 : fail(GAN_ERR_INPUT,
                        "%.*s: its folders %.*s, %.*s%s are the parts of a data set, and no "
                        "classes: name one of them",
                        SARG(b->path), SARG(name[0]), SARG(name[1]), n > 2 ? ", ..." : "");
}

static GanStatus labels_of_folders(Build *b) {
    StrVec names = {0}, folders = {0};
    TRY(source_names(b->perm, b->path, b->kind, &names));
    Labels *l = &b->labels;
    l->key = LabelByFolder;
    l->in = STR("folders");
    l->root = common_folder(&names);
    for (uint32_t i = 0; i < names.n; i++) {
        Str folder = class_folder(l->root, names.at[i]);
        if (folder.len)
            vec_push(b->perm, &folders, folder);
    }
    if (!folders.n) {
        Str *name = arena_array(b->perm, Str, 1);
        *name = only_class(l->root);
        l->class_name = name;
        labels_add_class(b->perm, l, (Str){0}, 0);
        return GAN_OK;
    }
    uint32_t n;
    l->class_name = labels_sorted_names(&folders, &n);
    TRY(refuse_parts(b, l->class_name, n));
    for (uint32_t i = 0; i < n; i++)
        labels_add_class(b->perm, l, folders.at[i], i);
    return labels_sort(l);
}

// The numbers of a JSON array, in *out; false: it is none, or not only of numbers that f32 has.
static bool read_vector(Arena *perm, const Json *v, FloatVec *out) {
    uint32_t n = json_is_array(v) ? json_count(v) : 0;
    out->n = 0;
    for (uint32_t i = 0; i < n && n <= LabelWidthMost; i++) {
        float x = (float)json_number(json_at(v, i), NAN);
        if (!isfinite(x))
            return false;
        vec_push(perm, out, x);
    }
    return n > 0 && n <= LabelWidthMost;
}

// Of the first entry: either a class or a vector; then all are such.
static GanStatus read_pair(Build *b, const Json *pair, uint32_t i, Str path, FloatVec *room) {
    Labels *l = &b->labels;
    Str name = member_path(json_string(json_at(pair, 0), (Str){0}));
    const Json *value = json_at(pair, 1);
    bool fits = name.len && json_count(pair) == 2, first = l->of.n == 0;
    uint64_t class;
    if (fits && (first || !l->width) && json_whole(value, LabelMost, &class)) {
        labels_add_class(b->perm, l, name, class);
        return GAN_OK;
    }
    if (fits && (first || l->width) && read_vector(b->perm, value, room)) {
        GanStatus st = labels_add_vector(b->perm, l, name, room->at, room->n);
        return st == GAN_OK ? st : fail_in(st, "%.*s", SARG(path));
    }
    return fail(GAN_ERR_INPUT,
                "%.*s: entry %u of its labels is not [\"PATH\", CLASS], with a class from 0 to %d, "
                "or [\"PATH\", [NUMBER, ...]], as the first is",
                SARG(path), i, LabelMost);
}

// StyleGAN's: {"labels": [["00000/img00000000.png", 6], ...]}, with vectors instead of classes
// EG3D's cameras. Of an object without that member *found is false.
static GanStatus read_json(Build *b, Str text, Str path, bool *found) {
    const Json *root = NULL;
    FloatVec room = {0};
    TRY(json_parse(b->perm, text, path, &root));
    const Json *labels = json_get(root, "labels");
    *found = labels != NULL;
    if (labels && !json_count(labels))
        return fail(GAN_ERR_INPUT, "%.*s: it says that there are no labels", SARG(path));
    for (uint32_t i = 0; i < json_count(labels); i++)
        TRY(read_pair(b, json_at(labels, i), i, path, &room));
    b->labels.key = LabelByPath;
    b->labels.in = path;
    return labels_sort(&b->labels);
}

typedef struct TextSearch {
    Build *b;
    Str name;       // to find
    Str text, path; // found: a copy, and where
    bool found;
} TextSearch;

static GanStatus take_text(void *user, Str name, Str text) {
    TextSearch *t = user;
    if (!str_eq(member_path(name), t->name))
        return GAN_OK;
    t->path = path_join(t->b->perm, t->b->path, t->name);
    t->text = str_copy(t->b->perm, text);
    t->found = true;
    return GAN_OK;
}

// A file that lies beside the samples, else one of this path.
static GanStatus find_text(Build *b, Str name, TextSearch *out) {
    *out = (TextSearch){.b = b, .name = name};
    TRY(source_texts(b->perm, b->path, b->kind, name, take_text, out));
    if (out->found || !file_exists(name))
        return GAN_OK;
    out->path = name;
    out->found = true;
    return file_read(b->perm, name, &out->text);
}

static GanStatus labels_of_json(Build *b, Str name, bool *found) {
    TextSearch t;
    TRY(find_text(b, name, &t));
    *found = false;
    return t.found ? read_json(b, t.text, t.path, found) : GAN_OK;
}

GanStatus labels_of_file_text(Build *b, Str name, Str columns, Labels *l) {
    TextSearch t;
    StrVec members = {0};
    TRY(find_text(b, name, &t));
    if (!t.found)
        return fail(GAN_ERR_INPUT, "%.*s: no such table, in %.*s or elsewhere", SARG(name),
                    SARG(b->path));
    TRY(source_names(b->perm, b->path, b->kind, &members));
    return labels_of_table(b->perm, t.text, t.path, &members, columns, l);
}

bool labels_are_table(Str path) {
    Str ext = path_ext(path);
    return str_eq(ext, STR("csv")) || str_eq(ext, STR("tsv")) || str_eq(ext, STR("txt"));
}

static GanStatus take_class(void *user, Str name, Str text) {
    TextSearch *t = user;
    while (text.len && strchr(" \t\r\n", text.ptr[text.len - 1]))
        text.len--;
    int64_t label;
    if (!str_to_int(text, &label) || label < 0 || label > LabelMost)
        return fail(GAN_ERR_INPUT, "%.*s: %.*s: a file of one class, 0 to %d, does not hold that",
                    SARG(t->b->path), SARG(name), LabelMost);
    labels_add_class(t->b->perm, &t->b->labels, key_of(LabelByStem, name), (uint64_t)label);
    t->found = true;
    return GAN_OK;
}

static GanStatus labels_of_class_files(Build *b, bool *found) {
    TextSearch t = {.b = b};
    TRY(source_texts(b->perm, b->path, b->kind, STR(".cls"), take_class, &t));
    *found = t.found;
    b->labels.key = LabelByStem;
    b->labels.in = STR("files .cls");
    return labels_sort(&b->labels);
}

static GanStatus labels_of_members(Build *b) {
    Str asked = b->o->labels;
    bool any = str_eq(asked, STR("auto")), found = false;
    if (str_eq(asked, STR("folders")))
        return labels_of_folders(b);
    if (labels_are_table(asked))
        return labels_of_file_text(b, asked, b->o->label_columns, &b->labels);
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
    return fail(
        GAN_ERR_USAGE,
        "--labels %.*s: members of a folder or archive have labels by `folders`, by a JSON "
        "file {\"labels\": [[\"a.png\", 0], ...]} (StyleGAN's dataset.json), by a table (.csv, "
        ".tsv, .txt) or by `cls` (WebDataset's .cls files)",
        SARG(asked));
}

const KeyLabel *labels_find(const Labels *l, Str key) {
    KeyLabel wanted = {.key = key};
    return l->of.n ? bsearch(&wanted, l->of.at, l->of.n, sizeof wanted, by_key) : NULL;
}

static uint8_t *label_in(const Build *b, uint8_t *record) {
    return record + pack_writer_field(b->writer, 1)->offset;
}

GanStatus build_put_label_of(const Build *b, Str name, uint8_t *record) {
    const Labels *l = &b->labels;
    if (!l->on)
        return GAN_OK;
    const KeyLabel *at = labels_find(l, l->key == LabelByFolder ? class_folder(l->root, name)
                                                                : key_of(l->key, name));
    if (!at && l->key == LabelByFolder)
        return fail(GAN_ERR_INPUT, "it lies beside the folders of the classes, in none of them");
    if (!at)
        return fail(GAN_ERR_INPUT, "no label for it in %.*s", SARG(l->in));
    if (l->width)
        memcpy(label_in(b, record), l->vector.at + (size_t)at->label * l->width,
               l->width * sizeof(float));
    else
        memcpy(label_in(b, record), &at->label, sizeof at->label);
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

static GanStatus check_classes(Labels *l, Str path) {
    if (l->array.rank != 1)
        return fail(GAN_ERR_INPUT,
                    "%.*s: classes are one axis of whole numbers, labels that are vectors two axes",
                    SARG(path));
    for (size_t i = 0; i < l->array.count; i++) {
        double v = array_at(&l->array, i);
        if (!(v >= 0 && v <= LabelMost && v == floor(v)))
            return fail(GAN_ERR_INPUT, "%.*s: label %zu is %g, not a whole number in 0..%d",
                        SARG(path), i, v, LabelMost);
        if ((uint32_t)v >= l->classes)
            l->classes = (uint32_t)v + 1;
    }
    return GAN_OK;
}

static GanStatus check_vectors(Labels *l, Str path) {
    if (l->array.dim[1] < 1 || l->array.dim[1] > LabelWidthMost)
        return fail(GAN_ERR_INPUT, "%.*s: labels of %lld numbers; 1 to %d are possible", SARG(path),
                    (long long)l->array.dim[1], LabelWidthMost);
    l->width = (uint32_t)l->array.dim[1];
    l->lo = INFINITY, l->hi = -INFINITY;
    for (size_t i = 0; i < l->array.count; i++) {
        float v = (float)array_at(&l->array, i);
        if (!isfinite(v) && !(l->missing && isnan(v)))
            return fail(GAN_ERR_INPUT, "%.*s: label %zu holds a number that f32 does not%s",
                        SARG(path), i / l->width,
                        isnan(v) ? ": NaN, which may mean a value that is missing: " MISSING_KEPT
                                 : "");
        widen(l, v);
    }
    return GAN_OK;
}

// vectors: two axes are labels as well.
static GanStatus labels_of_file(Labels *l, Str path, Str npz, bool vectors) {
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
    return l->array.rank == 2 && vectors ? check_vectors(l, path) : check_classes(l, path);
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

static GanStatus check_first(const Build *b, const Labels *l, uint64_t class) {
    return class >= b->o->first_class
               ? GAN_OK
               : fail(GAN_ERR_INPUT, "%.*s: it has class %llu, and --first-class is %llu",
                      SARG(l->in.len ? l->in : b->o->labels), (unsigned long long)class,
                      (unsigned long long)b->o->first_class);
}

// Classes are numbered from 0 on.
static GanStatus set_first(Build *b) {
    Labels *l = &b->labels;
    uint32_t first = (uint32_t)b->o->first_class;
    if (!first)
        return GAN_OK;
    if (!l->on || l->width || l->class_name)
        return fail(GAN_ERR_USAGE, "--first-class is for --labels that are numbers of classes");
    for (size_t i = 0; i < l->array.count; i++)
        TRY(check_first(b, l, (uint64_t)array_at(&l->array, i)));
    for (uint32_t i = 0; i < l->of.n; i++) {
        TRY(check_first(b, l, l->of.at[i].label));
        l->of.at[i].label -= first;
    }
    l->first = first;
    l->classes -= first;
    return GAN_OK;
}

static GanStatus find_labels(Build *b, size_t samples) {
    Str asked = b->o->labels;
    b->labels.on = asked.len > 0;
    b->labels.missing = b->o->missing;
    if (b->o->label_columns.len && !labels_are_table(asked))
        return fail(GAN_ERR_USAGE, "--label-columns is for labels of a table: --labels FILE.csv, "
                                   ".tsv or .txt");
    if (!b->labels.on)
        return GAN_OK;
    if (source_has_members(b->kind))
        return labels_of_members(b);
    if (str_eq(asked, STR("folders")) || str_eq(asked, STR("cls")) || labels_are_table(asked)) {
        return fail(GAN_ERR_USAGE, "an array has no folders and names of files; give its labels as "
                                   "an IDX or npy file");
    }
    TRY(labels_of_file(&b->labels, asked, b->kind == SourceNpz ? b->path : (Str){0}, true));
    if ((size_t)b->labels.array.dim[0] == samples)
        return GAN_OK;
    return fail(GAN_ERR_INPUT, "%.*s: %lld labels for %zu samples", SARG(asked),
                (long long)b->labels.array.dim[0], samples);
}

GanStatus build_labels(Build *b, size_t samples) {
    TRY(find_labels(b, samples));
    return set_first(b);
}

static PackField label_field(const Labels *l) {
    if (l->width)
        return (PackField){.name = STR("y"),
                           .kind = DataFloat,
                           .dtype = PackF32,
                           .rank = 1,
                           .dim = {l->width},
                           .lo = l->lo <= l->hi ? l->lo : 0,
                           .hi = l->lo <= l->hi ? l->hi : 0};
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

void build_put_label_at(const Build *b, size_t sample, uint8_t *record) {
    const Labels *l = &b->labels;
    uint8_t *to = label_in(b, record);
    for (size_t k = 0; k < l->width; k++) {
        float v = (float)array_at(&l->array, sample * l->width + k);
        memcpy(to + k * sizeof v, &v, sizeof v);
    }
    uint32_t class = l->width ? 0 : (uint32_t)array_at(&l->array, sample) - l->first;
    if (!l->width)
        memcpy(to, &class, sizeof class);
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
    GanStatus st = labels_of_file(&l, path, (Str){0}, false);
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
