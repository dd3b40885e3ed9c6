// json.c - JSON in and out. Reading: cJSON parses, and its tree is copied into the arena as arrays,
// so a document has no owner and an element is found by index. Writing: straight into a Text,
// members in the order they are put.
//
// cJSON forgives what a file format must not: deep nesting, control characters, \u0000 (which would
// cut a text short), bad UTF-8, twice the same key. These are refused here, before or while the
// tree is copied, with line and column.
#include "base.h"

#include <cjson/cJSON.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <threads.h>

enum { DepthMost = 64 };

typedef enum JsonKind {
    JsonNull,
    JsonBool,
    JsonNumber,
    JsonString,
    JsonArray,
    JsonObject,
} JsonKind;

struct Json {
    JsonKind kind;
    bool truth;        // JsonBool
    uint32_t n;        // JsonArray, JsonObject: elements
    double number;     // JsonNumber, finite
    Str key;           // name, when inside an object
    Str text;          // JsonString
    struct Json *item; // JsonArray, JsonObject: [n], in the order of the text
};

// --- reading -------------------------------------------------------------------------------------

typedef struct Reader {
    Arena *arena;
    Str text, path;
    bool open; // a quote or bracket is still open where the text ends
    size_t at; // everything before it has been matched with the tree: see next_string
} Reader;

static GanStatus refuse(const Reader *r, size_t at, const char *why) {
    uint32_t line = 1, column = 1;
    for (size_t i = 0; i < at && i < r->text.len; i++) {
        unsigned char c = (unsigned char)r->text.ptr[i];
        if (c == '\n')
            line++, column = 1;
        else if ((c & 0xc0) != 0x80)
            column++; // characters, not bytes
    }
    return fail(GAN_ERR_INPUT, "%.*s:%u:%u: %s", SARG(r->path), line, column, why);
}

// What cJSON would let pass or would misread, found in one walk over the bytes.
static GanStatus check_text(Reader *r) {
    Str s = r->text;
    size_t bad;
    if (!str_utf8_valid(s, &bad))
        return refuse(r, bad, "not UTF-8");
    uint32_t depth = 0;
    bool quoted = false;
    for (size_t i = 0; i < s.len; i++) {
        char c = s.ptr[i];
        bool blank = !quoted && (c == '\t' || c == '\n' || c == '\r');
        if ((unsigned char)c < 0x20 && !blank)
            return refuse(r, i, "control character");
        if (c == '"')
            quoted = !quoted;
        if (quoted && c == '\\') {
            bool zero = str_eq(str_sub(s, i, i + 6), STR("\\u0000"));
            if (zero)
                return refuse(r, i, "\\u0000 in a string");
            i++;
        }
        if (quoted)
            continue;
        if (c == '{' || c == '[')
            depth++;
        if ((c == '}' || c == ']') && depth > 0)
            depth--;
        if (depth > DepthMost)
            return refuse(r, i, "nested deeper than 64");
    }
    r->open = quoted || depth > 0;
    return GAN_OK;
}

// cJSON's tree has no positions. But in a text that it has accepted, the n-th quoted string is the
// n-th key or string value in the order of the tree, so walking both at once gives each its place.
// Returns where the next one begins.
static size_t next_string(Reader *r) {
    Str s = r->text;
    size_t begin = r->at;
    while (s.ptr[begin] != '"')
        begin++;
    size_t end = begin + 1;
    while (s.ptr[end] != '"')
        end += s.ptr[end] == '\\' ? 2 : 1;
    r->at = end + 1;
    return begin;
}

// Seeds are tried in turn, so two keys of equal hash are told apart.
static bool add_key(Arena *a, Map *seen, const Json *items, uint32_t i) {
    for (uint64_t seed = 0;; seed++) {
        uint64_t hash = hash64(items[i].key.ptr, items[i].key.len, seed);
        uint32_t other = map_find(seen, hash);
        if (!other)
            return map_put(a, seen, hash, i + 1), true;
        if (str_eq(items[other - 1].key, items[i].key))
            return false;
    }
}

static GanStatus copy_value(Reader *r, const cJSON *from, Json *to);

