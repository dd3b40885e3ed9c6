// record_order.c - the happens-before relation of recorded work, by vector clocks.
//
// Every timeline (the host, each stream) numbers its work. A clock holds, for each timeline, the
// last number its owner is known to come after. Work A happens before work B when B's clock has
// reached A's number on A's timeline. Accesses are kept until a later one, ordered after them,
// covers them.
#include "record.h"

typedef struct Past {
    Access access;
    uint32_t line;
    uint64_t number;
    const char *name;
} Past;

struct Order {
    Arena *a;
    VEC(Past) past;
};

Order *order_new(Arena *a) {
    Order *o = arena_new(a, Order);
    o->a = a;
    return o;
}

void order_join(Clock *to, const Clock *from) {
    for (int i = 0; i < RECORD_LINES; i++)
        if (from->at[i] > to->at[i])
            to->at[i] = from->at[i];
}

static bool overlaps(Access a, Access b) {
    return a.at < b.at + b.n && b.at < a.at + a.n;
}

static bool covers(Access a, Access b) {
    return a.at <= b.at && b.at + b.n <= a.at + a.n && (a.write || !b.write);
}

static bool add_access(Order *o, const Clock *c, uint32_t line, Access x, const char *name,
                       const char **other) {
    uint32_t kept = 0;
    bool fine = true;
    for (uint32_t i = 0; i < o->past.n; i++) {
        const Past p = o->past.at[i];
        bool before = c->at[p.line] >= p.number, self = p.line == line && p.number == c->at[line];
        if (overlaps(x, p.access) && (x.write || p.access.write) && !before) {
            *other = p.name;
            fine = false;
        }
        if (!(before && !self && covers(x, p.access)))
            o->past.at[kept++] = p;
    }
    o->past.n = kept;
    vec_push(o->a, &o->past, ((Past){x, line, c->at[line], name}));
    return fine;
}

bool order_add(Order *o, Clock *c, uint32_t number, const Work *w, const char **other) {
    bool fine = true;
    c->at[number]++;
    for (uint32_t i = 0; i < w->access.n && fine; i++)
        fine = add_access(o, c, number, w->access.at[i], w->name, other);
    return fine;
}

void order_forget(Order *o, CUdeviceptr at, size_t n) {
    uint32_t kept = 0;
    for (uint32_t i = 0; i < o->past.n; i++)
        if (!overlaps((Access){at, n, true}, o->past.at[i].access))
            o->past.at[kept++] = o->past.at[i];
    o->past.n = kept;
}
