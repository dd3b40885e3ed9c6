// onnx_fuzz.c - what another program might have exported, from bytes: every number of every weight
// read, the net translated, and every number that its file of weights would hold.
#include "fuzz.h"
#include "import.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    Arena arena = {0};
    OnnxFile file = {0};
    if (arena_init(&arena, (size_t)1 << 32) != GAN_OK)
        return 0;
    volatile double sum = 0;
    if (onnx_open_bytes(&arena, (Str){(const char *)data, size}, &file) == GAN_OK) {
        for (uint32_t t = 0; t < file.initializer.n; t++)
            for (size_t i = 0; i < file.initializer.at[t].count; i++)
                sum += onnx_at(&file.initializer.at[t], i);
        Import m = {.a = &arena, .f = &file};
        NetText net = {0};
        bool made = import_net(&m, STR("net"), &net);
        if (!made && !m.error.len)
            bug("no net, and no reason");
        if (made)
            import_model(&m, &net, STR("net"), STR("net.onnx"), STR("net.safetensors"));
        for (uint32_t t = 0; made && t < m.stored.n; t++)
            for (int64_t i = 0, n = product_of(m.stored.at[t].dim, m.stored.at[t].rank); i < n; i++)
                sum += stored_at(&m.stored.at[t], (size_t)i);
    }
    onnx_close(&file);
    arena_release(&arena);
    (void)sum;
    return 0;
}
