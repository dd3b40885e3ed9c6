// cases.h - one shape for every test program: no argument runs all cases, --list prints their
// names, a name runs that one. CTest asks for the list after the build and registers each case
// (tests/discover.cmake).
#ifndef GAN_CASES_H
#define GAN_CASES_H

#include <math.h>
#include <stdio.h>
#include <string.h>

// Of doubles; cmocka's assert_float_equal compares floats, and a NaN passes it.
#define assert_close(a, b, most) assert_true(fabs((a) - (b)) <= (most))

// For a cmocka table: true when the program only had to list its cases; sets the filter when one
// was named.
static inline _Bool cases_listed(int argc, char **argv, const struct CMUnitTest *tests, size_t n) {
    if (argc < 2)
        return 0;
    if (strcmp(argv[1], "--list")) {
        cmocka_set_test_filter(argv[1]);
        return 0;
    }
    for (size_t i = 0; i < n; i++)
        puts(tests[i].name);
    return 1;
}
#define CASES_LISTED(tests) cases_listed(argc, argv, tests, sizeof(tests) / sizeof *(tests))

#endif
