// replay.c - runs a fuzz target as a plain test: over every file of the folders given, and over mutations of each that are
// the same in every run. `replay --rounds N FOLDER...`
#include "fuzz.h"

#include "base.h"

#include <stdlib.h>
#include <string.h>

typedef struct Bytes { uint8_t *at; size_t n, cap; } Bytes;

static uint64_t next_random(uint64_t *state) {          // xorshift64*
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return *state * 2685821657736338717u;
}

// One edit: a byte replaced, a piece removed, a piece said twice, or a word of the language put in.
static void mutate(Bytes *b, uint64_t *state) {
    static const char *const words[] = {"{", "}", "(", ")", "[", "]", "\n", ";", ",", "=", ":=", ":", "|>", "-", "^", "...",
                                        "if ", "else ", "for ", " in ", "fn ", "net ", "step {", "\"", "#", "\t", "- ", "1e9",
                                        "not ", "each sample ", "update ", " using ", "\xc3\xa9", "|\n"};
    size_t place = next_random(state) % (b->n + 1), rest = b->n - place;
    size_t piece = rest ? next_random(state) % (rest < 40 ? rest : 40) : 0;
    const char *word = words[next_random(state) % (sizeof words/sizeof *words)];
    size_t length = strlen(word);
    switch (next_random(state) % 4) {
    case 0:
        if (rest) b->at[place] = (uint8_t)(next_random(state) % 128);
        break;
    case 1:
        memmove(b->at + place, b->at + place + piece, rest - piece);
        b->n -= piece;
        break;
    case 2:
        if (b->n + piece > b->cap) break;
        memmove(b->at + place + piece, b->at + place, rest);
        b->n += piece;
        break;
    default:
        if (b->n + length > b->cap) break;
        memmove(b->at + place + length, b->at + place, rest);
        memcpy(b->at + place, word, length);
        b->n += length;
        break;
    }
}

static void replay(Str text, Str name, long rounds) {
    LLVMFuzzerTestOneInput((const uint8_t *)text.ptr, text.len);
    uint64_t state = hash64(name.ptr, name.len, 1) | 1;
    Bytes b = {.cap = text.len + 4096};
    b.at = mem_alloc(b.cap);
    if (!b.at) bug("out of memory");
    for (long i = 0; i < rounds; i++) {
        memcpy(b.at, text.ptr, text.len);
        b.n = text.len;
        for (uint64_t edits = 1 + next_random(&state) % 6; edits; edits--) mutate(&b, &state);
        LLVMFuzzerTestOneInput(b.at, b.n);
    }
    mem_free(b.at);
}

int main(int argc, char **argv) {
    Arena arena;
    if (argc < 4 || strcmp(argv[1], "--rounds") || arena_init(&arena, 0) != GAN_OK) return 2;
    long rounds = strtol(argv[2], NULL, 10), n = 0;
    for (int i = 3; i < argc; i++) {
        StrVec names = {0};
        if (dir_list(&arena, str_c(argv[i]), &names) != GAN_OK) bug("%s", gan_error());
        for (uint32_t k = 0; k < names.n; k++) {
            Str text, path = path_join(&arena, str_c(argv[i]), names.at[k]);
            if (file_is_dir(path)) continue;
            if (file_read(&arena, path, &text) != GAN_OK) bug("%s", gan_error());
            replay(text, names.at[k], rounds);
            n++;
        }
    }
    printf("%ld files, %ld mutations of each\n", n, rounds);
    arena_release(&arena);
    return n ? 0 : 1;
}
