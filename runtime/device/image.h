// image.h - machine code of a batch of kernels, as it is kept and sent.
//
// Mostly it is one image of the compiler's. Where some of its kernels were compiled once more by
// themselves, theirs stands behind it, and behind that where it begins: whoever reads the first
// image's own header finds what he expects, and nothing else of it.
#ifndef GAN_IMAGE_H
#define GAN_IMAGE_H

#include "base.h"

// Both, in `a`.
Str image_join(Arena *a, Str first, Str again);
// The second of a joined image, borrowed: its kernels are to be taken from there. Empty where there
// is one image, as of any bytes that image_join did not make.
Str image_again(Str image);
// Appends the names of the kernels in the (first) image, which is a cubin or PTX, to `out`: none
// where the bytes are neither. Names are borrowed.
void image_kernels(Arena *a, Str image, StrVec *out);

#endif
