// kernel_test.c - generated kernels against the reference evaluator.
//
// Each case is a small graph over a few slots. It is fused and its kernels written; all kernels of
// all cases are compiled as one file by the machine's compiler and loaded. Every case then runs its
// regions, each kernel in two calls so that the cut is tried, and compares every result and written
// slot with the graph evaluated node by node. The elementwise cases walk lang/ops.def: a new row is
// tested by being there.
#define _GNU_SOURCE // mkdtemp
#include "gen.h"
#include "interp.h"
#include "plan.h"

#include <setjmp.h>
#include <cmocka.h>
#include "cases.h"
#include <dlfcn.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_SLOTS = 16, MAX_CASES = 256 };

typedef struct Case {
    char name[64];
    double tolerance; // relative to the largest element
    Module m;
    Plan plan;
} Case;

static Arena arena;
static Case cases[MAX_CASES];
static uint32_t case_count;
static void *library;

// --- building ------------------------------------------------------------------------------------

static Case *begin(int64_t batch, double tolerance, const char *format, ...) {
    Case *c = &cases[case_count++];
    va_list args;
    va_start(args, format);
    vsnprintf(c->name, sizeof c->name, format, args);
    va_end(args);
    assert_true(case_count < MAX_CASES);
    c->tolerance = tolerance;
    c->m = (Module){.name = STR("kernels"), .batch = batch};
    Func *f = &c->m.step;
    f->name = STR("step");
    graph_init(&f->g, &arena, batch);
    f->g.raw = true; // what is written here is what is generated
    f->blocks = 1;
    vec_push(&arena, &f->tape, ((Ctl){.kind = CtlBlock}));
    return c;
}

static Graph *graph_of(Case *c) {
    return &c->m.step.g;
}

static Type shape(bool batched, uint32_t rank, ...) {
    int64_t dim[MAX_RANK];
    va_list args;
    va_start(args, rank);
    for (uint32_t i = 0; i < rank; i++)
        dim[i] = va_arg(args, int);
    va_end(args);
    return type_make(batched, rank, dim);
}

static Val input(Case *c, Type t) {
    Slot s = {.kind = SlotState, .name = STR("s"), .net = NONE, .type = t};
    vec_push(&arena, &c->m.slot, s);
    return Read(graph_of(c), c->m.slot.n - 1, 0, t);
}

static void result(Case *c, Val v) {
    vec_push(&arena, &c->m.step.result, ((Named){STR("r"), v.id, 0}));
}

static void write_slot(Case *c, uint32_t slot, Val v) {
    vec_push(&arena, &c->m.step.effect, Write(slot, v).id);
}

static void finish(Case *c) {
    PassOptions o = {.real = DtF32};
    c->plan = (Plan){.module = &c->m, .func = &c->m.step, .real = DtF32};
    fuse(&arena, &o, &c->plan);
    gen_kernels(&arena, &c->plan, &dialect_c);
}

// --- the cases -----------------------------------------------------------------------------------

// Inputs of test_number in (-1, 1), brought into the row's domain.
static Val domain(Val x, Domain d, uint32_t k) {
    switch (d) {
    case DomainPOS:
        return Add(Abs(x), Num(x, 0.1));
    case DomainSMALL:
        return Mul(x, Num(x, 2));
    case DomainBOOL:
        return k == 0 ? Gt(x, Num(x, 0)) : x;
    case DomainANY:
        break;
    }
    return Mul(x, Num(x, 3));
}

static void elementwise_cases(void) {
    for (uint32_t op = OpNone + 1; op < OpCount; op++) {
        if (op_info[op].cls != ClassEW || op == OpPin)
            continue;
        for (int variant = 0; variant < 3; variant++) {
            Dtype dtype = variant == 2 ? DtBF16 : DtF32;
            Case *c = begin(3, variant == 2 ? 2e-2 : 2e-5, "%s %d", op_info[op].text, variant);
            Type t[3] = {shape(true, 3, 5, 7, 3), shape(true, 3, 5, 7, 3), shape(true, 3, 5, 7, 3)};
            if (variant == 1) {
                t[1] = shape(false, 1, 5);
                t[2] = shape(true, 3, 1, 7, 1);
            }
            uint32_t in[3];
            for (uint32_t k = 0; k < op_info[op].least; k++) {
                t[k].dtype = (uint8_t)dtype;
                in[k] = domain(input(c, t[k]), (Domain)op_info[op].domain, k).id;
            }
            Graph *g = graph_of(c);
            result(c, (Val){g, graph_add(g, (Op)op, in, op_info[op].least, NULL, NULL)});
            finish(c);
        }
    }
}

