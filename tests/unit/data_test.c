// data_test.c - images, resizing, arrays and packs: correct data is read exactly, errors are
// named.
//
// Images of known pixels are in fuzz/corpus/image; everything else is created here, in a temporary
// folder.
#define _GNU_SOURCE
#include "data_place.h"
#include "cases.h"
#include "pack_format.h"

// --- images --------------------------------------------------------------------------------------

enum { SeedW = 9, SeedH = 7 };

// The value that the script generating the corpus wrote at a position.
static uint32_t seed_value(uint32_t x, uint32_t y, uint32_t c) {
    return (17 * x + 29 * y + 53 * c) & 255;
}

static uint32_t value_at(const Image *m, uint32_t x, uint32_t y, uint32_t c) {
    size_t i = ((size_t)y * m->w + x) * m->channels + c;
    return m->bits == 8 ? ((const uint8_t *)m->pixels)[i] : ((const uint16_t *)m->pixels)[i];
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
    Place *p = *state;
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
    Place *p = *state;
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
    Place *p = *state;
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
    Place *p = *state;
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
    Place *p = *state;
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
static Str scans(Place *p, uint32_t n) {
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
    Place *p = *state;
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
    Place *p = *state;
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
    Place *p = *state;
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

static void damaged_images_give_one_reason(void **state) {
    static const struct {
        const char *file, *reason;
    } seeds[] = {
        {"truncated_rgb8.png", "ends too early"},
        {"truncated_rgb.jpg", "JPEG"},
        {"text.png", "but text"},
    };
    Place *p = *state;
    Image m = {0};
    for (size_t i = 0; i < sizeof seeds / sizeof *seeds; i++) {
        Str path = str_format(&p->arena, SEEDS "image/%s", seeds[i].file);
        assert_refused(image_read(path, &m), seeds[i].reason);
        assert_null(m.pixels);
        assert_non_null(strstr(gan_error(), seeds[i].file));
    }
    write_bytes(p, "empty.png", "", 0);
    assert_refused(image_read(under(p, "empty.png"), &m), "empty file");
    write_text(p, "a.gif", "GIF89a....");
    assert_refused(image_read(under(p, "a.gif"), &m), "GIF");
}

static void every_truncation_and_flip_of_a_png_is_survived(void **state) {
    Place *p = *state;
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
    FitRule rule = {.w = 8, .h = 8, .channels = 3, .bits = 8, .mode = FitAuto, .ground = {1, 2, 3}};
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
    FitRule rule = {.w = 2, .h = 2, .channels = 3, .bits = 8, .ground = {255, 255, 0}};
    assert_ok(image_fit(&m, &rule, out));
    assert_true(out[0] == 244 && out[4] == 224 && out[8] == 0);
    assert_ok(image_fit(&g, &rule, out));
    assert_true(out[0] == 224 && out[4] == 224 && out[8] == 20);
    image_release(&m);
    image_release(&g);
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

// --- arrays and sources --------------------------------------------------------------------------

static void arrays_are_read_in_every_version_and_order(void **state) {
    static const struct {
        const char *file;
        uint32_t rank;
        size_t count;
        double last;
    } seeds[] = {
        {"f4", 2, 12, 11},       {"f8_big_endian", 2, 6, 5}, {"u1", 3, 24, 23},     {"u2", 3, 4, 3},
        {"i8", 1, 3, 2},         {"version2", 2, 4, 3},      {"version3", 2, 4, 3}, {"f2", 2, 6, 5},
        {"fortran", 3, 24, 312},
    };
    Place *p = *state;
    for (size_t i = 0; i < sizeof seeds / sizeof *seeds; i++) {
        Str file = {0};
        Array a = {0};
        assert_ok(
            file_read(&p->arena, str_format(&p->arena, SEEDS "npy/%s.npy", seeds[i].file), &file));
        assert_ok(npy_parse((const uint8_t *)file.ptr, file.len, &a));
        assert_true(a.rank == seeds[i].rank && a.count == seeds[i].count);
        assert_true(array_at(&a, a.count - 1) == seeds[i].last);
        assert_refused(npy_parse((const uint8_t *)file.ptr, file.len - 1, &a), "bytes of data");
    }
    Str file = {0};
    Array a = {0};
    assert_ok(file_read(&p->arena, STR(SEEDS "npy/f2.npy"), &file));
    assert_ok(npy_parse((const uint8_t *)file.ptr, file.len, &a));
    assert_true(array_at(&a, 1) == -1.5 && array_at(&a, 3) == 0x1p-24 && array_at(&a, 4) == 65504);
    assert_ok(file_read(&p->arena, STR(SEEDS "npy/images.idx"), &file));
    assert_ok(idx_parse((const uint8_t *)file.ptr, file.len, &a));
    assert_true(a.rank == 3 && a.dim[1] == 3 && a.dim[2] == 4 && array_at(&a, 23) == 23);
}

// As numpy.save leaves a transposed array, and pandas a table.
static void npy_headers_that_do_not_fit_are_refused(void **state) {
    static const struct {
        const char *header, *says;
    } cases[] = {
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (1, 1, 1, 1, 1, 1, 1, 1, 1), }",
         "more than 8 axes"},
        {"{'descr': '<f1', 'fortran_order': False, 'shape': (1,), }", "npy type 'f1'"},
        {"{'descr': '<f4', 'shape': (1,), }", "a key is missing"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (9223372036854775807, 9), }",
         "shape is too large"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }", "npy"}, // one number only
    };
    Place *p = *state;
    Array a;
    for (size_t i = 0; i <= sizeof cases / sizeof *cases; i++) {
        bool fits = i == sizeof cases / sizeof *cases;
        const char *header =
            fits ? "{'descr': '<i4', 'fortran_order': False, 'shape': (1,), }" : cases[i].header;
        Text t = {.arena = &p->arena};
        text_put(&t, STR("\x93NUMPY\1\0"));
        put_le(&t, strlen(header), 2);
        text_put(&t, str_c(header));
        size_t head = t.n;
        put_le(&t, 0xfffffffd, 4);
        const uint8_t *file = (const uint8_t *)text_str(&t).ptr;
        GanStatus st = npy_parse(file, t.n, &a);
        if (fits)
            assert_true(st == GAN_OK && array_at(&a, 0) == -3);
        else
            assert_message(st, cases[i].says, header);
        assert_refused(npy_parse(file, head - 10, &a), "npy");
    }
}

