// shim_cases.c - see shim_cases.h.
#include "shim_cases.h"

#include <setjmp.h>

#include <cmocka.h>

static void run_region(void *user, const Plan *p, const Region *r, void *const *at,
                       const Counters *c) {
    shim_regions_twice(user, p, &(ShimRegion){r, at}, 1, c);
}

void shim_cases_run(const Cases *cases) {
    ShimPlans s = {0};
    shim_plans_begin(&s, cases->arena, 1);
    for (uint32_t i = 0; i < cases->at.n; i++)
        shim_plans_add(&s, &cases->at.at[i]->plan);
    shim_plans_compile(&s);
    if (!s.code)
        skip();
    for (uint32_t i = 0; i < cases->at.n; i++) {
        Arena mark = *cases->arena;
        s.what = cases->at.at[i]->name;
        kernel_case_run(cases->arena, cases->at.at[i], run_region, &s);
        *cases->arena = mark;
    }
    print_message("%u cases, %u kernels\n", cases->at.n, s.name.n);
    shim_plans_end(&s);
}
