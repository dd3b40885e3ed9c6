#!/bin/sh
# tests/bench/ranks.sh: ranks of one thread on this machine. Two against PyTorch's DistributedDataParallel; exposed
# communication on links of 1, 10 and 100 Gbit/s, against the lower bound of any order; simulated against measured steps;
# weak scaling, beside two independent processes; start-up time of two ranks; whether losses and bits depend on the number
# of ranks (gradients: the tests `verify.ranks.*`). Rows that have a requirement end with `pass` or `fail`. Needs
# mpirun, and PyTorch in the python3 named by $PYTHON for the first. Run it on a quiet machine: the published sizes take
# some hours. See docs/performance.md.
# PARTS="ddp exposed replay weak start same" ROUNDS=5 STEPS=6 WEAK="16 128" GBITS="1 10 100" RANKS="2 4 8"
# MODELS="dcgan:32 wgan_gp:32 cosmogan:16", or small: MODELS="dcgan:8 wgan_gp:4 cosmogan:8" SET_cosmogan="-s size=64"
set -eu
cd "$(dirname -- "$0")/../.."
python=${PYTHON:-python3}
rounds=${ROUNDS:-5} steps=${STEPS:-6} models=${MODELS:-dcgan:32 wgan_gp:32 cosmogan:16} gbits=${GBITS:-1 10 100}
parts=${PARTS:-ddp exposed replay weak start same}
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
        'BEGIN { printf "medians: %.0f against %.0f: %.2f times as fast (1.2 is required): %s\n", a, b, b / a,
            1.2 <= b / a ? "pass" : "fail" }';; esac
}

# What was measured of one run, under its name: a line of the file of rows.
note() {
    printf '%s\t%s %s %s %s %s %s\n' "$1" "$(of step_ms)" "$(of comm_exposed_ms)" "$(of comm_late_ms)" "$(of comm_ms)" \
        "$(of comm_bound_ms)" "$(of simulated_ms)" >>"$rows"
}

# The medians of a name's lines: what is exposed (and in which run least and most), how much of it for a rank that came late, of
# what, and what it may be: the bound and a tenth of the communication; what was simulated of the step, a tenth of which it may be
# off by.
show_rows() {
    printf '%-34s %8s %8s %15s %8s %8s %8s %8s %6s %9s %8s\n' "$1" "step ms" exposed "(least to most)" late of bound allowed "" \
        simulated "off by"
    awk -F'\t' '!($1 in n) { name[++names] = $1; n[$1] = 0 }
        split($2, x, " ") == 6 { k = ++n[$1]; for (i in x) at[$1, i, k] = x[i] + 0 }
        function nth(what, field, which,    i, j, t, v) {
            for (i = 1; i <= n[what]; i++) v[i] = at[what, field, i]
            for (i = 2; i <= n[what]; i++)
                for (j = i; j > 1 && v[j] < v[j - 1]; j--) { t = v[j]; v[j] = v[j - 1]; v[j - 1] = t }
            return v[which]
        }
        function median(what, field) { return nth(what, field, int(n[what] / 2) + 1) }
        END { for (r = 1; r <= names; r++) {
            w = name[r]
            if (!n[w]) { printf "%-34s not measured\n", w; continue }
            step = median(w, 1); e = median(w, 2); c = median(w, 4); b = median(w, 5); told = median(w, 6)
            off = told / step - 1
            printf "%-34s %8.1f %8.1f %6.1f to %5.1f %8.1f %8.1f %8.1f %8.1f %-6s %9.1f %6.1f %% %s\n", w, step, e, nth(w, 2, 1),
                nth(w, 2, n[w]), median(w, 3), c, b, b + c / 10, e <= b + c / 10 ? "pass" : "fail", told, 100 * off,
                off * off <= 0.01 ? "pass" : "fail" } }' "$rows"
}

# Rows in turn, as often as there are rounds, so that a drift counts for none.
in_turn() { # ROW HEAD
    rows=$(mktemp)
    for _ in $(seq "$rounds"); do
        for mb in $models; do
            for gbit in $gbits; do "$1"; done
        done
    done
    show_rows "$2"
    rm -f "$rows"
}

exposed_rows() {
    for words in "" "--bucket-mb 25" "--overlap off"; do
        # shellcheck disable=SC2086
        o=$(bench 2 "${mb%:*}" "${mb#*:}" --wire "20,$gbit" $words)
        note "${mb%:*} $gbit $words"
    done
}
exposed() { in_turn exposed_rows "two ranks (model, Gbit/s)"; }

