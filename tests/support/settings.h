// settings.h - "key=value key=value" as the settings of an elaboration.
#ifndef GAN_TEST_SETTINGS_H
#define GAN_TEST_SETTINGS_H

#include "elaborate.h"

enum { SETTINGS_MOST = 16 };

// `text` NULL: none. The pieces point into it.
static inline void settings_read(Arena *a, const char *text, ElabOptions *out) {
    Setting *s = arena_array(a, Setting, SETTINGS_MOST);
    Str rest = text ? str_c(text) : (Str){0};
    while (rest.len) {
        size_t end = str_find(rest, ' ');
        end = end > rest.len ? rest.len : end;
        Str word = str_sub(rest, 0, end);
        size_t eq = str_find(word, '=');
        s[out->settings++] = (Setting){str_sub(word, 0, eq), str_sub(word, eq + 1, word.len)};
        rest = str_sub(rest, end < rest.len ? end + 1 : end, rest.len);
    }
    out->setting = s;
}

#endif
