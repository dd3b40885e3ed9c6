// launch_of.h - for tests: which launch runs a region.
#ifndef GAN_LAUNCH_OF_H
#define GAN_LAUNCH_OF_H

#include "program.h"

#include <setjmp.h>

#include <cmocka.h>

// Fails the test where none does.
static inline uint32_t launch_of(const Plan *p, uint32_t region) {
    for (uint32_t l = 0; l < p->launch.n; l++)
        for (uint32_t i = 0; i < p->launch.at[l].instances; i++)
            if (p->merge.at[p->launch.at[l].first + i] == region)
                return l;
    _fail(__FILE__, __LINE__);
    return 0;
}

#endif
