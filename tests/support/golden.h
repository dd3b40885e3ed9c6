// golden.h - golden cases: files of tests/golden beside what is expected of them. With BLESS=1 in
// the environment the latter are rewritten: review that diff as code.
#ifndef GAN_GOLDEN_H
#define GAN_GOLDEN_H

#include "base.h"

#include <stdlib.h>

// Fails the test unless the file is there and is `got`.
static inline void golden_compare(Arena *a, Str path, Str got) {
    Str want;
    GanStatus status =
        getenv("BLESS") ? file_write_atomic(path, got.ptr, got.len) : file_read(a, path, &want);
    if (status != GAN_OK)
        fail_msg("%s", gan_error());
    if (!getenv("BLESS") && !str_eq(got, want))
        fail_msg("%.*s differs; got:\n%.*s\nwanted:\n%.*s", SARG(path), SARG(got), SARG(want));
}

// "FOLDER/NAME." of a case "FOLDER/NAME.gan", to which an ending is added.
static inline Str golden_beside(Arena *a, Str path, const char *ending) {
    size_t stem = path.len - path_ext(path).len;
    return str_format(a, "%.*s%s", SARG(str_sub(path, 0, stem)), ending);
}

// Calls `check` with the path of each case of a folder: a model, or a graph as text. How many.
static inline uint32_t golden_each(Arena *a, const char *folder, void (*check)(Str path)) {
    StrVec names = {0};
    uint32_t n = 0;
    Str root = path_join(a, STR(TEST_DIR "/golden"), str_c(folder));
    if (dir_list(a, root, &names) != GAN_OK)
        fail_msg("%s", gan_error());
    for (uint32_t i = 0; i < names.n; i++) {
        Str ext = path_ext(names.at[i]);
        if (!str_eq(ext, STR("gan")) && !str_eq(ext, STR("yaml")) && !str_eq(ext, STR("graph")))
            continue;
        check(path_join(a, root, names.at[i]));
        n++;
    }
    return n;
}

#endif
