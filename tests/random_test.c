// random_test.c - random models, computed in every configuration, against the oracle.
//
//   random_test                           a first batch of models; --list, CASE as elsewhere
//   random_test run FIRST COUNT [CONFIG]  models by seed; those that fail are reduced and printed
//   random_test print SEED                a model's text, its batch in a comment
//   random_test replay FILE [CONFIG]      the same for a file as printed (or written by hand)
//
// COMPILED=1: compiled CPU kernels too. CARD=1: CUDA kernels, on the emulator; CARD=cuda: on a
// card. VERBOSE=1: refused models, and progress. WHOLE=1: models that fail are not reduced.
#include "random/check.h"

#include <setjmp.h>
#include <stdlib.h>

#include <cmocka.h>
#include "arena_cases.h"
#if WITH_SHIM
#include "shim_device.h"
#endif

#ifndef CASES
#define CASES 60
#define COMPILED_CASES 6
#define CARD_CASES 3
#define PARTS 1 // of each list, a case of its own: none takes longer than a test may
#endif

typedef struct Campaign {
    uint64_t first, n;
    CheckOptions options;
    bool reduce; // reduce failing models
    uint64_t counted[VerdictWrong + 1];
    double slowest;
    uint64_t slowest_seed;
} Campaign;

static void print_model(const RandomModel *m) {
    printf("# batch %lld\n%.*s", (long long)m->batch, SARG(m->text));
}

static void check_one(Campaign *campaign, Arena a, const RandomModel *m) {
    Finding f = check_model(&a, m, &campaign->options);
    campaign->counted[f.verdict]++;
    if (f.seconds > campaign->slowest) {
        campaign->slowest = f.seconds;
        campaign->slowest_seed = campaign->options.seed;
    }
    if (getenv("VERBOSE") && f.verdict != VerdictFine)
        printf("seed %llu: %.*s\n", (unsigned long long)campaign->options.seed, SARG(f.text));
    if (f.verdict != VerdictWrong)
        return;
    printf("\nseed %llu fails: %.*s\n%.*s", (unsigned long long)campaign->options.seed,
           SARG(f.label), SARG(f.text));
    if (campaign->reduce) {
        RandomModel less = shrink_model(&a, m, &campaign->options, f.label);
        Finding again = check_model(&a, &less, &campaign->options);
        print_model(&less);
        printf("%.*s", SARG(again.text));
    } else
        print_model(m);
    fflush(stdout);
}

static void print_counts(const Campaign *campaign) {
    printf("%llu fine, %llu refused, %llu wild, %llu wrong; seed %llu took %.2f s\n",
           (unsigned long long)campaign->counted[VerdictFine],
           (unsigned long long)campaign->counted[VerdictRefused],
           (unsigned long long)campaign->counted[VerdictDiverged],
           (unsigned long long)campaign->counted[VerdictWrong],
           (unsigned long long)campaign->slowest_seed, campaign->slowest);
    fflush(stdout);
}

static void check_seeds(Campaign *campaign) {
    for (uint64_t i = 0; i < campaign->n; i++) {
        Arena a = empty;
        campaign->options.seed = campaign->first + i;
        RandomModel m = random_model(&a, campaign->options.seed);
        check_one(campaign, a, &m);
        if (getenv("VERBOSE") && i % 10 == 9)
            print_counts(campaign);
    }
}

// A file as `print` writes it.
static RandomModel read_model(Arena *a, const char *file) {
    RandomModel m = {.batch = 4};
    if (file_read(a, str_c(file), &m.text) != GAN_OK) {
        fprintf(stderr, "%s\n", gan_error());
        exit(2);
    }
    if (str_starts(m.text, STR("# batch ")))
        m.batch = strtoll(m.text.ptr + 8, NULL, 10);
    return m;
}

// --- cases ---------------------------------------------------------------------------------------

// Checks the part of a list of seeds that `state` names. Fails also if too few models compile with
// finite numbers, to notice a broken generator.
static void expect_fine(void **state, Campaign *campaign) {
    uint64_t part = *(const uint32_t *)*state;
    campaign->n /= PARTS;
    campaign->first += part * campaign->n;
    check_seeds(campaign);
    print_counts(campaign);
    assert_int_equal(campaign->counted[VerdictWrong], 0);
    assert_true(campaign->counted[VerdictFine] >= campaign->n * 6 / 10);
}

static void every_configuration_matches_the_oracle(void **state) {
    expect_fine(state, &(Campaign){.n = CASES});
}

static void compiled_kernels_match_the_oracle(void **state) {
    expect_fine(state,
                &(Campaign){.first = 100000,
                            .n = COMPILED_CASES,
                            .options = {.compiled = true, .cache = STR(BUILD_DIR "/tests/cache")}});
}

