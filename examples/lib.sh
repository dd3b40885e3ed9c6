# lib.sh - for the run.sh beside each example: made data, a run, its evaluation. Sourced; POSIX sh.
#
#   [STEPS=N] [THREADS=N] [OUT=DIR] examples/NAME/run.sh [BUILD]    BUILD: the folder of ganrun (default: build)
#
# Everything made lies in OUT, by default `out` beside the script. A second run does no work it has done, one that was interrupted goes
# on. Progress goes to standard error; standard output has the evaluation.
set -eu
here=$(CDPATH= cd -- "$(dirname -- "$0")" && pwd)
root=$(CDPATH= cd -- "$here/../.." && pwd)
build=${1:-$root/build}
case $build in /*) ;; *) build=$PWD/$build ;; esac
ganrun=$build/ganrun
name=$(basename "$here")
[ -x "$ganrun" ] || { echo "$name: there is no $ganrun; build first, or name the folder it is in" >&2; exit 3; }
out=${OUT:-$here/out}
mkdir -p "$out"
cd "$out"
seen='' unseen=''                # --data of training, and of evaluation
every=100                        # steps between saves

# synth FIELD KIND COUNT [--size N]: COUNT samples to train on, and a quarter as many, of another seed, to evaluate with.
# Fields of one example differ in their seeds, so that they are not pairs.
seed=-1
synth() {
    field=$1 kind=$2 count=$3
    shift 3
    for part in seen unseen; do
        seed=$((seed + 1))
        file=$field.$part
        [ -s "$file" ] || "$ganrun" data synth "$kind" --out "$file" --count "$count" --seed "$seed" "$@" >&2
        [ $part = seen ] && seen="$seen --data $field=$file" || unseen="$unseen --data $field=$file"
        count=$((count / 4))
    done
}

# train STEPS WORD...: the run in `run`, of $STEPS steps where that is set.
train() {
    steps=${STEPS:-$1}
    shift
    "$ganrun" train "$root/models/$name.gan" $seen --steps "$steps" --save-every "$every" --out run --resume auto \
        ${THREADS:+--threads "$THREADS"} "$@"
}

# evaluate WORD...: on data the run has not seen, and where to look.
evaluate() {
    "$ganrun" eval run $unseen ${THREADS:+--threads "$THREADS"} "$@"
    echo "open $PWD/run/index.html" >&2
}
