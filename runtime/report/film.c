// film.c - `ganrun film`: a run's sample grids, of the same noise at every save, as an animated
// PNG.
//
// In: RUN/samples/*.png, or those of another `sample`, written by this program. Out: one file that
// browsers play. Images are not decoded: an animated PNG holds each image's compressed data in
// chunks of another name (APNG 1.0: acTL, fcTL, fdAT), so a frame is its file's IDAT bytes behind a
// sequence number.

#include "commands.h"

#include <string.h>

enum { HEADER = 13 }; // bytes of IHDR
static const char Signature[] = "\x89PNG\r\n\x1a\n";

typedef struct Frame {
    uint8_t header[HEADER];
    Str data; // all IDAT chunks together
} Frame;

static uint32_t get32(const char *p) {
    const uint8_t *b = (const uint8_t *)p;
    return (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | b[3];
}

static void put32(uint8_t *p, uint32_t x) {
    for (int i = 0; i < 4; i++)
        p[i] = (uint8_t)(x >> (24 - 8 * i));
}

static uint32_t crc32_of(uint32_t crc, const void *data, size_t n) {
    const uint8_t *p = data;
    crc = ~crc;
    for (size_t i = 0; i < n; i++) {
        crc ^= p[i];
        for (int k = 0; k < 8; k++)
            crc = crc >> 1 ^ (crc & 1 ? 0xedb88320u : 0);
    }
    return ~crc;
}

// --- reading a frame -----------------------------------------------------------------------------

static GanStatus frame_read(Arena *a, Str path, Frame *out) {
    Str s;
    TRY(file_read(a, path, &s));
    Text data = {.arena = a};
    bool header = false;
    size_t at = sizeof Signature - 1;
    if (!str_starts(s, (Str){Signature, at}))
        return fail(GAN_ERR_INPUT, "%.*s is not a PNG file", SARG(path));
    while (s.len - at >= 12) {
        uint32_t n = get32(s.ptr + at);
        Str type = str_sub(s, at + 4, at + 8);
        if (n > s.len - at - 12)
            break;
        if (str_eq(type, STR("IHDR")) && n == HEADER) {
            memcpy(out->header, s.ptr + at + 8, HEADER);
            header = true;
        } else if (str_eq(type, STR("IDAT"))) {
            text_put(&data, str_sub(s, at + 8, at + 8 + n));
        }
        at += 12 + (size_t)n;
    }
    out->data = text_str(&data);
    return header && out->data.len ? GAN_OK : fail(GAN_ERR_INPUT, "%.*s is cut short", SARG(path));
}

// --- writing -------------------------------------------------------------------------------------

// A chunk whose data are `head`, then `data`.
static GanStatus put_chunk(FileOut *f, const char *type, const uint8_t *head, size_t heads,
                           Str data) {
    uint8_t word[4];
    put32(word, (uint32_t)(heads + data.len));
    TRY(file_out_put(f, word, 4));
    TRY(file_out_put(f, type, 4));
    TRY(file_out_put(f, head, heads));
    TRY(file_out_put(f, data.ptr, data.len));
    uint32_t crc = crc32_of(0, type, 4);
    crc = crc32_of(crc, head, heads);
    put32(word, crc32_of(crc, data.ptr, data.len));
    return file_out_put(f, word, 4);
}

// Frame control: number, size, no offset, how long it is shown.
static GanStatus put_control(FileOut *f, const Frame *x, uint32_t *number, uint16_t fps,
                             bool last) {
    uint8_t c[26] = {0};
    put32(c, (*number)++);
    memcpy(c + 4, x->header, 8); // width and height
    c[21] = last ? 2 : 1;        // of 1/fps s; the last frame stays for two seconds
    c[22] = (uint8_t)(last ? 0 : fps >> 8);
    c[23] = (uint8_t)(last ? 1 : fps);
    return put_chunk(f, "fcTL", c, sizeof c, (Str){0});
}

// An image at a time, so that a film of any length needs the memory of one.
static GanStatus put_film(FileOut *f, Str samples, const StrVec *names, uint16_t fps, Arena *perm) {
    uint8_t control[8] = {0}, head[4];
    uint32_t number = 0;
    put32(control, names->n); // then how often it is played: 0, for ever
    TRY(file_out_put(f, Signature, sizeof Signature - 1));
    for (uint32_t i = 0; i < names->n; i++) {
        Arena scratch = *perm;
        Frame x;
        TRY(frame_read(&scratch, path_join(&scratch, samples, names->at[i]), &x));
        if (i == 0) {
            TRY(put_chunk(f, "IHDR", x.header, HEADER, (Str){0}));
            TRY(put_chunk(f, "acTL", control, sizeof control, (Str){0}));
        }
        TRY(put_control(f, &x, &number, fps, i + 1 == names->n));
        put32(head, number);
        number += i > 0; // the first frame is what a program sees that knows no films
        TRY(i ? put_chunk(f, "fdAT", head, sizeof head, x.data)
              : put_chunk(f, "IDAT", head, 0, x.data));
    }
    return put_chunk(f, "IEND", head, 0, (Str){0});
}

// Those of the newest one's size, oldest first; *smaller: how many there are before them, of
// earlier stages.
static GanStatus find_images(Arena *perm, Str samples, StrVec *out, uint32_t *smaller) {
    StrVec names, all = {0};
    uint32_t from;
    Frame last, x;
    TRY(dir_list(perm, samples, &names));
    for (uint32_t i = 0; i < names.n; i++)
        if (str_ends(names.at[i], STR(".png")))
            vec_push(perm, &all, names.at[i]);
    for (from = all.n; from > 0; from--) {
        Arena scratch = *perm;
        Frame *to = from == all.n ? &last : &x;
        TRY(frame_read(&scratch, path_join(&scratch, samples, all.at[from - 1]), to));
        if (memcmp(to->header, last.header, HEADER) != 0)
            break;
    }
    *smaller = from;
    *out = (StrVec){.at = all.at + from, .n = all.n - from};
    return out->n ? GAN_OK : fail(GAN_ERR_INPUT, "%.*s has no images yet", SARG(samples));
}

GanStatus cmd_film(Arena *perm, const Host *h, const Options *o) {
    Str dir = o->file.at[0], samples = path_join(perm, dir, STR("samples"));
    Str path = option_text(o, OptFile, path_join(perm, dir, STR("film.png")));
    int64_t fps = option_number(o, OptFps, 10);
    StrVec names;
    uint32_t smaller;
    TRY(path_writes(path, ".png", false));
    TRY(run_spares(*perm, path));
    if (fps > 1000)
        return fail(GAN_ERR_USAGE, "--fps is at most 1000");
    if (!file_is_dir(samples))
        return fail(GAN_ERR_INPUT, "%.*s is not the folder of a run with images: %s", SARG(dir),
                    file_is_dir(dir) ? "it has no samples/" : "there is no such folder");
    if (o->at[OptEntry].given)
        samples = path_join(perm, samples, o->at[OptEntry].text);
    if (!file_exists(samples))
        return fail(GAN_ERR_INPUT,
                    "%.*s has no folder samples/%.*s: its saves show no `sample` of that name, or "
                    "show it first, which is filmed without --entry",
                    SARG(dir), SARG(o->at[OptEntry].text));
    TRY(find_images(perm, samples, &names, &smaller));
    if (smaller)
        say(&h->console, "%u earlier grids have another size and are left out", smaller);
    FileOut *f;
    TRY(file_out_open(path, &f));
    GanStatus st = put_film(f, samples, &names, (uint16_t)fps, perm);
    if (st != GAN_OK) {
        file_out_abandon(f);
        return st;
    }
    TRY(file_out_commit(f));
    h->console.result(h->console.user, str_format(perm, "%.*s\n", SARG(path)));
    return GAN_OK;
}