static void rows_of_fortran_order_are_gathered(void **state) {
    static const size_t order[] = {2, 0, 3, 1};
    ArrayFile f;
    Array row;
    (void)state;
    assert_ok(array_open(STR(SEEDS "npy/fortran.npy"), SourceNpy, (Str){0}, &f));
    for (size_t i = 0; i < 24; i++)
        assert_true(array_at(&f.all, i) == (double)(i / 6 * 100 + i / 3 % 2 * 10 + i % 3));
    for (size_t n = 0; n < 4; n++) {
        assert_ok(array_row(&f, order[n], &row));
        assert_true(row.rank == 2 && row.dim[0] == 2 && row.dim[1] == 3);
        for (size_t i = 0; i < 6; i++)
            assert_true(array_at(&row, i) == (double)(order[n] * 100 + i / 3 * 10 + i % 3));
    }
    array_close(&f);
}

static void an_array_written_reads_back(void **state) {
    Place *p = *state;
    const float x[6] = {1, -2, 3.5f, 0, 1e30f, -0.25f};
    Str file = {0};
    Array a = {0};
    assert_ok(npy_write_f32(under(p, "a.npy"), x, 2, (const int64_t[]){3, 2}));
    assert_ok(file_read(&p->arena, under(p, "a.npy"), &file));
    assert_ok(npy_parse((const uint8_t *)file.ptr, file.len, &a));
    assert_true(a.rank == 2 && a.dim[0] == 3 && a.dim[1] == 2 &&
                (a.data - (const uint8_t *)file.ptr) % 64 == 0);
    assert_memory_equal(a.data, x, sizeof x);
    assert_ok(npy_write_f32(under(p, "b.npy"), x, 1, (const int64_t[]){6}));
    assert_ok(file_read(&p->arena, under(p, "b.npy"), &file));
    assert_ok(npy_parse((const uint8_t *)file.ptr, file.len, &a));
    assert_int_equal(a.dim[0], 6);
}

