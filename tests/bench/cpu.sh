#!/bin/sh
# tests/bench/cpu.sh [MODEL...]: every CPU figure that has a requirement, against it: ganrun against PyTorch, interleaved;
# roofline, starts, memory, threads, the cost of a penalty. Needs PyTorch in the python3 named by $PYTHON (without it the
# comparisons are skipped). Run it on a quiet machine. Failures are reported, and the rest continues. See
# docs/performance.md. ROUNDS=3 STEPS=5 PRECISIONS="f32 bf16" COMPILED=1 (compile takes PyTorch up to minutes).
set -eu
cd "$(dirname -- "$0")/../.."
python=${PYTHON:-python3} ganrun=${GANRUN:-build/ganrun}
rounds=${ROUNDS:-3} steps=${STEPS:-5} precisions=${PRECISIONS:-f32 bf16}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
: >"$work/missed"
: >"$work/all"

# model, batch, required: ratio in f32, in bf16, fraction of the roofline, cold start (0: nothing); layouts PyTorch is tried in,
# our options, which are those of the PyTorch program's BENCH. cyclegan: PyTorch's channels-last gradients are wrong there.
table='
dcgan      32  1.2 1.2 0.80 1500 both -s mode=intended
sngan      32  1.2 1.3 0.80 1500 both -s mode=intended
wgan_gp    32  1.2 1.2 0.80 1500 both -s mode=published
d3gan      32  1.4 1.4 0    1500 both -s variant=single
d2gan_ring 512 1.5 0   0    1500 nchw
aae3d      16  2.5 0   0    1500 nchw
cosmogan   16  1.2 1.2 0.80 1500 both -s mode=published
cyclegan   1   1.1 0   0.80 3000 nchw
r3gan      8   1.0 0   0    1500 both -s size=32 -s wide=128 -s groups=16
sagan      16  1.0 0   0    1500 both -s size=32 -s nz=64 -s kinds=10 -s attn=16
biggan     16  1.0 0   0    1500 both -s levels=[4,4,4,4] -s wide=16 -s kinds=10 -s shared=32 -s attn=16
began      16  1.0 0   0    1500 both
pix2pix    1   1.0 0   0    1500 both
acgan      32  1.0 0   0    1500 both
infogan    32  1.0 0   0    1500 both
wavegan    8   1.0 0   0    1500 nchw -s slice=4096 -s wide=32 -s rounds=2
stargan    4   1.0 0   0    1500 both -s size=64 -s wide=32 -s blocks=3 -s depth=5 -s rounds=2
munit      1   1.0 0   0    1500 both -s size=64 -s wide=32
progan     16  1.0 0   0    1500 both -s size=32 -s nz=128 -s wide=64
stylegan2  8   1.0 0   0    1500 both -s size=32 -s nz=128 -s depth=4 -s wide=128
'
warm=150 plan=1.05 process=0.60 penalty=2.2 scaling=1.9    # required of every model, and of one

# level WHAT VALUE least|most LEVEL: a line, and a note of what misses.
level() {
    verdict=$(awk -v x="${2:-nan}" -v way="$3" -v l="$4" 'BEGIN {
        if (x !~ /^[0-9.eE+-]+$/) print "NOT MEASURED"
        else if (way == "least" ? x + 0 >= l + 0 : x + 0 <= l + 0) print "ok"
        else print "MISSED" }')
    echo "  $1: ${2:--} (at $3 $4) $verdict"
    echo "$1" >>"$work/all"
    [ "$verdict" = ok ] || echo "$1: ${2:--}, at $3 $4" >>"$work/missed"
}
field() { sed -n 's/.*"'"$1"'": *\([0-9.eE+-]*\).*/\1/p' "$2"; }
word() { sed -n 's/.*'"$1"'=\([0-9.]*\).*/\1/p' "$2"; }
over() { awk -v a="${1:-0}" -v b="${2:-0}" 'BEGIN { if (a > 0 && b > 0) printf "%.3f", a / b }'; }
mib() { awk -v b="${1:-0}" 'BEGIN { if (b > 0) printf "%.0f", b / 1048576 }'; }
median() { printf '%s\n' "$@" | grep . | sort -g | awk '{ x[NR] = $1 } END { if (NR) print x[int((NR + 1) / 2)] }'; }

ours() { # FILE MODEL BATCH OPTIONS...: its step in ms
    f=$1 m=$2 b=$3; shift 3
    "$ganrun" bench "models/$m.gan" --batch "$b" --steps "$steps" --warmup 2 --json "$@" >"$f" || echo "$m: ganrun failed" >&2
    field step_ms "$f"
}
theirs() { # FILE MODEL BATCH FLAGS...
    f=$1 m=$2 b=$3; shift 3
    (cd tests/bench/pytorch && "$python" bench.py "$m" --batch "$b" --steps "$steps" --warmup 2 "$@") >"$f" ||
        echo "$m $*: PyTorch failed" >&2
    word median_ms "$f"
}

