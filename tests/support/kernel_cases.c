// kernel_cases.c - small graphs that together cover every kind of kernel (kernel_cases.h).
#include "kernel_cases.h"
#include "stages.h"

#include <math.h>
#include <stdarg.h>

// --- building ------------------------------------------------------------------------------------

Case *case_begin(Cases *all, int64_t batch, double tolerance, const char *format, ...) {
    Case *c = arena_new(all->arena, Case);
    vec_push(all->arena, &all->at, c);
    c->all = all;
    va_list args;
    va_start(args, format);
    vsnprintf(c->name, sizeof c->name, format, args);
    va_end(args);
    c->tolerance = tolerance;
    c->m = (Module){.name = STR("kernels"), .batch = batch};
    Func *f = &c->m.step;
    f->name = STR("step");
    graph_init(&f->g, all->arena, batch);
    c->at = (Builder){.g = &f->g, .raw = true}; // no simplification of the cases
    f->blocks = 1;
    vec_push(all->arena, &f->tape, ((Ctl){.kind = CtlBlock}));
    return c;
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

Val case_input(Case *c, Type t) {
    Slot s = {.kind = SlotState, .name = STR("s"), .net = NONE, .type = t};
    vec_push(c->all->arena, &c->m.slot, s);
    return Read(&c->at, c->m.slot.n - 1, 0, t);
}

void case_result(Case *c, Val v) {
    vec_push(c->all->arena, &c->m.step.result, ((Named){STR("r"), v.id, 0}));
}

static void write_slot(Case *c, uint32_t slot, Val v) {
    vec_push(c->all->arena, &c->m.step.effect, Write(slot, v).id);
}

void case_finish(Case *c, Dtype real) {
    PassOptions o = {.real = real, .few_launches = gen_few_launches(c->all->dialect)};
    c->plan = (Plan){.module = &c->m, .func = &c->m.step, .real = real};
    fuse(c->all->arena, &o, &c->plan);
    gen_kernels(c->all->arena, &c->plan, c->all->dialect);
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

// x, but NaN in about every tenth element.
static Val with_nans(Val x) {
    return Where(Gt(x, Num(x, 0.8)), Num(x, NAN), x);
}

static void elementwise_cases(Cases *all) {
    for (uint32_t op = OpNone + 1; op < OpCount; op++) {
        if (op_info[op].cls != ClassEW || op == OpPin)
            continue;
        for (int variant = 0; variant < 5; variant++) {
            Dtype dtype = variant == 2 ? DtBF16 : variant == 3 ? DtF16 : DtF32;
            double tolerance = variant == 2 ? 2e-2 : variant == 3 ? 3e-3 : 2e-5;
            Case *c = case_begin(all, 3, tolerance, "%s %d", op_info[op].text, variant);
            Type t[3] = {shape(true, 3, 5, 7, 3), shape(true, 3, 5, 7, 3), shape(true, 3, 5, 7, 3)};
            if (variant == 1) {
                t[1] = shape(false, 1, 5);
                t[2] = shape(true, 3, 1, 7, 1);
            }
            uint32_t in[3];
            for (uint32_t k = 0; k < op_info[op].least; k++) {
                t[k].dtype = (uint8_t)dtype;
                Val x = domain(case_input(c, t[k]), (Domain)op_info[op].domain, k);
                in[k] = (variant == 4 ? with_nans(x) : x).id;
            }
            case_result(
                c, (Val){&c->at, builder_add(&c->at, (Op)op, in, op_info[op].least, NULL, NULL)});
            case_finish(c, DtF32);
        }
    }
}

static Val cast(Val x, Dtype to) {
    Type t = val_type(x);
    t.dtype = (uint8_t)to;
    return (Val){x.b, builder_add(x.b, OpCast, &x.id, 1, NULL, &t)};
}

// The rounding error of a cast to 16 bits, for a stored value, one that is not, and in a sum.
static void rounding_cases(Cases *all) {
    static const Dtype halves[] = {DtBF16, DtF16};
    for (size_t i = 0; i < sizeof halves / sizeof *halves; i++) {
        for (int stored = 0; stored < 2; stored++) {
            Case *c = case_begin(all, 3, 2e-5, "rounded to %s %s", dtype_name[halves[i]],
                                 stored ? "and stored" : "on its way");
            c->rounds = true;
            Val x = case_input(c, shape(true, 3, 5, 7, 3)), kept = cast(x, halves[i]);
            Val lost = Sub(CastTo(kept, x), x);
            if (stored)
                case_result(c, kept);
            case_result(c, lost);
            case_result(c, Sum(Abs(lost), 4 | 8));
            case_finish(c, DtF32);
        }
    }
}

// Squares about a mean a thousand deviations from zero, and with a first term (of a thread or core)
// a thousand deviations from the others: computed as sums of x^2 in f32 they would have no correct
// digit, and as sums about the first term only half of them.
static void far_cases(Cases *all) {
    static const uint32_t axes[] = {1 | 4 | 8, 4 | 8, 2, 1 | 2 | 4 | 8};
    for (size_t i = 0; i < sizeof axes / sizeof *axes; i++) {
        for (int odd = 0; odd < 2; odd++) {
            Case *c =
                case_begin(all, 64, 2e-5, "%s squares over axes %u", odd ? "odd" : "far", axes[i]);
            c->rounds = true; // only the terms: their rounding is not the sum's error
            Val x = case_input(c, shape(true, 3, 16, 24, 24)), from = Num(x, 600);
            Val first = Eq(Iota(x.b, axes[i], val_type(x)), Num(x, 0));
            Val y = odd ? Add(x, Mul(first, from)) : Add(x, from);
            case_result(c, Squares(y, axes[i]));
            case_result(c, Sum(y, axes[i]));
            case_finish(c, DtF32);
        }
    }
}

// NaN is the maximum, and arg_max gives the first one: in loops, and for a few terms that are
// unrolled.
static void nan_cases(Cases *all) {
    static const struct {
        int64_t dim[3];
        uint32_t axes;
    } of[] = {{{5, 7, 11}, 8},     {{5, 7, 11}, 2},   {{3, 40, 50}, 4 | 8},
              {{40, 3, 2}, 4 | 8}, {{2, 9, 8000}, 8}, {{2, 130, 130}, 2 | 4 | 8}};
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        Case *c = case_begin(all, 2, 2e-5, "greatest of %zu with NaN", i);
        Val x = with_nans(case_input(c, type_make(true, 3, of[i].dim)));
        case_result(c, MaxOf(x, of[i].axes));
        case_result(c, ArgMax(x, of[i].axes));
        case_finish(c, DtF32);
    }
}

// The maximum and its index in either order; a maximum alone, which is split; plans in other
// precisions: sums of 16-bit plans are f32, squares about a mean far from zero are not.
static void accumulator_cases(Cases *all) {
    Case *c = case_begin(all, 3, 1e-6, "an index before its maximum");
    Val x = case_input(c, shape(true, 2, 6, 50));
    case_result(c, ArgMax(x, 4));
    case_result(c, MaxOf(x, 4));
    case_finish(c, DtF32);
    c = case_begin(all, 2, 1e-6, "a maximum alone");
    case_result(c, MaxOf(case_input(c, shape(true, 2, 130, 520)), 2 | 4));
    case_finish(c, DtF32);
    for (int wide = 0; wide < 2; wide++) {
        Dtype real = wide ? DtF64 : DtBF16;
        c = case_begin(all, 64, wide ? 1e-9 : 2e-5, "sums of a plan in %s", dtype_name[real]);
        c->rounds = !wide;
        Type t = shape(true, 2, 5, 2500);
        t.dtype = wide ? DtF64 : DtF32;
        x = case_input(c, t);
        Val far = Add(Mul(x, Num(x, 0.1)), Num(x, 60));
        case_result(c, Sum(far, 1 | 4));
        case_result(c, Squares(far, 1 | 4));
        case_result(c, Sum(Mul(x, x), 1 | 2 | 4));
        case_result(c, MaxOf(far, 2 | 4));
        case_finish(c, real);
    }
}

// What larger loops read of maxima, sums and squares alone: a card computes it where these are
// known, of a maximum that its index has beside it as well.
static void derived_cases(Cases *all) {
    static const uint32_t axes[] = {4 | 8, 2 | 4 | 8, 8};
    for (size_t i = 0; i < sizeof axes / sizeof *axes; i++) {
        for (int index = 0; index < 2; index++) {
            Case *c = case_begin(all, 3, 2e-5, "functions of results over axes %u%s", axes[i],
                                 index ? ", and an index" : "");
            Val x = case_input(c, shape(true, 3, 6, 5, 70)), one = Num(x, 1);
            if (index)
                case_result(c, ArgMax(x, axes[i]));
            case_result(c, Sum(x, axes[i]));
            Val peak = Sqrt(Add(one, Exp(MaxOf(x, axes[i])))),
                dev = Sqrt(Add(one, Squares(x, axes[i])));
            case_result(c, Mul(x, Mul(peak, dev)));
            case_finish(c, DtF32);
        }
    }
}

// What is computed of sums and an element's place, which no loop over the sums knows.
static void placed_cases(Cases *all) {
    for (int padded = 0; padded < 2; padded++) {
        Case *c = case_begin(all, 3, 2e-5, "functions of sums and %s",
                             padded ? "a constant within a border" : "a constant for each channel");
        Val x = case_input(c, shape(true, 3, 6, 5, 70)), one = Num(x, 1);
        Type channels = shape(false, 3, 4, 1, 1), rest = shape(false, 3, 2, 1, 1);
        Val part[] = {Expand(one, channels), Expand(Num(x, 3), rest)};
        Val place = padded ? Pad(part[0], (int64_t[]){1, 0, 0}, NULL, (int64_t[]){6, 1, 1})
                           : Concat(part, 2, 0);
        Val dev = Sqrt(Add(Mul(Sum(Mul(x, x), 4 | 8), place), one));
        case_result(c, Mul(x, dev));
        case_finish(c, DtF32);
    }
}

// As many sums in one kernel as leave a thread of a card registers for three parts of each at a
// time (gen/emit_join.c).
static void many_sums(Cases *all) {
    enum { SUMS = 10 };
    Case *c = case_begin(all, 1, 2e-5, "%d sums", SUMS);
    Val x = case_input(c, type_make(false, 2, (int64_t[]){200, 300}));
    for (int i = 0; i < SUMS; i++)
        case_result(c, Sum(Abs(Sub(x, Num(x, 0.1 * i))), 2 | 4));
    case_finish(c, DtF32);
}

// Sums, squares, maxima and indices of maxima over every set of axes of shapes that make each kind
// of loop.
static void reduction_cases(Cases *all) {
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
            Case *c = case_begin(all, shapes[s].batch, 2e-5, "reduce shape %zu axes %u", s, axes);
            Val x = case_input(c, t), y = Mul(x, Add(x, Num(x, 0.5)));
            case_result(c, Sum(y, axes));
            case_result(c, Squares(y, axes));
            case_result(c, Squares(x, axes)); // a second shift in the same shared memory
            if (!(axes & 1)) {
                case_result(c, MaxOf(y, axes));
                case_result(c, ArgMax(x, axes));
            }
            case_finish(c, DtF32);
        }
    }
    far_cases(all);
    Case *c = case_begin(all, 12, 1e-5, "group_sum");
    Val x = case_input(c, shape(true, 3, 4, 5, 6));
    case_result(c, GroupSum(Mul(x, x), 4));
    case_finish(c, DtF32);
    c = case_begin(all, 3, 1e-2, "bf16 sums");
    Type t = shape(true, 3, 8, 9, 10);
    t.dtype = DtBF16;
    x = case_input(c, t);
    case_result(c, Sum(Mul(x, x), 1 | 4 | 8));
    case_result(c, Sum(x, 4 | 8));
    case_finish(c, DtF32);
    many_sums(all);
}