static void unsupported_sources_are_named(void **state) {
    Place *p = *state;
    SourceKind kind;
    assert_refused(source_guess(under(p, "absent"), &kind), "no such file");
    write_bytes(p, "a.h5", "\x89HDF\r\n\x1a\n....", 12);
    assert_ok(source_guess(under(p, "a.h5"), &kind));
    assert_int_equal(kind, SourceHdf5);
    write_picture(p, "a.png", 4, 4, 9);
    assert_refused(source_guess(under(p, "a.png"), &kind), "single image");
    write_text(p, "a.txt", "nothing");
    assert_refused(source_guess(under(p, "a.txt"), &kind), "not a folder");
    write_bytes(p, "empty", "", 0);
    assert_refused(source_guess(under(p, "empty"), &kind), "empty file");
    assert_ok(source_guess(str_c(p->root), &kind));
    assert_int_equal(kind, SourceFolder);
}

static void arrays_of_an_npz_file_have_names(void **state) {
    Place *p = *state;
    SourceKind kind;
    ArrayFile f;
    Array row;
    assert_ok(source_guess(STR(SEEDS "npy/one.npz"), &kind));
    assert_int_equal(kind, SourceNpz);
    assert_ok(array_open(STR(SEEDS "npy/one.npz"), kind, (Str){0}, &f));
    assert_true(f.all.rank == 2 && f.all.dim[0] == 4 && f.all.dim[1] == 3);
    assert_ok(array_row(&f, 3, &row));
    assert_true(array_at(&row, 2) == 11);
    array_close(&f);
    assert_ok(array_open(STR(SEEDS "npy/two.npz"), kind, STR("y"), &f));
    assert_true(f.all.rank == 1 && array_at(&f.all, 2) == 2);
    array_close(&f);
    assert_refused(array_open(STR(SEEDS "npy/two.npz"), kind, (Str){0}, &f), "it holds x, y; pick");
    assert_refused(array_open(STR(SEEDS "npy/two.npz"), kind, STR("z"), &f), "no array z in it");
    Str whole;
    assert_ok(file_read(&p->arena, STR(SEEDS "npy/two.npz"), &whole));
    write_bytes(p, "cut.npz", whole.ptr, whole.len / 2);
    assert_false(array_open(under(p, "cut.npz"), SourceNpz, STR("y"), &f) == GAN_OK);
}

// `records` of CIFAR with `head` labels each; picture i is all i, its class i + 1.
static void write_cifar(Place *p, const char *name, size_t head, size_t records, size_t extra) {
    uint8_t bytes[4 * (3072 + 2) + 8] = {0};
    size_t each = head + 3072;
    assert_true(records * each + extra <= sizeof bytes);
    for (size_t i = 0; i < records; i++) {
        bytes[i * each + head - 1] = (uint8_t)(i + 1);
        memset(bytes + i * each + head, (int)i, 3072);
    }
    write_bytes(p, name, bytes, records * each + extra);
}

