#!/bin/sh
# tests/bench/cpu.sh [MODEL...]: ganrun against PyTorch on this machine's CPU, in alternation, and the ratios.
# Needs PyTorch in the python3 named by $PYTHON. Run it on a quiet machine. See docs/performance.md.
# ROUNDS=3 STEPS=5 PRECISIONS="f32 bf16" COMPILED=1 (compile takes PyTorch up to minutes).
set -eu
cd "$(dirname -- "$0")/../.."
python=${PYTHON:-python3}
rounds=${ROUNDS:-3} steps=${STEPS:-5} precisions=${PRECISIONS:-f32 bf16}

# model, batch, what is required of the ratio in f32 and in bf16 (0: nothing), layouts PyTorch is tried in, our options.
# cyclegan: PyTorch's channels-last gradients are wrong there. The options are those of the PyTorch program's BENCH.
table='
dcgan      32  1.2 1.2 both -s mode=intended
sngan      32  1.2 1.3 both -s mode=intended
wgan_gp    32  1.2 1.2 both -s mode=published
d3gan      32  1.4 1.4 both -s variant=single
d2gan_ring 512 1.5 0   nchw
aae3d      16  2.5 0   nchw
cosmogan   16  1.2 1.2 both -s mode=published
cyclegan   1   1.1 0   nchw
'

ours() { # MODEL BATCH PRECISION OPTIONS...
    m=$1 b=$2 p=$3; shift 3
    build/ganrun bench "models/$m.gan" --batch "$b" --precision "$p" --steps "$steps" --warmup 2 "$@" --json |
        sed -n 's/.*"step_ms": *\([0-9.]*\).*/\1/p'
}
theirs() { # MODEL BATCH FLAGS...
    m=$1 b=$2; shift 2
    (cd tests/bench/pytorch && "$python" bench.py "$m" --batch "$b" --steps "$steps" --warmup 2 "$@" ) |
        sed -n 's/.*median_ms=\([0-9.]*\).*/\1/p'
}
least() { printf '%s\n' "$@" | sort -g | head -n 1; }

race() { # MODEL BATCH PRECISION REQUIRED LAYOUTS OPTIONS...
    m=$1 b=$2 p=$3 required=$4 layouts=$5; shift 5
    flag=; [ "$p" = f32 ] || flag=--bf16
    for round in $(seq "$rounds"); do
        a=$(ours "$m" "$b" "$p" "$@")
        nchw=$(theirs "$m" "$b" $flag) nhwc=
        [ "$layouts" = nchw ] || nhwc=$(theirs "$m" "$b" $flag --channels-last)
        best=$(least "$nchw" ${nhwc:+"$nhwc"})
        echo "$m batch $b $p round $round: ganrun $a ms, pytorch nchw $nchw ms, nhwc ${nhwc:--} ms," \
            "ratio $(awk -v a="$a" -v b="$best" 'BEGIN { printf "%.2f", b / a }') (required $required)"
    done
    [ -z "${COMPILED:-}" ] || echo "$m batch $b $p compiled: pytorch $(theirs "$m" "$b" $flag --compile) ms"
}

[ $# -gt 0 ] || set -- dcgan sngan wgan_gp d3gan d2gan_ring aae3d cosmogan cyclegan
for model in "$@"; do
    row=$(echo "$table" | grep "^$model ") || { echo "no such race: $model" >&2; exit 2; }
    # shellcheck disable=SC2086 # a row's words are arguments
    set -- $row
    name=$1 batch=$2 f32=$3 bf16=$4 layouts=$5; shift 5
    for precision in $precisions; do
        eval required=\$$precision
        [ "$required" = 0 ] || race "$name" "$batch" "$precision" "$required" "$layouts" "$@"
    done
done
