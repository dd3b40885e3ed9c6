// path.c - operations on paths as text, without system calls. A trailing `/` changes nothing,
// except in the root.
#include "base.h"

#include <string.h>

Str path_join(Arena *a, Str dir, Str name) {
    if (dir.len == 0 || (name.len && name.ptr[0] == '/'))
        return str_copy(a, name);
    if (name.len == 0)
        return str_copy(a, dir);
    const char *between = dir.ptr[dir.len - 1] == '/' ? "" : "/";
    return str_format(a, "%.*s%s%.*s", SARG(dir), between, SARG(name));
}

Str path_trim(Str path) {
    while (path.len > 1 && path.ptr[path.len - 1] == '/')
        path.len--;
    return path;
}

static size_t base_begin(Str trimmed) {
    size_t i = trimmed.len;
    while (i > 0 && trimmed.ptr[i - 1] != '/')
        i--;
    return i;
}

Str path_base(Str path) {
    Str s = path_trim(path);
    size_t i = base_begin(s);
    return i < s.len ? str_sub(s, i, s.len) : s; // "/" is its own last component
}

Str path_dir(Str path) {
    Str s = path_trim(path);
    size_t i = base_begin(s);
    return i == 0 ? STR(".") : path_trim(str_sub(s, 0, i));
}

Str path_ext(Str path) {
    Str base = path_base(path);
    size_t dot = base.len;
    while (dot > 0 && base.ptr[dot - 1] != '.')
        dot--;
    return dot > 1 ? str_sub(base, dot, base.len) : (Str){0}; // ".hidden" has none
}

Str path_stem(Str path) {
    Str ext = path_ext(path);
    return ext.len ? str_sub(path, 0, path_trim(path).len - ext.len - 1) : path;
}

static bool is_among(Str ext, const char *written) {
    for (const char *at = written; ext.len && (at = strchr(at, '.')) != NULL; at++)
        if (str_eq(ext, (Str){at + 1, strcspn(at + 1, " ")}))
            return true;
    return false;
}

GanStatus path_writes(Str path, const char *written, bool folders) {
    Str ext = path_ext(path);
    if (str_eq(path, STR("-")))
        return fail(GAN_ERR_USAGE, "-o -: what is written is a file, not standard output");
    bool slash = path.len && path.ptr[path.len - 1] == '/';
    if (slash || !ext.len ? folders : is_among(ext, written))
        return GAN_OK;
    return fail(GAN_ERR_USAGE, "-o %.*s: what can be written is %s%s", SARG(path), written,
                folders ? ", or a folder: a name that ends in /" : "");
}