static void cifar_packs_with_its_classes(void **state) {
    Place *p = *state;
    BadList bad = {0};
    for (size_t head = 1; head <= 2; head++) {
        PackOptions o = pack_options(&bad);
        PackSummary sum = {0};
        Pack pack = {0};
        o.w = o.h = 0;
        o.channels = 0;
        write_cifar(p, "a.bin", head, 4, 0);
        assert_ok(pack_build(&p->arena, under(p, "a.bin"), &o, under(p, "a.pack"), NULL, &sum));
        assert_ok(pack_open(&p->arena, under(p, "a.pack"), &pack));
        assert_true(pack.count == 4 && pack.fields == 2);
        assert_int_equal(pack.field[1].classes, head == 1 ? 10 : 100);
        pack_close(&pack);
    }
    Array a;
    size_t head;
    uint8_t none[3073] = {10}; // CIFAR-10 has classes 0 to 9
    assert_refused(cifar_parse(none, sizeof none, &a, &head), "a class that CIFAR does not have");
    write_cifar(p, "b.bin", 1, 2, 5);
    SourceKind kind;
    ArrayFile f;
    assert_ok(source_guess(under(p, "b.bin"), &kind));
    assert_refused(array_open(under(p, "b.bin"), kind, (Str){0}, &f), "no CIFAR records");
}

// --- packs ---------------------------------------------------------------------------------------

static void a_folder_packs_the_same_for_every_number_of_threads(void **state) {
    Place *p = *state;
    BadList bad = {0};
    Str first = {0};
    make_folder(p, 40);
    for (int threads = 1; threads <= 5; threads++) {
        PackOptions o = pack_options(&bad);
        PackSummary sum = {0};
        Str bytes = {0};
        o.threads = threads;
        o.labels = STR("folders");
        assert_ok(pack_build(&p->arena, under(p, "set"), &o, under(p, "set.pack"), NULL, &sum));
        assert_true(sum.good == 40 && sum.bad == 0);
        assert_ok(file_read(&p->arena, under(p, "set.pack"), &bytes));
        if (threads == 1)
            first = bytes;
        assert_true(str_eq(first, bytes));
    }
    Pack pack = {0};
    assert_ok(pack_open(&p->arena, under(p, "set.pack"), &pack));
    assert_ok(pack_verify(&pack));
    assert_true(pack.count == 40 && pack.fields == 2 && pack.field[1].classes == 2);
    assert_str(pack.field[1].class_name[1], "odd");
    for (uint64_t i = 0; i < 40; i++) { // sorted by name: even/000 even/002 ... odd/001 ...
        uint32_t number = (uint32_t)(i < 20 ? 2 * i : 2 * i - 39), label;
        memcpy(&label, pack_record(&pack, i) + pack.field[1].offset, sizeof label);
        assert_int_equal(pack_record(&pack, i)[0], number);
        assert_int_equal(label, number % 2);
        assert_str(pack_name(&pack, i),
                   str_format(&p->arena, "%s/%03u.png", label ? "odd" : "even", number).ptr);
    }
    pack_close(&pack);
}

static void every_bad_file_is_listed_and_no_pack_is_left(void **state) {
    Place *p = *state;
    BadList bad = {0};
    PackOptions o = pack_options(&bad);
    Str file = {0};
    make_folder(p, 4);
    assert_ok(file_read(&p->arena, STR(SEEDS "image/truncated_rgb8.png"), &file));
    write_bytes(p, "set/a_cut.png", file.ptr, file.len);
    write_text(p, "set/b_text.png", "hello");
    write_text(p, "set/.hidden", "not looked at");
    assert_refused(pack_build(&p->arena, under(p, "set"), &o, under(p, "set.pack"), NULL, NULL),
                   "2 of 6");
    assert_false(file_exists(under(p, "set.pack")));
    assert_int_equal(bad.n, 2);
    assert_string_equal(bad.name[0], "a_cut.png");
    assert_non_null(strstr(bad.reason[0], "ends too early"));
    assert_non_null(strstr(bad.reason[1], "but text"));
    o.skip_bad = true;
    PackSummary sum = {0};
    assert_ok(pack_build(&p->arena, under(p, "set"), &o, under(p, "set.pack"), NULL, &sum));
    assert_true(sum.good == 4 && sum.bad == 2);
}

