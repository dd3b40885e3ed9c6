#!/bin/sh
# stages.sh - the text of every compiler stage reads back and leads to the same plan; a damaged one is refused with its
# line.
. "$(dirname -- "$0")/lib.sh"
ganc=$(dirname -- "$ganrun")/ganc
emit() { "$ganc" emit "$@" || fail "ganc emit $*"; }
emit tiny.gan --batch 4 --stage plan -o whole.plan
emit tiny.gan --batch 4 --stage c | grep -v '^//' >whole.c
for stage in fused schedule plan; do
    emit tiny.gan --batch 4 --stage $stage -o a.text
    emit --from-stage $stage a.text --stage $stage -o b.text
    same a.text b.text
    emit --from-stage $stage a.text --stage plan -o b.plan
    same whole.plan b.plan
    emit --from-stage $stage a.text --stage c | grep -v '^//' >b.c
    same whole.c b.c
done
# A plan for several ranks is rank 0's.
emit tiny.gan --batch 7 --ranks 2 --stage plan -o ranks.plan
grep -q '^  rank 0 of 2 batch 7  # samples 0 to 2$' ranks.plan || fail 'a plan does not state its rank'
for stage in fused schedule plan; do
    emit tiny.gan --batch 7 --ranks 2 --stage $stage -o a.text
    emit --from-stage $stage a.text --stage $stage -o b.text
    same a.text b.text
    emit --from-stage $stage a.text --stage plan -o b.plan
    same ranks.plan b.plan
done
emit tiny.gan --batch 8 --ranks 2 --micro 2 --stage plan -o parts.plan
emit --from-stage plan parts.plan --stage plan -o b.plan
same parts.plan b.plan
for stage in graph grad; do
    emit tiny.gan --batch 4 --stage $stage -o a.text
    emit --from-stage $stage a.text --stage $stage -o b.text
    same a.text b.text
    emit --from-stage $stage a.text --stage plan -o b.plan
    same whole.plan b.plan
done
emit tiny.gan --batch 4 --precision bf16 --stage fused -o half.fused
emit --from-stage fused half.fused --stage plan -o half.plan
grep -q '^plans plan bf16' half.plan || fail 'a plan does not state its precision'

# Texts of the wrong stage, truncated and edited plans.
refused 1 'there is no file gone.plan' ganc emit --from-stage plan gone.plan --stage c
refused 1 'tiny.gan: not what .ganc emit MODEL --stage S. prints' ganc emit --from-stage fused tiny.gan --stage plan
refused 2 '--from-stage needs graph|grad|fused|schedule|plan, not `tokens`' ganc emit --from-stage tokens whole.plan --stage plan
emit tiny.gan --batch 4 --stage graph -o a.graph
refused 1 'ends before its plans' ganc emit --from-stage plan a.graph --stage plan
head -n $(($(wc -l <whole.plan) - 3)) whole.plan >cut.plan
refused 1 'line [0-9]*: .*launch' ganc emit --from-stage plan cut.plan --stage plan
row=$(grep -n '^    store .* at ' whole.plan | tail -n 1 | cut -d: -f1)
sed "${row}s/ at [0-9]*/ at 8/" whole.plan >askew.plan
refused 1 'lies at no place for a value' ganc emit --from-stage plan askew.plan --stage plan
sed "${row}s/%[0-9]*/%999999/" whole.plan >lost.plan
refused 1 "line $row: no region to store in, or no such node" ganc emit --from-stage plan lost.plan --stage plan
