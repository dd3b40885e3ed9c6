// events.c - see events.h. Records are TFRecord (little-endian length, masked CRC-32C), their
// contents protocol buffers of TensorFlow's event.proto and summary.proto, of which these fields:
//
//   Event    1 wall_time double, 2 step int64, 3 file_version string, 5 summary, 7 session_log
//   Summary  1 value: 1 tag string, 2 simple_value float, 4 image: 1 height, 2 width, 3 colorspace,
//            4 encoded_image_string, 6 audio: 1 sample_rate float, 2 num_channels,
//            3 length_frames, 4 encoded_audio_string, 5 content_type string
//   SessionLog  1 status: 1 START, events of older files from its step on are void
#include "events.h"
#include "health.h"
#include "job.h"
#include "proto.h"

#include <math.h>
#include <string.h>

// --- records -------------------------------------------------------------------------------------

uint32_t events_crc32c(Str data) {
    const uint32_t polynomial = 0x82f63b78; // Castagnoli, bits reversed
    uint32_t crc = UINT32_MAX;
    for (size_t i = 0; i < data.len; i++) {
        crc ^= (uint8_t)data.ptr[i];
        for (int k = 0; k < 8; k++)
            crc = crc >> 1 ^ (crc & 1 ? polynomial : 0);
    }
    return ~crc;
}

static void put_crc(Text *t, Str data) {
    uint32_t crc = events_crc32c(data);
    proto_fixed(t, (uint32_t)((crc >> 15 | crc << 17) + 0xa282ead8u), 4);
}

// One record of the file: a length, its checksum, `data`, its checksum.
static void put_record(Text *t, Str data) {
    size_t at = t->n;
    proto_fixed(t, data.len, 8);
    put_crc(t, (Str){t->at + at, 8});
    text_put(t, data);
    put_crc(t, data);
}

// --- events --------------------------------------------------------------------------------------

static void put_event(Arena *a, Text *out, double seconds, uint32_t step, uint32_t field,
                      Str body) {
    Text t = {.arena = a};
    proto_double(&t, 1, seconds);
    proto_number(&t, 2, step);
    proto_bytes(&t, field, body);
    put_record(out, text_str(&t));
}

static void put_scalar(Arena *a, Text *summary, const char *group, Str name, double x) {
    Text value = {.arena = a};
    proto_bytes(&value, 1, str_format(a, "%s%.*s", group, SARG(name)));
    proto_float(&value, 2, (float)x);
    proto_bytes(summary, 1, text_str(&value));
}

static void put_members(Arena *a, Text *summary, const char *group, const Json *object) {
    for (uint32_t i = 0; i < json_count(object); i++) {
        const Json *member = json_at(object, i);
        put_scalar(a, summary, group, json_key(member), json_number(member, NAN));
    }
}

static uint32_t big_endian(Str s, size_t at) {
    uint32_t x = 0;
    for (size_t i = 0; i < 4; i++)
        x = x << 8 | (uint8_t)s.ptr[at + i];
    return x;
}

// The grid of a save, where there is one. `tag`: the folder it lies in.
static GanStatus put_image(Arena *a, const Events *e, Str tag, uint32_t step, Text *summary) {
    enum { Width = 16, Height = 20, Colour = 25, Head = 33, ColourRgb = 2 }; // of a PNG file
    Str path = run_file(a, e->dir, tag, step, "png"), png;
    if (!file_exists(path))
        return GAN_OK;
    TRY(file_read(a, path, &png));
    if (png.len < Head)
        return fail(GAN_ERR_INPUT, "%.*s: not the image that was saved", SARG(path));
    Text image = {.arena = a}, value = {.arena = a};
    proto_number(&image, 1, big_endian(png, Height));
    proto_number(&image, 2, big_endian(png, Width));
    proto_number(&image, 3, png.ptr[Colour] == ColourRgb ? 3 : 1);
    proto_bytes(&image, 4, png);
    proto_bytes(&value, 1, tag);
    proto_bytes(&value, 4, text_str(&image));
    proto_bytes(summary, 1, text_str(&value));
    return GAN_OK;
}

static uint32_t little_endian(Str s, size_t at, size_t bytes) {
    uint32_t x = 0;
    for (size_t i = bytes; i-- > 0;)
        x = x << 8 | (uint8_t)s.ptr[at + i];
    return x;
}

