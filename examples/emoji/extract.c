// extract.c - extracts the images of a colour bitmap font, one PNG file each.
//
// In: a font with CBLC and CBDT tables (Noto Color Emoji) and a folder. Out: its largest strike's
// PNG files, unchanged, named after the code point (u1f600.png) where
// one character maps to the glyph, else after the glyph's index (glyph01234.png). FreeType checks
// the font and provides tables and characters; the bitmap index is parsed here, and every
// offset in it is checked, because the file is not trusted.
#include "base.h"

#include <ft2build.h>
#include FT_FREETYPE_H
#include FT_TRUETYPE_TABLES_H

#include <errno.h>
#include <string.h>

typedef struct Table {
    uint8_t *at;
    size_t n;
} Table; // owned, heap

typedef struct Extract {
    Arena arena;
    Str folder;
    FT_Library library;
    FT_Face face;
    Table index, data;   // CBLC, CBDT
    uint32_t *character; // [glyphs] the first character that gives it, or 0
    uint32_t glyphs, written;
} Extract;

// --- big-endian numbers; past the end they are 0, and the caller has checked what matters --------

static uint32_t number(const Table *t, size_t at, uint32_t bytes) {
    if (at > t->n || bytes > t->n - at)
        return 0;
    uint32_t v = 0;
    for (uint32_t i = 0; i < bytes; i++)
        v = v << 8 | t->at[at + i];
    return v;
}

static bool within(const Table *t, size_t at, size_t n) {
    return at <= t->n && n <= t->n - at;
}

static GanStatus load_table(Extract *e, const char *tag, Table *out) {
    FT_ULong name = FT_MAKE_TAG(tag[0], tag[1], tag[2], tag[3]), n = 0;
    if (FT_Load_Sfnt_Table(e->face, name, 0, NULL, &n) != 0)
        return fail(GAN_ERR_INPUT, "the font has no %s table: not a colour bitmap font", tag);
    out->at = mem_alloc(n);
    if (!out->at)
        return fail(GAN_ERR_MEMORY, "no memory for the font's %s table", tag);
    out->n = n;
    return FT_Load_Sfnt_Table(e->face, name, 0, out->at, &n) == 0
               ? GAN_OK
               : fail(GAN_ERR_INPUT, "the font's %s table cannot be read", tag);
}

static void map_characters(Extract *e) {
    FT_UInt glyph = 0;
    e->character = arena_array(&e->arena, uint32_t, e->glyphs);
    for (FT_ULong c = FT_Get_First_Char(e->face, &glyph); glyph;
         c = FT_Get_Next_Char(e->face, c, &glyph))
        if (glyph < e->glyphs && !e->character[glyph])
            e->character[glyph] = (uint32_t)c;
}

// --- bitmaps -------------------------------------------------------------------------------------

// Plain writes: thousands of files that can be made again need not each reach the disk first.
static GanStatus write_file(Arena *scratch, Str path, const void *data, size_t n) {
    FILE *f = fopen(str_z(scratch, path), "wb");
    bool ok = f && fwrite(data, 1, n, f) == n;
    ok = f && fclose(f) == 0 && ok;
    return ok ? GAN_OK : fail(GAN_ERR_IO, "%.*s: cannot write: %s", SARG(path), strerror(errno));
}

// A glyph's data: metrics of 5, 8 or 0 bytes, the length, then a PNG file.
static GanStatus write_glyph(Extract *e, uint32_t glyph, uint32_t format, size_t at, size_t n) {
    size_t metrics = format == 17 ? 5 : format == 18 ? 8 : 0;
    uint32_t length = number(&e->data, at + metrics, 4);
    bool fits = n >= metrics + 4 && length <= n - metrics - 4 && within(&e->data, at, n);
    if (!fits)
        return fail(GAN_ERR_INPUT, "glyph %u lies outside the font's bitmaps", glyph);
    Arena scratch = e->arena;
    bool named = glyph < e->glyphs && e->character[glyph];
    Str name = named ? str_format(&scratch, "u%04x.png", e->character[glyph])
                     : str_format(&scratch, "glyph%05u.png", glyph);
    Str path = path_join(&scratch, e->folder, name);
    TRY(write_file(&scratch, path, e->data.at + at + metrics + 4, length));
    e->written++;
    return GAN_OK;
}

