#!/bin/sh
# bench.sh - every field of `ganrun bench --json`, with plausible values.
. "$(dirname -- "$0")/lib.sh"
expect 0 bench tiny.gan --batch 8 --steps 3 --warmup 1 --json
for field in model batch device precision ranks threads steps step_ms step_ms_min step_ms_p90 samples_per_s \
    gflop_per_step gflop_model gflop_per_s roofline_gflops roofline_gbs floor_ms fraction_of_roofline cold_ms warm_ms \
    peak_bytes_planned peak_bytes_measured peak_bytes_bound comm_ms comm_exposed_ms kernels launches_per_step \
    outside_ms outside_share launch_us; do
    prints "\"$field\": [\"0-9]"
done
expect 0 bench tiny.gan --batch 8 --steps 2 --device ref
prints '^  step_ms  *[0-9.]*$'; prints '^  kernels  *[0-9]*$'; prints '^  comm_bound_ms  *-$'
expect 0 bench --roofline --json
for field in device threads gflops_f32 gflops_bf16 gflops_f16 gbs; do
    prints "\"$field\": [\"0-9]"
done
# --top N: N launches, the slowest first, each with a line of the model.
expect 0 bench tiny.gan --batch 8 --steps 3 --warmup 1 --top 4
sed '1,/ms  share/d' out >rows
[ "$(wc -l <rows)" = 4 ] || fail 'not four launches'
sort -s -r -n rows | cmp -s - rows || fail 'launches are not in the order of their times'
[ "$(grep -c 'tiny.gan:' rows)" = 4 ] || fail 'a launch without its line'
expect 0 bench tiny.gan --batch 8 --steps 3 --warmup 1 --top 1000 --json
launches=$(sed -n 's/.*"launches_per_step": \([0-9]*\).*/\1/p' out)
[ "$(grep -o '"what":' out | wc -l)" = "$launches" ] || fail "of $launches launches not all are listed"
refused 2 '--timeline is of kernels on a card' ganrun bench tiny.gan --timeline t.json
# On one thread nothing waits, so the remaining time is the executor's overhead.
expect 0 bench tiny.gan --batch 64 --steps 20 --threads 1 --json
us=$(sed -n 's/.*"launch_us": \([0-9.e-]*\).*/\1/p' out)
awk "BEGIN { exit !($us > 0 && $us < 1000) }" || fail "a launch costs $us us"
# What products rearrange of weights that nothing else reads goes through one buffer: a process is not much larger than
# the plan. Six convolutions of 15 MB of weights each, with their gradients.
cat >wide.gan <<'M'
model wide
data x : image(3, 8, 8) scale(-1, 1)
fn layer(x) = x |> conv(384, k=5, pad=2) |> relu
net D(x: [3, 8, 8]) -> [] = x |> layer |> layer |> layer |> layer |> layer |> layer |> flatten |> dense(1) |> squeeze
step { update D minimize mean(D(x)) using sgd() }
M
expect 0 bench wide.gan --batch 1 --first-launch --steps 1
planned=$("$(dirname -- "$ganrun")/ganc" plan wide.gan --batch 1 --json | sed -n 's/.*"peak_bytes": \([0-9]*\).*/\1/p')
measured=$(sed -n 's/^first-launch [0-9.]* //p' out)
[ "$measured" -lt $((planned * 2)) ] || fail "the plan has $planned bytes, the process $measured"

# The process whose start and memory are measured has the options of the plan: with --memory it is smaller than the plan
# without.
cat >deep.gan <<'M'
model deep
data x : image(1, 128, 128) scale(-1, 1)
fn layer(x) = x |> conv(8, k=3, pad=1) |> tanh
net D(x: [1, 128, 128]) -> [] {
  h = x
  for i in [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12] { h = h |> layer }
  h |> flatten |> dense(1) |> squeeze
}
step { update D minimize mean(D(x)) using sgd() }
M
planned=$("$(dirname -- "$ganrun")/ganc" plan deep.gan --batch 16 --json | sed -n 's/.*"peak_bytes": \([0-9]*\).*/\1/p')
expect 0 bench deep.gan --batch 16 --memory 40M --steps 1 --warmup 0 --json
measured=$(sed -n 's/.*"peak_bytes_measured": \([0-9]*\).*/\1/p' out)
[ "$measured" -lt "$planned" ] || fail "with --memory 40M the process has $measured bytes, the plan without $planned"

# Ended while starts are timed, it leaves neither the process that starts nor the cache of that.
"$ganrun" bench tiny.gan --batch 8 --steps 1 --warmup 0 --cache "$PWD/kept" >out 2>err &
first=$!
until ls kept/ganrun-kernels-* >ls.out 2>&1; do kill -0 $first 2>/dev/null || fail "it ended by itself"; done
kill $first
code=0; wait $first || code=$?
[ "$code" -gt 128 ] || fail "ended by a signal: exit code $code"
! ls kept/ganrun-kernels-* >ls.out 2>&1 || fail "it left $(cat ls.out)"
