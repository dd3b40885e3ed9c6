#!/bin/sh
# ranks.sh - one job on many ranks: its messages, what is refused, and results that do not depend on the number of ranks.
# Skipped visibly without mpirun.
. "$(dirname -- "$0")/lib.sh"
. "$here/ranks_lib.sh"
pack
train="train tiny.gan --data x=s.pack --batch 8 --seed 3 --device ref --precision f64"

# A single process needs no MPI; as a rank it reports what is missing (tested without mpirun).
cp "$ganrun" alone
code=0
OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=2 ./alone $train --steps 1 --out none >out 2>err || code=$?
[ $code = 3 ] || fail "without the plugin: exit code $code, not 3"
says 'has no MPI'
says 'apt-get install libopenmpi-dev'
absent none
need_mpirun
"$ganrun" data synth shapes --out s.pack --count 37 --size 8 >/dev/null    # not a multiple of the batch

# Tasks started by srun where MPI sees a single process: each would train alone.
code=0
env SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=2 "$ganrun" $train --steps 1 --out none >out 2>err || code=$?
[ $code = 3 ] || fail "a singleton under srun: exit code $code, not 3"
says 'MPI sees 1: each would train alone'

# The same run on 1, 2 and 3 ranks; 3 does not divide 8 samples. More ranks than cores.
expect 0 $train --steps 6 --save-every 3 --out one
for n in 2 3; do
    ranks 0 $n $train --steps 6 --save-every 3 --out r$n
    says "^ *$((n - 1))  .* [1-9]"               # the table's last rank, with a thread at least
    [ "$(grep -c 'open r' err)" = 1 ] || fail "$n ranks: more than one of them reports"
    close_to one r$n
    [ "$(cd r$n && ls samples ckpt)" = "$(cd one && ls samples ckpt)" ] || fail "$n ranks: other files than one"
done

