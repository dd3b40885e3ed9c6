#!/bin/sh
# ranks_tail.sh - a rank is killed or signalled to stop at points throughout a step, also while the last all-reduces of
# the step before are in flight: the resumed run has the bits of an uninterrupted one.
. "$(dirname -- "$0")/lib.sh"
. "$here/ranks_lib.sh"
need_mpirun
pack
kill=9 term=15

sed '/report/d' tiny.gan >left.gan
"$(dirname -- "$ganrun")/ganc" emit --stage plan --ranks 2 --batch 8 left.gan >plan
grep -q '^  tail ' plan || fail "left.gan defers nothing to the next step"
train="train left.gan --data x=s.pack --batch 8 --seed 3 --threads 1 --save-every 5 --steps 24 --deadline 60"
ranks 0 2 $train --out calm

# interrupted POINT SIGNAL CODE
interrupted() {
    rm -rf run
    faulty "$1:$2" 2 $train --out run
    ends "$3"
    absent run/ckpt/00000024.json
    ranks 0 2 train run
    says 'resumed from step'
    same calm/ckpt/00000024.safetensors run/ckpt/00000024.safetensors
}
# A step has about 18 `post` points (tests/support/fault.c).
for n in $(seq 300 2 318); do
    interrupted post:$n $kill any
done
for n in $(seq 301 6 318); do
    interrupted post:$n $term 75
done
