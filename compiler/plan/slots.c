// slots.c - the precision of every slot, and where it lies in the slot memory.
//
// Net by net: its weights side by side, then each kind of optimizer state side by side in the same
// order, then its other state; at last what belongs to no net. A net's weights are ordered by when
// their gradients become final: backward runs against the order of first use, and weights are
// created in that order, so the order is creation reversed. Weights and states of one kind
// therefore have equal layouts, and a slice of one is the same slice of the others.
#include "stages.h"

#include "integers.h"

typedef VEC(uint32_t) SlotList;

typedef struct Placer {
    Module *m;
    size_t end;
    SlotList *states; // [slot] of a weight: its optimizer states
    uint8_t *placed;  // [slot]
} Placer;

size_t slot_place_bytes(const Module *m, uint32_t slot) {
    const Type *t = &m->slot.at[slot].type;
    size_t samples = t->batched ? (size_t)m->batch : 1;
    size_t bytes = samples * (size_t)type_sample(t) * dtype_size[t->dtype];
    return round_up(bytes, PLAN_ALIGN);
}

static void place(Placer *p, uint32_t slot) {
    p->m->slot.at[slot].offset = p->end;
    p->end += slot_place_bytes(p->m, slot);
    p->placed[slot] = 1;
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

// The weight of that name among those found so far, 0: none; numbers are one more than slots.
static uint32_t find_weight(const Module *m, const Map *weights, Str name, uint64_t *hash) {
    uint32_t found;
    for (*hash = hash64(name.ptr, name.len, 0); (found = map_find(weights, *hash)) != 0; ++*hash)
        if (str_eq(m->slot.at[found - 1].name, name))
            break;
    return found;
}

static void find_states(Arena *a, Placer *p) {
    const Module *m = p->m;
    Map weights = {0};
    uint64_t hash;
    p->states = arena_array(a, SlotList, m->slot.n);
    p->placed = arena_array(a, uint8_t, m->slot.n);
    for (uint32_t i = 0; i < m->slot.n; i++)
        if (m->slot.at[i].kind == SlotParam && !find_weight(m, &weights, m->slot.at[i].name, &hash))
            map_put(a, &weights, hash, i + 1);
    for (uint32_t i = 0; i < m->slot.n; i++) {
        const Slot *s = &m->slot.at[i];
        uint32_t weight = s->kind == SlotOpt ? find_weight(m, &weights, weight_of(s), &hash) : 0;
        if (weight && m->slot.at[weight - 1].net == s->net)
            vec_push(a, &p->states[weight - 1], i);
    }
}

static bool is_state_of(const Slot *s, uint32_t net) {
    return s->kind == SlotOpt && s->net == net;
}

// The states of one kind, in the order of the weights they belong to; those of no weight follow.
static void place_kind(Placer *p, uint32_t net, Str kind) {
    const Module *m = p->m;
    for (uint32_t w = m->slot.n; w-- > 0;) {
        for (uint32_t k = 0; m->slot.at[w].net == net && k < p->states[w].n; k++) {
            uint32_t i = p->states[w].at[k];
            if (str_eq(kind_of(&m->slot.at[i]), kind))
                place(p, i);
        }
    }
    for (uint32_t i = 0; i < m->slot.n; i++)
        if (!p->placed[i] && is_state_of(&m->slot.at[i], net) &&
            str_eq(kind_of(&m->slot.at[i]), kind))
            place(p, i);
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
    Placer p = {.m = m};
    find_states(&scratch, &p);
    for (uint32_t net = 0; net < m->net.n; net++) {
        place_params(&p, net);
        for (uint32_t i = 0; i < m->slot.n; i++)
            if (!p.placed[i] && is_state_of(&m->slot.at[i], net))
                place_kind(&p, net, kind_of(&m->slot.at[i]));
        for (uint32_t i = 0; i < m->slot.n; i++)
            if (m->slot.at[i].net == net && !p.placed[i])
                place(&p, i);
    }
    for (uint32_t i = 0; i < m->slot.n; i++)
        if (m->slot.at[i].net >= m->net.n)
            place(&p, i);
    arena_release(&scratch);
    return p.end;
}
