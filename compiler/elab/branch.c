// branch.c - run-time control: repeat, every, and `if` on a shared number.
//
// As a statement, each is a scope of its own: slots that changed are written before it, its body
// is elaborated into blocks of its own, and slots it assigned are read again after it. Where the
// value of an `if` or `every` is used, everything up to the end of the enclosing scope depends on
// the branch taken and is elaborated once per branch (tail duplication): the statement that
// contains the choice is evaluated again for the other branch. Up to the choice that is a replay,
// which emits nothing and finds draws, pins, slot versions and blocks again by their numbers.
#include "elab.h"

#include <string.h>

// --- snapshots -----------------------------------------------------------------------------------

Snapshot snapshot_take(Elab *e) {
    const Building *b = e->to;
    Snapshot s = {.cells = b->cell.n,
                  .nexts = b->next.n,
                  .once = b->once,
                  .counts = e->root.counts,
                  .block = b->at->block,
                  .cursor = b->cursor};
    s.cell = arena_array(e->perm, Cell, s.cells);
    s.next = arena_array(e->perm, uint32_t, s.nexts);
    if (s.cells)
        memcpy(s.cell, b->cell.at, s.cells * sizeof *s.cell);
    if (s.nexts)
        memcpy(s.next, b->next.at, s.nexts * sizeof *s.next);
    return s;
}

static void close_blocks(Building *b, uint32_t from) {
    memset(b->scope_end + from, 0, (MAX_BLOCKS - from) * sizeof *b->scope_end);
}

void snapshot_restore(Elab *e, const Snapshot *s) {
    Building *b = e->to;
    if (s->cells)
        memcpy(b->cell.at, s->cell, s->cells * sizeof *s->cell);
    for (uint32_t i = s->cells; i < b->cell.n; i++)
        b->cell.at[i] = (Cell){0};
    if (s->nexts)
        memcpy(b->next.at, s->next, s->nexts * sizeof *s->next);
    for (uint32_t i = s->nexts; i < b->next.n; i++)
        b->next.at[i] = 0;
    b->once = s->once;
    e->root.counts = s->counts;
    b->at->block = s->block;
    b->cursor = s->cursor;
}

// --- the tape ------------------------------------------------------------------------------------

static void emit(Elab *e, CtlKind kind, uint32_t arg, uint32_t cond) {
    Building *b = e->to;
    if (kind == CtlRepeat || kind == CtlEvery || kind == CtlIf)
        b->nested++;
    if (kind == CtlEnd)
        b->nested--;
    if (b->nested > MAX_NESTED && !e->stop) {
        diag(e->f, DiagE0525, here(e), MAX_NESTED);
        e->stop = true;
    }
    if (!b->muted)
        vec_push(e->perm, &b->fn->tape, ((Ctl){kind, arg, cond}));
}

static void new_block(Elab *e) {
    Building *b = e->to;
    uint32_t id = b->cursor.block++;
    if (id >= MAX_BLOCKS - 1) {
        if (!e->stop)
            diag(e->f, DiagE0518, here(e), MAX_BLOCKS);
        e->stop = true;
        b->cursor.block = id = MAX_BLOCKS - 1;
    }
    if (id >= b->fn->blocks)
        b->fn->blocks = id + 1;
    b->scope_end[id] = NONE;
    b->at->block = id;
    emit(e, CtlBlock, id, 0);
}

// --- choices with a value ------------------------------------------------------------------------

// The outcome of the choice at hand: in a replay the one on its path, otherwise the first.
static bool decide(Elab *e, CtlKind kind, uint32_t arg, uint32_t cond) {
    Building *b = e->to;
    Branching *br = b->branching;
    slots_commit(e);
    if (br->at == br->path.n) {
        emit(e, kind, arg, cond);
        vec_push(e->perm, &br->path, ((Decision){.first = true}));
        b->choices++;
        br->at++;
        new_block(e);
        return true;
    }
    const Decision *d = &br->path.at[br->at++];
    if (!d->first)
        b->cursor = d->resume;
    if (br->at == br->path.n)
        b->muted = br->muted_outside; // from here on it is new
    new_block(e);
    return d->first;
}