// Sums, maxima and indices of maxima over every set of axes of shapes that make each kind of loop.
static void reduction_cases(void) {
    static const struct {
        int batch, rank, dim[3];
        bool batched;
    } shapes[] = {
        {3, 3, {5, 7, 11}, true},    {2, 1, {70}, true},      {40, 2, {3, 50}, true},
        {64, 3, {16, 24, 24}, true}, {9, 2, {33, 65}, false}, {300, 1, {2500}, true},
        {2, 3, {2, 130, 130}, true}, {1, 2, {8, 5000}, true},
    };
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
        int rank = shapes[s].rank;
        for (uint32_t axes = 1; axes < 2u << rank; axes++) {
            if (!shapes[s].batched && axes & 1)
                continue;
            int64_t dim[3] = {shapes[s].dim[0], shapes[s].dim[1], shapes[s].dim[2]};
            Type t = type_make(shapes[s].batched, (uint32_t)rank, dim);
            Case *c = begin(shapes[s].batch, 2e-5, "reduce shape %zu axes %u", s, axes);
            Val x = input(c, t), y = Mul(x, Add(x, Num(x, 0.5)));
            result(c, Sum(y, axes));
            if (!(axes & 1)) {
                result(c, MaxOf(y, axes));
                result(c, ArgMax(x, axes));
            }
            finish(c);
        }
    }
    Case *c = begin(12, 1e-5, "group_sum");
    Val x = input(c, shape(true, 3, 4, 5, 6));
    result(c, GroupSum(Mul(x, x), 4));
    finish(c);
    c = begin(3, 1e-2, "bf16 sums");
    Type t = shape(true, 3, 8, 9, 10);
    t.dtype = DtBF16;
    x = input(c, t);
    result(c, Sum(Mul(x, x), 1 | 4 | 8));
    result(c, Sum(x, 4 | 8));
    finish(c);
}

// A border of two elements, reflected.
static Val mirror(Val x, uint32_t axis) {
    Type t = *node_type(x.g, x.id);
    int64_t first[3] = {0}, last[3] = {0}, n[3] = {t.dim[0], t.dim[1], t.dim[2]};
    first[axis] = 1;
    last[axis] = n[axis] - 3;
    n[axis] = 2;
    return Concat((Val[]){Flip(Slice(x, first, n, NULL), 2u << axis), x,
                          Flip(Slice(x, last, n, NULL), 2u << axis)},
                  3, axis);
}

static void move_cases(void) {
    Type t = shape(true, 3, 4, 6, 10);
    static const uint32_t order[3] = {2, 0, 1};
    static const int64_t from[3] = {1, 0, 2}, count[3] = {3, 3, 4}, step[3] = {1, 2, 2};
    static const int64_t before[3] = {0, 1, 2}, wide[3] = {4, 13, 33}, steps[3] = {1, 2, 3};
    static const int64_t pad_before[3] = {0, 1, 1}, padded[3] = {4, 8, 12};
    static const int64_t flat[1] = {240}, odd[2] = {15, 16}, split[5] = {4, 2, 3, 5, 2},
                         merged[3] = {16, 3, 5};
    static const uint32_t shuffle[5] = {0, 1, 4, 2, 3};
    for (int k = 0; k < 12; k++) {
        Case *c = begin(3, 1e-6, "move %d", k);
        Val x = input(c, t), y = Add(x, Num(x, 1)), m = y;
        switch (k) {
        case 0:
            m = Permute(y, order);
            break;
        case 1:
            m = Slice(y, from, count, step);
            break;
        case 2:
            m = Pad(y, before, steps, wide);
            break;
        case 3:
            m = Pad(Pad(y, pad_before, NULL, padded), before, steps, (int64_t[]){4, 20, 60});
            break;
        case 4:
            m = Flip(y, 2 | 8);
            break;
        case 5:
            m = Reshape(y, 1, flat);
            break;
        case 6:
            m = Reshape(y, 2, odd);
            break;
        case 7:
            m = Reshape(Permute(Reshape(y, 5, split), shuffle), 3, merged);
            break;
        case 8:
            m = Concat((Val[]){y, x, Flip(y, 4)}, 3, 1);
            break;
        case 9:
            m = Expand(Sum(y, 4 | 8), t);
            break;
        case 10:
            m = Concat((Val[]){Slice(y, (int64_t[]){0, 1, 0}, (int64_t[]){4, 2, 10}, NULL), y}, 2,
                       1);
            break;
        case 11:
            m = mirror(mirror(y, 1), 2);
            break;
        }
        result(c, m);         // stored as it is,
        result(c, Mul(m, m)); // read through by arithmetic,
        result(c, Sum(m, 1)); // and by reductions
        result(c, Sum(m, (2u << node_type(m.g, m.id)->rank) - 1));
        finish(c);
    }
}

