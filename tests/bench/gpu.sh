#!/bin/sh
# tests/bench/gpu.sh [STAGE...] [--only WORD] [--out FILE] [--minutes N] [--again]: what there is to ask of a machine with a
# GPU, the most telling first, in several sessions. Stages, all in this order by default:
#   doctor     ganrun doctor, and the peaks of the card
#   correct    what no timing depends on, as much at once as cores and memory allow: the conformance suite that ref and cpu
#              pass, each of its tests in a process of its own; every reference case in f32, TF32 off; a few without cuDNN, on
#              our own kernels; launches of a few models one by one against the reference evaluator. A case that fails again
#              launch by launch, which names the kernel of an error, as one chain, without cuDNN, and its model's launches
#   ours       ganrun: every published system at its batch in f32 (TF32) and bf16, and at a large one; the other models; with
#              CUDA graphs as one chain of launches (chain: --no-branches); the slowest launches of a step (in FILE.log).
#              Kernels are compiled before, at once
#   eager      PyTorch: the same, all models of a precision in one process; channels-last
#   compiled   torch.compile of the published systems, with CUDA graphs and without: all compile at once, then each times its
#              steps alone
#   ranks      two ranks on the one card (--comm staged): cases and steps, by mpirun; NCCL with a rank alone
#   sanitizer  compute-sanitizer on a short run of our own kernels
# Results are appended to FILE (docs/measurements/gpu.tsv), one line an item, as they come; all output goes to FILE.log.
# Failures do not end it. Nothing runs on after N minutes (9). Of these each stage has a share, after which it gets no more
# until all others have had theirs. An item that has a line is not repeated (--again: unless it failed): the same command
# continues where the last one stopped, and ends with 0 when nothing is left. --only takes the beginning of a model's or a
# case's name. It runs in a checkout and in the folder of the portable archive (cmake --preset portable). GANRUN, GANC,
# DEVICE_TEST, LAUNCHES, NCCL_ALONE name the programs, PYTHON the python3 that has PyTorch. STEPS=20 TIMEOUT=150 (s, an item) MOST=(at once)
# shellcheck disable=SC2030,SC2031 # each worker has files of its own
set -eu
here=$(CDPATH="" cd -- "$(dirname -- "$0")" && pwd)
if [ -x "$here/../ganrun" ]; then # the archive
    cd "$here/.."
    programs=. suite=./device_test launches=./launches nccl=./nccl_alone reference=reference
else
    cd "$here/../.."
    programs=build reference=tests/reference
    suite=build/tests/device_test launches=build/tests/launches nccl=build/tests/nccl_alone
fi
ganrun=${GANRUN:-$programs/ganrun} ganc=${GANC:-$programs/ganc} python=${PYTHON:-python3}
suite=${DEVICE_TEST:-$suite} launches=${LAUNCHES:-$launches} nccl=${NCCL_ALONE:-$nccl}
steps=${STEPS:-20} longest=${TIMEOUT:-150} sanitizer=${SANITIZER:-compute-sanitizer}
every='doctor correct ours eager compiled ranks sanitizer'
stages='' only='' out=docs/measurements/gpu.tsv minutes=9 again=
while [ $# -gt 0 ]; do
    case $1 in
    doctor | correct | ours | eager | compiled | ranks | sanitizer) stages="$stages $1" ;;
    --only) only=$2; shift ;;
    --out) out=$2; shift ;;
    --minutes) minutes=$2; shift ;;
    --again) again=1 ;;
    *) echo "usage: tests/bench/gpu.sh [$(echo "$every" | tr ' ' '|')]... [--only WORD] [--out FILE] [--minutes N] [--again]" >&2
        exit 2 ;;
    esac
    shift