static void sets_without_a_good_image_are_errors(void **state) {
    Place *p = *state;
    BadList bad = {0};
    PackOptions o = pack_options(&bad);
    Pack pack = {0};
    assert_ok(dir_make(under(p, "empty")));
    assert_refused(pack_build(&p->arena, under(p, "empty"), &o, (Str){0}, &pack, NULL), "no files");
    write_text(p, "texts/a.png", "hello");
    o.skip_bad = true;
    assert_refused(pack_build(&p->arena, under(p, "texts"), &o, (Str){0}, &pack, NULL),
                   "none of 1");
    assert_int_equal(bad.n, 1);
    write_picture(p, "one/a.png", 30, 20, 77);
    assert_ok(pack_build(&p->arena, under(p, "one"), &o, (Str){0}, &pack, NULL));
    assert_true(pack.count == 1 && pack_record(&pack, 0)[5] == 77);
    pack_close(&pack);
    o.w = o.h = 0;
    assert_refused(pack_build(&p->arena, under(p, "one"), &o, (Str){0}, &pack, NULL),
                   "first image is 30x20");
}

static void a_zip_with_a_bad_member_names_it(void **state) {
    Place *p = *state;
    BadList bad = {0};
    PackOptions o = pack_options(&bad);
    Pack pack = {0};
    make_folder(p, 4);
    const char *dir = str_z(&p->arena, under(p, "set")),
               *zip = str_z(&p->arena, under(p, "set.tar"));
    const char *const argv[] = {"tar", "-C", dir, "-cf", zip, "even", "odd", NULL};
    Str said = {0}, tar = {0};
    int code;
    assert_ok(process_run(&p->arena, argv, &said, &code));
    assert_int_equal(code, 0);
    o.labels = STR("folders");
    assert_ok(pack_build(&p->arena, under(p, "set.tar"), &o, (Str){0}, &pack, NULL));
    assert_true(pack.count == 4 && pack.field[1].classes == 2);
    pack_close(&pack);
    // The same archive truncated in its last member, and with a byte of an image changed.
    assert_ok(file_read(&p->arena, under(p, "set.tar"), &tar));
    char *copy = arena_array(&p->arena, char, tar.len);
    memcpy(copy, tar.ptr, tar.len);
    for (size_t at = 0, seen = 0; at + 8 < tar.len; at += 512)
        if (memcmp(copy + at, "\x89PNG", 4) == 0 && ++seen == 2)
            copy[at + 45] ^= 0x10;
    write_bytes(p, "bad.tar", copy, tar.len);
    o.skip_bad = true;
    PackSummary sum = {0};
    assert_ok(pack_build(&p->arena, under(p, "bad.tar"), &o, (Str){0}, &pack, &sum));
    assert_true(sum.good == 3 && sum.bad == 1 && bad.n == 1);
    assert_non_null(strstr(bad.reason[0], "broken PNG"));
    pack_close(&pack);
}

static void zip_checksums_are_checked(void **state) {
    Place *p = *state;
    BadList bad = {0};
    PackOptions o = pack_options(&bad);
    Pack pack = {0};
    PackSummary sum = {0};
    Str png = {0};
    assert_ok(file_read(&p->arena, STR(SEEDS "image/rgb8.png"), &png));
    write_zip(p, "a.zip", 2, (const Member[]){{"a", png, false}, {"b", png, true}});
    o.skip_bad = true;
    assert_ok(pack_build(&p->arena, under(p, "a.zip"), &o, (Str){0}, &pack, &sum));
    assert_true(sum.good == 1 && sum.bad == 1);
    assert_string_equal(bad.name[0], "b");
    assert_non_null(strstr(bad.reason[0], "damaged in the archive"));
    pack_close(&pack);
}

