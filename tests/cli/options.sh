#!/bin/sh
# options.sh - command-line errors: one clear line and the right exit code each.
. "$(dirname -- "$0")/lib.sh"
pack

# refuse CODE "what it says" WORD...
refuse() {
    code=$1 line=$2
    shift 2
    expect "$code" "$@"
    says "$line"
    [ "$(grep -c '^ganrun: ' err)" = 1 ] || fail "more than one line for: $*"
    [ ! -s out ] || fail "something on standard output for: $*"
    absent run
}
train="train tiny.gan --data x=s.pack --batch 8 --out run"

expect 0 --help;       prints 'train'; prints '  distance GENERATED.npy'
expect 0 train --help; prints '--save-every'; prints '^usage: ganrun train FILE|RUN'; prints '^example: ganrun train '
expect 0 --version;    prints 'ganrun [0-9]'
expect 2

refuse 2 'did you mean `train`' trian
refuse 2 'did you mean `--batch`' $train --bach 4
refuse 2 'set by -s: -s lr=1e-4' $train --lr 3
refuse 2 '--steps needs a whole number' $train --steps 0
refuse 2 '--steps needs a whole number' $train --steps -3
refuse 2 '--steps needs a whole number' $train --steps 1e3
refuse 2 '--steps needs a whole number' $train --steps 99999999999999999999
refuse 2 '--batch needs a whole number' train tiny.gan --data x=s.pack --batch 0
refuse 2 'the maximum is' train tiny.gan --data x=s.pack --batch 9000000 --out run
refuse 2 'needs a value' $train --steps
refuse 2 '--seed is given twice, `1` and `2`: keep one of them' $train --seed 1 --seed 2
refuse 2 '--deterministic is given twice, `2` and `4`' $train --deterministic=2 --deterministic=4
refuse 2 '-s nz is given twice, `3` and `5`: keep one of them' $train -s nz=3 -s lr=1 -s nz=5
refuse 2 'give one of them' $train --steps 4 --kimg 1
refuse 2 'power of two' $train --deterministic=6
refuse 2 'must go into it' $train --deterministic=16
refuse 2 'microseconds and Gbit' $train --wire 20
refuse 2 'the first and the last step' $train --trace 3
refuse 2 'trace 90000:90005: no such step is taken: .* ends with step 10000' $train --trace 90000:90005
refuse 2 'for --device cuda' $train --comm nccl
refuse 2 'nccl, staged or null' $train --comm mpi --device cuda
refuse 2 '--device needs cpu|cuda|ref, not `cpuu`' $train --device cpuu
refuse 2 'does not compute in f64: --device ref' $train --precision f64
refuse 2 '--precision needs' $train --precision f8
refuse 2 '--tf32 needs on|off' $train --tf32 yes
refuse 2 'needs KEY=VALUE' $train -s nz
refuse 2 'say where it is with --data x=PATH' train tiny.gan --batch 8 --out run
refuse 2 'no such data: there is `x`' train tiny.gan --data faces=s.pack --out run
refuse 2 'needs NAME=PATH, not .s.pack.: NAME is a .data. field of the model' train tiny.gan --data s.pack --out run
refuse 1 'no such file' train tiny.gan --data x=t.pack --out run
refuse 1 'the data has 40 samples' train tiny.gan --data x=s.pack --batch 41
absent runs     # where a run that names no folder gets one, once it begins
refuse 1 'the data has 40 samples' train tiny.gan --data x=s.pack --batch 41 --out run
refuse 1 'no file nothing.gan' train nothing.gan --out run
refuse 1 'not the folder of a run' train .
refuse 1 'not the folder of a run' sample .
refuse 2 '`ganrun verify` takes' verify tiny.gan
refuse 2 'needs a FILE' bench
refuse 2 'needs --out' train tiny.gan --data x=s.pack --resume auto

# --device cuda without a GPU: what is missing, and the alternative.
if ! ls /dev/nvidia[0-9]* >/dev/null 2>&1; then
    refuse 3 '--device cpu works here' $train --device cuda
fi

