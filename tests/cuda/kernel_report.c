// kernel_report.c - a model's busiest CUDA kernels and their resources, as a table for
// docs/performance.md, and the sums over all. No GPU needed: bytes follow from shapes, the rest is
// the compiler's report and its machine code.
//
//   build/tests/kernel_report MODEL.gan [ARCH [f32|bf16|f16]]     ARCH: 90 is compute
//   capability 9.0
#include "driver.h"
#include "image.h"
#include "nvrtc.h"
#include "resources.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 12, MOST_OPS = 6, INSTRUCTION = 16 }; // the last one in bytes, since Volta

typedef struct Row {
    const Kernel *kernel;
    uint32_t regions, largest; // of the step; the one that moves the most bytes
    double bytes;              // that they read and write
} Row;

static GanStatus compile_for(Arena *a, const Nvrtc *n, const Plan *p, int arch, bool ptx,
                             NvrtcImage *out) {
    Str *source = arena_array(a, Str, p->kernel.n), *name = arena_array(a, Str, p->kernel.n);
    for (uint32_t i = 0; i < p->kernel.n; i++) {
        source[i] = p->kernel.at[i].source;
        name[i] = p->kernel.at[i].name;
    }
    NvrtcJob job = {p->prelude, source, name, p->kernel.n, arch, ptx};
    return nvrtc_compile(n, a, &job, out);
}

static double bytes_of(const Plan *p, const Region *r) {
    const Graph *g = &p->func->g;
    double bytes = 0;
    for (uint32_t i = 0; i < r->in.n + r->out.n; i++) {
        uint32_t id = i < r->in.n ? r->in.at[i] : r->out.at[i - r->in.n];
        bytes += (double)type_bytes(g, node_type(g, id));
    }
    return bytes;
}

static int by_bytes(const void *a, const void *b) {
    const Row *x = a, *y = b;
    if (x->bytes != y->bytes)
        return x->bytes < y->bytes ? 1 : -1;
    return str_cmp(x->kernel->name, y->kernel->name);
}

static Row *rows_of(Arena *a, const Plan *p) {
    Row *row = arena_array(a, Row, p->kernel.n);
    for (uint32_t k = 0; k < p->kernel.n; k++) {
        row[k].kernel = &p->kernel.at[k];
        for (uint32_t i = 0; i < p->region.n; i++) {
            const Region *r = &p->region.at[i], *largest = &p->region.at[row[k].largest];
            if (r->kernel == k) {
                bool larger = !row[k].regions++ || bytes_of(p, r) > bytes_of(p, largest);
                row[k].largest = larger ? i : row[k].largest;
                row[k].bytes += bytes_of(p, r);
            }
        }
    }
    qsort(row, p->kernel.n, sizeof *row, by_bytes);
    return row;
}

// The widest access to global memory in an entry's PTX, in bytes.
static int widest(Str ptx, Str name, const char *access) {
    char entry[128];
    snprintf(entry, sizeof entry, ".entry %.*s(", SARG(name));
    const char *from = strstr(ptx.ptr, entry), *to = from ? strstr(from + 1, ".entry ") : NULL;
    int most = 0;
    for (const char *at = from; at && (at = strstr(at, access)) && (!to || at < to);) {
        at += strlen(access);
        at += strncmp(at, ".nc", 3) ? 0 : 3;
        int lanes = at[1] == 'v' ? at[2] - '0' : 1;
        const char *type = at + (at[1] == 'v' ? 4 : 1); // "f32", "b16"
        int bytes = lanes * (int)strtol(type + 1, NULL, 10) / 8;
        most = bytes > most ? bytes : most;
    }
    return most;
}

static void print_ops(const Plan *p, const Region *r) {
    int printed = 0;
    for (uint32_t i = 0; i < r->node.n; i++) {
        const OpInfo *op = &op_info[p->func->g.node.at[r->node.at[i]].op];
        if (op->cls != ClassLEAF && op->cls != ClassMOVE && ++printed <= MOST_OPS)
            printf("%s%s", printed > 1 ? " " : "", op->text);
    }
    printf("%s", printed > MOST_OPS ? " ..." : "");
}

