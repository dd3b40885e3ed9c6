// pack_split.c - which members of a folder, archive or LMDB are packed: with --split those of which
// a table says so, such as CelebA's list_eval_partition.txt.
//
// In: FILE=VALUE or FILE:COLUMN=VALUE. Out: a filter of names. A member that the table lacks is not
// in any part. Values are compared as the classes that labels of that column would be.
#include "pack_build.h"

#include <stdlib.h>

static GanStatus take_apart(Str text, Str *file, Str *column, Str *value) {
    size_t equals = text.len;
    while (equals > 0 && text.ptr[equals - 1] != '=')
        equals--;
    *file = str_sub(text, 0, equals ? equals - 1 : 0);
    *value = str_sub(text, equals, text.len);
    *column = (Str){0};
    for (size_t i = file->len; i > 0 && !labels_are_table(*file); i--)
        if (file->ptr[i - 1] == ':') {
            *column = str_sub(*file, i, file->len);
            *file = str_sub(*file, 0, i - 1);
        }
    return labels_are_table(*file) && value->len
               ? GAN_OK
               : fail(GAN_ERR_USAGE,
                      "--split %.*s: which table (.csv, .tsv, .txt), and which value? "
                      "list_eval_partition.txt=0, or table.csv:COLUMN=train",
                      SARG(text));
}

static bool find_class(const Labels *l, Str value, uint32_t *out) {
    int64_t number = -1;
    if (!l->class_name)
        return str_to_int(value, &number) && number >= 0 && number < l->classes &&
               (*out = (uint32_t)number, true);
    for (uint32_t i = 0; i < l->classes; i++)
        if (str_eq(l->class_name[i], value))
            return *out = i, true;
    return false;
}

GanStatus build_split(Build *b) {
    Str file, column, value, asked = b->o->split;
    Labels *l = &b->split;
    if (!asked.len)
        return GAN_OK;
    TRY(take_apart(asked, &file, &column, &value));
    TRY(labels_of_file_text(b, file, column, l));
    if (l->width)
        return fail(GAN_ERR_INPUT, "--split: %.*s holds numbers that are no classes",
                    SARG(l->words));
    bool some = false, known = find_class(l, value, &b->split_class);
    for (uint32_t i = 0; known && !some && i < l->of.n; i++)
        some = l->of.at[i].label == b->split_class;
    if (!some)
        return fail(GAN_ERR_INPUT, "--split: by %.*s no sample of %.*s is %.*s", SARG(l->words),
                    SARG(b->path), SARG(value));
    l->words = str_format(b->perm, "%.*s = %.*s", SARG(l->words), SARG(value));
    l->on = true;
    return GAN_OK;
}

bool build_wants(const void *user, Str name) {
    const Build *b = user;
    const KeyLabel *at = labels_find(&b->split, member_path(name));
    return at && at->label == b->split_class;
}