# Help on a command: only its options, on standard output, also with other errors in the command.
expect 0 help eval;          cp out help;  prints 'number of samples (256)$'
expect 0 eval . --bad --help; same out help
grep -q 'in a row\|--steps' help && fail "eval's help has other commands' options"
expect 0 data pack --help;   prints '^usage: ganrun data pack SRC'; prints 'width and height'
expect 0 help data;          prints 'BT.601'
for command in train sample eval verify bench scale interp export import film report distance doctor demo; do
    expect 0 $command --help                # no help text is cut within a bracket
    [ "$(tr -cd '(' <out)" = "$(tr -cd ')' <out | tr ')' '(')" ] || fail "a bracket without its partner"
done
refuse 2 'did you mean `sample`' help sampel
refuse 2 '`ganrun report` has no --batch, `ganrun train` has' report run --batch 4
refuse 2 'that is the compiler.s: ganc compile FILE' compile tiny.gan
refuse 2 'takes RUN; 3 given, as in: ganrun sample run1' sample a b c
refuse 2 '`ganrun sample` takes RUN, and a name that is given is empty' sample ''
refuse 2 'a number and K, M, G or T' $train --memory 12g
refused 2 'unknown command `train`: that is the runtime.s: ganrun train FILE' ganc train tiny.gan
refused 2 '`ganc hash` takes FILE; 2 given, as in: ganc hash' ganc hash tiny.gan tiny.gan
refused 2 'a number and K, M, G or T' ganc plan tiny.gan --memory 12g
refused 2 '-s nz is given twice' ganc check tiny.gan -s nz=3 -s nz=3
refused 2 '`ganc check` has no --json, `ganc plan` has' ganc check tiny.gan --json
refused 2 'did you mean `pack`' ganrun data pak
refused 2 'did you mean `--size`' ganrun data pack x --sise 3
ganc=$(dirname -- "$ganrun")/ganc
"$ganc" plan --help >out || fail 'ganc plan --help'
prints '^usage: ganc plan FILE'; prints '^example: ganc plan '; prints '--memory SIZE'
grep -q -e '--stage' out && fail "plan's help has emit's options"
"$ganc" help fmt | grep -q 'format models' || fail 'ganc help fmt'
"$ganc" --help | grep -q '  completion bash' || fail 'ganc --help'

# Errors of the compiler, with their position.
expect 1 $train -s nzz=3
says 'did you mean'
sed 's/tanh/tahn/' tiny.gan >wrong.gan
expect 1 train wrong.gan --data x=s.pack --out run
says 'wrong.gan:[0-9]*:[0-9]*: error'
absent run

expect 0 doctor --json
prints '"libraries"'
prints '"name": "OpenMP", "found": [tf]'

# A library that is there and cannot be loaded is not replaced by one of elsewhere, and the loader's reason is printed.
mkdir broken
: >broken/libcudnn.so.9
(LD_LIBRARY_PATH=$work/broken${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}; export LD_LIBRARY_PATH; expect 0 doctor)
grep -A 1 '^  cuDNN  *missing: ' out | grep -q '^  *why: .*libcudnn.so.9: file too short$' || fail 'why cuDNN is not found'

# Behind `--` there are files, whatever their names begin with.
expect 0 data synth ring --count 8 --out ./-r.npy
expect 0 data inspect --json -- -r.npy
prints '"path": "-r.npy"'
expect 2 data inspect -r.npy; says 'unknown option `-r.npy`'
expect 2 data inspect --;     says '0 given'

# Every command that prints reports a failed write of standard output.
full() {
    code=0
    "$(dirname -- "$ganrun")/$@" >/dev/full 2>err || code=$?
    [ "$code" = 3 ] || fail "$* on a full disk: exit code $code"
    says 'standard output could not be written'
}
expect 0 data synth ring --out r.npy --count 8
for words in --version --help 'plan tiny.gan' 'hash tiny.gan' 'emit tiny.gan --stage c' 'explain E0301' 'completion bash'; do
    full ganc $words
done
for words in --version --help 'doctor --json' 'data --help' 'data inspect r.npy' 'data synth ring --out s.npy --count 8'; do
    full ganrun $words
done

# Variables that bind OpenMP's threads do not bind the program to the first of their cores.
expect 0 doctor
threads=$(grep '^  threads' out)
for bound in OMP_PROC_BIND=true OMP_PLACES=cores GOMP_CPU_AFFINITY=0-1023; do
    (export "$bound"; expect 0 doctor; prints "^$threads\$")
done
