// image_test.c - images: correct files are read exactly, damaged ones give one error, and resizing.
// Images of known pixels are in fuzz/corpus/image; everything else is created here, in a temporary
// folder.
#define _GNU_SOURCE
#include "data_fixture.h"
#include "cases.h"

// --- formats -------------------------------------------------------------------------------------

enum { SeedW = 9, SeedH = 7 };

// The value that the script generating the corpus wrote at a position.
static uint32_t seed_value(uint32_t x, uint32_t y, uint32_t c) {
    return (17 * x + 29 * y + 53 * c) & 255;
}

static uint32_t value_at(const Image *m, uint32_t x, uint32_t y, uint32_t c) {
    size_t i = ((size_t)y * m->w + x) * m->channels + c;
    return m->bits == 8 ? ((const uint8_t *)m->pixels)[i] : ((const uint16_t *)m->pixels)[i];
}

static GanStatus image_read(Str path, Image *out) {
    *out = (Image){0};
    FileMap map = {0};
    TRY(file_map(path, &map));
    GanStatus st = image_decode(map.ptr, map.n, out);
    file_unmap(&map);
    return st;
}

static void png_pixels_are_exact_in_every_layout(void **state) {
    static const struct {
        const char *file;
        uint32_t channels, bits;
    } seeds[] = {
        {"grey8", 1, 8},      {"grey_alpha8", 2, 8},     {"rgb8", 3, 8},
        {"rgb_alpha8", 4, 8}, {"rgb8_interlaced", 3, 8}, {"grey16", 1, 16},
        {"rgb16", 3, 16},     {"rgb_alpha16", 4, 16},    {"grey16_interlaced", 1, 16},
    };
    Fixture *p = *state;
    for (size_t i = 0; i < sizeof seeds / sizeof *seeds; i++) {
        Image m = {0};
        assert_ok(image_read(str_format(&p->arena, SEEDS "image/%s.png", seeds[i].file), &m));
        assert_int_equal(m.channels, seeds[i].channels);
        assert_int_equal(m.bits, seeds[i].bits);
        assert_true(m.w == SeedW && m.h == SeedH);
        for (uint32_t at = 0; at < SeedW * SeedH * m.channels; at++) {
            uint32_t c = at % m.channels, x = at / m.channels % SeedW, y = at / m.channels / SeedW;
            uint32_t want =
                m.bits == 8 ? seed_value(x, y, c) : seed_value(x, y, c) * 256 + seed_value(y, x, c);
            assert_int_equal(value_at(&m, x, y, c), want);
        }
        image_release(&m);
    }
}

static void png_palettes_and_low_depths_become_plain_channels(void **state) {
    static const uint8_t palette[4][3] = {{255, 0, 0}, {0, 255, 0}, {0, 0, 255}, {10, 20, 30}},
                         alpha[4] = {255, 128, 0, 255};
    Image plain = {0}, clear = {0}, bit = {0}, four = {0};
    (void)state;
    assert_ok(image_read(STR(SEEDS "image/palette2.png"), &plain));
    assert_ok(image_read(STR(SEEDS "image/palette2_transparent.png"), &clear));
    assert_ok(image_read(STR(SEEDS "image/grey1.png"), &bit));
    assert_ok(image_read(STR(SEEDS "image/grey4.png"), &four));
    assert_true(plain.channels == 3 && clear.channels == 4 && bit.channels == 1 &&
                four.channels == 1);
    for (uint32_t y = 0; y < SeedH; y++) {
        for (uint32_t x = 0; x < SeedW; x++) {
            uint32_t i = (x + 2 * y) % 4;
            for (uint32_t c = 0; c < 3; c++)
                assert_int_equal(value_at(&plain, x, y, c), palette[i][c]);
            assert_int_equal(value_at(&clear, x, y, 3), alpha[i]);
            assert_int_equal(value_at(&bit, x, y, 0), (x + y) % 2 * 255);
            assert_int_equal(value_at(&four, x, y, 0), (x + y) % 16 * 17);
        }
    }
    image_release(&plain);
    image_release(&clear);
    image_release(&bit);
    image_release(&four);
}

