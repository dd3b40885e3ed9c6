// habits.c - what users write by the habit of another language or library, and the help for it
// (lang/habits.def, and FOUND of lang/tokens.def).
#include "front.h"

static Str help_in(const Str (*rows)[2], size_t n, Str word) {
    for (size_t i = 0; i < n; i++)
        for (Str words = rows[i][0]; words.len;) {
            size_t end = str_find(words, ' ');
            if (str_eq(str_sub(words, 0, end), word))
                return rows[i][1];
            words = str_sub(words, end + 1, words.len);
        }
    return (Str){0};
}

#define ROW(words, help) {STR_INIT(words), STR_INIT(help)},
Str word_habit(Str word) {
    static const Str rows[][2] = {
#define HABIT ROW
#include "habits.def"
    };
    return help_in(rows, sizeof rows / sizeof *rows, word);
}

Str key_habit(Str word) {
    static const Str rows[][2] = {
#define KEY ROW
#include "habits.def"
    };
    return help_in(rows, sizeof rows / sizeof *rows, word);
}

Str call_habit(Str word) {
    static const Str rows[][2] = {
#define CALLED ROW
#include "habits.def"
    };
    return help_in(rows, sizeof rows / sizeof *rows, word);
}

Str gives_habit(Str word) {
    static const Str rows[][2] = {
#define GIVES ROW
#include "habits.def"
    };
    return help_in(rows, sizeof rows / sizeof *rows, word);
}

Str asked_habit(Str word) {
    static const Str rows[][2] = {
#define ASKED ROW
#include "habits.def"
    };
    return help_in(rows, sizeof rows / sizeof *rows, word);
}

Str method_habit(Str word) {
    static const Str rows[][2] = {
#define METHOD ROW
#include "habits.def"
    };
    Str help = help_in(rows, sizeof rows / sizeof *rows, word);
    if (!help.len)
        help = word_habit(word);
    bool in_place = word.len > 1 && word.ptr[word.len - 1] == '_' && word.ptr[0] != '_';
    if (!help.len && in_place)
        help = word_habit(str_sub(word, 0, word.len - 1));
    if (!help.len && in_place)
        help = STR("values never change: bind the name again, x = x + 1; a state is replaced by x "
                   ":= VALUE");
    return help;
}
#undef ROW

Str found_habit(Str sign) {
    static const Str rows[][2] = {
#define FOUND(sign, help) {STR_INIT(sign), STR_INIT(help)},
#include "tokens.def"
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (str_eq(rows[i][0], sign))
            return rows[i][1];
    return (Str){0};
}