// Closes the outcome just finished and turns to the next one; false when there is none.
static bool next_outcome(Elab *e, Branching *br, const Snapshot *start) {
    Building *b = e->to;
    while (br->path.n && !br->path.at[br->path.n - 1].first) {
        br->path.n--;
        b->choices--;
        emit(e, CtlEnd, 0, 0);
    }
    if (!br->path.n)
        return false;
    emit(e, CtlElse, 0, 0);
    br->path.at[br->path.n - 1] = (Decision){.first = false, .resume = b->cursor};
    br->at = 0;
    snapshot_restore(e, start);
    close_blocks(b, start->cursor.block);
    b->branching = br;
    b->muted = true;
    return true;
}

static void run_one(Elab *e, Env *env, const Ast *block, uint32_t i, const Last *last) {
    if (last && i + 1 == block->list.n)
        last->take(e, env, block->list.at[i], last->user);
    else
        eval_statement(e, env, block->list.at[i]);
}

static void run_from(Elab *e, Env env, const Ast *block, uint32_t i, const Last *last) {
    Building *b = e->to;
    for (; i < block->list.n && !e->stop; i++) {
        Branching br = {.muted_outside = b->muted};
        Snapshot start = snapshot_take(e);
        Env before = env;
        b->branching = &br;
        run_one(e, &env, block, i, last);
        if (!br.path.n)
            continue;
        do {
            run_from(e, env, block, i + 1, last);
            if (e->stop || !next_outcome(e, &br, &start))
                return;
            env = before;
            run_one(e, &env, block, i, last);
        } while (true);
    }
    slots_commit(e);
}

void run_scope(Elab *e, Env env, const Ast *block, const Last *last) {
    Building *b = e->to;
    Branching *outer = b->branching;
    run_from(e, env, block, 0, last);
    b->branching = outer;
}

static bool can_branch(Elab *e, const char *what, bool in_step) {
    if (e->to->branching && (!in_step || e->to->index == 1))
        return true;
    if (in_step)
        diag(e->f, DiagE0514, here(e), what);
    else
        diag(e->f, DiagE0535, here(e), what);
    return false;
}

static Value branch_value(Elab *e, const Env *env, const Ast *body) {
    Env inner = *env;
    if (!body)
        return (Value){.kind = KindNone};
    inner.local = scope_mark(e, env->local, BindControl);
    return value_now(e, eval(e, &inner, body));
}

Value branch_if(Elab *e, Env *env, const Ast *a, Val cond) {
    if (!can_branch(e, "an `if` on a tensor", false))
        return POISON;
    bool first = decide(e, CtlIf, 0, cond.id);
    return branch_value(e, env, first ? a->b : a->c);
}

Value branch_every(Elab *e, Env *env, const Ast *a, int64_t k) {
    if (!can_branch(e, "`every`", true))
        return POISON;
    return decide(e, CtlEvery, (uint32_t)k, 0) ? branch_value(e, env, a->c) : value_num(0);
}

// --- scopes --------------------------------------------------------------------------------------

typedef struct Scope {
    Snapshot before;
    uint32_t assigned; // assignments made before it
} Scope;

static Scope scope_open(Elab *e) {
    slots_commit(e);
    return (Scope){snapshot_take(e), e->to->assigned.n};
}

const Ast *block_of(Elab *e, const Ast *a) {
    if (a->kind == AstBlock && a->list.n)
        return a;
    Ast *block = arena_new(e->perm, Ast);
    *block = (Ast){.kind = AstBlock, .span = a->span};
    vec_push(e->perm, &block->list, (Ast *)a);
    return block;
}