// One computation in four shapes: a card's teams are of several units a block, whole or in pieces,
// and steps fill the unrolled loop or not. All four have one kernel (Team.open).
static void shape_case(Cases *all, const char *lie, uint32_t axis, bool stored,
                       const int64_t of[4][2]) {
    Case *c = case_begin(all, 1, 2e-5, "teams of several shapes, %s, %s", lie,
                         stored ? "stored" : "reduced");
    for (int i = 0; i < 4; i++) {
        int64_t row[2] = {axis == 1 ? 1 : of[i][0], axis == 2 ? 1 : of[i][1]};
        Val x = case_input(c, type_make(false, 2, of[i]));
        Val z = case_input(c, type_make(false, 2, row)), by = Add(Mul(z, z), Num(x, 0.5));
        Val y = stored ? Div(x, by) : Add(x, by);
        if (stored)
            case_result(c, y);
        else
            case_result(c, Squares(y, 1u << axis));
        case_result(c, Sum(y, 1u << axis));
    }
    case_finish(c, DtF32);
}

static void shape_cases(Cases *all) {
    static const int64_t split[4][2] = {{1000, 64}, {1024, 64}, {4000, 64}, {4097, 128}},
                         across[4][2] = {{16, 64}, {31, 64}, {64, 64}, {100, 64}},
                         along[4][2] = {{40, 32}, {40, 1024}, {5, 4096}, {3, 4000}},
                         stored[4][2] = {{40, 1024}, {9, 1000}, {5, 8192}, {3, 8000}};
    for (int i = 0; i < 2; i++) {
        shape_case(all, "split", 1, i, split);
        shape_case(all, "across", 1, i, across);
        shape_case(all, "along", 2, i, i ? stored : along);
    }
}