static void arrays_pack_with_labels_and_refuse_nan(void **state) {
    Place *p = *state;
    BadList bad = {0};
    PackOptions o = {.bad = note_bad, .user = &bad, .labels = STR(SEEDS "npy/labels.idx")};
    Pack pack = {0};
    assert_ok(pack_build(&p->arena, STR(SEEDS "npy/images.idx"), &o, (Str){0}, &pack, NULL));
    assert_true(pack.count == 2 && pack.field[0].kind == DataImage && pack.field[0].dim[2] == 4 &&
                pack.field[1].classes == 8);
    for (uint32_t i = 0; i < 24; i++)
        assert_int_equal(pack_record(&pack, i / 12)[i % 12], i);
    pack_close(&pack);
    float x[6] = {0, 1, 2, NAN, 4, 5};
    o.labels = (Str){0};
    assert_ok(npy_write_f32(under(p, "nan.npy"), x, 2, (const int64_t[]){3, 2}));
    assert_refused(pack_build(&p->arena, under(p, "nan.npy"), &o, (Str){0}, &pack, NULL), "1 of 3");
    assert_string_equal(bad.name[0], "nan.npy:1");
    assert_string_equal(bad.reason[0], "NaN at element 1");
    x[3] = -7;
    assert_ok(npy_write_f32(under(p, "ok.npy"), x, 2, (const int64_t[]){3, 2}));
    assert_ok(pack_build(&p->arena, under(p, "ok.npy"), &o, (Str){0}, &pack, NULL));
    assert_true(pack.field[0].lo == -7 && pack.field[0].hi == 5);
    pack_close(&pack);
}

static void channels_last_is_transposed(void **state) {
    Place *p = *state;
    BadList bad = {0};
    PackOptions o = {.bad = note_bad, .user = &bad, .channels_last = true};
    Pack pack = {0};
    float x[12];
    for (uint32_t i = 0; i < 12; i++)
        x[i] = (float)i;
    assert_ok(npy_write_f32(under(p, "a.npy"), x, 4, (const int64_t[]){1, 2, 2, 3}));
    assert_ok(pack_build(&p->arena, under(p, "a.npy"), &o, (Str){0}, &pack, NULL));
    assert_true(pack.field[0].rank == 3 && pack.field[0].dim[0] == 3 && pack.field[0].dim[1] == 2 &&
                pack.field[0].dim[2] == 2);
    const float *got = (const float *)pack_record(&pack, 0);
    for (uint32_t i = 0; i < 12; i++)
        assert_true(got[i] == (float)(i % 4 * 3 + i / 4));
    pack_close(&pack);
}

static void every_changed_byte_of_a_pack_is_noticed(void **state) {
    Place *p = *state;
    Str file = {0};
    assert_ok(synth_write(STR("shapes"), under(p, "a.pack"), 5, 8, 1));
    assert_ok(file_read(&p->arena, under(p, "a.pack"), &file));
    uint8_t *copy = arena_array(&p->arena, uint8_t, file.len);
    for (size_t i = 0; i<file.len; i += i> 16 && i < 4000 ? 97 : 1) {
        Arena scratch = p->arena;
        Pack pack = {0};
        memcpy(copy, file.ptr, file.len);
        copy[i] ^= (uint8_t)(1 + i % 255);
        GanStatus st = pack_open_bytes(&scratch, copy, file.len, &pack);
        if (st == GAN_OK)
            st = pack_verify(&pack);
        if (st != GAN_ERR_INPUT)
            fail_msg("byte %zu of %zu was changed and nothing noticed", i, file.len);
    }
    for (size_t n = 0; n < file.len; n += 61) {
        Arena scratch = p->arena;
        Pack pack = {0};
        assert_true(pack_open_bytes(&scratch, (const uint8_t *)file.ptr, n, &pack) ==
                    GAN_ERR_INPUT);
    }
}

