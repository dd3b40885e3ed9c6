// onnx_file.h - an ONNX file as it is read: its graph, nothing looked up and nothing run.
//
// Texts and numbers are borrowed from the file, which stays mapped until onnx_close. Names are as
// in the file; an empty name of an input or output stands for one that is left out.
#ifndef GAN_ONNX_FILE_H
#define GAN_ONNX_FILE_H

#include "base.h"
#include "onnx_types.h"

enum { ONNX_RANK = 8 }; // axes of a tensor, at most

typedef struct OnnxTensor {
    Str name;
    OnnxElement type;
    uint32_t rank;
    int64_t dim[ONNX_RANK];
    size_t count;         // elements
    const uint8_t *raw;   // [count] of the type, little-endian, may be unaligned; NULL: `number`
    const double *number; // [count] where the file has one field a number
} OnnxTensor;

typedef struct OnnxAttribute {
    Str name;
    double f; // of a float, as is the next of an int
    int64_t i;
    Str s;
    const OnnxTensor *t; // NULL: it is no tensor
    VEC(double) floats;
    VEC(int64_t) ints;
} OnnxAttribute;

typedef struct OnnxNode {
    Str op, name, domain; // domain: empty, the standard's operations
    Str scope;            // dotted path of the module it was traced in; empty: unknown
    StrVec in, out;
    VEC(OnnxAttribute) attribute;
} OnnxNode;

typedef struct OnnxInput { // of the graph, or an output
    Str name;
    OnnxElement type;
    bool shaped; // rank and dim are known
    uint32_t rank;
    int64_t dim[ONNX_RANK]; // -1: known when it runs
} OnnxInput;

typedef struct OnnxFile {
    int64_t opset; // of the standard's operations
    Str producer, version;
    VEC(OnnxNode) node; // operands before what reads them
    VEC(OnnxTensor) initializer;
    VEC(OnnxInput) input; // initializers may be among them
    VEC(OnnxInput) output;
    VEC(FileMap) map; // owned: the file, and those of its weights
    StrVec outside;   // their names, as the file has them
} OnnxFile;

// GAN_ERR_INPUT: it is damaged, or has what cannot be read here. `out` is to be closed either way.
GanStatus onnx_open(Arena *perm, Str path, OnnxFile *out);
// The same from bytes, which are borrowed; weights in other files are refused.
GanStatus onnx_open_bytes(Arena *perm, Str bytes, OnnxFile *out);
void onnx_close(OnnxFile *f); // accepts an empty one

bool onnx_is_real(OnnxElement type);           // float, double, float16, bfloat16
double onnx_at(const OnnxTensor *t, size_t i); // element i as a number

#endif