// A border of two elements, reflected.
static Val mirror(Val x, uint32_t axis) {
    Type t = val_type(x);
    int64_t first[3] = {0}, last[3] = {0}, n[3] = {t.dim[0], t.dim[1], t.dim[2]};
    first[axis] = 1;
    last[axis] = n[axis] - 3;
    n[axis] = 2;
    return Concat((Val[]){Flip(Slice(x, first, n, NULL), 2u << axis), x,
                          Flip(Slice(x, last, n, NULL), 2u << axis)},
                  3, axis);
}

// Tables of all pairs, in whose rows a card's thread takes several at a time (team_pack.c): as many
// as there are threads enough for, and that divide the rows or not.
static void pair_cases(Cases *all) {
    static const int of[][3] = {{3, 835, 843}, {2, 512, 1028}, {5, 411, 260}};
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        int p = of[i][1], q = of[i][2];
        for (int sums = 0; sums < 2; sums++) {
            Case *c = case_begin(all, (uint32_t)of[i][0], 2e-5, "pairs of %d and %d, %s", p, q,
                                 sums ? "sums" : "minima");
            Val x = case_input(c, shape(true, 2, 3, p)), y = case_input(c, shape(true, 2, 3, q));
            x = sums ? x : with_nans(x);
            Val from = Reshape(Add(y, Num(y, 0.25)), 3, (int64_t[]){3, 1, q});
            Val d = Sub(Reshape(x, 3, (int64_t[]){3, p, 1}), from), near = Neg(Sum(Mul(d, d), 2));
            for (uint32_t axes = 4; axes <= 8; axes += 4) {
                case_result(c, sums ? Sum(near, axes) : MaxOf(near, axes));
                case_result(c, sums ? Squares(near, axes) : ArgMax(near, axes));
            }
            case_finish(c, DtF32);
        }
    }
}

