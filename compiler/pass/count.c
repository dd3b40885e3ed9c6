// count.c - how much arithmetic a graph, and an average run of a function, asks for.
#include "plan.h"

double *func_block_runs(Arena *a, const Func *f) {
    double *runs = arena_array(a, double, f->blocks), now[MAX_SCOPES + 1] = {1};
    uint32_t depth = 0;
    for (uint32_t i = 0; i < f->tape.n; i++) {
        Ctl c = f->tape.at[i];
        bool opens = c.kind == CtlRepeat || c.kind == CtlEvery || c.kind == CtlIf;
        if (opens && depth == MAX_SCOPES)
            bug("scopes nest deeper than %d", MAX_SCOPES);
        switch (c.kind) {
        case CtlBlock:
            runs[c.arg] = now[depth];
            break;
        case CtlRepeat:
            now[depth + 1] = now[depth] * c.arg;
            break;
        case CtlEvery:
            now[depth + 1] = now[depth] / (c.arg ? c.arg : 1);
            break;
        case CtlIf:
            now[depth + 1] = now[depth] / 2;
            break;
        case CtlElse:
            now[depth] = now[depth - 1] - now[depth];
            break;
        case CtlEnd:
            depth--;
            break;
        }
        depth += opens;
    }
    return runs;
}

double func_gflop(const Func *f) {
    Arena scratch;
    arena_need(&scratch);
    double *runs = func_block_runs(&scratch, f), sum = 0;
    for (uint32_t id = 1; id < f->g.node.n; id++)
        sum += node_gflop(&f->g, id) * runs[graph_node(&f->g, id)->block];
    arena_release(&scratch);
    return sum;
}

double func_gflop_again(const Func *f) {
    Arena scratch;
    arena_need(&scratch);
    double *runs = func_block_runs(&scratch, f), sum = 0;
    for (uint32_t i = 0; i < f->again.n; i++)
        sum += f->again.at[i].gflop * runs[f->again.at[i].block];
    arena_release(&scratch);
    return sum;
}
