// image.h - machine code of a batch of kernels, as it is cached and stored in .ganx files.
//
// Usually it is one image of the compiler's. Where some of its kernels were compiled again alone, a
// second image follows, and after it a trailer with its offset: a reader of ELF files sees only the
// first.
#ifndef GAN_IMAGE_H
#define GAN_IMAGE_H

#include "base.h"

// Both, in `a`.
Str image_join(Arena *a, Str first, Str again);
// The second of a joined image, borrowed: its kernels replace those of the first. Empty where there
// is one image, and for any bytes that image_join did not write.
Str image_again(Str image);
// Appends the names of the kernels in the (first) image, which is a cubin or PTX, to `out`: none
// where the bytes are neither. Names are borrowed.
void image_kernels(Arena *a, Str image, StrVec *out);
// Bytes of a kernel's machine code, in either image; 0: they have none.
uint64_t image_code_bytes(Arena scratch, Str image, Str kernel);

#endif
