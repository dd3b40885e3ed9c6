#!/bin/sh
# tests/bench/cpu.sh [MODEL...]: ganrun against PyTorch on this machine's CPU, in alternation, and the ratios.
# Needs PyTorch in the python3 named by $PYTHON. Run it on a quiet machine. See docs/performance.md.
set -eu
cd "$(dirname -- "$0")/../.."
python=${PYTHON:-python3}
rounds=${ROUNDS:-3}
batch=${BATCH:-32}
[ $# -gt 0 ] || set -- dcgan

ours() { build/ganrun bench "models/$1.gan" --batch "$batch" --precision "$2" --steps 7 --warmup 3 --json |
         sed -n 's/.*"step_ms": *\([0-9.]*\).*/\1/p'; }
theirs() { # MODEL PRECISION FLAGS
    m=$1; shift
    (cd tests/bench/pytorch && "$python" bench.py "$m" --batch "$batch" "$@") | sed -n 's/.*median_ms=\([0-9.]*\).*/\1/p'; }

for model in "$@"; do
    for precision in f32 bf16; do
        flag=; [ $precision = f32 ] || flag=--bf16
        for round in $(seq "$rounds"); do
            a=$(ours "$model" $precision)
            b=$(theirs "$model" $flag)
            c=$(theirs "$model" $flag --channels-last)
            echo "$model $precision round $round: ganrun $a ms, pytorch nchw $b ms, nhwc $c ms, ratio $(
                awk -v a="$a" -v b="$b" -v c="$c" 'BEGIN { printf "%.2f", (b < c ? b : c) / a }')"
        done
    done
    d=$(theirs "$model" --channels-last --compile)
    echo "$model f32 compiled nhwc: pytorch $d ms"
done
