#!/bin/sh
# ranks_bench.sh - communication figures of `ganrun bench`: on real ranks and, in replay, on more ranks than cores.
. "$(dirname -- "$0")/lib.sh"
. "$here/ranks_lib.sh"
need_mpirun

field() { sed -n "s/.*\"$1\": \([0-9.e+-]*\).*/\1/p" out; }
# holds CONDITION : an expression of step, told (simulated step), comm, waited (exposed), bound, in ms.
holds() {
    awk -v step="$(field step_ms)" -v told="$(field simulated_ms)" -v comm="$(field comm_ms)" \
        -v waited="$(field comm_exposed_ms)" -v bound="$(field comm_bound_ms)" "BEGIN { exit !($1) }" || fail "not $1"
}

# A link so slow that communication dominates the step, and no order hides much of it.
bench="bench tiny.gan --batch 12 --threads 1 --steps 3 --warmup 1 --brief --json"
ranks 0 2 $bench --wire 3000,1
holds "comm > 3"
holds "bound > 0 && waited > 3"
holds "told > bound"

ranks 0 4 $bench --wire 3000,1 --replay
holds "comm > 3 && waited > 3 && bound > 0"
holds "told > bound"

# Without communication nothing waits.
ranks 0 2 $bench --comm null
holds "comm == 0 && waited == 0"

# Every fourth step has one more update (four calls instead of two): the timed steps are whole periods.
cat >seldom.gan <<'EOF'
model seldom "every fourth step does more"
data x : float(16)
net D(x: [16]) -> [1] = x |> dense(64) |> dense(1)
opt = sgd(lr=0.1)
step {
  update D minimize mean(D(x)^2) using opt
  every 4 { update D minimize mean(D(x)^4) using opt }
}
EOF
for how in "" --replay; do
    ranks 0 2 bench seldom.gan --batch 4 --threads 1 --steps 5 --warmup 1 --brief --json --wire 3000,1 $how
    grep -q '"steps": 8,' out || fail "not two whole rounds of four steps"
    holds "step > 7 && told > 7"
done
