#!/bin/sh
# examples.sh GANRUN NAME... - each example's script, from data to evaluation, with two steps of training; the second run
# trains nothing.
. "$(dirname -- "$0")/lib.sh"
shift
for name in "$@"; do
    script=$here/../../examples/$name/run.sh
    STEPS=2 OUT=$work/$name "$script" "$(dirname -- "$ganrun")" >out 2>err || fail "$name: exit code $?"
    prints "^$name after 2 steps"
    [ "$(wc -l <out)" -ge 3 ] || fail "$name: no number"
    STEPS=2 OUT=$work/$name "$script" "$(dirname -- "$ganrun")" >again 2>err || fail "$name again: exit code $?"
    says 'has done its 2 steps'
    same out again
done
