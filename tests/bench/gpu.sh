#!/bin/sh
# tests/bench/gpu.sh [STAGE...] [--only WORD] [--out FILE] [--minutes N] [--again]: what there is to ask of a machine with a
# GPU, the most telling first, in several sessions. Stages, all in this order by default, first of dcgan alone:
#   doctor       ganrun doctor, and the peaks of the card
#   conformance  the conformance suite that ref and cpu pass; if it fails, its tests one by one
#   verify       every reference case in f32, TF32 off, the smallest first, a few without cuDNN, on our own kernels; one that
#                fails again launch by launch, which names the kernel of an error, as one chain, without cuDNN, and its model's
#                launches one by one against the reference evaluator, which names those that compute something else
#   bench        ganrun and PyTorch, f32 (TF32) and bf16: every model at its published batch and at a large one, PyTorch eager,
#                compiled with CUDA graphs, compiled, channels-last; ganrun with its CUDA graphs as one chain of launches
#                (chain: --no-branches); the slowest launches of a step (in FILE.log)
#   sanitizer    compute-sanitizer on a short run of our own kernels
# Results are appended to FILE (docs/measurements/gpu.tsv), one line an item, as they come; all output goes to FILE.log.
# Failures do not end it. Nothing starts after N minutes (9). Of these each stage has a share, after which it starts nothing
# more until all others have had theirs. An item that has a line is not repeated (--again: unless it failed): the same command
# continues where the last one stopped, and ends with 0 when nothing is left. --only takes the beginning of a model's or a
# case's name. It runs in a checkout and in the folder of the portable archive (cmake --preset portable). GANRUN, DEVICE_TEST,
# LAUNCHES name the programs, PYTHON the python3 that has PyTorch. STEPS=20 TIMEOUT=150 (s, an item).
set -eu
here=$(CDPATH="" cd -- "$(dirname -- "$0")" && pwd)
if [ -x "$here/../ganrun" ]; then # the archive
    cd "$here/.."
    programs=. suite=./device_test launches=./launches reference=reference
else
    cd "$here/../.."
    programs=build suite=build/tests/device_test launches=build/tests/launches reference=tests/reference
fi
ganrun=${GANRUN:-$programs/ganrun} suite=${DEVICE_TEST:-$suite} launches=${LAUNCHES:-$launches} python=${PYTHON:-python3}
steps=${STEPS:-20} longest=${TIMEOUT:-150} sanitizer=${SANITIZER:-compute-sanitizer}
usage='usage: tests/bench/gpu.sh [doctor|conformance|verify|bench|sanitizer]... [--only WORD] [--out FILE] [--minutes N] [--again]'
stages='' only='' out=docs/measurements/gpu.tsv minutes=9 again=
while [ $# -gt 0 ]; do
    case $1 in
    doctor | conformance | verify | bench | sanitizer) stages="$stages $1" ;;
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

