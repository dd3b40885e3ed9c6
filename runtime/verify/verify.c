// verify.c - recomputes a reference case: the same start, the same feed, and every loss, gradient
// and final weight.
//
// In: a model file and a case (JSON, format gan-reference-1: docs/verify.md). Out: one line per
// update and a verdict. Numbers in a case are made by formulas from text keys (formula.c); results
// are digests. On many ranks each feeds its own samples and checks all results, which are the whole
// batch's.
#include "verify.h"

#include <math.h>

Tolerance verify_tolerance(Dtype real) {
    switch (real) {
    case DtF64:
        return (Tolerance){1e-8, 1e-8, 1e-8, 1e-12, false};
    case DtF32:
        return (Tolerance){1e-3, 3e-3, 5e-3, 1e-5, true};
    case DtBF16:
    case DtF16:
        return (Tolerance){5e-2, INFINITY, INFINITY, INFINITY, true};
    case DtCount:
        break;
    }
    bug("verify: no tolerance for precision %d", (int)real);
}

void verify_line(Verify *v, const char *format, ...) {
    va_list args;
    va_start(args, format);
    text_put(v->report, str_vformat(&v->session.perm, format, args));
    va_end(args);
    text_char(v->report, '\n');
}

// --- the case ------------------------------------------------------------------------------------

static GanStatus read_case(Arena *a, Str path, const Json **out) {
    Str text;
    TRY(file_read(a, path, &text));
    TRY(json_parse(a, text, path, out));
    if (!str_eq(json_string(json_get(*out, "format"), (Str){0}), STR("gan-reference-1")))
        return fail(GAN_ERR_INPUT, "%.*s: not a reference case (format gan-reference-1)",
                    SARG(path));
    static const char *const parts[] = {"start", "fed", "steps", "final"};
    for (uint32_t i = 0; i < 4; i++)
        if (!json_count(json_get(*out, parts[i])))
            return fail(GAN_ERR_INPUT, "%.*s: the case has no \"%s\"", SARG(path), parts[i]);
    return GAN_OK;
}

// An option as -s takes it: a text as it is, a number, a truth value, a list.
static Str setting_text(Arena *a, const Json *v) {
    if (json_is_string(v))
        return json_string(v, (Str){0});
    if (json_is_number(v))
        return str_double(a, json_number(v, 0));
    if (!json_is_array(v))
        return json_bool(v, false) ? STR("true") : STR("false");
    Text t = {.arena = a};
    for (uint32_t i = 0; i < json_count(v); i++) {
        text_put(&t, i ? STR(", ") : STR("["));
        if (json_is_string(json_at(v, i)))
            gan_string(&t, json_string(json_at(v, i), (Str){0}));
        else
            text_put(&t, setting_text(a, json_at(v, i)));
    }
    text_put(&t, json_count(v) ? STR("]") : STR("[]"));
    return text_str(&t);
}

// `batch` sets the batch, the other options set configs of the same name.
static GanStatus case_options(Arena *a, const VerifyOptions *o, const Json *options,
                              CompileOptions *out) {
    VEC(Setting) s = {0};
    for (uint32_t i = 0; i < json_count(options); i++) {
        const Json *member = json_at(options, i);
        Str key = json_key(member);
        if (str_eq(key, STR("batch"))) {
            double batch = json_number(member, 0);
            if (!(batch >= 1 && batch <= 1 << 20 && batch == floor(batch)))
                return fail(GAN_ERR_INPUT, "the case's batch is %g", batch);
            out->batch = (int64_t)batch;
            continue;
        }
        vec_push(a, &s, ((Setting){key, setting_text(a, member)}));
    }
    for (uint32_t i = 0; i < o->settings; i++)
        vec_push(a, &s, o->setting[i]);
    out->setting = s.at;
    out->settings = s.n;
    return GAN_OK;
}

// --- the case's steps ----------------------------------------------------------------------------

