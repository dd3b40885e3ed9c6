#!/bin/sh
# ranks_points.sh - a rank is killed or hangs at set points: before MPI starts, before a collective, after it, and while
# the others are inside a large one. The others end in time and name it; saved files are intact and can be resumed.
. "$(dirname -- "$0")/lib.sh"
. "$here/ranks_lib.sh"
need_mpirun
pack
train="train tiny.gan --data x=s.pack --batch 8 --seed 3 --save-every 2 -s nz=256 --steps 1000000 --deadline 3"
kill=9 stop=19

# Before the first step nothing is saved: no folder is created.
for point in init:1 post:1; do
    faulty $point:$kill 3 $train --out early
    ends any
    faulty $point:$stop 3 $train --out early
    ends 3
    case $point in
        init*) says 'the ranks did not connect within 3 s';;
        *) says 'rank 2 on .* does not answer: it is stopped, gone or cut off';;
    esac
    absent early
done

for point in post:600 in:400 far,in:400 cma:400 after:600; do
    for deed in $kill $stop; do
        rm -rf run
        faulty $point:$deed 3 $train --out run
        if [ $deed = $kill ]; then
            ends any
        else
            ends 3
            says 'rank [01] ends: step [0-9]*, '
            says 'rank 2 on .* does not answer'
        fi
        whole run
    done
done

# A rank whose caller is busy answers from inside a transfer: only the one that is stopped is named.
programs=$(dirname -- "$ganrun")
if [ -x "$programs/tests/comm_test" ] && [ -z "$sanitized" ]; then
    rank_program=$programs/tests/comm_test
    faulty in:1:$stop 3 --stopped "$programs/libgan_mpi.so"
    rank_program=
    ends 3
    says 'rank 0: step 7, a collective: .*: rank 2 on [^ ]* does not answer'
    ! grep -q 'rank 1 on' err || fail "a rank that is well is named"
fi

# The buffers of liveness messages stay unchanged until MPI has sent them.
faulty sends@0 2 $train --out sends
kill -STOP "$(process 1)"
ends 3
says 'rank 1 on .* does not answer'
