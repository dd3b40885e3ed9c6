// events_test.c - event files as TensorBoard reads them: frames with their checksums, with the
// contents of the log.
#define _GNU_SOURCE
#include "data_fixture.h"
#include "cases.h"
#include "events.h"

static uint64_t fixed(const uint8_t *p, uint32_t bytes) {
    uint64_t x = 0;
    for (uint32_t i = 0; i < bytes; i++)
        x |= (uint64_t)p[i] << 8 * i;
    return x;
}

static uint32_t unmasked(uint32_t crc) {
    crc -= 0xa282ead8u;
    return crc >> 17 | crc << 15;
}

// The checks of RFC 3720, appendix B.4.
static void the_checksum_is_crc32c(void **state) {
    char zeros[32] = {0}, ones[32];
    (void)state;
    memset(ones, 0xff, sizeof ones);
    assert_int_equal(events_crc32c(STR("123456789")), 0xe3069283);
    assert_int_equal(events_crc32c((Str){zeros, 32}), 0x8a9136aa);
    assert_int_equal(events_crc32c((Str){ones, 32}), 0x62a8ab43);
}

// The next record's data; empty at the end.
static Str next_record(Str file, size_t *at) {
    if (*at == file.len)
        return (Str){0};
    const uint8_t *p = (const uint8_t *)file.ptr + *at;
    size_t n = (size_t)fixed(p, 8);
    assert_true(*at + 16 + n <= file.len);
    Str data = {file.ptr + *at + 12, n};
    assert_int_equal(unmasked((uint32_t)fixed(p + 8, 4)), events_crc32c((Str){file.ptr + *at, 8}));
    assert_int_equal(unmasked((uint32_t)fixed(p + 12 + n, 4)), events_crc32c(data));
    *at += 16 + n;
    return data;
}

static bool holds(Str data, const char *bytes, size_t n) {
    return memmem(data.ptr, data.len, bytes, n) != NULL;
}

static void a_save_writes_the_new_log_lines(void **state) {
    static const char log[] = "{\"step\": 1, \"losses\": {\"D\": 0.5, \"G\": 2}, \"reports\": "
                              "{\"gp\": -1}, \"step_ms\": 250}\n"
                              "{\"step\": 1, \"saved\": true, \"swd\": 0.25}\n{\"step\": 2, \"lo";
    Fixture *p = *state;
    Events e;
    Str file;
    size_t at = 0;
    assert_ok(events_open(&p->arena, str_c(p->root), 0, &e));
    write_text(p, "log.jsonl", log);
    assert_ok(events_save(&e, p->arena));
    assert_ok(events_save(&e, p->arena)); // nothing new: the last line is torn
    assert_ok(file_read(&p->arena, under(p, "events.out.tfevents.00000000.gan"), &file));
    assert_true(holds(next_record(file, &at),
                      "\x1a\x0d"
                      "brain.Event:2",
                      15));
    assert_true(holds(next_record(file, &at), "\x3a\x02\x08\x01", 4)); // the session starts
    Str step = next_record(file, &at), save = next_record(file, &at);
    // Event: wall_time 0.25, step 1, a summary; in it a tag and a float.
    assert_memory_equal(step.ptr, "\x09\0\0\0\0\0\0\xd0\x3f\x10\x01\x2a", 12);
    assert_true(holds(step, "\x0a\x0d\x0a\x06loss/D\x15\0\0\0\x3f", 15));
    assert_true(holds(step, "loss/G\x15\0\0\0\x40", 11));
    assert_true(holds(step, "report/gp\x15\0\0\x80\xbf", 14));
    assert_true(holds(save, "distance/swd\x15\0\0\x80\x3e", 17));
    assert_int_equal(next_record(file, &at).len, 0);
}

// A word that says nothing yet is neither well nor ill.
static void health_is_a_scalar_once_there_is_a_verdict(void **state) {
    Fixture *p = *state;
    Events e;
    Str file;
    size_t at = 0;
    assert_ok(events_open(&p->arena, str_c(p->root), 0, &e));
    write_text(p, "log.jsonl",
               "{\"step\": 1, \"saved\": true, \"health\": \"-\"}\n"
               "{\"step\": 2, \"saved\": true, \"health\": \"ok\"}\n"
               "{\"step\": 3, \"saved\": true, \"health\": \"D too strong\"}\n");
    assert_ok(events_save(&e, p->arena));
    assert_ok(file_read(&p->arena, under(p, "events.out.tfevents.00000000.gan"), &file));
    next_record(file, &at);
    next_record(file, &at);
    Str ok = next_record(file, &at), strong = next_record(file, &at);
    assert_true(holds(ok, "health/ok\x15\0\0\x80\x3f", 14));
    assert_true(holds(strong, "health/ok\x15\0\0\0\0", 14));
    assert_int_equal(next_record(file, &at).len, 0);
}

