// onnx_fuzz.c - what another program might have exported, from bytes: every number of every weight
// read, and the net translated.
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
        if (!import_net(&m, STR("net"), &net) && !m.error.len)
            bug("no net, and no reason");
    }
    onnx_close(&file);
    arena_release(&arena);
    (void)sum;
    return 0;
}
