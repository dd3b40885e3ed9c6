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
for point in init:1 meet:1; do
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

for point in meet:600 in:80 near:400 after:600; do
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

# The buffers of a roll call's messages stay unchanged until MPI has sent them.
faulty sends@0 2 $train --out sends
kill -STOP "$(process 1)"
ends 3
says 'rank 1 on .* does not answer'
