#!/bin/sh
# tests/bench/ranks.sh: two ranks of one thread on this machine: against PyTorch's DistributedDataParallel, and what of
# communication is left exposed on links of 1, 10 and 100 Gbit/s. Needs mpirun, and PyTorch in the python3 named by $PYTHON for
# the first table. Run it on a quiet machine. See docs/performance.md.
# ROUNDS=3 STEPS=6 MODELS="dcgan:32 wgan_gp:32 cosmogan:16"
set -eu
cd "$(dirname -- "$0")/../.."
python=${PYTHON:-python3}
rounds=${ROUNDS:-3} steps=${STEPS:-6} models=${MODELS:-dcgan:32 wgan_gp:32 cosmogan:16}
if [ "$(id -u)" = 0 ]; then
    OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
    export OMPI_ALLOW_RUN_AS_ROOT OMPI_ALLOW_RUN_AS_ROOT_CONFIRM
fi

bench() {   # RANKS MODEL BATCH WORD... : one object
    n=$1 m=$2 b=$3
    shift 3
    mpirun -n "$n" build/ganrun bench "models/$m.gan" --batch "$b" --threads 1 --steps "$steps" --warmup 2 --brief --json \
        "$@" 2>/dev/null
}
field() { sed -n "s/.*\"$1\": *\([0-9.e+-]*\).*/\1/p"; }
middle() { printf '%s\n' "$@" | sort -g | sed -n "$(($# / 2 + 1))p"; }

echo "two ranks of one thread, dcgan, batch 32, statistics per rank, in alternation: ms a step"
ours= theirs=
for round in $(seq "$rounds"); do
    a=$(bench 2 dcgan 32 -s group=16 | field step_ms)
    b=$(cd tests/bench/pytorch && OMP_NUM_THREADS=1 "$python" -m torch.distributed.run --nproc-per-node 2 ddp.py dcgan \
        --batch 32 --steps "$steps" 2>/dev/null | sed -n 's/.*median_ms=\([0-9.]*\).*/\1/p')
    echo "round $round: ganrun $a, DDP over gloo ${b:-not measured}"
    ours="$ours $a" theirs="$theirs $b"
done
# shellcheck disable=SC2086
[ -z "$(echo $theirs)" ] || awk -v a="$(middle $ours)" -v b="$(middle $theirs)" \
    'BEGIN { printf "medians: %.0f against %.0f: %.2f times as fast (1.2 is required)\n", a, b, b / a }'

echo
echo "exposed communication of two ranks, ms a step (of: what all collectives take)"
printf '%-10s %5s %9s %16s %16s %16s\n' model batch Gbit/s "as planned" "25 MB buckets" "no overlap"
for mb in $models; do
    m=${mb%:*} b=${mb#*:}
    for gbit in 1 10 100; do
        line=$(printf '%-10s %5s %9s' "$m" "$b" "$gbit")
        for words in "" "--bucket-mb 25" "--overlap off"; do
            # shellcheck disable=SC2086
            o=$(bench 2 "$m" "$b" --wire "20,$gbit" $words)
            cell=$(printf '%.1f of %.1f' "$(echo "$o" | field comm_exposed_ms)" "$(echo "$o" | field comm_ms)")
            line="$line $(printf '%16s' "$cell")"
        done
        echo "$line"
    done
done

echo
one=$(bench 1 dcgan 16 | field step_ms)
two=$(bench 2 dcgan 32 --wire 20,10 | field step_ms)
awk -v a="$one" -v b="$two" \
    'BEGIN { printf "weak scaling of dcgan, 16 samples a rank, 10 Gbit/s: %.1f ms on one, %.1f on two: %.1f %% (95 is required)\n", a, b, 100 * a / b }'
