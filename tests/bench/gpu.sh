#!/bin/sh
# tests/bench/gpu.sh [STAGE...] [--only WORD] [--out FILE] [--minutes N] [--again]: measures a machine with a card, in
# several sessions. Stages, all in this order by default:
#   look     ganrun doctor
#   devices  the conformance suite that ref and cpu pass
#   verify   every reference case in f32, TF32 off; one that fails again launch by launch, which names the kernel
#   memory   compute-sanitizer on a short run, if installed
#   race     ganrun against PyTorch: every model at its published batch and at $LARGEST, f32 (TF32) and bf16, PyTorch eager,
#            compiled and compiled with CUDA graphs
# Results are appended to FILE (docs/measurements/gpu.tsv), one line an item, as they come; all output goes to FILE.log.
# Failures do not end it. An item that has a line is not repeated (--again: unless it failed), and nothing starts after N
# minutes (9): the same command continues where the last one stopped, and ends with 0 when nothing is left. --only takes a
# model or a case. It runs in a checkout and in the folder of the portable archive (cmake --preset portable). GANRUN,
# DEVICE_TEST name the programs, PYTHON the python3 that has PyTorch. STEPS=20 LARGEST=256 TIMEOUT=300 (s, an item).
set -eu
here=$(CDPATH="" cd -- "$(dirname -- "$0")" && pwd)
if [ -x "$here/../ganrun" ]; then # the archive
    cd "$here/.."
    programs=. suite=./device_test reference=reference
else
    cd "$here/../.."
    programs=build suite=build/tests/device_test reference=tests/reference
fi
ganrun=${GANRUN:-$programs/ganrun} suite=${DEVICE_TEST:-$suite} python=${PYTHON:-python3}
steps=${STEPS:-20} largest=${LARGEST:-256} longest=${TIMEOUT:-300}
usage='usage: tests/bench/gpu.sh [look|devices|verify|memory|race]... [--only WORD] [--out FILE] [--minutes N] [--again]'
stages='' only='' out=docs/measurements/gpu.tsv minutes=9 again=
while [ $# -gt 0 ]; do
    case $1 in
    look | devices | verify | memory | race) stages="$stages $1" ;;
    --only) only=$2; shift ;;
    --out) out=$2; shift ;;
    --minutes) minutes=$2; shift ;;
    --again) again=1 ;;
    *) echo "$usage" >&2; exit 2 ;;
    esac
    shift
