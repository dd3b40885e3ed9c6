// bench_card.c - what a card ran, kernel by kernel: under the launches of `--top`, and as a
// timeline of replayed steps.
//
// In: a running model on a device that records what it runs (DeviceApi.work). Out: a clock for
// sim_profile; a file in the Trace Event Format (job/trace.c).
#include "bench.h"

#include <math.h>

enum { SHOWN = 3 }; // steps of a timeline

static bool records(const Bench *b) {
    return b->api->work && b->api->inside && !isnan(b->api->inside(b->session.device, true));
}

void bench_clock_open(Bench *b) {
    if (!b->o->at[OptTop].given || !b->api->fetches) // else it computes while the host waits
        return;
    if (!records(b)) {
        say(&b->host->console, "the times of launches include what the host does for each");
        return;
    }
    b->clock = arena_new(b->perm, LaunchClock);
    *b->clock = (LaunchClock){
        .api = b->api,
        .device = b->session.device,
        .ran = arena_array(b->perm, DeviceWorkVec, b->session.compiled.step.launch.n)};
}

void bench_clock_close(Bench *b) {
    if (b->clock)
        (void)b->api->inside(b->session.device, false);
}

// --- the timeline --------------------------------------------------------------------------------

static GanStatus run_steps(Bench *b, uint32_t first, uint32_t n, DeviceWorkVec *out) {
    for (uint32_t i = 0; i < n; i++) {
        Counters c = {.step = first + i};
        TRY(exec_step(b->session.exec, &c, NULL));
    }
    TRY(exec_wait(b->session.exec));
    return b->api->work(b->session.device, b->perm, out);
}

static void put_work(JsonOut *j, const DeviceWork *w) {
    trace_put_slice(j, 0, (int)w->stream, str_c(w->name), w->began, w->ended);
    json_member_open(j, "args", '{');
    json_member_int(j, "blocks", (int64_t)w->grid[0] * w->grid[1] * w->grid[2]);
    json_member_int(j, "threads", (int64_t)w->block[0] * w->block[1] * w->block[2]);
    json_member_int(j, "registers", w->registers);
    json_member_int(j, "shared", w->shared);
    json_close(j, '}');
    json_close(j, '}');
}

static GanStatus write_work(Bench *b, const DeviceWorkVec *work) {
    Text text = {.arena = b->perm};
    JsonOut j = {.text = &text};
    json_open(&j, '{');
    json_member_open(&j, "traceEvents", '[');
    trace_put_name(&j, 0, 0, "process_name", b->session.compiled.module.name);
    for (uint32_t i = 0; i < work->n; i++) {
        uint32_t k = 0;
        while (k < i && work->at[k].stream != work->at[i].stream)
            k++;
        if (k == i) // the first of its stream
            trace_put_name(&j, 0, (int)work->at[i].stream, "thread_name",
                           str_format(b->perm, "stream %u", work->at[i].stream));
        put_work(&j, &work->at[i]);
    }
    json_close(&j, ']');
    json_close(&j, '}');
    text_char(&text, '\n');
    return file_write_atomic(option_text(b->o, OptTimeline, (Str){0}), text.at, text.n);
}

GanStatus bench_timeline(Bench *b, uint32_t first) {
    DeviceWorkVec work;
    if (!records(b))
        return fail_in(GAN_ERR_DEVICE, "--timeline");
    GanStatus st = run_steps(b, first, 1, &work); // captures its graphs anew
    if (st == GAN_OK)
        st = run_steps(b, first + 1, SHOWN, &work);
    (void)b->api->inside(b->session.device, false);
    return st == GAN_OK && ranks_first(b->comm) ? write_work(b, &work) : st;
}