# Libraries that came with PyTorch, for machines that have no others; and the same without cuDNN, wherever that is: a file
# that is no library ends the loader's search for it.
came=$("$python" -c 'import glob, sys; print(":".join(d for p in sys.path for d in sorted(glob.glob(p + "/nvidia/*/lib"))))' 2>/dev/null) || came=
LD_LIBRARY_PATH=${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$came
mkdir -p "$out.own"
: >"$out.own/libcudnn.so.9"
own=$out.own${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
trap 'rm -rf "$out.said" "$out.err" "$out.late" "$out.own"' EXIT
PATH=$PATH:/usr/local/cuda/bin
export LD_LIBRARY_PATH PATH

"$ganrun" doctor >"$out.said" 2>&1 || :
card=$(sed -n 's/.*NVIDIA driver *CUDA [0-9.]*, [0-9]* cards*: \(.*\), compute capability.*/\1/p' "$out.said")
if [ -z "$card" ]; then
    cat "$out.said" >&2
    echo "gpu.sh: this machine has no card" >&2
    exit 3
fi
[ -s "$out" ] || printf 'date\tcard\tmodel\tbatch\tprecision\twho\tstep_ms\tdetail\n' >"$out"
before=$(wc -l <"$out") # lines of earlier sessions

# --- items ---

known() { # MODEL BATCH PRECISION WHO: done on this card already
    awk -F '\t' -v c="$card" -v m="$1" -v b="$2" -v p="$3" -v w="$4" -v again="$again" -v before="$before" \
        '$2 == c && $3 == m && $4 == b && $5 == p && $6 == w && !(again && NR <= before && $8 ~ /^failed/) { found = 1 }
         END { exit !found }' "$out"
}
failed() { # MODEL BATCH PRECISION WHO
    awk -F '\t' -v c="$card" -v m="$1" -v b="$2" -v p="$3" -v w="$4" \
        '$2 == c && $3 == m && $4 == b && $5 == p && $6 == w { f = $8 ~ /^failed/ } END { exit !f }' "$out"
}
wanted() { case $1 in "$only"*) ;; *) return 1 ;; esac }
note() { # MODEL BATCH PRECISION WHO MS DETAIL
    printf '%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n' "$(date -u +%F)" "$card" "$@" | tee -a "$out"
}
without() { # WHAT WHY: an item of its own
    known - 0 - "$1" || note - 0 - "$1" - "$2"
}
# MODEL BATCH PRECISION WHO COMMAND...: runs it once. True: it went well, and what it printed is in $out.said. Its last words are
# the line of what fails.
item() {
    m=$1 b=$2 p=$3 w=$4; shift 4
    known "$m" "$b" "$p" "$w" && return 1
    left=$((end - $(now)))
    if [ "$left" -lt 5 ] || [ "$(now)" -ge "$until" ]; then
        touch "$out.late"
        return 1
    fi
    code=0
    timeout -k 10 "$((left < longest ? left : longest))" "$@" >"$out.said" 2>"$out.err" </dev/null || code=$?
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

doctor() {
    if item - 0 - doctor "$ganrun" doctor; then
        note - 0 - doctor - "$(tr -s ' \n' ' ' <"$out.said" | cut -c1-600)"
        { nvidia-smi; nvidia-smi -q -d CLOCK,POWER,PERFORMANCE,ECC,MEMORY; uname -a; ldd --version | head -n 1; } >>"$out.log" 2>&1 || :
    fi
    ! item - 0 - roofline "$ganrun" bench --roofline --device cuda || note - 0 - roofline - "$(tail -n 1 "$out.said")"
}

conformance() {
    if item - 0 f32 device_test "$suite"; then
        note - 0 f32 device_test - "$(grep -h 'PASSED' "$out.said" "$out.err" | tail -n 1)"
    fi
    failed - 0 f32 device_test || return 0
    for test in $("$suite" --list); do # each in a process, and so in a context, of its own
        item "$test" 0 f32 device_test "$suite" "$test" || continue
        note "$test" 0 f32 device_test - "$(grep -h 'PASSED' "$out.said" "$out.err" | tail -n 1)"
    done
}

checked() { # CASE WHO COMMAND...: a reference case
    name=$1 who=$2; shift 2
    model=$(sed -n 's/.*"model": *"\([a-z0-9_]*\)".*/\1/p' "$reference/$name.json" | head -n 1)
    text=models/$model.gan
    [ ! -e "$reference/$model.gan" ] || text=$reference/$model.gan
    item "$name" 0 f32 "$who" "$@" "$text" "$reference/$name.json" --device cuda --tf32 off || return 0
    note "$name" 0 f32 "$who" - "$(tail -n 1 "$out.said")"
}
verify() {
    # shellcheck disable=SC2045 # the names are ours
    for case in $(ls -Sr "$reference"/*.json); do
        case=$(basename "$case" .json)
        wanted "$case" || continue
        checked "$case" verify "$ganrun" verify
        ! failed "$case" 0 f32 verify || {
            checked "$case" verify-launches "$ganrun" verify --no-graph
            checked "$case" verify-chain "$ganrun" verify --no-branches
            without_cudnn "$case"
            ! item "$case" 0 f32 launches "$launches" cuda f32 "$text:2" || note "$case" 0 f32 launches - "$(tail -n 1 "$out.said")"
        }
    done
    for case in d2gan_ring dcgan_intended wgan_gp_published aae3d; do
        ! wanted "$case" || without_cudnn "$case"
    done
}
without_cudnn() { checked "$1" verify-own env LD_LIBRARY_PATH="$own" "$ganrun" verify; }

ours() { # WHO MODEL BATCH PRECISION OPTIONS...
    who=$1 model=$2 batch=$3 precision=$4; shift 4
    item "$model" "$batch" "$precision" "$who" "$ganrun" bench "models/$model.gan" --device cuda --batch "$batch" \
        --precision "$precision" --steps "$steps" --warmup 5 "$@" --json || return 0
    note "$model" "$batch" "$precision" "$who" "$(field step_ms)" "p90 $(field step_ms_p90), launches $(
        field launches_per_step), cold $(field cold_ms), warm $(field warm_ms), bytes $(
        field peak_bytes_planned), gflop $(field gflop_per_step), roofline $(field fraction_of_roofline), idle $(
        field outside_share)"
}
slowest() { # MODEL BATCH PRECISION OPTIONS...
    model=$1 batch=$2 precision=$3; shift 3
    item "$model" "$batch" "$precision" top "$ganrun" bench "models/$model.gan" --device cuda --batch "$batch" \
        --precision "$precision" --steps 3 "$@" --top 30 || return 0
    note "$model" "$batch" "$precision" top - "$(grep -A 1 '^ *ms  share' "$out.said" | tail -n 1)"
}
theirs() { # WHO MODEL BATCH PRECISION FLAGS...
    who=$1 model=$2 batch=$3 precision=$4; shift 4
    flag=; [ "$precision" = f32 ] || flag=--bf16
    item "$model" "$batch" "$precision" "$who" "$python" "$here/pytorch/bench.py" "$model" \
        --device cuda --batch "$batch" --steps "$steps" --warmup 5 $flag "$@" || return 0
    note "$model" "$batch" "$precision" "$who" "$(sed -n 's/.*median_ms=\([0-9.]*\).*/\1/p' "$out.said")" "$(tail -n 1 "$out.said")"
}
measure() { # WHO PRECISION MODEL BATCH OPTIONS...
    by=$1 real=$2 of=$3 at=$4; shift 4
    case $by in
    ganrun) ours ganrun "$of" "$at" "$real" "$@" ;;
    chain) ours chain "$of" "$at" "$real" "$@" --no-branches ;;
    top) slowest "$of" "$at" "$real" "$@" ;;
    eager) theirs eager "$of" "$at" "$real" ;;
    eager-nhwc) [ "$of" = cyclegan ] || theirs eager-nhwc "$of" "$at" "$real" --channels-last ;;
    compiled) theirs compiled "$of" "$at" "$real" --compile ;;
    compiled-graphs) theirs compiled-graphs "$of" "$at" "$real" --compile --cudagraphs ;;
    esac
}
bench() {
    torch=1
    "$python" -c 'import importlib.util, sys; sys.exit(importlib.util.find_spec("torch") is None)' 2>/dev/null || torch=
    [ "$torch" ] || without torch "PyTorch is not found by $python"
    while read -r which precision whos; do
        while read -r row published large options; do
            wanted "$row" || continue
            for who in $whos; do
                case $who in ganrun | chain | top) ;; *) [ "$torch" ] || continue ;; esac
                # shellcheck disable=SC2086 # options are words
                measure "$who" "$precision" "$row" "$([ "$which" = published ] && echo "$published" || echo "$large")" $options
            done
        done <<MODELS