// One run of glyphs: an array of offsets into CBDT, one more than glyphs.
static GanStatus write_run(Extract *e, uint32_t first, uint32_t last, size_t at) {
    const Table *t = &e->index;
    uint32_t index_format = number(t, at, 2), image_format = number(t, at + 2, 2),
             size = index_format == 1 ? 4 : 2;
    size_t base = number(t, at + 4, 4), count = (size_t)last - first + 1;
    if (index_format != 1 && index_format != 3)
        return fail(GAN_ERR_INPUT, "index format %u is not read", index_format);
    if (image_format < 17 || image_format > 19)
        return fail(GAN_ERR_INPUT, "bitmap format %u is not read", image_format);
    if (last < first || !within(t, at + 8, (count + 1) * size))
        return fail(GAN_ERR_INPUT, "the font's index of bitmaps is damaged");
    for (size_t i = 0; i < count; i++) {
        uint32_t from = number(t, at + 8 + i * size, size),
                 to = number(t, at + 8 + (i + 1) * size, size);
        if (to > from)
            TRY(write_glyph(e, first + (uint32_t)i, image_format, base + from, to - from));
    }
    return GAN_OK;
}

static GanStatus write_strike(Extract *e) {
    enum { Header = 8, StrikeSize = 48, PixelsAt = 45 };
    const Table *t = &e->index;
    uint32_t strikes = number(t, 4, 4);
    size_t best = 0;
    for (size_t i = 0; i < strikes && within(t, Header + i * StrikeSize, StrikeSize); i++) {
        size_t at = Header + i * StrikeSize;
        if (!best || number(t, at + PixelsAt, 1) > number(t, best + PixelsAt, 1))
            best = at;
    }
    if (!best)
        return fail(GAN_ERR_INPUT, "the font has no strike of bitmaps");
    size_t runs_at = number(t, best, 4), runs = number(t, best + 8, 4);
    if (runs > t->n / 8 || !within(t, runs_at, runs * 8))
        return fail(GAN_ERR_INPUT, "the font's index of bitmaps is damaged");
    for (size_t i = 0; i < runs; i++) {
        size_t at = runs_at + 8 * i;
        TRY(write_run(e, number(t, at, 2), number(t, at + 2, 2), runs_at + number(t, at + 4, 4)));
    }
    return GAN_OK;
}

static GanStatus extract(Extract *e, const char *font) {
    TRY(arena_init(&e->arena, 0));
    if (FT_Init_FreeType(&e->library) != 0)
        return fail(GAN_ERR_MEMORY, "FreeType does not start");
    if (FT_New_Face(e->library, font, 0, &e->face) != 0)
        return fail(GAN_ERR_INPUT, "%s: not there, or no font", font);
    TRY(load_table(e, "CBLC", &e->index));
    TRY(load_table(e, "CBDT", &e->data));
    e->glyphs = (uint32_t)e->face->num_glyphs;
    map_characters(e);
    TRY(dir_make(e->folder));
    return write_strike(e);
}

int main(int argc, char **argv) {
    if (argc != 3) {
        fprintf(stderr, "usage: emoji_extract FONT.ttf FOLDER\n");
        return gan_exit_code(GAN_ERR_USAGE);
    }
    Extract e = {.folder = str_c(argv[2])};
    GanStatus st = extract(&e, argv[1]);
    if (st == GAN_OK)
        printf("%u images in %s\n", e.written, argv[2]);
    else
        fprintf(stderr, "emoji_extract: %s\n", gan_error());
    mem_free(e.index.at);
    mem_free(e.data.at);
    if (e.face)
        FT_Done_Face(e.face);
    if (e.library)
        FT_Done_FreeType(e.library);
    arena_release(&e.arena);
    return gan_exit_code(st);
}
