// str.c - text: slices that are never changed, numbers in and out of text, and text being built.
// Numbers are read and written in the C locale whatever the program around us has set.
#define _GNU_SOURCE
#include "base.h"

#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

// --- slices --------------------------------------------------------------------------------------

Str str_c(const char *zero_terminated) {
    return zero_terminated ? (Str){zero_terminated, strlen(zero_terminated)} : (Str){0};
}

static int compare(const char *a, const char *b, size_t n) {
    return n ? memcmp(a, b, n) : 0; // an empty text may have no address
}

bool str_eq(Str a, Str b) {
    return a.len == b.len && compare(a.ptr, b.ptr, a.len) == 0;
}

int str_cmp(Str a, Str b) {
    int order = compare(a.ptr, b.ptr, a.len < b.len ? a.len : b.len);
    return order ? order : (a.len > b.len) - (a.len < b.len);
}

bool str_starts(Str s, Str prefix) {
    return s.len >= prefix.len && compare(s.ptr, prefix.ptr, prefix.len) == 0;
}

bool str_ends(Str s, Str suffix) {
    return str_eq(str_sub(s, s.len < suffix.len ? 0 : s.len - suffix.len, s.len), suffix);
}

Str str_sub(Str s, size_t from, size_t to) {
    if (to > s.len)
        to = s.len;
    return from < to ? (Str){s.ptr + from, to - from} : (Str){0};
}

Str str_cut(Str s, size_t most) {
    size_t n = s.len;
    if (n > most)
        for (n = most; n > 0 && (s.ptr[n] & 0xc0) == 0x80;)
            n--;
    return str_sub(s, 0, n);
}

size_t str_find(Str s, char c) {
    const char *at = s.len ? memchr(s.ptr, c, s.len) : NULL;
    return at ? (size_t)(at - s.ptr) : s.len;
}

Str str_copy(Arena *a, Str s) {
    char *copy = arena_alloc(a, s.len + 1, 1);
    if (s.len)
        memcpy(copy, s.ptr, s.len);
    return (Str){copy, s.len};
}

const char *str_z(Arena *a, Str s) {
    return str_copy(a, s).ptr;
}

Str str_vformat(Arena *a, const char *format, va_list args) {
    char words[256]; // most need no second go
    va_list again;
    va_copy(again, args);
    int n = vsnprintf(words, sizeof words, format, args);
    if (n < 0)
        bug("bad format \"%s\"", format);
    char *at = arena_alloc(a, (size_t)n + 1, 1);
    if ((size_t)n < sizeof words)
        memcpy(at, words, (size_t)n);
    else
        vsnprintf(at, (size_t)n + 1, format, again);
    va_end(again);
    return (Str){at, (size_t)n};
}

Str str_format(Arena *a, const char *format, ...) {
    va_list args;
    va_start(args, format);
    Str s = str_vformat(a, format, args);
    va_end(args);
    return s;
}

// --- numbers -------------------------------------------------------------------------------------

// Enters the C locale for this thread; hand the result to uselocale to leave it. The C locale is a
// constant of the system's library: nothing is allocated and nothing has to be freed.
static locale_t enter_c_locale(void) {
    return uselocale(newlocale(LC_ALL_MASK, "C", (locale_t)0));
}

static bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

static size_t skip_digits(Str s, size_t i) {
    while (i < s.len && is_digit(s.ptr[i]))
        i++;
    return i;
}

static size_t skip_sign(Str s, size_t i) {
    return i < s.len && (s.ptr[i] == '+' || s.ptr[i] == '-') ? i + 1 : i;
}

// [sign] digits [. digits] [e [sign] digits], with a digit on at least one side of the point.
static bool is_decimal(Str s) {
    size_t begin = skip_sign(s, 0), i = skip_digits(s, begin), digits = i - begin;
    if (i < s.len && s.ptr[i] == '.') {
        size_t end = skip_digits(s, i + 1);
        digits += end - i - 1;
        i = end;
    }
    if (digits == 0)
        return false;
    if (i < s.len && (s.ptr[i] == 'e' || s.ptr[i] == 'E')) {
        size_t exponent = skip_sign(s, i + 1);
        i = skip_digits(s, exponent);
        if (i == exponent)
            return false;
    }
    return i == s.len;
}