// Loads that are contiguous along another axis than the stores, or than the other loads: of extents
// that packs divide along one, both or none.
static void transpose_cases(Cases *all) {
    static const int of[][2] = {{24, 40}, {33, 40}, {40, 33}, {33, 35}, {12, 8}, {64, 260}};
    for (size_t i = 0; i < 2 * sizeof of / sizeof *of; i++) {
        int p = of[i / 2][0], q = of[i / 2][1];
        Dtype dtype = i % 2 ? DtBF16 : DtF32;
        Case *c = case_begin(all, 5, i % 2 ? 2e-2 : 2e-5, "transposes of [%d, %d] %s", p, q,
                             dtype_name[dtype]);
        Type there = shape(true, 2, p, q), here = shape(true, 2, q, p);
        there.dtype = here.dtype = (uint8_t)dtype;
        Val x = case_input(c, there), y = case_input(c, here),
            w = case_input(c, shape(false, 1, q));
        Val moved = Permute(Mul(x, Num(x, 3)), (uint32_t[]){1, 0}), both = Mul(moved, y);
        case_result(c, moved);
        case_result(c, both);
        case_result(c, Sum(both, 1));
        case_result(c, Sum(both, 1 | 2));
        case_result(c, Sum(Add(both, y), 1 | 4));
        case_result(c, Div(moved, Add(CastTo(w, moved), Num(moved, 3)))); // a column's number
        case_finish(c, DtF32);
    }
}

static void move_cases(Cases *all) {
    Type t = shape(true, 3, 4, 6, 10);
    static const uint32_t order[3] = {2, 0, 1};
    static const int64_t from[3] = {1, 0, 2}, count[3] = {3, 3, 4}, step[3] = {1, 2, 2};
    static const int64_t before[3] = {0, 1, 2}, wide[3] = {4, 13, 33}, steps[3] = {1, 2, 3};
    static const int64_t pad_before[3] = {0, 1, 1}, padded[3] = {4, 8, 12};
    static const int64_t flat[1] = {240}, odd[2] = {15, 16}, split[5] = {4, 2, 3, 5, 2},
                         merged[3] = {16, 3, 5};
    static const uint32_t shuffle[5] = {0, 1, 4, 2, 3};
    for (int k = 0; k < 12; k++) {
        Case *c = case_begin(all, 3, 1e-6, "move %d", k);
        Val x = case_input(c, t), y = Add(x, Num(x, 1)), m = y;
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
        case_result(c, m);         // stored as it is,
        case_result(c, Mul(m, m)); // read through by arithmetic,
        case_result(c, Sum(m, 1)); // and by reductions
        case_result(c, Sum(m, (2u << val_type(m).rank) - 1));
        case_finish(c, DtF32);
    }
}

// More rows than a tile of accumulators or than fit into a unit of work, and per-sample tables.
static void row_cases(Cases *all) {
    static const struct {
        bool table, places;
        uint32_t n;
    } rows_of[] = {{true, true, 17000}, {true, false, 12}, {false, true, 2500}, {false, false, 9}};
    for (size_t i = 0; i < sizeof rows_of / sizeof *rows_of; i++) {
        uint32_t n = rows_of[i].n;
        Case *c = case_begin(all, 3, 1e-6, "rows of %u at places [7, 5]%s%s", n,
                             rows_of[i].table ? ", tables of samples" : "",
                             rows_of[i].places ? ", places of samples" : "");
        Val table = case_input(c, shape(rows_of[i].table, 2, n, 3));
        Val at = case_input(c, shape(rows_of[i].places, 2, 7, 5));
        at = Floor(Mul(Add(Mul(at, Num(at, 0.6)), Num(at, 0.5)), Num(at, n))); // some out of range
        Val rows = Gather(Add(table, Num(table, 1)), at);
        case_result(c, Mul(rows, rows));
        case_result(c, Scatter(Mul(rows, rows), at, shape(rows_of[i].table, 2, n, 3)));
        case_result(c, Scatter(Mul(at, at), at, shape(rows_of[i].places, 1, n)));
        case_finish(c, DtF32);
    }
}