static GanStatus copy_items(Reader *r, const cJSON *from, Json *to) {
    for (const cJSON *c = from->child; c; c = c->next)
        to->n++;
    to->item = arena_array(r->arena, Json, to->n);
    Map seen = {0};
    uint32_t i = 0;
    for (const cJSON *c = from->child; c; c = c->next, i++) {
        if (to->kind == JsonObject) {
            size_t at = next_string(r);
            to->item[i].key = str_copy(r->arena, str_c(c->string));
            bool fresh = add_key(r->arena, &seen, to->item, i);
            if (!fresh)
                return refuse(r, at, "this key is here twice");
        }
        TRY(copy_value(r, c, &to->item[i]));
    }
    return GAN_OK;
}

static GanStatus copy_value(Reader *r, const cJSON *from, Json *to) {
    if (cJSON_IsBool(from)) {
        to->kind = JsonBool;
        to->truth = cJSON_IsTrue(from);
    } else if (cJSON_IsNumber(from)) {
        to->kind = JsonNumber;
        to->number = from->valuedouble;
        if (isinf(to->number))
            return refuse(r, r->at, "a number too large follows");
    } else if (cJSON_IsString(from)) {
        to->kind = JsonString;
        next_string(r);
        to->text = str_copy(r->arena, str_c(from->valuestring));
    } else if (cJSON_IsArray(from) || cJSON_IsObject(from)) {
        to->kind = cJSON_IsArray(from) ? JsonArray : JsonObject;
        return copy_items(r, from, to);
    }
    return GAN_OK;
}

typedef struct Copy {
    Reader *r;
    const cJSON *tree;
    const Json *root; // out
} Copy;

static GanStatus copy_tree(void *user) {
    Copy *c = user;
    Json *root = arena_new(c->r->arena, Json);
    c->root = root;
    return copy_value(c->r, c->tree, root);
}

// The tree is cJSON's heap, so a full arena must come back here.
static GanStatus keep_tree(Reader *r, const cJSON *tree, const Json **out) {
    Copy c = {.r = r, .tree = tree};
    GanStatus st = arena_guard(r->arena, "for this document", copy_tree, &c);
    if (st == GAN_ERR_MEMORY)
        return fail_in(st, "%.*s", SARG(r->path));
    if (st == GAN_OK)
        *out = c.root;
    return st;
}

// cJSON fails without a reason. A text taken for a damaged one because memory was short would make
// a run go on from an older checkpoint.
static _Thread_local bool was_refused; // an allocation of this thread's parse

static void *allocate(size_t n) {
    void *at = mem_alloc(n);
    was_refused |= !at;
    return at;
}

static void set_hooks(void) {
    cJSON_InitHooks(&(cJSON_Hooks){.malloc_fn = allocate, .free_fn = mem_free});
}

GanStatus json_parse(Arena *a, Str text, Str path, const Json **out) {
    static once_flag hooked = ONCE_FLAG_INIT;
    Reader r = {.arena = a, .text = text, .path = path};
    *out = NULL;
    TRY(check_text(&r));
    call_once(&hooked, set_hooks);
    was_refused = false;
    const char *end = text.ptr;
    cJSON *tree = text.len ? cJSON_ParseWithLengthOpts(text.ptr, text.len, &end, 0) : NULL;
    size_t at = text.len ? (size_t)(end - text.ptr) : 0;
    while (tree && at < text.len && strchr(" \t\r\n", text.ptr[at]))
        at++;
    // cJSON points at the last byte when it means the place behind it.
    bool cut = !tree && at + 1 >= text.len && (r.open || text.len == 0);
    GanStatus st;
    if (tree && at == text.len)
        st = keep_tree(&r, tree, out);
    else if (was_refused)
        st = fail(GAN_ERR_MEMORY, "%.*s: no memory for this document", SARG(path));
    else if (tree)
        st = refuse(&r, at, "more text after the document's end");
    else if (cut)
        st = refuse(&r, text.len, "the text ends too early");
    else
        st = refuse(&r, at, "not JSON from here on");
    cJSON_Delete(tree);
    return st;
}

const Json *json_get(const Json *object, const char *key) {
    if (!object || object->kind != JsonObject)
        return NULL;
    Str name = str_c(key);
    for (uint32_t i = 0; i < object->n; i++)
        if (str_eq(object->item[i].key, name))
            return &object->item[i];
    return NULL;
}

const Json *json_at(const Json *array, uint32_t i) {
    return array && i < array->n ? &array->item[i] : NULL;
}

uint32_t json_count(const Json *v) {
    return v ? v->n : 0;
}

