// image.c - see image.h. FIRST, zeros up to a multiple of ALIGN, AGAIN, Tail.
#include "image.h"

#include <elf.h>
#include <string.h>

enum { ALIGN = 16 };

static const char mark[8] = {'g', 'a', 'n', 'a', 'g', 'a', 'i', 'n'};

typedef struct Tail {
    uint64_t from; // where AGAIN begins
    char mark[sizeof mark];
} Tail;

Str image_join(Arena *a, Str first, Str again) {
    static const char zeros[ALIGN];
    size_t gap = (ALIGN - first.len % ALIGN) % ALIGN;
    Tail tail = {.from = first.len + gap};
    memcpy(tail.mark, mark, sizeof mark);
    Text t = {.arena = a};
    text_put(&t, first);
    text_put(&t, (Str){zeros, gap});
    text_put(&t, again);
    text_put(&t, (Str){(const char *)&tail, sizeof tail});
    return text_str(&t);
}

Str image_again(Str image) {
    Tail tail;
    if (image.len < sizeof tail)
        return (Str){0};
    size_t end = image.len - sizeof tail;
    memcpy(&tail, image.ptr + end, sizeof tail);
    if (memcmp(tail.mark, mark, sizeof mark) || tail.from % ALIGN || tail.from >= end)
        return (Str){0};
    return str_sub(image, tail.from, end);
}

// --- the kernels of an image ---------------------------------------------------------------------

// Copies a struct of the file to *out: nothing in it need be aligned, or within the file.
static bool read_at(Str image, uint64_t at, void *out, size_t n) {
    if (at > image.len || n > image.len - at)
        return false;
    memcpy(out, image.ptr + at, n);
    return true;
}

// The text up to a 0 byte; empty where there is none.
static Str name_at(Str names, uint64_t at) {
    Str rest = at < names.len ? str_sub(names, at, names.len) : (Str){0};
    size_t end = str_find(rest, 0);
    return end < rest.len ? str_sub(rest, 0, end) : (Str){0};
}

typedef struct Code { // of a kernel
    Str name;
    uint64_t bytes;
} Code;
typedef VEC(Code) CodeVec;

// A cubin is an ELF file: the code of kernel NAME is its section .text.NAME.
static void code_of_elf(Arena *a, Str image, CodeVec *out) {
    const Str text = STR(".text.");
    Elf64_Ehdr head;
    Elf64_Shdr section;
    if (!read_at(image, 0, &head, sizeof head) || head.e_shentsize != sizeof section ||
        head.e_shoff > image.len ||
        !read_at(image, head.e_shoff + (uint64_t)head.e_shstrndx * sizeof section, &section,
                 sizeof section) ||
        section.sh_offset > image.len || section.sh_size > image.len - section.sh_offset)
        return;
    Str names = {image.ptr + section.sh_offset, section.sh_size};
    for (uint64_t i = 0; i < head.e_shnum; i++) {
        if (!read_at(image, head.e_shoff + i * sizeof section, &section, sizeof section))
            return;
        Str name = name_at(names, section.sh_name);
        if (str_starts(name, text))
            vec_push(a, out, ((Code){str_sub(name, text.len, name.len), section.sh_size}));
    }
}

static void kernels_of_elf(Arena *a, Str image, StrVec *out) {
    CodeVec code = {0};
    code_of_elf(a, image, &code);
    for (uint32_t i = 0; i < code.n; i++)
        vec_push(a, out, code.at[i].name);
}

uint64_t image_code_bytes(Arena scratch, Str image, Str kernel) {
    uint64_t bytes = 0;
    for (Str again; image.len; image = again) {
        CodeVec code = {0};
        again = image_again(image);
        code_of_elf(&scratch, image, &code);
        for (uint32_t i = 0; i < code.n; i++)
            bytes = str_eq(code.at[i].name, kernel) ? code.at[i].bytes : bytes;
    }
    return bytes;
}

static void kernels_of_ptx(Arena *a, Str image, StrVec *out) {
    const Str entry = STR(".visible .entry ");
    for (size_t at = 0; at < image.len; at += str_find(str_sub(image, at, image.len), '\n') + 1) {
        Str line = str_sub(image, at, image.len);
        if (str_starts(line, entry)) {
            line = str_sub(line, entry.len, line.len);
            vec_push(a, out, str_sub(line, 0, str_find(line, '(')));
        }
    }
}

void image_kernels(Arena *a, Str image, StrVec *out) {
    if (str_starts(image, STR(ELFMAG)))
        kernels_of_elf(a, image, out);
    else
        kernels_of_ptx(a, image, out);
}