$models
MODELS
    done <<ORDER
published f32 ganrun eager
published f32 top
published bf16 ganrun eager
published f32 chain
published f32 compiled-graphs
published bf16 chain
published bf16 compiled-graphs
large f32 ganrun eager compiled-graphs
large bf16 ganrun eager compiled-graphs
published f32 compiled eager-nhwc
published bf16 compiled eager-nhwc
large f32 compiled eager-nhwc
large bf16 compiled eager-nhwc
ORDER
}
# model, published batch, a large one, our options (those of the PyTorch program's BENCH)
models='dcgan      32  256  -s mode=intended
wgan_gp    32  256  -s mode=published
d2gan_ring 512 4096
sngan      32  256  -s mode=intended
cyclegan   1   8
cosmogan   64  256  -s mode=published
aae3d      32  256
d3gan      32  256  -s variant=single'

sanitizer() {
    command -v "$sanitizer" >/dev/null || { without sanitizer "$sanitizer is not found"; return 0; }
    for tool in memcheck racecheck synccheck; do
        for case in d2gan_ring dcgan_intended; do
            ! wanted "$case" || checked "$case" "$tool" env LD_LIBRARY_PATH="$own" "$sanitizer" --tool "$tool" --error-exitcode 9 "$ganrun" verify --no-graph
        done
    done
}

# --- all of them ---------------------------------------------------------------------------------

share() { # STAGE: of the time, in percent
    case $1 in
    doctor) echo 10 ;;
    conformance) echo 10 ;;
    verify) echo 35 ;;
    bench) echo 35 ;;
    sanitizer) echo 10 ;;
    esac
}
all() { # WHETHER in shares
    rm -f "$out.late"
    for stage in $stages; do
        until=$end
        [ -z "$1" ] || until=$(($(now) + minutes * 60 * $(share "$stage") / 100))
        "$stage"
    done
}
: "${stages:=doctor conformance verify bench sanitizer}"
if [ -z "$only" ]; then # what is worth most
    of_all=$stages only=dcgan
    stages=$(echo " $stages " | sed 's/ sanitizer / /')
    all shares
    stages=$of_all only=
fi
all shares
[ ! -e "$out.late" ] || all '' # the rest, in what time is left
[ ! -e "$out.late" ] || {
    echo "gpu.sh: $minutes minutes are over and not all is done: the same command again goes on from here" >&2
    exit 4
}