static void other_cases(void) {
    Case *c = begin(5, 1e-6, "gather and scatter");
    Val table = input(c, shape(false, 3, 6, 3, 2)),
        label = Floor(Mul(input(c, shape(true, 0)), Num(table, 6)));
    Val rows = Gather(table, label);
    result(c, Mul(rows, rows));
    result(c, Scatter(Add(rows, Num(rows, 1)), label, shape(false, 3, 6, 3, 2)));
    finish(c);

    c = begin(2, 1e-6, "a long row of moves");
    Val row = input(c, shape(true, 1, 3)), last = input(c, shape(true, 1, 2));
    for (int i = 0; i < 40; i++)
        row = Concat((Val[]){row, Neg(last)}, 2, 0);
    result(c, Mul(row, row));
    finish(c);

    c = begin(4, 1e-6, "indices");
    Val x = input(c, shape(true, 2, 3, 5));
    result(c, Add(x, Iota(graph_of(c), 2 | 4, shape(false, 2, 3, 5))));
    result(c, Eq(Iota(graph_of(c), 1 | 2, shape(true, 2, 3, 1)), Num(x, 4)));
    finish(c);

    for (Dist d = DistUniform; d <= DistCategorical; d++) {
        c = begin(3, 2e-6, "draws %d", (int)d);
        result(c, Rand(graph_of(c), d, 7, 10, shape(true, 3, 3, 4, 5)));
        result(c, Rand(graph_of(c), d, 8, 10, shape(false, 2, 33, 3)));
        finish(c);
    }

    c = begin(1, 1e-5, "adam in place");
    Type w = shape(false, 2, 70, 33);
    Val p = input(c, w), g = input(c, w), m = input(c, w), v = input(c, w),
        n = input(c, shape(false, 0));
    Val next = Add(n, Num(n, 1));
    Val m1 = Add(Mul(m, Num(m, 0.9)), Mul(g, Num(g, 0.1))),
        v1 = Add(Mul(v, Num(v, 0.9)), Mul(Mul(g, g), Num(g, 0.1)));
    Val rate = Div(Num(n, 0.01), Sub(Num(n, 1), Pow(Num(n, 0.5), Add(Abs(next), Num(n, 1)))));
    write_slot(c, 0, Sub(p, Div(Mul(m1, rate), Add(Sqrt(Abs(v1)), Num(v, 0.1)))));
    write_slot(c, 2, m1);
    write_slot(c, 3, v1);
    write_slot(c, 4, next);
    finish(c);

    c = begin(4, 2e-5, "a table that only minima read");
    Val a = input(c, shape(true, 2, 3, 40)), b = input(c, shape(true, 2, 3, 50));
    Type cube = shape(true, 3, 3, 40, 50);
    Val d = Sub(Expand(Reshape(a, 3, (int64_t[]){3, 40, 1}), cube),
                Reshape(b, 3, (int64_t[]){3, 1, 50}));
    Val squares = Neg(Reshape(Sum(Mul(d, d), 2), 2, (int64_t[]){40, 50}));
    result(c, Sum(MaxOf(squares, 2), 4));
    result(c, Sum(MaxOf(squares, 4), 2));
    finish(c);

    c = begin(8, 2e-5, "batch norm");
    x = input(c, shape(true, 3, 6, 8, 8));
    Val y = Add(x, input(c, shape(false, 1, 6))), z = Mul(y, y);
    Val mean = Mul(Sum(y, 1 | 4 | 8), Num(y, 1.0 / 512)), centred = Sub(y, mean);
    Val dev =
        Sqrt(Add(Mul(Sum(Mul(centred, centred), 1 | 4 | 8), Num(y, 1.0 / 512)), Num(y, 1e-3)));
    result(c, Max(Div(centred, dev), Num(y, 0)));
    result(c, Sum(z, 2 | 4 | 8));
    finish(c);
}

// --- compiling -----------------------------------------------------------------------------------

