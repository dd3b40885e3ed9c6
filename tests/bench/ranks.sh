#!/bin/sh
# tests/bench/ranks.sh: ranks of one thread on this machine. Two against PyTorch's DistributedDataParallel; what of
# communication is left exposed on links of 1, 10 and 100 Gbit/s, against the bound of any order; what the simulator says; weak
# scaling; how long two ranks take to begin. Needs mpirun, and PyTorch in the python3 named by $PYTHON for the first. Run it on
# a quiet machine. See docs/performance.md.
# PARTS="ddp exposed replay weak start" ROUNDS=3 STEPS=6 MODELS="dcgan:32 wgan_gp:4 cosmogan:8" SET_cosmogan="-s size=64"
set -eu
cd "$(dirname -- "$0")/../.."
python=${PYTHON:-python3}
rounds=${ROUNDS:-3} steps=${STEPS:-6} models=${MODELS:-dcgan:32 wgan_gp:4 cosmogan:8}
parts=${PARTS:-ddp exposed replay weak start}
SET_cosmogan=${SET_cosmogan--s size=64}
if [ "$(id -u)" = 0 ]; then
    OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
    export OMPI_ALLOW_RUN_AS_ROOT OMPI_ALLOW_RUN_AS_ROOT_CONFIRM
fi

bench() {   # RANKS MODEL BATCH WORD... : one object
    n=$1 m=$2 b=$3
    shift 3
    eval "set=\${SET_$m-}"
    # shellcheck disable=SC2086,SC2154
    mpirun --oversubscribe --bind-to none -n "$n" build/ganrun bench "models/$m.gan" --batch "$b" --threads 1 --steps "$steps" \
        --warmup 2 --brief --json $set "$@" 2>/dev/null
}
field() { sed -n "s/.*\"$1\": *\([0-9.e+-]*\).*/\1/p"; }
middle() { printf '%s\n' "$@" | sort -g | sed -n "$(($# / 2 + 1))p"; }
of() { echo "$o" | field "$1"; }     # of the last object

ddp() {
    echo "two ranks of one thread, dcgan, batch 32, statistics per rank, in alternation: ms a step"
    ours='' theirs=''
    for round in $(seq "$rounds"); do
        a=$(bench 2 dcgan 32 -s group=16 | field step_ms)
        b=$(cd tests/bench/pytorch && OMP_NUM_THREADS=1 "$python" -m torch.distributed.run --nproc-per-node 2 ddp.py dcgan \
            --batch 32 --steps "$steps" 2>/dev/null | sed -n 's/.*median_ms=\([0-9.]*\).*/\1/p')
        echo "round $round: ganrun $a, DDP over gloo ${b:-not measured}"
        ours="$ours $a" theirs="$theirs $b"
    done
    # shellcheck disable=SC2086
    case $theirs in *[0-9]*) awk -v a="$(middle $ours)" -v b="$(middle $theirs)" \
        'BEGIN { printf "medians: %.0f against %.0f: %.2f times as fast (1.2 is required)\n", a, b, b / a }';; esac
}

# A row: what is exposed, of what, and what it may be: the bound and a tenth of the communication.
row() {
    awk -v step="$(of step_ms)" -v e="$(of comm_exposed_ms)" -v c="$(of comm_ms)" -v b="$(of comm_bound_ms)" \
        -v told="$(of foretold_ms)" -v what="$1" 'BEGIN {
        printf "%-34s %8.1f %8.1f %8.1f %8.1f %8.1f %s %9.1f %6.1f %%\n", what, step, e, c, b, b + c / 10,
            e <= b + c / 10 ? "held  " : "missed", told, 100 * (told / step - 1) }'
}
head_of_rows() {
    printf '%-34s %8s %8s %8s %8s %8s %6s %9s %8s\n' "$1" "step ms" exposed of bound allowed "" foretold "off by"
}

exposed() {
    head_of_rows "two ranks (model, Gbit/s)"
    for mb in $models; do
        for gbit in 1 10 100; do
            for words in "" "--bucket-mb 25" "--overlap off"; do
                # shellcheck disable=SC2086
                o=$(bench 2 "${mb%:*}" "${mb#*:}" --wire "20,$gbit" $words)
                row "${mb%:*} $gbit $words"
            done
        done
    done
}

# Weak: a rank's batch is that of two ranks above.
replay() {
    head_of_rows "in replay (model, ranks, Gbit/s)"
    for mb in $models; do
        for n in ${RANKS:-2 4 8}; do
            for gbit in 1 10 100; do
                o=$(bench "$n" "${mb%:*}" $((${mb#*:} * n / 2)) --wire "20,$gbit" --replay)
                row "${mb%:*} $n $gbit"
            done
        done
    done
}

weak() {
    for round in $(seq "$rounds"); do
        one=$(bench 1 dcgan 16 | field step_ms)
        build/ganrun bench models/dcgan.gan --batch 16 --threads 1 --steps "$steps" --brief >/dev/null 2>&1 &
        apart=$(bench 1 dcgan 16 | field step_ms)
        wait
        two=$(bench 2 dcgan 32 --wire 20,10 | field step_ms)
        awk -v a="$one" -v b="$two" -v c="$apart" 'BEGIN { printf "weak scaling of dcgan, 16 samples a rank, 10 Gbit/s: \
%.1f ms on one, %.1f on two: %.1f %% (95 is required); two that know nothing of each other: %.1f ms, %.1f %%\n",
            a, b, 100 * a / b, c, 100 * a / c }'
    done
}

start() {
    for n in 1 2; do
        times=''
        for _ in 1 2 3 4 5; do
            began=$(date +%s%N)
            mpirun --bind-to none -n "$n" build/ganrun bench models/d2gan_ring.gan --batch 32 --threads 1 --steps 1 --warmup 0 \
                --brief >/dev/null 2>&1
            times="$times $((($(date +%s%N) - began) / 1000000))"
        done
        # shellcheck disable=SC2086
        echo "mpirun -n $n, a step of d2gan_ring from start to end: $(middle $times) ms (two: at most 500 more)"
    done
}

for part in $parts; do
    $part
    echo
done
