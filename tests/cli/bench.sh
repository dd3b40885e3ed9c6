#!/bin/sh
# bench.sh - every field of the benchmark's object, and that none of them is nonsense.
. "$(dirname -- "$0")/lib.sh"
expect 0 bench tiny.gan --batch 8 --steps 3 --warmup 1 --json
for field in model batch device precision ranks threads steps step_ms step_ms_min step_ms_p90 samples_per_s \
    gflop_per_step gflop_model gflop_per_s roofline_gflops roofline_gbs floor_ms fraction_of_roofline cold_ms warm_ms \
    peak_bytes_planned peak_bytes_measured peak_bytes_bound comm_ms comm_exposed_ms kernels launches_per_step \
    outside_ms outside_share launch_us; do
    prints "\"$field\": [\"0-9]"
done
expect 0 bench tiny.gan --batch 8 --steps 2 --device ref
prints 'step_ms'
# On one thread nothing is waited for: what is left is the executor.
expect 0 bench tiny.gan --batch 64 --steps 20 --threads 1 --json
us=$(sed -n 's/.*"launch_us": \([0-9.e-]*\).*/\1/p' out)
awk "BEGIN { exit !($us > 0 && $us < 1000) }" || fail "a launch costs $us us"
