// ganx_fuzz.c - a compiled model from any bytes: it is refused with a message, or complete. Also
// its kernels, whose members' names state the architecture: a card gets existing code or none.
#include "fuzz.h"

#include "cuda_compile.h"
#include "driver.h"

static void parse(Arena *a, Str bytes) {
    Ganx g;
    GanStatus status = ganx_parse(a, bytes, STR("x.ganx"), &g);
    if (status == GAN_OK && (!g.model.ptr || !g.plan.ptr || !g.hash.len || g.batch < 1))
        bug("accepted without all its parts");
    if (status != GAN_OK && !*gan_error())
        bug("refused without a word");
}

// --- kernels -------------------------------------------------------------------------------------

static void check_images(Arena *a, const Plan *p, int arch) {
    const CudaKernels k = {.plan = p, .arch = arch};
    CudaImages images;
    if (cuda_compile(NULL, &k, a, &images) != GAN_OK)
        return; // some kernel's code did not come
    for (uint32_t i = 0; i < p->kernel.n; i++)
        if (images.of[i] >= images.n || !images.code[images.of[i]].len)
            bug("kernel %u has no code", i);
}

// Each line is a member's name, and what follows it is the code.
static void take_kernels(Arena *a, Str bytes) {
    Kernel kernel[] = {{.name = STR("k_ours")}, {.name = STR("k_fallback"), .fallback = true}};
    const Func f = {.name = STR("step")};
    Plan p = {.func = &f, .kernel = {.at = kernel, .n = 2}};
    Ganx g = {0};
    vec_push(a, &g.member, ((GanxMember){STR("kernels/step.cu"), STR("\n\n")})); // of these two
    for (size_t at = 0; at < bytes.len; at += str_find(str_sub(bytes, at, bytes.len), '\n') + 1) {
        Str rest = str_sub(bytes, at, bytes.len), line = str_sub(rest, 0, str_find(rest, '\n'));
        vec_push(a, &g.member, ((GanxMember){line, str_sub(rest, line.len + 1, rest.len)}));
    }
    ganx_cubins(a, &g, &p);
    for (uint32_t i = 0; i < p.cubin.n; i++) {
        const Cubin *x = &p.cubin.at[i];
        if (x->arch < 0 || (x->code.len && x->code.ptr < bytes.ptr) ||
            x->code.ptr + x->code.len > bytes.ptr + bytes.len)
            bug("code %u is none", i);
    }
    for (int arch = 70; arch <= 130; arch += 10)
        check_images(a, &p, arch);
}

// -------------------------------------------------------------------------------------------------

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    fuzz_within(parse, data, n);
    fuzz_within(take_kernels, data, n);
    return 0;
}
