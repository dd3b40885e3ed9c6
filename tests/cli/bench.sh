#!/bin/sh
# bench.sh - every field of the benchmark's object, and that none of them is nonsense.
. "$(dirname -- "$0")/lib.sh"
expect 0 bench tiny.gan --batch 8 --steps 3 --warmup 1 --json
for field in model batch device precision ranks threads steps step_ms step_ms_min step_ms_p90 samples_per_s \
    gflop_per_step gflop_model gflop_per_s roofline_gflops roofline_gbs floor_ms fraction_of_roofline cold_ms warm_ms \
    peak_bytes_planned peak_bytes_measured peak_bytes_bound comm_ms comm_exposed_ms kernels launches_per_step; do
    prints "\"$field\": [\"0-9]"
done
expect 0 bench tiny.gan --batch 8 --steps 2 --device ref
prints 'step_ms'