// Broadcasts along some axes (1: samples, 2: channels, ...): on a GPU, threads iterate over those,
// of any length, in place as well; of some, the sums too.
static void column_cases(Cases *all) {
    static const struct {
        uint32_t samples, channels, high, wide, same;
    } of[] = {{3, 6, 5, 7, 1 | 4 | 8},    {4, 64, 5, 5, 1 | 4 | 8},  {1, 520, 9, 9, 1 | 4 | 8},
              {3, 8, 6, 5, 4 | 8},        {5, 12, 3, 9, 1 | 8},      {40, 5, 1, 1, 1},
              {2, 40, 65, 64, 1 | 4 | 8}, {3, 16, 2, 2, 1 | 4 | 8}, // then several steps at a time
              {4, 64, 16, 16, 1 | 4 | 8}, {4, 6, 16, 16, 1 | 4 | 8}, {2, 12, 16, 18, 4 | 8}};
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        uint32_t same = of[i].same;
        Case *c = case_begin(all, of[i].samples, 2e-5, "columns of [%u, %u, %u, %u] along %u",
                             of[i].samples, of[i].channels, of[i].high, of[i].wide, same);
        Val x = case_input(c, shape(true, 3, of[i].channels, of[i].high, of[i].wide));
        Type column = shape(!(same & 1), 3, of[i].channels, same & 4 ? 1 : of[i].high,
                            same & 8 ? 1 : of[i].wide);
        Val mean = case_input(c, column), squares = case_input(c, column);
        Val dev = Sqrt(Add(Abs(squares), Num(x, 0.1))), y = Div(Sub(x, mean), dev);
        case_result(c, Max(y, Num(y, 0)));
        write_slot(c, 0, Div(Mul(y, x), dev));
        if (of[i].high == 16)
            case_result(c, Sum(Div(Mul(y, y), dev), same));
        case_finish(c, DtF32);
    }
}

// Of the padded axis one index passes the bounds.
static void point_case(Cases *all) {
    Case *c = case_begin(all, 2, 1e-6, "one row between zeros");
    Val x = case_input(c, shape(true, 3, 4, 1, 10));
    case_result(c, Pad(x, (int64_t[]){0, 1, 0}, NULL, (int64_t[]){4, 3, 10}));
    case_finish(c, DtF32);
}

// Every other row of a padded picture that is itself a view: the bounds say which row that is.
static void row_case(Cases *all) {
    Case *c = case_begin(all, 2, 1e-6, "every other row below a border");
    Val x = case_input(c, shape(true, 4, 2, 2, 8, 6));
    Val rows = Reshape(x, 3, (int64_t[]){4, 8, 6});
    Val below = Pad(rows, (int64_t[]){0, 1, 0}, NULL, (int64_t[]){4, 10, 6});
    Val pairs = Reshape(below, 4, (int64_t[]){4, 5, 2, 6});
    Val first = Slice(pairs, (int64_t[]){0, 0, 0, 0}, (int64_t[]){4, 5, 1, 6}, NULL);
    case_result(c, Exp(first));
    case_finish(c, DtF32);
}

// The sums of each row's halves behind its first half.
static Val halves(Val y, uint32_t rows, uint32_t n, uint32_t by) {
    const int64_t at[2] = {0, by}, none[2] = {0, 0};
    Val ahead = Slice(y, none, (int64_t[]){rows, by}, NULL);
    Val sums = Add(Slice(y, none, (int64_t[]){rows, n - by}, NULL),
                   Slice(y, at, (int64_t[]){rows, n - by}, NULL));
    return Concat((Val[]){ahead, sums}, 2, 1);
}

// A running sum in blocks of four, the last not full, and its sums back in such blocks: what is
// known of an element's place within one bound makes others sure.
static void blocks_case(Cases *all) {
    Case *c = case_begin(all, 2, 1e-5, "a running sum in blocks");
    Val x = case_input(c, shape(true, 1, 65)), last = case_input(c, shape(true, 2, 16, 1));
    Val end = Expand(Num(x, 0), shape(true, 1, 3)), first = Expand(Num(x, 0), shape(true, 2, 1, 1));
    Val rows = Reshape(Concat((Val[]){x, end}, 2, 0), 2, (int64_t[]){17, 4});
    Val before = Expand(Concat((Val[]){first, last}, 2, 0), shape(true, 2, 17, 4));
    Val y = Add(before, halves(halves(rows, 17, 4, 1), 17, 4, 2));
    Val flat = Reshape(y, 1, (int64_t[]){68});
    Val used = Exp(Slice(flat, (int64_t[]){0}, (int64_t[]){65}, NULL));
    Val back = Pad(used, (int64_t[]){0}, NULL, (int64_t[]){68});
    case_result(c, Sum(Reshape(back, 2, (int64_t[]){17, 4}), 4));
    case_finish(c, DtF32);
}

