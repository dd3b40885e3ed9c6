// strips.h - inside pass_strips: which operations are repeated for strips of an axis
// (strips_find.c), and the graph in which they are (strips.c).
#ifndef GAN_STRIPS_H
#define GAN_STRIPS_H

#include "pass.h"

// A group is made of *members*: values that have the axis, which strips cut, and sums over it. A
// member that reads what needs another in full, as the gradient of an attention needs its output,
// is of a higher level: its strips run when those of the lower levels are done.
enum { MaxLevels = 8 };

typedef struct Group {
    int64_t extent, rows; // of the axis; of a strip, the last may have fewer
    uint32_t strips, levels;
    NodeList member[MaxLevels]; // [level] what its strips compute, in order: its members, and large
                                // ones of lower levels again
} Group;

typedef struct Strips {
    Arena *a;
    const PassOptions *o;
    const Func *f;
    const Graph *g;
    const uint8_t *live, *root; // [node]
    const uint8_t *made;        // [node] is in strips already
    NodeList *users;            // [node] those alive
    uint32_t seed;              // the product that the group is found from
    NodeList member;
    uint8_t *cut; // [node] 1 + the axis that strips cut of it, 0: none
    uint8_t *sum; // [node] a sum over the axis: 1 + that of its operand, of a Dot the label; 0: no
    uint8_t *out; // [node] a member that others read in full
    uint8_t *again;  // [node] levels whose strips compute it, as bits
    uint32_t *level; // [node]
} Strips;

bool strips_find(Strips *z, Group *out); // false: there is none

// 1 + the axis of operand k that strips of member `id` read a part of; 0: they read all of it.
int strips_edge(const Strips *z, uint32_t id, uint32_t k);
// Is operand k of `id` a member whose strips make what those of member `id` read?
bool strips_carries(const Strips *z, uint32_t id, uint32_t k);
static inline bool strips_member(const Strips *z, uint32_t id) {
    return z->cut[id] || z->sum[id];
}

#endif