Str json_key(const Json *member) {
    return member ? member->key : (Str){0};
}

bool json_is_number(const Json *v) {
    return v && v->kind == JsonNumber;
}

bool json_is_string(const Json *v) {
    return v && v->kind == JsonString;
}

bool json_is_array(const Json *v) {
    return v && v->kind == JsonArray;
}

double json_number(const Json *v, double otherwise) {
    return json_is_number(v) ? v->number : otherwise;
}

bool json_whole(const Json *v, uint64_t most, uint64_t *out) {
    double x = json_number(v, -1);
    bool fits = x >= 0 && x <= 0x1p53 && x == (double)(uint64_t)x && (uint64_t)x <= most;
    if (fits)
        *out = (uint64_t)x;
    return fits;
}

Str json_string(const Json *v, Str otherwise) {
    return json_is_string(v) ? v->text : otherwise;
}

bool json_bool(const Json *v, bool otherwise) {
    return v && v->kind == JsonBool ? v->truth : otherwise;
}

// --- writing -------------------------------------------------------------------------------------

// first[d]: nothing has been put yet inside the bracket at depth d, so the next value needs no
// comma.
static void before_value(JsonOut *j) {
    bool named = j->after_name;
    j->after_name = false;
    if (named)
        return;
    if (j->depth > 0 && !j->first[j->depth])
        text_put(j->text, STR(", "));
    j->first[j->depth] = false;
}

void json_open(JsonOut *j, char bracket) {
    before_value(j);
    text_char(j->text, bracket);
    if (++j->depth >= sizeof j->first)
        bug("JSON written deeper than %zu", sizeof j->first - 1);
    j->first[j->depth] = true;
}

void json_close(JsonOut *j, char bracket) {
    assert(j->depth > 0 && !j->after_name);
    text_char(j->text, bracket);
    j->depth--;
}

static void put_escaped(Text *t, unsigned char c) {
    static const char plain[] = "\"\\\b\f\n\r\t", letters[] = "\"\\bfnrt";
    const char *found = c ? strchr(plain, c) : NULL;
    if (found)
        text_char(t, '\\'), text_char(t, letters[found - plain]);
    else if (c < 0x20)
        text_fmt(t, "\\u%04x", c);
    else
        text_char(t, (char)c);
}

// Bytes that are no UTF-8 (a file's name may hold any) become U+FFFD: what is written can always be
// read back.
static void put_quoted(Text *t, Str s) {
    text_char(t, '"');
    while (s.len) {
        size_t good = s.len;
        bool valid = str_utf8_valid(s, &good);
        for (size_t i = 0; i < good; i++)
            put_escaped(t, (unsigned char)s.ptr[i]);
        if (!valid)
            text_put(t, STR("\\ufffd"));
        s = str_sub(s, good + !valid, s.len);
    }
    text_char(t, '"');
}

void json_name(JsonOut *j, const char *name) {
    before_value(j);
    put_quoted(j->text, str_c(name));
    text_put(j->text, STR(": "));
    j->after_name = true;
}

void json_put_str(JsonOut *j, Str s) {
    before_value(j);
    put_quoted(j->text, s);
}

void json_put_double(JsonOut *j, double x) {
    if (!isfinite(x)) {
        json_put_null(j);
        return;
    }
    before_value(j);
    text_put(j->text, str_double(j->text->arena, x));
}

void json_put_int(JsonOut *j, int64_t x) {
    before_value(j);
    text_fmt(j->text, "%" PRId64, x);
}

void json_put_bool(JsonOut *j, bool x) {
    before_value(j);
    text_put(j->text, x ? STR("true") : STR("false"));
}

void json_put_null(JsonOut *j) {
    before_value(j);
    text_put(j->text, STR("null"));
}

void json_member_str(JsonOut *j, const char *name, Str s) {
    json_name(j, name);
    json_put_str(j, s);
}

void json_member_double(JsonOut *j, const char *name, double x) {
    json_name(j, name);
    json_put_double(j, x);
}

void json_member_int(JsonOut *j, const char *name, int64_t x) {
    json_name(j, name);
    json_put_int(j, x);
}

void json_member_bool(JsonOut *j, const char *name, bool x) {
    json_name(j, name);
    json_put_bool(j, x);
}

void json_member_open(JsonOut *j, const char *name, char bracket) {
    json_name(j, name);
    json_open(j, bracket);
}
