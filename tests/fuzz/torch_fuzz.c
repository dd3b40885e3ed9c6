// torch_fuzz.c - what torch.save might have written, from bytes, every element of every tensor
// read.
#include "tensors.h"
#include "torch.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    return read_all_tensors(torch_open_bytes, data, size);
}