static void a_png_written_reads_back(void **state) {
    Fixture *p = *state;
    for (uint32_t k = 0; k < 8; k++) {
        Image m = {0}, back = {0};
        uint32_t channels = 1 + k % 4, bits = k < 4 ? 8 : 16;
        assert_ok(image_new(13, 5, channels, bits, &m));
        for (size_t i = 0; i < (size_t)13 * 5 * channels * (bits / 8); i++)
            ((uint8_t *)m.pixels)[i] = (uint8_t)(i * 37 + k);
        assert_ok(image_write_png(under(p, "a.png"), &m));
        assert_ok(image_read(under(p, "a.png"), &back));
        assert_true(back.w == 13 && back.h == 5 && back.channels == channels && back.bits == bits);
        assert_memory_equal(m.pixels, back.pixels, (size_t)13 * 5 * channels * (bits / 8));
        image_release(&m);
        image_release(&back);
    }
}

static void jpeg_is_read_grey_colour_and_progressive(void **state) {
    static const struct {
        const char *file;
        uint32_t channels;
    } seeds[] = {{"rgb", 3}, {"progressive", 3}, {"grey", 1}};
    Fixture *p = *state;
    for (size_t i = 0; i < sizeof seeds / sizeof *seeds; i++) {
        Image m = {0};
        GanStatus st = image_read(str_format(&p->arena, SEEDS "image/%s.jpg", seeds[i].file), &m);
        if (st != GAN_OK && strstr(gan_error(), "no libjpeg"))
            skip();
        assert_status(st, GAN_OK, seeds[i].file);
        assert_true(m.w == 24 && m.h == 16 && m.channels == seeds[i].channels);
        int want = 4 * 5 + 6 * 3; // of the picture before compression
        assert_true(abs((int)value_at(&m, 5, 3, 0) - want) < 12);
        image_release(&m);
    }
}

// The seed's inks are as Adobe stores them.
static void cmyk_becomes_rgb(void **state) {
    Image m = {0};
    (void)state;
    GanStatus st = image_read(STR(SEEDS "image/cmyk.jpg"), &m);
    if (st != GAN_OK && strstr(gan_error(), "no libjpeg"))
        skip();
    assert_ok(st);
    assert_int_equal(m.channels, 3);
    for (uint32_t k = 0; k < 3; k++) // of the picture before compression
        assert_true(abs((int)value_at(&m, 5, 3, k) - (int)(4 * 5 + 6 * 3 + 40 * k)) < 12);
    image_release(&m);
}

static const uint8_t *pixel_at(const Image *m, uint32_t x, uint32_t y) {
    return (const uint8_t *)m->pixels + ((size_t)y * m->w + x) * m->channels;
}

// The position of stored pixel (x, y) after applying an orientation, by definition.
static void shown_at(uint32_t orientation, uint32_t w, uint32_t h, uint32_t *x, uint32_t *y) {
    uint32_t right = w - 1 - *x, down = h - 1 - *y, u = *x, v = *y;
    const uint32_t at[8][2] = {{u, v}, {right, v}, {right, down}, {u, down},
                               {v, u}, {down, u},  {down, right}, {v, right}};
    *x = at[orientation - 1][0], *y = at[orientation - 1][1];
}

static void check_turned(const Image *plain, uint32_t turn, const Image *m) {
    uint32_t w = plain->w, h = plain->h;
    assert_true(m->w == (turn > 4 ? h : w) && m->h == (turn > 4 ? w : h));
    for (uint32_t y = 0; y < h; y++)
        for (uint32_t x = 0; x < w; x++) {
            uint32_t u = x, v = y;
            shown_at(turn, w, h, &u, &v);
            assert_memory_equal(pixel_at(plain, x, y), pixel_at(m, u, v), 3);
        }
}