// The case's first `steps` steps; its end is checked after all of them.
GanStatus verify_run(Verify *v, uint32_t steps) {
    ExecHooks hooks = {.before = verify_feed_block,
                       .after = verify_check_block,
                       .launch = v->deciding ? verify_turn : NULL,
                       .user = v};
    uint32_t all = json_count(json_get(v->root, "steps"));
    v->share = exec_share(v->session.exec);
    TRY(exec_init(v->session.exec, 0));
    TRY(verify_start(v));
    for (v->step = 0; v->step < steps && v->step < all; v->step++) {
        v->update = 0;
        TRY(verify_begin_step(v));
        Counters c = {.step = v->step};
        TRY(exec_step(v->session.exec, &c, &hooks));
        uint32_t expected =
            json_count(json_get(json_at(json_get(v->root, "steps"), v->step), "updates"));
        if (v->update != expected)
            return fail(GAN_ERR_INPUT, "step %u: the model makes %u updates, the case has %u",
                        v->step, v->update, expected);
    }
    return v->step == all ? verify_check_final(v) : GAN_OK;
}

GanStatus verify_open(Verify *v, SessionOptions *s, Comm *comm, const Split *split) {
    *s = (SessionOptions){
        .compile = {.path = v->o->model, .real = v->o->real, .feed = true, .keep_grads = true},
        .api = v->o->api,
        .device = v->o->device};
    s->device.comm = comm;
    TRY(read_case(v->report->arena, v->o->reference, &v->root));
    TRY(case_options(v->report->arena, v->o, json_get(v->root, "options"), &s->compile));
    int64_t batch = s->compile.batch ? s->compile.batch : DEFAULT_BATCH;
    return ranks_parallel(comm, batch, split, (LinkModel){0}, &s->compile.parallel);
}

// --- the verdict ---------------------------------------------------------------------------------

// The lines that say what fails and what is not judged, and the last one.
static void print_verdict(Verify *v) {
    const Check *worst = NULL;
    uint32_t unjudged = 0;
    for (uint32_t i = 0; i < v->check.n; i++) {
        const Check *c = &v->check.at[i];
        bool fails = check_fails(c), pardon = fails && check_excused(c);
        if (pardon)
            verify_line(v, "  not judged: %.*s: error %.3g; rounding to %s alone moves it by %.3g",
                        SARG(c->what), c->error, dtype_name[v->o->real], c->moved);
        else if (fails)
            verify_line(v, "  outside tolerance: %.*s: error %.3g, allowed %.3g", SARG(c->what),
                        c->error, c->limit);
        unjudged += pardon;
        if (!pardon && !isinf(c->limit) && (!worst || !(c->error <= worst->error)))
            worst = c;
    }
    v->failures -= unjudged;
    Text t = {.arena = &v->session.perm};
    text_fmt(&t, "verify: %u checks, worst relative error %.3g (%.*s)", v->check.n,
             worst ? worst->error : 0, SARG(worst ? worst->what : STR("none judged")));
    if (unjudged)
        text_fmt(&t, ", %u not judged", unjudged);
    verify_line(v, "%.*s", SARG(text_str(&t)));
}

// A case passes where every rank says so.
static GanStatus verdict(Verify *v) {
    bool any;
    if (v->o->real != DtF64)
        verify_ask_graph(v);
    print_verdict(v);
    TRY(comm_any(v->o->device.comm, v->failures > 0, &any));
    if (v->failures)
        return fail(GAN_ERR_INPUT, "%.*s: %u of %u checks are outside tolerance",
                    SARG(v->o->reference), v->failures, v->check.n);
    return any ? fail(GAN_ERR_INPUT, "%.*s: checks are outside tolerance on other ranks",
                      SARG(v->o->reference))
               : GAN_OK;
}

GanStatus verify_case(const VerifyOptions *o, Text *report, Text *diagnostics) {
    Verify v = {.o = o,
                .judge = o->real,
                .hold = DtF64,
                .report = report,
                .tol = verify_tolerance(o->real)};
    SessionOptions s;
    GanStatus st = GAN_OK;
    bool judged = false; // else it could not be run to its end, and sums may still arrive
    TRY(verify_open(&v, &s, o->device.comm, &o->split));
    TRY_OUT(session_open(&v.session, &s));
    TRY_OUT(verify_run(&v, UINT32_MAX));
    judged = true;
    st = verdict(&v);
out:
    if (diag_total(&v.session.front))
        diag_render(diagnostics, &v.session.front, false);
    if (judged || !o->device.comm)
        session_release(&v.session);
    return st;
}
