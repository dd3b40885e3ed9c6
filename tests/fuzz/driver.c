// driver.c - runs a fuzz target over files, so that fuzzers are plain tests too.
//
//   x_fuzz [-mutate N] [-dict FILE] PATH...   each file, and each file of each folder; with -mutate
//                                             also N mutated copies of each, some with words of
//                                             the dictionary in them
//
// A crash is the failure; mutated copies are derived from a counter, so that a run can be repeated.
#include "fuzz.h"

#include "base.h"

#include <stdlib.h>
#include <string.h>

typedef struct Run {
    uint64_t files, inputs;
    uint32_t mutations;
    StrVec words;
} Run;

// A fresh block of exactly the input's size, so that a sanitizer sees the first byte past it.
static void try_input(Run *run, const uint8_t *data, size_t n) {
    uint8_t *copy = malloc(n ? n : 1);
    if (!copy)
        bug("no memory for an input of %zu bytes", n);
    if (n)
        memcpy(copy, data, n);
    LLVMFuzzerTestOneInput(copy, n);
    free(copy);
    run->inputs++;
}

// One edit: a word over what is there, a piece of the text moved to another place, or a byte.
static void damage(const Run *run, uint8_t *at, size_t n, uint64_t r) {
    size_t place = (size_t)(r >> 8) % n;
    if (run->words.n && r & 1) {
        Str word = run->words.at[(r >> 1) % run->words.n];
        memcpy(at + place, word.ptr, word.len < n - place ? word.len : n - place);
    } else if (run->words.n && r & 2) {
        size_t from = (size_t)(r >> 20) % n, later = from > place ? from : place;
        size_t length = (size_t)(r >> 4) % 32 < n - later ? (size_t)(r >> 4) % 32 : n - later;
        memmove(at + place, at + from, length);
    } else
        at[place] = (uint8_t)r;
}

static void try_damaged(Run *run, const uint8_t *data, size_t n) {
    uint8_t *copy = malloc(n ? n : 1);
    for (uint32_t i = 0; copy && n && i < run->mutations; i++) {
        uint64_t key[2] = {run->files, i}, bits = hash64(key, sizeof key, 0);
        uint32_t edits = 1 + (uint32_t)(bits >> 60);
        size_t cut = bits >> 59 & 1 ? (size_t)((bits >> 8) % n) : n;
        memcpy(copy, data, n);
        for (uint32_t e = 0; e < edits; e++)
            damage(run, copy, n, hash64(key, sizeof key, e + 1));
        try_input(run, copy, cut);
    }
    free(copy);
}

static GanStatus run_file(Run *run, Str path) {
    FileMap map = {0};
    TRY(file_map(path, &map));
    run->files++;
    try_input(run, map.ptr, map.n);
    try_damaged(run, map.ptr, map.n);
    file_unmap(&map);
    return GAN_OK;
}

static GanStatus run_path(Run *run, Arena *arena, Str path) {
    if (!file_is_dir(path))
        return run_file(run, path);
    WalkVec names = {0};
    TRY(dir_walk(arena, path, false, &names));
    for (uint32_t i = 0; i < names.n; i++)
        TRY(run_file(run, path_join(arena, path, names.at[i].path)));
    return GAN_OK;
}

// The lines `"word"` of a dictionary in libFuzzer's form.
static GanStatus read_words(Run *run, Arena *arena, Str path) {
    Str text;
    TRY(file_read(arena, path, &text));
    while (text.len) {
        size_t end = str_find(text, '\n');
        Str line = str_sub(text, 0, end);
        if (line.len > 2 && line.ptr[0] == '"')
            vec_push(arena, &run->words, str_sub(line, 1, line.len - 1));
        text = str_sub(text, end + 1, text.len);
    }
    return GAN_OK;
}

int main(int argc, char **argv) {
    Arena arena = {0};
    Run run = {0};
    GanStatus st = arena_init(&arena, 0);
    int first = 1;
    if (argc > 2 && strcmp(argv[1], "-mutate") == 0) {
        run.mutations = (uint32_t)strtoul(argv[2], NULL, 10);
        first = 3;
    }
    if (st == GAN_OK && argc > first + 1 && strcmp(argv[first], "-dict") == 0) {
        st = read_words(&run, &arena, str_c(argv[first + 1]));
        first += 2;
    }
    for (int i = first; st == GAN_OK && i < argc; i++)
        st = run_path(&run, &arena, str_c(argv[i]));
    if (st == GAN_OK && run.files == 0)
        st = fail(GAN_ERR_USAGE, "no input files");
    if (st == GAN_OK) {
        printf("%llu files, %llu inputs\n", (unsigned long long)run.files,
               (unsigned long long)run.inputs);
    } else
        fprintf(stderr, "%s: %s\n", argv[0], gan_error());
    arena_release(&arena);
    return gan_exit_code(st);
}