// Parts of a concatenation along an outer axis, each in a version of its own of the inner loop, and
// a third of the rows in the one that tests; two axes at once.
static void part_cases(Cases *all) {
    Case *c = case_begin(all, 3, 1e-6, "parts of rows");
    Val x = case_input(c, shape(true, 2, 33, 40)), y = case_input(c, shape(true, 2, 33, 25)),
        z = case_input(c, shape(true, 2, 33, 5));
    Val some = Concat((Val[]){x, Sin(y), z}, 3, 1),
        other = Concat((Val[]){z, Mul(y, y), Exp(x)}, 3, 1);
    case_result(c, Add(some, other));
    case_result(c, Sum(Mul(some, some), 2 | 4));
    case_finish(c, DtF32);

    c = case_begin(all, 6, 1e-6, "parts of a picture");
    Type half = shape(true, 3, 12, 9, 10), wide = shape(true, 3, 12, 9, 20);
    Val left = Concat((Val[]){case_input(c, half), case_input(c, half)}, 2, 2),
        right = case_input(c, wide);
    case_result(c, Neg(Concat((Val[]){left, Mul(right, right)}, 2, 1)));
    case_finish(c, DtF32);

    c = case_begin(all, 4, 1e-6, "a stack of many: each unit in one part");
    Val part[6], m = case_input(c, shape(false, 3, 1, 64, 64));
    for (int k = 0; k < 6; k++)
        part[k] = Mul(m, Num(m, k - 2.5));
    part[3] = Slice(case_input(c, shape(false, 3, 3, 64, 64)), (int64_t[]){1, 0, 0},
                    (int64_t[]){2, 64, 64}, NULL);
    case_result(c, Permute(Sin(Concat(part, 6, 0)), (uint32_t[]){0, 2, 1}));
    case_finish(c, DtF32);
}

// Between zeros, stored or through other moves: values that are not zero where what they are
// computed from is, and some that are.
static void zeros_cases(Cases *all) {
    enum { VALUES = 6 };
    for (int k = 0; k < 2 * VALUES; k++) {
        Case *c = case_begin(all, 2, 2e-6, "value %d with a border of zeros%s", k % VALUES,
                             k < VALUES ? "" : ", through moves");
        Val x = case_input(c, shape(true, 3, 2, 5, 33)), one = Num(x, 1), two = Num(x, 2), y = x;
        switch (k % VALUES) {
        case 0:
            y = Mul(x, Cos(x));
            break;
        case 1:
            y = Mul(two, Cos(x));
            break;
        case 2: // minus infinity times zero
            y = Mul(Log(Abs(x)), x);
            break;
        case 3:
            y = Concat((Val[]){x, Expand(one, shape(true, 3, 2, 2, 33))}, 2, 1);
            break;
        case 4:
            y = Div(x, Num(x, 32));
            break;
        case 5:
            y = Div(Add(x, one), Num(x, 3));
            break;
        }
        int64_t high = val_type(y).dim[1];
        y = Pad(y, (int64_t[]){0, 2, 0}, NULL, (int64_t[]){2, high + 5, 33});
        if (k < VALUES) {
            case_result(c, y);
        } else {
            case_result(c, Add(Flip(y, 4), one));
            case_result(c, Slice(y, (int64_t[]){0, 1, 0}, (int64_t[]){2, high / 2 + 1, 11},
                                 (int64_t[]){1, 2, 3}));
        }
        case_finish(c, DtF32);
    }
}

// Packs that begin inside the bounds and end beyond; lengths that are no whole packs, of elements
// of two sizes; one value in two shapes.
static void pack_cases(Cases *all) {
    Case *c = case_begin(all, 1, 1e-6, "five numbers with borders of zeros");
    Val x = case_input(c, shape(false, 1, 5));
    case_result(c, Pad(x, (int64_t[]){4}, NULL, (int64_t[]){16}));
    case_finish(c, DtF32);
    for (int wide = 0; wide < 2; wide++) {
        c = case_begin(all, 3, 1e-6, "%s, not whole packs", wide ? "bf16 to f32" : "f32 to bf16");
        Type t = shape(true, 2, 5, 7);
        t.dtype = wide ? DtBF16 : DtF32;
        c->rounds = true;
        x = case_input(c, t);
        case_result(c, cast(x, wide ? DtF32 : DtBF16));
        case_finish(c, DtF32);
    }
    c = case_begin(all, 2, 2e-6, "one value in two shapes");
    x = case_input(c, shape(true, 3, 4, 6, 10));
    x = Mul(x, Num(x, 3));
    case_result(c, x);
    case_result(c, Sum(Reshape(x, 2, (int64_t[]){24, 10}), 4));
    case_finish(c, DtF32);
}

// Images with few channels between borders: the vectorized loop is the one along a line, and lanes
// differ in whether they read the border.
static void border_cases(Cases *all) {
    static const int channels[] = {2, 3, 4, 8}, lines[] = {8, 16, 33};
    static const Dtype stored[] = {DtF32, DtBF16, DtF16};
    for (int i = 0; i < 4 * 3 * 3; i++) {
        int64_t n = channels[i % 4], line = lines[i / 4 % 3];
        Dtype dtype = stored[i / 12];
        Case *c = case_begin(all, 2, 1e-6, "%d channels between borders of %d, in %s", (int)n,
                             (int)line, dtype_name[dtype]);
        c->rounds = true;
        Val x = case_input(c, shape(true, 3, (int)n, 3, (int)line));
        Val wide = Pad(x, (int64_t[]){0, 0, 2}, NULL, (int64_t[]){n, 3, line + 4}), sum = {0};
        for (int64_t at = 0; at < 4; at++) {
            Val y = Slice(wide, (int64_t[]){0, 0, at}, (int64_t[]){n, 3, line + 1}, NULL);
            case_result(c, dtype == DtF32 ? y : cast(y, dtype));
            sum = at ? Add(sum, y) : y;
        }
        case_result(c, dtype == DtF32 ? sum : cast(sum, dtype));
        case_result(c, Sum(sum, 8));
        case_result(c, Sum(Mul(sum, sum), 4 | 8));
        case_finish(c, DtF32);
    }
}