# Weak: a rank's batch is that of two ranks above.
replay_rows() {
    for n in ${RANKS:-2 4 8}; do
        o=$(bench "$n" "${mb%:*}" $((${mb#*:} * n / 2)) --wire "20,$gbit" --replay)
        note "${mb%:*} $n $gbit"
    done
}
replay() { in_turn replay_rows "in replay (model, ranks, Gbit/s)"; }

# Each round: one rank, two that know nothing of each other, two; then the other way about, so that a drift counts for neither.
weak() {
    for each in ${WEAK:-16 128}; do
        ones='' aparts='' twos=''
        for round in $(seq "$rounds"); do
            order="one apart two"
            [ $((round % 2)) = 1 ] || order="two apart one"
            for which in $order; do
                case $which in
                one) one=$(bench 1 dcgan "$each" | field step_ms);;
                two) two=$(bench 2 dcgan $((2 * each)) --wire 20,10 | field step_ms);;
                apart)
                    bench 1 dcgan "$each" >/dev/null &
                    apart=$(bench 1 dcgan "$each" | field step_ms)
                    wait;;
                esac
            done
            echo "$each samples a rank, round $round: $one ms on one, $two on two, $apart of two apart"
            ones="$ones $one" twos="$twos $two" aparts="$aparts $apart"
        done
        # shellcheck disable=SC2086
        awk -v a="$(middle $ones)" -v b="$(middle $twos)" -v c="$(middle $aparts)" -v n="$each" 'BEGIN {
            printf "weak scaling of dcgan, %d samples a rank, 10 Gbit/s, medians: %.1f ms on one, %.1f on two: %.1f %% (95 is \
required): %s; two that know nothing of each other: %.1f ms, %.1f %%\n", n, a, b, 100 * a / b, 0.95 <= a / b ? "pass" : "fail",
                c, 100 * a / c }'
    done
}

start() {
    one=''
    for n in 1 2; do
        times=''
        for _ in 1 2 3 4 5; do
            began=$(date +%s%N)
            mpirun --bind-to none -n "$n" build/ganrun bench models/d2gan_ring.gan --batch 32 --threads 1 --steps 1 --warmup 0 \
                --brief >/dev/null 2>&1
            times="$times $((($(date +%s%N) - began) / 1000000))"
        done
        # shellcheck disable=SC2086
        now=$(middle $times)
        echo "mpirun -n $n, a step of d2gan_ring from start to end: $now ms"
        [ $n = 2 ] || one=$now
    done
    [ $((now - one)) -le 500 ] && verdict=pass || verdict=fail
    echo "two take $((now - one)) ms more (at most 500): $verdict"
}

# The losses that a run of one step has logged, one a line.
losses() { sed -n 's/.*"losses": {\([^}]*\)}.*/\1/p' "$1/log.jsonl" 2>/dev/null | tr ',' '\n' | sed 's/.*: //'; }

# A run on 1, 2 and 4 ranks: in f64 its first losses, in a fixed tree its bits.
same() {
    dir=$(mktemp -d)
    build/ganrun data synth shapes --out "$dir/x.pack" --count 64 --size 64 >/dev/null
    for n in 1 2 4; do
        run="mpirun --oversubscribe --bind-to none -n $n build/ganrun train models/dcgan.gan --data x=$dir/x.pack --batch 4 --threads 1"
        $run --device ref --precision f64 --steps 1 --out "$dir/f64.$n" >/dev/null 2>&1 || echo "$n ranks: failed"
        losses "$dir/f64.$n" >"$dir/losses.$n"
        [ $n = 1 ] || paste "$dir/losses.1" "$dir/losses.$n" | awk -v n="$n" '
            { d = ($1 - $2) / $1; d = d < 0 ? -d : d; most = d > most ? d : most }
            END { printf "losses of the first step on %d ranks, f64, ref: %.1e from those of one (1e-10): %s\n", n, most,
                NR && most <= 1e-10 ? "pass" : "fail" }'
        for device in ref cpu; do
            $run --device $device --deterministic=4 --steps "${SAME:-20}" --out "$dir/$device.$n" >/dev/null 2>&1 ||
                echo "$n ranks: failed"
            [ $n = 1 ] || { cmp -s "$dir/$device.1"/ckpt/*.safetensors "$dir/$device.$n"/ckpt/*.safetensors && verdict=pass; } ||
                verdict=fail
            [ $n = 1 ] || echo "bits after ${SAME:-20} steps on $n ranks, $device, against one rank's: $verdict"
        done
    done
    rm -rf "$dir"
}

for part in $parts; do
    $part
    echo
done
