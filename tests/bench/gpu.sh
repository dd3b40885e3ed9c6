#!/bin/sh
# tests/bench/gpu.sh [--only MODEL] [--out FILE]: ganrun against PyTorch on this machine's card, in one run: every model at
# its published batch and at $LARGEST, f32 (TF32) and bf16, PyTorch eager, compiled and compiled with CUDA graphs. Results are
# appended to FILE (docs/measurements/gpu.tsv), one line a measurement, with the date and the card's name: all of it does not
# fit one sitting, and a line that is there is not measured again. Where there is a compute-sanitizer it looks at a short run first.
# GANRUN names the program (build/ganrun), PYTHON the python3 that has PyTorch, STEPS=20 LARGEST=256 TIMEOUT=300.
set -eu
cd "$(dirname -- "$0")/../.."
ganrun=${GANRUN:-build/ganrun} python=${PYTHON:-python3}
steps=${STEPS:-20} largest=${LARGEST:-256} timeout=${TIMEOUT:-300}
only='' out=docs/measurements/gpu.tsv
while [ $# -gt 0 ]; do
    case $1 in
    --only) only=$2; shift 2 ;;
    --out) out=$2; shift 2 ;;
    *) echo "usage: tests/bench/gpu.sh [--only MODEL] [--out FILE]" >&2; exit 2 ;;
    esac
done
card=$(nvidia-smi --query-gpu=name --format=csv,noheader 2>/dev/null | head -n 1) || card=
[ -n "$card" ] || { echo "gpu.sh: this machine has no card (nvidia-smi names none)" >&2; exit 3; }
case $out in /*) ;; *) out=$(pwd)/$out ;; esac
mkdir -p "$(dirname -- "$out")"
[ -s "$out" ] || printf 'date\tcard\tmodel\tbatch\tprecision\twho\tstep_ms\tdetail\n' >"$out"

# model, published batch, our options (those of the PyTorch program's BENCH)
table='
dcgan      32  -s mode=intended
sngan      32  -s mode=intended
wgan_gp    32  -s mode=published
d3gan      32  -s variant=single
d2gan_ring 512
aae3d      32
cosmogan   64  -s mode=published
cyclegan   1
'

known() { # MODEL BATCH PRECISION WHO: measured on this card already
    awk -F '\t' -v c="$card" -v m="$1" -v b="$2" -v p="$3" -v w="$4" \
        '$2 == c && $3 == m && $4 == b && $5 == p && $6 == w { found = 1 } END { exit !found }' "$out"
}
note() { # MODEL BATCH PRECISION WHO MS DETAIL
    printf '%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n' "$(date -u +%F)" "$card" "$@" | tee -a "$out"
}
field() { printf '%s' "$1" | sed -n "s/.*\"$2\": *\\([0-9.e+-]*\\).*/\\1/p"; }

ours() { # MODEL BATCH PRECISION OPTIONS...
    m=$1 b=$2 p=$3; shift 3
    known "$m" "$b" "$p" ganrun && return
    if ! json=$(timeout "$timeout" "$ganrun" bench "models/$m.gan" --device cuda --batch "$b" --precision "$p" --steps "$steps" \
        --warmup 5 "$@" --json 2>"$out.err"); then
        note "$m" "$b" "$p" ganrun - "$(head -n 1 "$out.err" | tr '\t' ' ')"
        return
    fi
    note "$m" "$b" "$p" ganrun "$(field "$json" step_ms)" "p90 $(field "$json" step_ms_p90), launches $(
        field "$json" launches_per_step), cold $(field "$json" cold_ms), warm $(field "$json" warm_ms), bytes $(
        field "$json" peak_bytes_planned), gflop $(field "$json" gflop_per_step)"
}
theirs() { # WHO MODEL BATCH PRECISION FLAGS...
    w=$1 m=$2 b=$3 p=$4; shift 4
    known "$m" "$b" "$p" "$w" && return
    flag=; [ "$p" = f32 ] || flag=--bf16
    if ! line=$(cd tests/bench/pytorch && timeout "$timeout" "$python" bench.py "$m" --device cuda --batch "$b" --steps "$steps" \
        --warmup 5 $flag "$@" 2>"$out.err"); then
        note "$m" "$b" "$p" "$w" - "$(tail -n 1 "$out.err" | tr '\t' ' ')"
        return
    fi
    note "$m" "$b" "$p" "$w" "$(printf '%s' "$line" | sed -n 's/.*median_ms=\([0-9.]*\).*/\1/p')" "$line"
}

race() { # MODEL BATCH OPTIONS...
    model=$1 batch=$2; shift 2
    for precision in f32 bf16; do
        ours "$model" "$batch" "$precision" "$@"
        theirs eager "$model" "$batch" "$precision"
        [ "$model" = cyclegan ] || theirs eager-nhwc "$model" "$batch" "$precision" --channels-last
        theirs compiled "$model" "$batch" "$precision" --compile
        theirs compiled-graphs "$model" "$batch" "$precision" --compile --cudagraphs
    done
}

trap 'rm -f "$out.err"' EXIT
"$ganrun" doctor
if command -v compute-sanitizer >/dev/null && ! known d2gan_ring 0 f32 memcheck; then
    timeout "$timeout" compute-sanitizer --tool memcheck --error-exitcode 9 "$ganrun" verify models/d2gan_ring.gan \
        tests/reference/d2gan_ring.json --device cuda --no-graph >"$out.err" 2>&1 || echo "gpu.sh: memcheck ends with $?" >&2
    note d2gan_ring 0 f32 memcheck - "$(grep 'ERROR SUMMARY' "$out.err" | tail -n 1)"
fi
echo "$table" | while read -r model batch options; do
    [ -n "$model" ] || continue
    [ -z "$only" ] || [ "$only" = "$model" ] || continue
    # shellcheck disable=SC2086 # options are words
    race "$model" "$batch" $options </dev/null
    # shellcheck disable=SC2086 # options are words
    [ "$batch" -ge "$largest" ] || race "$model" "$largest" $options </dev/null
done