// One body of a scope, in its own blocks.
static void scope_body(Elab *e, const Env *env, const Ast *body, const Last *last) {
    Env inner = *env;
    inner.local = scope_mark(e, env->local, BindControl);
    segment_end(e);
    new_block(e);
    run_scope(e, inner, block_of(e, body), last); // no block: `else if`
}

// Back to the values of before, but for what the scope assigned; later code is a block of its own.
static void scope_restore(Elab *e, const Scope *s) {
    Cursors now = e->to->cursor;
    const Counter *counts = e->root.counts;
    close_blocks(e->to, s->before.cursor.block);
    snapshot_restore(e, &s->before);
    e->to->cursor = now;
    e->root.counts = counts;
}

static void scope_leave(Elab *e, const Scope *s) {
    Building *b = e->to;
    scope_restore(e, s);
    for (uint32_t i = s->assigned; i < b->assigned.n; i++)
        *slot_cell(e, b->assigned.at[i]) = (Cell){0};
    segment_end(e);
    new_block(e);
}

static void scope_close(Elab *e, const Scope *s) {
    emit(e, CtlEnd, 0, 0);
    scope_leave(e, s);
}

void run_function(Elab *e, Env env, const Ast *block, const Last *last) {
    const Func *f = e->to->fn;
    Scope s = scope_open(e);
    run_scope(e, env, block, last);
    if (f->tape.at[f->tape.n - 1].kind == CtlEnd) // it ended once an outcome
        scope_leave(e, &s);
}

void scope_if(Elab *e, Env *env, const Ast *a, Val cond) {
    if (!can_branch(e, "an `if` on a tensor", false))
        return;
    Scope s = scope_open(e);
    emit(e, CtlIf, 0, cond.id);
    scope_body(e, env, a->b, NULL);
    if (a->c) {
        emit(e, CtlElse, 0, 0);
        scope_restore(e, &s);
        scope_body(e, env, a->c, NULL);
    }
    scope_close(e, &s);
}

void scope_every(Elab *e, Env *env, const Ast *a, int64_t k) {
    if (!can_branch(e, "`every`", true))
        return;
    Scope s = scope_open(e);
    emit(e, CtlEvery, (uint32_t)k, 0);
    scope_body(e, env, a->c, NULL);
    scope_close(e, &s);
}

void scope_rounds(Elab *e, const Env *env, const Ast *body, uint32_t n, const Last *last) {
    Building *b = e->to;
    uint64_t outer = b->rounds, all = (outer ? outer : 1) * n;
    if (all > UINT32_MAX) {
        diag(e->f, DiagE0538, here(e), (unsigned long long)all);
        return;
    }
    Scope s = scope_open(e);
    emit(e, CtlRepeat, n, 0);
    for (uint32_t i = 0; i < b->cell.n; i++)
        b->cell.at[i] = (Cell){0}; // any of them may change in a round
    b->rounds = all;
    scope_body(e, env, body, last);
    b->rounds = outer;
    uint32_t nexts = b->next.n;
    uint32_t *next = arena_array(e->perm, uint32_t, nexts);
    for (uint32_t i = 0; i < nexts; i++)
        next[i] = b->next.at[i];
    scope_close(e, &s);
    for (uint32_t i = 0; i < nexts; i++)
        b->next.at[i] = next[i]; // the last round's batch is the batch
}

void scope_repeat(Elab *e, Env *env, const Ast *a) {
    int64_t n;
    if (!want_int(e, eval(e, env, a->a), "`repeat`", &n))
        return;
    if (!can_branch(e, "repeat", true)) {
        diag_help(e->f,
                  "write for i in range(%lld) { ... }, which is unrolled and possible anywhere",
                  (long long)n);
        return;
    }
    if (n < 0 || n > INT32_MAX)
        diag(e->f, DiagE0511, here(e), "repeat", (long long)n);
    else if (n > 0)
        scope_rounds(e, env, a->c, (uint32_t)n, NULL);
}