static void images_are_rotated_by_their_exif_orientation(void **state) {
    Fixture *p = *state;
    Str file = {0};
    Image plain = {0};
    assert_ok(file_read(&p->arena, STR(SEEDS "image/rgb.jpg"), &file));
    GanStatus st = image_decode((const uint8_t *)file.ptr, file.len, &plain);
    if (st != GAN_OK && strstr(gan_error(), "no libjpeg"))
        skip();
    for (uint32_t o = 0; o <= 9; o++) {
        uint8_t app1[] = {0xff, 0xe1, 0, 34, 'E', 'x',        'i', 'f', 0, 0,    'M', 'M',
                          0,    '*',  0, 0,  0,   8,          0,   1,   1, 0x12, 0,   3,
                          0,    0,    0, 1,  0,   (uint8_t)o, 0,   0,   0, 0,    0,   0};
        Text t = {.arena = &p->arena};
        text_put(&t, str_sub(file, 0, 2));
        text_put(&t, (Str){(const char *)app1, sizeof app1});
        text_put(&t, str_sub(file, 2, file.len));
        Image m = {0};
        uint32_t turn = o >= 1 && o <= 8 ? o : 1; // other values mean none
        assert_ok(image_decode((const uint8_t *)text_str(&t).ptr, t.n, &m));
        check_turned(&plain, turn, &m);
        image_release(&m);
    }
    image_release(&plain);
    uint8_t far[] = {'I', 'I', '*', 0, 255, 255, 255, 255}, many[] = "II*\0\10\0\0\0\377\377\22\1";
    assert_int_equal(exif_orientation(far, sizeof far), 1);
    assert_int_equal(exif_orientation(many, sizeof many - 1), 1);
}

// A PNG's chunk: length, type, data, checksum of type and data.
static void put_chunk(Text *png, Str type, Str data) {
    Text body = {.arena = png->arena};
    text_put(&body, type);
    text_put(&body, data);
    put_be(png, data.len, 4);
    text_put(png, text_str(&body));
    put_be(png, crc_of(text_str(&body)), 4);
}

// The chunk may precede or follow the pixels.
static void a_png_is_rotated_by_its_exif_orientation(void **state) {
    enum { Head = 8 + 25, Tail = 12 }; // signature and IHDR; IEND
    Fixture *p = *state;
    Str file = {0};
    Image plain = {0};
    assert_ok(file_read(&p->arena, STR(SEEDS "image/rgb8.png"), &file));
    assert_ok(image_decode((const uint8_t *)file.ptr, file.len, &plain));
    for (uint32_t k = 0; k < 2 * 9; k++) {
        uint32_t o = k % 9, turn = o ? o : 1;
        size_t at = k < 9 ? Head : file.len - Tail;
        char exif[] = "MM\0*\0\0\0\10\0\1\1\22\0\3\0\0\0\1\0\0\0\0\0\0\0";
        exif[19] = (char)o;
        Text t = {.arena = &p->arena};
        text_put(&t, str_sub(file, 0, at));
        put_chunk(&t, STR("eXIf"), (Str){exif, sizeof exif - 1});
        text_put(&t, str_sub(file, at, file.len));
        Image m = {0};
        assert_ok(image_decode((const uint8_t *)text_str(&t).ptr, t.n, &m));
        check_turned(&plain, turn, &m);
        image_release(&m);
    }
    image_release(&plain);
}

// A valid grey progressive JPEG of 8x8 pixels that sends coefficients bit by bit in n scans, at
// most 883: each is 11 bytes, and costs the decoder a pass over all pixels.
static Str scans(Fixture *p, uint32_t n) {
    static const uint8_t frame[] = {0xff, 0xc2, 0, 11, 8, 0, 8, 0, 8, 1, 1, 0x11, 0};
    enum { Bits = 14 }; // of a coefficient
    Text t = {.arena = &p->arena};
    text_put(&t, STR("\xff\xd8\xff\xdb\0\103\0"));
    for (uint32_t i = 0; i < 64; i++)
        text_char(&t, 1); // the quantization table
    text_put(&t, (Str){(const char *)frame, sizeof frame});
    for (uint32_t class = 0; class < 2; class ++) { // of DC and AC: one code, 0, which is for 0
        text_put(&t, STR("\xff\xc4\0\24"));
        text_char(&t, (char)(class << 4));
        text_char(&t, 1);
        for (uint32_t i = 0; i < 16; i++)
            text_char(&t, 0);
    }
    for (uint32_t i = 0; i < n; i++) {
        uint32_t k = i ? 1 + (i - 1) / Bits : 0, low = i ? Bits - 1 - (i - 1) % Bits : 0,
                 high = i && low < Bits - 1 ? low + 1 : 0;
        text_put(&t, STR("\xff\xda\0\10\1\1\0"));
        text_char(&t, (char)k);
        text_char(&t, (char)k);
        text_char(&t, (char)(high << 4 | low));
        text_char(&t, 0x7f); // the code 0
    }
    text_put(&t, STR("\xff\xd9"));
    return text_str(&t);
}

