# ranks_lib.sh - for the scripts that start ranks; sourced behind lib.sh.
OMPI_ALLOW_RUN_AS_ROOT=1                # tests may run as root, in a container
OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
OMPI_MCA_rmaps_base_oversubscribe=1     # more ranks than cores
OMPI_MCA_plm_rsh_agent=false            # this machine alone
export OMPI_ALLOW_RUN_AS_ROOT OMPI_ALLOW_RUN_AS_ROOT_CONFIRM OMPI_MCA_rmaps_base_oversubscribe OMPI_MCA_plm_rsh_agent

# Ends the script, visibly, where ranks cannot be started here. 77: CTest's "skipped".
need_mpirun() {
    command -v mpirun >/dev/null && [ -e "$(dirname -- "$ganrun")/libgan_mpi.so" ] && return 0
    echo "SKIPPED: no mpirun, or no libgan_mpi.so beside ganrun"
    exit 77
}

# ranks CODE N WORD... : ganrun on N ranks; output in `out` and `err`; compares the exit code.
ranks() {
    want=$1 n=$2
    shift 2
    code=0
    mpirun -n "$n" "$ganrun" "$@" >out 2>err || code=$?
    [ "$code" = "$want" ] || fail "on $n ranks: ganrun $*: exit code $code, not $want"
}

# near A B : every loss of two runs, to 1e-9.
near() {
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
