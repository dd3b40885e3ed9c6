// passes_test.c - the passes and stages over every model, with the graph verified after each pass,
// its structure, and that the operations a pass removes do not come back, and the plan after each
// stage. They change nothing of the module but the function at hand.
#include "driver.h"

#include <setjmp.h>
#include <cmocka.h>
#include "cases.h"

static void check_func(Arena *a, const Module *m, Func *f, const PassOptions *o) {
    Plan p;
    passes_run(a, m, f, o, NULL);
    plan_make(a, m, f, o, &p);
}

static void check_model(Arena *a, Str name, const PassOptions *o) {
    Front f;
    Module m;
    front_init(&f, a);
    CompileOptions c = {.path = path_join(a, STR(ROOT_DIR "/models"), name), .batch = 8};
    if (compile_module(&f, &c, &m) != GAN_OK)
        fail_msg("%.*s does not compile", SARG(name));
    m.share = share_of(m.batch, o->parallel.rank, o->parallel.ranks);
    m.batch = m.share.samples;
    if (o->real == DtF16)
        loss_scale_slots(a, &m);
    slots_place(&m, o->real);
    Slot *slots = arena_array(a, Slot, m.slot.n);
    Site *sites = arena_array(a, Site, m.site.n);
    memcpy(slots, m.slot.at, m.slot.n * sizeof *slots);
    if (m.site.n)
        memcpy(sites, m.site.at, m.site.n * sizeof *sites);
    check_func(a, &m, &m.init, o);
    check_func(a, &m, &m.step, o);
    for (uint32_t i = 0; i < m.entry.n; i++)
        check_func(a, &m, &m.entry.at[i], o);
    assert_memory_equal(slots, m.slot.at, m.slot.n * sizeof *slots);
    assert_memory_equal(sites, m.site.at, m.site.n * sizeof *sites);
}

static void check_models(PassOptions o) {
    Arena a;
    StrVec names = {0};
    assert_int_equal(arena_init(&a, 0), GAN_OK);
    assert_int_equal(dir_list(&a, STR(ROOT_DIR "/models"), &names), GAN_OK);
    assert_true(names.n > 0);
    o.verify_each = true;
    for (uint32_t i = 0; i < names.n; i++) {
        Arena once = a;
        if (str_ends(names.at[i], STR(".gan")))
            check_model(&once, names.at[i], &o);
    }
    arena_release(&a);
}

static void each_pass_leaves_what_is_valid(void **state) {
    (void)state;
    check_models((PassOptions){.real = DtF32, .few_launches = true});
}

static void each_pass_leaves_what_is_valid_of_f16_on_two_ranks(void **state) {
    (void)state;
    check_models((PassOptions){.real = DtF16, .parallel = {.ranks = 2, .tail = true}});
}

static void each_pass_leaves_what_is_valid_of_f64_in_chunks(void **state) {
    (void)state;
    check_models((PassOptions){.real = DtF64, .parallel = {.rank = 1, .ranks = 2, .chunks = 4}});
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_pass_leaves_what_is_valid),
        cmocka_unit_test(each_pass_leaves_what_is_valid_of_f16_on_two_ranks),
        cmocka_unit_test(each_pass_leaves_what_is_valid_of_f64_in_chunks),
    };
    if (CASES_LISTED(tests))
        return 0;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