static void a_jpeg_of_many_scans_is_refused(void **state) {
    Fixture *p = *state;
    Image m = {0};
    Str few = scans(p, 500), many = scans(p, 501);
    GanStatus st = image_decode((const uint8_t *)few.ptr, few.len, &m);
    if (st != GAN_OK && strstr(gan_error(), "no libjpeg"))
        skip();
    assert_ok(st);
    assert_true(m.w == 8 && m.h == 8 && value_at(&m, 3, 3, 0) == 128);
    image_release(&m);
    assert_refused(image_decode((const uint8_t *)many.ptr, many.len, &m), "more than 500 scans");
    assert_null(m.pixels);
}

// Pixels equal the PNG they were made from; the one with Exif data is rotated to the left.
static void webp_is_read_in_every_form(void **state) {
    static const struct {
        const char *file, *png;
        uint32_t turn;
    } seeds[] = {{"lossless", "rgb8", 1}, {"alpha", "rgb_alpha8", 1}, {"exif", "rgb8", 8}};
    Fixture *p = *state;
    Image m = {0}, plain = {0};
    GanStatus st = image_read(STR(SEEDS "image/lossy.webp"), &m);
    if (st != GAN_OK && strstr(gan_error(), "no libwebp"))
        skip();
    assert_ok(st);
    assert_true(m.w == 24 && m.h == 16 && m.channels == 3);
    for (uint32_t i = 0; i < 24 * 16 * 3; i++) { // of the picture before compression
        uint32_t x = i / 3 % 24, y = i / 3 / 24, k = i % 3;
        assert_true(abs((int)value_at(&m, x, y, k) - (int)(4 * x + 5 * y + 40 * k)) < 12);
    }
    image_release(&m);
    for (size_t i = 0; i < sizeof seeds / sizeof *seeds; i++) {
        assert_ok(image_read(str_format(&p->arena, SEEDS "image/%s.webp", seeds[i].file), &m));
        assert_ok(image_read(str_format(&p->arena, SEEDS "image/%s.png", seeds[i].png), &plain));
        assert_ok(image_orient(&plain, seeds[i].turn));
        assert_true(m.w == plain.w && m.h == plain.h && m.channels == plain.channels);
        assert_memory_equal(m.pixels, plain.pixels, (size_t)m.w * m.h * m.channels);
        image_release(&m);
        image_release(&plain);
    }
}

static void damaged_webp_gives_one_reason(void **state) {
    static const char *const files[] = {"lossless", "lossy", "exif"};
    Fixture *p = *state;
    Image m = {0};
    Str file = {0};
    GanStatus st = image_read(STR(SEEDS "image/animated.webp"), &m);
    if (strstr(gan_error(), "no libwebp"))
        skip();
    assert_refused(st, "an animated WebP");
    for (size_t i = 0; i < 3; i++) {
        Str path = str_format(&p->arena, SEEDS "image/%s.webp", files[i]);
        assert_ok(file_read(&p->arena, path, &file));
        uint8_t *bytes = arena_array(&p->arena, uint8_t, file.len);
        for (size_t n = 12; n < file.len; n++) { // each in a block of exactly its length
            memcpy(bytes + file.len - n, file.ptr, n);
            if (image_decode(bytes + file.len - n, n, &m) == GAN_OK)
                image_release(&m); // only a chunk after the pixels is truncated
            else
                assert_non_null(strstr(gan_error(), "broken WebP: "));
        }
        assert_refused(image_decode((const uint8_t *)file.ptr, file.len / 2, &m), "too early");
        mem_fail_at(1);
        st = image_decode((const uint8_t *)file.ptr, file.len, &m);
        mem_fail_at(0);
        assert_true(st == GAN_ERR_MEMORY);
    }
    static const uint8_t huge[] =
        "RIFF\x1a\0\0\0WEBPVP8L\x0d\0\0\0\x2f\xff\xff\xff\x0f\0\0\0\0\0\0\0\0";
    assert_refused(image_decode(huge, sizeof huge - 1, &m), "the limit is");
}

