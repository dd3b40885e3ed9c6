// arena.c - the precision of every slot, and where it lies in the slot memory.
//
// Net by net: its weights side by side, then each kind of optimizer state side by side in the same
// order, then its other state; at last what belongs to no net. A net's weights are ordered by when
// their gradients become final: backward runs against the order of first use, and weights are
// created in that order, so the order is creation reversed. Weights and states of one kind
// therefore have equal layouts, and a slice of one is the same slice of the others.
#include "plan.h"

typedef struct Placer {
    Module *m;
    size_t end;
} Placer;

size_t slot_place_bytes(const Module *m, uint32_t slot) {
    const Type *t = &m->slot.at[slot].type;
    size_t samples = t->batched ? (size_t)m->batch : 1;
    size_t bytes = samples * (size_t)type_sample(t) * dtype_size[t->dtype];
    return (bytes + PLAN_ALIGN - 1) / PLAN_ALIGN * PLAN_ALIGN;
}

static void place(Placer *p, uint32_t slot) {
    p->m->slot.at[slot].offset = p->end;
    p->end += slot_place_bytes(p->m, slot);
}

// "opt.m" of "opt.m/G.conv.3.w", and the weight behind it.
static Str kind_of(const Slot *s) {
    return str_sub(s->name, 0, str_find(s->name, '/'));
}
static Str weight_of(const Slot *s) {
    return str_sub(s->name, str_find(s->name, '/') + 1, s->name.len);
}

static void place_params(Placer *p, uint32_t net) {
    for (uint32_t i = p->m->slot.n; i-- > 0;)
        if (p->m->slot.at[i].net == net && p->m->slot.at[i].kind == SlotParam)
            place(p, i);
}

static bool is_state_of(const Slot *s, uint32_t net) {
    return s->kind == SlotOpt && s->net == net;
}

// The states of one kind, in the order of the weights they belong to; those of no weight follow.
static void place_kind(Placer *p, uint32_t net, Str kind, uint8_t *placed) {
    const Module *m = p->m;
    for (uint32_t w = m->slot.n; w-- > 0;) {
        if (m->slot.at[w].net != net || m->slot.at[w].kind != SlotParam)
            continue;
        for (uint32_t i = 0; i < m->slot.n; i++) {
            const Slot *s = &m->slot.at[i];
            if (!placed[i] && is_state_of(s, net) && str_eq(kind_of(s), kind) &&
                str_eq(weight_of(s), m->slot.at[w].name)) {
                place(p, i);
                placed[i] = 1;
            }
        }
    }
    for (uint32_t i = 0; i < m->slot.n; i++) {
        if (!placed[i] && is_state_of(&m->slot.at[i], net) &&
            str_eq(kind_of(&m->slot.at[i]), kind)) {
            place(p, i);
            placed[i] = 1;
        }
    }
}

// bf16 is a precision of products and of what they make: what outlives a step is f32.
static void settle_types(Module *m, Dtype real) {
    uint8_t dtype = real == DtF64 ? DtF64 : DtF32;
    for (uint32_t i = 0; i < m->slot.n; i++)
        m->slot.at[i].type.dtype = dtype;
    for (uint32_t i = 0; i < m->site.n; i++)
        m->site.at[i].type.dtype = dtype;
}

size_t slots_place(Module *m, Dtype real) {
    settle_types(m, real);
    Arena scratch;
    arena_need(&scratch);
    Placer p = {m, 0};
    uint8_t *placed = arena_array(&scratch, uint8_t, m->slot.n);
    for (uint32_t net = 0; net < m->net.n; net++) {
        place_params(&p, net);
        for (uint32_t i = 0; i < m->slot.n; i++)
            if (!placed[i] && is_state_of(&m->slot.at[i], net))
                place_kind(&p, net, kind_of(&m->slot.at[i]), placed);
        for (uint32_t i = 0; i < m->slot.n; i++)
            if (m->slot.at[i].net == net && m->slot.at[i].kind != SlotParam &&
                m->slot.at[i].kind != SlotOpt)
                place(&p, i);
    }
    for (uint32_t i = 0; i < m->slot.n; i++)
        if (m->slot.at[i].net >= m->net.n)
            place(&p, i);
    arena_release(&scratch);
    return p.end;
}
