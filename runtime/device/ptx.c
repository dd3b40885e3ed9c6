// ptx.c - see ptx.h. Line by line: NVRTC puts a kernel's name, each of its directives and its
// braces on lines of their own.
#include "ptx.h"

// The text up to and with the next line's end; *at moves behind it.
static Str line_next(Str text, size_t *at) {
    Str rest = str_sub(text, *at, text.len);
    Str line = str_sub(rest, 0, str_find(rest, '\n') + 1);
    *at += line.len;
    return line;
}

// What follows the module's header: version, target and address size.
static Str body(Str ptx) {
    for (size_t at = 0; at < ptx.len;)
        if (str_starts(line_next(ptx, &at), STR(".address_size")))
            return str_sub(ptx, at, ptx.len);
    return (Str){0};
}

Str ptx_as_cuda(Arena *a, Str ptx) {
    Str kernels = body(ptx);
    while (kernels.len && kernels.ptr[kernels.len - 1] != '}')
        kernels.len--;
    if (!kernels.len)
        return kernels;
    Text t = {.arena = a};
    text_put(&t, STR("extern \"C\" __device__ __attribute__((used)) void gan_ptx() {\n"
                     "    asm volatile(R\"ptx(ret;\n}\n"));
    text_put(&t, str_sub(kernels, 0, kernels.len - 1));
    text_put(&t, STR(")ptx\");\n}\n"));
    return text_str(&t);
}

// The kernel that begins in this line; empty: none.
static Str entry_of(Str line) {
    const Str head = STR(".visible .entry ");
    if (!str_starts(line, head))
        return (Str){0};
    Str name = str_sub(line, head.len, line.len);
    return str_sub(name, 0, str_find(name, '('));
}

static bool is_one_of(Str name, const Str *entry, uint32_t n) {
    for (uint32_t i = 0; i < n; i++)
        if (str_eq(name, entry[i]))
            return true;
    return false;
}

Str ptx_with_room(Arena *a, Str ptx, const Str *entry, uint32_t n) {
    Text t = {.arena = a};
    bool left = false, head = false; // inside a kernel that is left out; in the directives of one
    for (size_t at = 0; at < ptx.len;) {
        Str line = line_next(ptx, &at), name = entry_of(line);
        if (name.len) {
            head = is_one_of(name, entry, n);
            left = !head;
        }
        if (head && str_starts(line, STR("{"))) {
            text_put(&t, STR(".minnctapersm 1\n"));
            head = false;
        }
        if (!left && !(head && str_starts(line, STR(".minnctapersm"))))
            text_put(&t, line);
        left = left && !str_starts(line, STR("}"));
    }
    return text_str(&t);
}
