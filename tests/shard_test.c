// shard_test.c - the mathematics does not depend on the number of ranks: every model trains on one,
// two and three ranks (threads of this process) to the same losses, gradients and weights.
#include "ranks.h"

#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include "cases.h"

#define MODELS ROOT_DIR "/models"

static Arena empty;

static Str read_model(Arena *a, const char *name) {
    Str text;
    assert_int_equal(file_read(a, path_join(a, STR(MODELS), str_c(name)), &text), GAN_OK);
    return text;
}

// --- models --------------------------------------------------------------------------------------

static const struct {
    const char *model, *set;
    int64_t batch;
} models[] = {
    {"acgan.gan", "nz=6 wide=2 kinds=3", 5},
    {"d2gan_ring.gan", "nz=8 hidden=6", 7},
};

static void models_do_not_depend_on_ranks(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        Arena a = empty;
        RanksOptions o = {.name = models[i].model, .set = models[i].set, .batch = models[i].batch,
                          .api = &device_ref, .real = DtF64, .steps = 2};
        RanksRun one, more;
        o.text = read_model(&a, o.name);
        ranks_run(&a, &o, &one);
        for (uint32_t ranks = 2; ranks <= 3; ranks++) {
            o.parallel.ranks = ranks;
            ranks_run(&a, &o, &more);
            ranks_compare(&one, &more, 1e-9, str_format(&a, "%s, %u ranks", o.name, ranks).ptr);
        }
    }
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(models_do_not_depend_on_ranks),
    };
    if (arena_init(&empty, (size_t)1 << 33) != GAN_OK)
        return 1;
    if (CASES_LISTED(tests)) {
        return 0;
    }
    int failures = cmocka_run_group_tests(tests, NULL, NULL);
    arena_release(&empty);
    return failures;
}