race() { # MODEL BATCH PRECISION REQUIRED LAYOUTS OPTIONS...
    m=$1 b=$2 p=$3 required=$4 layouts=$5; shift 5
    flag=; [ "$p" = f32 ] || flag=--bf16
    ratios=
    for round in $(seq "$rounds"); do
        a=$(ours "$work/ours.$p.$round" "$m" "$b" --precision "$p" "$@")
        nchw="" nhwc=""
        if [ "$torch" ]; then
            nchw=$(theirs "$work/nchw" "$m" "$b" $flag)
            [ "$layouts" = nchw ] || nhwc=$(theirs "$work/nhwc" "$m" "$b" $flag --channels-last)
            [ "$p" != f32 ] || cp "$work/nchw" "$work/peak"
        fi
        best=$(printf '%s\n' "$nchw" "$nhwc" | grep . | sort -g | head -n 1) || best=
        ratio=$(over "$best" "$a")
        ratios="$ratios $ratio"
        echo "$m batch $b $p round $round: ganrun ${a:--} ms, pytorch nchw ${nchw:--} ms, nhwc ${nhwc:--} ms, ratio ${ratio:--}"
    done
    # shellcheck disable=SC2086 # words
    level "$m $p, PyTorch's best layout / ganrun, median" "$(median $ratios)" least "$required"
    [ -z "${COMPILED:-}" ] ||
        echo "$m batch $b $p compiled: pytorch $(theirs "$work/compiled" "$m" "$b" $flag --compile) ms"
}

middle() { # FIELD: the median over the rounds in f32
    # shellcheck disable=SC2046 # words
    median $(for round in $(seq "$rounds"); do field "$1" "$work/ours.f32.$round"; done)
}
figures() { # MODEL ROOFLINE COLD: of its runs in f32
    [ "$2" = 0 ] || level "$1, fraction of the roofline" "$(middle fraction_of_roofline)" least "$2"
    level "$1, cold_ms" "$(middle cold_ms)" most "$3"
    level "$1, warm_ms" "$(middle warm_ms)" most "$warm"
    level "$1, planned / bound" "$(over "$(middle peak_bytes_planned)" "$(middle peak_bytes_bound)")" most "$plan"
    own=$(mib "$(middle peak_bytes_measured)") peer=$(word peak_mib "$work/peak")
    echo "  $1, process: ganrun ${own:--} MiB, pytorch ${peer:--} MiB"
    level "$1, process of PyTorch's" "$(over "$own" "$peer")" most "$process"
}

# One update of the critic, by how much more critic updates make a step longer.
critic() { # PENALTY
    few=$(ours "$work/few" wgan_gp 32 -s mode=published --brief -s penalty="$1" -s critic=1)
    many=$(ours "$work/many" wgan_gp 32 -s mode=published --brief -s penalty="$1" -s critic=5)
    awk -v a="${few:-0}" -v b="${many:-0}" 'BEGIN { if (a > 0 && b > a) printf "%.2f", (b - a) / 4 }'
}
extra() { # MODEL: what has a level for it alone
    case $1 in
    wgan_gp)
        with=$(critic gradient) without=$(critic none)
        echo "  wgan_gp, one critic update: ${with:--} ms, without the penalty ${without:--} ms"
        level "wgan_gp, critic update with / without its penalty" "$(over "$with" "$without")" most "$penalty" ;;
    dcgan)
        ones='' twos=''
        for round in $(seq "$rounds"); do
            one=$(ours "$work/one" dcgan 32 -s mode=intended --brief --threads 1)
            two=$(ours "$work/two" dcgan 32 -s mode=intended --brief --threads 2)
            echo "  dcgan, round $round: a step of ${one:--} ms on one thread, ${two:--} ms on two"
            ones="$ones $one" twos="$twos $two"
        done
        # shellcheck disable=SC2086 # words
        level "dcgan, one thread / two, medians" "$(over "$(median $ones)" "$(median $twos)")" least "$scaling" ;;
    esac
}

torch=yes
"$python" -c 'import torch' 2>/dev/null || { torch=; echo "no PyTorch in $python: nothing is compared with it" >&2; }
[ $# -gt 0 ] || set -- dcgan sngan wgan_gp d3gan d2gan_ring aae3d cosmogan cyclegan r3gan sagan biggan began pix2pix \
    acgan infogan wavegan stargan munit progan stylegan2
for model in "$@"; do
    echo "$table" | grep -q "^$model " || { echo "no such race: $model" >&2; exit 2; }
done
for model in "$@"; do
    row=$(echo "$table" | grep "^$model ")
    rm -f "$work"/ours.f32.*
    : >"$work/peak"
    # shellcheck disable=SC2086 # a row's words are arguments
    set -- $row
    name=$1 batch=$2 f32=$3 bf16=$4 roof=$5 cold=$6 layouts=$7; shift 7
    for precision in $precisions; do
        eval required=\$$precision
        [ "$required" = 0 ] || race "$name" "$batch" "$precision" "$required" "$layouts" "$@"
    done
    case " $precisions " in *" f32 "*) figures "$name" "$roof" "$cold"; extra "$name" ;; esac
done
echo "$(wc -l <"$work/all") figures, $(wc -l <"$work/missed") without their level"
sed 's/^/  /' "$work/missed"
