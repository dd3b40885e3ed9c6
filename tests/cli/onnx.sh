#!/bin/sh
# onnx.sh - `ganrun export -o NAME.onnx`: a sample of the model as ONNX, and what is refused.
. "$(dirname -- "$0")/lib.sh"
pack
cp "$here/onnx.gan" .
expect 0 train onnx.gan --data x=s.pack --batch 2 --steps 2 --out run --threads 1

# IR version 8, with names of inputs, weights (PyTorch's), result, and source lines.
expect 0 export run --entry layers -o a.onnx
prints '^a.onnx$'
[ "$(od -An -tx1 -N2 a.onnx)" = ' 08 08' ] || fail 'no ir_version 8'
for word in ganrun Gemm ConvTranspose layers T.dense.0.weight U.conv.0.bias resolved.gan:6 hash; do
    grep -aq "$word" a.onnx || fail "$word is not in the file"
done
grep -aq 'opt\.' a.onnx && fail 'optimizer state is exported'
expect 0 export run --entry layers -o b.onnx
same a.onnx b.onnx

# Any number of samples, unless something is computed of all of them.
any=$(printf '\022\001N')    # dim_param
grep -aq "$any" a.onnx || fail 'layers has a fixed number of samples'
expect 0 export run --entry centred -o centred.onnx
grep -aq "$any" centred.onnx && fail 'the mean of two samples is that of any number'

# What has no import to compare it by.
for pair in transformed=DFT counted=Range; do
    expect 0 export run --entry ${pair%=*} -o o.onnx
    grep -aq ${pair#*=} o.onnx || fail "$pair is not in the file"
done

# Names in a file are different: a result that is called as an input is, or as draws are, gets another.
expect 0 export run --entry z -o z.onnx
grep -aq z_2 z.onnx || fail 'a result and an input have one name'

# What anneals during a run stays where it is: step is a number of the file.
expect 0 export run --entry late -o late.onnx

# An operation that cannot be exported is named with its line, and no file is written.
cat >order.gan <<'X'
model order
data x : image(3, 8, 8) scale(-1, 1)
net T(z: [8]) -> [3, 8, 8] { z |> dense(192) |> reshape(3, 8, 8) }
step { update T minimize mean((T(normal(8)) - x)^2) using sgd(0.1) }
sample sorted(a: [8]) = argsort_rows(a)
X
expect 0 train order.gan --data x=s.pack --batch 2 --steps 1 --out s --threads 1
expect 1 export s --entry sorted -o s.onnx
says '^ganrun: sample sorted cannot be written as ONNX: `arg_sort` at resolved.gan:5: no form of it is known here; export '
absent s.onnx
expect 2 export run --entry nowhere -o c.onnx
expect 2 export run --net T -o c.onnx
says '^ganrun: --net is for weights'
expect 2 export run --entry layers -o c.safetensors
says '^ganrun: --entry is for ONNX'
absent c.onnx c.safetensors