// Decimal numbers, and "inf", "-inf" and "nan" as str_double writes them. A number too large for a
// double is none.
bool str_to_double(Str s, double *out) {
    char z[400]; // longer texts have more digits than any double can tell apart
    if (str_eq(s, STR("inf")))
        return *out = INFINITY, true;
    if (str_eq(s, STR("-inf")))
        return *out = -INFINITY, true;
    if (str_eq(s, STR("nan")))
        return *out = NAN, true;
    if (s.len >= sizeof z || !is_decimal(s))
        return false;
    memcpy(z, s.ptr, s.len);
    z[s.len] = 0;
    locale_t before = enter_c_locale();
    double x = strtod(z, NULL);
    uselocale(before);
    if (isinf(x))
        return false;
    *out = x;
    return true;
}

bool str_to_int(Str s, int64_t *out) {
    size_t begin = skip_sign(s, 0);
    if (begin == s.len || skip_digits(s, begin) != s.len)
        return false;
    bool negative = s.ptr[0] == '-';
    uint64_t most = (uint64_t)INT64_MAX + negative, x = 0;
    for (size_t i = begin; i < s.len; i++) {
        uint64_t digit = (uint64_t)(s.ptr[i] - '0');
        if (x > (most - digit) / 10)
            return false;
        x = x * 10 + digit;
    }
    *out = !negative ? (int64_t)x : x == most ? INT64_MIN : -(int64_t)x;
    return true;
}

static int hex_digit(char c) {
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

int str_to_byte(Str s) {
    int hi = s.len > 1 ? hex_digit(s.ptr[0]) : -1, lo = s.len > 1 ? hex_digit(s.ptr[1]) : -1;
    return hi < 0 || lo < 0 ? -1 : 16 * hi + lo;
}

bool str_to_bytes(Str s, size_t *out) {
    static const char units[] = "KMGT";
    double n = 0, unit = 1;
    bool named = str_ends(s, STR("iB"));
    s.len -= named ? 2 : 0;
    for (int i = 0; units[i] && s.len; i++) {
        unit *= 1024;
        if (s.ptr[s.len - 1] != units[i])
            continue;
        bool fine = str_to_double(str_sub(s, 0, s.len - 1), &n) && n * unit >= 1 && n * unit < 1e18;
        *out = fine ? (size_t)(n * unit) : 0;
        return fine;
    }
    bool fine = !named && str_to_double(s, &n) && n >= 1 && n < 1e18;
    *out = fine ? (size_t)n : 0;
    return fine;
}

SizeText size_text(size_t bytes) {
    SizeText t;
    double unit = bytes < 1 << 20 ? 1024 : 1 << 20;
    if (bytes < 1024)
        snprintf(t.z, sizeof t.z, "%zu bytes", bytes);
    else
        snprintf(t.z, sizeof t.z, "%.1f %s", ceil((double)bytes / unit * 10) / 10,
                 bytes < 1 << 20 ? "KiB" : "MiB");
    return t;
}

Str str_double(Arena *a, double x) {
    char z[32];
    if (isnan(x))
        return str_copy(a, STR("nan"));
    locale_t before = enter_c_locale();
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(z, sizeof z, "%.*g", digits, x);
        if (strtod(z, NULL) == x)
            break;
    }
    uselocale(before);
    return str_copy(a, str_c(z));
}

// --- distance and UTF-8 --------------------------------------------------------------------------

static uint32_t min_u32(uint32_t a, uint32_t b) {
    return a < b ? a : b;
}