// Tables of so many rows that a card indexes them (team.c), but for those that have one term for
// each element. NaN and indices outside the table fall on its first and last rows, which many terms
// hit; some rows nothing hits.
static void scatter_case(Cases *all, const char *name, int64_t batch, Dtype dtype, Type rows,
                         uint32_t places, Type table) {
    Case *c = case_begin(all, batch, 1e-5, "%s", name);
    Type at = type_make(true, places, rows.dim);
    Val x = with_nans(case_input(c, rows)), i = with_nans(case_input(c, at));
    c->rounds = dtype != DtF32;
    table.dtype = (uint8_t)dtype;
    Val index = Mul(Add(i, Num(i, 0.9)), Num(i, 0.55 * (double)table.dim[0]));
    case_result(c, Scatter(dtype == DtF32 ? x : cast(x, dtype), index, table));
    case_finish(c, DtF32);
}

static void scatter_cases(Cases *all) {
    scatter_case(all, "scatter into a table of each sample", 2, DtF32, shape(true, 2, 700, 3), 1,
                 shape(true, 2, 3001, 3));
    scatter_case(all, "scatter of all samples, two axes of places", 5, DtF32,
                 shape(true, 3, 13, 11, 2), 2, shape(false, 2, 8009, 2));
    scatter_case(all, "scatter of more terms than a warp takes", 1, DtF32, shape(true, 2, 2101, 6),
                 1, shape(true, 2, 1500, 6));
    scatter_case(all, "scatter of many channels", 1, DtF32, shape(true, 2, 21, 300), 1,
                 shape(false, 2, 1030, 300));
    scatter_case(all, "one term into a table of each sample", 7, DtF32, shape(true, 1, 3), 0,
                 shape(true, 2, 21, 3));
    scatter_case(all, "one sample into a table", 1, DtF32, shape(true, 1, 3), 0,
                 shape(false, 2, 40, 3));
    scatter_case(all, "scatter in bf16", 2, DtBF16, shape(true, 2, 700, 3), 1,
                 shape(true, 2, 3001, 3));
    scatter_case(all, "scatter in f16", 2, DtF16, shape(true, 2, 700, 3), 1,
                 shape(true, 2, 3001, 3));
    scatter_case(all, "scatter in f64", 2, DtF64, shape(true, 2, 700, 3), 1,
                 shape(true, 2, 3001, 3));
}

// Tables of at least as many rows as terms, which lie in rows: a core adds whole rows, tile by tile
// (nest.c).
static void scatter_row_cases(Cases *all) {
    scatter_case(all, "whole rows of a scatter, the last tile not full", 1, DtF32,
                 shape(true, 2, 700, 33), 1, shape(false, 2, 1030, 33));
    scatter_case(all, "whole rows of a scatter in bf16", 1, DtBF16, shape(true, 2, 300, 17), 1,
                 shape(false, 2, 500, 17));
    scatter_case(all, "whole rows of a scatter, of one tile", 3, DtF32, shape(true, 2, 40, 7), 1,
                 shape(false, 2, 120, 7));
    scatter_case(all, "rows of two axes of a scatter", 2, DtF32, shape(true, 3, 50, 9, 4), 1,
                 shape(false, 3, 601, 9, 4));
    scatter_case(all, "a row of a scatter fills a tile", 2, DtF32, shape(true, 2, 3, 8192), 1,
                 shape(false, 2, 9, 8192));
    scatter_case(all, "rows of a scatter too long for a tile", 2, DtF32, shape(true, 2, 3, 8200), 1,
                 shape(false, 2, 9, 8200));
}