// The n-th allocation of a PNG fails, libpng's among them: that is never a broken picture.
static void refused_memory_is_no_broken_png(void **state) {
    Fixture *p = *state;
    Str file, path = under(p, "a.png");
    Image m;
    assert_ok(file_read(&p->arena, STR(SEEDS "image/rgb8.png"), &file));
    GanStatus st = GAN_ERR_MEMORY;
    int n = 1;
    for (; st != GAN_OK; n++) {
        mem_fail_at(n);
        st = image_decode((const uint8_t *)file.ptr, file.len, &m);
        mem_fail_at(0);
        assert_true(st == GAN_OK || st == GAN_ERR_MEMORY);
    }
    assert_true(n > 8);
    st = GAN_ERR_MEMORY;
    for (n = 1; st != GAN_OK; n++) {
        mem_fail_at(n);
        st = image_write_png(path, &m);
        mem_fail_at(0);
        assert_true(st == GAN_OK || st == GAN_ERR_MEMORY);
    }
    assert_true(n > 12);
    image_release(&m);
}

// Of a progressive file all coefficients are in memory, which libjpeg limits by its environment.
static void refused_memory_is_no_broken_jpeg(void **state) {
    Fixture *p = *state;
    Str file;
    Image m = {0};
    assert_ok(file_read(&p->arena, STR(SEEDS "image/progressive.jpg"), &file));
    uint8_t *bytes = (uint8_t *)str_copy(&p->arena, file).ptr, *frame = bytes;
    while (memcmp(frame, "\xff\xc2", 2) != 0) // its header: 2 bytes each, length, depth, height
        frame++;
    frame[5] = 16; // 4096 rows: more than the limit, in kB
    assert_int_equal(setenv("JPEGMEM", "1", 1), 0);
    GanStatus st = image_decode(bytes, file.len, &m);
    assert_int_equal(unsetenv("JPEGMEM"), 0);
    if (strstr(gan_error(), "no libjpeg"))
        skip();
    assert_int_equal(st, GAN_ERR_MEMORY);
}

static void damaged_images_give_one_reason(void **state) {
    static const struct {
        const char *file, *reason;
    } seeds[] = {
        {"truncated_rgb8.png", "ends too early"},
        {"truncated_rgb.jpg", "JPEG"},
        {"text.png", "but text"},
    };
    Fixture *p = *state;
    Image m = {0};
    for (size_t i = 0; i < sizeof seeds / sizeof *seeds; i++) {
        Str path = str_format(&p->arena, SEEDS "image/%s", seeds[i].file);
        assert_refused(image_read(path, &m), seeds[i].reason);
        assert_null(m.pixels);
    }
    write_bytes(p, "empty.png", "", 0);
    assert_refused(image_read(under(p, "empty.png"), &m), "empty file");
    write_text(p, "a.gif", "GIF89a....");
    assert_refused(image_read(under(p, "a.gif"), &m), "GIF");
}

static void every_truncation_and_flip_of_a_png_is_survived(void **state) {
    Fixture *p = *state;
    Str file = {0};
    Image m = {0};
    assert_ok(file_read(&p->arena, STR(SEEDS "image/rgb8.png"), &file));
    for (size_t n = 0; n < file.len; n++) {
        GanStatus st = image_decode((const uint8_t *)file.ptr, n, &m);
        assert_true(st == GAN_ERR_INPUT);
        assert_null(m.pixels);
    }
    uint8_t *copy = arena_array(&p->arena, uint8_t, file.len);
    for (size_t i = 0; i < file.len; i++) {
        memcpy(copy, file.ptr, file.len);
        copy[i] ^= 0x55;
        if (image_decode(copy, file.len, &m) == GAN_OK)
            image_release(&m); // ancillary bytes need not matter
    }
}