// Optimal string alignment: insert, delete, replace, swap neighbours; three rows of the table are
// kept.
uint32_t str_distance(Str a, Str b) {
    enum { Longest = 64 }; // names are short; longer texts count as wholly different
    if (a.len > Longest || b.len > Longest)
        return str_eq(a, b) ? 0 : UINT32_MAX;
    uint32_t rows[3][Longest + 1];
    uint32_t *above2 = rows[0], *above = rows[1], *row = rows[2];
    for (uint32_t j = 0; j <= b.len; j++)
        row[j] = j;
    for (uint32_t i = 1; i <= a.len; i++) {
        uint32_t *spare = above2;
        above2 = above, above = row, row = spare;
        row[0] = i;
        for (uint32_t j = 1; j <= b.len; j++) {
            uint32_t replaced = above[j - 1] + (a.ptr[i - 1] != b.ptr[j - 1]);
            row[j] = min_u32(replaced, min_u32(above[j], row[j - 1]) + 1);
            if (i < 2 || j < 2)
                continue;
            bool swapped = a.ptr[i - 1] == b.ptr[j - 2] && a.ptr[i - 2] == b.ptr[j - 1];
            if (swapped)
                row[j] = min_u32(row[j], above2[j - 2] + 1);
        }
    }
    return row[b.len];
}

static bool same_but_case(Str a, Str b) {
    for (size_t i = 0; i < a.len && a.len == b.len; i++)
        if ((a.ptr[i] | 32) != (b.ptr[i] | 32))
            return false;
    return a.len == b.len;
}

KnownText known_text(Str word, const Str *known, uint32_t n) {
    enum { More = 12 }; // quotes, a comma, dots
    KnownText t = {""};
    Str near = str_nearest(word, known, n);
    if (near.len || !n) {
        if (near.len)
            snprintf(t.at, sizeof t.at, ": did you mean `%.*s`?", SARG(near));
        return t;
    }
    size_t at = (size_t)snprintf(t.at, sizeof t.at, n == 1 ? ": there is" : ": there are");
    uint32_t i = 0;
    for (; i < n && at + known[i].len + More < sizeof t.at; i++)
        at += (size_t)snprintf(t.at + at, sizeof t.at - at, "%s `%.*s`", i ? "," : "",
                               SARG(known[i]));
    if (i < n)
        snprintf(t.at + at, sizeof t.at - at, "%s ...", i ? "," : "");
    return t;
}

int by_str(const void *a, const void *b) {
    return str_cmp(*(const Str *)a, *(const Str *)b);
}

Str str_nearest(Str word, const Str *known, uint32_t n) {
    Str best = {0};
    for (uint32_t i = 0; i < n; i++)
        if (same_but_case(word, known[i]))
            return known[i];
    uint32_t least = (uint32_t)(word.len < 3 ? 1 : word.len / 3) + 1;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t d = str_distance(word, known[i]);
        if (d >= least || d >= word.len)
            continue; // changing every letter is no likeness
        least = d;
        best = known[i];
    }
    return best;
}

// Length of the well-formed sequence at the start of s, 0 when there is none (RFC 3629, table in
// section 4).
static size_t utf8_length(Str s) {
    const unsigned char *p = (const unsigned char *)s.ptr;
    if (p[0] < 0x80)
        return 1;
    if (p[0] < 0xc2 || p[0] > 0xf4)
        return 0;
    size_t n = p[0] < 0xe0 ? 2 : p[0] < 0xf0 ? 3 : 4;
    if (s.len < n)
        return 0;
    unsigned char least = p[0] == 0xe0 ? 0xa0 : p[0] == 0xf0 ? 0x90 : 0x80;
    unsigned char most = p[0] == 0xed ? 0x9f : p[0] == 0xf4 ? 0x8f : 0xbf;
    if (p[1] < least || p[1] > most)
        return 0;
    for (size_t i = 2; i < n; i++)
        if ((p[i] & 0xc0) != 0x80)
            return 0;
    return n;
}

uint32_t str_code_points(Str s) {
    uint32_t n = 0;
    for (size_t i = 0; i < s.len; i++)
        n += ((unsigned char)s.ptr[i] & 0xc0) != 0x80;
    return n;
}

bool str_utf8_valid(Str s, size_t *bad_at) {
    for (size_t i = 0, n; i < s.len; i += n) {
        n = utf8_length((Str){s.ptr + i, s.len - i});
        if (n)
            continue;
        if (bad_at)
            *bad_at = i;
        return false;
    }
    return true;
}

