// cpu_fft.c - Fourier transforms on the cpu device: groups of lines distributed over the threads.
//
// In: a transform of a plan, and memory. Out: a call ready to run. Roots of unity and scratch
// memory are prepared once; results do not depend on the number of threads.
#include "cpu.h"

#ifdef _OPENMP
#include <omp.h>
#endif

struct FftCall {
    FftLines lines;
    FftPlan *plan; // owned
    float *room;   // owned; [threads, fft_room(plan)]
    const float *in;
    float *out;
    FftRun32 *run;
    int threads;
    FftCall *next;
};

extern FftRun32 fft_run32_v3, fft_run32_v4;

GanStatus fft_prepare(FftCalls *calls, const Plan *p, uint32_t id, Memory m, int threads) {
    const Graph *g = &p->func->g;
    FftCall *c = mem_alloc(sizeof *c);
    if (!c)
        return fail(GAN_ERR_MEMORY, "no memory for a transform");
    *c = (FftCall){.lines = fft_lines(g, id),
                   .run = OF_VECTOR_LEVEL(fft_run32, fft_run32_v3, fft_run32_v4),
                   .next = calls->last};
    c->in = memory_at(m, p, node_in(g, id, 0));
    c->out = memory_at(m, p, id);
    c->threads = fft_groups(&c->lines) < threads ? (int)fft_groups(&c->lines) : threads;
    calls->last = c;
    TRY(fft_make(&c->lines, &c->plan));
    size_t numbers = fft_room(c->plan) * (size_t)c->threads;
    c->room = mem_alloc_aligned(numbers * sizeof *c->room, 64);
    return c->room ? GAN_OK
                   : fail(GAN_ERR_MEMORY, "no memory for a transform of %lld numbers",
                          (long long)c->lines.n);
}

void fft_run(const FftCall *c, int team) {
    int64_t groups = fft_groups(&c->lines);
    team = c->threads < team ? c->threads : team;
#pragma omp parallel for num_threads(team) schedule(static, 1)
    for (int i = 0; i < team; i++)
        c->run(c->plan, &c->lines, c->in, c->out, groups * i / team, groups * (i + 1) / team,
               c->room + (size_t)i * fft_room(c->plan));
}

void fft_release(FftCalls *calls) {
    while (calls->last) {
        FftCall *c = calls->last;
        calls->last = c->next;
        fft_free(c->plan);
        mem_free_aligned(c->room);
        mem_free(c);
    }
}
