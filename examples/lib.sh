# lib.sh - functions of the examples' run.sh: synthetic data, a training run, its evaluation. Sourced; POSIX sh.
#
#   [STEPS=N] [THREADS=N] [OUT=DIR] examples/NAME/run.sh [BUILD]    BUILD: the folder of ganrun (default: build)
#
# All output is in OUT, by default `out` beside the script. A second run repeats no finished work; an interrupted one
# resumes. Progress goes to standard error; standard output has the evaluation.
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
train_data='' test_data=''       # --data options of training and of evaluation
every=100                        # steps between saves

# synth FIELD KIND COUNT [--size N]: generates COUNT training samples and, with another seed, a quarter as many for evaluation.
# Fields of one example differ in their seeds, so that they are not pairs.
seed=-1
synth() {
    field=$1 kind=$2 count=$3
    shift 3
    for part in train test; do
        seed=$((seed + 1))
        file=$field.$part
        [ -s "$file" ] || "$ganrun" data synth "$kind" --out "$file" --count "$count" --seed "$seed" "$@" >&2
        if [ $part = train ]; then train_data="$train_data --data $field=$file"; else test_data="$test_data --data $field=$file"; fi
        count=$((count / 4))
    done
}

# train STEPS OPTION...: trains in the folder `run`, for $STEPS steps if that is set.
train() {
    steps=${STEPS:-$1}
    shift
    "$ganrun" train "$root/models/$name.gan" $train_data --steps "$steps" --save-every "$every" --out run --resume auto \
        ${THREADS:+--threads "$THREADS"} "$@"
}

# evaluate OPTION...: evaluates on held-out data, and prints where the run's page is.
evaluate() {
    "$ganrun" eval run $test_data ${THREADS:+--threads "$THREADS"} "$@"
    echo "open $PWD/run/index.html" >&2
}
