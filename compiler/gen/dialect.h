// dialect.h - a dialect of the emitter (emit.c): for C-like languages, a table of names without
// control flow. Two shapes of kernels: loops for a core, teams of threads for a graphics card.
#ifndef GAN_DIALECT_H
#define GAN_DIALECT_H

#include "gen.h"

// A function of the value columns, and what it is called for float.
typedef struct MathName {
    const char *row, *f32;
} MathName;

typedef struct Nest Nest;
typedef struct Emit Emit;

// Names of types and functions; NULL: this dtype is not supported.
typedef struct Words {
    const char *storage[DtCount];      // type of an element in memory
    const char *compute[DtCount];      // type it is computed in
    const char *load[DtCount];         // function around an element that is read, or ""
    const char *store[DtCount];        // around one that is written, or ""
    const char *round[DtCount];        // around one on its way; NULL: nothing is lost
    const MathName *math;              // those that are not the C library's; ends in {0}
    const char *draw32[4], *draw64[4]; // by Dist
} Words;
extern const Words words_c; // of C and of CUDA C++, which share the prelude

struct Dialect {
    const char *name;
    const char *index;              // the type of an index, where 32 bits are enough for it
    const char *test;               // the type of a comparison's result
    const char *divide;             // a function that divides two floats; NULL: `/` does
    const char *load_if;            // a function that loads where a bound holds; NULL: a choice
    const char *signature, *finish; // function heads; %.*s is the name
    const char *draws;              // before that of one that reads the counters
    const char *simd;               // before a loop whose iterations are independent
    const char *few;                // before it where it has 2, 3, 4 or 8 iterations, %d
    const char *in_order;           // in a loop that must not be vectorised
    int64_t written_out;            // whole numbers below it are; others are arguments
    bool names_indices;             // repeated parts of indices are variables
    bool merges;                    // regions of one kernel are launched through one entry
    void (*shape)(Nest *n);         // the nest's shape: nest_shape or nest_shape_team,
    void (*kernel)(Emit *e);        // and what writes it: emit_loops or emit_team
    void (*calls)(Arena *perm, Plan *p); // kernels of call regions; NULL: a library has them all
    Str (*prelude)(void);
};

void emit_loops(Emit *e); // emit_loops.c
void emit_team(Emit *e);  // emit_team.c

// Writes the kernel of a shaped nest. Extents, strides and the like that it leaves open are added
// to `numbers`: the same ones in every form. Returns whether it reads the counters.
typedef enum KernelForm {
    FormAlone, // of one region
    FormMany,  // of several in one launch
    FormPart,  // its statements alone, for emit_parts
} KernelForm;
typedef VEC(int64_t) Numbers;
bool emit_kernel(Text *t, const Nest *n, const Dialect *d, Str name, KernelForm form,
                 Numbers *numbers);

// Writes one kernel of several: a region's last word, of `words`, says which of them is its own.
typedef struct Part {
    Str name, text; // FormPart
    bool counters;  // does it read them?
} Part;
void emit_parts(Text *t, Str name, uint32_t threads, uint32_t words, const Part *part, uint32_t n);

// parts.c. Horizontal fusion: gives the regions of each launch one kernel, which is either a kernel
// for many regions or one of several parts. A kernel is compiled once: where it is a part, all its
// regions are launched as that part, even alone.
// nest: [kernel] what it was written of; borrowed.
void gen_fuse_launches(Arena *perm, Plan *p, const Dialect *d, const Nest *const *nest);

#endif
