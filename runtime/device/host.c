// host.c - what devices share whose memory is the host's: the small parts of their vtables, and a
// plan's collectives.
//
// In: a region that starts or waits for a call, and the memory the plan was loaded against. Out:
// the communicator's job. Parts that are not where they are reduced are copied there, and the gaps
// between parts are zeroed, so that all bytes sent are defined.
#include "device.h"

#include <string.h>

void host_release(Device *d, void *ptr) {
    (void)d;
    mem_free_aligned(ptr);
}

GanStatus host_copy(Device *d, void *to, const void *from, size_t n) {
    (void)d;
    memcpy(to, from, n);
    return GAN_OK;
}

GanStatus host_sync(Device *d) {
    (void)d;
    return GAN_OK;
}

// --- collectives ---------------------------------------------------------------------------------

GanStatus collective_check(const Plan *p, Comm *comm) {
    uint32_t ranks = p->module->share.ranks > 1 ? p->module->share.ranks : 1;
    if (!p->collective.n || ranks == (uint32_t)comm_size(comm))
        return GAN_OK;
    return fail(GAN_ERR_DEVICE, "the plan is for %u ranks, but %d take part", ranks,
                comm_size(comm));
}

static void gather_part(const Plan *p, const Collective *c, uint32_t i, Memory m) {
    const CallPart *part = &c->part.at[i];
    char *to = m.work + c->offset + part->offset;
    const char *from = memory_at(m, p, node_in(&p->func->g, part->start, 0));
    size_t end = i + 1 < c->part.n ? c->part.at[i + 1].offset : c->bytes;
    if (from != to)
        memcpy(to, from, part->bytes);
    memset(to + part->bytes, 0, end - part->offset - part->bytes);
}

CommJob collective_job(const Plan *p, uint32_t call, void *data, uint32_t step) {
    const Collective *c = &p->collective.at[call];
    return (CommJob){
        .id = call,
        .kind = c->order == OrderTree ? CommTree : CommSum,
        .dtype = c->dtype,
        .wire = c->dtype,
        .data = data,
        .n = c->bytes / dtype_size[c->dtype],
        .step = step,
        .what = c->what,
    };
}

GanStatus collective_start(const Plan *p, uint32_t call, Memory m, Comm *comm, uint32_t step) {
    const Collective *c = &p->collective.at[call];
    for (uint32_t i = 0; i < c->part.n; i++)
        gather_part(p, c, i, m);
    const CommJob job = collective_job(p, call, m.work + c->offset, step);
    return comm_start(comm, &job);
}
