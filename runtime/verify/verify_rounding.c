// verify_rounding.c - how much rounding alone changes the results of a reference case (D-0009).
//
// A check that fails in less than f64 is repeated with the graph itself, recomputed in f64 by the
// reference device: as it is, with those decisions reversed that rounding may reverse, and from
// rounded initial values. Where the first passes and another explains the deviation, it is not
// counted as an error.
#include "verify.h"

#include <math.h>

// A comparison is rounding's to decide when its operands are nearer than this share of their size:
// sums of thousands of terms, some layers deep, lose up to eight of f32's 24 bits.
static const double close_share = 0x1p-16;
// How often over what rounding may do to a tensor its error may be.
static const double reach = 10;

// --- decisions of rounding -----------------------------------------------------------------------

// How far a computed value [n] is from the constant it is compared with, and its size. False: what
// is compared is something else.
static bool difference(Verify *v, const Plan *p, uint32_t node, double *d, double *size, size_t n,
                       GanStatus *st) {
    const Graph *g = &p->func->g;
    uint32_t a = node_in(g, node, 0),
             b = graph_node(g, node)->op == OpSign ? 0 : node_in(g, node, 1);
    double number = 0, sum = 0;
    const Type *t = node_type(g, a);
    if (graph_node(g, a)->op == OpRead || (b && !node_is_const(g, b, &number)) ||
        (size_t)(type_sample(t) * (t->batched ? g->batch : 1)) != n)
        return false;
    *st = exec_value_get(v->session.exec, p, a, d, n);
    for (size_t i = 0; *st == GAN_OK && i < n; i++) {
        sum += d[i] * d[i];
        d[i] -= number;
    }
    *size = sqrt(sum / (double)n);
    return *st == GAN_OK;
}

// Before a comparison (its operands may not outlive it): which elements are close. Those that are
// equal in f64 are so by their making (zeros of a padding, counts), not by rounding.
static GanStatus find_close(Verify *v, const Plan *p, uint32_t node) {
    const Type *t = node_type(&p->func->g, node);
    size_t n = (size_t)(type_sample(t) * (t->batched ? p->func->g.batch : 1));
    Arena scratch = v->session.perm;
    double *d = arena_array(&scratch, double, n), size;
    GanStatus st = GAN_OK;
    if (!difference(v, p, node, d, &size, n, &st))
        return st;
    for (size_t i = 0; i < n; i++)
        if (d[i] != 0 && fabs(d[i]) <= close_share * size)
            vec_push(v->report->arena, &v->close, ((Close){node, i}));
    return GAN_OK;
}

static GanStatus turn_close(Verify *v, const Plan *p, uint32_t node) {
    const Type *t = node_type(&p->func->g, node);
    size_t n = (size_t)(type_sample(t) * (t->batched ? p->func->g.batch : 1));
    Arena scratch = v->session.perm;
    double *x = arena_array(&scratch, double, n);
    TRY(exec_value_get(v->session.exec, p, node, x, n));
    for (uint32_t i = 0; i < v->close.n; i++)
        if (v->close.at[i].node == node) {
            double *y = &x[v->close.at[i].at];
            *y = graph_node(&p->func->g, node)->op == OpSign ? -*y : 1 - *y;
        }
    return exec_value_load(v->session.exec, p, node, x); // the reference device's: f64, in order
}

static bool compares(const Graph *g, uint32_t node) {
    Op op = (Op)graph_node(g, node)->op;
    return op == OpGt || op == OpGe || op == OpSign;
}

// Comparisons whose outcome is a run-time `if`'s: [node.n], 1 where so. Another branch is another
// program, which the case does not describe. A node's operands come before it.
static const uint8_t *deciding(Arena *a, const Func *f) {
    uint8_t *on_path = arena_array(a, uint8_t, f->g.node.n);
    for (uint32_t i = 0; i < f->tape.n; i++)
        if (f->tape.at[i].kind == CtlIf)
            on_path[f->tape.at[i].cond] = 1;
    for (uint32_t n = f->g.node.n; n-- > 1;)
        for (uint32_t k = 0; on_path[n] && !compares(&f->g, n) && k < graph_node(&f->g, n)->nin;
             k++)
            on_path[node_in(&f->g, n, k)] = 1;
    return on_path;
}