typedef struct Made { // the step's kernels, compiled
    Str cubin, ptx;
    ResourcesVec used;
} Made;

static Resources resources_of(const Made *m, Str kernel) {
    Resources u = {0};
    for (uint32_t i = 0; i < m->used.n; i++)
        u = str_eq(m->used.at[i].name, kernel) ? m->used.at[i] : u;
    return u;
}

static int instructions_of(const Made *m, Str kernel, Arena scratch) {
    return (int)(image_code_bytes(scratch, m->cubin, kernel) / INSTRUCTION);
}

static void print_row(const Plan *p, const Row *row, const Made *m, Arena scratch) {
    const Region *r = &p->region.at[row->largest];
    const Str name = row->kernel->name;
    Resources u = resources_of(m, name);
    printf("| ");
    print_ops(p, r);
    printf(" | %u | %.1f | %u x %u | %d | %d | %d | %d | %d / %d |\n", row->regions,
           row->bytes / 1e6, r->blocks, row->kernel->threads, instructions_of(m, name, scratch),
           u.registers, u.shared, u.stored + u.loaded, widest(m->ptx, name, "ld.global"),
           widest(m->ptx, name, "st.global"));
}

// Of all kernels.
static void print_sums(const Plan *p, const Row *row, const Made *m, Arena scratch) {
    int instructions = 0, registers = 0, spilled = 0;
    uint32_t regions = 0;
    double bytes = 0;
    for (uint32_t i = 0; i < p->kernel.n; i++) {
        Resources u = resources_of(m, row[i].kernel->name);
        instructions += instructions_of(m, row[i].kernel->name, scratch);
        registers += u.registers;
        spilled += u.stored + u.loaded;
        regions += row[i].regions;
        bytes += row[i].bytes;
    }
    printf("| all %u | %u | %.1f | | %d | %d | | %d | |\n", p->kernel.n, regions, bytes / 1e6,
           instructions, registers, spilled);
}

static GanStatus report(Arena *a, Front *f, const char *path, int arch, Dtype real) {
    Nvrtc *n = NULL;
    Compiled c = {0};
    NvrtcImage cubin, ptx;
    CompileOptions o = {.path = str_c(path), .real = real, .dialect = &dialect_cuda};
    TRY(nvrtc_open(0, &n));
    if (!n)
        return fail(GAN_ERR_DEVICE, "this machine has no NVRTC");
    GanStatus st = compile_file(f, &o, &c);
    st = st == GAN_OK ? compile_for(a, n, &c.step, arch, false, &cubin) : st;
    st = st == GAN_OK ? compile_for(a, n, &c.step, arch, true, &ptx) : st;
    if (st == GAN_OK) {
        const Row *row = rows_of(a, &c.step);
        Made m = {cubin.code, ptx.code, {0}};
        resources_read(a, cubin.log, &m.used);
        printf("| %s, sm_%d, %s | regions | MB | grid | instructions | registers | shared | "
               "spilled | widest load / store |\n"
               "| --- | --: | --: | --: | --: | --: | --: | --: | --: |\n",
               path, arch, dtype_name[real]);
        for (uint32_t i = 0; i < c.step.kernel.n && i < ROWS; i++)
            print_row(&c.step, &row[i], &m, *a);
        print_sums(&c.step, row, &m, *a);
    }
    nvrtc_close(n);
    return st;
}

int main(int argc, char **argv) {
    Arena a;
    Front f;
    int64_t arch = 90;
    Dtype real = DtF32;
    for (int i = 0; argc > 3 && i < DtCount; i++)
        if (!strcmp(argv[3], dtype_name[i]))
            real = (Dtype)i;
    if (argc < 2 || (argc > 2 && !str_to_int(str_c(argv[2]), &arch))) {
        fprintf(stderr, "usage: kernel_report MODEL.gan [ARCH [f32|bf16|f16]]\n");
        return 2;
    }
    GanStatus st = arena_init(&a, 0);
    if (st == GAN_OK) {
        front_init(&f, &a);
        st = report(&a, &f, argv[1], (int)arch, real);
    }
    if (st != GAN_OK)
        fprintf(stderr, "kernel_report: %s\n", gan_error());
    arena_release(&a);
    return st == GAN_OK ? 0 : 1;
}