// The sounds of a save, where there are any.
static GanStatus put_sound(Arena *a, const Events *e, Str folder, uint32_t step, Text *summary) {
    enum { Channels = 22, Rate = 24, Bytes = 40, Head = 44 }; // of a WAV file
    Str path = run_file(a, e->dir, folder, step, "wav"), wav;
    Str tag = str_format(a, "sounds%.*s", SARG(str_sub(folder, strlen("samples"), folder.len)));
    if (!file_exists(path))
        return GAN_OK;
    TRY(file_read(a, path, &wav));
    uint32_t channels = wav.len < Head ? 0 : little_endian(wav, Channels, 2);
    if (!channels)
        return fail(GAN_ERR_INPUT, "%.*s: not the sound that was saved", SARG(path));
    Text audio = {.arena = a}, value = {.arena = a};
    proto_float(&audio, 1, (float)little_endian(wav, Rate, 4));
    proto_number(&audio, 2, channels);
    proto_number(&audio, 3, little_endian(wav, Bytes, 4) / (2 * channels));
    proto_bytes(&audio, 4, wav);
    proto_bytes(&audio, 5, STR("audio/wav"));
    proto_bytes(&value, 1, tag);
    proto_bytes(&value, 6, text_str(&audio));
    proto_bytes(summary, 1, text_str(&value));
    return GAN_OK;
}

// A line of the log as an event; with `out` NULL only its time. What is no line of ours, as where
// somebody has emptied the log while the run goes on, is not copied: no training ends for that.
static GanStatus put_line(Arena *a, Events *e, Str line, Text *out) {
    const Json *root;
    GanStatus st = json_parse(a, line, STR("log.jsonl"), &root);
    if (st != GAN_OK)
        return st == GAN_ERR_INPUT ? GAN_OK : st;
    uint64_t at = 0;
    json_whole(json_get(root, "step"), UINT32_MAX, &at);
    uint32_t step = (uint32_t)at;
    double ms = json_number(json_get(root, "step_ms"), 0),
           swd = json_number(json_get(root, "swd"), NAN);
    Str health = json_string(json_get(root, "health"), (Str){0});
    Text summary = {.arena = a};
    e->seconds += ms / 1000;
    if (!out)
        return GAN_OK;
    put_members(a, &summary, "loss/", json_get(root, "losses"));
    put_members(a, &summary, "report/", json_get(root, "reports"));
    put_members(a, &summary, "share/", json_get(root, "shares"));
    put_members(a, &summary, "eval/", json_get(root, "values"));
    if (health.len && !str_eq(health, health_text(a, HealthYoung, (Str){0})))
        put_scalar(a, &summary, "health/", STR("ok"),
                   str_eq(health, health_text(a, HealthOk, (Str){0})));
    if (ms > 0)
        put_scalar(a, &summary, "time/", STR("step_ms"), ms);
    if (!isnan(swd))
        put_scalar(a, &summary, "distance/", STR("swd"), swd);
    if (json_bool(json_get(root, "saved"), false)) {
        StrVec folder;
        TRY(run_samples(a, e->dir, &folder));
        for (uint32_t i = 0; i < folder.n; i++) {
            TRY(put_image(a, e, folder.at[i], step, &summary));
            TRY(put_sound(a, e, folder.at[i], step, &summary));
        }
    }
    if (summary.n)
        put_event(a, out, e->seconds, step, 5, text_str(&summary));
    return GAN_OK;
}

// --- the file ------------------------------------------------------------------------------------

// Lines the log has gained: events to `out`, or with NULL only their time.
static GanStatus walk_log(Arena *a, Events *e, Text *out) {
    Str path = path_join(a, e->dir, STR("log.jsonl"));
    FileMap map = {0};
    if (!file_exists(path))
        return GAN_OK;
    TRY(file_map(path, &map));
    Str text = {(const char *)map.ptr, map.n};
    GanStatus st = GAN_OK;
    if (e->log > text.len) // it has been emptied
        e->log = 0;
    while (st == GAN_OK && e->log < text.len) {
        Str rest = str_sub(text, e->log, text.len);
        size_t n = str_find(rest, '\n');
        if (n == rest.len)
            break; // torn
        Arena before = *a;
        st = put_line(a, e, str_sub(rest, 0, n), out);
        if (!out)
            *a = before;
        e->log += n + 1;
    }
    file_unmap(&map);
    return st;
}

GanStatus events_open(Arena *perm, Str dir, uint32_t step, Events *out) {
    *out = (Events){.dir = dir, .step = step};
    Arena scratch = *perm;
    TRY(walk_log(&scratch, out, NULL));
    out->path = path_join(perm, dir, str_format(perm, "events.out.tfevents.%08u.gan", step));
    return GAN_OK;
}

static void put_head(Arena *a, const Events *e, Text *out) {
    Text start = {.arena = a};
    proto_number(&start, 1, 1);
    put_event(a, out, e->seconds, e->step, 3, STR("brain.Event:2"));
    put_event(a, out, e->seconds, e->step + 1, 7, text_str(&start));
}

GanStatus events_save(Events *e, Arena scratch) {
    Text t = {.arena = &scratch};
    if (!e->begun)
        put_head(&scratch, e, &t);
    size_t head = t.n;
    TRY(walk_log(&scratch, e, &t));
    if (t.n == head)
        return GAN_OK;
    TRY(e->begun ? file_append(e->path, text_str(&t)) : file_write_atomic(e->path, t.at, t.n));
    e->begun = true;
    return GAN_OK;
}