void str_mask(char *zero_terminated) {
    for (unsigned char *c = (unsigned char *)zero_terminated; *c; c++) {
        bool wide = c[0] == 0xc2 && (c[1] & 0xe0) == 0x80; // U+0080 to U+009F in UTF-8
        if ((*c < ' ' && *c != '\n' && *c != '\t') || *c == 0x7f || wide)
            *c = '?';
        if (wide)
            *++c = '?';
    }
}

// --- text being built ----------------------------------------------------------------------------

static void text_room(Text *t, size_t more) {
    if (more <= t->cap - t->n)
        return;
    size_t cap = t->cap ? 2 * t->cap : 64;
    while (cap - t->n < more)
        cap *= 2;
    char *at = arena_alloc(t->arena, cap, 1);
    if (t->n)
        memcpy(at, t->at, t->n);
    t->at = at;
    t->cap = cap;
}

void text_put(Text *t, Str s) {
    if (s.len == 0)
        return;
    text_room(t, s.len);
    memcpy(t->at + t->n, s.ptr, s.len);
    t->n += s.len;
}

void text_char(Text *t, char c) {
    text_put(t, (Str){&c, 1});
}

static void text_number(Text *t, uint64_t x, bool negative) {
    char digits[24], *at = digits + sizeof digits;
    do
        *--at = (char)('0' + x % 10);
    while (x /= 10);
    if (negative)
        *--at = '-';
    text_put(t, (Str){at, (size_t)(digits + sizeof digits - at)});
}

static void text_signed(Text *t, long long x) {
    text_number(t, x < 0 ? 0 - (uint64_t)x : (uint64_t)x, x < 0);
}

// Puts what stands before the first conversion that is none of these few; the rest of the format.
// Kernels and plans are written in them, tens of thousands at a start.
static const char *text_plain(Text *t, const char *f, va_list *args) {
    for (;;) {
        const char *end = f;
        while (*end && *end != '%') // it is near: no call of strcspn is worth it
            end++;
        text_put(t, (Str){f, (size_t)(end - f)});
        f = end;
        char kind = *f ? f[1] : 0;
        if (kind == 's') {
            text_put(t, str_c(va_arg(*args, const char *)));
            f += 2;
        } else if (kind == 'u') {
            text_number(t, va_arg(*args, unsigned), false);
            f += 2;
        } else if (kind == 'd') {
            text_signed(t, va_arg(*args, int));
            f += 2;
        } else if (kind == '.' && f[2] == '*' && f[3] == 's') {
            int most = va_arg(*args, int);
            const char *s = va_arg(*args, const char *);
            size_t len = most < 0 ? strlen(s) : most ? strnlen(s, (size_t)most) : 0; // NULL then
            text_put(t, (Str){s, len});
            f += 4;
        } else if (kind == 'l' && f[2] == 'l' && f[3] == 'd') {
            text_signed(t, va_arg(*args, long long));
            f += 4;
        } else {
            return f;
        }
    }
}

// Formatted where it goes to, and once more only where there was too little room: most of what is
// printed is a word or a number.
void text_fmt(Text *t, const char *format, ...) {
    enum { MOST_WORDS = 64 };
    va_list args, again;
    va_start(args, format);
    const char *rest = text_plain(t, format, &args);
    va_copy(again, args);
    text_room(t, MOST_WORDS);
    size_t room = t->cap - t->n;
    int n = *rest ? vsnprintf(t->at + t->n, room, rest, args) : 0;
    if (n < 0)
        bug("bad format \"%s\"", format);
    if ((size_t)n >= room) {
        text_room(t, (size_t)n + 1);
        vsnprintf(t->at + t->n, (size_t)n + 1, rest, again);
    }
    t->n += (size_t)n;
    va_end(again);
    va_end(args);
}

Str text_str(Text *t) {
    text_room(t, 1);
    t->at[t->n] = 0;
    return (Str){t->at, t->n};
}
