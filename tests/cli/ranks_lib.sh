# ranks_lib.sh - functions for the scripts that start ranks; sourced after lib.sh.
. "$here/ranks_env.sh"

can_mpirun() { command -v mpirun >/dev/null && [ -e "$(dirname -- "$ganrun")/libgan_mpi.so" ]; }

# Skips the script if ranks cannot be started. 77: CTest's "skipped".
need_mpirun() {
    can_mpirun && return 0
    echo "SKIPPED: no mpirun, or no libgan_mpi.so beside ganrun"
    exit 77
}

# ranks CODE N WORD... : runs ganrun on N ranks with output in `out` and `err`, and checks the exit code.
ranks() {
    want=$1 n=$2
    shift 2
    code=0
    mpirun -n "$n" "$ganrun" "$@" >out 2>err || code=$?
    [ "$code" = "$want" ] || fail "on $n ranks: ganrun $*: exit code $code, not $want"
}

# start N WORD... : the same in the background, as $job. Its output files are emptied first: the shell opens those of a
# background job some time later, and until then they would hold another command's output.
start() {
    n=$1
    shift
    : >out
    : >err
    mpirun -n "$n" "$ganrun" "$@" >>out 2>>err &
    job=$!
}
# faulty FAULT[@RANK] N WORD... : the same, or $rank_program, with a fault (tests/support/fault.c) in RANK, by default the last. One
# program that tests its rank, because mpirun of Open MPI 5.0.7 crashes when given two.
faulty() {
    fault=$1 n=$2 rank=$(($2 - 1))
    shift 2
    case $fault in *@*) rank=${fault#*@} fault=${fault%@*};; esac
    : >out
    : >err
    mpirun -n "$n" sh -c '
        if [ "$OMPI_COMM_WORLD_RANK" = "$2" ]; then
            export LD_PRELOAD="$0" GAN_FAULT="$1" ASAN_OPTIONS="verify_asan_link_order=0:${ASAN_OPTIONS:-}"
        fi
        shift 2
        exec "$@"' "$(dirname -- "$ganrun")/tests/gan_fault.so" "$fault" "$rank" "${rank_program:-$ganrun}" "$@" >>out 2>>err &
    job=$!
}
# process RANK : the process id of a rank of $job, from rank 0's table. mpirun forwards output late and in pieces, so only
# complete lines count.
process() {
    until pid=$(while IFS= read -r line; do echo "$line"; done <err | sed -n "s/^ *$1  .* \([0-9][0-9]*\)\$/\1/p") && [ "$pid" ]; do
        kill -0 "$job" 2>/dev/null || fail "it ended by itself"
        sleep 0.02
    done
    echo "$pid"
}
# ends CODE|any PROCESS... : waits for $job, and for these processes, which mpirun does not wait for.
ends() {
    want=$1
    shift
    code=0
    wait "$job" || code=$?
    case $want in
        any) [ $code != 0 ] || fail "it ended without an error";;
        *) [ $code = "$want" ] || fail "it ended with $code, not $want";;
    esac
    for p in "$@"; do
        tries=0
        while grep -q '^State:[^ZX]*$' "/proc/$p/status" 2>/dev/null; do     # a zombie has ended
            [ $((tries += 1)) -lt 400 ] || fail "process $p outlived the job"
            sleep 0.05
        done
    done
}

# whole DIR : the newest checkpoint of a run is intact, and the run resumes from it on one rank.
whole() {
    last=$(ls "$1"/ckpt/*.json | tail -1)
    [ "$last" ] || fail "$1 has no checkpoint"
    step=$(basename "$last" .json | sed 's/^0*//')
    expect 0 train "$1" --steps $((step + 3))
    says "resumed from step $step"
    ! grep -q 'damaged' err || fail "a checkpoint of $1 is damaged"
}

# close_to A B : every loss of two runs, to 1e-9.
close_to() {
    losses "$1" >a
    losses "$2" >b
    paste -d' ' a b | awk -v run="$2" '
        { gsub(/[{},:"]/, " ")
          h = NF / 2
          for (i = 1; i <= h; i++) {
              d = $i - $(i + h); d = d < 0 ? -d : d
              if ($i ~ /^[0-9.e+-]+$/ ? d > 1e-9 : $i != $(i + h)) { print run ": " $i " against " $(i + h); exit 1 } } }
        END { if (!NR) { print "no losses"; exit 1 } }' || fail "losses of $1 and $2 differ"
    [ "$(wc -l <a)" = "$(wc -l <b)" ] || fail "$1 and $2 have not as many steps"
}