// The emulator; NULL: there is no C++ compiler, or a sanitizer is in the way.
static const DeviceApi *emulated(void) {
#if WITH_SHIM
    if (shim_device_works())
        return &device_shim_alone;
#endif
    return NULL;
}

static const DeviceApi *need_card(void) {
    const DeviceApi *card = emulated();
    if (card)
        return card;
    print_message("no C++ compiler, or a sanitizer: CUDA kernels were not run\n");
    skip();
    return NULL;
}

static void cuda_kernels_match_the_oracle(void **state) {
    expect_fine(state, &(Campaign){.first = 200000, .n = CARD_CASES, .options.card = need_card()});
}

// Reduced models that once found a bug, which a comment in each describes.
static void expect_fixed(Campaign campaign) {
    Arena a = empty;
    StrVec names = {0};
    Str folder = STR(TEST_DIR "/random/found");
    assert_int_equal(dir_list(&a, folder, &names), GAN_OK);
    for (uint32_t i = 0; i < names.n; i++) {
        RandomModel m = read_model(&a, str_z(&a, path_join(&a, folder, names.at[i])));
        printf("%.*s\n", SARG(names.at[i]));
        check_one(&campaign, a, &m);
    }
    assert_int_equal(campaign.counted[VerdictFine], names.n);
    assert_true(names.n > 0);
}

static void fixed_bugs_stay_fixed(void **state) {
    (void)state;
    expect_fixed((Campaign){.options = {.compiled = true, .cache = STR(BUILD_DIR "/tests/cache")}});
}

static void fixed_bugs_stay_fixed_on_a_card(void **state) {
    (void)state;
    expect_fixed((Campaign){.options.card = need_card()});
}

// --- by hand -------------------------------------------------------------------------------------

static int command_line(int argc, char **argv) {
    Arena a = empty;
    const char *card = getenv("CARD");
    Campaign campaign = {.reduce = getenv("WHOLE") == NULL,
                         .options = {.compiled = getenv("COMPILED") != NULL,
                                     .card = !card                       ? NULL
                                             : strcmp(card, "cuda") == 0 ? &device_cuda
                                                                         : emulated()}};
    uint64_t first = argc > 2 ? strtoull(argv[2], NULL, 10) : 0;
    if (strcmp(argv[1], "print") == 0) {
        RandomModel m = random_model(&a, first);
        print_model(&m);
        return 0;
    }
    campaign.options.config = argc > 3 + (argv[1][1] == 'u') ? argv[argc - 1] : NULL;
    if (strcmp(argv[1], "replay") == 0) {
        RandomModel m = read_model(&a, argv[2]);
        check_one(&campaign, a, &m);
    } else {
        campaign.first = first;
        campaign.n = argc > 3 ? strtoull(argv[3], NULL, 10) : 1;
        check_seeds(&campaign);
    }
    print_counts(&campaign);
    return campaign.counted[VerdictWrong] != 0;
}

static const struct CMUnitTest lists[] = {
    cmocka_unit_test(every_configuration_matches_the_oracle),
    cmocka_unit_test(compiled_kernels_match_the_oracle),
    cmocka_unit_test(cuda_kernels_match_the_oracle),
};
enum { Lists = sizeof lists / sizeof *lists };

// The parts of all lists, numbered where there are several.
static void add_parts(struct CMUnitTest *out) {
    static char name[Lists * PARTS][64];
    static uint32_t part[PARTS];
    for (uint32_t i = 0; i < Lists * PARTS; i++) {
        part[i % PARTS] = i % PARTS;
        out[i] = lists[i / PARTS];
        out[i].initial_state = &part[i % PARTS];
        if (PARTS == 1)
            continue;
        snprintf(name[i], sizeof name[i], "%s_%u", out[i].name, i % PARTS);
        out[i].name = name[i];
    }
}

int main(int argc, char **argv) {
    struct CMUnitTest tests[Lists * PARTS + 2] = {
        [Lists * PARTS] = cmocka_unit_test(fixed_bugs_stay_fixed),
        cmocka_unit_test(fixed_bugs_stay_fixed_on_a_card),
    };
    add_parts(tests);
    bool hand = argc > 2 && (strcmp(argv[1], "run") == 0 || strcmp(argv[1], "print") == 0 ||
                             strcmp(argv[1], "replay") == 0);
    if (!hand)
        return ARENA_CASES(tests, (size_t)1 << 30);
    return arena_init(&empty, (size_t)1 << 32) == GAN_OK ? command_line(argc, argv) : 1;
}
