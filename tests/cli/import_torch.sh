#!/bin/sh
# import_torch.sh - nets that PyTorch exports as ONNX give the same values here. Skipped where $PYTHON (python3) does not have
# it.
. "$(dirname -- "$0")/lib.sh"
python=${PYTHON:-python3}
if ! "$python" -c 'import numpy, onnx, torch' 2>/dev/null; then
    echo "skipped: $python has no torch and onnx"
    exit 77
fi
"$python" "$here/import_torch.py" "$ganrun"
