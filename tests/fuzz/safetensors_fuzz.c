// safetensors_fuzz.c - a safetensors file from bytes, every element of every tensor read.
#include "tensors.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    return read_all_tensors(safe_open_bytes, data, size);
}
