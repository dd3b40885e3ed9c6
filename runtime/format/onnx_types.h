// onnx_types.h - element types of ONNX, as TensorProto.DataType numbers them.
#ifndef GAN_ONNX_TYPES_H
#define GAN_ONNX_TYPES_H

typedef enum OnnxElement {
    OnnxFloat = 1,
    OnnxUint8 = 2,
    OnnxInt8 = 3,
    OnnxInt32 = 6,
    OnnxInt64 = 7,
    OnnxBool = 9,
    OnnxFloat16 = 10,
    OnnxDouble = 11,
    OnnxUint32 = 12,
    OnnxUint64 = 13,
    OnnxBfloat16 = 16,
} OnnxElement;

#endif