// A run that goes on: its time, too, and a file of its own, once there is something to write.
static void a_resumed_run_starts_another_file(void **state) {
    static const char first_step[] = "{\"step\": 1, \"losses\": {}, \"step_ms\": 500}\n",
                      two_steps[] = "{\"step\": 1, \"losses\": {}, \"step_ms\": 500}\n"
                                    "{\"step\": 2, \"losses\": {}, \"step_ms\": 250}\n";
    Fixture *p = *state;
    Events e;
    Str file;
    size_t at = 0;
    write_text(p, "log.jsonl", first_step);
    assert_ok(events_open(&p->arena, str_c(p->root), 1, &e));
    assert_ok(events_save(&e, p->arena));
    assert_false(file_exists(under(p, "events.out.tfevents.00000001.gan")));
    write_text(p, "log.jsonl", two_steps);
    assert_ok(events_save(&e, p->arena));
    assert_ok(file_read(&p->arena, under(p, "events.out.tfevents.00000001.gan"), &file));
    Str first = next_record(file, &at), session = next_record(file, &at);
    assert_memory_equal(first.ptr, "\x09\0\0\0\0\0\0\xe0\x3f\x10\x01", 11); // 0.5 s, step 1
    assert_memory_equal(session.ptr + 9, "\x10\x02", 2); // events of step 2 on are void
    Str step = next_record(file, &at);
    assert_memory_equal(step.ptr, "\x09\0\0\0\0\0\0\xe8\x3f\x10\x02", 11); // 0.75 s, step 2
    assert_int_equal(next_record(file, &at).len, 0); // step 1 is in the earlier file
}

// The log is emptied, or scribbled into, while the run goes on.
static void a_log_of_others_ends_no_run(void **state) {
    static const char first[] = "{\"step\": 1, \"losses\": {\"D\": 1}, \"step_ms\": 500}\n",
                      short_one[] = "{\"step\": 2, \"step_ms\": 500}\n",
                      torn[] = "\": 2, \"step_ms\": 500} and so on, for longer than before\n"
                               "{\"step\": 3, \"step_ms\": 500}\n";
    Fixture *p = *state;
    Events e;
    Str file;
    size_t at = 0;
    assert_ok(events_open(&p->arena, str_c(p->root), 0, &e));
    const char *const texts[] = {first, short_one, torn};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        write_text(p, "log.jsonl", texts[i]);
        assert_ok(events_save(&e, p->arena));
    }
    assert_ok(file_read(&p->arena, under(p, "events.out.tfevents.00000000.gan"), &file));
    for (int head = 0; head < 2; head++)
        next_record(file, &at);
    for (char step = 1; step <= 3; step++)
        assert_int_equal(next_record(file, &at).ptr[10], step);
    assert_int_equal(next_record(file, &at).len, 0);
}

static void an_image_event_has_its_size(void **state) {
    Fixture *p = *state;
    Events e;
    Image m = {0};
    Str file, png;
    size_t at = 0;
    assert_ok(image_new(7, 300, 3, 8, &m));
    assert_ok(dir_make(under(p, "samples")));
    assert_ok(image_write_png(under(p, "samples/00000003.png"), &m));
    image_release(&m);
    assert_ok(events_open(&p->arena, str_c(p->root), 0, &e));
    write_text(p, "log.jsonl", "{\"step\": 3, \"saved\": true}\n");
    assert_ok(events_save(&e, p->arena));
    assert_ok(file_read(&p->arena, under(p, "events.out.tfevents.00000000.gan"), &file));
    assert_ok(file_read(&p->arena, under(p, "samples/00000003.png"), &png));
    next_record(file, &at);
    next_record(file, &at);
    Str save = next_record(file, &at);
    assert_true(holds(save, "\x08\xac\x02\x10\x07\x18\x03\x22", 8)); // 300 high, 7 wide, RGB
    assert_true(holds(save, png.ptr, png.len));
}

static void an_audio_event_has_its_sample_rate(void **state) {
    static const float x[2][5] = {{0.5F, 0, 0, 0, 0}, {0}};
    Fixture *p = *state;
    Events e;
    Str file, wav;
    size_t at = 0;
    assert_ok(dir_make(under(p, "samples")));
    assert_ok(
        sound_write(under(p, "samples/00000003.wav"), &(Sounds){&x[0][0], 1, 5, 2, 16000, -1, 1}));
    assert_ok(events_open(&p->arena, str_c(p->root), 0, &e));
    write_text(p, "log.jsonl", "{\"step\": 3, \"saved\": true}\n");
    assert_ok(events_save(&e, p->arena));
    assert_ok(file_read(&p->arena, under(p, "events.out.tfevents.00000000.gan"), &file));
    assert_ok(file_read(&p->arena, under(p, "samples/00000003.wav"), &wav));
    next_record(file, &at);
    next_record(file, &at);
    Str save = next_record(file, &at);
    // 16000 a second as a float, two channels, five frames, then the file's 64 bytes.
    assert_true(holds(save, "\x0d\0\0\x7a\x46\x10\x02\x18\x05\x22\x40", 11));
    assert_true(holds(save, wav.ptr, wav.len));
    assert_true(holds(save,
                      "\x2a\x09"
                      "audio/wav",
                      11));
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        T(the_checksum_is_crc32c),
        T(a_save_writes_the_new_log_lines),
        T(health_is_a_scalar_once_there_is_a_verdict),
        T(a_resumed_run_starts_another_file),
        T(a_log_of_others_ends_no_run),
        T(an_image_event_has_its_size),
        T(an_audio_event_has_its_sample_rate),
    };
    if (CASES_LISTED(tests))
        return 0;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
