// cuda_dnn_ask.c - which engines cuDNN proposes for the operations of a plan.
//
// In: an operation and room for its workspace. Out: execution plans, the best first. The library
// loads its heuristics with the first question of a kind, 20 to 450 ms each, and compiles engines
// that have an epilogue, half a second each, all on one core of the host. So all that a plan will
// ask is asked at once, by threads with a handle each, while the caller times what they have found.
#include "cuda_dnn.h"

#include <pthread.h>
#include <string.h>

enum {
    COMPILED = 2, // candidates timed of those that are compiled at run time
    // Bytes of memory traffic that an epilogue must save to be worth compiling an engine: at 3 TB/s
    // 10 us a step, half a second within 50,000 steps.
    WORTH_COMPILING = 32 << 20,
};

// --- one question --------------------------------------------------------------------------------

// Bytes that an epilogue would read and write in a separate kernel.
static int64_t epilogue_traffic(const CudnnOperation *o) {
    const CudnnTensor *y = cudnn_output(o);
    int64_t n = 2 * (int64_t)dtype_size[y->type];
    for (int i = 0; i < y->n; i++)
        n *= y->dim[i];
    return n;
}

// Queries in order, until one finds engines. The fallback modes are not used with an epilogue: a
// slow engine would lose what it saves.
static const struct {
    cudnnBackendHeurMode_t mode;
    CudnnEngineKind engines;
} searches[] = {{CUDNN_HEUR_MODE_A, CudnnPrecompiled},
                {CUDNN_HEUR_MODE_A, CudnnRuntimeCompiled},
                {CUDNN_HEUR_MODE_FALLBACK, CudnnPrecompiled},
                {CUDNN_HEUR_MODE_FALLBACK, CudnnRuntimeCompiled}};

static int ask(Cudnn *d, const CudnnQuery *q, CudnnCandidate of[CUDNN_TIMED]) {
    const CudnnOperation *o = &q->operation;
    bool plain = !cudnn_has_epilogue(o);
    d->troubled = false;
    CudnnDesc graph = cudnn_operation_graph(d, o);
    int n = 0;
    for (size_t i = 0; graph && !n && i < sizeof searches / sizeof *searches; i++) {
        bool compiled = searches[i].engines == CudnnRuntimeCompiled;
        int most = !d->handle || q->rank_invariant ? 1 : compiled ? COMPILED : CUDNN_TIMED;
        const CudnnFilter filter = {o, searches[i].engines, q->room};
        if (plain || (searches[i].mode == CUDNN_HEUR_MODE_A &&
                      (!compiled || epilogue_traffic(o) >= WORTH_COMPILING)))
            n = cudnn_query_heuristics(d, &filter, graph, searches[i].mode, of, most);
    }
    return n;
}

// --- those of a plan -----------------------------------------------------------------------------

typedef enum QuestionState {
    QuestionOpen,
    QuestionTaken,
    QuestionAnswered,
    QuestionGiven // the caller has the answer, or finds it by itself
} QuestionState;

typedef struct Question {
    CudnnQuery query;
    QuestionState state;
    CudnnCandidate of[CUDNN_TIMED]; // owned until they are given away
    int n;
    bool troubled; // Cudnn.troubled behind it
    struct Question *next;
} Question;

typedef struct Asker {
    CudnnAsking *all;
    Cudnn *dnn;    // Cudnn.helper
    Question *now; // taken, not answered
    pthread_t thread;
} Asker;

struct CudnnAsking {
    const Cudnn *of;         // whose questions they are
    pthread_mutex_t lock;    // of all questions
    pthread_cond_t answered; // or open again
    Question *first, **end;  // a list, in the plan's order
    Asker asker[CUDNN_HELPERS];
    int askers; // running
};

static CudnnAsking *asking_of(Cudnn *d) {
    if (d->asking)
        return d->asking;
    CudnnAsking *all = arena_new(&d->arena, CudnnAsking);
    all->of = d;
    all->end = &all->first;
    pthread_mutex_init(&all->lock, NULL);
    pthread_cond_init(&all->answered, NULL);
    return d->asking = all;
}

static Question *find(const Cudnn *d, const CudnnQuery *query) {
    for (Question *q = d->asking ? d->asking->first : NULL; q; q = q->next)
        if (!query->rank_invariant && q->query.room == query->room &&
            !memcmp(&q->query.operation, &query->operation, sizeof query->operation))
            return q;
    return NULL;
}

bool cudnn_asks_ahead(const Cudnn *d) {
    return d && d->handle && device_threads(&d->cuda->base) > 1;
}