GanStatus verify_turn(void *user, Exec *e, uint32_t launch, bool done, const Counters *c) {
    (void)c;
    Verify *v = user;
    const Plan *p = exec_step_plan(e);
    Launch l = p->launch.at[launch];
    v->close.n = done ? v->close.n : 0;
    for (uint32_t k = 0; k < l.instances; k++) {
        const Region *r = &p->region.at[p->merge.at[l.first + k]];
        for (uint32_t i = 0; i < r->node.n; i++) {
            uint32_t node = r->node.at[i];
            if (compares(&p->func->g, node) && !v->deciding[node])
                TRY((done ? turn_close : find_close)(v, p, node));
        }
    }
    return GAN_OK;
}

// --- the graph's answer --------------------------------------------------------------------------

// What turned decisions move comes on top of the tolerance. Several may cancel where one alone
// would not, so what they move by more than the tolerance may be off by more.
bool check_excused(const Check *c) {
    double most = c->moved > c->limit ? reach * c->moved : c->limit + c->moved;
    return c->exact && c->error <= most;
}

typedef enum Way { WayExact, WayTurned, WayRounded, Ways } Way;
static const char *const way_name[Ways] = {"as it is", "with close comparisons turned",
                                           "from a rounded start"};

// The case on the reference device in f64, by this rank alone.
static GanStatus recompute(Verify *v, Way way, uint32_t steps) {
    Arena said;
    SessionOptions s;
    GanStatus st = arena_init(&said, 0);
    Text report = {.arena = &said};
    Verify p = {.o = v->o,
                .judge = way == WayExact ? DtF64 : v->judge,
                .hold = way == WayRounded ? v->o->real : DtF64,
                .report = &report};
    p.tol = verify_tolerance(p.judge);
    TRY_OUT(st);
    TRY_OUT(verify_open(&p, &s, NULL, &(Split){0}));
    s.api = &device_ref;
    s.compile.real = DtF64;
    TRY_OUT(session_open(&p.session, &s));
    if (way == WayTurned)
        p.deciding = deciding(&p.session.perm, exec_step_plan(p.session.exec)->func);
    TRY_OUT(verify_run(&p, steps));
    for (uint32_t i = 0; i < v->check.n && i < p.check.n; i++) {
        Check *c = &v->check.at[i];
        const Check *again = &p.check.at[i];
        if (!str_eq(c->what, again->what))
            break;
        if (way == WayExact)
            c->exact = !check_fails(again);
        else
            c->moved = fmax(c->moved, again->error);
    }
out:
    session_release(&p.session);
    arena_release(&said);
    return st;
}

// How many steps show all checks that fail and may yet be excused; 0: there are none.
static uint32_t steps_to_ask(const Verify *v, Way way) {
    uint32_t steps = 0;
    for (uint32_t i = 0; i < v->check.n && steps <= 1; i++) {
        const Check *c = &v->check.at[i];
        if (check_fails(c) && (way == WayExact || (c->exact && !check_excused(c))))
            steps = c->last ? UINT32_MAX : 1;
    }
    return steps;
}

// bf16 and f16 judge losses only, which no single decision moves.
void verify_ask_graph(Verify *v) {
    for (Way way = WayExact; way < Ways; way++) {
        uint32_t steps = steps_to_ask(v, way);
        if (steps && (way != WayTurned || v->o->real == DtF32) &&
            recompute(v, way, steps) != GAN_OK)
            verify_line(v, "  recomputed in f64 %s, which failed and excuses nothing: %s",
                        way_name[way], *gan_error() ? gan_error() : "it does not compile");
    }
}
