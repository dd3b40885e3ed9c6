// cpu_ahead.c - products are prepared by several threads.
//
// Creating a primitive takes up to 60 ms (its description alone may be 20 MB), and a model has up
// to 150 that differ. oneDNN has a cache of primitives, which the process shares. So while one
// thread runs a plan for the first time, and prepares each product as it comes to it, others
// prepare the products that differ, from the last on, each with a Dnn of its own that it closes in
// the end. The running thread then finds their primitives in the library's cache.
#include "cpu.h"

#include <pthread.h>

enum {
    WORTH_A_THREAD = 16, // products that differ
    MOST_AHEAD = 8       // threads
};

typedef struct Product {
    uint32_t launch, node;
} Product;

struct Ahead {
    Arena arena; // of product[]
    const Plan *plan;
    AheadPrepare *prepare;
    void *user;
    VEC(Product) product;     // that differ, the last launch first
    _Atomic uint32_t next;    // of product[], to be prepared
    _Atomic uint32_t reached; // earlier launches are, or are being, prepared by who runs them
    _Atomic int busy;         // threads that have not ended
    uint32_t threads;
    pthread_t thread[MOST_AHEAD];
};

static uint64_t key_of(const Graph *g, uint32_t id) {
    const Node *n = graph_node(g, id), *a = graph_node(g, node_in(g, id, 0)),
               *b = graph_node(g, node_in(g, id, 1));
    const uint32_t key[] = {n->op, n->attr, n->type, a->type, b->type};
    return hash64(key, sizeof key, 0);
}

static GanStatus find_products(void *user) {
    Ahead *a = user;
    const Plan *p = a->plan;
    Map seen = {0};
    for (uint32_t i = p->launch.n; i-- > 0;) {
        const Region *r = &p->region.at[p->launch.at[i].region];
        uint32_t id = r->node.at[0];
        if (r->kind != RegionCall || node_family(&p->func->g, id) != FamilyProduct)
            continue;
        uint64_t key = key_of(&p->func->g, id);
        if (!map_find(&seen, key))
            vec_push(&a->arena, &a->product, ((Product){i, id}));
        map_put(&a->arena, &seen, key, 1);
    }
    return GAN_OK;
}

// That it fails is no reason for the run to fail: the running thread prepares all products too.
static void *run_ahead(void *user) {
    Ahead *a = user;
    Dnn *d = NULL;
    GanStatus st = dnn_open(&d);
    if (d)
        dnn_set_cache_only(d);
    for (uint32_t i; d && st == GAN_OK && (i = a->next++) < a->product.n;) {
        if (a->product.at[i].launch < a->reached)
            break;
        st = a->prepare(a->user, d, a->product.at[i].node);
    }
    dnn_close(d);
    a->busy--;
    return NULL;
}

GanStatus ahead_start(const Plan *p, int threads, AheadPrepare *prepare, void *user, Ahead **out) {
    *out = NULL;
    if (threads < 1)
        return GAN_OK;
    Ahead *a = mem_alloc(sizeof *a);
    if (!a)
        return fail(GAN_ERR_MEMORY, "no memory to load a plan");
    a->plan = p;
    a->prepare = prepare;
    a->user = user;
    GanStatus st = arena_init(&a->arena, (size_t)64 << 20);
    if (st == GAN_OK)
        st = arena_guard(&a->arena, "to prepare products", find_products, a);
    if (st != GAN_OK) {
        ahead_join(a);
        return st;
    }
    uint32_t worth = a->product.n / WORTH_A_THREAD, most = (uint32_t)threads;
    most = most < MOST_AHEAD ? most : MOST_AHEAD;
    for (uint32_t n = worth < most ? worth : most; a->threads < n; a->threads++) {
        a->busy++;
        if (pthread_create(&a->thread[a->threads], NULL, run_ahead, a) == 0)
            continue;
        a->busy--;
        break;
    }
    *out = a;
    return GAN_OK;
}

void ahead_run(Ahead *a, uint32_t launch) {
    if (a)
        a->reached = launch;
}

int ahead_busy(const Ahead *a) {
    return a ? a->busy : 0;
}

void ahead_join(Ahead *a) {
    if (!a)
        return;
    a->reached = UINT32_MAX;
    for (uint32_t i = 0; i < a->threads; i++)
        pthread_join(a->thread[i], NULL);
    arena_release(&a->arena);
    mem_free(a);
}
