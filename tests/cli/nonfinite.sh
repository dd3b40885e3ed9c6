#!/bin/sh
# nonfinite.sh - a run with a non-finite loss or weight names the operation, the line and the samples, and keeps the
# report; non-finite values that are masked are not reported.
. "$(dirname -- "$0")/lib.sh"
cp "$here/burst.gan" .
# Four samples of two floats; the third has a negative number. NPY 1.0: magic, header of 118 bytes, little-endian floats.
{
    printf '\223NUMPY\001\000v\000'
    printf '%-117s\n' "{'descr': '<f4', 'fortran_order': False, 'shape': (4, 2), }"
    printf '\000\000\200\077\000\000\000\100\000\000\100\077\000\000\200\077'
    printf '\000\000\240\300\000\000\200\077\000\000\000\100\000\000\000\077'
} >v.npy
train() { expect 1 train burst.gan --data v=v.npy --batch 4 --threads 1 --save-every 3 "$@"; }

for device in ref cpu; do
    train --device $device --out run_$device
    says 'burst.gan:.*: error\[E0701\]: `log` gave NaN in step 1, 1 of 8 numbers; it was given -5 to 2 (v); samples of the batch:'
    says '    (if mode == "log" { mean(log(v))'
    says '^  *|  *^'
    grep -q '"operation": "log"' run_$device/nonfinite.json || fail 'no evidence'
    grep -q '"samples": \[{"in_batch": [0-3], "v": "[^"]*2[^"]*"}\]' run_$device/nonfinite.json || fail 'another sample'
done
tail -n 1 err >first
expect 1 train run_cpu --threads 1 # fails at the same step again
tail -n 1 err | sed 's/run_cpu/run_cpu/' >second
same first second

# Of an operand that is a weight the name is given: it says which of many equal layers it was.
cat >wide.gan <<'END'
model wide "the second of two equal layers overflows"
data v : float(2)
fn layer(x, size) = x |> dense(2, init=size)
net D(x: [2]) -> [] = sum(x |> layer(1e20) |> layer(1e20), sample)
step { update D minimize mean(D(v)) using sgd() }
sample scores = D(v)
END
for device in ref cpu; do
    expect 1 train wide.gan --data v=v.npy --batch 4 --threads 1 --device $device --out wide_$device
    says 'wide.gan:3:.* gave infinity in step 1, .*; it was given .*(D.dense.1.w)'
    grep -q '"of": "D.dense.1.w"' wide_$device/nonfinite.json || fail 'the weight is not named'
done

# Masked values are not reported; the weights overflow some steps after the last checkpoint.
expect 0 train burst.gan -s mode=masked --data v=v.npy --batch 4 --steps 5 --threads 1 --out fine
absent fine/nonfinite.json
for device in ref cpu; do
    train -s mode=masked -s rate=1e9 --device $device --steps 50 --out burst_$device
    says 'repeating from step'
    says 'error\[E0701\]: `[a-z_]*` gave '
    grep -q '"operation": "log"' burst_$device/nonfinite.json && fail 'the masked logarithm is blamed'
    exists burst_$device/log.jsonl
done

# Nor is one that is masked in the same fused region where another appears.
cat >beside.gan <<'END'
model beside "a logarithm whose numbers are masked where a square root's are not"
data v : float(2)
net E(x: [2]) -> [2] = x |> dense(2)
net D(x: [2]) -> [] = x |> dense(1) |> squeeze
step { update D minimize mean(D(v)) + mean(where(v[0] > 0, E(stop(log(v))), 0) + sqrt(-1 - v*v)) using sgd() }
sample scores = D(v)
END
for device in ref cpu; do
    expect 1 train beside.gan --data v=v.npy --batch 4 --threads 1 --device $device --out beside_$device
    says '`sqrt` gave NaN in step 1, 8 of 8 numbers'
done

# A report that is not finite ends no run; it is said once, and shown.
cat >told.gan <<'END'
model told "reports that are not numbers"
data v : float(2)
net D(x: [2]) -> [] = x |> dense(1) |> squeeze
step {
  report size = mean(log(v)), zero = 1/(1 - 1*(step > 0)), later = sqrt(1 - step), last = log(1 - step)
  update D minimize mean((D(v) - 1)^2) using sgd(0.01)
}
sample scores = D(v)
END
expect 0 train told.gan --data v=v.npy --batch 4 --threads 1 --steps 4 --out told
says '^step 1: report size is not a number; losses are finite$'
says '^step 2: report zero is infinite, 1 more not finite; losses are finite$'
says '^step 3: report later is not a number; losses are finite$'
[ "$(grep -c 'losses are finite' err)" -eq 3 ] || fail 'said again'
says 'step 4/4 .* size nan zero inf later nan'
grep -q '"size": null' told/log.jsonl || fail 'logged as another value'
