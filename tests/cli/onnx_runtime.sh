#!/bin/sh
# onnx_runtime.sh - exported samples give the same values in ONNX Runtime. Skipped where $PYTHON (python3) does not have
# it.
. "$(dirname -- "$0")/lib.sh"
python=${PYTHON:-python3}
if ! "$python" -c 'import numpy, onnxruntime' 2>/dev/null; then
    echo "skipped: $python has no onnxruntime"
    exit 77
fi
pack
cp "$here/onnx.gan" .
expect 0 train onnx.gan --data x=s.pack --batch 4 --steps 2 --out run --threads 1
"$python" "$here/onnx_runtime.py" "$ganrun" onnx.gan run