# A model compiled for two ranks.
"$(dirname -- "$ganrun")/ganc" compile tiny.gan --batch 8 --precision f64 --ranks 2 -o tiny.ganx || fail 'ganc compile'
ranks 0 2 train tiny.ganx ${train#train tiny.gan} --steps 6 --save-every 3 --out compiled
close_to one compiled

# Metrics during training: each rank generates a part of the samples. Those that would differ from one rank's are rejected.
cp "$here/seen.gan" .
{ cat tiny.gan; echo 'sample copies = x + 0*G(normal(nz))'; echo 'sample centred = G(normal(nz)) - mean(G(normal(nz)), batch)'; } >more.gan
measure="--features seen.gan --metric kid --count 600 --save-every 3 --steps 6"
scores() { sed -n 's/.*"step": \([0-9]*\), "score": .*"values": {"kid": \([^}]*\)}.*/\1 \2/p' "$1/log.jsonl"; }
expect 0 $train $measure --out measured
for n in 2 3; do
    ranks 0 $n $train $measure --out measured$n
    close_to one measured$n
    scores measured >a
    scores measured$n >b
    paste -d' ' a b | awk '{ d = $2 - $4; if ($1 != $3 || (d < 0 ? -d : d) > 1e-6) exit 1 } END { exit NR != 2 }' ||
        fail "$n ranks: other scores than one: $(paste a b)"
done
more="train more.gan --data x=s.pack --batch 8 --device ref --metric swd --out none"
ranks 1 2 $more --entry centred
says 'sample centred sums over the batch, which is on 2 ranks'
ranks 2 3 $more --entry copies
says 'sample copies reads data, a batch of 8 at a time, which 3 ranks do not divide'
absent none

# A checkpoint of four ranks resumes on one and on three, equal up to the order of sums.
ranks 0 4 $train --steps 4 --save-every 2 --out four
cp -r four four-3
expect 0 train four --steps 6
says 'resumed from step 4'
close_to one four
ranks 0 3 train four-3 --steps 6
says 'resumed from step 4'
close_to one four-3

# Hierarchical all-reduce (within one node, on request), and micro-batches: the same numbers.
ranks 0 3 $train --steps 6 --save-every 3 --hierarchical on --out nodes
says 'all-reduce: within each of 1 nodes, then across nodes'
close_to one nodes
for n in 1 2; do
    ranks 0 $n $train --steps 6 --save-every 3 --micro 2 --out parts$n
    close_to one parts$n
done
ranks 2 3 $train --micro 2 --out none
says '--micro 2: the batch (8) must divide into 2 equal parts on each of 3 ranks'
ranks 2 2 $train --micro 2 --deterministic --out none
absent none
says 'goes without --micro'

# Sums in a fixed tree: the same bits on 1, 2 and 4 ranks.
for n in 1 2 4; do
    ranks 0 $n train tiny.gan --data x=s.pack --batch 8 --seed 3 --steps 20 --deterministic=4 --threads 1 --out tree$n
    same tree1/ckpt/00000020.safetensors tree$n/ckpt/00000020.safetensors
done

# Launches deferred to the next step are completed before a save: bit-identical to --overlap off and to a resumed run. A
# timed step, here the eighth, defers nothing.
sed '/report/d' tiny.gan >left.gan
"$(dirname -- "$ganrun")/ganc" emit --stage plan --ranks 2 --batch 8 left.gan >plan
grep -q '^  tail ' plan || fail "left.gan defers nothing to the next step"
cpu="train left.gan --data x=s.pack --batch 8 --seed 3 --threads 1"
ranks 0 2 $cpu --steps 10 --save-every 5 --out left
grep -q '"step": 8, .*"shares": {"data": [0-9.]*, "D": 0.[0-9]*, "G": 0.[0-9]*, ' left/log.jsonl || fail "step 8 is not timed"
ranks 0 2 $cpu --steps 10 --save-every 2 --overlap off --out whole
same left/ckpt/00000010.safetensors whole/ckpt/00000010.safetensors
ranks 0 2 $cpu --steps 7 --save-every 7 --out halves
ranks 0 2 train halves --steps 10
same left/ckpt/00000010.safetensors halves/ckpt/00000010.safetensors

# The norm of a gradient is that of the sum over the ranks.
cp "$here/norm.gan" .
ranks 0 2 train norm.gan --batch 8 --steps 2 --threads 1 --out norm
[ "$(grep -c '"g_norm": 10[,}]' norm/log.jsonl)" = 2 ] || fail "norms: $(cat norm/log.jsonl)"

# Fewer samples than ranks; a command for one rank; an invalid model: one rank reports the error.
ranks 2 3 train tiny.gan --data x=s.pack --batch 2 --out few
says 'a batch of 2 has no sample for each of 3 ranks'
ranks 2 2 doctor
says 'runs on one rank'
for words in doctor 'train tiny.gan --bach 4'; do   # rank 0 starts later: launchers end all ranks once one has ended
    code=0
    mpirun -n 2 sh -c '[ "$OMPI_COMM_WORLD_RANK" != 0 ] || sleep 1; exec "$@"' sh "$ganrun" $words >out 2>err || code=$?
    [ $code = 2 ] || fail "$words, rank 0 later: exit code $code, not 2"
    [ "$(grep -c '^ganrun: ' err)" = 1 ] || fail "$words, rank 0 later: not exactly one message"
done
sed 's/dense(1)/dnse(1)/' tiny.gan >wrong.gan
ranks 1 2 train wrong.gan --data x=s.pack --batch 8 --out wrong
[ "$(grep -c 'dnse' err)" -le 2 ] || fail "both ranks show the model's mistakes"
absent few wrong

# Traces: one file a rank, and all in one.
ranks 0 2 $train --steps 4 --trace 2:3 --out traced
exists traced/trace.json traced/trace.rank0.json traced/trace.rank1.json
grep -q '"rank 1"' traced/trace.json || fail "the merged trace lacks rank 1"
grep -q '"step 2"' traced/trace.rank1.json || fail "the trace lacks step 2"
! grep -q '"step 4"' traced/trace.json || fail "the trace has a step that was not asked for"

# `ganrun scale`: measured points, simulated points on more ranks, table, plot and text.
cp tiny.gan 'a&b.gan'
expect 0 scale 'a&b.gan' --ranks 1,2 --mode weak,strong --batch 8 --steps 3 --warmup 1 --simulate 4..16 --out study
[ "$(grep -c ' 1 rank, batch 8' err)" = 1 ] || fail "one rank, which weak and strong scaling have in common, is measured twice"
[ "$(sed -n 's/^weak,1,//p' study/study.csv)" = "$(sed -n 's/^strong,1,//p' study/study.csv)" ] || fail "one rank has two results"
grep -q 'a&amp;b.gan' study/study.svg || fail "the plot's title is not escaped"
[ "$(grep -c ',measured,' study/study.csv)" = 4 ] || fail "the study has not four measured points"
[ "$(grep -c '^weak,.*,simulated,' study/study.csv)" = 3 ] || fail "the study has not three weak simulated points"
says 'strong, 16 ranks: the batch of 8 has no sample for each'
grep -q '## Methods' study/study.md || fail "the study has no methods"
grep -q '<circle' study/study.svg || fail "the plot has no points"
sed -n '/^## Methods/,$p' study/study.md | grep -q 'the median of 3 steps after 1' || fail "the methods do not say what was timed"
for column in comm_ms exposed_ms step_null_ms simulated_ms; do
    sed -n '/^## Methods/,$p' study/study.md | grep -q "\`$column\`" || fail "the methods do not explain $column"
done
refused 2 'needs numbers, as 1,2,4' ganrun scale tiny.gan --ranks 1,x --out none
refused 2 'needs weak, strong or both' ganrun scale tiny.gan --mode week --out none
