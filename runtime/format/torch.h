// torch.h - files of named tensors that are not safetensors: PyTorch's own.
#ifndef GAN_TORCH_H
#define GAN_TORCH_H

#include "safetensors.h"

// Reads what torch.save wrote: a state dict, dictionaries of them, or whole modules, in today's zip
// archives or in the files of PyTorch before 1.6. A tensor's name is the way to it, joined by dots:
// {"G": {"conv.weight": ...}} holds "G.conv.weight"; words that wrap a net (state_dict, module, and
// a module's own _parameters, _buffers, _modules) are left out. Tensors are in the order of the
// file; those of other dtypes are SafeUnread. `out` borrows data. Nothing of the file is run.
// GAN_ERR_INPUT: it is damaged, or no such file.
GanStatus torch_open_bytes(Arena *perm, const uint8_t *data, size_t n, SafeFile *out);
// A file of weights, by its first bytes: PyTorch's, or safetensors. Close it by safe_close.
GanStatus weights_open(Arena *perm, Str path, SafeFile *out);
GanStatus weights_are(Str path, bool *out); // by its first bytes too

#endif