static int compile_all(void **state) {
    (void)state;
    char dir[] = "/tmp/kernel_test-XXXXXX";
    Map seen = {0};
    Text t = {.arena = &arena};
    assert_int_equal(arena_init(&arena, 0), GAN_OK);
    elementwise_cases();
    reduction_cases();
    move_cases();
    other_cases();
    text_put(&t, gen_prelude(&dialect_c));
    for (uint32_t i = 0; i < case_count; i++) {
        for (uint32_t k = 0; k < cases[i].plan.kernel.n; k++) {
            const Kernel *kernel = &cases[i].plan.kernel.at[k];
            uint64_t h = hash64(kernel->name.ptr, kernel->name.len, 0);
            if (!map_find(&seen, h)) {
                map_put(&arena, &seen, h, 1);
                text_put(&t, kernel->source);
            }
        }
    }
    if (!mkdtemp(dir))
        return -1;
    Str all = text_str(&t), source = path_join(&arena, str_c(dir), STR("k.c")),
        object = path_join(&arena, str_c(dir), STR("k.so"));
    const char *argv[] = {"cc",
                          "-std=c17",
                          "-O3",
                          "-march=native",
                          "-ffp-contract=fast",
                          "-fno-math-errno",
                          "-fno-trapping-math",
                          "-w",
                          "-fPIC",
                          "-shared",
                          str_z(&arena, source),
                          "-o",
                          str_z(&arena, object),
                          "-lm",
                          NULL};
    Str said;
    int code = 1;
    assert_int_equal(file_write_atomic(source, all.ptr, all.len), GAN_OK);
    assert_int_equal(process_run(&arena, argv, &said, &code), GAN_OK);
    if (code != 0)
        print_error("%.*s\n", SARG(said));
    library = code == 0 ? dlopen(str_z(&arena, object), RTLD_NOW | RTLD_LOCAL) : NULL;
    file_remove(source);
    file_remove(object);
    rmdir(dir);
    return library ? 0 : -1;
}

static int release_all(void **state) {
    (void)state;
    dlclose(library);
    arena_release(&arena);
    return 0;
}

// --- running -------------------------------------------------------------------------------------

typedef void KernelFn(void *const *p, const Counters *c, int64_t lo, int64_t hi);
typedef void FinishFn(void *const *p);

typedef struct Run {
    const Case *c;
    const Graph *g;
    Counters counters;
    void **at;   // [node] storage of what is stored, in the device's layout
    void **slot; // [slot]
} Run;

static float bf16_float(uint16_t x) {
    uint32_t u = (uint32_t)x << 16;
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
}

// Moves one value between logical doubles and the device's layout.
static void convert(const Graph *g, const Type *t, void *device, double *logical, bool to_device) {
    int64_t stride[MAX_RANK + 1], n = type_elements(g, t), digit[MAX_RANK + 1] = {0};
    type_strides(t, stride);
    for (int64_t i = 0; i < n; i++) {
        int64_t at = 0;
        for (uint32_t d = 0; d <= t->rank; d++)
            at += digit[d] * stride[d];
        if (to_device && t->dtype == DtBF16) {
            float f = (float)logical[i];
            uint32_t u;
            memcpy(&u, &f, sizeof u);
            ((uint16_t *)device)[at] = (uint16_t)(u >> 16);
        } else if (to_device) {
            ((float *)device)[at] = (float)logical[i];
        } else {
            logical[i] = t->dtype == DtBF16 ? (double)bf16_float(((uint16_t *)device)[at])
                                            : (double)((float *)device)[at];
        }
        for (uint32_t d = t->rank + 1; d-- > 0 && ++digit[d] == (d            ? t->dim[d - 1]
                                                                 : t->batched ? g->batch
                                                                              : 1);)
            digit[d] = 0;
    }
}

static void *fresh(const Graph *g, uint32_t id) {
    size_t bytes = type_bytes(g, node_type(g, id));
    void *p = arena_alloc(&arena, bytes, 64);
    memset(p, 0xff, bytes); // nothing may be read before it is written
    return p;
}

