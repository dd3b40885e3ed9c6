#!/bin/sh
# ranks_faults.sh - a rank is killed, hangs, or is signalled to stop: the others end in time, say why, and saved files are
# intact.
. "$(dirname -- "$0")/lib.sh"
. "$here/ranks_lib.sh"
need_mpirun
pack
train="train tiny.gan --data x=s.pack --batch 8 --seed 3 --save-every 5"

# begin N DIR WORD... : starts a long job in the background and waits until it has logged some steps. $r0, $r1, ...: the
# ranks' processes.
begin() {
    n=$1 dir=$2
    shift 2
    rm -rf "$dir"
    start "$n" $train --steps 1000000 --out "$dir" "$@"
    while [ "$(losses "$dir" 2>/dev/null | wc -l)" -lt 12 ]; do
        kill -0 $job 2>/dev/null || fail "it ended by itself"
        sleep 0.05
    done
    r0=$(process 0) r1=$(process 1) r2=
    [ "$n" -lt 3 ] || r2=$(process 2)
}
# kill -9 of rank 0, which writes the files, and of another rank, anywhere in a step.
for victim in 0 2; do
    begin 3 killed
    eval "kill -9 \$r$victim"
    ends any
    whole killed
done

# A rank with an error of its own reports it; the other is notified and does not wait for the deadline.
begin 2 full --deadline 120
mv full/ckpt full/aside                 # atomically: a save may be in progress
: >full/ckpt
ends 3 $r0 $r1 $r2
says 'rank 0 ends: saving after step [0-9]* failed'
says 'rank 1 ends: .*another rank ended'

# The disk of rank 0 fills up. The run starts with enough space, so that its kernels are compiled for the link measured
# then.
ranks 0 2 $train --steps 5 --out disk
faulty disk@0 2 train disk --steps 100000               # space for checkpoints, not for the log
ends 3
says 'rank 0 ends: .*disk/.*: '
says 'rank 1 ends: .*another rank ended'
whole disk

# Another rank runs out of address space with a large batch, at two sizes; a small one fits. Sanitizers reserve more than
# the limit.
limited() {                                             # CODE KB BATCH
    rm -rf memory
    code=0
    mpirun -n 2 sh -c '[ "$OMPI_COMM_WORLD_RANK" != 1 ] || ulimit -v "$0"; exec "$@"' "$2" "$ganrun" train tiny.gan \
        --data x=s.pack --steps 2 --batch "$3" --out memory >out 2>err || code=$?
    [ $code = "$1" ] || fail "$2 KB of address space, batch $3: exit code $code, not $1"
}
if [ -z "$sanitized" ]; then
    limited 3 2500000 600000
    says 'memory\|address space'
    limited 3 3500000 600000
    says 'memory\|address space'
    limited 0 3500000 8
fi

# A rank with wrong sums is detected before the next checkpoint.
faulty sums 2 $train --steps 20 --out odd
ends 3
says 'the weights of rank 1 differ from those of rank 0'
absent odd/ckpt/00000005.json

# Stopped (SIGSTOP) past the deadline: the other rank names it and ends it.
begin 2 still --deadline 5
kill -STOP $r1
ends 3 $r0 $r1 $r2
says 'rank 0 ends: \(step [0-9]*, \|saving after step [0-9]* failed; \)'      # depends on when it was stopped
says 'rank 1 on .* does not answer: it is stopped, gone or cut off'
whole still

# Stopped for less than the deadline: the run continues.
begin 2 paused --deadline 60
kill -STOP $r1
now= was=-
until [ "$now" = "$was" ]; do   # until rank 0 waits
    sleep 0.05
    was=$now now=$(losses paused | wc -l)
done
kill -CONT $r1
before=$(losses paused | wc -l)
while [ "$(losses paused | wc -l)" -le "$before" ]; do sleep 0.05; done

# SIGTERM to any rank: one checkpoint, all ranks stop after the same step, exit code 75.
kill -TERM $r1
ends 75 $r0 $r1 $r2
[ "$(grep -c 'stopped after step' err)" = 1 ] || fail "not exactly one rank reports that it stopped"
step=$(sed -n 's/.*stopped after step \([0-9]*\).*/\1/p' err)
[ "$(losses paused | wc -l)" = "$step" ] || fail "the log has not as many steps as were done"
exists "paused/ckpt/$(printf %08d "$step").json"
whole paused