// --- fit -----------------------------------------------------------------------------------------

static Image constant(uint32_t w, uint32_t h, uint32_t channels, const uint8_t *pixel) {
    Image m = {0};
    assert_ok(image_new(w, h, channels, 8, &m));
    for (size_t i = 0; i < (size_t)w * h * channels; i++)
        ((uint8_t *)m.pixels)[i] = pixel[i % channels];
    return m;
}

static void a_fit_keeps_constant_images_and_pads_with_the_background(void **state) {
    (void)state;
    uint8_t out[3 * 8 * 8], red[] = {200, 30, 60};
    Image m = constant(37, 19, 3, red);
    FitRule rule = {
        .w = 8, .h = 8, .channels = 3, .bits = 8, .mode = FitAuto, .background = {1, 2, 3}};
    assert_ok(image_fit(&m, &rule, out)); // no alpha: cover
    for (uint32_t i = 0; i < 64; i++)
        assert_true(out[i] == 200 && out[64 + i] == 30 && out[128 + i] == 60);
    rule.mode = FitContain; // 8x4 in the middle of 8x8
    assert_ok(image_fit(&m, &rule, out));
    for (uint32_t i = 0; i < 64; i++) {
        bool inside = i / 8 >= 2 && i / 8 < 6;
        assert_int_equal(out[i], inside ? 200 : 1);
        assert_int_equal(out[128 + i], inside ? 60 : 3);
    }
    rule.channels = 1;
    rule.mode = FitStretch;
    assert_ok(image_fit(&m, &rule, out));
    assert_int_equal(out[0], (int)(0.299 * 200 + 0.587 * 30 + 0.114 * 60 + 0.5));
    image_release(&m);
}

static void alpha_is_blended_over_the_background(void **state) {
    (void)state;
    uint8_t out[3 * 4], pixel[] = {200, 100, 0, 51}, grey[] = {100, 51}; // alpha one fifth
    Image m = constant(2, 2, 4, pixel), g = constant(2, 2, 2, grey);
    FitRule rule = {.w = 2, .h = 2, .channels = 3, .bits = 8, .background = {255, 255, 0}};
    assert_ok(image_fit(&m, &rule, out));
    assert_true(out[0] == 244 && out[4] == 224 && out[8] == 0);
    assert_ok(image_fit(&g, &rule, out));
    assert_true(out[0] == 224 && out[4] == 224 && out[8] == 20);
    image_release(&m);
    image_release(&g);
}

static void what_a_fit_loses_is_known(void **state) {
    (void)state;
    enum { Colour = 1 << LossColour, Alpha = 1 << LossAlpha, Bits = 1 << LossBits };
    uint8_t red[] = {200, 30, 60, 255}, clear[] = {90, 90, 90, 200}, tint[] = {90, 92, 95, 250};
    const struct {
        uint8_t *pixel;
        uint32_t channels, to, lost;
    } cases[] = {
        {red, 3, 1, Colour}, {red, 3, 3, 0},       {red, 4, 1, Colour},
        {clear, 3, 1, 0},    {clear, 4, 3, Alpha}, {clear, 4, 1, Alpha},
        {tint, 4, 1, 0},     {red, 1, 1, 0},       {clear + 2, 2, 3, Alpha},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Image m = constant(5, 4, cases[i].channels, cases[i].pixel);
        FitRule rule = {.w = 2, .h = 2, .channels = cases[i].to, .bits = 8};
        assert_int_equal(image_losses(&m, &rule), cases[i].lost);
        rule.bits = 16;
        assert_int_equal(image_losses(&m, &rule), cases[i].lost);
        image_release(&m);
    }
    Image deep = {0};
    assert_ok(image_new(5, 4, 4, 16, &deep)); // all black, and nowhere to be seen
    FitRule rule = {.w = 2, .h = 2, .channels = 1, .bits = 8};
    assert_int_equal(image_losses(&deep, &rule), Alpha | Bits);
    ((uint16_t *)deep.pixels)[8] = 5000; // one pixel is dark red
    assert_int_equal(image_losses(&deep, &rule), Colour | Alpha | Bits);
    image_release(&deep);
}

