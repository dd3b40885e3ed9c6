// random_test.c - random models, computed in every configuration, against the oracle.
//
//   random_test                         a first batch of models; --list, CASE as elsewhere
//   random_test run FIRST COUNT [WAY]   models by seed; those that fail are reduced and printed
//   random_test print SEED              a model's text, its batch in a comment
//   random_test replay FILE [WAY]       the same for a file as printed (or written)
//
// COMPILED=1: compiled CPU kernels too. CARD=1: CUDA kernels, on the emulator. VERBOSE=1: refused
// models, and progress.
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
#endif

static Arena empty;

typedef struct Lot {
    uint64_t first, n;
    CheckOptions options;
    bool small; // failing models are made small
    uint64_t counted[VerdictWrong + 1];
    double slowest;
    uint64_t slowest_seed;
} Lot;

static void print_model(const RandomModel *m) {
    printf("# batch %lld\n%.*s", (long long)m->batch, SARG(m->text));
}

static void check_one(Lot *lot, Arena a, const RandomModel *m) {
    Finding f = check_model(&a, m, &lot->options);
    lot->counted[f.verdict]++;
    if (f.seconds > lot->slowest) {
        lot->slowest = f.seconds;
        lot->slowest_seed = lot->options.seed;
    }
    if (getenv("VERBOSE") && f.verdict != VerdictFine)
        printf("seed %llu: %.*s\n", (unsigned long long)lot->options.seed, SARG(f.text));
    if (f.verdict != VerdictWrong)
        return;
    printf("\nseed %llu fails: %.*s\n%.*s", (unsigned long long)lot->options.seed, SARG(f.label),
           SARG(f.text));
    if (lot->small) {
        RandomModel less = shrink_model(&a, m, &lot->options, f.label);
        Finding again = check_model(&a, &less, &lot->options);
        print_model(&less);
        printf("%.*s", SARG(again.text));
    } else
        print_model(m);
    fflush(stdout);
}

static void print_lot(const Lot *lot) {
    printf("%llu fine, %llu refused, %llu wild, %llu wrong; seed %llu took %.2f s\n",
           (unsigned long long)lot->counted[VerdictFine],
           (unsigned long long)lot->counted[VerdictRefused],
           (unsigned long long)lot->counted[VerdictWild],
           (unsigned long long)lot->counted[VerdictWrong], (unsigned long long)lot->slowest_seed,
           lot->slowest);
    fflush(stdout);
}

static void check_lot(Lot *lot) {
    for (uint64_t i = 0; i < lot->n; i++) {
        Arena a = empty;
        lot->options.seed = lot->first + i;
        RandomModel m = random_model(&a, lot->options.seed);
        check_one(lot, a, &m);
        if (getenv("VERBOSE") && i % 10 == 9)
            print_lot(lot);
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

// Most models compile and have numbers to compare: a maker that no longer does its work is noticed.
static void expect_fine(Lot *lot) {
    check_lot(lot);
    print_lot(lot);
    assert_int_equal(lot->counted[VerdictWrong], 0);
    assert_true(lot->counted[VerdictFine] >= lot->n * 6 / 10);
}

static void every_configuration_matches_the_oracle(void **state) {
    (void)state;
    expect_fine(&(Lot){.n = CASES});
}

static void compiled_kernels_match_the_oracle(void **state) {
    (void)state;
    expect_fine(&(Lot){.first = 100000,
                       .n = COMPILED_CASES,
                       .options = {.compiled = true, .cache = STR(BUILD_DIR "/tests/cache")}});
}

static bool has_card(void) {
#if WITH_SHIM
    return shim_device_works();
#else
    return false;
#endif
}

static void cuda_kernels_match_the_oracle(void **state) {
    (void)state;
    if (!has_card()) {
        print_message("no C++ compiler, or a sanitizer: CUDA kernels were not run\n");
        skip();
    }
    expect_fine(&(Lot){.first = 200000, .n = CARD_CASES, .options.card = true});
}

// What was found: a model each, made small, with the mistake in a comment.
static void fixed_bugs_stay_fixed(void **state) {
    (void)state;
    Arena a = empty;
    Lot lot = {
        .options = {.compiled = true, .card = has_card(), .cache = STR(BUILD_DIR "/tests/cache")}};
    StrVec names = {0};
    Str folder = STR(TEST_DIR "/random/found");
    assert_int_equal(dir_list(&a, folder, &names), GAN_OK);
    for (uint32_t i = 0; i < names.n; i++) {
        RandomModel m = read_model(&a, str_z(&a, path_join(&a, folder, names.at[i])));
        printf("%.*s\n", SARG(names.at[i]));
        check_one(&lot, a, &m);
    }
    assert_int_equal(lot.counted[VerdictFine], names.n);
    assert_true(names.n > 0);
}

// --- by hand -------------------------------------------------------------------------------------

static int by_hand(int argc, char **argv) {
    Arena a = empty;
    Lot lot = {.small = true,
               .options = {.compiled = getenv("COMPILED") != NULL, .card = getenv("CARD") != NULL}};
    uint64_t first = argc > 2 ? strtoull(argv[2], NULL, 10) : 0;
    if (strcmp(argv[1], "print") == 0) {
        RandomModel m = random_model(&a, first);
        print_model(&m);
        return 0;
    }
    lot.options.way = argc > 3 + (argv[1][1] == 'u') ? argv[argc - 1] : NULL;
    if (strcmp(argv[1], "replay") == 0) {
        RandomModel m = read_model(&a, argv[2]);
        check_one(&lot, a, &m);
    } else {
        lot.first = first;
        lot.n = argc > 3 ? strtoull(argv[3], NULL, 10) : 1;
        check_lot(&lot);
    }
    print_lot(&lot);
    return lot.counted[VerdictWrong] != 0;
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_configuration_matches_the_oracle),
        cmocka_unit_test(compiled_kernels_match_the_oracle),
        cmocka_unit_test(cuda_kernels_match_the_oracle),
        cmocka_unit_test(fixed_bugs_stay_fixed),
    };
    bool hand = argc > 2 && (strcmp(argv[1], "run") == 0 || strcmp(argv[1], "print") == 0 ||
                             strcmp(argv[1], "replay") == 0);
    if (!hand)
        return ARENA_CASES(tests, &empty, (size_t)1 << 30);
    return arena_init(&empty, (size_t)1 << 32) == GAN_OK ? by_hand(argc, argv) : 1;
}
