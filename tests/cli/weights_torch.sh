#!/bin/sh
# weights_torch.sh - weights that `ganrun export` writes are loaded by PyTorch's layers, and its own are read here, with the
# same values. Skipped where $PYTHON (python3) does not have it.
. "$(dirname -- "$0")/lib.sh"
python=${PYTHON:-python3}
if ! "$python" -c 'import numpy, torch' 2>/dev/null; then
    echo "skipped: $python has no torch"
    exit 77
fi
"$python" "$here/weights_torch.py" "$ganrun"