static void shrinking_averages_and_same_size_is_exact(void **state) {
    (void)state;
    Image m = {0};
    uint8_t out[64];
    assert_ok(image_new(8, 8, 1, 8, &m));
    uint8_t *px = m.pixels;
    for (uint32_t i = 0; i < 64; i++)
        px[i] = (uint8_t)(i * 3);
    FitRule rule = {.w = 8, .h = 8, .channels = 1, .bits = 8};
    assert_ok(image_fit(&m, &rule, out));
    assert_memory_equal(out, px, 64);
    for (uint32_t i = 0; i < 64; i++)
        px[i] = (i % 8 + i / 8) % 2 ? 255 : 0; // a chessboard
    rule.w = rule.h = 2;
    assert_ok(image_fit(&m, &rule, out));
    for (uint32_t i = 0; i < 4; i++)
        assert_true(out[i] >= 124 && out[i] <= 131); // grey, not aliased
    for (uint32_t i = 0; i < 64; i++)
        px[i] = i % 4 ? 0 : 255; // lines that no result's centre is near
    assert_ok(image_fit(&m, &rule, out));
    for (uint32_t i = 0; i < 4; i++)
        assert_true(out[i] >= 40 && out[i] <= 80);
    image_release(&m);
}

static void sixteen_bits_survive_a_fit(void **state) {
    (void)state;
    Image m = {0};
    uint16_t out[4];
    assert_ok(image_new(2, 2, 1, 16, &m));
    const uint16_t px[4] = {0, 1, 40000, 65535};
    memcpy(m.pixels, px, sizeof px);
    FitRule rule = {.w = 2, .h = 2, .channels = 1, .bits = 16};
    assert_ok(image_fit(&m, &rule, out));
    assert_memory_equal(out, px, sizeof px);
    image_release(&m);
}

// Of images that are wide or high, other grids than were asked for are what an image can hold.
static void a_grid_has_as_many_columns_as_fit(void **state) {
    (void)state;
    const struct {
        size_t n;
        uint32_t chw[3];
        size_t wanted, columns;
    } cases[] = {
        {64, {1, 28, 28}, 8, 8},     {64, {1, 4, 10000}, 8, 6}, {24, {3, 64, 2048}, 32, 31},
        {39, {1, 20000, 4}, 7, 13},  {1, {1, 65536, 1}, 1, 1},  {1, {1, 1, 65536}, 1, 1},
        {10000, {3, 64, 64}, 8, 11}, {3, {1, 4, 65535}, 3, 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const uint32_t *chw = cases[i].chw;
        size_t columns = image_columns(cases[i].n, chw, cases[i].wanted),
               rows = (cases[i].n + columns - 1) / columns;
        assert_int_equal(columns, cases[i].columns);
        assert_true(image_fits((int64_t)(columns * (chw[2] + 2) - 2), 1));
        assert_true(image_fits(1, (int64_t)(rows * (chw[1] + 2) - 2)));
    }
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        T(png_pixels_are_exact_in_every_layout),
        T(png_palettes_and_low_depths_become_plain_channels),
        T(a_png_written_reads_back),
        T(jpeg_is_read_grey_colour_and_progressive),
        T(cmyk_becomes_rgb),
        T(images_are_rotated_by_their_exif_orientation),
        T(a_png_is_rotated_by_its_exif_orientation),
        T(a_jpeg_of_many_scans_is_refused),
        T(webp_is_read_in_every_form),
        T(damaged_webp_gives_one_reason),
        T(damaged_images_give_one_reason),
        T(refused_memory_is_no_broken_png),
        T(refused_memory_is_no_broken_jpeg),
        T(every_truncation_and_flip_of_a_png_is_survived),
        T(a_fit_keeps_constant_images_and_pads_with_the_background),
        T(alpha_is_blended_over_the_background),
        T(what_a_fit_loses_is_known),
        T(shrinking_averages_and_same_size_is_exact),
        T(sixteen_bits_survive_a_fit),
        T(a_grid_has_as_many_columns_as_fit),
    };
    if (CASES_LISTED(tests))
        return 0;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
