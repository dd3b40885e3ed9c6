#!/bin/sh
# ranks_differ.sh - differences between ranks are named, and nothing starts.
. "$(dirname -- "$0")/lib.sh"
. "$here/ranks_lib.sh"
need_mpirun
pack
base="--data x=s.pack --device ref --precision f64"
train="train tiny.gan $base --batch 8 --seed 3 --steps 2 --out d"

# differ MESSAGE PROGRAM 'arguments of rank 1'
differ() {
    code=0
    mpirun -n 2 sh -c '[ "$OMPI_COMM_WORLD_RANK" = 0 ] || exec "$2" $3; exec "$0" $1' "$ganrun" "$train" "$2" "$3" >out 2>err || code=$?
    [ $code = 1 ] || fail "ranks that differ ($2 $3): exit code $code, not 1"
    says "the ranks differ: rank 1 has another $1"
    [ "$(grep -c 'the ranks differ' err)" = 1 ] || fail "more than one rank reports"
    absent d
}
differ 'job: .*"seed": 4.*rank 0.*"seed": 3' "$ganrun" "train tiny.gan $base --batch 8 --seed 4 --steps 2 --out d"
differ 'job: .*"batch": 4' "$ganrun" "train tiny.gan $base --batch 4 --seed 3 --steps 2 --out d"
differ 'job: .*"bucket_bytes": 1000' "$ganrun" "$train --bucket-mb 0.001"
differ 'command line: `--overlap off`, rank 0.s is `no --overlap`' "$ganrun" "$train --overlap off"
differ 'command line: `--trace 1:2`, rank 0.s is `no --trace`' "$ganrun" "$train --trace 1:2"
differ 'command line: `--replan`, rank 0.s is `no --replan`' "$ganrun" "$train --replan"
differ 'command line: `ganrun verify`, rank 0.s is `ganrun train`' "$ganrun" "verify tiny.gan tiny.json"
mkdir other
sed 's/0.9) + bce/0.8) + bce/' tiny.gan >other/tiny.gan
differ 'model: line [0-9]* is `.*0.8) + bce.*rank 0.s is `.*0.9) + bce' "$ganrun" "train other/tiny.gan $base --batch 8 --seed 3 --steps 2 --out d"
"$ganrun" data synth shapes --out other/s.pack --count 30 --size 8 >/dev/null
differ 'data: ' "$ganrun" "train tiny.gan --data x=other/s.pack --device ref --precision f64 --batch 8 --seed 3 --steps 2 --out d"
one=$train
"$ganrun" data synth shapes --out second.pack --count 40 --size 8 --seed 5 >/dev/null
train="$one --data x=second.pack"
differ 'data: ' "$ganrun" "$one --data x=s.pack"             # equally many samples, and the same first pack
train=$one

# Ranks of a benchmark have no job: all that they are asked for is compared.
train="bench tiny.gan --batch 8 --steps 2 --warmup 1"
differ 'command line: `--steps 3`, rank 0.s is `--steps 2`' "$ganrun" "bench tiny.gan --batch 8 --steps 3 --warmup 1"
differ 'command line: `no --warmup`, rank 0.s is `--warmup 1`' "$ganrun" "bench tiny.gan --batch 8 --steps 2"
differ 'command line: `--batch 10`, rank 0.s is `--batch 8`' "$ganrun" "bench tiny.gan --batch 10 --steps 2 --warmup 1"
differ 'command line: `-s nz=5`, rank 0.s is `no -s`' "$ganrun" "$train -s nz=5"
differ 'tiny.gan: `of hash [0-9a-f]*`, rank 0.s is `of hash' "$ganrun" "bench other/tiny.gan --batch 8 --steps 2 --warmup 1"
train=$one

# Each rank alone has the wrong sums of --comm null. Other orders of sums are found while MPI opens, by every rank.
refused 2 'ganrun: --comm null adds nothing up.*it is for `ganrun bench`' ganrun $train --comm null
code=0
mpirun -n 2 sh -c '[ "$OMPI_COMM_WORLD_RANK" = 0 ] || exec "$@" --hierarchical on; exec "$@"' 0 "$ganrun" $train >out 2>err || code=$?
[ $code = 3 ] || fail "different --hierarchical: exit code $code, not 3"
says 'ganrun: the ranks were started with different --hierarchical'
[ "$(grep -c 'ganrun:' err)" = 1 ] || fail "more than one rank reports"

# MPI must be safe for several threads.
faulty threads@0 2 $train
ends 3
says 'ganrun: this MPI does not support threads (MPI_THREAD_MULTIPLE)'

# A rank that fails alone before it has met the others (here without its plugin) is heard, though rank 0 waits.
cp "$ganrun" alone
code=0
mpirun -n 2 sh -c '[ "$OMPI_COMM_WORLD_RANK" = 0 ] || exec ./alone "$@"; exec "$0" "$@"' "$ganrun" $train >out 2>err || code=$?
[ $code = 3 ] || fail "a rank without its plugin: exit code $code, not 3"
says 'ganrun: rank 1 ends: mpirun started 2 ranks, but this ganrun has no MPI'
absent d

# Another version of the program: its binary with the version string edited.
version=$("$ganrun" --version)
LC_ALL=C sed "s/$version/$(echo "$version" | tr 0-9 1-90)/" "$ganrun" >other/ganrun
chmod +x other/ganrun
ln -s "$(dirname -- "$ganrun")/libgan_mpi.so" other/
[ "$(other/ganrun --version)" != "$version" ] || fail "the other version is the same"
differ "program: line 1 is .*rank 0's is .$version" other/ganrun "$train"

# Another library.
for library in mpi dnn; do
    [ $library = mpi ] || "$ganrun" doctor | grep -q 'oneDNN *[0-9]' || continue
    faulty $library 2 $train
    ends 1
    case $library in
        mpi) says 'rank 1 has another program: line [0-9]* is `MPI Open MPI v99.0.1., rank 0.s is `MPI ';;
        dnn) says 'rank 1 has another program: line [0-9]* is `oneDNN [0-9.]*99., rank 0.s is `oneDNN ';;
    esac
    absent d
done