static void kinds_of_damage_to_a_pack_are_distinguished(void **state) {
    Place *p = *state;
    Str file = {0};
    Pack pack = {0};
    assert_ok(synth_write(STR("shapes"), under(p, "a.pack"), 5, 8, 1));
    assert_ok(file_read(&p->arena, under(p, "a.pack"), &file));
    write_bytes(p, "cut.pack", file.ptr, file.len - 100);
    assert_refused(pack_open(&p->arena, under(p, "cut.pack"), &pack), "truncated pack");
    char *copy = arena_array(&p->arena, char, file.len + 64);
    memcpy(copy, file.ptr, file.len);
    copy[file.len - 80] ^= 1;
    write_bytes(p, "header.pack", copy, file.len);
    assert_refused(pack_open(&p->arena, under(p, "header.pack"), &pack), "does not match its hash");
    memcpy(copy, file.ptr, file.len);
    memcpy(copy + file.len, file.ptr + file.len - 64, 64); // a trailer too many
    write_bytes(p, "long.pack", copy, file.len + 64);
    assert_refused(pack_open(&p->arena, under(p, "long.pack"), &pack), "wrong size");
    memcpy(copy, file.ptr, file.len);
    copy[PackLead + 300] ^= 1;
    write_bytes(p, "data.pack", copy, file.len);
    assert_ok(pack_open(&p->arena, under(p, "data.pack"), &pack));
    assert_refused(pack_verify(&pack), "samples 0 to 4");
    pack_close(&pack);
}

static void a_million_samples_open_at_once(void **state) {
    Place *p = *state;
    PackField field = {
        .name = STR("x"), .kind = DataFloat, .dtype = PackF32, .rank = 1, .dim = {2}, .hi = 1};
    PackWriter *w = NULL;
    Pack pack = {0};
    assert_ok(pack_writer_open(under(p, "big.pack"), &field, 1, &w));
    for (uint32_t i = 0; i < 1000000; i++) {
        float x[2] = {(float)i, 1};
        assert_ok(pack_writer_add(w, x, STR("s")));
    }
    assert_ok(pack_writer_commit(w, STR("test"), (Str){0}));
    int64_t before = mem_count();
    Arena scratch = p->arena;
    assert_ok(pack_open(&scratch, under(p, "big.pack"), &pack));
    assert_true(pack.count == 1000000 && mem_count() - before < 100);
    assert_true((size_t)(scratch.beg - p->arena.beg) <
                1 << 16); // constant, whatever the number of samples
    assert_true(((const float *)pack_record(&pack, 999999))[0] == 999999);
    assert_str(pack_name(&pack, 999999), "s");
    assert_ok(pack_verify(&pack));
    pack_close(&pack);
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
        T(every_truncation_and_flip_of_a_png_is_survived),
        T(a_fit_keeps_constant_images_and_pads_with_the_background),
        T(alpha_is_blended_over_the_background),
        T(shrinking_averages_and_same_size_is_exact),
        T(sixteen_bits_survive_a_fit),
        T(arrays_are_read_in_every_version_and_order),
        T(npy_headers_that_do_not_fit_are_refused),
        T(rows_of_fortran_order_are_gathered),
        T(an_array_written_reads_back),
        T(unsupported_sources_are_named),
        T(arrays_of_an_npz_file_have_names),
        T(cifar_packs_with_its_classes),
        T(a_folder_packs_the_same_for_every_number_of_threads),
        T(every_bad_file_is_listed_and_no_pack_is_left),
        T(sets_without_a_good_image_are_errors),
        T(a_zip_with_a_bad_member_names_it),
        T(zip_checksums_are_checked),
        T(arrays_pack_with_labels_and_refuse_nan),
        T(channels_last_is_transposed),
        T(every_changed_byte_of_a_pack_is_noticed),
        T(kinds_of_damage_to_a_pack_are_distinguished),
        T(a_million_samples_open_at_once),
    };
    if (CASES_LISTED(tests))
        return 0;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
