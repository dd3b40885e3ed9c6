#!/bin/sh
# ranks_bench.sh - what the benchmark says of communication: on real ranks, and on more than there are cores, in replay.
. "$(dirname -- "$0")/lib.sh"
. "$here/ranks_lib.sh"
need_mpirun

field() { sed -n "s/.*\"$1\": \([0-9.e+-]*\).*/\1/p" out; }
# holds CONDITION : of step, told, comm, waited, bound, in ms.
holds() {
    awk -v step="$(field step_ms)" -v told="$(field foretold_ms)" -v comm="$(field comm_ms)" \
        -v waited="$(field comm_exposed_ms)" -v bound="$(field comm_bound_ms)" "BEGIN { exit !($1) }" || fail "not $1"
}

# A wire so slow that nothing else counts: its calls are the step, and no order of them hides much.
bench="bench tiny.gan --batch 12 --threads 1 --steps 3 --warmup 1 --brief --json"
ranks 0 2 $bench --wire 3000,1
holds "comm > 3"
holds "bound > 0 && waited > 3"
holds "told > bound"

ranks 0 4 $bench --wire 3000,1 --replay
holds "comm > 3 && waited > 3 && bound > 0"
holds "told > bound"

# Nobody talks, nobody waits.
ranks 0 2 $bench --comm null
holds "comm == 0 && waited == 0"