void cudnn_ask_later(Cudnn *d, const CudnnQuery *query) {
    CudnnAsking *all = asking_of(d);
    if (query->rank_invariant || find(d, query))
        return;
    Question *q = *all->end = arena_new(&d->arena, Question);
    memcpy(&q->query, query, sizeof *query);
    all->end = &q->next;
}

// Those with an epilogue first, whose engines may have to be compiled.
static Question *take(CudnnAsking *all) {
    Question *best = NULL;
    pthread_mutex_lock(&all->lock);
    for (Question *q = all->first; q; q = q->next) {
        bool epilogue = cudnn_has_epilogue(&q->query.operation);
        if (q->state == QuestionOpen &&
            (!best || (epilogue && !cudnn_has_epilogue(&best->query.operation))))
            best = q;
    }
    if (best)
        best->state = QuestionTaken;
    pthread_mutex_unlock(&all->lock);
    return best;
}

static void put(CudnnAsking *all, Question *q, QuestionState state) {
    pthread_mutex_lock(&all->lock);
    q->state = state;
    pthread_cond_broadcast(&all->answered);
    pthread_mutex_unlock(&all->lock);
}

static GanStatus answer_all(void *user) {
    Asker *k = user;
    while ((k->now = take(k->all))) {
        k->now->n = ask(k->dnn, &k->now->query, k->now->of);
        k->now->troubled = k->dnn->troubled;
        put(k->all, k->now, QuestionAnswered);
    }
    return GAN_OK;
}

// With a handle that runs nothing: its errors are not the device's, which the caller is using.
static Cudnn *open_helper(const Cudnn *of) {
    Cudnn *h = NULL;
    if (cudnn_open_for(of->api, (Str){0}, of->no_tf32, &h) == GAN_OK &&
        of->api->Create(&h->handle) == CUDNN_STATUS_SUCCESS)
        return h;
    if (h)
        h->handle = NULL;
    cudnn_close(h);
    return NULL;
}

// What it cannot answer the caller will ask.
static void *work(void *user) {
    Asker *k = user;
    const Cudnn *of = k->all->of;
    bool here = of->cuda->cu->CtxSetCurrent(of->cuda->context) == CUDA_SUCCESS;
    if (here && !k->dnn)
        here = (k->dnn = open_helper(of)) != NULL;
    if (here && arena_guard(&k->dnn->arena, "to ask cuDNN", answer_all, k) != GAN_OK)
        put(k->all, k->now, QuestionOpen);
    return NULL;
}

void cudnn_ask_begin(Cudnn *d) {
    CudnnAsking *all = d->asking;
    uint32_t open = 0;
    for (Question *q = all ? all->first : NULL; q; q = q->next)
        open++;
    int most = device_threads(&d->cuda->base) - 1; // the caller works, too
    for (int i = 0; i < CUDNN_HELPERS && i < most && (uint32_t)i < open; i++) {
        Asker *k = &all->asker[i];
        *k = (Asker){.all = all, .dnn = d->helper[i]};
        if (pthread_create(&k->thread, NULL, work, k) != 0)
            break;
        all->askers++;
    }
}

void cudnn_ask_end(Cudnn *d) {
    CudnnAsking *all = d->asking;
    if (!all)
        return;
    while (take(all)) // nobody needs it any more
        ;
    for (int i = 0; i < all->askers; i++) {
        pthread_join(all->asker[i].thread, NULL);
        d->helper[i] = all->asker[i].dnn;
    }
    for (Question *q = all->first; q; q = q->next)
        for (int i = 0; i < q->n; i++)
            cudnn_candidate_free(d, q->of[i]);
    pthread_cond_destroy(&all->answered);
    pthread_mutex_destroy(&all->lock);
    d->asking = NULL;
}

// True: it is answered. False: it is the caller's.
static bool wait_for(CudnnAsking *all, Question *q) {
    pthread_mutex_lock(&all->lock);
    while (q->state == QuestionTaken)
        pthread_cond_wait(&all->answered, &all->lock);
    bool answered = q->state == QuestionAnswered;
    q->state = QuestionGiven;
    pthread_mutex_unlock(&all->lock);
    return answered;
}

int cudnn_ask(Cudnn *d, const CudnnQuery *query, CudnnCandidate of[CUDNN_TIMED]) {
    Question *q = find(d, query);
    if (!q || !wait_for(d->asking, q))
        return ask(d, query, of);
    int n = q->n;
    memcpy(of, q->of, sizeof q->of);
    q->n = 0;
    d->troubled = q->troubled;
    return n;
}