static void run_kernel(Run *r, const Region *region) {
    const Kernel *k = &r->c->plan.kernel.at[region->kernel];
    void *p[64];
    uint32_t n = 0;
    KernelFn *kernel;
    FinishFn *last;
    void *symbol = dlsym(library, str_z(&arena, k->name));
    assert_non_null(symbol);
    memcpy(&kernel, &symbol, sizeof symbol);
    for (uint32_t i = 0; i < region->in.n; i++)
        p[n++] = r->at[region->in.at[i]];
    for (uint32_t i = 0; i < region->out.n; i++) {
        uint32_t id = region->out.at[i];
        if (r->g->node.at[id].op == OpWrite)
            r->at[id] = r->slot[node_attr(r->g, id)->i[0]];
        else
            r->at[id] = fresh(r->g, id);
        p[n++] = r->at[id];
    }
    p[n] = arena_alloc(&arena, region->scratch + 1, 64);
    memset(p[n++], 0xff, region->scratch);
    p[n++] = region->number.at;
    int64_t units = region->units, cut = units / 3;
    kernel(p, &r->counters, cut, units);
    kernel(p, &r->counters, 0, cut);
    if (k->finish) {
        symbol = dlsym(library, str_format(&arena, "%.*s_finish", SARG(k->name)).ptr);
        assert_non_null(symbol);
        memcpy(&last, &symbol, sizeof symbol);
        last(p);
    }
}

static void check(const Run *r, const char *what, uint32_t id, void *device, const double *right) {
    const Type *t = node_type(r->g, id);
    int64_t n = type_elements(r->g, t);
    double *is = arena_array(&arena, double, n), most = 0;
    convert(r->g, t, device, is, false);
    for (int64_t i = 0; i < n; i++)
        most = fabs(right[i]) > most ? fabs(right[i]) : most;
    for (int64_t i = 0; i < n; i++)
        if (!(fabs(is[i] - right[i]) <= r->c->tolerance * (most + 1e-3)))
            fail_msg("%s: %s %s %%%u element %lld is %.9g, not %.9g", r->c->name, what,
                     op_info[r->g->node.at[id].op].text, id, (long long)i, is[i], right[i]);
}

static void run_case(Case *c) {
    Run r = {.c = c,
             .g = &c->m.step.g,
             .counters = {.seed = 0x1234567890abcdef, .step = 3, .sample0 = 2}};
    Interp ref = interp_make(&arena, r.g);
    ref.counters = r.counters;
    r.at = arena_array(&arena, void *, r.g->node.n);
    r.slot = arena_array(&arena, void *, c->m.slot.n);
    for (uint32_t id = 1; id < r.g->node.n; id++) {
        if (r.g->node.at[id].op != OpRead)
            continue;
        uint32_t slot = (uint32_t)node_attr(r.g, id)->i[0];
        double *x = interp_set(&ref, id);
        for (int64_t i = 0; i < interp_count(&ref, id); i++)
            x[i] = test_number((uint64_t)slot << 32 | (uint64_t)i);
        r.at[id] = r.slot[slot] = fresh(r.g, id);
        convert(r.g, node_type(r.g, id), r.at[id], x, true);
        convert(r.g, node_type(r.g, id), r.at[id], x, false); // as the device rounds it
    }
    interp_run(&ref);
    for (uint32_t i = 0; i < c->plan.region.n; i++) {
        assert_int_equal(c->plan.region.at[i].kind, RegionLoop);
        run_kernel(&r, &c->plan.region.at[i]);
    }
    for (uint32_t i = 0; i < c->m.step.result.n; i++) {
        uint32_t id = c->m.step.result.at[i].node;
        check(&r, "result", id, r.at[c->plan.place[id].owner], ref.value[id]);
    }
    for (uint32_t i = 0; i < c->m.step.effect.n; i++) {
        uint32_t id = c->m.step.effect.at[i];
        check(&r, "effect", id, r.at[id], ref.value[id]);
    }
}

static void kernels_agree_with_the_evaluator(void **state) {
    (void)state;
    for (uint32_t i = 0; i < case_count; i++)
        run_case(&cases[i]);
    print_message("%u cases\n", case_count);
}

// The table of squared distances of the case above is promised never to be stored.
static void a_table_read_by_minima_is_not_stored(void **state) {
    (void)state;
    for (uint32_t i = 0; i < case_count; i++) {
        const Case *c = &cases[i];
        for (uint32_t k = 0; strstr(c->name, "only minima") && k < c->plan.region.n; k++)
            for (uint32_t o = 0; o < c->plan.region.at[k].out.n; o++)
                assert_true(type_sample(node_type(&c->m.step.g, c->plan.region.at[k].out.at[o])) <
                            2000);
    }
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kernels_agree_with_the_evaluator),
        cmocka_unit_test(a_table_read_by_minima_is_not_stored),
    };
    if (CASES_LISTED(tests)) {
        return 0;
    }
    return cmocka_run_group_tests(tests, compile_all, release_all);
}
