#!/bin/sh
# nvrtc_error.sh - a kernel that the CUDA compiler rejects is a bug of ours: exit code 70, the kernel, the line of its text
# and the line of the model, and no file. Arguments: ganrun and the folder of a libnvrtc.so.13 that rejects.
. "$(dirname -- "$0")/lib.sh"
LD_LIBRARY_PATH=$2${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export LD_LIBRARY_PATH
export XDG_CACHE_HOME="$work/cache"

refused 70 'NVRTC 13.0 refuses a kernel for compute_80: [a-z_]*_[0-9a-f]\{16\}(3): error: refused by a test' ganc compile tiny.gan --target cuda:sm_80 -o tiny.ganx
says 'made of model.gan:[0-9]*: [a-z]'
absent tiny.ganx

# Its second library needs one that a bare machine lacks.
export REFUSING_NVRTC=builtins
refused 3 'NVRTC 13.0: compiling kernels: .*(libnvrtc-builtins.so, .* or libstdc++.so.6, which that needs)' ganc compile tiny.gan --target cuda:sm_80 -o tiny.ganx
absent tiny.ganx