static void other_cases(Cases *all) {
    Case *c = case_begin(all, 5, 1e-6, "gather and scatter");
    Val table = case_input(c, shape(false, 3, 6, 3, 2)),
        label = Floor(Mul(case_input(c, shape(true, 0)), Num(table, 6)));
    Val rows = Gather(table, label);
    case_result(c, Mul(rows, rows));
    case_result(c, Scatter(Add(rows, Num(rows, 1)), label, shape(false, 3, 6, 3, 2)));
    case_finish(c, DtF32);

    c = case_begin(all, 2, 1e-6, "a long row of moves");
    Val row = case_input(c, shape(true, 1, 3)), last = case_input(c, shape(true, 1, 2));
    for (int i = 0; i < 40; i++)
        row = Concat((Val[]){row, Neg(last)}, 2, 0);
    case_result(c, Mul(row, row));
    case_finish(c, DtF32);

    c = case_begin(all, 4, 1e-6, "indices");
    Val x = case_input(c, shape(true, 2, 3, 5));
    case_result(c, Add(x, Iota(&c->at, 2 | 4, shape(false, 2, 3, 5))));
    case_result(c, Eq(Iota(&c->at, 1 | 2, shape(true, 2, 3, 1)), Num(x, 4)));
    case_finish(c, DtF32);

    for (Dist d = DistUniform; d <= DistCategorical; d++) {
        c = case_begin(all, 3, 2e-6, "draws %d", (int)d);
        case_result(c, Rand(&c->at, d, 7, 10, shape(true, 3, 3, 4, 5)));
        case_result(c, Rand(&c->at, d, 8, 10, shape(false, 2, 33, 3)));
        case_finish(c, DtF32);
    }

    c = case_begin(all, 1, 1e-5, "adam in place");
    Type w = shape(false, 2, 70, 33);
    Val p = case_input(c, w), g = case_input(c, w), m = case_input(c, w), v = case_input(c, w),
        n = case_input(c, shape(false, 0));
    Val next = Add(n, Num(n, 1));
    Val m1 = Add(Mul(m, Num(m, 0.9)), Mul(g, Num(g, 0.1))),
        v1 = Add(Mul(v, Num(v, 0.9)), Mul(Mul(g, g), Num(g, 0.1)));
    Val rate = Div(Num(n, 0.01), Sub(Num(n, 1), Pow(Num(n, 0.5), Add(Abs(next), Num(n, 1)))));
    write_slot(c, 0, Sub(p, Div(Mul(m1, rate), Add(Sqrt(Abs(v1)), Num(v, 0.1)))));
    write_slot(c, 2, m1);
    write_slot(c, 3, v1);
    write_slot(c, 4, next);
    case_finish(c, DtF32);

    c = case_begin(all, 4, 2e-5, "a table that only minima read");
    Val a = case_input(c, shape(true, 2, 3, 40)), b = case_input(c, shape(true, 2, 3, 50));
    Type cube = shape(true, 3, 3, 40, 50);
    Val d = Sub(Expand(Reshape(a, 3, (int64_t[]){3, 40, 1}), cube),
                Reshape(b, 3, (int64_t[]){3, 1, 50}));
    Val squares = Neg(Reshape(Sum(Mul(d, d), 2), 2, (int64_t[]){40, 50}));
    case_result(c, Sum(MaxOf(squares, 2), 4));
    case_result(c, Sum(MaxOf(squares, 4), 2));
    case_finish(c, DtF32);

    // If the products are stored too, compilers sum them in another order.
    c = case_begin(all, 64, 2e-5, "a value and its own greatest element");
    Type line = shape(true, 1, 40);
    Val s = case_input(c, line), t = Mul(s, case_input(c, line)), u = Mul(s, case_input(c, line)),
        sum = Add(t, u);
    case_result(c, Where(Gt(MaxOf(sum, 2), sum), Sub(Exp(t), Mul(u, Num(u, 0.7))), Num(u, 10)));
    case_finish(c, DtF32);

    c = case_begin(all, 8, 2e-5, "batch norm");
    x = case_input(c, shape(true, 3, 6, 8, 8));
    Val y = Add(x, case_input(c, shape(false, 1, 6))), z = Mul(y, y);
    Val mean = Mul(Sum(y, 1 | 4 | 8), Num(y, 1.0 / 512)), centred = Sub(y, mean);
    Val dev =
        Sqrt(Add(Mul(Sum(Mul(centred, centred), 1 | 4 | 8), Num(y, 1.0 / 512)), Num(y, 1e-3)));
    case_result(c, Max(Div(centred, dev), Num(y, 0)));
    case_result(c, Sum(z, 2 | 4 | 8));
    case_finish(c, DtF32);
}

// --- all of them ---------------------------------------------------------------------------------

void kernel_cases(Cases *out) {
    elementwise_cases(out);
    rounding_cases(out);
    reduction_cases(out);
    accumulator_cases(out);
    derived_cases(out);
    placed_cases(out);
    nan_cases(out);
    pair_cases(out);
    shape_cases(out);
    transpose_cases(out);
    move_cases(out);
    row_cases(out);
    column_cases(out);
    point_case(out);
    row_case(out);
    blocks_case(out);
    part_cases(out);
    zeros_cases(out);
    pack_cases(out);
    border_cases(out);
    scatter_cases(out);
    scatter_row_cases(out);
    other_cases(out);
}

void kernel_cases_kernels(const Cases *c, KernelVec *out) {
    Map seen = {0};
    for (uint32_t i = 0; i < c->at.n; i++) {
        for (uint32_t k = 0; k < c->at.at[i]->plan.kernel.n; k++) {
            const Kernel *kernel = &c->at.at[i]->plan.kernel.at[k];
            uint64_t h = hash64(kernel->name.ptr, kernel->name.len, 0);
            if (!map_find(&seen, h)) {
                map_put(c->arena, &seen, h, 1);
                vec_push(c->arena, out, kernel);
            }
        }
    }
}
