// shim_cases.c - see shim_cases.h.
#include "shim_cases.h"

#include <setjmp.h>

#include <cmocka.h>

void shim_cases_begin(ShimPlans *s, Arena *a, const Cases *cases) {
    shim_plans_begin(s, a, 1);
    for (uint32_t i = 0; i < cases->at.n; i++)
        shim_plans_add(s, &cases->at.at[i]->plan);
    shim_plans_compile(s);
}

static void run_region(void *user, const Plan *p, const Region *r, void *const *at,
                       const Counters *c) {
    shim_regions_twice(user, p, &(ShimRegion){r, at}, 1, c);
}

void shim_cases_run(ShimPlans *s, const Cases *cases) {
    if (!s->code)
        skip();
    for (uint32_t i = 0; i < cases->at.n; i++) {
        Arena mark = *s->arena;
        s->what = cases->at.at[i]->name;
        kernel_case_run(s->arena, cases->at.at[i], run_region, s);
        *s->arena = mark;
    }
}