done
case $out in /*) ;; *) out=$(pwd)/$out ;; esac
mkdir -p "$(dirname -- "$out")"
now() { date +%s; }
end=$(($(now) + minutes * 60))

# Libraries that came with PyTorch, for machines that have no others.
came=$("$python" -c 'import glob, sys; print(":".join(d for p in sys.path for d in sorted(glob.glob(p + "/nvidia/*/lib"))))' 2>/dev/null) || came=
LD_LIBRARY_PATH=${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$came
export LD_LIBRARY_PATH

"$ganrun" doctor >"$out.said" 2>&1 || :
card=$(sed -n 's/.*NVIDIA driver *CUDA [0-9.]*, [0-9]* cards*: \(.*\), compute capability.*/\1/p' "$out.said")
if [ -z "$card" ]; then
    cat "$out.said" >&2
    echo "gpu.sh: this machine has no card" >&2
    exit 3
fi
[ -s "$out" ] || printf 'date\tcard\tmodel\tbatch\tprecision\twho\tstep_ms\tdetail\n' >"$out"
trap 'rm -f "$out.said" "$out.err" "$out.late"' EXIT
rm -f "$out.late"

# --- items ---

known() { # MODEL BATCH PRECISION WHO: done on this card already
    awk -F '\t' -v c="$card" -v m="$1" -v b="$2" -v p="$3" -v w="$4" -v again="$again" \
        '$2 == c && $3 == m && $4 == b && $5 == p && $6 == w && !(again && $8 ~ /^failed/) { found = 1 } END { exit !found }' "$out"
}
wanted() { [ -z "$only" ] || [ "$only" = "$1" ]; }
note() { # MODEL BATCH PRECISION WHO MS DETAIL
    printf '%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n' "$(date -u +%F)" "$card" "$@" | tee -a "$out"
}
# MODEL BATCH PRECISION WHO COMMAND...: runs it once. True: it went well, and what it printed is in $out.said. Its last words are
# the line of what fails.
item() {
    m=$1 b=$2 p=$3 w=$4; shift 4
    known "$m" "$b" "$p" "$w" && return 1
    left=$((end - $(now)))
    if [ "$left" -lt 5 ]; then
        touch "$out.late"
        return 1
    fi
    code=0
    timeout "$((left < longest ? left : longest))" "$@" >"$out.said" 2>"$out.err" </dev/null || code=$?
    { printf '==== %s %s %s %s: exit code %s: %s\n' "$m" "$b" "$p" "$w" "$code" "$*"; cat "$out.said" "$out.err"; } >>"$out.log"
    [ "$code" != 0 ] || return 0
    if [ "$code" = 124 ] && [ "$left" -lt "$longest" ]; then # it had too little time: another sitting's
        touch "$out.late"
        return 1
    fi
    note "$m" "$b" "$p" "$w" - "failed ($code): $(cat "$out.said" "$out.err" | grep -v '^ *$' | tail -n 1 | tr '\t' ' ' | cut -c1-400)"
    return 1
}
field() { sed -n "s/.*\"$1\": *\\([0-9.e+-]*\\).*/\\1/p" "$out.said"; }

# --- stages ---

look() {
    item - 0 - doctor "$ganrun" doctor || return 0
    note - 0 - doctor - "$(tr -s ' \n' ' ' <"$out.said" | cut -c1-600)"
}

devices() {
    item - 0 f32 device_test "$suite" || return 0
    note - 0 f32 device_test - "$(grep -h 'PASSED' "$out.said" "$out.err" | tail -n 1)"
}

verify() {
    for case in "$reference"/*.json; do
        name=$(basename "$case" .json)
        wanted "$name" || continue
        model=$(sed -n 's/.*"model": *"\([a-z0-9_]*\)".*/\1/p' "$case" | head -n 1)
        text=models/$model.gan
        [ ! -e "$reference/$model.gan" ] || text=$reference/$model.gan
        if item "$name" 0 f32 verify "$ganrun" verify "$text" "$case" --device cuda --tf32 off; then
            note "$name" 0 f32 verify - "$(tail -n 1 "$out.said")"
        elif awk -F '\t' -v m="$name" '$3 == m && $6 == "verify" && $8 ~ /^failed/ { f = 1 } END { exit !f }' "$out"; then
            item "$name" 0 f32 verify-launches "$ganrun" verify "$text" "$case" --device cuda --tf32 off --no-graph || continue
            note "$name" 0 f32 verify-launches - "$(tail -n 1 "$out.said")"
        fi
    done
}

memory() {
    command -v "${SANITIZER:-compute-sanitizer}" >/dev/null || return 0
    for tool in memcheck racecheck synccheck; do
        item d2gan_ring 0 f32 "$tool" "${SANITIZER:-compute-sanitizer}" --tool "$tool" --error-exitcode 9 "$ganrun" verify \
            models/d2gan_ring.gan "$reference/d2gan_ring.json" --device cuda --no-graph || continue
        note d2gan_ring 0 f32 "$tool" - "$(grep -h 'ERROR SUMMARY\|RACECHECK SUMMARY' "$out.said" "$out.err" | tail -n 1)"
    done
}

ours() { # MODEL BATCH PRECISION OPTIONS...
    model=$1 batch=$2 precision=$3; shift 3
    item "$model" "$batch" "$precision" ganrun "$ganrun" bench "models/$model.gan" --device cuda --batch "$batch" \
        --precision "$precision" --steps "$steps" --warmup 5 "$@" --json || return 0
    note "$model" "$batch" "$precision" ganrun "$(field step_ms)" "p90 $(field step_ms_p90), launches $(
        field launches_per_step), cold $(field cold_ms), warm $(field warm_ms), bytes $(
        field peak_bytes_planned), gflop $(field gflop_per_step), roofline $(field fraction_of_roofline), idle $(
        field outside_share)"
}
theirs() { # WHO MODEL BATCH PRECISION FLAGS...
    who=$1 model=$2 batch=$3 precision=$4; shift 4
    flag=; [ "$precision" = f32 ] || flag=--bf16
    item "$model" "$batch" "$precision" "$who" "$python" "$here/pytorch/bench.py" "$model" \
        --device cuda --batch "$batch" --steps "$steps" --warmup 5 $flag "$@" || return 0
    note "$model" "$batch" "$precision" "$who" "$(sed -n 's/.*median_ms=\([0-9.]*\).*/\1/p' "$out.said")" "$(tail -n 1 "$out.said")"
}
against() { # MODEL BATCH OPTIONS...
    with=$1 of=$2; shift 2
    for real in f32 bf16; do
        ours "$with" "$of" "$real" "$@"
        theirs eager "$with" "$of" "$real"
        [ "$with" = cyclegan ] || theirs eager-nhwc "$with" "$of" "$real" --channels-last
        theirs compiled "$with" "$of" "$real" --compile
        theirs compiled-graphs "$with" "$of" "$real" --compile --cudagraphs
    done
}
race() {
    # model, published batch, our options (those of the PyTorch program's BENCH)
    while read -r row size options; do
        wanted "$row" || continue
        # shellcheck disable=SC2086 # options are words
        against "$row" "$size" $options
        # shellcheck disable=SC2086
        [ "$size" -ge "$largest" ] || against "$row" "$largest" $options
    done <<'TABLE'
dcgan      32  -s mode=intended
sngan      32  -s mode=intended
wgan_gp    32  -s mode=published
d3gan      32  -s variant=single
d2gan_ring 512
aae3d      32
cosmogan   64  -s mode=published
cyclegan   1
TABLE
}

for stage in ${stages:-look devices verify memory race}; do
    "$stage"
done
[ ! -e "$out.late" ] || echo "gpu.sh: $minutes minutes are over and not all is done: the same command again goes on from here" >&2
[ ! -e "$out.late" ] || exit 4