done
case $out in /*) ;; *) out=$(pwd)/$out ;; esac
mkdir -p "$(dirname -- "$out")"
now() { date +%s; }
began=$(now)
end=$((began + minutes * 60))

# Libraries that came with PyTorch, for machines that have no others; and the same without cuDNN, wherever that is: a file
# that is no library ends the loader's search for it.
came=$("$python" -c 'import glob, sys; print(":".join(d for p in sys.path for d in sorted(glob.glob(p + "/nvidia/*/lib"))))' 2>/dev/null) || came=
LD_LIBRARY_PATH=${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$came
files=$out.files # of this session
mkdir -p "$files/own"
: >"$files/own/libcudnn.so.9"
own=$files/own${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
trap 'rm -rf "$files"' EXIT
PATH=$PATH:/usr/local/cuda/bin
export LD_LIBRARY_PATH PATH

"$ganrun" doctor >"$files/said" 2>&1 || :
card=$(sed -n 's/.*NVIDIA driver *CUDA [0-9.]*, [0-9]* cards*: \(.*\), compute capability.*/\1/p' "$files/said")
target=cuda:sm_$(sed -n 's/.*, compute capability \([0-9]*\)\.\([0-9]*\).*/\1\2/p' "$files/said")
if [ -z "$card" ]; then
    cat "$files/said" >&2
    echo "gpu.sh: this machine has no card" >&2
    exit 3
fi
[ -s "$out" ] || printf 'date\tcard\tmodel\tbatch\tprecision\twho\tstep_ms\tdetail\n' >"$out"
before=$(wc -l <"$out") # lines of earlier sessions

# --- items ---------------------------------------------------------------------------------------

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
# LIMIT COMMAND...: runs it once, for so many seconds at most; its exit code is in $code, what it says in $said and $err.
# False: there was no time for it, or less than the limit and too little.
run() {
    limit=$1 code=0; shift
    left=$((until - $(now)))
    : >"$said"
    : >"$err"
    if [ "$left" -ge 5 ]; then
        timeout -k 10 "$((left < limit ? left : limit))" "$@" >"$said" 2>"$err" </dev/null || code=$?
        { printf '==== %s s, exit code %s: %s\n' $(($(now) - began)) "$code" "$*"; cat "$said" "$err"; } >"$said.log"
        cat "$said.log" >>"$out.log" # at once: other items write to it, too
        [ "$code" = 124 ] && [ "$left" -lt "$limit" ] || return 0
    fi
    touch "$files/late" # another sitting's
    return 1
}
# MODEL BATCH PRECISION WHO COMMAND...: runs it once. True: it went well. Its last words are the line of what fails.
item() {
    m=$1 b=$2 p=$3 w=$4; shift 4
    ! known "$m" "$b" "$p" "$w" || return 1
    run "$longest" "$@" || return 1
    [ "$code" != 0 ] || return 0
    note "$m" "$b" "$p" "$w" - "failed ($code): $(cat "$said" "$err" | grep -v '^ *$' | tail -n 1 | tr '\t' ' ' | cut -c1-400)"
    return 1
}
field() { sed -n "s/.*\"$1\": *\\([0-9.e+-]*\\).*/\\1/p" "$said"; }

said=$files/said err=$files/err
memory=$(awk '/^MemAvailable/ { print int($2 / 4194304) }' /proc/meminfo) cores=$(nproc) # 4 GiB each
most=${MOST:-$((cores < memory ? cores : memory < 1 ? 1 : memory))}
# The calls that come in, one a line, `most` at once, each worker with files of its own.
parallel() {
    cat >"$files/calls"
    for worker in $(seq "$most"); do
        (
            said=$files/said.$worker err=$files/err.$worker
            while flock 8 && read -r call <&9 && flock -u 8; do $call || :; done
        ) 8>"$files/lock" &
    done 9<"$files/calls"
    wait
}

# --- doctor --------------------------------------------------------------------------------------

doctor() {
    if item - 0 - doctor "$ganrun" doctor; then
        note - 0 - doctor - "$(tr -s ' \n' ' ' <"$said" | cut -c1-600)"
        { nvidia-smi; nvidia-smi -q -d CLOCK,POWER,PERFORMANCE,ECC,MEMORY; uname -a; ldd --version | head -n 1; } >>"$out.log" 2>&1 || :
    fi
    ! item - 0 - roofline "$ganrun" bench --roofline --device cuda || note - 0 - roofline - "$(tail -n 1 "$said")"
}

# --- correct -------------------------------------------------------------------------------------

conforms() { # TEST
    item "$1" 0 f32 device_test "$suite" "$1" || return 0
    note "$1" 0 f32 device_test - "$(grep -h 'PASSED' "$said" "$err" | tail -n 1)"
}
checked() { # CASE WHO COMMAND...: a reference case
    name=$1 who=$2; shift 2
    model=$(sed -n 's/.*"model": *"\([a-z0-9_]*\)".*/\1/p' "$reference/$name.json" | head -n 1)
    text=models/$model.gan
    [ ! -e "$reference/$model.gan" ] || text=$reference/$model.gan
    item "$name" 0 f32 "$who" "$@" "$text" "$reference/$name.json" --device cuda --tf32 off || return 0
    note "$name" 0 f32 "$who" - "$(tail -n 1 "$said")"
}
verified() { # CASE
    checked "$1" verify "$ganrun" verify
    failed "$1" 0 f32 verify || return 0
    checked "$1" verify-launches "$ganrun" verify --no-graph
    checked "$1" verify-chain "$ganrun" verify --no-branches
    without_cudnn "$1"
    by_launch "$model" f32 "$text"
}
without_cudnn() { checked "$1" verify-own env LD_LIBRARY_PATH="$own" "$ganrun" verify; }
by_launch() { # MODEL PRECISION FILE: beside others, so not on all cores
    item "$1" 2 "$2" launches env OMP_NUM_THREADS=4 OMP_WAIT_POLICY=passive "$launches" cuda "$2" "$3:2" || return 0
    note "$1" 2 "$2" launches - "$(tail -n 1 "$said")"
}
correct() {
    {
        "$suite" --list | sed 's/^/conforms /'
        # shellcheck disable=SC2045 # the names are ours
        for case in $(ls -Sr "$reference"/*.json); do
            case=$(basename "$case" .json)
            ! wanted "$case" || echo "verified $case"
        done
        for case in d2gan_ring dcgan_intended wgan_gp_published aae3d; do
            ! wanted "$case" || echo "without_cudnn $case"
        done
        for model in d2gan_ring dcgan d3gan sngan aae3d; do
            ! wanted "$model" || printf "by_launch $model %s models/$model.gan\n" f32 bf16
        done
    } | parallel
}

# --- steps ---------------------------------------------------------------------------------------

# model, published batch, a large one, our options (those of the PyTorch program's BENCH)
models='dcgan      32  256  -s mode=intended
wgan_gp    32  256  -s mode=published
d2gan_ring 512 4096
sngan      32  256  -s mode=intended
cyclegan   1   8
cosmogan   64  256  -s mode=published
aae3d      32  256
d3gan      32  256  -s variant=single'
# the others, of the sizes they have by default, and batch
others='sagan 16
munit 1
pix2pix 1
stargan 16
wavegan 64
hifigan 16
biggan 16
stylegan2 8
r3gan 32
progan 16
infogan 32
acgan 32
began 16'

each() { # published|large|others: model, batch and options of those that are wanted
    case $1 in
    published) echo "$models" | awk '{ $3 = ""; print }' ;;
    large) echo "$models" | awk '{ $2 = ""; print }' ;;
    others) echo "$others" ;;
    esac | while read -r row batch options; do
        ! wanted "$row" || echo "$row" "$batch" "$options"
    done
}

stepped() { # WHO MODEL BATCH PRECISION OPTIONS...
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
    note "$model" "$batch" "$precision" top - "$(grep -A 1 '^ *ms  share' "$said" | tail -n 1)"
}
prepared() { # MODEL BATCH PRECISION OPTIONS...: its kernels are in the cache
    model=$1 batch=$2 precision=$3; shift 3
    known "$model" "$batch" "$precision" ganrun || run "$longest" "$ganc" compile "models/$model.gan" --batch "$batch" \
        --precision "$precision" --target "$target" -o "$said.ganx" "$@"
}
ours() {
    for which in published large others; do
        for precision in f32 bf16; do
            each $which | sed "s/^\([^ ]*\) *\([^ ]*\)/prepared \1 \2 $precision/"
        done
    done | parallel
    while read -r which precision who; do
        each "$which" | while read -r row batch options; do
            # shellcheck disable=SC2086 # options are words
            case $who in
            ganrun) stepped ganrun "$row" "$batch" "$precision" $options ;;
            chain) stepped chain "$row" "$batch" "$precision" $options --no-branches ;;
            top) slowest "$row" "$batch" "$precision" $options ;;
            esac
        done
    done <<ORDER
published f32 ganrun
published bf16 ganrun
large f32 ganrun
large bf16 ganrun
others f32 ganrun
others bf16 ganrun
published f32 top
published f32 chain
published bf16 chain
ORDER
}

# WHO PRECISION MODEL:BATCH,... FLAGS...: those that are not known, in one process.
theirs() {
    who=$1 precision=$2 todo=''
    for case in $(echo "$3" | tr , ' '); do
        known "${case%:*}" "${case#*:}" "$precision" "$who" || todo="$todo $case"
    done
    shift 3
    [ "$todo" ] || return 0
    flag=; [ "$precision" = f32 ] || flag=--bf16
    in_time=1
    case "$*" in
    *--turn*) set -- "$@" --patience $(((until - $(now)) / 2)) ;; # the others wait for it, and all are to be timed
    esac
    # shellcheck disable=SC2086 # words
    run "$((longest * $(echo $todo | wc -w)))" "$python" "$here/pytorch/bench.py" $todo --device cuda --full --steps "$steps" \
        --warmup 5 $flag "$@" || in_time=
    for case in $todo; do
        line=$(grep "^${case%:*} batch=${case#*:} " "$said") ||
            line="failed: $(cat "$said" "$err" | grep -v '^ *$' | tail -n 1 | tr '\t' ' ' | cut -c1-400)"
        case $line in
        *median_ms=*) line=$(echo "$line" | sed 's/.* median_ms=\([0-9.]*\)/\1 &/') ;;
        failed:*) [ "$in_time" ] || continue; line="- failed ($code):${line#failed:}" ;;
        *'failed: NotReady: '*) touch "$files/late"; continue ;; # the next time its compilers' cache helps
        *failed:*) line="- failed ($code):${line#*failed:}" ;;
        esac
        note "${case%:*}" "${case#*:}" "$precision" "$who" "${line%% *}" "${line#* }"
    done
}
has_torch() {
    "$python" -c 'import importlib.util, sys; sys.exit(importlib.util.find_spec("torch") is None)' 2>/dev/null && return 0
    without torch "PyTorch is not found by $python"
    return 1
}
cases() { each "$1" | awk '{ print $1 ":" $2 }'; }
eager() {
    has_torch || return 0
    for which in published large others; do
        for precision in f32 bf16; do
            theirs eager $precision "$(cases $which | paste -sd,)"
        done
    done
    for precision in f32 bf16; do # cyclegan's layers are no faster so
        theirs eager-nhwc $precision "$(cases published | grep -v cyclegan | paste -sd,)" --channels-last
    done
}
# All that compile wait for each other, but for the large batches, of which a card cannot hold many.
compiled() {
    has_torch || return 0
    TORCHINDUCTOR_COMPILE_THREADS=$(((cores + 7) / 8))
    export TORCHINDUCTOR_COMPILE_THREADS
    for graphs in --cudagraphs ''; do
        for which in published large; do
            at_once=$most
            [ $which = published ] || at_once=$((most < 4 ? most : 4))
            for precision in f32 bf16; do
                cases $which | sed "s|.*|theirs compiled${graphs:+-graphs} $precision & --turn $files/turn --compile $graphs|"
            done | most=$at_once parallel
        done
    done
}

# --- ranks ---------------------------------------------------------------------------------------

ranks() {
    ! item - 0 f32 nccl "$nccl" || note - 0 f32 nccl - "$(tail -n 1 "$said")"
    command -v mpirun >/dev/null || { without ranks "mpirun is not found"; return 0; }
    OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_plm_rsh_agent=false # no other machine
    export OMPI_ALLOW_RUN_AS_ROOT OMPI_ALLOW_RUN_AS_ROOT_CONFIRM OMPI_MCA_plm_rsh_agent
    two='mpirun --oversubscribe --bind-to none -n 2'
    for case in d2gan_ring dcgan_intended wgan_gp_published; do
        # shellcheck disable=SC2086 # words
        ! wanted "$case" || checked "$case" verify-staged $two "$ganrun" verify --comm staged
    done
    each published | grep '^d2gan_ring\|^dcgan' | while read -r row batch options; do
        # shellcheck disable=SC2086 # words
        item "$row" "$batch" f32 staged $two "$ganrun" bench "models/$row.gan" --device cuda --comm staged --batch "$batch" \
            --steps "$steps" --warmup 5 $options --brief --json || continue
        note "$row" "$batch" f32 staged "$(field step_ms)" "communication $(field comm_ms), waited for $(field comm_exposed_ms)"
    done
}

# --- sanitizer -----------------------------------------------------------------------------------

sanitizer() {
    command -v "$sanitizer" >/dev/null || { without sanitizer "$sanitizer is not found"; return 0; }
    for tool in memcheck racecheck synccheck; do
        for case in d2gan_ring dcgan_intended; do
            ! wanted "$case" || echo "sanitized $case $tool"
        done
    done | parallel
}
sanitized() { # CASE TOOL
    checked "$1" "$2" env LD_LIBRARY_PATH="$own" "$sanitizer" --tool "$2" --error-exitcode 9 "$ganrun" verify --no-graph
}

# --- all of them ---------------------------------------------------------------------------------

share() { # STAGE: of the time, among those that were asked for
    case $1 in
    doctor) echo 5 ;;
    correct) echo 25 ;;
    ours) echo 20 ;;
    eager) echo 15 ;;
    compiled) echo 20 ;;
    ranks) echo 5 ;;
    sanitizer) echo 10 ;;
    esac
}
all() { # WHETHER in shares
    rm -f "$files/late"
    of=0
    for stage in $stages; do of=$((of + $(share "$stage"))); done
    for stage in $stages; do
        until=$end
        [ -z "$1" ] || until=$(($(now) + minutes * 60 * $(share "$stage") / of))
        "$stage"
    done
}
: "${stages:=$every}"
all shares
[ ! -e "$files/late" ] || all '' # the rest, in what time is left
[ ! -e "$files/late" ] || {
    echo "gpu.sh: $minutes minutes are over and not all is done: the same command again goes on from here" >&2
    exit 4
}
